#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train.mode local: workers take steps by themselves, and psservers take the mean of what
they changed. A job learns what NumPy does, counts each sample once whatever dies, and
what comes out does not depend on who computed what.

The moments of death come from a seed: SLUICE_SEED repeats a failure.
"""
import json
import os
import random

import numpy as np
from cluster import Cluster, check, check_counts, check_equal, main, mlp_job, wait_for
from external_test import exported
from sync_test import check_same_bits, same_bits

SEED = int(os.environ.get("SLUICE_SEED", random.SystemRandom().randrange(1 << 32)))
dice = random.Random(SEED)

FEATURES, CLASSES, SAMPLES, BATCH, STEPS, SLOTS, EPOCHS = 6, 3, 500, 10, 6, 3, 3
KEPT, EPSILON = 0.8, 1e-3
OUTER = {"type": "sgd", "learning_rate": 0.6, "momentum": 0.8, "nesterov": True}


def local_job(name, contributions=3, steps=10, **options):
    return mlp_job(name, mode="local", contributions=contributions, inner={"steps": steps},
                   **options)


class Net:
    """Batch normalization and a dense layer, in f64: gradients by hand."""

    def __init__(self, weights):
        self.w = {name: value.astype(np.float64) for name, value in weights.items()}

    def gradient(self, x, y):
        w, n = self.w, len(x)
        mean, variance = x.mean(0), x.var(0)
        for name, seen in (("norm/moving_mean", mean), ("norm/moving_variance", variance)):
            w[name] = KEPT * w[name] + (1 - KEPT) * seen
        straight = (x - mean) / np.sqrt(variance + EPSILON)
        inside = straight * w["norm/gamma"] + w["norm/beta"]
        score = inside @ w["out/kernel"] + w["out/bias"]
        p = np.exp(score - score.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        p[np.arange(n), y] -= 1
        p /= n
        of_inside = p @ w["out/kernel"].T
        return {"norm/gamma": (of_inside * straight).sum(0), "norm/beta": of_inside.sum(0),
                "out/kernel": inside.T @ p, "out/bias": p.sum(0)}


class Adam:
    """Keras' Adam, with a rate that a schedule halves every 8 steps."""

    def __init__(self, rate):
        self.rate, self.t, self.m, self.v = rate, 0, {}, {}

    def update(self, net, number, gradients):
        self.t += 1
        rate = self.rate * 0.5 ** (number / 8)
        rate *= np.sqrt(1 - 0.999 ** self.t) / (1 - 0.9 ** self.t)
        for name, g in gradients.items():
            self.m[name] = 0.9 * self.m.get(name, 0) + 0.1 * g
            self.v[name] = 0.999 * self.v.get(name, 0) + 0.001 * g * g
            net.w[name] = net.w[name] - rate * self.m[name] / (np.sqrt(self.v[name]) + 1e-7)


def mean_of_elements(old, after, shares):
    return old - sum(share * w for share, w in zip(shares, after))


def mean_of_directions(old, after, shares):
    changes = [old - w for w in after]
    norms = [np.linalg.norm(change) for change in changes]
    way = sum(share * change / norm for share, change, norm in zip(shares, changes, norms))
    return np.dot(shares, norms) * way / np.linalg.norm(way)


def train_in_numpy(weights, x, y, mean_of=mean_of_elements):
    """Copies of the net that meet in one process: each round, each slot begins with the
    parameters of the round and an optimizer without a past."""
    now, velocity, rounds = Net(weights).w, {}, 0
    size = BATCH * STEPS
    for _ in range(EPOCHS):
        for first in range(0, SAMPLES, size * SLOTS):
            slots = [range(at, min(at + size, SAMPLES))
                     for at in range(first, min(first + size * SLOTS, SAMPLES), size)]
            after = []
            for slot in slots:
                net, adam = Net(now), Adam(0.01)
                for at, begin in enumerate(range(slot.start, slot.stop, BATCH)):
                    part = slice(begin, min(begin + BATCH, slot.stop))
                    adam.update(net, rounds * STEPS + at, net.gradient(x[part], y[part]))
                after.append(net.w)
            rounds += 1
            shares = [len(slot) / sum(map(len, slots)) for slot in slots]
            for name, old in list(now.items()):
                if "moving" in name:
                    now[name] = sum(share * w[name] for share, w in zip(shares, after))
                    continue
                change = mean_of(old, [w[name] for w in after], shares)
                rate, beta = OUTER["learning_rate"], OUTER["momentum"]
                velocity[name] = beta * velocity.get(name, 0) - rate * change
                now[name] = old + beta * velocity[name] - rate * change
    return now, rounds


