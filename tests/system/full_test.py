#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The coordinator's disk is full: it stays, accepts nothing that it cannot
keep, says what it waits for, and goes on by itself. Needs root for a tmpfs in a
mount namespace; skipped (77) elsewhere."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

from cluster import Cluster, check, check_counts, full_disk, main, mlp_job, wait_for

MIB = 24


class Small(Cluster):
    """Its coordinator has a disk of its own for the state folder."""

    first = "true"  # what is done there before it begins

    def command(self, name):
        line = super().command(name)
        if name != "coordinator":
            return line
        state = self.dir / name
        state.mkdir(exist_ok=True)
        return ["unshare", "-m", "sh", "-c",
                f'mount -t tmpfs -o size={MIB}m tmpfs "$0" && {{ {self.first}; }} && exec "$@"',
                str(state), *line]


class Full(Small):
    """No byte is left there; or so many, and what a coordinator of before kept."""

    def __init__(self, left=0, kept=None, **options):
        super().__init__(**options)
        fill = f'{{ cat /dev/zero >"$0/ballast" 2>/dev/null; truncate -s -{left} "$0/ballast"; }}'
        self.first = f"cp {kept}/* \"$0\" && {fill}" if kept else fill

    def start_all(self):
        self.start("coordinator", wait=False)

    def make_room(self):
        subprocess.run(["nsenter", "-t", str(self.processes["coordinator"].pid), "-m",
                        "rm", str(self.dir / "coordinator" / "ballast")], check=True)


def a_full_disk_is_waited_for():
    with Small(psservers=1, workers=1) as c:
        job = c.submit(mlp_job("full", samples=6400, epochs=12, steps_per_closure=5))
        c.wait_steps(job, 100)
        term = int(c.cluster_status()["term"])
        more = c.dir / "more.yaml"
        more.write_text(json.dumps(
            mlp_job("more", samples=640, epochs=1)))
        told = []

        def refused():
            done = c.run("--timeout", "1s", "submit", more, "--no-wait", want=None)
            told.append(done.stderr)
            return done.returncode != 0 and "no space left" in done.stderr
        with full_disk(c.processes["coordinator"], c.dir / "coordinator"):
            wait_for("a submit that is refused for want of space", refused)
            check("journal.sqlite" in told[-1] and "bytes" in told[-1],
                  "path and bytes are not named", told[-1])
            check(c.processes["coordinator"].poll() is None, "it has ended")
        wait_for("the coordinator to go on", lambda: "space for the journal again"
                 in c.log("coordinator"))
        check_counts(c.wait_state(job))
        check(int(c.cluster_status()["term"]) > term, "it is no new term")
        check_counts(c.wait_state(c.submit(mlp_job("after", samples=640, epochs=1))))


def it_waits(c):
    """It says what it waits for, and goes on when there is room."""
    wait_for("a coordinator that waits", lambda: "no space for the journal" in c.log("coordinator")
             or c.processes["coordinator"].poll() is not None)
    check(c.processes["coordinator"].poll() is None, "it has ended")
    refused = c.run("--timeout", "1s", "status", want=None)
    check(refused.returncode != 0 and "no space left" in refused.stderr
          and "journal.sqlite" in refused.stderr, "it does not say why", refused.stderr)
    c.make_room()
    wait_for("the coordinator to go on", lambda: "space for the journal again"
             in c.log("coordinator"))
    return int(c.cluster_status()["term"])


def a_coordinator_begins_on_a_full_disk():
    for left in (0, 4096, 65536):
        with Full(left=left) as c:
            check(it_waits(c) == 1, "the term is not the first")


def a_coordinator_begins_on_a_disk_that_became_full():
    with tempfile.TemporaryDirectory() as kept:
        with Cluster(psservers=0, workers=0) as c:
            term = int(c.cluster_status()["term"])
            c.kill("coordinator")
            for file in (c.dir / "coordinator").glob("*.sqlite*"):
                shutil.copy(file, kept)
        with Full(kept=kept) as c:
            check(it_waits(c) > term, "it is no later term")


def spaces():
    """Whether we may mount in a namespace of our own."""
    return not (os.geteuid() or not shutil.which("unshare") or subprocess.run(
        ["unshare", "-m", "true"], check=False).returncode)


if __name__ == "__main__":
    if not spaces():
        print("no mount namespaces: skipped")
        sys.exit(77)
    main([a_full_disk_is_waited_for, a_coordinator_begins_on_a_full_disk,
          a_coordinator_begins_on_a_disk_that_became_full])
