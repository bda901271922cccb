"""The module that a RemoteModule was made of. The server trains its weights, and what the script computes, saves or copies with the
module itself shall have them."""
import contextlib
import functools
import logging
import weakref

import numpy
import torch


from . import errors, taken
from .anchor import Spent, optimizer_of

_log = logging.getLogger("split")
_KEY = "split"
_HOOKS = "_forward_pre_hooks", "_state_dict_hooks"


class Fresh:
    """Fetches the weights before they are used: a hook of the module and of each layer in it, and what its tensors call (taken.Taken).
    of: gives the RemoteModule, or None; had: versions() behind the last fetch; stale: the server's may have changed since then; lent:
    arrays of numpy with the module's memory, that memory, and what was in it."""

    def __init__(self, module, of):
        self.of, self._state, self.classes, self.lent, self._writes, self.paused = of, (*module.parameters(), *module.buffers()), taken.classes(self), [], 0, False  # paused: no numbers are needed
        self.fetched()

    def versions(self):
        with torch._C.DisableTorchFunction():
            return sum(p._version for p in self._state), self._writes, sum(not numpy.array_equal(now, was, equal_nan=True) for _, now, was in self.lent)

    def touched(self, nothing):
        """A script has changed a tensor; nothing: by zeros."""
        self._writes += not nothing
        if nothing:
            self.had = self.versions()

    def fetched(self):
        self.lent = [(array, now, now.copy()) for array, now, _ in self.lent if array() is not None]
        self.had, self.stale = self.versions(), False

    def held(self):
        """Whether the script still has an array of numpy with the module's memory, which in PyTorch would go on with each step."""
        return any(array() is not None for array, _, _ in self.lent)

    def closed(self):
        remote = self.of()
        return remote is None or not remote._middle.is_open

    def __call__(self, *_, overwrites=False):
        if self.paused or not self.stale or self.versions() != self.had:  # the script has put weights of its own into the module
            return
        remote = self.of()
        if remote is None:
            self.stale = False
            _log.warning("%s", errors.told("the RemoteModule of this module is gone, and with it what the server learned: take its state_dict() before that"))
        elif remote._middle.is_open and remote._open:
            raise errors.here(f"step {remote.step_number} is open, and the module that RemoteModule was made of lacks the weights of now: use it before "
                              "the forward, or behind step() or drop()")
        elif remote._middle.is_open:
            remote._fetch()
        elif not overwrites:
            raise errors.here("the middle is closed, and this module has the weights from before: take its state_dict() before close(), or load weights into it")

    def reads_gradient(self, frame, reads):
        """A script reads the gradient of one of the parameters, or sets it to None. Returns what stands for it; None: it has none."""
        remote, by = self.of(), optimizer_of(frame)
        if self.closed() or not reads:
            return None
        zeroes = frame.f_code.co_name == "zero_grad"
        if remote._graded():
            raise errors.here("a parameter of the module that RemoteModule was made of has no gradient here, since that is on the server. Clip by "
                              "split.clip_grad_norm_(), take the gradient away by drop(), and take net.parameters() behind RemoteModule")
        if by is not None and not remote._is_own(by) and not zeroes:
            remote._strange(by)
        return Spent.new(remote.anchor.late) if remote.anchor.spent and by is None and not zeroes else None

    def of_layer(self, layer):
        """What pickle and copy.deepcopy get."""
        self()
        m = layer()
        own = getattr(type(m), "__getstate__", None)
        state = dict(own(m) if own not in (None, getattr(object, "__getstate__", None)) else vars(m))
        for name in ("__getstate__", "__prepare_scriptable__"):
            state.pop(name, None)
        return {**state, **{hooks: type(state[hooks])((k, v) for k, v in state[hooks].items() if k != _KEY) for hooks in _HOOKS if hooks in state}}


def _unscripted():
    raise errors.here("the server trains this module: give torch.jit.script its copy.deepcopy(), which has the weights of now")


def watch(module, fresh, aliases=True):
    """aliases: also tensors that the script holds elsewhere."""
    tensors = (*module.parameters(), *module.buffers())
    taken.take(tensors, fresh) if aliases else taken.give(tensors, fresh)
    for m in module.modules():
        for hooks in _HOOKS:
            getattr(m, hooks)[_KEY] = fresh
        if not isinstance(m, torch.jit.ScriptModule):
            m.__dict__.update(__getstate__=functools.partial(fresh.of_layer, weakref.ref(m)), __prepare_scriptable__=_unscripted)


