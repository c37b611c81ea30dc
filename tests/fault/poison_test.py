#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bad luck in the data: samples that kill who computes them, and gradients
that are no numbers."""
import math
import os
import pathlib
import re
import signal
import subprocess

import conserve
from bed import Bed, check, check_counts, check_equal, ended, net, run, wait_for


def poisoned(flag, how, limit, **train):
    """Five programs may meet sample 100 (closure 6, samples 96..111); four are
    enough. The net job and a later sum are unharmed. In one epoch: the same
    sample lies in a closure of the next as well, where the fifth would end."""
    with Bed(workers=1, programs=0, net_epochs=4) as b:
        spec = conserve.conserve_job("poison", epochs=1)
        spec["train"].update(train)
        # All are there before it is: fewer than four would use up its attempts.
        for i in range(5):
            b.programs.start(f"x-{i}", flag, 100)
        for i in range(5):
            wait_for(f"x-{i} to attend", lambda: f'"member":"x-{i}"' in b.log("coordinator"))
        failed = b.wait_state(b.submit(spec), "failed")
        for word in ("closure 6 ", "epoch 1", "samples 96..111", "4 distinct", how):
            check(word in failed["reason"], f"no '{word}' in", failed["reason"])
        dead = {n for n, p in b.programs.running.items() if p.poll() is not None}
        if how == "lost":
            check_those_died(failed["reason"], dead)
        else:
            check(not dead, "died:", *dead)
        for name in list(b.programs.running):
            b.programs.kill(name)
        b.spec = conserve.conserve_job("after", epochs=4)
        b.sum = b.submit(b.spec)
        b.programs.start("x-good")
        b.end()


def check_those_died(reason, dead):
    """The four that are named. One more may have died with a closure that it
    had completed and not told yet, to which its death was laid."""
    named = set(re.findall(r"(x-\d) \(lost\)", reason))
    check(len(named) == 4 and named <= dead, f"dead are {dead};", reason)


def N9_a_sample_that_kills_four_workers():
    poisoned("--die-on", "lost", 5)


def N9_a_sample_that_four_workers_cannot_compute():
    poisoned("--raise-on", "not to my taste", 5)


def N9_a_sample_at_which_four_workers_hang():
    """With heartbeats: only that nothing moves gives them away."""
    poisoned("--hang-on", "made no progress for 2 s", 5, stall_seconds=2)


def tracer_of(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(re.search(r"TracerPid:\s+(\d+)", status)[1])


def N9_a_worker_of_ours_that_hangs_makes_room_for_another():
    """Its thread that reads samples is held in a system call: the closure goes
    to w-0, and w-1, which cannot end that thread, ends itself."""
    with Bed(workers=1, psservers=1, programs=0, jobs=False) as b:
        spec = table(b, "hang", epochs=30)
        spec["train"]["stall_seconds"] = 2
        b.args["worker"].append("--grace=1s")
        hung = b.start_under("w-1", [
            "-P", spec["data"]["train"]["x"], "-e", "trace=pread64",
            "-e", "inject=pread64:delay_enter=600000000:when=20"])
        job = b.submit(spec)
        tracer = tracer_of(hung.pid)
        b.on_log("coordinator", "closure makes no progress")
        b.on_log("w-1", "compute thread hangs")
        os.kill(tracer, signal.SIGKILL)  # strace keeps what is left of the thread
        check_equal(ended(hung) and hung.poll(), 138, "its exit code")
        said = [x for x in b.log("w-1").splitlines() if "compute thread" in x][0]
        for word in ("closure", "step", "first", "count"):
            check(f'"{word}":' in said, f"no {word} in", said)
        b.kill("w-1")
        b.start("w-1")
        check_counts(b.wait_state(job))
        b.end()


def N9_a_slot_of_a_worker_that_hangs_is_done_by_its_copy():
    """Of a round, with heartbeats: nobody waits for train.stall_seconds, and
    w-1 gets nothing until it lets go of its slot."""
    with Bed(workers=1, psservers=1, programs=0, jobs=False) as b:
        spec = table(b, "copied", epochs=10)
        spec["train"].update(mode="sync", contributions=2, backup=1,
                             steps_per_closure=1, stall_seconds=600)
        hung = b.start_under("w-1", [
            "-P", spec["data"]["train"]["x"], "-e", "trace=pread64",
            "-e", "inject=pread64:delay_enter=600000000:when=20"])
        job = b.submit(spec)
        tracer = tracer_of(hung.pid)
        done = b.wait_state(job)
        check_counts(done)
        check_equal(int(done["workers_lost"]), 0, "workers lost")
        reason = [m.get("reason", "") for m in b.cluster_status()["members"] if m["name"] == "w-1"]
        check("another worker was first" in reason[0], "why w-1 has nothing", reason)
        os.kill(tracer, signal.SIGKILL)
        b.kill("w-1")
        b.start("w-1")
        b.end()


def N9_blame_survives_the_coordinator():
    """Two workers die, the coordinator dies, two more die: that is four. The death of one
    that has not yet told of the closure before is laid to that one, and another dies."""
    with Bed(workers=0, programs=0, jobs=False) as b:
        job = b.submit(conserve.conserve_job("poison", epochs=1))
        for i in range(10):
            if i == 2:
                b.restart("coordinator")
            mark = b.mark("coordinator")
            b.programs.start(f"x-{i}", "--die-on", 100)
            # What dies with the coordinator is nobody's fault that it knows of.
            wait_for("a worker's death", lambda: "worker did not come back" in
                     b.log("coordinator")[mark:] or b.status(job)["state"] == "failed")
            if b.status(job)["state"] == "failed":
                break
        failed = b.wait_state(job, "failed")
        check("4 distinct" in failed["reason"], "the reason", failed["reason"])
        check(i >= 3, "workers who died", i + 1)


def table(b, name, epochs):
    """A file that is read line by line."""
    with open(b.dir / f"{name}.csv", "w", encoding="ascii") as file:
        for i in range(320):
            print(*(math.sin(i * k) for k in range(1, 9)), i % 2, sep=",", file=file)
    spec = net(name, epochs=epochs)
    spec["model"] = {"input_shape": [8], "layers": [{"type": "dense", "units": 2}]}
    spec["data"] = {"train": {"format": "csv", "x": str(b.dir / f"{name}.csv"),
                              "label_column": "8"}}
    spec.pop("evaluate", None)
    return spec


def floats(b, name, bad, folder=""):
    import numpy as np
    x = np.random.default_rng(1).normal(size=(320, 8)).astype("<f4")
    y = (x[:, 0] > 0).astype("<i4")
    x[bad] = math.nan
    (b.dir / folder).mkdir(exist_ok=True)
    np.save(b.dir / folder / f"{name}-x.npy", x)
    np.save(b.dir / folder / f"{name}-y.npy", y)
    return {"name": name, "model": {"input_shape": [8], "layers": [
                {"type": "dense", "units": 2}]},
            "loss": "sparse_categorical_crossentropy",
            "optimizer": {"type": "sgd", "learning_rate": 0.1},
            "data": {"train": {"format": "npy",
                               "x": str(b.dir / folder / f"{name}-x.npy"),
                               "y": str(b.dir / folder / f"{name}-y.npy")}},
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


def lay_over(here, there):
    """What goes before a command: it finds `here` at `there`, alone."""
    return ["unshare", "-m", "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"',
            str(here), str(there)]


def one_bad_worker(max_nonfinite):
    """All that w-bad reads is not a number: as if its memory, or its copy of
    the data, were broken. w-0 goes on, and w-bad cannot fail the job."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True,
                      check=False).returncode != 0:
        print("no mounts of its own here: left out")
        return
    from safetensors.numpy import load_file
    import numpy as np
    with Bed(workers=1, psservers=1, programs=0, jobs=False) as b:
        floats(b, "own", slice(None), folder="bad")
        spec = floats(b, "own", [], folder="good")
        spec["train"].update(epochs=700, max_nonfinite=max_nonfinite)
        plain = b.command
        # In its own mount namespace another folder lies over that of the files.
        b.command = lambda name: (lay_over(b.dir / "bad", b.dir / "good")
                                  if name == "w-bad" else []) + plain(name)
        job = b.submit(spec)
        b.wait_steps(job, 10)  # w-0 has opened the data
        b.start("w-bad")
        b.on_log("coordinator", "worker excluded from a job")
        why = {m["name"]: m.get("reason", "") for m in b.cluster_status()["members"]}
        check("not finite" in why["w-bad"], "the reason of w-bad", why)
        check_equal(why["w-0"], "", "the reason of w-0")
        done = b.wait_state(job)
        check_counts(done)
        check(int(done["updates_skipped"]) > 0, "nothing was skipped")
        b.run("export", job, "--to", b.dir / "own.safetensors")
        for name, value in load_file(str(b.dir / "own.safetensors")).items():
            check(np.isfinite(value).all(), f"{name} is not finite")


def N16_one_worker_that_only_skips():
    one_bad_worker(1_000_000)


def N16_one_worker_that_gives_the_job_up():
    """It meets its own limit and says that the job is wrong: it is not."""
    one_bad_worker(20)


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
