#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of psserver and worker stays flat over 10,000 steps."""
from cluster import Cluster, check, check_counts, main, mlp_job


def resident_kib(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def memory_is_flat_over_ten_thousand_steps():
    names = ("ps-0", "w-0", "coordinator")
    with Cluster(psservers=1, workers=1) as c:
        # Cuts of every second count too: they must leave nothing behind.
        job = c.submit(mlp_job("flat", samples=6400, epochs=60))
        c.wait_steps(job, 4000)
        early = {n: resident_kib(c.processes[n]) for n in names}
        c.wait_steps(job, 11900)
        late = {n: resident_kib(c.processes[n]) for n in names}
        check_counts(c.wait_state(job))
        for name in names:
            grown = late[name] - early[name]
            print(f"{name}: {early[name]} KiB, then {late[name]} KiB")
            # The heap is of huge pages (common/net/rpc_io.c): it grows by 2 MiB,
            # wherever its first use of a corner falls. 1 KiB a step is 7,900.
            check(grown < max(7900, early[name] // 20),
                  f"{name} grew by {grown} KiB over 7,900 steps")


if __name__ == "__main__":
    main([memory_is_flat_over_ten_thousand_steps])
