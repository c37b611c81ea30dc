#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch in allreduce and hybrid mode: programs of `sluice.torch` sum their gradients,
without a psserver or before their leader pushes to one, and what they learn is what one
program learns with batches twice as large, also where one of them is killed and another
takes its place."""
import functools
import json
import sys

from cluster import LIMIT, Cluster, check, check_counts, check_equal, wait_for
from external_test import Program, Programs
from frames import ENVIRONMENT, PYTHON, main_with, run

NET = """
import json, sys, torch
torch.set_num_threads(1)
torch.manual_seed(7)
x, y = torch.randn(6400, 12), torch.randint(0, 4, (6400,))
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
    for batch in t.batches((x, y), batch_size=16, epochs=3):
        t.step(lambda: told(batch))
    assert t.load()
    t.save(STORE + "/" + o.name + ".safetensors")
    total = sum(p.detach().double().abs().sum() for p in model.parameters()).item()
    print("sum of what was learnt", total, flush=True)
"""

ALONE = NET + """
for epoch in range(3):
    for first in range(0, 6400, 32):
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


def train(c, readers, kill, mode=in_ring):
    path = c.dir / "rank.py"
    path.write_text(RANK.replace("STORE", repr(str(c.dir / "store")))
                    .replace("MODE", repr(mode(c)))
                    .replace("READERS", str(readers)))
    with Programs(lambda name: Program(c, name, path, python=PYTHON,
                                       **ENVIRONMENT)) as programs:
        job = wait_for("a job", lambda: next(
            (j["id"] for j in c.json("jobs").get("jobs", [])), None), 60)
        if kill:
            c.wait_steps(job, 300)
            survivor = programs.running[1].process.pid
            programs.replace()
            check_equal(programs.running[0].process.pid, survivor, "who survives")
        done = c.wait_state(job)
        for program in programs.running:
            check_equal(program.process.wait(timeout=60 * LIMIT), 0, "exit of a program")
    check_counts(done)
    check(mode is in_group or not kill or int(done["ring_generation"]) >= 2, done)
    logs = "".join((c.dir / f"program-{i}.log").read_text()
                   for i in range(programs.begun))
    check_curve(logs, alone())


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
        one_of_a_group_is_killed_and_replaced_and_nobody_learns_anything_else]))
