# SPDX-License-Identifier: Apache-2.0
"""Rows of sparse tables in a Keras model.

A train_step is compiled, and a compiled function cannot ask psservers. So the rows of a
batch are a variable of the layer while `fit` trains: `fit` writes into it what the ids
of the batch have, one row for each place of an id, and the train_step computes its
gradient like that of any variable. That works on every backend, and wants ids that are
an input of the model.
"""
from __future__ import annotations

import contextlib
import math
import warnings
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import keras
import numpy as np

Push = Callable[[str, Any, Any], None]


@keras.saving.register_keras_serializable("sluice")
class Embedding(keras.layers.Layer):
    """A sparse table of the job (docs/bring-your-own.md#sparse-tables) as a layer: of
    ids of any shape, which are whole numbers of 64 bits, the rows, of shape (*ids.shape,
    dim). There is no vocabulary, and the rows are no weights of the model: they lie on
    the psservers, are read before each batch, and their gradients leave with its step.

        ids = keras.Input((3,), dtype="int64")
        users = sluice.keras.Embedding("users", 16, init=0.01,
                                       optimizer={"type": "rowwise_adagrad",
                                                  "learning_rate": 0.05})(ids)

    name, dim   of the table; one name is one table
    init        first values of an id: a number x, for a uniform draw from [-x, x), or an
                initializer, as "random_normal(0, 0.01)"
    table       more of it, as a job has it: optimizer (else the job's; also a name alone,
                "adagrad"), admit, evict, buckets; and `rows`, (ids, values), which a new
                job's table begins with

    The ids are an input of a functional or Sequential model, whose shape is known but
    for the batch. The model can be called by `sluice.keras.fit` alone: a saved model has
    no rows, and a warning says so.
    """

    def __init__(self, name: str, dim: int, **table: Any) -> None:
        base = {k: table.pop(k) for k in ("dtype", "trainable") if k in table}
        if "mask_zero" in table:
            raise ValueError(f"table {name}: mask_zero is not offered: give the model "
                             "the places to leave out as an input of their own")
        super().__init__(name=name, **base)
        self.dim = dim
        self.table: Dict[str, Any] = {"name": name, "dim": dim, **table}
        self.rows: Any = None  # a variable, while `fit` trains
        self.trains = False  # it is called by a train_step of `fit`

    def begin(self, shape: Tuple[int, ...]) -> None:
        """Has the rows of ids of this shape as a variable."""
        self._tracker.unlock()
        self.rows = self.add_weight(shape=(*shape, self.dim), initializer="zeros",
                                    dtype="float32", name="rows")
        self._tracker.lock()

    def end(self) -> None:
        rows, self.rows = self.rows, None
        if rows is not None:
            self._untrack_variable(rows)

    def call(self, ids: Any) -> Any:
        if not self.trains:
            raise RuntimeError(
                f"table {self.name}: its rows are on psservers, and the model can be "
                "called by the train_step of sluice.keras.fit alone; "
                f"sluice.export(job, table={self.name!r}) gives them")
        return keras.ops.convert_to_tensor(self.rows)[:keras.ops.shape(ids)[0]]

    def compute_output_spec(self, ids: Any) -> Any:
        return keras.KerasTensor((*ids.shape, self.dim), self.compute_dtype)

    def get_config(self) -> Dict[str, Any]:
        table = {k: v for k, v in self.table.items() if k != "rows"}
        return {**super().get_config(), **table}

    def save_own_variables(self, store: Any) -> None:
        self._warn("saved")

    def load_own_variables(self, store: Any) -> None:
        self._warn("loaded")

    def _warn(self, what: str) -> None:
        warnings.warn(f"the model that is {what} has no rows of table {self.name}: "
                      f"sluice.export(job, table={self.name!r}) gives them",
                      RuntimeWarning, stacklevel=2)


