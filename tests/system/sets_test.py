#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train.inner.closure: a contribution counts several closures in one push. Each closure
counts once whatever dies, and a worker that is told to leave pushes those that it has.

The moments of death come from a seed: SLUICE_SEED repeats a failure.
"""
import os
import random

from cluster import Cluster, check, check_counts, main
from local_test import local_job
from meet_test import check_survives

SEED = int(os.environ.get("SLUICE_SEED", random.SystemRandom().randrange(1 << 32)))
dice = random.Random(SEED)


def sets_job(name, quorum, contributions, steps=6, closure=2, **options):
    spec = local_job(name, contributions, steps, quorum=quorum, **options)
    spec["train"]["inner"]["closure"] = closure
    return spec


def updates(status):
    return [int(s["counts"]["version"]) for s in status["shards"]]


def applied(status):
    return [int(s["counts"]["applied"]) for s in status["shards"]]


def a_contribution_counts_several_closures():
    with Cluster(psservers=2, workers=2) as c:
        done = c.wait_state(c.submit(sets_job("one", 1, 2, samples=6400, epochs=20)))
        check_counts(done)
        for version, keys in zip(updates(done), applied(done)):
            check(version < 0.7 * keys, f"{version} updates count {keys} closures")
        check(done["evaluations"][-1]["accuracy"] > 0.7,
              f"accuracy {done['evaluations'][-1]['accuracy']}")


def a_quorum_is_of_contributions():
    """Of three closures each, as most are: two are six closures."""
    with Cluster(psservers=2, workers=2) as c:
        done = c.wait_state(c.submit(sets_job("quorum", 2, 8, steps=240, closure=80,
                                              samples=76800, epochs=4, grace_ms=1)))
        check_counts(done)
        for version, keys in zip(updates(done), applied(done)):
            check(keys > 4.5 * version, f"{version} updates count {keys} closures")


def everything_dies_and_each_closure_counts_once():
    for quorum in (2, 1):
        check_survives(sets_job("all", quorum, 4, samples=12800, epochs=20), dice, 3000)


if __name__ == "__main__":
    print(f"SLUICE_SEED={SEED}", flush=True)
    main([a_contribution_counts_several_closures, a_quorum_is_of_contributions,
          everything_dies_and_each_closure_counts_once])
