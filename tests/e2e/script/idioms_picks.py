"""Idioms of what a script computes of all parameters, and what it picks in them by name or size (idioms.py)."""
import copy
import io

import torch
from torch import nn
from torch.nn.utils import prune

import split
from idioms import idiom, server, several

SGD, ADAM = torch.optim.SGD, torch.optim.Adam
ONE = "parameters() has one number"


def each(f):
    """f(mean, parameter) gives the next mean, or changes it in place."""
    def follow(means, net):
        for name, p in net.named_parameters():
            found = f(means[name], p)
            means[name] = means[name] if found is None else found
    return follow


def by_lists(means, net):
    torch._foreach_mul_(list(means.values()), 0.9)
    torch._foreach_add_(list(means.values()), list(net.parameters()), alpha=0.1)


MEANS = {"sum": each(lambda e, p: 0.9 * e + 0.1 * p), "foreach": by_lists, "addcmul": each(lambda e, p: e.mul_(0.9).addcmul_(p, torch.tensor(0.1))), "lerp": each(lambda e, p: torch.lerp(e, p, 0.1)),
         "where": each(lambda e, p: torch.where(torch.isfinite(p), p, e)), "plus_0": each(lambda e, p: p + 0), "difference": each(lambda e, p: e.sub_(0.1 * (e - p))), "copy": each(lambda e, p: e.copy_(p)),
         "numpy": each(lambda e, p: torch.from_numpy(p.detach().numpy().copy()))}


@several("warned", MEANS, ONE)
def means_of_parameters(s, follow):
    s.make()
    means = {name: torch.zeros_like(p) for name, p in s.net.named_parameters()}
    s.loop(3, after=lambda i: torch.no_grad()(follow)(means, s.net))
    s.see(sum(m.abs().sum() for m in means.values()))


LOGS = {"squares": lambda p: (p ** 2).sum(), "pow": lambda p: p.pow(2).sum(), "absolute": lambda p: p.abs().max(), "sum": lambda p: p.sum(), "product": lambda p: float((p * p).sum()),
        "zeros": lambda p: int((p == 0).sum()), "small": lambda p: int((p.abs() < 0.05).sum()), "square": lambda p: torch.square(p).sum(), "data": lambda p: p.data.abs().sum(), "equal": lambda p: torch.equal(p, p),
        "tolist": lambda p: len(p.tolist()), "rows": lambda p: len(p), "dim": lambda p: p.dim(), "ndim": lambda p: p.ndim > 1}


@several("warned", LOGS, ONE)
def log_of_parameters(s, log):
    s.make()
    s.loop(2)
    with torch.no_grad():
        s.see(sum(float(log(p)) for p in s.net.parameters()))


def saved(state):
    f = io.BytesIO()
    torch.save(state, f)
    f.seek(0)
    return torch.load(f)  # from PyTorch 2.6 on of weights alone


HARMLESS = {"finite": lambda n: all(bool(torch.isfinite(p).all()) for p in n.parameters()), "learns": lambda n: all(p.requires_grad for p in n.parameters()), "device": lambda n: {p.device.type for p in n.parameters()} == {"cpu"},
            "dtype": lambda n: next(n.parameters()).dtype == torch.float32, "leaf": lambda n: all(p.is_leaf for p in n.parameters()), "like": lambda n: all(torch.zeros_like(p).dtype == p.dtype for p in n.parameters()),
            "bytes": lambda n: sum(p.numel() * p.element_size() for p in n.parameters()), "dict": lambda n: bool(dict(n.named_parameters())), "set": lambda n: bool({p for p in n.parameters()}),
            "names": lambda n: all(isinstance(name, str) for name, _ in n.named_parameters()), "prefix": lambda n: sum(p.numel() for name, p in n.named_parameters() if name.startswith("mid.")),
            "part": lambda n: sum(p.numel() for name, p in n.named_parameters() if name.split(".")[0] == "mid"), "dropped": lambda n: sum(p.numel() for name, p in n.named_parameters() if "nowhere" not in name),
            "text": lambda n: bool([f"{name}: {p.requires_grad}" for name, p in n.named_parameters()]), "copied": lambda n: bool(copy.deepcopy([name for name, _ in n.named_parameters()])),
            "saved": lambda n: list(saved({name: torch.zeros(2) for name, _ in n.named_parameters()})) == [str(name) for name, _ in n.named_parameters()],
            "large": lambda n: all(p.numel() > 2 for p in n.parameters()), "modules": lambda n: sum(isinstance(m, nn.Linear) for m in n.modules()), "children": lambda n: len(list(n.children())) == 3,
            "moved": lambda n: n.to("cpu").float() is n, "state": lambda n: len(n.state_dict()), "key": lambda n: len({name: 0 for name, _ in n.named_parameters()}) > 0}


