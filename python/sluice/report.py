# SPDX-License-Identifier: Apache-2.0
"""A job in the tools that people look at: MLflow, Weights & Biases, a progress bar.

    job = sluice.submit(spec)
    sluice.report.bar(job)             # tqdm
    sluice.report.mlflow(job)          # a run of MLflow; wandb(job) one of W&B

Each watches a job until it has ended, as `sluice watch` does, and returns its last
status, also that of a job which failed; the job itself needs none of them, and goes on
without. Values are those of docs/observe.md: loss, accuracy and samples_per_second of
the training, validation/loss, validation/accuracy and validation/<metric> of evaluations,
over the steps that are counted. The tool is imported when it is asked for: ImportError
says that it is not there.
"""
from __future__ import annotations

import importlib
from typing import Any, Dict, Iterator, Optional, Tuple

from . import client
from .session import Tls

__all__ = ["bar", "mlflow", "wandb"]

Json = client.Json
Point = Tuple[int, Dict[str, float]]

PARAMS, PARAM_TEXT = 100, 500  # of MLflow: parameters of a call, characters of each


def _evaluated(one: Json) -> Dict[str, float]:
    values = {key: one.get(key) for key in ("loss", "accuracy")}
    values.update({m["name"]: m.get("value") for m in one.get("metrics", ())})
    return {f"validation/{name}": float(value) for name, value in values.items()
            if value is not None}


class _Points:
    """What is new in each status: a point of the training where steps were counted since
    the last, and each evaluation once, at the steps that it was made after."""

    def __init__(self) -> None:
        self.step, self.evaluations = -1, 0

    def take(self, status: Json) -> Iterator[Point]:
        step = int(status.get("steps_counted", 0))
        made = status.get("evaluations", [])
        for one in made[self.evaluations:]:
            yield int(one.get("steps", 0)) or step, _evaluated(one)
        self.evaluations = max(self.evaluations, len(made))
        values = {name: float(status[key]) for name, key in (
            ("loss", "loss"), ("accuracy", "accuracy"),
            ("samples_per_second", "images_per_second")) if status.get(key) is not None}
        if values and step != self.step:
            yield step, values
        self.step = step


def _flat(spec: Any, name: str = "") -> Iterator[Tuple[str, str]]:
    """Each value of a spec with its path: train.batch, model.layers.0.units."""
    parts = (spec.items() if isinstance(spec, dict) else
             enumerate(spec) if isinstance(spec, list) else None)
    if parts is None:
        yield name, str(spec)
        return
    for key, value in parts:
        yield from _flat(value, f"{name}.{key}" if name else str(key))


def _statuses(job: str, coordinator: Optional[str], tls: Tls) -> Iterator[Json]:
    """What `watch` yields; in place of the summary at the end, which has no loss, the
    status that it is made of. A job that failed ends it as any other does."""
    last: Json = {}
    try:
        for told in client.watch(job, coordinator, tls=tls):
            last = (client.status(job, coordinator, tls=tls) if "schema_version" in told
                    else told)
            yield last
    except client.CommandError:
        if last.get("state") not in client.ENDED:
            raise


def _spec(job: str, coordinator: Optional[str], tls: Tls) -> Json:
    return dict(client.status(job, coordinator, tls=tls).get("spec") or {})


def mlflow(job: str, coordinator: Optional[str] = None, *, tls: Tls = None,
           **run: Any) -> Json:
    """Logs the job to MLflow's active run, or to a run of its own that ends with it, whose
    arguments (experiment_id, tags, ...) are `run`; its name is the job's. Parameters are
    the keys of the spec, as train.batch."""
    tool = importlib.import_module("mlflow")
    spec, points, last = _spec(job, coordinator, tls), _Points(), {}
    own = tool.active_run() is None
    if own:
        tool.start_run(**{"run_name": f"{spec.get('name', '')} {job}".strip(), **run})
    state = "KILLED"
    try:
        tool.set_tag("sluice.job", job)
        params = [(key, text[:PARAM_TEXT]) for key, text in _flat(spec)]
        for at in range(0, len(params), PARAMS):
            tool.log_params(dict(params[at:at + PARAMS]))
        for last in _statuses(job, coordinator, tls):
            for step, values in points.take(last):
                tool.log_metrics(values, step=step)
        state = {"finished": "FINISHED", "stopped": "KILLED"}.get(
            str(last.get("state")), "FAILED")
    finally:
        if own:
            tool.end_run(state)
    return last


def wandb(job: str, coordinator: Optional[str] = None, *, tls: Tls = None,
          **run: Any) -> Json:
    """The same for the present run of Weights & Biases, or one of its own that ends with
    the job, with `run` for wandb.init (project, entity, ...); the spec is its config. A
    run takes no step before its last, so that an evaluation stands where it was heard of,
    and has its own number as validation/step."""
    tool = importlib.import_module("wandb")
    spec, points, last = _spec(job, coordinator, tls), _Points(), {}
    own, at = tool.run is None, 0
    into = tool.init(**{"name": f"{spec.get('name', '')} {job}".strip(), "config": spec,
                        **run}) if own else tool.run
    code = 1
    try:
        for last in _statuses(job, coordinator, tls):
            for step, values in points.take(last):
                if any(name.startswith("validation/") for name in values):
                    values["validation/step"] = step
                at = max(at, step, int(last.get("steps_counted", 0)))
                into.log(values, step=at)
        code = int(last.get("state") not in ("finished", "stopped"))
    finally:
        if own:
            into.finish(exit_code=code)
    return last


def bar(job: str, coordinator: Optional[str] = None, *, tls: Tls = None,
        **options: Any) -> Json:
    """Shows the job's steps as a bar of tqdm, with loss and accuracy; `options` are
    tqdm's. A job that falls back, after the loss of a psserver, moves it back."""
    last: Json = {}
    with importlib.import_module("tqdm.auto").tqdm(
            **{"desc": str(job), "unit": "step", **options}) as shown:
        for last in _statuses(job, coordinator, tls):
            shown.total = int(last.get("steps_asked", 0)) or None
            shown.n = int(last.get("steps_counted", 0))
            told = {"state": str(last.get("state", ""))}
            told.update((name, f"{float(last[name]):.4g}") for name in ("loss", "accuracy")
                        if last.get(name) is not None)
            shown.set_postfix(told, refresh=False)
            shown.refresh()
    return last
