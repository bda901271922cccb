"""What a file computes of constants and of its values' sizes, such as shapes and masks: evaluated by numpy."""
import math

import numpy as np

from . import errors

MOST = 1 << 24  # elements of one value
_KINDS = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float32, 11: np.float64, 16: np.float32}


class Known:
    """worlds: an array; or of what is computed of a mask of padding two: if real tokens are marked by 0, and if by 1. Which of both the
    file means shows where it uses the mask. counts: it is the number of a row's real tokens."""

    def __init__(self, worlds, counts=False):
        self.worlds, self.counts = list(worlds), counts

    @property
    def shape(self):
        return self.worlds[0].shape

    @property
    def array(self):
        return self.worlds[0] if len(self.worlds) == 1 else None

    def at(self, world):
        return self.worlds[world if len(self.worlds) > 1 else 0]


def _bounded(*shapes):
    for shape in shapes:
        if min(shape, default=0) < 0 or math.prod(map(int, shape)) > MOST:
            raise errors.config(f"it makes {list(map(int, shape))} numbers in advance, which are too many")


def _many(f):
    def eval(a, *given):
        _bounded(np.broadcast_shapes(*(x.shape for x in given)))
        if all(x.dtype.kind in "iu" for x in given) and any(x.size and np.abs(x.astype(np.float64)).max() > 2 ** 31 for x in given):
            raise errors.config("it computes a shape with numbers that are too large")
        return f(*given)
    return eval


def _divide(x, y):
    if x.dtype.kind not in "iu":
        return x / y
    if (x < 0).any() or (y <= 0).any():
        raise errors.config("it computes a shape in a way that is not read")
    return x // y


def _cast(a, x, *like):
    if not like and a.get("to") not in _KINDS:
        raise errors.config("it changes a type in a way that is not read")
    kind = like[0].dtype if like else _KINDS[a["to"]]
    return (x != 0) if kind == np.bool_ else x.astype(kind)


def _filled(a, size):
    _bounded(size)
    value = a.get("value", np.zeros(1, np.float32))
    if value.size != 1:
        raise errors.config("it fills a tensor with more than one number")
    return np.full(tuple(map(int, size)), value.reshape(()))


def _expanded(a, x, size):
    to = np.broadcast_shapes(x.shape, tuple(map(int, size)))
    _bounded(to)
    return np.broadcast_to(x, to)


