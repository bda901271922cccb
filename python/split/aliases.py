"""Tensors that share memory in PyTorch. The graph has a value for each, so what is changed in place is followed, or refused."""
import math

from . import errors
from .builder import Last, Value


def view(x, y):
    """y shows numbers of x."""
    if y is not x and isinstance(y, Value):
        y.base = x
        x.views = [*x.views, y]


def _shown(x):
    """All views of x, and theirs."""
    return [v for of in x.views for v in (of, *_shown(of))]


def _others(x):
    """What shows numbers of x, too; of parts that were cut side by side, not the others."""
    found = _shown(x)
    while x.base is not None:
        found.append(x.base)
        if math.prod(x.base.shape) == math.prod(x.shape):
            found += [v for of in x.base.views if of is not x for v in (of, *_shown(of))]
        x = x.base
    return found


def overwrite(x, y, name):
    """The node changes x in place, which from now on is y. What else shows x is not known any more."""
    for other in _others(x):
        other.changed = name
    if type(x) in (Value, Last):
        x.number = y.number
    else:
        x.changed = name


def check(name, values):
    for v in values:
        if isinstance(v, Value) and v.changed:
            raise errors.config(f"{name}: it reads what {v.changed} changed in place: write {v.changed} without that")
