#!/usr/bin/python3
"""Compares codecs written in PyTorch with Split's: same shape, one thread, least time of several runs; a ratio is Split's time over
PyTorch's.

usage: bench_codecs_peer.py [--shape N,H,W,C] [--reps R] [--cpu-time] [--bench build/release/tests/bench/bench_codecs]

PyTorch's side computes the codes and restores the tensor. As in research code, it neither packs bits nor compresses indices.
"""
import argparse
import os
import re
import subprocess
import time

import torch


def quant(x, bits):
    lo, hi = x.aminmax()
    step = (hi - lo) / (2**bits - 1)
    return lo, step, ((x - lo) / step).round_().to(torch.uint8)


def unquant(code):
    lo, step, q = code
    return q.to(torch.float32).mul_(step).add_(lo)


def topk(x, ratio):
    flat = x.reshape(-1)
    places = flat.abs().topk(int(ratio * flat.numel()), sorted=False).indices
    return flat.numel(), places, flat[places]


def randomk(x, ratio):
    flat = x.reshape(-1)
    places = torch.randperm(flat.numel())[: int(ratio * flat.numel())]
    return flat.numel(), places, flat[places]


def scatter(code):
    n, places, values = code
    return torch.zeros(n).index_put_((places,), values)


def sortquant(x, bits, split):
    flat, order = x.reshape(-1).sort()
    return order, [quant(part, bits) for part in flat.chunk(2**split)]


def unsort(code):
    order, parts = code
    return torch.empty(order.numel()).index_put_((order,), torch.cat([unquant(p) for p in parts]))


def threshold(x, value):
    keep = x.abs() >= value
    return keep, x[keep]


def unthreshold(code):
    keep, values = code
    return torch.zeros(keep.shape).masked_scatter_(keep, values)


def terngrad(x):
    scale = x.abs().max()
    return scale, (x.sign() * torch.bernoulli(x.abs() / scale)).to(torch.int8)


def qsgd(x, q):
    norm = x.norm()
    level = (x.abs() / norm * q).add_(torch.rand_like(x)).floor_()
    return norm / q, (x.sign() * level).to(torch.int16)


def scaled(code):
    scale, q = code
    return q.to(torch.float32).mul_(scale)


def lowrank(x, rank):
    m = x.reshape(x.shape[0], -1, x.shape[-1])
    start = torch.randn(m.shape[0], m.shape[1], rank)
    b, _ = torch.linalg.qr(m.transpose(1, 2) @ start)
    return m @ b, b


def unlowrank(code):
    a, b = code
    return a @ b.transpose(1, 2)


METHODS = {
    "f16": (lambda x: x.half(), lambda c: c.float()),
    "quant:8": (lambda x: quant(x, 8), unquant),
    "sortquant:6+2": (lambda x: sortquant(x, 6, 2), unsort),
    "topk:0.1": (lambda x: topk(x, 0.1), scatter),
    "randomk:0.1": (lambda x: randomk(x, 0.1), scatter),
    "threshold:1.645": (lambda x: threshold(x, 1.645), unthreshold),
    "terngrad": (terngrad, scaled),
    "qsgd:255": (lambda x: qsgd(x, 255), scaled),
    "lowrank:3": (lambda x: lowrank(x, 3), unlowrank),
}


def least(fn, reps, clock):
    best = float("inf")
    for _ in range(reps):
        start = clock()
        out = fn()
        best = min(best, clock() - start)
    return best * 1e3, out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", default="64,112,112,32")
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--bench", default="build/release/tests/bench/bench_codecs")
    parser.add_argument("--cpu-time", action="store_true", help="CPU time instead of wall time")
    args = parser.parse_args()
    clock = time.thread_time if args.cpu_time else time.perf_counter
    torch.set_num_threads(1)
    torch.manual_seed(1)
    x = torch.randn([int(d) for d in args.shape.split(",")])
    print(f"PyTorch {torch.__version__}, 1 thread, load {os.getloadavg()[0]:.1f}\n")
    print("| codec | PyTorch encode / decode ms | ours | encode ratio | decode ratio |")
    print("|---|---|---|---|---|")
    for spec, (encode, decode) in METHODS.items():
        reps = args.reps if spec not in ("sortquant:6+2", "randomk:0.1") else 2
        tx, code = least(lambda: encode(x), reps, clock)
        rx, _ = least(lambda: decode(code), reps, clock)
        ours = subprocess.run([args.bench, "--shape", args.shape, "--reps", "12"]
                              + ["--cpu-time"] * args.cpu_time + [spec], check=True, capture_output=True,
                              text=True).stdout
        etx, erx = map(float, re.search(r"\| (\d+\.\d+) / (\d+\.\d+) \| \d+\.\d / ", ours).groups())
        print(f"| `{spec}` | {tx:.1f} / {rx:.1f} | {etx:.2f} / {erx:.2f} | {etx / tx:.3f} | {erx / rx:.3f} |", flush=True)


if __name__ == "__main__":
    main()
