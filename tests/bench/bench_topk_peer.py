#!/usr/bin/env python3
"""usage: bench_topk_peer.py CONFIG BACKBONE FOLDER RATIO [--set KEY=VALUE]…

Trains MobileNetV2 (form: cifar, partition 1:-1) with top-k of RATIO on all tensors, with splitc and in PyTorch: same weights, batches,
chunks and learning rates. In PyTorch, top-k keeps the largest magnitudes of a chunk's activation, and the gradient passes at the same
places. A second run in PyTorch starts from weights with a random relative change of 1e-6; it shows how far rounding alone takes two runs
apart. Prints the losses of all three, their means over ten steps, and accuracies on the test set. RATIO 1 drops nothing. CONFIG must have
train.eval_every 0 and no dropout. BACKBONE: torchvision's weights as safetensors. BUILD: the folder of the programs (build/release).
"""
import argparse
import copy
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


class Peer:
    """A run in PyTorch."""

    def __init__(self, model, conf, ratio):
        self.model, self.ratio, self.chunks, self.losses = model, ratio, int(conf["train.chunks"]), []
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1, momentum=float(conf["train.optimizer.momentum"]), weight_decay=float(conf["train.optimizer.weight_decay"]))

    def step(self, x, y, lr):
        self.optimizer.param_groups[0]["lr"] = lr
        self.optimizer.zero_grad()
        loss = 0.0
        for part_x, part_y in zip(x.chunk(self.chunks), y.chunk(self.chunks)):
            part = nn.functional.cross_entropy(logits(self.model, part_x, self.ratio), part_y) * (len(part_y) / len(y))
            part.backward()
            loss += part.item()
        self.optimizer.step()
        self.losses.append(loss)

    def accuracy(self, tests):
        self.model.eval()
        right = seen = 0
        with torch.no_grad():
            for x, y in tests:
                for part_x, part_y in zip(x.chunk(self.chunks), y.chunk(self.chunks)):
                    right += int((logits(self.model, part_x, self.ratio).argmax(1) == part_y).sum())
                    seen += len(part_y)
        return right / seen


def shaken(model):
    other = copy.deepcopy(model)
    with torch.no_grad():
        for p in other.parameters():
            p.mul_(1 + 1e-6 * torch.randn_like(p))
    return other


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
    steps = [line for line in lines if line["type"] == "step"]
    peers = [Peer(model, conf, args.ratio), Peer(shaken(model), conf, args.ratio)]
    print("| step | splitc | PyTorch | PyTorch, weights off by 1e-6 |\n|---|---|---|---|")
    for step, (x, y) in zip(steps, batches(args, sets, int(conf["train.epochs"]))):
        for peer in peers:
            peer.step(x, y, step["lr"])
        print("| %d | %.5f | %.5f | %.5f |" % (step["step"], step["loss"], *(p.losses[-1] for p in peers)), flush=True)
    runs = [[step["loss"] for step in steps], *(p.losses for p in peers)]
    for at in range(0, len(steps), 10):
        print("| mean %d to %d | %s |" % (at + 1, at + 10, " | ".join("%.4f" % (sum(r[at:at + 10]) / len(r[at:at + 10])) for r in runs)))
    print("| test accuracy, %% | %.2f | %.2f | %.2f |" % (100 * lines[-1]["test_acc"], *(100 * p.accuracy(batches(args, sets, 0)) for p in peers)))


if __name__ == "__main__":
    main()
