# SPDX-License-Identifier: Apache-2.0
"""The parameters of a Keras model as a job's variables, and back.

    sluice import model.keras.json -o job.yaml        # what model.to_json() gave
    save_weights(model, "first.safetensors")          # submit --weights: starts with them
    load_weights(model, "model.safetensors")          # what `sluice export` wrote
    load_job(model, "j-7", "10.0.0.1:7070").predict(x)   # the same of a job

`sluice import` names a variable `<layer>/<weight>`, in Keras' layout. Works with
models of Keras 3 and of Keras 2 (`tf.keras`, `tf_keras`), and imports neither.
"""
from __future__ import annotations

import os
import re
import tempfile
from typing import Any, Dict, Iterator, Optional, Tuple, Union

import numpy as np

from . import client
from .session import Tls

__all__ = ["load_job", "load_weights", "save_weights", "variable_names"]

Path = Union[str, "os.PathLike[str]"]


def layer_name(name: str) -> str:
    """A layer's name as `sluice import` writes it: what a job's layer may not be
    called becomes '_', and `input`, which means the sample, `input_`."""
    clean = re.sub(rb"[^A-Za-z0-9_.-]", b"_", name.encode()).decode()
    return "input_" if clean == "input" else clean


def _layers(model: Any, prefix: str = "") -> Iterator[Tuple[str, Any]]:
    """(name in the job, layer) of each layer that is no model itself."""
    for layer in model.layers:
        name = prefix + layer_name(layer.name)
        if hasattr(layer, "to_json") and hasattr(layer, "layers"):
            yield from _layers(layer, name + ".")
        elif hasattr(layer, "forward_layer"):  # Bidirectional
            yield name + ".forward", layer.forward_layer
            yield name + ".backward", layer.backward_layer
        elif type(layer).__name__ == "TimeDistributed":
            yield name, layer.layer
        else:
            yield name, layer


def _weight_name(layer: Any, variable: Any) -> str:
    """`kernel`, `query/kernel`: what comes after the layer's own name."""
    text: str = getattr(variable, "path", None) or variable.name
    text = re.sub(r":\d+$", "", text)
    _, found, rest = ("/" + text).rpartition("/" + layer.name + "/")
    weight = rest if found else text.rpartition("/")[2]
    if hasattr(layer, "cell"):  # of lstm/lstm_cell/kernel
        weight = weight.rpartition("/")[2]
    if type(layer).__name__ == "LayerScale":  # Keras 3 gives it no name
        return "gamma"
    # Keras 2 calls it so; its separable layers keep the word in both.
    if type(layer).__name__.startswith("DepthwiseConv") and weight == "depthwise_kernel":
        return "kernel"
    return weight


def variable_names(model: Any) -> Dict[str, Any]:
    """Name of the job's variable -> the model's. ValueError if two have one name."""
    out: Dict[str, Any] = {}
    for name, layer in _layers(model):
        if type(layer).__name__ in ("Normalization", "IntegerLookup"):
            continue  # a job has their numbers in the spec
        for variable in layer.weights:
            key = f"{name}/{_weight_name(layer, variable)}"
            if key in out:
                raise ValueError(f"two variables of the model are called {key}")
            out[key] = variable
    return out


def save_weights(model: Any, path: Path) -> None:
    """Writes the model's parameters as F32 safetensors, for `sluice submit --weights`."""
    client.save_safetensors(os.fspath(path), {
        name: np.asarray(variable.numpy(), np.float32)
        for name, variable in variable_names(model).items()})


def load_weights(model: Any, path: Path) -> None:
    """Gives a built model the parameters of a safetensors file, as `sluice export`
    writes it. ValueError names what is missing, left over or of another shape; the
    model is unchanged then."""
    tensors = client.load_safetensors(os.fspath(path))
    variables = variable_names(model)
    wrong = [f"{name} is not in the file" for name in variables if name not in tensors]
    wrong += [f"{name} is no variable of the model" for name in tensors
              if name not in variables]
    wrong += [f"{name} is {tensors[name].shape} in the file, "
              f"{tuple(variable.shape)} in the model"
              for name, variable in variables.items()
              if name in tensors and tensors[name].shape != tuple(variable.shape)]
    # A layer of two models is two layers of a job: to_json() writes it twice.
    first: Dict[int, str] = {}
    for name, variable in variables.items():
        other = first.setdefault(id(variable), name)
        if not wrong and not np.array_equal(tensors[name], tensors[other]):
            wrong.append(f"{other} and {name} are one variable of the model")
    if wrong:
        more = f", and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise ValueError(f"{os.fspath(path)}: {'; '.join(wrong[:5])}{more}")
    for name, variable in variables.items():
        variable.assign(tensors[name])


def load_job(model: Any, job: str, coordinator: Optional[str] = None, *,
             tls: Tls = None) -> Any:
    """Gives a built model the parameters of a job's newest checkpoint, and returns it.
    The job is one of `sluice import`; its file makes the model again, as
    keras.models.model_from_json(text). ValueError as of load_weights."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "job.safetensors")
        client.export(job, coordinator, tls=tls, to=path)
        load_weights(model, path)
    return model
