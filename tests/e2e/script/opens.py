"""usage: opens.py SERVER SPLITS FOLDER: 1,000 opens and closes, in turn normal, refused, half open and of servers that are
killed, leave no descriptor, thread or memory."""
import os
import re
import signal
import socket
import subprocess
import sys

import split
from middles import batch, begin, held, refused, settles, train

server, splits, folder = sys.argv[1:]
POOL = 4  # threads that libuv keeps for the process, once it has looked up a name
AT_ONCE = 10  # middles of one server that is killed
ROUNDS = 25


class Gone(Exception):
    pass


class Hasty(split.Middle):
    def wait(self):
        raise Gone


def start():
    """Starts a server; returns it and its endpoint."""
    config = os.path.join(folder, "empty.yaml")
    child = subprocess.Popen([splits, "serve", config, "--set", "listen=tcp://127.0.0.1:0", "--set", f"store={folder}/killed", "--set", "threads=1",
                              "--set", "device=cpu", "--set", f"control={folder}/killed.sock", "--set", "limits.sessions=32"], stderr=subprocess.PIPE, text=True)
    for line in child.stderr:
        if " serving: " in line:
            return child, re.search(r" on (tcp:[^ ,]*),", line)[1]
    raise AssertionError("splits does not serve")


def stale_token():
    """A token of a state that the session has since replaced."""
    m = begin(server)
    train(m, range(2))
    two = m.keep()
    train(m, range(2, 4))
    four = m.keep()
    m.resume(two)
    train(m, range(1))
    m.keep()
    m.close()
    return four


def killed():
    child, endpoint = start()
    opened = [begin(endpoint, wait_s=1) for _ in range(AT_ONCE)]
    for m in opened[::2]:
        m.output(m.forward(batch(0)))
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stderr.close()
    for i, m in enumerate(opened):
        m.close(goodbye=i % 3 == 0)


def half_open(endpoint):
    """A listener whose connections the kernel accepts, but that never answers."""
    refused(Gone, "", begin, endpoint, kind=Hasty)


four = stale_token()
silent = socket.create_server(("127.0.0.1", 0), backlog=64)
mute = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
for i in range(ROUNDS):
    if i == 3:
        before = held()
    for _ in range(AT_ONCE):
        begin(server).close(goodbye=True)
        refused(split.MismatchError, "no common step", begin, server, four)
        half_open(mute)
        try:  # nothing accepts them: the backlog would be full
            while True:
                silent.setblocking(False)
                silent.accept()[0].close()
        except BlockingIOError:
            pass
    killed()
print("held", before, settles(before, 0, POOL, 1 << 16))
