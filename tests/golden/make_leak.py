#!/usr/bin/env python3
"""Prints what tests/unit/test_leak.c expects of client/leak/metrics.c, on data that both make by formula: SSIM by PyTorch's
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


def dcor(x, y, unbiased):
    def centred(v):
        d = np.sqrt(((v[:, None] - v[None]) ** 2).sum(2))
        n = len(d)
        p, q = (n - 2, (n - 1) * (n - 2)) if unbiased else (n, n * n)
        c = d - d.sum(0) / p - d.sum(1)[:, None] / p + d.sum() / q
        if unbiased:
            np.fill_diagonal(c, 0)
        return c

    a, b = centred(x), centred(y)
    return (a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum())


x, y = pictures()
print("psnr", 10 * np.log10(1 / ((x - y) ** 2).mean()))
print("ssim", ssim(x, y))
v, w = vectors()
print("dcor usual", dcor(v, w, False), "corrected", dcor(v, w, True))
