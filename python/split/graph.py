"""Reads a torch.nn.Module, by torch.fx, as the text of a graph. Nothing is computed: builder.py infers the shapes."""
import math
import operator

import torch
import torch.fx
import torch.nn.functional as F
from torch import nn

from . import aliases, columns, encoders, errors, heads, later, made, recurrent, reduce, texts, tracing, volumes, windows
from .builder import MATH, OWN, ROWS, UNREAD, Builder, Counted, Ids, Last, Later, Own, Parted, Times, Tokens, Transposed, Value, image, is_volume, must, of_call, params, place, real, said


_ALL = (1 << 63) - 1  # the end that TorchScript has for a slice without one


# ---- modules: builder, name in the network, module, prefix of its state, input

def _batchnorm(b, name, m, prefix, x):
    must(name, m, affine=True, track_running_stats=True)
    x.shape if is_volume(x) else image(name, x)
    if m.momentum is None:
        raise errors.config(f"{name}: momentum=None is not known on the server: give a number")
    if set(x.shape[1:]) == {1}:
        b.single = b.single or name
    eps, momentum = real(m.eps), real(m.momentum)
    return b.node(name, "batchnorm", [x], x.shape, params(prefix, m, "weight", "bias", "running_mean", "running_var"),
                  eps=None if eps == "1e-05" else eps, momentum=None if momentum == "0.1" else momentum)


def _batchnorm_rows(b, name, m, prefix, x):
    if len(x.shape) == 2:
        return b.turned(name + ".signal", _batchnorm(b, name, m, prefix, b.line(name + ".image", x)))
    if len(x.shape) != 1:
        raise errors.config(f"{name}: BatchNorm1d works on rows [F] and signals [C, L], and gets {list(x.shape)}")
    x = b.node(name + ".image", "permute", [x], (*x.shape, 1, 1), h=1, w=1)
    return b.flatten(name + ".flatten", _batchnorm(b, name, m, prefix, x))


def _groupnorm(b, name, m, prefix, x):
    if len(x.shape) == 2:
        return b.turned(name + ".signal", _groupnorm(b, name, m, prefix, b.line(name + ".image", x)))
    return b.group_norm(name, x, m.num_groups, params(prefix, m), m.eps)


def builder_of(m):
    return MODULES.get(type(m)) or encoders.named(m)


def _simple(kind, **usual):
    def build(b, name, m, prefix, x):
        must(name, m, **usual)
        return b.act(name, x, kind)
    return build


MODULES = {
    nn.BatchNorm2d: _batchnorm, nn.BatchNorm3d: _batchnorm, nn.BatchNorm1d: _batchnorm_rows, nn.GroupNorm: _groupnorm,
    nn.LayerNorm: lambda b, name, m, prefix, x: b.norm(name, x, m, prefix),
    nn.Dropout: lambda b, name, m, prefix, x: heads.dropped(b, name, x, m.p),
    nn.Softmax: lambda b, name, m, prefix, x: heads.softmax(b, name, x, m.dim),
    **dict.fromkeys((nn.Dropout3d, nn.Dropout2d, nn.Dropout1d), lambda b, name, m, prefix, x: made.drops_parts(b, name, x, m.p)),
    nn.AlphaDropout: lambda b, name, m, prefix, x: (must(name, m, p=0), x)[1],
    nn.Identity: lambda b, name, m, prefix, x: x,
    nn.Flatten: lambda b, name, m, prefix, x: _flatten(b, name, x, m.start_dim, m.end_dim),
    nn.Unflatten: lambda b, name, m, prefix, x: (must(name, m, dim=1), _view(b, name, x, -1, *m.unflattened_size, *x.shape[1:]))[1],
    nn.ReLU: _simple("act"), nn.Tanh: _simple("tanh"), nn.Sigmoid: _simple("sigmoid"), nn.SiLU: _simple("silu"),
    nn.Hardsigmoid: _simple("hardsigmoid"), nn.Hardswish: _simple("hardswish"), **made.MODULES,
    **encoders.MODULES, **columns.MODULES, **windows.MODULES, **volumes.MODULES, **reduce.MODULES, **recurrent.MODULES,
    nn.Softplus: _simple("softplus", beta=1, threshold=20),
    nn.LeakyReLU: lambda b, name, m, prefix, x: b.leaky(name, x, m.negative_slope),
    nn.ReLU6: lambda b, name, m, prefix, x: b.act(name, x, "act", fn="relu6"),
    nn.GELU: lambda b, name, m, prefix, x: b.act(name, x, "gelu", tanh=1 if m.approximate == "tanh" else None),
}


# ---- functions and methods: builder, name, arguments

