# SPDX-License-Identifier: Apache-2.0
"""All-reduce: between two ranks of one host, a core each, through shared memory,
beside OpenMPI's and gloo's; and between hosts behind 1 Gbit/s, which are network
namespaces, with mutual TLS as hosts must have it, beside what the link allows
and gloo's (which does not encrypt)."""
import functools
import json
import os
import subprocess
import tempfile

from bed import ROOT, check, cluster
from link import Switch
from peers.start import peer
from rows.jobs import LONG_TORCH
from table import MIB, at_least, once, row

GIGABIT = 1e9 / 8

SIZES = {"64k": MIB // 16, "1m": MIB, "16m": 16 * MIB, "64m": 64 * MIB}
NEEDS = ["reduce_load"]


def ours_ms(bench, size):
    with tempfile.TemporaryDirectory() as folder:
        ranks = ",".join(f"unix:{folder}/{i}=one" for i in range(2))
        return bench.program("reduce_load", "--ranks", ranks, "--bytes", size,
                             *bench.timed())["p50_ms"]


@once
def mpi(bench):
    """The compiled peer."""
    out = bench.folder / "mpi_allreduce"
    done = subprocess.run(
        ["mpicc", "-O3", "-o", str(out), str(ROOT / "bench" / "peers" / "mpi_allreduce.c")],
        check=False, capture_output=True, text=True)
    check(done.returncode == 0, "mpicc cannot compile the peer: apt-get install "
          "openmpi-bin libopenmpi-dev", done.stderr)
    return out


def mpi_ms(bench, size):
    line = ["mpirun", "--allow-run-as-root", "-np", "2", "--bind-to", "core",
            str(mpi(bench)), str(size), str(bench.seconds)]
    done = subprocess.run(line, capture_output=True, text=True, check=False,
                          timeout=300, env={**os.environ, "OMPI_MCA_btl": "self,vader"})
    check(done.returncode == 0, f"{' '.join(line)}: exit {done.returncode}",
          done.stderr)
    return float(done.stdout.split('"p50_ms": ')[1].split(",")[0])


def per_second(ms):
    return 1000 / ms


def against_mpi(size, bench):
    mpi(bench)
    return bench.alternate(lambda: per_second(ours_ms(bench, size)),
                           lambda: per_second(mpi_ms(bench, size)))


def against_gloo(size, bench):
    return bench.alternate(
        lambda: per_second(ours_ms(bench, size)),
        lambda: per_second(peer(bench, "gloo_allreduce.py", bytes=size,
                                seconds=bench.seconds)["p50_ms"]))


def enter(name, size):
    """Two rows of one size."""
    mpi_row = functools.partial(against_mpi, size)
    mpi_row.__doc__ = f"Sum of {name} over 2 ranks of one host, beside OpenMPI."
    gloo_row = functools.partial(against_gloo, size)
    gloo_row.__doc__ = f"Sum of {name} over 2 ranks of one host, beside gloo."
    row(f"allreduce-{name}", unit="sums/s", peer="OpenMPI, shared memory",
        bar=at_least(1), needs=NEEDS)(mpi_row)
    row(f"allreduce-{name}-gloo", unit="sums/s", peer="torch's gloo",
        bar=at_least(3), needs=NEEDS, long=LONG_TORCH)(gloo_row)


for _name, _size in SIZES.items():
    enter(_name, _size)


# ---- between hosts

def over_switch(bench, switch, hosts, size, alone=False):
    """Milliseconds of a sum over ranks; hosts[i] is the number of rank i's.
    `alone`: no rank knows of another on its host."""
    with tempfile.TemporaryDirectory() as folder:
        addresses = list(switch.address.values())
        subprocess.run([str(cluster.BIN / "sluice"), "cert", "init", folder,
                        *(w for a in addresses for w in ("--host", a))],
                       check=True, capture_output=True)
        ranks = ",".join(f"{addresses[h]}:{7100 + i}=h{i if alone else h}"
                         for i, h in enumerate(hosts))
        cpus = bench.server_cpu, bench.client_cpu
        started = []
        try:
            for i, host in enumerate(hosts):
                line = [*switch.inside(switch.hosts[host]),
                        str(bench.folder / "bin" / "bench.reduce_load"),
                        "--ranks", ranks, "--self", str(i), "--bytes", str(size),
                        "--cpu", str(cpus[i % 2]),
                        "--seconds", str(max(4, 2 * bench.seconds)),
                        "--tls-ca", f"{folder}/ca.crt",
                        "--tls-cert", f"{folder}/worker.crt",
                        "--tls-key", f"{folder}/worker.key"]
                started.append(subprocess.Popen(
                    list(map(str, line)), stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, text=True))
            out, err = started[0].communicate(timeout=300)
            check(started[0].returncode == 0, "reduce_load failed", err)
            return json.loads(out)["p50_ms"]
        finally:
            for process in started:
                process.kill()
                process.wait()


@row("allreduce-net", unit="MB/s", peer="2 (n - 1) / n of the bytes at 1 Gbit/s",
     bar=at_least(0.92), needs=NEEDS + ["psserver"])
def allreduce_net(bench):
    """Sum of 64 MiB over 4 hosts behind 1 Gbit/s, against what the link allows."""
    with Switch("1gbit", 4) as switch:
        size, bytes_each = 64 * MIB, 2 * 3 / 4 * 64 * MIB

        def ours():
            return bytes_each / over_switch(bench, switch, range(4), size) / 1e3
        return bench.alternate(ours, lambda: GIGABIT / 1e6)


@row("allreduce-hier", unit="sums/s", peer="a ring that knows no hosts",
     bar=at_least(1.8), needs=NEEDS + ["psserver"])
def allreduce_hier(bench):
    """Sum of 64 MiB over 2 hosts of 2 ranks each behind 1 Gbit/s, against the
    same ranks as if each were alone, in turn on one host and the other."""
    with Switch("1gbit", 2) as switch:
        def ours():
            return per_second(over_switch(bench, switch, (0, 1, 0, 1), 64 * MIB))

        def flat():
            return per_second(over_switch(bench, switch, (0, 1, 0, 1), 64 * MIB,
                                          alone=True))
        return bench.alternate(ours, flat)
