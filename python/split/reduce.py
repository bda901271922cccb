"""Means, sums, maxima, variances and norms over dimensions, what is made of them, and softmax."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from . import errors, texts
from .builder import LIES, MATH, UNREAD, Own, Value, is_volume, place, said
from .made import clamp


class Weights(Value):
    """What a softmax makes."""


def _axes(name, x, dim):
    """The axes of PyTorch's dim, without rows, in order."""
    n = len(x.shape) + 1 if len(x.shape) < 4 or is_volume(x) else x.number  # which refuses them
    dims = range(n) if dim is None or dim == () else (dim,) if isinstance(dim, int) else dim
    axes = sorted({place(name, d, n) - 1 for d in dims})
    if axes[0] < 0:
        raise errors.config(f"{name}: it is over dimension 0, that of rows, which the server keeps apart; give the others")
    return axes


def _kept(b, name, x, axes, keepdim):
    """x, whose axes have size 1, with them or without."""
    left = [n for i, n in enumerate(x.shape) if i not in axes]
    if not left and not keepdim:
        raise errors.config(f"{name}: it leaves one number of a row; give keepdim=True")
    return x if keepdim else b.flatten(name + ".flatten", x) if len(left) == 1 else b.reshaped(name + ".less", x, left)


def mean(b, name, x, dim=None, keepdim=False):
    axes, y = _axes(name, x, dim), x
    if b.per_token and axes == [0] and not keepdim:
        return texts.mean(b, name, x)
    if is_volume(x) and axes != [1, 2, 3]:
        raise errors.config(f"{name}: a mean over {axes} of a volume {list(x.shape)}, both without rows; the server has that over all voxels")
    if axes in ([1, 2], [1, 2, 3]) and len(x.shape) == len(axes) + 1:
        return _kept(b, name, b.plane(name, x), axes, keepdim)
    for i in axes:
        y = b.mean(name if i == axes[0] else f"{name}.{i}", y, i + 1)
    return _kept(b, name, y, axes, keepdim)


def sum_of(b, name, x, dim=None, keepdim=False):
    return b.mul(name, mean(b, name + ".mean", x, dim, keepdim), math.prod(x.shape[i] for i in _axes(name, x, dim)))


def _in_front(b, name, x, axes):
    """x as an image: axes are its height, and all others its channels, in the order in which they lie."""
    lies = LIES[len(x.shape)]
    rest = [d for d in lies if d not in axes]
    order = [lies.index(d) for d in (*(d for d in lies if d in axes), *rest)]
    shape = (math.prod(x.shape[d] for d in rest), math.prod(x.shape[d] for d in axes), 1)
    return b.arranged(name, x, [x.shape[d] for d in lies], order, shape), rest


def amax(b, name, x, dim=(), keepdim=False):
    axes = _axes(name, x, dim)
    if axes in ([1, 2], [1, 2, 3]) and len(x.shape) == len(axes) + 1:
        return _kept(b, name, b.node(name, "maxpool", [x], (x.shape[0], *[1] * len(axes))), axes, keepdim)
    if is_volume(x):
        raise errors.config(f"{name}: maxima over {axes} of a volume {list(x.shape)}, both without rows; the server has those over all voxels")
    y, rest = _in_front(b, name + ".turn", x, axes)
    y = b.node(name, "maxpool", [y], (y.shape[0], 1, 1))
    y = b.arranged(name + ".image", y, [x.shape[d] for d in rest], range(len(rest)), [1 if i in axes else n for i, n in enumerate(x.shape)])
    return _kept(b, name, y, axes, keepdim)


def _max(b, name, x, dim=None, keepdim=False):
    """The values; the indices are UNREAD."""
    if not isinstance(dim, int):
        raise errors.config(f"{name}: the larger of two values is not known on the server: write it with relu")
    return amax(b, name, x, dim, keepdim), UNREAD


def _root(b, name, x):
    """√x, whose gradient at 0 is 0."""
    return b.act(name, b.add(name + ".least", x, 1e-30), "math", fn=MATH["sqrt"])


def _var(b, name, x, dim=None, unbiased=True, keepdim=False, correction=None):
    axes = _axes(name, x, dim)
    n, off = math.prod(x.shape[i] for i in axes), int(unbiased) if correction is None else correction
    if n <= off:
        raise errors.config(f"{name}: a variance of {n} number{'s' * (n != 1)} less {off} is none")
    d = b.sub(name + ".off", x, mean(b, name + ".mean", x, dim, True))
    y = mean(b, name + ".square", b.mul(name + ".squares", d, d), dim, keepdim)
    return b.mul(name, y, n / (n - off))


