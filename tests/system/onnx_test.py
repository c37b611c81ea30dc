#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sluice.onnx: what ONNX Runtime computes of a model is what Keras computes of it, for
each net of tests/unit/client/keras; and of a job it is what the job says. Left out where
onnx is not: it is taken from the peers' environment (bench/setup)."""
import json
import re
import sys

import numpy
from safetensors.numpy import load_file

from cluster import BIN, ROOT, Cluster, check, check_counts, check_equal, main, mlp_job
from frameworks import run_warm, there

FILES = ROOT / "tests" / "unit" / "client" / "keras"

# Each net of the corpus, and one of layers that Keras does not have.
NETS = """
import json, pathlib, subprocess, sys
import numpy, onnx, onnxruntime
import sluice.onnx
from sluice import client
from sluice.onnx import LAYERS, to_onnx
from values import parameter, sample
files, path = pathlib.Path(sys.argv[1]), sys.argv[2] + "/m.onnx"

def run(spec, tensors, x):
    to_onnx(spec, tensors, path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return numpy.concatenate([y.reshape(-1) for y in session.run(None, {"input": x})])

def close(name, got, want):
    want = numpy.asarray(want, "f4")
    apart = (numpy.abs(got.reshape(-1) - want.reshape(-1)) /
             numpy.maximum(1, numpy.abs(want.reshape(-1)))).max()
    assert apart < 1e-5, (name, apart)

def refused(words, spec):
    try:
        to_onnx({"model": spec}, {}, path)
    except ValueError as error:
        assert words in str(error), error
    else:
        assert False, "it took " + words

seen = set()
for file in sorted(files.glob("*-k?.json")):
    want = json.loads(file.with_suffix(".want.json").read_text())
    layers = json.loads(file.read_text())["config"].get("output_layers", [])
    losses = [{"output": out[0], "loss": "mean_squared_error"}
              for out in layers if file.name.startswith("outputs")]
    words = ["--set", "losses=" + json.dumps(losses)] if losses else []
    spec = json.loads(client.run(["import", str(file), "-o", sys.argv[2] + "/job.json", *words])
                      or open(sys.argv[2] + "/job.json").read())
    if file.name.startswith(("masked", "sparse_steps")):
        refused("masks steps, which ONNX", spec["model"])
        seen.add("masking")
        continue
    for layer in spec["model"]["layers"]:
        seen.update({layer["type"], layer.get("activation", layer["type"])})
    tensors = {name: parameter(name, shape) for name, shape in want["variables"].items()}
    x = sample((2, *spec["model"]["input_shape"]), want["ids"])
    close(file.name, run(spec, tensors, x), want["outputs"])

layers = [{"type": "dense", "name": "k", "units": 5},
          {"type": "flatten", "inputs": ["input"]},
          {"type": "dense", "name": "v", "units": 5},
          {"type": "dot_interaction", "inputs": ["v", "k"]},
          {"type": "dot_interaction", "inputs": ["k"], "self_interaction": True},
          {"type": "fm", "inputs": ["v", "k"]},
          {"type": "concatenate", "name": "c",
           "inputs": ["dot_interaction", "dot_interaction_1", "fm", "v"]},
          {"type": "cross", "name": "p"},
          {"type": "cross", "name": "q", "inputs": ["c", "p"], "projection_dim": 3,
           "diag_scale": 0.5}]
seen.update(layer["type"] for layer in layers)
shapes = {"k/kernel": (5, 5), "k/bias": (5,), "v/kernel": (20, 5), "v/bias": (5,),
          "p/kernel": (26, 26), "p/bias": (26,), "q/u_kernel": (26, 3), "q/kernel": (3, 26),
          "q/bias": (26,)}
t = {name: parameter(name, shape) for name, shape in shapes.items()}
x = sample((2, 4, 5), 0)
k = x @ t["k/kernel"] + t["k/bias"]
v = x.reshape(2, 20) @ t["v/kernel"] + t["v/bias"]
rows = numpy.concatenate([v[:, None], k], 1)
pairs, own = rows @ rows.transpose(0, 2, 1), k @ k.transpose(0, 2, 1)
below = lambda of, n, and_self: numpy.stack(
    [of[:, i, j] for i in range(n) for j in range(i + and_self)], 1)
fm = 0.5 * (rows.sum(1) ** 2 - (rows ** 2).sum(1)).sum(1, keepdims=True)
c = numpy.concatenate([below(pairs, 5, 0), below(own, 4, 1), fm, v], 1)
p = c * (c @ t["p/kernel"] + t["p/bias"]) + c
q = c * (p @ t["q/u_kernel"] @ t["q/kernel"] + t["q/bias"] + 0.5 * p) + p
close("features", run({"model": {"input_shape": [4, 5], "layers": layers}}, t, x), q)

x = sample((2, 5), 0)
inner = numpy.tanh(numpy.sqrt(2 / numpy.pi) * (x + 0.044715 * x ** 3))
for word, want in (("hard_tanh", numpy.clip(x, -1, 1)), ("gelu_tanh", x * (1 + inner) / 2)):
    seen.add(word)
    close(word, run({"model": {"input_shape": [5], "layers": [{"type": word}]}}, {}, x), want)

# A number that is 0 is said.
x = sample((2, 3, 3, 1), 0)
for none in ({"type": "zero_padding2d", "pad": 0}, {"type": "cropping2d", "crop": 0}):
    close(none, run({"model": {"input_shape": [3, 3, 1], "layers": [none]}}, {}, x), x)

# Weights of any size: shapes are found without them, and over ONE_FILE bytes they lie
# in a file beside the model, which each export makes anew.
infer, sizes = onnx.shape_inference.infer_shapes, []
onnx.shape_inference.infer_shapes = lambda model: sizes.append(model.ByteSize()) or infer(model)
wide = {"model": {"input_shape": [2], "layers": [
    {"type": "dense", "name": "wide", "units": 4000}, {"type": "reshape", "target_shape": [5, 800]},
    {"type": "group_normalization", "groups": 4}, {"type": "flatten"},
    {"type": "dense", "name": "d", "units": 2}]}}
shapes = {"wide/kernel": (2, 4000), "wide/bias": (4000,), "d/kernel": (4000, 2), "d/bias": (2,)}
t = {name: parameter(name, shape) for name, shape in shapes.items()}
x, data = sample((2, 2), 0), pathlib.Path(str(path) + ".data")
want = run(wide, t, x)
assert sizes and max(sizes) < t["wide/bias"].nbytes, sizes
assert not data.exists()
sluice.onnx.ONE_FILE = t["wide/bias"].nbytes
for _ in range(2):
    close("weights beside the model", run(wide, t, x), want)
    assert data.stat().st_size == sum(v.nbytes for k, v in t.items() if k != "d/bias"), data.stat()
assert pathlib.Path(path).stat().st_size < sluice.onnx.ONE_FILE
sluice.onnx.ONE_FILE = data.stat().st_size * 2
close("all in one file again", run(wide, t, x), want)
assert not data.exists()  # nobody reads it any more

refused("a program's own", {"type": "external"})
refused("layer 'embedding' (embedding) has its rows in a sparse table",
        {"input_shape": [2], "layers": [{"type": "embedding", "rows": "dynamic"}]})
refused("layer 'd' (dense) has no variable d/kernel",
        {"input_shape": [2], "layers": [{"type": "dense", "name": "d", "units": 2}]})
print(json.dumps([sorted(LAYERS), sorted(seen)]))
"""

