#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The GPT of torch_gpt.py in mode local: each program takes 20 steps with its own
AdamW, then psservers take the mean of what two programs have changed.

    python3 examples/torch_gpt_local.py --coordinator 127.0.0.1:7070 --file TEXT

Start it several times, on several hosts, which may be far apart; kill any of them: each
sample counts once. Every host needs the file. Needs torch and the package of python/.
"""
import argparse
import math

import sluice.torch
import torch
from torch import nn
from torch_gpt import TEXT, Gpt, Windows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--coordinator", metavar="ADDRESS")
    parser.add_argument("--name")
    parser.add_argument("--file", default=TEXT)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--every", type=int, default=20, help="steps of a contribution")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)

    model = Gpt()
    adamw = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)

    with sluice.torch.Trainer(model, "torch-gpt-local", options.coordinator, mode="local",
                              inner=adamw, every=options.every, ranks=2,
                              scheduler=lambda n: 3e-3 * min(1, (n + 1) / 20),
                              name=options.name) as t:
        for batch in t.batches(Windows(options.file), 32, options.epochs):
            t.step(lambda: nn.functional.cross_entropy(model(batch.x).flatten(0, 1),
                                                       batch.y.flatten()))
        t.load()
    print(f"{t.metrics['steps']} steps here, the last one's loss "
          f"{t.metrics['loss']:.3f}: {t.metrics['loss'] / math.log(2):.2f} bits a byte")


if __name__ == "__main__":
    main()