def samples_of_numpy():
    draw = np.random.default_rng(4)
    x = draw.normal(1, 2, (SAMPLES, FEATURES)).astype(np.float32)
    return x, (x @ draw.normal(0, 1, (FEATURES, CLASSES))).argmax(1)


def job_of_numpy(folder, x, y):
    """Contributions of 6 steps of 10 of 500 samples: 9 an epoch, of which the last has 20
    samples; so rounds of 3."""
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", y.astype(np.int64))
    return {
        "name": "numpy",
        "model": {"input_shape": [FEATURES], "layers": [
            {"type": "batch_normalization", "name": "norm", "momentum": KEPT,
             "epsilon": EPSILON},
            {"type": "dense", "name": "out", "units": CLASSES}]},
        "loss": "sparse_categorical_crossentropy",
        "optimizer": {"type": "adam", "learning_rate": 0.01, "schedule": {
            "type": "exponential_decay", "decay_steps": 8, "decay_rate": 0.5}},
        "data": {"train": {"format": "npy", "x": str(folder / "x.npy"),
                           "y": str(folder / "y.npy")}},
        "train": {"mode": "local", "inner": {"steps": STEPS}, "outer": OUTER,
                  "contributions": SLOTS, "batch": BATCH, "epochs": EPOCHS,
                  "shuffle": False, "precision": "f32"},
    }


def compare_with_numpy(c, off_most=1e-5, mean_of=mean_of_elements, **train):
    from safetensors.numpy import save_file
    x, y = samples_of_numpy()
    weights = {"norm/gamma": np.ones(FEATURES), "norm/beta": np.zeros(FEATURES),
               "norm/moving_mean": np.zeros(FEATURES), "norm/moving_variance": np.ones(FEATURES),
               "out/kernel": np.random.default_rng(5).normal(0, 0.5, (FEATURES, CLASSES)),
               "out/bias": np.zeros(CLASSES)}
    weights = {name: value.astype(np.float32) for name, value in weights.items()}
    save_file(weights, str(c.dir / "weights.safetensors"))
    spec = job_of_numpy(c.dir, x, y)
    spec["train"].update(train)
    job = c.submit(spec, "--weights", c.dir / "weights.safetensors")
    done = c.wait_state(job)
    check_counts(done)
    want, rounds = train_in_numpy(weights, x, y, mean_of)
    check_equal(int(done["shards"][0]["counts"]["version"]), rounds, "rounds")
    got = exported(c, job)
    for name, value in want.items():
        off = np.abs(got[name] - value).max()
        check(off < off_most * max(1, np.abs(value).max()), f"{name}: differs by {off}")
    check(np.abs(want["out/kernel"] - weights["out/kernel"]).max() > 0.1, "nothing is learnt")


def what_numpy_computes():
    with Cluster(psservers=2, workers=2) as c:
        compare_with_numpy(c)


def what_numpy_computes_of_directions():
    # One psserver has each variable whole.
    with Cluster(psservers=1, workers=2) as c:
        compare_with_numpy(c, mean_of=mean_of_directions, average="direction")


def the_same_bits_however_many_workers_and_whoever_dies():
    check_same_bits(local_job("bits", 4, 5, samples=3200, epochs=12, seed=7), dice, (5, 30), 230)


