#!/usr/bin/env python3
"""Cases of volumes for tests/e2e/volumes_*.sh: balls, shells and tubes in noise, as NIfTI, written with numpy alone.

usage: volumes_cases.py make FOLDER [SEQUENCES]   ct/ (slanted grids of two spacings) and mri/ (sequences, other axes), and networks for both
       volumes_cases.py classes FOLDER   sorted/ (a folder for each class), mixed/ (the same cases, their table in its order), classes.safetensors
       volumes_cases.py change HOW FILE…   brighter; moved by a voxel; a voxel of class 7; onlyball; flipped, at the same places; unplaced, without an affine; rgb and complex, by the header
       volumes_cases.py unet FOLDER SIDE [WIDTH…]   ct/ and unet.safetensors, of 16 to 256 channels
       volumes_cases.py prepared FOLDER CACHE LOW HIGH SPACING…   whether all prepared cases of FOLDER are what numpy and torch make of its files
       volumes_cases.py figures FOLDER MASKS LINES   whether the figures of predict --json are those of its masks
       volumes_cases.py predicted FOLDER MASKS NETWORK LOW HIGH SPACING…   whether masks of the test cases are what numpy and torch make of windows

Class 1 is a ball, class 2 a shell around another centre, class 3 a tube. All lie in mm, so a case's shapes are the same in
any grid.
"""
import gzip
import itertools
import os
import pathlib
import sys

import numpy as np

CLASSES, SIDE = 4, 16
HEAD = np.dtype([("magic", "S8"), ("hash", "u8"), ("dim", "i8", 3), ("channels", "i8"), ("whole", "i8", 3), ("crop", "i8", 3), ("kept", "i8", 3),
                 ("world", "f8", (3, 4)), ("of_whole", "f8", (3, 4)), ("doubts", "u4", 2), ("images", "u8"), ("contents", "u8"), ("kept_hash", "u8"), ("voxels", "i8", 256), ("places", "i8", 256)])


def write(path, x, affine):
    """x is indexed by the file's axes (i, j, k)."""
    code = {"uint8": 2, "int16": 4, "float32": 16}[x.dtype.name]
    h = np.zeros(352, np.uint8)

    def put(at, kind, *values):
        b = np.array(values, "<" + kind).tobytes()
        h[at:at + len(b)] = np.frombuffer(b, np.uint8)

    put(0, "i4", 348)
    put(40, "i2", 3, *x.shape, 1, 1, 1, 1)
    put(70, "i2", code, 8 * x.itemsize)
    put(76, "f4", 1, *np.linalg.norm(affine[:3, :3], axis=0))
    put(108, "f4", 352)
    put(254, "i2", 1)
    put(280, "f4", *affine[:3].ravel())
    h[344:348] = list(b"n+1\0")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    data = h.tobytes() + x.tobytes(order="F")
    with open(path, "wb") as f:
        f.write(gzip.compress(data, 1, mtime=0) if str(path).endswith(".gz") else data)


def grid(rng, spacing, dim, axes, slant):
    """An affine whose file axes are the world's `axes` with signs, turned a little, around a centre of 0."""
    turn = np.array([[np.cos(slant), -np.sin(slant), 0], [np.sin(slant), np.cos(slant), 0], [0, 0, 1]])
    a = np.eye(4)
    for k, (axis, sign) in enumerate(axes):
        a[:3, k] = turn[:, axis] * sign * spacing[axis]
    shape = [dim[axis] for axis, _ in axes]
    a[:3, 3] = -a[:3, :3] @ ((np.array(shape) - 1) / 2) + rng.uniform(-1, 1, 3)
    return a, shape


