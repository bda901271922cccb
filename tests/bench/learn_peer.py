#!/usr/bin/python3
"""Does a network learn as much with Split as with a PyTorch loop of the same recipe?

    learn_peer.py [--only TASK,…] [--seeds N] [--orders N] [--write] [--keep FOLDER]

Each task is trained twice for each seed: by `splitc train --local`, which computes what a run over a link computes, and by a loop that is
written by hand with PyTorch, torchvision's transforms and a DataLoader. Both begin with the same weights, which PyTorch drew. All else is
their own: reading, crops, order, schedule, loss, optimizer. A line has the mean of the figure on the test part, its standard error, and
the difference divided by the error of the difference; above 2 the script ends with status 1.

pictures  2,000 made ones of 48², 1 in 8 with a faint spot; crops, flips, balanced class weights, SGD; AUC
chunked   the same with train.chunks: 4, which `splitc init` writes: batch norms see 8 pictures at a time, also in the loop
cifar     CIFAR-10 at 32² (CIFAR_DIR: its binary files), five epochs of 10,000 pictures; accuracy
table     numbers and words with an interaction; AdamW; AUC
texts     sentences of 5 to 12 words with negations; an encoder layer; accuracy
masks     a class for each pixel, a small U-Net with batch norms; mean IoU

In front of them, `order`: with Split's order of rows the loop's first 40 losses equal Split's to 1e-4; and N of Split's orders beside N
of numpy's in one loop with the same weights. --seeds: 20 (3 for cifar). --orders: 200. --write: docs/results/learning.md. BUILD: the folder
of splitc.
"""
import argparse
import csv
import datetime
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from sklearn.metrics import roc_auc_score
from torch import nn
from torchvision import datasets, transforms as T

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build/release"))
RESULT = os.path.join(ROOT, "docs", "results", "learning.md")
sys.path.insert(0, os.path.join(ROOT, "python"))
import split  # noqa: E402

WARM_UP = 0.5  # epochs


# ---- what both sides do with a network

def rate(recipe, step, steps_an_epoch):
    """The learning rate of a step, from 0 on: a linear warm-up, then a cosine to 0 (docs/config.md, train.schedule)."""
    warm, all_steps = math.floor(WARM_UP * steps_an_epoch + 0.5), recipe["epochs"] * steps_an_epoch
    if step < warm:
        return recipe["lr"] * min(1, (step + 1) / warm)
    return recipe["lr"] * 0.5 * (1 + math.cos(math.pi * (step - warm) / (all_steps - warm)))


def optimizer_of(recipe, parameters):
    if recipe["optimizer"] == "sgd":
        return torch.optim.SGD(parameters, lr=recipe["lr"], momentum=0.9, weight_decay=recipe["decay"])
    return torch.optim.AdamW(parameters, lr=recipe["lr"], weight_decay=recipe["decay"])


def weight_of(loss, y):
    """What labels count in a batch's mean, so that the mean of its chunks is that of the batch."""
    weight = getattr(loss, "weight", None)
    return len(y) if weight is None else weight[y].sum()


def loop(net, batches, recipe, loss, seen=None):
    """Trains net. batches(epoch): an iterable of (x, y). Returns the losses of all steps. seen: losses to take at most."""
    optimizer, losses, step = optimizer_of(recipe, net.parameters()), [], 0
    for epoch in range(recipe["epochs"]):
        net.train()
        for x, y in batches(epoch):
            for group in optimizer.param_groups:
                group["lr"] = rate(recipe, step, recipe["steps"])
            optimizer.zero_grad()
            total = 0
            for cx, cy in zip(x.chunk(recipe.get("chunks", 1)), y.chunk(recipe.get("chunks", 1))):
                part = loss(net(cx), cy) * weight_of(loss, cy) / weight_of(loss, y)
                part.backward()
                total += part.item()
            optimizer.step()
            losses.append(total)
            step += 1
            if seen and step == seen:
                return losses
    return losses


def outputs(net, batches):
    net.eval()
    with torch.no_grad():
        both = [(net(x), y) for x, y in batches]
    return torch.cat([o for o, _ in both]), torch.cat([y for _, y in both])


def auc(out, y):
    return roc_auc_score(y.numpy(), (out[:, 1] - out[:, 0]).numpy())


def accuracy(out, y):
    return (out.argmax(1) == y).float().mean().item()


