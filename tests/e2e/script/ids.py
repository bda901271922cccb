"""Networks of papers_ids.py learn three batches from a CSV file as in PyTorch, by SGD and AdamW; float64 says how far both are off.

    ids.py SPLITC [NAME …]"""
import copy
import math
import os
import subprocess
import sys

import torch
import torch.nn.functional as F

import split
from papers_ids import IDS, SIZES

ROWS, STEPS = 24, 3
KINDS = {"sgd": ("{kind: sgd, lr: 0.05, momentum: 0.9}", lambda p: torch.optim.SGD(p, 0.05, momentum=0.9)),
         "adamw": ("{kind: adamw, lr: 0.001, weight_decay: 0.01}", lambda p: torch.optim.AdamW(p, 1e-3, weight_decay=0.01))}
torch.set_num_threads(1)


def table(folder):
    """A table of whole numbers, which are ids as they are, and of numbers, which are scaled."""
    ids = torch.stack([torch.arange(ROWS) * k % n for k, n in zip((3, 1, 7), SIZES)], 1)
    numbers, label = torch.randn(ROWS, 3).double() * 3 + 1, torch.arange(ROWS) * 5 % 7 % 2
    for part in ("train", "val"):
        with open(os.path.join(folder, part + ".csv"), "w") as f:
            print("a,b,c,x,y,z,label", file=f)
            for row, more, y in zip(ids.tolist(), numbers.tolist(), label.tolist()):
                print(*row, *map(repr, more), y, sep=",", file=f)
    scaled = (numbers - numbers.mean(0)) / numbers.std(0, unbiased=False)
    return torch.cat([ids.double(), scaled.float().double()], 1), label


def learn(module, opt, x, label):
    for _ in range(STEPS):
        opt.zero_grad()
        F.cross_entropy(module(x), label).backward()
        opt.step()
    return {k: v.double() for k, v in module.state_dict().items() if "num_batches" not in k}


def in_torch(module, kind, x, label, dtype):
    module = copy.deepcopy(module).to(dtype)
    torch.set_default_dtype(dtype)
    try:
        return learn(module, kind(module.parameters()), x.to(dtype), label)
    finally:
        torch.set_default_dtype(torch.float32)


def by_splitc(splitc, module, spelled):
    split.write_network(module, torch.zeros(1, 6), "net.safetensors")
    with open("net.yaml", "w") as f:
        f.write("model: {network: net.safetensors}\ndata: {kind: csv, dir: ., ids: [a, b, c]}\n"
                f"cut_values: 2\n{CUTS.get(type(module).__name__, '')}\nlog: {{dir: log}}\n"
                f"train: {{batch: {ROWS}, chunks: 1, epochs: {STEPS}, seed: 1, optimizer: {spelled}}}\nserver: tcp://127.0.0.1:9\n")
    for command in (("train", "net.yaml", "--local", "--fresh"), ("export", "net.yaml", "learned.safetensors")):
        done = subprocess.run([splitc, *command], capture_output=True, text=True)
        assert not done.returncode, f"{command}: {done.stdout}{done.stderr}"
    learned = split.read_network("learned.safetensors")
    return {k: v.double() for k, v in learned.state_dict().items()}


def off(state, exact):
    return max((state[k].reshape(v.shape) - v).abs().max().item() for k, v in exact.items() if k in state)


CUTS = {"DeepFM": "head_end: mlp.0\ntail_begin: add_2", "WideDeep": "head_end: mlp.0\ntail_begin: mlp.3", "FieldFM": "head_end: mlp.0\ntail_begin: mlp.4"}


def is_as_exact(splitc, kind, optimizer, seed):
    torch.manual_seed(seed)
    spelled, opt = KINDS[optimizer]
    module, (x, label) = kind(), table(".")
    exact, theirs = (in_torch(module, opt, x, label, dtype) for dtype in (torch.float64, torch.float32))
    ours = by_splitc(splitc, copy.deepcopy(module), spelled)
    missing = [k for k, p in module.named_parameters() if k not in ours]
    assert not missing, f"{kind.__name__} lacks {missing}"
    bound = off(theirs, exact)
    assert math.isfinite(bound) and off({k: v.double() for k, v in module.state_dict().items()}, exact) > 1e-4, f"{kind.__name__} learns nothing"
    return off(ours, exact) <= 4 * bound + 2e-6 * max(v.abs().max().item() for v in exact.values())


splitc, names = sys.argv[1], sys.argv[2:] or list(IDS)
wrong = [f"{name} by {optimizer}" for name in names for optimizer in KINDS
         if not any(is_as_exact(splitc, IDS[name], optimizer, seed) for seed in (1, 2, 3))]
assert not wrong, f"worse than PyTorch: {', '.join(wrong)}"
print(f"{len(names)} networks of tables with ids")
