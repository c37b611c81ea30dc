#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Members and clients that speak the protocol and mean nothing by it.

    build/venv/bin/python tests/fuzz/members.py [--seconds 600] [--seed N] [--latency MS]

Beside a real coordinator, psservers and workers that train an honest job, some
threads attach as workers and psservers, call shards, submit, stop and delete
jobs of their own, schedule tasks and work at them: any message, any field, in any order, with numbers
that they have heard. Some push and pull rows of tables, of as many ids as they like.
Whatever they say: no daemon ends, the honest job
finishes with every sample counted once, and a job that comes after them trains.
No daemon grows. Somebody beside them asks for a list of jobs all the while: how
long that takes is told, before and while they talk, and --latency limits what
99 of 100 take more.
To the coordinator they claim of the honest job what they like, since they hold
no lease and no shard of it; shards hear nothing of it from them.

SLUICE_BIN says where the programs lie, SLUICE_SEED the seed. In a build with
SLUICE_TESTING, with SLUICE_HISTORY_CHECK=1, the history of the honest job is
checked as well.
"""
import argparse
import json
import os
import pathlib
import queue
import random
import re
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "system"), str(HERE.parent / "history")]

import grpc  # noqa: E402
from google.protobuf import json_format  # noqa: E402
from google.protobuf.message_factory import GetMessageClass  # noqa: E402
from cluster import (ROOT, Cluster, Failed, check, check_counts, mlp_job,  # noqa: E402
                     wait_for)
import conserve_rows  # noqa: E402
from conserve import Programs, check_conserved, conserve_job  # noqa: E402
import bounds  # noqa: E402
import rows  # noqa: E402
from talk import Talk  # noqa: E402

sys.path.insert(0, str(ROOT / "proto"))
COORD, _ = grpc.protos_and_services("coord.proto")
JOBS, _ = grpc.protos_and_services("jobs.proto")
SHARDS, _ = grpc.protos_and_services("ps.proto")
TASKS, _ = grpc.protos_and_services("tasks.proto")
RANKS, _ = grpc.protos_and_services("ranks.proto")

ATTEND = "/sluice.v1.Coordinator/Attend"
PROTOCOL = 2
WORKERS_SAY = ["heartbeat", "complete", "failed", "hand_back", "map_wanted",
               "completes", "ring_join", "ring_answer", "ring_ready", "ring_step",
               "ring_broken", "ring_copied", "snapshot", "shard_hello"]
PSSERVERS_SAY = ["heartbeat", "shard_hello", "shard_hello", "snapshot", "deleted", "complete",
                 "ring_answer"]
RING = {"ring_open": ("ring_answer", True), "ring_begin": ("ring_ready", True),
        "ring_go": ("ring_step", False)}
DRAINS = {"Drain"}  # the honest job's workers, too
LOOKS_BACK = {"Events", "Timeline", "History"}


def calls_of(protos, service):
    """{method: (request's class, reply's)} of the unary calls of a service."""
    return {m.name: (GetMessageClass(m.input_type), GetMessageClass(m.output_type))
            for m in protos.DESCRIPTOR.services_by_name[service].methods
            if not m.client_streaming and not m.server_streaming}


JOB_CALLS = calls_of(JOBS, "Jobs")
CALLS = {m: kinds for m, kinds in JOB_CALLS.items() if m not in DRAINS | LOOKS_BACK}
HISTORY_CALLS = {m: JOB_CALLS[m] for m in sorted(LOOKS_BACK)}


KINDS = [f.name for f in COORD.AttendUp.DESCRIPTOR.fields if f.name != "hello"]
GROWTH = 96 << 20  # of a daemon; jobs that were submitted are kept
MODES = ["async", "async", "sync", "allreduce", "hybrid", "local"]


def external_spec(rng):
    """A job of an external model, half of them with tables, sometimes a wrong one."""
    make = rng.choice([conserve_job, conserve_rows.rows_job])
    spec = make(name=f"fuzz-{rng.randrange(100)}", samples=rng.choice([8, 64]),
                epochs=rng.randrange(1, 9), variables=rng.randrange(1, 4))
    spec["train"]["mode"] = rng.choice(MODES)
    if make is conserve_rows.rows_job:  # other modes have none
        spec["train"]["mode"] = rng.choice([*["async"] * 9, *MODES])
        few = spec["model"]["tables"][1]
        few["evict"]["max_rows"] = rng.choice([0, 1, 64, 1 << 20])
        few["buckets"] = rng.choice([4096, 4096, 1, 7])
    return spec


def net_spec(rng):
    """A job of a net, whose data nobody opens: strangers say what is in it."""
    spec = mlp_job(name=f"fuzz-{rng.randrange(100)}", samples=320,
                   epochs=rng.randrange(1, 9), mode=rng.choice(MODES))
    if spec["train"]["mode"] in ("sync", "local"):
        spec["train"].update(contributions=2)
    if spec["train"]["mode"] == "local":
        spec["train"].update(contributions=3, quorum=rng.randrange(1, 4))
    return spec


def up_fields(up, kind):
    return getattr(up, kind).DESCRIPTOR.fields_by_name


class Stranger(threading.Thread):
    """One that talks until it is told to stop. What it has said is counted."""

    def __init__(self, party, number):
        super().__init__(daemon=True)
        self.party = party
        self.rng = random.Random(f"{party.seed} {type(self).__name__} {number}")
        self.talk = Talk(self.rng, party.table)
        self.number, self.said, self.error = number, 0, None

    def run(self):
        try:
            while not self.party.over.is_set():
                self.once()
        except Exception as error:  # a thread has nobody to raise it to
            self.error = error

    def job(self):
        """A number of theirs, or none that there is."""
        return self.rng.choice(self.party.theirs + [0, 99, 5000, 1 << 40, (1 << 64) - 1])

    def spare(self, message):
        """Nothing of the honest job, however deep it is."""
        for field, value in message.ListFields():
            parts = list(value) if field.label == field.LABEL_REPEATED else [value]
            if field.message_type:
                for one in parts:
                    self.spare(one)
            elif field.name == "job" and self.party.honest in parts:
                setattr(message, field.name, self.job())


class Member(Stranger):
    """Attaches, answers some of what it is told, and says other things."""
    role, says = None, ()

    def __init__(self, *who):
        super().__init__(*who)
        self.told = {}  # kind of message -> how many came

    def hello(self):
        up = COORD.AttendUp()
        h = up.hello
        h.role, h.name = self.role, f"{type(self).__name__.lower()}-{self.number}"
        h.process = self.rng.getrandbits(63) + 1
        h.protocol, h.external = PROTOCOL, self.party.external
        h.host = h.version = "fuzz"
        h.address = f"unix:{self.party.dir}/nobody.sock"
        if self.rng.random() < 0.2:
            h.cluster = self.rng.choice([self.party.cluster, 0, 1])
        if self.rng.random() < 0.1:
            h.term = self.talk.number(h.DESCRIPTOR.fields_by_name["term"])
        return up

    def answer(self, down):
        """What a member that knows its part would say to this, or None."""
        return None

    def random_up(self):
        up = COORD.AttendUp()
        kind = "hello" if self.rng.random() < 0.01 else self.rng.choice(
            self.says if self.rng.random() < 0.9 else KINDS)  # also another role's
        self.talk.fill(getattr(up, kind), 0)
        getattr(up, kind).SetInParent()
        if self.rng.random() < 0.2 and "job" in up_fields(up, kind):
            getattr(up, kind).job = self.party.honest
        if kind == "hello":
            up.hello.name = f"odd-{self.rng.randrange(4)}"
            up.hello.external = self.party.external
            return up
        return self.talk.once_more(up)

    def once(self):
        out = queue.Queue()
        out.put(self.hello())
        with grpc.insecure_channel(self.party.address) as channel:
            call = channel.stream_stream(
                ATTEND, request_serializer=COORD.AttendUp.SerializeToString,
                response_deserializer=COORD.AttendDown.FromString)(
                    iter(out.get, None), timeout=self.rng.choice([1, 3, 10]))
            listener = threading.Thread(target=self.listen, args=(call, out), daemon=True)
            listener.start()
            for _ in range(self.rng.randrange(1, 400)):
                if self.party.over.is_set() or not listener.is_alive():
                    break
                out.put(self.random_up())
                self.said += 1
                time.sleep(self.rng.choice([0, 0, 0.001, 0.01]))  # so many a second
            out.put(None)
            call.cancel()
            listener.join(10)

    def listen(self, call, out):
        try:
            for down in call:
                self.talk.hear(down)
                kind = down.WhichOneof("kind")
                self.told[kind] = self.told.get(kind, 0) + 1
                if kind == "welcome":
                    self.party.cluster = down.welcome.cluster
                up = self.answer(down) if self.rng.random() < 0.7 else None
                if up is not None and self.rng.random() < 0.2:
                    self.talk.embolden(getattr(up, up.WhichOneof("kind")))
                if up is not None:
                    self.said += 1
                    out.put(up)
        except grpc.RpcError:
            pass  # refused, or over


class Worker(Member):
    role, says = COORD.ROLE_WORKER, WORKERS_SAY

    def answer(self, down):
        kind = down.WhichOneof("kind")
        if kind == "leases":
            leases = [x for x in down.leases.lease if x.job != self.party.honest]
            return self.outcome(self.rng.choice(leases)) if leases else None
        if kind in RING:
            return self.ring(getattr(down, kind), *RING[kind])
        return None

    def outcome(self, lease):
        up = COORD.AttendUp()
        kind = self.rng.choice(["complete", "complete", "complete", "failed", "hand_back"])
        if lease.kind == COORD.LEASE_RING:
            kind = "ring_join"
        one = getattr(up, kind)
        one.job = lease.job
        one.attempt.CopyFrom(lease.attempt)
        if kind == "ring_join":
            one.job_incarnation, one.address, one.host = 1, "127.0.0.1:1", "fuzz"
            one.copies = self.rng.random() < 0.5
            return up
        one.closure, one.kind = lease.closure, lease.kind
        if kind == "complete":
            one.job_incarnation = 1
        if kind == "complete" and lease.kind == COORD.LEASE_PROBE:
            one.facts.train_samples, one.facts.test_samples = 320, 100
            one.facts.train_hash = one.facts.test_hash = 7
        elif kind == "complete":
            for shard in range(self.rng.randrange(4)):
                e = one.evidence.add()
                e.shard, e.incarnation = shard, self.rng.randrange(1, 4)
        return up

    def ring(self, m, kind, tag):
        """A rank's next word: what it should be, or what it must not be."""
        up = COORD.AttendUp()
        one = getattr(up, kind)
        one.job, one.job_incarnation, one.generation = m.job, 1, m.generation
        if tag:
            one.tag.incarnation = self.rng.choice([0, 1, m.generation, m.generation + 1])
            one.tag.sequence = self.rng.choice([0, 0, 1, 5])
        if kind == "ring_ready" and self.rng.random() < 0.8:
            one.tag.incarnation, one.tag.sequence = m.generation, m.base_tag.sequence
        if kind == "ring_answer" and self.rng.random() < 0.8:
            one.tag.incarnation = one.tag.sequence = 0
        if kind != "ring_answer":
            one.counts.SetInParent()
        if kind == "ring_ready":
            one.counted.SetInParent()
        if kind == "ring_step":
            one.sequence = self.rng.choice([0, 1, 1, 2, 100])
        return up


