#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train.mode hybrid: groups of workers compute steps together, and their leaders
push as workers of an asynchronous job do. Each sample counts once whatever dies.

The moments of death come from a seed: SLUICE_SEED repeats a failure.
"""
import os
import random
import signal

from cluster import (PATIENCE, Cluster, check, check_counts, check_equal, main,
                     mlp_job, wait_for)
from training import Training

SEED = int(os.environ.get("SLUICE_SEED", random.SystemRandom().randrange(1 << 32)))
dice = random.Random(SEED)
SCALE = 3 if PATIENCE > 1 else 1


def hybrid_job(name, size=2, by="host", **train):
    return mlp_job(name, **{"mode": "hybrid", "steps_per_closure": 10, "batch": 16,
                            "group": {"by": by, "size": size}, **train})


def exported(c, job, name):
    from safetensors.numpy import load_file
    path = c.dir / f"{name}.safetensors"
    c.run("export", job, "--to", path)
    return load_file(str(path))


def members(status):
    """Of each group, the leader first."""
    return [[m["worker"] for m in g["members"]] for g in status.get("groups", [])]


def wait_groups(c, job, sizes):
    wait_for(f"groups of {sizes}", lambda: sorted(
        len(g) for g in members(c.status(job))) == sorted(sizes))


def groups_train_and_leave_nobody_out():
    with Cluster(psservers=2, workers=5) as c:
        job = c.submit(hybrid_job("groups", size=2, epochs=9 // SCALE))
        wait_groups(c, job, [2, 2, 1])
        done = c.wait_state(job)
        check_counts(done)
        check(done["evaluations"][-1]["accuracy"] > 0.75,
              f"accuracy {done['evaluations'][-1]['accuracy']}")


def audits_of_groups_compare_and_blame_nobody():
    """A1, A5: members of a group compute the shares of others, or their own twice where
    groups are of one host: they get the same bits, and each step counts once."""
    with Cluster(psservers=1, workers=3) as c:
        for by in ("host", "any"):
            job = c.submit(hybrid_job(by, size=3, by=by, epochs=2, accumulate=2, audit=1))
            done = c.wait_state(job)
            check_counts(done)
            found = {key: int(n) for key, n in done["audit"].items()}
            print(f"by {by}: {found}", flush=True)
            check(found["compared"] > 10, f"hardly any audit: {found}")
            check_equal((found["differed"], found["decided"]), (0, 0), "audits")
        check_equal([m["name"] for m in c.cluster_status()["members"] if m["suspect"]], [],
                    "suspect")


def a_group_computes_what_one_worker_would():
    """Dropout's masks, moving statistics, the short step at an epoch's end: the
    same whoever computes a micro-batch, but for the rounding of sums."""
    spec = hybrid_job("same", size=3, epochs=1, batch=20, samples=1013, seed=5)
    spec["model"]["layers"] = [
        {"type": "flatten"},
        {"type": "dense", "units": 32, "activation": "relu"},
        {"type": "batch_normalization"},
        {"type": "dropout", "rate": 0.2},
        {"type": "dense", "units": 10}]
    found = []
    for workers, by, more in ((1, "host", []), (3, "host", []),
                              (3, "any", ["--shm", "off"])):
        with Cluster(psservers=2, workers=workers, worker_args=more) as c:
            spec["train"]["group"]["by"] = by
            for name in ["w-0"] if workers == 3 else []:
                c.kill(name) # the others are a group before the job begins
                c.start(name)
            job = c.submit(spec)
            done = c.wait_state(job)
            check_counts(done)
            found.append(exported(c, job, "same"))
    for other in found[1:]:
        for name, one in found[0].items():
            apart = abs(one - other[name]).max() / max(abs(one).max(), 1e-3)
            check(apart < 1e-3, f"{name} is {apart} apart")


def a_leader_without_a_share_sends_the_sum():
    """A step of one micro-batch, and two members: none is left for the leader."""
    with Cluster(psservers=1, workers=2) as c:
        done = c.wait_state(c.submit(hybrid_job("short", epochs=30, samples=5)))
        check_counts(done)
        for name in ("w-0", "w-1"):
            check(c.processes[name].poll() is None, f"{name} died")


class Groups(Training):
    """Training in groups."""

    def __init__(self, c, name, epochs=6, **train):
        super().__init__(c, hybrid_job(name, epochs=epochs // SCALE, **train), dice,
                         20 // SCALE, 60 // SCALE)

    def wait_groups(self, sizes):
        wait_for(f"groups of {sizes}", lambda: sorted(
            len(g) for g in members(self.busy())) == sorted(sizes))

    def one(self, leads):
        """A leader, or one that follows."""
        some = [m for g in members(self.busy()) for m in (g[:1] if leads else g[1:])]
        return dice.choice(some) if some else f"w-{dice.randrange(3)}"


def leaders_and_followers_are_killed():
    with Cluster(psservers=2, workers=3) as c:
        training = Groups(c, "kill", size=3)
        for leads in (True, False, True):
            training.wait_groups([3])
            training.some_steps_on()
            name = training.one(leads)
            c.kill(name)
            training.some_steps_on()
            c.start(name)
        training.wait_groups([3])
        training.some_steps_on()
        training.end()


def a_silent_member_is_left_out_and_comes_back():
    with Cluster(psservers=1, workers=3) as c:
        training = Groups(c, "silent", size=3)
        for leads in (True, False):
            training.wait_groups([3])
            training.some_steps_on()
            name = training.one(leads)
            c.pause(name)
            training.some_steps_on()
            c.resume(name)
        training.end()


def drained_members_hand_back():
    with Cluster(psservers=1, workers=3) as c:
        training = Groups(c, "drain", size=3)
        for leads in (True, False):
            training.wait_groups([3])
            name = training.drain(lambda: training.one(leads))
            training.some_steps_on()
            c.start(name)
        training.end()


def coordinator_and_psserver_are_killed():
    with Cluster(psservers=2, workers=2) as c:
        training = Groups(c, "servers")
        for name in ("coordinator", "ps-0"):
            training.some_steps_on()
            c.restart(name)
        training.some_steps_on()
        training.end()


def groups_sum_over_the_network():
    with Cluster(psservers=1, workers=3, worker_args=["--shm", "off"]) as c:
        training = Groups(c, "net", epochs=3, size=3, by="any", wire="bf16")
        training.wait_groups([3])
        training.some_steps_on()
        c.restart(training.one(False))
        training.some_steps_on()
        training.end()


def steps_that_are_not_finite_are_skipped():
    with Cluster(psservers=2, workers=2) as c:
        spec = hybrid_job("nan", epochs=1, max_nonfinite=1000)
        spec["optimizer"] = {"type": "sgd", "learning_rate": 1e30}
        done = c.wait_state(c.submit(spec))
        check_counts(done)
        check(int(done["updates_skipped"]) > 20, f"skipped: {done['updates_skipped']}")


def a_job_is_resumed_from_and_into_async():
    with Cluster(psservers=2, workers=2) as c:
        first = c.submit(mlp_job("async", epochs=1, steps_per_closure=10, batch=32))
        c.wait_state(first)
        group = c.submit(hybrid_job("group", epochs=2), "--resume", first)
        check_counts(c.wait_state(group))
        last = c.submit(mlp_job("back", epochs=3, steps_per_closure=10, batch=32),
                        "--resume", group)
        check_counts(c.wait_state(last))


if __name__ == "__main__":
    print(f"SLUICE_SEED={SEED}", flush=True)
    main([groups_train_and_leave_nobody_out, audits_of_groups_compare_and_blame_nobody,
          a_group_computes_what_one_worker_would,
          a_leader_without_a_share_sends_the_sum,
          leaders_and_followers_are_killed, a_silent_member_is_left_out_and_comes_back,
          drained_members_hand_back, coordinator_and_psserver_are_killed,
          groups_sum_over_the_network, steps_that_are_not_finite_are_skipped,
          a_job_is_resumed_from_and_into_async])
