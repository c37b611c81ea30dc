#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Early stopping, a rate that falls on a plateau, the best checkpoint kept: against a
model of one neuron, whose training is written again here in a few lines."""
import signal

import numpy
from safetensors.numpy import load_file

from cluster import Cluster, check, check_equal, main, wait_for

SAMPLES, RATE, MOMENTUM = 8, 0.05, 0.5
MODES = {"async": {"batch": 8},
         "sync": {"batch": 4, "contributions": 2},
         "hybrid": {"batch": 4, "group": {"by": "any", "size": 2}},
         "allreduce": {"batch": 4, "contributions": 2}}


class Bed(Cluster):
    """Ranks of a ring write their checkpoints here."""

    def __init__(self, **options):
        super().__init__(**options)
        draw = numpy.random.default_rng(20)
        self.x = draw.normal(size=(SAMPLES, 3)).astype("f4")
        self.y = (self.x @ [1, -2, 0.5] + 0.25).astype("f4").reshape(-1, 1)
        # Near what is trained for at first, and then farther from it.
        self.tx = draw.normal(size=(6, 3)).astype("f4")
        self.ty = (self.tx @ [0.4, -0.8, 0.2] + 0.1).astype("f4").reshape(-1, 1)
        for name in ("x", "y", "tx", "ty"):
            numpy.save(self.dir / f"{name}.npy", getattr(self, name))

    def command(self, name):
        return super().command(name) + (["--store", str(self.dir / "store")] if name[0] == "w" else [])

    def job(self, name, callbacks, mode="async", epochs=30, evaluate=None, **checkpoint):
        def source(x, y):
            return {"format": "npy", "x": str(self.dir / f"{x}.npy"), "y": str(self.dir / f"{y}.npy")}
        return {
            "name": name,
            "model": {"input_shape": [3], "layers": [
                {"type": "dense", "units": 1, "kernel_initializer": "zeros"}]},
            "loss": "mean_squared_error",
            "optimizer": {"type": "sgd", "learning_rate": RATE, "momentum": MOMENTUM},
            "data": {"train": source("x", "y"), "test": source("tx", "ty")},
            "train": {"epochs": epochs, "precision": "f32", **MODES[mode],
                      **({} if mode == "async" else {"mode": mode})},
            **({"evaluate": evaluate} if evaluate else {}),
            "checkpoint": {"every_seconds": 0, **checkpoint},
            "callbacks": callbacks}


class Model:
    """One neuron, and Keras' SGD with momentum: a step of all samples."""

    def __init__(self, bed):
        self.bed, self.rate = bed, RATE
        self.w, self.v = numpy.zeros(4), numpy.zeros(4)

    def off(self, x, y):
        return x @ self.w[:3] + self.w[3] - y[:, 0]

    def loss(self):
        return float((self.off(self.bed.tx, self.bed.ty) ** 2).mean())

    def trained(self):
        return float((self.off(self.bed.x, self.bed.y) ** 2).mean())

    def step(self):
        off = self.off(self.bed.x, self.bed.y)
        g = numpy.append(2 * off @ self.bed.x / SAMPLES, 2 * off.mean())
        self.v = MOMENTUM * self.v - self.rate * g
        self.w = self.w + self.v


def exported(c, job, *more):
    path = c.dir / "out.safetensors"
    path.unlink(missing_ok=True)
    c.run("export", job, "--to", path, *more)
    values = load_file(path)
    kernel = next(v for k, v in values.items() if "kernel" in k)
    bias = next(v for k, v in values.items() if "bias" in k)
    return numpy.append(kernel.reshape(-1), bias.reshape(-1))


def check_near(got, want, what):
    check(numpy.abs(got - want).max() < 2e-6, f"{what}: got {got}, want {want}")


PLATEAU = {"factor": 0.5, "patience": 2, "cooldown": 1, "min_lr": RATE / 5, "min_delta": 0}


def on_a_plateau(bed, epochs, each=1):
    """The model, the loss of each evaluation, and the rates with their steps."""
    m, losses, rates, best, wait, cool = Model(bed), [], [], None, 0, 0
    for epoch in range(epochs):
        for _ in range(each):
            m.step()
        losses.append(m.loss())
        if cool > 0:
            cool, wait = cool - 1, 0
        if best is None or losses[-1] < best:
            best, wait = losses[-1], 0
        elif cool == 0:
            wait += 1
            if wait >= PLATEAU["patience"] and m.rate > PLATEAU["min_lr"]:
                m.rate = max(m.rate * PLATEAU["factor"], PLATEAU["min_lr"])
                wait, cool = 0, PLATEAU["cooldown"]
                rates.append((each * (epoch + 1), m.rate))
    return m, losses, rates


