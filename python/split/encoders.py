"""Encoders of torch.nn and of transformers, its Llama layers, and what they are made of: linear layers, LoRA, attention in modules."""
import functools

import torch
import torch.nn.functional as F
from torch import nn

from . import errors, heads, made, recurrent, tracing
from .builder import UNREAD, Last, Param, Value, must, params, real
from .lora import Lora


def _heads(b, name, m, prefix, x, causal=False):
    """Self-attention of torch.nn: in_proj is split into three linear layers."""
    must(name, m, batch_first=True, bias_k=None, add_zero_attn=False, _qkv_same_embed_dim=True)
    e, parts = m.embed_dim, []
    if b.whole:  # a file keeps PyTorch's own parameters
        y = b.linear(f"{name}.in_proj", x, *(*params(prefix, m, "in_proj_weight", "in_proj_bias"), None)[:2])
        parts = [b.resampled(f"{name}.{which}", y, 2, e, first=i * e) for i, which in enumerate("qkv")]
    for i, which in enumerate("" if b.whole else "qkv"):
        rows = (i * e, (i + 1) * e)
        w = Param(f"{prefix}in_proj.{which}.weight", prefix + "in_proj_weight", m.in_proj_weight, rows=rows)
        bias = m.in_proj_bias is not None
        bias = Param(f"{prefix}in_proj.{which}.bias", prefix + "in_proj_bias", m.in_proj_bias, rows=rows) if bias else None
        parts.append(b.linear(f"{name}.{which}", x, w, bias))
    _check_part(f"{name}.out_proj", m.out_proj, nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear)
    y = b.attention(f"{name}.attention", *parts, m.num_heads, m.dropout, causal)
    return b.linear(f"{name}.out_proj", y, *_pair(f"{prefix}out_proj.", m.out_proj))


def _multihead(b, name, m, prefix, x, causal=False):
    """nn.MultiheadAttention; the attention weights that it also returns are UNREAD."""
    return _heads(b, name, m, prefix, x, causal), UNREAD


def _pair(prefix, m):
    return (*params(prefix, m), None)[:2]


def _class(m):
    """The full name of the class of m; for a scripted module, of the class that was scripted."""
    scripted = isinstance(m, torch.jit.ScriptModule)
    return tracing.scripted_class(m)[len("__torch__."):] if scripted else f"{type(m).__module__}.{type(m).__qualname__}"


def _check_part(name, m, kind, *others):
    """Refuses a part of another class than its package gives it: the forward of that class would not be called."""
    if _class(m) not in [f"{k.__module__}.{k.__qualname__}" for k in (kind, *others)]:
        raise errors.config(f"{name}: {_class(m).rpartition('.')[2]} is not known there on the server, {kind.__name__} of torch.nn is")


_ACTS = {F.relu: "act", F.gelu: "gelu", "torch.nn.modules.activation.ReLU": "act", "torch.nn.modules.activation.GELU": "gelu",
         "transformers.activations.GELUActivation": "gelu"}
_PARTS = {"self_attn": nn.MultiheadAttention, "linear1": nn.Linear, "linear2": nn.Linear, "norm1": nn.LayerNorm, "norm2": nn.LayerNorm,
          **dict.fromkeys(("dropout", "dropout1", "dropout2"), nn.Dropout)}


def _encoder_layer(b, name, m, prefix, x, causal=False):
    _check_part(name, m, nn.TransformerEncoderLayer)
    for part, kind in _PARTS.items():
        _check_part(f"{name}.{part}", getattr(m, part), kind)

    def attend(x):
        y = _heads(b, f"{name}.self_attn", m.self_attn, f"{prefix}self_attn.", x, causal)
        return b.dropout(f"{name}.dropout1", y, m.dropout1.p)

    def feed(x):
        h = b.linear(f"{name}.linear1", x, *_pair(f"{prefix}linear1.", m.linear1))
        act = getattr(m, "activation", None)  # a scripted layer has no function such as F.gelu, and a module only scripted
        must(f"{name}.activation", act, approximate="none")
        kind = _ACTS.get(act) or _ACTS.get(_class(act))
        kind = {1: "act", 2: "gelu"}.get(m.activation_relu_or_gelu) if act is None else kind
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
    for i, layer in enumerate(m.layers._modules.values()):  # children() lists a shared layer once
        x = _encoder_layer(b, f"{name}.layers.{i}", layer, f"{prefix}layers.{i}.", x, causal)
    if m.norm is None:
        return x
    _check_part(f"{name}.norm", m.norm, nn.LayerNorm)
    return b.norm(f"{name}.norm", x, m.norm, f"{prefix}norm.")


def arguments(b, build, name, args, kwargs):
    """The arguments of a module without its mask, and a build that knows whether the mask is causal. build: of graph.MODULES."""
    if build is _multihead:
        args = [*args, *(kwargs.pop(k) for k in ("query", "key", "value") if k in kwargs)]
        if len(args) < 3 or any(a is not args[0] for a in args[:3]) or args[3:4] not in ([], [None]):
            raise errors.config(f"{name}: the server has attention of one input, with a causal mask or none")
        args = args[:1] + args[5:6]
    if build in recurrent.MODULES.values():
        state = kwargs.pop("hx", args[1] if len(args) > 1 else None)
        args, build = args[:1], functools.partial(build, state=state)
    if build in _MASKED:
        mask = kwargs.pop(_MASKED[build], args[1] if len(args) > 1 else None)
        causal = mask is not None and heads.hides(b, name, mask, args[0].shape[0])
        if kwargs.pop("is_causal", None) and not causal:
            raise errors.config(f"{name}: is_causal needs a causal mask")
        args, build = [args[0], *args[2:]], functools.partial(build, causal=causal)
    return args, build


