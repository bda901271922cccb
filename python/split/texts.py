"""Networks of texts: tables of token ids and of positions, and what makes a row of its tokens."""
import torch

from . import errors
from .builder import Ids, Own, Value, must, params


class Places(Value):
    """The positions 0, 1 … of a row's tokens, of which each row has its own number."""


def arange(b, name, *args, dtype=None):
    """torch.arange; of the number of tokens Places."""
    return Places(0, b.input.shape) if b.per_token and list(args) == [b.input.shape[0]] else Own(name + ".constant", torch.arange(*args), False)


def embedding(b, name, m, prefix, x):
    must(name, m, max_norm=None, scale_grad_by_freq=False)
    (table,) = params(prefix, m, "weight")
    if isinstance(x, Ids):
        return b.look_up(name, table)
    at = torch.arange(x.shape[-1]) if isinstance(x, Places) else x.tensor.flatten() if isinstance(x, Own) and not x.learns else None
    if b.whole != "tokens" or at is None or at.dtype != torch.int64 or len(at) != b.input.shape[0] or not torch.equal(
            at, torch.arange(len(at)) + at[0]):
        raise errors.config(f"{name}: a table is known for the token ids that a network takes, and for their positions")
    return b.look_up(name, table, int(at[0]))


def mean(b, name, x):
    """The mean of a row's tokens, of which each row has its own number: attention with scores that are all 0."""
    zero = b.act(name + ".zero", x, "scale", by=0)
    return first(b, name, b.attention(name + ".all", zero, zero, x, 1, 0))


def first(b, name, x):
    return b.node(name, "select", [x], x.shape[1:])

