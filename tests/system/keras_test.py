#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keras on exactly-once servers: `sluice.keras.fit` is `model.fit` on one worker,
with each of Keras' backends; what callbacks say is heard or refused."""
import json

from cluster import Cluster, check, check_counts, check_equal
from frames import leave, main_with, run, train_and_die

BEGIN = """
import json, sys, numpy as np, keras, sluice.keras
address = sys.argv[1]
O, S = keras.optimizers, keras.optimizers.schedules
data = np.random.default_rng(7)
x = data.standard_normal((3200, 12)).astype(np.float32)
y = data.integers(0, 4, 3200)
x[:, 0] += y
def net(optimizer, policy="float32", **more):
    keras.backend.clear_session()
    keras.config.set_dtype_policy(policy)
    keras.utils.set_random_seed(3)
    model = keras.Sequential([
        keras.Input((12,)),
        keras.layers.Dense(24, activation="tanh", kernel_regularizer="l2"),
        keras.layers.Dense(4)])
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(
        from_logits=True), metrics=["accuracy"], **more)
    return model
def flat(model):
    return np.concatenate([keras.ops.convert_to_numpy(v.value).ravel()
                           for v in model.trainable_variables])
"""
# One worker, in order: what Keras' own fit computes.
SAME = BEGIN + """
def excluding(optimizer):
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    return optimizer
OPTIMIZERS = {
    "sgd": lambda: O.SGD(0.05),
    "nesterov": lambda: O.SGD(0.02, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda: O.Adam(0.01),
    "amsgrad": lambda: O.Adam(0.01, amsgrad=True, weight_decay=0.02),
    "adamw": lambda: O.AdamW(0.01, weight_decay=0.05),
    "undecayed": lambda: O.AdamW(0.01, weight_decay=0.0, clipnorm=0.0),
    "excludes": lambda: excluding(O.AdamW(0.01, weight_decay=0.5)),
    "adamax": lambda: O.Adamax(0.01),
    "nadam": lambda: O.Nadam(0.01, weight_decay=0.01),
    "lion": lambda: O.Lion(0.002),
    "lamb": lambda: O.Lamb(0.01, weight_decay=0.01),
    "muon": lambda: O.Muon(0.01),
    "adagrad": lambda: O.Adagrad(0.05),
    "rmsprop": lambda: O.RMSprop(0.003, momentum=0.5, centered=True),
    "clipnorm": lambda: O.SGD(0.05, clipnorm=0.1),
    "clipvalue": lambda: O.Adam(0.01, clipvalue=0.01),
    "global-clipnorm": lambda: O.SGD(0.05, momentum=0.5, global_clipnorm=0.2),
    "exponential": lambda: O.Adam(S.ExponentialDecay(0.02, 40, 0.7, staircase=True)),
    "piecewise": lambda: O.SGD(S.PiecewiseConstantDecay([50, 120], [0.1, 0.05, 0.01])),
    "polynomial": lambda: O.AdamW(S.PolynomialDecay(0.02, 150, 0.001, power=2.0)),
    "inverse": lambda: O.SGD(S.InverseTimeDecay(0.1, 30, 0.5)),
    "cosine": lambda: O.Adam(S.CosineDecay(0.001, 120, alpha=0.1, warmup_target=0.02,
                                           warmup_steps=30)),
    "restarts": lambda: O.SGD(S.CosineDecayRestarts(0.1, 60, t_mul=1.5, m_mul=0.8)),
}
for kind in sys.argv[2].split(",") if sys.argv[2:] else OPTIMIZERS:
    ours, theirs = net(OPTIMIZERS[kind]()), net(OPTIMIZERS[kind]())
    said = sluice.keras.fit(ours, x, y, job=kind, coordinator=address, batch_size=16,
                            verbose=0, train={"shuffle": False})
    want = theirs.fit(x, y, batch_size=16, shuffle=False, verbose=0)
    for name, values in want.history.items():
        assert np.allclose(values, said.history[name], rtol=1e-4), (kind, name)
    a, b = flat(ours), flat(theirs)
    print(json.dumps([kind, float(np.linalg.norm(a - b) / np.linalg.norm(b))]))
"""
# Mode local: rounds of one contribution, whose change the psservers take as it is, are
# Keras' own steps, at the rates of a schedule and with slots that go on or begin anew.
LOCAL = BEGIN + """
x, y = x[:1280], y[:1280]
def optimizer(way):
    if way == "keep":
        return O.AdamW(S.ExponentialDecay(0.02, 20, 0.7, staircase=True), weight_decay=0.02)
    return O.Adam(0.01)
for way in ("keep", "reset"):
    ours, theirs = net(optimizer(way)), net(optimizer(way))
    said = sluice.keras.fit(ours, x, y, job=way, coordinator=address, batch_size=16,
                            verbose=0, mode="local", every=20, ranks=1, moments=way,
                            train={"shuffle": False, "outer": {
                                "type": "sgd", "learning_rate": 1.0}})
    if way == "reset":
        for at in range(0, 1280, 320):
            theirs.compile(optimizer(way), theirs.loss, metrics=["accuracy"])
            theirs.fit(x[at:at + 320], y[at:at + 320], batch_size=16, shuffle=False,
                       verbose=0)
    else:
        want = theirs.fit(x, y, batch_size=16, shuffle=False, verbose=0)
        for name, values in want.history.items():
            assert np.allclose(values, said.history[name], rtol=1e-4), (way, name)
    a, b = flat(ours), flat(theirs)
    apart = float(np.linalg.norm(a - b) / np.linalg.norm(b))
    assert apart < 1e-4, (way, apart)
for wrong, words in ((O.SGD(0.1, gradient_accumulation_steps=2), "gradient_accumulation"),
                     (keras.optimizers.LossScaleOptimizer(O.SGD(0.1)), "no loss scale")):
    try:
        sluice.keras.fit(net(wrong), x, y, job="wrong", coordinator=address, verbose=0,
                         mode="local", every=20)
    except ValueError as error:
        assert words in str(error), error
    else:
        assert False, words
print("as one process")
"""
EVENTS = BEGIN + """
class Tells(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.said = []
    def on_train_begin(self, logs=None):
        self.said.append("begin")
    def on_epoch_begin(self, epoch, logs=None):
        self.said.append(f"epoch {epoch}")
    def on_train_batch_begin(self, batch, logs=None):
        self.said.append(f"batch {batch}")
    def on_train_batch_end(self, batch, logs=None):
        self.said.append(f"done {batch} {sorted(logs)}")
    def on_epoch_end(self, epoch, logs=None):
        self.said.append(f"ended {epoch} {sorted(logs)}")
    def on_train_end(self, logs=None):
        self.said.append(f"end {sorted(logs)}")
few = dict(validation_data=(x[:200], y[:200]), epochs=2, batch_size=50, verbose=0)
ours, theirs = Tells(), Tells()
a, b = net("adam"), net("adam")
optimizer = a.optimizer
weights = np.linspace(0.5, 1.5, 400, dtype=np.float32)
said = sluice.keras.fit(a, x[:400], y[:400], job="events", coordinator=address,
                        sample_weight=weights, callbacks=[ours],
                        train={"shuffle": False}, **few)
want = b.fit(x[:400], y[:400], sample_weight=weights, callbacks=[theirs],
             shuffle=False, **few)
assert ours.said == theirs.said, (ours.said, theirs.said)
for name, values in want.history.items():
    assert np.allclose(values, said.history[name], rtol=1e-4), (name, values, said.history)
assert a.optimizer is optimizer and a.evaluate(x, y, verbose=0, return_dict=True)
a.fit(x[:50], y[:50], verbose=0)            # it is the user's again
print(json.dumps(said.job))
"""
HEARD = BEGIN + """
class Stops(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.model.stop_training = batch == 20
model = net("sgd")
before = model.evaluate(x, y, verbose=0)[0]
said = sluice.keras.fit(model, x, y, job="stops", coordinator=address, batch_size=16,
                        callbacks=[Stops()], epochs=1000, verbose=0)
assert model.evaluate(x, y, verbose=0)[0] < before
print(json.dumps(sluice.status(said.job, address)))
"""
REFUSED = BEGIN + """
def refused(words, optimizer="sgd", **more):
    try:
        model = net(optimizer)
        sluice.keras.fit(model, x, y, job="refused", coordinator=address, verbose=0,
                         **more)
    except (ValueError, RuntimeError) as error:
        assert words in str(error), (words, error)
        assert model.optimizer.name != "sluice"
    else:
        assert False, words
refused("rate that depends on a metric", callbacks=[
    keras.callbacks.ReduceLROnPlateau()])
refused("Ftrl is not offered", O.Ftrl(0.01))
refused("use_ema=True", O.SGD(0.1, use_ema=True))
refused("rows", sample_weight=np.ones(5, np.float32))
model = net("sgd")
model.layers[0].kernel.constraint = keras.constraints.NonNeg()
try:
    sluice.keras.fit(model, x, y, job="constraint", coordinator=address)
    assert False
except ValueError as error:
    assert "constraint" in str(error)
try:
    sluice.keras.fit(net("sgd"), x * np.inf, y, job="not-finite", coordinator=address,
                     verbose=0, train={"nonfinite": "fail"})
    assert False
except (RuntimeError, sluice.Error) as error:
    assert "finite" in str(error), error
"""
SCALED = BEGIN + """
class Spoils(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        if batch == 3:                       # more than f16 holds
            self.model.optimizer.dynamic_scale.assign(1e30)
model = net("adam", "mixed_float16")
assert isinstance(model.optimizer, O.LossScaleOptimizer)
said = sluice.keras.fit(model, x[:160], y[:160], job="scaled", coordinator=address,
                        batch_size=16, verbose=0, callbacks=[Spoils()])
print(json.dumps(sluice.status(said.job, address)))
"""

