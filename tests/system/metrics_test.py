#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Metrics of an evaluation (evaluate.metrics): what other programs compute of the same
parameters. NumPy, by the definitions; and Keras itself where it is (bench/setup)."""
import json
import subprocess

import numpy
from safetensors.numpy import load_file

from cluster import BIN, LIMIT, Cluster, check, check_counts, check_equal, main, wait_for
from import_test import data, keras
from frameworks import there

TEST = 2000
NAMES = ["auc", "precision", "recall", "accuracy", "mean_absolute_error",
         "mean_squared_error", "root_mean_squared_error"]


def roc_auc(labels, told):
    """Thresholds of Keras: 200 from 0 to 1, ends a little outside; trapezoids."""
    edges = numpy.linspace(0, 1, 200)
    edges[0], edges[-1] = -1e-7, 1 + 1e-7
    above = told[:, None] > edges.astype("f4")
    right = (above & (labels[:, None] == 1)).sum(0) / (labels == 1).sum()
    wrong = (above & (labels[:, None] == 0)).sum(0) / (labels == 0).sum()
    return float(((wrong[:-1] - wrong[1:]) * (right[:-1] + right[1:]) / 2).sum())


def of_bits(labels, told):
    """name -> value, of probabilities."""
    above, is_one = told > 0.5, labels == 1
    squared = ((told - labels) ** 2).mean()
    return {"auc": roc_auc(labels, told),
            "precision": (above & is_one).sum() / above.sum(),
            "recall": (above & is_one).sum() / is_one.sum(),
            "accuracy": (above == is_one).mean(),
            "mean_absolute_error": abs(told - labels).mean(),
            "mean_squared_error": squared,
            "root_mean_squared_error": squared ** 0.5}


def check_metrics(evaluation, want):
    got = {m["name"]: m["value"] for m in evaluation["metrics"]}
    check_equal(list(got), list(want), "metrics")
    for name, value in want.items():
        check(abs(got[name] - value) < 1e-5, f"{name} is {got[name]}, wanted {value}")


def noisy_bits(c):
    """Bits that are as drawn, so no model knows them all: train.npz, test.npz."""
    random = numpy.random.default_rng(11)
    w = random.normal(size=5)
    for name, count in (("train", 2000), ("test", TEST)):
        x = random.normal(size=(count, 5)).astype("f4")
        y = (random.random(count) < 1 / (1 + numpy.exp(-x @ w))).astype("f4")
        numpy.savez(c.dir / f"{name}.npz", x=x, y=y[:, None])
    return x, y


def bits_job(c):
    return {"name": "bits",
            "model": {"input_shape": [5], "layers": [{"type": "dense", "units": 1}]},
            "loss": "binary_crossentropy", "optimizer": {"type": "sgd", "learning_rate": 0.5},
            "data": {part: {"format": "npz", "x": str(c.dir / f"{part}.npz")}
                     for part in ("train", "test")},
            "train": {"batch": 50, "epochs": 2},
            # So many ranges that the evaluation lasts.
            "evaluate": {"every_epochs": 2, "batch": 1, "batches_per_closure": 1,
                         "metrics": NAMES}}


def metrics_are_those_of_numpy_whoever_is_killed_meanwhile():
    with Cluster(psservers=2, workers=2) as c:
        x, y = noisy_bits(c)
        # One may be over before its coordinator dies, and a watch that dials later fails.
        for count in range(10):
            job, at = c.submit({**bits_job(c), "name": f"bits-{count}"}), len(c.log("coordinator"))
            watch = subprocess.Popen([BIN / "sluice", "--coordinator", c.address, "watch", job],
                                     stdout=subprocess.PIPE, text=True)
            wait_for("an evaluation", lambda: "evaluation begun" in c.log("coordinator")[at:])
            c.kill("coordinator")
            c.restart("w-0")
            c.start("coordinator")
            end = c.wait_state(job)
            begun = c.log("coordinator")[at:].count("evaluation begun")
            shown = watch.communicate(timeout=60 * LIMIT)[0]
            if begun > 1 and watch.returncode == 0:
                break
        check_equal(begun, 2, "evaluations begun")
        check_counts(end)
        c.run("export", job, "--to", c.dir / "m.safetensors")
        m = load_file(str(c.dir / "m.safetensors"))
        logits = (x @ m["dense/kernel"] + m["dense/bias"])[:, 0].astype("f8")
        want = of_bits(y, (1 / (1 + numpy.exp(-logits))).astype("f4"))
        check_equal(end["evaluations"][-1]["samples"], TEST, "samples")
        check_metrics(end["evaluations"][-1], {n: want[n] for n in NAMES})
        check(0.6 < want["auc"] < 0.99, want)
        # And so they are read, also after the coordinator has read its journal again.
        c.restart("coordinator")
        again = c.json("status", job)
        check_equal(again["evaluations"], end["evaluations"], "after a restart")
        text = f", auc {want['auc']:.4f}, precision {want['precision']:.4f}, recall "
        check(text in c.run("status", job).stdout, "status lacks it", text)
        check(text in shown, "watch lacks it", shown, text)
        c.run("watch", job, "--summary", c.dir / "s.json")
        summary = json.loads((c.dir / "s.json").read_text())
        check_equal(list(summary["test_metrics"]), NAMES, "of the summary")
        check(abs(summary["test_metrics"]["auc"][-1] - want["auc"]) < 1e-5, summary)


def metrics_that_mean_nothing_are_refused():
    with Cluster(psservers=0, workers=0) as c:
        job = bits_job(c)
        job.update(loss="mean_squared_error")
        (c.dir / "job.yaml").write_text(json.dumps(job))
        done = c.run("submit", c.dir / "job.yaml", want=2)
        check("auc says nothing about mean_squared_error; that has mean_absolute_error, "
              "mean_squared_error, root_mean_squared_error" in done.stderr, done.stderr)


# Trains nothing itself: makes a compiled model with data, or evaluates it.
PROGRAM = """
import sys, numpy, keras as k
_, what, folder = sys.argv[1:]
from sluice.keras_weights import load_weights
def model(kind):
    last = {"bits": k.layers.Dense(2, "sigmoid"), "classes": k.layers.Dense(6, "softmax"),
            "values": k.layers.Dense(2)}[kind]
    m = k.Sequential([k.Input((5,)), k.layers.Dense(8, "tanh"), last])
    loss, metrics = {
        "bits": ("binary_crossentropy", [k.metrics.AUC(name="auc"), "Precision", "Recall",
                 "mae"]),
        "classes": ("categorical_crossentropy", ["accuracy",
                    k.metrics.TopKCategoricalAccuracy(3, name="top"), "Precision", "Recall",
                    "mse"]),
        "values": ("mse", ["mae", "RootMeanSquaredError"])}[kind]
    m.compile(k.optimizers.SGD(0.2), loss=loss, metrics=metrics)
    return m
