# SPDX-License-Identifier: Apache-2.0
"""Tasks: work of your own, as bytes, on workers that have a handler of its name.

    # workers
    sluice.serve({"square": lambda b: str(int(b) ** 2).encode()}, queue="numbers")

    # whoever wants it done
    with sluice.Coordinator(queue="numbers") as coord:
        futures = [coord.schedule("square", str(i).encode()) for i in range(1000)]
        coord.join()
        results = [f.fetch() for f in futures]

Whoever is killed meanwhile, each task ends once, by its first result. Payloads
and results are bytes of at most 1 MiB; code is never sent. docs/tasks.md has the
rest; this is lib/tasks.h.
"""
from __future__ import annotations

import contextlib
import ctypes
import signal
import threading
import time
import traceback
from ctypes import (POINTER, Structure, byref, c_char_p, c_int, c_int64, c_size_t,
                    c_uint32, c_uint64, c_void_p)
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional

from . import _native as native
from .session import SLICE_S, Tls, _bytes, tls_files

__all__ = ["Coordinator", "Future", "TaskCancelled", "TaskFailed", "serve"]

DONE, FAILED, CANCELLED = 3, 4, 5  # enum sluice_task_state
AT_ONCE = 256  # results of one call
SLICE_MS = int(SLICE_S * 1000)


class _Options(Structure):
    _fields_ = [("size", c_size_t), ("coordinator", c_char_p), ("queue", c_char_p),
                ("limit", c_uint32), ("tls_ca", c_char_p), ("tls_cert", c_char_p),
                ("tls_key", c_char_p), ("client", c_char_p)]


class _Ended(Structure):
    _fields_ = [("number", c_uint64), ("state", c_int), ("result", c_void_p),
                ("bytes", c_size_t), ("error", c_char_p), ("losses", c_uint32)]


class _Serving(Structure):
    _fields_ = [("size", c_size_t), ("coordinator", c_char_p), ("queue", c_char_p),
                ("name", c_char_p), ("handlers", POINTER(c_char_p)),
                ("handlers_count", c_size_t), ("tls_ca", c_char_p),
                ("tls_cert", c_char_p), ("tls_key", c_char_p)]


class _Task(Structure):
    _fields_ = [("id", c_uint64), ("attempt", c_uint32), ("name", c_char_p),
                ("body", c_void_p), ("bytes", c_size_t)]


_err = POINTER(native.sl_error)
native.declare({
    "sluice_tasks_open": (c_int, [POINTER(c_void_p), POINTER(_Options), _err]),
    "sluice_tasks_schedule": (c_int, [c_void_p, c_char_p, c_char_p, c_size_t, c_int64,
                                      POINTER(c_uint64), _err]),
    "sluice_tasks_ended": (c_int, [c_void_p, c_int64, POINTER(_Ended), c_size_t,
                                   POINTER(c_size_t), _err]),
    "sluice_tasks_cancel": (c_int, [c_void_p, c_uint64, _err]),
    "sluice_tasks_forget": (c_int, [c_void_p, c_uint64, _err]),
    "sluice_tasks_left": (c_int, [c_void_p, c_int64, POINTER(c_uint64), c_size_t,
                                  POINTER(c_size_t), _err]),
    "sluice_tasks_close": (None, [c_void_p]),
    "sluice_serving_open": (c_int, [POINTER(c_void_p), POINTER(_Serving), _err]),
    "sluice_serving_take": (c_int, [c_void_p, c_int64, POINTER(_Task), _err]),
    "sluice_serving_end": (c_int, [c_void_p, c_uint64, c_char_p, c_size_t, c_char_p, _err]),
    "sluice_serving_drain": (None, [c_void_p]),
    "sluice_serving_close": (None, [c_void_p]),
})


class TaskFailed(Exception):
    """A task has failed: by its handler's exception, whose text this is, or since it
    took down its workers, or since its queue was deleted."""


class TaskCancelled(Exception):
    """The task was cancelled before it ended."""