ITEMS = BEGIN + """
import os, pathlib
folder = pathlib.Path(sys.argv[2])
class Items:                                 # (x, y, weight) by number
    def __len__(self):
        return 400
    def __getitem__(self, n):
        (folder / str(os.getpid())).touch()
        return {"in": x[n]}, y[n], np.float32(1 + n % 2)
def named():
    keras.backend.clear_session()
    keras.utils.set_random_seed(3)
    inputs = keras.Input((12,), name="in")
    model = keras.Model({"in": inputs}, keras.layers.Dense(4)(inputs))
    model.compile(O.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(
        from_logits=True))
    return model
ours, theirs = named(), named()
sluice.keras.fit(ours, Items(), job="items", coordinator=address, batch_size=50,
                 verbose=0, workers=2, train={"shuffle": False})
theirs.fit({"in": x[:400]}, y[:400], sample_weight=1 + np.arange(400) % 2, verbose=0,
           batch_size=50, shuffle=False)
assert np.allclose(flat(ours), flat(theirs), rtol=1e-5, atol=1e-7)
readers = {int(p.name) for p in folder.iterdir()} - {os.getpid()}
assert len(readers) == 2, readers
"""

# Against an Embedding of Keras: SGD changes the rows of a batch alone there, too.
TABLE = BEGIN + """
import warnings
few = data.integers(0, 50, (808, 3))         # the last step has 8 samples
ids = few + (5 << 33)                        # of which 32 bits are not enough
def of(layer):
    keras.backend.clear_session()
    keras.utils.set_random_seed(3)
    who, what = keras.Input((3,), dtype="int64", name="who"), keras.Input((12,), name="what")
    rows = keras.layers.Flatten()(layer(who))
    out = keras.layers.Dense(4, name="last")(keras.layers.Concatenate()([rows, what]))
    model = keras.Model({"who": who, "what": what}, out)
    model.compile(O.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model
ones = {"initializer": "ones"}
parts = {"what": x[:808]}
theirs = of(keras.layers.Embedding(50, 4, embeddings_initializer="ones"))
want = theirs.fit({"who": few, **parts}, y[:808], batch_size=16, shuffle=False, verbose=0)
matrix = keras.ops.convert_to_numpy(theirs.layers[1].embeddings.value)
for accumulate, mode in ((1, {}), (2, {}), (1, {"mode": "allreduce", "ranks": 1})):
    ours = of(sluice.keras.Embedding("users", 4, **ones))
    if accumulate > 1:
        ours.compile(O.SGD(0.1, gradient_accumulation_steps=2), ours.loss)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        said = sluice.keras.fit(ours, {"who": ids, **parts}, y[:808],
                                job=f"table-{accumulate}-{len(mode)}", verbose=0,
                                coordinator=address, batch_size=16 // accumulate,
                                train={"shuffle": False}, **mode)
    assert any("no rows of table users" in str(w.message) for w in heard), heard
    assert np.allclose(said.history["loss"], want.history["loss"], rtol=1e-4)
    assert [v.path for v in ours.trainable_variables] == ["last/kernel", "last/bias"]
    apart = [np.abs(keras.ops.convert_to_numpy(a.value - b.value)).max() for a, b in zip(
        ours.trainable_variables, theirs.trainable_variables[1:])]
    rows = sluice.export(said.job, address, table="users")
    places = (rows["ids"] - np.uint64(5 << 33)).astype(int)
    assert sorted(places) == sorted(set(few.ravel().tolist()))
    apart.append(np.abs(rows["values"] - matrix[places]).max())
    print(json.dumps([accumulate, float(max(apart))]))
try:
    ours({"who": ids[:5], "what": x[:5]})
    assert False
except Exception as error:
    assert "sluice.export" in str(error), error
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    ours.save(sys.argv[2])
    again = keras.models.load_model(sys.argv[2])
assert {"saved", "loaded"} <= {w for m in heard for w in str(m.message).split()}, heard
assert again.get_layer("users").table == {"name": "users", "dim": 4, **ones}
def refused(words, model, **more):
    try:
        sluice.keras.fit(model, {"who": ids, **parts}, y[:808], job="refused",
                         coordinator=address, verbose=0, **more)
        assert False, words
    except ValueError as error:
        assert words in str(error), (words, error)
E = sluice.keras.Embedding
refused("mode async or allreduce, not in hybrid", of(E("users", 4)), mode="hybrid")
refused("say ranks", of(E("users", 4)), mode="allreduce")
L = keras.layers
row = keras.Sequential([keras.Input((3,), dtype="int64"), E("users", 4), L.Flatten(), L.Dense(4)])
row.compile("sgd", "mse")
refused("not in hybrid", row, mode="hybrid")
class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.users, self.out = E("users", 4), L.Dense(4)
    def call(self, x):
        return self.out(self.users(x["who"]))
own = Own()
own.compile("sgd", "mse")
refused("0 times", own)
refused("validation_data", of(E("users", 4)), validation_data=({"who": ids, **parts}, y[:808]))
layer = E("users", 4)
refused("2 times", of(lambda i: keras.layers.Add()([layer(i), layer(i)])))
refused("computed by the model", of(lambda i: layer(i + 1)))
try:
    E("users", 4, mask_zero=True)
    assert False
except ValueError as error:
    assert "mask_zero" in str(error)
"""


