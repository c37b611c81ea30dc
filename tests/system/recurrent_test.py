#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Layers that go step by step: the examples learn what they are to,
while workers die, and every step counts once."""
import shutil
import subprocess
import sys

from cluster import ROOT, Cluster, check, check_counts, check_equal, main


def example(c, name):
    """The spec of an example beside the data that its program writes."""
    for file in (f"{name}.yaml", f"{name}_data.py"):
        shutil.copy(ROOT / "examples" / file, c.dir / file)
    subprocess.run([sys.executable, c.dir / f"{name}_data.py"], check=True)
    return c.dir / f"{name}.yaml"


def learnt(c, name, *more):
    """How it ended, where a worker has died on the way and another one come."""
    job = c.run("submit", example(c, name), "--no-wait", *more).stdout.strip()
    c.wait_steps(job, 100)
    c.kill("w-0")
    c.start("w-0")
    done = c.wait_state(job)
    check_counts(done)
    return done["evaluations"][-1]


def a_forecast_learns_its_waves():
    for more in ([], ["--set", "train.mode=sync"]):
        with Cluster(psservers=2, workers=2) as c:
            error = learnt(c, "forecast", "--set", "train.epochs=2", *more)["metrics"][0]
            check_equal(error["name"], "mean_absolute_error", "metric")
            # Noise of 0.05 alone is 0.04; a net that knew nothing would have 0.6.
            check(error["value"] < 0.2, more, error)


def languages_of_code_are_told_apart():
    with Cluster(psservers=2, workers=2) as c:
        accuracy = learnt(c, "code", "--set", "train.epochs=2")["accuracy"]
        check(accuracy > 0.65, "accuracy", accuracy)  # 1/3 by chance; about 0.85


if __name__ == "__main__":
    main([a_forecast_learns_its_waves, languages_of_code_are_told_apart])
