#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package: a NumPy program is a worker, what it does counts once
while it is killed, a signal drains it; and jobs as a client sees them."""
import os
import re
import signal
import socket
import subprocess
import sys
import threading

from cluster import (BIN, LIMIT, LONG_LEASE, ROOT, Cluster, check, check_counts, check_equal, main,
                     wait_for)
from external_test import Program, Programs, check_learnt, linear_job

EXAMPLE = ROOT / "examples" / "numpy_worker.py"
os.environ["SLUICE_LIBRARY"] = str(BIN.parent / "lib" / "libsluice.so")
os.environ["SLUICE_BIN"] = str(BIN)
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
sys.path.insert(0, str(ROOT / "python"))
import sluice  # noqa: E402
from sluice import _native  # noqa: E402


def numpy_programs_train_and_die():
    with Cluster(psservers=2, workers=0) as c:
        with Programs(lambda name: Program(c, name, EXAMPLE)) as programs:
            job = c.submit(linear_job(epochs=20))
            for steps in (200, 400, 800, 1200):
                c.wait_steps(job, steps)
                programs.replace()
            c.restart("ps-0")
            done = c.wait_state(job)
        check_counts(done)
        check_learnt(c, job)


KILLS = int(os.environ.get("SLUICE_KILLS", "20"))
COUNTS = """
import sys, numpy, sluice
with sluice.Session(sys.argv[2], name=sys.argv[4], wait=60) as session:
    for closure in session.closures():
        for step in closure.steps():
            samples = step.samples.astype(numpy.float32)
            closure.grads[:] = len(samples), samples.sum()
            step.done(loss_sum=1.0)
"""


def what_killed_programs_did_adds_up():
    """Gradients are whole numbers, below 2^24 in sum, and the rate is 1: what lies
    on the shards is what each sample added once an epoch, to the last bit. So many
    programs are killed as SLUICE_KILLS says."""
    samples, batch = 320, 8
    spec = {"name": "adds-up",
            "model": {"type": "external", "variables": [
                {"name": "count", "shape": [1], "initializer": "zeros"},
                {"name": "sum", "shape": [1], "initializer": "zeros"}]},
            "optimizer": {"type": "sgd", "learning_rate": 1.0},
            "data": {"train": {"format": "external", "samples": samples}},
            "train": {"batch": batch, "epochs": KILLS + 2, "steps_per_closure": 4},
            "checkpoint": {"every_seconds": 1}}
    with Cluster(psservers=2, workers=0) as c:
        path = c.dir / "counts.py"
        path.write_text(COUNTS)
        with Programs(lambda name: Program(c, name, path), count=3) as programs:
            job = c.submit(spec)
            for i in range(KILLS):
                c.wait_steps(job, (i + 1) * samples // batch)
                programs.replace()
            done = c.wait_state(job)
        check_counts(done)
        out, epochs = sluice.export(job, c.address), KILLS + 2
        check_equal(-out["count"][0], samples * epochs, "samples that were counted")
        check_equal(-out["sum"][0], samples * (samples - 1) // 2 * epochs, "their sum")


def a_signal_drains():
    """The step under way ends, nothing is lost or retried, the exit is clean."""
    with Cluster(psservers=1, workers=0, coordinator_args=LONG_LEASE) as c:
        first = Program(c, "first", EXAMPLE)
        second = None
        try:
            job = c.submit(linear_job(epochs=20))
            c.wait_steps(job, 100)
            first.end(signal.SIGTERM)
            check_equal(first.process.returncode, 0, "exit of a drained program")
            second = Program(c, "second", EXAMPLE)
            done = c.wait_state(job)
        finally:
            for program in filter(None, (first, second)):
                program.end()
        check_counts(done)
        check_equal(int(done["closures_retried"]), 0, "closures retried by a drain")


def a_session_works_for_one_job_alone():
    with Cluster(psservers=1, workers=0, coordinator_args=LONG_LEASE) as c:
        other = c.submit({**linear_job(), "name": "other"})
        mine = sluice.submit(linear_job(epochs=1), c.address, request_id="mine")
        again = sluice.submit(linear_job(epochs=1), c.address, request_id="mine")
        check_equal(again, mine, "the job of the same request")
        seen = set()
        number = int(sluice.status(mine, c.address)["job"])
        with sluice.Session(c.address, name="np", job=number, wait=30) as session:
            for closure in session.closures():
                seen.add(closure.job_number)
                names = [(v.name, v.shape) for v in closure.variables]
                check_equal(names, [("weights", (4,)), ("bias", (1,))], "variables")
                for step in closure.steps():
                    check_equal(len(step.samples), step.count, "samples of a step")
                    closure.views(closure.grads)["bias"][0] = 1.0
                    closure.grads[:4] = 0
                    step.ready(4, 1)
                    step.done(loss_sum=float(step.count))
        check_equal(seen, {number}, "jobs that were worked for")
        check_equal(c.steps(other), 0, "steps of the other job")
        done = c.wait_state(mine)
        check_counts(done)
        # 128 steps of rate 0.05 and gradient 1.
        out = sluice.export(mine, c.address)
        check(abs(out["bias"][0] + 128 * 0.05) < 1e-3, out["bias"])
        check_equal([j["id"] for j in sluice.jobs(c.address)], [mine, other], "jobs")
        sluice.stop(other, c.address)
        c.wait_state(other, "stopped")


def others_go_on_while_one_waits():
    """No call keeps the interpreter's lock."""
    with Cluster(psservers=1, workers=0) as c:
        went, over = threading.Event(), threading.Event()

        def count():
            while not over.is_set():
                went.set()

        with sluice.Session(c.address, name="np", wait=30) as session:
            thread = threading.Thread(target=count)
            thread.start()
            went.clear()
            try:
                session.take(wait=0.5)
                check(False, "a closure of no job")
            except TimeoutError:
                pass
            check(went.is_set(), "the other thread stood still")
            over.set()
            thread.join()


