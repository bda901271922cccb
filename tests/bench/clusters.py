#!/usr/bin/env python3
"""usage: tests/bench/clusters.py SPLITC BENCH_CLUSTERS [CIFAR_DIR] [DIGITS.csv]
Labels without one known label: compares the clusters of splitc leak with k-means by numpy, on the same vectors. A small
AlexNet learns the 8 × 8 digits of scikit-learn (python3-sklearn's sklearn/datasets/data/digits.csv.gz, unpacked), each pixel
repeated, or 5,000 pictures of CIFAR-10. A row for each depth of the tail: n vectors, their length, then the purity of leak / of numpy
in % for mid_act, mid_grad and both. The two start at other vectors, so they may differ by some points.
Ends with 1 where the best of the three is 3 points better with numpy.
"""
import json
import subprocess
import sys
import tempfile

import numpy as np


def purity(x, y):
    """k-means from 20 starts (k-means++); the start with the least squared distances counts."""
    x = x - x.mean(0)
    x /= np.linalg.norm(x, axis=1, keepdims=True) + 1e-12
    k, least, best = len(set(y)), np.inf, None
    squares = (x**2).sum(1)
    far = lambda c: np.maximum(squares[:, None] - 2 * x @ c.T + (c**2).sum(1), 0)
    for start in range(20):
        r = np.random.default_rng(start)
        c = x[[r.integers(len(x))]]
        while len(c) < k:
            d = far(c).min(1)
            c = np.vstack([c, x[r.choice(len(x), p=d / d.sum())]])
        for _ in range(50):
            a = far(c).argmin(1)
            c = np.stack([x[a == i].mean(0) if (a == i).any() else c[i] for i in range(k)])
        cost = ((x - c[a]) ** 2).sum()
        if cost < least:
            least, best = cost, a
    return sum(np.unique(y[best == i], return_counts=True)[1].max() for i in set(best)) / len(y)


def unit(x):
    return x / (np.linalg.norm(x, axis=1, keepdims=True) + 1e-12)


splitc, bench, cifar, digits = (sys.argv + ["", ""])[1:5]
behind = False
with tempfile.TemporaryDirectory() as tmp:
    cases = []
    kind = "kind: cifar10, dir: {}, train_files: [data_batch_1.bin], train_limit: {}, test_limit: {}"
    if digits:
        rows = [r.split(",") for r in open(digits).read().split() if r.count(",") == 64]
        rows = np.array([[float(x) for x in r] for r in rows])
        side = np.kron(rows[:, :64].reshape(-1, 8, 8), np.ones((4, 4))) * 255 / 16
        for name, part in ("data_batch_1.bin", slice(0, 897)), ("test_batch.bin", slice(897, None)):
            with open(f"{tmp}/{name}", "wb") as f:
                for pixels, label in zip(side[part], rows[part, 64]):
                    f.write(bytes([int(label)]) + np.repeat(pixels[None], 3, 0).astype(np.uint8).tobytes())
                f.truncate(10000 * 3073)
        cases.append(("digits", kind.format(tmp, 897, 900), 12))
    if cifar:
        cases.append(("CIFAR-10", kind.format(cifar, 5000, 2000), 4))
    for name, data, epochs in cases:
        for tail in 1, 2, 3, 4:
            conf, out = f"{tmp}/client.yaml", f"{tmp}/{name}{tail}"
            open(conf, "w").write(
                f'server: tcp://127.0.0.1:9\nmodel: {{name: alexnet, classes: 10, image: 32, width: 0.25}}\npartition: "1:-{tail}"\ndata: {{{data}}}\n'
                f"train: {{batch: 32, chunks: 1, seed: 3, epochs: {epochs}, optimizer: {{kind: sgd, lr: 0.05, momentum: 0.9}}}}\n"
                f"log: {{dir: {out}}}\nthreads: 1\n")
            done = subprocess.run([splitc, "train", conf, "--local", "--fresh"], capture_output=True, text=True)
            if done.returncode:
                print(f"| {name} | {tail} | {done.stderr.strip().splitlines()[-1]} |")
                continue
            line = subprocess.run([bench, conf, out, f"model.weights={out}/model.safetensors"], check=True, capture_output=True, text=True).stdout
            ours = json.loads(line)
            act, grad = (np.fromfile(f"{out}.{x}", np.float32).reshape(ours["n"], ours["d"]).astype(float) for x in ("mid_act", "mid_grad"))
            y = np.fromfile(f"{out}.label", np.int32)
            theirs = {"mid_act": purity(act, y), "mid_grad": purity(grad, y), "both": purity(np.hstack([unit(act), unit(grad)]), y)}
            cells = " | ".join(f"{100 * ours[k]:.1f} / {100 * theirs[k]:.1f}" for k in theirs)
            print(f"| {name} | {tail} | {ours['n']} × {ours['d']} | {cells} |", flush=True)
            behind = behind or max(theirs.values()) > max(ours[k] for k in theirs) + 0.03
sys.exit(1 if behind else 0)