def everything_dies_and_each_sample_counts_once():
    """Slots of the worker's optimizer go on from contribution to contribution, or are
    lost with it; the counts know nothing of it. Copies of slots, two devices."""
    with Cluster(psservers=2, workers=3) as c:
        c.kill("w-2")
        c.start("w-2", ["--device", "cpu,cpu"])
        spec = local_job("all", 3, 4, samples=6400, epochs=18, backup=1)
        spec["train"]["inner"]["moments"] = "keep"
        spec["checkpoint"] = {"every_seconds": 0.2}
        job = c.submit(spec)
        wait_for("a cut", lambda: int(c.status(job)["cuts"]) > 0)
        for _ in range(6):
            c.wait_steps(job, min(c.steps(job) + dice.randint(5, 60), 850))
            c.restart(dice.choice(["ps-0", "ps-1", "w-0", "w-1", "coordinator"]))
        check_counts(c.wait_state(job))


def moments_outlive_their_worker():
    """One worker, which is killed, and another one that goes on with its moments: the
    bits are those of a worker that was never killed. Without the moments they are not."""
    spec = local_job("moments", 1, 5, samples=6400, epochs=10, seed=7)
    spec["placement"] = {"partitioner": "fixed", "shards": 3}
    results = {}
    with Cluster(psservers=2, workers=1) as c:
        for name, inner, killed in (("whole", {"moments": "store", "moments_every": 1}, False),
                                    ("dies", {"moments": "store", "moments_every": 1}, True),
                                    ("forgets", {"moments": "keep"}, True)):
            spec["train"]["inner"] = {"steps": 5, **inner}
            job = c.submit({**spec, "name": name})
            for at in (25, 100, 175, 250) if killed else ():
                c.wait_steps(job, at + dice.randint(0, 50))
                c.restart("w-0")
            if name == "dies":
                wait_for("the moments' age",
                         lambda: int(c.status(job)["local"].get("moments_age", 99)) < 3)
            check_counts(c.wait_state(job))
            results[name] = exported(c, job)
    check(same_bits(results["whole"], results["dies"]), "moments died with their worker")
    check(not same_bits(results["whole"], results["forgets"]), "moments change nothing")


def moments_come_back_with_their_shards():
    """Psservers that are started again have them from their snapshots, and a new worker
    takes them from there."""
    spec = local_job("files", 2, 5, samples=6400, epochs=20, seed=7)
    spec["train"]["inner"] = {"steps": 5, "moments": "store", "moments_every": 2,
                              "up": "int8", "down": "int8"}
    spec["checkpoint"] = {"every_seconds": 0.2}
    with Cluster(psservers=2, workers=2) as c:
        job = c.submit(spec)
        for at in (50, 200, 350):
            c.wait_steps(job, at + dice.randint(0, 50))
            for name in ("ps-0", "ps-1", "w-0", "w-1"):
                c.kill(name)
            for name in ("ps-0", "ps-1", "w-0", "w-1"):
                c.start(name)
        check_counts(c.wait_state(job))
        said = sum((c.dir / f"{name}.log").read_text().count("moments that the psservers keep")
                   for name in ("w-0", "w-1"))
        check(said >= 3, f"moments were taken {said} times")


def jobs_go_on_and_go_over():
    """A resumed job has the outer optimizer's slots. From another mode only values can
    come: its psservers have other slots."""
    with Cluster(psservers=2, workers=2) as c:
        job = c.submit(local_job("first", 2, 5, samples=6400, epochs=25))
        wait_for("a cut", lambda: int(c.status(job)["cuts"]) > 0)
        c.run("stop", job)
        c.wait_state(job, "stopped")
        path = c.dir / "other.yaml"
        path.write_text(json.dumps(mlp_job("other", batch=160, steps_per_closure=1, epochs=50)))
        done = c.run("submit", path, "--no-wait", "--resume", job, want=None)
        check("optimizer.type: adam, but the cut is of a job with sgd" in done.stderr,
              "slots of another optimizer were taken", done.stderr)
        c.run("export", job, "--to", c.dir / "half.safetensors")
        other = c.submit(mlp_job("weights", epochs=1), "--weights", c.dir / "half.safetensors")
        check_counts(c.wait_state(other))
        done = c.wait_state(c.submit(local_job("first", 2, 5, samples=6400, epochs=25),
                                     "--resume", job))
        check_counts(done)
        check(done["evaluations"][-1]["accuracy"] > 0.8,
              f"accuracy {done['evaluations'][-1]['accuracy']}")


