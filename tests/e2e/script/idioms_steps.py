"""Idioms of training loops: other optimizers, states of optimizers, several steps and networks, and transformations (idioms.py)."""
import logging
import collections
import copy
import pickle

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import prune

from idioms import DATA, idiom, several

SGD, ADAM, ADAMW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW


# ---- another optimizer, or its state

@several("refused", {"rate": lambda ps: SGD(ps, 0.01), "kind": lambda ps: ADAM(ps, 1e-2), "same": lambda ps: SGD(ps, 0.1, momentum=0.9)}, "To begin with another one")
def optimizer_anew(s, kind):
    s.make(SGD(s.net.parameters(), 0.1, momentum=0.9))
    s.loop(2)
    s.opt = kind(s.net.parameters())
    s.loop(2)


@idiom("refused", "To begin with another one")
def optimizer_anew_with_zero_grad_of_the_network(s):
    s.make()
    s.loop(2)
    s.opt = SGD(s.net.parameters(), 0.001)
    s.loop(2, zero=s.net.zero_grad)


@idiom("equal")
def optimizer_anew_as_told(s):
    mid = s.net.mid
    s.make(SGD(s.net.parameters(), 0.1, momentum=0.9))
    s.loop(2)
    old, s.net.mid = s.net.mid, mid
    s.make(ADAM(s.net.parameters(), 1e-2))
    if s.remote:
        old.close(True)
    s.loop(3)


@idiom("refused", "To begin with another one")
def optimizers_in_turn(s):
    s.make()
    other = SGD(s.net.parameters(), 0.01)
    for i in range(4):
        opt = (s.opt, other)[i % 2]
        opt.zero_grad()
        s.loss(i).backward()
        if s.remote:
            s.net.mid.step()
        opt.step()


def zeroed(o):
    for state in o.state.values():
        for v in state.values():
            if isinstance(v, torch.Tensor) and v.dim():
                v.zero_()


@several("refused", {"clear": lambda o: o.state.clear(), "new": lambda o: setattr(o, "state", collections.defaultdict(dict)), "zeroed": zeroed, "popped": lambda o: [o.state.pop(p) for p in list(o.state)],
                     "replaced": lambda o: [o.state.__setitem__(p, {}) for p in list(o.state)]}, "begins these anew")
def state_of_the_optimizer(s, change):
    s.make(SGD(s.net.parameters(), 0.1, momentum=0.9))
    s.loop(2)
    change(s.opt)
    s.loop(2)


@several("refused", {"clear": lambda o: o.state.clear(), "zeroed": zeroed}, "begins these anew")
def state_of_adam(s, change):
    s.make(ADAM(s.net.parameters(), 1e-2))
    s.loop(2)
    change(s.opt)
    s.loop(2)


@idiom("refused", "begins these anew")
def state_cleared_where_the_optimizer_steps_first(s):
    s.make(ADAM(s.net.parameters(), 1e-2))
    for i in range(4):
        s.opt.zero_grad()
        s.loss(i).backward()
        s.opt.step()
        if s.remote:
            s.net.mid.step()
        if i == 1:
            s.opt.state.clear()


@idiom("warned", "without the optimizer's moments")
def state_cleared_as_told(s):
    s.make(ADAM(s.net.parameters(), 1e-2))
    s.loop(2)
    s.opt.state.clear()
    if s.remote:
        s.net.mid.load_state_dict(s.net.mid.state_dict())
    s.loop(2)


@idiom("equal")
def state_of_a_part_cleared(s):
    s.make(SGD(s.net.parameters(), 0.1, momentum=0.9))
    s.loop(2)
    s.opt.state[s.net.tail.weight] = {}
    s.loop(2)


@idiom("equal")
def state_read(s):
    s.make(SGD(s.net.parameters(), 0.1, momentum=0.9))
    s.loop(3, after=lambda i: s.see(s.opt.state[s.net.head.weight]["momentum_buffer"].norm()))


@idiom("equal")
def state_cleared_of_what_has_none(s):
    s.make()
    s.loop(2)
    s.opt.state.clear()
    s.loop(2)


@idiom("warned", "an optimizer's state was loaded")
def state_of_an_older_step_loaded(s):
    s.make(SGD(s.net.parameters(), 0.1, momentum=0.9))
    s.loop(1)
    old = copy.deepcopy(s.opt.state_dict())
    s.loop(2)
    s.opt.load_state_dict(old)
    s.loop(1)


