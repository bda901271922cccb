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


def run(*args, how=""):
    return subprocess.run([TOOL, *map(str, args)], stdout=subprocess.PIPE, check=True, env=dict(os.environ, PICTURE_HOW=how)).stdout


def check(name, ours, theirs, mean=0.0, most=0.0, quiet=False):
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
    elif mean and not quiet:
        print("%s: mean difference %.4f, largest %.0f" % (name, d.mean(), d.max()))


def scene(h, w, seed=0):
    """Colours that change slowly, edges, and some noise: what photographs have."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:h, 0:w] / max(h, w)
    c = [np.sin(7 * x + 3 * y + k) + np.sin(23 * x * y + 2 * k) + (((8 * x).astype(int) + (6 * y).astype(int)) % 2) * 0.5 for k in range(3)]
    p = np.stack(c, 2)
    p = (p - p.min()) / (p.max() - p.min()) * 235 + rng.normal(0, 4, (h, w, 3)) + 8
    return Image.fromarray(p.clip(0, 255).astype(np.uint8))


def decode(path, *part, how=""):
    out = run("decode", path, *part, how=how)
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


def transformed(path, h, w, *steps, seed=1, epoch=2, sample=3, how=""):
    out = run("apply", path, seed, epoch, sample, h, w, *steps, how=how)
    line, rest = out.split(b"\n", 1)
    return json.loads(line), np.frombuffer(rest, np.float32).reshape(h, w, 1 if "grey" in how else 3)


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


AFFINE = ["RandomAffine(30)", "RandomAffine(0, translate=(0.1, 0.2))", "RandomAffine((-45, 60), (0.2, 0.1), (0.5, 1.6), shear=20)",
          "RandomAffine(10, shear=(-5, 5, -30, 30))", "RandomAffine(0, scale=(0.7, 0.7))", "RandomAffine(25, center=(10, 20), fill=(9, 8, 7))"]
ROTATION = ["RandomRotation(30)", "RandomRotation((-180, 180), fill=(200, 100, 50))", "RandomRotation((90, 90))", "RandomRotation((0, 0))", "RandomRotation(15, center=(0, 0))"]
MODES = (("nearest", InterpolationMode.NEAREST), ("bilinear", InterpolationMode.BILINEAR))


def turned(im, step, d, mode, fill):
    centre = [10, 20] if "(10, 20)" in step else [0, 0] if "(0, 0))" in step and "center" in step else None
    if step.startswith("RandomRotation"):
        return F.rotate(im, d["angle"], mode, center=centre, fill=fill)
    return F.affine(im, d["angle"], [int(x) for x in d["shift"]], d["scale"], d["shear"], mode, fill=fill, center=centre)


def turns():
    """Each by its drawn numbers, byte for byte."""
    path, n = os.path.join(DIR, "turn.png"), 0
    im = scene(120, 161, 9)
    im.save(path)
    same = "Resize((120, 161))"
    for step in AFFINE + ROTATION:
        fill = [9, 8, 7] if "(9, 8, 7)" in step else [200, 100, 50] if "(200, 100, 50)" in step else 0
        for name, mode in MODES:
            for sample in range(6):
                draw, got = transformed(path, 120, 161, same, step[:-1] + ", interpolation=%s)" % name, sample=sample)
                check("%s, %s" % (step, name), as_bytes(got), np.array(turned(im, step, draw[1], mode, fill)))
                n += 1
    for got, want in ((transformed(path, 120, 161, same, "Grayscale(3)")[1], F.rgb_to_grayscale(im, 3)),
                      (transformed(path, 120, 161, same, "RandomGrayscale(1)")[1], F.rgb_to_grayscale(im, 3))):
        check("Grayscale", as_bytes(got), np.array(want))
    print("%d rotations and affine changes as torchvision's, byte for byte" % n)


def rand_augment():
    """By the drawn operations, through torchvision's own table and functions."""
    from torchvision.transforms import autoaugment

    path, seen = os.path.join(DIR, "turn.png"), set()
    im = Image.open(path)
    for magnitude, name, mode in ((9, *MODES[0]), (30, *MODES[0]), (17, *MODES[1]), (0, *MODES[0])):
        table = autoaugment.RandAugment()._augmentation_space(31, (120, 161))
        for sample in range(30):
            step = "RandAugment(3, %d, interpolation=InterpolationMode.%s)" % (magnitude, name.upper())
            draw, got = transformed(path, 120, 161, "Resize((120, 161))", step, sample=sample)
            want = im
            for op, negative in draw[1]["op"][:3]:
                op = list(table)[op]
                sizes, signed = table[op]
                size = float(sizes[magnitude].item()) if sizes.ndim else 0.0
                want = autoaugment._apply_op(want, op, -size if signed and negative else size, interpolation=mode, fill=None)
                seen.add(op)
            check("%s, sample %d: %s" % (step, sample, draw[1]["op"][:3]), as_bytes(got), np.array(want))
    assert len(seen) == 14, seen
    print("RandAugment as torchvision's, all 14 operations")


