#!/usr/bin/python3
"""Measures how far rounding takes Split's float32 from float64, and PyTorch's float32 too: same weights, same batch, same steps.

    bench_rounding.py [--write] [--quick] [--keep DIR] [--seeds N]

The reference is PyTorch in float64. The images are noise on coarse patches. The weights are torchvision's initial ones, or wide ones,
which keep values away from the kinks of ReLU6. The loss is compared over the first steps; gradients and running statistics only after
the first step, because later the networks differ. A figure is the geometric mean over seeds, and over steps, tensors or layers where its
row says so.
--write: writes the tables to docs/results/rounding.md. --quick: only 32², one seed. --keep: keeps PyTorch's results in the folder DIR,
and reads them from there the next time.
"""
import argparse
import datetime
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
from torchvision.models import mobilenet_v2

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests/golden"))
import golden  # noqa: E402

BENCH = os.path.join(ROOT, os.environ.get("BUILD", "build/release"), "tests/bench/bench_rounding")
RESULT = os.path.join(ROOT, "docs/results/rounding.md")
BEGIN, END = "<!-- make bench-rounding writes from here -->", "<!-- to here -->"
SETTINGS = dict(momentum=0.9, weight_decay=1e-4)

# name, image, CIFAR form, batch, chunks, steps
SIZES = [
    ("224², batch 8, 1 chunk", 224, False, 8, 1, 3),
    ("224², batch 8, 4 chunks", 224, False, 8, 4, 3),
    ("32² in CIFAR form, batch 64, 1 chunk", 32, True, 64, 1, 3),
]
WEIGHTS = [("Wide weights", True), ("torchvision's weights", False)]
PEERS = {"NCHW": torch.contiguous_format, "NHWC": torch.channels_last}


class Result:
    """Losses of all steps; gradients and state after the first one, as name → float64 array."""

    def __init__(self, losses, grad, state):
        self.losses, self.grad, self.state = losses, grad, state


def new_model(cifar, wide, seed):
    torch.manual_seed(seed)
    if wide:
        model = golden.new_model(1.0, 10, torch.Generator().manual_seed(seed), spread=0.45, centre=3.0)
    else:
        model = mobilenet_v2(num_classes=10, dropout=0.0)
    return golden.cifar_stem(model) if cifar else model


