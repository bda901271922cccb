"""The table of the kinds of ONNX nodes, and readers of single kinds. A reader refuses a node that does not fit, or makes nodes of the graph."""
import math

import numpy as np

from . import made, onnx_attention as attention, onnx_patterns as patterns, onnx_recurrent as recurrent, onnx_windows as windows, reduce, texts
from .builder import MATH, Own, Turned, real
from .onnx_known import Known, axes_of, resized, slices, squeezed, unsqueezed
from .onnx_reader import Weight
from .onnx_views import Atom, Held


# ---- functions of each number

def _each(f):
    def read(r):
        v = r.data(0)
        r.give(v.like(f(r, v.of)))
    return read


def _act(kind, **more):
    return _each(lambda r, x: r.b.act(r.name, x, kind, **more))


def _small(r, name, usual, most=1e6):
    x = float(r.attr(name, usual, (float, int)))
    return x if abs(x) <= most else r.refuse(f"its {name} is {x:g}")


def _elu(r):
    v, scaled = r.data(0), r.node.op_type == "Selu"
    alpha = _small(r, "alpha", 1.67326319 if scaled else 1.0)
    r.give(v.like(made._elu(r.b, r.name, v.of, alpha, by=_small(r, "gamma", 1.05070102) if scaled else 1.0)))


def _hard_sigmoid(r):
    alpha, beta, v = r.attr("alpha", 0.2, float), r.attr("beta", 0.5, float), r.data(0)
    if abs(alpha - 1 / 6) > 1e-7 or beta != 0.5:
        r.refuse(f"alpha {alpha:g} and beta {beta:g} are not 1/6 and 1/2: torch.nn.Hardsigmoid's are read")
    r.give(v.like(r.b.act(r.name, v.of, "hardsigmoid")))


def _celu(r):
    r.must(alpha=(1.0, 1))
    _elu(r)


def _sigmoid(r):
    """Followed by Log it is nn.LogSigmoid; multiplied by its input, nn.SiLU."""
    v, log, mul = r.data(0), r.next(r.index, "Log"), r.next(r.index, "Mul")
    kind = "sigmoid"
    if mul is not None and r.node.input[0] in r.graph.node[mul].input:
        kind = "silu"
        r.join(mul)
    if log is not None:
        r.join(log)
        return r.give(v.like(made._log_sigmoid(r.b, r.name, v.of)))
    return r.give(v.like(r.b.act(r.name, v.of, kind)))


def _gelu(r):
    v = r.data(0)
    r.give(v.like(r.b.act(r.name, v.of, "gelu", tanh=1 if r.attr("approximate", "none", str) == "tanh" else None)))


def _bound(r, i):
    v = r.value(i)
    if isinstance(v, Weight):
        r.refuse(f"{v.name!r} is a parameter or a buffer, and would not learn here: write it as a number")
    bound = r.number(i)
    if bound is None or bound != bound or abs(bound) > 1e18 and math.isfinite(bound):
        r.refuse(f"its bound is {'no constant' if bound is None else bound}")
    return bound


def _clip(r):
    low, high = (_bound(r, i) if r.has(i) else None for i in (1, 2))
    r.refuse_if(None not in (low, high) and low >= high, "its bounds are not constants, the lower one first")
    v = r.data(0)
    r.give(v.like(r.b.act(r.name, v.of, "act", fn="relu6") if (low, high) == (0, 6) else made.clamp(r.b, r.name, v.of, low, high)))


def _extreme(r):
    """Max or Min of a value and a number: torch.clamp with one bound."""
    i = next((i for i in (1, 0) if r.number(i) is not None), None)
    r.refuse_if(i is None, "torch's maximum and minimum of two values are not read: write them with relu")
    v, bound = r.data(1 - i), _bound(r, i)
    r.give(v.like(made.clamp(r.b, r.name, v.of, **{"min" if r.node.op_type == "Max" else "max": bound})))