def deep():
    """Pictures of 16 bits by value / 65535, against Pillow's pixels and its arithmetic of floats (mode F)."""
    rng = np.random.default_rng(3)
    h, w = 61, 83
    y, x = np.mgrid[0:h, 0:w]
    grey = (np.sin(x / 9) * np.cos(y / 7) * 30000 + 32000 + rng.normal(0, 300, (h, w))).clip(0, 65535).astype(np.uint16)
    im = Image.fromarray(grey)
    assert im.mode == "I;16"
    files = {"deep.png": {}, "deep.tif": {}, "deep_lzw.tif": dict(compression="tiff_lzw"), "deep_deflate.tif": dict(compression="tiff_adobe_deflate")}
    for name, options in files.items():
        path = os.path.join(DIR, name)
        im.save(path, **options)
        check("decode " + name, np.frombuffer(run("decode", path, how="deep,grey"), np.float32).reshape(h, w), np.array(Image.open(path)))
        check("decode %s as RGB" % name, np.frombuffer(run("decode", path, how="deep"), np.float32).reshape(h, w, 3), np.repeat(grey[:, :, None], 3, 2))
    pgm, big = os.path.join(DIR, "deep.pgm"), os.path.join(DIR, "deep_big.tif")
    with open(pgm, "wb") as f:
        f.write(b"P5 %d %d 65535\n" % (w, h) + grey.astype(">u2").tobytes())
    Image.frombytes("I;16B", (w, h), grey.astype(">u2").tobytes()).save(big)
    for path in (pgm, big):
        check("decode " + path, np.frombuffer(run("decode", path, how="deep,grey"), np.float32).reshape(h, w), grey)
    path = os.path.join(DIR, "deep.png")
    floats = Image.fromarray(grey.astype(np.float32))
    for step, does in (("Resize((40, 30))", lambda d: F.resize(floats, (40, 30))),
                       ("Resize((100, 120))", lambda d: F.resize(floats, (100, 120))),
                       ("RandomResizedCrop((40, 30))", lambda d: F.resized_crop(floats, *d[0]["part"], (40, 30))),
                       ("RandomCrop((40, 30))", lambda d: F.crop(floats, *d[0]["part"])),
                       ("CenterCrop((40, 30))", lambda d: F.center_crop(floats, (40, 30)))):
        for sample in range(4):
            size = (100, 120) if "100" in step else (40, 30)
            draw, got = transformed(path, *size, step, "Normalize(0.4, 0.2)", sample=sample, how="deep,grey")
            want = (F.to_tensor(does(draw))[0].numpy() / 65535 - 0.4) / 0.2
            check("16 bits, " + step, got[:, :, 0] * 1e6, want * 1e6, 1, 2, quiet=True)
    for step in AFFINE[:5] + ROTATION[:1]:
        for name, mode in MODES:
            draw, got = transformed(path, h, w, "Resize((%d, %d))" % (h, w), step[:-1] + ", interpolation=%s)" % name, how="deep,grey")
            want = np.array(turned(floats, step, draw[1], mode, 0)) / 65535
            check("16 bits, %s, %s" % (step, name), got[:, :, 0] * 1e6, want * 1e6, 1, 2, quiet=True)
    print("pictures of 16 bits as Pillow's floats, within 2e-6")


