"""One call of a RemoteModule: what it is to autograd, and a step of calls whose chunks overlap."""
import torch

from . import errors


class _OfGradient(torch.autograd.Function):
    """An input's gradient, of which create_graph=True wants a gradient."""

    @staticmethod
    def forward(ctx, dx):
        return dx.clone()

    @staticmethod
    def backward(ctx, _):
        raise errors.here("a gradient of the middle's gradient, as of a gradient penalty, is not known on the server: leave the middle out of the penalty")


def _once(backward):
    def once(ctx, *dys):
        with torch.no_grad():
            found = backward(ctx, *dys)
        return tuple(_OfGradient.apply(x.requires_grad_()) if isinstance(x, torch.Tensor) and x.dim() > 1 else x for x in found) if torch.is_grad_enabled() else found
    return once


def _gradients(ctx):
    """The inputs' gradients, as far as autograd wants them, behind one mark for the anchor."""
    wanted = ctx.needs_input_grad[3:]
    dxs = ctx.remote._input_gradients(ctx.call) if any(wanted) else [None] * len(wanted)
    return None, None, ctx.remote._one_mark(), *(dx if needed else None for dx, needed in zip(dxs, wanted))


def _taken(ctx, remote, call):
    ctx.remote, ctx.call = remote, call
    ys = remote._take(call)
    ctx.set_materialize_grads(len(ys) == 1)  # of several outputs, one without a gradient need not cross
    return ys if len(ys) > 1 else ys[0]


def _given(ctx, dys):
    ctx.remote._give(ctx.call, dys)
    torch.autograd.Variable._execution_engine.queue_callback(ctx.remote._note_ends)  # behind this backward, when all gradients are there


class Whole(torch.autograd.Function):
    """A call that waits for its output at once: one autograd node for both halves."""

    @staticmethod
    def forward(ctx, remote, call, anchor, *xs):
        return _taken(ctx, remote, call)

    @staticmethod
    @_once
    def backward(ctx, *dys):
        _given(ctx, dys)
        return _gradients(ctx)


class Send(torch.autograd.Function):
    """The first half of a call; backward waits for the inputs' gradients."""

    @staticmethod
    def forward(ctx, remote, call, anchor, *xs):
        ctx.remote, ctx.call = remote, call
        return xs[0].new_zeros(())

    @staticmethod
    @_once
    def backward(ctx, _):
        return _gradients(ctx)


class _Wait(torch.autograd.Function):
    """The second half; backward posts the outputs' gradients."""

    @staticmethod
    def forward(ctx, sent, remote, call):
        ctx.sent = sent.new_zeros(())
        return _taken(ctx, remote, call)

    @staticmethod
    @_once
    def backward(ctx, *dys):
        _given(ctx, dys)
        return ctx.sent, None, None


class _NoGradient(torch.autograd.Function):
    """The output of an evaluation: its backward raises an error."""

    @staticmethod
    def forward(ctx, x, y):
        return y.detach()

    @staticmethod
    def backward(ctx, _):
        raise errors.usage("this output is that of an evaluation, which has no gradient: call train() before it")


def ungraded(xs, ys):
    """The outputs of an evaluation, for a script that may call backward()."""
    learns = next((x for x in xs if x.requires_grad), None) if torch.is_grad_enabled() else None
    return ys if learns is None else tuple(_NoGradient.apply(learns, y) for y in ys)


def leaf(xs):
    """A parameter of the head that xs depend on; None: it has none that learns."""
    todo, seen = [x.grad_fn for x in xs], set()
    while todo:
        node = todo.pop()
        if hasattr(node, "variable"):
            return node.variable
        if node is not None and node not in seen:
            seen.add(node)
            todo += [n for n, _ in node.next_functions]
    return None


class Call:
    """A call of a step: its number, the form of its inputs, and whether it has had its gradient (back)."""

    def __init__(self, number, step, xs, lengths):
        x = next((x for x in xs if x.dim() == 4), xs[0])
        self.number, self.step, self.shape, self.lengths, self.back, self.leaf = number, step, x.shape, lengths, False, None
        self.image = x.dim() == 4 and (x.is_contiguous() or not x.is_contiguous(memory_format=torch.channels_last))
        self.device = None if x.device.type == "cpu" else x.device


class Pending:
    """A call under way: wait() returns its output."""

    def __init__(self, remote, call, xs, sent):
        self._remote, self._call, self._xs, self._sent = remote, call, xs, sent

    def wait(self):
        if self._sent is None:
            return self._remote._shown(ungraded(self._xs, self._remote._take(self._call)))
        return self._remote._shown(_Wait.apply(self._sent, self._remote, self._call))


class Pipeline:
    """One step, chunk by chunk. Work for which the server waits longest comes first: tails, then heads, then their backwards."""

    def __init__(self, remote, head, tail_loss, parts, rows):
        self.remote, self.heads, self.tail_loss, self.parts, self.rows = remote, head, tail_loss, parts, rows
        self.began, self.tails, self.backs, self.loss = [], 0, 0, 0.0  # began: (outputs of the head, call) by chunk

    def over(self):
        return self.backs == len(self.parts)

    def head(self):
        if len(self.began) == len(self.parts):
            return False
        hs = self.heads(self.parts[len(self.began)][0])
        hs = hs if isinstance(hs, tuple) else (hs,)
        self.remote._check_learns(hs)
        self.began.append((hs, self.remote._post([h.detach() for h in hs], None)))
        return True

    def tail(self):
        if self.tails == len(self.began):
            return False
        call = self.began[self.tails][1]
        ys = self.remote._empty(self.remote._middle.output_shapes, call)
        if not self.remote._middle.try_output(call.number, ys):
            return False
        ys = [y.requires_grad_() for y in self.remote._outputs(ys, call)]
        x, t = self.parts[self.tails]
        shown = self.remote._shown(tuple(y.clone() for y in ys))  # the tail may change its input in place, and y is a leaf
        loss = self.tail_loss(shown, t) * (len(x) / self.rows)
        loss.backward()
        self.remote._give(call, [y.grad for y in ys])
        self.loss += loss.item()
        self.tails += 1
        return True

    def back(self):
        if self.backs == self.tails:
            return False
        hs, call = self.began[self.backs]
        if any(h.requires_grad for h in hs):
            dxs = self.remote._empty_gradients(call)
            if not self.remote._middle.try_input_grad(call.number, dxs):
                return False
            learns = [(h, dx) for h, dx in zip(hs, self.remote._gradients(dxs, call)) if h.requires_grad]
            torch.autograd.backward(*zip(*learns))
        self.began[self.backs] = None, None
        self.backs += 1
        return True
