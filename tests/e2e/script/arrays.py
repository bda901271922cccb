"""split.Middle: learns, evaluates, counts tokens, keeps and resumes, refuses; ctypes and split.h say the same."""
import ctypes
import os
import re
import sys
import threading
import time

import numpy as np

import middles
import split
from middles import GRAPH, WEIGHTS, refused, rng, train
from split import abi

server, header = sys.argv[1:]
def begin(resume=None, server=server, **conf):
    return middles.begin(server, resume, **conf)


def check_header():
    """The ctypes declarations have every function with its number of arguments, and both structs."""
    text = re.sub(r"/\*.*?\*/", "", open(header).read(), flags=re.S)
    functions = dict(re.findall(r"\b(split_[a-z_]+)\(([^()]*)\);", text))
    assert set(functions) == set(abi.FUNCTIONS), set(functions) ^ set(abi.FUNCTIONS)
    for name, arguments in functions.items():
        n = 0 if arguments.strip() == "void" else arguments.count(",") + 1
        assert n == len(abi.FUNCTIONS[name][1]), name


def check_step():
    """One step equals numpy's, in double."""
    m, w0, w1 = begin(), *(WEIGHTS[k].astype(np.float32).astype(float) for k in ("0.weight", "2.weight"))
    for rows in (12, 12, 5, 1, 12):
        x, dy = rng.normal(size=(rows, 8)).astype(np.float32), rng.normal(size=(rows, 4)).astype(np.float32)
        call = m.forward(x)
        h = np.tanh(x @ w0.T)
        np.testing.assert_allclose(m.output(call), h @ w1.T, rtol=1e-5, atol=1e-6)
        m.backward(call, dy)
        dh = dy @ w1 * (1 - h * h)
        np.testing.assert_allclose(m.input_grad(call), dh @ w0, rtol=1e-4, atol=1e-6)
        g0, g1 = dh.T @ x, dy.T @ h
        np.testing.assert_allclose(m.norm(), np.sqrt((g0 ** 2).sum() + (g1 ** 2).sum()), rtol=1e-5)
        m.step(0.1, 0.5)
        w0, w1 = w0 - 0.05 * g0, w1 - 0.05 * g1
    np.testing.assert_allclose(m.weight("0.weight", (16, 8)), w0, rtol=1e-4, atol=1e-6)
    call = m.forward(x, training=False)
    np.testing.assert_allclose(m.output(call), np.tanh(x @ w0.T) @ w1.T, rtol=1e-4, atol=1e-6)
    assert m.step_number == 5 and m.stats()["links"] == 1
    m.close(goodbye=True)


def check_calls():
    """Two calls, with the second one's gradient first, equal one call with the rows of both; and one call without a gradient."""
    x, dy = rng.normal(size=(10, 8)).astype(np.float32), rng.normal(size=(10, 4)).astype(np.float32)
    found = []
    for cuts in ([(0, 10)], [(0, 4), (4, 10)], [(0, 4), (4, 10), (0, 3)]):
        m, dx = begin(calls=3), np.empty((10, 8), np.float32)
        calls = [m.forward(x[a:b].copy()) for a, b in cuts]
        y = np.concatenate([m.output(c) for c in calls])[:10]
        for c, (a, b) in list(zip(calls, cuts))[1::-1]:
            m.backward(c, dy[a:b].copy())
            norm = m.norm()  # the last one is of all gradients
        for c, (a, b) in list(zip(calls, cuts))[:2]:
            m.input_grad(c, dx[a:b])
        m.step(0.1)
        found.append((y, dx, norm, m.weight("0.weight", (16, 8))))
        m.close(goodbye=True)
    for other in found[1:]:
        for a, b in zip(found[0], other):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    refused(split.UsageError, "call 7 is not open in step 0", begin().output, 7)


def check_lengths():
    """Rows of tokens, whose numbers differ or do not; tokens come out, or one for each row. No more memory is read or written than is given."""
    text = "graph 1\nin head_act f32 T[4] most=6\nparam w [4,4] zero\nnode 0 linear %0 &0\n"
    conf = {**middles.CONF, "tokens.row": 6, "tokens.chunk": 24}
    x = rng.normal(size=(12, 4)).astype(np.float32)
    for end, firsts in ("out mid_act %1\n", None), ("node 1 select %1\nout mid_act %2\n", {2: [0, 6], 3: [0, 5, 6]}):
        m = split.Middle(text + end, {"w": np.eye(4)}, server=server, **conf)
        for given in ({}, {"rows": 2}, {"lengths": [6, 6]}, {"lengths": np.array([5, 1, 6], np.uint8)}):
            call = m.forward(x, **given)
            y = m.output(call)
            assert np.array_equal(y, x[firsts[len(given.get("lengths", "--"))]] if firsts else x), given
            m.backward(call, y)
            assert m.input_grad(call).shape == x.shape
            m.drop()
        for given, text_of in (({}, "24 packed"), ({"rows": 2}, "48 packed"), ({"rows": 3, "lengths": [1, 0]}, "lengths of 2 rows, in a call of 3")):
            refused(split.UsageError, text_of, m.forward, x[:1], **given)
        m.close(goodbye=True)
    refused(split.UsageError, "rows of one length", begin().forward, np.zeros((2, 8), np.float32), lengths=[1, 1])


