#!/usr/bin/env python3
"""Makes roberta_*, bert_*, distilbert_* and electra_*.safetensors beside it: small encoders of random weights, by the rules of golden.py.

usage: make_encoder.py [FOLDER]         (needs torch; the files are committed)
       make_encoder.py FOLDER --full    roberta_base instead, at its full size: some minutes, 10 GB
The reference is torch.nn.TransformerEncoder over padded rows, with embeddings, head and loss written here. Parameters have
transformers' names. Instead of `input` a run has tokens [T] I32, the rows one after another, and lengths [N] I32; logits.first
are those of an evaluation before the first step. Metadata: config, the text of config.json; tokens, the most of a row;
lora, "RANK ALPHA" of adapters beside query and value, where they and the head alone learn. Runs with `masked` in their metadata are of
masked language models: place [C] I32, counted from the batch's first token, are the tokens to be guessed, chosen [N] I32 says how many
of them each row has, and labels and logits are theirs.

Runs with `head_end` and `tail_begin` in their metadata are cut there, with the inserts that insert.head and insert.tail spell:
decaying pairs along features and tokens. Their rows are padded. Padding sees itself alone, but what pairs make of a row depends on it.

Runs with dropout use an encoder that is spelled out here, since torch's draws its own masks. It equals torch's where there is
no dropout, which is checked. Masks are a function of seed, step, operation and element, and so are written here anew.
"""
import json
import os
import sys

import numpy as np
import torch
from torch.nn import functional
from torch.nn.utils import stateless

import golden

BEFORE_LAYERS, PER_LAYER = 7, 14  # operations, by whose numbers masks are drawn


OF_BERT = dict(layers="encoder.layer", query="attention.self.query", key="attention.self.key", value="attention.self.value",
               out="attention.output.dense", out_norm="attention.output.LayerNorm", up="intermediate.dense", down="output.dense",
               norm="output.LayerNorm")
OF_DISTILBERT = dict(layers="transformer.layer", query="attention.q_lin", key="attention.k_lin", value="attention.v_lin",
                     out="attention.out_lin", out_norm="sa_layer_norm", up="ffn.lin1", down="ffn.lin2", norm="output_layer_norm")


# Dense layer, norm, decoder and its bias of masked language models.
MASKED = {
    "roberta": ("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head.bias"),
    "bert": ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.decoder", "cls.predictions.bias"),
    "distilbert": ("vocab_transform", "vocab_layer_norm", "vocab_projector", "vocab_projector.bias"),
    "electra": ("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head", "generator_lm_head.bias"),
}


