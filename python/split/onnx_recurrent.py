"""nn.LSTM, nn.GRU and nn.RNN of an ONNX file, unrolled as recurrent.py unrolls them. They begin from zeros. Cells that a module calls in a
loop are nodes like others."""

from . import recurrent
from .onnx_file import MOST_NODES
from .onnx_known import Known
from .onnx_reader import Weight
from .onnx_views import Atom, Held

# Rows of a parameter's gates, in the order in which the file joins them: torch has the gates i, f, g, o of LSTM and r, z, n of GRU, and
# ONNX i, o, f, g and z, r, n.
_ORDER = {"LSTM": [(0, 1), (3, 4), (1, 3)], "GRU": [(1, 2), (0, 1), (2, 3)], "RNN": []}
_NODES, _GATES = {"LSTM": 17, "GRU": 20, "RNN": 5}, {"LSTM": 4, "GRU": 3, "RNN": 1}
_KINDS = "Concat", "Slice", "Unsqueeze", "Expand"


def skip(r):
    """The nodes behind weights and states of recurrent layers are read with the layer."""
    for i in list(r.live):
        n = r.graph.node[i]
        todo = list(n.input[1:]) if n.op_type in _NODES else []
        while todo:
            at = r.maker.get(todo.pop())
            if at in r.live and r.graph.node[at].op_type in _KINDS:
                r.live.discard(at)
                todo += r.graph.node[at].input if r.graph.node[at].op_type == "Concat" else r.graph.node[at].input[:1]


class _Layer:
    def __init__(self, r, kind):
        self.r, self.kind = r, kind
        direction = r.attr("direction", "forward", str)
        self.directions = {"forward": 1, "bidirectional": 2}.get(direction, 0)
        acts = r.attr("activations", [b"Tanh"] * self.directions, list)
        self.relu = acts == [b"Relu"] * self.directions
        self.hidden = r.attr("hidden_size", 0)
        if not self.directions or r.has(4) or (kind == "GRU" and r.attr("linear_before_reset", 0) != 1) or not 1 <= self.hidden <= 1 << 20 or (
                kind != "RNN" and "activations" in r.attrs) or acts not in ([b"Relu"] * self.directions, [b"Tanh"] * self.directions):
            r.refuse("it is none of torch's nn.LSTM, nn.GRU and nn.RNN over whole rows")
        r.refuse_if(not all(self._zeros(i) for i in (5, 6)), "it begins from a state of its own, where zeros are read")

    def _zeros(self, i):
        if not self.r.has(i):
            return True
        name = self.r.node.input[i]
        for kind in ("Expand", "Slice"):
            name = (self._made(name, kind) or [name])[0]
        v = self.r.values.get(name)
        return isinstance(v, Known) and v.array is not None and not v.array.any() and v.array.ndim == 3

    def _made(self, name, kind):
        """The inputs of the node that makes a value, if it is of that kind; else None."""
        at = self.r.maker.get(name)
        return list(self.r.graph.node[at].input) if at is not None and self.r.graph.node[at].op_type == kind else None

    def _wrong(self):
        self.r.refuse("its weights are not as torch writes them; export with do_constant_folding=False")

    def _reordered(self, name):
        """The parameter whose gates a value has in ONNX's order."""
        order = _ORDER[self.kind]
        parts = self._made(name, "Concat") if order else None
        if order and len(parts or ()) != len(order):
            self._wrong()
        found = {name} if not order else set()
        for part, rows in zip(parts or (), order):
            cut = self._made(part, "Slice")
            given = [v.array.tolist() if isinstance(v, Known) and v.array is not None else None for v in map(self.r.values.get, cut[1:4])] if cut else ()
            if given != [[rows[0] * self.hidden], [rows[1] * self.hidden], [0]] and given != ():
                self._wrong()
            found.add(cut[0] if cut else None)
        w = self.r.values.get(found.pop()) if len(found) == 1 else None
        return w if isinstance(w, Weight) else self._wrong()

    def _of(self, i, d):
        """Input i for a direction, without the axis of directions."""
        name = self.r.node.input[i]
        if self.directions > 1:
            name = (self._made(name, "Concat") or [None] * 2)[d]
        return (self._made(name, "Unsqueeze") or self._wrong())[0]

    def params(self, d, features):
        """Weights of the input and of the state, each with its bias or None."""
        rows, found = _GATES[self.kind] * self.hidden, []
        both = self._made(self._of(3, d), "Concat") if self.r.has(3) else (None, None)
        for i, n in ((1, features), (2, self.hidden)):
            w = self._reordered(self._of(i, d))
            bias = both and self.r.has(3) and self._reordered(both[i - 1])
            if w.array.shape != (rows, n) or (bias and bias.array.shape != (rows,)) or not both:
                self._wrong()
            found.append((self.r.param(w), self.r.param(bias) if bias else None))
        return found


def read(r):
    """All states h, the last h, the last c: [steps, directions, batch, hidden], and without steps."""
    kind, v = r.node.op_type, r.data(0)
    layer = _Layer(r, kind)
    if r.b.of_tokens(v.of):
        r.mixed()
    if len(v.axes) != 3 or v.axes[1] != [r.batch]:
        r.refuse(f"its input is {list(v.shape)}, not [steps, batch, features]; export an example of 2 samples, if it has 1")
    steps, _, features = v.shape
    if steps * layer.directions * _NODES[kind] > MOST_NODES:
        r.refuse(f"its {steps} steps would be more than {MOST_NODES} nodes: make rows shorter, such as by a convolution with a stride in front")
    x, found, last = r.arrange(v, r.atoms(v, (0, 2)), (steps, features)), [], []
    for d in range(layer.directions):
        cell = recurrent._Cell.__new__(recurrent._Cell)
        held = layer.params(d, features)
        r.named_by(held[0][0].name)
        vars(cell).update(b=r.b, name=r.name, kind=kind, n=layer.hidden, gates=_GATES[kind], curve="act" if layer.relu else "tanh",
                          input=held[0], state=held[1])
        h, state = cell.run(x, [None] * (2 if kind == "LSTM" else 1), d)
        found.append(h)
        last.append(state)
    outs = [[h for of in zip(*found) for h in of], *([state[i] for state in last] for i in range(len(last[0])))]
    for i, (parts, sizes) in enumerate(zip(outs, ([steps, layer.directions], [layer.directions], [layer.directions]))):
        if i < len(r.node.output) and r.node.output[i] in r.needed:
            atoms = [Atom(n) for n in (*sizes, layer.hidden)]
            axes = [[a] if a.size != 1 else [] for a in atoms]
            y = recurrent._joined(r.b, r.name, parts)
            r.values[r.node.output[i]] = Held(y, [a for a in atoms if a.size != 1], [*axes[:-1], [r.batch], axes[-1]])
