"""Encoders of torch.nn and of transformers, and what they are made of: linear layers, LoRA, attention in modules."""
import functools

import torch
import torch.nn.functional as F
from torch import nn

from . import errors, heads, made, tracing
from .builder import Last, Param, Value, must, params
from .lora import Lora


def _heads(b, name, m, prefix, x, causal=False):
    """Self-attention of torch.nn: in_proj is cut into three."""
    must(name, m, batch_first=True, bias_k=None, add_zero_attn=False, _qkv_same_embed_dim=True)
    e, parts = m.embed_dim, []
    for i, which in enumerate("qkv"):
        rows = (i * e, (i + 1) * e)
        w = Param(f"{prefix}in_proj.{which}.weight", prefix + "in_proj_weight", m.in_proj_weight, rows=rows)
        bias = m.in_proj_bias is not None
        bias = Param(f"{prefix}in_proj.{which}.bias", prefix + "in_proj_bias", m.in_proj_bias, rows=rows) if bias else None
        parts.append(b.linear(f"{name}.{which}", x, w, bias))
    y = b.attention(f"{name}.attention", *parts, m.num_heads, m.dropout, causal)
    return b.linear(f"{name}.out_proj", y, *_pair(f"{prefix}out_proj.", m.out_proj))


def _multihead(b, name, m, prefix, x, causal=False):
    """The weights of attention are not there."""
    return _heads(b, name, m, prefix, x, causal), None


def _pair(prefix, m):
    return (*params(prefix, m), None)[:2]


def _class(m):
    """That of torch.nn, also of a scripted module."""
    return tracing.scripted_class(m).rpartition(".")[2] if isinstance(m, torch.jit.ScriptModule) else type(m).__name__


def _check_parts(name, m):
    """A layer may have other parts than torch.nn gives it, whose forward would not be called."""
    usual = {"": "TransformerEncoderLayer", "self_attn": "MultiheadAttention", "linear1": "Linear", "linear2": "Linear",
             **dict.fromkeys(("norm1", "norm2"), "LayerNorm"), **dict.fromkeys(("dropout", "dropout1", "dropout2"), "Dropout")}
    for part, kind in usual.items():
        found = getattr(m, part) if part else m
        own = not isinstance(found, torch.jit.ScriptModule) and not type(found).__module__.startswith("torch.nn.")
        if own or _class(found) not in (kind, "NonDynamicallyQuantizableLinear"):
            raise errors.config(f"{name}{'.' * bool(part)}{part}: {_class(found)} is not known there on the server, {kind} of torch.nn is")


def _encoder_layer(b, name, m, prefix, x, causal=False):
    _check_parts(name, m)

    def attend(x):
        y = _heads(b, f"{name}.self_attn", m.self_attn, f"{prefix}self_attn.", x, causal)
        return b.dropout(f"{name}.dropout1", y, m.dropout1.p)

    def feed(x):
        h = b.linear(f"{name}.linear1", x, *_pair(f"{prefix}linear1.", m.linear1))
        act = getattr(m, "activation", None)  # a scripted layer does not have F.gelu, and has a module as a scripted one
        must(f"{name}.activation", act, approximate="none")
        kind = {F.relu: "act", F.gelu: "gelu"}.get(act) or {nn.ReLU: "act", nn.GELU: "gelu"}.get(type(act))
        if act is None or isinstance(act, torch.jit.ScriptModule):
            kind = {1: "act", 2: "gelu"}.get(m.activation_relu_or_gelu)
        if kind is None:
            raise errors.config(f"{name}: activation={act} is not known on the server, relu and gelu are")
        h = b.act(f"{name}.activation", h, kind)
        h = b.linear(f"{name}.linear2", b.dropout(f"{name}.dropout", h, m.dropout.p), *_pair(f"{prefix}linear2.", m.linear2))
        return b.dropout(f"{name}.dropout2", h, m.dropout2.p)

    def norm(i, x):
        return b.norm(f"{name}.norm{i}", x, getattr(m, f"norm{i}"), f"{prefix}norm{i}.")
    if m.norm_first:
        x = b.add(f"{name}.add1", x, attend(norm(1, x)))
        return b.add(f"{name}.add2", x, feed(norm(2, x)))
    x = norm(1, b.add(f"{name}.add1", x, attend(x)))
    return norm(2, b.add(f"{name}.add2", x, feed(x)))


