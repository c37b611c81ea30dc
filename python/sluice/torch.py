# SPDX-License-Identifier: Apache-2.0
"""A torch model on a cluster: `Trainer`.

    with sluice.torch.Trainer(model, "fashion", "10.0.0.1:7070",
                              optimizer=torch.optim.Adam(model.parameters())) as t:
        for batch in t.batches(dataset, batch_size=64, epochs=5):
            t.step(lambda: loss_fn(model(batch.x), batch.y))

The first program that comes submits the job, the others join it; any may be
killed at any time, others may come. Parameters lie on the psservers, and so does
the optimizer's state: `optimizer` says which it is and is never stepped (in mode local
the program's own is: see Trainer). A gradient leaves as soon as backward has it, shard by shard, while earlier layers
still compute; fresh parameters are in the model when the next batch begins.

What is different from a loop of one's own:
- parameters of the model (on a CPU) are views of the session's vectors while it
  trains: do not replace them, and read them between batches
- a parameter without a gradient in a step (`p.grad is None`) is left alone, with its
  slots and its own count of updates, as torch does it
- buffers (batch norm's running statistics) are this process's own, but in mode local
- the loss is the mean over the batch
"""
from __future__ import annotations

import contextlib
import warnings
from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple,
                    Union)

import numpy as np
import torch

from ._data import Batch, Rows, map_arrays
from ._program import Cluster, Json, Program, chunks
from ._rates import schedule_of
from ._torch_local import Inner, copied, statistics
from ._torch_rows import Embedding, EmbeddingBag, sparse, tables_of
from ._torch_watch import Watch
from .session import Closure, Lost

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Batch", "Embedding", "EmbeddingBag", "Trainer", "optimizer_spec",
           "schedule_spec", "sparse"]

READY = 1 << 14  # elements of the gradient that are worth a call of the library
NEAREST = {"NAdam": "Adam", "RAdam": "Adam", "Adadelta": "RMSprop",
           "Rprop": "RMSprop", "ASGD": "SGD", "SparseAdam": "Adam", "LBFGS": "Adam"}
FORESEEN = 1 << 20  # updates that a scheduler is stepped ahead, about 10 us each
GROUPED = ("weight_decay", "momentum", "beta_1", "beta_2", "epsilon", "rho")


# ---- torch's words -> the job's

def optimizer_spec(optimizer: Union[torch.optim.Optimizer, Json],
                   names: Optional[Dict[int, str]] = None) -> Json:
    """The job's `optimizer` for one of torch's; ValueError for what a psserver does
    not do. A dict is taken as it is. Of one with several groups of parameters `names`
    are those of the parameters, by id."""
    if isinstance(optimizer, dict):
        return optimizer
    groups = optimizer.param_groups
    kind = type(optimizer).__name__
    specs = [_group_spec(kind, group) for group in groups]
    rates = [float(group.get("initial_lr", group["lr"])) for group in groups]
    spec = dict(specs[0])
    if len(specs) > 1:
        if names is None:
            raise ValueError("an optimizer with groups of parameters: the names of its "
                             "parameters are wanted")
        for said in specs:  # where one has momentum, there is a slot for all
            if said.get("momentum"):
                spec.update({k: said[k] for k in ("momentum", "torch_momentum")})
                break
        found = [_group(i, spec, {**said, "learning_rate": rates[i]}, rates[0], [
            names[id(p)] for p in group["params"] if id(p) in names])
                 for i, (said, group) in enumerate(zip(specs, groups))]
        spec["groups"] = [g for g in found if g is not None]
    return spec


def _group(i: int, spec: Json, said: Json, rate: float,
           names: List[str]) -> Optional[Json]:
    """What a group of parameters has otherwise than the optimizer."""
    group: Json = {}
    for k, value in said.items():
        if k == "torch_momentum" or value == (rate if k == "learning_rate" else spec[k]):
            continue
        if k == "learning_rate":
            if not rate:
                raise ValueError("the first group of parameters has a rate of 0, and "
                                 "those of the others are multiples of it: put another "
                                 "first")
            group["learning_rate_scale"] = value / rate
        elif k in GROUPED:
            group[k] = value
        else:
            raise ValueError(f"group {i} of the optimizer's parameters has {k} {value!r}, "
                             f"the first has {spec[k]!r}: groups may differ in lr, "
                             f"{', '.join(GROUPED)}")
    return {"variables": names, **group} if group and names else None


