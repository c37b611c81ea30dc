#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Conservation: what was pushed is what is there, to the last integer.

Each closure has a prime of its own, which every step of it pushes as its
gradient; SGD subtracts it with rate 1. Sums stay below 2^24, so they are exact
in f32, and the final parameters are a sum that anyone can compute. Beside the
prime a step pushes 1, its closure and its number: a wrong integer then names
the step that was lost or counted twice (account()).

As a program it is a worker (the class of examples/external_worker.py) which
does not go away with its coordinator, and which misbehaves as it is told:

    --die-on SAMPLE     ends as by kill -9 when it is to compute that sample
    --hang-on SAMPLE    stops for ever at it, with heartbeats
    --raise-on SAMPLE   says that the attempt failed
    --half-push CLOSURE  dies between the two shards of the closure's first step
    --step-ms MS        what a gradient costs
    --shm               sends no payloads: shares memory (shm_worker.py)
    --via OLD=NEW       dials NEW where the map says OLD (a proxy of a test)
"""
import argparse
import contextlib
import faulthandler
import functools
import itertools
import math
import os
import pathlib
import signal
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIELDS = 4  # prime, 1, closure + 1, step + 1
SAMPLES, BATCH, STEPS = 384, 4, 4


def primes(count):
    found, n = [], 2
    while len(found) < count:
        if all(n % p for p in itertools.takewhile(lambda p: p * p <= n, found)):
            found.append(n)
        n += 1
    return found


def step_vector(prime, closure, step):
    return [prime, 1, closure + 1, step + 1]


def conserve_job(name="conserve", samples=SAMPLES, epochs=20, every_seconds=0.5,
                 variables=4):
    """96 steps an epoch as it stands, in closures of 4: 24 primes an epoch.
    Variables of one row each, so that they spread over the shards."""
    return {"name": name,
            "model": {"type": "external", "variables": [
                {"name": f"v{i}", "shape": [16, FIELDS], "initializer": "zeros"}
                for i in range(variables)]},
            "optimizer": {"type": "sgd", "learning_rate": 1.0},
            "data": {"train": {"format": "external", "samples": samples}},
            "train": {"batch": BATCH, "epochs": epochs,
                      "steps_per_closure": STEPS, "shuffle": False},
            "checkpoint": {"every_seconds": every_seconds}}


def steps_of(samples, epochs):
    """(closure, step within it) of every step, by plan/schedule.h's rule:
    a closure does not cross an epoch."""
    per_epoch = math.ceil(samples / BATCH)
    closures = math.ceil(per_epoch / STEPS)
    for closure in range(closures * epochs):
        left = per_epoch - closure % closures * STEPS
        for step in range(min(STEPS, left)):
            yield closure, step


@functools.cache
def expected(samples, epochs):
    """The four numbers that every row must hold in the end."""
    keys = list(steps_of(samples, epochs))
    of = primes(keys[-1][0] + 1)
    total = [0] * FIELDS
    for closure, step in keys:
        for i, part in enumerate(step_vector(of[closure], closure, step)):
            total[i] += part
    assert max(total) < 1 << 24, "sums would not be exact: fewer epochs"
    return total, of


def account(got, samples, epochs):
    """What is wrong with a row of final parameters, in words; "" if nothing."""
    want, of = expected(samples, epochs)
    delta = [round(g) - w for g, w in zip(got, want)]
    if not any(delta) and all(float(g).is_integer() for g in got):
        return ""
    text = f"got {list(got)}, want {want}"
    if abs(delta[1]) == 1:
        sign = delta[1]
        word = "counted twice" if sign > 0 else "lost"
        closure, step = sign * delta[2] - 1, sign * delta[3] - 1
        text += f": closure {closure} (prime {of[closure]}), step {step}, was {word}"
    else:
        text += f": {delta[1]:+d} steps"
    return text


def rows_of(c, job, spec):
    """(name, row) of every row of every variable of a finished job."""
    from cluster import check
    from safetensors.numpy import load_file
    path = c.dir / f"{job}.safetensors"
    c.run("export", job, "--to", path)
    tensors = load_file(str(path))
    check(len(tensors) == len(spec["model"]["variables"]), "variables exported")
    for name, rows in sorted(tensors.items()):
        for number, row in enumerate(rows):
            yield f"{name}[{number}]", [-float(x) for x in row]


def check_conserved(c, job, spec=None):
    """Every row of every variable of a finished job is the exact sum."""
    from cluster import check
    spec = spec or conserve_job()
    samples, epochs = spec["data"]["train"]["samples"], spec["train"]["epochs"]
    for name, row in rows_of(c, job, spec):
        wrong = account(row, samples, epochs)
        check(not wrong, f"conservation: {name}: {wrong}")


def surplus(c, job, spec):
    """How many steps each row holds too many (or too few, below 0)."""
    samples, epochs = spec["data"]["train"]["samples"], spec["train"]["epochs"]
    steps = len(list(steps_of(samples, epochs)))
    return [round(row[1]) - steps for _, row in rows_of(c, job, spec)]


class Programs:
    """Conservation workers of a test: started, killed and ended by it. A cluster may
    say which program they run, and with which words."""

    def __init__(self, c, count=2, *flags):
        self.c, self.running = c, {}
        self.always = getattr(c, "program_words", ())
        self.file = getattr(c, "program_file", __file__)
        for i in range(count):
            self.start(f"x-{i}", *flags)

    def start(self, name, *flags):
        import orphans
        words = ["--coordinator", self.c.address, "--name", name, *self.always, *flags]
        path = f"{ROOT / 'examples'}:{pathlib.Path(__file__).parent}"
        self.running[name] = orphans.begin(
            ["external_worker"], {"PYTHONPATH": path}, self.file, words,
            self.c.dir / f"{name}.log")
        return self.running[name]

    def kill(self, name):
        process = self.running.pop(name)
        process.kill()
        process.wait(timeout=120)

    def restart(self, name, *flags):
        self.kill(name)
        self.start(name, *flags)

    def tell(self):
        """Where a test has failed: each writes into its log what it is doing, or
        here, how it has ended."""
        from cluster import Failed, wait_for
        for name, process in self.running.items():
            if process.poll() is not None:
                print(f"{name} had ended: {process.returncode}", file=sys.stderr)
                continue
            process.send_signal(signal.SIGUSR1)
            with contextlib.suppress(Failed):
                wait_for(f"{name} to say where it is", lambda: process.poll() is not
                         None or "most recent call" in self.c.log(name), limit_s=5)

    def __enter__(self):
        return self

    def __exit__(self, kind=None, *_):
        if kind is not None:
            self.tell()
        for name in list(self.running):
            self.kill(name)


# ---- the worker

def make_worker(options):
    sys.path.insert(0, str(ROOT / "examples"))
    import external_worker as example
    of = primes(1024)
    via = dict(pair.split("=", 1) for pair in options.via)

    base = example.Worker
    if options.shm:
        import shm_worker
        base = shm_worker.sharing(example, base)

    class Conserver(base):
        def entry(self, lease, job, shard):
            address, incarnation = super().entry(lease, job, shard)
            return via.get(address, address), incarnation

        def gradient(self, job, lease, step, numbers):
            if options.die_on in numbers:
                os._exit(9)
            if options.hang_on in numbers:
                threading.Event().wait()
            time.sleep(options.step_ms / 1000)
            if options.raise_on in numbers:
                self.fail(lease, f"sample {options.raise_on} is not to my taste")
            row = step_vector(of[lease.closure], lease.closure, step)
            return 0.0, row * (len(job.parameters) // FIELDS)

        def push(self, lease, job, shard, step, *rest, **more):
            if options.half_push == lease.closure and shard == 1:
                os._exit(9)
            return super().push(lease, job, shard, step, *rest, **more)

        def fail(self, lease, text):
            self.say(failed=example.coord.AttemptFailed(
                job=lease.job, closure=lease.closure, attempt=lease.attempt,
                kind=lease.kind, code=13, text=text))
            with self.changed:
                self.held.pop((lease.job, lease.closure), None)
            raise example.Dropped("failed")

    return Conserver(options.coordinator, options.name,
                     example.tls_of(options.parser, options))


def number(parser, flag):
    parser.add_argument(flag, type=int, default=-1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--coordinator", required=True)
    parser.add_argument("--name", default=f"conserve-{os.getpid()}")
    for flag in ("--die-on", "--hang-on", "--raise-on", "--half-push"):
        number(parser, flag)
    parser.add_argument("--step-ms", type=float, default=2)
    parser.add_argument("--shm", action="store_true")
    parser.add_argument("--via", action="append", default=[])
    for name in ("ca", "cert", "key"):
        parser.add_argument(f"--tls-{name}", metavar="FILE")
    options = parser.parse_args()
    options.parser = parser
    faulthandler.register(signal.SIGUSR1)  # where does it hang?
    turn = threading.Event()
    places = itertools.cycle(options.coordinator.split(","))
    while True:  # until it is killed: a lost coordinator comes back, or another leads
        options.coordinator = next(places)
        worker = make_worker(options)
        threading.Thread(target=worker.attend, daemon=True).start()
        worker.work()
        worker.leave()
        print(f"dialing again: {worker.failure}", flush=True)
        turn.wait(0.1)  # between dials


if __name__ == "__main__":
    main()
