#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Layers are those of Keras: with its values they give its outputs, and jobs
train to where its `fit` does. Left out where Keras is not: it is taken from the
peers' environment (bench/setup)."""
import json
import os
import pathlib
import re
import subprocess
import sys

from cluster import Cluster, check, check_counts, main, mlp_job
from frameworks import PYTHON, there

# Writes each model's values and, of 64 drawn samples, its outputs.
KERAS = """
import json, pathlib, re, struct, sys
import keras, numpy as np
from keras import layers as L, regularizers as R
folder, draw = pathlib.Path(sys.argv[1]), np.random.default_rng(1)

def save(path, model):
    head, blob = {}, b""
    for v in model.variables:
        if "seed" not in v.path:
            data = np.asarray(v, np.float32).tobytes()
            name = re.sub("^sequential[^/]*/", "", v.path)
            head[name.replace("_u/kernel", "/u_kernel")] = {
                "dtype": "F32", "shape": list(v.shape),
                "data_offsets": [len(blob), len(blob) + len(data)]}
            blob += data
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + blob)

def case(name, model, ids=0, values=True):
    shape = (64,) + model.input_shape[1:]
    for v in model.variables if values else []:
        if "seed" not in v.path:
            v.assign(draw.normal(0.1, 0.3, v.shape))
    x = draw.integers(0, ids, shape) if ids else draw.normal(0, 1, shape)
    y = np.asarray(model(x.astype(np.float32))).reshape(64, -1)
    np.savez(folder / f"{name}.npz", x=x.astype(np.float32), y=y.astype(np.float32))
    save(folder / f"{name}.safetensors", model)

def seq(*layers):
    return keras.Sequential([*layers, L.Flatten(), L.Dense(3, name="last")])

case("views", seq(L.Input((5, 6, 2)), L.ZeroPadding2D(((1, 2), (3, 4))),
                  L.Rescaling(0.5, -0.2), L.Permute((3, 1, 2)), L.Reshape((13, -1))))
case("depthwise", seq(
    L.Input((9, 8, 3)), L.DepthwiseConv2D((3, 2), strides=2, padding="same",
        depth_multiplier=2, activation="relu6", name="a"),
    L.DepthwiseConv2D(2, dilation_rate=(2, 1), name="b"),
    L.GlobalMaxPooling2D(keepdims=True)))
case("separable", seq(
    L.Input((9, 8, 3)), L.SeparableConv2D(5, 3, padding="same", name="a",
        depth_multiplier=2, activation="silu"),
    L.SeparableConv2D(4, (2, 3), strides=2, use_bias=False, name="b"),
    L.Conv2D(6, 2, groups=2, name="c"),
    L.Conv2D(4, 2, dilation_rate=2, padding="same", name="d")))
case("embedding", seq(L.Input((6,)), L.Embedding(9, 5, name="e")), ids=9)
for act in sys.argv[2].split():
    case(act, seq(L.Input((4, 5)), L.Dense(6, activation=act, name="d")))
case("gelu_tanh", seq(L.Input((4, 5)), L.Dense(6, name="d", activation=
     lambda x: keras.activations.gelu(x, approximate=True))))
x = L.Input((5, 4, 3))
g = L.GlobalAveragePooling2D(keepdims=True)(x)
s = L.Multiply()([x, L.Conv2D(3, 1, activation="sigmoid", name="s")(g)])
s = L.Average()([L.Subtract()([L.Add()([g, s]), g]), L.Maximum()([g, x])])
case("rows", keras.Model(x, L.Dense(3, name="last")(L.Flatten()(s))))
x = L.Input((4, 5))
n = L.LayerNormalization(name="n", epsilon=0.01)(x)
a = L.MultiHeadAttention(2, 3, value_dim=4, name="a")(n, n, use_causal_mask=True)
b = L.MultiHeadAttention(3, 2, use_bias=False, name="b")(a, x, n)
m = L.Maximum()([a, b, x])
s = L.Subtract()([L.Minimum()([m, n]), b])
v = L.Average()([L.Multiply()([s, a, n]), m])
case("attention", keras.Model(x, L.Dense(3, name="last")(L.Flatten()(v))))
# dot_interaction, fm and cross of a recommendation model, out of Keras' ops.
x = L.Input((4, 5))
v = L.Dense(5, name="v")(L.Flatten()(x))
rows = L.Concatenate(axis=1)([L.Reshape((1, 5))(v), L.Dense(5, name="k")(x)])
pairs = L.Reshape((25,))(L.Dot(axes=2)([rows, rows]))
pairs = keras.ops.take(pairs, [5 * i + j for i in range(5) for j in range(i)], axis=1)
apart = keras.ops.square(keras.ops.sum(rows, 1)) - keras.ops.sum(keras.ops.square(rows), 1)
c = L.Concatenate()([pairs, 0.5 * keras.ops.sum(apart, -1, keepdims=True), v])
p = c * L.Dense(16, name="p")(c) + c
q = L.Dense(16, name="q")(L.Dense(3, use_bias=False, name="q_u")(p))
case("features", keras.Model(x, L.Dense(3, name="last")(c * (q + 0.5 * p) + p)))

# One pass of fit, in order: penalties, smoothed labels, ties and all.
keras.utils.set_random_seed(3)
x = L.Input((6, 6, 2))
c = L.Conv2D(4, 3, kernel_regularizer=R.L1L2(0.002, 0.01), activation="relu",
             bias_regularizer=R.L2(0.1), name="c")(x)
d = L.DepthwiseConv2D(2, depthwise_regularizer=R.L1(0.003), name="d")(c)
r = L.LayerNormalization(name="n")(L.Reshape((9, 4))(d))
a = L.MultiHeadAttention(2, 3, kernel_regularizer=R.L2(0.02), name="a")(r, r)
m = L.Maximum()([a, r])
model = keras.Model(x, L.Dense(5, name="o", kernel_regularizer=R.L2(0.05))(L.Flatten()(m)))
case("fit", model, values=False)
data = np.load(folder / "fit.npz")
labels = draw.integers(0, 5, 64)
np.savez(folder / "fit.npz", x=data["x"], y=labels.astype(np.int32))
model.compile(keras.optimizers.SGD(0.05), keras.losses.CategoricalCrossentropy(
    from_logits=True, label_smoothing=0.1))
one_hot = np.eye(5, dtype=np.float32)[labels]
model.fit(data["x"], one_hot, batch_size=8, epochs=5, shuffle=False, verbose=0)
save(folder / "fit-fitted.safetensors", model)
# Later layers, with numbers drawn behind those of the others.
case("line", seq(
    L.Input((14, 3)), L.Conv1D(4, 3, padding="causal", dilation_rate=2, name="a"),
    L.ZeroPadding1D((1, 2)), L.MaxPooling1D(3, strides=2),
    L.DepthwiseConv1D(2, depth_multiplier=2, padding="same", name="b"),
    L.AveragePooling1D(2, padding="same"), L.SeparableConv1D(5, 2, name="c"),
    L.Conv1D(6, 2, groups=1, strides=2, name="d"), L.GlobalAveragePooling1D(keepdims=True)))
said = {"fit": [model.evaluate(data["x"], one_hot, verbose=0), None]}

# A label for each step, and one for each pixel.
def per_row(name, model, classes, **args):
    case(name, model, values=False, **args)
    x = np.load(folder / f"{name}.npz")["x"]
    y = draw.integers(0, classes, (64,) + model.output_shape[1:-1])
    np.savez(folder / f"{name}.npz", x=x, y=y)
    model.compile(keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(
        from_logits=name == "tagger"), metrics=["accuracy"])
    model.fit(x, y, batch_size=8, epochs=5, shuffle=False, verbose=0)
    save(folder / f"{name}-fitted.safetensors", model)
    said[name] = model.evaluate(x, y, verbose=0)

x = L.Input((6,))
e = L.Embedding(9, 8, name="e")(x)
a = L.MultiHeadAttention(2, 4, name="a")(e, e, use_causal_mask=True)
n = L.LayerNormalization(name="n")(L.Add()([e, a]))
per_row("tagger", keras.Model(x, L.Dense(9, name="o")(n)), 9, ids=9)
x = L.Input((4, 6, 2))
d = L.Conv2D(4, 3, padding="same", activation="relu", name="d")(x)
b = L.Conv2D(6, 3, padding="same", activation="relu", name="b")(L.MaxPooling2D()(d))
u = L.Conv2DTranspose(4, 2, strides=2, name="u")(b)
per_row("unet", keras.Model(x, L.Conv2D(3, 1, activation="softmax", name="o")(
    L.Concatenate()([u, d]))), 3)

# What classes weigh, what samples do, and what each step does.
def weighted(name, model, y, loss, **weights):
    case(name, model, values=False)
    x = np.load(folder / f"{name}.npz")["x"]
    mine = weights.get("sample_weight")
    np.savez(folder / f"{name}.npz", x=x, y=y, **({} if mine is None else {"w": mine}))
    model.compile(keras.optimizers.SGD(0.1), loss)
    model.fit(x, y, batch_size=8, epochs=5, shuffle=False, verbose=0, **weights)
    save(folder / f"{name}-fitted.safetensors", model)
    p = model.predict(x, verbose=0)
    if loss == "mean_squared_error":  # no metric looks at weights
        metrics = {"mean_absolute_error": float(abs(p - y).mean())}
    elif mine is None:
        metrics = {}
    else:
        told = keras.ops.softmax(p).numpy() > 0.5
        metrics = {"precision": float(told[y[..., None] == np.arange(p.shape[-1])].sum()
                                      / told.sum())}
    said[name] = [model.evaluate(x, y, sample_weight=mine, verbose=0), metrics]

heavy = draw.uniform(0, 3, 64).astype(np.float32)
each = draw.uniform(0, 3, (64, 5)).astype(np.float32)
classes = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
def one(shape, *args, **keys):
    return keras.Sequential([L.Input(shape), L.Dense(*args, name="o", **keys)])
weighted("by_class", one((6,), 4), draw.integers(0, 4, 64), classes,
         class_weight={0: 1, 1: 0.25, 2: 3, 3: 0})
weighted("by_answer", one((6,), 1, activation="sigmoid"), draw.integers(0, 2, 64),
         "binary_crossentropy", class_weight={0: 1, 1: 5})
weighted("by_sample", one((6,), 3), draw.normal(size=(64, 3)).astype(np.float32),
         "mean_squared_error", sample_weight=heavy)
weighted("by_step", one((5, 6), 4), draw.integers(0, 4, (64, 5)), classes,
         sample_weight=each)
print(json.dumps(said))
"""

