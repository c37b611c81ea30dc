#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`sluice import`: a model that Keras wrote trains, and its values come back.

With Keras itself where it is (bench/setup has installed it for the peers);
without, with what it once wrote (tests/unit/client/keras)."""
import json
import os
import subprocess
import sys
from unittest import mock

import numpy
from safetensors.numpy import load_file

from cluster import BIN, ROOT, Cluster, changed, check, check_counts, check_equal, main
from frameworks import run_warm, there

os.environ["SLUICE_BIN"] = str(BIN)
sys.path.insert(0, str(ROOT / "python"))
import sluice  # noqa: E402

FILES = ROOT / "tests" / "unit" / "client" / "keras"

# Makes a model with its first values and data; or loads what a job has made of it.
PROGRAM = """
import sys, numpy
which, what, folder = sys.argv[1:]
k = __import__(which)
from sluice.client import load_safetensors, save_safetensors
from sluice.keras_weights import load_weights, save_weights
l = k.layers
def model():
    x = k.Input((6, 5, 1))
    y = l.Conv2D(4, (2, 3), name="conv")(x)
    y = l.ReLU()(l.BatchNormalization(name="norm")(y))
    y = l.Flatten()(l.MaxPooling2D((1, 3))(y))
    m = k.Model(x, k.Sequential([k.Input((20,)), l.Dense(8, "tanh", name="d"),
                                 l.Dense(2, name="d2")], name="head")(y))
    m.compile(k.optimizers.Adam(0.01), metrics=["accuracy"],
              loss=k.losses.SparseCategoricalCrossentropy(from_logits=True))
    return m
m = model()
random = numpy.random.default_rng(5)
x = random.normal(size=(640, 6, 5, 1)).astype("f4")
y = (x.mean((1, 2, 3)) > 0).astype("i4")
if what == "make":
    open(f"{folder}/model.json", "w").write(m.to_json())
    save_weights(m, f"{folder}/first.safetensors")
    numpy.savez(f"{folder}/data.npz", x=x, y=y)
    other = model()
    load_weights(other, f"{folder}/first.safetensors")
    assert numpy.array_equal(other.predict(x, verbose=0), m.predict(x, verbose=0))
    first = load_safetensors(f"{folder}/first.safetensors")
    def refused(text, **change):
        save_safetensors(f"{folder}/bad.safetensors", {**first, **change})
        try:
            load_weights(other, f"{folder}/bad.safetensors")
        except ValueError as error:
            assert text in str(error), error
        else:
            assert False, "it took " + text
        assert numpy.array_equal(other.predict(x, verbose=0), m.predict(x, verbose=0))
    zeros = numpy.zeros((3, 2), "f4")
    refused("more is no variable of the model", more=zeros, **{"conv/bias": zeros[0, :0]})
    refused("conv/bias is (3, 2) in the file, (4,) in the model", **{"conv/bias": zeros})
    first.pop("conv/bias")
    refused("conv/bias is not in the file")
else:
    load_weights(m, f"{folder}/{what}.safetensors")
    loss, accuracy = m.evaluate(x, y, verbose=0)
    print("loss", loss, "accuracy", accuracy)
"""


# One step at no rate moves nothing but the statistics of batch normalization.
MOVES = """
import sys, numpy
which, what, folder = sys.argv[1:]
k = __import__(which)
from sluice.keras_weights import load_job, save_weights, variable_names
l = k.layers
random = numpy.random.default_rng(0)
x, y = random.normal(size=(8, 4, 4, 3)).astype("f4"), random.integers(0, 2, 8)
if what == "make":
    k.utils.set_random_seed(1)
    m = k.Sequential([
        k.Input((4, 4, 3)), l.Conv2D(4, 3, strides=2, padding="same", name="c"),
        l.BatchNormalization(name="bn"), l.GlobalAveragePooling2D(),
        l.BatchNormalization(name="flat"), l.Dense(2, name="d")])
    open(f"{folder}/model.json", "w").write(m.to_json())
    save_weights(m, f"{folder}/first.safetensors")
    numpy.savez(f"{folder}/data.npz", x=x, y=y.astype("i4"))
    m.compile(k.optimizers.SGD(1e-30),
              k.losses.SparseCategoricalCrossentropy(from_logits=True))
    m.train_on_batch(x, y)
    numpy.save(f"{folder}/want.npy", m.predict(x, verbose=0))
    numpy.savez(f"{folder}/moved.npz", **{n: numpy.asarray(v.numpy()) for n, v in
                                          variable_names(m).items() if "moving" in n})
