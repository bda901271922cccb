"""usage: torchvision_live.py PICTURES DIR
Compares with Pillow and torchvision, live: decoded pictures of every format, parts of JPEGs, the order of a folder's
classes and files, and transforms with the same boxes and factors. PICTURES: tests/e2e/tools/pictures, as built. DIR: an
empty folder for what is made. Exit status 1 where something differs."""
import json
import os
import subprocess
import sys

import numpy as np
import torch
import torchvision.transforms.functional as F
from PIL import Image
from torchvision.datasets import ImageFolder
from torchvision.transforms import InterpolationMode

TOOL, DIR = sys.argv[1], sys.argv[2]
bad = 0


def run(*args):
    return subprocess.run([TOOL, *map(str, args)], stdout=subprocess.PIPE, check=True).stdout


def check(name, ours, theirs, mean=0.0, most=0.0):
    """Both in 1/255; sizes must be equal."""
    global bad
    if ours.shape != theirs.shape:
        bad += 1
        print("FAILED %s: %s, not %s" % (name, ours.shape, theirs.shape))
        return
    d = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
    if not (d.mean() <= mean and d.max() <= most):
        bad += 1
        print("FAILED %s: mean difference %.4f, largest %.3f" % (name, d.mean(), d.max()))
    elif mean:
        print("%s: mean difference %.4f, largest %.0f" % (name, d.mean(), d.max()))


