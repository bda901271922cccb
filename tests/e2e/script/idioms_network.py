"""Idioms of networks: copies, frozen layers, modes, initial values, calls and conversions (idioms.py)."""
import contextlib
import copy
import io
import math
import pickle

import torch
import torch.nn.functional as F
from torch import nn

import split
from idioms import DATA, Net, idiom, several

SGD, ADAM = torch.optim.SGD, torch.optim.Adam


# ---- copies and averages

@several("warned", {
    "ema": lambda n: [p.detach().clone() for p in n.parameters()], "clones": lambda n: [p.clone() for p in n.parameters()],
    "data": lambda n: [p.data.mul(1) for p in n.parameters()], "vector": lambda n: nn.utils.parameters_to_vector(n.parameters()),
    "lerp": lambda n: [torch.zeros_like(p).lerp_(p, 0.1) for p in n.parameters()], "into": lambda n: [torch.empty_like(p).copy_(p) for p in n.parameters()],
    "sum": lambda n: [torch.zeros_like(p).add_(p, alpha=0.1) for p in n.parameters()], "numpy": lambda n: [p.detach().cpu().numpy() for p in n.parameters()],
    "norms_of_weights": lambda n: [p.norm().item() for p in n.parameters()], "named": lambda n: {k: p.clone() for k, p in n.named_parameters()},
    "difference": lambda n: [torch.sub(torch.zeros_like(p), p) for p in n.parameters()]}, "parameters() has one number")
def parameters_read(s, read):
    s.make()
    with torch.no_grad():
        read(s.net)
    s.loop()


COUNTS = {"numel": lambda n: sum(p.numel() for p in n.parameters()), "nelement": lambda n: sum(p.nelement() for p in n.parameters()),
          "function": lambda n: sum(torch.numel(p) for p in n.parameters()), "learning": lambda n: sum(p.numel() for p in n.parameters() if p.requires_grad),
          "named": lambda n: sum(p.numel() for _, p in n.named_parameters()), "bytes": lambda n: sum(p.numel() * p.element_size() for p in n.parameters()),
          "of_optimizer": lambda n: n.count()}


@several("equal", COUNTS)
def parameters_counted(s, count):
    s.make()
    s.net.count = lambda: sum(p.numel() for group in s.opt.param_groups for p in group["params"])
    s.see(count(s.net))
    s.loop(2)


@several("warned", {"prod": lambda n: sum(math.prod(p.shape) for p in n.parameters()), "size": lambda n: sum(math.prod(p.size()) for p in n.parameters())},
         "parameters() has one number")
def parameters_counted_by_shape(s, count):
    s.make()
    s.see(count(s.net))


@idiom("warned", "numel() counts what learns")
def parameters_counted_with_frozen(s):
    s.net.mid[0].requires_grad_(False)
    s.make()
    s.see(sum(p.numel() for p in s.net.parameters()))


# ---- the module that RemoteModule was made of

def plainly(f):
    """The network with the module in place of RemoteModule."""
    def used(s, mid):
        ends = nn.Sequential(s.net.head, mid, s.net.tail).eval()
        with torch.no_grad():
            s.see(f(ends, DATA[0][0]).double().pow(2).sum())
        ends.train()
    return used


def saved(thing):
    f = io.BytesIO()
    torch.save(thing, f)
    f.seek(0)
    return torch.load(f, weights_only=False)


def all_of(state):
    return torch.cat([v.flatten() for v in state.values()])


PLAINLY = {"called": lambda n, x: n(x), "layer": lambda n, x: n[1][0](n[0](x)), "state_dict": lambda n, x: all_of(n.state_dict()),
           "its_state_dict": lambda n, x: all_of(n[1].state_dict()), "saved": lambda n, x: all_of(saved(n.state_dict())), "whole_saved": lambda n, x: saved(n)(x),
           "deepcopy": lambda n, x: copy.deepcopy(n)(x), "layer_copied": lambda n, x: copy.deepcopy(n[1][0]).weight, "traced": lambda n, x: torch.jit.trace(n, x)(x)}


@several("equal", PLAINLY)
def plain_module(s, use):
    plain_module_(s, use)


def plain_module_(s, use):
    mid = s.net.mid
    s.make()
    for _ in range(2):
        s.loop(3)
        plainly(use)(s, mid)


@several("equal", {k: PLAINLY[k] for k in ("called", "state_dict", "deepcopy")}, layers="norm")
def plain_module_of_a_norm(s, use):
    plain_module_(s, use)


