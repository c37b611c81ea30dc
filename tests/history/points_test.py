#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every fault point, one after the other: the process dies there.

The points come from the binaries (--list-faults): a point that no run reaches
fails the test. For each, one daemon of a running cluster is restarted with the
point armed; the cluster trains until the daemon dies at it; the daemon is
started again without it. Jobs follow each other and each must finish with every
step counted once (check_counts); at the end of a role the checker reads the
history of all of it.

    points_test.py                     all points
    points_test.py snap.written ...    only these
    points_test.py --part 1/2          those of every second role
"""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "system"))
os.environ["SLUICE_HISTORY_CHECK"] = "1"
os.environ["SLUICE_SHM_MIN"] = "4"  # however small the shards of these jobs
from cluster import (BIN, LIMIT, Cluster, Failed, check, check_counts,  # noqa: E402
                     mlp_job, part_of, wait_for)

# What a worker does as a rank of a ring: it keeps the state, and writes it.
RANK = ("fs.", "apply.", "snap.", "snap_read.")
# And what it does where there are ranks on other hosts.
PAIR = ("reduce.", "ring.", "copy.")
# And what a newcomer does where a state is too large to stand still for it.
LARGE = ("follow.",)
# What only members of a group pass.
GROUP = ("group.",)
# Code that a role has in its binary and never runs: one that keeps no shards for
# others takes no pushes.
NEVER = {"worker": RANK + PAIR + LARGE + GROUP + ("once.", "shard.", "feed."),
         "sluice": ("fs.",),
         "coordinator": ("ring.", "move.", "replica."),  # move_test.py, replica_test.py
         "psserver": ("move.", "feed.", "replica.")}
# The n-th time instead of the first, to be past what a start itself does.
LATER = {"fs.fsync": 4, "fs.rename": 3, "fs.renamed": 3, "fs.dirsync": 5,
         "journal.begin": 3, "journal.committed": 4, "apply.half": 5,
         "api.ack": 20, "task.push": 7, "task.acked": 9, "task.push_part": 8,
         "ring.applied": 9}


def points_of(role):
    """The names of a binary's points."""
    done = subprocess.run([BIN / role, "--list-faults"], capture_output=True,
                          text=True, check=True)
    names = [line.split()[0] for line in done.stdout.splitlines()]
    check(names, f"{role} has no fault points: not built with SLUICE_TESTING")
    return sorted({n for n in names if not n.startswith(NEVER.get(role, ("-",)))})


def points_of_rank(kinds, role="worker"):
    """Those of a daemon that only a rank passes, or who leads it."""
    done = subprocess.run([BIN / role, "--list-faults"], capture_output=True,
                          text=True, check=True)
    names = {line.split()[0] for line in done.stdout.splitlines()}
    never = {"snap.begin"}  # it takes the instant first, and then begins a file
    return sorted({n for n in names if n.startswith(kinds)} - never)


class Loop:
    """A cluster that always has a job to train."""

    def __init__(self, cluster):
        self.c = cluster
        self.job = None
        self.finished = 0

    def keep_busy(self):
        """Submits the next job when the last one has ended; answers whether a
        coordinator does."""
        status = self.status()
        if self.job and status is None:
            return False
        if status and status["state"] == "finished":
            check_counts(status)
            self.finished += 1
            self.job = None
        elif status:
            check(status["state"] != "failed", "the job failed", status["reason"])
        if self.job is None:
            self.job = self.submit()
        return self.job is not None

    def status(self):
        """The job's; None where nobody answers now. The command would ask again until its
        timeout, and a coordinator that has died at its point stays dead until then."""
        return self.c.asker.status(self.job, 5 * LIMIT) if self.job else None

    def submit(self):
        """The id of the next job; None where nobody says it."""
        path = self.c.dir / f"points-{self.finished}.yaml"
        path.write_text(json.dumps(self.spec()))
        done = self.c.run("--timeout", "5s", "submit", path, "--no-wait", want=None)
        return done.stdout.strip() if done.returncode == 0 else None

    def spec(self):
        spec = mlp_job(f"points-{self.finished}", samples=3200, epochs=12,
                       steps_per_closure=5, batch=8)
        spec["checkpoint"] = {"every_seconds": 0.3, "keep": 1}
        spec["evaluate"] = {"every_epochs": 2}
        if not self.mode:  # nothing ever gets better by so much: each falls
            spec["callbacks"] = {"reduce_on_plateau": {
                "monitor": "loss", "patience": 1, "factor": 0.9, "min_delta": 1000}}
        spec["train"].update(self.mode)
        spec["model"]["layers"][1]["units"] = self.units
        return spec

    mode, units = {}, 64

    def alive(self, name):
        process = self.c.processes.get(name)
        return process is not None and process.poll() is None

    def midway(self):
        """A job that has a checkpoint to load from, and is far from its end."""
        def probe():
            if not self.keep_busy():
                return False
            status = self.status()
            return status and status["state"] == "running" and \
                int(status["cuts"]) > 0 and \
                int(status["steps_counted"]) < int(status["steps_asked"]) / 2
        wait_for("a job that is not far beyond its first cut", probe, 60)

    def drain(self):
        """Until the last job has finished."""
        if self.job is None:
            return
        status = self.c.wait_state(self.job)
        check_counts(status)
        self.finished += 1


