#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch in allreduce and hybrid mode: programs of `sluice.torch` sum their gradients,
without a psserver or before their leader pushes to one, and what they learn is what one
program learns with batches twice as large, also where one of them is killed and another
takes its place. With tables their rows lie on psservers beside the ring."""
import functools
import json
import sys

import numpy as np
from cluster import LIMIT, Cluster, check, check_counts, check_equal, wait_for
from external_test import Programs, exported
from frames import Forked, main_with, run
from native_rows_test import rows_of

NET = """
import json, sys, torch
torch.set_num_threads(1)
torch.manual_seed(7)
x, y = torch.randn(3200, 12), torch.randint(0, 4, (3200,))
torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(12, 600), torch.nn.Tanh(),
                            torch.nn.Linear(600, 64), torch.nn.Tanh(),
                            torch.nn.Linear(64, 4))
loss_fn = torch.nn.CrossEntropyLoss()
adam = torch.optim.Adam(model.parameters(), lr=1e-3)
"""

RANK = NET + """
import argparse, sluice.torch
parser = argparse.ArgumentParser()
for word in ("coordinator", "name"):
    parser.add_argument("--" + word, default=None)
o = parser.parse_args()

def told(batch):  # before the gradient leaves: a rank may be killed behind that
    loss = loss_fn(model(batch.x), batch.y)
    print(json.dumps([batch.epoch, int(batch.samples[0]), loss.item()]), flush=True)
    return loss

with sluice.torch.Trainer(model, "ring", o.coordinator, name=o.name, optimizer=adam,
                          ranks=2, workers=READERS, **MODE) as t:
    for batch in t.batches((x, y), batch_size=16, epochs=2):
        t.step(lambda: told(batch))
    assert t.load()
    t.save(STORE + "/" + o.name + ".safetensors")
    total = sum(p.detach().double().abs().sum() for p in model.parameters()).item()
    print("sum of what was learnt", total, flush=True)
"""

ALONE = NET + """
for epoch in range(2):
    for first in range(0, 3200, 32):
        adam.zero_grad()
        out = model(x[first:first + 32])
        for half in (0, 16):
            loss = loss_fn(out[half:half + 16], y[first + half:first + half + 16])
            print(json.dumps([epoch, first + half, loss.item()]))
        loss_fn(out, y[first:first + 32]).backward()
        adam.step()
print(sum(p.detach().double().abs().sum() for p in model.parameters()).item())
"""


def check_curve(logs, alone):
    """Each loss that a rank has seen, also of steps that were done again."""
    *want, total = alone.splitlines()
    want = {(e, s): loss for e, s, loss in map(json.loads, want)}
    seen = {}
    for line in logs.splitlines():
        if not line.startswith("["):
            continue
        epoch, sample, loss = json.loads(line)
        there = want[epoch, sample]
        check(abs(loss - there) <= 1e-4 * there,
              f"epoch {epoch}, sample {sample}: {loss}, alone {there}")
        seen[epoch, sample] = loss
    check_equal(len(seen), len(want), "batches that somebody has seen")
    learnt = [float(line.split()[-1]) for line in logs.splitlines()
              if line.startswith("sum of")]
    check(len(learnt) >= 2, f"programs that ended: {learnt}")
    for value in learnt:
        check(abs(value - float(total)) < 1e-5 * float(total), f"{learnt}, alone {total}")


def in_ring(c):
    return {"mode": "allreduce", "store": str(c.dir / "store"),
            "train": {"shuffle": False, "bucket_bytes": 1 << 15,
                      "workers": {"min": 2, "max": 2}}}


def in_group(c):
    """One shard, so that no kill leaves a step pushed to one of two: what is done
    again is then computed from the same parameters."""
    return {"mode": "hybrid", "train": {"shuffle": False}}


@functools.cache
def alone():
    """What ALONE prints, each time."""
    return run(ALONE)


def ranks_of(c, text, mode, kill):
    """Two programs of this text train the job that the first one submits; one may be killed
    and replaced. Gives the job, and how many programs were begun."""
    path = c.dir / "rank.py"
    path.write_text(text.replace("STORE", repr(str(c.dir / "store")))
                    .replace("MODE", repr(mode(c))))
    with Programs(lambda name: Forked(c, name, path)) as programs:
        job = wait_for("a job", lambda: next(
            (j["id"] for j in c.json("jobs").get("jobs", [])), None), 60)
        if kill:
            c.wait_steps(job, 100)
            survivor = programs.running[1].process.pid
            programs.replace()
            check_equal(programs.running[0].process.pid, survivor, "who survives")
        done = c.wait_state(job)
        for program in programs.running:
            check_equal(program.process.wait(timeout=60 * LIMIT), 0, "exit of a program")
    check_counts(done)
    check(mode is in_group or not kill or int(done["ring_generation"]) >= 2, done)
    return job, programs.begun


def train(c, readers, kill, mode=in_ring):
    _, begun = ranks_of(c, RANK.replace("READERS", str(readers)), mode, kill)
    logs = "".join((c.dir / f"program-{i}.log").read_text() for i in range(begun))
    check_curve(logs, alone())


# ---- beside tables

SAMPLES, ROUND, EPOCHS = 1280, 32, 8
FAR = 0x1d7a3b5c9e2f48  # ids are any numbers of 64 bits


def data_of_tables(path):
    """Writes ids (a user and three tags of each sample), what is learnt of them, and first
    rows."""
    draw = np.random.default_rng(7)
    ids = np.concatenate([draw.integers(0, 40, (SAMPLES, 1)),
                          draw.integers(100, 130, (SAMPLES, 3))], axis=1)
    np.savez(path, ids=ids * FAR, users=np.arange(40) * FAR,
             y=(np.cos(ids[:, 0]) + np.sin(ids[:, 1:]).sum(1)).astype(np.float32),
             rows=draw.normal(0, 0.3, (40, 4)).astype(np.float32))
    return np.load(path)


TABLES = """
import argparse, numpy, torch, sluice.torch
parser = argparse.ArgumentParser()
for word in ("coordinator", "name"):
    parser.add_argument("--" + word, default=None)
