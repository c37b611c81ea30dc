#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The largest number that each field may hold (tests/fuzz/bounds.py), said to
daemons that train: they answer, none of them costs its loop much or makes it
larger, and an honest job counts each sample once."""
import pathlib
import re
import sys
import time

from cluster import LIMIT, ROOT, check, check_counts, main, mlp_job, wait_for
from member import (COMMON, COORD, COORD_CALLS, JOBS, JOBS_CALLS, PS, PS_CALLS, RANKS,
                    RANKS_CALLS, TASKS, TASKS_CALLS, Member, Played, external_job, grpc)
from ring_test import ring_job, ring_token

sys.path.insert(0, str(ROOT / "tests" / "fuzz"))
import bounds  # noqa: E402
from google.protobuf.descriptor import FieldDescriptor as Field  # noqa: E402
from google.protobuf.message_factory import GetMessageClass  # noqa: E402

OPTIONS = grpc.protos("options.proto")
ANSWER_S = 10  # generously: whoever answers at all does so in milliseconds
MIB = 1 << 20
FOLLOWED = 64 * MIB  # FEED_BYTES: rounds that a rank keeps for one that asked for its state
TURN_S = 0.05  # of processor time of a daemon's loop, for one message
BESIDE = 0.5   # part of the time that a loop may work for others meanwhile
WIDTH = {Field.TYPE_UINT32: 32, Field.TYPE_INT32: 31}
PSSERVERS = {"shard_hello", "snapshot", "deleted", "rates_taken", "feed_ended", "replica"}
NOT_SAID = {"hello"}  # once a stream, and first


def largest(numbers, field):
    """What may stand in that field at most."""
    bound = numbers.get((field.containing_type.name, field.name))
    if bound is None:
        return None
    return min(bound.most, (1 << WIDTH.get(field.type, 64)) - 1)


def fields_of(descriptor, path=()):
    """The path of each number in such a message, lists' first items included."""
    for field in descriptor.fields:
        if field.message_type:
            yield from fields_of(field.message_type, path + (field,))
        else:
            yield path + (field,)


def put(message, path, value):
    for field in path[:-1]:
        inner = getattr(message, field.name)
        message = (inner[0] if inner else inner.add()) \
            if field.label == Field.LABEL_REPEATED else inner
        if field.label != Field.LABEL_REPEATED:
            message.SetInParent()
    field = path[-1]
    if field.label == Field.LABEL_REPEATED:
        getattr(message, field.name).append(value)
    else:
        setattr(message, field.name, value)


def fill(message, known):
    """What is known of the job, in every field that it fits."""
    for field in message.DESCRIPTOR.fields:
        if field.message_type and field.label != Field.LABEL_REPEATED and \
                not field.containing_oneof:
            fill(getattr(message, field.name), known)
            getattr(message, field.name).SetInParent()
        elif field.name in known and field.label != Field.LABEL_REPEATED and \
                isinstance(known[field.name], str) == (field.type == Field.TYPE_STRING):
            setattr(message, field.name, known[field.name])
    return message


def each(kind, numbers, known):
    """Messages of that kind, each with one number at its largest."""
    for path in fields_of(kind.DESCRIPTOR):
        most = largest(numbers, path[-1])
        if most is not None:
            message = fill(kind(), known)
            put(message, path, most)
            yield ".".join(f.name for f in path), message


def resident(c):
    sizes = {}
    for name, process in c.processes.items():
        text = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        sizes[name] = int(re.search(r"VmRSS:\s+(\d+)", text)[1]) << 10
    return sizes


def answers(call, request):
    """Whatever the answer is, there is one."""
    try:
        return call(request, timeout=ANSWER_S * LIMIT)
    except grpc.RpcError as error:
        check(error.code().name not in ("DEADLINE_EXCEEDED", "UNAVAILABLE"),
              f"no answer to {type(request).__name__}", request, error.details())
        return None


LOOKS = {}  # by process: what the last look saw


def look(process):
    """Returns, since the last look, the seconds that a daemon's loop computed,
    which is its first thread, the seconds that passed, and the bytes that it
    grew. Processor time, so that a busy machine makes no difference."""
    root = pathlib.Path(f"/proc/{process.pid}")
    now = (int((root / f"task/{process.pid}/schedstat").read_text().split()[0]) / 1e9,
           time.monotonic(), int((root / "statm").read_text().split()[1]) * 4096)
    was = LOOKS.get(process.pid, now)
    LOOKS[process.pid] = now
    return [after - before for before, after in zip(was, now)]


