"""split.write_network: a torch module as a file that model.network of a config names: its graph and its weights."""
import json
import os

import torch

from . import errors, scripted


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


def _read(module, example):
    """The builder and the output. Of token ids each row has its own length, if the network allows that."""
    shape = tuple(example.shape)
    if example.is_floating_point():
        form = {2: "row", 3: "row", 4: "image"}.get(len(shape))
    else:
        form = "tokens" if len(shape) == 2 else None
    if not form:
        raise errors.config(f"an example of {list(shape)}: give images [rows, channels, height, width], rows [rows, features], signals "
                            "[rows, channels, length], or token ids [rows, tokens]")
    if form == "tokens":
        try:
            return scripted.read(module, [shape], True, form)
        except errors.ConfigError:
            pass
    return scripted.read(module, [shape], False, form)


def write_network(module, example, file):
    """Writes module, with its weights, to the safetensors file. example: an input, whose sizes the network then takes: float
    images [rows, channels, height, width], rows [rows, features] or signals [rows, channels, length], or integer token ids
    [rows, tokens]. The output is [rows, classes] or, for a class for each pixel, [rows, classes, height, width]."""
    builder, out = _read(module, example)
    text = builder.text(out, lambda p: _role(p, module))
    if len(out.shape) not in (1, 3):
        raise errors.config(f"the network gives {list(out.shape)} for each row: give [classes], or [classes, height, width]")
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    tensors, layout = {}, {}
    for p in builder.params:
        tensors[p.name], word = p.to_file(state[p.key] if p.constant is None else p.constant)
        if word:
            layout[p.name] = word
    _tensors(file, tensors, {"format": "pt", "split.graph": text, "split.network": json.dumps({"layout": layout})})


def _role(p, module):
    if p.constant is not None:
        return "frozen"
    tensor = dict(module.named_parameters()).get(p.key)
    return "stat" if tensor is None else "" if tensor.requires_grad else "frozen"
