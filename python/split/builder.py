"""Builds the text of a graph (docs/WIRE.md) node by node: its values, its parameters, and the inferred shapes."""
import math
import re

import torch

from . import errors


class Value:
    """A tensor without its dimension of rows, as in PyTorch: (C, H, W), (S, F) or (F,). The graph has images as [H, W, C]."""

    base, views, apart, changed = None, (), None, None  # aliases.py: base, its views, views beside it, node that changed it
    written = None  # node that changed it, or a view of it, in place
    origin = None  # Origin, of columns of an input as they are
    bare = None  # a sentence: in PyTorch it is one number of a row, without a dimension, and here [1]

    def __init__(self, number, shape):
        self.number, self.shape = number, tuple(int(n) for n in shape)


class Origin:
    """Of a value that is columns of input `field` as they are: tensor is what PyTorch makes of a row of zeros, and of a row of the numbers 0, 1 …"""

    def __init__(self, field, tensor):
        self.field, self.tensor = field, tensor

    @staticmethod
    def of_input(field, shape):
        numbers = torch.arange(float(math.prod(shape))).reshape(shape)
        return Origin(field, torch.stack([0 * numbers, numbers]))


class Ids(Value):
    """Token ids (S,), the input of a network of texts. They go into tables alone."""


class Last(Value):
    """(H, W, C): an image whose channels are last in the script, too, as they always are in the graph."""

    def image(self):
        return Value(self.number, (self.shape[2], *self.shape[:2]))


def _of_images(f):
    """Decorates an op of two values: if they are Last, it computes on images and returns a Last."""
    def each(x):
        if isinstance(x, Later):
            return Later(each(x.of), x.then)
        own = isinstance(x, Own) and x.tensor.numel() > 1
        if own and x.shape[-1] != x.tensor.numel():
            raise errors.config(f"{x.path}: {list(x.shape)} beside channels that come last; the server has one number for each channel there")
        return Own(x.path, x.tensor, x.learns, (x.shape[-1], 1, 1)) if own else x.image() if isinstance(x, Last) else x

    def both(self, name, a, b, *args, **more):
        values = [isinstance(x, Last) for x in (a, b) if isinstance(x, Value)]
        if not any(values):
            return f(self, name, a, b, *args, **more)
        if not all(values):
            raise errors.config(f"{name}: channels come last in one of its values, and not in the other one: permute one of them")
        y = f(self, name, each(a), each(b), *args, **more)
        return Last(y.number, (*y.shape[1:], y.shape[0]))
    return both


class Lazy(Value):
    """A value whose node is made, by make(), only if another node needs it."""

    def __init__(self, of, shape, make):
        self.of, self.shape, self.make, self.made = of, tuple(shape), make, None

    @property
    def number(self):
        if self.made is None:
            self.made = self.make().number
        return self.made


class Repeated(Lazy):
    """A value with dimensions of size 1 repeated to shape. A product with a number for each channel needs no node for that."""


class Turned(Lazy):
    """(S, F), transposed to (F, S). Keys of attention need no node for that."""


class Parted(Lazy):
    """(C, H·W), viewed as (C, H, W). Heads of attention need no node for that."""


class Own:
    """A tensor that a module itself holds, outside of layers. If it is no parameter, it is sent as a constant.
    shape: as forward sees it, which may add or drop dimensions of size 1."""

    def __init__(self, path, tensor, learns, shape=None):
        self.path, self.tensor, self.learns = path, tensor, learns
        self.shape = tuple(tensor.shape if shape is None else shape)

    def param(self, layout="same", shape=None):
        return Param(self.path, self.path, self.tensor, layout, shape=shape, constant=None if self.learns else self.tensor.detach())


class Transposed(Own):
    """A matrix of a module, transposed."""


class Later:
    """What forward computes of one such tensor alone. then: from the value of that to the value of this."""

    def __init__(self, of, then):
        self.of, self.then = of, then


class Counted:
    """What the batch norm `norm` counts, such as its running_mean. path: of that tensor."""

    def __init__(self, path, norm):
        self.path, self.norm = path, norm


