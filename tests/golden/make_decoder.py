#!/usr/bin/env python3
"""Makes llama_*, mistral_*, qwen2_* … .safetensors beside it: small decoders of random weights, by the rules of golden.py.

usage: make_decoder.py [FOLDER]            (needs torch; the files are committed)
       make_decoder.py FOLDER --of MODEL   pretrained_* instead, from MODEL: a folder with config.json and model.safetensors;
                                           and greedy.txt, the ids of its likeliest text
The reference is spelled out here, in plain PyTorch, row by row. Parameters have transformers' names. A run has tokens [T] I32, the rows
one after another, and lengths [N] I32; place [C] I32, counted from the batch's first token, are all tokens but the last of each row,
chosen [N] I32 says how many of them a row has, and labels are the tokens behind them. Metadata: config, the text of config.json;
causal; lora, "RANK ALPHA" of adapters, which alone learn, with the layers' last words in lora.target.
"""
import json
import os
import sys

import numpy as np
import torch
from torch.nn import functional

import golden
from make_encoder import state_of, train


def turned(x, c):
    """Rotary positions: features i and i + D/2 of [heads, n, D] are turned as a pair."""
    n, d = x.shape[1:]
    frequency = c.get("rope_theta", 10000.0) ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
    angle = torch.arange(n, dtype=x.dtype)[:, None] * frequency
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


class Decoder:
    """Parameters under their names, and what they compute."""

    def __init__(self, config, rows, generator, lora=None, weights=None):
        c = self.config = config
        self.param, self.lora, self.rows, self.training, self.done = {}, lora, rows, True, 0
        self.heads, self.kv = c["num_attention_heads"], c.get("num_key_value_heads") or c["num_attention_heads"]
        f, wide = c["hidden_size"], c["intermediate_size"]
        d = self.d = c.get("head_dim") or f // self.heads
        self.tied = c.get("tie_word_embeddings", False)
        bias = c["model_type"] == "qwen2" or c.get("attention_bias", False)

        def put(name, *shape, mean=0.0, std=c.get("initializer_range", 0.02)):
            self.param[name] = torch.randn(shape, generator=generator) * std + mean

        def dense(name, i, o, bias=False):
            put(name + ".weight", o, i)
            if bias:
                put(name + ".bias", o, std=0.1)
            if lora and name.rsplit(".", 1)[-1] in lora[2]:
                put(name + ".lora_A.weight", lora[0], i)
                put(name + ".lora_B.weight", o, lora[0])

        put("model.embed_tokens.weight", c["vocab_size"], f, std=0.5)
        for i in range(c["num_hidden_layers"]):
            at = f"model.layers.{i}."
            put(at + "input_layernorm.weight", f, mean=1, std=0.1)
            dense(at + "self_attn.q_proj", f, self.heads * d, bias)
            dense(at + "self_attn.k_proj", f, self.kv * d, bias)
            dense(at + "self_attn.v_proj", f, self.kv * d, bias)
            dense(at + "self_attn.o_proj", self.heads * d, f, c.get("attention_bias", False))
            put(at + "post_attention_layernorm.weight", f, mean=1, std=0.1)
            dense(at + "mlp.gate_proj", f, wide, c.get("mlp_bias", False))
            dense(at + "mlp.up_proj", f, wide, c.get("mlp_bias", False))
            dense(at + "mlp.down_proj", wide, f, c.get("mlp_bias", False))
        put("model.norm.weight", f, mean=1, std=0.1)
        if not self.tied:
            put("lm_head.weight", c["vocab_size"], f)
        if weights:
            assert weights.keys() == {name for name in self.param if "lora_" not in name}
            self.param.update({name: torch.from_numpy(np.array(t, np.float32)) for name, t in weights.items()})

    def named_parameters(self):
        return self.param.items()

    def parameters(self):
        return self.param.values()

    def to(self, dtype):
        self.param = {name: p.detach().to(dtype).requires_grad_() for name, p in self.param.items()}
        return self

    def pull(self):
        pass

    def drop_fallen(self, optimizer):
        pass

    def linear(self, x, name):
        y = functional.linear(x, self.param[name + ".weight"], self.param.get(name + ".bias"))
        if name + ".lora_A.weight" not in self.param:
            return y
        return y + self.lora[1] / self.lora[0] * (x @ self.param[name + ".lora_A.weight"].T) @ self.param[name + ".lora_B.weight"].T

    def normed(self, x, name):
        return x * (x.square().mean(-1, keepdim=True) + self.config.get("rms_norm_eps", 1e-6)).rsqrt() * self.param[name + ".weight"]

    def attended(self, x, at):
        n = len(x)
        q, k, v = (self.linear(x, f"{at}{name}_proj").reshape(n, h, self.d).transpose(0, 1)
                   for name, h in (("q", self.heads), ("k", self.kv), ("v", self.kv)))
        share = self.heads // self.kv
        q, k, v = turned(q, self.config), turned(k, self.config).repeat_interleave(share, 0), v.repeat_interleave(share, 0)
        seen = torch.ones(n, n, dtype=torch.bool).tril()
        scores = (q @ k.transpose(1, 2) / self.d**0.5).masked_fill(~seen, -torch.inf)
        return self.linear((torch.softmax(scores, -1) @ v).transpose(0, 1).reshape(n, -1), at + "o_proj")

    def hidden(self, ids):
        x = self.param["model.embed_tokens.weight"][ids]
        for i in range(self.config["num_hidden_layers"]):
            at = f"model.layers.{i}."
            x = x + self.attended(self.normed(x, at + "input_layernorm"), at + "self_attn.")
            y = self.normed(x, at + "post_attention_layernorm")
            y = functional.silu(self.linear(y, at + "mlp.gate_proj")) * self.linear(y, at + "mlp.up_proj")
            x = x + self.linear(y, at + "mlp.down_proj")
        return x

    def logits(self, rows, step=0, by_hand=True):
        x = self.normed(torch.cat([self.hidden(ids)[:-1] for ids in rows]), "model.norm")
        return functional.linear(x, self.param["model.embed_tokens.weight" if self.tied else "lm_head.weight"])