ROWS = (pathlib.Path(__file__).resolve().parents[2] / "proto/layers.def").read_text()
ACTIVATIONS = " ".join(sorted(set(re.findall(r'^ACTIVATION\(\w+, "(\w+)"', ROWS, re.M)) -
                              {"gelu_tanh", "relu"}))  # these stand in other cases


def layer(kind, **keys):
    return {"type": kind, **keys}


def models():
    dense = [layer("dense", units=6, name="d")]
    all_of = {
        "views": [(5, 6, 2), layer("zero_padding2d", pad=[1, 2, 3, 4]),
                  layer("rescaling", factor=0.5, offset=-0.2),
                  layer("permute", dims=[3, 1, 2]),
                  layer("reshape", target_shape=[13, -1])],
        "depthwise": [(9, 8, 3),
                      layer("depthwise_conv2d", name="a", kernel_size=[3, 2],
                            strides=2, padding="same", depth_multiplier=2,
                            activation="relu6"),
                      layer("depthwise_conv2d", name="b", kernel_size=2,
                            dilation_rate=[2, 1]),
                      layer("global_max_pooling2d", keepdims=True)],
        "separable": [(9, 8, 3),
                      layer("separable_conv2d", name="a", filters=5, kernel_size=3,
                            padding="same", depth_multiplier=2, activation="silu"),
                      layer("separable_conv2d", name="b", filters=4, strides=2,
                            kernel_size=[2, 3], use_bias=False),
                      layer("conv2d", name="c", filters=6, kernel_size=2, groups=2),
                      layer("conv2d", name="d", filters=4, kernel_size=2,
                            dilation_rate=2, padding="same")],
        "rows": [(5, 4, 3),
                 layer("global_average_pooling2d", name="g", keepdims=True),
                 layer("conv2d", name="s", filters=3, kernel_size=1,
                       activation="sigmoid"),
                 layer("multiply", name="p", inputs=["input", "s"]),
                 layer("add", name="a", inputs=["g", "p"]),
                 layer("subtract", name="b", inputs=["a", "g"]),
                 layer("maximum", name="m", inputs=["g", "input"]),
                 layer("average", inputs=["b", "m"])],
        "line": [(14, 3),
                 layer("conv1d", name="a", filters=4, kernel_size=3, padding="causal",
                       dilation_rate=2),
                 layer("zero_padding1d", pad=[1, 2]),
                 layer("max_pooling1d", pool_size=3, strides=2),
                 layer("depthwise_conv1d", name="b", kernel_size=2, padding="same",
                       depth_multiplier=2),
                 layer("average_pooling1d", padding="same"),
                 layer("separable_conv1d", name="c", filters=5, kernel_size=2),
                 layer("conv1d", name="d", filters=6, kernel_size=2, strides=2),
                 layer("global_average_pooling1d", keepdims=True)],
        "embedding": [(6,), layer("embedding", name="e", input_dim=9, output_dim=5)],
        "features": [(4, 5), layer("dense", name="k", units=5),
                     layer("flatten", name="f", inputs=["input"]),
                     layer("dense", name="v", units=5),
                     layer("dot_interaction", name="d", inputs=["v", "k"]),
                     layer("fm", name="m", inputs=["v", "k"]),
                     layer("concatenate", name="c", inputs=["d", "m", "v"]),
                     layer("cross", name="p"),
                     layer("cross", name="q", inputs=["c", "p"], projection_dim=3,
                           diag_scale=0.5)],
        "attention": [(4, 5), layer("layer_normalization", name="n", epsilon=0.01),
                      layer("multi_head_attention", name="a", num_heads=2, key_dim=3,
                            value_dim=4, use_causal_mask=True),
                      layer("multi_head_attention", name="b", num_heads=3, key_dim=2,
                            use_bias=False, inputs=["a", "input", "n"]),
                      layer("maximum", name="m", inputs=["a", "b", "input"]),
                      layer("minimum", name="i", inputs=["m", "n"]),
                      layer("subtract", name="s", inputs=["i", "b"]),
                      layer("multiply", name="u", inputs=["s", "a", "n"]),
                      layer("average", name="v", inputs=["u", "m"])]}
    for act in ACTIVATIONS.split() + ["gelu_tanh"]:
        all_of[act] = [(4, 5), *dense, layer("activation", activation=act)]
    end = [layer("flatten"), layer("dense", units=3, name="last")]
    return {name: {"input_shape": list(shape), "layers": layers + end}
            for name, (shape, *layers) in all_of.items()}


