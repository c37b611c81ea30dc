#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of the user's as ranks: libsluice sums their gradients and keeps their
parameters without a psserver, in C and in Python."""
import json
import os
import re
import signal
import subprocess
import sys

import orphans
from access_test import Guarded
from cluster import (BIN, LIMIT, LONG_LEASE, PATIENCE, ROOT, Cluster, check, check_counts, check_equal, main,
                     wait_for)
from external_test import Program, Programs, check_learnt, exported, linear_job

OWN, COUNTS = BIN / "own_gradient", BIN / "ring_counts"
PYTHON = {"SLUICE_LIBRARY": str(BIN.parent / "lib" / "libsluice.so"),
          "SLUICE_BIN": str(BIN), "PYTHONPATH": str(ROOT / "python")}
SAMPLES, BATCH = 64, 8  # few, so that sums stay below 2^24 for many epochs
MS = 4  # of a step, so that a job lasts while ranks die, and leaves the processors alone


class Rank(Program):
    """A program that is given these words. One in Python has imported numpy and sluice: it
    is a fork of one that has (orphans.py)."""
    modules = ("numpy", "sluice")

    def __init__(self, c, name, *words, **environment):
        path = c.dir / f"{name}.log"
        self.log = open(path, "ab")
        if words[0] == sys.executable and not c.history:
            self.process = orphans.begin(
                self.modules, {"OPENBLAS_NUM_THREADS": "1", **environment}, words[1], words[2:],
                path)
            return
        self.process = subprocess.Popen(
            list(map(str, words)), stdout=self.log, stderr=self.log,
            stdin=subprocess.DEVNULL, env={
                **os.environ, **environment,
                **({"SLUICE_HISTORY": str(c.history)} if c.history else {})})


def ranks_job(spec, least=1):
    """A job of two contributions a round, and at least so many ranks."""
    spec["train"].update(mode="allreduce", workers={"min": least, "max": 2})
    return spec


def counting_job(epochs, least=2):
    """A round averages two steps of as many samples, so its mean is half of their
    sum, exactly; a rate of two takes that back."""
    return ranks_job({
        "name": "counts",
        "model": {"type": "external", "variables": [
            {"name": "count", "shape": [1], "initializer": "zeros"},
            {"name": "sum", "shape": [1], "initializer": "zeros"}]},
        "optimizer": {"type": "sgd", "learning_rate": 2.0},
        "data": {"train": {"format": "external", "samples": SAMPLES}},
        "train": {"batch": BATCH, "epochs": epochs, "steps_per_closure": 4},
        "checkpoint": {"every_seconds": 1}}, least)


def check_exact(c, job, epochs):
    out = exported(c, job)
    check_equal(-out["count"][0], SAMPLES * epochs, "samples that were counted")
    check_equal(-out["sum"][0], SAMPLES * (SAMPLES - 1) // 2 * epochs, "their sum")


def wait_ranks(c, job, ranks):
    wait_for(f"a ring of {ranks}",
             lambda: int(c.status(job).get("ring_ranks", 0)) == ranks)


def disturbed(c, start, epochs, kills):
    """So many kills of one of two ranks, and another one joins; a coordinator is
    restarted; each sample counts once an epoch."""
    with Programs(start) as programs:
        job = c.submit(counting_job(epochs))
        for i in range(kills):
            wait_ranks(c, job, 2)
            c.wait_steps(job, c.steps(job) + 40)
            programs.replace()
        wait_ranks(c, job, 2)
        c.restart("coordinator")
        c.wait_steps(job, c.steps(job) + 40)
        done = c.wait_state(job)
        for program in programs.running:
            check_equal(program.process.wait(timeout=30 * LIMIT), 0, "exit of a program")
    check_counts(done)
    check_exact(c, job, epochs)
    return done, programs


def ranks_in_c_are_killed_and_join_and_every_sample_counts_once():
    epochs, kills = (500, 4) if PATIENCE == 1 else (400, 2)
    with Cluster(psservers=0, workers=0) as c:
        done, programs = disturbed(
            c, lambda name: Rank(c, name, COUNTS, c.address, name, c.dir / "store", MS),
            epochs, kills)
        check(int(done["ring_generation"]) >= 2 * kills, done["ring_generation"])
        # The survivors' process and state stay: they go on where they were.
        said = (c.dir / f"program-{programs.begun - 1}.log").read_text()
        rounds = list(map(int, re.findall(r"rank \d of \d, (\d+) rounds", said)))
        check(rounds and rounds[0] > 0, f"the last one began at {rounds[:3]}")
        check_equal(rounds, sorted(rounds), "rounds of a program that was not killed")


def a_model_is_learnt_without_a_psserver():
    with Cluster(psservers=0, workers=0) as c:
        start = lambda name: Rank(  # noqa: E731
            c, name, OWN, "--coordinator", c.address, "--name", name, "--store",
            c.dir / "store")
        with Programs(start) as programs:
            job = c.submit(ranks_job(linear_job(epochs=50), least=2))
            wait_ranks(c, job, 2)
            c.wait_steps(job, 100)
            programs.replace()
            check_counts(c.wait_state(job))
            check_learnt(c, job)


NUMPY = """
import contextlib, signal, sys, time, numpy, sluice
address, name, store, *tls = sys.argv[1:]
with sluice.Session(address, name=name, store=store, wait=60, tls=tuple(tls) or None,
                    shm=not tls) as session:
    signal.signal(signal.SIGTERM, lambda *_: session.drain())
    for closure in session.closures():
        with contextlib.suppress(sluice.Lost):  # the ring is another by now
            for step in closure.steps():
                time.sleep(MS / 1000)
                samples = step.samples.astype(numpy.float32)
                closure.grads[:] = len(samples), samples.sum()
                step.done(loss_sum=1.0)
                assert closure.ranks and closure.rank < closure.ranks
                print(closure.rounds, flush=True)
