"""Idioms of the module that RemoteModule was made of: its parameters and buffers, read or changed, and lists and states that a script
held before (idioms.py)."""
import copy
import io
import pickle

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import prune
from torch.optim.swa_utils import AveragedModel, update_bn

import split
from idioms import DATA, idiom, several

SGD, ADAM = torch.optim.SGD, torch.optim.Adam
vector, fill = nn.utils.parameters_to_vector, nn.utils.vector_to_parameters


def looked(s, values):
    for v in values:
        s.see(v.double().sum())


# ---- read

READ = {"weight": lambda m: [m[0].weight.norm()], "named": lambda m: [p.norm() for _, p in m.named_parameters()], "vector": lambda m: [vector(m.parameters())],
        "function": lambda m: [F.linear(torch.ones(2, 16), m[0].weight)], "layer": lambda m: [m[0].forward(torch.ones(2, 16))], "forward": lambda m: [m.forward(torch.ones(2, 16))],
        "data": lambda m: [p.data.abs() for p in m.parameters()], "detached": lambda m: [p.detach().cpu() for p in m.parameters()], "indexed": lambda m: [m[0].weight[0], m[2].bias[1:3]],
        "turned": lambda m: [m[0].weight.T @ m[0].weight], "numpy": lambda m: [torch.tensor(p.detach().numpy().copy()) for p in m.parameters()], "item": lambda m: [torch.tensor(m[0].bias[0].item())],
        "stacked": lambda m: [torch.stack([p.norm() for p in m.parameters()])], "foreach": lambda m: torch._foreach_add([torch.ones(16, 16)], [m[0].weight]),
        "pickled": lambda m: list(pickle.loads(pickle.dumps(m)).parameters()), "parameters_copied": lambda m: copy.deepcopy(list(m.parameters())),
        "shallow_copy": lambda m: [copy.copy(m)(torch.ones(2, 16))], "iterated": lambda m: [row for row in m[0].weight], "svd": lambda m: [torch.linalg.svdvals(m[0].weight)],
        "compared": lambda m: [m[0].weight > 0], "into": lambda m: [torch.zeros(16, 16).copy_(m[0].weight)], "loaded": lambda m: list(loaded(m).parameters())}


def loaded(m):
    other = copy.deepcopy(m)
    other.load_state_dict(m.state_dict())
    return other


@several("equal", READ)
def plain_parameters_read(s, read):
    mid = s.net.mid
    s.make(ADAM(s.net.parameters(), 1e-2))
    for _ in range(2):
        s.loop(2)
        looked(s, read(mid))
    s.loop(1)


@several("equal", {"parameters": lambda n: list(n.parameters()), "state_dict": lambda n: list(n.state_dict().values()), "data": lambda n: [p.data for p in n.parameters()],
                   "views": lambda n: [p.detach().flatten() for p in n.parameters()], "of_the_middle": lambda n: list(n.mid.state_dict().values())}, layers="norm")
def held_from_before(s, held):
    values = held(s.net)
    s.make()
    s.loop(3)
    looked(s, values)


@several("equal", {"net": lambda n: n.state_dict(), "middle": lambda n: n.mid.state_dict()}, layers="norm")
def state_dict_held(s, of):
    s.make()
    s.loop(1)
    state = of(s.net)
    s.loop(2)
    looked(s, state.values())


@idiom("equal")
def state_dict_held_as_numpy(s):
    s.make()
    s.loop(1)
    state = {k: v.numpy() for k, v in s.net.state_dict().items()}
    s.loop(2)
    for v in state.values():
        s.see(v.sum())


@idiom("equal")
def best_weights_without_a_copy(s):
    s.make()
    s.loop(2)
    best = s.net.state_dict()
    s.loop(2)
    s.net.load_state_dict(best)
    s.see(sum(v.double().sum() for v in best.values()))


@several("equal", {"lerp": lambda a, b: a.lerp_(b, 0.1), "mul_add": lambda a, b: a.mul_(0.9).add_(b, alpha=0.1), "data": lambda a, b: a.data.mul_(0.9).add_(b.data, alpha=0.1),
                   "copy": lambda a, b: a.copy_(a * 0.9 + b * 0.1)})
def average_of_plain(s, move):
    mid = s.net.mid
    s.make()
    mean = copy.deepcopy(mid)

    def after(i):
        with torch.no_grad():
            for a, b in zip(mean.parameters(), mid.parameters()):
                move(a, b)
    s.loop(4, after=after)
    looked(s, mean.parameters())


