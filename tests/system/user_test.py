#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a new user meets: each test is named after what the command does then,
and holds the sentence that it says."""
import contextlib
import json
import os
import stat
import subprocess
import threading

from cluster import (BIN, Cluster, check, check_equal, main, mlp_job)


def few(**train):
    return mlp_job("few", samples=640, epochs=1, batch=64, **train)


def says(done, *texts):
    for text in texts:
        check(text in done.stderr, f"it does not say '{text}'", done.stdout,
              done.stderr)


def full_device(path):
    """A /dev/full of this test's own; false where no node may be made."""
    with contextlib.suppress(PermissionError):
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 7))
        with contextlib.suppress(OSError), open(path, "rb"):
            return True
    return False


def only_files_are_replaced():
    with Cluster(psservers=1, workers=1) as c:
        job = c.submit(few())
        c.wait_state(job)
        whole = c.dir / "whole.safetensors"
        c.run("export", job, "--to", whole)
        want = whole.read_bytes()

        # A device stays one, and that it took nothing is an error.
        node = c.dir / "full"
        if full_device(node):
            done = c.run("export", job, "--to", node, want=1)
            says(done, f"{node}: No space left on device")
            check(stat.S_ISCHR(node.lstat().st_mode), "the device was replaced")
            done = c.run("watch", job, "--summary", node, want=1)
            says(done, "No space left on device")
            check(stat.S_ISCHR(node.lstat().st_mode), "the device was replaced")

        # What comes out of a FIFO and of standard output is the file.
        fifo, came = c.dir / "fifo", []
        os.mkfifo(fifo)
        reader = threading.Thread(target=lambda: came.append(fifo.read_bytes()))
        reader.start()
        c.run("export", job, "--to", fifo)
        reader.join()
        check(stat.S_ISFIFO(fifo.lstat().st_mode), "the FIFO was replaced")
        check_equal(came[0] == want, True, "what came out of the FIFO")
        done = subprocess.run([BIN / "sluice", "--coordinator", c.address, "export",
                               job, "--to", "-"], capture_output=True, check=True)
        check_equal(done.stdout == want, True, "what came out of stdout")

        # A link stays one; the file behind it is replaced, or made.
        for name in ("behind", "made"):
            link = c.dir / f"to-{name}"
            link.symlink_to(name)
            if name == "behind":
                (c.dir / name).write_text("old")
            c.run("export", job, "--to", link)
            check(link.is_symlink(), "the link was replaced")
            check_equal((c.dir / name).read_bytes() == want, True, name)

        # Nothing is left over beside them, and a folder is named as one.
        says(c.run("export", job, "--to", c.dir, want=2), f"{c.dir} is a folder")
        check_equal([p.name for p in c.dir.iterdir() if p.suffix == ".tmp"
                     or p.name.startswith(".sluice")], [], "left over")
        told = c.run("watch", job, "--summary", "-").stdout
        check(told.startswith("{") and '"once": true' in told, "summary to -", told)


def a_target_that_cannot_be_written_is_said_before_training():
    with Cluster(psservers=1, workers=0) as c:  # nobody would ever train it
        path = c.dir / "job.yaml"
        path.write_text(json.dumps(few()))
        for target in ("no/such/summary.json", "/proc/summary.json", c.dir, ""):
            done = c.run("submit", path, "--summary", target, want=None, limit_s=20)
            check(done.returncode not in (0, 130), "it was submitted", done.stderr)
            check("Submitted" not in done.stderr, "it was submitted", done.stderr)
        says(c.run("submit", path, "--summary", "no/such/summary.json", want=3),
             "no/such/summary.json: there is no folder no/such")
        check_equal(c.json("jobs").get("jobs", []), [], "jobs")


if __name__ == "__main__":
    main([only_files_are_replaced,
          a_target_that_cannot_be_written_is_said_before_training])
