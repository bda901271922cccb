"""usage: torch_processes.py SERVER PID [CHECK…]: split.RemoteModule in a DataLoader's workers and other children, where Ctrl-C comes while a
call waits, in two processes with one token, and from a file. All checks, or those that are named."""
import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

import split
from middles import in_child, refused
from signals import interrupt

server, pid = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)
FORKED = "a process that was forked cannot use its parent's middle"
STEPS, AT = 5, 2
torch.manual_seed(1)
PARTS = nn.Linear(8, 32), nn.Sequential(nn.Linear(32, 32), nn.Tanh()), nn.Linear(32, 5)
DATA = [(torch.randn(8, 8), torch.randint(0, 5, (8,))) for _ in range(STEPS)]


class Run:
    """A network whose middle is remote, with the optimizer of all of it."""

    def __init__(self, **kwargs):
        self.head, mid, self.tail = copy.deepcopy(PARTS)
        self.opt = torch.optim.SGD([p for m in (self.head, mid, self.tail) for p in m.parameters()], 0.1, 0.9)
        self.middle = split.RemoteModule(mid, server, example=(8, 32), optimizer=self.opt, chunks=2, **kwargs)

    def loss(self, i):
        x, t = DATA[i]
        self.opt.zero_grad()
        return F.cross_entropy(self.tail(self.middle(self.head(x))), t)

    def pipelined(self, i):
        self.opt.zero_grad()
        self.middle.pipelined(self.head, lambda y, t: F.cross_entropy(self.tail(y), t), *DATA[i])

    def train(self, steps):
        for i in steps:
            self.loss(i).backward()
            self.middle.step()
            self.opt.step()
        return self

    def end(self):
        """Returns all weights, and ends the session."""
        found = [v.clone() for m in (self.head, self.middle, self.tail) for v in m.state_dict().values()]
        self.middle.close(True)
        return found


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b))


class Numbers(torch.utils.data.Dataset):
    """A data set for workers that inherit a middle, which they cannot use."""

    def __init__(self, middle):
        self.middle = middle

    def __len__(self):
        return 8

    def __getitem__(self, i):
        refused(split.UsageError, FORKED, self.middle, torch.zeros(1, 32))
        return torch.full((32,), float(i))


def check_workers():
    run = Run().train(range(AT))
    seen = [x for x in torch.utils.data.DataLoader(Numbers(run.middle), 4, num_workers=2)]
    assert torch.cat(seen)[:, 0].tolist() == list(range(8))
    loss = run.loss(AT)  # with a step open
    list(torch.utils.data.DataLoader(Numbers(run.middle), 4, num_workers=2))
    loss.backward()
    run.middle.step()
    run.opt.step()
    spawned = torch.utils.data.DataLoader(Numbers(run.middle), 4, num_workers=1, multiprocessing_context="spawn")
    refused(split.UsageError, "cannot be pickled", iter, spawned)
    assert same(run.train(range(AT + 1, STEPS)).end(), expected)


def uses_nothing(run, token, loss):
    m, x = run.middle, torch.zeros(8, 32)
    for f, args in ((m, [x]), (m.send, [x]), (m.pipelined, [run.head, run.tail, *DATA[0]]), (m.step, []), (m.drop, []), (m.grad_norm, []),
                    (m.checkpoint, []), (m.resume, [token]), (m.stats, []), (m.state_dict, []), (m.load_state_dict, [PARTS[1].state_dict()]),
                    (loss.backward, [])):
        refused(split.UsageError, FORKED, f, *args)
    m.close(True)


def check_fork():
    run = Run().train(range(AT))
    token = run.middle.checkpoint()
    loss = run.loss(AT)
    in_child(lambda: uses_nothing(run, token, loss))
    loss.backward()
    run.middle.step()
    run.opt.step()
    assert same(run.train(range(AT + 1, STEPS)).end(), expected)


def check_interrupts():
    """Ctrl-C drops the step, and the next ones are right to the bit; a step() that is called again continues."""
    for name in ("forward", "backward", "grad_norm", "pipelined", "drop"):
        run = Run().train(range(AT))
        if name in ("forward", "pipelined"):
            interrupt(pid, lambda: None, lambda _: run.loss(AT) if name == "forward" else run.pipelined(AT))
        elif name == "backward":
            loss = run.loss(AT)
            interrupt(pid, lambda: None, lambda _: loss.backward())
            assert run.middle.step().skipped
        else:
            run.loss(AT).backward()
            interrupt(pid, lambda: None, lambda _: getattr(run.middle, name)())
        assert same(run.train(range(AT + 1, STEPS)).end(), without), name
    run = Run().train(range(AT))
    run.loss(AT).backward()
    interrupt(pid, lambda: None, lambda _: run.middle.step())
    assert not run.middle.step().skipped
    run.opt.step()
    assert same(run.train(range(AT + 1, STEPS)).end(), expected)