@several("equal", {"plain": {}, "ema": {"avg_fn": lambda mean, p, n: 0.9 * mean + 0.1 * p}})
def averaged_model_of_plain(s, options):
    mid = s.net.mid
    s.make()
    mean = AveragedModel(mid, **options)
    s.loop(4, after=lambda i: mean.update_parameters(mid))
    looked(s, mean.module.parameters())


@several("equal", {"buffers": lambda n: n.buffers(), "named": lambda n: [b for _, b in n.named_buffers()], "modules": lambda n: [m.running_mean for m in n.modules() if isinstance(m, nn.BatchNorm1d)],
                   "get_buffer": lambda n: [n.get_buffer("mid.1.running_var")]}, layers="norm")
def statistics_read(s, read):
    s.make()
    s.loop(3)
    looked(s, read(s.net))


@idiom("equal", layers="norm")
def statistics_of_plain(s):
    norm = s.net.mid[1]
    s.make()
    s.loop(3)
    looked(s, [norm.running_mean, norm.running_var])


@several("equal", {"parameter": lambda n: n.get_parameter("mid.0.weight"), "submodule": lambda n: n.get_submodule("mid.2").bias, "modules": lambda n: next(m.weight for m in n.mid.modules() if isinstance(m, nn.Linear))})
def parameter_by_name(s, get):
    s.make()
    s.loop(2)
    looked(s, [get(s.net)])


@idiom("equal")
def weight_of_a_single_layer(s):
    s.net.mid = s.net.mid[0]
    s.make()
    s.loop(2)
    looked(s, [s.net.mid.weight.norm(), s.net.mid.bias])


@idiom("refused", "is open")
def plain_parameters_inside_a_step(s):
    mid = s.net.mid
    s.make()
    s.loop(each=lambda i: s.see(mid[0].weight.norm()))


@several("refused", {"l2": lambda m: sum((p ** 2).sum() for p in m.parameters()), "tied": lambda m: F.linear(torch.ones(1, 16), m[0].weight).sum()}, "is open")
def penalty_on_plain(s, of):
    mid, plain = s.net.mid, s.loss
    s.make()
    s.loop(1)
    s.loss = lambda i: plain(i) + 1e-2 * of(mid)
    s.loop(1)


# ---- changed

def write_numpy(p):
    p.detach().numpy()[:] *= 0.5


def renorm(p):
    p.data = p.data.renorm(2, 0, 0.3) if p.dim() > 1 else p.data * 0.5


CHANGES = {"mul": lambda p: p.mul_(0.5), "data": lambda p: p.data.mul_(0.5), "clamp_data": lambda p: p.data.clamp_(-0.01, 0.01), "set_data": renorm, "zeros": lambda p: setattr(p, "data", torch.zeros_like(p.data)),
           "numpy": write_numpy, "detached": lambda p: p.detach().zero_(), "part": lambda p: p.data[0].zero_(), "fill_part": lambda p: p.data.__setitem__(0, 0.0),
           "init": lambda p: nn.init.constant_(p, 0.1), "copy": lambda p: p.copy_(p * 0.5), "out": lambda p: torch.mul(p, 0.5, out=p.data), "foreach": lambda p: torch._foreach_mul_([p], 0.5)}


@several("warned", CHANGES, "were changed here")
def plain_parameters_changed(s, change):
    mid = s.net.mid
    s.make()
    s.loop(2)
    with torch.no_grad():
        for p in mid.parameters():
            change(p)
    s.loop(2)


@several("warned", {k: CHANGES[k] for k in ("clamp_data", "set_data", "data")}, "were changed here")
def held_parameters_changed(s, change):
    held = list(s.net.parameters())
    s.make()
    s.loop(3, after=lambda i: [change(p) for p in held])


@several("warned", {"vector": lambda m: fill(vector(m.parameters()) * 0.5, m.parameters()), "load": lambda m: m.load_state_dict({k: v * 0.5 for k, v in m.state_dict().items()}),
                    "state_dict": lambda m: [v.mul_(0.5) for v in m.state_dict().values()], "reset": lambda m: m[0].reset_parameters(), "apply": lambda m: m.apply(lambda x: [p.data.zero_() for p in x.parameters(False)])},
         "were changed here")
