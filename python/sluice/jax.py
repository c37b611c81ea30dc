# SPDX-License-Identifier: Apache-2.0
"""A JAX program on a cluster: `Trainer`, for any pytree of parameters.

    def loss_fn(params, x, y):                       # the mean over the batch
        return jnp.mean((predict(params, x) - y) ** 2)

    with sluice.jax.Trainer(params, "fit", "10.0.0.1:7070", optimizer="adam") as t:
        for batch in t.batches((x, y), batch_size=64, epochs=5):
            t.step(loss_fn, batch.x, batch.y)
        params = t.load()

The first program that comes submits the job, the others join it; any may be
killed at any time, others may come. Parameters lie on the psservers, and so does
the optimizer's state. `loss_fn` and its gradient are compiled as one program from
flat vector to flat vector; with `t.params` and `t.push` a program does that itself.

In mode local the program takes the steps, with an optimizer as optax has them:

    with sluice.jax.Trainer(params, "fit", "10.0.0.1:7070", mode="local", every=100,
                            inner=optax.adamw(4e-4)) as t: ...

What is different from a loop of one's own:
- `t.params` are new arrays for each batch: nothing is stepped here, but in mode local
- an optimizer is a name, or a dict as a job has it: optax' are functions, of which
  nobody can say which they are
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Sequence, Tuple, Union

import jax
import jax.numpy as jnp
import numpy as np

from ._data import Batch
from ._program import Cluster, Json, Program
from .session import Floats

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Batch", "Trainer"]

FUNCTIONS = 16  # that one Trainer compiles; more are an accident


def _name(path: Any) -> str:
    """A leaf's place in its tree, as "dense/0/kernel"; of a lone leaf "params"."""
    keys = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key))))
            for key in path]
    return "/".join(keys) or "params"


def _one_vector(tree: Any) -> Any:
    return jnp.concatenate([jnp.ravel(leaf) for leaf in
                            jax.tree_util.tree_leaves(tree)])


