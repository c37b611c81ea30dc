# SPDX-License-Identifier: Apache-2.0
"""All-reduce between two ranks of one host, a core each: ours through shared
memory, beside OpenMPI's and gloo's."""
import functools
import os
import subprocess
import tempfile

from bed import ROOT, check
from peers.start import peer
from table import MIB, at_least, row

SIZES = {"64k": MIB // 16, "1m": MIB, "16m": 16 * MIB, "64m": 64 * MIB}
NEEDS = ["reduce_load"]


def ours_ms(bench, size):
    with tempfile.TemporaryDirectory() as folder:
        ranks = ",".join(f"unix:{folder}/{i}=one" for i in range(2))
        return bench.program("reduce_load", "--ranks", ranks, "--bytes", size,
                             *bench.timed())["p50_ms"]


def mpi(bench):
    """The compiled peer."""
    def build():
        out = bench.folder / "mpi_allreduce"
        done = subprocess.run(
            ["mpicc", "-O3", "-o", str(out),
             str(ROOT / "bench" / "peers" / "mpi_allreduce.c")],
            check=False, capture_output=True, text=True)
        check(done.returncode == 0, "OpenMPI is not there: apt-get install "
              "openmpi-bin libopenmpi-dev", done.stderr)
        return out
    return bench.shared("mpi", build)


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
        bar=at_least(3), needs=NEEDS)(gloo_row)


for _name, _size in SIZES.items():
    enter(_name, _size)