else:
    job, address = what.split("@")
    m = load_job(k.models.model_from_json(open(f"{folder}/model.json").read()), job,
                 address)
    for name, want in numpy.load(f"{folder}/moved.npz").items():
        got = numpy.asarray(variable_names(m)[name].numpy())
        begun = 0 if "mean" in name else 0.99
        assert numpy.allclose(got - begun, want - begun, rtol=1e-3), (
            name, (want - begun) / (got - begun))
    assert numpy.allclose(m.predict(x, verbose=0), numpy.load(f"{folder}/want.npy"),
                          atol=1e-5)
"""


# A live model becomes a job that starts with its values, and takes what was learnt.
LIVE = changed(PROGRAM[:PROGRAM.index('if what == "make"')], {
    "which, what, folder": "which, address, folder"}) + """
import os
from sluice import client
from sluice.keras_job import join_inputs, submit, to_job
from sluice.keras_weights import load_job
os.chdir(folder)
numpy.savez("data.npz", x=x, y=y)
part = {"format": "npz", "x": "data.npz"}
spec = {"evaluate": {"every_epochs": 5}, "name": "live"}
if which == "tf_keras":  # Keras 2 writes no compile_config
    spec.update(loss="sparse_categorical_crossentropy",
                optimizer={"type": "adam", "learning_rate": 0.01})
try:
    submit(m, {"train": part}, address, epochs=0, spec=spec)
except client.CommandError as error:
    assert error.code == 2 and "train.epochs" in str(error), error
else:
    assert False, "it took no epochs"
assert to_job(m, spec=spec)["name"] == "live"
there = to_job(m, {"train": {**part, "x": "s3://bucket/*.npz"},
                   "test": {**part, "x": "https://data.example/test.npz"}}, spec=spec)["data"]
assert [there[of]["x"] for of in ("train", "test")] == [
    "s3://bucket/*.npz", "https://data.example/test.npz"], there
assert to_job(m, spec=spec, class_weight={1: 5})["train"]["class_weight"] == [
    1, 5] + [1] * (m.output_shape[-1] - 2)
given = to_job(m, {"train": {"format": "npy", "x": "x.npy", "y": "y.npy",
                             "sample_weight": "w.npy"},
                   "test": {**part, "sample_weight": "w"}}, spec=spec)["data"]
assert [given[of]["sample_weight"] for of in ("train", "test")] == [
    os.path.abspath("w.npy"), "w"], given
code = k.Sequential([k.Input((2,)), l.Lambda(lambda v: 2 * v, name="twice")])
try:
    to_job(code)
except client.CommandError as error:
    assert "layer 'twice' (Lambda) holds code" in str(error), error
else:
    assert False, "it took code"
# Layers of one name in two models have each its own numbers.
def shifted(by, name):
    norm = l.Normalization(name="same")
    norm.adapt(numpy.array([[by - 1.0], [by + 1.0]], "f4"))
    return k.Sequential([k.Input((1,)), norm], name=name)
both = k.Sequential([k.Input((1,)), shifted(3, "a"), shifted(7, "b"), l.Dense(1)])
assert [layer["mean"] for layer in to_job(both)["model"]["layers"][:2]] == [[3], [7]]
# Several inputs are one sample, in the order of the model.
one, two = k.Input((2, 2), name="one"), k.Input((1,), name="two")
joint = k.Model([two, one], l.Dense(2)(l.Concatenate()([two, l.Flatten()(one)])))
arrays = [numpy.ones((4, 1)), numpy.arange(16.0).reshape(4, 2, 2)]
rows = join_inputs(joint, arrays)
assert rows.shape == (4, 5) and rows[1].tolist() == [1, 4, 5, 6, 7], rows
assert (join_inputs(joint, {"one": arrays[1], "two": arrays[0]}) == rows).all()
assert join_inputs(m, [x]).shape == (len(x), x[0].size)
assert [layer["name"] for layer in to_job(joint, spec=spec)["model"]["layers"][:3]] == [
    "two", "one.flat", "one"]
for wrong, words in ((arrays[:1], "has 2 inputs"), ({"one": arrays[1]}, "inputs are two, one"),
                     (arrays[::-1], "input 'two' wants (1,) for a sample, not 4 numbers")):
    try:
        join_inputs(joint, wrong)
    except ValueError as error:
        assert words in str(error), error
    else:
        assert False, "it took " + words
# Layers that encode have learnt bins, and words.
bins, known = l.Discretization(num_bins=4), l.IntegerLookup(output_mode="multi_hot")
bins.adapt(numpy.arange(100.0))
known.adapt(numpy.array([[3, 7, 7], [4, 7, 3]]))
cut, found = (to_job(k.Sequential([k.Input((3,)), layer, l.Dense(1)]))["model"]["layers"][0]
              for layer in (bins, known))