def scene(h, w, seed=0):
    """Colours that change slowly, edges, and some noise: what photographs have."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:h, 0:w] / max(h, w)
    c = [np.sin(7 * x + 3 * y + k) + np.sin(23 * x * y + 2 * k) + (((8 * x).astype(int) + (6 * y).astype(int)) % 2) * 0.5 for k in range(3)]
    p = np.stack(c, 2)
    p = (p - p.min()) / (p.max() - p.min()) * 235 + rng.normal(0, 4, (h, w, 3)) + 8
    return Image.fromarray(p.clip(0, 255).astype(np.uint8))


def decode(path, *part):
    out = run("decode", path, *part)
    lines = out.split(b"\n", 4)
    top, left, shrink = map(int, lines[1][2:].split())
    w, h = map(int, lines[2].split())
    return np.frombuffer(lines[4], np.uint8).reshape(h, w, 3), top, left, shrink


def decoded():
    base, odd = scene(60, 83), scene(61, 37, 1)
    alpha = Image.fromarray((np.mgrid[0:60, 0:83][1] * 3).astype(np.uint8))
    rgba, la = base.copy(), base.convert("L")
    rgba.putalpha(alpha)
    la.putalpha(alpha)
    palette = base.quantize(200)
    cases = []
    for sub in (0, 1, 2):
        for progressive in (False, True):
            for k, im in enumerate((base, odd)):
                cases.append(("s%d_%d_%d.jpg" % (sub, progressive, k), im, dict(quality=90, subsampling=sub, progressive=progressive)))
    cases += [("grey.jpg", base.convert("L"), {}), ("cmyk.jpg", base.convert("CMYK"), {})]
    for name, im in (("rgb", base), ("odd", odd), ("grey", base.convert("L")), ("one", base.convert("1")), ("la", la), ("rgba", rgba),
                     ("p", palette), ("p4", base.quantize(13)), ("p2", base.quantize(4))):
        cases.append((name + ".png", im, {}))
    cases += [("clear.png", palette, dict(transparency=3))]
    cases += [("lossy.webp", base, dict(quality=80)), ("exact.webp", odd, dict(lossless=True)), ("rgba.webp", rgba, dict(lossless=True, exact=True)),
              ("rgba_lossy.webp", rgba, dict(quality=70))]
    for c in ("raw", "tiff_lzw", "packbits", "tiff_adobe_deflate"):
        cases.append((c + ".tif", base, dict(compression=c)))
    cases += [("grey.tif", base.convert("L"), {}), ("p.tiff", palette, {}), ("rgba.tif", rgba, {}), ("one.tif", base.convert("1"), {}), ("cmyk.tif", base.convert("CMYK"), {})]
    for name, im in (("rgb", base), ("odd", odd), ("grey", base.convert("L")), ("one", base.convert("1")), ("p", palette), ("rgba", rgba)):
        cases.append((name + ".bmp", im, {}))
    cases += [("a.ppm", base, {}), ("b.ppm", base.convert("L"), {}), ("c.pgm", odd.convert("L"), {})]
    for name, im, options in cases:
        path = os.path.join(DIR, name)
        im.save(path, **options)
        check("decode " + name, decode(path)[0], np.array(Image.open(path).convert("RGB")))
    turned = os.path.join(DIR, "turned.jpg")
    exif = Image.Exif()
    exif[0x0112] = 6
    base.save(turned, exif=exif.tobytes())
    check("decode with an orientation", decode(turned)[0], np.array(Image.open(turned).convert("RGB")))
    print("%d files decoded as Pillow does" % (len(cases) + 1))


def parts():
    n = 0
    for sub in (0, 1, 2):
        for progressive in (False, True):
            path = os.path.join(DIR, "part.jpg")
            scene(203, 317, 3).save(path, quality=92, subsampling=sub, progressive=progressive)
            whole = decode(path)[0]
            for top, left, h, w in ((0, 0, 203, 317), (1, 1, 5, 7), (50, 33, 101, 120), (198, 300, 5, 17), (100, 0, 60, 16), (0, 255, 203, 62), (31, 47, 33, 49)):
                got, t, l, shrink = decode(path, top, left, h, w, 0, 0)
                assert shrink == 1 and t <= top and l <= left and t + got.shape[0] >= top + h and l + got.shape[1] >= left + w
                check("part %s of subsampling %d" % ((top, left, h, w), sub), got[top - t : top - t + h, left - l : left - l + w], whole[top : top + h, left : left + w])
                n += 1
    print("%d parts of JPEGs as the whole has them" % n)


def folder():
    root = os.path.join(DIR, "folder")
    for split in ("train", "val"):
        for path in ("b/2.png", "b/10.PNG", "b/1.jpg", "B/x.Jpeg", "a b/é.png", "a b/e.png", "a-b/1.ppm", "a/z/1.png", "a/z-1/2.png", "a/z/y/3.png", "a/0.webp", "c/1.tif", "c/n.txt", "c/1.bmp"):
            path = os.path.join(root, split, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if path.endswith(".txt"):
                open(path, "w").close()
            else:
                scene(9, 9).save(path)
        theirs = ImageFolder(os.path.join(root, split)).samples
        ours = [line.split(" ", 1) for line in run("list", root, "train" if split == "train" else "test").decode().splitlines()]
        if [(p, int(c)) for c, p in ours] != theirs:
            global bad
            bad += 1
            print("FAILED order of %s:\n%s\nnot\n%s" % (split, ours, theirs))
    print("classes and files in ImageFolder's order")


def transformed(path, h, w, *steps, seed=1, epoch=2, sample=3):
    out = run("apply", path, seed, epoch, sample, h, w, *steps)
    line, rest = out.split(b"\n", 1)
    return json.loads(line), np.frombuffer(rest, np.float32).reshape(h, w, 3)


def as_bytes(x):
    return np.rint(x * 255)


def transforms():
    path, jpeg = os.path.join(DIR, "t.png"), os.path.join(DIR, "t.jpg")
    im = scene(240, 320, 5)
    im.save(path)
    im.save(jpeg, quality=95)
    for size in (64, 224, 300, (57, 91), (240, 100), (480, 640)):
        want = F.resize(im, size, InterpolationMode.BILINEAR)
        got = transformed(path, want.height, want.width, "Resize(%s)" % (size,), "CenterCrop((%d, %d))" % (want.height, want.width))[1]
        check("Resize(%s)" % (size,), as_bytes(got), np.array(want))
    for size in (100, 224, (301, 221), 400):
        h, w = (size, size) if isinstance(size, int) else size
        check("CenterCrop(%s)" % (size,), as_bytes(transformed(path, h, w, "CenterCrop(%s)" % (size,))[1]), np.array(F.center_crop(im, size)))
    for sample in range(12):
        for file in (path, jpeg):
            draw, got = transformed(file, 224, 224, "RandomResizedCrop(224)", sample=sample)
            want = np.array(F.resized_crop(Image.open(file).convert("RGB"), *draw[0]["part"], (224, 224), InterpolationMode.BILINEAR))
            check("RandomResizedCrop %d" % sample, as_bytes(got), want)
    for mode in ("constant", "reflect", "edge", "symmetric"):
        for sample in range(4):
            draw, got = transformed(path, 250, 230, "RandomCrop((250, 230), padding=(7, 11), padding_mode='%s')" % mode, sample=sample)
            t, l, h, w = draw[0]["part"]
            check("RandomCrop %s" % mode, as_bytes(got), np.array(F.crop(F.pad(im, [7, 11], 0, mode), t, l, h, w)))
    small = im.resize((50, 40))
    small.save(os.path.join(DIR, "small.png"))
    draw, got = transformed(os.path.join(DIR, "small.png"), 64, 64, "RandomCrop(64, padding=3, pad_if_needed=True, fill=(9, 8, 7))")
    t, l, h, w = draw[0]["part"]
    want = F.pad(F.pad(F.pad(small, 3, (9, 8, 7)), [64 - 56, 0], (9, 8, 7)), [0, 64 - 46], (9, 8, 7))
    check("RandomCrop, pad_if_needed", as_bytes(got), np.array(F.crop(want, t, l, h, w)))
    check("RandomHorizontalFlip", as_bytes(transformed(path, 240, 320, "Resize((240, 320))", "RandomHorizontalFlip(1)")[1]), np.array(F.hflip(im)))
    check("RandomVerticalFlip", as_bytes(transformed(path, 240, 320, "Resize((240, 320))", "RandomVerticalFlip(p=1)")[1]), np.array(F.vflip(im)))
    mean, std = [0.4, 0.5, 0.6], [0.2, 0.25, 0.3]
    got = transformed(path, 240, 320, "Resize((240, 320))", "transforms.ToTensor()", "Normalize(mean=%s, std=%s)" % (mean, std))[1]
    want = F.normalize(F.to_tensor(im), mean, std).permute(1, 2, 0).numpy()
    check("Normalize", got * 1e6, want * 1e6, 1, 2)
    change = [F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue]
    for sample in range(8):
        draw, got = transformed(path, 240, 320, "Resize((240, 320))", "ColorJitter(0.4, 0.5, 0.6, 0.3)", sample=sample)
        want = im
        for k in draw[1]["order"]:
            want = change[k](want, draw[1]["factor"][k])
        check("ColorJitter %d" % sample, as_bytes(got), np.array(want))
    for sample in range(4):
        draw, got = transformed(path, 240, 320, "Resize((240, 320))", "Normalize(0.5, 0.5)", "RandomErasing(1, value=(1, 2, 3))", "Cutout(16)", sample=sample)
        want = F.normalize(F.to_tensor(im), [0.5] * 3, [0.5] * 3)
        want = F.erase(want, *draw[2]["part"], torch.tensor([1.0, 2.0, 3.0])[:, None, None])
        want = F.erase(want, *draw[3]["part"], torch.zeros(3, 1, 1)).permute(1, 2, 0).numpy()
        check("RandomErasing, Cutout", got * 1e6, want * 1e6, 1, 2)
    print("transforms as torchvision's")


def shrunk():
    """What shrinking while a JPEG is decoded costs, beside decoding all of it."""
    path = os.path.join(DIR, "large.jpg")
    scene(1500, 2000, 7).save(path, quality=92)
    im = Image.open(path).convert("RGB")
    for sample in range(3):
        draw, got = transformed(path, 224, 224, "RandomResizedCrop(224)", sample=sample)
        want = np.array(F.resized_crop(im, *draw[0]["part"], (224, 224), InterpolationMode.BILINEAR))
        check("RandomResizedCrop of 2000 x 1500 pixels, shrunk while decoded", as_bytes(got), want, 1, 12)


decoded()
parts()
folder()
transforms()
shrunk()
sys.exit(bad > 0)
