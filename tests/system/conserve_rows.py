#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Conservation of sparse tables: what counted pushes had for a row is in it, to the
last integer.

A step pushes its four numbers (conserve.py) as the gradient of its ids, too:

    late    admits an id by its second update. Three ids a step: one of all closures
            with its remainder, one of its closure, one of its own. A row holds all
            updates of its id but one, whichever came first; an id of one update waits.
    few     has room for FEW rows. One id for two closures, so each is evicted, soon
            or while it is in use. A row holds the updates since it was made: some of
            its id's, each at most once.

and where checkpoints are kept (idle_job), exactly what was evicted as well:

    idle    evicts a row that IDLE updates of its shard left alone. One id for each
            closure. A row that went is in an earlier checkpoint as it was at last,
            unless its shard counted more than IDLE updates between two of them.

There rows are WIDE times as long, with the same numbers again and again, so that a
psserver of SHORT memory has most of them on disk.

As a program it is a worker of the library that trains any job of four numbers a row,
with tables or without, until it is killed:

    --step-ms MS        what a gradient costs
    --shm               shares memory with psservers of its host
"""
import argparse
import collections
import faulthandler
import functools
import itertools
import json
import os
import pathlib
import signal
import sys
import threading
import time

import conserve
from conserve import FIELDS, ROOT, primes, step_vector, steps_of

FEW, IDLE = 64, 1500
WIDE = 64
SHORT = ["--rows-memory", "512KiB"]  # wide rows of a job take 800 on each of two psservers
ALL, OWN = 1 << 63, 1 << 40  # ids of many closures, and of one step


def rows_job(**more):
    spec = conserve.conserve_job(**{"name": "rows", "variables": 1, **more})
    spec["model"]["tables"] = [
        {"name": "late", "dim": FIELDS, "initializer": "zeros",
         "admit": {"min_count": 2}},
        {"name": "few", "dim": FIELDS, "initializer": "zeros", "evict": {"max_rows": FEW}}]
    return spec


def idle_job(**more):
    spec = rows_job(**more)
    spec["model"]["tables"].append(
        {"name": "idle", "dim": FIELDS, "initializer": "zeros", "buckets": 8,
         "evict": {"unused_steps": IDLE}})
    for table in spec["model"]["tables"]:
        table["dim"] *= WIDE
        table.setdefault("buckets", 64)  # that take little memory when they are empty
    spec["checkpoint"]["keep"] = 1000
    return spec


def ids_of(table, closure, step):
    if table != "late":
        return [closure // 2 if table == "few" else closure]
    return [ALL + closure % 24, closure, OWN + closure * conserve.STEPS + step]


@functools.cache
def updates(table, samples, epochs):
    """{id: the gradients of all steps that have it}."""
    keys = list(steps_of(samples, epochs))
    of, out = primes(keys[-1][0] + 1), collections.defaultdict(list)
    for closure, step in keys:
        for number in ids_of(table, closure, step):
            out[number].append(step_vector(of[closure], closure, step))
    return dict(out)


def total(vectors):
    return [sum(parts) for parts in zip(*vectors)] or [0] * FIELDS


# ---- what a job left

def chain_of(path):
    """The snapshot and the files below it, newest first (SNAPSHOT.md)."""
    from safetensors import safe_open
    with safe_open(str(path), "numpy") as file:
        below = (file.metadata() or {}).get("sluice.chain")
    names = [entry.split(":")[0] for entry in below.split(",")] if below else []
    return [pathlib.Path(path)] + [pathlib.Path(path).parent / name for name in names]


def records(path, table, part, dim=None):
    """The live records of a table in a snapshot and in what is below it; `part`: rows
    or waiting. `dim` None: all numbers of a record are values."""
    import numpy as np
    from safetensors.numpy import load_file
    head = [("id", "<u8"), ("changed", "<u4"), ("score", "<u4")]
    named, out = set(), []
    for file in map(str, chain_of(path)):
        tensors = load_file(file)
        held = tensors.get(f"#{part}.{table}", tensors.get(f"#{part}_changed.{table}"))
        length = dim or ((held.shape[1] - 16) // 4 if held is not None else 0)
        of = np.dtype(head + [("values", "<f4", length)] * (part == "rows"))
        rows = [] if held is None else [np.frombuffer(r.tobytes(), of, 1)[0] for r in held]
        out += [row for row in rows if int(row["id"]) not in named]
        named |= {int(row["id"]) for row in rows}
        named |= set(tensors.get(f"#{part}_gone.{table}", np.zeros(0, "u8")).tolist())
    return out


def files_of(c, job):
    """The snapshots that the job's last checkpoint names."""
    return cuts_of(c, job)[-1]


