"""usage: bench_updates_peer.py
Measures a step of PyTorch's SGD and AdamW over MobileNetV2's parameters with one thread: the least CPU time of 99 steps. To compare with
`bench_ops 224 64 64 1 99 6`, which measures Split's."""
import time

import torch
from torchvision.models import mobilenet_v2

torch.set_num_threads(1)
makers = {"sgd": lambda p, foreach: torch.optim.SGD(p, lr=1e-3, momentum=0.9, weight_decay=1e-4, foreach=foreach),
          "adamw": lambda p, foreach: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.01, foreach=foreach)}
for name, make in makers.items():
    for foreach in (False, True):
        parameters = list(mobilenet_v2(num_classes=10).parameters())
        for p in parameters:
            p.grad = torch.rand_like(p)
        optimizer = make(parameters, foreach)
        least = float("inf")
        for _ in range(99):
            began = time.process_time()
            optimizer.step()
            least = min(least, time.process_time() - began)
        print("%-6s %d weights  foreach %-5s  CPU min %.3f ms" % (name, sum(p.numel() for p in parameters), foreach, least * 1e3))
