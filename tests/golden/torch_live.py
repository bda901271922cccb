#!/usr/bin/env python3
"""The dump of make_golden.py for the full model: MobileNetV2 of width 1, 1000 classes, 224², batch 8, 5 steps.

usage: torch_live.py FOLDER [--seed N]      writes FOLDER/mobilenet_v2_full_{init,grad,after,run}.safetensors (45 MB)
It takes some minutes: the truth is computed in float64. Values lie further from the kinks of ReLU6 than in the small
files, because among 54 million of them some would else lie so near that rounding decides, in torch's float32 as in ours.
In the first step, whose gradients are compared, seed 3 has none within 1e-5 of a kink (seed 1 has one, and torch's
float32 misses a gradient by 1 %), and 12,137 values are cut.
"""
import argparse
import os

import torch

import golden


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    run = dict(width=1.0, image=224, batch=8, classes=1000, steps=5, lr=0.01, seed=args.seed)
    model = golden.new_model(1.0, 1000, torch.Generator().manual_seed(args.seed), spread=0.45, centre=3.0)
    golden.make(os.path.join(args.folder, "mobilenet_v2_full"), model, **run)


if __name__ == "__main__":
    main()
