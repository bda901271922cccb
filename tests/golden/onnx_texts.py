#!/usr/bin/env python3
"""Small networks of texts as people write them, which torch.onnx.export writes to files, and runs of them by the rules of make_encoder.py.

usage: onnx_texts.py FOLDER [NAME…]   writes FOLDER/NAME.safetensors and FOLDER/NAME_{init,grad,after,run}.safetensors of each, or of those named;
                                      NAME=FILE: as FILE. tests/golden/onnx_text is "free mask and mean=onnx_text",
                                      and onnx_rows "words and order=onnx_rows"
A network takes token ids [batch, tokens], which it pads with 0, and where `given` says so a mask beside them. torch computes padded rows;
splitc has rows of their own lengths, or of networks of Whole rows that are padded, too.
"""
import math
import os
import sys
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import golden
import make_encoder
from modules import as_newer, file_of, sdpa
from split.onnx import convert_onnx

VOCAB, MOST, DIM, HEADS, CLASSES, STEPS = 29, 12, 8, 2, 3, 10


class Base(nn.Module):
    """Embedding, positions, layers and a linear layer of what `pool` makes of the tokens."""

    def __init__(self, layers=1):
        super().__init__()
        self.emb, self.pos, self.fc = nn.Embedding(VOCAB, DIM), nn.Embedding(MOST, DIM), nn.Linear(DIM, CLASSES)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(DIM, HEADS, 16, 0.0, "gelu", batch_first=True) for _ in range(layers))

    def embed(self, ids):
        return self.emb(ids) + self.pos(torch.arange(ids.shape[1]))

    def forward(self, ids):
        x, padding = self.embed(ids), ids == 0
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=padding)
        return self.fc(x[:, 0])


def mean_of(x, real):
    real = real.unsqueeze(-1).to(x.dtype)
    return (x * real).sum(1) / real.sum(1).clamp(min=1e-9)


class Given(Base):
    """A mask as input, positions as a parameter, the mean of all tokens."""

    def __init__(self):
        super().__init__()
        self.pos = nn.Parameter(torch.randn(1, MOST, DIM))

    def embed(self, ids):
        return self.emb(ids) + self.pos[:, : ids.shape[1]]

    def forward(self, ids, mask):
        x = self.layers[0](self.embed(ids), src_key_padding_mask=mask == 0)
        return self.fc(mean_of(x, mask))


class Causal(Base):
    def forward(self, ids):
        s = ids.shape[1]
        x = self.layers[0](self.embed(ids), torch.triu(torch.full((s, s), float("-inf")), diagonal=1), ids == 0)
        return self.fc(mean_of(x, ids != 0))


