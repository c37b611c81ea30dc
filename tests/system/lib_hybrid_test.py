#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of the user's in groups (train.mode hybrid): a group's programs sum the
gradient of a step, its leader pushes it to the psservers, and each sample counts once
whoever dies, in C and in Python."""
import os
import random
import signal
import subprocess
import sys

from cluster import (BIN, LIMIT, PATIENCE, Cluster, changed, check, check_counts, check_equal, main,
                     wait_for)
from external_test import Program, Programs, check_learnt, exported, linear_job
from hybrid_test import members
from lib_ring_test import (BATCH, COUNTS, MS, OWN, PYTHON, SAMPLES, Rank, check_exact,
                           counting_job)

SEED = int(os.environ.get("SLUICE_SEED", random.SystemRandom().randrange(1 << 32)))
dice = random.Random(SEED)


def in_groups(spec, size=2, by="any", **train):
    spec["train"].pop("workers", None)
    spec["train"].update(mode="hybrid", group={"by": by, "size": size}, **train)
    return spec


def group_job(epochs, **train):
    """A step is a batch of each of two, and its mean half of their sum: the rate of
    two takes that back. Two variables on two psservers are two shards."""
    return in_groups(counting_job(epochs), **train)


def wait_groups(c, job, sizes):
    wait_for(f"groups of {sizes}", lambda: sorted(
        len(g) for g in members(c.status(job))) == sorted(sizes))


class Groups(Programs):
    """Programs that are killed by their place in a group."""

    def kill_one(self, c, job, leads):
        some = [m for g in members(c.status(job)) for m in (g[:1] if leads else g[1:])]
        at = self.names.index(dice.choice(some)) if some else 0
        self.names.pop(at)
        self.running.pop(at).end()
        self.begin()

    def begin(self):
        self.names = [*getattr(self, "names", []), f"program-{self.begun}"]
        super().begin()


def disturbed(c, start, epochs, kills):
    """Two groups of two; leaders and members are killed, each time another program
    comes; a psserver and the coordinator are restarted."""
    with Groups(start, count=4) as programs:
        job = c.submit(group_job(epochs))
        for i in range(kills):
            wait_groups(c, job, [2, 2])
            c.wait_steps(job, c.steps(job) + dice.randint(10, 40))
            programs.kill_one(c, job, leads=i % 2 == 0)
        wait_groups(c, job, [2, 2])
        c.restart("ps-1")
        c.wait_steps(job, c.steps(job) + 40)
        c.restart("coordinator")
        c.wait_steps(job, c.steps(job) + 40)
        done = c.wait_state(job)
        for program in programs.running:
            check_equal(program.process.wait(timeout=30 * LIMIT), 0, "exit of a program")
    check_counts(done)
    check_exact(c, job, epochs)
    return done


def groups_in_c_lose_leaders_and_members_and_every_sample_counts_once():
    epochs, kills = (500, 4) if PATIENCE == 1 else (400, 2)
    with Cluster(psservers=2, workers=0) as c:
        disturbed(c, lambda name: Rank(c, name, COUNTS, c.address, name,
                                       c.dir / "store", MS), epochs, kills)


NUMPY = """
import signal, sys, time, numpy, sluice
address, name = sys.argv[1:]
with sluice.Session(address, name=name, wait=60) as session:
    signal.signal(signal.SIGTERM, lambda *_: session.drain())
    for closure in session.closures():
        for step in closure.steps():
            time.sleep(MS / 1000)
            samples = step.samples.astype(numpy.float32)
            closure.grads[1:] = samples.sum()
            try:
                step.ready(1, closure.elements - 1)
                closure.grads[0] = len(samples)
                step.done(loss_sum=1.0)
            except sluice.session.Lost: # the group is made anew: the next closure
                break
            assert closure.ranks and closure.rank < closure.ranks
            assert len(samples) == closure.batch == 8, samples
            print("rank", closure.rank, "of", closure.ranks, flush=True)
""".replace("MS", str(MS))


def numpy_start(c):
    path = c.dir / "counts.py"
    path.write_text(NUMPY)
    return lambda name: Rank(c, name, sys.executable, path, c.address, name, **PYTHON)


def numpy_groups_lose_leaders_and_members_and_every_sample_counts_once():
    with Cluster(psservers=2, workers=0) as c:
        disturbed(c, numpy_start(c), 300, 2)


def one_program_alone_and_groups_that_are_not_full_compute_the_same_steps():
    """Of four batches a step: one program has all of them, of three one has two."""
    with Cluster(psservers=1, workers=0) as c:
        for count in (1, 3):
            spec = group_job(40, size=4)
            spec["optimizer"]["learning_rate"] = 4.0
            with Groups(numpy_start(c), count=count):
                job = c.submit(spec)
                done = c.wait_state(job)
            check_counts(done)
            check_equal(int(done["steps_counted"]), 40 * SAMPLES // BATCH // 4, "steps")
            check_exact(c, job, 40)


def a_signal_drains_a_leader_and_a_member():
    with Cluster(psservers=1, workers=0) as c:
        start = numpy_start(c)
        programs = {name: start(name) for name in ("one", "two", "three")}
        try:
            job = c.submit(group_job(300, size=4))
            for lead in (0, 1):
                wait_groups(c, job, [3 - lead])
                c.wait_steps(job, c.steps(job) + 20)
                name = members(c.status(job))[0][lead]
                programs[name].end(signal.SIGTERM)
                check_equal(programs[name].process.returncode, 0, "exit of a drained one")
            done = c.wait_state(job)
        finally:
            for program in programs.values():
                program.end()
        check_counts(done)
        # The rate takes back a half of four.
        check_equal(-exported(c, job)["count"][0] * 2, SAMPLES * 300, "samples")


def a_model_is_learnt_by_groups():
    with Cluster(psservers=2, workers=0) as c:
        start = lambda name: Rank(  # noqa: E731
            c, name, OWN, "--coordinator", c.address, "--name", name)
        with Groups(start, count=3) as programs:
            job = c.submit(in_groups(linear_job(epochs=40), by="host",
                                     shuffle=True))
            wait_groups(c, job, [1, 2])
            c.wait_steps(job, 60)
            programs.kill_one(c, job, leads=True)
            check_counts(c.wait_state(job))
            check_learnt(c, job)


SKIPS = """
import sys, numpy, sluice
address, name, how = sys.argv[1:]
with sluice.Session(address, name=name, wait=60) as session:
    for closure in session.closures():
        for step in closure.steps():
            ours = step.first % 32 == 0  # a half of every other step
            closure.grads[:] = numpy.nan if ours and how == "nan" else 1.0
            step.done(skip=ours and how == "skip")
