"""Reads the nodes of an ONNX file into a graph. A value of the file is Held (the graph computes it), Known (constant), a Weight (an
initializer that learns) or Scores (of attention)."""
import math

import numpy as np
import onnx

from . import errors
from .builder import Builder, Own, Param, Value
from .onnx_file import MOST_NODES, array, as_torch
from .onnx_known import EVAL, Known, axes_of, evaluate, resized, slices, squeezed, unsqueezed
from .onnx_views import Atom, Held, Views

_MOST_KNOWN = 1 << 27  # bytes of all that is evaluated
_PART = ":part"  # splitc puts it into the names of further nodes of a layer


class Weight:
    """shape: as the file's nodes have it, which may add or drop dimensions of size 1, and take the first rows alone. turned: it is a
    matrix, transposed. to: the shape to which an Expand repeats it."""

    def __init__(self, name, array, shape=None, turned=False, to=None):
        self.name, self.array, self.turned = name, array, turned
        self.shape = tuple(array.shape if shape is None else shape)
        self.to = self.shape if to is None else tuple(to)

    def but(self, shape, to=None):
        return Weight(self.name, self.array, shape, self.turned, to)


class Unread:
    """What a refused node would have made."""


class _Builder(Builder):
    def param(self, p):
        had = self.params[self.named[p.name]] if p.name in self.named else p
        lies = [q.layout if q.layout not in ("one", "each") else "same" for q in (had, p)]  # in the same order
        if lies[0] != lies[1] or (had.shape, had.constant is None) != (p.shape, p.constant is None):
            raise errors.config(f"{p.name}: layers that use it in different ways cannot share it")
        return super().param(p)

    def node(self, name, kind, inputs, shape, params=(), **attrs):
        if len(self.nodes) >= MOST_NODES:
            raise errors.config(f"{name}: the network has more than {MOST_NODES} nodes")
        if not all(n > 0 for n in shape) or math.prod(shape) >= 1 << 31:
            raise errors.config(f"{name}: it makes {list(shape)} numbers of each sample")
        return super().node(name, kind, inputs, shape, params, **attrs)


def scope(name):
    """The module of a node and the name's last word: of "/layer1/layer1.0/relu_1/Relu" they are "layer1.0.relu_1" and "Relu". None:
    the name has another form."""
    if not name.startswith("/"):
        return None
    path, before = "", ""
    *parts, last = name[1:].split("/")
    for part in parts:
        longer = before and part.startswith(before + ".")  # a module in a Sequential repeats the name of that: /layer1/layer1.0
        path += part[len(before):] if longer else "." * bool(path) + part
        before = part
    return path, last