@contextlib.contextmanager
def bare(module, fetches=False):
    """The module without its hooks; fetches: with the weights of now."""
    fresh = next((m._forward_pre_hooks[_KEY] for m in module.modules() if _KEY in m._forward_pre_hooks), None)
    try:
        if fresh and fetches:
            fresh()
    except errors.UsageError as e:
        _log.warning("%s", e)
    for m in module.modules() if fresh else ():
        for name in ("__getstate__", "__prepare_scriptable__"):
            m.__dict__.pop(name, None)
        for hooks in _HOOKS:
            getattr(m, hooks).pop(_KEY, None)
    taken.give_back((*module.parameters(), *module.buffers()) if fresh else ())
    try:
        yield
    finally:
        if fresh:
            watch(module, fresh, aliases=False)


_PLAIN = type(None), bool, int, float, str, tuple
_HELD = "_modules", "_parameters", "_buffers", "_forward_hooks", "_backward_hooks", "_forward_pre_hooks"


def _same(now, had):
    return len(now) == len(had) and all(k in now and (now[k] is v or isinstance(v, _PLAIN) and type(now[k]) is type(v) and now[k] == v) for k, v in had.items())


class Form:
    """The layers, tensors and hooks of a module, and of its leaves, which no recording looks into, the attributes."""

    def __init__(self, module, leaves):
        self._had = [(d, dict(d)) for m in module.modules() if not isinstance(m, torch.jit.ScriptModule) for d in (getattr(m, k) for k in _HELD)]
        self._own = [(vars(m), {k: v for k, v in vars(m).items() if k != "training" and (k[0] != "_" or isinstance(v, _PLAIN))}) for m in leaves if not isinstance(m, torch.jit.ScriptModule)]
        self._forwards = {type(m): type(m).forward for m in leaves if not isinstance(m, torch.jit.ScriptModule)}
        self._bare = [vars(m) for m in module.modules() if "forward" not in vars(m)]

    def patched(self):
        """The name of a leaf's class that has another forward by now; "": there is none."""
        return next((c.__name__ for c, forward in self._forwards.items() if c.forward is not forward), "")

    def changed(self):
        """Whether a script has changed it, beside its mode."""
        return not (all(_same(now, had) for now, had in self._had) and all(_same({k: now.get(k) for k in had}, had) for now, had in self._own)) or any(
            "forward" in has for has in self._bare)


@contextlib.contextmanager
def untraced():
    """torch.jit.trace takes no part in the block."""
    state = torch._C._get_tracing_state()
    torch._C._set_tracing_state(None)
    try:
        yield
    finally:
        torch._C._set_tracing_state(state)


class Ends:
    """Gradients of head and tail as backward() left them. PyTorch's clip_grad_norm_ over these alone misses the middle's."""

    def __init__(self):
        self.forget()

    def forget(self):
        self._noted = []

    def note(self, parameters):
        graded = [p for p in parameters if p.grad is not None and not p.grad.is_sparse]
        small = [p for p in graded if p.numel() <= 4096] or sorted(graded, key=torch.Tensor.numel)[:1]
        self._noted = [(p, p.grad.detach().clone()) for p in {id(p): p for p in small[:4] + small[-4:]}.values()]

    def clipped(self, factors):
        """Whether some became smaller since then, by none of the factors; and not each part by one of its own, as by a clip of head and one of tail."""
        rates = []
        for p, was in self._noted:
            now = p.grad
            if now is None or not now.any():
                continue
            known = any(torch.allclose(now, was * by, 1e-3, 0) for by in factors)
            if not known and bool(((now * was >= 0) & (now.abs() <= was.abs())).all()):
                by = (now.norm() / was.norm()).item()
                rates.append(by if torch.allclose(now, was * by, 1e-3, 0) else 0)  # 0: by many factors
            else:
                rates.append(1)
        each = rates and 0 < min(rates) < 0.99 * max(rates) and max(rates) < 1
        return any(by < 1 for by in rates) and not each
