"""Networks for time series, ECG and EEG, of papers (papers.py)."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from papers import net


@net((3, 24))
class Fcn(nn.Module):
    """Wang 2017"""

    def __init__(self):
        super().__init__()
        L = []
        c = 3
        for d, k in ((16, 7), (32, 5), (16, 3)):
            L += [nn.Conv1d(c, d, k, padding=k // 2), nn.BatchNorm1d(d), nn.ReLU()]
            c = d
        self.f = nn.Sequential(*L)
        self.out = nn.Linear(16, 4)

    def forward(self, x):
        return self.out(self.f(x).mean(-1))


@net((3, 24))
class InceptionTime(nn.Module):
    """Fawaz 2020, one module"""

    def __init__(self):
        super().__init__()
        self.b = nn.Conv1d(3, 8, 1, bias=False)
        self.c = nn.ModuleList([nn.Conv1d(8, 8, k, padding=k // 2, bias=False) for k in (9, 5, 3)])
        self.p = nn.MaxPool1d(3, 1, 1)
        self.q = nn.Conv1d(3, 8, 1, bias=False)
        self.n = nn.BatchNorm1d(32)
        self.out = nn.Linear(32, 4)

    def forward(self, x):
        z = self.b(x)
        y = torch.cat([c(z) for c in self.c] + [self.q(self.p(x))], 1)
        return self.out(F.relu(self.n(y)).mean(2))


@net((3, 24))
class Tcn(nn.Module):
    """Bai 2018: causal, chomp"""

    def __init__(self):
        super().__init__()
        self.c = nn.ModuleList([nn.Conv1d(3 if not i else 8, 8, 3, padding=2 * 2 ** i, dilation=2 ** i) for i in range(3)])
        self.d = nn.Conv1d(3, 8, 1)
        self.out = nn.Linear(8, 4)

    def forward(self, x):
        y = x
        for i, c in enumerate(self.c):
            z = F.relu(c(y)[:, :, :-2 * 2 ** i].contiguous())
            y = z + (self.d(y) if i == 0 else y)
        return self.out(y[:, :, -1])


@net((24, 3))
class LstmLast(nn.Module):
    """The last state of two layers"""

    def __init__(self):
        super().__init__()
        self.r = nn.LSTM(3, 8, 2, batch_first=True)
        self.out = nn.Linear(8, 4)

    def forward(self, x):
        y, (h, c) = self.r(x)
        return self.out(h[-1])


@net((24, 3))
class LstmZeros(nn.Module):
    """First states that the script makes, as many tutorials have it"""

    def __init__(self):
        super().__init__()
        self.r = nn.LSTM(3, 8, 1, batch_first=True)
        self.out = nn.Linear(8, 4)

    def forward(self, x):
        h = torch.zeros(1, x.size(0), 8).to(x.device)
        c = torch.zeros(1, x.size(0), 8).to(x.device)
        y, _ = self.r(x, (h.detach(), c.detach()))
        return self.out(y[:, -1, :])


@net((24, 3))
class GruAttention(nn.Module):
    """A bidirectional GRU under weights over time"""

    def __init__(self):
        super().__init__()
        self.r = nn.GRU(3, 8, batch_first=True, bidirectional=True)
        self.a = nn.Linear(16, 1)
        self.out = nn.Linear(16, 4)

    def forward(self, x):
        y, _ = self.r(x)
        w = torch.softmax(self.a(torch.tanh(y)), 1)
        return self.out((w * y).sum(1))


@net((3, 24))
class CnnLstm(nn.Module):
    """DeepConvLSTM"""

    def __init__(self):
        super().__init__()
        self.c = nn.Sequential(nn.Conv1d(3, 8, 5, padding=2), nn.ReLU(), nn.MaxPool1d(2))
        self.r = nn.LSTM(8, 8, batch_first=True)
        self.out = nn.Linear(8, 4)

    def forward(self, x):
        y = self.c(x).permute(0, 2, 1)
        y, _ = self.r(y)
        return self.out(y[:, -1])


@net((24, 3))
class DLinear(nn.Module):
    """Zeng 2023: series decomposition by a moving average with repeated ends"""

    def __init__(self):
        super().__init__()
        self.avg = nn.AvgPool1d(5, 1, 0)
        self.a = nn.Linear(24, 8)
        self.b = nn.Linear(24, 8)

    def forward(self, x):
        front = x[:, 0:1, :].repeat(1, 2, 1)
        end = x[:, -1:, :].repeat(1, 2, 1)
        t = self.avg(torch.cat([front, x, end], 1).permute(0, 2, 1)).permute(0, 2, 1)
        y = self.a((x - t).permute(0, 2, 1)) + self.b(t.permute(0, 2, 1))
        return y.permute(0, 2, 1).flatten(1)


@net((24, 3))
class NLinear(nn.Module):
    """Zeng 2023: less the last value, which has no gradient"""

    def __init__(self):
        super().__init__()
        self.l = nn.Linear(24, 8)

    def forward(self, x):
        last = x[:, -1:, :].detach()
        x = x - last
        return (self.l(x.permute(0, 2, 1)).permute(0, 2, 1) + last).flatten(1)


@net((24, 3))
class RevIn(nn.Module):
    """Kim 2022: means and deviations without gradients"""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))
        self.b = nn.Parameter(torch.zeros(3))
        self.l = nn.Linear(24, 8)

    def forward(self, x):
        m = torch.mean(x, dim=1, keepdim=True).detach()
        d = torch.sqrt(torch.var(x, dim=1, keepdim=True, unbiased=False) + 1e-05).detach()
        x = (x - m) / d * self.w + self.b
        y = self.l(x.permute(0, 2, 1)).permute(0, 2, 1)
        return ((y - self.b) / (self.w + 1e-10) * d + m).flatten(1)


@net((24, 3), refused="unfold is not known")
class PatchTst(nn.Module):
    """Nie 2023: each channel is a row of patches"""

    def __init__(self):
        super().__init__()
        self.p = nn.Linear(8, 16)
        self.pos = nn.Parameter(torch.randn(1, 5, 16) * 0.02)
        self.e = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), 1)
        self.h = nn.Linear(5 * 16, 6)

    def forward(self, x):
        x = x.permute(0, 2, 1)
        x = x.unfold(-1, 8, 4)
        b, m, p, l = x.shape
        x = self.e(self.p(x).reshape(b * m, p, 16) + self.pos)
        return self.h(x.reshape(b, m, p * 16)).flatten(1)


@net((24, 3))
class ITransformer(nn.Module):
    """Liu 2024: each series is a token"""

    def __init__(self):
        super().__init__()
        self.e = nn.Linear(24, 16)
        self.t = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True)
        self.p = nn.Linear(16, 8)

    def forward(self, x):
        m = x.mean(1, keepdim=True).detach()
        x = x - m
        d = torch.sqrt(torch.var(x, dim=1, keepdim=True, unbiased=False) + 1e-05)
        x = x / d
        y = self.p(self.t(self.e(x.permute(0, 2, 1)))).permute(0, 2, 1)
        return (y * d[:, 0, :].unsqueeze(1).repeat(1, 8, 1) + m[:, 0, :].unsqueeze(1).repeat(1, 8, 1)).flatten(1)


@net((24, 3))
class TsMixer(nn.Module):
    """Chen 2023"""

    def __init__(self):
        super().__init__()
        self.t = nn.Linear(24, 24)
        self.c = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 3))
        self.o = nn.Linear(24, 8)

    def forward(self, x):
        x = x + F.relu(self.t(x.transpose(1, 2))).transpose(1, 2)
        x = x + self.c(x)
        return self.o(x.transpose(1, 2)).transpose(1, 2).flatten(1)


@net((24,))
class NBeats(nn.Module):
    """Oreshkin 2020: blocks subtract what they explain"""

    def __init__(self):
        super().__init__()
        self.f = nn.ModuleList([nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU()) for _ in range(2)])
        self.b = nn.ModuleList([nn.Linear(16, 24) for _ in range(2)])
        self.y = nn.ModuleList([nn.Linear(16, 6) for _ in range(2)])

    def forward(self, x):
        out = torch.zeros(x.shape[0], 6)
        for f, b, y in zip(self.f, self.b, self.y):
            h = f(x)
            x = x - b(h)
            out = out + y(h)
        return out


@net((24, 3))
class Informer(nn.Module):
    """Values by a circular convolution, positions, and a distilling step"""

    def __init__(self):
        super().__init__()
        self.t = nn.Conv1d(3, 16, 3, padding=1, padding_mode="circular", bias=False)
        self.e = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True)
        self.d = nn.Sequential(nn.Conv1d(16, 16, 3, padding=1), nn.BatchNorm1d(16), nn.ELU(), nn.MaxPool1d(3, 2, 1))
        self.o = nn.Linear(16, 4)
        pe = torch.zeros(24, 16)
        pos = torch.arange(24).float().unsqueeze(1)
        d = torch.exp(torch.arange(0, 16, 2).float() * -(math.log(10000.0) / 16))
        pe[:, 0::2] = torch.sin(pos * d)
        pe[:, 1::2] = torch.cos(pos * d)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        y = self.t(x.permute(0, 2, 1)).transpose(1, 2) + self.pe[:, :x.size(1)]
        y = self.d(self.e(y).permute(0, 2, 1)).transpose(1, 2)
        return self.o(y.mean(1))


@net((24, 3))
class WaveNet(nn.Module):
    """van den Oord 2016: gates over dilated pads"""

    def __init__(self):
        super().__init__()
        self.i = nn.Conv1d(3, 8, 1)
        self.f = nn.ModuleList([nn.Conv1d(8, 8, 2, dilation=2 ** i) for i in range(3)])
        self.g = nn.ModuleList([nn.Conv1d(8, 8, 2, dilation=2 ** i) for i in range(3)])
        self.s = nn.ModuleList([nn.Conv1d(8, 8, 1) for i in range(3)])
        self.o = nn.Linear(8, 4)

    def forward(self, x):
        x = self.i(x.transpose(1, 2))
        skip = 0
        for i, (f, g, k) in enumerate(zip(self.f, self.g, self.s)):
            p = F.pad(x, (2 ** i, 0))
            z = torch.tanh(f(p)) * torch.sigmoid(g(p))
            z = k(z)
            skip = skip + z
            x = x + z
        return self.o(F.relu(skip)[:, :, -1])


@net((3, 24))
class LstmFcn(nn.Module):
    """Karim 2018: convolutions beside an LSTM over the turned series"""

    def __init__(self):
        super().__init__()
        self.c = nn.Sequential(nn.Conv1d(3, 16, 5, padding=2), nn.BatchNorm1d(16), nn.ReLU())
        self.r = nn.LSTM(24, 8, batch_first=True)
        self.o = nn.Linear(24, 4)

    def forward(self, x):
        y, _ = self.r(x)
        return self.o(torch.cat([self.c(x).mean(2), y[:, -1]], 1))


@net((3, 24))
class ResNet1d(nn.Module):
    """Wang 2017: three convolutions beside a shortcut"""

    def __init__(self):
        super().__init__()
        self.c = nn.Sequential(nn.Conv1d(3, 16, 7, padding=3), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 16, 5, padding=2), nn.BatchNorm1d(16),
                               nn.ReLU(), nn.Conv1d(16, 16, 3, padding=1), nn.BatchNorm1d(16))
        self.d = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16))
        self.p = nn.AdaptiveAvgPool1d(1)
        self.o = nn.Linear(16, 4)

    def forward(self, x):
        return self.o(self.p(F.relu(self.c(x) + self.d(x))).squeeze(-1))


@net((12, 40))
class EcgResNet(nn.Module):
    """Xresnet1d"s head: two adaptive pools"""

    def __init__(self):
        super().__init__()
        self.s = nn.Sequential(nn.Conv1d(12, 16, 5, 2, 2, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(3, 2, 1))
        self.a = nn.Conv1d(16, 16, 3, padding=1)
        self.n = nn.BatchNorm1d(16)
        self.o = nn.Linear(32, 5)

    def forward(self, x):
        x = self.s(x)
        x = F.relu(x + self.n(self.a(x)))
        return self.o(torch.cat([F.adaptive_avg_pool1d(x, 1), F.adaptive_max_pool1d(x, 1)], 1).flatten(1))


@net((12, 40))
class EcgCeil(nn.Module):
    """Pools whose last window is cut short"""

    def __init__(self):
        super().__init__()
        self.c = nn.Conv1d(12, 8, 4)
        self.p = nn.MaxPool1d(2, ceil_mode=True)
        self.q = nn.AvgPool1d(3, ceil_mode=True)
        self.m = nn.AdaptiveMaxPool1d(1)
        self.o = nn.Linear(8, 5)

    def forward(self, x):
        return self.o(self.m(self.q(F.relu(self.p(self.c(x))))).squeeze(-1))


@net((1, 8, 40))
class EegNet(nn.Module):
    """Lawhern 2018"""

    def __init__(self):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(1, 4, (1, 15), padding=(0, 7), bias=False), nn.BatchNorm2d(4),
                               nn.Conv2d(4, 8, (8, 1), groups=4, bias=False), nn.BatchNorm2d(8), nn.ELU(), nn.AvgPool2d((1, 4)), nn.Dropout(0.0))
        self.b = nn.Sequential(nn.Conv2d(8, 8, (1, 7), padding=(0, 3), groups=8, bias=False), nn.Conv2d(8, 8, 1, bias=False), nn.BatchNorm2d(8),
                               nn.ELU(), nn.AvgPool2d((1, 5)))
        self.o = nn.Linear(16, 3)

    def forward(self, x):
        return self.o(self.b(self.a(x)).flatten(1))