def grey():
    path = os.path.join(DIR, "turn.png")
    im = Image.open(path).convert("L")
    draw, got = transformed(path, 120, 161, "Resize((120, 161))", "ColorJitter(0.4, 0.5, 0.6, 0.3)", "RandomRotation(20, interpolation=bilinear)", how="grey")
    change = [F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue]
    for k in draw[1]["order"]:
        im = change[k](im, draw[1]["factor"][k])
    im = F.rotate(im, draw[2]["angle"], InterpolationMode.BILINEAR)
    check("grey", as_bytes(got)[:, :, 0], np.array(im))
    check("grey, resized", as_bytes(transformed(path, 50, 60, "Resize((50, 60))", how="grey")[1])[:, :, 0], np.array(F.resize(Image.open(path).convert("L"), (50, 60))))
    print("one channel as Pillow's mode L")


def orientations():
    from PIL import ImageOps
    from PIL.PngImagePlugin import PngInfo

    for name, options in (("o.jpg", dict(quality=95)), ("o.png", {}), ("o.webp", dict(lossless=True))):
        for how in range(1, 9):
            exif = Image.Exif()
            exif[0x0112] = how
            exif[0x0110] = "a camera"
            path = os.path.join(DIR, name)
            scene(120, 161, how).save(path, exif=exif.tobytes(), **options)
            want = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
            check("orientation %d of %s" % (how, name), decode(path, how="upright")[0], np.array(want))
            draw, got = transformed(path, 40, 40, "RandomResizedCrop(40)", how="upright exact")
            check("a part of orientation %d of %s" % (how, name), as_bytes(got), np.array(F.resized_crop(want, *draw[0]["part"], (40, 40))))
    # What ImageMagick and Photoshop write: EXIF or XMP in a PNG's texts.
    path = os.path.join(DIR, "noted.png")
    for how in range(0, 10):
        exif = Image.Exif()
        exif[0x0112] = how
        raw = "\nexif\n%8d\n%s\n" % (len(exif.tobytes()), exif.tobytes().hex())
        xmp = '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description %s/></x:xmpmeta>'
        texts = [("Raw profile type exif", raw), ("XML:com.adobe.xmp", xmp % ('tiff:Orientation="%d"' % how)),
                 ("XML:com.adobe.xmp", "<tiff:Orientation>%d</tiff:Orientation>" % how)]
        for keyword, text in texts:
            for zipped in False, True:
                for add in "add_text", "add_itxt":
                    notes = PngInfo()
                    getattr(notes, add)(keyword, text, zip=zipped)
                    scene(60, 81, how).save(path, pnginfo=notes)
                    want = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
                    check("orientation %d in %s by %s" % (how, keyword, add), decode(path, how="upright")[0], np.array(want))
    print("orientations as Pillow's exif_transpose")


def shrunk():
    """What shrinking while a JPEG is decoded costs, beside decoding all of it."""
    path = os.path.join(DIR, "large.jpg")
    scene(1500, 2000, 7).save(path, quality=92)
    im = Image.open(path).convert("RGB")
    for sample in range(3):
        draw, got = transformed(path, 224, 224, "RandomResizedCrop(224)", sample=sample)
        want = np.array(F.resized_crop(im, *draw[0]["part"], (224, 224), InterpolationMode.BILINEAR))
        check("RandomResizedCrop of 2000 x 1500 pixels, shrunk while decoded", as_bytes(got), want, 1, 12)
        check("RandomResizedCrop of 2000 x 1500 pixels, exact", as_bytes(transformed(path, 224, 224, "RandomResizedCrop(224)", sample=sample, how="exact")[1]), want)


decoded()
parts()
folder()
transforms()
turns()
rand_augment()
grey()
deep()
orientations()
shrunk()
sys.exit(bad > 0)
