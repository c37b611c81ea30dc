#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A worker of your own, in stock Python: linear regression for Sluice.

    sluice submit examples/external.yaml --no-wait
    build/venv/bin/python examples/external_worker.py

It needs grpcio, grpcio-tools and the .proto files, nothing else of Sluice. It
attends the coordinator, takes closures, asks the shards where each stands,
pulls, computes a gradient per step, pushes it, and reports the closure done.
Start several, kill any of them at any time: each step counts once, because the
shards see to that. Rule names (W1, I4 ...) are those of docs/protocol.md; the
comments in proto/coord.proto and proto/ps.proto say what each field means.

Ends when the job has ended, or at Ctrl-C (what it holds is handed back).
"""
import argparse
import itertools
import os
import pathlib
import queue
import random
import secrets
import socket
import struct
import sys
import threading
import time

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "proto"))
common = grpc.protos("common.proto")
coord, coord_grpc = grpc.protos_and_services("coord.proto")
ps, ps_grpc = grpc.protos_and_services("ps.proto")

CALL_S = 10  # deadline of one call to a shard
WELCOME_S = 10  # a coordinator that says nothing for so long is given up
AWAY_S = 60     # so long none of a list of coordinators may serve
AGAIN_S = 0.2   # until the next of them is dialled


# ---- the problem: y = w . x + b, with a little noise ----------------------

TRUE_WEIGHTS, TRUE_BIAS = [2.0, -1.0, 0.5, 3.0], 0.25


def sample(number):
    """Sample `number` of the data set: the same for every worker."""
    draw = random.Random(number)
    x = [draw.gauss(0, 1) for _ in TRUE_WEIGHTS]
    y = sum(w * v for w, v in zip(TRUE_WEIGHTS, x)) + TRUE_BIAS
    return x, y + draw.gauss(0, 0.01)


def gradient(parameters, numbers):
    """Mean squared error over the samples and its gradient. The parameters
    are one flat list: all variables of the job, one after another."""
    weights, bias = parameters[:-1], parameters[-1]
    grad, loss = [0.0] * len(parameters), 0.0
    for number in numbers:
        x, y = sample(number)
        error = sum(w * v for w, v in zip(weights, x)) + bias - y
        loss += error * error
        for i, v in enumerate(x + [1.0]):
            grad[i] += 2 * error * v / len(numbers)
    return loss, grad


# ---- arithmetic that the protocol defines ---------------------------------

MASK = (1 << 64) - 1


def mix64(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def digest(epoch, numbers):
    """What a step adds to its epoch's digest: proves that each sample of the
    epoch was counted once (invariant `cover`)."""
    return sum(mix64(mix64(epoch) ^ n) for n in numbers) & MASK


WIRE = {"": ps.WIRE_F32, "f32": ps.WIRE_F32, "bf16": ps.WIRE_BF16, "f16": ps.WIRE_F16}


def floats(data, wire=ps.WIRE_F32):
    """The numbers of a payload, little-endian."""
    if wire == ps.WIRE_F16:
        return list(struct.unpack(f"<{len(data) // 2}e", data))
    if wire == ps.WIRE_BF16:  # the upper half of an f32
        data = b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2))
    return list(struct.unpack(f"<{len(data) // 4}f", data))


def payload(values, wire=ps.WIRE_F32):
    """And back, to nearest even. Too large for an f16: the largest there is."""
    n = len(values)
    if wire == ps.WIRE_F16:
        return struct.pack(f"<{n}e", *(min(max(v, -65504.0), 65504.0) for v in values))
    data = struct.pack(f"<{n}f", *values)
    if wire == ps.WIRE_BF16:
        bits = struct.unpack(f"<{n}I", data)
        return struct.pack(f"<{n}H", *(b + 0x7FFF + (b >> 16 & 1) >> 16 for b in bits))
    return data


# ---- the worker -----------------------------------------------------------

class Dropped(Exception):
    """This closure is not ours any more; nothing is lost by that."""


class Job:
    """What JobOpen told us, and the newest map."""

    def __init__(self, opened):
        self.id = opened.job
        self.incarnation = opened.job_incarnation
        # Proof that we were given the job; a coordinator of before says none.
        self.token = opened.token if opened.HasField("token") else None
        self.name = opened.job_name
        self.geometry = opened.geometry
        self.wire = WIRE[opened.spec.train.wire]
        self.map = opened.map
        # A shard is one contiguous range of the flat vector of variables.
        sizes = {}
        for piece in opened.pieces:
            sizes[piece.shard] = sizes.get(piece.shard, 0) + piece.elements
        self.ranges, at = [], 0
        for shard in sorted(sizes):
            self.ranges.append((at, at + sizes[shard]))
            at += sizes[shard]
        self.parameters = [0.0] * at

    def epoch_of(self, closure):
        g = self.geometry
        steps = -(-g.samples // g.batch)
        return closure // -(-steps // g.steps_per_closure)


class Worker:
    """`tls`: paths of the authority, of our certificate and of its key."""

    def __init__(self, address, name, tls=None):
        self.address, self.name, self.tls = address, name, tls
        self.up = queue.Queue()       # messages to the coordinator
        self.leases = queue.Queue()   # leases to run, in order; None: the end
        self.held = {}                # (job, closure) -> lease
        self.jobs = {}
        self.channels = {}            # address of a psserver -> stub
        self.changed = threading.Condition()  # reentrant; guards jobs, held and maps
        self.failure = None
        self.served = 0.0             # when the coordinator was last heard
        self.progress = 0             # rises while we get on: see LeaseProgress

    def dial(self, address):
        if self.tls is None:
            return grpc.insecure_channel(address)
        ca, cert, key = (pathlib.Path(path).read_bytes() for path in self.tls)
        return grpc.secure_channel(
            address, grpc.ssl_channel_credentials(ca, key, cert))

    # -- the stream to the coordinator: two threads, up and down

    def say(self, **kind):
        self.up.put(coord.AttendUp(**kind))

    def attend(self):
        channel = self.dial(self.address)
        stream = coord_grpc.CoordinatorStub(channel).Attend(
            iter(self.up.get, None))
        self.late = threading.Timer(WELCOME_S, stream.cancel)
        self.late.daemon = True
        self.late.start()
        self.say(hello=coord.Hello(
            role=coord.ROLE_WORKER, name=self.name,
            process=secrets.randbits(63) + 1, pid=os.getpid(),
            host=socket.gethostname(), version="python-example",
            device="cpu (python)", protocol=2, external=True))
        try:
            for message in stream:
                self.hear(message)
        except grpc.RpcError as error:
            self.failure = f"{error.code().name}: {error.details()}"
        self.late.cancel()
        with self.changed:  # nobody renews our leases or sends us maps now
            self.held.clear()
            self.changed.notify_all()
        self.leases.put(None)

    def heartbeat(self, every_ms):
        """Renews every lease that we hold."""
        seq = 0
        while True:
            time.sleep(every_ms / 1000)
            seq += 1
            with self.changed:
                leases = [coord.LeaseProgress(job=l.job, closure=l.closure,
                                              attempt=l.attempt,
                                              progress=self.progress)
                          for l in self.held.values()]
            self.say(heartbeat=coord.Heartbeat(seq=seq, leases=leases))

    def hear(self, message):
        kind = message.WhichOneof("kind")
        body = getattr(message, kind) if kind else None
        self.served = time.monotonic()
        with self.changed:
            if kind == "welcome":
                self.late.cancel()
                print(f"attending {self.address} as {self.name}, "
                      f"term {body.term}", flush=True)
                threading.Thread(target=self.heartbeat, daemon=True,
                                 args=(body.heartbeat_ms,)).start()
            elif kind == "job_open":
                self.jobs[body.job] = Job(body)
            elif kind == "map" and body.job in self.jobs:
                if body.version > self.jobs[body.job].map.version:
                    self.jobs[body.job].map = body
            elif kind == "leases":
                for lease in body.lease:
                    self.held[lease.job, lease.closure] = lease
                    self.leases.put(lease)
            elif kind == "revoke":
                self.revoked(body)
            elif kind == "goodbye":
                self.failure = body.why
            self.changed.notify_all()

    def revoked(self, revoke):
        for key, lease in list(self.held.items()):
            if key[0] == revoke.job and (revoke.whole_job or
                                         key[1] == revoke.closure):
                del self.held[key]
        # Who attaches is told of each job that is paused, also of others' jobs.
        if revoke.whole_job and revoke.job in self.jobs:
            print(f"job {revoke.job} has ended: {revoke.why}", flush=True)
            self.leases.put(None)

    # -- calls to the shards

    def entry(self, lease, job, shard):
        """Where a shard lies, under which incarnation; waits until it is
        admitted (incarnation 0: it is not, now)."""
        with self.changed:
            while True:
                self.check_held(lease)
                for entry in job.map.shards:
                    if entry.shard == shard and entry.incarnation:
                        return entry.address, entry.incarnation
                self.changed.wait(1)

    def call(self, lease, job, shard, method, make):
        """One call, repeated with the same key while its outcome is unknown.
        Returns the answer; waits for a newer map where that is needed."""
        pause = 0.1
        while True:
            address, incarnation = self.entry(lease, job, shard)
            if address not in self.channels:
                self.channels[address] = ps_grpc.ShardsStub(self.dial(address))
            try:
                return getattr(self.channels[address], method)(
                    make(incarnation), timeout=CALL_S), incarnation
            except grpc.RpcError as error:
                if error.code() not in (grpc.StatusCode.UNAVAILABLE,
                                        grpc.StatusCode.DEADLINE_EXCEEDED,
                                        grpc.StatusCode.RESOURCE_EXHAUSTED,
                                        grpc.StatusCode.CANCELLED):
                    raise
            time.sleep(pause * (0.5 + random.random()))
            pause = min(2 * pause, 2.0)

    def check_held(self, lease):
        with self.changed:
            if self.held.get((lease.job, lease.closure)) is not lease:
                raise Dropped("revoked")

    def check_refused(self, job, reply):
        """LookupError: the map was too old; ask again with a newer one (W1)."""
        if not reply.HasField("refused"):
            return
        if reply.refused.why != ps.REFUSED_INCARNATION:
            # A newer attempt runs (I4), or the job was restored to a cut.
            raise Dropped(ps.RefusedWhy.Name(reply.refused.why))
        have = job.map.version
        self.say(map_wanted=coord.MapWanted(job=job.id, have_version=have))
        with self.changed:
            self.changed.wait_for(lambda: job.map.version > have, timeout=1)
        raise LookupError("evidence is void")

    def keys(self, lease, job, shard, incarnation):
        return dict(job=job.id, job_incarnation=job.incarnation, token=job.token,
                    shard=shard, incarnation=incarnation,
                    closure=lease.closure, attempt=lease.attempt)

    # -- a closure

    def ask(self, lease, job):
        """The steps that each shard has counted, and the incarnations that
        this is a fact of."""
        counted, evidence = [], {}
        for shard in range(len(job.ranges)):
            reply, _ = self.call(lease, job, shard, "Ask", lambda i: ps.AskRequest(
                **self.keys(lease, job, shard, i), proof=lease.proof))
            self.check_refused(job, reply)
            evidence[shard] = reply.incarnation
            bits = int.from_bytes(reply.counted, "little")
            counted.append([bits >> step & 1 for step in range(lease.steps)])
        return counted, evidence

    def pull(self, lease, job):
        for shard, (first, end) in enumerate(job.ranges):
            reply, _ = self.call(lease, job, shard, "Pull", lambda i: ps.PullRequest(
                job=job.id, job_incarnation=job.incarnation, token=job.token,
                shard=shard, incarnation=i, wire=job.wire))
            job.parameters[first:end] = floats(reply.payload, reply.wire)
            self.versions[shard] = reply.version

    def push(self, lease, job, shard, step, numbers, grad, incarnation,
             late=False):
        """False: the gradient is of parameters that are too old by now."""
        first, end = job.ranges[shard]
        reply, _ = self.call(lease, job, shard, "PushPull", lambda i: ps.PushRequest(
            **self.keys(lease, job, shard, i), step=step,
            based_on=self.versions[shard], map_version=job.map.version,
            samples=len(numbers),
            digest=digest(job.epoch_of(lease.closure), numbers),
            late=late, wire=job.wire,
            payload=payload(grad[first:end], job.wire)))
        if reply.refused.why == ps.REFUSED_STALE:
            return False
        self.check_refused(job, reply)
        if reply.incarnation != incarnation:
            raise LookupError("evidence is of another incarnation")
        job.parameters[first:end] = floats(reply.payload, reply.wire)
        self.versions[shard] = reply.version
        self.progress += 1
        return True

    def gradient(self, job, lease, step, numbers):
        """Override this, and you have a worker of your own."""
        return gradient(job.parameters, numbers)

    def step(self, lease, job, step, numbers, evidence):
        """One step on every shard. Shards that refuse it for its delay
        (train.max_delay) get it again, of fresh parameters; the fourth time
        they take it as it is, at a smaller rate."""
        missing = dict.fromkeys(evidence, 0)
        while missing:
            loss, grad = self.gradient(job, lease, step, numbers)
            missing = {shard: refused + 1 for shard, refused in missing.items()
                       if not self.push(lease, job, shard, step, numbers, grad,
                                        evidence[shard], late=refused >= 3)}
            if missing:
                self.pull(lease, job)
        return loss

    def run(self, lease, job, metrics):
        """Runs what is missing of a closure; returns the evidence."""
        self.versions = {}
        counted, evidence = self.ask(lease, job)
        self.pull(lease, job)
        for step in range(lease.steps):
            if all(shard[step] for shard in counted):
                continue
            first = lease.first + step * job.geometry.batch
            last = min(first + job.geometry.batch, lease.first + lease.count)
            numbers = range(first, last)
            loss = self.step(lease, job, step, numbers, evidence)
            metrics.steps += 1
            metrics.samples += len(numbers)
            metrics.loss_sum += loss
        return evidence

    def complete(self, lease):
        job, metrics = self.jobs[lease.job], coord.StepMetrics()
        while True:
            try:
                evidence = self.run(lease, job, metrics)
                break
            except LookupError:
                continue  # a shard lives under another incarnation: ask again
        self.say(complete=coord.Complete(
            job=job.id, job_incarnation=job.incarnation, closure=lease.closure,
            attempt=lease.attempt, kind=coord.LEASE_TRAIN, metrics=metrics,
            evidence=[coord.ShardEvidence(shard=s, incarnation=i)
                      for s, i in sorted(evidence.items())]))  # W2
        if metrics.samples:
            print(f"closure {lease.closure}: {metrics.steps} steps, loss "
                  f"{metrics.loss_sum / metrics.samples:.6f}", flush=True)

    def work(self):
        """One closure after another until there is no more."""
        while (lease := self.leases.get()) is not None:
            try:
                self.check_held(lease)
                if lease.kind != coord.LEASE_TRAIN:
                    raise Dropped("this program only trains")
                self.complete(lease)
            except Dropped as why:
                self.say(hand_back=coord.HandBack(
                    job=lease.job, closure=lease.closure, kind=lease.kind,
                    attempt=lease.attempt, cut=lease.cut, why=str(why)))
            with self.changed:
                self.held.pop((lease.job, lease.closure), None)

    def leave(self):
        with self.changed:
            for lease in self.held.values():
                self.say(hand_back=coord.HandBack(
                    job=lease.job, closure=lease.closure, kind=lease.kind,
                    attempt=lease.attempt, why="leaving"))
            self.held.clear()
        self.up.put(None)  # ends our side of the stream


def tls_options(parser):
    """Where other hosts can reach the daemons, as of our own workers."""
    for name, what in (("ca", "the authority"), ("cert", "a worker's certificate"),
                       ("key", "its key")):
        parser.add_argument(f"--tls-{name}", metavar="FILE", help=what)


def tls_of(parser, options):
    files = options.tls_ca, options.tls_cert, options.tls_key
    if any(files) and not all(files):
        parser.error("--tls-ca, --tls-cert and --tls-key go together")
    return files if all(files) else None


def attend_one_of(addresses, name, tls):
    """Works for whichever coordinator of the list serves, until the job has ended or
    none serves. What was held when one failed is leased again by the next."""
    served = time.monotonic()
    for address in itertools.cycle(addresses):
        worker = Worker(address, name, tls)
        stream = threading.Thread(target=worker.attend, daemon=True)
        stream.start()
        try:
            worker.work()
        except KeyboardInterrupt:
            print("leaving", flush=True)
            worker.failure = None
        worker.leave()
        stream.join(2)
        served = max(served, worker.served)
        if (worker.failure is None or len(addresses) == 1 or
                time.monotonic() - served > AWAY_S):
            return worker
        time.sleep(AGAIN_S)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--coordinator", metavar="ADDRESS",
                        default=os.environ.get("SLUICE_COORDINATOR",
                                               "127.0.0.1:7070"),
                        help="or a list with commas between, of which one serves")
    parser.add_argument("--name", default=f"python-{os.getpid()}")
    tls_options(parser)
    options = parser.parse_args()

    worker = attend_one_of(options.coordinator.split(","), options.name,
                           tls_of(parser, options))
    for job in worker.jobs.values():
        print(f"{job.name}: the last parameters seen are "
              f"{[round(p, 3) for p in job.parameters]}, those of the data "
              f"{TRUE_WEIGHTS + [TRUE_BIAS]}")
    if worker.failure and not worker.jobs:
        sys.exit(f"external_worker: {options.coordinator}: {worker.failure}")


if __name__ == "__main__":
    main()
