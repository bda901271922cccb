"""Idioms of training scripts. Each runs with the network in PyTorch and with its middle remote, and has one of three verdicts:

equal    weights and what the script looked at are PyTorch's
refused  an exception whose text says what to write
warned   a line of the log says what is missing

    idioms.py SERVER [NAME …]        runs them, or those of some names or of parts such as idioms_loops
    idioms.py --table                prints docs/results/idioms.md"""
import importlib
import logging
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

import split

server = sys.argv[1]
torch.set_num_threads(1)
IDIOMS = []
g = torch.Generator().manual_seed(1)
DATA = [(torch.randn(8, 6, generator=g), torch.randint(0, 3, (8,), generator=g)) for _ in range(6)]


class Net(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.head, self.tail = nn.Linear(6, 16), nn.Linear(16, 3)
        self.mid = nn.Sequential(*{"plain": (nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16)),
                                   "norm": (nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Tanh()),
                                   "drop": (nn.Linear(16, 16), nn.Dropout(0.5)),
                                   "zero": (nn.Linear(16, 16), nn.Dropout(0.0))}[layers])

    def forward(self, x):
        return self.tail(self.mid(self.head(x)))


class Script:
    """What an idiom is written with."""

    def __init__(self, remote, layers):
        torch.manual_seed(0)
        self.remote, self.net, self.seen = remote, Net(layers), []

    def make(self, opt=None, **options):
        """The optimizer; and the middle becomes remote."""
        self.opt = opt or torch.optim.SGD(self.net.parameters(), 0.1)
        if self.remote:
            self.net.mid = split.RemoteModule(self.net.mid, server, **{"example": (8, 16), "optimizer": self.opt, **options})
        return self.opt

    def loss(self, i=0):
        x, t = DATA[i % len(DATA)]
        return F.cross_entropy(self.net(x), t)

    def see(self, value):
        self.seen.append(float(value))

    def step(self, **options):
        if self.remote:
            self.net.mid.step(**options)
        self.opt.step()

    def loop(self, n=5, each=lambda i: None, after=lambda i: None, zero=None):
        """each: between backward and step."""
        for i in range(n):
            (zero or self.opt.zero_grad)()
            loss = self.loss(i)
            loss.backward()
            self.see(loss)
            each(i)
            self.step()
            after(i)

    def state(self):
        return {k: v.double() for k, v in self.net.state_dict().items() if "num_batches" not in k}


def idiom(verdict, says="", layers="plain"):
    """says: a part of what is said. The function's name is the idiom's."""
    def keep(run):
        IDIOMS.append((run.__name__, verdict, says, layers, run))
        return run
    return keep


def several(verdict, cases, says="", layers="plain"):
    """One idiom for each key of cases: `run` gets the value, too."""
    def keep(run):
        for name, case in cases.items():
            IDIOMS.append((f"{run.__name__}[{name}]", verdict, says, layers, lambda s, case=case: run(s, case)))
        return run
    return keep


# ---- the verdicts

class Log(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def run(remote, layers, idiom_):
    """State, what was seen, the lines of the log, and the exception."""
    log, s = Log(), Script(remote, layers)
    logging.getLogger("split").addHandler(log)
    try:
        idiom_(s)
        return s.state(), s.seen, log.lines, None
    except Exception as e:
        return None, None, log.lines, e
    finally:
        logging.getLogger("split").removeHandler(log)
        if isinstance(getattr(s.net, "mid", None), split.RemoteModule):
            s.net.mid.close(True)


def far(ours, theirs):
    state = max((ours[0][k] - v).abs().max().item() for k, v in theirs[0].items()) if theirs[0].keys() == ours[0].keys() else math.inf
    seen = max((abs(a - b) for a, b in zip(ours[1], theirs[1])), default=0) if len(ours[1]) == len(theirs[1]) else math.inf
    return max(state, seen)


def found(layers, idiom_):
    """What came, and what is said of it."""
    ours = run(True, layers, idiom_)
    if ours[3] is not None:
        kind = "refused" if isinstance(ours[3], split.Error) else "raw"
        return kind, f"{type(ours[3]).__name__}: {ours[3]}"
    if ours[2]:
        return "warned", "; ".join(ours[2])
    theirs = run(False, layers, idiom_)
    if theirs[3] is not None:
        return "raw", f"PyTorch itself: {theirs[3]!r}"
    off = far(ours, theirs)
    return ("equal" if off < 2e-5 else "silent"), f"differs by {off:.2g}"


def table():
    """A row for each function, with the names of its cases."""
    rows = {}
    for name, verdict, says, layers, _ in IDIOMS:
        what, _, case = name.partition("[")
        rows.setdefault((what, verdict, says, layers), []).append(case.rstrip("]"))
    print(f"""# Idioms of training scripts

{len(IDIOMS)} idioms, each with the network in PyTorch 1.13 and 2.6, and with its middle remote:

    make lib
    examples/run ../tests/e2e/script/idioms.py local:

**equal**: weights, losses and what the script looked at differ by less than 2e-5. **refused**: by a sentence that says what to write. **warned**: by a line of the log.

| idiom | cases | verdict | what is said |
|---|---|---|---|""")
    for (what, verdict, says, layers), cases in rows.items():
        text = what.replace("_", " ") + {"norm": " (batch norm)", "drop": " (dropout)", "zero": " (dropout)"}.get(layers, "")
        print(f"| {text} | {', '.join(c.replace('_', ' ') for c in cases if c)} | {verdict} | {says and f'… {says} …'} |")


def main():
    if server == "--table":
        return table()
    logging.getLogger("split").propagate = False
    bad, count = [], dict.fromkeys(("equal", "refused", "warned"), 0)
    for name, verdict, says, layers, idiom_ in IDIOMS:
        if len(sys.argv) > 2 and not any(n in name for n in sys.argv[2:]):
            continue
        came, text = found(layers, idiom_)
        count[verdict] += 1
        if came != verdict or says not in text:
            bad.append(f"{name}: {came}, not {verdict} with {says!r}: {text}")
    print(f"{len(IDIOMS)} idioms: " + ", ".join(f"{n} {v}" for v, n in count.items()))
    assert not bad, "\n".join(bad)


if __name__ == "__main__":
    sys.modules["idioms"] = sys.modules[__name__]
    parts = [f"idioms_{part}" for part in ("calls", "forward", "learn", "loops", "network", "picks", "plain", "steps")]
    for part in [part for part in parts if part in sys.argv] or parts:
        importlib.import_module(part)
    sys.argv = [a for a in sys.argv if a not in parts]
    main()
