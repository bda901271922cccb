"""The module that a RemoteModule was made of. The server trains its weights, and what the script computes, saves or copies with the
module itself shall have them."""
import contextlib
import functools
import logging
import weakref

import torch

from . import errors

_log = logging.getLogger("split")
_KEY = "split"
_HOOKS = "_forward_pre_hooks", "_state_dict_hooks"


class Fresh:
    """A hook of the module and of each layer in it, which fetches the weights before they are used. of: gives the RemoteModule, or None;
    had: their
    versions behind the last fetch; stale: the server's may have changed since then."""

    def __init__(self, module, of):
        self.of, self._state = of, (*module.parameters(), *module.buffers())
        self.fetched()

    def versions(self):
        return sum(p._version for p in self._state)

    def fetched(self):
        self.had, self.stale = self.versions(), False

    def __call__(self, *_):
        if not self.stale or self.versions() != self.had:  # the script has put weights of its own into the module
            return
        remote = self.of()
        if remote is None:
            self.stale = False
            _log.warning("the RemoteModule of this module is gone, and with it what the server learned: take its state_dict() before that")
        elif not remote._middle.is_open:
            raise errors.usage("the middle is closed, and this module has the weights from before: take its state_dict() before close(), or load weights into it")
        else:
            remote._fetch()

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
    raise errors.usage("the server trains this module: give torch.jit.script its copy.deepcopy(), which has the weights of now")


def watch(module, fresh):
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
    try:
        yield
    finally:
        if fresh:
            watch(module, fresh)


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
        """Whether some became smaller since then, by none of the factors."""
        for p, was in self._noted:
            now = p.grad
            if now is None or not now.any() or any(torch.allclose(now, was * by, 1e-3, 0) for by in factors):
                continue
            if bool(((now * was >= 0) & (now.abs() <= was.abs())).all()):
                return True
        return False
