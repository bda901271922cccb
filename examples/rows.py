"""A transformer in the middle, and clipping: examples/run rows.py local:

split.Optimizer steps both sides (docs/howto-script.md)."""
import sys

import split
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

torch.manual_seed(0)
pictures, labels = load_digits(return_X_y=True)
x = torch.tensor(pictures / 16).float().view(-1, 8, 8)  # 8 rows of pixels are 8 tokens
t = torch.tensor(labels)

head, tail = nn.Linear(8, 48), nn.Linear(48, 10)
layer = nn.TransformerEncoderLayer(48, 4, 96, dropout=0.05, batch_first=True)
enc = nn.TransformerEncoder(layer, 2)
ends = [*head.parameters(), *tail.parameters()]
opt = torch.optim.AdamW([*ends, *enc.parameters()], lr=2e-3)
middle = split.RemoteModule(enc, sys.argv[1], example=(64, 8, 48), optimizer=opt)
both = split.Optimizer(opt, middle)
schedule = torch.optim.lr_scheduler.LambdaLR(both, lambda step: max(0.1, 1 - step / 400))
place = torch.linspace(-1, 1, 8)[:, None] * torch.linspace(-1, 1, 48)


def scores(rows):
    return tail(middle(head(x[rows]) + place).mean(1))


for step in range(400):
    some = torch.randint(0, 1500, (64,))
    both.zero_grad()
    loss = F.cross_entropy(scores(some), t[some])
    loss.backward()
    norm = split.clip_grad_norm_(ends, middle, 1.0)
    both.step()
    schedule.step()

middle.eval()
with torch.no_grad():
    parts = torch.arange(1500, 1797).split(64)
    right = sum((scores(rows).argmax(1) == t[rows]).sum().item() for rows in parts)
print(f"accuracy {right / 297:.3f}, norm {norm:.2f}")
