#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tasks: handlers of Python do them while workers and the coordinator are
killed; each ends once, with its result. SLUICE_KILLS: how often."""
import json
import os
import random
import signal
import subprocess
import sys
import threading
import types

from access_test import Guarded
from cluster import (BIN, LIMIT, LONG_LEASE, ROOT, Cluster, check, check_equal, full_disk, main,
                     wait_for)
from full_test import Small, spaces
from proxy import Proxy

os.environ["SLUICE_LIBRARY"] = str(BIN.parent / "lib" / "libsluice.so")
sys.path.insert(0, str(ROOT / "python"))
import sluice  # noqa: E402

KILLS = int(os.environ.get("SLUICE_KILLS", "12"))
SEED = int(os.environ.get("SLUICE_SEED", "7"))
WORKER = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
import sluice

def square(b):
    return str(int(b) ** 2).encode()

def tired(b):
    time.sleep(0.002)
    return square(b)

def slow(b):
    time.sleep(float(b))
    return b"slept"

def until(b):
    while not os.path.exists(b):
        time.sleep(0.01)
    return b"late"

def once(b):
    path, name = b.decode().split()
    with open(path, "a") as f:
        print(name, file=f)
    return b"done"

def wrong(b):
    raise ValueError("no such thing: " + b.decode())

def die(b):
    os._exit(1)

sluice.serve({"square": square, "tired": tired, "slow": slow, "until": until, "once": once, "wrong": wrong, "die": die}, sys.argv[2],
             name=sys.argv[3], tls=sys.argv[4] if len(sys.argv) > 4 else None)
"""


class Worker:
    """A process that serves; killed and started like any."""

    def __init__(self, c, name, tls=None):
        path = c.dir / "worker.py"
        if not path.exists():
            path.write_text(WORKER)
        self.log = c.dir / f"{name}.log"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(path), str(ROOT / "python"), c.address, name,
                 *([str(tls)] if tls else [])], stdout=log, stderr=log,
                stdin=subprocess.DEVNULL)

    def end(self, how=signal.SIGKILL):
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(timeout=30 * LIMIT)


class Workers:
    def __init__(self, c, count=2, tls=None):
        self.c, self.tls, self.begun = c, tls, 0
        self.running = [self.begin() for _ in range(count)]

    def begin(self):
        self.begun += 1
        return Worker(self.c, f"worker-{self.begun}", self.tls)

    def replace(self, which):
        self.running[which].end()
        self.running[which] = self.begin()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self.running:
            worker.end()


def queue_of(c, name, **options):
    found = [q for q in c.json("tasks", **options).get("queues", []) if q["name"] == name]
    return found[0] if found else {}


def whoever_is_killed_each_task_ends_once():
    """Scheduled while workers and the coordinator are killed at random."""
    draw = random.Random(SEED)
    with Cluster(psservers=0, workers=0) as c, Workers(c, 3) as workers, \
            sluice.Coordinator(c.address, queue="numbers", limit=4000) as coord:
        futures = []
        for i in range(KILLS):
            futures += [coord.schedule(draw.choice(["square", "tired"]), b"%d" % n)
                        for n in range(len(futures), len(futures) + 800)]
            seen = sum(f.done() for f in futures)
            wait_for("some to end", lambda seen=seen: sum(
                f.done() for f in futures) > seen + draw.randrange(100))
            if i % 3 == 2:
                c.restart("coordinator")
            else:
                workers.replace(draw.randrange(3))
        coord.join(120)
        got = [f.fetch() for f in futures]
        check(got == [b"%d" % (n * n) for n in range(len(futures))],
              "not every result is its task's")
        check(not coord._early and not coord._futures, "something ended twice")
        wait_for("all to be forgotten", lambda: all(
            int(queue_of(c, "numbers").get(k, 0)) == 0
            for k in ("pending", "leased", "done", "failed", "cancelled")))
        c.kill("coordinator", signal.SIGTERM)


