"""usage: hostile.py SERVER FAULTY_LINK: a server that lies. Each lie, told once, is mended by another link, with the same bits, or is
an error; told again and again it is an error of the kind that it should be. No step is counted, and a token still leads
back to the true server and the undisturbed bits."""
import concurrent.futures
import subprocess
import sys

import split
from middles import begin, refused, train

server, tool = sys.argv[1:]
STEPS, KEPT = 5, 2  # a token is taken behind the second step, and the lie comes behind it
BROKEN = split.ProtocolError


class Relay:
    def __init__(self, *fault):
        self.fault = fault

    def __enter__(self):
        self.child = subprocess.Popen([tool, server.rsplit(":", 1)[1], *self.fault], stdout=subprocess.PIPE, text=True)
        return f"tcp://127.0.0.1:{self.child.stdout.readline().strip()}"

    def __exit__(self, *_):
        self.child.terminate()
        self.told = '"done":true' in self.child.communicate()[0]


# fault, kind of message, which of them; the error where it is told again and again, and its sentence (None: no harm is
# done), and where it is told once (None: the run goes on, with the same bits)
ACT, GRAD, NEXT = str(3 * KEPT + 1), str(3 * KEPT + 2), str(KEPT + 1)
LIES = [
    ("total", "mid_act", ACT, split.Error, "where at most", split.Error),
    ("rows", "mid_act", ACT, BROKEN, "rows in step 2", None),
    ("chunk", "mid_act", ACT, BROKEN, "chunk", None),
    ("step", "mid_act", ACT, BROKEN, "training step 3", None),
    ("hash", "mid_act", ACT, BROKEN, "corrupt", None),
    ("header", "mid_act", ACT, BROKEN, "", None),
    ("payload", "mid_act", ACT, BROKEN, "corrupt", None),
    ("duplicate", "mid_act", ACT, BROKEN, "chunk", None),
    ("swap", "mid_act", ACT, BROKEN, "chunk", None),
    ("nan", "mid_act", ACT, split.NonfiniteError, "NaN or Inf in mid_act", split.NonfiniteError),
    ("epoch", "mid_act", ACT, split.Error, "", None),
    ("mute", "mid_act", ACT, split.UnavailableError, "has not answered for 3 s", split.UnavailableError),
    ("drop", "mid_act", ACT, split.UnavailableError, "has not answered for 3 s", None),
    ("total", "head_grad", GRAD, split.Error, "where at most", split.Error),
    ("rows", "head_grad", GRAD, BROKEN, "rows in step 2", None),
    ("chunk", "head_grad", GRAD, BROKEN, "chunk", None),
    ("step", "head_grad", GRAD, BROKEN, "training step 3", None),
    ("duplicate", "head_grad", GRAD, BROKEN, "where none is to come", None),
    ("swap", "head_grad", ACT, None, "", None),  # gradients may come in any order
    ("nan", "head_grad", GRAD, split.NonfiniteError, "NaN or Inf in head_grad", split.NonfiniteError),
    ("mute", "head_grad", GRAD, split.UnavailableError, "has not answered for 3 s", split.UnavailableError),
    ("step", "norm", NEXT, BROKEN, "Norm frame of step 3", None),
    ("negative", "norm", NEXT, BROKEN, "Norm frame: squares is -1", None),
    ("nan", "norm", NEXT, BROKEN, "", None),
    ("duplicate", "norm", NEXT, None, "", None),
    ("mute", "norm", NEXT, split.UnavailableError, "has not answered for 3 s", split.UnavailableError),
    # behind COMMIT the step is applied, and another link hears so
    ("step", "committed", NEXT, None, "", None),
    ("nan", "committed", NEXT, None, "", None),
    ("duplicate", "committed", NEXT, None, "", None),
    ("kept", "committed", NEXT, None, "", None),  # what the token needs is asked for again, with the weights
    ("mute", "committed", NEXT, split.UnavailableError, "has not answered for 3 s", split.UnavailableError),
    ("total", "weights", "2", split.Error, "where at most", split.Error),
    ("kept", "weights", "2", BROKEN, "where both sides stand at", None),
    ("hash", "weights", "2", BROKEN, "corrupt", None),
    ("nan", "weights", "2", split.NonfiniteError, "hold NaN or Inf", split.NonfiniteError),
    ("hash", "welcome", "1", split.MismatchError, "plan hash", split.MismatchError),
    ("step", "welcome", "1", BROKEN, "which this client does not hold", None),
    ("duplicate", "welcome", "1", BROKEN, "", None),
    *((kind, "mid_act", ACT, BROKEN, "", None) for kind in ("committed", "norm", "abandon", "welcome", "part")),
    *((kind, "committed", NEXT, None, "", None) for kind in ("part", "committed", "norm", "abandon", "welcome", "fetch")),
    ("part", "welcome", "1", split.Error, "", None),
]


def tell(lie, always):
    """Runs through the lying relay; returns token, step, weights and error. A lie that was never sent fails the test."""
    fault, kind, nth, again, text, once = lie
    wanted, token, m, found = again if always else once, None, None, None
    relay = Relay(fault, "down", kind, nth + "+" * always)
    with relay as liar:
        try:
            m = begin(liar, wait_s=3 if wanted is split.UnavailableError else 0)
            train(m, range(KEPT))
            token = m.keep()
            found = train(m, range(KEPT, STEPS))
        except split.Error as e:
            if wanted is None:
                raise
            assert isinstance(e, wanted) and (text in str(e) or not always), f"{e!r} is not {wanted.__name__}: {text}"
            assert e.code and e.status and str(e)
            if m:
                at = m.step_number - (isinstance(e, split.NonfiniteError) and kind != "weights")  # which counts as done
                assert at == {"welcome": 0, "weights": STEPS}.get(kind, KEPT) or fault == "swap", at
        else:
            assert wanted is None, f"{wanted.__name__} was not raised"
            assert found == expected, "other bits"
        if m:
            m.close()
    assert relay.told, "the lie was not told"
    if token:
        m = begin(server, token)
        assert m.step_number == KEPT and train(m, range(KEPT, STEPS)) == expected, "other bits from the token"
        m.close(goodbye=True)


def told(lie, always):
    try:
        tell(lie, always)
    except BaseException as e:
        return f"{lie[:3]}, {'always' if always else 'once'}: {e!r}"


def check_token():
    """The server claims a state other than the token's."""
    m = begin(server)
    train(m, range(KEPT))
    token = m.keep()
    m.close()
    with Relay("made", "down", "welcome", "1+") as liar:
        refused(split.MismatchError, "is not the one that this side left there", begin, liar, token)


m = begin(server)
expected = train(m, range(STEPS))
m.close(goodbye=True)
check_token()
with concurrent.futures.ThreadPoolExecutor(6) as pool:
    wrong = [e for e in pool.map(told, LIES * 2, [True] * len(LIES) + [False] * len(LIES)) if e]
print(*wrong, sep="\n")
assert not wrong
