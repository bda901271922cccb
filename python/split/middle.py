"""The middle for arrays: those of numpy, or anything with float32 memory and data_ptr()."""
import ctypes
import logging
import math
import os
import re
import select
import threading
import time

import numpy

from . import abi, errors

_log = logging.getLogger("split")
_LEVELS = {b"ERROR": logging.ERROR, b"WARN": logging.WARNING, b"INFO": logging.INFO, b"DEBUG": logging.DEBUG}
_POLL_MS = 500
_PATIENCE_S = 2  # how long a server may not answer before the user is told
_SHORT_MS = 20  # a call first waits this long in the library, where Python handles no signal; then it polls


_line = threading.local()  # room for one log line, made once, since every call that waits reads the log


def _tell_log():
    if not hasattr(_line, "room"):
        _line.room = ctypes.create_string_buffer(512)
    while abi.lib.split_log(_line.room, 512):
        level, _, text = _line.room.value.partition(b" ")
        _log.log(_LEVELS.get(level, logging.INFO), "%s", text.decode("utf-8", "replace"))


def _check(code, fail):
    if code != abi.OK:
        _tell_log()
        text = re.sub(r"\bsplit_(\w+)", r"\1()", fail.text.decode("utf-8", "replace"))  # the library names its own functions
        raise errors.error_of(code, fail.status, fail.key.decode(), fail.step, text)


def _pointer(array, *shape):
    """The address of packed float32 numbers of this shape, or flat ones, in host memory."""
    count, given = math.prod(shape), tuple(array.shape)
    if hasattr(array, "data_ptr"):
        fits = array.is_contiguous() and array.element_size() == 4 and array.is_floating_point() and getattr(array, "is_cpu", True)
        at = array.data_ptr()
    else:
        fits = array.flags.c_contiguous and array.dtype == numpy.float32
        at = array.ctypes.data
    if not fits or given not in (shape, (count,)):
        raise errors.usage(f"an array {list(shape)} of {count} packed float32 numbers in the host's memory is wanted, not "
                           f"{array.dtype} {given}{'' if getattr(array, 'is_cpu', True) else f' on {array.device}'}")
    return at


def _listed(x, n, what):
    """x as a list of n arrays."""
    x = list(x) if isinstance(x, (list, tuple)) else [x]
    if len(x) != n:
        raise errors.usage(f"{len(x)} arrays for a middle of {n} {what}")
    return x


def _pointers(arrays, count, shapes):
    """The addresses of arrays of `count` rows, or tokens; None for none."""
    return (ctypes.c_void_p * len(arrays))(*(None if a is None else _pointer(a, count, *shape[1:]) for a, shape in zip(arrays, shapes)))


