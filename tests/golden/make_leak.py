#!/usr/bin/env python3
"""Prints what tests/unit/test_leak.c expects of client/figures/similarity.c, on data that both make by formula: SSIM by PyTorch's
convolution in float64, the rest by numpy.
"""
import numpy as np
import torch


def pictures():
    i = np.arange(18 * 16 * 3)
    x = ((i * 37 + 11) % 101) / 101
    return x.reshape(18, 16, 3), np.clip(x + ((i * 53 + 7) % 89 - 44) / 400, 0, 1).reshape(18, 16, 3)


def ssim(x, y):
    g = torch.exp(-(torch.arange(11, dtype=torch.float64) - 5) ** 2 / (2 * 1.5**2))
    g = (g / g.sum())[:, None] * (g / g.sum())[None]
    blur = lambda a: torch.nn.functional.conv2d(torch.tensor(a.transpose(2, 0, 1)[:, None]), g[None, None])
    mx, my = blur(x), blur(y)
    sx, sy, sxy = blur(x * x) - mx**2, blur(y * y) - my**2, blur(x * y) - mx * my
    return float(((2 * mx * my + 1e-4) * (2 * sxy + 9e-4) / ((mx**2 + my**2 + 1e-4) * (sx + sy + 9e-4))).mean())


def vectors(n=12):
    i = np.arange(n * 5)
    x = (((i * i * 29 + i * 13) % 97) / 97).reshape(n, 5)
    j = np.arange(n * 7)
    return x, (((j * 41 + 3) % 83) / 83).reshape(n, 7) + x[:, :1] * 2


def dcor(x, y):
    def centred(v):
        d = np.sqrt(((v[:, None] - v[None]) ** 2).sum(2))
        n = len(d)
        c = d - d.sum(0) / (n - 2) - d.sum(1)[:, None] / (n - 2) + d.sum() / ((n - 1) * (n - 2))
        np.fill_diagonal(c, 0)
        return c

    a, b = centred(x), centred(y)
    return (a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum())


x, y = pictures()
print("psnr", 10 * np.log10(1 / ((x - y) ** 2).mean()))
print("ssim", ssim(x, y))
v, w = vectors()
print("dcor", dcor(v, w))


def word(seed, step, stream, n):
    """Philox4x32-10 of (seed, step, chunk 0, stream, element), for elements 0 … n - 1."""
    element = np.arange(n, dtype=np.uint64)
    c = [element // 4, *(np.full(n, w, np.uint64) for w in (stream, step, 0))]
    k = [seed, 0]
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]), p1 & np.uint64(0xFFFFFFFF),
             (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]), p0 & np.uint64(0xFFFFFFFF)]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.choose((element % 4).astype(int), c)


def decoder_losses(steps=20, n=64, side=4, channels=12, wide=32, rows=32, seed=5):
    """Losses of client/leak/decoder.c's steps, from the weights and with the rows that its seed draws."""
    nn, made = torch.nn, []

    def layer(kind, stream, terms, *args, **more):
        made.append(kind(*args, **more).double())
        shape = made[-1].weight.permute(0, 2, 3, 1).shape  # both kinds lie as [first, height, width, other]
        unit = (word(seed, stream, 0xFF00, made[-1].weight.numel()) >> np.uint64(8)) * 2.0**-24
        w = ((2 * unit - 1) / np.sqrt(terms)).reshape(shape).transpose(0, 3, 1, 2)
        made[-1].weight.data = torch.tensor(w)
        made[-1].bias.data.zero_()
        return made[-1]

    net = nn.Sequential(
        nn.BatchNorm2d(channels).double(), layer(nn.ConvTranspose2d, 4, channels * 4, channels, wide, 4, stride=2, padding=1),
        nn.BatchNorm2d(wide).double(), nn.ReLU(), layer(nn.Conv2d, 10, wide * 9, wide, wide, 3, padding=1), nn.ReLU(),
        layer(nn.Conv2d, 12, wide * 9, wide, wide, 3, padding=1), nn.ReLU(), layer(nn.Conv2d, 14, wide * 9, wide, 3, 3, padding=1))
    by_formula = lambda *shape: torch.tensor((np.arange(np.prod(shape)) * 3571 % 8191 / 8191).reshape(shape).transpose(0, 3, 1, 2))
    image, noise = by_formula(n, 2 * side, 2 * side, 3), by_formula(n, side, side, channels)
    act = torch.cat([torch.nn.functional.pixel_unshuffle(image, 2)], 1) + noise / 4
    optimizer, losses = torch.optim.Adam(net.parameters()), []
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 3e-3 * (1 + np.cos(np.pi * step / steps)) / 2
        row = (word(seed, step, 0xFF40, rows) * np.uint64(n) >> np.uint64(32)).astype(np.int64)
        loss = nn.functional.mse_loss(net(act[row]), (image[row] - 0.5) * 4)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item() / 16)
    return losses


losses = decoder_losses()
print("decoder's losses, of the first, the 10th and the 20th step", losses[0], losses[9], losses[19])
