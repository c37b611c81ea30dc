#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`replay` under loss: Adam on two psservers with three workers at once, whose
processes are killed; then every update is applied again, one after the other,
and every snapshot of every incarnation and the export must be the same to the
bit. So must the rows of tables be, which come and go. (That a wrong value is seen is
shown by broken_test.py: change_value, lose_slots; rule_T1, rule_T4 of rows.)
"""
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "system")]
os.environ["SLUICE_HISTORY_CHECK"] = "1"
os.environ["SLUICE_HISTORY_PAYLOADS"] = "1"
from cluster import (Cluster, check, check_counts, main, mlp_job,  # noqa: E402
                     wait_for)
import conserve  # noqa: E402
import conserve_rows  # noqa: E402
from events import Report, read  # noqa: E402
from replay import replay  # noqa: E402

# What is killed when so many steps are counted; several: at the same moment.
# The last is far from the end: a job that is through loads nothing any more.
KILLS = [(100, ["ps-0"]), (500, ["w-0"]), (900, ["ps-1", "w-1"]),
         (1300, ["ps-0", "ps-1"]), (1700, ["coordinator"]), (2100, ["ps-1"])]
KILLS_OF_PSSERVERS = [(100, ["ps-0"]), (300, ["ps-1"]), (600, ["ps-0", "ps-1"])]


def spec(**train):
    job = mlp_job("replay", samples=3200, epochs=32, batch=16, steps_per_closure=5,
                  **train)
    job["model"]["layers"][1]["units"] = 4  # small pushes
    # No snapshot that is reported goes before the end.
    job["checkpoint"] = {"every_seconds": 0.2, "every_epoch": True, "keep": 1000}
    return job


def kill_all(c, job, kills):
    for steps, names in kills:
        c.wait_steps(job, steps)
        # Past a cut, so that something is loaded and not only the seed.
        wait_for("a cut", lambda: c.json("checkpoints", job)["checkpoints"])
        for name in names:
            c.kill(name)
        for name in names:
            c.start(name)


def check_replayed(c, job):
    status = c.wait_state(job)
    check_counts(status)
    export = c.dir / "export.safetensors"
    c.run("export", job, "--to", export)
    events = read(c.history)
    report = Report()
    said = replay(c.history, report, export, events)
    check(not report.violations, "the replay differs", *report.lines())
    _, updates, _, _, files, _ = said.split()
    shards, steps = len(status["shards"]), int(status["steps_asked"])
    reloads = sum(e.kind == "loaded" and e["from_i"] > 0 for e in events)
    # What was lost with a memory was pushed again.
    check(int(updates.rstrip(",")) > shards * steps, f"too little: {said}")
    check(int(files) > 3 * shards, f"too few files: {said}")
    check(reloads >= 4, f"only {reloads} shards were loaded from a snapshot")
    print(f"{said}, {reloads} shards loaded from a snapshot")


def killed_and_replayed(worker_args=(), **train):
    with Cluster(psservers=2, workers=3, worker_args=worker_args) as c:
        job = c.submit(spec(**train))
        kill_all(c, job, KILLS)
        check_replayed(c, job)


def rows_killed_and_replayed():
    """Coins and evictions, too, and slots of rows."""
    with Cluster(psservers=2, workers=0) as c:
        c.program_file = conserve_rows.__file__
        job = conserve_rows.rows_job(epochs=20)
        late, few = job["model"]["tables"]
        late["admit"]["probability"] = 0.5
        few["optimizer"] = {"type": "rowwise_adagrad", "learning_rate": 0.1}
        few["evict"]["unused_steps"] = 300
        job["checkpoint"] = spec()["checkpoint"]
        with conserve.Programs(c, 2):
            job = c.submit(job)
            kill_all(c, job, KILLS_OF_PSSERVERS)
            check_replayed(c, job)


def sixteen_bits_killed_and_replayed():
    """Through shared memory, where a copy is looked at and then widened."""
    killed_and_replayed(["--shm-min", "4"], wire="f16")


if __name__ == "__main__":
    main([killed_and_replayed, rows_killed_and_replayed, sixteen_bits_killed_and_replayed])
