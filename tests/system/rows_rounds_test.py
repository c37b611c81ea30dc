#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Layers with rows in rounds (train.mode sync), in groups (hybrid) and in micro-batches: a
job learns what NumPy does. In rounds its rows have the same bits whoever computed them, and
whoever died meanwhile."""
import numpy as np
from cluster import Cluster, check, check_counts, check_equal, main, wait_for
from external_test import exported
from ring_test import Ring
from native_rows_test import SAMPLES, clicks, clicks_job, rows_of, score

SLOTS, BATCH, EPOCHS = 4, 16, 6
WORDS = {"batch": BATCH, "steps_per_closure": 1, "shuffle": False, "precision": "f32"}
ROUNDS = {**WORDS, "mode": "sync", "contributions": SLOTS}
GROUPS = {**WORDS, "mode": "hybrid", "group": {"by": "any", "size": SLOTS}}
RING = {**WORDS, "mode": "allreduce", "contributions": SLOTS}
PARTS = {**WORDS, "mode": "async", "accumulate": SLOTS}
RATE = {"users": 0.2, "tags": 0.1, "dense": 0.1}


def rounds_job(folder, epochs, **more):
    made = clicks_job(folder, epochs, **ROUNDS)
    made["model"]["layers"][1].update(
        optimizer={"type": "sgd", "learning_rate": RATE["tags"]}, admit={"min_count": 3})
    made["optimizer"] = {"type": "sgd", "learning_rate": RATE["dense"]}
    return {**made, **more}


class Table:
    """A table in NumPy. A round that has an id counts once for it."""

    def __init__(self, first, rate, min_count=1, adagrad=False):
        self.first, self.rate, self.min_count, self.adagrad = first, rate, min_count, adagrad
        self.rows, self.counted, self.squares = {}, {}, {}

    def read(self, number):
        return self.rows.get(number, self.first(number))

    def update(self, gradients):
        for number, g in gradients.items():
            if number not in self.rows:
                self.counted[number] = self.counted.get(number, 0) + 1
                if self.counted[number] < self.min_count:
                    continue
                self.rows[number], self.squares[number] = self.first(number), 0
            if self.adagrad:
                self.squares[number] += np.mean(g ** 2)
                g = g / (np.sqrt(self.squares[number]) + 1e-8)
            self.rows[number] = self.rows[number] - self.rate * g


class Net:
    """The model of rounds_job in NumPy, in f64."""

    def __init__(self, weights, first_user):
        self.w = {name: value.astype(np.float64) for name, value in weights.items()}
        self.users = Table(first_user, RATE["users"], adagrad=True)
        self.tags = Table(lambda number: np.ones(3), RATE["tags"], min_count=3)

    def train_round(self, click, price, ids, bags):
        """One update by the mean over all samples of a round."""
        w, n = self.w, len(click)
        of_tags = np.stack([np.mean([self.tags.read(t) for t in bag], axis=0) if bag
                            else np.zeros(3) for bag in bags])
        x = np.concatenate([price, np.stack([self.users.read(i) for i in ids]), of_tags], axis=1)
        hidden = np.tanh(x @ w["hidden/kernel"] + w["hidden/bias"])
        out = 1 / (1 + np.exp(-(hidden @ w["out/kernel"] + w["out/bias"])))
        of_out = (out - click[:, None]) / n
        of_hidden = of_out @ w["out/kernel"].T * (1 - hidden ** 2)
        of_x = of_hidden @ w["hidden/kernel"].T
        users, tags = {}, {}
        for i, (number, bag) in enumerate(zip(ids, bags)):
            users[number] = users.get(number, 0) + of_x[i, 2:6]
            for t in bag:
                tags[t] = tags.get(t, 0) + of_x[i, 6:] / len(bag)
        for name, g in (("hidden/kernel", x.T @ of_hidden), ("hidden/bias", of_hidden.sum(0)),
                        ("out/kernel", hidden.T @ of_out), ("out/bias", of_out.sum(0))):
            w[name] = w[name] - RATE["dense"] * g
        self.users.update(users)
        self.tags.update(tags)


def given_weights(path):
    """Writes the values that a job of rounds begins with, and returns them."""
    from safetensors.numpy import save_file
    draw = np.random.default_rng(5)
    weights = {"hidden/kernel": draw.normal(0, 0.4, (9, 8)).astype(np.float32),
               "hidden/bias": np.zeros(8, np.float32),
               "out/kernel": draw.normal(0, 0.4, (8, 1)).astype(np.float32),
               "out/bias": np.zeros(1, np.float32)}
    save_file(weights, str(path))
    return weights


def trained_by_numpy(c, epochs):
    """The net that NumPy makes of the weights and samples in the folder of the cluster. It
    takes seconds: a job that goes on meanwhile may end before a test has done all to it."""
    net = Net(given_weights(c.dir / "weights.safetensors"), lambda number: np.ones(4))
    click, price, ids, bags = clicks(c.dir / "clicks.csv", SAMPLES, 1)
    size = BATCH * SLOTS
    for _ in range(epochs):
        for at in range(0, SAMPLES, size):
            part = slice(at, at + size)
            net.train_round(click[part], price[part].astype(np.float64), ids[part], bags[part])
    return net


def check_as_numpy(c, job, epochs, within):
    """Dense values and rows of a job that has ended."""
    net, dense = trained_by_numpy(c, epochs), exported(c, job)
    for name, want in net.w.items():
        off = np.abs(dense[name] - want).max()
        check(off < within, f"{name}: differs by {off}")
    for table in ("users", "tags"):
        got, want = rows_of(c, job, table), getattr(net, table).rows
        check_equal(set(got), set(want), f"rows of {table}")
        off = max(np.abs(got[number] - want[number]).max() for number in want)
        check(off < within, f"rows of {table}: differ by {off}")
        check(max(np.ptp(row) for row in want.values()) > 0.01, "nothing is learnt")


def check_numpy(train, **cluster):
    """Trains by SLOTS batches in an update, in the order of samples."""
    kind = Ring if train["mode"] == "allreduce" else Cluster
    with kind(psservers=2, **cluster) as c:
        clicks(c.dir / "clicks.csv", SAMPLES, 1)
        given_weights(c.dir / "weights.safetensors")
        made = rounds_job(c.dir, EPOCHS)
        made["train"] = {"epochs": EPOCHS, **train}
        made["model"]["layers"][0]["embeddings_initializer"] = "ones"
        job = c.submit(made, "--weights", c.dir / "weights.safetensors")
        done = c.wait_state(job)
        check_counts(done)
        if "audit" in train:
            check_audits(done, 40)
        check_as_numpy(c, job, EPOCHS, 1e-4)


def check_audits(status, least):
    found = {key: int(n) for key, n in status["audit"].items()}
    check(found["compared"] > least, f"hardly any audit: {found}")
    check_equal((found["differed"], found["decided"]), (0, 0), "audits")
    return found["compared"]


def rounds_are_those_of_numpy():
    check_numpy(ROUNDS, workers=2)
    check_numpy({**ROUNDS, "batch": BATCH // 2, "accumulate": 2, "audit": 1}, workers=2)


def rounds_of_rings_are_those_of_numpy():
    """R8: the ranks have the dense part, psservers the rows."""
    check_numpy(RING, workers=2)
    check_numpy(RING, workers=1)


def steps_of_groups_are_those_of_numpy():
    """Of three members, of which one computes two batches of a step; and of one."""
    check_numpy(GROUPS, workers=3, worker_args=["--shm", "off"])
    check_numpy(GROUPS, workers=1)


def audits_change_nothing_of_what_groups_learn():
    """A1, A5: of the shares of others, which have two batches or one, and of the own share
    twice. A member's repeats are of the rows that the leader brought once."""
    check_numpy({**GROUPS, "audit": 1}, workers=3, worker_args=["--shm", "off"])
    check_numpy({**GROUPS, "audit": 1, "group": {"by": "host", "size": SLOTS}}, workers=3)


