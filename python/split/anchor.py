"""What stands in a script's network for the middle: one parameter for all of the server's, and its modules.

An idiom that reads or changes all parameters or modules of a network meets these, and is told what it misses."""
import codecs
import copy
import logging
import opcode
import os
import sys

import torch
from torch import nn

from . import errors

_log = logging.getLogger("split")
# of all gradients: functions whose result holds no gradient either, and those that read none
_CARRIES = {"clone", "detach", "view", "view_as", "reshape", "flatten", "ravel", "squeeze", "unsqueeze", "expand", "expand_as", "float", "double", "cpu", "to",
            "type", "contiguous", "cat", "stack", "mul", "__mul__", "__rmul__", "div", "__truediv__", "true_divide", "neg", "__neg__", "isnan", "isinf", "isfinite",
            "_foreach_mul", "_foreach_div"}
LIKE = {"zeros_like", "ones_like", "empty_like", "rand_like", "randn_like", "full_like", "new_zeros", "new_ones", "new_empty", "new_full"}  # another tensor of this shape
_ASKS = {"size", "dim", "ndimension", "numel", "nelement", "stride", "element_size", "get_device", "data_ptr", "is_contiguous", "is_floating_point", "is_complex", "is_pinned", "__len__",
         "__hash__", "__repr__", "__format__", "__get__", "__set__", "requires_grad_", *LIKE}
_FREE = {"zero_", "detach_", "mul_", "div_", "__imul__", "__itruediv__", "any", "all", "__bool__", "_foreach_mul_", "_foreach_div_", "_foreach_zero_",
         "_amp_foreach_non_finite_check_and_unscale_", "is_coalesced", "record_stream", *_ASKS}
_STEPS = {"add_", "sub_", "__iadd__", "__isub__", "lerp_", "addcmul_", "addcdiv_"}  # a script's own descent, by a tensor of its own
_REDUCES = {"norm", "linalg_norm", "linalg_vector_norm", "vector_norm", "_foreach_norm", "mean", "sum", "max", "min", "amax", "amin", "std", "var", "median",
            "dot", "item", "tolist", "numpy", "__array__", "__float__", "histc"}
# of parameters(): functions that read no numbers, and those whose result is right for the middle's, too. All others are reported
_HARMLESS = {"__dir__", "retain_grad", "backward", "grad", "is_shared", "is_inference", "is_signed", "share_memory_", "type", "isnan", "isinf", "isfinite", *_ASKS}
_PACKAGES = tuple(os.path.dirname(file) + os.sep for file in (torch.__file__, __file__))  # PyTorch's and this one
_TENSOR = torch._tensor.__file__, torch.overrides.__file__  # methods of tensors that are written in Python
HOOKS = {"register_hook", "register_post_accumulate_grad_hook"}
_GRAD, _SET_GRAD, _DATA, _SET_DATA = torch.Tensor.grad.__get__, torch.Tensor.grad.__set__, torch.Tensor.data.__get__, torch.Tensor.data.__set__
_LEARNS, _LEAF = torch.Tensor.requires_grad.__set__, torch.Tensor.is_leaf.__get__
_SIZES = {torch.Tensor.shape.__get__, torch.Tensor.ndim.__get__, torch.Tensor.size, torch.Tensor.dim, torch.Tensor.ndimension, torch.Tensor.stride, torch.Tensor.__len__}
_NUMBERS = {torch.Tensor.numel, torch.Tensor.nelement, torch.numel}


def flat(values):
    for v in values:
        if isinstance(v, (list, tuple, dict)):
            yield from flat(v.values() if isinstance(v, dict) else v)
        else:
            yield v


def plainly(func, args, kwargs=None):
    with torch._C.DisableTorchFunction():
        return func(*args, **(kwargs or {}))


_PICKS = "parameters() has one number in place of the middle's parameters, and what a script picks there by name, shape or size misses these: pick before " \
         "RemoteModule is made, by groups of the optimizer or freeze=[...], or in state_dict()"


def of_package(frame):
    return frame.f_code.co_filename.startswith(_PACKAGES)


def _compares(frame):
    """Whether a script compares there, or asks whether something is in a container, and does not just use a key."""
    return not of_package(frame) and opcode.opname[frame.f_code.co_code[frame.f_lasti]] in ("COMPARE_OP", "CONTAINS_OP")


def _asks(method, by=lambda frame: not of_package(frame)):
    """The same method, which reports a script whose question the middle's own names or sizes would answer otherwise."""
    def asks(self, *args):
        found = method(self, *args)
        if any(method(other, *args) != found for other in self.others) and by(sys._getframe(1)):
            self.tell(_PICKS)
        return found
    return asks