def mean_iou(out, y):
    guess = out.argmax(1)
    return statistics.mean(((guess == c) & (y == c)).sum().item() / ((guess == c) | (y == c)).sum().item() for c in range(out.shape[1]))


def shuffled(x, y, batch, seed):
    g = torch.Generator().manual_seed(seed)
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=batch, shuffle=True, generator=g)


# ---- the tasks: make writes the data; net is a module; config is Split's; peer trains the loop and returns the figure

def pooled(a, b):
    return [nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2)]


class Pictures:
    figure, seeds, shape = "auc", 20, (2, 3, 40, 40)
    recipe = {"optimizer": "sgd", "lr": 0.05, "decay": 5e-4, "epochs": 6, "batch": 32, "steps": 63}
    mean, std = (0.45, 0.45, 0.45), (0.12, 0.12, 0.12)

    def make(self, folder):
        draw = np.random.default_rng(7)
        for part, count in ("train", 2000), ("test", 1000):
            for i in range(count):
                ill = i % 8 == 0
                row, column = np.mgrid[:48, :48]
                grey = draw.normal(115, 22, (48, 48)) + 14 * np.sin(row / draw.uniform(4, 9)) + 14 * np.cos(column / draw.uniform(4, 9))
                if ill:
                    y, x = draw.integers(12, 36, 2)
                    grey += draw.uniform(18, 45) * np.exp(-((row - y) ** 2 + (column - x) ** 2) / 24)
                name = os.path.join(folder, part, "ill" if ill else "healthy")
                os.makedirs(name, exist_ok=True)
                Image.fromarray(np.clip(grey, 0, 255).astype(np.uint8)).save(os.path.join(name, f"{i:04d}.png"))

    def net(self):
        return nn.Sequential(*pooled(3, 16), *pooled(16, 32), *pooled(32, 48), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, 2))

    def config(self, folder):
        normalize = f"Normalize({self.mean}, {self.std})"
        return {"data": {"kind": "images", "dir": folder, "threads": 1,
                         "transforms": ["RandomResizedCrop(40, scale=(0.7, 1))", "RandomHorizontalFlip()", normalize],
                         "test_transforms": ["Resize(44)", "CenterCrop(40)", normalize]},
                "train": {"class_weights": "balanced", "metrics": ["auc"]}}

    def peer(self, net, folder, seed):
        torch.manual_seed(seed)
        end = [T.ToTensor(), T.Normalize(self.mean, self.std)]
        train = datasets.ImageFolder(os.path.join(folder, "train"), T.Compose(
            [T.RandomResizedCrop(40, scale=(0.7, 1)), T.RandomHorizontalFlip(), *end]))
        test = datasets.ImageFolder(os.path.join(folder, "test"), T.Compose([T.Resize(44), T.CenterCrop(40), *end]))
        count = torch.bincount(torch.tensor(train.targets)).float()
        loss = nn.CrossEntropyLoss(weight=count.sum() / (len(count) * count))
        rows = torch.utils.data.DataLoader(train, batch_size=self.recipe["batch"], shuffle=True)
        loop(net, lambda epoch: rows, self.recipe, loss)
        return auc(*outputs(net, torch.utils.data.DataLoader(test, batch_size=250)))


class Chunked(Pictures):
    recipe = {**Pictures.recipe, "chunks": 4}


