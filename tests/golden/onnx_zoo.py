#!/usr/bin/env python3
"""Whether splitc reads the networks of torchvision from ONNX files: classification and segmentation, at 224².

usage: onnx_zoo.py [NAME…]     prints "NAME: read" or why not; without names those of at most 100 million parameters
Stochastic depth is off, and so are helpers that are outputs of their own. Needs torch, torchvision and SPLITC
(build/release/splitc).
"""
import os
import subprocess
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
import torch
from torchvision import models
from torchvision.models import segmentation

from make_onnx import convert, export

MOST, SIDES = 100_000_000, {"inception_v3": 299}


class Segmentation(torch.nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x)["out"]


def network_of(name):
    options = {"weights": None, "num_classes": 5}
    if name in ("googlenet", "inception_v3"):
        options.update(aux_logits=False, init_weights=False)
    if name in models.list_models(module=segmentation):
        return Segmentation(models.get_model(name, weights_backbone=None, **options))
    network = models.get_model(name, **options)
    for module in network.modules():
        if type(module).__name__ == "StochasticDepth":
            module.p = 0.0
    return network


def verdict(name, folder):
    network, side, file = network_of(name).train(), SIDES.get(name, 224), f"{folder}/network.onnx"
    count = sum(p.numel() for p in network.parameters())
    if count > MOST and name not in sys.argv:
        return f"{count / 1e6:.0f} million parameters"
    try:
        export(network, file, side, input_names=["x"], dynamic_axes={"x": {0: "n"}})
    except Exception as error:  # torch has no common class of these
        return f"torch does not export it: {str(error).splitlines()[0]}"
    try:
        convert(file)
    except Exception as error:
        return str(error)
    task = "pixels" if isinstance(network, Segmentation) else "classes"
    with open(f"{folder}/zoo.yaml", "w") as config:
        print(f"model: {{network: {folder}/network.safetensors, task: {task}}}\ndata: {{kind: images, dir: {folder}}}", file=config)
    splitc = os.environ.get("SPLITC", "build/release/splitc")
    run = subprocess.run([splitc, "graph", f"{folder}/zoo.yaml"], capture_output=True, text=True)
    return "read" if run.returncode == 0 else run.stderr.strip().splitlines()[-1]


with tempfile.TemporaryDirectory() as folder:
    for name in sys.argv[1:] or models.list_models(module=models) + models.list_models(module=segmentation):
        print(f"{name}: {verdict(name, folder)}", flush=True)
