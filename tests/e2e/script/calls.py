"""Trains with several calls a step, gradients in odd orders, clipping and pipelined steps, and writes weights.pt; for runs with and without kills."""
import sys

import torch
import torch.nn.functional as F
from torch import nn

import split

torch.manual_seed(0)
torch.set_num_threads(1)
head, tail = nn.Linear(8, 32), nn.Linear(32, 5)
mid = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 1)
opt = torch.optim.AdamW([*head.parameters(), *mid.parameters(), *tail.parameters()], lr=1e-3)
parts = dict(head=head, tail=tail, opt=opt)
run = split.load("calls.pt")
middle = split.RemoteModule(mid, sys.argv[1], example=(16, 8, 32), optimizer=opt, codec="qsgd:15,bucket=512,ef=true", chunks=2,
                            calls=3, conf={"link.retry_ms": 50}, resume=run and run["middle"])
step = run.restore(**parts) if run else 0


def loss_of(y, t):
    return F.cross_entropy(tail(y).mean(1), t)


while step < 60:
    try:
        g = torch.Generator().manual_seed(step)
        data = [(torch.randn(16 - 5 * i, 8, 8, generator=g), torch.randint(0, 5, (16 - 5 * i,), generator=g)) for i in range(3)]
        opt.zero_grad()
        if step % 3 == 0:
            middle.pipelined(head, loss_of, *data[0])
        else:
            sent = [middle.send(head(x)) for x, _ in data]
            losses = [loss_of(s.wait(), t) for s, (_, t) in zip(sent, data)]
            for i in ((2, 0), (0, 1, 2))[step % 2]:
                losses[i].backward()
            split.clip_grad_norm_([*head.parameters(), *tail.parameters()], middle, 0.5)
        middle.step()
        opt.step()
        step += 1
        if step % 10 == 0:
            split.save("calls.pt", middle=middle, step=step, **parts)
            print("step", step, flush=True)
    except split.RolledBack:
        run = split.load("calls.pt")
        middle.resume(run["middle"])
        step = run.restore(**parts)
torch.save(nn.Sequential(head, middle, tail).state_dict(), "weights.pt")
