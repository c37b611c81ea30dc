# SPDX-License-Identifier: Apache-2.0
"""A trained job as a folder that Hugging Face's hub takes as it is.

    python3 -m sluice.hub j-7 --to fashion        # then: hf upload NAME fashion
    to_folder(client.status("j-7"), client.export("j-7"), "fashion")

README.md is the model card: what the hub lists it by, the results of the last
evaluation, and how to use the files. config.json has the model as a job's spec says it,
model.safetensors its values by name. model.onnx is there where PyPI's onnx is installed
and ONNX can say the model; else the command says why it is not.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
from typing import Any, Dict, List, Optional, Sequence, Union

from . import client, onnx

__all__ = ["to_folder"]

Json = client.Json
Path = Union[str, "os.PathLike[str]"]

ONNX_USE = """
```python
import onnxruntime
model = onnxruntime.InferenceSession("model.onnx")
y = model.run(None, {{"input": x}})[0]      # x: float32 of shape (samples, {shape})
```
"""
VALUES_USE = """
`model.safetensors` has {count:,} values as {dtype}, by the names of `config.json`'s
layers, in Keras' layout:

```python
from sluice.client import load_safetensors
values = load_safetensors("model.safetensors")
```
"""


def _figures(status: Json) -> Dict[str, float]:
    """The figures of the last evaluation that has a result, by name."""
    done = [e for e in status.get("evaluations", []) if not e.get("failed")]
    last = done[-1] if done else {}
    found = {key: last[key] for key in ("loss", "accuracy") if key in last}
    found.update({m["name"]: m["value"] for m in last.get("metrics", []) if "value" in m})
    return {name: float(value) for name, value in found.items()}


def _front(name: str, spec: Json, figures: Dict[str, float], has_onnx: bool) -> Json:
    """What the hub reads of a card: JSON is YAML."""
    data = spec.get("data", {})
    test: Json = data.get("test") or data.get("train") or {}
    results = [{"task": {"type": "other"},
                "dataset": {"name": "data.test", "type": str(test.get("format", "other"))},
                "metrics": [{"type": key, "value": value} for key, value in figures.items()]}]
    front: Json = {"library_name": "sluice", "tags": ["sluice"] + ["onnx"] * has_onnx}
    if figures:
        front["model-index"] = [{"name": name, "results": results}]
    return front


def _losses(spec: Json) -> str:
    """The loss, or those of several outputs."""
    return ", ".join(f"{part['loss']} of `{part['output']}`" for part in spec.get("losses", [])
                     ) or str(spec.get("loss"))


def _card(status: Json, tensors: client.Tensors, has_onnx: bool) -> str:
    spec = status["spec"]
    model, name = spec["model"], str(spec.get("name") or status["id"])
    figures = _figures(status)
    shape = ", ".join(str(n) for n in model.get("input_shape", []))
    lines: List[str] = ["---"]
    lines += [f"{key}: {json.dumps(value)}" for key, value in
              _front(name, spec, figures, has_onnx).items()]
    lines += ["---", "", f"# {name}", "",
              f"Trained with Sluice: {int(status.get('steps_counted', 0)):,} steps, "
              f"each counted once, of job {status['id']}, with the loss {_losses(spec)}.", "",
              f"A sample has the shape ({shape}), and the model these layers:", ""]
    lines += [f"- `{layer.get('name', layer['type'])}`: {layer['type']}"
              for layer in model.get("layers", [])]
    if figures:
        lines += ["", "| last evaluation | |", "| --- | --- |"]
        lines += [f"| {key} | {value:.6g} |" for key, value in figures.items()]
    count = sum(t.size for t in tensors.values())
    return ("\n".join(lines) + "\n" + (ONNX_USE.format(shape=shape) if has_onnx else "")
            + VALUES_USE.format(count=count, dtype="float32"))


def to_folder(status: Json, tensors: client.Tensors, folder: Path) -> Optional[str]:
    """Writes the files of a job, of which `status` and export() gave what there is, into
    the folder, which is made. Returns None, or why there is no model.onnx."""
    if status["spec"]["model"].get("type") == "external":
        raise ValueError("a program's own model is its framework's to save: a job has its "
                         "values alone")
    at = pathlib.Path(folder)
    at.mkdir(parents=True, exist_ok=True)
    why = None
    (at / "model.onnx").unlink(missing_ok=True)
    (at / "model.onnx.data").unlink(missing_ok=True)
    try:
        onnx.to_onnx(status["spec"], tensors, str(at / "model.onnx"))
    except ModuleNotFoundError as error:
        why = f"{error}: pip install onnx"
    except ValueError as error:
        why = str(error)
    client.save_safetensors(str(at / "model.safetensors"), tensors)
    config: Dict[str, Any] = {"library_name": "sluice", "model": status["spec"]["model"]}
    config.update({key: status["spec"][key] for key in ("loss", "losses")
                   if status["spec"].get(key)})
    (at / "config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")
    (at / "README.md").write_text(_card(status, tensors, why is None), "utf-8")
    return why


def main(words: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python3 -m sluice.hub",
        description="Writes a job's model as a folder for Hugging Face's hub.",
        epilog="Example: python3 -m sluice.hub j-7 --to fashion && hf upload NAME fashion")
    parser.add_argument("job")
    parser.add_argument("--to", required=True, metavar="FOLDER", help="the folder to write")
    parser.add_argument("--coordinator", help="its address; else as the sluice command's")
    parser.add_argument("--tls", help="certs/client, of certs/client.crt and .key")
    said = parser.parse_args(words)
    try:
        status = client.status(said.job, said.coordinator, tls=said.tls)
        why = to_folder(status, client.export(said.job, said.coordinator, tls=said.tls), said.to)
    except (client.CommandError, OSError, ValueError) as error:
        sys.exit(f"sluice.hub: {error}")
    for file in sorted(os.listdir(said.to)):
        print(pathlib.Path(said.to) / file)
    if why is not None:
        print(f"sluice.hub: no model.onnx: {why}", file=sys.stderr)


if __name__ == "__main__":
    main()
