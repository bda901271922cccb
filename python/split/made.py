"""Functions that the server has no op for, made of ops that it has. Formulas are from torch.nn's documentation."""
import math
import operator

import torch
import torch.nn.functional as F
from torch import nn

from . import errors, volumes
from .builder import ALIGNED, AREA, EDGE, LIES, LINEAR, MATH, NEAREST, REFLECT, ROWS, Last, Lazy, Own, Param, Repeated, Value, image, is_volume, must, ones, params, place, real, said


# ---- elementwise

def _elu(b, name, x, alpha=1.0, inplace=False, by=1.0):
    """by · elu(x), where elu(x) is alpha · elu_1(x) + (1 − alpha) · relu(x), and elu_1 is that of alpha 1."""
    y = b.mul(name, b.act(name + ".elu", x, "elu"), by * alpha)
    return y if alpha == 1 else b.add(name + ".add", y, b.mul(name + ".by", b.act(name + ".relu", x, "act"), by * (1 - alpha)))


def _selu(b, name, x, inplace=False):
    return _elu(b, name, x, 1.6732632423543772, by=1.0507009873554805)


def _celu(b, name, x, alpha=1.0, inplace=False):
    if alpha != 1:
        raise errors.config(f"{name}: alpha={alpha} is not known on the server, 1 is")
    return _elu(b, name, x)


def _mish(b, name, x, inplace=False):
    return b.mul(name, x, b.act(name + ".tanh", b.act(name + ".softplus", x, "softplus"), "tanh"))


def _softplus(b, name, x, beta=1, threshold=20):
    if beta != 1 or threshold != 20:
        raise errors.config(f"{name}: beta={beta}, threshold={threshold}: the server has 1 and 20")
    return b.act(name, x, "softplus")


def _abs(b, name, x):
    """relu(x) + relu(−x), whose gradient at 0 is 0"""
    return b.add(name, b.act(name + ".positive", x, "act"), b.act(name + ".negative", b.mul(name + ".minus", x, -1), "act"))


def _pow(b, name, x, exponent):
    if isinstance(exponent, Value) and isinstance(x, (int, float)) and x > 0:
        return b.act(name, b.mul(name + ".log", exponent, math.log(x)), "math")
    if exponent in (2, 3):
        y = b.mul(name, x, x)
        return y if exponent == 2 else b.mul(name + ".cube", y, x)
    fns = {-1: ["reciprocal"], 0.5: ["sqrt"], -0.5: ["sqrt", "reciprocal"]}.get(exponent)
    if fns is None:
        raise errors.config(f"{name}: the exponent {said(exponent)}; the server has 2, 3, 0.5, -0.5 and -1")
    for i, fn in enumerate(fns):
        x = b.act(f"{name}.{fn}" if i else name, x, "math", fn=MATH[fn])
    return x


def _log_sigmoid(b, name, x):
    return b.mul(name, _softplus(b, name + ".softplus", b.mul(name + ".minus", x, -1)), -1)


def _softsign(b, name, x):
    return b.div(name, x, b.add(name + ".more", _abs(b, name + ".abs", x), 1))


def _line(b, name, x, by, plus=0.0):
    return b.act(name, x, "scale", by=real(by) if by != 1 else None, plus=real(plus) if plus else None) if (by, plus) != (1, 0) else x


def _over(b, name, x, ends):
    """relu(x), whose gradient at 0 is 0, or 1 with ends. Then it is x + relu(−x), which is exactly 0 for a negative x."""
    y = b.act(name + ".over", x if not ends else b.mul(name + ".minus", x, -1), "act")
    return b.add(name + ".ends", x, y) if ends else y


def _bounded(b, name, x, bound, sign, ends):
    """min(x, bound), or with sign −1 max(x, bound). ends: the gradient at the bound itself is 1, otherwise 0.

    Neither x − relu(x − bound) nor bound − relu(bound − x) is exact: the first loses the bound if x is far beyond it, the
    second loses an x that is small beside the bound. So x is first brought below twice the bound, without rounding."""
    far = sign * bound  # from here on t is sign · x, and min(t, far) is wanted
    if far <= 0:  # far − relu(far − t)
        return _line(b, name, _over(b, name, _line(b, name + ".from", x, -sign, far), ends), -sign, bound)
    if far < 1e18:  # t − relu(t), and relu(t) up to a limit by relu6: no bit is lost, as by is a power of two
        by = 2.0 ** max(math.frexp(far / 6)[1], -99)
        six = b.act(name + ".six", _line(b, name + ".down", x, sign / by), "act", fn="relu6")
        positive = b.act(name + ".positive", _line(b, name + ".sign", x, sign), "act")
        x = b.add(name + ".near", b.add(name + ".low", x, positive, -sign), _line(b, name + ".up", six, sign * by))
    over = _over(b, name, _line(b, name + ".from", x, sign, -far), not ends)
    return b.add(name, x, over, -sign)


