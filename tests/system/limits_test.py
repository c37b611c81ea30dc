#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No peer costs more than its budget: peers that send without end, send nothing,
stop in the midst, or never read, each beside honest ones that are served."""
import contextlib
import json
import pathlib
import socket
import sys
import time

import grpc

import scrape
from access_test import Guarded
from badwire_test import PREFACE, block, varint
from cluster import (LIMIT, ROOT, Cluster, check, check_counts, check_equal, main,
                     mlp_job, wait_for)
from rawhttp2 import Raw, message

MIB = 1 << 20
PUSH, PULL, ASK = (f"/sluice.v1.Shards/{m}" for m in ("Push", "Pull", "Ask"))
SMALL = ["--inbound-bytes", "64MiB", "--connections", "64"]


class Open(Cluster):
    """Its psserver listens at a port of this host, as for other hosts."""

    def command(self, name):
        line = super().command(name)
        if name.startswith("ps"):
            line[line.index("--listen") + 1] = "127.0.0.1:0"
        return line

    def port(self, name="ps-0"):
        return wait_for(f"{name} to attend", lambda: next(
            (m["address"] for m in self.cluster_status()["members"]
             if m["name"] == name), None))

    def peak(self, name="ps-0"):
        """Bytes: the most memory that it ever had."""
        told = pathlib.Path(f"/proc/{self.processes[name].pid}/status").read_text()
        return int(told.split("VmHWM:")[1].split()[0]) * 1024


def external(c, elements):
    """A job to which this test pushes; what a call has to say of its shard."""
    job = c.submit({
        "name": "pushed", "model": {"type": "external", "variables": [
            {"name": "v", "shape": [elements], "initializer": "zeros"}]},
        "optimizer": {"type": "sgd", "learning_rate": 1e-6},
        "data": {"train": {"format": "external", "samples": 1024}},
        "train": {"batch": 1, "epochs": 1, "shuffle": False, "steps_per_closure": 1024,
                  "max_delay": 1024},
        "placement": {"partitioner": "fixed", "shards": 1},
        "checkpoint": {"every_epoch": False}})
    c.wait_state(job, "running")
    return job, shard_of(c, job)


def shard_of(c, job):
    told = c.status(job)
    return (b"\x08" + varint(int(told["job"])) + b"\x10" +
            varint(int(told["incarnation"])) + b"\x20" +
            varint(int(told["shards"][0]["incarnation"])))


def push_of(shard, step, elements):
    return message(shard + b"\x30" + varint(step) + b"\x3a\x04\x08\x01\x10\x01\x50\x01" +
                   block(15, bytes(4 * elements)))


def push(address, whole):
    """An honest one; whoever is refused for now tries again."""
    def is_counted():
        with dialled(address) as channel:
            try:
                channel.unary_unary(PUSH)(whole[5:], timeout=20 * LIMIT)
                return True
            except grpc.RpcError as error:
                # Cancelled: we did not run for longer than its patience.
                check(error.code() in (grpc.StatusCode.RESOURCE_EXHAUSTED,
                                       grpc.StatusCode.CANCELLED), error.code(), error.details())
        return False
    wait_for("an honest push to be answered", is_counted)


@contextlib.contextmanager
def dialled(address):
    with grpc.insecure_channel(address,
                               [("grpc.use_local_subchannel_pool", 1)]) as channel:
        yield channel


def wait_served(address):
    """Where little patience is had with peers, one that did not run is hung up on, too."""
    wait_for("somebody else to be answered", lambda: is_served(address))


def is_served(address, limit_s=20):
    """A call of somebody else's is answered, if only to say what is wrong."""
    with dialled(address) as channel:
        try:
            channel.unary_unary(ASK)(b"", timeout=limit_s * LIMIT)
        except grpc.RpcError as error:
            return error.code() == grpc.StatusCode.INVALID_ARGUMENT
    return False


def all_ended(raws, limit_s=20):
    def look():
        for raw in raws:
            while raw.hear():
                pass
        return all(raw.gone or raw.ended for raw in raws)
    wait_for("every call and connection of theirs to end", look, limit_s)


# ---- memory

