"""One module of a small network learns on a server: examples/run digits.py local:

Head, tail, data and labels stay in this script (docs/howto-script.md)."""
import sys

import split
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset, random_split
from torchvision.models.resnet import BasicBlock

torch.manual_seed(0)
pictures, labels = load_digits(return_X_y=True)
data = TensorDataset(torch.tensor(pictures / 16).float().view(-1, 1, 8, 8), torch.tensor(labels))
train, test = random_split(data, [1500, 297])

head = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
mid = nn.Sequential(BasicBlock(16, 16), BasicBlock(16, 16), nn.Conv2d(16, 32, 3, 2, 1),
                    nn.BatchNorm2d(32), nn.ReLU())
tail = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
opt = torch.optim.SGD([*head.parameters(), *mid.parameters(), *tail.parameters()],
                      lr=0.05, momentum=0.9, weight_decay=5e-4)
middle = split.RemoteModule(mid, sys.argv[1], example=(50, 16, 8, 8), optimizer=opt,
                            codec="quant:8", chunks=2)
for epoch in range(6):
    for x, t in DataLoader(train, 50, shuffle=True):
        opt.zero_grad()
        F.cross_entropy(tail(middle(head(x))), t).backward()
        middle.step()  # first: if it fails, opt has not stepped
        opt.step()

whole = nn.Sequential(head, middle, tail).eval()
x, t = next(iter(DataLoader(test, 297)))
parts = zip(x.split(50), t.split(50))
right = sum((whole(pixels).argmax(1) == label).sum().item() for pixels, label in parts)
print(f"accuracy {right / 297:.3f}")
torch.save(whole.state_dict(), "digits.pt")
local = nn.Sequential(head, mid, tail)
local.load_state_dict(torch.load("digits.pt"))
