# SPDX-License-Identifier: Apache-2.0
"""A Keras 3 model on a cluster: `fit`, with any backend of Keras.

    model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy",
                  metrics=["accuracy"])
    sluice.keras.fit(model, x, y, job="fashion", coordinator="10.0.0.1:7070",
                     batch_size=64, epochs=5, callbacks=[...])

The first program that comes submits the job, the others join it; any may be
killed at any time, others may come. The model's own `train_step` runs, with its
loss, metrics and regularizers. The optimizer that it was compiled with says what
psservers are to do, and is never stepped.

What is different from `model.fit`:
- an epoch here has those of its batches that this program is given; metrics and
  what callbacks see are of these. At the end the model has what the whole job
  has learnt
- a callback may set the rate of an epoch if the epoch and the rate before are all
  that it goes by; elsewhere rates are a schedule of the optimizer
- weights that are not trained (batch norm's statistics) are this process's own

With `mode="local"` the model's optimizer is stepped here, `every` batches between two
meetings; what they have changed is what psservers average (docs/local.md).
"""
from __future__ import annotations

import contextlib
import math
import time
import warnings
from typing import (TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Sequence, Tuple,
                    Union)

import keras
import numpy as np

from . import client
from ._data import Batch, map_arrays
from ._keras_local import Inner
from ._keras_rows import Embedding, Tables
from ._program import Cluster, Json, Program
from .keras_data import Batches, Source, first_batches, rows_of, source, split
from .keras_job import join_inputs, join_labels, submit, to_job
from .keras_rates import Plan, by_epoch, planned, schedule_of, schedule_spec, updates
from .keras_weights import load_job, load_weights, save_weights

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Embedding", "fit", "join_inputs", "join_labels", "load_job", "load_weights",
           "optimizer_spec", "save_weights", "submit", "to_job"]

_FIELDS = {"SGD": ("momentum", "nesterov"),
           "Adam": ("beta_1", "beta_2", "epsilon", "amsgrad"),
           "AdamW": ("beta_1", "beta_2", "epsilon", "amsgrad"),
           "Adamax": ("beta_1", "beta_2", "epsilon"),
           "Nadam": ("beta_1", "beta_2", "epsilon"),
           "Lion": ("beta_1", "beta_2"),
           "Lamb": ("beta_1", "beta_2", "epsilon"),
           "Muon": ("momentum", "nesterov", "epsilon"),
           "Adagrad": ("initial_accumulator_value", "epsilon"),
           "RMSprop": ("rho", "momentum", "epsilon", "centered")}
STOP_S = 0.05  # between looks at a job that is being stopped


# ---- Keras' words -> the job's

def _inner(optimizer: Any) -> Any:
    """One of Keras', without a LossScaleOptimizer around it."""
    optimizer = keras.optimizers.get(optimizer)
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return optimizer.inner_optimizer
    return optimizer


def optimizer_spec(optimizer: Any, variables: Any = ()) -> Json:
    """The job's `optimizer` for one of Keras', or its name; ValueError for what a
    psserver does not do. A dict is taken as it is. `variables` that it excludes from
    its weight decay are a group."""
    if isinstance(optimizer, dict):
        return optimizer
    optimizer = _inner(optimizer)
    kind = type(optimizer).__name__
    if kind not in _FIELDS:
        raise ValueError(f"{kind} is not offered by psservers: {', '.join(_FIELDS)} "
                         "are, or say it as a dict")
    config = optimizer.get_config()
    for name in ("use_ema", "loss_scale_factor"):
        if config.get(name):
            raise ValueError(f"{kind}({name}={config[name]!r}) is not offered")
    schedule = getattr(optimizer, "_learning_rate", None)
    if isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
        if config.get("gradient_accumulation_steps"):
            raise ValueError(
                f"{kind} with gradient_accumulation_steps and a schedule, which Keras "
                "counts in batches and a job in updates: say the optimizer as a dict, "
                "with a schedule of updates")
        spec = schedule_spec(schedule)
    elif isinstance(config["learning_rate"], float):
        spec = {"learning_rate": config["learning_rate"]}
    else:
        raise ValueError("a learning rate that is a function of the program's is not "
                         "offered: say a schedule of Keras")
    if config.get("weight_decay") is not None:  # 0 is not a job's default of each kind
        spec["weight_decay"] = float(config["weight_decay"])
    for name in ("clipnorm", "clipvalue", "global_clipnorm"):
        if config.get(name):  # 0 is off
            spec[name] = float(config[name])
    excluded = [v.path for v in variables if spec.get("weight_decay")
                and not optimizer._use_weight_decay(v)]
    if kind == "Muon":
        spec.update(_muon(optimizer, config, variables))
    if excluded and "groups" in spec:
        raise ValueError("Muon that excludes variables from weight_decay, and others "
                         "from its steps, is not offered: say it as a dict")
    if excluded:
        spec["groups"] = [{"variables": excluded, "weight_decay": 0.0}]
    return {"type": kind.lower(), **spec, **{name: config[name]
                                             for name in _FIELDS[kind]}}


