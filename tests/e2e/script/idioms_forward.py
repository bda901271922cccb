"""Idioms of what forward asks of a tensor, reads beside tensors, changes in place and gives back (idioms.py)."""
import collections
import functools
import itertools
import math
import sys
import types

import numpy
import torch
import torch.nn.functional as F
from torch import nn

from idioms import DATA, idiom, several

SGD = torch.optim.SGD


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


# ---- what a tensor is

@functools.singledispatch
def by_kind(x):
    return x


by_kind.register(torch.Tensor)(torch.tanh)


@several("refused", {"is": lambda m, x: torch.tanh(x) if type(x) is torch.Tensor else x, "equal": lambda m, x: torch.tanh(x) if type(x) == torch.Tensor else x,
                     "name": lambda m, x: torch.tanh(x) if type(x).__name__ == "Tensor" else x, "class": lambda m, x: torch.tanh(x) if x.__class__ is torch.Tensor else x,
                     "subclass": lambda m, x: torch.tanh(x) if issubclass(type(x), torch.Tensor) else x, "table": lambda m, x: {torch.Tensor: torch.tanh}.get(type(x), F.relu)(x),
                     "singledispatch": lambda m, x: by_kind(x), "in_training": lambda m, x: torch.tanh(x) if m.training and type(x) is torch.Tensor else x,
                     "of_a_gradient": lambda m, x: x.detach() + 0.1 * m.middle[0](x) if type(x) is torch.Tensor else x + 0.1 * m.middle[0](x), "of_gradients_on": lambda m, x: x if torch.is_grad_enabled() else x * 2},
         "it asks what a tensor is")
def kind_of_a_tensor(s, does):
    around(s, does)
    s.make()
    s.loop(2)


# ---- what forward reads beside tensors

TIMES, ACT, CONFIG = 1.0, torch.tanh, types.ModuleType("config")
CONFIG.times = 1.0
sys.modules["config_of_a_script"] = CONFIG


def of_global():
    return TIMES


class Slots:
    __slots__ = ("times",)


class Computed(Around):
    times = 1.0

    @property
    def now(self):
        return 1.0 if self.held["epoch"] < 1 else 0.3

    def scaled(self, x):
        return x


def imported(m, x):
    import config_of_a_script
    return x * config_of_a_script.times


def set_global(name, value):
    globals()[name] = value


def a_slot(value):
    slot = Slots()
    slot.times = value
    return slot


