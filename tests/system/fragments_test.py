#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train.fragments and train.overlap: parameters leave in parts, while the worker computes.
One worker makes what NumPy makes, and each closure counts once whatever dies.

The moments of death come from a seed: SLUICE_SEED repeats a failure.
"""
import os
import random

import numpy as np
from cluster import Cluster, check, check_counts, check_equal, main
from external_test import exported
from local_test import local_job
from meet_test import check_survives
from sets_test import updates

SEED = int(os.environ.get("SLUICE_SEED", random.SystemRandom().randrange(1 << 32)))
dice = random.Random(SEED)

FEATURES, HIDDEN, CLASSES, RATE = 32, 128, 3, 0.02
CLOSURES, EACH, FRAGMENTS = 18, 4, 4
OUTER = {"type": "sgd", "learning_rate": 0.6, "momentum": 0}


def fragments_job(name, quorum, contributions, steps=12, overlap=0, **options):
    spec = local_job(name, contributions, steps, quorum=quorum, fragments=4, **options)
    if overlap:
        spec["train"]["overlap"] = overlap
    spec["placement"] = {"shard_bytes": 32768}
    return spec


class Net:
    """Two dense layers, in f64: gradients by hand. `flat` is as Sluice has it: kernels lie
    by outputs."""

    def __init__(self, weights):
        self.shapes = {name: value.T.shape for name, value in weights.items()}
        self.flat = self.joined(weights)

    def joined(self, values):
        return np.concatenate([values[name].T.ravel() for name in self.shapes]).astype(np.float64)

    def apart(self, flat):
        ends = np.cumsum([np.prod(shape) for shape in self.shapes.values()])
        return {name: part.reshape(shape).T for (name, shape), part
                in zip(self.shapes.items(), np.split(flat, ends[:-1]))}

    def gradient(self, x, y):
        w, n = self.apart(self.flat), len(x)
        inside = np.maximum(x @ w["in/kernel"] + w["in/bias"], 0)
        score = inside @ w["out/kernel"] + w["out/bias"]
        p = np.exp(score - score.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        p[np.arange(n), y] -= 1
        p /= n
        of_inside = (p @ w["out/kernel"].T) * (inside > 0)
        return self.joined({"in/kernel": x.T @ of_inside, "in/bias": of_inside.sum(0),
                            "out/kernel": inside.T @ p, "out/bias": p.sum(0)})


def train_in_numpy(weights, parts, x, y, overlap, blend):
    """One worker: fragment k mod 4 leaves behind closure k, the psserver moves it at once,
    and the worker takes it `overlap` steps later. At the end all that is left leaves.
    `parts` has the fragment of each element."""
    net = Net(weights)
    theirs, base = net.flat.copy(), net.flat.copy()
    batch, away = len(x) // (CLOSURES * EACH), None

    def leave(fragment):
        at = parts == fragment
        theirs[at] -= OUTER["learning_rate"] * (base[at] - net.flat[at])
        return fragment

    def take(fragment):
        at = parts == fragment
        base[at] = theirs[at]
        net.flat[at] = blend * net.flat[at] + (1 - blend) * base[at]

    for step in range(CLOSURES * EACH):
        part = slice(step * batch, (step + 1) * batch)
        net.flat = net.flat - RATE * net.gradient(x[part], y[part])
        if away is not None and step % EACH + 1 == overlap:
            away = take(away)
        if step % EACH == EACH - 1:
            away = leave(step // EACH % FRAGMENTS)
            if overlap == 0:
                away = take(away)
    if away is not None:
        take(away)
    for fragment in range(FRAGMENTS):
        if fragment != (CLOSURES - 1) % FRAGMENTS:
            leave(fragment)
    return net.apart(theirs)


def parts_of(status):
    """Which shards leave together: each goes to the fragment that is the smallest by then."""
    sizes = [0] * FRAGMENTS
    parts = []
    for shard in status["shards"]:
        part = min(range(FRAGMENTS), key=lambda p: (sizes[p], p))
        sizes[part] += int(shard["bytes"])
        parts.append(part)
    return parts


def draw_all(batch):
    draw = np.random.default_rng(4)
    x = draw.normal(1, 2, (CLOSURES * EACH * batch, FEATURES)).astype(np.float32)
    y = (x @ draw.normal(0, 1, (FEATURES, CLASSES))).argmax(1)
    shapes = {"in/kernel": (FEATURES, HIDDEN), "in/bias": (HIDDEN,),
              "out/kernel": (HIDDEN, CLASSES), "out/bias": (CLASSES,)}
    weights = {name: draw.normal(0, 0.1, shape).astype(np.float32)
               for name, shape in shapes.items()}
    return x, y, weights


def job_of_numpy(folder, batch, overlap, blend):
    train = {"mode": "local", "inner": {"steps": EACH * FRAGMENTS}, "outer": OUTER,
             "contributions": 2, "quorum": 1, "fragments": FRAGMENTS, "overlap": overlap,
             "batch": batch, "epochs": 1, "shuffle": False, "precision": "f32"}
    if blend is not None:
        train["inner"]["blend"] = blend
    return {
        "name": "numpy",
        "model": {"input_shape": [FEATURES], "layers": [
            {"type": "dense", "name": "in", "units": HIDDEN, "activation": "relu"},
            {"type": "dense", "name": "out", "units": CLASSES}]},
        "loss": "sparse_categorical_crossentropy",
        "optimizer": {"type": "sgd", "learning_rate": RATE},
        "data": {"train": {"format": "npy", "x": str(folder / "x.npy"),
                           "y": str(folder / "y.npy")}},
        "placement": {"shard_bytes": 4096},
        "train": train}


def compare_with_numpy(overlap, blend, share):
    """A stream ends when no lease waits, which is up to the host: then the job is done
    again, with steps that take longer, and with the same ones."""
    from safetensors.numpy import save_file
    for batch in (256, 1024, 4096, 4096, 4096):
        x, y, weights = draw_all(batch)
        with Cluster(psservers=2, workers=1) as c:
            np.save(c.dir / "x.npy", x)
            np.save(c.dir / "y.npy", y.astype(np.int64))
            save_file(weights, str(c.dir / "weights.safetensors"))
            job = c.submit(job_of_numpy(c.dir, batch, overlap, blend),
                           "--weights", c.dir / "weights.safetensors")
            done = c.wait_state(job)
            check_counts(done)
            got = exported(c, job)
        parts = parts_of(done)
        last = (CLOSURES - 1) % FRAGMENTS
        pushes = [sum(k % FRAGMENTS == p for k in range(CLOSURES)) + (p != last) for p in parts]
        if updates(done) == pushes:
            break
        print(f"batches of {batch}: the stream ended before the job", flush=True)
    check_equal(updates(done), pushes, "pushes of each shard, in one stream")
    check_equal(set(parts), set(range(FRAGMENTS)), "fragments")
    each = np.repeat(parts, [int(shard["bytes"]) // 4 for shard in done["shards"]])
    want = train_in_numpy(weights, each, x, y, overlap, share)
    for name, value in want.items():
        off = np.abs(got[name] - value).max()
        check(off < 1e-5 * max(1, np.abs(value).max()), f"{name}: differs by {off}")
    check(np.abs(want["out/kernel"] - weights["out/kernel"]).max() > 0.01, "nothing is learnt")


def one_worker_makes_what_numpy_makes():
    compare_with_numpy(0, None, 0)


def what_comes_is_taken_some_steps_later():
    compare_with_numpy(3, None, 0.5)
    compare_with_numpy(2, 0.25, 0.25)


def all_workers_learn_and_each_closure_counts_once():
    with Cluster(psservers=2, workers=2) as c:
        for overlap in (0, 2):
            done = c.wait_state(c.submit(fragments_job(
                f"learn-{overlap}", 1, 2, overlap=overlap, samples=6400, epochs=6)))
            check_counts(done)
            check(done["evaluations"][-1]["accuracy"] > 0.6,
                  f"accuracy {done['evaluations'][-1]['accuracy']}")
        spec = fragments_job("moments", 1, 2, overlap=2, samples=6400, epochs=6)
        spec["optimizer"] = {"type": "adam", "learning_rate": 0.001}
        spec["train"]["inner"].update(moments="store", moments_every=1)
        check_told(c, c.wait_state(c.submit(spec)), vectors=2)


def check_told(c, done, vectors):
    """Each parameter and its moments leave once in 12 steps of 32 samples, and once more at
    the end of a stream; and the status says how old it is what is merged."""
    check_counts(done)
    least = 4 * (1 + vectors) * int(done["parameters"]) / (12 * 32)
    local = done["local"]
    check(0.99 * least < local["pushed_bytes"] < 10 * least,
          f"{local['pushed_bytes']} bytes of a sample, at least {least}")
    check_equal((local["norm"], "moments_age" in local), (0, True), "no norms, but moments")
    rows = c.run("status", done["id"]).stdout
    for words in ("bytes of a sample", "age of what is merged", "half up to", "contributions since"):
        check(words in rows, f"status lacks {words}", rows)


def everything_dies_and_each_closure_counts_once():
    for quorum, overlap in ((2, 0), (2, 2), (1, 2)):
        check_survives(fragments_job("all", quorum, 4, overlap=overlap, samples=6400,
                                     epochs=9), dice, 500)


if __name__ == "__main__":
    print(f"SLUICE_SEED={SEED}", flush=True)
    main([one_worker_makes_what_numpy_makes, what_comes_is_taken_some_steps_later,
          all_workers_learn_and_each_closure_counts_once,
          everything_dies_and_each_closure_counts_once])