def alive(c, said):
    for name, process in c.processes.items():
        check(process.poll() is None, f"{name} ended with {process.poll()}", said)
        computed, passed, grew = look(process)
        check(computed < TURN_S + BESIDE * passed,
              f"the loop of {name} computed for {computed:.3f} s", said)
        # Other daemons compute and write snapshots for the honest job meanwhile.
        check(name != "coordinator" or grew < MIB, f"{name} grew by {grew} bytes", said)


def known_of(member, number):
    job = member.opened[number]
    return {"job": number, "job_incarnation": job.job_incarnation, "id": f"j-{number}",
            "generation": 1, "incarnation": 1, "process": 7, "name": "x", "queue": "q",
            "worker": "w", "client": 7, "first": 1, "address": "127.0.0.1:1",
            "file": "x.snap", "failure": "none"}


def attend(c, numbers, known, jobs, name, kinds, **hello):
    """Says every kind of `kinds` on Attend, each number once at its largest."""
    said = 0
    member = Member(c, name, **hello)
    for field in COORD.AttendUp.DESCRIPTOR.fields:
        if not kinds(field.name):
            continue
        kind = getattr(COORD, field.message_type.name)
        for path, message in each(kind, numbers, known):
            if member.ended:  # it was refused, and its stream with it
                member.close()
                member = Member(c, name, **hello)
            member.say(**{field.name: message})
            said += 1
            answers(jobs.List, JOBS.ListRequest(limit=1))
            alive(c, f"{field.name}.{path}")
    member.close()
    return said


def ask(c, numbers, known):
    """Calls of clients, each number of them once at its largest."""
    said = 0
    for protos, stubs, service in ((JOBS, JOBS_CALLS, "Jobs"), (TASKS, TASKS_CALLS, "Tasks")):
        calls = {who: c.calls(getattr(stubs, f"{service}Stub"), who)
                 for who in ("client", "worker")}
        for method in protos.DESCRIPTOR.services_by_name[service].methods:
            if method.name == "Submit" or method.server_streaming:
                continue  # what is in a spec: specs()
            may = method.GetOptions().Extensions[OPTIONS.access].may_call
            who = "client" if OPTIONS.Access.ADMIN in may else "worker"
            kind = GetMessageClass(method.input_type)
            for path, request in each(kind, numbers, known):
                if path.endswith("wait_ms"):
                    continue  # it waits, as it was asked to
                answers(getattr(calls[who], method.name), request)
                said += 1
                alive(c, f"{method.name}: {path}")
    return said


def specs(c, numbers, jobs):
    """Job specs: what would be placed, and where."""
    said = 0
    sane = grpc_spec(external_job(name="large"))
    for path in fields_of(JOBS.SubmitRequest.DESCRIPTOR.fields_by_name["spec"].message_type):
        most = largest(numbers, path[-1])
        if most is None:
            continue
        request = JOBS.SubmitRequest(spec=sane, dry_run=True)
        put(request.spec, path, most)
        answers(jobs.Submit, request)
        said += 1
        alive(c, ".".join(f.name for f in path))
    return said


def grpc_spec(spec):
    from google.protobuf import json_format
    return json_format.ParseDict(spec, JOBS.SubmitRequest().spec)


def shards(c, numbers, member, lease, opened, shard):
    """Calls of a worker to a shard of a job of its own."""
    said = 0
    known = {"job": lease.job, "job_incarnation": opened.job_incarnation,
             "incarnation": shard.incarnation, "closure": lease.closure,
             "term": lease.attempt.term, "n": lease.attempt.n,
             "low": opened.token.low, "high": opened.token.high}
    calls = c.calls(PS_CALLS.ShardsStub, "worker", shard.address)
    for method, kind in (("Ask", PS.AskRequest), ("Push", PS.PushRequest),
                         ("Pull", PS.PullRequest)):
        for path, request in each(kind, numbers, known):
            if method == "Push":
                request.skip = True
            for optional in ("shm", "answer", "tag"):
                if not path.startswith(optional):
                    with_out(request, optional)
            answers_shard(getattr(calls, method), request)
            said += 1
            alive(c, f"{method}: {path}")
    return said


def with_out(request, name):
    if name in request.DESCRIPTOR.fields_by_name:
        request.ClearField(name)


def answers_shard(call, request):
    """A shard that is not admitted may say UNAVAILABLE. True if there was no error."""
    try:
        call(request, timeout=ANSWER_S * LIMIT)
        return True
    except grpc.RpcError as error:
        check(error.code().name != "DEADLINE_EXCEEDED" and
              "Socket closed" not in error.details(),
              f"no answer to {type(request).__name__}", request, error.details())
        return False


