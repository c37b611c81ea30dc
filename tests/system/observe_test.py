#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a job shows while it runs: curves for TensorBoard."""
import json
import os
import subprocess

from cluster import Cluster, check, check_counts, check_equal, main, mlp_job, wait_for
from curves import Run
from frameworks import PYTHON

# What the peers' environment has of TensorBoard: its own reader.
READER = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
a = EventAccumulator(sys.argv[1], size_guidance={"tensors": 0}); a.Reload()
from tensorboard.util import tensor_util
tags = a.Tags()["tensors"]
print(json.dumps({t: [[e.step, tensor_util.make_ndarray(e.tensor_proto).tolist() if t != "job/spec" else 0]
                      for e in a.Tensors(t)] for t in tags}))
"""
WORDS = ("loss", "metric/accuracy", "lr", "staleness/p50", "throughput/samples_per_second", "workers/ready")


def job_of(name, **more):
    spec = mlp_job(name, samples=3200, epochs=2)
    spec["optimizer"]["schedule"] = {"type": "exponential_decay", "decay_steps": 100, "decay_rate": 0.5}
    return {**spec, **more}


def last_rate(end):
    return 0.001 * 0.5 ** ((int(end["steps_counted"]) - 1) / 100)


def complete(folder, end):
    """Its last point is there, which is made when the job has ended."""
    if not (folder / "validation").exists():
        return False
    tags = Run(folder).tags
    return ("loss" in tags and tags["loss"][-1][0] == int(end["steps_counted"]) and
            abs(tags["lr"][-1][1][0] - last_rate(end)) < 1e-5)


def check_run(root, job, end, starts=()):
    """Every curve is there and ends where the job did."""
    run, tests = Run(root / job), Run(root / job / "validation")
    steps = int(end["steps_counted"])
    for word in WORDS:
        check(run.tags.get(word), f"no curve '{word}'", sorted(run.tags))
        check_equal(run.tags[word][-1][0], steps, f"{word}: its last step")
    check_equal(run.starts, list(starts), "starts")
    for got, want, what in ((run.tags["loss"][-1][1][0], end["loss"], "loss"),
                            (run.tags["lr"][-1][1][0], last_rate(end), "learning rate"),
                            (tests.tags["metric/accuracy"][-1][1][0], end["evaluations"][-1]["accuracy"],
                             "accuracy of the last evaluation")):
        check(abs(got - want) < 1e-5 * max(1, abs(want)), f"{what}: {got}, not {want}")
    # An epoch's evaluation lies at the step that its checkpoint holds; several of one are a point.
    check_equal(len(end["evaluations"]), int(end["epochs"]), "evaluations")
    check_equal([p[0] for p in tests.tags["loss"]], sorted({int(e["steps"]) for e in end["evaluations"]}),
                "steps of the evaluations")
    check_equal([json.loads(text)["name"] for text in run.texts["job/spec"]], [end["name"]] * len(run.files),
                "the spec")
    return run


def watched_and_observed_jobs_are_curves_that_tensorboard_reads():
    with Cluster(psservers=2, workers=2) as c:
        root = c.dir / "curves"
        spec = c.dir / "spec.yaml"
        wish = {"tensorboard": "mine/one", "histograms": True}
        spec.write_text(json.dumps(job_of("observed", observe=wish)))
        told = c.run("submit", spec, "--no-wait", want=2).stderr
        check("--observe-dir" in told and "sluice watch JOB --tensorboard DIR" in told, "what to do is not said", told)
        c.kill("coordinator")
        c.start("coordinator", extra=["--observe-dir", str(root)])
        told = c.run("submit", spec, "--no-wait", "--set", "observe.tensorboard=../../up", want=2).stderr
        check("not a path below a folder" in told, "a way out is taken", told)

        job = c.submit(job_of("observed", observe=wish))
        c.run("watch", job, "--tensorboard", c.dir / "seen", "--histograms")
        end = c.wait_state(job)
        check_counts(end)
        mine = root / "mine" / "one"
        wait_for("the coordinator's last point", lambda: complete(mine / job, end))
        for place in (mine, c.dir / "seen"):
            first = Run(place / job).starts  # who came late says so
            run = check_run(place, job, end, first)
            check_equal(len(run.files), 1, "files of one run")
            check(len(first) <= 1, "starts of a run that was never left", first)
            delays = sum(count for _, rows in run.tags["staleness"] for count in rows[2::3])
            check(0 < delays <= 2 * int(end["steps_counted"]), f"{delays} delays of two shards")
            check_reader(place / job, run)

        # It goes on in a job of its own, whose curve begins where that one ended.
        more = c.submit(job_of("observed", observe=wish), "--resume", job, "--set", "train.epochs=3")
        end = c.wait_state(more)
        wait_for("the coordinator's last point", lambda: complete(mine / more, end))
        check_equal(Run(mine / more).starts[0] >= 200, True, "it begins with a start behind what was done")


def check_reader(folder, run):
    if not os.path.exists(PYTHON) or subprocess.run([PYTHON, "-c", "import tensorboard"], capture_output=True).returncode != 0:
        print("TensorBoard's own reader is not here (bench/setup): not asked", flush=True)
        return
    done = subprocess.run([PYTHON, "-c", READER, folder], capture_output=True, text=True)
    check_equal(done.returncode, 0, f"TensorBoard's reader: {done.stderr}")
    tags = json.loads(done.stdout)
    check_equal(sorted(tags), sorted([*run.tags, "job/spec"]), "tags that TensorBoard finds")
    for tag, points in run.tags.items():
        check_equal([step for step, _ in tags[tag]], [step for step, _ in points], f"steps of {tag}")
    check(abs(tags["loss"][-1][1] - run.tags["loss"][-1][1][0]) < 1e-6, "the last loss")


def a_folder_that_cannot_be_written_ends_nothing():
    with Cluster(psservers=1, workers=1) as c:
        root = c.dir / "curves"
        c.kill("coordinator")
        c.start("coordinator", extra=["--observe-dir", str(root)])
        (root / "gone").write_text("a file where a folder is to be")
        job = c.submit(job_of("observed", observe={"tensorboard": "gone"}))
        wait_for("the coordinator to say it", lambda: "curves cannot be written" in c.log("coordinator"))
        (root / "gone").unlink()
        end = c.wait_state(job)
        check_counts(end)
        check_equal(c.log("coordinator").count("curves cannot be written"), 1, "lines of the log")
        wait_for("its last point", lambda: complete(root / "gone" / job, end))
        wait_for("the coordinator to say so", lambda: "curves are written again" in c.log("coordinator"))


if __name__ == "__main__":
    main([watched_and_observed_jobs_are_curves_that_tensorboard_reads,
          a_folder_that_cannot_be_written_ends_nothing])
