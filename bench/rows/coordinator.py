# SPDX-License-Identifier: Apache-2.0
"""A coordinator with many workers: how soon it answers, what each costs it."""
import socket

from bed import Bed
from table import at_most, row

NEEDS = ["psserver", "attend_load"]
WORKERS, ACTIVE = 1000, 200
COMPUTE_MS = 200  # of a closure: 1,000 completions a second
KIB = 1024


class Crowd(Bed):
    """A coordinator on a core of its own, and on TCP, as for many hosts."""

    def __init__(self, bench):
        super().__init__(cpu=bench.client_cpu)
        self.coordinator_cpu = bench.server_cpu
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"

    def command(self, name):
        line = super().command(name)
        if name == "coordinator":
            line = ["taskset", "-c", str(self.coordinator_cpu), *line]
        return line

    def resident(self, name):
        """Bytes, now."""
        with open(f"/proc/{self.processes[name].pid}/status",
                  encoding="ascii") as f:
            return next(int(line.split()[1]) * KIB for line in f
                        if line.startswith("VmRSS"))


def crowd(bench):
    """p99 in ms, and KiB per worker, of a coordinator that just started."""
    with Crowd(bench) as c:
        _, target = c.place(elements=1, shards=1, steps_per_closure=1,
                            max_workers=ACTIVE)
        before = c.resident("coordinator")
        done = bench.program("attend_load", *target, *bench.timed(),
                             "--coordinator", c.address, "--workers", WORKERS,
                             "--compute-ms", COMPUTE_MS, "--warmup", 2,
                             "--cpu", bench.client_cpu)
        each = (c.resident_peak("coordinator") - before) / WORKERS / KIB
    bench.note(f"{done['per_s']:.0f} assignments/s: p50 {done['p50_ms']:.2f} ms, "
               f"p99 {done['p99_ms']:.2f}, max {done['max_ms']:.1f}; "
               f"{each:.1f} KiB a worker")
    return done["p99_ms"], each


def crowds(bench):
    return bench.shared("crowds", lambda: [crowd(bench)
                                           for _ in range(bench.rounds)])


@row("scale-coord", unit="ms", peer="5 ms", bar=at_most(1), needs=NEEDS)
def scale_coord(bench):
    """p99 from a completion to the next assignment, where 1,000 workers attend
    and 200 of them hold leases."""
    return [p99 for p99, _ in crowds(bench)], 5


@row("scale-coord-rss", unit="KiB", peer="64 KiB", bar=at_most(1), needs=NEEDS)
def scale_coord_rss(bench):
    """The coordinator's memory per worker meanwhile: how much it grew at most."""
    return [each for _, each in crowds(bench)], 64
