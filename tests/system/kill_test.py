#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Any process may die at any instant: nothing is lost, nothing counts twice.

After each disturbance the job must finish with every step counted once on
every shard, and every sample of every epoch counted once (check_counts).
The moments of death come from a seed: SLUICE_SEED repeats a failure.
"""
import os
import random
import signal

from cluster import (PATIENCE, Cluster, check, check_counts, check_equal, main, mlp_job,
                     wait_for)
from scrape import OPS, address, metrics, value
from training import Training

SEED = int(os.environ.get("SLUICE_SEED", random.SystemRandom().randrange(1 << 32)))
dice = random.Random(SEED)


# A sanitizer build takes as long for a third of the steps.
SCALE = 3 if PATIENCE > 1 else 1


def long_job(name, epochs=20, **train):
    return mlp_job(name, samples=6400, epochs=epochs // SCALE,
                   **{"steps_per_closure": 10, **train})


def training(c, name, **train):
    return Training(c, long_job(name, **train), dice, 30 // SCALE, 150 // SCALE)


def kill_one(c, jobs, name):
    """Until the job that runs has lost it: one that has just been started may not be
    attached yet."""
    before = []

    def kill():
        before.append(int(c.status(jobs.job)["workers_lost"]))
        c.kill(name)
    jobs.strike(kill, lambda: c.start(name),
                lambda now: int(now["workers_lost"]) > before[-1])
    c.start(name)


def workers_killed_inside_closures():
    with Cluster(psservers=2, workers=3) as c:
        jobs = training(c, "kill-worker")
        for _ in range(3):
            kill_one(c, jobs, f"w-{dice.randrange(3)}")
        jobs.some_steps_on()
        jobs.end()
        jobs.check_total("workers_lost", 3)
        jobs.check_total("closures_retried", 1)


def workers_killed_inside_micro_batches():
    """A step of eight is lost with its worker, or pushed: never half of it."""
    with Cluster(psservers=2, workers=2) as c:
        jobs = training(c, "kill-micro", epochs=8, batch=4, accumulate=8)
        for _ in range(2):
            kill_one(c, jobs, f"w-{dice.randrange(2)}")
        jobs.some_steps_on()
        jobs.end()
        jobs.check_total("workers_lost", 2)


def the_only_worker_killed_between_closures():
    with Cluster(psservers=1, workers=1) as c:
        jobs = training(c, "only-worker", epochs=6, steps_per_closure=1)
        for _ in range(2):
            jobs.strike(lambda: c.kill("w-0"), lambda: c.start("w-0"),
                        lambda now: "worker" in now["reason"])
            c.start("w-0")
        jobs.end()


def a_silent_worker_is_replaced_and_may_wake_up():
    with Cluster(psservers=2, workers=2, worker_args=OPS) as c:
        jobs = training(c, "silent", epochs=30)
        jobs.some_steps_on()
        # Ready is not attached: the other worker may have counted those steps.
        wait_for("w-0 to compute", lambda: value(
            metrics(address(c, "w-0")), "sluice_steps_total", result="counted") > 0)
        # What it held had perhaps been computed and not been said: then nothing
        # runs again (closures_retried), and the counts below are the proof.
        jobs.strike(lambda: c.pause("w-0"), lambda: c.resume("w-0"),
                    lambda now: int(now["workers_lost"]) > 0)
        jobs.some_steps_on()
        c.resume("w-0")
        jobs.end()


def psserver_killed_and_restarted():
    with Cluster(psservers=2, workers=2) as c:
        jobs = training(c, "kill-ps")
        for victim in ("ps-0", "ps-1"):
            jobs.strike(lambda: c.kill(victim), lambda: c.start(victim),
                        lambda now: victim in now["reason"])
            c.start(victim)
        jobs.end()
        jobs.check_total("psservers_lost", 2)


def psserver_without_any_snapshot_starts_from_the_seed():
    with Cluster(psservers=2, workers=1) as c:
        spec = long_job("seed", epochs=4)
        spec["checkpoint"] = {"every_seconds": 0, "every_epoch": False}
        job = c.submit(spec)
        c.wait_steps(job, 20)
        c.restart("ps-1")
        check_counts(c.wait_state(job))


def coordinator_killed_and_restarted():
    with Cluster(psservers=2, workers=2) as c:
        jobs = training(c, "kill-coordinator")
        for _ in range(2):
            jobs.some_steps_on()
            c.restart("coordinator")
        jobs.end()
        check_equal(sum(int(done["coordinator_restarts"]) for done in jobs.done), 2,
                    "restarts")


def an_accepted_job_survives_the_coordinator():
    with Cluster(psservers=1, workers=0) as c:
        job = c.submit(long_job("accepted", epochs=1))
        c.restart("coordinator")
        c.start("w-0")
        check_counts(c.wait_state(job))


def everything_killed_again_and_again():
    with Cluster(psservers=2, workers=3) as c:
        jobs = training(c, "all")
        for _ in range(6):
            jobs.some_steps_on()
            names = ["coordinator", "ps-0", "ps-1", "w-0", "w-1", "w-2"]
            victims = dice.sample(names, dice.choice([1, 1, 2, 3]))
            for name in victims:
                c.kill(name)
            # Any order; the tests ask the coordinator, so it is waited for.
            dice.shuffle(victims)
            for name in victims:
                c.start(name, wait=name == "coordinator")
        jobs.end(limit_s=300)


def a_drained_worker_hands_back_and_ends_with_143():
    with Cluster(psservers=1, workers=2) as c:
        jobs = training(c, "drain", epochs=10)
        jobs.some_steps_on()
        status = c.kill("w-0", signal.SIGTERM)
        check(status in (143, -signal.SIGTERM), f"exit status {status}")
        jobs.end()


if __name__ == "__main__":
    print(f"SLUICE_SEED={SEED}", flush=True)
    main([workers_killed_inside_closures, workers_killed_inside_micro_batches,
          the_only_worker_killed_between_closures,
          a_silent_worker_is_replaced_and_may_wake_up,
          psserver_killed_and_restarted,
          psserver_without_any_snapshot_starts_from_the_seed,
          coordinator_killed_and_restarted,
          an_accepted_job_survives_the_coordinator,
          everything_killed_again_and_again,
          a_drained_worker_hands_back_and_ends_with_143])
