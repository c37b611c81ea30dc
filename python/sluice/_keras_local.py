# SPDX-License-Identifier: Apache-2.0
"""Mode local in Keras: the optimizer that the model was compiled with takes the steps
of a contribution.

The rate of a step depends on its number alone, and that on the closure: a schedule goes
on as if one program took all steps, whoever computes them. Bias corrections count the
steps since the slots began, as an optimizer's own counter does.
"""
from __future__ import annotations

from typing import Any

import keras

__all__ = ["Inner"]


class Inner:
    """The optimizer, as the model has it meanwhile; `optimizer` of Keras is unchanged.

    ValueError: it scales the loss or accumulates, which the steps of a contribution do
    not."""

    def __init__(self, optimizer: Any, model: Any) -> None:
        if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
            raise ValueError("mode 'local' has no loss scale: compute in mixed_bfloat16, "
                             "which needs none")
        if getattr(optimizer, "gradient_accumulation_steps", None):
            raise ValueError("gradient_accumulation_steps: in mode 'local' each batch is a "
                             "step; take a larger batch_size")
        config = optimizer.get_config()
        self._schedule: Any = None
        rate = optimizer._learning_rate
        if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
            self._schedule = rate
            config["learning_rate"] = self._rate(0)
        self.optimizer = type(optimizer).from_config(config)
        for name in ("_exclude_from_weight_decay", "_exclude_from_weight_decay_pattern"):
            if hasattr(optimizer, name):
                setattr(self.optimizer, name, getattr(optimizer, name))
        self.optimizer.build(model.trainable_variables)
        rate = self.optimizer._learning_rate
        self._slots = [v for v in self.optimizer.variables if v is not rate]
        self._first = [keras.ops.convert_to_numpy(v) for v in self._slots]

    def _rate(self, number: int) -> float:
        return float(keras.ops.convert_to_numpy(self._schedule(number)))

    def begin(self, number: int, reset: bool) -> None:
        """The step with this number is next."""
        if reset:
            for slot, first in zip(self._slots, self._first):
                slot.assign(first)
        if self._schedule is not None:
            self.optimizer.learning_rate = self._rate(number)

    # What callbacks see of the rate: they may set it, as in model.fit.

    _learning_rate = None

    def rate(self) -> float:
        return float(keras.ops.convert_to_numpy(self.optimizer.learning_rate))
