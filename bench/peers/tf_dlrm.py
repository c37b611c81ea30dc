# SPDX-License-Identifier: Apache-2.0
"""A DLRM on TensorFlow's ParameterServerStrategy, tables as sharded variables: 2
workers, 2 ps and the coordinator, a process each, on two cores. Net, data and
optimizer are those of bench/rows/dlrm.py.

Prints samples per second, counted by a number of the ps that each step adds to.
"""
import numpy as np

from common import options, say, windows_of
from criteo import NUMBERS, ROWS
from tf_common import Queue, resolver, start_cluster, tf

DIM, RATE = 16, 0.01
BOTTOM, TOP = (512, 256, 64, DIM), (512, 256, 1)
WHOLE = 1 << 20  # bytes of a variable that is not sharded


class Adagrad:
    """The update alone, on the ps that has the variable (tf_ps.py says why)."""

    def __init__(self, strategy, variables):
        self.sums = []
        for v in variables:
            with strategy.extended.colocate_vars_with(v):
                self.sums.append(tf.Variable(tf.fill(v.shape, 0.1)))
        self.iterations = tf.Variable(0, dtype=tf.int64)

    def apply_gradients(self, pairs):
        self.iterations.assign_add(1)
        for (g, v), s in zip(pairs, self.sums):
            with tf.device(v.device):
                if isinstance(g, tf.IndexedSlices):
                    tf.raw_ops.ResourceSparseApplyAdagradV2(
                        var=v.handle, accum=s.handle, lr=RATE, epsilon=1e-7,
                        grad=g.values, indices=g.indices)
                else:
                    tf.raw_ops.ResourceApplyAdagradV2(
                        var=v.handle, accum=s.handle, lr=RATE, epsilon=1e-7, grad=g)


class Dlrm:
    """Bottom net, a table for each feature (fused: one for all, each feature behind
    the one before), products of all pairs, top net."""

    def __init__(self, fused):
        starts = np.cumsum([0, *ROWS[:-1]]) if fused else np.zeros(len(ROWS))
        self.starts = tf.constant(starts, tf.int64)
        self.tables = [self.table(rows) for rows in ([sum(ROWS)] if fused else ROWS)]
        self.bottom = self.dense(NUMBERS, BOTTOM)
        pairs = (len(ROWS) + 1) * len(ROWS) // 2
        self.top = self.dense(DIM + pairs, TOP)
        lower = np.tril(np.ones((len(ROWS) + 1,) * 2), -1).reshape(-1)
        self.lower = tf.constant(np.flatnonzero(lower), tf.int64)

    @staticmethod
    def table(rows):
        return tf.Variable(lambda shape=(rows, DIM), dtype=tf.float32, **_:
                           tf.random.uniform(shape, -0.05, 0.05, dtype),
                           shape=(rows, DIM), dtype=tf.float32)

    @staticmethod
    def dense(width, units):
        layers = []
        for n in units:
            bound = (6 / (width + n)) ** 0.5
            layers.append((tf.Variable(tf.random.uniform((width, n), -bound, bound)),
                           tf.Variable(tf.zeros((n,)))))
            width = n
        return layers

    @property
    def variables(self):
        """Parts of tables, kernels and biases."""
        return [*(p for t in self.tables for p in getattr(t, "variables", [t])),
                *(v for layer in self.bottom + self.top for v in layer)]

    @staticmethod
    def apply_dense(layers, x, last):
        for i, (kernel, bias) in enumerate(layers):
            x = tf.matmul(x, kernel) + bias
            x = tf.nn.relu(x) if i + 1 < len(layers) else last(x)
        return x

    @staticmethod
    def rows(table, ids):
        """Each row once over the network, as its gradient."""
        ids, place = tf.unique(ids)
        parts = getattr(table, "variables", [table])
        return tf.gather(tf.nn.embedding_lookup(parts, ids), place)

    def __call__(self, x, ids):
        bottom = self.apply_dense(self.bottom, x, tf.nn.relu)
        ids += self.starts[:, None]
        if len(self.tables) == 1:
            vectors = self.rows(self.tables[0], tf.reshape(ids, [-1]))
            vectors = tf.reshape(vectors, [len(ROWS), -1, DIM])
        else:
            vectors = tf.stack([self.rows(t, ids[i])
                                for i, t in enumerate(self.tables)])
        v = tf.transpose(tf.concat([bottom[None], vectors], 0), [1, 0, 2])
        products = tf.reshape(tf.matmul(v, v, transpose_b=True), [tf.shape(x)[0], -1])
        pairs = tf.gather(products, self.lower, axis=1)
        return self.apply_dense(self.top, tf.concat([bottom, pairs], 1), tf.identity)


def batches(o):
    """Shuffled batches for ever, of the records that save wrote: what is in a
    data set's function travels with it, and 70 MB of samples take minutes."""
    width = NUMBERS + 1 + len(ROWS)

    def parts(records):
        words = tf.reshape(tf.io.decode_raw(records, tf.int32), [-1, width])
        real = tf.bitcast(words[:, :NUMBERS + 1], tf.float32)
        ids = tf.cast(tf.transpose(words[:, NUMBERS + 1:]), tf.int64)
        return real[:, :NUMBERS], ids, real[:, NUMBERS]
    records = tf.data.FixedLengthRecordDataset(o.data + ".records", 4 * width)
    return records.cache().shuffle(10000, seed=1).repeat().batch(o.batch, True).map(
        parts).prefetch(4)


def save(path):
    """Writes the samples of an npz as records: numbers, label, ids."""
    data = np.load(path)
    real = np.concatenate([data["x"], data["y"][:, None]], 1).view(np.int32)
    ids = np.stack([data[f"id{i}"] for i in range(len(ROWS))], 1).astype(np.int32)
    np.concatenate([real, ids], 1).tofile(path + ".records")


def closure_of(strategy, model, optimizer, o):
    variables = model.variables

    def step(x, ids, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(
                labels=y[:, None], logits=model(x, ids)))
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))

    @tf.function
    def closure(iterator):
        for _ in range(o.steps):
            strategy.run(step, args=next(iterator))
    return closure


def main():
    o = options(__doc__, ("data", "", "what criteo.py wrote"),
                ("batch", 128, "samples of a step"), ("steps", 1, "per closure"),
                ("fused", 0, "1: one table for all features"),
                ("inter", 4, "inter-op threads of a process; with 1 workers wait for "
                             "each other"),
                ("intra", 1, "intra-op threads of a process; 0: TensorFlow's choice"))
    save(o.data)
    addresses, _ = start_cluster(o, spread=True, worker=2, ps=2)
    strategy = tf.distribute.ParameterServerStrategy(
        resolver(addresses),
        tf.distribute.experimental.partitioners.MinSizePartitioner(WHOLE, 2))
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = Dlrm(o.fused)
        optimizer = Adagrad(strategy, model.variables)
    closure = closure_of(strategy, model, optimizer, o)
    iterator = iter(coordinator.create_per_worker_dataset(lambda: batches(o)))

    def steps():
        return int(optimizer.iterations.numpy())
    queue = Queue(coordinator, closure, iterator, o.steps, steps)
    while steps() < 4 * o.steps:  # traced and connected before any window begins
        queue.fill()
    measured = windows_of(lambda: o.batch * steps(), o, queue.fill)
    say("tf_dlrm", "samples/s", measured, batch=o.batch, steps_per_closure=o.steps,
        fused=o.fused, parts=len(model.variables), inter=o.inter, intra=o.intra,
        tensorflow=tf.__version__)


if __name__ == "__main__":
    main()
    import os
    os._exit(0)  # closures are still under way