@several("refused", {"behind": (True, 2), "before": (False, 2), "thrice": (True, 3)}, "twice behind one backward")
def optimizer_steps_twice(s, case):
    first, n = case
    s.make()
    for i in range(3):
        s.opt.zero_grad()
        s.loss(i).backward()
        if s.remote and first:
            s.net.mid.step()
        for _ in range(n):
            s.opt.step()
        if s.remote and not first:
            s.net.mid.step()


@idiom("equal")
def optimizer_steps_once_before(s):
    s.make()
    s.opt.zero_grad()
    s.opt.step()
    s.loop(3)


@several("refused", {"mul": lambda s: [setattr(p.grad, "data", p.grad.data * 2) for p in s.net.parameters()], "inside": lambda s: [p.grad.data.mul_(2) for p in s.net.parameters()],
                     "new": lambda s: [setattr(p, "grad", p.grad * 2) for p in s.net.parameters()], "foreach": lambda s: torch._foreach_mul_([p.grad for p in s.net.parameters()], 2.0)}, "as scale")
def gradients_twice(s, change):
    s.make()
    s.loop(each=lambda i: change(s))


@several("refused", {"clones": lambda s: [(p.grad.clone() * 0.5).norm() for p in s.net.parameters()], "dot": lambda s: [p.grad.flatten() @ p.grad.flatten() for p in s.net.parameters()],
                     "items": lambda s: [p.grad.flatten()[0].item() for p in s.net.parameters()], "numpy": lambda s: [p.grad.numpy() for p in s.net.parameters()],
                     "buffer": lambda s: [torch.zeros(1).copy_(p.grad.flatten()[:1]) for p in s.net.parameters()], "where": lambda s: [torch.where(p.grad > 0, 1, 0) for p in s.net.parameters()],
                     "topk": lambda s: [p.grad.flatten().topk(1) for p in s.net.parameters()]}, "of all gradients misses the middle's")
def gradients_measured(s, measure):
    s.make()
    s.loop(each=lambda i: measure(s))


@several("equal", {"isnan": lambda s: any(torch.isnan(p.grad).any() for p in s.net.parameters()), "isfinite": lambda s: all(bool(torch.isfinite(p.grad).all()) for p in s.net.parameters())})
def gradients_checked(s, check):
    s.make()
    s.loop(each=lambda i: s.see(check(s)))


# ---- steps by hand

def by(p):
    return 0.1 * p.grad


@several("equal", {"minus": lambda p: p.sub_(by(p)), "alpha": lambda p: p.add_(p.grad, alpha=-0.1), "data": lambda p: p.data.sub_(0.1 * p.grad.data)})
def descent_by_hand(s, move):
    s.make()
    for i in range(4):
        s.net.zero_grad()
        s.loss(i).backward()
        if s.remote:
            s.net.mid.step()
        with torch.no_grad():
            for p in s.net.parameters():
                if p.grad is not None:
                    move(p)


@idiom("equal")
def descent_by_hand_with_momentum(s):
    s.make(SGD(s.net.parameters(), 0.1, momentum=0.9))
    held = {}
    for i in range(4):
        s.net.zero_grad()
        s.loss(i).backward()
        if s.remote:
            s.net.mid.step()
        with torch.no_grad():
            for p in s.net.parameters():
                if p.grad is not None:
                    held[p] = held[p].mul_(0.9).add_(p.grad) if p in held else p.grad.clone()
                    p.sub_(held[p], alpha=0.1)


@several("refused", {"drop": True, "zero_grad": False}, "as by SAM")
def sharpness_aware(s, drops):
    s.make()
    for i in range(2):
        s.opt.zero_grad()
        s.loss(i).backward()
        moved = []
        with torch.no_grad():
            for p in s.net.parameters():
                moved.append(0.05 * p.grad)
                p.add_(moved[-1])
        if s.remote and drops:
            s.net.mid.drop()
        s.opt.zero_grad()
        s.loss(i).backward()
        with torch.no_grad():
            for p, by in zip(s.net.parameters(), moved):
                p.sub_(by)
        s.step()


@several("warned", {"noise": lambda p: p.add_(0.01), "decay": lambda p: p.mul_(0.99), "data": lambda p: p.data.mul_(0.9), "clamp": lambda p: p.data.clamp_(-2, 2), "set": lambda p: setattr(p, "data", p.data * 0.9)},
         "parameters() has one number")
