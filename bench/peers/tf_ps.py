# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's ParameterServerStrategy and ClusterCoordinator: 2 workers, 2 ps
and the coordinator, a process each; Fashion-MNIST net, batch 64, Adam.

Prints images per second, counted by the optimizer's own number of iterations.
"""
from common import BATCH, LEARNING_RATE, options, say, windows_of
from tf_common import (THREADS, Queue, batches, loss_of, net, resolver,
                       start_cluster, tf, tf_keras)


class RawAdam:
    """The update alone, on the server that has the variable: no reads of
    learning rate and counter as variables, as Keras' optimizers do."""

    def __init__(self, strategy, variables):
        self.slots = []
        for v in variables:
            with strategy.extended.colocate_vars_with(v):
                self.slots.append([tf.Variable(tf.zeros(v.shape))
                                   for _ in range(2)])
        self.iterations = tf.Variable(0, dtype=tf.int64)

    def apply_gradients(self, pairs):
        t = tf.cast(self.iterations.assign_add(1, read_value=True), tf.float32)
        b1p, b2p = tf.pow(0.9, t), tf.pow(0.999, t)
        for (g, v), (m, u) in zip(pairs, self.slots):
            with tf.device(v.device):
                tf.raw_ops.ResourceApplyAdam(
                    var=v.handle, m=m.handle, v=u.handle, beta1_power=b1p,
                    beta2_power=b2p, lr=LEARNING_RATE, beta1=0.9, beta2=0.999,
                    epsilon=1e-7, grad=g)


def optimizer_of(kind, strategy, variables):
    if kind == "raw":
        return RawAdam(strategy, variables)
    if kind == "legacy":
        return tf_keras.optimizers.legacy.Adam(LEARNING_RATE)
    optimizer = tf_keras.optimizers.Adam(LEARNING_RATE, jit_compile=False)
    optimizer.build(variables)
    return optimizer


def closure_of(strategy, model, optimizer, o):
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(model(x, training=True), y)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))

    @tf.function
    def closure(iterator):
        if o.loop == "unroll":
            for _ in range(o.steps):
                strategy.run(step, args=next(iterator))
        else:
            for _ in tf.range(o.steps):
                strategy.run(step, args=next(iterator))
    return closure


def main():
    o = options(__doc__, ("steps", 1, "per closure"),
                ("optimizer", "raw", "keras, legacy (both tf_keras) or raw"),
                ("loop", "unroll", "unroll or range (tf.range)"), THREADS[0],
                ("intra", 1, "intra-op threads of a process; 0: TensorFlow's "
                             "choice"))
    addresses, _ = start_cluster(o, worker=2, ps=2)
    strategy = tf.distribute.ParameterServerStrategy(resolver(addresses))
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = net()
        optimizer = optimizer_of(o.optimizer, strategy,
                                 model.trainable_variables)
    closure = closure_of(strategy, model, optimizer, o)
    iterator = iter(coordinator.create_per_worker_dataset(
        lambda: batches(seed=1)))

    def steps():
        return int(optimizer.iterations.numpy())
    queue = Queue(coordinator, closure, iterator, o.steps, steps)
    # Traced and connected before any window begins.
    for _ in range(4):
        queue.schedule()
    coordinator.join()
    measured = windows_of(lambda: BATCH * steps(), o, queue.fill)
    say("tf_ps", "images/s", measured, steps_per_closure=o.steps,
        optimizer=o.optimizer, loop=o.loop, inter=o.inter, intra=o.intra,
        tensorflow=tf.__version__)


if __name__ == "__main__":
    main()
    import os
    os._exit(0)  # closures are still under way
