"""The encoder's rows of bench_peer.py, PyTorch's side: post-norm layers of RoBERTa-base's sizes, without dropout behind
the activation, as RoBERTa has it. Rows of different lengths are padded, and their padding is masked. And the whole
network with its classifier and AdamW."""
import json
import os
import time

FEATURES, HEADS, WIDE, DROPPED = 768, 12, 3072, 0.1

# Tokens of 32 sentences of CoLA (RoBERTa's tokenizer), 354 together: near the mean of its batches.
COLA = (7, 10, 10, 7, 10, 10, 13, 22, 19, 19, 8, 6, 8, 7, 10, 13, 8, 6, 10, 5, 7, 9, 13, 14, 21, 11, 8, 13, 9, 19, 11,
        11)

# name; tokens of each row; and by form of PyTorch: how far it pads, the target ratios with 1 and 2 threads
CASES = [
    ("encoder layer, 8 × 128 tokens", (128,) * 8, [("as it is", 128, (0.9, 0.7))]),
    ("encoder layer, 32 rows of CoLA", COLA, [("to the longest", max(COLA), (0.5, 0.5)), ("to 128", 128, (0.1, 0.1))]),
]


class Layer:
    """run() gives milliseconds of forward and backward; cpu: of the process on CPUs."""

    def __init__(self, lengths, padded, cpu):
        import torch
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


# ---- whole steps of training

VOCAB, POSITIONS, PADDING, LAYERS, BATCH = 50265, 514, 1, 12, 32

# by form of PyTorch: tokens that it pads to (0: the batch's longest), target ratio
STEPS = [("to the longest", 0, 0.5), ("to 128", 128, 0.1)]


def write_config(folder, quick):
    """What our side builds the network from; quick: a tiny one."""
    config = {"model_type": "roberta", "architectures": ["RobertaForMaskedLM"], "vocab_size": VOCAB,
              "hidden_size": 48 if quick else FEATURES, "intermediate_size": 96 if quick else WIDE,
              "num_hidden_layers": 2 if quick else LAYERS, "num_attention_heads": HEADS,
              "max_position_embeddings": POSITIONS, "type_vocab_size": 1, "layer_norm_eps": 1e-5,
              "hidden_dropout_prob": DROPPED, "attention_probs_dropout_prob": DROPPED, "hidden_act": "gelu",
              "initializer_range": 0.02, "pad_token_id": PADDING}
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    return config


class Step:
    """RoBERTa with its classifier and AdamW; run(lengths, padded) gives milliseconds of a step with made-up tokens."""

    def __init__(self, config, cpu):
        import torch
        self.clock = time.process_time if cpu else time.perf_counter
        torch.manual_seed(0)
        nn, wide = torch.nn, config["hidden_size"]
        self.words = nn.Embedding(VOCAB, wide, padding_idx=PADDING)
        self.positions = nn.Embedding(POSITIONS, wide, padding_idx=PADDING)
        self.types = nn.Embedding(1, wide)
        self.front = nn.Sequential(nn.LayerNorm(wide), nn.Dropout(DROPPED))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(wide, HEADS, config["intermediate_size"], DROPPED, "gelu", batch_first=True)
            for _ in range(config["num_hidden_layers"]))
        self.classifier = nn.Sequential(nn.Dropout(DROPPED), nn.Linear(wide, wide), nn.Tanh(), nn.Dropout(DROPPED),
                                        nn.Linear(wide, 2))
        self.net = nn.ModuleList([self.words, self.positions, self.types, self.front, self.layers, self.classifier])
        self.net.train()
        for layer in self.layers:
            layer.dropout = nn.Identity()
        self.adamw = torch.optim.AdamW(self.net.parameters(), lr=1e-6, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.1)
        self.labels = torch.arange(BATCH) % 2

    def run(self, lengths, padded):
        import torch
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