def make(prefix, config, rows, steps, lr, seed, lora=None, weights=None):
    lrs = [lr * (step + 1) / steps for step in range(steps)]
    rules = dict(momentum=0.0, optimizer="adamw", beta1=0.9, beta2=0.98, eps=1e-6, weight_decay=0.1, groups="*norm* weight_decay=0")
    labels = np.concatenate([row[1:] for row in rows]).astype(np.int32)
    lengths = [len(row) for row in rows]
    if lora:
        rules.update(freeze="model.*[!AB].weight,lm_head.weight", groups="")
    model = Decoder(config, rows, torch.Generator().manual_seed(seed), lora, weights)
    init = state_of(model)
    truth = train(model.to(torch.float64), rows, labels, lrs, True, rules)
    model.param = {name: torch.from_numpy(np.array(t)) for name, t in init.items()}
    report = golden.compare(*train(model.to(torch.float32), rows, labels, lrs, True, rules), *truth)
    grad, run, after = truth
    run["tokens"] = np.concatenate([row.numpy() for row in rows]).astype(np.int32)
    run["lengths"] = np.array(lengths, np.int32)
    run["label"] = labels
    run["place"] = np.concatenate([np.arange(n - 1) + sum(lengths[:r]) for r, n in enumerate(lengths)]).astype(np.int32)
    run["chosen"] = np.array(lengths, np.int32) - 1
    metadata = dict(rules, model="huggingface", config=json.dumps(config), tokens=max(lengths), classes=config["vocab_size"], steps=steps,
                    seed=seed, causal=True)
    if lora:
        metadata.update({"lora": f"{lora[0]} {lora[1]}", "lora.target": ",".join(lora[2])})
    for part, tensors in (("init", init), ("grad", grad), ("after", after)):
        golden.write_safetensors(f"{prefix}_{part}.safetensors", tensors)
    golden.write_safetensors(prefix + "_run.safetensors", run, metadata)
    print(prefix, "loss", " ".join(f"{x:.5f}" for x in run["loss"]))
    print("torch's float32 against it:", ", ".join(f"{k} {v:.1e}" for k, v in report.items()))
    return report


