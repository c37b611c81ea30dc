# SPDX-License-Identifier: Apache-2.0
"""A live Keras model as a job of Sluice's own workers, which need no Python.

    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    data = {"train": {"format": "npz", "x": "train.npz"}}
    job = sluice.keras.submit(model, data, batch_size=64, epochs=5)
    sluice.keras.load_job(model, job)          # what it has learnt, once it has ended

The model is what `sluice import` makes of model.to_json(), under the same names, and
what adapt() of Normalization, Discretization and IntegerLookup found, which that JSON
lacks; join_inputs makes the samples of one that has several inputs, and join_labels
the labels of one that has several outputs.
CommandError says which layer or option a job cannot have. Works with models of
Keras 3 and of Keras 2 (`tf.keras`, `tf_keras`), and imports neither. The JSON of
Keras 2 has neither optimizer nor loss: give them in `spec`.
"""
from __future__ import annotations

import json
import math
import os
import pathlib
import tempfile
from typing import Any, List, Mapping, Optional, Sequence, Union

import numpy

from . import client
from .keras_weights import Path, _layers, layer_name, save_weights
from .session import Tls

__all__ = ["join_inputs", "join_labels", "submit", "to_job"]

Json = client.Json


def _whole_paths(data: Mapping[str, Any]) -> Json:
    """The sets, with files as seen from this process's folder; a place, as s3://, stays."""
    def whole(part: Mapping[str, Any], key: str, value: Any) -> Any:
        files = ("x", "y", "sample_weight") if part.get("y") else ("x",)
        is_file = (key in files and isinstance(value, (str, os.PathLike))
                   and "://" not in str(value))
        return os.path.abspath(value) if is_file else value
    return {name: {key: whole(part, key, value) for key, value in part.items()}
            if isinstance(part, Mapping) else part for name, part in data.items()}


def _class_weights(model: Any, weights: Mapping[int, float]) -> list[float]:
    """The weights of all classes, as fit takes them by class: 1 for those it lacks."""
    if len(model.outputs) > 1:
        raise ValueError("class_weight: the model has several outputs, and classes are of one; "
                         "weigh samples, with sample_weight of the data")
    outputs = int(model.output_shape[-1])
    classes = 2 if outputs == 1 else outputs
    if strange := [c for c in weights if c not in range(classes)]:
        raise ValueError(f"class_weight: the model has the classes 0 to {classes - 1}, "
                         f"not {strange[0]}")
    return [float(weights.get(c, 1)) for c in range(classes)]


def _learnt(layer: Any) -> Json:
    """What adapt() of a layer found, as arguments that its class takes."""
    kind = type(layer).__name__
    if kind == "Normalization" and layer.weights:
        mean, variance = layer.get_weights()[:2]
        return {"mean": mean.tolist(), "variance": variance.tolist()}
    if kind == "Discretization" and layer.bin_boundaries is not None:
        return {"bin_boundaries": [float(b) for b in layer.bin_boundaries]}
    if kind == "IntegerLookup":
        known = layer.get_vocabulary(include_special_tokens=False)
        return {"vocabulary": [int(v) for v in known]} if len(known) else {}
    return {}


def _adapted(model: Any) -> str:
    """model.to_json(), with what adapt() of layers found, which Keras leaves out."""
    found = {path: learnt for path, layer in _layers(model) if (learnt := _learnt(layer))}

    def fill(part: Json, prefix: str) -> None:
        for layer in part["config"]["layers"]:
            config = layer["config"]
            path = prefix + layer_name(config["name"])
            if "layers" in config:
                fill(layer, path + ".")
            config.update(found.get(path, {}))
    parts = json.loads(model.to_json())
    if found:
        fill(parts, "")
    return json.dumps(parts)


