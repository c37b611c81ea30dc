#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shards that move while their jobs train: to a psserver that comes later, and away
from one that is drained. Whatever moves and whoever dies meanwhile, every sample of
every epoch is in the parameters once, to the last integer (exact.py).

The moments of death come from a seed: SLUICE_SEED repeats them.
"""
import functools
import os
import random
import signal
import subprocess
import time

import exact
from access_test import Guarded
from cluster import BIN, HISTORY, check, check_counts, check_equal, main, wait_for

SEED = int(os.environ.get("SLUICE_SEED", random.SystemRandom().randrange(1 << 32)))
dice = random.Random(SEED)
EPOCHS = 20 if HISTORY else 150
SHARDS = 8


def lasting(test):
    """A case whose job outlasts what it does meanwhile."""
    @functools.wraps(test)
    def case():
        exact.long_enough(test, EPOCHS)
    return case


class Bed(exact.While):
    """Two psservers with four shards each, and two workers; ps-2 may come."""

    def __init__(self, epochs, mode="async", rows=False, by_files=False, **train):
        super().__init__(psservers=2, workers=2)
        self.mode, self.rows, self.epochs, self.train = mode, rows, epochs, train
        self.by_files = by_files  # in a build with faults: no shard is fed

    def command(self, name):
        return super().command(name) + (["--drain", "--grace", "60s"] if name[:2] == "ps" else [])

    def start(self, name, environment=None, **options):
        faults = [(environment or {}).get("SLUICE_FAULT")]
        if self.by_files and name[:2] == "ps":
            faults.append("feed.begin=error")
        environment = {"SLUICE_FAULT": ",".join(filter(None, faults))} if any(faults) else None
        return super().start(name, environment=environment, **options)

    def begin(self, **placement):
        self.ends = False
        make = exact.rows_job if self.rows else exact.exact_job
        units = {} if self.rows else {"units": SHARDS}  # a shard for each
        spec = make(self, f"move-{self.mode}", self.epochs, self.mode, **units, **self.train)
        if not self.rows:
            placement.update(shard_bytes=exact.SAMPLES * 4)
        spec["checkpoint"]["every_epoch"] = False
        self.job = self.submit({**spec, "placement": placement})
        wait_for("a cut", lambda: int(self.status(self.job)["cuts"]) > 0)

    def busy(self):
        """A job that is far from its end; the ones before have finished, and each is exact."""
        self.ends = True
        now = self.status(self.job)
        self.ends = False
        if int(now["steps_counted"]) > int(now["steps_asked"]) / 2:
            self.finish()
            self.begin()

    def lies(self):
        """{psserver: how many shards of the job}."""
        where = [s["psserver"] for s in self.status(self.job)["shards"]]
        return {name: where.count(name) for name in where}

    def events(self, kind):
        return [e for e in self.json("events", self.job)["events"] if e["kind"] == kind]

    def finish(self):
        self.ends = True
        check_counts(self.wait_state(self.job))
        (exact.check_rows if self.rows else exact.check_exact)(self, self.job, self.epochs)


def shards_move_to_one_more(epochs, mode, rows=False):
    with Bed(epochs, mode, rows) as c:
        c.begin()
        before = c.lies()
        c.start("ps-2")
        if rows:  # one shard on each: nothing to share
            c.run("drain", "ps-0")
        wait_for("shards on ps-2", lambda: c.lies().get("ps-2", 0) >= (1 if rows else 2), 20)
        print(f"{mode}: {before} -> {c.lies()}", flush=True)
        c.finish()
        check(c.events("shard-moved"), "no event tells of a move")
        # What a round held is volatile (Y2); what was counted is not computed again.
        most = len(c.events("shard-moved")) * exact.ROUND if mode != "async" else 0
        again = int(c.status(c.job)["closures_retried"])
        check(again <= most, f"{again} closures were computed again")


@lasting
def one_is_drained_and_stopped(epochs):
    with Bed(epochs) as c:
        c.begin()
        c.start("ps-2")
        c.run("drain", "ps-1", "--why", "a new disk")
        wait_for("ps-1 to be empty", lambda: "ps-1" not in c.lies())
        c.kill("ps-1", signal.SIGKILL)
        check_equal(c.status(c.job)["state"], "running", "state without ps-1")
        c.finish()
        check_equal(int(c.status(c.job)["psservers_lost"]), 0, "psservers lost")


class Named(Guarded, Bed):
    """Each psserver has a certificate of its own name, which is none of a worker: what
    feeds a shard to it calls it as a psserver."""

    def __init__(self, epochs):
        super().__init__([("psserver", f"ps-{i}") for i in range(2)], epochs=epochs)
        self.own = {f"ps-{i}": f"psserver-ps-{i}" for i in range(2)}


@lasting
def sigterm_moves_all_away(epochs):
    with Named(epochs) as c:
        c.begin()
        c.kill("ps-1", signal.SIGTERM)  # waits for its end
        check_equal(c.lies(), {"ps-0": SHARDS}, "where shards lie")
        check('"shard fed"' in c.log("ps-1"), "no shard was fed", c.log("ps-1"))
        c.finish()


# In a build with faults: who dies where, when shards of ps-1 move to ps-0; and where they
# die if shards go by files.
POINTS = [("coordinator", "move.begin"), ("coordinator", "move.prepare"),
          ("coordinator", "move.feeds"), ("coordinator", "move.commit"),
          ("coordinator", "move.committed"), ("ps-1", "feed.ended"), ("ps-1", "feed.told"),
          ("ps-0", "feed.applied"), ("ps-0", "move.loads"), ("ps-0", "snap_read.header")]
FILE_POINTS = [("coordinator", "move.last"), ("coordinator", "move.commit"),
               ("coordinator", "move.committed"), ("ps-1", "move.stopped"),
               ("ps-0", "move.loads"), ("ps-0", "snap_read.header")]


def dies_at(c, victim, point):
    """Shards of ps-1 move to ps-0 meanwhile, and some of them back after it. A psserver
    may not be attached yet, and the coordinator may be dead already: shards move back."""
    def drained():
        return c.run("--timeout", "5s", "drain", "ps-1", want=None).returncode == 0
    wait_for("shards on both", lambda: len(c.lies()) == 2)
    armed = c.restart(victim, wait=victim == "coordinator",
                      environment={"SLUICE_FAULT": f"{point}=kill@1"})
    wait_for("a drain", lambda: armed.poll() is not None or drained())
    wait_for(f"{victim} to die at {point}", lambda: armed.poll() is not None)
    check_equal(c.processes.pop(victim).returncode, -signal.SIGKILL, "exit status")
    c.start(victim, wait=victim == "coordinator")
    wait_for("a drain", drained)
    wait_for("ps-1 to be empty", lambda: "ps-1" not in c.lies())
    c.run("undrain", "ps-1")


def each_dies(epochs, points, **options):
    if b"move.commit" not in subprocess.run([BIN / "coordinator", "--list-faults"], check=False,
                                            capture_output=True).stdout:
        print("no build with faults: nobody is killed", flush=True)
        return
    with Bed(epochs, **options) as c:
        c.begin()
        for victim, point in dice.sample(points, len(points)):
            began = time.monotonic()
            c.busy()
            dies_at(c, victim, point)
            print(f"{victim} {point} ({time.monotonic() - began:.1f} s)", flush=True)
        c.finish()


@lasting
def each_dies_in_the_middle_and_each_sample_counts_once(epochs):
    each_dies(2 * epochs, POINTS)


@lasting
def each_dies_while_shards_go_by_files(epochs):
    each_dies(2 * epochs, FILE_POINTS, by_files=True)


@lasting
def shards_move_to_one_more_in_async(epochs):
    shards_move_to_one_more(epochs, "async")


@lasting
def shards_move_to_one_more_in_sync(epochs):
    shards_move_to_one_more(epochs, "sync")


@lasting
def shards_move_to_one_more_in_local(epochs):
    shards_move_to_one_more(epochs, "local")


@lasting
def rows_of_tables_move_with_their_shard(epochs):
    shards_move_to_one_more(epochs, "sync", rows=True)


if __name__ == "__main__":
    print(f"SLUICE_SEED={SEED}", flush=True)
    main([shards_move_to_one_more_in_async, shards_move_to_one_more_in_sync,
          shards_move_to_one_more_in_local, rows_of_tables_move_with_their_shard,
          one_is_drained_and_stopped, sigterm_moves_all_away,
          each_dies_in_the_middle_and_each_sample_counts_once,
          each_dies_while_shards_go_by_files])
