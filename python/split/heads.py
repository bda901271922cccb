"""Attention that forward writes out: views of tokens as heads, scores, softmax, sums of values. All of it becomes one node."""
import dataclasses
import math
import re

import torch
import torch.nn.functional as F

from . import columns, errors, made, recurrent, reduce
from .builder import ROWS, Own, Parted, Times, Tokens, Turned, Value, said

_ROWS, _TOKENS = "rows", "tokens"
_LEAST = 1 / 64  # smallest factor after a mask, such as 1 / √4096 for 4,096 features
_HIDES = -1e4  # a mask adds this, or less, to the scores of hidden keys


class View(Value):
    """Tokens (S, F) whose features are split into dimensions, in any order. axes: each is _ROWS, _TOKENS, or (size, stride)
    within the F features. by: a factor for all numbers."""

    def __init__(self, of, axes, by=1.0):
        self.of, self.axes, self.by = of, tuple(axes), by
        self.shape = tuple(n for n in self.sizes(None) if n is not None)

    @property
    def number(self):
        raise errors.config(f"a shape of {len(self.axes)} dimensions is not known on the server; of tokens it is in attention alone")

    def sizes(self, rows, tokens=int):
        """The sizes of the dimensions in PyTorch."""
        of = {_ROWS: rows, _TOKENS: tokens(self.of.shape[0])}
        return [of[a] if a in of else a[0] for a in self.axes]

    def heads(self, turned=False):
        """The number of heads, if the axes are rows, heads, tokens, features; else None. turned: the last two are swapped."""
        n, each = self.axes[1] if len(self.axes) == 4 and isinstance(self.axes[1], tuple) else (0, 0)
        last = [_TOKENS, (each, 1)]
        right = n * each == self.of.shape[1] and self.axes[0] == _ROWS and list(self.axes[2:]) == last[::-1 if turned else 1]
        return n if right else None


@dataclasses.dataclass
class Scores(Value):
    """Scores of queries q and keys k (S, F): by · q·kᵀ of each head. soft: the softmax of that, with dropout p."""
    q: Value
    k: Value
    n: int
    by: float = 1.0
    causal: bool = False
    soft: bool = False
    p: float = 0.0
    alone: bool = False  # there is no dimension of heads

    @property
    def shape(self):
        s = self.q.shape[0]
        return (s, s) if self.alone else (self.n, s, s)

    @property
    def number(self):
        raise errors.config("scores of attention are not known on the server without a softmax and values behind them")

    def sizes(self, rows, tokens=int):
        return [rows, *self.shape[:-2], *map(tokens, self.shape[-2:])]

    def but(self, **changes):
        return dataclasses.replace(self, **changes)


class Folded(Value):
    """Heads or scores whose rows and heads are one dimension, as (rows · heads, tokens, features). of: these with both."""

    def __init__(self, of):
        self.of, self.shape = of, of.shape[1:]

    @property
    def number(self):
        raise errors.config("rows and heads as one dimension are known on the server in attention alone")


def fold(b, name, x):
    """(h, X, Y, d) of an image's parts, with rows in front, as rows · h, tokens X · Y, and d."""
    h, *places, d = x.shape
    if not isinstance(x, made.Many) or x.order[0] != len(places) or x.order[1:] != [*range(len(places)), len(places) + 1]:
        raise errors.config(f"{name}: rows are joined with {h} on the server where these are heads, the parts of channels")
    s = math.prod(places)
    return Folded(View(b.arranged(name, x.of, x.sizes, range(len(x.sizes)), (s, h * d)), [_ROWS, (h, d), _TOKENS, (d, 1)]))


def unfold(b, name, x, h, places):
    """The other way: (h, X, Y, d)."""
    if not isinstance(x.of, View) or x.of.heads() != h:
        raise errors.config(f"{name}: {h} heads of {list(x.shape)}")
    tokens, d = _tokens(b, name, transpose(b, name, x.of, 1, 2)), x.shape[-1]
    n = len(places)
    return made.Many(tokens, [*places, h, d], [n, *range(n), n + 1])


