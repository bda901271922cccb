"""Ctrl-C while a call waits for a stopped server."""
import os
import signal
import threading
import time

import split

signal.signal(signal.SIGINT, signal.default_int_handler)


def _states(pid):
    """The states of a process's threads, as in proc(5)."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/stat") as f:
            yield f.read().rpartition(")")[2].split()[0]


def stand_still(pid):
    os.kill(pid, signal.SIGSTOP)
    while set(_states(pid)) != {"T"}:
        time.sleep(0.001)


def interrupt(pid, begin, call):
    """Stops the server, calls begin(), sends Ctrl-C once call() waits, and lets the server continue."""
    waits, real, main = threading.Event(), split.Middle.wait, threading.get_native_id()

    def wait(self):
        waits.set()
        real(self)

    def strike():
        waits.wait()
        while open(f"/proc/self/task/{main}/stat").read().rpartition(")")[2].split()[0] != "S":
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    stand_still(pid)
    thread = threading.Thread(target=strike)
    split.Middle.wait = wait
    try:
        given = begin()
        thread.start()
        call(given)
    except KeyboardInterrupt:
        pass
    else:
        raise AssertionError("the call was not interrupted")
    finally:
        split.Middle.wait = real
        os.kill(pid, signal.SIGCONT)
    thread.join()
