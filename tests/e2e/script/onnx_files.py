"""onnx_files.py FOLDER: ONNX files of rare forms, broken ones and hostile ones, made by changes to those of tests/golden. Each is read as
it is meant, or refused with one sentence of the right kind, within seconds and in bounded memory. And what `splitc export` writes."""
import os
import resource
import subprocess
import sys
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import split

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../golden")
HUGE, MEBIBYTE = 1 << 62, 1 << 20


def load(name):
    return onnx.load(os.path.join(GOLDEN, f"onnx_{name}.onnx"))


def node(m, name):
    return next(n for n in m.graph.node if n.name == name)


def tensor(m, name):
    return next(t for t in m.graph.initializer if t.name == name)


def attr(n, name):
    return next(a for a in n.attribute if a.name == name)


def constant(m, name, *values):
    """Sets the numbers of a Constant node."""
    t = attr(node(m, name), "value").t
    had = numpy_helper.to_array(t)
    t.CopyFrom(numpy_helper.from_array(np.resize(np.array(values, had.dtype), had.shape), t.name))


def attribute(m, at, name, *values):
    """Sets an attribute; without values it goes."""
    n = node(m, at)
    kept = [a for a in n.attribute if a.name != name]
    del n.attribute[:]
    n.attribute.extend(kept)
    if values:
        n.attribute.append(helper.make_attribute(name, values[0] if len(values) == 1 else list(values)))


def kind(m, at, word):
    node(m, at).op_type = word


def reads(m, at, i, name):
    node(m, at).input[i] = name


def dims(m, name, *sizes):
    del tensor(m, name).dims[:]
    tensor(m, name).dims.extend(sizes)


def insert(m, before, op, ins, out, **attributes):
    """A node in front of another one, which reads its output in place of its first input."""
    at = next(i for i, n in enumerate(m.graph.node) if n.name == before)
    m.graph.node.insert(at, helper.make_node(op, ins, [out], out, **attributes))
    return m.graph.node[at]


def between(m, before, op, others, **attributes):
    n = node(m, before)
    insert(m, before, op, [n.input[0], *others], "between", **attributes)
    node(m, before).input[0] = "between"


def ints(m, name, *values):
    m.graph.initializer.append(numpy_helper.from_array(np.array(values, np.int64), name))


def external(m, name, location, **more):
    t = tensor(m, name)
    t.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **more}.items():
        t.external_data.add(key=key, value=str(value))


def each(m, *changes):
    for f, *args in changes:
        f(m, *args)


def backwards(m):
    nodes = list(m.graph.node)[::-1]
    del m.graph.node[:]
    m.graph.node.extend(nodes)


def many_nodes(m):
    m.graph.node.extend(helper.make_node("Relu", ["x"], [f"y{i}"]) for i in range(9000))


def many_tensors(m):
    m.graph.initializer.extend(numpy_helper.from_array(np.zeros(1, np.float32), f"t{i}") for i in range(20000))


def side(m, i, n):
    m.graph.input[0].type.tensor_type.shape.dim[i].dim_value = n


def doubling(m):
    """Sixty joins of a constant with itself."""
    last = "t0"
    m.graph.initializer.append(numpy_helper.from_array(np.zeros(8, np.int64), last))
    for i in range(60):
        m.graph.node.insert(i, helper.make_node("Concat", [last, last], [f"t{i + 1}"], axis=0))
        last = f"t{i + 1}"
    reads(m, "/Flatten", 0, last)


def many_constants(m):
    """A thousand tensors of 16 MB."""
    ints(m, "size", 1 << 22)
    m.graph.node.insert(0, helper.make_node("ConstantOfShape", ["size"], ["c0"]))
    for i in range(1000):
        m.graph.node.insert(i + 1, helper.make_node("Exp", [f"c{i}"], [f"c{i + 1}"]))
    reads(m, "/Flatten", 0, "c1000")


