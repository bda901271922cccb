#!/usr/bin/env python3
"""dcor_live.py MODEL TEST.csv LOG: whether the last dcor_squared of log.jsonl is numpy's, of the samples that count and what the
first layer of an mlp makes of them. The table's last column is the label.
"""
import json
import struct
import sys

import numpy as np


def centred(x):
    d = np.sqrt(((x[:, None] - x[None]) ** 2).sum(2))
    n = len(d)
    d = d - d.sum(0) / (n - 2) - d.sum(1)[:, None] / (n - 2) + d.sum() / ((n - 1) * (n - 2))
    np.fill_diagonal(d, 0)
    return d


model, table, log = (open(path, "rb").read() for path in sys.argv[1:])
end = 8 + struct.unpack("<Q", model[:8])[0]
header = json.loads(model[8:end])
tensor = lambda name: np.frombuffer(model[end:], np.float32)[slice(*(o // 4 for o in header[name]["data_offsets"]))].reshape(header[name]["shape"])
columns = json.loads(header["__metadata__"]["data"])["columns"]
x = np.loadtxt(table.decode().splitlines(), delimiter=",", skiprows=1)[:, :-1]
x = (x - [c["mean"] for c in columns]) / [c["deviation"] for c in columns]
x = x[[i for i in range(len(x)) if i == 0 or i * 64 // len(x) != (i - 1) * 64 // len(x)]]
a, b = centred(x), centred(np.maximum(x @ tensor("layer1.linear.weight").T + tensor("layer1.linear.bias"), 0))
want = (a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum())
have = [line["dcor_squared"] for line in map(json.loads, log.splitlines()) if line["type"] == "epoch"][-1]
assert len(x) == 64 and abs(have - want) < 1e-6, (len(x), have, want)
