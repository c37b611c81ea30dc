#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a member may claim: no more than its role may say, whatever its name."""
from cluster import LONG_LEASE, check, check_equal, main, mlp_job, wait_for
from member import COMMON, COORD, JOBS, JOBS_CALLS, Member, Played, grpc


def report_of(job, shard, counted):
    counts = COMMON.ShardCounts(counted=counted, applied=counted, version=7)
    return COORD.ShardReport(job=int(job[2:]), shard=int(shard["shard"]),
                             incarnation=int(shard["incarnation"]), counts=counts)


def a_worker_reports_no_shards():
    with Played(psservers=1, workers=1) as c:
        job = c.submit(mlp_job("ended", epochs=500))
        c.wait_steps(job, 20)
        c.run("stop", job, "--now")
        c.wait_state(job, "stopped")
        wait_for("the last word of its shards", lambda: "job closed" in c.log("ps-0"))
        before = c.status(job)
        asked = int(before["steps_asked"])
        with Member(c, "ps-0", only_job=999) as m:
            check(m.wait(lambda: m.find("welcome")), "the worker 'ps-0' was not let in", m.ended)
            m.say(heartbeat=COORD.Heartbeat(
                seq=1, shards=[report_of(job, s, asked) for s in before["shards"]] * 20000))
            m.wait(lambda: False)
            check(m.ended and "PERMISSION_DENIED" in m.ended and "may not say 'shards'" in m.ended,
                  "a worker spoke of shards", m.ended)
        check_equal(c.status(job)["steps_counted"], before["steps_counted"],
                    "steps counted of the job that has ended")
        wait_for("a line of it", lambda: "may not say 'shards'" in c.log("coordinator"))


def a_name_is_its_holders_and_its_certificates():
    with Played([("worker", "w-0")], psservers=1, workers=1) as c:
        job = c.submit(mlp_job("honest", epochs=500))
        c.wait_steps(job, 20)
        with Member(c, "w-0", only_job=999) as m:
            check(m.wait(lambda: m.find("welcome")) is None and
                  "worker 'w-0' is attached" in m.ended and "cert issue" in m.ended,
                  "a certificate for any name took one", m.ended)
        check("member replaced" not in c.log("coordinator"), "w-0 was sent away")
        c.wait_steps(job, c.steps(job) + 20)
        c.restart("w-0")  # kill -9
        c.wait_steps(job, c.steps(job) + 20)
        with Member(c, "w-0", who="worker-w-0", only_job=999) as m:
            check(m.wait(lambda: m.find("welcome")), "its own name is refused", m.ended)
            wait_for("w-0 to be told", lambda: "newer process" in c.log("w-0"))
            wait_for("and kept away", lambda: "stream refused" in c.log("coordinator"))
            check(m.ended is None, "it was sent away again", m.ended)


def words_without_end_have_a_part_of_the_time():
    # Whoever misses two heartbeats is called silent: a busy machine may, for some seconds.
    with Played([("psserver", "evil")], psservers=1, workers=1, coordinator_args=[
            *LONG_LEASE, "--heartbeat-ms", "2500"]) as c:
        job = c.submit(mlp_job("honest", epochs=500))
        c.wait_steps(job, 20)
        counts = COMMON.ShardCounts(version=1, counted=7, applied=7)
        report = COORD.ShardReport(job=77, shard=1, incarnation=5, job_uid=7, counts=counts)
        beat = COORD.Heartbeat(seq=1, shards=[report] * 10000)
        with Member(c, "evil", who="psserver-evil", role=2, address="127.0.0.1:1") as m:
            check(m.wait(lambda: m.find("welcome")), "not let in", m.ended)
            for _ in range(400):  # reports of no job
                m.say(heartbeat=beat)
            wait_for("it to be slowed down",
                     lambda: "member sends too much" in c.log("coordinator"), 15)
            c.wait_steps(job, c.steps(job) + 200)
            for silent in ("member is silent", "member lost"):
                check(silent not in c.log("coordinator"), f"{silent}: somebody")


def a_certificate_has_so_many_lines():
    with Played(psservers=0, workers=0) as c:
        jobs = c.calls(JOBS_CALLS.JobsStub, who="worker")
        for _ in range(500):
            try:
                jobs.List(JOBS.ListRequest())
                check(False, "a worker looked at jobs")
            except grpc.RpcError as error:
                check(error.code() == grpc.StatusCode.PERMISSION_DENIED, "another refusal", error)
        said = c.log("coordinator").count("call refused")
        check(0 < said < 50, f"{said} lines of 500 calls")


def a_worker_that_contradicts_itself_is_suspect():
    """A5: a worker computes a step twice, and says that the results differ: by its own
    word it is given nothing more, until it is forgiven."""
    with Played(psservers=1, workers=1) as c:
        job = c.submit(mlp_job("twice", epochs=500, audit=1))
        c.wait_steps(job, 20)
        with Member(c, "wrong") as m:
            m.beat()
            lease = m.wait(lambda: next((at for at in m.leases if at.kind == COORD.LEASE_TRAIN),
                                        None))
            check(lease, "it was leased nothing", m.ended)
            of = {"job": lease.job, "closure": lease.closure, "attempt": lease.attempt,
                  "kind": lease.kind}
            m.say(hand_back=COORD.HandBack(why="two results", repeats=[
                COORD.Repeat(closure=lease.closure, kind=1, inputs=2, output=output)
                for output in (3, 4)], **of))
            wait_for("it to be suspect", lambda: "wrong" in c.run(
                "workers", "--suspect", "-o", "name").stdout.split())
            had = len(m.leases)
            c.wait_steps(job, c.steps(job) + 200)
            check_equal(len(m.leases), had, "leases of a suspect")
            audit = c.status(job)["audit"]
            check_equal((int(audit["differed"]), int(audit["decided"])), (1, 1), "audits")
            check(int(audit["compared"]) > 2, "the other worker computes nothing twice", audit)
            c.run("undrain", "wrong")
            check(m.wait(lambda: len(m.leases) > had), "it was not forgiven", m.ended)


if __name__ == "__main__":
    main([a_worker_reports_no_shards, a_name_is_its_holders_and_its_certificates,
          words_without_end_have_a_part_of_the_time, a_certificate_has_so_many_lines,
          a_worker_that_contradicts_itself_is_suspect])
