# SPDX-License-Identifier: Apache-2.0
"""libsluice through ctypes: lib/sluice.h, one to one.

The interpreter's lock is free during each call, so other threads go on while
one waits for parameters.
"""
from __future__ import annotations

import ctypes
import os
import pathlib
import threading
from ctypes import (CFUNCTYPE, POINTER, Structure, byref, c_bool, c_char, c_char_p,
                    c_double, c_float, c_int, c_int64, c_size_t, c_uint, c_uint32,
                    c_uint64, c_void_p)
from typing import Any, Optional

# enum sl_err, as far as callers tell them apart (common/base/status.h).
OK, EINVAL, ERANGE, ENOENT = 0, 1, 2, 3
ESTATE, EBUSY, ENOMEM = 6, 7, 8
ECANCELED, ETIMEDOUT, EUNAVAIL = 11, 12, 13


class Error(RuntimeError):
    """What libsluice or the cluster says; `code` is a name as "SL_EINVAL"."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number = number
        self.code = lib().sluice_err_name(number).decode()


class sl_error(Structure):
    _fields_ = [("code", c_int), ("text", c_char * 1000)]  # SL_ERROR_TEXT


WAITING = CFUNCTYPE(c_bool, c_void_p)


class Options(Structure):
    _fields_ = [("size", c_size_t), ("coordinator", c_char_p), ("name", c_char_p),
                ("device", c_char_p), ("job", c_uint64), ("tls_ca", c_char_p),
                ("tls_cert", c_char_p), ("tls_key", c_char_p),
                ("io_threads", c_uint), ("no_shm", c_bool), ("listen", c_char_p),
                ("advertise", c_char_p), ("store", c_char_p), ("by_range", c_bool),
                ("waiting", WAITING), ("waiting_arg", c_void_p), ("local", c_bool)]


class Info(Structure):
    _fields_ = [("job", c_char_p), ("number", c_uint64), ("closure", c_uint64),
                ("epoch", c_uint64), ("first", c_uint64), ("count", c_uint64),
                ("steps", c_uint32), ("samples", c_uint64), ("batch", c_uint64),
                ("seed", c_uint64), ("elements", c_uint64), ("variables", c_uint32),
                ("ranks", c_uint32), ("rank", c_uint32), ("generation", c_uint64),
                ("rounds", c_uint64), ("redone", c_uint64), ("next_first", c_uint64),
                ("next_count", c_uint64), ("tables", c_uint32),
                ("batches", c_uint32), ("reset", c_bool)]


class Variable(Structure):
    _fields_ = [("name", c_char_p), ("rank", c_uint32), ("shape", c_uint64 * 8),
                ("first", c_uint64), ("elements", c_uint64)]


class Table(Structure):
    _fields_ = [("name", c_char_p), ("dim", c_uint32)]


class Rows(Structure):
    _fields_ = [("table", c_uint32), ("n", c_size_t), ("ids", c_void_p),
                ("rows", c_void_p)]


class Step(Structure):
    _fields_ = [("none", c_bool), ("number", c_uint32), ("first", c_uint64),
                ("count", c_uint64)]


class Batch(Structure):
    _fields_ = [("none", c_bool), ("index", c_uint32), ("first", c_uint64),
                ("count", c_uint64), ("number", c_uint64)]


class Result(Structure):
    _fields_ = [("loss_sum", c_double), ("right", c_double), ("skip", c_bool)]


_err = POINTER(sl_error)
_SIGNATURES = {
    "sluice_version": (c_char_p, []),
    "sluice_err_name": (c_char_p, [c_int]),
    "sluice_err_text": (c_char_p, [c_int]),
    "sluice_open": (c_int, [POINTER(c_void_p), POINTER(Options), _err]),
    "sluice_attach": (c_int, [c_void_p, c_int64, _err]),
    "sluice_drain": (None, [c_void_p]),
    "sluice_close": (None, [c_void_p]),
    "sluice_take": (c_int, [c_void_p, c_int64, POINTER(c_void_p), _err]),
    "sluice_closure_info": (POINTER(Info), [c_void_p]),
    "sluice_closure_variable": (c_bool, [c_void_p, c_uint32, POINTER(Variable)]),
    "sluice_closure_table": (c_bool, [c_void_p, c_uint32, POINTER(Table)]),
    "sluice_samples": (None, [c_void_p, c_uint64, c_uint64, c_void_p]),
    "sluice_params": (POINTER(c_float), [c_void_p]),
    "sluice_grads": (POINTER(c_float), [c_void_p]),
    "sluice_begin": (c_int, [c_void_p, POINTER(Step), _err]),
    "sluice_ready": (c_int, [c_void_p, c_uint64, c_uint64, _err]),
    "sluice_absent": (c_int, [c_void_p, c_uint32, c_uint32, _err]),
    "sluice_pull": (c_int, [c_void_p, c_uint64, c_uint64, c_void_p, _err]),
    "sluice_push": (c_int, [c_void_p, c_uint64, c_uint64, c_void_p, _err]),
    "sluice_rows_pull": (c_int, [c_void_p, c_uint32, c_size_t, c_void_p, c_void_p,
                                 _err]),
    "sluice_rows_pull_all": (c_int, [c_void_p, POINTER(Rows), c_size_t, _err]),
    "sluice_rows_ahead": (c_int, [c_void_p, POINTER(Rows), c_size_t, _err]),
    "sluice_rows_push": (c_int, [c_void_p, c_uint32, c_size_t, c_void_p, c_void_p,
                                 _err]),
    "sluice_batch": (c_int, [c_void_p, c_uint32, POINTER(Batch), _err]),
    "sluice_change": (c_int, [c_void_p, c_uint64, c_uint64, c_void_p, _err]),
    "sluice_more": (c_int, [c_void_p, POINTER(Result), POINTER(c_bool), _err]),
    "sluice_end": (c_int, [c_void_p, POINTER(Result), _err]),
    "sluice_alive": (None, [c_void_p]),
    "sluice_finish": (None, [c_void_p, c_char_p]),
    "sluice_fail": (None, [c_void_p, c_char_p, c_bool]),
}
_lib: Optional[ctypes.CDLL] = None


def declare(signatures: dict[str, Any]) -> None:
    """More functions of the library; before it is loaded."""
    _SIGNATURES.update(signatures)


def found() -> str:
    """The library: $SLUICE_LIBRARY, beside this file, or where the system looks."""
    said = os.environ.get("SLUICE_LIBRARY")
    beside = pathlib.Path(__file__).parent / "lib" / "libsluice.so.0"
    return said or (str(beside) if beside.exists() else "libsluice.so.0")


def _binding() -> int:
    """How the library is loaded: it looks its own libraries up first. TensorFlow
    brings another gRPC and another OpenSSL into the process, whose symbols everything
    sees that is loaded after it. Not where another malloc has been put before the C
    library's (LD_PRELOAD): memory would then be of one and be freed by the other."""
    def malloc_of(name: Optional[str]) -> Optional[int]:
        return ctypes.cast(ctypes.CDLL(name).malloc, c_void_p).value

    first: int = getattr(os, "RTLD_DEEPBIND", 0)
    try:
        usual = malloc_of(None) == malloc_of("libc.so.6")
    except OSError:  # another C library, which has no such way to load either
        usual = False
    return ctypes.DEFAULT_MODE | (first if usual else 0)


def lib() -> Any:
    """The library, loaded when it is first needed."""
    global _lib
    if _lib is None:
        path = found()
        try:
            loaded = ctypes.CDLL(path, mode=_binding())
        except OSError as error:
            raise ImportError(
                f"sluice: {error}. Install the wheel that the build makes, or "
                "name the library: SLUICE_LIBRARY=.../build/lib/libsluice.so"
            ) from None
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
        _lib = loaded
    return _lib


class _Errors(threading.local):
    """One per thread, since every call of every step wants one."""

    def __init__(self) -> None:
        self.error = sl_error()
        self.at = byref(self.error)


_errors = _Errors()


def call(name: str, *words: Any, fine: tuple[int, ...] = (OK,)) -> int:
    """Calls a function whose last argument is an error; raises what it says."""
    code: int = getattr(_lib or lib(), name)(*words, _errors.at)
    if code not in fine:
        raise Error(code, _errors.error.text.decode(errors="replace"))
    return code