class _Asked:
    """What a script asks for to pick some parameters. others: the same of each of the middle's; tell: reports a text."""

    def __new__(cls, value, others, tell):
        self = super().__new__(cls, value)
        self.others, self.tell = others, tell
        return self


class Count(_Asked, int):
    """What numel() of the anchor gives."""

    def __reduce__(self):
        return int, (int(self),)

    __lt__, __le__, __gt__, __ge__ = map(_asks, (int.__lt__, int.__le__, int.__gt__, int.__ge__))


class Name(_Asked, str):
    """The anchor's name."""

    def __reduce__(self):  # a plain text, by the one function that torch.load() calls for one
        return codecs.encode, (codecs.encode(str(self), "rot13"), "rot13")

    __contains__, startswith, endswith, find, count = map(_asks, (str.__contains__, str.startswith, str.endswith, str.find, str.count))
    __eq__, __ne__ = _asks(str.__eq__, _compares), _asks(str.__ne__, _compares)

    def __hash__(self):
        if _compares(sys._getframe(1)):
            self.tell(_PICKS)
        return str.__hash__(self)

    def __radd__(self, before):
        return Name(before + str(self), [before + other for other in self.others], self.tell)

    def split(self, *args):
        parts, others = str.split(self, *args), [other.split(*args) for other in self.others]
        return [Name(part, [o[-1] if i == len(parts) - 1 else o[i] for o in others if i < len(o)], self.tell) for i, part in enumerate(parts)]


def optimizer_of(frame):
    """The optimizer whose method runs in the frame; None: it is none's."""
    mine = frame.f_locals.get("self")
    return mine if isinstance(mine, torch.optim.Optimizer) else None


def changes(name):
    """Whether a function of this name changes its first argument."""
    return (name.endswith("_") and not name.endswith("__") or name[:3] == "__i") and name not in ("requires_grad_", "detach_", "__init__", "__int__", "__index__", "__invert__")


def unfreezes(func, name, args):
    """Whether a function sets requires_grad of its first argument to True."""
    return (func == _LEARNS and args[1]) or (name == "requires_grad_" and (args[1:] or (True,))[0])


class Mark(torch.Tensor):
    """The anchor's gradient, which holds marks and no gradient."""

    @classmethod
    def _reads(cls, name, args):
        return name not in _CARRIES and name not in _FREE and (name not in _STEPS or isinstance(args[0], (Mark, list, tuple)))

    step = None  # that which it is of

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if cls._reads(name, args):
            raise errors.here(f"{name}() of all gradients misses the middle's, which are on the server: clip with split.clip_grad_norm_("
                              "parameters, middle, max_norm) in place of PyTorch's; middle.grad_norm() is their norm")
        if func == _SET_DATA:
            return plainly(torch.Tensor.copy_, args)  # the same memory as the anchor's gradient
        out = plainly(func, args, kwargs)
        carried = type(out) is torch.Tensor and (name in _CARRIES or func == _DATA or (cls is Spent and not changes(name) and not name.endswith("_like")))
        if not carried:
            return out
        out = out.as_subclass(cls)
        out.step = next((a.step for a in args if isinstance(a, Mark)), None)
        return out


class Spent(Mark):
    """What stands for a gradient between step() and the next zero_grad(), when a script may descend by it, but not take its norm."""

    kind = "other"  # "own": it has the memory of p.grad; "copy": its numbers; "other": neither
    late = staticmethod(lambda used=False: None)  # called where the script changes p.grad; used: where it descends by it

    @classmethod
    def new(cls, late):
        out = torch.Tensor._make_subclass(cls, torch.zeros(1))
        out.kind, out.late = "own", late
        return out

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name, into = getattr(func, "__name__", ""), (kwargs or {}).get("out")
        if name not in _ASKS and name != "_amp_foreach_non_finite_check_and_unscale_" and (changes(name) or into is not None):
            changed = [a for a in flat([args[0] if into is None else into]) if isinstance(a, cls)]
            for spent in changed or [a for a in flat(args) if isinstance(a, cls)]:
                if not changed or spent.kind == "own":
                    spent.late(used=not changed)
                else:
                    spent.kind = "other"
        out = super().__torch_function__(func, types, args, kwargs)
        if isinstance(out, cls) and out.kind == "other":
            of = next(a for a in flat(args) if isinstance(a, cls))
            out.late, out.kind = of.late, "copy" if name == "clone" and of.kind != "other" else of.kind if name in ("detach", "view", "__get__") else "other"
        return out

    @classmethod
    def _reads(cls, name, args):
        return name in _REDUCES


