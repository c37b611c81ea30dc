#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A backup taken while a job runs, and a new, empty cluster elsewhere that goes
on from it. The commands are those of deploy/RUNBOOK.md, line by line."""
import contextlib
import functools
import json
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile

from cluster import BIN, LIMIT, ROOT, Cluster, check, check_counts, check_equal, main, wait_for
from conserve import Programs, check_conserved, conserve_job

SPEC = conserve_job(name="kept", epochs=12, every_seconds=0.2)
SPEC["checkpoint"]["keep"] = 100


@functools.cache
def blocks():
    """{title: commands} of the runbook's part about backups."""
    text = (ROOT / "deploy" / "RUNBOOK.md").read_text()
    part = text.split("\n## Backup and restore\n")[1].split("\n## ")[0]
    found = dict(re.findall(r"^\*([^*]+)\*.*\n(?:\S.*\n)*\n((?:    .*\n)+)", part, re.M))
    return {title: re.sub("^    ", "", lines, flags=re.M)
            for title, lines in found.items()}


def do(title, state, store, backup):
    """Runs a block of the runbook as an operator would who has set the three."""
    script = re.sub(r"^(STATE|STORE|BACKUP)=.*\n", "", blocks()[title], flags=re.M)
    done = subprocess.run(
        ["bash", "-u", "-c", script], capture_output=True, text=True, timeout=60 * LIMIT, check=False,
        env={"PATH": f"{BIN}:/usr/bin:/bin", "STATE": str(state), "STORE": str(store),
             "BACKUP": str(backup)})
    check(done.returncode == 0, f"'{title}' of the runbook: exit {done.returncode}",
          done.stdout, done.stderr)


def sqlite_says(path, sql):
    with contextlib.closing(sqlite3.connect(path)) as db:
        return db.execute(sql).fetchone()[0]


class Restored(Cluster):
    """with Restored(backup, "restore", ...) as c: the commands, then daemons."""

    def __init__(self, backup, *titles, **more):
        super().__init__(psservers=2, workers=0, **more)
        self.no_history("what the journal knows began in another cluster")
        for title in titles:
            self.do(title, backup)

    def do(self, title, backup):
        do(title, self.dir / "coordinator", self.dir / "store", backup)


class Copied(Restored):
    """with Copied(backup) as c: all of it, as who knows no better copies it."""

    def __init__(self, backup):
        super().__init__(backup)
        (self.dir / "coordinator").mkdir()
        shutil.copy(backup / "journal.sqlite", self.dir / "coordinator")
        shutil.copytree(backup / "store", self.dir / "store")


def backup_of_a_running_job(folder):
    """(its steps by then, what was submitted): a cluster that is lost, whole,
    after it has counted and cut more than its backup has."""
    with Cluster(psservers=2, workers=0) as c, Programs(c, 2, "--step-ms", 20):
        job = c.submit(SPEC)
        cuts = lambda: int(c.status(job).get("cuts", 0))
        wait_for("two checkpoints", lambda: cuts() > 1)
        state, store, had = c.dir / "coordinator", c.dir / "store", c.steps(job)
        do("A backup", state, store, folder)
        check_equal(sqlite_says(folder / "journal.sqlite", "PRAGMA integrity_check"), "ok",
                    "what SQLite says of the copy")
        check_equal((folder / "journal.sqlite").stat().st_mode & 0o77, 0, "who may read the key")
        again = c.run("backup", folder, "--state", state, want=6)
        check("the backup overwrites nothing" in again.stderr, again.stderr)
        at = cuts()
        wait_for("a checkpoint that the backed-up journal lacks", lambda: cuts() > at + 1)
        # As of a copy of the store that took as long.
        subprocess.run(["cp", "-a", f"{store}/.", folder / "store"], check=False,
                       capture_output=True)
        check_equal(c.status(job)["state"], "running", "the job during its backup")
        c.wait_steps(job, had + 100)
        return job, had


def a_backup_goes_on_in_an_empty_cluster():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-backup-"))
    try:
        job, _ = backup_of_a_running_job(folder)
        with Copied(folder) as c:
            the_store_is_ahead_and_the_job_lies_still(c, job)
        with Restored(folder, "Into an empty cluster") as c:
            had = wait_for("its shards", lambda: c.steps(job) or None)
            steps = int(c.status(job)["steps_asked"])
            check(0 < had < steps, f"began with {had} steps of {steps}")
            with Programs(c, 2):
                check_counts(c.wait_state(job))
            check_conserved(c, job, SPEC)
            again = conserve_job(name="again", samples=64, epochs=2)
            with Programs(c, 1):
                check_counts(c.wait_state(c.submit(again)))
    finally:
        shutil.rmtree(folder)


def the_store_is_ahead_and_the_job_lies_still(c, job):
    """I7: nothing is guessed, and the way out is said."""
    said = c.status(job)
    check(said.get("paused"), "a store ahead of the journal did not pause its job", said)
    for word in ("holds cut", "this journal knows only", "journal.sqlite"):
        check(word in said["reason"], f"the reason lacks '{word}'", said["reason"])
    check('"msg":"job paused: the journal is older than what ran (I7)"'
          in c.log("coordinator"), "no word in the log")


def a_manifest_alone_goes_on_as_another_job():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-backup-"))
    try:
        backup_of_a_running_job(folder)
        with Restored(folder, "The store alone") as c, Programs(c, 2):
            check_equal(c.json("jobs").get("jobs", []), [], "jobs of an empty journal")
            cuts = sorted((c.dir / "store").glob("kept-*/cut-*.json"),
                          key=lambda p: int(p.stem[4:]))
            held = int(json.loads(cuts[-1].read_text())["steps"])
            job = c.submit(SPEC, "--resume", cuts[-1], "--set", "placement.psservers=2")
            done = c.wait_state(job)
            check_counts(done)
            check_equal(int(done["resumed_steps"]), held, "steps that were found")
            check_conserved(c, job, SPEC)
    finally:
        shutil.rmtree(folder)


def what_fails_in_its_midst_leaves_no_journal():
    """A whole journal beside half of a store would be taken for a backup, or for
    a coordinator's state. The same command does it all when what was wrong is right."""
    with tempfile.TemporaryDirectory(prefix="sluice-backup-") as folder:
        base = pathlib.Path(folder)
        backup = base / "backup"
        tables = ["CREATE TABLE jobs (id)", "CREATE TABLE cuts (job, cut, path, state)"]
        (base / "state").mkdir()
        for name in ("journal.sqlite", "tasks.sqlite"):
            with contextlib.closing(sqlite3.connect(base / "state" / name)) as db:
                for table in tables:
                    db.execute(table)
        for verb, state, store, from_store, to in (
                ("backup", base / "state", base / "store", base / "store", backup),
                ("restore", base / "state2", base / "store2", backup / "store",
                 base / "state2")):
            command = [BIN / "sluice", verb, backup, "--state", state, "--store", store]
            deep = from_store.joinpath(*"abcdefghij")  # which no store is
            deep.mkdir(parents=True)
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            check(done.returncode != 0 and "too deep" in done.stderr, verb, done)
            check_equal(sorted(p.name for p in to.glob("*.sqlite*")), [], f"{verb}: databases")
            shutil.rmtree(from_store / "a")
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            check(done.returncode == 0, verb, done)
            check((to / "journal.sqlite").exists(), f"{verb}: no journal")


if __name__ == "__main__":
    sys.exit(main([what_fails_in_its_midst_leaves_no_journal,
                   a_backup_goes_on_in_an_empty_cluster,
                   a_manifest_alone_goes_on_as_another_job]))
