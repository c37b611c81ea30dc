# SPDX-License-Identifier: Apache-2.0
"""A Python program as a worker: sessions, closures, steps. NumPy in and out.

    with sluice.Session("10.0.0.1:7070") as session:
        for closure in session.closures():
            for step in closure.steps():
                loss = my_gradient(closure.params, step.samples, out=closure.grads)
                step.done(loss_sum=loss)

Of a model that is larger than memory a session `by_range` pulls and pushes rows:

    with sluice.Session("10.0.0.1:7070", by_range=True) as session:
        for closure in session.closures():
            for step in closure.steps():
                rows = closure.pull("table", 1000, 2000)
                step.push("table", my_gradient(rows, step.samples), 1000)

A job with sparse tables has rows of any ids, which a step pulls and pushes:

            for step in closure.steps():
                rows = closure.rows("users", ids_of(step.samples))
                step.push_rows("users", ids, my_gradient(rows))

In mode local a step has many batches, which the program takes as steps of its own:

    with sluice.Session("10.0.0.1:7070", local=True) as session:
        for closure in session.closures():
            for step in closure.steps():
                mine, loss = closure.params.copy(), 0.0
                for batch in step.batches():
                    loss += my_step(mine, batch.samples, rate(batch.number))
                step.change(mine)
                step.done(loss_sum=loss)

With small closures (train.inner.closure) the program asks for more behind each of them,
and one that is told to leave pushes those that are whole:

                mine, more = closure.params.copy(), True
                while more:
                    loss = sum(my_step(mine, batch.samples, rate(batch.number))
                               for batch in step.batches())
                    step.change(mine)
                    more = step.more(loss_sum=loss)

Any process that does this may be killed at any time, others may come: each step
counts once. Ctrl-C, and `Session.drain` from a handler of SIGTERM, let the step
under way end and hand the rest back. Handlers of signals run while a call waits for
a psserver, too; what they raise ends the wait.
"""
from __future__ import annotations

import ctypes
import dataclasses
import os
import pathlib
import time
from typing import Any, Dict, Generator, Iterator, List, Mapping, Optional, Tuple, Union

import numpy as np
import numpy.typing as npt

from . import _native as native
from ._native import Error

__all__ = ["Closure", "Drained", "Ended", "LocalBatch", "Lost", "Session", "Step",
           "Table", "Variable"]

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.uint64]
Tls = Union[None, str, "os.PathLike[str]", Tuple[str, str, str]]

ARRAYS = 16  # that are kept: two of a job
SLICE_S = 0.2  # handlers of signals run at least so often while we wait


class Ended(Exception):
    """A job has ended; there may be others."""


class Drained(Exception):
    """This session is leaving: nothing more is given to it."""


class Lost(Exception):
    """The closure is not ours any more; nothing is lost by that."""


@dataclasses.dataclass(frozen=True)
class Variable:
    """One of the job's variables; [first, first + elements) of the flat vectors."""

    name: str
    shape: Tuple[int, ...]
    first: int
    elements: int


@dataclasses.dataclass(frozen=True)
class Table:
    """One of the job's sparse tables: a row of `dim` numbers for each id."""

    name: str
    number: int
    dim: int


@dataclasses.dataclass(frozen=True)
class LocalBatch:
    """A batch of a contribution in mode local: a step of the program's own."""

    index: int  # in the contribution
    first: int  # position
    count: int
    number: int  # what a schedule of rates counts; it depends on the closure alone
    samples: npt.NDArray[np.uint64]


def _ids(ids: npt.ArrayLike) -> Ids:
    """Numbers of 64 bits, also those that are said with a sign."""
    given = np.asarray(ids)
    if given.size and given.dtype.kind not in "iu":
        raise TypeError(f"ids: whole numbers are wanted, not {given.dtype}")
    return np.asarray(given, np.uint64, order="C")


def _fits(out: Floats, shape: Tuple[int, ...]) -> None:
    if (out.shape != shape or out.dtype != np.float32
            or not out.flags.c_contiguous or not out.flags.writeable):
        raise ValueError(f"out: {shape} float32 is wanted, contiguous and "
                         f"writeable, not {out.shape} {out.dtype}")