# What makes a point reachable that training alone does not pass.
def worker_gone(loop, victim):
    loop.c.restart("w-1")


def sigterm(loop, victim):
    """Once it has work in hand: else there is nothing to hand back."""
    process = loop.c.processes[victim]
    done = loop.c.history / f"worker-{process.pid}.jsonl"
    wait_for("the worker to have a lease", lambda: loop.keep_busy() and
             done.exists() and b'"event":"leased"' in done.read_bytes(), 30)
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)


STIMULI = {"recover.reissue": worker_gone, "member.lost": worker_gone,
           "copy.served": worker_gone,
           "group.summed": worker_gone,  # who comes back follows
           "notice.drain": sigterm, "task.handback": sigterm}


# Passed only when the daemon comes to a job that runs already.
MIDWAY = {"recover.query", "snap_read.header", "snap_read.data", "copy.piece",
          "copy.whole", "follow.piece", "follow.placed", "follow.round"}


def arm(loop, victim, point):
    """Starts it anew, to die there."""
    if point in MIDWAY:
        loop.midway()
    loop.c.kill(victim)
    # A signal is only a stimulus to a daemon that listens to signals.
    return loop.c.start(victim, wait=STIMULI.get(point) is sigterm, environment={
        "SLUICE_FAULT": f"{point}=kill@{LATER.get(point, 1)}"})


def die_at(loop, role, victim, point, limit_s=40):
    """Restarts `victim` armed, and waits until the point has killed it."""
    def armed():
        """The process; how many jobs had finished by then; until when it may go on."""
        return arm(loop, victim, point), loop.finished, time.monotonic() + limit_s * LIMIT / 5
    c = loop.c
    end = time.monotonic() + limit_s * LIMIT
    process, came, again = armed()
    # What a stimulus begins takes its time on a busy machine: ever more of it.
    stimulus, poke_at, pause = STIMULI.get(point), 0.0, 2
    while True:
        if stimulus is sigterm and process.poll() == -signal.SIGTERM:
            process = arm(loop, victim, point)  # the job was over by then
        if process.poll() is not None:
            break
        check(time.monotonic() < end, f"{point}: never reached by {role}")
        loop.keep_busy()
        # It came too late; or at a moment at which none passes the point, as a newcomer
        # that had no round to follow.
        if point in MIDWAY and (loop.finished > came or time.monotonic() > again):
            process, came, again = armed()
        if stimulus and time.monotonic() > poke_at:
            stimulus(loop, victim)
            poke_at, pause = time.monotonic() + pause, 1.5 * pause
        time.sleep(0.02)  # between looks
    code = c.processes.pop(victim).returncode
    check(code == -signal.SIGKILL, f"{point}: {role} ended with {code}, not by "
          "the fault", c.log(victim)[-2000:])
    c.start(victim)


def role_test(role, victim, wanted):
    # Two shards, so that one can hold what the other lacks.
    cluster = Cluster(psservers=2, workers=2)
    points_test(role, points_of(role), victim, wanted, cluster, {})


