#!/usr/bin/env python3
"""Small segmentation networks, written from their papers: ONNX files, and three steps of SGD as PyTorch takes them, in double precision.

usage: cuts_live.py make FOLDER      pictures and masks as pixels_live.py makes them; of each network NETWORK.safetensors, and its losses in NETWORK.json
       cuts_live.py large FOLDER     128 pictures, and large.safetensors: a U-Net of 128 × 128 pixels with 8 to 128 channels (scripts/skip-bytes.sh)
(needs torch, torchvision and PIL; part of tests/e2e/cuts.sh)
"""
import json
import sys

import numpy as np
import torch
import torch.nn.functional as F
from make_onnx import convert
from pixels_live import CLASSES, cross_entropy, losses_of, make_pair, prepared
from torch import nn

STEPS, WIDE = 3, (4, 8, 16)


def conv(i, o, k=3, **more):
    return [nn.Conv2d(i, o, k, padding=k // 2 * more.get("dilation", 1), **more), nn.BatchNorm2d(o), nn.ReLU()]


def double(i, o):
    return nn.Sequential(*conv(i, o), *conv(o, o))


def up(i, o):
    return nn.ConvTranspose2d(i, o, 2, 2)


class UNet(nn.Module):
    """Ronneberger 2015, padded."""
    level, join = staticmethod(double), staticmethod(double)

    def __init__(self, c=WIDE):
        super().__init__()
        self.depth = len(c) - 1
        for i in range(len(c)):
            setattr(self, f"e{i}", self.level(c[i - 1] if i else 3, c[i]))
        for i in range(self.depth):
            setattr(self, f"p{i}", nn.MaxPool2d(2))
            setattr(self, f"u{i}", up(c[i + 1], c[i]))
            setattr(self, f"d{i}", self.join(2 * c[i], c[i]))
        self.out = nn.Conv2d(c[0], CLASSES, 1)

    def skip(self, i, x, below):
        return x

    def forward(self, x):
        skips = []
        for i in range(self.depth):
            x = getattr(self, f"e{i}")(x)
            skips.append(x)
            x = getattr(self, f"p{i}")(x)
        x = getattr(self, f"e{self.depth}")(x)
        for i in reversed(range(self.depth)):
            y = getattr(self, f"u{i}")(x)
            x = getattr(self, f"d{i}")(torch.cat([y, self.skip(i, skips[i], y)], 1))
        return self.out(x)


class Gate(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.g, self.x = nn.Conv2d(c, c // 2, 1), nn.Conv2d(c, c // 2, 1)
        self.psi = nn.Sequential(nn.ReLU(), nn.Conv2d(c // 2, 1, 1), nn.Sigmoid())

    def forward(self, g, x):
        return x * self.psi(self.g(g) + self.x(x))


class Attention(UNet):
    """Attention U-Net, Oktay 2018."""

    def __init__(self, c=WIDE):
        super().__init__(c)
        for i in range(self.depth):
            setattr(self, f"g{i}", Gate(c[i]))

    def skip(self, i, x, below):
        return getattr(self, f"g{i}")(below, x)


class Residual(nn.Module):
    def __init__(self, i, o, stride=1):
        super().__init__()
        self.a = nn.Sequential(nn.BatchNorm2d(i), nn.ReLU(), nn.Conv2d(i, o, 3, stride, 1))
        self.b = nn.Sequential(nn.BatchNorm2d(o), nn.ReLU(), nn.Conv2d(o, o, 3, padding=1))
        self.short = nn.Conv2d(i, o, 1, stride)

    def forward(self, x):
        return self.b(self.a(x)) + self.short(x)


class ResUNet(UNet):
    """Deep residual U-Net, Zhang 2018."""
    level = join = staticmethod(Residual)


class UNetPP(nn.Module):
    """UNet++, Zhou 2018."""

    def __init__(self, c=WIDE):
        super().__init__()
        self.pool0, self.pool1 = nn.MaxPool2d(2), nn.MaxPool2d(2)
        self.x00, self.x10, self.x20 = double(3, c[0]), double(c[0], c[1]), double(c[1], c[2])
        self.u01, self.u11, self.u02 = up(c[1], c[0]), up(c[2], c[1]), up(c[1], c[0])
        self.x01, self.x11, self.x02 = double(2 * c[0], c[0]), double(2 * c[1], c[1]), double(3 * c[0], c[0])
        self.out = nn.Conv2d(c[0], CLASSES, 1)

    def forward(self, x):
        a = self.x00(x)
        b = self.x10(self.pool0(a))
        a1 = self.x01(torch.cat([a, self.u01(b)], 1))
        b1 = self.x11(torch.cat([b, self.u11(self.x20(self.pool1(b)))], 1))
        return self.out(self.x02(torch.cat([a, a1, self.u02(b1)], 1)))


class SegNet(nn.Module):
    """Badrinarayanan 2015, its variant with interpolation: ONNX has no file for max unpooling in PyTorch."""

    def __init__(self, c=WIDE):
        super().__init__()
        self.e0, self.e1, self.d1, self.d0 = double(3, c[0]), double(c[0], c[1]), double(c[1], c[0]), double(c[0], c[0])
        self.p0, self.p1 = nn.MaxPool2d(2), nn.MaxPool2d(2)
        self.u1, self.u0 = (nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False) for _ in range(2))
        self.out = nn.Conv2d(c[0], CLASSES, 1)

    def forward(self, x):
        x = self.p1(self.e1(self.p0(self.e0(x))))
        return self.out(self.d0(self.u0(self.d1(self.u1(x)))))


class Block(nn.Module):
    """Of a ResNet."""

    def __init__(self, i, o, stride):
        super().__init__()
        self.a, self.b = nn.Conv2d(i, o, 3, stride, 1), nn.Conv2d(o, o, 3, padding=1)
        self.na, self.nb, self.relu = nn.BatchNorm2d(o), nn.BatchNorm2d(o), nn.ReLU()
        self.short = nn.Sequential(nn.Conv2d(i, o, 1, stride), nn.BatchNorm2d(o)) if stride > 1 else nn.Identity()

    def forward(self, x):
        return F.relu(self.nb(self.b(self.relu(self.na(self.a(x))))) + self.short(x))


class LinkNet(nn.Module):
    """Chaurasia 2017."""

    def __init__(self, c=WIDE):
        super().__init__()
        self.stem = nn.Sequential(*conv(3, c[0]))
        self.e0, self.e1, self.e2 = Block(c[0], c[0], 1), Block(c[0], c[1], 2), Block(c[1], c[2], 2)
        self.d1, self.d0 = self.decoder(c[2], c[1]), self.decoder(c[1], c[0])
        self.out = nn.Conv2d(c[0], CLASSES, 3, padding=1)

    @staticmethod
    def decoder(i, o):
        return nn.Sequential(*conv(i, i // 4, 1), nn.ConvTranspose2d(i // 4, i // 4, 2, 2), nn.BatchNorm2d(i // 4), nn.ReLU(), *conv(i // 4, o, 1))

    def forward(self, x):
        a = self.e0(self.stem(x))
        b = self.e1(a)
        return self.out(self.d0(self.d1(self.e2(b)) + b) + a)


class FPN(nn.Module):
    """Kirillov 2019, with a semantic branch for each level."""

    def __init__(self, c=WIDE):
        super().__init__()
        self.e0, self.e1, self.e2 = double(3, c[0]), Block(c[0], c[1], 2), Block(c[1], c[2], 2)
        self.l0, self.l1, self.l2 = (nn.Conv2d(i, 8, 1) for i in c)
        self.s0, self.s1, self.s2 = (nn.Sequential(*conv(8, 8)) for _ in range(3))
        self.by2, self.twice, self.by4 = (nn.Upsample(scale_factor=k, mode="nearest") for k in (2, 2, 4))
        self.out = nn.Conv2d(8, CLASSES, 1)

    def forward(self, x):
        a = self.e0(x)
        b = self.e1(a)
        p2 = self.l2(self.e2(b))
        p1 = self.l1(b) + F.interpolate(p2, scale_factor=2, mode="nearest")
        p0 = self.l0(a) + self.by2(p1)
        return self.out(self.s0(p0) + self.twice(self.s1(p1)) + self.by4(self.s2(p2)))


class PSPNet(nn.Module):
    """Zhao 2017: pyramid pooling."""

    def __init__(self, c=WIDE):
        super().__init__()
        self.e0, self.e1, self.e2 = double(3, c[0]), Block(c[0], c[1], 2), Block(c[1], c[2], 2)
        self.pools = nn.ModuleList(nn.Sequential(nn.AvgPool2d(k), *conv(c[2], 4, 1), nn.Upsample(scale_factor=k, mode="bilinear", align_corners=False)) for k in (8, 4, 2))
        self.join = nn.Sequential(*conv(c[2] + 12, 8))
        self.out = nn.Conv2d(8, CLASSES, 1)
        self.up = nn.Upsample(scale_factor=4, mode="bilinear", align_corners=False)

    def forward(self, x):
        x = self.e2(self.e1(self.e0(x)))
        return self.up(self.out(self.join(torch.cat([x] + [p(x) for p in self.pools], 1))))


class DeepLab(nn.Module):
    """DeepLabV3, Chen 2017: atrous convolutions side by side, and pooling of the picture."""

    def __init__(self, c=WIDE):
        super().__init__()
        self.e0, self.e1, self.e2 = double(3, c[0]), Block(c[0], c[1], 2), Block(c[1], c[2], 2)
        self.rate = nn.ModuleList(nn.Sequential(*conv(c[2], 4, k, dilation=d)) for k, d in ((1, 1), (3, 2), (3, 3)))
        self.picture = nn.Sequential(nn.AvgPool2d(8), nn.Conv2d(c[2], 4, 1), nn.ReLU(), nn.Upsample(scale_factor=8, mode="nearest"))
        self.join = nn.Sequential(*conv(16, 8, 1))
        self.out = nn.Conv2d(8, CLASSES, 1)
        self.up = nn.Upsample(scale_factor=4, mode="bilinear", align_corners=False)

    def forward(self, x):
        x = self.e2(self.e1(self.e0(x)))
        return self.up(self.out(self.join(torch.cat([r(x) for r in self.rate] + [self.picture(x)], 1))))


class MultiRes(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        a, b = o // 4, o // 4
        self.a, self.b, self.c = nn.Sequential(*conv(i, a)), nn.Sequential(*conv(a, b)), nn.Sequential(*conv(b, o - a - b))
        self.short, self.norm = nn.Sequential(nn.Conv2d(i, o, 1), nn.BatchNorm2d(o)), nn.BatchNorm2d(o)

    def forward(self, x):
        a = self.a(x)
        b = self.b(a)
        return self.norm(F.relu(torch.cat([a, b, self.c(b)], 1) + self.short(x)))


class Path(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.long, self.short = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 1)

    def forward(self, x):
        return F.relu(self.long(x) + self.short(x))


class MultiResUNet(UNet):
    """Ibtehaz 2020."""
    level = join = staticmethod(MultiRes)

    def __init__(self, c=WIDE):
        super().__init__(c)
        for i in range(self.depth):
            setattr(self, f"r{i}", Path(c[i]))

    def skip(self, i, x, below):
        return getattr(self, f"r{i}")(x)


class Late(UNet):
    """Its last layer reads the picture, too."""

    def __init__(self):
        super().__init__()
        self.out = nn.Conv2d(WIDE[0] + 3, CLASSES, 1)
        self.end, self.out = self.out, nn.Identity()

    def forward(self, x):
        return self.end(torch.cat([super().forward(x), x], 1))


NETWORKS = {"unet": UNet, "attention": Attention, "resunet": ResUNet, "unetpp": UNetPP, "segnet": SegNet, "linknet": LinkNet, "fpn": FPN,
            "pspnet": PSPNet, "deeplab": DeepLab, "multires": MultiResUNet, "deep": lambda: UNet((4, 8, 8, 8, 8)), "late": Late}


def export(net, x, path):
    torch.onnx.export(net, x, path, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, opset_version=13,
                      dynamic_axes={"x": {0: "n"}}, input_names=["x"])
    convert(path)


def make(folder):
    rng = np.random.default_rng(5)
    torch.use_deterministic_algorithms(True)
    pairs = [prepared(folder, make_pair(rng, folder, "train", i)) for i in range(8)]
    for i in range(4):
        make_pair(rng, folder, "val", i)
    x, y = torch.stack([p[0] for p in pairs]), torch.stack([p[1] for p in pairs])
    for name, network in NETWORKS.items():
        torch.manual_seed(5)
        net = network().train()
        start = {k: v.clone() for k, v in net.state_dict().items()}
        export(net, x[:2], f"{folder}/{name}.onnx")
        net.load_state_dict(start)
        json.dump(losses_of(net.double(), x.double(), y, cross_entropy, 0.1)[:STEPS], open(f"{folder}/{name}.json", "w"))


def large(folder):
    rng = np.random.default_rng(5)
    for i in range(128):
        make_pair(rng, folder, "train", i)
    make_pair(rng, folder, "val", 0)
    export(UNet((8, 16, 32, 64, 128)).train(), torch.zeros(2, 3, 128, 128), f"{folder}/large.onnx")


{"make": make, "large": large}[sys.argv[1]](sys.argv[2])
