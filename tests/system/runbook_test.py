#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What deploy/RUNBOOK.md says one sees when something breaks: each thing is
made to happen, and what the daemons then say is what stands there."""
import re
import subprocess

import etcd
from access_test import Guarded
from cluster import LIMIT, ROOT, check, check_counts, check_equal, full_disk, main, mlp_job, wait_for
from conserve import Programs, conserve_job
from ops_test import Small
from scrape import OPS, address, get, metrics, value
from standby import Standbys

NO_TEST = {"clock offset between hosts"}  # the page says why
if not etcd.available():
    NO_TEST |= {"coordinator's host lost", "etcd without a quorum"}
tried = set()


def table():
    """{event: {what one sees: where and in which words}}."""
    text = (ROOT / "deploy" / "RUNBOOK.md").read_text()
    part = text.split("\n## What you see when something breaks\n")[1].split("\n## ")[0]
    found = {}
    for block in re.split(r"^- ", re.sub(r"\n    ", " ", part), flags=re.M)[1:]:
        event, *lines = block.split("\n\n")[0].splitlines()
        cells = dict(line.removeprefix("  - ").split(": ", 1) for line in lines)
        wrong = cells.keys() - {"ready", "log", "figure", "ends with", "do"}
        check(not wrong and "do" in cells, f"what is said of {event}", cells)
        found[event.strip("*")] = cells
    return found


def words(cell):
    """[(role, what stands in backticks, what follows in brackets)]."""
    found = []
    if cell is None:
        return found
    for part in re.split(r"; (?=\w+: )", cell):
        role, said = part.split(": ", 1)
        found += [(role, *one) for one in re.findall(r"`([^`]+)`(?: \((\w+)\))?", said)]
    check(found, "a cell without words", cell)
    return found


class Row:
    """with Row(c, "worker lost", worker="w-0") as row: it is made to happen.
    Names say which daemon of a role is meant."""

    def __init__(self, c, event, **names):
        tried.add(event)
        self.c, self.event = c, event
        self.names = {"coordinator": "coordinator", "psserver": "ps-0", "worker": "w-0", **names}
        seen = table()[event]
        self.ready, self.log, self.figure, self.ends = map(
            seen.get, ("ready", "log", "figure", "ends with"))

    def __enter__(self):
        self.at = {role: len(self.c.log(name)) for role, name in self.names.items()
                   if (self.c.dir / f"{name}.log").exists()}
        self.before = {one: self.moved(one) for one in words(self.figure)}
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.logged()
            for one in words(self.figure):
                wait_for(f"{self.event}: {one[1]} of the {one[0]} to move from {self.before[one]}",
                         lambda one=one: self.moved(one) != self.before[one])

    def moved(self, one):
        role, text, _ = one
        name, labels = re.fullmatch(r"(\w+)(?:\{(.*)\})?", text).groups()
        pairs = dict(re.findall(r'(\w+)="([^"]*)"', labels or ""))
        return value(metrics(address(self.c, self.names[role])), name, **pairs)

    def logged(self):
        for role, text, level in words(self.log):
            wait_for(f"{self.event}: the {role} to say '{text}' ({level})", lambda: any(
                f'"level":"{level}"' in line and f'"msg":"{text}"' in line for line in
                self.c.log(self.names[role])[self.at.get(role, 0):].splitlines()))

    def readiness(self):
        for role, text, _ in words(self.ready):
            where = address(self.c, self.names[role])
            wait_for(f"{self.event}: the {role} to be '{text}'", lambda: any(
                line.startswith(text) for line in get(where, "/readyz?verbose")[1].splitlines()))

    def ended(self, name):
        """Waits for the daemon to end, with the status that stands there."""
        process = self.c.processes.pop(name)
        check_equal(process.wait(timeout=60 * LIMIT), int(self.ends), f"{self.event}: exit status")


def worker_lost(c, job):
    with Row(c, "worker lost", worker="w-1") as row:
        wait_for("w-1 to compute", lambda: value(
            metrics(address(c, "w-1")), "sluice_steps_total", result="counted") > 0)
        c.kill("w-1")
        row.readiness()
        c.wait_steps(job, c.steps(job) + 50)


def still(c, name, looks=10):
    """A probe for wait_for: nothing of the worker has moved for some looks. Gives the number
    of its closures, as a tuple."""
    seen = []

    def probe():
        now = metrics(address(c, name))
        seen.append((value(now, "sluice_worker_leases"), steps_of(now)))
        return seen[-1][:1] if seen[-looks:] == seen[-1:] * looks else None
    return probe


def steps_of(of):
    return value(of, "sluice_steps_total", result="counted")


def hold(c, name):
    """Pauses ps-0 so that the worker has a closure which it cannot end. It may have none, as
    while an evaluation is waited for; then it is paused once more, some steps later."""
    for _ in range(100):
        c.pause("ps-0")
        if wait_for(f"{name} to stand still", still(c, name)) > (0,):
            return
        c.resume("ps-0")
        before = steps_of(metrics(address(c, name)))
        wait_for(f"{name} to go on", lambda at=before: steps_of(
            metrics(address(c, name))) > at)
    check(False, f"{name} never has a closure when ps-0 is paused")


def stale_process_returns(c, job):
    with Row(c, "stale process returns") as row:
        for _ in range(10):  # a psserver's last answer may wait for it, which ends its closure
            at, heard = len(c.log("coordinator")), len(c.log("w-0"))
            hold(c, "w-0")
            c.pause("w-0")
            c.resume("ps-0")
            wait_for("w-0 to be lost", lambda: '"msg":"member lost"' in c.log("coordinator")[at:])
            c.resume("w-0")
            wait_for("w-0 to be back", lambda: '"msg":"attached"' in c.log("w-0")[heard:])
            if '"msg":"closure handed back"' in c.log("w-0")[row.at["worker"]:]:
                break
        row.logged()
        row.readiness()
    c.wait_steps(job, c.steps(job) + 20)


def preemption_notice(c, job):
    going = c.dir / "going"
    c.start("w-2", extra=["--preempt-source", f"file:{going}"])
    wait_for("w-2 to compute", lambda: value(
        metrics(address(c, "w-2")), "sluice_steps_total", result="counted") > 0)
    with Row(c, "preemption notice", worker="w-2") as row:
        hold(c, "w-2")  # or it is gone before anybody has looked
        going.touch()
        row.readiness()
        c.resume("ps-0")
        row.ended("w-2")


def poison_closure(c):
    with Row(c, "poison closure") as row, Programs(c, 4, "--raise-on", 100):
        wait_for("four workers, each of which is to fail once", lambda: all(
            "attending" in c.log(f"x-{i}") for i in range(4)))
        job = c.submit(conserve_job("poison", epochs=1))
        failed = c.wait_state(job, "failed")
        for word in ("samples 96..111", "x-0"):
            check(word in failed["reason"], f"the reason lacks '{word}'", failed["reason"])
        row.readiness()
    c.run("delete", job)


def nonfinite_gradients(c):
    spec = mlp_job("steep", epochs=100, max_nonfinite=1_000_000)
    spec["optimizer"] = {"type": "sgd", "learning_rate": 1e30}
    with Row(c, "non-finite gradients") as row:
        job = c.submit(spec)
        wait_for("skipped steps in the status", lambda: any(
            int(s.get("counts", {}).get("skipped", 0)) for s in c.json("status", job)["shards"]))
        row.readiness()
    c.run("stop", job)
    c.run("delete", job)


def disk_full(c):
    with full_disk(c.processes["ps-0"], c.dir / "small"), Row(c, "disk full") as row:
        row.readiness()
    wait_for("space again", lambda: get(address(c, "ps-0"), "/readyz")[0] == 200)


def coordinator_lost(c, job):
    with Row(c, "coordinator lost") as row:
        c.kill("coordinator")
        row.readiness()
        c.start("coordinator")
    c.wait_steps(job, c.steps(job) + 20)


def psserver_lost(c):
    with Row(c, "psserver lost") as row:
        c.kill("ps-0")
        row.logged()
        row.readiness()


def corrupt_state(c):
    c.kill("coordinator")
    state = c.dir / "coordinator"
    for file in state.glob("journal.sqlite-*"):
        file.unlink()
    with open(state / "journal.sqlite", "r+b") as journal:
        journal.write(b"no database" * 64)
    with Row(c, "failed fsync, corrupt state") as row:
        c.start("coordinator", wait=False)
        row.ended("coordinator")


def what_happens_in_one_cluster():
    with Small(psservers=1, workers=2, coordinator_args=OPS, psserver_args=OPS,
               worker_args=OPS) as c:
        c.no_history("only the psserver sees its disk; and a journal is destroyed")
        job = c.submit(mlp_job(epochs=2000, steps_per_closure=10))
        c.wait_steps(job, 20)
        worker_lost(c, job)
        stale_process_returns(c, job)
        preemption_notice(c, job)
        poison_closure(c)
        nonfinite_gradients(c)
        disk_full(c)
        coordinator_lost(c, job)
        psserver_lost(c)
        corrupt_state(c)


def a_certificate_near_its_end():
    with Guarded(psservers=0, workers=0, coordinator_args=OPS) as c:
        short = c.dir / "short.crt"
        ours = c.certs / "coordinator"
        for line in (["-x509toreq", "-in", f"{ours}.crt", "-signkey", f"{ours}.key", "-out",
                      c.dir / "csr"],
                     ["-req", "-in", c.dir / "csr", "-CA", c.certs / "ca.crt", "-CAkey",
                      c.certs / "ca.key", "-days", "5", "-set_serial", "78", "-out", short]):
            subprocess.run(["openssl", "x509", "-copy_extensions", "copy", *line], check=True,
                           capture_output=True)
        with Row(c, "certificate near its end") as row:
            short.replace(c.certs / "coordinator.crt")
            row.logged()
            row.readiness()


def host_lost(c, job):
    """Nothing of it gives its lease back: another one leads when that has ended."""
    old = c.leader()
    others = [f"coordinator-{i}" for i in range(3) if f"coordinator-{i}" != old]
    ports = {name: address(c, name) for name in others}
    at = {name: len(c.log(name)) for name in others}
    last = max(event["id"] for event in c.json("events")["events"])
    c.kill(old)
    new = c.leads(but=old)
    with Row(c, "coordinator's host lost", coordinator=new) as row:
        row.at = {"coordinator": at[new], "worker": 0}
        row.before = {one: 0 for one in row.before}  # a standby has no term
        row.readiness()
        waits, = [name for name in others if name != new]
        check_equal(get(ports[waits], "/readyz")[0], 503, "the other one stands by still")
    # Each has events of its own: a reader that goes on at the next misses none of it.
    wait_for("events of the new leader", lambda: {"coordinator-began", "member-came"} <= {
        event["kind"] for event in c.json("events", "--after", last)["events"]})
    c.wait_steps(job, c.steps(job) + 20)
    c.start(old)


def without_quorum(c, job):
    """The job trains on with what is leased, nothing new is, and nothing is lost."""
    kept = [0, 1]
    c.etcd.kill(kept[0])
    wait_for("the doctor to name the member that is away", lambda: all(
        word in c.run("doctor", want=None).stdout
        for word in ("does not answer", c.etcd.clients[kept[0]])))
    leader = c.leader()  # also where its lease has suffered
    with Row(c, "etcd without a quorum", coordinator=leader) as row:
        c.etcd.kill(kept[1])
        row.ended(leader)
        c.start(leader)
        row.readiness()
    for i in kept:
        c.etcd.start(i, wait=False)
    c.etcd.wait_healthy()
    c.revive()
    c.leads()
    c.wait_steps(job, c.steps(job) + 20)


def from_a_snapshot_of_etcd(c):
    """What deploy/RUNBOOK.md says: jobs that ran on since then pause (I7), and what was
    over before is as it was."""
    saved = c.dir / "etcd.snapshot"
    early = c.submit(mlp_job("early", samples=640, epochs=1))
    check_counts(c.wait_state(early))
    job = c.submit(mlp_job("later", epochs=2000, steps_per_closure=10))
    wait_for("a cut", lambda: int(c.status(job)["cuts"]) > 0)
    c.etcd.save(saved)
    cuts = int(c.status(job)["cuts"])
    wait_for("cuts that the snapshot lacks", lambda: int(c.status(job)["cuts"]) > cuts + 2)
    for name in [n for n in c.processes if n.startswith("coordinator")]:
        c.kill(name)
    c.etcd.restore(saved)
    c.revive()
    c.leads()
    now = wait_for("the job to pause (I7)", lambda: (said := c.status(job)).get("paused") and said)
    check("this journal knows only" in now["reason"], "the reason", now)
    said = '"msg":"job paused: the journal is older than what ran (I7)"'
    check(said in c.log(c.leader()), "no word in the log")
    check_equal(c.status(early)["state"], "finished", "a job that was over")
    c.run("stop", job)
    manifests = sorted((c.dir / "store").glob("later-*/cut-*.json"),
                       key=lambda path: int(path.stem.rpartition("-")[2]))
    again = c.submit(mlp_job("later", epochs=2000, steps_per_closure=10), "--resume",
                     manifests[-1])
    c.wait_steps(again, c.steps(again) + 20)


def standbys_and_their_etcd():
    if not etcd.available():
        print("no etcd (Debian: etcd-server, etcd-client): standbys are left out")
        return
    with etcd.Etcd() as e, Standbys(e, psservers=1, workers=2, coordinator_args=OPS,
                                    psserver_args=OPS, worker_args=OPS) as c:
        job = c.submit(mlp_job("standbys", epochs=2000, steps_per_closure=10))
        c.wait_steps(job, 20)
        host_lost(c, job)
        without_quorum(c, job)
        c.run("stop", job)
        from_a_snapshot_of_etcd(c)


def each_was_tried_or_says_why_not():
    check_equal(sorted(table()), sorted(tried | NO_TEST), "events")


if __name__ == "__main__":
    main([what_happens_in_one_cluster, a_certificate_near_its_end, standbys_and_their_etcd,
          each_was_tried_or_says_why_not])
