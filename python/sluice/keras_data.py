# SPDX-License-Identifier: Apache-2.0
"""What `sluice.keras.fit` is given, as samples by number: arrays, `tf.data`
datasets, `keras.utils.PyDataset`, torch's DataLoader, or anything with `len` and
`[number]`. ValueError, before a job is there, for what is none of these.

A sample's number has to mean the same sample in each program and after each death,
so datasets are read whole, without their `shuffle` and `repeat`; a PyDataset is
asked for its batches by number, and one of them is what the job calls a sample.
"""
from __future__ import annotations

import dataclasses
import math
import sys
import warnings
from typing import Any, List, Optional, Tuple

import keras
import numpy as np

from ._data import is_tree, length, map_arrays, source_of

__all__ = ["Batches", "Source", "first_batches", "rows_of", "source", "split"]

DATASET_BYTES = 4 << 30  # of a dataset that is read whole
_AROUND = ("Batch", "Cache", "Options", "ParallelBatch", "Prefetch", "Repeat",
           "Shuffle")  # what fit itself does for a dataset, or a job


@dataclasses.dataclass
class Source:
    """`data` has `count` samples by number; a batch has `unit` of them.

    shuffle   whether the order of each epoch is another
    samples   of an epoch, if it is not each of the data once: a stream of passes
              over the data is cut into epochs
    batched   a sample is a batch of the user's
    """

    data: Any
    count: int
    unit: int
    shuffle: bool
    samples: int
    batched: bool = False

    def numbers(self, epoch: int, samples: Any) -> Any:
        """Which of the data the samples with these numbers of an epoch are."""
        if self.samples == self.count:
            return samples
        at = np.asarray(samples).astype(np.uint64) + np.uint64(epoch * self.samples)
        row = at % np.uint64(self.count)
        if self.shuffle:  # each pass in an order of its own, the same everywhere
            for n in np.unique(at // np.uint64(self.count)):
                of = at // np.uint64(self.count) == n
                row[of] = np.random.default_rng(int(n)).permutation(
                    self.count)[row[of].astype(np.int64)]
        return row

    @property
    def batches(self) -> int:
        """Batches of an epoch."""
        return math.ceil(self.samples / self.unit)


class Batches:
    """Some batches of a PyDataset, as a step has them."""

    def __init__(self, items: List[Any]) -> None:
        self.items = items


def first_batches(items: List[Any]) -> Any:
    """As `stacked`, of samples that are batches: nothing is joined."""
    return Batches(items)


class _ByBatch:
    """A PyDataset's batches by number."""

    def __init__(self, of: Any, count: int) -> None:
        self.of, self.count = of, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Any:
        return self.of[number]


def _array(leaf: Any) -> Any:
    """An array that can be asked for rows: pandas' and tensors as NumPy's."""
    if keras.ops.is_tensor(leaf):
        return keras.ops.convert_to_numpy(leaf)
    if type(leaf).__module__.partition(".")[0] == "pandas":
        return leaf.to_numpy()
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None and tensorflow.is_tensor(leaf):
        return leaf.numpy()
    return leaf


def _tree(data: Any) -> Any:
    if isinstance(data, dict):
        return {k: _tree(d) for k, d in data.items()}
    if isinstance(data, (tuple, list)):
        return type(data)([_tree(d) for d in data])
    return _array(data)


def _arrays(x: Any, y: Any, sample_weight: Any) -> Any:
    """(x, y) or (x, y, weight) as trees of arrays."""
    given = {"x": x, "y": y, "sample_weight": sample_weight}
    trees = {name: _tree(d) for name, d in given.items() if d is not None}
    for name, tree in trees.items():
        if not is_tree(tree):
            raise ValueError(
                f"{name} is {type(given[name]).__name__}: where y or sample_weight is "
                "given each is an array with one row per sample, or a tuple, list or "
                "dict of such (np.asarray makes one)")
    if sample_weight is not None:
        return (trees["x"], trees.get("y"), trees["sample_weight"])
    return (trees["x"], trees["y"])


def split(x: Any, y: Any, sample_weight: Any, share: float
          ) -> Tuple[Tuple[Any, Any, Any], Tuple[Any, ...]]:
    """((x, y, sample_weight), validation data): the last `share` of the samples, as
    Keras' validation_split takes them, before anything is shuffled."""
    trees = [None if d is None else _tree(d) for d in (x, y, sample_weight)]
    there = [t for t in trees if t is not None]
    if not 0 < share < 1:
        raise ValueError(f"validation_split={share}: between 0 and 1 is possible")
    if not all(map(is_tree, there)):
        raise ValueError("validation_split wants arrays; of a dataset take some "
                         "samples yourself, as validation_data")
    count = length(there)
    at = math.floor(count * (1.0 - share))
    if at in (0, count):
        raise ValueError(f"validation_split={share} of {count} samples leaves none to "
                         "train or none to validate with")
    parts = [[None if t is None else map_arrays(cut, t) for t in trees]
             for cut in (lambda a: a[:at], lambda a: a[at:])]
    return tuple(parts[0]), tuple(parts[1])  # type: ignore[return-value]


# ---- tf.data

def _kind(dataset: Any) -> str:
    """`Batch` of a `_BatchDataset` or `_BatchDatasetV2`."""
    return type(dataset).__name__.strip("_").partition("Dataset")[0]


def _below(dataset: Any) -> List[Any]:
    """A dataset and all that it reads."""
    out = [dataset]
    for under in dataset._inputs():
        out += _below(under)
    return out


def _draws(dataset: Any) -> bool:
    """Whether a function of a `map` draws at random, as far as can be seen."""
    function = getattr(getattr(dataset, "_map_func", None), "function", None)
    if function is None:
        return False
    graph = function.graph.as_graph_def()
    nodes = [n.op for n in graph.node]
    nodes += [n.op for f in graph.library.function for n in f.node_def]
    return any("Random" in op for op in nodes)


class _Peeled:
    """A dataset without what stands around its samples."""

    def __init__(self, dataset: Any) -> None:
        self.batch: Optional[int] = None
        self.drops = self.shuffles = False
        self.passes: Optional[int] = 1  # None: without end
        while _kind(dataset) in _AROUND:
            kind = _kind(dataset)
            if "Batch" in kind:
                if self.batch is not None:
                    break  # batches of batches: the inner ones are samples
                self.batch = int(dataset._batch_size)
                self.drops = bool(dataset._drop_remainder)
            elif kind == "Shuffle":
                self.shuffles = True
            elif kind == "Repeat":
                n = int(dataset._count)
                self.passes = None if n < 0 or self.passes is None else self.passes * n
            (dataset,) = dataset._inputs()
        self.rest = dataset
        self._check()

    def _check(self) -> None:
        for under in _below(self.rest):
            if _kind(under) == "Shuffle" and not int(under._seed) + int(under._seed2):
                raise ValueError(
                    "the dataset has a shuffle() below another operation: leave it "
                    "out or put it last. The order is the cluster's, and each "
                    "program has to read the same samples under the same numbers")
            if _draws(under):
                warnings.warn(
                    "the dataset has a map() that draws at random: the dataset is "
                    "read once, so the draws are the same in every epoch. Augment in "
                    "the model (keras.layers.RandomFlip) or in a PyDataset",
                    stacklevel=6)


def _read(dataset: Any) -> Any:
    """All elements, one behind another, as a tree of arrays."""
    parts: List[Any] = []
    size = 0
    for element in dataset:
        parts.append(map_arrays(_array, element))
        size += _bytes(parts[-1])
        if size > DATASET_BYTES:
            raise ValueError(
                f"the dataset has more than {DATASET_BYTES >> 30} GiB, or no end: it "
                "is read whole, since samples are asked for by number. Give a "
                "keras.utils.PyDataset, or an object with __len__ and __getitem__ of "
                "one sample")
    if not parts:
        raise ValueError("the dataset is empty")
    return _joined(parts)


def _bytes(tree: Any) -> int:
    sizes: List[int] = []
    map_arrays(lambda a: sizes.append(a.nbytes), tree)
    return sum(sizes)


def _joined(parts: List[Any]) -> Any:
    first = parts[0]
    if isinstance(first, dict):
        return {k: _joined([p[k] for p in parts]) for k in first}
    if isinstance(first, (tuple, list)):
        return tuple(_joined(list(p)) for p in zip(*parts))
    if first.dtype == object:
        raise ValueError("the dataset has elements that are no dense arrays of numbers")
    return np.concatenate(parts)


def _of_tensorflow(dataset: Any, steps: Optional[int]) -> Source:
    peeled = _Peeled(dataset)
    rest, batch = peeled.rest, peeled.batch
    if int(rest.cardinality()) == -1:
        raise ValueError("the dataset has a repeat() below another operation: leave it "
                         "out, epochs are the job's")
    if peeled.passes is None and steps is None:
        raise ValueError("the dataset has no end: say steps_per_epoch, or leave its "
                         "repeat() out")
    if batch is None:  # each element is a batch already, as model.fit has it
        data = _read(rest)
        batch = int(rows_of(next(iter(rest))))
    else:
        data = _read(rest.batch(1024))
    count = length(data)
    if peeled.drops and not peeled.shuffles and peeled.passes == 1:
        count -= count % batch  # the same ones each time
        data = map_arrays(lambda a: a[:count], data)
    samples = count * (peeled.passes or 1)
    if steps is not None:
        samples = steps * batch
    elif peeled.drops:
        samples -= samples % batch
    if min(count, samples) == 0:
        raise ValueError("the dataset has no whole batch")
    return Source(data, count, batch, peeled.shuffles, samples)


def rows_of(element: Any) -> int:
    """How many samples a batch has."""
    rows: List[int] = []
    map_arrays(lambda a: rows.append(int(a.shape[0])), element)
    return rows[0]


# ---- batches by number

def _of_py_dataset(data: Any, shuffle: bool) -> Source:
    count = data.num_batches
    if count is None:
        raise ValueError("a PyDataset without end: its num_batches has to say how many "
                         "batches an epoch has")
    return Source(_ByBatch(data, int(count)), int(count), 1, shuffle, int(count), True)


def _of_loader(loader: Any) -> Source:
    """A DataLoader of torch's: its dataset, batch size and whether it shuffles.
    Beside what no program can give, a collate_fn of its own is refused."""
    data = sys.modules["torch.utils.data"]
    taken = source_of(loader)
    if taken.batch_size is None or taken.collate is not None:
        raise ValueError("a DataLoader of a stream, or with a collate_fn of its own: "
                         "give its dataset, and batch_size to fit; samples are joined "
                         "as arrays")
    if not isinstance(loader.sampler, (data.RandomSampler, data.SequentialSampler)):
        raise ValueError(f"a DataLoader with a {type(loader.sampler).__name__}: the "
                         "order is the cluster's, so give its dataset and batch_size")
    count = length(taken.data)
    return Source(taken.data, count, taken.batch_size,
                  isinstance(loader.sampler, data.RandomSampler), count)


# ---- all of it

def _special(x: Any, steps: Optional[int], shuffle: bool) -> Optional[Source]:
    """Of what says itself how large its batches are; None: x is something else."""
    tensorflow, torch = sys.modules.get("tensorflow"), sys.modules.get("torch")
    if tensorflow is not None and isinstance(x, tensorflow.data.Dataset):
        return _of_tensorflow(x, steps)
    if isinstance(x, keras.utils.PyDataset):
        return _of_py_dataset(x, shuffle)
    if torch is not None and isinstance(x, torch.utils.data.DataLoader):
        return _of_loader(x)
    return None


def source(x: Any, y: Any, sample_weight: Any, batch_size: Optional[int],
           steps: Optional[int], shuffle: bool) -> Source:
    """What `model.fit` would be given as x, y, sample_weight, batch_size,
    steps_per_epoch and shuffle."""
    if steps is not None and steps < 1:
        raise ValueError(f"steps_per_epoch={steps}: 1 or more is possible")
    found = _special(x, steps, shuffle)
    if found is not None:
        for name, value in (("y", y), ("sample_weight", sample_weight),
                            ("batch_size", batch_size)):
            if value is not None:
                raise ValueError(f"{name} is the dataset's: leave it out")
    else:
        data = x if y is None and sample_weight is None else _arrays(
            x, y, sample_weight)
        arrays = _tree(data)
        data = arrays if is_tree(arrays) else data
        if hasattr(data, "__next__"):
            raise ValueError("a generator cannot be asked for a sample by number: give "
                             "arrays, a tf.data.Dataset or a keras.utils.PyDataset")
        count = length(data)
        found = Source(data, count, batch_size or 32, shuffle, count)
    if found.count == 0:
        raise ValueError("there are no samples")
    if steps is not None and steps != found.batches:
        found.samples = steps * found.unit
    return found
