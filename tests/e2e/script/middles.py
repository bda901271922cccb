"""Shared by tests of split.Middle: a small network, its training, and a check of refusals."""
import ctypes
import gc
import os
import threading
import traceback

import numpy as np

import split

GRAPH = """graph 1
in head_act f32 R[8]
param 0.weight [16,8] zero
param 2.weight [4,16] zero
node 0 linear %0 &0
node 1 tanh %1
node 2 linear %2 &1
out mid_act %3
"""
rng = np.random.default_rng(0)
WEIGHTS = {"0.weight": rng.normal(0, 0.3, (16, 8)), "2.weight": rng.normal(0, 0.3, (4, 16))}
CONF = {"train.batch": 12, "train.chunks": 3, "train.optimizer.momentum": 0, "log": "error", "link.retry_ms": 10}


def begin(server, resume=None, kind=split.Middle, **conf):
    return kind(GRAPH, WEIGHTS, resume, **{**CONF, "server": server, **conf})


def refused(kind, text, call, /, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as e:
        assert text in str(e), f"{e!r} does not say {text!r}"
        return e
    raise AssertionError(f"{text!r} was not refused")


def batch(i):
    return np.random.default_rng(i).normal(size=(12, 8)).astype(np.float32)


def train(m, steps):
    """Returns the middle's weights after these steps, as bytes."""
    for i in steps:
        call = m.forward(batch(i))
        m.backward(call, m.output(call))
        m.input_grad(call)
        m.norm()
        m.step(0.1)
    return m.weight("0.weight", (16, 8)).tobytes()


def in_child(what):
    """Runs in a forked child, which must not fail."""
    child = os.fork()
    if child == 0:
        try:
            what()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, "the child failed"


class _Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]


def held():
    """Returns this process's numbers of descriptors, threads and bytes of memory."""
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = _Mallinfo
    gc.collect()
    info = libc.mallinfo2()
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), info.uordblks + info.hblkhd


def settles(before, *most):
    """Waits until no more is held than before, plus these: ZeroMQ's threads end with a delay."""
    for _ in range(600):
        now = held()
        if all(n <= b + more for n, b, more in zip(now, before, most)):
            return now
        threading.Event().wait(0.05)
    raise AssertionError(f"{now} descriptors, threads and bytes are left, of {before}")