def same(c, *words, **how):
    for line in run(SAME, c.address, *words, **how).splitlines():
        kind, relative = json.loads(line)
        print(kind, relative, flush=True)
        # Five products of matrices in f32 are rounded otherwise there: 9e-6 here.
        most = 1e-4 if kind == "muon" else 1e-5
        check(relative < most, f"{kind}: {relative}")


def optimizers_schedules_and_clipping_are_those_of_keras():
    with Cluster(psservers=2, workers=0) as c:
        same(c)


def it_is_the_same_on_each_backend():
    for backend in ("torch", "jax"):
        with Cluster(psservers=2, workers=0) as c:
            same(c, "amsgrad,cosine", backend=backend)


def the_models_own_optimizer_takes_the_steps_of_mode_local():
    for backend in ("torch", "tensorflow", "jax"):
        with Cluster(psservers=2, workers=0) as c:
            said = run(LOCAL, c.address, backend=backend)
            check("as one process" in said, said)


def a_sparse_table_is_a_layer_on_each_backend():
    for backend in ("torch", "jax", "tensorflow"):
        with Cluster(psservers=2, workers=0) as c:
            said = run(TABLE, c.address, str(c.dir / "saved.keras"), backend=backend)
            for line in said.splitlines():
                accumulate, apart = json.loads(line)
                print(backend, accumulate, apart, flush=True)
                check(apart < 1e-4, f"{backend}, {accumulate} batches: {apart}")