class Tables:
    """The tables of a model, while `fit` trains it.

    size   samples of a batch; None: batches are the user's own
    """

    def __init__(self, model: Any, size: Optional[int]) -> None:
        self.layers = [layer for layer in model._flatten_layers()
                       if isinstance(layer, Embedding)]
        self.specs = [layer.table for layer in self.layers]
        self.variables: List[Any] = []  # of the job
        self._model, self._size = model, size
        self._inputs = {layer.name: _input_of(model, layer) for layer in self.layers}
        self._cuts: List[Tuple[int, int, Any]] = []
        self._ids: Dict[str, Any] = {}
        if self.layers and size is None:
            raise ValueError(f"table {self.layers[0].name}: batches of the program's own "
                             "are not offered with tables: give arrays of samples")

    def __enter__(self) -> "Tables":
        self.variables = list(self._model.trainable_variables)
        for layer in self.layers:
            _, tensor = self._inputs[layer.name]
            layer.begin((self._size or 0, *tensor.shape[1:]))
        of = {id(layer.rows): layer for layer in self.layers}
        at = 0
        for v in self._model.trainable_variables:
            size = math.prod(v.shape)
            self._cuts.append((at, at + size, of.get(id(v))))
            at += size
        return self

    def __exit__(self, *_: Any) -> None:
        for layer in self.layers:
            layer.end()

    @contextlib.contextmanager
    def rows_of(self, x: Any, pull: Callable[[Dict[str, Any]], Dict[str, Any]]
                ) -> Iterator[None]:
        """The layers have the rows of a batch's ids, for a train_step."""
        for layer in self.layers:
            key, tensor = self._inputs[layer.name]
            ids = np.asarray(x if key is None else x[key])
            self._ids[layer.name] = ids.reshape(len(ids), *tensor.shape[1:])
        pulled = pull(self._ids) if self.layers else {}
        for layer in self.layers:
            rows = np.zeros(layer.rows.shape, np.float32)
            rows[:len(pulled[layer.name])] = pulled[layer.name]
            layer.rows.assign(rows)
            layer.trains = True
        try:
            yield
        finally:
            for layer in self.layers:
                layer.trains = False

    def parted(self, flat: Any, share: float, push: Push) -> Any:
        """The gradient of the job's variables; that of rows, of which this is so large a
        share, is pushed."""
        if not self.layers:
            return flat
        kept = []
        for first, end, layer in self._cuts:
            if layer is None:
                kept.append(flat[first:end])
                continue
            ids = self._ids[layer.name]
            rows = flat[first:end].reshape(layer.rows.shape)[:len(ids)]
            push(layer.name, ids, rows if share == 1 else rows * np.float32(share))
        return np.concatenate(kept)

    def absent(self, numbers: List[int]) -> List[int]:
        """Of the job's variables those that have no gradient, by the model's numbers."""
        left, out = -1, []
        for i, (_, _, layer) in enumerate(self._cuts):
            left += layer is None
            if layer is None and i in numbers:
                out.append(left)
        return out


def _input_of(model: Any, layer: Embedding) -> Tuple[Any, Any]:
    """(key, tensor) of the input of the model that has the ids of a layer: x[key], or x
    itself if the key is None. ValueError if it is none."""
    graph = getattr(model, "_functional", None) or model
    nodes = [node for nodes in getattr(graph, "_nodes_by_depth", {}).values()
             for node in nodes if node.operation is layer]
    if len(nodes) != 1:
        raise ValueError(
            f"table {layer.name}: its layer is called {len(nodes)} times by the model, "
            "and once is wanted, by a functional or Sequential model itself (not by a "
            "model within it, and not in a `call` of your own); one name is one table")
    given = nodes[0].input_tensors[0]
    struct = graph._inputs_struct
    named = (struct.items() if isinstance(struct, dict) else
             enumerate(struct) if isinstance(struct, (list, tuple)) else [(None, struct)])
    for key, tensor in named:
        if tensor is given:
            if None in tensor.shape[1:]:
                raise ValueError(f"table {layer.name}: its ids have the shape "
                                 f"{tuple(tensor.shape)}: say how many a sample has")
            return key, tensor
    raise ValueError(f"table {layer.name}: its ids are computed by the model, and an "
                     "input of the model is wanted: compute them in the data")
