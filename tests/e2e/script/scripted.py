"""split.RemoteModule of scripted modules equals the same ones read by torch.fx; and its refusals."""
import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torchvision import models

import split

server = sys.argv[1]
torch.set_num_threads(1)


def refused(text, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except split.ConfigError as e:
        assert text in str(e), f"{e!r} does not say {text!r}"
        return
    raise AssertionError(f"{text!r} was not refused")


def encoder(**kwargs):
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True, **kwargs), 2)


def remote(mid, shape, optimizer={"lr": 0.1}, **kwargs):
    return split.RemoteModule(mid, server, example=shape, optimizer=optimizer, **kwargs)


class Cumulates(nn.Module):
    def forward(self, x):
        return torch.cumsum(x, 1)


class Two(nn.Module):
    def forward(self, a, b):
        return a + b


class Halves(nn.Module):
    """What torch.fx cannot follow: branches and loops on shapes and numbers, a list, a method, a function of its own."""

    def __init__(self, c: int):
        super().__init__()
        self.layers, self.deep = nn.ModuleList(nn.Conv2d(c, c, 3, 1, 1) for _ in range(2)), 2

    def one(self, x, i: int):
        return twice(x) if i == 7 else x

    def forward(self, x, times: int = 2):
        if x.size(2) != x.size(3) or x.dim() != 4:
            raise ValueError("not square")
        kept = [x]
        for layer in self.layers:
            kept.append(F.relu(self.one(layer(kept[-1]), x.shape[1])))
        for i in range(times):
            x = x + kept[i] if i < self.deep else x * 2.0
        return torch.cat(kept + [x], 1) if len(kept) == 3 else x


def twice(x):
    return x * 2.0


class Lists(nn.Module):
    """All ways to change a list of numbers, also one with two names and one in a branch."""

    def __init__(self):
        super().__init__()
        self.layer, self.kept = nn.Linear(8, 8), [1.0, 2.0]

    def forward(self, x):
        by, also = [2.0, 5.0, 3.0], self.kept.copy()
        same = by
        if x.size(1) > 4:
            same.reverse()
            by[0] = 7.0
            also.insert(0, 11.0)
            by += also
        by.append(by.pop(1))
        y = self.layer(x) * by[0] + x * by[-1]
        same.extend([13.0])
        same.sort()
        del same[1]
        for b in list(by):
            y = y + b
        also.clear()
        return y * same[1] + float(len(also)) if self.kept == [1.0, 2.0] else x


class Keeps(Lists):
    def forward(self, x):
        if x.size(1) > 4:
            self.kept.reverse()
        return self.layer(x) * self.kept[0]


class Table(Lists):
    def forward(self, x):
        by = {"a": [2.0, 3.0]}
        by["a"].reverse()
        return self.layer(x) * 2.0


class While(Lists):
    def forward(self, x):
        y = self.layer(x)
        while x.size(0) > y.dim():
            y = y * 2.0
        return y


class ByValue(nn.Module):
    def forward(self, x):
        return x * 2.0 if x.shape[0] > 3 else x


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x):
        return self.attend(x, x, x, torch.relu(x))[0]


class Flat(nn.Module):
    def forward(self, x):
        x = F.max_pool2d(x, 2)
        return x.view(x.size(0), -1)


