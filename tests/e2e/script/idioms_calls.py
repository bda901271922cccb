"""Idioms of what differs between two calls of forward, which Python runs in each (idioms.py)."""
import contextvars
import os
import random
import threading
import types
import weakref

import numpy
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from idioms import idiom, several

KEPT, COUNTED, NOW = [], [0], contextvars.ContextVar("now", default=1.0)
KEY = "transformer.encoder.layers.attention.output."


class Around(nn.Module):
    """The middle, and a function behind it that reads what the script changes."""

    def __init__(self, middle, does, **has):
        super().__init__()
        self.middle, self.does = middle, does
        for name, value in has.items():
            setattr(self, name, value)

    def forward(self, x):
        return self.does(self, self.middle(x))


def around(s, does, **has):
    s.net.mid = m = Around(s.net.mid, does, **has)
    return m


class Hiding:
    """Gives what it holds by functions of its own."""

    def __init__(self, **held):
        self.__dict__["_held"] = held

    def __getattr__(self, name):
        return self.__dict__["_held"][name]

    def __getitem__(self, name):
        return self._held[name]

    def __iter__(self):
        return iter(self._held.values())

    def __float__(self):
        return self._held["t"]

    def set(self, value):
        self._held["t"] = value


def replaced(m, v):
    del m.held["t"]
    m.held["t"] = torch.full((16,), v)


READ = {
    "getattr": (lambda m, x: x * m.held.t, lambda: Hiding(t=1.0), lambda m, v: m.held.set(v)), "getitem": (lambda m, x: x * m.held["t"], lambda: Hiding(t=1.0), lambda m, v: m.held.set(v)),
    "iter": (lambda m, x: x * list(m.held)[0], lambda: Hiding(t=1.0), lambda m, v: m.held.set(v)), "float": (lambda m, x: x * float(m.held), lambda: Hiding(t=1.0), lambda m, v: m.held.set(v)),
    "weakref": (lambda m, x: x * m.held[0]().t, lambda: (lambda o: (weakref.ref(o), o))(Hiding(t=1.0)), lambda m, v: m.held[1].set(v)), "environ": (lambda m, x: x * float(os.environ.get("SPLIT_TEST_TIMES", 1)), lambda: 0, lambda m, v: os.environ.update(SPLIT_TEST_TIMES=str(v))),
    "contextvar": (lambda m, x: x * NOW.get(), lambda: 0, lambda m, v: NOW.set(v)), "long_keys": (lambda m, x: x * m.held[KEY + "first"], lambda: {KEY + "first": 1.0, KEY + "second": 1.0}, lambda m, v: m.held.update({KEY + "first": v})),
    "computed_name": (lambda m, x: x * getattr(m.held, f"scale_{len('a')}"), lambda: types.SimpleNamespace(scale_1=1.0), lambda m, v: setattr(m.held, "scale_1", v)), "behind_256": (lambda m, x: x * m.held[-1], lambda: [1.0] * 300, lambda m, v: m.held.__setitem__(-1, v)),
    "data": (lambda m, x: x * m.held, lambda: torch.ones(16), lambda m, v: m.held.data.fill_(v)), "tensor_of_numpy": (lambda m, x: x * m.held[0], lambda: (lambda a: (torch.from_numpy(a), a))(numpy.ones(16, "float32")), lambda m, v: m.held[1].fill(v)),
    "id_again": (lambda m, x: x * m.held["t"], lambda: {"t": torch.ones(16)}, replaced), "large_numpy": (lambda m, x: x * torch.from_numpy(m.held[:, 0].copy()), lambda: numpy.ones((16, 2048), "float32"), lambda m, v: m.held.fill(v))}


def of_one_step(s, case, at=3):
    """A change that is taken back behind the step."""
    does, held, change = case
    m = around(s, does, held=held())
    s.make()
    try:
        for i in range(6):
            change(m, 0.3 if i == at else 1.0)
            s.opt.zero_grad()
            loss = s.loss(i)
            loss.backward()
            s.see(loss)
            s.step()
    finally:
        change(m, 1.0)


@several("refused", READ, "what forward reads for this line was changed")
def read_for_one_step(s, case):
    of_one_step(s, case)


@several("refused", {k: READ[k] for k in ("getattr", "environ", "data")}, "what forward reads for this line was changed")
def read_for_one_evaluation(s, case):
    does, held, change = case
    m = around(s, does, held=held())
    s.make()
    s.loop(3)
    s.net.eval()
    try:
        change(m, 0.3)
        with torch.no_grad():
            s.see(s.loss(1))
    finally:
        change(m, 1.0)