FIT = {"input_shape": [6, 6, 2], "layers": [
    layer("conv2d", name="c", filters=4, kernel_size=3, activation="relu",
          kernel_regularizer={"l1": 0.002, "l2": 0.01},
          bias_regularizer={"l2": 0.1}),
    layer("depthwise_conv2d", name="d", kernel_size=2,
          depthwise_regularizer={"l1": 0.003}),
    layer("reshape", target_shape=[9, 4]),
    layer("layer_normalization", name="n"),
    layer("multi_head_attention", name="a", num_heads=2, key_dim=3,
          kernel_regularizer={"l2": 0.02}),
    layer("maximum", name="m", inputs=["a", "n"]),
    layer("flatten"),
    layer("dense", name="o", units=5, kernel_regularizer={"l2": 0.05})]}


# A prediction for each step of a sequence, and for each pixel of an image.
PER_ROW = {
    "tagger": {"input_shape": [6], "layers": [
        layer("embedding", name="e", input_dim=9, output_dim=8),
        layer("multi_head_attention", name="a", num_heads=2, key_dim=4,
              use_causal_mask=True),
        layer("add", name="s", inputs=["e", "a"]),
        layer("layer_normalization", name="n"),
        layer("dense", name="o", units=9)]},
    "unet": {"input_shape": [4, 6, 2], "layers": [
        layer("conv2d", name="d", filters=4, kernel_size=3, padding="same",
              activation="relu"),
        layer("max_pooling2d"),
        layer("conv2d", name="b", filters=6, kernel_size=3, padding="same",
              activation="relu"),
        layer("conv2d_transpose", name="u", filters=4, kernel_size=2, strides=2),
        layer("concatenate", name="c", inputs=["u", "d"]),
        layer("conv2d", name="o", filters=3, kernel_size=1, activation="softmax")]}}


