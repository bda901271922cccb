"""Networks for audio, texts and pictures, of papers (papers.py)."""
import torch
import torch.nn.functional as F
from torch import nn

from papers import net


@net((1, 16, 20))
class AudioCnn(nn.Module):
    """PANNs Cnn6"s pooling: mean over frequency, max and mean over time"""

    def __init__(self):
        super().__init__()
        self.n = nn.BatchNorm2d(16)
        self.c = nn.Conv2d(1, 8, 5, padding=2)
        self.b = nn.BatchNorm2d(8)
        self.f = nn.Linear(8, 8)
        self.o = nn.Linear(8, 4)

    def forward(self, x):
        x = x.transpose(1, 2)
        x = self.n(x)
        x = x.transpose(1, 2)
        x = F.avg_pool2d(F.relu_(self.b(self.c(x))), 2)
        x = torch.mean(x, dim=2)
        x1, _ = torch.max(x, dim=2)
        x2 = torch.mean(x, dim=2)
        return self.o(F.relu_(self.f(x1 + x2)))


@net((1, 64))
class M5(nn.Module):
    """Dai 2017, on the wave itself"""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv1d(1, 8, 16, stride=4)
        self.n = nn.BatchNorm1d(8)
        self.p = nn.MaxPool1d(2)
        self.b = nn.Conv1d(8, 8, 3)
        self.m = nn.BatchNorm1d(8)
        self.o = nn.Linear(8, 4)

    def forward(self, x):
        x = self.p(F.relu(self.n(self.a(x))))
        x = F.relu(self.m(self.b(x)))
        x = F.avg_pool1d(x, x.shape[-1])
        x = x.permute(0, 2, 1)
        x = self.o(x)
        return F.log_softmax(x, dim=2).squeeze(1)


@net((1, 64))
class Speech(nn.Module):
    """EncDec of Conv-TasNet: masks by a temporal network, transposed convolution back"""

    def __init__(self):
        super().__init__()
        self.e = nn.Conv1d(1, 8, 4, 2, bias=False)
        self.m = nn.Conv1d(8, 8, 3, padding=1)
        self.pr = nn.PReLU()
        self.d = nn.ConvTranspose1d(8, 1, 4, 2, bias=False)

    def forward(self, x):
        w = F.relu(self.e(x))
        m = torch.sigmoid(self.pr(self.m(w)))
        return self.d(w * m).flatten(1)


@net((20, 16))
class Crnn(nn.Module):
    """Convolutions over a spectrogram, then a GRU over time"""

    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(1, 4, 3, padding=1)
        self.p = nn.MaxPool2d((1, 2))
        self.g = nn.GRU(32, 8, batch_first=True)
        self.o = nn.Linear(8, 4)

    def forward(self, x):
        x = x.unsqueeze(1)
        x = self.p(F.relu(self.c(x)))
        b, c, t, f = x.shape
        x = x.permute(0, 2, 1, 3).reshape(b, t, c * f)
        y, _ = self.g(x)
        return self.o(y.mean(1))


@net((1, 80))
class Wav2VecFront(nn.Module):
    """Baevski 2020: group norm of each channel, GELU, layer norm of the features"""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv1d(1, 16, 10, 5, bias=False)
        self.g = nn.GroupNorm(16, 16)
        self.b = nn.Conv1d(16, 16, 3, 2, bias=False)
        self.n = nn.LayerNorm(16)
        self.o = nn.Linear(16, 4)

    def forward(self, x):
        return self.o(self.n(F.gelu(self.b(F.gelu(self.g(self.a(x))))).transpose(1, 2)).mean(1))


@net((1, 40), refused="a tensor of a module itself")
class Sinc(nn.Module):
    """Ravanelli 2018: filters made of two learned frequencies"""

    def __init__(self):
        super().__init__()
        self.f = nn.Parameter(torch.rand(4, 1) * 0.4 + 0.05)
        self.register_buffer("t", torch.arange(-4.0, 5.0)[None])
        self.o = nn.Linear(4, 3)

    def forward(self, x):
        k = torch.sin(self.f * self.t)
        return self.o(F.relu(F.conv1d(x, k.unsqueeze(1))).mean(2))