def _dropout(r):
    if r.has(2):
        on = r.known(2)
        on = on is not None and on.size == 1 and bool(on.all())
    else:
        on = r.file.trainable
    r.refuse_if(not on, "its training_mode is not the constant true; export model.train() with training=TrainingMode.TRAINING")
    if attention.of_scores(r):
        return
    v, p = r.data(0), r.number(1) if r.has(1) else 0.5
    r.refuse_if(p is None or not 0 <= p < 1, "its ratio is no constant in [0, 1)")
    r.give(v.like(r.b.dropout(r.name, v.of, p)))


def _math(r):
    fn = {"Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Reciprocal": "reciprocal"}[r.node.op_type]
    v = r.data(0)
    maker = r.graph.node[r.maker[r.node.input[0]]].op_type if r.node.input[0] in r.maker else ""
    if fn == "sqrt" and maker in ("ReduceMean", "Div"):  # a deviation, whose gradient at 0 is 0
        return r.give(v.like(reduce._root(r.b, r.name, v.of)))
    return r.give(v.like(r.b.act(r.name, v.of, "math", fn=MATH[fn])))


def _pow(r):
    if patterns.read_rmsnorm(r):
        return
    v, by = r.data(0), r.number(1)
    r.refuse_if(by not in (2, 3, -1, 0.5, -0.5), "its exponent is none of the constants 2, 3, 1/2, -1/2 and -1")
    r.give(v.like(made._pow(r.b, r.name, v.of, by)))


def _prelu(r):
    v, w = r.data(0), r.value(1)
    r.refuse_if(not isinstance(w, Weight), "its slope is no parameter")
    x = r.canonical(v)
    high = r.b.act(r.name, x, "act")  # relu(x) + w · (x − relu(x))
    low = r.b.mul(r.name, r.b.sub(r.name, x, high), r.own(w.but((1,)) if w.array.size == 1 else w))
    r.give(_again(r, v, r.b.add(r.name, high, low)))


# ---- norms

def _batchnorm(r):
    v, n = r.data(0), r.node
    eps, kept = r.attr("epsilon", 1e-5, float), r.attr("momentum", 0.9, float)
    training = r.file.trainable or (r.attr("training_mode", 0) == 1 if r.file.opset >= 14 else len(n.output) == 5)
    r.refuse_if(not training, "it is of a network in evaluation; export model.train() with training=TrainingMode.TRAINING")
    if not 1e-30 <= eps <= 1 or not 0 <= kept <= 1:
        r.refuse(f"epsilon {eps:g} and momentum {kept:g} do not lie in 0 … 1")
    rows, flat = len(v.axes) == 2, len(v.axes) == 3
    x = r.canonical(v) if rows else r.image(v)
    if rows:
        x = r.b.node(r.name, "permute", [x], (*x.shape, 1, 1), h=1, w=1)
    held = [r.weight(i, 1, x.shape[0]) for i in range(1, 5)]
    parts = [*(r.param(w) for w in held[:2]), *(r.param(w, "stat") for w in held[2:])]
    if x.shape[1:] == (1, 1):
        r.b.single = r.b.single or r.name
    momentum = real(1 - float(real(kept)))  # torch's 0.1 is 1 less the file's 0.9
    y = r.b.node(r.name, "batchnorm", [x], x.shape, parts, eps=None if real(eps) == "1e-05" else real(eps),
                 momentum=None if momentum == "0.1" else momentum)
    r.give(r.b.node(r.name, "flatten", [y], x.shape[:1]) if rows else r.of_image(y, flat))


# ---- arithmetic

def _again(r, v, y):
    """What was computed of the canonical v, with v's axes if it has its shape."""
    return v.like(y) if y.shape == v.of.shape and len(v.mem) == sum(n != 1 for n in y.shape) else r.usual(y)


def _same_view(v, w):
    def order(x):
        return [[x.mem.index(a) if a in x.mem else -1 for a in axis] for axis in x.axes]
    return [a.size for a in v.mem] == [a.size for a in w.mem] and v.of.shape == w.of.shape and order(v) == order(w)


def _complete(r, v, w):
    """v with the axes that w has in front of it, and with the batch: positions lack these."""
    if r.batch_axis(v) is not None or r.batch_axis(w) is None:
        return v
    axes = [[] for _ in range(len(w.axes) - len(v.axes))] + [list(a) for a in v.axes]
    if len(axes) == len(w.axes) and not axes[r.batch_axis(w)]:
        axes[r.batch_axis(w)] = [r.batch]
    return Held(v.of, v.mem, axes)