class Psserver(Member):
    role, says = COORD.ROLE_PSSERVER, PSSERVERS_SAY

    def answer(self, down):
        up = COORD.AttendUp()
        if down.WhichOneof("kind") == "place":
            s, h = down.place.shard, up.shard_hello
            h.job, h.job_incarnation, h.shard = s.job, s.job_incarnation, s.shard
            h.job_uid = s.job_uid
            h.loaded.CopyFrom(down.place.at_least)
            h.counted.SetInParent()
            h.counts.SetInParent()
            return up
        if down.WhichOneof("kind") == "snapshot":
            r = up.snapshot
            r.job, r.shard, r.request = (down.snapshot.job, down.snapshot.shard,
                                         down.snapshot.request)
            r.job_incarnation = 1
            r.tag.incarnation, r.tag.sequence = down.snapshot.incarnation, self.rng.randrange(9)
            r.file, r.folder, r.sha256 = "x.snap", "/nowhere", bytes(32)
            r.counted.SetInParent()
            r.counts.SetInParent()
            return up
        return None


class Caller(Stranger):
    """Calls one service with requests that are one somehow."""
    service, calls = None, {}

    def request(self, method):
        return self.talk.fill(self.calls[method][0]())

    def note(self, method, request, reply):
        self.talk.hear(reply)

    def denied(self, error):
        """Hears of a call that failed."""

    def target(self):
        return self.party.address

    def once(self):
        with grpc.insecure_channel(self.target()) as channel:
            for _ in range(100):
                if self.party.over.is_set():
                    return
                method = self.rng.choice(list(self.calls))
                request = self.request(method)
                call = channel.unary_unary(
                    f"/sluice.v1.{self.service}/{method}",
                    request_serializer=type(request).SerializeToString,
                    response_deserializer=self.calls[method][1].FromString)
                self.said += 1
                try:
                    self.note(method, request, call(request, timeout=60))
                except grpc.RpcError as error:
                    if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                        raise Failed(f"{method} is not answered: {request}") from error
                    self.denied(error)
                time.sleep(0.002)  # they are not to be the load