class Middle:
    """A session with a server. `conf`: keys of split_conf_set in lib/split.h; `weights`: arrays by parameter. Where the graph has
    several inputs or outputs, an array below is a list of arrays, in the graph's order."""

    def __init__(self, graph, weights=(), resume=None, **conf):
        self._handle, self._pid, self._fail = ctypes.c_void_p(), os.getpid(), abi.Fail(size=ctypes.sizeof(abi.Fail))
        self._given, self._given_in = {}, 0  # _given: rows and tokens by call, for calls of step _given_in
        self._row_tokens = int(conf.get("tokens.row", 0))
        c = abi.lib.split_conf_new()
        if not c:
            raise MemoryError
        try:
            self._fill(c, graph, dict(weights), resume, conf)
            self._open(c, conf)
        except BaseException:
            self.close(goodbye=False)
            raise
        finally:
            abi.lib.split_conf_free(c)
        (self.input_shapes, self.output_shapes), self._per_token = zip(self._shapes(0), self._shapes(1))
        self.input_shape, self.output_shape = self.input_shapes[0], self.output_shapes[0]

    def _fill(self, c, graph, weights, resume, conf):
        for key, value in conf.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            _check(abi.lib.split_conf_set(c, key.encode(), text.encode(), self._fail), self._fail)
        _check(abi.lib.split_conf_graph(c, graph.encode(), self._fail), self._fail)
        self._dims = dict(re.findall(r"^param (\S+) (\S+)", graph, re.M))
        self._still = [line.endswith(" still") for line in re.findall(r"^in .*", graph, re.M)]
        for name, w in weights.items():
            w = numpy.ascontiguousarray(w, numpy.float32)
            self._check_dims(name, w.shape)
            _check(abi.lib.split_conf_weight(c, name.encode(), w.ctypes.data, w.size, self._fail), self._fail)
        if resume is not None:
            token = bytes(resume)
            _check(abi.lib.split_conf_resume(c, token, len(token), self._fail), self._fail)

    def _check_dims(self, name, shape):
        """Refuses another shape of the same size, such as PyTorch's of a kernel. A flat array lies as the graph has it."""
        dims = "[" + ",".join(map(str, shape)) + "]"
        if len(shape) > 1 and self._dims.get(name, dims) != dims:
            raise errors.config(f"{name}: an array {dims}, and the graph has {self._dims[name]}")

    def _open(self, c, conf):
        patience = time.monotonic() + _PATIENCE_S
        while not self._try(abi.lib.split_open, ctypes.byref(self._handle), c, timeout_ms=_SHORT_MS):
            if time.monotonic() > patience:
                patience = math.inf
                _log.warning("%s has not answered yet; wait_s says how long it is asked", conf.get("server"))
            self.wait()
        _tell_log()

    def _shapes(self, output):
        per_token, dim, shapes = ctypes.c_int(), (ctypes.c_int64 * 4)(), []
        for field in range(abi.lib.split_fields(self._handle, output)):
            n = abi.lib.split_shape_of(self._handle, output, field, ctypes.byref(per_token), dim)
            shapes.append(tuple(dim[:n]))
        return shapes, bool(per_token.value)

    def _try(self, function, *arguments, timeout_ms=0):
        """Calls a function of the library. False: not yet."""
        code = function(*arguments, timeout_ms, self._fail)
        if code > abi.OK:
            _check(code, self._fail)
        return code == abi.OK

    def _wait(self, function, *arguments):
        """Calls until it does not say AGAIN; signals are handled meanwhile."""
        while not self._try(function, *arguments, timeout_ms=_SHORT_MS):
            self.wait()
        _tell_log()

    def wait(self):
        """Waits until a call that said "not yet" may go on."""
        poll, fd = select.poll(), abi.lib.split_fd(self._handle)
        _tell_log()
        if fd >= 0:  # else another thread has closed it
            poll.register(fd, select.POLLIN)
            poll.poll(_POLL_MS)

    def _counts(self, x, rows, lengths):
        """Rows and tokens of a call. Without lengths each row has tokens.row of them."""
        if lengths is not None and not self._row_tokens:
            raise errors.usage("this middle has rows of one length: its conf lacks tokens.row")
        if rows is None:
            rows = len(lengths) if lengths is not None else -(-len(x) // self._row_tokens) if self._per_token[0] else len(x)
        if lengths is not None and len(lengths) != rows:
            raise errors.usage(f"lengths of {len(lengths)} rows, in a call of {rows}")
        return rows, rows * self._row_tokens if lengths is None else sum(map(int, lengths))

    def forward(self, x, rows=None, lengths=None, training=True):
        """If the middle computes per token, x has the tokens of all rows, one after the other."""
        x = _listed(x, len(self.input_shapes), "inputs")
        rows, tokens = self._counts(x[0], rows, lengths)
        number, n = ctypes.c_int(), None if lengths is None else (ctypes.c_uint32 * rows)(*map(int, lengths))
        at = _pointers(x, tokens if self._per_token[0] else rows, self.input_shapes)
        _check(abi.lib.split_forward_all(self._handle, training, rows, n, at, number, self._fail), self._fail)
        step = self.step_number
        if step != self._given_in or not training:
            self._given, self._given_in = {}, step
        self._given[number.value] = rows, tokens
        return number.value

    def _out(self, call, output, out):
        """Arrays for a call's output, or for its inputs' gradients, and their addresses."""
        if call not in self._given:
            raise errors.usage(f"call {call} is not open in step {self.step_number}", self.step_number)
        count, shapes = self._given[call][self._per_token[output]], (self.input_shapes, self.output_shapes)[output]
        if out is None:
            out = [None if not output and still else numpy.empty((count, *shape[1:]), numpy.float32)
                   for shape, still in zip(shapes, [False] * len(shapes) if output else self._still)]
            out = out if len(out) > 1 else out[0]
        return out, _pointers(_listed(out, len(shapes), "outputs" if output else "inputs"), count, shapes)

    def output(self, call, out=None):
        out, at = self._out(call, True, out)
        self._wait(abi.lib.split_output_all, self._handle, call, at)
        return out

    def try_output(self, call, out):
        """False: it is not there yet."""
        return self._try(abi.lib.split_output_all, self._handle, call, self._out(call, True, out)[1])

    def backward(self, call, dy):
        """dy: None in the list for an output that has no gradient."""
        at = self._out(call, True, dy)[1]
        _check(abi.lib.split_backward_all(self._handle, call, at, self._fail), self._fail)

    def input_grad(self, call, out=None):
        """None in the list for an input that the graph calls `still`."""
        out, at = self._out(call, False, out)
        self._wait(abi.lib.split_input_grad_all, self._handle, call, at)
        return out

    def try_input_grad(self, call, out):
        return self._try(abi.lib.split_input_grad_all, self._handle, call, self._out(call, False, out)[1])

    def norm(self):
        norm = ctypes.c_double()
        self._wait(abi.lib.split_norm, self._handle, norm)
        return norm.value

    def step(self, lr, scale=1.0):
        self._wait(abi.lib.split_step, self._handle, lr, scale)

    def drop(self):
        self._wait(abi.lib.split_drop, self._handle)

    def weight(self, name, shape):
        out = numpy.empty(shape, numpy.float32)
        self._check_dims(name, out.shape)
        self._wait(abi.lib.split_weight, self._handle, name.encode(), out.ctypes.data, out.size)
        return out

    def keep(self):
        """The server stores its state. Returns its token, as bytes."""
        n = ctypes.c_size_t(1 << 16)
        while True:
            token = ctypes.create_string_buffer(n.value)
            try:
                self._wait(abi.lib.split_keep, self._handle, token, n)
                return token.raw[:n.value]
            except errors.Error as e:
                if e.code != abi.LIMIT or n.value <= len(token):
                    raise

    def resume(self, token):
        token = bytes(token)
        self._wait(abi.lib.split_resume, self._handle, token, len(token))

    @property
    def step_number(self):
        return abi.lib.split_step_number(self._handle)

    def _statistics(self):
        s = abi.Stats(size=ctypes.sizeof(abi.Stats))
        if abi.lib.split_statistics(self._handle, s) != abi.OK:
            forked = self._handle and self._pid != os.getpid()
            raise errors.usage(errors.FORKED if forked else "there is no middle, or another thread uses it")
        return s

    def crossed(self):
        """Bytes of the session so far, and the server's seconds of the last step."""
        s = self._statistics()
        return s.tx_bytes + s.rx_bytes, s.server_s

    def stats(self):
        s = self._statistics()
        return {name: getattr(s, name) for name, _ in s._fields_[1:]}

    @property
    def is_open(self):
        return bool(self._handle)

    def close(self, goodbye=False):
        """goodbye: the server may remove what it has of the session. A call of another thread ends with UsageError."""
        handle, self._handle.value = ctypes.c_void_p(self._handle.value), None  # calls that wait have the same object
        if handle and self._pid == os.getpid():
            abi.lib.split_close(handle, goodbye)
            _tell_log()

    def __reduce__(self):
        raise errors.usage("a middle cannot be copied or pickled: keep() a token, and open another one with it")

    def __del__(self):
        # As the interpreter ends, it takes names from modules; the process's end closes the link, too.
        if getattr(self, "_handle", None) and _tell_log and abi and abi.lib:
            self.close()
