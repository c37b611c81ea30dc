# SPDX-License-Identifier: Apache-2.0
"""Conservation in the ways of mode local: how often each sample counted is what its rows
of two embeddings say, which lie on two shards, in a job of one epoch.

A sample changes its row by 1, which every code carries as it is. What a round then
applies depends on what came:

    with slots            the outer rate is the number of slots, so each row moves by 1
    quorum: 1             each contribution is an update, so each row moves by 1
    quorum: 1, fragments  the same: each variable is a fragment, and a push of it an update
    quorum, one closure   the mean of k contributions. The outer rate is a multiple of
                          all k, so a row moves by RATE / k, and the rows that moved so
                          are those of rounds of k whole contributions
    quorum, small closures  their weights vary. The outer optimizer (SIGN) moves what
                          has any gradient by 1, so a sample that counts twice is seen
                          if that is in two rounds

Programs of the user's (conserve_local.py) have rows of one number.
"""
import array
import collections
import json

SAMPLES, BATCH, INNER, SLOTS, UNITS = 16384, 4, 2, 4, 4
WHOLE = BATCH * INNER  # samples of a contribution
RATE = 12  # a multiple of 1 to SLOTS
LARGE = 2.0 ** 44  # of a gradient: predictions, at most RATE, vanish beside it in f32
SIGN = {"type": "rmsprop", "rho": 0.0, "learning_rate": 1.0, "epsilon": 1e-12}
CODES, FEW = {"up": "e3m0", "down": "e3m0"}, {"up": "topk2", "down": "e3m0"}
WAYS = {  # what train has, and what train.inner has
    "fixed": ({}, {}),
    "quorum": ({"quorum": 2}, {}),
    "eager": ({"quorum": 1}, {}),
    "closures": ({"quorum": 2}, {"closure": 1}),
    "eager-closures": ({"quorum": 1}, {"closure": 1}),
    "e3m0": ({}, CODES),
    "quorum-e3m0": ({"quorum": 2}, CODES),
    "topk2": ({}, FEW),
    "quorum-topk2": ({"quorum": 2}, FEW),
    "closures-aged": ({"quorum": 2, "weight": "age", "average": "direction", "norm": "median"},
                      {"closure": 1, "moments": "store", "moments_every": 2}),
    "closures-own": ({"quorum": 2}, {"closure": 1, "pace": "own"}),
    "fragments": ({"quorum": 1, "fragments": 2}, {}),
    "fragments-e3m0": ({"quorum": 1, "fragments": 2}, {"up": "e3m0"}),
}
OF_PROGRAMS = [way for way, (more, inner) in WAYS.items()
               if "fragments" not in more and not {"pace", "moments"} & set(inner)]
NAMES = ("one", "two")


def outer(way):
    more, inner = WAYS[way]
    if more.get("quorum", SLOTS) == SLOTS:
        return {"type": "sgd", "learning_rate": SLOTS}
    if more["quorum"] == 1:
        return {"type": "sgd", "learning_rate": 1}
    return SIGN if "closure" in inner else {"type": "sgd", "learning_rate": RATE}


def train(way):
    more, inner = WAYS[way]
    return {"mode": "local", "batch": BATCH, "epochs": 1, "contributions": SLOTS, **more,
            "inner": {"steps": INNER, **inner}, "outer": outer(way)}


def local_job(c, way, every_seconds=0.5, samples=SAMPLES):
    """Of a model of layers: a row of UNITS numbers for each sample, of which there are
    whole rounds."""
    import numpy
    paths = [c.dir / f"exact-local-{samples}-{part}.npy" for part in "xy"]
    if not paths[1].exists():
        numpy.save(paths[0], numpy.arange(samples, dtype=numpy.float32)[:, None])
        # d (w - y)^2 / dw is -2 y, divided by the units and a step's samples
        numpy.save(paths[1], numpy.full((samples, UNITS), -0.5 * UNITS * LARGE, numpy.float32))
    return {"name": f"exact-local-{way}",
            "model": {"input_shape": [1], "layers": [
                {"type": "embedding", "name": name, "input_dim": samples, "inputs": ["input"],
                 "output_dim": UNITS, "embeddings_initializer": "zeros"}
                for name in NAMES] + [
                {"type": "add", "inputs": NAMES}, {"type": "flatten"}]},
            "loss": "mean_squared_error",
            "optimizer": SIGN if WAYS[way][1].get("moments") == "store" else
                         {"type": "sgd", "learning_rate": BATCH / LARGE},
            "data": {"train": {"format": "npy", "x": str(paths[0]), "y": str(paths[1])}},
            "train": {"precision": "f32", **train(way)},
            "checkpoint": {"every_seconds": every_seconds}}


def program_job(way, every_seconds=0.5, samples=SAMPLES):
    """The same for conserve_local.py."""
    return {"name": f"sum-local-{way}",
            "model": {"type": "external", "variables": [
                {"name": name, "shape": [samples], "initializer": "zeros"} for name in NAMES]},
            "data": {"train": {"format": "external", "samples": samples}},
            "train": {"shuffle": False, **train(way)},
            "checkpoint": {"every_seconds": every_seconds}}


def way_of(spec):
    return spec["name"].split("-local-")[1]


def tensors(path):
    """(rows, numbers) of each tensor of f32; without packages, which bench/run has not."""
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    for name, of in json.loads(data[8:begin]).items():
        if name != "__metadata__":
            first, last = of["data_offsets"]
            yield of["shape"][0], array.array("f", data[begin + first:begin + last])


def moved(c, job):
    """For each variable, by how much its rows have moved: lists of numbers that differ."""
    path = c.dir / f"{job}.safetensors"
    c.run("export", job, "--to", path)
    return [[[-number for number in set(numbers[at:at + len(numbers) // rows])]
             for at in range(0, len(numbers), len(numbers) // rows)]
            for rows, numbers in tensors(path)]


def wrong(rows, way, whole=WHOLE):
    """What is wrong with the rows of a variable, in words; "" if nothing. `whole`: samples
    of a contribution; 1: they differ."""
    by_mean = outer(way)["learning_rate"] == RATE
    steps = [RATE // k for k in range(1, SLOTS + 1)] if by_mean else [1]
    seen = collections.Counter()
    for sample, row in enumerate(rows):
        step = round(row[0])
        if len(row) != 1 or abs(row[0] - step) > 1e-3 or step not in steps:
            return f"sample {sample} moved its row by {row}, not by one of {steps}"
        seen[step] += 1
    for step, count in seen.items() if by_mean else ():
        if count % (whole * (RATE // step)):
            return f"{count} samples moved by {step}: no rounds of {RATE // step}"
    return ""


def check_local(c, job, spec):
    """Each sample of a finished job counted once, on each shard."""
    from cluster import check
    way, variables = way_of(spec), moved(c, job)
    check(len(variables) == len(NAMES), "variables exported")
    for rows in variables:
        found = wrong(rows, way)
        check(not found, f"conservation, {way}: {found}")


def surplus(c, job, spec):
    """How many times a row moved too often (or -1: not at all), by its numbers alone."""
    by_mean = outer(way_of(spec))["learning_rate"] == RATE
    return [-1 if not number else 0 if by_mean and number <= RATE else round(number) - 1
            for rows in moved(c, job) for row in rows for number in row]