@idiom("equal")
def plain_module_made_remote_again(s):
    mid = s.net.mid
    s.make()
    s.loop(3)
    old, s.net.mid = s.net.mid, mid
    s.make(SGD(s.net.parameters(), 0.1))
    if s.remote:
        old.close(True)
    s.loop(3)


@idiom("refused", "is open")
def plain_module_between_backward_and_step(s):
    mid = s.net.mid
    s.make()
    s.loop(each=lambda i: plainly(PLAINLY["called"])(s, mid))


@several("equal", {k: PLAINLY[k] for k in ("called", "state_dict", "saved")})
def plain_module_of_a_script(s, use):
    s.net.mid = torch.jit.script(s.net.mid)
    plain_module_(s, use)


@idiom("warned", "is gone")
def plain_module_of_a_remote_that_is_gone(s):
    mid = s.net.mid
    s.make()
    s.loop(2)
    s.net.mid = mid
    s.see(mid(torch.ones(1, 16)).sum())


@idiom("warned", "before close()")
def plain_module_made_remote_behind_close(s):
    mid = s.net.mid
    s.make()
    s.loop(2)
    old, s.net.mid = s.net.mid, mid
    if s.remote:
        old.close(True)
    s.make(SGD(s.net.parameters(), 0.1))
    s.loop(2)


@idiom("refused", "copy.deepcopy")
def plain_module_scripted(s):
    mid = s.net.mid
    s.make()
    s.loop(2)
    torch.jit.script(mid)


@several("refused", {"called": lambda m, x: m(x), "state_dict": lambda m, x: m.state_dict(), "deepcopy": lambda m, x: copy.deepcopy(m)}, "before close()")
def plain_module_behind_close(s, use):
    mid = s.net.mid
    s.make()
    s.loop(2)
    s.net.mid.close()
    use(mid, torch.zeros(8, 16))


@idiom("equal")
def plain_module_with_weights_of_the_script(s):
    mid = s.net.mid
    s.make()
    s.loop(2)
    mid.load_state_dict({k: torch.zeros_like(v) for k, v in mid.state_dict().items()})
    s.see(mid(torch.ones(1, 16)).abs().sum())
    s.net.mid = mid
    s.see(mid(torch.ones(1, 16)).abs().sum())


@idiom("equal")
def average_of_state_dict(s):
    s.make()
    mean = {k: v.clone() for k, v in s.net.state_dict().items()}

    def move(i):
        for k, v in s.net.state_dict().items():
            mean[k].mul_(0.9).add_(v, alpha=0.1)
    s.loop(after=move)
    s.see(sum(v.double().sum() for v in mean.values()))


@several("refused", {
    "averaged_model": lambda n: torch.optim.swa_utils.AveragedModel(n), "deepcopy": lambda n: copy.deepcopy(n), "pickle": lambda n: pickle.dumps(n),
    "torch_save": lambda n: torch.save(n, io.BytesIO())}, "a middle cannot be")
def network_copied(s, copied):
    s.make()
    copied(s.net)


@idiom("equal")
def save_and_load_weights(s):
    s.make()
    s.loop(3)
    f = io.BytesIO()
    torch.save(s.net.state_dict(), f)
    f.seek(0)
    s.loop(2)
    s.net.load_state_dict(torch.load(f))
    s.loop(3)


@idiom("warned", "without the optimizer's moments")
def load_with_moments(s):
    s.make(ADAM(s.net.parameters(), 1e-2))
    s.loop(2)
    s.net.load_state_dict(s.net.state_dict())
    s.loop(2)


@idiom("refused", "cannot be set")
def lookahead_copies_back(s):
    s.make()
    for m in s.net.modules():
        if isinstance(m, nn.Linear):
            m.weight = nn.Parameter(m.weight.clone())


# ---- frozen layers

@idiom("refused", "cannot learn any more")
def unfreeze_later(s):
    for p in s.net.mid.parameters():
        p.requires_grad = False
    s.make()
    s.loop(2)
    for p in s.net.parameters():
        p.requires_grad = True
    s.loop(2)


@several("refused", {"method": lambda n: n.requires_grad_(True), "each": lambda n: [p.requires_grad_() for p in n.parameters()],
                     "modules": lambda n: [setattr(p, "requires_grad", True) for m in n.modules() for p in m.parameters(recurse=False)]}, "cannot learn any more")
def unfreeze_a_part_later(s, unfreeze):
    s.net.mid[0].requires_grad_(False)
    s.make()
    s.loop(2)
    unfreeze(s.net)


@several("refused", {"all": lambda n: n.requires_grad_(False), "each": lambda n: [setattr(p, "requires_grad", False) for p in n.parameters()],
                     "by_name": lambda n: [p.requires_grad_(False) for k, p in n.named_parameters() if not k.startswith("tail")]}, "requires_grad was changed")
