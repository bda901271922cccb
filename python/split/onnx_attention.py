"""Products of an ONNX file. Those with a weight are linear layers; those of two computed values are attention, as torch writes it out:
softmax(q·kᵀ·scale + mask)·v, with batch and heads as axes of their own, or as one. And masks: rows have no padding here, so a mask of
padding hides nothing and is left out; a causal mask becomes an attribute of attention."""
import dataclasses
import math

import numpy as np

from . import heads, reduce
from .builder import Value
from .onnx_known import Known
from .onnx_reader import Weight
from .onnx_views import Atom, Held

_HIDES, _LEAST = heads._HIDES, heads._LEAST


# ---- linear layers

def bias_behind(r, out):
    """The next node, if it adds a layer's bias of so many numbers, and that; else None."""
    add = r.next(r.index, "Add")
    w = r.values.get(r.other(add, r.node.output[0]))
    fits = isinstance(w, Weight) and w.array.ndim == 1 and w.array.size == out and w.shape == w.array.shape
    return (add, w) if fits else (None, None)


def _flattened(r, v):
    """The channels of a flattened image of several pixels, which the graph has innermost; 0: it is none."""
    own = v.axes[-1]
    return own[0].size if len(own) > 1 and v.axes[:-1] == [[r.batch]] and v.mem == [*own[1:], own[0]] and not r.b.per_token else 0


def linear(r, v, w, turned):
    """turned: the node takes the weight as [out, in], else as [in, out]."""
    plain, last = w.turned != turned, len(v.axes) - 1
    w = Weight(w.name, w.array) if w.to == w.shape and math.prod(w.shape) == w.array.size else w
    if w.array.ndim != 2 or r.batch in v.axes[last] or w.array.shape[plain] != v.shape[last] or w.to != w.shape:
        r.refuse(f"its weight {w.name!r}, {list(w.array.shape)}, does not fit rows of {v.shape[last]}")
    out = w.array.shape[not plain]
    add, bias = (None, r.weight(2, 1, out)) if r.has(2) else bias_behind(r, out)
    channels = plain and _flattened(r, v)
    parts = [r.param(w, channels or "same"), *([r.param(bias)] if bias else [])]
    x = r.last(v) if not channels else r.b.node(r.name, "flatten", [v.of], v.shape[1:]) if len(v.of.shape) > 1 else v.of
    y = r.b.node(r.name, "linear", [x], (*x.shape[:-1], out), parts, transposed=None if plain else 1)
    if add is not None:
        r.done.add(add)
        r.end = add
    r.give(r.resized(v, last, y, out))


def zeros(r, v, n_dim):
    """Whether v is constant zeros of so many dimensions."""
    return isinstance(v, Known) and len(v.shape) == n_dim and len(v.worlds) == 1 and v.shape[0] == r.batch.size and v.array.dtype.kind == "f" \
        and v.array.size > 0 and not v.array.any()


def _of_zeros(r, gemm):
    """A product of zeros, such as of the first state of a cell: the bias alone. False: it is another product."""
    v, w = r.value(0), r.value(1)
    if not zeros(r, v, 2) or not isinstance(w, Weight) or w.array.ndim != 2:
        return False
    out = w.shape[0 if gemm and r.attrs.get("transB") else 1]
    if gemm and r.has(2):
        r.give(row(r, r.weight(2, 1, out)))
    else:
        r.give(Known([np.zeros((v.shape[0], out), np.float32)]))
    return True


def row(r, w):
    """A vector of parameters as a value of every row."""
    r.refuse_if(r.b.per_token, "it begins from zeros for each token, which is not read")
    return r.usual(r.b.node(r.name, "repeat", [r.b.beside()], w.array.shape, [r.param(w)]))


def gemm(r):
    r.must(transA=(0, 0), alpha=(1.0, 1), beta=(1.0, 1))
    if _of_zeros(r, True):
        return
    v, w = r.data(0), r.value(1)
    if not isinstance(w, Weight):
        r.weight(1, 2)
    if len(v.axes) != 2:
        r.refuse(f"it takes rows, [batch, features], and gets {list(v.shape)}")
    linear(r, v, w, bool(r.attr("transB", 0)))


def matmul(r):
    a, b = r.value(0), r.value(1)
    if _of_zeros(r, False):
        return
    if isinstance(a, Scores):
        attend(r, a, r.data(1))
    elif isinstance(b, Weight):
        linear(r, r.data(0), b, False)
    elif r.data(0).weights:
        weigh(r, r.data(0), r.data(1))
    else:
        make_scores(r, r.data(0), r.data(1))