CONV, WEIGHT, DATA, CONFIG = "/block/conv1/Conv", "block.conv1.weight", split.DataError, split.ConfigError
# file, change, error (None: it is read), what it says
ROWS = [
    ("small", (lambda m: None,), None, ""),
    ("small", (attribute, CONV, "auto_pad", "SAME_LOWER"), CONFIG, "node '/block/conv1/Conv' (Conv): auto_pad SAME_LOWER is not read here"),
    ("small", (attribute, CONV, "pads", 1, 1, 1, -1), CONFIG, "pads: [1, 1, 1, -1]"),
    ("small", (attribute, CONV, "pads", *[HUGE] * 4), CONFIG, "pads: "),
    ("small", (attribute, CONV, "strides", 0, 0), CONFIG, "strides: [0, 0]"),
    ("small", (attribute, CONV, "dilations", 1 << 19, 1 << 19), CONFIG, "of each sample"),
    ("small", (attribute, CONV, "dilations", 2, 1), CONFIG, "dilation is the same in both directions here"),
    ("small", (attribute, CONV, "group", 1.5), CONFIG, "its attribute group is not of the right type"),
    ("small", (attribute, CONV, "group", 3), CONFIG, "'block.conv1.weight' is [8, 4, 3, 3], which does not fit 8 channels in 3 groups"),
    ("small", (attribute, CONV, "group", -(1 << 63)), CONFIG, "which does not fit"),
    ("small", (attribute, CONV, "swift", 1), CONFIG, "its attribute swift is not read"),
    ("small", (lambda m: node(m, CONV).attribute.append(attr(node(m, CONV), "pads")),), CONFIG, "its attribute pads is there twice"),
    ("small", (kind, "/Flatten", "GridSample"), CONFIG, "node '/Flatten' (GridSample): torch's F.grid_sample is not read"),
    ("small", (kind, "/Flatten", "LRN"), CONFIG, "torch's nn.LocalResponseNorm is not read; take nn.BatchNorm2d"),
    ("small", (kind, "/Flatten", "Unheard"), CONFIG, "this kind is not read; docs/howto-onnx.md"),
    ("small", (lambda m: setattr(node(m, "/Flatten"), "domain", "com.example"),), CONFIG, "this kind is not read"),
    ("small", (attribute, "/block/bn1/BatchNormalization", "training_mode", 0), CONFIG, "it is of a network in evaluation; export model.train()"),
    ("small", (attribute, "/block/bn1/BatchNormalization", "training_mode"), CONFIG, "it is of a network in evaluation"),
    ("small", (attribute, "/block/bn1/BatchNormalization", "epsilon", float("nan")), CONFIG, "do not lie in 0 … 1"),
    ("small", (constant, "/classifier/classifier.0/Constant_1", False), CONFIG, "its training_mode is not the constant true"),
    ("small", (constant, "/classifier/classifier.0/Constant", float("nan")), CONFIG, "its ratio is no constant in [0, 1)"),
    ("small", (constant, "/classifier/classifier.0/Constant", 0.25), None, " p=0.25 stream="),
    ("small", (each, (attribute, CONV, "group", 3), (kind, "/classifier/classifier.3/Relu", "Unheard")), CONFIG, "2 modules are not read"),
    ("small", (each, (lambda m: setattr(tensor(m, WEIGHT), "name", "onnx::Conv_27"),), (reads, CONV, 1, "onnx::Conv_27")), CONFIG,
     "'onnx::Conv_27' is no module's: the file is of a network in evaluation, or with folded constants"),
    ("small", (constant, "/down/down.2/Constant_1", -1.0), CONFIG, "its bounds are not constants, the lower one first"),
    ("small", (constant, "/down/down.2/Constant_1", float("nan")), CONFIG, "its bound is nan"),
    ("small", (reads, "/down/down.2/Clip", 2, "block.bn1.weight"), CONFIG, "'block.bn1.weight' is a parameter or a buffer, and would not learn here"),
    ("small", (constant, "/pool/Constant", HUGE), CONFIG, "it pads the batch"),
    ("small", (reads, CONV, 0, "/Flatten_output_0"), CONFIG, "'/Flatten_output_0', which this node or a later one makes"),
    ("small", (reads, CONV, 0, "nowhere"), CONFIG, "'nowhere', which nothing makes"),
    ("small", (backwards,), CONFIG, "which this node or a later one makes"),
    ("small", (reads, CONV, 0, "down.0.weight"), CONFIG, "its input 0 is 'down.0.weight', a parameter or a buffer of the network"),
    ("small", (reads, CONV, 1, "/stem/stem.3/MaxPool_output_0"), CONFIG, "its input 1 is computed, where a parameter is read"),
    ("small", (reads, "/block/bn2/BatchNormalization", 3, "block.bn1.weight"), CONFIG, "block.bn1.weight: layers that use it in different ways cannot share it"),
    ("small", (reads, "/block/bn2/BatchNormalization", 1, "block.bn1.weight"), None, ""),
    ("small", (reads, "/block/bn2/BatchNormalization", 2, "down.3.bias"), CONFIG, "'down.3.bias' is [16], where 8 numbers"),
    ("small", (dims, "classifier.4.weight", 12, 10), CONFIG, "its weight 'classifier.4.weight', [12, 10], does not fit rows of 12"),
    ("small", (dims, WEIGHT, -8, 4, 3, 3), DATA, "'block.conv1.weight' is [-8, 4, 3, 3], which no tensor can be"),
    ("small", (dims, WEIGHT, *[1 << 40] * 4), DATA, "which no tensor can be"),
    ("small", (dims, WEIGHT, *[1] * 1000), DATA, "has 1000 dimensions, where 8 are the most"),
    ("small", (dims, WEIGHT, 0, 4, 3, 3), DATA, "its data are not as long"),
    ("small", (lambda m: setattr(tensor(m, WEIGHT), "raw_data", tensor(m, WEIGHT).raw_data[:-4]),), DATA, "its data are not as long"),
    ("small", (lambda m: setattr(tensor(m, WEIGHT), "data_type", 7),), DATA, "its data are not as long"),
    ("small", (lambda m: setattr(tensor(m, WEIGHT), "data_type", 8),), CONFIG, "is of type 8; floats, whole numbers and booleans are read"),
    ("small", (lambda m: setattr(tensor(m, WEIGHT), "data_type", -1),), CONFIG, "is of type -1"),
    ("small", (external, WEIGHT, "../../etc/passwd"), CONFIG, "'../../etc/passwd', which is no file in the folder of the ONNX file"),
    ("small", (external, WEIGHT, "/etc/passwd"), CONFIG, "which is no file in the folder of the ONNX file"),
    ("small", (external, WEIGHT, "link"), CONFIG, "which is no file in the folder of the ONNX file"),
    ("small", (external, WEIGHT, "nowhere"), CONFIG, "which is no file in the folder of the ONNX file"),
    ("small", (external, WEIGHT, "data"), DATA, "its data are not as long"),
    ("small", (lambda m: external(m, WEIGHT, "data", offset=4, length=1 << 40),), DATA, "ends in front of its end"),
    ("small", (lambda m: external(m, WEIGHT, "data", offset=8, length=8 * 4 * 9 * 4),), None, ""),
    ("small", (lambda m: tensor(m, WEIGHT).CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor(m, WEIGHT)).astype(np.float16), WEIGHT)),), None, ""),
    ("small", (lambda m: setattr(m.opset_import[0], "version", 21),), CONFIG, "its opset is 21, where 13 to 20 are read; export with torch.onnx.export("),
    ("small", (lambda m: setattr(m.opset_import[0], "version", -(1 << 63)),), CONFIG, "where 13 to 20 are read"),
    ("small", (lambda m: setattr(m.graph.output[0], "name", "nothing"),), CONFIG, "no node makes its output 'nothing'"),
    ("small", (lambda m: setattr(m.graph.output[0], "name", "/block/Add_output_0"),), None, ""),
    ("small", (between, "/classifier/classifier.4/Gemm", "Softmax", ()), None, ""),
    ("small", (each, (kind, "/classifier/classifier.4/Gemm", "Softmax"), (lambda m: node(m, "/classifier/classifier.4/Gemm").ClearField("attribute"),),
               (lambda m: node(m, "/classifier/classifier.4/Gemm").input.__delitem__(slice(1, None)),)), CONFIG, "the network ends with a softmax"),
    ("small", (lambda m: node(m, CONV).output.__setitem__(0, "/stem/stem.2/Relu_output_0"),), DATA, "two values are called '/stem/stem.2/Relu_output_0'"),
    ("small", (lambda m: setattr(tensor(m, "down.3.bias"), "name", "classifier.4.bias"),), DATA, "two initializers are called 'classifier.4.bias'"),
    ("small", (each, (lambda m: setattr(tensor(m, WEIGHT), "name", "a" * MEBIBYTE),), (reads, CONV, 1, "a" * MEBIBYTE)), CONFIG, "up to 95 characters"),
    ("small", (each, (lambda m: setattr(tensor(m, WEIGHT), "name", "a\n\033[0m.b"),), (reads, CONV, 1, "a\n\033[0m.b")), CONFIG, "of ASCII and no spaces"),
    ("small", (lambda m: node(m, "/stem/stem.1/BatchNormalization").input.__delitem__(slice(1, None)),), CONFIG, "it has 1 inputs, where 5 to 5 are right"),
    ("small", (attribute, "/stem/stem.3/MaxPool", "kernel_shape"), CONFIG, "it has no kernel_shape"),
    ("small", (attribute, "/pool/Constant", "value"), CONFIG, "not read so"),
    ("small", (attribute, "/Flatten", "axis", -9), CONFIG, "axis is -9, where 1 is read"),
    ("small", (kind, CONV, "If"), CONFIG, "torch's a branch on values"),
    ("small", (side, 2, HUGE), CONFIG, "height and width must lie in"),
    ("small", (side, 1, 17), CONFIG, "has 17 channels, where images have 1 to 16"),
    ("small", (side, 3, 0), CONFIG, "give their size, as --image 64"),
    ("small", (lambda m: m.graph.input[0].ClearField("type"),), CONFIG, "is not of floats"),
    ("small", (lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 11),), CONFIG, "is not of floats"),
    ("small", (lambda m: m.graph.ClearField("node"),), CONFIG, "no node makes its output"),
    ("small", (lambda m: node(m, CONV).ClearField("output"),), DATA, "has no kind, or no output"),
    ("small", (many_nodes,), DATA, "nodes, where 8192 are the most"),
    ("small", (many_tensors,), DATA, "initializers, where 16384 are the most"),
    ("small", (doubling,), CONFIG, "in advance"),
    ("small", (many_constants,), CONFIG, "takes too much memory"),
    ("small", (lambda m: [n.ClearField("name") for n in m.graph.node],), None, ""),
    ("small", (lambda m: m.graph.input.append(helper.make_tensor_value_info("down.3.bias", 1, [16])),), None, ""),
    ("small", (lambda m: m.graph.node.append(helper.make_node("Whatever", [], ["unused"])),), None, ""),
    ("small", (each, (ints, "five", 5), (between, "/Flatten", "Squeeze", ("five",))), CONFIG, "axis [5] is not there"),
    ("small", (each, (ints, "low", -7), (ints, "twelve", 12), (lambda m: insert(m, "/Flatten", "Mod", ["low", "twelve"], "five"),),
               (between, "/Flatten", "Squeeze", ("five",))), CONFIG, "axis [5] is not there"),
    ("small", (each, (ints, "low", -7), (ints, "twelve", 12), (lambda m: insert(m, "/Flatten", "Mod", ["low", "twelve"], "rest", fmod=1),),
               (between, "/Flatten", "Squeeze", ("rest",))), CONFIG, "axis [-7] is not there"),
    ("small", (each, (ints, "sizes", 4, 8), (lambda m: insert(m, "/Flatten", "Split", ["/pool/AveragePool_output_0", "sizes"], "a", axis=1).output.append("b"),),
               (lambda m: insert(m, "/Flatten", "Concat", ["a", "b", "a"], "all", axis=1),), (reads, "/Flatten", 0, "all")), CONFIG, "are not those of its input"),
    ("small", (lambda m: external(m, WEIGHT, "data", offset="four"),), DATA, "invalid literal"),
    ("small", (lambda m: setattr(tensor(m, WEIGHT).segment, "begin", 1),), CONFIG, "is a part of one; export it whole"),
    ("small", (lambda m: m.ClearField("opset_import"),), DATA, "it is no ONNX file, or a truncated one"),
    ("small", (lambda m: m.functions.add(),), CONFIG, "it has functions or sparse initializers"),
    ("small", (lambda m: m.graph.input.append(helper.make_tensor_value_info("y", 1, [2])),), CONFIG, "its inputs are input.1, y"),
    ("small", (lambda m: m.graph.output.append(m.graph.output[0]),), CONFIG, "it has 2 outputs"),
    ("small", (each, (side, 1, 1 << 17), (lambda m: m.graph.input[0].type.tensor_type.shape.dim.__delitem__(slice(2, None)),)), CONFIG, "has rows of [131072]"),
    ("small", (each, (ints, "size", 1 << 40), (insert, "/Flatten", "ConstantOfShape", ["size"], "c"), (reads, "/Flatten", 0, "c")), CONFIG, "which are too many"),
    ("small", (each, (ints, "a", -7), (ints, "b", 2), (insert, "/Flatten", "Div", ["a", "b"], "c"), (reads, "/Flatten", 0, "c")), CONFIG, "it computes a shape in a way"),
    ("small", (each, (ints, "a", 7), (lambda m: insert(m, "/Flatten", "Cast", ["a"], "c", to=8),), (reads, "/Flatten", 0, "c")), CONFIG, "it changes a type in a way"),
    ("small", (each, (ints, "a", 7), (ints, "b", 9), (insert, "/Flatten", "Unsqueeze", ["a", "b"], "c"), (reads, "/Flatten", 0, "c")), CONFIG, "its axes are not those"),
    ("small", (each, (ints, "a", 7, 8), (ints, "b", 9), (insert, "/Flatten", "Slice", ["a", "b", "b", "b"], "c"), (reads, "/Flatten", 0, "c")), CONFIG, "it cuts axes that are not there"),
    ("small", (reads, CONV, 0, ""), CONFIG, "its input 0 is not there, where a computed value is read"),
    ("small", (attribute, "/stem/stem.3/MaxPool", "dilations", 2, 2), CONFIG, "its dilation, or a border of zeros in front of it"),
    ("small", (attribute, "/stem/stem.3/MaxPool", "kernel_shape", 99, 99), CONFIG, "larger than the image"),
    ("small", (attribute, "/pool/Pad", "mode", "wrap"), CONFIG, "its mode is wrap"),
    ("small", (each, (ints, "pads", 1, 2), (reads, "/pool/Pad", 1, "pads")), CONFIG, "its pads are no 8 constants"),
    ("small", (constant, "/pool/Constant", 0, 0, HUGE, 0, 0, 0, 0, 0), CONFIG, "its pads are too large"),
    ("small", (kind, "/block/Add", "Max"), CONFIG, "torch's maximum and minimum of two values are not read"),
    ("small", (each, (lambda m: insert(m, "/Flatten", "Split", ["/pool/AveragePool_output_0"], "a", axis=9).output.append("b"),), (reads, "/Flatten", 0, "a")), CONFIG, "it parts an axis that is not there"),
    ("small", (each, (ints, "at", 1, 2), (lambda m: between(m, "/Flatten", "Gather", ("at",), axis=1),)), CONFIG, "it does not take one constant number"),
    ("small", (each, (lambda m: m.graph.initializer.append(numpy_helper.from_array(np.array(99), "at")),), (lambda m: between(m, "/Flatten", "Gather", ("at",), axis=1),)), CONFIG, "it picks number 99 of 16"),
    ("small", (lambda m: between(m, "/Flatten", "DepthToSpace", (), blocksize=3),), CONFIG, "it is not as nn.PixelShuffle makes it"),
    ("small", (each, (insert, "/Flatten", "Gather", ["classifier.2.weight", "/pool/AveragePool_output_0"], "row"), (reads, "/Flatten", 0, "row")), CONFIG, "a table is read for the token ids"),
    ("small", (lambda m: between(m, "/Flatten", "Cast", (), to=7),), CONFIG, "it changes a type, which is not read"),
    ("small", (between, "/Flatten", "IsNaN", ()), CONFIG, "of this kind what is computed of constants, sizes and masks alone is read"),
    ("small", (attribute, "/classifier/classifier.4/Gemm", "alpha", 2.0), CONFIG, "alpha is 2.0, where 1"),
    ("small", (between, "/classifier/classifier.1/Relu", "GlobalAveragePool", ()), CONFIG, "it takes images, [batch, channels, height, width], and gets"),
    ("small", (attribute, "/pool/AveragePool", "pads", 1, 0, 0, 0), CONFIG, "its mean leaves out a border"),
    # the images move by one pixel, over a border of 0: a matrix of pads, which a Transpose leaves as it is
    ("small", (each, (lambda m: m.graph.initializer.append(numpy_helper.from_array(np.array([[0, 0, 0, 1], [0, 0, 0, -1]], np.int64), "matrix")),),
               (ints, "list", -1), (lambda m: insert(m, "/Flatten", "Transpose", ["matrix"], "same", perm=[0, 1]),),
               (lambda m: insert(m, "/Flatten", "Reshape", ["same", "list"], "pads"),), (between, "/Flatten", "Pad", ("pads",))), None, ""),
    ("wide", (attribute, "/excite1/act/HardSigmoid", "alpha", 0.2), CONFIG, "alpha 0.2 and beta 0.5 are not 1/6 and 1/2"),
    ("wide", (attribute, "/Concat", "axis", 3), CONFIG, "it joins values along axis 3 whose other axes differ"),
    ("wide", (attribute, "/Concat", "axis", 1 << 62), CONFIG, "it joins values along axis"),
    ("wide", (attribute, "/Concat", "axis"), CONFIG, "it joins values along axis 0"),
    ("wide", (reads, "/Concat", 1, "/excite1/fc1/Conv_output_0"), CONFIG, "it joins values along axis 1 whose other axes differ"),
    ("wide", (constant, "/Constant_1", 24), CONFIG, "its shape is not that of all numbers of its input"),
    ("wide", (constant, "/Constant", 4), CONFIG, "out of bounds"),
    ("wide", (constant, "/Constant_2", 1e38), CONFIG, "its constant is 1e+38"),
    ("many", (attribute, "/block/attn/Transpose_2", "perm", -1), CONFIG, ""),
    ("many", (attribute, "/block/attn/Transpose_2", "perm", 1), CONFIG, ""),
    ("many", (attribute, "/ReduceMean", "axes", HUGE, 3), CONFIG, "is not there"),
    ("many", (constant, "/stem/stem.1/Constant", HUGE), CONFIG, "its shape is not that of all numbers of its input"),
    ("many", (attribute, "/right/ConvTranspose", "kernel_shape", HUGE, HUGE), CONFIG, "kernel_shape"),
    ("many", (attribute, "/right/ConvTranspose", "strides", 1 << 20, 1 << 20), CONFIG, "of each sample"),
    ("many", (constant, "/up/Constant_1", HUGE), CONFIG, "is no whole number"),
    ("many", (kind, "/block/attn/MatMul_2", "Einsum"), CONFIG, "of torch's einsum"),
    ("many", (constant, "/Constant_5", (1 << 63) - 1), CONFIG, "too large"),
    ("many", (attribute, "/ReduceMean", "axes", 0, 3), CONFIG, "it is over the batch"),
    ("many", (attribute, "/Transpose_1", "perm", 0, 0, 1), CONFIG, "is no order of its input's axes"),
    ("many", (attribute, "/up/Resize", "mode", "cubic"), CONFIG, "of torch's upsampling nearest and bilinear of images are read"),
    ("many", (attribute, "/right/ConvTranspose", "dilations", 2, 2), CONFIG, "with square windows and without dilation"),
    ("many", (constant, "/block/norm1/Constant", 5), CONFIG, "its exponent is none of the constants"),
    ("many", (lambda m: setattr(m.graph.output[0], "name", "/Add_1_output_0"),), CONFIG, "give [batch, classes], or [batch, classes, height, width]"),
    ("many", (constant, "/block/norm1/Constant_1", 5), CONFIG, "its epsilon 5 does not lie in 0 … 1"),
    ("many", (each, (ints, "steps", -1), (lambda m: node(m, "/Slice").input.append("steps"),)), CONFIG, "it takes numbers backwards"),
    ("many", (attribute, "/block/attn/Softmax", "axis", 1), CONFIG, "of scores of attention a softmax is read over the keys"),
    ("many", (reads, "/block/attn/MatMul_1", 1, "/block/attn/Transpose_3_output_0"), CONFIG, "it multiplies two computed values"),
    ("many", (attribute, "/stem/stem.1/InstanceNormalization", "epsilon", 5.0), CONFIG, "its epsilon 5 does not lie"),
    ("steps", (constant, "/lstm/Constant_5", 3), CONFIG, "not as torch writes them"),
    ("steps", (attribute, "/gru/GRU", "hidden_size", 5), CONFIG, "not as torch writes them"),
    ("steps", (attribute, "/lstm/LSTM", "hidden_size", HUGE), CONFIG, "it is none of torch's"),
    ("steps", (attribute, "/gru/GRU", "linear_before_reset", 0), CONFIG, "it is none of torch's"),
    ("steps", (constant, "/lstm/Constant", 1), CONFIG, "it begins from a state of its own"),
    ("steps", (reads, "/gru/GRU", 1, "/gru/GRU_output_0"), CONFIG, "not as torch writes them"),
    ("steps", (reads, "/gru/GRU", 2, "nowhere"), CONFIG, "not as torch writes them"),
]