def freeze_later(s, freeze):
    s.make()
    s.loop(2)
    freeze(s.net)
    s.loop(2)


@several("equal", {"all": lambda n: n.mid.requires_grad_(False), "one": lambda n: n.mid[0].requires_grad_(False), "bias": lambda n: [p.requires_grad_(False) for k, p in n.mid.named_parameters() if "bias" in k]})
def freeze_before(s, freeze):
    freeze(s.net)
    s.make()
    s.loop()


@idiom("equal")
def optimizer_of_what_learns(s):
    s.net.mid[0].requires_grad_(False)
    s.make(SGD(filter(lambda p: p.requires_grad, s.net.parameters()), 0.1))
    s.loop()


@idiom("equal")
def freeze_by_option(s):
    if not s.remote:
        s.net.mid[0].requires_grad_(False)
    s.make(freeze=["0.*"])
    s.loop()


@idiom("equal")
def frozen_head(s):
    s.net.head.requires_grad_(False)
    s.make(input_grad=False)
    s.loop()


# ---- modes

def test(s, guard=torch.no_grad):
    with guard():
        s.see(s.loss(5))


@several("equal", {"no_grad": torch.no_grad, "inference": torch.inference_mode, "plain": contextlib.nullcontext}, layers="norm")
def evaluation(s, guard):
    s.make()

    def check(i):
        s.net.eval()
        test(s, guard)
        s.net.train()
    s.loop(after=check)


@several("equal", {"no_grad": torch.no_grad, "inference": torch.inference_mode, "off": lambda: torch.set_grad_enabled(False)})
def evaluation_without_eval(s, guard):
    s.make()
    s.loop(after=lambda i: test(s, guard))


@several("refused", {"no_grad": torch.no_grad}, "gradients are off: call eval() first", layers="norm")
def evaluation_without_eval_of_a_norm(s, guard):
    s.make()
    s.loop(after=lambda i: test(s, guard))


@idiom("refused", "has another mode than RemoteModule", layers="norm")
def norms_in_evaluation(s):
    s.make()
    for m in s.net.modules():
        if isinstance(m, nn.BatchNorm1d):
            m.eval()
    s.loop()


@idiom("refused", "has another mode than RemoteModule", layers="zero")
def dropout_at_prediction(s):
    s.make()
    s.net.eval()
    for m in s.net.modules():
        if m.__class__.__name__.startswith("Dropout"):
            m.train()
    test(s)
    s.net.train()
    s.loop()


@several("refused", {"momentum": lambda m: setattr(m, "momentum", 0.01), "statistics": lambda m: setattr(m, "track_running_stats", False), "eps": lambda m: setattr(m, "eps", 1e-3)},
         "cannot be set", layers="norm")
def norms_changed(s, change):
    s.make()
    for m in s.net.modules():
        if isinstance(m, nn.BatchNorm1d):
            change(m)


@idiom("refused", "cannot be set", layers="zero")
def dropout_changed(s):
    s.make()
    for m in s.net.modules():
        if isinstance(m, nn.Dropout):
            m.p = 0.3


@idiom("refused", "is that of an evaluation", layers="norm")
def backward_in_evaluation(s):
    s.make()
    s.net.eval()
    s.loop()


@idiom("equal", layers="norm")
def statistics_anew(s):
    s.make(calls=2)
    for i in range(4):
        s.opt.zero_grad()
        with torch.no_grad():
            s.net(DATA[5][0])
        s.loss(i).backward()
        s.step()


# ---- initial values

def kaiming(m):
    if isinstance(m, nn.Linear):
        nn.init.constant_(m.weight, 0.05)
        nn.init.zeros_(m.bias)


@idiom("equal")
def initialize_by_apply(s):
    s.make()
    s.net.apply(kaiming)
    s.loop()


@idiom("equal")
def initialize_before(s):
    s.net.apply(kaiming)
    s.make()
    s.loop()


def constant(m):
    if hasattr(m, "weight"):
        nn.init.constant_(m.weight, 0.1)


def filled(m):
    if m.__class__.__name__ == "Linear":
        m.weight.data.fill_(0.1)


@several("warned", {"kaiming": kaiming, "weight": constant, "data": filled}, "were changed here")
def initialize_in_a_loop(s, fill):
    s.make()
    for m in s.net.modules():
        if not isinstance(m, (Net, split.RemoteModule)):
            fill(m)
    s.loop()


@idiom("warned", "were changed here")
def initialize_by_reset(s):
    s.make()
    for m in s.net.modules():
        if isinstance(m, nn.Linear):
            m.reset_parameters()
    s.loop()


