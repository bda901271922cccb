"""Several nodes that torch writes for one module. They are read together, when the reader is at the first of them."""
import math
import types

import torch

from .builder import Own, real
from .onnx_known import Known, axes_of
from .onnx_reader import Weight
from .onnx_views import Held


def _number(r, name):
    """The constant of that name as one float; None: it is something else."""
    v = r.values.get(name)
    return float(v.array.item()) if isinstance(v, Known) and v.array is not None and v.array.size == 1 else None


def _next_with(r, index, kind):
    """The next node of that kind, and the number that is its other input; None, None: it is another one."""
    at = r.next(index, kind)
    number = at is not None and _number(r, r.other(at, r.graph.node[index].output[0]))
    return (at, number) if isinstance(number, float) else (None, None)


def _next_param(r, index, kind, count, axis):
    """The next node of that kind, and a vector of parameters along that axis, which counts from the last one, -1."""
    at = r.next(index, kind)
    w = r.values.get(r.other(at, r.graph.node[index].output[0])) if at is not None else None
    fits = isinstance(w, Weight) and w.array.ndim == 1 and w.array.size == count and w.to == w.shape and len(w.shape) >= -axis and w.shape[axis] == count
    return (at, w) if fits and math.prod(w.shape) == count else (None, None)


def affine(r, index, count, axis):
    """γ and β of a norm: the Mul behind a node and the Add behind that, if they are there. Returns the last node, and the parameters."""
    mul, weight = _next_param(r, index, "Mul", count, axis)
    add, bias = _next_param(r, mul, "Add", count, axis) if mul is not None else (None, None)
    return (index if mul is None else mul if add is None else add), [w for w in (weight, bias) if w]


def _ones(r, n):
    return Own(f"{r.name}.ones{n}", torch.ones(n), False).param()


def layer_norm(r, v, axis, eps, held):
    """Over the last axis, or without parameters over those from `axis` on."""
    last = len(v.axes) - 1
    if not 1e-30 <= eps <= 1:
        r.refuse(f"its epsilon {eps:g} does not lie in 0 … 1")
    if axis == last:
        r.refuse_if(r.batch in v.axes[last], "it is over the batch")
        parts, x = [r.param(w) for w in held] or [_ones(r, v.shape[-1])], r.last(v)
        return v.like(r.b.norm(r.name, x, types.SimpleNamespace(normalized_shape=(x.shape[-1],), eps=eps), "", parts))
    if held or v.axes[0] != [r.batch] or axis < 1 or r.b.of_tokens(v.of):
        r.refuse("a norm over several axes is read without parameters, and not over the batch")
    every = math.prod(v.shape[1:])
    x = r.arrange(v, r.atoms(v, range(1, len(v.axes))), (every,))
    x = r.b.group_norm(r.name, r.b.node(r.name, "permute", [x], (every, 1, 1), h=1, w=1), math.prod(v.shape[1:axis]), (), eps)
    return v.like(r.b.node(r.name, "flatten", [x], (every,)))


def _last_axes(r, index, n):
    """The first of the last axes that a mean is over, of n; None: it is over others, or over all."""
    node = r.graph.node[index]
    a = r.attributes(node)
    given = r.values.get(node.input[1]) if len(node.input) > 1 else None
    if not a.get("keepdims", 1) or node.op_type != "ReduceMean" or (len(node.input) > 1 and not isinstance(given, Known)):
        return None
    axes = axes_of(a, given and given.array, n)
    return axes[0] if axes[0] and axes == tuple(range(axes[0], n)) else None


def read_layernorm(r):
    """ReduceMean, Sub, Pow, ReduceMean, Add, Sqrt, Div, and then Mul and Add of parameters, if there are any."""
    v, sub, nodes = r.value(0), r.next(r.index, "Sub"), r.graph.node
    if sub is None or not isinstance(v, Held) or v.summed or nodes[sub].input[0] != r.node.input[0]:
        return False
    first, readers = _last_axes(r, r.index, len(v.axes)), r.readers[nodes[sub].output[0]]
    power, div = (next((i for i in readers if i is not None and nodes[i].op_type == kind), None) for kind in ("Pow", "Div"))
    if first is None or len(readers) != 2 or None in (power, div) or _number(r, nodes[power].input[1]) != 2:
        return False
    mean = r.next(power, "ReduceMean")
    if mean is None or _last_axes(r, mean, len(v.axes)) != first:
        return False
    add, eps = _next_with(r, mean, "Add")
    root = r.next(add, "Sqrt") if add is not None else None
    if root is None or list(nodes[div].input) != [nodes[sub].output[0], nodes[root].output[0]]:
        return False
    end, held = affine(r, div, v.shape[-1], -1) if first == len(v.axes) - 1 else (div, [])
    r.join(end)
    r.give(layer_norm(r, v, first, eps, held))
    return True


