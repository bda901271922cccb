#!/usr/bin/env python3
"""Families of networks as people write them with torch.nn, each in small: a U-Net, vision transformers, ConvNeXt and others.

usage: onnx_families.py --list                  their names, each with the side of its pictures and two cuts
       onnx_families.py make FOLDER NAME        FOLDER/NAME.safetensors, with a run of ten steps of SGD by the rules of golden.py
       onnx_families.py export FOLDER           FOLDER/NAME.safetensors of each, and prints their names and sides
       onnx_families.py same FOLDER NAME        whether FOLDER/NAME_back.safetensors loads strictly, and has the tensors of NAME_after
Those of torchvision are its own, with fewer blocks where that is a setting; the others are spelled out from their papers.
"""
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F
import torchvision.models as tv
from torch import nn
from torchvision.models.vision_transformer import VisionTransformer

import golden
from make_networks import widen
from make_onnx import convert, export

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../configs/moderate-cnn"))
from moderate_cnn import ModerateCNN  # noqa: E402


def double(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(),
                         nn.Conv2d(b, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU())


class UNet(nn.Module):
    """Ronneberger et al. 2015, with padding and batch norms. The last layer gives each pixel a number for each class; their mean over
    the picture is the logit."""

    def __init__(self, c=8, levels=2, classes=10):
        super().__init__()
        wide = [c << level for level in range(levels + 1)]
        self.pool = nn.MaxPool2d(2)
        self.down = nn.ModuleList(double(a, b) for a, b in zip([3, *wide], wide))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * a, a, 2, 2) for a in wide[-2::-1])
        self.join = nn.ModuleList(double(2 * a, a) for a in wide[-2::-1])
        self.last = nn.Conv2d(c, classes, 1)

    def forward(self, x):
        kept = []
        for down in self.down[:-1]:
            kept.append(down(x))
            x = self.pool(kept[-1])
        x = self.down[-1](x)
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        return self.last(x).mean((2, 3))


class Segmenter(nn.Module):
    """An encoder with dilation, and a decoder that goes up bilinearly, as DeepLab's: logits are means over the picture."""

    def __init__(self, c=8, classes=10):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, c, 3, 2, 1), nn.GroupNorm(2, c), nn.ReLU())
        self.rates = nn.ModuleList(nn.Conv2d(c, c, 3, padding=d, dilation=d) for d in (1, 2, 3))
        self.join, self.last = nn.Conv2d(3 * c, c, 1), nn.Conv2d(2 * c, classes, 3, padding=1)

    def forward(self, x):
        a = self.stem(x)
        y = F.max_pool2d(a, 2)
        y = F.relu(self.join(torch.cat([rate(y) for rate in self.rates], 1)))
        y = F.interpolate(y, size=a.shape[2:], mode="bilinear", align_corners=False)
        return F.adaptive_avg_pool2d(self.last(torch.cat([a, y], 1)), 1).flatten(1)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.scale, self.qkv, self.proj = heads, (dim // heads) ** -0.5, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        n, s, f = x.shape
        q, k, v = self.qkv(x).reshape(n, s, 3, self.heads, f // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        return self.proj((((q @ k.transpose(-2, -1)) * self.scale).softmax(-1) @ v).transpose(1, 2).reshape(n, s, f))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.attn, self.norm2 = nn.LayerNorm(dim), Attention(dim, heads), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class DeiT(nn.Module):
    """Touvron et al. 2021, DeiT-Ti: 192 features, 3 heads; as timm has it, two blocks deep."""

    def __init__(self, image=32, patch=8, dim=192, heads=3, depth=2, classes=10):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, dim, patch, patch)
        self.cls_token, self.pos_embed = nn.Parameter(torch.randn(1, 1, dim) * 0.02), nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, dim) * 0.02)
        self.blocks, self.norm, self.head = nn.Sequential(*(Block(dim, heads) for _ in range(depth))), nn.LayerNorm(dim), nn.Linear(dim, classes)

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