class Param:
    """A parameter of the graph: rows [first, last) of a tensor of the module, in another layout. shape: in the graph. layout: a word, or of a
    matrix behind a flattened image the number of its channels, which the graph has innermost.
    constant: a tensor that never learns; None: the tensor is that of the module's state with this key."""

    def __init__(self, name, key, tensor, layout="same", rows=None, shape=None, constant=None):
        self.name, self.key, self.layout, self.rows, self.shape, self.constant = name, key, layout, rows, shape, constant
        self.viewed, self.tensor = shape, tensor  # shape as forward sees it
        self.shape = tuple(self.to_graph(tensor).shape)

    def to_graph(self, tensor):
        t = tensor.detach() if self.rows is None else tensor.detach()[self.rows[0]:self.rows[1]]
        if self.layout in ("ohwi", "hwc") and t.dim() == 3:  # a signal's kernel is that of an image of height 1
            t = t[:, :, None]
        if self.layout == "ohwi":
            t = t.permute(0, 2, 3, 1)
        elif self.layout == "oidhw":  # taps along the depth are channels of the graph
            t = t.permute(0, 3, 4, 2, 1).flatten(3)
        elif self.layout == "hwc":
            t = t[:, 0].permute(1, 2, 0)
        elif self.layout == "pixel":  # a linear layer becomes a convolution of 1 by 1
            t = t[:, None, None]
        elif self.layout == "image":
            t = t.reshape(self.viewed).permute(1, 2, 0)
        elif self.layout == "each":  # a number for each channel of an image
            t = t.reshape(1, 1, -1)
        elif self.layout == "one":
            t = t.reshape(self.shape)
        elif isinstance(self.layout, int):
            t = t.reshape(len(t), self.layout, -1).transpose(1, 2).reshape(len(t), -1)
        return t.to("cpu", torch.float32).contiguous()

    def to_file(self, tensor):
        """The tensor as a network's file has it, and the name of its layout there; None: the graph's."""
        t = tensor.detach().to("cpu", torch.float32)
        t = t.reshape(1) if not t.dim() else t
        word = self.layout if isinstance(self.layout, int) else {"ohwi": "oihw", "hwc": "chw", "image": "chw", "oidhw": "oidhw"}.get(self.layout)
        if self.layout == "image":
            c = self.viewed[0]
            if t.dim() == 4 and t.shape[:2] == (1, c):
                word = "oihw"
            elif 1 in (c, math.prod(self.viewed[1:])):  # in either order the same numbers
                word = None
            elif t.dim() > 4 or t.shape[0] != c:
                t = t.reshape(self.viewed)
        return t.contiguous(), word

    def from_graph(self, array, into):
        t = torch.from_numpy(array)
        if self.layout == "ohwi":
            t = t.permute(0, 3, 1, 2)
        elif self.layout == "oidhw":
            t = t.reshape(*t.shape[:3], into.shape[2], into.shape[1]).permute(0, 4, 3, 1, 2)
        elif self.layout == "hwc":
            t = t.permute(2, 0, 1)[:, None]
        elif self.layout == "image":
            t = t.permute(2, 0, 1)
        t = t.reshape(into.shape) if self.rows is None else t
        (into if self.rows is None else into[self.rows[0]:self.rows[1]]).copy_(t)


class Tokens(int):
    """The most tokens of a row, if rows have unequal numbers: a size with which forward cannot compute."""


ROWS = object()  # among sizes: the number of rows of a call


class Times:
    """Among sizes: so many times the number of rows of a call."""

    def __init__(self, n):
        self.n = n


def of_call(x):
    """Whether x is a size that may differ from call to call."""
    return x is ROWS or isinstance(x, (Times, Tokens))


def said(x):
    """An argument of a call as a sentence has it."""
    if isinstance(x, (tuple, list)):
        return f"({', '.join(map(said, x))})" if type(x) is tuple else f"[{', '.join(map(said, x))}]"
    if isinstance(x, slice):
        return ":".join("" if i is None else said(i) for i in (x.start, x.stop, *(() if x.step in (None, 1) else (x.step,))))
    if isinstance(x, (Own, Later)):
        return (x.of if isinstance(x, Later) else x).path
    if x is ROWS or isinstance(x, Times):
        return "the number of rows"
    return repr(x) if x is None or isinstance(x, (bool, int, float, str, torch.dtype)) else "a tensor"


UNREAD = object()  # the result of what no graph has, such as a comparison of activations; a node that reads it is refused


def _memory(tensor):
    return getattr(tensor, "untyped_storage", tensor.storage)().data_ptr()


def real(x):
    x = float(torch.tensor(float(x), dtype=torch.float32))
    for digits in range(1, 10):
        text = f"{x:.{digits}g}"
        if torch.tensor(float(text), dtype=torch.float32).item() == x:
            break
    return text