READ = {
    "attribute": (lambda m, x: x * m.held, lambda: 1.0, lambda m: setattr(m, "held", 0.3)), "dict": (lambda m, x: x * m.held["t"], lambda: {"t": 1.0}, lambda m: m.held.update(t=0.3)),
    "list": (lambda m, x: x * m.held[0], lambda: [1.0], lambda m: m.held.__setitem__(0, 0.3)), "namespace": (lambda m, x: x * m.held.t, lambda: types.SimpleNamespace(t=1.0), lambda m: setattr(m.held, "t", 0.3)),
    "nested": (lambda m, x: x * m.held["a"][0].t, lambda: {"a": [types.SimpleNamespace(t=1.0)]}, lambda m: setattr(m.held["a"][0], "t", 0.3)),
    "deque": (lambda m, x: x * m.held[0], lambda: collections.deque([1.0]), lambda m: m.held.__setitem__(0, 0.3)), "default": (lambda m, x: m.held[1](x), lambda: (lambda box: (box, lambda x, by=box: x * by[0]))([1.0]), lambda m: m.held[0].__setitem__(0, 0.3)),
    "slots": (lambda m, x: x * m.held.times, lambda: a_slot(1.0), lambda m: setattr(m.held, "times", 0.3)), "function": (lambda m, x: m.held(x), lambda: torch.tanh, lambda m: setattr(m, "held", torch.relu)),
    "closure": (lambda m, x: m.held[1](x), lambda: (lambda box: (box, lambda x: x * box["t"]))({"t": 1.0}), lambda m: m.held[0].update(t=0.3)),
    "partial": (lambda m, x: m.held(x), lambda: functools.partial(lambda box, x: x * box[0], [1.0]), lambda m: m.held.args[0].__setitem__(0, 0.3)),
    "numpy": (lambda m, x: x * float(m.held[0]), lambda: numpy.ones(1), lambda m: m.held.fill(0.3)), "tensor": (lambda m, x: x * m.held, lambda: torch.ones(16), lambda m: m.held.fill_(0.3)),
    "tensor_of_one": (lambda m, x: x * m.held, lambda: torch.tensor(1.0), lambda m: m.held.fill_(0.3)), "tensor_replaced": (lambda m, x: x * m.held["t"], lambda: {"t": torch.ones(16)}, lambda m: m.held.update(t=torch.full((16,), 0.3))),
    "getattr": (lambda m, x: x * getattr(m.held, "t"), lambda: types.SimpleNamespace(t=1.0), lambda m: setattr(m.held, "t", 0.3)), "property": (lambda m, x: x * m.now, lambda: {"epoch": 0}, lambda m: m.held.update(epoch=3)),
    "global": (lambda m, x: x * TIMES, lambda: 0, lambda m: set_global("TIMES", 0.3)), "global_of_a_function": (lambda m, x: x * of_global(), lambda: 0, lambda m: set_global("TIMES", 0.3)),
    "global_function": (lambda m, x: ACT(x), lambda: 0, lambda m: set_global("ACT", torch.relu)), "module": (lambda m, x: x * CONFIG.times, lambda: 0, lambda m: setattr(CONFIG, "times", 0.3)),
    "imported": (imported, lambda: 0, lambda m: setattr(CONFIG, "times", 0.3)), "class_attribute": (lambda m, x: x * m.times, lambda: 0, lambda m: setattr(Computed, "times", 0.3)),
    "method": (lambda m, x: m.scaled(x), lambda: 0, lambda m: setattr(Computed, "scaled", lambda self, x: x * 0.3)), "forward": (lambda m, x: x, lambda: 0, lambda m: setattr(Computed, "forward", lambda self, x: self.middle(x) * 0.3))}


def read_and_changed(s, case):
    does, held, change = case
    own = {k: vars(Computed)[k] for k in ("times", "scaled")}
    set_global("TIMES", 1.0), set_global("ACT", torch.tanh), setattr(CONFIG, "times", 1.0)
    try:
        s.net.mid = m = Computed(s.net.mid, does, held=held())
        s.make()
        s.loop(2)
        change(m)
        s.loop(2)
    finally:
        vars(Computed).get("forward") and delattr(Computed, "forward")
        for name, value in own.items():
            setattr(Computed, name, value)


@several("refused", READ, "was changed, and the server does not")
def read_by_forward_and_changed(s, case):
    read_and_changed(s, case)


@idiom("refused", "what forward reads for this line was changed")
def read_by_forward_and_changed_for_an_evaluation(s):
    m = around(s, lambda m, x: x * m.held["t"], held={"t": 1.0})
    s.make()
    s.loop(2)
    m.held["t"] = 0.3
    s.net.eval()
    with torch.no_grad():
        s.see(s.loss(1))


@idiom("refused", "what forward reads for this line was changed")
def read_by_forward_in_hiding(s):
    count = itertools.count()
    m = around(s, lambda m, x: x * (1.0 if m.held.__reduce__()[1][0] < 3 else 0.3), held=count)
    s.make()
    s.loop(9, after=lambda i: next(m.held))


@several("equal", {"same": lambda m: m.held.update(t=1.0), "of_no_meaning": lambda m: m.held.update(steps=1), "by_a_counter": lambda m: m.held.update(epoch=m.held["epoch"] + 1)})
def read_by_forward_and_equal(s, change):
    m = around(s, lambda m, x: x * (m.held["t"] if m.held["epoch"] < 9 else 0.0), held={"t": 1.0, "epoch": 0})
    s.make()
    s.loop(5, after=lambda i: change(m))


