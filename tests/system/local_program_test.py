#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train.mode local for programs of the user's: a program takes the steps of a
contribution with its own optimizer and pushes what they have changed. One program makes
what NumPy does; however programs die or leave, each sample counts once.
"""
import os
import signal
import sys

import numpy as np
from cluster import (BIN, ROOT, Cluster, changed, check, check_counts, check_equal, main,
                     wait_for)
from external_test import Program, Programs, exported, linear_job
from local_test import (BATCH, CLASSES, EPOCHS, FEATURES, OUTER, SAMPLES, SLOTS, STEPS, Adam,
                        Net, samples_of_numpy, train_in_numpy)

os.environ["SLUICE_LIBRARY"] = str(BIN.parent / "lib" / "libsluice.so")
os.environ["SLUICE_BIN"] = str(BIN)
sys.path.insert(0, str(ROOT / "python"))
import sluice  # noqa: E402
from sluice._program import Program as Trainer  # noqa: E402

ENVIRONMENT = {"PYTHONPATH": os.pathsep.join([str(ROOT / "python"),
                                              str(ROOT / "tests" / "system")])}
FIRST = {"norm/gamma": np.ones(FEATURES), "norm/beta": np.zeros(FEATURES),
         "norm/moving_mean": np.zeros(FEATURES), "norm/moving_variance": np.ones(FEATURES),
         "out/kernel": np.random.default_rng(5).normal(0, 0.5, (FEATURES, CLASSES)),
         "out/bias": np.zeros(CLASSES)}
FIRST = {name: value.astype(np.float32) for name, value in FIRST.items()}

# Unit vectors again: a sample moves one weight, half of the way to 1, whoever computes.
SLOW = '''
import signal, sys, time
import numpy as np, sluice
with sluice.Session(sys.argv[2], name=sys.argv[4], wait=60, local=True) as session:
    signal.signal(signal.SIGTERM, lambda *_: session.drain())
    for closure in session.closures():
        for step in closure.steps():
            mine = closure.params.copy()
            for batch in step.batches():
                print(closure.number, batch.index, flush=True)
                mine[batch.samples] += 0.5 * (1 - mine[batch.samples])
                time.sleep(0.01)
            step.change(mine)
            step.done(loss_sum=0.0)
'''

# Takes further closures, whole numbers at a time. The program that is told to goes in the
# midst of the closure behind two whole ones, by a real signal; what it then is told of
# the batch is that there is none.
CLOSURES = '''
import os, signal, sys, time
import sluice
leaves = "--leaves" in sys.argv
with sluice.Session(sys.argv[2], name=sys.argv[4], wait=60, local=True) as session:
    signal.signal(signal.SIGTERM, lambda *_: session.drain())
    for closure in session.closures():
        for step in closure.steps():
            mine, whole, more = closure.params.copy(), 0, True
            while more:
                for batch in step.batches():
                    print(closure.number, batch.index, flush=True)
                    mine[batch.samples] -= 1
                    if leaves and whole == 2:
                        os.kill(os.getpid(), signal.SIGTERM)
                        while next(step.batches(), None) is not None:
                            time.sleep(0.01)
                    time.sleep(0.01)
                step.change(mine)
                more, whole = step.more(loss_sum=1.0), whole + 1
'''


class Normed(Trainer):
    """The net of local_test with NumPy's Adam, as a program that steps by itself."""

    def __init__(self, *words, **more):
        self.net, self.adam, self.resets = Net(FIRST), Adam(0.01), 0
        super().__init__(*words, [(n, v.shape) for n, v in FIRST.items()], None,
                         mode="local", moving=[n for n in FIRST if "moving" in n], **more)

    def _values(self):
        return self.net.w

    def _fresh(self):
        self.net = Net({n: self._part(self._closure.params, n).reshape(v.shape)
                        for n, v in FIRST.items()})

    def _at(self, batch, reset):
        if reset:
            self.adam, self.resets = Adam(0.01), self.resets + 1