def one(x, what, name):
    """x as one number, where PyTorch may have a pair of equal ones."""
    pair = x if isinstance(x, (tuple, list)) else (x,)
    if isinstance(x, str):
        raise errors.config(f"{name}: {what}={x!r} is not known on the server: give a number")
    if any(n != pair[0] for n in pair):
        raise errors.config(f"{name}: {what}={x}: the server has equal numbers for height and width")
    return int(pair[0])


def place(name, dim, dims):
    """dim of a tensor of so many dimensions, rows among them, from 0."""
    if not -dims <= dim < dims:
        raise errors.config(f"{name}: dimension {dim} of what has {dims}: give one from {-dims} to {dims - 1}")
    return dim % dims


def must(name, module, **usual):
    for key, value in usual.items():
        if getattr(module, key, value) != value:
            raise errors.config(f"{name}: {key}={getattr(module, key)} is not known on the server, {value} is")


MATH = {"exp": None, "log": 1, "sqrt": 2, "reciprocal": 3}  # fn of the op `math`; None: 0, which its text leaves out
LIES = {1: [0], 2: [0, 1], 3: [1, 2, 0]}  # the order in which the graph has so many dimensions
REFLECT, EDGE, NEAREST, LINEAR, ALIGNED, AREA, MEAN = range(1, 8)  # modes of the op `resample`
OWN = "a tensor of a module itself is known on the server in sums, differences, products and quotients with what the module computes, where a " \
      "function of each of its numbers, such as exp, may stand before it; and unchanged as the weight of F.linear, F.conv1d, F.conv2d and matmul: apply other " \
      "functions to what the module computes, or keep this part in head or tail"