def _adam(group: Json) -> Json:
    return {"beta_1": group["betas"][0], "beta_2": group["betas"][1],
            "epsilon": group["eps"], "torch_epsilon": True, "amsgrad": group["amsgrad"]}


# For each optimizer of torch: what a psserver does not do, and the job's words.
OFFERED: Dict[str, Tuple[Tuple[str, ...], Callable[[Json], Json]]] = {
    "SGD": (("dampening",), lambda group: {
        "momentum": group["momentum"], "nesterov": group["nesterov"],
        "torch_momentum": bool(group["momentum"])}),
    "Adam": ((), _adam),
    "AdamW": ((), _adam),
    "Adamax": ((), lambda group: {
        "beta_1": group["betas"][0], "beta_2": group["betas"][1],
        "epsilon": group["eps"], "torch_epsilon": True}),
    "Adagrad": (("lr_decay",), lambda group: {
        "epsilon": group["eps"], "torch_epsilon": True,
        "initial_accumulator_value": group["initial_accumulator_value"]}),
    "RMSprop": ((), lambda group: {
        "rho": group["alpha"], "epsilon": group["eps"], "torch_epsilon": True,
        "momentum": group["momentum"], "centered": group["centered"],
        "torch_momentum": bool(group["momentum"])}),
}


def _group_spec(kind: str, group: Json) -> Json:
    if kind not in OFFERED:
        *others, last = OFFERED
        raise ValueError(
            f"{kind} is not offered by psservers: the nearest is "
            f"{NEAREST.get(kind, 'AdamW')}; {', '.join(others)} and {last} are, "
            "or say one as a dict")
    refused, words = OFFERED[kind]
    for name in ("maximize", "capturable", "differentiable", *refused):
        if group.get(name):
            raise ValueError(f"{kind}({name}={group[name]!r}) is not offered by "
                             "psservers")
    spec: Json = {"type": kind.lower(), "learning_rate": float(group["lr"]),
                  **words(group)}
    if kind == "AdamW" or group.get("decoupled_weight_decay"):
        spec["weight_decay"] = group["weight_decay"]
    return spec


def _optimizer(said: Any, model: torch.nn.Module) -> Union[torch.optim.Optimizer, Json]:
    """The optimizer that a program says: one of torch, a dict as a job has it, a name
    or a class, or a function of the parameters as functools.partial makes one."""
    if said is None:
        return {"type": "sgd", "learning_rate": 0.01}
    if isinstance(said, (dict, torch.optim.Optimizer)):
        return said
    make = said
    if isinstance(said, str):
        named = {n.lower(): n for n in (*OFFERED, *NEAREST)}
        name = named.get(said.lower())
        if name is None:
            raise ValueError(f"optimizer={said!r}: known are {', '.join(OFFERED)}, in "
                             "any case, or give an object of torch.optim")
        make = getattr(torch.optim, name)
    if not callable(make):
        raise ValueError(f"optimizer={said!r}: an optimizer of torch, its name, its class "
                         "or a dict as a job has it is wanted")
    return make(model.parameters())


def _inner(model: torch.nn.Module, optimizer: Any, said: Any, scheduler: Any) -> Inner:
    """That of mode local."""
    if optimizer is not None:
        raise ValueError("optimizer: in mode 'local' the program's own takes the steps: "
                         "say inner=, and that of psservers as "
                         'train={"outer": {"type": "sgd", ...}}')
    made = None if said is None else _optimizer(said, model)
    if isinstance(made, dict):
        raise ValueError("inner: an optimizer of torch, its name or its class is wanted; "
                         "a dict says what psservers run")
    return Inner(made, scheduler)


def _l2(optimizer: Any) -> Dict[int, float]:
    """What the program adds to the gradient, by the id of the parameter:
    `weight_decay` of optimizers that do not decouple it."""
    if isinstance(optimizer, dict) or type(optimizer).__name__ == "AdamW":
        return {}
    return {id(p): float(group.get("weight_decay", 0.0))
            for group in optimizer.param_groups
            if not group.get("decoupled_weight_decay") for p in group["params"]}