@net((24, 16))
class TextCnn(nn.Module):
    """Kim 2014"""

    def __init__(self):
        super().__init__()
        self.c = nn.ModuleList([nn.Conv1d(16, 6, k) for k in (3, 4, 5)])
        self.o = nn.Linear(18, 2)

    def forward(self, x):
        x = x.transpose(1, 2)
        x = [F.relu(c(x)) for c in self.c]
        x = [F.max_pool1d(i, i.size(2)).squeeze(2) for i in x]
        return self.o(torch.cat(x, 1))


@net((24, 16))
class TextCnn2d(nn.Module):
    """Kim 2014, as convolutions of images"""

    def __init__(self):
        super().__init__()
        self.c = nn.ModuleList([nn.Conv2d(1, 6, (k, 16)) for k in (3, 4)])
        self.o = nn.Linear(12, 2)

    def forward(self, x):
        x = x.unsqueeze(1)
        x = [F.relu(c(x)).squeeze(3) for c in self.c]
        x = [F.max_pool1d(i, i.size(2)).squeeze(2) for i in x]
        return self.o(torch.cat(x, 1))


@net((12, 16))
class ClsRepeat(nn.Module):
    """ViT as often written: cls.repeat(b, 1, 1)"""

    def __init__(self):
        super().__init__()
        self.cls = nn.Parameter(torch.randn(1, 1, 16))
        self.pos = nn.Parameter(torch.randn(1, 13, 16) * 0.02)
        self.e = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True)
        self.o = nn.Linear(16, 3)

    def forward(self, x):
        b = x.shape[0]
        x = torch.cat((self.cls.repeat(b, 1, 1), x), dim=1) + self.pos
        return self.o(self.e(x)[:, 0])


@net((1, 16, 16))
class UNet(nn.Module):
    """Ronneberger 2015"""

    def __init__(self):
        super().__init__()
        blk = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(True), nn.Conv2d(o, o, 3, padding=1),
                                         nn.BatchNorm2d(o), nn.ReLU(True))
        self.a = blk(1, 4)
        self.b = blk(4, 8)
        self.c = blk(8, 16)
        self.u = nn.ConvTranspose2d(16, 8, 2, 2)
        self.d = blk(16, 8)
        self.v = nn.ConvTranspose2d(8, 4, 2, 2)
        self.e = blk(8, 4)
        self.o = nn.Conv2d(4, 2, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        c = self.c(F.max_pool2d(b, 2))
        d = self.d(torch.cat([b, self.u(c)], 1))
        e = self.e(torch.cat([a, self.v(d)], 1))
        return self.o(e)


@net((1, 16, 16))
class AttentionUNet(nn.Module):
    """Oktay 2018: gates on the skips"""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(1, 4, 3, padding=1)
        self.b = nn.Conv2d(4, 8, 3, padding=1, stride=2)
        self.u = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.uc = nn.Conv2d(8, 4, 3, padding=1)
        self.wg = nn.Conv2d(4, 2, 1)
        self.wx = nn.Conv2d(4, 2, 1)
        self.psi = nn.Sequential(nn.Conv2d(2, 1, 1), nn.BatchNorm2d(1), nn.Sigmoid())
        self.o = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = self.a(x)
        g = self.uc(self.u(F.relu(self.b(a))))
        p = self.psi(F.relu(self.wg(g) + self.wx(a)))
        return self.o(torch.cat((a * p, g), 1))


@net((1, 16, 16))
class DeepSupervision(nn.Module):
    """Losses at two levels"""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(1, 4, 3, padding=1)
        self.b = nn.Conv2d(4, 8, 3, padding=1, stride=2)
        self.u = nn.ConvTranspose2d(8, 4, 2, 2)
        self.o = nn.Conv2d(8, 2, 1)
        self.o2 = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = self.a(x)
        b = F.relu(self.b(a))
        return [self.o(torch.cat((a, self.u(b)), 1)), self.o2(b)]


@net((4, 16, 16))
class GroupedUp(nn.Module):
    """Upsamples each channel by itself"""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(4, 8, 3, stride=2, padding=1)
        self.u = nn.ConvTranspose2d(8, 8, 2, 2, groups=8)
        self.v = nn.ConvTranspose2d(8, 12, 4, 2, 1, groups=4)
        self.o = nn.Conv2d(12, 2, 3)

    def forward(self, x):
        return self.o(F.relu(self.v(self.u(F.relu(self.a(x))))))


@net((4, 16, 16))
class ConstantBorder(nn.Module):
    """A border by a module"""

    def __init__(self):
        super().__init__()
        self.p = nn.ConstantPad2d(1, 0.0)
        self.o = nn.Conv2d(4, 2, 3)

    def forward(self, x):
        return self.o(self.p(x))


@net((3, 16, 16))
class FixedFilter(nn.Module):
    """A blur with weights of its own (antialiased pools), and an edge filter"""

    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 4, 3, padding=1)
        k = torch.tensor([1.0, 2.0, 1.0])
        self.register_buffer("k", (k[:, None] * k[None] / 16)[None, None].repeat(4, 1, 1, 1))
        self.o = nn.Linear(4, 3)

    def forward(self, x):
        x = F.relu(self.c(x))
        x = F.conv2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), self.k, stride=2, groups=4)
        return self.o(x.mean((2, 3)))


