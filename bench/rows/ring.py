# SPDX-License-Identifier: Apache-2.0
"""A ring that changes while it trains: what a rank that comes costs the others.

All on two cores, so whoever comes also takes them time; that is told beside the
figure, and is not in it: rounds are compared with those of the same seconds.
"""
import calendar
import re
import statistics
import threading
import time

from bed import Bed, check, cluster, wait_for
from table import MIB, at_most_more, row

NEEDS = ["psserver"]
UNITS = 27000  # 21.5 million parameters: with Adam's slots 258 MB of state
BATCH = 96
SAMPLES = 6400
ROUNDS = 3
FEW = 4  # rounds of the ring


class RingBed(Bed):
    """Two workers that share a store, a core each, and others that come."""

    def __init__(self, bench, **options):
        super().__init__(**{"workers": 2, "psservers": 0, "cpu": None, **options})
        self.cpus = bench.server_cpu, bench.client_cpu
        self.args["worker"] += ["--store", str(self.dir / "store")]

    def command(self, name):
        line = super().command(name)
        number = int(name[2:]) if name[0] == "w" else 0
        return line if number > 1 else ["taskset", "-c", str(self.cpus[number]), *line]

    def begin(self, **train):
        """A job of so many bytes that runs; no end is near, no cut is made."""
        job = cluster.mlp_job("ring", samples=SAMPLES, epochs=1000, batch=BATCH,
                              mode="allreduce", contributions=2,
                              workers={"min": 1, "max": 3}, **train)
        job["model"]["layers"][1]["units"] = UNITS
        job["checkpoint"] = {"every_epoch": False, "every_seconds": 0}
        job = self.submit(job)
        self.wait_ranks(job, 2)
        self.some_rounds_on(job)
        return job

    def ranks(self, job):
        return int(self.status(job).get("ring_ranks", 0))

    def wait_ranks(self, job, ranks):
        wait_for(f"a ring of {ranks}", lambda: self.ranks(job) == ranks)

    def some_rounds_on(self, job):
        self.wait_steps(job, self.steps(job) + 2 * FEW)

    def told(self, text, of=""):
        """When the coordinator said so first, in seconds since 1970."""
        found = re.search(rf'"ts":"([^"]*)(\.\d+)Z".*"msg":"{text}".*{of}',
                          self.log("coordinator"))
        check(found, f"the coordinator never said '{text}' {of}")
        whole, part = found.groups()
        return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + float(part)


class Rounds(threading.Thread):
    """with Rounds(c, job) as r: r.seen are the times at which a round's steps
    were first counted."""

    def __init__(self, c, job):
        super().__init__(daemon=True)
        self.c, self.job = c, job
        self.seen, self.ended = [], threading.Event()

    def run(self):
        steps = self.c.steps(self.job)
        while not self.ended.is_set():
            began, now = time.time(), self.c.steps(self.job)
            if now != steps:
                self.seen.append((began + time.time()) / 2)
            steps = now

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.join()

    def between(self, first, last):
        """What lies between two rounds, of those that are in progress then."""
        return [b - a for a, b in zip(self.seen, self.seen[1:])
                if b > first and a < last]


def joining_s(bench, c, job, name):
    """What a round took while a rank copied the state of the others, and how much
    longer than that they stood still when it became a member."""
    with Rounds(c, job) as rounds:
        began = time.time()
        c.some_rounds_on(job)
        quiet = statistics.median(rounds.between(began, time.time()))
        c.start(name)
        c.wait_ranks(job, 3)
        of = f'"generation":{c.status(job)["ring_generation"]},'
        c.some_rounds_on(job)
    joined = c.told("rank joined", f'"worker":"{name}"')
    opened, goes = c.told("ring opened", of), c.told("ring goes", of)
    busy = statistics.median(rounds.between(joined, opened))
    worst = max(rounds.between(opened, goes)) - busy
    bench.note(f"a round {quiet * 1e3:.0f} ms, and {busy * 1e3:.0f} ms in the "
               f"{opened - joined:.2f} s of copying; from the opening of the new "
               f"ring to its going {(goes - opened) * 1e3:.0f} ms; they stood "
               f"still {worst * 1e3:.0f} ms")
    c.kill(name)
    c.wait_ranks(job, 2)
    return busy, worst


@row("ring-join", unit="ms", peer="a round", bar=at_most_more(50, "ms"),
     needs=NEEDS)
def ring_join(bench):
    """How long two ranks stand still when a third one copies 258 MB of state."""
    figures = [], []
    with RingBed(bench) as c:
        job = c.begin()
        for i in range(min(ROUNDS, bench.rounds)):
            busy, worst = joining_s(bench, c, job, f"w-{2 + i}")
            figures[0].append(worst * 1e3)
            figures[1].append(busy * 1e3)
        c.run("stop", job)
    return figures


@row("rss-ring", unit="MiB", peer="parameters + slots + gradients",
     bar=at_most_more(2 * 4 + 64, "MiB"), needs=NEEDS)
def rss_ring(bench):
    """Most resident memory of a rank that trains: two buckets and 64 MiB more."""
    with RingBed(bench) as c:
        job = c.begin()
        elements = 784 * UNITS + UNITS + 10 * UNITS + 10
        trains = c.resident_peak("w-0") / MIB
        c.run("stop", job)
        cut = c.resident_peak("w-0") / MIB
        bench.note(f"{cut - trains:.0f} MiB more while its share of a cut was "
                   f"written, which is {3 * 4 * elements / 2 / MIB:.0f} MiB of state")
        return trains, 4 * 4 * elements / MIB
