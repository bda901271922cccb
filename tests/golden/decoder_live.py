#!/usr/bin/env python3
"""A pretrained decoder of Llama's form in plain PyTorch: logits of ten texts and of its own greedy text.

usage: decoder_live.py FOLDER OUT.safetensors
FOLDER  config.json and model.safetensors with transformers' names, float32, output tied to the embedding
OUT     tokens [T] I32, the rows one after another, and lengths [11] I32; logits [T, vocabulary] F32, computed in float64. The last
        row is greedy text. Others are drawn from what the model expects, so they are texts such as it was trained on.
"""
import json
import os
import sys

import numpy as np
import torch

import golden

PROMPTS, GREEDY = 10, 160


def turned(x, theta):
    """Rotary positions: features i and i + D/2 of [heads, n, D] are turned as a pair."""
    n, d = x.shape[1:]
    angle = torch.arange(n, dtype=x.dtype)[:, None] / theta ** (torch.arange(0, d, 2, dtype=x.dtype) / d)
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def logits(w, c, ids):
    heads, kv, n = c["num_attention_heads"], c["num_key_value_heads"], len(ids)
    normed = lambda x, name: x * (x.square().mean(-1, keepdim=True) + c["rms_norm_eps"]).rsqrt() * w[name]
    x = w["model.embed_tokens.weight"][ids]
    seen = torch.ones(n, n, dtype=torch.bool).tril()
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        y = normed(x, at + "input_layernorm.weight")
        q, k, v = ((y @ w[f"{at}self_attn.{name}_proj.weight"].T).reshape(n, h, -1).transpose(0, 1) for name, h in (("q", heads), ("k", kv), ("v", kv)))
        q, k, v = turned(q, c["rope_theta"]), turned(k, c["rope_theta"]).repeat_interleave(heads // kv, 0), v.repeat_interleave(heads // kv, 0)
        scores = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).masked_fill(~seen, -torch.inf)
        y = (torch.softmax(scores, -1) @ v).transpose(0, 1).reshape(n, -1)
        x = x + y @ w[at + "self_attn.o_proj.weight"].T
        y = normed(x, at + "post_attention_layernorm.weight")
        y = torch.nn.functional.silu(y @ w[at + "mlp.gate_proj.weight"].T) * (y @ w[at + "mlp.up_proj.weight"].T)
        x = x + y @ w[at + "mlp.down_proj.weight"].T
    return normed(x, "model.norm.weight") @ w["model.embed_tokens.weight"].T


def main():
    folder, out = sys.argv[1:]
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    assert config["model_type"] == "llama" and config["tie_word_embeddings"] and config["hidden_act"] == "silu"
    weights, _ = golden.read_safetensors(os.path.join(folder, "model.safetensors"))
    w = {name: torch.from_numpy(np.array(t)).double() for name, t in weights.items()}
    generator = torch.Generator().manual_seed(1)
    rows = []
    with torch.no_grad():
        for row in range(PROMPTS + 1):
            ids = [config["bos_token_id"]]
            while len(ids) < (GREEDY if row == PROMPTS else 1 + 7 * row):
                last = logits(w, config, torch.tensor(ids))[-1]
                ids.append(int(last.argmax() if row == PROMPTS else torch.multinomial(torch.softmax(last, 0), 1, generator=generator)))
            rows.append(ids)
        want = torch.cat([logits(w, config, torch.tensor(ids)) for ids in rows])
    golden.write_safetensors(out, {
        "tokens": np.array([t for ids in rows for t in ids], np.int32),
        "lengths": np.array([len(ids) for ids in rows], np.int32),
        "logits": want.numpy().astype(np.float32),
    })
    greedy = torch.nn.functional.cross_entropy(want[-GREEDY:-1], torch.tensor(rows[-1][1:]))
    print(f"{folder}: {len(rows)} rows; the loss on its greedy text is {greedy.item():.3f}")


if __name__ == "__main__":
    main()
