#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train.inner.closure: a contribution counts several closures in one push. Each closure
counts once whatever dies, and a worker that is told to leave pushes those that it has.
With train.inner.pace own, a slower worker's contributions have fewer.

The moments of death come from a seed: SLUICE_SEED repeats a failure.
"""
import os
import random
import threading

from cluster import LONG_LEASE, Cluster, check, check_counts, main, wait_for
from local_test import local_job
from meet_test import check_survives

SEED = int(os.environ.get("SLUICE_SEED", random.SystemRandom().randrange(1 << 32)))
dice = random.Random(SEED)


def sets_job(name, quorum, contributions, steps=6, closure=2, pace="equal", **options):
    spec = local_job(name, contributions, steps, quorum=quorum, **options)
    spec["train"]["inner"].update(closure=closure, pace=pace)
    return spec


class Slowed:
    """While it is entered, a process stands still nine tenths of the time."""

    def __init__(self, c, name):
        self.process, self.over = (c, name), threading.Event()
        self.thread, self.error = threading.Thread(target=self.run), None

    def run(self):
        c, name = self.process
        try:
            while not self.over.is_set():
                try:
                    c.pause(name)
                    self.over.wait(0.045)
                finally:
                    c.resume(name)
                self.over.wait(0.005)
        except Exception as error:  # to be raised where it is waited for
            self.error = error

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *failed):
        self.over.set()
        self.thread.join()
        if self.error and failed[0] is None:
            raise self.error


def updates(status):
    return [int(s["counts"]["version"]) for s in status["shards"]]


def applied(status):
    return [int(s["counts"]["applied"]) for s in status["shards"]]


def a_contribution_counts_several_closures():
    with Cluster(psservers=2, workers=2) as c:
        done = c.wait_state(c.submit(sets_job("one", 1, 2, steps=240, closure=80,
                                              samples=76800, epochs=4)))
        check_counts(done)
        for version, keys in zip(updates(done), applied(done)):
            check(version < 0.5 * keys, f"{version} updates count {keys} closures")
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


def steps_of(status):
    """The steps of each worker's last contribution."""
    return {w["worker"]: int(w.get("steps", 0))
            for w in status.get("local", {}).get("workers", [])}


def a_slow_worker_has_fewer_steps_and_all_of_them_again_when_it_is_fast():
    spec = sets_job("pace", 1, 2, steps=160, closure=40, pace="own", samples=64000, epochs=4000)
    with Cluster(psservers=2, workers=2, coordinator_args=LONG_LEASE) as c:
        job = c.submit(spec)
        with Slowed(c, "w-1"):
            wait_for("w-1 to have fewer steps", lambda: steps_of(c.status(job)) in (
                {"w-0": 160, "w-1": 40}, {"w-0": 160, "w-1": 80}))
        wait_for("w-1 to have most of them again",
                 lambda: steps_of(c.status(job)).get("w-1", 0) >= 120)
        text = c.run("status", job).stdout
        check(" steps, loss" in text, "status lacks steps", text)
        c.run("stop", job, "--now")
        c.wait_state(job, "stopped")


def rounds_of_contributions_of_any_length_count_each_closure_once():
    spec = sets_job("rounds", 2, 4, steps=160, closure=20, pace="own", samples=76800, epochs=6)
    with Cluster(psservers=2, workers=3, coordinator_args=LONG_LEASE) as c:
        job = c.submit(spec)
        with Slowed(c, "w-1"):
            done = c.wait_state(job)
        check_counts(done)
        for version, keys in zip(updates(done), applied(done)):
            check(keys > 6 * version, f"{version} updates count {keys} closures")


def everything_dies_and_each_closure_counts_once():
    for quorum, pace in ((2, "own"), (1, "equal")):
        check_survives(sets_job("all", quorum, 4, pace=pace, samples=6400, epochs=18), dice,
                       1500)


if __name__ == "__main__":
    print(f"SLUICE_SEED={SEED}", flush=True)
    main([a_contribution_counts_several_closures, a_quorum_is_of_contributions,
          a_slow_worker_has_fewer_steps_and_all_of_them_again_when_it_is_fast,
          rounds_of_contributions_of_any_length_count_each_closure_once,
          everything_dies_and_each_closure_counts_once])
