"""Modules that become several ops of the server: each trains as in PyTorch, read by torch.fx and as a script."""
import copy
import math

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.ops import FrozenBatchNorm2d, StochasticDepth

import split
from middles import refused
from torch_api import batches, check_same, remote, run

torch.set_num_threads(1)
C, SHAPE = 4, (8, 4, 6, 6)


class Excite(nn.Module):
    """As senet.pytorch writes it."""

    def __init__(self, expands):
        super().__init__()
        self.fc, self.expands = nn.Sequential(nn.Linear(C, 3), nn.ReLU(), nn.Linear(3, C), nn.Sigmoid()), expands

    def forward(self, x):
        b, c, _, _ = x.shape
        y = self.fc(F.adaptive_avg_pool2d(x, 1).view(b, c)).view(b, c, 1, 1)
        return x * y.expand_as(x) if self.expands else x + y.expand(-1, -1, 6, 6)


class Spatial(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 1, 3, padding=1)

    def forward(self, x):
        y = torch.cat([x.mean(1, keepdim=True), torch.max(x, 1, keepdim=True)[0]], 1)
        return x * torch.sigmoid(self.conv(y))


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.g, self.psi = nn.Conv2d(C, 3, 1), nn.Conv2d(3, 1, 1)

    def forward(self, x):
        return torch.sigmoid(self.psi(F.mish(self.g(x)))) * x - x.mean([2, 3], keepdim=True)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.each, self.all, self.plus = nn.Parameter(torch.rand(C)), nn.Parameter(torch.rand(1)), nn.Parameter(torch.rand(1, C))

    def forward(self, x):
        return x * self.each.view(1, -1, 1, 1) * self.all + self.plus.reshape(1, 4, 1, 1)


class Halves(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, 1)
        c = torch.split(x, [1, 3], 1)
        return torch.cat([a * torch.sigmoid(b), c[1].abs(), c[0] ** 2, F.glu(x, 1)], 1)


class Loops(nn.Module):
    """One iteration for each part of chunk(), a number that torch.fx does not see."""

    def forward(self, x):
        y = x[:, :1] * 0.5
        for part in x.chunk(4, 1):
            y = y + torch.tanh(part)
        return y


class Thirds(nn.Module):
    def forward(self, x):
        a, b, c = torch.split(x, [1, 2, 1], 1)
        return torch.cat([a + c, b], 1)


class Smooth(nn.Module):
    def forward(self, x):
        y = F.elu(x, 0.5) + F.selu(x) + F.softplus(x) + x.clamp(-1.0, 0.5) + F.hardtanh(x) + x.clamp(min=0.25)
        return (y + (x ** 2 + 1.0) ** 0.5 + torch.pow(x, 3) * 0.1) * 0.2


class Sizes(nn.Module):
    def forward(self, x):
        y = F.interpolate(x, scale_factor=2.0) + F.interpolate(x, size=[12, 12], mode="bilinear", align_corners=False)
        y = F.pad(y, [1, 0, 2, 1]) + 0.5
        return (F.adaptive_avg_pool2d(y, [4, 3]) + F.adaptive_max_pool2d(y, 1) + y.amax([2, 3], keepdim=True)) * 0.3


