# SPDX-License-Identifier: Apache-2.0
"""What training programs of every framework share: the job that they submit or
join, the steps that they are given, and what the whole job has learnt.

A framework adds how its parameters and gradients come into the session's vectors
(`_attach`, `_fresh`), and what computes a step.
"""
from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import secrets
import signal
import sys
import tempfile
import threading
import time
import warnings
from typing import (Any, Callable, Dict, Generator, Iterator, List, Optional, Sequence,
                    Tuple, Type, TypedDict, TypeVar)

import numpy as np

from . import client
from ._data import (Batch, Collate, Reader, Rows, Source, halves, length, reader_of,
                    source_of, stacked)
from .session import (Closure, Drained, Ended, Floats, LocalBatch, Lost, Session, Step,
                      Tls)

__all__ = ["Batches", "Cluster", "Json", "Program", "Shape"]

Json = Dict[str, Any]
Shape = Tuple[int, ...]
Self = TypeVar("Self", bound="Program")

Answer = TypeVar("Answer")

ASK_S = 5.0  # how long nothing is given before the job is asked for
LOOK_S = 10.0  # so often a job that goes on is asked for its warnings
AGAIN_S = 0.2  # before a coordinator that is away is asked again
QUIT_S = 1.0  # for an answer, when we are leaving
WORD_S = 1.75  # to leave, and for what is said of the job, of a program that failed
DIFFERING = 6  # that a message names
# Parts of a spec that a program speaks for, whether it says them or not.
COMPARED = ("model", "optimizer", "data", "train")


class Cluster(TypedDict, total=False):
    """The keywords of every Trainer and of `fit`: see Program."""

    tls: Tls
    submit_tls: Tls
    name: Optional[str]
    init: str
    share: Optional[str]
    train: Optional[Json]
    wait: Optional[float]
    workers: int
    mode: str
    ranks: Optional[int]
    every: Optional[int]
    moments: Optional[str]
    store: Optional[str]
    listen: Optional[str]
    advertise: Optional[str]
    new: bool


def differences(ours: Any, theirs: Any, said: Any, path: str = ""
                ) -> List[Tuple[str, Any, Any]]:
    """(path, ours, theirs) of each value in which two specs with all defaults differ.
    A field that `theirs` does not know counts if `said`, the spec without defaults,
    has it."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        found: List[Tuple[str, Any, Any]] = []
        said = said if isinstance(said, dict) else {}
        for key in [*ours, *(k for k in theirs if k not in ours)]:
            if key in theirs or key in said:
                found += differences(ours.get(key), theirs.get(key), said.get(key),
                                     f"{path}.{key}" if path else str(key))
        return found
    return [] if ours == theirs else [(path, ours, theirs)]


def _shown(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _own_folder(what: str) -> str:
    """One of this user's in the folder for what need not last."""
    return os.path.join(tempfile.gettempdir(), f"sluice-{what}-{os.getuid()}")


class Batches(Iterator[Batch]):
    """Those of a job that this program is given. `len` counts the steps of the whole
    job: with several programs each is given its share of them."""

    def __init__(self, steps: Generator[Batch, None, None], count: int) -> None:
        self._steps, self._count = steps, count

    def __len__(self) -> int:
        return self._count

    def __next__(self) -> Batch:
        return next(self._steps)

    def close(self) -> None:
        """Gives back what is under way: no more of them are asked for."""
        self._steps.close()


def _table_of(table: Json) -> Json:
    """A table as a job has it: without `rows`, and with the short words in full."""
    short = ("rows", "init")
    made = {k: v for k, v in table.items() if k not in short}
    init = table.get("init")
    if isinstance(made.get("optimizer"), str):
        made["optimizer"] = {"type": made["optimizer"]}
    if init is None:
        return made
    if "initializer" in made or not (isinstance(init, str) or 0 <= init < np.inf):
        raise ValueError(f"table {table['name']}: init: wants a number of at least 0 or an "
                         f"initializer, and no `initializer` beside it, got {init!r}")
    if not isinstance(init, str):
        init = f"random_uniform({-init:.9g}, {init:.9g})" if init > 0 else "zeros"
    return {**made, "initializer": init}