def clamp(b, name, x, min=None, max=None, ends=True):
    if any(n is not None and (not isinstance(n, (int, float)) or n != n) for n in (min, max)):
        raise errors.config(f"{name}: the server clamps to numbers")
    for word, sign, bound in ("min", -1, min), ("max", 1, max):
        if bound is not None and bound != sign * math.inf:
            x = _bounded(b, f"{name}.{word}", x, float(real(bound)), sign, ends)
    return x


def _hardtanh(b, name, x, min_val=-1.0, max_val=1.0, inplace=False):
    """The gradient at the bounds is 0."""
    return b.act(name, x, "act", fn="relu6") if (min_val, max_val) == (0, 6) else clamp(b, name, x, min_val, max_val, False)


def _prelu(b, name, x, weight):
    """relu(x) + weight · (x − relu(x))"""
    if isinstance(weight, Own) and weight.tensor.numel() > 1:
        weight = Own(weight.path, weight.tensor, weight.learns, (*weight.tensor.shape, 1, 1, 1)[:len(x.shape)])
    high = b.act(name + ".positive", x, "act")
    return b.add(name, high, b.mul(name + ".slope", b.sub(name + ".negative", x, high), weight))


def _prelu_of(b, name, m, prefix, x):
    return _prelu(b, name, x, Own(prefix + "weight", m.weight, True))


def addcmul(b, name, x, y, z, value=1):
    return b.add(name, x, b.mul(name + ".mul", y, z) if isinstance(y, Value) else b.mul(name + ".mul", z, y), value)


# ---- parts

def _part(b, name, x, dim, first, n):
    return b.resampled(name, x, dim, n, first=first)


def _split(b, name, x, sizes, dim=0):
    dim = place(name, dim, len(x.shape) + 1)
    if not dim:
        raise errors.config(f"{name}: parts rows; the server has all of them")
    n = x.shape[dim - 1]
    sizes = [min(sizes, n - i) for i in range(0, n, sizes)] if isinstance(sizes, int) else sizes
    if sum(sizes) != n:
        raise errors.config(f"{name}: sizes {said(list(sizes))} of a dimension of {n}")
    return tuple(_part(b, f"{name}.{i}", x, dim, sum(sizes[:i]), size) for i, size in enumerate(sizes))