def plain_module_changed(s, change):
    mid = s.net.mid
    s.make()
    s.loop(2)
    with torch.no_grad():
        change(mid)
    s.loop(2)


@several("warned", {"net": lambda n: n.state_dict(), "middle": lambda n: n.mid.state_dict()}, "were changed here")
def state_dict_changed(s, of):
    s.make()
    s.loop(1)
    for v in of(s.net).values():
        v.mul_(0.5)
    s.loop(2)


@idiom("warned", "were changed here")
def plain_parameters_changed_and_saved(s):
    mid = s.net.mid
    s.make()
    s.loop(2)
    mid[0].weight.data.mul_(0.5)
    looked(s, s.net.state_dict().values())


@idiom("equal")
def plain_parameters_changed_and_sent(s):
    mid = s.net.mid
    s.make()
    s.loop(2)
    mid[0].weight.data.mul_(0.5)
    s.net.mid.load_state_dict(mid.state_dict())
    s.loop(2)


@several("warned", {"update_bn": lambda s, m: update_bn([s.net.head(x).detach() for x, _ in DATA], m), "call": lambda s, m: m(torch.randn(8, 16)), "reset": lambda s, m: m[1].reset_running_stats()},
         "were changed here", layers="norm")
def statistics_of_plain_changed(s, change):
    mid = s.net.mid
    s.make()
    s.loop(2)
    mid.train()
    with torch.no_grad():
        change(s, mid)
    s.net.eval()
    with torch.no_grad():
        s.see(s.loss())


@several("refused", {"train": lambda m: m.eval(), "layer": lambda m: m[1].eval()}, "has another mode", layers="norm")
def mode_of_plain(s, flip):
    mid = s.net.mid
    s.make()
    s.loop(1)
    flip(mid)
    s.loop(1)


# ---- what the module computes

def dropped(m):
    m[1].p = 0.9


def swapped(m):
    m[1] = nn.ReLU()


def closed(m):
    m.forward = lambda x: x


@several("refused", {"activation": swapped, "appended": lambda m: m.append(nn.ReLU())}, "computes something else by now")
def plain_module_edited(s, edit):
    mid = s.net.mid
    s.make()
    s.loop(2)
    edit(mid)
    s.loop(1)


@idiom("refused", "the forward of Linear was replaced")
def class_of_a_layer_patched(s):
    s.make()
    s.loop(2)
    own = nn.Linear.forward
    nn.Linear.forward = lambda m, x: own(m, x) * 0.5
    try:
        s.loop(1)
    finally:
        nn.Linear.forward = own


@several("refused", {"epsilon": lambda m: setattr(m.norm, "eps", 0.5), "buffer": lambda m: setattr(m, "factor", torch.full((16,), 0.5))}, "RemoteModule")
def plain_part_changed(s, change):
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(16)
            self.register_buffer("factor", torch.ones(16))

        def forward(self, x):
            return self.norm(x) * self.factor
    s.net.mid = m = Normed()
    s.make()
    s.loop(2)
    change(m)
    s.loop(1)


@idiom("equal")
def module_saved_with_what_forward_stored(s):
    m = s.net.mid = Stores(s.net.mid)
    s.make()
    s.loop(2)
    s.net.eval()
    with torch.no_grad():
        s.loss()
        torch.save(m, io.BytesIO())
        copy.deepcopy(m)


class Stores(nn.Module):
    def __init__(self, middle):
        super().__init__()
        self.middle = middle

    def forward(self, x):
        self.feature = self.middle(x)
        return self.feature * 2


@idiom("refused", "computes something else by now", layers="drop")
def plain_rate_of_dropout_set(s):
    mid = s.net.mid
    s.make()
    s.loop(2)
    dropped(mid)
    s.loop(1)


@several("refused", {"layer": lambda m: m.__setitem__(0, nn.Linear(16, 16)), "weight": lambda m: setattr(m[0], "weight", nn.Parameter(torch.zeros(16, 16))),
                     "removed": lambda m: m.__delitem__(1),
                     "weight_norm": lambda m: nn.utils.weight_norm(m[0]), "prune": lambda m: prune.l1_unstructured(m[0], "weight", 0.5),
                     "parametrized": lambda m: nn.utils.parametrizations.spectral_norm(m[0])}, "was replaced behind RemoteModule")
