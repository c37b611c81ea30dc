# SPDX-License-Identifier: Apache-2.0
"""A torch model on a cluster: `Trainer`.

    with sluice.torch.Trainer(model, "fashion", "10.0.0.1:7070",
                              optimizer=torch.optim.Adam(model.parameters())) as t:
        for batch in t.batches(dataset, batch_size=64, epochs=5):
            t.step(lambda: loss_fn(model(batch.x), batch.y))

The first program that comes submits the job, the others join it; any may be
killed at any time, others may come. Parameters lie on the psservers, and so does
the optimizer's state: `optimizer` says which it is and is never stepped. A
gradient leaves as soon as backward has it, shard by shard, while earlier layers
still compute; fresh parameters are in the model when the next batch begins.

What is different from a loop of one's own:
- parameters of the model (on a CPU) are views of the session's vectors while it
  trains: do not replace them, and read them between batches
- buffers (batch norm's running statistics) are this process's own
- the loss is the mean over the batch
"""
from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import signal
import tempfile
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

import numpy as np
import torch

from . import client
from .session import Closure, Lost, Session, Step, Tls

__all__ = ["Batch", "Trainer", "optimizer_spec"]

Json = Dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Batch:
    """Samples of one step. x, y: collated as torch's DataLoader does; where items
    are no pairs, `x` is all of it and `y` None."""

    x: Any
    y: Any
    samples: Any  # numbers in the data set, shape (n,)
    epoch: int
    step: int  # in the closure
    closure: int


# ---- torch's words -> the job's

def optimizer_spec(optimizer: Union[torch.optim.Optimizer, Json]) -> Json:
    """The job's `optimizer` for one of torch's; ValueError for what a psserver does
    not do. A dict is taken as it is."""
    if isinstance(optimizer, dict):
        return optimizer
    kind = type(optimizer).__name__
    if len(optimizer.param_groups) != 1:
        raise ValueError("one group of parameters: rates of their own are not offered")
    group = dict(optimizer.param_groups[0])

    def refuse(*names: str) -> None:
        for name in names:
            if group.get(name):
                raise ValueError(f"{kind}({name}={group[name]!r}) is not offered by "
                                 "psservers")

    refuse("maximize", "capturable", "differentiable")
    spec: Json = {"learning_rate": float(group["lr"])}
    if kind != "SGD":
        spec["torch_epsilon"] = True
    if kind == "SGD":
        refuse("weight_decay", "dampening")
        spec.update(type="sgd", momentum=group["momentum"], nesterov=group["nesterov"])
    elif kind in ("Adam", "AdamW"):
        if kind == "Adam":
            refuse("weight_decay")
        spec.update(type=kind.lower(), beta_1=group["betas"][0],
                    beta_2=group["betas"][1], epsilon=group["eps"],
                    amsgrad=group["amsgrad"])
        if kind == "AdamW":
            spec.update(weight_decay=group["weight_decay"])
    elif kind == "Adagrad":
        refuse("weight_decay", "lr_decay")
        spec.update(type="adagrad", epsilon=group["eps"],
                    initial_accumulator_value=group["initial_accumulator_value"])
    elif kind == "RMSprop":
        refuse("weight_decay")
        spec.update(type="rmsprop", rho=group["alpha"], epsilon=group["eps"],
                    momentum=group["momentum"], centered=group["centered"])
    else:
        raise ValueError(f"{kind} is not offered by psservers: SGD, Adam, AdamW, "
                         "Adagrad and RMSprop are, or say it as a dict")
    return spec


def _numpy(p: torch.Tensor) -> Any:
    return p.detach().to("cpu", torch.float32).numpy()


# ---- data

def _collated(items: List[Any]) -> Tuple[Any, Any]:
    batch = torch.utils.data.default_collate(items)
    if isinstance(batch, (list, tuple)) and len(batch) == 2:
        return batch[0], batch[1]
    return batch, None


