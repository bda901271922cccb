#!/usr/bin/env python3
"""usage: bench_gpu_layers.py [--compile] [--runs N]
Times a layer of RoBERTa-base and a layer of Llama 3.2 1B with adapters on a GPU, forward and backward, in PyTorch and in ours by turns:
`bench_encoder` beside this file, or in build/release/tests/bench. Each run ends when the device is done. PyTorch's forms: `eager`, with
attention as two products and a softmax; `sdpa`, with its fused attention; with --compile also `sdpa` under torch.compile. Rows of
different lengths are padded to the longest, and what is behind a row is masked; ours packs them. Prints medians of N (30) runs with
their least and largest."""
import argparse
import os
import statistics
import subprocess
import sys
import time

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as missing:
    print(f"SKIP {missing}")
    sys.exit(77)

from bench_peer_encoder import COLA, Block, turned

# name; bench_encoder's layer; tokens of each row
CASES = [("RoBERTa's layer, 32 × 128 tokens", "roberta", (128,) * 32),
         ("RoBERTa's layer, 32 rows of CoLA", "roberta", COLA),
         ("Llama's layer, LoRA, 8 × 64 tokens", "llama", (64,) * 8),
         ("Llama's layer, LoRA, 4 × 512 tokens", "llama", (512,) * 4)]
LOW = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Encoder(nn.Module):
    """A layer of RoBERTa-base as transformers computes it."""

    def __init__(self, lengths, sdpa, f=768, heads=12, wide=3072, dropped=0.1):
        super().__init__()
        self.heads, self.dropped, self.sdpa = heads, dropped, sdpa
        self.q, self.k, self.v, self.o = (nn.Linear(f, f) for _ in range(4))
        self.up, self.down = nn.Linear(f, wide), nn.Linear(wide, f)
        self.norms = nn.ModuleList((nn.LayerNorm(f), nn.LayerNorm(f)))
        longest = max(lengths)
        inside = torch.arange(longest)[None, :] < torch.tensor(lengths)[:, None]
        self.register_buffer("inside", None if inside.all() else inside[:, None, None])
        self.register_buffer("x", torch.randn(len(lengths), longest, f))
        self.register_buffer("dout", torch.randn(len(lengths), longest, f))

    def attend(self, x):
        n, s, f = x.shape
        q, k, v = (y.view(n, s, self.heads, -1).transpose(1, 2) for y in (self.q(x), self.k(x), self.v(x)))
        if self.sdpa:
            y = F.scaled_dot_product_attention(q, k, v, self.inside, self.dropped)
        else:
            scores = q @ k.transpose(2, 3) / (f // self.heads) ** 0.5
            if self.inside is not None:
                scores = scores.masked_fill(~self.inside, float("-inf"))
            y = F.dropout(scores.softmax(-1), self.dropped) @ v
        return self.o(y.transpose(1, 2).reshape(n, s, f))

    def forward(self, x):
        x = self.norms[0](x + F.dropout(self.attend(x), self.dropped))
        return self.norms[1](x + F.dropout(self.down(F.gelu(self.up(x))), self.dropped))


class Decoder(Block):
    """bench_peer_encoder's layer, with tensors that move to a device."""

    def __init__(self, lengths, sdpa):
        super().__init__(lengths, "llama", False)
        self.sdpa = sdpa
        for name, tensor in [("cos", self.turns[0]), ("sin", self.turns[1]), *((n, self.__dict__.pop(n)) for n in ("x", "dout", "mask"))]:
            self.register_buffer(name, tensor)

    def attend(self, x):
        n, s, _ = x.shape
        q, k, v = (y.view(n, s, -1, self.d).transpose(1, 2) for y in (self.q(x), self.k(x), self.v(x)))
        q, k = (turned(y, self.cos, self.sin).to(v.dtype) for y in (q, k))
        k, v = (y.repeat_interleave(self.heads // self.kv, 1) for y in (k, v))
        if self.sdpa:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            y = (q @ k.transpose(2, 3) / self.d**0.5 + self.mask).softmax(-1).to(v.dtype) @ v
        return self.o(y.transpose(1, 2).reshape(n, s, -1))


class Theirs:
    def __init__(self, kind, lengths, sdpa, precision, compiled):
        torch.manual_seed(0)
        self.net = {"roberta": Encoder, "llama": Decoder}[kind](lengths, sdpa).cuda().train()
        self.call = torch.compile(self.net) if compiled else self.net
        self.low = LOW.get(precision)
        self.tf32 = precision != "fp32"

    def run(self):
        torch.backends.cuda.matmul.allow_tf32 = self.tf32
        torch.cuda.synchronize()
        start = time.perf_counter()
        for p in self.net.parameters():
            p.grad = None
        with torch.autocast("cuda", dtype=self.low or torch.bfloat16, enabled=self.low is not None):
            y = self.call(self.net.x.detach().requires_grad_())
        y.backward(self.net.dout.to(y.dtype))
        torch.cuda.synchronize()
        return (time.perf_counter() - start) * 1e3


class Ours:
    def __init__(self, kind, lengths, precision):
        here = os.path.dirname(os.path.abspath(__file__))
        places = (here, f"{here}/../../build/release/tests/bench")
        program = next((p for p in (f"{d}/bench_encoder" for d in places) if os.path.exists(p)), "bench_encoder")
        env = {**os.environ, "LD_LIBRARY_PATH": os.environ.get("SPLIT_LIBRARIES") or os.environ.get("LD_LIBRARY_PATH", "")}
        self.child = subprocess.Popen([program, kind, f"cuda:{precision}", ",".join(map(str, lengths))], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)

    def run(self):
        self.child.stdin.write("run\n")
        self.child.stdin.flush()
        return float(self.child.stdout.readline())

    def close(self):
        self.child.communicate()


def measure(name, kind, lengths, precision, runs, compiled):
    forms = [("eager", False, False), ("sdpa", True, False)] + [("sdpa, compiled", True, True)] * compiled
    sides = [("ours", Ours(kind, lengths, precision))]
    sides += [(form, Theirs(kind, lengths, sdpa, precision, c)) for form, sdpa, c in forms]
    for _ in range(5):
        for _, side in sides:
            side.run()
    times = [[side.run() for _, side in sides] for _ in range(runs)]
    sides[0][1].close()
    ours = [t[0] for t in times]
    print(f"{name}, {precision}: ours {statistics.median(ours):.3f} ms ({min(ours):.3f} – {max(ours):.3f})", end="")
    for i, (form, _) in enumerate(sides[1:], 1):
        each = [t[i] for t in times]
        print(f"; {form} {statistics.median(each):.3f} ({min(each):.3f} – {max(each):.3f}), ratio {statistics.median(t[0] / t[i] for t in times):.2f}", end="")
    print(flush=True)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--runs", type=int, default=30)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("SKIP no CUDA device in PyTorch")
        sys.exit(77)
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}")
    for precision in ("fp32", "tf32", "bf16"):
        for case in CASES:
            measure(*case, precision, args.runs, False)
    if args.compile:
        for case in (CASES[0], CASES[3]):
            measure(*case, "bf16", args.runs, True)


if __name__ == "__main__":
    main()