def a_message_without_end_costs_no_more_than_the_budget():
    with Open(psservers=1, workers=1, psserver_args=SMALL) as c:
        address, before = c.port(), c.peak()
        job = c.submit(mlp_job("beside", samples=3200, epochs=2))
        with contextlib.ExitStack() as stack:
            raws = [stack.enter_context(Raw(address)) for _ in range(6)]
            for raw in raws:
                raw.call(ASK)
                raw.hear(1)
                raw.say(message(b"", 0xFFFFFFFF))
            sent, zeroes = 0, bytes(MIB)
            end = time.monotonic() + 60 * LIMIT
            while not all(r.ended or r.gone for r in raws):
                check(time.monotonic() < end, f"{sent} bytes were taken, and no end")
                for raw in raws:
                    raw.hear()
                    if not raw.ended and not raw.gone:
                        with contextlib.suppress(OSError):
                            sent += raw.say(zeroes)
        check(sent > 32 * MIB, f"only {sent} bytes were taken: nothing was tried")
        check(c.peak() - before < 160 * MIB,
              f"its memory has grown by {(c.peak() - before) // MIB} MiB")
        check_counts(c.wait_state(job))


class Pusher:
    """One Push of a client of its own, said as far as there is room, and again
    where it was ended, as a worker does it."""

    def __init__(self, stack, address, whole):
        self.stack, self.address, self.whole = stack, address, whole
        self.begun = 0
        self.begin()

    def begin(self):
        self.raw = self.stack.enter_context(Raw(self.address))
        self.raw.call(PUSH, size=len(self.whole))
        self.at = 0
        self.begun += 1

    def go_on(self, part):
        """Up to this part of it. True: it was answered."""
        self.raw.hear()
        if self.raw.ended.get(1) == "answered":
            return True
        if self.raw.ended or self.raw.gone:
            self.raw.close()
            self.begin()
        stop = int(len(self.whole) * part)
        if self.at < stop:
            self.at += self.raw.say(self.whole[self.at:stop], last=part == 1)
        return False


def pushes_beyond_the_budget_wait_in_their_senders_and_all_count():
    elements, peers = 4 * MIB, 16  # 16 MiB each, and 64 MiB for all
    patient = [*SMALL, "--peer-patience", "10m"]  # with what stops short
    with Open(psservers=1, workers=1, psserver_args=patient) as c:
        job, shard = external(c, elements)
        other = c.submit(mlp_job("beside", samples=3200, epochs=2))
        address, before = c.port(), c.peak()
        with contextlib.ExitStack() as stack:
            pushers = [Pusher(stack, address, push_of(shard, step, elements))
                       for step in range(peers)]

            def all_go_on(part):
                return [p.go_on(part) for p in pushers]
            # One is let in, and stops short of its end; the others wait.
            wait_for("one push to be nearly here", lambda: all_go_on(0.9) and
                     max(p.at for p in pushers) >= 14 * MIB)
            for _ in range(100):
                all_go_on(0.9)
            taken = sum(p.at for p in pushers)
            check(taken < 80 * MIB, f"{taken} bytes were taken")
            check(is_served(address), "nobody else is answered")
            # They answer pings meanwhile, as whoever is alive does.
            wait_for("the job beside", lambda: all_go_on(0.9) and
                     c.status(other)["state"] == "finished", 120)
            check_counts(c.json("status", other))
            wait_for("all pushes to be answered", lambda: all(all_go_on(1)), 60)
        wait_for("each of them to be applied", lambda: int(  # as the shard says
            c.status(job)["shards"][0]["counts"].get("applied", 0)) == peers)
        check(c.peak() - before < 112 * MIB,
              f"its memory has grown by {(c.peak() - before) // MIB} MiB")
        check_equal([p.begun for p in pushers], [1] * peers, "how often each was begun")


# ---- slow and silent peers

PATIENT = [*SMALL, "--peer-patience", "1s", "--unread-bytes", "4MiB"]


def hung_up_on(address, openings, meanwhile):
    """Connections that said this, and nothing more, are closed."""
    host, _, port = address.rpartition(":")
    with contextlib.ExitStack() as stack:
        silent = []
        for said in openings:
            s = stack.enter_context(socket.create_connection((host, int(port))))
            s.sendall(said)
            s.settimeout(20 * LIMIT)
            silent.append(s)
        meanwhile()
        for s in silent:
            with contextlib.suppress(ConnectionError):
                while s.recv(4096):
                    pass


