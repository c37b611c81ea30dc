# SPDX-License-Identifier: Apache-2.0
"""What training programs of every framework share: the job that they submit or
join, the steps that they are given, and what the whole job has learnt.

A framework adds how its parameters and gradients come into the session's vectors
(`_attach`, `_fresh`), and what computes a step.
"""
from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import signal
import tempfile
import threading
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Type, TypeVar

import numpy as np

from . import client
from ._data import Batch, Collate, Reader, Rows, halves, length, reader_of, stacked
from .session import Closure, Drained, Ended, Floats, Lost, Session, Step, Tls

__all__ = ["Json", "Program", "Shape"]

Json = Dict[str, Any]
Shape = Tuple[int, ...]
Self = TypeVar("Self", bound="Program")

ENDED = ("finished", "failed", "stopped")
ASK_S = 5.0  # how long nothing is given before the job is asked for


def _own_folder(what: str) -> str:
    """One of this user's in the folder for what need not last."""
    return os.path.join(tempfile.gettempdir(), f"sluice-{what}-{os.getuid()}")


class Program:
    """One of the programs that train a job together.

    job          name; programs that say the same name train together
    coordinator  address; None: $SLUICE_COORDINATOR
    variables    (name, shape) of each, in order: f32; a scalar is of shape (1,)
    optimizer    as a job has it
    tls          a worker's certificate, "certs/worker"; `submit_tls` of who submits,
                 if that is another one
    name         of this worker in reports; unique in the cluster
    init         "model": the first program's values, through a file in `share` that
                 psservers (allreduce: programs) can read, on one host or shared; or
                 an initializer's name, as "glorot_uniform"
    train        more of the job's `train`, e.g. {"max_delay": 16}
    mode         "async": each gradient goes to the psservers as it comes; "hybrid":
                 programs form groups, a group averages a batch of each, and its
                 leader sends that to the psservers; "allreduce": no psserver, each
                 program keeps the parameters, and a round averages a batch of each.
                 Programs that die are left out, others may join
    ranks        allreduce, hybrid: a round, or a step of a group, is so many batches,
                 whoever is there to compute them, and so many programs at most are
                 in the ring, or in each group; None: as many as come at the
                 beginning, or 4
    store        allreduce: a folder for checkpoints, by default one in /tmp. Across
                 hosts one that all see under the same path
    listen, advertise   allreduce, hybrid: as of Session; across hosts
                 listen="10.0.0.2:0"
    wait         seconds to wait for the coordinator; None: as long as it takes
    workers      processes that read data ahead; 0: the program reads itself
    """

    collate: Collate = staticmethod(stacked)
    rows: Type[Rows] = Rows
    device = "python"
    _start = "fork"  # of processes that read

    def __init__(self, job: str, coordinator: Optional[str],
                 variables: Sequence[Tuple[str, Shape]], optimizer: Json, *,
                 tls: Tls = None, submit_tls: Tls = None, name: Optional[str] = None,
                 init: str = "model", share: Optional[str] = None,
                 train: Optional[Json] = None, wait: Optional[float] = None,
                 workers: int = 0, mode: str = "async", ranks: Optional[int] = None,
                 store: Optional[str] = None, listen: Optional[str] = None,
                 advertise: Optional[str] = None) -> None:
        self.job, self.coordinator = job, coordinator
        self.variables = [(n, tuple(shape) or (1,)) for n, shape in variables]
        self.tls, self.submit_tls = tls, submit_tls or tls
        self.name, self.wait, self.workers = name, wait, workers
        self._init, self._share = init, share
        self._train, self._optimizer = dict(train or {}), optimizer
        self._place = self._ring(mode, ranks, store, listen, advertise)
        self.id: Optional[str] = None  # of the job
        self._file: Optional[str] = None  # of first values, if it is ours
        self.metrics: Json = {"steps": 0, "samples": 0, "loss": float("nan")}
        self._session: Optional[Session] = None
        self._closure: Optional[Closure] = None  # whose steps are given out
        self._step: Optional[Step] = None
        self._taken = self._leaving = False
        self._where: Tuple[int, int] = (0, 0)  # addresses of the vectors
        self._ranges: Dict[str, Tuple[int, int]] = {}
        self._old_handlers: Dict[int, Any] = {}

    # ---- of a framework

    def _values(self) -> Dict[str, Any]:
        """What the model has now, as NumPy arrays."""
        raise NotImplementedError

    def _attach(self, closure: Closure) -> None:
        """The vectors are new: `_ranges` says where the variables lie, which is one
        behind another, as in `variables`."""

    def _fresh(self) -> None:
        """Parameters of the vector into the model, before each batch."""

    def _left(self) -> None:
        """The gradient has left: what nobody waits for is done now."""

    def _given(self, x: Any) -> Any:
        """What was read, as the program is given it."""
        return x

    def _let_go(self) -> None:
        """The vectors go away."""
        self._where = (0, 0)

    # ---- the job

    def _ring(self, mode: str, ranks: Optional[int], store: Optional[str],
              listen: Optional[str], advertise: Optional[str]) -> Json:
        """What the session is told; and the mode into the job."""
        if mode not in ("async", "allreduce", "hybrid"):
            raise ValueError(f"mode {mode!r}: programs train in 'async', 'hybrid' or "
                             "'allreduce'; sync is for jobs of layers")
        said = {"store": store, "listen": listen, "advertise": advertise}
        words: Json = {k: v for k, v in said.items() if v is not None}
        if mode == "async":
            if words or ranks is not None:
                raise ValueError(f"{sorted(words) or ['ranks']}: of mode 'allreduce' "
                                 "or 'hybrid'")
            return words
        self._train["mode"] = mode
        if mode == "hybrid":
            if store is not None:
                raise ValueError("store: of mode 'allreduce'; in hybrid the psservers "
                                 "write checkpoints")
            if ranks is not None:
                group = self._train.get("group", {})
                self._train["group"] = {"size": ranks, **group}
            return words
        if ranks is not None:
            self._train.setdefault("workers", {"min": 1, "max": ranks})
        return {"store": _own_folder("store"), **words}

    def spec(self, samples: int, batch_size: int, epochs: int) -> Json:
        """The job that the first program submits."""
        initializer = "zeros" if self._init == "model" else self._init
        train = {"batch": batch_size, "epochs": epochs, "steps_per_closure": 16,
                 **self._train}
        return {"name": self.job,
                "model": {"type": "external", "variables": [
                    {"name": n, "shape": list(shape), "initializer": initializer}
                    for n, shape in self.variables]},
                "optimizer": self._optimizer,
                "data": {"train": {"format": "external", "samples": samples}},
                "train": train}

    def _join(self, spec: Json) -> str:
        """The id of the job of our name that has not ended; else of a new one. Of
        those who look at the same moment one submits."""
        there, ended = self._listed()
        if there is not None:
            return there
        words = json.dumps([self.job, ended])
        request = hashlib.sha256(words.encode()).hexdigest()[:32]
        try:
            return client.submit(spec, self.coordinator, tls=self.submit_tls,
                                 request_id=request, weights=self._weights())
        except client.CommandError:  # with other first values than somebody else
            there, _ = self._listed()
            if there is None:
                raise
            return there

    def _listed(self) -> Tuple[Optional[str], int]:
        """The job of our name that has not ended, and how many have."""
        listed = [j for j in client.jobs(self.coordinator, tls=self.submit_tls)
                  if j["name"] == self.job]
        return (next((str(j["id"]) for j in listed if j["state"] not in ENDED), None),
                len(listed))

    def _weights(self) -> Optional[str]:
        """A file of the model's values, this program's alone."""
        if self._init != "model":
            return None
        folder = self._share or _own_folder("weights")
        os.makedirs(folder, exist_ok=True)
        self._file = os.path.join(os.path.abspath(folder),
                                  f"{self.job}-{secrets.token_hex(8)}.safetensors")
        values = self._values()
        client.save_safetensors(self._file, {
            n: np.asarray(values[n], np.float32).reshape(shape)
            for n, shape in self.variables})
        return self._file

    # ---- life

    def __enter__(self: Self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._old_handlers = {
                signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: self.drain())}
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        self._old_handlers = {}

    def drain(self) -> None:
        """The step under way ends, `batches` ends, the rest goes to others."""
        self._leaving = True
        if self._session is not None:
            self._session.drain()

    def close(self) -> None:
        """Leaves the cluster. The model keeps the parameters that it saw last."""
        self._let_go()
        if self._session is not None:
            self._session.close()
            self._session = None

    # ---- the vectors

    def _look(self, closure: Closure) -> None:
        """Is the job's model ours? Then `_attach`, if the vectors are new."""
        self._closure = closure
        where = (closure.params.ctypes.data, closure.grads.ctypes.data)
        if where == self._where:
            return
        self._let_go()
        theirs = [(v.name, v.shape) for v in closure.variables]
        if self.variables != theirs:
            differ = (sorted(set(self.variables) ^ set(theirs))
                      or "the order of the variables")
            closure.fail(f"the program's model is another than the job's: {differ[:4]}")
            raise ValueError(f"job {self.job} has another model; differing: {differ}")
        self._ranges = {v.name: (v.first, v.elements) for v in closure.variables}
        self._attach(closure)
        self._where = where

    def _part(self, vector: Any, n: str) -> Any:
        first, elements = self._ranges[n]
        return vector[first:first + elements]

    # ---- training

    def batches(self, data: Any, batch_size: int, epochs: int = 1) -> Iterator[Batch]:
        """The batches that the cluster gives to this program, until the job has
        ended or we are leaving. Each is to be finished by one `step`.

        data: by sample number: a data set with `len` and `[number]`, or a tree of
        arrays with one row per sample, as (x, y). The order is the cluster's: each
        sample once an epoch. ValueError for what cannot be indexed, RuntimeError if
        the job has failed."""
        samples = length(data)
        reader = Reader(data, type(self).collate, self.rows, self.workers, self._start)
        try:
            self.id = self._join(self.spec(samples, batch_size, epochs))
            number = int(client.status(self.id, self.coordinator,
                                       tls=self.submit_tls)["job"])
            self._session = Session(self.coordinator, name=self.name, job=number,
                                    device=self.device, tls=self.tls, wait=self.wait,
                                    **self._place)
            for closure in self._closures(self._session):
                self._look(closure)
                yield from self._steps(closure, reader)
            if self.ended() and self._file is not None:
                with contextlib.suppress(OSError):  # nobody reads it any more
                    os.unlink(self._file)
        finally:
            reader.close()

    def _closures(self, session: Session) -> Iterator[Closure]:
        """Those of the job, until it has ended or we are leaving. A session is told
        of the end of a job that it has trained; of one that ended before it was
        given anything it has to ask."""
        while True:
            try:
                closure = session.take(wait=ASK_S)
            except TimeoutError:
                with contextlib.suppress(client.CommandError):  # it may be away
                    if self.ended():
                        return
                continue
            except (Drained, Ended):
                return
            yield closure
            closure.let_go("the program let go of it")

    def _steps(self, closure: Closure, reader: Reader) -> Iterator[Batch]:
        """The batches of its steps. The next one is read while the gradient of the
        last and fresh parameters travel."""
        there: Optional[Batch] = None
        try:
            while (step := closure.begin()) is not None:
                if there is None or there.step != step.number:
                    there = self._read(closure, reader, step.number, step.first)
                self._fresh()
                self._step, self._taken = step, False
                yield there
                self._step = there = None
                if not self._taken:
                    raise RuntimeError("a batch was passed over: call step for each")
                if not step.ended:
                    step.done()
                self._left()
                if not closure.ranks and step.number + 1 < closure.step_count:
                    there = self._read(closure, reader, step.number + 1,
                                       step.first + closure.batch)
        except Lost:  # the next one is somebody's who has it
            pass
        finally:
            self._step = None
            if not closure.ranks:
                reader.forget()
        closure.finish()

    def _read(self, closure: Closure, reader: Reader, number: int,
              first: int) -> Batch:
        """The batch of a step, which need not have begun."""
        self._read_ahead(closure, reader, number, first)
        samples = closure.samples_of(first)
        x, y = halves(reader.get((closure.epoch, first), samples))
        return Batch(self._given(x), self._given(y), samples, closure.epoch, number,
                     closure.number)

    @staticmethod
    def _read_ahead(closure: Closure, reader: Reader, number: int, first: int) -> None:
        """This step and those behind it, as far as they are known to be ours."""
        if closure.ranks:
            reader.forget(((closure.epoch, first), (closure.epoch, closure.ahead[0])))
            if closure.ahead[1] and reader.ahead > 1:
                reader.ask((closure.epoch, closure.ahead[0]),
                           lambda: closure.order(*closure.ahead))
            return
        for later in range(number, min(number + reader.ahead, closure.step_count)):
            at, _ = closure.positions(later)
            reader.ask((closure.epoch, at), lambda: closure.samples_of(at))

    def _begun(self) -> Step:
        """The step of the batch that was given out last."""
        if self._step is None:
            raise RuntimeError("step is called for a batch of `batches`, once")
        self._taken = True
        return self._step

    def _done(self, loss: float, right: float = 0.0, skip: bool = False) -> None:
        """The gradient is whole; `loss`: the batch's mean."""
        step, self._step = self._begun(), None
        try:
            step.done(loss * step.count, right, skip)
        except Lost:  # the next batch is another closure's
            return
        said = self.metrics
        said["steps"] += 1
        said["samples"] += step.count
        said["loss"] = loss

    # ---- results

    def _id(self) -> str:
        if self.id is None:
            raise RuntimeError("batches has not begun: there is no job yet")
        return self.id

    def status(self) -> Json:
        """Of the whole job, as `sluice status` says it."""
        return client.status(self._id(), self.coordinator, tls=self.submit_tls)

    def ended(self) -> bool:
        """Whether the job has ended: False if it is we who left. RuntimeError, with
        the reason, if it failed."""
        if self._leaving:
            return False
        said = self.status()
        if said["state"] == "failed":
            raise RuntimeError(f"job {self.id} ({self.job}) has failed: "
                               f"{said.get('reason', '')}")
        return said["state"] in ENDED

    def learnt(self) -> Dict[str, Floats]:
        """The parameters of the job's newest checkpoint, by name: after the end
        those of the whole job, not what this program saw last."""
        return client.export(self._id(), self.coordinator, tls=self.submit_tls)

    def save(self, path: str) -> None:
        """The same as a safetensors file."""
        client.export(self._id(), self.coordinator, tls=self.submit_tls, to=path)

    def stop(self) -> None:
        """Ends the job, after a checkpoint, for all of its programs. Nothing if it
        has ended."""
        try:
            client.stop(self._id(), self.coordinator, tls=self.submit_tls)
        except client.CommandError:
            if not self.ended():
                raise

    @classmethod
    def read(cls, data: Any, first: int, end: int) -> Tuple[Any, Any]:
        """Samples [first, end) of `data`, collated as in `batches`."""
        return halves(reader_of(data, cls.collate, cls.rows)(np.arange(first, end)))


def chunks(data: Any, batch_size: int) -> List[Tuple[int, int]]:
    """[first, end) of each batch of a whole data set, in order."""
    n = length(data)
    return [(first, min(first + batch_size, n)) for first in range(0, n, batch_size)]
