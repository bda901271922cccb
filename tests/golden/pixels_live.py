#!/usr/bin/env python3
"""A small U-Net with a class for each pixel: its data and its ONNX file, ten steps of SGD as PyTorch takes them, and metrics by sklearn.

usage: pixels_live.py make FOLDER               pictures, masks, unet.safetensors, plain.safetensors without norms, and resized.safetensors; a file for each of LOSSES, of ten steps
       pixels_live.py same [LOG LOSSES]…        the losses of log.jsonl are those to 1e-4
       pixels_live.py scores FOLDER PREDICTED EVAL   masks of FOLDER/masks/val against those that were predicted: metrics of `splitc eval --json`
(needs torch, torchvision, PIL and sklearn; part of tests/e2e/pixels.sh)
"""
import json
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F
import torchvision.transforms.functional as T
from make_onnx import convert
from PIL import Image

CLASSES, SIDE, STEPS, IGNORED = 3, 32, 10, 255
WEIGHTS = torch.tensor([0.5, 1.0, 2.0])


def cross_entropy(x, y, weight=None):
    return F.cross_entropy(x, y, weight=weight, ignore_index=IGNORED)


def dice(x, y, first=0):
    """monai.losses.DiceLoss(to_onehot_y=True, softmax=True), of the pixels that count; first=1: include_background=False."""
    counts = (y != IGNORED)[:, None]
    y = F.one_hot(y * (y != IGNORED), CLASSES).permute(0, 3, 1, 2) * counts
    p = torch.softmax(x, 1) * counts
    shared, both = (p * y).sum((2, 3)), (p + y).sum((2, 3))
    return (1 - (2 * shared + 1e-5) / (both + 1e-5))[:, first:].mean()


# of unet; of plain, whose losses chunks do not change
LOSSES = {"losses": cross_entropy, "weighted": lambda x, y: cross_entropy(x, y, WEIGHTS)}
PLAIN = {"dice": dice, "dice_ce": lambda x, y: dice(x, y) + cross_entropy(x, y, WEIGHTS), "foreground_dice": lambda x, y: dice(x, y, 1),
         "foreground_dice_ce": lambda x, y: dice(x, y, 1) + cross_entropy(x, y, WEIGHTS)}
RESIZED = {"resized": cross_entropy}
LR = {"dice": 1, "foreground_dice": 1}


class Resized(torch.nn.Module):
    """Ends as torchvision's segmentation networks do: PyTorch 1.13 leaves the output's sizes open in the file."""

    def __init__(self):
        super().__init__()
        self.down1 = torch.nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.last = torch.nn.Conv2d(16, CLASSES, 3, padding=1)
        self.other = torch.nn.Conv2d(16, CLASSES, 1)

    def forward(self, x):
        y = F.relu(self.down1(x))
        return F.interpolate(self.other(y) + self.last(y), size=x.shape[-2:], mode="bilinear", align_corners=False)


class UNet(torch.nn.Module):
    def __init__(self, norm=torch.nn.BatchNorm2d):
        super().__init__()
        self.down1 = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm1 = norm(8)
        self.down2 = torch.nn.Conv2d(8, 16, 3, padding=1)
        self.norm2 = norm(16)
        self.up = torch.nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.join = torch.nn.Conv2d(16, 8, 3, padding=1)
        self.last = torch.nn.Conv2d(8, CLASSES, 1)

    def forward(self, x):
        x = F.relu(self.norm1(self.down1(x)))
        y = F.relu(self.norm2(self.down2(F.max_pool2d(x, 2))))
        return self.last(F.relu(self.join(torch.cat([x, self.up(y)], 1))))


def make_pair(rng, folder, part, i):
    """A disc and a square on noise; a rim that does not count. Masks take turns: grey, a palette."""
    h, w = 48, 40 + i % 3
    y, x = np.mgrid[:h, :w]
    mask = np.zeros((h, w), np.uint8)
    disc = np.hypot(y - rng.integers(12, 36), x - rng.integers(12, 28))
    mask[disc < 9] = 1
    mask[(disc >= 9) & (disc < 10)] = IGNORED
    top, left = rng.integers(0, 30, 2)
    mask[top:top + 12, left:left + 8] = 2
    picture = rng.integers(0, 120, (h, w, 3)) + 130 * np.stack([mask == 1, mask == 2, mask == 0], 2)
    name = f"{part}/{'ab'[i % 2]}/photo-{i}"
    for base in (folder, f"{folder}/masks"):
        os.makedirs(os.path.dirname(f"{base}/{name}"), exist_ok=True)
    Image.fromarray(picture.astype(np.uint8)).save(f"{folder}/{name}.png")
    image = Image.fromarray(mask)
    if i % 2:
        image.putpalette(bytes(rng.integers(0, 256, 768, dtype=np.uint8)))
    image.save(f"{folder}/masks/{name}.png")
    return name