@net((1, 8, 40))
class ShallowConvNet(nn.Module):
    """Schirrmeister 2017: squares, a mean, a log"""

    def __init__(self):
        super().__init__()
        self.t = nn.Conv2d(1, 6, (1, 9))
        self.s = nn.Conv2d(6, 6, (8, 1), bias=False)
        self.n = nn.BatchNorm2d(6)
        self.p = nn.AvgPool2d((1, 8), (1, 4))
        self.o = nn.Linear(42, 3)

    def forward(self, x):
        x = self.n(self.s(self.t(x)))
        x = torch.log(torch.clamp(self.p(x ** 2), min=1e-06))
        return self.o(x.flatten(1))


@net((12, 40))
class SeResNet1d(nn.Module):
    """Squeeze and excitation of a signal"""

    def __init__(self):
        super().__init__()
        self.c = nn.Conv1d(12, 8, 7, padding=3)
        self.f = nn.Sequential(nn.Linear(8, 2), nn.ReLU(), nn.Linear(2, 8), nn.Sigmoid())
        self.o = nn.Linear(8, 5)

    def forward(self, x):
        y = self.c(x)
        b, c, _ = y.size()
        w = self.f(F.adaptive_avg_pool1d(y, 1).view(b, c)).view(b, c, 1)
        return self.o((y * w.expand_as(y)).mean(2))