class Sum(Base):
    """With the mask added to scores, as encoders of transformers have it, and a pooler."""

    def __init__(self):
        super().__init__(0)
        self.norm, self.qkv, self.pool = nn.LayerNorm(DIM), nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)

    def hidden(self, mask):
        return (1.0 - mask[:, None, None, :].to(self.fc.weight.dtype)) * -10000.0

    def attend(self, x, scores_of):
        n, s, f = x.shape
        q, k, v = (t.reshape(n, s, HEADS, f // HEADS).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return x + (scores_of(q @ k.transpose(-2, -1) / math.sqrt(f // HEADS)).softmax(-1) @ v).transpose(1, 2).reshape(n, s, f)

    def forward(self, ids, mask):
        x = self.attend(self.norm(self.embed(ids)), lambda a: a + self.hidden(mask))
        return self.fc(torch.tanh(self.pool(x[:, 0])))


class Filled(Sum):
    """Scores that are filled, by a buffer's causal mask and by padding; features of heads by timm's permute."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.tril(torch.ones(MOST, MOST)).bool(), persistent=False)

    def attend(self, x, scores_of):
        n, s, f = x.shape
        q, k, v = self.qkv(x).reshape(n, s, 3, HEADS, f // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        return x + (scores_of((q * 0.5) @ k.transpose(-2, -1)).softmax(-1) @ v).transpose(1, 2).reshape(n, s, f)

    def forward(self, ids):
        s, padding = ids.shape[1], ids.eq(0)
        hide = lambda a: a.masked_fill(~self.mask[:s, :s], float("-inf")).masked_fill(padding[:, None, None, :], -1e9)
        return self.fc(mean_of(F.relu(self.pool(self.attend(self.norm(self.embed(ids)), hide))), ~padding))


class First(Base):
    """Tokens in front of the batch, as torch's layers have them, a scale for each feature."""

    def __init__(self):
        super().__init__(0)
        self.layer = nn.TransformerEncoderLayer(DIM, HEADS, 16, 0.0, norm_first=True)
        self.at, self.scale = nn.Parameter(torch.randn(MOST, 1, DIM)), nn.Parameter(torch.randn(DIM))
        del self.pos

    def forward(self, ids):
        x = self.emb(ids).transpose(0, 1) * math.sqrt(DIM)
        x = self.layer(x + self.at[: x.size(0)], src_key_padding_mask=ids == 0) * self.scale
        return self.fc(x[0])


class Places(Base):
    """A causal mask by places; scaled_dot_product_attention as the newer exporter writes it, for a boolean mask."""

    def __init__(self):
        super().__init__(0)
        self.mix = nn.Linear(DIM, DIM)

    def forward(self, ids):
        n, s = ids.shape
        x, at = self.embed(ids), torch.arange(s)
        hide = (at[None, :] > at[:, None]) | (ids == 0)[:, None, None, :]
        q = self.mix(x).reshape(n, s, HEADS, DIM // HEADS).transpose(1, 2)
        a = (q @ q.transpose(-2, -1) + torch.zeros(hide.shape).masked_fill(hide, float("-inf"))).softmax(-1)
        a = torch.where(torch.isnan(a), torch.tensor(0.0, dtype=a.dtype), a)
        return self.fc(mean_of((a @ q).transpose(1, 2).reshape(n, s, DIM), ids != 0))


class Scaled(Base):
    """scaled_dot_product_attention with is_causal=True, as PyTorch 2 writes it."""

    def __init__(self):
        super().__init__(0)
        self.mix = nn.Linear(DIM, DIM)

    def forward(self, ids):
        x = self.embed(ids)
        return self.fc(mean_of(x + sdpa(self.mix(x), x, x, HEADS, True), ids != 0))


class Whole(Base):
    """It mixes the tokens of a row, and so padding: all rows have MOST tokens."""

    def __init__(self, width=DIM):
        super().__init__(0)
        del self.pos
        self.fc = nn.Linear(width, CLASSES)


class Recurrent(Whole):
    """Both directions, from tokens in front of the batch."""

    def __init__(self):
        super().__init__(2 * 6)
        self.lstm = nn.LSTM(DIM, 6, bidirectional=True)

    def forward(self, ids):
        _, (h, _) = self.lstm(self.emb(ids.t()))
        return self.fc(torch.cat([h[-2], h[-1]], 1))


class Placed(Whole):
    """Positions without an axis of the batch, two layers of a GRU, the mean of all tokens."""

    def __init__(self):
        super().__init__(6)
        self.pos, self.gru = nn.Embedding(MOST, DIM), nn.GRU(DIM, 6, num_layers=2, batch_first=True)

    def forward(self, ids):
        return self.fc(self.gru(self.emb(ids) + self.pos(torch.arange(ids.shape[1])))[0].mean(1))


class Windows(Whole):
    """As networks of Kim (2014): windows over some tokens, and the largest of each."""

    def __init__(self):
        super().__init__(2 * 6)
        self.convs = nn.ModuleList(nn.Conv1d(DIM, 6, k) for k in (2, 3))

    def forward(self, ids):
        x = self.emb(ids).transpose(1, 2)
        return self.fc(torch.cat([F.gelu(c(x)).max(2)[0] for c in self.convs], 1))


class Planes(Whole):
    """The same by nn.Conv2d, of one channel and all features."""

    def __init__(self):
        super().__init__(2 * 6)
        self.convs = nn.ModuleList(nn.Conv2d(1, 6, (k, DIM)) for k in (2, 3))

    def forward(self, ids):
        x = self.emb(ids).unsqueeze(1)
        return self.fc(torch.cat([F.gelu(c(x)).squeeze(3).amax(2) for c in self.convs], 1))


class Flat(Whole):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(MOST * DIM, DIM)

    def forward(self, ids):
        return self.fc(torch.tanh(self.mix(self.emb(ids).flatten(1))))


class ClassToken(Whole):
    """A class token in front of the tokens, and attention that reads padding, too."""

    def __init__(self):
        super().__init__()
        self.cls, self.pos = nn.Parameter(torch.randn(1, 1, DIM)), nn.Parameter(torch.randn(1, MOST + 1, DIM))
        self.layer = nn.TransformerEncoderLayer(DIM, HEADS, 16, 0.0, "gelu", batch_first=True)

    def forward(self, ids):
        x = self.emb(ids)
        return self.fc(self.layer(torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.pos)[:, 0])


class Words(Whole):
    """Windows and a GRU beside each other."""

    def __init__(self):
        super().__init__(6 + 5)
        self.conv, self.gru = nn.Conv1d(DIM, 6, 3, padding=1), nn.GRU(DIM, 5, batch_first=True)

    def forward(self, ids):
        x = self.emb(ids)
        return self.fc(torch.cat([torch.tanh(self.conv(x.permute(0, 2, 1))).amax(-1), self.gru(x)[1][0]], 1))


NETWORKS = {"encoder": (lambda: Base(2), False), "mask and mean": (Given, True), "causal": (Causal, False), "sum of masks": (Sum, True),
            "filled": (Filled, False), "tokens first": (First, False), "places": (Places, False),
            "causal of PyTorch 2": (Scaled, False),
            "recurrent": (Recurrent, False), "places and mean": (Placed, False), "windows": (Windows, False), "planes": (Planes, False),
            "flat": (Flat, False), "class token": (ClassToken, False), "words and order": (Words, False)}
NETWORKS.update({f"{form} {name}": of for name, of in list(NETWORKS.items()) for form in ("free", "newer")})


class Texts:
    """A network as make_encoder.train takes it: rows of tokens of their own lengths."""

    def __init__(self, model, given):
        self.model, self.given, self.training, self.done = model, given, True, 0

    def named_parameters(self):
        return self.model.named_parameters()

    def pull(self):
        pass

    def drop_fallen(self, optimizer):
        pass

    def logits(self, rows, step, by_hand):
        ids = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        return self.model(ids, (ids != 0).long()) if self.given else self.model(ids)


def export(name, model, given, path):
    free = name.startswith("free")
    ids = torch.ones(2, 5 if free and not isinstance(model, Whole) else MOST, dtype=torch.long)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model.train(), (ids, torch.ones_like(ids)) if given else ids, path, training=torch.onnx.TrainingMode.TRAINING,
                          do_constant_folding=False, opset_version=16, input_names=["ids", "mask"][: 1 + given],
                          dynamic_axes={part: {0: "batch", 1: "tokens"} for part in ["ids", "mask"][: 1 + given]} if free else None)
    if name.startswith("newer"):
        as_newer(path)


def make(folder, name, seed=3):
    name, _, file = name.partition("=")
    new, given = NETWORKS[name]
    prefix = os.path.join(os.path.abspath(folder), file or file_of(name))
    torch.manual_seed(seed)
    model = new().float()
    export(name, model, given, prefix + ".onnx")
    convert_onnx(prefix + ".onnx", prefix + ".safetensors", tokens=MOST)
    generator = np.random.default_rng(seed)
    lengths = [MOST, 5, 1, 8]
    rows = [torch.from_numpy(generator.integers(1, VOCAB, n)) for n in lengths]
    labels = generator.integers(0, CLASSES, len(rows)).astype(np.int32)
    rules, lrs = dict(momentum=0.9, weight_decay=0.01), [0.05] * STEPS
    init = golden.state_of(model)
    truth = make_encoder.train(Texts(model.double(), given), rows, labels, lrs, False, rules)
    model.load_state_dict({key: torch.from_numpy(np.array(t)) for key, t in init.items()})
    report = golden.compare(*make_encoder.train(Texts(model.float(), given), rows, labels, lrs, False, rules), *truth)
    if max(report.values()) >= 5e-5:
        sys.exit(f"{name}: torch's float32 leaves its float64 by {report}")
    grad, run, after = truth
    run.update(tokens=np.concatenate([row.numpy() for row in rows]).astype(np.int32), lengths=np.array(lengths, np.int32), label=labels)
    golden.write_safetensors(prefix + "_init.safetensors", init)
    golden.write_safetensors(prefix + "_grad.safetensors", grad)
    golden.write_safetensors(prefix + "_after.safetensors", after)
    rules.update({"pad": 0} if isinstance(model, Whole) else {}, model="network_texts", tokens=MOST, classes=CLASSES, steps=STEPS, seed=seed)
    golden.write_safetensors(prefix + "_run.safetensors", run, rules)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for one in sys.argv[2:] or NETWORKS:
        make(sys.argv[1], one)