class Future:
    """A task that was scheduled. `id` counts from 1 in its Coordinator."""

    __slots__ = ("id", "name", "losses", "_of", "_state", "_result")

    def __init__(self, of: "Coordinator", number: int, name: str) -> None:
        self.id, self.name = number, name
        self.losses = 0  # workers that were lost while they did it
        self._of = of
        self._state = 0
        self._result: Any = None

    def done(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self._state != 0

    def fetch(self, timeout: Optional[float] = None) -> bytes:
        """Its result; waits for it, `timeout` seconds at most (TimeoutError).
        Raises TaskFailed or TaskCancelled if that is how it ended."""
        if not self._state:
            self._of._wait(lambda: self._state != 0, timeout,
                           f"task {self.id} ({self.name}) has not ended")
        if self._state == DONE:
            result: bytes = self._result
            return result
        if self._state == CANCELLED:
            raise TaskCancelled(f"task {self.id} ({self.name}) was cancelled")
        raise TaskFailed(f"task {self.id} ({self.name}): {self._result}")

    def cancel(self) -> None:
        """Wishes that it ends: `fetch` says soon how it did. A handler that runs is
        not interrupted; its result does not count."""
        native.call("sluice_tasks_cancel", self._of._handle(), self.id)

    def forget(self) -> None:
        """Of a Coordinator with a `client`: the result is not needed any more, by
        this process or a later one. It has ended."""
        native.call("sluice_tasks_forget", self._of._handle(), self.id)


class Coordinator:
    """A client of one queue. `limit`: how many tasks the queue keeps, and how many of
    this object have not ended before `schedule` waits (10,000 unless said). `tls` is as
    of Session, with a submitter's certificate. From any thread.

    With `client`, a name, another process may go on where this one ends or dies:
    `left` are the tasks that were not forgotten, and `Future.forget` says when a
    result is not needed any more. One process at a time: an older one that still
    lives is refused. Without, a result is this process's alone."""

    def __init__(self, coordinator: Optional[str] = None, *, queue: str = "default",
                 limit: int = 0, tls: Tls = None, client: Optional[str] = None) -> None:
        ca, cert, key = tls_files(tls) or (None, None, None)
        options = _Options(ctypes.sizeof(_Options), _bytes(coordinator), queue.encode(),
                           limit, _bytes(ca), _bytes(cert), _bytes(key), _bytes(client))
        handle = c_void_p()
        self._open: Optional[c_void_p] = None
        native.call("sluice_tasks_open", byref(handle), byref(options))
        self._open = handle
        self._schedule = native.lib().sluice_tasks_schedule
        self._changed = threading.Condition()
        self._futures: Dict[int, Future] = {}
        self._early: Dict[int, Any] = {}  # ends of tasks that schedule still returns
        self._over: Any = None  # how all others end, once this client is refused
        self._failed: Optional[Future] = None  # the first, until join has told
        self._closing = False
        self._reader = threading.Thread(target=self._read, daemon=True,
                                        name="sluice-tasks")
        self._reader.start()

    def __enter__(self) -> "Coordinator":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_open", None) is not None:
            self.close()

    def _handle(self) -> c_void_p:
        if self._open is None:
            raise native.Error(native.ESTATE, "this Coordinator is closed")
        return self._open

    def schedule(self, name: str, payload: bytes) -> Future:
        """Has a worker call its handler `name` with `payload`, which is sent soon, together
        with others. Waits while `limit` tasks of this object have not ended, or 64 MiB of
        payloads are not sent yet, and with `client` until the coordinator has answered
        first; else returns at once."""
        number, error = c_uint64(), native.sl_error()
        handle = self._handle()
        if not isinstance(payload, bytes):
            payload = bytes(memoryview(payload))
        while True:
            code = self._schedule(handle, name.encode(), payload, len(payload), SLICE_MS,
                                  byref(number), byref(error))
            if code == native.OK:
                break
            if code != native.ETIMEDOUT:  # full: handlers of signals had their turn
                raise native.Error(code, error.text.decode(errors="replace"))
        return self._known(number.value, name)

    def left(self, timeout: Optional[float] = None) -> List[Future]:
        """The tasks that earlier processes of this `client` left, by number: they
        have ended or will. Waits for the coordinator, `timeout` seconds at most
        (TimeoutError). Of each task the one future: call it once."""
        until = None if timeout is None else time.monotonic() + timeout
        numbers, count = (c_uint64 * 0)(), c_size_t()
        while True:
            code = native.call("sluice_tasks_left", self._handle(), SLICE_MS, numbers,
                               len(numbers), byref(count),
                               fine=(native.OK, native.ETIMEDOUT))
            if code == native.ETIMEDOUT:
                if until is not None and time.monotonic() > until:
                    raise TimeoutError("no coordinator has said what is left")
            elif count.value > len(numbers):
                numbers = (c_uint64 * count.value)()
            else:
                return [self._known(n, "") for n in sorted(numbers)]

    def _known(self, number: int, name: str) -> Future:
        future = Future(self, number, name)
        with self._changed:
            early = self._early.pop(number, self._over)
            if early is None:
                self._futures[number] = future
            else:
                self._end(future, *early)
        return future

    def join(self, timeout: Optional[float] = None) -> None:
        """Waits until all that was scheduled here has ended, `timeout` seconds at
        most (TimeoutError). Raises TaskFailed for the first that failed since the
        last join."""
        self._wait(lambda: not self._futures, timeout, "not all tasks have ended")
        with self._changed:
            failed, self._failed = self._failed, None
        if failed is not None:
            failed.fetch()

    def close(self) -> None:
        """Sends what was scheduled. Tasks that have not ended go on without us;
        their futures are not heard of any more."""
        if self._open is None:
            return
        self._closing = True
        if threading.current_thread() is not self._reader:
            self._reader.join()
        handle, self._open = self._open, None
        native.lib().sluice_tasks_close(handle)
        with self._changed:
            self._changed.notify_all()

    # ---- ends

    def _wait(self, over: Callable[[], bool], timeout: Optional[float],
              what: str) -> None:
        until = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not over():
                if self._open is None:
                    raise native.Error(native.ESTATE, f"{what}: this Coordinator is closed")
                left = SLICE_S if until is None else min(SLICE_S, until - time.monotonic())
                if left <= 0:
                    raise TimeoutError(what)
                self._changed.wait(left)

    def _end(self, future: Future, state: int, result: Any, losses: int) -> None:
        future._result, future.losses = result, losses
        future._state = state
        if state == FAILED and self._failed is None:
            self._failed = future

    def _refuse(self, why: str) -> None:
        """Ends what the library has not: it had no memory to say that a task failed."""
        with self._changed:
            self._over = (FAILED, why, 0)
            futures, self._futures = self._futures, {}
            for future in futures.values():
                self._end(future, *self._over)
            self._changed.notify_all()

    def _read(self) -> None:
        ended, count, error = (_Ended * AT_ONCE)(), c_size_t(), native.sl_error()
        take = native.lib().sluice_tasks_ended
        while not self._closing:
            code = take(self._open, SLICE_MS, ended, AT_ONCE, byref(count), byref(error))
            if code == native.ETIMEDOUT:
                continue
            if code != native.OK:  # refused for good: nothing will come any more
                self._refuse(error.text.decode(errors="replace"))
                return
            with self._changed:
                for i in range(count.value):
                    e = ended[i]
                    result: Any = None
                    if e.state == DONE:
                        result = ctypes.string_at(e.result, e.bytes)
                    elif e.state == FAILED:
                        result = e.error.decode(errors="replace")
                    future = self._futures.pop(e.number, None)
                    if future is None:
                        self._early[e.number] = (e.state, result, e.losses)
                    else:
                        self._end(future, e.state, result, e.losses)
                self._changed.notify_all()


# ---- workers

class _Signals:
    """While it is entered, the first SIGINT or SIGTERM is only noted; with the
    second they do what they did before."""

    def __init__(self) -> None:
        self.came = False
        self._before: Dict[int, Any] = {}

    def __enter__(self) -> "_Signals":
        if threading.current_thread() is threading.main_thread():
            for which in (signal.SIGINT, signal.SIGTERM):
                self._before[which] = signal.signal(which, self._note)
        return self

    def __exit__(self, *_: Any) -> None:
        for which, handler in self._before.items():
            signal.signal(which, handler)
        self._before = {}

    def _note(self, *_: Any) -> None:
        self.came = True
        self.__exit__()


@contextlib.contextmanager
def _serving(handlers: Mapping[str, Any], coordinator: Optional[str], queue: str,
             name: Optional[str], tls: Tls) -> Iterator[c_void_p]:
    ca, cert, key = tls_files(tls) or (None, None, None)
    names = (c_char_p * len(handlers))(*[n.encode() for n in handlers])
    options = _Serving(ctypes.sizeof(_Serving), _bytes(coordinator), queue.encode(),
                       _bytes(name), names, len(handlers), _bytes(ca), _bytes(cert),
                       _bytes(key))
    handle = c_void_p()
    native.call("sluice_serving_open", byref(handle), byref(options))
    try:
        yield handle
    finally:
        native.lib().sluice_serving_close(handle)


def _text(error: BaseException) -> bytes:
    """Its type and words first, then where it came from: 4,095 bytes are kept."""
    where = "".join(traceback.format_tb(error.__traceback__)[1:])
    return f"{type(error).__name__}: {error}\n{where}".rstrip().encode()


def serve(handlers: Mapping[str, Callable[[bytes], bytes]],
          coordinator: Optional[str] = None, *, queue: str = "",
          name: Optional[str] = None, tls: Tls = None,
          stop: Optional[threading.Event] = None) -> int:
    """Does tasks until Ctrl-C, SIGTERM or `stop`: calls the handler of a task's name
    with its payload, and sends back what it returns. An exception ends the task as
    failed, with its text. One task after the other: for more, start more processes.
    The task under way is finished, what was not begun goes back. Returns how many
    were done. `queue` "": any. `tls`: a worker's certificate."""
    done = 0
    with _Signals() as signals, _serving(handlers, coordinator, queue, name, tls) as handle:
        library = native.lib()
        task, error = _Task(), native.sl_error()
        p_task, p_error = byref(task), byref(error)
        while not signals.came and not (stop is not None and stop.is_set()):
            code = library.sluice_serving_take(handle, SLICE_MS, p_task, p_error)
            if code == native.ETIMEDOUT:
                continue
            if code != native.OK:
                raise native.Error(code, error.text.decode(errors="replace"))
            result, words = b"", None
            try:
                result = handlers[task.name.decode()](
                    ctypes.string_at(task.body, task.bytes))
                if not isinstance(result, bytes):
                    raise TypeError("a handler returns bytes, not "
                                    f"{type(result).__name__}")
            except BaseException as e:
                result, words = b"", _text(e)
                if not isinstance(e, Exception):
                    raise
            finally:
                library.sluice_serving_end(handle, task.id, result, len(result), words,
                                           None)
            done += 1
    return done
