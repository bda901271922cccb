#!/usr/bin/env python3
"""Networks of torchvision at full width, exported to ONNX files and converted, and runs of them by the rules of golden.py.

usage: onnx_live.py FOLDER NAME              writes FOLDER/NAME.safetensors, FOLDER/NAME_{init,grad,after,run}.safetensors, and of a
                                             run with AdamW FOLDER/NAME_adamw_{after,run}.safetensors
       onnx_live.py FOLDER --same NAME       whether FOLDER/NAME_back.safetensors is torchvision's NAME with the tensors of NAME_after
       onnx_live.py --list                   names, each with a place to cut
The weights are wide for the reason that networks_live.py gives, and a seed is taken whose run torch's float32 follows.
"""
import copy
import os
import sys

import numpy as np
import torch
import torchvision

import golden
from make_networks import widen
from make_onnx import ADAMW, convert, export

# name: image, batch, steps, where the head ends
NETWORKS = {
    "mobilenet_v2": (64, 4, 3, "features.0"),
    "mobilenet_v3_small": (64, 4, 3, "features.0"),
    "regnet_x_400mf": (64, 4, 3, "stem"),
    "resnet18": (64, 4, 5, "maxpool"),
    "squeezenet1_1": (64, 4, 3, "features.2"),
}
SEEDS = 20


def new_model(name, seed):
    torch.manual_seed(seed)
    model = getattr(torchvision.models, name)(num_classes=10)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0  # torch's masks are others
    return widen(model, torch.Generator().manual_seed(seed), centre=3.0)


def make(folder, name):
    image, batch, steps, _ = NETWORKS[name]
    run = dict(width=1.0, image=image, batch=batch, classes=10, steps=steps, name="network")
    prefix = os.path.join(os.path.abspath(folder), name)
    for seed in range(1, SEEDS):
        model = new_model(name, seed)
        export(model, prefix + ".onnx", image)
        convert(prefix + ".onnx")
        first = copy.deepcopy(model)
        report = golden.make(prefix, model, lr=0.001, seed=seed, **run)
        if max(report.values()) >= 5e-5:
            continue
        adamw = golden.make(prefix + "_adamw", first, lr=0.0001, seed=seed, rules=ADAMW, init_of=prefix, **run)
        if max(adamw.values()) < 5e-5:
            return
    sys.exit(f"{name}: no seed stays clear of the kinks")


def same(folder, name):
    want, _ = golden.read_safetensors(os.path.join(folder, name + "_after.safetensors"))
    got, _ = golden.read_safetensors(os.path.join(folder, name + "_back.safetensors"))
    model = getattr(torchvision.models, name)(num_classes=10)
    model.load_state_dict({key: torch.from_numpy(np.array(value)) for key, value in got.items()}, strict=True)
    for key, value in want.items():
        if not key.endswith("num_batches_tracked") and not np.array_equal(value, got[key]):
            sys.exit(f"{name}: {key} came back changed")
    print(f"{name}: {len(want)} tensors came back")


def main():
    if sys.argv[1] == "--list":
        for name, (_, _, _, head_end) in NETWORKS.items():
            print(name, head_end)
    elif sys.argv[2] == "--same":
        same(sys.argv[1], sys.argv[3])
    else:
        make(sys.argv[1], sys.argv[2])


if __name__ == "__main__":
    main()