def parameters_changed(s, change):
    s.make()

    def after(i):
        with torch.no_grad():
            for p in s.net.parameters():
                change(p)
    s.loop(3, after=after)


@idiom("warned", "parameters() has one number")
def rates_searched_and_weights_restored(s):
    s.make()
    start = [p.detach().clone() for p in s.net.parameters()]
    s.loop(2)
    with torch.no_grad():
        for p, was in zip(s.net.parameters(), start):
            p.copy_(was)
    s.loop(1)


@idiom("equal")
def rates_searched_by_state_dict(s):
    s.make()
    start = copy.deepcopy(s.net.state_dict())
    for rate in (1e-3, 1e-2, 1e-1):
        for group in s.opt.param_groups:
            group["lr"] = rate
        s.loop(1)
    s.net.load_state_dict(start)
    s.loop(2)


@idiom("refused", "the middle has SGD, Adam, AdamW without")
def lbfgs_with_a_closure(s):
    s.make(torch.optim.LBFGS(s.net.parameters(), 0.1))


# ---- between step() of the middle and that of the optimizer

def parameters(change):
    return lambda s: [change(p) for p in s.net.parameters()]


BETWEEN = {"clip_value": lambda s: nn.utils.clip_grad_value_(s.net.parameters(), 0.01), "mul": parameters(lambda p: p.grad.mul_(0.5)), "data": parameters(lambda p: p.grad.data.clamp_(-0.01, 0.01)), "noise": parameters(lambda p: p.grad.add_(torch.ones_like(p.grad) * 0.01)),
           "sign": parameters(lambda p: p.grad.sign_()), "decay": parameters(lambda p: p.grad.add_(p.data, alpha=0.1)), "set": parameters(lambda p: setattr(p, "grad", p.grad * 0.5)), "none": parameters(lambda p: setattr(p, "grad", None)),
           "out": parameters(lambda p: torch.nan_to_num(p.grad, 0, 0, 0, out=p.grad)), "foreach": lambda s: torch._foreach_mul_([p.grad for p in s.net.parameters()], 0.5), "zero_grad": lambda s: s.net.zero_grad(), "zeros": lambda s: s.opt.zero_grad(set_to_none=False)}


def with_between(s, change, left_out=()):
    for i in range(3):
        s.opt.zero_grad()
        s.loss(i).backward()
        if s.remote:
            s.net.mid.step()
        change(s)
        if i not in left_out:
            s.opt.step()


@several("warned", BETWEEN, "behind step() of the middle and before that of the optimizer")
def gradients_between_the_steps(s, change):
    s.make()
    with_between(s, change)


@idiom("warned", "behind step() of the middle and before that of the optimizer")
def optimizer_left_out_of_a_step(s):
    s.make()
    with_between(s, lambda s: None, (1,))


@several("equal", {"ends": lambda s: s.net.head.weight.grad.mul_(0.5), "read": parameters(lambda p: p.grad is None), "kept": parameters(lambda p: setattr(p, "grad", p.grad)), "clone": parameters(lambda p: p.grad.clone().mul_(2) is None)})
def gradients_read_between_the_steps(s, change):
    s.make()
    with_between(s, change)


@several("equal", {"zero": lambda p: p.grad is not None and p.grad.zero_(), "none": lambda p: setattr(p, "grad", None)})
def gradients_taken_away_behind_both(s, change):
    s.make()
    for i in range(3):
        s.loss(i).backward()
        s.step()
        parameters(change)(s)


@idiom("equal")
def nothing_but_the_middle_learns(s):
    s.net.head.requires_grad_(False)
    s.net.tail.requires_grad_(False)
    s.make()
    for i in range(3):
        s.opt.zero_grad()
        s.loss(i).backward()
        s.net.mid.step() if s.remote else s.opt.step()


class Once(logging.Handler):
    def __init__(self):
        super().__init__()
        self.count = 0

    def emit(self, record):
        self.count += "the middle does not learn" in record.getMessage()


@idiom("warned", "the middle does not learn")
def attack_of_seven_steps_warned_of_once(s):
    s.make()
    log = Once()
    logging.getLogger("split").addHandler(log)
    for i in range(3):
        for _ in range(7):
            s.loss(i).backward()
            s.opt.zero_grad()
        s.loss(i).backward()
        s.step()
        s.opt.zero_grad()
    logging.getLogger("split").removeHandler(log)
    assert log.count == s.remote, log.count


# ---- several networks, several losses

def critic_of(s):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))