class Encoder:
    """Parameters under their names, and what they compute."""

    def __init__(self, config, classes, most, generator, lora=None, places=None, pairs=None):
        self.family, self.config = config["model_type"], config
        # DistilBERT has keys of its own
        either = lambda one, other: config[one] if one in config else config[other]
        self.names = OF_DISTILBERT if self.family == "distilbert" else OF_BERT
        self.most, self.classes, self.training, self.lora = most, classes, True, lora
        self.places = places  # of a masked language model: those of each row
        self.pairs, self.done = pairs, 0  # the schedule of decaying pairs at both cuts; steps that are done
        self.eps = config.get("layer_norm_eps", 1e-12)
        self.p = np.float32(either("hidden_dropout_prob", "dropout")), np.float32(either("attention_probs_dropout_prob", "attention_dropout"))
        f = self.f = either("hidden_size", "dim")
        wide = either("intermediate_size", "hidden_dim")
        self.heads, self.n_layers = either("num_attention_heads", "n_heads"), either("num_hidden_layers", "n_layers")
        embedded, self.param = config.get("embedding_size", f), {}

        def put(name, shape, mean=0.0, std=config["initializer_range"]):
            self.param[name] = torch.randn(shape, generator=generator) * std + mean

        def dense(name, i, o):
            put(name + ".weight", (o, i))
            put(name + ".bias", (o,), std=0.1)

        def norm(name, f=f):
            put(name + ".weight", (f,), 1, 0.1)
            put(name + ".bias", (f,), 0, 0.1)

        at = self.family + ".embeddings."
        put(at + "word_embeddings.weight", (config["vocab_size"], embedded), std=0.5)
        if "type_vocab_size" in config:
            put(at + "token_type_embeddings.weight", (config["type_vocab_size"], embedded), std=0.5)
        put(at + "position_embeddings.weight", (config["max_position_embeddings"], embedded), std=0.5)
        norm(at + "LayerNorm", embedded)
        if embedded != f:
            dense(self.family + ".embeddings_project", embedded, f)
        for i in range(self.n_layers):
            for name in ("query", "key", "value", "out"):
                dense(self.at(i, name), f, f)
            norm(self.at(i, "out_norm"))
            dense(self.at(i, "up"), f, wide)
            dense(self.at(i, "down"), wide, f)
            norm(self.at(i, "norm"))
        for i in range(self.n_layers if lora else 0):
            for name in ("query", "value"):
                put(self.at(i, name) + ".lora_A.weight", (lora[0], f), std=f**-0.5)
                put(self.at(i, name) + ".lora_B.weight", (f, lora[0]), std=0.1)
        if places:
            dense(MASKED[self.family][0], f, embedded)
            norm(MASKED[self.family][1], embedded)
            put(MASKED[self.family][3], (config["vocab_size"],), std=0.1)
            if not config.get("tie_word_embeddings", True):
                put(MASKED[self.family][2] + ".weight", (config["vocab_size"], embedded))
        elif self.family in ("roberta", "electra"):
            dense("classifier.dense", f, f)
            dense("classifier.out_proj", f, classes)
        else:
            dense("bert.pooler.dense" if self.family == "bert" else "pre_classifier", f, f)
            dense("classifier", f, classes)
        for cut in ("head", "tail") if pairs else ():
            for part in ("", "restore."):
                for suffix, n in (("", f), (".tokens", most)):
                    name = f"insert.{cut}.{part}0{suffix}.weight"
                    self.param[name] = torch.eye(n) + torch.randn((n, n), generator=generator) * 0.05
        self.torch_encoder = torch.nn.TransformerEncoder(
            torch.nn.TransformerEncoderLayer(f, self.heads, wide, 0.0, "gelu", self.eps, True), self.n_layers)

    def at(self, i, name):
        return f"{self.family}.{self.names['layers']}.{i}.{self.names[name]}"

    def named_parameters(self):
        return self.param.items()

    def parameters(self):
        return self.param.values()

    def to(self, dtype):
        self.param = {name: p.detach().to(dtype).requires_grad_() for name, p in self.param.items()}
        self.torch_encoder.to(dtype)
        return self

    def linear(self, x, name):
        return functional.linear(x, self.weight(name), self.param[name + ".bias"])

    def weight(self, name):
        """With its adapter, where it has one."""
        w = self.param[name + ".weight"]
        if name + ".lora_A.weight" not in self.param:
            return w
        return w + self.lora[1] / self.lora[0] * self.param[name + ".lora_B.weight"] @ self.param[name + ".lora_A.weight"]

    def normed(self, x, name):
        return functional.layer_norm(x, x.shape[-1:], self.param[name + ".weight"], self.param[name + ".bias"], self.eps)

    def embedded(self, ids):
        """One row of tokens. RoBERTa's positions count on from the padding's id; types from one separator to the next."""
        table = lambda name: self.param[f"{self.family}.embeddings.{name}_embeddings.weight"]
        first = self.config["pad_token_id"] + 1 if self.family == "roberta" else 0
        x = table("word")[ids] + table("position")[first : first + len(ids)]
        if "type_vocab_size" in self.config:
            marks = (ids == self.config.get("sep_token_id", -1)).long()
            x = x + table("token_type")[torch.clamp(marks.cumsum(0) - marks, max=self.config["type_vocab_size"] - 1)]
        x = self.normed(x, self.family + ".embeddings.LayerNorm")
        project = self.family + ".embeddings_project"
        return self.linear(x, project) if project + ".weight" in self.param else x

    def by_torch(self, rows):
        """What the head reads behind the last layer, through torch's encoder over padded rows."""
        state, longest = {}, max(map(len, rows))
        for i in range(self.n_layers):
            to = f"layers.{i}."
            state[f"{to}self_attn.in_proj_weight"] = torch.cat([self.weight(self.at(i, n)) for n in ("query", "key", "value")])
            state[f"{to}self_attn.in_proj_bias"] = torch.cat([self.param[self.at(i, n) + ".bias"] for n in ("query", "key", "value")])
            for part in ("weight", "bias"):
                for theirs, ours in (("self_attn.out_proj", "out"), ("norm1", "out_norm"), ("linear1", "up"), ("linear2", "down"), ("norm2", "norm")):
                    state[f"{to}{theirs}.{part}"] = self.param[f"{self.at(i, ours)}.{part}"]
        x = torch.stack([functional.pad(self.embedded(row), (0, 0, 0, longest - len(row))) for row in rows])
        mask = torch.tensor([[k >= len(row) for k in range(longest)] for row in rows])
        x = stateless.functional_call(self.torch_encoder, state, (x,), {"src_key_padding_mask": mask})
        return torch.cat([x[r, list(places)] for r, places in enumerate(self.places)]) if self.places else x[:, 0]

    def dropped(self, x, elements, operation, step, p):
        """elements: of each of x, its number among those of the operation."""
        if not self.training or p == 0:
            return x
        kept = torch.from_numpy(uniform(self.seed, step, operation, elements) >= p)
        return torch.where(kept, x / (1 - float(p)), torch.zeros((), dtype=x.dtype))

    def live(self, name, more=0):
        """Rows of an insert's matrix that take part after the steps that are done and so many falls more."""
        n = len(self.param[name])
        for _ in range(min(self.pairs["times"], self.done // self.pairs["every"] + more)):
            n = max(1, int(n * self.pairs["rate2" if ".tokens" in name else "rate"]))
        return n

    def through(self, x, cut):
        """Tokens [S, F] through both pairs of a cut: features outside, tokens inside."""
        if not self.pairs:
            return x
        front = lambda name: self.param[name][: self.live(name)]
        one, two, back_two, back = (front(f"insert.{cut}.{name}.weight") for name in ("0", "0.tokens", "restore.0.tokens", "restore.0"))
        return ((x @ one.T).T @ two.T @ back_two).T @ back

    def pull(self):
        """What goes at the next fall is pulled towards 0, by a gradient of its own."""
        for name, p in self.param.items():
            if self.pairs and name.startswith("insert."):
                goes = slice(self.live(name, 1), self.live(name))
                p.grad[goes] += self.pairs["l1"] * torch.sign(p.detach()[goes])

    def drop_fallen(self, optimizer):
        for name, p in self.param.items():
            if self.pairs and name.startswith("insert."):
                live = self.live(name)
                for t in (p.data, optimizer.state[p]["exp_avg"], optimizer.state[p]["exp_avg_sq"]):
                    t[live:] = 0

    def by_hand(self, rows, step):
        f, heads = self.f, self.heads
        wide = (self.most + 3) // 4 * 4
        first = []
        for r, ids in enumerate(rows):
            real = len(ids)
            if self.pairs:
                ids = functional.pad(ids, (0, self.most - real), value=self.config["pad_token_id"])
            n = len(ids)
            element = ((r * self.most + np.arange(n))[:, None] * f + np.arange(f))
            pair = ((r * heads + np.arange(heads))[:, None, None] * wide + np.arange(n)[:, None]) * wide + np.arange(n)
            x = self.dropped(self.embedded(ids), element, BEFORE_LAYERS - 1, step, self.p[0])
            for i in range(self.n_layers):
                k = BEFORE_LAYERS + PER_LAYER * i
                q, key, v = (self.linear(x, self.at(i, name)).reshape(n, heads, -1).transpose(0, 1) for name in ("query", "key", "value"))
                apart = torch.tensor([[(a < real) != (b < real) for b in range(n)] for a in range(n)])
                weights = torch.softmax((q @ key.transpose(1, 2) / (f / heads) ** 0.5).masked_fill(apart, -torch.inf), -1)
                y = (self.dropped(weights, pair, k + 3, step, self.p[1]) @ v).transpose(0, 1).reshape(n, f)
                y = self.dropped(self.linear(y, self.at(i, "out")), element, k + 5, step, self.p[0])
                x = self.normed(y + x, self.at(i, "out_norm"))
                x = self.through(x, "head") if i == 0 else x
                y = self.linear(functional.gelu(self.linear(x, self.at(i, "up"))), self.at(i, "down"))
                x = self.normed(self.dropped(y, element, k + 11, step, self.p[0]) + x, self.at(i, "norm"))
                x = self.through(x, "tail") if i == 0 else x
            first.append(x[list(self.places[r])] if self.places else x[:1])
        return torch.cat(first)

    def logits(self, rows, step, by_hand):
        x = self.by_hand(rows, step) if by_hand else self.by_torch(rows)
        if self.places:
            name, norm, decoder, bias = MASKED[self.family]
            words = self.param.get(decoder + ".weight", self.param[self.family + ".embeddings.word_embeddings.weight"])
            return functional.linear(self.normed(functional.gelu(self.linear(x, name)), norm), words, self.param[bias])
        if self.family == "bert":
            return self.linear(torch.tanh(self.linear(x, "bert.pooler.dense")), "classifier")
        if self.family == "distilbert":
            return self.linear(torch.relu(self.linear(x, "pre_classifier")), "classifier")
        if self.family == "electra":
            return self.linear(functional.gelu(self.linear(x, "classifier.dense")), "classifier.out_proj")
        element = np.arange(x.numel()).reshape(x.shape)
        k = BEFORE_LAYERS + PER_LAYER * self.n_layers + 1
        x = torch.tanh(self.linear(self.dropped(x, element, k, step, self.p[0]), "classifier.dense"))
        return self.linear(self.dropped(x, element, k + 3, step, self.p[0]), "classifier.out_proj")


class Modern(Encoder):
    """ModernBERT, row by row: norms in front, rotary positions, gated feed-forward parts, no biases, local layers."""

    def __init__(self, config, classes, most, generator, lora=None, places=None, pairs=None):
        c = self.config = config
        self.places, self.lora, self.pairs, self.training, self.done, self.param = places, lora, pairs, True, 0, {}
        f, wide = c["hidden_size"], c["intermediate_size"]

        def put(name, *shape, mean=0.0, std=c["initializer_range"]):
            self.param[name] = torch.randn(shape, generator=generator) * std + mean

        put("model.embeddings.tok_embeddings.weight", c["vocab_size"], f, std=0.5)
        put("model.embeddings.norm.weight", f, mean=1, std=0.1)
        for i in range(c["num_hidden_layers"]):
            at = f"model.layers.{i}."
            if i:
                put(at + "attn_norm.weight", f, mean=1, std=0.1)
            put(at + "attn.Wqkv.weight", 3 * f, f)
            put(at + "attn.Wo.weight", f, f)
            put(at + "mlp_norm.weight", f, mean=1, std=0.1)
            put(at + "mlp.Wi.weight", 2 * wide, f)
            put(at + "mlp.Wo.weight", f, wide)
            if lora:
                put(at + "attn.Wqkv.lora_A.weight", lora[0], f, std=f**-0.5)
                put(at + "attn.Wqkv.lora_B.weight", 3 * f, lora[0], std=0.1)
        put("model.final_norm.weight", f, mean=1, std=0.1)
        put("head.dense.weight", f, f)
        put("head.norm.weight", f, mean=1, std=0.1)
        if places:
            put("decoder.bias", c["vocab_size"], std=0.1)
        else:
            put("classifier.weight", classes, f)
            put("classifier.bias", classes, std=0.1)

    def to(self, dtype):
        self.param = {name: p.detach().to(dtype).requires_grad_() for name, p in self.param.items()}
        return self

    def linear(self, x, name):
        return functional.linear(x, self.weight(name))

    def normed(self, x, name):
        return functional.layer_norm(x, x.shape[-1:], self.param[name + ".weight"], None, self.config.get("norm_eps", 1e-5))

    def rotary(self, x, theta):
        n, d = x.shape[1:]
        angle = torch.arange(n, dtype=x.dtype)[:, None] * theta ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
        a, b = x[..., : d // 2], x[..., d // 2 :]
        return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)

    def hidden(self, ids):
        c, n = self.config, len(ids)
        new, far = c.get("rope_parameters", {}), (torch.arange(n)[:, None] - torch.arange(n)).abs() > c.get("local_attention", 128) // 2
        thetas = [c.get("global_rope_theta", 160000.0), c.get("local_rope_theta", 10000.0)]
        if new:
            thetas = [new[kind]["rope_theta"] for kind in ("full_attention", "sliding_attention")]
        x = self.normed(self.param["model.embeddings.tok_embeddings.weight"][ids], "model.embeddings.norm")
        for i in range(c["num_hidden_layers"]):
            at = f"model.layers.{i}."
            local = c["layer_types"][i] == "sliding_attention" if "layer_types" in c else i % c.get("global_attn_every_n_layers", 3) != 0
            y = self.linear(self.normed(x, at + "attn_norm") if i else x, at + "attn.Wqkv")
            q, k, v = y.reshape(n, 3, c["num_attention_heads"], -1).permute(1, 2, 0, 3)
            scores = self.rotary(q, thetas[local]) @ self.rotary(k, thetas[local]).transpose(1, 2) / q.shape[-1] ** 0.5
            p = torch.softmax(scores.masked_fill(far & local, -torch.inf), -1)
            x = x + self.linear((p @ v).transpose(0, 1).reshape(n, -1), at + "attn.Wo")
            y, gate = self.linear(self.normed(x, at + "mlp_norm"), at + "mlp.Wi").chunk(2, -1)
            x = x + self.linear(functional.gelu(y) * gate, at + "mlp.Wo")
        return self.normed(x, "model.final_norm")

    def logits(self, rows, step=0, by_hand=True):
        hidden = [self.hidden(ids) for ids in rows]
        mean = self.config.get("classifier_pooling", "cls") == "mean"
        x = [h[list(self.places[r])] if self.places else h.mean(0, keepdim=True) if mean else h[:1] for r, h in enumerate(hidden)]
        x = self.normed(functional.gelu(self.linear(torch.cat(x), "head.dense")), "head.norm")
        if self.places:
            return functional.linear(x, self.param["model.embeddings.tok_embeddings.weight"], self.param["decoder.bias"])
        return functional.linear(x, self.param["classifier.weight"], self.param["classifier.bias"])


def uniform(seed, step, operation, elements):
    """Philox4x32-10 of (seed, step, chunk 0, operation, element), as numbers in [0, 1) of 24 bits."""
    c = [elements.astype(np.uint64) // 4] + [np.full(elements.shape, word, np.uint64) for word in (operation, step, 0)]
    k = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]), p1 & np.uint64(0xFFFFFFFF),
             (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]), p0 & np.uint64(0xFFFFFFFF)]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    word = np.choose(elements % 4, c)
    return (word >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)