def _taken(model: torch.nn.Module, optimizer: Any) -> List[Tuple[str, torch.Tensor]]:
    """The parameters that the optimizer has, by their names in the model: no others
    are trained. ValueError if it has some that the model has not."""
    own = list(model.named_parameters())
    if isinstance(optimizer, dict):
        return own
    theirs = {id(p) for group in optimizer.param_groups for p in group["params"]}
    strange = len(theirs - {id(p) for _, p in own})
    if strange:
        raise ValueError(f"{strange} of the optimizer's {len(theirs)} parameters are not "
                         "the model's: make it of model.parameters(), when the model is "
                         "whole (a copy of the model has parameters of its own)")
    return [(n, p) for n, p in own if id(p) in theirs]


def _variables(taken: List[Tuple[str, torch.Tensor]], trained_alone: bool
               ) -> List[Tuple[str, torch.Tensor]]:
    """Those that require a gradient; and the frozen ones, which may be unfrozen, where
    an optimizer of torch has them."""
    trained = [p for _, p in taken if p.requires_grad]
    if trained_alone or not trained:
        return [(n, p) for n, p in taken if p.requires_grad]
    devices = {p.device for p in trained}
    frozen = {id(p): p.numel() for _, p in taken if not p.requires_grad
              and p.dtype == torch.float32 and p.device in devices}
    if sum(frozen.values()) > sum(p.numel() for p in trained):
        warnings.warn(
            f"{sum(frozen.values()):,} elements of the optimizer's are frozen, and travel "
            "all the same, since they may be unfrozen: give it those that require a "
            "gradient alone", stacklevel=3)
    return [(n, p) for n, p in taken if p.requires_grad or id(p) in frozen]


def schedule_spec(scheduler: Any, updates: Optional[int] = None,
                  least: Optional[int] = None) -> Json:
    """`learning_rate` and `schedule` of a job's optimizer for a scheduler of torch
    that is stepped after each of the job's updates. One that has no equal among those
    of jobs is stepped ahead, `updates` times, and becomes a line through what it said
    (sluice/_rates.py); `least`: one that ends after so many, by default after all, is
    left at its last rate. ValueError for what cannot be known ahead."""
    kind = type(scheduler).__name__
    if kind == "ReduceLROnPlateau":
        raise ValueError("ReduceLROnPlateau is not offered: psservers want to know the "
                         "rate of each update ahead, and it depends on a loss; the "
                         "nearest are StepLR and CosineAnnealingLR")
    chain = scheduler._schedulers if kind == "ChainedScheduler" else [scheduler]
    if any(s.last_epoch != 0 for s in chain):
        raise ValueError(f"{kind} has been stepped: jobs begin at the first step")
    spec = _closed(scheduler, updates)
    if spec is None and updates is None:
        raise ValueError(f"{kind} has no equal among the schedules of jobs: say for how "
                         "many updates it is wanted")
    return spec if spec is not None else schedule_of(
        _foreseen(scheduler, updates or 1, least or updates or 1))


def _foreseen(scheduler: Any, updates: int, least: int) -> Any:
    """The rates of so many updates, of a copy that is stepped in their place."""
    kind = type(scheduler).__name__
    if updates > FORESEEN:
        raise ValueError(
            f"{kind} would have to be stepped {updates:,} times ahead; {FORESEEN:,} are "
            "possible: say the schedule as a job has it, a piecewise_linear of points")
    stepped = copied(scheduler)
    group, *others = stepped.optimizer.param_groups
    bases = [g.get("initial_lr", g["lr"]) for g in (group, *others)]
    fixed = {k: group[k] for k in ("momentum", "betas", "weight_decay") if k in group}
    rates = np.empty(updates)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the copy's optimizer is not stepped
        for i in range(updates):
            if i > 0:
                try:
                    stepped.step()
                except Exception as error:
                    if i >= least:
                        return rates[:i]
                    raise ValueError(f"{kind} cannot be stepped {i} times ahead, and the "
                                     f"job has {updates} updates: {error}") from error
            rates[i] = group["lr"]
            for g, base in zip(others, bases[1:]):
                if abs(g["lr"] * bases[0] - rates[i] * base) > 1e-9 * base * bases[0]:
                    raise ValueError(
                        f"{kind}: the rates of the optimizer's groups do not stay "
                        f"multiples of each other (at update {i} {rates[i]:g} of "
                        f"{bases[0]:g}, and {g['lr']:g} of {base:g}), and psservers offer "
                        "no others: eta_min=0, or one function for all groups")
            for k, was in fixed.items():
                if group[k] != was:
                    raise ValueError(f"{kind} changes {k} too, which psservers do not: "
                                     "say cycle_momentum=False")
    return rates