class Client(Caller):
    service, calls = "Jobs", CALLS

    def request(self, method):
        if method == "Submit":
            request = JOBS.SubmitRequest()
            make = external_spec if self.party.external else net_spec
            json_format.ParseDict(make(self.rng), request.spec)
            if self.rng.random() < 0.3:
                self.talk.fill(request.spec.train)
            if self.rng.random() < 0.2:
                self.talk.fill(request.spec)
                request.dry_run = True  # it may be one that computes for hours
            return request
        request = super().request(method)
        if method in ("Stop", "Delete", "Pause", "Resume"):
            request.id = f"j-{self.job()}"
        return request

    def note(self, method, request, reply):
        self.talk.hear(reply)
        if method == "Submit" and reply.job not in self.party.theirs and reply.job:
            self.party.theirs.append(reply.job)
            del self.party.theirs[:-30]


class Reader(Caller):
    """Looks at what was."""
    service, calls = "Jobs", HISTORY_CALLS

    def request(self, method):
        request = super().request(method)
        if self.rng.random() < 0.8:
            request.id = f"j-{self.rng.choice([self.party.honest, *self.party.theirs])}"
        return request


class RankCaller(Caller):
    """Calls the ranks of a ring, whoever they are."""
    service, calls = "Ranks", calls_of(RANKS, "Ranks")

    def target(self):
        return self.rng.choice(self.party.ranks)

    def request(self, method):
        request = super().request(method)
        if method == "State":
            request.bytes %= 4 << 20
        self.spare(request)
        return request


