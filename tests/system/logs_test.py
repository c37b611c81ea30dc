#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`sluice logs JOB`: what the daemons of a `sluice up` said of one job, and
nothing of another one, nor of any file that is not theirs."""
import json
import pathlib
import subprocess

from cluster import BIN, check, check_equal, main, mlp_job
from up_test import Up


def logs(up, *words, want=0):
    done = subprocess.run([str(BIN / "sluice"), *words, "--dir", str(up.dir / "cluster")],
                          capture_output=True, text=True, timeout=60, check=False)
    check_equal(done.returncode, want, f"sluice {words}: {done.stderr}")
    return done.stdout if want == 0 else done.stderr


def lines_of_a_job_and_of_no_other():
    with Up(psservers=1, workers=1) as up:
        for name in ("one", "two"):
            path = pathlib.Path(up.dir, f"{name}.yaml")
            path.write_text(json.dumps(mlp_job(name, samples=640, epochs=1)))
            up.sluice("submit", str(path))
        found = [json.loads(line) for line in logs(up, "-o", "json", "logs", "j-1").splitlines()]
        check_equal({str(line["job"]) for line in found}, {"j-1", "1"}, "jobs of the lines")
        check({"coordinator", "ps-0"} <= {line["node"] for line in found},
              "not every daemon is heard", {line["node"] for line in found})
        times = [line["ts"] for line in found]
        check_equal(times, sorted(times), "the order of the lines")
        messages = [line["msg"] for line in found]
        for message in ("data probed", "shard loaded", "cut published"):
            check(message in messages, f"no '{message}'", *messages)
        text = logs(up, "logs", "2")
        check("ps-0: shard loaded" in text and "steps=" in text, "no text", text)
        # A link among the files leads nowhere, and a job is never a path.
        secret = pathlib.Path(up.dir, "secret")
        secret.write_text('{"ts":"0","msg":"secret","job":"j-1"}\n')
        (up.dir / "cluster" / "log" / "link.log").symlink_to(secret)
        check("secret" not in logs(up, "logs", "j-1"), "a link was followed")
        for job in ("../secret", "/etc/passwd", "j-", "j-1/../../secret", ""):
            check("no job's id" in logs(up, "logs", job, want=2), "it is taken", job)
        told = logs(up, "logs", "j-99", want=3)
        check("is about j-99" in told and "`sluice events j-99 --follow`" in told,
              "a job that is not there", told)


if __name__ == "__main__":
    main([lines_of_a_job_and_of_no_other])
