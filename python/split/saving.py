"""A script's own checkpoint: its modules and optimizers, the middle's token, and the random numbers' state."""
import contextlib
import os
import random

import numpy
import torch


def random_states():
    kind, keys, *rest = numpy.random.get_state()
    return {"torch": torch.get_rng_state(), "numpy": (kind, keys.tolist(), *rest), "python": random.getstate()}  # for weights_only


def restore_random(states):
    torch.set_rng_state(states["torch"])
    numpy.random.set_state(states["numpy"])
    random.setstate(states["python"])


@contextlib.contextmanager
def replaced(path):
    """A file that others cannot read, and that is at `path` whole or not at all."""
    beside = f"{path}.{os.getpid()}.tmp"
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # before a token is made: the server keeps only two states
    try:
        with os.fdopen(fd, "wb") as f:
            yield f
            f.flush()
            os.fsync(f.fileno())
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


class Run(dict):
    """The contents of a file of save()."""

    def restore(self, **parts):
        """Loads the state of each part, and the random states. Returns the step after which the file was saved."""
        for name, part in parts.items():
            part.load_state_dict(self["parts"][name])
        restore_random(self["random"])
        return self["step"]


def save(path, *, middle, step, **parts):
    """Writes the file whole or not at all. `parts` have a state_dict()."""
    with replaced(path) as f:
        torch.save({"middle": middle.checkpoint(), "step": step, "parts": {k: p.state_dict() for k, p in parts.items()},
                    "random": random_states()}, f)


def load(path):
    """Returns a Run; None: there is no such file."""
    if not os.path.exists(path):
        return None
    return Run(torch.load(path, weights_only=False))  # the script's own file, which has more than tensors