@idiom("warned", "were changed here")
def initialize_parameters(s):
    s.make()
    for p in s.net.parameters():
        nn.init.uniform_(p, -0.1, 0.1)
    s.loop()


# ---- backward

@idiom("equal")
def accumulate(s):
    s.make(calls=2)
    for i in range(3):
        s.opt.zero_grad()
        for k in range(2):
            (s.loss(2 * i + k) / 2).backward()
        s.step()


@idiom("refused", "is open")
def accumulate_without_calls(s):
    s.make()
    s.opt.zero_grad()
    for k in range(2):
        (s.loss(k) / 2).backward()
    s.step()


@idiom("equal")
def losses_added(s):
    s.make(calls=2)
    for i in range(3):
        s.opt.zero_grad()
        (s.loss(i) + 0.5 * s.loss(i + 1)).backward()
        s.step()


@idiom("equal")
def siamese_rows(s):
    s.make()
    x = DATA[0][0]
    for _ in range(4):
        s.opt.zero_grad()
        a, b = s.net(x).split(4)
        ((a - b) ** 2).mean().backward()
        s.step()


@idiom("refused", "ran already")
def backward_twice(s):
    s.make()
    s.opt.zero_grad()
    loss = s.loss()
    loss.backward(retain_graph=True)
    loss.backward()
    s.step()


@idiom("equal")
def retain_graph_once(s):
    s.make()
    for i in range(3):
        s.opt.zero_grad()
        s.loss(i).backward(retain_graph=True)
        s.step()


@idiom("equal")
def saliency(s):
    s.make()
    s.loop(2)
    x = DATA[0][0].clone().requires_grad_()
    grad, = torch.autograd.grad(s.net(x)[:, 0].sum(), x)
    s.see(grad.abs().sum())
    if s.remote:
        s.net.mid.drop()
    s.loop(2)


@idiom("refused", "is open")
def saliency_counts(s):
    s.make()
    x = DATA[0][0].clone().requires_grad_()
    torch.autograd.grad(s.net(x)[:, 0].sum(), x)
    s.opt.zero_grad()
    s.loss(1).backward()
    s.step()


@idiom("refused", "has no gradient")
def middle_detached(s):
    s.make()
    s.opt.zero_grad()
    F.cross_entropy(s.net.tail(s.net.mid(s.net.head(DATA[0][0])).detach()), DATA[0][1]).backward()
    s.step()


@idiom("refused", "is open")
def batch_skipped(s):
    s.make()
    for i in range(3):
        s.opt.zero_grad()
        loss = s.loss(i)
        if i == 1:
            continue
        loss.backward()
        s.step()


@idiom("refused", "")
def loss_is_nan(s):
    s.make()
    plain = s.loss
    s.loss = lambda i: plain(i) * math.nan
    s.loop(1)


@idiom("refused", "is open")
def evaluation_inside_a_step(s):
    s.make()

    def look(i):
        with torch.no_grad():
            s.net(DATA[5][0])
    s.loop(each=look)


@idiom("refused", "call")
def middle_never_steps(s):
    s.make()
    for i in range(3):
        s.opt.zero_grad()
        s.loss(i).backward()
        s.opt.step()


@idiom("equal")
def autocast(s):
    s.make()
    plain = s.loss

    def loss(i):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=False):
            return plain(i)
    s.loss = loss
    s.loop()


@idiom("refused", "call .float() on its input")
def doubles(s):
    s.make()
    s.net.double()
    s.net(DATA[0][0].double())


@idiom("equal")
def scaled_loss(s):
    s.make()
    for i in range(4):
        s.opt.zero_grad()
        (s.loss(i) * 1024).backward()
        for p in [*s.net.head.parameters(), *s.net.tail.parameters()] if s.remote else s.net.parameters():
            p.grad.mul_(1 / 1024)
        s.step(**({"scale": 1 / 1024} if s.remote else {}))


# ---- the network as a whole

@several("refused", {"jit_script": lambda n: torch.jit.script(n),
                     "jit_trace": lambda n: torch.jit.trace(n, DATA[0][0]), "fx": lambda n: torch.fx.symbolic_trace(n),
                     "onnx": lambda n: torch.onnx.export(n, DATA[0][0], io.BytesIO())}, "RemoteModule")
def network_converted(s, convert):
    s.make()
    convert(s.net)


@idiom("equal")
def data_parallel_without_gpus(s):
    s.make()
    both, s.loss = nn.DataParallel(s.net), lambda i: F.cross_entropy(both(DATA[i][0]), DATA[i][1])
    s.loop()