def _flatten(b, name, x, start_dim=0, end_dim=-1):
    if start_dim == 2 and end_dim in (-1, 3) and len(x.shape) == 3:
        return b.turned(name, x)
    if start_dim != 1 or end_dim != -1:
        raise errors.config(f"{name}: flatten from {start_dim} to {end_dim}; the server flattens from 1 on, and images from 2 on")
    return b.flatten(name, x)


def _turned(own, dims):
    """A module's own matrix, transposed or not."""
    if list(dims) == sorted(dims):
        return own
    if isinstance(own, Transposed):
        return Own(own.path, own.tensor, own.learns)
    if len(own.shape) != 2 or own.shape != tuple(own.tensor.shape):
        raise errors.config(f"{own.path}: a permuted parameter of {list(own.shape)}; the server has transposed matrices")
    return Transposed(own.path, own.tensor, own.learns, own.shape[::-1])


def _permute(b, name, x, *dims):
    dims = dims[0] if len(dims) == 1 else dims
    n = len(x.shape) + (not isinstance(x, Own))
    dims = [place(name, d, n) for d in dims]
    if isinstance(x, Own):
        return _turned(x, dims)
    if isinstance(x, Parted) and dims == [0, 2, 1, 3]:
        return heads.parted(b, name, x)
    if isinstance(x, recurrent.Steps):
        return _permute(b, name, x.of, [1 - d if d < 2 else d for d in dims])  # as it would be with rows first
    if len(dims) == 3 and dims[1] == 0 and not b.per_token:
        return recurrent.Steps(b.turned_by(name, x, [dims[0] - 1, dims[2] - 1]))
    if isinstance(x, Last) or dims == [0, 2, 3, 1]:
        return made.permuted(b, name, x, dims)
    if dims[0] != 0:
        raise errors.config(f"{name}: {dims} of {list(x.shape)} with its rows, which stay the first dimension")
    if isinstance(x, made.Many):
        return made.Many(x.of, x.sizes, [x.order[d - 1] for d in dims[1:]])
    return b.turned(name, x) if dims == [0, 2, 1] else b.turned_by(name, x, [d - 1 for d in dims[1:]])


def _transpose(b, name, x, dim0, dim1):
    dims = list(range(len(x.shape) + (not isinstance(x, Own))))
    dim0, dim1 = place(name, dim0, len(dims)), place(name, dim1, len(dims))
    dims[dim0], dims[dim1] = dims[dim1], dims[dim0]
    return _permute(b, name, x, dims)


def _t(b, name, x):
    return _transpose(b, name, x, 0, 1)


def _whole(own, index):
    """A module's own tensor, indexed so that all of it is taken; only dimensions of size 1 may change."""
    shape = list(own.shape)
    try:
        part = torch.arange(own.tensor.numel()).reshape(own.shape)[index]
    except (TypeError, IndexError) as e:
        raise errors.config(f"{own.path}: a part of the parameter {shape}: {e}") from e
    if not torch.equal(part.flatten(), torch.arange(own.tensor.numel())):
        raise errors.config(f"{own.path}: {list(part.shape)} of the parameter {shape}; the server has the whole, in its own order")
    return Own(own.path, own.tensor, own.learns, part.shape)


def _slice(b, name, x, dim=0, start=None, end=None, step=1):
    if isinstance(x, Own):
        return _whole(x, (slice(None),) * place(name, dim, len(x.shape)) + (slice(start, end, step),))
    dim = place(name, dim, len(x.shape) + 1)
    if dim == 0 and start in (None, 0) and end in (None, _ALL) and step in (None, 1):
        return x
    whole = dim and all(i is None or isinstance(i, int) for i in (start, end, step))
    taken = range(*slice(start, end, step).indices(x.shape[dim - 1])) if whole else ()
    if not taken:
        raise errors.config(f"{name}: a slice of {list(x.shape)} with its rows that takes nothing, or not all rows")
    if len(taken) == x.shape[dim - 1]:
        return x
    return b.resampled(name, x, dim, len(taken), first=taken[0], step=taken.step)


def _select(b, name, x, dim, index):
    dim = place(name, dim, len(x.shape) + 1)
    if isinstance(x, recurrent.Steps) and not dim:
        if x.parts:
            return x.parts[index]
        x, dim = x.of, 1
    if b.per_token and (dim, index) == (1, 0) and len(x.shape) == 2:
        return texts.first(b, name, x)
    if not dim or not -x.shape[dim - 1] <= index < x.shape[dim - 1]:
        raise errors.config(f"{name}: number {said(index)} of dimension {dim} of {list(x.shape)} with its rows, which stay as they are")
    y = b.resampled(name, x, dim, 1, first=index % x.shape[dim - 1])
    if len(x.shape) == 1:
        y.bare = f"{name}: it leaves one number of a row, without a dimension; write {index}:{index + 1 or ''} in place of {index}, or unsqueeze(1) behind it"
        return y
    return b.flatten(name + ".flatten", y) if len(x.shape) < 3 else b.reshaped(name + ".less", y, [n for i, n in enumerate(x.shape, 1) if i != dim])


