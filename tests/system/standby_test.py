#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Coordinators that stand by: one leads, by a key in a real etcd of three members,
and whatever happens to it or to etcd another one goes on, with what was decided.

After each disturbance the job must finish with every sample counted once in every
epoch, to the last integer (exact.py), and terms have risen one after the other.
"""
import base64
import contextlib
import functools
import json
import random
import shutil
import signal
import sys

import exact
import order
from cluster import check, check_counts, check_equal, free_port, main, wait_for
from etcd import Etcd, available
from proxy import Proxy
from standby import KEY, PREFIX, Standbys
from tasks_test import Workers, queue_of, sluice

EPOCHS = 16  # no step is taken where nobody leads
TTL_S = 2


class Cut(Standbys):
    """Each coordinator reaches etcd through proxies of its own."""

    def __enter__(self):
        self.stack, self.links = contextlib.ExitStack(), {}
        for name in self.names:
            self.links[name] = [self.stack.enter_context(self.link(at))
                                for at in self.etcd.clients]
        return super().__enter__()

    def __exit__(self, *error):
        self.stack.close()
        return super().__exit__(*error)

    @staticmethod
    def link(address):
        host, port = address.split(":")
        return Proxy(("127.0.0.1", free_port()), (host, int(port)))

    def endpoints(self, name):
        return ",".join("%s:%d" % link.here for link in self.links[name])


class Run:
    """with Run() as r: an etcd, three coordinators, two psservers, two workers, and
    an exact job that has a cut."""

    def __init__(self, mode="sync", etcd=(), epochs=EPOCHS, ttl_s=TTL_S, kind=Standbys,
                 **options):
        self.mode, self.etcd_args, self.epochs, self.options = mode, etcd, epochs, options
        self.make = functools.partial(kind, ttl=f"{ttl_s}s")

    def __enter__(self):
        self.etcd = Etcd(args=self.etcd_args).__enter__()
        try:
            self.c = self.make(self.etcd, **self.options).__enter__()
        except BaseException as error:
            self.etcd.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(self, *error):
        try:
            self.c.__exit__(*error)
        finally:
            self.etcd.__exit__(*error)
        return False

    def begin(self):
        self.job = self.c.submit(exact.exact_job(self.c, "standby", self.epochs, self.mode,
                                                every_seconds=0.2))
        self.on()
        wait_for("a cut", lambda: int(self.c.status(self.job)["cuts"]) > 0)

    def on(self, steps=60):
        """So many steps further."""
        now = self.c.status(self.job)
        self.c.wait_steps(self.job, min(int(now["steps_counted"]) + steps,
                                        int(now["steps_asked"])))

    def end(self, leaders):
        check_counts(self.c.wait_state(self.job))
        exact.check_exact(self.c, self.job, self.epochs)
        self.c.check_terms(leaders)


def standbys_say_where_the_leader_is():
    with Run(psservers=1, workers=1) as r:
        leader = r.c.leader()
        for name in r.c.names:
            told = r.c.run("--coordinator", r.c.places[r.c.index(name)], "--timeout", "5s",
                           "status", want=0 if name == leader else 4)
            if name != leader:
                at = r.c.places[r.c.index(leader)]
                check(f"standby of {at} (" in told.stderr, "it names the leader", told.stderr)
        value, lease = r.etcd.get(KEY), r.etcd.ctl("lease", "list").split()[-1]
        check(int(value.split()[-1], 16) == int(lease, 16),
              f"the key {value} names the lease {lease}")


def a_leader_that_is_killed_is_followed_by_another():
    with Run() as r:
        r.begin()
        # A crash loses the events that the thread has not written yet, of half a second.
        wait_for("etcd to have the first events", lambda: any(
            b"job-submitted" in base64.b64decode(pair["value"]) for pair in json.loads(
                r.etcd.ctl("get", "--prefix", "-w", "json", f"{PREFIX}/events/")).get("kvs", [])))
        for _ in range(2):
            old = r.c.leader()
            r.c.kill(old)
            r.c.leads(but=old)
            r.c.revive()
            r.on()
        r.end(leaders=3)
        kinds = [json.loads(line)["kind"] for line in r.c.run(
            "events", r.job, "-o", "jsonl").stdout.splitlines()]
        check("job-submitted" in kinds, "events of the first leader", kinds)


def after_kill_9_its_unit_gives_up_the_lease():
    with Run() as r:
        r.begin()
        old = r.c.leader()
        before = r.etcd.revisions(KEY)
        r.c.kill(old)
        r.c.resign(old)
        check(r.etcd.revisions(KEY) != before, "the key is gone, or another's")
        r.c.leads(but=old)
        r.c.resign(old)  # once more does nothing
        r.c.revive()
        r.end(leaders=2)


def a_live_leader_is_not_made_to_resign():
    with Run(psservers=1, workers=1) as r:
        old = r.c.leader()
        before = r.etcd.revisions(KEY)
        r.c.resign(old, want=2)
        check_equal(r.etcd.revisions(KEY), before, "the key")
        check_equal(r.c.leads(), old, "the leader")


def one_that_stands_still_past_its_lease_ends():
    """SIGSTOP: it believes that it leads until it wakes up."""
    with Run() as r:
        r.begin()
        old = r.c.leader()
        r.c.pause(old)
        r.c.leads(but=old)
        r.on()
        r.c.resume(old)
        check_equal(r.c.ended(old), 1, f"the exit of {old}")
        r.c.revive()
        r.end(leaders=2)


def one_whose_lease_is_revoked_ends():
    with Run() as r:
        r.begin()
        old = r.c.leader()
        r.etcd.ctl("lease", "revoke", r.etcd.get(KEY).split()[2])
        check_equal(r.c.ended(old), 1, f"the exit of {old}")
        r.c.leads(but=old)
        r.c.revive()
        r.end(leaders=2)


def one_that_is_stopped_hands_over():
    with Run() as r:
        r.begin()
        old = r.c.leader()
        check_equal(r.c.kill(old, signal.SIGTERM), -signal.SIGTERM, f"the exit of {old}")
        check(r.etcd.get(KEY) is None or r.c.leader() != old, "it has given up the key")
        r.c.leads(but=old)
        r.c.revive()
        r.end(leaders=2)


def the_leader_of_etcd_dies():
    """A new one is elected within the lease, or after it; then the lease begins anew, or
    is over: whichever coordinator leads goes on."""
    with Run(epochs=2 * EPOCHS) as r:
        r.begin()
        first = r.etcd.leader()
        r.etcd.kill(first)
        r.on()
        r.etcd.start(first)
        r.c.revive()
        r.etcd.kill(r.etcd.leader())
        old = r.c.leader()
        if old in r.c.processes:
            r.c.kill(old)
        r.c.leads(but=old)
        r.c.revive()
        r.end(leaders=2)


def without_etcd_nobody_leads_and_then_somebody_does():
    with Run() as r:
        r.begin()
        old = r.c.leader()
        for i in (0, 1):
            r.etcd.pause(i)
        check_equal(r.c.ended(old), 1, f"the exit of {old}")
        for i in (0, 1):
            r.etcd.resume(i)
        r.c.revive()
        r.c.leads()
        r.end(leaders=2)


def one_that_is_cut_off_from_etcd_ends_before_another_leads():
    """By its own clock, which gives up a tenth of the lease (H4); or before, because a
    commit of its journal got no answer."""
    with Run(kind=Cut, ttl_s=15) as r:
        r.begin()
        old = r.c.leader()
        for link in r.c.links[old]:
            link.stall()
        check_equal(r.c.ended(old), 1, f"the exit of {old}")
        new = r.c.leads(but=old)
        check(r.c.said(old, "") < r.c.said(new, "this coordinator leads"),
              "its last word came before", r.c.log(old)[-500:], r.c.log(new)[-500:])
        for link in r.c.links[old]:
            link.heal()
        r.c.revive()
        r.end(leaders=2)


def a_full_etcd_is_waited_for():
    """The leader keeps its lease, and serves again when there is space."""
    with Run(etcd=("--quota-backend-bytes", str(6 << 20)), epochs=2 * EPOCHS) as r:
        def put():
            return r.etcd.ask("put", key="junk", value="x" * (1 << 20)) is not None
        old = r.c.leader()
        check(put() and put(), "there is space")
        r.begin()
        while put():
            pass
        wait_for("a coordinator without space", lambda: "no space for the journal" in r.c.log(old))
        told = r.c.run("--coordinator", r.c.places[r.c.index(old)], "--timeout", "5s", "jobs",
                       want=4)
        check("no space left" in told.stderr, "it says why it does not serve", told.stderr)
        check_equal(r.c.leader(), old, "the leader")
        r.etcd.ctl("compact", r.etcd.status(0)["header"]["revision"])
        for i in range(3):
            r.etcd.ctl("defrag", only=i)
        r.etcd.ctl("alarm", "disarm")
        check_equal(r.c.leads(), old, "the leader")
        r.end(leaders=1)


class Telling(Standbys):
    """Its coordinators log the leases that they send."""

    def command(self, name):
        return super().command(name) + (
            ["--log-level", "debug"] if name in self.names else [])


def at_no_time_two_lead():
    """What etcd and the logs have of a failover holds, and what was written beside a
    leadership is found."""
    with Run(kind=Telling, psservers=1, workers=1) as r:
        told = order.Told({name: r.c.dir / f"{name}.log" for name in r.c.names})
        r.begin()
        old = r.c.leader()
        r.c.kill(old)
        r.c.leads(but=old)
        r.on()
        for name in set(r.c.names) - {old}:
            r.c.kill(name)
        wait_for("the last lease to end", lambda: r.etcd.get(KEY) is None)
        wrong, figures = order.judge(order.changes(r.etcd, PREFIX), told)
        check_equal((wrong, figures["terms"]), ([], 2), "what is judged of it")
        check(figures["records"] > 2 and min(told.sent.values()) > 0, "it was seen", figures)

        r.etcd.put(f"{PREFIX}/log/{1 << 40:016x}", "x")
        for value in ("a b 1", "a b 2"):
            r.etcd.put(KEY, value)
        r.etcd.put(f"{PREFIX}/log/{1 << 41:016x}", "x")
        told.last[told.terms[0][1]].extend([told.terms[1][0] + "1", told.terms[1][0] + "2"])
        wrong = " ".join(order.judge(order.changes(r.etcd, PREFIX), told)[0])
        for text in ("no coordinator led", "was chosen while", f"record {1 << 41} of",
                     "another record than its term", f"{old} sent leases of term"):
            check(text in wrong, f"'{text}' is found", wrong)


class Handlers(Workers):
    """Workers of tasks; each task of `once` writes its name when it runs."""

    def runs(self):
        path = self.c.dir / "runs"
        return path.read_text().split() if path.exists() else []


def tasks_of(queue):
    """How many of a queue's tasks are to be done, and how many are. A worker may hold some
    beside the one that runs."""
    pending, leased, done = (int(queue.get(key, 0)) for key in ("pending", "leased", "done"))
    return pending + leased, done


def tasks_outlive_the_host_of_the_leader():
    """Some are done and not fetched, one runs, others wait: the next leader has them all,
    and the one that runs is its worker's, who goes on with it. Each runs once."""
    with Etcd() as etcd, Standbys(etcd, ttl=f"{TTL_S}s", psservers=0, workers=0) as c, \
            Handlers(c, 1) as handlers, \
            sluice.Coordinator(c.address, queue="q", client="ada") as coord:
        done = [coord.schedule("once", f"{c.dir}/runs a{n}".encode()) for n in range(20)]
        wait_for("some to end", lambda: len(handlers.runs()) == 20)
        runs = coord.schedule("until", f"{c.dir}/go".encode())
        wait_for("one to run", lambda: int(queue_of(c, "q").get("leased", 0)) == 1)
        wait = [coord.schedule("once", f"{c.dir}/runs b{n}".encode()) for n in range(20)]
        wait_for("all to be accepted", lambda: tasks_of(queue_of(c, "q")) == (21, 20))
        old = c.leader()
        c.kill(old)
        shutil.rmtree(c.dir / old)  # with its host
        c.leads(but=old)
        check_equal(tasks_of(queue_of(c, "q")), (21, 20), "the queue of the next leader")
        (c.dir / "go").write_text("")
        check_equal(runs.fetch(60), b"late", "the result of the task that ran")
        check_equal([f.fetch(60) for f in done + wait], [b"done"] * 40, "the other results")
        check_equal(sorted(handlers.runs()), sorted(
            [f"a{n}" for n in range(20)] + [f"b{n}" for n in range(20)]), "what has run")


