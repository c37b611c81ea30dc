# SPDX-License-Identifier: Apache-2.0
"""Reading a history, and writing down what is wrong with it.

A history is a folder of <role>-<pid>.jsonl files (common/base/history.h). All its
processes ran on one host, so `us`, the monotonic clock, orders their events:
what caused another event has the smaller stamp.
"""
import collections
import functools
import json
import pathlib


class Event(dict):
    """One line. event.kind is its name; the rest are its keys."""
    __slots__ = ("kind", "pid", "us", "role")

    def __init__(self, line):
        super().__init__(line)
        self.kind = self.pop("event")
        self.pid, self.us, self.role = self["pid"], self["us"], self["role"]

    def __str__(self):
        pairs = " ".join(f"{k}={v}" for k, v in self.items()
                         if k not in ("us", "wall", "seq", "role", "node", "pid"))
        return f"{self.us / 1e6:.6f} {self.role}[{self.pid}] {self.kind} {pairs}"


def read(folder):
    """All events in their order. A line that is not JSON is an error. What
    stands behind the last newline is on its way: a reader sees a write page by
    page, and a process may die between two of them."""
    events = []
    for path in sorted(pathlib.Path(folder).glob("*.jsonl")):
        lines = path.read_bytes().rpartition(b"\n")[0].splitlines()
        try:  # all at once, which costs half
            found = json.loads(b"[" + b",".join(lines) + b"]")
            whole = len(found) == len(lines)
        except ValueError:
            whole = False
        if not whole:
            found = [parsed(line, path, n) for n, line in enumerate(lines, 1)]
        events += map(Event, found)
    events.sort(key=lambda e: (e.us, e["seq"]))
    return events


def parsed(line, path, number):
    try:
        return json.loads(line)
    except ValueError as error:
        raise SystemExit(f"{path}:{number}: {error}") from error


class Report:
    """Violations: the invariant, what is wrong, the events that show it."""

    SAME = 3  # of one invariant and text; the rest is only counted

    def __init__(self):
        self.violations = []
        self.counts = collections.Counter()

    def add(self, invariant, text, *events):
        self.counts[invariant, text] += 1
        if self.counts[invariant, text] <= self.SAME:
            self.violations.append((invariant, text, events))

    def lines(self):
        out = [f"{invariant}: {text}" + "".join(f"\n      {e}" for e in events)
               for invariant, text, events in self.violations]
        out += [f"{invariant}: {text} ({n} times in all)"
                for (invariant, text), n in self.counts.items() if n > self.SAME]
        return out

    def invariants(self):
        return {invariant for invariant, _ in self.counts}


class Geometry:
    """Which steps a job has; plan/schedule.h, written again."""

    def __init__(self, e):
        self.event = e
        self.samples, self.batch = e["samples"], e["batch"]
        self.epochs, self.shards = e["epochs"], e["shards"]
        self.parts = e["parts"]  # the first so many shards, which ranks keep
        self.window = e["window"]
        per_closure = e["steps_per_closure"]
        self.steps_per_epoch = -(-self.samples // self.batch)
        self.closures_per_epoch = -(-self.steps_per_epoch // per_closure)
        self.per_closure = per_closure
        self.closures = self.closures_per_epoch * self.epochs
        self.steps = self.steps_per_epoch * self.epochs

    def epoch(self, closure):
        return closure // self.closures_per_epoch

    def steps_of(self, closure):
        first = closure % self.closures_per_epoch * self.per_closure
        return min(self.per_closure, self.steps_per_epoch - first)


def mix64(x):
    mask = (1 << 64) - 1
    x = (x + 0x9E3779B97F4A7C15) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return x ^ (x >> 31)


@functools.cache
def digest_of(epoch, samples):
    """What a whole epoch adds up to."""
    seed = mix64(epoch)
    return sum(mix64(seed ^ s) for s in range(samples)) & ((1 << 64) - 1)
