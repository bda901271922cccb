"""usage: make_transform.py PICTURES >tests/golden/transform.h
What torchvision makes of a small picture with the boxes and factors that chance gives ours. PICTURES:
tests/e2e/tools/pictures, as built."""
import json
import subprocess
import sys
import tempfile

import numpy as np
import torchvision
import torchvision.transforms.functional as F
from PIL import Image
from torchvision.transforms import InterpolationMode, autoaugment

H, W = 13, 17
SAMPLE = 5
CHANGE = [F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue]


def jitter(im, draw):
    for k in draw["order"]:
        im = im if draw["factor"][k] is None else CHANGE[k](im, draw["factor"][k])
    return im


NEAREST, BILINEAR = InterpolationMode.NEAREST, InterpolationMode.BILINEAR


def affine(im, d, mode):
    return F.affine(im, d["angle"], [int(x) for x in d["shift"]], d["scale"], d["shear"], mode, fill=0)


def rand_augment(im, d):
    """Eight operations of magnitude 20."""
    table = autoaugment.RandAugment()._augmentation_space(31, (H, W))
    for op, negative in d["op"]:
        sizes, signed = list(table.values())[op]
        size = float(sizes[20].item()) if sizes.ndim else 0.0
        im = autoaugment._apply_op(im, list(table)[op], -size if signed and negative else size, interpolation=NEAREST, fill=None)
    return im


# height and width of what comes out; steps, and what torchvision does for each
CASES = [
    (5, 7, ("Resize((5, 7))", lambda im, d: F.resize(im, (5, 7)))),
    (6, 5, ("Resize(6)", lambda im, d: F.resize(im, 6)), ("CenterCrop((6, 5))", lambda im, d: F.center_crop(im, (6, 5)))),
    (20, 23, ("Resize((20, 23))", lambda im, d: F.resize(im, (20, 23)))),
    (6, 7, ("RandomResizedCrop((6, 7))", lambda im, d: F.resized_crop(im, *d["part"], (6, 7)))),
    (8, 8, ("RandomResizedCrop(8, scale=(0.5, 1), ratio=(1, 2))", lambda im, d: F.resized_crop(im, *d["part"], (8, 8))), ("RandomHorizontalFlip(1)", lambda im, d: F.hflip(im))),
    (13, 15, ("RandomCrop((13, 15), padding=3, padding_mode='reflect')", lambda im, d: F.crop(F.pad(im, 3, 0, "reflect"), *d["part"]))),
    (15, 9, ("CenterCrop((15, 9))", lambda im, d: F.center_crop(im, (15, 9)))),
    (8, 8, ("Resize((8, 8))", lambda im, d: F.resize(im, (8, 8))), ("ColorJitter(0.4, 0.4, 0.4, 0.2)", jitter)),
    (6, 8, ("CenterCrop((6, 8))", lambda im, d: F.center_crop(im, (6, 8)))),
    (13, 17, ("RandomRotation(40)", lambda im, d: F.rotate(im, d["angle"], NEAREST)), ("Resize((13, 17))", lambda im, d: im)),
    (13, 17, ("RandomRotation(40, interpolation=bilinear, fill=(9, 99, 199))", lambda im, d: F.rotate(im, d["angle"], BILINEAR, fill=[9, 99, 199])), ("Resize((13, 17))", lambda im, d: im)),
    (13, 17, ("RandomAffine(30, (0.2, 0.3), (0.5, 1.5), (-20, 20, -10, 10))", lambda im, d: affine(im, d, NEAREST)), ("Resize((13, 17))", lambda im, d: im)),
    (13, 17, ("RandomAffine(30, (0.2, 0.3), (0.5, 1.5), 20, BILINEAR)", lambda im, d: affine(im, d, BILINEAR)), ("Resize((13, 17))", lambda im, d: im)),
    (13, 17, ("Grayscale(3)", lambda im, d: F.rgb_to_grayscale(im, 3)), ("Resize((13, 17))", lambda im, d: im)),
    (13, 17, ("RandAugment(8, 20)", rand_augment), ("Resize((13, 17))", lambda im, d: im)),
    (8, 8, ("Resize((8, 8))", lambda im, d: F.resize(im, (8, 8))), ("ColorJitter(hue=(0.497, 0.497))", jitter)),
]


def picture():
    """The same bytes as in tests/unit/test_transform.c."""
    return Image.fromarray(np.array([(i * 73 + i * i % 19 * 5) % 256 for i in range(3 * H * W)], np.uint8).reshape(H, W, 3))


print("/* Written by tests/golden/make_transform.py with torchvision %s. */" % torchvision.__version__.split("a")[0])
print("#ifndef SL_GOLDEN_TRANSFORM_H\n#define SL_GOLDEN_TRANSFORM_H\n\n#include <stdint.h>\n")
rows = []
with tempfile.NamedTemporaryFile(suffix=".ppm") as file:
    picture().save(file.name)
    for n, (h, w, *steps) in enumerate(CASES):
        args = [sys.argv[1], "apply", file.name, 1, 2, SAMPLE, h, w, *(step for step, _ in steps)]
        out = subprocess.run(list(map(str, args)), stdout=subprocess.PIPE, check=True).stdout
        im = picture()
        for (_, does), draw in zip(steps, json.loads(out.split(b"\n", 1)[0])):
            im = does(im, draw)
        v = np.array(im)
        assert v.shape == (h, w, 3)
        print("static const uint8_t golden_transform_%d[] = {" % n)
        flat = v.flatten().tolist()
        for i in range(0, len(flat), 20):
            print("\t" + " ".join("%d," % e for e in flat[i : i + 20]))
        print("};\n")
        pair = [step for step, _ in steps] + ["ToTensor"] * (2 - len(steps))
        rows.append('\t{{"%s", "%s"}, %d, %d, golden_transform_%d},' % (pair[0], pair[1], v.shape[0], v.shape[1], n))
print("static const struct {\n\tchar step[2][256];\n\tint h, w;\n\tconst uint8_t *out; /* [h, w, 3] */\n} golden_transform[] = {")
print("\n".join(rows) + "\n};\n\n#endif")
