"""Ids in columns of a table: whole numbers of a row, which choose rows of tables (nn.Embedding). data.ids of a config numbers them."""
import itertools

import torch
from torch import nn

from . import errors, reduce, texts
from .builder import Ids, Own, Origin, Value, is_volume, must, params, said

IDS = "ids in a column of the input: a network for split.write_network looks them up, and a server does not: keep the embedding in the head; or give " \
      "each id as n numbers, of which its own is 1 and others are 0, as splitc does with a column of texts, and write nn.Linear(n, k, bias=False) for " \
      "nn.Embedding(n, k)"
_ALONE = "ids of columns are looked up as they are, or after a sum with whole numbers that are not negative: data.ids of the config numbers the values of a " \
         "column from 0 on, so forward need not limit them"


class Columns(Value):
    """Columns of the input as ids, (K,): values as they are in the row, which go into tables alone."""


def trace(y, target, args, kwargs):
    """Notes the places of y, which target makes of values with places, and of constants."""
    fields = []

    def known(a):
        if isinstance(a, Value):
            fields.append(a.origin.field)
        return a.origin.tensor if isinstance(a, Value) else a.tensor if isinstance(a, Own) else a
    try:
        args, kwargs = (torch.fx.node.map_aggregate(a, known) for a in (args, kwargs))
        found = (getattr(torch.Tensor, target) if isinstance(target, str) else target)(*args, **kwargs)
    except (AttributeError, RuntimeError, TypeError, IndexError):
        return  # of other values
    for v, t in zip(y, found) if isinstance(y, tuple) else [(y, found)]:
        v.origin = Origin(fields[0], t) if len(set(fields)) == 1 else None


def _like(x):
    y = Columns(x.number, x.shape)
    y.bare, y.origin = x.bare, x.origin
    return y


def ids(b, name, x):
    """x.long()"""
    if isinstance(x, (Ids, Columns)):
        return x
    if not isinstance(x, Value) or not b.whole or b.per_token or is_volume(x):
        raise errors.config(f"{name}: {IDS}")
    if not x.origin:
        raise errors.config(f"{name}: whole numbers of what forward computes are not known on the server: {_ALONE}")
    return _like(x)


def kept(b, name, y, plus=()):
    """The result y of a function that takes parts of ids, or adds plus to them."""
    for a in plus:
        tensor = a.tensor if isinstance(a, Own) else torch.tensor(a)
        if tensor.is_floating_point() or (tensor < 0).any() or isinstance(a, Own) and a.learns:
            raise alone(name)
    if isinstance(y, tuple):
        return tuple(kept(b, name, part) for part in y)
    return _like(y)


def alone(name):
    return errors.config(f"{name}: {_ALONE}")


def _look_up(b, name, x, table):
    if len(x.shape) != 1:
        raise errors.config(f"{name}: ids {list(x.shape)} of a row; the server looks up [columns]")
    first, at = x.origin.tensor.long().reshape(2, -1).tolist()
    rooms = b.rooms.setdefault(x.origin.field, {})
    for plus, k in zip(first, at):  # columns that share a table take its rows up to those of the next one
        room = min([n for n in first if n > plus], default=table.shape[0]) - plus
        if room <= 0:
            raise errors.config(f"{name}: {plus} is added to ids, and the table has {table.shape[0]} rows")
        rooms[k - plus] = min(room, rooms.get(k - plus, room))
    y = b.node(name, "lookup", [x], (*x.shape, table.shape[-1]), [table])
    return b.flatten(name + ".row", y) if x.bare else y


def embedding(b, name, m, prefix, x):
    if not isinstance(x, Columns):
        return texts.embedding(b, name, m, prefix, x)
    must(name, m, max_norm=None, scale_grad_by_freq=False, padding_idx=None)
    return _look_up(b, name, x, *params(prefix, m, "weight"))


def _bag(b, name, m, prefix, x):
    must(name, m, max_norm=None, scale_grad_by_freq=False, padding_idx=None, include_last_offset=False)
    if not isinstance(x, Columns) or x.bare or m.mode not in ("sum", "mean"):
        raise errors.config(f"{name}: EmbeddingBag is known of ids [rows, columns], as x[:, 2:5].long(), with mode sum or mean")
    y = _look_up(b, name + ".rows", x, *params(prefix, m, "weight"))
    return (reduce.sum_of if m.mode == "sum" else reduce.mean)(b, name, y, 1)


