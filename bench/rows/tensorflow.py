# SPDX-License-Identifier: Apache-2.0
"""What moves and schedules, against TensorFlow's parameter servers."""
import json
import os
import pathlib
import subprocess

from bed import check, cluster
from peers.start import interpreter, peer
from rows.jobs import LONG_TF, Job
from table import MIB, at_least, row

UPDATE = 16 * MIB


@row("push-tf", unit="GB/s", peer="TensorFlow's assign_sub", bar=at_least(2.3),
     needs=["psserver", "ps_load"],
     long=LONG_TF)
def push_tf(bench):
    """Dense updates of 16 MiB over TCP, SGD applied, 4 outstanding; placed as
    jobs are by default, in shards of 1 MiB."""
    with bench.cluster(over="tcp") as c:
        _, target = c.place(elements=UPDATE // 4)

        def ours():
            return bench.program("ps_load", *target, *bench.timed(), "--mode",
                                 "push", "--outstanding", 4,
                                 "--cpu", bench.client_cpu)["bytes_per_s"] / 1e9

        def theirs():
            return peer(bench, "tf_push.py", seconds=bench.seconds)["per_s"] / 1e9
        return bench.alternate(ours, theirs)


class EmptyClosures(Job):
    """A cluster whose workers compute nothing: each closure is one step that
    pushes one number, which the shard counts, and is completed. A worker on
    each core, the coordinator beside the first, the psserver beside the other:
    all of them are as busy as each other."""

    target = ()

    def __init__(self, cpus):
        super().__init__(over="unix", cpu=cpus[1])
        self.coordinator_cpu = cpus[0]

    def command(self, name):
        if name[0] == "c":
            return ["taskset", "-c", str(self.coordinator_cpu),
                    *super().command(name)]
        if name[0] == "p":
            return super().command(name)
        return [str(cluster.BIN / "bench.lease_load"), *map(str, self.target),
                "--coordinator", self.address, "--seconds", "600",
                "--cpu", name[2:], "--shm", "calls"]

    def begin(self, cpus):
        job, self.target = self.place(elements=1, shards=1, steps_per_closure=1)
        for cpu in cpus:
            self.start(f"w-{cpu}", wait=False)
        self.wait_steps(job, 1000)
        return job


@row("closures", unit="closures/s", peer="TensorFlow's coordinator",
     bar=at_least(30), needs=["psserver", "lease_load"],
     long=LONG_TF)
def closures(bench):
    """Closures of one step that computes nothing, coordinator and 2 workers."""
    cpus = bench.server_cpu, bench.client_cpu

    def ours():
        with EmptyClosures(cpus) as c:
            return c.steps_per_s(c.begin(cpus), bench.seconds)

    def theirs():
        return peer(bench, "tf_closures.py", seconds=bench.seconds)["per_s"]
    return bench.alternate(ours, theirs)


class OnFirst(Job):
    """A cluster of a coordinator alone, on the first core."""

    def command(self, name):
        return ["taskset", "-c", str(self.cpu), *super().command(name)]


def tasks_per_s(bench, c):
    script = pathlib.Path(__file__).parents[1] / "tasks_load.py"
    done = subprocess.run(
        ["taskset", "-c", str(bench.server_cpu), interpreter(bench), script,
         "--coordinator", c.address, "--cpu", str(bench.client_cpu),
         "--seconds", str(bench.seconds)],
        capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "SLUICE_LIBRARY": str(bench.folder / "lib" / "libsluice.so")})
    check(done.returncode == 0, f"tasks_load.py: exit {done.returncode}", done.stderr)
    return json.loads(done.stdout)["per_s"]


@row("schedule", unit="tasks/s", peer="TensorFlow's coordinator", bar=at_least(5),
     needs=["psserver", "libsluice"], long=LONG_TF)
def schedule(bench):
    """Tasks of 16 bytes through the Python package, handlers in Python: client and
    coordinator on one core, 2 workers on the other."""
    def ours():
        with OnFirst(over="unix", cpu=bench.server_cpu, psservers=0) as c:
            return tasks_per_s(bench, c)

    def theirs():
        return peer(bench, "tf_closures.py", seconds=bench.seconds)["per_s"]
    return bench.alternate(ours, theirs)