def tls_files(tls: Tls) -> Optional[Tuple[str, str, str]]:
    """(authority, certificate, key): as given, or of a folder and a name, as
    `sluice cert init` writes them: "certs/worker" is certs/ca.crt, certs/worker.crt
    and certs/worker.key."""
    if tls is None:
        return None
    if isinstance(tls, tuple):
        return tls
    path = pathlib.Path(tls)
    return (str(path.parent / "ca.crt"), f"{path}.crt", f"{path}.key")


def _looks(raised: List[BaseException]) -> Generator[bool, None, None]:
    """Resumed while a call of the library waits: handlers of signals run within it, on
    the main thread. It says whether to wait on, and keeps what a handler raises."""
    while True:
        try:
            while True:
                yield not raised
        except GeneratorExit:
            return
        except BaseException as error:  # the caller of the library raises it
            raised.append(error)


def _bytes(text: Optional[str]) -> Optional[bytes]:
    return None if text is None else text.encode()


class Step:
    """A step to compute. Finish it with `done`."""

    __slots__ = ("_closure", "number", "first", "count", "ended", "lost")

    def __init__(self, closure: "Closure", number: int, first: int, count: int) -> None:
        self._closure = closure
        self.number = number  # in the closure
        self.first, self.count = first, count  # positions
        self.ended = self.lost = False

    @property
    def samples(self) -> npt.NDArray[np.uint64]:
        """The numbers of its samples, in the order of the epoch. Shape (count,)."""
        if self._closure.batches:
            return self._closure.order(self.first, self.count)
        return self._closure.samples_of(self.first)

    def batches(self) -> Iterator[LocalBatch]:
        """Mode local: its batches, each a step of the program's own; of one closure.
        Ends early if the closure is lost, or if we are leaving: `change` does nothing
        then, `more` is False, and `done` pushes the closures that `more` was told of
        before, if there are any. The steps behind this one do not come."""
        of, at = self._closure, native.Batch()
        for index in range(of.batches):
            try:
                of._say("sluice_batch", index, ctypes.byref(at))
            except Lost:
                self.lost = True
                return
            if at.none:
                return
            first, count = int(at.first), int(at.count)
            yield LocalBatch(index, first, count, int(at.number), of.samples_of(first))

    def change(self, now: Floats, first: int = 0) -> None:
        """Mode local: writes to `grads` what the batches have changed, where `now` are
        the parameters behind them, or those from element `first` on. `Closure.params`
        are what the contribution began with, and are not to be written to."""
        values = np.ascontiguousarray(now, np.float32)
        if self.lost:
            return
        self._closure._say("sluice_change", first, values.size, values.ctypes.data)

    def more(self, loss_sum: float = float("nan"), right: float = 0.0) -> bool:
        """Mode local: the batches of a closure are computed, `change` was told of all of
        the parameters behind them, and the sums are as those of `done`. True if
        `batches` now has those of another closure, for the same parameters: then
        `Closure.number`, `epoch`, `first`, `count` and `batches` are of that one. False:
        the contribution is whole, and leaves with `done`, or the next turn of `steps`."""
        if self.lost:
            return False
        of, more = self._closure, ctypes.c_bool()
        of._result.loss_sum, of._result.right, of._result.skip = loss_sum, right, False
        of._say("sluice_more", of._result_at, ctypes.byref(more))
        if more.value:
            of._turn()
        return more.value

    def ready(self, first: int, count: int) -> None:
        """Elements [first, first + count) of the gradient are whole, and their
        parameters are not read any more in this step. Each element once a step.
        What makes up a shard leaves while the rest is computed."""
        self._closure._say("sluice_ready", first, count)

    def push(self, name: str, gradient: npt.ArrayLike, start: int = 0) -> None:
        """By range: the gradient of a variable's rows from `start` on is whole, and
        is copied. Each row once a step; those that nobody has pushed have zeros.
        What makes up a shard leaves; waits while too much is on its way."""
        rows = np.ascontiguousarray(gradient, np.float32)
        v, first, count = self._closure._rows(name, start, start + len(rows))
        if rows.shape[1:] != v.shape[1:]:
            raise ValueError(f"a gradient of {rows.shape}: rows of {name} are of "
                             f"{v.shape[1:]}")
        self._closure._say("sluice_push", first, count, rows.ctypes.data)

    def push_rows(self, name: str, ids: npt.ArrayLike, gradient: npt.ArrayLike) -> None:
        """The gradient of rows of a sparse table, of shape (*ids.shape, dim), which is
        copied and leaves with `done`. May be said several times in a step; an id may
        stand there more than once: its gradient is the sum, in the order given."""
        self._closure._push_rows(name, ids, gradient)

    def absent(self, first: int, count: int = 1) -> None:
        """Variables [first, first + count) of `Closure.variables` have no gradient in
        this step: the optimizer leaves them alone, with their slots and their own
        count of updates. Said anew in each step, before any of their elements is
        ready; what the gradient has there is not read. Where several gradients are
        averaged (allreduce, hybrid) it counts as zeros, and a variable that is absent
        in all of them is left alone."""
        self._closure._say("sluice_absent", first, count)

    def done(self, loss_sum: float = float("nan"), right: float = 0.0,
             skip: bool = False) -> None:
        """The gradient (of the mean loss) is whole. `loss_sum`: of each sample's
        loss, NaN if it is not known; `right`: samples that were predicted right; `skip`:
        count the step, apply nothing."""
        of = self._closure
        result = of._result
        result.loss_sum, result.right, result.skip = loss_sum, right, skip
        self.ended = True
        if not self.lost:
            of._say("sluice_end", of._result_at)


