# SPDX-License-Identifier: Apache-2.0
"""A coordinator with many workers: how soon it answers, what each costs it."""
import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from bed import Bed, check, cluster, wait_for
import scrape  # of tests/system, as cluster and etcd are
from etcd import Etcd
from table import at_least, at_most, once, row

NEEDS = ["psserver", "attend_load"]
WORKERS, ACTIVE = 1000, 200
COMPUTE_MS = 200  # of a closure: 1,000 completions a second
MANY, PSSERVERS = 2560, 64  # shards, and who serves them where many do
MAP_SECONDS, HEAVY_SECONDS, STATUS_SECONDS = 30, 60, 10
WATCHERS = 100
KIB = 1024
# A thousand workers would not come from one host.
ONE_HOST = ["--peer-connections", "4096", "--peer-calls", "16384"]


# Before whatever else wants the core, as far as the system permits.
AHEAD = ["chrt", "--rr", "1"]


def may_go_ahead():
    return subprocess.run([*AHEAD, "true"], stderr=subprocess.DEVNULL,
                          check=False).returncode == 0


def go_ahead(pid):
    """A process that runs, with its threads."""
    if may_go_ahead():
        subprocess.run(["chrt", "-a", "--rr", "-p", "1", str(pid)], check=True)


HELD = "sluice_event_loop_held_total"
TOOK = "sluice_event_loop_handler_seconds"


class Crowd(Bed):
    """A coordinator on a core of its own, and on TCP, as for many hosts. At its end
    it says how long its handlers took; one that held its loop ends the row. `etcd`:
    it has its journal there, and leads."""

    def __init__(self, bench, psservers=1, etcd=None):
        super().__init__(cpu=bench.client_cpu, psservers=psservers)
        self.own_core = ["taskset", "-c", str(bench.server_cpu)]
        self.journal = ["--journal", f"etcd://{etcd.endpoints}/sluice"] if etcd else []
        if may_go_ahead():
            self.own_core = AHEAD + self.own_core
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"

    def command(self, name):
        line = super().command(name)
        if name == "coordinator":
            line = [*self.own_core, *line, *ONE_HOST, *scrape.OPS,
                    *self.journal]
        return line

    def start(self, name, *more, **options):
        process = super().start(name, *more, **options)
        if name == "coordinator" and self.journal:
            wait_for("it to lead", lambda: self.run("--timeout", "2s", "jobs",
                                                    want=None).returncode == 0)
        return process

    def __exit__(self, kind, error, trace):
        try:
            if kind is None:
                self.check_loop()
        finally:
            super().__exit__(kind, error, trace)

    def check_loop(self):
        """No handler had the loop for longer than 0.1 s."""
        found = scrape.metrics(scrape.address(self, "coordinator"))
        held = {labels: n for (name, labels), n in found.items() if name == HELD}
        turns = scrape.value(found, TOOK + "_count")
        short = scrape.value(found, TOOK + "_bucket", le="0.005")
        print(f"  loop: {turns - short:.0f} of {turns:.0f} handlers took more than 5 ms",
              file=sys.stderr)
        # A commit in etcd waits for a disk that others write to, too.
        check(self.journal or not any(held.values()), f"handlers held the loop for 0.1 s: {held}")

    def resident(self, name):
        """Bytes, now."""
        with open(f"/proc/{self.processes[name].pid}/status",
                  encoding="ascii") as f:
            return next(int(line.split()[1]) * KIB for line in f
                        if line.startswith("VmRSS"))


def load(bench, crowd, target, *options):
    return bench.program("attend_load", *target, *bench.timed(),
                         "--coordinator", crowd.address, "--workers", WORKERS,
                         "--warmup", 2, "--cpu", bench.client_cpu, *options)


def crowd(bench, etcd=None):
    """p99 in ms, and KiB per worker, of a coordinator that just started."""
    with Crowd(bench, etcd=etcd) as c:
        _, target = c.place(elements=1, shards=1, steps_per_closure=1,
                            max_workers=ACTIVE)
        before = c.resident("coordinator")
        done = load(bench, c, target, "--compute-ms", COMPUTE_MS)
        each = (c.resident_peak("coordinator") - before) / WORKERS / KIB
    bench.note(f"{told(done)}; {each:.1f} KiB a worker")
    return done["p99_ms"], each


