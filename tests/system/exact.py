# SPDX-License-Identifier: Apache-2.0
"""Conservation in the modes of our own workers: what each sample gave is what
is there, to the last integer.

conserve.py's programs train in no rounds and in no ring, so here a model of
ours is made to have integer gradients. Each sample has a prime of its own and a
row of the kernel of its own: its features are zero but for one, and its target
is so large that the prediction vanishes beside it in f32. So every time that a
sample counts, its row falls by its prime, exactly, whatever the parameters are;
the learning rate takes back what the mean over a round has divided by. A row
that is wrong at the end names the sample that was lost or counted twice.

The numbers are exact while all samples of a round are a power of two: means
are products with 1 / n.

With rows (rows_job) a sample has a row of its own in one table, which its
second round makes, and shares a row of another with GROUP samples, some of them
of its round. A step of a group has the samples of a round.
"""
import functools

from cluster import HISTORY, Cluster, Failed, check
from conserve import primes

SAMPLES, BATCH, ROUND, UNITS = 512, 4, 4, 4
INNER = 2  # steps of a worker's own in mode local
ROUNDS = {"async": {"steps_per_closure": 4}, "sync": {"contributions": ROUND},
          "allreduce": {"steps_per_closure": 1, "contributions": ROUND},
          "hybrid": {"steps_per_closure": 1, "group": {"by": "any", "size": ROUND}},
          "local": {"contributions": ROUND, "inner": {"steps": INNER},
                    "outer": {"type": "sgd", "learning_rate": ROUND}}}
SMALL = 2.0 ** -32  # a prediction is below 1, a target above 2^30
GROUP = 8  # samples of one row
LARGE = 2.0 ** 44  # of a target of rows: predictions are as large as rows, below 2^20


@functools.cache
def of_sample():
    return primes(SAMPLES)


def write_data(folder, units):
    """Features and targets, as two files; their paths."""
    import numpy
    x = numpy.zeros((SAMPLES, SAMPLES), dtype=numpy.float32)
    numpy.fill_diagonal(x, SMALL)
    # d (w x - y)^2 / dw is -2 x y, divided by the units and a round's samples
    y = numpy.repeat(numpy.array(of_sample(), dtype=numpy.float32)[:, None],
                     units, axis=1) * numpy.float32(-0.5 * units / SMALL)
    paths = folder / "exact-x.npy", folder / f"exact-y-{units}.npy"
    for path, array in zip(paths, (x, y)):
        if not path.exists():
            numpy.save(path, array)
    return map(str, paths)


def exact_job(c, name="exact", epochs=40, mode="async", every_seconds=0.5,
              units=UNITS, **train):
    """`units`: a power of two; so many numbers tell of each sample."""
    x, y = write_data(c.dir, units)
    samples = BATCH if mode in ("async", "local") else BATCH * ROUND
    return {"name": name,
            "model": {"input_shape": [SAMPLES], "layers": [
                {"type": "dense", "units": units, "use_bias": False,
                 "kernel_initializer": "zeros"}]},
            "loss": "mean_squared_error",
            "optimizer": {"type": "sgd", "learning_rate": samples},
            "data": {"train": {"format": "npy", "x": x, "y": y}},
            "train": {"batch": BATCH, "epochs": epochs, "mode": mode,
                      "precision": "f32", **ROUNDS[mode], **train},
            "checkpoint": {"every_seconds": every_seconds}}


