#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Anyone may be a worker: the example program, which is stock Python and gRPC,
trains a job whose model is `external`, while its processes are killed."""
import json
import os
import signal
import subprocess
import sys

from cluster import (LIMIT, ROOT, Cluster, changed, check, check_counts, check_equal, main,
                     wait_for)

EXAMPLE = ROOT / "examples" / "external_worker.py"


class Program:
    """A worker of the user's own, started and killed like any process. `python`
    None: it is no script."""

    def __init__(self, c, name, path=EXAMPLE, words=(), python=sys.executable,
                 **environment):
        self.log = open(c.dir / f"{name}.log", "ab")
        self.process = subprocess.Popen(
            [*([python] if python else []), str(path), "--coordinator", c.address,
             "--name", name, *words],
            stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL,
            env={**os.environ, **environment})

    def end(self, how=signal.SIGKILL):
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(timeout=30 * LIMIT)
        self.log.close()


class Programs:
    """So many of a kind; the oldest is killed and another begun. start: name ->
    Program."""

    def __init__(self, start, count=2):
        self.start, self.begun, self.running = start, 0, []
        for _ in range(count):
            self.begin()

    def begin(self):
        self.running.append(self.start(f"program-{self.begun}"))
        self.begun += 1

    def replace(self):
        self.running.pop(0).end()
        self.begin()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for program in self.running:
            program.end()


def linear_job(epochs=8, samples=4096):
    return {"name": "linear",
            "model": {"type": "external", "variables": [
                {"name": "weights", "shape": [4], "initializer": "zeros"},
                {"name": "bias", "shape": [1], "initializer": "zeros"}]},
            "optimizer": {"type": "sgd", "learning_rate": 0.05},
            "data": {"train": {"format": "external", "samples": samples}},
            "train": {"batch": 32, "epochs": epochs, "steps_per_closure": 8,
                      "shuffle": False},
            "checkpoint": {"every_seconds": 1}}


def exported(c, job):
    from safetensors.numpy import load_file
    c.run("export", job, "--to", c.dir / "out.safetensors")
    return load_file(str(c.dir / "out.safetensors"))


def check_learnt(c, job):
    tensors = exported(c, job)
    got = [*tensors["weights"].tolist(), *tensors["bias"].tolist()]
    want = [2.0, -1.0, 0.5, 3.0, 0.25]
    check(max(abs(a - b) for a, b in zip(got, want)) < 0.02,
          f"learnt {got}, the data has {want}")


def a_stock_python_client_trains_and_dies():
    with Cluster(psservers=2, workers=0) as c:
        with Programs(lambda name: Program(c, name)) as programs:
            job = c.submit(linear_job(epochs=4))
            c.wait_steps(job, 60)
            programs.replace()
            c.wait_steps(job, 120)
            c.restart("ps-1")
            done = c.wait_state(job)
        check_counts(done)
        check_learnt(c, job)


def another_job_that_is_paused_ends_no_program():
    with Cluster(psservers=1, workers=0) as c:
        other = c.submit(linear_job())
        c.wait_state(other, "running")
        c.run("pause", other)
        with Programs(lambda name: Program(c, name), count=1):
            check_counts(c.wait_state(c.submit(linear_job(epochs=1))))


def sixteen_bits_from_a_program_of_the_users():
    """train.wire is for everybody; a shard takes each call as it comes, so a
    program that knows f32 alone may take part in such a job."""
    for wire in ("bf16", "f16"):
        with Cluster(psservers=2, workers=0) as c:
            spec = linear_job(epochs=2)
            spec["train"]["wire"] = wire
            old = c.dir / "old.py"
            old.write_text(changed(EXAMPLE.read_text(), {
                "pathlib.Path(__file__)": f"pathlib.Path({str(EXAMPLE)!r})",
                "WIRE[opened.spec.train.wire]": "ps.WIRE_F32"}))
            programs = [Program(c, "narrow"), Program(c, "f32", old)]
            try:
                job = c.submit(spec)
                done = c.wait_state(job)
            finally:
                for program in programs:
                    program.end()
            check_counts(done)
            check_learnt(c, job)


def a_checkpoint_of_an_ended_job_can_be_pulled():
    """The shards are closed, their files are not: export needs no shared disk."""
    import grpc
    import numpy as np
    sys.path.insert(0, str(ROOT / "proto"))
    ps, ps_grpc = grpc.protos_and_services("ps.proto")
    with Cluster(psservers=1, workers=0) as c:
        program = Program(c, "python")
        try:
            job = c.submit(linear_job(epochs=1))
            done = c.wait_state(job)
        finally:
            program.end()
        tensors = exported(c, job)
        c.restart("ps-0")
        cut = c.json("checkpoints", job)["checkpoints"][-1]
        stub = ps_grpc.ShardsStub(grpc.insecure_channel(f"unix:{c.dir}/ps-0.sock"))
        flat = b""
        for shard in sorted(cut["shards"], key=lambda s: int(s["shard"])):
            request = ps.PullRequest(job=int(done["job"]),
                                     job_incarnation=int(done["incarnation"]),
                                     shard=int(shard["shard"]))
            request.tag.incarnation = int(shard["tag"]["incarnation"])
            request.tag.sequence = int(shard["tag"]["sequence"])
            reply = stub.Pull(request, timeout=10 * LIMIT)
            check_equal(reply.version, int(shard["steps"]), "version of the file")
            flat += reply.payload
        want = np.concatenate([tensors["weights"], tensors["bias"]])
        check_equal(np.frombuffer(flat, np.float32).tolist(), want.tolist(), "values")
        request.tag.sequence += 1000
        try:
            stub.Pull(request, timeout=10 * LIMIT)
            check(False, "a snapshot that does not exist was answered")
        except grpc.RpcError as error:
            check_equal(error.code(), grpc.StatusCode.NOT_FOUND, "code")


def an_ordinary_worker_takes_no_external_job():
    with Cluster(psservers=1, workers=1) as c:
        job = c.submit(linear_job(epochs=1))
        wait_for("the job to wait for an external worker",
                 lambda: "external" in c.status(job)["reason"])
        check_equal(c.steps(job), 0, "steps without a program")
        program = Program(c, "python")
        try:
            check_counts(c.wait_state(job))
        finally:
            program.end()


def a_bad_push_is_refused_and_changes_nothing():
    """Wrong size and NaN: an error that says so, and the shard is as before."""
    import grpc
    sys.path.insert(0, str(ROOT / "proto"))
    ps, ps_grpc = grpc.protos_and_services("ps.proto")
    with Cluster(psservers=1, workers=0) as c:
        job = c.submit(linear_job(epochs=1))
        status = wait_for("the shards to be admitted", lambda: (
            lambda s: s if s["shards"] and all(int(x["incarnation"]) for x in s["shards"])
            else None)(c.status(job)))
        shard = status["shards"][0]
        stub = ps_grpc.ShardsStub(grpc.insecure_channel(f"unix:{c.dir}/ps-0.sock"))
        key = dict(job=int(status["job"]), job_incarnation=int(status["incarnation"]),
                   shard=0, incarnation=int(shard["incarnation"]))
        before = stub.Pull(ps.PullRequest(**key), timeout=10 * LIMIT)
        size = len(before.payload)
        for payload, word in [(b"\0" * (size - 4), "bytes"), (b"", "payload"),
                              (b"\0" * (size + 4), "bytes"),
                              (b"\0" * (size - 4) + b"\0\0\xc0\x7f", "nan")]:
            try:
                stub.Push(ps.PushRequest(**key, closure=0, step=0, samples=32,
                                         attempt={"term": 1, "n": 1},
                                         payload=payload), timeout=10 * LIMIT)
                check(False, f"a push of {len(payload)} bytes was taken")
            except grpc.RpcError as error:
                check_equal(error.code(), grpc.StatusCode.INVALID_ARGUMENT, "code")
                check(word in error.details(), f"no '{word}' in", error.details())
        after = stub.Pull(ps.PullRequest(**key), timeout=10 * LIMIT)
        check_equal((after.version, after.payload), (before.version, before.payload),
                    "the shard after refused pushes")
        check(json.dumps(c.status(job)), "the coordinator is gone")


if __name__ == "__main__":
    main([a_stock_python_client_trains_and_dies,
          another_job_that_is_paused_ends_no_program,
          sixteen_bits_from_a_program_of_the_users,
          a_checkpoint_of_an_ended_job_can_be_pulled,
          an_ordinary_worker_takes_no_external_job,
          a_bad_push_is_refused_and_changes_nothing])