def shapes(rng, affine, shape, only=None):
    at = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), -1) @ affine[:3, :3].T + affine[:3, 3]
    label = np.zeros(shape, np.uint8)
    ball, shell = rng.uniform(-8, 8, 3), rng.uniform(-8, 8, 3)
    tube = rng.uniform(-10, 10, 2)
    r = np.linalg.norm(at - shell, axis=-1)
    where = {2: (r > 5) & (r < 8), 3: np.hypot(at[..., 0] - tube[0], at[..., 2] - tube[1]) < 3, 1: np.linalg.norm(at - ball, axis=-1) < 6}
    for k in (only,) if only else where:
        label[where[k]] = k
    body = np.linalg.norm(at / [1, 1, 1.1], axis=-1) < 19
    return label * body, body


AXES = [((0, 1), (1, 1), (2, 1)), ((2, -1), (0, 1), (1, -1)), ((1, 1), (2, 1), (0, -1)), ((0, -1), (1, -1), (2, 1))]


def ct(folder, rng):
    for part, n in (("train", 6), ("test", 3)):
        for i in range(n):
            spacing, dim = ((1.5, 1.5, 1.5), (30, 30, 32)) if i % 2 else ((1.2, 1.2, 2.5), (36, 36, 18))
            affine, shape = grid(rng, spacing, dim, AXES[i % 4], 0.1 * (i % 3))
            label, body = shapes(rng, affine, shape)
            x = np.where(body, np.array([0, 60, 110, 170])[label] + rng.normal(0, 25, shape), -1000)
            end = ".nii.gz" if i else ".nii"
            write(f"{folder}/{part}/case{i}{end}", np.round(x).astype(np.int16), affine)
            write(f"{folder}/masks/{part}/case{i}.nii.gz", label, affine)


def mri(folder, rng, sequences):
    for part, n in (("train", 4), ("test", 2)):
        for i in range(n):
            affine, shape = grid(rng, (1.5, 1.5, 1.5), (30, 30, 32), AXES[i % 4], 0)
            label, body = shapes(rng, affine, shape)
            for c in range(sequences):
                x = np.where(body, 300 + 90 * (c + 1) * (label == c % 4) + rng.normal(0, 40, shape), 0).clip(0)
                write(f"{folder}/{part}/p{i}_{c:04}.nii.gz", x.astype(np.float32), affine)
            write(f"{folder}/masks/{part}/p{i}.nii.gz", label, affine)


def network(name, channels=1):
    """A U-Net; or `threshold`, whose class 1 is where the input is above 0.45; or `constant`, which says class 2; or `undefined`, which has NaN."""
    import torch
    from torch import nn

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            block = lambda i, o, s=1: nn.Sequential(nn.Conv3d(i, o, 3, s, 1), nn.InstanceNorm3d(o, affine=True), nn.LeakyReLU(0.01))
            self.e0, self.e1, self.d1 = block(channels, 8), block(8, 16, 2), block(16, 16)
            self.u0, self.d0, self.out = nn.ConvTranspose3d(16, 8, 2, 2), block(16, 8), nn.Conv3d(8, CLASSES, 1)

        def forward(self, x):
            a = self.e0(x)
            return self.out(self.d0(torch.cat([a, self.u0(self.d1(self.e1(a)))], 1)))

    class Line(nn.Module):
        def __init__(self):
            super().__init__()
            self.e0, self.e1, self.u0 = nn.Conv3d(1, 1, 1), nn.Conv3d(1, 1, 1), nn.Conv3d(1, CLASSES, 1)
            for layer in (self.e0, self.e1):
                nn.init.ones_(layer.weight), nn.init.zeros_(layer.bias)
            with torch.no_grad():
                self.u0.weight[:, 0, 0, 0, 0] = torch.tensor([0., 1, 0, 0] if name == "threshold" else [0., 0, 0, 0])
                self.u0.bias[:] = torch.tensor([0.45, 0, -1, -1] if name == "threshold" else [0., 0, 0.1 if name == "constant" else np.nan, 0])

        def forward(self, x):
            return self.u0(self.e1(self.e0(x)))

    torch.manual_seed(1)
    return (Line if name in ("threshold", "constant", "undefined") else UNet)()