def generation_of(c, ranks, job):
    """The generation that a rank is in: one that asks for an older one is told."""
    number = int(job[2:])
    try:
        ranks.State(RANKS.StateRequest(job=number, generation=1, bytes=1, follower=7,
                                       token=COMMON.JobToken(**ring_token(c, job, 1))),
                    timeout=ANSWER_S * LIMIT)
    except grpc.RpcError as error:
        found = re.search(r"this rank is in (\d+)", error.details() or "")
        return int(found[1]) if found else 1
    return 1


def ring(c, numbers, job):
    """Calls of a rank to a rank, with the ring's token."""
    number, said, done = int(job[2:]), 0, 0
    port = re.search(r'"port":(\d+)', c.log("w-0"))[1]
    calls = c.calls(RANKS_CALLS.RanksStub, "worker-w-1", f"127.0.0.1:{port}")
    for method, kind in (("State", RANKS.StateRequest), ("Share", RANKS.ShareRequest),
                         ("Piece", RANKS.PieceRequest)):
        for path, _ in each(kind, numbers, {}):
            generation = generation_of(c, calls, job)
            known = {"job": number, "generation": generation, "bytes": 40, "follower": 7,
                     **ring_token(c, job, generation)}
            request = dict(each(kind, numbers, known))[path]
            done += answers_shard(getattr(calls, method), request)
            said += 1
            alive(c, f"{method}: {path}")
    check(done > 0, "no call showed what the ring asks for")
    return said


def the_largest_numbers_cost_a_rank_nothing():
    numbers, _ = bounds.read()
    c = Played([("worker", "w-1")], psservers=0, workers=2)
    c.args["worker"] += ["--store", str(c.dir / "store")]
    with c:
        spec = ring_job("honest", epochs=20000, workers=2, contributions=2)
        # While a part of a checkpoint is written no state is sent.
        spec["checkpoint"] = {"every_epoch": False, "every_seconds": 1000}
        del spec["data"]["test"]
        honest = c.submit(spec)
        wait_for("the ring to go", lambda: c.steps(honest) > 0)
        before = resident(c)
        said = ring(c, numbers, honest)
        check(said >= 15, "so few numbers?", said)
        check(c.status(honest)["state"] == "running", "the job has ended before the calls did")
        c.run("stop", honest, "--now")
        after = c.submit(ring_job("after", epochs=2, workers=2, contributions=2))
        check_counts(c.wait_state(after))
        for name, bytes_now in resident(c).items():
            grew = bytes_now - before[name] - (FOLLOWED if name == "w-0" else 0)
            check(grew < 16 * MIB, f"{name} grew by {grew} bytes", before)


def the_largest_numbers_cost_nothing():
    numbers, _ = bounds.read()
    with Played([("worker", "m-0")], psservers=1, workers=1) as c:
        c.no_history("strangers say what is not so")
        spec = mlp_job("honest", samples=6400, epochs=20)
        spec["model"]["layers"][1]["units"] = 16
        honest = c.submit(spec)
        wait_for("the honest job to run", lambda: c.steps(honest) > 0)
        jobs = c.calls(JOBS_CALLS.JobsStub)
        played = c.submit(external_job(samples=4096))
        with Member(c, "m-0", who="worker-m-0", external=True) as member:
            member.beat()
            lease, opened, shard = member.wait_lease()
            before = resident(c)
            known = known_of(member, lease.job)
            known |= {"closure": lease.closure, "term": lease.attempt.term,
                      "n": lease.attempt.n}
            said = shards(c, numbers, member, lease, opened, shard)
            said += attend(c, numbers, known, jobs, "m-1",
                           lambda k: k not in PSSERVERS | NOT_SAID)
            said += attend(c, numbers, known, jobs, "ps-9",
                           lambda k: k in PSSERVERS | {"heartbeat"},
                           who="psserver", role=2, address="127.0.0.1:1")
        said += ask(c, numbers, known)
        said += specs(c, numbers, jobs)
        check(said > 250, "so few numbers?", said)
        c.run("stop", played, "--now")
        check_counts(c.wait_state(honest))
        after = c.submit(mlp_job("after", samples=640, epochs=1))
        check_counts(c.wait_state(after))
        for name, bytes_now in resident(c).items():
            grew = bytes_now - before[name]
            check(grew < 16 * MIB, f"{name} grew by {grew} bytes", before)
        alive(c, "all of it")


if __name__ == "__main__":
    main([the_largest_numbers_cost_nothing, the_largest_numbers_cost_a_rank_nothing])