# What a job's muon has no key for, and Keras' default.
_MUON = {"muon_a": 3.4445, "muon_b": -4.775, "muon_c": 2.0315, "adam_lr_ratio": 1,
         "ns_steps": 5}


def _muon(optimizer: Any, config: Json, variables: Any) -> Json:
    """What Muon's own arguments are in a job. Its matrices that take AdamW's steps are
    a group."""
    for name, value in _MUON.items():
        if config[name] != value:
            raise ValueError(f"Muon({name}={config[name]!r}) is not offered")
    if config["weight_decay"] != config["adam_weight_decay"]:
        raise ValueError("Muon with an adam_weight_decay that is not its weight_decay "
                         "is not offered")
    spec = {"rms_rate": config["rms_rate"] or 0.0, "beta_1": config["adam_beta_1"],
            "beta_2": config["adam_beta_2"],
            "weight_decay": config["weight_decay"] or 0.0}
    others = [v.path for v in variables
              if len(v.shape) == 2 and optimizer._should_use_adamw(v)]
    if others:
        spec["groups"] = [{"variables": others, "elementwise": True}]
    return spec


class _Collects(keras.optimizers.Optimizer):
    """Stands where the model's train_step has its optimizer: keeps the gradient in
    one flat variable and changes nothing else, on every backend. Its rate is the
    job's."""

    built: bool

    def __init__(self, rate: Any) -> None:
        super().__init__(learning_rate=rate, name="sluice")
        self.absent: Optional[List[int]] = None  # of the variables: no gradient

    def build(self, variables: List[Any]) -> None:
        super().build(variables)
        self.sizes = [math.prod(v.shape) for v in variables]
        self.flat = self.add_variable((sum(self.sizes),), "zeros", "float32",
                                      name="gradient")

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        grads = list(grads)
        of = (self._trainable_variables if trainable_variables is None
              else list(trainable_variables))
        if not self.built:
            with keras.name_scope(self.name, caller=self):
                self.build(of)
            self.built = True
        self._check_variables_are_known(of)
        there: List[Any] = [None] * len(self.sizes)
        for g, v in zip(grads, of):
            there[self._get_variable_index(v)] = g
        self.absent = [i for i, g in enumerate(there) if g is None]
        parts = [keras.ops.zeros((n,)) if g is None else
                 keras.ops.cast(keras.ops.reshape(g, (n,)), "float32")
                 for g, n in zip(there, self.sizes)]
        self.flat.assign(keras.ops.concatenate(parts))
        self._iterations.assign_add(1)

    def at(self, update: int) -> None:
        """The next batch is of this update of the job, which a schedule goes by."""
        if int(self._iterations) != update:
            self._iterations.assign(update)

    def rate(self) -> float:
        """The rate that callbacks see."""
        return float(keras.ops.convert_to_numpy(self.learning_rate))

    def set_rate(self, rate: float) -> None:
        """Callbacks see this one, unless there is a schedule."""
        if isinstance(self._learning_rate, keras.Variable):
            self._learning_rate.assign(rate)


# ---- the model on a cluster