class Closure:
    """Some steps that were leased to us. Reported when `steps` is at its end, or
    handed back by `let_go` (which the session does if a program leaves it).

    In allreduce mode it is one step, this rank's share of a round; `ranks` is how
    many there are (else 0), `rank` which of them this is, `generation` and `rounds`
    say which ring and how often the parameters were updated, `redone` how many steps
    were computed for nothing, `ahead` the (first, count) that comes next, if known.
    A step whose round is not applied comes again, here or elsewhere. In hybrid mode
    it is one batch of a step that a group computes; `ranks` and `rank` are of the
    group, and rank 0 leads it. In mode local it is one step of `batches` batches
    (else 0), of `batch` samples each, which the program takes by itself, and with
    `Step.more` of further closures; `reset`: its optimizer begins each contribution
    without a past.

    `params` and `grads` are the flat vectors; by range there are none, and `pull`
    and `Step.push` take their place."""

    def __init__(self, session: "Session", handle: ctypes.c_void_p) -> None:
        self._session = session
        self._open: Optional[ctypes.c_void_p] = handle
        self._info = info = native.lib().sluice_closure_info(handle).contents
        self.job = info.job.decode()
        self.job_number = int(info.number)
        self._turn()
        self.step_count = int(info.steps)
        self.samples = int(info.samples)  # of an epoch
        self.batch, self.seed = int(info.batch), int(info.seed)
        self.elements = int(info.elements)
        self._variables, self._table_count = int(info.variables), int(info.tables)
        self.ranks, self.rank = int(info.ranks), int(info.rank)
        self.generation, self.rounds = int(info.generation), int(info.rounds)
        self.redone = int(info.redone)
        self.reset = bool(info.reset)
        self.ahead = (int(info.next_first), int(info.next_count))
        # What every step is told in and tells.
        self._step, self._result = native.Step(), native.Result()
        self._step_at = ctypes.byref(self._step)
        self._result_at = ctypes.byref(self._result)
        if not session.by_range:
            self.params = self._vector("sluice_params")
            self.grads = self._vector("sluice_grads")
        self._named: Optional[Dict[str, Variable]] = None
        self._tables: Optional[Dict[str, Table]] = None

    def _turn(self) -> None:
        """Takes what is said of the closure that is computed."""
        info = self._info
        self.number, self.epoch = int(info.closure), int(info.epoch)
        self.first, self.count = int(info.first), int(info.count)
        self.batches = int(info.batches)
        self._samples: Optional[npt.NDArray[np.uint64]] = None

    def _handle(self) -> ctypes.c_void_p:
        if self._open is None:
            raise Error(native.ESTATE, "the closure is finished")
        return self._open

    def _vector(self, name: str) -> Floats:
        at = getattr(native.lib(), name)(self._handle())
        return self._session._array(at, self.elements)

    def _say(self, name: str, *words: object) -> int:
        try:
            return native.call(name, self._handle(), *words)
        except Error as error:
            if self._session._raised:  # by a handler of a signal, while it waited
                raise self._session._raised.pop() from None
            if error.number == native.ECANCELED:
                raise Lost(str(error)) from None
            raise

    def order(self, first: int, count: int) -> npt.NDArray[np.uint64]:
        """The samples at positions [first, first + count) of the epoch's order.
        Shape (count,)."""
        out = np.empty(count, np.uint64)
        native.lib().sluice_samples(self._handle(), first, count, out.ctypes.data)
        return out

    def positions(self, step: int) -> Tuple[int, int]:
        """(first, count) of a step of this closure, counted or not."""
        first = self.first + step * self.batch
        return first, min(self.batch, self.first + self.count - first)

    def samples_of(self, first: int) -> npt.NDArray[np.uint64]:
        """The numbers of the samples of the step whose first position this is, counted
        or not, in the order of the epoch."""
        if self.ranks:  # one step alone is ours
            return self.order(first, self._step.count)
        if self._samples is None:  # of all steps at once
            self._samples = self.order(self.first, self.count)
        at = first - self.first
        return self._samples[at:at + self.batch]

    @property
    def variables(self) -> list[Variable]:
        out, v = [], native.Variable()
        for i in range(self._variables):
            native.lib().sluice_closure_variable(self._handle(), i, ctypes.byref(v))
            out.append(Variable(v.name.decode(), tuple(v.shape[:v.rank]),
                                int(v.first), int(v.elements)))
        return out

    def views(self, vector: Floats) -> dict[str, Floats]:
        """Each variable's part of `params` or `grads`, in its shape, uncopied."""
        return {v.name: vector[v.first:v.first + v.elements].reshape(v.shape)
                for v in self.variables}

    def _rows(self, name: str, start: int, stop: Optional[int]
              ) -> Tuple[Variable, int, int]:
        """(variable, first element, how many) of some of its rows."""
        if self._named is None:
            self._named = {v.name: v for v in self.variables}
        v = self._named.get(name)
        if v is None:
            raise KeyError(f"job {self.job} has no variable {name!r}")
        rows = v.shape[0]
        stop = rows if stop is None else stop
        if not 0 <= start <= stop <= rows:
            raise IndexError(f"rows {start} to {stop} of {name}, which has {rows}")
        each = v.elements // rows
        return v, v.first + start * each, (stop - start) * each

    def pull(self, name: str, start: int = 0, stop: Optional[int] = None,
             out: Optional[Floats] = None) -> Floats:
        """By range: a variable's rows [start, stop) as they are now, within a step;
        into `out`, if it is given. Waits while a psserver is away. Raises Lost."""
        v, first, count = self._rows(name, start, stop)
        shape = (count // (v.elements // v.shape[0]), *v.shape[1:])
        if out is None:
            out = np.empty(shape, np.float32)
        _fits(out, shape)
        self._say("sluice_pull", first, count, out.ctypes.data)
        return out

    @property
    def tables(self) -> Dict[str, Table]:
        """The job's sparse tables, by their names."""
        if self._tables is None:
            self._tables, t = {}, native.Table()
            for i in range(self._table_count):
                native.lib().sluice_closure_table(self._handle(), i, ctypes.byref(t))
                name = t.name.decode()
                self._tables[name] = Table(name, i, int(t.dim))
        return self._tables

    def _table(self, name: str) -> Table:
        table = self.tables.get(name)
        if table is None:
            raise KeyError(f"job {self.job} has no table {name!r}")
        return table

    def rows(self, name: str, ids: npt.ArrayLike, out: Optional[Floats] = None
             ) -> Floats:
        """Rows of a sparse table as they are now, within a step: shape (*ids.shape,
        dim); into `out`, if it is given. Ids in any order, also twice; each is asked
        for once, in parts if a shard's rows are more than 64 MiB. One that has no row
        yet reads as the table's initializer says. Waits while a psserver is away.
        Raises Lost."""
        table, wanted = self._table(name), _ids(ids)
        shape = (*wanted.shape, table.dim)
        if out is None:
            out = np.empty(shape, np.float32)
        _fits(out, shape)
        self._say("sluice_rows_pull", table.number, wanted.size, wanted.ctypes.data,
                  out.ctypes.data)
        return out

    def all_rows(self, ids: Mapping[str, npt.ArrayLike]) -> Dict[str, Floats]:
        """The same of several tables, which a step waits for once: for {name: ids}
        {name: rows}."""
        wanted = {name: _ids(numbers) for name, numbers in ids.items()}
        out = {name: np.empty((*numbers.shape, self._table(name).dim), np.float32)
               for name, numbers in wanted.items()}
        pulled = [native.Rows(self._table(name).number, numbers.size, numbers.ctypes.data,
                              out[name].ctypes.data) for name, numbers in wanted.items()]
        self._say("sluice_rows_pull_all", (native.Rows * len(pulled))(*pulled), len(pulled))
        return out

    def rows_ahead(self, ids: Mapping[str, npt.ArrayLike]) -> None:
        """Says which rows of tables the closure's next step will read, {name: ids}, when
        this one has read its own: they come meanwhile, and that step's `rows` or
        `all_rows` with the same ids takes them. So where two steps in a row have an id,
        the second reads its row without the update of the first."""
        wanted = [(self._table(name).number, _ids(numbers)) for name, numbers in ids.items()]
        of = [native.Rows(number, numbers.size, numbers.ctypes.data, None)
              for number, numbers in wanted]
        self._say("sluice_rows_ahead", (native.Rows * len(of))(*of), len(of))

    def _push_rows(self, name: str, ids: npt.ArrayLike, gradient: npt.ArrayLike
                   ) -> None:
        table, given = self._table(name), _ids(ids)
        rows = np.ascontiguousarray(gradient, np.float32)
        if rows.shape != (*given.shape, table.dim):
            raise ValueError(f"a gradient of {rows.shape}: {given.shape} ids of {name} "
                             f"have one of {(*given.shape, table.dim)}")
        self._say("sluice_rows_push", table.number, given.size, given.ctypes.data,
                  rows.ctypes.data)

    def begin(self) -> Optional[Step]:
        """The next step that is missing, with fresh parameters in `params`; None
        when all is counted. Raises Lost."""
        self._say("sluice_begin", self._step_at)
        told = self._step
        if self.batches:  # `Step.more` had gone on to another
            self._turn()
        return None if told.none else Step(self, told.number, told.first, told.count)

    def steps(self) -> Iterator[Step]:
        """All steps that are missing, then the report. A closure that was lost
        ends early: take the next one."""
        try:
            while (step := self.begin()) is not None:
                yield step
                if not step.ended:
                    step.done(skip=False)
        except Lost:
            pass
        self.finish()

    def alive(self) -> None:
        """Says that a long step gets on (train.stall_seconds). `begin` and the calls that
        read or write parameters, gradients or rows in a step say so, too; `order`,
        `samples`, `variables`, `tables` and `views` do not."""
        native.lib().sluice_alive(self._handle())

    def finish(self) -> None:
        """Reports it: as done if `begin` said None, as lost if a call raised Lost, as
        failed if an error has ended the attempt; else it is handed back."""
        self.let_go(None)

    def let_go(self, why: Optional[str]) -> None:
        if self._open is not None:
            self._end("sluice_finish", _bytes(why))

    def fail(self, why: str, job_error: bool = False) -> None:
        """The attempt failed; with `job_error` the job is wrong, this worker says:
        it fails once all workers that are there say so."""
        self._handle()
        self._end("sluice_fail", _bytes(why), job_error)

    def _end(self, name: str, *words: object) -> None:
        """Frees it. Ctrl-C may be raised as soon as that call returns: whoever catches
        it finds a closure that is finished, and does not free it again."""
        end = getattr(native.lib(), name)
        handle, self._open = self._open, None
        end(handle, *words)
        self._session._closure = None


class Session:
    """A worker of a cluster, one closure at a time. One thread at a time uses it,
    but `drain`, which any may call. For more threads open more sessions.

    coordinator  "host:port" or "unix:/path"; None: $SLUICE_COORDINATOR, else
                 the socket of your own `sluice up`, else 127.0.0.1:7070
    name         of this worker, unique in the cluster: a later session of the name
                 takes its place. None: host and pid, and from the process's second
                 session without a name on a number
    job          number of the only job to work for; 0: any external one
    tls          "certs/worker" or (ca, cert, key)
    wait         seconds to wait for the coordinator; None: as long as it takes
    listen, advertise   of jobs in allreduce and hybrid mode: where other ranks
                 reach this one ("127.0.0.1:0"), and the address that they dial if it
                 is another one
    by_range     of models that are larger than memory, in mode async: no vectors are
                 kept, `Closure.pull` and `Step.push` have rows of variables
    local        the program takes the steps of mode local by itself (Step.batches);
                 without it no job of that mode is given
    store        in allreduce mode a folder for this rank's parts of checkpoints,
                 which all may share: without one such a job does not end
    """

    def __init__(self, coordinator: Optional[str] = None, *,
                 name: Optional[str] = None, device: Optional[str] = None,
                 job: int = 0, tls: Tls = None, io_threads: int = 0,
                 shm: bool = True, wait: Optional[float] = None,
                 listen: Optional[str] = None, advertise: Optional[str] = None,
                 store: Optional[str] = None, by_range: bool = False,
                 local: bool = False) -> None:
        self.by_range = by_range
        files = tls_files(tls) or (None, None, None)
        self._raised: List[BaseException] = []
        looks = _looks(self._raised)
        next(looks)
        self._looks = native.WAITING(looks.send)  # as long as the session is there
        options = native.Options(
            ctypes.sizeof(native.Options), _bytes(coordinator), _bytes(name),
            _bytes(device or "python"), job, *(_bytes(f) for f in files),
            io_threads, not shm, _bytes(listen), _bytes(advertise), _bytes(store),
            by_range, self._looks, None, local)
        self._arrays: Dict[Tuple[int, int], Floats] = {}
        self._session = ctypes.c_void_p()
        self._closure: Optional[Closure] = None
        native.call("sluice_open", ctypes.byref(self._session), ctypes.byref(options))
        try:
            self._wait("sluice_attach", wait)
        except BaseException:
            self.close()
            raise

    def _array(self, at: Any, elements: int) -> Floats:
        """A vector of the session's, which stay where they are: the same array."""
        key = (ctypes.addressof(at.contents), elements)
        if key not in self._arrays:
            if len(self._arrays) >= ARRAYS:
                self._arrays.clear()
            self._arrays[key] = np.ctypeslib.as_array(at, shape=(elements,))
        return self._arrays[key]

    def _wait(self, name: str, wait: Optional[float], *words: object) -> None:
        end = None if wait is None else time.monotonic() + wait
        while True:
            left = SLICE_S if end is None else max(0.0, end - time.monotonic())
            try:
                native.call(name, self._session, int(1e3 * min(left, SLICE_S)), *words)
                return
            except Error as error:
                if error.number != native.ETIMEDOUT:
                    raise
                if end is not None and time.monotonic() >= end:
                    raise TimeoutError(str(error)) from None

    def take(self, wait: Optional[float] = None) -> Closure:
        """The next closure, within `wait` seconds (None: whenever one comes).
        Raises TimeoutError, Ended, Drained; Error for what is wrong with a job."""
        handle = ctypes.c_void_p()
        try:
            self._wait("sluice_take", wait, ctypes.byref(handle))
        except Error as error:
            if error.number == native.ENOENT:
                raise Ended(str(error)) from None
            if error.number == native.ECANCELED:
                raise Drained(str(error)) from None
            raise
        self._closure = Closure(self, handle)
        return self._closure

    def closures(self) -> Iterator[Closure]:
        """One closure after another, until a job has ended or we are leaving."""
        while True:
            try:
                closure = self.take()
            except (Ended, Drained):
                return
            yield closure
            closure.let_go("the program let go of it")

    def drain(self) -> None:
        """Nothing new; the step under way ends. From any thread."""
        if self._session:
            native.lib().sluice_drain(self._session)

    def close(self) -> None:
        """Hands back what is held, and leaves. Again does nothing."""
        if not self._session:
            return
        if self._closure is not None:
            self._closure.let_go("the program is leaving")
        close, none = native.lib().sluice_close, ctypes.c_void_p()
        session, self._session = self._session, none  # as in Closure._end
        close(session)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_session", None):
            self.close()