def _std(b, name, x, *args, **more):
    return _root(b, name, _var(b, name + ".var", x, *args, **more))


def _norm(b, name, x, p="fro", dim=None, keepdim=False):
    if p not in ("fro", 2):
        raise errors.config(f"{name}: the norm of order {said(p)}; the server has 2")
    return _root(b, name, sum_of(b, name + ".sum", b.mul(name + ".squares", x, x), dim, keepdim))


def _normalize(b, name, x, p=2.0, dim=1, eps=1e-12, out=None):
    return b.div(name, x, clamp(b, name + ".clamp", _norm(b, name + ".norm", x, p, dim, True), min=eps))


def softmax(b, name, x, dim=None):
    """e / Σ e, where e = exp(x − max x)"""
    if not isinstance(dim, int):
        raise errors.config(f"{name}: a softmax needs its dim")
    axes, lies = _axes(name, x, dim), LIES[len(x.shape)]
    y, rest = _in_front(b, name + ".turn", x, axes)
    n = y.shape[1]
    top = b.mul(name + ".minus", b.node(name + ".max", "maxpool", [y], (y.shape[0], 1, 1)), -1)
    e = b.act(name + ".exp", b.add(name + ".off", y, top), "math")
    total = b.mul(name + ".sum", b.plane(name + ".mean", e), n)
    y = b.mul(name + ".gate", e, b.act(name + ".inverse", total, "math", fn=MATH["reciprocal"]))
    has = [*axes, *rest]
    y = b.arranged(name, y, [x.shape[d] for d in has], [has.index(d) for d in lies], x.shape)
    return Weights(y.number, y.shape)


def log_softmax(b, name, x, dim=None, _stacklevel=3, dtype=None):
    """x − max x − log Σ exp(x − max x)"""
    if not isinstance(dim, int):
        raise errors.config(f"{name}: a log_softmax needs its dim")
    off = b.sub(name + ".off", x, amax(b, name + ".max", x, dim, True))
    total = sum_of(b, name + ".sum", b.act(name + ".exp", off, "math"), dim, True)
    return b.sub(name, off, b.act(name + ".log", total, "math", fn=MATH["log"]))


def matmul(b, name, x, y):
    """A product of two computed matrices, row by row of x: few rows that weigh those of y, as attention pools have them."""
    if len(x.shape) != 2 or len(y.shape) != 2 or x.shape[1] != y.shape[0] or x.shape[0] > 16:
        raise errors.config(f"{name}: a product of matrices {list(x.shape)} and {list(y.shape)} is not known on the server; it has "
                            "queries by transposed keys, what softmax makes of them by values, and up to 16 weights for each row")
    x, out = b.turned(name + ".columns", x), None
    for i in range(x.shape[1]):
        at = f"{name}.{i}" if i else name
        column = b.resampled(at + ".weights", x, 2, 1, first=i) if x.shape[1] > 1 else x
        row = sum_of(b, at + ".sum", b.mul(at, column, y), 1, True)
        out = b.node(at + ".rows", "concat", [out, row], (i + 1, y.shape[1]), axis=1) if i else row
    return out


def group_norm(b, name, x, num_groups, weight=None, bias=None, eps=1e-5):
    if len(x.shape) == 2:
        return b.turned(name + ".signal", b.group_norm(name, b.turned(name + ".turned", x), num_groups, (), eps))
    y = b.group_norm(name, x, num_groups, (), eps)
    for f, a in ((b.mul, weight), (b.add, bias)):
        y = y if a is None else f(f"{name}.{a.path}", y, Own(a.path, a.tensor, a.learns, (x.shape[0], 1, 1)))
    return y


MODULES = {nn.Softmax2d: lambda b, name, m, prefix, x: softmax(b, name, x, 1), nn.LogSoftmax: lambda b, name, m, prefix, x: log_softmax(b, name, x, m.dim)}
FUNCTIONS = {
    torch.mean: mean, "mean": mean, torch.sum: sum_of, "sum": sum_of, torch.amax: amax, "amax": amax, torch.max: _max, "max": _max,
    torch.var: _var, "var": _var, torch.std: _std, "std": _std, torch.norm: _norm, "norm": _norm, F.normalize: _normalize,
    F.group_norm: group_norm, F.log_softmax: log_softmax, torch.log_softmax: log_softmax, "log_softmax": log_softmax,
    torch.linalg.vector_norm: lambda b, name, x, ord=2, dim=None, keepdim=False: _norm(b, name, x, ord, dim, keepdim),
}
