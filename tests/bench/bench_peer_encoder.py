"""PyTorch's side of bench_peer.py for networks of tokens: post-norm layers with RoBERTa-base's sizes and, like RoBERTa's, without
dropout after the activation; rows of different lengths are padded and the padding is masked. The whole network with its classifier and
AdamW, also with adapters as PEFT adds them. A decoder's layer as transformers computes it."""
import json
import math
import os
import time

import torch
from torch import nn
from torch.nn import functional as F

FEATURES, HEADS, WIDE, DROPPED = 768, 12, 3072, 0.1

# Tokens of 32 sentences of CoLA by RoBERTa's tokenizer, 354 in all: about as many as a mean batch has.
COLA = (7, 10, 10, 7, 10, 10, 13, 22, 19, 19, 8, 6, 8, 7, 10, 13, 8, 6, 10, 5, 7, 9, 13, 14, 21, 11, 8, 13, 9, 19, 11,
        11)

# name; tokens of each row; forms of PyTorch: name, tokens to which it pads, target ratios with 1 and 2 threads
CASES = [
    ("encoder layer, 8 × 128 tokens", (128,) * 8, [("as it is", 128, (0.9, 0.7))]),
    ("encoder layer, 32 rows of CoLA", COLA, [("to the longest", max(COLA), (0.5, 0.5)), ("to 128", 128, (0.1, 0.1))]),
]

# name; layer of bench_encoder; tokens of each row, or tokens in the cache before the new one; target ratio
BLOCKS = [
    ("decoder layer of 1B, LoRA, 8 × 64 tokens", "llama", (64,) * 8, 0.9),
    ("decoder layer of 1B, LoRA, 1 × 512 tokens", "llama", (512,), 0.8),
    ("decoder layer of 1B, one token behind 255", "cached", (255,), 0.7),
    ("decoder layer of 1B in 16 bits, one token behind 255", "cached16", (255,), 0.7),
]
FACTORS_TARGET = 0.55  # time with bf16_factors over that in fp32, both ours


class Layer:
    """run() returns milliseconds of forward and backward; `cpu`: CPU time of the process."""

    def __init__(self, lengths, padded, cpu):
        self.clock = time.process_time if cpu else time.perf_counter
        torch.manual_seed(0)
        self.layer = torch.nn.TransformerEncoderLayer(FEATURES, HEADS, WIDE, DROPPED, "gelu", batch_first=True).train()
        self.layer.dropout = torch.nn.Identity()
        self.x = torch.randn(len(lengths), padded, FEATURES)
        self.dout = torch.randn(len(lengths), padded, FEATURES)
        behind = torch.arange(padded)[None, :] >= torch.tensor(lengths)[:, None]
        self.mask = behind if behind.any() else None

    def run(self):
        start = self.clock()
        for p in self.layer.parameters():
            p.grad = None
        self.layer(self.x.detach().requires_grad_(), src_key_padding_mask=self.mask).backward(self.dout)
        return (self.clock() - start) * 1e3


class Adapted(nn.Linear):
    """A frozen layer with LoRA, as PEFT computes it."""

    def __init__(self, i, o, rank, alpha, bias):
        super().__init__(i, o, bias)
        self.a, self.b, self.scale = nn.Linear(i, rank, False), nn.Linear(rank, o, False), alpha / rank

    def forward(self, x):
        return super().forward(x) + self.b(self.a(x)) * self.scale


def freeze(net, *learns):
    """Freezes all parameters except those of adapters and of `learns`."""
    for p in net.parameters():
        p.requires_grad_(False)
    for part in [*learns, *(x for m in net.modules() if isinstance(m, Adapted) for x in (m.a, m.b))]:
        for p in part.parameters():
            p.requires_grad_(True)


class Norm(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(f))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))


def turned(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class Block(nn.Module):
    """A decoder layer with Llama 3.2 1B's sizes. `kind` cached: it computes one new token; the keys and values of the tokens before it are
    in a buffer with room for the new ones. cached16: the same in bfloat16. run() returns milliseconds."""

    def __init__(self, lengths, kind, cpu, f=2048, wide=8192, heads=32, kv=8):
        super().__init__()
        torch.manual_seed(0)
        self.clock = time.process_time if cpu else time.perf_counter
        cached = kind.startswith("cached")
        self.heads, self.kv, self.d, few = heads, kv, f // heads, f // heads * kv
        self.norms = nn.ModuleList((Norm(f), Norm(f)))
        self.q, self.v = Adapted(f, f, 16, 32, False), Adapted(f, few, 16, 32, False)
        self.k, self.o = nn.Linear(f, few, False), nn.Linear(f, f, False)
        self.gate, self.up, self.down = nn.Linear(f, wide, False), nn.Linear(f, wide, False), nn.Linear(wide, f, False)
        freeze(self)
        rows, tokens, past = len(lengths), 1 if cached else lengths[0], lengths[0] if cached else 0
        angle = torch.arange(past, past + tokens)[:, None] * 5e5 ** (-torch.arange(0, self.d, 2) / self.d)
        self.turns = [torch.cat((t, t), -1) for t in (angle.cos(), angle.sin())]
        self.mask = torch.full((tokens, tokens), -math.inf).triu(1) if tokens > 1 else None
        self.past = [torch.randn(rows, kv, past + 1, self.d) for _ in range(2)] if cached else None
        self.x, self.dout = torch.randn(rows, tokens, f), torch.randn(rows, tokens, f)
        if kind == "cached16":
            self.to(torch.bfloat16)
            self.turns, self.past = [t.bfloat16() for t in self.turns], [t.bfloat16() for t in self.past]
            self.x = self.x.bfloat16()

    def attend(self, x):
        n, s, _ = x.shape
        q, k, v = (y.view(n, s, -1, self.d).transpose(1, 2) for y in (self.q(x), self.k(x), self.v(x)))
        q, k = turned(q, *self.turns), turned(k, *self.turns)
        if self.past:
            for kept, new in zip(self.past, (k, v)):
                kept[:, :, -1:] = new
            k, v = self.past
        k, v = (y.repeat_interleave(self.heads // self.kv, 1) for y in (k, v))
        scores = q @ k.transpose(2, 3) / math.sqrt(self.d)
        scores = scores if self.mask is None else scores + self.mask
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, s, -1))

    def forward(self, x):
        x = x + self.attend(self.norms[0](x))
        y = self.norms[1](x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))

    def run(self):
        start = self.clock()
        if self.past:
            with torch.no_grad():
                self(self.x)
        else:
            for p in self.parameters():
                p.grad = None
            self(self.x.detach().requires_grad_()).backward(self.dout)
        return (self.clock() - start) * 1e3