def check_plateau(c, end, want, epochs, scale=1):
    """`scale`: closures of an epoch."""
    m, losses, rates = want
    check(len(rates) >= 2, "the sequence has no plateau", losses, rates)
    got = [(int(r["closure"]), r["rate"]) for r in end["callbacks"]["rates"]]
    check_equal([at for at, _ in got], [at * scale for at, _ in rates], "where the rate falls")
    check(all(abs(a[1] - b[1]) < 1e-12 for a, b in zip(got, rates, strict=True)), f"rates: {got}, {rates}")
    check_equal(len(end["evaluations"]), epochs, "evaluations")
    for e, loss in zip(end["evaluations"], losses, strict=True):
        check(abs(e["loss"] - loss) < 1e-5 * (1 + loss), f"evaluation {e}: the model's loss is {loss}")
    check_near(exported(c, end["id"]), m.w, f"{end['name']}: values")


def a_plateau_reduces_the_rate_of_every_mode_at_its_step():
    with Bed(psservers=2, workers=2) as c:
        want = on_a_plateau(c, 14)
        for mode in MODES:
            job = c.submit(c.job(f"plateau-{mode}", {"reduce_on_plateau": PLATEAU}, mode, epochs=14))
            end = c.wait_state(job)
            check_plateau(c, end, want, 14, scale=1 if mode in ("async", "hybrid", "allreduce") else 2)
            check_equal(end["steps_counted"], end["steps_asked"], "steps")
            told = c.run("events", job, "-o", "jsonl").stdout.count('"rate-reduced"')
            check_equal(told, len(want[2]), f"{mode}: events of rates")


def best_of(bed, epochs, patience, each=1):
    """The epoch in which training stops, and the best one, both from 1; the values of each."""
    m, losses, values, best = Model(bed), [], [], 0
    for epoch in range(epochs):
        for _ in range(each):
            m.step()
        losses.append(m.loss())
        values.append(m.w.copy())
        if losses[-1] < losses[best]:
            best = epoch
        elif epoch - best >= patience:
            break
    return len(losses), best + 1, values


def check_stopped(end, stop, best):
    check_equal(int(end["steps_counted"]), stop, "steps")
    check(int(end["steps_asked"]) > stop, "it has run to its end")
    check(end["reason"].startswith("stopped early: val_loss did not get better in 3 evaluations"), end["reason"])
    check(f"after step {best} " in end["reason"], end["reason"])
    check(end["callbacks"]["stopped"], end["callbacks"])
    for shard in end["shards"]:
        check_equal(int(shard["counts"]["counted"]), stop, "steps of a shard")


def early_stopping_ends_the_job_with_the_best_checkpoint():
    with Bed(psservers=2, workers=2) as c:
        stop, best, values = best_of(c, 30, 3)
        check(1 < best < stop < 30, "the sequence does not stop", stop, best)
        for mode in ("async", "allreduce"):
            scale = 2 if mode == "allreduce" else 1  # steps of an epoch
            spec = c.job(f"early-{mode}", {"early_stopping": {"patience": 3, "restore_best_weights": True}},
                         mode, keep=1)
            job = c.submit(spec)
            end = c.wait_state(job)
            check_stopped(end, stop * scale, best * scale)
            check_near(exported(c, job), values[best - 1], "the job ends with that checkpoint")
            cuts = c.json("checkpoints", job)["checkpoints"]
            check_equal([int(cut["steps"]) for cut in cuts], [best * scale, stop * scale], "checkpoints")
            check_equal([cut.get("restored", False) for cut in cuts], [True, False], "which is restored")
            check_equal(end["checkpoint"], cuts[0]["manifest"], "checkpoint in the status")
            text = c.run("status", job).stdout
            check("stopped early" in text and "restored" in text, text)
        shown = c.run("watch", job)
        check("stopped early" in shown.stdout + shown.stderr, shown.stdout, shown.stderr)
        check("yes, on every shard" in shown.stdout and "NO" not in shown.stdout, shown.stdout)
        # What another job goes on with is the best one, too.
        spec["callbacks"] = {"best_checkpoint": {}}
        more = c.submit({**spec, "name": "more"}, "--resume", job)
        found = int(c.wait_state(more)["resumed_steps"])
        check_equal(found, best * scale, "steps of what is resumed")


