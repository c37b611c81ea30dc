#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shards with a replica on another psserver, which takes over when theirs dies. Whoever
dies, every sample of every epoch is in the parameters once, to the last integer
(exact.py), and no closure is computed again that was done.

The moments of death come from a seed: SLUICE_SEED repeats them.
"""
import os
import random
import signal
import time

import exact
from cluster import PATIENCE, Cluster, check, check_counts, check_equal, main, wait_for

SEED = int(os.environ.get("SLUICE_SEED", random.SystemRandom().randrange(1 << 32)))
dice = random.Random(SEED)
EPOCHS = 150 if PATIENCE > 1 else 600
SHARDS = 4


class Bed(Cluster):
    """Three psservers and two workers, and a job of four shards with replicas."""

    def __init__(self, mode, epochs=EPOCHS, psservers=3):
        super().__init__(psservers=psservers, workers=2)
        self.mode, self.epochs = mode, epochs

    def begin(self):
        spec = exact.exact_job(self, f"replica-{self.mode}", self.epochs, self.mode, units=SHARDS)
        spec["checkpoint"]["every_epoch"] = False
        self.job = self.submit({**spec, "placement": {
            "shard_bytes": exact.SAMPLES * 4, "replicas": 1}})
        wait_for("replicas", lambda: len(self.replicas()) == SHARDS, 60)

    def shards(self):
        return self.status(self.job)["shards"]

    def replicas(self):
        """The psserver of the replica of each shard that has one."""
        return [s["replica"] for s in self.shards() if s.get("replica")]

    def events(self, kind):
        return [e for e in self.json("events", self.job)["events"] if e["kind"] == kind]

    def finish(self):
        check_counts(self.wait_state(self.job))
        exact.check_exact(self, self.job, self.epochs)


def owners_die_one_after_the_other(mode):
    with Bed(mode) as c:
        c.begin()
        for _ in range(3):
            if int(c.status(c.job)["steps_counted"]) > int(c.status(c.job)["steps_asked"]) * 0.6:
                break
            victim = dice.choice(sorted({s["psserver"] for s in c.shards()}))
            had = sum(s["psserver"] == victim for s in c.shards())
            promoted = len(c.events("replica-promoted"))
            c.kill(victim, signal.SIGKILL)
            wait_for("replicas to take over",
                     lambda: len(c.events("replica-promoted")) >= promoted + had)
            check(victim not in {s["psserver"] for s in c.shards()}, f"a shard is on {victim}")
            c.start(victim)
            wait_for("new replicas", lambda: len(c.replicas()) == SHARDS, 60)
            print(f"{mode}: {victim} died with {had} shards", flush=True)
        check(c.events("replica-promoted"), "no replica took over")
        status = c.status(c.job)
        check_equal(status["state"], "running", "state")
        c.finish()
        # What a round held is volatile (Y2); what was counted is not computed again.
        most = len(c.events("replica-promoted")) * exact.ROUND if mode != "async" else 0
        again = int(c.status(c.job)["closures_retried"])
        check(again <= most, f"{again} closures were computed again")


def owners_die_one_after_the_other_in_async():
    owners_die_one_after_the_other("async")


def owners_die_one_after_the_other_in_sync():
    owners_die_one_after_the_other("sync")


def a_replica_that_stands_still_leaves_and_training_goes_on():
    with Bed("async", psservers=2) as c:
        c.begin()
        victim = c.shards()[0]["replica"]
        os.kill(c.processes[victim].pid, signal.SIGSTOP)
        out = lambda: [e for e in c.events("replica-out")]
        try:
            wait_for("the replica to leave the set", out)
        finally:
            os.kill(c.processes[victim].pid, signal.SIGCONT)
        c.finish()


if __name__ == "__main__":
    print(f"SLUICE_SEED={SEED}", flush=True)
    main([owners_die_one_after_the_other_in_async, owners_die_one_after_the_other_in_sync,
          a_replica_that_stands_still_leaves_and_training_goes_on])
