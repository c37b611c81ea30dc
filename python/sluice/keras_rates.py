# SPDX-License-Identifier: Apache-2.0
"""Learning rates of Keras as a job has them: schedules, and callbacks that set the
rate of an epoch.

Psservers step the optimizer, by a schedule that is in the job. So a callback that
sets the rate is asked for the rate of every epoch before the job is submitted, as a
copy, and again while it trains, where it has to say the same.
"""
from __future__ import annotations

import contextlib
import copy
import dataclasses
import dis
import io
import math
from typing import Any, Dict, Iterator, List, Optional, Set

import keras

from ._program import Json

__all__ = ["Plan", "by_epoch", "planned", "schedule_of", "schedule_spec", "updates"]

_SCHEDULES = {"ExponentialDecay": "exponential_decay",
              "PiecewiseConstantDecay": "piecewise_constant_decay",
              "PolynomialDecay": "polynomial_decay",
              "InverseTimeDecay": "inverse_time_decay",
              "CosineDecay": "cosine_decay",
              "CosineDecayRestarts": "cosine_decay_restarts"}
PIECES = 32  # changes that a piecewise constant schedule may have
_RATES = ("learning_rate", "lr")
_BATCH_HOOKS = {"on_batch_begin", "on_batch_end", "on_train_batch_begin",
                "on_train_batch_end"}


# ---- schedules of Keras

def schedule_spec(schedule: Any) -> Json:
    """What an optimizer of a job says for a schedule object; ValueError."""
    kind = type(schedule).__name__
    if kind not in _SCHEDULES:
        raise ValueError(f"{kind} is no schedule of psservers: "
                         f"{', '.join(_SCHEDULES)} are, and a LearningRateScheduler")
    config = {k: v for k, v in schedule.get_config().items()
              if k != "name" and v is not None}
    rate = config.pop("initial_learning_rate", None)
    if "first_decay_steps" in config:
        config["decay_steps"] = config.pop("first_decay_steps")
    if "warmup_target" not in config:
        config.pop("warmup_steps", None)
    spec: Json = {"schedule": {"type": _SCHEDULES[kind], **config}}
    return spec if rate is None else {"learning_rate": float(rate), **spec}


def schedule_of(spec: Json) -> Any:
    """The inverse: what shows the rate of an optimizer of a job, a number or a
    schedule object; None where Keras has none of that kind."""
    said = spec.get("schedule")
    if said is None:
        return float(spec.get("learning_rate", 0.01 if spec.get("type") == "sgd"
                              else 0.001))
    kind = next((k for k, v in _SCHEDULES.items() if v == said.get("type")), None)
    if kind is None:
        return None
    config = {k: v for k, v in said.items() if k != "type"}
    if kind == "CosineDecayRestarts":
        config["first_decay_steps"] = config.pop("decay_steps")
    if kind != "PiecewiseConstantDecay":
        config["initial_learning_rate"] = float(spec.get("learning_rate", 0.001))
    return getattr(keras.optimizers.schedules, kind)(**config)


def updates(batches: int, mode: str, ranks: Optional[int], train: Json
            ) -> Optional[int]:
    """Updates of the job that an epoch of so many steps is; None: the job's first
    programs decide that."""
    at_once: Optional[int] = 1
    if mode == "hybrid":
        at_once = train.get("group", {}).get("size", ranks or 4)
    elif mode == "allreduce":
        at_once = train.get("contributions") or ranks or train.get(
            "workers", {}).get("max") or None
        if train.get("on_resize") == "scale":
            at_once = None
    return None if at_once is None else math.ceil(batches / at_once)


# ---- callbacks that set the rate

@dataclasses.dataclass
class Plan:
    """The rate of each epoch: when it begins, in it, and after its end; from `first`
    on."""

    first: int
    before: List[float]
    during: List[float]
    after: List[float]


def _stores(code: Any) -> bool:
    """Whether a function sets the rate of something that is not `self`."""
    own = code.co_varnames[:1]
    last: Any = None
    for step in dis.get_instructions(code):
        if step.opname == "CACHE":
            continue
        of_self = last is not None and last.opname.startswith("LOAD_FAST") and (
            last.argval[-1:] if isinstance(last.argval, tuple) else
            (last.argval,)) == own
        if step.opname == "STORE_ATTR" and step.argval in _RATES and not of_self:
            return True
        last = step
    names = set(code.co_names)
    if names & {"assign", "set_value"} and names & {*_RATES, "_learning_rate"}:
        return True
    return any(_stores(c) for c in code.co_consts if hasattr(c, "co_code"))