def train(model, rows, labels, lrs, by_hand, rules):
    optimizer = golden.set_rules(model, lrs[0], **rules)
    grad, losses, correct = {}, [], []
    targets = torch.from_numpy(labels.astype(np.int64))

    def evaluated():
        model.training = False
        out = model.logits(rows, 0, by_hand).detach().numpy().astype(np.float32)
        model.training = True
        return out

    first = evaluated()
    for step, lr in enumerate(lrs):
        for group in optimizer.param_groups:
            group["lr"] = float(lr) * group["factor"]
        optimizer.zero_grad()
        logits = model.logits(rows, step, by_hand)
        loss = functional.cross_entropy(logits, targets)
        loss.backward()
        model.pull()
        losses.append(loss.item())
        correct.append(int((logits.argmax(1) == targets).sum()))
        if step == 0:
            grad = {name: p.grad.numpy().astype(np.float32) for name, p in model.named_parameters() if p.requires_grad}
        optimizer.step()
        model.done = step + 1
        model.drop_fallen(optimizer)
    run = {"lr": np.array(lrs, np.float64), "loss": np.array(losses, np.float64), "correct": np.array(correct, np.int64),
           "logits.first": first, "logits.eval": evaluated()}
    return grad, run, state_of(model)


def state_of(model):
    return {name: p.detach().numpy().astype(np.float32) for name, p in model.named_parameters()}


