#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sparse tables: programs pull rows of their samples' ids and push their gradients,
while processes are killed. Gradients are whole numbers, so each row says how often
each of its samples counted."""
import collections
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import conserve
import conserve_rows
from cluster import (LIMIT, PATIENCE, Cluster, Failed, changed, check, check_counts,
                     check_equal, main, wait_for)
from external_test import Programs, exported
from lib_ring_test import PYTHON, Rank

os.environ.update(PYTHON)
sys.path.insert(0, PYTHON["PYTHONPATH"])
import sluice  # noqa: E402

SAMPLES, BATCH, DIM = 64, 8, 3
LONG_RUN = 100 if PATIENCE == 1 else 40  # epochs of a job that lasts while processes die
FIRST = 1  # of each element of a row


def tables_job(epochs, **words):
    """A step takes 1 from a row for each time that its samples have the row's id."""
    return {"name": "tables",
            "model": {"type": "external", "variables": [
                {"name": "sum", "shape": [40], "initializer": "zeros"}],
                "tables": [{"name": "users", "dim": DIM, "initializer": "ones"},
                           {"name": "items", "dim": DIM + 1, "initializer": "ones"}]},
            "optimizer": {"type": "sgd", "learning_rate": 1.0},
            "data": {"train": {"format": "external", "samples": SAMPLES}},
            "train": {"batch": BATCH, "epochs": epochs, "steps_per_closure": 4, **words},
            "checkpoint": {"every_seconds": 1}}


def ids_of(samples):
    """Shape (n, 3): one of seven ids that many samples have, and one of its own,
    twice."""
    samples = np.asarray(samples, np.uint64)
    own = samples * np.uint64(0x9e3779b97f4a7c15) + np.uint64(7)
    return np.stack([samples % np.uint64(7), own, own], axis=1)


PROGRAM = f"""
import sys, time, numpy, sluice
sys.path.insert(0, sys.argv[3])
from rows_test import ids_of
address, name = sys.argv[1:3]
with sluice.Session(address, name=name, wait=60) as session:
    for closure in session.closures():
        assert [(t.name, t.dim) for t in closure.tables.values()] == [
            ("users", {DIM}), ("items", {DIM + 1})]
        for step in closure.steps():
            time.sleep(0.005)  # what a step takes: others have the processors
            try:
                ids = ids_of(step.samples)
                of = closure.all_rows({{"users": ids, "items": ids}})
                behind = ids_of(closure.samples_of(step.first + len(ids)))
                if step.number % 2 and len(behind):  # tables in any order
                    closure.rows_ahead({{"items": behind, "users": behind}})
                for table, rows in of.items():
                    assert rows.shape == (*ids.shape, closure.tables[table].dim)
                    assert (rows == rows[..., :1]).all(), "rows are mixed up"
                    assert (rows[:, 1] == rows[:, 2]).all(), "one id, two rows"
                    assert (rows <= {FIRST}).all() and (rows % 1 == 0).all(), rows
                    step.push_rows(table, ids[:, :2], numpy.ones_like(rows[:, :2]))
                    step.push_rows(table, ids[:, 2], numpy.ones_like(rows[:, 2]))
                closure.grads[:] = step.samples.sum()
                step.done(loss_sum=1.0)
            except sluice.session.Lost:
                break
            print("step", flush=True)
"""


class WithIds(Rank):
    """A program that has imported this file, too, for its ids_of()."""
    modules = (*Rank.modules, "rows_test")


def start_of(c, program=PROGRAM):
    path = c.dir / "program.py"
    path.write_text(program)
    here = pathlib.Path(__file__).parent
    return lambda name: WithIds(c, name, sys.executable, path, c.address, name, here, **{
        **PYTHON, "PYTHONPATH": f"{PYTHON['PYTHONPATH']}:{here}"})


def rows_kept(c, table, dim):
    """{id: its row}, of the last snapshot of each shard."""
    newest, out = {}, {}
    for path in c.dir.rglob("tables-j-*/shard-*.safetensors"):
        shard, *tag = map(int, re.findall(r"\d+", path.name))
        newest[shard] = max(newest.get(shard, ([], None)), (tag, path))
    for _, path in newest.values():
        for row in conserve_rows.records(path, table, "rows", dim):
            check(int(row["id"]) not in out, f"{row['id']} has two rows")
            out[int(row["id"])] = row["values"]
    check(len(newest) > 1, f"{len(newest)} shards: nothing is split")
    return out