def whichever_leader_dies_each_task_ends_once():
    """Scheduled while leaders are killed, and workers. A queue that is deleted stays so."""
    draw = random.Random(7)
    with Etcd() as etcd, Standbys(etcd, ttl=f"{TTL_S}s", psservers=0, workers=0) as c, \
            Workers(c, 2) as workers, \
            sluice.Coordinator(c.address, queue="numbers", limit=4000) as coord:
        with sluice.Coordinator(c.address, queue="gone") as other:
            other.schedule("square", b"1").fetch(60)
        c.run("tasks", "--delete", "gone")
        futures = []
        for i in range(4):
            futures += [coord.schedule(draw.choice(["square", "tired"]), b"%d" % n)
                        for n in range(len(futures), len(futures) + 300)]
            seen = sum(f.done() for f in futures)
            wait_for("some to end", lambda seen=seen: sum(f.done() for f in futures) > seen + 50)
            old = c.leads()
            c.kill(old)
            if i % 2:
                workers.replace(0)
            c.leads(but=old)
            c.revive()
        coord.join(120)
        check([f.fetch() for f in futures] == [b"%d" % (n * n) for n in range(len(futures))],
              "not every result is its task's")
        check(not coord._early and not coord._futures, "something ended twice")
        check(not queue_of(c, "gone"), "a deleted queue came back")


if __name__ == "__main__":
    if not available():
        print("no etcd is installed")
        sys.exit(77)
    main([standbys_say_where_the_leader_is,
          a_leader_that_is_killed_is_followed_by_another,
          after_kill_9_its_unit_gives_up_the_lease,
          a_live_leader_is_not_made_to_resign,
          one_that_stands_still_past_its_lease_ends,
          one_whose_lease_is_revoked_ends,
          one_that_is_stopped_hands_over,
          the_leader_of_etcd_dies,
          without_etcd_nobody_leads_and_then_somebody_does,
          one_that_is_cut_off_from_etcd_ends_before_another_leads,
          a_full_etcd_is_waited_for,
          at_no_time_two_lead,
          tasks_outlive_the_host_of_the_leader,
          whichever_leader_dies_each_task_ends_once])