def the_best_checkpoint_outlives_those_that_are_pruned():
    with Bed(psservers=1, workers=1) as c:
        _, best, values = best_of(c, 12, 100)
        job = c.submit(c.job("best", {"best_checkpoint": {}, "early_stopping": {"patience": 99}}, epochs=12, keep=2))
        end = c.wait_state(job)
        check_equal(end["steps_counted"], end["steps_asked"], "steps")
        cuts = c.json("checkpoints", job)["checkpoints"]
        check_equal([int(cut["steps"]) for cut in cuts], [best, 11, 12], "checkpoints")
        check_equal([cut.get("best", False) for cut in cuts], [True, False, False], "which is the best")
        check_near(exported(c, job, "--best"), values[best - 1], "the best")
        check_near(exported(c, job), values[11], "the last")
        check("best" in c.run("checkpoints", job).stdout, "the table does not mark it")
        files = len(list((c.dir / "store").glob("best-*/shard-0.*")))
        check_equal(files, 3, "files of the shard that are kept")
        other = c.submit(c.job("none", {"early_stopping": {"patience": 3}}))
        c.wait_state(other)
        refused = c.run("export", other, "--best", want=3)
        check("no best checkpoint" in refused.stderr, refused.stderr)


def evaluations_may_come_by_steps():
    """An evaluation every 3 steps of an epoch of 4, whose closures hold 2: it comes with
    the end of a closure."""
    with Bed(psservers=1, workers=2) as c:
        spec = c.job("steps", {"early_stopping": {"monitor": "loss", "mode": "max", "patience": 2},
                               "best_checkpoint": {"monitor": "loss"}},
                     epochs=6, evaluate={"every_steps": 3})
        spec["train"].update(batch=2, steps_per_closure=2)
        del spec["data"]["test"]
        job = c.submit(spec)
        end = c.wait_state(job)
        # The loss falls and is to rise: the third evaluation is the second without it.
        check_equal([int(e["steps"]) for e in end["evaluations"]], [4, 6, 10], "steps of the evaluations")
        check_equal([int(e["epoch"]) for e in end["evaluations"]], [1, 1, 2], "whole epochs by then")
        check_equal([int(e["train_samples"]) for e in end["evaluations"]], [8, 4, 8],
                    "samples trained since the one before")
        check_equal(int(end["steps_counted"]), 10, "steps")
        losses = [e["train_loss"] for e in end["evaluations"]]
        check_equal(end["callbacks"]["early_stopping"]["best"], losses[0], "the best of early_stopping")
        check_equal(end["callbacks"]["best_checkpoint"]["best"], min(losses), "the best checkpoint's")


def struck(c, spec, blow, told):
    """The end of a job that is dealt blows while it trains, blow(its id), until told(the
    end): of another one, where a busy machine let it end before."""
    for count in range(10):
        job = c.submit({**spec, "name": f"{spec['name']}-{count}"})
        blow(job)
        end = c.wait_state(job)
        if told(end):
            return end
    return check(False, "ten jobs were over before the blows", end)


def evaluations_of(c, job):
    return len(c.status(job).get("evaluations", []))


def killed_while_it_judges(c, spec, most):
    """`struck` by deaths of the coordinator, at another moment of an evaluation each time."""
    def blow(job):
        seen = 0
        while seen < most:
            seen = wait_for("evaluations", lambda: evaluations_of(c, job) > seen and
                            evaluations_of(c, job))
            c.kill("coordinator", signal.SIGKILL)
            c.start("coordinator")
    return struck(c, spec, blow, lambda end: int(end["coordinator_restarts"]) >= 3)


def a_coordinator_that_is_killed_again_and_again_judges_the_same():
    with Bed(psservers=2, workers=2) as c:
        want = on_a_plateau(c, 14)
        end = killed_while_it_judges(c, c.job("killed", {
            "reduce_on_plateau": PLATEAU, "early_stopping": {"patience": 100}}, epochs=14), 12)
        check_plateau(c, end, want, 14)
        check_equal(end["steps_counted"], end["steps_asked"], "steps")


