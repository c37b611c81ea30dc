#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program of the user's that has its model by range: it pulls rows of variables and
pushes their gradients, and never has all of it in memory. Each step counts once."""
import os
import subprocess
import sys

import numpy as np
from cluster import LIMIT, PATIENCE, Cluster, check, check_counts, check_equal, main, wait_for
from external_test import Programs, exported
from lib_ring_test import PYTHON, Rank

ROWS, COLUMNS = 5000, 130  # more than a shard's, of odd sizes
SAMPLES, BATCH = 64, 8


def range_job(epochs, **words):
    """Each step subtracts 1 from every row but the last of `table`, the sum of its
    samples from `sum`, and nothing from what nobody pushes."""
    return {"name": "ranges",
            "model": {"type": "external", "variables": [
                {"name": "sum", "shape": [1], "initializer": "zeros"},
                {"name": "table", "shape": [ROWS, COLUMNS], "initializer": "zeros"},
                {"name": "other", "shape": [ROWS, 3], "initializer": "ones"}]},
            "optimizer": {"type": "sgd", "learning_rate": 1.0,
                          **words.pop("optimizer", {})},
            "data": {"train": {"format": "external", "samples": SAMPLES}},
            "train": {"batch": BATCH, "epochs": epochs, "steps_per_closure": 4, **words},
            "checkpoint": {"every_seconds": 1}}


PROGRAM = f"""
import sys, time, numpy, sluice
ROWS, COLUMNS = {ROWS}, {COLUMNS}
address, name = sys.argv[1:]
ones = numpy.ones((ROWS, COLUMNS), numpy.float32)
with sluice.Session(address, name=name, wait=60, by_range=True) as session:
    for closure in session.closures():
        for step in closure.steps():
            time.sleep(0.02)  # what a step takes: others have the processors
            try:
                # All rows have been moved equally often in one update of a shard.
                some = closure.pull("table", 17, 1234)
                assert some.shape == (1217, COLUMNS)
                assert (some == some[:, :1]).all(), "rows are mixed up"
                last = closure.pull("table", ROWS - 1)
                assert last.shape == (1, COLUMNS) and not last.any(), "the last row"
                out = numpy.empty((7, 3), numpy.float32)
                assert closure.pull("other", 40, 47, out) is out
                assert (out == 1).all(), "what nobody pushes"
                for end in range(ROWS - 1, 0, -777):  # from behind, as backward has it
                    step.push("table", ones[max(0, end - 777):end], max(0, end - 777))
                step.push("sum", [step.samples.sum()])
                assert closure.pull("sum").shape == (1,)
            except sluice.session.Lost:
                break
            step.done(loss_sum=1.0)
            print("step", flush=True)
"""


def start_of(c, program=PROGRAM, **environment):
    path = c.dir / "program.py"
    path.write_text(program)
    return lambda name: Rank(c, name, sys.executable, path, c.address, name,
                             **PYTHON, **environment)


def check_exact(c, job, epochs):
    out = exported(c, job)
    steps = SAMPLES // BATCH * epochs
    table = -out["table"]
    check((table[:-1] == steps).all(), f"{np.unique(table[:-1])}, steps are {steps}")
    check(not table[-1].any() and (out["other"] == 1).all(), "what nobody has pushed")
    check_equal(-out["sum"][0], SAMPLES * (SAMPLES - 1) // 2 * epochs, "sum of samples")


def programs_and_psservers_are_killed_and_every_step_counts_once():
    epochs = 30 if PATIENCE == 1 else 20
    for words in ({}, {"max_delay": 4, "wire": "bf16"}):
        with Cluster(psservers=2, workers=0) as c:
            with Programs(start_of(c)) as programs:
                job = c.submit(range_job(epochs, **words))
                c.wait_steps(job, 20)
                programs.replace()
                c.wait_steps(job, c.steps(job) + 20)
                c.restart("ps-1")
                c.wait_steps(job, c.steps(job) + 20)
                c.restart("coordinator")
                done = c.wait_state(job)
                for program in programs.running:
                    check_equal(program.process.wait(timeout=30 * LIMIT), 0, "exit of a program")
            check_counts(done)
            if not words:  # else some are applied at a smaller rate
                check_exact(c, job, epochs)


AWAY = """
import pathlib, sys, numpy, sluice
address, name = sys.argv[1:]
pushed = pathlib.Path(__file__).parent / "pushed"
with sluice.Session(address, name=name, wait=60, by_range=True) as session:
    for closure in session.closures():
        for step in closure.steps():
            try:
                step.push("sum", [step.samples.sum()])
                step.push("table", numpy.ones((ROWS - 1, COLUMNS)))
                if not pushed.exists():
                    pushed.touch()
                    sys.stdin.readline()
                table = closure.pull("table")
                assert (table[:-1] == table[:-1, :1]).all()
            except sluice.session.Lost:
                break
            step.done()
""".replace("ROWS", str(ROWS)).replace("COLUMNS", str(COLUMNS))


def a_psserver_dies_between_a_push_and_a_pull():
    """It comes back without what was pushed: the pull waits for it, and the step is
    computed again."""
    with Cluster(psservers=1, workers=0) as c:
        path = c.dir / "program.py"
        path.write_text(AWAY)
        program = Piped(c, path)
        try:
            job = c.submit(range_job(4))
            wait_for("a step to be under way", (c.dir / "pushed").exists)
            c.kill("ps-0")
            program.go()
            c.start("ps-0")
            done = c.wait_state(job)
        finally:
            program.end()
        check_counts(done)
        check_exact(c, job, 4)


class Piped:
    """A program that waits for a word of ours."""

    def __init__(self, c, path):
        self.log = open(c.dir / "program.log", "ab")
        self.process = subprocess.Popen(
            [sys.executable, str(path), c.address, "piped"], stdin=subprocess.PIPE,
            stdout=self.log, stderr=self.log, env={**os.environ, **PYTHON})

    def go(self):
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.log.close()


BAD = """
import sys, numpy, sluice
from sluice import _native as native
address, name = sys.argv[1:]

