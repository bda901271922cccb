"""Runs a module's forward in PyTorch beside what torch.fx recorded of it. A branch on what a value is, such as type(x), goes another way while
torch.fx records."""
import contextlib
import operator

import torch
import torch.fx
from torch import nn

from . import errors, graph, tracing
from .anchor import flat

_ROWS, _LARGE = 2, 1 << 16  # gradients of larger parameters would need as much memory again


def _device(module):
    return next((p.device for p in module.parameters()), torch.device("cpu"))


def _inputs(module, shapes, ids, most=_ROWS):
    g, at = torch.Generator().manual_seed(1), _device(module)
    rows = [(min(most, shape[0]), *shape[1:]) for shape in shapes]
    if not ids and not any(isinstance(m, (nn.Embedding, nn.EmbeddingBag)) for m in module.modules()):
        return [torch.randn(shape, generator=g).to(at) for shape in rows]
    return [torch.randint(0, 2, shape, generator=g).to(at, torch.int64 if ids else torch.float32) for shape in rows]  # rows of any table


@contextlib.contextmanager
def _kept(module):
    """Whatever is done with the module, its attributes, buffers and the random numbers are the same afterwards."""
    had = [(m, dict(vars(m)), dict(m._buffers)) for m in module.modules()]
    copies = {}
    try:
        for m, _, buffers in had:
            m._buffers.update({k: copies.setdefault(id(b), b.clone()) for k, b in buffers.items() if b is not None})
        with torch.random.fork_rng([d for d in [_device(module)] if d.type == "cuda"]):
            torch.manual_seed(1)
            yield
    finally:
        for m, attributes, buffers in had:
            vars(m).clear()
            vars(m).update(attributes)
            m._buffers.clear()
            m._buffers.update(buffers)


def _recorded(traced, root, xs):
    """What the graph traced gives for the inputs xs."""
    env, given = {}, iter(xs)
    for node in traced.nodes:
        args, kwargs = (torch.fx.node.map_arg(a, env.__getitem__) for a in (node.args, node.kwargs))
        if node.op == "placeholder":
            env[node] = next(given, *node.args)
        elif node.op == "get_attr":
            env[node] = node.meta["tensor"] if "tensor" in node.meta else operator.attrgetter(node.target)(root)
        elif node.op == "call_module":
            m = root.get_submodule(node.target)
            called = m if graph.builder_of(m) or not isinstance(m, nn.MultiheadAttention) else lambda *a, **k: nn.MultiheadAttention.forward(m, *a, **k)
            env[node] = called(*args, **kwargs)
        elif node.op == "call_method":
            env[node] = getattr(args[0], node.target)(*args[1:], **kwargs)
        elif node.op == "output":
            return args[0]
        else:
            env[node] = node.target(*args, **kwargs)


def _ran(root, training, xs, run, grades=True):
    """Tensors that run gives for copies of xs, and in training, where it grades, the gradients of a sum of these."""
    with tracing.mode(root, training), _kept(root), torch.set_grad_enabled(training):
        xs = [x.clone().requires_grad_(training and x.is_floating_point()) for x in xs]
        ys = [y for y in flat([run(*(x.clone() for x in xs))]) if isinstance(y, torch.Tensor)]
        learns, found = [t for t in (*xs, *(p for p in root.parameters() if p.numel() <= _LARGE)) if t.requires_grad], [y.detach() for y in ys]
        graded = [y for y in ys if y.requires_grad]
        if grades and training and graded and learns:
            total = sum((y * torch.arange(y.numel(), device=y.device).cos().reshape(y.shape)).sum() for y in graded)
            found += [torch.zeros_like(t) if g is None else g for t, g in zip(learns, torch.autograd.grad(total, learns, allow_unused=True))]
        return found


def _near(ours, theirs):
    """Whether tensors are equal but for their last bits."""
    def near(a, b):
        most = b.abs()[b.isfinite()].double().max().item() if b.isfinite().any() else 0.0
        return a.shape == b.shape and torch.allclose(a.double(), b.double(), 1e-4, 1e-5 * max(1.0, most), True)
    return len(ours) == len(theirs) and all(map(near, ours, theirs))


def _is_unsteady(module, nodes):
    """Whether PyTorch's own gradients depend on what its memory held before, as those of 1.13's group norm of signals do."""
    of = {n.target for n in nodes} | {type(m) for m in module.modules()}
    return torch.__version__.startswith("1.") and bool(of & {nn.GroupNorm, nn.functional.group_norm, torch.group_norm})


def check(module, recorded, shapes, ids):
    """Refuses a module whose forward gives something else than what was recorded of it. ids: its input is token ids."""
    xs = _inputs(module, shapes, ids)
    for training in (True, False):
        traced = recorded.traced[training][0]
        grades = not _is_unsteady(module, traced.nodes)
        try:
            ours = _ran(module, training, xs, module, grades)
        except Exception:  # about random numbers: the graph was read
            continue
        theirs = _ran(module, training, xs, lambda *xs: _recorded(traced, module, xs), grades)
        if not _near(ours, theirs):
            raise errors.config("forward computes something else in PyTorch than was read of it: it asks what a tensor is, as by type(x) or "
                                "functools.singledispatch, or whether gradients are on. Write isinstance(x, torch.Tensor), or keep that part in head or tail")


def raised(module, shapes, ids):
    """What forward itself raises for random numbers, and FILE:LINE of it; None: nothing."""
    try:
        _ran(module, module.training, _inputs(module, shapes, ids, shapes[0][0]), module)
    except Exception as e:
        return e, tracing.line_of_error(e)
    return None
