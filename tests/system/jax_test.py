#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""JAX on exactly-once servers: pytrees go there and back, a worker alone trains as a
loop of one's own does, and what would be compiled anew at each step is refused."""
import json
import os
import subprocess

from cluster import Cluster, check, check_counts, check_equal
from frames import ENVIRONMENT, PYTHON, leave, main_with, run, train_and_die

BEGIN = """
import json, os, sys, jax, jax.numpy as jnp, numpy as np, sluice.jax
address = sys.argv[1]
data = np.random.default_rng(7)
x = data.standard_normal((3200, 12)).astype(np.float32)
y = np.tanh(x @ data.standard_normal((12, 3)).astype(np.float32))
def first():
    keys = jax.random.split(jax.random.PRNGKey(3))
    return {"layers": [{"w": jax.random.normal(keys[0], (12, 24)) / 4,
                        "b": jnp.zeros(24)},
                       {"w": jax.random.normal(keys[1], (24, 3)) / 5,
                        "b": jnp.zeros(3)}], "scale": jnp.float32(1.5)}
def loss_fn(params, x, y):
    for layer in params["layers"]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return jnp.mean((params["scale"] * x - y) ** 2)
"""
# The same in a loop of one's own, with the formulas of the optimizers written out.
SAME = BEGIN + """
def sgd(p, g, m, t):
    m = jax.tree.map(lambda m, g: 0.9 * m - 0.05 * g, m, g)
    return jax.tree.map(jnp.add, p, m), m
def adam(p, g, state, t):
    m, v = state or (jax.tree.map(jnp.zeros_like, p),) * 2
    m = jax.tree.map(lambda m, g: m + (g - m) * 0.1, m, g)
    v = jax.tree.map(lambda v, g: v + (g * g - v) * 0.001, v, g)
    rate = 0.01 * 0.5 ** ((t - 1) // 50) * np.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t)
    return jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-7),
                        p, m, v), (m, v)
OURS = {"sgd": {"type": "sgd", "learning_rate": 0.05, "momentum": 0.9},
        "adam": {"type": "adam", "learning_rate": 0.01, "schedule": {
            "type": "exponential_decay", "decay_steps": 50, "decay_rate": 0.5,
            "staircase": True}}}
for kind, step in (("sgd", sgd), ("adam", adam)):
    seen = []
    with sluice.jax.Trainer(first(), kind, address, optimizer=OURS[kind],
                            train={"shuffle": False}) as t:
        for batch in t.batches((x, y), batch_size=16):
            if batch.step % 2:
                loss, gradient = jax.value_and_grad(loss_fn)(t.params, batch.x, batch.y)
                seen.append(t.push(gradient, loss))
            else:
                seen.append(t.step(loss_fn, batch.x, batch.y))
        ours = t.load()
    theirs = first()
    state = jax.tree.map(jnp.zeros_like, theirs) if kind == "sgd" else None
    for i in range(200):
        loss, gradient = jax.value_and_grad(loss_fn)(
            theirs, x[16 * i:16 * i + 16], y[16 * i:16 * i + 16])
        assert abs(loss - seen[i]) < 1e-4 * loss, (i, loss, seen[i])
        theirs, state = step(theirs, gradient, state, i + 1)
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    a, b = (np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(p)])
            for p in (ours, theirs))
    print(json.dumps([kind, float(np.linalg.norm(a - b) / np.linalg.norm(b))]))
"""
SAID = BEGIN + """
def with_sum(params, x, y):
    return loss_fn(params, x, y), jnp.sum(x)
with sluice.jax.Trainer(first(), "said", address, optimizer="adam",
                        train={"shuffle": False}) as t:
    names = [n for n, _ in t.variables]
    assert names == ["layers/0/b", "layers/0/w", "layers/1/b", "layers/1/w",
                     "scale"], names
    for i, batch in enumerate(t.batches((x, y), batch_size=160)):
        if i == 3:
            t.push(None, 1.0, skip=True)
        elif i == 4:
            try:
                t.push({"w": jnp.zeros(3)}, 1.0)
                assert False
            except ValueError as error:
                assert "shapes" in str(error)
            t.step(loss_fn, batch.x, batch.y)
        else:
            loss, seen = t.step(with_sum, batch.x, batch.y, has_aux=True)
            assert np.allclose(seen, np.sum(batch.x), atol=1e-2)
    assert t.metrics["steps"] == 20, t.metrics
    print(json.dumps(t.status()))
with sluice.jax.Trainer(first(), "lambdas", address) as t:
    try:
        for batch in t.batches((x, y), batch_size=16):
            t.step(lambda p: loss_fn(p, batch.x, batch.y))
        assert False
    except ValueError as error:
        assert "the same one each time" in str(error), error
import collections
optax = collections.namedtuple("GradientTransformationExtraArgs", "init update")
try:
    sluice.jax.Trainer(first(), "optax", address, optimizer=optax(len, len))
    assert False
except ValueError as error:
    assert "optax' are functions" in str(error) and "adam" in str(error), error
try:
    sluice.jax.Trainer({"n": jnp.arange(3)}, "ints", address)
    assert False
except ValueError as error:
    assert "int32" in str(error), error
"""
# Begun at one moment with first values of their own; processes of each read.
MEETS = """
import json, os, pathlib, sys, time, numpy as np, jax.numpy as jnp, sluice.jax
class Items:
    def __len__(self):
        return 640
    def __getitems__(self, numbers):
        return [{"x": np.full(3, n, np.float32), "reader": os.getpid()}
                for n in numbers]
def loss_fn(params, x):
    return jnp.mean((params["w"] - x / 640) ** 2)
def all_have(what):
    (folder / f"{what}-{seed}").touch()
    return all((folder / f"{what}-{n}").exists() for n in (1, 2, 3))
if __name__ == "__main__":
    address, seed = sys.argv[1:]
    folder, readers = pathlib.Path(__file__).parent, set()
    while not all_have("begun"):
        time.sleep(0.01)
    with sluice.jax.Trainer({"w": jnp.full(3, float(seed))}, "meets", address,
                            name=f"jax-{seed}", workers=1) as t:
        for batch in t.batches(Items(), batch_size=16, epochs=30000):
            readers |= set(batch.x["reader"].tolist())
            t.step(loss_fn, batch.x["x"])
            if all_have("met") and seed == "1":
                t.stop()
        learnt = t.load()["w"].tolist()
    assert os.getpid() not in readers, readers
    print(json.dumps([learnt, t.id]))
"""
# Joins a job that ends before it is given anything.
LATE = BEGIN + """
import sluice._program
sluice._program.ASK_S = 0.2
class Late(sluice.jax.Trainer):
    def _join(self, spec):
        with sluice.jax.Trainer(first(), "late", address) as other:
            for batch in other.batches((x, y), batch_size=160):
                other.step(loss_fn, batch.x, batch.y)
        return other.id
with Late(first(), "late", address) as t:
    assert not list(t.batches((x, y), batch_size=160))
    assert jax.tree.structure(t.load()) == jax.tree.structure(first())
"""


