#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a job says where steps are skipped and where nothing was applied, and what its
callbacks make of what was trained. One cluster for all cases."""
import json

import numpy
from safetensors.numpy import load_file

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


def half_skipped_is_a_warning(c):
    """In the status, and an event once, however short the job is."""
    for mode in RINGS:
        for bad in (0, 6, 20):
            spec = linear(f"skip-{mode}-{bad}", {"train": ones(c, bad)}, 2, mode, batch=1, epochs=1)
            end = c.ends(spec)
            many = [w for w in end["warnings"] if f"{bad} of 40 updates were skipped" in w]
            check_equal(len(many), 1 if bad else 0, f"{mode}, {bad} of 40: warnings {end['warnings']}")
            told = events(c, end["id"], "updates-skipped")
            check_equal([" of 40 updates" in e["text"] or e["text"] for e in told], [True] if bad else [], "events")


def nothing_applied_is_failed(c):
    """However short it is, and by whatever it ends."""
    for mode in MODES:
        spec = linear(f"none-{mode}", {"train": ones(c, 40)}, 2, mode, batch=20, epochs=1)
        end = c.ends(spec, want="failed")
        check("updates was applied: no loss or gradient was finite; " in end["reason"], end["reason"])
    spec.update(callbacks={"early_stopping": {"monitor": "loss", "patience": 1}}, evaluate={"every_steps": 1})
    spec["train"].update(batch=1, epochs=4)
    end = c.ends(spec, want="failed")
    check("updates was applied" in end["reason"], end["reason"])


def callbacks_loss_without_test(c):
    for mode in MODES:
        for evaluate in ({}, {"evaluate": {"every_epochs": 1}}):
            spec = linear(f"cb-{mode}", {"train": learnable(c)}, mode=mode, epochs=3)
            spec.update(callbacks={"best_checkpoint": {"monitor": "loss"}}, **evaluate)
            end = c.ends(spec)
            check_equal(len(end["evaluations"]), 3, f"{mode}: evaluations")
            if mode != "allreduce":
                exported(c, end["id"], "--best")


CASES = [half_skipped_is_a_warning, nothing_applied_is_failed, callbacks_loss_without_test]


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
