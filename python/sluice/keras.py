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
- learning rates change by a schedule of the optimizer, not by a callback
- weights that are not trained (batch norm's statistics) are this process's own
"""
from __future__ import annotations

import contextlib
import math
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

import keras
import numpy as np

from ._data import Batch, length
from ._program import Json, Program
from .keras_weights import load_weights, save_weights

__all__ = ["fit", "load_weights", "optimizer_spec", "save_weights"]

_SCHEDULES = {"ExponentialDecay": "exponential_decay",
              "PiecewiseConstantDecay": "piecewise_constant_decay",
              "PolynomialDecay": "polynomial_decay",
              "InverseTimeDecay": "inverse_time_decay",
              "CosineDecay": "cosine_decay",
              "CosineDecayRestarts": "cosine_decay_restarts"}
_FIELDS = {"SGD": ("momentum", "nesterov"),
           "Adam": ("beta_1", "beta_2", "epsilon", "amsgrad"),
           "AdamW": ("beta_1", "beta_2", "epsilon", "amsgrad"),
           "Adagrad": ("initial_accumulator_value", "epsilon"),
           "RMSprop": ("rho", "momentum", "epsilon", "centered")}


# ---- Keras' words -> the job's

def _schedule(schedule: Any) -> Json:
    kind = type(schedule).__name__
    if kind not in _SCHEDULES:
        raise ValueError(f"{kind} is no schedule of psservers: "
                         f"{', '.join(_SCHEDULES)} are")
    config = {k: v for k, v in schedule.get_config().items()
              if k != "name" and v is not None}
    rate = config.pop("initial_learning_rate", None)
    if "first_decay_steps" in config:
        config["decay_steps"] = config.pop("first_decay_steps")
    if "warmup_target" not in config:
        config.pop("warmup_steps", None)
    spec: Json = {"schedule": {"type": _SCHEDULES[kind], **config}}
    return spec if rate is None else {"learning_rate": float(rate), **spec}


def optimizer_spec(optimizer: Any) -> Json:
    """The job's `optimizer` for one of Keras', or its name; ValueError for what a
    psserver does not do. A dict is taken as it is."""
    if isinstance(optimizer, dict):
        return optimizer
    optimizer = keras.optimizers.get(optimizer)
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        optimizer = optimizer.inner_optimizer
    kind = type(optimizer).__name__
    if kind not in _FIELDS:
        raise ValueError(f"{kind} is not offered by psservers: {', '.join(_FIELDS)} "
                         "are, or say it as a dict")
    config = optimizer.get_config()
    for name in ("use_ema", "gradient_accumulation_steps", "loss_scale_factor"):
        if config.get(name):
            raise ValueError(f"{kind}({name}={config[name]!r}) is not offered")
    if (getattr(optimizer, "_exclude_from_weight_decay", None)
            or getattr(optimizer, "_exclude_from_weight_decay_pattern", None)):
        raise ValueError("exclude_from_weight_decay is not offered by psservers")
    schedule = getattr(optimizer, "_learning_rate", None)
    if isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
        spec = _schedule(schedule)
    elif isinstance(config["learning_rate"], float):
        spec = {"learning_rate": config["learning_rate"]}
    else:
        raise ValueError("a learning rate that is a function of the program's is not "
                         "offered: say a schedule of Keras")
    for name in ("weight_decay", "clipnorm", "clipvalue", "global_clipnorm"):
        if config.get(name):
            spec[name] = float(config[name])
    return {"type": kind.lower(), **spec, **{name: config[name]
                                             for name in _FIELDS[kind]}}


class _Collects(keras.optimizers.Optimizer):
    """Stands where the model's train_step has its optimizer: keeps the gradient in
    one flat variable and changes nothing else, on every backend."""

    built: bool

    def __init__(self, rate: float) -> None:
        super().__init__(learning_rate=rate, name="sluice")

    def build(self, variables: List[Any]) -> None:
        super().build(variables)
        self.sizes = [math.prod(v.shape) for v in variables]
        self.flat = self.add_variable((sum(self.sizes),), "zeros", "float32",
                                      name="gradient")

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        grads = list(grads)
        if not self.built:
            with keras.name_scope(self.name, caller=self):
                self.build(list(trainable_variables))
            self.built = True
        parts = [keras.ops.zeros((n,)) if g is None else
                 keras.ops.cast(keras.ops.reshape(g, (n,)), "float32")
                 for g, n in zip(grads, self.sizes)]
        self.flat.assign(keras.ops.concatenate(parts))
        self._iterations.assign_add(1)


# ---- the model on a cluster

class _Keras(Program):
    def __init__(self, model: Any, job: str, coordinator: Optional[str],
                 optimizer: Json, **cluster: Any) -> None:
        self.model = model
        for v in model.trainable_variables:
            if keras.backend.standardize_dtype(v.dtype) != "float32":
                raise ValueError(f"{v.path} is {v.dtype}; parameters are float32 "
                                 "(compute in less by a dtype policy)")
            if v.constraint is not None:
                raise ValueError(f"{v.path} has a constraint, which psservers do not "
                                 "keep")
        super().__init__(job, coordinator, [(v.path, tuple(v.shape))
                                            for v in model.trainable_variables],
                         optimizer, **cluster)
        self.device = f"keras, {keras.backend.backend()}"
        if keras.backend.backend() == "jax":
            self._start = "spawn"  # JAX has threads that a fork leaves behind
        self._assign = _assigner(model.trainable_variables)

    def _values(self) -> Dict[str, Any]:
        return {v.path: keras.ops.convert_to_numpy(v.value)
                for v in self.model.trainable_variables}

    def _fresh(self) -> None:
        assert self._closure is not None
        self._assign(self._closure.params)

    def step(self, batch: Batch, collects: _Collects, seen: "_Epochs"
             ) -> Dict[str, float]:
        """Runs the model's train_step on a batch and pushes the gradient that it
        has left; gives the epoch's metrics so far."""
        assert self._closure is not None
        self._begun()
        x, y, weight = _parts(batch)
        applied = int(collects.iterations)
        logs: Dict[str, float] = self.model.train_on_batch(
            x, y, sample_weight=weight, return_dict=True)
        skip = int(collects.iterations) == applied  # by a LossScaleOptimizer
        if not skip:
            np.copyto(self._closure.grads,
                      keras.ops.convert_to_numpy(collects.flat.value))
        self._done(seen.loss_of(logs, len(batch.samples)), skip=skip)
        return logs

    def load(self) -> None:
        values = self.learnt()
        for v in self.model.trainable_variables:
            v.assign(values[v.path].reshape(v.shape))


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


def _parts(batch: Batch) -> Tuple[Any, Any, Any]:
    """(x, y, sample_weight)"""
    if batch.y is None and isinstance(batch.x, (tuple, list)) and len(batch.x) == 3:
        return batch.x[0], batch.x[1], batch.x[2]
    return batch.x, batch.y, None


class _Epochs:
    """What callbacks are told of the epochs that this program sees. A closure of one
    that comes late counts with the one that is under way."""

    def __init__(self, callbacks: Any, model: Any, rate: float, validation: Any,
                 batch_size: int) -> None:
        self.callbacks, self.model, self._rate = callbacks, model, rate
        self.validation, self.batch_size = validation, batch_size
        self.logs: Dict[str, float] = {}
        self._now, self._open, self._batch = -1, False, 0
        self._sum, self._count = 0.0, 0

    def begin_batch(self, epoch: int) -> None:
        if epoch > self._now:
            self.leave()
            self._now, self._open, self._batch = epoch, True, 0
            self._sum, self._count = 0.0, 0
            _reset(self.model)
            self.callbacks.on_epoch_begin(epoch)
            self._check_rate()
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
        logs = {**self.logs, **self._validate()}
        self.callbacks.on_epoch_end(self._now, logs)
        self.logs = logs
        self._check_rate()

    def _validate(self) -> Dict[str, float]:
        if self.validation is None:
            return {}
        _reset(self.model)
        x, y, weight = (*self.validation, None)[:3] if isinstance(
            self.validation, (tuple, list)) else (self.validation, None, None)
        said = self.model.evaluate(x, y, sample_weight=weight, verbose=0,
                                   batch_size=None if y is None else self.batch_size,
                                   return_dict=True)
        return {f"val_{k}": v for k, v in said.items()}

    def _check_rate(self) -> None:
        now = float(self.model.optimizer.learning_rate)
        if abs(now - self._rate) > 1e-6 * self._rate:
            raise ValueError(
                f"a callback has set the learning rate to {now:g}; psservers step the "
                "optimizer and do not see that: give it a schedule of Keras")

    def loss_of(self, logs: Dict[str, float], count: int) -> float:
        """Of this batch alone; `logs` has the mean of the epoch so far."""
        self._count += count
        total = float(logs.get("loss", 0.0)) * self._count
        loss, self._sum = (total - self._sum) / count, total
        return loss


def _reset(model: Any) -> None:
    type(model).reset_metrics(model)


@contextlib.contextmanager
def _collecting(model: Any, rate: float) -> Iterator[_Collects]:
    """The model's train_step leaves gradients instead of stepping its optimizer,
    and its metrics go on from batch to batch, as in `model.fit`."""
    was, collects = model.optimizer, _Collects(rate)
    model.optimizer = collects
    if isinstance(was, keras.optimizers.LossScaleOptimizer):
        model.optimizer = keras.optimizers.LossScaleOptimizer(
            collects, was.initial_scale, was.dynamic_growth_steps)
    model.optimizer.build(model.trainable_variables)
    model.train_function, model.reset_metrics = None, lambda: None
    try:
        yield collects
    finally:
        del model.reset_metrics
        model.optimizer, model.train_function = was, None


def _built(model: Any, data: Any, program_read: Any) -> None:
    """Variables are there once the model has seen a sample."""
    if not model.built:
        x = program_read(data, 0, 1)[0]
        model(x[0] if isinstance(x, (tuple, list)) and len(x) == 3 else x)


def _callbacks(given: Any, model: Any, verbose: Any, epochs: int, steps: int) -> Any:
    if isinstance(given, keras.callbacks.CallbackList):
        return given
    level = 1 if verbose == "auto" else int(verbose)
    return keras.callbacks.CallbackList(
        given, add_history=True, add_progbar=level != 0, verbose=level, epochs=epochs,
        steps=steps, model=model)


def fit(model: Any, x: Any, y: Any = None, *, job: str,
        coordinator: Optional[str] = None, batch_size: int = 32, epochs: int = 1,
        sample_weight: Any = None, validation_data: Any = None,
        callbacks: Any = None, verbose: Union[int, str] = "auto",
        optimizer: Any = None, loss: Any = None, metrics: Any = None,
        **cluster: Any) -> Any:
    """Trains `model` as one of the programs of a job, until the job has ended.
    Returns Keras' History, with the job's id as `history.job`.

    x, y           arrays with one row per sample, or trees of them; or x alone: a
                   data set with `len` and `[number]` of (x, y) or (x, y, weight)
    job            name; programs that say the same name train together
    batch_size     samples of a step, of one program
    epochs         of the whole job: each sample once an epoch, whoever is there
    sample_weight  shape (samples,)
    optimizer, loss, metrics   of a model that is not compiled; `optimizer` also
                   instead of the compiled one: of Keras, a name, or a dict
    callbacks      of Keras. One that sets `model.stop_training` ends the job, after
                   a checkpoint, for all programs. ValueError if one sets the rate
    validation_data  as `model.evaluate` takes it, or a tuple; after each epoch
    cluster        tls, name, init, share, train, wait, workers, mode, ranks,
                   store: as of `Program`
                   (sluice/_program.py)

    RuntimeError: the job failed, with its reason. After SIGTERM it returns when the
    step under way has ended; the model then has what this program saw last."""
    data = x if y is None and sample_weight is None else (
        (x, y) if sample_weight is None else (x, y, sample_weight))
    if loss is not None or not model.compiled:
        model.compile(optimizer=optimizer if optimizer is not None
                      and not isinstance(optimizer, dict) else "rmsprop",
                      loss=loss, metrics=metrics)
    spec = optimizer_spec(model.optimizer if optimizer is None else optimizer)
    _built(model, data, Program.read)
    rate = float(spec.get("learning_rate", 1.0))
    steps = math.ceil(length(data) / batch_size)
    told = _callbacks(callbacks, model, verbose, epochs, steps)
    seen = _Epochs(told, model, rate, validation_data, batch_size)
    model.stop_training = False
    with _collecting(model, rate) as collects, _Keras(
            model, job, coordinator, spec, **cluster) as program:
        told.on_train_begin()
        for batch in program.batches(data, batch_size, epochs):
            seen.begin_batch(batch.epoch)
            seen.end_batch(program.step(batch, collects, seen))
            if model.stop_training:
                program.stop()
                break
        if program.ended():
            program.load()
        seen.leave()
        told.on_train_end(seen.logs)
    model.history.job = program.id
    return model.history
