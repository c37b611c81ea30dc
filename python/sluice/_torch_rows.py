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

        self.users = sluice.torch.Embedding("users", 16, init=0.01,
                                            optimizer={"type": "rowwise_adagrad",
                                                       "learning_rate": 0.05})

    name, dim   of the table; one name is one table
    padding_idx an id whose row is zeros, is not pulled and has no gradient. There is no
                vocabulary, so a negative one does not count from its end: it is the id
    init        first values of an id: a number x, for a uniform draw from [-x, x), or an
                initializer, as "random_normal(0, 0.01)"
    table       more of it, as a job has it: optimizer (else the job's; also a name alone,
                "adagrad"), admit, evict, buckets; and `rows`, (ids, values), which a new
                job's table begins with

    It is called between a batch and its `step`, also for an evaluation. `load` and
    `save` of a Trainer have no rows, and warn of that; its `clip_norm` and `clip_value`
    are of the parameters alone.
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


NORMAL = "random_normal(0, 1)"  # what torch draws weights of embeddings from
Turned = (torch.nn.Embedding, torch.nn.EmbeddingBag)


def sparse(model: torch.nn.Module, keep_weights: bool = False,
           **table: Any) -> torch.nn.Module:
    """Turns each torch.nn.Embedding(sparse=True) and torch.nn.EmbeddingBag(sparse=True)
    of a model into a table of the name that the module has there. Changes the model in
    place and returns it. It is called before the optimizer is made.

        model = sluice.torch.sparse(Net(), optimizer={"type": "rowwise_adagrad",
                                                      "learning_rate": 0.05})

    keep_weights   tables of a new job begin with the weights, row i as that of id i
    table          of each of them, as of an `Embedding`

    padding_idx and the mode of a bag are kept. Without keep_weights the weights are
    dropped: rows begin as `init` draws them, by default from N(0, 1) as in torch. The
    number of embeddings is dropped as well, so an id beyond it is no error and has its
    row. Modules that were made with device="meta" never have the memory of their
    weights.

    ValueError, and the model stays as it is, if a module has what a table does not
    (max_norm, scale_grad_by_freq, include_last_offset, the mode max, a weight that is
    frozen, tied or not float32), or if there is none to turn.
    """
    found = {n: m for n, m in model.named_modules()
             if isinstance(m, Turned) and m.sparse}
    if not found:
        raise ValueError("the model has no torch.nn.Embedding and no EmbeddingBag with "
                         "sparse=True: say it of those that are to be tables")
    for name, module in found.items():
        wrong = _unlike_a_table(model, name, module)
        if not wrong and keep_weights and module.weight.is_meta:
            wrong = "its weight is on the device meta, and has no values to keep"
        if wrong:
            raise ValueError(f"{name or 'the model'} cannot be a table: {wrong}")
    for name, module in found.items():
        parent, _, last = name.rpartition(".")
        rows = {"rows": _weights_of(module)} if keep_weights else {}
        first = {} if "initializer" in table else {"init": NORMAL}
        layer = _table_of(name, module, {**first, **rows, **table})
        setattr(model.get_submodule(parent), last, layer.train(module.training))
    return model


def _unlike_a_table(model: torch.nn.Module, name: str, module: Any) -> Optional[str]:
    """What a module has that a table does not, and what to do about it."""
    if not name:
        return "it has no name; make a sluice.torch.Embedding or EmbeddingBag instead"
    if type(module) not in Turned:
        return (f"its class {type(module).__name__} may compute otherwise; put a "
                "sluice.torch.Embedding or EmbeddingBag in its place")
    if module.max_norm is not None:
        return "rows have no max_norm; leave it out (a table's optimizer has weight_decay)"
    if module.scale_grad_by_freq:
        return "gradients of rows have no scale_grad_by_freq; leave it out"
    if getattr(module, "include_last_offset", False):
        return "bags have no include_last_offset; leave it out, and pass offsets[:-1]"
    if getattr(module, "mode", None) == "max":
        return "bags have no mode max; use sum or mean"
    if not module.weight.requires_grad:
        return "its weight is frozen, and rows are trained; leave sparse=True out"
    if module.weight.dtype != torch.float32:
        return (f"its weight is {module.weight.dtype}, and rows are float32; call "
                "model.float() before")
    tied = [n for n, p in model.named_parameters(remove_duplicate=False)
            if p is module.weight and n != f"{name}.weight"]
    if tied:
        return (f"its weight is also {tied[0]}, and rows are no parameter; give each a "
                "weight of its own, or leave sparse=True out")
    return None


def _weights_of(module: Any) -> Tuple[Any, Any]:
    """Ids and rows, but for padding, which a layer gives as zeros."""
    ids = torch.arange(module.num_embeddings)
    ids = ids[ids != (-1 if module.padding_idx is None else module.padding_idx)]
    return ids.numpy(), module.weight.detach().cpu()[ids].numpy()


def _table_of(name: str, module: Any, table: Dict[str, Any]) -> TableLayer:
    dim, padding = module.embedding_dim, module.padding_idx
    if isinstance(module, torch.nn.EmbeddingBag):
        return EmbeddingBag(name, dim, module.mode, padding, **table)
    return Embedding(name, dim, padding, **table)


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