def cuts_of(c, job):
    """The snapshots of each checkpoint that is kept, in their order."""
    def files(told):
        manifest = json.loads(pathlib.Path(told["manifest"]).read_text())
        return [pathlib.Path(s["folder"]) / s["file"] for s in manifest["shards"]]
    return [files(told) for told in c.json("checkpoints", job)["checkpoints"]]


def version_of(path):
    """The updates that a snapshot has."""
    from safetensors import safe_open
    with safe_open(str(path), "numpy") as file:
        return int(file.metadata()["sluice.version"])


def sum_in(record):
    """What was pushed for a row: FIELDS numbers, which it has again and again."""
    values = [-float(x) for x in record["values"]]
    assert values == values[:FIELDS] * (len(values) // FIELDS), f"{record} is torn"
    return values[:FIELDS]


def rows_in(c, job, table):
    """{id: the sum of what was pushed for its row}, of all snapshots."""
    out = {}
    for path in files_of(c, job):
        for r in records(path, table, "rows"):
            assert int(r["id"]) not in out, f"{table}: {r['id']} has two rows"
            out[int(r["id"])] = sum_in(r)
    return out


def wrong_late(row, vectors):
    """What is wrong with a row that lacks its id's first update, in words."""
    lacks = [want - got for want, got in zip(total(vectors), row)]
    return "" if lacks in vectors else f"got {row}, which lacks {lacks}, no step of its id"


def wrong_few(row, vectors):
    """What is wrong with a row that has some of its id's updates."""
    for chosen in itertools.combinations(vectors, max(0, min(len(vectors), int(row[1])))):
        if total(chosen) == row:
            return ""
    return f"got {row}, no sum of different steps of its id"


WRONG = {"late": wrong_late, "few": wrong_few}


def check_rows(c, job, spec):
    """The tables of a finished job: the rows are those that its steps make, with
    sums of their updates; all other ids wait, or were evicted."""
    from cluster import check, check_equal
    samples, epochs = spec["data"]["train"]["samples"], spec["train"]["epochs"]
    held = {table: rows_in(c, job, table) for table in WRONG}
    for table, wrong in WRONG.items():
        of, rows = updates(table, samples, epochs), held[table]
        for number, row in rows.items():
            check(number in of, f"rows: {table} has {number}, which no step has")
            text = wrong(row, of[number])
            check(not text, f"rows: row {number} of {table}: {text}")
        told = c.json("export", job, "--table", table, "--to", c.dir / f"{job}-{table}.rows")
        check_equal(int(told["rows"]), len(rows), f"rows of {table} that are reported")
    late = updates("late", samples, epochs)
    waits = collections.Counter({int(r["id"]): int(r["score"]) for path in files_of(c, job)
                                 for r in records(path, "late", "waiting")})
    once = {number for number, vectors in late.items() if len(vectors) == 1}
    wrong = dict.fromkeys(once, 1).items() ^ waits.items()
    check(not wrong, f"rows: {len(wrong)} ids of late do not wait as they should, or only "
          f"they do (id, updates): {sorted(wrong)[:4]}")
    wrong = set(held["late"]) ^ (set(late) - once)
    check(not wrong, f"rows: {len(wrong)} ids of late have no row, or only they have one: "
          f"{sorted(wrong)[:4]}")
    shares = [len(records(path, "few", "rows")) for path in files_of(c, job)]
    check(0 < max(shares) <= FEW // len(shares), f"rows: {shares} of few on the shards")


# ---- rows that went

def plus(a, b):
    return tuple(x + y for x, y in zip(a, b))


def accounts(history):
    """What the lives of a row can add up to, and what the last of them has. `history`:
    of each checkpoint the shard's version, and (sum, changed) of the row, or None. A row
    with other values is the same one with more updates, and also may be a new one, if
    the one before was left alone for long enough to go."""
    none = (0,) * FIELDS
    states = {(none, None)}  # (what went, what is there)
    for version, row in history:
        after = set()
        for gone, was in states:
            if row is None or (was and row != was and version - was[1] > IDLE):
                after.add((plus(gone, was[0]) if was else gone, row))
            if row is not None:
                after.add((gone, row))
        states = after
    return {(plus(gone, row[0] if row else none), row[0] if row else none)
            for gone, row in states}


def histories(c, job):
    """({id: its history}, whether each shard's checkpoints are near each other)."""
    out, seen, near = collections.defaultdict(list), collections.defaultdict(list), True
    cuts = cuts_of(c, job)
    for files in cuts:
        for shard, path in enumerate(files):
            version, before = version_of(path), seen[shard][-1:] or [0]
            near = near and version - before[0] <= IDLE
            rows = {int(r["id"]): (tuple(sum_in(r)), int(r["changed"]))
                    for r in records(path, "idle", "rows")}
            for number in rows.keys() | {n for n, s in out if s == shard}:
                history = out[number, shard]
                history += [(v, None) for v in seen[shard][len(history):]]
                history.append((version, rows.get(number)))
            seen[shard].append(version)
    return {number: history for (number, _), history in out.items()}, near


def check_idle(c, job, spec):
    """Rows and what was evicted are what was pushed, id by id. Gives the updates that are
    in rows, that went with rows, and that no checkpoint shows: those of rows that went
    between two checkpoints which are not near each other."""
    from cluster import check
    pushed = updates("idle", spec["data"]["train"]["samples"], spec["train"]["epochs"])
    held, near = histories(c, job)
    told = collections.Counter()
    check(set(held) <= set(pushed), "rows: idle has an id that no step has")
    for number, vectors in pushed.items():
        want = tuple(total(vectors))
        found = accounts(held.get(number, []))
        fits = [row for all_, row in found if all_ == want]
        if not fits:
            check(not near, f"rows: id {number} of idle: pushed {want}, but rows and "
                  f"evicted ones have {found}; history {held.get(number)}")
            fits = [row for all_, row in found if all(x <= y for x, y in zip(all_, want))]
            check(fits, f"rows: id {number} of idle: more than was pushed, {want}: {found}")
            told["unseen"] += len(vectors)
            continue
        told["kept"] += round(fits[0][1])
        told["evicted"] += round(want[1] - fits[0][1])
    check(told["evicted"] > 0 and told["kept"] > 0, f"rows: of idle none went: {told}")
    return told


def surplus(c, job, spec):
    """How many steps the rows of `late` hold too many (or too few, below 0)."""
    samples, epochs = spec["data"]["train"]["samples"], spec["train"]["epochs"]
    late = updates("late", samples, epochs)
    return [round(row[1]) - len(late[number]) + 1
            for number, row in rows_in(c, job, "late").items()]


# ---- the worker

def train(session, step_ms, of):
    import numpy
    from sluice import Lost
    for closure in session.closures():
        done = 0
        for step in closure.steps():
            vector = numpy.array(step_vector(of[closure.number], closure.number,
                                             step.number), numpy.float32)
            time.sleep(step_ms / 1000)
            try:
                for table in closure.tables:
                    ids = numpy.array(ids_of(table, closure.number, step.number), numpy.uint64)
                    rows = closure.rows(table, ids)
                    assert (rows <= 1).all(), rows  # no gradient is below 0
                    step.push_rows(table, ids, numpy.tile(
                        vector, (len(ids), rows.shape[1] // FIELDS)))
                closure.grads[:] = numpy.tile(vector, closure.elements // FIELDS)
                step.done(loss_sum=0.0)
                done += 1
            except Lost:
                break
        print(f"{done} steps, loss 0", flush=True)


def attend(about, train, **more):
    """Runs a worker of the library as the command line says: it calls train(session,
    step_ms) again and again, each time for one job, until it is killed. `more` is for
    the session."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--coordinator", required=True)
    parser.add_argument("--name", default=f"conserve-{os.getpid()}")
    parser.add_argument("--step-ms", type=float, default=2)
    parser.add_argument("--shm", action="store_true")
    for name in ("ca", "cert", "key"):
        parser.add_argument(f"--tls-{name}", metavar="FILE")
    options = parser.parse_args()
    faulthandler.register(signal.SIGUSR1)  # where does it hang?
    programs = pathlib.Path(os.environ.get("SLUICE_BIN", ROOT / "build/bin"))
    os.environ.setdefault("SLUICE_LIBRARY", str(programs.parent / "lib/libsluice.so"))
    sys.path.insert(0, str(ROOT / "python"))
    import sluice
    tls = (options.tls_ca, options.tls_cert, options.tls_key)
    turn = threading.Event()
    while True:  # until it is killed: a lost coordinator comes back
        try:
            with sluice.Session(options.coordinator, name=options.name, shm=options.shm,
                                tls=tls if all(tls) else None, **more) as session:
                while True:  # one job after the other
                    train(session, options.step_ms)
        except sluice.Error as error:
            print(f"dialing again: {error}", flush=True)
        turn.wait(0.1)  # between dials


if __name__ == "__main__":
    attend(__doc__, functools.partial(train, of=primes(1024)))