# ---- what forward raises, in its own words

def raises(m, x):
    if m.held:
        raise ValueError("the words of a script")
    return x


@several("refused", {"own": (raises, "the words of a script"), "key": (lambda m, x: {}["absent"], "forward raises KeyError"), "attribute": (lambda m, x: m.absent(x), "has no attribute 'absent'")}, "in PyTorch, too, for random numbers")
def forward_raises(s, case):
    does, words = case
    around(s, does, held=True)
    try:
        s.make()
    except Exception as e:
        assert words in str(e), e
        raise
    s.loss().backward()


SENTENCES = {"index_by_a_tensor": (lambda m, x: x[torch.tensor([0, 1])], "lists of numbers of [16] with its rows"), "index_by_a_list": (lambda m, x: x[[0, 1]], "lists of numbers of [16] with its rows"),
             "power": (lambda m, x: x ** x, "the exponent a tensor"), "einsum": (lambda m, x: torch.einsum("bi,bi->b", x, x), "einsum of 'bi,bi->b'"), "einsum_of_one": (lambda m, x: torch.einsum("bi->ib", x), "einsum of 'bi->ib'"),
             "arange": (lambda m, x: x + torch.arange(x.shape[0])[:, None], "computes with the number of rows"), "text": (lambda m, x: torch.add(input=x, other=x), "add() with ['input', 'other']"),
             "attribute": (lambda m, x: x.mT, "a comparison or attribute of a tensor"), "dict": (lambda m, x: {"y": x}, "forward gives a dict")}


@several("refused", SENTENCES, "idioms_forward.py:")
def sentence_of_forward(s, case):
    """It begins with the script's line, and shows no object of this package."""
    does, words = case
    around(s, does)
    try:
        s.make()
    except Exception as e:
        assert words in str(e) and "object at" not in str(e), e
        raise


@several("refused", {"optimizer": lambda s: s.make(SGD(s.net.tail.parameters(), 0.1)), "hooks": lambda s: (s.net.mid[0].register_forward_hook(print), s.make()),
                     "dtype": lambda s: (s.net.mid.half(), s.make()), "example": lambda s: s.make(example=((8, 16), (4, 2))), "lazy": lambda s: (setattr(s.net, "mid", nn.LazyLinear(16)), s.make(SGD(s.net.tail.parameters(), 0.1)))}, "idioms.py:")
def sentence_of_the_module(s, make):
    make(s)


# ---- what forward computes

@several("equal", {"two_to": lambda m, x: 2 ** (x * 0.1), "e_to": lambda m, x: math.e ** (x * 0.1), "pow": lambda m, x: torch.pow(2, x * 0.1), "unbind": lambda m, x: x.unbind(1)[0].unsqueeze(1) * x,
                   "column": lambda m, x: x[:, 3].unsqueeze(1) * x, "column_of_none": lambda m, x: x[:, 3, None] * x, "column_viewed": lambda m, x: x[:, 3].exp().view(-1, 1) * x, "columns": lambda m, x: torch.stack([x[:, i] for i in range(16)], 1)})
def forward_with(s, does):
    around(s, does)
    s.make()
    s.loop(3)


@several("refused", {"output": lambda m, x: x[:, 0], "squeezed": lambda m, x: x[:, :1].squeeze(1), "beside": lambda m, x: x[:, 0] * x[:, 1], "sum": lambda m, x: x.sum(1)}, "")
def forward_without_a_dimension(s, does):
    """In PyTorch [rows], and on the server [rows, 1]."""
    around(s, does)
    s.make()
    s.loss = lambda i: F.mse_loss(s.net.mid(s.net.head(DATA[i][0])), DATA[i][1].float())
    s.loop(2)


# ---- what it changes in place