def becomes(m, at, op, *others):
    n = node(m, at)
    n.op_type = op
    n.ClearField("attribute")
    del n.input[1:]
    n.input.extend(others)


def padding(m, number, by_not=False):
    """x · (ids == number), or x · not that."""
    reads(m, "/Unsqueeze_3", 0, "ids")
    becomes(m, "/Cast", "Equal", "/Constant_7_output_0")
    constant(m, "/Constant_7", number)
    if by_not:
        node(m, "/Cast").output[0] = "seven"
        at = next(i for i, n in enumerate(m.graph.node) if n.name == "/Cast")
        m.graph.node.insert(at + 1, helper.make_node("Not", ["seven"], ["/Cast_output_0"]))


TEXTS = [
    ((lambda m: None,), None, ""),
    ((lambda m: setattr(node(m, "/Div"), "op_type", "Mul"),), CONFIG, "a sum of tokens is divided by how many they are"),
    ((side, 1, 10), CONFIG, "its rows have 10 tokens, not 12"),
    ((lambda m: m.graph.input[1].type.tensor_type.shape.dim.add(),), CONFIG, "is not a mask"),
    ((lambda m: setattr(m.graph.output[0], "name", "/layers.0/norm2/Add_1_output_0"),), CONFIG, "is of every token"),
    ((padding, 7), CONFIG, "by a mask a value is multiplied that is 1 of real tokens"),
    ((padding, 0), CONFIG, "by a mask a value is multiplied that is 1 of real tokens"),
    ((padding, 7, True), None, '"pad": 7'),
    ((lambda m: becomes(m, "/Cast", "Equal", "/Constant_7_output_0"),), CONFIG, ""),
]