def functional(b, name, x, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """F.embedding"""
    if not isinstance(x, Columns) or not isinstance(weight, Own) or padding_idx is not None or max_norm is not None or scale_grad_by_freq:
        raise errors.config(f"{name}: {IDS}")
    return _look_up(b, name, x, weight.param())


# ---- numbers of a dimension by lists of them, which are equal in every call

def lists(index):
    return any(isinstance(i, (list, Own)) for i in (index if isinstance(index, tuple) else (index,)))


def _places(b, name, i, n):
    places = b.reads(i.tensor.tolist(), i) if isinstance(i, Own) and not i.learns and i.tensor.dtype == torch.int64 and i.tensor.dim() == 1 else i
    if not isinstance(places, list) or not places or any(type(k) is not int or not -n <= k < n for k in places):
        raise errors.config(f"{name}: it takes {said(places)} of {n}; the server takes lists of whole numbers that forward does not compute")
    return [k % n for k in places]


def _join(b, name, parts, dim):
    while len(parts) > 1:
        parts = [b.joined(f"{name}.{len(parts)}.{i}", *parts[i:i + 2], dim) if i + 1 < len(parts) else parts[i] for i in range(0, len(parts), 2)]
    return parts[0]


def _taken(b, name, x, dim, places):
    """Runs of equal steps, one behind the other."""
    runs = []
    for k in places:
        run = runs[-1] if runs else []
        if run and k > run[-1] and (len(run) == 1 or k - run[-1] == run[1] - run[0]):
            run.append(k)
        else:
            runs.append([k])
    return _join(b, name, [b.resampled(f"{name}.of{i}", x, dim, len(r), first=r[0], step=r[1] - r[0] if len(r) > 1 else 1) for i, r in enumerate(runs)], dim)


def item(b, name, x, index):
    """x[:, [0, 3, 2]] and x[:, i, j]"""
    at, dims = [d for d, i in enumerate(index) if isinstance(i, (list, Own))], len(x.shape) + 1
    if len(index) > dims or at not in ([1], [2], [3], [1, 2]) or any(i != slice(None) for d, i in enumerate(index) if d not in at) or is_volume(x) or len(at) == 2 and dims != 3:
        raise errors.config(f"{name}: lists of numbers of {list(x.shape)} with its rows; the server has one list, or two for the last two of three dimensions")
    places = [_places(b, name, index[d], x.shape[d - 1]) for d in at]
    if len(at) == 1:
        return _taken(b, name, x, at[0], places[0])
    return _taken(b, name, b.flatten(name + ".flat", x), 1, [i * x.shape[1] + j for i, j in pairs(name, *places)])


def pairs(name, i, j):
    if len(i) != len(j):
        raise errors.config(f"{name}: it takes {len(i)} and {len(j)} numbers, and not as many of both")
    return list(zip(i, j))


def products(b, name, q, k, by, index):
    """Of all products of rows of q and rows of k, which are tokens, those that index takes, as the interactions of DLRM."""
    if len(index) != 3 or index[0] != slice(None):
        raise errors.config(f"{name}: {said(index)} of products of all pairs; the server has [:, i, j] with lists i and j")
    parts = []
    taken = pairs(name, _places(b, name, index[1], q.shape[0]), _places(b, name, index[2], k.shape[0]))
    for n, (i, of) in enumerate(itertools.groupby(taken, lambda ij: ij[0])):
        row = b.resampled(f"{name}.row{n}", q, 1, 1, first=i)
        each = b.mul(f"{name}.each{n}", row, _taken(b, f"{name}.rows{n}", k, 1, [j for _, j in of]))
        parts.append(reduce.sum_of(b, f"{name}.sum{n}", each, 2))
    y = _join(b, name, parts, 1)
    return y if by == 1 else b.mul(name + ".by", y, by)


MODULES = {nn.Embedding: embedding, nn.EmbeddingBag: _bag}