def _pair(r, f, v, w):
    v, w = _complete(r, v, w), _complete(r, w, v)
    if _same_view(v, w):
        return r.give(v.like(f(r.b, r.name, v.of, w.of)))
    x, y = r.canonical(v), r.canonical(w)
    if r.b.of_tokens(x) and ([r.tokens_axis(v), r.batch_axis(v), v.shape] != [r.tokens_axis(w), r.batch_axis(w), w.shape]):
        r.refuse("its inputs are values of tokens whose axes differ")
    if len(x.shape) != len(y.shape):
        r.refuse(f"its inputs {list(v.shape)} and {list(w.shape)} do not fit each other")
    return r.give(_again(r, v, f(r.b, r.name, x, y)))


def _places(r, w, v):
    """A parameter beside values of tokens, with a row for each place of a token: a table of positions. None: it is another one."""
    tokens, shape = r.tokens_axis(v), (1,) * (len(v.axes) - len(w.shape)) + w.shape
    if tokens is None or len(shape) != 3 or shape[tokens] == 1:
        return None
    f = w.array.shape[-1]
    rows = w.array.size // f
    if rows < r.tokens or shape[tokens] != r.tokens or w.shape[-1] != f or v.shape[-1] != f or shape[r.batch_axis(v)] != 1:
        r.refuse(f"its parameter {w.name!r}, {list(w.shape)}, does not fit {list(v.shape)}: it has {rows} places for tokens")
    return r.b.look_up(w.name, r.param(w, "one", (rows, f)), 0)


def _with_own(r, f, v, w, turned):
    """f of v and a parameter or constants, or with turned of these and v."""
    if isinstance(w, Weight) and w.to != w.shape and (len(w.to) >= len(v.axes) or any(k not in (1, n) for k, n in zip(w.to[::-1], v.shape[::-1]))):
        return _pair(r, (lambda b, name, x, y: f(b, name, y, x)) if turned else f, v, r.every_row(w))
    x, own = r.canonical(v), _places(r, w, v) if isinstance(w, Weight) else None
    if own is None:
        own = r.own(w)
        if len(own.shape) == len(v.axes) and own.shape[0] != 1 or len(own.shape) > len(v.axes):
            r.refuse(f"its constant or parameter {list(own.shape)} is other for each sample")
        if len(own.shape) == len(v.axes):
            own = Own(own.path, own.tensor, own.learns, own.shape[1:] if r.batch_axis(v) == 0 else own.shape)
    return r.give(_again(r, v, f(r.b, r.name, own, x) if turned else f(r.b, r.name, x, own)))


def _with_number(r, kind, v, by, turned):
    if not abs(by) <= 1e30 or (kind == "Div" and by == 0 and not turned):
        r.refuse(f"its constant is {by:g}")
    if kind == "Div" and turned:
        y = r.b.act(r.name, v.of, "math", fn=MATH["reciprocal"])
        return r.give(v.like(r.b.mul(r.name, y, by)))
    factor, plus = {"Add": (1, by), "Sub": (-1, by) if turned else (1, -by), "Mul": (by, 0), "Div": (1 / by if by else 0, 0)}[kind]
    if not abs(factor) <= 1e30:
        r.refuse(f"its factor is {factor:g}")
    return r.give(v.like(made._line(r.b, r.name, v.of, factor, plus)))


def _zeros_beside(r, kind, v, zeros, turned):
    """v and zeros of its size, as the first state of a cell. False: it is something else."""
    if not attention.zeros(r, zeros, 2) or zeros.shape != v.shape or kind == "Div":
        return False
    y = r.b.act(r.name, v.of, "scale", by=0) if kind == "Mul" else r.b.mul(r.name, v.of, -1) if kind == "Sub" and turned else v.of
    r.give(v.like(y))
    return True


