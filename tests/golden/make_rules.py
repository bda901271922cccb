#!/usr/bin/env python3
"""Makes the golden files of runs with rules: frozen layers, clipping, groups of parameters, batches that add up, averaged
weights. All begin with the weights of
mobilenet_v2_cifar.

usage: make_rules.py [FOLDER]       (needs torch and torchvision; see make_golden.py)
Frozen layers run in training mode, so that their running statistics move. The groups are the usual ones: no weight decay
of batch norms and biases, and another learning rate for the classifier.
"""
import os
import sys

import torch

import golden

GROUPS = "classifier.* lr=5,*.bias features.0.1.weight features.*.conv.0.1.weight features.*.conv.1.1.weight weight_decay=0"
ADAMW = dict(optimizer="adamw", momentum=0.0, beta1=0.9, beta2=0.99, eps=1e-6)
RULES = {
    "frozen": dict(freeze="features.*"),
    "frozen_front": dict(freeze="features.[0-9].*", clip_norm=1.0),
    "groups": dict(groups=GROUPS, clip_norm=2.0),
    "groups_adamw": dict(groups=GROUPS, clip_norm=2.0, lr=0.001, **ADAMW),
    "accumulate": dict(accumulate=2, clip_norm=1.0, steps=10),
    "accumulate_ema": dict(accumulate=5, ema=0.9, lr=0.001, steps=10, **ADAMW),
}
RUN = dict(width=0.1, image=32, batch=4, classes=10, steps=5, lr=0.01, seed=2, stem=True)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name, rules in RULES.items():
        run = dict(RUN, lr=rules.pop("lr", RUN["lr"]), steps=rules.pop("steps", RUN["steps"]))
        model = golden.new_model(run["width"], run["classes"], torch.Generator().manual_seed(run["seed"]))
        golden.cifar_stem(model)
        report = golden.make(os.path.join(folder, "rules_" + name), model, rules=rules, init_of="mobilenet_v2_cifar", **run)
        if max(report.values()) > 1e-4:
            sys.exit(f"{name}: torch's float32 is not within 1e-4 of its float64: choose other rules")


if __name__ == "__main__":
    main()