class Cifar:
    figure, seeds, shape = "accuracy", 3, (2, 3, 32, 32)
    recipe = {"optimizer": "sgd", "lr": 0.1, "decay": 5e-4, "epochs": 5, "batch": 64, "steps": 157}
    mean, std = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)

    def make(self, folder):
        """Pictures in folders of classes: the first 1,000 of each class of data_batch_*.bin, and 200 of each of test_batch.bin."""
        source = os.environ.get("CIFAR_DIR", os.path.join(ROOT, "data", "cifar-10-batches-bin"))
        for part, most, files in ("train", 1000, [f"data_batch_{i}.bin" for i in range(1, 6)]), ("test", 200, ["test_batch.bin"]):
            taken = [0] * 10
            for name in files:
                for row in np.fromfile(os.path.join(source, name), np.uint8).reshape(-1, 3073):
                    k = int(row[0])
                    if taken[k] < most:
                        to = os.path.join(folder, part, str(k))
                        os.makedirs(to, exist_ok=True)
                        Image.fromarray(row[1:].reshape(3, 32, 32).transpose(1, 2, 0)).save(os.path.join(to, f"{taken[k]:04d}.png"))
                        taken[k] += 1

    def net(self):
        return nn.Sequential(*pooled(3, 32), *pooled(32, 64), *pooled(64, 128), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))

    def config(self, folder):
        normalize = f"Normalize({self.mean}, {self.std})"
        return {"data": {"kind": "images", "dir": folder, "threads": 1, "test_transforms": ["CenterCrop(32)", normalize],
                         "transforms": ["RandomCrop(32, padding=4)", "RandomHorizontalFlip()", normalize]}}

    def peer(self, net, folder, seed):
        torch.manual_seed(seed)
        end = [T.ToTensor(), T.Normalize(self.mean, self.std)]
        train = datasets.ImageFolder(os.path.join(folder, "train"), T.Compose([T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), *end]))
        test = datasets.ImageFolder(os.path.join(folder, "test"), T.Compose(end))
        rows = torch.utils.data.DataLoader(train, batch_size=self.recipe["batch"], shuffle=True)
        loop(net, lambda epoch: rows, self.recipe, F.cross_entropy)
        return accuracy(*outputs(net, torch.utils.data.DataLoader(test, batch_size=250)))


class Table:
    figure, seeds, shape = "auc", 20, (2, 11)
    recipe = {"optimizer": "adamw", "lr": 0.003, "decay": 0.01, "epochs": 10, "batch": 32, "steps": 63}
    words = ("north", "south", "west")

    def make(self, folder):
        draw = np.random.default_rng(11)
        for part in "train", "test":
            with open(os.path.join(folder, part + ".csv"), "w", newline="") as f:
                out = csv.writer(f)
                out.writerow([f"x{i}" for i in range(8)] + ["place", "label"])
                for _ in range(2000):
                    x, place = draw.normal(size=8) * (1, 10, 0.1, 1, 1, 3, 1, 1) + (0, 50, 0, 0, 2, 0, 0, 0), int(draw.integers(3))
                    z = x[0] * (x[1] - 50) / 10 + np.sin(20 * x[2]) + (place == 1) * x[3] - 0.3
                    out.writerow([f"{v:.6g}" for v in x] + [self.words[place], int(z + draw.logistic() * 0.5 > 0)])

    def net(self):
        return nn.Sequential(nn.Linear(11, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))

    def config(self, folder):
        return {"data": {"kind": "csv", "dir": folder, "label": "label"}, "train": {"metrics": ["auc"]}}

    def tensors(self, folder):
        parts = {}
        for part in "train", "test":
            with open(os.path.join(folder, part + ".csv")) as f:
                rows = list(csv.DictReader(f))
            number = np.array([[float(r[f"x{i}"]) for i in range(8)] for r in rows])
            word = np.array([[r["place"] == w for w in self.words] for r in rows])
            parts[part] = number, word, torch.tensor([int(r["label"]) for r in rows])
        mean, std = parts["train"][0].mean(0), parts["train"][0].std(0)
        return {part: (torch.tensor(np.hstack([(number - mean) / std, word]), dtype=torch.float32), y)
                for part, (number, word, y) in parts.items()}

    def peer(self, net, folder, seed):
        data = self.tensors(folder)
        rows = shuffled(*data["train"], self.recipe["batch"], seed)
        loop(net, lambda epoch: rows, self.recipe, F.cross_entropy)
        return auc(*outputs(net, [data["test"]]))


class Encoder(nn.Module):
    """ids [rows, tokens]; pad: where tokens are padding, or None."""

    def __init__(self, words, tokens, width=48):
        super().__init__()
        self.word, self.place = nn.Embedding(words, width), nn.Embedding(tokens, width)
        self.layer = nn.TransformerEncoderLayer(width, 4, 96, dropout=0.0, batch_first=True)
        self.out = nn.Linear(width, 2)

    def forward(self, ids, pad=None):
        x = self.word(ids) + self.place(torch.arange(ids.shape[1]))
        return self.out(self.layer(x, src_key_padding_mask=pad)[:, 0])