class _Keras(Program):
    def __init__(self, model: Any, job: str, coordinator: Optional[str],
                 optimizer: Optional[Json], given: Source, accumulate: int,
                 each: Optional[int],
                 class_weight: Any, tables: Tables, **cluster: Unpack[Cluster]) -> None:
        self.model, self.given, self.accumulate = model, given, accumulate
        self._each, self._class_weight, self._rows = each, class_weight, tables
        for v in tables.variables:
            if keras.backend.standardize_dtype(v.dtype) != "float32":
                raise ValueError(f"{v.path} is {v.dtype}; parameters are float32 "
                                 "(compute in less by a dtype policy)")
            if v.constraint is not None:
                raise ValueError(f"{v.path} has a constraint, which psservers do not "
                                 "keep")
        super().__init__(job, coordinator, [(v.path, tuple(v.shape))
                                            for v in tables.variables],
                         optimizer, tables=tables.specs, **cluster)
        self.device = f"keras, {keras.backend.backend()}"
        if keras.backend.backend() == "jax":
            self._start = "spawn"  # JAX has threads that a fork leaves behind
        self._assign = _assigner(tables.variables)

    def spec(self, samples: int, batch_size: int, epochs: int) -> Json:
        return super().spec(self.given.samples, batch_size, epochs)

    def _rows_of(self, epoch: int, samples: Any) -> Any:
        return self.given.numbers(epoch, samples)

    def _values(self) -> Dict[str, Any]:
        return {v.path: keras.ops.convert_to_numpy(v.value)
                for v in self._rows.variables}

    def _fresh(self) -> None:
        assert self._closure is not None
        self._assign(self._closure.params)

    def _update(self) -> int:
        """How many updates the job has had, as far as this program can know."""
        assert self._closure is not None
        closure, step = self._closure, self._begun()
        if self._each is None:
            return closure.rounds
        steps = math.ceil(closure.samples / closure.batch)
        return closure.epoch * self._each + (
            step.first // closure.batch) * self._each // steps

    def step(self, batch: Batch, collects: Any, seen: "_Epochs") -> None:
        """Runs the model's train_step on the batches of a step, and pushes the mean
        of the gradients that it has left."""
        assert self._closure is not None
        self._begun()
        parts = _parts(batch, self.given, self.accumulate)
        update = self._update()
        total, kept, loss = 0.0, 0, 0.0
        for i, (x, y, weight) in enumerate(parts):
            seen.begin_batch()
            collects.at(update)
            with self._rows.rows_of(x, self._pull_tables):
                logs = self.model.train_on_batch(
                    x, y, sample_weight=weight, class_weight=self._class_weight,
                    return_dict=True)
            skip = int(collects.iterations) == update  # by a LossScaleOptimizer
            _check_step(collects, self.model, skip)
            if not skip:
                kept += 1
                gradient = self._rows.parted(
                    keras.ops.convert_to_numpy(collects.flat.value), 1 / len(parts),
                    self._push_table)
                if len(parts) == 1:
                    np.copyto(self._closure.grads, gradient)
                else:
                    total = total + gradient
            rows = rows_of(x)
            loss += seen.loss_of(logs, rows) / len(parts)
            if i + 1 == len(parts):
                if kept and len(parts) > 1:
                    np.copyto(self._closure.grads, total / kept)
                if kept:
                    self._absent(self._rows.absent(collects.absent or []))
                self._done(loss, skip=not kept)
            seen.end_batch(logs)
            if self.model.stop_training:
                return

    def load(self) -> None:
        values = self.learnt()
        for v in self._rows.variables:
            v.assign(values[v.path].reshape(v.shape))
        self._warn_of_rows("the model that was loaded")

    def end(self) -> None:
        """Ends the job for all, after a checkpoint."""
        self.stop()
        with contextlib.suppress(RuntimeError):
            while not self._leaving and self.status()["state"] not in client.ENDED:
                time.sleep(STOP_S)


class _KerasBatches(_Keras):
    """The same with samples that are batches of the user's."""

    collate = staticmethod(first_batches)


class _KerasLocal(_Keras):
    """The same in mode local."""

    inner: Inner

    def _at(self, batch: Batch, reset: bool) -> None:
        self.inner.begin(batch.number, reset)

    def step(self, batch: Batch, collects: Any, seen: "_Epochs") -> None:
        """Runs the model's train_step on the batch, with its optimizer."""
        (x, y, weight), = _parts(batch, self.given, 1)
        seen.begin_batch()
        logs = self.model.train_on_batch(x, y, sample_weight=weight,
                                         class_weight=self._class_weight, return_dict=True)
        self.stepped(seen.loss_of(logs, rows_of(x)))
        seen.end_batch(logs)


class _KerasLocalBatches(_KerasLocal):
    """The same with samples that are batches of the user's."""

    collate = staticmethod(first_batches)


def _check_step(collects: _Collects, model: Any, skip: bool) -> None:
    """A train_step of the user's own has to give its gradient to the optimizer."""
    if skip and model.optimizer is collects:
        raise NotStepped("train_step did not call self.optimizer.apply (or "
                         "apply_gradients), once: psservers step the one optimizer "
                         "that the model was compiled with, and no other")


def _assigner(variables: List[Any]) -> Any:
    """flat vector -> None: writes it into the variables; with TensorFlow as one
    call of a graph."""
    ranges, at = [], 0
    for v in variables:
        ranges.append((v, at, at + math.prod(v.shape)))
        at = ranges[-1][2]

    def assign(flat: Any) -> None:
        for v, first, end in ranges:
            v.assign(keras.ops.reshape(flat[first:end], v.shape))

    # Copied first: backends may keep what they are given, which lies in memory
    # that the session changes, and frees.
    if keras.backend.backend() != "tensorflow":
        return lambda flat: assign(keras.ops.array(flat.copy()))
    import tensorflow as tf
    graph = tf.function(assign, input_signature=[tf.TensorSpec((at,), tf.float32)])
    return lambda flat: graph(tf.constant(flat.copy()))


Triple = Tuple[Any, Any, Any]


def _triple(x: Any, y: Any) -> Triple:
    """(x, y, sample_weight) of what was read."""
    if y is None and isinstance(x, (tuple, list)) and len(x) == 3:
        return x[0], x[1], x[2]
    return x, y, None


def _parts(batch: Batch, given: Source, accumulate: int) -> List[Triple]:
    """The batches that a step is made of, as (x, y, sample_weight)."""
    if given.batched:
        return [_triple(*_halves(item)) for item in batch.x.items]
    if accumulate == 1:
        return [_triple(batch.x, batch.y)]
    out = []
    for first in range(0, len(batch.samples), given.unit):
        out.append(_triple(_cut(batch.x, first, given.unit),
                           _cut(batch.y, first, given.unit)))
    return out


def _cut(tree: Any, first: int, count: int) -> Any:
    return map_arrays(lambda a: a[first:first + count], tree)


def _halves(item: Any) -> Tuple[Any, Any]:
    """(x, y) of a batch of a PyDataset; a list is inputs, not a pair."""
    if isinstance(item, tuple) and len(item) == 2:
        return item[0], item[1]
    return item, None


class _Epochs:
    """What callbacks are told of the epochs that this program sees. A closure of one
    that comes late counts with the one that is under way."""

    def __init__(self, callbacks: Any, model: Any, collects: Any,
                 plan: Optional[Plan], first: int, validation: "_Validation") -> None:
        self.callbacks, self.model = callbacks, model
        self.collects, self.plan, self.first = collects, plan, first
        self.validation = validation
        self.logs: Dict[str, float] = {}
        self._now, self._open, self._batch = first - 1, False, 0
        self._sum, self._count = 0.0, 0

    def begin(self, epoch: int) -> bool:
        """Before a batch of this epoch of the job: ends the one before, and begins
        this one. False if a callback has ended the training."""
        epoch += self.first
        if epoch <= self._now:
            return True
        self.leave()
        if self.model.stop_training:
            return False
        self._now, self._open, self._batch = epoch, True, 0
        self._sum, self._count = 0.0, 0
        _reset(self.model)
        self._tell("before")
        self.callbacks.on_epoch_begin(epoch)
        self._check_rate("during")
        return True

    def begin_batch(self) -> None:
        self.callbacks.on_train_batch_begin(self._batch)

    def end_batch(self, logs: Dict[str, float]) -> None:
        self.logs = logs
        self.callbacks.on_train_batch_end(self._batch, logs)
        self._batch += 1

    def leave(self) -> None:
        """The end of the epoch under way, if one is."""
        if not self._open:
            return
        self._open = False
        logs = {**self.logs, **self.validation.of(self.model, self._now)}
        self._check_rate("during")
        self.callbacks.on_epoch_end(self._now, logs)
        self.logs = logs
        self._check_rate("after")

    def _tell(self, when: str) -> None:
        """Callbacks see the rate that the epoch under way has."""
        self._rate = self.collects.rate()
        if self.plan is not None:
            self._rate = getattr(self.plan, when)[self._now - self.plan.first]
            self.collects.set_rate(self._rate)

    def _check_rate(self, when: str) -> None:
        if not isinstance(self.collects._learning_rate, keras.Variable):
            return
        want = self._rate
        if self.plan is not None:
            want = getattr(self.plan, when)[self._now - self.plan.first]
        now = self.collects.rate()
        if abs(now - want) > 1e-6 * abs(want):
            raise Unforeseen(
                f"a callback has set the learning rate to {now:g} in epoch "
                f"{self._now + 1}, where the job has {want:g}; psservers step the "
                "optimizer by the job's schedule, which has to be known before: set "
                "it in on_epoch_begin by the epoch alone (LearningRateScheduler), or "
                "give the optimizer a schedule of Keras")

    def loss_of(self, logs: Dict[str, float], count: int) -> float:
        """Of this batch alone; `logs` has the mean of the epoch so far."""
        self._count += count
        total = float(logs.get("loss", 0.0)) * self._count
        loss, self._sum = (total - self._sum) / count, total
        return loss


class Unforeseen(ValueError):
    """A callback has changed what the job goes by."""


class NotStepped(ValueError):
    """A train_step leaves no gradient."""


class _Validation:
    """validation_data of `fit`, and when and how it is used."""

    def __init__(self, data: Any, batch_size: Optional[int], steps: Optional[int],
                 freq: Any) -> None:
        if isinstance(freq, int) and freq < 1:
            raise ValueError(f"validation_freq={freq}: 1 or more, or a list of epochs")
        self.data, self.batch_size, self.steps, self.freq = data, batch_size, steps, freq

    def of(self, model: Any, epoch: int) -> Dict[str, float]:
        """The metrics after an epoch, counted from 0."""
        due = (epoch + 1) % self.freq == 0 if isinstance(self.freq, int) else (
            epoch + 1 in self.freq)
        if self.data is None or not due:
            return {}
        _reset(model)
        x, y, weight = (*self.data, None)[:3] if isinstance(
            self.data, (tuple, list)) else (self.data, None, None)
        said = model.evaluate(x, y, sample_weight=weight, verbose=0, steps=self.steps,
                              batch_size=None if y is None else self.batch_size,
                              return_dict=True)
        return {f"val_{k}": v for k, v in said.items()}


def _reset(model: Any) -> None:
    type(model).reset_metrics(model)


@contextlib.contextmanager
def _collecting(model: Any, rate: Any) -> Iterator[_Collects]:
    """The model's train_step leaves gradients instead of stepping its optimizer."""
    was, collects = model.optimizer, _Collects(rate)
    optimizer: Any = collects
    if isinstance(was, keras.optimizers.LossScaleOptimizer):
        optimizer = keras.optimizers.LossScaleOptimizer(
            collects, was.initial_scale, was.dynamic_growth_steps)
    with _training(model, optimizer):
        yield collects


@contextlib.contextmanager
def _training(model: Any, optimizer: Any) -> Iterator[None]:
    """The model has another optimizer; its train_step is given what `model.fit` gives,
    and its metrics go on from batch to batch."""
    was, own = model.optimizer, model.train_step
    model.optimizer = optimizer
    if not optimizer.built:
        optimizer.build(model.trainable_variables)

    def train_step(*given: Any) -> Any:  # on JAX with a state before the data
        data = keras.utils.unpack_x_y_sample_weight(given[-1])
        return own(*given[:-1], keras.utils.pack_x_y_sample_weight(*data))

    model.train_function, model.reset_metrics = None, lambda: None
    model.train_step = train_step
    try:
        yield
    finally:
        del model.reset_metrics, model.train_step
        model.optimizer, model.train_function = was, None


def _built(model: Any, given: Source) -> None:
    """Variables are there once the model has seen a sample."""
    if model.built:
        return
    if given.batched:
        x = _triple(*_halves(given.data[0]))[0]
    else:
        x = _triple(*Program.read(given.data, 0, 1))[0]
    model(x)


def _callbacks(given: Any, model: Any, verbose: Any, epochs: int, steps: int) -> Any:
    if isinstance(given, keras.callbacks.CallbackList):
        return given
    level = 1 if verbose == "auto" else int(verbose)
    return keras.callbacks.CallbackList(
        given, add_history=True, add_progbar=level != 0, verbose=level, epochs=epochs,
        steps=steps, model=model)


def _compile(model: Any, optimizer: Any, loss: Any, metrics: Any) -> None:
    if loss is not None or not model.compiled:
        model.compile(optimizer=optimizer if optimizer is not None
                      and not isinstance(optimizer, dict) else "rmsprop",
                      loss=loss, metrics=metrics)


def _accumulated(optimizer: Any) -> int:
    """Batches of an update, as the optimizer has it."""
    if isinstance(optimizer, dict):
        return 1
    return int(getattr(_inner(optimizer), "gradient_accumulation_steps", None) or 1)


def _warn_of_rows(model: Any, spec: Json) -> None:
    """Keras on TensorFlow has other updates of an embedding's rows."""
    if keras.backend.backend() == "tensorflow" and spec.get("type") != "sgd" and any(
            isinstance(layer, keras.layers.Embedding)
            for layer in model._flatten_layers()):
        warnings.warn(
            f"an Embedding with {spec.get('type')}: model.fit on TensorFlow squares the "
            "gradients of a row that a batch has several times before it adds them; "
            "here they are added first, as Keras does on torch and JAX", stacklevel=3)


def _fits_tables(model: Any, tables: Tables, validation_data: Any) -> None:
    """ValueError for what `fit` does not do with tables in a model."""
    if tables.specs and validation_data is not None:
        raise ValueError(f"table {tables.specs[0]['name']}: validation_data is not offered "
                         "with tables, whose rows are there while a batch trains alone")
    if tables.specs and isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer):
        raise ValueError(f"table {tables.specs[0]['name']}: gradients of rows are not "
                         "scaled; compute in mixed_bfloat16, which needs no scale")


