# SPDX-License-Identifier: Apache-2.0
"""A model of many small variables, against the same bytes in few.

Both are dense nets of equal depth with as many parameters, so with as many
multiplications: a thousand towers of 64 units whose outputs are added, and one
whose width makes the bytes equal.
"""
from bed import check
from rows.jobs import FashionJob, alternate
from table import at_least, row

BATCH = 256      # as `mlp256`
WIDTH, TOWERS = 64, 1000
DEPTH = 5        # of a tower; each layer has a kernel and a bias
INPUTS_MAX = 8   # of one `add`
WARM_STEPS = 8
VARIABLES, ELEMENTS = 10000, 64  # where nothing is computed


def dense(name, units, *inputs):
    return {"type": "dense", "name": name, "units": units, "inputs": list(inputs)}


def tower(name, below, layers, units):
    """So many layers; the last one has a single output."""
    names = [below] + [f"{name}-{i}" for i in range(layers)]
    return [dense(names[i + 1], 1 if i == layers - 1 else units, names[i])
            for i in range(layers)]


def added(names):
    """Layers that add up what these give."""
    layers, level = [], 0
    while len(names) > 1:
        groups = [names[i:i + INPUTS_MAX] for i in range(0, len(names), INPUTS_MAX)]
        names = [f"sum-{level}-{i}" for i in range(len(groups))]
        layers += [{"type": "add", "name": name, "inputs": group}
                   for name, group in zip(names, groups) if len(group) > 1]
        names = [name if len(group) > 1 else group[0]
                 for name, group in zip(names, groups)]
        level += 1
    return layers


def many_layers():
    """10,002 variables. All towers read one layer, not the input, so that each
    of their products has a gradient by its data, as in the other net."""
    layers = [dense("first", WIDTH, "input")]
    for i in range(TOWERS):
        layers += tower(f"t{i}", "first", DEPTH, WIDTH)
    return layers + added([f"t{i}-{DEPTH - 1}" for i in range(TOWERS)])


def elements(layers):
    """Of the variables, from the units of each layer and of what it reads."""
    units = {"input": WIDTH}
    total = 0
    for layer in layers:
        fed = units[layer["inputs"][0]]
        units[layer["name"]] = layer.get("units", fed)
        total += (fed + 1) * layer["units"] if "units" in layer else 0
    return total


def few_layers():
    """10 variables, as nearly of the same bytes as whole units allow."""
    wanted = elements(many_layers())
    nets = (tower("t", "input", DEPTH, units)
            for units in range(WIDTH, 100 * WIDTH))
    return min(nets, key=lambda layers: abs(elements(layers) - wanted))


def spec(layers):
    return {
        "name": f"dense-{len(layers)}",
        "model": {"input_shape": [WIDTH], "layers": layers},
        "loss": "binary_crossentropy",
        "optimizer": {"type": "adam", "learning_rate": 1e-5},
        "data": {"train": {"format": "synthetic", "generator": "binary",
                           "samples": 256 * BATCH, "seed": 7}},
        "train": {"batch": BATCH, "epochs": 10000, "steps_per_closure": 1},
        "checkpoint": {"every_epoch": False},
    }


def steps_per_s(bench, layers):
    """Of one worker on a core of its own."""
    cpus = {"c": bench.server_cpu, "p": bench.server_cpu, "w": bench.client_cpu}
    with FashionJob(workers=1, cpus=cpus) as c:
        job = c.submit(spec(layers))
        c.wait_steps(job, WARM_STEPS)
        rate = c.steps_per_s(job, bench.window(12))
        for shard in c.status(job)["shards"]:
            check(int(shard["counts"]["skipped"]) == 0, "steps were skipped: their "
                  "loss or gradient is not finite")
    return rate


def pushes_per_s(bench, variables):
    """Steps of a worker that computes nothing, to two psservers."""
    with bench.cluster(over="tcp", psservers=2) as c:
        _, target = c.place(elements=VARIABLES * ELEMENTS, shards=2,
                            optimizer="adam", variables=variables)
        done = bench.program("lease_load", *target, "--coordinator", c.address,
                             "--mode", "pushpull", *bench.timed(),
                             "--cpu", bench.client_cpu)
    return done["per_s"] / 2


@row("many-vars", unit="steps/s", peer="the same bytes in 10 variables",
     bar=at_least(0.8), needs=["psserver", "lease_load"],
     long="10,000 variables are placed")
def many_vars(bench):
    """A job with 10,000 variables, 1,000 towers of 5 dense layers of 64 units,
    with Adam and batch 256, one worker."""
    many, few = many_layers(), few_layers()
    bench.note(f"nothing computed, {VARIABLES} variables of {ELEMENTS}: "
               f"{pushes_per_s(bench, VARIABLES):.0f} steps/s, in 10: "
               f"{pushes_per_s(bench, 10):.0f}")
    return alternate(bench, lambda: steps_per_s(bench, many),
                     lambda: steps_per_s(bench, few))