def _arithmetic(r):
    kind = r.node.op_type
    if kind == "Div" and patterns.read_gelu(r) or attention.of_scores(r) or attention.by_mask(r):
        return None
    f = {"Add": r.b.__class__.add, "Sub": r.b.__class__.sub, "Mul": r.b.__class__.mul, "Div": r.b.__class__.div}[kind]
    i = next((i for i in (1, 0) if not isinstance(r.value(i), Held)), None)
    if i is None:
        return _pair(r, f, r.data(0), r.data(1))
    v, other = r.data(1 - i), r.value(i)
    if isinstance(other, Known) and len(other.worlds) == 1:
        if other.array.size == 1:
            return _with_number(r, kind, v, r.number(i), i == 0)
        if _zeros_beside(r, kind, v, other, i == 0):
            return None
    if not isinstance(other, (Known, Weight)) or (isinstance(other, Known) and other.array is None):
        r.data(i)
    return _with_own(r, f, v, other, i == 0)


# ---- sums and means of axes

def pooled(b, name, x, dim, kind):
    """Over dimensions of x, with rows in front, which keep the size 1: by a pool, which `splitc export` writes as ONNX, too."""
    axes = [d - 1 for d in (dim if isinstance(dim, tuple) else (dim,))]
    if kind == "ReduceMax":
        return reduce.FUNCTIONS["amax"](b, name, x, dim, True)
    x = b.mul(name + ".squares", x, x) if kind == "ReduceL2" else x
    y, rest = reduce._in_front(b, name + ".turn", x, axes)
    y = b.arranged(name + ".image", b.plane(name, y), [x.shape[d] for d in rest], range(len(rest)), [1 if i in axes else n for i, n in enumerate(x.shape)])
    y = b.mul(name + ".sum", y, math.prod(x.shape[i] for i in axes)) if kind in ("ReduceSum", "ReduceL2") else y
    return reduce._root(b, name + ".root", y) if kind == "ReduceL2" else y


def _reduce(kind):
    def every(b, name, x, dim):
        plane = kind == "ReduceMean" and dim == (2, 3) and len(x.shape) == 3
        tokens = b.of_tokens(x)
        f = reduce.FUNCTIONS[{"ReduceMean": "mean", "ReduceSum": "sum", "ReduceMax": "amax", "ReduceL2": "norm"}[kind]]
        if plane or tokens:
            return f(b, name, x, 2, dim, True) if kind == "ReduceL2" else f(b, name, x, dim, True)
        return pooled(b, name, x, dim, kind)

    def read(r):
        if kind == "ReduceMean" and patterns.read_layernorm(r):
            return None
        v, keep = r.data(0), bool(r.attr("keepdims", 1))
        axes = axes_of(r.attrs, r.integers(1, "what it is over") if r.has(1) else None, len(v.axes))
        r.refuse_if(r.batch_axis(v) in axes, "it is over the batch")
        if r.tokens_axis(v) in axes:
            if axes != (r.tokens_axis(v),) or kind not in ("ReduceMean", "ReduceSum"):
                r.mixed()
            return _row(r, v, axes[0], True, keep, kind == "ReduceSum")
        if v.axes[0] == [r.batch] and len(v.axes) <= 4 and not r.b.of_tokens(v.of):
            found = r.usual(every(r.b, r.name, r.canonical(v), axes))
        elif r.b.of_tokens(v.of):
            found = v
            for axis in axes:
                r.refuse_if(v.shape[axis] != v.of.shape[1], "it is over a part of the features of tokens")
                found = r.resized(v, axis, every(r.b, r.name, v.of, 2), 1)
        else:
            found = v
            for axis in axes:
                found = r.resized(found, axis, every(r.b, r.name, r.block(found, axis), 3), 1)
        axes_left = [a for i, a in enumerate(found.axes) if keep or i not in axes]
        return r.give(Held(found.of, found.mem, axes_left))
    return read


def _row(r, v, axis, mean, keep, summed=False):
    """The first token of each row, or the mean of all, as a value of the row."""
    r.refuse_if(len(v.axes) != 3 or r.batch_axis(v) is None, "it takes a token of other than [batch, tokens, features]")
    x = r.canonical(v)
    y = texts.mean(r.b, r.name, x) if mean else texts.first(r.b, r.name, x)
    own = [Atom(y.shape[0])]
    axes = [[r.batch] if r.batch in a else [] if i == axis else own for i, a in enumerate(v.axes)]
    found = Held(y, own, [a for i, a in enumerate(axes) if keep or i != axis])
    found.summed = summed
    r.give(found)


