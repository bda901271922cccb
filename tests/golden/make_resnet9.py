#!/usr/bin/env python3
"""Makes resnet9_*.safetensors beside it: ResNet9 of an eighth of the width, by the rules of golden.py.

usage: make_resnet9.py [FOLDER]      (needs torch; the files are committed)
The network is spelled out here from the published description, with no code of ours. The initial weights are wide for
the reason that golden.new_model gives.
"""
import os
import sys

import torch
from torch import nn

import golden


class ResNet9(nn.Module):
    """Flat modules, so that the state_dict has the upstream's names."""

    def __init__(self, channels, classes):
        super().__init__()
        prep, one, two, three = channels
        for name, i, o in [
            ("prep", 3, prep), ("layer1", prep, one), ("layer1_residual_res1", one, one), ("layer1_residual_res2", one, one),
            ("layer2", one, two), ("layer3", two, three), ("layer3_residual_res1", three, three),
            ("layer3_residual_res2", three, three),
        ]:  # fmt: skip
            self.add_module(name + "_conv", nn.Conv2d(i, o, 3, padding=1, bias=False))
            self.add_module(name + "_bn", nn.BatchNorm2d(o))
        self.linear = nn.Linear(three, classes, bias=False)

    def block(self, name, x):
        return torch.relu(getattr(self, name + "_bn")(getattr(self, name + "_conv")(x)))

    def residual(self, name, x):
        return x + self.block(name + "_res2", self.block(name + "_res1", x))

    def forward(self, x):
        x = self.block("prep", x)
        x = self.residual("layer1_residual", nn.functional.max_pool2d(self.block("layer1", x), 2))
        x = nn.functional.max_pool2d(self.block("layer2", x), 2)
        x = self.residual("layer3_residual", nn.functional.max_pool2d(self.block("layer3", x), 2))
        x = nn.functional.max_pool2d(x, 4).flatten(1)
        return self.linear(x) * 0.125


def new_model(channels, classes, generator):
    """Weights under which few values lie near the kink of ReLU, and no maximum of a window is nearly a tie."""
    model = ResNet9(channels, classes)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                std = (2 / module.weight[0].numel()) ** 0.5
                module.weight.copy_(torch.randn(module.weight.shape, generator=generator) * std)
            elif isinstance(module, nn.BatchNorm2d):
                module.weight.copy_(1 + 0.1 * torch.randn(module.weight.shape, generator=generator))
                module.bias.copy_(1 + 0.3 * torch.randn(module.bias.shape, generator=generator))
                module.running_mean.copy_(0.1 * torch.randn(module.bias.shape, generator=generator))
                module.running_var.copy_(0.5 + torch.rand(module.bias.shape, generator=generator))
            elif isinstance(module, nn.Linear):
                module.weight.copy_(torch.randn(module.weight.shape, generator=generator) * 0.2)
    return model


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    run = dict(width=0.125, image=32, batch=4, classes=10, steps=4, lr=0.01)
    for seed in range(1, 40):
        model = new_model((8, 16, 32, 64), run["classes"], torch.Generator().manual_seed(seed))
        report = golden.make(os.path.join(folder, "resnet9"), model, seed=seed, name="resnet9", nesterov=True, **run)
        if max(report.values()) < 2e-5:
            return
    sys.exit("no seed stays clear of the kinks")


if __name__ == "__main__":
    main()
