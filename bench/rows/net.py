# SPDX-License-Identifier: Apache-2.0
"""A worker whose psservers are behind a slow link: does it compute while its
gradients and parameters travel?

The worker is on a host of its own, everybody else on another, with mutual TLS,
as two hosts must have it; 1 Gbit/s each way between them. In the same run: what
the step takes without a cluster, on the same core, and what its bytes take as a
plain stream through the same link. Both directions carry the parameters once,
at the same time, so one of them counts.
"""
import subprocess
import time

from bed import ROOT, Bed, cluster, wait_for
from link import Link, Switch
from table import MIB, at_least, at_most, row

BATCH = 160
HYBRID_BATCH = 16  # so few that bytes are most of a step
NET = ROOT / "bench" / "nets" / "deep-mnist.yaml"
WARM_STEPS = 10
PORT = {"coordinator": 7070, "ps-0": 7071, "ps-1": 7072}


class FarBed(Bed):
    """The worker at the near end of a link; coordinator and two psservers at
    the far end, on the servers' core. The worker computes with one thread, as
    the floor does, and may use both cores, as it does unless it is told
    otherwise: on one, what TLS and sockets take of it is added to computing,
    however well the two overlap. Namespaces are one host still, so the worker
    is told to share nothing: that would go by no link."""

    def __init__(self, link, cpus, **options):
        super().__init__(**{"psservers": 2, "workers": 1, "cpu": None, **options})
        self.link, self.cpus = link, cpus
        self.far = link.address[link.far]
        self.address = f"{self.far}:{PORT['coordinator']}"

    def tls(self, role):
        folder = self.dir / "certs"
        return ["--tls-ca", str(folder / "ca.crt"),
                "--tls-cert", str(folder / f"{role}.crt"),
                "--tls-key", str(folder / f"{role}.key")]

    def start_all(self):
        subprocess.run([str(cluster.BIN / "sluice"), "cert", "init",
                        str(self.dir / "certs"),
                        *(w for a in self.link.address.values() for w in ("--host", a))],
                       check=True, capture_output=True)
        super().start_all()

    def place(self, where, role, words):
        cpus = self.cpus if where == self.link.near else self.cpus[:1]
        return ["taskset", "-c", ",".join(map(str, cpus)), *self.link.inside(where),
                str(cluster.BIN / role), "--coordinator", self.address,
                *self.tls("client" if role == "sluice" else role), *words]

    def command(self, name):
        if name[0] == "w":
            return self.place(self.link.near, "worker",
                              ["--name", name, "--threads", "1", "--shm", "off",
                               *self.capped(),
                               *self.data_roots()])
        words = ["--listen", f"{self.far}:{PORT[name]}", "--state",
                 str(self.dir / name), "--store", str(self.dir / "store")]
        if name[0] == "p":
            return self.place(self.link.far, "psserver", ["--name", name, *words])
        line = self.place(self.link.far, "coordinator", words)
        at = line.index("--coordinator")
        return line[:at] + line[at + 2:]

    def run(self, *words, limit_s=60, want=0, before=()):
        done = subprocess.run(self.place(self.link.far, "sluice", list(map(str, words))),
                              capture_output=True, text=True, cwd=self.dir,
                              timeout=limit_s, stdin=subprocess.DEVNULL, check=False)
        cluster.check(want is None or done.returncode == want,
                      f"sluice {words}: exit {done.returncode}", done.stdout,
                      done.stderr)
        return done

    def edge(self, job):
        """When the number of steps changed, and what it is now."""
        before = self.steps(job)
        after = wait_for("a step", lambda: self.steps(job) - before)
        return time.monotonic(), before + after

    def step_ms(self, seconds, *sets, warm=WARM_STEPS):
        words = ["train.epochs=10000", f"train.batch={BATCH}", *sets]
        job = self.run("submit", NET, "--no-wait",
                       *(w for s in words for w in ("--set", s))).stdout.strip()
        self.wait_steps(job, warm)
        began, first = self.edge(job)
        time.sleep(seconds)
        ended, last = self.edge(job)
        return (ended - began) * 1e3 / (last - first)


class FarRing(FarBed):
    """A rank at each end of the link, a core each, and the coordinator at the
    far end."""

    def __init__(self, link, cpus):
        super().__init__(link, cpus, psservers=0, workers=2)

    def place(self, where, role, words):
        line = super().place(where, role, words)
        near = where == self.link.near
        return [*line[:2], str(self.cpus[1 if near else 0]), *line[3:]]

    def command(self, name):
        if name[0] != "w":
            return super().command(name)
        where = self.link.near if name == "w-0" else self.link.far
        return self.place(where, "worker",
                          ["--name", name, "--threads", "1", "--shm", "off",
                               *self.capped(),
                           "--listen", f"{self.link.address[where]}:7073",
                           *self.data_roots()])

    def round_ms(self, seconds):
        return 2 * self.step_ms(seconds, "train.mode=allreduce",
                                "train.contributions=2", "train.workers.min=2")


