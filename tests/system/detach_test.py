#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A cluster that goes on without a terminal, and a job that was submitted before
there was one."""
import json
import pathlib
import shutil
import subprocess
import tempfile

from cluster import (BIN, LIMIT, check, check_equal, children_of, free_port, main, mlp_job,
                     wait_for)


def run(folder, *words, want=0):
    done = subprocess.run([BIN / "sluice", *map(str, words)], capture_output=True,
                          text=True, timeout=120 * LIMIT, cwd=folder, stdin=subprocess.DEVNULL,
                          check=False)
    check_equal(done.returncode, want, f"sluice {words}: {done.stderr}")
    return done


def up_detaches_and_a_submit_waits_for_it():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-detach-"))
    address, cluster = f"127.0.0.1:{free_port()}", folder / "c"
    up = ("up", "--detach", "--dir", cluster, "--listen", address, "--psservers", 1,
          "--workers", 1, "--threads", 1, "--log-bytes", "64KiB")
    try:
        # Nobody listens: it waits as long as it was told, and says so.
        (folder / "job.yaml").write_text(json.dumps(
            mlp_job("early", samples=640, epochs=1)))
        done = run(folder, "--coordinator", address, "--timeout", "5s", "submit",
                   "job.yaml", want=4)
        check("Waiting for a coordinator" in done.stderr
              and "connection refused. Is it running?" in done.stderr, done.stderr)
        early = subprocess.Popen(
            [BIN / "sluice", "--coordinator", address, "submit", "job.yaml",
             "--wait-for-coordinator", "5m"], cwd=folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said = early.stderr.readline()
        check(f"Waiting for a coordinator at {address}" in said, said)

        # It is ready when the command ends, and lives on.
        told = run(folder, *up).stdout
        check(f"coordinator at {address}" in told
              and f"sluice down --dir {cluster} stops" in told, told)
        out, said = early.communicate(timeout=90 * LIMIT)
        check_equal(early.returncode, 0, f"the job that was early: {said}")
        check("epoch 1" in out, out)
        done = run(folder, *up, want=6)
        check("runs" in done.stderr or "lock" in done.stderr, done.stderr)

        # Its logs are bounded: two files each.
        log = cluster / "log" / "ps-0.log"
        with open(log, "a", encoding="utf-8") as file:
            file.write("x" * 99 + "\n" * 1 + ("y" * 99 + "\n") * 700)
        wait_for("a log to be bounded", lambda: log.stat().st_size < 65536)
        check("y" * 99 in (log.parent / "ps-0.log.1").read_text(), "what was there")

        run(folder, "down", "--dir", cluster)
        wait_for("all to end", lambda: not children_of(cluster), 20)
        check("Stopped; state and checkpoints are in" in
              (cluster / "log" / "up.log").read_text(), "the end is not told")

        # One that does not come up says why, where the command was given.
        done = run(folder, "up", "--detach", "--dir", "/proc/none", want=3)
        check("/proc/none cannot be made" in done.stderr, done.stderr)
    finally:
        subprocess.run([BIN / "sluice", "down", "--dir", cluster], check=False,
                       capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


def a_package_calls_its_daemons_otherwise():
    """Beside an installed `sluice` lie sluice-coordinator and so on: /usr/bin/worker is
    another program, which is not started."""
    with tempfile.TemporaryDirectory(prefix="sluice-detach-") as room:
        folder = pathlib.Path(room)
        (folder / "bin").mkdir()
        for role in ("coordinator", "psserver", "worker"):
            shutil.copy(BIN / role, folder / "bin" / f"sluice-{role}")
            (folder / "bin" / role).write_text("#!/bin/sh\nexit 2\n")
            (folder / "bin" / role).chmod(0o755)
        shutil.copy(BIN / "sluice", folder / "bin")
        (folder / "job.yaml").write_text(json.dumps(mlp_job("named", samples=640, epochs=1)))
        sluice, where = folder / "bin" / "sluice", f"unix:{folder}/s"
        try:
            for words in (("up", "--detach", "--dir", folder / "c", "--psservers", "1",
                           "--workers", "1", "--threads", "1", "--listen", where),
                          ("--coordinator", where, "submit", folder / "job.yaml")):
                done = subprocess.run([sluice, *words], capture_output=True, text=True,
                                      stdin=subprocess.DEVNULL, check=False, timeout=120)
                check_equal(done.returncode, 0, f"sluice {words}: {done.stderr}")
            for child, role in (("coordinator", "coordinator"), ("ps-0", "psserver"),
                                ("worker-0", "worker")):
                pid = (folder / "c" / f"{child}.pid").read_text().strip()
                check_equal(pathlib.Path(f"/proc/{pid}/exe").readlink(),
                            folder / "bin" / f"sluice-{role}", child)
            done = subprocess.run([folder / "bin/sluice-worker", "--no-such-flag"],
                                  capture_output=True, text=True, check=False)
            check("`sluice-worker --help`" in done.stderr, done.stderr)
        finally:
            subprocess.run([sluice, "down", "--dir", folder / "c"], check=False,
                           capture_output=True)


if __name__ == "__main__":
    main([up_detaches_and_a_submit_waits_for_it, a_package_calls_its_daemons_otherwise])
