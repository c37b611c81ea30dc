#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory shared between a worker and psservers of one host, and a socket of
their own for small calls: used without being asked for, off where it is
switched off, and no difference to what counts."""
import contextlib
import os
import pathlib
import random

import conserve
from cluster import (LONG_LEASE, PATIENCE, Cluster, check, check_counts, check_equal, main, mlp_job,
                     wait_for)
from training import Training

SEED = int(os.environ.get("SLUICE_SEED", random.SystemRandom().randrange(1 << 32)))
dice = random.Random(SEED)
SCALE = 3 if PATIENCE > 1 else 1  # a sanitizer build takes its time


def wide_job(name, epochs=10, **train):
    """Its one shard per psserver is far larger than --shm-min."""
    spec = mlp_job(name, samples=3200, epochs=epochs, **train)
    spec["model"]["layers"][1]["units"] = 128
    return spec


def regions(c, name):
    """How many regions a psserver has mapped now."""
    with open(f"/proc/{c.processes[name].pid}/maps", encoding="utf-8") as f:
        return sum("memfd:sluice" in line for line in f)


def calls_nearby(c, name):
    """Whether it has begun to watch a socket for small calls."""
    for comm in pathlib.Path(f"/proc/{c.processes[name].pid}/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # of a thread that ends
            if comm.read_text(encoding="ascii") == "io-near\n":
                return True
    return False


def wait_calls(c, name):
    wait_for(f"{name} to have a socket for small calls", lambda: calls_nearby(c, name))


def says_shared(c, worker, psserver):
    return f'"shared memory","with":"{psserver}"' in c.log(worker)


def wait_shared(c, name):
    wait_for(f"{name} to map memory of a worker", lambda: regions(c, name) > 0)


def it_is_used_without_being_asked_for():
    with Cluster(psservers=2, workers=2, coordinator_args=LONG_LEASE) as c:
        job = c.submit(wide_job("by-default", epochs=25))
        wait_shared(c, "ps-0")
        for name in ("w-0", "w-1", "ps-0", "ps-1"):
            wait_calls(c, name)
        check_counts(c.wait_state(job))
        for worker in ("w-0", "w-1"):
            for psserver in ("ps-0", "ps-1"):
                check(says_shared(c, worker, psserver),
                      f"{worker} does not say that it shares memory with {psserver}")


def off_is_off():
    for who in ("psserver", "worker"):
        with Cluster(psservers=1, workers=1, **{f"{who}_args": ["--shm", "off"]}) as c:
            job = c.submit(wide_job(f"off-{who}", epochs=2))
            c.wait_steps(job, 100)
            check_equal(regions(c, "ps-0"), 0, f"regions, {who} off")
            for name in ("w-0", "ps-0"):
                check(not calls_nearby(c, name), f"{name} has a socket, {who} off")
            check_counts(c.wait_state(job))
            check(not says_shared(c, "w-0", "ps-0"), "shared all the same")


def small_shards_send_bytes():
    with Cluster(psservers=1, workers=1) as c:
        spec = wide_job("small", epochs=2)
        spec["model"]["layers"][1]["units"] = 8
        job = c.submit(spec)
        wait_calls(c, "ps-0")  # whatever their size
        c.wait_steps(job, 100)
        check_equal(regions(c, "ps-0"), 0, "regions of small shards")
        check_counts(c.wait_state(job))


def a_folder_that_workers_cannot_reach():
    """Then bytes are sent, and one line says so."""
    with Cluster(psservers=1, workers=0) as c:
        (c.dir / "ps-0" / "local.sock").unlink()
        c.start("w-0")
        job = c.submit(wide_job("out-of-reach", epochs=2))
        check_counts(c.wait_state(job))
        check_equal(c.log("w-0").count("no shared memory"), 1, "lines about it")


def processes_are_killed_and_nothing_is_lost():
    with Cluster(psservers=2, workers=2,
                 worker_args=["--shm-min", "4"]) as c:
        jobs = Training(c, wide_job("killed", epochs=24 // SCALE, steps_per_closure=5),
                        dice, 20 // SCALE, 200 // SCALE)
        for victim in ("ps-0", "w-0", "ps-1", "w-1", "ps-0", "coordinator"):
            jobs.some_steps_on()
            c.restart(victim)
            if victim.startswith("ps"):
                wait_for(f"{victim} to map memory of a worker",
                         lambda: jobs.busy() and regions(c, victim) > 0)
        jobs.end()


def sums_are_conserved():
    """Through shared memory, by a client that knows the .proto and no more."""
    with Cluster(psservers=2, workers=0) as c:
        spec = conserve.conserve_job(epochs=8)
        with conserve.Programs(c, 2, "--shm", "--step-ms", 10) as programs:
            job = c.submit(spec)
            for victim in ("ps-0", "x-0", "ps-1", "x-1"):
                c.wait_steps(job, min(c.steps(job) + dice.randint(10, 100), 768))
                if victim.startswith("ps"):
                    c.restart(victim)
                else:
                    programs.restart(victim, "--shm", "--step-ms", 10)
            check_counts(c.wait_state(job))
            conserve.check_conserved(c, job, spec)
            said = c.log("x-0") + c.log("x-1")
            check("through shared memory" in said, "no memory was shared", said)


if __name__ == "__main__":
    print(f"SLUICE_SEED={SEED}", flush=True)
    main([it_is_used_without_being_asked_for,
          off_is_off,
          small_shards_send_bytes,
          a_folder_that_workers_cannot_reach,
          processes_are_killed_and_nothing_is_lost,
          sums_are_conserved])