class Numbers(torch.Tensor):
    """The anchor's data."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name != "__get__" and not any(isinstance(a, Mark) for a in args):
            next(a for a in args if isinstance(a, cls)).of.tell()
        if changes(name) and isinstance(args[0], cls) and any(isinstance(a, Spent) for a in args):
            args[0].of.late(used=True)
        return plainly(func, args, kwargs)


class Anchor(nn.Parameter):
    """The parameter. It is 1, and autograd collects a mark of each backward in its gradient. frozen: names of the middle's parameters
    that were frozen when it was made; counts: of each parameter that learns, its numbers; of: gives the RemoteModule, or None; spent: whether in PyTorch the
    gradients of the last step were still there; zeros: whether zero_grad() has made them 0, and not None; moved: whether the script has
    descended by that of an open step."""

    def __new__(cls, frozen=()):
        self = super().__new__(cls, torch.ones(1, dtype=torch.float32))  # not 0, so that a penalty on it has a gradient
        self.frozen, self.told, self.of, self.counts, self.spent, self.zeros, self.moved = list(frozen), set(), lambda: None, [1], False, False, False
        return self

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name, first = getattr(func, "__name__", ""), args[0] if args and isinstance(args[0], cls) else None
        if first is not None and unfreezes(func, name, args):
            first.refuse_frozen()
        if func == _GRAD:
            return first._gradient(sys._getframe(1))
        if func == _SET_GRAD:
            if (isinstance(args[1], Spent) and args[1].kind == "other") or (args[1] is None and not of_package(sys._getframe(1))):
                first.late()
            if isinstance(args[1], Spent):
                return None
            first._check_step(args[1])
            first.spent, first.zeros, args = False, False, (first, args[1] if args[1] is None else plainly(torch.Tensor.detach, args[1:]))
        if name in HOOKS:
            raise errors.here(f"{name}() of all parameters misses the middle's, whose gradients are on the server")
        frame = sys._getframe(1)
        while frame.f_code.co_filename in _TENSOR:
            frame = frame.f_back
        if first is not None and changes(name) and any(type(a) is Mark for a in args):
            first.moved = True
        if first is not None and (changes(name) or func == _SET_DATA) and any(isinstance(a, Spent) for a in args):
            first.late(used=True)
        if first is not None and func in _NUMBERS and not of_package(frame):
            return first._counted()
        if first is not None and func in _SIZES and not of_package(frame):
            first.tell(_PICKS)
        elif name not in _HARMLESS and not any(isinstance(a, Mark) for a in args) and not optimizer_of(frame):  # with marks it is a script's own descent
            for anchor in (a for a in flat((*args, *(kwargs or {}).values())) if isinstance(a, cls)):
                anchor.tell()
        out = plainly(func, args, kwargs)
        if func == _DATA:
            out = torch.Tensor._make_subclass(Numbers, out)
            out.of = first
        return out

    def _gradient(self, frame):
        """What reads it gets. Its own optimizer gets none, and so never changes it."""
        remote, by = self.of(), optimizer_of(frame)
        if not self.counts and frame.f_code.co_name != "zero_grad":
            return None  # nothing learns
        if frame.f_code.co_name == "zero_grad":
            self.zeros = not frame.f_locals.get("set_to_none", True) and (self.spent or self.zeros or self.mark() is not None)
            self.late()
            self.spent = False
        if remote is not None and by is not None and not remote._is_own(by):
            remote._strange(by)
        elif by is not None and frame.f_code.co_name != "zero_grad":
            return None
        out = self.mark()
        if out is None and self.spent:
            return Spent.new(self.late)
        if out is None:
            return None
        out = torch.Tensor._make_subclass(Mark, out.data)
        out.step = remote and remote._middle.is_open and remote.step_number
        return out

    def refuse_frozen(self):
        if self.frozen:
            raise errors.here(f"{_listed(self.frozen)} of the middle cannot learn any more: the server was told so when RemoteModule was "
                              "made. Make another one, with its state_dict() and requires_grad as it shall be")

    def late(self, used=False):
        """The script changes gradients or takes them away: warns if the middle's step was done with them, and the optimizer's was not.
        used: it descends by them, in place of the optimizer."""
        remote = self.of()
        groups = self.spent and remote is not None and remote._middle.is_open and remote._groups
        if groups and used:
            groups.steps += 1
        elif groups and not groups.steps and any(p.requires_grad for p in groups.others()):
            self.tell("gradients were changed or taken away behind step() of the middle and before that of the optimizer: the server's step was done with those from "
                      "before. Change them before both, or call step() of the middle behind that of the optimizer")

    def _check_step(self, grad):
        remote = self.of()
        if isinstance(grad, Mark) and grad.step is not None and remote is not None and remote._middle.is_open and grad.step != remote.step_number:
            raise errors.here("this gradient is of another step, and the middle has that of the open step alone: gradients cannot be kept for later steps")

    def tell(self, text="parameters() has one number in place of the middle's parameters, which are on the server: what copies, averages or "
                         "measures parameters() leaves them out; state_dict() has them"):
        if text not in self.told:
            self.told.add(text)
            _log.warning("%s", errors.told(text))

    def _bare(self):
        self.tell()
        return nn.Parameter(self.raw().clone(), self.requires_grad)

    def __deepcopy__(self, memo):
        return memo.setdefault(id(self), self._bare())

    def __reduce_ex__(self, protocol):
        return self._bare().__reduce_ex__(protocol)

    def _counted(self):
        if self.frozen:
            self.tell("numel() counts what learns in the middle, and leaves out its frozen parameters; state_dict() has all")
        return Count(sum(self.counts), self.counts, self.tell)

    def watch(self, hook):
        plainly(torch.Tensor.register_hook, (self, hook))

    def raw(self):
        """A plain tensor with the same number."""
        return plainly(torch.Tensor.detach, (self,))

    def mark(self):
        """Its gradient as a plain tensor; None: it has none."""
        return plainly(_GRAD, (self,))


def _listed(names):
    return ", ".join(names[:3]) + f" and {len(names) - 3} others" * (len(names) > 3)


def unset(module, name, instead="Set it before RemoteModule is made"):
    """The error for an attribute of a module that is on the server."""
    return errors.here(f"{type(module).__name__}.{name} cannot be set: the module is on the server. {instead}")


class _Like(type):
    """Classes of Shown: each is equal to that of the module, as in type(m) == nn.Linear and type(m) in {nn.Linear: ...}."""

    like = None

    def __eq__(cls, other):
        return cls is other or (cls.like is not None and cls.like is (other.like if isinstance(other, _Like) else other))

    def __hash__(cls):
        return type.__hash__(cls.like or cls)


class Shown(nn.Module, metaclass=_Like):
    """What modules() of a network shows of a module that is on the server: it can be read, and its mode be set, which RemoteModule
    checks. It holds no parameters, so that parameters() of the network has each one once, and gives the module's own when asked itself."""

    def __init__(self, of, remote):
        self.__dict__.update(_of=of, _remote=remote, _parameters={}, _buffers=of._buffers, _modules={})
        type.__setattr__(type(self), "like", type(of))

    @staticmethod
    def made(of, remote):
        """One of a class that has the name of the module's."""
        return type(Shown)(type(of).__name__, (Shown,), {"__module__": type(of).__module__})(of, remote)

    __class__ = property(lambda self: type(self._of))

    def _of_layer(name):
        return lambda self, *args, **kwargs: getattr(self._of, name)(*args, **kwargs)

    def _of_modules(name):
        def of_modules(self, *args, **kwargs):
            shown = {id(m._of): m for _, m in self._remote()._seen}
            return ((path, shown[id(m)]) for path, m in getattr(self._of, name)(*args, **kwargs))
        return of_modules

    named_parameters, state_dict, load_state_dict, get_parameter, __repr__ = map(_of_layer, ("named_parameters", "state_dict", "load_state_dict", "get_parameter", "__repr__"))
    named_modules, named_children = map(_of_modules, ("named_modules", "named_children"))

    def __deepcopy__(self, memo):
        return copy.deepcopy(self._of, memo)

    def _apply(self, *_):
        return self  # moves and converts nothing, as RemoteModule's

    def __getattr__(self, name):
        return self._remote().training if name == "training" else getattr(self._of, name)

    def __setattr__(self, name, value):
        if name != "training":
            instead = "Set it before RemoteModule is made"
            if sys._getframe(1).f_code.co_name == "update_bn":
                instead = "Call update_bn() of a network with the module itself in place of RemoteModule, or with its copy.deepcopy()"
            raise unset(self._of, name, instead)
        remote = self._remote()
        remote.__dict__["_odd"] = remote._odd or value != remote.training

    def _refuse(self, name, *_, **__):
        raise unset(self._of, name)

    add_module = register_module = register_buffer = register_parameter = __delattr__ = _refuse

    def train(self, mode=True):
        self.training = mode
        return self

    def _tell(self, *_, **__):
        raise errors.here(f"a hook of {type(self._of).__name__} would never be called: the module is on the server")

    register_forward_hook = register_forward_pre_hook = register_full_backward_hook = register_backward_hook = _tell

    def forward(self, *_, **__):
        raise errors.here(f"this {type(self._of).__name__} is on the server: call the RemoteModule")
