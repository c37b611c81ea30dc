#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What people's Keras programs have in them: arguments of `model.fit`, callbacks that
stop or set the rate, tf.data, a train_step of their own. Each is run by `model.fit` and
by `sluice.keras.fit`, two changed lines apart, and ends with the same; or is refused
before there is a job. One program on one cluster runs them all, since the frameworks
take longer to load than all of it to train."""
import functools
import json

from cluster import Cluster, check
from frames import main_with, run
from keras_test import BEGIN

PROGRAM = BEGIN + """
import tensorflow as tf, traceback, warnings
K, CB, L = keras.ops, keras.callbacks, keras.layers
x, y = x[:320], y[:320].astype(np.int32)
tensors = tf.data.Dataset.from_tensor_slices((x, y))
BELOW = tensors.shuffle(10).map(lambda a, b: (a, b)).batch(32)   # before a seed is set
def jobs():
    return len(sluice.jobs(address))
def both(kind, make, ours=(), theirs=(), rtol=1e-4, data=None, **more):
    # As ours, as theirs: History and parameters are the same.
    a, b = make(), make()
    data = data or (x, y)
    said = sluice.keras.fit(a, *data, job=kind, coordinator=address, verbose=0,
                            **{**more, **dict(ours)})
    want = b.fit(*data, verbose=0, **{**more, **dict(theirs)})
    assert said.epoch == want.epoch, (said.epoch, want.epoch)
    assert set(said.history) == set(want.history), (said.history, want.history)
    for name, values in want.history.items():
        assert np.allclose(values, said.history[name], rtol=rtol), (
            name, values, said.history[name])
    assert len(a.trainable_variables) == len(b.trainable_variables)
    apart = np.linalg.norm(flat(a) - flat(b)) / np.linalg.norm(flat(b))
    assert apart < rtol, apart
    return a, b, said
ORDER = dict(shuffle=False, batch_size=32)
def fails(kind, words, **more):
    before = jobs()
    try:
        sluice.keras.fit(more.pop("model", None) or net(O.SGD(0.1)),
                         *more.pop("data", (x, y)), job=kind, coordinator=address,
                         verbose=0, **more)
    except (ValueError, TypeError) as error:
        assert words in str(error), error
    else:
        assert False, "not refused"
    assert jobs() == before, "a job is there"

def keras_arguments():
    sgd = lambda: net(O.SGD(0.1))
    for kind, more in {
            "class-weight": {"class_weight": {0: 1.0, 1: 5.0}},
            "validation-split": {"validation_split": 0.25},
            "steps-per-epoch": {"steps_per_epoch": 5},
            "initial-epoch": {"initial_epoch": 2},
            "validation-freq": {"validation_data": (x, y), "validation_freq": 2},
            "validation-batch-size": {"validation_data": (x, y), "validation_steps": 3,
                                      "validation_batch_size": 10}}.items():
        both(kind, sgd, epochs=4, **ORDER, **more)
    fails("twice", "multiply them", class_weight={0: 1}, sample_weight=np.ones(320))
    fails("none-left", "leaves none", validation_split=0.999)
    fails("no-epoch", "nothing is left", initial_epoch=1)
    fails("a-list", "y is list", data=(x, y.tolist()))
    fails("stream", "generator", data=(iter([(x, y)]),))

def keras_early_stopping_extra_epoch():
    class Log(CB.Callback):
        def __init__(self):
            self.said = []
        def on_epoch_begin(self, epoch, logs=None):
            self.said.append(("begin", epoch))
        def on_train_batch_end(self, batch, logs=None):
            self.said.append(("batch", batch))
        def on_epoch_end(self, epoch, logs=None):
            self.said.append(("end", epoch))
    for restore in (False, True):
        logs = Log(), Log()
        stops = lambda: CB.EarlyStopping("val_loss", min_delta=0.1, patience=1,
                                         restore_best_weights=restore)
        a, b, said = both(f"early-{restore}".lower(), lambda: net(O.SGD(0.05)),
                          {"callbacks": [logs[0], stops()]},
                          {"callbacks": [logs[1], stops()]},
                          epochs=20, validation_data=(x[:100], y[:100]), **ORDER)
        assert logs[0].said == logs[1].said, logs[0].said[-3:]
        assert 1 < len(said.epoch) < 20, said.epoch
        assert sluice.status(said.job, address)["state"] == "stopped"

class Prints(CB.Callback):
    def __init__(self):
        self.said = []
    def on_epoch_begin(self, epoch, logs=None):
        self.said.append(float(K.convert_to_numpy(self.model.optimizer.learning_rate)))
    def on_epoch_end(self, epoch, logs=None):
        self.said.append(float(K.convert_to_numpy(self.model.optimizer.learning_rate)))