def outcome(m, folder, **more):
    """The error, or None; and the file's head or what was said."""
    path, file = os.path.join(folder, "x.onnx"), os.path.join(folder, "x.safetensors")
    with open(path, "wb") as f:
        f.write(m if isinstance(m, bytes) else m.SerializeToString())
    start = time.process_time()
    try:
        split.convert_onnx(path, file, **more)
        with open(file, "rb") as f:
            return None, f.read(100000).decode("latin1").replace("\\n", "\n").replace('\\"', '"')
    except split.Error as e:
        assert str(e).startswith(path + ": ") and str(e).isprintable() and len(str(e)) < 4000, str(e)[:2000]
        return type(e), str(e)
    finally:
        assert time.process_time() - start < 20, "it took too long"


def check(what, found, want, says):
    if found[0] is not want or says not in found[1]:
        print(f"{what}: {found[0]}: {found[1][:300] if found[0] else ''}, not {want}: {says}")
        return 1
    return 0


def main():
    folder = sys.argv[1]
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, resource.RLIM_INFINITY))
    with open(os.path.join(folder, "data"), "wb") as f:
        f.write(bytes(range(256)) * 8)
    os.path.lexists(os.path.join(folder, "link")) or os.symlink("/etc/passwd", os.path.join(folder, "link"))
    bad = 0
    for i, (file, (change, *args), want, says) in enumerate(ROWS):
        m = load(file)
        change(m, *args)
        bad += check(f"row {i} of {file}", outcome(m, folder), want, says)
    for i, ((change, *args), want, says) in enumerate(TEXTS):
        m = load("text")
        change(m, *args)
        bad += check(f"text {i}", outcome(m, folder, tokens=12), want, says)
    image = load("small").SerializeToString()
    for n in [*range(64), *range(64, len(image), 997)]:  # every truncated file is refused
        bad += outcome(image[:n], folder)[0] not in (DATA, CONFIG)
    for junk in (bytes(1000), open(os.path.join(GOLDEN, "onnx_small.safetensors"), "rb").read(), b"\n\xff\xff\xff\xff\x0f" + bytes(100)):
        bad += check("no ONNX file", outcome(junk, folder), DATA, "it is no ONNX file, or a truncated one")
    rng = np.random.default_rng(1)
    for _ in range(300):  # flipped bytes: an error of ours, or a file
        broken = bytearray(load("small" if rng.integers(2) else "many").SerializeToString())
        for _ in range(rng.integers(1, 6)):
            broken[rng.integers(len(broken))] = rng.integers(256)
        outcome(bytes(broken), folder)
    bad += exports(folder)
    print(f"{len(ROWS) + len(TEXTS)} rows, {bad} bad")
    sys.exit(bad > 0)


