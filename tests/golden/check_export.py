#!/usr/bin/env python3
"""Loads an exported safetensors file into torchvision's mobilenet_v2, strictly, and compares eval logits.

usage: check_export.py EXPORT [RUN] [--width W] [--readme PAGE] [--tolerance T]
EXPORT  what `splitc export` wrote
RUN     a safetensors file with input [N,H,W,3] and logits.eval [N,K], as golden.py describes; without it, loading is all
PAGE    loads it as the page's Python does, of form: cifar
Exit status 0: it loads, and the logits are equal up to the tolerance, relative to the largest of them.
"""
import argparse
import re
import sys
import types

import numpy as np
import torch
from torchvision.models import mobilenet_v2

import golden


def as_readme_says(readme, export, weights, width):
    """Runs the page's Python, with this file for its own, and returns its model; safetensors' package is not needed."""
    (code,) = re.findall(r"```python\n(.*?)```", open(readme).read(), re.S)
    code, files = re.subn(r'"model\.safetensors"', repr(export), code)
    code, widths = re.subn(r"width_mult=[0-9.]+", f"width_mult={width}", code)
    assert files == 1 and widths == 1, f"{readme}: not the Python that this test knows"
    package = types.ModuleType("safetensors.torch")
    package.load_file = lambda path: {name: torch.from_numpy(np.array(t)) for name, t in weights.items()}
    sys.modules["safetensors"], sys.modules["safetensors.torch"] = types.ModuleType("safetensors"), package
    names = {}
    exec(code, names)
    return names["model"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("export")
    parser.add_argument("run", nargs="?")
    parser.add_argument("--width", type=float, default=1.0)
    parser.add_argument("--readme")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    args = parser.parse_args()
    weights, _ = golden.read_safetensors(args.export)
    if "classifier.1.bias" not in weights:
        sys.exit(f"{args.export}: no classifier.1.bias")
    try:
        if args.readme:
            model = as_readme_says(args.readme, args.export, weights, args.width)
        else:
            model = mobilenet_v2(width_mult=args.width, num_classes=len(weights["classifier.1.bias"]))
            model.load_state_dict({name: torch.from_numpy(np.array(t)) for name, t in weights.items()}, strict=True)
    except RuntimeError as error:
        sys.exit(f"{args.export}: {error}")
    print(f"{args.export}: {len(weights)} tensors, loaded strictly")
    if not args.run:
        return
    run, _ = golden.read_safetensors(args.run)
    model.double().eval()
    with torch.no_grad():
        logits = model(torch.from_numpy(run["input"].astype(np.float64)).permute(0, 3, 1, 2)).numpy()
    worst = golden.deviation(run["logits.eval"], logits, 0)
    print(f"eval logits deviate by {worst:.1e} of the largest")
    if not worst <= args.tolerance:
        sys.exit(f"{args.run}: logits.eval is not what torch computes from {args.export}")


if __name__ == "__main__":
    main()