def weigh(r, w, v):
    """Rows of v, multiplied by what a softmax made and summed."""
    r.refuse_if(len(w.axes) != 3 or len(v.axes) != 3, "a softmax outside attention multiplies rows by one weight each: write (w * x).sum()")
    x, y = r.canonical(w), r.canonical(v)
    if x.shape[0] > 1 or x.shape[1] != y.shape[0]:
        return r.give(reduce.matmul(r.b, r.name, x, y))
    from .onnx_kinds import pooled
    x = r.b.turned_by(r.name, x, (1, 0))
    return r.give(pooled(r.b, r.name, r.b.mul(r.name, x, y), 1, "ReduceSum"))


# ---- attention

@dataclasses.dataclass
class Scores:
    """Scores of queries q and keys k (S, n · d) of n heads. first: the size of axis 0, that of the batch or a multiple, where windows of
    each sample stand beside it. many: its axes; with 3, batch and heads are one axis. soft: the softmax of that, with dropout p."""
    q: Value
    k: Value
    n: int
    d: int
    first: int
    many: int
    by: float = 1.0
    causal: bool = False
    soft: bool = False
    p: float = 0.0

    def but(self, **changes):
        return dataclasses.replace(self, **changes)


def _headed(r, v):
    """Whether the axes are batch, heads, and two more; or batch and heads as one axis, and two more."""
    return len(v.axes) in (3, 4) and v.axes[0][:1] == [r.batch]


def _heads_of(r, v, s, d):
    """v as (tokens, heads · features), and the number of heads. s, d: its axes of tokens and features."""
    v = Held(v.of, v.mem, v.axes)
    between = r.atoms(v, range(len(v.axes) - 2))
    n = math.prod(a.size for a in between)
    x = r.arrange(v, [*r.atoms(v, (s,)), *between, *r.atoms(v, (d,))], (v.shape[s], n * v.shape[d]))
    return x, n


def make_scores(r, q, k):
    fits = _headed(r, q) and _headed(r, k) and len(q.axes) == len(k.axes) and q.shape[0] == k.shape[0] and q.shape[-1] == k.shape[-2]
    if not fits or q.shape[0] % r.batch.size:
        r.refuse("it multiplies two computed values, which is read as attention alone, of as many features of queries as of keys")
    last = len(q.axes) - 1
    x, n = _heads_of(r, q, last - 1, last)
    y, same = _heads_of(r, k, last, last - 1)
    r.refuse_if(n != same, "queries and keys have other numbers of heads")
    r.give(Scores(x, y, n, q.shape[-1], q.shape[0], len(q.axes)))


