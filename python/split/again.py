"""Runs forward's own Python in each call, as PyTorch does, and compares what it computes with what was recorded of it. No numbers are computed: as long
as forward does what it did, its operations give the nodes of the recording."""
import contextlib
import copy
import operator

import torch
import torch.fx

from . import graph, tracing
from .builder import Builder


def _same(a, b):
    """Whether two arguments of nodes are equal. True is not 1, and 0.0 is not -0.0."""
    if a is b:
        return True
    if isinstance(a, (tuple, list)):
        return isinstance(b, (tuple, list)) and len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(map(_same, a.values(), b.values()))
    if isinstance(a, slice):
        return isinstance(b, slice) and _same((a.start, a.stop, a.step), (b.start, b.stop, b.step))
    return type(a) is type(b) and (repr(a) == repr(b) if isinstance(a, (float, complex)) else not isinstance(a, torch.fx.Node) and a == b)


def _equal(a, b):
    with torch._C.DisableTorchFunction():
        return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)


class _Again(tracing.Tracer):
    """held: the nodes of the recording; moved: those that the graph of this call begins with, by the held ones, as soon as it is another one; line: of
    the script, where that begins."""

    def __init__(self, recording, training):
        traced, read = recording.traced[training]
        super().__init__(graph.builder_of, read)
        self.recording, self.training, self.names = recording, training, recording.names
        self.held, self.at, self.moved, self.line, self.given, self.graded = list(traced.nodes), 0, None, "", None, torch.is_grad_enabled()

    def read(self, node):
        return super().read(node if self.moved is None else self.moved.get(node, node))

    def create_arg(self, a):
        if isinstance(a, torch.Tensor):
            self.given = a
        return super().create_arg(a)

    def create_node(self, kind, target, args, kwargs, *more, **typed):
        self.check_open()
        if self.moved is None:
            node = self.held[self.at] if self.at < len(self.held) else None
            if node is not None and self._is(node, kind, target, args, kwargs):
                self.at += 1
                return node
            self._part()
        args, kwargs = (torch.fx.node.map_arg(a, lambda n: self.moved.get(n, n)) for a in (args, kwargs))
        node = super().create_node(kind, target, args, kwargs, *more, **typed)
        node.meta["learns"] |= not self.graded
        return node

    def _is(self, node, kind, target, args, kwargs):
        return node.op == kind and node.target == target and _same(node.args, args) and _same(node.kwargs, kwargs) and (
            not self.graded or node.meta["learns"] == torch.is_grad_enabled()) and ("was" not in node.meta or _equal(node.meta["was"], self.given))

    def _part(self):
        """From here on forward computes something else."""
        self.line, self.moved = tracing.line_here() or tracing.line_of_forward(self.recording.root), {}
        for node in self.held[:self.at]:
            self.moved[node] = self.graph.node_copy(node, self.moved.__getitem__)
        self.reader = self.recording.reader(self.training)


class Recording:
    """What torch.fx recorded of root's forward: traced has a graph and what reads it for each mode."""

    def __init__(self, root, strip, shapes, per_token, made):
        self.root, self._strip, self._shapes, self._per_token, self._made = root, strip, shapes, per_token, made
        self.names, self.traced = tracing.names_of(root), {}
        with tracing.unchanged(root):
            for training in (True, False):
                with tracing.mode(root, training):
                    read = self.reader(training)
                    self.hold(training, (tracing.trace(root, len(shapes), graph.builder_of, read), read))

    def reader(self, training):
        b = Builder(self._shapes[0][0], [shape[1:] for shape in self._shapes], self._per_token, evaluates=not training, **self._made)
        return graph.reader(b, self.root, self._strip)

    def hold(self, training, traced):
        """Also notes what is in tensors that are no parameters and no buffers."""
        for node in traced[0].nodes:
            if node.op == "get_attr" and node.target not in self.names.values():
                held = node.meta["tensor"] if "tensor" in node.meta else operator.attrgetter(node.target)(self.root)
                if isinstance(held, torch.Tensor):
                    node.meta["was"] = held.detach().clone()
                if "tensor" in node.meta:
                    node.meta["tensor"] = node.meta["was"]  # the script may change its own
        self.traced[training] = traced

    def of(self, b, training):
        """Reads it with the builder b."""
        return graph.reader(b, self.root, self._strip)(list(self.traced[training][0].nodes)[-1])

    def again(self, training):
        """A call. None: forward has computed what it did; else what it computed instead, for hold(), and the script's line where that begins."""
        tracer = _Again(self, training)
        with tracing.mode(self.root, training) if any(m.training != training for m in self.root.modules()) else contextlib.nullcontext():
            traced = tracing.run(tracer, self.root, len(self._shapes))
        return None if tracer.moved is None else ((traced, tracer.reader), tracer.line)

    def leaves(self):
        """The modules that are a node each, with what is in them."""
        return {m for traced, _ in self.traced.values() for n in traced.nodes if n.op == "call_module" for m in self.root.get_submodule(n.target).modules()}


class Attributes:
    """What TorchScript's graph of a module reads of it beside tensors and layers: values by path. It can read nothing else."""

    def __init__(self, module, values):
        self._module = module
        self._had = {path: copy.deepcopy(v) for path, v in values.items() if self._is(path, v)}

    def _is(self, path, value):
        try:
            return bool(operator.attrgetter(path)(self._module) == value)
        except (AttributeError, RuntimeError, ValueError):  # of a tensor, or of what TorchScript alone has
            return False

    def leaves(self):
        return set(self._module.modules())

    def changed(self):
        """The path of what has changed; "": nothing."""
        return next((path for path, v in self._had.items() if not self._is(path, v)), "")