def fit(model: Any, x: Any, y: Any = None, *, job: str,
        coordinator: Optional[str] = None, batch_size: Optional[int] = None,
        epochs: int = 1, verbose: Union[int, str] = "auto", callbacks: Any = None,
        validation_split: float = 0.0, validation_data: Any = None,
        shuffle: bool = True, class_weight: Any = None, sample_weight: Any = None,
        initial_epoch: int = 0, steps_per_epoch: Optional[int] = None,
        validation_steps: Optional[int] = None,
        validation_batch_size: Optional[int] = None,
        validation_freq: Union[int, Sequence[int]] = 1,
        optimizer: Any = None, loss: Any = None, metrics: Any = None,
        **cluster: Unpack[Cluster]) -> Any:
    """Trains `model` as one of the programs of a job, until the job has ended.
    Returns Keras' History, with the job's id as `history.job`.

    job            name; programs that say the same name train together
    x, y, sample_weight   arrays with one row per sample, or trees of them; or x
                   alone: a tf.data.Dataset, which is read whole; a
                   keras.utils.PyDataset, whose batches the job takes for samples; a
                   torch DataLoader; or what has `len` and `[number]` of (x, y) or
                   (x, y, weight) of one sample
    batch_size     samples of a step, of one program: 32, if no dataset says it. With
                   an optimizer's gradient_accumulation_steps=k a step is k of these
    epochs, initial_epoch   of the whole job: each sample once an epoch, whoever is
                   there. The job has epochs - initial_epoch of them
    steps_per_epoch   an epoch is so many batches of a stream of passes over the data
    shuffle        whether the cluster draws an order; a dataset says it itself
    class_weight, validation_*   as of `model.fit`; validation after an epoch, by each
                   program
    optimizer, loss, metrics   of a model that is not compiled; `optimizer` also
                   instead of the compiled one: of Keras, a name, or a dict
    callbacks      of Keras. One that sets `model.stop_training` ends the job, after
                   a checkpoint, for all programs. One that sets the rate at the
                   beginning or end of an epoch is asked for all of them before
    cluster        tls, name, init, share, train, wait, workers, mode, ranks, every,
                   moments, store, new: as of `Program`
                   (sluice/_program.py)

    ValueError, before there is a job: what cannot be done. RuntimeError: the job
    failed, with its reason. After SIGTERM it returns when the step under way has
    ended; the model then has what this program saw last."""
    local = cluster.get("mode", "async") == "local"
    if epochs <= initial_epoch:
        raise ValueError(f"epochs={epochs} is the last one, and initial_epoch="
                         f"{initial_epoch}: nothing is left to train")
    _compile(model, optimizer, loss, metrics)
    optimizer = model.optimizer if optimizer is None else optimizer
    if local:
        optimizer = keras.optimizers.get(optimizer)
    else:
        optimizer_spec(optimizer)
    accumulate = 1 if local else _accumulated(optimizer)
    if validation_split and validation_data is None:
        (x, y, sample_weight), validation_data = split(x, y, sample_weight,
                                                       validation_split)
    if class_weight is not None and sample_weight is not None:
        raise ValueError("class_weight and sample_weight are two words for one thing: "
                         "multiply them into sample_weight")
    given = source(x, y, sample_weight, batch_size, steps_per_epoch, shuffle)
    train = {"shuffle": given.shuffle, **(cluster.get("train") or {})}
    cluster["train"] = train
    tables = Tables(model, None if given.batched else given.unit)
    _fits_tables(model, tables, validation_data)
    _built(model, given)
    told = _callbacks(callbacks, model, verbose, epochs, given.batches)
    validation = _Validation(validation_data, validation_batch_size or (
        None if given.batched else given.unit), validation_steps, validation_freq)
    model.stop_training = False
    if local:
        inner = Inner(optimizer, model)
        seen = _Epochs(told, model, inner, None, initial_epoch, validation)
        with tables, _training(model, inner.optimizer), (
                _KerasLocalBatches if given.batched else _KerasLocal)(
                    model, job, coordinator, None, given, 1, None, class_weight, tables,
                    **cluster) as steps:
            steps.inner = inner
            _train(steps, inner, seen, epochs - initial_epoch)
        model.history.job = steps.id
        return model.history
    spec = optimizer_spec(optimizer, model.trainable_variables)
    _warn_of_rows(model, spec)
    each = updates(math.ceil(given.batches / accumulate), cluster.get("mode", "async"),
                   cluster.get("ranks"), train)
    with tables, _collecting(model, schedule_of(spec) or 1.0) as collects:
        plan = planned(told, model, collects, initial_epoch, epochs)
        spec = spec if plan is None else by_epoch(spec, plan, each)
        seen = _Epochs(told, model, collects, plan, initial_epoch, validation)
        with (_KerasBatches if given.batched else _Keras)(
                model, job, coordinator, spec, given, accumulate, each, class_weight,
                tables, **cluster) as program:
            _train(program, collects, seen, epochs - initial_epoch)
    model.history.job = program.id
    return model.history


def _train(program: _Keras, collects: Any, seen: _Epochs, epochs: int) -> None:
    """All that the cluster gives to this program, with what callbacks are told."""
    model, told, given = program.model, seen.callbacks, program.given
    told.on_train_begin()
    stopped = False
    batches: Any = program.batches(given.data, given.unit * program.accumulate, epochs)
    try:
        with contextlib.closing(batches):
            for batch in batches:
                stopped = not seen.begin(batch.epoch)
                if not stopped:
                    program.step(batch, collects, seen)
                    stopped = model.stop_training
                if stopped:
                    break
    except (Unforeseen, NotStepped):
        program.stop()
        raise
    if stopped:
        program.end()
    if program.ended():
        program.load()
    seen.leave()
    told.on_train_end(seen.logs)
