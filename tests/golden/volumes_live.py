#!/usr/bin/env python3
"""Volumes for tests/e2e/volumes.sh: D slices of H×H, grey, one below the other in a PNG; networks of Conv3d layers as files.

usage: volumes_live.py make FOLDER             pictures of two classes, pictures with masks, and two networks
       volumes_live.py same FILE EXPORTED      whether an exported file has the nodes, the depth and the shapes of a network's file

In class 1 a square stays where it is from slice to slice, in class 0 not: only layers along the depth see it. Masks have a
bright ball in noise.
"""
import json
import os
import random
import struct
import sys
import zlib

import torch
from torch import nn

import split

D, H = 8, 12


def png(path, rows):
    def part(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)) +
                part(b"IDAT", zlib.compress(b"".join(b"\0" + bytes(r) for r in rows))) + part(b"IEND", b""))


def noisy(mean):
    return max(0, min(255, int(random.gauss(mean, 30))))


def pictures(folder):
    random.seed(1)
    for part, n in (("train", 32), ("val", 16)):
        for i in range(n):
            rows, at = [], (4, 4)
            for d in range(D):
                at = (random.randrange(3, 9), random.randrange(3, 9)) if not d or i % 2 == 0 else at
                rows += [[noisy(210 if max(abs(y - at[0]), abs(x - at[1])) < 3 else 100) for x in range(H)] for y in range(H)]
            png(f"{folder}/cls/{part}/{('other', 'alike')[i % 2]}/{i:02}.png", rows)
            c, r = [random.uniform(3, n - 3) for n in (D, H, H)], random.uniform(2, 3)
            inside = [[sum((p - q) ** 2 for p, q in zip((d, y, x), c)) < r * r for x in range(H)] for d in range(D) for y in range(H)]
            png(f"{folder}/seg/{part}/{i:02}.png", [[noisy(160 if b else 100) for b in row] for row in inside])
            png(f"{folder}/seg/masks/{part}/{i:02}.png", inside)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.bn = nn.Conv3d(1, 8, 3, 1, 1, bias=False), nn.BatchNorm3d(8)
        self.body = nn.Sequential(nn.Conv3d(8, 32, 3, 2, 1), nn.ReLU(), nn.Conv3d(32, 16, (3, 1, 1), padding=(1, 0, 0)), nn.ReLU(), nn.MaxPool3d(2))
        self.pool, self.fc = nn.AdaptiveAvgPool3d(1), nn.Linear(16, 2)

    def forward(self, x):
        return self.fc(torch.flatten(self.pool(self.body(torch.relu(self.bn(self.stem(x))))), 1))


def block(i, o, s=1):
    return nn.Sequential(nn.Conv3d(i, o, 3, s, 1), nn.InstanceNorm3d(o, affine=True), nn.LeakyReLU(0.01))


class Seg(nn.Module):
    def __init__(self):
        super().__init__()
        self.e0, self.e1, self.e2 = block(1, 8), block(8, 16, 2), block(16, 16, (1, 2, 2))
        self.u1, self.d1 = nn.ConvTranspose3d(16, 16, (1, 2, 2), (1, 2, 2), bias=False), block(32, 16)
        self.u0, self.d0, self.out = nn.ConvTranspose3d(16, 8, 2, 2), block(16, 8), nn.Conv3d(8, 2, 1)

    def forward(self, x):
        a = self.e0(x)
        b = self.e1(a)
        b = self.d1(torch.cat([b, self.u1(self.e2(b))], 1))
        return self.out(self.d0(torch.cat([a, self.u0(b)], 1)))


def make(folder):
    pictures(folder)
    torch.manual_seed(3)
    for name, kind in (("net", Net), ("seg", Seg)):
        split.write_network(kind(), torch.zeros(2, 1, D, H, H), f"{folder}/{name}.safetensors")


def contents(path):
    """Each node's kind and attributes by its name, the depths, and the shapes of weights."""
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
    notes = header.pop("__metadata__")
    nodes = {}
    for line in notes["split.graph"].splitlines():
        word, *rest = line.split(" ")
        if word == "node" and rest[1] != "xent":
            nodes[rest[0]] = rest[1], [w for w in rest[2:] if w[0] not in "%&"]
    return nodes, json.loads(notes["split.network"])["depth"], {k: v["shape"] for k, v in header.items() if not k.endswith("num_batches_tracked")}


def same(written, exported):
    a, b = contents(written), contents(exported)
    assert a == b, (a, b)
    assert any("slices" in w for _, attributes in a[0].values() for w in attributes) and any(len(s) == 5 for s in a[2].values())
    split.read_network(exported)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
