#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A DLRM in torch on a cluster: who clicks, from numbers and from ids without a
vocabulary, whose rows lie on the psservers.

    python3 examples/torch_dlrm.py --coordinator 127.0.0.1:7070

Start it several times, on several hosts; kill any of them: each sample counts once,
in the net and in every row. The clicks are made from a seed: 6 features whose ids are
any numbers of 64 bits, popular ones far more often than others. Needs torch and the
package of python/.
"""
import argparse

import numpy as np
import sluice.torch
import torch
from torch import nn

NUMBERS, FEATURES, DIM, BATCH = 4, 6, 16, 1024
SEEN = 50  # newest batches that the printed AUC is of


def clicks(samples, seed=1):
    """({numbers, ids}, clicked): a click is likely for some ids, and for large numbers."""
    draw = np.random.default_rng(seed)
    numbers = draw.standard_normal((samples, NUMBERS), dtype=np.float32)
    popular = np.minimum(draw.zipf(1.2, (samples, FEATURES)), 10 ** 6).astype(np.uint64)
    ids = (popular + np.arange(1, FEATURES + 1, dtype=np.uint64) * np.uint64(10 ** 9)) \
        * np.uint64(0x9e3779b97f4a7c15)
    taste = (ids >> np.uint64(40)).astype(np.float32) / 2 ** 23 - 1  # of each id, in [-1, 1)
    likely = taste.sum(1) + numbers.sum(1) / 2
    clicked = draw.random(samples) < 1 / (1 + np.exp(-2 * likely))
    return {"numbers": numbers, "ids": ids.view(np.int64)}, clicked.astype(np.float32)


class Dlrm(nn.Module):
    """Vectors of the numbers and of each id; the products of all pairs; a net on them."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(sluice.torch.Embedding(
            f"feature-{i}", DIM, initializer="random_uniform",
            optimizer={"type": "rowwise_adagrad", "learning_rate": 0.1})
            for i in range(FEATURES))
        self.bottom = nn.Sequential(nn.Linear(NUMBERS, 32), nn.ReLU(), nn.Linear(32, DIM))
        pairs = (FEATURES + 1) * FEATURES // 2
        self.top = nn.Sequential(nn.Linear(DIM + pairs, 64), nn.ReLU(), nn.Linear(64, 1))
        self.register_buffer("lower", torch.tril_indices(FEATURES + 1, FEATURES + 1, -1),
                             persistent=False)

    def forward(self, x):
        vectors = torch.stack([self.bottom(x["numbers"]),
                               *(table(x["ids"][:, i])
                                 for i, table in enumerate(self.tables))], 1)
        products = (vectors @ vectors.transpose(1, 2))[:, self.lower[0], self.lower[1]]
        return self.top(torch.cat([vectors[:, 0], products], 1)).squeeze(1)


def auc(logits, clicked):
    """The chance that a sample with a click has the higher logit of two."""
    rank = torch.empty(len(logits))
    rank[logits.argsort()] = torch.arange(1, len(logits) + 1, dtype=torch.float32)
    yes = clicked.sum()
    return float((rank[clicked > 0].double().sum() - yes * (yes + 1) / 2) /
                 (yes * (len(clicked) - yes)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--coordinator", metavar="ADDRESS")
    parser.add_argument("--name")
    parser.add_argument("--samples", type=int, default=200_000)
    parser.add_argument("--epochs", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)

    model, seen = Dlrm(), []
    adam = torch.optim.Adam(model.parameters(), lr=2e-3)
    loss_fn = nn.BCEWithLogitsLoss()

    def loss_of(batch):
        logits = model(batch.x)
        seen.append((logits.detach(), batch.y))  # before they are learned from
        return loss_fn(logits, batch.y)

    with sluice.torch.Trainer(model, "torch-dlrm", options.coordinator, optimizer=adam,
                              name=options.name) as t:
        for batch in t.batches(clicks(options.samples), BATCH, options.epochs):
            t.step(lambda: loss_of(batch))
            del seen[:-SEEN]
    if seen:
        newest = auc(*(torch.cat(part) for part in zip(*seen)))
        print(f"{t.metrics['steps']} steps here; AUC of the newest {len(seen)} batches, "
              f"before they were learned from: {newest:.3f}")


if __name__ == "__main__":
    main()
