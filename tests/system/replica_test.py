#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shards with a replica on another psserver, which takes over when theirs dies. Whoever
dies, every sample of every epoch is in the parameters once, to the last integer
(exact.py), and no closure is computed again that was done; but for what a replica lacks that
follows behind the answers.

The moments of death come from a seed: SLUICE_SEED repeats them.
"""
import functools
import os
import random
import re
import signal
import subprocess

import exact
from cluster import (BIN, ENDED, HISTORY, LONG_LEASE, check, check_counts, check_equal, main,
                     wait_for)

SEED = int(os.environ.get("SLUICE_SEED", random.SystemRandom().randrange(1 << 32)))
dice = random.Random(SEED)
EPOCHS = 20 if HISTORY else 100
SHARDS = 4
FAR = 40  # closures that are computed behind a snapshot
# A psserver that a coordinator does not find when it starts is waited for so long.
SOON = ["--lease-ms", "4000"]


class Bed(exact.While):
    """Three psservers and two workers, and a job of four shards with replicas."""

    def __init__(self, epochs, mode, psservers=3, coordinator_args=(), replicate="ack"):
        super().__init__(psservers=psservers, workers=2,
                         coordinator_args=coordinator_args or LONG_LEASE)
        self.mode, self.epochs, self.replicate = mode, epochs, replicate

    def begin(self):
        spec = exact.exact_job(self, f"replica-{self.mode}", self.epochs, self.mode, units=SHARDS)
        spec["checkpoint"]["every_epoch"] = False
        self.job = self.submit({**spec, "placement": {
            "shard_bytes": exact.SAMPLES * 4, "replicas": 1, "replicate": self.replicate}})
        self.wait_replicas()

    def shards(self):
        return self.status(self.job)["shards"]

    def wait_replicas(self):
        """Waits until each shard has one; returns their psservers."""
        def probe():
            now = self.status(self.job)
            check(now["state"] not in ENDED, f"{self.job} is {now['state']}, and had few replicas")
            found = [s["replica"] for s in now["shards"] if s.get("replica")]
            return found if len(found) == SHARDS else None
        return wait_for("replicas", probe)

    def events(self, kind):
        return [e for e in self.json("events", self.job)["events"] if e["kind"] == kind]

    def kill_owner(self):
        """Kills a psserver with shards; returns its name and how many these were."""
        shards = self.shards()
        victim = dice.choice(sorted({s["psserver"] for s in shards}))
        self.kill(victim)
        return victim, sum(s["psserver"] == victim for s in shards)

    def promoted(self):
        """How often a replica took over; an event may tell of several shards."""
        told = [re.search(r"takes over (?:(\d+) shards|shard \d+) of", e["text"])
                for e in self.events("replica-promoted")]
        return sum(int(found[1] or 1) for found in told)

    def wait_promoted(self, count):
        wait_for("replicas to take over", lambda: self.promoted() >= count)

    def trains(self):
        """The job has not ended, and counts more steps."""
        self.wait_steps(self.job, self.steps(self.job) + 1)
        check_equal(self.status(self.job)["state"], "running", "state")

    def again(self):
        return int(self.status(self.job)["closures_retried"])

    def finish(self):
        """Counts and sums are exact, with `ack` at no cost."""
        self.ends = True
        check_counts(self.wait_state(self.job))
        exact.check_exact(self, self.job, self.epochs)
        if self.replicate == "follow":
            return
        # What a round held is volatile (Y2); what was counted is not computed again.
        most = self.promoted() * exact.ROUND if self.mode == "sync" else 0
        check(self.again() <= most, f"{self.again()} closures were computed again")


def owners_die_one_after_the_other(epochs, mode):
    with Bed(epochs, mode) as c:
        c.begin()
        promoted = 0
        for _ in range(3):
            victim, had = c.kill_owner()
            promoted += had
            c.wait_promoted(promoted)
            check(victim not in {s["psserver"] for s in c.shards()}, f"a shard is on {victim}")
            c.start(victim)
            c.wait_replicas()
            print(f"{mode}: {victim} died with {had} shards", flush=True)
        c.trains()
        c.finish()


def training_goes_on_without_an_owner(epochs, mode):
    """The psserver that is left has all shards, and no replicas."""
    with Bed(epochs, mode, psservers=2) as c:
        c.begin()
        _, had = c.kill_owner()
        c.wait_promoted(had)
        check_equal(len({s["psserver"] for s in c.shards()}), 1, "psservers with shards")
        c.trains()
        c.finish()


def a_dead_replica_is_replaced(epochs, mode):
    """Its shards get another one, on the third psserver, which then takes over."""
    with Bed(epochs, mode) as c:
        c.begin()
        victim = c.shards()[0]["replica"]
        c.kill(victim)
        wait_for("the replica to leave the set", lambda: c.events("replica-out"))
        check(victim not in c.wait_replicas(), f"a replica is on {victim}")
        before = c.promoted()
        _, had = c.kill_owner()
        c.wait_promoted(before + had)
        c.trains()
        c.finish()


def the_coordinator_dies_first(epochs, mode):
    """A coordinator that restarts finds the replicas as they were; one that finds an
    owner dead has its replica take over."""
    with Bed(epochs, mode, psservers=2, coordinator_args=SOON) as c:
        c.begin()
        placed = [(s["psserver"], s["replica"]) for s in c.shards()]
        for m in c.json("servers")["members"]:
            check_equal(m.get("replicas", 0), sum(p[1] == m["name"] for p in placed), "replicas")
        c.restart("coordinator")
        c.trains()
        c.wait_replicas()
        check_equal([(s["psserver"], s.get("replica")) for s in c.shards()], placed, "replicas")
        check(not c.events("replica-out"), "a replica left the set")
        victim, had = placed[0][0], sum(p[0] == placed[0][0] for p in placed)
        c.kill("coordinator")
        c.kill(victim)
        c.start("coordinator")
        c.wait_promoted(had)
        c.trains()
        c.finish()


def an_owner_comes_back_without_its_memory(epochs, mode):
    """The coordinator, which was away, has not seen it die. P5"""
    with Bed(epochs, mode, psservers=2) as c:
        c.begin()
        victim = dice.choice(sorted({s["psserver"] for s in c.shards()}))
        had = sum(s["psserver"] == victim for s in c.shards())
        c.kill("coordinator")
        c.kill(victim)
        c.start(victim, wait=False)  # ready once it is attached
        c.start("coordinator")
        c.wait_promoted(had)
        c.wait_replicas()
        c.trains()
        c.finish()


def an_owner_that_stands_still_is_the_owner_no_more(epochs, mode):
    """Its replica takes over. What it wakes with is refused: workers that ask it are
    told nothing that its replica lacks (P3, P4)."""
    with Bed(epochs, mode, psservers=2) as c:
        c.begin()
        shards = c.shards()
        victim = shards[0]["psserver"]
        c.pause(victim)
        try:
            c.wait_promoted(sum(s["psserver"] == victim for s in shards))
            c.trains()
        finally:
            c.resume(victim)
        c.wait_replicas()
        c.finish()


def a_replica_that_stands_still_leaves_and_training_goes_on(epochs, mode):
    with Bed(epochs, mode, psservers=2) as c:
        c.begin()
        victim = c.shards()[0]["replica"]
        c.pause(victim)
        try:
            wait_for("the replica to leave the set", lambda: c.events("replica-out"))
        finally:
            c.resume(victim)
        c.finish()


def an_owner_dies_and_its_replica_follows(epochs, mode):
    """Pushes did not wait for the replica (P6). What it lacks is computed again, and that is
    less than all since its psserver's newest snapshot, with which the replica began."""
    with Bed(epochs, mode, psservers=2, replicate="follow") as c:
        c.begin()
        check(all(s.get("follows") for s in c.shards()), "a replica is none that follows")
        before = int(c.status(c.job)["closures_counted"])
        wait_for("closures", lambda: int(c.status(c.job)["closures_counted"]) >= before + FAR)
        since = int(c.status(c.job)["closures_counted"]) - before
        _, had = c.kill_owner()
        c.wait_promoted(had)
        check_equal(len({s["psserver"] for s in c.shards()}), 1, "psservers with shards")
        c.trains()
        print(f"{mode}: {c.again()} closures were computed again, of {since} since the snapshot",
              flush=True)
        check(c.again() < since, f"{c.again()} closures were computed again, of {since}")
        c.finish()