class Patches(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.layer = nn.Conv2d(3, 12, 2, 2), nn.Linear(12, 12)

    def forward(self, x):
        x = self.layer(self.conv(x).flatten(2).transpose(1, 2))[:, 1:-1]
        return x[:, 0] + x.select(1, -1) * x.mean(1) + x[:, ::2].permute(0, 2, 1)[:, :, 1]


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.scale = nn.Linear(32, 32), nn.Parameter(torch.rand(32))
        self.register_buffer("mean", torch.rand(1, 6, 32))

    def forward(self, x):
        return torch.sub(1 - x, self.scale * self.layer(x - self.mean), alpha=0.5) / 2


def check_bits():
    """Scripted modules, also from a file or inside others, train as by torch.fx: 20 steps, the same bits."""
    net = models.resnet18()
    images = nn.Sequential(net.layer1, nn.Sequential(nn.Conv2d(64, 8, 1), nn.Hardswish(), nn.Dropout(0.1), nn.ConvTranspose2d(8, 4, 2, 2), nn.LeakyReLU(0.2), Flat(), nn.Linear(144, 8)))
    for mid, shape in ((images, (4, 64, 6, 6)), (encoder(norm_first=True, activation="gelu"), (4, 6, 32)), (nn.Linear(32, 4), (4, 32)), (Scaled(), (4, 6, 32)), (Patches(), (4, 3, 6, 6))):
        script = torch.jit.script(copy.deepcopy(mid))
        torch.jit.save(script, "scripted.pt")
        forms = [copy.deepcopy(mid), script, torch.jit.load("scripted.pt")]
        if mid is images:
            forms.append(nn.Sequential(copy.deepcopy(mid[0]), torch.jit.script(copy.deepcopy(mid[1]))))
        found = []
        for form in forms:
            opt = torch.optim.SGD(form.parameters(), 0.01, 0.9)
            m, g = remote(form, shape, opt, seed=3), torch.Generator().manual_seed(1)
            ys = []
            for _ in range(20):
                y = m(torch.randn(shape, generator=g))
                y.square().mean().backward()
                m.step()
                ys.append(y.detach())
            found.append((ys, m.state_dict()))
            m.close(True)
        for ys, state in found[1:]:
            assert all(torch.equal(a, b) for a, b in zip(ys, found[0][0])) and set(state) == set(found[0][1])
            assert all(torch.equal(state[k], v) for k, v in found[0][1].items())
        assert any(not torch.equal(found[0][1][k], v) for k, v in mid.state_dict().items())


class Places(nn.Module):
    """Fixed position encodings, as in the first transformer, cut to the number of tokens."""

    def __init__(self):
        super().__init__()
        at = torch.arange(20.0)[:, None] / 10 ** torch.arange(0, 4)
        self.layer, self.gain, self.more = nn.Linear(8, 8), torch.tensor(0.5), nn.Parameter(torch.rand(1, 6, 8))
        self.register_buffer("place", torch.cat([at.sin(), at.cos()], 1)[None])

    def forward(self, x):
        x = self.layer(x * self.gain) + self.place[:, :x.size(1)] + self.more[:, :x.size(1)]
        return x - self.place[:, 1:x.size(1) + 1].neg()


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("level", torch.ones(8))

    def forward(self, x):
        return x + torch.rand_like(self.level)


def check_follows():
    for mid, x in ((Halves(3), torch.randn(4, 3, 6, 6)), (Halves(7), torch.randn(4, 7, 6, 6)), (Places(), torch.randn(4, 6, 8)),
                   (Lists(), torch.randn(4, 8)), (torch.jit.script(Lists()), torch.randn(4, 8))):
        m = remote(copy.deepcopy(mid), x.shape)
        assert (m(x) - mid(x)).abs().max() < 1e-5
        m.close(True)


def check_refusals():
    refused("it raises", remote, torch.jit.script(Halves(3)), (4, 3, 6, 4))
    refused("a branch depends on what is known in a call alone", remote, torch.jit.script(ByValue()), (4, 8))
    refused("a branch depends on what is known in a call alone", remote, torch.jit.script(While()), (4, 8))
    refused("reverse changes what the module holds", remote, torch.jit.script(Keeps()), (4, 8))
    refused("reverse changes what", remote, torch.jit.script(Table()), (4, 8))
    refused("takes rows of steps of one length", remote, nn.LSTM(8, 8), (4, 6, 8))
    for form in (Noisy(), torch.jit.script(Noisy())):
        refused("rand_like is not known on the server", remote, form, (4, 8))
    refused("cumsum is not known on the server", remote, torch.jit.script(Cumulates()), (4, 8))
    refused("forward takes a, b, and example has one tensor", remote, torch.jit.script(Two()), (4, 8))
    refused("is a traced module", remote, torch.jit.trace(nn.Linear(8, 8), torch.zeros(4, 8)), (4, 8))
    refused("attention of one input, with a causal mask or none", remote, Masked(), (4, 6, 32))
    refused("approximate=tanh is not known", remote, encoder(activation=nn.GELU(approximate="tanh")), (4, 6, 32))


for check in (check_bits, check_follows, check_refusals):
    check()
    print(check.__name__, flush=True)
