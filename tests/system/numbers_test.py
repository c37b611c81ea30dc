#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a job says of its loss where nothing is known, where steps are skipped and where
nothing was applied, and what its callbacks make of that. One cluster for all cases."""
import json
import math

import numpy
from safetensors.numpy import load_file, save_file

from cluster import Cluster, check, check_equal, main

MODES = {"async": {}, "sync": {"contributions": 1}, "allreduce": {"contributions": 1},
         "hybrid": {"group": {"by": "any", "size": 2}}}
RINGS = ("async", "sync", "allreduce")
TRUE = numpy.array([1, 2, 3, 4], "f4")


class Bed(Cluster):
    """Ranks of a ring write their checkpoints here."""

    def command(self, name):
        return super().command(name) + (["--store", str(self.dir / "store")] if name[0] == "w" else [])

    def data(self, name, x, y):
        path = self.dir / f"{name}.npz"
        if not path.exists():
            numpy.savez(path, x=x, y=y)
        return {"format": "npz", "x": str(path)}

    def ends(self, spec, *more, want="finished"):
        job = self.submit(spec, *more)
        return self.wait_state(job, want)

    def summary(self, job):
        path = self.dir / "summary.json"
        self.run("watch", job, "--summary", path, want=None)
        return json.loads(path.read_text())


def linear(name, data, n=4, mode="async", **train):
    """One output, weights that begin at zero: what was learned shows in the kernel."""
    if mode == "hybrid" and "batch" in train:
        train["batch"] = max(1, train["batch"] // 2)
    return {"name": name, "loss": "mean_squared_error",
            "model": {"input_shape": [n], "layers": [
                {"type": "dense", "name": "d", "units": 1, "kernel_initializer": "zeros"}]},
            "optimizer": {"type": "sgd", "learning_rate": 0.05},
            "data": data, "checkpoint": {"every_seconds": 0},
            "train": {"batch": 8, "precision": "f32", "shuffle": False, **train, **MODES[mode],
                      **({} if mode == "async" else {"mode": mode})}}


def learnable(c):
    x = numpy.random.default_rng(0).normal(size=(64, 4)).astype("f4")
    return c.data("x64", x, (x @ TRUE).astype("f4"))


def ones(c, bad):
    """40 samples whose loss is 1 each, while the weights are 0; `bad` of them NaN."""
    x = numpy.ones((40, 2), "f4")
    x[:bad] = numpy.nan
    return c.data(f"ones{bad}", x, numpy.ones(40, "f4"))


def exported(c, job, *more):
    path = c.dir / "out.safetensors"
    path.unlink(missing_ok=True)
    c.run("export", job, "--to", path, *more)
    return load_file(path)["d/kernel"].ravel()


def events(c, job, kind):
    lines = c.run("events", job, "-o", "jsonl").stdout.splitlines()
    return [e for e in map(json.loads, lines) if e.get("kind") == kind]


def skipped_loss(c):
    """The mean is over the samples that were applied, however many were not."""
    for mode in RINGS:
        for bad in (0, 20, 36):
            spec = linear(f"skip-{mode}-{bad}", {"train": ones(c, bad)}, 2, mode, batch=1, epochs=1)
            spec["optimizer"]["learning_rate"] = 1e-30
            end = c.ends(spec)
            check_equal(end["loss"], 1.0, f"{mode}, {bad} of 40 samples are NaN: loss")
            check_equal(end["accuracy"], None, f"{mode}: accuracy of a loss that has none")
            check_equal(int(end["updates_applied"]), 40 - bad, "applied")
            check_equal(c.summary(end["id"])["training_loss"], 1.0, "loss of the summary")
            many = [w for w in end["warnings"] if f"{bad} of 40 updates were skipped" in w]
            check_equal(len(many), 1 if bad else 0, f"warnings {end['warnings']}")
            told = events(c, end["id"], "updates-skipped")
            # Told once, with the numbers of that moment.
            check_equal(["updates were skipped" in e["text"] for e in told], [True] if bad else [],
                        f"events {told}")
    spec = linear("skip-accuracy", {"train": ones(c, 20)}, 2, batch=1, epochs=1)
    spec["model"]["layers"][0]["units"] = 2
    spec["loss"] = "sparse_categorical_crossentropy"
    spec["optimizer"]["learning_rate"] = 1e-30
    numpy.savez(c.dir / "classes.npz", x=numpy.load(c.dir / "ones20.npz")["x"], y=numpy.zeros(40, "i8"))
    spec["data"]["train"]["x"] = str(c.dir / "classes.npz")
    end = c.ends(spec)
    check_equal(end["accuracy"], 1.0, "accuracy where half of the steps are skipped")
    check(abs(end["loss"] - math.log(2)) < 1e-6, f"cross entropy {end['loss']}")


def broken_after_48(c, mode, name, callback):
    """A job learns for 48 steps, and then its rate breaks it. Gives its end."""
    spec = linear(f"{name[:4]}-{mode}", {"train": learnable(c)}, mode=mode, epochs=13)
    spec["optimizer"] = {"type": "sgd", "schedule": {
        "type": "piecewise_constant_decay", "boundaries": [48], "values": [0.05, 1e25]}}
    spec.update(callbacks={name: callback}, evaluate={"every_steps": 8})
    end = c.ends(spec)
    losses = {int(e["steps"]): e["train_loss"] for e in end["evaluations"]}
    for step, loss in losses.items():
        if step <= 48:
            check(loss is not None and 0 < loss < 40, f"{mode} {name}: loss of the steps to {step}", losses)
    return end, losses


def best_of_nothing(c):
    """What follows when a job breaks is no best. Training waits for early stopping."""
    for mode in RINGS:
        end, losses = broken_after_48(c, mode, "early_stopping", {
            "monitor": "loss", "patience": 3, "restore_best_weights": True})
        for step, loss in losses.items():
            check(step < 64 or loss is None, f"{mode}: steps to {step} have no finite loss", losses)
        said = end["callbacks"]["early_stopping"]
        check_equal(int(said["best_steps"]), 48, f"{mode}: the best, of {losses}")
        check_equal(said["best"], losses[48], "its value")
        kernel = exported(c, end["id"])
        check(abs(kernel - TRUE).max() < 0.1, f"{mode}: exported {kernel}")
        text = c.run("status", end["id"]).stdout
        check("loss 0.0000" not in text and "loss -" in text, text)
        check("after step 48" in end["reason"], end["reason"])


def the_best_of_a_quick_job(c):
    """No checkpoint's loss is of steps behind it, which were told before its evaluation."""
    for mode in MODES:
        end, losses = broken_after_48(c, mode, "best_checkpoint", {"monitor": "loss"})
        said = end["callbacks"]["best_checkpoint"]
        early = [loss for step, loss in losses.items() if step <= 48]
        if early:
            check(said["best"] is not None and said["best"] <= min(early), f"{mode}: the best, of {losses}: {said}")
            check(numpy.isfinite(exported(c, end["id"], "--best")).all(), f"{mode}: exported")