def a_worker_alone_trains_as_a_loop_of_ones_own():
    with Cluster(psservers=2, workers=0) as c:
        for line in run(SAME, c.address).splitlines():
            kind, relative = json.loads(line)
            print(kind, relative, flush=True)
            check(relative < 1e-5, f"{kind}: {relative}")


def gradients_of_the_programs_own_are_pushed_and_what_is_wrong_is_said():
    with Cluster(psservers=1, workers=0) as c:
        done = json.loads(run(SAID, c.address).splitlines()[0])
        check_counts(done)
        check_equal(int(done["updates_skipped"]), 1, "skipped")


def programs_that_begin_at_one_moment_train_one_job():
    with Cluster(psservers=1, workers=0) as c:
        path = c.dir / "meets.py"
        path.write_text(MEETS)
        programs = [subprocess.Popen(
            [PYTHON, str(path), c.address, str(seed)], stdout=subprocess.PIPE,
            text=True, env={**os.environ, **ENVIRONMENT}) for seed in (1, 2, 3)]
        try:
            said = [json.loads(p.communicate(timeout=300)[0]) for p in programs]
        finally:
            for program in programs:
                program.kill()
        print(said, flush=True)
        check_equal([p.returncode for p in programs], [0, 0, 0], "exits")
        check_equal(len(c.json("jobs")["jobs"]), 1, "jobs")
        check(all(s == said[0] for s in said), "what all have learnt", said)
        c.wait_state(said[0][1], "stopped")


def one_that_comes_at_the_end_ends():
    with Cluster(psservers=1, workers=0) as c:
        run(LATE, c.address)


def programs_of_jax_train_and_die():
    with Cluster(psservers=2, workers=0) as c:
        said = train_and_die(c, "jax_fashion.py", (100, 250), "--samples=60000",
                             "--epochs=1")
        check(float(said.rsplit("accuracy", 1)[1].split()[0]) > 0.8, said)


def a_program_of_jax_leaves_in_order():
    with Cluster(psservers=1, workers=0) as c:
        leave(c, "jax_fashion.py", 10, "--samples=12800", "--epochs=1")


