#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Contributions and parameters of train.mode local in fewer bits (inner.up, inner.down):
a job learns as in f32, counts each sample once whatever dies, and all workers begin a
round with the same bits.

The moments of death come from a seed: SLUICE_SEED repeats a failure.
"""
import os
import random

import numpy as np
from cluster import Cluster, check, check_counts, check_equal, main, wait_for
from external_test import exported
from local_test import job_of_numpy, local_job, samples_of_numpy
from sync_test import check_same_bits

SEED = int(os.environ.get("SLUICE_SEED", random.SystemRandom().randrange(1 << 32)))
dice = random.Random(SEED)

PAIRS = [("f32", "bf16"), ("bf16", "f32"), ("int8", "int8"), ("e3m0", "e3m0"),
         ("f32", "e3m0"), ("topk2", "e3m0")]


def coded(name, up, down, *words, **options):
    spec = local_job(name, *words, **options)
    spec["train"]["inner"].update(up=up, down=down)
    return spec


def trained(c, spec):
    done = c.wait_state(c.submit(spec))
    check_counts(done)
    return done


def every_pair_learns_as_f32_does():
    """Of the evaluations' losses, the best. Where what is left out comes later, the
    outer optimizer has no momentum, here and in the comparison."""
    with Cluster(psservers=2, workers=2) as c:
        best = {}
        for up, down in [("f32", "f32"), ("topk2", "f32"), *PAIRS]:
            spec = coded(f"{up}-{down}", up, down, 2, 10, epochs=5, seed=7)
            if up == "topk2":
                spec["train"]["inner"]["moments"] = "keep"
            if (up, down) == ("topk2", "f32"):  # the same in f32
                spec["train"]["inner"]["up"] = "f32"
                spec["train"]["outer"] = {"type": "sgd", "learning_rate": 1.0}
            done = trained(c, spec)
            check_equal(int(done["shards"][0]["counts"]["version"]), 50, "rounds")
            best[up, down] = min(e["loss"] for e in done["evaluations"])
            print(f"{up} up, {down} down: loss {best[up, down]:.3f}")
        for up, down in PAIRS:
            like = best["topk2" if up == "topk2" else "f32", "f32"]
            check(best[up, down] < 1.12 * like,
                  f"{up} up, {down} down: loss {best[up, down]}, and {like} in f32")


def the_same_bits_whoever_computes_and_dies():
    """Each worker adds the same changes, or is sent the whole; so with codes that keep
    nothing back it does not matter who computes what."""
    check_same_bits(coded("bits", "e3m0", "e3m0", 4, 5, samples=3200, epochs=12, seed=7), dice,
                    (5, 30), 230)


def moving_statistics_are_exact():
    """Those of a net's first layer depend on the samples alone; so they have the same bits
    whatever the code of all else."""
    got = {}
    with Cluster(psservers=2, workers=2) as c:
        for code in ("f32", "int8", "e3m0"):
            spec = job_of_numpy(c.dir, *samples_of_numpy())
            spec["name"] = code
            spec["train"]["inner"].update(up=code, down=code)
            job = c.submit(spec)
            check_counts(c.wait_state(job))
            got[code] = exported(c, job)
    for code in ("int8", "e3m0"):
        for name, value in got[code].items():
            check(("moving" in name) == np.array_equal(value, got["f32"][name]),
                  f"{code}: {name}: {value}, and {got['f32'][name]} in f32")


def everything_dies_and_each_sample_counts_once():
    """What topk2 has kept back dies with its worker, and goes out with one that leaves;
    a psserver that comes back sends all of its parameters. The counts know of neither."""
    with Cluster(psservers=2, workers=3) as c:
        spec = coded("all", "topk2", "e3m0", 3, 4, samples=6400, epochs=18)
        spec["checkpoint"] = {"every_seconds": 0.2}
        job = c.submit(spec)
        wait_for("a cut", lambda: int(c.status(job)["cuts"]) > 0)
        for _ in range(6):
            c.wait_steps(job, min(c.steps(job) + dice.randint(5, 60), 850))
            c.restart(dice.choice(["ps-0", "ps-1", "w-0", "w-1", "coordinator"]))
        c.wait_attached("w-2")  # the coordinator may have died last
        c.run("drain", "w-2")
        done = c.wait_state(job)
        check_counts(done)
        check(done["evaluations"][-1]["accuracy"] > 0.7,
              f"accuracy {done['evaluations'][-1]['accuracy']}")


def a_job_goes_on_in_other_codes():
    """A cut has the parameters themselves."""
    with Cluster(psservers=2, workers=2) as c:
        job = c.submit(coded("first", "int8", "int8", 2, 5, samples=6400, epochs=25))
        wait_for("a cut", lambda: int(c.status(job)["cuts"]) > 0)
        c.run("stop", job)
        c.wait_state(job, "stopped")
        again = coded("first", "e3m0", "e3m0", 2, 5, samples=6400, epochs=25)
        done = c.wait_state(c.submit(again, "--resume", job))
        check_counts(done)
        check(done["evaluations"][-1]["accuracy"] > 0.8,
              f"accuracy {done['evaluations'][-1]['accuracy']}")


if __name__ == "__main__":
    print(f"SLUICE_SEED={SEED}", flush=True)
    main([every_pair_learns_as_f32_does,
          the_same_bits_whoever_computes_and_dies,
          moving_statistics_are_exact,
          everything_dies_and_each_sample_counts_once,
          a_job_goes_on_in_other_codes])