def new_batch(image, batch, seed):
    """Returns images, each of a colour, coarse patches and noise, and labels. The values are exact in float16."""
    generator = np.random.default_rng(seed)
    coarse = np.kron(generator.standard_normal((batch, image // 16, image // 16, 3)), np.ones((1, 16, 16, 1)))
    data = generator.standard_normal((batch, 1, 1, 3)) + coarse + 0.5 * generator.standard_normal((batch, image, image, 3))
    return (data / 1.5).astype(np.float16), generator.integers(0, 10, batch).astype(np.int32)


def arrays(pairs):
    return {name: t.detach().double().numpy().copy() for name, t in pairs}


def run_torch(init, cifar, data, labels, chunks, lrs, dtype, memory_format):
    model = new_model(cifar, False, 0)
    model.load_state_dict(init)
    model = model.to(dtype=dtype, memory_format=memory_format).train()
    images = torch.from_numpy(data).to(dtype).permute(0, 3, 1, 2).contiguous(memory_format=memory_format)
    targets = torch.from_numpy(labels.astype(np.int64))
    optimizer = torch.optim.SGD(model.parameters(), lr=lrs[0], **SETTINGS)
    losses, grad, state = [], None, None
    for step, lr in enumerate(lrs):
        optimizer.param_groups[0]["lr"] = float(lr)
        optimizer.zero_grad()
        total = 0.0
        for x, y in zip(images.chunk(chunks), targets.chunk(chunks)):
            loss = torch.nn.functional.cross_entropy(model(x), y, reduction="sum") / len(targets)
            loss.backward()
            total += loss.item()
        losses.append(total)
        if step == 0:
            grad = arrays((n, p.grad) for n, p in model.named_parameters())
        optimizer.step()
        if step == 0:
            state = arrays(model.state_dict().items())
    return Result(np.array(losses), grad, state)


def our_env():
    return {k: v for k, v in os.environ.items() if k != "OPENBLAS_CORETYPE"}


def describe():
    """Returns the CPU's SIMD level and BLAS, as Split's programs print it."""
    return subprocess.run([BENCH], capture_output=True, text=True, env=our_env()).stdout.strip()


def run_ours(prefix, chunks):
    out = subprocess.run([BENCH, prefix, prefix + "_ours", str(chunks)], capture_output=True, text=True, check=True,
                         env=our_env()).stdout
    grad, state = (golden.read_safetensors(f"{prefix}_ours_{part}.safetensors")[0] for part in ("grad", "first"))
    return Result(np.array([float(x) for x in out.split()]), {n: g.astype(np.float64) for n, g in grad.items()},
                  {n: s.astype(np.float64) for n, s in state.items()})


# ---- comparisons: each returns {key: relative error}; a key means the same in every run


def off(got, want):
    return float(np.linalg.norm(got - want) / np.linalg.norm(want))


def losses(run, truth):
    return {f"step {i + 1}": abs(a - b) / b for i, (a, b) in enumerate(zip(run.losses, truth.losses))}


def all_gradients(run, truth):
    """The error of all gradients as one vector."""
    names = sorted(truth.grad)
    return {"all": off(np.concatenate([run.grad[n].ravel() for n in names]), np.concatenate([truth.grad[n].ravel() for n in names]))}


def of_tensors(part, chosen):
    """Leaves out tensors whose true value is 0, such as the gradient of a bias before batch norm: what they hold is rounding alone."""

    def compare(run, truth):
        want, got = getattr(truth, part), getattr(run, part)
        names = [n for n in want if chosen(n, want[n])]
        most = max(np.abs(want[n]).max() for n in names)
        return {n: off(got[n], want[n]) for n in names if np.abs(want[n]).max() > 1e-3 * most}

    return compare


ROWS = [
    ("loss of the first step", lambda r, t: {"step 1": losses(r, t)["step 1"]}),
    ("losses of all steps, mean", losses),
    ("gradients of the first step, as one vector", all_gradients),
    ("gradients of convolutions, mean over tensors", of_tensors("grad", lambda n, v: v.ndim == 4)),
    ("gradients of batchnorm, mean over tensors", of_tensors("grad", lambda n, v: v.ndim == 1 and "classifier" not in n)),
    ("gradients of the classifier", of_tensors("grad", lambda n, v: "classifier" in n)),
    ("running means, mean over layers", of_tensors("state", lambda n, v: n.endswith("running_mean"))),
    ("running variances, mean over layers", of_tensors("state", lambda n, v: n.endswith("running_var"))),
]


def mean(values):
    """The geometric mean; an error of 0 counts as 6e-10, a hundredth of float32's rounding error."""
    return float(np.exp(np.mean(np.log(np.maximum(values, 6e-10)))))


def kept(path, compute):
    """Returns the result of compute() that is kept in PATH; calls it and keeps the result if there is none."""
    if path is None or not os.path.exists(path):
        result = compute()
        if path is not None:
            np.savez(path, losses=result.losses, **{"g:" + n: v for n, v in result.grad.items()},
                     **{"s:" + n: v for n, v in result.state.items()})
        return result
    with np.load(path) as f:
        return Result(f["losses"], {n[2:]: f[n] for n in f if n.startswith("g:")}, {n[2:]: f[n] for n in f if n.startswith("s:")})


def runs_of(size, wide, seed, keep):
    """Returns the runs: "ours", PyTorch's by memory format, and "truth", that in float64."""
    _, image, cifar, batch, chunks, steps = size
    lrs = [0.01 * (step + 1) / steps for step in range(steps)]
    init = {n: t.clone() for n, t in new_model(cifar, wide, seed).state_dict().items()}
    data, labels = new_batch(image, batch, seed)

    def torch_run(who, dtype, memory_format):
        path = os.path.join(keep, f"{image}-{'wide' if wide else 'usual'}-{batch}-{chunks}-{steps}-{seed}-{who}.npz") if keep else None
        return kept(path, lambda: run_torch(init, cifar, data, labels, chunks, lrs, dtype, memory_format))

    runs = {"truth": torch_run("truth", torch.float64, torch.contiguous_format)}
    for who, memory_format in PEERS.items():
        runs[who] = torch_run(who, torch.float32, memory_format)
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "run")
        golden.write_safetensors(prefix + "_init.safetensors", {n: t.numpy() for n, t in init.items()})
        golden.write_safetensors(prefix + "_run.safetensors", {"input": data, "label": labels, "lr": np.array(lrs)},
                                 dict(SETTINGS, width=1.0, image=image, classes=10, cifar_stem=int(cifar)))
        runs["ours"] = run_ours(prefix, chunks)
    return runs


def compare(size, wide, seeds, keep):
    """Returns row → who → mean error."""
    errors = {row: {} for row, _ in ROWS}
    for seed in range(1, seeds + 1):
        runs = runs_of(size, wide, seed, keep)
        truth = runs.pop("truth")
        for row, function in ROWS:
            for who, result in runs.items():
                errors[row].setdefault(who, []).extend(function(result, truth).values())
    return {row: {who: mean(values) for who, values in whos.items()} for row, whos in errors.items()}


def table(title, found):
    """found: name of a size → row → who → error. A cell has ours and those of the peers, as the page says."""
    lines = [f"### {title}", "", "| relative error | " + " | ".join(found) + " |", "|---" * (len(found) + 1) + "|"]
    for row, _ in ROWS:
        cells = [", ".join(f"{errors[row][who]:.1e}" for who in ("ours", *PEERS)) for errors in found.values()]
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return lines + [""]


def write(lines):
    with open(RESULT, encoding="utf-8") as f:
        text = f.read()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    with open(RESULT, "w", encoding="utf-8") as f:
        f.write(text[:begin] + "\n\n" + "\n".join(lines) + "\n" + text[end:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--keep")
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    seeds = 1 if args.quick else args.seeds
    lines = [f"`make bench-rounding{' BENCH_ARGS=--write' if args.write else ''}`, {datetime.date.today()}; {describe()}; "
             f"PyTorch {torch.__version__}; {seeds} seeds.", ""]
    print("\n".join(lines), flush=True)
    for weights, wide in WEIGHTS:
        sizes = [s for s in SIZES if not args.quick or s[1] == 32]
        part = table(weights, {size[0]: compare(size, wide, seeds, args.keep) for size in sizes})
        print("\n".join(part), flush=True)
        lines += part
    if args.write:
        write(lines)


if __name__ == "__main__":
    main()