def _global(kind):
    def read(r):
        v = r.data(0)
        x, flat = r.image(v), len(v.axes) == 3
        r.give(r.of_image(reduce.FUNCTIONS[kind](r.b, r.name, x, (2, 3), True), flat))
    return read


# ---- shapes

def _shape(r):
    v = r.value(0)
    shape = v.shape if isinstance(v, Held) and not v.summed else r.data(0).shape
    r.give(Known([np.array(shape[r.attr("start", 0):r.attr("end", None)], np.int64)]))


def _view(r, v, to):
    """v with these sizes."""
    found = r.reshaped(v, to)
    if found is None and v.axes[0] == [r.batch] and to and to[0] == r.batch.size and not r.b.of_tokens(v.of):
        r.arrange(v, r.atoms(v, range(len(v.axes))), (math.prod(v.shape[1:]),))
        found = r.reshaped(v, to)
    if found is None:
        r.refuse(f"it parts the axes of {list(v.shape)} to {list(to)}, which is not read; to [batch, features] write x.flatten(1)")
    return r.give(found)


def _reshape(r):
    if isinstance(r.value(0), Held) and patterns.read_groupnorm(r):
        return None
    v = r.data(0)
    return _view(r, v, resized(v.shape, r.integers(1, "its shape"), r.attr("allowzero", 0)))


def _flatten(r):
    v = r.data(0)
    if r.attr("axis", 1) not in (1, 1 - len(v.axes)):
        r.refuse(f"axis is {r.attr('axis', 1)}, where 1 is read")
    _view(r, v, (v.shape[0], math.prod(v.shape[1:])))


def _axes_changed(r, axes):
    v = r.data(0, ids=True)
    r.give(v.seen(axes(v)))


def _squeeze(r):
    _axes_changed(r, lambda v: squeezed(v.axes, v.shape, r.integers(1, "what it leaves out") if r.has(1) else None))


def _unsqueeze(r):
    _axes_changed(r, lambda v: unsqueezed(v.axes, r.integers(1, "what it adds"), list))


def _transpose(r):
    v = r.data(0, ids=True)
    perm = r.attr("perm", list(range(len(v.axes)))[::-1], list)
    if sorted(perm) != list(range(len(v.axes))):
        r.refuse(f"its perm {perm[:8]} is no order of its input's axes")
    r.give(v.seen([v.axes[i] for i in perm]))


def _expand(r):
    v, to = r.data(0), tuple(r.integers(1, "its shape"))
    want = np.broadcast_shapes(v.shape, to) if len(to) <= 8 else ()
    if want == v.shape:
        return r.give(v.like(v.of))
    if r.batch_axis(v) is None and want[:1] == (r.batch.size,):
        v = Held(v.of, v.mem, [[r.batch], *([[]] * (len(want) - len(v.axes) - 1)), *v.axes[len(want) == len(v.axes):]])
        if v.shape == want:
            return r.give(v)
    if len(want) != len(v.axes) or len(want) > 4 or r.b.per_token or max(want) > 1 << 20:
        r.refuse(f"it repeats {list(v.shape)} to {list(to)}, which is not read")
    return r.give(r.repeated(v, want))