def a_metric_is_monitored_whoever_is_killed():
    """Its best is not where the loss has its own, so nobody mistakes one for the other."""
    with Bed(psservers=2, workers=2) as c:
        # One value far off: a mean of squares minds it more than one of sizes.
        c.ty[0] += 3
        numpy.save(c.dir / "ty.npy", c.ty)
        m, sizes, losses, values, rates, wait, best = Model(c), [], [], [], [], 0, 0
        for epoch in range(14):
            m.step()
            sizes.append(float(abs(m.off(c.tx, c.ty)).mean()))
            losses.append(m.loss())
            values.append(m.w.copy())
            wait += 1
            if epoch == 0 or sizes[epoch] < sizes[best]:
                best, wait = epoch, 0
            if wait >= 2:
                m.rate, wait = m.rate / 2, 0
                rates.append((epoch + 1, m.rate))
        check(0 < best < 13 and best != losses.index(min(losses)) and rates, "the sequence shows nothing",
              sizes, losses)
        name = "mean_absolute_error"
        spec = c.job("metric", {
            "best_checkpoint": {"monitor": f"val_{name}"},
            "reduce_on_plateau": {"monitor": f"val_{name}", "factor": 0.5, "patience": 2, "min_delta": 0}},
            epochs=14, evaluate={"metrics": [name]}, keep=2)
        end = killed_while_it_judges(c, spec, 11)
        job = end["id"]
        for got, want in zip(end["evaluations"], sizes, strict=True):
            check_near(numpy.array(got["metrics"][0]["value"]), want, "the metric")
        told = end["callbacks"]
        check_equal(told["best_checkpoint"]["monitor"], f"val_{name}", "what is monitored")
        check_equal(int(told["best_checkpoint"]["best_steps"]), best + 1, "the best step")
        check_equal([float(r["rate"]) for r in told["rates"]], [r for _, r in rates], "rates")
        check_near(exported(c, job, "--best"), values[best], "the best checkpoint")
        check_near(exported(c, job), values[13], "the last")


def a_psserver_that_comes_back_is_told_the_rates():
    """A step that was under way is computed again there, from values of the other shard that
    hold it: so not the model's values are compared, but what was made of the losses."""
    with Bed(psservers=2, workers=2) as c:
        def blow(job):
            for at in (3, 6, 8):
                c.wait_steps(job, at)
                c.kill("ps-0", signal.SIGKILL)
                c.start("ps-0")
        end = struck(c, c.job("back", {"reduce_on_plateau": PLATEAU}, epochs=14), blow,
                     lambda end: int(end["psservers_lost"]) > 0)
        check_equal(end["steps_counted"], end["steps_asked"], "steps")
        rates, best, wait, cool, rate = [], None, 0, 0, RATE
        for epoch, e in enumerate(end["evaluations"], 1):
            cool, wait = (cool - 1, 0) if cool > 0 else (0, wait)
            if best is None or e["loss"] < best:
                best, wait = e["loss"], 0
            elif cool == 0:
                wait += 1
                if wait >= PLATEAU["patience"] and rate > PLATEAU["min_lr"]:
                    rate = max(rate * PLATEAU["factor"], PLATEAU["min_lr"])
                    wait, cool = 0, PLATEAU["cooldown"]
                    rates.append((epoch, rate))
        check(rates, "nothing was reduced")
        check_equal([(int(r["closure"]), r["rate"]) for r in end["callbacks"]["rates"]], rates, "rates")


def what_cannot_work_is_refused_in_words():
    with Bed(psservers=0, workers=0) as c:
        path = c.dir / "bad.yaml"
        for callbacks, words in (
                ({"early_stopping": {"patience": 0}}, "callbacks.early_stopping.patience: must be at least 1"),
                ({"early_stopping": {"patince": 3}}, "did you mean 'patience'"),
                ({"reduce_on_plateau": {"monitor": "val_accuracy"}}, "there is no 'val_accuracy' with loss"),
                ({"early_stopping": {"monitor": "val_auc"}}, "there is no 'val_auc' with loss"),
                ({"early_stopping": {"monitor": "val_mean_absolute_error"}},
                 "say evaluate: {metrics: [mean_absolute_error]}")):
            path.write_text(str(c.job("bad", callbacks)).replace("'", '"'))
            refused = c.run("submit", path, "--no-wait", want=None)
            check(refused.returncode != 0 and words in refused.stderr, refused.stderr)


if __name__ == "__main__":
    main([a_plateau_reduces_the_rate_of_every_mode_at_its_step,
          early_stopping_ends_the_job_with_the_best_checkpoint,
          the_best_checkpoint_outlives_those_that_are_pruned,
          evaluations_may_come_by_steps,
          a_coordinator_that_is_killed_again_and_again_judges_the_same,
          a_metric_is_monitored_whoever_is_killed,
          a_psserver_that_comes_back_is_told_the_rates,
          what_cannot_work_is_refused_in_words])
