#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job that starts with the values of a file, and with nothing else of it."""
import json
import shutil

import numpy
from safetensors.numpy import load_file, save_file

from cluster import (Cluster, check, check_counts, check_equal, main, mlp_job,
                     wait_for)


class Bed(Cluster):
    """Ranks of a ring write their checkpoints here."""

    def command(self, name):
        return super().command(name) + (["--store", str(self.dir / "store")] if name[0] == "w" else [])


def job_of(name, mode="async", rate=0.01, **train):
    spec = mlp_job(name, samples=640, epochs=1, batch=64,
                   **({} if mode == "async" else {"mode": mode}), **train)
    if mode == "sync":
        spec["train"]["contributions"] = 2
    if mode == "hybrid":
        spec["train"]["group"] = {"by": "any", "size": 2}
    # Filters and kernels lie in other orders here than in Keras.
    spec["model"]["layers"].insert(0, {"type": "conv2d", "filters": 4, "kernel_size": [3, 3], "strides": [2, 2]})
    spec["optimizer"] = {"type": "adam", "learning_rate": rate}
    return spec


def exported(c, job, name):
    path = c.dir / f"{name}.safetensors"
    c.run("export", job, "--to", path)
    return path, load_file(path)


def trained(c):
    job = c.submit(job_of("first"))
    c.wait_state(job)
    return job, *exported(c, job, "first")


def says(done, *texts):
    for text in texts:
        check(text in done.stderr, f"it does not say '{text}'", done.stdout, done.stderr)


def each_mode_starts_with_the_values_and_evaluates_as_their_job():
    with Bed(psservers=2, workers=2) as c:
        first, path, want = trained(c)
        accuracy = c.json("status", first)["evaluations"][-1]["accuracy"]
        for mode in ("async", "sync", "allreduce", "hybrid"):
            # So small a rate that no value moves: what is exported is what came.
            job = c.submit(job_of(mode, mode, rate=1e-30), "--weights", path)
            end = c.wait_state(job)
            check_counts(end)
            check_equal(int(end.get("resumed_steps", 0)), 0, "steps that were taken with them")
            check_equal(end["weights"], str(path.resolve()), "what it started with")
            _, got = exported(c, job, mode)
            check_equal(sorted(got), sorted(want), f"{mode}: variables")
            for name in want:
                check(numpy.array_equal(got[name], want[name]), f"{mode}: {name} is another",
                      numpy.abs(got[name] - want[name]).max())
            check_equal(end["evaluations"][-1]["accuracy"], accuracy, f"{mode}: accuracy")


def they_are_there_again_until_there_is_a_cut():
    """Everybody who had them dies before the first checkpoint."""
    with Bed(psservers=1, workers=0) as c:
        c.start("w-0")
        _, path, want = trained(c)
        c.kill("w-0")
        job = c.submit(job_of("second", rate=1e-30), "--weights", path)
        for name in ("ps-0", "coordinator"):
            c.restart(name)
        c.start("w-0")
        check_counts(c.wait_state(job))
        _, got = exported(c, job, "second")
        for name in want:
            check(numpy.array_equal(got[name], want[name]), f"{name} is another")


def a_file_that_does_not_fit_is_refused_in_one_sentence():
    with Bed(psservers=1, workers=1) as c:
        _, path, values = trained(c)
        kernel = next(name for name in values if name.endswith("kernel"))
        spec = c.dir / "spec.yaml"
        spec.write_text(json.dumps(job_of("other")))
        bad = c.dir / "bad.safetensors"

        def refused(*texts, want=2):
            done = c.run("submit", spec, "--no-wait", "--weights", bad, want=want)
            says(done, *texts)
            check_equal(len(done.stderr.strip().splitlines()), 1, "lines")

        refused(f"{bad}: No such file", want=3)
        save_file({k: v for k, v in values.items() if k != kernel}, bad)
        refused(f"has no tensor '{kernel}'")
        save_file({**values, kernel: values[kernel].T.copy()}, bad)
        refused(f"tensor '{kernel}' is F32 (", "in Keras' layout")
        save_file({**values, kernel: values[kernel].astype(numpy.float16)}, bad)
        refused(f"tensor '{kernel}' is F16 (")
        bad.write_text("{}")
        refused(str(bad), want=1)
        says(c.run("submit", spec, "--no-wait", "--weights", path, "--resume", "first", want=2),
             "leave out --weights")
        says(c.run("submit", spec, "--no-wait", "--weights", save(bad, {**values, "more": values[kernel]})),
             "has 1 more tensors")


def save(path, values):
    save_file(values, path)
    return path


def a_file_that_is_away_or_another_is_said_until_it_is_there():
    with Bed(psservers=1, workers=1) as c:
        _, path, want = trained(c)
        away = c.dir / "away"
        away.mkdir()
        here = away / "model.safetensors"
        shutil.copy(path, here)
        c.kill("ps-0")
        job = c.submit(job_of("second", rate=1e-30), "--weights", here)
        here.write_bytes(path.read_bytes()[:-4] + b"\0\0\0\1")
        c.start("ps-0")
        wait_for("the reason", lambda: "model.safetensors" in c.status(job).get("reason", ""))
        reason = c.status(job)["reason"]
        check("psserver ps-0 cannot load shard 0" in reason and "SHA-256" in reason, "the reason", reason)
        # On a host without that folder it is looked for in the store.
        here.unlink()
        shutil.copy(path, c.dir / "store" / "model.safetensors")
        check_counts(c.wait_state(job))
        _, got = exported(c, job, "second")
        for name in want:
            check(numpy.array_equal(got[name], want[name]), f"{name} is another")


def what_lies_below_no_root_is_not_looked_at_and_holds_up_nobody():
    """Psservers, and ranks, which have data roots of their own."""
    with Bed(psservers=0, workers=0) as c:
        inside, outside = c.dir / "in", c.dir / "out"
        inside.mkdir()
        outside.mkdir()
        root = f"--weights-root={inside}"
        c.start("ps-0", extra=[root])
        c.start("w-0", extra=[root])
        _, path, want = trained(c)
        for folder in (inside, outside):
            shutil.copy(path, folder / "model.safetensors")
        there = {mode: c.submit(job_of(f"there-{mode}", mode), "--weights", outside / "model.safetensors")
                 for mode in ("async", "allreduce")}
        gone = c.submit(job_of("gone"), "--weights", outside / "model.safetensors")
        (outside / "model.safetensors").unlink()
        (outside / "model.safetensors").symlink_to("/dev/zero")
        job = c.submit(job_of("inside", rate=1e-30), "--weights", inside / "model.safetensors")
        check_counts(c.wait_state(job))
        _, got = exported(c, job, "inside")
        for name in want:
            check(numpy.array_equal(got[name], want[name]), f"{name} is another")
        for other in (there["async"], gone):
            wait_for("the reason", lambda: f"reads below --weights-root {inside}" in c.status(other).get("reason", ""))
        wait_for("a rank's reason", lambda: f"this worker reads below --weights-root {inside}"
                 in json.dumps(c.status(there["allreduce"])))


if __name__ == "__main__":
    main([each_mode_starts_with_the_values_and_evaluates_as_their_job,
          they_are_there_again_until_there_is_a_cut,
          a_file_that_does_not_fit_is_refused_in_one_sentence,
          a_file_that_is_away_or_another_is_said_until_it_is_there,
          what_lies_below_no_root_is_not_looked_at_and_holds_up_nobody])
