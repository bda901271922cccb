#!/usr/bin/env python3
"""Groups of clients against PyTorch: synchronous training, SplitFed's second version (share.mode serial) and its first one
(rounds), over 20 steps of three members with unequal data; with heads and tails of their own, and with one head and one tail.

usage: groups_live.py FOLDER      BUILD is the folder of the programs

The PyTorch side is written from the papers: a ResNet9 whose middle all members share.
splitc trains the group with --local, which equals a group over links bit for bit (tests/e2e/share_*.sh). Both begin with
one file of weights and see the same batches, which bench_batches writes. Which step is whose, and the learning rate of each,
is taken from splitc's log. PyTorch computes in float64. Weights are compared by their tensor's largest value, if that is above 1.
"""
import json
import os
import subprocess
import sys

import numpy as np
import torch
from torch import nn

import golden
from make_resnet9 import ResNet9, new_model

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build/release"))
MEMBERS, STEPS, CHUNKS, ROUND, CHANNELS = 3, 20, 2, 5, (8, 16, 32, 64)
TOLERANCE, MOVED = 1e-4, 2e-3
MIDDLE = ("layer2", "layer3")
SGD = "{kind: sgd, lr: 0.001, momentum: 0.9, weight_decay: 0.0005, nesterov: true}"
SLOW = SGD.replace("0.001", "0.0003")  # where ends are one, three members turn a rounding into more than the tolerance sooner
ADAMW = "{kind: adamw, lr: 0.0002, beta2: 0.99, weight_decay: 0.01}"
DAMPED = ADAMW.replace("0.0002", "0.0003, eps: 0.0001")  # a copy's first step is a gradient's sign: near 0 that of a rounding

CONFIG = """
model: {{name: resnet9, classes: 10, image: 32, width: 0.125, weights: {folder}/group_init.safetensors}}
partition: "3:-2"
data: {{kind: cifar10, dir: {folder}/data, train_files: [data_batch_1.bin], train_limit: 200, test_limit: 16, partition: "dirichlet:1"}}
train:
  batch: 16
  chunks: 2
  epochs: 100
  max_steps: 20
  eval_every: 0
  seed: 5
  optimizer: {optimizer}
  schedule: {{kind: cosine, warmup_epochs: 0}}
share: {{group: g, clients: 3, {share}}}
threads: 1
"""

# name: section share, optimizer
CASES = {
    "sync": ("mode: sync, ends: private", SGD),
    "sync, AdamW": ("mode: sync, ends: private", ADAMW),
    "serial": ("mode: serial, ends: private", SGD),
    "serial, AdamW": ("mode: serial, ends: private", ADAMW),
    "rounds, moments kept": ("mode: rounds, round: 5, ends: private", SGD),
    "rounds, moments averaged, AdamW": ("mode: rounds, round: 5, moments: average, ends: private", ADAMW),
    "rounds, moments zeroed": ("mode: rounds, round: 5, moments: zero, ends: private", SGD),
    "rounds, moments zeroed, AdamW": ("mode: rounds, round: 5, moments: zero, ends: private", ADAMW),
    "sync, one head and tail": ("mode: sync, ends: step", SLOW),
    "serial, one head and tail": ("mode: serial, ends: step", SLOW),
    "serial, one head and tail, AdamW": ("mode: serial, ends: step", ADAMW),
    "rounds, averaged heads and tails": ("mode: rounds, round: 5, ends: round", SLOW),
    "rounds, averaged heads and tails, moments averaged, AdamW": ("mode: rounds, round: 5, moments: average, ends: round", DAMPED),
    "rounds, averaged heads and tails, moments zeroed, AdamW": ("mode: rounds, round: 5, moments: zero, ends: round", DAMPED),
}


def batches(config, member):
    """Endless: NCHW images and labels that the member trains on."""
    sets = [f"share.member={member}"]
    pipe = subprocess.Popen([f"{BUILD}/tests/bench/bench_batches", config, "50", *sets], stdout=subprocess.PIPE)
    while True:
        head = pipe.stdout.read(12)
        rows, h, w = np.frombuffer(head, np.int32)
        images = np.frombuffer(pipe.stdout.read(int(rows) * h * w * 12), np.float32).reshape(rows, h, w, 3)
        labels = np.frombuffer(pipe.stdout.read(int(rows) * 4), np.int32)
        yield torch.from_numpy(images.copy()).permute(0, 3, 1, 2).double(), torch.from_numpy(labels.astype(np.int64))