class Block(nn.Module):
    """ConvNeXt's, with the numbers of each channel before and behind the permute."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.wide, self.back = nn.Conv2d(C, C, 3, padding=1, groups=C), nn.LayerNorm(C), nn.Linear(C, 9), nn.Linear(9, C)
        self.gamma, self.scale = nn.Parameter(torch.rand(C)), nn.Parameter(torch.rand(C, 1, 1))

    def forward(self, x):
        y = self.norm(self.conv(x).permute(0, 2, 3, 1))
        y = self.gamma * self.back(F.dropout(F.gelu(self.wide(y)), 0.0) * 2.0) + y
        return x + self.scale * y.permute(0, 3, 1, 2)


class Shuffled(nn.Module):
    """As shufflenet writes it, and as others do."""

    def __init__(self, permutes):
        super().__init__()
        self.permutes = permutes

    def forward(self, x):
        b, c, h, w = x.size()
        y = torch.cat([x, F.sigmoid(x)], 1).view(b, 2, c, h, w)
        y = y.permute(0, 2, 1, 3, 4) if self.permutes else y.transpose(1, 2)
        return F.max_pool2d(y.contiguous().view(b, -1, h, w), 3, 2, ceil_mode=True)


def frozen():
    m = FrozenBatchNorm2d(C, 0.1)
    for t in m.buffers():
        t.uniform_(0.5, 1.5)
    return m


MODULES = {
    "Excite": lambda: Excite(True), "Excite added": lambda: Excite(False), "Spatial": Spatial, "Gate": Gate, "Scaled": Scaled,
    "Halves": Halves, "Loops": Loops, "Thirds": Thirds,
    "Smooth": Smooth, "Sizes": Sizes, "Block": Block, "Shuffled": lambda: Shuffled(False), "permuted": lambda: Shuffled(True),
    "modules": lambda: nn.Sequential(nn.PReLU(C), nn.InstanceNorm2d(C, affine=True), nn.CELU(), nn.PReLU(), nn.ReflectionPad2d(1),
                                     nn.ELU(0.7), nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), nn.Mish(), nn.SELU()),
    "pads": lambda: nn.Sequential(nn.Conv2d(C, C, 3, padding=1, padding_mode="reflect"), nn.Conv2d(C, C, (1, 3), padding=(0, 1)),
                                  nn.Conv2d(C, C, (3, 5), padding=(1, 2), padding_mode="circular"), nn.Conv2d(C, C, 4, padding="same"), nn.ZeroPad2d((0, 1, 2, 0)), nn.ReplicationPad2d(1),
                                  nn.AdaptiveAvgPool2d((3, 2)), nn.Hardtanh(-2.0, 2.0)),
    "frozen norm": frozen,
    "ends": lambda: nn.Sequential(nn.Conv2d(C, 2 * C, 1), nn.GLU(1), nn.AdaptiveMaxPool2d(1)),
}


def one_step(mid, shape):
    m, x = remote(mid, shape, {"lr": 0.1}), batches(shape, 1)[0][0].requires_grad_()
    y = m(x)
    (y * torch.linspace(-1, 1, y.numel()).view_as(y)).sum().backward()
    m.step()
    found = [y.detach(), x.grad, *m.state_dict().values()]
    m.close(True)
    return found


def check_each(modules, shape, before):
    for name, make in modules.items():
        torch.manual_seed(4)
        made = make()
        mid = nn.Sequential(before(), made)
        width = mid(torch.zeros(shape)).flatten(1).shape[1]
        try:
            check_same((nn.Identity(), mid, nn.Sequential(nn.Flatten(), nn.Linear(width, 5))), batches(shape, 10), shape)
            script = torch.jit.script(copy.deepcopy(mid))
            assert all(torch.equal(a, b) for a, b in zip(one_step(mid, shape), one_step(script, shape))), "other bits as a script"
        except Exception as e:
            raise AssertionError(f"{name}: {e}") from e


class Clamped(nn.Module):
    def __init__(self, low, high, hard):
        super().__init__()
        self.scale, self.low, self.high, self.hard = nn.Parameter(torch.ones(160)), low, high, hard

    def forward(self, x):
        x = x * self.scale
        return F.hardtanh(x, self.low, self.high) if self.hard else x.clamp(self.low, self.high)


def check_bounds():
    """The outputs have the same bits for small and large bounds, and so have the gradients at a bound."""
    torch.manual_seed(0)
    inf = math.inf
    for low, high in ((-1, 1), (1e-6, 10), (1e-6, None), (None, 1), (-1e9, 1e9), (0, 1), (0, 6), (0, None), (None, 0), (1e-12, 1 - 2 ** -24), (-3, -1),
                      (2, 1), (-0.1, 0.1), (-inf, 3), (-1, inf)):
        ends = [n * by for n in (low, high) if n is not None and abs(n) < inf for by in (1, 0.5, 2, -1, 1e8)]
        x = torch.cat([torch.tensor([0, 1e-30, -1e-30, *ends]), torch.logspace(-9, 9, 30), -torch.logspace(-9, 9, 30), torch.randn(97 - len(ends))])
        for hard in (False, True)[:1 + (None not in (low, high) and -inf < low < high < inf)]:
            mid, a, b = Clamped(low, high, hard), x[None].clone().requires_grad_(), x[None].clone().requires_grad_()
            m = remote(copy.deepcopy(mid), a.shape)
            y, theirs = mid(a), m(b)
            y.sum().backward()
            theirs.sum().backward()
            assert torch.equal(y, theirs) and torch.equal(a.grad, b.grad), (low, high, hard)
            m.close(True)


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.norm, self.bias = nn.Linear(C, C), nn.LayerNorm(C, elementwise_affine=False), nn.Parameter(torch.rand(C))
        self.register_buffer("weight", torch.rand(C))

    def forward(self, x):
        y = F.layer_norm(self.norm(x), [4], bias=self.bias) + F.layer_norm(self.layer(x), [4])
        return y + F.layer_norm(self.layer(x), [4], self.weight, self.bias)


class NormAct(nn.BatchNorm2d):
    """timm's BatchNormAct2d, which calls F.batch_norm itself."""

    def forward(self, x):
        if x.ndim != 4:
            raise ValueError("4 dimensions are needed")
        if self.training and self.track_running_stats:
            self.num_batches_tracked.add_(1)
        y = F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, self.training, self.momentum, self.eps)
        return F.relu(y)


