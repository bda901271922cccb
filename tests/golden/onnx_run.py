"""What an ONNX file of `splitc export` computes, by torch's own functions: one for each kind of node that is written."""
import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper


def pads(a, n):
    """torch's order: the last axis first, before and behind; of Conv and pools, which have them for the last n axes."""
    p = list(a.get("pads", [0] * 2 * n))
    return [p[i] for axis in range(n - 1, -1, -1) for i in (axis, axis + n)]


def conv(x, w, b=None, **a):
    n = w.dim() - 2
    return (F.conv1d if n == 1 else F.conv2d)(F.pad(x, pads(a, n)), w, b, a["strides"], 0, a["dilations"], a["group"])


def conv_transpose(x, w, b=None, **a):
    return F.conv_transpose2d(x, w, b, a["strides"], a["pads"][:2], a["output_padding"], a.get("group", 1))


def batch_norm(x, w, b, mean, var, **a):
    return F.batch_norm(x, mean.clone(), var.clone(), w, b, training=bool(a["training_mode"]), eps=a["epsilon"])


def max_pool(x, **a):
    return F.max_pool2d(F.pad(x, pads(a, 2), value=-np.inf), a["kernel_shape"], a["strides"])


def average_pool(x, **a):
    assert a["count_include_pad"] == 1
    return F.avg_pool2d(F.pad(x, pads(a, 2)), a["kernel_shape"], a["strides"])


def pad(x, p, **a):
    p = pads({"pads": p.tolist()}, x.dim())
    mode = {b"constant": "constant", b"reflect": "reflect", b"edge": "replicate"}[a["mode"]]
    if mode == "constant":
        return F.pad(x, p)
    while p and p[-2:] == [0, 0] and len(p) > 4:  # of images torch takes the last two axes alone
        p = p[:-2]
    return F.pad(x, p, mode=mode)


def resize(x, _roi, _scales, size, **a):
    size = [int(s) for s in size[2:]]
    if a["mode"] == b"nearest":
        return F.interpolate(x, size=size, mode="nearest")
    return F.interpolate(x, size=size, mode="bilinear", align_corners=a["coordinate_transformation_mode"] == b"align_corners")


def slices(x, first, end, axis, step):
    at = [slice(None)] * x.dim()
    for f, e, a, s in zip(first.tolist(), end.tolist(), axis.tolist(), step.tolist()):
        at[a] = slice(f, e, s)
    return x[tuple(at)]


def dropout(x, p=None, training=None):
    assert training is None or (training.item() and p.item() == 0), "only without a ratio can numbers be compared"
    return x


KINDS = {
    "Add": torch.add, "AveragePool": average_pool, "BatchNormalization": batch_norm, "Clip": torch.clamp,
    "Concat": lambda *x, axis: torch.cat(x, axis), "Conv": conv, "ConvTranspose": conv_transpose, "Div": torch.div, "Dropout": dropout,
    "Elu": F.elu, "Erf": torch.erf, "Exp": torch.exp, "Log": torch.log, "Expand": lambda x, shape: x * torch.ones(shape.tolist(), dtype=x.dtype), "Flatten": lambda x: x.flatten(1),
    "Gelu": lambda x, approximate: F.gelu(x, approximate=approximate.decode()),
    "Gemm": lambda x, w, b=None, transB=0: F.linear(x, w, b), "GlobalAveragePool": lambda x: F.adaptive_avg_pool2d(x, 1),
    "GlobalMaxPool": lambda x: F.adaptive_max_pool2d(x, 1), "HardSigmoid": lambda x, alpha: F.hardsigmoid(x), "HardSwish": F.hardswish,
    "InstanceNormalization": lambda x, w, b, epsilon: F.instance_norm(x, None, None, w, b, eps=epsilon),
    "LayerNormalization": lambda x, w, b=None, axis=-1, epsilon=1e-5: F.layer_norm(x, w.shape, w, b, epsilon), "MatMul": torch.matmul,
    "LeakyRelu": lambda x, alpha=0.01: F.leaky_relu(x, alpha), "MaxPool": max_pool, "Mul": torch.mul, "PRelu": lambda x, w: torch.where(x > 0, x, w * x), "Pad": pad, "Pow": torch.pow, "Reciprocal": torch.reciprocal,
    "ReduceMean": lambda x, axes: x.mean(axes, keepdim=True), "Relu": F.relu, "Resize": resize, "Sigmoid": torch.sigmoid,
    "Reshape": lambda x, shape: x.reshape([x.shape[i] if s == 0 else s for i, s in enumerate(shape.tolist())]),
    "Shape": lambda x: torch.tensor(x.shape), "Slice": slices, "Softmax": lambda x, axis: x.softmax(axis), "Softplus": F.softplus,
    "Sqrt": torch.sqrt, "Squeeze": lambda x, axes: x.squeeze(int(axes)), "Sub": torch.sub, "Tanh": torch.tanh,
    "Transpose": lambda x, perm: x.permute(perm), "Unsqueeze": lambda x, axes: x.reshape(*unsqueezed(x.shape, axes.tolist())),
}


def unsqueezed(shape, axes):
    shape = list(shape)
    for a in sorted(axes):
        shape.insert(a, 1)
    return shape


def tensor(t, dtype):
    t = torch.from_numpy(np.array(numpy_helper.to_array(t)))
    return t.to(dtype) if t.is_floating_point() else t


def run(path, x):
    """The logits of inputs x, in x's type."""
    model = onnx.load(path)
    values = {t.name: tensor(t, x.dtype) for t in model.graph.initializer}
    values[model.graph.input[0].name] = x
    for node in model.graph.node:
        a = {p.name: onnx.helper.get_attribute_value(p) for p in node.attribute}
        if node.op_type == "Constant":
            values[node.output[0]] = tensor(a["value"], x.dtype)
        else:
            values[node.output[0]] = KINDS[node.op_type](*(values[name] if name else None for name in node.input), **a)
    return values[model.graph.output[0].name]
