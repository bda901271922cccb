"""What stands in a script's network for the middle: one parameter for all of the server's, and its modules.

An idiom that reads or changes all parameters or modules of a network meets these, and is told what it misses."""
import logging
import os
import sys

import torch
from torch import nn

from . import errors

_log = logging.getLogger("split")
_READ = {"norm", "linalg_norm", "linalg_vector_norm", "_foreach_norm", "pow", "__pow__", "pow_", "square", "abs", "mean", "sum", "max", "std",
         "clamp", "clip"}
_CHANGED = {"clamp_", "clip_", "clamp_min_", "clamp_max_", "_foreach_clamp_min_", "_foreach_clamp_max_", "add_", "__iadd__", "sub_", "__isub__",
            "copy_", "sign_", "normal_"}
_VIEWS = {"detach", "view", "reshape", "flatten", "ravel", "float", "double", "cpu", "cat", "stack"}
_COPIES = {"clone", "detach", "__deepcopy__", "view", "reshape", "flatten", "ravel", "lerp", "copy_", "cpu", "numpy", "norm", "std", "mean"}
_INTO = {"add_", "sub_", "mul_", "lerp_", "copy_", "lerp", "_foreach_lerp_", "_foreach_copy_", "_foreach_sub", "sub", "subtract"}
_TORCH = os.path.dirname(torch.__file__)
_HOOKS = {"register_hook", "register_post_accumulate_grad_hook"}
_GRAD, _DATA = torch.Tensor.grad.__get__, torch.Tensor.data.__get__
_LEARNS = torch.Tensor.requires_grad.__set__
_SIZES = {torch.Tensor.shape.__get__, torch.Tensor.size}
_NUMBERS = {torch.Tensor.numel, torch.Tensor.nelement, torch.numel}


def _plainly(func, args, kwargs):
    with torch._C.DisableTorchFunction():
        return func(*args, **(kwargs or {}))


class Mark(torch.Tensor):
    """The anchor's gradient, which holds marks and no gradient."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in _READ or (name in _CHANGED and args and isinstance(args[0], (cls, list, tuple))):
            raise errors.usage(f"{name}() of all gradients misses the middle's, which are on the server: clip with split.clip_grad_norm_("
                               "parameters, middle, max_norm) in place of PyTorch's; middle.grad_norm() is their norm")
        out = _plainly(func, args, kwargs)
        return out.as_subclass(cls) if isinstance(out, torch.Tensor) and (name in _VIEWS or func == _DATA) else out


class Anchor(nn.Parameter):
    """The parameter. It is 1, and autograd collects a mark of each backward in its gradient. frozen: names of the middle's parameters
    that were frozen when it was made; counts: numbers that learn; alone: called if an optimizer has it, unless it shall."""

    def __new__(cls, frozen=()):
        self = super().__new__(cls, torch.ones(1, dtype=torch.float32))  # not 0, so that a penalty on it has a gradient
        self.frozen, self.told, self.alone, self.counts = list(frozen), set(), None, 1
        return self

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name, first = getattr(func, "__name__", ""), args[0] if args and isinstance(args[0], cls) else None
        if first is not None and first.frozen and ((func == _LEARNS and args[1]) or (name == "requires_grad_" and (args[1:] or (True,))[0])):
            raise errors.usage(f"{_listed(first.frozen)} of the middle cannot learn any more: the server was told so when RemoteModule was "
                               "made. Make another one, with its state_dict() and requires_grad as it shall be")
        if func == _GRAD and first.alone and "/optim/" in sys._getframe(1).f_code.co_filename:
            first.alone()
        if name in _HOOKS:
            raise errors.usage(f"{name}() of all parameters misses the middle's, whose gradients are on the server")
        asked = first is not None and (func in _NUMBERS or func in _SIZES) and not sys._getframe(1).f_code.co_filename.startswith(_TORCH)
        if asked and func in _NUMBERS:
            return first._counted()
        read = asked or (first is not None and (name in _COPIES or func == _DATA))
        given = next((a for a in args[1:] if isinstance(a, cls)), None) if name in _INTO else None
        if read or given is not None:
            (first if read else given)._tell()
        out = _plainly(func, args, kwargs)
        return torch.Tensor._make_subclass(Mark, out.data) if func == _GRAD and out is not None else out

    def _tell(self, text="parameters() has one number in place of the middle's parameters, which are on the server: what copies, averages or "
                         "measures parameters() leaves them out; state_dict() has them"):
        if text not in self.told:
            self.told.add(text)
            _log.warning(text)

    def _counted(self):
        if self.frozen:
            self._tell("numel() counts what learns in the middle, and leaves out its frozen parameters; state_dict() has all")
        return self.counts

    def watch(self, hook):
        _plainly(torch.Tensor.register_hook, (self, hook), None)

    def raw(self):
        """A plain tensor with the same number."""
        return _plainly(torch.Tensor.detach, (self,), None)

    def mark(self):
        """Its gradient as a plain tensor; None: it has none."""
        return _plainly(_GRAD, (self,), None)


def _listed(names):
    return ", ".join(names[:3]) + f" and {len(names) - 3} others" * (len(names) > 3)


class Shown(nn.Module):
    """What modules() of a network shows of a module that is on the server: it can be read, and its mode be set, which RemoteModule
    checks. It has no parameters, so that parameters() has each one once."""

    def __init__(self, of, remote):
        self.__dict__.update(_of=of, _remote=remote, _parameters={}, _buffers={}, _modules={})

    __class__ = property(lambda self: type(self._of))

    def __getattr__(self, name):
        if name == "training":
            return self._remote().training
        value = getattr(self._of, name)
        if isinstance(value, torch.Tensor):
            self._remote()._tell("shown", f"{name} of a {type(self._of).__name__} of the middle is what it was before RemoteModule was made: "
                                 "state_dict() has the server's, apply() and load_state_dict() change it")
        return value

    def __setattr__(self, name, value):
        if name != "training":
            raise errors.usage(f"{type(self._of).__name__}.{name} cannot be set: the module is on the server. Set it before RemoteModule is made")
        remote = self._remote()
        remote.__dict__["_odd"] = remote._odd or value != remote.training

    def train(self, mode=True):
        self.training = mode
        return self

    def _tell(self, *_, **__):
        raise errors.usage(f"a hook of {type(self._of).__name__} would never be called: the module is on the server")

    register_forward_hook = register_forward_pre_hook = register_full_backward_hook = register_backward_hook = _tell

    def forward(self, *_, **__):
        raise errors.usage(f"this {type(self._of).__name__} is on the server: call the RemoteModule")
