"""networks.py FOLDER: modules as split.write_network and torch.onnx.export write them, and what write_network refuses."""
import os
import sys

import torch
from torch import nn
from torchvision.models.resnet import BasicBlock

import split

WORDS = 700


class Text(nn.Module):
    """Rows of any number of tokens."""

    def __init__(self):
        super().__init__()
        self.emb, self.pos, self.fc = nn.Embedding(WORDS, 16), nn.Embedding(12, 16), nn.Linear(16, 2)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, "gelu", batch_first=True)

    def forward(self, ids):
        return self.fc(self.layer(self.emb(ids) + self.pos(torch.arange(ids.shape[1]))).mean(1))


class Order(nn.Module):
    """Rows of one length, whose tokens a convolution mixes."""

    def __init__(self):
        super().__init__()
        self.emb, self.c, self.fc = nn.Embedding(WORDS, 16), nn.Conv1d(16, 8, 3, padding=1), nn.Linear(8 * 12, 2)

    def forward(self, ids):
        return self.fc(torch.relu(self.c(self.emb(ids).transpose(1, 2))).flatten(1))


class Residual(nn.Sequential):
    """The blocks of torchvision's ResNet, with few channels."""

    def __init__(self):
        down = nn.Sequential(nn.Conv2d(8, 16, 1, 2, bias=False), nn.BatchNorm2d(16))
        super().__init__(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), BasicBlock(8, 8), BasicBlock(8, 16, 2, down),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.0), nn.Linear(16, 10))


def refused(says, module, example):
    try:
        split.write_network(module, example, "refused.safetensors")
    except split.ConfigError as e:
        assert says in str(e), f"{says!r} is not in {e}"
    else:
        raise AssertionError(f"not refused: {says}")
    assert not os.path.exists("refused.safetensors")


def main():
    os.chdir(sys.argv[1])
    torch.manual_seed(5)
    ids, whole = torch.ones(2, 12, dtype=torch.long), {"input_names": ["x"], "dynamic_axes": {"x": {0: "n", 1: "s"}}}
    table = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    for name, module, example, more in (("resnet", Residual(), torch.zeros(2, 3, 32, 32), {}), ("text", Text(), ids, whole),
                                        ("order", Order(), ids, {}), ("table", table, torch.zeros(4, 3), {})):
        split.write_network(module, example, name + ".safetensors")
        torch.onnx.export(module.train(), example, name + ".onnx", training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                          opset_version=16, **more)
    refused("an example of [2]", table, torch.zeros(2))
    refused("conv3d is not known", nn.Conv3d(1, 1, 1), torch.zeros(2, 3, 4, 4))
    refused("gives [3, 8] for each row", nn.Linear(8, 8), torch.zeros(2, 3, 8))


main()