def attend(r, s, v):
    last = len(v.axes) - 1
    if not s.soft or len(v.axes) != s.many or not _headed(r, v) or (v.shape[0], v.shape[-2], v.shape[-1]) != (s.first, s.k.shape[0], s.d):
        r.refuse("it multiplies what is no attention of its values: each has as many features as a key")
    x, n = _heads_of(r, v, last - 1, last)
    r.refuse_if(n != s.n, "keys and values have other numbers of heads")
    by = s.by * math.sqrt(s.d)  # the graph itself multiplies by 1 / √features of a head
    q = s.q if abs(by - 1) < 1e-6 else r.b.mul(r.name, s.q, by)
    y = r.b.attention(r.name, q, s.k, x, s.n, s.p, s.causal) if q.shape == s.k.shape else heads._in_parts(r.b, r.name, q, s, x)
    tokens, each, features = (Atom(k) for k in (q.shape[0], s.n, s.d))
    mem = [a for a in (tokens, each, features) if a.size != 1]
    own = [[a] if a.size != 1 else [] for a in (tokens, each, features)]
    if s.many == 3:
        found = Held(y, mem, [[r.batch, *own[1]], own[0], own[2]])
    else:
        found = Held(y, mem, [[r.batch], own[1], own[0], own[2]])
        if s.first != r.batch.size:  # windows come before heads
            found = r.reshaped(found, (s.first, s.n // (s.first // r.batch.size), q.shape[0], s.d))
    r.give(found or r.refuse("its windows are no parts of samples"))


def softmax(r):
    v, axis = r.value(0), r.attr("axis", -1)
    if isinstance(v, Scores):
        r.refuse_if(v.soft or axis not in (-1, v.many - 1), "of scores of attention a softmax is read over the keys")
        return r.give(v.but(soft=True))
    v = r.data(0)
    if r.b.of_tokens(v.of) or not -len(v.axes) <= axis < len(v.axes):
        r.refuse("of tokens softmax is read in attention alone, over the keys; leave it out at the end of a network: the loss has it")
    usual = v.axes[0] == [r.batch] and len(v.axes) in (2, 3, 4)
    x = r.canonical(v) if usual else r.block(v, axis)
    y = reduce.softmax(r.b, r.name, x, axis % len(v.axes) if usual else 3)
    return r.give(Held(y, v.mem, v.axes, weights=True))


# ---- einsum

def einsum(r):
    left, _, out = r.attr("equation", "", str).replace(" ", "").partition("->")
    u, _, w = left.partition(",")
    a, b = r.value(0), r.data(1)
    many = a.many if isinstance(a, Scores) else len(r.data(0).axes)
    if len(set(u)) != len(u) or len(set(w)) != len(w) or len(u) != many or len(w) != len(b.axes) or not set(out) <= set(u + w) or not out:
        r.refuse("of torch's einsum products of two values are read, as attention has them")
    same, inner = [c for c in u if c in w and c in out], [c for c in u if c in w and c not in out]
    i, j = [c for c in u if c not in w], [c for c in w if c not in u]
    if (len(inner), len(i), len(j)) != (1, 1, 1) or len(out) != len(same) + 2:
        return _gated(r, u, w, out, inner)
    soft = isinstance(a, Scores)
    if not soft and out.index(j[0]) < out.index(i[0]):  # queries: whose dimension comes first in the output
        a, b, u, w, i, j = b, a, w, u, j, i
    if soft:
        if [*u] != [*same, *i, *inner] or not a.soft:
            r.refuse("einsum has the scores of attention in another order than [batch, heads, queries, keys]")
        attend(r, a, _ordered(b, w, [*same, *inner, *j]))
        found = r.values[r.node.output[0]]
        return r.give(_ordered(found, [*same, *i, *j], out))
    r.refuse_if([*out] != [*same, *i, *j], "einsum makes the scores of attention in another order than [batch, heads, queries, keys]")
    if a.weights:
        return weigh(r, _ordered(a, u, [*same, *i, *inner]), _ordered(b, w, [*same, *inner, *j]))
    return make_scores(r, _ordered(a, u, [*same, *i, *inner]), _ordered(b, w, [*same, *inner, *j]))


def _ordered(v, has, want):
    return v.seen([v.axes[has.index(c)] for c in want])


def _gated(r, u, w, out, inner):
    """A product number by number of two values, one of which has all axes; then a sum over those that are not in the output."""
    a, b = r.data(0), r.data(1)
    if set(u) < set(w):
        a, b, u, w = b, a, w, u
    if not set(w) <= set(u) or set(u) - set(out) != set(inner) or len(inner) > 1:
        r.refuse("of torch's einsum products of two values are read, as attention has them")
    b = Held(b.of, b.mem, [b.axes[w.index(c)] if c in w else [] for c in u])
    x = r.b.mul(r.name, r.canonical(a), r.canonical(b))
    if inner:
        x = reduce.FUNCTIONS["sum"](r.b, r.name + ".sum", x, u.index(inner[0]), True)
    left = [c for c in u if c in out]
    v = r.usual(x)
    return r.give(_ordered(Held(v.of, v.mem, [axis for axis, c in zip(v.axes, u) if c in out]), left, out))


# ---- masks

def _settle(r, fits):
    """fits: of each world whether the mask has the right numbers. If one alone fits, that is the file's."""
    if r.world < 0 and fits[0] != fits[1]:
        r.world = int(fits[1])
        _note(r)
    return fits[max(r.world, 0)]


def _note(r):
    said = "rows of tokens have no padding here, so the mask of padding is left out"
    if said not in r.notes:
        r.notes.append(said)


def _mask(v):
    if isinstance(v, Known):
        return v
    if isinstance(v, Weight) and v.array.ndim >= 2 and (v.array <= _HIDES).any() and not v.turned:  # a buffer
        part = v.array[tuple(slice(n) for n in v.shape)] if len(v.shape) == v.array.ndim else v.array
        return Known([part.reshape(v.shape)]) if part.size == math.prod(v.shape) else None
    return None


def _causal(a, n, s):
    """Whether what is added to scores of n queries and s keys hides those behind the query; None: it hides others."""
    a = a.astype(np.float64)
    a = a.reshape((1,) * max(0, 2 - a.ndim) + a.shape)
    if any(k not in (1, m) for k, m in zip(a.shape[-2:], (n, s))):
        return None
    if not a.any():
        return False
    behind = np.triu(np.ones((n, s), bool), 1)
    a = np.broadcast_to(a, (*a.shape[:-2], n, s))
    return True if n == s and n > 1 and (a[..., ~behind] == 0).all() and (a[..., behind] <= _HIDES).all() else None


def hides(r, mask, scores):
    n, s = scores.q.shape[0], scores.k.shape[0]
    found = [_causal(mask.at(w), n, s) for w in range(2)]
    r.refuse_if(not _settle(r, [f is not None for f in found]), "its mask hides other keys than padding and those behind the query")
    return bool(found[max(r.world, 0)])


def of_scores(r):
    """A node that scales, masks or drops scores. False: no input is scores."""
    v, w, kind = r.value(0), r.value(1), r.node.op_type
    s, mask = (v, w) if isinstance(v, Scores) else (w, v)
    if not isinstance(s, Scores):
        return False
    by = r.number(1 if s is v else 0)
    if kind in ("Mul", "Div") and by and not s.soft and (kind == "Mul" or s is v):
        by = by if kind == "Mul" else 1 / by
        if not s.causal or by >= _LEAST:
            r.give(s.but(by=s.by * by))
            return True
    elif kind == "Add" and not s.soft and _mask(mask):
        r.give(s.but(causal=s.causal or hides(r, _mask(mask), s)))
        return True
    elif kind == "Dropout" and s.soft and not s.p and by is not None and 0 <= by < 1:
        r.give(s.but(p=by))
        return True
    elif kind == "IsNaN" and s.soft:  # no query has all its keys hidden
        r.give(Known([np.zeros((), bool)]))
        return True
    return r.refuse("of scores of attention it is not read: those are scaled, masked by a causal mask or one of padding, put through "
                    "softmax and dropped out")


def compared_ids(r):
    """Compares ids with the token that rows are padded with: a mask of padding, whose result for real tokens is known."""
    kind, one = r.node.op_type, r.number(1)
    if kind not in ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual") or one is None:
        r.refuse("its input 0 is token ids, which embeddings and masks of padding read")
    pad = one - (kind in ("Less", "GreaterOrEqual"))
    r.pad = pad if r.pad is None else r.pad
    r.masked = True
    if not r.b.per_token:
        r.mixed()
    if pad != r.pad or pad < 0 or (kind != "Equal" and pad != 0):
        r.refuse(f"it tells token {'id' if kind == 'Equal' else 'ids up to'} {pad:g} from others, where the padding, {r.pad:g}, is told from "
                 "all others; of other padding give a mask as the second input")
    _note(r)
    real = np.full(r.value(0).shape, kind.startswith("Greater"))
    r.give(Known([real, real]))


def where(r):
    """Of a mask, numbers and a value it is the value: the mask must choose that everywhere. If the value is scores, the mask may also
    choose a number that hides keys."""
    which, pair = r.value(0), (r.value(1), r.value(2))
    of = [i for i, v in enumerate(pair) if not isinstance(v, Known)]
    if not isinstance(which, Known) or len(of) != 1 or isinstance(pair[of[0]], Weight):
        r.refuse("torch's where of computed values is not read; multiply by what chooses")
    v, other = pair[of[0]], pair[1 - of[0]]
    added = Known([np.where(which.at(w).astype(bool) == (of[0] == 0), 0.0, np.where(other.at(w) <= _HIDES, _HIDES, np.nan)) for w in range(2)])
    if isinstance(v, Scores) and not v.soft:
        r.give(v.but(causal=v.causal or hides(r, added, v)))
        return
    r.refuse_if(not _settle(r, [not a.any() for a in added.worlds]), "torch's where of computed values is not read; multiply by what chooses")
    r.give(v)


def by_mask(r):
    """A value times a mask that is 1 for real tokens, or a sum of tokens divided by their number: the same value. False: it is neither."""
    kind, ins = r.node.op_type, (r.value(0), r.value(1))
    masks = [i for i, v in enumerate(ins) if isinstance(v, Known) and len(v.worlds) > 1]
    if len(masks) != 1 or not isinstance(ins[1 - masks[0]], Held):
        return False
    v, m, div = ins[1 - masks[0]], ins[masks[0]], kind == "Div"
    want = r.tokens if div else 1
    if kind not in ("Mul", "Div") or (div and masks[0] == 0) or m.counts != div or v.summed != div or not _settle(
            r, [bool((m.at(w) == want).all()) for w in range(2)]):
        r.refuse("by a mask a value is multiplied that is 1 of real tokens, and a sum of tokens is divided by how many they are")
    r.give(v.like(v.of))
    return True

