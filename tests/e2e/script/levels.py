"""Trains a middle of two inputs and three outputs, of which one has no gradient in every third step, and writes weights.pt; for runs
with and without kills."""
import sys

import torch
from torch import nn

import split
from several import Denoiser, Pyramid, conv


class Levels(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps, self.levels = Denoiser(6), Pyramid()

    def forward(self, x, t):
        return self.levels(self.steps(x, t))


torch.manual_seed(0)
torch.set_num_threads(1)
head, mid, tail = conv(1, 6), Levels(), conv(6, 5)
opt = torch.optim.AdamW([*head.parameters(), *mid.parameters(), *tail.parameters()], lr=1e-3)
parts = dict(head=head, tail=tail, opt=opt)
run = split.load("levels.pt")
middle = split.RemoteModule(mid, sys.argv[1], example=((6, 6, 16, 16), (6, 1)), optimizer=opt, input_grad=(True, False), chunks=2,
                            codec="topk:0.3,ef=true", conf={"link.retry_ms": 50}, resume=run and run["middle"])
step = run.restore(**parts) if run else 0
while step < 40:
    try:
        g = torch.Generator().manual_seed(step)
        x, t = torch.randn(6, 1, 16, 16, generator=g), torch.rand(6, 1, generator=g)
        opt.zero_grad()
        levels = middle(head(x), t)
        sum(tail(y).square().mean() for y in levels[:2 if step % 3 == 1 else 3]).backward()
        middle.step()
        opt.step()
        step += 1
        if step % 10 == 0:
            split.save("levels.pt", middle=middle, step=step, **parts)
            print("step", step, flush=True)
    except split.RolledBack:
        run = split.load("levels.pt")
        middle.resume(run["middle"])
        step = run.restore(**parts)
torch.save(nn.Sequential(head, middle, tail).state_dict(), "weights.pt")