def _item(b, name, x, index):
    index = index if isinstance(index, tuple) else (index,)
    if isinstance(x, Own):
        return _whole(x, index)
    index = heads.spelled(index, len(x.shape) + 1)
    if columns.lists(index) and not b.per_token:
        return columns.item(b, name, x, index)
    if isinstance(x, recurrent.Steps) and isinstance(index[0], int) and all(i == slice(None) for i in index[1:]):
        return _select(b, name, x, 0, index[0])
    taken = [i for i in index if i is not None]
    if not taken or taken[0] != slice(None) or index[0] is None or len(taken) > len(x.shape) + 1 or any(
            not isinstance(i, (int, slice)) for i in taken):
        raise errors.config(f"{name}: {said(index)} of {list(x.shape)} with its rows; the server has all rows, and numbers and slices of "
                            "the others")
    gone = 0
    for dim, i in enumerate(taken[1:], 1):
        of = f"{name}.{dim}" if dim > 1 else name
        x = _select(b, of, x, dim - gone, i) if isinstance(i, int) else _slice(b, of, x, dim - gone, i.start, i.stop, i.step)
        gone += isinstance(i, int)
    if len(taken) == len(index):
        return x
    left = iter(() if x.bare else x.shape)
    x = _dimensioned(x)
    shape = [1 if i is None else next(left) for i in index[1:] if not isinstance(i, int)]
    return _view(b, name + ".none", x, -1, *shape, *left)


def _dimensioned(x):
    """x with a dimension for its one number of a row, which the graph has already."""
    return Value(x.number, x.shape) if x.bare else x


def _unbind(b, name, x, dim=0):
    dim = place(name, dim, len(x.shape) + 1)
    if not dim:
        raise errors.config(f"{name}: parts rows; the server has all of them")
    return tuple(_select(b, f"{name}.{i}", x, dim, i) for i in range(x.shape[dim - 1]))


def _squeeze(b, name, x, dim=None):
    if isinstance(x, recurrent.Steps) and dim == 0 and x.shape[0] == 1:
        return _select(b, name, x, 0, 0)
    dims = [dim] if isinstance(dim, int) else dim
    gone = {place(name, d, len(x.shape) + 1) for d in dims} if dims is not None else set(range(1, len(x.shape) + 1))
    if 0 in gone:
        raise errors.config(f"{name}: dimension 0 is that of rows, which stays")
    return _view(b, name, x, -1, *(n for d, n in enumerate(x.shape, 1) if n != 1 or d not in gone))


def _unsqueeze(b, name, x, dim):
    if isinstance(x, Own):
        dim = place(name, dim, len(x.shape) + 1)
        return _viewed(x, (*x.shape[:dim], 1, *x.shape[dim:]))
    dim = place(name, dim, len(x.shape) + 2 - bool(x.bare))
    if not dim:
        raise errors.config(f"{name}: dimension 0 is that of rows, and stays the first")
    if x.bare:
        return _dimensioned(x)
    return _view(b, name, x, -1, *x.shape[:dim - 1], 1, *x.shape[dim - 1:])


def _viewed(own, size):
    """A module's own tensor, viewed as size; only dimensions of size 1 may change."""
    size = list(size)
    if size.count(-1) == 1:
        size[size.index(-1)] = own.tensor.numel() // -math.prod(size)
    if [n for n in size if n != 1] != [n for n in own.shape if n != 1]:
        raise errors.config(f"{own.path}: {list(own.shape)} as {said(size)}; dimensions of size 1 may come and go")
    return Own(own.path, own.tensor, own.learns, size)


