"""Idioms of optimizers, rates, gradients and penalties (idioms.py)."""
import math

import torch
import torch.nn.functional as F
from torch import nn

import split
from idioms import DATA, idiom, several

SGD, ADAM, ADAMW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW


# ---- optimizers

@several("equal", {
    "sgd": lambda p: SGD(p, 0.1), "momentum": lambda p: SGD(p, 0.05, momentum=0.9), "nesterov": lambda p: SGD(p, 0.05, momentum=0.9, nesterov=True),
    "decay": lambda p: SGD(p, 0.1, weight_decay=0.01), "adam": lambda p: ADAM(p, 1e-3), "adam_decay": lambda p: ADAM(p, 1e-3, weight_decay=0.01),
    "adam_betas": lambda p: ADAM(p, 1e-3, betas=(0.8, 0.99), eps=1e-6), "adamw": lambda p: ADAMW(p, 1e-3), "adamw_decay": lambda p: ADAMW(p, 1e-3, weight_decay=0.1)})
def optimizer(s, kind):
    s.make(kind(s.net.parameters()))
    s.loop()


@several("refused", {
    "rmsprop": lambda p: torch.optim.RMSprop(p), "adagrad": lambda p: torch.optim.Adagrad(p), "adadelta": lambda p: torch.optim.Adadelta(p),
    "nadam": lambda p: torch.optim.NAdam(p), "radam": lambda p: torch.optim.RAdam(p), "adamax": lambda p: torch.optim.Adamax(p),
    "rprop": lambda p: torch.optim.Rprop(p), "lbfgs": lambda p: torch.optim.LBFGS(p), "asgd": lambda p: torch.optim.ASGD(p),
    "amsgrad": lambda p: ADAM(p, 1e-3, amsgrad=True), "maximize": lambda p: SGD(p, 0.1, maximize=True),
    "dampening": lambda p: SGD(p, 0.1, momentum=0.9, dampening=0.1)}, "the middle has SGD, Adam, AdamW without")
def optimizer_unknown(s, kind):
    s.make(kind(list(s.net.parameters())))


@several("equal", {"sgd": ({"kind": "sgd", "lr": 0.1}, lambda p: SGD(p, 0.1)), "adam": ({"kind": "adam", "lr": 1e-3}, lambda p: ADAM(p, 1e-3)),
                   "adamw": ({"kind": "adamw", "lr": 1e-3}, lambda p: ADAMW(p, 1e-3)), "no_kind": ({"lr": 0.1}, lambda p: SGD(p, 0.1))})
def optimizer_as_dict(s, case):
    given, kind = case
    ends = [*s.net.head.parameters(), *s.net.tail.parameters()]
    s.make(kind(ends if s.remote else s.net.parameters()), optimizer=given)
    s.loop()


@idiom("warned", "the middle was made with a dict")
def optimizer_made_behind(s):
    if s.remote:
        s.make(SGD([torch.zeros(1, requires_grad=True)], 0.1), optimizer={"kind": "sgd", "lr": 0.1})
    s.opt = SGD(s.net.parameters(), 0.1)
    plan = torch.optim.lr_scheduler.StepLR(s.opt, 1, 0.1)
    s.loop(after=lambda i: plan.step())


@idiom("refused", "has stepped")
def optimizer_has_stepped(s):
    opt = SGD(s.net.parameters(), 0.1, momentum=0.9)
    s.loss().backward()
    opt.step()
    s.make(opt)


@idiom("refused", "lacks parameters of the middle")
def optimizer_of_the_ends_alone(s):
    s.make(SGD([*s.net.head.parameters(), *s.net.tail.parameters()], 0.1))


@several("equal", {
    "lr": lambda n: [{"params": n.head.parameters(), "lr": 0.01}, {"params": [*n.mid.parameters(), *n.tail.parameters()]}],
    "lr_inside": lambda n: [{"params": [*n.head.parameters(), *n.mid[0].parameters()], "lr": 0.02}, {"params": [*n.mid[2].parameters(), *n.tail.parameters()]}],
    "no_decay": lambda n: [{"params": [p for k, p in n.named_parameters() if "bias" not in k], "weight_decay": 0.1},
                           {"params": [p for k, p in n.named_parameters() if "bias" in k], "weight_decay": 0}]})
def groups(s, of):
    s.make(SGD(of(s.net), 0.1, momentum=0.9))
    s.loop()