@several("equal", {k: READ[k] for k in ("getattr", "environ", "data", "tensor_of_numpy")})
def read_and_never_changed(s, case):
    of_one_step(s, case, at=9)


@idiom("equal")
def changed_and_changed_back_between_calls(s):
    m = around(s, lambda m, x: x * m.held["t"], held={"t": 1.0})
    s.make()
    s.loop(4, after=lambda i: (m.held.update(t=0.3), m.held.update(t=1.0)))


@idiom("refused", "what forward reads for this line was changed")
def constant_replaced_by_an_equal_one_and_changed(s):
    """The first tensor changes when nothing reads it any more, then the second one."""
    first, second = torch.ones(16), torch.ones(16)
    m = around(s, lambda m, x: x.tanh() * m.held["t"] if m.held["on"] else torch.tanh(x) * m.held["t"], held={"t": first, "on": False})
    s.make()
    s.loop(2)
    m.held.update(t=second, on=True)
    first.fill_(0.3)
    s.loop(1)
    second.fill_(0.3)
    s.loop(1)


@idiom("equal")
def constant_replaced_by_an_equal_one(s):
    first = torch.ones(16)
    m = around(s, lambda m, x: m.held["t"] * x + (0.0 if m.held["on"] else 0), held={"t": first, "on": False})
    s.make()
    s.loop(2)
    m.held.update(t=torch.ones(16), on=True)
    first.fill_(0.3)
    s.loop(2)


def counts(m, x):
    COUNTED[0] += 1
    return x * (1.0 if COUNTED[0] < 20 else 0.3)


GENERATORS = {"counter": (counts, lambda: COUNTED.__setitem__(0, 0)), "counter_of_an_object": (lambda m, x: x * (1.0 if next(m.held) < 20 else 0.3), lambda: iter(range(99))),
              "random": (lambda m, x: x * 2 if m.held.random() < 0.9 else x, lambda: random.Random(3)), "numpy": (lambda m, x: x * 2 if m.held.random() < 0.9 else x, lambda: numpy.random.default_rng(3)),
              "torch": (lambda m, x: x * 2 if torch.rand(1, generator=m.held).item() < 0.9 else x, lambda: torch.Generator().manual_seed(1))}


@several("refused", GENERATORS, "the server")
def another_computation_by_itself(s, case):
    does, held = case
    around(s, does, held=held())
    s.make()
    s.loop(40)


@idiom("equal")
def what_forward_does_beside_happens_once_for_each_call(s):
    around(s, lambda m, x: (KEPT.append(x.shape[1]), x)[1])
    s.make()
    KEPT.clear()
    s.loop(5)
    s.see(len(KEPT))


# ---- a tensor of a call that forward keeps

def keeps(m, x):
    m.aux = x.pow(2).mean(1, keepdim=True)
    KEPT[:] = [m.aux]
    return x


@several("refused", {"list": lambda m: KEPT[0], "attribute": lambda m: m.aux}, "let forward return it as a further output")
def loss_of_what_forward_kept(s, of):
    m, loss = around(s, keeps, aux=torch.zeros(8, 1)), s.loss
    s.make()
    s.loss = lambda i: loss(i) + 0.1 * of(m).mean()
    s.loop(3)


@several("refused", {"tensor": torch.as_tensor, "number": float, "item": lambda x: x.item(), "numpy": numpy.asarray, "shape": lambda x: x.shape[0], "list": list, "stack": lambda x: torch.stack([x, x]), "detach": lambda x: x.detach()},
         "let forward return it as a further output")
def look_at_what_forward_kept(s, look):
    m = around(s, keeps, aux=torch.zeros(8, 1))
    s.make()
    s.loop(2)
    look(m.aux)


@idiom("refused", "let forward return it as a further output")
def forward_reads_its_last_call(s):
    def does(m, x):
        found = x + KEPT[0] if m.held["on"] else x
        KEPT.__setitem__(slice(None), [x])
        return found
    m = around(s, does, held={"on": False})
    s.make()
    s.loop(2)
    m.held["on"] = True
    s.loop(2)


@idiom("equal")
def feature_kept_and_overwritten(s):
    def does(m, x):
        m.feature = x
        return x
    around(s, does)
    s.make()
    s.loop(3)


# ---- other threads, which run while forward does

class Doubles(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, dy):
        return dy * 2


