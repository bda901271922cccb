#!/usr/bin/env python3
"""usage: nopeek.py CIFAR_DIR [LAMBDA …]
Measures what NoPeek's loss (Vepakomma et al., 2020) gains and costs, in PyTorch. Network and attacker are those of tests/bench/defences.sh.
LAMBDA times the distance correlation of pictures and head_act, by the unbiased estimate, is added to the loss of a batch. Takes a minute
on one core.
"""
import math
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)


def cifar(name, n):
    rows = np.fromfile(f"{sys.argv[1]}/{name}.bin", np.uint8).reshape(-1, 3073)[:n]
    return torch.tensor(rows[:, 1:].reshape(-1, 3, 32, 32) / np.float32(255)), torch.tensor(rows[:, 0].astype(np.int64))


def dcor(x, y):
    def centred(v):
        d = torch.cdist(v.flatten(1), v.flatten(1), compute_mode="donot_use_mm_for_euclid_dist")
        n = len(d)
        c = d - d.sum(0) / (n - 2) - d.sum(1)[:, None] / (n - 2) + d.sum() / ((n - 1) * (n - 2))
        return c * (1 - torch.eye(n))

    a, b = centred(x), centred(y)
    return (a * b).sum() / torch.sqrt((a * a).sum() * (b * b).sum() + 1e-12)


def unit(i, o, pool, stride=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2) if pool else nn.Identity())


def trained(x, y, weight, epochs=4, batch=64):
    torch.manual_seed(3)
    head = unit(3, 16, True, 2)
    rest = nn.Sequential(unit(16, 48, True), unit(48, 96, False), unit(96, 64, False), unit(64, 64, True), nn.Flatten(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD([*head.parameters(), *rest.parameters()], lr=0.05, momentum=0.9)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(batch):
            act = head(x[rows])
            loss = F.cross_entropy(rest(act), y[rows]) + (weight * dcor(x[rows], act) if weight else 0)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return head, rest


def attacked(act, image, steps=300, wide=32):
    """Trains a decoder on four of five pictures, and returns the mean PSNR of what it restores of the others."""
    up = lambda i: nn.Sequential(nn.ConvTranspose2d(i, wide, 4, 2, 1), nn.BatchNorm2d(wide), nn.ReLU())
    conv = lambda o: nn.Conv2d(wide, o, 3, padding=1)
    decoder = nn.Sequential(nn.BatchNorm2d(act.shape[1]), up(act.shape[1]), up(wide), conv(wide), nn.ReLU(), conv(wide), nn.ReLU(), conv(3))
    optimizer = torch.optim.Adam(decoder.parameters())
    victim = torch.arange(len(act)) % 5 == 4
    aux_act, aux = act[~victim], image[~victim]
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 3e-3 * (1 + math.cos(math.pi * step / steps)) / 2
        rows = torch.randint(len(aux), (32,))
        loss = F.mse_loss(decoder(aux_act[rows]), (aux[rows] - 0.5) * 4)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    decoder.eval()
    with torch.no_grad():
        said = (decoder(act[victim]) / 4 + 0.5).clamp(0, 1)
    return (-10 * ((said - image[victim]) ** 2).mean((1, 2, 3)).log10()).mean()


x, y = cifar("data_batch_1", 5000)
test, label = cifar("test_batch", 2000)
mean, std = x.mean((0, 2, 3), keepdim=True), x.std((0, 2, 3), keepdim=True)
print("| λ | accuracy, % | PSNR, dB | dCor² |\n|---|---|---|---|")
for weight in [float(w) for w in sys.argv[2:]] or [0, 0.5, 2, 8]:
    head, rest = trained((x - mean) / std, y, weight)
    with torch.no_grad():
        head.train()
        act = torch.cat([head(part) for part in ((test - mean) / std).split(64)])
        head.eval(), rest.eval()
        met = (rest(head((test - mean) / std)).argmax(1) == label).float().mean()
    print(f"| {weight:g} | {100 * met:.1f} | {attacked(act, test):.1f} | {dcor(test[:512], act[:512]):.2f} |", flush=True)
