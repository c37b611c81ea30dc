#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of Keras with several outputs, each with a loss of its own, as its tutorials have
them: what is imported computes Keras' outputs, and its loss falls as that of Keras does; a
live one is submitted; ONNX has all outputs."""
import json
import sys

import numpy

from cluster import BIN, ROOT, Cluster, check, check_counts, check_equal, main
from frameworks import run_warm, there
from ring_test import Ring

SAMPLES, BATCH, EPOCHS = 32, 8, 5
STEPS = SAMPLES // BATCH * EPOCHS

NETS = """
import json, sys, numpy, keras
k, l, numbers = keras, keras.layers, numpy.random.default_rng(3)
k.utils.set_random_seed(2)


def tickets():
    '''How urgent a ticket is, and whose: two losses in a dict, and weights of both.'''
    title, tags = k.Input((6,), name="title"), k.Input((4,), name="tags")
    words = l.GlobalAveragePooling1D()(l.Embedding(20, 5)(title))
    x = l.Dense(8, activation="relu")(l.concatenate([words, tags]))
    m = k.Model([title, tags], [l.Dense(1, activation="sigmoid", name="priority")(x),
                                l.Dense(4, activation="softmax", name="department")(x)])
    m.compile(k.optimizers.SGD(0.1),
              {"priority": "binary_crossentropy", "department": "sparse_categorical_crossentropy"},
              loss_weights={"priority": 1.0, "department": 0.2},
              metrics={"priority": ["accuracy"]})
    return m, [numbers.integers(0, 20, (SAMPLES, 6)), numbers.normal(size=(SAMPLES, 4))], [
        numbers.integers(0, 2, (SAMPLES, 1)), numbers.integers(0, 4, (SAMPLES, 1))]


def faces():
    '''Age, sex and kind of a picture; the kind is read by the age as well. Lists.'''
    x = k.Input((8, 8, 3))
    y = l.Conv2D(6, 3, activation="relu", kernel_regularizer=k.regularizers.L2(0.01))(x)
    y = l.GlobalAveragePooling2D()(l.MaxPooling2D()(y))
    kind = l.Dense(5, name="kind")(y)
    age = l.Dense(1, name="age")(l.concatenate([y, l.ReLU()(kind)]))
    m = k.Model(x, [age, l.Dense(1, activation="sigmoid", name="sex")(y), kind])
    m.compile(k.optimizers.Adam(0.01), ["mse", "binary_crossentropy",
              k.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)],
              loss_weights=[0.5, 1.5, 1])
    return m, [numbers.normal(size=(SAMPLES, 8, 8, 3))], [
        numbers.normal(size=(SAMPLES, 1)), numbers.integers(0, 2, (SAMPLES, 1)),
        numpy.eye(5)[numbers.integers(0, 5, SAMPLES)]]


def pixels():
    '''A class for each pixel, and how many are of one, by one loss of values for both.'''
    x = k.Input((4, 4, 2))
    y = l.Conv2D(4, 3, padding="same", activation="tanh")(x)
    m = k.Model(x, {"mask": l.Conv2D(3, 1, activation="softmax", name="classes")(y),
                    "count": l.Dense(2, name="sums")(l.Flatten()(y))})
    m.compile("sgd", {"mask": "sparse_categorical_crossentropy", "count": "mae"})
    return m, [numbers.normal(size=(SAMPLES, 4, 4, 2))], {
        "mask": numbers.integers(0, 3, (SAMPLES, 4, 4)), "count": numbers.normal(size=(SAMPLES, 2))}
"""

# Of each net its JSON, first values, samples, outputs, and the loss after each step.
FIT = NETS.replace("SAMPLES", str(SAMPLES)) + """
from sluice.keras_job import join_inputs
from sluice.keras_weights import save_weights
folder, batch, epochs, told = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), {}
for net in (tickets, faces, pixels):
    m, xs, ys = net()
    xs, path = [x.astype("f4") for x in xs], f"{folder}/{net.__name__}"
    order = list(json.loads(m.to_json())["config"]["output_layers"])
    named = isinstance(ys, dict)
    rows = [ys[name] for name in order] if named else ys
    join = lambda parts: numpy.concatenate(
        [numpy.asarray(p, "f4").reshape(len(p), -1) for p in parts], 1)
    x = join_inputs(m, xs) if len(xs) > 1 else xs[0]
    outs = m.predict(xs, verbose=0)
    open(f"{path}.json", "w").write(m.to_json())
    save_weights(m, f"{path}.safetensors")
    numpy.savez(f"{path}.npz", x=x, y=join(rows))
    numpy.savez(f"{path}-out.npz", x=x, y=join([outs[n] for n in order] if named else outs))
    at = lambda part, of: ({n: p[of] for n, p in part.items()} if isinstance(part, dict)
                           else [p[of] for p in part])
    curve = []
    for i in [*range(0, len(x), batch)] * epochs:
        m.train_on_batch(at(xs, slice(i, i + batch)), at(ys, slice(i, i + batch)))
        curve.append(m.evaluate(xs, ys, batch_size=len(x), verbose=0, return_dict=True)["loss"])
    told[net.__name__] = curve