class Texts:
    figure, seeds, tokens = "accuracy", 20, 16
    recipe = {"optimizer": "adamw", "lr": 0.003, "decay": 0.01, "epochs": 8, "batch": 32, "steps": 38}
    good, bad, plain = ["fine", "great", "lovely"], ["poor", "awful", "dull"], [f"word{i}" for i in range(30)]
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

    def words(self):
        return self.marks + self.good + self.bad + ["not"] + self.plain

    def make(self, folder):
        draw = np.random.default_rng(13)
        with open(os.path.join(folder, "vocab.txt"), "w") as f:
            f.write("".join(w + "\n" for w in self.words()))
        for part, count in ("train", 1200), ("test", 1600):
            with open(os.path.join(folder, part + ".jsonl"), "w") as f:
                for _ in range(count):
                    row = [str(w) for w in draw.choice(self.plain, draw.integers(4, 11))]
                    label, negated = int(draw.integers(2)), int(draw.integers(2))
                    mood = [str(draw.choice(self.good if label ^ negated else self.bad))]
                    at = int(draw.integers(len(row) + 1))
                    row[at:at] = ["not"] + mood if negated else mood
                    f.write(json.dumps({"text": " ".join(row), "label": label}) + "\n")

    def net(self):
        return Encoder(len(self.words()), self.tokens)

    def example(self):
        return torch.zeros(2, self.tokens, dtype=torch.long)

    def config(self, folder):
        return {"data": {"kind": "text", "dir": folder, "tokenizer": os.path.join(folder, "vocab.txt")}}

    def peer(self, net, folder, seed):
        number = {w: i for i, w in enumerate(self.words())}
        data = {}
        for part in "train", "test":
            with open(os.path.join(folder, part + ".jsonl")) as f:
                rows = [json.loads(line) for line in f]
            ids = torch.zeros(len(rows), self.tokens, dtype=torch.long)
            for i, row in enumerate(rows):
                line = ["[CLS]"] + row["text"].split() + ["[SEP]"]
                ids[i, :len(line)] = torch.tensor([number[w] for w in line])
            data[part] = ids, torch.tensor([row["label"] for row in rows])
        masked = Masked(net)
        rows = shuffled(*data["train"], self.recipe["batch"], seed)
        loop(masked, lambda epoch: rows, self.recipe, F.cross_entropy)
        return accuracy(*outputs(masked, [data["test"]]))


class Masked(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, ids):
        return self.net(ids, ids == 0)