def told(done):
    return (f"{done['per_s']:.0f} assignments/s: p50 {done['p50_ms']:.2f} ms, "
            f"p99 {done['p99_ms']:.2f}, max {done['max_ms']:.1f}")


@once
def crowds(bench):
    return [crowd(bench) for _ in range(bench.rounds)]


def wide(bench, shards):
    """p99 in ms of a job of so many shards. No step is pushed."""
    with Crowd(bench) as c:
        _, target = c.place(elements=16 * shards, shard_bytes=64,
                            steps_per_closure=1, max_workers=ACTIVE)
        at = target.index("--shard")
        check((len(target) - at) // 2 == shards, f"not placed on {shards} shards")
        done = load(bench, c, target[:at + 2], "--compute-ms", COMPUTE_MS,
                    "--no-pushes")
    bench.note(f"{shards} shards: {told(done)}")
    return done["p99_ms"]


@row("scale-coord", unit="ms", peer="5 ms", bar=at_most(1), needs=NEEDS)
def scale_coord(bench):
    """p99 from a completion to the next assignment, where 1,000 workers attend
    and 200 of them hold leases."""
    return [p99 for p99, _ in crowds(bench)], 5


@row("scale-coord-etcd", unit="ms", peer="SQLite", bar=at_most(3), needs=NEEDS)
def scale_coord_etcd(bench):
    """The same with the journal in an etcd of this host, against that in its file."""
    ours = []
    for _ in range(bench.rounds):
        with Etcd(members=1) as etcd:
            go_ahead(etcd.processes[0].pid)
            ours.append(crowd(bench, etcd)[0])
    return ours, [p99 for p99, _ in crowds(bench)]


@row("scale-coord-64", unit="ms", peer="5 ms", bar=at_most(1), needs=NEEDS)
def scale_coord_64(bench):
    """The same of a job of 64 shards."""
    return [wide(bench, 64) for _ in range(bench.rounds)], 5


@row("scale-coord-2560", unit="ms", peer="5 ms", bar=at_most(1), needs=NEEDS)
def scale_coord_2560(bench):
    """The same of a job of 2,560 shards."""
    return [wide(bench, MANY) for _ in range(bench.rounds)], 5


@row("scale-coord-rss", unit="KiB", peer="64 KiB", bar=at_most(1), needs=NEEDS)
def scale_coord_rss(bench):
    """The coordinator's memory per worker meanwhile: how much it grew at most."""
    return [each for _, each in crowds(bench)], 64


def loss(bench):
    """Seconds until the closures of lost workers are all somebody's again."""
    with Crowd(bench) as c:
        _, target = c.place(elements=1, shards=1, steps_per_closure=1)
        done = bench.program("attend_load", *target, "--seconds", 8,
                             "--coordinator", c.address, "--workers", WORKERS,
                             "--compute-ms", 1000, "--warmup", 2,
                             "--lose", WORKERS // 2, "--no-pushes", "--cpu",
                             bench.client_cpu)
        check(done["lost"] == WORKERS // 2, "not all were lost in time")
        check(done["nobodys"] == 0, f"{done['nobodys']} closures are nobody's")
    bench.note(f"{done['lost']} workers with {done['closures']} closures: "
               f"leased again within {done['again_s']:.2f} s")
    return done["again_s"]


@row("scale-loss", unit="s", peer="2 s", bar=at_most(1), needs=NEEDS)
def scale_loss(bench):
    """Half of 1,000 workers end within a second: how long a closure of theirs
    is nobody's, at most. A lease of another that is revoked ends the row."""
    return [loss(bench) for _ in range(bench.rounds)], 2


def come_back(cluster, names):
    for name in names:
        cluster.kill(name)
    for name in names:
        cluster.start(name, wait=False)


def map_megabytes(bench, lost):
    """Of maps to all workers, when so many of 64 psservers end and are back."""
    with Crowd(bench, psservers=PSSERVERS) as c:
        job, target = c.place(elements=16 * MANY, shard_bytes=64,
                              steps_per_closure=1)
        at = target.index("--shard")
        names = [f"ps-{i}" for i in range(lost)]
        blow = threading.Timer(MAP_SECONDS / 3, come_back, (c, names))
        blow.start()
        try:
            done = bench.program("attend_load", *target[:at + 2], "--coordinator",
                                 c.address, "--workers", WORKERS, "--seconds",
                                 MAP_SECONDS, "--warmup", 2, "--cpu",
                                 bench.client_cpu, "--compute-ms", 2000,
                                 "--no-pushes", "--maps", "--ahead")
        finally:
            blow.cancel()  # starts nothing once the cluster is gone
            blow.join()
        served = [s["incarnation"] for s in c.status(job)["shards"]]
        check(min(served) > 0 and served.count(2) >= lost * MANY // PSSERVERS // 2,
              f"only {served.count(2)} of {MANY} shards came back in time")
    bench.note(f"{lost} psservers: {done['map_bytes'] / 1e6:.1f} MB of maps")
    return done["map_bytes"] / 1e6


@row("scale-map", unit="MB", peer="64 MB", bar=at_most(1), needs=NEEDS,
     long="a minute of 1,000 workers")
def scale_map(bench):
    """Bytes of maps to 1,000 workers when one of 64 psservers, which serve 2,560
    shards, ends and comes back."""
    return [map_megabytes(bench, 1)], 64


@row("scale-map-all", unit="MB", peer="1,000 MB", bar=at_most(1), needs=NEEDS,
     long="a minute of 1,000 workers")
def scale_map_all(bench):
    """The same when all of them do."""
    return [map_megabytes(bench, PSSERVERS)], 1000


def busy(bench):
    """Which part of the time workers compute, where some closures take a
    hundred times as long as others."""
    with Crowd(bench) as c:
        _, target = c.place(elements=1, shards=1, steps_per_closure=1)
        done = bench.program("attend_load", *target, "--coordinator", c.address,
                             "--workers", WORKERS, "--seconds", HEAVY_SECONDS,
                             "--warmup", 2, "--cpu", bench.client_cpu,
                             "--compute-ms", 1000, "--no-pushes", "--heavy")
    return done["busy"]


@row("scale-window", unit="", peer="all the time", bar=at_least(0.9), needs=NEEDS,
     long="a minute of 1,000 workers")
def scale_window(bench):
    """The part of the time that 1,000 workers compute closures of Pareto's tail
    of 1.5, a second on average."""
    return [busy(bench)], 1


def cpu_s(bed, name):
    with open(f"/proc/{bed.processes[name].pid}/stat", encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def share(bed):
    """Percent of a core that the coordinator takes."""
    before = cpu_s(bed, "coordinator")
    time.sleep(STATUS_SECONDS)
    return 100 * (cpu_s(bed, "coordinator") - before) / STATUS_SECONDS


@contextlib.contextmanager
def watchers(bed, job):
    line = [str(cluster.BIN / "sluice"), "watch", job, "--coordinator", bed.address]
    running = [subprocess.Popen(line, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL) for _ in range(WATCHERS)]
    try:
        yield
        check(all(w.poll() is None for w in running), "a watcher ended")
    finally:
        for w in running:
            w.kill()
            w.wait()


def watched(bench):
    """Percent of a core: what watchers and a look at all shards add."""
    with Crowd(bench) as c, ThreadPoolExecutor() as pool:
        job, target = c.place(elements=16 * MANY, shard_bytes=64,
                              steps_per_closure=1)
        at = target.index("--shard")
        busy = pool.submit(
            bench.program, "attend_load", *target[:at + 2], "--coordinator",
            c.address, "--workers", WORKERS, "--seconds", 6 * STATUS_SECONDS,
            "--cpu", bench.client_cpu, "--compute-ms", 2000, "--no-pushes",
            "--ahead")
        time.sleep(2 * STATUS_SECONDS)
        alone = share(c) / 2
        with watchers(c, job):
            time.sleep(STATUS_SECONDS / 2)
            looks = pool.submit(c.run, "status", job, "--shards")
            with_them = share(c)
            looks.result()
        alone += share(c) / 2
        busy.result()
    bench.note(f"{alone:.1f} % without, {with_them:.1f} % with {WATCHERS} watchers "
               "and a status with all shards")
    return with_them - alone


@row("scale-status", unit="%", peer="5 %", bar=at_most(1), needs=NEEDS,
     long="a minute of 1,000 workers")
def scale_status(bench):
    """What 100 watchers of a job with 2,560 shards and 1,000 workers, and a
    status with all shards, take of a core of the coordinator."""
    return [watched(bench)], 5
