"""Writes tests/golden/augment.h: what PyTorch makes of small images.
Run: python3 tests/golden/make_augment.py > tests/golden/augment.h"""
import torch
import torch.nn.functional as F

MEAN, STD = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
# name, in_h, in_w, out_h, out_w, padding, top, left, flip, imagenet
CASES = [
    ("up_uneven", 5, 4, 7, 9, 0, 0, 0, False, False),
    ("up_by_seven", 2, 2, 14, 14, 0, 0, 0, False, False),
    ("down", 9, 8, 4, 3, 0, 0, 0, False, False),
    ("wider_and_lower", 7, 3, 3, 8, 0, 0, 0, False, True),
    ("whole_chain", 6, 6, 9, 8, 2, 1, 4, True, True),
]


def image(h, w):
    """The same bytes as in tests/unit/test_augment.c."""
    return torch.tensor([(i * 73 + i * i % 19 * 5) % 256 for i in range(3 * h * w)]).reshape(3, h, w).float() / 255


print("/* Written by tests/golden/make_augment.py with PyTorch %s. */" % torch.__version__.split("+")[0])
print("#ifndef SL_GOLDEN_AUGMENT_H\n#define SL_GOLDEN_AUGMENT_H\n\n#include <stdbool.h>\n")
rows = []
for name, h, w, oh, ow, p, top, left, flip, imagenet in CASES:
    x = F.pad(image(h, w), (p, p, p, p))[:, top : top + h, left : left + w]
    x = x.flip(2) if flip else x
    x = F.interpolate(x[None], (oh, ow), mode="bilinear", align_corners=False)[0]
    x = (x - MEAN[:, None, None]) / STD[:, None, None] if imagenet else x
    v = x.permute(1, 2, 0).flatten().tolist()
    print("static const float golden_%s[] = {" % name)
    for i in range(0, len(v), 8):
        print("\t" + " ".join("%.7ff," % e for e in v[i : i + 8]))
    print("};\n")
    b = ["false", "true"]
    rows.append('\t{"%s", %d, %d, %d, %d, %d, %d, %d, %s, %s, golden_%s},'
                % (name, h, w, oh, ow, p, top, left, b[flip], b[imagenet], name))
print("static const struct {\n\tconst char *name;\n\tint in_h, in_w, out_h, out_w, padding, top, left;")
print("\tbool flip, imagenet;\n\tconst float *out; /* [out_h, out_w, 3] */\n} golden_augment[] = {")
print("\n".join(rows) + "\n};\n\n#endif")
