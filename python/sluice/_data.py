# SPDX-License-Identifier: Apache-2.0
"""Samples by number: how data sets are read, here or by processes of their own.

A data set is a tree (tuple, list, dict) of arrays with one row per sample, or
anything with `len` and `[number]`, as torch's Datasets and those of Hugging Face
are; one with `__getitems__` is asked for a whole batch at once. The order is the
cluster's, so nothing here shuffles.
"""
from __future__ import annotations

import concurrent.futures
import ctypes
import dataclasses
import multiprocessing
import signal
import sys
import warnings
from typing import Any, Callable, Dict, List, Optional, Tuple, Type

import numpy as np

__all__ = ["Batch", "Reader", "Rows", "Source", "halves", "length", "map_arrays",
           "reader_of", "source_of", "stacked"]

Collate = Callable[[List[Any]], Any]
PR_SET_PDEATHSIG = 1
AHEAD = 2  # batches asked for beyond those that workers compute


@dataclasses.dataclass(frozen=True)
class Batch:
    """Samples of one step. Where items are pairs `x` and `y` are their halves,
    collated; else `x` is all of it and `y` None."""

    x: Any
    y: Any
    samples: Any  # their numbers in the data set, shape (n,)
    epoch: int
    step: int  # in the closure
    closure: int
    number: int = 0  # mode local: of this step, for a schedule of rates

    def parts(self, n: int) -> List["Batch"]:
        """As up to `n` micro-batches, in order, of even size as far as it goes."""
        count = len(self.samples)
        ends = [count * i // n for i in range(n + 1)]
        return [dataclasses.replace(
            self, x=map_arrays(lambda a: a[i:j], self.x),
            y=map_arrays(lambda a: a[i:j], self.y), samples=self.samples[i:j])
            for i, j in zip(ends, ends[1:]) if i < j]


def is_array(data: Any) -> bool:
    return hasattr(data, "shape") and hasattr(data, "dtype")


def is_tree(data: Any) -> bool:
    """Whether `data` is an array, or a tuple, list or dict of nothing else. A list of
    tuples or dicts is one of samples."""
    if isinstance(data, list) and data and all(isinstance(d, (tuple, dict))
                                               for d in data):
        return False
    if isinstance(data, dict):
        return bool(data) and all(is_tree(d) for d in data.values())
    if isinstance(data, (tuple, list)):
        return bool(data) and all(is_tree(d) for d in data)
    return is_array(data)


def map_arrays(change: Callable[[Any], Any], data: Any) -> Any:
    """The same tree with each array changed; what is none stays."""
    if isinstance(data, dict):
        return {k: map_arrays(change, d) for k, d in data.items()}
    if isinstance(data, (tuple, list)):
        changed = [map_arrays(change, d) for d in data]
        return type(data)(*changed) if hasattr(data, "_fields") else type(data)(changed)
    return change(data) if is_array(data) else data


def first_axis(data: Any) -> List[int]:
    """Rows of each array of a tree."""
    found: List[int] = []
    map_arrays(lambda a: found.append(int(a.shape[0])), data)
    return found


def length(data: Any) -> int:
    """How many samples there are; ValueError for what has no length, or several."""
    if isinstance(data, _class("torch.utils.data", "IterableDataset")):
        raise ValueError(
            f"{type(data).__name__}: an IterableDataset is a stream, and samples are "
            "asked for by number, so that each counts once whoever dies. Give a data set "
            "with __len__ and __getitem__, or list(data) if it fits into memory")
    if is_tree(data):
        rows = sorted(set(first_axis(data)))
        if len(rows) > 1:
            raise ValueError(f"the arrays have {rows} rows: one per sample is wanted")
        return rows[0]
    try:
        return len(data)
    except TypeError:
        raise ValueError(
            "the data has no length: samples are asked for by number, so that each "
            "counts once whoever dies; a stream cannot give that") from None


# ---- what people have instead of a data set

@dataclasses.dataclass(frozen=True)
class Source:
    """A data set, with what the loader around it said of its reading."""

    data: Any
    batch_size: Optional[int] = None
    collate: Optional[Collate] = None
    workers: int = 0


def _class(module: str, name: str) -> Any:
    """A class of a framework, if the program has loaded it; else no type at all."""
    return getattr(sys.modules.get(module), name, ())


def _taken_apart(loader: Any) -> Source:
    """A DataLoader's data set; ValueError for what the cluster's order leaves no room
    for. It draws the order and gives each program its share, so the default samplers
    and a DistributedSampler have nothing to add."""
    def refused(what: str, instead: str) -> ValueError:
        return ValueError(f"a DataLoader with {what}: the cluster says which samples "
                          f"make a batch. Give its data set ({instead})")

    utils = sys.modules["torch.utils.data"]
    if isinstance(loader.dataset, utils.IterableDataset):
        return Source(loader.dataset)  # is refused as it is
    if loader.batch_size is None:
        raise refused("batch_sampler, or batch_size=None", "loader.dataset")
    sampler = loader.sampler
    plain = type(sampler) is utils.SequentialSampler or (
        type(sampler) is utils.RandomSampler and not sampler.replacement
        and sampler.num_samples == len(loader.dataset)) or isinstance(
            sampler, _class("torch.utils.data.distributed", "DistributedSampler"))
    if not plain:
        raise refused(f"a {type(sampler).__name__} as its sampler",
                      "of some samples alone a torch.utils.data.Subset")
    if loader.worker_init_fn is not None:
        raise refused("worker_init_fn", "loader.dataset; readers are begun without it")
    if loader.drop_last and len(loader.dataset) % loader.batch_size:
        warnings.warn("the DataLoader's drop_last: here the last batch of an epoch is "
                      "a smaller one, no sample is dropped", stacklevel=5)
    default = utils.default_collate
    return Source(loader.dataset, int(loader.batch_size),
                  None if loader.collate_fn is default else loader.collate_fn,
                  int(loader.num_workers))


def source_of(data: Any) -> Source:
    """What is read by sample number for what a program gave: a torch DataLoader is
    taken apart, tables of pandas become arrays. ValueError for what gives batches
    instead of samples, and for lists that were meant as columns."""
    if isinstance(data, _class("torch.utils.data", "DataLoader")):
        return _taken_apart(data)
    if isinstance(data, _class("keras.utils", "PyDataset")):
        raise ValueError(
            f"{type(data).__name__} is a PyDataset, which gives batches: samples are "
            "wanted by number. Give arrays with one row per sample, or an object with "
            "len and [number] that gives the pair (x, y) of one sample")
    data = _arrays(data)
    if isinstance(data, (tuple, dict)) and not is_tree(data):
        kinds = sorted({type(d).__name__ for d in
                        (data.values() if isinstance(data, dict) else data)})
        raise ValueError(
            f"a {type(data).__name__} of {', '.join(kinds)}: arrays are wanted, with "
            "one row per sample (numpy.asarray makes them), or a data set with len "
            "and [number]")
    return Source(data)


def _arrays(data: Any) -> Any:
    """A tree with NumPy's arrays where it has tables of pandas: their [number] is a
    label, not a row."""
    if hasattr(data, "iloc") and hasattr(data, "to_numpy"):
        return data.to_numpy()
    if isinstance(data, dict):
        return {k: _arrays(d) for k, d in data.items()}
    if isinstance(data, tuple):
        changed = [_arrays(d) for d in data]
        return type(data)(*changed) if hasattr(data, "_fields") else tuple(changed)
    return data


def stacked(items: List[Any]) -> Any:
    """Samples one behind another, as arrays: each of shape (n, ...)."""
    first = items[0]
    if isinstance(first, dict):
        return {k: stacked([item[k] for item in items]) for k in first}
    if isinstance(first, (tuple, list)):
        return tuple(stacked(list(part)) for part in zip(*items))
    return np.stack([np.asarray(item) for item in items])


class Rows:
    """How rows are taken from arrays: the numbers are made ready once a batch."""

    @staticmethod
    def numbers(samples: Any) -> Any:
        return samples

    @staticmethod
    def of(array: Any, numbers: Any) -> Any:
        return array[numbers]


def reader_of(data: Any, collate: Collate = stacked, rows: Type[Rows] = Rows
              ) -> Callable[[Any], Any]:
    """A function: numbers of samples (i64) -> what is read of `data`."""
    def pair(samples: Any) -> Any:
        numbers = rows.numbers(samples)
        return rows.of(data[0], numbers), rows.of(data[1], numbers)

    def tree(samples: Any) -> Any:
        numbers = rows.numbers(samples)
        return map_arrays(lambda a: rows.of(a, numbers), data)

    if is_tree(data):
        two = isinstance(data, tuple) and len(data) == 2 and all(map(is_array, data))
        return pair if two else tree
    at_once = getattr(data, "__getitems__", None)

    def items(samples: Any) -> Any:
        numbers = samples.tolist()
        read = (list(at_once(numbers)) if at_once is not None else
                [data[n] for n in numbers])
        missing = [n for n, item in zip(numbers, read) if item is None]
        if missing:
            raise TypeError(f"the data set gives None for sample {missing[0]}")
        return collate(read)
    return items


def halves(batch: Any) -> Tuple[Any, Any]:
    if isinstance(batch, (list, tuple)) and len(batch) == 2:
        return batch[0], batch[1]
    return batch, None


# ---- processes that read

_read: Callable[[Any], Any]  # of a process that reads


def _begin(data: Any, collate: Collate) -> None:
    global _read
    _read = reader_of(data, collate)
    # It ends with the program, however that ends; signals are the program's.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch = sys.modules.get("torch")
    if torch is not None:  # its threads did not come along
        torch.set_num_threads(1)


def _task(samples: Any) -> Any:
    return map_arrays(np.asarray, _read(samples))


class Reader:
    """Reads a data set; with `workers` in so many processes, ahead of time. They
    are begun at once, before the program has threads of the library's, which a
    fork does not take along.

    start  "fork": the data is what it is here; "spawn": it travels by pickle
    """

    def __init__(self, data: Any, collate: Collate, rows: Type[Rows],
                 workers: int = 0, start: str = "fork") -> None:
        self.workers = workers
        self._read = reader_of(data, collate, rows)
        self._pool: Optional[concurrent.futures.ProcessPoolExecutor] = None
        self._asked: Dict[Any, "concurrent.futures.Future[Any]"] = {}
        if workers > 0:
            self._pool = concurrent.futures.ProcessPoolExecutor(
                workers, multiprocessing.get_context(start), _begin, (data, collate))
            concurrent.futures.wait([self._pool.submit(_nothing)
                                     for _ in range(workers)])

    @property
    def ahead(self) -> int:
        """How many batches are worth to be asked for before they are needed."""
        return 0 if self._pool is None else self.workers + AHEAD

    def ask(self, key: Any, samples: Callable[[], Any]) -> None:
        """The samples of `key` will be wanted."""
        if self._pool is not None and key not in self._asked:
            self._asked[key] = self._pool.submit(_task, samples().view(np.int64))

    def get(self, key: Any, samples: Any) -> Any:
        if self._pool is None:
            return self._read(samples.view(np.int64))
        self.ask(key, lambda: samples)
        try:
            return self._asked.pop(key).result()
        except concurrent.futures.process.BrokenProcessPool:
            raise RuntimeError("a process that reads data has died; what it said is "
                               "above. The step was not counted: start again") from None

    def forget(self, but: Tuple[Any, ...] = ()) -> None:
        """What was asked for is not wanted any more, but these keys."""
        for key in [k for k in self._asked if k not in but]:
            self._asked.pop(key).cancel()

    def close(self) -> None:
        self.forget()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def _nothing() -> None:
    """Makes a process of the pool begin."""