@net((3, 16, 16))
class OwnWeights(nn.Module):
    """A convolution by a parameter of the module"""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 3, 3, 3) * 0.2)
        self.b = nn.Parameter(torch.zeros(4))
        self.o = nn.Linear(4, 3)

    def forward(self, x):
        return self.o(F.relu(F.conv2d(x, self.w, self.b, padding=1)).mean((2, 3)))


@net((3, 16, 16))
class Cbam(nn.Module):
    """Woo 2018: attention over channels, then over places"""

    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 8, 3, padding=1)
        self.f = nn.Sequential(nn.Conv2d(8, 2, 1, bias=False), nn.ReLU(), nn.Conv2d(2, 8, 1, bias=False))
        self.s = nn.Conv2d(2, 1, 7, padding=3, bias=False)
        self.o = nn.Linear(8, 3)

    def forward(self, x):
        x = self.c(x)
        w = torch.sigmoid(self.f(F.adaptive_avg_pool2d(x, 1)) + self.f(F.adaptive_max_pool2d(x, 1)))
        x = x * w
        m = torch.cat([x.mean(1, keepdim=True), x.max(1, keepdim=True)[0]], 1)
        x = x * torch.sigmoid(self.s(m))
        return self.o(x.mean((2, 3)))


@net((3, 16, 16))
class ShuffleMerge(nn.Module):
    """Channel shuffle: view(b, groups, c // groups, h, w).transpose(1, 2)"""

    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 8, 1)
        self.d = nn.Conv2d(8, 8, 3, padding=1, groups=4)
        self.o = nn.Linear(8, 3)

    def forward(self, x):
        x = self.c(x)
        b, c, h, w = x.size()
        x = x.view(b, 2, c // 2, h, w).transpose(1, 2).contiguous().view(b, c, h, w)
        return self.o(self.d(x).mean((2, 3)))


@net((3, 16, 16))
class NonLocal(nn.Module):
    """Wang 2018"""

    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 8, 3, padding=1, stride=2)
        self.t = nn.Conv2d(8, 4, 1)
        self.p = nn.Conv2d(8, 4, 1)
        self.g = nn.Conv2d(8, 4, 1)
        self.w = nn.Conv2d(4, 8, 1)
        self.o = nn.Linear(8, 3)

    def forward(self, x):
        x = self.c(x)
        b = x.size(0)
        g = self.g(x).view(b, 4, -1).permute(0, 2, 1)
        t = self.t(x).view(b, 4, -1).permute(0, 2, 1)
        p = self.p(x).view(b, 4, -1)
        f = torch.softmax(torch.matmul(t, p), -1)
        y = torch.matmul(f, g).permute(0, 2, 1).contiguous().view(b, 4, *x.size()[2:])
        return self.o((self.w(y) + x).mean((2, 3)))


