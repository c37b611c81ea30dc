#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A journal, tasks and events move from their files to a real etcd and back, between lives of one
coordinator, while a job waits; nothing is lost and nothing counts twice.
"""
import subprocess

import exact
from cluster import BIN, LIMIT, Cluster, check, check_counts, check_equal, main, wait_for
from etcd import Etcd, available
from tasks_test import queue_of, sluice

EPOCHS = 100


class Moving(Cluster):
    """Its coordinator has the journal in etcd while `url` is set."""
    url = None

    def command(self, name):
        line = super().command(name)
        if name == "coordinator" and self.url:
            line += ["--journal", self.url, "--etcd-ttl", "2s"]
        return line

    def goes_on(self):
        self.start("coordinator")
        wait_for("the coordinator to serve",
                 lambda: self.run("--timeout", "5s", "jobs", want=None).returncode == 0)
        self.wait_attached("ps-0", "ps-1", "w-0", "w-1")

    def migrate(self, way, url, want=0, folder="coordinator"):
        done = subprocess.run(
            [str(BIN / "coordinator"), "--state", str(self.dir / folder), "--store",
             str(self.dir / "store"), "--journal", url, "--migrate", way],
            capture_output=True, text=True, timeout=60 * LIMIT, cwd=self.dir,
            stdin=subprocess.DEVNULL, check=False)
        check_equal(done.returncode, want, f"the exit of --migrate {way}: {done.stderr}")
        return done.stderr


def jobs(c):
    return {job["id"]: job["state"] for job in c.json("jobs")["jobs"]}


def a_job_goes_on_over_the_move_to_etcd_and_back():
    with Etcd(members=1) as e, Moving() as c:
        url = f"etcd://{e.endpoints}/sluice"
        done = c.submit(exact.exact_job(c, "done", 2))
        c.wait_state(done)
        job = c.submit(exact.exact_job(c, "moved", EPOCHS))
        wait_for("a cut", lambda: int(c.status(job)["cuts"]) > 0)
        with sluice.Coordinator(c.address, queue="q", client="ada") as coord:
            for n in range(3):
                coord.schedule("square", b"%d" % n)
        c.migrate("to-etcd", url, want=2)  # the state folder is in use
        check(not e.keys("sluice"), "nothing was written")

        c.kill("coordinator")
        check(f'"to":"{url}' in c.migrate("to-etcd", url), "it says where to")
        check("there are rows of events in etcd" in c.migrate("to-etcd", url, want=1),
              "a second copy is refused")
        check(e.get("sluice/leader") is None, "the key is given back")
        c.url = url
        c.goes_on()
        check_equal(int(queue_of(c, "q")["pending"]), 3, "tasks that wait")
        now = c.status(job)
        c.wait_steps(job, min(int(now["steps_counted"]) + 60, int(now["steps_asked"])))

        check("a coordinator leads" in
              c.migrate("from-etcd", url, want=1, folder="other"), "it is led")
        c.kill("coordinator")
        wait_for("the lease to end", lambda: e.get("sluice/leader") is None)
        for kind, told in (("events", "are rows of events"), ("tasks", "are rows of tasks"),
                           ("journal", "is a journal")):
            check(f"{kind}.sqlite: there {told} already" in
                  c.migrate("from-etcd", url, want=1), "a file of before is not replaced")
            for file in (c.dir / "coordinator").glob("*.sqlite*"):
                if kind == "journal" or file.name.startswith(kind):
                    file.unlink()
        c.migrate("from-etcd", url)
        c.url = None
        c.goes_on()
        check_equal(int(queue_of(c, "q")["pending"]), 3, "tasks that wait")
        check("job-submitted" in c.run("events", job, "-o", "jsonl").stdout, "its events")
        check_counts(c.wait_state(job))
        exact.check_exact(c, job, EPOCHS)
        check_equal(jobs(c)[done], jobs(c)[job], "the state of both jobs")


def what_is_no_journal_is_not_moved():
    with Etcd(members=1) as e, Cluster(psservers=0, workers=0) as c:
        move = Moving.migrate
        url = f"etcd://{e.endpoints}/sluice"
        check("there is no journal" in move(c, "to-etcd", url, 2, "empty"), "no file")
        check("there is no journal in" in move(c, "from-etcd", url, 2, "empty"), "no keys")
        check("is no URL of etcd" in move(c, "to-etcd", "http://h:1/p", 2, "empty"), "no URL")
        e.put("sluice/base", "garbage")
        check("it is no record" in move(c, "from-etcd", url, 1, "empty"), "no record")


if __name__ == "__main__":
    import sys
    if not available():
        print("no etcd is installed (tools/install-packages --tests)")
        sys.exit(77)
    main([a_job_goes_on_over_the_move_to_etcd_and_back, what_is_no_journal_is_not_moved])