@several("equal", HARMLESS)
def harmless_use_of_parameters(s, use):
    s.make()
    s.see(use(s.net))
    s.loop(2)
    s.see(use(s.net))


def frozen(pick):
    return lambda n: [p.requires_grad_(False) for name, p in n.named_parameters() if pick(name)]


PICKS = {"contains": frozen(lambda name: "bias" in name), "begins": frozen(lambda name: name.startswith(("head", "mid.0"))), "ends": frozen(lambda name: name.endswith("bias")), "equals": frozen(lambda name: name == "mid.0.weight"),
         "split": frozen(lambda name: name.split(".")[-1] == "bias"), "in_a_set": frozen(lambda name: name in {"mid.0.weight", "head.bias"}),
         "differs": lambda n: [nn.init.zeros_(p) for name, p in n.named_parameters() if not name != "mid.0.weight"], "in_a_list": frozen(lambda name: name in ["mid.0.weight", "head.bias"]), "dims": lambda n: [nn.init.eye_(p) for p in n.parameters() if p.dim() > 1], "ndim": lambda n: [nn.init.eye_(p) for p in n.parameters() if p.ndim > 1],
         "shape": lambda n: [nn.init.eye_(p) for p in n.parameters() if len(p.shape) > 1], "small": lambda n: [nn.init.zeros_(p) for p in n.parameters() if p.numel() < 20],
         "children": lambda n: [p.requires_grad_(False) for child in n.mid.children() for p in child.parameters()], "named_children": lambda n: [c.requires_grad_(False) for name, c in n.mid.named_children() if name == "0"]}


@several("warned", PICKS, "RemoteModule is made")
def picks(s, pick):
    s.make()
    pick(s.net)
    s.loop(3)


GRADIENTS = {"twice": lambda n: [p.grad.mul_(2) for name, p in n.named_parameters() if "bias" in name], "none": lambda n: [setattr(p, "grad", None) for name, p in n.named_parameters() if name.endswith("bias")],
             "zeros": lambda n: [p.grad.zero_() for p in n.parameters() if p.numel() < 20], "dims": lambda n: [p.grad.mul_(2) for p in n.parameters() if p.dim() > 3]}


@several("warned", GRADIENTS, ONE)
def picks_of_gradients(s, pick):
    s.make()
    s.loop(3, each=lambda i: pick(s.net))


# ---- gradients of other steps, and frozen middles

@idiom("refused", "this gradient is of another step")
def gradients_of_the_step_before(s):
    s.make()
    kept = []

    def delay(i):
        kept.append([p.grad.clone() for p in s.net.parameters()])
        for p, grad in zip(s.net.parameters(), kept[max(i - 1, 0)]):
            p.grad = grad
    s.loop(4, each=delay)


@idiom("equal")
def gradients_kept_and_put_back(s):
    s.make()

    def swap(i):
        kept = [p.grad for p in s.net.parameters()]
        for p, grad in zip(s.net.parameters(), kept):
            p.grad = grad
    s.loop(3, each=swap)


@idiom("refused", "all gradients were set")
def gradients_set(s):
    s.make()
    s.loop(1, each=lambda i: [setattr(p, "grad", torch.ones_like(p)) for p in s.net.parameters()])


@idiom("refused", "gradients were multiplied between the backwards")
def gradients_multiplied_between_backwards(s):
    s.make(calls=2)
    s.loss(0).backward()
    for p in s.net.parameters():
        p.grad.mul_(0.5)
    s.loss(1).backward()
    s.step()


@several("equal", {"ends": lambda n: [p for p in n.parameters() if p.requires_grad and p.grad is not None], "all": lambda n: n.parameters()})
def clip_around_a_frozen_middle(s, of):
    s.net.mid.requires_grad_(False)
    s.make()
    s.loop(3, each=lambda i: nn.utils.clip_grad_norm_(of(s.net), 0.1))


# ---- the optimizer as a dict, and steps that are left out

