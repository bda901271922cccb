#!/usr/bin/env python3
"""Kinds of layers beside PyTorch on the CPU: a few of one kind between a small convolution and a classifier, forward and backward.

usage: bench_kinds.py [--runs N] [KIND…]     one thread each, CPU time in ms: medians of N (7), with the smallest and the largest
PyTorch has the better of its memory formats. Both take turns. Needs torch and onnx; BUILD is the folder of bench_ops (build/release).
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[threads] = "1"
BUILD = os.environ.get("BUILD", "build/release")
os.environ.pop("OPENBLAS_CORETYPE", None)  # both sides take the kernels that splitc takes
os.environ["OPENBLAS_CORETYPE"] = subprocess.run([f"{BUILD}/splitc", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()[-1]
warnings.filterwarnings("ignore")
import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "golden"))
from make_onnx import convert, export

SIDE, BATCH = 96, 8
BENCH = os.path.join(BUILD, "tests/bench/bench_ops")


class Steps(nn.Module):
    """A recurrent layer over the columns of an image."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x.mean(2).transpose(1, 2))[0].transpose(1, 2).unsqueeze(2)


# name: channels, layers, one layer; all on 24 × 24
KINDS = {
    "3×3": (128, 4, lambda: nn.Conv2d(128, 128, 3, padding=1)),
    "5×5": (128, 4, lambda: nn.Conv2d(128, 128, 5, padding=2)),
    "1×7": (128, 4, lambda: nn.Conv2d(128, 128, (1, 7), padding=(0, 3))),
    "dilation 2": (256, 4, lambda: nn.Conv2d(256, 256, 3, padding=2, dilation=2)),
    "dilation 4": (512, 2, lambda: nn.Conv2d(512, 512, 3, padding=4, dilation=4)),
    "groups of 4": (128, 4, lambda: nn.Conv2d(128, 128, 3, padding=1, groups=32)),
    "groups of 8": (256, 4, lambda: nn.Conv2d(256, 256, 3, padding=1, groups=32)),
    "groups of 16": (208, 4, lambda: nn.Conv2d(208, 208, 3, padding=1, groups=13)),
    "depthwise 7×7": (192, 4, lambda: nn.Conv2d(192, 192, 7, padding=3, groups=192)),
    "transposed": (128, 2, lambda: nn.Sequential(nn.ConvTranspose2d(128, 128, 2, 2), nn.Conv2d(128, 128, 2, 2))),
    "bilinear": (64, 2, lambda: nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.MaxPool2d(2))),
    "group norm": (128, 4, lambda: nn.GroupNorm(8, 128)),
    "instance norm": (128, 4, lambda: nn.InstanceNorm2d(128, affine=True)),
    "max pool 3×3": (128, 4, lambda: nn.MaxPool2d(3, 1, 1)),
    "SiLU": (128, 4, nn.SiLU),
    "LSTM, 24 steps": (128, 2, lambda: Steps(nn.LSTM(128, 128, batch_first=True))),
    "GRU, 24 steps": (128, 2, lambda: Steps(nn.GRU(128, 128, batch_first=True))),
}


def network(kind):
    channels, count, layer = KINDS[kind]
    torch.manual_seed(0)
    has_weights = any(True for _ in layer().parameters())  # a cut stands at a layer with weights
    body = [m for _ in range(count) for m in (layer(), nn.ReLU() if has_weights else nn.PReLU())]
    return nn.Sequential(nn.Conv2d(3, channels, 3, 4, 1), *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)).train()


def theirs(net, x, y):
    begin = time.process_time()
    nn.functional.cross_entropy(net(x), y).backward()
    return 1000 * (time.process_time() - begin)


def ours(file, last):
    run = subprocess.run([BENCH, str(SIDE), str(BATCH), str(BATCH), "1", "3", "1", file, "0", last], stdout=subprocess.PIPE, text=True, check=True)
    return sum(float(a) + float(b) for a, b in re.findall(r"CPU min +([\d.]+) +([\d.]+)", run.stdout))


def text(times):
    return f"{statistics.median(times):.1f} ({min(times):.1f} to {max(times):.1f})"


def compare(kind, runs, folder):
    net, x, y = network(kind), torch.randn(BATCH, 3, SIDE, SIDE), torch.randint(0, 10, (BATCH,))
    file = os.path.join(folder, "kind.onnx")
    export(net, file, SIDE, input_names=["x"], dynamic_axes={"x": {0: "n"}})
    convert(file)
    forms = [(network(kind).to(memory_format=f), x.to(memory_format=f)) for f in (torch.contiguous_format, torch.channels_last)]
    times, own = [[], []], []
    for _ in range(runs):
        for form, taken in zip(forms, times):
            taken.append(theirs(*form, y))
        own.append(ours(file.replace(".onnx", ".safetensors"), str(len(net) - 1)))
    best = min(times, key=statistics.median)
    print(f"| {kind} | {text(own)} | {text(best)} | {statistics.median(own) / statistics.median(best):.2f} |", flush=True)


parser = argparse.ArgumentParser()
parser.add_argument("--runs", type=int, default=7)
parser.add_argument("kind", nargs="*", default=list(KINDS))
options = parser.parse_args()
print("| kind | ours, ms | PyTorch, ms | ratio |\n|---|---|---|---|")
with tempfile.TemporaryDirectory() as folder:
    for kind in options.kind:
        compare(kind, options.runs, folder)