def make(folder, sequences="4"):
    import torch
    from torch import nn

    import split

    rng = np.random.default_rng(7)
    ct(f"{folder}/ct", rng)
    mri(f"{folder}/mri", rng, int(sequences))
    for name, channels in (("ct", 1), ("mri", int(sequences)), ("threshold", 1), ("constant", 1), ("undefined", 1)):
        split.write_network(network(name, channels), torch.zeros(2, channels, SIDE, SIDE, SIDE), f"{folder}/{name}.safetensors")
    layers = [m for k in range(4) for m in (nn.Conv3d(4 if k else 1, 4, 3, 1, 1), nn.ReLU())]
    one = nn.Sequential(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(4, CLASSES))
    split.write_network(one, torch.zeros(2, 1, SIDE, SIDE, SIDE), f"{folder}/one.safetensors")
    split.write_network(nn.Sequential(nn.Conv2d(3, 4, 3, 1, 1), nn.ReLU(), nn.Conv2d(4, CLASSES, 1)), torch.zeros(2, 3, SIDE, SIDE), f"{folder}/flat.safetensors")


def classes(folder):
    """Each case has one shape, of a class of its own; the network is a small ResNet."""
    import torch
    from torch import nn

    import split

    rng, names = np.random.default_rng(9), ("ball", "shell", "tube")
    with open(f"{folder}/labels.csv", "w") as table:
        print("id,patient,kind", file=table)
        for part, n in (("train", 20), ("test", 8)):
            for k, name in enumerate(names):
                for i in range(n):
                    spacing, dim = ((1.5, 1.5, 1.5), (30, 30, 32)) if i % 2 else ((1.2, 1.2, 2.5), (36, 36, 18))
                    affine, shape = grid(rng, spacing, dim, AXES[i % 4], 0.1 * (i % 3))
                    label, body = shapes(rng, affine, shape, k + 1)
                    x = np.where(body, 120 * (label > 0) + rng.normal(0, 25, shape), -1000)
                    write(f"{folder}/sorted/{part}/{name}/c{i:02}.nii.gz", np.round(x).astype(np.int16), affine)
                    case = f"{part}{name}{i}"
                    os.makedirs(f"{folder}/mixed/{part}/site", exist_ok=True)
                    os.link(f"{folder}/sorted/{part}/{name}/c{i:02}.nii.gz", f"{folder}/mixed/{part}/site/{case}.nii.gz")
                    print((case, f"{case}.nii.gz", f"{part}/site/{case}")[i % 3], f"p{i // 2}", name, sep=",", file=table)

    class Block(nn.Module):
        def __init__(self, i, o, s):
            super().__init__()
            self.a, self.b = nn.Sequential(nn.Conv3d(i, o, 3, s, 1), nn.BatchNorm3d(o), nn.ReLU()), nn.Sequential(nn.Conv3d(o, o, 3, 1, 1), nn.BatchNorm3d(o))
            self.skip, self.act = nn.Conv3d(i, o, 1, s), nn.ReLU()

        def forward(self, x):
            return self.act(self.b(self.a(x)) + self.skip(x))

    torch.manual_seed(1)
    net = nn.Sequential()
    for name, layer in (("e0", Block(1, 8, 2)), ("e1", Block(8, 16, 1)), ("e2", Block(16, 16, 2)), ("pool", nn.AdaptiveAvgPool3d(1)), ("flat", nn.Flatten()), ("out", nn.Linear(16, 3))):
        net.add_module(name, layer)
    split.write_network(net, torch.zeros(2, 1, 18, 20, 20), f"{folder}/classes.safetensors")
    split.write_network(network("unet"), torch.zeros(2, 1, 16, 20, 20), f"{folder}/unet.safetensors")
    for part in ("train", "test"):
        os.makedirs(f"{folder}/same/{part}")
        for name in names:
            os.symlink(f"{folder}/sorted/train/{name}", f"{folder}/same/{part}/{name}")


