#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train.mode sync: rounds of contributions. Each sample counts once whatever
dies, and what comes out does not depend on who computed what, or when.

The moments of death come from a seed: SLUICE_SEED repeats a failure.
"""
import json
import os
import random

from cluster import (Cluster, Failed, check, check_counts, check_equal, main, mlp_job,
                     wait_for)

SEED = int(os.environ.get("SLUICE_SEED", random.SystemRandom().randrange(1 << 32)))
dice = random.Random(SEED)


def sync_job(name, contributions=3, **options):
    return mlp_job(name, mode="sync", contributions=contributions, **options)


def exported(c, job):
    from safetensors.numpy import load_file
    out = c.dir / f"{job}.safetensors"
    c.run("export", job, "--to", out)
    return load_file(str(out))


def same_bits(one, other):
    return all(one[name].tobytes() == other[name].tobytes() for name in one)


def rounds_are_averaged_and_counted():
    """1,013 samples in batches of 50 are 21 steps an epoch: rounds of 3, and of
    4 with one that is short. A round is one update."""
    with Cluster(psservers=2, workers=3) as c:
        for contributions, rounds in ((1, 21), (3, 7), (4, 6), (30, 1)):
            done = c.wait_state(c.submit(sync_job(
                f"rounds-{contributions}", contributions, samples=1013, batch=50,
                epochs=3)))
            check_counts(done)
            for shard in done["shards"]:
                check_equal(int(shard["counts"]["version"]), 3 * rounds,
                            f"updates with {contributions} contributions")


def check_same_bits(job, draw, apart, last):
    """One worker, three, and three that die, each `apart` steps after the one before and
    not behind step `last`, make the same bits. `draw` says which, and when."""
    results = []
    for workers, blows in ((1, 0), (3, 0), (3, 4)):
        with Cluster(psservers=2, workers=workers) as c:
            for count in range(10):  # a job may be over before its workers die
                number = c.submit({**job, "name": f"bits-{count}"})
                for _ in range(blows):
                    c.wait_steps(number, min(c.steps(number) + draw.randint(*apart), last))
                    c.restart(f"w-{draw.randrange(workers)}")
                if blows:  # whoever waits for a round with a lease of before lets go
                    c.restart("coordinator")
                done = c.wait_state(number)
                check_counts(done)
                if int(done["workers_lost"]) >= blows - 1:
                    break
            else:
                raise Failed("they lived")
            results.append(exported(c, number))
    check(same_bits(results[0], results[1]), "3 workers made other bits than one")
    check(same_bits(results[0], results[2]), "lost workers changed the bits")


def the_same_bits_however_many_workers_and_whoever_dies():
    """Images are changed as they are read, by amounts that depend on the sample alone."""
    job = sync_job("bits", 4, samples=1600, epochs=20, seed=7)
    job["loss"] = "categorical_crossentropy"
    job["data"]["train"]["augment"] = [{"crop": 2}, {"rotate": 10}, {"brightness": 0.1},
                                       {"mixup": 0.2}]
    check_same_bits(job, dice, (20, 100), 1000)


def a_shard_that_falls_back_is_served_first():
    """Killed psservers come back behind the others: their rounds are done
    again, and whoever was ahead is called back (Y4)."""
    with Cluster(psservers=2, workers=3) as c:
        job = c.submit({**sync_job("back", 3, epochs=10), "checkpoint": {"every_seconds": 0.2}})
        wait_for("a cut", lambda: int(c.status(job)["cuts"]) > 0)
        for _ in range(4):
            c.wait_steps(job, min(c.steps(job) + dice.randint(20, 200), 200 * 10))
            c.restart(f"ps-{dice.randrange(2)}")
        c.restart("coordinator")
        check_counts(c.wait_state(job))


def audits_compare_gradients_and_blame_nobody():
    """A1, A3: three workers compute each contribution of every second round or
    so: they get the same bits, also beside a worker that was killed, and the
    result is that of a job without audits."""
    results = []
    for audit in (0, 0.5):
        with Cluster(psservers=2, workers=3) as c:
            job = c.submit(sync_job("audited", 3, samples=1013, batch=50, epochs=12,
                                    audit=audit))
            c.wait_steps(job, 100)
            c.restart("w-1")
            done = c.wait_state(job)
            check_counts(done)
            results.append(exported(c, job))
            if audit:
                found = {key: int(n) for key, n in done["audit"].items()}
                check(found["compared"] > 100, f"hardly any audit: {found}")
                check_equal((found["differed"], found["decided"]), (0, 0), "audits")
                check_equal([m["name"] for m in c.cluster_status()["members"]
                             if m["suspect"]], [], "suspect")
    check(same_bits(*results), "audits changed the bits")
    with Cluster(psservers=1, workers=3, worker_args=("--device", "cpu,cpu")) as c:
        done = c.wait_state(c.submit(sync_job("parts", 3, samples=320, epochs=1, audit=1)))
        found = {key: int(n) for key, n in done["audit"].items()}
        check(found["compared"] > 5, f"sums of several devices: {found}")
        check_equal((found["differed"], found["decided"]), (0, 0), "sums of several devices")


def workers_of_other_kinds_are_compared_within_a_bound():
    """A2: their right results may differ in bits, but not by much."""
    with Cluster(psservers=1, workers=2) as c:
        for kind in (["--threads", "1"], ["--threads", "2"], ["--isa", "base"],
                     ["--device", "cpu,cpu"]):
            c.kill("w-1")
            c.start("w-1", kind)
            done = c.wait_state(c.submit(sync_job("kinds", 3, samples=1600, epochs=1, audit=1)))
            check_counts(done)
            found = {key: int(n) for key, n in done["audit"].items()}
            check(found["compared"] > 0, f"{kind}: nothing is compared")
            check_equal((found["differed"], found["decided"]), (0, 0), kind)


def jobs_go_on_in_the_other_mode():
    """What was stopped in the middle of async has counted steps here and there:
    they are in no round, and each counts once all the same. And back."""
    with Cluster(psservers=2, workers=3) as c:
        def job_of(name, **more):
            return {**mlp_job(name, epochs=20, steps_per_closure=1, **more),
                    "checkpoint": {"every_seconds": 0.1}}
        job = c.submit(job_of("first"))
        wait_for("a cut", lambda: int(c.status(job)["cuts"]) > 0)
        c.run("stop", job)
        for mode in ("sync", "async"):
            more = {"mode": mode, "contributions": 4} if mode == "sync" else {}
            job = c.submit(job_of(mode, **more), "--resume", job)
            if mode == "sync":
                wait_for("another cut", lambda: int(c.status(job)["cuts"]) > 1)
                c.run("stop", job)
        check_counts(c.wait_state(job))


def a_net_learns_as_well():
    with Cluster(psservers=2, workers=2) as c:
        done = c.wait_state(c.submit(sync_job("learns", 2, epochs=6)))
        check_counts(done)
        check(done["evaluations"][-1]["accuracy"] > 0.78,
              f"accuracy {done['evaluations'][-1]['accuracy']}")


def what_sync_does_not_do_is_refused():
    with Cluster(psservers=1, workers=1) as c:
        for more, why in (({"steps_per_closure": 4}, "steps_per_closure"),
                          ({"max_delay": 4}, "max_delay"),
                          ({"staleness": "inverse"}, "staleness"),
                          ({"contributions": 2000}, "contributions"),
                          ({"backup": 3}, "backup")):
            path = c.dir / "no.yaml"
            path.write_text(json.dumps(sync_job("no", **{"contributions": 2, **more})))
            done = c.run("submit", path, "--no-wait", want=None)
            check(done.returncode != 0 and f"train.{why}" in done.stderr,
                  f"{more} was accepted", done.stderr)


if __name__ == "__main__":
    print(f"SLUICE_SEED={SEED}", flush=True)
    main([rounds_are_averaged_and_counted,
          the_same_bits_however_many_workers_and_whoever_dies,
          a_shard_that_falls_back_is_served_first,
          audits_compare_gradients_and_blame_nobody,
          workers_of_other_kinds_are_compared_within_a_bound,
          jobs_go_on_in_the_other_mode,
          a_net_learns_as_well,
          what_sync_does_not_do_is_refused])
