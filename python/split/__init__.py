"""The middle of a network, on a server (docs/howto-script.md): split.Middle for arrays, split.RemoteModule for PyTorch."""
from .errors import (AuthError, CannotCreateError, ConfigError, DataError, Error, FileError, InternalError, MismatchError,
                     NoInputError, NonfiniteError, ProtocolError, RolledBack, SystemError, TemporaryError, UnavailableError,
                     UsageError)
from .middle import Middle

_TORCH = {"RemoteModule": "remote", "Keys": "remote", "Step": "remote", "Lora": "lora", "Optimizer": "optimizer",
          "clip_grad_norm_": "optimizer", "save": "saving", "load": "saving", "Run": "saving", "write_network": "network",
          "read_network": "network"}


def __getattr__(name):
    """Imports names that need PyTorch only when they are used."""
    if name not in _TORCH:
        raise AttributeError(f"module 'split' has no attribute {name!r}")
    from importlib import import_module
    return getattr(import_module(f".{_TORCH[name]}", __name__), name)