def _encoder(b, name, m, prefix, x, causal=False):
    for i, layer in enumerate(m.layers.children()):
        x = _encoder_layer(b, f"{name}.layers.{i}", layer, f"{prefix}layers.{i}.", x, causal)
    return b.norm(f"{name}.norm", x, m.norm, f"{prefix}norm.") if m.norm is not None else x


def arguments(build, name, args, kwargs):
    """Those of a module without its mask, and the build which knows whether that is causal; build: of graph.MODULES."""
    if build is _multihead:
        args = [*args, *(kwargs.pop(k) for k in ("query", "key", "value") if k in kwargs)]
        if len(args) < 3 or any(a is not args[0] for a in args[:3]) or args[3:4] not in ([], [None]):
            raise errors.config(f"{name}: the server has attention of one input, with a causal mask or none")
        args = args[:1] + args[5:6]
    if build in _MASKED:
        mask = kwargs.pop(_MASKED[build], args[1] if len(args) > 1 else None)
        causal = mask is not None and heads.hides(name, mask, args[0].shape[0])
        if kwargs.pop("is_causal", None) and not causal:
            raise errors.config(f"{name}: is_causal needs a causal mask")
        args, build = [args[0], *args[2:]], functools.partial(build, causal=causal)
    return args, build


def _lora(b, name, m, prefix, x):
    base = b.linear(f"{name}.base_layer", x, *_pair(f"{prefix}base_layer.", m.base_layer))
    y = b.dropout(f"{name}.lora_dropout", x, m.lora_dropout.p)
    for part in ("lora_A", "lora_B"):
        y = b.linear(f"{name}.{part}", y, *_pair(f"{prefix}{part}.default.", getattr(m, part)["default"]))
    return b.add(f"{name}.lora_add", base, b.mul(f"{name}.lora_scale", y, m.scale))


def linear(b, name, m, prefix, x):
    if isinstance(x, Last):
        return made.linear_of_pixels(b, name, m, prefix, x)
    return _lora(b, name, m, prefix, x) if isinstance(m, Lora) else b.linear(name, x, *_pair(prefix, m))


class First(Value):
    """The first of what a module gives; the others are not there."""


def _hf_layer(b, name, m, prefix, x):
    """A layer of BERT or RoBERTa as transformers writes it: attention, dense, add, norm; dense, act, dense, add, norm."""
    def part(path, x):
        return linear(b, f"{name}.{path}", m.get_submodule(path), f"{prefix}{path}.", x)

    def close(path, x, residual):
        out = m.get_submodule(path)
        y = b.dropout(f"{name}.{path}.dropout", part(f"{path}.dense", x), out.dropout.p)
        return b.norm(f"{name}.{path}.LayerNorm", b.add(f"{name}.{path}.add", y, residual), out.LayerNorm,
                      f"{prefix}{path}.LayerNorm.")
    attend, act = m.attention.self, m.intermediate.intermediate_act_fn
    for key in ("is_decoder", "add_cross_attention"):
        if getattr(m, key, False) or getattr(attend, key, False):
            raise errors.config(f"{name}: {key}=True is not known on the server, False is")
    if getattr(attend, "position_embedding_type", "absolute") != "absolute":
        raise errors.config(f"{name}: position_embedding_type={attend.position_embedding_type} is not known on the server")
    q, k, v = (part(f"attention.self.{which}", x) for which in ("query", "key", "value"))
    y = b.attention(f"{name}.attention.self", q, k, v, attend.num_attention_heads, attend.dropout.p)
    x = close("attention.output", y, x)
    kinds = {F.gelu: "gelu", F.relu: "act", nn.GELU: "gelu", nn.ReLU: "act"}
    kind = kinds.get(act) or kinds.get(type(act)) or ("gelu" if type(act).__name__ == "GELUActivation" else None)
    if kind is None:
        raise errors.config(f"{name}: activation {act} is not known on the server, gelu and relu are")
    h = b.act(f"{name}.intermediate.act", part("intermediate.dense", x), kind)
    y = close("output", h, x)
    return First(y.number, y.shape)


NAMED = {"BertLayer": _hf_layer, "RobertaLayer": _hf_layer}  # of classes whose package need not be here
_MASKED = {_multihead: "attn_mask", _encoder_layer: "src_mask", _encoder: "mask"}
MODULES = {nn.Linear: linear, Lora: linear, nn.MultiheadAttention: _multihead, nn.TransformerEncoderLayer: _encoder_layer,
           nn.TransformerEncoder: _encoder}
