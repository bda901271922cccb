#!/usr/bin/env python3
"""usage: bench_curve.py CONFIG FOLDER [--epochs N] [--seeds 1,2] [--set KEY=VALUE]… [--threads T]
Trains ResNet9 by CONFIG (configs/client-resnet9.yaml) for some epochs, with splitc and in PyTorch, and prints loss and accuracy of each
epoch as a table in Markdown.

Both begin with the weights that PyTorch draws from the seed, and see the same batches: bench_batches writes what splitc's loader
prepares, and PyTorch reads it through a pipe. So the curves differ by arithmetic alone. PyTorch divides a batch into chunks as splitc
does, since batch norm takes its statistics over a chunk.
FOLDER keeps the results. A command that was stopped continues from there: splitc from its last checkpoint, PyTorch from the end of an
epoch. BUILD: the folder of the programs (build/release).
"""
import argparse
import json
import os
import subprocess
import sys
import time

import numpy as np
import torch
from torch import nn

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "golden"))
import golden  # noqa: E402
from make_resnet9 import ResNet9  # noqa: E402

BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build/release"))


def batches(args, sets, epochs):
    """Yields images (NCHW) and labels of this many epochs of training; 0: of one evaluation."""
    pipe = subprocess.Popen([f"{BUILD}/tests/bench/bench_batches", args.config, str(epochs), *sets], stdout=subprocess.PIPE, bufsize=1 << 20)
    while True:
        head = pipe.stdout.read(12)
        if not head:
            break
        rows, h, w = np.frombuffer(head, np.int32)
        images = np.frombuffer(pipe.stdout.read(int(rows) * h * w * 12), np.float32).reshape(rows, h, w, 3)
        labels = np.frombuffer(pipe.stdout.read(int(rows) * 4), np.int32)
        yield torch.from_numpy(images.copy()).permute(0, 3, 1, 2), torch.from_numpy(labels.astype(np.int64))
    if pipe.wait() != 0:
        sys.exit("bench_batches: exit status %d" % pipe.returncode)


def effective(args, sets):
    """Returns key → value, as text, of the whole config."""
    out = subprocess.run([f"{BUILD}/splitc", "train", args.config, "--print-config", *with_sets(sets)], stdout=subprocess.PIPE, check=True, text=True)
    value, path = {}, []
    for line in out.stdout.splitlines():
        text = line.split("#")[0].rstrip()
        if ":" not in text or text.lstrip().startswith("-"):
            continue
        depth = (len(text) - len(text.lstrip())) // 2
        key, _, rest = text.strip().partition(":")
        path[depth:] = [key]
        value[".".join(path)] = rest.strip()
    return value


def with_sets(sets):
    return [word for one in sets for word in ("--set", one)]


def learning_rate(epoch):
    """Returns the recipe's learning rate at this epoch: linear between its points."""
    return float(np.interp(epoch, [0, 5, 24], [0, 0.4, 0]))


def evaluate(model, args, sets):
    model.eval()
    right = seen = 0
    with torch.no_grad():
        for x, y in batches(args, sets, 0):
            right += int((model(x).argmax(1) == y).sum())
            seen += len(y)
    model.train()
    return right / seen


def train_epoch(model, optimizer, chunks, stream, epoch, steps):
    loss = 0.0
    for step in range(steps):
        x, y = next(stream)
        optimizer.param_groups[0]["lr"] = learning_rate(epoch + step / steps)
        optimizer.zero_grad()
        for part_x, part_y in zip(x.chunk(chunks), y.chunk(chunks)):
            part = nn.functional.cross_entropy(model(part_x), part_y) * (len(part_y) / len(y))
            part.backward()
            loss += part.item() / steps
        optimizer.step()
    return loss


def theirs(args, sets, seed, weights):
    kept = os.path.join(args.folder, f"torch-{seed}.pt")
    conf = effective(args, sets)
    chunks, batch = int(conf["train.chunks"]), int(conf["train.batch"])
    samples = int(conf["data.train_limit"]) or 50000
    model = ResNet9((64, 128, 256, 512), 10)
    model.load_state_dict({k: torch.from_numpy(v.copy()) for k, v in golden.read_safetensors(weights)[0].items()}, strict=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    done = []
    if os.path.exists(kept):
        state = torch.load(kept)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["done"]
    steps, stream = samples // batch, batches(args, sets, args.epochs)
    for _ in range(len(done) * steps):
        next(stream)
    while len(done) < args.epochs:
        began = time.process_time()
        loss = train_epoch(model, optimizer, chunks, stream, len(done), steps)
        cpu_s = time.process_time() - began
        done.append({"loss": loss, "acc": evaluate(model, args, sets), "cpu_s": cpu_s})
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "done": done}, kept + ".new")
        os.rename(kept + ".new", kept)
        print("PyTorch, seed", seed, done[-1], file=sys.stderr, flush=True)
    return done


def ours(args, sets, seed, weights):
    run = os.path.join(args.folder, f"splitc-{seed}")
    log = os.path.join(run, "log.jsonl")
    finished = os.path.exists(log) and any('"summary"' in line for line in open(log))
    if not finished:
        resume = ["--resume"] if os.path.exists(run) and any("checkpoint" in name for name in os.listdir(run)) else ["--fresh"]
        more = [f"log.dir={run}", f"model.weights={weights}", f"threads={args.threads}", "train.checkpoint_every=20"]
        subprocess.run([f"{BUILD}/splitc", "train", args.config, "--local", *resume, *with_sets(sets + more)], check=True, stdout=subprocess.DEVNULL)
    epochs = {e["epoch"]: e for e in map(json.loads, open(log)) if e["type"] == "epoch"}
    return [{"loss": e["train_loss"], "acc": e["test_acc"]} for _, e in sorted(epochs.items())]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seeds", default="1,2")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    os.makedirs(args.folder, exist_ok=True)
    rows = []
    for seed in map(int, args.seeds.split(",")):
        weights = os.path.join(args.folder, f"init-{seed}.safetensors")
        torch.manual_seed(seed)
        golden.write_safetensors(weights, golden.state_of(ResNet9((64, 128, 256, 512), 10)))
        sets = [*args.set, f"train.seed={seed}", f"train.epochs={args.epochs}"]
        a, b = ours(args, sets, seed, weights), theirs(args, sets, seed, weights)
        rows += [(seed, i + 1, x, y) for i, (x, y) in enumerate(zip(a, b))]
    print("| seed | epoch | splitc: loss | PyTorch: loss | splitc: test accuracy | PyTorch: test accuracy | difference, points |")
    print("|---|---|---|---|---|---|---|")
    for seed, epoch, x, y in rows:
        print("| %d | %d | %.4f | %.4f | %.2f %% | %.2f %% | %+.2f |" % (seed, epoch, x["loss"], y["loss"], x["acc"] * 100, y["acc"] * 100, (x["acc"] - y["acc"]) * 100))


if __name__ == "__main__":
    main()
