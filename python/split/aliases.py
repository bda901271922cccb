"""Views: tensors that share memory in PyTorch. The graph has a value for each, so a change in place is tracked, or refused."""
from . import errors
from .builder import Last, Value


def view(x, *parts):
    """Notes that parts are views of x. Several parts of one call do not overlap."""
    for y in parts:
        if y is not x and isinstance(y, Value):
            y.base, y.apart = x, parts if len(parts) > 1 else None
            x.views = [*x.views, y]


def _shown(x):
    """All views of x, and their views."""
    return [v for of in x.views for v in (of, *_shown(of))]


def _others(x):
    """All other values that may share memory with x."""
    found = _shown(x)
    while x.base is not None:
        found.append(x.base)
        found += [v for of in x.base.views if of is not x and (x.apart is None or of.apart is not x.apart) for v in (of, *_shown(of))]
        x = x.base
    return found


def own(y, given):
    """The result y of a function that makes no view. It is a new value even if the graph gives an argument, as x for x * 1."""
    return Value(y.number, y.shape) if type(y) is not Last and any(y is a for a in given) else y


def overwrite(x, y, name):
    """A node changes x in place: from now on x is y. Other values that share memory with x are unknown afterwards."""
    for other in _others(x):
        other.changed = name
    root = x
    while root.base is not None:
        root = root.base
    root.written = root.written or name
    if type(x) not in (Value, Last):
        x.changed = name
        return y
    x.number, x.shape, x.origin = y.number, y.shape, None
    return x


def check(name, values, bare=False):
    """bare: they may be without a dimension."""
    for v in values:
        if isinstance(v, Value) and v.bare and not bare:
            raise errors.config(v.bare)
        if isinstance(v, Value) and v.changed:
            raise errors.config(f"{name}: it reads what {v.changed} changed in place: write {v.changed} without that")