def a_step_that_is_not_finite_skips_its_round():
    """On every shard; its samples are counted, and the worker goes on with the
    parameters that it had before."""
    x, y = samples_of_numpy()
    x[237] = np.inf
    with Cluster(psservers=2, workers=2) as c:
        done = c.wait_state(c.submit(job_of_numpy(c.dir, x, y)))
        check_counts(done)
        for shard in done["shards"]:
            check_equal(int(shard["counts"]["version"]), 2 * EPOCHS, "rounds applied")
        check(all(np.isfinite(value).all() for value in exported(c, done["id"]).values()),
              "parameters are not finite")


def a_contribution_that_is_too_large_is_computed_by_another_worker():
    """The rate rises to 200 times what it was: contributions from then on are set
    aside until they are usual, and another worker's pass. Nothing is lost by it, no
    worker is suspect, and the bits are those of a job that sets nothing aside."""
    spec = local_job("large", 2, 5, samples=6400, epochs=4, seed=7)
    spec["optimizer"] = {"type": "sgd", "schedule": {
        "type": "piecewise_constant_decay", "boundaries": [150], "values": [0.0002, 0.04]}}
    results = []
    with Cluster(psservers=2, workers=2) as c:
        for ratio in (5, 0):
            spec["train"]["max_norm_ratio"] = ratio
            job = c.submit({**spec, "name": f"large-{ratio}"})
            done = c.wait_state(job)
            check_counts(done)
            check_figures(done["local"], done["parameters"], set_aside=ratio > 0)
            results.append(exported(c, job))
        check_equal([m.get("state") for m in c.cluster_status()["members"]
                     if m["role"] == "worker"], ["ready"] * 2, "workers")
        text = c.run("status", job).stdout
        check("bytes of a sample" in text and "w-0 " in text, "status lacks rows", text)
    check(same_bits(*results), "a contribution that was set aside changed the bits")


def bytes_of_a_sample_are_those_that_travel():
    """Of contributions in one byte a number, and of changes in one."""
    spec = local_job("few", 2, 5, samples=6400, epochs=4)
    spec["train"]["inner"].update(up="int8", down="int8")
    with Cluster(psservers=2, workers=2) as c:
        done = c.wait_state(c.submit(spec))
        check_counts(done)
        each = int(done["parameters"]) / (5 * 32)  # the first ones come in f32
        for key, most in (("pushed_bytes", 1.1), ("pulled_bytes", 2)):
            share = done["local"][key] / each
            check(0.4 < share < most, f"{key}: {share} bytes a number")


def check_figures(local, parameters, set_aside):
    """A contribution is 5 steps of 32 samples, and each parameter travels in f32 once up,
    and once down or, in a slot behind the last one's, not at all."""
    each = 4 * int(parameters) / (5 * 32)
    check(abs(local["pushed_bytes"] / each - 1) < 1e-6, f"{local['pushed_bytes']} up, not {each}")
    check(0.4 * each < local["pulled_bytes"] < 2 * each, f"{local['pulled_bytes']} down, not {each}")
    check_equal(int(local["set_aside"]) > 0, set_aside, "set aside")
    for worker in local["workers"]:
        check(worker["norm"] > 0 and 0 < worker["loss"] < 3 and 0 <= worker["angle"] < 90,
              f"a worker's figures: {worker}")
        check_equal(int(worker["wrong"]), 0, "wrong contributions")


if __name__ == "__main__":
    print(f"SLUICE_SEED={SEED}", flush=True)
    main([what_numpy_computes,
          what_numpy_computes_of_directions,
          the_same_bits_however_many_workers_and_whoever_dies,
          everything_dies_and_each_sample_counts_once,
          moments_outlive_their_worker,
          moments_come_back_with_their_shards,
          jobs_go_on_and_go_over,
          a_step_that_is_not_finite_skips_its_round,
          a_contribution_that_is_too_large_is_computed_by_another_worker,
          bytes_of_a_sample_are_those_that_travel])
