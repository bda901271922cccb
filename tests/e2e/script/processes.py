"""usage: processes.py SERVER PID: split.Middle in forked children, and where Ctrl-C comes while a call waits."""
import copy
import multiprocessing
import os
import pickle
import sys

import numpy as np

import middles
import split
from middles import batch, in_child, refused, train
from signals import interrupt

server, pid = sys.argv[1], int(sys.argv[2])
FORKED = "a process that was forked cannot use its parent's middle"
STEPS, AT = 6, 3


def begin(resume=None, **conf):
    return middles.begin(server, resume, **conf)


def uses_nothing(m, call, token):
    """Every call is refused, closing does nothing, and the child has a middle of its own."""
    y = np.zeros((12, 4), np.float32)
    for f, args in ((m.forward, [batch(0)]), (m.output, [call]), (m.try_output, [call, y.copy()]), (m.backward, [call, y]),
                    (m.input_grad, [call]), (m.norm, []), (m.step, [0.1]), (m.drop, []), (m.weight, ["0.weight", (16, 8)]),
                    (m.keep, []), (m.resume, [token]), (m.stats, [])):
        assert refused(split.UsageError, FORKED, f, *args).status == 64
    assert m.step_number == AT
    m.close(goodbye=True)
    refused(split.UsageError, "there is no middle", m.forward, batch(0))
    if os.environ.get("SAN") == "thread":
        return  # its runtime cannot start threads behind a fork
    own = begin()
    assert train(own, range(STEPS)) == expected
    own.close(goodbye=True)


def check_fork():
    m = begin()
    train(m, range(AT))
    token = m.keep()
    call = m.forward(batch(AT))
    y = m.output(call)
    in_child(lambda: uses_nothing(m, call, token))
    m.backward(call, y)
    m.input_grad(call)
    in_child(m.__del__)
    m.norm()
    m.step(0.1)
    assert train(m, range(AT + 1, STEPS)) == expected
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        refused(split.UsageError, "cannot be copied or pickled", copied, m)
    child = multiprocessing.get_context("spawn").Process(target=print, args=(m,))
    refused(split.UsageError, "cannot be copied or pickled", child.start)
    m.close(goodbye=True)


def dropped():
    """The expected state after step AT was dropped."""
    m = begin()
    train(m, range(AT))
    m.forward(batch(AT))
    m.drop()
    found = train(m, range(AT + 1, STEPS))
    m.close(goodbye=True)
    return found


def forward(m):
    return m.forward(batch(AT))


def check_step_calls():
    """output, input_grad and norm: the step is dropped, and the next one is right to the bit."""
    for name in ("output", "input_grad", "norm"):
        m = begin()
        train(m, range(AT))
        if name == "output":
            interrupt(pid, lambda: forward(m), m.output)
        else:
            call = forward(m)
            y = m.output(call)
            wait = m.input_grad if name == "input_grad" else lambda _: m.norm()
            interrupt(pid, lambda: m.backward(call, y) or call, wait)
        m.drop()
        assert m.step_number == AT + 1
        assert train(m, range(AT + 1, STEPS)) == without, name
        m.close(goodbye=True)


def nearly(m):
    train(m, range(AT))
    call = forward(m)
    m.backward(call, m.output(call))
    m.input_grad(call)


def check_step():
    """An interrupted step() continues if it is called again; otherwise it is dropped, or was applied already."""
    for again in (True, False):
        m = begin()
        nearly(m)
        interrupt(pid, lambda: None, lambda _: m.step(0.1))
        if again:
            m.step(0.1)
            assert m.step_number == AT + 1
        else:
            m.drop()
            refused(split.UsageError, "is not open", m.step, 0.1)
        found = train(m, range(AT + 1, STEPS))
        assert found == expected or (not again and found == without)
        m.close(goodbye=True)
    m = begin()  # neither: the call is forgotten once the step is over
    nearly(m)
    interrupt(pid, lambda: None, lambda _: m.step(0.1))
    while m.step_number == AT:
        try:
            m.forward(batch(AT + 1))
        except split.UsageError as e:
            assert "call step() or drop() first" in str(e)
    m.drop()
    train(m, range(AT + 2, STEPS))
    m.close(goodbye=True)


def check_drop():
    m = begin()
    train(m, range(AT))
    interrupt(pid, lambda: forward(m), lambda _: m.drop())
    m.drop()
    assert train(m, range(AT + 1, STEPS)) == without
    m.close(goodbye=True)


def check_state():
    """Ctrl-C in weight, keep, resume and the constructor loses nothing."""
    for name in ("weight", "keep"):
        m = begin()
        train(m, range(AT))
        m.forward(batch(0))
        m.drop()
        wait = (lambda _: m.weight("0.weight", (16, 8))) if name == "weight" else lambda _: m.keep()
        interrupt(pid, lambda: None, wait)
        m.close(goodbye=True)
    m = begin()
    train(m, range(AT))
    three = m.keep()
    train(m, range(AT, AT + 1))
    four = m.keep()
    for token, at in ((three, AT), (four, AT + 1), (three, AT)):  # another token, and the same
        interrupt(pid, lambda: None, lambda _: m.resume(three if token is four else four))
        m.resume(token)
        assert m.step_number == at
    assert train(m, range(AT, STEPS)) == expected
    m.resume(three)
    assert m.step_number == AT
    m.close(goodbye=True)
    interrupt(pid, lambda: None, lambda _: begin())
    m = begin()
    assert train(m, range(STEPS)) == expected
    m.close(goodbye=True)


m = begin()
expected = train(m, range(STEPS))
m.close(goodbye=True)
without = dropped()
assert without != expected
for check in (check_fork, check_step_calls, check_step, check_drop, check_state):
    check()
    print(check.__name__, flush=True)
