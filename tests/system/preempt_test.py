#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A machine that is about to be taken away says so, and nothing is done twice.

The clouds' services are imds.py; nobody is killed. SLUICE_TIMES=100 drains and
kills so many workers in the last test (5 without it) and prints what they cost.
"""
import os
import signal

from cluster import LONG_LEASE, Cluster, check, check_counts, check_equal, main, mlp_job, wait_for
from imds import Clouds

TIMES = int(os.environ.get("SLUICE_TIMES", 5))


class Lasting(Cluster):
    """None of its workers is lost but by a kill."""

    def __init__(self, **counts):
        super().__init__(coordinator_args=LONG_LEASE, **counts)


def long_job(name, epochs=200, **train):
    return mlp_job(name, samples=6400, epochs=epochs,
                   **{"steps_per_closure": 10, **train})


def wait_training(c, job):
    c.wait_steps(job, c.steps(job) + 20)


def wait_ended(c, name):
    """The exit status of a process that ends by itself."""
    process = c.processes.pop(name)
    try:
        wait_for(f"{name} to end", lambda: process.poll() is not None)
    except BaseException:
        process.kill()
        raise
    return process.returncode


def says(c, name, text):
    wait_for(f"{name} to say '{text}'", lambda: text in c.log(name))


def drained_by(c, job, give, want):
    """w-0 hears a notice; whoever hears none goes on."""
    wait_for("w-0 to have work", lambda: has_work(c, "w-0"))
    wait_training(c, job)
    retried = int(c.status(job)["closures_retried"])
    give()
    check_equal(wait_ended(c, "w-0"), 143, "exit status")
    check(want in c.log("w-0"), f"no '{want}' in the log", c.log("w-0"))
    wait_training(c, job)
    check_equal(int(c.status(job)["closures_retried"]), retried, "closures retried")


def worker(c, source, **environment):
    c.start("w-0", extra=["--preempt-source", source], environment=environment)


def a_file_or_a_command_is_a_notice():
    with Lasting(psservers=1, workers=0) as c:
        c.start("w-1")
        job = c.submit(long_job("file"))
        worker(c, f"file:{c.dir}/going,exec:exit 3")
        drained_by(c, job, (c.dir / "going").touch, f"{c.dir}/going is there")
        worker(c, f"exec:test -e {c.dir}/a,b -o -e {c.dir}/gone")
        drained_by(c, job, (c.dir / "gone").touch, "says so")
        worker(c, "exec:nosuchcommand")
        says(c, "w-0", "notice command cannot be run")
        c.run("stop", job)


def aws_says_it_with_a_token_that_gets_old():
    with Clouds() as clouds, Lasting(psservers=1, workers=0) as c:
        c.start("w-1")
        job = c.submit(long_job("aws"))
        worker(c, "auto", AWS_EC2_METADATA_SERVICE_ENDPOINT=clouds.url)
        wait_for("a look", lambda: any("instance-action" in path
                                       for _, path in clouds.asked))
        clouds.forget_tokens()
        drained_by(c, job, lambda: clouds.set("aws", {
            "action": "terminate", "time": "2026-11-25T08:22:00Z"}),
            "AWS will terminate this instance at 2026-11-25T08:22:00Z")
        check(len([a for a in clouds.asked if a[0] == "PUT"]) >= 2, clouds.asked)
        c.run("stop", job)


def google_cloud_answers_when_something_changes():
    with Clouds() as clouds, Lasting(psservers=1, workers=0) as c:
        c.start("w-1")
        job = c.submit(long_job("gcp"))
        worker(c, "gcp", GCE_METADATA_HOST=clouds.address)
        drained_by(c, job, lambda: clouds.set("preempted", "TRUE"), "preempted: TRUE")
        clouds.set("preempted", "FALSE")
        worker(c, "auto", GCE_METADATA_IP=clouds.address)
        drained_by(c, job, lambda: clouds.set("maintenance-event",
                                              "TERMINATE_ON_HOST_MAINTENANCE"),
                   "maintenance-event: TERMINATE_ON_HOST_MAINTENANCE")
        c.run("stop", job)


def event(ident, *machines, kind="Preempt"):
    return {"EventId": ident, "EventType": kind, "Resources": list(machines),
            "ResourceType": "VirtualMachine", "EventStatus": "Scheduled",
            "NotBefore": "Wed, 25 Nov 2026 08:22:00 GMT"}


def azure_is_answered_after_the_drain_if_the_event_is_ours_alone():
    with Clouds(name="vm-0", slow_s=1.5) as clouds, \
            Lasting(psservers=1, workers=0) as c:
        c.start("w-1")
        job = c.submit(long_job("azure"))
        source = ["azure", f"--azure-imds-endpoint={clouds.url}"]

        def start():
            c.start("w-0", extra=["--preempt-source", *source])

        clouds.set("events", [event("of-another", "vm-1"),
                              event("no-harm", "vm-0", kind="Freeze")])
        start()
        wait_for("a second look", lambda: clouds.asked.count(
            ("GET", "/metadata/scheduledevents")) >= 2)
        drained_by(c, job, lambda: clouds.set("events", [event("of-two", "vm-0", "vm-1")]),
                   "Azure: Preempt of this machine")
        check_equal(clouds.answered, [], "events answered")
        clouds.set("events", [])
        start()
        drained_by(c, job, lambda: clouds.set("events", [event("ours", "vm-0")]),
                   "told Azure that it may take this machine")
        check_equal(clouds.answered, ["ours"], "events answered")
        log = c.log("w-0")
        check(log.rindex("draining") < log.rindex("told Azure"), log)
        c.run("stop", job)


def a_notice_that_is_withdrawn_ends_the_drain():
    """Its step lasts, since a psserver stands still."""
    with Lasting(psservers=1, workers=0) as c:
        worker(c, f"file:{c.dir}/going")
        job = c.submit(long_job("stays", epochs=12))
        wait_training(c, job)
        c.pause("ps-0")
        (c.dir / "going").touch()
        says(c, "w-0", "this machine will be taken away; draining")
        wait_for("the coordinator to hear it",
                 lambda: any(m["state"] == "draining"
                             for m in c.cluster_status()["members"]))
        (c.dir / "going").unlink()
        says(c, "w-0", "notice withdrawn")
        c.resume("ps-0")
        check_counts(c.wait_state(job))
        check(c.processes["w-0"].poll() is None, "it ended all the same")


def one_that_is_started_again_waits_until_the_notice_is_withdrawn():
    with Lasting(psservers=1, workers=0) as c:
        (c.dir / "going").touch()
        worker(c, f"file:{c.dir}/going")
        says(c, "w-0", "this machine will be taken away; not attending")
        job = c.submit(long_job("later", epochs=2))
        check(not any(m["name"] == "w-0" for m in c.cluster_status()["members"]),
              "it attends")
        (c.dir / "going").unlink()
        check_counts(c.wait_state(job))


def nobody_there_is_no_notice():
    with Lasting(psservers=1, workers=0) as c:
        worker(c, "aws,gcp,azure", AWS_EC2_METADATA_SERVICE_ENDPOINT="http://127.0.0.1:9",
               GCE_METADATA_HOST="127.0.0.1:9")
        job = c.submit(long_job("alone", epochs=4))
        says(c, "w-0", "notice source does not answer; asking again")
        check_counts(c.wait_state(job))
        check_equal(c.kill("w-0", signal.SIGTERM), -signal.SIGTERM, "exit status")


def a_psserver_moves_its_shards_away_and_goes():
    """And stays if the notice is withdrawn before they have gone. The worker stands still
    meanwhile: what trains while shards move is for move_test.py."""
    notice = ["--grace", "60s", "--preempt-source"]
    with Lasting(psservers=1, workers=1) as c:
        c.start("ps-1", extra=[*notice, f"file:{c.dir}/going"])
        job = c.submit({**long_job("leaves"), "placement": {"shard_bytes": 1 << 16}})

        def lies():
            return {s["psserver"] for s in c.status(job)["shards"]}

        wait_training(c, job)
        c.pause("w-0")
        check_equal(lies(), {"ps-0", "ps-1"}, "where shards lie")
        c.pause("ps-0")  # nothing can move there
        (c.dir / "going").touch()
        says(c, "ps-1", "this machine will be taken away; draining")
        (c.dir / "going").unlink()
        says(c, "ps-1", "notice withdrawn; this machine stays")
        c.resume("ps-0")
        (c.dir / "going").touch()
        check_equal(wait_ended(c, "ps-1"), 143, "exit status")
        check_equal(lies(), {"ps-0"}, "where shards lie")
        c.start("ps-1", extra=[*notice, f"file:{c.dir}/going"])
        check_equal(wait_ended(c, "ps-1"), 143, "exit status of one that has nothing")
        c.resume("w-0")
        wait_training(c, job)
        c.run("stop", job)


def a_source_that_nobody_knows_is_refused():
    with Lasting(psservers=0, workers=0) as c:
        for source, text in (("asw", "no source of notices is called asw; there are:"),
                             ("file:", "write file:PATH or exec:COMMAND"),
                             ("aws:x", "write aws")):
            process = c.start("w-0", extra=["--preempt-source", source], wait=False)
            check_equal(wait_ended(c, "w-0"), 2, f"exit status with {source}")
            check(text in c.log("w-0"), f"{source}: no '{text}'", process)


def has_work(c, name):
    return any(m["name"] == name and int(m["leases"]) > 0
               for m in c.cluster_status()["members"])


def cost_of(c, job, end, lost):
    """How many closures are retried because w-0 is ended while it has work."""
    wait_for("w-0 to have work", lambda: has_work(c, "w-0"))
    before = int(c.status(job)["closures_retried"])
    end()
    wait_for("the coordinator to miss who was killed, and nobody else",
             lambda: int(c.status(job)["workers_lost"]) == lost)
    wait_training(c, job)
    return int(c.status(job)["closures_retried"]) - before


def a_drained_worker_costs_nothing_and_a_killed_one_its_closure():
    drained, killed = [], []
    with Lasting(psservers=1, workers=0) as c:
        c.start("w-1")
        job = c.submit(long_job("counts", epochs=20000))
        for i in range(TIMES):
            notice = c.dir / f"going-{i}"

            def drain(notice=notice):
                notice.touch()
                check_equal(wait_ended(c, "w-0"), 143, "exit status")

            worker(c, f"file:{notice}")
            drained.append(cost_of(c, job, drain, lost=i))
            check_equal(drained[-1], 0, f"closures retried by drain {i + 1}")
            worker(c, f"file:{notice}-never")
            killed.append(cost_of(c, job, lambda: c.kill("w-0"), lost=i + 1))
            check(killed[-1] <= 1, f"kill {i + 1} retried {killed[-1]} closures")
        c.run("stop", job)
    print(f"{len(drained)} drained: {sum(drained)} closures retried; "
          f"{len(killed)} killed: {sum(killed)}, at most {max(killed)} each")


if __name__ == "__main__":
    main([a_file_or_a_command_is_a_notice, aws_says_it_with_a_token_that_gets_old,
          google_cloud_answers_when_something_changes,
          azure_is_answered_after_the_drain_if_the_event_is_ours_alone,
          a_notice_that_is_withdrawn_ends_the_drain,
          one_that_is_started_again_waits_until_the_notice_is_withdrawn,
          nobody_there_is_no_notice,
          a_psserver_moves_its_shards_away_and_goes,
          a_source_that_nobody_knows_is_refused,
          a_drained_worker_costs_nothing_and_a_killed_one_its_closure])
