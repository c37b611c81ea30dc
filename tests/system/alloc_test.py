#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nothing is allocated per step: a real worker and a real psserver, each behind
alloc_count.c, which says whose allocation it was.

A step is: read a batch, compute, push the gradient, check and apply it, answer
with the parameters, take them. It allocates nothing of ours: neither through
common/base/mem.h nor past it. What gRPC takes for a call, and oneDNN for a product, is
theirs; it is printed. Closures, heartbeats and reports may allocate, so the test
makes them rare and wants windows of 256 calls between them that are clean.
"""
import os
import pathlib
import struct
import subprocess
import sys

from cluster import BIN, Cluster, check, main, mlp_job, wait_for

LIBRARY = pathlib.Path(os.environ.get("SLUICE_ALLOC_COUNT",
                                      BIN.parent / "lib" / "liballoc_count.so"))
WINDOW, SITES, FRAMES = 256, 256, 6  # of alloc_count.c
WANTED = 4  # clean windows of each process
SEEN = 40   # windows, of which there must be so many
STEPS = 1600  # of a closure


class Counts:
    """What one process has allocated so far."""

    def __init__(self, path):
        word = struct.unpack(f"<{6 + SITES * (1 + FRAMES)}Q", path.read_bytes())
        self.batches, self.ours, self.others, self.windows, self.clean, n = word[:6]
        self.sites = {}
        for i in range(n):
            at = 6 + i * (1 + FRAMES)
            self.sites[word[at + 1:at + 1 + FRAMES]] = word[at]

    def since(self, before):
        """Places of ours that have allocated since, the busiest first."""
        grown = {s: n - before.sites.get(s, 0) for s, n in self.sites.items()}
        return sorted(((n, s) for s, n in grown.items() if n), reverse=True)


def named(program, frames):
    """Functions of the frames, innermost first, where nm knows them."""
    lines = subprocess.run(["nm", "-n", str(program)], capture_output=True,
                           text=True, check=False).stdout.splitlines()
    known = [(int(w[0], 16), w[2]) for w in map(str.split, lines) if len(w) == 3]
    return " < ".join(next((name for at, name in reversed(known) if at <= frame),
                           hex(frame)) for frame in frames if frame)


class Counted(Cluster):
    """A cluster whose workers and psservers count."""

    def counts_path(self, name):
        return self.dir / f"{name}.counts"

    def start(self, name, **options):
        if name[0] in "pw":
            options["environment"] = {"LD_PRELOAD": str(LIBRARY),
                                      "ALLOC_COUNT": str(self.counts_path(name))}
        return super().start(name, **options)

    def allocated(self, name):
        return Counts(self.counts_path(name))


def busy(c, name, early):
    """The counts, once there were enough windows since `early`."""
    now = c.allocated(name)
    if (now.clean - early.clean >= WANTED or
            now.windows - early.windows >= SEEN):
        return now
    return None


def look(c, name, early):
    now = wait_for(f"{name} to make its calls", lambda: busy(c, name, early), 120)
    calls = now.batches - early.batches
    print(f"{name}: {now.clean - early.clean} of {now.windows - early.windows} "
          f"windows of {WINDOW} calls are clean; in {calls} calls ours allocated "
          f"{now.ours - early.ours} times, libraries "
          f"{(now.others - early.others) / calls:.1f} times a call")
    program = BIN / {"p": "psserver", "w": "worker"}[name[0]]
    check(now.ours and now.others, f"{name}: nothing was counted at all")
    check(now.clean - early.clean >= WANTED,
          f"{name} allocates per step; most often (innermost first):",
          *(f"{n} times in {calls} calls: {named(program, site)}"
            for n, site in now.since(early)[:8]))


def nothing_allocated(worker_args=(), **train):
    # Between heartbeats, and the ends of closures, lie many steps.
    with Counted(psservers=1, workers=1, worker_args=worker_args,
                 coordinator_args=["--heartbeat-ms", "10000",
                                   "--lease-ms", "60000"]) as c:
        spec = mlp_job("steady", **{"samples": 6400, "epochs": 8000, "batch": 4,
                                    "steps_per_closure": STEPS, **train})
        spec["model"]["layers"][1]["units"] = 8
        spec["checkpoint"] = {"every_epoch": False}
        del spec["data"]["test"]  # nothing is evaluated
        job = c.submit(spec)
        c.wait_steps(job, STEPS)
        early = {name: c.allocated(name) for name in ("w-0", "ps-0")}
        for name, counts in early.items():
            look(c, name, counts)
        c.run("stop", job)


def bytes_are_sent_without_allocating():
    nothing_allocated(["--shm", "off"])


def memory_is_shared_without_allocating():
    nothing_allocated(["--shm-min", "4"])
    nothing_allocated(["--shm-min", "1GiB"])  # the numbers go in the packets


def sixteen_bits_are_made_without_allocating():
    nothing_allocated(["--shm", "off"], wire="bf16")
    nothing_allocated(["--shm-min", "4"], wire="f16")


def several_micro_batches_allocate_nothing():
    nothing_allocated(accumulate=2, batch=2)


if __name__ == "__main__":
    if not LIBRARY.exists():
        print(f"skipped: {LIBRARY} was not built")
        sys.exit(77)
    main([bytes_are_sent_without_allocating, memory_is_shared_without_allocating,
          sixteen_bits_are_made_without_allocating,
          several_micro_batches_allocate_nothing])
