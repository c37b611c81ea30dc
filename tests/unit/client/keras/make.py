#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the corpus beside it: what `to_json()` of real models gives, and what is
expected of each.

    build-bench/peers-venv/bin/python tests/unit/client/keras/make.py [NAME...]

NAME-k2.json, NAME-k3.json   as Keras 2 (tf_keras) and Keras 3 wrote them
NAME-k?.want.json            variables, parameters, and outputs in inference of the
                             values that `value` gives, which tests compute too
refused/*.json               models that cannot be imported
"""
import importlib
import json
import math
import os
import pathlib
import sys

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="",
                  KERAS_BACKEND="tensorflow")

import numpy  # noqa: E402
import keras as keras3  # noqa: E402
import tf_keras as keras2  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[3] / "python"))
from sluice.keras_weights import variable_names  # noqa: E402
from values import parameter, sample  # noqa: E402

ROWS = 2  # samples of a batch


# ---- the models: each a function of Keras, 2 or 3

def mlp(k):
    m = k.Sequential([k.Input((6,)), k.layers.Dense(5, activation="relu"),
                      k.layers.Dropout(0.25), k.layers.Dense(3)], name="mlp")
    m.compile("adam", k.losses.SparseCategoricalCrossentropy(from_logits=True),
              metrics=["accuracy"])
    return m


def mlp_built(k):
    m = k.Sequential([k.layers.Dense(4, "tanh", use_bias=False), k.layers.Dense(2, "softmax")])
    m.build((None, 3))
    m.compile(k.optimizers.SGD(0.1, momentum=0.9, nesterov=True), "categorical_crossentropy")
    return m


def initializers(k):
    i = k.initializers
    m = k.Sequential([k.Input((4,)),
                      k.layers.Dense(3, kernel_initializer="he_normal", bias_initializer="ones"),
                      k.layers.Dense(3, kernel_initializer=i.LecunUniform(seed=3)),
                      k.layers.Dense(3, kernel_initializer=i.VarianceScaling(
                          2.0, "fan_in", "uniform")),
                      k.layers.Dense(3, kernel_initializer=i.RandomNormal()),
                      k.layers.Dense(3, kernel_initializer="glorot_normal")])
    m.compile(k.optimizers.RMSprop(1e-3, rho=0.8, momentum=0.1, centered=True), "mse")
    return m


def lenet(k):
    l = k.layers
    m = k.Sequential([k.Input((10, 9, 2)), l.Conv2D(4, 3, activation="relu"), l.MaxPooling2D(),
                      l.Conv2D(3, (2, 3), strides=2, padding="same", use_bias=False),
                      l.BatchNormalization(), l.Activation("relu"), l.Flatten(),
                      l.Dense(4, activation="sigmoid")], name="LeNet_like")
    m.compile(k.optimizers.Adagrad(0.02), k.losses.BinaryCrossentropy())
    return m


def pools(k):
    l = k.layers
    return k.Sequential([k.Input((9, 8, 3)), l.AveragePooling2D((3, 2), strides=(2, 1)),
                         l.MaxPooling2D(2, padding="same"), l.Conv2D(3, 1),
                         l.GlobalAveragePooling2D()])


def norms(k):
    l = k.layers
    return k.Sequential([k.Input((5,)), l.Dense(4),
                         l.BatchNormalization(momentum=0.9, epsilon=1e-5, scale=False),
                         l.Dense(4), l.BatchNormalization(center=False)])


def resnet(k):
    l = k.layers
    x = k.Input((6, 6, 3), name="image")
    y = l.Conv2D(4, 3, padding="same", name="stem")(x)
    z = l.BatchNormalization(name="a.norm")(y)
    z = l.ReLU(name="a.relu")(z)
    z = l.Conv2D(4, 3, padding="same", name="a.conv")(z)
    y = l.Add(name="a.add")([y, z])
    z = l.Conv2D(2, 1, strides=2, name="b.short")(y)
    w = l.Conv2D(2, 3, strides=2, padding="same", name="b.conv")(y)
    y = l.Concatenate(name="join")([z, w, z])
    y = l.GlobalAveragePooling2D(name="pool")(y)
    m = k.Model(x, l.Dense(3, name="logits")(y), name="resnet")
    m.compile(k.optimizers.SGD(k.optimizers.schedules.CosineDecay(0.1, 1000, alpha=0.01),
                               momentum=0.9, clipnorm=1.0),
              k.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return m


def activations(k):
    l = k.layers
    x = y = k.Input((5,), name="input")
    for name in ("elu", "gelu", "softplus", "tanh", "sigmoid", "linear", "relu"):
        y = l.Dense(5, activation=name, name=f"as_{name}")(y)
        y = l.Activation(name, name=f"layer_{name}")(y)
    slope = {"alpha": 0.15} if k is keras2 else {"negative_slope": 0.15}
    y = l.LeakyReLU(**slope)(l.Dense(5)(y))
    y = l.LeakyReLU()(l.Dense(5)(y))
    y = l.ReLU(negative_slope=0.25)(l.Dense(5)(y))
    y = l.ELU(alpha=0.7)(l.Dense(5)(y))
    return k.Model(x, l.Softmax()(l.Dense(5)(y)))


def nested(k):
    l = k.layers
    inner = k.Sequential([k.Input((7, 7, 2)), l.Conv2D(3, 3, name="conv"), l.ReLU()], name="inner")
    z = k.Input((5, 5, 3))
    block = k.Model(z, l.Add()([z, l.Conv2D(3, 3, padding="same", name="conv")(z)]), name="block")
    x = k.Input((7, 7, 2))
    y = l.GlobalAveragePooling2D()(block(inner(x)))
    return k.Model(x, l.Dense(2, name="logits")(y))


def nested_sequential(k):
    l = k.layers
    head = k.Sequential([k.Input((4,)), l.Dense(3, activation="relu"), l.Dense(2)], name="head")
    m = k.Sequential([k.Input((2, 2, 2)), l.Flatten(), l.Dense(4), head])
    m.compile(k.optimizers.Adam(k.optimizers.schedules.ExponentialDecay(1e-3, 100, 0.9, True),
                                clipvalue=0.5), "mean_squared_error")
    return m


def names(k):
    """Names that a job's layers cannot have."""
    l = k.layers
    x = k.Input((3,), name="x")
    y = l.Dense(3, name="the>first")(x)
    return k.Model(x, l.Dense(2, name="input")(y), name="A.model_2")


def branches(k):
    l = k.layers
    x = k.Input((7, 6, 3))
    a = l.Conv2D(2, 1, activation="relu", name="one")(x)
    b = l.Conv2D(3, (1, 3), padding="same", name="wide")(a)
    b = l.Conv2D(3, (3, 1), padding="same", activation="elu", name="high")(b)
    c = l.AveragePooling2D(3, strides=1, padding="same")(x)
    d = l.MaxPooling2D(3, strides=1, padding="same")(l.Conv2D(2, 1, name="d")(x))
    y = l.Concatenate(axis=3)([a, b, c, d, x])
    y = l.GlobalAveragePooling2D()(l.BatchNormalization(axis=3)(y))
    return k.Model(x, l.Dense(3, "softmax")(l.Dropout(0.5, seed=7)(y)))


def first_layer(k):
    """The first layer says the shape, as old programs have it."""
    return k.Sequential([k.layers.Conv2D(3, 2, input_shape=(4, 5, 2), data_format="channels_last"),
                         k.layers.Flatten(), k.layers.Dense(2, activation=k.activations.gelu)])


def sums(k):
    x = k.Input((4,))
    a = k.layers.Dense(4, name="a")(x)
    y = a + x if k is keras3 else k.layers.add([a, x])  # + of Keras 2 is a lambda
    z = k.layers.concatenate([y, a])
    return k.Model(x, k.layers.Dense(2)(z))


def deep(k):
    """Models in models in models, whose layers have one name."""
    def block(inside, name):
        x = k.Input((4,))
        y = k.layers.Dense(4, "tanh", name="dense")(x)
        return k.Model(x, k.layers.Add(name="add")([x, inside(y) if inside else y]), name=name)

    inner = k.Sequential([k.Input((4,)), block(None, "c"), k.layers.Dense(4, name="dense")], name="b")
    return k.Sequential([k.Input((4,)), block(inner, "a"), k.layers.Dense(2, name="dense")])


def mixed(k):
    l = k.layers
    m = k.Sequential([k.Input((4,)), l.Dense(3, activation="relu", dtype="mixed_float16"),
                      l.Dense(2, dtype="float32")])
    m.compile(k.optimizers.AdamW(1e-3, weight_decay=0.01, global_clipnorm=1.0) if k is keras3
              else "adam", "mse")
    return m


def padding(k):
    l = k.layers
    return k.Sequential([k.Input((5, 4, 2)), l.Rescaling(1 / 127.5, offset=-1),
                         l.ZeroPadding2D(), l.ZeroPadding2D(((1, 0), (0, 2))),
                         l.ZeroPadding2D((2, 1)), l.Conv2D(2, 3), l.GlobalMaxPooling2D(),
                         l.Dense(2)])


def channels(k):
    """As EfficientNet with the numbers of ImageNet."""
    l = k.layers
    return k.Sequential([k.Input((5, 4, 3)), l.Rescaling([0.5, 2.0, 1.25]),
                         l.Rescaling((2.0, 1.0, 3.0), offset=(-1.0, 0.0, 0.25)),
                         l.Rescaling([4.0, 0.5, 1.0], offset=0.5), l.Conv2D(2, 3),
                         l.GlobalMaxPooling2D(), l.Dense(2)])


def shapes(k):
    l = k.layers
    return k.Sequential([k.Input((4, 6)), l.Dense(8), l.Permute((2, 1)), l.Reshape((4, -1, 2)),
                         l.Conv2D(3, 2), l.GlobalAveragePooling2D(keepdims=True), l.Flatten(),
                         l.Dense(2)])


def joins(k):
    l = k.layers
    x = k.Input((4,))
    a, b = l.Dense(3, name="a")(x), l.Dense(3, name="b")(x)
    y = l.Multiply()([a, b])
    y = l.Average()([y, a, b])
    y = l.Subtract()([y, b])
    return k.Model(x, l.Dense(2)(y))


def extremes(k):
    l = k.layers
    x = k.Input((4,))
    a, b = l.Dense(3, name="a")(x), l.Dense(3, name="b")(x)
    return k.Model(x, l.Dense(2)(l.Minimum()([l.Maximum()([a, b]), a])))


def mobile(k):
    l = k.layers
    relu6 = l.ReLU(6.0) if k is keras2 else l.ReLU(max_value=6)
    return k.Sequential([k.Input((8, 8, 3)), l.Conv2D(4, 3, strides=2, padding="same"),
                         l.BatchNormalization(), relu6, l.DepthwiseConv2D(3, padding="same"),
                         l.DepthwiseConv2D(2, depth_multiplier=2, use_bias=False),
                         l.SeparableConv2D(3, 2, activation="relu"), l.GlobalAveragePooling2D(),
                         l.Dense(2)])


def dilated(k):
    l = k.layers
    return k.Sequential([k.Input((9, 9, 4)), l.Conv2D(4, 3, dilation_rate=2),
                         l.Conv2D(4, 3, groups=2, padding="same"), l.GlobalAveragePooling2D()])


def activated(k, words):
    m = k.Sequential([k.Input((4,))])
    for word in words:
        m.add(k.layers.Dense(4, activation=word))
        m.add(k.layers.Activation(word))
    return m


def more_activations(k):
    return activated(k, ["swish", "selu"] + (["silu", "relu6"] if k is keras3 else []))


def rare_activations(k):
    return activated(k, ["softsign", "exponential", "mish"] +
                     (["hard_sigmoid", "hard_silu"] if k is keras3 else []))


def transformer(k):
    l = k.layers
    x = k.Input((6, 8))
    y = l.LayerNormalization(epsilon=1e-5, name="norm")(x)
    y = l.MultiHeadAttention(2, 4, name="attention")(y, y)
    x2 = l.Add()([x, y])
    y = l.Dense(8, name="up", activation="gelu")(l.LayerNormalization(name="norm2")(x2))
    y = l.Add()([x2, l.Dense(8, name="down")(y)])
    y = l.MultiHeadAttention(1, 3, value_dim=5, use_bias=False, name="causal")(
        y, x2, use_causal_mask=True)
    return k.Model(x, l.Dense(2)(l.Flatten()(y)))


def embedding(k):
    l = k.layers
    return k.Sequential([k.Input((5,)), l.Embedding(11, 4), l.Flatten(), l.Dense(3)])


def regularized(k):
    l, r = k.layers, k.regularizers
    m = k.Sequential([k.Input((5, 5, 1)), l.Conv2D(2, 3, kernel_regularizer=r.L2(0.01)),
                      l.Flatten(), l.Dense(3, kernel_regularizer="l1", bias_regularizer=r.L1L2(0.1, 0.2))])
    m.compile("adam", k.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1))
    return m


def numbers(k):
    x = k.Input((4,))
    y = 1.0 - 0.5 * (k.layers.Dense(3)(x) + 3.0) / 4.0
    y = k.layers.ReLU()(-y) - 0.25 + y * 2 if k is keras3 else k.layers.ReLU()(-y)
    return k.Model(x, k.layers.Dense(2)(y))


def frozen(k):
    """What transfer learning is: a base that stays, and a head that is trained."""
    l = k.layers
    base = k.Sequential([k.Input((6, 6, 2)), l.Conv2D(4, 3, activation="relu", name="c"),
                         l.BatchNormalization(name="n"), l.Dropout(0.5)], name="base")
    base.trainable = False
    m = k.Sequential([k.Input((6, 6, 2)), base, l.GlobalAveragePooling2D(),
                      l.Dense(4, activation="tanh", name="kept"), l.Dense(2, name="head")])
    m.get_layer("kept").trainable = False
    return m


def composed(k):
    l = k.layers
    x = k.Input((7, 6, 3))
    y = l.Normalization(mean=[0.5, -1.0, 0.25], variance=[2.0, 0.5, 1.0])(x)
    y = l.Conv2DTranspose(4, 3, strides=2, activation="relu", name="up")(y)
    y = l.GroupNormalization(2, name="groups")(l.Cropping2D(((1, 2), (0, 3)))(y))
    y = l.PReLU(shared_axes=[1, 2], name="slope")(y)
    y = l.Conv2DTranspose(2, (2, 3), strides=(1, 2), padding="same", use_bias=False)(y)
    y = l.UpSampling2D((1, 2))(l.SpatialDropout2D(0.3)(l.AveragePooling2D(4)(y)))
    y = l.Normalization(mean=0.1, variance=4.0, axis=None)(y)
    block = importlib.import_module(f"{k.__name__}.src.applications.convnext")
    y = block.StochasticDepth(0.1)(block.LayerScale(1e-6, 2, name="scale")(y))
    y = l.Dropout(0.2, noise_shape=(None, 1, 1, 1))(y)
    z = l.RepeatVector(4)(l.Dense(6, "tanh")(l.PReLU()(l.Flatten()(y))))
    z = l.Conv1DTranspose(3, 2, strides=3, name="line")(l.SpatialDropout1D(0.1)(z))
    z = l.UnitNormalization()(l.UpSampling1D(2)(l.Cropping1D((1, 2))(z)))
    z = l.Dot((1, 2))([z, l.Dot((2, 2))([z, z])])
    return k.Model(x, l.Dense(2)(l.Flatten()(z)))


def drawn(k):
    l, i = k.layers, k.initializers
    return k.Sequential([
        k.Input((4,)),
        l.Dense(3, kernel_initializer=i.RandomNormal(0.5, 0.01), bias_initializer=i.Constant(0.1)),
        l.Dense(3, kernel_initializer=i.RandomUniform(-0.25, 0.5)),
        l.Dense(3, kernel_initializer=i.TruncatedNormal(stddev=0.02)),
        l.Dense(3, kernel_initializer=i.VarianceScaling(3.0, "fan_out", "untruncated_normal")),
        l.Dense(2, kernel_initializer=i.VarianceScaling(0.1, "fan_avg", "uniform"))])


def line(k):
    l = k.layers
    x = k.Input((16, 3))
    y = l.Conv1D(4, 3, padding="causal", dilation_rate=2, activation="relu")(x)
    y = l.BatchNormalization()(l.ZeroPadding1D((2, 1))(y))
    y = l.MaxPooling1D(3, strides=2, padding="same")(y)
    y = l.DepthwiseConv1D(2, depth_multiplier=2, padding="same", name="each")(y)
    z = l.SeparableConv1D(5, 3, strides=2, name="apart")(l.AveragePooling1D(2)(y))
    y = l.Flatten()(l.GlobalAveragePooling1D(keepdims=True)(y))
    z = l.GlobalMaxPooling1D()(l.Conv1D(4, 1, use_bias=False)(l.ZeroPadding1D()(z)))
    return k.Model(x, l.Dense(2)(l.Concatenate()([y, z])))


def recurrent(k):
    l = k.layers
    x = k.Input((6, 3))
    y = l.LSTM(4, return_sequences=True, name="plain")(x)
    z = l.Bidirectional(l.LSTM(3, return_sequences=True, unit_forget_bias=False), name="two.ways")(x)
    y = l.TimeDistributed(l.Dense(5, "tanh"), name="each")(l.Concatenate()([y, z]))
    y = l.GRU(4, return_sequences=True, go_backwards=True, kernel_regularizer="l2")(y)
    z = l.SimpleRNN(3, activation="relu", use_bias=False)(y)
    w = l.Bidirectional(l.GRU(3, use_bias=False, activation="elu"), merge_mode="ave")(y)
    u = l.Bidirectional(l.SimpleRNN(2, recurrent_initializer="glorot_uniform"), merge_mode="sum")(y)
    return k.Model(x, l.Dense(2)(l.Concatenate()([z, w, u])))


def words(k):
    l = k.layers
    return k.Sequential([k.Input((7,)), l.Embedding(11, 4),
                         l.Bidirectional(l.LSTM(3, return_sequences=True), merge_mode="mul"),
                         l.Bidirectional(l.LSTM(3), backward_layer=l.GRU(3, go_backwards=True)),
                         l.Dense(1, "sigmoid", kernel_initializer="orthogonal")])


def masked(k):
    """Steps that do not count, in each layer that has a use for it."""
    l = k.layers
    x = k.Input((7,))
    y = l.Dropout(0.2)(l.Embedding(4, 5, mask_zero=True)(x))
    z = l.Bidirectional(l.LSTM(3, return_sequences=True))(y)
    w = l.TimeDistributed(l.Dense(4, "tanh"))(l.LayerNormalization()(z))
    u = l.GRU(3, go_backwards=True)(w)
    v = l.Bidirectional(l.SimpleRNN(2), merge_mode="sum")(l.Activation("relu")(w))
    p = l.GlobalAveragePooling1D()(l.Add()([w, l.Dense(4)(z)]))
    q = l.GlobalMaxPooling1D()(l.Conv1D(2, 3)(w)) if k is keras3 else v  # 3 warns, 2 refuses
    return k.Model(x, l.Dense(2)(l.Concatenate()([u, v, p, q])))


def sparse_steps(k):
    """All features of a step are the value that masks: so are two of five."""
    l = k.layers
    x = k.Input((5, 2))
    y = l.Masking(0.5)(l.Reshape((5, 2))(l.Maximum()([x, l.Rescaling(0.0, 0.5)(x)])))
    y = l.GRU(3, return_sequences=True, go_backwards=True)(y)
    return k.Model(x, l.Dense(2)(l.LSTM(3)(y)))


def siamese(k):
    """Layers and models that are called again, also on what they made themselves."""
    L, x, e = k.layers, k.Input((2, 6)), k.Input((6,))
    again = L.Dense(6, activation="tanh", name="again")
    encoder = k.Model(e, L.BatchNormalization(name="norm")(again(again(e))), name="encoder")
    head = k.Sequential([L.Dense(4, activation="relu", name="first"), L.Dense(3, name="last")],
                        name="head")
    built = k.Sequential([k.Input((3,)), L.Dense(3, name="only")], name="built")
    both = L.Bidirectional(L.GRU(2), name="both")
    bound, ends = L.ReLU(name="bound"), []
    for i in range(2):
        half = L.Reshape((6,), name=f"half{i}")(L.Cropping1D((i, 1 - i), name=f"crop{i}")(x))
        steps = both(L.Reshape((3, 2), name=f"steps{i}")(half))
        ends.append(bound(L.Concatenate(name=f"end{i}")([built(head(encoder(half))), steps])))
    return k.Model(x, L.Subtract(name="apart")(ends))


def twice(k):
    """A model that is called again, which is the output."""
    e, x = k.Input((4,)), k.Input((4,))
    block = k.Model(e, k.layers.Dense(4, "tanh", name="dense")(e), name="block")
    return k.Model(x, block(block(x)))


def outputs(k):
    """One output is read by another, and the last layer of the file is none."""
    x = k.Input((6,), name="x")
    h = k.layers.Dense(5, activation="tanh", name="h")(x)
    kind = k.layers.Dense(3, activation="softmax", name="kind")(h)
    yes = k.layers.Dense(1, activation="sigmoid", name="yes")(k.layers.concatenate([h, kind]))
    m = k.Model(x, [yes, kind, k.layers.Dense(2, name="size")(h)])
    m.compile("adam", {"kind": "categorical_crossentropy", "size": "mse",
                       "yes": k.losses.BinaryCrossentropy(label_smoothing=0.1)},
              loss_weights={"kind": 0.5, "yes": 1.0, "size": 2})
    return m


def inputs(k):
    """Numbers, an image, a category and words: several inputs of one sample."""
    l = k.layers
    x, image = k.Input((3,), name="numbers"), k.Input((4, 4, 1), name="image")
    kind, text = k.Input((1,), name="input"), k.Input((5,), name="words")
    y = [l.Dense(3, "tanh")(x), l.GlobalMaxPooling2D()(l.Conv2D(2, 3)(image)),
         l.Flatten()(l.Embedding(9, 2)(kind)),
         l.GRU(3)(l.Embedding(9, 4)(text))]
    return k.Model([image, x, text, kind], l.Dense(2)(l.Concatenate()(y)))


def encoded(k):
    """Numbers of a sample as indexes, rows and sums of rows, beside what they are."""
    l, x = k.layers, k.Input((6,))
    y = l.Reshape((6, 1), name="apart")(x)
    a, b, c = (l.Flatten(name=f"column{i}")(l.Cropping1D((i, 5 - i), name=f"crop{i}")(y))
               for i in range(3))
    known = l.IntegerLookup(vocabulary=[4, 1, 7], mask_token=0, name="known")(a)
    age = l.Discretization([2.0, 4.0, 4.0, 7.5], name="age")(b)
    return k.Model(x, l.Dense(3, name="last")(l.Concatenate(name="all")([
        l.Dense(3, activation="tanh", name="plain")(x),
        l.Flatten(name="one")(l.Embedding(5, 3, name="e")(known)),
        l.Flatten(name="two")(l.Embedding(5, 2, name="f")(age)),
        l.CategoryEncoding(10, output_mode="one_hot", name="class")(c),
        l.CategoryEncoding(9, name="tokens")(x),
        l.CategoryEncoding(9, output_mode="count", name="times")(x),
        l.Discretization([2.0, 5.0], output_mode="one_hot", name="bin")(a),
        l.Discretization([3.0], output_mode="count", name="bins")(x),
        l.IntegerLookup(vocabulary=[-1, 8, 2, 5], output_mode="multi_hot", name="some")(x),
        l.IntegerLookup(vocabulary=[6, 3], mask_token=8, output_mode="count", name="few")(x),
        l.IntegerLookup(vocabulary=[*range(8, -1, -1)], num_oov_indices=0,
                        output_mode="one_hot", name="turned")(b)])))


# With the highest whole number + 1 that is looked up.
MODELS = {mlp: 0, mlp_built: 0, initializers: 0, lenet: 0, pools: 0, norms: 0, resnet: 0,
          activations: 0, nested: 0, nested_sequential: 0, branches: 0, first_layer: 0,
          sums: 0, deep: 0, names: 0, mixed: 0, padding: 0, channels: 0, shapes: 0, joins: 0,
          extremes: 0, mobile: 0, dilated: 0, more_activations: 0, rare_activations: 0,
          transformer: 0, embedding: 11, regularized: 0, line: 0, drawn: 0, composed: 0, numbers: 0, frozen: 0,
          recurrent: 0, words: 11, masked: 4, sparse_steps: 0, siamese: 0,
          twice: 0, encoded: 9, inputs: 9, outputs: 0}


# ---- what cannot be imported

def two_inputs(k):
    """A model of two inputs within another."""
    a, b, x = (k.Input((3,), name=name) for name in "abx")
    both = k.Model([a, b], k.layers.Add()([a, b]), name="both")
    return k.Model(x, k.layers.Dense(2)(both([x, x])))


def any_length(k):
    a, b = k.Input((3,), name="a"), k.Input((None,), name="b")
    return k.Model([a, b], k.layers.Dense(2)(k.layers.Embedding(3, 3)(b)))


def two_outputs(k):
    x = k.Input((3,))
    both = k.Model(x, [k.layers.Dense(2, name="a")(x), k.layers.Dense(2, name="b")(x)],
                   name="both")
    return k.Model(y := k.Input((3,)), k.layers.Add()(both(y)))


def dense(k, *more, **options):
    return k.Sequential([k.Input((3,)), k.layers.Dense(2, name="d", **options), *more])


def custom(k):
    class Mine(k.layers.Layer):
        def call(self, x):
            return x

    return dense(k, Mine(name="m"))


def registered(k):
    register = (keras3.saving if k is keras3 else keras2.utils).register_keras_serializable

    @register(package="mine")
    class Dense(k.layers.Dense):
        pass

    return k.Sequential([k.Input((3,)), Dense(2, name="d")])


def in_training(k):
    x = k.Input((3,))
    return k.Model(x, k.layers.Dense(2)(k.layers.Dropout(0.5, name="drop")(x, training=True)))


# Its code is in the file, and the name of the file that it is from.
DOUBLE = eval(compile("lambda x: x * 2", "model.py", "eval"))

def by_a_tensor(k):
    x = k.Input((4,))
    return k.Model(x, 2.0 / x)


def by_hand(k):
    """A mask that no Embedding made."""
    x = k.Input((4,))
    y = k.layers.Embedding(3, 2)(x)
    return k.Model(x, k.layers.GRU(2, name="asked")(y, mask=keras3.ops.not_equal(x, 1)))


def lost(k):
    """Ops lose a mask that a job's layers hand on."""
    y = k.layers.Embedding(3, 2, mask_zero=True)(x := k.Input((4,)))
    return k.Model(x, k.layers.GRU(2, name="without")(y + y))


REFUSED = {
    "by_hand": by_hand, "lost": lost,
    "by_a_tensor": by_a_tensor,
    "two_inputs": two_inputs, "any_length": any_length, "two_outputs": two_outputs, "custom": custom,
    "registered": registered, "in_training": in_training,
    "lambda": lambda k: dense(k, k.layers.Lambda(DOUBLE, name="times")),
    "unknown": lambda k: k.Sequential([k.Input((3, 3, 2)),
                                       k.layers.ConvLSTM1D(2, 2, name="memory")]),
    "wrapped": lambda k: k.Sequential([k.Input((3, 4, 2)), k.layers.TimeDistributed(
        k.layers.Conv1D(2, 2), name="each")]),
    "reset_before": lambda k: k.Sequential([k.Input((3, 2)), k.layers.GRU(
        2, reset_after=False, name="old")]),
    "by_a_negative": lambda k: k.Sequential([k.Input((2,)), k.layers.Rescaling(
        [1.0, -1.0], name="turned")]),
    "constraint": lambda k: dense(k, kernel_constraint="max_norm"),
    "initializer": lambda k: dense(k, kernel_initializer=k.initializers.Orthogonal(2.0)),
    "channels_first": lambda k: k.Sequential([
        k.Input((3, 4, 4)), k.layers.Conv2D(2, 3, data_format="channels_first", name="c")]),
    "renorm": lambda k: dense(k, k.layers.BatchNormalization(
        name="bn", **({"renorm": True} if k is keras2 else {"synchronized": True}))),
    "hard_sigmoid": lambda k: dense(k, activation="hard_sigmoid"),
    "hashing": lambda k: k.Sequential([
        k.Input((1,), dtype="int64"), k.layers.Hashing(3, output_mode="one_hot", name="hash"),
        k.layers.Dense(2)]),
    "strings": lambda k: k.Sequential([
        k.Input((1,), dtype="string"), k.layers.StringLookup(
            vocabulary=["a"], output_mode="one_hot", name="word"), k.layers.Dense(2)]),
    "unlearnt": lambda k: dense(k, k.layers.IntegerLookup(max_tokens=3, name="few")),
    "float64": lambda k: dense(k, dtype="float64"),
}


def write(name, k, make, ids):
    m = make(k)
    several = m.input_shape if isinstance(m.input_shape, list) else None
    ends = numpy.cumsum([math.prod(shape[1:]) for shape in several or []])
    shape = (ROWS, ends[-1]) if several else (ROWS, *m.input_shape[1:])
    for key, variable in variable_names(m).items():
        variable.assign(parameter(key, tuple(variable.shape)))
    if make is mixed:  # the job's test computes in f32
        weights, config = m.get_weights(), m.to_json()
        calc = k.Sequential([k.Input((4,)), k.layers.Dense(3, activation="relu"), k.layers.Dense(2)])
        calc.set_weights(weights)
        out = calc.predict(sample(shape, ids), verbose=0)
    else:
        config = m.to_json()
        x = sample(shape, ids)
        if several:
            x = [part.reshape(ROWS, *of[1:])
                 for part, of in zip(numpy.split(x, ends[:-1], 1), several)]
        out = m.predict(x, verbose=0)
    outs = out if isinstance(out, list) else [out]
    want = {"keras": k.__version__,
            "variables": {key: list(v.shape) for key, v in variable_names(m).items()},
            "parameters": m.count_params(), "ids": ids,
            "outputs": [float(f"{x:.8g}") for one in outs for x in one.reshape(-1).tolist()]}
    (HERE / f"{name}.json").write_text(config + "\n")
    (HERE / f"{name}.want.json").write_text(json.dumps(want) + "\n")


def main():
    (HERE / "refused").mkdir(exist_ok=True)
    for which, k in (("k2", keras2), ("k3", keras3)):
        for make, ids in MODELS.items():
            if sys.argv[1:] and make.__name__ not in sys.argv[1:]:
                continue
            k.backend.clear_session()
            write(f"{make.__name__}-{which}", k, make, ids)
        for name, make in REFUSED.items():
            if sys.argv[1:] and name not in sys.argv[1:]:
                continue
            k.backend.clear_session()
            if name in ("hard_sigmoid", "in_training") and k is keras3:
                continue  # the one is known, the other without meaning
            if name in ("by_hand", "lost") and k is keras2:
                continue  # it writes no masks
            (HERE / "refused" / f"{name}-{which}.json").write_text(make(k).to_json() + "\n")


if __name__ == "__main__":
    main()
