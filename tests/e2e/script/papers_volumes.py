"""Networks for volumes, of papers (papers.py), in small widths. Each is read from a file of its own, too."""
import torch
import torch.nn.functional as F
from torch import nn

from papers import net


class Residual(nn.Module):
    """MONAI's ResidualUnit: subunits of convolution, norm and PReLU, beside a convolution where sizes differ"""

    def __init__(self, i, o, stride=1, subunits=2, last=False):
        super().__init__()
        parts = [(nn.Conv3d(i if not n else o, o, 3, stride if not n else 1, 1),
                  *(() if last and n == subunits - 1 else (nn.InstanceNorm3d(o), nn.PReLU()))) for n in range(subunits)]
        self.conv = nn.Sequential(*(m for part in parts for m in part))
        self.residual = nn.Identity() if stride == 1 and i == o else nn.Conv3d(i, o, 3 if stride > 1 else 1, stride, int(stride > 1))

    def forward(self, x):
        return self.conv(x) + self.residual(x)


class Up(nn.Module):
    def __init__(self, i, o, last=False):
        super().__init__()
        self.up = nn.Sequential(nn.ConvTranspose3d(i, o, 3, 2, 1, 1), nn.InstanceNorm3d(o), nn.PReLU())
        self.unit = Residual(o, o, subunits=1, last=last)

    def forward(self, x):
        return self.unit(self.up(x))


@net((1, 8, 16, 8), 2)
class UNet3d(nn.Module):
    """MONAI's UNet with residual units; Kerfoot 2018"""

    def __init__(self, w=(4, 8, 12)):
        super().__init__()
        self.down = nn.ModuleList([Residual(1, w[0], 2), Residual(w[0], w[1], 2), Residual(w[1], w[2])])
        self.up = nn.ModuleList([Up(w[1] + w[2], w[0]), Up(2 * w[0], 3, last=True)])

    def forward(self, x):
        a = self.down[0](x)
        b = self.down[1](a)
        y = self.up[0](torch.cat([b, self.down[2](b)], 1))
        return self.up[1](torch.cat([a, y], 1))


def two_conv(i, o):
    return nn.Sequential(nn.Conv3d(i, o, 3, padding=1), nn.InstanceNorm3d(o, affine=True), nn.LeakyReLU(0.1),
                         nn.Conv3d(o, o, 3, padding=1), nn.InstanceNorm3d(o, affine=True), nn.LeakyReLU(0.1))


