"""What forward reads beside tensors and layers: attributes that change in place, globals, what functions of the script have around them. Recording
reads it once, and PyTorch in each call."""
import collections
import dis
import functools
import os
import sys
import sysconfig
import types

import numpy
import torch
from torch import nn

_FOREIGN = tuple(os.path.realpath(p) + os.sep for p in {*(sysconfig.get_paths()[k] for k in ("stdlib", "platstdlib")), *(os.path.dirname(f) for f in (torch.__file__, __file__))})
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_MOST, _DEEPEST = 256, 40  # items of a container, containers in each other
_PLAIN = type(None), bool, int, float, str, tuple
_REGISTERED = set(vars(nn.Module()))
_READS = {"LOAD_GLOBAL", "LOAD_NAME", "IMPORT_NAME"}


@functools.lru_cache(None)
def _is_foreign(file):
    """Whether a file is of a package, and not of the script."""
    return os.path.realpath(file).startswith(_FOREIGN) or any(p in file for p in _PACKAGES)


@functools.lru_cache(None)
def _named(code):
    """Names of globals, and all names and words, of a function's code and of those inside it."""
    of, words = {i.argval for i in dis.get_instructions(code) if i.opname in _READS}, {*code.co_names}
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            inner = _named(c)
            of, words = of | inner[0], words | inner[1]
        elif isinstance(c, str) and c.isidentifier():
            words.add(c)  # as of getattr()
    return of, words


def _is_foreign_class(c):
    return c.__module__ == "builtins" or _is_foreign(getattr(sys.modules.get(c.__module__), "__file__", None) or "")


def _may_read(m):
    """Whether a module is of a class of the script, or has more than numbers and layers, such as a function."""
    return not _is_foreign_class(type(m)) or any(not isinstance(v, (*_PLAIN, list, dict)) for k, v in vars(m).items() if k not in _REGISTERED)


class Reads:
    """had: (path, value) of all that was found. A value is compared by ==, an object of a package or a tensor by its identity."""

    def __init__(self, module):
        held = set(map(id, module.modules()))
        self._held, self._modules = held, [(n, m) for n, m in module.named_modules() if not isinstance(m, torch.jit.ScriptModule) and _may_read(m)]
        self._state = {id(t) for t in (*module.parameters(), *module.buffers())}
        self._words, known = {"forward", "__call__", "__wrapped__"}, 0
        while known != len(self._words):  # a function that is found has words of its own
            known = len(self._words)
            self.had = self._all()

    def changed(self):
        """The path of what the script has changed; "": nothing."""
        now = self._all()
        if now == self.had:
            return ""
        return next((k for k in {**now, **self.had} if now.get(k, self) != self.had.get(k, self)), "")

    def _all(self):
        self._found, self._met, self._depth = {}, set(), 0
        with torch._C.DisableTorchFunction():
            for name, m in self._modules:
                self._look(name or type(m).__name__, m)
        return self._found

    def _look(self, path, v):
        kind = type(v)
        if v is None or kind in (bool, int, str, bytes, complex):
            self._found[path] = v
        elif kind is float:
            self._found[path] = repr(v)  # NaN differs from itself
        elif isinstance(v, torch.Tensor):
            self._found[path] = id(v) if id(v) in self._state else (id(v), v._version)
        elif id(v) not in self._met and self._depth < _DEEPEST:
            self._met.add(id(v))
            self._depth += 1
            self._inside(path, v)
            self._depth -= 1

    def _inside(self, path, v):
        if isinstance(v, numpy.ndarray):
            self._found[path] = v.tobytes() if v.nbytes < 1 << 16 and v.dtype != object else id(v)
        elif isinstance(v, (list, tuple, set, frozenset, collections.deque)):
            self._found[path] = len(v)
            for i, x in zip(range(_MOST), v):
                self._look(f"{path}[{i}]", x)
        elif isinstance(v, (dict, collections.UserDict)):
            self._found[path] = len(v)
            for k, x in list(v.items())[:_MOST]:
                self._look(f"{path}[{k!r:.40}]", x)
        elif isinstance(v, functools.partial):
            self._each(path, func=v.func, args=v.args, keywords=v.keywords)
        elif isinstance(v, types.MethodType):
            self._each(path, of=v.__self__, function=v.__func__)
        elif isinstance(v, types.FunctionType):
            self._function(path, v)
        elif isinstance(v, property):
            self._look(path, v.fget)
        elif isinstance(v, (staticmethod, classmethod)):
            self._look(path, v.__func__)
        elif isinstance(v, types.ModuleType):
            if getattr(v, "__file__", None) and not _is_foreign(v.__file__) or getattr(v, "__spec__", None) is None:
                self._of_names(path, vars(v))
        elif isinstance(v, type):
            self._class(path, v)
        else:
            self._object(path, v)

    def _each(self, path, **parts):
        for name, x in parts.items():
            self._look(f"{path}.{name}", x)

    def _of_names(self, path, held, but=()):
        for name in self._words & held.keys() - but:
            self._look(f"{path}.{name}", held[name])

    def _function(self, path, f):
        self._found[path] = id(f.__code__)
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or ()):
            if cell != types.CellType():  # which is empty
                self._look(f"{path}: {name}", cell.cell_contents)
        self._each(path, defaults=f.__defaults__, of=vars(f))
        if _is_foreign(f.__code__.co_filename):
            return
        names, words = _named(f.__code__)
        self._words |= words
        for name in names:
            if name in f.__globals__:
                self._look(f"{f.__module__}.{name}", f.__globals__[name])
            elif name in sys.modules:
                self._look(name, sys.modules[name])

    def _class(self, path, c):
        self._found[path] = id(c)
        for base in c.__mro__:
            if not _is_foreign_class(base):
                self._of_names(base.__name__, vars(base))

    def _object(self, path, v):
        self._found[path] = id(v)
        if isinstance(v, nn.Module) and id(v) not in self._held:
            return
        self._look(type(v).__name__, type(v))
        self._of_names(path, getattr(v, "__dict__", {}), _REGISTERED if isinstance(v, nn.Module) else ())
        for name in (n for c in type(v).__mro__ for n in getattr(c, "__slots__", ()) if n in self._words and hasattr(v, n)):
            self._look(f"{path}.{name}", getattr(v, name))
