#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Films that people like, from the ratings of MovieLens: matrix factorization, or
DeepFM, with users and films in sparse tables.

    python3 examples/torch_movielens.py --ratings u.data --coordinator 127.0.0.1:7070
    python3 examples/torch_movielens.py --ratings u.data --alone

Start it several times; kill any of them. The file has a line for each rating: user,
film, rating from 1 to 5, time; GroupLens' u.data, or ml-100k.inter of RecBole's wheel.
Each fifth rating is for the test. `--model mf` predicts ratings, and its RMSE is
printed; `--model deepfm` whether somebody gives 4 or more, and its AUC is printed.
`--alone` trains the same net in torch, without a cluster. Needs torch and the package
of python/.
"""
import argparse

import numpy as np
import sluice
import sluice.torch
import torch
from torch import nn

DIM, BATCH, RATE = 8, 256, 0.05
TABLES = ("users", "films")
PENALTY = {"mf": 0.05, "deepfm": 0.002}  # of the squares of each row that is looked up
EPOCHS = {"mf": 10, "deepfm": 6}


def ratings(path):
    """((ids of users and films, ratings) to train with, the same to test with)."""
    lines = np.genfromtxt(path, dtype=np.int64, usecols=(0, 1, 2), invalid_raise=False)
    lines = lines[lines[:, 2] > 0]  # a header is no numbers
    lines = lines[np.random.default_rng(1).permutation(len(lines))]
    test = np.arange(len(lines)) % 5 == 0
    return [(lines[which, :2], lines[which, 2].astype(np.float32)) for which in (~test, test)]


def in_tables(name, _):
    return sluice.torch.Embedding(name, 1 + DIM, initializer="random_uniform", optimizer={
        "type": "adagrad", "learning_rate": RATE, "initial_accumulator_value": 0})


def in_torch(_, ids):
    layer = nn.Embedding(ids, 1 + DIM)
    nn.init.uniform_(layer.weight, -0.05, 0.05)
    return layer


class Net(nn.Module):
    """A bias and a vector for each user and film, and the product of the vectors; in
    DeepFM also a net on both. `make` makes the layers of rows."""

    def __init__(self, kind, make, ids=(0, 0)):
        super().__init__()
        self.rows = nn.ModuleDict({name: make(name, n) for name, n in zip(TABLES, ids)})
        self.kind, self.bias = kind, nn.Parameter(torch.tensor(3.5 if kind == "mf" else 0.0))
        if kind == "deepfm":
            self.deep = nn.Sequential(nn.Linear(2 * DIM, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        """Returns what it predicts, and the mean square of the rows' lengths."""
        user, film = (self.rows[name](x[:, i]) for i, name in enumerate(TABLES))
        said = (self.bias + user[:, 0] + film[:, 0] + (user[:, 1:] * film[:, 1:]).sum(1))
        if self.kind == "deepfm":
            said = said + self.deep(torch.cat([user[:, 1:], film[:, 1:]], 1)).squeeze(1)
        return said, (user.square().sum(1) + film.square().sum(1)).mean()


def loss(net, x, y):
    said, squares = net(x)
    if net.kind == "mf":
        wrong = nn.functional.mse_loss(said, y)
    else:
        wrong = nn.functional.binary_cross_entropy_with_logits(said, (y >= 4).float())
    return wrong + PENALTY[net.kind] * squares


def adam(net):
    return torch.optim.Adam([p for name, p in net.named_parameters()
                             if not name.startswith("rows.")], lr=1e-3)


def alone(kind, epochs, train, ids):
    net, (x, y) = Net(kind, in_torch, ids), map(torch.from_numpy, train)
    optimizers = adam(net), torch.optim.Adagrad(net.rows.parameters(), lr=RATE)
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(BATCH):
            net.zero_grad()
            loss(net, x[batch], y[batch]).backward()
            for optimizer in optimizers:
                optimizer.step()
    return net


def on_a_cluster(kind, epochs, train, ids, coordinator, name):
    net = Net(kind, in_tables)
    with sluice.torch.Trainer(net, f"movielens-{kind}", coordinator, optimizer=adam(net),
                              name=name) as t:
        for batch in t.batches(train, BATCH, epochs):
            t.step(lambda: loss(net, batch.x, batch.y))
    return exported(kind, t.id, ids, coordinator)


def exported(kind, job, ids, coordinator):
    """Returns the net in torch alone, with what the job has learned."""
    net = Net(kind, in_torch, ids)
    state = {name: torch.from_numpy(value)
             for name, value in sluice.export(job, coordinator).items()}
    for name, n in zip(TABLES, ids):
        table = sluice.export(job, coordinator, table=name)
        rows = torch.zeros(n, 1 + DIM)  # of one that nobody has rated
        rows[table["ids"].astype(np.int64)] = torch.from_numpy(table["values"])
        state[f"rows.{name}.weight"] = rows
    net.load_state_dict(state)
    return net


def auc(said, liked):
    """The chance that of one that is liked and one that is not the first is ranked higher."""
    rank = np.empty(len(said))
    rank[said.argsort()] = np.arange(1, len(said) + 1)
    yes = int(liked.sum())
    return (rank[liked].sum() - yes * (yes + 1) / 2) / (yes * (len(liked) - yes))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ratings", metavar="FILE", required=True)
    parser.add_argument("--model", choices=EPOCHS, default="mf")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--seed", type=int, default=1, help="of what --alone begins with")
    parser.add_argument("--coordinator", metavar="ADDRESS")
    parser.add_argument("--name")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)

    train, (x, y) = ratings(options.ratings)
    ids = tuple(1 + max(train[0].max(0)[i], x.max(0)[i]) for i in range(2))
    epochs = options.epochs or EPOCHS[options.model]
    net = (alone(options.model, epochs, train, ids) if options.alone else
           on_a_cluster(options.model, epochs, train, ids, options.coordinator, options.name))
    with torch.no_grad():
        said = net(torch.from_numpy(x))[0].numpy()
    if options.model == "mf":
        print(f"RMSE {np.sqrt(np.square(said - y).mean()):.4f}")
    else:
        print(f"AUC {auc(said, y >= 4):.4f}")


if __name__ == "__main__":
    main()
