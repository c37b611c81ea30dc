#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many jobs on few workers: which is served, and what a worker keeps of them."""
import json

import exact
from cluster import (LONG_LEASE, Cluster, check, check_counts, check_equal, main, mlp_job,
                     wait_for)

WORKERS = ("w-0", "w-1")


def lines(c, name, message):
    """Of a daemon's log: what was said with this message."""
    said = (json.loads(line) for line in c.log(name).splitlines()
            if line.startswith("{"))
    return [one for one in said if one["msg"] == message]


def short_job(name, **train):
    """Many closures, each of a moment."""
    job = mlp_job(name, samples=1280, steps_per_closure=2, **train)
    del job["data"]["test"]
    job["checkpoint"] = {"every_epoch": False}
    return job


def made(c):
    """{(worker, job): how often its programs were made there}."""
    count = {}
    for w in WORKERS:
        for one in lines(c, w, "precision of a job"):
            count[w, one["job"]] = count.get((w, one["job"]), 0) + 1
    return count


def a_worker_makes_none_of_many_small_jobs_twice():
    with Cluster(psservers=2, workers=2, coordinator_args=LONG_LEASE) as c:
        ids = [c.submit(short_job(f"small-{i}", epochs=4)) for i in range(16)]
        for job in ids:
            check_counts(c.wait_state(job))
        count = made(c)
        check_equal(len({job for _, job in count}), len(ids), "jobs that were made")
        check_equal({k: n for k, n in count.items() if n > 1}, {},
                    "(worker, job) that was made more than once")
        for w in WORKERS:
            check_equal(lines(c, w, "kept job freed to make room"), [], w)


def jobs_that_do_not_fit_are_made_anew_and_count_all_the_same():
    with Cluster(psservers=2, workers=1, coordinator_args=LONG_LEASE,
                 worker_args=["--keep", "1MiB"]) as c:
        ids = [c.submit(short_job(f"large-{i}", epochs=2)) for i in range(7)]
        for job in ids:
            check_counts(c.wait_state(job))
        check(lines(c, "w-0", "kept job freed to make room"),
              "seven jobs were kept where room was for four")


def higher_priority(epochs):
    ahead = 8 * 2  # leases that a worker holds at most, steps of each
    # A worker that is lost and attends again is given what it has opened first.
    with exact.While(psservers=1, workers=1, coordinator_args=LONG_LEASE) as c:
        low = c.submit(short_job("low", epochs=10 * epochs, priority=-1))
        c.wait_steps(low, 100)
        high = c.submit(short_job("high", epochs=epochs, priority=5))
        c.wait_steps(high, 2 * ahead)
        before = c.steps(low)
        c.wait_steps(high, 1500)
        gained = c.steps(low) - before
        check_equal(c.status(high)["state"], "running", "the state, when it was looked")
        c.ends = True
        check(gained <= ahead, f"{gained} steps of the lower priority meanwhile")
        check_equal(c.status(high)["priority"], 5, "the priority in the status")
        check("priority" in c.run("status", low).stdout, "status says no priority")
        check_counts(c.wait_state(high))
        c.wait_steps(low, c.steps(low) + 100)  # what is left is its


def a_higher_priority_is_served_first_and_the_rest_goes_to_others():
    exact.long_enough(higher_priority, 150)


def queued_jobs_run_one_after_the_other_also_over_a_kill():
    with Cluster(psservers=1, workers=0, coordinator_args=LONG_LEASE) as c:
        first = c.submit(short_job("first", epochs=20), "--queue")
        bad = short_job("bad", epochs=1)
        bad["data"]["train"]["x"] = str(c.dir / "nowhere")
        rest = [c.submit(short_job("gone", epochs=1), "--queue"),
                c.submit(bad, "--queue"),
                c.submit(short_job("last", epochs=2), "--queue")]
        high = c.submit(short_job("high", epochs=2, priority=1), "--queue")
        free = c.submit(short_job("free", epochs=2))
        gone, bad, last = rest
        c.run("pause", first)  # it must not end before what follows is seen
        for w in WORKERS:
            c.start(w)
        check_counts(c.wait_state(free))  # it is not queued, and waits for nobody
        check_equal(c.status(high)["reason"], f"queued behind {first} (jobs before this one: 1)",
                    "reason")
        check_equal(c.status(last)["reason"], f"queued behind {bad} (jobs before this one: 4)",
                    "reason")
        check_equal(c.run("stop", gone).returncode, 0, "stop of one that waits")
        c.wait_state(gone, "stopped")
        c.restart("coordinator")
        wait_for("the reason after the coordinator was killed", lambda: c.status(last)["reason"] ==
                 f"queued behind {bad} (jobs before this one: 3)")
        check("queued" in c.run("jobs").stdout, "sluice jobs names none as queued")
        c.run("resume", first)
        while c.status(last)["state"] not in ("finished", "failed", "stopped"):
            run = [job["id"] for job in c.json("jobs")["jobs"] if job.get("queued")
                   and job["state"] in ("running", "finishing")]
            check(len(run) < 2, f"{run} run at the same time")
        ended = {j: c.json("status", j) for j in (first, high, bad, last)}
        check_equal({j: s["state"] for j, s in ended.items()}, {
            first: "finished", high: "finished", bad: "failed", last: "finished"},
            "states")
        order = sorted(ended, key=lambda j: ended[j]["ended_unix"])
        check_equal(order, [first, high, bad, last], "the order in which they ended")
        for job in (first, high, last):
            check_counts(ended[job])


if __name__ == "__main__":
    main([a_worker_makes_none_of_many_small_jobs_twice,
          jobs_that_do_not_fit_are_made_anew_and_count_all_the_same,
          a_higher_priority_is_served_first_and_the_rest_goes_to_others,
          queued_jobs_run_one_after_the_other_also_over_a_kill])