def a_replica_that_follows_stands_still_and_nothing_waits(epochs, mode):
    """It leaves the set, and has begun anew when its owner dies."""
    with Bed(epochs, mode, psservers=2, replicate="follow") as c:
        c.begin()
        victim = c.shards()[0]["replica"]
        c.pause(victim)
        try:
            wait_for("the replica to leave the set", lambda: c.events("replica-out"))
        finally:
            c.resume(victim)
        c.wait_replicas()
        before = c.promoted()
        _, had = c.kill_owner()
        c.wait_promoted(before + had)
        c.trains()
        c.finish()


# In a build with faults: where the coordinator dies while a psserver is lost, or a replica
# joins.
POINTS = ["replica.commit", "replica.committed", "replica.in"]


def dies_at(c, point):
    """All replicas are there before, and after it."""
    armed = c.restart("coordinator", environment={"SLUICE_FAULT": f"{point}=kill@1"})
    c.wait_replicas()
    victim, _ = c.kill_owner()
    if point == "replica.in":
        c.start(victim, wait=False)
    wait_for(f"the coordinator to die at {point}", lambda: armed.poll() is not None)
    check_equal(c.processes.pop("coordinator").returncode, -signal.SIGKILL, "exit status")
    c.start("coordinator")
    wait_for("replicas to take over", lambda: victim not in {s["psserver"] for s in c.shards()})
    if point != "replica.in":
        c.start(victim)
    c.wait_replicas()


def the_coordinator_dies_in_the_middle(epochs, mode):
    if b"replica.commit" not in subprocess.run([BIN / "coordinator", "--list-faults"],
                                               check=False, capture_output=True).stdout:
        print("no build with faults: nobody is killed", flush=True)
        return
    with Bed(2 * epochs, mode, psservers=2, coordinator_args=SOON) as c:
        c.begin()
        for point in dice.sample(POINTS, len(POINTS)):
            dies_at(c, point)
            print(f"coordinator {point}", flush=True)
        c.trains()
        c.finish()


def in_mode(test, mode):
    """The test as a case of its own."""
    def case():
        exact.long_enough(functools.partial(test, mode=mode), EPOCHS)
    case.__name__ = f"{test.__name__}_in_{mode}"
    return case


if __name__ == "__main__":
    print(f"SLUICE_SEED={SEED}", flush=True)
    main([in_mode(test, mode)
          for test in (owners_die_one_after_the_other, training_goes_on_without_an_owner,
                       a_dead_replica_is_replaced, the_coordinator_dies_first,
                       an_owner_comes_back_without_its_memory,
                       an_owner_that_stands_still_is_the_owner_no_more) for mode in ("async", "sync")]
         + [in_mode(a_replica_that_stands_still_leaves_and_training_goes_on, "async"),
            in_mode(the_coordinator_dies_in_the_middle, "async"),
            in_mode(an_owner_dies_and_its_replica_follows, "async"),
            in_mode(an_owner_dies_and_its_replica_follows, "sync"),
            in_mode(a_replica_that_follows_stands_still_and_nothing_waits, "async")])