def by_dict(s, kind, rules):
    """The network with an optimizer of head and tail, and the middle's as a dict."""
    s.opt = kind([*s.net.head.parameters(), *s.net.tail.parameters()] if s.remote else s.net.parameters(), lr=0.1, **rules)
    if s.remote:
        s.net.mid = split.RemoteModule(s.net.mid, server, example=(8, 16), optimizer={"kind": kind.__name__.lower(), "lr": 0.1, **rules})


@several("warned", {"momentum": (SGD, {"momentum": 0.9}), "adam": (ADAM, {})}, "has a state already")
def dict_and_a_loaded_state(s, case):
    first = case[0]([*s.net.head.parameters(), *s.net.tail.parameters()], lr=0.1, **case[1])
    s.loss().backward()
    first.step()
    s.net.zero_grad(set_to_none=True)
    by_dict(s, *case)
    if s.remote:
        s.opt.load_state_dict(first.state_dict())
    s.loop(2)


@idiom("warned", "call step(lr)")
def dict_and_a_schedule(s):
    by_dict(s, SGD, {})
    schedule = torch.optim.lr_scheduler.ExponentialLR(s.opt, 0.5)
    s.loop(4, after=lambda i: schedule.step())


@several("equal", {"plain": (SGD, {}), "momentum": (SGD, {"momentum": 0.9})})
def dict_and_no_schedule(s, case):
    by_dict(s, *case)
    s.loop(4)


@idiom("warned", "and the middle has not")
def step_of_the_middle_left_out_once(s):
    s.make()
    for i in range(5):
        s.opt.zero_grad()
        s.loss(i).backward()
        if s.remote and i != 2:
            s.net.mid.step()
        s.opt.step()


@idiom("warned", "zero_grad() was not called")
def zero_grad_left_out_from_step_6_on(s):
    s.make()
    s.loop(9, zero=(lambda count: lambda: count.append(0) or (len(count) < 7 and s.opt.zero_grad()))([]))


# ---- modules of the middle

def norms(n):
    return [m for m in n.modules() if isinstance(m, nn.BatchNorm1d)]


SHOWN = {"numbers": lambda n: sum(p.numel() for m in n.modules() for p in m.parameters(recurse=False)), "each": lambda n: sum((k + 1) * sum(p.numel() for p in m.parameters()) for k, m in enumerate(n.modules())),
         "norms": lambda n: sum(p.norm() for m in norms(n) for p in m.parameters()), "named": lambda n: sum(p.norm() for m in norms(n) for name, p in m.named_parameters() if name == "weight"),
         "state": lambda n: sum(v.double().sum() for m in norms(n) for v in m.state_dict().values()), "type": lambda n: sum(type(m) == nn.Linear for m in n.modules()), "types": lambda n: sum(type(m) in (nn.Linear, nn.BatchNorm1d) for m in n.modules()),
         "set": lambda n: len({type(m) for m in n.modules()} & {nn.Linear, nn.BatchNorm1d}), "dict": lambda n: sum({nn.Linear: 1}.get(type(m), 0) for m in n.modules()), "name": lambda n: sum(type(m).__name__ == "Linear" for m in n.modules()),
         "submodule": lambda n: sum(p.norm() for p in n.get_submodule("mid.0").parameters()), "leaves": lambda n: sum(not list(m.children()) for m in n.modules() if m is not n.mid), "text": lambda n: len(str(norms(n)[0])), "copy": lambda n: copy.deepcopy(norms(n)[0]).weight.norm()}


@several("equal", SHOWN, layers="norm")
def modules_read(s, read):
    s.make()
    for _ in range(2):
        s.loop(2)
        with torch.no_grad():
            s.see(read(s.net))


def frozen_parameters(m):
    for p in m.parameters():
        p.requires_grad = False


@several("refused", {"method": lambda m: m.requires_grad_(False), "parameters": frozen_parameters, "named": lambda m: [p.requires_grad_(False) for _, p in m.named_parameters()]}, "requires_grad was changed", layers="norm")
def norms_frozen(s, freeze):
    s.make()
    for m in norms(s.net):
        freeze(m)
    s.loop()


@idiom("refused", "has another mode than RemoteModule", layers="norm")
def norms_in_evaluation_by_type(s):
    s.make()
    for m in s.net.modules():
        if type(m) == nn.BatchNorm1d:
            m.eval()
    s.loop()


@idiom("refused", "requires_grad was changed")
def submodule_frozen(s):
    s.make()
    s.net.get_submodule("mid.0").requires_grad_(False)
    s.loop()