def trained(c, x, y, wrong=(), within=lambda t, batch: None, leaves=False,
            train=None, **more):
    """Trains the job of local_test, and gives the program and the samples that it saw.
    `within` is called before each step."""
    seen = []
    with Normed("numpy", c.address, every=STEPS, ranks=SLOTS,
                train=train or {"shuffle": False, "outer": OUTER}, **more) as t:
        for batch in t.batches((x, y), BATCH, EPOCHS):
            seen += batch.samples.tolist()
            within(t, batch)
            bad = set(batch.samples.tolist()) & set(wrong)
            t.adam.update(t.net, batch.number, t.net.gradient(batch.x, batch.y))
            t.stepped(float("nan") if bad else 0.5)
        check_equal(t.ended(), not leaves, "the job has ended")
    return t, seen


def check_numpy(c, t, x, y):
    done = c.status(t.id)
    check_counts(done)
    want, rounds = train_in_numpy(FIRST, x, y)
    check_equal(int(done["shards"][0]["counts"]["version"]), rounds, "rounds")
    got = exported(c, t.id)
    for name, value in want.items():
        off = np.abs(got[name] - value).max()
        check(off < 1e-5 * max(1, np.abs(value).max()), f"{name}: differs by {off}")
    check(np.abs(want["out/kernel"] - FIRST["out/kernel"]).max() > 0.1, "nothing is learnt")