def _view(b, name, x, *size):
    size = list(size[0] if isinstance(size[0], (list, tuple)) else size)
    if isinstance(x, Own):
        return _viewed(x, size)
    if isinstance(size[0], Times) and isinstance(x, made.Many) and len(size) == 3 and size[1] in (-1, math.prod(x.shape[1:-1])) and size[2] == x.shape[-1]:
        return heads.fold(b, name, x)
    b.keeps_rows(name, size)
    if len(size) > 1:
        x = _dimensioned(x)
    if isinstance(x, heads.Folded):
        return heads.unfold(b, name, x, size[1], size[2:-1])
    n = math.prod(x.shape)
    if size[1:].count(-1) == 1 and all(isinstance(i, int) for i in size[1:]):
        size[size.index(-1, 1)] = n // max(1, -math.prod(size[1:]))
    if size[1:] == list(x.shape):
        return x
    if is_volume(x) and size[1:] != [n]:
        raise volumes.mixed(name, f"a view as {said(size)}", x)
    if isinstance(x, Last):
        x = b.arranged(name + ".flat", x.image(), list(x.shape), range(3), (n,))
    if len(x.shape) == 2 and len(size) > 4 and size[1] == x.shape[0]:
        return heads.view(b, name, x, size)
    if len(size) > 4 or isinstance(x, made.Many):
        size = [i if isinstance(i, int) else 0 for i in size[1:]]
        if math.prod(size) != n:
            raise errors.config(f"{name}: {list(x.shape)} as {size}, both without rows, is of another size")
        return made.viewed(b, name, x, size)
    sizes = [i for i in size[1:] if isinstance(i, int)]
    if len(sizes) == 3 == len(size) - 1 and len(x.shape) < 3 and math.prod(sizes) == n:
        return b.as_image(name, x, sizes)
    if len(x.shape) == 3 and sizes == [x.shape[0], x.shape[1] * x.shape[2]]:
        return b.turned(name, x)
    if 1 < len(sizes) == len(size) - 1 < 4 and math.prod(sizes) == n and not b.per_token:
        return b.reshaped(name, x, sizes)
    if size[1:] != [n]:
        raise errors.config(f"{name}: {list(x.shape)} as {sizes}, both without rows, is not known on the server; it flattens to [rows, {n}]")
    return b.flatten(name, x)


def _cat(b, name, tensors, dim=0):
    y = tensors[0]
    dim = place(name, dim, len(y.shape) + 1)
    for i, x in enumerate(tensors[1:]):
        fits = len(x.shape) == len(y.shape) and all(m == n for d, (n, m) in enumerate(zip(y.shape, x.shape), 1) if d != dim)
        if not dim or not fits or (b.of_tokens(y) and dim == 1):
            raise errors.config(f"{name}: concatenates {list(y.shape)} and {list(x.shape)} with their rows along {dim}; the server joins "
                                "what is equal but for one dimension, which is not that of rows")
        y = b.joined(f"{name}.{i}" if i else name, y, x, dim)
    return y


def _stack(b, name, tensors, dim=0):
    dim = place(name, dim, len(tensors[0].shape) + 2 - bool(tensors[0].bare))
    return _cat(b, name, [_unsqueeze(b, f"{name}.of{i}", x, dim) for i, x in enumerate(tensors)], dim)


class Factors:
    """A product of two matrices that the module itself holds."""

    def __init__(self, first, second):
        self.first, self.second = first, second


def _linear(b, name, x, weight, bias=None):
    """F.linear with tensors that the module itself holds."""
    if not isinstance(weight, Own) or len(x.shape) == 3 or len(weight.shape) != 2 or weight.shape[1] != x.shape[-1]:
        raise errors.config(f"{name}: linear of {list(x.shape)} by what is no matrix of the module, or does not fit")
    parts = [a.param() for a in (weight, bias) if a]
    return b.node(name, "linear", [x], (*x.shape[:-1], weight.shape[0]), parts, transposed=1 if isinstance(weight, Transposed) else None)


def _by_later(b, name, x, y):
    """x by a matrix that forward computes of one of the module's own: a copy for each row, times x, and the sum over x's features."""
    if not isinstance(x, Value) or len(x.shape) != 1 or len(y.of.shape) != 2 or x.shape[0] != y.of.shape[0]:
        raise errors.config(f"{name}: a product with what is computed of {y.of.path} is known on the server for rows of as many features; "
                            "compute it as a layer does, or keep this part in head or tail")
    by = y.then(b.each_row(_unsqueeze(b, name, y.of, 0)))
    return reduce.sum_of(b, name, b.mul(name + ".each", by, _unsqueeze(b, name + ".tall", x, 2)), 1)


def _matmul(b, name, x, y):
    """By a matrix that the module itself holds, or a product of two, or as in attention."""
    if isinstance(x, Own) and isinstance(y, Own) and len(x.shape) == len(y.shape) == 2 and x.shape[1] == y.shape[0]:
        return Factors(x, y)
    if isinstance(y, Later):
        return _by_later(b, name, x, y)
    if isinstance(y, Factors):
        return _matmul(b, name, _matmul(b, name + ".first", x, y.first), y.second)
    return _linear(b, name, x, _t(b, name, y)) if isinstance(y, Own) and len(y.shape) == 2 else heads.matmul(b, name, x, y)


def _f(kind):
    return lambda b, name, x, inplace=False: b.act(name, x, kind)


def _f_dropout(b, name, x, p=0.5, training=True, inplace=False):
    return heads.dropped(b, name, x, b.rate(name, p if training else 0.0))


