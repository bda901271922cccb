"""Networks in files, as model.network of a config names them: split.write_network writes a torch module's graph and weights,
split.read_network reads a file for RemoteModule."""
import json
import math
import os
import re

import torch
from torch import nn

from . import errors, scripted
from .builder import Param


def _tensors(path, tensors, notes):
    """Writes a safetensors file, whole or not at all."""
    header, at = {"__metadata__": notes}, 0
    for name, t in tensors.items():
        size = t.numel() * t.element_size()
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    beside = f"{path}.{os.getpid()}.tmp"
    try:
        with open(beside, "wb") as f:
            f.write(len(text).to_bytes(8, "little") + text)
            for t in tensors.values():
                f.write(t.numpy().astype("<f4").tobytes())
            f.flush()
            os.fsync(f.fileno())
        os.replace(beside, path)
    except BaseException:
        if os.path.exists(beside):
            os.unlink(beside)
        raise


def _form(example):
    shape = tuple(example.shape)
    form = {2: "row", 3: "row", 4: "image", 5: "image"}.get(len(shape)) if example.is_floating_point() else "tokens" if len(shape) == 2 else None
    if not form:
        raise errors.config(f"an example of {list(shape)}: give images [rows, channels, height, width], volumes [rows, channels, depth, height, width], rows [rows, features], signals "
                            "[rows, channels, length], or token ids [rows, tokens]")
    return form


def _read(module, example):
    """The builder and the output. Of token ids each row has its own length, if the network allows that."""
    if isinstance(example, (tuple, list)) and len(example) == 1:
        example = example[0]
    if isinstance(example, (tuple, list)):
        fields = list(zip(scripted.argument_names(module, len(example)), map(_form, example)))
        if any(form == "tokens" or name in ("label", "loss") for name, form in fields):
            raise errors.config("of several inputs none is token ids, and none is called label or loss")
        return scripted.read(module, [tuple(e.shape) for e in example], False, fields)
    form, shape = _form(example), tuple(example.shape)
    if form == "tokens":
        try:
            return scripted.read(module, [shape], True, form)
        except errors.ConfigError:
            pass
    return scripted.read(module, [shape], False, form)


@errors.lined
def write_network(module, example, file):
    """Writes module, with its weights, to the safetensors file. example: an input, whose sizes the network then takes: float
    images [rows, channels, height, width], volumes [rows, channels, depth, height, width], rows [rows, features] or signals [rows, channels, length], or integer token ids
    [rows, tokens]. Of a network with several inputs it is a tuple: share.inputs names them as forward does. The output is [rows, classes] or, for a class for each pixel or voxel, [rows, classes, height, width] or [rows, classes, depth, height, width]."""
    builder, out = _read(module, example)
    text = builder.text(out, lambda p: _role(p, module))
    if len(out.shape) not in (1, 3, 4):
        raise errors.config(f"the network gives {list(out.shape)} for each row: give [classes], or [classes, height, width]")
    depth = [x.shape[0 if len(x.shape) < 4 else 1] if len(x.shape) > 3 else 0 for x in (builder.inputs[0], out)]
    save(builder, text, {**dict(module.named_parameters()), **dict(module.named_buffers())}, file, **({"depth": depth} if any(depth) else {}),
         **({"ids": {builder.fields[k][0]: [rooms.get(i, 0) for i in range(math.prod(builder.shapes[k]))] for k, rooms in builder.rooms.items()}} if builder.rooms else {}))


def save(builder, text, state, file, **more):
    """Writes the file of a network. text: of its graph; state: tensors by the keys of parameters; more: of the note split.network."""
    tensors, layout = {}, {}
    for p in builder.params:
        tensors[p.name], word = p.to_file(state[p.key] if p.constant is None else p.constant)
        if word:
            layout[p.name] = word
    notes = {"layout": layout, "constants": [p.name for p in builder.params if p.constant is not None and p.key not in state],
             **({"single": builder.single} if builder.single else {}), **more}
    _tensors(file, tensors, {"format": "pt", "split.graph": text, "split.network": json.dumps(notes)})


def _role(p, module):
    if p.constant is not None:
        return "frozen"
    tensor = dict(module.named_parameters()).get(p.key)
    return "stat" if tensor is None else "" if tensor.requires_grad else "frozen"


# ---- reading

_SIZES = r"\[([1-9][0-9]*(?:,[1-9][0-9]*)*)\]"
_NETWORK = re.compile(rf"graph 1\nin (image|row) f32 R{_SIZES}\nin [^\n]*\n((?:param [^\n]*\n)*)((?:node [^\n]*\n)+)"
                      r"node \S+ (?:xent|mse) %([2-9]|[1-9][0-9]+) %1\nout loss %[0-9]+\n")
