# SPDX-License-Identifier: Apache-2.0
"""Mode local: the bytes of a sample, how fast a shard applies a contribution, and what
workers get done that differ in speed, that die, or that are behind a slow link.

Workers of local-mixed and local-goodput are programs whose step takes a time and no
processor (tests/system/conserve_local.py): what they lose, others cannot make up for
with the cores of this machine.
"""
import json
import subprocess
import time

import cluster
import exact_local
from bed import ROOT, Bed, wait_for
from link import Link
from peers.start import diloco, interpreter, peer
from rows.jobs import Job, alternate
from rows.net import BATCH as NET_BATCH
from rows.net import NET, FarBed
from rows.python import LOOP, environment
from scrape import OPS, address, metrics, value
from table import at_least, at_most, once, row

BATCH, STEPS, UNITS = 8, 100, 512  # 407,050 parameters
ASYNC_STEPS = 2000
NEEDS = ["psserver"]


class LocalBed(Bed):
    """2 psservers and 2 workers that share no memory, so that all goes as bytes."""

    def __init__(self):
        super().__init__(psservers=2, workers=2, cpu=None, psserver_args=["--shm", "off", *OPS],
                         worker_args=["--shm", "off"])

    def begin(self, **train):
        spec = cluster.mlp_job("bytes", samples=50000, epochs=10000, batch=BATCH, **train)
        spec["model"]["layers"][1]["units"] = UNITS
        spec["checkpoint"] = {"every_epoch": False, "every_seconds": 0}
        spec["evaluate"] = {"every_epochs": 0}
        return self.submit(spec)

    def moved(self):
        """Bytes that psservers have sent and received."""
        return sum(value(metrics(address(self, name)), f"sluice_rpc_{way}_bytes_total")
                   for name in ("ps-0", "ps-1") for way in ("sent", "received"))

    def bytes_per_sample(self, job, steps, samples):
        """Of so many counted steps, each of so many samples; the job runs."""
        self.wait_steps(job, steps // 4 + 1)
        first, before = self.steps(job), self.moved()
        wait_for("more steps", lambda: self.steps(job) >= first + steps, 300)
        moved, last = self.moved() - before, self.steps(job)
        return moved / ((last - first) * samples)


def figures(bench, up, down):
    """Bytes of a sample in mode local, and in mode async with f32."""
    ours, peer = [], []
    with LocalBed() as c:
        for _ in range(bench.rounds):
            job = c.begin(mode="local", contributions=2,
                          inner={"steps": STEPS, "up": up, "down": down})
            ours.append(c.bytes_per_sample(job, 20, STEPS * BATCH))
            c.run("stop", job)
            c.wait_state(job, "stopped")
            job = c.begin()
            peer.append(c.bytes_per_sample(job, ASYNC_STEPS, BATCH))
            c.run("stop", job)
            c.wait_state(job, "stopped")
    bench.note(f"{up} up, {down} down: {ours[-1]:.0f} bytes a sample, and {peer[-1]:.0f}: "
               f"1/{peer[-1] / ours[-1]:.0f}")
    return ours, peer


@row("local-bytes", unit="bytes/sample", peer="mode async, f32", bar=at_most(1 / 400),
     needs=NEEDS)
def local_bytes(bench):
    """Both ways, 100 steps a contribution, e3m0 both ways."""
    return figures(bench, "e3m0", "e3m0")


@row("local-bytes-topk2", unit="bytes/sample", peer="mode async, f32",
     bar=at_most(1 / 1000), needs=NEEDS)
def local_bytes_topk2(bench):
    """The same with topk2 up and e3m0 down."""
    return figures(bench, "topk2", "e3m0")


@row("local-apply", unit="GB/s", peer="a = b + x c", bar=at_least(0.8),
     needs=["local_apply"])
def local_apply(bench):
    """Memory traffic of a shard that decodes a contribution in e3m0 and takes a step
    with momentum: parameters and slot read and written, and the code."""
    done = bench.program("local_apply", "--rounds", bench.rounds, "--cpu", bench.client_cpu)
    bench.note(f"with a mirror, of which workers get changes: "
               f"{done['mirrored'] / 1e9:.2f} GB/s of the same bytes")
    return [[rate / 1e9 for rate in done[side]] for side in ("ours", "peer")]


@row("local-apply-open", unit="GB/s", peer="a = b + x c", bar=at_least(0.8),
     needs=["local_apply"])
def local_apply_open(bench):
    """The same of a round without slots, which keeps no parameters of the one before."""
    done = bench.program("local_apply", "--rounds", bench.rounds, "--cpu", bench.client_cpu)
    return [[rate / 1e9 for rate in done[side]] for side in ("open", "peer")]


# ---- programs whose steps take a time

# Seconds of a step of DeepMind's four kinds of device (arXiv 2401.09135), a 20th.
MIXED = [0.58 / 20, 0.75 / 20, 1.51 / 20, 3.33 / 20]
ALIKE = [0.02] * 4
FEW_SAMPLES = 2  # of a step
WAY = "quorum"  # of tests/system/exact_local.py, with a quorum of all but one
NEEDS_PROGRAMS = ["psserver", "libsluice"]


class Paced(Job):
    """Two psservers, and a program for each of these paces."""

    def __init__(self, bench, paces):
        super().__init__(over="tcp", psservers=2, cpu=None)
        self.bench, self.paces = bench, list(paces)
        self.programs, self.begun = [], 0

    def __enter__(self):
        super().__enter__()
        for pace in self.paces:
            self.begin_program(pace)
        return self

    def __exit__(self, *words):
        while self.programs:
            self.end_program()
        super().__exit__(*words)

    def begin_program(self, pace):
        with open(self.dir / f"paced-{self.begun}.log", "wb") as log:
            self.programs.append((pace, subprocess.Popen(
                [interpreter(self.bench), ROOT / "tests/system/conserve_local.py",
                 "--coordinator", self.address, "--name", f"paced-{self.begun}",
                 "--step-ms", str(1e3 * pace), "--shm"],
                stdout=log, stderr=log, env=environment())))
        self.begun += 1

    def end_program(self):
        pace, process = self.programs.pop(0)
        process.kill()
        process.wait()
        return pace

    def replace(self):
        """The program that has lived longest dies, and another begins."""
        self.begin_program(self.end_program())

    def begin(self, samples, steps):
        """Submits a job, and waits until each program has counted something."""
        spec = exact_local.program_job(WAY, every_seconds=1, samples=samples)
        spec["train"].update(batch=FEW_SAMPLES, quorum=len(self.paces) - 1,
                             contributions=len(self.paces))
        spec["train"]["inner"]["steps"] = steps
        job = self.submit(spec)
        self.wait_steps(job, 4 * len(self.paces))
        return job


def alone_per_s(bench, paces):
    """Steps/s of programs that only take their steps, side by side."""
    running = [subprocess.Popen(
        [interpreter(bench), LOOP, "paced", "--pace", str(pace), "--seconds",
         str(bench.window(8))], stdout=subprocess.PIPE, env=environment()) for pace in paces]
    told = [program.communicate(timeout=300)[0] for program in running]
    return sum(json.loads(line)["per_s"] for line in told)


@row("local-mixed", unit="samples/s", peer="the sum of the paces", bar=at_least(0.97),
     needs=NEEDS_PROGRAMS, long="the slowest takes its time")
def local_mixed(bench):
    """Four workers of 29 to 167 ms a step in open rounds, against their steps alone."""
    steps = 10

    def ours():
        with Paced(bench, MIXED) as c:
            job = c.begin(1 << 16, steps)
            return FEW_SAMPLES * steps * c.steps_per_s(job, 2 * bench.window(20))
    told = alternate(bench, ours, lambda: FEW_SAMPLES * alone_per_s(bench, MIXED))
    note_floor(bench, told[1], FEW_SAMPLES * sum(1 / pace for pace in MIXED))
    return told


def note_floor(bench, seen, most):
    """Says so where the machine delays sleeps of the floor by more than the bar's margin."""
    if min(seen) < 0.97 * most:
        bench.note(f"the floor itself has {min(seen):.0f} to {max(seen):.0f} of "
                   f"{most:.0f}, which sleeps that are not delayed have: too busy a "
                   "machine to judge by the bar")


KILL_S, RESTART_S = 10, 60  # from one worker's death to the next; of each server


def disturbed(c, job, seconds):
    """Counted steps/s while programs and daemons die."""
    began, first = c.look(job)
    at = [(KILL_S * i, c.replace) for i in range(round(seconds / KILL_S))]
    for i in range(round(seconds / RESTART_S)):
        at += [(RESTART_S * i + 25, lambda i=i: c.restart(f"ps-{i % 2}")),
               (RESTART_S * i + 45, lambda: c.restart("coordinator"))]
    for when, blow in sorted(at, key=lambda blow: blow[0]):
        time.sleep(max(0, began + when - time.monotonic()))
        blow()
    time.sleep(max(0, began + seconds - time.monotonic()))
    ended, last = c.look(job)
    return (last - first) / (ended - began), len(at)


STEPS_OF_PACED = 25


@once
def goodput(bench):
    """Counted samples/s while programs and daemons die, and undisturbed before that. Each
    sample counts once: by the shards, and by the rows that it moved."""
    quiet, seconds = bench.window(20), 60 * bench.minutes
    with Paced(bench, ALIKE) as c:
        samples = FEW_SAMPLES * sum(1 / pace for pace in ALIKE) * (seconds + quiet + 10)
        job = c.begin(round(samples), STEPS_OF_PACED)
        alone = c.steps_per_s(job, quiet)
        ours, blows = disturbed(c, job, seconds)
        done = c.wait_state(job, limit_s=600)
        cluster.check_counts(done)
        for rows in exact_local.moved(c, job):
            found = exact_local.wrong(rows, WAY, whole=1)
            cluster.check(not found, found)
    bench.note(f"{blows} kills in {seconds:.0f} s, {done['closures_retried']} contributions "
               f"done again; {done['steps_counted']} counted of {done['steps_asked']}")
    each = FEW_SAMPLES * STEPS_OF_PACED
    return [each * ours], [each * alone]


@row("local-goodput", unit="samples/s", peer="the same, undisturbed", bar=at_least(0.95),
     needs=NEEDS_PROGRAMS, long="a kill every 10 s for --minutes")
def local_goodput(bench):
    """A worker dies every 10 s, a psserver and the coordinator every 60 s."""
    return goodput(bench)


def while_workers_die(bench, script):
    """The figure of local-goodput, and that of a peer of which only workers die."""
    told = peer(bench, script, find=diloco, limit_s=60 * bench.minutes + 300,
                kills=max(1, round(60 * bench.minutes / KILL_S)), every=KILL_S,
                ranks=len(ALIKE), pace=ALIKE[0], steps=STEPS_OF_PACED)
    bench.note(f"{told['what']}: {FEW_SAMPLES * told['per_s']:.0f} samples/s kept under "
               f"{told['kills']} kills, {FEW_SAMPLES * told['undisturbed_per_s']:.0f} "
               "undisturbed")
    return goodput(bench)[0], [FEW_SAMPLES * told["per_s"]]


@row("local-torchft", unit="samples/s", peer="torchft's DiLoCo, gloo", bar=at_least(2),
     needs=NEEDS_PROGRAMS, long="a kill every 10 s for --minutes")
def local_torchft(bench):
    """The same against torchft's DiLoCo, of which ranks die and no server does."""
    return while_workers_die(bench, "torchft_diloco.py")


@row("local-hivemind", unit="samples/s", peer="hivemind's Optimizer", bar=at_least(2),
     needs=NEEDS_PROGRAMS, long="a kill every 10 s for --minutes")
def local_hivemind(bench):
    """The same against hivemind's Optimizer with local updates."""
    return while_workers_die(bench, "hivemind_local.py")


# ---- a slow link

FAR_STEPS = 100
BYTES = {"e3m0": 0.516, "bf16": 2}  # of a number
MBIT = {"1gbit": 1000, "100mbit": 100}


def over_link(bench, rate, sets=("train.contributions=1",), down="e3m0", counted=FAR_STEPS):
    """Milliseconds of a step of a worker whose cluster is behind a link of this rate, and
    of bare_step with Adam on one core. `sets`: more of the job; `counted`: steps of what
    is counted as one."""
    sets = ["train.mode=local", f"train.inner.steps={FAR_STEPS}", "train.inner.up=e3m0",
            f"train.inner.down={down}", *sets]
    alone = {"--spec": NET, "--batch": NET_BATCH, "--rounds": 1, "--cpu": bench.client_cpu,
             "--seconds": 2 * bench.seconds}

    def bare():
        told = bench.program("bare_step", *(word for pair in alone.items() for word in pair),
                             *bench.capped())
        travel = told["parameters"] * (BYTES["e3m0"] + BYTES[down]) * 8e-3 / MBIT[rate]
        bench.note(f"one after the other, both ways of {FAR_STEPS} steps take {travel:.0f} "
                   f"ms: {travel / FAR_STEPS / told['step_ms'][0]:.3f} of these steps")
        return told["step_ms"][0]
    with Link(rate) as link:
        def ours():
            with FarBed(link, (bench.server_cpu, bench.client_cpu)) as c:
                return c.step_ms(bench.window(30), *sets, warm=1) / counted
        return bench.between(ours, bare)


NEEDS_LINK = ["psserver", "bare_step"]
LONG_LINK = "contributions of 100 steps"


@row("local-link", unit="ms", peer="the step alone", bar=at_most(1.05), needs=NEEDS_LINK,
     long=LONG_LINK)
def local_link(bench):
    """A worker's step behind 1 Gbit/s, contributions of 100 steps in e3m0."""
    return over_link(bench, "1gbit")


@row("local-link-100m", unit="ms", peer="the step alone", bar=at_most(1.05),
     needs=NEEDS_LINK, long=LONG_LINK)
def local_link_100m(bench):
    """The same behind 100 Mbit/s."""
    return over_link(bench, "100mbit")


FRAGMENTS = 4


@row("local-link-stream", unit="ms", peer="the step alone", bar=at_most(1.05),
     needs=NEEDS_LINK, long=LONG_LINK)
def local_link_stream(bench):
    """Behind 100 Mbit/s in fragments that travel while the worker computes, bf16 down."""
    return over_link(bench, "100mbit", [
        "train.contributions=2", "train.quorum=1", f"train.fragments={FRAGMENTS}",
        "train.overlap=5", "placement.shard_bytes=2097152"], down="bf16",
        counted=FAR_STEPS // FRAGMENTS)