def _f_batchnorm(b, name, x, mean, var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """F.batch_norm in a batch norm's own forward, as timm's BatchNormAct2d calls it."""
    m, prefix = getattr(mean, "norm", None), getattr(mean, "path", "")[:-len("running_mean")]
    paths = [getattr(t, "path", None) for t in (mean, var, weight, bias)]
    if not m or paths != [prefix + key for key in ("running_mean", "running_var", "weight", "bias")] or training == b.evaluates or (
            momentum, eps) != (m.momentum, m.eps):
        raise errors.config(f"{name}: F.batch_norm is known on the server with all that one batch norm has, and training=self.training")
    return (_batchnorm_rows if isinstance(m, nn.BatchNorm1d) else _batchnorm)(b, name, m, prefix, x)


def _to(b, name, x, *args, **kwargs):
    """All values are float32, and in one memory."""
    kinds = [a.tensor.dtype if isinstance(a, Own) else a for a in (x, *args, *kwargs.values()) if isinstance(a, (Own, torch.dtype))]
    if kinds and all(kind in (torch.int64, torch.int32) for kind in kinds):
        return columns.ids(b, name, x)
    if any(kind is not torch.float32 for kind in kinds):
        raise errors.config(f"{name}: it converts to or from {kinds}; the server computes in float32")
    return x


def _check_sizes(name, args):
    if any(map(of_call, args)):
        raise errors.config(f"{name}: computes with the number of rows or tokens, of which each call may have another")


def call_function(b, build, name, target, args, kwargs):
    """Calls build, the entry of FUNCTIONS for target."""
    flat = [a for of in (*args, *kwargs.values()) for a in (of if isinstance(of, (list, tuple)) else [of])]
    values = [a for a in flat if isinstance(a, Value)]
    bare = values[0].bare if len(values) == 1 else None
    aliases.check(name, flat, bare or build is _stack)
    if build not in _VIEWS and build is not made.repeat:
        _check_sizes(name, flat)
    taken = [a for a in flat if isinstance(a, columns.Columns)]
    if taken and build not in _OF_IDS:
        raise columns.alone(name)
    if any(isinstance(a, (heads.View, heads.Scores)) or isinstance(a, heads.Folded) and build is not _view for a in args):
        build = _OF_HEADS.get(build, build)
    word = target if isinstance(target, str) else getattr(target, "__name__", "")
    whole = next((a for a in flat if is_volume(a)), None)
    if whole and build not in _OF_VOLUMES:
        raise volumes.mixed(name, word, whole)
    deferred = None if tracing.changes(target, args, kwargs) else later.of_one(b, build, name, word, args, kwargs)
    if deferred:
        return deferred
    if build in (_view, _unsqueeze) and isinstance(args[0], Later):
        return Later(build(b, name, args[0].of, *args[1:], **kwargs), args[0].then)
    for own in flat:
        if isinstance(own, Own) and build not in _TAKE_OWN or isinstance(own, Later) and build not in _TAKE_LATER:
            raise errors.config(f"{later.own_of(own).path}: {OWN}")
    try:
        y = build(b, name, *args, **kwargs)
    except (AttributeError, TypeError, ValueError, LookupError) as e:
        raise errors.config(f"{name}: the server does not know {word}{said(args)}{f' with {said(list(kwargs))}' if kwargs else ''}: write it in another form, or "
                            "keep it in head or tail") from e
    if build in (*_VIEWS, _f_dropout, made.f_drops_channels) and isinstance(args[0], Value):  # a dropout that drops nothing returns its input
        aliases.view(args[0], *(y if isinstance(y, tuple) else [y]))
    elif isinstance(y, Value) and target not in ("float", "contiguous"):
        y = aliases.own(y, flat)
    if bare and build not in (_unsqueeze, _view, _item, _stack) and y is not None:
        if not isinstance(y, Value) or y.shape != (1,):
            raise errors.config(bare)
        y.bare = bare  # each number by itself
    if build in _OF_PLACES or taken and build is Builder.add:
        columns.trace(y, target, args, kwargs)
    if taken and build in _OF_IDS[:-1]:
        y = columns.kept(b, name, y, [a for a in args if not isinstance(a, Value)] if build is Builder.add else ())
    if tracing.changes(target, args, kwargs) and isinstance(args[0], Value):
        return aliases.overwrite(args[0], y, name)
    return y


_TAKE_LATER = Builder.add, Builder.sub, Builder.mul, Builder.div, _matmul
_TAKE_OWN = *windows.OF_OWN, made.repeat, made.detached, _matmul, _permute, _transpose, _t, reduce.group_norm, Builder.add, Builder.sub, Builder.mul, Builder.div, _item, _slice, _view, _unsqueeze, _linear, _f_batchnorm, made._expand, columns.functional, heads.item, \
    made._prelu, made._layer_norm, made.addcmul, _to, heads.mul, heads.div, heads.add, heads.masked, heads.attention


def _math(fn):
    return lambda b, name, x: b.act(name, x, "math", fn=MATH[fn])


def _rsqrt(b, name, x):
    return made._pow(b, name, x, -0.5)


def _same(b, name, x, memory_format=None):
    return x


BY_NAME = {**made.NAMED, **heads.NAMED}  # functions of packages, or of newer versions of PyTorch, that may not be installed
FUNCTIONS = {
    **{key: _math(fn) for fn in MATH for key in (getattr(torch, fn), fn)},
    operator.truediv: Builder.div, operator.itruediv: Builder.div, torch.div: Builder.div, "div": Builder.div,
    operator.add: Builder.add, operator.iadd: Builder.add, torch.add: Builder.add, "add": Builder.add,
    operator.sub: Builder.sub, operator.isub: Builder.sub, torch.sub: Builder.sub, "sub": Builder.sub,
    "rsub": lambda b, name, x, of, alpha=1: b.sub(name, of, x, alpha),
    **{key: lambda b, name, x: b.mul(name, x, -1) for key in (operator.neg, torch.neg, "neg")},
    operator.mul: Builder.mul, operator.imul: Builder.mul, torch.mul: Builder.mul, "mul": Builder.mul,
    operator.getitem: _item, "select": _select, torch.select: _select, "slice": _slice,
    "transpose": _transpose, torch.transpose: _transpose, "permute": _permute, torch.permute: _permute, "t": _t, torch.t: _t,
    **dict.fromkeys((operator.matmul, torch.matmul, "matmul", torch.bmm, "bmm", torch.mm, "mm"), _matmul),
    "view": _view, "reshape": _view, torch.reshape: _view, "squeeze": _squeeze, torch.squeeze: _squeeze, "unsqueeze": _unsqueeze,
    torch.unsqueeze: _unsqueeze, F.linear: _linear, **{key: _rsqrt for key in (torch.rsqrt, "rsqrt")},
    **{key: _same for key in ("clone", torch.clone, "float")}, "to": _to, "type_as": _to, "type": _to, "long": columns.ids, "int": columns.ids, F.embedding: columns.functional, torch.stack: _stack, **windows.FUNCTIONS, **volumes.FUNCTIONS, **reduce.FUNCTIONS,
    torch.flatten: _flatten, "flatten": _flatten, torch.cat: _cat,
    F.relu: _f("act"), torch.relu: _f("act"), "relu": _f("act"), F.silu: _f("silu"), torch.tanh: _f("tanh"), F.tanh: _f("tanh"), "tanh": _f("tanh"),
    torch.sigmoid: _f("sigmoid"), "sigmoid": _f("sigmoid"), F.hardswish: _f("hardswish"),
    F.hardsigmoid: _f("hardsigmoid"), F.relu6: lambda b, name, x, inplace=False: b.act(name, x, "act", fn="relu6"),
    F.leaky_relu: lambda b, name, x, negative_slope=0.01, inplace=False: b.leaky(name, x, negative_slope),
    F.gelu: lambda b, name, x, approximate="none": b.act(name, x, "gelu", tanh=1 if approximate == "tanh" else None),
    F.dropout: _f_dropout, F.sigmoid: _f("sigmoid"), F.batch_norm: _f_batchnorm, **made.FUNCTIONS, **heads.FUNCTIONS, **BY_NAME,
    "unbind": _unbind, torch.unbind: _unbind,
}
_OF_PLACES = _item, _select, _slice, _unbind, _cat, _stack, _unsqueeze, made._chunk, made._split
_OF_IDS = *_OF_PLACES, Builder.add, _to, columns.ids, columns.functional
_VIEWS = {_to, made.detached, _item, _select, _slice, _squeeze, _unsqueeze, _transpose, _permute, _t, _view, _flatten, _unbind, made._chunk, made._split, made._expand, made._expand_as,
          heads.transpose, heads.permute, heads.view, heads.flatten, heads.item, heads.select, heads.unbind}
_OF_VOLUMES = {*(MODULES[m] for m in (*volumes.MODULES, *volumes.OTHERS)), *(FUNCTIONS[f] for f in (*volumes.CALLED, *volumes.FUNCTIONS)), *map(FUNCTIONS.get, MATH)}
_VIEW_MODULES = {MODULES[m] for m in (nn.Flatten, nn.Unflatten, nn.Dropout, nn.Dropout2d, nn.Identity)}
_OF_HEADS = {Builder.mul: heads.mul, Builder.div: heads.div, Builder.add: heads.add, _transpose: heads.transpose, _permute: heads.permute,
             _view: heads.view, _flatten: heads.flatten, _item: heads.item, _select: heads.select, _unbind: heads.unbind}
OF_CONSTANTS = {"getitem", "slice", "select", "unsqueeze", "squeeze", "transpose", "permute", "t", "view", "reshape", "expand", "size",
                "dim", "to", "float", "bool", "neg", "exp", "log", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "add", "sub", "mul", "div",
                "truediv", "pow", "square", "sigmoid", "tanh", "tril", "triu", "masked_fill", "eq", "ne", "lt", "gt", "le", "ge", "logical_not", "bitwise_not", "invert"}
_COMPARE = {operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge}
_OF_NUMBERS = {operator.add, operator.sub, operator.mul, *tracing.IN_PLACE, operator.floordiv, operator.truediv, operator.mod, operator.neg,
               operator.pow, math.sqrt}
_SAY_NOTHING = {"_assert", "_assert_is_none", "dim", "size", "eq", "getattr", "ne", "__eq__"}


def unknown(name, word):
    return errors.config(f"{name}: {word} is not known on the server: keep it in head or tail, or write it otherwise "
                         "(docs/howto-script.md#what-is-read)")


def function_of(target, word):
    """The build for a function; None: it is unknown. A name that ends with _ computes the same, in place."""
    if target in FUNCTIONS or (callable(target) and (target.__module__ or "torch").split(".")[0] not in ("torch", "torchvision")):
        return FUNCTIONS.get(target)  # a script's own function may have any name
    return BY_NAME.get(word) or (FUNCTIONS.get(word[:-1]) if tracing.changes(word, (), {}) else None)


def call_module(b, build, name, m, prefix, args, kwargs):
    """Calls build, which builder_of returned; None: the module is unknown."""
    args, build = encoders.arguments(b, build, name, args, kwargs)
    aliases.check(name, args, bare=build is columns.embedding)
    if any(isinstance(a, (Own, Later)) for a in args) and build is not columns.embedding:
        raise errors.config(f"{name}: {OWN}")
    if not build:
        raise unknown(name, type(m).__name__)
    if not args or any(a is not None for a in args[1:]) or any(v is not None for k, v in kwargs.items() if k not in ("need_weights", "average_attn_weights")):
        raise errors.config(f"{name}: {type(m).__name__} takes one input here")
    if is_volume(args[0]) and build not in _OF_VOLUMES:
        raise volumes.mixed(name, type(m).__name__, args[0])
    try:
        y = build(b, name, m, prefix, args[0])
    except (AttributeError, TypeError) as e:
        raise errors.config(f"{name}: {type(m).__name__} is not as its package makes it: {e}") from e
    if build in _VIEW_MODULES:
        aliases.view(args[0], y)
    elif isinstance(y, Value):
        y = aliases.own(y, args)
    return aliases.overwrite(args[0], y, name) if getattr(m, "inplace", False) else y


def _make(b, name, word, args, kwargs):
    """A tensor that forward makes of numbers alone, equal in every call."""
    if word == "arange":
        _check_sizes(name, [a for a in args if not isinstance(a, Tokens)])
        return texts.arange(b, name, *args, **kwargs)
    sizes = [a for of in args for a in (of if isinstance(of, (list, tuple)) else [of])]
    if word == "zeros" and sizes.count(ROWS) == 1 and not any(isinstance(a, Tokens) for a in sizes):
        return recurrent.Zeros(b, name, sizes)
    _check_sizes(name, sizes)
    return Own(name + ".constant", tracing.MAKERS[word](*args, **kwargs), False)


def _number(b, node, args):
    """The result of a node that gives sizes, or numbers or lists computed from them; None: it is another node."""
    x = args[0] if args else None
    if isinstance(x, (Value, Own)) and (node.target == "size" or (node.target is getattr and args[1] == "shape")):
        shape = x.shape if isinstance(x, Own) else tuple(heads.sizes(b, x))
        return shape if node.target is getattr or len(args) == 1 else shape[args[1]]
    if isinstance(x, (Value, Own)) and (node.target == "dim" or (node.target is getattr and args[1] == "ndim")):
        return len(x.shape if isinstance(x, Own) else heads.sizes(b, x))
    if isinstance(x, (Value, Own)) and node.target is getattr and args[1] in ("dtype", "device"):
        return torch.device("cpu") if args[1] == "device" else x.tensor.dtype if isinstance(x, Own) else torch.int64 if isinstance(x, (Ids, columns.Columns)) else torch.float32
    if node.target is operator.add and all(isinstance(a, (list, tuple)) for a in args):
        return (*args[0], *args[1])
    times = node.target in (operator.mul, operator.imul)
    if (times or node.target is operator.floordiv) and 1 in args[1:] or times and 1 in args[:1]:
        same = [a for a in args if of_call(a)]  # as einops computes sizes
        if same:
            return same[0]
    if times and ROWS in args and all(a is ROWS or isinstance(a, int) for a in args):
        return Times(args[args[0] is ROWS])
    if node.target is operator.floordiv and isinstance(args[0], Times) and args[1] == args[0].n:
        return ROWS
    if node.target in _OF_NUMBERS:
        _check_sizes(node.name, args)
    compares = node.target in _COMPARE and not any(map(of_call, args))
    numbers = node.op == "call_function" and (node.target in _OF_NUMBERS or compares) and all(isinstance(a, (int, float)) for a in args)
    return node.target(*args) if numbers else None


def _folded(b, node, args, kwargs):
    """The result of a node that uses only numbers and a module's tensors that do not learn; None: it is another node."""
    flat = [a for of in (*args, *kwargs.values()) for a in (of if isinstance(of, (list, tuple)) else [of])]
    word = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if word not in OF_CONSTANTS or not any(isinstance(a, Own) for a in flat) or any(
            isinstance(a, Value) or of_call(a) or (isinstance(a, Own) and a.learns) for a in flat):
        return None
    args = [a.tensor if isinstance(a, Own) else a for a in args]
    found = getattr(args[0], word)(*args[1:], **kwargs) if node.op == "call_method" else node.target(*args, **kwargs)
    b.reads(found, *(flat if word not in ("size", "dim") else ()))
    return Own(node.name + ".constant", found, False) if isinstance(found, torch.Tensor) else found


def _learns(node):
    if not node.meta.get("learns", True):
        raise errors.config(f"{node.name}: torch.no_grad() inside forward is not known on the server; freeze=[...] keeps parameters "
                            "as they are, and the gradient goes through them")


def _call(b, module, strip, node, env):
    def value(a):
        return torch.fx.node.map_arg(a, lambda n: env[n])
    args, kwargs = value(node.args), dict(value(node.kwargs))
    word = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
    unread = next((n for n in node.all_input_nodes if env[n] is UNREAD), None)
    if unread and (node.op == "call_module" or word not in _SAY_NOTHING):
        raise errors.config(f"{node.name}: it reads {unread}, which the server does not compute: comparisons and attributes of tensors are "
                            "known in assertions alone")
    counted = next((env[n] for n in node.all_input_nodes if isinstance(env[n], Counted)), None)
    if counted and node.target == "add_" and counted.path.endswith("num_batches_tracked") and args[1:] == (1,):
        return counted  # the server's steps count
    if counted and node.target is not F.batch_norm:
        raise errors.config(f"{counted.path}: {tracing.COUNTS}")
    if node.op == "call_module":
        _learns(node)
        m = module.get_submodule(node.target)
        build = builder_of(m) or (MODULES[nn.MultiheadAttention] if isinstance(m, nn.MultiheadAttention) else None)  # which its class calls
        prefix = node.target[len(strip):] + "." * (node.target != strip.rstrip("."))
        return call_module(b, build, node.target[len(strip):] or "0", m, prefix, args, kwargs)
    if word in tracing.MAKERS and node.target is tracing.MAKERS[word]:
        return _make(b, node.name, word, args, kwargs)
    found = _number(b, node, args)
    found = _folded(b, node, args, kwargs) if found is None else found
    if found is not None:
        return found
    if node.target is operator.getitem and isinstance(args[0], encoders.First) and args[1] == 0:
        return args[0]
    if node.target is operator.getitem and isinstance(args[0], tuple):
        return args[0][args[1]]
    build = function_of(node.target, word)
    if not build and (word in _SAY_NOTHING or node.target in _COMPARE):
        return UNREAD
    if not build:
        raise unknown(node.name, word)
    _learns(node)
    return call_function(b, build, node.name, node.target, args, kwargs)


def _held(module, strip, name):
    """A tensor that a module itself holds."""
    m, tensor = module.get_submodule(name.rpartition(".")[0]), operator.attrgetter(name)(module)
    if tracing.counts(m, name):
        return Counted(name[len(strip):], m)
    tracing.check_read(name, m)
    return Own(name[len(strip):], tensor, isinstance(tensor, nn.Parameter))


def reader(b, module, strip):
    """A function that reads torch.fx's graph of module, whose names begin with strip, up to a node, and returns its value."""
    env = {}

    def give(node):
        if node.op == "placeholder":
            at = sum(n.op == "placeholder" for n in env)
            return b.inputs[at] if at < len(b.inputs) else node.args[0]
        if node.op == "output":
            out = torch.fx.node.map_arg(node.args[0], lambda n: env[n])
            return tuple(out) if isinstance(out, list) else out
        if "tensor" in node.meta:
            return Own(node.name + ".constant", node.meta["tensor"], False)
        return _held(module, strip, node.target) if node.op == "get_attr" else _call(b, module, strip, node, env)

    def read(last):
        for node in last.graph.nodes:
            if node not in env:
                had = len(b.nodes)
                try:
                    env[node] = give(node)
                except errors.ConfigError as e:
                    raise errors.at(e, node.meta.get("line"))
                b.lines.update({word.split()[1]: node.meta.get("line") for word, *_ in b.nodes[had:]})
            if node is last:
                return env[node]
    read.known = env
    return read