def make(prefix, config, classes, lengths, most, steps, lr, seed, by_hand=False, lora=None, masked=0.0, pairs=None):
    generator = np.random.default_rng(seed)
    rows = [torch.from_numpy(generator.integers(0, config["vocab_size"], n)) for n in lengths]
    places = [np.sort(generator.choice(n, max(1, int(masked * n + 0.5)), replace=False)) for n in lengths] if masked else None
    labels = generator.integers(0, classes, sum(map(len, places)) if masked else len(lengths)).astype(np.int32)
    lrs = [lr * (step + 1) / steps for step in range(steps)]
    rules = dict(momentum=0.0, optimizer="adamw", beta1=0.9, beta2=0.98, eps=1e-6, weight_decay=0.1,
                 groups="*.bias *LayerNorm* weight_decay=0")
    kind = Encoder
    if config["model_type"] == "modernbert":
        kind, rules["groups"] = Modern, "*.bias *norm.weight weight_decay=0"
    if lora:
        rules["freeze"] = "model.*[!AB].weight,head.*" if kind is Modern else "roberta.*[!AB].weight,roberta.*.bias"
    model = kind(config, classes, most, torch.Generator().manual_seed(seed), lora, places, pairs)
    model.seed = seed
    init = state_of(model)
    model.to(torch.float64).training = False
    model.pairs = None  # torch's encoder has none
    if kind is Encoder:
        assert torch.allclose(model.logits(rows, 0, True), model.logits(rows, 0, False), rtol=1e-9, atol=1e-12)
    model.training, model.pairs = True, pairs
    truth = train(model, rows, labels, lrs, by_hand, rules)
    model.param = {name: torch.from_numpy(np.array(t)) for name, t in init.items()}
    model.done = 0
    report = golden.compare(*train(model.to(torch.float32), rows, labels, lrs, by_hand, rules), *truth)
    grad, run, after = truth
    run["tokens"] = np.concatenate([row.numpy() for row in rows]).astype(np.int32)
    run["lengths"] = np.array(lengths, np.int32)
    run["label"] = labels
    metadata = dict(rules, model="huggingface", config=json.dumps(config), tokens=most, classes=classes, steps=steps, seed=seed)
    if masked:
        run["place"] = np.concatenate([p + sum(lengths[:r]) for r, p in enumerate(places)]).astype(np.int32)
        run["chosen"] = np.array([len(p) for p in places], np.int32)
        metadata["masked"] = masked
    if lora:
        metadata["lora"] = f"{lora[0]} {lora[1]}"
        if kind is Modern:
            metadata["lora.target"] = "Wqkv"
    if pairs:
        text = "decaylinear:" + ",".join(f"{key}={value}" for key, value in pairs.items())
        metadata.update({"insert.head": text, "insert.tail": text, "head_end": "encoder.layer.0.attention.output",
                         "tail_begin": "encoder.layer.1"})
    for part, tensors in (("init", init), ("grad", grad), ("after", after)):
        golden.write_safetensors(f"{prefix}_{part}.safetensors", tensors)
    golden.write_safetensors(prefix + "_run.safetensors", run, metadata)
    print(prefix, "loss", " ".join(f"{x:.5f}" for x in run["loss"]))
    print("torch's float32 against it:", ", ".join(f"{k} {v:.1e}" for k, v in report.items()))
    return report