# ---- whole steps of training

VOCAB, POSITIONS, PADDING, LAYERS, BATCH = 50265, 514, 1, 12, 32

# forms of PyTorch: name, tokens to which it pads (0: the batch's longest), target ratio
STEPS = [("to the longest", 0, 0.5), ("to 128", 128, 0.1)]
LORA_STEPS = [("to the longest", 0, 0.3)]


def write_config(folder, quick):
    """Writes the config from which Split builds the network, and returns it; `quick`: a tiny network."""
    config = {"model_type": "roberta", "architectures": ["RobertaForMaskedLM"], "vocab_size": VOCAB,
              "hidden_size": 48 if quick else FEATURES, "intermediate_size": 96 if quick else WIDE,
              "num_hidden_layers": 2 if quick else LAYERS, "num_attention_heads": HEADS,
              "max_position_embeddings": POSITIONS, "type_vocab_size": 1, "layer_norm_eps": 1e-5,
              "hidden_dropout_prob": DROPPED, "attention_probs_dropout_prob": DROPPED, "hidden_act": "gelu",
              "initializer_range": 0.02, "pad_token_id": PADDING}
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    return config


class LoraLayer(nn.Module):
    """An encoder layer as transformers computes it, with adapters at query and value."""

    def __init__(self, f, heads, wide, p):
        super().__init__()
        self.heads, self.p = heads, p
        self.q, self.v = Adapted(f, f, 8, 16, True), Adapted(f, f, 8, 16, True)
        self.k, self.o, self.up, self.down = nn.Linear(f, f), nn.Linear(f, f), nn.Linear(f, wide), nn.Linear(wide, f)
        self.norms = nn.ModuleList((nn.LayerNorm(f), nn.LayerNorm(f)))

    def forward(self, x, src_key_padding_mask):
        n, s, f = x.shape
        q, k, v = (y.view(n, s, self.heads, -1).transpose(1, 2) for y in (self.q(x), self.k(x), self.v(x)))
        scores = q @ k.transpose(2, 3) / math.sqrt(f // self.heads)
        scores = scores.masked_fill(src_key_padding_mask[:, None, None], -math.inf)
        y = (F.dropout(scores.softmax(-1), self.p) @ v).transpose(1, 2).reshape(n, s, f)
        x = self.norms[0](x + F.dropout(self.o(y), self.p))
        return self.norms[1](x + F.dropout(self.down(F.gelu(self.up(x))), self.p))


class Step:
    """RoBERTa with its classifier and AdamW; run(lengths, padded) returns milliseconds of a step with random tokens."""

    def __init__(self, config, cpu, lora=False):
        self.clock = time.process_time if cpu else time.perf_counter
        torch.manual_seed(0)
        wide = config["hidden_size"]
        self.words = nn.Embedding(VOCAB, wide, padding_idx=PADDING)
        self.positions = nn.Embedding(POSITIONS, wide, padding_idx=PADDING)
        self.types = nn.Embedding(1, wide)
        self.front = nn.Sequential(nn.LayerNorm(wide), nn.Dropout(DROPPED))
        self.layers = nn.ModuleList(
            LoraLayer(wide, HEADS, config["intermediate_size"], DROPPED) if lora else
            nn.TransformerEncoderLayer(wide, HEADS, config["intermediate_size"], DROPPED, "gelu", batch_first=True)
            for _ in range(config["num_hidden_layers"]))
        self.classifier = nn.Sequential(nn.Dropout(DROPPED), nn.Linear(wide, wide), nn.Tanh(), nn.Dropout(DROPPED),
                                        nn.Linear(wide, 2))
        self.net = nn.ModuleList([self.words, self.positions, self.types, self.front, self.layers, self.classifier])
        self.net.train()
        for layer in self.layers:
            layer.dropout = nn.Identity()
        if lora:
            freeze(self.net, self.classifier)
        self.adamw = torch.optim.AdamW([p for p in self.net.parameters() if p.requires_grad], lr=1e-6, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.1)
        self.labels = torch.arange(BATCH) % 2

    def run(self, lengths, padded):
        padded = padded or max(lengths)
        lengths = torch.tensor(lengths)[:, None]
        behind = torch.arange(padded)[None, :] >= lengths
        tokens = torch.randint(3, VOCAB, behind.shape).masked_fill(behind, PADDING)
        places = (torch.arange(padded)[None, :] + PADDING + 1).expand_as(behind).masked_fill(behind, PADDING)
        start = self.clock()
        self.adamw.zero_grad(set_to_none=True)
        x = self.front(self.words(tokens) + self.positions(places) + self.types.weight[0])
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=behind)
        torch.nn.functional.cross_entropy(self.classifier(x[:, 0]), self.labels).backward()
        self.adamw.step()
        return (self.clock() - start) * 1e3
