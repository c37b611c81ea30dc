#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `sluice events` tells of a cluster in which things go wrong, and what
pictures are made of."""
import concurrent.futures
import json
import signal
import subprocess
import tempfile

import grpc

from asker import dict_of, protocol
from cluster import (BIN, LIMIT, LONG_LEASE, ROOT, Cluster, check, check_equal, main, mlp_job,
                     wait_for)


def events(c, *words):
    told = c.run("events", *words, "-o", "jsonl").stdout
    return [json.loads(line) for line in told.splitlines()]


def kinds(found):
    return [e["kind"] for e in found]


def wait_kind(c, kind, *words):
    """The newest event of a kind, as soon as there is one."""
    def probe():
        found = [e for e in events(c, *words) if e["kind"] == kind]
        return found[-1] if found else None
    return wait_for(f"an event {kind}", probe)


def ask(c, method, **fields):
    """A call of the service Jobs that the command has no verb for."""
    _, services = protocol(str(ROOT / "proto"))
    kind = getattr(grpc.protos("events.proto"), f"{method}Request")
    with grpc.insecure_channel(c.address) as channel:
        stub = services.JobsStub(channel)
        return dict_of(getattr(stub, method)(kind(**fields), timeout=20 * LIMIT))


def text_of(event):
    return event["text"].encode()


def long_job(name):
    return mlp_job(name, samples=6400, epochs=400, steps_per_closure=10)


def who_went_and_what_was_done_again_is_told_over_a_restart():
    with Cluster(psservers=1, workers=2, coordinator_args=LONG_LEASE) as c:
        job = c.submit(long_job("told"))
        c.wait_steps(job, 40)
        reader = subprocess.Popen(
            [BIN / "sluice", "--coordinator", c.address, "events", job, "-f", "-o",
             "jsonl"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        # A worker that is killed: what it ran runs again, and both are said.
        c.kill("w-0")
        lost = wait_kind(c, "member-lost")
        check_equal(lost["member"], "w-0", "who was lost")
        again = wait_kind(c, "closure-retried", job)
        check_equal(again["member"], "w-1", "who has it")
        check("its last attempt was lost" in again["text"], again)
        closure = wait_kind(c, "closure-lost", job)
        check_equal((closure["member"], closure["closure"]),
                    ("w-0", again["closure"]), "what was lost with it")

        # One that drains costs nothing that is done again.
        c.start("w-2")
        c.wait_attached("w-2")
        c.wait_steps(job, c.steps(job) + 40)
        before = kinds(events(c, job)).count("closure-retried")
        c.kill("w-2", signal.SIGTERM)
        check_equal(wait_kind(c, "member-left")["member"], "w-2", "who has left")
        check("member-drains" in kinds(events(c)), "its drain is not told")

        # The file is written soon: then the coordinator may die.
        told = {e["id"]: e for e in events(c)}
        wait_for("the file", lambda: text_of(events(c)[-1]) in
                 (c.dir / "coordinator" / "events.sqlite-wal").read_bytes())
        c.kill("coordinator")
        said = reader.stderr.readline()
        check("is away" in said, f"the reader says '{said}'")
        c.start("coordinator")
        c.wait_steps(job, c.steps(job) + 20)
        found = {e["id"]: e for e in events(c)}
        check_equal({i: found.get(i) for i in told}, told, "what was told before")
        check_equal([i > max(told) for i, e in found.items()
                     if e["kind"] == "coordinator-began"], [False, True],
                    "both starts are told")
        check_equal(kinds(events(c, job)).count("closure-retried"),
                    int(c.status(job)["closures_retried"]), "retries told")
        check_equal(before, int(c.status(job)["closures_retried"]),
                    "a drain or a restart cost a retry")

        # A reader that follows has seen all of it, once and in order.
        c.run("stop", job)
        out, said = reader.communicate(timeout=60 * LIMIT)
        check_equal(reader.returncode, 0, "the reader's exit")
        read = [json.loads(line) for line in out.splitlines()]
        check_equal([e["id"] for e in read], [e["id"] for e in events(c, job)],
                    "what a reader saw")
        check_equal(read[-1]["kind"], "job-stopped", "the end")
        check("is back" in said, f"the reader says '{said}'")

        # As text, and for one who asks for what he has not seen.
        line = c.run("events", job, "--last", "1").stdout
        check(line.rstrip().endswith("told has stopped: stopped by request")
              and "job-stopped" in line and job in line, line)
        check_equal(events(c, job, "--after", str(read[-2]["id"])), [read[-1]], "after")
        check_equal(c.run("events", "j-99", want=3).stdout, "", "of nobody")


class Pages(grpc.GenericRpcHandler):
    """A coordinator that says these pages of events of a job, and no more. It says the
    states one after another, the last of them for ever; without one, the job is gone."""

    def __init__(self, states, *pages):
        messages, _ = protocol(str(ROOT / "proto"))
        self.events = grpc.protos("events.proto")
        self.statuses = [state and messages.JobStatus(job=1, id="j-1", name="played", state=state)
                         for state in states]
        self.pages, self.at = list(pages), 0

    def get(self, _request, context):
        said = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        return said or context.abort(grpc.StatusCode.NOT_FOUND, "no job j-1")

    def watch(self, request, context):
        yield self.get(request, context)

    def page(self, _request, context):
        if not self.pages:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "a page too many")
        reply = self.events.EventsReply()
        for kind in self.pages.pop(0):
            self.at += 1
            reply.events.add(id=self.at, unix_us=self.at, job=1, kind=kind, level="info",
                             text=kind)
        reply.last = self.at
        return reply

    def service(self, details):
        name, text = details.method.split("/")[-1], {
            "response_serializer": lambda m: m.SerializeToString()}
        if name == "Watch":
            return grpc.unary_stream_rpc_method_handler(self.watch, **text)
        answer = {"Events": self.page, "Get": self.get}.get(name)
        return answer and grpc.unary_unary_rpc_method_handler(answer, **text)


def asks(folder, played, *words):
    """What the command says to a coordinator that is played."""
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((played,))
    server.add_insecure_port(f"unix:{folder}/c.sock")
    server.start()
    done = subprocess.run(
        [BIN / "sluice", "--coordinator", f"unix:{folder}/c.sock", *words],
        capture_output=True, text=True, timeout=60 * LIMIT, check=False)
    server.stop(None).wait()
    return done


def a_reader_ends_with_the_job_whatever_else_is_told():
    """A checkpoint that was being written is made after the end of its job; who begins to
    read behind that end is not told of it, nor is anyone if a coordinator was killed with
    the event; and a job may be deleted, with its events, before it is told."""
    messages, _ = protocol(str(ROOT / "proto"))
    runs, ended, gone = (messages.JOB_RUNNING,), (messages.JOB_RUNNING, messages.JOB_FAILED), None
    with tempfile.TemporaryDirectory() as folder:
        for states, pages in ((runs, (["job-runs"], ["job-stopped", "cut-made"])),
                              (runs, (["job-runs"], ["cut-made"], ["job-deleted"])),
                              (runs, (["job-finished", "cut-made"],)),
                              (ended, (["job-runs"], ["cut-made"])),
                              ((*runs, *ended), (["job-runs"], ["cut-made"], [])),
                              ((*runs, gone), (["job-runs"],)),
                              ((messages.JOB_STOPPED,), (["cut-made"],)),
                              ((messages.JOB_FINISHED,), ([],))):
            played = Pages(states, *pages)
            done = asks(folder, played, "events", "j-1", "-f", "-o", "jsonl")
            check_equal((done.returncode, kinds(map(json.loads, done.stdout.splitlines()))),
                        (0, sum(pages, [])), done.stderr)
            check_equal(played.pages, [], "pages that were not read")


def who_waits_for_a_job_is_told_its_end_though_it_is_deleted():
    messages, _ = protocol(str(ROOT / "proto"))
    with tempfile.TemporaryDirectory() as folder:
        for end, code in ((messages.JOB_FINISHED, 0), (messages.JOB_FAILED, 1)):
            done = asks(folder, Pages((messages.JOB_RUNNING, end, None)), "wait", "j-1")
            check_equal(done.returncode, code, done.stderr)


def who_had_what_and_how_the_numbers_went_can_be_asked():
    # Each has a closure as soon as there is one, and keeps it.
    with Cluster(psservers=1, workers=2, coordinator_args=LONG_LEASE) as c:
        job = c.submit(mlp_job("asked", samples=6400, epochs=3, steps_per_closure=10))
        c.wait_state(job)
        status = c.status(job)
        line = ask(c, "Timeline", id=job)
        trained = [s for s in line["spans"] if s["kind"] == "train"]
        check_equal(sorted(s["closure"] for s in trained if s["result"] == "counted"),
                    list(range(int(status["closures_asked"]))), "closures counted")
        check_equal({s["worker"] for s in trained}, {"w-0", "w-1"}, "by whom")
        check(all(s["begun_us"] <= s["ended_us"] <= line["unix_us"] for s in trained),
              trained[:3])
        curve = ask(c, "History", id=job)["points"]
        check_equal(curve[-1]["steps"], int(status["steps_asked"]), "where it ends")
        minutes = ask(c, "History", id=job, minutes=True)["points"]
        check_equal(minutes[-1], curve[-1], "the minutes' end")

        # Minutes outlast a coordinator that ends in order, spans do not.
        c.kill("coordinator", signal.SIGTERM)
        c.start("coordinator")
        check_equal(ask(c, "History", id=job, minutes=True)["points"], minutes,
                    "minutes after a restart")
        check_equal(ask(c, "Timeline", id=job).get("spans"), [], "spans")


if __name__ == "__main__":
    main([who_went_and_what_was_done_again_is_told_over_a_restart,
          a_reader_ends_with_the_job_whatever_else_is_told,
          who_waits_for_a_job_is_told_its_end_though_it_is_deleted,
          who_had_what_and_how_the_numbers_went_can_be_asked])
