#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs with tables as ranks (train.mode allreduce): they have the dense part of a job,
psservers its rows. A step counts for both or for neither, whoever dies, to the last
integer."""
import json
import os
import signal
import sys

from access_test import Guarded
from cluster import LONG_LEASE, Cluster, check, check_counts, check_equal, main, wait_for
from external_test import Programs, exported
from lib_ring_test import PYTHON, Rank, wait_ranks
from native_rows_test import rows_of

SAMPLES, BATCH, IDS, FAR = 64, 8, 7, 1 << 63
ROUND = 2 * BATCH  # samples of a round of two contributions

# A step counts its samples and adds up their numbers, of all and of each id: a round is the
# mean of two steps, and the rate takes the half back. In mode async a step says half.
RANK = """
import contextlib, json, os, signal, sys, time, numpy, sluice
address, name, store, strange, *tls = sys.argv[1:]
strange = json.loads(strange)  # {first position of a step: what is strange in it, or a gate}
with sluice.Session(address, name=name, store=store, wait=60, tls=tuple(tls) or None,
                    shm=not tls) as session:
    signal.signal(signal.SIGTERM, lambda *_: session.drain())
    everybody = numpy.arange(IDS, dtype=numpy.uint64) + numpy.uint64(FAR)
    for closure in session.closures():
        with contextlib.suppress(sluice.Lost):  # the ring is another by now
            for step in closure.steps():
                time.sleep(0.004)  # what a step takes: others have the processors
                share, what = (1 if closure.ranks else 0.5), strange.get(str(step.first))
                rows = closure.rows("seen", everybody)
                assert not closure.ranks or (rows.sum(0) == closure.params).all(), (
                    "rows of another round", rows, closure.params)
                number = step.samples.astype(numpy.float32)
                each = share * numpy.stack([numpy.ones_like(number), number], axis=1)
                closure.grads[:] = each.sum(0)
                if what and os.path.exists(what):
                    print("stands", flush=True)
                    open(what).close()
                if what == "row":
                    each[3] = numpy.nan
                step.push_rows("seen", step.samples % numpy.uint64(IDS) + numpy.uint64(FAR), each)
                step.done(loss_sum=1.0, skip=what == "skip")
                print(closure.rounds, flush=True)
