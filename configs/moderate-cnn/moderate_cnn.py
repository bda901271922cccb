#!/usr/bin/env python3
"""usage: moderate_cnn.py FILE

Writes the network of NVFlare's example of split learning on CIFAR-10 for client.yaml, with random weights."""
import sys

import torch
from torch import nn


def stage(a, b, c, p=0.0):
    return [nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.Conv2d(b, c, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            *([nn.Dropout2d(p)] if p else [])]


class ModerateCNN(nn.Module):
    """[rows, 3, 32, 32] to [rows, 10]. In the example one party has `features`, the other `classifier`."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(*stage(3, 32, 64), *stage(64, 128, 128, 0.05), *stage(128, 256, 256))
        self.classifier = nn.Sequential(nn.Flatten(), nn.Dropout(0.1), nn.Linear(4096, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(),
                                        nn.Dropout(0.1), nn.Linear(512, 10))

    def forward(self, x):
        return self.classifier(self.features(x))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    import split
    torch.manual_seed(0)
    split.write_network(ModerateCNN(), torch.zeros(2, 3, 32, 32), sys.argv[1])