@idiom("refused", "factors")
def groups_of_other_factors(s):
    s.make(SGD([{"params": s.net.mid[0].parameters(), "lr": 0.02}, {"params": [*s.net.mid[2].parameters(), *s.net.head.parameters(), *s.net.tail.parameters()]}], 0.1))

    def halve(i):
        s.opt.param_groups[0]["lr"] *= 0.5
    s.loop(after=halve)


@idiom("equal")
def two_optimizers(s):
    ends = SGD([*s.net.head.parameters(), *s.net.tail.parameters()], 0.1)
    s.make(ADAM(s.net.mid.parameters(), 1e-3))
    for i in range(5):
        for opt in (ends, s.opt):
            opt.zero_grad()
        s.loss(i).backward()
        s.step()
        ends.step()


@idiom("equal")
def split_optimizer(s):
    s.make(SGD(s.net.parameters(), 0.1, momentum=0.9))
    both = split.Optimizer(s.opt, s.net.mid) if s.remote else s.opt
    for i in range(5):
        both.zero_grad()
        s.loss(i).backward()
        both.step()


@idiom("equal")
def closure(s):
    s.make()
    both = split.Optimizer(s.opt, s.net.mid) if s.remote else s.opt
    for i in range(4):
        def again(i=i):
            both.zero_grad()
            loss = s.loss(i)
            loss.backward()
            return loss
        s.see(both.step(again))


# ---- zero_grad

@several("equal", {
    "to_none": lambda s: s.opt.zero_grad(set_to_none=True), "to_zero": lambda s: s.opt.zero_grad(set_to_none=False), "net": lambda s: s.net.zero_grad(),
    "net_to_zero": lambda s: s.net.zero_grad(set_to_none=False), "none_each": lambda s: [setattr(p, "grad", None) for p in s.net.parameters()],
    "zero_each": lambda s: [p.grad.zero_() for p in s.net.parameters() if p.grad is not None],
    "detach_each": lambda s: [p.grad.detach_().zero_() for p in s.net.parameters() if p.grad is not None]})
def zero_grad(s, zero):
    s.make(SGD(s.net.parameters(), 0.1, momentum=0.9))
    s.loop(zero=lambda: zero(s))


@idiom("equal")
def zero_grad_behind_step(s):
    s.make()
    s.loop(zero=lambda: None, after=lambda i: s.opt.zero_grad())


@idiom("equal")
def zero_grad_before_backward(s):
    s.make()
    for i in range(5):
        loss = s.loss(i)
        s.opt.zero_grad()
        loss.backward()
        s.step()


@idiom("warned", "zero_grad() was not called")
def zero_grad_never(s):
    s.make()
    s.loop(zero=lambda: None)


@idiom("warned", "the middle does not learn")
def zero_grad_between_backward_and_step(s):
    s.make()
    for i in range(5):
        s.loss(i).backward()
        s.opt.zero_grad()
        s.step()


# ---- learning rates

@several("equal", {
    "step": lambda o: torch.optim.lr_scheduler.StepLR(o, 2, 0.5), "multistep": lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [1, 3], 0.1),
    "exponential": lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.8), "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 5),
    "restarts": lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 2), "lambda": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda i: 1 / (1 + i)),
    "from_zero": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda i: i / 5), "multiplicative": lambda o: torch.optim.lr_scheduler.MultiplicativeLR(o, lambda i: 0.9),
    "linear": lambda o: torch.optim.lr_scheduler.LinearLR(o, 0.1, total_iters=4), "constant": lambda o: torch.optim.lr_scheduler.ConstantLR(o, 0.5, total_iters=2),
    "polynomial": lambda o: torch.optim.lr_scheduler.PolynomialLR(o, 5),
    "sequential": lambda o: torch.optim.lr_scheduler.SequentialLR(o, [torch.optim.lr_scheduler.LinearLR(o, 0.1, total_iters=2), torch.optim.lr_scheduler.ExponentialLR(o, 0.9)], [2]),
    "onecycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.2, total_steps=6, cycle_momentum=False),
    "cyclic": lambda o: torch.optim.lr_scheduler.CyclicLR(o, 0.01, 0.1, 2, cycle_momentum=False)})
def schedule(s, of):
    s.make(SGD(s.net.parameters(), 0.1, momentum=0.9))
    plan = of(s.opt)
    s.loop(after=lambda i: plan.step())


@idiom("equal")
def schedule_by_plateau(s):
    s.make()
    plan = torch.optim.lr_scheduler.ReduceLROnPlateau(s.opt, patience=0)
    s.loop(after=lambda i: plan.step(1.0))


