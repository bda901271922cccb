"""Middles of several inputs and outputs: a picture and a row, a detector's heads, a network that removes noise; and refusals."""
import collections
import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

import split
from middles import refused

server = sys.argv[1]
torch.set_num_threads(1)


class TwoInputs(nn.Module):
    """A picture and a row of a table meet."""

    def __init__(self):
        super().__init__()
        self.picture, self.row, self.out = nn.Conv2d(4, 8, 3, padding=1), nn.Linear(5, 8), nn.Linear(16, 6)

    def forward(self, x, row):
        h = F.relu(self.picture(x)).mean((2, 3))
        return self.out(torch.cat([h, torch.tanh(self.row(row))], 1))


class Pyramid(nn.Module):
    """A detector's middle: three levels, of which the coarser ones are added to the finer ones."""

    def __init__(self, c=6):
        super().__init__()
        self.down = nn.ModuleList(nn.Sequential(nn.Conv2d(c, c, 3, 2, 1), nn.BatchNorm2d(c), nn.ReLU()) for _ in range(3))
        self.side = nn.ModuleList(nn.Conv2d(c, c, 1) for _ in range(3))

    def forward(self, x):
        a = self.down[0](x)
        b = self.down[1](a)
        c = self.side[2](self.down[2](b))
        b = self.side[1](b) + F.interpolate(c, scale_factor=2.0)
        return self.side[0](a) + F.interpolate(b, scale_factor=2.0), b, c


class Denoiser(nn.Module):
    """Predicts the noise in x, as of denoising diffusion; the step t moves each channel of each level."""

    def __init__(self, c=8):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(1, 16), nn.SiLU(), nn.Linear(16, 2 * c))
        self.first, self.low, self.up, self.last = (nn.Conv2d(i, o, 3, padding=1) for i, o in ((c, c), (c, c), (2 * c, c), (c, c)))
        self.norm = nn.GroupNorm(2, c)

    def forward(self, x, t):
        first, second = self.time(t)[:, :, None, None].chunk(2, 1)
        h = F.silu(self.norm(self.first(x) + first))
        low = F.silu(self.low(F.avg_pool2d(h, 2)) + second)
        return self.last(F.silu(self.up(torch.cat([h, F.interpolate(low, scale_factor=2.0)], 1))))


def pictures(step, rows, c=1, side=8):
    return torch.randn(rows, c, side, side, generator=torch.Generator().manual_seed(step))


def two_inputs(net, step):
    head, middle, tail = net
    row = torch.randn(6, 5, generator=torch.Generator().manual_seed(99 + step))
    return F.cross_entropy(tail(middle(head(pictures(step, 6)), row)), torch.arange(6) % 3)


def detector(net, step):
    head, middle, tail = net
    levels = middle(head(pictures(step, 6, side=16)))
    read = levels[:2] if step == 1 else levels  # in step 1 the coarsest level has no gradient of its own
    return sum(tail(y).square().mean() * (i + 1) for i, y in enumerate(read))


def denoising(net, step):
    head, middle, tail = net
    g = torch.Generator().manual_seed(step)
    noise, t = torch.randn(6, 1, 8, 8, generator=g), torch.randint(0, 10, (6,), generator=g)
    keep = torch.cumprod(1 - torch.linspace(0.01, 0.2, 10), 0)[t][:, None, None, None]
    x = keep.sqrt() * pictures(step + 50, 6) + (1 - keep).sqrt() * noise
    return F.mse_loss(tail(middle(head(x), (t / 10)[:, None])), noise)


def conv(i, o):
    return nn.Conv2d(i, o, 3, padding=1)


CASES = {
    "two inputs": (lambda: (conv(1, 4), TwoInputs(), nn.Linear(6, 3)), two_inputs, dict(example=((6, 4, 8, 8), (6, 5)))),
    "detector": (lambda: (conv(1, 6), Pyramid(), conv(6, 5)), detector, dict(example=(6, 6, 16, 16))),
    "denoising": (lambda: (conv(1, 8), Denoiser(), conv(8, 1)), denoising,
                  dict(example=((6, 8, 8, 8), (6, 1)), input_grad=(True, False))),
}


def weights(net):
    return {f"{i}.{k}": v.clone() for i, m in enumerate(net) for k, v in m.state_dict().items() if not k.endswith("tracked")}


