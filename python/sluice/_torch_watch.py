# SPDX-License-Identifier: Apache-2.0
"""What a program of torch changes of a model while psservers have its parameters.

A loop of torch's own may replace a parameter, set a rate or step an optimizer, and
goes on with it. Here the values are the job's, so `Watch` looks at each step and
refuses, by name, what nobody but this program would know of.
"""
from __future__ import annotations

import itertools
import warnings
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from torch.nn.modules import module
from torch.optim import optimizer as optim

__all__ = ["Watch"]

LOOKED = 2  # parameters that are looked at in a step, in turn, at about 1 us each


class Watch:
    """Looks at a model, and at the optimizer that names its parameters.

    trained    those whose values are the job's, with their names
    optimizer  of torch, whose rates the job has; None if it is said otherwise
    scheduled  the job changes the rates, so what the optimizer says does not matter
    """

    def __init__(self, model: torch.nn.Module,
                 trained: Sequence[Tuple[str, torch.nn.Parameter]],
                 optimizer: Optional[torch.optim.Optimizer], scheduled: bool) -> None:
        self._model, self._trained = model, list(trained)
        self._ids = {id(p) for _, p in trained}
        self._known = {id(p): n for n, p in model.named_parameters()}
        self._groups = [] if optimizer is None else optimizer.param_groups
        theirs = {id(p) for group in self._groups for p in group["params"]}
        self._frozen = [(n, p) for n, p in model.named_parameters()
                        if id(p) not in self._ids
                        and (optimizer is None or id(p) in theirs)]
        self._rates = [] if scheduled else [g["lr"] for g in self._groups]
        self._count = len(self._groups)
        self._registered = False  # a module was given a parameter or a module
        self._place = 0  # of the parameter that is looked at next
        self._marks: List[Tuple[int, int]] = []  # of each: where it lies, its version
        self._sent: Optional[Tuple[torch.Tensor, int]] = None
        self._kept: List[Tuple[torch.Tensor, Optional[torch.Tensor]]] = []
        self._handles: List[Any] = []
        self._told = False

    # ---- between the first batch and the end

    def begin(self) -> None:
        """The parameters lie where they will stay."""
        self.written()
        self._registered = True
        if not self._handles:
            self._handles = [
                module.register_module_parameter_registration_hook(self._register),
                module.register_module_module_registration_hook(self._register),
                optim.register_optimizer_step_pre_hook(self._before),
                optim.register_optimizer_step_post_hook(self._after)]

    def written(self) -> None:
        """The values were written by us."""
        self._marks = [(p.data_ptr(), p._version) for _, p in self._trained]

    def end(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles, self._sent = [], None

    # ---- of each step

    def look(self) -> None:
        """Refuses what the program has changed since the step before."""
        if self._registered:
            self._look_at_model()
        for n, p in self._frozen:
            if p.requires_grad:
                raise ValueError(
                    f"{n} requires a gradient now, and was no variable of the job when "
                    "the Trainer was made: begin another job with it (float32 ones "
                    "of an optimizer of torch are variables, frozen or not)")
        if len(self._groups) != self._count:
            raise ValueError(
                "the optimizer was given another group of parameters after the Trainer "
                "was made: give it all of them before (frozen ones are left alone)")
        for group, rate in zip(self._groups, self._rates):
            if group["lr"] != rate:
                raise ValueError(
                    f"the optimizer's lr was set from {rate:g} to {group['lr']:g}, which "
                    "psservers do not see: give the Trainer the scheduler, as "
                    "Trainer(scheduler=...)")
        for n, p in self._trained[self._place:self._place + LOOKED]:
            address, version = self._marks[self._place]
            if p._version != version or p.data_ptr() != address:
                self._refuse(n, p, address)
            self._place += 1
        if self._place == len(self._trained):
            self._place = 0

    @staticmethod
    def _refuse(n: str, p: torch.Tensor, address: int) -> None:
        if p.data_ptr() != address:
            raise ValueError(
                f"the data of {n} was replaced after the Trainer was made ({p.dtype}, "
                f"{p.device}): give a model that is where and what it is to be "
                "(model.to before the Trainer), and leave p.data alone")
        raise ValueError(
            f"{n} was written to by the program: its values are the job's, and what is "
            "written here is lost with the next batch (first values: before the Trainer "
            "is made)")

    def _look_at_model(self) -> None:
        self._registered = False
        names = set(self._known.values())
        for n, p in self._model.named_parameters():
            if p.requires_grad and id(p) not in self._known:
                raise ValueError(
                    f"{n} was {'replaced' if n in names else 'added'} after the Trainer "
                    "was made, and is no variable of the job: change the model before, "
                    "or begin another job with it")

    def _register(self, *_: Any) -> None:
        self._registered = True

    # ---- gradients that have left

    def sent(self, gradient: Optional[torch.Tensor]) -> None:
        """This gradient, as the others, is on its way."""
        self._sent = None if gradient is None else (gradient, gradient._version)

    def left(self) -> None:
        """Refuses what was done to gradients since."""
        sent, self._sent = self._sent, None
        if sent is not None and sent[0]._version != sent[1]:
            raise RuntimeError(
                "the gradients were changed after t.step, which had sent them "
                "(clip_grad_norm_, scaler.unscale_, zero_grad(set_to_none=False)): say "
                "Trainer(clip_norm=...) and t.step(..., scaler=...), and leave it out")

    # ---- optimizers that the program steps

    def _before(self, optimizer: torch.optim.Optimizer, args: Tuple[Any, ...],
                words: Dict[str, Any]) -> None:
        """Takes the gradients away from an optimizer that has parameters of the job's,
        so that it leaves them alone."""
        ours = [p for group in optimizer.param_groups for p in group["params"]
                if id(p) in self._ids]
        if not ours:
            return
        kind = type(optimizer).__name__
        if any(callable(a) for a in itertools.chain(args[1:], words.values())):
            raise RuntimeError(f"{kind}.step(closure) computes gradients of the job's "
                               "parameters: t.step does, and psservers step")
        self._kept = [(p, p.grad) for p in ours]
        for p in ours:
            p.grad = None
        if not self._told:
            self._told = True
            warnings.warn(f"{kind}.step() does nothing to parameters that a Trainer "
                          "trains: psservers step their optimizer; leave it out",
                          stacklevel=3)

    def _after(self, *_: Any) -> None:
        for p, gradient in self._kept:
            p.grad = gradient
        self._kept = []