@idiom("equal")
def compiled(s):
    s.make()
    net = torch.compile(s.net, backend="eager") if hasattr(torch, "compile") else s.net
    s.loss = lambda i: F.cross_entropy(net(DATA[i][0]), DATA[i][1])
    s.loop()


@several("refused", {"forward": lambda m: m.register_forward_hook(lambda *_: None), "pre": lambda m: m.register_forward_pre_hook(lambda *_: None),
                     "backward": lambda m: m.register_full_backward_hook(lambda *_: None)}, "would never be called")
def hooks_of_modules(s, hook):
    s.make()
    for m in s.net.modules():
        if isinstance(m, nn.Linear):
            hook(m)


@idiom("refused", "is on the server")
def layer_called_by_itself(s):
    s.make()
    dict(s.net.named_modules())["mid.0"](torch.zeros(8, 16))


@idiom("refused", "is on the server")
def layer_by_name(s):
    s.make()
    s.net.mid[0]


@idiom("refused", "is on the server")
def layer_by_attribute(s):
    s.make()
    getattr(s.net.mid, "0")


@idiom("warned", "call RemoteModule in place of the module")
def layers_of_another_list(s):
    layers = [s.net.head, s.net.mid, s.net.tail]
    s.make()
    s.loop(1)
    x = DATA[0][0]
    for layer in layers:
        x = layer(x)
    F.cross_entropy(x, DATA[0][1]).backward()
    s.loop(1)


@idiom("equal")
def new_tail(s):
    s.make()
    s.loop(2)
    torch.manual_seed(5)
    s.net.tail = nn.Linear(16, 3)
    s.opt.add_param_group({"params": s.net.tail.parameters(), "lr": 0.05})
    s.loop(2)


@several("equal", {"float": lambda n: n.float(), "to": lambda n: n.to("cpu"), "channels_last": lambda n: n.to(memory_format=torch.channels_last), "train": lambda n: n.train().train(True)})
def network_moved(s, move):
    s.make()
    move(s.net)
    s.loop()


@idiom("equal")
def short_last_batch(s):
    s.make()
    plain, short = s.loss, (DATA[0][0][:3], DATA[0][1][:3])
    s.loss = lambda i: plain(i) if i % 2 else F.cross_entropy(s.net(short[0]), short[1])
    s.loop()


@idiom("equal")
def mixup(s):
    s.make()

    def loss(i):
        (x, t), (z, u) = DATA[i], DATA[i + 1]
        y = s.net(0.3 * x + 0.7 * z)
        return 0.3 * F.cross_entropy(y, t) + 0.7 * F.cross_entropy(y, u)
    s.loss = loss
    s.loop()


@several("equal", {"smooth": lambda y, t: F.cross_entropy(y, t, label_smoothing=0.1), "sum": lambda y, t: F.cross_entropy(y, t, reduction="sum") / 8,
                   "weights": lambda y, t: F.cross_entropy(y, t, weight=torch.tensor([1., 2., 3.])), "nll": lambda y, t: F.nll_loss(y.log_softmax(1), t),
                   "distilled": lambda y, t: F.kl_div(y.log_softmax(1), torch.full_like(y, 1 / 3), reduction="batchmean"),
                   "focal": lambda y, t: ((1 - y.softmax(1).gather(1, t[:, None])) ** 2 * F.cross_entropy(y, t, reduction="none")[:, None]).mean(), "regression": lambda y, t: F.mse_loss(y[:, 0], t.float())})
def losses(s, of):
    s.make()
    s.loss = lambda i: of(s.net(DATA[i][0]), DATA[i][1])
    s.loop()


# ---- what forward asks of a tensor

class Asks(nn.Module):
    def __init__(self, middle, asks):
        super().__init__()
        self.middle, self.asks = middle, asks

    def forward(self, x):
        return self.asks(self.middle(x))


@several("equal", {"isinstance": lambda x: torch.tanh(x) if isinstance(x, torch.Tensor) else x, "is_tensor": lambda x: torch.tanh(x) if torch.is_tensor(x) else x,
                   "either": lambda x: torch.tanh(x) if isinstance(x, (torch.Tensor, list)) else x, "list": lambda x: x[0] if isinstance(x, list) else torch.tanh(x),
                   "hasattr": lambda x: x * 2 if hasattr(x, "mask") else torch.tanh(x), "getattr": lambda x: torch.tanh(x) if getattr(x, "tensors", None) is None else x,
                   "callable": lambda x: x if callable(x) else torch.tanh(x)})
def questions(s, asks):
    s.net.mid = Asks(s.net.mid, asks)
    s.make()
    s.loop()