def a_connection_that_breaks_loses_and_doubles_nothing():
    """Calls and answers are cut in their midst, of client and workers alike."""
    draw = random.Random(SEED)
    with Cluster(psservers=0, workers=0, coordinator_args=LONG_LEASE) as c, \
            Proxy(c.dir / "p.sock", c.dir / "coordinator.sock", seed=SEED) as link:
        near = types.SimpleNamespace(dir=c.dir, address=f"unix:{c.dir}/p.sock")
        with Workers(near, 2), sluice.Coordinator(near.address, queue="q") as coord:
            futures = []
            for _ in range(25):
                futures += [coord.schedule(draw.choice(["square", "tired"]), b"%d" % n)
                            for n in range(len(futures), len(futures) + 100)]
                seen = sum(f.done() for f in futures)
                way = draw.choice(["up", "down"])
                link.cut_after(draw.randrange(4000), way)
                wait_for("the cut", lambda way=way: link.ways[way].left is None or all(
                    f.done() for f in futures))
                link.heal()
                wait_for("one to end", lambda seen=seen: sum(
                    f.done() for f in futures) > seen)
            check(link.connections > 10, "few connections broke", link.connections)
            coord.join(60)
            check_equal([f.fetch() for f in futures],
                        [b"%d" % (n * n) for n in range(len(futures))], "results")
            check_equal(sum(f.losses for f in futures), 0, "workers that were lost")
            check(not coord._early and not coord._futures, "something ended twice")


CLIENT = """
import sys
sys.path.insert(0, sys.argv[1])
import sluice
coord = sluice.Coordinator(sys.argv[2], queue="q", client="grid")
have = {f.id for f in coord.left(30)}
for i in range(int(sys.argv[3])):
    coord.schedule("tired", b"%d" % i)
print(len(have), flush=True)
sys.stdin.read()  # until it is killed
"""