print(json.dumps(told))
"""

LIVE = NETS.replace("SAMPLES", str(SAMPLES)) + """
from sluice import client
from sluice.keras_job import join_inputs, join_labels, submit, to_job
from sluice.keras_weights import load_job
folder, address = sys.argv[1:]
m, xs, ys = tickets()
y = join_labels(m, ys)
assert y.shape == (len(xs[0]), 2)
assert (join_labels(m, dict(zip(m.output_names, ys))) == y).all()
for call, words in ((lambda: join_labels(m, ys[:1]), "has 2 outputs"),
                    (lambda: join_labels(m, {"priority": ys[0]}), "are priority, department"),
                    (lambda: to_job(m, class_weight={1: 2}), "several outputs")):
    try:
        call()
    except ValueError as error:
        assert words in str(error), error
    else:
        assert False, "it took " + words
numpy.savez(f"{folder}/live.npz", x=join_inputs(m, xs), y=y)
part = {"format": "npz", "x": f"{folder}/live.npz"}
before = m.evaluate(xs, ys, verbose=0, return_dict=True)["loss"]
job = submit(m, {"train": part, "test": part}, address, batch_size=8, epochs=5,
             spec={"name": "live"}, weights=f"{folder}/live.safetensors")
for last in client.watch(job, address):
    pass
assert last["state"] == "finished", last
status = client.status(job, address)
told = status["evaluations"][-1]
assert told["accuracy"] is None, told
assert status["loss"] > told["loss"] and status["accuracy"] is None, status
after = load_job(m, job, address).evaluate(xs, ys, verbose=0, return_dict=True)["loss"]
assert abs(after - told["loss"]) < 1e-4 < before - after, (before, after, told)
# A loss that is one word is that of all outputs; one without a loss cannot be.
m.compile("sgd", "mse")
assert [part["loss"] for part in to_job(m)["losses"]] == ["mean_squared_error"] * 2
m.compile("sgd", {"priority": "mse"})
try:
    to_job(m)
except client.CommandError as error:
    assert "output 'department' has no loss" in str(error), error
else:
    assert False, "it took an output without a loss"
print(json.dumps([after]))
"""


def keras(code, *words):
    return json.loads(run_warm(("keras",), {
        "PYTHONPATH": str(ROOT / "python"), "KERAS_BACKEND": "jax", "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "", "SLUICE_BIN": str(BIN)}, code, *words).splitlines()[-1])


def submitted(c, name, data, *words):
    """The job of a net; `words` are more of --set."""
    spec = c.dir / f"{name}.json.yaml"
    sets = [f"data.{part}.{key}={value}" for part in ("train", "test")
            for key, value in (("format", "npz"), ("x", c.dir / f"{data}.npz"))]
    c.run("import", c.dir / f"{name}.json", "-o", spec,
          *(f"--set={word}" for word in (*sets, f"train.batch={BATCH}", "train.shuffle=false",
                                         "train.precision=f32", *words)))
    return c.run("submit", spec, "--no-wait", "--weights",
                 c.dir / f"{name}.safetensors").stdout.strip()


def losses_of_values(c, name):
    """`losses` of a net, as mean squares of all outputs."""
    spec = json.loads(c.run("import", c.dir / f"{name}.json", "-o", c.dir / "o.json") and
                      (c.dir / "o.json").read_text())
    return json.dumps([{"output": loss["output"], "loss": "mean_squared_error"}
                       for loss in spec["losses"]])


def losses_fall_as_those_of_keras():
    with Ring(1, psservers=1) as c:
        told = keras(FIT, c.dir, BATCH, EPOCHS)
        check_equal(sorted(told), ["faces", "pixels", "tickets"], "nets")
        modes = {"tickets": ["train.mode=async"],
                 "faces": ["train.mode=sync", "train.contributions=1"],
                 "pixels": ["train.mode=allreduce"]}
        jobs = {name: (submitted(c, name, f"{name}-out", "train.epochs=1",
                                 "optimizer.type=sgd", "optimizer.learning_rate=1e-30",
                                 f"losses={losses_of_values(c, name)}"),
                       submitted(c, name, name, f"train.epochs={EPOCHS}",
                                 "train.steps_per_closure=1", "train.window_closures=1",
                                 "evaluate.every_steps=1",
                                 "callbacks.early_stopping.patience=1000",  # waits for each
                                 *modes[name]))
                for name in told}
        for name, curve in told.items():
            still, moved = (c.wait_state(job) for job in jobs[name])
            check_counts(moved)
            # A penalty is a part of the loss, and no output.
            if name != "faces":
                apart = still["evaluations"][-1]["loss"] ** 0.5
                check(apart < 1e-4, f"outputs of {name}", apart)
            ours = [e["loss"] for e in moved["evaluations"]][-STEPS:]
            check_equal(len(ours), STEPS, f"evaluations of {name}")
            apart = numpy.abs(numpy.array(ours) - curve).max()
            check(apart < 1e-3, f"loss of {name}", apart, ours, curve)
            check(curve[-1] < curve[0] - 0.005, f"{name} learns nothing", curve)


def a_live_model_is_submitted():
    with Cluster(psservers=1, workers=2) as c:
        check(keras(LIVE, c.dir, c.address)[0] > 0, "loss")


if __name__ == "__main__":
    if not there("keras"):
        sys.exit(77)
    main([losses_fall_as_those_of_keras, a_live_model_is_submitted])
