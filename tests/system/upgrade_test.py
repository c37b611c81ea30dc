#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""State folders of earlier versions: this one goes on with them.

tests/system/states/<commit>.tar.gz holds the folders of a coordinator and two
psservers of that commit, killed in the midst of a job, and rows-<commit>.tar.gz
those of a job of sparse tables; tests/upgrade --keep makes one. Where programs of
both versions run, tests/upgrade asks."""
import fcntl
import functools
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

import conserve_rows
from cluster import LIMIT, Cluster, check, check_counts, main, wait_for
from conserve import Programs, check_conserved, conserve_job

STATES = sorted((pathlib.Path(__file__).parent / "states").glob("*.tar.gz"))


def has_rows(state):
    return state.name.startswith("rows-")


def spec(state):
    """The job of a state, of exact sums: what its files hold is seen in the end."""
    make = conserve_rows.rows_job if has_rows(state) else conserve_job
    return make(name="kept", epochs=20, every_seconds=0.2)


@functools.cache
def knows_roots(worker):
    """False: one of an older version, which reads whatever a spec names."""
    told = subprocess.run([worker, "--help"], capture_output=True, text=True,
                          check=True)
    return "--data-root" in told.stdout


class Mixed(Cluster):
    """A cluster whose daemons are of several builds: bins[name]."""

    def __init__(self, bins, **more):
        self.bins = bins
        super().__init__(**more)

    def command(self, name):
        program, *words = super().command(name)
        program = str(self.bins.get(name, pathlib.Path(program).parent) /
                      pathlib.Path(program).name)
        if name[0] == "w" and not knows_roots(program):
            words = [w for w in words if not w.startswith("--data-root")]
        return [program, *words]


class Kept(Cluster):
    """Daemons of this version on folders that were kept. They lie elsewhere
    now; what names their old place leads there by a link, which one test at a
    time can have."""

    def __init__(self, state):
        super().__init__(psservers=2, workers=0)
        with tarfile.open(state) as tar:
            tar.extractall(self.dir)
        self.was = pathlib.Path((self.dir / "WAS").read_text())
        self.turn = os.open(self.was.parent, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self.turn, fcntl.LOCK_EX)
        if self.was.is_symlink():  # of a test that was killed
            self.was.unlink()
        check(not self.was.exists(), f"{self.was} is there")
        self.was.symlink_to(self.dir)

    def __exit__(self, *why):
        try:
            return super().__exit__(*why)
        finally:
            self.was.unlink()
            os.close(self.turn)


def go_on_with(c, state):
    job = c.json("jobs")["jobs"][0]["id"]
    had = wait_for("its shards", lambda: c.steps(job) or None)
    check(had > 0, f"{state.name}: nothing is left of the job")
    check_counts(c.wait_state(job))
    check_conserved(c, job, spec(state))
    if has_rows(state):
        conserve_rows.check_rows(c, job, spec(state))
    again = conserve_job(name="again", samples=64, epochs=2)
    check_counts(c.wait_state(c.submit(again)))


def each_earlier_version_is_gone_on_with():
    check({has_rows(state) for state in STATES} == {False, True}, "states", STATES)
    for state in STATES:
        with Kept(state) as c:
            if has_rows(state):
                c.program_file = conserve_rows.__file__
            with Programs(c, 2):
                go_on_with(c, state)


def a_journal_of_a_newer_version_is_refused_in_words():
    import sqlite3
    with Kept(STATES[-1]) as c:
        c.kill("coordinator")
        with sqlite3.connect(c.dir / "coordinator" / "journal.sqlite") as db:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            db.execute(f"PRAGMA user_version = {version + 1}")
        db.close()
        process = c.start("coordinator", wait=False)
        check(process.wait(timeout=60 * LIMIT) == 1, "it did not end with 1")
        c.processes.pop("coordinator")
        said = c.log("coordinator")
        for word in ("newer coordinator", f"schema {version + 1}"):
            check(word in said, f"the reason lacks '{word}'", said)


if __name__ == "__main__":
    sys.exit(main([each_earlier_version_is_gone_on_with,
                   a_journal_of_a_newer_version_is_refused_in_words]))
