"""Idioms of loops: steps that leave something out, orders of step(), several middles, checkpoints (idioms.py)."""
import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import lr_scheduler
from torch.optim.swa_utils import update_bn

import split
from idioms import DATA, Net, idiom, server, several

SGD, ADAM = torch.optim.SGD, torch.optim.Adam
MOVES = {"momentum": lambda p: SGD(p, 0.1, momentum=0.9), "decay": lambda p: SGD(p, 0.1, weight_decay=0.1), "adam": lambda p: ADAM(p, 1e-2)}


# ---- outputs that the loss does not read

class Forks(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.left, self.right = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        x = torch.tanh(self.stem(x))
        return self.left(x), self.right(x)


def forks(s, optimizer, reads_both, none=True):
    s.net.mid = Forks()
    s.make(optimizer(s.net.parameters()))
    for i in range(4):
        s.opt.zero_grad(set_to_none=none)
        y, z = s.net.mid(s.net.head(DATA[i][0]))
        F.cross_entropy(s.net.tail(y + z if reads_both(i) else y), DATA[i][1]).backward()
        s.step()


@several("warned", MOVES, "did not read all outputs")
def output_read_in_every_second_step(s, optimizer):
    forks(s, optimizer, lambda i: i % 2 == 0)


@idiom("warned", "did not read all outputs")
def output_never_read(s):
    forks(s, MOVES["decay"], lambda i: False)


@several("equal", {"momentum": MOVES["momentum"], "adam": MOVES["adam"]})
def output_never_read_and_no_decay(s, optimizer):
    forks(s, optimizer, lambda i: False)


@several("equal", {"zeros": (MOVES["momentum"], False), "zeros_and_decay": (MOVES["decay"], False), "zeros_and_adam": (MOVES["adam"], False), "sgd": (lambda p: SGD(p, 0.1), True)})
def output_read_in_every_second_step_and(s, case):
    forks(s, case[0], lambda i: i % 2 == 0, case[1])


# ---- steps that are left out

def dropped(s):
    if s.remote:
        s.net.mid.drop()


def skips(s, behind_backward, drops):
    s.make()
    for i in range(4):
        s.opt.zero_grad()
        loss = s.loss(i)
        if behind_backward:
            loss.backward()
        if i == 1:
            drops(s)
            continue
        if not behind_backward:
            loss.backward()
        s.step()


SKIPS = {"forward": (False, dropped), "backward": (True, dropped), "zero_grad": (True, lambda s: None)}


@several("warned", SKIPS, "what its forward added to their statistics", layers="norm")
def step_left_out_of_a_norm(s, case):
    skips(s, *case)


@several("equal", SKIPS)
def step_left_out(s, case):
    skips(s, *case)


def every_second(s, optimizer, none):
    s.make(optimizer(s.net.parameters()))
    for i in range(6):
        s.opt.zero_grad(set_to_none=none)
        if i % 2:
            F.cross_entropy(s.net.tail(s.net.head(DATA[i][0])), DATA[i][1]).backward()
            s.opt.step()
        else:
            s.loss(i).backward()
            s.step()


@several("refused", MOVES, "write zero_grad(set_to_none=True)")
def middle_in_every_second_step_behind_zeros(s, optimizer):
    every_second(s, optimizer, False)


@several("equal", {**{k: (v, True) for k, v in MOVES.items()}, "sgd_and_zeros": (lambda p: SGD(p, 0.1), False)})
def middle_in_every_second_step(s, case):
    every_second(s, *case)


@idiom("equal")
def zero_grad_of_both(s):
    """split.Optimizer, whose zero_grad() is that of this version of PyTorch."""
    s.make(SGD(s.net.parameters(), 0.1, momentum=0.9))
    both = split.Optimizer(s.opt, s.net.mid) if s.remote else s.opt
    extra = nn.Parameter(torch.ones(3))
    s.opt.add_param_group({"params": [extra]})
    for i in range(4):
        both.zero_grad()
        y = s.net(DATA[i][0])
        F.cross_entropy(y * extra if i % 2 == 0 else y, DATA[i][1]).backward()
        both.step()
    s.see(extra.sum())


# ---- orders of step()

def in_order(s, order):
    s.make()
    plan = lr_scheduler.StepLR(s.opt, 1, 0.5)
    for i in range(4):
        s.opt.zero_grad()
        s.loss(i).backward()
        for who in order.split("_"):
            if who != "middle" or s.remote:
                {"middle": lambda: s.net.mid.step(), "optimizer": s.opt.step, "schedule": plan.step}[who]()


@several("equal", {k: k for k in ("middle_optimizer_schedule", "optimizer_middle_schedule", "optimizer_schedule_middle", "schedule_optimizer_middle", "schedule_middle_optimizer")})
def steps_in_order(s, order):
    in_order(s, order)


@idiom("refused", "was changed between step() of the middle and that of the optimizer")
def schedule_between_middle_and_optimizer(s):
    in_order(s, "middle_schedule_optimizer")


@idiom("equal")
def rate_by_hand_between(s):
    s.make()
    for i in range(4):
        s.opt.zero_grad()
        s.loss(i).backward()
        s.opt.step()
        for group in s.opt.param_groups:
            group["lr"] *= 0.5
        if s.remote:
            s.net.mid.step()


# ---- several middles

class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.head, self.tail = nn.Linear(6, 16), nn.Linear(16, 3)
        self.mid, self.more = (nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(2))

    def forward(self, x):
        return self.tail(self.more(self.mid(self.head(x))))


def with_two(s, optimizer, each=lambda: None, order=("mid", "more", "opt"), groups=lambda n: n.parameters()):
    torch.manual_seed(1)
    s.net = Twice()
    s.opt = optimizer(groups(s.net))
    if s.remote:
        for name in ("mid", "more"):
            setattr(s.net, name, split.RemoteModule(getattr(s.net, name), server, example=(8, 16), optimizer=s.opt))
    try:
        for i in range(4):
            s.opt.zero_grad()
            s.loss(i).backward()
            each()
            for who in order:
                if who == "opt":
                    s.opt.step()
                elif s.remote:
                    getattr(s.net, who).step()
        s.kept = s.net.state_dict()
        s.state = lambda: {k: v.double() for k, v in s.kept.items()}
    finally:
        s.remote and s.net.more.close(True)


@several("equal", {**MOVES, "sgd": lambda p: SGD(p, 0.1)})
def two_middles(s, optimizer):
    with_two(s, optimizer)


@several("equal", {"optimizer_first": ("opt", "mid", "more"), "between": ("mid", "opt", "more")})
def two_middles_in_order(s, order):
    with_two(s, MOVES["momentum"], order=order)


@idiom("equal")
def two_middles_of_two_rates(s):
    with_two(s, lambda groups: SGD(groups, 0.1), groups=lambda n: [{"params": [*n.head.parameters(), *n.tail.parameters()]}, {"params": n.mid.parameters(), "lr": 0.05},
                                                                     {"params": n.more.parameters(), "lr": 0.01}])


@idiom("equal")
def two_middles_clipped(s):
    def clip():
        ps = s.net.parameters()
        s.see(split.clip_grad_norm_(ps, [s.net.mid, s.net.more], 0.01) if s.remote else nn.utils.clip_grad_norm_(ps, 0.01))
    with_two(s, MOVES["momentum"], clip)


@several("refused", {"first": ("mid",), "second": ("more",), "in_turn": ("mid", "more")}, "a list of all middles")
def two_middles_clipped_by_one(s, names):
    with_two(s, MOVES["momentum"], lambda: [split.clip_grad_norm_(s.net.parameters(), getattr(s.net, name), 0.01) for name in names])


@idiom("refused", "twice behind one backward")
def two_middles_stepped_twice(s):
    with_two(s, MOVES["momentum"], order=("mid", "more", "opt", "opt"))


# ---- what was refused, or warned of, and is as in PyTorch

@several("equal", {"sgd": lambda p: SGD(p, 0.1), **MOVES})
def frozen_middle_and_optimizer_of_what_learns(s, optimizer):
    s.net.mid.requires_grad_(False)
    s.make(optimizer(filter(lambda p: p.requires_grad, s.net.parameters())))
    s.loop(3)


@idiom("equal")
def clip_of_head_and_tail_each(s):
    s.make()
    s.loop(3, each=lambda i: [nn.utils.clip_grad_norm_(m.parameters(), 0.01) for m in (s.net.head, s.net.tail)])


@idiom("equal")
def clip_of_each_part(s):
    def clip(m):
        split.clip_grad_norm_(m.parameters(), m, 0.01) if isinstance(m, split.RemoteModule) else nn.utils.clip_grad_norm_(m.parameters(), 0.01)
    s.make()
    s.loop(3, each=lambda i: [clip(m) for m in (s.net.head, s.net.mid, s.net.tail)])


@several("equal", {"sgd": lambda p: SGD(p, 0.1), **MOVES})
def best_weights_evaluated(s, optimizer):
    s.make(optimizer(s.net.parameters()))
    s.loop(2)
    best = copy.deepcopy(s.net.state_dict())
    s.loop(2)
    s.net.load_state_dict(best)
    s.net.eval()
    with torch.no_grad():
        s.see(s.loss(5))


INSIDE = [lambda n: {"params": [*n.head.parameters(), *n.mid[0].parameters()]}, lambda n: {"params": [*n.mid[2].parameters(), *n.tail.parameters()]}]
PARTS = [lambda n: {"params": n.head.parameters()}, lambda n: {"params": n.mid.parameters()}, lambda n: {"params": n.tail.parameters()}]


@several("equal", {"behind": (INSIDE, [0.1, 0.05], False), "before": (INSIDE, [0.1, 0.05], True), "of_parts": (PARTS, [0.1, 0.05, 0.2], False)})
def onecycle_of_a_list(s, case):
    of, rates, before = case
    opt = SGD([part(s.net) for part in of], 0.1)
    make = [lambda: s.make(opt), lambda: lr_scheduler.OneCycleLR(opt, rates, total_steps=8, cycle_momentum=False)]
    plan = [f() for f in (make[::-1] if before else make)][0 if before else 1]
    s.loop(5, after=lambda i: plan.step())


# ---- checkpoints of the plain network, averages

@idiom("refused", "Leave the optimizer's state out")
def state_of_a_plain_optimizer_loaded(s):
    plain = Net("plain")
    opt = SGD(plain.parameters(), 0.1, momentum=0.9)
    F.cross_entropy(plain(DATA[0][0]), DATA[0][1]).backward()
    opt.step()
    s.make(SGD(s.net.parameters(), 0.1, momentum=0.9))
    s.net.load_state_dict(plain.state_dict())
    s.opt.load_state_dict(opt.state_dict())


@idiom("refused", "update_bn() of a network with the module itself", layers="norm")
def update_bn_of_the_network(s):
    s.make()
    s.loop(2)
    update_bn([x for x, _ in DATA], s.net)


@idiom("equal", layers="norm")
def update_bn_of_the_plain_network(s):
    mid = s.net.mid
    s.make()
    s.loop(2)
    net = nn.Sequential(*map(copy.deepcopy, (s.net.head, mid, s.net.tail)))
    update_bn([x for x, _ in DATA], net)
    with torch.no_grad():
        s.see(net.eval()(DATA[0][0]).sum())


@idiom("equal")
def update_bn_of_a_head(s):
    s.net.head = nn.Sequential(s.net.head, nn.BatchNorm1d(16))
    s.make()
    s.loop(2)
    update_bn([x for x, _ in DATA], s.net)
    s.net.eval()
    with torch.no_grad():
        s.see(s.loss(5))
