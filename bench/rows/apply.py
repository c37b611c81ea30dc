# SPDX-License-Identifier: Apache-2.0
"""The optimizers, against plain loops over memory of the same size."""
from statistics import median

from table import MIB, at_least, row

KIB = 1 << 10

# Of values, each slot and the gradient: in the caches, and powers of two at
# which arrays that lie side by side would be in each other's way.
ARRAYS = [64 * KIB, MIB, 16 * MIB, 64 * MIB, 128 * MIB, 256 * MIB, 512 * MIB]


def rates(bench, optimizer, *options):
    done = bench.program("apply", "--optimizer", optimizer, "--rounds", bench.rounds,
                         "--cpu", bench.client_cpu, *options)
    return [[rate / 1e9 for rate in done[side]] for side in ("ours", "peer")]


def ratio(figures):
    return median(figures[0]) / median(figures[1])


@row("apply-sgd", unit="GB/s", peer="d += s", bar=at_least(0.8), needs=["apply"])
def apply_sgd(bench):
    """Memory traffic of one thread that applies SGD beyond the last cache."""
    return rates(bench, "sgd")


@row("apply-adam", unit="GB/s", peer="a = b + x c", bar=at_least(0.8),
     needs=["apply"])
def apply_adam(bench):
    """Memory traffic of one thread that applies Adam to arrays of 64 KiB to
    512 MiB: the size that is worst."""
    of = {size: rates(bench, "adam", "--bytes", 4 * size) for size in ARRAYS}
    bench.note(", ".join(f"{size // KIB} KiB {ratio(f):.2f}"
                         for size, f in of.items()))
    return min(of.values(), key=ratio)