class SmallUNet(nn.Module):
    def __init__(self):
        super().__init__()
        def block(a, b):
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU())
        self.down1, self.down2, self.bottom = block(3, 12), block(12, 24), block(24, 32)
        self.up2, self.up1, self.out = block(56, 24), block(36, 12), nn.Conv2d(12, 2, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.bottom(F.max_pool2d(b, 2))
        b = self.up2(torch.cat([F.interpolate(c, scale_factor=2.0), b], 1))
        return self.out(self.up1(torch.cat([F.interpolate(b, scale_factor=2.0), a], 1)))


class Masks:
    figure, seeds, shape = "mean_iou", 20, (2, 3, 32, 32)
    recipe = {"optimizer": "sgd", "lr": 0.1, "decay": 1e-4, "epochs": 6, "batch": 16, "steps": 25}
    mean, std = (0.45, 0.45, 0.45), (0.15, 0.15, 0.15)

    def make(self, folder):
        draw = np.random.default_rng(17)
        for part, count in ("train", 400), ("test", 200):
            os.makedirs(os.path.join(folder, part))
            os.makedirs(os.path.join(folder, "masks", part))
            for i in range(count):
                y, x, a, b = *draw.integers(8, 24, 2), *draw.uniform(3, 8, 2)
                row, column = np.mgrid[:32, :32]
                inside = ((row - y) / a) ** 2 + ((column - x) / b) ** 2 < 1
                grey = draw.normal(105, 30, (32, 32)) + 22 * inside + 15 * np.sin(column / draw.uniform(2, 6))
                for at, picture in (part, np.clip(grey, 0, 255)), (os.path.join("masks", part), inside):
                    Image.fromarray(picture.astype(np.uint8)).save(os.path.join(folder, at, f"{i:04d}.png"))

    def net(self):
        return SmallUNet()

    def config(self, folder):
        normalize = f"Normalize({self.mean}, {self.std})"
        return {"model": {"task": "pixels"},
                "data": {"kind": "images", "dir": folder, "threads": 1,
                         "transforms": ["Resize((32, 32))", "RandomHorizontalFlip()", normalize],
                         "test_transforms": ["Resize((32, 32))", normalize]}}

    def peer(self, net, folder, seed):
        data = {}
        for part in "train", "test":
            names = sorted(os.listdir(os.path.join(folder, part)))
            x = torch.stack([T.functional.to_tensor(Image.open(os.path.join(folder, part, n)).convert("RGB")) for n in names])
            y = torch.stack([torch.tensor(np.array(Image.open(os.path.join(folder, "masks", part, n))), dtype=torch.long) for n in names])
            data[part] = T.functional.normalize(x, self.mean, self.std), y
        g = torch.Generator().manual_seed(seed + 1000)
        rows = shuffled(*data["train"], self.recipe["batch"], seed)

        def flipped(epoch):
            for x, y in rows:
                flip = torch.rand(len(x), generator=g) < 0.5
                yield torch.where(flip[:, None, None, None], x.flip(3), x), torch.where(flip[:, None, None], y.flip(2), y)
        loop(net, flipped, self.recipe, F.cross_entropy)
        return mean_iou(*outputs(net, [data["test"]]))


TASKS = {"pictures": Pictures, "chunked": Chunked, "cifar": Cifar, "table": Table, "texts": Texts, "masks": Masks}


# ---- Split

def run_split(task, net, folder, work, seed, codec="none"):
    """Trains the task by splitc. Returns the last record of its log and the losses of its steps."""
    file = os.path.join(work, "net.safetensors")
    example = task.example() if hasattr(task, "example") else torch.zeros(*task.shape)
    split.write_network(net, example, file)
    recipe, config = task.recipe, task.config(folder)
    config["model"] = {**config.get("model", {}), "network": file}
    config["partition"] = "1:-1"
    config["train"] = {**config.get("train", {}), "batch": recipe["batch"], "chunks": recipe.get("chunks", 1), "epochs": recipe["epochs"],
                       "eval_every": 0, "seed": seed, "checkpoint_every": 0,
                       "optimizer": {"kind": recipe["optimizer"], "lr": recipe["lr"], "weight_decay": recipe["decay"],
                                     **({"momentum": 0.9} if recipe["optimizer"] == "sgd" else {})},
                       "schedule": {"kind": "cosine", "warmup_epochs": WARM_UP}}
    config.update({"codec": codec, "threads": 1, "log": {"dir": os.path.join(work, f"run-{seed}")}})
    path = os.path.join(work, "config.yaml")
    with open(path, "w") as f:
        json.dump(config, f)  # JSON is YAML
    done = subprocess.run([os.path.join(BUILD, "splitc"), "train", path, "--local", "--fresh", "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"learn_peer.py: splitc ended with {done.returncode}:\n{done.stderr}")
    with open(os.path.join(config["log"]["dir"], "log.jsonl")) as f:
        lines = [json.loads(line) for line in f]
    return lines, [line["loss"] for line in lines if line["type"] == "step"]


def figure_of(task, lines):
    last = [line for line in lines if line["type"] == "epoch"][-1]
    found = {"accuracy": last["test_acc"], **last["test_metrics"]}
    return found[task.figure]


def compare(name, seeds, work):
    task, folder = TASKS[name](), os.path.join(work, name)
    os.makedirs(folder)
    task.make(folder)
    ours, theirs = [], []
    for seed in range(1, (seeds or task.seeds) + 1):
        torch.manual_seed(seed)
        net = task.net()
        ours.append(figure_of(task, run_split(task, net, folder, work, seed)[0]))
        theirs.append(task.peer(net, folder, seed))
        print(f"{name} {seed}: Split {ours[-1]:.4f}, PyTorch {theirs[-1]:.4f}", file=sys.stderr)
    return row(name, task.figure, ours, theirs)


def row(name, figure, ours, theirs):
    error = [statistics.stdev(v) / math.sqrt(len(v)) if len(v) > 1 else 0.0 for v in (ours, theirs)]
    apart, both = statistics.mean(ours) - statistics.mean(theirs), math.hypot(*error)
    return {"task": name, "figure": figure, "runs": len(ours), "split": statistics.mean(ours), "split_error": error[0],
            "peer": statistics.mean(theirs), "peer_error": error[1], "errors_apart": apart / both if both else 0.0}


# ---- the order of rows: common/base/rng.h and client/data/loader_order.c

def philox(seed, step, tensor, quads):
    """The four words of each of quads' numbers: [n, 4] uint64 below 2^32."""
    low = np.uint64(0xFFFFFFFF)
    c = [np.asarray(quads, np.uint64), np.full(len(quads), tensor, np.uint64), np.full(len(quads), step, np.uint64), np.zeros(len(quads), np.uint64)]
    k = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        p, q = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(q >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]), q & low, (p >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]), p & low]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(c, 1)