class ShardCaller(Caller):
    """Half of what it says is of rows, to shards that it has found by a Pull."""
    service, calls = "Shards", calls_of(SHARDS, "Shards")

    def __init__(self, *who):
        super().__init__(*who)
        self.here, self.found = None, {}  # (psserver, job, shard) -> a PullReply
        self.told = {}                    # what became of rows -> how often

    def target(self):
        self.here = f"unix:{self.party.dir}/ps-{self.rng.randrange(2)}.sock"
        return self.here

    def request(self, method):
        request = super().request(method)
        if method in ("Push", "PushPull", "Pull") and self.rng.random() < 0.7:
            request = self.of_rows(method, request)
        self.spare(request)
        return request

    def of_rows(self, method, request):
        """To a shard that this psserver has; a Pull may look for one first."""
        known = [key for key in self.found if key[:2] == (self.here, self.party.prey)]
        kind, jobs = self.calls[method][0], [*[self.party.prey] * 5, *self.party.theirs]
        if known and self.rng.random() < 0.9:
            _, job, shard = self.rng.choice(known)
            request = kind(job=job, job_incarnation=1, shard=shard)
            (self.pull if method == "Pull" else self.push)(request)
        elif method == "Pull":
            request = kind(job=self.rng.choice(jobs), job_incarnation=1,
                           shard=self.rng.randrange(2))
        return request

    def pull(self, request):
        if self.rng.random() < 0.3:
            self.talk.fill(request.tag)
            request.payload = self.rng.choice(rows.NAMES).encode()
            request.first_record = self.rng.choice([0, 0, 1, 1 << 40, (1 << 64) - 1])
        else:
            request.payload = rows.blocks(self.rng, request.shard, 2, elements=False)

    def push(self, request):
        shard = self.found[self.here, request.job, request.shard]
        blocks = rows.blocks(self.rng, request.shard, 2, elements=True)
        request.incarnation, request.based_on = shard.incarnation, shard.version
        request.closure, request.step = self.rng.randrange(300), self.rng.randrange(4)
        request.attempt.term, request.attempt.n = 1, 1 << 20
        request.samples, request.rows_bytes = 4, len(blocks)
        request.payload = bytes(len(shard.payload)) + blocks
        if self.rng.random() < 0.1:
            self.talk.embolden(request)

    def note(self, method, request, reply):
        super().note(method, request, reply)
        word = None
        if method == "Pull" and not request.payload and not request.HasField("tag"):
            self.found[self.here, request.job, request.shard] = reply
        elif method == "Pull" and request.payload and reply.payload:
            word = "rows read"
        elif method.startswith("Push") and request.rows_bytes:
            word = f"rows {SHARDS.PushResult.Name(reply.result)[5:].lower()}"
        self.tell(word)

    def denied(self, error):
        self.tell("rows without memory" if "no memory for another row" in error.details()
                  else None)

    def tell(self, word):
        if word is not None:
            self.told[word] = self.told.get(word, 0) + 1


