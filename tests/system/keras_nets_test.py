#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models that people have (keras_nets.py) are imported, and a job of each computes what
Keras computes: outputs, and the loss after twenty steps. Of the applications that Keras
ships names and sizes of all variables, as they are imported with no weights."""
import json
import re
import sys

import numpy

from cluster import BIN, ROOT, Cluster, check, check_counts, check_equal, main
from frameworks import run_warm, there
from keras_nets import APPLICATIONS, NETS

SAMPLES, BATCH, EPOCHS, RATE = 32, 8, 5, 0.05

# Writes of each net its JSON, first values, samples, outputs, and says the loss of fit.
FIT = """
import json, sys, numpy, keras, keras_nets, torch
from sluice.keras_weights import save_weights
folder, samples, batch, epochs, rate = sys.argv[1], *map(int, sys.argv[2:5]), float(sys.argv[5])
draw, told = numpy.random.default_rng(1), {}
keras.utils.set_random_seed(1)
for net, ids in keras_nets.NETS.items():
    m = net(keras, keras.layers)
    several, parts = isinstance(ids, tuple), []
    for shape, ids in zip(m.input_shape, ids) if several else [(m.input_shape, ids)]:
        shape = (samples, *shape[1:])
        part = draw.integers(0, ids, shape) if ids else draw.normal(size=shape)
        if ids:
            part[:, 0] = 1  # some step counts
        parts.append(part.astype("f4"))
    x = numpy.concatenate([p.reshape(samples, -1) for p in parts], 1) if several else parts[0]
    of = lambda at: [p[at] for p in parts] if several else x[at]
    out = numpy.asarray(m.predict_on_batch(of(slice(None)))).reshape(samples, -1)
    y = draw.normal(size=out.shape).astype("f4")
    name = f"{folder}/{net.__name__}"
    open(f"{name}.json", "w").write(m.to_json())
    save_weights(m, f"{name}.safetensors")
    numpy.savez(f"{name}.npz", x=x, y=y)
    numpy.savez(f"{name}-out.npz", x=x, y=out)
    m.compile(keras.optimizers.SGD(rate), "mean_squared_error", run_eagerly=True)
    # torch 2.14.1 with oneDNN writes beyond its memory in the backward of this net, where a
    # host has AVX2 alone: the process ends with "corrupted size vs. prev_size".
    with torch.backends.mkldnn.flags(enabled=net.__name__ != "xception_like"):
        for at in [*range(0, samples, batch)] * epochs:
            m.train_on_batch(of(slice(at, at + batch)), y[at:at + batch])
    now = numpy.asarray(m.predict_on_batch(of(slice(None)))).reshape(samples, -1)
    told[net.__name__] = [m.count_params(), float(((now - y) ** 2).mean())]
print(json.dumps(told))
"""

# Writes of each application its JSON, and says its variables. No value is drawn.
SHIPPED = """
import json, math, sys, keras
from sluice.keras_weights import variable_names
told = {}
for name in sys.argv[2:]:
    with keras.device("meta"):
        m = getattr(keras.applications, name)(weights=None)
    for layer in m.layers:
        if type(layer).__name__ == "Normalization":  # has no numbers there
            layer.input_mean, layer.input_variance = [0.0] * 3, [1.0] * 3
    open(f"{sys.argv[1]}/{name}.json", "w").write(m.to_json())
    told[name] = {path: math.prod(v.shape) for path, v in variable_names(m).items()}
print(json.dumps(told))
"""


def keras(code, *words):
    return json.loads(run_warm(("keras",), {
        "PYTHONPATH": f"{ROOT / 'python'}:{ROOT / 'tests' / 'system'}",
        "KERAS_BACKEND": "torch", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
        "SLUICE_BIN": str(BIN)}, code, *words).splitlines()[-1])


def job_of(c, name, data, epochs, rate):
    """The spec of a net's job."""
    spec = c.dir / f"{name}.yaml"
    words = [f"--set=data.{part}.{key}={value}" for part in ("train", "test")
             for key, value in (("format", "npz"), ("x", c.dir / f"{data}.npz"))]
    c.run("import", c.dir / f"{name}.json", "-o", spec, *words, "--set=name=net",
          "--set=loss=mean_squared_error", "--set=optimizer.type=sgd",
          f"--set=optimizer.learning_rate={rate}", f"--set=train.batch={BATCH}",
          f"--set=train.epochs={epochs}", "--set=train.shuffle=false",
          "--set=train.precision=f32", f"--set=evaluate.every_epochs={epochs}")
    return c.run("submit", spec, "--no-wait", "--weights",
                 c.dir / f"{name}.safetensors").stdout.strip()


def nets_of_tutorials_compute_what_keras_computes():
    check(len(NETS) >= 30, "nets", len(NETS))
    with Cluster(psservers=1, workers=1) as c:
        told = keras(FIT, c.dir, SAMPLES, BATCH, EPOCHS, RATE)
        jobs = {name: (job_of(c, name, f"{name}-out", 1, 1e-30),
                       job_of(c, name, name, EPOCHS, RATE)) for name in told}
        wrong = []
        for name, (parameters, loss) in told.items():
            still, moved = (c.wait_state(job) for job in jobs[name])
            check_counts(moved)
            check_equal(int(moved["parameters"]), parameters, f"parameters of {name}")
            apart = still["evaluations"][-1]["loss"] ** 0.5
            if "BatchNorm" not in (c.dir / f"{name}.json").read_text() and apart > 1e-4:
                wrong.append(f"{name}: outputs are {apart} apart (root of mean square)")
            ours = moved["evaluations"][-1]["loss"] or numpy.nan  # null: it is not finite
            if not abs(ours - loss) <= 1e-5 * loss:
                wrong.append(f"{name}: loss {ours}, Keras says {loss}")
        check(not wrong, "nets that compute something else", *wrong)


def applications_have_the_variables_that_keras_says():
    with Cluster(psservers=0, workers=0) as c:
        told = keras(SHIPPED, c.dir, *APPLICATIONS)
        for name, want in told.items():
            spec = c.dir / f"{name}.yaml"
            c.run("import", c.dir / f"{name}.json", "-o", spec, "--set=name=shipped",
                  "--set=loss=mean_squared_error", "--set=optimizer.type=sgd",
                  "--set=optimizer.learning_rate=0.1", "--set=data.train.format=npz",
                  "--set=data.train.x=x.npz", "--set=train.batch=8", "--set=train.epochs=1")
            rows = re.findall(r"^(\S+)\s+\(.*\)\s+([\d,]+)$",
                              c.run("validate", spec).stdout, re.M)
            check_equal({path: int(n.replace(",", "")) for path, n in rows}, want, name)


if __name__ == "__main__":
    if not there("keras"):
        sys.exit(77)
    main([nets_of_tutorials_compute_what_keras_computes,
          applications_have_the_variables_that_keras_says])
