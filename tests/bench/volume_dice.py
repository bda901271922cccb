#!/usr/bin/env python3
"""PyTorch's part of tests/bench/volume-dice.sh.

usage: volume_dice.py make FOLDER SIDE SEED WIDTH…   FOLDER/ct, and FOLDER/net-SEED.safetensors with the first weights of that seed
       volume_dice.py peer FOLDER RUN SEED SIDE BATCH WIDTH…   trains from these weights with the patches of bench_patches in FOLDER, by the
                                                            rates in RUN/log.jsonl, and prints a row of the table

It fails unless the first step has splitc's loss, and RUN/model.safetensors the Dice that splitc says: so weights, patches, loss and
figure are the same. `tenth`: how far apart a loss of the first ten steps is.
"""
import json
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "golden"))
import volumes_cases as cases  # noqa: E402

IGNORED = 255
SAME = 1e-4  # of a loss, and of a Dice, with other sums


def make(folder, side, seed, *widths):
    import split

    side = int(side)
    cases.ct(f"{folder}/ct", np.random.default_rng(7))
    torch.manual_seed(int(seed))
    split.write_network(cases.u_net([int(w) for w in widths]), torch.zeros(1, 1, side, side, side), f"{folder}/net-{seed}.safetensors")


def load(net, path):
    with open(path, "rb") as f:
        header, body = json.loads(f.read(int.from_bytes(f.read(8), "little"))), f.read()
    state = {k: torch.frombuffer(bytearray(body[slice(*v["data_offsets"])]), dtype=torch.float32).reshape(v["shape"])
             for k, v in header.items() if k in net.state_dict()}
    net.load_state_dict(state)


def loss_of(out, y):
    """MONAI's DiceCELoss(to_onehot_y=True, softmax=True), of the voxels that count."""
    counts = (y != IGNORED)[:, None]
    right = F.one_hot(y * (y != IGNORED), cases.CLASSES).movedim(-1, 1) * counts
    said = torch.softmax(out, 1) * counts
    shared, both = (said * right).flatten(2).sum(2), (said + right).flatten(2).sum(2)
    return (1 - (2 * shared + 1e-5) / (both + 1e-5)).mean() + F.cross_entropy(out, y, ignore_index=IGNORED)


def dice(net, x, y):
    """Of all voxels together: the mean over the classes that occur, as sklearn's f1_score with average="macro"."""
    with torch.no_grad():
        said = torch.cat([net(x[i:i + 2]).argmax(1) for i in range(0, len(x), 2)])
    both = [(2 * ((said == k) & (y == k)).sum() / ((said == k) & (y != IGNORED)).sum().add((y == k).sum())).item() for k in range(cases.CLASSES)]
    return float(np.nanmean(both))


def peer(folder, run, seed, side, batch, *widths):
    side, batch = int(side), int(batch)
    torch.set_num_threads(1)
    read = lambda name, kind, *more: torch.from_numpy(np.fromfile(f"{folder}/{name}", kind).reshape(-1, side, side, side, *more))
    (x, y), (tx, ty) = ((read(f"{part}.x", "f4", 1).movedim(-1, 1), read(f"{part}.y", "i4").long()) for part in ("train", "test"))
    log = [json.loads(line) for line in open(f"{run}/log.jsonl")]
    steps, said = [r for r in log if r["type"] == "step"], [r["test_metrics"]["dice"] for r in log if r.get("test_metrics")][-1]
    assert len(x) == batch * len(steps), (len(x), len(steps))
    net = cases.u_net([int(w) for w in widths])
    load(net, f"{run}/model.safetensors")
    here = dice(net, tx, ty)
    assert abs(here - said) < SAME, f"splitc says Dice {said}, and PyTorch finds {here} with its weights"
    load(net, f"{folder}/net-{seed}.safetensors")
    optimizer = torch.optim.AdamW(net.parameters(), weight_decay=0)
    apart = []
    for i, step in enumerate(steps):
        optimizer.param_groups[0]["lr"] = step["lr"]
        loss = loss_of(net(x[batch * i:batch * (i + 1)]), y[batch * i:batch * (i + 1)])
        apart.append(abs(loss.item() / step["loss"] - 1))
        assert i or apart[0] < SAME, f"the first loss is {loss.item()}, and splitc's {step['loss']}"
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    peers = dice(net, tx, ty)
    print(json.dumps({"seed": int(seed), "split": said, "peer": peers, "points": 100 * (said - peers), "first": apart[0], "tenth": max(apart[:10])}))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
