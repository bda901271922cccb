"""Recurrent layers and cells, unrolled: a step becomes nodes of its own, and all steps share the parameters."""
import torch
from torch import nn

from . import aliases, errors
from .builder import ROWS, Lazy, Param, Value, must, params


class Steps(Value):
    """[steps, rows, features], as a recurrent layer takes it without batch_first, or its states. of: [rows, steps, features].
    parts: of each step, or None."""

    def __init__(self, of, parts=None):
        self.of, self.shape, self.parts = of, of.shape, parts

    @property
    def number(self):
        raise errors.config("its rows stand behind another dimension, which recurrent layers alone have: transpose them to the front")


class Zeros(Lazy):
    """Zeros of a row, such as the first state of a cell. sizes: with ROWS among them."""

    def __init__(self, b, name, sizes):
        def make():
            if sizes[0] is not ROWS:
                raise errors.config(f"{name}: the number of rows is behind the first size; the server has that of first states alone")
            zeros = Param(name + ".zeros", "", torch.zeros(sizes[1:]), "one", shape=sizes[1:], constant=torch.zeros(sizes[1:]))
            return b.node(name, "repeat", [b.beside()], sizes[1:], [zeros])
        super().__init__(None, [n for n in sizes if n is not ROWS], make)


class _Cell:
    """A cell, or one direction of a layer. suffix: of its parameters' names. kind: LSTM, GRU, RNN."""

    def __init__(self, b, name, m, prefix, kind, suffix=""):
        self.b, self.name, self.kind, self.n = b, name, kind, m.hidden_size
        self.gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
        self.curve = "act" if kind == "RNN" and m.nonlinearity == "relu" else "tanh"
        self.input, self.state = ((*params(prefix, m, f"weight_{of}{suffix}", f"bias_{of}{suffix}"), None)[:2] for of in ("ih", "hh"))

    def part(self, v, i, n=None):
        n = n or self.n
        return v if v.shape == (n,) else self.b.resampled(self.name, v, 1, n, first=i * n)

    def plus(self, x, y):
        return x if y is None else self.b.add(self.name, x, y)

    def gate(self, x, h, i):
        return self.b.act(self.name, self.plus(self.part(x, i), h and self.part(h, i)), "sigmoid")

    def of_state(self, h, x):
        """The state's share of the gates; None: it has none."""
        weight, bias = self.state
        if h is None:
            return bias and self.b.node(self.name, "repeat", [x], bias.shape, [bias])
        return self.b.linear(self.name, h, weight, bias)

    def step(self, x, state):
        """x: the input's share of the gates. state: h, or h and c, each None for zeros."""
        b, name, h = self.b, self.name, state[0]
        share = self.of_state(h, x)
        if self.kind == "RNN":
            return [b.act(name, self.plus(x, share), self.curve)]
        if self.kind == "LSTM":  # c = σ(f)·c + σ(i)·tanh(g), h = σ(o)·tanh(c)
            x, c = self.plus(x, share), state[1]
            fresh = b.mul(name, self.gate(x, None, 0), b.act(name, self.part(x, 2), "tanh"))
            c = self.plus(fresh, None if c is None else b.mul(name, self.gate(x, None, 1), c))
            return [b.mul(name, self.gate(x, None, 3), b.act(name, c, "tanh")), c]
        fresh = self.part(x, 2)  # n = tanh(x_n + σ(r)·h_n), h = n + σ(z)·(h − n)
        if share is not None:
            fresh = b.add(name, fresh, b.mul(name, self.gate(x, share, 0), self.part(share, 2)))
        fresh = b.act(name, fresh, "tanh")
        less = self.plus(b.mul(name, fresh, -1), h)
        return [b.add(name, fresh, b.mul(name, self.gate(x, share, 1), less))]

    def run(self, x, state, backwards):
        """The states h of all steps of x (S, F), and the state after the last one."""
        steps, rows = x.shape[0], self.gates * self.n
        shares, found = self.b.flatten(self.name, self.b.linear(self.name, x, *self.input)), [None] * steps
        for t in range(steps)[::-1 if backwards else 1]:
            state = self.step(self.part(shares, t, rows), state)
            found[t] = state[0]
        return found, state


def _joined(b, name, parts):
    """Values of rows side by side, joined two and two."""
    while len(parts) > 1:
        parts = [b.node(name, "concat", pair, (sum(v.shape[0] for v in pair),)) if len(pair) > 1 else pair[0]
                 for pair in (parts[i:i + 2] for i in range(0, len(parts), 2))]
    return parts[0]


def _first(name, given, n, kinds):
    """The first states of n cells: of each h, or h and c."""
    given = [given] if kinds == 1 else given or [None] * kinds
    each = [v.parts or () if isinstance(v, Steps) else [v] * n if v is None or isinstance(v, Zeros) else [v] for v in given]
    if len(each) != kinds or any(len(v) != n or not all(h is None or isinstance(h, Value) for h in v) for v in each):
        raise errors.config(f"{name}: its first state is known on the server as zeros, or as the states of such a layer")
    aliases.check(name, [h for v in each for h in v])
    return [[None if isinstance(v[i], Zeros) else v[i] for v in each] for i in range(n)]


def _layer(kind):
    def build(b, name, m, prefix, x, state=None):
        must(name, m, proj_size=0)
        directions = 1 + m.bidirectional
        if m.batch_first == isinstance(x, Steps) or len(x.shape) != 2 or b.per_token:
            raise errors.config(f"{name}: takes rows of steps of one length, [rows, steps, features] with batch_first=True or, transposed, "
                                "[steps, rows, features] without")
        y, first, last = x.of if isinstance(x, Steps) else x, _first(name, state, m.num_layers * directions, 1 + (kind == "LSTM")), []
        for layer in range(m.num_layers):
            found = []
            for d in range(directions):
                cell = _Cell(b, name, m, prefix, kind, f"_l{layer}" + "_reverse" * d)
                h, state = cell.run(y, first[len(last)], d)
                found.append(h)
                last.append(state)
            y = _all(b, name, found)
            y = b.dropout(name, y, m.dropout) if layer + 1 < m.num_layers else y
        states = tuple(Steps(_all(b, name, [of]), of) for of in map(list, zip(*last)))
        return Steps(y) if isinstance(x, Steps) else y, states if kind == "LSTM" else states[0]
    return build


def _all(b, name, found):
    """The states of all steps, in each direction, as (steps, directions · features). Often nothing reads them."""
    steps, width = len(found[0]), sum(h[0].shape[0] for h in found)

    def make():
        return b.node(name, "permute", [_joined(b, name, [h for of in zip(*found) for h in of])], (steps, width), h=steps)
    return Lazy(None, (steps, width), make)


def _cell(kind):
    def build(b, name, m, prefix, x, state=None):
        cell, (first,) = _Cell(b, name, m, prefix, kind), _first(name, state, 1, 1 + (kind == "LSTM"))
        found = cell.step(b.linear(name, x, *cell.input), first)
        return tuple(found) if kind == "LSTM" else found[0]
    return build


MODULES = {nn.LSTM: _layer("LSTM"), nn.GRU: _layer("GRU"), nn.RNN: _layer("RNN"),
           nn.LSTMCell: _cell("LSTM"), nn.GRUCell: _cell("GRU"), nn.RNNCell: _cell("RNN")}
