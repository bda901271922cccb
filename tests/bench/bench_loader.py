#!/usr/bin/env python3
"""usage: bench_loader.py BENCH_LOADER [--pictures N] [--rounds R] [--threads T]
Measures how many pictures a second are decoded, cropped by RandomResizedCrop(224), flipped and normalised: by Split's loader, and by
torchvision with Pillow in PyTorch's DataLoader with as many workers. They take turns, on the same JPEGs, which this script makes. The
clock starts after the first batch, so that the start of workers does not count. Prints a table in Markdown."""
import argparse
import json
import os
import resource
import subprocess
import tempfile
import time

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

parser = argparse.ArgumentParser()
parser.add_argument("tool")
parser.add_argument("--pictures", type=int, default=640)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
args = parser.parse_args()
BATCH = 16


def scene(h, w, seed):
    """Returns a picture with slow changes of colour, edges and noise, whose JPEG is about as large as that of a photograph."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:h, 0:w] / max(h, w)
    f = rng.uniform(3, 25, 6)
    c = [np.sin(f[k] * x + f[k + 3] * y) + np.sin(f[k] * f[k + 3] * x * y) + (((8 * x).astype(int) + (6 * y).astype(int)) % 2) * 0.5 for k in range(3)]
    p = np.stack(c, 2)
    grain = rng.normal(0, 14, (h // 2 + 1, w // 2 + 1, 1)).repeat(2, 0).repeat(2, 1)[:h, :w]
    p = (p - p.min()) / (p.max() - p.min()) * 200 + grain + rng.normal(0, 5, (h, w, 3)) + 25
    return Image.fromarray(p.clip(0, 255).astype(np.uint8))


def make(root, n, h, w):
    """Writes n files and returns their mean bytes. Eight names share one picture, since neither side caches decoded pictures."""
    size = 0
    for i in range(n):
        path = os.path.join(root, "train", "class-%d" % (i % 2), "%05d.jpg" % i)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if i % 8 == 0:
            first = path
            scene(h, w, i).save(path, quality=90)
        else:
            os.link(first, path)
        size += os.path.getsize(path)
    return size / n


def cpu():
    """Returns the CPU seconds of child processes that have ended."""
    r = resource.getrusage(resource.RUSAGE_CHILDREN)
    return r.ru_utime + r.ru_stime


def ours(root, n):
    before = cpu()
    out = json.loads(subprocess.run([args.tool, root, str(args.threads), "224"], stdout=subprocess.PIPE, check=True).stdout)
    return out["samples"] / out["ms"] * 1e3, (cpu() - before) / n * 1e3


def theirs(root, n):
    steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
             transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    data = datasets.ImageFolder(os.path.join(root, "train"), transforms.Compose(steps))
    loader = DataLoader(data, BATCH, shuffle=True, num_workers=args.threads)
    before, began, seen = cpu(), None, 0
    for x, _ in loader:
        seen += len(x) if began else 0
        began = began or time.monotonic()
    took = time.monotonic() - began
    del loader
    return seen / took, (cpu() - before) / n * 1e3


torch.set_num_threads(1)
print("| pictures | KB each | splitc, images/s | torchvision, images/s | ratio | splitc, CPU ms each | torchvision, CPU ms each | ratio |")
print("|---|---|---|---|---|---|---|---|")
for h, w, share in ((375, 500, 1), (1200, 1600, 3)):
    with tempfile.TemporaryDirectory() as root:
        n = args.pictures // share
        kb = make(root, n, h, w) / 1e3
        rows = np.array([(*ours(root, n), *theirs(root, n)) for _ in range(args.rounds)])
        a, a_cpu, b, b_cpu = np.median(rows, 0)
        ratio, ratio_cpu = np.median(rows[:, 0] / rows[:, 2]), np.median(rows[:, 3] / rows[:, 1])
        print("| %d x %d | %.0f | %.0f | %.0f | %.2f | %.1f | %.1f | %.2f |" % (w, h, kb, a, b, ratio, a_cpu, b_cpu, ratio_cpu), flush=True)
