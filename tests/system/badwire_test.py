#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bad bytes on the sockets of running daemons: a typed error, no daemon goes
down or grows, nothing of the job changes, and it goes on afterwards."""
import contextlib
import os
import pathlib
import random
import socket
import struct
import threading

import grpc

from cluster import (LIMIT, Cluster, check, check_counts, check_equal, main, mlp_job,
                     wait_for)

ATTEND = "/sluice.v1.Coordinator/Attend"
JOBS = ["Submit", "Get", "List", "Stop", "Delete", "Checkpoints", "Cluster"]
SHARDS = ["Ask", "Push", "Pull", "PushPull"]
MIB = 1 << 20

# What a message that cannot be read or cannot be true is answered with.
TYPED = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.DATA_LOSS,
         grpc.StatusCode.OUT_OF_RANGE, grpc.StatusCode.RESOURCE_EXHAUSTED,
         grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNIMPLEMENTED}


# ---- bytes

def varint(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes(out + bytes([n]))


def block(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def nested(depth, number=1):
    """About 34 kB at a depth of 10,000: enough for protobuf-c's stack."""
    inner = b""
    for _ in range(depth):
        inner = block(number, inner)
    return inner


HOSTILE = {
    "10,000 messages deep": nested(10000),
    "10,000 deep in another field": nested(10000, 10),
    "a million empty messages": block(1, b"") * 1000000,
    "a packed count past the end": b"\x42" + varint(1 << 31) + b"\x01",
    "a group": b"\x0b\x08\x01\x0c",
    "groups without end": b"\x0b" * 5000,
    "a varint of eleven bytes": b"\x08" + b"\x80" * 10 + b"\x01",
    "a length past the end": b"\x0a\xff\xff\xff\xff\x0f",
    "field number 0": b"\x00\x01",
    "a wire type that is none": b"\x0e\x01",
}


# Fields that nobody knows are no error; these requests need no others.
WELL_FORMED = {"10,000 messages deep", "10,000 deep in another field",
               "a million empty messages"}
NEED_NOTHING = {"/sluice.v1.Jobs/List", "/sluice.v1.Jobs/Cluster"}


def random_bytes(rng):
    return {f"random bytes {i}": b"\x0a" + rng.randbytes(rng.randrange(1, 300))
            for i in range(20)}


# ---- calls

