#!/usr/bin/env python3
"""Makes the golden files beside it: MobileNetV2 of width 0.1, in torchvision's form and in the CIFAR form.

usage: make_golden.py [FOLDER]      (needs torch and torchvision; the files are committed, and come out the same again
                                     up to the rounding of float64)
What the files hold, and how to compare with them, stands in golden.py. The seeds are ones whose run stays clear of the
kinks of ReLU6, as the printed deviation of torch's own float32 shows.
"""
import os
import sys

import torch
import torchvision

import golden

RUNS = {
    "mobilenet_v2": dict(width=0.1, image=64, batch=4, classes=10, steps=5, lr=0.01, seed=4, stem=False),
    "mobilenet_v2_cifar": dict(width=0.1, image=32, batch=4, classes=10, steps=5, lr=0.01, seed=2, stem=True),
    "mobilenet_v2_pool4": dict(width=0.1, image=40, batch=4, classes=10, steps=5, lr=0.01, seed=7, stem=True, name="mobilenet_v2_pool4"),
}


class Pool4(torchvision.models.MobileNetV2):
    """A tail of ReLU and avg_pool2d(4): at 40² the upper-left 4×4 of 5×5 positions."""

    def forward(self, x):
        x = torch.relu(self.features(x))
        return self.classifier(torch.nn.functional.avg_pool2d(x, 4).flatten(1))


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name, run in RUNS.items():
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        model = golden.new_model(run["width"], run["classes"], torch.Generator().manual_seed(run["seed"]))
        if run["stem"]:
            golden.cifar_stem(model)
        if name == "mobilenet_v2_pool4":
            model.__class__ = Pool4
        report = golden.make(os.path.join(folder, name), model, **run)
        if max(report.values()) > 1e-4:
            sys.exit(f"{name}: torch's float32 is not within 1e-4 of its float64: choose another seed")


if __name__ == "__main__":
    main()
