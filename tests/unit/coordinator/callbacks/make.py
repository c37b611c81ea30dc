#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Keras' own callbacks do with sequences of evaluations.

    build-bench/peers-venv/bin/python tests/unit/coordinator/callbacks/make.py > .../vectors.txt
    .../make.py --check     says whether vectors.txt is what this Keras does

Values are multiples of 1/64 and so are the deltas (or far from any difference),
so f32 and f64 compare them alike; `x` is an evaluation without that value.

    early MODE PATIENCE MIN_DELTA BASELINE|x START | VALUES | STOPPED | BEST EPOCH | WAITS
    plateau MODE PATIENCE MIN_DELTA FACTOR COOLDOWN MIN_LR LR | VALUES | LR AFTER EACH
    best MODE | VALUES | SAVED: 1 or 0 each
    auto METRIC PATIENCE MIN_DELTA | VALUES | STOPPED | BEST EPOCH | WAITS

The last is early stopping with mode auto, of a model that has this metric of
evaluate.metrics, whose direction is Keras' own.

STOPPED is the epoch, from 0, at whose end training stopped, or -1; BEST EPOCH
the one whose weights are restored, or -1 if there is none.
"""
import os
import pathlib
import random
import sys

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", KERAS_BACKEND="jax",
                  JAX_PLATFORMS="cpu", PYTHONWARNINGS="ignore")
try:
    import keras
    import numpy
except ImportError:
    if os.environ.get("SLUICE_NEED_PEERS"):
        raise  # nothing may be left out here: ./run-tests --all
    sys.exit(77)  # no Keras here: skipped

HERE = pathlib.Path(__file__).resolve().parent


def model(rate=0.5):
    m = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    m.compile(optimizer=keras.optimizers.SGD(rate), loss="mse")
    return m


def sequence(draw, count, missing):
    """Goes somewhere, and then not."""
    at, values = draw.randrange(64, 256), []
    for i in range(count):
        at = max(0, at + draw.choice([-24, -8, -1, 0, 0, 1, 4] if i < count // 2
                                     else [-4, -1, 0, 1, 2, 16]))
        values.append("x" if missing and draw.random() < 0.1 else at / 64)
    return values


def logs(value):
    return {} if value == "x" else {"val_loss": value}


def text(values):
    return " ".join(v if isinstance(v, str) else f"{v:.10g}" for v in values)


def early(draw):
    mode, patience = draw.choice(["min", "max"]), draw.randrange(1, 5)
    delta, start = draw.choice([0, 0, 1 / 64, 4 / 64]), draw.choice([0, 0, 0, 2, 5])
    baseline = draw.choice([None, None, 1.0, 2.5])
    values = sequence(draw, draw.randrange(6, 24), draw.random() < 0.3)
    cb = keras.callbacks.EarlyStopping(
        monitor="val_loss", mode=mode, patience=patience, min_delta=delta,
        baseline=baseline, start_from_epoch=start, restore_best_weights=True)
    m = model()
    cb.set_model(m)
    cb.on_train_begin()
    waits, stopped = [], -1
    for epoch, value in enumerate(values):
        cb.on_epoch_end(epoch, logs(value))
        waits.append(cb.wait)
        if m.stop_training:
            stopped = epoch
            break
    best = cb.best_epoch if cb.best_weights is not None else -1
    return (f"early {mode} {patience} {delta:.10g} {'x' if baseline is None else baseline} "
            f"{start} | {text(values)} | {stopped} | {best} | {text(waits)}")


def plateau(draw):
    mode, patience = draw.choice(["min", "max"]), draw.randrange(1, 4)
    delta, factor = draw.choice([0, 1e-4, 4 / 64]), draw.choice([0.1, 0.5, 0.25])
    cooldown, least = draw.choice([0, 0, 1, 3]), draw.choice([0, 0.03, 1e-3])
    values = sequence(draw, draw.randrange(8, 24), draw.random() < 0.3)
    cb = keras.callbacks.ReduceLROnPlateau(
        monitor="val_loss", mode=mode, patience=patience, min_delta=delta,
        factor=factor, cooldown=cooldown, min_lr=least)
    m = model()
    cb.set_model(m)
    cb.on_train_begin()
    rates = []
    for epoch, value in enumerate(values):
        cb.on_epoch_end(epoch, logs(value))
        rates.append(float(m.optimizer.learning_rate))
    return (f"plateau {mode} {patience} {delta:.10g} {factor} {cooldown} {least} 0.5 | "
            f"{text(values)} | {text(rates)}")


def best(draw):
    mode = draw.choice(["min", "max"])
    values = sequence(draw, draw.randrange(4, 16), False)
    cb = keras.callbacks.ModelCheckpoint("best.weights.h5", monitor="val_loss", mode=mode,
                                         save_best_only=True, save_weights_only=True)
    cb.set_model(model())
    cb._set_monitor_op()
    saved = [int(cb._should_save_model(i, None, logs(v), "")) for i, v in enumerate(values)]
    return f"best {mode} | {text(values)} | {text(saved)}"


METRICS = {"accuracy": keras.metrics.BinaryAccuracy,
           "top_k": lambda name: keras.metrics.TopKCategoricalAccuracy(1, name=name),
           "precision": keras.metrics.Precision, "recall": keras.metrics.Recall,
           "auc": keras.metrics.AUC, "mean_absolute_error": keras.metrics.MeanAbsoluteError,
           "mean_squared_error": keras.metrics.MeanSquaredError,
           "root_mean_squared_error": keras.metrics.RootMeanSquaredError}


def auto(draw, metric):
    patience, delta = draw.randrange(1, 4), draw.choice([0, 1 / 64])
    values = sequence(draw, draw.randrange(8, 20), draw.random() < 0.3)
    if draw.random() < 0.6:  # rises, and then not
        values = [v if v == "x" else 8 - v for v in values]
    m = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, "sigmoid")])
    m.compile(loss="mse", metrics=[METRICS[metric](name=metric)])
    m.evaluate(numpy.ones((1, 1)), numpy.ones((1, 1)), verbose=0)  # it has its metrics then
    cb = keras.callbacks.EarlyStopping(monitor=f"val_{metric}", mode="auto", patience=patience,
                                       min_delta=delta, restore_best_weights=True)
    cb.set_model(m)
    cb.on_train_begin()
    waits, stopped = [], -1
    for epoch, value in enumerate(values):
        cb.on_epoch_end(epoch, {} if value == "x" else {f"val_{metric}": value})
        waits.append(cb.wait)
        if m.stop_training:
            stopped = epoch
            break
    best_ = cb.best_epoch if cb.best_weights is not None else -1
    return f"auto {metric} {patience} {delta:.10g} | {text(values)} | {stopped} | {best_} | {text(waits)}"


def lines():
    draw = random.Random(20)
    yield f"# made by make.py with Keras {keras.__version__}"
    for kind, count in ((early, 40), (plateau, 40), (best, 10)):
        for _ in range(count):
            yield kind(draw)
    for metric in METRICS:
        for _ in range(3):
            yield auto(draw, metric)


def main():
    made = "\n".join(lines()) + "\n"
    if "--check" not in sys.argv:
        sys.stdout.write(made)
        return
    kept = (HERE / "vectors.txt").read_text()
    if kept.splitlines()[1:] != made.splitlines()[1:]:
        sys.exit("vectors.txt is not what this Keras does")


if __name__ == "__main__":
    main()