def llama(family, vocab, f, wide, layers, heads, positions, **more):
    return dict(model_type=family, vocab_size=vocab, hidden_size=f, intermediate_size=wide, num_hidden_layers=layers,
                num_attention_heads=heads, max_position_embeddings=positions, hidden_act="silu", initializer_range=0.2, **more)


RUNS = {
    "llama": dict(config=llama("llama", 40, 16, 24, 2, 4, 20, num_key_value_heads=2, rms_norm_eps=1e-5, tie_word_embeddings=True),
                  lengths=[7, 2, 16, 12], steps=5, lr=0.0003, seed=1),
    # biases everywhere, heads wider than their share, no tied table, as many heads of keys
    "llama_wide": dict(config=llama("llama", 30, 12, 20, 2, 2, 16, head_dim=10, attention_bias=True, mlp_bias=True, rope_theta=500.0),
                       lengths=[3, 14, 5], steps=5, lr=0.0003, seed=2),
    "llama_lora": dict(config=llama("llama", 30, 16, 20, 2, 2, 12, num_key_value_heads=1), lengths=[9, 4, 2], steps=5, lr=0.003, seed=3,
                       lora=(3, 8, ["q_proj", "v_proj", "down_proj"])),
    "mistral": dict(config=llama("mistral", 26, 16, 20, 2, 4, 16, num_key_value_heads=1, sliding_window=12), lengths=[12, 3, 6], steps=5,
                    lr=0.0003, seed=4),
    "qwen2": dict(config=llama("qwen2", 26, 12, 20, 2, 3, 16, num_key_value_heads=None, sliding_window=4, use_sliding_window=False,
                               tie_word_embeddings=True), lengths=[10, 2, 6], steps=5, lr=0.0003, seed=5),
}


def pretrained(prefix, folder):
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    weights, _ = golden.read_safetensors(os.path.join(folder, "model.safetensors"))
    model = Decoder(config, None, torch.Generator().manual_seed(1), weights=weights).to(torch.float64)
    generator, rows = torch.Generator().manual_seed(1), []
    with torch.no_grad():
        for row in range(8): # texts such as it was trained on, which it draws itself; the last one is greedy
            ids = [config["bos_token_id"]]
            while len(ids) < (160 if row == 7 else 2 + 7 * row):
                last = model.logits([torch.tensor(ids + [0])])[-1]
                ids.append(int(last.argmax() if row == 7 else torch.multinomial(torch.softmax(last, 0), 1, generator=generator)))
            rows.append(torch.tensor(ids))
        greedy = functional.cross_entropy(model.logits(rows[-1:]), rows[-1][1:])
    print(f"{folder}: the loss on its greedy text is {greedy:.3f}")
    assert greedy < 1
    with open(os.path.join(os.path.dirname(prefix), "greedy.txt"), "w") as file:
        print(*rows[-1][1:].tolist(), file=file)
    return make(prefix, config, rows, steps=5, lr=1e-5, seed=1, weights=weights)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    torch.set_num_threads(1)
    if "--of" in sys.argv:
        pretrained(os.path.join(folder, "pretrained"), sys.argv[3])
        return
    for name, run in RUNS.items():
        generator = np.random.default_rng(run["seed"])
        rows = [torch.from_numpy(generator.integers(0, run["config"]["vocab_size"], n)) for n in run.pop("lengths")]
        report = make(os.path.join(folder, name), rows=rows, **run)
        if max(report.values()) > 5e-5:
            sys.exit(f"{name}: torch's float32 is not within 5e-5 of its float64: choose another seed")


if __name__ == "__main__":
    main()
