# SPDX-License-Identifier: Apache-2.0
"""Mode local in torch: the program's own optimizer, which takes the steps of a
contribution, and its rates.

The rate of a step depends on the step's number alone, and that on the closure: so a
schedule goes on as if one program took all steps, whoever computes them, and a
contribution that is computed again has the rates that it had before.
"""
from __future__ import annotations

import copy
import warnings
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

import torch

__all__ = ["Inner", "copied", "statistics"]

SCHEDULED = ("lr", "momentum", "betas", "weight_decay")  # what a scheduler may change


def copied(scheduler: Any) -> Any:
    """A copy to be stepped, of it and of its optimizer: parameters stay here."""
    none = torch.nn.Parameter(torch.zeros(()))  # stands for each
    return copy.deepcopy(scheduler, {
        id(p): none for group in scheduler.optimizer.param_groups for p in group["params"]})


def statistics(model: torch.nn.Module) -> List[Tuple[str, torch.Tensor]]:
    """The moving statistics of a model: its buffers of float32 that are finite and
    saved with it, as those of batch normalization."""
    saved = model.state_dict(keep_vars=True)
    return [(n, b) for n, b in model.named_buffers()
            if n in saved and b.dtype == torch.float32 and b.numel()
            and bool(torch.isfinite(b).all())]


class _Rates:
    """What a scheduler says of each step: a copy is stepped as far as is asked."""

    def __init__(self, scheduler: Any) -> None:
        kind = type(scheduler).__name__
        if kind == "ReduceLROnPlateau":
            raise ValueError("ReduceLROnPlateau is not offered: the rate of a step depends "
                             "on its number alone, and not on a loss")
        chain = scheduler._schedulers if kind == "ChainedScheduler" else [scheduler]
        if any(s.last_epoch != 0 for s in chain):
            raise ValueError(f"{kind} has been stepped: jobs begin at the first step")
        self._copy = copied(scheduler)
        self._of = [self._groups()]
        self._ended = False

    def _groups(self) -> List[Dict[str, Any]]:
        return [{k: group[k] for k in SCHEDULED if k in group}
                for group in self._copy.optimizer.param_groups]

    def at(self, number: int) -> List[Dict[str, Any]]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the copy's optimizer is not stepped
            while len(self._of) <= number and self._steps():
                self._of.append(self._groups())
        if number >= len(self._of) and not self._ended:
            self._ended = True
            warnings.warn(f"the scheduler ends before step {number}, and its last rates stay; "
                          "make it longer", stacklevel=2)
        return self._of[min(number, len(self._of) - 1)]

    def _steps(self) -> bool:
        try:
            self._copy.step()
        except ValueError:  # OneCycleLR behind its last step
            return False
        return True


class Inner:
    """The optimizer of the program's own steps.

    optimizer  of torch; None: the program steps by itself (`stepped`)
    scheduler  of that optimizer, or a function of the step's number that returns the
               rate; None: the rates stay as they are
    """

    def __init__(self, optimizer: Optional[torch.optim.Optimizer],
                 scheduler: Union[None, Callable[[int], float], Any]) -> None:
        if scheduler is not None and optimizer is None:
            raise ValueError("scheduler: it is of `inner`, the optimizer of the program's "
                             "steps, which is not said; a program that steps by itself "
                             "takes the rate by batch.number")
        self.optimizer = optimizer
        self._rates = (_Rates(scheduler) if hasattr(scheduler, "optimizer")
                       else scheduler)
        # Without a past: Adagrad's slots are there before the first step.
        self._none = None if optimizer is None else copy.deepcopy(
            optimizer.state_dict()["state"])

    def begin(self, number: int, reset: bool) -> None:
        """The step with this number is next."""
        if self.optimizer is None:
            return
        if reset:
            self.optimizer.load_state_dict({
                **self.optimizer.state_dict(), "state": copy.deepcopy(self._none)})
        if isinstance(self._rates, _Rates):
            for group, said in zip(self.optimizer.param_groups, self._rates.at(number)):
                group.update(said)
        elif self._rates is not None:
            for group in self.optimizer.param_groups:
                group["lr"] = self._rates(number)

    def step(self, scaler: Optional[Any]) -> None:
        """Updates the parameters by the gradients that they have."""
        assert self.optimizer is not None
        if scaler is None:
            self.optimizer.step()
        else:
            scaler.step(self.optimizer)
            scaler.update()
