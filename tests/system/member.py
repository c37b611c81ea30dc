# SPDX-License-Identifier: Apache-2.0
"""Members that a test plays by hand, over stock gRPC and with a certificate of
the test's choice, in a cluster whose ports ask for certificates."""
import contextlib
import queue
import secrets
import sys
import threading
import time

from access_test import Guarded
from cluster import LIMIT, LONG_LEASE, ROOT

sys.path.insert(0, str(ROOT / "proto"))
import grpc  # noqa: E402

COMMON = grpc.protos("common.proto")
COORD, COORD_CALLS = grpc.protos_and_services("coord.proto")
PS, PS_CALLS = grpc.protos_and_services("ps.proto")
RANKS, RANKS_CALLS = grpc.protos_and_services("ranks.proto")
JOBS, JOBS_CALLS = grpc.protos_and_services("jobs.proto")
TASKS, TASKS_CALLS = grpc.protos_and_services("tasks.proto")

PROTOCOL = 2  # WIRE_PROTOCOL
UNLIMITED = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1),
             ("grpc.max_send_message_length", -1)]


class Played(Guarded):
    """A cluster with TLS in which a test speaks for members and clients itself. A
    member that it plays is lost when its stream ends, and not for want of a heartbeat."""

    def __init__(self, made=(), **options):
        super().__init__(made, **{"coordinator_args": LONG_LEASE, **options})

    def channel(self, who="client", address=None):
        """A channel to `address` (the coordinator) with the certificate `who`."""
        files = (self.certs / f for f in ("ca.crt", f"{who}.key", f"{who}.crt"))
        return grpc.secure_channel(
            address or self.address,
            grpc.ssl_channel_credentials(*(f.read_bytes() for f in files)), UNLIMITED)

    def calls(self, stub, who="client", address=None):
        """`stub` (JOBS_CALLS.JobsStub, ...) over a channel of its own."""
        return stub(self.channel(who, address))


class Member:
    """A member on Attend. It says what the test has it say, and nothing else.

    `opened`, `maps` and `leases` keep what the coordinator sent; `ended` is the
    reason why the stream ended. Hello's fields can be given as keywords.
    """

    def __init__(self, cluster, name, who="worker", role=1, **hello):
        self.name, self.ended = name, None
        self.got, self.opened, self.maps, self.leases = [], {}, {}, []
        self.changed = threading.Condition()
        self.words = queue.Queue()
        self.channel = cluster.channel(who)
        said = {"role": role, "name": name, "protocol": PROTOCOL, "pid": 1, "host": name,
                "process": secrets.randbits(62) + 1, "version": "test", "edition": 99,
                "ranks": True, "groups": True, **hello}
        self.say(hello=COORD.Hello(**said))
        self.stream = COORD_CALLS.CoordinatorStub(self.channel).Attend(
            iter(self.words.get, None))
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def say(self, **kind):
        self.words.put(COORD.AttendUp(**kind))

    def listen(self):
        try:
            for down in self.stream:
                self.hear(down)
            self.ended = "OK"
        except grpc.RpcError as error:
            self.ended = f"{error.code().name}: {error.details()}"
        with self.changed:
            self.changed.notify_all()

    def hear(self, down):
        kind = down.WhichOneof("kind")
        with self.changed:
            self.got.append(down)
            if kind == "job_open":
                self.opened[down.job_open.job] = down.job_open
                self.maps[down.job_open.job] = down.job_open.map
            elif kind == "map":
                self.maps[down.map.job] = down.map
            elif kind == "leases":
                self.leases += list(down.leases.lease)
            self.changed.notify_all()

    def wait(self, probe, limit_s=20):
        """What probe() gives once it is true; None if the stream ends, or after the limit."""
        end = time.monotonic() + limit_s * LIMIT
        with self.changed:
            while not probe():
                if self.ended or time.monotonic() > end:
                    return None
                self.changed.wait(0.2)
            return probe()

    def find(self, kind):
        """The messages of one kind that were heard."""
        with self.changed:
            return [getattr(d, kind) for d in self.got if d.WhichOneof("kind") == kind]

    def wait_lease(self, limit_s=20):
        """(lease, JobOpen, shard 0 of its map), once the shard serves."""
        lease = self.wait(lambda: self.leases and self.leases[-1], limit_s)
        if lease is None:
            return None
        shard = self.wait(lambda: next((s for s in self.maps[lease.job].shards
                                        if s.incarnation), None), limit_s)
        return lease, self.opened[lease.job], shard

    def beat(self, seconds=0.4):
        """Sends heartbeats from now on, with progress in each of the newest leases."""
        def run():
            number = 0
            while not self.ended:
                number += 1
                with self.changed:
                    held = [COORD.LeaseProgress(job=lease.job, closure=lease.closure,
                                                attempt=lease.attempt, progress=number)
                            for lease in self.leases[-64:]]
                self.say(heartbeat=COORD.Heartbeat(seq=number, leases=held))
                time.sleep(seconds)  # between two heartbeats
        threading.Thread(target=run, daemon=True).start()

    def close(self):
        self.words.put(None)
        with contextlib.suppress(Exception):
            self.stream.cancel()
        self.thread.join(10)
        self.channel.close()


def external_job(name="external", samples=1024, elements=16, shards=1, **train):
    """A job whose steps an external worker computes: a variable `v` of `elements`."""
    return {"name": name,
            "model": {"type": "external", "variables": [
                {"name": "v", "shape": [max(elements, shards)], "initializer": "zeros"}]},
            "optimizer": {"type": "sgd", "learning_rate": 1e-6},
            "data": {"train": {"format": "external", "samples": samples}},
            "train": {"batch": 1, "epochs": 1, "shuffle": False, "steps_per_closure": 16,
                      **train},
            "placement": {"partitioner": "fixed", "shards": shards},
            "checkpoint": {"every_seconds": 1}}
