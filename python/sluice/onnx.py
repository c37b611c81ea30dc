# SPDX-License-Identifier: Apache-2.0
"""A trained job as an ONNX model, for ONNX Runtime and all that reads that format.

    python3 -m sluice.onnx j-7 --to model.onnx            # needs PyPI's onnx
    to_onnx(spec, tensors, "model.onnx")                  # a spec, and what export read

The model has one input, `input`, of (samples, *model.input_shape) in f32, and one
output, `output`: what the layer that the loss sees gives in an evaluation, so without
dropout, and logits where the job's model ends in logits. Several outputs (losses) have
the names of their layers. Each layer of docs/layers.md is
a function here, under its name; ValueError names a layer that ONNX cannot say.
"""
from __future__ import annotations

import argparse
import contextlib
import importlib
import math
import os
import sys
from typing import Any, BinaryIO, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np
import numpy.typing as npt

from . import client

__all__ = ["to_onnx"]

Json = client.Json
Array = npt.NDArray[Any]

OPSET, IR = 18, 8  # ONNX 1.13 of 2022 and newer
ONE_FILE = 1_900_000_000  # bytes; protobuf has at most 2 GiB
SMALL = 1024  # bytes; values that shapes may depend on, always in the model's own file
LAST = 2**31 - 1  # an end of a slice: that of the axis


def _list(said: Any) -> List[Any]:
    """What a key says, which a spec may write without the brackets of a list."""
    return list(said) if isinstance(said, (list, tuple)) else [said]