assert [round(b) for b in cut["bin_boundaries"]] == [24, 49, 74], cut
assert found["vocabulary"] == [7, 3, 4], found
# Its input is shifted, and so is the data; the layer has learnt by how much.
norm, inner = l.Normalization(name="adapted"), m
x = (3 * x + 5).astype("f4")
norm.adapt(x)
numpy.savez("data.npz", x=x, y=y)
m = k.Sequential([k.Input(x.shape[1:]), norm, inner], name="outer")
m.compile(k.optimizers.Adam(0.01), inner.loss, metrics=["accuracy"])
given = to_job(m, spec=spec)["model"]["layers"][0]
assert given["type"] == "normalization" and max(given["mean"]) > 3, given
before = m.evaluate(x, y, verbose=0)[0]
job = submit(m, {"train": part, "test": part}, address, batch_size=32, epochs=5, spec=spec,
             weights="first.safetensors")
for last in client.watch(job, address):
    pass
assert last["state"] == "finished", last
told = last["test_loss"][-1]
after = load_job(m, job, address).evaluate(x, y, verbose=0)
assert abs(after[0] - told) < 1e-4 < before - after[0], (before, after, told)
print("loss", after[0])
"""


def says(done, *texts):
    for text in texts:
        check(text in done.stderr, f"it does not say '{text}'", done.stdout, done.stderr)


def keras(which, what, folder, program=PROGRAM):
    return run_warm((which,), {
        "PYTHONPATH": str(ROOT / "python"), "KERAS_BACKEND": "torch", "OMP_NUM_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "SLUICE_BIN": str(BIN)},
        program, which, what, folder).split()


def data(path):
    """--set words for both sets."""
    return [f"--set=data.{part}.{key}={value}" for part in ("train", "test")
            for key, value in (("format", "npz"), ("x", path))]


class Said:
    """A module, or an object of one, that keeps what it is told."""

    def __init__(self, **more):
        self.calls = []
        vars(self).update(more)

    def __getattr__(self, name):
        def call(*words, **keys):
            self.calls.append((name, words, keys))
            return self
        return call

    def told(self, name):
        return [(*words, *keys.values()) for what, words, keys in self.calls if what == name]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.calls.append(("end", (), {}))


def reported(c, job):
    """What MLflow, W&B, a run of it and tqdm were told of a job; its last statuses."""
    flow, bands, into, bar = Said(active_run=lambda: None), Said(run=None), Said(), Said()
    bands.init = lambda **keys: bands.calls.append(("init", (), keys)) or into
    with mock.patch.dict(sys.modules, {"mlflow": flow, "wandb": bands, "tqdm.auto": Said(
            tqdm=lambda **keys: bar.calls.append(("tqdm", (), keys)) or bar)}):
        return flow, bands, into, bar, [tool(job, c.address) for tool in (
            sluice.report.mlflow, sluice.report.wandb, sluice.report.bar)]


def other_tools_show_how_it_ended(c, spec):
    """MLflow and W&B have a state of their own for each end of a job."""
    for state, told, code, words in (
            ("failed", "FAILED", 1, ["--set", "data.train.x=not-there.npz"]),
            ("stopped", "KILLED", 0, ["--set", "train.epochs=30000"])):
        job = c.run("submit", spec, "--no-wait", *words).stdout.strip()
        if state == "stopped":
            c.run("stop", job, "--now")
        flow, _, into, bar, ends = reported(c, job)
        check_equal([last["state"] for last in ends], [state] * 3, "last statuses")
        check_equal((flow.told("end_run"), into.told("finish"), bar.calls[-1][0]),
                    ([(told,)], [(code,)], "end"), f"how it has {state}")
        shown = sluice.client.Job(job)
        shown.coordinator = c.address
        check(f"<td>{state}</td>" in shown._repr_html_(), shown._repr_html_())


def other_tools_show_it(c, job):
    """MLflow, W&B, tqdm and a notebook."""
    flow, bands, into, bar, ends = reported(c, job)
    end = c.status(job)
    check_equal([(last["state"], last["id"], last["loss"]) for last in ends],
                [("finished", job, end["loss"])] * 3, "last statuses")
    each = end["evaluations"]
    want = [({"validation/loss": e["loss"], "validation/accuracy": e["accuracy"]},
             int(e["steps"])) for e in each]
    logged = flow.told("log_metrics")
    check_equal([w for w in logged if "validation/loss" in w[0]], want, "evaluations in MLflow")
    check_equal((logged[-1][0]["loss"], logged[-1][1]), (end["loss"], int(end["steps_counted"])),
                "training in MLflow")
    check("train.epochs" in {key for params, in flow.told("log_params") for key in params} and
          flow.told("end_run") == [("FINISHED",)], "its run", flow.calls)
    steps = [step for _, step in into.told("log")]
    check_equal((steps, [v["validation/step"] for v, _ in into.told("log")[:len(each)]]),
                (sorted(steps), [int(e["steps"]) for e in each]), "steps of W&B")
    check_equal((into.told("finish"), bands.told("init")[0][1]["train"]["epochs"]),
                ([(0,)], 3), "the run of W&B")
    check_equal((bar.total, bar.n, bar.calls[-1][0]), (60, 60, "end"), "the bar")
    check_equal(bar.told("set_postfix")[-1][0].get("loss"), f"{end['loss']:.4g}",
                "the bar's last loss")

    shown = sluice.client.Job(job)
    shown.coordinator = c.address
    text = shown._repr_html_()
    check(f"<b>{job} mlp</b>" in text and "<td>60 of 60</td>" in text, text)
    shown.coordinator = "127.0.0.1:1"
    check(f"<b>{job}</b>: sluice" in shown._repr_html_(), shown._repr_html_())


def what_keras_wrote_trains_under_the_names_that_keras_has():
    with Cluster(psservers=2, workers=1) as c:
        random = numpy.random.default_rng(3)
        x = random.normal(size=(640, 6)).astype("f4")
        numpy.savez(c.dir / "data.npz", x=x, y=(x[:, 0] > x[:, 1]).astype("i4"))
        spec = c.dir / "job.yaml"
        # Optimizer and loss are those it was compiled with.
        done = c.run("import", FILES / "mlp-k3.json", "-o", spec, *data("data.npz"),
                     "--set", "optimizer.learning_rate=0.01", "--set", "train.epochs=3",
                     "--set", "evaluate.every_epochs=1")
        check_equal(done.stdout + done.stderr, "", "what it says")
        job = c.run("submit", spec, "--no-wait").stdout.strip()
        end = c.wait_state(job)
        check_counts(end)
        check(end["evaluations"][-1]["accuracy"] > 0.8, end["evaluations"])
        c.run("export", job, "--to", c.dir / "out.safetensors")
        want = json.loads((FILES / "mlp-k3.want.json").read_text())["variables"]
        check_equal({name: list(v.shape) for name, v in
                     load_file(c.dir / "out.safetensors").items()}, want, "variables")
        other_tools_show_it(c, job)
        other_tools_show_how_it_ended(c, spec)


def all_but_the_model_may_come_from_another_spec():
    with Cluster(psservers=0, workers=0) as c:
        base = c.dir / "base" / "base.yaml"
        base.parent.mkdir()
        base.write_text("name: mine\nloss: categorical_crossentropy\n"
                        "optimizer: {type: sgd, learning_rate: 0.5}\n"
                        "data:\n  train: {format: npz, x: train.npz}\n")
        done = c.run("import", FILES / "mlp_built-k2.json", "--base", base)
        check_equal(done.stderr, "", "what it says")
        (c.dir / "job.yaml").write_text(done.stdout)
        said = json.loads(c.run("validate", c.dir / "job.yaml", "-o", "json").stdout)
        check_equal((said["name"], said["loss"], said["optimizer"]["learning_rate"]),
                    ("mine", "categorical_crossentropy", 0.5), "of the base")
        check_equal(said["data"]["train"]["x"], str(base.parent / "train.npz"), "path")
        # As JSON, from standard input.
        text = (FILES / "mlp_built-k2.json").read_bytes()
        subprocess.run([BIN / "sluice", "import", "-", "-o", c.dir / "job.json", "--base", base],
                       input=text, check=True)
        again = json.loads(c.run("validate", c.dir / "job.json", "-o", "json").stdout)
        check_equal(again, said, "the spec as JSON")


def what_is_missing_or_cannot_be_is_said():
    with Cluster(psservers=0, workers=0) as c:
        spec = c.dir / "job.yaml"
        done = c.run("import", FILES / "mlp_built-k2.json", "-o", spec)
        says(done, *(f"{spec} has no '{what}' yet" for what in ("loss", "optimizer", "data")))
        says(c.run("validate", spec, want=2), "loss is missing")
        spec.unlink()
        for name, text in (("by_hand-k3", "layer 'asked' is called with another mask"),
                           ("lost-k3", "layer 'without' is called with another mask"),
                           ("lambda-k3", "layer 'times' (Lambda) holds code"),
                           ("two_inputs-k2", "has 2 inputs; a model in a job has one"),
                           ("hashing-k3", "layer 'hash' (Hashing) hashes numbers"),
                           ("strings-k3", "layer 'word' (StringLookup) looks up text"),
                           ("unknown-k3", "layer 'memory' (ConvLSTM1D) is of a class")):
            done = c.run("import", FILES / "refused" / f"{name}.json", "-o", spec, want=2)
            says(done, text, "Known are models of Activation, Add,")
            check(not spec.exists(), "it wrote a spec")
        done = c.run("import", FILES / "mlp-k3.json", "-o", spec, "--set", "train.epoch=3", want=2)
        says(done, "--set train.epoch=3: train: unknown key 'epoch'")
        done = c.run("import", FILES / "mlp-k3.json", "--set", "from_logits=false", want=2)
        says(done, "from_logits is false, but layer 'dense_1' ends in linear")
        model = json.loads((FILES / "mobile-k3.json").read_text())
        model["config"]["layers"][0]["config"]["batch_shape"][1:3] = [None, None]
        anyhow = c.dir / "any.json"
        anyhow.write_text(json.dumps(model))
        says(c.run("import", anyhow, want=2), "axis 1 of the input may have any length",
             "--set 'model.input_shape=[224,224,3]'")
        made = c.run("import", anyhow, "--set", "model.input_shape=[32,32,3]").stdout
        check("input_shape: [32, 32, 3]" in made, made[:200])
        says(c.run("import", spec, want=3), f"{spec}: open: No such file")
        says(c.run("import", FILES / "mlp-k3.json", "-o", c.dir, want=2), "is a folder")
        says(c.run("import", "-", "--base", "-", want=2), "standard input is one file")


def values_of_keras_go_to_a_job_and_come_back(which):
    with Cluster(psservers=2, workers=1) as c:
        keras(which, "make", c.dir)
        spec = c.dir / "job.yaml"
        more = [] if which == "keras" else [  # Keras 2 writes no compile_config
            "--set", "loss=sparse_categorical_crossentropy", "--set", "optimizer.type=adam",
            "--set", "optimizer.learning_rate=0.01"]
        c.run("import", c.dir / "model.json", "-o", spec, *data("data.npz"), *more,
              "--set", "train.epochs=5", "--set", "evaluate.every_epochs=5")
        job = c.run("submit", spec, "--no-wait", "--weights",
                    c.dir / "first.safetensors").stdout.strip()
        end = c.wait_state(job)
        check_counts(end)
        ours = end["evaluations"][-1]
        c.run("export", job, "--to", c.dir / "last.safetensors")
        _, loss, _, accuracy = keras(which, "last", c.dir)
        check(abs(float(loss) - ours["loss"]) < 1e-4, "loss", loss, ours)
        check(abs(float(accuracy) - ours["accuracy"]) < 1e-6, "accuracy", accuracy, ours)
        check(ours["accuracy"] > 0.8, ours)


def values_of_keras_3():
    values_of_keras_go_to_a_job_and_come_back("keras")


def values_of_keras_2():
    values_of_keras_go_to_a_job_and_come_back("tf_keras")


def a_live_model_is_submitted():
    for which in ("keras", "tf_keras"):
        with Cluster(psservers=2, workers=1) as c:
            check_equal(keras(which, c.address, c.dir, LIVE)[0], "loss", "what it prints")


def k2_moving_variance():
    with Cluster(psservers=1, workers=1) as c:
        keras("tf_keras", "make", c.dir, MOVES)
        spec = c.dir / "job.yaml"
        c.run("import", c.dir / "model.json", "-o", spec, *data("data.npz"),
              *(f"--set={s}" for s in (
                  "loss=sparse_categorical_crossentropy", "optimizer.type=sgd",
                  "optimizer.learning_rate=1e-30", "train.batch=8", "train.epochs=1")))
        job = c.run("submit", spec, "--no-wait", "--weights",
                    c.dir / "first.safetensors").stdout.strip()
        check_counts(c.wait_state(job))
        keras("tf_keras", f"{job}@{c.address}", c.dir, MOVES)


if __name__ == "__main__":
    TESTS = [what_keras_wrote_trains_under_the_names_that_keras_has,
             all_but_the_model_may_come_from_another_spec,
             what_is_missing_or_cannot_be_is_said]
    if there("keras"):
        TESTS += [values_of_keras_3, values_of_keras_2, k2_moving_variance,
                  a_live_model_is_submitted]
    main(TESTS)