def one_program_makes_what_numpy_does():
    """Also the moving statistics, which become the mean of what contributions have."""
    x, y = samples_of_numpy()
    with Cluster(psservers=2, workers=0) as c:
        t, seen = trained(c, x, y)
        check_equal(sorted(seen), sorted(EPOCHS * list(range(SAMPLES))), "samples")
        check_equal((t.metrics["steps"], t.metrics["samples"]),
                    (EPOCHS * SAMPLES // BATCH, EPOCHS * SAMPLES), "what it counted")
        check_numpy(c, t, x, y)


def await_end(t):
    """Waits until the contribution under way is not to be computed any more."""
    wait_for("its end", lambda: next(t._step.batches(), None) is None)


def what_a_lost_contribution_changed_is_dropped():
    """The lease runs out within one: the program begins it again with the psservers'
    parameters, and nothing shows."""
    x, y = samples_of_numpy()
    with Cluster(psservers=2, workers=0) as c:
        lost = []

        def away(t, batch):
            if batch.number == STEPS + 3 and not lost:
                lost.append(batch.closure)
                c.kill("coordinator")
                await_end(t)
                c.start("coordinator")
        t, seen = trained(c, x, y, within=away)
        check(len(seen) > EPOCHS * SAMPLES, "nothing was computed again", len(seen))
        check_numpy(c, t, x, y)


def a_contribution_that_is_not_finite_is_skipped():
    """Its samples are counted, its other batches are not computed, and its round is not
    applied; the next one begins with the psservers' parameters, and with an optimizer
    without a past, since that has seen what is not finite. Once eight norms are known it
    is handed back first, and the program, which is alone, computes it once more."""
    x, y = samples_of_numpy()
    with Cluster(psservers=2, workers=0) as c:
        t, seen = trained(c, x, y, wrong=[195], moments="keep")
        again = EPOCHS - 1
        check_equal(t.resets, EPOCHS + again, "how often the optimizer began anew")
        done = c.status(t.id)
        check_counts(done)
        # Of contributions of 60 samples the one from 180 on ends at its second batch.
        check_equal(len(seen), EPOCHS * (SAMPLES - 40) + again * 20, "samples that were computed")
        check_equal(int(done["local"]["set_aside"]), again, "contributions set aside")
        for shard in done["shards"]:
            check_equal(int(shard["counts"]["version"]), 2 * EPOCHS, "rounds applied")
        check(all(np.isfinite(v).all() for v in exported(c, t.id).values()),
              "parameters are not finite")


def a_long_contribution_is_made_as_long_as_the_median():
    """Of 20 the last two are four times as long; libsluice makes them shorter."""
    with Cluster(psservers=1, workers=0) as c:
        path = c.dir / "long.py"
        path.write_text(changed(SLOW, {
            "0.5 * (1 - mine[batch.samples])": "np.where(batch.samples < 180, 0.5, 2)",
            "0.01": "0"}))
        spec = unit_job(200, 1)
        spec["train"]["norm"] = "median"
        job = c.submit(spec)
        program = Program(c, "long", path, **ENVIRONMENT)
        try:
            done = c.wait_state(job)
        finally:
            program.end()
        check_counts(done)
        check_equal(int(done["local"]["set_aside"]), 0, "contributions set aside")
        got = exported(c, job)["w"]
        check(np.abs(got - 0.5).max() < 1e-6, "a long one was applied as it was", got)


def unit_job(samples, epochs):
    """Each round of two contributions; the outer optimizer goes all of the way."""
    spec = linear_job(epochs=epochs, samples=samples)
    del spec["optimizer"]
    spec["model"]["variables"] = [{"name": "w", "shape": [samples], "initializer": "zeros"}]
    spec["train"] = {"mode": "local", "batch": 2, "epochs": epochs, "shuffle": False,
                     "inner": {"steps": 5}, "contributions": 2,
                     "outer": {"type": "sgd", "learning_rate": 2.0}}
    return spec


def programs_die_in_the_midst():
    """The mean of two contributions, twice: both are applied as they were made. So the
    weights say how often each sample was."""
    samples, epochs = 200, 8
    with Cluster(psservers=2, workers=0) as c:
        path = c.dir / "slow.py"
        path.write_text(SLOW)
        with Programs(lambda name: Program(c, name, path, **ENVIRONMENT)) as programs:
            job = c.submit(unit_job(samples, epochs))
            for steps in (10, 40, 80):
                c.wait_steps(job, steps)
                programs.replace()
            c.restart("ps-1")
            c.wait_steps(job, 110)
            c.restart("coordinator")
            done = c.wait_state(job)
        check_counts(done)
        got = exported(c, job)["w"]
        check(np.abs(got - (1 - 0.5 ** epochs)).max() < 1e-6,
              "a sample was not applied once an epoch", got)


def codes_and_a_quorum_are_of_programs_too():
    """What a contribution changes by is one number, which a code says well."""
    samples, epochs = 200, 4
    for code, least, rounds in (("int8", 0.99, {}),
                                ("e3m0", 0.5, {"contributions": 3, "quorum": 2})):
        with Cluster(psservers=2, workers=0) as c:
            path = c.dir / "slow.py"
            path.write_text(SLOW)
            spec = unit_job(samples, epochs)
            spec["train"].update(rounds)
            spec["train"]["inner"].update(up=code, down=code)
            with Programs(lambda name, c=c, path=path: Program(c, name, path, **ENVIRONMENT)):
                job = c.submit(spec)
                done = c.wait_state(job)
                check_counts(done)
            for worker in done["local"]["workers"]:
                check(worker["norm"] > 0 and worker["steps"] == 5, f"no norm: {worker}")
                check_equal(worker["loss"], 0, "the loss that programs say")
            got = exported(c, job)["w"] / (1 - 0.5 ** epochs)
            check(least < got.min(), f"{code}: a sample was not applied", got)


def a_program_that_leaves_hands_back():
    """SIGTERM between two batches: the rest of the contribution is not computed, and
    nothing of it counts, since it is one closure."""
    with Cluster(psservers=1, workers=0) as c:
        path = c.dir / "closures.py"
        path.write_text(changed(CLOSURES, {"whole == 2": "batch.index == 2"}))
        job = c.submit(unit_job(120, 1))
        first = Program(c, "first", path, ["--leaves"], **ENVIRONMENT)
        check_equal(first.process.wait(timeout=60), 0, "exit")
        first.end()
        check_equal(computed(c.dir / "first.log"), {0: {0, 1, 2}}, "what it has computed")
        check_equal(int(c.status(job)["steps_counted"]), 0, "what it has counted")
        second = Program(c, "second", path, **ENVIRONMENT)
        try:
            done = c.wait_state(job)
        finally:
            second.end()
        check_counts(done)
        check_equal(int(done["closures_retried"]), 0, "attempts that failed")


def closures_job(samples, epochs, closure=2, steps=8):
    """Each contribution is an update, and moves what it has by whole numbers."""
    spec = unit_job(samples, epochs)
    spec["train"].update(quorum=1, contributions=4,
                         inner={"steps": steps, "closure": closure},
                         outer={"type": "sgd", "learning_rate": 1.0})
    return spec


def computed(log):
    """{closure: batches of it that were computed}, of CLOSURES."""
    found = {}
    for line in log.read_text().splitlines():
        closure, batch = map(int, line.split())
        found.setdefault(closure, set()).add(batch)
    return found


def a_program_that_leaves_pushes_the_closures_that_it_has():
    """SIGTERM in the midst of a contribution's third closure of four: two count, and the
    other program computes all but them."""
    with Cluster(psservers=2, workers=0) as c:
        path = c.dir / "closures.py"
        path.write_text(CLOSURES)
        job = c.submit(closures_job(160, 1))
        first = Program(c, "first", path, ["--leaves"], **ENVIRONMENT)
        check_equal(first.process.wait(timeout=60), 0, "exit of the first")
        first.end()
        of_first = computed(c.dir / "first.log")
        left = int(c.status(job)["steps_counted"])
        part = [closure for closure, batches in of_first.items() if len(batches) == 1]
        check_equal(left, len(of_first) - 1, "closures that the first has counted")
        check_equal(len(part), 1, "closures that it left in their midst")
        second = Program(c, "second", path, **ENVIRONMENT)
        try:
            done = c.wait_state(job)
        finally:
            second.end()
        check_counts(done)
        check_equal(int(done["closures_retried"]), 0, "attempts that failed")
        again = of_first.keys() & computed(c.dir / "second.log").keys()
        check_equal(sorted(again), part, "closures that both have computed")
        got = exported(c, job)["w"]
        check((got == -1).all(), "a sample was not applied once", got)


def programs_of_small_closures_die_and_leave():
    """Whoever goes, and however, each sample is applied once an epoch."""
    samples, epochs = 200, 8
    with Cluster(psservers=2, workers=0) as c:
        path = c.dir / "closures.py"
        path.write_text(CLOSURES)
        with Programs(lambda name: Program(c, name, path, **ENVIRONMENT)) as programs:
            job = c.submit(closures_job(samples, epochs))
            for steps, how in ((20, signal.SIGTERM), (60, signal.SIGKILL), (100, signal.SIGTERM)):
                c.wait_steps(job, steps)
                programs.running[0].end(how)
                programs.replace()
            c.restart("ps-1")
            c.wait_steps(job, 160)
            c.restart("coordinator")
            done = c.wait_state(job)
        check_counts(done)
        got = exported(c, job)["w"]
        check((got == -epochs).all(), "a sample was not applied once an epoch", got)


def a_trainer_that_leaves_pushes_the_closures_that_it_has():
    """Of Program, as sluice.torch, sluice.jax and sluice.keras have it. What it says that
    it has counted is what counts."""
    x, y = samples_of_numpy()
    closure = STEPS // 2
    train = {"shuffle": False, "quorum": 1, "inner": {"closure": closure},
             "outer": {"type": "sgd", "learning_rate": 0.5}}
    with Cluster(psservers=2, workers=0) as c:
        within = []

        def leaves(t, batch):
            if t._whole[0] == closure and batch.step == 1 and not within:
                within.append(batch.closure)
                t.drain()
                await_end(t)
        first, seen = trained(c, x, y, within=leaves, leaves=True, train=train)
        steps = first.metrics["steps"]
        check_equal(len(seen) - first.metrics["samples"], 2 * BATCH, "samples left uncounted")
        check_equal(int(c.status(first.id)["steps_counted"]) * closure, steps, "steps counted")
        second, _ = trained(c, x, y, train=train)
        check_equal((second.id, second.metrics["samples"]),
                    (first.id, EPOCHS * SAMPLES - first.metrics["samples"]), "of the second")
        done = c.status(first.id)
        check_equal(int(done["closures_retried"]), 0, "attempts that failed")
        check_counts(done)


def a_trainer_that_leaves_hands_back():
    """Of Program, as sluice.torch and sluice.jax have it: the next one goes on where the
    whole contributions end."""
    x, y = samples_of_numpy()
    with Cluster(psservers=2, workers=0) as c:
        def leaves(t, batch):
            if batch.number == STEPS + 3:
                t.drain()
                await_end(t)
        first, _ = trained(c, x, y, within=leaves, leaves=True)
        check_equal((first.ended(), first.metrics["steps"]), (False, SLOTS * STEPS), "of the first")
        second, _ = trained(c, x, y)
        check_equal((second.id, second.metrics["samples"]),
                    (first.id, EPOCHS * SAMPLES - SLOTS * STEPS * BATCH), "of the second")
        check_equal(int(c.status(first.id)["closures_retried"]), 0, "attempts that failed")
        check_numpy(c, second, x, y)


def a_program_of_another_mode_is_given_nothing():
    """It would push a gradient as if it were a change."""
    with Cluster(psservers=1, workers=0) as c:
        with sluice.Session(c.address, name="async", wait=30) as session:
            job = c.submit(unit_job(40, 1))
            wait_for("the reason", lambda: "steps by itself" in c.status(job)["reason"])
            try:
                session.take(wait=0)
                check(False, "it was given a closure")
            except TimeoutError:
                pass
            path = c.dir / "slow.py"
            path.write_text(SLOW)
            program = Program(c, "local", path, **ENVIRONMENT)
            try:
                check_counts(c.wait_state(job))
            finally:
                program.end()


def calls_out_of_order_say_so():
    with Cluster(psservers=1, workers=0) as c:
        c.submit(linear_job(epochs=1, samples=64))
        with sluice.Session(c.address, wait=30, local=True) as session:
            closure = session.take(wait=30)
            step = closure.begin()
            check_equal((closure.batches, closure.reset), (0, False), "of mode async")
            try:
                step.change(np.zeros(5, np.float32))
                check(False, "change was taken")
            except sluice.Error as error:
                check("not in mode local" in str(error), error)


def words_are_refused():
    def refused(words, **more):
        try:
            Trainer("no", None, [("w", (2,))], **more)
            check(False, f"{more} was taken")
        except ValueError as error:
            check(words in str(error), error)
    sgd = {"type": "sgd"}
    refused("the program's own takes the steps", optimizer=sgd, mode="local")
    refused("every: of mode 'local'", optimizer=sgd, every=5)
    refused("moments: of mode 'local'", optimizer=sgd, moments="keep")
    refused("['listen']: of mode", optimizer=None, mode="local", listen="10.0.0.2:0")
    try:
        sluice.Session(None, local=True, by_range=True)
        check(False, "a session by range was opened")
    except sluice.Error as error:
        check("without by_range" in str(error), error)


if __name__ == "__main__":
    main([one_program_makes_what_numpy_does,
          what_a_lost_contribution_changed_is_dropped,
          a_contribution_that_is_not_finite_is_skipped,
          a_long_contribution_is_made_as_long_as_the_median,
          programs_die_in_the_midst, codes_and_a_quorum_are_of_programs_too,
          a_program_that_leaves_hands_back,
          a_program_that_leaves_pushes_the_closures_that_it_has,
          programs_of_small_closures_die_and_leave,
          a_trainer_that_leaves_hands_back,
          a_trainer_that_leaves_pushes_the_closures_that_it_has,
          a_program_of_another_mode_is_given_nothing,
          calls_out_of_order_say_so,
          words_are_refused])