class Sets(CB.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.model.optimizer.learning_rate = 0.02 / (1 + epoch)

class Ends(CB.Callback):
    def on_epoch_end(self, epoch, logs=None):
        rate = self.model.optimizer.learning_rate
        rate.assign(rate * 0.5)

def callbacks_that_set_or_print_the_rate():
    warm = lambda epoch, lr: lr * 2 if epoch < 2 else lr * 0.7
    for kind, callbacks in {"scheduler": lambda: [CB.LearningRateScheduler(warm)],
                            "old-scheduler": lambda: [CB.LearningRateScheduler(
                                lambda epoch: 1e-3 if epoch < 3 else 1e-4)],
                            "sets": lambda: [Sets()], "ends": lambda: [Ends()],
                            "constant": lambda: []}.items():
        prints = Prints(), Prints()
        both(kind, lambda: net(O.Adam(0.005)), {"callbacks": callbacks() + [prints[0]]},
             {"callbacks": callbacks() + [prints[1]]}, epochs=5, **ORDER)
        assert np.allclose(prints[0].said, prints[1].said, rtol=1e-6), (
            kind, prints[0].said, prints[1].said)
    prints = Prints(), Prints()
    both("schedule", lambda: net(O.SGD(S.ExponentialDecay(0.1, 10, 0.5))),
         {"callbacks": [prints[0]]}, {"callbacks": [prints[1]]}, epochs=3, **ORDER)
    assert np.allclose(prints[0].said[::2], prints[1].said[::2], rtol=1e-6), (
        prints[0].said, prints[1].said)
    class Batch(CB.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            self.model.optimizer.learning_rate = 0.1 / (1 + batch)
    class Metric(CB.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if logs["loss"] < 1:
                self.model.optimizer.learning_rate = 0.1
    fails("plateau", "ReduceLROnPlateau: psservers", callbacks=[CB.ReduceLROnPlateau()])
    fails("batch", "sets the learning rate", callbacks=[Batch()])
    fails("metric", "KeyError: 'loss'", callbacks=[Metric()], epochs=2)
    fails("both", "not settable", model=net(O.SGD(S.ExponentialDecay(0.1, 10, 0.5))),
          callbacks=[Sets()])
    # What cannot be seen before is seen in time, and the job is not left behind.
    set_it = "learning_" + "rate"
    class Hides(CB.Callback):
        def on_epoch_end(self, epoch, logs=None):
            setattr(self.model.optimizer, set_it, 0.5)
    try:
        sluice.keras.fit(net(O.SGD(0.1)), x, y, job="hides", coordinator=address,
                         verbose=0, epochs=100, callbacks=[Hides()])
        assert False
    except ValueError as error:
        assert "set the learning rate to 0.5 in epoch 1" in str(error), error
    assert sluice.jobs(address)[0]["state"] in ("stopping", "stopped")

class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 10
    def __getitem__(self, n):
        at = slice(32 * n, 32 * (n + 1))
        return x[at], y[at], np.full(32, 1 + n % 2, np.float32)

def data_sets_of_keras_programs():
    adam = lambda: net(O.Adam(0.005))
    sets = {"plain": tensors.batch(32), "odd": tensors.batch(48).prefetch(2),
            "drops": tensors.batch(48, drop_remainder=True).cache(),
            "mapped": tensors.batch(32).map(lambda a, b: (a * 2, b)),
            "twice": tensors.batch(32).repeat(2)}
    for kind, data in sets.items():
        both(f"tf-{kind}", adam, data=(data,), shuffle=False,
             epochs=2)
    both("tf-repeat", adam, data=(tensors.repeat().batch(32),), epochs=4,
         steps_per_epoch=5)
    both("tf-past-the-end", adam, data=(tensors.repeat().batch(32),), epochs=3,
         steps_per_epoch=7)
    both("py-dataset", adam, data=(Batches(),), shuffle=False, epochs=2)
    # Shuffled: each sample once an epoch, and it learns.
    model = net(O.Adam(0.01))
    said = sluice.keras.fit(model, tensors.shuffle(320).repeat().batch(16), epochs=8,
                            steps_per_epoch=20, job="shuffled", coordinator=address,
                            verbose=0, validation_data=tensors.batch(64))
    plain = net(O.Adam(0.01))
    want = plain.fit(tensors.shuffle(320).repeat().batch(16), epochs=8, verbose=0,
                     steps_per_epoch=20, validation_data=tensors.batch(64))
    got, want = said.history["val_accuracy"][-1], want.history["val_accuracy"][-1]
    print("accuracy", got, "plain", want, file=sys.stderr)
    assert got > want - 0.05, (got, want)
    fails("no-end", "no end", data=(tensors.batch(32).repeat(),))
    fails("below", "shuffle() below", data=(BELOW,))
    fails("batch-size", "batch_size is the dataset's", data=(tensors.batch(32),),
          batch_size=32)

def gradients_are_accumulated():
    both("accumulate", lambda: net(O.Adam(0.005, gradient_accumulation_steps=2)),
         epochs=3, **ORDER)

def keras_own_train_step():
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            keras.utils.set_random_seed(2)
            self.d, self.spare = L.Dense(4), L.Dense(2)
        def call(self, inputs):
            self.spare(inputs)
            return self.d(inputs)
        def train_step(self, data):
            a, b = data                          # two values, as from model.fit
            with tf.GradientTape() as tape:
                loss = self.compute_loss(y=b, y_pred=self(a, training=True))
            of = list(reversed(self.d.trainable_variables))
            self.optimizer.apply_gradients(zip(tape.gradient(loss, of), of))
            for metric in self.metrics:
                metric.update_state(loss)
            return {m.name: m.result() for m in self.metrics}
    def make():
        keras.backend.clear_session()
        model = Own()
        model.compile(O.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(
            from_logits=True))
        model(x[:1])
        return model
    both("own", make, epochs=2, **ORDER)
    class Other(Own):
        def train_step(self, data):
            return {"loss": self.compute_loss(y=data[1], y_pred=self(data[0]))}
    model = Other()
    model.compile("sgd", "mse")
    try:
        sluice.keras.fit(model, x, np.zeros((320, 4), np.float32), job="other",
                         coordinator=address, verbose=0)
        assert False
    except ValueError as error:
        assert "train_step did not call self.optimizer.apply" in str(error), error

def keras_tf_embedding_adam():
    ids = np.random.default_rng(0).integers(0, 50, (320, 6))
    class Dense(keras.Sequential):               # what torch and JAX do by themselves
        def train_step(self, data):
            a, b = data
            with tf.GradientTape() as tape:
                loss = self.compute_loss(y=b, y_pred=self(a, training=True))
            of = self.trainable_variables
            self.optimizer.apply_gradients(zip(
                [tf.convert_to_tensor(g) for g in tape.gradient(loss, of)], of))
            return {"loss": loss}
    def make(kind, optimizer):
        keras.backend.clear_session()
        keras.utils.set_random_seed(4)
        model = kind([keras.Input((6,)), L.Embedding(50, 8), L.Flatten(), L.Dense(4)])
        model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(
            from_logits=True))
        return model
    for kind, optimizer in {"sgd": lambda: O.SGD(0.5), "adam": lambda: O.Adam(0.01),
                            "rmsprop": lambda: O.RMSprop(0.01),
                            "adagrad": lambda: O.Adagrad(0.1)}.items():
        a, b = make(keras.Sequential, optimizer()), make(Dense, optimizer())
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            sluice.keras.fit(a, ids, y, job="emb-" + kind, coordinator=address,
                             verbose=0, **ORDER)
        b.fit(ids, y, verbose=0, **ORDER)
        apart = np.linalg.norm(flat(a) - flat(b)) / np.linalg.norm(flat(b))
        assert apart < 1e-4, (kind, apart)
        said = [w for w in told if "an Embedding with" in str(w.message)]
        assert len(said) == (kind != "sgd"), (kind, said)

for case in (keras_arguments, keras_early_stopping_extra_epoch,
             callbacks_that_set_or_print_the_rate, data_sets_of_keras_programs,
             gradients_are_accumulated, keras_own_train_step, keras_tf_embedding_adam):
    if sys.argv[2:] and case.__name__ not in sys.argv[2:]:
        continue
    try:
        case()
        print(json.dumps([case.__name__, ""]), flush=True)
    except BaseException:
        print(json.dumps([case.__name__, traceback.format_exc()]), flush=True)
"""


@functools.lru_cache(None)
def said():
    """Case -> what went wrong."""
    with Cluster(psservers=1, workers=0) as c:
        lines = run(PROGRAM, c.address, KERAS_BACKEND="tensorflow").splitlines()
    return dict(json.loads(line) for line in lines if line.startswith("["))


def case(name):
    def of():
        check(said()[name] == "", said()[name])
    of.__name__ = name
    return of


if __name__ == "__main__":
    main_with("keras", [case(name) for name in (
        "keras_arguments", "keras_early_stopping_extra_epoch",
        "callbacks_that_set_or_print_the_rate", "data_sets_of_keras_programs",
        "gradients_are_accumulated", "keras_own_train_step",
        "keras_tf_embedding_adam")])
