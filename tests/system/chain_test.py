#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as a base and deltas: a table begins with many rows of which training
changes few, so most snapshots have only those. The rows that no step changes are in
the base alone, and must come back with it wherever the chain is read."""
import json
import pathlib

import numpy as np
from cluster import Cluster, changed, check, check_counts, check_equal, main, wait_for
from conserve_rows import chain_of, files_of, records
from external_test import Programs
from rows_test import DIM, FIRST, PROGRAM, SAMPLES, as_rows, ids_of, sluice, start_of, tables_job

STILL = 20000  # rows of each table that no step changes
# The kills are over while steps take their time, and the rest has fewer cuts than DELTAS,
# however fast or slow this machine is: one a second.
EPOCHS, STEP_S = 200, 0.15
DELTAS = 63
LARGEST = 1 << 17  # bytes of a delta here; a base has more than twice as many


def unhurried(hurry):
    """The program of rows_test, whose steps take STEP_S until the file `hurry` is there."""
    return changed(PROGRAM, {"                closure.grads[:]": f"""
                if not os.path.exists({str(hurry)!r}):
                    threading.Event().wait({STEP_S})
                closure.grads[:]""", "import sys,": "import os, sys, threading,"})


def rows_to_begin_with(c, table, dim):
    from safetensors.numpy import save_file
    path = c.dir / f"{table}.begin"
    ids = np.arange(STILL, dtype=np.uint64) + np.uint64(1 << 62)
    save_file({"ids": ids, "values": np.full((STILL, dim), 5, np.float32)}, str(path))
    return ids.tolist(), ("--table-weights", f"{table}={path}")


def shards_of(cut):
    """Nothing if the cut went meanwhile."""
    try:
        return json.loads(pathlib.Path(cut["manifest"]).read_text())["shards"]
    except FileNotFoundError:
        return []


def last_cut(c, job):
    cuts = c.json("checkpoints", job)["checkpoints"]
    return shards_of(cuts[-1]) if cuts else []


def is_chain(shards):
    return bool(shards) and all(s.get("below", {}).get("files") for s in shards)


def expected(still, epochs, dim):
    rows = dict.fromkeys(still, [5] * dim)
    for number in ids_of(range(SAMPLES)).ravel().tolist():
        rows[number] = [rows.get(number, [FIRST])[0] - epochs] * dim
    return rows


def check_rows_are(c, job, still, epochs):
    for table, dim in (("users", DIM), ("items", DIM + 1)):
        want = expected(still, epochs, dim)
        check_equal(as_rows(sluice.export(job, c.address, table=table)), want,
                    f"{table} of {job}, exported")
        read = [(int(r["id"]), r["values"].tolist()) for path in files_of(c, job)
                for r in records(path, table, "rows", dim)]
        check_equal(len(read), len(want), f"rows of {table} in the files")
        check_equal(dict(read), want, f"{table} of {job}, in its files")


def needed(shards):
    """The files of a cut, and those below them: as the manifest says, and as they do."""
    said = {s["file"] for s in shards} | {
        f["file"] for s in shards for f in s.get("below", {}).get("files", [])}
    read = {p.name for s in shards for p in chain_of(pathlib.Path(s["folder"]) / s["file"])}
    check_equal(said, read, "files that the manifest names")
    return said


def only_what_is_needed_is_kept(c, job):
    shards = last_cut(c, job)
    folder = pathlib.Path(shards[0]["folder"])
    wait_for("the other files to go", lambda: {
        p.name for p in folder.glob("shard-*")} == needed(shards))
    sizes = {p.name: p.stat().st_size for p in folder.glob("shard-*")}
    for shard in shards:
        *deltas, base = [p.name for p in chain_of(folder / shard["file"])]
        check(sizes[base] > 2 * LARGEST, f"{base} has {sizes[base]} bytes")
        for delta in deltas:
            check(sizes[delta] < LARGEST, f"{delta} has {sizes[delta]} bytes")


# In builds with faults: behind the records of a file, and before one that goes is
# deleted. The first file of a shard that was loaded is a base, and others are deltas.
POINTS = ("snap.written", "snap.gc", "fs.rename")


def dies_writing(c, victim, point):
    c.restart(victim, environment={"SLUICE_FAULT": f"{point}=kill@4"})
    wait_for(f"a death at {point}", lambda: c.processes[victim].poll() is not None)
    c.restart(victim)


def processes_are_killed_and_the_chain_has_every_row():
    """A job on two psservers, of which one at a time is killed while cuts are made one
    behind another, as is the coordinator; then another one goes on with its rows on
    three, and one on two."""
    args = ["--deltas", str(DELTAS)]
    with Cluster(psservers=3, workers=0, psserver_args=args) as c:
        still, users = rows_to_begin_with(c, "users", DIM)
        _, items = rows_to_begin_with(c, "items", DIM + 1)
        spec = {**tables_job(EPOCHS),
                "checkpoint": {"every_seconds": 1, "every_epoch": False, "keep": 1}}
        job = c.submit(spec, *users, *items, "--set", "placement.psservers=2")
        hurry = c.dir / "hurry"
        with Programs(start_of(c, unhurried(hurry)), count=1):
            held = {s["psserver"] for s in wait_for(
                "a chain", lambda: is_chain(last_cut(c, job)) and last_cut(c, job))}
            for victim in (*sorted(held), "coordinator"):
                steps = c.steps(job)
                c.restart(victim)
                c.wait_steps(job, steps + 20)
                wait_for("a chain", lambda: is_chain(last_cut(c, job)))
            for point in POINTS if c.history else ():
                dies_writing(c, sorted(held)[0], point)
                wait_for("a chain", lambda: is_chain(last_cut(c, job)))
            hurry.touch()
            check_counts(c.wait_state(job))
        check(is_chain(last_cut(c, job)), "the last cut is no chain", last_cut(c, job))
        check_rows_are(c, job, still, EPOCHS)
        only_what_is_needed_is_kept(c, job)
        for epochs, psservers in ((EPOCHS + 2, 3), (EPOCHS + 3, 2)):
            spec = {**tables_job(epochs), "checkpoint": {"every_seconds": 0.1}}
            with Programs(start_of(c), count=1):
                job = c.submit(spec, "--resume", job, "--set",
                               f"placement.psservers={psservers}")
                check_counts(c.wait_state(job))
            check_rows_are(c, job, still, epochs)


def without_deltas_each_snapshot_is_whole():
    with Cluster(psservers=1, workers=0, psserver_args=["--deltas", "0"]) as c:
        with Programs(start_of(c), count=1):
            spec = {**tables_job(20), "checkpoint": {"every_seconds": 0.1, "keep": 1000}}
            job = c.submit(spec)
            check_counts(c.wait_state(job))
        for cut in c.json("checkpoints", job)["checkpoints"]:
            check(not any(s.get("below") for s in shards_of(cut)), "a delta", cut)
        check_equal({len(chain_of(path)) for path in files_of(c, job)}, {1}, "files of a cut")


if __name__ == "__main__":
    main([processes_are_killed_and_the_chain_has_every_row,
          without_deltas_each_snapshot_is_whole])
