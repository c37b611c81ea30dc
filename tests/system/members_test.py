#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who is there, and who is given nothing more: workers, servers, drain and
undrain, in each form of output."""
import contextlib
import json
import re
import shutil
import signal
import socket
import sqlite3

from cluster import (LONG_LEASE, Cluster, check, check_counts, check_equal, main, mlp_job,
                     wait_for)
from member import Member, Played


def lines(c, *words):
    return c.run(*words).stdout.splitlines()


def member(c, verb, name):
    found = [m for m in c.json(verb)["members"] if m["name"] == name]
    return found[0] if found else None


def still(member):
    """What is the same when it is asked for again."""
    moving = ("heartbeat_age_ms", "attached_seconds", "resident_bytes", "usage")
    return {key: value for key, value in member.items() if key not in moving}


def every_list_has_each_form(c, job):
    """Verb -> what -o name prints, the member of JSON that lists, and a column that
    only -o wide has; of these another verb takes the name."""
    manifest = c.status(job)["checkpoint"]
    for words, names, member, wide in (
            (["jobs"], [job], "jobs", "reason"),
            (["status"], ["ps-0", "w-0", "w-1"], "members", "pid"),
            (["status", job], [job], None, "known"),
            (["status", job, "--shards"], [job], "shards", "known"),
            (["checkpoints", job], [manifest], "checkpoints", "psservers"),
            (["events", job], None, "events", None),
            (["quota"], ["-"], "tenants", None)):
        told = sorted(lines(c, *words, "-o", "name"))
        whole = c.json(*words)
        each = [json.loads(line) for line in lines(c, *words, "-o", "jsonl")]
        if member is None:
            check_equal(each, [whole], f"{words}: a line of JSON")
        else:
            check_equal([still(one) for one in each],
                        [still({"schema_version": 1, **one}) for one in whole[member]],
                        f"{words}: lines of JSON")
        if member == "events":
            names = sorted(str(e["id"]) for e in whole[member])
        check_equal(told[-1:] if member == "checkpoints" else told, names,
                    f"{words}: names")
        if wide:
            heads = [line.split() for line in lines(c, *words, "-o", "wide")]
            check(any(wide in head for head in heads), f"{words}: no column {wide}", heads)
            heads = [line.split() for line in lines(c, *words)]
            check(not any(wide in head for head in heads), f"{words}: {wide}", heads)
    first = lines(c, "events", "-o", "name")[0]
    check_equal(lines(c, "events", "-o", "name", "--after", first),
                lines(c, "events", "-o", "name")[1:], "events after the first")
    check(f"({first}, info" in lines(c, "events", "-o", "wide")[0], "a wide event")
    done = c.run("tasks", "-o", "name")
    check_equal((done.stdout, done.stderr), ("", ""), "names of no queues")


def members_are_listed_in_each_form():
    with Cluster(psservers=1, workers=2) as c:
        check_equal(sorted(lines(c, "workers", "-o", "name")), ["w-0", "w-1"], "names")
        check_equal(lines(c, "servers", "-o", "name"), ["ps-0"], "names")
        each = [json.loads(line) for line in lines(c, "workers", "-o", "jsonl")]
        check_equal({m["role"] for m in each}, {"worker"}, "roles")
        check_equal([m["schema_version"] for m in each], [1, 1], "versions")
        head, *rows = lines(c, "workers")
        check_equal(head.split(), ["name", "state", "leases", "host", "device"], "head")
        check_equal(len(rows), 2, "rows")
        check("version" in lines(c, "servers", "-o", "wide")[0], "no wide column")
        done = c.run("down", "-o", "name", want=2)
        check("it has no names to print" in done.stderr, done.stderr)

        job = c.submit(mlp_job("named", samples=640, epochs=1))
        check_equal(lines(c, "jobs", "-o", "name"), [job], "names of jobs")
        c.wait_state(job)
        every_list_has_each_form(c, job)


def a_drained_worker_can_be_stopped_and_nothing_is_done_again():
    with Cluster(psservers=1, workers=2, coordinator_args=LONG_LEASE) as c:
        job = c.submit(mlp_job("drained", samples=6400, epochs=400, steps_per_closure=10))
        c.wait_steps(job, 40)
        done = c.run("drain", "w-0", "--why", "a new disk")
        check("worker w-0 is drained: it finishes its step" in done.stderr, done.stderr)
        check("is drained already" in c.run("drain", "w-0", "--why", "a new disk").stderr,
              "it does not say that it was")
        wait_for("w-0 to hold nothing", lambda: member(c, "workers", "w-0")["leases"] == 0)
        seen = member(c, "workers", "w-0")
        check_equal(seen["state"], "draining", "state")
        check_equal(seen["drained_why"], "a new disk", "why")
        check("`sluice undrain w-0` takes it back" in seen["reason"], seen)

        # The name is drained, over restarts; the others go on, and lose nothing.
        c.restart("w-0")
        c.restart("coordinator")
        c.wait_steps(job, c.steps(job) + 60)
        wait_for("w-0 to be back", lambda: member(c, "workers", "w-0"))
        check_equal(member(c, "workers", "w-0")["leases"], 0, "leases after restarts")
        check_equal(int(c.status(job)["closures_retried"]), 0, "closures retried")

        c.run("undrain", "w-0")
        wait_for("w-0 to be given work", lambda: member(c, "workers", "w-0")["leases"])
        told = [json.loads(line)["kind"] for line in lines(c, "events", "-o", "jsonl")
                if '"member":"w-0"' in line]
        check("member-drains" in told and "member-stays" in told, told)
        done = c.run("drain", "w-9", want=3)
        check("no worker or psserver 'w-9' is attached" in done.stderr, done.stderr)
        c.run("stop", job, "--now")


def psservers_say_how_much_they_do():
    with Cluster(psservers=2, workers=1) as c:
        job = c.submit(mlp_job("load", samples=6400, epochs=400, steps_per_closure=10))
        c.wait_steps(job, 10)

        def pushes(name):
            return member(c, "servers", name).get("usage", {}).get("pushes_per_second")
        for name in ("ps-0", "ps-1"):
            wait_for(f"pushes to {name}", lambda name=name: pushes(name))
        c.run("stop", job, "--now")
        for name in ("ps-0", "ps-1"):
            wait_for(f"{name} to be idle", lambda name=name: pushes(name) == 0)
        head, *rows = lines(c, "servers")
        end = head.index("pushes/s") + len("pushes/s")
        check_equal([row[:end].split()[-1] for row in rows], ["0", "0"], "of idle psservers")


def a_lost_worker_is_told_until_its_name_comes_again():
    with Cluster(psservers=0, workers=2) as c:
        wait_for("both to attend", lambda: len(c.json("workers")["members"]) == 2)
        c.kill("w-1")
        wait_for("it to be missed", lambda: member(c, "workers", "w-1")["state"] == "lost")
        seen = member(c, "workers", "w-1")
        check_equal((seen["reason"], seen["host"]), ("its connection ended", socket.gethostname()),
                    "how it was lost")
        wait_for("the other to be ready", lambda: member(c, "workers", "w-0")["state"] == "ready")
        check(re.search(r"^w-1: lost \S+ ago: its connection ended$",
                        c.run("workers").stdout, re.M), c.run("workers").stdout)
        check("lost lately: 1 worker " in c.run("doctor", want=None).stdout, "doctor")
        c.kill("w-0", signal.SIGTERM)  # who leaves is not lost
        wait_for("w-0 to have left", lambda: member(c, "workers", "w-0") is None)
        c.start("w-1")
        wait_for("w-1 to be back", lambda: member(c, "workers", "w-1")["state"] == "ready")
        check_equal(len(c.json("workers")["members"]), 1, "workers")


def a_psserver_is_lost_for_good_and_jobs_go_on():
    """The two ways of deploy/RUNBOOK.md, where the store is shared."""
    with Cluster(psservers=2, workers=1) as c:
        spec = mlp_job("orphan", samples=3200, epochs=30, steps_per_closure=10)
        job = c.submit(spec)
        c.wait_steps(job, 110)  # beyond the checkpoint of the first epoch
        wait_for("a checkpoint", lambda: int(c.status(job)["cuts"]))
        c.kill("ps-1")
        shutil.rmtree(c.dir / "ps-1")
        wait_for("it to be missed", lambda: (member(c, "servers", "ps-1") or {}).get(
            "state") == "lost")
        check("shards-down" in c.run("events", job).stdout, "it is not told")
        here = socket.gethostname()
        seen = member(c, "servers", "ps-1")
        check_equal((seen["host"], seen["shards"] > 0, seen["reason"]),
                    (here, True, "its connection ended"), "what is lost")
        found = c.run("doctor", want=None).stdout
        check(f"lost: psserver ps-1 of host {here}, " in found and
              f"start it again on {here} under this name" in found, found)

        # Another one, empty, under its name: it takes the files of the checkpoint.
        c.start("ps-1")
        c.wait_steps(job, c.steps(job) + 10)
        told = c.run("events", job).stdout
        check("is served by ps-1 again, with" in told, told)

        # Or under another name: the job ends, and a new one goes on from its
        # checkpoint, which was taken in the midst of training, with as many.
        c.kill("ps-1")
        c.run("stop", job, "--now")
        c.start("ps-2")
        cuts = c.json("checkpoints", job)["checkpoints"]
        more = c.submit(spec, "--set", "name=heir", "--resume", job)
        status = c.wait_state(more)
        check_equal(int(status["resumed_steps"]), int(cuts[-1]["steps"]), "resumed at")
        check_equal({s["psserver"] for s in status["shards"]}, {"ps-0", "ps-2"},
                    "where it lies")


def tainted_work(worker, job):
    """A TaintedWork: 30 steps of closures 4, 5 and 9 since closure 2, after checkpoint 1."""
    def text(field, value):
        return bytes([field << 3 | 2, len(value)]) + value
    numbers = {3: 1, 4: 2, 5: 1, 6: 3, 7: 30}
    return (text(1, worker.encode()) + text(2, job.encode())
            + b"".join(bytes([field << 3, n]) for field, n in numbers.items())
            + b"".join(text(8, bytes([8, first, 16, last])) for first, last in ((4, 5), (9, 9))))


def a_suspect_is_listed_and_forgiven():
    """A4: which worker an audit found wrong is in the journal; nobody drained it."""
    why = "its gradient of closure 7 of j-1 is wrong"
    with Cluster(psservers=1, workers=2) as c:
        first = c.submit(mlp_job("with-it", epochs=1))
        c.wait_state(first)
        check_equal(c.run("workers", "--suspect", "-o", "name").stdout, "", "nobody")
        c.kill("coordinator")
        journal = c.dir / "coordinator" / "journal.sqlite"
        with contextlib.closing(sqlite3.connect(journal)) as db, db:
            db.execute("INSERT INTO drains(role, name, who, why) VALUES(0, 'w-1', '', ?)", (why,))
            db.execute("INSERT INTO tainted(name, job, work) VALUES('w-1', 1, ?)",
                       (tainted_work("w-1", first),))
        c.start("coordinator")
        wait_for("both workers", lambda: member(c, "workers", "w-0") and member(c, "workers", "w-1"))
        check_equal(c.run("workers", "--suspect", "-o", "name").stdout, "w-1\n", "suspects")
        seen = member(c, "workers", "w-1")
        check_equal((seen["suspect"], seen["drained_by"], seen["drained_why"]),
                    (True, "", why), "the suspect")
        check(f"suspect: {why}; `sluice undrain w-1` takes it back" in seen["reason"], seen)
        check_equal([(t["job"], int(t["closures"]), int(t["steps"]), int(t["cut"]))
                     for t in seen["tainted"]], [(first, 3, 30, 1)], "what it contributed")
        told = f"w-1: 30 steps of 3 closures of {first} are in doubt, 4-5, 9; checkpoint 1 is "
        for verb in (["workers", "--suspect"], ["checkpoints", first]):
            check(told in c.run(*verb).stdout, f"{verb} does not tell what is in doubt")
        check_counts(c.wait_state(c.submit(mlp_job("without-it", epochs=1))))
        check_equal(int(member(c, "workers", "w-1")["leases"]), 0, "its leases")
        c.run("undrain", "w-1")
        check_equal(c.run("workers", "--suspect", "-o", "name").stdout, "", "forgiven")
        check("in doubt" not in c.run("checkpoints", first).stdout, "it is in doubt for ever")


def a_worker_that_joins_with_a_wrong_vector_is_suspect():
    """A7: w-0 is a real worker; m-1 and m-2 are played, of other hosts and certificates."""
    def suspects():
        return c.run("workers", "--suspect", "-o", "name").stdout.split()

    with Played([("worker", "m-1"), ("worker", "m-2")], psservers=0, workers=1) as c:
        wait_for("w-0", lambda: member(c, "workers", "w-0"))
        seen = member(c, "workers", "w-0")
        kind, right = (int(seen[key], 16) for key in ("test_kind", "test_vector"))
        check(kind and f'"vector":"{right:016x}"' in c.log("w-0"), "its log", c.log("w-0"))
        with Member(c, "m-2", who="worker-m-2", process=7, test_kind=kind,
                    test_vector=right ^ 1) as liar:
            check(liar.wait(lambda: liar.find("welcome")), "m-2", liar.ended)
            check("audit-differs" in c.run("events").stdout, c.run("events").stdout)
            check_equal(suspects(), [], "one word against another")
            with Member(c, "m-1", who="worker-m-1", test_kind=kind, test_vector=right) as third:
                check(third.wait(lambda: third.find("welcome")), "m-1", third.ended)
                check_equal(suspects(), ["m-2"], "two against one")
                why = member(c, "workers", "m-2")["drained_why"]
                check(f"its test vector is {right ^ 1:016x}" in why and "m-1" in why and
                      "w-0" in why, why)
                c.run("undrain", "m-2")
        with Member(c, "m-2", who="worker-m-2", process=7, test_kind=kind,
                    test_vector=right ^ 1) as liar:
            check(liar.wait(lambda: liar.find("welcome")), "m-2", liar.ended)
            check_equal(suspects(), [], "it was forgiven")


if __name__ == "__main__":
    main([members_are_listed_in_each_form,
          a_suspect_is_listed_and_forgiven,
          a_worker_that_joins_with_a_wrong_vector_is_suspect,
          a_drained_worker_can_be_stopped_and_nothing_is_done_again,
          psservers_say_how_much_they_do,
          a_lost_worker_is_told_until_its_name_comes_again,
          a_psserver_is_lost_for_good_and_jobs_go_on])
