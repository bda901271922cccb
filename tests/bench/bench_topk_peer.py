#!/usr/bin/env python3
"""usage: bench_topk_peer.py CONFIG BACKBONE FOLDER RATIO [--set KEY=VALUE]…

Trains MobileNetV2 (form: cifar, partition 1:-1) with top-k of RATIO on all tensors, by splitc and in PyTorch: the same
weights, batches, chunks and learning rates. In PyTorch, top-k takes the largest magnitudes of a chunk's activation, and its
gradient passes at the same places. Prints losses of both, and accuracies on the test set. CONFIG has train.eval_every 0 and
no dropout. BACKBONE: torchvision's weights as safetensors. BUILD is the folder of the programs, build/release.
"""
import argparse
import json
import os
import subprocess
from types import SimpleNamespace

import torch
from bench_curve import BUILD, batches, effective, golden, with_sets
from torch import nn
from torchvision.models import mobilenet_v2


class TopK(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, ratio):
        places = torch.topk(x.reshape(-1).abs(), int(ratio * x.numel()))[1]
        ctx.mask = torch.zeros(x.numel()).index_fill_(0, places, 1).view(x.shape)
        return x * ctx.mask

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.mask, None


def logits(model, x, ratio):
    x = TopK.apply(model.features[0](x), ratio)
    return model.classifier(TopK.apply(model.features[1:](x), ratio).mean([2, 3]))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    for name in "config", "backbone", "folder":
        parser.add_argument(name)
    parser.add_argument("ratio", type=float)
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    torch.manual_seed(1)
    model = mobilenet_v2(num_classes=10, dropout=0)
    golden.cifar_stem(model)
    model.load_state_dict({k: torch.from_numpy(v.copy()) for k, v in golden.read_safetensors(args.backbone)[0].items()}, strict=False)
    golden.write_safetensors(f"{args.folder}/init.safetensors", golden.state_of(model))

    sets = [*args.set, f"model.weights={args.folder}/init.safetensors"]
    conf = effective(SimpleNamespace(config=args.config), sets)
    more = [f"codec=topk:{args.ratio:g}", f"log.dir={args.folder}/splitc"]
    subprocess.run([f"{BUILD}/splitc", "train", args.config, "--local", "--fresh", *with_sets(sets + more)], stdout=subprocess.DEVNULL, check=True)
    lines = [json.loads(line) for line in open(f"{args.folder}/splitc/log.jsonl")]
    chunks = int(conf["train.chunks"])
    optimizer = torch.optim.SGD(model.parameters(), lr=1, momentum=float(conf["train.optimizer.momentum"]), weight_decay=float(conf["train.optimizer.weight_decay"]))
    print("| step | splitc: loss | PyTorch: loss |\n|---|---|---|")
    for step, (x, y) in zip((one for one in lines if one["type"] == "step"), batches(args, sets, int(conf["train.epochs"]))):
        optimizer.param_groups[0]["lr"] = step["lr"]
        optimizer.zero_grad()
        loss = 0.0
        for part_x, part_y in zip(x.chunk(chunks), y.chunk(chunks)):
            part = nn.functional.cross_entropy(logits(model, part_x, args.ratio), part_y) * (len(part_y) / len(y))
            part.backward()
            loss += part.item()
        optimizer.step()
        print("| %d | %.5f | %.5f |" % (step["step"], step["loss"], loss), flush=True)
    model.eval()
    right = seen = 0
    with torch.no_grad():
        for x, y in batches(args, sets, 0):
            for part_x, part_y in zip(x.chunk(chunks), y.chunk(chunks)):
                right += int((logits(model, part_x, args.ratio).argmax(1) == part_y).sum())
                seen += len(part_y)
    print("\ntest accuracy: splitc %.2f %%, PyTorch %.2f %%" % (100 * lines[-1]["test_acc"], 100 * right / seen))


if __name__ == "__main__":
    main()