def split_order(count, seed, epoch):
    word = philox(seed, epoch, 0xFF01, range((count + 2) // 4)).reshape(-1)
    order = list(range(count))
    for draw, last in enumerate(range(count - 1, 0, -1)):
        other = int(word[draw]) * (last + 1) >> 32
        order[last], order[other] = order[other], order[last]
    return order


def orders(count, work):
    """The two checks of the order, on the table."""
    task, folder = Table(), os.path.join(work, "order")
    os.makedirs(folder)
    task.make(folder)
    data, seen = task.tensors(folder), 40
    (x, y), batch = data["train"], task.recipe["batch"]

    def in_order(order_of):
        def batches(epoch):
            order = torch.tensor(order_of(epoch))
            return ((x[i], y[i]) for i in order.split(batch))
        return batches

    def train(order_of, most=None):
        torch.manual_seed(1)
        net = task.net()
        losses = loop(net, in_order(order_of), task.recipe, F.cross_entropy, most)
        return net, losses
    torch.manual_seed(1)
    ours = run_split(task, task.net(), folder, work, 1)[1][:seen]
    theirs = train(lambda epoch: split_order(len(y), 1, epoch), seen)[1]
    far = max(abs(a - b) / b for a, b in zip(ours, theirs))
    print(f"order: {seen} losses, relative difference at most {far:.2g}", file=sys.stderr)
    if len(ours) != seen or far > 1e-4:
        sys.exit(f"learn_peer.py: with the same rows in the same order the losses differ by {far:.2g}")
    quality = [[], []]
    for seed in range(1, count + 1):
        draw = np.random.default_rng(seed)
        for k, order_of in enumerate((lambda epoch: split_order(len(y), seed, epoch), lambda epoch: draw.permutation(len(y)))):
            quality[k].append(auc(*outputs(train(order_of)[0], [data["test"]])))
    return far, row("order", "auc", *quality)


# ---- the page

def page(far, rows):
    name = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%h"], capture_output=True, text=True).stdout.strip()
    out = ["# Does it learn as much as PyTorch?", "",
           "    tests/bench/learn_peer.py --write", "",
           "trains each task by `splitc train --local` and by a loop written by hand with PyTorch, the same recipe and the same first weights. "
           "Reading, crops, order, schedule, loss and optimizer are each side's own. The script's head says what the tasks are.", ""]
    if far is not None:
        out += [f"With the same rows in the same order the first 40 losses of the table differ by {far:.1g} at most, relative. "
                "The row `order` has Split's orders beside numpy's, in one PyTorch loop.", ""]
    out += ["Means of the test part's figure, with their standard errors. The last column is the difference in errors of the difference: "
            "below −2 Split would be worse.", "",
            "| task | figure | runs | Split | PyTorch | difference in errors |", "|---|---|---|---|---|---|"]
    for r in rows:
        out.append(f"| {r['task']} | {r['figure']} | {r['runs']} | {r['split']:.4f} ± {r['split_error']:.4f} | "
                   f"{r['peer']:.4f} ± {r['peer_error']:.4f} | {r['errors_apart']:+.1f} |".replace("| -", "| −"))
    return "\n".join(out + ["", f"PyTorch {torch.__version__}, {datetime.date.today()}, commit {name}.", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="order," + ",".join(TASKS))
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--orders", type=int, default=200)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--keep", default="")
    args = parser.parse_args()
    os.environ.pop("OPENBLAS_CORETYPE", None)
    torch.set_num_threads(1)
    wanted = args.only.split(",")
    unknown = [w for w in wanted if w != "order" and w not in TASKS]
    if unknown:
        parser.error(f"there is no task {unknown[0]}: take some of order, {', '.join(TASKS)}")
    with tempfile.TemporaryDirectory() as work:
        work = args.keep or work
        far, first = orders(args.orders, work) if "order" in wanted else (None, None)
        rows = ([first] if first else []) + [compare(name, args.seeds, work) for name in TASKS if name in wanted]
    text = page(far, rows)
    print(text)
    if args.write:
        with open(RESULT, "w") as f:
            f.write(text)
    return any(abs(r["errors_apart"]) > 2 for r in rows)


if __name__ == "__main__":
    sys.exit(main())