def callbacks_see_what_fit_tells_them():
    with Cluster(psservers=1, workers=0) as c:
        job = json.loads(run(EVENTS, c.address))
        check_counts(c.wait_state(job))


def data_sets_are_read_ahead_by_processes():
    with Cluster(psservers=1, workers=0) as c:
        readers = c.dir / "readers"
        readers.mkdir()
        run(ITEMS, c.address, str(readers))


def a_callback_that_stops_ends_the_job():
    with Cluster(psservers=1, workers=0) as c:
        done = json.loads(run(HEARD, c.address))
        check_equal(done["state"], "stopped", "state")
        check(int(done["steps_counted"]) < 1000, done["steps_counted"])


def what_psservers_cannot_do_is_refused():
    with Cluster(psservers=1, workers=0) as c:
        run(REFUSED, c.address)


def a_step_that_keras_would_skip_is_counted_as_skipped():
    with Cluster(psservers=1, workers=0) as c:
        done = json.loads(run(SCALED, c.address))
        check_counts(done)
        check_equal(int(done["steps_counted"]), 10, "steps")
        skipped = int(done["updates_skipped"])
        check(0 < skipped < 8, f"{skipped} skipped steps")


def programs_of_keras_train_and_die():
    with Cluster(psservers=2, workers=0) as c:
        said = train_and_die(c, "keras_fashion.py", (60, 180), "--samples=24000")
        check(float(said.rsplit("accuracy", 1)[1].split()[0]) > 0.8, said)


def a_program_of_keras_leaves_in_order():
    with Cluster(psservers=1, workers=0) as c:
        leave(c, "keras_fashion.py", 20, "--samples=12800")


if __name__ == "__main__":
    main_with("keras", [
        optimizers_schedules_and_clipping_are_those_of_keras,
        it_is_the_same_on_each_backend,
        the_models_own_optimizer_takes_the_steps_of_mode_local,
        a_sparse_table_is_a_layer_on_each_backend, callbacks_see_what_fit_tells_them,
        data_sets_are_read_ahead_by_processes, a_callback_that_stops_ends_the_job,
        what_psservers_cannot_do_is_refused,
        a_step_that_keras_would_skip_is_counted_as_skipped,
        programs_of_keras_train_and_die,
        a_program_of_keras_leaves_in_order])