def _rows(arrays: Union[Sequence[Any], Mapping[str, Any]], names: Sequence[str],
          what: str, of: str = "") -> List[Any]:
    """The arrays in the order of `names`, each as a row of f32 for a sample. `what`, with
    the plural's s, and `of` say in errors what they are."""
    if isinstance(arrays, Mapping):
        if set(arrays) != set(names):
            raise ValueError(f"the model's {what} are {', '.join(names)}, not "
                             f"{', '.join(map(str, arrays))}")
        arrays = [arrays[name] for name in names]
    if len(arrays) != len(names):
        raise ValueError(f"the model has {len(names)} {what}, and here are {of}{len(arrays)}")
    return [numpy.asarray(array, "f4").reshape(len(array), -1) for array in arrays]


def join_inputs(model: Any, arrays: Union[Sequence[Any], Mapping[str, Any]]) -> Any:
    """The samples of a model with several inputs as one array of f32, (samples, numbers),
    for `x` of the job's data. `arrays` are in the order of model.inputs, or by the names
    of the Input layers."""
    listed = model.get_config()["input_layers"]
    listed = list(listed.values()) if isinstance(listed, Mapping) else listed
    if isinstance(listed[0], str):
        listed = [listed]  # one input
    names = [entry[0] for entry in listed]
    flat = _rows(arrays, names, "inputs")
    shapes = {name: model.get_layer(name).output.shape[1:] for name in names}
    for name, part in zip(names, flat):
        if part.shape[1] != math.prod(shapes[name]):
            raise ValueError(f"input '{name}' wants {tuple(shapes[name])} for a sample, not "
                             f"{part.shape[1]} numbers")
    return numpy.concatenate(flat, axis=1)


def join_labels(model: Any, arrays: Union[Sequence[Any], Mapping[str, Any]]) -> Any:
    """The labels of a model with several outputs as one array of f32, (samples, numbers),
    for `y` of the job's data: of a sparse_categorical_crossentropy the class, of all other
    losses as many numbers as the output has. `arrays` are in the order of model.outputs, or
    by the names of the outputs."""
    return numpy.concatenate(
        _rows(arrays, list(model.output_names), "outputs", "labels of "), axis=1)


def to_job(model: Any, data: Optional[Mapping[str, Any]] = None, *,
           batch_size: Optional[int] = None, epochs: Optional[int] = None,
           class_weight: Optional[Mapping[int, float]] = None,
           spec: Optional[Mapping[str, Any]] = None) -> Json:
    """The job spec of a built model, for client.submit or a file. `data` is the spec's
    `data`, whose relative paths are of this process's folder; `class_weight` is as in
    fit; `spec` has any other keys and wins over what the model was compiled with. What
    is missing yet is left out."""
    base = dict(spec or {})
    if data is not None:
        base["data"] = _whole_paths(data)
    train: Json = {name: value for name, value in (("batch", batch_size), ("epochs", epochs))
             if value is not None}
    if class_weight is not None:
        train["class_weight"] = _class_weights(model, class_weight)
    if train:
        base["train"] = {**base.get("train", {}), **train}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "model.json").write_text(_adapted(model))
        (folder / "base.json").write_text(json.dumps(base))
        client.run(["import", str(folder / "model.json"), "-o", str(folder / "job.json"),
                    "--base", str(folder / "base.json")])
        job: Json = json.loads((folder / "job.json").read_text())
    return job


def submit(model: Any, data: Mapping[str, Any], coordinator: Optional[str] = None, *,
           batch_size: Optional[int] = None, epochs: Optional[int] = None,
           class_weight: Optional[Mapping[int, float]] = None,
           spec: Optional[Mapping[str, Any]] = None, weights: Optional[Path] = None,
           tls: Tls = None, request_id: Optional[str] = None) -> client.Job:
    """Submits to_job(...) and returns the job's id, as "j-7". With `weights`, a path
    that psservers can read, the model's present values are written there, and the job
    starts with them; else with values that its initializers draw."""
    job = to_job(model, data, batch_size=batch_size, epochs=epochs,
                 class_weight=class_weight, spec=spec)
    if weights is not None:
        weights = os.path.abspath(weights)
        save_weights(model, weights)
    return client.submit(job, coordinator, tls=tls, request_id=request_id,
                         weights=weights)