def learnt(name, where=None, script=False, **conf):
    """The losses of three steps and the weights behind them; where: the server of the middle, None: PyTorch alone."""
    make, loss_of, given = CASES[name]
    torch.manual_seed(3)
    net = make()
    opt = torch.optim.SGD([p for m in net for p in m.parameters()], 0.1, momentum=0.9)
    if where:
        middle = torch.jit.script(net[1]) if script else net[1]
        net = net[0], split.RemoteModule(middle, where, optimizer=opt, seed=1, **{**given, **conf}), net[2]
    losses = []
    for step in range(3):
        opt.zero_grad()
        loss = loss_of(net, step)
        loss.backward()
        if where:
            net[1].step()
        opt.step()
        losses.append(loss.item())
    found = losses, weights(net)
    if where:
        net[1].close(True)
    return found


def near(a, b):
    return abs(a - b).max() < 1e-4


def check_steps():
    """Three steps as in PyTorch; the server's bits are those of a server in this process, with every codec."""
    for name in CASES:
        losses, own = learnt(name)
        for script in (False, True):
            there, state = learnt(name, server, script)
            assert all(abs(a - b) < 1e-4 for a, b in zip(there, losses)), (name, losses, there)
            assert set(state) == set(own) and all(near(state[k], own[k]) for k in own), (name, script)
        for conf in ({}, {"chunks": 3}, {"codec": "quant:8"}, {"codec": "topk:0.3,ef=true", "chunks": 2}, {"codec": "quant:4,round=stochastic|zstd"}):
            (a, one), (b, other) = learnt(name, server, **conf), learnt(name, "local:", **conf)
            assert a == b and all(torch.equal(one[k], other[k]) for k in one), (name, conf)


def check_ways():
    """Halves of a call, chunk by chunk, and evaluations give what one call does."""
    torch.manual_seed(5)
    mid, x, row = TwoInputs(), torch.randn(6, 4, 8, 8), torch.randn(6, 5)
    first = mid.out.weight.detach().clone()
    m = split.RemoteModule(mid, server, example=(x, row), optimizer={"lr": 0.1}, calls=2, chunks=2)
    own = copy.deepcopy(mid)(x, row)
    sent = m.send(x, row)
    assert near(sent.wait(), own)
    m.drop()
    other, t = split.RemoteModule(copy.deepcopy(mid), server, example=(x, row), optimizer={"lr": 0.1}, chunks=2), torch.arange(6) % 3
    loss = m.pipelined(lambda both: (both[:, :256].view(-1, 4, 8, 8), both[:, 256:]), F.cross_entropy, torch.cat([x.flatten(1), row], 1), t)
    whole = F.cross_entropy(other(x, row), t)
    whole.backward()
    assert abs(loss - whole.item()) < 1e-5
    m.step()
    other.step()
    a, b = m.state_dict(), other.state_dict()
    assert all(near(a[k], b[k]) for k in a) and not near(a["out.weight"], first)
    other.close(True)
    m.eval()
    y = m(x.requires_grad_(), row)
    refused(split.UsageError, "this output is that of an evaluation", y.sum().backward)
    m.close(True)
    m = split.RemoteModule(Pyramid(), server, example=(6, 6, 16, 16), optimizer={"lr": 0.1}, calls=2)
    x = torch.randn(6, 6, 16, 16, requires_grad=True)
    sent = m.send(x)
    levels = sent.wait()
    assert isinstance(levels, tuple) and [tuple(y.shape) for y in levels] == [(6, 6, 8, 8), (6, 6, 4, 4), (6, 6, 2, 2)]
    levels[1].sum().backward()
    assert x.grad is not None
    m.step()
    m.close(True)


class Words(nn.Module):
    """Tokens of two kinds, which one layer of attention mixes; two outputs."""

    def __init__(self):
        super().__init__()
        self.word, self.mark = nn.Linear(8, 16), nn.Linear(3, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0, batch_first=True)

    def forward(self, word, mark):
        h = self.layer(self.word(word) + self.mark(mark))
        return h, self.word(word)


def check_lengths():
    """Padding behind a row's tokens neither crosses nor counts, in any input."""
    torch.manual_seed(6)
    mid, word, mark, lengths = Words(), torch.randn(3, 5, 8), torch.randn(3, 5, 3), [5, 2, 4]
    own = copy.deepcopy(mid).eval()
    m = split.RemoteModule(mid, server, example=(word, mark), optimizer={"lr": 0.1}, lengths=True)
    m.eval()
    for found in (m(word, mark, lengths=lengths), m(word, mark, lengths)):
        for i, n in enumerate(lengths):
            for y, z in zip(found, own(word[i:i + 1, :n], mark[i:i + 1, :n])):
                assert near(y[i, :n], z[0]) and not y[i, n:].any()
    m.close(True)