_PARAM = re.compile(rf"param (\S+) {_SIZES}( stat| frozen)? \S+")
_DTYPE = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64}


class _Malformed(Exception):
    pass


def _contents(path):
    """The notes of a safetensors file, and a function that gives a tensor as float32, or None."""
    with open(path, "rb") as f:
        size = int.from_bytes(f.read(8), "little")
        if size > os.fstat(f.fileno()).st_size - 8:
            raise _Malformed("it is no safetensors file, or its end is missing")
        header, data = json.loads(f.read(size)), memoryview(f.read())

    def tensor(name):
        if name not in header or name == "__metadata__":
            return None
        dtype, shape, (first, end) = (header[name][key] for key in ("dtype", "shape", "data_offsets"))
        if dtype not in _DTYPE or not shape or min(shape) < 1 or not 0 <= first < end <= len(data):
            raise _Malformed(f"its tensor {name} is of a kind or size that no network has, or its end is missing")
        return torch.frombuffer(bytearray(data[first:end]), dtype=_DTYPE[dtype]).to(torch.float32).reshape(shape)
    return header.get("__metadata__", {}), tensor


class _Param:
    """A parameter of the file's graph, as RemoteModule reads a builder.Param. word: its layout by the file's note. What is
    [outer, n, rest] in the file is [outer, rest, n] in the graph."""

    constant = None

    def __init__(self, name, sizes, tensor, word):
        self.name = self.key = name
        self.shape, shape = sizes, () if tensor is None else tuple(tensor.shape)
        if not shape or math.prod(shape) != math.prod(sizes):
            raise _Malformed(f"its tensor {name} {'does not have the size of its parameter' if shape else 'is missing'}")
        self.taps = 1
        if word == "oidhw":
            self.outer, self.n, self.taps = shape[0], *(shape[1:3] if len(shape) == 5 else (0, 0))
            fits = self.n * self.taps == sizes[-1] and len(sizes) == 4
        elif isinstance(word, int):  # channels of a flattened image in front of a linear layer
            self.outer, self.n, fits = shape[0], word, len(shape) == 2 and word > 0 and shape[1] % word == 0
        else:
            self.outer, self.n = {"oihw": shape[:2], "chw": (1, shape[0])}.get(word, (1, 1))
            fits = word is None or (word in ("oihw", "chw") and self.n == sizes[-1])
        if not fits:
            raise _Malformed(f"its tensor {name} does not have the layout {word!r} of its note split.network")

    def to_graph(self, tensor):
        return tensor.detach().reshape(self.outer, self.n, self.taps, -1).transpose(1, 3).reshape(self.shape).contiguous()

    def from_graph(self, array, into):
        into.copy_(torch.from_numpy(array).reshape(self.outer, -1, self.taps, self.n).transpose(1, 3).reshape(into.shape))


def _node(line):
    """name, kind, values, parameters, attributes"""
    _, name, kind, *rest = line.split(" ")
    values, params = ([int(w[1:]) for w in rest if re.fullmatch(mark + "(0|[1-9][0-9]*)", w)] for mark in "%&")
    return name, kind, values, params, [w for w in rest if w[:1] not in "%&"]


def _as_middle(lines):
    """The nodes of a middle: values count without the labels, which are value 1 of a network, and a parameter is its number and, of q, k
    and v, which third of it. nn.MultiheadAttention is one linear layer with three parts in a file, and three layers in a middle."""
    given, nodes, new = list(map(_node, lines)), [], {0: 0}
    for i, (name, kind, values, params, more) in enumerate(given, 2):
        base, of = name.removesuffix(".in_proj"), given[i - 1:i + 2]
        parts = kind == "linear" and [n[:3] for n in of] == [(f"{base}.{w}", "resample", [i]) for w in "qkv"]
        if i in new:
            continue
        if any(v not in new for v in values):
            raise _Malformed(f"its node {name} reads the labels, or what is not there")
        for third in range(3) if parts and sum(i in n[2] for n in given) == 3 else (None,):
            nodes.append((name if third is None else f"{base}.{'qkv'[third]}", kind, [new[v] for v in values], [(k, third) for k in params], more))
            new[i if third is None else i + 1 + third] = len(nodes)
    return nodes, new


def _third(p, i, module):
    """The parameter of q, k or v, as RemoteModule has it of nn.MultiheadAttention."""
    rows = p.shape[0] // 3
    tensor = module.get_parameter(p.name)
    return Param(p.name.replace("in_proj_", f"in_proj.{'qkv'[i]}."), p.name, tensor, rows=(i * rows, (i + 1) * rows))


