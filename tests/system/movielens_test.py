#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ratings of MovieLens (GroupLens' ml-100k, from RecBole's wheel): with sparse tables,
programs and workers that are killed reach what the same net reaches in torch alone."""
import functools
import re
import shutil
import statistics
import subprocess
import sys

import numpy as np

import orphans
from cluster import ROOT, Cluster, check, check_counts, check_equal
from frames import main_with, run, train_and_die
from frameworks import PYTHON

NEAR = 0.002  # seeds of torch alone differ by as much in RMSE, and by 0.0005 in AUC
EXAMPLE = "torch_movielens.py"


def ratings():
    found = subprocess.run(
        [PYTHON, "-c", "import importlib.util as u; print(u.find_spec('recbole').origin)"],
        check=True, capture_output=True, text=True).stdout
    return found.rsplit("/", 1)[0] + "/dataset_example/ml-100k/ml-100k.inter"


@functools.cache
def alone(*words):
    """What it prints, with two seeds."""
    return "".join(run(orphans.CODE, ROOT / "examples" / EXAMPLE, "--alone", f"--seed={seed}",
                       *words) for seed in (1, 2))


def reached(said, figure):
    found = [float(x) for x in re.findall(rf"{figure} (\d\.\d+)", said)]
    check_equal(len(found), 2, "programs that say what they reached")
    return found


def as_alone(model, figure, better):
    words = [f"--ratings={ratings()}", f"--model={model}"]
    want = statistics.mean(reached(alone(*words), figure))
    with Cluster(psservers=2, workers=0) as c:
        for got in reached(train_and_die(c, EXAMPLE, (300, 700), *words), figure):
            check((got - want) * better > -NEAR, f"{figure} {got}; in torch alone {want}")


def matrix_factorization_predicts_ratings_as_alone():
    as_alone("mf", "RMSE", -1)


def deepfm_ranks_films_as_alone():
    as_alone("deepfm", "AUC", 1)


def split_as_alone(folder):
    """Data of movielens.yaml beside it: the ratings that torch trains and tests with."""
    sys.path.insert(0, str(ROOT / "examples"))
    import movielens_data
    lines = list(movielens_data.ratings(ratings()))
    lines = [lines[i] for i in np.random.default_rng(1).permutation(len(lines))]
    times = [line[3] for line in lines]
    for name, part in (("movielens", [line for i, line in enumerate(lines) if i % 5]),
                       ("movielens-test", lines[::5])):
        movielens_data.write(folder / f"{name}.csv", part, min(times), max(times))


def a_spec_alone_ranks_films_as_torch_alone():
    want = statistics.mean(reached(
        alone(f"--ratings={ratings()}", "--model=deepfm"), "AUC"))
    with Cluster(psservers=2, workers=2) as c:
        spec = shutil.copy(ROOT / "examples" / "movielens.yaml", c.dir)
        split_as_alone(c.dir)
        job = c.run("submit", spec, "--no-wait").stdout.strip()
        for steps, member in ((300, "w-0"), (700, "ps-1"), (1100, "w-1")):
            c.wait_steps(job, steps)
            c.restart(member)
        done = c.wait_state(job)
        check_counts(done)
        (got,) = [m["value"] for m in done["evaluations"][-1]["metrics"] if m["name"] == "auc"]
        check(got - want > -NEAR, f"AUC {got}; in torch alone {want}")


if __name__ == "__main__":
    main_with("recbole", [matrix_factorization_predicts_ratings_as_alone,
                          deepfm_ranks_films_as_alone,
                          a_spec_alone_ranks_films_as_torch_alone])