@net((8, 40))
class EegConformer(nn.Module):
    """Song 2023, smaller"""

    def __init__(self):
        super().__init__()
        self.c = nn.Conv1d(8, 16, 7, padding=3)
        self.p = nn.AvgPool1d(4)
        self.e = nn.TransformerEncoderLayer(16, 2, 32, 0.0, "gelu", batch_first=True)
        self.o = nn.Linear(160, 3)

    def forward(self, x):
        y = self.p(F.elu(self.c(x))).transpose(1, 2)
        y = self.e(y)
        return self.o(y.contiguous().view(x.size(0), -1))


@net((24, 3))
class RevInMiddle(nn.Module):
    """The same as a middle of three dimensions, for which no head learns"""

    def __init__(self):
        super().__init__()
        self.affine_weight = nn.Parameter(torch.ones(3))
        self.affine_bias = nn.Parameter(torch.zeros(3))
        self.l = nn.Linear(24, 8)
        self.eps = 1e-5

    def forward(self, x):
        mean = torch.mean(x, dim=1, keepdim=True).detach()
        stdev = torch.sqrt(torch.var(x, dim=1, keepdim=True, unbiased=False) + self.eps).detach()
        x = (x - mean) / stdev * self.affine_weight + self.affine_bias
        y = self.l(x.permute(0, 2, 1)).permute(0, 2, 1)
        return (y - self.affine_bias) / (self.affine_weight + self.eps * self.eps) * stdev + mean


@net((3, 10))
class PaddedSignals(nn.Module):
    """Margins of a number other than 0, before a convolution without padding"""

    def __init__(self):
        super().__init__()
        self.pad = nn.ConstantPad1d((2, 1), 0.75)
        self.a = nn.Conv1d(3, 4, 3)
        self.b = nn.Conv1d(4, 4, 3)
        self.out = nn.Linear(4, 2)

    def forward(self, x):
        x = torch.tanh(self.a(self.pad(x)))
        return self.out(torch.tanh(self.b(F.pad(x, (1, 1), value=-1.5))).mean(2))


@net((3, 8, 8))
class PaddedPictures(nn.Module):
    """The same of pictures, with an odd margin"""

    def __init__(self):
        super().__init__()
        self.a = nn.Sequential(nn.ConstantPad2d((1, 2, 0, 1), -0.5), nn.Conv2d(3, 4, 3), nn.ReLU())
        self.b = nn.Conv2d(4, 4, 3)
        self.out = nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.b(F.pad(self.a(x), [1] * 4, "constant", 2)).mean((2, 3)))
