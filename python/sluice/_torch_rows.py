# SPDX-License-Identifier: Apache-2.0
"""Rows of sparse tables in a torch model."""
from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

Pull = Callable[[str, Any], Any]
LEAST = torch.finfo(torch.float32).tiny  # divides the zeros of a bag without ids
bags = torch.nn.functional.embedding_bag


class TableLayer(torch.nn.Module):
    """What layers of a sparse table share: rows of ids, and the rows that a step has
    pulled, whose gradients the Trainer pushes."""

    def __init__(self, name: str, dim: int, padding_idx: Optional[int] = None,
                 **table: Any) -> None:
        super().__init__()
        if padding_idx is not None and not -1 << 63 <= padding_idx < 1 << 64:
            raise ValueError(f"table {name}: padding_idx {padding_idx}: ids have 64 bits")
        self.name, self.dim, self.padding_idx = name, dim, padding_idx
        self.table: Dict[str, Any] = {"name": name, "dim": dim, **table}
        self.pulled: List[Tuple[Any, torch.Tensor]] = []  # (ids, rows) of this step
        self._pull: Optional[weakref.WeakMethod[Pull]] = None

    def attach(self, pull: Pull) -> None:
        """Rows come from `pull`, a method, as long as its object is there."""
        self._pull = weakref.WeakMethod(pull)

    def __getstate__(self) -> Dict[str, Any]:
        """A copy has no Trainer."""
        return {**self.__dict__, "pulled": [], "_pull": None}

    def padded(self, ids: torch.Tensor) -> torch.Tensor:
        """Where ids, with a sign, are padding."""
        padding = self.padding_idx
        if padding is None:
            return torch.zeros_like(ids, dtype=torch.bool)
        return ids == (padding if padding < 1 << 63 else padding - (1 << 64))

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """The rows of ids, with a sign, as they are now, of shape (*ids.shape, dim);
        those of padding are zeros, which no psserver is asked for."""
        if self.padding_idx is None:
            return self._rows(ids)
        there = ~self.padded(ids)
        rows = self._rows(ids[there])
        return rows.new_zeros(*ids.shape, self.dim).masked_scatter(
            there.unsqueeze(-1), rows)

    def _rows(self, ids: torch.Tensor) -> torch.Tensor:
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
        padding = self.padding_idx
        return f"{self.name!r}, {self.dim}" + (
            "" if padding is None else f", padding_idx={padding}")


class Embedding(TableLayer):
    """A sparse table of the job (docs/bring-your-own.md#sparse-tables) as a layer: of
    ids of any shape, which are whole numbers of 64 bits, the rows, of shape (*ids.shape,
    dim). There is no vocabulary, and the rows are no parameters of the model: they lie
    on the psservers, are read as they are when the layer is called, and their gradients
    leave at the end of the step.

        self.users = sluice.torch.Embedding("users", 16, initializer="random_uniform",
                                            optimizer={"type": "rowwise_adagrad",
                                                       "learning_rate": 0.05})

    name, dim   of the table; one name is one table
    padding_idx an id whose row is zeros, is not pulled and has no gradient. There is no
                vocabulary, so a negative one does not count from its end: it is the id
    table       more of it, as a job has it: optimizer (else the job's), initializer,
                admit, evict, buckets

    It is called between a batch and its `step`, also for an evaluation. `load` and
    `save` of a Trainer have no rows, and its `clip_norm` and `clip_value` are of the
    parameters alone.
    """

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.rows(whole(ids))


class EmbeddingBag(TableLayer):
    """A sparse table as a layer that sums or averages the rows of each bag of ids, as
    torch.nn.EmbeddingBag does: of ids of shape (bags, n), or of (total,) with the
    `offsets` at which bags begin, a tensor of shape (bags, dim). A bag without ids gives
    zeros. Each distinct id of a call is pulled once and has one gradient.

        self.liked = sluice.torch.EmbeddingBag("liked", 16, mode="sum")

    mode        "sum", "mean", or "sqrtn": the sum divided by the root of the number of
                ids, as in TensorFlow
    padding_idx an id that is left out of its bags, and of their numbers of ids
    table       as of an `Embedding`, which says when the layer can be called

    `per_sample_weights`, one for each id, are of the modes sum and sqrtn; sqrtn divides
    by the root of the sum of their squares.
    """

    MODES = ("sum", "mean", "sqrtn")

    def __init__(self, name: str, dim: int, mode: str = "mean",
                 padding_idx: Optional[int] = None, **table: Any) -> None:
        super().__init__(name, dim, padding_idx, **table)
        if mode not in self.MODES:
            raise ValueError(f"table {name}: mode {mode!r}: known are "
                             f"{', '.join(self.MODES)}")
        self.mode = mode

    def forward(self, ids: torch.Tensor, offsets: Optional[torch.Tensor] = None,
                per_sample_weights: Optional[torch.Tensor] = None) -> torch.Tensor:
        distinct, places = torch.unique(whole(ids), return_inverse=True)
        rows, padding = self.rows(distinct), self.padded(distinct).nonzero()
        said: Dict[str, Any] = {"offsets": offsets,
                                "padding_idx": int(padding) if len(padding) else None}
        if self.mode != "sqrtn":
            return bags(places, rows, mode=self.mode,
                        per_sample_weights=per_sample_weights, **said)
        weights = (torch.ones_like(places, dtype=rows.dtype)
                   if per_sample_weights is None else per_sample_weights)
        squares = bags(places, torch.ones_like(rows[:, :1]), mode="sum",
                       per_sample_weights=weights.square(), **said)
        return bags(places, rows, mode="sum", per_sample_weights=weights, **said
                    ) / squares.clamp(min=LEAST).sqrt()

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, mode={self.mode!r}"


def whole(ids: torch.Tensor) -> torch.Tensor:
    """Ids as numbers of 64 bits with a sign, which torch compares and sorts."""
    if ids.dtype == torch.uint64:
        return ids.view(torch.int64)
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise TypeError(f"ids: whole numbers are wanted, not {ids.dtype}")
    return ids.long()


def tables_of(model: torch.nn.Module) -> List[TableLayer]:
    """Those layers of a model that are tables; ValueError if two have one name."""
    found = [m for m in model.modules() if isinstance(m, TableLayer)]
    names = [m.name for m in found]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise ValueError(f"table {twice[0]} is that of two layers: one name is one "
                         "table; call one module twice instead")
    return found