def nothing_applied_is_failed(c):
    """However short it is, and by whatever it ends."""
    for mode in MODES:
        spec = linear(f"none-{mode}", {"train": ones(c, 40)}, 2, mode, batch=20, epochs=1)
        end = c.ends(spec, want="failed")
        check("updates was applied: no loss or gradient was finite; the data is not finite: sample" in end["reason"],
              end["reason"])
        check_equal(end["loss"], None, f"{mode}: loss")
        check_equal(c.summary(end["id"])["training_loss"], None, f"{mode}: loss of the summary")
        text = c.run("status", end["id"]).stdout
        check("0.0000" not in text, text)
    spec.update(callbacks={"early_stopping": {"monitor": "loss", "patience": 1}}, evaluate={"every_steps": 1})
    spec["train"].update(batch=1, epochs=4)
    end = c.ends(spec, want="failed")
    check("updates was applied" in end["reason"], end["reason"])
    row = [line.split() for line in c.run("jobs").stdout.splitlines() if line.startswith(end["id"] + " ")][0]
    check("-" in row and "0.0000" not in row, row)


def nan_in_weights(c):
    """Refused with the variable and the place, before anything is trained."""
    kernel = numpy.ones((4, 1), "f4")
    kernel[2, 0] = numpy.nan
    bias = numpy.zeros(1, "f4")
    bias[0] = -numpy.inf
    for name, tensors, text in (
            ("nan", {"d/kernel": kernel, "d/bias": numpy.zeros(1, "f4")}, "d/kernel[2, 0] is nan"),
            ("inf", {"d/kernel": numpy.ones((4, 1), "f4"), "d/bias": bias}, "d/bias[0] is -inf")):
        path = c.dir / f"{name}.safetensors"
        save_file(tensors, path)
        for mode in MODES:
            (c.dir / "job.json").write_text(json.dumps(
                linear(f"w-{mode}", {"train": learnable(c)}, mode=mode, epochs=1)))
            done = c.run("submit", c.dir / "job.json", "--weights", path, want=None)
            check(done.returncode != 0 and text in done.stderr, f"{mode}: {done.returncode}", done.stderr, done.stdout)


