#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rows of sparse tables for other programs: `sluice follow` writes each change of a table
into a folder, `sluice export --since` those between two cuts. Whatever is killed, the
files of a folder are the table, to the last bit."""
import contextlib
import json
import os
import random
import signal
import subprocess
import sys

import numpy as np
import conserve
import conserve_rows
from cluster import BIN, LIMIT, Cluster, check, check_counts, check_equal, main, wait_for
from external_test import Programs
from lib_ring_test import PYTHON
from rows_test import start_of, tables_job

os.environ.update(PYTHON)
sys.path.insert(0, PYTHON["PYTHONPATH"])
import sluice  # noqa: E402
from sluice.feed import digest  # noqa: E402

TABLES = ("late", "few")


class Follower:
    """A process of `sluice follow` for a table, which the test ends and starts."""

    def __init__(self, c, job, table, *words):
        self.c, self.words = c, ["follow", job, "--table", table, "--to", c.dir / table, *words]
        self.folder, self.table, self.process = c.dir / table, table, None
        self.start()

    def start(self):
        with open(self.c.dir / f"follow-{self.table}.log", "ab") as log:
            self.process = subprocess.Popen(
                [str(BIN / "sluice"), "--coordinator", self.c.address, *map(str, self.words)],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def end(self, how=signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(how)
        return self.process.wait(timeout=60 * LIMIT)

    def restart(self, how):
        check(self.end(how) != 1, f"the follower of {self.table} had failed",
              self.c.log(f"follow-{self.table}"))
        self.start()

    def index(self):
        path = self.folder / "index.json"
        return json.loads(path.read_text()) if path.exists() else {"cut": 0, "files": []}


def as_bytes(ids, values):
    """{id: the bytes of its row}"""
    check_equal(len(set(ids.tolist())), len(ids), "different ids")
    return dict(zip(ids.tolist(), (v.tobytes() for v in values)))


def table_at(c, job, table, cut):
    out = c.dir / "at.safetensors"
    c.run("export", job, "--table", table, "--cut", cut, "--to", out)
    got = sluice.client.load_safetensors(str(out))
    return as_bytes(got["ids"], got["values"])


def differs(old, new):
    """What a delta from one table to the other must have."""
    return ({i: row for i, row in new.items() if old.get(i) != row}, set(old) - set(new))


def check_delta(path, old, new):
    """Exactly the rows whose bytes changed, and the ids that went."""
    got = sluice.client.load_safetensors(str(path))
    changed, gone = differs(old, new)
    check_equal(as_bytes(got["ids"], got["values"]), changed, f"changed rows of {path.name}")
    check_equal(sorted(got["gone"].tolist()), sorted(gone), f"ids gone by {path.name}")


def check_folder(c, job, follower, last):
    """The folder is the table of the last cut, and each file in it is what its name
    says of the cuts. Returns how many deltas there were, and how many ids went."""
    index = follower.index()
    check_equal(index["cut"], last, "the last cut")
    tables = {}

    def at(cut):
        if cut not in tables:
            tables[cut] = table_at(c, job, follower.table, cut)
        return tables[cut]
    check_equal(as_bytes(*sluice.replay(follower.folder)), at(last), "base and deltas")
    gone = 0
    for file in index["files"]:
        path, now = follower.folder / file["file"], at(file["cut"])
        check_equal(file["rows"], len(now), f"rows after {path.name}")
        check_equal(int(file["digest"], 16), digest(
            np.array(list(now), np.uint64),
            np.frombuffer(b"".join(now.values()), "<f4").reshape(len(now), -1)),
            f"digest after {path.name}")
        if "from" in file:
            check_delta(path, at(file["from"]), now)
            gone += file["gone"]
        else:
            got = sluice.client.load_safetensors(str(path))
            check_equal(as_bytes(got["ids"], got["values"]), now, path.name)
    there = {p.name for p in follower.folder.iterdir()} - {"index.json", "lock"}
    check_equal(there, {file["file"] for file in index["files"]}, "files of the folder")
    return sum("from" in file for file in index["files"]), gone


def processes_are_killed_and_each_folder_is_its_table():
    """Of a table that admits late, and of one that evicts. All cuts are kept for the
    test to compare with; a follower never needs an old one."""
    rng = random.Random(20261128)
    with Cluster(psservers=2, workers=0) as c:
        c.program_file = conserve_rows.__file__
        with conserve.Programs(c) as programs:
            spec = conserve_rows.rows_job(epochs=20, every_seconds=0.3)
            spec["checkpoint"]["keep"] = 1000
            job = c.submit(spec)
            followers = [Follower(c, job, "late"), Follower(c, job, "few", "--compact", "2")]
            for victim in ("ps-0", "", "ps-1", "coordinator", ""):
                before = followers[0].index()["cut"]
                wait_for("both to have a new cut", lambda before=before: all(
                    f.index()["cut"] > before for f in followers))
                if victim:
                    c.restart(victim)
                for follower in followers:
                    follower.restart(rng.choice((signal.SIGKILL, signal.SIGTERM)))
            programs.restart("x-0")
            check_counts(c.wait_state(job))
            for follower in followers:
                check_equal(follower.process.wait(timeout=60 * LIMIT), 0,
                            c.log(f"follow-{follower.table}"))
        conserve.check_conserved(c, job, spec)
        cuts = [int(cut["cut"]) for cut in c.json("checkpoints", job)["checkpoints"]]
        for follower in followers:
            deltas, gone = check_folder(c, job, follower, cuts[-1])
            check(deltas >= 2, f"{deltas} deltas of {follower.table} are listed")
            check(gone > 0 or follower.table == "late", "no id has gone")
        check("base-1." not in {f["file"] for f in followers[1].index()["files"]},
              "the first base is still listed")
        since_is_the_difference(c, job, cuts)


def since_is_the_difference(c, job, cuts):
    """Of `sluice export`, for pairs of cuts, in both directions and of one with itself."""
    out = c.dir / "since.safetensors"
    for table in TABLES:
        for old, new in ((cuts[0], cuts[-1]), (cuts[-1], cuts[1]), (cuts[2], cuts[2])):
            told = c.json("export", job, "--table", table, "--since", f"cut-{old}", "--cut",
                          new, "--to", out)
            check_delta(out, table_at(c, job, table, old), table_at(c, job, table, new))
            check_equal(int(told["since"]), old, told)
    got = sluice.export(job, c.address, table="few", since=cuts[0])
    check_equal(set(got["gone"].tolist()), differs(
        *(table_at(c, job, "few", cut) for cut in (cuts[0], cuts[-1])))[1], "in Python")


def a_reader_that_has_a_cut_gets_each_change_once():
    with Cluster(psservers=2, workers=0) as c:
        c.program_file = conserve_rows.__file__
        with conserve.Programs(c):
            job = c.submit(conserve_rows.rows_job(epochs=8, every_seconds=0.3))
            follower = Follower(c, job, "few", "--compact", "2")
            wait_for("a first cut", lambda: follower.index()["cut"] > 0)
            feed, table, wholes = sluice.Feed(follower.folder), {}, 0

            def read():
                nonlocal wholes
                for change in feed.changes():
                    wholes += change.whole
                    if change.whole:
                        table.clear()
                    for number in change.gone.tolist():
                        del table[number]
                    table.update(as_bytes(change.ids, change.values))
                    check_equal(len(table), change.rows, f"rows at cut {change.cut}")
                return follower.process.poll() is not None
            wait_for("the end of the job", read)
            read()
            check_equal(follower.process.returncode, 0, c.log("follow-few"))
        check_equal(wholes, 1, "the whole table was read")
        check_equal(list(feed.changes()), [], "nothing is new")
        check_equal(table, as_bytes(*sluice.replay(follower.folder)), "the reader's table")
        check_equal(table, table_at(c, job, "few", feed.cut), "the table of the cut")


def rows_come_from_psservers_where_the_files_are_not():
    """A cut that is followed may be pruned: the next delta is as exact."""
    hidden = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"')
    with Cluster(psservers=2, workers=0) as c:
        if subprocess.run([*hidden, c.dir / "store", "true"], check=False).returncode != 0:
            print("folders cannot be hidden here: left out")
            return
        c.program_file = conserve_rows.__file__
        words = ("--table", "few", "--to", c.dir / "served")
        with conserve.Programs(c):
            spec = conserve_rows.rows_job(epochs=200, every_seconds=0.3)
            spec["checkpoint"]["keep"] = 1
            job = c.submit(spec)
            cuts = []
            for steps in (100, 300, 500):
                c.wait_steps(job, steps)
                c.run("checkpoint", job)
                cuts.append(follow_once(c, job, words, hidden))
            check_equal(cuts, sorted(set(cuts)), "a cut each time")
            listed = {int(k["cut"]) for k in c.json("checkpoints", job)["checkpoints"]}
            check(cuts[0] not in listed, "the first cut is still there", listed)
            done = c.run("export", job, "--table", "few", "--since", cuts[0], "--to",
                         c.dir / "x", want=3)
            check(f"no cut {cuts[0]}" in done.stderr, done.stderr)
            c.run("stop", job)
        last = follow_once(c, job, words, ())
        check_equal(as_bytes(*sluice.replay(c.dir / "served")), table_at(c, job, "few", last),
                    "the table at the end")


def follow_once(c, job, words, hidden):
    """A cut may be pruned while its rows are asked for: then a newer one is there."""
    def done():
        code = c.run("follow", job, *words, "--once", want=None,
                     before=(*hidden, c.dir / "store") if hidden else ()).returncode
        check(code in (0, 3), f"sluice follow --once: exit {code}")
        return code == 0
    wait_for("a cut that stays while it is read", done)
    return json.loads((c.dir / "served" / "index.json").read_text())["cut"]


def what_cannot_be_followed_is_refused():
    with Cluster(psservers=1, workers=0) as c:
        with Programs(start_of(c), count=1):
            job = c.submit(tables_job(1))
            c.wait_state(job)

        def refused(code, word, *words):
            done = c.run(*words, want=code)
            check(word in done.stderr, f"{words}: {word}", done.stderr)
        to, other = ("--to", c.dir / "feed"), ("--to", c.dir / "other")
        refused(2, "name a table", "follow", job, *to)
        refused(2, "and a folder with --to", "follow", job, "--table", "users")
        refused(3, "no table user among its 2", "follow", job, "--table", "user", *to)
        refused(3, "no job j-99", "follow", "j-99", "--table", "users", *to)
        dense = tables_job(1)
        del dense["model"]["tables"]
        refused(3, "has no tables", "follow", c.submit(dense), "--table", "users", *to)
        waits = c.submit(tables_job(1))
        refused(3, "no checkpoint yet", "follow", waits, "--table", "users", "--once", *other)
        c.run("stop", waits, "--now")
        refused(3, "no checkpoint yet", "follow", waits, "--table", "users", *other)
        c.run("follow", job, "--table", "users", *to)
        c.run("follow", job, "--table", "users", *to)  # nothing is new
        refused(6, "follows table users of", "follow", job, "--table", "items", *to)
        refused(6, "follows table users of", "follow", waits, "--table", "users", *to)
        (c.dir / "mine").mkdir()
        (c.dir / "mine" / "notes.txt").write_text("mine")
        refused(6, "has other files (notes.txt)", "follow", job, "--table", "users", "--to",
                c.dir / "mine")
        refused(2, "--since is for the rows", "export", job, "--since", "1")
        refused(2, "is no number of a cut", "export", job, "--table", "users", "--since", "x")
        refused(3, "has no cut 99", "export", job, "--table", "users", "--since", "99")
        a_file_may_go_while_it_is_looked_for(c.dir / "feed")
        path = next((c.dir / "feed").glob("base-*"))
        path.write_bytes(path.read_bytes()[:-4] + b"\0\0\0\0")
        try:
            sluice.replay(c.dir / "feed")
        except ValueError as error:
            check("are not the table of cut" in str(error), error)
        else:
            check(False, "a damaged folder is read as if it were whole")


def a_file_may_go_while_it_is_looked_for(folder):
    """For a reader: the index is read again, and what it lists then must be there."""
    now = json.loads((folder / "index.json").read_text())["files"]
    before = [{**now[0], "file": "base-0.safetensors"}]
    feed, told = sluice.Feed(folder), [before, now, now]
    feed._files = lambda: told.pop(0)
    check_equal([change.cut for change in feed.changes()], [now[-1]["cut"]], "changes")
    feed.cut, told[:] = None, [before, before]
    try:
        list(feed.changes())
    except FileNotFoundError as error:
        check("base-0" in str(error), error)
    else:
        check(False, "a file that is listed and missing is passed over")


def two_of_one_folder_are_not():
    with Cluster(psservers=1, workers=0) as c:
        with Programs(start_of(c), count=1):
            job = c.submit(tables_job(600))
            first = Follower(c, job, "users")
            wait_for("the first to have the folder", lambda: (first.folder / "lock").exists()
                     and (first.folder / "lock").read_text())
            done = c.run("follow", job, "--table", "users", "--to", first.folder, want=6)
            check("another 'sluice follow' writes" in done.stderr, done.stderr)
            c.wait_steps(job, 8)
            c.run("stop", job)
            check_equal(first.process.wait(timeout=60 * LIMIT), 0, c.log("follow-users"))
        check(first.index()["cut"] > 0, "a job that was stopped has a last cut")


if __name__ == "__main__":
    main([a_reader_that_has_a_cut_gets_each_change_once,
          processes_are_killed_and_each_folder_is_its_table,
          rows_come_from_psservers_where_the_files_are_not,
          two_of_one_folder_are_not,
          what_cannot_be_followed_is_refused])