def another_process_goes_on_for_a_client_that_was_killed():
    with Cluster(psservers=0, workers=0) as c, Workers(c, 2):
        seen = []
        for count in (300, 200):
            with subprocess.Popen(
                    [sys.executable, "-c", CLIENT, str(ROOT / "python"), c.address,
                     str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
                seen.append(int(client.stdout.readline()))
                wait_for("all to be accepted", lambda: sum(
                    int(queue_of(c, "q").get(k, 0))
                    for k in ("pending", "leased", "done")) == seen[-1] + count)
                client.kill()
        check_equal(seen, [0, 300], "what each of them found")
        c.restart("coordinator")
        with sluice.Coordinator(c.address, queue="q", client="grid") as coord, \
                sluice.Coordinator(c.address, queue="q", client="other") as other:
            left = coord.left(30)
            check_equal([f.id for f in left], list(range(1, 501)), "numbers that are left")
            check_equal(other.left(30), [], "what another client finds")
            more = coord.schedule("square", b"9")
            check_equal(more.id, 501, "the next number")
            coord.join(60)
            check_equal([f.fetch() for f in left], [b"%d" % (i * i) for n in (300, 200)
                                                    for i in range(n)], "results")
            for f in left[:499]:
                f.forget()
        with sluice.Coordinator(c.address, queue="q", client="grid") as coord:
            coord.left(30)  # it is there before the newer one begins
            with sluice.Coordinator(c.address, queue="q", client="grid") as newer:
                check_equal([f.fetch(30) for f in newer.left(30)], [b"%d" % 199 ** 2, b"81"],
                            "what was not forgotten")
                try:
                    coord.schedule("square", b"1").fetch(30)
                    check(False, "two processes are one client")
                except sluice.TaskFailed as error:
                    check("another process" in str(error), str(error))
                # Its thread ends: nothing will come any more, and a look that waits
                # for nothing keeps a core busy.
                wait_for("the older one's reader to end", lambda: not coord._reader.is_alive())
                for refused in (lambda: coord.schedule("square", b"1"), coord.left):
                    try:
                        refused()
                        check(False, "the older one is not refused any more")
                    except sluice.Error as error:
                        check("another process" in str(error), str(error))
                check_equal(newer.schedule("square", b"7").fetch(30), b"49",
                            "of the newer one")


def failed_ones_are_told_with_their_error():
    with Cluster(psservers=0, workers=0, coordinator_args=LONG_LEASE) as c, Workers(c, 1), \
            sluice.Coordinator(c.address, queue="q") as coord:
        good = [coord.schedule("square", b"3") for _ in range(10)]
        bad = coord.schedule("wrong", b"thing")
        worse = coord.schedule("slow", b"no number")
        try:
            coord.join(60)
            check(False, "join says nothing of the failure")
        except sluice.TaskFailed as error:
            check("ValueError: no such thing: thing" in str(error), str(error))
            check("in wrong" in str(error), "not where", str(error))
        coord.join(1)  # it was told
        try:
            worse.fetch()
            check(False, "a result of a failed task")
        except sluice.TaskFailed as error:
            check("could not convert" in str(error), str(error))
        check_equal([f.fetch(10) for f in good], [b"9"] * 10, "results")
        check_equal(bad.losses, 0, "workers lost by an exception")


def a_task_that_kills_its_workers_fails_and_the_others_do_not():
    with Cluster(psservers=0, workers=0, coordinator_args=[
            "--lease-ms", "500", "--heartbeat-ms", "100"]) as c, \
            sluice.Coordinator(c.address, queue="q") as coord:
        poison = coord.schedule("die", b"")
        others = [coord.schedule("square", b"2") for _ in range(200)]
        with Workers(c, 2) as workers:
            def is_over():
                for i, worker in enumerate(workers.running):
                    if worker.process.poll() is not None:
                        workers.replace(i)
                return poison.done()
            wait_for("the poison to be found", is_over)
            check_equal([f.fetch(60) for f in others], [b"4"] * 200, "results")
        try:
            poison.fetch()
            check(False, "it has a result")
        except sluice.TaskFailed as error:
            check("took down 3 workers" in str(error), str(error))
        check_equal(poison.losses, 3, "workers that it took down")


def cancelled_ones_end_and_the_worker_goes_on():
    with Cluster(psservers=0, workers=0) as c, \
            sluice.Coordinator(c.address, queue="q") as coord:
        waiting = [coord.schedule("square", b"1") for _ in range(5)]
        for f in waiting:
            f.cancel()
        with Workers(c, 1):
            coord.join(60)
            for f in waiting:
                try:
                    f.fetch()
                    check(False, "a result of a cancelled task")
                except sluice.TaskCancelled:
                    pass
            go = c.dir / "go"
            running = coord.schedule("until", str(go).encode())
            wait_for("it to run", lambda: int(queue_of(c, "q").get("leased", 0)) == 1)
            running.cancel()
            coord.join(60)  # while its handler runs
            go.touch()
            check_equal(coord.schedule("square", b"5").fetch(60), b"25", "the next result")


def a_full_queue_has_schedule_wait():
    with Cluster(psservers=0, workers=0) as c, \
            sluice.Coordinator(c.address, queue="small", limit=10) as coord:
        futures = []

        def schedule():
            for i in range(25):
                futures.append(coord.schedule("square", b"%d" % i))
        thread = threading.Thread(target=schedule)
        thread.start()
        wait_for("the queue to be full",
                 lambda: int(queue_of(c, "small").get("pending", 0)) == 10)
        check_equal(c.run("tasks", "-o", "name").stdout, "small\n", "name of the queue")
        ids = [str(task["id"]) for task in c.json("tasks", "small")["tasks"]]
        check_equal(c.run("tasks", "small", "-o", "name").stdout.split(), ids, "ids")
        check_equal(len(c.run("tasks", "small", "-o", "jsonl").stdout.splitlines()), 10,
                    "lines of JSON")
        check_equal(len(futures), 10, "tasks that were scheduled")
        # Another client finds it full too: the coordinator says so.
        with sluice.Coordinator(c.address, queue="small", limit=11) as other:
            extra = [other.schedule("square", b"7") for _ in range(3)]
            wait_for("one more", lambda: int(queue_of(c, "small")["pending"]) == 11)
            with Workers(c, 1):
                check_equal([f.fetch(60) for f in extra], [b"49"] * 3, "the other's results")
                thread.join(60)
                coord.join(60)
        check_equal([f.fetch() for f in futures], [b"%d" % (i * i) for i in range(25)],
                    "results")


def a_signal_drains_and_nothing_is_lost_or_blamed():
    with Cluster(psservers=0, workers=0, coordinator_args=LONG_LEASE) as c, Workers(c, 2) as workers, \
            sluice.Coordinator(c.address, queue="q") as coord:
        futures = [coord.schedule("slow", b"0.02") for _ in range(100)]
        wait_for("some", lambda: sum(f.done() for f in futures) > 10)
        check_equal(workers.running[0].end(signal.SIGTERM), 0, "exit of a drained worker")
        coord.join(60)
        check_equal(sum(f.losses for f in futures), 0, "losses of a drain")


def who_leaves_leaves_nothing_that_was_received():
    """Closed at once after the last result."""
    with Cluster(psservers=0, workers=0) as c, Workers(c, 1):
        for _ in range(8):
            with sluice.Coordinator(c.address, queue="q") as coord:
                for i in range(20):
                    coord.schedule("square", b"%d" % i)
                coord.join(60)
            left = queue_of(c, "q")
            check(all(int(left.get(k, 0)) == 0 for k in
                      ("pending", "leased", "done", "failed")), "something is left", left)


def the_command_lists_and_deletes():
    with Cluster(psservers=0, workers=0) as c, \
            sluice.Coordinator(c.address, queue="left", limit=50) as coord:
        check("no queue" in c.run("tasks").stderr, "nothing is said of no queue")
        futures = [coord.schedule("square", b"1") for _ in range(3)]
        wait_for("three", lambda: int(queue_of(c, "left").get("pending", 0)) == 3)
        lines = c.run("tasks", "left").stdout.splitlines()
        check_equal(len(lines), 4, "lines of a table of three")
        check("square" in lines[1] and "pending" in lines[1], lines[1])
        check("no queue 'right'" in c.run("tasks", "right", want=3).stderr, "no words")
        c.run("tasks", "--delete", "left")
        for f in futures:
            try:
                f.fetch(30)
                check(False, "a result of a deleted task")
            except sluice.TaskFailed as error:
                check("deleted" in str(error), str(error))
        again = coord.schedule("square", b"6")  # a new queue of that name
        with Workers(c, 1):
            check_equal(again.fetch(60), b"36", "a result in the new one")


def another_tenant_sees_and_gets_nothing():
    made = [("submitter", "alice"), ("submitter", "bob"),
            ("worker", "w-bob", "--tenant", "bob"), ("viewer", "vic")]
    with Guarded(made, psservers=0, workers=0) as c:
        hers, his = c.certs / "submitter-alice", c.certs / "submitter-bob"
        with sluice.Coordinator(c.address, queue="q", tls=str(hers)) as alice, \
                sluice.Coordinator(c.address, queue="q", tls=str(his)) as bob, \
                Workers(c, 1, tls=c.certs / "worker-w-bob"):
            secret = alice.schedule("square", b"12")
            check_equal(bob.schedule("square", b"2").fetch(60), b"4", "bob's result")
            check(not secret.done(), "bob's worker did alice's task")
            for who, want in (("submitter-alice", ["alice"]), ("submitter-bob", ["bob"]),
                              ("client", ["alice", "bob"])):
                tenants = sorted(q["tenant"] for q in c.json(
                    "tasks", who=who).get("queues", []))
                check_equal(tenants, want, f"tenants that {who} sees")
            told = c.run("tasks", "--delete", "q", "--tenant", "alice",
                         who="submitter-bob").stderr
            check("with 1 tasks" in told or "with 0 tasks" in told, "not his own", told)
            told = c.run("tasks", "--delete", "q", "--tenant", "alice",
                         who="submitter-bob", want=3).stderr
            check("no queue" in told, "bob deletes alice's", told)
            with Workers(c, 1, tls=c.certs / "worker"):  # everybody's
                check_equal(secret.fetch(60), b"144", "alice's result")
            for words in (("worker",), ("viewer-vic",)):
                try:
                    with sluice.Coordinator(c.address, queue="q",
                                            tls=str(c.certs / words[0])) as no:
                        no.schedule("square", b"1").fetch(60)
                    check(False, f"{words[0]} may schedule")
                except sluice.TaskFailed as error:
                    check("may not call" in str(error), str(error))
            log = c.dir / "coordinator" / "audit.log"

            def audited():
                return [(x["tenant"], x["call"], x["job"], x["result"])
                        for x in map(json.loads, log.read_text().splitlines())]

            check(("alice", "MakeQueue", "q", "SL_OK") in audited() and
                  ("bob", "DeleteQueue", "q", "SL_ENOENT") in audited(),
                  "no audit", *audited())
            # A refusal does not wait until its line is written.
            wait_for("a refusal in the audit log", lambda: any(
                x[1::2] == ("MakeQueue", "SL_EDENIED") for x in audited()))
            try:
                sluice.serve({"square": lambda b: b}, c.address, tls=str(his))
                check(False, "a submitter may work")
            except sluice.Error as error:
                check("may not call" in str(error), str(error))


def a_full_disk_fails_these_calls_and_is_waited_for():
    with Small(psservers=0, workers=0) as c, \
            sluice.Coordinator(c.address, queue="q") as coord, Workers(c, 1):
        check_equal(coord.schedule("square", b"3").fetch(60), b"9", "a result")
        with full_disk(c.processes["coordinator"], c.dir / "coordinator"):
            blocked = [coord.schedule("square", b" " * 200000 + b"%d" % n) for n in (4, 5)]
            wait_for("the coordinator to say so",
                     lambda: "tasks cannot be kept" in c.log("coordinator"))
            check("no space left" in c.log("coordinator"), "not why")
            check(c.processes["coordinator"].poll() is None, "it has ended")
            c.cluster_status()  # the rest of it answers
            check(not any(f.done() for f in blocked), "they have ended")
        check_equal([f.fetch(60) for f in blocked], [b"16", b"25"], "results")


def what_is_wrong_is_said():
    with Cluster(psservers=0, workers=0) as c, \
            sluice.Coordinator(c.address, queue="q") as coord:
        for name, payload in (("", b""), (" x", b""), ("a\nb", b""),
                              ("square", bytes((1 << 20) + 1))):
            try:
                coord.schedule(name, payload)
                check(False, f"{name!r} and {len(payload)} bytes were taken")
            except sluice.Error as error:
                check_equal(error.code, "SL_EINVAL", str(error))
        with Workers(c, 1):
            large = coord.schedule("large", bytes(1 << 20))
            done = threading.Event()

            def serve():
                sluice.serve({"large": lambda b: bytes(len(b) + 1)}, c.address,
                             stop=done)
            thread = threading.Thread(target=serve)
            thread.start()
            try:
                large.fetch(60)
                check(False, "a result that is too large")
            except sluice.TaskFailed as error:
                check("at most 1048576" in str(error), str(error))
            done.set()
            thread.join(30)
        try:
            sluice.Coordinator(c.address, queue="")
            check(False, "a queue without a name")
        except sluice.Error as error:
            check("queue's name" in str(error), str(error))


if __name__ == "__main__":
    main([whoever_is_killed_each_task_ends_once,
          a_connection_that_breaks_loses_and_doubles_nothing,
          another_process_goes_on_for_a_client_that_was_killed, failed_ones_are_told_with_their_error,
          a_task_that_kills_its_workers_fails_and_the_others_do_not,
          cancelled_ones_end_and_the_worker_goes_on, a_full_queue_has_schedule_wait,
          a_signal_drains_and_nothing_is_lost_or_blamed,
          who_leaves_leaves_nothing_that_was_received, the_command_lists_and_deletes,
          another_tenant_sees_and_gets_nothing, what_is_wrong_is_said,
          *([a_full_disk_fails_these_calls_and_is_waited_for] if spaces() else [])])