def check_rows(c, epochs):
    times = collections.Counter(int(i) for i in ids_of(range(SAMPLES)).ravel())
    for table, dim in (("users", DIM), ("items", DIM + 1)):
        rows = rows_kept(c, table, dim)
        check_equal(sorted(rows), sorted(times), f"ids of {table}")
        for number, row in rows.items():
            check_equal(row.tolist(), [FIRST - times[number] * epochs] * dim,
                        f"row {number} of {table}")


def check_exact(c, job, epochs):
    check_rows(c, epochs)
    check_equal(set(-exported(c, job)["sum"]), {SAMPLES * (SAMPLES - 1) // 2 * epochs},
                "sum of samples")


def programs_and_psservers_are_killed_and_every_row_is_exact():
    for words in ({}, {"wire": "bf16"}, {"rows_wire": "int8"}):
        epochs = LONG_RUN  # with int8: 127 * (n / 127) is n for all n up to 1016
        with Cluster(psservers=2, workers=0) as c:
            with Programs(start_of(c)) as programs:
                job = c.submit(tables_job(epochs, **words))
                c.wait_steps(job, 20)
                programs.replace()
                c.wait_steps(job, c.steps(job) + 20)
                c.restart("ps-1")
                c.wait_steps(job, c.steps(job) + 20)
                programs.replace()
                c.restart("ps-0")
                c.wait_steps(job, c.steps(job) + 20)
                c.restart("coordinator")
                done = c.wait_state(job)
                for program in programs.running:
                    check_equal(program.process.wait(timeout=30 * LIMIT), 0, "exit of a program")
            check_counts(done)
            if "wire" not in words:  # the dense sum does not fit 8 bits
                check_exact(c, job, epochs)


def a_job_of_tables_alone_counts_each_step_once():
    """Its shards have no variables; it goes on with its rows on more psservers."""
    epochs = 60 if PATIENCE == 1 else 20

    def spec(epochs, **words):
        job = tables_job(epochs, **words)
        del job["model"]["variables"]
        return job

    with Cluster(psservers=3, workers=0) as c:
        with Programs(start_of(c)) as programs:
            job = c.submit(spec(epochs), "--set", "placement.psservers=2")
            c.wait_steps(job, 20)
            programs.replace()
            for name in ("ps-1", "ps-0", "coordinator"):
                c.restart(name)
                c.wait_steps(job, c.steps(job) + 20)
            done = c.wait_state(job)
        check_counts(done)
        check_equal(len(done["shards"]), 2, "shards")
        said = c.run("events", job).stdout
        check("the rows of tables lie in 2 shards on 2 psservers" in said, said)
        check_rows(c, epochs)
        failed = c.run("export", job, "--to", c.dir / "none.safetensors", want=2)
        check("the job has no variables, tables alone" in failed.stderr, failed.stderr)
        with Programs(start_of(c), count=1):
            more = c.submit(spec(epochs + 2, wire="bf16", rows_wire="f32"), "--resume", job)
            done = c.wait_state(more)
        check_counts(done)
        check_equal(len(done["shards"]), 3, "shards of the job that goes on")
        times = collections.Counter(int(i) for i in ids_of(range(SAMPLES)).ravel())
        for table, dim in (("users", DIM), ("items", DIM + 1)):
            check_equal(as_rows(sluice.export(more, c.address, table=table)),
                        {i: [FIRST - (epochs + 2) * n] * dim for i, n in times.items()},
                        f"rows of {table} behind both")


STRANGE = changed(PROGRAM, {
    "closure.grads[:]": "step.push_rows('items', [5], numpy.full((1, 4), numpy.nan))\n"
                        "                closure.grads[:]"})


def a_gradient_of_a_row_that_is_not_finite_counts_like_any_other():
    with Cluster(psservers=2, workers=0) as c:
        with Programs(start_of(c, STRANGE), count=1):
            job = c.submit(tables_job(1, nonfinite="fail"))
            failed = c.wait_state(job, "failed")
        check("not finite" in str(failed), failed)
    with Cluster(psservers=2, workers=0) as c:
        with Programs(start_of(c, STRANGE), count=1):
            job = c.submit(tables_job(2, nonfinite="skip"))
            c.wait_state(job)
        rows = rows_kept(c, "items", DIM + 1)
        check(5 not in rows, "a row was made by a step that its shard skipped")
        check(rows, "no shard has applied its rows")


BAD = """
import sys, numpy, sluice
address, name = sys.argv[1:3]

def refused(kind, word, call, *words):
    try:
        call(*words)
    except kind as error:
        assert word in str(error), error
    else:
        raise AssertionError(f"{word}: not refused")

with sluice.Session(address, name=name, wait=60) as session:
    closure = session.take()
    refused(sluice.Error, "begin one", closure.rows, "users", [1])
    step = closure.begin()
    refused(KeyError, "no table 'user'", closure.rows, "user", [1])
    refused(TypeError, "whole numbers", closure.rows, "users", [1.0])
    refused(ValueError, "(1, 3) float32", closure.rows, "users", [1], numpy.zeros((1, 4)))
    refused(ValueError, "a gradient of (2, 3)", step.push_rows, "users", [1],
            numpy.zeros((2, 3)))
    refused(sluice.Error, "table 2 of a job with 2", closure._say, "sluice_rows_pull", 2, 1,
            None, None)
    refused(KeyError, "no table 'user'", closure.all_rows, {"users": [1], "user": [1]})
    twice = (sluice._native.Rows * 2)()
    refused(sluice.Error, "table 0 stands twice", closure._say, "sluice_rows_pull_all", twice, 2)
    refused(sluice.Error, "table 0 stands twice", closure._say, "sluice_rows_ahead", twice, 2)
    turned = closure.all_rows({"items": [3], "users": [4]})
    assert turned["items"].shape == (1, 4) and turned["users"].shape == (1, 3), turned
    assert closure.rows("users", []).shape == (0, 3)
    some = closure.all_rows({"items": [], "users": [[5], [6]]})
    assert some["items"].shape == (0, 4) and some["users"].shape == (2, 1, 3), some
    assert (some["users"] == 1).all() and closure.all_rows({}) == {}
    top = closure.rows("users", numpy.array([2**64 - 1], numpy.uint64))
    assert (top == closure.rows("users", [-1])).all() and (top == 1).all()
    print("all refused", flush=True)
    closure.let_go("enough")
with sluice.Session(address, name=name + "-range", wait=60, by_range=True) as session:
    refused(sluice.Error, "model.tables", session.take)
    print("by range refused", flush=True)
"""


def what_does_not_fit_is_refused():
    with Cluster(psservers=2, workers=0) as c:
        start = start_of(c, BAD)
        job = c.submit(tables_job(1))
        program = start("bad")
        check_equal(program.process.wait(timeout=60 * LIMIT), 0, "exit of the program")
        for word in ("all refused", "by range refused"):
            check(word in c.log("bad"), c.log("bad"))
        c.run("stop", job)


LONG = 4096  # values of a row: 16 KiB

# 6,000 rows on one shard: 94 MiB, of which a message holds 64.
MANY = """
import sys, numpy, sluice
address, name = sys.argv[1:3]
draw = numpy.random.default_rng(1)
with sluice.Session(address, name=name, wait=60) as session:
    for closure in session.closures():
        for step in closure.steps():
            ids = draw.integers(1 << 63, size=6000, dtype=numpy.uint64)
            ids[-500:] = ids[:500]
            rows = closure.rows("wide", ids)
            assert (rows[-500:] == rows[:500]).all(), "one id, two rows"
            for at in range(0, 6000, 2000):
                part = closure.rows("wide", ids[at:at + 2000])
                assert (part == rows[at:at + 2000]).all(), f"rows from {at} on"
            assert len(numpy.unique(rows[:-500, 0])) > 5000, "rows are all the same"
            both = closure.all_rows({"wide": ids, "small": ids[:3]})
            assert (both["wide"] == rows).all() and both["small"].shape == (3, 2), both
            print("pulled", flush=True)
            step.push_rows("wide", ids, rows)
            try:
                step.done(loss_sum=1.0)
            except sluice.Error as error:
                print("push refused:", error, flush=True)
                raise SystemExit(0)
"""


def a_pull_of_more_than_a_message_holds_is_split_and_a_push_refused():
    with Cluster(psservers=1, workers=0) as c:
        spec = tables_job(1)
        spec["model"]["tables"] = [
            {"name": "wide", "dim": LONG, "initializer": "random_uniform"},
            {"name": "small", "dim": 2}]
        job = c.submit(spec)
        program = start_of(c, MANY)("large")
        check_equal(program.process.wait(timeout=60 * LIMIT), 0, "exit of the program")
        log = c.log("large")
        check("pulled" in log, log)
        for word in ("push refused: ", "of them of table wide", "in one push of at most",
                     "set placement.shards"):
            check(word in log, f"no '{word}'", log)
        c.run("stop", "--now", job)


def as_rows(tensors):
    check_equal(sorted(tensors), ["ids", "values"], "tensors of a table")
    check_equal((str(tensors["ids"].dtype), str(tensors["values"].dtype)),
                ("uint64", "float32"), "types")
    check_equal(len(set(tensors["ids"].tolist())), len(tensors["ids"]), "different ids")
    return {i: v.tolist() for i, v in zip(tensors["ids"].tolist(), tensors["values"])}


def an_exported_table_has_the_rows_of_the_checkpoint():
    from safetensors.numpy import load_file
    with Cluster(psservers=2, workers=0) as c:
        with Programs(start_of(c), count=1) as programs:
            job = c.submit(tables_job(2))
            c.wait_state(job)
            check_equal(programs.running[0].process.wait(timeout=30 * LIMIT), 0, "exit")
        want = {i: v.tolist() for i, v in rows_kept(c, "items", DIM + 1).items()}
        out = c.dir / "items.safetensors"
        manifest = c.json("checkpoints", job)["checkpoints"][-1]["manifest"]
        for words in ((job,), ("--from", manifest)):
            told = c.json("export", *words, "--table", "items", "--to", out)
            check_equal(int(told["rows"]), len(want), told)
            check_equal(as_rows(load_file(out)), want, f"rows by {words}")
        check_equal(as_rows(sluice.export(job, c.address, table="items")), want, "in Python")
        done = c.run("export", job, "--table", "item", "--to", out, want=3)
        check("no table item" in done.stderr, done.stderr)
        same = sluice.export(job, c.address, table="items", since=told["cut"])
        check_equal({k: v.shape for k, v in same.items()},
                    {"ids": (0,), "values": (0, DIM + 1), "gone": (0,)}, "since itself")
        for code, word, *words in (
                (2, "--since is for the rows", job, "--since", "1"),
                (2, "is no number of a cut", job, "--table", "items", "--since", "x"),
                (3, "has no cut 99", job, "--table", "items", "--since", "99")):
            done = c.run("export", *words, "--to", out, want=code)
            check(word in done.stderr, done.stderr)


def a_resumed_job_goes_on_with_its_rows_on_more_psservers():
    """Or on fewer: each row lies where its id says, and ids that wait go on to wait:
    a sample's own id has an update an epoch, and the fifth is its row's first."""
    late = {"admit": {"min_count": 5}}
    for psservers, then in ((2, 3), (3, 2)):
        with Cluster(psservers=3, workers=0) as c:
            jobs = {}
            for epochs, count in ((2, psservers), (5, then)):
                placed = ("--set", f"placement.psservers={count}")
                for kind in ("at once", "late"):
                    spec = tables_job(epochs)
                    spec["model"]["variables"].append(  # cut in other places than tables
                        {"name": "block", "shape": [3, 400], "initializer": "zeros"})
                    spec["model"]["tables"] = [
                        {**t, **(late if kind == "late" else {})}
                        for t in spec["model"]["tables"]]
                    more = ("--resume", jobs[kind]) if kind in jobs else ()
                    with Programs(start_of(c), count=1):
                        jobs[kind] = c.submit(spec, *placed, *more)
                        done = c.wait_state(jobs[kind])
                    check_counts(done)
                    check_equal(len(done["shards"]), count, "shards")
            times = collections.Counter(int(i) for i in ids_of(range(SAMPLES)).ravel())
            rows = as_rows(sluice.export(jobs["at once"], c.address, table="items"))
            check_equal(rows, {i: [FIRST - 5 * n] * (DIM + 1) for i, n in times.items()},
                        f"rows on {then} psservers")
            rows = as_rows(sluice.export(jobs["late"], c.address, table="users"))
            for own in ids_of(range(SAMPLES))[:, 1].tolist():
                check_equal(rows.get(own), [FIRST - times[own]] * DIM, f"row {own}")
            other = tables_job(5)
            other["model"]["tables"][1]["dim"] = 8
            path = c.dir / "other.yaml"
            path.write_text(json.dumps(other))
            done = c.run("submit", path, "--no-wait", "--resume", jobs["at once"], want=2)
            check("(items): dim 8" in done.stderr, done.stderr)


# Says which rows it reads first, before anybody changes one.
READER = changed(PROGRAM, {"            try:\n": """            try:
                if not said:
                    said = True
                    for table in ("users", "items"):
                        rows = closure.rows(table, ids_of(range(64)))
                        print(table, rows.tobytes().hex(), flush=True)
""", "import sys,": "said = None\nimport sys,"}, most=1)


def a_table_begins_with_the_rows_that_another_job_exported():
    """On more psservers, of which one dies before there is a checkpoint: what was
    trained since is lost, and what the rows began with is not."""
    with Cluster(psservers=3, workers=0) as c:
        with Programs(start_of(c), count=1):
            first = c.submit(tables_job(2), "--set", "placement.psservers=2")
            c.wait_state(first)
        files = {}
        for table in ("users", "items"):
            files[table] = c.dir / f"{table}.safetensors"
            c.run("export", first, "--table", table, "--to", files[table])
        times = collections.Counter(int(i) for i in ids_of(range(SAMPLES)).ravel())
        epochs = 60
        spec = {**tables_job(epochs), "checkpoint": {"every_epoch": False}}
        job = sluice.submit(spec, c.address, table_weights={
            table: str(path) for table, path in files.items()})
        check_equal(sorted(c.status(job)["table_weights"]),
                    [f"{table}={path.resolve()}" for table, path in sorted(files.items())],
                    "what it started with")
        with Programs(start_of(c, READER), count=1):
            c.wait_steps(job, 8)
            for name in ("ps-1", "ps-0"):
                c.restart(name)
                c.wait_steps(job, c.steps(job) + 8)
            done = c.wait_state(job)
        check_counts(done)
        check_equal((len(done["shards"]), int(done["cuts"])), (3, 1), "shards, checkpoints")
        said = dict(line.split() for line in c.log("program-0").splitlines()
                    if line.startswith(("users ", "items ")))
        for table, dim in (("users", DIM), ("items", DIM + 1)):
            want = np.array([[[FIRST - 2 * times[i]] * dim for i in ids]
                             for ids in ids_of(range(64)).tolist()], np.float32)
            check_equal(said[table], want.tobytes().hex(), f"{table} as they began")
            check_equal(as_rows(sluice.export(job, c.address, table=table)),
                        {i: [FIRST - (2 + epochs) * n] * dim for i, n in times.items()},
                        f"rows of {table} after the training")


def a_file_of_rows_that_does_not_fit_is_refused():
    from safetensors.numpy import save_file
    with Cluster(psservers=2, workers=0) as c:
        spec = c.dir / "spec.yaml"
        job = tables_job(1)
        job["model"]["tables"][1]["evict"] = {"max_rows": 10}
        spec.write_text(json.dumps(job))
        bad = c.dir / "bad.safetensors"
        ids = np.arange(11, dtype=np.uint64)
        rows = np.ones((11, DIM), np.float32)

        def refused(*texts, table="users", want=2, **tensors):
            save_file(tensors, bad)
            done = c.run("submit", spec, "--no-wait", "--table-weights", f"{table}={bad}", want=want)
            for text in texts:
                check(text in done.stderr, text, done.stderr)
            check_equal(len(done.stderr.strip().splitlines()), 1, "lines")

        refused("rows of table users: it has no tensor 'values'", "export JOB --table", ids=ids)
        refused("tensor 'ids' is I64", ids=ids.astype(np.int64), values=rows)
        refused("11 ids and values of 10 rows", ids=ids, values=rows[1:])
        refused("its rows have 4 values, the table's dim is 3", ids=ids,
                values=np.ones((11, 4), np.float32))
        rows[7, 1] = np.inf
        refused("values[7, 1] is inf", ids=ids, values=rows)
        rows[7, 1] = 1
        refused("11 rows, more than evict.max_rows, 10", table="items", ids=ids,
                values=np.ones((11, DIM + 1), np.float32))
        refused("say TABLE=FILE", table="user", ids=ids, values=rows)
        # What one psserver alone sees is the job's reason.
        ids[3] = ids[2]
        save_file({"ids": ids, "values": rows}, bad)
        job = c.submit(json.loads(spec.read_text()), "--table-weights", f"users={bad}")
        wait_for("the reason", lambda: "id 2 stands there twice" in c.status(job).get("reason", ""))
        check("table users" in c.status(job)["reason"], c.status(job)["reason"])


def figures(c, job, *words):
    """{(table, psserver): what is told of it}, numbers as numbers."""
    told = c.json("tables", job, *words)["tables"]
    return {(t["name"], t["psserver"]): {
        **{k: [int(n) for n in v] if isinstance(v, list) else int(v)
           for k, v in t["figures"].items() if k != "rows_per_minute"},
        "known": t["known"], "shards": t["shards"]} for t in told}


def the_tables_of_a_job_are_listed_while_it_runs_and_after():
    epochs = LONG_RUN
    with Cluster(psservers=2, workers=0) as c:
        with Programs(start_of(c), count=1):
            job = c.submit(tables_job(epochs, **{"max_workers": 1}))
            c.wait_steps(job, 20)
            wait_for("tables of both shards", lambda: all(
                t["known"] == 2 and t["rows"] > 0 for t in figures(c, job).values()))
            c.restart("ps-1")
            c.wait_state(job)
        ids = len(set(ids_of(range(SAMPLES)).ravel().tolist()))
        last = sluice.tables(job, c.address)
        check_equal([(t["name"], t["dim"], t["optimizer"]) for t in last],
                    [("users", DIM, "sgd"), ("items", DIM + 1, "sgd")], "tables")
        wait_for(f"{ids} rows of each table", lambda: all(
            t["rows"] == ids for t in figures(c, job).values()))
        parts = figures(c, job, "--by-psserver")
        for table in ("users", "items"):
            both = figures(c, job)[table, ""]
            for what, number in both.items():
                told = [parts[table, name][what] for name in ("ps-0", "ps-1")]
                if what.startswith("hot_"):  # the largest of all shards
                    check_equal(sorted(set(number) - set(sum(told, []))), [], what)
                elif what == "hottest_id":
                    check(number in told, f"hottest id of {table}", number, told)
                else:
                    check_equal(number, max(told) if what in (
                        "largest_bucket", "table", "hottest_updates") else sum(told),
                        f"{what} of {table}")
            check_equal((both["waiting"], both["unadmitted"], both["evicted"]), (0, 0, 0),
                        f"ids of {table} without a row")
            check(both["hottest_id"] < 7 and both["hottest_updates"] > 20, both)
            check_equal((both["hot_ids"][0], both["hot_updates"][0], len(both["hot_ids"])),
                        (both["hottest_id"], both["hottest_updates"], 8), "hottest ids")
            check_equal(both["hot_updates"], sorted(both["hot_updates"])[::-1], "their order")
            check(both["bytes"] > ids * 4 * DIM and both["admitted"] <= ids, both)
        shown = c.run("tables", job, "-o", "wide")
        check(str(ids) in shown.stdout and "2 of 2" in shown.stdout, shown.stdout)
        check("has ended" in shown.stderr, shown.stderr)
        c.restart("coordinator")
        check_equal(figures(c, job, "--by-psserver"), parts, "after a restart")
        dense = tables_job(1)
        del dense["model"]["tables"]
        done = c.run("tables", c.submit(dense), want=3)
        check("has no sparse tables" in done.stderr, done.stderr)


WIDE = """
import itertools, sys, numpy, sluice
address, name = sys.argv[1:3]
with sluice.Session(address, name=name, wait=60) as session:
    for closure in itertools.islice(session.closures(), 2):
        for step in closure.steps():
            ids = 1000 * step.samples[:1] + numpy.arange(1000, dtype=numpy.uint64)
            step.push_rows("items", ids, numpy.repeat(ids % 1000, 4096).reshape(-1, 4096))
            step.done(loss_sum=1.0)
"""


def psservers_give_the_rows_of_their_files_to_other_hosts():
    """In several messages: a shard has more than one holds. Of a job that runs, and
    of one whose shards are gone."""
    from safetensors.numpy import load_file
    hidden = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"')
    with Cluster(psservers=1, workers=0) as c:
        if subprocess.run([*hidden, c.dir / "store", "true"], check=False).returncode != 0:
            print("folders cannot be hidden here: left out")
            return
        spec = tables_job(2)
        spec["model"]["tables"] = [{"name": "items", "dim": 4096, "initializer": "zeros"}]
        out = c.dir / "items.safetensors"
        with Programs(start_of(c, WIDE), count=1):
            job = c.submit(spec)
            c.wait_steps(job, SAMPLES // BATCH)
        for word in ("checkpoint", "stop"):
            c.run(word, job)
            c.run("export", job, "--table", "items", "--to", out,
                  before=(*hidden, c.dir / "store"))
            got = load_file(out)
            check_equal(len(set(got["ids"].tolist())), 8000, "different ids")
            check_equal(got["values"].shape, (8000, 4096), "rows")
            check((got["values"] == -(got["ids"] % 1000).astype(np.float32)[:, None]).all(),
                  "rows of other ids")
        c.run("follow", job, "--table", "items", "--to", c.dir / "feed",
              before=(*hidden, c.dir / "store"))
        ids, values = sluice.replay(c.dir / "feed")
        check((ids == np.sort(got["ids"])).all() and
              (values == -(ids % 1000).astype(np.float32)[:, None]).all(), "a feed of them")


GOES_ON = """
import sys, numpy, sluice, sluice.client
address, name = sys.argv[1:3]
with sluice.Session(address, name=name, wait=60) as session:
    closure = session.take()
    step = closure.begin()
    sluice.client.stop(closure.job, coordinator=address)
    try:
        while True:
            closure.rows("users", [1])
    except sluice.Lost:
        pass
    for call, words in ((closure.rows, ("items", [1])), (step.absent, (0, 1)),
                        (step.push_rows, ("users", [1], numpy.ones((1, 3)))),
                        (step.ready, (0, 40)), (step.done, (1.0,)), (closure.begin, ())):
        try:
            call(*words)
        except sluice.Lost:
            continue
        raise AssertionError(f"{call} does not say that the closure is lost")
print("each call says so", flush=True)
"""


def a_lost_closure_says_so_in_each_call():
    with Cluster(psservers=1, workers=0) as c:
        start = start_of(c, GOES_ON)
        c.submit(tables_job(1))
        program = start("goes")
        check_equal(program.process.wait(timeout=60 * LIMIT), 0, c.log("goes"))
        check("each call says so" in c.log("goes"), c.log("goes"))


def a_job_that_is_resumed_between_kills_has_each_update_of_a_row_once():
    """Of a table that admits late, and of one that evicts. The job is stopped wherever
    it is; the one that goes on with it has as many psservers."""
    with Cluster(psservers=2, workers=0) as c:
        c.program_file = conserve_rows.__file__
        with conserve.Programs(c) as programs:
            job = c.submit(conserve_rows.rows_job(epochs=12))
            for victim in ("ps-0", "ps-1"):
                c.wait_steps(job, c.steps(job) + 60)
                c.restart(victim)
            c.wait_steps(job, c.steps(job) + 60)
            c.run("stop", job)
            spec = conserve_rows.rows_job(epochs=15)
            resumed = c.submit(spec, "--resume", job)
            for victim in ("ps-1", "ps-0"):
                c.wait_steps(resumed, c.steps(resumed) + 60)
                programs.restart("x-0")
                c.restart(victim)
            check_counts(c.wait_state(resumed))
        conserve.check_conserved(c, resumed, spec)
        conserve_rows.check_rows(c, resumed, spec)


def what_evicted_rows_had_is_what_was_pushed_and_is_in_no_row():
    """The rows that are there, and those that went as checkpoints show them, add up to
    what was pushed, id by id, while psservers and programs are killed."""
    with Cluster(psservers=2, workers=0) as c:
        c.program_file = conserve_rows.__file__
        spec = conserve_rows.idle_job(epochs=22, every_seconds=0.3)
        with conserve.Programs(c) as programs:
            job = c.submit(spec)
            for victim in ("ps-0", "ps-1"):
                c.wait_steps(job, c.steps(job) + 400)
                programs.restart("x-0")
                c.restart(victim)
            check_counts(c.wait_state(job))
        conserve_rows.check_idle(c, job, spec)
        # The row has a step more than was pushed: its sum is that of no life.
        pushed = conserve_rows.updates("idle", spec["data"]["train"]["samples"], 22)
        pushed[7].pop()
        try:
            conserve_rows.check_idle(c, job, spec)
        except Failed as error:
            check("id 7 of idle" in str(error), str(error))
        else:
            check(False, "a step too many is not found")


# Each step has ids that no step had before it.
GREEDY = """
import sys, numpy, sluice
address, name = sys.argv[1:3]
numbers = numpy.random.default_rng()
with sluice.Session(address, name=name, job=JOB, wait=60) as session:
    for closure in session.closures():
        for step in closure.steps():
            ids = numpy.unique(numbers.integers(1 << 63, size=5000, dtype=numpy.uint64))
            step.push_rows("users", ids, numpy.ones((len(ids), 3), numpy.float32))
            closure.grads[:] = 0
            step.done(loss_sum=1.0)
"""


OF_EACH = f"""
import sys, numpy, sluice
sys.path.insert(0, sys.argv[3])
from rows_test import ids_of
address, name = sys.argv[1:3]
with sluice.Session(address, name=name, wait=60) as session:
    for closure in session.closures():
        for step in closure.steps():
            ids = ids_of(step.samples)
            for table, rows in closure.all_rows(dict.fromkeys(closure.tables, ids)).items():
                step.push_rows(table, ids, numpy.ones_like(rows))
            closure.grads[:] = step.samples.sum()
            step.done(loss_sum=1.0)
"""


def a_job_of_as_many_tables_as_can_be_is_exact():
    from safetensors.numpy import load_file
    with Cluster(psservers=2, workers=0) as c:
        job, most = tables_job(1), 1000
        job["model"]["tables"] = [{"name": f"t-{i}", "dim": 1 + i % 5, "initializer": "ones"}
                                  for i in range(most)]
        job = c.submit(job)
        with Programs(start_of(c, OF_EACH), count=2):
            check_counts(c.wait_state(job))
        times = collections.Counter(int(i) for i in ids_of(range(SAMPLES)).ravel())
        wait_for("the last reports", lambda: all(
            t["known"] == 2 and t["rows"] == len(times) for t in figures(c, job).values()))
        check_equal(len(figures(c, job)), most, "tables")
        for i in (0, 1, most - 1):
            c.run("export", job, "--table", f"t-{i}", "--to", c.dir / "t.safetensors")
            kept = load_file(str(c.dir / "t.safetensors"))
            check_equal(dict(zip(kept["ids"].tolist(), kept["values"].tolist())),
                        {n: [float(FIRST - k)] * (1 + i % 5) for n, k in times.items()},
                        f"rows of t-{i}")


def a_job_that_takes_all_memory_of_rows_fails_alone():
    epochs = LONG_RUN
    with Cluster(psservers=2, workers=0, psserver_args=["--rows-memory", "2MiB"]) as c:
        pids = {name: c.processes[name].pid for name in ("ps-0", "ps-1")}
        job = c.submit(tables_job(epochs))
        with Programs(start_of(c, changed(PROGRAM, {"name=name,": f"name=name, job={job[2:]},"})),
                      count=1):
            c.wait_steps(job, 20)
            greedy = c.submit({**tables_job(1000), "name": "greedy"})
            begin = start_of(c, changed(GREEDY, {"JOB": greedy[2:]}))
            program = begin("greedy")
            failed = str(c.wait_state(greedy, "failed"))
            program.end()
            for word in ("psserver ps-", "table users: no memory for another row",
                         "of 2 MiB", "evict.max_rows"):
                check(word in failed, failed)
            c.wait_steps(job, c.steps(job) + 20)
            check_counts(c.wait_state(job))
        check_exact(c, job, epochs)
        for name, pid in pids.items():
            check_equal(c.processes[name].poll(), None, f"exit of {name}")
            check_equal(c.processes[name].pid, pid, f"process of {name}")


if __name__ == "__main__":
    main([a_job_that_takes_all_memory_of_rows_fails_alone,
          a_job_that_is_resumed_between_kills_has_each_update_of_a_row_once,
          what_evicted_rows_had_is_what_was_pushed_and_is_in_no_row,
          a_lost_closure_says_so_in_each_call, programs_and_psservers_are_killed_and_every_row_is_exact,
          a_job_of_tables_alone_counts_each_step_once,
          a_gradient_of_a_row_that_is_not_finite_counts_like_any_other,
          a_resumed_job_goes_on_with_its_rows_on_more_psservers,
          an_exported_table_has_the_rows_of_the_checkpoint,
          a_table_begins_with_the_rows_that_another_job_exported,
          a_file_of_rows_that_does_not_fit_is_refused,
          psservers_give_the_rows_of_their_files_to_other_hosts,
          the_tables_of_a_job_are_listed_while_it_runs_and_after,
          a_job_of_as_many_tables_as_can_be_is_exact,
          a_pull_of_more_than_a_message_holds_is_split_and_a_push_refused,
          what_does_not_fit_is_refused])