# A job's file against its own data.
JOB = """
import sys, numpy, onnxruntime
from sluice.onnx import main
job, address, folder = sys.argv[1:]
main([job, "--coordinator", address, "--to", folder + "/m.onnx"])
data = numpy.load(folder + "/data.npz")
y = onnxruntime.InferenceSession(folder + "/m.onnx").run(None, {"input": data["x"]})[0]
print((y.argmax(1) == data["y"]).mean())
"""

# The same as a folder for a hub: once with ONNX, and once without.
FOLDER = """
import sys, numpy, onnxruntime
from sluice import client, hub
job, address, folder = sys.argv[1:]
x = numpy.load(folder + "/data.npz")["x"]
hub.main([job, "--coordinator", address, "--to", folder + "/hub"])
y = [onnxruntime.InferenceSession(folder + name).run(None, {"input": x})[0]
     for name in ("/m.onnx", "/hub/model.onnx")]
assert (y[0] == y[1]).all()
want = client.export(job, address)
client.save_safetensors(folder + "/want.safetensors", want)
status = client.status(job, address)
status["spec"]["model"]["layers"].insert(0, {"type": "masking", "name": "m"})
print(hub.to_folder(status, want, folder + "/hub"))
status["spec"]["model"] = {"type": "external"}
try:
    hub.to_folder(status, want, folder + "/other")
except ValueError as error:
    print(error)
"""


