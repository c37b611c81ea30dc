#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`sluice logs`: what daemons said of one job, or one of them at all. Those of a
`sluice up` by their files, and nothing of any file that is not theirs; others,
whose files are on their hosts, through the coordinator."""
import contextlib
import json
import pathlib
import queue
import subprocess
import threading

from access_test import Guarded
from cluster import BIN, LIMIT, Cluster, check, check_equal, main, mlp_job
from crowd import Crowd
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
        for job in ("../secret", "/etc/passwd", "j-1/../../secret", ""):
            check("no job's id" in logs(up, "logs", job, want=2), "it is taken", job)
        for nobody in ("j-99", "j-", "w-9"):
            told = logs(up, "logs", nobody, want=3)
            check(f"has a line about {nobody};" in told and "--coordinator" in told,
                  "it is not there", told)
        found = [json.loads(line) for line in logs(up, "-o", "json", "logs", "ps-0").splitlines()]
        check_equal({line["node"] for line in found}, {"ps-0"}, "lines of one daemon")


@contextlib.contextmanager
def following(c, *words):
    """`sluice logs WORDS --follow`; gives until(what), which waits for a line of
    it that has `what`, and returns all lines up to that one."""
    with subprocess.Popen([str(BIN / "sluice"), "--coordinator", c.address, "logs", *words,
                           "--follow"], cwd=c.dir, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL) as process:
        lines = queue.Queue()
        reader = threading.Thread(target=lambda: [lines.put(line) for line in process.stdout])
        reader.start()

        def until(what):
            seen = []
            while not any(what in line for line in seen[-1:]):
                try:
                    seen.append(lines.get(timeout=60 * LIMIT))
                except queue.Empty:
                    check(False, f"no line has '{what}'", *seen)
            return seen
        try:
            yield until
        finally:
            process.kill()
            reader.join()


def lines_of_other_hosts_come_through_the_coordinator():
    with Cluster(psservers=1, workers=2) as c:
        for name in ("one", "two"):
            c.wait_state(c.submit(mlp_job(name, samples=640, epochs=1)))
        found = [json.loads(line) for line in c.run("-o", "json", "logs", "j-1").stdout.splitlines()]
        check_equal({str(line["job"]) for line in found}, {"j-1", "1"}, "jobs of the lines")
        check({"coordinator", "ps-0"} <= {line["daemon"] for line in found}, "not all are heard")
        check_equal(found, sorted(found, key=lambda line: line["ts"]), "the order of the lines")
        text = c.run("logs", "w-1").stdout.splitlines()
        check(text and all(" w-1: " in line for line in text), "lines of others", *text[:5])
        check("coordinator: " in c.run("logs", "coordinator").stdout, "no lines of its own")
        check("'w-9' is attached" in c.run("logs", "w-9", want=3).stderr, "nobody is told of")
        check("about j-99" in c.run("logs", "j-99", want=3).stderr, "no job is told of")


def a_follower_hears_members_that_come_and_go():
    with Cluster(psservers=1, workers=1) as c, following(c, "ps-0") as member:
        member("ps-0: attached")
        job = c.submit(mlp_job("one", samples=640, epochs=1))
        with following(c, job) as all_of_it:
            member("ps-0: shard loaded")
            all_of_it("coordinator: job ended")
        c.wait_state(job)
        # Its next life begins a log of its own; then the coordinator's does.
        c.restart("ps-0")
        check(not [line for line in member("ps-0: attached") if "shard loaded" in line],
              "old lines come again")
        c.kill("coordinator")
        member("is away, waiting for it")
        c.start("coordinator")
        member("The coordinator is back")
        c.submit(mlp_job("two", samples=640, epochs=1))
        member("ps-0: shard loaded")


def one_that_is_silent_is_named_and_left_out():
    # Its lease outlasts the test: it is not lost, it does not answer.
    with Cluster(psservers=1, workers=2, coordinator_args=["--lease-ms", "600000"]) as c:
        job = c.submit(mlp_job("one", samples=640, epochs=1))
        c.wait_state(job)
        with Crowd(c.address, 1):  # of an older version
            c.pause("w-0")
            try:
                done = c.run("logs", job)
            finally:
                c.resume("w-0")
            alone = c.run("logs", "many-0", want=6).stderr
        for why in ("w-0: it has not answered", "many-0: its version (test) is too old"):
            check(f"nothing from {why}" in done.stderr, "it is not named", done.stderr)
        check("ps-0: shard loaded" in done.stdout, "others are not heard", done.stdout)
        check("in the journal of its host, host-0" in alone, "no reason", alone)


def lines_are_for_admins():
    made = [("submitter", "sam"), ("viewer", "vic")]
    with Guarded(made, psservers=1, workers=0) as c:
        check("ps-0: " in c.run("logs", "ps-0").stdout, "an admin reads nothing")
        for who in ("submitter-sam", "viewer-vic", "psserver"):
            for of in ("ps-0", "coordinator", "j-1"):
                told = c.run("logs", of, who=who, want=5).stderr
                check("may not call /sluice.v1.Jobs/Logs" in told, "no advice", told)


if __name__ == "__main__":
    main([lines_of_a_job_and_of_no_other, lines_of_other_hosts_come_through_the_coordinator,
          a_follower_hears_members_that_come_and_go, one_that_is_silent_is_named_and_left_out,
          lines_are_for_admins])