def check_tokens():
    m = begin()
    none = m.keep()
    m.close()
    refused(split.MismatchError, "the token of step 0 is of other weights", split.Middle, GRAPH, {"0.weight": np.ones((16, 8))}, none,
            **{**middles.CONF, "server": server})
    whole = begin(none)
    expected = train(whole, range(20))
    m = begin()
    train(m, range(7))
    seven = m.keep()
    train(m, range(7, 11))
    eleven = m.keep()
    train(m, range(11, 13))
    m.resume(seven)  # in one process
    assert m.step_number == 7
    train(m, range(7, 9))
    nine = m.keep()
    m.close()
    refused(split.MismatchError, "no common step", begin, eleven)  # of a past that is no longer this session's
    m = begin(nine)
    assert m.step_number == 9 and train(m, range(9, 20)) == expected
    refused(split.DataError, "damaged", begin, seven[:-1])
    refused(split.MismatchError, "another network or other settings", begin, nine, **{"train.batch": 9})
    m.close()


class OnDevice:
    """Stands for a tensor of PyTorch on a GPU, whose pointer the host must not dereference."""
    shape, dtype, device, is_cpu = (12, 8), "float32", "cuda:0", False
    __len__ = data_ptr = lambda self: 12
    numel, element_size = lambda self: 96, lambda self: 4
    is_contiguous = is_floating_point = lambda self: True


def check_refusals():
    m = begin()
    x = np.zeros((12, 8), np.float32)
    refused(split.UsageError, "1 to 12", m.forward, np.zeros((13, 8), np.float32))
    refused(split.UsageError, "packed float32", m.forward, np.zeros((12, 8)))
    refused(split.UsageError, "not float32 (12, 8) on cuda:0", m.forward, OnDevice())
    refused(split.UsageError, "an array [12, 8] of 96 packed", m.forward, x.reshape(8, 12), rows=12)
    turned = {**WEIGHTS, "0.weight": WEIGHTS["0.weight"].T}
    refused(split.ConfigError, "0.weight: an array [8,16], and the graph has [16,8]", split.Middle, GRAPH, turned, server=server, **middles.CONF)
    refused(split.ConfigError, "0.weight: an array [8,16]", m.weight, "0.weight", (8, 16))
    call = m.forward(x)
    refused(split.UsageError, "call step() or drop() first", m.forward, x)
    refused(split.UsageError, "call output() before", m.backward, call, np.zeros((12, 4), np.float32))
    refused(split.UsageError, "is open", m.weight, "0.weight", (16, 8))
    y = m.output(call)
    m.backward(call, y)
    refused(split.UsageError, "ran already", m.backward, call, y)
    refused(split.UsageError, "an argument is NULL: y must not be",
            m._wait, abi.lib.split_output, m._handle, call, None)
    m.drop()
    assert m.step_number == 1
    call = m.forward(np.full((12, 8), np.nan, np.float32))
    e = refused(split.NonfiniteError, "NaN or Inf in head_act", m.output, call)
    assert e.status == 65 and e.step == 1 and m.step_number == 2
    train(m, range(2))  # goes on
    m.close()
    m = begin(**{"codec.head_act": "quant:8", "codec.mid_grad": "topk:0.5", "group.1": "lr=0.5"})
    train(m, range(2))
    call = m.forward(np.full((12, 8), np.nan, np.float32), training=False)
    refused(split.NonfiniteError, "NaN or Inf in head_act", m.output, call)
    train(m, range(2))  # an evaluation ends without harm, too
    m.close()
    refused(split.UsageError, "there is no middle", m.forward, x)
    refused(split.ConfigError, "codec.head_act", begin, **{"codec.head_act": "nothing"})
    refused(split.ConfigError, "node 0", lambda: split.Middle(GRAPH.replace("[16,8]", "[16,9]"), {}, server=server, **middles.CONF))
    assert refused(split.UnavailableError, "has not answered for 1 s", begin, wait_s=1, server="tcp://127.0.0.1:9").status == 69


def check_close():
    """close() ends what another thread does."""
    x, found = np.zeros((12, 8), np.float32), []

    def evaluates(m):
        try:
            while True:
                m.output(m.forward(x, training=False))
        except split.UsageError as e:
            found.append(e)
    for i in range(8):
        m = begin()
        thread = threading.Thread(target=evaluates, args=(m,), daemon=True)
        thread.start()
        time.sleep(0.004 * i)
        m.close()
        thread.join(60)
        assert len(found) == i + 1, "a thread does not end"


def check_servers():
    """If a program sets several servers, the last one is used."""
    conf = {**middles.CONF, "server": "tcp://127.0.0.1:9", "wait_s": 1}
    m = object.__new__(split.Middle)
    m._handle, m._pid, m._fail = ctypes.c_void_p(), os.getpid(), abi.Fail(size=ctypes.sizeof(abi.Fail))
    c = abi.lib.split_conf_new()
    for some in {"server": "local:"}, conf:
        m._fill(c, GRAPH, {}, None, some)
    refused(split.UnavailableError, "tcp://127.0.0.1:9 has not answered", m._open, c, conf)
    abi.lib.split_conf_free(c)


check_header()
check_servers()
check_step()
check_calls()
check_lengths()
check_tokens()
check_refusals()
check_close()