class Trainer(Program):
    """Parameters in a pytree that train on a cluster. See the module.

    params     a pytree of float32 arrays: the first values
    optimizer  a job's: a name, as "adam", or a dict, as {"type": "sgd",
               "learning_rate": 0.1, "schedule": {...}, "global_clipnorm": 1.0}
    tables     sparse tables of the job (docs/tables.md), as it has them: [{"name":
               "users", "dim": 16, "optimizer": {...}}]. `step` has their rows.
               `init`: 0.01 draws first values from [-0.01, 0.01)
    inner      mode local: the optimizer of the program's own steps, as optax has it
               (`init` and `update`); None: the program steps by itself (`stepped`)
    scheduler  mode local: a function of the step's number (`batch.number`) that returns
               the rate; `inner` is then a function of the rate, as optax.adamw is
    cluster    tls, name, init, share, train, wait, workers, mode, ranks, every,
               moments, store, new: as of `Program`
               (sluice/_program.py)
    """

    # JAX has threads that a fork leaves behind: data travels by pickle.
    _start = "spawn"

    def __init__(self, params: Any, job: str, coordinator: Optional[str] = None, *,
                 optimizer: Union[str, Json, None] = None, tables: Sequence[Json] = (),
                 inner: Any = None, scheduler: Optional[Callable[[int], float]] = None,
                 **cluster: Unpack[Cluster]) -> None:
        local = cluster.get("mode", "async") == "local"
        if optimizer is None and not local:
            optimizer = "sgd"
        if not local and (inner is not None or scheduler is not None):
            raise ValueError("inner, scheduler: of mode 'local'; elsewhere psservers step, "
                             "and `optimizer` says what")
        if scheduler is not None and inner is None:
            raise ValueError("scheduler: it is of `inner`, which is not said")
        if optimizer is not None and not isinstance(optimizer, (str, dict)):
            raise ValueError(
                f"optimizer: {type(optimizer).__name__} is none of psservers'. optax' "
                "are functions, which cannot be asked what they are: say a name, as "
                'optimizer="adam", or {"type": "adam", "learning_rate": 0.001}')
        leaves, self._tree = jax.tree_util.tree_flatten_with_path(params)
        names = [_name(path) for path, _ in leaves]
        if len(set(names)) < len(names):
            raise ValueError(f"two leaves have one name, of {sorted(names)}")
        for n, (_, leaf) in zip(names, leaves):
            if jnp.asarray(leaf).dtype != jnp.float32:
                raise ValueError(f"{n} is {jnp.asarray(leaf).dtype}; parameters are "
                                 "float32 (cast them where they are used)")
        self._shapes = [tuple(np.shape(leaf)) for _, leaf in leaves]
        super().__init__(
            job, coordinator, list(zip(names, self._shapes)),
            {"type": optimizer} if isinstance(optimizer, str) else optimizer,
            tables=tables, **cluster)
        self.device = f"jax, {jax.devices()[0]}"
        self._inner, self._scheduler = inner, scheduler
        self._state: Any = None  # of `inner`
        self._rate = 0.0
        self._params: Any = params
        self._flat: Any = None  # the same as one vector
        self._functions: Dict[Tuple[Any, bool, bool], Any] = {}
        self._unflatten = jax.jit(self._trees)

    # ---- the tree and the vector

    def _values(self) -> Dict[str, Any]:
        return {n: np.asarray(leaf) for (n, _), leaf in
                zip(self.variables, jax.tree_util.tree_leaves(self.params))}

    def _trees(self, flat: Any) -> Any:
        leaves, at = [], 0
        for shape in self._shapes:
            n = int(np.prod(shape))
            leaves.append(flat[at:at + n].reshape(shape))
            at += n
        return jax.tree_util.tree_unflatten(self._tree, leaves)

    def _fresh(self) -> None:
        assert self._closure is not None
        # A copy: the session's memory changes, and goes.
        self._flat = jnp.array(self._closure.params, copy=True)
        self._params = None

    def _at(self, batch: Batch, reset: bool) -> None:
        if self._inner is None:
            return
        if self._scheduler is not None:
            self._rate = float(self._scheduler(batch.number))
        if reset or self._state is None:
            self._state = self._transformation(self._rate).init(self.params)

    def _transformation(self, rate: Any) -> Any:
        return self._inner if self._scheduler is None else self._inner(rate)

    @property
    def params(self) -> Any:
        """As fresh as the batch: a pytree, made when somebody looks."""
        if self._params is None:
            self._params = self._unflatten(self._flat)
        return self._params

    # ---- training

    def step(self, loss_fn: Callable[..., Any], *args: Any, has_aux: bool = False,
             right: float = 0.0, ids: Optional[Dict[str, Any]] = None) -> Any:
        """The loss of the batch and its gradient, which is pushed, or in mode local
        goes to `inner`. Returns the loss, or with `has_aux` (loss, aux).

        loss_fn  (params, *args) -> the mean loss, a scalar, or (loss, aux). Compiled
                 when it is first seen: the same function each time, not a lambda of
                 the loop
        right    how many samples were predicted right
        ids      {table: whole numbers of 64 bits, of any shape}: loss_fn is given
                 (params, rows, *args), where rows[table] are the rows of these, of
                 shape (*ids.shape, dim). Their gradients leave with the step
        """
        compute = self._compiled(loss_fn, has_aux, ids is not None)
        if self._inner is not None:
            value, aux, self._flat, self._state = compute(
                self._flat, self._state, self._rate, *args)
            self._params = None
            self.stepped(value, right)
            return (float(value), aux) if has_aux else float(value)
        if self._batch is not None:
            raise ValueError("step: no optimizer takes it: say Trainer(inner=...), or step "
                             "by yourself and call stepped(loss, params=params)")
        if ids is None:
            value, aux, gradient = compute(self._flat, *args)
        else:
            # NumPy's: without jax_enable_x64 JAX has no numbers of 64 bits.
            wanted = {name: np.asarray(numbers) for name, numbers in ids.items()}
            rows = self._pull_tables(wanted) if wanted else {}
            value, aux, gradient, of_rows = compute(self._flat, rows, *args)
            for name, numbers in wanted.items():
                self._push_table(name, numbers, np.asarray(of_rows[name]))
        loss = self._push(gradient, value, right)
        return (loss, aux) if has_aux else loss

    def push(self, gradient: Any, loss: Any = 0.0, right: float = 0.0,
             skip: bool = False) -> float:
        """For programs that compute it themselves from `t.params`: pushes a gradient
        (a pytree like params, of the mean loss) and the mean loss, which it returns.
        `skip`: count the step, apply nothing."""
        self._begun()
        if skip:
            self._done(float(loss), right, skip=True)
            return float(loss)
        leaves = jax.tree_util.tree_leaves(gradient)
        shapes = [tuple(leaf.shape) for leaf in leaves]
        if shapes != self._shapes:
            raise ValueError(f"a gradient of shapes {shapes}; parameters have "
                             f"{self._shapes}")
        return self._push(_one_vector(gradient), loss, right)

    def stepped(self, loss: Any, right: float = 0.0, params: Any = None) -> None:
        """Mode local, instead of `step`: the program has taken the step of the batch by
        itself, and `params` is what it has made of `t.params`."""
        if params is not None:
            self._flat, self._params = _one_vector(params), params
        super().stepped(float(loss), right)

    def _push(self, flat: Any, loss: Any, right: float) -> float:
        self._begun()
        assert self._closure is not None
        np.copyto(self._closure.grads, np.asarray(flat))
        value = float(loss)
        self._done(value, right)
        return value

    def _compiled(self, loss_fn: Callable[..., Any], has_aux: bool, has_rows: bool
                  ) -> Any:
        key = (loss_fn, has_aux, has_rows)
        if key not in self._functions:
            if len(self._functions) >= FUNCTIONS:
                raise ValueError(
                    f"{loss_fn} is the {FUNCTIONS + 1}th function that step is given: "
                    "each is compiled, so give it the same one each time, and what "
                    "changes as arguments")

            gradient_of = jax.value_and_grad(
                loss_fn if has_aux else lambda *words: (loss_fn(*words), None),
                argnums=(0, 1) if has_rows else (0,), has_aux=True)

            def step(flat: Any, state: Any, rate: Any, *args: Any) -> Any:
                params = self._trees(flat)
                (loss, aux), gradients = gradient_of(params, *args)
                updates, state = self._transformation(rate).update(gradients[0], state,
                                                                   params)
                return (loss, aux, _one_vector(jax.tree_util.tree_map(
                    jnp.add, params, updates)), state)

            def compute(flat: Any, *args: Any) -> Any:
                (loss, aux), gradients = gradient_of(self._trees(flat), *args)
                return (loss, aux, _one_vector(gradients[0]), *gradients[1:])
            self._functions[key] = jax.jit(compute if self._inner is None else step)
        return self._functions[key]

    # ---- results

    def load(self, best: bool = False) -> Any:
        """What the whole job has learnt, as a pytree, which is `params` from here on:
        the parameters of its last checkpoint, or with `best` what `better` kept. If it
        is we who left (SIGTERM), what this program saw last."""
        if self.ended():
            values = self.learnt(best)
            flat: Floats = np.concatenate([values[n].ravel()
                                           for n, _ in self.variables])
            self._flat, self._params = jnp.asarray(flat), None
        return self.params