@idiom("equal")
def generator_and_critic(s):
    """The network generates; the critic has an optimizer of its own, and reads what is detached."""
    critic = critic_of(s)
    theirs = SGD(critic.parameters(), 0.05)
    s.make()
    for i in range(3):
        fake = s.net(DATA[i][0])
        theirs.zero_grad()
        (critic(fake.detach()).mean() - critic(torch.ones(8, 3)).mean()).backward()
        theirs.step()
        s.opt.zero_grad()
        (-critic(fake).mean()).backward()
        s.step()
    s.see(critic[0].weight.double().sum())


@idiom("refused", "a gradient of the middle's gradient")
def critic_with_a_penalty_of_its_gradient(s):
    s.make()
    x = DATA[0][0].clone().requires_grad_()
    grad, = torch.autograd.grad(s.net(x).sum(), x, create_graph=True)
    s.opt.zero_grad()
    ((grad.norm(dim=1) - 1) ** 2).mean().backward()
    s.step()


@idiom("equal")
def teacher_is_the_module_from_before(s):
    teacher = copy.deepcopy(s.net).eval()
    s.make()
    s.loop(2)

    def loss(i):
        x, t = DATA[i]
        with torch.no_grad():
            wanted = teacher(x)
        y = s.net(x)
        return F.cross_entropy(y, t) + F.mse_loss(y, wanted)
    s.loss = loss
    s.loop(2)


@idiom("equal")
def teacher_is_a_copy_of_plain(s):
    mid = s.net.mid
    s.make()
    s.loop(2)
    teacher = nn.Sequential(copy.deepcopy(s.net.head), copy.deepcopy(mid), copy.deepcopy(s.net.tail))
    s.loss = lambda i: F.mse_loss(s.net(DATA[i][0]), teacher(DATA[i][0]).detach())
    s.loop(2)


@idiom("equal")
def teacher_moves_with_the_student(s):
    mid = s.net.mid
    s.make()
    teacher = nn.Sequential(copy.deepcopy(s.net.head), copy.deepcopy(mid), copy.deepcopy(s.net.tail))

    def after(i):
        with torch.no_grad():
            for part, of in zip(teacher, (s.net.head, mid, s.net.tail)):
                for a, b in zip(part.parameters(), of.parameters()):
                    a.mul_(0.9).add_(b, alpha=0.1)
    s.loop(3, after=after)
    with torch.no_grad():
        s.see(teacher(DATA[0][0]).norm())


@several("equal", {"ones": 1, "mixed": 0.3})
def losses_of_two_weights(s, a):
    s.make()
    s.loss = lambda i: (lambda y: a * F.cross_entropy(y, DATA[i][1]) + (1 - a) * y.pow(2).mean())(s.net(DATA[i][0]))
    s.loop()


@idiom("equal")
def layers_of_the_ends_frozen_in_turn(s):
    s.make()
    for k in range(3):
        s.net.head.requires_grad_(k != 1)
        s.loop(2)


@idiom("equal")
def rates_of_layers(s):
    s.make(ADAMW([{"params": m.parameters(), "lr": 1e-2 * 0.5 ** k} for k, m in enumerate((s.net.tail, s.net.mid[2], s.net.mid[0], s.net.head))]))
    plan = torch.optim.lr_scheduler.LambdaLR(s.opt, lambda i: 0.9 ** i)
    s.loop(after=lambda i: plan.step())


@idiom("equal")
def tail_swapped_and_its_group(s):
    s.make(SGD([{"params": [*s.net.head.parameters(), *s.net.mid.parameters()]}, {"params": s.net.tail.parameters()}], 0.1, momentum=0.9))
    s.loop(2)
    for p in s.net.tail.parameters():
        s.opt.state.pop(p, None)
    torch.manual_seed(7)
    s.net.tail = nn.Linear(16, 3)
    s.opt.param_groups[1]["params"] = list(s.net.tail.parameters())
    s.loop(2)


@idiom("refused", "were taken away")
def group_without_the_middle(s):
    s.make()
    s.loop(1)
    s.opt.param_groups[0]["params"] = [*s.net.head.parameters(), *s.net.tail.parameters()]
    s.loop(1)


@idiom("equal")
def tail_begins_anew(s):
    s.make(SGD(s.net.parameters(), 0.1, momentum=0.9))
    s.loop(2)
    torch.manual_seed(7)
    s.net.tail.reset_parameters()
    s.loop(2)