def check_state():
    run = Run().train(range(AT))
    for name in ("state_dict", "checkpoint"):
        run.middle.load_state_dict(run.middle.state_dict())  # what was fetched is of another session
        interrupt(pid, lambda: None, lambda _: getattr(run.middle, name)())
    run.middle.close(True)
    run = Run().train(range(AT))
    token = run.middle.checkpoint()
    interrupt(pid, lambda: None, lambda _: run.middle.resume(token))
    run.middle.resume(token)
    assert same(run.train(range(AT, STEPS)).end(), expected)
    head, mid, tail = copy.deepcopy(PARTS)  # a middle that did not come about leaves the optimizer as it was
    opt = torch.optim.SGD([*head.parameters(), *mid.parameters()], 0.1)
    had = [id(p) for p in opt.param_groups[0]["params"]]
    make = dict(example=(8, 32), optimizer=opt)
    interrupt(pid, lambda: None, lambda _: split.RemoteModule(mid, server, **make))
    refused(split.UnavailableError, "has not answered", split.RemoteModule, mid, "tcp://127.0.0.1:9", wait_s=1, **make)
    refused(split.ConfigError, "codec", split.RemoteModule, mid, server, codec="nothing", **make)
    assert [id(p) for p in opt.param_groups[0]["params"]] == had
    split.RemoteModule(mid, server, **make).close(True)


def check_one_token():
    """Two processes resume from the same token: one of them gets an error."""
    run = Run().train(range(AT))
    other = Run(resume=run.middle.checkpoint(), wait_s=20)
    other.train(range(AT, AT + 1))
    refused(split.Error, "", lambda: run.train(range(AT, STEPS)))
    other.middle.close(True)


def check_saved():
    """A warm-up resumes from a file. The middle's groups have their own rules, and another order of layers."""
    def begin(server, run=None):
        head, mid, tail = copy.deepcopy(PARTS)
        opt = torch.optim.SGD([{"params": [*head.parameters(), *tail.parameters()], "momentum": 0, "nesterov": False},
                               {"params": [mid[0].weight], "lr": 0.2, "weight_decay": 0.1}, {"params": [mid[0].bias]}], 0.1, 0.9, nesterov=True)
        plan = torch.optim.lr_scheduler.LambdaLR(opt, lambda i: i / STEPS)
        middle = split.RemoteModule(mid, server, example=(8, 32), optimizer=opt, resume=run and run["middle"]) if server else mid
        parts = dict(head=head, tail=tail, opt=opt, plan=plan)
        return middle, parts, run.restore(**parts) if run else 0

    def train(middle, parts, first, last):
        losses = []
        for x, t in DATA[first:last]:
            parts["opt"].zero_grad()
            loss = F.cross_entropy(parts["tail"](middle(parts["head"](x))), t)
            loss.backward()
            if isinstance(middle, split.RemoteModule):
                middle.step()
            parts["opt"].step()
            parts["plan"].step()
            losses.append(loss.item())
        return losses
    own = train(*begin(None), STEPS)
    middle, parts, _ = begin(server)
    losses = train(middle, parts, 0, AT)
    split.save("saved.pt", middle=middle, step=AT, **parts)
    for at in range(AT, STEPS):
        losses += train(middle, parts, at, at + 1)  # a save that fails makes no token, and the server keeps two
        refused(FileNotFoundError, "missing", split.save, "missing/saved.pt", middle=middle, step=at + 1, **parts)
    assert max(abs(a - b) for a, b in zip(own, losses)) < 1e-6, (own, losses)
    middle, parts, step = begin(server, split.load("saved.pt"))
    assert train(middle, parts, step, STEPS) == losses[AT:]
    parts["opt"].param_groups[1]["momentum"] = 0.8
    refused(split.ConfigError, "momentum is 0.8 by now, and the middle was made with 0.9", train, middle, parts, 0, 1)
    middle.close(True)


expected = Run().train(range(STEPS)).end()
run = Run().train(range(AT))
run.loss(AT).backward()
run.middle.drop()
without = run.train(range(AT + 1, STEPS)).end()
assert not same(expected, without)
for check in (check_workers, check_fork, check_interrupts, check_state, check_one_token, check_saved):
    if sys.argv[3:] and check.__name__ not in sys.argv[3:]:
        continue
    check()
    print(check.__name__, flush=True)
