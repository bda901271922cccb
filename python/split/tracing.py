"""Traces a module's forward with torch.fx, and refuses modules that a graph would not reproduce."""
import builtins
import contextlib
import functools
import inspect
import linecache
import operator
import os
import random
import re
import sys
import threading
import traceback
import types

import numpy
import torch
import torch.fx
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import CheckpointFunction

from . import errors
from .builder import Own, Value, of_call

MODAL = nn.modules.batchnorm._NormBase, nn.modules.dropout._DropoutNd, nn.MultiheadAttention  # train() and eval() change these


def unmangled(name):
    """The name of a scripted class or function, without the part that differs for each module or overload."""
    return re.sub(r"___torch_mangle_\d+\.", "", name)


def scripted_class(m):
    return unmangled(m._c._type().qualified_name())


_NUMBER = (bool, int, float), "a branch, a loop or a number in forward depends on values, or on the number of rows or tokens"


def _read(proxy, kinds, says):
    """What the server's graph has for proxy, if it is one of kinds, in each call the same."""
    found = proxy.tracer.read(proxy.node)
    if not isinstance(found, kinds) or of_call(found):
        raise torch.fx.proxy.TraceError(says)
    return found


_PARTS = {"split", "chunk", "unbind", torch.split, torch.chunk, torch.unbind}


class _Sized:
    def __iter__(self):
        return (self[i] for i in range(self.__len__()))

    def __getitem__(self, index):
        if isinstance(index, slice) and self.node.target in _PARTS:
            return tuple(self)[index]
        return super().__getitem__(index)

    def __len__(self):
        return len(_read(self, (tuple, list), "forward loops over what a layer gives"))

    __bool__, __int__, __float__, __index__ = ((lambda self, kind=kind: kind(_read(self, *_NUMBER))) for kind in (bool, int, float, int))

    def __array__(self, *_):
        self.tracer.check_open()
        raise TypeError("a tensor of a call has no numbers here")

    def __deepcopy__(self, memo):  # of a module on which forward stored it
        return self

    def __reduce_ex__(self, protocol):
        return type(None), ()


_KNOWN = {"ndim": int, "dtype": torch.dtype, "device": torch.device}  # the same in each call
_UNKNOWN = "requires_grad", "grad_fn", "is_leaf", "grad", "_version"
_Attribute = type("_Attribute", (_Sized, torch.fx.proxy.Attribute), {})


class _Proxy(_Sized, torch.fx.Proxy):
    def __getattr__(self, name):
        if self.tracer.over and name[:2] == "__":
            raise AttributeError(name)
        self.tracer.check_open()
        if not hasattr(torch.Tensor, name) and _is_tensor(self):  # so hasattr() and getattr() with a default are right
            raise AttributeError(f"'Tensor' object has no attribute '{name}'")
        if name in _UNKNOWN:
            raise torch.fx.proxy.TraceError(f"forward reads {name} of a tensor, which differs from call to call: ask self.training, or leave it out")
        if name == "is_cuda":
            return self.device.type == "cuda"
        if name == "is_floating_point":
            return lambda: self.dtype.is_floating_point
        found = _Attribute(self, name)
        return _read(found, _KNOWN[name], f"forward reads {name} of what is no tensor") if name in _KNOWN else found


def _in_place(function):
    return lambda self, other: self.tracer.create_proxy("call_function", function, (self, other), {})


IN_PLACE = {operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ipow}
for _function in IN_PLACE:
    setattr(_Proxy, f"__{_function.__name__}__", _in_place(_function))  # torch.fx would record an op that is not in place


_GETATTR = nn.Module.__getattr__
_PACKAGES = tuple(os.path.dirname(file) + os.sep for file in (torch.__file__, __file__))  # PyTorch's and this one


def _line(frames):
    """FILE:LINE of the first of frames, from the innermost one up to run(), that is a script's; "": there is none."""
    for frame, line in frames:
        if frame.f_code is run.__code__:
            break
        if not frame.f_code.co_filename.startswith(_PACKAGES):
            return f"{frame.f_code.co_filename}:{line}"
    return ""


def line_of_error(e):
    """The same of the script's line that raised e."""
    return _line(reversed(list(traceback.walk_tb(e.__traceback__))))


def line_here():
    """The same of the script's line that runs."""
    return _line(traceback.walk_stack(None))


