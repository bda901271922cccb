#!/usr/bin/env python3
"""Ten steps of SGD with each loss of a table's network, by PyTorch and by splitc, from the same weights: losses and weights must be
alike to 1e-4.

usage: tasks_live.py SPLITC FOLDER      (needs torch; part of `make test-torch`)
"""
import csv
import json
import struct
import subprocess
import sys

import torch
import torch.nn.functional as F

splitc, folder = sys.argv[1:]
ROWS, STEPS, LR, FEATURES = 37, 10, 0.05, 5
torch.manual_seed(4)
x = torch.randn(ROWS, FEATURES)
numbers = torch.stack([x[:, 0] * 2 + x[:, 1], x[:, 2] - x[:, 3] ** 2, x[:, 4] * 3], 1)
ahead = torch.sin(x[:, :1] + torch.arange(96) / 7)  # the columns of a forecast
labels = (numbers + torch.randn(ROWS, 3) > 1).float()
kind = (x[:, 0] > 0.8).long() + 2 * (x[:, 1] > 1).long()
names = ["layer1.linear", "layer2.linear", "classifier"]


def write_table():
    for file in ("train", "val"):
        with open(f"{folder}/{file}.csv", "w", newline="") as out:
            rows = csv.writer(out)
            rows.writerow([f"x{i}" for i in range(FEATURES)] + ["n0", "n1", "n2", "l0", "l1", "l2", "kind"] + [f"ahead_{k}" for k in range(96)])
            for i in range(ROWS):
                rows.writerow([repr(float(v)) for v in x[i]] + [repr(float(v)) for v in numbers[i]] + [int(v) for v in labels[i]] + [int(kind[i])] + [repr(float(v)) for v in ahead[i]])


def save(path, tensors):
    header, at, raw = {}, 0, b""
    for name, t in tensors.items():
        data = t.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
        raw += data
    text = json.dumps(header).encode()
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + raw)


def load(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        raw = bytearray(file.read())
    header.pop("__metadata__")
    return {n: torch.frombuffer(raw[h["data_offsets"][0]:h["data_offsets"][1]], dtype=torch.float32).reshape(h["shape"]) for n, h in header.items()}


def module(outputs):
    layers = [torch.nn.Linear(FEATURES, 64), torch.nn.Linear(64, 64), torch.nn.Linear(64, outputs)]
    return {f"{n}.{p}": getattr(layer, p) for n, layer in zip(names, layers) for p in ("weight", "bias")}


def forward(w, inputs):
    for n in names:
        inputs = F.linear(inputs, w[n + ".weight"], w[n + ".bias"])
        inputs = torch.relu(inputs) if n != names[-1] else inputs
    return inputs


def run(what, task, columns, ignored, outputs, loss, *keys):
    w = module(outputs)
    save(f"{folder}/start.safetensors", w)
    scaled = (x.double() - x.double().mean(0)) / x.double().std(0, unbiased=False)
    optimizer = torch.optim.SGD(w.values(), LR, momentum=0.9)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        value = loss(forward(w, scaled.float()))
        value.backward()
        optimizer.step()
        losses.append(value.item())
    others = "" if columns == "ahead_*" else ", ahead_*"
    with open(f"{folder}/live.yaml", "w") as out:
        out.write(f"""
model: {{name: mlp, task: {task}, features: {FEATURES}, classes: {outputs}, dropout: 0, weights: {folder}/start.safetensors}}
data: {{kind: csv, dir: {folder}, label: [{columns}], ignore: [{ignored}{others}]}}
train: {{batch: {ROWS}, chunks: 4, epochs: {STEPS}, optimizer: {{kind: sgd, lr: {LR}, momentum: 0.9, weight_decay: 0, nesterov: false}}}}
log: {{dir: {folder}/run}}
""")
    sets = [a for key in keys for a in ("--set", key)]
    done = subprocess.run([splitc, "train", f"{folder}/live.yaml", "--local", "--fresh", *sets], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]
    with open(f"{folder}/run/log.jsonl") as log:
        got = [s["loss"] for s in map(json.loads, log) if s["type"] == "step"]
    after = load(f"{folder}/run/model.safetensors")
    apart = max(abs(a - b) / max(abs(b), 1e-3) for a, b in zip(got, losses))
    weights = max(((after[n] - t).abs().max() / t.abs().max()).item() for n, t in w.items())
    print(f"{what}: losses within {apart:.1e}, weights within {weights:.1e}")
    assert len(got) == STEPS and apart < 1e-4 and weights < 1e-4, (got, losses)


write_table()
of_numbers, of_labels = "n0, n1, n2", "l0, l1, l2"
for name, loss in (("mse", F.mse_loss), ("l1", F.l1_loss), ("huber", F.huber_loss)):
    run(name, "numbers", of_numbers, of_labels + ", kind", 3, lambda y: loss(y, numbers), f"train.loss={name}")
run("96 steps ahead", "numbers", "ahead_*", of_numbers + ", " + of_labels + ", kind", 96, lambda y: F.mse_loss(y, ahead))
run("bce", "labels", of_labels, of_numbers + ", kind", 3, lambda y: F.binary_cross_entropy_with_logits(y, labels))
once = torch.tensor([0.5, 2.0, 7.0])
run("bce, pos_weight", "labels", of_labels, of_numbers + ", kind", 3,
    lambda y: F.binary_cross_entropy_with_logits(y, labels, pos_weight=once), "train.class_weights=0.5,2,7")
balanced = (len(labels) - labels.sum(0)) / labels.sum(0)
run("bce, balanced", "labels", of_labels, of_numbers + ", kind", 3,
    lambda y: F.binary_cross_entropy_with_logits(y, labels, pos_weight=balanced), "train.class_weights=balanced")
ignored = of_numbers + ", " + of_labels
run("cross-entropy, weight", "classes", "kind", ignored, 4,
    lambda y: F.cross_entropy(y, kind, torch.tensor([0.5, 2.0, 7.0, 1.0]), label_smoothing=0.1),
    "train.class_weights=0.5,2,7,1", "train.label_smoothing=0.1")
balanced = ROWS / (len(kind.unique()) * torch.bincount(kind, minlength=4).float())
run("cross-entropy, balanced", "classes", "kind", ignored, 4, lambda y: F.cross_entropy(y, kind, balanced), "train.class_weights=balanced")
