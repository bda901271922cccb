"""The functions of lib/split.h through ctypes. tests/e2e/script/arrays.py compares the two."""
import ctypes
import os
from ctypes import POINTER, c_char, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

AGAIN, OK, LIMIT = -1, 0, 18
API = 0x000100


class Fail(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("code", c_int), ("status", c_int), ("step", c_uint64),
                ("name", c_char * 16), ("key", c_char * 104), ("text", c_char * 512)]


class Stats(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("step", c_uint64), ("tx_bytes", c_uint64), ("rx_bytes", c_uint64),
                ("links", c_uint64), ("codec_s", c_double), ("server_s", c_double)]


_FAIL, _MIDDLE = POINTER(Fail), c_void_p
FUNCTIONS = {
    "split_api": (c_uint32, []),
    "split_conf_new": (c_void_p, []),
    "split_conf_set": (c_int, [c_void_p, c_char_p, c_char_p, _FAIL]),
    "split_conf_graph": (c_int, [c_void_p, c_char_p, _FAIL]),
    "split_conf_weight": (c_int, [c_void_p, c_char_p, c_void_p, c_size_t, _FAIL]),
    "split_conf_resume": (c_int, [c_void_p, c_char_p, c_size_t, _FAIL]),
    "split_conf_free": (None, [c_void_p]),
    "split_open": (c_int, [POINTER(_MIDDLE), c_void_p, c_int, _FAIL]),
    "split_close": (None, [_MIDDLE, c_int]),
    "split_fd": (c_int, [_MIDDLE]),
    "split_shape": (c_int, [_MIDDLE, c_int, POINTER(c_int), POINTER(c_int64)]),
    "split_fields": (c_int, [_MIDDLE, c_int]),
    "split_shape_of": (c_int, [_MIDDLE, c_int, c_int, POINTER(c_int), POINTER(c_int64)]),
    "split_forward": (c_int, [_MIDDLE, c_int, c_int64, c_void_p, c_void_p, POINTER(c_int), _FAIL]),
    "split_output": (c_int, [_MIDDLE, c_int, c_void_p, c_int, _FAIL]),
    "split_backward": (c_int, [_MIDDLE, c_int, c_void_p, _FAIL]),
    "split_input_grad": (c_int, [_MIDDLE, c_int, c_void_p, c_int, _FAIL]),
    "split_forward_all": (c_int, [_MIDDLE, c_int, c_int64, c_void_p, c_void_p, POINTER(c_int), _FAIL]),
    "split_output_all": (c_int, [_MIDDLE, c_int, c_void_p, c_int, _FAIL]),
    "split_backward_all": (c_int, [_MIDDLE, c_int, c_void_p, _FAIL]),
    "split_input_grad_all": (c_int, [_MIDDLE, c_int, c_void_p, c_int, _FAIL]),
    "split_norm": (c_int, [_MIDDLE, POINTER(c_double), c_int, _FAIL]),
    "split_step": (c_int, [_MIDDLE, c_double, c_double, c_int, _FAIL]),
    "split_drop": (c_int, [_MIDDLE, c_int, _FAIL]),
    "split_weight": (c_int, [_MIDDLE, c_char_p, c_void_p, c_size_t, c_int, _FAIL]),
    "split_keep": (c_int, [_MIDDLE, c_char_p, POINTER(c_size_t), c_int, _FAIL]),
    "split_resume": (c_int, [_MIDDLE, c_char_p, c_size_t, c_int, _FAIL]),
    "split_step_number": (c_uint64, [_MIDDLE]),
    "split_statistics": (c_int, [_MIDDLE, POINTER(Stats)]),
    "split_log": (c_size_t, [c_char_p, c_size_t]),
}


def _load():
    beside = os.path.join(os.path.dirname(__file__), "libsplit.so.0")  # where a wheel has it
    path = os.environ.get("SPLIT_LIBRARY", beside if os.path.exists(beside) else "libsplit.so.0")
    try:
        lib = ctypes.CDLL(path)
    except OSError as e:
        raise ImportError(f"libsplit is not there ({e}): install libsplit0, or name its file in SPLIT_LIBRARY") from None
    for name, (result, arguments) in FUNCTIONS.items():
        f = getattr(lib, name)
        f.restype, f.argtypes = result, arguments
    if lib.split_api() >> 8 != API >> 8:
        raise ImportError(f"{path} has API {lib.split_api():#08x}, and this package is for {API:#08x}")
    return lib


lib = _load()
