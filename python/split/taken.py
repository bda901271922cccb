"""The tensors of a module that is on the server, as a script meets them. Whoever reads one gets the server's numbers of now, and a change
in place is noticed. Their class is changed, so that also a list of parameters or a state_dict() from before has such tensors."""
import copy
import gc
import sys
import weakref

import numpy
import torch
from torch import nn

from . import errors
from .anchor import HOOKS, LIKE, Mark, flat, plainly, unfreezes

_GRAD, _SET_GRAD, _DATA, _SET_DATA = torch.Tensor.grad.__get__, torch.Tensor.grad.__set__, torch.Tensor.data.__get__, torch.Tensor.data.__set__
_NO_NUMBERS = {"size", "dim", "ndimension", "stride", "numel", "nelement", "element_size", "storage_offset", "get_device", "is_contiguous",
               "is_floating_point", "is_complex", "is_signed", "is_pinned", "is_shared", "__len__", "__hash__", "requires_grad_", "detach",
               "detach_", "view", "retain_grad", "data_ptr", "__get__", *LIKE}  # functions that read none, among them views, which fetch once they are read
_OVERWRITE = {"copy_", "fill_", "zero_", "uniform_", "normal_", "__set__"}


class Taken:
    """fresh: the plain.Fresh of the module."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name, given = getattr(func, "__name__", ""), list(flat((*args, *(kwargs or {}).values())))
        taken, marks = [a for a in given if isinstance(a, Taken)], any(isinstance(a, Mark) for a in given)
        if name in HOOKS and not taken[0].fresh.closed():
            raise errors.here(f"{name}() of a parameter of the middle: its gradient is on the server, and the hook would never be called")
        if unfreezes(func, name, args) and not args[0].fresh.closed():
            args[0].fresh.of().check_unfrozen(args[0])
        if func in (_GRAD, _SET_GRAD) and isinstance(args[0], nn.Parameter) and args[0].requires_grad:
            spent = args[0].fresh.reads_gradient(sys._getframe(1), func == _GRAD or args[1] is None)
            return spent if func == _GRAD and spent is not None else plainly(func, args)
        if name not in _NO_NUMBERS:
            for fresh in {a.fresh for a in taken}:
                fresh(overwrites=name in _OVERWRITE)
        if func == _SET_DATA and args[0].shape != args[1].shape:
            raise errors.here(f"data of a parameter {list(args[0].shape)} of the middle cannot become {list(args[1].shape)}: make RemoteModule anew")
        had = _versions(taken)
        out = plainly(func, args, kwargs)
        if func == _SET_DATA or _versions(taken) != had:
            taken[0].fresh.touched(nothing=marks)
        return shown(out, taken)

    def __deepcopy__(self, memo):
        self.fresh()
        return memo[id(self)] if id(self) in memo else memo.setdefault(id(self), copy.deepcopy(bare(self), memo))

    def __reduce_ex__(self, protocol):
        self.fresh()
        return bare(self).__reduce_ex__(protocol)


class Written(torch.Tensor):
    """What the script gave a middle that changes its input in place, in a call that is over: PyTorch has other numbers in it."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        of_shape = name in LIKE or name in ("expand_as", "view_as") and not isinstance(args[0], cls)
        if name not in _NO_NUMBERS - {"detach", "view"} and name not in ("register_hook", "__repr__", "__format__") and not of_shape:
            cls.refuse()
        out = plainly(func, args, kwargs)
        if isinstance(out, torch.Tensor) and func not in (_GRAD, _SET_GRAD) and not of_shape:
            cls.refuse()
        return out

    @staticmethod
    def refuse():
        raise errors.here("this tensor was an input of the middle, whose forward changes it in place, as by inplace=True: in PyTorch it has other numbers "
                          "now. Write the middle's first layer without inplace, or give the middle its clone()")


def bare(t):
    """A plain tensor, or parameter, with the same memory."""
    out = plainly(torch.Tensor.detach, (t,))
    return nn.Parameter(out, t.requires_grad) if isinstance(t, nn.Parameter) else out


def _versions(tensors):
    with torch._C.DisableTorchFunction():
        return [t._version for t in tensors]


def _inside(out, t):
    try:
        with torch._C.DisableTorchFunction():
            return 0 <= out.data_ptr() - t.data_ptr() < t.numel() * t.element_size()
    except RuntimeError:  # a tensor without memory, as inside torch.func
        return False


def shown(out, taken):
    """What a function gives: views of such tensors are some, too; memory that is lent to numpy is compared later."""
    if type(out) in (tuple, list):
        return type(out)(shown(o, taken) for o in out)
    if type(out) is torch.Tensor:
        of = next((t for t in taken if _inside(out, t)), None)
        if of is not None:
            out.__class__ = of.fresh.classes[torch.Tensor]
    elif isinstance(out, numpy.ndarray):
        taken[0].fresh.lent.append((weakref.ref(out), out.view(), out.copy()))
    return out


def classes(fresh):
    return {kind: type(kind.__name__, (Taken, kind), {"fresh": fresh, "__module__": kind.__module__}) for kind in (nn.Parameter, torch.Tensor)}


def kind(t):
    """The class that t had before; None: one of the script's own."""
    own = nn.Parameter if isinstance(t, nn.Parameter) else torch.Tensor
    return own if type(t) is own or isinstance(t, Taken) else None


def take(tensors, fresh):
    """Changes the class of tensors and of all others with their memory."""
    tensors = [t for t in tensors if kind(t)]
    with torch._C.DisableTorchFunction():
        places = [(t.data_ptr(), t) for t in tensors if t.numel()]
        begins, ends = min(places, default=(0,), key=lambda p: p[0])[0], max((at + t.numel() * t.element_size() for at, t in places), default=0)
        for t in gc.get_objects():
            if (type(t) in (torch.Tensor, nn.Parameter) or issubclass(type(t), Taken)) and t.layout == torch.strided and not t.is_meta:
                try:
                    at = t.data_ptr()
                except RuntimeError:  # autograd's undefined tensors have no storage
                    continue
                if begins <= at < ends and any(0 <= at - start < of.numel() * of.element_size() for start, of in places):
                    tensors.append(t)
    give(tensors, fresh)


def give(tensors, fresh):
    for t in tensors:
        if kind(t):
            t.__class__ = fresh.classes[kind(t)]


def give_back(tensors):
    for t in tensors:
        if isinstance(t, Taken):
            t.__class__ = kind(t)