class Reader(Views):
    def __init__(self, file, form, shape, batch, pad=None, whole=False):
        """whole: rows of token ids all have the most tokens, because the network mixes them. pad: the token that rows are padded with."""
        self.file, self.graph, self.batch, self.pad = file, file.graph, Atom(batch), pad
        self.ids = form == "tokens"
        self.tokens = shape[0] if self.ids else None
        self.b = _Builder(batch, [(math.prod(shape),) if form == "row" else shape], self.ids and not whole, whole=form)
        self.masked, self.world, self.stats, self.notes = False, -1, set(), []
        self.values, self.done, self.refused, self.joins, self.budget, self.made = {}, set(), {}, {}, _MOST_KNOWN, 0
        self.newer = bool(self.graph.node) and self.graph.node[0].name.startswith("node_")
        self._list(form, shape)
        self._find_live()

    def _list(self, form, shape):
        v, g = self.file.input.name, self.graph
        if self.ids:
            atom = Atom(self.tokens)
            self.values[v] = Held(self.b.input, [atom], [[self.batch], [atom]])
        elif form == "row":
            self.values[v] = self.reshaped(self.usual(self.b.input), (self.batch.size, *shape))
        else:
            self.values[v] = self.usual(self.b.input)
        self.input = self.values[v]
        if self.file.mask is not None:
            self.masked = True
            real = np.ones((self.batch.size, self.tokens), np.int64)
            self.values[self.file.mask.name] = Known([0 * real, real])
        names = set(self.values)
        for name, a in self.file.arrays.items():
            self.values[name] = Weight(name, a) if self._learns(name, a) else Known([a])
        for name in (*self.file.arrays, *(o for n in g.node for o in n.output if o)):
            if name in names:
                raise errors.data(f"two values are called {name!r}")
            names.add(name)
        folded = next((n for n, a in self.file.arrays.items() if n.startswith("onnx::") and a.ndim and a.dtype.kind == "f"), None)
        if folded:
            raise errors.config(f"its tensor {folded!r} is no module's: the file is of a network in evaluation, or with folded constants, "
                                "which would train another network; export with training=TrainingMode.TRAINING, do_constant_folding=False")

    def _learns(self, name, a):
        newer = self.newer and name.startswith("val_") and name[4:].isdigit()  # among whose initializers are constants
        return a.dtype.kind == "f" and not name.startswith("onnx::") and not newer

    def _find_live(self):
        """readers: of each value the nodes that read it; those of the output are never joined. makers: of each value."""
        g = self.graph
        self.needed, self.readers, self.live = {self.file.output}, {self.file.output: [None, None, None]}, set()
        self.maker = {o: i for i, n in enumerate(g.node) for o in n.output if o}
        for i in range(len(g.node) - 1, -1, -1):
            if self.needed.intersection(o for o in g.node[i].output if o):
                self.live.add(i)
                for name in filter(None, g.node[i].input):
                    self.needed.add(name)
                    self.readers.setdefault(name, []).insert(0, i)

    # ---- the node that is being read

    def refuse(self, why):
        raise errors.config(why)

    def refuse_if(self, wrong, why):
        if wrong:
            raise errors.config(why)

    def begin(self, index):
        self.index = self.end = index
        self.node = self.graph.node[index]
        self.name = "".join(c if "!" <= c <= "~" else "_" for c in self._name())[:95] or "node"
        self.attrs = None

    def _name(self):
        """By its first parameter, without the last word; else by its module in PyTorch; else by its own name. A module's name gets the
        node's last word if the module has other nodes."""
        n = self.node
        for name in n.input[1:]:
            if name in self.file.arrays and name.rpartition(".")[0]:
                return name.rpartition(".")[0]
        found, name = scope(n.name), n.name.partition(_PART)[0]
        if found:
            path, last = found
            own = n.name[:len(n.name) - len(last)]
            shared = any(m is not n and m.op_type != "Constant" and m.name.startswith(own) for m in self.graph.node)
            return (path + "." * bool(path) + last) if shared or not path else path
        return name if 0 < len(name) <= 95 else f"{n.op_type[:60]}_{self.index}"

    def named_by(self, param):
        self.name = "".join(c if "!" <= c <= "~" else "_" for c in param.rpartition(".")[0])[:95] or self.name

    def attributes(self, node, known=None):
        """The values of a node's attributes. known: the names that are read; None: all."""
        found = {}
        for a in node.attribute:
            if a.name in found or not a.name:
                self.refuse(f"its attribute {a.name[:60]} is there twice, or has no name")
            if known is not None and a.name not in known:
                self.refuse(f"its attribute {a.name[:60]} is not read")
            try:
                value = onnx.helper.get_attribute_value(a)
            except ValueError as e:
                self.refuse(f"its attribute {a.name[:60]}: {e}")
            if isinstance(value, onnx.TensorProto):
                value = array(value, self.name, self.file.folder)
            found[a.name] = value.decode("ascii", "replace") if isinstance(value, bytes) else value
        return found

    def attr(self, name, usual, kind=int):
        found = self.attrs.get(name, usual)
        if found is not usual and not isinstance(found, kind):
            self.refuse(f"its attribute {name} is not of the right type")
        return found

    def ints(self, name, usual, n, least):
        found = list(self.attr(name, usual, list) or usual)
        if len(found) != n or any(not isinstance(k, int) or not least <= k <= 1 << 20 for k in found):
            self.refuse(f"{name}: {found[:8]}, where {n} numbers of {least} … {1 << 20} are right")
        return found

    def must(self, **usual):
        for name, (is_left_out, right) in usual.items():
            if self.attr(name, is_left_out, (int, float, str)) != right:
                self.refuse(f"{name} is {self.attrs.get(name, is_left_out)}, where {right} is read")

    # ---- inputs

    def has(self, i):
        return i < len(self.node.input) and bool(self.node.input[i])

    def value(self, i):
        """Input i; None: it is left out."""
        if not self.has(i):
            return None
        name = self.node.input[i]
        if name in self.values:
            return self.values[name]
        return self.refuse(f"it reads {name!r}, which nothing makes" if name not in self.maker else
                           f"it reads {name!r}, which this node or a later one makes" if self.maker[name] >= self.index else
                           f"it reads {name!r}, which is an output that is not read")

    def known(self, i):
        """Input i as an array; None: it is none, or depends on a mask."""
        v = self.value(i)
        return v.array if isinstance(v, Known) else None

    def number(self, i):
        """Input i as one constant number; None: it is something else."""
        a = self.known(i)
        return float(a.item()) if a is not None and a.size == 1 and a.dtype.kind in "fiub" else None

    def integers(self, i, what):
        a = self.known(i)
        if a is None or a.dtype.kind not in "iu" or a.size > 1 << 10:
            self.refuse(f"{what} is no constant")
        return [int(n) for n in a.flatten()]

    def is_ids(self, v):
        return self.ids and isinstance(v, Held) and v.of is self.b.input

    def data(self, i, ids=False):
        """Input i, which the graph computes; or with ids the token ids."""
        v = self.value(i)
        if isinstance(v, Weight) and v.to != v.shape or isinstance(v, Weight) and v.shape[:1] == (1,) and len(v.shape) in (2, 3) \
                and self.node.op_type == "Concat":
            return self.every_row(v)
        if isinstance(v, Weight):
            self.refuse(f"its input {i} is {v.name!r}, a parameter or a buffer of the network, where a computed value is read: of "
                        "nn.utils.weight_norm call remove_weight_norm before the export")
        if not isinstance(v, Held):
            self.refuse(f"its input {i} is {'not there' if v is None else 'constant' if isinstance(v, Known) else 'of attention'}, where a "
                        "computed value is read")
        if v.summed:
            self.refuse(f"its input {i} is a sum of tokens, which is read divided by their number; take x.mean(1)")
        if v.border:
            self.refuse(f"its input {i} has a border of zeros, which convolutions and means alone read")
        if self.is_ids(v) and not ids:
            self.refuse(f"its input {i} is token ids, which embeddings and masks of padding read")
        return v

    def weight(self, i, n_dims, count=None):
        """Input i, a parameter of so many dimensions, or of `count` numbers."""
        v = self.value(i)
        if not isinstance(v, Weight):
            self.refuse(f"its input {i} is {'a constant' if isinstance(v, Known) else 'computed'}, where a parameter is read: give the layer "
                        "parameters (affine=True), or, if constants were folded, export with do_constant_folding=False")
        if v.turned or math.prod(v.shape) != v.array.size or v.to != v.shape:
            self.refuse(f"its parameter {v.name!r} is transposed, or a part of one, which is not read: give each part a layer of its own")
        if v.array.ndim != n_dims or 0 in v.array.shape or (count is not None and v.array.size != count):
            self.refuse(f"its parameter {v.name!r} is {list(v.array.shape)}, where {count or 'other'} numbers in {n_dims} dimensions are right")
        return v

    def param(self, w, layout="same", shape=None):
        """A parameter of the node that is made next, of a file of the newer exporter named by it."""
        if self.newer and self.node.name.startswith("node_"):
            self.named_by(w.name)
        if layout == "stat" and w.name not in self.b.named:
            self.stats.add(w.name)
        elif (layout == "stat") != (w.name in self.stats):
            self.refuse(f"{w.name}: layers that use it in different ways cannot share it")
        return Param(w.name, w.name, as_torch(w.array), "same" if layout == "stat" else layout, shape=shape)

    def own(self, v):
        """A Weight, or constants, as builder.py's arithmetic takes it."""
        if isinstance(v, Weight):
            if v.turned or math.prod(v.shape) != v.array.size:
                self.refuse(f"its parameter {v.name!r} is transposed or a part, which is read of a linear layer's alone")
            return Own(v.name, as_torch(v.array), True, v.shape)
        self.made += 1
        return Own(f"{self.name}.constant{self.made}", as_torch(v.array.astype(np.float32)), False)

    def every_row(self, w):
        """A parameter as a value of every row."""
        shape = w.shape if len(w.to) == len(w.shape) else (1,) * (len(w.to) - len(w.shape)) + w.shape
        if len(shape) not in (2, 3) or shape[0] != 1 or self.b.per_token:
            self.refuse(f"it repeats the parameter {w.name!r}, {list(w.shape)}, within a sample, which is not read")
        part = self.param(w) if w.array.shape == shape[1:] else self.own(w.but(shape)).param("one", shape[1:])
        if (w.name, shape) not in self.joins:  # a cell's gates read parts of the same
            self.joins[w.name, shape] = self.b.node(w.name.rpartition(".")[0] or w.name, "repeat", [self.b.beside()], shape[1:], [part])
        x = self.usual(self.joins[w.name, shape])
        return x if w.to == w.shape or w.to[1:] == shape[1:] else self.repeated(x, w.to)

    # ---- outputs

    def give(self, value, i=0):
        """Output i. value: what it is; or a value of the graph, which the file has as usual."""
        value = self.usual(value) if isinstance(value, Value) else value
        if isinstance(value, Known):
            self.budget -= sum(w.nbytes for w in value.worlds)
            self.refuse_if(self.budget < 0, "what the file computes in advance takes too much memory")
        self.values[self.graph.node[self.end].output[i]] = value

    def next(self, index, kind):
        """The one node that reads output 0 of a node, if it is of that kind; else None."""
        readers = self.readers.get(self.graph.node[index].output[0], ()) if index is not None else ()
        fits = len(readers) == 1 and readers[0] not in self.done and self.graph.node[readers[0]].op_type == kind
        return readers[0] if fits else None

    def other(self, index, name):
        """The other input's name of a node with two, one of which is name."""
        ins = self.graph.node[index].input if index is not None else ()
        return None if len(ins) != 2 or name not in ins else ins[1] if ins[0] == name else ins[0]

    def join(self, index):
        """Joins the nodes up to `index` to this one, which then makes its output."""
        todo = [index]
        while todo:
            i = todo.pop()
            self.done.add(i)
            for name in self.graph.node[i].input:
                at = self.maker.get(name)
                if at is not None and name not in self.values and at not in self.done and at != self.index and (
                        len(self.readers[name]) == 1 or self.graph.node[at].op_type != "Shape"):
                    todo.append(at)
        self.end = index
        found = scope(self.node.name)
        if found and found[0]:
            self.name = "".join(c if "!" <= c <= "~" else "_" for c in found[0])[:95]

    # ---- all nodes

    def fold(self):
        """Reads this node if it is of constants and parameters alone. False: it is another one."""
        n = self.node
        if n.op_type not in EVAL:
            return False
        given = [self.value(i) for i in range(len(n.input))]
        if all(v is None or isinstance(v, Known) for v in given):
            a = self.attributes(n)
            found = evaluate(n.op_type, a, given)
            found.counts = found.counts or self._counts(n.op_type, a, given)
            self.give(found)
            return True
        if given and isinstance(given[0], Weight) and all(isinstance(v, Known) for v in given[1:]):
            found = self._viewed(n.op_type, self.attributes(n), given[0], [v.array for v in given[1:]])
            if found is not None:
                self.give(found)
            return found is not None
        return False

    def _counts(self, kind, a, given):
        """Whether the node sums a mask of padding over a row's tokens."""
        if kind != "ReduceSum" or len(given[0].worlds) < 2 or given[0].counts:
            return False
        over = axes_of(a, given[1].array if len(given) > 1 else None, len(given[0].shape))
        return [given[0].shape[i] for i in over] == [self.tokens]

    def _viewed(self, kind, a, w, given):
        """A Weight with other dimensions; None: the node does not make that."""
        if kind == "Identity" or kind == "Cast" and a.get("to") in (1, 10, 11, 16):
            return w
        if kind == "Shape":
            return Known([np.array(w.to[a.get("start", 0):a.get("end")], np.int64)])
        if kind not in ("Reshape", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Slice") or any(g is None for g in given) or w.to != w.shape:
            return None
        if kind == "Slice":
            at = slices(len(w.shape), *given)
            if w.turned or any(s.start not in (None, 0) or s.step not in (None, 1) for s in at):
                return None
            return w.but([len(range(*s.indices(n))) for s, n in zip(at, w.shape)])
        if kind == "Expand":
            to = np.broadcast_shapes(w.shape, tuple(int(n) for n in given[0]))
            return w.but(w.shape, to)
        if kind == "Transpose":
            perm = list(a.get("perm") or range(len(w.shape))[::-1])
            if perm == sorted(perm):
                return w
            if len(w.shape) != 2 or w.shape != (w.array.shape[::-1] if w.turned else w.array.shape):
                self.refuse(f"it turns the parameter {w.name!r} of {list(w.shape)}, of which matrices are read")
            return Weight(w.name, w.array, w.shape[::-1], not w.turned)
        shape = resized(w.shape, given[0]) if kind == "Reshape" else unsqueezed(w.shape, given[0], lambda: 1) if kind == "Unsqueeze" else \
            squeezed(w.shape, w.shape, *(given or [None]))
        if w.turned or [n for n in shape if n != 1] != [n for n in w.shape if n != 1]:
            self.refuse(f"it gives the parameter {w.name!r} of {list(w.shape)} the dimensions {shape}, where sizes of 1 alone may come and go")
        return w.but(shape)

    def _note(self, e):
        """Keeps one refusal of each module."""
        found = scope(self.node.name)
        module = found[0] if found and found[0] else self.name
        name = (self.node.name or self.name)[:96]
        self.refused.setdefault(module, f"node {name!r} ({self.node.op_type[:40]}): {e}")
        for o in (*self.node.output, *self.graph.node[self.end].output):
            self.values.setdefault(o, Unread())

    def read(self, kinds):
        """Reads all nodes on which the output depends. Returns the output."""
        nodes = self.graph.node
        for early in (True, False):
            for i in range(len(nodes)):
                if i not in self.live or i in self.done:
                    continue
                if early and not all(not name or name in self.values for name in nodes[i].input):
                    continue
                self.begin(i)
                try:
                    unread = any(isinstance(self.values.get(name), Unread) for name in nodes[i].input)
                    if not unread and self.fold():
                        self.done.add(i)
                    elif not early:
                        kinds(self, unread)
                except errors.ConfigError as e:
                    if early:  # it is said in the file's order
                        continue
                    if str(e):
                        self._note(e)
                    for o in (*nodes[i].output, *nodes[self.end].output):
                        self.values.setdefault(o, Unread())
        if self.refused:
            said = list(self.refused.values())
            raise errors.config(said[0] if len(said) == 1 else f"{len(said)} modules are not read. " + "; ".join(said[:16]) + "; …" * (len(said) > 16))
        return self.values.get(self.file.output)