random = numpy.random.default_rng(5)
x = random.normal(size=(600, 5)).astype("f4")
z = x @ random.normal(size=(5, 6)) + random.normal(size=(600, 6))
y = {"bits": z[:, :2] > 0, "classes": numpy.eye(6)[z.argmax(1)], "values": z[:, :2]}
for kind in y:
    if what == "make":
        open(f"{folder}/{kind}.json", "w").write(model(kind).to_json())
        numpy.savez(f"{folder}/{kind}.npz", x=x, y=y[kind].astype("f4"))
    else:
        m = model(kind)
        load_weights(m, f"{folder}/{kind}.safetensors")
        values = m.evaluate(x, y[kind].astype("f4"), verbose=0, return_dict=True)
        print(kind, *(f"{n}={v}" for n, v in values.items()))
"""
CALLED = {"auc": "auc", "Precision": "precision", "precision": "precision", "Recall": "recall",
          "recall": "recall", "mae": "mean_absolute_error", "mse": "mean_squared_error",
          "top": "top_k", "accuracy": "accuracy", "loss": "loss",
          "RootMeanSquaredError": "root_mean_squared_error",
          "root_mean_squared_error": "root_mean_squared_error",
          "mean_absolute_error": "mean_absolute_error"}


def metrics_of_an_imported_model_are_those_of_keras():
    with Cluster(psservers=1, workers=2) as c:
        keras("keras", "make", c.dir, PROGRAM)
        jobs = {}
        for kind in ("bits", "classes", "values"):
            spec = c.dir / f"{kind}.yaml"
            c.run("import", c.dir / f"{kind}.json", "-o", spec, *data(f"{kind}.npz"),
                  "--set", "train.epochs=2", "--set", "evaluate.every_epochs=2",
                  "--set", "evaluate.batch=64", "--set", f"name={kind}")
            jobs[kind] = c.run("submit", spec, "--no-wait").stdout.strip()
        ours = {}
        for kind, job in jobs.items():
            told = c.wait_state(job)["evaluations"][-1]
            ours[kind] = {m["name"]: m["value"] for m in told["metrics"]}
            ours[kind].update(accuracy=told["accuracy"], loss=told["loss"])
            c.run("export", job, "--to", c.dir / f"{kind}.safetensors")
        said = " ".join(keras("keras", "evaluate", c.dir, PROGRAM)).replace("=", " = ").split()
        kind, seen = None, 0
        for at, word in enumerate(said):
            kind = word if word in jobs else kind
            if word != "=":
                continue
            name, value = CALLED[said[at - 1]], float(said[at + 1])
            check(abs(ours[kind][name] - value) < 1e-4,
                  f"{name} of {kind} is {ours[kind][name]}, Keras says {value}", ours)
            seen += 1
        check_equal(seen, 5 + 6 + 3, "numbers of Keras")


if __name__ == "__main__":
    TESTS = [metrics_are_those_of_numpy_whoever_is_killed_meanwhile,
             metrics_that_mean_nothing_are_refused]
    if there("keras"):
        TESTS += [metrics_of_an_imported_model_are_those_of_keras]
    main(TESTS)