""".replace("IDS", str(IDS)).replace("FAR", str(FAR))


def counting_job(epochs, **train):
    if train.get("mode") != "async":
        train = {"contributions": 2, "mode": "allreduce", **train}
    return {"name": "counts",
            "model": {"type": "external",
                      "variables": [{"name": "all", "shape": [2], "initializer": "zeros"}],
                      "tables": [{"name": "seen", "dim": 2, "initializer": "zeros",
                                  "buckets": 16}]},
            "optimizer": {"type": "sgd", "learning_rate": 2.0},
            "data": {"train": {"format": "external", "samples": SAMPLES}},
            "train": {"batch": BATCH, "epochs": epochs, "steps_per_closure": 1,
                      "shuffle": False, **train},
            "checkpoint": {"every_seconds": 0.2}}


def check_exact(c, job, epochs, counts=lambda sample: True):
    """Those samples that count do, in each epoch once, in the parameters and in the row of
    their id."""
    samples = [s for s in range(SAMPLES) if counts(s)]
    check_equal((-exported(c, job)["all"]).tolist(),
                [len(samples) * epochs, sum(samples) * epochs], "samples, and their sum")
    rows = {number - FAR: (-row).tolist() for number, row in rows_of(c, job, "seen").items()}
    want = {i: [s for s in samples if s % IDS == i] for i in range(IDS)}
    check_equal(rows, {i: [float(len(of) * epochs), float(sum(of) * epochs)]
                       for i, of in want.items()}, "samples of each row, and their sum")


def ranks(c, count=2, strange=None, tls=()):
    path = c.dir / "counts.py"
    path.write_text(RANK)
    return Programs(lambda name: Rank(
        c, name, sys.executable, path, c.address, name, c.dir / "store",
        json.dumps(strange or {}), *tls, **PYTHON), count)


def nobody_saw_rows_of_another_round(c, programs):
    for i in range(programs.begun):
        said = (c.dir / f"program-{i}.log").read_text()
        check("Traceback" not in said, said)


def everybody_dies_and_each_sample_is_in_its_row_once():
    """R8, R9: a rank, a psserver and the coordinator, in turn; then all ranks, and with them
    the dense state."""
    epochs = 120
    with Cluster(psservers=2, workers=0) as c, ranks(c) as programs:
        job = c.submit(counting_job(epochs))
        for blow in (programs.replace, lambda: c.restart("ps-0"), programs.replace,
                     lambda: c.restart("coordinator"), lambda: c.restart("ps-1"),
                     lambda: [p.end() for p in programs.running]):
            wait_ranks(c, job, 2)
            wait_for("a cut", lambda: int(c.status(job)["cuts"]) > 0)
            c.wait_steps(job, c.steps(job) + 40)
            blow()
        for _ in range(2):
            programs.running.pop(0)
            programs.begin()
        done = c.wait_state(job)
        check_counts(done)
        check_exact(c, job, epochs)
        nobody_saw_rows_of_another_round(c, programs)


def one_program_computes_all_slots_of_a_round():
    with Cluster(psservers=2, workers=0) as c, ranks(c, 1) as programs:
        job = c.submit(counting_job(40))
        check_counts(c.wait_state(job))
        check_exact(c, job, 40)
        nobody_saw_rows_of_another_round(c, programs)


def a_round_that_is_skipped_changes_neither():
    """One that a program leaves out, and one with a row that is no number: with the other
    contribution of its round."""
    strange = {2 * BATCH: "skip", 7 * BATCH: "row"}
    skipped = {at // ROUND for at in strange}
    for count in (1, 2):
        with Cluster(psservers=2, workers=0) as c, ranks(c, count, strange) as programs:
            job = c.submit(counting_job(10))
            done = c.wait_state(job)
            check_counts(done)
            check_exact(c, job, 10, lambda sample: sample // ROUND not in skipped)
            check_equal({int(s["counts"]["skipped"]) for s in done["shards"]}, {40},
                        "steps that were skipped")
            nobody_saw_rows_of_another_round(c, programs)


def a_job_goes_on_in_another_mode():
    """From a ring into shards on psservers alone, and back."""
    with Cluster(psservers=2, workers=0) as c, ranks(c) as programs:
        words = []
        for i, mode in enumerate(("allreduce", "async", "allreduce"), 1):
            job = c.submit(counting_job(20 * i, mode=mode), *words)
            check_counts(c.wait_state(job))
            check_exact(c, job, 20 * i)
            words = ["--resume", job]
            for _ in range(2):
                programs.running.pop(0).end()
                programs.begin()
        nobody_saw_rows_of_another_round(c, programs)


def a_rank_that_waits_for_a_psserver_leaves_in_order():
    with Cluster(psservers=1, workers=0, coordinator_args=LONG_LEASE) as c, ranks(c) as programs:
        job = c.submit(counting_job(100))
        wait_ranks(c, job, 2)
        c.wait_steps(job, 40)
        c.kill("ps-0")
        for program in programs.running:
            program.end(signal.SIGTERM)
            check_equal(program.process.returncode, 0, "exit of a drained rank")
        c.start("ps-0")
        programs.running.clear()
        programs.begin()
        check_counts(c.wait_state(job))
        check_exact(c, job, 100)


def a_rank_that_waits_for_another_leaves_in_order():
    """One stands in a step, which is a program's right; the other has done its own."""
    with Cluster(psservers=2, workers=0, coordinator_args=LONG_LEASE) as c:
        gate = c.dir / "store" / "gate"
        with ranks(c, strange={str(3 * ROUND): str(gate)}) as programs:
            os.mkfifo(gate)
            job = c.submit(counting_job(100))
            wait_for("a rank to stand", lambda: any("stands" in c.log(f"program-{i}")
                                                    for i in range(2)))
            leaves = programs.running["stands" in c.log("program-0")]
            leaves.end(signal.SIGTERM)
            check_equal(leaves.process.returncode, 0, "exit of a drained rank")
            with gate.open("w"):
                gate.unlink()
            check_counts(c.wait_state(job))
            check_exact(c, job, 100)


def links_are_encrypted_and_calls_show_tokens():
    """Without shared memory a program is a host of its own."""
    with Guarded(psservers=2, workers=0) as c:
        files = [c.certs / f for f in ("ca.crt", "worker.crt", "worker.key")]
        with ranks(c, tls=files) as programs:
            job = c.submit(counting_job(40))
            wait_ranks(c, job, 2)
            programs.replace()
            check_counts(c.wait_state(job))
            check_exact(c, job, 40)
            nobody_saw_rows_of_another_round(c, programs)


if __name__ == "__main__":
    main([everybody_dies_and_each_sample_is_in_its_row_once,
          one_program_computes_all_slots_of_a_round,
          a_round_that_is_skipped_changes_neither,
          a_job_goes_on_in_another_mode,
          a_rank_that_waits_for_a_psserver_leaves_in_order,
          a_rank_that_waits_for_another_leaves_in_order,
          links_are_encrypted_and_calls_show_tokens])