def _closed(scheduler: Any, updates: Optional[int]) -> Optional[Json]:
    """A schedule of jobs that is the same at each of so many updates."""
    kind = type(scheduler).__name__
    rate = float(getattr(scheduler, "base_lrs", [0.0])[0])
    least = getattr(scheduler, "eta_min", 0.0)
    if rate <= 0 or least > rate or (least and len(scheduler.base_lrs) > 1):
        return None  # or each group has its own course
    s: Json
    if kind == "ExponentialLR":
        s = {"type": "exponential_decay", "decay_steps": 1,
             "decay_rate": scheduler.gamma}
    elif kind == "StepLR":
        s = {"type": "exponential_decay", "decay_steps": scheduler.step_size,
             "decay_rate": scheduler.gamma, "staircase": True}
    elif kind == "MultiStepLR":
        steps = sorted(scheduler.milestones.elements())
        if not steps or steps[0] < 1 or len(set(steps)) > 32:
            return None
        values = [rate * scheduler.gamma ** i for i in range(len(steps) + 1)]
        last = {m: values[i + 1] for i, m in enumerate(steps)}  # of those twice there
        s = {"type": "piecewise_constant_decay", "boundaries": [m - 1 for m in last],
             "values": [rate, *last.values()]}
        return {"schedule": s}
    elif kind == "CosineAnnealingLR":
        if updates is not None and updates > scheduler.T_max + 1:
            return None  # it rises again
        s = {"type": "cosine_decay", "decay_steps": scheduler.T_max,
             "alpha": scheduler.eta_min / rate}
    elif kind == "CosineAnnealingWarmRestarts":
        s = {"type": "cosine_decay_restarts", "decay_steps": scheduler.T_0,
             "t_mul": float(scheduler.T_mult), "alpha": scheduler.eta_min / rate}
    elif kind == "PolynomialLR":
        s = {"type": "polynomial_decay", "decay_steps": scheduler.total_iters,
             "end_learning_rate": 0.0, "power": scheduler.power}
    elif kind == "LinearLR":
        s = {"type": "polynomial_decay", "decay_steps": scheduler.total_iters,
             "end_learning_rate": rate * scheduler.end_factor}
        rate *= scheduler.start_factor
    else:
        return None
    return {"learning_rate": rate, "schedule": s}


# ---- gradients on their way

class _Ready:
    """Ranges of the gradient that are whole, kept until they are worth a call:
    neighbours become one, since a layer's variables lie side by side. What is
    left at the end of a step need not be told."""

    def __init__(self) -> None:
        self._ranges: List[Tuple[int, int]] = []  # [first, end)
        self._count = 0

    def add(self, first: int, count: int) -> List[Tuple[int, int]]:
        """One more; gives the (first, count) that are to be told now."""
        end = first + count
        self._count += count
        if self._ranges and self._ranges[-1][0] == end:
            end = self._ranges.pop()[1]
        elif self._ranges and self._ranges[-1][1] == first:
            first = self._ranges.pop()[0]
        self._ranges.append((first, end))
        if self._count < READY:
            return []
        told = [(i, j - i) for i, j in self._ranges]
        self._ranges, self._count = [], 0
        return told


class _Pinned:
    """The session's vectors as a CUDA device sees them: page-locked where they lie,
    so that copies run beside the computing. Where the system does not let them be
    locked, copies take longer and are as right."""

    def __init__(self, vectors: List[torch.Tensor], device: torch.device) -> None:
        self.stream = torch.cuda.Stream(device)
        self.copies: List[Tuple[Any, Tuple[int, int]]] = []  # (event, range)
        self._locked: List[int] = []
        runtime = torch.cuda.cudart()
        for vector in vectors:
            if int(runtime.cudaHostRegister(vector.data_ptr(), 4 * vector.numel(),
                                            0)) == 0:
                self._locked.append(vector.data_ptr())

    def fetch(self, to: torch.Tensor, gradient: torch.Tensor,
              where: Tuple[int, int]) -> None:
        """Begins to copy a gradient into its place."""
        self.stream.wait_stream(torch.cuda.current_stream(gradient.device))
        with torch.cuda.stream(self.stream):
            to.copy_(gradient, non_blocking=True)
        gradient.record_stream(self.stream)
        self.copies.append((self.stream.record_event(), where))

    def arrived(self) -> Iterator[Tuple[int, int]]:
        """Ranges whose copies have ended, in the order that they were begun."""
        while self.copies and self.copies[0][0].query():
            yield self.copies.pop(0)[1]

    def wait(self) -> None:
        self.stream.synchronize()
        self.copies = []

    def close(self) -> None:
        self.stream.synchronize()
        for address in self._locked:
            torch.cuda.cudart().cudaHostUnregister(address)
        self._locked = []


