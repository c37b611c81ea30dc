# SPDX-License-Identifier: Apache-2.0
"""Where rows are measured: the build, pinned programs, clusters of real daemons.

Two cores: servers run on the first, clients on the second, so that the scheduler
cannot put both on one in one run and apart in the next.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "system"))
import cluster  # noqa: E402
from cluster import Failed, check, wait_for  # noqa: E402,F401

# Enough that no run ever counts them all.
STEPS = 1 << 36
STEPS_OF_TABLES = 1 << 31
STEPS_PER_CLOSURE = 16
ONEDNN_ISAS = {"avx2": "AVX2", "avx512": "AVX512_CORE"}
BUILT = {"psserver": ["coordinator", "psserver", "worker", "sluice"],
         "libsluice": ["sluice_lib"]}


def at_one_pace(ours, peer):
    """Figures of which each pair was measured side by side: ours as it were at
    the peer's median pace. The medians' ratio is then that of the median pair."""
    pace = statistics.median(peer)
    return [o / p * pace for o, p in zip(ours, peer)], list(peer)


class Bed(cluster.Cluster):
    """A cluster whose psservers all run on `cpu` (None: anywhere) and listen
    on TCP or unix."""

    isa = None  # that workers are held to

    def __init__(self, over="tcp", cpu=0, **options):
        super().__init__(**{"workers": 0, "psservers": 1, **options})
        self.over, self.cpu = over, cpu

    def command(self, name):
        line = super().command(name)
        if name.startswith("ps"):
            if self.over == "tcp":
                line += ["--listen", "127.0.0.1:0"]
            if self.cpu is not None:
                line = ["taskset", "-c", str(self.cpu), *line]
        return line + self.capped() if name.startswith("w") else line

    def capped(self):
        """Options of a worker."""
        return ["--isa", self.isa] if self.isa else []

    def place(self, elements, shards=None, optimizer="sgd", every_s=0,
              steps_per_closure=STEPS_PER_CLOSURE, max_workers=0, variables=1,
              shard_bytes=None, tables=(), replicas=0, replicate="ack"):
        """An `external` job of so many elements, in variables of one size, and
        these tables, placed and admitted; gives what ps_load and lease_load
        want to know."""
        spec = {
            "name": f"bench-{optimizer}",
            "model": {"type": "external", "variables": [
                {"name": f"v{i}", "shape": [elements // variables],
                 "initializer": "zeros"} for i in range(variables)]},
            "optimizer": {"type": optimizer, "learning_rate": 1e-6},
            "data": {"train": {"format": "external", "samples": STEPS}},
            "train": {"batch": 1, "epochs": 1, "shuffle": False,
                      "steps_per_closure": steps_per_closure,
                      "max_workers": max_workers},
            "checkpoint": {"every_epoch": False, "every_seconds": every_s,
                           "keep": 1},
        }
        if shards:
            spec["placement"] = {"partitioner": "fixed", "shards": shards}
        if tables:
            spec["model"]["tables"] = tables
            spec["data"]["train"]["samples"] = STEPS_OF_TABLES
        if shard_bytes:
            spec["placement"] = {"shard_bytes": shard_bytes}
        if replicas:
            spec.setdefault("placement", {}).update(replicas=replicas, replicate=replicate)
        job = self.submit(spec)
        status = self.wait_state(job, "running")
        address = {m["name"]: m["address"]
                   for m in self.cluster_status()["members"]
                   if m["role"] == "psserver"}
        target = ["--job", status["job"],
                  "--job-incarnation", status["incarnation"]]
        for shard in status["shards"]:
            target += ["--shard", f"{address[shard['psserver']]}="
                                  f"{shard['incarnation']}"]
        return job, target

    def resident_peak(self, name):
        """Bytes: the most that it ever had."""
        with open(f"/proc/{self.processes[name].pid}/status",
                  encoding="ascii") as f:
            return next(int(line.split()[1]) * 1024 for line in f
                        if line.startswith("VmHWM"))


class Bench:
    """What a row's function is given. `quick`: seconds matter more than noise;
    `isa`: the instruction set that everybody is held to, None: this host's;
    `minutes`: for how long local-goodput kills."""

    def __init__(self, folder, rounds, seconds, quick=False, isa=None, minutes=2):
        self.minutes = minutes
        self.folder, self.rounds, self.seconds = folder, rounds, seconds
        self.quick, self.isa = quick, isa
        Bed.isa = isa
        if isa:  # of the peers; ours are told by an option
            os.environ.update(
                ONEDNN_MAX_CPU_ISA=ONEDNN_ISAS[isa], ATEN_CPU_CAPABILITY=isa,
                # Else inductor takes what it compiled for wider vectors.
                TORCHINDUCTOR_CACHE_DIR=str(folder / f"inductor-{isa}"))
        cpus = sorted(os.sched_getaffinity(0))
        check(len(cpus) >= 2, "two cores are needed: one for the servers, "
                              "one for the clients")
        self.server_cpu, self.client_cpu = cpus[:2]
        self.shared_values = {}
        self.name = "bench"

    # ---- build

    def build(self, needs):
        """Release, into a folder of its own; only what the rows want."""
        targets = set()
        for need in needs:
            targets.update(BUILT.get(need, [f"bench.{need}"]))
        if not targets:
            return
        self.quietly([str(ROOT / "tools" / "install-packages")])
        if not (self.folder / "build.ninja").exists():
            self.quietly(["cmake", "-S", str(ROOT), "-B", str(self.folder), "-G",
                          "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                          "-DSLUICE_TESTS=OFF", "-DSLUICE_BENCH=ON"])
        self.quietly(["cmake", "--build", str(self.folder), "--target",
                      *sorted(targets)])
        cluster.BIN = self.folder / "bin"

    def quietly(self, line):
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        check(done.returncode == 0, f"{' '.join(line)} failed", done.stdout,
              done.stderr)

    # ---- say

    def note(self, text):
        """What happens, beside the table: to stderr."""
        print(f"{self.name}: {text}", file=sys.stderr, flush=True)

    # ---- measure

    def program(self, name, *options):
        """Runs a program of bench/; gives the object that it printed."""
        line = [str(self.folder / "bin" / f"bench.{name}"), *map(str, options)]
        done = subprocess.run(line, capture_output=True, text=True, check=False,
                              timeout=600)
        check(done.returncode == 0, f"{' '.join(line)}: exit {done.returncode}",
              done.stdout, done.stderr)
        return json.loads(done.stdout)

    def timed(self):
        return ["--seconds", self.seconds]

    def window(self, least):
        """Seconds for which the steps of a real job are counted: they are told
        closure by closure, so that a few do not tell much."""
        return least / 4 if self.quick else max(least, least / 2 * self.seconds)

    def capped(self):
        """Options of bench/'s programs that compute."""
        return ["--isa", self.isa] if self.isa else []

    def cluster(self, **options):
        return Bed(**{"cpu": self.server_cpu, **options})

    def alternate(self, ours, peer):
        """Calls both in turn, `rounds` times; gives two lists."""
        figures = [], []
        for i in range(self.rounds):
            figures[0].append(ours())
            figures[1].append(peer())
            self.note(f"round {i + 1} of {self.rounds}: ours "
                      f"{figures[0][-1]:.4g}, peer {figures[1][-1]:.4g}")
        return figures

    def between(self, ours, peer):
        """The same, but the peer is measured on both sides of each of ours, and
        its mean counts: for what takes so long that the machine's pace changes
        meanwhile."""
        before = []

        def one():
            before.append(peer())
            return ours()
        return at_one_pace(*self.alternate(one, lambda: (before.pop() + peer()) / 2))

    def shared(self, key, measure):
        """A measurement that several rows use is made once."""
        if key not in self.shared_values:
            self.shared_values[key] = measure()
        return self.shared_values[key]
