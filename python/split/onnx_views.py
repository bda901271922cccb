"""Where the axes of a file's values lie in the graph.

A row of a value is an array of atoms, which lie one inside the other. Each axis of the file's value is a list of atoms; BATCH is the atom of
the samples. So a Transpose reorders axes alone, and a Reshape splits or regroups atoms: neither moves data. What needs a certain order of
atoms asks for it (Views.arrange)."""
import math

from . import made
from .builder import LIES, Value


class Atom:
    def __init__(self, size):
        self.size = size


class Held:
    """A computed value. of: in the graph. mem: its atoms as they lie, without the batch. axes: of the file's value."""

    summed = False  # it is the mean of a row's tokens, which stands for their sum until the file divides it
    border = 0  # of zeros, which the file adds and the next node reads as its padding

    def __init__(self, of, mem, axes, weights=False):
        """weights: they come from a softmax."""
        self.of, self.mem, self.axes, self.weights = of, list(mem), [list(a) for a in axes], weights

    @property
    def shape(self):
        return tuple(math.prod(a.size for a in axis) for axis in self.axes)

    def like(self, of):
        return Held(of, self.mem, self.axes)

    def seen(self, axes):
        """The same numbers, with these axes."""
        return Held(self.of, self.mem, axes, self.weights)


class Views:
    """What a reader of nodes does with views. It has b, name, batch (an Atom) and refuse()."""

    def usual(self, value, axes=None):
        """A value of the graph as the file has it. axes: which of its dimensions are those of the file; else all."""
        sizes = [Atom(n) for n in value.shape]
        mem = [sizes[d] for d in LIES[len(sizes)] if sizes[d].size != 1]
        return Held(value, mem, [[self.batch], *([s] if s.size != 1 else [] for i, s in enumerate(sizes) if axes is None or i in axes)])

    def batch_axis(self, v):
        """None: no axis has the batch, as of positions."""
        return next((i for i, axis in enumerate(v.axes) if self.batch in axis), None)

    def tokens_axis(self, v):
        """The axis of a row's tokens, of which each row has its own number; None: there is none."""
        return next((i for i, axis in enumerate(v.axes) if axis == [v.mem[0]]), -1) if self.b.of_tokens(v.of) else None

    def mixed(self):
        self.refuse("it mixes the tokens of a row, which attention and a mean alone may do in a network with a mask of padding")

    def arrange(self, v, order, shape):
        """Brings v into that order of atoms, as a value of this shape (builder.py); v stands for the result from now on."""
        order, mem = list(order), v.mem
        if len(order) != len(mem) or any(a not in mem for a in order):
            self.refuse("its input's axes cannot be put in the order that it takes; export an example of 2 samples, if it has 1")
        tokens = self.b.of_tokens(v.of)
        if self.b.per_token and not tokens and len(shape) == 2:
            self.refuse(f"it gives a row {list(shape)} numbers, where values of tokens alone have two dimensions")
        if tokens and (order[0] is not mem[0] or len(shape) != 2 or shape[0] != mem[0].size):
            self.mixed()
        of = Value(v.of.number, (math.prod(v.of.shape[1:]),)) if tokens else v.of
        y = self.b.arranged(self.name, of, [a.size for a in mem[tokens:]], [mem.index(a) - tokens for a in order[tokens:]], tuple(shape[tokens:]))
        v.of = Value(y.number, shape) if tokens else y
        v.mem = order
        return v.of

    def atoms(self, v, axes):
        return [a for i in axes for a in v.axes[i] if a is not self.batch]

    def canonical(self, v):
        """Brings v into the usual layout of its shape: images [C, H, W], other values in the file's order of axes; or tokens, features."""
        n, tokens = len(v.axes), self.tokens_axis(v)
        if tokens is not None and n == 3 and tokens >= 0 and self.batch_axis(v) is not None:
            other = 3 - tokens - self.batch_axis(v)
            return self.arrange(v, self.atoms(v, (tokens, other)), (v.shape[tokens], v.shape[other]))
        if v.axes[0] != [self.batch] or n not in (2, 3, 4):
            self.refuse(f"its input has other axes than [batch, …], of which 1 to 3 are read: {list(v.shape)}")
        return self.arrange(v, self.atoms(v, [d + 1 for d in LIES[n - 1]]), v.shape[1:])

    def image(self, v):
        """The same of images; of a signal, [batch, channels, length], an image of height 1."""
        if v.axes[0] != [self.batch] or len(v.axes) not in (3, 4):
            self.refuse(f"it takes images, [batch, channels, height, width], and gets {list(v.shape)}")
        if len(v.axes) == 4:
            return self.canonical(v)
        return self.arrange(v, self.atoms(v, (2, 1)), (v.shape[1], 1, v.shape[2]))

    def of_image(self, value, flat):
        """The other way."""
        return self.usual(value, (0, 2) if flat else None)

    def last(self, v, axis=-1):
        """v with that axis innermost, as (others, axis), in any order of the others."""
        axis %= len(v.axes)
        own = self.atoms(v, (axis,))
        n = v.shape[axis]
        if v.mem[len(v.mem) - len(own):] == own:  # also if it has size 1
            others = v.mem[:len(v.mem) - len(own)]
        elif self.b.of_tokens(v.of):
            others = [a for a in v.mem if a not in own]
        else:
            others = self.atoms(v, (i for i in range(len(v.axes)) if i != axis))
        rest = math.prod(a.size for a in others)
        if n == v.of.shape[-1] and len(v.of.shape) == 2 and v.mem == [*others, *own]:
            return v.of
        return self.arrange(v, [*others, *own], (rest, n) if others else (n,))

    def reshaped(self, v, to):
        """v with axes of these sizes; None: they are no parts of its own."""
        mem, left = list(v.mem), [a for axis in v.axes for a in axis if a.size != 1 or a is self.batch]
        axes = []
        for n in to:
            axis = []
            if n == self.batch.size == 1 and left and left[0] is self.batch:
                axes.append([left.pop(0)])
                continue
            while n > 1:
                a = left.pop(0) if left else None
                if a is None or (n % a.size and a.size % n) or (a is self.batch and n % a.size):
                    return None
                if a.size > n:
                    parts = [Atom(n), Atom(a.size // n)]
                    i = mem.index(a)
                    mem[i:i + 1] = parts
                    a = parts[0]
                    left.insert(0, parts[1])
                axis.append(a)
                n //= a.size
            if n != 1:
                return None
            axes.append(axis)
        return None if left else Held(v.of, mem, axes, v.weights)

    def block(self, v, axis):
        """v as (inner, outer, n), where n is that axis: an image of that height and width; its dimension 3."""
        own = self.atoms(v, (axis,))
        if not own:
            own = [Atom(1)]
            v.mem, v.axes[axis] = [*own, *v.mem], [*(a for a in v.axes[axis] if a is self.batch), *own]
        at, order = v.mem.index(own[0]), v.mem
        if v.mem[at:at + len(own)] != own:
            at, order = 0, [*own, *(a for a in v.mem if a not in own)]
        outer, n = math.prod(a.size for a in order[:at]), math.prod(a.size for a in own)
        inner = math.prod(a.size for a in order) // outer // n
        return self.arrange(v, order, (inner, outer, n))

    def resized(self, v, axis, value, n):
        """v, of which value has n in that axis."""
        own, new = self.atoms(v, (axis,)), Atom(n)
        at = v.mem.index(own[0]) if own else len(v.mem)
        mem = [a for a in v.mem if a not in own]
        if n != 1:
            mem.insert(at, new)
        axes = [list(a) for a in v.axes]
        axes[axis] = [*(a for a in axes[axis] if a is self.batch), *([new] if n != 1 else [])]
        return Held(value, mem, axes)

    def part(self, v, axis, first, size, step=1):
        """Elements first, first + step … of an axis."""
        if size == v.shape[axis]:
            return v
        if self.b.of_tokens(v.of):
            return self._part_of_tokens(v, axis, first, size, step)
        if v.axes[0] == [self.batch] and 2 <= len(v.axes) <= 4:
            return self.usual(self.b.resampled(self.name, self.canonical(v), axis, size, first=first, step=step))
        y = self.b.resampled(self.name, self.block(v, axis), 3, size, first=first, step=step)
        return self.resized(v, axis, y, size)

    def _part_of_tokens(self, v, axis, first, size, step):
        own, (s, f) = self.atoms(v, (axis,)), v.of.shape
        at = v.mem.index(own[0])
        if v.mem[at:at + len(own)] != own:
            at = 1
            self.arrange(v, [v.mem[0], *own, *(a for a in v.mem[1:] if a not in own)], (s, f))
        outer, n = math.prod(a.size for a in v.mem[1:at]), v.shape[axis]
        inner = f // outer // n
        if outer == 1 and step == 1:
            y = self.b.resampled(self.name, v.of, 2, size * inner, first=first * inner)
        elif inner == 1 and size == 1:
            y = self.b.resampled(self.name, v.of, 2, outer, first=first, step=n)
        else:
            self.refuse("it takes parts of features that do not lie side by side")
        return self.resized(v, axis, y, size)

    def repeated(self, v, to):
        """v with its dimensions of size 1 repeated to those of to, if another node needs that."""
        y = made._expand(self.b, self.name, self.canonical(v), -1, *to[1:])
        return self.usual(y)