def steps_of_micro_batches_are_those_of_numpy():
    check_numpy(PARTS, workers=1)
    check_numpy({**PARTS, "audit": 1}, workers=1)


def a_step_is_computed_twice_from_the_same_rows():
    """A5: while other workers change the rows, and each step would pull others the second
    time. So each audited closure has two results that can be compared."""
    with Cluster(psservers=2, workers=3) as c:
        clicks(c.dir / "clicks.csv", SAMPLES, 1)
        for accumulate in (1, 2):
            made = clicks_job(c.dir, 10, mode="async", batch=BATCH, steps_per_closure=2,
                              accumulate=accumulate, audit=1)
            done = c.wait_state(c.submit(made))
            check_counts(done)
            check_equal(check_audits(done, 40), int(done["closures_counted"]), "audits")


def left(c, job):
    """All that a job left, as bytes."""
    kept = {name: value.tobytes() for name, value in exported(c, job).items()}
    for table in ("users", "tags"):
        for number, row in rows_of(c, job, table).items():
            kept[table, number] = row.tobytes()
    return kept


def run_job(c, epochs, blow, shards, **train):
    made = rounds_job(c.dir, epochs, checkpoint={"every_seconds": 0.2},
                      placement={"psservers": 1, "partitioner": "fixed", "shards": shards})
    made["train"].update(train)
    job = c.submit(made)
    if blow is not None:
        wait_for("a cut", lambda: int(c.status(job)["cuts"]) > 0)
        blow(c, job)
    done = c.wait_state(job)
    check_counts(done)
    if "audit" in train:
        check_audits(done, 100)
    return left(c, job)