def sizes(b, x):
    """The sizes of x, with its rows."""
    tokens = Tokens if b.per_token else int
    if isinstance(x, (View, Scores)):
        return x.sizes(ROWS, tokens)
    if isinstance(x, Folded):
        return [Times(x.of.heads() or x.of.n), *x.shape]
    if isinstance(x, recurrent.Steps):
        return [x.shape[0], ROWS, x.shape[1]]
    return [ROWS, tokens(x.shape[0]), *x.shape[1:]]


# ---- views

def view(b, name, x, *size):
    """Splits the features of tokens. size has rows first; one of the others may be -1."""
    size = list(size[0] if isinstance(size[0], (list, tuple)) else size)
    b.keeps_rows(name, size)
    size = size[1:]
    x = _tokens(b, name, x)
    s, f = x.shape
    if size.count(-1) == 1:
        size[size.index(-1)] = s * f // max(1, -math.prod(size))
    if any(not isinstance(n, int) or n < 1 for n in size) or size[0] != s or math.prod(size[1:]) != f:
        raise errors.config(f"{name}: {[s, f]} as {said(size)}, both without rows; the server has the features of tokens in parts")
    axes = [(n, math.prod(size[i:])) for i, n in enumerate(size[1:], 2)]
    return x if len(size) == 2 else View(x, [_ROWS, _TOKENS, *axes])


def parted(b, name, x):
    """x, a Parted, with dimensions 1 and 2 transposed: tokens viewed as heads."""
    return transpose(b, name, view(b, name, x.of, (-1, *x.shape)), 1, 2)


def _tokens(b, name, x):
    if not isinstance(x, View):
        return x
    features = x.axes[2:]
    strides = [math.prod(n for n, _ in features[i:]) for i in range(1, len(features) + 1)] if _TOKENS not in features else None
    if x.axes[:2] != (_ROWS, _TOKENS) or [stride for _, stride in features] != strides:
        raise errors.config(f"{name}: transpose {x.sizes('rows')} first, to rows, tokens, and features in their order")
    return b.mul(name, x.of, x.by)


def flatten(b, name, x, start_dim=0, end_dim=-1):
    if start_dim != 2 or end_dim not in (-1, len(x.axes) - 1):
        raise errors.config(f"{name}: flattens {x.sizes('rows')} from {start_dim} to {end_dim}; the server has that from 2 on")
    return _tokens(b, name, x)


def permute(b, name, x, *dims):
    dims = dims[0] if len(dims) == 1 else dims
    return View(x.of, [x.axes[d] for d in dims], x.by)


def transpose(b, name, x, dim0, dim1):
    order = list(range(len(x.axes)))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return permute(b, name, x, order)


