# SPDX-License-Identifier: Apache-2.0
"""A table of FBGEMM on the CPU: an array of rows, with exact rowwise Adagrad. A step
looks the rows of a batch up and changes them. Ids are drawn from a power law, stand
once in a batch, and lie anywhere in the array.

Prints rows per second of the thread's own time, forward and backward together.
"""
import os
import statistics
import time

from common import options, say

DRAWS, BATCHES = 8192, 192  # as bench.tables


def batches(torch, rows, power):
    import numpy as np
    rng = np.random.default_rng(5)
    spread = 0x9e3779b1  # odd: for a power of two of rows each has its own place
    for _ in range(BATCHES):
        u = rng.random(DRAWS)
        rank = (u * (rows ** (1 - power) - 1) + 1) ** (1 / (1 - power)) - 1
        yield torch.from_numpy(np.unique(rank.astype(np.int64) * spread % rows))


def table(rows, dim):
    from fbgemm_gpu import split_table_batched_embeddings_ops_training as ops
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    return ops.SplitTableBatchedEmbeddingBagsCodegen(
        [(rows, dim, ops.EmbeddingLocation.HOST, ops.ComputeDevice.CPU)],
        optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD, learning_rate=1e-3)


def main():
    o = options(__doc__, ("rows", 1 << 23, "of the table"), ("dim", 64, "values of a row"),
                ("power", 1.05, "of the law"), ("cpu", 1, "the only core"))
    os.sched_setaffinity(0, {o.cpu})
    import torch
    torch.set_num_threads(1)
    looked_up, steps = table(o.rows, o.dim), []
    for ids in batches(torch, o.rows, o.power):
        steps.append((ids, torch.arange(len(ids) + 1)))
    count = sum(len(ids) for ids, _ in steps)

    def work():
        """Seconds of the forward part, and of both."""
        forward, began = 0, time.thread_time()
        for ids, offsets in steps:
            at = time.thread_time()
            rows = looked_up(ids, offsets)
            forward += time.thread_time() - at
            rows.backward(rows.detach())
        return forward, time.thread_time() - began
    work()
    took = [work() for _ in range(o.windows)]
    rates = [count / both for _, both in took]
    say("fbgemm_rows", "rows/s", (rates, 1e6 / statistics.median(rates)),
        read=statistics.median(count / forward for forward, _ in took),
        torch=torch.__version__)


if __name__ == "__main__":
    main()
