"""A small decoder learns to add digits by Tinker's calls: examples/run pairs.py local:

Embedding, head and loss stay in this script (docs/howto-trainer.md)."""
import sys

import split.tinker as tinker  # was: import tinker
import torch
import torch.nn as nn

torch.manual_seed(0)
EQUALS, FEATURES, TOKENS = 10, 32, 3


class Words(nn.Module):  # the head
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(11, FEATURES), nn.Embedding(TOKENS, FEATURES)

    def forward(self, ids):
        return self.words(ids) + self.places.weight[: ids.shape[1]]


class Layers(nn.Module):  # the middle
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(FEATURES, 4, 64, 0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.register_buffer("mask", torch.triu(torch.ones(TOKENS, TOKENS), 1).bool())

    def forward(self, x):
        return self.encoder(x, self.mask)


def datum(a, b):
    targets = {"target_tokens": [b, EQUALS, (a + b) % 10], "weights": [0.0, 0.0, 0.01]}
    return tinker.Datum(model_input=tinker.ModelInput.from_ints([a, b, EQUALS]),
                        loss_fn_inputs=targets)


net = (Words(), Layers(), nn.Linear(FEATURES, 11))
# was: client = tinker.ServiceClient().create_lora_training_client(base_model="…")
client = tinker.TrainingClient(net, sys.argv[1], rows=100, tokens=TOKENS,
                               adam=tinker.AdamParams(eps=1e-8))
data = [datum(a, b) for a in range(10) for b in range(10)]
for step in range(100):
    forward = client.forward_backward(data, loss_fn="cross_entropy")
    optim = client.optim_step(tinker.AdamParams(learning_rate=5e-3, eps=1e-8))
    loss = forward.result().metrics["loss:sum"]
    optim.result()
prompt = tinker.ModelInput.from_ints([3, 4, EQUALS])
answer = client.sample(prompt, 1, tinker.SamplingParams(max_tokens=1, temperature=0)).result()
print("loss", loss, "sums to", *answer.sequences[0].tokens)
