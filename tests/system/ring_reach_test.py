#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks that cannot reach each other, and rings that could write no checkpoint: said
at once, with who and why."""
import json

from access_test import Guarded
from cluster import Cluster, check, main, mlp_job, wait_for


class OutOfReach(Guarded):
    """Its workers listen at an address that their certificate does not name."""
    def command(self, name):
        line = super().command(name)
        if name.startswith("w-"):
            line += ["--listen", "127.0.0.9:0", "--store", str(self.dir / "store")]
        return line


def ranks_that_cannot_reach_each_other_say_so():
    """A certificate without the address: the job says who cannot reach whom, and why,
    instead of standing still without a word."""
    with OutOfReach(psservers=0, workers=2) as c:
        job = c.submit(mlp_job("apart", mode="allreduce", epochs=1,
                               workers={"min": 2}))
        told = wait_for("a reason", lambda: next(
            (w for w in c.status(job).get("warnings", []) if "cannot sum with" in w),
            None), 60)
        check("memory of rank" in told and "127.0.0.9" in told, told)
        events = c.run("events", job, "-o", "jsonl").stdout
        check('"ring-broken"' in events, "no event", events)
        c.run("stop", job, "--now")


def a_ring_without_a_store_is_refused_before_it_trains():
    with Cluster(psservers=0, workers=1) as c:
        path = c.dir / "job.yaml"
        path.write_text(json.dumps(mlp_job("nowhere", mode="allreduce")))
        for more in ((), ("--dry-run",)):
            said = c.run("submit", path, "--no-wait", *more, want=None)
            check(said.returncode != 0 and "--store" in said.stderr, said.stderr)


if __name__ == "__main__":
    main([ranks_that_cannot_reach_each_other_say_so,
          a_ring_without_a_store_is_refused_before_it_trains])