def who_says_nothing_is_hung_up_on():
    with Open(psservers=1, workers=0, psserver_args=PATIENT) as c:
        address = c.port()
        hung_up_on(address, (b"", PREFACE[:9], PREFACE),
                   lambda: wait_served(address))


def who_begins_no_handshake_or_does_not_end_it_is_hung_up_on():
    hello = bytes.fromhex("1603010200010001fc0303")  # of 512 bytes
    args = ["--peer-patience", "1s"]
    with Guarded(psservers=0, workers=0, coordinator_args=args) as c:
        hung_up_on(c.address, (b"", hello[:3], hello) * 10,
                   lambda: check("jobs" in c.json("jobs"), "others are not served"))


def who_stops_in_the_midst_of_a_push_loses_it_and_no_other():
    with Open(psservers=1, workers=0, psserver_args=PATIENT) as c:
        job, shard = external(c, MIB // 4)
        address, whole = c.port(), push_of(shard, 0, MIB // 4)
        with contextlib.ExitStack() as stack:
            raws = [stack.enter_context(Raw(address)) for _ in range(6)]
            for raw in raws:  # one says so, and is in, the others wait
                raw.call(PUSH, size=len(whole))
                raw.hear(1)
                raw.say(whole[:100000])
            wait_served(address)
            all_ended(raws)
            push(address, whole)
        check("too slow" in c.log("ps-0"), "the log says nothing")
        wait_for("the honest push to be counted",
                 lambda: int(c.status(job)["steps_counted"]) == 1)


def who_never_reads_loses_the_answers():
    with Open(psservers=1, workers=0, psserver_args=PATIENT) as c:
        job, shard = external(c, MIB // 4)  # answers of 1 MiB
        # A Pull has the shard's incarnation where a Push has it.
        address, before = c.port(), c.peak()
        pull = message(shard)
        with Raw(address, quiet=True) as raw:
            raw.hear(1)
            for stream in range(1, 161, 2):
                raw.call(PULL, stream)
                raw.say(pull, stream, last=True)
            wait_for("all of its calls to end", lambda: raw.hear() and False or
                     raw.gone or len(raw.ended) == 80)
            with dialled(address) as channel:
                told = channel.unary_unary(PULL)(pull[5:], timeout=60 * LIMIT)
            check(len(told) > MIB, "it was not answered", len(told))
        check("too slow" in c.log("ps-0"), "the log says nothing")
        check(c.peak() - before < 64 * MIB,
              f"its memory has grown by {(c.peak() - before) // MIB} MiB")
        check_equal(int(c.status(job)["steps_counted"]), 0, "steps")


def a_host_has_so_many_connections_and_no_more():
    args = ["--peer-connections", "20", "--peer-patience", "60s"]
    with Open(psservers=1, workers=1, psserver_args=args) as c:
        job = c.submit(mlp_job("beside", samples=3200, epochs=6))
        c.wait_steps(job, 1)
        address = c.port()
        with contextlib.ExitStack() as stack:
            raws = [stack.enter_context(Raw(address)) for _ in range(60)]

            def closed():
                for raw in raws:
                    while raw.hear():
                        pass
                return sum(bool(raw.gone) for raw in raws)
            wait_for("those beyond 20 to be closed", lambda: closed() >= 40)
            check(closed() < 60, "all of them were closed")
            check_counts(c.wait_state(job))  # its connections were there before
        check("--peer-connections" in c.log("ps-0"), "the log says nothing")
        wait_for("there to be room again", lambda: is_served(address, 5))


def one_peer_has_so_many_calls_and_no_more():
    with Open(psservers=1, workers=0, psserver_args=["--peer-calls", "3"]) as c:
        address = c.port()
        with dialled(address) as channel:
            watches = [channel.unary_stream("/grpc.health.v1.Health/Watch")(b"")
                       for _ in range(3)]
            for watch in watches:
                next(watch)
            try:
                channel.unary_unary(ASK)(b"", timeout=20 * LIMIT)
                check(False, "a fourth was served")
            except grpc.RpcError as error:
                check_equal(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED, "code")
                check("3 calls open" in error.details(), "no figure", error.details())
            watches.pop().cancel()
            wait_for("there to be room again", lambda: is_served(address))
        check("peer is over a limit" in c.log("ps-0"), "the log says nothing")


# ---- watchers

def jobs(c):
    sys.path.insert(0, str(ROOT / "proto"))
    protos = grpc.protos("jobs.proto")
    channel = grpc.insecure_channel(c.address)
    return channel.unary_stream(
        "/sluice.v1.Jobs/Watch",
        request_serializer=protos.JobRequest.SerializeToString,
        response_deserializer=protos.JobStatus.FromString), protos


def one_watcher_too_many_is_refused_with_the_figure():
    for args, word in ((["--watchers", "3"], "3 streams watch jobs"),
                       (["--watchers-per-caller", "3"], "this host has 3 streams")):
        with Cluster(psservers=0, workers=0, coordinator_args=args) as c:
            job = c.submit(mlp_job("watched"))
            watch, protos = jobs(c)
            streams = [watch(protos.JobRequest(id=job)) for _ in range(3)]
            for stream in streams:
                next(stream)
            try:
                next(watch(protos.JobRequest(id=job)))
                check(False, "a fourth was let in")
            except grpc.RpcError as error:
                check_equal(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED, "code")
                check(word in error.details(), "no figure", error.details())
            check("watcher refused" in c.log("coordinator"), "the log says nothing")
            streams.pop().cancel()

            def is_let_in():
                stream = watch(protos.JobRequest(id=job))
                with contextlib.suppress(grpc.RpcError):
                    return next(stream)
                return None
            wait_for("there to be room again", is_let_in)


def watchers_that_want_the_same_have_one_status_made_for_them():
    # Their flags alternate, so the status that was made last is never the next one's.
    with Cluster(psservers=0, workers=0, coordinator_args=list(scrape.OPS)) as c:
        ops = scrape.address(c, "coordinator")
        job = c.submit(mlp_job("watched"))
        watch, protos = jobs(c)
        streams = [watch(protos.JobRequest(id=job, shards=True, spec=bool(i % 2)))
                   for i in range(12)]
        for stream in streams:
            next(stream)

        def count(what):
            return scrape.value(scrape.metrics(ops), "sluice_watch_statuses_total", what=what)
        made, sent = count("made"), count("sent")
        for verb in ("pause", "resume", "pause"):
            c.run(verb, job)
            for stream in streams:
                next(stream)
        made, sent = count("made") - made, count("sent") - sent
        check(sent >= 3 * len(streams), "some were not sent", sent)
        check(4 * made <= sent, "one status each was made", made, sent)


def a_watcher_that_does_not_read_costs_one_status():
    args = ["--listen", "127.0.0.1:0", "--peer-patience", "1s"]
    with Cluster(psservers=1, workers=1, coordinator_args=args) as c:
        address = wait_for("the port", lambda: port_of(c.log("coordinator")))
        job = c.submit(mlp_job("watched", samples=3200, epochs=40))
        with Raw(address, quiet=True) as raw:
            raw.hear(1)
            raw.call("/sluice.v1.Jobs/Watch")
            raw.say(message(block(1, job.encode())), last=True)
            c.wait_steps(job, 20)
            done = c.run("watch", job, limit_s=120)  # beside it
            check("finished" in done.stdout, "the other one was not told", done.stdout)
            wait_for("its stream to end", lambda: raw.hear() and False or raw.ended)
        check("watcher does not read" in c.log("coordinator"), "the log says nothing")


def port_of(log):
    for line in log.splitlines():
        told = json.loads(line)
        if told.get("msg") == "listening" and told["address"].startswith("127."):
            return f"127.0.0.1:{told['port']}"
    return None


if __name__ == "__main__":
    main([a_message_without_end_costs_no_more_than_the_budget,
          pushes_beyond_the_budget_wait_in_their_senders_and_all_count,
          who_says_nothing_is_hung_up_on,
          who_begins_no_handshake_or_does_not_end_it_is_hung_up_on,
          who_stops_in_the_midst_of_a_push_loses_it_and_no_other,
          who_never_reads_loses_the_answers,
          a_host_has_so_many_connections_and_no_more,
          one_peer_has_so_many_calls_and_no_more,
          one_watcher_too_many_is_refused_with_the_figure,
          watchers_that_want_the_same_have_one_status_made_for_them,
          a_watcher_that_does_not_read_costs_one_status])