""".replace("MS", str(MS))


def numpy_ranks_are_killed_and_join_and_every_sample_counts_once():
    epochs = 300
    with Cluster(psservers=0, workers=0) as c:
        path = c.dir / "counts.py"
        path.write_text(NUMPY)
        disturbed(c, lambda name: Rank(
            c, name, sys.executable, path, c.address, name, c.dir / "store",
            **PYTHON), epochs, 2)


def a_signal_drains_a_rank_and_the_others_go_on():
    """Its round ends, nothing is done again, and no rank is accused."""
    with Cluster(psservers=0, workers=0, coordinator_args=LONG_LEASE) as c:
        path = c.dir / "counts.py"
        path.write_text(NUMPY)
        ranks = [Rank(c, name, sys.executable, path, c.address, name,
                      c.dir / "store", **PYTHON) for name in ("one", "two")]
        try:
            job = c.submit(counting_job(300, least=1))
            wait_ranks(c, job, 2)
            c.wait_steps(job, c.steps(job) + 40)
            ranks[0].end(signal.SIGTERM)
            check_equal(ranks[0].process.returncode, 0, "exit of a drained rank")
            done = c.wait_state(job)
            check("ring-broken" not in c.run("events", job, "-o", "jsonl").stdout,
                  "a rank that drained is said to have broken the ring")
        finally:
            for rank in ranks:
                rank.end()
        check_counts(done)
        check_exact(c, job, 300)
        check_equal(int(done["closures_retried"]), 0, "closures retried by a drain")


def ranks_of_other_hosts_sum_over_the_network_with_certificates():
    """Without shared memory a program is a host of its own."""
    with Guarded(psservers=0, workers=0) as c:
        path = c.dir / "counts.py"
        path.write_text(NUMPY)
        files = [c.certs / f for f in ("ca.crt", "worker.crt", "worker.key")]
        start = lambda name: Rank(  # noqa: E731
            c, name, sys.executable, path, c.address, name, c.dir / "store", *files,
            **PYTHON)
        with Programs(start) as programs:
            job = c.submit(counting_job(250))
            wait_ranks(c, job, 2)
            wait_for("what a sum costs to be told",
                     lambda: int(c.status(job).get("sum_bytes", 0)) > 0)
            programs.replace()
            done = c.wait_state(job)
        check_counts(done)
        check_exact(c, job, 250)


REFUSED = """
import sluice._program as p
for words, mode in (({"store": "/tmp"}, "hybrid"), ({}, "sync"), ({"ranks": 2}, "async")):
    try:
        p.Program("job", "nowhere:1", [("w", (1,))], {"type": "sgd"}, mode=mode, **words)
    except ValueError as error:
        assert "allreduce" in str(error), error
    else:
        assert False, mode
"""


def what_cannot_be_is_said():
    """At submit, and by the package."""
    with Cluster(psservers=1, workers=0) as c:
        spec = linear_job()
        spec["train"].update(mode="sync", steps_per_closure=1)
        path = c.dir / "sync.yaml"
        path.write_text(json.dumps(spec))
        done = c.run("submit", path, "--no-wait", want=None)
        check(done.returncode != 0 and "or in allreduce" in done.stderr, done.stderr)
    subprocess.run([sys.executable, "-c", REFUSED], check=True,
                   env={**os.environ, **PYTHON})


if __name__ == "__main__":
    main([ranks_in_c_are_killed_and_join_and_every_sample_counts_once,
          a_model_is_learnt_without_a_psserver,
          numpy_ranks_are_killed_and_join_and_every_sample_counts_once,
          a_signal_drains_a_rank_and_the_others_go_on,
          ranks_of_other_hosts_sum_over_the_network_with_certificates, what_cannot_be_is_said])
