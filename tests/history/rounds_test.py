#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The bits of a job in rounds do not depend on workers that die between two
shards: one has counted the slot and is a round further, another lacks it. Who
computes it again does so from what the first attempt had of both."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "system"))
os.environ["SLUICE_HISTORY_CHECK"] = "1"
from cluster import Cluster, check, check_counts, main, wait_for  # noqa: E402
from sync_test import exported, same_bits, sync_job  # noqa: E402

DEATHS = 8


def a_slot_that_only_one_shard_has_is_computed_from_the_same_parameters():
    spec = sync_job("half", 2, samples=3200, epochs=30, seed=7)
    with Cluster(psservers=2, workers=1) as c:
        job = c.submit(spec)
        c.wait_state(job)
        wanted = exported(c, job)
    with Cluster(psservers=2, workers=2) as c:
        job = c.submit(spec)
        for i in range(DEATHS):
            dies = c.start("w-dies", environment={
                "SLUICE_FAULT": f"task.push_part=kill@{3 + 2 * i % 5}"})
            wait_for("it to die between two shards",
                     lambda p=dies: p.poll() is not None)
            c.kill("w-dies")
        done = c.wait_state(job)
        check_counts(done)
        check(int(done["workers_lost"]) >= DEATHS - 1, "they lived")
        check(same_bits(wanted, exported(c, job)), "other bits than of one worker")


if __name__ == "__main__":
    main([a_slot_that_only_one_shard_has_is_computed_from_the_same_parameters])
