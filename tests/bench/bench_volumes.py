#!/usr/bin/env python3
"""3-D convolutions beside PyTorch on the CPU, forward and backward with both gradients: a table of milliseconds.

usage: bench_volumes.py [--runs N] [--threads N,…] [--unet]

Medians of N (5) runs by turns, wall time, PyTorch in the better of its memory formats. --unet: one volume through a U-Net's
level, as a whole, which also says how much faster two threads are. Needs torch; BUILD is the folder of Split's programs
(build/release) after `make all lib build-bench`.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
BUILD = os.environ.get("BUILD", os.path.join(ROOT, "build/release"))
os.environ.pop("OPENBLAS_CORETYPE", None)
os.environ["SPLIT_LIBRARY"] = os.path.join(BUILD, "libsplit.so.0")
sys.path.insert(0, os.path.join(ROOT, "python"))
import torch
from torch import nn

import split

# channels in and out, size, stride, volumes
ROWS = [(1, 32, (64, 128, 128), 1, 1), (4, 32, (32, 128, 128), 1, 1), (16, 16, (64, 64, 64), 1, 1), (32, 32, (32, 128, 128), 1, 1),
        (32, 64, (64, 64, 64), 2, 1), (64, 64, (32, 64, 64), 1, 1), (128, 128, (32, 32, 32), 1, 1), (256, 256, (16, 16, 16), 1, 1),
        (320, 320, (8, 8, 8), 1, 2)]


class Level(nn.Module):
    def __init__(self, c, size):
        super().__init__()
        self.body = nn.Sequential(*[m for _ in range(3) for m in (nn.Conv3d(c, c, 3, padding=1), nn.InstanceNorm3d(c, affine=True), nn.LeakyReLU())])

    def forward(self, x):
        return self.body(x)


def network(c, o, middle):
    return nn.Sequential(nn.Conv3d(1, c, 1), middle, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(o, 10)).train()


def file_of(folder, c, o, size, middle):
    path = os.path.join(folder, "net.safetensors")
    split.write_network(network(c, o, middle), torch.zeros(1, 1, *size), path)
    return path


def ours(file, volumes, threads):
    run = subprocess.run([os.path.join(BUILD, "tests/bench/bench_ops"), "0", str(volumes), str(volumes), str(threads), "1", "3", file, "0", "2"],
                         stdout=subprocess.PIPE, text=True, check=True)
    return [float(t) for t in re.search(r"middle +([\d.]+) +([\d.]+)", run.stdout).groups()]


def theirs(layer, x):
    begin = time.perf_counter()
    y = layer(x)
    middle = time.perf_counter()
    y.backward(torch.ones_like(y))
    times = [1000 * (middle - begin), 1000 * (time.perf_counter() - middle)]
    x.grad = None
    layer.zero_grad(set_to_none=True)
    return times


def forms(layer, volumes, c, size):
    import copy
    x = torch.randn(volumes, c, *size)
    return [(copy.deepcopy(layer).to(memory_format=f), x.to(memory_format=f).detach().requires_grad_()) for f in (torch.contiguous_format, torch.channels_last_3d)]


def medians(times):
    return [statistics.median(column) for column in zip(*times)]


def compare(name, layer, c, o, size, volumes, threads, runs, folder):
    torch.set_num_threads(threads)
    file = file_of(folder, c, o, size, layer)
    own, peer = [], [[], []]
    taken = forms(layer, volumes, c, size)
    for form in taken:
        theirs(*form)
    for _ in range(runs):
        for form, times in zip(taken, peer):
            times.append(theirs(*form))
        own.append(ours(file, volumes, threads))
    a, b = medians(own), min((medians(p) for p in peer), key=sum)
    spread = sorted(sum(t) for t in own)
    print(f"| {name} | {threads} | {a[0]:.0f} / {a[1]:.0f} ({spread[0]:.0f} to {spread[-1]:.0f}) | {b[0]:.0f} / {b[1]:.0f} | {sum(a) / sum(b):.2f} |", flush=True)
    return sum(a)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--unet", action="store_true")
    options = parser.parse_args()
    counts = [int(n) for n in options.threads.split(",")]
    print(f"PyTorch {torch.__version__}; load average {os.getloadavg()[0]:.1f}")
    print("| channels, size | threads | ours, forward / backward (both together) | PyTorch | ratio |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for c, o, size, stride, volumes in [] if options.unet else ROWS:
            for n in counts:
                compare(f"{c}→{o}, {'×'.join(map(str, size))}{', stride 2' if stride == 2 else ''}{f', {volumes} volumes' if volumes > 1 else ''}",
                        nn.Conv3d(c, o, 3, stride, 1, bias=False), c, o, size, volumes, n, options.runs, folder)
        if options.unet:
            sums = [compare("level of 32 channels, 32×96×96", Level(32, None), 32, 32, (32, 96, 96), 1, n, options.runs, folder) for n in counts]
            print(f"{sums[0] / sums[-1]:.2f} times as fast with {counts[-1]} threads as with {counts[0]}")


main()