def rank_test(wanted):
    """A rank alone, which loads its own files; one of two; who leads them; one
    that comes to a state of 5 MB."""
    for role, victim, workers, kinds, more in (
            ("worker", "w-0", 1, RANK, []),
            ("worker", "w-0", 2, PAIR, ["--shm", "off"]),
            ("worker", "w-0", 2, LARGE, []),
            ("coordinator", "coordinator", 2, ("ring.",), [])):
        cluster = Cluster(psservers=0, workers=workers)
        cluster.args["worker"] += ["--store", str(cluster.dir / "store"), *more]
        points_test("rank" if role == "worker" else role,
                    points_of_rank(kinds, role), victim, wanted, cluster,
                    {"mode": "allreduce", "contributions": 2},
                    1600 if kinds is LARGE else 64)


def group_test(wanted):
    cluster = Cluster(psservers=2, workers=2)
    points_test("member", points_of_rank(GROUP), "w-0", wanted, cluster,
                {"mode": "hybrid", "group": {"by": "host", "size": 2}})


def points_test(role, points, victim, wanted, cluster, mode, units=64):
    points = [p for p in points if not wanted or p in wanted]
    if not points:
        return
    failures = []
    with cluster as c:
        loop = Loop(c)
        loop.mode, loop.units = mode, units
        loop.keep_busy()
        for point in points:
            began = time.monotonic()
            try:
                die_at(loop, role, victim, point)
            except Failed as error:
                failures.append(str(error))
                c.start(victim) if not loop.alive(victim) else c.restart(victim)
            print(f"{role} {point} ({time.monotonic() - began:.1f} s)", flush=True)
        wait_for("the coordinator to answer", loop.keep_busy)
        loop.drain()
        check(not failures, "fault points", *failures)
    print(f"ok {role}: {len(points)} points, {loop.finished} jobs", flush=True)


# ---- the sluice command

def client_dies(c, point, *words, then=None):
    """Runs a command that dies at `point`; `then` makes it go there."""
    process = subprocess.Popen(
        [BIN / "sluice", "--coordinator", c.address, *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        env={**os.environ, "SLUICE_FAULT": f"{point}=kill"})
    try:
        if then:
            then(process)
        process.wait(timeout=30 * LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise Failed(f"{point}: never reached by sluice") from None
    check(process.returncode == -signal.SIGKILL, f"{point}: sluice ended with "
          f"{process.returncode}", process.stdout.read().decode())
    print(f"sluice {point}", flush=True)


def interrupt(process):
    """Ctrl-C, once it follows the job."""
    while b"Submitted" not in process.stdout.readline():
        check(process.poll() is None, "the command ended too early")
    process.send_signal(signal.SIGINT)


def client_test(wanted):
    """A dead client costs nobody anything: its job is accepted once and runs."""
    points = [p for p in points_of("sluice") if not wanted or p in wanted]
    if not points:
        return
    known = {"submit.sent", "submit.retry", "watch.detach"}
    check(set(points) <= known, "points of sluice that this test does not know",
          *(set(points) - known))
    for point in points:
        with Cluster(psservers=1, workers=1) as c:
            spec = c.dir / "job.yaml"
            # One that is detached from must not end before.
            spec.write_text(json.dumps(mlp_job(point.replace(".", "-"), epochs=(
                60 if point == "watch.detach" else 2))))
            if point == "submit.retry":  # the answer is lost with its coordinator
                c.kill("coordinator")
                c.start("coordinator", environment={
                    "SLUICE_FAULT": "api.submitted=kill"})
                client_dies(c, point, "submit", spec, "--no-wait")
                c.processes.pop("coordinator").wait()
                c.start("coordinator")
            else:
                client_dies(c, point, "submit", spec,
                            then=interrupt if point == "watch.detach" else None)
            jobs = c.json("jobs")["jobs"]
            check(len(jobs) == 1, f"{point}: one submission, {len(jobs)} jobs")
            check_counts(c.wait_state(jobs[0]["id"]))
    print(f"ok sluice: {len(points)} points", flush=True)


def main():
    failed = False
    tests = {role: lambda role=role, victim=victim: role_test(role, victim, wanted)
             for role, victim in (("worker", "w-0"), ("psserver", "ps-0"),
                                  ("coordinator", "coordinator"))}
    tests["rank"] = lambda: rank_test(wanted)
    tests["group"] = lambda: group_test(wanted)
    tests["sluice"] = lambda: client_test(wanted)
    part, words = part_of(list(tests.items()), sys.argv[1:])
    wanted = set(words)
    for role, test in part:
        try:
            test()
        except Failed as error:
            print(f"FAILED {role}: {error}", flush=True)
            failed = True
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