def prepared(folder, name):
    """Resize((40, 40)), flipped, turned by 30 degrees, CenterCrop(32): what pixels.sh's config says."""
    picture, mask = Image.open(f"{folder}/{name}.png"), Image.fromarray(np.array(Image.open(f"{folder}/masks/{name}.png")))
    picture, mask = T.resize(picture, [40, 40]), mask.resize((40, 40), Image.NEAREST)
    picture, mask = T.rotate(T.hflip(picture), 30), T.rotate(T.hflip(mask), 30, fill=IGNORED)
    picture, mask = T.center_crop(picture, SIDE), T.center_crop(mask, SIDE)
    return (T.to_tensor(picture) - 0.5) / 0.25, torch.from_numpy(np.array(mask)).long()


def losses_of(net, x, y, loss_of, lr):
    optimizer, losses = torch.optim.SGD(net.parameters(), lr), []
    for _ in range(STEPS):
        loss = loss_of(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses


def make(folder):
    rng = np.random.default_rng(5)
    torch.manual_seed(5)
    torch.use_deterministic_algorithms(True)
    names = [make_pair(rng, folder, "train", i) for i in range(8)]
    for i in range(6):
        make_pair(rng, folder, "val", i)
    pairs = [prepared(folder, name) for name in names]
    x, y = torch.stack([p[0] for p in pairs]), torch.stack([p[1] for p in pairs])
    networks = ("unet", UNet(), LOSSES), ("plain", UNet(lambda n: torch.nn.Conv2d(n, n, 1)), PLAIN), ("resized", Resized(), RESIZED)
    for name, net, losses in networks:
        start = {k: v.clone() for k, v in net.train().state_dict().items()}
        torch.onnx.export(net, x[:1], f"{folder}/{name}.onnx", training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                          opset_version=13, dynamic_axes={"x": {0: "n"}}, input_names=["x"])
        convert(f"{folder}/{name}.onnx")
        for file, loss_of in losses.items():
            net.load_state_dict(start)
            json.dump(losses_of(net, x, y, loss_of, LR.get(file, 0.1)), open(f"{folder}/{file}.json", "w"))


def same(*pairs):
    for log, losses in zip(pairs[::2], pairs[1::2]):
        want = json.load(open(losses))
        have = [json.loads(line)["loss"] for line in open(log) if line.startswith('{"type":"step"')]
        assert len(have) == len(want) > 2, f"{log}: {len(have)} steps"
        worst = max(abs(a - b) / abs(b) for a, b in zip(have, want))
        print(f"{len(have)} losses, {have[0]:.4f} to {have[-1]:.4f}, at most {worst:.1e} from PyTorch's")
        assert worst < 1e-4 and want[-1] < 0.95 * want[0], (log, have, want)


def scores(folder, predicted, evaluation):
    from sklearn.metrics import f1_score, jaccard_score
    said, right = [], []
    for path in sorted(f"{part}/{name}" for part in "ab" for name in os.listdir(f"{predicted}/{part}")):
        mask = Image.fromarray(np.array(Image.open(f"{folder}/masks/val/{path}")))
        right.append(np.array(mask.resize((SIDE, SIDE), Image.NEAREST)).ravel())
        image = Image.open(f"{predicted}/{path}")
        assert image.mode == "P" and image.size == mask.size, (image.mode, image.size)
        assert image.getpalette()[:9] == [0, 0, 0, 128, 0, 0, 0, 128, 0], image.getpalette()
        said.append(np.array(image.resize((SIDE, SIDE), Image.NEAREST)).ravel())
    said, right = np.concatenate(said), np.concatenate(right)
    said, right = said[right != IGNORED], right[right != IGNORED]
    have = json.load(open(evaluation))
    for name, score in (("mean_iou", jaccard_score), ("dice", f1_score)):
        assert abs(have["test_metrics"][name] - score(right, said, average="macro", zero_division=0)) < 1e-9, name
        of = score(right, said, average=None, labels=range(CLASSES))
        assert np.allclose([t[name] for t in have["targets"]], of, atol=1e-9), (name, of)
    assert abs(have["test_acc"] - np.mean(said == right)) < 1e-9, (have["test_acc"], np.mean(said == right))
    print(f"mean IoU {have['test_metrics']['mean_iou']:.3f}, Dice {have['test_metrics']['dice']:.3f}, as sklearn")


if __name__ == "__main__":
    {"make": make, "same": same, "scores": scores}[sys.argv[1]](*sys.argv[2:])