def u_net(widths):
    """A U-Net with a level for each width, as e0, down1, e1 … u0, d0, out; level 0 with the step into the next one is a head."""
    import torch
    from torch import nn

    block = lambda i, o, s=1: nn.Sequential(nn.Conv3d(i, o, 3, s, 1), nn.InstanceNorm3d(o, affine=True), nn.LeakyReLU(0.01))

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.depth = len(widths)
            self.e0 = nn.Sequential(block(1, widths[0]), block(widths[0], widths[0]))
            for i, w in enumerate(widths[1:]):
                setattr(self, f"down{i + 1}", block(widths[i], w, 2))
                setattr(self, f"e{i + 1}", block(w, w))
                setattr(self, f"u{i}", nn.ConvTranspose3d(w, widths[i], 2, 2))
                setattr(self, f"d{i}", block(2 * widths[i], widths[i]))
            self.out = nn.Conv3d(widths[0], CLASSES, 1)

        def forward(self, x):
            x, skips = self.e0(x), []
            for i in range(1, self.depth):
                skips.append(x)
                x = getattr(self, f"e{i}")(getattr(self, f"down{i}")(x))
            for i in reversed(range(self.depth - 1)):
                x = getattr(self, f"d{i}")(torch.cat([skips[i], getattr(self, f"u{i}")(x)], 1))
            return self.out(x)

    return UNet()


def unet(folder, side, *widths):
    """The cases of `ct`, and a U-Net for patches of this side."""
    import torch

    import split

    side = int(side)
    ct(f"{folder}/ct", np.random.default_rng(7))
    torch.manual_seed(1)
    split.write_network(u_net([int(w) for w in widths or (16, 32, 64, 128, 256)]), torch.zeros(1, 1, side, side, side), f"{folder}/unet.safetensors")


def read(path):
    """The voxels, indexed (i, j, k), and the affine of a file that `write` made."""
    with (gzip.open if str(path).endswith(".gz") else open)(path, "rb") as f:
        b = f.read()
    dim, code = np.frombuffer(b, "<i2", 3, 42), np.frombuffer(b, "<i2", 1, 70)[0]
    x = np.frombuffer(b, {2: "u1", 4: "<i2", 16: "<f4"}[code], -1, 352).reshape(dim, order="F")
    return x, np.vstack([np.frombuffer(b, "<f4", 12, 280).reshape(3, 4).astype(float), [0, 0, 0, 1]])