def _rows_of(table: Json) -> Tuple[Any, Floats]:
    """What a table is to begin with: ids as uint64, and values."""
    ids, values = (np.asarray(part) for part in table["rows"])
    wrong = None
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        wrong = f"ids of shape {ids.shape} are {ids.dtype}; whole numbers in one row are wanted"
    elif values.shape != (len(ids), table["dim"]):
        wrong = f"values are of shape {values.shape}, not {(len(ids), table['dim'])}"
    elif not np.isfinite(values).all():
        wrong = "a value is not finite"
    elif len(np.unique(ids)) < len(ids):
        wrong = "an id stands twice"
    if wrong:
        raise ValueError(f"table {table['name']}: rows: {wrong}")
    return ids.astype(np.uint64), values.astype(np.float32)


def _going_on(listed: List[Json]) -> Optional[str]:
    """The newest that has not ended."""
    return next((str(j["id"]) for j in listed if j["state"] not in client.ENDED), None)


class Program:
    """One of the programs that train a job together.

    job          name; programs that say the same name train together
    coordinator  address; None: $SLUICE_COORDINATOR, else
                 the socket of your own `sluice up`, else 127.0.0.1:7070
    variables    (name, shape) of each, in order: f32; a scalar is of shape (1,)
    optimizer    as a job has it; None in mode local
    tables       sparse tables of the job, as it has them (docs/tables.md) or with words
                 of `sluice.torch.Embedding`: mode async or
                 allreduce, which has psservers for the rows then; with `rows`, (ids,
                 values) of shapes (n,) and (n, dim), those that a table of a new job
                 begins with, by the way of `init`
    moving       mode local: those of `variables` that are moving statistics: they
                 become the mean of what programs have
    tls          a worker's certificate, "certs/worker"; `submit_tls` of who submits,
                 if that is another one
    name         of this worker in reports; unique in the cluster
    init         "model": the first program's values, through a file in `share` that
                 psservers (allreduce: programs) can read, on one host or shared; or
                 an initializer's name, as "glorot_uniform"
    train        more of the job's `train`, e.g. {"max_delay": 16}
    mode         "async": each gradient goes to the psservers as it comes; "hybrid":
                 programs form groups, a group averages a batch of each, and its
                 leader sends that to the psservers; "allreduce": no psserver (but for
                 rows of tables), each program keeps the parameters, and a round
                 averages a batch of each. Programs that die are left out, others may
                 join; "local": each program takes `every` steps with an optimizer of
                 its own, then psservers take the mean of what `ranks` programs have
                 changed
    ranks        allreduce, hybrid: a round, or a step of a group, is so many batches,
                 whoever is there to compute them, and so many programs at most are
                 in the ring, or in each group; None: as many as come at the
                 beginning, or 4. local: contributions of a round, by default 2
    every        local: steps of a contribution, by default 100
    moments      local: "reset" (default): the optimizer begins each contribution
                 without a past, so what comes out does not depend on which program
                 computes; "keep": it goes on from this program's last one
    store        allreduce: a folder for checkpoints, by default one in /tmp. Across
                 hosts one that all see under the same path
    listen, advertise   allreduce, hybrid: as of Session; across hosts
                 listen="10.0.0.2:0"
    wait         seconds to wait for the coordinator; None: as long as it takes
    workers      processes that read data ahead; 0: the program reads itself
    new          submit a job of our own though one of this name goes on. Without it
                 the program joins that one, if it has the same samples, batch,
                 epochs, optimizer, model and `train`

    `id` is the job's, `first` whether we submitted it (of programs that train one job
    one alone did, so that one writes files), `warnings` what the job was warned of so
    far, each of which was a Python warning, once.
    """

    collate: Collate = staticmethod(stacked)
    rows: Type[Rows] = Rows
    device = "python"
    _start = "fork"  # of processes that read

    def __init__(self, job: str, coordinator: Optional[str],
                 variables: Sequence[Tuple[str, Shape]], optimizer: Optional[Json],
                 tables: Sequence[Json] = (), moving: Sequence[str] = (), *, tls: Tls = None,
                 submit_tls: Tls = None, name: Optional[str] = None,
                 init: str = "model", share: Optional[str] = None,
                 train: Optional[Json] = None, wait: Optional[float] = None,
                 workers: int = 0, mode: str = "async", ranks: Optional[int] = None,
                 every: Optional[int] = None, moments: Optional[str] = None,
                 store: Optional[str] = None, listen: Optional[str] = None,
                 advertise: Optional[str] = None, new: bool = False) -> None:
        if mode == "local":
            if optimizer is not None:
                raise ValueError("optimizer: in mode 'local' the program's own takes the "
                                 "steps: leave it out. That of psservers is "
                                 'train={"outer": {...}}')
        elif not isinstance(optimizer, dict) or not isinstance(optimizer.get("type"), str):
            raise ValueError(
                f"optimizer: {_shown(repr(optimizer))} is none that psservers know: "
                'say a dict as a job has it, {"type": "adam", "learning_rate": 0.001}')
        if tables and mode in ("hybrid", "local"):
            raise ValueError(f"table {tables[0]['name']}: programs have tables in mode "
                             f"async or allreduce, not in {mode}")
        if not variables:
            raise ValueError("the model has no parameter that is trained: a Trainer wants "
                             "one" + ("; a program with tables alone takes sluice.Session"
                                      if tables else ""))
        self.job, self.coordinator = job, coordinator
        self.tables = [_table_of(t) for t in tables]
        self._first_rows = {t["name"]: _rows_of(t) for t in tables
                            if t.get("rows") is not None}
        self.variables = [(n, tuple(shape) or (1,)) for n, shape in variables]
        self.tls, self.submit_tls = tls, submit_tls or tls
        self.name, self.wait, self.workers = name, wait, workers
        self._init, self._share = init, share
        self._train, self._optimizer = dict(train or {}), optimizer
        self._moving = frozenset(moving)
        self._local(mode, every, moments)
        self._place = self._ring(mode, ranks, store, listen, advertise)
        self._new = new
        self.id: Optional[str] = None  # of the job
        self.first = False
        self.warnings: List[str] = []
        self._unsaid: List[str] = []  # of these: not a Python warning yet
        self._told = False  # what becomes of the job without us
        self._best: Optional[Tuple[float, Dict[str, Floats]]] = None  # of `better`
        self._waited = 0  # values since
        self._files: List[str] = []  # of first values, that are ours
        self.metrics: Json = {"steps": 0, "samples": 0, "loss": float("nan")}
        self._session: Optional[Session] = None
        self._closure: Optional[Closure] = None  # whose steps are given out
        self._step: Optional[Step] = None
        self._batch: Optional[LocalBatch] = None  # mode local: of its batches
        self._sums = (0.0, 0.0)  # mode local: losses and right ones of those before
        self._whole = (0, 0, 0.0)  # mode local: steps, samples and loss of whole closures
        self._more = False  # mode local: further closures are of the contribution
        self._spoilt = False  # mode local: the optimizer has seen what is not finite
        self._taken = self._leaving = False
        self._left_s = 0.0  # when that was
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

    def _at(self, batch: Batch, reset: bool) -> None:
        """Mode local: the program's optimizer is to step for this batch, without a past
        if `reset`."""

    def _left(self) -> None:
        """The gradient has left: what nobody waits for is done now."""

    def _rows_of(self, epoch: int, samples: Any) -> Any:
        """Where in the data the samples with these numbers of an epoch are."""
        return samples

    def _held(self, data: Any) -> Any:
        """A data set, as samples are read of it."""
        return data

    def _given(self, x: Any) -> Any:
        """What was read, as the program is given it."""
        return x

    def _let_go(self) -> None:
        """The vectors go away."""
        self._where = (0, 0)

    # ---- the job

    def _local(self, mode: str, every: Optional[int], moments: Optional[str]) -> None:
        """What mode local alone has, into the job."""
        said = {k: v for k, v in (("steps", every), ("moments", moments))
                if v is not None}
        if mode != "local":
            if said:
                raise ValueError(f"{'every' if every is not None else 'moments'}: of mode "
                                 "'local'")
            return
        self._train["inner"] = {**self._train.get("inner", {}), **said}
        self._train.setdefault("steps_per_closure", 1)

    def _ring(self, mode: str, ranks: Optional[int], store: Optional[str],
              listen: Optional[str], advertise: Optional[str]) -> Json:
        """What the session is told; and the mode into the job."""
        if mode not in ("async", "allreduce", "hybrid", "local"):
            raise ValueError(f"mode {mode!r}: programs train in 'async', 'hybrid', 'local' "
                             "or 'allreduce'; sync is for jobs of layers")
        said = {"store": store, "listen": listen, "advertise": advertise}
        words: Json = {k: v for k, v in said.items() if v is not None}
        if mode == "async":
            if words or ranks is not None:
                raise ValueError(f"{sorted(words) or ['ranks']}: of mode 'allreduce' "
                                 "or 'hybrid'")
            return words
        self._train["mode"] = mode
        if mode == "local":
            if words:
                raise ValueError(f"{sorted(words)}: of mode 'allreduce' or 'hybrid'")
            if ranks is not None:
                self._train.setdefault("contributions", ranks)
            return {"local": True}
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
        if self.tables:
            self._train.setdefault("steps_per_closure", 1)
            if not ("contributions" in self._train
                    or self._train.get("workers", {}).get("max")):
                raise ValueError(f"table {self.tables[0]['name']}: say ranks, the batches "
                                 "of a round: psservers hold their rows until it is whole")
        return {"store": _own_folder("store"), **words}

    def spec(self, samples: int, batch_size: int, epochs: int) -> Json:
        """The job that the first program submits."""
        initializer = "zeros" if self._init == "model" else self._init
        train = {"batch": batch_size, "epochs": epochs, "steps_per_closure": 16,
                 **self._train}
        model: Json = {"type": "external", "variables": [
            {"name": n, "shape": list(shape), "initializer": initializer,
             **({"moving": True} if n in self._moving else {})}
            for n, shape in self.variables]}
        if self.tables:
            model["tables"] = self.tables
        said = {"name": self.job, "model": model,
                "data": {"train": {"format": "external", "samples": samples}},
                "train": train}
        return said if self._optimizer is None else {**said, "optimizer": self._optimizer}

    def _join(self, spec: Json) -> str:
        """The id of the job of our name that has not ended, which is as `spec` has it;
        else of a new one. Of those who look at the same moment one submits."""
        listed = self._listed()
        there = None if self._new else _going_on(listed)
        if there is not None:
            self._check_same(spec, there)
            return there
        # Programs that look at the same moment know of the same jobs, and so make
        # the same request.
        request = ([secrets.token_hex(8)] if self._new else
                   [self.job, *(str(j["id"]) for j in listed)])
        return self._submit(spec, request)

    def _submit(self, spec: Json, request: List[str]) -> str:
        weights, table_weights = self._weights(), self._table_weights()
        for again in range(100):
            words = json.dumps([*request, again])
            try:
                job, existed = self._ask(
                    client.submit_once, spec, weights=weights,
                    table_weights=table_weights, request_id=hashlib.sha256(words.encode()).hexdigest()[:32])
                there = self._ask(client.status, job)
            except client.CommandError as error:
                if error.code == client.NOT_FOUND:  # the request's job was deleted
                    continue
                # With other first values, or another spec, than somebody else.
                there_now = _going_on(self._listed())
                if there_now is None:
                    raise
                self._check_same(spec, there_now)
                return there_now
            # It is also ours if an answer was lost and we have asked again.
            self.first = not existed or there.get("weights") == weights
            return job
        raise RuntimeError(f"job {self.job}: it is deleted as soon as it is submitted")

    def _check_same(self, spec: Json, job: str) -> None:
        """ValueError if the job is not what `spec` asks for."""
        theirs, ours = self._ask(client.status, job)["spec"], client.validate(spec)
        found = differences(
            {k: ours[k] for k in ours if k in COMPARED or k in spec},
            {k: theirs[k] for k in theirs if k in COMPARED or k in spec}, spec)
        if not found:
            return
        model = [p for p, _, _ in found if p.startswith("model.")]
        said = "; ".join(f"{path} is {_shown(a)} here and {_shown(b)} in the job"
                         for path, a, b in found[:DIFFERING] if path not in model)
        if model:
            said = "; ".join(filter(None, (
                f"job {self.job} has another model; differing: "
                f"{self._model_differs(ours, theirs)}", said)))
        raise ValueError(
            f"job {job} ({self.job}) goes on and is not what this program asks for: "
            f"{said}{' ...' if len(found) > DIFFERING else ''}. Say new=True to submit "
            f"a job of your own, or another name, or end that one: sluice stop {job}")

    @staticmethod
    def _model_differs(ours: Json, theirs: Json) -> Any:
        """Variables that one of the two has."""
        mine, its = ([json.dumps([v["name"], v["shape"], v["initializer"]])
                      for v in spec["model"].get("variables", [])]
                     for spec in (ours, theirs))
        return sorted(set(mine) ^ set(its))[:4] or "the order of the variables"

    def _listed(self) -> List[Json]:
        """The jobs of our name, the newest first."""
        return [j for j in self._ask(client.jobs, name=self.job)
                if j["name"] == self.job]

    def _ask(self, verb: Callable[..., Answer], *words: Any, **more: Any) -> Answer:
        """A verb of the client's. A coordinator that is away is waited for, as long
        as `wait` says: TimeoutError. If we are leaving it is not, and an answer that
        does not come only for a moment."""
        began = time.monotonic()
        end = None if self.wait is None else began + self.wait
        told = False

        def quits() -> bool:
            return self._leaving and time.monotonic() > max(began, self._left_s) + QUIT_S

        while True:
            try:
                return verb(*words, self.coordinator, tls=self.submit_tls, quits=quits,
                            **more)
            except client.CommandError as error:
                if self._leaving or error.code != client.UNAVAILABLE:
                    raise
                if end is not None and time.monotonic() >= end:
                    raise TimeoutError(f"{error} (wait={self.wait:g})") from None
                if not told:
                    why = str(error).partition("sluice: ")[2].partition(". ")[0]
                    self._say(f"waiting: {why or error}")
                told = True
            time.sleep(AGAIN_S)

    def _say(self, text: str) -> None:
        """A line for people."""
        print(f"sluice: job {self.job}: {text}", file=sys.stderr, flush=True)

    def _weights(self) -> Optional[str]:
        """A file of the model's values, this program's alone."""
        if self._init != "model":
            return None
        values = self._values()
        return self._save({n: np.asarray(values[n], np.float32).reshape(shape)
                           for n, shape in self.variables})

    def _table_weights(self) -> Dict[str, str]:
        """Such files of the tables that begin with rows."""
        return {name: self._save({"ids": ids, "values": values})
                for name, (ids, values) in self._first_rows.items()}

    def _save(self, tensors: Dict[str, Any]) -> str:
        folder = self._share or _own_folder("weights")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(os.path.abspath(folder),
                            f"{self.job}-{secrets.token_hex(8)}.safetensors")
        self._files.append(path)
        client.save_safetensors(path, tensors)
        return path

    # ---- life

    def __enter__(self: Self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._old_handlers = {
                signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: self.drain())}
        return self

    def __exit__(self, kind: object, error: Optional[BaseException], *_: object) -> None:
        until = time.monotonic() + WORD_S
        self.close()
        if error is not None and not self._leaving:
            self._last_word(until)
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        self._old_handlers = {}

    def drain(self) -> None:
        """The step under way ends, `batches` ends, the rest goes to others."""
        if not self._leaving:
            self._left_s, self._leaving = time.monotonic(), True
        if self._session is not None:
            self._session.drain()

    def _last_word(self, until: float) -> None:
        """The program has failed. Nobody waits for ever for a job that nobody has
        trained: who submitted it ends it. Of any other it is said that it goes on."""
        if self.id is None or self._told:
            return
        self._told = True

        def ask(verb: Callable[..., Answer], **more: Any) -> Answer:
            return verb(self.id, self.coordinator, tls=self.submit_tls,
                        quits=lambda: time.monotonic() > until, **more)

        with contextlib.suppress(client.CommandError, OSError):
            there = ask(client.status)
            if there["state"] in client.ENDED:
                return
            if (self.first and not self.metrics["steps"] and not there["workers"]
                    and not int(there["steps_counted"])):
                ask(client.stop, now=True)
                self._say(f"{self.id} is stopped: this program submitted it and failed "
                          "before its first step")
                return
        self._say(f"{self.id} goes on without this program: start it again to train "
                  f"on, or end the job: sluice stop {self.id}")

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

    def batches(self, data: Any, batch_size: Optional[int] = None, epochs: int = 1
                ) -> "Batches":
        """The batches that the cluster gives to this program, until the job has
        ended or we are leaving. Each is to be finished by one `step`. Its `len` is
        the steps of the whole job, of all programs.

        data: by sample number: a data set with `len` and `[number]`, or a tree of
        arrays with one row per sample, as (x, y), or a torch DataLoader, which is
        taken apart (`batch_size` is its own then). The order is the cluster's: each
        sample once an epoch. ValueError for what cannot be indexed, and if the job of
        this name goes on and is another; RuntimeError if the job has failed."""
        source = source_of(data)
        samples = length(source.data)
        if samples == 0:
            raise ValueError("the data set is empty")
        if batch_size is None:
            batch_size = source.batch_size
        if batch_size is None:
            raise ValueError("batch_size: say how many samples a step has")
        if source.batch_size not in (None, batch_size):
            raise ValueError(f"batch_size is {batch_size} and the DataLoader's is "
                             f"{source.batch_size}: say one of them")
        return Batches(self._train_on(source, samples, batch_size, epochs),
                       epochs * -(-samples // batch_size))

    def _train_on(self, source: Source, samples: int, batch_size: int, epochs: int
                  ) -> Generator[Batch, None, None]:
        data, collate = self._held(source.data), source.collate or type(self).collate
        # Its own error, before there is a job.
        first = self._rows_of(0, np.arange(1, dtype=np.uint64))
        reader_of(data, collate, self.rows)(first.view(np.int64))
        reader = Reader(data, collate, self.rows, self.workers or source.workers,
                        self._start)
        try:
            self.id = self._join(self.spec(samples, batch_size, epochs))
            number = int(self._ask(client.status, self.id)["job"])
            self._session = Session(self.coordinator, name=self.name, job=number,
                                    device=self.device, tls=self.tls, wait=self.wait,
                                    **self._place)
            for closure in self._closures(self._session):
                self._look(closure)
                yield from self._steps(closure, reader)
            if self.ended():
                self._forget_weights()
        except client.CommandError:
            if not self._leaving:
                raise
        finally:
            reader.close()

    def _forget_weights(self) -> None:
        """The files of first values, which nobody reads any more."""
        while self._files:
            with contextlib.suppress(OSError):
                os.unlink(self._files.pop())

    def _closures(self, session: Session) -> Iterator[Closure]:
        """Those of the job, until it has ended or we are leaving. A session is told
        of the end of a job that it has trained; of one that ended before it was
        given anything it has to ask."""
        looked = time.monotonic()
        while True:
            try:
                closure = session.take(wait=ASK_S)
            except TimeoutError:
                if self._look_at_job():
                    return
                continue
            except (Drained, Ended):
                return
            if time.monotonic() - looked > LOOK_S:
                looked = time.monotonic()
                threading.Thread(target=self._look_at_job, daemon=True).start()
            yield closure
            self._warn()
            closure.let_go("the program let go of it")

    def _look_at_job(self) -> bool:
        """Whether it has ended; False also if nobody answers."""
        try:
            there = client.status(self._id(), self.coordinator, tls=self.submit_tls,
                                  quits=lambda: self._leaving)
        except (client.CommandError, OSError):
            return False
        self._hear(there)
        return there["state"] in client.ENDED

    def _hear(self, there: Json) -> None:
        """Keeps what the job is warned of: `_warn` says it on the program's thread."""
        for warning in there.get("warnings", []):
            if warning not in self.warnings:
                self.warnings.append(warning)
                self._unsaid.append(warning)

    def _warn(self) -> None:
        while self._unsaid:
            warnings.warn(f"job {self.id} ({self.job}): {self._unsaid.pop(0)}",
                          stacklevel=2)

    def _steps(self, closure: Closure, reader: Reader) -> Iterator[Batch]:
        """The batches of its steps. The next one is read while the gradient of the
        last and fresh parameters travel."""
        there: Optional[Batch] = None
        try:
            while (step := closure.begin()) is not None:
                if closure.batches:
                    yield from self._contribution(closure, reader, step)
                    continue
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

    def _contribution(self, closure: Closure, reader: Reader, step: Step
                      ) -> Iterator[Batch]:
        """The batches of mode local. What they have changed leaves with the last one,
        or with one that is not finite; if we are to leave in the midst of a closure
        behind others, what these have changed."""
        self._fresh()
        self._sums, self._whole, self._more = (0.0, 0.0), (0, 0, 0.0), True
        reset = closure.reset or self._spoilt
        while self._more:
            self._more = False
            for part in step.batches():
                there = dataclasses.replace(
                    self._read(closure, reader, part.index, part.first), number=part.number)
                self._at(there, reset)
                reset = self._spoilt = False
                self._step, self._batch, self._taken = step, part, False
                yield there
                self._step = self._batch = None
                if not self._taken:
                    raise RuntimeError("a batch was passed over: call step for each")
                if step.ended:
                    return
        if not step.lost:
            step.done()
            self._note(*self._whole)

    def _read(self, closure: Closure, reader: Reader, number: int,
              first: int) -> Batch:
        """The batch of a step, which need not have begun."""
        self._read_ahead(closure, reader, number, first)
        samples = self._rows_of(closure.epoch, closure.samples_of(first))
        try:
            x, y = halves(reader.get((closure.epoch, first), samples))
        except Exception as error:
            self._unread(closure, error)
            raise
        return Batch(self._given(x), self._given(y), samples, closure.epoch, number,
                     closure.number)

    def _unread(self, closure: Closure, error: Exception) -> None:
        """The data set has failed. In the first epoch, when its samples were never
        read, the attempt fails: others try, and after several the job has failed. If
        there are no others it fails now, instead of waiting for ever."""
        if closure.epoch > 0:
            return
        others = True
        with contextlib.suppress(client.CommandError, OSError, KeyError):
            others = int(client.status(self._id(), self.coordinator,
                                       tls=self.submit_tls)["workers"]) > 1
        closure.fail(f"the program's data: {type(error).__name__}: {error}"[:500],
                     job_error=not others)
        self._told = True

    def _read_ahead(self, closure: Closure, reader: Reader, number: int,
                    first: int) -> None:
        """This step and those behind it, as far as they are known to be ours."""
        if closure.ranks:
            reader.forget(((closure.epoch, first), (closure.epoch, closure.ahead[0])))
            if closure.ahead[1] and reader.ahead > 1:
                reader.ask((closure.epoch, closure.ahead[0]),
                           lambda: self._rows_of(closure.epoch,
                                                 closure.order(*closure.ahead)))
            return
        count = closure.batches or closure.step_count
        for later in range(number, min(number + reader.ahead, count)):
            at, _ = closure.positions(later)
            reader.ask((closure.epoch, at), lambda: self._rows_of(
                closure.epoch, closure.samples_of(at)))

    def _begun(self) -> Step:
        """The step of the batch that was given out last."""
        if self._step is None:
            raise RuntimeError("step is called for a batch of `batches`, once")
        self._taken = True
        return self._step

    def _absent(self, numbers: Sequence[int]) -> None:
        """These of `variables`, ascending, have no gradient in this step: what is one
        behind another is said at once."""
        at = 0
        while at < len(numbers):
            end = at + 1
            while end < len(numbers) and numbers[end] == numbers[end - 1] + 1:
                end += 1
            with contextlib.suppress(Lost):  # the next batch is another closure's
                self._begun().absent(numbers[at], end - at)
            at = end

    def _pull_rows(self, name: str, ids: Any) -> Any:
        return self._pull_tables({name: ids})[name]

    def _pull_tables(self, ids: Dict[str, Any]) -> Dict[str, Any]:
        """The rows of tables; zeros if the closure is lost, whose step then counts for
        nothing."""
        if self._step is None or self._closure is None:
            raise RuntimeError(f"table {next(iter(ids))}: rows are there between a batch and "
                               "its step alone: evaluate there, before the job has ended")
        try:
            return dict(self._closure.all_rows(ids))
        except Lost:
            dims = {name: self._closure.tables[name].dim for name in ids}
            return {name: np.zeros((*numbers.shape, dims[name]), np.float32)
                    for name, numbers in ids.items()}

    def _push_table(self, name: str, ids: Any, gradient: Any) -> None:
        """The gradient of rows, which leaves with the step."""
        with contextlib.suppress(Lost):  # the next batch is another closure's
            self._begun().push_rows(name, ids, gradient)

    def _done(self, loss: float, right: float = 0.0, skip: bool = False) -> None:
        """The gradient is whole; `loss`: the batch's mean."""
        step, self._step = self._begun(), None
        try:
            step.done(loss * step.count, right, skip)
        except Lost:  # the next batch is another closure's
            return
        self._note(1, step.count, loss)

    def _note(self, steps: int, samples: int, loss: float) -> None:
        said = self.metrics
        said["steps"] += steps
        said["samples"] += samples
        said["loss"] = loss

    def stepped(self, loss: float, right: float = 0.0) -> None:
        """Mode local, for a program that takes the step of the batch by itself, instead
        of `step`: the parameters of the model are those behind it. `loss`: the batch's
        mean, `right`: how many samples were predicted right."""
        step, part, closure = self._begun(), self._batch, self._closure_now()
        if part is None:
            raise RuntimeError("stepped is of mode 'local': elsewhere psservers step")
        self._step, loss = None, float(loss)
        sums = self._sums = (self._sums[0] + loss * part.count, self._sums[1] + right)
        whole = part.first + part.count == closure.first + closure.count
        if np.isfinite(loss) and not whole:
            return
        self._whole = (self._whole[0] + part.index + 1, self._whole[1] + closure.count, loss)
        try:
            self._spoilt = not (np.isfinite(loss) and self._tell_change(step))
            if self._spoilt:  # counted, and not applied
                closure.grads.fill(np.nan)
            elif step.more(*sums):
                self._sums, self._more = (0.0, 0.0), True
                return
            step.done(*sums)
        except Lost:  # the next batch is another closure's
            return
        self._note(*self._whole)

    def _tell_change(self, step: Step) -> bool:
        """What the model has now is what the contribution has made of it. False if any
        of it is not finite."""
        values = self._values()
        for n, _ in self.variables:
            now = np.ravel(values[n])
            if not np.isfinite(now).all():
                return False
            step.change(now, self._ranges[n][0])
        return True

    def _closure_now(self) -> Closure:
        assert self._closure is not None
        return self._closure

    def _warn_of_rows(self, what: str) -> None:
        if self.tables:
            name, more = self.tables[0]["name"], len(self.tables) - 1
            warnings.warn(
                f"{what} has the parameters alone, and no rows of table {name}"
                f"{f' and of {more} others' if more else ''}: "
                f"sluice.export({self.id!r}, {self.coordinator!r}, table={name!r}) gives "
                "them",
                RuntimeWarning, stacklevel=3)

    # ---- results

    def _id(self) -> str:
        if self.id is None:
            raise RuntimeError("batches has not begun: there is no job yet")
        return self.id

    def status(self) -> Json:
        """Of the whole job, as `sluice status` says it. A coordinator that is away is
        waited for, here and below, as long as `wait` says."""
        there = self._ask(client.status, self._id())
        self._hear(there)
        self._warn()
        return there

    def ended(self) -> bool:
        """Whether the job has ended: False if it is we who left. RuntimeError, with
        the reason, if it failed."""
        if self._leaving:
            return False
        said = self.status()
        if said["state"] == "failed":
            raise RuntimeError(f"job {self.id} ({self.job}) has failed: "
                               f"{said.get('reason', '')}")
        return said["state"] in client.ENDED

    def learnt(self, best: bool = False) -> Dict[str, Floats]:
        """The parameters of the job's newest checkpoint, by name: after the end
        those of the whole job, not what this program saw last. Or the `best` ones that
        `better` has kept."""
        if not best:
            return self._ask(client.export, self._id())
        if self._best is None:
            raise RuntimeError("no best parameters were kept: `better` keeps them")
        return dict(self._best[1])

    def better(self, value: float, patience: Optional[int] = None, mode: str = "min",
               min_delta: float = 0.0) -> bool:
        """Notes what an evaluation between two batches gave. Returns True if it is the
        best so far: the parameters that the model has now are kept in memory, for
        `load(best=True)`. After `patience` values in a row that were no better the job
        is stopped for all of its programs, after a checkpoint, and `batches` ends. Of
        several programs one calls it, as `if t.first`.

        mode       "min": the lower, the better; or "max"
        min_delta  a smaller change is none. A value that is not finite is no better"""
        if mode not in ("min", "max"):
            raise ValueError(f'mode {mode!r}: "min" or "max" is wanted')
        value = float(value)
        gain = np.inf if self._best is None else (
            self._best[0] - value if mode == "min" else value - self._best[0])
        if np.isfinite(value) and gain > min_delta:
            self._best = (value, {
                n: np.array(self._values()[n], np.float32).reshape(shape)
                for n, shape in self.variables})
            self._waited = 0
            return True
        self._waited += 1
        if patience is not None and self._waited >= patience:
            self.stop()
        return False

    def save(self, path: str) -> None:
        """What `learnt` gives as a safetensors file."""
        self._ask(client.export, self._id(), to=path)

    def stop(self) -> None:
        """Ends the job, after a checkpoint, for all of its programs. Nothing if it
        has ended."""
        try:
            self._ask(client.stop, self._id())
        except client.CommandError:
            if not self.ended():
                raise

    @classmethod
    def read(cls, data: Any, first: int, end: int) -> Tuple[Any, Any]:
        """Samples [first, end) of `data`, collated as in `batches`."""
        source = source_of(data)
        return halves(reader_of(source.data, source.collate or cls.collate, cls.rows)(
            np.arange(first, end)))


def chunks(data: Any, batch_size: int) -> List[Tuple[int, int]]:
    """[first, end) of each batch of a whole data set, in order."""
    n = length(source_of(data).data)
    return [(first, min(first + batch_size, n)) for first in range(0, n, batch_size)]