def plain_layer_replaced(s, replace):
    mid = s.net.mid
    s.make()
    s.loop(2)
    replace(mid)
    s.loop(1)


@several("refused", {"forward": lambda m: m[0].register_forward_hook(lambda *_: None), "pre": lambda m: m.register_forward_pre_hook(lambda *_: None),
                     "backward": lambda m: m[2].register_full_backward_hook(lambda *_: None), "replaced": closed}, "")
def hooks_of_plain(s, hook):
    mid = s.net.mid
    s.make()
    s.loop(1)
    hook(mid)
    s.loop(1)


@idiom("equal")
def hook_of_plain_removed(s):
    mid = s.net.mid
    s.make()
    s.loop(1)
    seen = []
    hook = mid[0].register_forward_hook(lambda m, x, y: seen.append(y.detach().norm()))
    mid(torch.ones(2, 16))
    hook.remove()
    looked(s, seen)
    s.loop(1)


# ---- gradients

TIMES = {"mul": lambda p: p.grad.mul_(2), "data": lambda p: p.grad.data.mul_(2), "centred": lambda p: p.grad.sub_(p.grad.mean()), "none": lambda p: setattr(p, "grad", None),
         "norm": lambda p: p.grad.norm(), "zero": lambda p: p.grad.zero_()}


@several("refused", {k: lambda s, ps, f=f: [f(p) for p in ps if p.grad is not None] for k, f in TIMES.items()} | {
    "clip_norm": lambda s, ps: nn.utils.clip_grad_norm_(ps, 0.1), "clip_value": lambda s, ps: nn.utils.clip_grad_value_(ps, 1e-3), "counted": lambda s, ps: sum(p.grad is not None for p in ps)},
    "has no gradient here")
def gradients_of_held(s, change):
    held = list(s.net.parameters())
    s.make()
    s.loop(each=lambda i: change(s, held))


@several("refused", {"clip_norm": lambda m: nn.utils.clip_grad_norm_(m.parameters(), 0.1), "clip_value": lambda m: nn.utils.clip_grad_value_(m.parameters(), 1e-3), "zero": lambda m: m.zero_grad()},
         "has no gradient here")
def gradients_of_plain(s, change):
    mid = s.net.mid
    s.make()
    s.loop(each=lambda i: change(mid))


@several("refused", {"held": lambda s, ps: sum(p.grad.norm() for p in ps if p.grad is not None), "net": lambda s, ps: sum(p.grad.norm() for p in s.net.parameters() if p.grad is not None)},
         "of all gradients misses the middle's")
def gradients_logged_behind_step(s, log):
    held = list(s.net.parameters())
    s.make()
    s.loop(after=lambda i: s.see(log(s, held)))


@idiom("equal")
def zero_grad_of_held(s):
    held = list(s.net.parameters())
    s.make()
    s.loop(zero=lambda: [p.grad.zero_() for p in held if p.grad is not None] or s.opt.zero_grad())


@several("equal", {"held": True, "net": False})
def clip_by_split_of_held(s, before):
    held = list(s.net.parameters())
    s.make()

    def clip(i):
        ps = held if before else list(s.net.parameters())
        s.see(split.clip_grad_norm_(ps, s.net.mid, 0.1) if s.remote else nn.utils.clip_grad_norm_(ps, 0.1))
    s.loop(each=clip)


HOOKS = {"clamp": lambda p: p.register_hook(lambda g: g.clamp(-1, 1)), "twice": lambda p: p.register_hook(lambda g: g * 2)}
if hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):  # PyTorch 2.1
    HOOKS["post"] = lambda p: p.register_post_accumulate_grad_hook(lambda p: None)
else:
    HOOKS["post"] = HOOKS["clamp"]


@several("refused", HOOKS, "its gradient is on the server")
def hooks_of_held(s, hook):
    held = list(s.net.mid.parameters())
    s.make()
    for p in held:
        hook(p)


@idiom("warned", "the middle was made with a dict")
def optimizer_of_plain_beside_a_dict(s):
    mid = s.net.mid
    ends = SGD([*s.net.head.parameters(), *s.net.tail.parameters()], 0.1)
    s.make(ends, **({"optimizer": {"lr": 0.1}} if s.remote else {}))
    mine = SGD(mid.parameters(), 0.01)
    for i in range(3):
        ends.zero_grad()
        mine.zero_grad()
        s.loss(i).backward()
        s.step()
        mine.step()
