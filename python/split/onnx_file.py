"""The bytes of an ONNX file, checked: its tensors, its input and output. A file is untrusted: a malformed one is a DataError, and what is
not read a ConfigError."""
import math
import os

import numpy as np
import torch

from . import errors

try:
    import onnx
    from google.protobuf.message import DecodeError
except ImportError as e:
    raise ImportError(f"{e}: ONNX files need the package onnx, python3-onnx of Debian") from None

MOST = 1 << 20  # the largest size of a window, of an axis that is cut, and of a hidden state
MOST_NODES, MOST_TENSORS, MOST_DIMS, MOST_BYTES, MOST_ELEMENTS = 8192, 16384, 8, (1 << 31) - 1, (1 << 31) - 1
OPSETS = range(13, 21)
SIDES, MOST_CHANNELS, MOST_TOKENS, MOST_FEATURES = range(8, 4097), 16, 65535, 65536
TRAINABLE = "split.trainable_nodes"  # a note of `splitc export`: how many batch norms and dropouts a file that predicts has
HOW = "torch.onnx.export(model.train(), x, FILE, training=TrainingMode.TRAINING, do_constant_folding=False, opset_version=16)"

T = onnx.TensorProto
_NUMPY = {T.FLOAT: ("float_data", "<f4"), T.DOUBLE: ("double_data", "<f8"), T.INT64: ("int64_data", "<i8"), T.INT32: ("int32_data", "<i4"),
          T.BOOL: ("int32_data", "?"), T.FLOAT16: ("int32_data", "<f2"), T.BFLOAT16: ("int32_data", "<u2")}


def _outside(t, name, folder):
    """The bytes of a tensor that lies in a file beside."""
    where = {e.key: e.value for e in t.external_data}
    path = where.get("location", "")
    if not path or os.path.isabs(path) or ".." in path.replace("\\", "/").split("/"):
        raise errors.config(f"tensor {name!r} lies in {path!r}, which is no file in the folder of the ONNX file")
    path = os.path.join(folder, path)
    if not os.path.realpath(path).startswith(os.path.realpath(folder) + os.sep) or not os.path.isfile(path):
        raise errors.config(f"tensor {name!r} lies in {path}, which is no file in the folder of the ONNX file")
    try:
        first, size = int(where.get("offset", 0)), os.path.getsize(path)
        count = int(where.get("length", size - first))
    except ValueError as e:
        raise errors.data(f"tensor {name!r}: {e}") from e
    if first < 0 or count < 0 or first + count > size or count > 4 * MOST_ELEMENTS:
        raise errors.data(f"tensor {name!r}: {path} ends in front of its end")
    with open(path, "rb") as f:
        f.seek(first)
        return f.read(count)


def array(t, name, folder):
    """A tensor as numpy has it. Floats of 16 bits become float32."""
    shape = tuple(t.dims)
    if t.HasField("segment"):
        raise errors.config(f"tensor {name!r} is a part of one; export it whole")
    if len(shape) > MOST_DIMS:
        raise errors.data(f"tensor {name!r} has {len(shape)} dimensions, where {MOST_DIMS} are the most")
    if min(shape, default=0) < 0 or math.prod(n or 1 for n in shape) > MOST_ELEMENTS:
        raise errors.data(f"tensor {name!r} is {list(shape)}, which no tensor can be")
    if t.data_type not in _NUMPY:
        raise errors.config(f"tensor {name!r} is of type {t.data_type}; floats, whole numbers and booleans are read")
    field, kind = _NUMPY[t.data_type]
    if t.data_location or t.external_data:
        raw = _outside(t, name, folder)
    else:
        raw = t.raw_data if t.HasField("raw_data") else None
    if raw is None:
        found = np.array(getattr(t, field), "u2" if kind in ("<f2", "<u2") else kind)
        found = found.view("<f2") if kind == "<f2" else found
    elif len(raw) != math.prod(shape) * np.dtype(kind).itemsize:
        found = np.empty(0) if math.prod(shape) else np.empty(1)
    else:
        found = np.frombuffer(raw, kind)
    if found.size != math.prod(shape):
        raise errors.data(f"tensor {name!r} is {list(shape)}, but its data are not as long")
    if t.data_type == T.BFLOAT16:
        found = (found.astype("<u4") << 16).view("<f4")
    return found.astype(found.dtype.newbyteorder("=") if t.data_type != T.FLOAT16 else np.float32).reshape(shape)


def sizes(value):
    """The sizes of an input or output; 0: the file leaves it open. None: it is no tensor of known rank."""
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not kind.HasField("shape"):
        return None
    return [d.dim_value if d.HasField("dim_value") else 0 for d in kind.shape.dim]


