"""Optimizers: the server's settings from the script's optimizer, and one optimizer for both sides."""
import functools
import gc
import types
import weakref

import torch

from . import errors
from .anchor import Anchor
from .taken import Taken

DEFAULTS = {"sgd": {"momentum": 0, "weight_decay": 0}, "adam": {"weight_decay": 0}, "adamw": {"weight_decay": 0.01}}  # PyTorch's
KINDS = {torch.optim.SGD: "sgd", torch.optim.Adam: "adam", torch.optim.AdamW: "adamw"}
RULES = ("momentum", "betas", "eps", "nesterov", "weight_decay", "amsgrad", "maximize", "dampening",
         "decoupled_weight_decay")


def check(optimizer):
    """Refuses an optimizer that the server lacks."""
    if type(optimizer) not in KINDS or any(g.get(k) for g in optimizer.param_groups for k in ("amsgrad", "maximize", "dampening")):
        raise errors.config(f"the middle has SGD, Adam, AdamW without amsgrad, maximize and dampening, not {type(optimizer).__name__}")


def settings(optimizer, g):
    """Keys of the config, and the learning rate if no group has it. `g`: the first group that has parameters of the middle."""
    if isinstance(optimizer, dict):
        o = dict(optimizer)
        kind, lr = o.pop("kind", "sgd"), o.pop("lr", None)
        if lr is None:
            raise errors.config("optimizer: a dict has lr, the learning rate: {\"kind\": \"sgd\", \"lr\": 0.1}")
        return {f"train.optimizer.{k}": v for k, v in {"kind": kind, **DEFAULTS.get(kind, {}), **o}.items()}, lr
    kind = "adamw" if g.get("decoupled_weight_decay") else KINDS[type(optimizer)]  # Adam has that key from PyTorch 2.7 on
    s = {"kind": kind, "weight_decay": g["weight_decay"]}
    if s["kind"] == "sgd":
        s.update(momentum=g["momentum"], nesterov=g["nesterov"])
    else:
        s.update(beta1=g["betas"][0], beta2=g["betas"][1], eps=g["eps"])
    return {f"train.optimizer.{k}": v for k, v in s.items()}, None


def _rate(g):
    return float(g["lr"] or g.get("initial_lr", 0.0))  # a warm-up begins at 0; lr may be a tensor