def select(b, name, x, dim, index):
    """One index of an axis of features, which must be the outermost or the innermost one."""
    axis, f = x.axes[dim], x.of.shape[1]
    size, stride = axis if isinstance(axis, tuple) else (0, 0)
    if not -size <= index < size or (stride != 1 and stride * size != f):
        raise errors.config(f"{name}: number {said(index)} of dimension {dim} of {x.sizes('rows')}; the server has parts of the outermost "
                            "or the innermost features")
    index, inner = index % size, stride == 1
    of = b.resampled(name, x.of, 2, f // size, first=index if inner else index * stride, step=size if inner else 1)
    axes = [(a[0], a[1] // size) if inner and isinstance(a, tuple) else a for a in x.axes]
    return View(of, [*axes[:dim % len(axes)], *axes[dim % len(axes) + 1:]], x.by)


def spelled(index, dims):
    """An index of so many dimensions, with slices in place of its Ellipsis."""
    if index.count(Ellipsis) != 1:
        return index
    i = index.index(Ellipsis)
    return (*index[:i], *[slice(None)] * (dims + 1 - len(index) + index.count(None)), *index[i + 1:])


def item(b, name, x, index):
    if isinstance(x, Scores) and x.alone and not x.soft and not x.causal and columns.lists(index):
        return columns.products(b, name, x.q, x.k, x.by, index)
    index = spelled(index if isinstance(index, tuple) else (index,), len(x.axes))
    numbers = [i for i, n in enumerate(index) if isinstance(n, int)]
    if len(numbers) != 1 or any(n != slice(None) for n in index if not isinstance(n, int)):
        raise errors.config(f"{name}: {said(index)} of {x.sizes('rows')}; the server has one number, and all of the other dimensions")
    return select(b, name, x, numbers[0], index[numbers[0]])


def unbind(b, name, x, dim=0):
    n = x.sizes(0)[dim]
    return tuple(select(b, f"{name}.{i}", x, dim, i) for i in range(n))


# ---- scores

def _now(x):
    """The present value of x, which forward may still change in place."""
    return Value(x.number, x.shape)


def matmul(b, name, x, y):
    if isinstance(x, Scores) and x.soft:
        return _attend(b, name, x, y)
    if isinstance(x, View) and isinstance(y, View) and x.heads() and x.heads() == y.heads(turned=True):
        return Scores(_now(x.of), _now(y.of), x.heads(), x.by * y.by)
    if not b.per_token and type(x) in (Value, Turned) and type(y) is Value and len(x.shape) == len(y.shape) == 2 and x.shape == y.shape[::-1] and x.shape[0] > 16:
        return Scores(_now(x), _now(b.turned(name + ".keys", y)), 1, alone=True)  # keys whose tokens come last
    if type(x) is Value and type(y) is Turned and len(x.shape) == 2 and x.shape[1] == y.shape[0] and (x.shape[0] > 1 or b.per_token):
        return Scores(_now(x), _now(y.of), 1, alone=True)
    return reduce.matmul(b, name, x, y)


def _attend(b, name, x, v):
    alone = type(v) in (Value, Turned) and x.alone
    if not alone and not (isinstance(v, View) and v.heads() == x.n):
        raise errors.config(f"{name}: {x.n} heads of scores by values {list(v.shape)}")
    values = v if alone else v.of
    if not x.q.shape[1] == x.k.shape[1] == values.shape[1]:
        raise errors.config(f"{name}: queries, keys and values have {x.q.shape[1]}, {x.k.shape[1]} and {values.shape[1]} features; the "
                            "server has equal numbers")
    by = x.by * math.sqrt(x.q.shape[1] // x.n)  # the server itself multiplies by 1 / √features of a head
    q = x.q if abs(by - 1) < 1e-6 else b.mul(name + ".by", x.q, by)
    y = _in_parts(b, name, q, x, values) if q.shape != x.k.shape else b.attention(name, q, x.k, values, x.n, x.p, x.causal)
    return y if alone else View(y, v.axes, v.by)


def _in_parts(b, name, q, x, values):
    """Attention of more or fewer queries than keys: parts of as many, where zeros fill up the last one."""
    (n, _), (s, _), out = q.shape, x.k.shape, None
    if x.causal or b.per_token or n > 16 * s:
        raise errors.config(f"{name}: {n} queries of {s} keys have a causal mask, or are more than 16 times as many")
    for first in range(0, n, s):
        at = f"{name}.{first // s}" if first else name
        y = b.attention(at, b.resampled(at + ".part", q, 1, s, first=first), x.k, values, x.n, x.p)
        out = y if out is None else b.node(at + ".join", "concat", [out, y], (out.shape[0] + s, q.shape[1]), axis=1)
    return out if out.shape[0] == n else b.resampled(name + ".cut", out, 1, n)


def _ordered(b, name, x, has, want):
    """x, whose dimensions have the letters of has, permuted to the order of want."""
    x = view(b, name, x.of, (-1, *x.shape)) if isinstance(x, Parted) else x
    if has == want:
        return x
    if type(x) is Value and len(has) == 3 and want == has[0] + has[:0:-1]:
        return b.turned(name, x)
    return permute(b, name, x, [has.index(c) for c in want])


def einsum(b, name, equation, *operands):
    """einsum of a matrix product, with dimensions in any order, or of a product of numbers."""
    operands = operands[0] if isinstance(operands[0], (list, tuple)) else operands
    if len(operands) != 2 or not re.fullmatch(r"\w+,\w+(->\w+)?", equation.replace(" ", "")):
        raise errors.config(f"{name}: einsum of {equation!r} is not known on the server, which multiplies two tensors over one dimension: write it so, with a "
                            "letter for each dimension")
    x, y = operands
    if isinstance(x, Folded) and isinstance(y, Folded):
        u, v, out = re.fullmatch("(...),(...)->(...)", equation.replace(" ", "")).groups()
        apart = ",".join(w[0] + "_" + w[1:] for w in (u, v)) + f"->{out[0]}_{out[1:]}"
        return Folded(einsum(b, name, apart, x.of, y.of))
    left, _, out = equation.replace(" ", "").partition("->")
    u, v = left.split(",")
    if out == u and type(y) is Value and v == "".join(c for c in u if c in v) and v[:1] == u[:1]:
        return b.mul(name, x, b.reshaped(name + ".each", y, [n if c in v else 1 for c, n in zip(u[1:], x.shape)]))
    same, inner = "".join(c for c in u if c in v and c in out), "".join(c for c in u if c in v and c not in out)
    i, j = "".join(c for c in u if c not in v), "".join(c for c in v if c not in u)
    if not i and len(inner) == 1 and type(x) in (Value, reduce.Weights) and len(u) == 2 and out == same + j:  # weights of a pool are one row of a matrix
        row = b.reshaped(name + ".row", x, (1, *x.shape))
        return b.flatten(name + ".flatten", einsum(b, name, f"{same}_{inner},{v}->{same}_{j}", row, y))
    if (len(inner), len(i), len(j)) != (1, 1, 1) or sorted(out) != sorted(same + i + j) or len(set(u)) < len(u) or len(set(v)) < len(v):
        raise errors.config(f"{name}: einsum of {equation.replace('_', '')!r} is not known on the server, which multiplies two tensors over one dimension: "
                            "write it with matmul and sums, or keep it in head or tail")
    if out.index(j) < out.index(i) and not (isinstance(x, Scores) and x.soft):  # queries: whose dimension comes first in the output
        x, y, u, v, i, j = y, x, v, u, j, i
    found = matmul(b, name, _ordered(b, name, x, u, same + i + inner), _ordered(b, name, y, v, same + inner + j))
    return _ordered(b, name, found, same + i + j, out)


def softmax(b, name, x, dim=None, *args):
    """args: a dtype, and others without effect."""
    if isinstance(x, Folded):
        return Folded(softmax(b, name, x.of, dim if dim == -1 else dim + 1))
    if type(x) is not View and not isinstance(x, Scores) and not b.of_tokens(x):
        return reduce.softmax(b, name, x, dim)
    if not isinstance(x, Scores) or x.soft or dim not in (-1, len(x.shape)):
        raise errors.config(f"{name}: a softmax is known on the server over the keys of attention alone")
    return x.but(soft=True)


def dropped(b, name, x, p):
    if isinstance(x, Folded):
        return Folded(dropped(b, name, x.of, p))
    if not isinstance(x, (View, Scores)):
        return b.dropout(name, x, p)
    if not isinstance(x, Scores) or not x.soft or x.p:
        raise errors.config(f"{name}: drops parts of heads; the server has that of tokens, and once behind attention's softmax")
    return x.but(p=p)


def _scaled(f, name, x, by, number):
    """x times number, or if that is None times by, a tensor of a module."""
    if isinstance(x, Scores) and x.soft:
        raise errors.config(f"{name}: a factor behind attention's softmax is not known on the server")
    if isinstance(x, Scores) and x.causal and not (number and number >= _LEAST):
        raise errors.config(f"{name}: the factor {number} behind a mask, which must still hide: {_LEAST:g} or more is known on the server")
    if number is not None:
        return x.but(by=x.by * number) if isinstance(x, Scores) else View(_now(x.of), x.axes, x.by * number)
    return x.but(q=f(name, x.q, by)) if isinstance(x, Scores) else View(f(name, x.of, by), x.axes, x.by)


def _factor(b, name, by):
    """by as a number; None: it learns."""
    if isinstance(by, (int, float)):
        return by
    if not isinstance(by, Own) or by.tensor.numel() != 1:
        raise errors.config(f"{name}: heads and scores of attention are multiplied by single numbers on the server")
    return None if by.learns else b.reads(by.tensor.item(), by)


def mul(b, name, x, by):
    x, by = (x, by) if isinstance(x, (View, Scores, Folded)) else (by, x)
    if isinstance(x, Folded):
        return Folded(mul(b, name, x.of, by))
    return _scaled(b.mul, name, x, by, _factor(b, name, by))


def div(b, name, x, by):
    number = _factor(b, name, by)
    return _scaled(b.div, name, x, by, number if number is None else 1 / number)


# ---- masks

def hides(b, name, mask, s):
    """Whether a mask is the causal one; False: it hides nothing. It is added to scores, or is True for hidden keys."""
    if not isinstance(mask, Own) or mask.learns:
        raise errors.config(f"{name}: what is added to scores of attention is not known on the server, only causal masks are")
    t = mask.tensor
    b.reads(None, mask)
    hidden = t if t.dtype == torch.bool else t <= _HIDES
    square = t.numel() == s * s and list(t.shape[-2:]) == [s, s]
    if square and bool(((t == 0) | hidden).all()):
        hidden = hidden.reshape(s, s)
        if not hidden.any():
            return False
        if torch.equal(hidden, torch.ones_like(hidden).triu(1)):
            return True
    raise errors.config(f"{name}: the mask {list(t.shape)} of {s} tokens is not known on the server, only causal masks are: each token "
                        "sees itself and those before it")


def masked(b, name, x, mask, value):
    if not isinstance(x, Scores) or x.soft or not value <= _HIDES:
        raise errors.config(f"{name}: a mask is known on the server for the scores of attention, in front of the softmax, with {_HIDES:g} "
                            "or less")
    return x.but(causal=hides(b, name, mask, x.q.shape[0]) or x.causal)


def add(b, name, x, y, alpha=1):
    x, mask = (x, y) if isinstance(x, Scores) else (y, x)
    if not isinstance(x, Scores) or x.soft or alpha != 1 or (isinstance(mask, Own) and mask.tensor.dtype == torch.bool):
        raise errors.config(f"{name}: sums of heads are not known on the server; add tokens")
    return x.but(causal=hides(b, name, mask, x.q.shape[0]) or x.causal)


def attention(b, name, q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """F.scaled_dot_product_attention. Here a mask of booleans is True for keys that take part."""
    each = q.shape[-1]
    scores = matmul(b, name, q, transpose(b, name, k, -1, -2) if isinstance(k, View) else b.turned(name, k))
    scores = scores.but(by=scores.by * (1 / math.sqrt(each) if scale is None else scale), causal=is_causal)
    if isinstance(attn_mask, Own) and attn_mask.tensor.dtype == torch.bool:
        attn_mask = Own(attn_mask.path, b.reads(~attn_mask.tensor, attn_mask), attn_mask.learns)
    if attn_mask is not None:
        scores = scores.but(causal=hides(b, name, attn_mask, q.of.shape[0] if isinstance(q, View) else q.shape[0]) or is_causal)
    return _attend(b, name, scores.but(soft=True, p=b.rate(name, dropout_p)), v)


FUNCTIONS = {
    torch.einsum: einsum, "einsum": einsum,
    F.softmax: lambda b, name, x, dim=None, _stacklevel=3, dtype=None: softmax(b, name, x, dim),
    torch.softmax: softmax, "softmax": softmax, "masked_fill": masked, torch.masked_fill: masked,
}
NAMED = {"scaled_dot_product_attention": attention}