def line_of_forward(module):
    code = getattr(getattr(type(module), "forward", None), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code and not code.co_filename.startswith(_PACKAGES) else ""


def line_of(source):
    """The same of what TorchScript says of a node's source."""
    found = re.match(r'\s*File "(.*)", line (\d+)', source)
    return ":".join(found.groups()) if found and not found[1].startswith(_PACKAGES) else ""


_GIVES_PAIRS = nn.LSTM, nn.GRU, nn.RNN, nn.LSTMCell, nn.MultiheadAttention


def _pairs(proxy):
    """What a layer gives, as the tuple that it is, and so its parts."""
    return tuple(_pairs(p) if isinstance(proxy.tracer.read(p.node), tuple) else p for p in proxy)


class Tracer(torch.fx.Tracer):
    proxy_buffer_attributes = True

    def __init__(self, is_leaf, read):
        super().__init__()
        self.is_leaf, self.reader, self.names, self.thread, self.over = is_leaf, read, {}, threading.get_ident(), False

    def mine(self):
        """Whether this is forward, and not another thread of the script."""
        return threading.get_ident() == self.thread

    def check_open(self):
        if self.over:
            raise errors.here("forward kept this tensor of a call, as in an attribute or a list, and it is on the server: let forward return it as a further "
                              "output, or make it in __init__, by register_buffer(), if it is the same in each call")

    def read(self, node):
        """While torch.fx traces, the parameters of modules are proxies, too, and what MAKERS make; not so for what reads the graph."""
        self.check_open()
        if node in self.reader.known:
            return self.reader.known[node]
        try:
            with _replaced(nn.Module, __getattr__=_GETATTR), _replaced(torch, **MAKERS):
                return self.reader(node)
        except errors.ConfigError as e:
            raise torch.fx.proxy.TraceError(str(e).removeprefix(f"{e.line}: ")) from e

    def is_leaf_module(self, m, name):
        return self.is_leaf(m) or super().is_leaf_module(m, name)

    def create_node(self, *args, **kwargs):
        self.check_open()
        node = super().create_node(*args, **kwargs)
        node.meta["learns"], node.meta["line"] = torch.is_grad_enabled(), line_here()
        return node

    def proxy(self, node):
        return _Proxy(node, self)

    def getattr(self, attr, value, made):
        """A parameter or a buffer as a proxy. made: those of this trace by name."""
        name = self.names.get(id(value)) if isinstance(value, torch.Tensor) and self.mine() else None
        if name is not None and name not in made:
            made[name] = self.create_proxy("get_attr", name, (), {})
        return value if name is None else made[name]

    def call_module(self, m, forward, args, kwargs):
        if not self.mine():
            return forward(*args, **kwargs)
        # without the hooks, of which a middle has this package's alone
        found = super().call_module(m, functools.partial(type(m).forward, m), args, kwargs)
        return _pairs(found) if type(m) in _GIVES_PAIRS and isinstance(found, _Proxy) else found

    def attend(self, m, args, kwargs):
        """Records attention of torch.nn whose forward is called by that of a class made of it."""
        return _pairs(self.create_proxy("call_module", self.path_of_module(m), args, kwargs))

    def create_arg(self, a):
        """A tensor of no module, such as of a class, is a constant. It must be equal in both modes."""
        if isinstance(a, torch.fx.Proxy):
            a.tracer.check_open()
            return a.node
        if type(a) in (tuple, list):
            return type(a)(map(self.create_arg, a))
        if a is None or type(a) in (bool, int, float, str):
            return a
        held = not isinstance(a, torch.Tensor) or a.requires_grad or a in self.tensor_attrs or any(a is t for t in self.root.buffers())
        if not held:
            node = self.create_node("get_attr", "tensor", (), {})
            node.meta.setdefault("tensor", a.detach())
            return node
        return super().create_arg(a)


def _states():
    return repr((random.getstate(), numpy.random.get_state(), torch.get_rng_state().tolist()))


def _shown(v, around=()):
    """A value that differs if forward has changed the attribute v. around: containers that v is in."""
    if isinstance(v, torch.Tensor):
        return id(v), None if v.is_inference() else v._version
    if isinstance(v, (dict, list, tuple, set)) and id(v) not in around:
        around = (*around, id(v))
        return [(k, _shown(x, around)) for k, x in v.items()] if isinstance(v, dict) else [_shown(x, around) for x in v]
    return v if isinstance(v, (type(None), bool, int, float, str)) else id(v)


def _is_kept(v):
    """Whether v is a traced value that forward stored for others to look at: they will not find it."""
    return isinstance(v, torch.fx.Proxy) or (isinstance(v, tuple) and all(map(_is_kept, v)) and bool(v))


@contextlib.contextmanager
def unchanged(module):
    """Refuses a forward that changes attributes: tracing does so once, PyTorch in each call. Restores the attributes."""
    had = [(name or "forward", m, dict(vars(m)), {k: _shown(v) for k, v in vars(m).items()}) for name, m in module.named_modules()]
    try:
        yield
        for name, m, _, shown in had:
            word = next((k for k in {**shown, **vars(m)} if not _is_kept(vars(m).get(k)) and shown.get(k, m) != _shown(vars(m).get(k, m))), None)
            if word:
                raise errors.config(f"{name} changes {word}, which its module holds; the server would never see that")
    finally:
        for _, m, attributes, _ in had:
            vars(m).clear()
            vars(m).update(attributes)


MAKERS = {name: getattr(torch, name) for name in ("arange", "zeros", "ones", "full")}  # tensors that are equal in each call


@contextlib.contextmanager
def _replaced(owner, **functions):
    had = {name: vars(owner).get(name) for name in functions}
    try:
        for name, f in functions.items():
            setattr(owner, name, f)
        yield
    finally:
        for name, f in had.items():
            setattr(owner, name, f) if f is not None else delattr(owner, name)


def _recorder(tracer, make):
    """Records a call of one of MAKERS, which torch.fx would make, or could not make of a size."""
    def record(*args, **kwargs):
        if not tracer.mine():
            return make(*args, **kwargs)
        kwargs = {k: v for k, v in kwargs.items() if not isinstance(v, torch.fx.Proxy) and k != "device"}  # as dtype=x.dtype
        return tracer.create_proxy("call_function", make, args, kwargs)
    return record


def _taker(tracer, function):
    """A function of C, which takes no proxy for a size."""
    def take(x, *args, **kwargs):
        return tracer.create_proxy("call_function", function, (x, *args), kwargs) if isinstance(x, torch.fx.Proxy) else function(x, *args, **kwargs)
    return take


def _len(x, make=len):
    """len(), of a tensor of a call its number of rows."""
    return x.size(0) if isinstance(x, torch.fx.Proxy) and _is_tensor(x) else make(x)


def _as_tensor(x, *args, make=torch.as_tensor, **kwargs):
    """torch.as_tensor, of what is a tensor already."""
    return x.to(*args, **kwargs) if isinstance(x, torch.fx.Proxy) else make(x, *args, **kwargs)


def _is_tensor(x, make=torch.is_tensor):
    return isinstance(x.tracer.read(x.node), (Value, Own)) if isinstance(x, torch.fx.Proxy) else make(x)


def _is_instance(x, kind, make=torch.jit.isinstance):
    return _is_tensor(x) if kind is torch.Tensor else make(x, kind)


def _asks(x):
    """Whether a script, and not torch.fx or this package, asks what a proxy is."""
    return isinstance(x, torch.fx.Proxy) and sys._getframe(2).f_globals.get("__name__", "").partition(".")[0] not in ("torch", __package__)


def _isinstance(x, kinds, make=isinstance, proxy=torch.fx.Proxy):
    """isinstance(), for which a proxy of a tensor is one."""
    if not make(x, proxy):
        return make(x, kinds)
    flat = kinds if make(kinds, tuple) else (kinds,)
    return _is_tensor(x) if torch.Tensor in flat and _asks(x) else make(x, kinds)


def _callable(x, make=callable):
    return False if _asks(x) else make(x)


def _for_einops():
    """While this lasts, einops calls for a proxy what it calls for a tensor of PyTorch."""
    of_torch = "einops" in sys.modules and sys.modules["einops"].einops.get_backend(torch.empty(0))
    return _replaced(of_torch, is_appropriate_type=lambda x: isinstance(x, (torch.Tensor, torch.fx.Proxy))) if of_torch else contextlib.nullcontext()


def _why(e, frames, line):
    """What stops a trace: this package's own words, or the script's line in place of what PyTorch says of its internals."""
    if frames[-1][0].f_code.co_filename.startswith(_PACKAGES[1]):
        return str(e).removeprefix(f"{getattr(e, 'line', '')}: ")
    if isinstance(e, TypeError) and re.search("cannot assign .* as (buffer|parameter)", str(e)):
        return "forward assigns a tensor of the module, such as a counter, which the server has: leave that out"
    name, _, number = line.rpartition(":")
    text = linecache.getline(name, int(number or 0)).strip()
    text = text if len(text) < 90 else text[:88] + "…"
    return (f"`{text}` " if text else "forward ") + "gives a tensor of the call, or one of its sizes, to what takes none that is recorded, such as numpy, a branch on " \
        "values or a function of C; int() of a size is a number"


_ALONE = threading.RLock()  # torch.fx and this file replace functions of all threads while they record


def _of_functions(tracer, own=vars(torch.autograd.Function).get("apply")):
    """torch.autograd.Function.apply while forward is recorded."""
    def apply(cls, *args):
        if tracer.mine() and cls.__module__ == CheckpointFunction.__module__:  # the server has memory for all of it
            return args[0](*args[2:]) if cls is CheckpointFunction else args[0]  # the other one of PyTorch 2 has a tensor that nothing reads
        if tracer.mine():
            raise ValueError("it uses a torch.autograd.Function, whose gradient the server does not know")
        return (own.__get__(None, cls) if own else super(torch.autograd.Function, cls).apply)(*args)  # inherited in PyTorch 1.13
    return classmethod(apply)


def names_of(module):
    return {id(t): name for name, t in (*module.named_parameters(), *module.named_buffers())}


def _by_place(cls):
    """While this lasts, forward has no arguments by keyword alone, which torch.fx would give by place."""
    forward = cls.forward
    code = getattr(forward, "__code__", None)
    if not code or not code.co_kwonlyargcount or hasattr(forward, "__wrapped__"):
        return contextlib.nullcontext()
    count = code.co_argcount + code.co_kwonlyargcount
    usual = [forward.__kwdefaults__[name] for name in code.co_varnames[code.co_argcount:count]]
    placed = code.replace(co_argcount=count, co_kwonlyargcount=0)
    return _replaced(cls, forward=types.FunctionType(placed, forward.__globals__, forward.__name__, (*(forward.__defaults__ or ()), *usual), forward.__closure__))


def run(tracer, module, inputs):
    """torch.fx's graph of forward, whose first arguments are the inputs, with the default values of the others."""
    arguments = list(inspect.signature(module.forward).parameters.values())[inputs:]
    usual = {a.name: a.default for a in arguments if isinstance(a.default, (type(None), bool, int, float, str))}
    attends, before = nn.MultiheadAttention.forward, _states() if type(tracer) is Tracer else None
    makers = {"as_tensor": _as_tensor, "is_tensor": _is_tensor, **{name: _recorder(tracer, make) for name, make in MAKERS.items()}}
    takes_sizes = {name: _taker(tracer, getattr(F, name)) for name in ("avg_pool1d", "avg_pool2d", "adaptive_avg_pool1d", "conv1d", "conv2d")}
    try:
        with _ALONE, _by_place(type(module)), _for_einops(), _replaced(builtins, len=_len, isinstance=_isinstance, callable=_callable), _replaced(F, **takes_sizes), _replaced(torch.jit, isinstance=_is_instance), \
                _replaced(torch.autograd.Function, apply=_of_functions(tracer)), _replaced(torch, **makers), \
                _replaced(nn.MultiheadAttention, forward=lambda m, *args, **kwargs: tracer.attend(m, args, kwargs) if tracer.mine() else attends(m, *args, **kwargs)):
            traced = tracer.trace(module, usual or None)
        if before and _states() != before:
            raise ValueError("forward draws random numbers in Python, or makes a tensor of them: that would be done once")
        return traced
    except Exception as e:
        if isinstance(e.__cause__, errors.ConfigError):  # what read() says, which is not about torch.fx
            raise e.__cause__
        frames, line = list(traceback.walk_tb(e.__traceback__)), line_of_error(e)
        said = errors.config(f"{type(module).__name__} cannot be recorded: {_why(e, frames, line)}; keep that part in head or tail")
        said.unrecorded = True
        raise errors.at(said, line) from e
    finally:
        tracer.over = True


def trace(module, inputs, is_leaf, read):
    """The same for the first time. is_leaf(m): m has a build. read: graph.reader's."""
    tracer = Tracer(is_leaf, read)
    tracer.names = names_of(module)
    with torch.enable_grad():
        return run(tracer, module, inputs)


def _check_modes(module):
    name = next((n for n, m in module.named_modules() if isinstance(m, MODAL) and m.training != module.training), None)
    if name is not None:
        raise errors.config(f"{name}: it is in {'evaluation' if module.training else 'training'}, and the module around it is not; "
                            "the server has one mode for all of a middle: call train() or eval() of the whole")


@contextlib.contextmanager
def mode(module, training):
    """Sets the module to training or evaluation, and restores it afterwards."""
    had = [(m, m.training) for m in module.modules()]
    module.train(training)
    try:
        _check_modes(module)
        yield
    finally:
        for m, was in had:
            m.training = was


def check(module):
    """Refuses modules that do more than their forward, such as hooks, and parameters with two names."""
    names = {}
    lazy = next((n for n, p in (*module.named_parameters(), *module.named_buffers()) if nn.parameter.is_lazy(p)), None)
    if lazy:
        raise errors.config(f"{lazy}: it has no shape yet, as of LazyLinear: call the module once with an input before it becomes a RemoteModule")
    _check_modes(module)
    with mode(module, True), mode(module, False):  # checks that train() and eval() reach every part
        pass
    for name, m in module.named_modules():
        what = name or type(m).__name__
        if m._forward_hooks or m._forward_pre_hooks or m._backward_hooks or getattr(m, "_backward_pre_hooks", None):
            raise errors.config(f"{what}: it has hooks, as those of weight_norm, spectral_norm and prune, and the server has none")
        called = type(m).__call__ is not nn.Module.__call__ and not isinstance(m, (torch.fx.GraphModule, nn.ParameterList, nn.ParameterDict))
        if ("forward" in vars(m) or called) and not isinstance(m, torch.jit.ScriptModule):
            raise errors.config(f"{what}: its forward was replaced by another function; make a class of its own for that")
        for key, p in m.named_parameters(name, recurse=False):
            if p.dtype != torch.float32:
                raise errors.config(f"{key}: it is {p.dtype}, and the middle computes in float32: call .float() of the module")
            at = p.data_ptr() or id(p)
            if names.setdefault(at, key) != key:
                raise errors.config(f"{key}: it is the same parameter as {names[at]}; the server has one place for each: call "
                                    "one layer twice instead")
            if p._backward_hooks or getattr(p, "_post_accumulate_grad_hooks", None):
                raise errors.config(f"{key}: it has hooks on its gradient, and the server has none")


COUNTS = "forward reads what a batch norm counts, which changes on the server"


def counts(module, name):
    return hasattr(module, "num_batches_tracked") and name.endswith(("running_mean", "running_var", "num_batches_tracked"))


def check_read(name, module):
    """Checks a tensor or number that forward itself reads from a module."""
    last = name.rpartition(".")[2]
    held = getattr(module, last, None)
    if isinstance(held, torch.Tensor) and held.requires_grad and all(last != n for n, _ in module.named_parameters(recurse=False)):
        raise errors.config(f"{name}: it learns, and is no parameter of its module with this name: make it an nn.Parameter of its own")
    if counts(module, name):
        raise errors.config(f"{name}: {COUNTS}")


def check_draws(b):
    """Refuses a forward inside a backward, as of torch.utils.checkpoint, if it drops: PyTorch drops there what it dropped before."""
    try:
        b.streams and torch.autograd.Variable._execution_engine.queue_callback(lambda: None)
    except RuntimeError:  # there is no backward
        return
    if b.streams:
        raise errors.usage("this forward is inside a backward, as of torch.utils.checkpoint, and would drop others than before: leave "
                           "the middle out of that")


def changes(target, args, kwargs):
    """Whether a function, or a method of this name, changes its first argument in place."""
    word = target if isinstance(target, str) else getattr(target, "__name__", "")
    if target in IN_PLACE or (word.endswith("_") and not word.endswith("__")):
        return True
    try:
        return bool(inspect.signature(target).bind(*args, **kwargs).arguments.get("inplace"))
    except (TypeError, ValueError):  # a method, or a function without a signature: none of these has inplace
        return False