@idiom("equal")
def optimizer_printed_and_copied(s):
    s.make(SGD(s.net.parameters(), 0.1, momentum=0.9))
    s.loop(2)
    str(s.opt), str(s.net)
    copy.deepcopy(s.opt.state_dict())
    s.loop(2)


@several("warned", {"deepcopy": copy.deepcopy, "pickle": pickle.dumps, "parameters": lambda o: copy.deepcopy(o.param_groups)}, "parameters() has one number")
def optimizer_copied(s, copied):
    s.make(SGD(s.net.parameters(), 0.1, momentum=0.9))
    s.loop(2)
    copied(s.opt)
    s.loop(2)


# ---- transformations, modes of autograd

def called(net, x, names):
    from torch.nn.utils import stateless
    call = getattr(torch, "func", stateless).functional_call
    return call(net, names, x)


@idiom("equal")
def functional_call_of_plain(s):
    mid = s.net.mid
    s.make()
    s.loop(2)
    s.see(called(mid, torch.ones(2, 16), dict(mid.named_parameters())).sum())
    s.see(called(mid, torch.ones(2, 16), {k: v * 2 for k, v in mid.named_parameters()}).sum())
    s.loop(1)


@idiom("equal")
def functional_call_with_its_own(s):
    s.make()
    s.loop(1)
    s.see(called(s.net.eval(), DATA[0][0], dict(s.net.named_parameters())).sum())


@idiom("refused", "another tensor in its place")
def functional_call_of_the_network(s):
    s.make()
    s.loop(1)
    s.see(called(s.net.eval(), DATA[0][0], {k: v * 1.5 for k, v in s.net.named_parameters()}).sum())


@several("equal", {"set_grad_enabled": lambda: torch.set_grad_enabled(False), "inference": torch.inference_mode})
def plain_under(s, guard):
    mid = s.net.mid
    s.make()
    for _ in range(2):
        s.loop(1)
        with guard():
            s.see(mid(torch.ones(2, 16)).sum())
            s.see(mid[0].weight.norm())


@idiom("equal")
def plain_compiled(s):
    mid = s.net.mid
    s.make()
    s.loop(2)
    net = torch.compile(mid, backend="eager") if hasattr(torch, "compile") else mid
    with torch.no_grad():
        s.see(net(torch.ones(2, 16)).sum())
    s.loop(1)
    with torch.no_grad():
        s.see(net(torch.ones(2, 16)).sum())


@idiom("equal")
def plain_gradients_of_its_own(s):
    """Saliency through the module itself, in this process."""
    mid = s.net.mid
    s.make()
    s.loop(2)
    x = torch.ones(2, 16, requires_grad=True)
    grad, = torch.autograd.grad(mid(x).sum(), x)
    s.see(grad.norm())
    s.loop(1)


@idiom("equal")
def fisher_of_plain(s):
    mid = s.net.mid
    s.make()
    s.loop(2)
    grads = torch.autograd.grad(mid(torch.ones(2, 16)).sum(), list(mid.parameters()))
    s.see(sum(g.norm() for g in grads))
    s.loop(1)


@idiom("equal")
def accumulate_by_one_loss(s):
    s.make(calls=3)
    for i in range(2):
        s.opt.zero_grad()
        (sum(s.loss(3 * i + k) for k in range(3)) / 3).backward()
        s.step()


@idiom("equal")
def parallel_wrap_of_the_ends(s):
    s.make()
    s.net.head, s.net.tail = nn.DataParallel(s.net.head), nn.DataParallel(s.net.tail)
    s.loop(3)


@idiom("equal")
def ends_with_weight_norm(s):
    s.net.tail = nn.utils.weight_norm(s.net.tail)
    s.make()
    s.loop(3)


@several("equal", {"prune": lambda m: prune.l1_unstructured(m, "weight", 0.5), "spectral": lambda m: nn.utils.parametrizations.spectral_norm(m)})
def ends_transformed_before(s, transform):
    torch.manual_seed(9)
    transform(s.net.head)
    s.make()
    s.loop(3)


@idiom("equal")
def script_goes_on_behind_close(s):
    mid = s.net.mid
    s.make()
    s.loop(3)
    if s.remote:
        s.net.mid.state_dict()
        s.net.mid.close(True)
    s.net.mid = mid
    opt = SGD(s.net.parameters(), 0.05)
    for i in range(3):
        opt.zero_grad()
        s.loss(i).backward()
        s.see(nn.utils.clip_grad_norm_(s.net.parameters(), 0.1))
        opt.step()
