# SPDX-License-Identifier: Apache-2.0
"""Programs in torch, Keras and JAX of the peers' environment (frameworks.py)."""
import os
import pathlib
import signal
import subprocess
import sys

import orphans
from cluster import BIN, LIMIT, ROOT, check_counts, check_equal, main, slowly, wait_for
from external_test import Program, Programs
from frameworks import PYTHON, run_warm, there

ENVIRONMENT = {"SLUICE_LIBRARY": str(BIN.parent / "lib" / "libsluice.so"),
               "SLUICE_BIN": str(BIN), "OMP_NUM_THREADS": "1",
               "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": f"{ROOT / 'python'}:{ROOT / 'examples'}"}


# What programs begin with that have no environment of their own but Keras' backend.
WARM = {"torch": ("torch", "torch._dynamo"), "keras": ("keras",), "jax": ("jax",)}
WARM["recbole"] = WARM["torch"]
framework = [None]  # that main_with was told


def run(code, *words, backend="tensorflow", **environment):
    """What a program prints that is to end well. `backend`: Keras'."""
    always = {**ENVIRONMENT, "KERAS_BACKEND": backend}
    if framework[0] in WARM and not environment:
        return run_warm(WARM[framework[0]], always, code, *words)
    done = subprocess.run([PYTHON, "-c", code, *words], check=False, text=True,
                          capture_output=True, env={**os.environ, **always, **environment})
    check_equal(done.returncode, 0, done.stdout + done.stderr)
    return done.stdout


class Forked(Program):
    """A program that begins where its imports are done."""

    def __init__(self, c, name, path, words=()):
        self.log = open(c.dir / f"{name}.log", "ab")
        self.process = orphans.begin(
            WARM[framework[0]], {**ENVIRONMENT, "KERAS_BACKEND": "tensorflow"}, path,
            ("--coordinator", c.address, "--name", name, *words), self.log.name, PYTHON)


def some_text(c, size):
    """Returns an example's argument: a file of so many bytes of text, for a short training."""
    path = c.dir / "text"
    path.write_bytes(pathlib.Path("/usr/share/common-licenses/GPL-3").read_bytes()[:size])
    return f"--file={path}"


def begin(c, example, *words):
    """name -> an example as a program of cluster `c`, begun as a fork."""
    return lambda name: Forked(c, name, ROOT / "examples" / example, words)


def the_job(c):
    return wait_for("a job", lambda: next(
        (j["id"] for j in c.json("jobs").get("jobs", [])), None), 60)


def train_and_die(c, example, at, *words):
    """Two programs of an example train the job that the first one submits; one is
    killed and replaced at each count of steps of `at`, then a psserver. The other one
    stands still until the new one is there, which would begin another job if this one
    had ended. Gives what those that are left have printed."""
    with Programs(begin(c, example, *words)) as programs:
        job = the_job(c)
        for steps in at:
            c.wait_steps(job, steps)
            programs.replace()
            for i, program in zip((2, 1), programs.running):
                c.wait_attached(f"program-{programs.begun - i}")
                program.process.send_signal(signal.SIGSTOP)
            for program in programs.running:
                program.process.send_signal(signal.SIGCONT)
        c.restart("ps-1")
        done = c.wait_state(job)
        for program in programs.running:
            check_equal(program.process.wait(timeout=60 * LIMIT), 0, "exit of a program")
    check_counts(done)
    check_equal(len(c.json("jobs")["jobs"]), 1, "jobs of programs that agree")
    said = "".join((c.dir / f"program-{i}.log").read_text()
                   for i in (programs.begun - 2, programs.begun - 1))
    print(said, flush=True)
    return said


def leave(c, example, steps, *words):
    """SIGTERM lets a step end: nothing is done twice, and another program goes on. The one
    that leaves begins as people begin it, not as a fork."""
    run("pass")  # the one that a fork is made of: after that it is there at once
    path = ROOT / "examples" / example
    kinds = iter((lambda name: Program(c, name, path, words, python=PYTHON, **ENVIRONMENT),
                  begin(c, example, *words)))
    with Programs(lambda name: next(kinds)(name), count=1) as programs:
        job = the_job(c)
        with slowly(lambda: [programs.running[0].process]):
            programs.begin()
            c.wait_attached("program-1")
        c.wait_steps(job, steps)
        programs.running[0].end(signal.SIGTERM)
        check_equal(programs.running[0].process.returncode, 0, "exit of one that left")
        done = c.wait_state(job)
        check_equal(programs.running[1].process.wait(timeout=60 * LIMIT), 0, "exit of the other")
    check_counts(done)
    check_equal(int(done["closures_retried"]), 0, "closures that were done again")
    check_equal(len(c.json("jobs")["jobs"]), 1, "jobs: it had not ended when one left")


def main_with(module, cases):
    if not there(module):
        sys.exit(77)
    framework[0] = module
    main(cases)