def change(how, *files):
    for path in files:
        x, affine = read(path)
        x = x.copy() + 300 if how == "brighter" else np.roll(x, 1, 0) if how == "moved" else x.copy()
        if how == "class":
            x[x.shape[0] // 2, x.shape[1] // 2, x.shape[2] // 2] = 7
        if how == "onlyball":
            x[x > 1] = 0
        if how == "one":
            x[:] = 7
        if how == "tiny":
            affine[:3, :3] *= 0.2
        if how == "mirrored":
            affine[:3, :3] = np.diag(np.linalg.norm(affine[:3, :3], axis=0) * [-1, 1, 1])
        if how == "flipped":
            affine[:3, 3] += affine[:3, 0] * (x.shape[0] - 1)
            affine[:3, 0] *= -1
            x = x[::-1].copy()
        write(path, x, affine)
        if how in ("unplaced", "mirrored", "rgb", "complex"):
            with (gzip.open if str(path).endswith(".gz") else open)(path, "rb") as f:
                b = np.frombuffer(f.read(), np.uint8).copy()
            if how == "mirrored":
                b[252] = 1  # a qform, whose quaternion of 0 turns nothing
            elif how in ("rgb", "complex"):
                b[70:72] = 128 if how == "rgb" else 32, 0
            else:
                b[254:256] = 0
                b[83] ^= 0x80  # the width of a voxel is negative
            with (gzip.open if str(path).endswith(".gz") else open)(path, "wb") as f:
                f.write(b.tobytes())


def turned(x, affine):
    """Axes to the head, the front and the right: of all 48 ways the one nearest to it."""
    best = None
    for p in itertools.permutations(range(3)):
        m = affine[:3, p] / np.linalg.norm(affine[:3, p], axis=0)
        score = abs(m[2, 0]) + abs(m[1, 1]) + abs(m[0, 2])
        if best is None or score > best[0]:
            best = score, p, [m[2, 0], m[1, 1], m[0, 2]]
    a = affine.copy()
    a[:3, :3] = affine[:3, best[1]]
    x = np.transpose(x, best[1])
    for axis in range(3):
        if best[2][axis] < 0:
            x = np.flip(x, axis)
            a[:3, 3] += a[:3, axis] * (x.shape[axis] - 1)
            a[:3, axis] *= -1
    return x, a


def load(path):
    b = path.read_bytes()
    h = np.frombuffer(b, HEAD, 1)[0]
    n = int(np.prod(h["dim"]))
    x = np.frombuffer(b, "<f2", n * int(h["channels"]), HEAD.itemsize).reshape(*h["dim"], -1).astype(np.float32)
    return h, x, np.frombuffer(b, "u1", n, HEAD.itemsize + 2 * x.size).reshape(h["dim"])


def resampled(x, dim, step):
    """x [channels, …] at the centres of a grid whose voxels are `step` of its own; and the places."""
    import torch
    import torch.nn.functional as F

    at = [np.clip((np.arange(n) + 0.5) * s - 0.5, 0, m - 1) for n, s, m in zip(dim, step, x.shape[1:])]
    unit = [2 * (p + 0.5) / m - 1 for p, m in zip(at, x.shape[1:])]
    grid = torch.tensor(np.stack(np.meshgrid(*unit, indexing="ij")[::-1], -1))[None]
    return F.grid_sample(torch.tensor(x)[None], grid, padding_mode="border", align_corners=False)[0].numpy(), at


def prepare(x, a, label, low, high, spacing):
    """Cuts with numpy, resamples with torch's grid_sample, and scales."""
    where = np.argwhere((x > low) | (label > 0))
    begin, end = where.min(0), where.max(0) + 1
    box = tuple(slice(i, j) for i, j in zip(begin, end))
    x = x[box].astype(np.float64)
    step = spacing / np.linalg.norm(a[:3, :3], axis=0)
    step[abs(step - 1) < 1e-4] = 1
    dim = np.maximum(1, np.floor(np.array(x.shape) / step + 0.5)).astype(int)
    y, at = resampled(x[None], dim, step)
    return (y[0].clip(low, high) - low) / (high - low), at, box, step


def prepared(folder, cache, low, high, *spacing):
    low, high, spacing, seen = float(low), float(high), np.array(spacing, float), 0
    for path in sorted(pathlib.Path(cache).glob("*.vol")):
        part, case = path.stem.split("-")
        file = next(pathlib.Path(folder, part).glob(f"{case}.nii*"))
        (x, a), (label, _) = (turned(*read(p)) for p in (file, pathlib.Path(folder, "masks", part, f"{case}.nii.gz")))
        y, at, box, step = prepare(x, a, label, low, high, spacing)
        begin = np.array([b.start for b in box])
        nearest = [np.floor(p + 0.5).astype(int) for p in at]
        h, got, mask = load(path)
        world = a.copy()
        world[:3, 3] = a[:3] @ np.append(begin + step / 2 - 0.5, 1)
        world[:3, :3] *= step
        assert list(h["dim"]) == list(y.shape) and list(h["crop"]) == list(begin), (path, h["dim"], y.shape)
        assert np.allclose(h["world"], world[:3], atol=1e-4), (path, h["world"], world)
        assert abs(got[..., 0] - y).max() < 1e-3, (path, abs(got[..., 0] - y).max())
        assert (mask == label[box][np.ix_(*nearest)]).all(), path
        seen += 1
    assert seen == 9, seen


def mean_logits(net, y):
    """Windows at most half a window apart, weighed by a Gaussian, in float64."""
    import torch

    before = [max(0, SIDE - n) // 2 for n in y.shape]
    y = np.pad(y, [(b, max(0, SIDE - n) - b) for b, n in zip(before, y.shape)])
    begins = [[i * (n - SIDE) // max(1, k - 1) for i in range(k)] for n in y.shape for k in [-(-2 * (n - SIDE) // SIDE) + 1]]
    line = np.exp(-(((np.arange(SIDE) - (SIDE - 1) / 2) / (SIDE / 8)) ** 2) / 2)
    weight = line[:, None, None] * line[:, None] * line
    total, of = np.zeros((CLASSES, *y.shape)), np.zeros(y.shape)
    for begin in itertools.product(*begins):
        box = tuple(slice(b, b + SIDE) for b in begin)
        with torch.no_grad():
            total[(slice(None), *box)] += weight * net(torch.tensor(y[box], dtype=torch.float32)[None, None])[0].numpy()
        of[box] += weight
    return total / of, before


def predicted(folder, masks, name, low, high, *spacing):
    low, high, spacing, seen, inside = float(low), float(high), np.array(spacing, float), 0, 0
    net = network(name)
    for path in sorted(pathlib.Path(masks).glob("*.nii.gz")):
        raw, affine = read(next(pathlib.Path(folder, "test").glob(path.name.split(".")[0] + ".nii*")))
        got, its = read(path)
        assert got.dtype == np.uint8 and got.shape == raw.shape and (its == affine).all(), (path, its, affine)
        x, a = turned(raw, affine)
        y, _, box, step = prepare(x, a, np.zeros_like(x), low, high, spacing)
        logits, before = mean_logits(net, y.astype(np.float16).astype(np.float64))
        logits = logits[(slice(None), *(slice(b, b + n) for b, n in zip(before, y.shape)))]
        logits, _ = resampled(logits, x[box].shape, 1 / step)
        best = np.sort(logits, 0)
        got, _ = turned(got, affine)
        clear = best[-1] - best[-2] > 2e-3
        assert clear.mean() > 0.9 and (got[box] == logits.argmax(0))[clear].all(), (path, clear.mean(), (got[box] != logits.argmax(0))[clear].sum())
        got = got.copy()
        inside += (got[box] > 0).sum()
        got[box] = 0
        assert not got.any(), path
        seen += 1
    assert seen == 3 and inside > 1000, (seen, inside)


def surface(x):
    """Where in mm a class has a neighbour that is not of it."""
    p = np.pad(x, 1)
    inner = np.all([np.roll(p, s, axis) for axis in range(3) for s in (1, -1)], 0)[1:-1, 1:-1, 1:-1]
    return np.argwhere(x & ~inner)


def hd95(a, b, spacing):
    a, b = (surface(m) * spacing for m in (a, b))
    far = np.sqrt(((a[:, None] - b[None]) ** 2).sum(-1))
    return max(np.percentile(far.min(1), 95), np.percentile(far.min(0), 95))


def figures(folder, masks, lines):
    """Whether the lines of JSON have the Dice and, by a search of all pairs, the HD95 of the masks."""
    import json

    seen = 0
    for line in map(json.loads, open(lines)):
        name = pathlib.Path(line["name"]).name
        (right, a), (said, _) = read(f"{folder}/masks/test/{name}.nii.gz"), read(f"{masks}/{name}.nii.gz")
        said = np.where(right == 255, 255, said)
        for c in line["classes"]:
            r, s = right == c["class"], said == c["class"]
            assert (c["voxels"], c["predicted_voxels"]) == (r.sum(), s.sum()), (name, c)
            assert c["dice"] == (2 * (r & s).sum() / (r.sum() + s.sum()) if r.any() or s.any() else None), (name, c)
            want = hd95(r, s, np.linalg.norm(a[:3, :3], axis=0)) if r.any() and s.any() else None
            assert c["hd95_mm"] == want or abs(c["hd95_mm"] / want - 1) < 1e-6, (name, c, want)
            seen += want is not None
    assert seen >= 3, seen


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