def read_rmsnorm(r):
    """x: Pow, ReduceMean, Add, Sqrt, Reciprocal or Div, Mul with x, Mul with a parameter."""
    v, mean, nodes = r.value(0), r.next(r.index, "ReduceMean"), r.graph.node
    if mean is None or not isinstance(v, Held) or v.summed or r.number(1) != 2 or _last_axes(r, mean, len(v.axes)) != len(v.axes) - 1:
        return False
    add, eps = _next_with(r, mean, "Add")
    root = r.next(add, "Sqrt") if add is not None else None
    inverse = r.next(root, "Reciprocal") if root is not None else None
    if inverse is None and root is not None:
        inverse = r.next(root, "Div")
        inverse = inverse if inverse is not None and _number(r, nodes[inverse].input[0]) == 1 else None
    mul = r.next(inverse, "Mul") if inverse is not None else None
    if mul is None or r.node.input[0] not in nodes[mul].input:
        return False
    end, weight = _next_param(r, mul, "Mul", v.shape[-1], -1)
    if end is None or not 1e-30 <= eps <= 1:
        return False
    r.join(end)
    part, x = r.param(weight), r.last(v)
    r.give(v.like(r.b.same(r.name, "rmsnorm", x, [part], eps=None if real(eps) == "1e-05" else real(eps))))
    return True


def read_gelu(r):
    """x: Div by √2, Erf, Add 1, Mul with x, Mul by 1/2."""
    v, erf, by = r.value(0), r.next(r.index, "Erf"), r.number(1)
    if erf is None or not isinstance(v, Held) or v.summed or by is None or abs(by - math.sqrt(2)) > 1e-5:
        return False
    add, one = _next_with(r, erf, "Add")
    mul = r.next(add, "Mul") if add is not None and one == 1 else None
    if mul is None or r.node.input[0] not in r.graph.node[mul].input:
        return False
    end, half = _next_with(r, mul, "Mul")
    if half != 0.5:
        return False
    r.join(end)
    r.give(v.like(r.b.act(r.name, v.of, "gelu")))
    return True


def all_are(r, name, n, number):
    v = r.values.get(name)
    return isinstance(v, Known) and v.array is not None and v.array.size == n and bool((v.array == number).all())


def read_groupnorm(r):
    """Reshape to [batch, groups, -1], InstanceNormalization by ones and zeros, Reshape back, Mul and Add of parameters."""
    v, norm, to, nodes = r.value(0), r.next(r.index, "InstanceNormalization"), r.known(1), r.graph.node
    back = r.next(norm, "Reshape") if norm is not None else None
    if back is None or not isinstance(v, Held) or to is None or to.shape != (3,) or v.axes[0] != [r.batch] or len(v.axes) not in (3, 4):
        return False
    groups, a = int(to[1]), r.attributes(nodes[norm])
    shape, eps = r.values.get(nodes[back].input[1]), a.get("epsilon", 1e-5)
    maker = nodes[r.maker[nodes[back].input[1]]] if nodes[back].input[1] in r.maker else None
    if isinstance(shape, Known) and shape.array is not None:
        same = shape.array.size == len(v.axes) and all(k < 1 or k == n for k, n in zip(shape.array.flatten(), v.shape))
    else:
        same = maker is not None and maker.op_type == "Shape" and maker.input[0] == r.node.input[0]
    if not same or to[0] not in (0, r.batch.size) or groups < 1 or v.shape[1] % groups or not 1e-30 <= eps <= 1 or not all(
            all_are(r, nodes[norm].input[i], groups, k) for i, k in ((1, 1), (2, 0))):
        return False
    end, held = affine(r, back, v.shape[1], 1 - len(v.axes))
    if len(held) == 1:
        end, held = back, []
    r.join(end)
    parts, x = [r.param(w) for w in held], r.image(v)
    r.give(r.of_image(r.b.group_norm(r.name, x, groups, parts, eps), len(v.axes) == 3))
    return True


def instance_norm(r):
    eps, v = r.attr("epsilon", 1e-5, float), r.data(0)
    x, flat = r.image(v), len(v.axes) == 3
    c = x.shape[0]
    plain = all_are(r, r.node.input[1], c, 1) and all_are(r, r.node.input[2], c, 0)
    if not 1e-30 <= eps <= 1:
        r.refuse(f"its epsilon {eps:g} does not lie in 0 … 1")
    held = [] if plain else [r.param(r.weight(i, 1, c)) for i in (1, 2)]
    r.give(r.of_image(r.b.group_norm(r.name, x, c, held, eps), flat))


def layer_normalization(r):
    v, eps, axis = r.data(0), r.attr("epsilon", 1e-5, float), r.attr("axis", -1)
    if not -len(v.axes) <= axis < len(v.axes):
        r.refuse(f"axis {axis} is not there")
    axis %= len(v.axes)
    n = math.prod(v.shape[axis:])
    plain = all_are(r, r.node.input[1], n, 1) and (not r.has(2) or all_are(r, r.node.input[2], n, 0))
    held = [] if plain else [r.weight(i, 1, n) for i in (1, 2) if r.has(i)]
    r.give(layer_norm(r, v, axis, eps, held))
