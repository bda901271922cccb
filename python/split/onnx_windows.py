"""Nodes that slide a window over images, or change the size of images. Signals are images of height 1."""
from . import made, windows
from .builder import ALIGNED, EDGE, LINEAR, NEAREST, REFLECT


class Window:
    """Numbers for height and width. before, after: padding."""

    def __init__(self, r, flat, border=0, kernel=None):
        n = 2 - flat
        front = [1] * flat
        self.k = [*front, *r.ints("kernel_shape", kernel or [0] * n, n, 0)]
        r.refuse_if(0 in self.k, "it has no kernel_shape")
        self.stride = [*front, *r.ints("strides", [1] * n, n, 1)]
        self.dilation = [*front, *r.ints("dilations", [1] * n, n, 1)]
        pads = r.ints("pads", [0] * 2 * n, 2 * n, 0)
        self.before, self.after = [0] * flat + pads[:n], [0] * flat + pads[n:]
        auto = r.attr("auto_pad", "NOTSET", str)
        if auto == "SAME_UPPER" and self.stride == [1, 1]:
            all_of = [d * (k - 1) for d, k in zip(self.dilation, self.k)]
            self.before = [n // 2 for n in all_of]
            self.after = [n - b for n, b in zip(all_of, self.before)]
        elif auto not in ("NOTSET", "VALID"):
            r.refuse(f"auto_pad {auto[:20]} is not read here, only SAME_UPPER with a stride of 1; export with pads")
        for side in (self.before, self.after):
            side[flat:] = [p + border for p in side[flat:]]
        self.even = len({*self.before, *self.after}) == 1


def _bordered(r):
    """Input 0 as an image, and the width of a border of zeros around it, which the node adds itself."""
    v = r.value(0)
    border, flat = getattr(v, "border", 0), len(getattr(v, "axes", ())) == 3
    if border:
        v = v.like(v.of)
    else:
        v = r.data(0)
    return r.image(v), border, flat


def _padded(r, x, w, mode=0):
    """x with a border of its own where that is not the same on all sides, and what is left for the node."""
    if w.even:
        return x, w.before[0]
    for i in range(2):
        x = resized(r, x, i + 2, w.before[i], x.shape[i + 1] + w.before[i] + w.after[i], mode)
    return x, 0


def resized(r, x, dim, before, size, mode):
    """x, whose dimension has that size: from element -before on, or scaled, as mode says."""
    if before == 0 and size == x.shape[dim - 1]:
        return x
    r.refuse_if(not 1 <= size <= 1 << 20 or abs(before) > 1 << 20, "it makes images of no size, or of one that is too large")
    return r.b.resampled(r.name, x, dim, size, mode=mode, before=max(before, 0), first=max(-before, 0))


def conv(r):
    x, border, flat = _bordered(r)
    weight = r.weight(1, 3 if flat else 4)
    out, each, *kernel = weight.array.shape
    groups = r.attr("group", 1)
    w = Window(r, flat, border, kernel)
    if w.k[flat:] != kernel or groups < 1 or x.shape[0] % groups or out % groups or each != x.shape[0] // groups:
        r.refuse(f"its weight {weight.name!r} is {list(weight.array.shape)}, which does not fit {x.shape[0]} channels in {groups} groups, or "
                 "its kernel_shape")
    dilation = w.dilation[0 if w.k[0] > 1 else 1]
    if any(d != dilation and k > 1 for d, k in zip(w.dilation, w.k)):
        r.refuse(f"dilations: {w.dilation}; dilation is the same in both directions here")
    bias = [r.param(r.weight(2, 1, out))] if r.has(2) else []
    part = r.param(weight, "hwc" if groups == x.shape[0] == out and groups > 1 else "ohwi")
    x, pad = _padded(r, x, w) if not flat or w.before[1] or w.after[1] else (x, 0)
    same = flat or w.stride[0] == w.stride[1]
    stride = w.stride[1] if same else 1
    size = [(n + 2 * pad - dilation * (k - 1) - 1) // stride + 1 for n, k in zip(x.shape[1:], w.k)]
    y = r.b.node(r.name, "conv2d", [x], (out, *size), [part, *bias], stride=stride if stride != 1 else None, pad=pad or None,
                 groups=groups if groups != 1 else None, dilation=dilation if dilation != 1 else None)
    r.give(r.of_image(y if same else windows._every(r.b, r.name, y, w.stride), flat))


def convt(r):
    v = r.data(0)
    x, weight = r.image(v), r.weight(1, 4)
    c, each, *kernel = weight.array.shape
    w, more = Window(r, False, kernel=kernel), r.ints("output_padding", [0, 0], 2, 0)
    groups = r.attr("group", 1)
    out = each * groups
    if len(v.axes) != 4 or c != x.shape[0] or groups < 1 or c % groups or w.k != kernel or kernel[0] != kernel[1] or w.stride[0] != w.stride[1] or w.dilation != [1, 1] \
            or not w.even or max(more) >= w.stride[0]:
        r.refuse("of transposed convolutions those of images are read, with square windows and without dilation, in groups that divide the channels")
    stride, pad = w.stride[0], w.before[0]
    size = [(n - 1) * stride - 2 * pad + k + p for n, k, p in zip(x.shape[1:], kernel, more)]
    layout = "hwc" if groups == c == out and groups > 1 else "ohwi"  # PyTorch has [in, out of a group, height, width]
    parts = [r.param(weight, layout), *([r.param(r.weight(2, 1, out))] if r.has(2) else [])]
    r.give(r.b.node(r.name, "convt2d", [x], (out, *size), parts, stride=stride if stride != 1 else None, pad=pad or None,
                    out_pad=f"{more[0]},{more[1]}" if any(more) else None,
                    groups=groups if groups != 1 else None))


def pool(kind):
    def read(r):
        x, border, flat = _bordered(r)
        w = Window(r, flat, border if kind == "avgpool" else 0)
        counted = kind == "maxpool" or bool(r.attr("count_include_pad", 0))
        r.must(storage_order=(0, 0))
        if w.dilation != [1, 1] or (border and kind == "maxpool") or (border and not counted and any(r.attr("pads", [0], list))):
            r.refuse("its dilation, or a border of zeros in front of it, is not read")
        for i in range(flat, 2) if r.attr("ceil_mode", 0) else ():
            room = x.shape[1 + i] + w.before[i] + w.after[i] - w.k[i]
            left = room % w.stride[i] if room > 0 else 0
            if left and (room // w.stride[i] + 1) * w.stride[i] < x.shape[1 + i] + w.before[i]:
                if kind == "avgpool":
                    r.refuse(f"ceil_mode adds a window beyond the border of an image of {list(x.shape[1:])}, which is not read; take another "
                             "size of images, or ceil_mode=False")
                w.after[i] += w.stride[i] - left
        pad = w.before
        if w.before != w.after:
            r.refuse_if(not counted and not border, "its mean leaves out a border that is not the same on both sides")
            for i in range(flat, 2):
                x = resized(r, x, i + 2, w.before[i], x.shape[1 + i] + w.before[i] + w.after[i], EDGE if kind == "maxpool" else 0)
            pad = [0, 0]
        r.refuse_if(any(n + 2 * p < k for n, p, k in zip(x.shape[1:], pad, w.k)), "its window is larger than the image")
        r.refuse_if(x.shape[0] * x.shape[1] * x.shape[2] > 1 << 26 and not counted, "it makes too many numbers")
        y = x if w.k == w.stride == [1, 1] and pad == [0, 0] else windows._pool(r.b, r.name, x, kind, w.k, w.stride, pad, counted or border > 0)
        r.give(r.of_image(y, flat))
    return read


def pad(r):
    """Zeros of the same width all around an image become padding of the convolution or mean that alone reads it. Other borders become nodes."""
    mode, v = r.attr("mode", "constant", str), r.data(0)
    how = {"constant": 0, "reflect": REFLECT, "edge": EDGE}.get(mode)
    if how is None or (mode == "constant" and r.has(2) and _fill(r) != 0):
        r.refuse(f"of borders zeros, reflections and repeated edges are read; its mode is {mode[:20]}")
    n = len(v.axes)
    pads = r.integers(1, "its border")
    r.refuse_if(r.has(3) and n * 2 != len(pads), "it pads some axes alone, which is not read")
    if len(pads) != 2 * n:
        r.refuse(f"its pads are no {2 * n} constants")
    r.refuse_if(pads[0] or pads[n] or v.axes[0] != [r.batch], "it pads the batch")
    r.refuse_if(max(map(abs, pads)) > 1 << 20, "its pads are too large")
    if how == 0 and n == 4 and not any(pads[:2] + pads[4:6]) and len({*pads[2:4], *pads[6:]}) == 1 and pads[2] > 0 and \
            any(r.next(r.index, kind) is not None for kind in ("Conv", "AveragePool")):
        found = v.like(v.of)
        found.border = pads[2]
        return r.give(found)
    x = r.canonical(v)
    for i in range(1, n):
        x = resized(r, x, i, pads[i], x.shape[i - 1] + pads[i] + pads[n + i], how)
    return r.give(x)


def _fill(r):
    v = r.value(2)
    a = getattr(v, "array", None)
    return float(a.item()) if a is not None and a.size == 1 else None


def resize(r):
    v = r.data(0)
    x, mode, where = r.image(v), r.attr("mode", "nearest", str), r.attr("coordinate_transformation_mode", "half_pixel", str)
    how = ALIGNED if (mode, where) == ("linear", "align_corners") else LINEAR if mode == "linear" and where in (
        "half_pixel", "pytorch_half_pixel") else NEAREST if (mode, where, r.attr("nearest_mode", "", str)) == ("nearest", "asymmetric", "floor") else None
    r.refuse_if(how is None or len(v.axes) != 4, "of torch's upsampling nearest and bilinear of images are read")
    to = r.known(3) if r.has(3) else r.known(2)
    r.refuse_if(to is None or to.shape != (4,), "its sizes are no constants: give nn.Upsample a size")
    if not r.has(3):
        if any(s != int(s) or not 1 <= s <= 1024 for s in to.tolist()):
            r.refuse(f"its scale {to.tolist()} is no whole number: give nn.Upsample a size")
        to = to * v.shape
    to = [int(n) for n in to]
    if tuple(to[:2]) != v.shape[:2] or not all(1 <= n <= 1 << 20 for n in to[2:]):
        r.refuse("it changes other sizes than an image's height and width, or makes too large images")
    r.give(made._resized(r.b, r.name, x, to[2:], how))
