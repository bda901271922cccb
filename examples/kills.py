"""Going on after a kill of either side: examples/run kills.py local:states

Repeat the command after a kill: it goes on from the last file that it saved (docs/howto-script.md)."""
import sys

import split
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

torch.manual_seed(0)
pictures, labels = load_digits(return_X_y=True)
x, t = torch.tensor(pictures / 16).float().view(-1, 8, 8), torch.tensor(labels)
head, tail = nn.Linear(8, 32), nn.Sequential(nn.Flatten(), nn.Linear(256, 10))
mid = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2)
opt = torch.optim.AdamW([*head.parameters(), *mid.parameters(), *tail.parameters()], lr=1e-3)


def batch(step):  # a function of the step alone
    some = torch.randint(0, 1500, (32,), generator=torch.Generator().manual_seed(step))
    return x[some], t[some]


parts = dict(head=head, tail=tail, opt=opt)
run = split.load("kills.pt")  # None: there is no such file
middle = split.RemoteModule(mid, sys.argv[1], example=(32, 8, 32), optimizer=opt,
                            codec="qsgd:15,bucket=512,ef=true", chunks=4,
                            conf={"link.retry_ms": 50}, resume=run and run["middle"])
step = run.restore(**parts) if run else 0
while step < 300:
    try:
        pixels, label = batch(step)
        opt.zero_grad()
        F.cross_entropy(tail(middle(head(pixels))), label).backward()
        middle.step()
        opt.step()
        step += 1
        if step % 20 == 0:
            split.save("kills.pt", middle=middle, step=step, **parts)
            print("step", step, flush=True)
    except split.RolledBack:  # the server was killed: it holds an older state
        run = split.load("kills.pt")
        middle.resume(run["middle"])
        step = run.restore(**parts)
torch.save(nn.Sequential(head, middle, tail).state_dict(), "weights.pt")