@contextlib.contextmanager
def dial(address):
    options = [("grpc.max_send_message_length", -1),
               ("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(address, options) as channel:
        yield channel


def raw_call(channel, method, data, limit_s=60):
    """The status code, and OK with the bytes of an answer."""
    call = channel.unary_unary(method)
    try:
        return grpc.StatusCode.OK, call(data, timeout=limit_s * LIMIT)
    except grpc.RpcError as error:
        return error.code(), error.details()


def attend(channel, data, stay, limit_s=60):
    """How a stream ends on which this was said first; `stay`: we do not."""
    ended = threading.Event()

    def say_it():
        yield data
        if stay:
            ended.wait(limit_s * LIMIT)
    stream = channel.stream_stream(ATTEND)(say_it(), timeout=limit_s * LIMIT)
    try:
        for _ in stream:
            pass
        return grpc.StatusCode.OK
    except grpc.RpcError as error:
        return error.code()
    finally:
        ended.set()


def check_refused(channel, method, what, data):
    code, details = raw_call(channel, method, data)
    if method in NEED_NOTHING and what in WELL_FORMED:
        return
    check(code in TYPED, f"{method}: {what}: {code}", details)
    check(details, f"{method}: {what}: {code} without words")


# ---- the cluster under attack

def at_rest():
    """A job with some steps counted and no worker: its status stands still."""
    c = Cluster(psservers=1, workers=1)
    c.start_all()
    job = c.submit(mlp_job("good", samples=3200, epochs=4000))
    c.wait_steps(job, 50)
    c.kill("w-0")
    wait_for("the worker to be missed", lambda: not members(c, "worker"))
    wait_for("the status to stand still", lambda: stands_still(c, job))
    return c, job


def members(c, role):
    return [m for m in c.cluster_status()["members"]
            if m["role"] == role and m["state"] != "lost"]


def stands_still(c, job):
    """All that was counted is reported, and heartbeats bring nothing new: of
    two the second was sent after we looked."""
    first = picture(c, job)
    whole = all(int(counts["counted"]) == int(first["steps"])
                for _, counts in first["shards"])
    for _ in range(2):
        await_heartbeat(c)
    return whole and picture(c, job) == first


def await_heartbeat(c):
    """Waits for the psserver's next one."""
    ages = [heartbeat_age(c)]

    def another():
        ages.append(heartbeat_age(c))
        return ages[-1] < ages[-2]
    wait_for("a heartbeat of ps-0", another)


def heartbeat_age(c):
    return float(members(c, "psserver")[0]["heartbeat_age_ms"])


def picture(c, job):
    status = c.status(job)
    for shard in status["shards"]:
        shard["counts"].pop("epochs", None)  # they come with the next cut
    return {"state": status["state"], "steps": status["steps_counted"],
            "shards": [(s["shard"], s["counts"]) for s in status["shards"]],
            "jobs": len(c.json("jobs").get("jobs", []))}


def memory(c, name):
    text = pathlib.Path(f"/proc/{c.processes[name].pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) * 1024


def check_unharmed(c, job, before, what):
    for name, process in c.processes.items():
        check(process.poll() is None,
              f"{what}: {name} ended with {process.returncode}")
    check_equal(picture(c, job), before, f"{what}: the job's status")


def goes_on(c, job):
    """The job counts further steps, each once."""
    counted = c.steps(job)
    c.start("w-0")
    c.wait_steps(job, counted + 100)
    other = c.submit(mlp_job("other", samples=640, epochs=1))
    check_counts(c.wait_state(other))


@contextlib.contextmanager
def under_attack(what):
    c, job = at_rest()
    with contextlib.ExitStack() as stack:
        stack.push(c.__exit__)
        before = picture(c, job)
        grown = {name: memory(c, name) for name in c.processes}
        yield c
        check_unharmed(c, job, before, what)
        for name, bytes_ in grown.items():
            more = memory(c, name) - bytes_
            check("SLUICE_PATIENCE" in os.environ or more < 300 * MIB,
                  f"{what}: {name} has grown by {more // MIB} MiB")
        goes_on(c, job)


def addresses(c):
    return {"coordinator": c.address, "ps-0": f"unix:{c.dir}/ps-0.sock"}


# ---- tests

def malformed_messages_are_refused():
    rng = random.Random(int(os.environ.get("SLUICE_SEED", "1")))
    with under_attack("malformed messages") as c:
        where = addresses(c)
        with dial(where["coordinator"]) as channel:
            for what, data in HOSTILE.items():
                for method in JOBS:
                    check_refused(channel, f"/sluice.v1.Jobs/{method}", what,
                                  data)
                code = attend(channel, data, what not in WELL_FORMED)
                # A kind of message that it does not know is passed over.
                check(code in TYPED or what in WELL_FORMED,
                      f"Attend: {what}: {code}")
        with dial(where["ps-0"]) as channel:
            for method in SHARDS:
                for what, data in {**HOSTILE, **random_bytes(rng)}.items():
                    check_refused(channel, f"/sluice.v1.Shards/{method}",
                                  what, data)


def messages_that_are_too_long_are_refused():
    with under_attack("long messages") as c:
        where = addresses(c)
        with dial(where["coordinator"]) as channel:
            for method in JOBS:
                code, _ = raw_call(channel, f"/sluice.v1.Jobs/{method}",
                                   block(1, bytes(5 * MIB)))
                check_equal(code, grpc.StatusCode.RESOURCE_EXHAUSTED,
                            f"{method} with 5 MiB")
        with dial(where["ps-0"]) as channel:
            for method, size in (("Ask", 5), ("Pull", 5), ("Push", 65),
                                 ("PushPull", 65)):
                code, _ = raw_call(channel, f"/sluice.v1.Shards/{method}",
                                   block(15, bytes(size * MIB)))
                check(code in TYPED, f"{method} with {size} MiB: {code}")


def unknown_methods_are_answered():
    with under_attack("unknown methods") as c:
        for name, address in addresses(c).items():
            with dial(address) as channel:
                for method in ("/sluice.v1.Jobs/Nothing", "/x", "/",
                               "/grpc.Nothing/Here",
                               "/sluice.v1.Coordinator/attend",
                               "/sluice.v1.Shards/" + "x" * 4000):
                    code, _ = raw_call(channel, method, b"")
                    check_equal(code, grpc.StatusCode.UNIMPLEMENTED,
                                f"{name}: {method[:40]}")


# ---- HTTP/2 by hand

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags, stream, payload=b""):
    return (struct.pack(">I", len(payload))[1:] + bytes([kind, flags])
            + struct.pack(">I", stream) + payload)


def text(s):
    return bytes([len(s)]) + s.encode()


def headers(path="/sluice.v1.Jobs/List"):
    """HPACK without a table: POST, http, path, authority, type, te."""
    return (b"\x83\x86\x04" + text(path) + b"\x01" + text("x")
            + b"\x0f\x10" + text("application/grpc") + b"\x00" + text("te")
            + text("trailers"))


OPENING = PREFACE + frame(4, 0, 0)


def rapid_reset(n):
    return OPENING + b"".join(
        frame(1, 4, 2 * i + 1, headers())
        + frame(3, 0, 2 * i + 1, struct.pack(">I", 8)) for i in range(n))


RAW = {
    "nothing": b"",
    "half a preface": PREFACE[:10],
    "another protocol": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": bytes.fromhex("1603010200010001fc0303") + bytes(200),
    "garbage": bytes(range(256)) * 64,
    "half a frame": OPENING + frame(1, 4, 1, headers())[:20],
    "headers without end": OPENING + frame(1, 0, 1, headers()),
    "a call without its message": OPENING + frame(1, 4, 1, headers()),
    "half a message": OPENING + frame(1, 4, 1, headers())
    + frame(0, 0, 1, b"\0" + struct.pack(">I", 1000) + b"x"),
    "a message of 4 GiB": OPENING + frame(1, 4, 1, headers())
    + frame(0, 0, 1, b"\0\xff\xff\xff\xff" + bytes(1000)),
    "a compressed message": OPENING + frame(1, 4, 1, headers())
    + frame(0, 1, 1, b"\1" + struct.pack(">I", 4) + b"abcd"),
    "a frame of 16 MiB": OPENING + b"\xff\xff\xff" + bytes([0, 0])
    + struct.pack(">I", 1) + bytes(1000),
    "bad HPACK": OPENING + frame(1, 4, 1, b"\xff" * 200),
    "a window that overflows": OPENING + frame(
        8, 0, 0, struct.pack(">I", 0x7FFFFFFF)) * 2,
    "streams that go back": OPENING + frame(1, 4, 5, headers())
    + frame(1, 4, 3, headers()),
    "20,000 pings": OPENING + frame(6, 0, 0, bytes(8)) * 20000,
    "20,000 settings": OPENING + frame(4, 0, 0) * 20000,
    "2,000 resets": rapid_reset(2000),
    "1,000 continuations": OPENING + frame(1, 0, 1, headers())
    + frame(9, 0, 1, b"\0" + text("a") + text("b" * 100)) * 1000,
    "1 MiB of metadata": OPENING + frame(1, 0, 1, headers())
    + frame(9, 0, 1, (b"\0" + text("a") + b"\x7f\x81\x7e" + b"b" * 16256))
    * 63 + frame(9, 4, 1),
}


def say(address, data):
    """A connection that has said this, or as much as the peer took. It stays
    open: nobody waits for an answer."""
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.connect(address.removeprefix("unix:"))
    s.settimeout(2)
    with contextlib.suppress(OSError):
        s.sendall(data)
    return s


def broken_http2_harms_nobody():
    with under_attack("broken HTTP/2") as c:
        with contextlib.ExitStack() as open_:
            for name, address in addresses(c).items():
                for data in RAW.values():
                    for _ in range(3):
                        open_.enter_context(say(address, data))
                with dial(address) as channel:
                    code, _ = raw_call(channel, "/x", b"")
                    check_equal(code, grpc.StatusCode.UNIMPLEMENTED,
                                f"{name}: a call beside all that")


def many_idle_connections_harm_nobody():
    with under_attack("idle connections") as c:
        with contextlib.ExitStack() as open_:
            for address in addresses(c).values():
                for _ in range(200):
                    open_.enter_context(say(address, PREFACE[:5]))
            c.cluster_status()


if __name__ == "__main__":
    main([malformed_messages_are_refused,
          messages_that_are_too_long_are_refused,
          unknown_methods_are_answered, broken_http2_harms_nobody,
          many_idle_connections_harm_nobody])