def workers_die(c, job):
    for name in ("w-1", "w-2", "w-1"):
        c.wait_steps(job, int(c.status(job)["steps_counted"]) + 40)
        c.restart(name)


def everyone_dies(c, job):
    for name in ("ps-0", "w-0", "coordinator", "ps-0"):
        c.wait_steps(job, int(c.status(job)["steps_counted"]) + 40)
        c.restart(name, wait=name == "coordinator")


def the_bits_are_the_same_whoever_computed():
    """Two shards, of which no worker's death takes anything; and one, which a psserver's
    death puts back to its last snapshot. Some slots are computed twice (backup); most
    rounds of one job are audited (A1, A3)."""
    epochs, found = 32, {}
    with Cluster(psservers=1, workers=1) as c:
        clicks(c.dir / "clicks.csv", SAMPLES, 1)
        for shards in (1, 2):
            found[shards] = run_job(c, epochs, None, shards)
    with Cluster(psservers=2, workers=3) as c:
        clicks(c.dir / "clicks.csv", SAMPLES, 1)
        for shards, blow, train in ((2, workers_die, {}), (2, workers_die, {"backup": 2}),
                                    (2, workers_die, {"audit": 0.7}),
                                    (1, everyone_dies, {})):
            other = run_job(c, epochs, blow, shards, **train)
            check_equal(set(other), set(found[shards]), "what is there")
            wrong = [name for name, value in other.items() if value != found[shards][name]]
            check(not wrong, f"{shards} shards, {blow.__name__}: other bits: {wrong[:5]} and "
                             f"others, {len(wrong)} of {len(other)}")


def a_job_goes_on_in_the_other_mode():
    """From rounds into single steps, on more shards, and back. What was counted of a round
    is in the rows already."""
    with Cluster(psservers=2, workers=2) as c:
        data, job, words = clicks(c.dir / "clicks.csv", SAMPLES, 1), None, []
        made = rounds_job(c.dir, 60, checkpoint={"every_seconds": 0.2})
        for mode, shards in (("sync", 1), ("async", 2), ("sync", 2)):
            if job is not None:
                wait_for("a cut", lambda job=job: int(c.status(job)["cuts"]) > 0)
                c.run("stop", job)
                c.wait_state(job, "stopped")
                words = ["--resume", job]
            rounds = {"contributions": SLOTS} if mode == "sync" else {}
            job = c.submit({**made, "placement": {"psservers": shards},
                            "train": {**WORDS, "epochs": 60, "mode": mode, **rounds}}, *words)
        check_counts(c.wait_state(job))
        check_equal(set(rows_of(c, job, "users")), set(data[2]), "users with a row")
        loss, _ = score(exported(c, job), rows_of(c, job, "users"), rows_of(c, job, "tags"), data)
        check(loss < 0.6, f"loss {loss}: nothing is learnt")


if __name__ == "__main__":
    main([rounds_are_those_of_numpy,
          rounds_of_rings_are_those_of_numpy,
          steps_of_groups_are_those_of_numpy,
          audits_change_nothing_of_what_groups_learn,
          a_step_is_computed_twice_from_the_same_rows,
          steps_of_micro_batches_are_those_of_numpy,
          the_bits_are_the_same_whoever_computed,
          a_job_goes_on_in_the_other_mode])
