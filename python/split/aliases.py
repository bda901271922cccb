"""Tensors that share memory in PyTorch. The graph has a value for each, so what is changed in place is followed, or refused."""
from . import errors
from .builder import Last, Value


def view(x, *parts):
    """parts show numbers of x; beside each other, where one call gives several."""
    for y in parts:
        if y is not x and isinstance(y, Value):
            y.base, y.apart = x, parts if len(parts) > 1 else None
            x.views = [*x.views, y]


def _shown(x):
    """All views of x, and theirs."""
    return [v for of in x.views for v in (of, *_shown(of))]


def _others(x):
    """What may show numbers of x, too."""
    found = _shown(x)
    while x.base is not None:
        found.append(x.base)
        found += [v for of in x.base.views if of is not x and (x.apart is None or of.apart is not x.apart) for v in (of, *_shown(of))]
        x = x.base
    return found


def own(y, given):
    """y, which a function gives that is no view; one of its arguments may stand for it, as x * 1 is x in the graph."""
    return Value(y.number, y.shape) if type(y) is not Last and any(y is a for a in given) else y


def overwrite(x, y, name):
    """The node changes x in place, which from now on is y. What else shows x is not known any more."""
    for other in _others(x):
        other.changed = name
    if type(x) not in (Value, Last):
        x.changed = name
        return y
    x.number, x.shape = y.number, y.shape
    return x


def check(name, values):
    for v in values:
        if isinstance(v, Value) and v.changed:
            raise errors.config(f"{name}: it reads what {v.changed} changed in place: write {v.changed} without that")