def beside(m, x):
    found = []

    def work():
        found.append(m.held[0](torch.zeros(2, 3) + torch.arange(3.0)) + Doubles.apply(torch.ones(2, 3)) + m.held[1](torch.ones(2, 1, 3), torch.ones(2, 1, 3), torch.ones(2, 1, 3))[0][:, 0])
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert type(found[0]) is torch.Tensor
    return x


@idiom("equal")
def another_thread_uses_modules_meanwhile(s):
    around(s, beside, held=(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), nn.MultiheadAttention(3, 1)))
    s.make()
    s.loop(2)


# ---- attributes that cannot be compared

def holds_itself():
    held = {"t": 1.0}
    held["self"] = held
    return held


def of_inference():
    with torch.inference_mode():
        return torch.ones(16)


class NoEqual:
    __hash__ = None

    def __eq__(self, other):
        raise ValueError("not to be compared")


@several("equal", {"holds_itself": holds_itself, "inference_tensor": of_inference, "numpy": lambda: numpy.zeros(4), "list_of_numpy": lambda: [numpy.zeros(4)], "no_equal": NoEqual})
def attribute_that_forward_does_not_read(s, held):
    m = around(s, lambda m, x: x * 1.5, held=held())
    s.make()
    s.loop(2)
    m.held = held()
    s.loop(2)


@idiom("equal")
def inference_tensor_that_forward_reads(s):
    around(s, lambda m, x: x + m.held, held=of_inference())
    s.make()
    s.loop(3)


# ---- modules that torch.jit.script reads

class Scripted(nn.Module):
    def __init__(self, middle):
        super().__init__()
        self.middle, self.times, self.sizes = middle, 1.0, [1, 2]

    def forward(self, x):
        return self.middle(x) * self.times


@several("refused", {"script": lambda s: torch.jit.script(Scripted(s.net.mid))}, "times was changed")
def attribute_of_a_scripted_module(s, make):
    s.net.mid = m = make(s)
    s.make()
    s.loop(2)
    m.times = 0.3
    s.loop(1)


# ---- what forward asks, and how it calls

def by_keyword(m, x, *, times=1.5):
    return x * times


class ByKeyword(nn.Module):
    def __init__(self, middle):
        super().__init__()
        self.middle = middle

    def forward(self, x, mask=None, *, times=1.5, shift: float = 0.5):
        x = self.middle(x)
        return (x if mask is None else x * mask) * times + shift


class Counter(nn.Module):
    def __init__(self, middle):
        super().__init__()
        self.middle = middle
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.calls += 1
        return self.middle(x)


ASKED = {"is_cuda": lambda m, x: x * 2 if x.is_cuda else x, "is_floating_point": lambda m, x: x if x.is_floating_point() else x * 2, "checkpoint": lambda m, x: checkpoint(torch.tanh, x),
         "checkpoint_in_training": lambda m, x: checkpoint(m.middle[0], x) if m.training else m.middle[0](x), "checkpoint_without_reentry": lambda m, x: checkpoint(torch.tanh, x, use_reentrant=False),
         "checkpoint_sequential": lambda m, x: checkpoint_sequential(m.middle, 2, x), "keyword": lambda m, x: by_keyword(m, x, times=2.0)}


@several("equal", ASKED)
def forward_asks(s, does):
    around(s, does)
    s.make()
    s.loop(3)


@idiom("equal")
def arguments_by_keyword_alone(s):
    s.net.mid = ByKeyword(s.net.mid)
    s.make()
    s.loop(3)


@several("refused", {"requires_grad": (lambda m, x: x if x.requires_grad else x * 2, "forward reads requires_grad of a tensor"), "grad_fn": (lambda m, x: x if x.grad_fn is None else x * 2, "forward reads grad_fn of a tensor"),
                     "size_as_a_key": (lambda m, x: x * {16: torch.linspace(0, 1, 16)}[x.shape[1]], "int() of a size is a number")}, "")
def sentence_of_what_forward_asks(s, case):
    around(s, case[0])
    try:
        s.make()
    except Exception as e:
        assert case[1] in str(e), e
        raise


@idiom("refused", "forward assigns a tensor of the module, such as a counter")
def counter_in_a_buffer(s):
    s.net.mid = Counter(s.net.mid)
    s.make()


@idiom("equal")
def size_made_a_number(s):
    around(s, lambda m, x: x * {16: torch.linspace(0, 1, 16)}[int(x.shape[1])])
    s.make()
    s.loop(3)
