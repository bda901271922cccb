#!/usr/bin/python3
"""Writes real tensors at the cut for bench_codecs --raw: MobileNetV2 at 224², where the client has conv+BN and classifier, as in published
tables.

usage: dump_cut.py BACKBONE.safetensors DATA_BATCH.bin OUT_DIR [--steps 10] [--batch 64]

Fine-tunes for some steps from the backbone (with a new classifier, SGD, lr 0.005, momentum 0.1), then writes the four tensors of the
next batch to OUT_DIR as f32, NHWC: head_act.f32, mid_act.f32, mid_grad.f32, head_grad.f32. Prints their shapes.
"""
import argparse
import ctypes
import json
import os
import struct

import torch
from torchvision.models import mobilenet_v2


def load(path):
    """Tensors of a safetensors file, fp32 only."""
    with open(path, "rb") as f:
        (length,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(length))
        body = f.read()
    header.pop("__metadata__", None)
    out = {}
    for name, entry in header.items():
        dtype = {"F32": torch.float32, "I64": torch.int64}[entry["dtype"]]
        first, last = entry["data_offsets"]
        out[name] = torch.frombuffer(bytearray(body[first:last]), dtype=dtype).reshape(entry["shape"])
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("backbone")
    parser.add_argument("data")
    parser.add_argument("out")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = mobilenet_v2(num_classes=10)
    missing = model.load_state_dict(load(args.backbone), strict=False)
    assert all(k.startswith("classifier") for k in missing.missing_keys), missing
    model.train()
    with open(args.data, "rb") as f:
        rows = torch.frombuffer(bytearray(f.read()), dtype=torch.uint8).reshape(-1, 3073)
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    opt = torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.1)
    conv, norm, relu6 = model.features[0]
    head, middle = torch.nn.Sequential(conv, norm), torch.nn.Sequential(relu6, *model.features[1:])
    for step in range(args.steps + 1):
        batch = rows[step * args.batch : (step + 1) * args.batch]
        x = (batch[:, 1:].reshape(-1, 3, 32, 32) / 255.0 - mean[:, None, None]) / std[:, None, None]
        x = torch.nn.functional.interpolate(x, size=224, mode="bilinear", align_corners=False)
        head_act = head(x)
        head_act.retain_grad()
        # a copy, because the middle's ReLU6 works in place
        mid_act = middle(head_act.clone())
        mid_act.retain_grad()
        logits = model.classifier(mid_act.mean([2, 3]))
        loss = torch.nn.functional.cross_entropy(logits, batch[:, 0].long())
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step} loss {loss.item():.3f}", flush=True)
    os.makedirs(args.out, exist_ok=True)
    for name, t in (("head_act", head_act), ("mid_act", mid_act), ("mid_grad", mid_act.grad),
                    ("head_grad", head_act.grad)):
        nhwc = t.detach().permute(0, 2, 3, 1).contiguous()
        with open(os.path.join(args.out, name + ".f32"), "wb") as f:
            f.write(ctypes.string_at(nhwc.data_ptr(), 4 * nhwc.numel()))
        print(name, ",".join(map(str, nhwc.shape)))


if __name__ == "__main__":
    main()