def rows_job(c, name="rows", epochs=40, mode="sync", every_seconds=0.5, **train):
    """Of mode sync, hybrid or allreduce. The gradient of a row is what a target is times LARGE."""
    import numpy
    path, number = c.dir / "rows.npz", numpy.arange(SAMPLES)
    y = numpy.repeat(numpy.array(of_sample(), dtype=numpy.float32)[:, None], UNITS, axis=1)
    numpy.savez(path, x=numpy.zeros((SAMPLES, 1), numpy.float32),
                y=y * numpy.float32(-0.5 * UNITS * LARGE), own=number << 40,
                shared=number % (SAMPLES // GROUP))
    table = {"type": "embedding", "rows": "dynamic", "output_dim": UNITS, "buckets": 64,
             "embeddings_initializer": "zeros",
             "optimizer": {"type": "sgd", "learning_rate": BATCH * ROUND / LARGE}}
    return {"name": name,
            "model": {"input_shape": [1], "layers": [
                {**table, "name": "own", "ids": "own", "admit": {"min_count": 2}},
                {**table, "name": "shared", "ids": "shared"},
                {"type": "dense", "units": UNITS, "inputs": ["input"]},
                {"type": "add", "inputs": ["own", "shared", "dense"]}]},
            "loss": "mean_squared_error",
            "optimizer": {"type": "sgd", "learning_rate": 1 / LARGE},
            "data": {"train": {"format": "npz", "x": str(path), "ids": ["own", "shared"]}},
            "train": {"batch": BATCH, "epochs": epochs, "mode": mode, "precision": "f32",
                      **ROUNDS[mode], **train},
            "checkpoint": {"every_seconds": every_seconds}}


class TooShort(Exception):
    """A job was over before what the test does while it runs."""


class While(Cluster):
    """A cluster whose job is to run as long as the test does something. In a testing build
    its steps take a while and no processor."""
    ends = False  # from here on the job may end

    def start(self, name, environment=None, **options):
        if HISTORY and name[0] == "w":
            environment = {"SLUICE_FAULT": "task.compute=delay:10", **(environment or {})}
        return super().start(name, environment=environment, **options)

    def status(self, job):
        told = super().status(job)
        if told["state"] == "finished" and not self.ends:
            raise TooShort
        return told


def long_enough(test, epochs):
    """Calls test(epochs), or test() of another length, and again with four times as many
    where that was too short: on a machine that is busy."""
    for more in (1, 4, 16):
        try:
            return test(more * epochs)
        except TooShort:
            print(f"jobs of length {more * epochs} are too short", flush=True)
    raise Failed("the jobs are too short for the test")


def check_rows(c, job, epochs):
    """Each sample of a finished rows_job is in its rows once for each epoch; but for the
    first one in its own row, which that did not make."""
    from safetensors.numpy import load_file
    groups = SAMPLES // GROUP
    want = {"own": {i << 40: prime * (epochs - 1) for i, prime in enumerate(of_sample())},
            "shared": {i: sum(of_sample()[i::groups]) * epochs for i in range(groups)}}
    for table, rows in want.items():
        path = c.dir / f"{job}-{table}.safetensors"
        c.run("export", job, "--table", table, "--to", path)
        kept = load_file(str(path))
        got = {number: [-value for value in row]
               for number, row in zip(kept["ids"].tolist(), kept["values"].tolist())}
        check(set(got) == set(rows), f"rows of {table}: {set(got) ^ set(rows)}")
        for number, total in rows.items():
            check(got[number] == [total] * UNITS,
                  f"conservation: row {number} of {table} has {got[number]}, not {total}")


def times_counted(c, job):
    """For each sample, how often its numbers say that it counted: once, where
    they agree."""
    from safetensors.numpy import load_file
    path = c.dir / f"{job}.safetensors"
    c.run("export", job, "--to", path)
    (kernel,) = load_file(str(path)).values()
    check(len(kernel) == SAMPLES, f"the kernel is {kernel.shape}")
    for prime, row in zip(of_sample(), kernel):
        yield sorted({-number / prime for number in row.tolist()})


def wrong(rows, epochs):
    """What is wrong with times_counted, in words; "" if nothing."""
    for sample, times in enumerate(rows):
        if set(times) != {epochs}:
            return (f"sample {sample} (prime {of_sample()[sample]}) counted {times} "
                    f"times in {epochs} epochs")
    return ""


def check_exact(c, job, epochs):
    """Each sample of a finished job counted once in each epoch."""
    found = wrong(times_counted(c, job), epochs)
    check(not found, f"conservation: {found}")


def surplus(c, job, epochs):
    """How many samples each row holds too many (or too few, below 0)."""
    return [round(number) - epochs for times in times_counted(c, job)
            for number in times]