@net((2, 8, 8, 8), 2)
class BasicUNet(nn.Module):
    """Falk 2019, as MONAI has it: MaxPool3d on the way down, ConvTranspose3d(2, 2) with a bias on the way up"""

    def __init__(self):
        super().__init__()
        self.pool, self.a, self.b, self.c = nn.MaxPool3d(2), two_conv(2, 8), two_conv(8, 16), two_conv(16, 16)
        self.up1, self.d1 = nn.ConvTranspose3d(16, 8, 2, 2), two_conv(24, 8)
        self.up0, self.d0 = nn.ConvTranspose3d(8, 8, 2, 2), two_conv(16, 8)
        self.out = nn.Conv3d(8, 3, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(self.pool(a))
        y = self.d1(torch.cat([b, self.up1(self.c(self.pool(b)))], 1))
        return self.out(self.d0(torch.cat([a, self.up0(y)], 1)))


class SegBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(4, c), nn.GroupNorm(4, c)
        self.c1, self.c2 = nn.Conv3d(c, c, 3, padding=1, bias=False), nn.Conv3d(c, c, 3, padding=1, bias=False)

    def forward(self, x):
        return self.c2(F.relu(self.n2(self.c1(F.relu(self.n1(x)))))) + x


@net((2, 8, 8, 12), 2)
class SegResNet(nn.Module):
    """Myronenko 2018, without its autoencoder: GroupNorm, strides, trilinear sizes and sums"""

    def __init__(self):
        super().__init__()
        self.stem, self.drop = nn.Conv3d(2, 8, 3, padding=1, bias=False), nn.Dropout3d(0.0)
        self.a, self.b, self.c = SegBlock(8), SegBlock(16), SegBlock(8)
        self.down, self.thin = nn.Conv3d(8, 16, 3, 2, 1, bias=False), nn.Conv3d(16, 8, 1, bias=False)
        self.up = nn.Upsample(scale_factor=2, mode="trilinear", align_corners=False)
        self.last = nn.Sequential(nn.GroupNorm(4, 8), nn.ReLU(inplace=True), nn.Conv3d(8, 3, 1))

    def forward(self, x):
        a = self.a(self.drop(self.stem(x)))
        y = self.up(self.thin(self.b(self.down(a)))) + a
        return self.last(self.c(y))


class DynBlock(nn.Module):
    """nnU-Net's block; residual: MONAI's UnetResBlock"""

    def __init__(self, i, o, k, s, residual):
        super().__init__()
        pad = tuple((n - 1) // 2 for n in k)
        self.c1, self.c2 = nn.Conv3d(i, o, k, s, pad, bias=False), nn.Conv3d(o, o, k, 1, pad, bias=False)
        self.n1, self.n2 = nn.InstanceNorm3d(o, affine=True), nn.InstanceNorm3d(o, affine=True)
        self.lrelu = nn.LeakyReLU(0.01, inplace=True)
        self.c3, self.n3 = (nn.Conv3d(i, o, 1, s, bias=False), nn.InstanceNorm3d(o, affine=True)) if residual and (i != o or s != (1, 1, 1)) else (None, None)
        self.residual = residual

    def forward(self, x):
        y = self.n2(self.c2(self.lrelu(self.n1(self.c1(x)))))
        if self.residual:
            y = y + (x if self.c3 is None else self.n3(self.c3(x)))
        return self.lrelu(y)


class Dyn(nn.Module):
    """Isensee 2021: kernels and strides of anisotropic volumes"""

    def __init__(self, residual):
        super().__init__()
        kernels, strides = ((1, 3, 3), (3, 3, 3), (3, 3, 3)), ((1, 1, 1), (1, 2, 2), (2, 2, 2))
        self.down = nn.ModuleList(DynBlock(i, o, k, s, residual) for i, o, k, s in zip((1, 6, 8), (6, 8, 10), kernels, strides))
        self.up = nn.ModuleList([nn.ConvTranspose3d(10, 8, (2, 2, 2), (2, 2, 2), bias=False), nn.ConvTranspose3d(8, 6, (1, 2, 2), (1, 2, 2), bias=False)])
        self.dec = nn.ModuleList([DynBlock(16, 8, (3, 3, 3), (1, 1, 1), residual), DynBlock(12, 6, (1, 3, 3), (1, 1, 1), residual)])
        self.out = nn.Conv3d(6, 2, 1)

    def forward(self, x):
        a = self.down[0](x)
        b = self.down[1](a)
        y = self.dec[0](torch.cat((self.up[0](self.down[2](b)), b), dim=1))
        return self.out(self.dec[1](torch.cat((self.up[1](y), a), dim=1)))


@net((1, 6, 8, 12), 2)
class DynUNet(Dyn):
    def __init__(self):
        super().__init__(False)


@net((1, 6, 8, 12), 2)
class DynUNetResidual(Dyn):
    def __init__(self):
        super().__init__(True)


def two_and_one(i, o, mid, stride):
    """R(2+1)D: a convolution in the plane, then one along the depth"""
    return nn.Sequential(nn.Conv3d(i, mid, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False), nn.BatchNorm3d(mid), nn.ReLU(inplace=True),
                         nn.Conv3d(mid, o, (3, 1, 1), (stride, 1, 1), (1, 0, 0), bias=False))


class Basic(nn.Module):
    def __init__(self, i, o, stride, parted):
        super().__init__()
        conv = (lambda i, o, s: two_and_one(i, o, i * o * 27 // (i * 9 + 3 * o), s)) if parted else lambda i, o, s: nn.Conv3d(i, o, 3, s, 1, bias=False)
        self.conv1 = nn.Sequential(conv(i, o, stride), nn.BatchNorm3d(o), nn.ReLU(inplace=True))
        self.conv2 = nn.Sequential(conv(o, o, 1), nn.BatchNorm3d(o))
        self.relu = nn.ReLU(inplace=True)
        self.downsample = nn.Sequential(nn.Conv3d(i, o, 1, stride, bias=False), nn.BatchNorm3d(o)) if stride > 1 or i != o else None

    def forward(self, x):
        rest = x if self.downsample is None else self.downsample(x)
        out = self.conv2(self.conv1(x))
        out += rest
        return self.relu(out)


class Video(nn.Module):
    """Tran 2018, as torchvision has it; of its 18 layers, the widths are an eighth"""

    def __init__(self, stem, parted):
        super().__init__()
        self.stem, widths = stem, (4, 4, 6, 8, 8)
        self.layers = nn.Sequential(*(nn.Sequential(Basic(i, o, 1 if not n else 2, parted), Basic(o, o, 1, parted))
                                      for n, (i, o) in enumerate(zip(widths, widths[1:]))))
        self.avgpool, self.fc = nn.AdaptiveAvgPool3d((1, 1, 1)), nn.Linear(8, 5)

    def forward(self, x):
        x = self.avgpool(self.layers(self.stem(x)))
        return self.fc(x.flatten(1))


@net((3, 8, 32, 32), 3)
class R3d18(Video):
    def __init__(self):
        super().__init__(nn.Sequential(nn.Conv3d(3, 4, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False), nn.BatchNorm3d(4), nn.ReLU(inplace=True)), False)


@net((3, 8, 32, 32), 3)
class R2Plus1d18(Video):
    def __init__(self):
        super().__init__(nn.Sequential(nn.Conv3d(3, 5, (1, 7, 7), (1, 2, 2), (0, 3, 3), bias=False), nn.BatchNorm3d(5), nn.ReLU(inplace=True),
                                       nn.Conv3d(5, 4, (3, 1, 1), 1, (1, 0, 0), bias=False), nn.BatchNorm3d(4), nn.ReLU(inplace=True)), True)


@net((1, 16, 32, 32), 3)
class ResNet18of3d(Video):
    """Hara 2018, Med3D: a stem of 7³ and MaxPool3d(3, 2, 1)"""

    def __init__(self):
        super().__init__(nn.Sequential(nn.Conv3d(1, 4, 7, (1, 2, 2), 3, bias=False), nn.BatchNorm3d(4), nn.ReLU(inplace=True), nn.MaxPool3d(3, 2, 1)), False)


@net((4, 9, 12, 12), 2)
class Dilated(nn.Module):
    """Layers along the depth alone: dilation, unequal kernels, means and nearest sizes, a gate"""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv3d(4, 8, 3, 1, 2, dilation=2)
        self.gate = nn.Sequential(nn.AdaptiveAvgPool3d(1), nn.Conv3d(8, 8, 1), nn.Sigmoid())
        self.slope, self.pool, self.b = nn.PReLU(8), nn.AvgPool3d(3, 2, 1), nn.Conv3d(8, 8, (5, 1, 3), padding=(2, 0, 0))
        self.up, self.fc = nn.Upsample(size=(4, 6, 6)), nn.Linear(8, 3)

    def forward(self, x):
        x = self.slope(self.a(x))
        x = self.up(self.b(self.pool(x * self.gate(x))))
        return self.fc(torch.tanh(x).mean((2, 3, 4)))


@net((2, 6, 8, 8), 2, "groups=2 is not known on the server, 1 is")
class Grouped(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv3d(2, 4, 3, groups=2)

    def forward(self, x):
        return self.a(x)


@net((2, 6, 8, 8), 2, "permute is not known on the server for volumes [2, 6, 8, 8]: keep it in head or tail")
class Permuted(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv3d(2, 4, 3)

    def forward(self, x):
        return self.a(x.permute(0, 1, 3, 2, 4))