class Groups:
    """The optimizer's groups with parameters of the middle. `of`: group by a parameter's id; `rules`: those of groups 1 to 8."""

    def __init__(self, optimizer, module, added):
        check(optimizer)
        self.optimizer, self.mine, self.anchor, self.base = optimizer, {id(p) for p in module.parameters()}, None, None
        if any(id(p) in self.mine for p in optimizer.state):
            raise errors.usage("the optimizer has stepped: give the middle one that has not, or a token to resume from")
        groups = optimizer.param_groups
        at = [i for i, g in enumerate(groups) if any(id(p) in self.mine for p in g["params"])]
        at.sort(key=lambda i: _rate(groups[i]) == 0)  # the first group is the base of all factors: its rate should not be 0
        missing = sum(p.requires_grad for p in module.parameters() if id(p) not in added) - sum(
            p.requires_grad for i in at for p in groups[i]["params"] if id(p) in self.mine)
        if not at and (added or not any(p.requires_grad for p in module.parameters())):
            at = [0]
        if missing or not at:
            raise errors.usage("the optimizer lacks parameters of the middle: give it all of them")
        if len(at) > 9:
            raise errors.config(f"the middle's parameters are in {len(at)} groups of the optimizer; it has up to 9")
        self.count, self.at = len(groups), at
        self._take([groups[i] for i in at])
        self.of_remote, self.steps, self._state = lambda: None, 0, None  # steps: of the optimizer since the last backward
        self.stepped = self.used = None  # the rate with which the optimizer has stepped before the middle, and that of the middle's last step

    def _take(self, held):
        base = held[0]
        self.factors = [_rate(g) / _rate(base) if _rate(base) else 1.0 for g in held]
        self.had = [{k: g.get(k) for k in RULES} for g in held]
        self.of = {}
        for i, g in enumerate(held):
            for key in RULES:
                if key != "weight_decay" and g.get(key) != base.get(key):
                    raise errors.config(f"{key} differs between groups of the optimizer; lr and weight_decay may")
            self.of.update((id(p), i) for p in g["params"] if id(p) in self.mine)
        self._rule()

    def _rule(self):
        self.rules = {f"group.{i}": f"lr={self.factors[i]!r} weight_decay={h['weight_decay']!r}" for i, h in enumerate(self.had) if i}

    def refactored(self):
        """Whether the groups have other factors by now, as of a scheduler's list. They are those of the middle then."""
        rates = [_rate(g) for g in self.held()]
        had, self.factors = self.factors, [r / rates[0] if rates[0] else f for r, f in zip(rates, self.factors)]
        self._rule()
        return any(abs(a - b) > 1e-9 * max(a, b) for a, b in zip(had, self.factors))

    def held(self):
        """The groups, looked up each time: load_state_dict() of an optimizer makes new ones, and a script may remove others."""
        groups = self.optimizer.param_groups
        if self.anchor is None:
            return [groups[i] for i in self.at]
        base = next((i for i, g in enumerate(groups) if any(p is self.anchor for p in g["params"])), None)
        if base is None or (len(self.at) > 1 and (base != self.at[0] or len(groups) < self.count)):
            raise errors.usage("groups of the optimizer were taken away, and which have the middle's parameters is not known any more: "
                               "set their lr to 0 in place of that")
        return [groups[i] for i in (base, *self.at[1:])]

    def move(self, anchor):
        """Replaces the module's parameters in the optimizer by the anchor. Call it last, when nothing can be refused any more."""
        held = self.held()
        for g in held:
            g["params"] = [p for p in g["params"] if id(p) not in self.mine]
        held[0]["params"].append(anchor)
        self.anchor, self.base = anchor, held[0]

    def watch(self, of_remote):
        """From now on each step of the optimizer is seen."""
        self.of_remote = of_remote
        vars(self.optimizer).setdefault("_split", []).append(self)  # an optimizer may have several middles
        if not hasattr(self.optimizer.step, "_split"):
            own = self.optimizer.__dict__.get("step")  # such as a scheduler's; else that of the class, which a script may replace later

            @functools.wraps(self.optimizer.step)
            def watched(optimizer, *args, **kwargs):
                closure = any(a is not None for a in (*args[:1], kwargs.get("closure")))
                for groups in optimizer._split:
                    groups.begins(closure)
                found = own(*args, **kwargs) if own else type(optimizer).step(optimizer, *args, **kwargs)
                for groups in optimizer._split:
                    groups.ends()
                return found
            watched._split = True
            self.optimizer.step = types.MethodType(watched, self.optimizer)
        if "load_state_dict" not in vars(self.optimizer):
            self.optimizer.load_state_dict = types.MethodType(_load, self.optimizer)

    def _open(self):
        """The RemoteModule, if there is still one."""
        remote = self.of_remote()
        return remote if remote is not None and remote._middle.is_open else None

    def begins(self, closure):
        """A step of the optimizer; closure: it calls one, which has a backward of its own."""
        remote = self._open()
        if remote is None:
            return
        self.check_state(remote)
        graded, spent = remote._graded(), remote.anchor.spent
        if self.steps and not closure and (spent or graded):
            raise errors.here("step() of the optimizer was called twice behind one backward(), and the middle takes one step for each: call it once")
        if spent and not graded and not self.steps and self.used not in (None, self.rate()):
            raise errors.here("the learning rate was changed between step() of the middle and that of the optimizer: change it behind both, as by the "
                              "scheduler's step()")
        if remote.anchor.zeros and not (graded or spent or closure) and remote._drifts():
            raise errors.here("this step() of the optimizer has no backward() of the middle. Behind zero_grad() to zeros PyTorch moves its parameters by "
                              "momentum and weight_decay even so, and the server does not: write zero_grad(set_to_none=True)")
        self.steps += 1

    def ends(self):
        self.forget_state(self._now())
        remote = self._open()
        if remote is not None and remote._graded():
            self.stepped = self.rate()

    def decays(self):
        return any(h["weight_decay"] for h in self.had)

    def _now(self):
        """The state of the parameters of head and tail: tensors by identity and version."""
        state = self.optimizer.state
        return state, {id(p): [(k, (id(v), v._version) if isinstance(v, torch.Tensor) else v) for k, v in state[p].items()] for p in self.others() if state.get(p)}

    def forget_state(self, now=None):
        self._state = now

    def check_state(self, remote):
        """Refuses a state that the script has changed as a whole, since the middle's is on the server."""
        if self._state is None or not remote._moments() or self.held()[0] is not self.base:  # load_state_dict() has a warning of its own
            return
        (had, before), (has, now) = self._state, self._now()
        mine = [id(p) for p in self.others() if id(p) in before]
        if had is not has or (mine and all(now.get(i) != before[i] for i in mine)):
            raise errors.here("the optimizer's state was cleared or changed by hand, and the middle's moments are on the server: middle.load_state_dict("
                              "middle.state_dict()) beside that begins these anew")

    def others(self):
        return [p for g in self.optimizer.param_groups for p in g["params"] if not isinstance(p, Anchor)]

    def loaded(self):
        """Whether load_state_dict() of the optimizer was called since this was asked last: it makes new groups."""
        base = self.held()[0]
        was, self.base = self.base, base
        if was is not base:
            self.forget_state()
        return was is not base

    def rate(self):
        groups = self.held()
        base = float(groups[0]["lr"])
        for g, factor, rules in zip(groups, self.factors, self.had):
            changed = next((k for k in RULES if g.get(k) != rules[k]), None)
            if changed:
                raise errors.config(f"{changed} is {g.get(changed)} by now, and the middle was made with {rules[changed]}: the "
                                    "learning rate alone may change. OneCycleLR and CyclicLR need cycle_momentum=False")
            if abs(g["lr"] - base * factor) > 1e-9 * max(g["lr"], base * factor):
                raise errors.config("learning rates of the middle's groups no longer have the factors that they had at its first step: a schedule "
                                    "changes all of them by the same factor")
        return base

    def take_rate(self):
        """The rate for a step of the middle: that of now, or with which the optimizer has stepped already."""
        self.used, self.stepped = self.rate() if self.stepped is None else self.stepped, None
        return self.used