class Adds(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x):
        x += 1
        return self.layer(x)


FIRST = {"relu": lambda: nn.Sequential(nn.ReLU(inplace=True), nn.Linear(16, 16)), "add": Adds, "view": lambda: nn.Sequential(nn.Flatten(), nn.ReLU(inplace=True), nn.Linear(16, 16))}


SIZES = {"zeros_like": lambda h: torch.zeros_like(h), "new_zeros": lambda h: h.new_zeros(h.shape), "expand_as": lambda h: torch.ones(1, 16).expand_as(h), "shape": lambda h: torch.ones(h.shape)}


@several("equal", SIZES)
def size_of_an_input_changed_in_place(s, like):
    s.net.mid = FIRST["relu"]()
    s.make()
    s.loss = lambda i: (lambda h: F.cross_entropy(s.net.tail(s.net.mid(h) + like(h)), DATA[i][1]))(s.net.head(DATA[i][0]))
    s.loop(3)


@several("refused", FIRST, "whose forward changes it in place")
def input_changed_in_place_and_read(s, first):
    s.net.mid = first()
    s.make()

    def loss(i):
        h = s.net.head(DATA[i][0])
        y = s.net.mid(h)
        return F.cross_entropy(s.net.tail(y + h), DATA[i][1])
    s.loss = loss
    s.loop(3)


@several("equal", FIRST)
def input_changed_in_place(s, first):
    s.net.mid = first()
    s.make()
    s.loop(3)


@several("equal", {k: FIRST[k] for k in ("relu", "add")})
def input_changed_in_place_of_its_clone(s, first):
    s.net.mid = first()
    s.make()
    s.loss = lambda i: (lambda h: F.cross_entropy(s.net.tail(s.net.mid(h.clone()) + h), DATA[i][1]))(s.net.head(DATA[i][0]))
    s.loop(3)


# ---- volumes

VOLUMES = {"mean": lambda m, x: m.each(x.mean((2, 3, 4))), "mean_of_torch": lambda m, x: m.each(torch.mean(x, dim=(-3, -2, -1))), "mean_kept": lambda m, x: x * x.mean((2, 3, 4), keepdim=True),
           "sum": lambda m, x: m.each(x.sum((2, 3, 4)) * 1e-3), "amax": lambda m, x: m.each(x.amax((2, 3, 4))), "max_pool": lambda m, x: F.max_pool3d(x, 2), "max_pool_overlaps": lambda m, x: F.max_pool3d(x, 3, 2, 1),
           "max_pool_in_plane": lambda m, x: F.max_pool3d(x, (1, 2, 2), (1, 2, 2)), "avg_pool": lambda m, x: F.avg_pool3d(x, 2), "adaptive_max_pool": lambda m, x: F.adaptive_max_pool3d(x, 1)}


class Volumes(nn.Module):
    def __init__(self, does):
        super().__init__()
        self.conv, self.each, self.does = nn.Conv3d(2, 4, 3, padding=1), nn.Linear(4, 4), does

    def forward(self, x):
        return self.does(self, self.conv(x))


def of_volumes(s, does):
    torch.manual_seed(2)
    s.net.mid, xs = Volumes(does), [torch.randn(8, 2, 4, 6, 6) for _ in range(3)]
    s.net.head, s.net.tail = nn.Identity(), nn.Flatten()
    s.make(example=(8, 2, 4, 6, 6), input_grad=False)
    s.loss = lambda i: s.net.tail(s.net.mid(xs[i])).pow(2).mean()
    s.loop(3)


@several("equal", VOLUMES)
def volumes(s, does):
    of_volumes(s, does)


@several("refused", {"mean_of_slices": lambda m, x: x.mean(2), "mean_in_plane": lambda m, x: x.mean((3, 4)), "amax_of_slices": lambda m, x: x.amax(2)}, "over all voxels")
def volumes_over_a_part(s, does):
    of_volumes(s, does)