class Graph:
    """A model as it grows. Values are called by name."""

    def __init__(self, tensors: client.Tensors) -> None:
        self.onnx: Any = importlib.import_module("onnx")
        self.tensors, self.used = tensors, 0
        self.nodes: List[Any] = []
        self.constants: Dict[str, Array] = {}
        self.inputs: List[Any] = []
        self.layer: Json = {}

    def fail(self, why: str) -> ValueError:
        return ValueError(f"layer '{self.layer['name']}' ({self.layer['type']}) {why}")

    def __getitem__(self, key: str) -> Any:
        """A key of the layer at hand; None: it is not said."""
        return self.layer.get(key)

    def get(self, key: str, otherwise: Any) -> Any:
        return self.layer.get(key, otherwise)

    def pair(self, key: str, axes: int, otherwise: int = 1) -> List[int]:
        """One number for all axes, or one for each."""
        said = _list(self.layer.get(key, [])) or [otherwise]
        return said * axes if len(said) == 1 else said

    def has(self, name: str) -> bool:
        return f"{self.layer['name']}/{name}" in self.tensors

    def weight(self, name: str) -> Array:
        """A variable of the layer at hand, in Keras' layout."""
        whole = f"{self.layer['name']}/{name}"
        if whole not in self.tensors:
            raise self.fail(f"has no variable {whole} in what was exported")
        return np.asarray(self.tensors[whole], np.float32)

    def constant(self, value: Any, kind: Any = np.float32) -> str:
        self.used += 1
        name = f"constant_{self.used}"
        self.constants[name] = np.ascontiguousarray(value, kind)
        return name

    def ints(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Adds an operator. Returns the name of its output, or of the last of several."""
        self.used += 1
        names = [""] * (outputs - 1) + [f"{kind}_{self.used}"]
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, names, **attributes))
        return names[-1]

    def shape(self, name: str) -> List[int]:
        """The shape of a value, with 0 for the samples."""
        helper = self.onnx.helper
        large = [helper.make_tensor_value_info(constant, self.kind(value), value.shape)
                 for constant, value in self.constants.items() if value.nbytes > SMALL]
        small = [self.inside(constant, value)
                 for constant, value in self.constants.items() if value.nbytes <= SMALL]
        made = helper.make_graph(
            self.nodes, "part", [*self.inputs, *large],
            [helper.make_empty_tensor_value_info(name)], small)
        model = helper.make_model(
            made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)
        known = self.onnx.shape_inference.infer_shapes(model).graph
        for value in [*known.input, *known.value_info, *known.output]:
            if value.name == name:
                return [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        raise self.fail("has an input of no known shape")

    def kind(self, value: Array) -> int:
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(value.dtype))

    def inside(self, name: str, value: Array) -> Any:
        return self.onnx.numpy_helper.from_array(value, name)

    def beside(self, name: str, value: Array, file: BinaryIO) -> Any:
        """A constant whose value is appended to `file`."""
        kinds = self.onnx.TensorProto
        tensor = kinds(name=name, data_type=self.kind(value), dims=value.shape,
                       data_location=kinds.EXTERNAL)
        for key, said in (("location", os.path.basename(file.name)),
                          ("offset", file.tell()), ("length", value.nbytes)):
            tensor.external_data.add(key=key, value=str(said))
        file.write(value.data)
        return tensor

    def initializers(self, path: str) -> List[Any]:
        """The constants of the model at `path`: in it, or beside it in a file that is
        made anew, as a model of protobuf is whole in memory and has at most 2 GiB."""
        if sum(value.nbytes for value in self.constants.values()) <= ONE_FILE:
            return [self.inside(*constant) for constant in self.constants.items()]
        with open(path + ".data", "wb") as file:
            return [self.inside(name, value) if value.nbytes <= SMALL
                    else self.beside(name, value, file)
                    for name, value in self.constants.items()]

    def flat(self, x: str) -> str:
        return str(self.op("Reshape", x, self.ints(0, -1)))

    def affine(self, x: str, scale: Any, shift: Any) -> str:
        return str(self.op("Add", self.op("Mul", x, self.constant(scale)),
                           self.constant(shift)))


# ---- activations

def _hard(g: Graph, x: str) -> str:
    return str(g.op("HardSigmoid", x, alpha=1 / 6, beta=0.5))


def _clip(g: Graph, x: str, least: float, most: float) -> str:
    return str(g.op("Clip", x, g.constant(least), g.constant(most)))


def _half(g: Graph, x: str, inner: str) -> str:
    """x (1 + inner) / 2."""
    return str(g.op("Mul", g.op("Mul", x, g.constant(0.5)),
                    g.op("Add", inner, g.constant(1))))


def _gelu_tanh(g: Graph, x: str) -> str:
    cube = g.op("Mul", g.op("Mul", x, x), x)
    inner = g.op("Add", x, g.op("Mul", cube, g.constant(0.044715)))
    return _half(g, x, g.op("Tanh", g.op("Mul", inner, g.constant(math.sqrt(2 / math.pi)))))


def _plain(kind: str, **attributes: Any) -> Callable[..., str]:
    return lambda g, x, alpha: str(g.op(kind, x, **attributes))


# Each takes the graph, a value and alpha; rows as those of proto/layers.def.
ACTIVATIONS: Dict[str, Callable[..., str]] = {
    "linear": lambda g, x, alpha: x,
    "relu": _plain("Relu"),
    "sigmoid": _plain("Sigmoid"),
    "tanh": _plain("Tanh"),
    "softmax": _plain("Softmax", axis=-1),
    "elu": lambda g, x, alpha: str(g.op("Elu", x, alpha=alpha)),
    "leaky_relu": lambda g, x, alpha: str(g.op("LeakyRelu", x, alpha=alpha)),
    "gelu": lambda g, x, alpha: _half(
        g, x, g.op("Erf", g.op("Mul", x, g.constant(math.sqrt(0.5))))),
    "softplus": _plain("Softplus"),
    "gelu_tanh": lambda g, x, alpha: _gelu_tanh(g, x),
    "relu6": lambda g, x, alpha: _clip(g, x, 0, 6),
    "silu": lambda g, x, alpha: str(g.op("Mul", x, g.op("Sigmoid", x))),
    "selu": _plain("Selu"),
    "softsign": _plain("Softsign"),
    "exponential": _plain("Exp"),
    "hard_sigmoid": lambda g, x, alpha: _hard(g, x),
    "hard_silu": lambda g, x, alpha: str(g.op("Mul", x, _hard(g, x))),
    "mish": lambda g, x, alpha: str(g.op("Mul", x, g.op("Tanh", g.op("Softplus", x)))),
    "hard_tanh": lambda g, x, alpha: _clip(g, x, -1, 1),
}


def activate(g: Graph, x: str) -> str:
    """What the layer at hand applies to what it has computed."""
    word = g.get("activation", "linear")
    usual = 0.2 if word == "leaky_relu" else 1.0
    return ACTIVATIONS[word](g, x, g.get("alpha", usual))


def activation_layer(g: Graph, x: str) -> str:
    word = g["type"]
    return ACTIVATIONS[word](g, x, g.get("alpha", 0.3 if word == "leaky_relu" else 1.0))


# ---- layers with a kernel

def dense(g: Graph, x: str) -> str:
    y = g.op("MatMul", x, g.constant(g.weight("kernel")))
    if g.has("bias"):
        y = g.op("Add", y, g.constant(g.weight("bias")))
    return activate(g, y)


def _window(g: Graph, axes: int, size: Sequence[int]) -> Json:
    """Attributes of a window, as Keras lays it."""
    said: Json = {"strides": g.pair("strides", axes)}
    padding = g.get("padding", "valid")
    if padding == "same":
        said["auto_pad"] = "SAME_UPPER"
    elif padding == "causal":
        reach = (size[0] - 1) * g.pair("dilation_rate", axes)[0]
        said["pads"] = [reach, 0]
    return said


def _channels_first(g: Graph, x: str, axes: int) -> str:
    return str(g.op("Transpose", x, perm=[0, axes + 1, *range(1, axes + 1)]))


def _channels_last(g: Graph, x: str, axes: int) -> str:
    return str(g.op("Transpose", x, perm=[0, *range(2, axes + 2), 1]))


def _convolve(g: Graph, x: str, kernel: Array, groups: int, bias: Optional[Array],
              plain: bool = False) -> str:
    """`kernel` is (..., in, out) of Keras; x and the result have channels first."""
    axes = kernel.ndim - 2
    kernel = np.moveaxis(kernel, (-1, -2), (0, 1))
    size = list(kernel.shape[2:])
    said = {} if plain else {**_window(g, axes, size),
                             "dilations": g.pair("dilation_rate", axes)}
    more = [] if bias is None else [g.constant(bias)]
    return str(g.op("Conv", x, g.constant(kernel), *more, kernel_shape=size, group=groups,
                    **said))


def _each_channel(kernel: Array) -> Array:
    """A depthwise kernel (..., in, multiplier) as one of as many groups: (..., 1, out)."""
    return kernel.reshape(*kernel.shape[:-2], 1, -1)


def _bias(g: Graph) -> Optional[Array]:
    return g.weight("bias") if g.has("bias") else None


def conv(g: Graph, x: str) -> str:
    kernel = g.weight("kernel")
    axes = kernel.ndim - 2
    y = _convolve(g, _channels_first(g, x, axes), kernel, g.get("groups", 1), _bias(g))
    return activate(g, _channels_last(g, y, axes))


def depthwise(g: Graph, x: str) -> str:
    kernel = g.weight("kernel")
    axes, channels = kernel.ndim - 2, kernel.shape[-2]
    y = _convolve(g, _channels_first(g, x, axes), _each_channel(kernel), channels, _bias(g))
    return activate(g, _channels_last(g, y, axes))


def separable(g: Graph, x: str) -> str:
    kernel = g.weight("depthwise_kernel")
    axes, channels = kernel.ndim - 2, kernel.shape[-2]
    y = _convolve(g, _channels_first(g, x, axes), _each_channel(kernel), channels, None)
    y = _convolve(g, y, g.weight("pointwise_kernel"), 1, _bias(g), plain=True)
    return activate(g, _channels_last(g, y, axes))


def conv_transpose(g: Graph, x: str) -> str:
    kernel = g.weight("kernel")  # (..., out, in)
    axes = kernel.ndim - 2
    size, strides = kernel.shape[:axes], g.pair("strides", axes)
    over = [k - s for k, s in zip(size, strides)]  # what overlaps
    pads = [0] * axes * 2
    if g.get("padding", "valid") == "same":
        pads = [max(o, 0) // 2 for o in over] + [max(o, 0) - max(o, 0) // 2 for o in over]
    more = [] if _bias(g) is None else [g.constant(_bias(g))]
    y = g.op("ConvTranspose", _channels_first(g, x, axes),
             g.constant(np.moveaxis(kernel, (-1, -2), (0, 1))), *more,
             kernel_shape=list(size), strides=strides, pads=pads,
             output_padding=[max(-o, 0) for o in over])
    return activate(g, _channels_last(g, y, axes))


def embedding(g: Graph, x: str) -> str:
    if g.get("rows", "") == "dynamic":
        raise g.fail("has its rows in a sparse table, which is no part of a model: serve "
                     "them beside it (sluice follow)")
    if g.get("mask_zero", False):
        raise g.fail("masks steps, which ONNX's recurrent layers cannot")
    return str(g.op("Gather", g.constant(g.weight("embeddings")),
                    g.op("Cast", x, to=g.onnx.TensorProto.INT64), axis=0))


# ---- windows and places

def _pool(kind: str, axes: int) -> Callable[..., str]:
    def pool(g: Graph, x: str) -> str:
        size = g.pair("pool_size", axes, 2)
        said = _window(g, axes, size)
        if not g["strides"]:
            said["strides"] = size
        y = g.op(kind, _channels_first(g, x, axes), kernel_shape=size, **said)
        return _channels_last(g, y, axes)
    return pool


def _global_pool(kind: str, axes: int) -> Callable[..., str]:
    return lambda g, x: str(g.op(kind, x, g.ints(*range(1, axes + 1)),
                                 keepdims=int(g.get("keepdims", False))))


def _sides(g: Graph, key: str, axes: int) -> List[int]:
    """Before and after of each axis: of one number, one for each axis, or for each side."""
    said = g.pair(key, 1)
    if len(said) == 1:
        return said * 2 * axes
    if len(said) == axes and axes > 1:
        return [said[i // 2] for i in range(2 * axes)]
    return said


def _padding(axes: int) -> Callable[..., str]:
    def pad(g: Graph, x: str) -> str:
        sides = _sides(g, "pad", axes)
        return str(g.op("Pad", x, g.ints(0, *sides[::2], 0, 0, *sides[1::2], 0)))
    return pad


def _cropping(axes: int) -> Callable[..., str]:
    def crop(g: Graph, x: str) -> str:
        sides = _sides(g, "crop", axes)
        ends = [-s if s else LAST for s in sides[1::2]]
        return str(g.op("Slice", x, g.ints(*sides[::2]), g.ints(*ends),
                        g.ints(*range(1, axes + 1))))
    return crop


def _up_sampling(axes: int) -> Callable[..., str]:
    return lambda g, x: str(g.op(
        "Resize", x, "", g.constant([1, *g.pair("size", axes, 2), 1]), mode="nearest",
        nearest_mode="floor", coordinate_transformation_mode="asymmetric"))


def reshape(g: Graph, x: str) -> str:
    return str(g.op("Reshape", x, g.ints(0, *g["target_shape"])))


def permute(g: Graph, x: str) -> str:
    return str(g.op("Transpose", x, perm=[0, *g["dims"]]))


def repeat_vector(g: Graph, x: str) -> str:
    return str(g.op("Expand", g.op("Unsqueeze", x, g.ints(1)), g.ints(1, g["repeats"], 1)))


def slice_(g: Graph, x: str) -> str:
    begin, (size,) = g.get("begin", 0), g.pair("size", 1)
    return str(g.op("Slice", x, g.ints(begin), g.ints(begin + size), g.ints(1)))


# ---- indexes, and rows of them

def _within(g: Graph, x: str, begin: Array, end: Optional[Array] = None) -> str:
    """1 where x is at or above each of `begin`, and below that of `end`; on a new axis."""
    x = g.op("Unsqueeze", x, g.ints(-1))
    inside = g.op("Not", g.op("Less", x, g.constant(begin)))  # as Keras, NaN is above all
    if end is not None:
        inside = g.op("And", inside, g.op("Less", x, g.constant(end)))
    return str(g.op("Cast", inside, to=g.onnx.TensorProto.FLOAT))


def _encoded(g: Graph, x: str, tokens: int, mode: str) -> str:
    """What `output_mode` makes of indexes."""
    if mode == "int":
        return x
    if mode == "one_hot" and g.shape(x)[-1] == 1:
        x = g.op("Squeeze", x, g.ints(-1))
    numbers = np.arange(tokens + 1)
    rows = _within(g, x, numbers[:-1], numbers[1:])
    if mode == "one_hot":
        return rows
    return str(g.op("ReduceMax" if mode == "multi_hot" else "ReduceSum", rows, g.ints(1),
                    keepdims=0))


def category_encoding(g: Graph, x: str) -> str:
    return _encoded(g, x, g["num_tokens"], g.get("output_mode", "multi_hot"))


def discretization(g: Graph, x: str) -> str:
    bounds = np.asarray(_list(g["bin_boundaries"]), float)
    index = g.op("ReduceSum", _within(g, x, bounds), g.ints(-1), keepdims=0)
    return _encoded(g, index, len(bounds) + 1, g.get("output_mode", "int"))


def integer_lookup(g: Graph, x: str) -> str:
    known, mode = _list(g["vocabulary"]), g.get("output_mode", "int")
    unknown, mask = g.get("num_oov_indices", 1), g["mask_token"]
    first = int(mode == "int" and mask is not None)
    other = first if unknown else -1
    index = [first + unknown + i - other for i in range(len(known))]
    if mask is not None:
        known, index = [*known, mask], [*index, first - 1 - other]
    begin = np.asarray(known, float)
    found = g.op("MatMul", _within(g, x, begin, begin + 1), g.constant(index))
    return _encoded(g, g.op("Add", found, g.constant(other)), len(_list(g["vocabulary"])) + unknown,
                    mode)


# ---- normalizations

def batch_normalization(g: Graph, x: str) -> str:
    scale = 1 / np.sqrt(g.weight("moving_variance") + np.float32(g.get("epsilon", 0.001)))
    if g.has("gamma"):
        scale = scale * g.weight("gamma")
    shift = -g.weight("moving_mean") * scale
    return g.affine(x, scale, shift + (g.weight("beta") if g.has("beta") else 0))


def normalization(g: Graph, x: str) -> str:
    scale = 1 / np.maximum(np.sqrt(np.asarray(g["variance"], float)), 1e-7)
    return g.affine(x, scale, -np.asarray(g["mean"], float) * scale)


def _gamma_beta(g: Graph, x: str) -> str:
    y = g.op("Mul", x, g.constant(g.weight("gamma"))) if g.has("gamma") else x
    return str(g.op("Add", y, g.constant(g.weight("beta")))) if g.has("beta") else y


def _normal(g: Graph, x: str, *axes: int) -> str:
    apart = g.op("Sub", x, g.op("ReduceMean", x, g.ints(*axes)))
    variance = g.op("ReduceMean", g.op("Mul", apart, apart), g.ints(*axes))
    lifted = g.op("Add", variance, g.constant(g.get("epsilon", 0.001)))
    return str(g.op("Div", apart, g.op("Sqrt", lifted)))


def layer_normalization(g: Graph, x: str) -> str:
    return _gamma_beta(g, _normal(g, x, -1))


def group_normalization(g: Graph, x: str) -> str:
    groups, channels = g.get("groups", 32), g.shape(x)[-1]
    apart = g.op("Reshape", x, g.ints(0, -1, groups, channels // groups))
    y = g.op("Reshape", _normal(g, apart, 1, 3), g.op("Shape", x))
    return _gamma_beta(g, y)


def unit_normalization(g: Graph, x: str) -> str:
    square = g.op("ReduceSum", g.op("Mul", x, x), g.ints(-1))
    return str(g.op("Div", x, g.op("Sqrt", g.op("Max", square, g.constant(1e-12)))))


# ---- several inputs

def _joined(kind: str) -> Callable[..., str]:
    return lambda g, *xs: str(g.op(kind, *xs))


def multiply(g: Graph, x: str, *others: str) -> str:
    for other in others:
        x = g.op("Mul", x, other)
    return x


def dot(g: Graph, x: str, y: str) -> str:
    axes = g["axes"] if isinstance(g["axes"], list) else [g["axes"]]
    if len(g.shape(x)) == 2:
        return str(g.op("ReduceSum", g.op("Mul", x, y), g.ints(1)))
    first, second = axes[0], axes[-1]
    if first == 1:
        x = g.op("Transpose", x, perm=[0, 2, 1])
    if second in (2, -1):
        y = g.op("Transpose", y, perm=[0, 2, 1])
    return str(g.op("MatMul", x, y))


def _vectors(g: Graph, xs: Sequence[str]) -> str:
    """All of (d) or (several, d) as one value (f, d)."""
    return str(g.op("Concat", *(x if len(g.shape(x)) == 3 else
                                g.op("Unsqueeze", x, g.ints(1)) for x in xs), axis=1))


def dot_interaction(g: Graph, *xs: str) -> str:
    v = _vectors(g, xs)
    f = g.shape(v)[1]
    pairs = g.flat(g.op("MatMul", v, g.op("Transpose", v, perm=[0, 2, 1])))
    own = int(g.get("self_interaction", False))
    lower = [i * f + j for i in range(f) for j in range(i + own)]
    return str(g.op("Gather", pairs, g.ints(*lower), axis=1))


def fm(g: Graph, *xs: str) -> str:
    v = _vectors(g, xs)
    whole = g.op("ReduceSum", v, g.ints(1), keepdims=0)
    squares = g.op("ReduceSum", g.op("Mul", v, v), g.ints(1), keepdims=0)
    apart = g.op("Sub", g.op("Mul", whole, whole), squares)
    return str(g.op("Mul", g.op("ReduceSum", apart, g.ints(1)), g.constant(0.5)))


def cross(g: Graph, first: str, x: Optional[str] = None) -> str:
    x = x or first
    y = g.op("MatMul", x, g.constant(g.weight("u_kernel"))) if g.has("u_kernel") else x
    y = g.op("MatMul", y, g.constant(g.weight("kernel")))
    if g.has("bias"):
        y = g.op("Add", y, g.constant(g.weight("bias")))
    if g.get("diag_scale", 0):
        y = g.op("Add", y, g.op("Mul", x, g.constant(g["diag_scale"])))
    return str(g.op("Add", g.op("Mul", first, y), x))


# ---- attention and steps

def multi_head_attention(g: Graph, query: str, value: Optional[str] = None,
                         key: Optional[str] = None) -> str:
    value = value or query
    heads = g["num_heads"]

    def project(x: str, part: str) -> str:
        kernel = g.weight(f"{part}/kernel")  # (in, heads, each)
        y = g.op("MatMul", x, g.constant(kernel.reshape(len(kernel), -1)))
        if g.has(f"{part}/bias"):
            y = g.op("Add", y, g.constant(g.weight(f"{part}/bias").reshape(-1)))
        y = g.op("Reshape", y, g.ints(0, 0, heads, -1))
        return str(g.op("Transpose", y, perm=[0, 2, 1, 3]))  # (heads, length, each)

    q, k, v = project(query, "query"), project(key or value, "key"), project(value, "value")
    scores = g.op("Mul", g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2])),
                  g.constant(1 / math.sqrt(g["key_dim"])))
    if g.get("use_causal_mask", False):
        ones = g.op("ConstantOfShape", g.op("Shape", scores),
                    value=g.onnx.numpy_helper.from_array(np.ones(1, np.float32)))
        seen = g.op("Cast", g.op("Trilu", ones, upper=0), to=g.onnx.TensorProto.BOOL)
        scores = g.op("Where", seen, scores, g.constant(-1e9))
    y = g.op("MatMul", g.op("Softmax", scores, axis=-1), v)
    y = g.op("Reshape", g.op("Transpose", y, perm=[0, 2, 1, 3]), g.ints(0, 0, -1))
    kernel = g.weight("attention_output/kernel")  # (heads, each, out)
    y = g.op("MatMul", y, g.constant(kernel.reshape(-1, kernel.shape[-1])))
    bias = "attention_output/bias"
    return str(g.op("Add", y, g.constant(g.weight(bias)))) if g.has(bias) else str(y)


# What ONNX calls them, and the alpha and beta of those that have them.
STEP_ACTIVATIONS: Dict[str, Tuple[str, List[float], List[float]]] = {
    "linear": ("Affine", [1.0], [0.0]), "relu": ("Relu", [], []), "tanh": ("Tanh", [], []),
    "sigmoid": ("Sigmoid", [], []), "elu": ("Elu", [1.0], []),
    "hard_sigmoid": ("HardSigmoid", [1 / 6], [0.5])}


def _step_activations(g: Graph, *keys: str) -> Json:
    words = [g.get(key, "tanh" if key == "activation" else "sigmoid") for key in keys]
    for word in words:
        if word not in STEP_ACTIVATIONS:
            raise g.fail(f"has the activation {word} within a step, which ONNX does not know")
    known = [STEP_ACTIVATIONS[word] for word in words]
    said: Json = {"activations": [name for name, _, _ in known]}
    for at, key in ((1, "activation_alpha"), (2, "activation_beta")):
        values = sum((k[at] for k in known), [])  # of those alone that have one
        said.update({key: values} if values else {})
    return said


def _recurrent(kind: str, order: Sequence[int], *keys: str,
               **more: Any) -> Callable[..., str]:
    """`order`: which gate of Keras' stands where in ONNX."""
    def recurrent(g: Graph, x: str) -> str:
        def gates(value: Array) -> Array:
            """(rows, gates x units) as (gates x units, rows)."""
            parts = np.split(value, len(order), axis=-1)
            return np.concatenate([parts[i] for i in order], axis=-1).T

        kernel = gates(g.weight("kernel"))
        bias = np.zeros((2, len(kernel)), np.float32)
        if g.has("bias"):
            own = g.weight("bias").reshape(-1, len(kernel))
            bias[:len(own)] = gates(own).T
        back = bool(g.get("go_backwards", False))
        said = _step_activations(g, *keys)
        y = g.op(kind, g.op("Transpose", x, perm=[1, 0, 2]), g.constant(kernel[None]),
                 g.constant(gates(g.weight("recurrent_kernel"))[None]),
                 g.constant(bias.reshape(1, -1)), hidden_size=g["units"],
                 direction="reverse" if back else "forward",
                 outputs=1 if g["return_sequences"] else 2, **said, **more)
        if not g["return_sequences"]:
            return str(g.op("Squeeze", y, g.ints(0)))
        y = g.op("Transpose", g.op("Squeeze", y, g.ints(1)), perm=[1, 0, 2])
        if back and not g["keep_order"]:  # ONNX gives the order of the input
            y = g.op("Slice", y, g.ints(-1), g.ints(-LAST), g.ints(1), g.ints(-1))
        return str(y)
    return recurrent


def masking(g: Graph, x: str) -> str:
    raise g.fail("masks steps, which ONNX's recurrent layers cannot")


def _same(g: Graph, x: str) -> str:
    """What does nothing but in training."""
    return x


Layer = Callable[..., str]

# Rows as those of proto/layers.def: each takes the graph and its inputs.
LAYERS: Dict[str, Layer] = {
    "dense": dense,
    "flatten": lambda g, x: g.flat(x),
    "dropout": _same,
    "batch_normalization": batch_normalization,
    "add": _joined("Sum"),
    "concatenate": lambda g, *xs: str(g.op("Concat", *xs, axis=-1)),
    "activation": activate,
    "rescaling": lambda g, x: g.affine(x, g["factor"], g.get("offset", 0)),
    "reshape": reshape,
    "permute": permute,
    "subtract": _joined("Sub"),
    "multiply": multiply,
    "average": _joined("Mean"),
    "maximum": _joined("Max"),
    "minimum": _joined("Min"),
    "layer_normalization": layer_normalization,
    "embedding": embedding,
    "multi_head_attention": multi_head_attention,
    "dot_interaction": dot_interaction,
    "fm": fm,
    "cross": cross,
    "repeat_vector": repeat_vector,
    "slice": slice_,
    "group_normalization": group_normalization,
    "unit_normalization": unit_normalization,
    "normalization": normalization,
    "dot": dot,
    "prelu": lambda g, x: str(g.op("PRelu", x, g.constant(g.weight("alpha")))),
    "lstm": _recurrent("LSTM", (0, 3, 1, 2), "recurrent_activation", "activation",
                       "activation"),
    "gru": _recurrent("GRU", (0, 1, 2), "recurrent_activation", "activation",
                      linear_before_reset=1),
    "simple_rnn": _recurrent("RNN", (0,), "activation"),
    "masking": masking,
    "category_encoding": category_encoding,
    "discretization": discretization,
    "integer_lookup": integer_lookup,
    "stochastic_depth": _same,
    "layer_scale": _gamma_beta,
    **{name: activation_layer for name in ACTIVATIONS if name != "linear"},
}
for _axes in (1, 2):
    LAYERS.update({
        f"conv{_axes}d": conv,
        f"conv{_axes}d_transpose": conv_transpose,
        f"depthwise_conv{_axes}d": depthwise,
        f"separable_conv{_axes}d": separable,
        f"max_pooling{_axes}d": _pool("MaxPool", _axes),
        f"average_pooling{_axes}d": _pool("AveragePool", _axes),
        f"global_max_pooling{_axes}d": _global_pool("ReduceMax", _axes),
        f"global_average_pooling{_axes}d": _global_pool("ReduceMean", _axes),
        f"zero_padding{_axes}d": _padding(_axes),
        f"cropping{_axes}d": _cropping(_axes),
        f"up_sampling{_axes}d": _up_sampling(_axes),
        f"spatial_dropout{_axes}d": _same,
    })


def _named(layers: Sequence[Json]) -> List[Json]:
    """The layers, each with a name: its own, or its type with a number, as of a job."""
    taken = {layer["name"] for layer in layers if layer.get("name")}
    counts: Dict[str, int] = {}
    out = []
    for layer in layers:
        name, kind = layer.get("name"), layer["type"]
        while not name or (name in taken and not layer.get("name")):
            counts[kind] = counts.get(kind, -1) + 1
            name = f"{kind}_{counts[kind]}" if counts[kind] else kind
        taken.add(name)
        out.append({**layer, "name": name})
    return out


def to_onnx(spec: Json, tensors: client.Tensors, path: str) -> None:
    """Writes the model of a job's `spec` with the variables `tensors`, as client.export
    reads them, to `path`; weights of more than 1.9 GB into a file beside it. ValueError:
    the model is a program's own, has a layer that ONNX cannot say, or lacks a variable."""
    said = spec["model"]
    if said.get("type", "graph") != "graph":
        raise ValueError("the model of this job is a program's own: its framework exports it")
    g = Graph(tensors)
    helper, kind = g.onnx.helper, g.onnx.TensorProto.FLOAT
    g.inputs = [helper.make_tensor_value_info("input", kind, ["samples", *said["input_shape"]])]
    values, before = {"input": "input"}, "input"
    layers = {layer["name"]: layer for layer in _named(said["layers"])}
    for name, g.layer in layers.items():
        if g["shares"]:  # that layer again, by its name and so with its variables
            g.layer = {**layers[g["shares"]], "inputs": g["inputs"]}
        if g["type"] not in LAYERS:
            raise g.fail("is of a type that is not known here")
        inputs = [values[of] for of in g["inputs"] or [before]]
        values[name] = LAYERS[g["type"]](g, *inputs)
        before = name
    outputs = ({loss["output"]: values[loss["output"]] for loss in spec["losses"]}
               if spec.get("losses") else {"output": values[said.get("output") or before]})
    infos = []
    for name, last in outputs.items():
        shape = g.shape(last)[1:]
        infos.append(helper.make_tensor_value_info(name, kind, ["samples", *shape]))
    g.nodes += [helper.make_node("Identity", [last], [name]) for name, last in outputs.items()]
    model = helper.make_model(
        helper.make_graph(g.nodes, spec.get("name") or "model", g.inputs, infos,
                          g.initializers(path)),
        opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR, producer_name="sluice")
    g.onnx.save_model(model, path)
    g.onnx.checker.check_model(path)
    if all(t.data_location != g.onnx.TensorProto.EXTERNAL for t in model.graph.initializer):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + ".data")  # of a larger model that was here


def main(words: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python3 -m sluice.onnx", description="Writes a job's model as ONNX.")
    parser.add_argument("job")
    parser.add_argument("--to", required=True, metavar="FILE", help="the file to write")
    parser.add_argument("--coordinator", help="its address; else as the sluice command's")
    parser.add_argument("--tls", help="certs/client, of certs/client.crt and .key")
    said = parser.parse_args(words)
    try:
        spec = client.status(said.job, said.coordinator, tls=said.tls)["spec"]
        to_onnx(spec, client.export(said.job, said.coordinator, tls=said.tls), said.to)
    except (client.CommandError, ImportError, OSError, ValueError) as error:
        sys.exit(f"sluice.onnx: {error}")


if __name__ == "__main__":
    main()