TWO = """
import sys, sluice
first = sluice.Session(sys.argv[1], wait=60)
second = sluice.Session(sys.argv[1], wait=60)
print(sys.stdin.read())
for session in (first, second):
    try:
        session.take(wait=0)
    except TimeoutError:
        print("is there")
"""


def sessions_without_a_name_do_not_replace_each_other():
    with Cluster(psservers=0, workers=0, coordinator_args=LONG_LEASE) as c:
        with subprocess.Popen([sys.executable, "-c", TWO, c.address], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as two:
            name = f"{socket.gethostname()}-{two.pid}"
            c.wait_attached(name, f"{name}-2")
            said, _ = two.communicate(timeout=60 * LIMIT)
            check_equal(said.split("\n")[1:-1], ["is there"] * 2, "sessions")


def an_error_has_the_size_that_it_has_in_c():
    """Else the library writes behind it."""
    header = (ROOT / "common" / "base" / "status.h").read_text()
    text = int(re.search(r"#define SL_ERROR_TEXT (\d+)", header)[1])
    check_equal(_native.sl_error.text.size, text, "bytes of an error's text")


def what_is_wrong_is_said():
    try:
        sluice.Session("nowhere")
        check(False, "an address that is none was taken")
    except sluice.Error as error:
        check_equal(error.code, "SL_EINVAL", "code")
        check("nowhere" in str(error), str(error))
    try:
        sluice.Session("127.0.0.1:1", wait=0.5)
        check(False, "attached to nobody")
    except TimeoutError as error:
        check("127.0.0.1:1" in str(error), str(error))
    done = subprocess.run(
        [sys.executable, "-c", "import sluice; sluice.Session('x:1')"],
        env={**os.environ, "SLUICE_LIBRARY": "/nowhere/libsluice.so"},
        capture_output=True, text=True, check=False)
    check("SLUICE_LIBRARY" in done.stderr, "what to do", done.stderr)


if __name__ == "__main__":
    main([an_error_has_the_size_that_it_has_in_c, numpy_programs_train_and_die, what_killed_programs_did_adds_up,
          a_signal_drains,
          a_session_works_for_one_job_alone, others_go_on_while_one_waits,
          sessions_without_a_name_do_not_replace_each_other, what_is_wrong_is_said])