FILLS = {"parameters": lambda m: [nn.init.constant_(p, 0.1) for p in m.parameters()], "apply": lambda m: m.apply(lambda layer: nn.init.constant_(layer.weight, 0.1)), "type": lambda m: type(m) == nn.Linear and nn.init.constant_(m.weight, 0.1),
         "clamp": lambda m: [p.data.clamp_(-0.01, 0.01) for p in m.parameters()], "load": lambda m: m.load_state_dict({k: v * 0.5 for k, v in m.state_dict().items()})}


@several("warned", FILLS, "were changed here")
def modules_filled(s, fill):
    s.make()
    for m in s.net.modules():
        if isinstance(m, nn.Linear):
            fill(m)
    s.loop()


@several("refused", {"prune": lambda m: prune.l1_unstructured(m, "weight", 0.5), "buffer": lambda m: m.register_buffer("mask", torch.ones(1)), "parameter": lambda m: m.register_parameter("scale", None), "module": lambda m: m.add_module("more", nn.ReLU())}, "cannot be set")
def modules_transformed(s, transform):
    s.make()
    transform(dict(s.net.named_modules())["mid.0"])
    s.loop()


@idiom("equal")
def modules_with_a_penalty_before(s):
    """In the head alone."""
    s.make()
    loss = s.loss
    s.loss = lambda i: loss(i) + 0.1 * sum(p.pow(2).sum() for name, m in s.net.named_modules() if isinstance(m, nn.Linear) and name == "head" for p in m.parameters())
    s.loop()


@idiom("refused", "lacks the weights of now")
def modules_with_a_penalty(s):
    s.make()
    loss = s.loss
    s.loss = lambda i: loss(i) + 0.1 * sum(p.pow(2).sum() for m in s.net.modules() if isinstance(m, nn.Linear) for p in m.parameters())
    s.loop()


# ---- attributes of the middle

class Scaled(nn.Sequential):
    def __init__(self, layers):
        super().__init__(*layers)
        self.tau, self.fc = 2.0, nn.Linear(16, 16)

    def forward(self, x):
        return self.fc(self[0](x)) / self.tau

    def sharpen(self, tau):
        self.tau = tau


def scaled(s):
    s.net.mid = Scaled(s.net.mid)
    s.make()


SETS = {"number": lambda m: setattr(m, "tau", 0.5), "guarded": lambda m: [setattr(m, "tau", 3.0) for _ in range(hasattr(m, "tau"))], "doubled": lambda m: setattr(m, "tau", getattr(m, "tau", 1.0) * 2), "layer": lambda m: setattr(m, "fc", nn.Identity()),
        "place": lambda m: setattr(m, "0", nn.Identity()), "new_layer": lambda m: setattr(m, "more", nn.Linear(16, 16)), "added": lambda m: m.add_module("fc", nn.Identity()), "buffer": lambda m: m.register_buffer("mask", torch.ones(16)),
        "method": lambda m: setattr(m, "sharpen", None)}


@several("refused", SETS, "cannot be set: the module is on the server")
def attribute_set(s, change):
    scaled(s)
    s.loop(2)
    change(s.net.mid)
    s.loop(2)


@idiom("refused", "ask the module that RemoteModule was made of")
def method_called(s):
    scaled(s)
    s.net.mid.sharpen(0.5)
    s.loop()


@several("equal", {"read": lambda m: m.tau, "asked": lambda m: hasattr(m, "tau"), "lacks": lambda m: hasattr(m, "rate"), "own": lambda m: setattr(m, "epoch", 3) or m.epoch})
def attribute_read(s, read):
    scaled(s)
    s.see(read(s.net.mid))
    s.loop(2)


class Versioned(nn.Sequential):
    version = 3

    def get_extra_state(self):
        return {"version": self.version}

    def set_extra_state(self, state):
        self.version = state["version"]


@idiom("equal")
def extra_state_saved_and_loaded(s):
    s.net.mid = module = Versioned(*s.net.mid)
    s.make()
    s.state = lambda: {k: v.double() for k, v in s.net.state_dict().items() if isinstance(v, torch.Tensor)}
    s.loop(2)
    saved = copy.deepcopy(s.net.state_dict())
    module.version = 4
    s.loop(2)
    s.net.load_state_dict(saved)
    s.see(module.version)
    s.loop(2)
