#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job that lies still because somebody wants it to: nothing is lost by it and
nothing counted twice, whoever dies meanwhile."""
from cluster import (Leisurely, check, check_counts, check_equal, main, mlp_job,
                     wait_for)


class Bed(Leisurely):
    """Ranks of a ring write their checkpoints here."""

    def command(self, name):
        return super().command(name) + (["--store", str(self.dir / "store")] if name[0] == "w" else [])


def small(spec):
    """The job with a net that costs little: 6,370 parameters."""
    spec["model"]["layers"][1]["units"] = 8
    return spec


def job_of(mode, epochs=10):
    """Returns a job that lasts several times as long as a busy machine takes to pause it,
    while the links are long."""
    train = {} if mode == "async" else {"mode": mode}
    if mode == "sync":
        train["contributions"] = 2
    if mode == "hybrid":
        train["group"] = {"by": "any", "size": 2}
    return small(mlp_job(mode, samples=3200, epochs=epochs, batch=32, **train))


def says(done, *texts):
    for text in texts:
        check(text in done.stderr, f"it does not say '{text}'", done.stdout, done.stderr)


def stands(c, job):
    """Nobody works for it, while others do, from the begin of a job to its end.
    The step that was under way may still be counted, and is reported later."""
    before = None

    def still():
        nonlocal before
        other = c.submit(small(mlp_job("other", samples=640, epochs=1, batch=64)))
        check_counts(c.wait_state(other))
        now = c.status(job)
        for what in ("closures_running", "workers"):
            check_equal(int(now.get(what, 0)), 0, f"{what} of a paused job")
        was, before = before, now["steps_counted"]
        return was == before
    wait_for("its counts to stand still", still)


def goes_on_exactly(mode, servers=2):
    with Bed(psservers=2, workers=2) as c:
        job = c.submit(job_of(mode))
        c.wait_steps(job, 20)
        steps = c.steps(job)
        done = c.run("pause", job, "--why", "the machines are needed")
        says(done, f"{job} is paused by ", "the machines are needed",
             f"`sluice resume {job}` sets it going again")
        told = c.status(job)
        check(told["pause"]["holds"] and told["pause"]["why"] == "the machines are needed",
              "what the status says", told["pause"])
        held = {int(cut["steps"]) for cut in c.json("checkpoints", job)["checkpoints"]}
        check(max(held) >= steps, "its checkpoint holds less than was counted", held)
        c.hurry()
        stands(c, job)
        line = [row for row in c.run("jobs").stdout.splitlines() if row.startswith(f"{job} ")]
        check("paused" in line[0], "what `jobs` says", line)
        found = c.run("doctor", want=None).stdout
        check(f"job {job} was paused by" in found, "doctor does not say it", found)

        c.kill("ps-0")
        c.kill("coordinator")
        c.start("coordinator")
        c.start("ps-0")
        wait_for("its shards", lambda: mode == "allreduce" or all(
            int(s.get("incarnation", 0)) for s in c.status(job)["shards"]))
        check(c.status(job)["pause"]["holds"], "a restart has ended the pause")
        stands(c, job)
        says(c.run("resume", job), f"{job} is ")
        end = c.wait_state(job)
        check_counts(end)
        check(float(end["paused_seconds"]) > 0, "the time that it was paused", end)
        calls = [row for row in (c.dir / "coordinator" / "audit.log").read_text().splitlines()
                 if '"Pause"' in row or '"Resume"' in row]
        check_equal(len(calls), 2, "lines of the audit log")


def async_goes_on_exactly():
    goes_on_exactly("async")


def sync_goes_on_exactly():
    goes_on_exactly("sync")


def allreduce_goes_on_exactly():
    goes_on_exactly("allreduce")


def hybrid_goes_on_exactly():
    goes_on_exactly("hybrid")


def many_pauses_cost_no_step():
    with Bed(psservers=2, workers=2) as c:
        job = c.submit(job_of("async"))
        for i in range(6):
            now = wait_for("its size", lambda: int(c.status(job)["steps_asked"]) and c.status(job))
            if int(now["steps_counted"]) > int(now["steps_asked"]) / 2:
                break  # a busy machine
            c.wait_steps(job, int(now["steps_counted"]) + 20)
            c.run("pause", job, *(["--now"] if i % 2 else []))
            if i == 3:
                c.restart("ps-1")
            c.run("resume", job)
        c.hurry()
        check_counts(c.wait_state(job))


def what_cannot_be_paused_is_refused_with_the_way_out():
    with Bed(psservers=1, workers=1) as c:
        spec = job_of("allreduce", epochs=5000)
        spec["checkpoint"] = {"every_epoch": False, "every_seconds": 1000}
        del spec["data"]["test"]
        job = c.submit(spec)
        c.wait_steps(job, 10)
        says(c.run("pause", job, "--now", want=6), "only the workers of job", "without --now")
        c.run("pause", job)
        says(c.run("checkpoint", job, want=6), f"job {job} is paused", f"`sluice resume {job}` first")
        says(c.run("delete", job, want=6), f"job {job} is paused; stop it first")
        c.run("stop", job)
        says(c.run("resume", job, want=6), f"job {job} is stopped", f"--resume {job}")
        says(c.run("pause", job, want=6), f"job {job} is stopped: nothing of it runs")
        says(c.run("pause", "j-99", want=3), "there is no job j-99")


if __name__ == "__main__":
    main([async_goes_on_exactly,
          sync_goes_on_exactly,
          allreduce_goes_on_exactly,
          hybrid_goes_on_exactly,
          many_pauses_cost_no_step,
          what_cannot_be_paused_is_refused_with_the_way_out])
