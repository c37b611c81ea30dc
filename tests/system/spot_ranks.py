# SPDX-License-Identifier: Apache-2.0
"""Ranks that wait for their gradients as for a GPU of their own: programs with
libsluice, so that many of them train on few cores and none waits for another's.

Of each sample counts that it was there, and a small number of its own, as
integers: f32 has them exactly, and a round's samples are a power of two."""
import os
import subprocess
import sys

from cluster import check_equal
from lib_ring_test import PYTHON, exported

SAMPLES, BATCH, ROUND, WORTH = 256, 8, 32, 8
STEPS = SAMPLES // BATCH  # of an epoch: a round

PROGRAM = f"""
import contextlib, signal, sys, threading, numpy, sluice
address, name, store, compute_s = sys.argv[1:]
nobody = threading.Event()
with sluice.Session(address, name=name, store=store, wait=60) as session:
    signal.signal(signal.SIGTERM, lambda *_: session.drain())
    print("attended", flush=True)
    for closure in session.closures():
        with contextlib.suppress(sluice.Lost):  # the ring is another by now
            for step in closure.steps():
                nobody.wait(float(compute_s))  # it computes elsewhere
                closure.grads[:] = len(step.samples), (step.samples % {WORTH}).sum()
                step.done(loss_sum=1.0)
                print(closure.rounds, flush=True)
"""


def job(name, epochs, every_seconds):
    return {"name": name,
            "model": {"type": "external", "variables": [
                {"name": name, "shape": [1], "initializer": "zeros"}
                for name in ("count", "sum")]},
            "optimizer": {"type": "sgd", "learning_rate": ROUND},
            "data": {"train": {"format": "external", "samples": SAMPLES}},
            "train": {"batch": BATCH, "epochs": epochs, "steps_per_closure": 1,
                      "mode": "allreduce", "contributions": ROUND},
            "checkpoint": {"every_seconds": every_seconds, "every_epoch": False}}


def start(c, name, compute_s):
    with open(c.dir / f"{name}.log", "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, c.address, name, str(c.dir / "store"), str(compute_s)],
            stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, **PYTHON})


def check_exact(c, job_id, epochs):
    """Each sample of a finished job counted once in each epoch."""
    out = exported(c, job_id)
    check_equal(-out["count"][0], SAMPLES * epochs, "samples that were counted")
    check_equal(-out["sum"][0], sum(i % WORTH for i in range(SAMPLES)) * epochs, "their sum")
