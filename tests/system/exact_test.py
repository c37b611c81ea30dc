#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Conservation in rounds and in rings: every sample of every epoch is in the
parameters once, to the last integer (exact.py), whoever dies, leaves or joins,
and whichever mode a job goes on in.

The moments and kinds of the blows come from a seed: SLUICE_SEED repeats them.
"""
import json
import os
import pathlib
import random
import re
import signal

import exact
import exact_local
from cluster import (HISTORY, PATIENCE, Cluster, Failed, check, check_counts, main,
                     wait_for)

SEED = int(os.environ.get("SLUICE_SEED", random.SystemRandom().randrange(1 << 32)))
dice = random.Random(SEED)
EPOCHS = 20 if PATIENCE > 1 or HISTORY else 40


class Slow(Cluster):
    """In a build that can hurt itself, a worker waits before each step: so a job lasts for
    a few blows, and leaves the processors to the tests beside it."""

    def start(self, name, **options):
        if HISTORY and name[0] == "w":
            options["environment"] = {"SLUICE_FAULT": "task.compute=delay:8"}
        return super().start(name, **options)


class Bed(Slow):
    """Two psservers and three workers; of the workers two share memory and a
    folder of snapshots, and the third has neither with them."""

    def __init__(self, mode, epochs=EPOCHS, rows=False):
        super().__init__(psservers=2, workers=3)
        self.mode, self.job, self.epochs, self.rows = mode, None, epochs, rows

    def command(self, name):
        line = super().command(name)
        if name[0] == "w":
            line += ["--store", str(self.dir / ("store" if name != "w-2" else "own"))]
        return line + (["--shm", "off"] if name == "w-2" else [])

    def begin(self, mode):
        make = exact.rows_job if self.rows else exact.exact_job
        self.job = self.submit(make(self, mode, self.epochs, mode))

    def busy(self):
        """A job that has a cut and is far from its end; the ones before have
        finished, and each is exact."""
        now = self.status(self.job) if self.job else None
        if now and int(now["steps_counted"]) > int(now["steps_asked"]) / 2:
            self.finish()
            now = None
        if now is None:
            self.begin(self.mode)
        wait_for("a cut", lambda: int(self.status(self.job)["cuts"]) > 0)

    def on(self):
        """A few steps further; the job runs then, or another does."""
        state = None
        while state != "running":
            self.busy()
            now = self.status(self.job)
            self.wait_steps(self.job, min(
                int(now["steps_counted"]) + dice.randint(1, 3 * EPOCHS),
                int(now["steps_asked"])))
            state = self.status(self.job)["state"]

    def finish(self):
        check_counts(self.wait_state(self.job))
        prove = exact.check_rows if self.rows else exact.check_exact
        prove(self, self.job, self.epochs)

    # ---- blows

    def killed(self, name):
        self.restart(name, wait=name == "coordinator")

    def drained(self, name):
        self.kill(name, signal.SIGTERM)
        self.start(name, wait=name == "coordinator")

    def many_killed(self, *names):
        for name in names:
            self.kill(name)
        for name in sorted(names):
            self.start(name, wait=name == "coordinator")

    def away(self, name):
        """Killed, and back when the others have gone on without it."""
        self.kill(name)
        self.on()
        self.start(name, wait=False)


def blows(mode, *targets, rows=False):
    """Each kind of blow to each of its targets in a random order, and in the
    end everybody who has a part in the state dies at once."""
    with Bed(mode, rows=rows) as c:
        order = [(kind, name) for kind, names in targets for name in names]
        dice.shuffle(order)
        for kind, name in order:
            c.on()
            print(f"{mode}: {name} {kind.__name__}", flush=True)
            kind(c, name)
        c.on()
        c.many_killed(*[n for n in c.processes
                        if n[0] in "cw" or rows or mode != "allreduce"])
        c.finish()


def one_sample_too_many_is_seen():
    """On any row that this file looks at: else the rest proves nothing."""
    row = [EPOCHS] * exact.UNITS
    for sample, unit in ((0, 0), (exact.SAMPLES - 1, exact.UNITS - 1)):
        rows = [list(row) for _ in range(exact.SAMPLES)]
        check(not exact.wrong(rows, EPOCHS), "a right sum is called wrong")
        rows[sample][unit] += 1
        check(f"sample {sample} " in exact.wrong(rows, EPOCHS), "it is not seen")


def one_sample_too_many_is_seen_in_mode_local():
    """Whatever a round divides by: where the rate is RATE, rounds of 4 move rows by 3."""
    for way in exact_local.WAYS:
        step = 3 if exact_local.outer(way)["learning_rate"] == exact_local.RATE else 1
        rows = [[step] for _ in range(exact_local.SAMPLES)]
        check(not exact_local.wrong(rows, way), f"{way}: a right sum is called wrong")
        for more in (step, -step, 1):  # twice, not at all, twice in one round
            rows[-1] = [step + more]
            check(exact_local.wrong(rows, way), f"{way}: {rows[-1]} is not seen")


def sync_conserves_whoever_dies():
    blows("sync", (Bed.killed, ["w-0", "w-2", "ps-0", "coordinator"]),
          (Bed.drained, ["w-1", "ps-1"]), (Bed.away, ["w-2"]))


def local_steps_are_conserved_whoever_dies():
    blows("local", (Bed.killed, ["w-0", "w-2", "ps-0", "coordinator"]),
          (Bed.drained, ["w-1", "ps-1"]), (Bed.away, ["w-2"]))


def each_way_of_local_steps_is_conserved_whoever_dies():
    """One of each role, at moments of the seed."""
    samples = exact_local.SAMPLES // (4 if HISTORY else 1)
    with Slow(psservers=2, workers=3) as c:
        for way in exact_local.WAYS:
            spec = exact_local.local_job(c, way, every_seconds=0.2, samples=samples)
            job = c.submit(spec)
            c.wait_steps(job, 1)  # what it asks for is known by then
            last = int(c.status(job)["steps_asked"]) - 200
            for name in dice.sample(["w-0", "ps-0", "ps-1", "coordinator"], 2):
                c.wait_steps(job, min(c.steps(job) + dice.randint(1, 300), last))
                c.restart(name)
                print(f"{way}: {name} killed", flush=True)
            check_counts(c.wait_state(job))
            exact_local.check_local(c, job, spec)


def rows_in_rounds_are_conserved_whoever_dies():
    blows("sync", (Bed.killed, ["w-0", "w-2", "ps-0", "coordinator"]),
          (Bed.drained, ["w-1", "ps-1"]), (Bed.away, ["w-2"]), rows=True)


def a_ring_conserves_whoever_dies_leaves_or_joins():
    blows("allreduce", (Bed.killed, ["w-0", "w-2", "coordinator"]),
          (Bed.drained, ["w-1", "w-2"]), (Bed.away, ["w-0", "w-2"]))


def rows_beside_a_ring_are_conserved_whoever_dies():
    blows("allreduce", (Bed.killed, ["w-0", "w-2", "ps-0", "coordinator"]),
          (Bed.drained, ["w-1", "ps-1"]), (Bed.away, ["w-0", "w-2"]), rows=True)


def groups_conserve_whoever_dies_leaves_or_joins():
    blows("hybrid", (Bed.killed, ["w-0", "w-2", "ps-0", "coordinator"]),
          (Bed.drained, ["w-1", "w-2"]), (Bed.away, ["w-0", "w-2"]))


def rows_of_groups_are_conserved_whoever_dies():
    blows("hybrid", (Bed.killed, ["w-0", "w-2", "ps-0", "coordinator"]),
          (Bed.drained, ["w-1", "ps-1"]), (Bed.away, ["w-0", "w-2"]), rows=True)


def resume(c, mode):
    """Goes on where the last job was stopped. A ring has one counted set, so it
    begins at a cut that is even, as the refusal says, if there is one (E3)."""
    path, old = c.dir / "resume.yaml", c.job
    path.write_text(json.dumps(exact.exact_job(c, mode, c.epochs, mode)))
    done = c.run("submit", path, "--no-wait", "--resume", old, want=None)
    even = re.search(r"or resume from (cut-\d+\.json)", done.stderr)
    if done.returncode != 0 and even:
        manifest = pathlib.Path(c.json("status", old)["checkpoint"])
        done = c.run("submit", path, "--no-wait", "--resume",
                     manifest.with_name(even.group(1)), want=None)
    elif done.returncode != 0 and "is uneven" in done.stderr:
        return False
    check(done.returncode == 0, f"{mode} does not take {old} on", done.stderr)
    c.job = done.stdout.strip()
    return True


def a_job_goes_on_in_another_mode():
    """Rounds are the same in both modes, so that each is whole in one of them."""
    with Bed("sync", epochs=2 * EPOCHS) as c:
        c.begin("sync")
        for mode in ("allreduce", "sync", "allreduce"):
            wait_for("a cut", lambda: int(c.status(c.job)["cuts"]) > 0)
            c.wait_steps(c.job, c.steps(c.job) + dice.randint(1, 3 * EPOCHS))
            c.run("stop", c.job)
            c.wait_state(c.job, "stopped")
            took = resume(c, mode) or resume(c, "sync")
            check(took, "not even in its own mode")
            print(f"{c.job} goes on in {mode}", flush=True)
        c.finish()


if __name__ == "__main__":
    print(f"SLUICE_SEED={SEED}", flush=True)
    main([one_sample_too_many_is_seen, one_sample_too_many_is_seen_in_mode_local,
          sync_conserves_whoever_dies,
          local_steps_are_conserved_whoever_dies,
          each_way_of_local_steps_is_conserved_whoever_dies,
          rows_in_rounds_are_conserved_whoever_dies,
          a_ring_conserves_whoever_dies_leaves_or_joins,
          rows_beside_a_ring_are_conserved_whoever_dies,
          groups_conserve_whoever_dies_leaves_or_joins,
          rows_of_groups_are_conserved_whoever_dies,
          a_job_goes_on_in_another_mode])