def in_middle(name):
    return name.startswith(MIDDLE)


def make_optimizer(kind, params):
    if kind not in (ADAMW, DAMPED):
        return torch.optim.SGD(params, lr=1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    return torch.optim.AdamW(params, lr=1, betas=(0.9, 0.99), eps=1e-4 if kind == DAMPED else 1e-8, weight_decay=0.01)


class Member:
    def __init__(self, weights, kind, stream):
        self.model = ResNet9(CHANNELS, 10).double()
        self.model.load_state_dict({k: torch.from_numpy(v.copy()) for k, v in weights.items()}, strict=False)
        self.stream, self.kind, self.rows = stream, kind, 0
        self.ends = make_optimizer(kind, [p for n, p in self.model.named_parameters() if not in_middle(n)])

    def middle(self):
        return [p for n, p in self.model.named_parameters() if in_middle(n)]

    def backward(self):
        """Adds to the gradients those of the next batch's mean loss, chunk by chunk; returns loss and rows."""
        x, y = next(self.stream)
        total = 0.0
        rows = 16 // CHUNKS
        for part_x, part_y in zip(x.split(rows), y.split(rows)):
            loss = nn.functional.cross_entropy(self.model(part_x), part_y) * (len(part_y) / len(y))
            loss.backward()
            total += loss.item()
        return total, len(y)


def step(optimizer, lr):
    optimizer.param_groups[0]["lr"] = lr
    optimizer.step()
    optimizer.zero_grad()


def share_middle(members, ends):
    """One middle for all: parameters and running statistics are the first member's. So are those of the ends, where these are shared."""
    for member in members[1:]:
        for name, module in list(members[0].model.named_children()):
            if in_middle(name) or ends:
                setattr(member.model, name, module)
        if ends:
            member.ends = members[0].ends
    return make_optimizer(members[0].kind, members[0].middle())


def sync_shared(members, lrs, _):
    """All parameters are one, and so are a step's gradients: their mean over all rows."""
    trunk = share_middle(members, True)
    params = list(members[0].model.parameters())
    losses = []
    for number in range(STEPS):
        parts, sizes = [], []
        for member in members:
            loss, rows = member.backward()
            parts.append([p.grad.clone() for p in params])
            sizes.append(rows)
            losses.append((number, member, loss))
            for p in params:
                p.grad = None
        for i, p in enumerate(params):
            p.grad = sum(rows * part[i] for rows, part in zip(sizes, parts)) / sum(sizes)
        step(trunk, lrs[number])
        step(members[0].ends, lrs[number])
    return losses


def sync(members, lrs, _):
    trunk = share_middle(members, False)
    losses = []
    for number in range(STEPS):
        parts, sizes = [], []
        for member in members:
            loss, rows = member.backward()
            parts.append([p.grad.clone() for p in member.middle()])
            sizes.append(rows)
            losses.append((number, member, loss))
            for p in member.middle():
                p.grad = None
        for i, p in enumerate(members[0].middle()):
            p.grad = sum(rows * part[i] for rows, part in zip(sizes, parts)) / sum(sizes)
        step(trunk, lrs[number])
        for member in members:
            step(member.ends, lrs[number])
    return losses


def serial(members, lrs, own, ends=False):
    trunk = share_middle(members, ends)
    losses = []
    for number in range(STEPS):
        (member,) = [m for m, steps in zip(members, own) if number in steps]
        losses.append((number, member, member.backward()[0]))
        step(trunk, lrs[number])
        step(member.ends, lrs[number])
    return losses


def average(members, optimizers, moments, params, shared):
    """Parameters of the members, one list for each, with their optimizers; `shared` says of a key of the state whether it is one of them."""
    weight = [member.rows / sum(m.rows for m in members) for member in members]
    states = [member.model.state_dict() for member in members]
    for key in states[0]:
        if shared(key) and states[0][key].is_floating_point():
            mean = sum(w * s[key] for w, s in zip(weight, states))
            for s in states:
                s[key].copy_(mean)
    for same in zip(*params):
        slots = [o.state[p] for o, p in zip(optimizers, same)]
        names = [n for n, v in slots[0].items() if torch.is_tensor(v) and v.numel() > 1] if moments != "keep" else []
        if moments != "keep" and "step" in slots[0]:  # the copy that was stepped most says how far Adam's means are warm
            most = max(s["step"] for s in slots)
            for s in slots:
                s["step"] = 0 * most if moments == "zero" else most + 0
        for name in names:
            mean = sum(w * s[name] for w, s in zip(weight, slots)) if moments == "average" else 0 * slots[0][name]
            for s in slots:
                s[name].copy_(mean)


def rounds(members, lrs, own, moments="keep", ends=False):
    optimizers = [make_optimizer(member.kind, member.middle()) for member in members]
    losses = []
    for number in range(STEPS):
        for member, optimizer, steps in zip(members, optimizers, own):
            if number not in steps:
                continue
            loss, rows = member.backward()
            member.rows += rows
            losses.append((number, member, loss))
            step(optimizer, lrs[number])
            step(member.ends, lrs[number])
        if (number + 1) % ROUND == 0:
            average(members, optimizers, moments, [m.middle() for m in members], in_middle)
            if ends:
                outer = [[p for n, p in m.model.named_parameters() if not in_middle(n)] for m in members]
                average(members, [m.ends for m in members], moments, outer, lambda key: not in_middle(key))
            for member in members:
                member.rows = 0
    return losses


def run(folder, name, share, kind):
    config, out = os.path.join(folder, "group.yaml"), os.path.join(folder, "group")
    with open(config, "w") as f:
        f.write(CONFIG.format(folder=folder, share=share, optimizer=kind))
    subprocess.run([f"{BUILD}/splitc", "train", config, "--local", "--fresh", "--set", f"log.dir={out}"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    logs = []
    for k in range(MEMBERS):
        lines = map(json.loads, open(f"{out}/member-{k}/log.jsonl"))
        logs.append({line["step"] - 1: line for line in lines if line["type"] == "step"})
    lrs = {number: line["lr"] for log in logs for number, line in log.items()}
    weights, _ = golden.read_safetensors(os.path.join(folder, "group_init.safetensors"))
    members = [Member(weights, kind, batches(config, k)) for k in range(MEMBERS)]
    if share.startswith("mode: rounds"):
        moments = share.partition("moments: ")[2].partition(",")[0] or "keep"
        losses = rounds(members, lrs, logs, moments, "ends: round" in share)
    elif "serial" in share:
        losses = serial(members, lrs, logs, "ends: step" in share)
    else:
        losses = (sync_shared if "ends: step" in share else sync)(members, lrs, logs)
    want = sorted((number, members.index(member), loss) for number, member, loss in losses)
    got = sorted((number, k, line["loss"]) for k, log in enumerate(logs) for number, line in log.items())
    if [w[:2] for w in want] != [g[:2] for g in got]:
        sys.exit(f"{name}: the steps are not those of PyTorch")
    off = max(abs(w[2] - g[2]) for w, g in zip(want, got))
    worst = moved = 0.0
    for k, member in enumerate(members):
        ours, _ = golden.read_safetensors(f"{out}/member-{k}/model.safetensors")
        for key, value in member.model.state_dict().items():
            if value.is_floating_point():
                worst = max(worst, golden.deviation(ours[key], value.numpy(), 1.0))
                if "running" not in key:
                    moved = max(moved, float(np.abs(weights[key] - value.numpy()).max()))
    print(f"{name}: {len(want)} losses within {off:.1e}, weights within {worst:.1e}; they moved by {moved:.1e}", flush=True)
    return off < TOLERANCE and worst < TOLERANCE and moved > MOVED


def main():
    folder = sys.argv[1]
    torch.set_num_threads(1)
    os.makedirs(os.path.join(folder, "data"), exist_ok=True)
    subprocess.run([f"{BUILD}/tests/e2e/tools/make_cifar", os.path.join(folder, "data"), "200", "16"], check=True)
    model = new_model(CHANNELS, 10, torch.Generator().manual_seed(3))
    golden.write_safetensors(os.path.join(folder, "group_init.safetensors"), {k: v.numpy() for k, v in model.state_dict().items() if v.is_floating_point()})
    bad = [name for name, (share, kind) in CASES.items() if not run(folder, name, share, kind)]
    if bad:
        sys.exit("farther than %g from PyTorch: %s" % (TOLERANCE, "; ".join(bad)))


if __name__ == "__main__":
    main()