class Mixing(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.norm1, self.tokens = nn.LayerNorm(dim), nn.Sequential(nn.Linear(tokens, 32), nn.GELU(), nn.Linear(32, tokens))
        self.norm2, self.channels = nn.LayerNorm(dim), nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    """Tolstikhin et al. 2021."""

    def __init__(self, image=32, patch=8, dim=64, depth=2, classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, dim, patch, patch)
        self.blocks, self.norm, self.head = nn.Sequential(*(Mixing((image // patch) ** 2, dim) for _ in range(depth))), nn.LayerNorm(dim), nn.Linear(dim, classes)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.stem(x).flatten(2).transpose(1, 2))).mean(1))


class Signal(nn.Module):
    """A residual 1-D CNN. Its signals are the rows of pictures, one behind the other, in 3 channels."""

    def __init__(self, classes=10):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv1d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm1d(16)
        self.conv2, self.bn2 = nn.Conv1d(16, 16, 3, padding=1, bias=False), nn.BatchNorm1d(16)
        self.conv3, self.fc = nn.Conv1d(16, 32, 5, 2, 2), nn.Linear(32, classes)

    def forward(self, x):
        x = F.max_pool1d(F.relu(self.bn1(self.conv1(x.flatten(2)))), 2)
        x = F.relu(x + self.bn2(self.conv2(x)))
        return self.fc(F.relu(self.conv3(x)).mean(2))


class Recurrent(nn.Module):
    """A convolution over a signal, an LSTM of two layers, then a GRU cell in a loop that reads every fourth step."""

    def __init__(self, classes=10):
        super().__init__()
        self.conv = nn.Conv1d(3, 16, 5, stride=2, padding=2)
        self.lstm, self.cell = nn.LSTM(16, 12, 2, batch_first=True, bidirectional=True), nn.GRUCell(24, 12)
        self.fc = nn.Linear(12, classes)

    def forward(self, x):
        y, _ = self.lstm(F.relu(self.conv(x.mean(2))).transpose(1, 2))
        state = torch.zeros(x.shape[0], 12, dtype=x.dtype)
        for t in range(3, y.shape[1], 4):
            state = self.cell(y[:, t], state)
        return self.fc(state)


class Excite(nn.Module):
    def __init__(self, c, hidden):
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(c, hidden, 1), nn.Conv2d(hidden, c, 1)

    def forward(self, x):
        return x * self.fc2(F.silu(self.fc1(x.mean((2, 3), keepdim=True)))).sigmoid()


class MBConv(nn.Module):
    def __init__(self, i, o, expand, k, stride):
        super().__init__()
        c = i * expand
        self.same = i == o and stride == 1
        self.expand = nn.Sequential(nn.Conv2d(i, c, 1, bias=False), nn.BatchNorm2d(c), nn.SiLU()) if expand > 1 else nn.Identity()
        self.depthwise = nn.Sequential(nn.Conv2d(c, c, k, stride, k // 2, groups=c, bias=False), nn.BatchNorm2d(c), nn.SiLU())
        self.excite, self.project = Excite(c, max(1, i // 4)), nn.Sequential(nn.Conv2d(c, o, 1, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        y = self.project(self.excite(self.depthwise(self.expand(x))))
        return x + y if self.same else y


class EfficientNet(nn.Module):
    """Tan and Le 2019, EfficientNet-B0 without stochastic depth, which PyTorch 1.13 does not export; `deep` 1: each stage has one block."""

    STAGES = ((1, 16, 1, 3, 1), (6, 24, 2, 3, 2), (6, 40, 2, 5, 2), (6, 80, 3, 3, 2), (6, 112, 3, 5, 1), (6, 192, 4, 5, 2), (6, 320, 1, 3, 1))

    def __init__(self, deep=99, classes=10):
        super().__init__()
        layers, i = [], 32
        for expand, o, n, k, stride in self.STAGES:
            for block in range(min(n, deep)):
                layers.append(MBConv(i, o, expand, k, 1 if block else stride))
                i = o
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.SiLU())
        self.blocks, self.last = nn.Sequential(*layers), nn.Sequential(nn.Conv2d(i, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.SiLU())
        self.classifier = nn.Linear(1280, classes)

    def forward(self, x):
        return self.classifier(self.last(self.blocks(self.stem(x))).mean((2, 3)))


def convnext():
    setting = [tv.convnext.CNBlockConfig(96, 192, 1), tv.convnext.CNBlockConfig(192, 384, 1), tv.convnext.CNBlockConfig(384, 768, 1),
               tv.convnext.CNBlockConfig(768, None, 1)]
    return tv.ConvNeXt(setting, stochastic_depth_prob=0.0, num_classes=10)


# name: module, side of the pictures, batch, two cuts: where the head ends and the tail begins
FAMILIES = {
    "unet": (UNet, 32, 8, "down.0.0:last", "down.0.0:join.1.3"),
    "vit_s": (lambda: VisionTransformer(32, 8, 2, 6, 384, 1536, num_classes=10), 32, 4, "conv_proj:heads", "encoder.layers.encoder_layer_0:heads"),
    "deit_ti": (DeiT, 32, 8, "patch_embed:head", "blocks.0:head"),
    "convnext_t": (convnext, 32, 4, "features.0:classifier.2", "features.1:classifier.2"),
    "efficientnet_b0": (lambda: EfficientNet(1), 64, 8, "stem:classifier", "blocks.1:classifier"),
    "mobilenet_v3_s": (lambda: tv.mobilenet_v3_small(num_classes=10, dropout=0.0), 64, 8, "features.0:classifier.3", "features.2:classifier.0"),
    "densenet121": (lambda: tv.DenseNet(32, (2, 2, 2, 2), 64, num_classes=10), 64, 8, "features.conv0:classifier", "features.transition1:classifier"),
    "mixer_s": (Mixer, 32, 8, "stem:head", "blocks.0:head"),
    "signal": (Signal, 16, 8, "conv1:fc", "conv1:conv3"),
    "segmenter": (Segmenter, 32, 8, "stem:last", "stem.0:last"),
    "recurrent": (Recurrent, 32, 8, "conv:fc", "conv:Gather"),
}

# At full size, as tests/bench/bench_peer.py measures them: module, side of the pictures.
FULL = {
    "unet": (lambda: UNet(32, 4), 128),
    "vit_s": (lambda: VisionTransformer(224, 16, 12, 6, 384, 1536, num_classes=10), 224),
    "convnext_t": (lambda: tv.convnext_tiny(num_classes=10, stochastic_depth_prob=0.0), 224),
    "efficientnet_b0": (EfficientNet, 224),
    "resnext50_32x4d": (lambda: tv.resnext50_32x4d(num_classes=10), 224),
    "regnet_y_400mf": (lambda: tv.regnet_y_400mf(num_classes=10), 224),
    "moderate_cnn": (ModerateCNN, 32),
}


def new_model(name, seed):
    torch.manual_seed(seed)
    return widen(FAMILIES[name][0](), torch.Generator().manual_seed(seed), centre=3.0)


def make(folder, name):
    _, image, batch, *_ = FAMILIES[name]
    prefix = os.path.join(os.path.abspath(folder), name)
    for seed in range(1, 30):
        model = new_model(name, seed)
        export(model, prefix + ".onnx", image)
        convert(prefix + ".onnx")
        report = golden.make(prefix, model, lr=0.001, seed=seed, width=1.0, image=image, batch=batch, classes=10, steps=10, name="network")
        # Of gradients near 0 rounding alone is left: tests/e2e/onnx_families.sh compares them with a hundredth of the largest at least.
        if max(report.values()) < 5e-4 and max(v for k, v in report.items() if k != "grad") < 5e-5:
            return
    sys.exit(f"{name}: no seed stays clear of the kinks")


def same(folder, name):
    want, _ = golden.read_safetensors(os.path.join(folder, name + "_after.safetensors"))
    got, _ = golden.read_safetensors(os.path.join(folder, name + "_back.safetensors"))
    new_model(name, 1).load_state_dict({key: torch.from_numpy(np.array(value)) for key, value in got.items()}, strict=True)
    for key, value in want.items():
        if not key.endswith("num_batches_tracked") and not np.array_equal(value, got[key]):
            sys.exit(f"{name}: {key} came back changed")
    print(f"{name}: {len(want)} tensors came back")


def main():
    if sys.argv[1] == "--list":
        for name, (_, size, _, *cuts) in FAMILIES.items():
            print(name, size, *cuts)
    elif sys.argv[1] == "export":
        for name, (_, size, *_) in FAMILIES.items():
            export(new_model(name, 1), os.path.join(sys.argv[2], name + ".onnx"), size)
            convert(os.path.join(sys.argv[2], name + ".onnx"))
            print(name, size)
    else:
        (make if sys.argv[1] == "make" else same)(sys.argv[2], sys.argv[3])


if __name__ == "__main__":
    main()