class Of(nn.Module):
    """forward(x, t) by a function of these and of the layer's outputs."""

    def __init__(self, of, width=4):
        super().__init__()
        self.layer, self.other, self.of = nn.Linear(width, width), nn.Linear(width, width), of

    def forward(self, x, t):
        return self.of(x, t, self.layer(x), self.other(t))


class Ignores(nn.Linear):
    def __init__(self):
        super().__init__(4, 4)

    def forward(self, x, t):
        return F.linear(x, self.weight, self.bias)


def check_bytes():
    """A gradient that nobody needs does not cross: of an input, and of an output."""
    def crossed(read=2, **kwargs):
        m = split.RemoteModule(Of(lambda x, t, a, b: (a + b, a * b), 64), server, example=((4, 64), (4, 64)), optimizer={"lr": 0.1}, **kwargs)
        sum(y.sum() for y in m(torch.ones(4, 64, requires_grad=True), torch.ones(4, 64))[:read]).backward()
        m.step()
        found = m.stats()
        m.close(True)
        return found["tx_bytes"], found["rx_bytes"]
    both, still, half = crossed(), crossed(input_grad=(True, False)), crossed(read=1)
    assert 1000 < both[1] - still[1] < 1100, (both, still)
    assert 1000 < both[0] - half[0] < 1100 and both[1] == half[1], (both, half)


Pair = collections.namedtuple("Pair", "a b")


def check_refusals():
    def remote(of, example=((4, 4), (4, 4)), **kwargs):
        return split.RemoteModule(Of(of), server, example=example, optimizer={"lr": 0.1}, **kwargs)
    refused(split.ConfigError, "forward gives a dict: a tensor, or a tuple of", remote, lambda x, t, a, b: {"a": a, "b": b})
    refused(split.ConfigError, "Pair is not known on the server", remote, lambda x, t, a, b: Pair(a, b))
    refused(split.ConfigError, "is no tensor that it computes", remote, lambda x, t, a, b: (a, b, 3))
    refused(split.ConfigError, "is no tensor that it computes", remote, lambda x, t, a, b: (a, (b, a)))
    refused(split.ConfigError, "forward gives back t", remote, lambda x, t, a, b: (a + b, t))
    refused(split.ConfigError, "gives one tensor twice", remote, lambda x, t, a, b: (a, b, a))
    refused(split.ConfigError, "forward does not read t", split.RemoteModule, Ignores(), server, example=((4, 4), (4, 4)),
            optimizer={"lr": 0.1})
    refused(split.ConfigError, "forward takes x, t, and example has one tensor: give it the shape of each tensor, also of t",
            remote, lambda x, t, a, b: a + b, (4, 4))
    refused(split.ConfigError, "forward takes x, t, and example has 3 tensors", remote, lambda x, t, a, b: a + b, ((4, 4),) * 3)
    refused(split.ConfigError, "input 1 of example is [4]", remote, lambda x, t, a, b: a + b, ((4, 4), (4,)))
    refused(split.ConfigError, "input 1 of example is [5, 4]", remote, lambda x, t, a, b: a + b, ((4, 4), (5, 4)))
    refused(split.ConfigError, "input_grad has 3 values", remote, lambda x, t, a, b: a + b, input_grad=(True, False, True))
    refused(split.ConfigError, "16-bit precision, kept samples and cached tokens need cut_values: 1", remote, lambda x, t, a, b: a + b, precision="bf16")
    refused(split.ConfigError, "codec.head_act.1", remote, lambda x, t, a, b: a + b, codec={"head_act.1": "none"})
    refused(split.ConfigError, "the network gives a tuple", split.write_network, Pyramid(), torch.zeros(6, 6, 16, 16), "none")
    m, x = remote(lambda x, t, a, b: (a + b, a * b), input_grad=(True, False)), torch.randn(4, 4)
    refused(split.UsageError, "t: the middle takes its tensors by place", m, x, t=x)
    refused(split.UsageError, "a call with 1 tensors; the middle was made for 2", m, x)
    refused(split.UsageError, "a call with 3 tensors", m, x, x, x)
    refused(split.UsageError, "input 1 is a dict: the middle takes tensors", m, x, {"t": x})
    refused(split.UsageError, "call .float() on input 1, which is torch.int64", m, x, torch.arange(16).view(4, 4))
    refused(split.UsageError, "input 1 of [3, 4]", m, x, x[:3])
    refused(split.UsageError, "something in the head learns through input 1", m, x, torch.randn(4, 4, requires_grad=True))
    sum(y.sum() for y in m(x.requires_grad_(), x.detach())).backward()
    assert x.grad is not None
    m.step()
    m.close(True)


if __name__ == "__main__":
    for check in (check_steps, check_ways, check_lengths, check_bytes, check_refusals):
        check()