class TaskCaller(Caller):
    """Clients and workers of tasks, a few of each, that mean nothing by them."""
    service, calls = "Tasks", calls_of(TASKS, "Tasks")

    def request(self, method):
        request = super().request(method)
        few = {"queue": ["p", "q"], "client": [1, 2], "process": [1, 2, 3], "first": range(1, 40),
               "limit": [0, 5, 100], "incarnation": [0], "worker": ["w"]}
        for name, values in few.items():
            if name in request.DESCRIPTOR.fields_by_name and self.rng.random() < 0.9:
                setattr(request, name, self.rng.choice(values))
        if method in ("Ended", "Work"):
            request.wait_ms = self.rng.randrange(20)  # it is waited for
        if method == "Schedule" and self.rng.random() < 0.8:
            for task in request.tasks:
                task.name = self.rng.choice("ab")
        if method == "Work" and self.rng.random() < 0.8:
            request.handlers[:] = ["a", "b"]
        return request


class Party:
    """The strangers. `external`: they take work of external models, else of
    nets; the honest job is of the other kind."""

    def __init__(self, c, seed, honest, external):
        self.dir, self.address, self.seed = c.dir, c.address, seed
        self.external, self.table = external, bounds.read()
        self.honest, self.theirs, self.cluster = honest, [], 0
        self.prey = 0  # a job with tables, whose rows they push
        if external:
            job = conserve_rows.rows_job(name="prey", samples=4096)
            job["model"]["tables"][1].pop("evict")
            self.prey = number_of(c.submit(job))
        self.over = threading.Event()
        self.ranks = [f"127.0.0.1:{port}" for name in c.processes if name.startswith("w-")
                      for port in re.findall(r'"port":(\d+)', c.log(name))]
        kinds = ((Worker, 3), (Psserver, 2), (Client, 1), (ShardCaller, 1),
                 (TaskCaller, 1), (Reader, 1), (RankCaller, 1 if self.ranks else 0))
        self.guests = [kind(self, n) for kind, count in kinds for n in range(count)]

    def begin(self):
        for guest in self.guests:
            guest.start()

    def end(self):
        self.over.set()
        for guest in self.guests:
            guest.join(90)  # longer than a call may take
        said = {}
        for guest in self.guests:
            kind = type(guest).__name__
            said[kind] = said.get(kind, 0) + guest.said
            check(guest.error is None, f"{kind}: {guest.error!r}")
        print("messages:", said, flush=True)
        check(all(said.values()), "some said nothing", said)
        told = {}
        for guest in self.guests:
            for kind, count in getattr(guest, "told", {}).items():
                told[kind] = told.get(kind, 0) + count
        print("told:", told, flush=True)
        for word in ("rows read", "rows counted") if self.external else ():
            check(told.get(word), f"no {word}")