def callbacks_loss_without_test(c):
    for mode in MODES:
        for evaluate in ({}, {"evaluate": {"every_epochs": 1}}):
            spec = linear(f"cb-{mode}", {"train": learnable(c)}, mode=mode, epochs=3)
            spec.update(callbacks={"best_checkpoint": {"monitor": "loss"}}, **evaluate)
            end = c.ends(spec)
            losses = [e["train_loss"] for e in end["evaluations"]]
            check_equal(len(losses), 3, f"{mode}: evaluations")
            check(all(loss > 0 for loss in losses), f"{mode}: losses {losses}")
            check_equal([e["loss"] for e in end["evaluations"]], [None] * 3, "losses of no test set")
            exported(c, end["id"], "--best")


def evaluation_is_of_its_epoch(c):
    """Quick epochs may share a checkpoint: each evaluation says of which steps it is, and
    has the loss of plain gradient descent after those."""
    x = numpy.load(learnable(c)["x"])["x"].astype("f8")
    y, a = x @ TRUE, numpy.hstack([x, numpy.ones((64, 1))])
    w, losses = numpy.zeros(5), [0]
    for step in range(40):
        half = slice(32 * (step % 2), 32 * (step % 2) + 32)
        w = w - 0.02 * 2 * a[half].T @ (a[half] @ w - y[half]) / 32
        losses.append(float(((a @ w - y) ** 2).mean()))
    for mode in MODES:
        spec = linear(f"of-{mode}", {"train": learnable(c), "test": learnable(c)}, mode=mode, batch=32, epochs=20)
        spec["optimizer"]["learning_rate"] = 0.02
        end = c.ends(spec)
        check_equal([int(e["epoch"]) for e in end["evaluations"]], list(range(1, 21)), f"{mode}: epochs")
        for e in end["evaluations"]:
            want = losses[int(e["steps"])]
            check(int(e["steps"]) >= 2 * int(e["epoch"]), f"{mode}: steps", e)
            check(abs(e["loss"] - want) < 1e-4 * (1 + want), f"{mode}: after {e['steps']} steps it is {want}", e)
        told = [e["text"] for e in events(c, end["id"], "evaluation-done")]
        check(told and not any(" at 0 steps" in text for text in told), "events", *told)


CASES = [skipped_loss, best_of_nothing, the_best_of_a_quick_job, nothing_applied_is_failed, nan_in_weights,
         callbacks_loss_without_test, evaluation_is_of_its_epoch]


def each(c):
    """The cases as main() wants them: named, and without an argument."""
    def one(case):
        def test():
            case(c)
        test.__name__ = case.__name__
        return test
    return [one(case) for case in CASES]


if __name__ == "__main__":
    with Bed(psservers=1, workers=1) as cluster:
        main(each(cluster))