class File:
    """graph; opset; trainable: it predicts, and has all that training needs; arrays: of initializers, by name; input, mask, output."""

    def __init__(self, path):
        self.path, self.name = path, os.path.basename(path)
        self.folder = os.path.dirname(os.path.abspath(path))
        try:
            if os.path.getsize(path) > MOST_BYTES:
                raise errors.data("it is larger than 2 GiB")
            with open(path, "rb") as f:
                self.model = onnx.ModelProto.FromString(f.read())
        except DecodeError as e:
            raise errors.data(f"it is no ONNX file, or a truncated one; write one with {HOW}") from e
        except OSError as e:
            raise errors.error_of(0, 66, "", 0, e.strerror) from e
        self.graph = self.model.graph
        self._check()
        self.arrays = {}
        for i, t in enumerate(self.graph.initializer):
            if not t.name or t.name in self.arrays:
                raise errors.data(f"two initializers are called {t.name!r}" if t.name else f"initializer {i} has no name")
            self.arrays[t.name] = array(t, t.name, self.folder)
        self._find_ends()

    def _check(self):
        g = self.graph
        if not self.model.HasField("graph") or not self.model.opset_import:
            raise errors.data(f"it is no ONNX file, or a truncated one; write one with {HOW}")
        self.opset = next((o.version for o in self.model.opset_import if o.domain in ("", "ai.onnx")), 0)
        if self.opset not in OPSETS:
            raise errors.config(f"its opset is {self.opset}, where {OPSETS[0]} to {OPSETS[-1]} are read; export with {HOW}")
        if getattr(self.model, "functions", None) or g.sparse_initializer:
            raise errors.config(f"it has functions or sparse initializers, which are not read; export with {HOW}")
        for many, most, what in ((g.node, MOST_NODES, "nodes"), (g.initializer, MOST_TENSORS, "initializers")):
            if len(many) > most:
                raise errors.data(f"it has {len(many)} {what}, where {most} are the most")
        for i, n in enumerate(g.node):
            if not n.op_type or not n.output:
                raise errors.data(f"node {i} has no kind, or no output")
        note = next((p.value for p in self.model.metadata_props if p.key == TRAINABLE), None)
        has = sum(n.op_type in ("BatchNormalization", "Dropout") for n in g.node)
        if note not in (None, str(has)):
            raise errors.config(f"splitc wrote it with {note[:20]} batch norms and dropouts, and it has {has}: another program has changed "
                                "it since. Give the file that splitc wrote")
        self.trainable = note is not None

    def _table(self, name):
        """The smallest matrix that a Gather looks up by this input, or by a Cast or a Transpose of it; None: there is none."""
        names = {name, *(n.output[0] for n in self.graph.node if n.op_type in ("Cast", "Transpose") and name in n.input[:1])}
        found = [self.arrays[n.input[0]] for n in self.graph.node
                 if n.op_type == "Gather" and len(n.input) == 2 and n.input[1] in names and n.input[0] in self.arrays]
        return min((t for t in found if t.ndim == 2), key=len, default=None)

    def _find_ends(self):
        g = self.graph
        given = [v for v in g.input if v.name not in self.arrays]  # older exporters list initializers, too
        tables = [self._table(v.name) is not None for v in given]
        if not given or len(given) > 2 or (len(given) == 2 and sum(tables) != 1) or not all(v.name for v in given):
            raise errors.config(f"its inputs are {', '.join(v.name for v in given) or 'none'}: a network takes images or a row; or token ids, "
                                "and beside them a mask of padding")
        self.input, self.mask = given[tables.index(True) if any(tables) else 0], None
        if len(given) == 2:
            self.mask = given[tables.index(False)]
            if len(sizes(self.mask) or ()) != 2:
                raise errors.config(f"its input {self.mask.name!r} is not a mask, [batch, tokens]")
        if len(g.output) != 1 or not g.output[0].name:
            raise errors.config(f"it has {len(g.output)} outputs, where a network gives one: the logits; of a torchvision network with "
                                "helpers, aux_logits=False turns these off")
        self.output = g.output[0].name

    def takes(self, image, tokens):
        """The form of the input, its shape without the batch, and the batch; 0: open. image, tokens: sizes that the file may leave open."""
        name, shape = self.input.name, sizes(self.input)
        kind, batch = self.input.type.tensor_type.elem_type, shape[0] if shape else 0
        n = len(shape or ())
        if kind != T.FLOAT and n == 2 and self._table(name) is not None:
            if tokens and shape[1] and tokens != shape[1]:
                raise errors.config(f"its rows have {shape[1]} tokens, not {tokens}: leave tokens out")
            if not 1 < (shape[1] or tokens or 0) <= MOST_TOKENS:
                raise errors.config("the file leaves open how many tokens a row has: give the most, as --tokens 128")
            self.open_tokens = not shape[1]
            return "tokens", (shape[1] or tokens,), batch
        if kind != T.FLOAT or n not in (2, 3, 4):
            raise errors.config(f"its input {name!r} is not of floats, [batch, channels, height, width] of images, [batch, features] or "
                                "[batch, channels, length]; or token ids, [batch, tokens]")
        if n < 4:
            if min(shape[1:]) < 1 or math.prod(shape[1:]) > MOST_FEATURES:
                raise errors.config(f"its input {name!r} has rows of {shape[1:]}: give 1 to {MOST_FEATURES} numbers, of known sizes")
            return "row", tuple(shape[1:]), batch
        c, *side = shape[1:]
        if image and any(s and s != i for s, i in zip(side, image)):
            raise errors.config(f"its images are of {side[0]}x{side[1]}, not {image[0]}x{image[1]}: leave the size out")
        side = [s or (image[i] if image else 0) for i, s in enumerate(side)]
        if not 1 <= c <= MOST_CHANNELS:
            raise errors.config(f"its input {name!r} has {c} channels, where images have 1 to {MOST_CHANNELS}")
        if 0 in side:
            raise errors.config("the file leaves open how large its images are: give their size, as --image 64, or height and width as "
                                "--image 64x48")
        if any(s not in SIDES for s in side):
            raise errors.config(f"its images are of {side[0]}x{side[1]}: height and width must lie in {SIDES[0]} … {SIDES[-1]}")
        return "image", (c, *side), batch


def as_torch(a):
    return torch.from_numpy(np.array(a, np.float32 if a.dtype.kind == "f" else a.dtype))
