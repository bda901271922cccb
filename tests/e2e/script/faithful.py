"""Effects of a script beside its layers: in place, in evaluation, in Python, on a wrapped module. Each is reproduced or refused."""
import copy
import itertools
import logging
import random
from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn

import split
from composed import C, SHAPE, check_each
from middles import refused
from torch_api import BertLayer, BertLayers, batches, remote, run

TOKENS = (8, 6, 12)
calls = itertools.count()


class Of(nn.Module):
    """A module of one function of its own convolution, or linear layer, and an input."""

    def __init__(self, forward, layer=None):
        super().__init__()
        self.layer, self.of = layer or nn.Conv2d(C, C, 1), forward

    def forward(self, x):
        return self.of(self, x)


class PreActivation(nn.Module):
    """The activation is in place, so the shortcut sees it, too."""

    def __init__(self):
        super().__init__()
        self.relu, self.conv = nn.ReLU(inplace=True), nn.Conv2d(C, C, 3, padding=1)

    def forward(self, x):
        return self.conv(self.relu(x)) + x


class Aliases(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(C, C, 1)

    def forward(self, x):
        y = self.conv(x)
        z = y
        y += x
        w = torch.tanh(y) * z
        w *= 0.5
        F.leaky_relu(w, 0.2, True)
        return torch.cat([w, w - z], 1)


class Copies(nn.Module):
    """Results that need no op of the graph are new tensors nevertheless, and in-place functions return their own argument."""

    def __init__(self):
        super().__init__()
        self.conv, self.scale = nn.Conv2d(C, C, 1), 1.0

    def forward(self, x):
        y, z = x.clone(), x * self.scale
        y += 1.0
        z += y
        a = torch.cat([x], 1)
        a.sub_(1.0).mul_(2.0).div_(3.0)
        b = self.conv(x)
        c = b.add_(1.0)
        c += 1.0
        return torch.cat([x * y, z * a, b * c], 1) * 0.1


class Defaults(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(C, C, 1)

    def forward(self, x, skip: Optional[torch.Tensor] = None, twice: bool = False, by: float = 0.5):
        if skip is None:
            x = self.conv(x)
        if skip is not None:
            x = x + skip
        return x * by if twice else x


class Dropped(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = 0.0

    def forward(self, x):
        if self.training:
            x = F.dropout(x, self.p, self.training)
        return F.dropout(x, 0.0, training=self.training)


class Squeezed(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.fc = nn.Parameter(torch.rand(C)), nn.Linear(C, C)

    def forward(self, x):
        g = self.fc(F.adaptive_avg_pool2d(x, 1).squeeze(-1).squeeze(-1)).unsqueeze(2).unsqueeze(3)
        g = g + self.fc(x.mean([2, 3])).tanh()[:, :, None, None]
        return x * torch.sigmoid(g).clone() * self.scale[:, None, None]


class Joined(nn.Module):
    """Concatenation of rows, tokens and images, along each dimension."""

    def __init__(self):
        super().__init__()
        self.rows, self.token = nn.Linear(C, 5), nn.Parameter(torch.rand(1, 1, C))

    def forward(self, x):
        t = x.flatten(2).transpose(1, 2)
        t = torch.cat([t, self.rows(t)], 2)
        t = torch.cat([t, t[:, 1:3]], 1)
        t = t.mean(1)
        m = x.mean([2, 3])
        n = torch.cat([m, self.rows(m), m], -1)
        y = torch.cat([x, F.relu(x)], 2)
        return torch.cat([t, n, torch.cat([y, y], 3).flatten(1)], 1)


class ClassToken(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.norm, self.weight = nn.Parameter(torch.rand(1, 1, 12)), nn.LayerNorm(12), nn.Parameter(torch.rand(7, 12))

    def forward(self, x):
        x = torch.cat([self.token.expand(x.size(0), -1, -1), x], 1)
        return F.linear(self.norm(x)[..., 0:12] * torch.rsqrt(x.square() + 1.0), self.weight).neg()


class Magnitude(nn.Module):
    def forward(self, x):
        return torch.abs(x)


class Bounded(nn.Module):
    def forward(self, x):
        return x.clamp(-65504.0, 65504.0) + x.clamp(max=1e4)


IMAGES = {
    "PreActivation": PreActivation, "Aliases": Aliases, "Copies": Copies, "Defaults": Defaults, "Dropped": Dropped, "Squeezed": Squeezed, "Joined": Joined,
    "kinks": lambda: nn.Sequential(nn.ReLU(), Magnitude(), nn.PReLU(C)), "far bounds": Bounded,
    "norm of signals": lambda: nn.Sequential(nn.Flatten(2), nn.GroupNorm(2, C), nn.Flatten(), nn.Unflatten(1, (C, 6, 6))),
}


def check_computed():
    check_each(IMAGES, SHAPE, lambda: nn.Conv2d(C, C, 1))
    check_each({"ClassToken": ClassToken}, TOKENS, lambda: nn.Linear(12, 12))


def check_kinks():
    """Gradients at exactly 0, as after a ReLU."""
    for mid in (nn.PReLU(), nn.Sequential(nn.PReLU(), Magnitude())):
        own, x, y = copy.deepcopy(mid), torch.zeros(SHAPE, requires_grad=True), torch.zeros(SHAPE, requires_grad=True)
        remote(mid, SHAPE)(x).sum().backward()
        own(y).sum().backward()
        assert torch.equal(x.grad, y.grad), mid


@torch.fx.wrap
def relu_(x):
    """Not PyTorch's."""
    return x * 2.0


def hooked(of):
    m = nn.Sequential(nn.Linear(12, 12), nn.ReLU())
    of(m)
    return m


class Half(nn.TransformerEncoderLayer):
    def _ff_block(self, x):
        return super()._ff_block(x) * 0.5


class Scoped(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(12, 12), nn.Linear(12, 12)

    def forward(self, x):
        with torch.no_grad():
            y = self.a(x)
        return self.b(y) + x


class Decorated(Scoped):
    @torch.no_grad()
    def still(self, x):
        return self.a(x)

    def forward(self, x):
        return self.b(self.still(x)) + x


class Python(nn.Module):
    def __init__(self, of):
        super().__init__()
        self.a, self.k, self.of = nn.Linear(12, 12), 0, of

    def forward(self, x):
        return self.a(x) * self.of(self)


class HalfNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x) * 0.5


class Twice(nn.Linear):
    def forward(self, x):
        return super().forward(x) * 2.0


def encoder(of=lambda m: None, **kwargs):
    m = nn.TransformerEncoder(nn.TransformerEncoderLayer(12, 2, 8, 0.0, batch_first=True), 2, **kwargs)
    of(m)
    return m


def check_parts():
    """What is computed as a whole has the parts that its package gives it."""
    for module, says in (
            (encoder(norm=HalfNorm(12)), "0.norm: HalfNorm is not known there"), (encoder(norm=nn.BatchNorm1d(6)), "0.norm: BatchNorm1d is not known there"),
            (encoder(lambda m: setattr(m.layers[1], "norm1", HalfNorm(12))), "layers.1.norm1: HalfNorm"),
            (encoder(lambda m: setattr(m.layers[0].self_attn, "out_proj", Twice(12, 12))), "out_proj: Twice"),
            (encoder(lambda m: setattr(m, "layers", nn.ModuleList([m.layers[0]] * 3))), "layers.1.self_attn.in_proj_weight: its layer is in two places"),
            (encoder(lambda m: setattr(m.layers[1], "linear1", m.layers[0].linear1)), "layers.1.linear1.weight: its layer is in two places")):
        refused(split.ConfigError, says, remote, module, TOKENS)
    refused(split.ConfigError, "0.base_layer: Twice", remote, nn.Sequential(Twice(12, 12)), TOKENS, lora={"rank": 2, "alpha": 4, "target": ["0"]})


class Adapted(nn.Linear):
    """As loralib has it."""

    def forward(self, x):
        return super().forward(x) + x


class PreNorm(BertLayer):
    def forward(self, hidden_states, attention_mask=None):
        y = self.attention.output.dense(self.attention.self.value(self.attention.output.LayerNorm(hidden_states)))
        return (self.output.dense(self.intermediate(self.output.LayerNorm(y + hidden_states))),)


def check_others():
    """Classes with transformers' names from elsewhere are read as they are written; replaced parts of its own classes are refused."""
    PreNorm.__name__, mid = "BertLayer", BertLayers(2, 32, 4, 64)
    mid.layer[0] = PreNorm(32, 4, 64)
    x, m = torch.randn(4, 6, 32), remote(mid, (4, 6, 32))
    assert (m(x) - mid(x)).abs().max() < 1e-5
    m.close(True)
    for path, part, says in (("attention.self", "query", Adapted(32, 32)), ("output", "LayerNorm", nn.Identity()), ("output", "dropout", nn.Identity()),
                             ("intermediate", "intermediate_act_fn", nn.GELU(approximate="tanh")), ("attention", "output", PreNorm(32, 4, 64))):
        mid = BertLayers(1, 32, 4, 64)
        setattr(mid.layer[0].get_submodule(path), part, says)
        refused(split.ConfigError, "known", remote, mid, (4, 6, 32))


def check_unread():
    """A value that the script compares, or whose attributes it reads, is not taken as a mask or a factor."""
    attends = nn.MultiheadAttention(12, 2, batch_first=True)
    layer = nn.TransformerEncoderLayer(12, 2, 8, 0.0, batch_first=True)
    conv = nn.Conv2d(C, C, 1)
    for of, part, shape in ((lambda m, x: m.layer(x, x, x, key_padding_mask=x[:, :, 0] != 1)[0], attends, TOKENS),
                            (lambda m, x: m.layer(x, x, x, key_padding_mask=x[:, :, 0].eq(0))[0], attends, TOKENS),
                            (lambda m, x: m.layer(x, src_key_padding_mask=x[:, :, 0] == 0), layer, TOKENS),
                            (lambda m, x: x * m.layer(x, x, x)[1], attends, TOKENS),
                            (lambda m, x: m.layer(x) * torch.max(x, 1, keepdim=True)[1], conv, SHAPE),
                            (lambda m, x: m.layer(x) * torch.max(x, 1, keepdim=True).values, conv, SHAPE),
                            (lambda m, x: m.layer(x) + x.data, conv, SHAPE), (lambda m, x: m.layer(x) * (x == 0), conv, SHAPE),
                            (lambda m, x: torch.cat([m.layer(x), x == 0], 1), conv, SHAPE)):
        refused(split.ConfigError, "which the server does not compute", remote, Of(of, part), shape)
    remote(Of(lambda m, x: (torch._assert(x.dim() == 4, ""), torch._assert(x.size(1) == C, ""), m.layer(x))[2], conv), SHAPE).close(True)


class Buffers(nn.Module):
    """The first two buffers determine the graph; the others are only uploaded."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(12, 12)
        for name, value in dict(all=torch.tensor(2.0), each=torch.rand(12), gain=torch.rand(12), place=torch.rand(6, 12)).items():
            self.register_buffer(name, value)

    def forward(self, x):
        return self.layer(x / self.all) * (self.each + 1.0) * self.gain.size(0) + self.gain[None] + self.place[:x.size(1)]


class Hidden(Buffers):
    def __init__(self):
        super().__init__()
        self.all, self.each, self.layer = torch.ones(6, 6).triu(1).bool(), torch.tensor(0.5), nn.MultiheadAttention(12, 2, batch_first=True)

    def forward(self, x):
        return self.layer(x, x, x, attn_mask=self.all)[0] * self.each[None]


def check_read():
    """The builder reports which tensors' values became constants of the graph, and these values."""
    for mid in (Buffers(), Hidden()):
        for form in (copy.deepcopy(mid), torch.jit.script(copy.deepcopy(mid))):
            read, had = remote(form, TOKENS)._builder.read, dict(form.named_buffers())
            assert all(torch.equal(now, was) for _, now, was in read) and any(path == "all" for path, _, _ in read), read
            stale = set()
            for key, tensor in had.items():
                tensor.copy_(tensor == 0)
                stale |= {key} if any(not torch.equal(now, was) for _, now, was in read) else set()
                for _, now, was in read:
                    was.copy_(now)
            assert stale == {"all", "each"}, stale


class Padded(nn.Module):
    """A pad of nothing is a copy, and a Flatten is not."""

    def __init__(self, flattens):
        super().__init__()
        self.conv, self.pad, self.relu, self.flat, self.flattens = nn.Conv2d(C, C, 1), nn.ZeroPad2d(0), nn.ReLU(inplace=True), nn.Flatten(), flattens

    def forward(self, x):
        y = self.conv(x)
        z = self.relu(self.flat(y) if self.flattens else self.pad(y))
        return y + 1.0 if self.flattens else y + z


class Twin(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.rand(12))
        self.b = self.a

    def forward(self, x):
        return x * self.a + self.b


def free(module):
    module.free = torch.rand(12, requires_grad=True)
    return module


class FrozenNorm(nn.Sequential):
    def train(self, mode=True):
        super().train(mode)
        self[0].eval()
        return self


def check_refused():
    tied = nn.Sequential(nn.Linear(12, 12), nn.Linear(12, 12))
    tied[1].weight = tied[0].weight
    alike = nn.Sequential(nn.Linear(12, 12), nn.Linear(12, 12))
    alike[1].weight.data = alike[0].weight.data
    norm = nn.Sequential(nn.Conv2d(C, C, 1), nn.BatchNorm2d(C))
    norm[1].eval()
    parts = Of(lambda m, x: (lambda a, b: torch.cat([a.mul_(2.0), b], 2))(*(lambda y: (y[:, :, :4], y[:, :, 2:6]))(m.layer(x))), nn.Linear(12, 12))
    views = Of(lambda m, x: (lambda y: y.transpose(1, 2).mul_(2.0).transpose(1, 2) + y)(m.layer(x)), nn.Linear(12, 12))
    for module, says, shape in (
            (hooked(lambda m: m[0].register_forward_hook(lambda m, i, o: o * 2)), "0: it has hooks", TOKENS),
            (hooked(lambda m: m[0].weight.register_hook(lambda g: g * 2)), "0.weight: it has hooks on its gradient", TOKENS),
            (hooked(lambda m: nn.utils.weight_norm(m[0])), "weight_norm", TOKENS),
            (hooked(lambda m: setattr(m[1], "forward", lambda x: x)), "1: its forward was replaced", TOKENS),
            (tied, "1.weight: it is the same parameter as 0.weight", TOKENS),
            (alike, "1.weight: it is the same parameter as 0.weight", TOKENS), (torch.jit.script(Twin()), "b: it learns, and is no parameter", TOKENS),
            (nn.Linear(12, 12).double(), "weight: it is torch.float64, and the middle computes in float32", TOKENS),
            (nn.Sequential(nn.Linear(12, 12).half()), "0.weight: it is torch.float16", TOKENS),
            (free(Of(lambda m, x: m.layer(x) + m.free, nn.Linear(12, 12))), "free: it learns, and is no parameter", TOKENS),
            (Of(lambda m, x: m.layer(x) * m.layer.bias[[1, 0, *range(2, 12)]], nn.Linear(12, 12)), "in its own order", TOKENS),
            (Of(lambda m, x: scores(m, x).div(2.0, rounding_mode="floor").softmax(-1) @ x, nn.Linear(12, 12)), "rounding_mode", TOKENS),
            (Padded(True), "changed in place", SHAPE), (torch.jit.script(Padded(True)), "changed in place", SHAPE),
            (norm, "1: it is in evaluation", SHAPE), (FrozenNorm(nn.BatchNorm2d(C)), "0: it is in evaluation", SHAPE),
            (nn.TransformerEncoder(Half(12, 2, 8, batch_first=True), 1), "layers.0: Half is not known there", TOKENS),
            (Scoped(), "torch.no_grad() inside forward", TOKENS), (Decorated(), "torch.no_grad() inside forward", TOKENS),
            (torch.jit.script(Scoped()), "a with statement, such as torch.no_grad()", TOKENS),
            (Python(lambda m: random.random()), "draws random numbers in Python", TOKENS),
            (Python(lambda m: float(torch.rand(()))), "draws random numbers in Python", TOKENS),
            (Python(lambda m: setattr(m, "k", m.k + 1) or m.k), "forward changes k, which its module holds", TOKENS),
            (Python(lambda m: next(calls)), "something else in evaluation than in training, or in each call", TOKENS),
            (Of(lambda m, x: m.layer(x) * (0.5 if m.training else 1.0), nn.Linear(12, 12)), "something else in evaluation", TOKENS),
            (Of(lambda m, x: F.dropout(m.layer(x), 0.5), nn.Linear(12, 12)), "training=self.training", TOKENS),
            (Of(lambda m, x: relu_(m.layer(x))), "relu_ is not known", SHAPE), (views, "changed in place", TOKENS), (parts, "changed in place", TOKENS),
            (Of(lambda m, x: m.layer(x).view(1, -1)), "the first size is 1", SHAPE),
            (hooked(lambda m: m.add_module("a b", nn.ReLU())), "'a b': on the server a name has", TOKENS)):
        refused(split.ConfigError, says, remote, module, shape)


class Lengthened(nn.Module):
    """The loop's sizes are known; the number of rows is not."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(12, 12)

    def forward(self, x):
        y = self.layer(x)
        for i in range(x.size(1) - 4):
            y = y + 1.0
        b, t, f = y.shape
        return y.reshape(b * t, -1)


class Scaled(nn.Linear):
    """Scales by a constant that differs between training and evaluation, and by a parameter named like a computation."""

    def __init__(self, of):
        super().__init__(12, 12)
        self.of, self.exp, self.kept = of, nn.Parameter(torch.zeros(12)), []
        self.register_buffer("b", torch.full((12,), 2.0))

    def forward(self, x):
        return self.of(self, super().forward(x))


class Turned(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return -g


class Called(nn.Linear):
    def __call__(self, x):
        return super().__call__(x) * 2


def scores(m, x):
    return m.layer(x) @ x.transpose(1, 2) * 12 ** -0.5


def check_misread():
    """Code that resembles another computation is computed as it is written, or refused."""
    cube, square = (8, 4, 4, 4), nn.Conv2d(4, 4, 1)
    last = lambda m, x: m.layer(x).permute(0, 2, 3, 1)
    for of, layer, says, shape in (
            (last, square, "channels come last in the output", cube), (lambda m, x: (last(m, x) + x).permute(0, 3, 1, 2), square, "channels come last in one", cube),
            (lambda m, x: (last(m, x) * x[:, :, :1, :1]).permute(0, 3, 1, 2), square, "channels come last in one", cube),
            (lambda m, x: (last(m, x).mean(1, keepdim=True).expand(-1, 4, 4, 4) * x).permute(0, 3, 1, 2), square, "", cube),
            (lambda m, x: m.layer[1](m.layer[0](x)) + m.layer[1].running_mean.view(1, -1, 1, 1), nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4)), "which changes on the server", cube),
            (lambda m, x: Turned.apply(m.layer(x)), nn.Linear(12, 12), "torch.autograd.Function", TOKENS),
            (lambda m, x: m.layer(x).expand(5, 8, 8), nn.Linear(8, 8), "the first size is 5", (8, 8)),
            (lambda m, x: m.layer(x).expand(8, 8, 8), nn.Linear(8, 8), "cannot be repeated", (8, 8)),
            (lambda m, x: (scores(m, x).masked_fill(m.past, -1e9) * -1).softmax(-1) @ x, nn.Linear(12, 12), "which must still hide", TOKENS),
            (lambda m, x: (scores(m, x).masked_fill(m.past, -1e4) / 1e4).softmax(-1) @ x, nn.Linear(12, 12), "which must still hide", TOKENS),
            (lambda m, x: ((m.layer(x) @ x.transpose(1, 2)).masked_fill(m.past, -1e9) / 12 ** 0.5).softmax(-1) @ x, nn.Linear(12, 12), None, TOKENS),
            (lambda m, x: (scores(m, x) + m.past).softmax(-1) @ x, nn.Linear(12, 12), "sums of heads", TOKENS),
            (lambda m, x: m.layer(x).transpose_(1, 2).mean(1), nn.Linear(12, 12), None, TOKENS),
            (lambda m, x: (lambda q, k: (lambda s: (q.add_(1.0), s.softmax(-1) @ x)[1] + q)(q @ k.transpose(1, 2)))(m.layer(x), x), nn.Linear(12, 12), None, TOKENS),
            (lambda m, x: (lambda y: (lambda z: (y.add_(1.0), torch.cat(tensors=[z, x], dim=2))[1])(y[:, :, :4]))(m.layer(x)), nn.Linear(12, 12), "changed in place", TOKENS),
            (lambda m, x: (lambda y: (lambda z: (z.add_(1.0), y * z)[1])(F.dropout(y, 0.0, m.training)))(m.layer(x)), nn.Linear(12, 12), None, TOKENS),
            (lambda m, x: (lambda y: (lambda z: (z.add_(1.0), y * z)[1])(F.dropout(y, 0.3, m.training)))(m.layer(x)), nn.Linear(12, 12), "changed in place", TOKENS),
            (lambda m, x: torch.add(m.layer(x), x, alpha=2), nn.Linear(12, 12), None, TOKENS)):
        mid = Of(of, layer)
        mid.register_buffer("past", torch.ones(6, 6).triu(1).bool())
        check_reading(mid, says, shape)
    for mid, says, shape in (
            (Lengthened(), "joins the number of rows with another dimension", TOKENS), (torch.jit.script(Lengthened()), "the first size is computed", TOKENS),
            (Scaled(lambda m, y: y * (m.b * 2.0 if m.training else m.b * 3.0)), "something else in evaluation", TOKENS),
            (Scaled(lambda m, y: y * m.b.exp() + m.exp), None, TOKENS), (nn.Sequential(Called(12, 12)), "its forward was replaced", TOKENS),
            (Scaled(lambda m, y: (setattr(m, "last", y), y)[1]), None, TOKENS),
            (Scaled(lambda m, y: (lambda z: (setattr(m, "last", z), z)[1])(y + getattr(m, "last", 0.0))), "", TOKENS),
            (Scaled(lambda m, y: (m.b.add_(1.0), y)[1]), "", TOKENS), (Scaled(lambda m, y: (m.kept.append(y), y)[1]), "kept", TOKENS),
            (Scaled(lambda m, y: y + torch.full_like(m.b, 2.0)), "", TOKENS)):
        check_reading(mid, says, shape)
        assert says is None or not hasattr(mid, "last")
    for form in (Padded(False), torch.jit.script(Padded(False))):
        check_reading(form, None, SHAPE)
    for of, own, layer, shape in ((lambda m, x: m.layer(x) * m.own.unsqueeze(0).unsqueeze(-2), 12, nn.Linear(12, 12), TOKENS),
                                  (lambda m, x: m.layer(x) + m.own[None, None], (6, 6), nn.Conv2d(1, 1, 1), (8, 1, 6, 6))):
        mid = Of(of, layer)
        mid.own = nn.Parameter(torch.rand(own))
        check_reading(mid, None, shape)
    own = Of(lambda m, x: m.layer(x) + m.one, nn.Linear(12, 12))
    own.one = nn.Parameter(torch.ones(1, 1, 1))
    check_reading(own, "it has 3 dimensions beside 2", (8, 12))
    check_reading(own, None, TOKENS)
    each = Of(lambda m, x: m.layer(x) / x.size(1), nn.Linear(12, 12))
    refused(split.ConfigError, "the number of rows or tokens", remote, each, TOKENS, lengths=True)
    check_reading(each, None, TOKENS)


def check_reading(mid, says, shape):
    """says: the text of the expected refusal; None: the module must be read."""
    if says is not None:
        return refused(split.ConfigError, says, remote, mid, shape)
    x, m = torch.randn(shape), remote(copy.deepcopy(mid), shape)
    for training in (True, False):
        y, theirs = mid.train(training)(x.clone()), m.train(training)(x.clone())
        assert y.shape == theirs.shape and (y - theirs).abs().max() < 1e-4, (training, y, theirs)
        m.drop()
    m.close(True)


def check_inputs():
    m = remote(nn.Sequential(nn.Conv2d(C, C, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.BatchNorm1d(C)), SHAPE)
    for shape in ((8, C, 9, 4), (8, 6, C, 6), (8, C * 36), (0, *SHAPE[1:])):
        refused(split.UsageError, f"an input of {list(shape)}; the middle was made for [rows, 4, 6, 6]", m, torch.zeros(shape))
    refused(split.UsageError, "computes in float32", m, torch.zeros(SHAPE, dtype=torch.int64))
    refused(split.UsageError, "has no variance", m, torch.zeros(1, *SHAPE[1:]))
    refused(split.UsageError, "x has 8 rows, and t 4", m.pipelined, nn.Identity(), None, torch.zeros(SHAPE), torch.zeros(4))
    m.eval()
    head = torch.zeros(1, *SHAPE[1:], requires_grad=True)
    refused(split.UsageError, "which has no gradient: call train()", m(head).sum().backward)
    assert not remote(nn.Linear(12, 12).eval(), TOKENS).training


def trained(steps, m, opt, data, after=lambda: None):
    for x, t in data[:steps]:
        opt.zero_grad()
        F.cross_entropy(m(x), t).backward()
        after()
        opt.step()


def check_groups():
    """The first group has no learning rate, or is given none."""
    mid = nn.Sequential(nn.Linear(12, 12), nn.Linear(12, 5))
    own, data = copy.deepcopy(mid), batches((8, 12), 6)

    def kind(m):
        return torch.optim.SGD([{"params": m[0].parameters(), "lr": 0.0}, {"params": m[1].parameters(), "lr": 0.1}], 0.1)
    opt = kind(mid)
    m = remote(mid, (8, 12), opt)
    trained(6, m, opt, data, m.step)
    trained(6, own, kind(own), data)
    assert all((a - b).abs().max() < 1e-6 for a, b in zip(m.state_dict().values(), own.state_dict().values()))
    opt.param_groups[1]["lr"] = 0.0
    opt.param_groups[0]["lr"] = 0.1
    m(data[0][0]).sum().backward()
    refused(split.ConfigError, "no longer have the factors", m.step)


def check_loads():
    mid, tail = nn.Sequential(nn.Linear(12, 12), nn.Linear(12, 5)), nn.Linear(5, 5)
    opt, data = torch.optim.SGD([*mid.parameters(), *tail.parameters()], 0.1, 0.9), batches((8, 12), 6)
    whole = nn.Sequential(remote(mid, (8, 12), opt), tail)
    trained(4, whole, opt, data, whole[0].step)
    before = whole.state_dict()
    whole.load_state_dict({"1.weight": torch.ones(5, 5)}, strict=False)
    after = whole.state_dict()
    assert whole[0].step_number == 4 and all(torch.equal(before[k], after[k]) for k in before if k != "1.weight"), "the middle was reset"
    whole.load_state_dict({"0.0.bias": torch.ones(12)}, strict=False)
    assert torch.equal(whole.state_dict()["0.0.weight"], before["0.0.weight"]), "the weights of one layer alone are loaded"
    refused(RuntimeError, "size mismatch for 0.0.bias", whole.load_state_dict, {"0.0.bias": torch.ones(1)}, strict=False)


def listen():
    """Collects what is logged from now on."""
    said, handler = [], logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    logging.getLogger("split").addHandler(handler)
    return said


def check_silence():
    said = listen()
    refused(split.UnavailableError, "", split.RemoteModule, nn.Linear(12, 5), "tcp://127.0.0.1:1", example=(8, 12), optimizer={"lr": 0.1}, wait_s=4)
    assert sum("tcp://127.0.0.1:1 has not answered yet" in s for s in said) == 1, said


def check_behind():
    """Changes that the script makes to the module after wrapping it in RemoteModule, and steps that it forgets."""
    said = listen()
    mid, data = nn.Linear(12, 5), batches((8, 12), 8)
    opt = torch.optim.SGD(mid.parameters(), 0.1)
    m = remote(mid, (8, 12), opt)
    nn.init.ones_(mid.weight)
    for x, t in data[:4]:
        F.cross_entropy(m(x), t).backward()
        opt.zero_grad()
        m.step()
    assert sum("were changed here" in s for s in said) == 1 and sum("the middle does not learn" in s for s in said) == 1, said
    (F.cross_entropy(m(x), t) + mid.weight.square().sum()).backward()
    both = [split.clip_grad_norm_([], m, bound) for bound in (0.01, float("inf"))]
    assert both[0] > 0.05 and abs(both[1] - 0.01) < 1e-4, both
    m.step()
    for _ in range(2):
        F.cross_entropy(m(x), t).backward()
        m.step()
    assert sum("weight: a gradient of the module's own" in s for s in said) == 1, said
    mid.requires_grad_(False)
    refused(split.UsageError, "requires_grad was changed", m, x)


if __name__ == "__main__":
    run(check_computed, check_kinks, check_refused, check_parts, check_others, check_unread, check_read, check_misread, check_inputs, check_groups, check_loads, check_silence, check_behind)
