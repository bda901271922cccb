"""Volumes in a script: gradients at both ends, steps in chunks, files, and what errors say. Networks are in papers_volumes.py.

    volumes.py SERVER"""
import os
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

import split

SERVER, SHAPE = sys.argv[1], (4, 2, 4, 8, 6)
torch.set_num_threads(1)


def net():
    torch.manual_seed(5)
    return nn.Sequential(nn.Conv3d(2, 8, 3, (1, 2, 2), 1), nn.InstanceNorm3d(8, affine=True), nn.LeakyReLU(0.01), nn.ConvTranspose3d(8, 3, (1, 2, 2), (1, 2, 2)))


def remote(module, **more):
    return split.RemoteModule(module, SERVER, example=SHAPE, optimizer={"kind": "sgd", "lr": 0.1}, chunks=2, **more)


def learned(module, pipelined=False):
    """The ends' gradients and the middle's weights behind two steps."""
    torch.manual_seed(6)
    head, tail, middle = nn.Conv3d(1, 2, 1), nn.Conv3d(3, 2, 1), module
    far = isinstance(middle, split.RemoteModule)
    opt = None if far else torch.optim.SGD(middle.parameters(), 0.1)
    for _ in range(2):
        x, t = torch.randn(SHAPE[0], 1, *SHAPE[2:]), torch.randint(0, 2, (SHAPE[0], *SHAPE[2:]))
        [m.zero_grad() for m in (head, tail, *(() if far else (middle,)))]
        if pipelined:
            middle.pipelined(head, lambda y, t: F.cross_entropy(tail(y), t), x, t)
        else:
            F.cross_entropy(tail(middle(head(x))), t).backward()
        (middle if far else opt).step()
    state = [v for v in middle.state_dict().values()]
    if far:
        middle.close(True)
    return [p.grad for m in (head, tail) for p in m.parameters()] + state


def refused(says, call):
    try:
        call()
    except split.Error as e:
        assert says in str(e), f"{e} lacks {says!r}"
        return
    raise AssertionError(f"not refused: {says}")


theirs = learned(net())
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "net.safetensors")
    split.write_network(net(), torch.zeros(SHAPE), path)
    for ours in (learned(remote(net())), learned(remote(net()), pipelined=True), learned(remote(path))):
        assert len(ours) == len(theirs) and all((a - b).abs().max() < 1e-6 for a, b in zip(ours, theirs))
    refused("it takes [rows, 2, 4, 8, 6], and example has [4, 2, 32, 6]",
            lambda: split.RemoteModule(path, SERVER, example=(4, 2, 32, 6), optimizer={"kind": "sgd", "lr": 0.1}))
middle = remote(net())
refused("an input of [4, 2, 32, 6]; the middle was made for [rows, 2, 4, 8, 6]", lambda: middle(torch.zeros(4, 2, 32, 6)))
middle.close(True)
for module, says in ((nn.Conv2d(2, 3, 1), "Conv2d is not known on the server for volumes [2, 4, 8, 6]"), (nn.Conv3d(2, 3, (3, 3, 5), padding=(1, 1, 2)), "padding=(1, 2): the server has equal"),
                     (nn.Conv3d(2, 3, 9), "larger than [4, 8, 6]"), (nn.Conv3d(2, 3, 3, padding="same"), "give numbers"), (nn.MaxPool3d(2, ceil_mode=True), "ceil_mode=True"),
                     (nn.LayerNorm(6), "LayerNorm is not known on the server for volumes"), (nn.Linear(6, 2), "Linear is not known on the server for volumes"),
                     (nn.AdaptiveAvgPool3d(2), "of volumes the server has 1"), (nn.Upsample(scale_factor=1.5), "by whole factors")):
    refused(says, lambda: remote(nn.Sequential(nn.Conv3d(2, 2, 1), module)))
for codec in ("downsample:2", {"mid_act": "cells:2|topk:0.1"}):
    refused("would mix rows of neighbouring slices of volumes", lambda: split.RemoteModule(nn.Conv3d(2, 3, 1), SERVER, example=(4, 2, 4, 8, 6), codec=codec,
                                                                                           optimizer={"kind": "sgd", "lr": 0.1}))
refused("5-D tensor [n, C, D, H, W]", lambda: split.RemoteModule(nn.Conv3d(2, 3, 1), SERVER, example=(4, 2, 8, 6), optimizer={"kind": "sgd", "lr": 0.1}))