def number_of(job):
    return int(job.split("-")[1])


def all_alive(c):
    for name, process in c.processes.items():
        check(process.poll() is None, f"{name} ended with {process.returncode}")


class Watcher:
    """Looks at the daemons from beside: how soon the coordinator answers, by a
    program of its own, which nobody else holds up; and how large each is."""

    def __init__(self, c):
        self.c, self.most, self.settled = c, {}, {}
        self.prober = None

    def probe(self):
        """Gives back once it has had its first answer: a busy machine starts it late."""
        self.prober = subprocess.Popen(
            [sys.executable, __file__, "--probe", self.c.address],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        check(self.prober.stdout.readline() == "begun\n", "the prober has no answer")

    def answers(self):
        """The times that answers took since probe(), in ms, in rising order."""
        said, _ = self.prober.communicate("")
        return sorted(json.loads(said))

    def baseline(self):
        self.probe()
        time.sleep(3)  # that is what is measured
        return self.answers()

    def look(self):
        for name, process in self.c.processes.items():
            text = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            size = int(re.search(r"VmRSS:\s+(\d+)", text)[1]) << 10
            self.most[name] = max(size, self.most.get(name, 0))

    def settle(self):
        """What there is by now is what a daemon needs."""
        self.settled = dict(self.most)

    def check_sizes(self):
        print("MiB at most:", {n: s >> 20 for n, s in self.most.items()}, flush=True)
        for name, size in self.settled.items():
            check(self.most[name] - size < GROWTH, f"{name} grows",
                  size, self.most[name])


def share(times, of):
    return times[min(len(times) - 1, int(len(times) * of))]


def tell_times(what, times):
    print(f"{what}: {len(times)} answers; p50 {share(times, 0.5):.1f} ms, p99 "
          f"{share(times, 0.99):.1f} ms, slowest {times[-1]:.1f} ms", flush=True)


def run_prober(address):
    """Asks for a list of jobs until its standard input ends, says when it has begun,
    and at the end how long each answer took."""
    done, times = threading.Event(), []
    threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
    with grpc.insecure_channel(address) as channel:
        call = channel.unary_unary("/sluice.v1.Jobs/List",
                                   request_serializer=JOBS.ListRequest.SerializeToString,
                                   response_deserializer=JOBS.ListReply.FromString)
        while not (times and done.is_set()):
            began = time.monotonic()
            try:
                call(JOBS.ListRequest(limit=1), timeout=60)
            except grpc.RpcError:
                break  # it ended, which others see
            times.append((time.monotonic() - began) * 1000)
            if len(times) == 1:
                print("begun", flush=True)
            done.wait(0.02)
    print(json.dumps(times))


def check_honest_history(c, job):
    """Strangers lie about their own jobs: only what is of the honest one, or of
    none, is checked."""
    import checker
    number, folder = number_of(job), c.dir / "honest"
    folder.mkdir()
    for path in c.history.iterdir():
        if path.suffix == ".jsonl":
            with open(path, encoding="utf-8") as whole, \
                    open(folder / path.name, "w", encoding="utf-8") as part:
                part.writelines(line for line in whole if is_of(line, number))
    found = checker.check(folder, statuses=[c.status(job)])
    check(not found, "the history breaks an invariant", *found)


def is_of(line, number):
    if not line.endswith("\n"):
        return False  # its writer is at it
    said = json.loads(line)
    path = re.search(r"-j-(\d+)-", said.get("path", ""))
    return said.get("job", number) == number and \
        (path is None or int(path[1]) == number)


def disturb(c, options, seconds, honest, external):
    """Strangers talk for so long; the honest job ends as if they were not."""
    wait_for("the honest job to run", lambda: c.steps(honest) > 0)
    watcher = Watcher(c)
    alone = watcher.baseline()
    party = Party(c, options.seed, number_of(honest), external)
    party.begin()
    watcher.probe()
    began = time.monotonic()
    while time.monotonic() < began + seconds and not any(g.error for g in party.guests):
        all_alive(c)
        watcher.look()
        if time.monotonic() < began + seconds / 2:
            watcher.settle()
        time.sleep(0.2)  # between looks
    beside = watcher.answers()
    party.end()
    all_alive(c)
    tell_times("alone", alone)
    tell_times("beside strangers", beside)
    check(share(beside, 0.99) < share(alone, 0.99) + options.latency,
          "the coordinator answers late")
    watcher.check_sizes()
    done = c.wait_state(honest)
    check_counts(done)
    if c.history:
        check_honest_history(c, honest)
        c.no_history("strangers lie about jobs of their own")


def beside_a_net(seconds, options):
    """Strangers fill the memory of rows, and more."""
    with Cluster(psservers=2, workers=2, psserver_args=["--rows-memory", "2MiB"]) as c:
        # How long a job takes is measured, for one that lasts as long as they.
        began = time.monotonic()
        c.wait_state(c.submit(mlp_job("measure", samples=3200, epochs=4)))
        pace = (time.monotonic() - began) / 4
        honest = c.submit(mlp_job("honest", samples=3200,
                                  epochs=max(8, int(seconds / pace / 2))))
        disturb(c, options, seconds, honest, external=True)
        after = mlp_job("after", samples=3200, epochs=1)
        check_counts(c.wait_state(c.submit(after)))
        all_alive(c)


def beside_programs(seconds, options):
    spec = conserve_job()
    steps = 20 * 96  # of the spec, by two programs
    pace = ["--step-ms", int(seconds * 1000 * 0.6 * 2 / steps)]
    with Cluster(psservers=2, workers=0) as c, Programs(c, 2, *pace):
        honest = c.submit(spec)
        disturb(c, options, seconds, honest, external=False)
        check_conserved(c, honest, spec)
        after = conserve_job(name="after", samples=64, epochs=2)
        check_counts(c.wait_state(c.submit(after)))
        all_alive(c)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int,
                        default=int(os.environ.get("SLUICE_SEED", random.randrange(1 << 32))))
    parser.add_argument("--latency", type=float, default=10000, metavar="MS",
                        help="limit of what 99 of 100 answers take longer beside strangers")
    parser.add_argument("--probe", metavar="ADDRESS", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.probe:
        run_prober(options.probe)
        return 0
    try:
        print(f"SLUICE_SEED={options.seed}", flush=True)
        beside_a_net(options.seconds / 2, options)
        beside_programs(options.seconds / 2, options)
    except Failed as error:
        print(f"failed with seed {options.seed}: {error}", file=sys.stderr)
        return 1
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