def _chunk(b, name, x, chunks, dim=0):
    return _split(b, name, x, -(-x.shape[place(name, dim, len(x.shape) + 1) - 1] // chunks), dim)


def _glu(b, name, x, dim=-1):
    first, second = _chunk(b, name + ".part", x, 2, dim)
    return b.mul(name, first, b.act(name + ".sigmoid", second, "sigmoid"))


# ---- sizes of images

def _resized(b, name, x, size, mode):
    for dim, n in zip((2, 3), size):
        if n != x.shape[dim - 1]:
            x = b.resampled(name if dim == 2 else name + ".width", x, dim, n, mode=mode)
    return x


def _interpolate(b, name, x, size=None, scale_factor=None, mode="nearest", align_corners=None,
                 recompute_scale_factor=None, antialias=False):
    if is_volume(x):
        return volumes.interpolated(b, name, x, size, scale_factor, mode, align_corners)

    def both(n):
        return list(n) if isinstance(n, (list, tuple)) else [n, n]
    shape = image(name, x)[1:]
    if size is None and any(f != int(f) for f in both(scale_factor)):
        raise errors.config(f"{name}: scale_factor={scale_factor}; the server has whole factors")
    if mode not in ("nearest", "bilinear") or antialias:
        raise errors.config(f"{name}: mode={mode!r}, antialias={antialias}; the server has nearest and bilinear without "
                            "that")
    how = NEAREST if mode == "nearest" else ALIGNED if align_corners else LINEAR
    if size is None:
        size = [n * int(f) for n, f in zip(shape, both(scale_factor))]
    return _resized(b, name, x, both(size), how)


def _upsample(b, name, m, prefix, x):
    return _interpolate(b, name, x, m.size, m.scale_factor, m.mode, m.align_corners)


def _around(b, name, x, dim, before, behind):
    """Pads a dimension by its other end."""
    n = x.shape[dim - 1]
    if not 0 <= min(before, behind) <= max(before, behind) <= n:
        raise errors.config(f"{name}: pads {n} numbers by {before} and {behind} of the other end")
    y = b.joined(f"{name}.0", b.resampled(f"{name}.front", x, dim, before, first=n - before), x, dim) if before else x
    return b.joined(f"{name}.1", y, b.resampled(f"{name}.back", x, dim, behind), dim) if behind else y


def padded(b, name, x, pad, mode="constant", value=0):
    """pad: before and after the width, then the height and the channels, as in torch's pad."""
    if mode == "circular" and len(pad) % 2 == 0 and len(pad) // 2 <= len(x.shape):
        for i in range(0, len(pad), 2):
            x = _around(b, f"{name}.{i // 2}" if i else name, x, len(x.shape) - i // 2, *pad[i:i + 2])
        return x
    how = {"constant": 0, "zeros": 0, "reflect": REFLECT, "replicate": EDGE}.get(mode)
    border = F.pad(torch.zeros(1, *x.shape), pad, value=value) if value and how == 0 and min(pad, default=-1) >= 0 else None
    if how is None or value and (border is None or not math.isfinite(value)) or len(pad) % 2 or len(pad) > (4 if how else 2 * len(x.shape) + 2) or any(p < 0 for p in pad):
        raise errors.config(f"{name}: pads by {said(list(pad))} in mode {mode!r} with {said(value)}; the server has constant, reflect, "
                            "replicate and circular, of numbers that are finite")
    for i in range(0, len(pad), 2):
        dim = len(x.shape) - i // 2
        if pad[i] or pad[i + 1]:
            x = b.resampled(f"{name}.{i // 2}" if i else name, x, dim, x.shape[dim - 1] + sum(pad[i:i + 2]), mode=how,
                            before=pad[i])
    return x if border is None else b.add(name + ".sum", x, Own(name + ".border", border, False))


def _pad_of(mode):
    return lambda b, name, m, prefix, x: padded(b, name, x, m.padding, mode)


def _constant_pad(b, name, m, prefix, x):
    return padded(b, name, x, m.padding, "constant", m.value)


def _f_pad(b, name, x, pad, mode="constant", value=None):
    return padded(b, name, x, pad, mode, value or 0)


def _adaptive(b, name, x, output_size):
    wanted = output_size if isinstance(output_size, (tuple, list)) else (output_size, output_size)
    size = [h if n is None else n for n, h in zip(wanted, image(name, x)[1:])]
    return b.plane(name, x) if size == [1, 1] else _resized(b, name, x, size, AREA)


def _adaptive_of(b, name, m, prefix, x):
    return _adaptive(b, name, x, m.output_size)


def _plane_max(b, name, x, output_size=1, return_indices=False):
    if output_size not in (1, (1, 1), [1, 1]) or return_indices:
        raise errors.config(f"{name}: output_size={output_size}, return_indices={return_indices}: the server has 1 without "
                            "them")
    return b.node(name, "maxpool", [x], (image(name, x)[0], 1, 1))


def _instance_norm(b, name, m, prefix, x):
    must(name, m, track_running_stats=False)
    if len(x.shape) == 2:
        return b.turned(name + ".signal", _instance_norm(b, name, m, prefix, b.line(name + ".image", x)))
    return b.group_norm(name, x, x.shape[0], params(prefix, m), m.eps)


def _expand(b, name, x, *size):
    size = list(size[0] if isinstance(size[0], (list, tuple)) else size)
    if isinstance(x, Own) and len(size) == len(x.shape) and x.shape[0] == 1:
        x = b.each_row(x)
    b.keeps_rows(name, size)
    size = size[1:]
    want = [h if n == -1 else n for n, h in zip(size, x.shape)]
    if isinstance(x, Last) or len(size) != len(x.shape) or any(n != h and h != 1 for n, h in zip(want, x.shape)):
        raise errors.config(f"{name}: {list(x.shape)} cannot be repeated to {said(size)}, both without rows")
    return Repeated(x, want, lambda: b.repeated(name, x, want))


def repeat(b, name, x, *sizes):
    """As often as sizes say, rows once; of a module's own tensor [1, …] once for each row."""
    sizes = list(sizes[0] if isinstance(sizes[0], (list, tuple)) else sizes)
    had = x.shape if isinstance(x, Own) else (1, *x.shape)
    if isinstance(x, Own) and sizes[0] is ROWS:
        had = (1,) * (len(sizes) - len(had)) + tuple(had)
        x = _expand(b, name, Own(x.path, x.tensor, x.learns, had), ROWS, *[-1] * (len(had) - 1)) if had[0] == 1 else x
    if len(sizes) != len(had) or isinstance(x, (Own, Last)) or sizes[0] not in (1, ROWS) or not all(isinstance(n, int) and n > 0 for n in sizes[1:]):
        raise errors.config(f"{name}: repeats {list(had)} by {said(sizes)}; the server repeats rows once, and a module's own tensor for each row")
    for dim, n in enumerate(sizes[1:], 1):
        if n > 1 and x.shape[dim - 1] == 1:
            x = b.resampled(f"{name}.{dim}", x, dim, n, mode=EDGE)
        elif n > 1:
            one = x
            for i in range(1, n):
                x = b.joined(f"{name}.{dim}.{i}", x, one, dim)
    return Value(x.number, x.shape)


def detached(b, name, x):
    """x, where no gradient would pass: a constant, or in a network of its own what no parameter has touched."""
    made = isinstance(x, Lazy) and x.of is None  # first states of zeros
    if isinstance(x, Own) and x.learns or isinstance(x, Value) and not made and b.learns_behind(x):
        raise errors.config(f"{name}: detach() of what depends on {'a parameter' if b.whole or isinstance(x, Own) else 'the input of the middle or a parameter'}: "
                            "the server sends a gradient through all it computes. Keep this part in the head, or leave detach() out"
                            f"{'' if b.whole or isinstance(x, Own) else '; with input_grad=False it may detach what depends on the input alone'}")
    return x


def _expand_as(b, name, x, other):
    return _expand(b, name, x, -1, *other.shape)


def _layer_norm(b, name, x, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    m = nn.LayerNorm(list(normalized_shape), eps, elementwise_affine=False, device="meta")
    held = [] if weight is None and bias is None else [ones(name, x.shape[-1]) if weight is None else weight.param()]
    return b.norm(name, x, m, "", held + ([] if bias is None else [bias.param()]))


# ---- images whose channels are last in a script, as they always are on the server, or in groups

def permuted(b, name, x, dims):
    if not isinstance(x, Last) and dims == [0, 2, 3, 1]:
        return Last(x.number, (*x.shape[1:], x.shape[0]))
    if not isinstance(x, Last) or dims != [0, 3, 1, 2]:
        raise errors.config(f"{name}: {dims} of {list(x.shape)}; the server has [0, 2, 3, 1], and [0, 3, 1, 2] behind it")
    return x.image()


def linear_of_pixels(b, name, m, prefix, x):
    """A linear layer over channels, as a convolution of 1 by 1."""
    weight = Param(prefix + "weight", prefix + "weight", m.weight, "pixel")
    y = b.node(name, "conv2d", [x.image()], (), [weight, *params(prefix, m, "bias")])
    return Last(y.number, (*x.shape[:2], m.out_features))


class Many(Value):
    """of, with more dimensions than the graph has: it lies as axes of these sizes, and dimension i is axis order[i]."""

    def __init__(self, of, sizes, order):
        self.of, self.sizes, self.order, self.shape = of, list(sizes), list(order), tuple(sizes[a] for a in order)

    @property
    def number(self):
        raise errors.config(f"a shape of {len(self.shape) + 1} dimensions is not known on the server; it turns and joins them "
                            "alone, and has views of tokens in attention")


def _runs(shape, size):
    """The numbers of the dimensions of size that make each one of shape; None: they do not."""
    found, at = [], 0
    for i, n in enumerate(shape, 1):
        first = at
        while at < len(size) and (math.prod(size[first:at]) < n or (i == len(shape))):
            at += 1
        found.append(range(first, at))
    return found if [math.prod(size[i] for i in run) for run in found] == list(shape) else None


def viewed(b, name, x, size):
    """x, or the size, has more dimensions than the graph."""
    if isinstance(x, Many):
        runs = _runs(size, x.shape) if len(size) < 4 else None
        if runs:
            return b.arranged(name, x.of, x.sizes, [x.order[i] for d in LIES[len(size)] for i in runs[d]], size)
        x = b.arranged(name + ".flat", x.of, x.sizes, x.order, (math.prod(size),))
        if len(size) < 4:
            return b.reshaped(name, x, size)
    runs = _runs(x.shape, size)
    if not runs:
        x, runs = b.flatten(name + ".flat", x), [range(len(size))]
    lies = [i for d in LIES[len(x.shape)] for i in runs[d]]
    return Many(x, [size[i] for i in lies], [lies.index(i) for i in range(len(size))])


def ceiled(b, name, x, kind, k, stride, pad):
    """x for a pool with ceil_mode: padded at the end as the last window needs, with values that change no maximum."""
    more = []
    for n in image(name, x)[:0:-1]:
        out = -(-(n + 2 * pad - k) // stride) + 1
        out -= (out - 1) * stride >= n + pad
        more += [0, max(0, (out - 1) * stride + k - n - 2 * pad)]
    if any(more) and (kind != "maxpool" or pad):
        raise errors.config(f"{name}: ceil_mode=True adds a window; the server has that of maxima without padding")
    return padded(b, name + ".more", x, more, "replicate")


def drops_parts(b, name, x, p, rows=False):
    """Drops whole channels or, with `rows`, whole rows: x times what a dropout leaves of ones."""
    if not p or b.without_dropout:
        return x
    if len(x.shape) == 2 and not b.per_token and not rows:
        return b.turned(name + ".signal", drops_parts(b, name, b.line(name + ".image", x), p))
    each = {1: x.shape, 2: (1, x.shape[-1])}.get(len(x.shape), (x.shape[0], *[1] * (len(x.shape) - 1)))
    if b.per_token or is_volume(x) and rows or len(x.shape) == 1 and not rows:
        raise errors.config(f"{name}: it drops parts of {list(x.shape)}; the server has that of images [C, H, W] and signals [C, L]")
    own = Own(name + ".ones", torch.ones((1,) * len(each) if rows else each), False)
    ones = b.node(name + ".each", "repeat", [x], own.shape, [own.param("one" if rows or len(each) < 3 else "each", own.shape)])
    left = b.dropout(name + ".left", ones, p)
    return b.mul(name, x, b.repeated(name + ".all", left, each) if rows else left)


def f_drops_channels(b, name, x, p=0.5, training=True, inplace=False):
    return drops_parts(b, name, x, b.rate(name, p if training else 0.0))


def _stochastic_depth(b, name, x, p, mode, training=True):
    if p and training and mode != "row":
        raise errors.config(f"{name}: mode={mode!r} drops whole batches; the server drops rows, with mode='row'")
    return drops_parts(b, name, x, b.rate(name, p if training else 0.0), rows=True)


NAMED = {"stochastic_depth": _stochastic_depth}  # functions of packages that may not be installed


def _of(f, *keys):
    return lambda b, name, m, prefix, x: f(b, name, x, *(getattr(m, key) for key in keys))


MODULES = {
    nn.ELU: _of(_elu, "alpha"), nn.SELU: _of(_selu), nn.CELU: _of(_celu, "alpha"), nn.Mish: _of(_mish), nn.GLU: _of(_glu, "dim"),
    nn.LogSigmoid: _of(_log_sigmoid), nn.Softsign: _of(_softsign),
    nn.Hardtanh: _of(_hardtanh, "min_val", "max_val"),
    nn.PReLU: _prelu_of, nn.InstanceNorm3d: _instance_norm, nn.InstanceNorm2d: _instance_norm, nn.InstanceNorm1d: _instance_norm, nn.Upsample: _upsample, nn.ZeroPad2d: _pad_of("constant"), nn.ConstantPad1d: _constant_pad, nn.ConstantPad2d: _constant_pad,
    nn.ReflectionPad2d: _pad_of("reflect"), nn.ReplicationPad2d: _pad_of("replicate"), nn.AdaptiveAvgPool2d: _adaptive_of,
    nn.AdaptiveMaxPool2d: _of(_plane_max, "output_size", "return_indices"),
}
FUNCTIONS = {
    F.dropout3d: f_drops_channels, F.dropout2d: f_drops_channels, F.dropout1d: f_drops_channels, F.elu: _elu, F.selu: _selu, F.celu: _celu, F.mish: _mish, F.softplus: _softplus, F.logsigmoid: _log_sigmoid, F.softsign: _softsign, F.glu: _glu, F.prelu: _prelu,
    torch.prelu: _prelu, torch.addcmul: addcmul, "addcmul": addcmul,
    F.hardtanh: _hardtanh, torch.clamp: clamp, "clamp": clamp,
    torch.abs: _abs, "abs": _abs, torch.pow: _pow, "pow": _pow, operator.pow: _pow, operator.ipow: _pow,
    **{key: lambda b, name, x: b.mul(name, x, x) for key in (torch.square, "square")},
    torch.chunk: _chunk, "chunk": _chunk, torch.split: _split, "split": _split,
    F.interpolate: _interpolate, F.pad: _f_pad, "expand": _expand, "expand_as": _expand_as, "repeat": repeat, "detach": detached, torch.Tensor.detach: detached,
    F.layer_norm: _layer_norm, "contiguous": lambda b, name, x, *args, **kwargs: x,
    F.adaptive_avg_pool2d: _adaptive, F.adaptive_max_pool2d: _plane_max,
}
