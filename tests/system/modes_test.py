#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same training in each mode: accuracies, and the curve of the loss.

By hand, some minutes: fashion_net_learns_in_each_mode, which trains
examples/fashion-cnn.yaml with two workers in each mode."""
import sys

import numpy
from safetensors.numpy import load_file, save_file

from cluster import (Cluster, changed, check, check_counts, fashion_source, main, mlp_job)
from precision_test import EXAMPLE

ACCURACY = 0.89  # of five epochs
UPDATE = 64      # samples of an update, in all modes
CURVE = 1e-3     # of the loss: sums of f32 in another order, over 200 updates

# What each mode has beside the batch, for the same updates by two workers.
MODES = {
    "async": {"batch": UPDATE},
    "sync": {"batch": UPDATE // 2, "contributions": 2},
    "allreduce": {"batch": UPDATE // 2, "contributions": 2},
    "hybrid": {"batch": UPDATE // 2, "group": "{size: 2}"},
}


class Bed(Cluster):
    """Two psservers and two workers, which have a store for rings."""

    def __init__(self, workers=2):
        super().__init__(psservers=2, workers=workers)
        self.args["worker"] += ["--store", str(self.dir / "store")]


def in_mode(mode):
    """The lines of a spec."""
    return "".join(f"  {key}: {value}\n" for key, value in
                   {"mode": mode, **MODES[mode]}.items())


def fashion_net_learns_in_each_mode():
    low = []
    for mode in MODES:
        with Bed() as c:
            path = c.dir / f"{mode}.yaml"
            path.write_text(changed(EXAMPLE.read_text(), {
                "name: fashion-cnn": f"name: {mode}", f"  batch: {UPDATE}\n": in_mode(mode)}))
            done = c.wait_state(c.run("submit", path, "--no-wait").stdout.strip(),
                                limit_s=3600)
            check_counts(done)
            accuracies = [round(e["accuracy"], 4) for e in done["evaluations"]]
            print(f"{mode}: accuracies {accuracies}, {done['elapsed_seconds']:.0f} s",
                  flush=True)
            low += [mode] if accuracies[-1] < ACCURACY else []
    check(not low, f"below {ACCURACY} after five epochs: {low}")


LOCAL = {"batch": UPDATE, "contributions": 2, "inner": {"steps": 5, "up": "int8"}}


def frozen_layers_stay_as_they_began():
    """To the bit, beside others that are trained, with micro-batches, too."""
    for mode, train in [*MODES.items(), ("local", LOCAL),
                        ("sync", {**MODES["sync"], "accumulate": 3})]:
        with Bed() as c:
            spec = mlp_job("frozen", samples=1920, epochs=1)
            spec["model"]["layers"][1] = {"type": "dense", "units": 64, "name": "kept",
                                          "activation": "relu", "trainable": False,
                                          "bias_initializer": "constant(0.1)"}
            spec["model"]["layers"].insert(2, {"type": "batch_normalization", "name": "norm",
                                               "trainable": False})
            spec["train"] = {"mode": mode, "epochs": 1,
                             **{k: {"size": 2} if k == "group" else v
                                for k, v in train.items()}}
            first = c.dir / "first.safetensors"
            draw = numpy.random.default_rng(2)
            values = {"kept/kernel": draw.normal(0, 0.05, (784, 64)),
                      "kept/bias": draw.normal(0, 0.05, 64),
                      "norm/gamma": draw.normal(1, 0.1, 64),
                      "norm/beta": draw.normal(0, 0.1, 64),
                      "norm/moving_mean": draw.normal(0, 0.1, 64),
                      "norm/moving_variance": draw.uniform(0.5, 2, 64),
                      "dense/kernel": draw.normal(0, 0.1, (64, 10)),
                      "dense/bias": numpy.zeros(10)}
            save_file({k: v.astype("f4") for k, v in values.items()}, str(first))
            job = c.submit(spec, "--weights", first)
            check_counts(c.wait_state(job))
            c.run("export", job, "--to", c.dir / "last.safetensors")
            last = load_file(str(c.dir / "last.safetensors"))
            for name, value in values.items():
                same = numpy.array_equal(last[name], value.astype("f4"))
                check(same == ("dense" not in name), f"{mode}: {name} moved, or did not")


def curve(mode, points, workers, train):
    """The loss over all samples after so many epochs of 20 updates each."""
    with Bed(workers) as c:
        jobs = []
        for epochs in points:
            spec = mlp_job(f"{mode}-{epochs}", samples=20 * UPDATE, epochs=epochs,
                           mode=mode, steps_per_closure=1, seed=11, **train)
            spec["data"]["test"] = fashion_source("train", 20 * UPDATE)
            spec["evaluate"] = {"every_epochs": epochs}
            jobs.append(c.submit(spec))
            if mode == "allreduce":  # a ring has all workers
                c.wait_state(jobs[-1])
        done = [c.wait_state(job) for job in jobs]
        for status in done:
            check_counts(status)
        return [status["evaluations"][-1]["loss"] for status in done]


def the_loss_falls_as_in_one_process():
    """One process that has the parameters itself and takes the update's samples
    at once, against rounds of two workers. By hand, with the argument --all:
    ten points of the curve."""
    points = range(1, 11) if "--all" in sys.argv else (2, 10)
    alone = curve("allreduce", points, 1, {"batch": UPDATE, "contributions": 1})
    check(alone[-1] < alone[0] / 1.5, f"the loss does not fall: {alone}")
    for mode in ("sync", "allreduce"):
        found = curve(mode, points, 2, MODES[mode])
        most = max(abs(a / b - 1) for a, b in zip(found, alone))
        print(f"{mode}: the loss after {20 * points[-1]} updates is {found[-1]:.5f}, "
              f"of one process {alone[-1]:.5f}; over the curve of {len(found)} points "
              f"{most:.1e} apart at most", flush=True)
        check(most < CURVE, f"{mode}: {found}, one process: {alone}")


if __name__ == "__main__":
    main([the_loss_falls_as_in_one_process, frozen_layers_stay_as_they_began,
          fashion_net_learns_in_each_mode])