def _depth_to_space(r):
    """[C·r·r, H, W] becomes [C, H·r, W·r], as in nn.PixelShuffle."""
    v, k = r.data(0), r.attr("blocksize", 0)
    if len(v.axes) != 4 or r.attr("mode", "DCR", str) != "CRD" or not 1 <= k <= 256 or v.shape[1] % k ** 2:
        r.refuse("it is not as nn.PixelShuffle makes it")
    n, c, h, w = v.shape
    parts = r.reshaped(v, (n, c // k ** 2, k, k, h, w)) or r.refuse("it is not as nn.PixelShuffle makes it")
    b, c_, k1, k2, h_, w_ = parts.axes
    r.give(Held(parts.of, parts.mem, [b, c_, h_ + k1, w_ + k2]))


def _cut(r, v, axis, first, size, step=1):
    if axis == r.tokens_axis(v) and size != v.shape[axis]:
        r.refuse_if(first or size != 1, "of the tokens of a row the first is read, x[:, 0], and their mean, x.mean(1)")
        return None
    if axis == r.batch_axis(v) or size < 1:
        r.refuse(f"it takes {'nothing' if size < 1 else 'some of the batch; export an example of 2 samples, if it has 1'}")
    if v.shape[axis] > 1 << 20:
        r.refuse(f"it cuts an axis of {v.shape[axis]} numbers, where {1 << 20} are the most")
    return r.part(v, axis, first, size, step)


def _slice(r):
    v = r.data(0)
    for axis, s in enumerate(slices(len(v.axes), *(r.integers(i, "where it cuts") if r.has(i) else None for i in range(1, 5)))):
        taken = range(*s.indices(v.shape[axis]))
        r.refuse_if(taken.step < 1, "it takes numbers backwards")
        if len(taken) != v.shape[axis]:
            found = _cut(r, v, axis, taken.start, len(taken), taken.step)
            if found is None:
                return _row(r, v, axis, False, True)
            v = found
    return r.give(v.like(v.of))


def _split(r):
    v, axis, n = r.data(0), r.attr("axis", 0), len(r.node.output)
    r.refuse_if(not -len(v.axes) <= axis < len(v.axes), "it parts an axis that is not there")
    axis %= len(v.axes)
    all_of = v.shape[axis]
    sizes = r.integers(1, "how it parts an axis") if r.has(1) else [-(-all_of // n)] * (n - 1) + [all_of - -(-all_of // n) * (n - 1)]
    if len(sizes) != n or min(sizes) < 1 or sum(sizes) != all_of:
        r.refuse(f"its sizes {sizes[:8]} are not those of its input, {all_of}")
    for i, name in enumerate(r.node.output):
        if name in r.needed:
            found = _cut(r, v, axis, sum(sizes[:i]), sizes[i])
            r.give(found if found is not None else r.mixed(), i)


def _gather(r):
    table, at = r.value(0), r.value(1)
    if isinstance(table, Weight) and not r.attr("axis", 0):
        return _look_up(r, table, at)
    v, axis, index = r.data(0), r.attr("axis", 0), r.known(1)
    if index is None or index.shape or index.dtype.kind not in "iu" or not -len(v.axes) <= axis < len(v.axes):
        r.refuse("it does not take one constant number of an axis")
    axis, index = axis % len(v.axes), int(index)
    if not -v.shape[axis] <= index < v.shape[axis]:
        r.refuse(f"it picks number {index} of {v.shape[axis]}")
    found = _cut(r, v, axis, index % v.shape[axis], 1)
    if found is None:
        return _row(r, v, axis, False, False)
    return r.give(Held(found.of, found.mem, [a for i, a in enumerate(found.axes) if i != axis]))


def _look_up(r, table, at):
    """Rows of a table by token ids, or by the positions of a row's tokens."""
    w, first = r.weight(0, 2), None
    if r.is_ids(at):
        axes = at.axes
    else:
        a = r.known(1)
        if not r.ids or a is None or a.dtype.kind not in "iu" or not a.ndim or a.shape[-1] != r.tokens or a.size != np.prod(a.shape[-1:]) * (
                a.shape[0] if a.ndim > 1 and a.shape[0] == r.batch.size else 1):
            r.refuse("a table is read for the token ids that a network takes, and for their positions")
        first, line = int(a.flat[0]), a.reshape(-1, r.tokens)
        if first < 0 or (line != np.arange(first, first + r.tokens)).any():
            r.refuse("a table is read for the token ids that a network takes, and for their positions")
        if w.array.shape[0] - first < r.tokens:
            r.refuse(f"it has {w.array.shape[0] - first} places for tokens, and rows have up to {r.tokens}")
        axes = [[r.batch] if n == r.batch.size and i < a.ndim - 1 else None if i == a.ndim - 1 else [] for i, n in enumerate(a.shape)]
    part = r.param(w)
    y = r.b.look_up(r.name, part, first)
    tokens, features = Atom(r.tokens), Atom(w.array.shape[1])
    own = [features] if features.size != 1 else []
    y, mem = (y.of, [*own, tokens]) if isinstance(y, Turned) else (y, [tokens, *own])
    r.give(Held(y, mem, [*([tokens] if a is None or r.input.mem[0] in a else a for a in axes), own]))


def _concat(r):
    held = [r.data(i) for i in range(len(r.node.input))]
    axis, n = r.attr("axis", 0), len(held[0].axes)
    if not -n <= axis < n or any(len(v.axes) != n or v.axes[0] != [r.batch] or any(
            a != b for i, (a, b) in enumerate(zip(v.shape, held[0].shape)) if i != axis % n) for v in held) or not axis % n:
        r.refuse(f"it joins values along axis {axis} whose other axes differ")
    axis %= n
    if r.tokens_axis(held[0]) == axis:
        r.mixed()
    parts = [r.canonical(v) for v in held]
    y = parts[0]
    for x in parts[1:]:  # a dense block joins ever more of the same
        had = r.joins.get((y.number, x.number, axis))
        if had is None:
            shape = [a + b if i == axis - 1 else a for i, (a, b) in enumerate(zip(y.shape, x.shape))]
            at, last = r.b.axis(x, axis), len(shape) - r.b.of_tokens(x)
            had = r.joins[y.number, x.number, axis] = r.b.node(r.name, "concat", [y, x], shape, axis=at if at != last else None)
        y = had
    r.give(_again(r, held[0], y) if r.b.of_tokens(y) else y)


def _cast(r):
    v, to = r.value(0), r.attr("to", 1)
    if isinstance(v, Held) and to in ((6, 7) if r.is_ids(v) else (1, 10, 16)):
        return r.give(v)
    return r.refuse("it changes a type, which is not read: values are float32")


def _identity(r):
    r.give(r.value(0))


def _compare(r):
    if r.is_ids(r.value(0)):
        return attention.compared_ids(r)
    if r.node.op_type == "IsNaN" and attention.of_scores(r):
        return None
    return r.refuse("of this kind what is computed of constants, sizes and masks alone is read")


# kind: reader, attributes that are read, least and most inputs
KINDS = {
    "Abs": (_each(lambda r, x: made._abs(r.b, r.name, x)), "", 1, 1),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), (_arithmetic, "", 2, 2)),
    **dict.fromkeys(("And", "Or", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), (_compare, "", 2, 2)),
    **dict.fromkeys(("Not", "IsNaN"), (_compare, "", 1, 1)),
    "AveragePool": (windows.pool("avgpool"), "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides", 1, 1),
    "BatchNormalization": (_batchnorm, "epsilon momentum training_mode", 5, 5),
    "Cast": (_cast, "to", 1, 1), "CastLike": (_identity, "", 2, 2), "Celu": (_celu, "alpha", 1, 1), "Clip": (_clip, "", 2, 3),
    "Concat": (_concat, "axis", 1, 1 << 20), "Conv": (windows.conv, "auto_pad dilations group kernel_shape pads strides", 2, 3),
    "ConvTranspose": (windows.convt, "auto_pad dilations group kernel_shape output_padding pads strides", 2, 3),
    "DepthToSpace": (_depth_to_space, "blocksize mode", 1, 1), "Dropout": (_dropout, "seed", 1, 3),
    "Einsum": (attention.einsum, "equation", 2, 2), "Elu": (_elu, "alpha", 1, 1), "Exp": (_math, "", 1, 1), "Expand": (_expand, "", 2, 2),
    "Flatten": (_flatten, "axis", 1, 1), "GRU": (recurrent.read, "direction hidden_size linear_before_reset", 3, 6),
    "Gather": (_gather, "axis", 2, 2), "Gelu": (_gelu, "approximate", 1, 1), "Gemm": (attention.gemm, "alpha beta transA transB", 2, 3),
    "GlobalAveragePool": (_global("mean"), "", 1, 1), "GlobalMaxPool": (_global("amax"), "", 1, 1),
    "HardSigmoid": (_hard_sigmoid, "alpha beta", 1, 1), "HardSwish": (_act("hardswish"), "", 1, 1), "Identity": (_identity, "", 1, 1),
    "InstanceNormalization": (patterns.instance_norm, "epsilon", 3, 3), "LSTM": (recurrent.read, "direction hidden_size", 3, 7),
    "LayerNormalization": (patterns.layer_normalization, "axis epsilon stash_type", 2, 3),
    "LeakyRelu": (_each(lambda r, x: r.b.leaky(r.name, x, _small(r, "alpha", 0.01))), "alpha", 1, 1), "Log": (_math, "", 1, 1),
    "MatMul": (attention.matmul, "", 2, 2), "Max": (_extreme, "", 2, 2), "Min": (_extreme, "", 2, 2),
    "MaxPool": (windows.pool("maxpool"), "auto_pad ceil_mode dilations kernel_shape pads storage_order strides", 1, 1),
    "Mish": (_each(lambda r, x: made._mish(r.b, r.name, x)), "", 1, 1), "Neg": (_each(lambda r, x: r.b.mul(r.name, x, -1)), "", 1, 1),
    "PRelu": (_prelu, "", 2, 2), "Pad": (windows.pad, "mode", 2, 4), "Pow": (_pow, "", 2, 2),
    "RNN": (recurrent.read, "activations direction hidden_size", 3, 6), "Reciprocal": (_math, "", 1, 1),
    **{kind: (_reduce(kind), "axes keepdims noop_with_empty_axes", 1, 2) for kind in ("ReduceL2", "ReduceMax", "ReduceMean", "ReduceSum")},
    "Relu": (_act("act"), "", 1, 1), "Reshape": (_reshape, "allowzero", 2, 2),
    "Resize": (windows.resize, "coordinate_transformation_mode cubic_coeff_a extrapolation_value mode nearest_mode", 1, 4),
    "Selu": (_elu, "alpha gamma", 1, 1), "Shape": (_shape, "end start", 1, 1), "Sigmoid": (_sigmoid, "", 1, 1), "Slice": (_slice, "", 3, 5),
    "Softmax": (attention.softmax, "axis", 1, 1), "Softplus": (_act("softplus"), "", 1, 1),
    "Softsign": (_each(lambda r, x: made._softsign(r.b, r.name, x)), "", 1, 1), "Split": (_split, "axis num_outputs", 1, 2), "Sqrt": (_math, "", 1, 1),
    "Squeeze": (_squeeze, "", 1, 2), "Tanh": (_act("tanh"), "", 1, 1), "Transpose": (_transpose, "perm", 1, 1),
    "Unsqueeze": (_unsqueeze, "", 2, 2), "Where": (attention.where, "", 3, 3),
}

# kinds that torch writes and are never read: what torch calls them, and what a user can do instead
ADVICE = {
    "ArgMax": "argmax; leave it out: a network gives logits", "CumSum": "cumsum", "GatherElements": "gather", "GridSample": "F.grid_sample",
    "If": "a branch on values; take a fixed size of pictures, without a branch", "LRN": "nn.LocalResponseNorm; take nn.BatchNorm2d or nn.GroupNorm",
    "LogSoftmax": "log_softmax; leave it out at the end of a network: the loss has it", "Loop": "a loop; unroll it",
    "MaxUnpool": "nn.MaxUnpool2d; take nn.ConvTranspose2d", "NonZero": "nonzero", "RandomUniformLike": "rand_like; nn.Dropout is read",
    "Scan": "a loop; unroll it", "ScatterND": "an assignment to a part; write it with torch.cat", "TopK": "topk",
}


def read(r, unread):
    """unread: an input was refused, so that of this node its kind alone is checked."""
    n = r.node
    if n.domain not in ("", "ai.onnx") or n.op_type not in KINDS:
        r.refuse(f"torch's {ADVICE[n.op_type].replace(';', ' is not read;', 1)}" if ";" in ADVICE.get(n.op_type, "") else
                 f"torch's {ADVICE[n.op_type]} is not read" if n.op_type in ADVICE else "this kind is not read; docs/howto-onnx.md lists those that are")
    r.refuse_if(unread, "")
    build, attributes, least, most = KINDS[n.op_type]
    r.attrs = r.attributes(n, attributes.split())
    if not least <= len(n.input) <= most:
        r.refuse(f"it has {len(n.input)} inputs, where {least} to {most} are right")
    build(r)