def longer_ms(bench, link):
    """The longer of a step's computing on one core, and of its parameters as a
    plain stream through the link."""
    step = bench.program("bare_step", "--spec", NET, "--batch", BATCH,
                         "--rounds", 1, "--seconds", 2 * bench.seconds,
                         "--cpu", bench.client_cpu, *bench.capped(), "--no-apply")
    raw = bench.program("raw_stream", *bench.timed(), "--mode", "push",
                        "--bytes", MIB, "--at", link.address[link.far],
                        "--near-netns", link.near, "--far-netns", link.far,
                        "--far-cpu", bench.server_cpu,
                        "--near-cpu", bench.client_cpu)
    compute = step["step_ms"][0]
    transfer = step["parameters"] * 4 / raw["bytes_per_s"] * 1e3
    bench.note(f"compute {compute:.1f} ms, transfer {transfer:.1f} ms")
    return max(compute, transfer)


@row("overlap", unit="ms", peer="max(compute, transfer)", bar=at_most(1.25),
     needs=["psserver", "bare_step", "raw_stream"])
def overlap(bench):
    """A worker's step with two psservers behind 1 Gbit/s, against the longer of
    its computing and its bytes."""
    cpus = bench.server_cpu, bench.client_cpu
    with Link("1gbit") as link:
        def ours():
            with FarBed(link, cpus) as c:
                return c.step_ms(bench.window(8))
        return bench.alternate(ours, lambda: longer_ms(bench, link))


@row("ring-overlap", unit="ms", peer="max(compute, transfer)", bar=at_most(1.25),
     needs=["psserver", "bare_step", "raw_stream"])
def ring_overlap(bench):
    """A round of two ranks with 1 Gbit/s between them, against the longer of a
    step's computing and its bytes: of two ranks, each sends the parameters once."""
    cpus = bench.server_cpu, bench.client_cpu
    with Link("1gbit") as link:
        def ours():
            with FarRing(link, cpus) as c:
                return c.round_ms(bench.window(8))
        return bench.alternate(ours, lambda: longer_ms(bench, link))


class Hosts(FarBed):
    """Two hosts with two workers each, and one with the coordinator and two
    psservers, each behind 1 Gbit/s to one switch. Workers of a host share
    memory with each other and with nothing else."""

    def __init__(self, switch, cpus):
        switch.near, switch.far = switch.hosts[1], switch.hosts[0]
        super().__init__(switch, cpus, workers=4)

    def place(self, where, role, words):
        line = super().place(where, role, words)
        if where == self.link.far:
            return line + (["--shm", "off"] if role == "psserver" else [])
        name = f"host-{self.link.hosts.index(where)}"
        cpus = ",".join(map(str, self.cpus))
        return [*line[:2], cpus, *self.link.inside(where), "unshare", "--uts", "sh",
                "-c", 'hostname "$0" && exec "$@"', name, *line[line.index(
                    str(cluster.BIN / role)):]]

    def command(self, name):
        if name[0] != "w":
            return super().command(name)
        number = int(name[2:])
        where = self.link.hosts[1 + number // 2]
        return self.place(where, "worker",
                          ["--name", name, "--threads", "1", *self.capped(),
                           "--listen", f"{self.link.address[where]}:{7080 + number}",
                           *self.data_roots()])


@row("hybrid", unit="images/s", peer="async", bar=at_least(1.2), needs=["psserver"])
def hybrid(bench):
    """Four workers on two hosts behind 1 Gbit/s, in groups by host, against the
    same workers in async: gradients and parameters pass a host's cable once for
    both of its workers."""
    cpus = bench.server_cpu, bench.client_cpu
    with Switch("1gbit", 3) as switch:
        def images_per_s(batches, *sets):
            with Hosts(switch, cpus) as c:
                ms = c.step_ms(bench.window(8), *sets)
            return batches * HYBRID_BATCH * 1e3 / ms
        few = f"train.batch={HYBRID_BATCH}"
        return bench.alternate(
            lambda: images_per_s(2, few, "train.mode=hybrid", "train.group.by=host",
                                 "train.group.size=2"),
            lambda: images_per_s(1, few))


class Pair(FarBed):
    """Two devices at the near end of the link, a core each: of one worker that
    drives both, or of two workers."""

    def __init__(self, link, cpus, workers):
        super().__init__(link, cpus, workers=workers)

    def command(self, name):
        line = super().command(name)
        if name[0] != "w":
            return line
        return [*line, "--device", "cpu,cpu" if self.counts["worker"] == 1 else "cpu"]


@row("team", unit="images/s", peer="two workers", bar=at_least(1.2), needs=["psserver"])
def team(bench):
    """Two devices of one host behind 1 Gbit/s to its psservers, of one worker
    against one worker each: their gradients and parameters pass the cable once."""
    cpus = bench.server_cpu, bench.client_cpu
    with Link("1gbit") as link:
        def images_per_s(workers):
            batch = 2 * HYBRID_BATCH // workers  # of a step; a device: HYBRID_BATCH
            with Pair(link, cpus, workers) as c:
                return batch * 1e3 / c.step_ms(bench.window(8), f"train.batch={batch}")
        return bench.alternate(lambda: images_per_s(1), lambda: images_per_s(2))
