#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bad luck in the data: samples that kill who computes them, and gradients
that are no numbers."""
import math

import conserve
from bed import Bed, check, check_counts, check_equal, net, run, wait_for


def poisoned(flag, how, limit):
    """Five programs meet sample 100 (closure 6, samples 96..111); four are
    enough. The net job and a later sum are unharmed."""
    with Bed(workers=1, programs=0, net_epochs=4) as b:
        job = b.submit(conserve.conserve_job("poison"))
        for i in range(5):
            b.programs.start(f"x-{i}", flag, 100)
        failed = b.wait_state(job, "failed")
        for word in ("closure 6 ", "epoch 1", "samples 96..111", "4 distinct", how):
            check(word in failed["reason"], f"no '{word}' in", failed["reason"])
        dead = sum(p.poll() is not None for p in b.programs.running.values())
        check(dead == (4 if how == "lost" else 0), f"{dead} programs died")
        for name in list(b.programs.running):
            b.programs.kill(name)
        b.spec = conserve.conserve_job("after", epochs=4)
        b.sum = b.submit(b.spec)
        b.programs.start("x-good")
        b.end()


def N9_a_sample_that_kills_four_workers():
    poisoned("--die-on", "lost", 5)


def N9_a_sample_that_four_workers_cannot_compute():
    poisoned("--raise-on", "not to my taste", 5)


def N9_blame_survives_the_coordinator():
    """Two workers die, the coordinator dies, two more die: that is four."""
    with Bed(workers=0, programs=0, jobs=False) as b:
        job = b.submit(conserve.conserve_job("poison"))
        for i in range(4):
            if i == 2:
                b.restart("coordinator")
            program = b.programs.start(f"x-{i}", "--die-on", 100)
            wait_for("the program to die", lambda p=program: p.poll() is not None)
        failed = b.wait_state(job, "failed")
        check("4 distinct" in failed["reason"], "the reason", failed["reason"])


def floats(b, name, bad):
    import numpy as np
    x = np.random.default_rng(1).normal(size=(320, 8)).astype("<f4")
    x[bad] = math.nan
    np.save(b.dir / f"{name}-x.npy", x)
    np.save(b.dir / f"{name}-y.npy", (x[:, 0] > 0).astype("<i4"))
    return {"name": name, "model": {"input_shape": [8], "layers": [
                {"type": "dense", "units": 2}]},
            "loss": "sparse_categorical_crossentropy",
            "optimizer": {"type": "sgd", "learning_rate": 0.1},
            "data": {"train": {"format": "npy", "x": str(b.dir / f"{name}-x.npy"),
                               "y": str(b.dir / f"{name}-y.npy")}},
            "train": {"batch": 32, "epochs": 4, "steps_per_closure": 2}}


def N16_one_sample_that_is_not_a_number():
    """Its step is counted and skipped, once per epoch; a worker dies meanwhile."""
    import numpy as np
    from safetensors.numpy import load_file
    with Bed(workers=2, programs=1) as b:
        spec = floats(b, "nan", [77])
        job = b.submit(spec)
        b.kill_many(["w-0"])
        b.back(["w-0"])
        done = b.wait_state(job)
        check_counts(done)
        for shard in done["shards"]:
            check_equal(int(shard["counts"]["skipped"]), 4, "steps skipped")
        b.run("export", job, "--to", b.dir / "nan.safetensors")
        for name, value in load_file(str(b.dir / "nan.safetensors")).items():
            check(np.isfinite(value).all(), f"{name} is not finite")
        b.end()


def N16_nothing_but_such_samples():
    with Bed(workers=2, programs=1) as b:
        spec = floats(b, "all-nan", slice(None))
        spec["train"]["max_nonfinite"] = 5
        failed = b.wait_state(b.submit(spec), "failed")
        check("finite" in failed["reason"], "the reason", failed["reason"])
        check_counts(b.wait_state(b.submit(net("after", epochs=1))))
        b.end()


if __name__ == "__main__":
    run(globals())
