#!/usr/bin/env python3
"""The dump of make_networks.py for torchvision's own networks at full width: resnet18, resnet50 and resnext50_32x4d, at 64².

usage: networks_live.py FOLDER [NAME…]      writes FOLDER/NAME_{init,grad,after,run}.safetensors
       networks_live.py FOLDER --same NAME  whether FOLDER/NAME.safetensors is torchvision's NAME with the same tensors as
                                            NAME_after; num_batches_tracked, which torch does not compute with, may differ
Most values lie far above the kink of ReLU: among millions of them some would else lie so near that rounding decides, in
torch's float32 as in ours, and a gradient is then off by 1e-4 to 1e-2. A seed is taken whose run torch's float32 follows.
"""
import os
import sys

import numpy as np
import torch
import torchvision

import golden
from make_networks import widen



def same(folder, name):
    want, _ = golden.read_safetensors(os.path.join(folder, name + "_after.safetensors"))
    got, _ = golden.read_safetensors(os.path.join(folder, name + ".safetensors"))
    model = getattr(torchvision.models, name)(num_classes=10)
    model.load_state_dict({key: torch.from_numpy(np.array(value)) for key, value in got.items()}, strict=True)
    for key, value in want.items():
        if not key.endswith("num_batches_tracked") and not np.array_equal(value, got[key]):
            sys.exit(f"{name}: {key} came back changed")
    print(f"{name}: {len(want)} tensors came back")


def main():
    if "--same" in sys.argv:
        same(sys.argv[1], sys.argv[3])
        return
    for name in sys.argv[2:] or ("resnet18", "resnet50", "resnext50_32x4d"):
        run = dict(width=1.0, image=64, batch=4, classes=10, steps=5, lr=0.001)
        for seed in range(1, 20):
            model = widen(getattr(torchvision.models, name)(num_classes=10), torch.Generator().manual_seed(seed), centre=3.0)
            report = golden.make(os.path.join(sys.argv[1], name), model, seed=seed, name=name, **run)
            if max(report.values()) < 5e-5:
                break
        else:
            sys.exit(f"{name}: no seed stays clear of the kinks")


if __name__ == "__main__":
    main()