class Same(nn.Module):
    """Numbers, branches and loops from sizes, as in layers that pad as TensorFlow does."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(C, C, 3)

    def forward(self, x):
        side = x.shape[-1]
        pad = max(0, (side - 1) + 3 - side)
        for _ in range(int(x.size(1) / 2)):
            x = x * 0.9
        return self.conv(F.pad(x, (pad // 2, pad - pad // 2, 1, 1), "constant", 0) if len(x.shape) == 4 else x)


class Attends(nn.Module):
    """How vit-pytorch and MONAI spell heads, and how Hugging Face does today."""

    def __init__(self, maps):
        super().__init__()
        self.maps, self.each, self.qkv, self.out = maps, 2, nn.Linear(C, 3 * C), nn.Linear(C, C)

    def forward(self, x):
        parts = self.qkv(x).chunk(3, dim=-1)
        if self.maps:
            q, k, v = map(lambda t: t.view(t.shape[0], -1, 2, self.each).transpose(1, 2), parts)
        else:
            q, k, v = [t.view((*x.shape[:-1], -1, self.each)).transpose(1, 2) for t in parts]
        y = (q @ k.transpose(-1, -2) * self.each ** -0.5).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(*x.shape[:-1], -1))


def check_sizes():
    """What torch.fx follows if it knows the sizes; TorchScript does not take all of it."""
    norm, before = NormAct(C), nn.Conv2d(C, C, 1)
    usual = nn.Sequential(nn.BatchNorm2d(C), nn.ReLU())
    usual[0].load_state_dict(norm.state_dict())
    ours, theirs = (one_step(nn.Sequential(copy.deepcopy(before), m), SHAPE) for m in copy.deepcopy((norm, usual)))
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs)), "other bits than BatchNorm2d and ReLU"
    for make, before, shape in ((Same, nn.Conv2d(C, C, 1), SHAPE), (lambda: Attends(True), nn.Linear(C, C), (8, 5, C)),
                                (lambda: Attends(False), nn.Linear(C, C), (8, 5, C))):
        torch.manual_seed(4)
        mid = nn.Sequential(before, make())
        width = mid(torch.zeros(shape)).flatten(1).shape[1]
        check_same((nn.Identity(), mid, nn.Sequential(nn.Flatten(), nn.Linear(width, 5))), batches(shape, 10), shape)
    remote(Attends(False), (8, 5, C), {"lr": 0.1}, lengths=True).close(True)


class Bad(nn.Module):
    def __init__(self, does):
        super().__init__()
        self.layer, self.does = nn.Conv2d(C, C, 1), does

    def forward(self, x):
        return self.does(self.layer, x)


class BadScript(nn.Module):
    def forward(self, x):
        return torch.cumsum(x, 1)


def check_lines():
    """A refusal begins with the line of forward that it is about."""
    for module, at, says in (
            (Bad(lambda m, x: torch.cumsum(m(x), 1)), Bad, "cumsum is not known on the server: keep it in head or tail, or write it otherwise (docs"),
            (Bad(lambda m, x: m(x) if x.shape[0] > 1 else x), Bad, "depends on values, or on the number of rows or tokens"),
            (Bad(lambda m, x: sum(part for part in m(x))), Bad, "forward loops over what a layer gives"),
            (Bad(lambda m, x: m(x) * torch.rand(C, 1, 1)), Bad, "makes a tensor"),
            (Bad(lambda m, x: m(x) * F.batch_norm(x, torch.zeros(C), torch.ones(C))), Bad, "F.batch_norm is known on the server with all that"),
            (Bad(lambda m, x: torch.cat([x, m(x)], 4)), Bad, "dimension 4 of what has 4: give one from -4 to 3"),
            (Bad(lambda m, x: m(x).transpose(1, -5)), Bad, "dimension -5 of what has 4"),
            (Bad(lambda m, x: m(x[:, :3])), Bad, "with its input channels"),
            (Bad(lambda m, x: F.conv2d(x, torch.exp(m.weight))), Bad, "unchanged as the weight of F.linear"),
            (torch.jit.script(BadScript()), BadScript, "cumsum is not known"),
            (nn.Sequential(nn.Conv2d(C, C, 1), nn.LSTM(6, 6)), None, "1: takes rows of steps of one length")):
        text = str(refused(split.ConfigError, says, remote, module, SHAPE))
        line = module.does.__code__.co_firstlineno if at is Bad else at and at.forward.__code__.co_firstlineno + 1
        assert "makes a tensor" in says or (text.startswith(f"{__file__}:{line}: ") if at else ".py:" in text and ": 1: " in text), text


def check_norms():
    check_each({"Normed": Normed}, (8, 5, C), lambda: nn.Linear(C, C))


def check_composed():
    check_each(MODULES, SHAPE, lambda: nn.Conv2d(C, C, 1))


def check_refused():
    class Larger(nn.Module):
        def forward(self, x):
            return torch.max(x, 0.5 * x)

    class Third(nn.Module):
        def forward(self, x):
            return x ** 0.3

    for module, says in ((Larger(), "write it with relu"), (Third(), "the exponent 0.3"), (nn.Upsample(scale_factor=1.5), "whole factors"),
                         (nn.CELU(2.0), "alpha=2.0"), (nn.InstanceNorm2d(C, track_running_stats=True), "track_running_stats=True"),
                         (nn.Upsample(scale_factor=2, mode="bicubic"), "nearest and bilinear")):
        refused(split.ConfigError, says, remote, nn.Sequential(nn.Conv2d(C, C, 1), module), SHAPE)


def check_drops():
    """What drops whole channels or rows leaves all of one, or nothing; in evaluation all of each. Gradients have the forward's choice."""
    for drop, shape, axes in ((nn.Dropout2d(0.25), (16, 6, 4, 4), (2, 3)), (nn.Dropout1d(0.25), (16, 6, 9), (2,)),
                              (StochasticDepth(0.25, "row"), (96, 6, 4, 4), (1, 2, 3)), (StochasticDepth(0.25, "row"), (96, 12), (1,))):
        layer = {2: nn.Linear, 3: lambda a, b: nn.Conv1d(a, b, 1), 4: lambda a, b: nn.Conv2d(a, b, 1)}[len(shape)](shape[1], shape[1])
        m, x = remote(nn.Sequential(copy.deepcopy(layer), drop), shape), torch.randn(shape, requires_grad=True)
        y = m(x)
        kept = (y != 0).any(dim=axes[0], keepdim=True) if len(axes) == 1 else (y.flatten(axes[0]) != 0).any(dim=axes[0]).view(*shape[:axes[0]], *[1] * len(axes))
        assert 0.6 < kept.float().mean() < 0.9, (drop, kept.float().mean())
        y.sum().backward()
        got, x.grad = x.grad, None
        want = layer(x) * kept / 0.75
        want.sum().backward()
        torch.testing.assert_close(y, want, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(got, x.grad, rtol=1e-5, atol=1e-5)
        m.step()
        m.eval()
        with torch.no_grad():
            assert (m(x) != 0).all(), drop
        m.close(True)


if __name__ == "__main__":
    run(check_composed, check_sizes, check_lines, check_bounds, check_norms, check_refused, check_drops)