def program(code, *words):
    return run_warm(("numpy",), {
        "PYTHONPATH": f"{ROOT / 'python'}:{FILES}", "SLUICE_BIN": str(BIN),
        "OMP_NUM_THREADS": "1"}, code, *words)


def each_layer_computes_what_keras_does():
    with Cluster(psservers=0, workers=0) as c:
        known, seen = json.loads(program(NETS, FILES, c.dir))
        rows = (ROOT / "proto" / "layers.def").read_text()
        types = re.findall(r'^(?:LAYER|ACTIVATION|LINE)\(\w+, "(\w+)"', rows, re.M)
        check_equal(known, sorted(types), "layers that sluice.onnx knows")
        check_equal(sorted({*types} - {*seen}), [], "layers that no net has")


def a_job_becomes_a_file():
    with Cluster(psservers=2, workers=1) as c:
        draw = numpy.random.default_rng(3)
        x = draw.normal(size=(640, 6)).astype("f4")
        numpy.savez(c.dir / "data.npz", x=x, y=(x[:, 0] > x[:, 1]).astype("i4"))
        spec = mlp_job("m", samples=640, epochs=2)
        source = {"format": "npz", "x": str(c.dir / "data.npz")}
        spec.update(data={"train": source, "test": source}, model={
            "input_shape": [6], "layers": [{"type": "dense", "units": 8, "activation": "relu"},
                                           {"type": "dense", "units": 2}]})
        job = c.submit(spec)
        end = c.wait_state(job)
        check_counts(end)
        told = float(program(JOB, job, c.address, c.dir))
        last = end["evaluations"][-1]
        check(abs(told - last["accuracy"]) < 1e-6, told, last)
        a_folder_for_a_hub(c, job, last)


def a_folder_for_a_hub(c, job, last):
    files = [str(c.dir / "hub" / name) for name in (
        "README.md", "config.json", "model.onnx", "model.safetensors")]
    said = program(FOLDER, job, c.address, c.dir).splitlines()
    check_equal(said[:4], files, "files that it names")
    values, want = (load_file(c.dir / name) for name in (
        "hub/model.safetensors", "want.safetensors"))
    check(all((values.pop(name) == t).all() for name, t in want.items()) and not values, values)
    check("masks steps, which ONNX" in said[4], said)
    check("a program's own model" in said[5], said)
    check(not (c.dir / "hub" / "model.onnx").exists(), "an older model.onnx is left")
    check(not (c.dir / "other").exists(), "a folder is left")
    head, card = (c.dir / "hub" / "README.md").read_text().split("---\n")[1:3]
    front = {key: json.loads(value) for key, value in (
        line.split(": ", 1) for line in head.splitlines())}
    check_equal(front["tags"], ["sluice"], "tags without ONNX")
    of = front["model-index"][0]["results"][0]
    check_equal({m["type"]: m["value"] for m in of["metrics"]},
                {key: last[key] for key in ("loss", "accuracy")}, "figures of the card")
    check("onnxruntime" not in card and "`dense`: dense" in card and "(6)" in card, card)
    config = json.loads((c.dir / "hub" / "config.json").read_text())
    check_equal(config["model"]["input_shape"], [6], "config.json")


if __name__ == "__main__":
    if not there("onnxruntime"):
        sys.exit(77)
    main([each_layer_computes_what_keras_does, a_job_becomes_a_file])
