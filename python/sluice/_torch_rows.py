# SPDX-License-Identifier: Apache-2.0
"""Rows of sparse tables in a torch model."""
from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

Pull = Callable[[str, Any], Any]


class Embedding(torch.nn.Module):
    """A sparse table of the job (docs/bring-your-own.md#sparse-tables) as a layer: of
    ids of any shape, which are whole numbers of 64 bits, the rows, of shape (*ids.shape,
    dim). There is no vocabulary, and the rows are no parameters of the model: they lie
    on the psservers, are read as they are when the layer is called, and their gradients
    leave at the end of the step.

        self.users = sluice.torch.Embedding("users", 16, initializer="random_uniform",
                                            optimizer={"type": "rowwise_adagrad",
                                                       "learning_rate": 0.05})

    name, dim   of the table; one name is one table
    table       more of it, as a job has it: optimizer (else the job's), initializer,
                admit, evict, buckets

    It is called between a batch and its `step`, also for an evaluation. `load` and
    `save` of a Trainer have no rows, and its `clip_norm` and `clip_value` are of the
    parameters alone.
    """

    def __init__(self, name: str, dim: int, **table: Any) -> None:
        super().__init__()
        self.name, self.dim = name, dim
        self.table: Dict[str, Any] = {"name": name, "dim": dim, **table}
        self.pulled: List[Tuple[Any, torch.Tensor]] = []  # (ids, rows) of this step
        self._pull: Optional[weakref.WeakMethod[Pull]] = None

    def attach(self, pull: Pull) -> None:
        """Rows come from `pull`, a method, as long as its object is there."""
        self._pull = weakref.WeakMethod(pull)

    def __getstate__(self) -> Dict[str, Any]:
        """A copy has no Trainer."""
        return {**self.__dict__, "pulled": [], "_pull": None}

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        pull = self._pull() if self._pull is not None else None
        if pull is None:
            raise RuntimeError(f"table {self.name}: its model has no Trainer")
        given = ids.detach().cpu().numpy()
        rows = torch.from_numpy(pull(self.name, given)).to(ids.device)
        if torch.is_grad_enabled():
            rows.requires_grad_()
            self.pulled.append((given, rows))
        return rows

    def extra_repr(self) -> str:
        return f"{self.name!r}, {self.dim}"


def embeddings_of(model: torch.nn.Module) -> List[Embedding]:
    """Those of a model; ValueError if two have one name."""
    found = [m for m in model.modules() if isinstance(m, Embedding)]
    names = [m.name for m in found]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise ValueError(f"table {twice[0]} is that of two Embeddings: one name is one "
                         "table; call one module twice instead")
    return found
