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

from cluster import Cluster, check, check_counts, full_disk, main, mlp_job, wait_for

MIB = 24


class Small(Cluster):
    """Its coordinator has a disk of its own for the state folder."""

    def command(self, name):
        line = super().command(name)
        if name != "coordinator":
            return line
        state = self.dir / name
        state.mkdir(exist_ok=True)
        return ["unshare", "-m", "sh", "-c",
                f'mount -t tmpfs -o size={MIB}m tmpfs "$0" && exec "$@"',
                str(state), *line]


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


def spaces():
    """Whether we may mount in a namespace of our own."""
    return not (os.geteuid() or not shutil.which("unshare") or subprocess.run(
        ["unshare", "-m", "true"], check=False).returncode)


if __name__ == "__main__":
    if not spaces():
        print("no mount namespaces: skipped")
        sys.exit(77)
    main([a_full_disk_is_waited_for])