def roberta(vocab, f, wide, layers, heads, positions, dropout=0.0, spread=0.2):
    return dict(model_type="roberta", vocab_size=vocab, hidden_size=f, intermediate_size=wide, num_hidden_layers=layers,
                num_attention_heads=heads, max_position_embeddings=positions, type_vocab_size=1, layer_norm_eps=1e-5, hidden_act="gelu",
                hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout, initializer_range=spread, pad_token_id=1)


def bert(family, vocab, f, wide, layers, heads, positions, **more):
    """`more`: of ELECTRA, whose embedding has features of its own."""
    return dict(model_type=family, vocab_size=vocab, hidden_size=f, intermediate_size=wide, num_hidden_layers=layers, num_attention_heads=heads,
                max_position_embeddings=positions, type_vocab_size=2, layer_norm_eps=1e-12, hidden_act="gelu", hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0, initializer_range=0.2, sep_token_id=3, **more)


def modern(vocab, f, wide, layers, heads, positions, **more):
    return dict(model_type="modernbert", vocab_size=vocab, hidden_size=f, intermediate_size=wide, num_hidden_layers=layers,
                num_attention_heads=heads, max_position_embeddings=positions, norm_eps=1e-5, initializer_range=0.3, **more)


DISTILBERT = dict(model_type="distilbert", vocab_size=26, dim=18, hidden_dim=28, n_layers=2, n_heads=3, max_position_embeddings=10, dropout=0.0,
                  attention_dropout=0.0, seq_classif_dropout=0.0, activation="gelu", initializer_range=0.2)

