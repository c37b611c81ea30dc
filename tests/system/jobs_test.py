#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many jobs on few workers: which is served, and what a worker keeps of them."""
import json

from cluster import Cluster, check, check_counts, check_equal, main, mlp_job

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
    with Cluster(psservers=2, workers=2) as c:
        ids = [c.submit(short_job(f"small-{i}", epochs=4)) for i in range(16)]
        for job in ids:
            check_counts(c.wait_state(job))
        count = made(c)
        check_equal(len({job for _, job in count}), len(ids), "jobs that were made")
        check_equal({k: n for k, n in count.items() if n > 1}, {},
                    "(worker, job) that was made more than once")
        for w in WORKERS:
            check_equal(lines(c, w, "job let go of for want of room"), [], w)


def jobs_that_do_not_fit_are_made_anew_and_count_all_the_same():
    with Cluster(psservers=2, workers=1, worker_args=["--keep", "1MiB"]) as c:
        ids = [c.submit(short_job(f"large-{i}", epochs=2)) for i in range(7)]
        for job in ids:
            check_counts(c.wait_state(job))
        check(lines(c, "w-0", "job let go of for want of room"),
              "seven jobs were kept where room was for four")


def a_higher_priority_is_served_first_and_the_rest_goes_to_others():
    ahead = 8 * 2  # leases that a worker holds at most, steps of each
    with Cluster(psservers=1, workers=1) as c:
        low = c.submit(short_job("low", epochs=2000, priority=-1))
        c.wait_steps(low, 100)
        high = c.submit(short_job("high", epochs=60, priority=5))
        c.wait_steps(high, 2 * ahead)
        before = c.steps(low)
        c.wait_steps(high, 1500)
        gained = c.steps(low) - before
        check(c.status(high)["state"] == "running", "the test looked too late")
        check(gained <= ahead, f"{gained} steps of the lower priority meanwhile")
        check_equal(c.status(high)["priority"], 5, "the priority in the status")
        check("priority" in c.run("status", low).stdout, "status says no priority")
        check_counts(c.wait_state(high))
        c.wait_steps(low, c.steps(low) + 100)  # what is left is its


if __name__ == "__main__":
    main([a_worker_makes_none_of_many_small_jobs_twice,
          jobs_that_do_not_fit_are_made_anew_and_count_all_the_same,
          a_higher_priority_is_served_first_and_the_rest_goes_to_others])
