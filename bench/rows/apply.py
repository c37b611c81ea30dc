# SPDX-License-Identifier: Apache-2.0
"""The optimizers, against plain loops over memory of the same size."""
from table import at_least, row


def rates(bench, optimizer):
    done = bench.program("apply", "--optimizer", optimizer, "--rounds", bench.rounds,
                         "--cpu", bench.client_cpu)
    bench.note(f"{done['footprint'] >> 20} MiB")
    return [[rate / 1e9 for rate in done[side]] for side in ("ours", "peer")]


@row("apply-sgd", unit="GB/s", peer="d += s", bar=at_least(0.8), needs=["apply"])
def apply_sgd(bench):
    """Memory traffic of one thread that applies SGD beyond the last cache."""
    return rates(bench, "sgd")


@row("apply-adam", unit="GB/s", peer="a = b + x c", bar=at_least(0.8),
     needs=["apply"])
def apply_adam(bench):
    """Memory traffic of one thread that applies Adam beyond the last cache."""
    return rates(bench, "adam")