class _Marks:
    """Stands where a GradScaler wants an optimizer: `went` says whether it let it
    step."""

    def __init__(self, parameters: List[torch.Tensor]) -> None:
        self.param_groups = [{"params": parameters}]
        self.went = False

    def step(self) -> None:
        self.went = True


# ---- the trainer

class _Rows(Rows):
    @staticmethod
    def numbers(samples: Any) -> Any:
        return torch.from_numpy(samples)

    @staticmethod
    def of(array: Any, numbers: Any) -> Any:
        if isinstance(array, torch.Tensor):
            return array.index_select(0, numbers if array.is_cpu else
                                      numbers.to(array.device))
        return array[numbers.numpy()]


class Trainer(Program):
    """A torch model that trains on a cluster. See the module.

    model        its parameters that the optimizer has and that require a gradient are
                 the job's variables, others stay as they are; float32, on a CPU or on
                 one CUDA device
    optimizer    of torch, or its name or class ("adam", torch.optim.Adam,
                 functools.partial(torch.optim.Adam, lr=0.01)), with groups of
                 parameters or without, or a dict as a job has it
    scheduler    of torch: as if it were stepped after each update of the whole job;
                 any whose rate is a function of the step (it is stepped ahead)
    scheduler_by "update", or "epoch" of one that a loop would step once an epoch
    inner        mode local: the optimizer of the program's own steps, any of torch (also
                 one of your own), which `optimizer` is elsewhere; None: the program
                 steps by itself and says so (`stepped`). `scheduler` is of it, or a
                 function of the step's number (`batch.number`) that returns the rate.
                 Buffers of float32 are moving statistics of the job
    clip_norm, clip_value   the gradient of each step is clipped by the program, as
                 torch.nn.utils.clip_grad_norm_ and clip_grad_value_ do it: nothing
                 leaves before it is whole
    cluster      tls, name, init, share, train, wait, workers, mode, ranks, every,
                 moments, store, new: as of `Program`
                 (sluice/_program.py)
    """

    collate = staticmethod(torch.utils.data.default_collate)
    rows = _Rows

    def __init__(self, model: torch.nn.Module, job: str,
                 coordinator: Optional[str] = None, *,
                 optimizer: Union[torch.optim.Optimizer, Json, str,
                                  Callable[..., torch.optim.Optimizer], None] = None,
                 inner: Union[torch.optim.Optimizer, str,
                              Callable[..., torch.optim.Optimizer], None] = None,
                 scheduler: Optional[Any] = None, scheduler_by: str = "update",
                 clip_norm: float = 0.0,
                 clip_value: float = 0.0,
                 **cluster: Unpack[Cluster]) -> None:
        self.model = model
        for n, p in model.named_parameters():
            if isinstance(p, torch.nn.parameter.UninitializedParameter):
                raise ValueError(f"{n} has no shape yet, as its module is lazy: call the "
                                 "model with one batch, then make the optimizer and the "
                                 "Trainer")
        self._inner: Optional[Inner] = None
        if cluster.get("mode", "async") == "local":
            self._inner = _inner(model, optimizer, inner, scheduler)
            optimizer, scheduler = self._inner.optimizer or {}, None
        elif inner is not None:
            raise ValueError("inner: of mode 'local'; elsewhere psservers step, and "
                             "`optimizer` says what")
        optimizer = _optimizer(optimizer, model)
        self.parameters = _variables(_taken(model, optimizer),
                                     isinstance(optimizer, dict))
        if not self.parameters:
            raise ValueError("no parameter of the model that the optimizer has requires "
                             "a gradient: nothing would be trained")
        for n, p in self.parameters:
            if p.dtype != torch.float32:
                raise ValueError(f"{n} is {p.dtype}, and parameters are float32 on "
                                 "psservers: call model.float() before the optimizer is "
                                 "made (compute in less under torch.autocast)")
        devices = {p.device for _, p in self.parameters}
        if len(devices) != 1:
            raise ValueError(f"the parameters lie on {sorted(map(str, devices))}: one "
                             "device is wanted, a program each for more")
        self._device = devices.pop()
        if self._device.type not in ("cpu", "cuda"):
            raise ValueError(f"parameters on {self._device}: a CPU or CUDA is wanted")
        self._tables = tables_of(model)
        self._l2 = _l2(optimizer)
        self._clip_norm, self._clip_value = clip_norm, clip_value
        self._scheduler, self._by_epoch = scheduler, scheduler_by == "epoch"
        if scheduler_by not in ("update", "epoch"):
            raise ValueError(f"scheduler_by={scheduler_by!r}: 'update' or 'epoch'")
        if self._by_epoch and cluster.get("mode", "async") != "async":
            raise ValueError("scheduler_by='epoch' is of mode async: how many rounds an "
                             "epoch has is known there alone")
        if type(scheduler).__name__ == "ReduceLROnPlateau":
            schedule_spec(scheduler)  # refuses it
        spec = None if self._inner is not None else optimizer_spec(
            optimizer, {id(p): n for n, p in self.parameters})
        if scheduler is not None:
            _foreseen(scheduler, 200, 1)  # refuses what the first updates show
        moving = [] if self._inner is None else statistics(model)
        self.parameters += moving
        super().__init__(
            job, coordinator, [(n, tuple(p.shape)) for n, p in self.parameters],
            spec, tables=[t.table for t in self._tables],
            moving=[n for n, _ in moving], **cluster)
        self.device = f"torch, {torch.get_num_threads()} threads" + (
            "" if self._device.type == "cpu" else f", {self._device}")
        for table in self._tables:
            table.attach(self._pull_rows)
        self._own = [p for _, p in self.parameters]
        self._watch = Watch(model, self.parameters,
                            None if isinstance(optimizer, dict) else optimizer,
                            scheduler is not None)
        self._plain = False  # gradients are copied at the end of a step, as they are
        self._hooks: List[Any] = []
        self._frozen: List[int] = []  # those that have no hook yet
        self._grads: Optional[torch.Tensor] = None
        self._params: Optional[torch.Tensor] = None
        self._views: List[torch.Tensor] = []  # of the gradient, by parameter
        self._here: List[bool] = []  # those that have got there in this step
        self._ready = _Ready()
        self._pinned: Optional[_Pinned] = None
        self._push = False  # what backward has is whole
        self._marks: Optional[_Marks] = None

    def spec(self, samples: int, batch_size: int, epochs: int) -> Json:
        said = super().spec(samples, batch_size, epochs)
        if self._scheduler is not None:
            train = said["train"]
            optimizer = {k: v for k, v in said["optimizer"].items()
                         if k != "learning_rate"}
            each = -(-samples // train["batch"])
            updates, epochs = each * train["epochs"], train["epochs"]
            # Rounds, and steps of groups, are fewer than steps.
            least = updates if train.get("mode", "async") == "async" else 1
            said["optimizer"] = {**optimizer, **(
                schedule_of(np.repeat(_foreseen(self._scheduler, epochs, epochs), each))
                if self._by_epoch else schedule_spec(self._scheduler, updates, least))}
        return said

    # ---- the model and the vectors

    def _values(self) -> Dict[str, Any]:
        return {n: p.detach().to("cpu").numpy() for n, p in self.parameters}

    def _let_go(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self._watch.end()
        if self._pinned is not None:
            self._pinned.close()
            self._pinned = None
        if self._grads is not None:
            for _, p in self.parameters:
                p.data = p.data.clone()
                p.grad = None
        self._grads, self._params, self._views = None, None, []
        super()._let_go()

    def _attach(self, closure: Closure) -> None:
        """Parameters of a CPU's model become views of the vector; those of a GPU are
        copied. Gradients are copied: autograd's own need not be zeroed, nor added to. In
        mode local parameters stay the program's own."""
        self._params = torch.from_numpy(closure.params)
        if self._inner is not None:
            return
        self._grads = torch.from_numpy(closure.grads)
        if self._device.type == "cuda":
            self._pinned = _Pinned([self._params, self._grads], self._device)
        whole = closure.elements < READY  # leaves at the end alone
        self._plain = whole and self._pinned is None and not any(self._l2.values())
        for n, p in self.parameters:
            self._views.append(self._part(self._grads, n).view(p.shape))
            if self._pinned is None:
                p.data = self._part(self._params, n).view(p.shape)
        self._frozen = [] if whole else list(range(len(self._own)))
        self._thaw()
        self._watch.begin()

    def _thaw(self) -> None:
        """Those that require a gradient by now say when they have it."""
        for i in self._frozen:
            n, p = self.parameters[i]
            if p.requires_grad:
                self._hooks.append(p.register_post_accumulate_grad_hook(
                    self._hook(i, self._ranges[n])))
        self._frozen = [i for i in self._frozen if not self._own[i].requires_grad]

    def _at(self, batch: Batch, reset: bool) -> None:
        if self._inner is not None:
            self._inner.begin(batch.number, reset)

    def _fresh(self) -> None:
        if self._pinned is None and self._inner is None:
            return
        with torch.no_grad():
            for n, p in self.parameters:
                p.copy_(self._part(self._params, n).view(p.shape), non_blocking=True)
        if self._inner is None:
            self._watch.written()

    def _hook(self, i: int, where: Tuple[int, int]) -> Callable[[torch.Tensor], None]:
        """Backward has this gradient: what makes up a shard leaves."""
        view = self._views[i]

        def whole(p: torch.Tensor) -> None:
            if not self._push:
                return
            assert p.grad is not None
            gradient, self._here[i] = self._gradient(p), True
            if self._pinned is None:
                view.copy_(gradient)
                p.grad = view  # autograd's own can go
                self._tell(self._ready.add(*where))
                return
            self._pinned.fetch(view, gradient, where)
            for arrived in self._pinned.arrived():
                self._tell(self._ready.add(*arrived))
        return whole

    def _gradient(self, p: torch.Tensor) -> torch.Tensor:
        gradient = p.grad
        assert gradient is not None
        if gradient.is_sparse:
            gradient = gradient.to_dense()
        l2 = self._l2.get(id(p), 0.0)
        return gradient.add(p.detach(), alpha=l2) if l2 else gradient

    def _clip(self) -> None:
        parameters = [p for _, p in self.parameters if p.grad is not None]
        if self._clip_norm:
            torch.nn.utils.clip_grad_norm_(parameters, self._clip_norm)
        if self._clip_value:
            torch.nn.utils.clip_grad_value_(parameters, self._clip_value)

    def _collect(self, skip: bool) -> None:
        """Whatever hooks have not taken; what has no gradient is left alone."""
        if self._plain and self._collect_all():
            return
        views, gradients, absent = [], [], []
        for i, (p, view) in enumerate(zip(self._own, self._views)):
            if self._here[i]:
                continue
            if p.grad is None:
                absent.append(i)
            else:
                views.append(view)
                gradients.append(self._gradient(p))
        if gradients:
            torch._foreach_copy_(views, gradients)
        if self._pinned is not None:
            self._pinned.wait()
        if not skip:
            self._absent(absent)

    def _collect_all(self) -> bool:
        """All at once; False, and nothing is done, if one wants more than a copy."""
        gradients = [p.grad for p in self._own]
        for gradient in gradients:
            if gradient is None or gradient.is_sparse:
                return False
        torch._foreach_copy_(self._views, gradients)
        return True

    def _tell(self, told: List[Tuple[int, int]]) -> None:
        for first, count in told:
            with contextlib.suppress(Lost):  # the next batch is another closure's
                self._begun().ready(first, count)

    # ---- rows of tables

    def _push_rows(self, skip: bool) -> None:
        for table in self._tables:
            pulled, table.pulled = table.pulled, []
            for ids, rows in pulled:
                if rows.grad is not None and not skip:
                    self._push_table(table.name, ids, rows.grad.cpu().numpy())

    # ---- training

    def _held(self, data: Any) -> Any:
        """NumPy's arrays as tensors."""
        return map_arrays(
            lambda a: torch.from_numpy(a) if isinstance(a, np.ndarray) else a, data)

    def _given(self, x: Any) -> Any:
        if isinstance(x, torch.Tensor) and x.device == self._device:
            return x
        return map_arrays(lambda a: torch.as_tensor(a).to(self._device), x)

    def step(self, compute: Callable[..., torch.Tensor], right: float = 0.0,
             scaler: Optional[Any] = None,
             parts: Optional[List[Batch]] = None) -> float:
        """Computes the batch's loss and its gradient, and pushes it, or in mode local
        steps `inner`. Returns the loss.

        compute  returns the mean loss, a scalar
        right    how many samples were predicted right
        scaler   a torch.amp.GradScaler: a step that it would skip is counted as
                 skipped, and it is updated
        parts    micro-batches, as batch.parts(4): `compute` is called with each, and
                 their gradients are accumulated, weighed by their samples
        """
        if scaler is not None and self._tables:
            raise ValueError("scaler: gradients of rows of tables are not scaled; compute "
                             "in bfloat16, which needs none")
        if self._inner is not None:
            return self._step_alone(compute, right, scaler, parts)
        self._watch.look()
        if self._frozen:
            self._thaw()
        self._begun()
        self._left()
        for table in self._tables:
            table.pulled = []  # of an evaluation
        self._here, self._ready = [False] * len(self._own), _Ready()
        early = scaler is None and not (self._clip_norm or self._clip_value)
        value = self._backward(compute, scaler, parts, early)
        skip = scaler is not None and not self._unscaled(scaler)
        if not early and not skip:
            self._clip()
        self._collect(skip)
        self._push_rows(skip)
        self._watch.sent(next((p.grad for p in self._own if p.grad is not None), None))
        self._done(value, right, skip)
        return value

    def _backward(self, compute: Callable[..., torch.Tensor], scaler: Optional[Any],
                  parts: Optional[List[Batch]], early: bool) -> float:
        """The loss of the batch, and its gradient, in `p.grad`; with `early` what is
        whole leaves at once."""
        value, count = 0.0, 1 if parts is None else len(parts)
        samples = (self._begun() if self._batch is None else self._batch).count
        for i in range(count):
            loss = compute() if parts is None else compute(parts[i])
            if parts is not None:
                loss = loss * (len(parts[i].samples) / samples)
            value += loss.item()
            self._push = early and i + 1 == count
            (loss if scaler is None else scaler.scale(loss)).backward()
        self._push = False
        return value

    def _step_alone(self, compute: Callable[..., torch.Tensor], right: float,
                    scaler: Optional[Any], parts: Optional[List[Batch]]) -> float:
        """Mode local: a step of the program's own optimizer."""
        assert self._inner is not None
        if self._inner.optimizer is None:
            raise ValueError("step: no optimizer takes it: say Trainer(inner=...), or step "
                             "by yourself and call stepped(loss)")
        self._begun()
        self._left()
        value = self._backward(compute, scaler, parts, early=False)
        if scaler is not None and (self._clip_norm or self._clip_value):
            scaler.unscale_(self._inner.optimizer)
        self._clip()
        self._inner.step(scaler)
        self.stepped(value, right)
        return value

    def _left(self) -> None:
        self._watch.left()
        for p in self._own:
            p.grad = None

    def _unscaled(self, scaler: Any) -> bool:
        """The whole gradient, divided by the scale; False if it is not finite."""
        if self._marks is None:
            self._marks = _Marks([p for _, p in self.parameters])
        self._marks.went = False
        scaler.unscale_(self._marks)
        scaler.step(self._marks)
        scaler.update()
        return self._marks.went

    # ---- results

    def load(self, best: bool = False) -> bool:
        """What the whole job has learnt into the model: the parameters of its last
        checkpoint, or with `best` what `better` kept, not what this program saw last.
        Rows of tables stay where they are, and a RuntimeWarning says so. False, and the
        model stays as it is, if it is we who left (SIGTERM) and the job goes on."""
        if not self.ended():
            return False
        values = self.learnt(best)
        self._let_go()
        with torch.no_grad():
            for n, p in self.parameters:
                p.copy_(torch.from_numpy(values[n]).view(p.shape))
        self._warn_of_rows("the model that was loaded")
        return True

    def save(self, path: str) -> None:
        """What `learnt` gives as a safetensors file, without rows of tables, as `load`."""
        super().save(path)
        self._warn_of_rows(path)

    def evaluate(self, data: Any, metric: Callable[[Any, Any], torch.Tensor],
                 batch_size: int = 256) -> float:
        """The mean of `metric(model(x), y)`, which has one value per sample, over
        `data`, with the parameters that the model has now."""
        total, was = 0.0, self.model.training
        self.model.eval()
        with torch.no_grad():
            for first, end in chunks(data, batch_size):
                x, y = map(self._given, self.read(data, first, end))
                total += float(metric(self.model(x), y).float().sum())
        self.model.train(was)
        return total / end
