# SPDX-License-Identifier: Apache-2.0
"""The psserver as a process: what it holds, and what snapshots do to pushes."""
from table import MIB, Bar, at_most_more, row
from bed import check

PARAMETERS = 64 * MIB  # of each job here; Adam keeps twice as much beside them


@row("rss", unit="MiB", peer="parameters + slots",
     bar=Bar("<= 1.1 x + 64 MiB", lambda ours, peer: ours <= 1.1 * peer + 64),
     needs=["psserver", "ps_load"])
def rss(bench):
    """Most resident memory of a psserver under PushPull from two workers."""
    with bench.cluster(over="tcp") as c:
        _, target = c.place(elements=PARAMETERS // 4, optimizer="adam")
        bench.program("ps_load", *target, *bench.timed(), "--mode", "pushpull",
                      "--outstanding", 2, "--cpu", bench.client_cpu)
        return c.resident_peak("ps-0") / MIB, 3 * PARAMETERS / MIB


def latencies(bench, every_s):
    """One run of a worker's pushes, 32 MiB to each of two psservers, which are
    not pinned: their pool threads write and hash files meanwhile."""
    with bench.cluster(over="tcp", psservers=2, cpu=None) as c:
        job, target = c.place(elements=PARAMETERS // 4, shards=2, optimizer="adam",
                              every_s=every_s, steps_per_closure=1)
        done = bench.program("lease_load", *target, "--coordinator", c.address,
                             "--seconds", max(4, 4 * bench.seconds), "--warmup", 1,
                             "--cpu", bench.client_cpu)
        found = c.json("checkpoints", job).get("checkpoints", [])
        cuts = int(found[-1]["cut"]) if found else 0
    check(cuts >= 3 or not every_s, f"only {cuts} cuts were made meanwhile")
    bench.note(f"{cuts} cuts, {done['messages']} pushes: p50 {done['p50_ms']:.1f} "
               f"ms, p99 {done['p99_ms']:.1f}, max {done['max_ms']:.1f}")
    return done["p99_ms"] / 1e3


@row("snapshot", unit="s", peer="p99 without snapshots", bar=at_most_more(0.2, "s"),
     needs=["psserver", "lease_load"])
def snapshot(bench):
    """p99 of a push of 32 MiB while cuts are made one after the other."""
    return bench.alternate(lambda: latencies(bench, 0.05),
                           lambda: latencies(bench, 0))