def _read(data: Any, samples: Any) -> Tuple[Any, Any]:
    """A torch Dataset (or anything with len and [i]), or a tuple of two tensors or
    arrays with one row per sample."""
    if isinstance(data, tuple) and len(data) == 2:
        index = torch.from_numpy(samples.astype(np.int64))
        x, y = (torch.as_tensor(part) for part in data)
        return x[index], y[index]
    return _collated([data[int(n)] for n in samples])


def _length(data: Any) -> int:
    try:
        return len(data[0]) if isinstance(data, tuple) else len(data)
    except TypeError:
        raise ValueError(
            "the data has no length: samples are asked for by number, so that each "
            "counts once whoever dies; a stream cannot give that") from None


class Trainer:
    """A torch model that trains on a cluster. See the module.

    model        its parameters that require a gradient are the job's variables
    job          name; programs that say the same name train together
    coordinator  address; None: $SLUICE_COORDINATOR
    optimizer    of torch, or a dict as a job has it
    tls          a worker's certificate, "certs/worker"; `submit_tls` of who submits,
                 if that is another one
    init         "model": the first program's values, through a file in `share` that
                 psservers can read (its folder is on one host, or shared); or
                 an initializer's name, as "glorot_uniform"
    train        more of the job's `train`, e.g. {"max_delay": 16}
    """

    def __init__(self, model: torch.nn.Module, job: str,
                 coordinator: Optional[str] = None, *,
                 optimizer: Union[torch.optim.Optimizer, Json, None] = None,
                 tls: Tls = None, submit_tls: Tls = None, name: Optional[str] = None,
                 init: str = "model", share: Optional[str] = None,
                 train: Optional[Json] = None, wait: Optional[float] = None) -> None:
        self.model, self.job, self.coordinator = model, job, coordinator
        self.tls, self.submit_tls = tls, submit_tls or tls
        self.name, self.wait = name, wait
        self._init, self._share = init, share
        self._train = dict(train or {})
        self._optimizer = optimizer_spec(optimizer or {"type": "sgd",
                                                       "learning_rate": 0.01})
        self.parameters = [(n, p) for n, p in model.named_parameters()
                           if p.requires_grad]
        for n, p in self.parameters:
            if p.dtype != torch.float32:
                raise ValueError(f"{n} is {p.dtype}; parameters are float32 (compute "
                                 "in less under torch.autocast)")
        self.id: Optional[str] = None  # of the job
        self.metrics: Json = {"steps": 0, "samples": 0, "loss": float("nan")}
        self._session: Optional[Session] = None
        self._step: Optional[Step] = None
        self._taken = False
        self._where: Tuple[int, int] = (0, 0)  # addresses of the vectors
        self._ranges: Dict[str, Tuple[int, int]] = {}
        self._hooks: List[Any] = []
        self._grads: Optional[torch.Tensor] = None
        self._old_handlers: Dict[int, Any] = {}

    # ---- the job

    def spec(self, samples: int, batch_size: int, epochs: int) -> Json:
        """The job that the first program submits."""
        initializer = "zeros" if self._init == "model" else self._init
        train = {"batch": batch_size, "epochs": epochs, "steps_per_closure": 16,
                 **self._train}
        return {"name": self.job,
                "model": {"type": "external", "variables": [
                    {"name": n, "shape": list(p.shape) or [1],
                     "initializer": initializer} for n, p in self.parameters]},
                "optimizer": self._optimizer,
                "data": {"train": {"format": "external", "samples": samples}},
                "train": train}

    def _join(self, spec: Json) -> str:
        """The id of the job of our name that has not ended; else of a new one. Who
        looks at the same moment asks for the same one."""
        listed = [j for j in client.jobs(self.coordinator, tls=self.submit_tls)
                  if j["name"] == self.job]
        for j in listed:
            if j["state"] not in ("finished", "failed", "stopped"):
                return str(j["id"])
        words = json.dumps([self.job, len(listed)])
        request = hashlib.sha256(words.encode()).hexdigest()[:32]
        return client.submit(spec, self.coordinator, tls=self.submit_tls,
                             request_id=request, weights=self._weights(request))

    def _weights(self, request: str) -> Optional[str]:
        if self._init != "model":
            return None
        folder = self._share or os.path.join(tempfile.gettempdir(), "sluice-weights")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(os.path.abspath(folder), f"{self.job}-{request}.safetensors")
        if not os.path.exists(path):
            client.save_safetensors(path, {
                n: _numpy(p).reshape(list(p.shape) or [1])
                for n, p in self.parameters})
        return path

    # ---- life

    def __enter__(self) -> "Trainer":
        if threading.current_thread() is threading.main_thread():
            self._old_handlers = {
                signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: self.drain())}
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        self._old_handlers = {}

    def drain(self) -> None:
        """The step under way ends, `batches` ends, the rest goes to others."""
        if self._session is not None:
            self._session.drain()

    def close(self) -> None:
        """Leaves the cluster. The model keeps the parameters that it saw last."""
        self._let_go()
        if self._session is not None:
            self._session.close()
            self._session = None

    def _let_go(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        if self._where == (0, 0):
            return
        for _, p in self.parameters:
            p.data = p.data.clone()
            p.grad = None
        self._where, self._grads = (0, 0), None

    # ---- the model and the vectors

    def _attach(self, closure: Closure) -> None:
        """Parameters and gradients of a CPU's model become views of the vectors;
        those of a GPU are copied."""
        where = (closure.params.ctypes.data, closure.grads.ctypes.data)
        if where == self._where:
            return
        self._let_go()
        by_name = {v.name: v for v in closure.variables}
        ours = {n: tuple(p.shape) or (1,) for n, p in self.parameters}
        theirs = {n: v.shape for n, v in by_name.items()}
        if ours != theirs:
            differ = sorted(set(ours.items()) ^ set(theirs.items()))
            closure.fail(f"the program's model is another than the job's: {differ[:4]}")
            raise ValueError(f"job {self.job} has another model; differing: {differ}")
        self._ranges = {n: (v.first, v.elements) for n, v in by_name.items()}
        self._params = torch.from_numpy(closure.params)
        self._grads = torch.from_numpy(closure.grads)
        for n, p in self.parameters:
            if p.device.type == "cpu":
                p.data = self._view(self._params, n, p)
                p.grad = self._view(self._grads, n, p)
            self._hooks.append(p.register_post_accumulate_grad_hook(
                lambda q, n=n: self._whole(n, q)))
        self._where = where

    def _view(self, vector: torch.Tensor, n: str, p: torch.Tensor) -> torch.Tensor:
        first, elements = self._ranges[n]
        return vector[first:first + elements].view(p.shape)

    def _fresh(self) -> None:
        for n, p in self.parameters:
            if p.device.type != "cpu":
                with torch.no_grad():
                    p.copy_(self._view(self._params, n, p))

    def _whole(self, n: str, p: torch.Tensor) -> None:
        """Backward has this gradient: what makes up a shard leaves."""
        if self._step is None or self._scaled:
            return
        assert self._grads is not None and p.grad is not None
        if p.device.type != "cpu":
            self._view(self._grads, n, p).copy_(p.grad)
        elif p.grad.data_ptr() != self._view(self._grads, n, p).data_ptr():
            self._view(self._grads, n, p).copy_(p.grad)  # somebody replaced it
            p.grad = self._view(self._grads, n, p)
        with contextlib.suppress(Lost):  # the next batch is another closure's
            self._step.ready(*self._ranges[n])

    # ---- training

    def batches(self, data: Any, batch_size: int, epochs: int = 1) -> Iterator[Batch]:
        """The batches that the cluster gives to this program, until the job has
        ended or we are leaving. Each is to be finished by one `step`.

        data: indexable by sample number: a torch Dataset, or (x, y) with one row
        per sample. The order is the cluster's: each sample once an epoch."""
        self.id = self._join(self.spec(_length(data), batch_size, epochs))
        number = int(client.status(self.id, self.coordinator,
                                   tls=self.submit_tls)["job"])
        self._session = Session(self.coordinator, name=self.name, job=number,
                                device=f"torch, {torch.get_num_threads()} threads",
                                tls=self.tls, wait=self.wait)
        for closure in self._session.closures():
            self._attach(closure)
            yield from self._steps(closure, data)

    def _steps(self, closure: Closure, data: Any) -> Iterator[Batch]:
        try:
            for step in closure.steps():
                self._fresh()
                samples = step.samples
                x, y = _read(data, samples)
                self._step, self._taken = step, False
                yield Batch(x, y, samples, closure.epoch, step.number, closure.number)
                self._step = None
                if not self._taken:
                    raise RuntimeError("a batch was passed over: call step for each")
        finally:
            self._step = None

    _scaled = False

    def step(self, compute: Callable[[], torch.Tensor], right: float = 0.0,
             scaler: Optional[Any] = None) -> float:
        """Computes the batch's loss and its gradient, and pushes it. `compute`
        returns the mean loss; `right`: how many were predicted right. With a
        GradScaler a step that it would skip is counted as skipped. Returns the
        loss."""
        step = self._step
        if step is None:
            raise RuntimeError("step is called for a batch of `batches`, once")
        assert self._grads is not None
        self._taken, self._scaled = True, scaler is not None
        self._grads.zero_()
        for _, p in self.parameters:
            if p.device.type != "cpu":
                p.grad = None
        loss = compute()
        value = float(loss.detach())
        skip = False
        if scaler is None:
            loss.backward()
        else:
            scaler.scale(loss).backward()
            skip = self._unscale(scaler)
        self._scaled = False
        with contextlib.suppress(Lost):
            step.done(loss_sum=value * step.count, right=right, skip=skip)
            self.metrics["steps"] += 1
            self.metrics["samples"] += step.count
            self.metrics["loss"] = value
        self._step = None
        return value

    def _unscale(self, scaler: Any) -> bool:
        """The whole gradient, divided by the scale; True if it is not finite."""
        assert self._grads is not None
        for n, p in self.parameters:
            if p.grad is not None and p.device.type != "cpu":
                self._view(self._grads, n, p).copy_(p.grad)
        self._grads /= scaler.get_scale()
        finite = bool(torch.isfinite(self._grads).all())
        if finite:
            scaler.update(scaler.get_scale())
        else:
            scaler.update(scaler.get_scale() * scaler.get_backoff_factor())
        return not finite

    # ---- results

    def status(self) -> Json:
        """Of the whole job, as `sluice status` says it."""
        assert self.id is not None, "batches has not begun"
        return client.status(self.id, self.coordinator, tls=self.submit_tls)

    def load(self) -> None:
        """The parameters of the job's newest checkpoint into the model: after the
        end those of the whole job, not what this program saw last."""
        assert self.id is not None, "batches has not begun"
        self._let_go()
        values = client.export(self.id, self.coordinator, tls=self.submit_tls)
        with torch.no_grad():
            for n, p in self.parameters:
                p.copy_(torch.from_numpy(values[n]).view(p.shape))

    def save(self, path: str) -> None:
        """The newest checkpoint as a safetensors file, by the model's names."""
        assert self.id is not None, "batches has not begun"
        client.export(self.id, self.coordinator, tls=self.submit_tls, to=path)

    def evaluate(self, data: Any, metric: Callable[[Any, Any], torch.Tensor],
                 batch_size: int = 256) -> float:
        """The mean of `metric(model(x), y)`, which has one value per sample, over
        `data`, with the parameters that the model has now."""
        total, n = 0.0, _length(data)
        was = self.model.training
        self.model.eval()
        with torch.no_grad():
            for first in range(0, n, batch_size):
                numbers = np.arange(first, min(first + batch_size, n))
                x, y = _read(data, numbers)
                total += float(metric(self.model(x), y).float().sum())
        self.model.train(was)
        return total / n