def refused(kind, word, call, *words):
    try:
        call(*words)
    except kind as error:
        assert word in str(error), error
    else:
        raise AssertionError(f"{word}: not refused")

with sluice.Session(address, name=name, wait=60, by_range=True) as session:
    closure = session.take()
    pull = closure.pull
    refused(sluice.Error, "begin one", pull, "table")  # no step is under way
    step = closure.begin()
    refused(KeyError, "no variable 'tables'", pull, "tables")
    refused(IndexError, "rows 0 to 5001", pull, "table", 0, 5001)
    refused(IndexError, "rows -1 to 5000", pull, "table", -1)
    refused(IndexError, "rows 7 to 6", pull, "table", 7, 6)
    refused(ValueError, "float32", pull, "other", 0, 2, numpy.zeros((2, 3)))
    refused(ValueError, "float32", pull, "other", 0, 2, numpy.zeros((3, 2), numpy.float32))
    refused(ValueError, "are of (130,)", step.push, "table", numpy.zeros((2, 7)))
    refused(IndexError, "rows 4999 to 5001", step.push, "table", numpy.zeros((2, 130)), 4999)
    refused(sluice.Error, "is by range", step.ready, 0, 1)
    n = closure.elements
    for first, count in ((n, 1), (n + 1, 0), (0, n + 1), (1, 2**64 - 1), (2**63, 2**63)):
        for name in ("sluice_pull", "sluice_push"):
            try:
                native.call(name, closure._handle(), first, count, None)
            except sluice.Error as error:
                assert error.number == native.ERANGE, error
            else:
                raise AssertionError(f"{name}: {first} + {count} of {n}")
    assert pull("table", 9, 9).shape == (0, 130)
    native.call("sluice_pull", closure._handle(), n, 0, None)
    assert not native.lib().sluice_params(closure._handle())
    print("all refused", flush=True)
    closure.let_go("enough")
with sluice.Session(address, name=name + "-flat", wait=60) as session:
    closure = session.take()
    step = closure.begin()
    refused(sluice.Error, "open it with by_range", closure.pull, "table")
    refused(sluice.Error, "open it with by_range", step.push, "sum", [1.0])
    print("all said", flush=True)
"""


def what_cannot_be_is_said():
    with Cluster(psservers=1, workers=0) as c:
        job = c.submit(range_job(2))
        program = start_of(c, BAD)("bad")
        program.process.wait(timeout=60 * LIMIT)
        said = (c.dir / "bad.log").read_text()
        check("all refused" in said and "all said" in said, said)
        program.end()
        c.run("stop", job)
        norm = c.submit(range_job(2, optimizer={"clipnorm": 1.0}))
        with Programs(start_of(c), count=1):
            done = c.wait_state(norm, "failed")
            check("by range" in done["reason"], done["reason"])
        # Before its program is there, which has no store: submit refuses that.
        ring = c.submit({**range_job(2), "name": "ring"} | {"train": {
            "batch": BATCH, "epochs": 2, "mode": "allreduce"}})
        with Programs(start_of(c), count=1):
            wait_for("the reason", lambda: "can be a rank" in
                     c.status(ring).get("reason", ""))


LARGE = 1 << 27  # elements: 512 MiB

MEMORY = """
import sys, numpy, sluice
address, name = sys.argv[1:]
PIECE = 1 << 22
out = numpy.empty((PIECE,), numpy.float32)
ones = numpy.ones((PIECE,), numpy.float32)
with sluice.Session(address, name=name, wait=60, by_range=True) as session:
    for closure in session.closures():
        for step in closure.steps():
            for first in range(0, LARGE, PIECE):
                closure.pull("large", first, first + PIECE, out)
                assert out.min() == out.max(), "one update is all of a shard"
                step.push("large", ones, first)
            step.done()
most = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print("most memory:", int(most.split()[1]) >> 10, "MiB", flush=True)
""".replace("LARGE", str(LARGE))


def a_model_larger_than_the_programs_memory():
    """In f32 and in bf16: what a program takes does not depend on its model."""
    for wire in ("f32", "bf16"):
        with Cluster(psservers=2, workers=0) as c:
            spec = range_job(1, wire=wire)
            spec["model"]["variables"] = [
                {"name": "large", "shape": [LARGE], "initializer": "zeros"}]
            spec["data"]["train"]["samples"] = 2 * BATCH
            program = start_of(c, MEMORY)("large")
            job = c.submit(spec)
            done = c.wait_state(job)
            check_equal(program.process.wait(timeout=30 * LIMIT), 0, "exit of the program")
            program.end()
            check_counts(done)
            said = (c.dir / "large.log").read_text()
            most = int(said.split("most memory:")[1].split()[0])
            print(f"{wire}: {most} MiB of {LARGE >> 18}", flush=True)
            check(most < LARGE >> 19, f"{most} MiB for a model of {LARGE >> 18} MiB")


if __name__ == "__main__":
    main([programs_and_psservers_are_killed_and_every_step_counts_once,
          a_psserver_dies_between_a_push_and_a_pull, what_cannot_be_is_said,
          a_model_larger_than_the_programs_memory])