def exports(folder):
    """What splitc writes: no two nodes of a name, batch norms and dropouts of that form, and it is known whether one was removed since."""
    config, out, bad = os.path.join(folder, "out.yaml"), os.path.join(folder, "out.onnx"), 0
    for file, forms in (("small", 4), ("wide", 1), ("many", 0)):
        with open(config, "w") as f:
            f.write(f"model: {{network: {GOLDEN}/onnx_{file}.safetensors}}\ndata: {{dir: unused}}\n")
        for training in (False, True):
            subprocess.run([os.environ["SPLITC"], "export", config, out, "--weights", f"{GOLDEN}/onnx_{file}.safetensors", *["--training"] * training], check=True, stdout=subprocess.DEVNULL)
            m = onnx.load(out)
            names = [n.name for n in m.graph.node if n.name]
            two = [n for n in m.graph.node if n.op_type in ("BatchNormalization", "Dropout")]
            right = all(attr(n, "training_mode").i == training and len(n.output) == (3 if training else 1) if n.op_type[0] == "B" else
                        len(n.input) == (3 if training else 2) for n in two)
            bad += check(f"{file} of splitc", outcome(m, folder), None, "")
            bad += len(set(names)) != len(names) or not right or len(two) != forms
            if two and not training:
                two[0].op_type = "Identity"
                bad += check(f"{file} without a norm", outcome(m, folder), CONFIG, "another program has changed it since")
    return bad


main()