@net((5, 3, 16, 16), rows=2, refused="joins the number of rows with another dimension")
class Mil(nn.Module):
    """Bags of pictures: rows and instances merge, gated attention pools (Ilse 2018)"""

    def __init__(self):
        super().__init__()
        self.c = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.v = nn.Linear(4, 4)
        self.u = nn.Linear(4, 4)
        self.w = nn.Linear(4, 1)
        self.o = nn.Linear(4, 2)

    def forward(self, x):
        b, n = x.shape[:2]
        h = self.c(x.reshape(b * n, *x.shape[2:])).reshape(b, n, -1)
        a = torch.softmax(self.w(torch.tanh(self.v(h)) * torch.sigmoid(self.u(h))), 1)
        return self.o((a * h).sum(1))


@net((3, 16, 16))
class PlainList(nn.Module):
    """Layers that a list has, too"""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 4, 3, padding=1)
        self.b = nn.Conv2d(4, 4, 3, padding=1)
        self.layers = [self.a, self.b]
        self.o = nn.Linear(4, 3)

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x))
        return self.o(x.mean((2, 3)))


@net((1, 16, 16))
class ResUNet(nn.Module):
    """Zhang 2018"""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(1, 8, 3, padding=1)
        self.n = nn.BatchNorm2d(8)
        self.b = nn.Conv2d(8, 8, 3, padding=1, stride=2)
        self.d = nn.Conv2d(8, 8, 1, stride=2)
        self.u = nn.Upsample(scale_factor=2, mode="nearest")
        self.e = nn.Conv2d(16, 8, 3, padding=1)
        self.o = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(F.relu(self.n(a))) + self.d(a)
        return self.o(F.relu(self.e(torch.cat([self.u(b), a], dim=1))))


@net((1, 16, 16))
class UNetPlusPlus(nn.Module):
    """Zhou 2018: nested skips"""

    def __init__(self):
        super().__init__()
        self.c = nn.ModuleDict({k: nn.Conv2d(i, o, 3, padding=1) for k, i, o in (("00", 1, 4), ("10", 4, 8), ("20", 8, 16), ("01", 12, 4),
            ("11", 24, 8), ("02", 16, 4))})
        self.o = nn.Conv2d(4, 2, 1)

    def forward(self, x):

        def block(k, *parts):
            return F.relu(self.c[k](torch.cat(parts, 1) if len(parts) > 1 else parts[0]))

        def up(y):
            return F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=True)
        a = block("00", x)
        b = block("10", F.max_pool2d(a, 2))
        c = block("20", F.max_pool2d(b, 2))
        d = block("01", a, up(b))
        e = block("11", b, up(c))
        return self.o(block("02", a, d, up(e)))


@net((1, 16, 16))
class LinkNet(nn.Module):
    """Chaurasia 2017: skips are added"""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(1, 4, 3, padding=1)
        self.b = nn.Conv2d(4, 8, 3, stride=2, padding=1)
        self.c = nn.Conv2d(8, 2, 1)
        self.u = nn.ConvTranspose2d(2, 2, 3, stride=2, padding=1, output_padding=1)
        self.d = nn.Conv2d(2, 4, 1)
        self.o = nn.Conv2d(4, 2, 1)

    def forward(self, x):
        a = F.relu(self.a(x))
        b = F.relu(self.b(a))
        return self.o(a + F.relu(self.d(F.relu(self.u(self.c(b))))))


@net((1, 16, 16), refused="max_pool2d_with_indices is not known")
class SegNet(nn.Module):
    """Badrinarayanan 2015: unpooling to the places of the maxima"""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(1, 4, 3, padding=1)
        self.o = nn.Conv2d(4, 2, 3, padding=1)

    def forward(self, x):
        y, i = F.max_pool2d(self.a(x), 2, return_indices=True)
        return self.o(F.max_unpool2d(y, i, 2))


@net((5, 5, 5))
class ScaledLast(nn.Module):
    """A number for each channel, of images whose channels come last for a while, where all sides are equal"""

    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(5, 5, 3, padding=1)
        self.s = nn.Parameter(torch.randn(5) * 0.3)
        self.l = nn.Linear(5, 3)

    def forward(self, x):
        y = self.c(x).permute(0, 2, 3, 1) * torch.exp(self.s)
        return self.l((y.permute(0, 3, 1, 2) * (1 + self.s.view(-1, 1, 1) ** 2)).mean((2, 3)))