def _lora(b, name, m, prefix, x):
    _check_part(f"{name}.base_layer", m.base_layer, nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear)
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
    """The first output of a module; there are no others here."""


def _of_transformers(m):
    return type(m).__module__.startswith("transformers.")


def named(m):
    """The build for a class of transformers, which may not be installed; None for a class of this name elsewhere."""
    return NAMED.get(type(m).__name__) if _of_transformers(m) else None


def _linear_parts(b, name, m, prefix, *paths):
    """A function part(path, x) of the linear layers of m. paths: submodules that must be those of transformers."""
    for path in paths:
        if not _of_transformers(m.get_submodule(path)):
            raise errors.config(f"{name}.{path}: {_class(m.get_submodule(path))} is not known there on the server, that of transformers is")

    def part(path, x):
        _check_part(f"{name}.{path}", m.get_submodule(path), nn.Linear, Lora)
        return linear(b, f"{name}.{path}", m.get_submodule(path), f"{prefix}{path}.", x)
    return part


def _hf_layer(b, name, m, prefix, x):
    """A layer of BERT or RoBERTa as transformers writes it: attention, dense, add, norm; dense, act, dense, add, norm."""
    part = _linear_parts(b, name, m, prefix, "attention", "attention.self", "attention.output", "intermediate", "output")

    def close(path, x, residual):
        out = m.get_submodule(path)
        _check_part(f"{name}.{path}.dropout", out.dropout, nn.Dropout)
        _check_part(f"{name}.{path}.LayerNorm", out.LayerNorm, nn.LayerNorm)
        y = b.dropout(f"{name}.{path}.dropout", part(f"{path}.dense", x), out.dropout.p)
        return b.norm(f"{name}.{path}.LayerNorm", b.add(f"{name}.{path}.add", y, residual), out.LayerNorm,
                      f"{prefix}{path}.LayerNorm.")
    attend, act = m.attention.self, m.intermediate.intermediate_act_fn
    for key in ("is_decoder", "add_cross_attention"):
        if getattr(m, key, False) or getattr(attend, key, False):
            raise errors.config(f"{name}: {key}=True is not known on the server, False is")
    if getattr(attend, "position_embedding_type", "absolute") != "absolute":
        raise errors.config(f"{name}: position_embedding_type={attend.position_embedding_type} is not known on the server")
    _check_part(f"{name}.attention.self.dropout", attend.dropout, nn.Dropout)
    q, k, v = (part(f"attention.self.{which}", x) for which in ("query", "key", "value"))
    y = b.attention(f"{name}.attention.self", q, k, v, attend.num_attention_heads, attend.dropout.p)
    x = close("attention.output", y, x)
    must(f"{name}.intermediate.act", act, approximate="none")
    kind = _ACTS.get(act) or _ACTS.get(_class(act))
    if kind is None:
        raise errors.config(f"{name}: activation {act} is not known on the server, gelu and relu are")
    h = b.act(f"{name}.intermediate.act", part("intermediate.dense", x), kind)
    y = close("output", h, x)
    return First(y.number, y.shape)


def _llama_layer(b, name, m, prefix, x):
    """A layer of Llama as transformers writes it: norm, rotated causal attention, add; norm, gated linear layers, add."""
    part = _linear_parts(b, name, m, prefix, "self_attn", "mlp", "input_layernorm", "post_attention_layernorm")
    config = m.self_attn.config
    rope = getattr(config, "rope_parameters", None) or {"rope_theta": config.rope_theta, **(getattr(config, "rope_scaling", None) or {})}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default" or _class(m.mlp.act_fn).rpartition(".")[2] not in ("SiLU", "SiLUActivation"):
        raise errors.config(f"{name}: rope of type {kind} and {_class(m.mlp.act_fn)}: a script's Llama has the type default and SiLU")

    def norm(path, x):
        own, eps = m.get_submodule(path), real(m.get_submodule(path).variance_epsilon)
        return b.node(f"{name}.{path}", "rmsnorm", [x], x.shape, params(f"{prefix}{path}.", own), eps=None if eps == "1e-05" else eps)
    h = norm("input_layernorm", x)
    q, k, v = (part(f"self_attn.{which}_proj", h) for which in "qkv")
    y = b.attention(f"{name}.self_attn", q, k, v, config.num_attention_heads, config.attention_dropout, True,
                    kv=config.num_key_value_heads, rope=real(rope["rope_theta"]))
    x = b.add(f"{name}.add_attention", x, part("self_attn.o_proj", y))
    h = norm("post_attention_layernorm", x)
    gate = b.act(f"{name}.mlp.act_fn", part("mlp.gate_proj", h), "silu")
    y = b.add(f"{name}.add_mlp", x, part("mlp.down_proj", b.mul(f"{name}.mlp.mul", gate, part("mlp.up_proj", h))))
    return First(y.number, y.shape)


NAMED = {"BertLayer": _hf_layer, "RobertaLayer": _hf_layer, "LlamaDecoderLayer": _llama_layer}
_MASKED = {_multihead: "attn_mask", _encoder_layer: "src_mask", _encoder: "mask"}
MODULES = {nn.Linear: linear, Lora: linear, nn.MultiheadAttention: _multihead, nn.TransformerEncoderLayer: _encoder_layer,
           nn.TransformerEncoder: _encoder}
