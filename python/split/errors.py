"""Exceptions, one for each status of sysexits.h and for the codes that a script must distinguish."""
import functools
import os
import re
import sys


class Error(Exception):
    """code: of enum split_code; status: of sysexits.h; key: of the config, or "node NAME"; step: the open one; line: FILE:LINE."""

    code = status = 0
    key, step, line = "", 0, ""


class UsageError(Error): pass
class NoAttributeError(UsageError, AttributeError): pass  # what hasattr() takes for "no"
class DataError(Error): pass
class NonfiniteError(DataError): pass
class NoInputError(Error): pass
class UnavailableError(Error): pass
class InternalError(Error): pass
class SystemError(Error): pass
class CannotCreateError(Error): pass
class FileError(Error): pass
class TemporaryError(Error): pass
class ProtocolError(Error): pass
class AuthError(Error): pass
class ConfigError(Error): pass
class MismatchError(ConfigError): pass


class RolledBack(ConfigError):
    """The server is back at an older step than this side: `step`, for which there is a token."""


_BY_STATUS = {64: UsageError, 65: DataError, 66: NoInputError, 69: UnavailableError, 70: InternalError, 71: SystemError,
              73: CannotCreateError, 74: FileError, 75: TemporaryError, 76: ProtocolError, 77: AuthError, 78: ConfigError}
_BY_CODE = {4: NonfiniteError, 21: MismatchError, 100: RolledBack}


FORKED = "a process that was forked cannot use its parent's middle"


def at(e, line):
    """Puts the line of the script that the error e is about, as FILE:LINE, in front of its text, unless it has one already."""
    if line and not e.line:
        e.line, e.args = line, (f"{line}: {e}",)
    return e


def where():
    """FILE:LINE of the script, as far as there is one: the innermost frame outside of this package and PyTorch."""
    packages, frame = [os.path.dirname(sys.modules[m].__file__) + os.sep for m in (__package__, "torch") if m in sys.modules], sys._getframe(1)
    while frame and frame.f_code.co_filename.startswith((*packages, "<")):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""


def lined(call):
    """Decorates what a script calls: its own refusals begin with the script's line, unless they have one of forward."""
    @functools.wraps(call)
    def with_line(*args, **kwargs):
        try:
            return call(*args, **kwargs)
        except (UsageError, ConfigError) as e:
            raise e if isinstance(e, RolledBack) else at(e, where())
    return with_line


def told(text):
    """A warning's text, behind the script's line."""
    line = where()
    return f"{line}: {text}" if line else text


def error_of(code, status, key, step, text):
    found = _BY_CODE.get(code) or _BY_STATUS.get(status) or Error
    e = found(text)
    e.code, e.status, e.key, e.step = code, status, key, step
    return e


def data(text):
    return error_of(0, 65, "", 0, text)


def named(e, path):
    """The error e with the name of the file that it is about in front. What the file's names say is cut short."""
    text = "".join(c if c.isprintable() else "?" for c in re.sub(r"(\S{200})\S+", r"\1…", str(e)))
    e.args = (f"{path}: {text[:2000]}",)
    return e


def usage(text, step=0):
    return error_of(1, 64, "", step, text)


def here(text):
    return at(usage(text), where())


def no_attribute(text):
    e = NoAttributeError(text)
    e.code, e.status = 1, 64
    return e


def config(text):
    return error_of(20, 78, "", 0, text)
