#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ratings of MovieLens (GroupLens' ml-100k, from RecBole's wheel): programs with sparse
tables that are killed reach what the same net reaches in torch alone."""
import re
import statistics
import subprocess

from cluster import ROOT, Cluster, check, check_equal
from frames import ENVIRONMENT, main_with, train_and_die
from frameworks import PYTHON

NEAR = 0.002  # seeds of torch alone differ by as much in RMSE, and by 0.0005 in AUC
EXAMPLE = "torch_movielens.py"


def ratings():
    found = subprocess.run(
        [PYTHON, "-c", "import importlib.util as u; print(u.find_spec('recbole').origin)"],
        check=True, capture_output=True, text=True).stdout
    return found.rsplit("/", 1)[0] + "/dataset_example/ml-100k/ml-100k.inter"


def alone(*words):
    """What it prints, with two seeds."""
    runs = [subprocess.Popen(
        [PYTHON, ROOT / "examples" / EXAMPLE, "--alone", f"--seed={seed}", *words],
        stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) for seed in (1, 2)]
    said = "".join(run.communicate()[0] for run in runs)
    check_equal([run.returncode for run in runs], [0, 0], "exit of torch alone")
    return said


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


if __name__ == "__main__":
    main_with("recbole", [matrix_factorization_predicts_ratings_as_alone,
                          deepfm_ranks_films_as_alone])