# Name of a fit, its model, loss, and what of the job says the weights.
WEIGHTED = {
    "by_class": ({"input_shape": [6], "layers": [layer("dense", name="o", units=4)]},
                 "sparse_categorical_crossentropy", {"class_weight": [1, 0.25, 3, 0]}),
    "by_answer": ({"input_shape": [6],
                   "layers": [layer("dense", name="o", units=1, activation="sigmoid")]},
                  "binary_crossentropy", {"class_weight": [1, 5]}),
    "by_sample": ({"input_shape": [6], "layers": [layer("dense", name="o", units=3)]},
                  "mean_squared_error", {"sample_weight": "w"}),
    "by_step": ({"input_shape": [5, 6], "layers": [layer("dense", name="o", units=4)]},
                "sparse_categorical_crossentropy", {"sample_weight": "w"})}


def of_keras(c):
    """Has it write all cases. Returns the loss and the accuracy of each fit, by name."""
    done = subprocess.run(
        [PYTHON, "-c", KERAS, str(c.dir), ACTIVATIONS],
        check=False, text=True, capture_output=True,
        env={**os.environ, "KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": "",
             "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"})
    check(done.returncode == 0, "Keras failed", done.stdout, done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def job_of(c, name, model, loss, rate, **more):
    spec = mlp_job(name.replace("_", "-"), samples=64, epochs=5, batch=8, shuffle=False)
    source = {"format": "npz", "x": str(c.dir / f"{name}.npz")}
    spec.update(model=model, loss=loss, data={"train": source, "test": source},
                optimizer={"type": "sgd", "learning_rate": rate}, **more)
    return spec


def with_keras_values_layers_give_its_outputs(c):
    for name, model in models().items():
        # So small a rate that no value moves.
        spec = job_of(c, name, model, "mean_squared_error", 1e-30)
        spec["train"]["epochs"] = 1
        done = c.wait_state(c.submit(spec, "--weights", c.dir / f"{name}.safetensors"))
        apart = done["evaluations"][-1]["loss"] ** 0.5
        check(apart < 1e-5, f"{name}: outputs are {apart} apart (root of mean square)")


def a_job_trains_to_where_fit_does(c, name, model, loss, accuracy, rate, kind=None,
                                   weights=None, metrics=None, **more):
    import numpy as np
    from safetensors.numpy import load_file
    spec = job_of(c, name, model, kind or "sparse_categorical_crossentropy", rate, **more)
    if metrics:
        spec["evaluate"] = {**spec.get("evaluate", {}), "metrics": list(metrics)}
    for key, value in (weights or {}).items():
        (spec["train"] if key == "class_weight" else spec["data"]["train"])[key] = value
    job = c.submit(spec, "--weights", c.dir / f"{name}.safetensors")
    done = c.wait_state(job)
    check_counts(done)
    last = done["evaluations"][-1]
    check(abs(last["loss"] - loss) < 1e-5 * loss, f"{name}: {last}, Keras: {loss}")
    # Of several predictions a sample has a part right; the parts are added up for each
    # closure, and rounded to samples.
    check(accuracy is None or abs(last["accuracy"] - accuracy) < 1 / 64,
          f"{name}: {last}, Keras: {accuracy}")
    told = {m["name"]: m["value"] for m in last.get("metrics", [])}
    for metric, value in (metrics or {}).items():
        check(abs(told[metric] - value) < 1e-5, f"{name}: {metric} {told}, Keras: {value}")
    c.run("export", job, "--to", c.dir / "ours.safetensors")
    ours, theirs = (load_file(str(c.dir / f"{n}.safetensors"))
                    for n in ("ours", f"{name}-fitted"))
    check(set(ours) == set(theirs), f"variables: {json.dumps([*ours, *theirs])}")
    for variable, value in theirs.items():
        apart = np.abs(ours[variable] - value).max()
        check(apart < 1e-5, f"{name}: {variable} is {apart} apart")


def layers_losses_and_penalties_are_those_of_keras():
    with Cluster(psservers=2, workers=1) as c:
        said = of_keras(c)
        with_keras_values_layers_give_its_outputs(c)
        a_job_trains_to_where_fit_does(c, "fit", FIT, *said["fit"], 0.05,
                                       label_smoothing=0.1)
        for name, model in PER_ROW.items():
            a_job_trains_to_where_fit_does(c, name, model, *said[name], 0.1)
        for name, (model, kind, weights) in WEIGHTED.items():
            loss, metrics = said[name]
            a_job_trains_to_where_fit_does(c, name, model, loss, None, 0.1, kind=kind,
                                           weights=weights, metrics=metrics)


if __name__ == "__main__":
    if not there("keras"):
        sys.exit(77)
    main([layers_losses_and_penalties_are_those_of_keras])