def resized(shape, to, allowzero=False):
    """The sizes of a Reshape: 0 stands for the input's own one, one -1 for what is left."""
    to = [shape[i] if n == 0 and not allowzero and i < len(shape) else n for i, n in enumerate(map(int, to))]
    every, rest = math.prod(shape), math.prod(n for n in to if n != -1)
    if to.count(-1) > 1 or min(to, default=0) < -1 or (rest and every % rest) or (-1 in to and not rest):
        raise errors.config("its shape is not that of all numbers of its input")
    to = [every // rest if n == -1 else n for n in to]
    if math.prod(to) != every:
        raise errors.config("its shape is not that of all numbers of its input")
    return to


def slices(n, *given):
    """The slice of each of n axes, of the inputs of a Slice behind the first one."""
    first, end, *rest = (list(map(int, g)) for g in given if g is not None)
    axes, steps = rest[0] if rest else range(len(first)), rest[1] if len(rest) > 1 else [1] * len(first)
    if not len(first) == len(end) == len(axes) == len(steps) or any(not -n <= a < n for a in axes) or 0 in steps:
        raise errors.config("it cuts axes that are not there, or in a way that is not read")
    found = [slice(None)] * n
    for f, e, a, s in zip(first, end, axes, steps):
        found[a % n] = slice(f, None if s < 0 and e < -(1 << 31) else e, s)
    return tuple(found)


def axes_of(a, given, n):
    """The axes of a reduction, of its attribute or its input; all, if it has none."""
    axes = a.get("axes") if given is None else given
    axes = range(n) if axes is None or not len(axes) else axes
    if any(not -n <= i < n for i in axes):
        raise errors.config(f"axis {[int(i) for i in axes]} is not there")
    return tuple(sorted({int(i) % n for i in axes}))


def _reduced(f):
    return lambda a, x, axes=None: f(x, axis=axes_of(a, axes, x.ndim) if x.ndim else None, keepdims=bool(a.get("keepdims", 1)))


def unsqueezed(parts, axes, new):
    """The parts of a shape, with a new one at each of these axes."""
    n, left = len(parts) + len(axes), iter(parts)
    at = {int(i) % n for i in axes if -n <= i < n}
    if len(at) != len(axes) or n > 8:
        raise errors.config("its axes are not those of its input")
    return [new() if i in at else next(left) for i in range(n)]


def squeezed(parts, shape, axes):
    """The parts of a shape without these axes, which have size 1; None: without all such."""
    n = len(shape)
    at = {i for i, k in enumerate(shape) if k == 1} if axes is None else {int(i) % max(n, 1) for i in axes if -n <= i < n}
    if axes is not None and (len(at) != len(axes) or any(shape[i] != 1 for i in at)):
        raise errors.config(f"axis {[int(i) for i in axes]} is not there, or not of size 1")
    return [p for i, p in enumerate(parts) if i not in at]


def _range(a, first, end, step):
    n = math.ceil((end.item() - first.item()) / step.item()) if step.item() else -1
    _bounded((max(n, -1),))
    return np.arange(first.item(), end.item(), step.item(), dtype=first.dtype)


def _gathered(a, x, at):
    axis = a.get("axis", 0) % max(x.ndim, 1)
    _bounded((*x.shape[:axis], *at.shape, *x.shape[axis + 1:]))
    return np.take(x, at, axis)


def _joined(a, *given):
    _bounded((sum(x.size for x in given),))
    return np.concatenate(given, a["axis"])


def _bounds(a, x, low=None, high=None):
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def _triangle(a, x, k=None):
    k = 0 if k is None else int(k.item())
    return np.triu(x, k) if a.get("upper", 1) else np.tril(x, k)


EVAL = {
    "Abs": lambda a, x: np.abs(x), "Add": _many(np.add), "And": _many(np.logical_and), "Cast": _cast, "CastLike": _cast, "Clip": _bounds, "Concat": _joined,
    "Constant": lambda a: a["value"], "ConstantOfShape": _filled, "Div": _many(_divide), "Equal": _many(np.equal), "Exp": lambda a, x: np.exp(x),
    "Expand": _expanded, "Gather": _gathered, "Greater": _many(np.greater), "GreaterOrEqual": _many(np.greater_equal), "Identity": lambda a, x: x,
    "IsNaN": lambda a, x: np.isnan(x), "Less": _many(np.less), "LessOrEqual": _many(np.less_equal), "Log": lambda a, x: np.log(x),
    "Max": _many(np.maximum), "Min": _many(np.minimum), "Mod": lambda a, *x: _many(np.fmod if a.get("fmod") else np.mod)(a, *x), "Mul": _many(np.multiply),
    "Neg": lambda a, x: -x, "Not": lambda a, x: ~x.astype(bool), "Or": _many(np.logical_or), "Pow": _many(np.power), "Range": _range, "Reciprocal": lambda a, x: 1 / x,
    "ReduceMax": _reduced(np.max), "ReduceMean": _reduced(np.mean), "ReduceProd": _reduced(np.prod), "ReduceSum": _reduced(np.sum),
    "Reshape": lambda a, x, to: x.reshape(resized(x.shape, to, a.get("allowzero", 0))), "Slice": lambda a, x, *at: x[slices(x.ndim, *at)],
    "Shape": lambda a, x: np.array(x.shape[a.get("start", 0):a.get("end")], np.int64),
    "Sqrt": lambda a, x: np.sqrt(x), "Squeeze": lambda a, x, axes=None: x.reshape(squeezed(x.shape, x.shape, axes)), "Sub": _many(np.subtract),
    "Transpose": lambda a, x: np.transpose(x, a.get("perm")), "Trilu": _triangle, "Unsqueeze": lambda a, x, axes: x.reshape(unsqueezed(x.shape, axes, lambda: 1)),
    "Where": _many(np.where),
}
_KEEP_COUNTS = {"Cast", "CastLike", "Clip", "Expand", "Identity", "Max", "Reshape", "Squeeze", "Unsqueeze"}


def evaluate(kind, a, given):
    """The result of a node whose inputs are Known or left out (None). Refuses what numpy does."""
    many = max((len(k.worlds) for k in given if k), default=1)
    found = []
    for w in range(many):
        try:
            with np.errstate(all="ignore"):
                found.append(np.asarray(EVAL[kind](a, *(k and k.at(w) for k in given))))
        except (ValueError, TypeError, IndexError, KeyError, OverflowError, MemoryError, ZeroDivisionError, AttributeError) as e:
            raise errors.config(f"it is of constants, and not read so: {e}") from e
        _bounded(found[-1].shape)
    counts = bool(given) and given[0] is not None and given[0].counts and kind in _KEEP_COUNTS
    return Known(found, counts)