o = parser.parse_args()
torch.set_num_threads(1)
data = numpy.load(DATA)

def sgd(rate):
    return {"type": "sgd", "learning_rate": rate}

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.users = sluice.torch.Embedding(
            "users", 4, optimizer=sgd(0.2), rows=(data["users"], data["rows"]))
        self.tags = sluice.torch.EmbeddingBag("tags", 3, mode="mean", initializer="ones",
                                              optimizer=sgd(0.05))
        self.out = torch.nn.Linear(7, 1)
        with torch.no_grad():
            self.out.weight.copy_(torch.linspace(-1, 1, 7))
            self.out.bias.zero_()

    def forward(self, x):
        return self.out(torch.cat([self.users(x[:, 0]), self.tags(x[:, 1:])], 1))[:, 0]

net = Net()
with sluice.torch.Trainer(net, "tables", o.coordinator, name=o.name, ranks=2,
                          optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
                          **MODE) as t:
    for batch in t.batches((data["ids"], data["y"]), batch_size=16, epochs=8):
        t.step(lambda: torch.nn.functional.mse_loss(net(batch.x), batch.y))
"""


def in_numpy(ids, users, y, rows):
    """What TABLES learns: variables and rows, in f64."""
    w, b = np.linspace(-1, 1, 7), 0.0
    users = dict(zip(users.tolist(), rows.astype(np.float64)))
    tags = {int(i): np.ones(3) for i in set(ids[:, 1:].ravel().tolist())}
    for _ in range(EPOCHS):
        for at in range(0, SAMPLES, ROUND):
            part, changes = slice(at, at + ROUND), []
            x = np.stack([np.concatenate([users[int(i[0])],
                                          np.mean([tags[int(k)] for k in i[1:]], axis=0)])
                          for i in ids[part]])
            off = 2 * (x @ w + b - y[part]) / len(x)
            for i, of in zip(ids[part], off[:, None] * w):
                changes.append((users, int(i[0]), 0.2 * of[:4]))
                changes += [(tags, int(k), 0.05 * of[4:] / 3) for k in i[1:]]
            w, b = w - 0.1 * off @ x, b - 0.1 * off.sum()
            for table, number, change in changes:
                table[number] = table[number] - change
    return {"out.weight": w, "out.bias": b}, {"users": users, "tags": tags}


def tables_are_those_of_numpy(c, kill):
    data = data_of_tables(c.dir / "data.npz")
    job, _ = ranks_of(c, TABLES.replace("DATA", repr(str(c.dir / "data.npz"))), in_ring, kill)
    variables, tables = in_numpy(**data)
    for name, want in variables.items():
        off = np.abs(exported(c, job)[name].ravel() - want).max()
        check(off < 1e-4, f"{name}: differs by {off}")
    for table, want in tables.items():
        got = rows_of(c, job, table)
        check_equal(set(got), set(want), f"rows of {table}")
        off = max(np.abs(got[number] - want[number]).max() for number in want)
        check(off < 1e-4, f"rows of {table}: differ by {off}")
        check(max(np.ptp(row) for row in want.values()) > 0.01, "nothing is learnt")


def rows_beside_two_ranks_are_those_of_numpy():
    with Cluster(psservers=2, workers=0) as c:
        tables_are_those_of_numpy(c, kill=False)


def a_rank_is_killed_and_its_rows_are_those_of_numpy():
    """R8: in the middle of its round the rows of the others are held, and dropped."""
    with Cluster(psservers=2, workers=0) as c:
        tables_are_those_of_numpy(c, kill=True)


def two_ranks_learn_what_one_program_learns_with_twice_the_batch():
    with Cluster(psservers=0, workers=0) as c:
        train(c, readers=1, kill=False)


def a_rank_is_killed_and_replaced_and_nobody_learns_anything_else():
    with Cluster(psservers=0, workers=0) as c:
        train(c, readers=0, kill=True)


def a_group_learns_what_one_program_learns_with_twice_the_batch():
    with Cluster(psservers=1, workers=0) as c:
        train(c, readers=1, kill=False, mode=in_group)


def one_of_a_group_is_killed_and_replaced_and_nobody_learns_anything_else():
    with Cluster(psservers=1, workers=0) as c:
        train(c, readers=0, kill=True, mode=in_group)


if __name__ == "__main__":
    sys.exit(main_with("torch", [
        two_ranks_learn_what_one_program_learns_with_twice_the_batch,
        a_rank_is_killed_and_replaced_and_nobody_learns_anything_else,
        a_group_learns_what_one_program_learns_with_twice_the_batch,
        one_of_a_group_is_killed_and_replaced_and_nobody_learns_anything_else,
        rows_beside_two_ranks_are_those_of_numpy,
        a_rank_is_killed_and_its_rows_are_those_of_numpy]))