"""


def steps_that_are_not_finite_in_a_row_fail_the_job():
    """The job skips already, so the reason must not advise it to skip."""
    spec = {"max_nonfinite": 1, "nonfinite": "skip"}
    alone, group = linear_job(epochs=5), group_job(5, **spec)
    alone["train"].update(spec)
    with Cluster(psservers=1, workers=0) as c:
        path = c.dir / "skips.py"
        path.write_text(changed(SKIPS, {"% 32": "% 8"}))
        start = lambda name: Rank(c, name, sys.executable, path,  # noqa: E731
                                  c.address, name, "nan", **PYTHON)
        for job in (alone, group):
            with Groups(start):  # a program ends with the job that failed
                reason = c.wait_state(c.submit(job), "failed")["reason"]
            check("2 steps in a row" in reason, reason)
            check("train.nonfinite" not in reason, reason)


def a_step_that_one_of_a_group_skips_is_counted_and_not_applied():
    """The whole of it, and so is one that is not finite, if the job says so."""
    with Cluster(psservers=2, workers=0) as c:
        path = c.dir / "skips.py"
        path.write_text(SKIPS)
        for how, state, words in (("skip", "finished", ""), ("nan", "finished", ""),
                                  ("nan", "failed", "not finite")):
            spec = group_job(5, nonfinite="skip" if state == "finished" else "fail")
            start = lambda name: Rank(c, name, sys.executable, path,  # noqa: E731
                                      c.address, name, how, **PYTHON)
            with Groups(start):
                job = c.submit(spec)
                done = c.wait_state(job, state)
            check(words in done.get("reason", ""), done.get("reason"))
            if state == "finished":
                check_counts(done)
                check_equal(-exported(c, job)["count"][0], 5 * 2 * 2.0, "what was applied")


def who_cannot_be_in_a_group_is_waited_past():
    """A program that speaks the wire itself does not say that it can."""
    with Cluster(psservers=1, workers=0) as c:
        old = Program(c, "old")
        try:
            job = c.submit(in_groups(linear_job(epochs=8)))
            wait_for("the reason", lambda: "member of a group" in
                     c.status(job).get("reason", ""))
        finally:
            old.end()
        start = lambda name: Rank(  # noqa: E731
            c, name, OWN, "--coordinator", c.address, "--name", name)
        with Groups(start):
            check_counts(c.wait_state(job))


def a_leader_dies_between_the_sum_and_its_push():
    """The group has computed the step, nobody has it: it counts once. Where the
    library has fault points."""
    if b"group.summed" not in (BIN.parent / "lib" / "libsluice.so").read_bytes():
        print("no fault points in this build", flush=True)
        return
    with Cluster(psservers=2, workers=0) as c:
        for fault in ("group.summed", "task.push_part"):
            def start(name):
                arm = {"SLUICE_FAULT": f"{fault}=kill@7"} if name == "program-0" else {}
                return Rank(c, name, COUNTS, c.address, name, c.dir / "store", **arm)
            with Groups(start) as programs:
                job = c.submit(group_job(300))
                wait_for("a leader to die",
                         lambda: programs.running[0].process.poll() is not None)
                programs.begin()
                done = c.wait_state(job)
            check_counts(done)
            check_exact(c, job, 300)


if __name__ == "__main__":
    print(f"SLUICE_SEED={SEED}", flush=True)
    main([groups_in_c_lose_leaders_and_members_and_every_sample_counts_once,
          numpy_groups_lose_leaders_and_members_and_every_sample_counts_once,
          one_program_alone_and_groups_that_are_not_full_compute_the_same_steps,
          a_signal_drains_a_leader_and_a_member, a_model_is_learnt_by_groups,
          a_step_that_one_of_a_group_skips_is_counted_and_not_applied,
          steps_that_are_not_finite_in_a_row_fail_the_job,
          who_cannot_be_in_a_group_is_waited_past,
          a_leader_dies_between_the_sum_and_its_push])