@several("refused", {"onecycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.2, total_steps=6), "cyclic": lambda o: torch.optim.lr_scheduler.CyclicLR(o, 0.01, 0.1, 2)},
         "cycle_momentum=False")
def schedule_of_momentum(s, of):
    s.make(SGD(s.net.parameters(), 0.1, momentum=0.9))
    plan = of(s.opt)
    s.loop(after=lambda i: plan.step())


@idiom("equal")
def rate_by_hand(s):
    s.make()

    def set_rate(i):
        for group in s.opt.param_groups:
            group["lr"] = 0.1 / (i + 2)
    s.loop(after=set_rate)


@idiom("refused", "weight_decay is")
def decay_by_hand(s):
    s.make()
    s.loop(after=lambda i: [group.update(weight_decay=0.1 * i) for group in s.opt.param_groups])


# ---- gradients of all parameters

def clip_one(p):
    p.grad.data.clamp_(-1, 1)


@several("refused", {
    "clip_norm": lambda s: nn.utils.clip_grad_norm_(s.net.parameters(), 1.0), "clip_norm_far": lambda s: nn.utils.clip_grad_norm_(s.net.parameters(), 1e6),
    "clip_norm_inf": lambda s: nn.utils.clip_grad_norm_(s.net.parameters(), 1.0, norm_type=math.inf), "clip_value": lambda s: nn.utils.clip_grad_value_(s.net.parameters(), 1e-3),
    "clamp_each": lambda s: [p.grad.clamp_(-1, 1) for p in s.net.parameters()], "clamp_data": lambda s: [clip_one(p) for p in s.net.parameters()],
    "norm_logged": lambda s: sum(p.grad.norm() ** 2 for p in s.net.parameters()) ** 0.5, "norm_of_data": lambda s: [p.grad.data.norm(2).item() for p in s.net.parameters()],
    "norm_of_detached": lambda s: torch.norm(torch.stack([torch.norm(p.grad.detach(), 2) for p in s.net.parameters()])),
    "squares": lambda s: sum((p.grad ** 2).sum() for p in s.net.parameters()), "flat": lambda s: torch.cat([p.grad.view(-1) for p in s.net.parameters()]).norm(),
    "largest": lambda s: max(p.grad.abs().max() for p in s.net.parameters()), "linalg": lambda s: [torch.linalg.vector_norm(p.grad) for p in s.net.parameters()],
    "foreach": lambda s: torch._foreach_norm([p.grad for p in s.net.parameters()]), "noise": lambda s: [p.grad.add_(torch.randn_like(p.grad)) for p in s.net.parameters()],
    "centred": lambda s: [p.grad.sub_(p.grad.mean()) for p in s.net.parameters()], "sign": lambda s: [p.grad.sign_() for p in s.net.parameters()],
    "adaptive_clip": lambda s: [p.grad.mul_(p.detach().norm() / p.grad.norm().clamp(1e-6)) for p in s.net.parameters()]}, "of all gradients misses the middle's")
def gradients(s, change):
    s.make()
    s.loop(each=lambda i: change(s))


@several("refused", {"scaled": lambda s: [p.grad.mul_(0.5) for p in s.net.parameters()], "divided": lambda s: [p.grad.div_(2) for p in s.net.parameters()]}, "as scale")
def gradients_times(s, change):
    s.make()
    s.loop(each=lambda i: change(s))


@several("equal", {"norm": 0.1, "far": 1e6})
def clip_by_split(s, most):
    s.make()

    def clip(i):
        ends = s.net.parameters()
        s.see(split.clip_grad_norm_(ends, s.net.mid, most) if s.remote else nn.utils.clip_grad_norm_(ends, most))
    s.loop(each=clip)


@idiom("equal")
def clip_values_of_the_ends(s):
    s.make()
    s.loop(each=lambda i: s.remote and nn.utils.clip_grad_value_([*s.net.head.parameters(), *s.net.tail.parameters()], 1e6))


ENDS_CLIPPED = {"norm": lambda ps: nn.utils.clip_grad_norm_(ps, 1e-3), "norm_inf": lambda ps: nn.utils.clip_grad_norm_(ps, 1e-3, norm_type=math.inf),
                "value": lambda ps: nn.utils.clip_grad_value_(ps, 1e-4), "by_hand": lambda ps: [p.grad.mul_(0.1) for p in ps],
                "replaced": lambda ps: [setattr(p, "grad", p.grad * 0.1) for p in ps]}


@several("warned", ENDS_CLIPPED, "of head and tail alone")
def clip_of_the_ends_alone(s, clip):
    s.make()
    s.loop(each=lambda i: clip([*s.net.head.parameters(), *s.net.tail.parameters()]))


@several("warned", {"head": lambda n: n.head, "tail": lambda n: n.tail}, "of head and tail alone")
def clip_of_one_end_alone(s, of):
    s.make()
    s.loop(each=lambda i: nn.utils.clip_grad_norm_(of(s.net).parameters(), 1e-3))


@idiom("warned", "of head and tail alone")
def clip_of_the_ends_alone_with_a_dict(s):
    ends = [*s.net.head.parameters(), *s.net.tail.parameters()]
    s.make(SGD(ends if s.remote else s.net.parameters(), 0.1), optimizer={"lr": 0.1})
    s.loop(each=lambda i: nn.utils.clip_grad_norm_(ends, 1e-3))


@idiom("warned", "of head and tail alone")
def clip_of_the_ends_alone_with_two_optimizers(s):
    ends = SGD([*s.net.head.parameters(), *s.net.tail.parameters()], 0.1)
    s.make(SGD(s.net.mid.parameters(), 0.1))
    s.loop(each=lambda i: (nn.utils.clip_grad_norm_(ends.param_groups[0]["params"], 1e-3), ends.step()))


@idiom("equal")
def clip_of_the_ends_far(s):
    s.make()
    s.loop(each=lambda i: s.remote and nn.utils.clip_grad_norm_([*s.net.head.parameters(), *s.net.tail.parameters()], 1e6))


@idiom("equal")
def backward_of_the_ends_beside(s):
    s.make()
    s.loop(each=lambda i: sum((p ** 2).sum() for m in (s.net.head, s.net.tail) for p in m.parameters()).backward())


@several("refused", {"clamp": lambda p: p.register_hook(lambda grad: grad.clamp(-1, 1)), "print": lambda p: p.register_hook(lambda grad: None)}, "whose gradients are on the server")
def hooks_of_gradients(s, hook):
    s.make()
    for p in s.net.parameters():
        hook(p)
    s.loop()


@idiom("equal")
def hook_of_an_output(s):
    s.make()

    def loss(i):
        y = s.net.mid(s.net.head(DATA[i][0]))
        y.register_hook(lambda grad: grad * 0.5)
        return F.cross_entropy(s.net.tail(y), DATA[i][1])
    s.loss = loss
    s.loop()


# ---- penalties

@several("refused", {
    "l2": lambda n: sum((p ** 2).sum() for p in n.parameters()), "l1": lambda n: sum(p.abs().sum() for p in n.parameters()),
    "l2_by_norm": lambda n: sum(p.norm() for p in n.parameters()), "l1_of_weights": lambda n: sum(p.abs().sum() for k, p in n.named_parameters() if "weight" in k),
    "l1_but_bias": lambda n: sum(p.abs().sum() for k, p in n.named_parameters() if "bias" not in k),
    "l1_of_ends_in": lambda n: sum(p.abs().sum() for k, p in n.named_parameters() if k.endswith("weight")),
    "flat": lambda n: torch.cat([p.view(-1) for p in n.parameters()]).pow(2).sum()}, "the loss has a penalty on parameters()")
def penalty(s, of):
    s.make()
    plain = s.loss
    s.loss = lambda i: plain(i) + 1e-3 * of(s.net)
    s.loop()


@idiom("warned", "parameters() has one number")
def penalty_to_a_start(s):
    s.make()
    start = [p.detach().clone() for p in s.net.parameters()]
    plain = s.loss
    s.loss = lambda i: plain(i) + 1e-3 * sum(((p - q) ** 2).sum() for p, q in zip(s.net.head.parameters(), start))
    s.loop()


@idiom("equal")
def penalty_on_the_ends(s):
    s.make()
    plain = s.loss
    s.loss = lambda i: plain(i) + 1e-2 * sum((p ** 2).sum() for m in (s.net.head, s.net.tail) for p in m.parameters())
    s.loop()


@idiom("equal")
def penalty_on_activations(s):
    s.make()
    s.loss = lambda i: (lambda y: F.cross_entropy(s.net.tail(y), DATA[i][1]) + 1e-2 * y.abs().mean())(s.net.mid(s.net.head(DATA[i][0])))
    s.loop()