class Beside:
    """The optimizer that a script has for head and tail, where the middle's is a dict: its state and rate do not reach the middle."""

    def __init__(self, leaf, remote):
        """leaf: a parameter of the head, in the first call."""
        alive = (o for o in gc.get_objects() if issubclass(type(o), torch.optim.Optimizer))
        self._leaf, self._of = id(leaf), next((weakref.ref(o) for o in alive if any(leaf is p for g in o.param_groups for p in g["params"])), lambda: None)
        self._rate, found = self._now(), self._of()
        if found and found.state.get(leaf) and not remote._resumed and remote._moments():
            remote._tell("state", "the optimizer of head and tail has a state already, as by load_state_dict(), and the moments of the middle begin anew: "
                         "split.save() and split.load() keep those of both")

    def _now(self):
        groups = self._of().param_groups if self._of() else ()
        return next((float(g["lr"]) for g in groups if any(id(p) == self._leaf for p in g["params"])), None)

    def check(self, remote):
        """Before a step without a rate."""
        if self._now() not in (None, self._rate):
            remote._tell("rate", "the learning rate of head and tail was changed, as by a scheduler, and that of the middle, whose optimizer is a dict, was not: "
                         "call step(lr), or give RemoteModule the optimizer")


def _load(optimizer, state):
    try:
        return type(optimizer).load_state_dict(optimizer, state)
    except ValueError as e:
        raise errors.here(f"this state is of other parameters ({e}), as of an optimizer that has the middle's: their moments are on the server. Leave "
                          "the optimizer's state out and load the network's state_dict(); split.load() has both") from e


class Optimizer(torch.optim.Optimizer):
    """One optimizer for the script's own parameters and the middle: step() asks the server, then steps `optimizer`."""

    def __init__(self, optimizer, middle):
        self.__dict__.update(optimizer=optimizer, middle=middle, defaults=optimizer.defaults, _step_count=0)

    # looked up each time: load_state_dict() of `optimizer` makes new ones
    param_groups = property(lambda self: self.optimizer.param_groups)
    state = property(lambda self: self.optimizer.state)

    def step(self, closure=None, scale=1.0):
        """scale: factor of the middle's gradient, as in its own step()."""
        loss = closure() if closure is not None else None
        self.middle.step(scale=scale)
        self.optimizer.step(**({"scale": scale} if isinstance(self.optimizer, Optimizer) else {}))
        return loss

    def zero_grad(self, *args, **kwargs):
        self.optimizer.zero_grad(*args, **kwargs)
        self.middle.zero_grad(*args, **kwargs)

    def state_dict(self):
        return self.optimizer.state_dict()

    def load_state_dict(self, state):
        self.optimizer.load_state_dict(state)

    def __repr__(self):
        return f"split.{self.optimizer!r}"


def clip_grad_norm_(parameters, middle, max_norm, *, scale=1.0):
    """As torch.nn.utils.clip_grad_norm_, but the norm includes the middle's gradient. Returns the norm before clipping. The next
    step() scales the middle's gradient. middle: a RemoteModule, or a list of all that the network has. scale: what step() will be given,
    if the middle's gradient is that of a scaled loss."""
    middles, marks, grads = list(middle) if isinstance(middle, (list, tuple)) else [middle], [], []
    for p in [parameters] if isinstance(parameters, torch.Tensor) else parameters:
        if isinstance(p, Anchor):
            if not any(p is m.anchor for m in middles):
                raise errors.here("parameters have another middle's gradient, too: give clip_grad_norm_() a list of all middles, [first, second]")
            marks += [p.mark()] if p.mark() is not None else []
        elif not isinstance(p, Taken) and p.grad is not None:
            grads.append(p.grad)
    squares = sum(float(torch.linalg.vector_norm(g.double())) ** 2 for g in grads)
    norm = (squares + sum((scale * m._clip * m.grad_norm()) ** 2 for m in middles)) ** 0.5
    factor = min(max_norm / (norm + 1e-6), 1.0)  # in this order NaN stays NaN, which step() refuses
    for g in grads + marks:
        g.mul_(factor)
    for m in middles:
        m._clip *= factor
        m.__dict__["_clipped"] = True
    return torch.tensor(norm)
