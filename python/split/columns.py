"""Ids in columns of a table: whole numbers of a row, which choose rows of tables (nn.Embedding). data.ids of a config numbers them."""
import torch
from torch import nn

from . import errors, reduce, texts
from .builder import Ids, Own, Value, is_volume, must, params

IDS = "ids in a column of the input: a network for split.write_network looks them up, and a server does not: keep the embedding in the head; or give " \
      "each id as n numbers, of which its own is 1 and others are 0, as splitc does with a column of texts, and write nn.Linear(n, k, bias=False) for " \
      "nn.Embedding(n, k)"
_ALONE = "ids of columns are looked up as they are, or after a sum with whole numbers that are not negative: data.ids of the config numbers the values of a " \
         "column from 0 on, so forward need not limit them"


class Columns(Value):
    """Columns of the input as ids, (K,): values as they are in the row, which go into tables alone."""


def _is_row(b, x):
    """Whether x is columns of an input of rows, as they are."""
    first, n = b.values - len(b.nodes), x.number
    while n >= first:
        word, ins, _, said = b.nodes[n - first]
        if word.split()[2] not in ("resample", "permute", "flatten") or "mode=" in said or "before=" in said:
            return False
        n = ins[0]
    return bool(b.fields) and b.fields[max(0, n - 1)][1] == "row"


def ids(b, name, x):
    """x.long()"""
    if isinstance(x, (Ids, Columns)):
        return x
    if not isinstance(x, Value) or not b.whole or b.per_token or is_volume(x):
        raise errors.config(f"{name}: {IDS}")
    if not _is_row(b, x):
        raise errors.config(f"{name}: whole numbers of what forward computes are not known on the server: {_ALONE}")
    return Columns(x.number, x.shape)


def kept(b, name, y, plus=()):
    """The result y of a function that takes parts of ids, or adds plus to them."""
    for a in plus:
        tensor = a.tensor if isinstance(a, Own) else torch.tensor(a)
        if tensor.is_floating_point() or (tensor < 0).any() or isinstance(a, Own) and a.learns:
            raise alone(name)
    if isinstance(y, tuple):
        return tuple(kept(b, name, part) for part in y)
    z = Columns(y.number, y.shape)
    z.bare = y.bare
    return z


def alone(name):
    return errors.config(f"{name}: {_ALONE}")


def _look_up(b, name, x, table):
    if len(x.shape) != 1:
        raise errors.config(f"{name}: ids {list(x.shape)} of a row; the server looks up [columns]")
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


MODULES = {nn.Embedding: embedding, nn.EmbeddingBag: _bag}
