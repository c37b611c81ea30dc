#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train.mode local with a quorum: a round at the shards is what has come by its end. No
worker waits for another, what comes late is counted, and each sample counts once whatever
dies.

The moments of death come from a seed: SLUICE_SEED repeats a failure.
"""
import json
import os
import random

from cluster import LONG_LEASE, Cluster, check, check_counts, check_equal, main, wait_for
from local_test import local_job

SEED = int(os.environ.get("SLUICE_SEED", random.SystemRandom().randrange(1 << 32)))
dice = random.Random(SEED)


def meet_job(name, quorum, contributions, steps=5, **options):
    return local_job(name, contributions, steps, quorum=quorum, **options)


def ages(status, least):
    """How many contributions of the job were at least so many updates old, by shard.
    Bounds: 0 1 2 4 8 16 32 64 128 256 and above."""
    at = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256].index(least) + 1
    return [sum(map(int, shard["counts"]["staleness"][at:])) for shard in status["shards"]]


def who_stands_still_stops_nobody_and_is_counted_late():
    """It may stand still before it has begun a contribution: then once more."""
    def comes_late():
        c.pause("w-1")
        c.wait_steps(job, c.steps(job) + 30)  # others are 10 updates and more ahead
        c.resume("w-1")
        c.wait_steps(job, c.steps(job) + 10)
        return all(late > 0 for late in ages(c.status(job), 8))

    spec = meet_job("late", 2, 3, steps=10, samples=12800, epochs=4000, grace_ms=1)
    with Cluster(psservers=2, workers=3, coordinator_args=LONG_LEASE) as c:
        job = c.submit(spec)
        c.wait_steps(job, 6)
        wait_for("what came late to be counted", comes_late)
        c.run("stop", job, "--now")
        c.wait_state(job, "stopped")


def check_survives(spec, draw, last):
    """All that a job needs dies, after 5 to 60 steps and not behind step `last`. `draw`
    says which, and when."""
    spec["checkpoint"] = {"every_seconds": 0.2}
    with Cluster(psservers=2, workers=3) as c:
        job = c.submit(spec)
        wait_for("a cut", lambda: int(c.status(job)["cuts"]) > 0)
        for _ in range(6):
            c.wait_steps(job, min(c.steps(job) + draw.randint(5, 60), last))
            c.restart(draw.choice(["ps-0", "ps-1", "w-0", "w-1", "coordinator"]))
        check_counts(c.wait_state(job))


def everything_dies_and_each_sample_counts_once():
    for quorum in (2, 1):
        # What of rounds is of directions, and norms, is of no count.
        more = {"average": "direction", "norm": "median"} if quorum > 1 else {}
        check_survives(meet_job("all", quorum, 4, samples=6400, epochs=14, **more), dice, 500)


def the_last_contributions_are_too_few_for_a_round_and_are_counted():
    """Before each evaluation that training waits for, and at the end: 9 closures an epoch,
    by rounds of 8."""
    with Cluster(psservers=2, workers=2) as c:
        spec = meet_job("last", 7, 8, samples=9 * 160, epochs=4)
        spec["callbacks"] = {"early_stopping": {"patience": 9}}
        done = c.wait_state(c.submit(spec))
        check_counts(done)
        check_equal(len(done["evaluations"]), 4, "evaluations")
        for shard in done["shards"]:
            check(int(shard["counts"]["version"]) >= 8, "an epoch is one round")
            check(int(shard["counts"]["version"]) < 36, "each contribution is a round")


def a_paused_job_has_all_that_came_in_its_checkpoint():
    with Cluster(psservers=2, workers=2) as c:
        job = c.submit(meet_job("paused", 31, 32, samples=6400, epochs=400))
        c.wait_steps(job, 40)
        c.run("pause", job)
        wait_for("nothing to be held", lambda: int(c.status(job)["round_held"]) == 0)
        check(c.status(job)["sum_wait_ms"] > 0, "rounds ended, and waited for nothing")
        c.run("resume", job)
        c.run("stop", job)
        check(int(c.wait_state(job, "stopped")["cuts"]) > 0, "no checkpoint")


def each_contribution_is_an_update_with_a_quorum_of_one():
    with Cluster(psservers=2, workers=3) as c:
        done = c.wait_state(c.submit(meet_job("one", 1, 3, samples=6400, epochs=15)))
        check_counts(done)
        for shard in done["shards"]:
            check_equal(shard["counts"]["version"], shard["counts"]["applied"], "updates")
        check(done["evaluations"][-1]["accuracy"] > 0.75,
              f"accuracy {done['evaluations'][-1]['accuracy']}")
        workers = done["local"]["workers"]  # one with few contributions, early ones, has none
        check(any("angle" in worker for worker in workers), f"no angles: {workers}")
        for worker in workers:
            check(0 < worker.get("angle", 90) < 180, f"no angle: {worker}")


def a_job_goes_on_from_a_cut():
    with Cluster(psservers=2, workers=2) as c:
        job = c.submit(meet_job("first", 2, 4, samples=6400, epochs=20))
        wait_for("a cut", lambda: int(c.status(job)["cuts"]) > 0)
        c.run("stop", job)
        c.wait_state(job, "stopped")
        again = meet_job("again", 2, 4, samples=6400, epochs=20)
        check_counts(c.wait_state(c.submit(again, "--resume", job)))
        path = c.dir / "one.yaml"
        path.write_text(json.dumps(meet_job("one", 1, 4, samples=6400, epochs=20)))
        done = c.run("submit", path, "--no-wait", "--resume", job, want=None)
        check("optimizer.delay" in done.stderr, "slots of another optimizer", done.stderr)


if __name__ == "__main__":
    print(f"SLUICE_SEED={SEED}", flush=True)
    main([who_stands_still_stops_nobody_and_is_counted_late,
          everything_dies_and_each_sample_counts_once,
          the_last_contributions_are_too_few_for_a_round_and_are_counted,
          a_paused_job_has_all_that_came_in_its_checkpoint,
          each_contribution_is_an_update_with_a_quorum_of_one,
          a_job_goes_on_from_a_cut])