class _File:
    """The network of a file, in place of a builder.Builder."""

    read, lines, recorded = (), {}, None  # no values of tensors decide what the graph is, and no lines of a program wrote it

    def __init__(self, path, module):
        notes, tensor = _contents(path)
        if "split.graph" not in notes:
            raise _Malformed("it has weights and no network: split.write_network and `splitc export` write files with both")
        found, about = _NETWORK.fullmatch(notes["split.graph"]), json.loads(notes.get("split.network", "{}"))
        if not found or len(found[2].split(",")) != {"image": 3, "row": 1}[found[1]]:
            raise _Malformed("its graph does not lead from an image or a row to a loss; a middle cannot begin with token ids")
        depth = about.get("depth") if isinstance(about, dict) else None
        self.depth = depth if isinstance(depth, list) and len(depth) == 2 and all(type(d) is int and d >= 0 for d in depth) else [0, 0]
        if not isinstance(about, dict):
            raise _Malformed("its note split.network is no JSON object")
        self.path, self.sizes, self.single = path, tuple(map(int, found[2].split(","))), about.get("single")
        self.nodes, new = _as_middle(found[4].splitlines())
        self.out, self.streams = new[int(found[5])], sum(w.startswith("stream=") for *_, more in self.nodes for w in more)
        params = [self._param(line, tensor, about, module) for line in found[3].splitlines()]
        self.at = {p: i for i, p in enumerate(dict.fromkeys(p for *_, its, _ in self.nodes for p in its))}  # of each, its place in the graph
        self.params = [params[k] if third is None else _third(params[k], third, module) for k, third in self.at]

    @staticmethod
    def _param(line, tensor, about, module):
        found = _PARAM.fullmatch(line)
        if not found:
            raise _Malformed(f"its graph has {line[:60]!r}, which is no parameter of a network")
        name, sizes, role = found.groups()
        t = tensor(name)
        p = _Param(name, tuple(map(int, sizes.split(","))), t, about.get("layout", {}).get(name))
        if name in about.get("constants", ()):
            p.constant = t
            return p
        *parts, last = name.split(".")
        for part in parts:
            if part not in module._modules:
                module.add_module(part, nn.Module())
            module = module._modules[part]
        if role == " stat":
            module.register_buffer(last, t)
        else:
            module.register_parameter(last, nn.Parameter(t, requires_grad=not role))
        if last == "running_var":
            module.register_buffer("num_batches_tracked", torch.tensor(0))
        return p

    def of(self, shapes, per_token):
        """Checks the inputs of the largest call."""
        shape = tuple(shapes[0][1:])
        has, d = self.sizes[2:] + self.sizes[:2], self.depth[0]
        if d and has[1] % d == 0:
            has = (has[0], d, has[1] // d, has[2])
        if len(shapes) > 1 or per_token or (shape != has and (len(has) > 1 or len(shape) > 2 or math.prod(shape) != has[0])):
            raise errors.config(f"{self.path}: it takes [rows, {', '.join(map(str, has))}], and example has "
                                f"{', '.join(str(list(s)) for s in shapes)}{' with lengths' * per_token}")
        self.dims = ",".join(map(str, self.sizes if len(has) > 1 else shape))
        return self, None

    def text(self, out, role, still=()):
        lines = ["graph 1", f"in head_act f32 R[{self.dims}]{' still' * any(still)}"]
        for p in self.params:
            word = role(p)
            lines.append(f"param {p.name} [{','.join(map(str, p.shape))}]{' ' * bool(word)}{word} zero")
        for name, kind, values, its, more in self.nodes:
            lines.append(" ".join((f"node {name} {kind}", *(f"%{v}" for v in values), *(f"&{self.at[p]}" for p in its), *more)))
        return "\n".join((*lines, f"out mid_act %{self.out}", ""))


_HELD = "split.network"  # a name that no part of a network can have


class Network(nn.Module):
    """The parameters of a file, under their names."""

    def forward(self, *xs):
        raise errors.usage("a network that was read from a file computes on a server: give it to RemoteModule")


@errors.lined
def read_network(file):
    """The network of a file of split.write_network or `splitc export` whose input is images or rows, for RemoteModule. It has no
    forward of its own. Its parameters are for an optimizer."""
    found = Network()
    try:
        vars(found)[_HELD] = _File(file, found)
    except (_Malformed, ValueError, TypeError, AttributeError, LookupError, RuntimeError) as e:
        why = e if isinstance(e, _Malformed) else f"it is malformed ({type(e).__name__}: {e})"
        raise errors.error_of(0, 65, "", 0, f"{os.fspath(file)}: {why}") from None
    return found


def graph_of(module, shapes, per_token, still=(), again=False):
    """The builder and the output, or outputs, of a module, or of a network that was read. again: as scripted.read() has it."""
    held = vars(module).get(_HELD)
    return held.of(shapes, per_token) if held else scripted.read(module, shapes, per_token, still=still, again=again)
