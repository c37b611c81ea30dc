# SPDX-License-Identifier: Apache-2.0
"""The Fashion-MNIST net in torch as most people begin: one process, no cluster,
torch's own threads; batch 64, Adam.

Prints images per second.
"""
import os

from common import BATCH, options, say, windows_of
from torch_ddp import Trainer


class Local(Trainer):
    """The same net and the same loop, without anybody to share with."""

    def wrap(self, torch, model):
        return model


def main():
    o = options(__doc__, ("threads", 2, "of torch"),
                ("layout", "contiguous", "or channels_last"),
                ("compile", 1, "torch.compile (inductor); 0: eager"),
                ("adam", "fused", "fused or foreach"),
                ("cpu", -1, "the only core; -1: any"))
    if o.cpu >= 0:
        os.sched_setaffinity(0, {o.cpu})
    import torch
    torch.set_num_threads(o.threads)
    trainer, steps = Local(torch, o), 0

    def work():
        nonlocal steps
        trainer.step()
        steps += 1
    work()
    measured = windows_of(lambda: steps * BATCH, o, work)
    say("torch_local", "images/s", measured, threads=o.threads, layout=o.layout,
        compile=o.compile, adam=o.adam, torch=torch.__version__)
    os._exit(0)


if __name__ == "__main__":
    main()