def _setting(callback: Any) -> Set[str]:
    """The callback's functions that set the rate, by name."""
    if isinstance(callback, keras.callbacks.LearningRateScheduler):
        return {"on_epoch_begin"}
    functions: Dict[str, Any] = {}
    for kind in reversed(type(callback).__mro__):
        if kind is not object and not kind.__module__.startswith("keras."):
            functions.update(vars(kind))
    functions.update(vars(callback))
    return {name for name, f in functions.items()
            if hasattr(f, "__code__") and _stores(f.__code__)}


def _refuse(callbacks: List[Any]) -> None:
    for callback in callbacks:
        name = type(callback).__name__
        if isinstance(callback, keras.callbacks.ReduceLROnPlateau):
            raise ValueError(
                f"{name}: psservers step the optimizer by the job's schedule, and a rate "
                "that depends on a metric is known to none of them. Give the optimizer a "
                "schedule (keras.optimizers.schedules), or use LearningRateScheduler; "
                "jobs of layers have callbacks.reduce_on_plateau (sluice import)")
        setting = _setting(callback) & _BATCH_HOOKS
        if setting:
            raise ValueError(
                f"{name}.{sorted(setting)[0]} sets the learning rate: psservers step the "
                "optimizer by the job's schedule. What changes within an epoch has to "
                "be a schedule of Keras (warm-up: CosineDecay(warmup_target=, "
                "warmup_steps=)); of an epoch on_epoch_begin may set it")


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def _copied(callback: Any, model: Any) -> Any:
    """One that may be asked without changing the callback; the model is not copied."""
    try:
        return copy.deepcopy(callback, {id(model): model})
    except Exception:  # pylint: disable=broad-except  # whatever it holds
        return copy.copy(callback)


def planned(told: Any, model: Any, optimizer: Any, first: int, end: int
            ) -> Optional[Plan]:
    """The rates of epochs [first, end) by the callbacks of the list `told`; None if
    none sets them. ValueError for a callback that sets it by anything but the epoch
    and the rate before."""
    _refuse(told.callbacks)
    setting = [c for c in told.callbacks if _setting(c)]
    if not setting:
        return None
    copies = [_copied(c, model) for c in setting]
    initial = optimizer.rate()
    plan = Plan(first, [], [], [])
    for c in copies:
        c.set_model(model)
    for epoch in range(first, end):
        for hook, to in (("", plan.before), ("on_epoch_begin", plan.during),
                         ("on_epoch_end", plan.after)):
            for c in copies:
                _ask(c, hook, epoch)
            to.append(optimizer.rate())
    optimizer.set_rate(initial)
    return plan


def _ask(callback: Any, hook: str, epoch: int) -> None:
    if not hook:
        return
    try:
        with _quietly():
            getattr(callback, hook)(epoch, {})
    except Exception as error:
        raise ValueError(
            f"{type(callback).__name__}.{hook} sets the learning rate, and is asked for "
            "that of each epoch before the job is submitted, when there are no metrics; "
            f"epoch {epoch} ended in {type(error).__name__}: {error}") from error


def by_epoch(spec: Json, plan: Plan, each: Optional[int]) -> Json:
    """The optimizer of a job with the rates of the plan; an epoch is so many
    updates."""
    rates = plan.during
    spec = {k: v for k, v in spec.items() if k not in ("learning_rate", "schedule")}
    changes = [i for i in range(1, len(rates)) if rates[i] != rates[i - 1]]
    if not changes:
        return {**spec, "learning_rate": rates[0]}
    if each is None:
        raise ValueError("a callback sets the rate of an epoch, which is a number of "
                         "updates: say how many batches make one, ranks=N")
    if len(changes) > PIECES:
        raise ValueError(f"the callbacks set {len(changes)} different rates one after "
                         f"another; {PIECES} changes are possible. Say a schedule of "
                         "Keras instead")
    return {**spec, "schedule": {
        "type": "piecewise_constant_decay",
        "boundaries": [i * each - 1 for i in changes],
        "values": [rates[0]] + [rates[i] for i in changes]}}