TABLE = """
import sys, jax, jax.numpy as jnp, numpy as np, sluice, sluice.jax
address = sys.argv[1]
data = np.random.default_rng(7)
numbers = data.integers(0, 50, (3200, 3))
numbers[:, 1] = numbers[:, 0]                       # an id stands twice in a sample
y = data.standard_normal(3200).astype(np.float32)
ids = numbers.astype(np.uint64) * np.uint64(0x9e3779b97f4a7c15)   # any of 64 bits
w = data.standard_normal(8).astype(np.float32)

def loss_fn(params, rows, y):
    return jnp.mean((rows["users"].sum(1) @ params["w"] - y) ** 2)

def trained(**mode):
    seen = []
    with sluice.jax.Trainer({"w": w}, f"table-{len(mode)}", address, train={"shuffle": False},
                            optimizer={"type": "sgd", "learning_rate": 0.01}, **mode,
                            tables=[{"name": "users", "dim": 8, "initializer": "ones"}]) as t:
        for batch in t.batches((ids, y), batch_size=16):
            seen.append(t.step(loss_fn, batch.y, ids={"users": batch.x}))
        w_ours = t.load()["w"]
    kept = sluice.export(t.id, address, table="users")
    return seen, w_ours, dict(zip(kept["ids"].tolist(), kept["values"]))

each = [trained(), trained(mode="allreduce", ranks=1)]
theirs = {"w": w, "rows": jnp.ones((50, 8))}
dense = jax.jit(jax.value_and_grad(
    lambda p, n, y: loss_fn(p, {"users": p["rows"][n]}, y)))
for i in range(200):
    part = slice(16 * i, 16 * i + 16)
    loss, gradient = dense(theirs, numbers[part], y[part])
    theirs = jax.tree.map(lambda p, g: p - 0.01 * g, theirs, gradient)
    for seen, _, _ in each:
        assert abs(loss - seen[i]) < 1e-4 * abs(loss), (i, loss, seen[i])
for seen, w_ours, ours in each:
    np.testing.assert_allclose(w_ours, theirs["w"], rtol=1e-3, atol=1e-5)
    assert len(seen) == 200 and len(ours) == 50
    for n in range(50):
        of = int(np.uint64(n) * np.uint64(0x9e3779b97f4a7c15))
        np.testing.assert_allclose(ours[of], theirs["rows"][n], rtol=1e-3, atol=1e-5)
try:
    sluice.jax.Trainer({"w": w}, "refused", address, tables=[{"name": "a"}], mode="hybrid")
except ValueError as error:
    assert "mode async" in str(error), error
try:
    sluice.jax.Trainer({}, "refused", address, tables=[{"name": "a"}])
except ValueError as error:
    assert "no parameter that is trained" in str(error), error
print("as an array of rows")
"""


# An optimizer as optax has them, which takes the steps of mode local: rounds of one
# contribution, whose change the psservers take as it is.
LOCAL = BEGIN + """
import collections
Transformation = collections.namedtuple("Transformation", "init update")
def momentum(rate):
    def update(g, m, params):
        m = jax.tree.map(lambda m, g: 0.9 * m + g, m, g)
        return jax.tree.map(lambda m: -rate * m, m), m
    return Transformation(lambda p: jax.tree.map(jnp.zeros_like, p), update)
def rate_of(n):
    return 0.02 / (1 + 0.1 * n)
def theirs(keep):
    p, state, losses = first(), None, []
    for i in range(200):
        loss, g = jax.value_and_grad(loss_fn)(p, x[16 * i:16 * i + 16], y[16 * i:16 * i + 16])
        if state is None or (i % 20 == 0 and not keep):
            state = momentum(0).init(p)
        updates, state = momentum(rate_of(i)).update(g, state, p)
        p = jax.tree.map(jnp.add, p, updates)
        losses.append(float(loss))
    return p, losses
for way in ("reset", "keep", "own"):
    seen, state = [], None
    with sluice.jax.Trainer(first(), way, address, mode="local", every=20, ranks=1,
                            inner=None if way == "own" else momentum,
                            scheduler=None if way == "own" else rate_of,
                            moments="keep" if way == "keep" else "reset",
                            train={"shuffle": False, "outer": {
                                "type": "sgd", "learning_rate": 1.0}}) as t:
        for batch in t.batches((x, y), batch_size=16):
            if way != "own":
                seen.append(t.step(loss_fn, batch.x, batch.y))
                continue
            loss, g = jax.value_and_grad(loss_fn)(t.params, batch.x, batch.y)
            state = momentum(0).init(g) if batch.step == 0 else state
            updates, state = momentum(rate_of(batch.number)).update(g, state, t.params)
            seen.append(float(loss))
            t.stepped(loss, params=jax.tree.map(jnp.add, t.params, updates))
        ours = t.load()
    want, losses = theirs(way == "keep")
    np.testing.assert_allclose(seen, losses, rtol=1e-4)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(want)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
try:
    sluice.jax.Trainer(first(), "refused", address, inner=momentum)
except ValueError as error:
    assert "of mode 'local'" in str(error), error
print("as one process")
"""


def a_program_takes_steps_by_itself():
    with Cluster(psservers=2, workers=0) as c:
        said = run(LOCAL, c.address)
        check("as one process" in said, said)


def rows_of_a_table_are_an_argument_of_the_loss():
    with Cluster(psservers=2, workers=0) as c:
        said = run(TABLE, c.address)
        check("as an array of rows" in said, said)


if __name__ == "__main__":
    main_with("jax", [
        a_worker_alone_trains_as_a_loop_of_ones_own,
        gradients_of_the_programs_own_are_pushed_and_what_is_wrong_is_said,
        programs_that_begin_at_one_moment_train_one_job,
        one_that_comes_at_the_end_ends, a_program_takes_steps_by_itself,
        rows_of_a_table_are_an_argument_of_the_loss,
        programs_of_jax_train_and_die,
        a_program_of_jax_leaves_in_order])