class Builder:
    def __init__(self, rows, shapes, per_token=False, without_dropout=False, evaluates=False, whole=None, still=()):
        """rows: most of a call. shapes: of the inputs. per_token: an input (S, F) has rows of up to S tokens; else all rows have S.
        evaluates: the module is in evaluation. whole: the graph is a network for a file: the form of its input, or of several inputs
        a list of (name, form). still: of a middle, for each input, whether no gradient of it is wanted; none: each is."""
        self.fields = [(whole, whole)] if isinstance(whole, str) else whole or []
        self.rows, self.whole, self.still = rows, self.fields and self.fields[0][1], still
        self.without_dropout, self.evaluates = without_dropout, evaluates
        self.nodes, self.params, self.named, self.streams, self.per_token, self.lines = [], [], {}, 0, per_token, {}
        self.read = []  # (path, tensor, copy of its values): the module's own tensors on whose values the graph depends
        self.rooms = {}  # for each input, of columns that are ids: the rows that tables have for them
        self.recorded = None  # again.Recording or again.Attributes
        self.single = None  # the first batch norm that gets one number for each channel of a row
        for shape in shapes if per_token and not whole else ():
            if len(shape) != 2 or shape[0] != shapes[0][0]:
                raise errors.config(f"lengths belong to inputs [rows, tokens, features], all of one length, not to rows of {list(shape)}")
        # in a file the label comes behind the first input
        self.inputs = [(Ids if whole == "tokens" else Value)(i + bool(whole and i), shape) for i, shape in enumerate(shapes)]
        self.values, self.shapes = len(shapes) + bool(whole), shapes
        for i, (name, form) in enumerate(self.fields):
            if form == "row" and len(shapes[i]) == 2:
                name = "signal" if len(shapes) == 1 else f"{name}.signal"
                self.inputs[i] = self.node(name, "permute", [self.inputs[i]], shapes[i], h=shapes[i][0])
            if form == "row":
                self.inputs[i].origin = Origin.of_input(i, shapes[i])
        self.input = self.inputs[0]

    # ---- text

    def node(self, name, kind, inputs, shape, params=(), **attrs):
        _check_name(name)
        if any(isinstance(v, Last) for v in inputs):
            raise errors.config(f"{name}: channels come last here; permute them back in front of it")
        said = "".join(f" {k}={v}" for k, v in attrs.items() if v is not None)
        self.nodes.append((f"node {name} {kind}", [v.number for v in inputs], [self.param(p) for p in params], said))
        self.values += 1
        return Value(self.values - 1, shape)

    def behind(self, numbers):
        """The inputs that a gradient of values of these numbers reaches, and the parameters that learn by it."""
        first, todo, seen, found = self.values - len(self.nodes), list(numbers), set(), {}
        while todo:
            number = todo.pop()
            if number not in seen and number >= first:
                _, ins, its, _ = self.nodes[number - first]
                found.update((p.key, p) for p in (self.params[k] for k in its) if p.constant is None and p.tensor.requires_grad)
                todo += ins
            seen.add(number)
        return [n for n in seen if n < first], set(found)

    def learns_behind(self, x):
        """Whether a gradient of x reaches a parameter, or the input of a middle, whose head may learn."""
        inputs, learns = self.behind([x.number])
        return bool(learns) or any(not self.whole and not (self.still and self.still[n]) for n in inputs)

    def same(self, name, kind, x, params=(), **attrs):
        """A node that keeps the shape, and works on channels or on single numbers."""
        if not isinstance(x, Last):
            return self.node(name, kind, [x], x.shape, params, **attrs)
        return Last(self.node(name, kind, [x.image()], (), params, **attrs).number, x.shape)

    def param(self, p):
        if p.name not in self.named:
            _check_name(p.name)
            self.named[p.name] = len(self.params)
            self.params.append(p)
        return self.named[p.name]

    def read_alone(self, outputs):
        """Drops the nodes on which no output depends, as of states of a recurrent layer that nothing reads. A batch norm's
        statistics move even so: that is refused by the server. Lookups of ids come first, so that a head can end behind all of them."""
        first, early, live, new = self.values - len(self.nodes), set(), {v.number for v in outputs}, {}
        for i, (word, ins, _, _) in reversed(list(enumerate(self.nodes, first))):
            if i in live or word.endswith(" batchnorm"):
                live.update((i, *ins))
            if i in early or word.endswith(" lookup"):
                early.update((i, *ins))
        params, self.params, self.named = self.params, [], {}
        nodes, self.nodes = self.nodes, []
        for i, (word, ins, its, said) in sorted(enumerate(nodes, first), key=lambda n: n[0] not in early):
            if i in live:
                new[i] = first + len(self.nodes)
                self.nodes.append((word, [new.get(n, n) for n in ins], [self.param(params[k]) for k in its], said))
        self.values = first + len(self.nodes)
        return tuple(Value(new.get(v.number, v.number), v.shape) for v in outputs)

    def _in(self, number, still):
        name, form = self.fields[number] if self.whole else (_numbered("head_act", number), None)
        shape = self.inputs[number].shape
        if form == "tokens":
            return f"in {name} i32 T[] most={shape[0]}"
        shape = [math.prod(shape)] if form == "row" else shape
        what = f"T[{shape[1]}] most={shape[0]}" if self.per_token and not self.whole else f"R{_dims(shape)}"
        return f"in {name} f32 {what}{' still' * still}"

    def text(self, output, role, still=()):
        """output: a value, or several. role(param): "", "stat", "frozen" or "g1". still: for each input, whether its gradient is
        left out; none if all have one."""
        outputs = output if isinstance(output, tuple) else (output,)
        numbers = [v.number for v in outputs]  # first, since a Lazy output adds a node here
        out = "\n".join(f"out {_numbered('mid_act', i)} %{n}" for i, n in enumerate(numbers))
        lines = ["graph 1", *(self._in(i, bool(still) and still[i]) for i in range(len(self.inputs)))]
        if self.whole:  # a loss of classes, in whose place the config's task has its own
            label = (output.shape[1] * output.shape[2], output.shape[3]) if len(output.shape) == 4 else output.shape[1:]
            lines.insert(2, f"in label i32 R[{','.join(map(str, label))}]")
            out = f"node loss xent %{output.number} %1\nout loss %{self.values}"
        for p in self.params:
            word = role(p)
            lines.append(f"param {p.name} [{','.join(map(str, p.shape))}]{' ' * bool(word)}{word} zero")
        for word, ins, params, said in self.nodes:
            lines.append(word + "".join(f" %{n}" for n in ins) + "".join(f" &{k}" for k in params) + said)
        return "\n".join(lines + [out, ""])

    def stream(self):
        self.streams += 1
        return self.streams

    def keeps_rows(self, name, size):
        if isinstance(size[0], Times):
            raise errors.config(f"{name}: joins the number of rows with another dimension, and the server keeps rows apart: do that in the head, whose "
                                "output may have more rows")
        if size[0] is not ROWS and size[0] not in (-1, self.rows):
            said = size[0] if isinstance(size[0], int) else "computed"
            raise errors.config(f"{name}: the first size is {said}; the server keeps rows as they are: write x.size(0) or -1")

    def reads(self, found, *given):
        """Notes that found was computed from the values of each Own in given. A view of one needs no note: it is sent itself."""
        for a in given:
            if isinstance(a, Own) and (not isinstance(found, torch.Tensor) or _memory(found) != _memory(a.tensor)):
                self.read.append((a.path, a.tensor, a.tensor.detach().clone()))
        return found

    # ---- what modules and functions are made of

    def linear(self, name, x, weight, bias):
        return self.node(name, "linear", [x], (*x.shape[:-1], weight.shape[0]), [weight, bias] if bias else [weight])

    def rate(self, name, p):
        """p of a functional dropout, which forward itself must leave out in evaluation."""
        if p and self.evaluates:
            raise errors.config(f"{name}: it drops in evaluation, too, and the server does not: give it training=self.training")
        return p

    def dropout(self, name, x, p):
        if not p or self.without_dropout:
            return x
        return self.same(name, "dropout", x, p=real(p) if p != 0.5 else None, stream=self.stream())

    def attention(self, name, q, k, v, heads, p, causal=False, kv=None, rope=None):
        p = 0 if self.without_dropout else p
        return self.node(name, "attention", [q, k, v], q.shape, heads=heads if heads != 1 else None, kv=kv,
                         causal=1 if causal else None, rope=rope, p=real(p) if p else None, stream=self.stream() if p else None)

    def act(self, name, x, kind, **attrs):
        return self.same(name, kind, x, **attrs)

    def leaky(self, name, x, slope):
        slope = real(slope)
        return self.act(name, x, "act") if slope == "0" else self.act(name, x, "leakyrelu", slope=None if slope == "0.01" else slope)

    def norm(self, name, x, module, prefix, held=None):
        """held: the parameters, if the module has none of its own."""
        if tuple(module.normalized_shape) == x.shape and len(x.shape) == 3 and not isinstance(x, Last):
            y, parts = self.group_norm(name, x, 1, (), module.eps), params(prefix, module) if held is None else held
            for f, p in zip((self.mul, self.add), parts):
                y = f(p.name, y, self.node(p.name, "repeat", [x], x.shape, [Param(p.name, p.key, p.tensor, "image", None, x.shape, p.constant)]))
            return y
        if len(x.shape) == 3 and not isinstance(x, Last):
            raise errors.config(f"{name}: a layer norm over the width of images is not known on the server; permute the "
                                "channels behind it")
        must(name, module, normalized_shape=(x.shape[-1],))
        eps = real(module.eps)
        held = (params(prefix, module) if held is None else held) or [ones(name, x.shape[-1])]
        return self.same(name, "layernorm", x, held, eps=None if eps == "1e-05" else eps)

    def group_norm(self, name, x, groups, held, eps):
        """held: its parameters, or none."""
        return self.node(name, "groupnorm", [x], x.shape if len(x.shape) == 2 or is_volume(x) else image(name, x), held,
                         groups=groups if groups != 1 else None, eps=None if real(eps) == "1e-05" else real(eps))

    def pool(self, name, x, kind, k, stride, pad):
        c, h, w = image(name, x)
        out = [(n + 2 * pad - k) // stride + 1 for n in (h, w)]
        return self.node(name, kind, [x], (c, *out), k=k, stride=stride, pad=pad or None)

    def plane(self, name, x):
        return self.node(name, "avgpool", [x], (x.shape[0], *[1] * (len(x.shape) - 1)))

    def arranged(self, name, x, sizes, order, shape):
        """x, which lies in the graph as axes of these sizes, with the axes in another order, viewed as shape."""
        if self.of_tokens(x):
            raise errors.config(f"{name}: mixes tokens, of which rows have unequal numbers")
        order = [a for a in order if sizes[a] != 1]
        now, moves, at = sorted(order), [], 0
        while now != order:
            if now[at] == order[at]:
                at += 1
                continue
            first = end = now.index(order[at])
            while end < len(now) and now[end] == order[at + end - first]:
                end += 1
            moves.append([math.prod(sizes[a] for a in axes) for axes in (now[:at], now[at:first], now[first:end])])
            now = [*now[:at], *now[first:end], *now[at:first], *now[end:]]
        if not moves and tuple(shape) == x.shape:
            return x
        view = {1: (None, None), 2: (shape[0], None), 3: (*shape[1:], None), 4: (math.prod(shape[1:3]), shape[-1])}[len(shape)]
        for i, (outer, n, m) in enumerate(moves or [(1, 1, 1)], 1):
            last = i >= len(moves)
            x = self.node(name if last else f"{name}.{i}", "permute", [x], shape if last else (math.prod(sizes),),
                          **{k: v if v != 1 else None for k, v in (("outer", outer), ("b", n), ("c", m))},
                          **dict(zip("hw", view)) if last else {})
        return x

    def turned_by(self, name, x, dims):
        """x, whose dimension i is that of dims[i] before, as of torch.permute. Neither has rows."""
        now, then = LIES[len(dims)], LIES[len(dims)]
        return self.arranged(name, x, [x.shape[d] for d in now], [now.index(dims[d]) for d in then], [x.shape[d] for d in dims])

    def reshaped(self, name, x, shape):
        """x viewed as shape, in PyTorch's order."""
        now, then = LIES[len(x.shape)], LIES[len(shape)]
        if now != sorted(now) and (x.shape[0] != 1 and math.prod(x.shape[1:]) != 1 or len(shape) < 3):
            flat = len(shape) == 3
            x = self.arranged(name + ".flat" * flat, x, [x.shape[d] for d in now], [now.index(d) for d in sorted(now)],
                              (math.prod(x.shape),) if flat else shape)
        return self.arranged(name, x, list(shape), then, shape)

    def flatten(self, name, x):
        """Flattens rows, in PyTorch's order."""
        if len(x.shape) == 1:
            return x
        if self.per_token:
            raise errors.config(f"{name}: flattens tokens, of which rows have unequal numbers")
        f = math.prod(x.shape)
        if len(x.shape) > 2 and f == x.shape[0]:
            return self.node(name, "flatten", [x], (f,))
        channels = x.shape[0] if len(x.shape) > 2 and x.shape[0] > 1 else None  # which the graph has last
        return self.node(name, "permute", [x], (f,), b=channels and f // channels, c=channels)

    def turned(self, name, x):
        """Transposes (S, F) to (F, S), and flattens images (C, H, W) to (C, H·W)."""
        def make():
            if self.per_token:
                raise errors.config(f"{name}: turns tokens, of which rows have unequal numbers")
            return self.node(name, "permute", [x], (f, s), b=s if s != 1 else None, c=f if f != 1 else None, h=f)
        f, s = (x.shape[0], math.prod(x.shape[1:])) if len(x.shape) == 3 else (x.shape[1], x.shape[0])
        return make() if len(x.shape) == 3 else x.of if isinstance(x, Turned) else Turned(x, (f, s), make)

    def as_image(self, name, x, shape):
        """Views a row, or (C, H·W), as (C, H, W), in PyTorch's order."""
        def make():
            if self.per_token:
                raise errors.config(f"{name}: makes an image of tokens, of which rows have unequal numbers")
            return self.node(name, "permute", [x], shape, b=c if c != 1 else None, c=h * w if h * w != 1 else None, h=h, w=w)
        c, h, w = shape
        return Parted(x, shape, make) if len(x.shape) == 2 and x.shape[0] == c else make()

    def signal(self, name, x):
        if len(x.shape) != 2 or self.per_token:
            raise errors.config(f"{name}: works on signals [C, L] of equal lengths, and gets {list(x.shape)}")
        return x.shape

    def line(self, name, x):
        """A signal (C, L) as an image of height 1."""
        c, n = self.signal(name, x)
        return self.node(name, "permute", [x], (c, 1, n), b=c if c != 1 else None, c=n if n != 1 else None, h=1, w=n)

    def of_tokens(self, x):
        """Whether x has a row's tokens, of which each row has its own number."""
        return self.per_token and len(x.shape) == 2

    def axis(self, x, dim):
        """The graph's axis for PyTorch's dim, where 0 is rows. The graph has channels last, and tokens in place of rows."""
        if len(x.shape) == 4:  # a volume's rows and columns; 0: its slices
            return {1: 3, 2: 0, 3: 1, 4: 2}[dim]
        return {1: 3, 2: 1, 3: 2}[dim] if len(x.shape) == 3 else dim - self.of_tokens(x)

    def resampled(self, name, x, dim, size, mode=0, first=0, before=0, step=1, window=1):
        """Changes the size of PyTorch's dimension dim, where 0 is rows."""
        if not 0 < dim <= len(x.shape):
            raise errors.config(f"{name}: dimension {dim} of {list(x.shape)} with its rows")
        if self.of_tokens(x) and dim == 1:
            raise errors.config(f"{name}: is of tokens, of which rows have unequal numbers")
        axis = self.axis(x, dim)
        shape = [*x.shape[:dim - 1], size, *x.shape[dim:]]
        return self.node(name, "resample", [x], shape, axis=axis if axis != 1 else None, size=size if size != 1 else None,
                         mode=mode or None, first=first or None, before=before or None, step=step if step != 1 else None,
                         window=window if window != 1 else None, slices=x.shape[1] if len(x.shape) == 4 and axis < 2 else None)

    def joined(self, name, x, y, dim):
        """x and y, of equal sizes but for PyTorch's dimension dim, one behind the other."""
        shape = [n + m if d == dim else n for d, (n, m) in enumerate(zip(x.shape, y.shape), 1)]
        if len(y.shape) == 4 and dim != 1:
            raise errors.config(f"{name}: joins volumes {list(x.shape)} and {list(y.shape)} along {dim}; the server joins their channels")
        axis, usual = self.axis(y, dim), min(len(shape), 3) - self.of_tokens(y)
        return self.node(name, "concat", [x, y], shape, axis=axis if axis != usual else None)

    def repeated(self, name, x, shape):
        """Repeats dimensions of size 1 to those of shape."""
        for dim, n in enumerate(shape, 1):
            if x.shape[dim - 1] != n:
                x = self.resampled(f"{name}.{dim}", x, dim, n, mode=EDGE)
        return x

    def look_up(self, name, param, first=None):
        """A row of a table for each token: by its id, or with first by its position plus first."""
        place = {} if first is None else {"position": 1, "first": first or None}
        s, (_, f) = self.input.shape[0], param.shape
        y = self.node(name, "embedding", [self.input], (s, f), [param], **place)
        return y if self.per_token else self.turned(name + ".order", self.node(name + ".rows", "transpose", [y], (f, s), tokens=s))

    def fit(self, name, what, a, b):
        """Two values, with dimensions of size 1 repeated to the other's size."""
        if a.shape == b.shape:
            return a, b
        shape = [m if n == 1 else n for n, m in zip(a.shape, b.shape)]
        fits = len(a.shape) == len(b.shape) and all(n in (1, s) for x in (a, b) for n, s in zip(x.shape, shape))
        if self.per_token or not fits:
            raise errors.config(f"{name}: {what} {list(a.shape)} and {list(b.shape)}; the server has equal shapes, and "
                                "dimensions of size 1, which it repeats")
        return self.repeated(name + ".first", a, shape), self.repeated(name + ".second", b, shape)

    def mean(self, name, x, dim):
        return self.resampled(name, x, dim, 1, mode=MEAN, window=x.shape[dim - 1])

    def own(self, a, x):
        """A module's own tensor as an operand beside x: equal for every row, or a number for each channel or feature."""
        if isinstance(a, Later) and isinstance(x, Value):
            return a.then(self.own(a.of, x))
        if not isinstance(a, (Own, Later)):
            return a
        if not isinstance(x, Value):
            raise errors.config(f"{(a.of if isinstance(a, Later) else a).path}: {OWN}")
        if len(a.shape) > len(x.shape) + 1:
            raise errors.config(f"{a.path}: it has {len(a.shape)} dimensions beside {len(x.shape) + 1} with rows")
        if a.tensor.numel() == 1 and not a.learns:
            return self.reads(a.tensor.item(), a)
        if isinstance(a, Transposed):
            raise errors.config(f"{a.path}: it is transposed; the server has that in a product of matrices alone")
        shape = a.shape[1:] if len(a.shape) == len(x.shape) + 1 and a.shape[0] == 1 else a.shape
        shape = (1,) * (len(x.shape) - len(shape)) + tuple(shape)
        each = {1: x.shape, 2: (1, x.shape[-1])}.get(len(x.shape), (x.shape[0], *[1] * (len(x.shape) - 1)))
        if a.tensor.numel() == 1 and not self.per_token:
            one = Param(a.path, a.path, a.tensor, "one", shape=(1,) * min(len(x.shape), 3))
            return self.repeated(a.path + ".each", self.node(a.path, "repeat", [x], (1,) * len(x.shape), [one]), each)
        if is_volume(x) and shape != each:
            raise errors.config(f"{a.path}: its shape is {list(a.shape)} beside a volume {list(x.shape)}; the server has one number, or one for each channel")
        if self.of_tokens(x) and self.whole == "tokens" and shape == x.shape:
            return self.look_up(a.path, a.param("one", shape), 0)
        if len(shape) > len(x.shape) or any(m not in (1, n) and n != 1 for m, n in zip(shape, x.shape)) or (self.per_token and shape != each):
            raise errors.config(f"{a.path}: its shape is {list(a.shape)} beside {list(x.shape)}; the server has shapes that fit"
                                f"{', and of tokens ' + str(list(each)) if self.per_token else ''}")
        if self.of_tokens(x):
            return self.node(a.path, "repeat", [x], x.shape, [a.param("one", shape[1:])])
        layout = "one" if len(x.shape) < 3 else "each" if shape == each else "image"
        return self.node(a.path, "repeat", [x], shape, [a.param(layout, shape)])

    def each_row(self, a):
        """A module's own tensor [1, S, F] or [1, F], repeated for every row."""
        if len(a.shape) > 3 or self.per_token:
            raise errors.config(f"{a.path}: {OWN}")
        return self.node(a.path, "repeat", [self.beside()], a.shape[1:], [a.param("one", a.shape[1:])])

    def beside(self):
        """A value that tells how many rows a repeated parameter has: in a network the last one, which crosses the same cuts."""
        return Value(self.values - 1, ()) if self.whole and self.nodes else self.input

    @_of_images
    def add(self, name, a, b, alpha=1):
        a, b = self.own(a, b), self.own(b, a)
        if alpha != 1:
            b = self.mul(name + ".by", b, alpha) if isinstance(b, Value) else alpha * b
        if not isinstance(a, Value) or not isinstance(b, Value):
            x, plus = (a, b) if isinstance(a, Value) else (b, a)
            return self.node(name, "scale", [x], x.shape, plus=real(plus)) if float(plus) else x
        a, b = self.fit(name, "adds", a, b)
        return self.node(name, "add", [a, b], a.shape)

    def sub(self, name, a, b, alpha=1):
        return self.add(name, a, b, -alpha)

    @_of_images
    def mul(self, name, a, b):
        a, b = self.own(a, b), self.own(b, a)
        if not isinstance(a, Value) or not isinstance(b, Value):
            x, by = (a, b) if isinstance(a, Value) else (b, a)
            return self.node(name, "scale", [x], x.shape, by=real(by)) if float(by) != 1 else x
        for x, y in ((a, b), (b, a)):
            y = y.of if isinstance(y, Repeated) and x.shape == y.shape else y
            if x.shape != y.shape and _gates(x, y):
                return self.node(name, "gate", [x, y], x.shape)
        a, b = self.fit(name, "multiplies", a, b)
        return self.node(name, "mul", [a, b], a.shape)

    def div(self, name, a, b, rounding_mode=None):
        if rounding_mode:
            raise errors.config(f"{name}: rounding_mode={rounding_mode!r} is not known on the server, None is")
        b = self.own(b, a)
        if not isinstance(b, Value):
            return self.mul(name, a, 1 / b)
        return self.mul(name, a, self.act(name + ".inverse", b, "math", fn=MATH["reciprocal"]))


def ones(name, n):
    """A weight of ones, for a norm that has none."""
    return Own(name + ".ones", torch.ones(n), False).param()


def _gates(a, b):
    return b.shape == ((a.shape[0], *[1] * (len(a.shape) - 1)) if len(a.shape) > 2 else (1, a.shape[-1]))


def _numbered(name, i):
    return f"{name}.{i}" if i else name


def is_volume(x):
    """Whether x is a value (C, D, H, W) of the graph, and no view of one with fewer dimensions."""
    return type(x) is Value and len(x.shape) == 4


def _dims(shape):
    order = (shape[1], shape[2], shape[0]) if len(shape) == 3 else (shape[1] * shape[2], shape[3], shape[0]) if len(shape) == 4 else shape
    return "[" + ",".join(map(str, order)) + "]"


def _check_name(name):
    if not re.fullmatch("[!-~]{1,95}", name):
        raise errors.config(f"{name!r}: on the server a name has up to 95 characters of ASCII and no spaces: call the module otherwise")


def image(name, x):
    if len(x.shape) != 3:
        raise errors.config(f"{name}: works on images [C, H, W], and gets {list(x.shape)}")
    return x.shape


def params(prefix, module, *names):
    return [Param(prefix + n, prefix + n, getattr(module, n)) for n in names or ("weight", "bias")
            if getattr(module, n, None) is not None]