RUNS = {
    "roberta": dict(config=roberta(60, 24, 40, 2, 3, 22), classes=3, lengths=[7, 1, 16, 3, 12, 2], most=18, steps=5, lr=0.001, seed=1),
    "roberta_dropout": dict(config=roberta(40, 20, 36, 2, 2, 16, 0.2), classes=2, lengths=[5, 13, 1, 8], most=13, steps=5, lr=0.001, seed=2, by_hand=True),
    "roberta_lora": dict(config=roberta(30, 16, 20, 2, 2, 12), classes=2, lengths=[9, 4, 1], most=9, steps=5, lr=0.01, seed=3, lora=(3, 8)),
    "roberta_pairs": dict(config=roberta(40, 20, 28, 2, 2, 15), classes=3, lengths=[5, 13, 1, 8], most=13, steps=5, lr=0.001, seed=11, by_hand=True,
                          pairs=dict(rate=0.8, every=2, times=2, l1=0.01, rate2=0.7)),
    # few ids, so that separators stand in most rows, twice in some
    "bert": dict(config=bert("bert", 9, 20, 30, 2, 4, 16), classes=3, lengths=[16, 1, 9, 4], most=16, steps=5, lr=0.0003, seed=4),
    "electra": dict(config=bert("electra", 9, 16, 20, 2, 2, 12, embedding_size=10), classes=2, lengths=[7, 12, 2], most=12, steps=5, lr=0.001, seed=5),
    "roberta_masked": dict(config=roberta(40, 16, 24, 2, 2, 22), classes=40, lengths=[7, 1, 16, 3, 12, 2], most=18, steps=5, lr=0.0003, seed=7,
                           masked=0.3),
    # its decoder has a weight of its own
    "bert_masked": dict(config=bert("bert", 9, 20, 30, 2, 4, 16, tie_word_embeddings=False), classes=9, lengths=[16, 1, 9, 4], most=16, steps=5,
                        lr=0.0003, seed=7, masked=0.25),
    "electra_masked": dict(config=bert("electra", 9, 16, 20, 2, 2, 12, embedding_size=10), classes=9, lengths=[7, 12, 2], most=12, steps=5,
                           lr=0.001, seed=10, masked=0.5),
    "distilbert_masked": dict(config=DISTILBERT, classes=26, lengths=[10, 3, 6], most=10, steps=5, lr=0.0003, seed=9, masked=0.2),
    # rows longer than the window; the first layer is global, two are local
    "modernbert": dict(config=modern(30, 16, 20, 4, 2, 24, local_attention=6, global_rope_theta=300.0, local_rope_theta=20.0,
                                     classifier_pooling="mean", global_attn_every_n_layers=3),
                       classes=3, lengths=[17, 1, 9, 4], most=17, steps=5, lr=0.001, seed=12),
    "modernbert_lora": dict(config=modern(30, 16, 20, 2, 4, 20, local_attention=4, rope_parameters=dict(
        full_attention=dict(rope_type="default", rope_theta=200.0), sliding_attention=dict(rope_type="default", rope_theta=10.0)),
        layer_types=["sliding_attention", "full_attention"]), classes=2, lengths=[12, 3, 6], most=12, steps=5, lr=0.003, seed=13, lora=(3, 8)),
    "modernbert_masked": dict(config=modern(40, 16, 20, 2, 2, 24, local_attention=8, local_rope_theta=30.0), classes=40, lengths=[7, 1, 16, 12],
                              most=18, steps=5, lr=0.0003, seed=14, masked=0.3),
    "distilbert": dict(config=DISTILBERT, classes=2, lengths=[10, 3, 6], most=10, steps=5, lr=0.001, seed=6),
}


FULL = {
    "roberta_base": dict(config=roberta(50265, 768, 3072, 12, 12, 514, spread=0.02), classes=2, lengths=[21, 3, 34, 9], most=128, steps=5, lr=1e-4,
                         seed=1),
}


def main():
    full = "--full" in sys.argv
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    torch.set_num_threads(2 if full else 1)
    for name, run in (FULL if full else RUNS).items():
        report = make(os.path.join(folder, name), **run)
        if max(report.values()) > 5e-5:
            sys.exit(f"{name}: torch's float32 is not within 5e-5 of its float64: choose another seed")


if __name__ == "__main__":
    main()
