"""The middle of a network, on a server (docs/howto-script.md): split.Middle for arrays, split.RemoteModule for PyTorch. And networks in
files, of modules (split.write_network) and of ONNX files (split.convert_onnx)."""
from .errors import (AuthError, CannotCreateError, ConfigError, DataError, Error, FileError, InternalError, MismatchError,
                     NoInputError, NonfiniteError, ProtocolError, RolledBack, SystemError, TemporaryError, UnavailableError,
                     UsageError)

_PARTS = {"Middle": "middle", "RemoteModule": "remote", "Keys": "remote", "Step": "remote", "Lora": "lora", "Optimizer": "optimizer",
          "clip_grad_norm_": "optimizer", "save": "saving", "load": "saving", "Run": "saving", "write_network": "network",
          "read_network": "network", "convert_onnx": "onnx"}


def __getattr__(name):
    """Imports names that need libsplit, PyTorch or onnx only when they are used."""
    if name not in _PARTS:
        raise AttributeError(f"module 'split' has no attribute {name!r}")
    from importlib import import_module
    return getattr(import_module(f".{_PARTS[name]}", __name__), name)
