# SPDX-License-Identifier: Apache-2.0
"""Programs of the user's own, through the Python package."""
import json
import os
import subprocess

import cluster
from bed import ROOT, check, wait_for
from peers.start import interpreter, peer
from rows.jobs import BATCH, LONG_TORCH, WARM_STEPS, Job, alternate
from table import MIB, at_least, at_most_more, row

LOOP = ROOT / "bench" / "python_loop.py"
NEEDS = ["psserver", "libsluice"]


def environment():
    return {**os.environ, "PYTHONPATH": str(ROOT / "python"),
            "PYTHONDONTWRITEBYTECODE": "1", "SLUICE_BIN": str(cluster.BIN),
            "SLUICE_LIBRARY": str(cluster.BIN.parent / "lib" / "libsluice.so.0")}


def line(bench, what, *words):
    return [interpreter(bench), str(LOOP), what, *map(str, words)]


def loop(bench, what, *words):
    """Steps per second of a program that ends, on the clients' core."""
    done = subprocess.run(
        line(bench, what, "--cpu", bench.client_cpu, *bench.timed(), *words),
        capture_output=True, text=True, check=False, timeout=300, env=environment())
    check(done.returncode == 0, f"python_loop {what}: exit {done.returncode}",
          done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])["per_s"]


# ---- the fashion net

class Programs(Job):
    """Two programs of torch, a core each, and 2 psservers on either."""

    def __init__(self, bench):
        super().__init__(over="tcp", psservers=2, cpu=None)
        self.bench, self.programs = bench, []

    def __enter__(self):
        super().__enter__()
        for i, cpu in enumerate((self.bench.server_cpu, self.bench.client_cpu)):
            with open(self.dir / f"torch-{i}.log", "wb") as log:
                self.programs.append(subprocess.Popen(
                    line(self.bench, "fashion", "--coordinator", self.address,
                         "--name", f"torch-{i}", "--cpu", cpu),
                    stdout=log, stderr=log, env=environment()))
        return self

    def __exit__(self, *words):
        for program in self.programs:
            program.kill()
            program.wait()
        super().__exit__(*words)

    def images_per_s(self):
        job = wait_for("a job", lambda: next(
            (j["id"] for j in self.json("jobs").get("jobs", [])), None), 60)
        wait_for("warm programs", lambda: all(
            "ready" in (self.dir / f"torch-{i}.log").read_text() for i in range(2)), 120)
        self.wait_steps(job, WARM_STEPS)
        return BATCH * self.steps_per_s(job, self.bench.window(4))


def torch_images_per_s(bench):
    with Programs(bench) as c:
        return c.images_per_s()


@row("job-torch", unit="images/s", peer="2 x torch alone on one core",
     bar=at_least(0.85), needs=NEEDS)
def job_torch(bench):
    """Fashion net in torch, 2 programs of sluice.torch and 2 psservers."""
    def alone():
        return 2 * peer(bench, "torch_local.py", seconds=bench.seconds, threads=1,
                        compile=0, cpu=bench.client_cpu)["per_s"]
    return bench.between(lambda: torch_images_per_s(bench), alone)


@row("job-torch-ddp", unit="images/s", peer="torch DDP, gloo, 2 ranks",
     bar=at_least(1.2), needs=NEEDS, long=LONG_TORCH)
def job_torch_ddp(bench):
    """The same against DistributedDataParallel, eager or compiled."""
    def theirs():  # which of the two is faster depends on the machine
        return max(peer(bench, "torch_ddp.py", seconds=bench.seconds,
                        compile=way)["per_s"] for way in (0, 1))
    return alternate(bench, lambda: torch_images_per_s(bench), theirs)


# ---- what the package costs

def lib_push(bench, c, job):
    return bench.program("lib_push", "--coordinator", c.address, "--job", job,
                         *bench.timed(), "--cpu", bench.client_cpu)["per_s"]


@row("push-python", unit="GB/s", peer="libsluice in C", bar=at_least(0.95),
     needs=NEEDS + ["lib_push"])
def push_python(bench):
    """Steps of 16 MiB that a NumPy program pushes and pulls, in bytes."""
    with bench.cluster(over="tcp") as c:
        _, target = c.place(elements=4 * MIB)
        job = target[target.index("--job") + 1]
        return bench.between(
            lambda: 16 * MIB / 1e9 * loop(bench, "push", "--coordinator", c.address,
                                          "--job", job),
            lambda: 16 * MIB / 1e9 * lib_push(bench, c, job))


@row("step-overhead", unit="us", peer="torch alone + libsluice in C",
     bar=at_most_more(60, "us"), needs=NEEDS + ["lib_push"])
def step_overhead(bench):
    """A step of a torch net of 10 variables through the package."""
    elements = 5 * (32 * 32 + 32)
    with bench.cluster(over="tcp") as c:
        _, target = c.place(elements=elements, steps_per_closure=128)
        job = target[target.index("--job") + 1]
        return bench.between(
            lambda: 1e6 / loop(bench, "small", "--coordinator", c.address),
            lambda: 1e6 / loop(bench, "alone") + 1e6 / lib_push(bench, c, job))
