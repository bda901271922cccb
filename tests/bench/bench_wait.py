#!/usr/bin/env python3
"""usage: bench_wait.py SPLITC CIFAR_FOLDER [--pictures N] [--steps S] [--threads T] [--loaders L]
Measures how long a training step waits for its pictures. CIFAR-10's images are written as JPEGs of several sizes, and splitc trains on
them with --local. Prints a table in Markdown: for each network, the share of a step's time that the wait for its batch takes (t_data_s
in log.jsonl), without the first two steps."""
import argparse
import json
import os
import subprocess
import tempfile

import numpy as np
from PIL import Image

parser = argparse.ArgumentParser()
parser.add_argument("splitc")
parser.add_argument("cifar")
parser.add_argument("--pictures", type=int, default=600)
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
parser.add_argument("--loaders", type=int, default=1, help="threads that decode")
args = parser.parse_args()
SIDES = ((375, 500), (480, 640), (256, 256), (600, 800))


def write(root, name, records):
    for i, record in enumerate(records):
        h, w = SIDES[i % len(SIDES)]
        path = os.path.join(root, name, "class-%d" % record[0], "%05d.jpg" % i)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        picture = Image.fromarray(record[1:].reshape(3, 32, 32).transpose(1, 2, 0))
        picture.resize((w, h), Image.BICUBIC).save(path, quality=90)


def waited(root, model, sets):
    run = os.path.join(root, "run-" + model)
    config = os.path.join(root, model + ".yaml")
    with open(config, "w") as file:
        file.write("model: {name: %s, classes: 10, image: 224, form: imagenet}\ndata: {kind: images, dir: %s, normalize: imagenet, threads: %d}\n"
                   "train: {batch: 16, chunks: 1, max_steps: %d, seed: 1, epochs: 1000, eval_every: 0, optimizer: {kind: sgd, lr: 0.01}}\n"
                   "threads: %d\nlog: {dir: %s}\n" % (model, root, args.loaders, args.steps + 2, args.threads, run))
    subprocess.run([args.splitc, "train", config, "--local", *sets], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    steps = [s for s in map(json.loads, open(run + "/log.jsonl")) if s["type"] == "step"][2:]
    data, step = (sum(s[key] for s in steps) for key in ("t_data_s", "t_step_s"))
    return data, step, len(steps)


records = np.fromfile(os.path.join(args.cifar, "data_batch_1.bin"), np.uint8).reshape(-1, 3073)
with tempfile.TemporaryDirectory() as root:
    write(root, "train", records[: args.pictures])
    write(root, "val", records[args.pictures : args.pictures + 20])
    size = sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(os.path.join(root, "train")) for f in files)
    print("%d JPEGs of %s pixels, %.0f KB each; batch 16, 224 x 224; %d threads compute, %d decode"
          % (args.pictures, ", ".join("%d x %d" % (w, h) for h, w in SIDES), size / 1e3 / args.pictures, args.threads, args.loaders))
    print("\n| network | steps | ms a step | of these, waits for data | share |\n|---|---|---|---|---|")
    for model in ("mobilenet_v2", "resnet18", "resnet50"):
        data, step, n = waited(root, model, [])
        print("| %s | %d | %.1f | %.2f | %.2f %% |" % (model, n, (step + data) * 1e3 / n, data * 1e3 / n, 100 * data / (step + data)), flush=True)
