# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's MultiWorkerMirroredStrategy over its gRPC ring: 2 workers, a
process each; Fashion-MNIST net, batch 64 per worker, Adam.

Prints images per second of both workers together.
"""
import json
import os
import subprocess
import sys

from common import (BATCH, LEARNING_RATE, die_with_parent, free_ports, options,
                    say, windows_of)

WORKERS = 2


def start_peer(addresses):
    """This script again, as the second worker."""
    task = {"cluster": {"worker": addresses}, "task": {"type": "worker"}}
    child = {**task, "task": {"type": "worker", "index": 1}}
    os.environ["TF_CONFIG"] = json.dumps(
        {**task, "task": {"type": "worker", "index": 0}})
    subprocess.Popen([sys.executable, *sys.argv], preexec_fn=die_with_parent,
                     env={**os.environ, "TF_CONFIG": json.dumps(child)},
                     stdout=subprocess.DEVNULL)


def steps_of(tf, strategy, model, optimizer, o):
    from tf_common import loss_of

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(model(x, training=True), y) / WORKERS
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))

    # Many steps in one call, as Keras' steps_per_execution.
    @tf.function
    def some_steps(iterator):
        for _ in tf.range(o.steps):
            strategy.run(step, args=next(iterator))
    return some_steps


def main():
    o = options(__doc__, ("steps", 20, "in one call of a tf.function"),
                ("optimizer", "keras", "keras or legacy"),
                ("ring", "ring", "ring or auto"),
                ("inter", 0, "inter-op threads; 0: TensorFlow's choice"),
                ("intra", 1, "intra-op threads; 0: TensorFlow's choice"))
    first = "TF_CONFIG" not in os.environ
    if first:
        start_peer([f"127.0.0.1:{p}" for p in free_ports(WORKERS)])
    from tf_common import batches, net, tf, tf_keras
    tf.config.threading.set_inter_op_parallelism_threads(o.inter)
    tf.config.threading.set_intra_op_parallelism_threads(o.intra)
    how = tf.distribute.experimental.CommunicationImplementation
    strategy = tf.distribute.MultiWorkerMirroredStrategy(
        communication_options=tf.distribute.experimental.CommunicationOptions(
            implementation=how.RING if o.ring == "ring" else how.AUTO))
    data = strategy.distribute_datasets_from_function(
        lambda context: batches(seed=context.input_pipeline_id))
    with strategy.scope():
        model = net()
        kind = (tf_keras.optimizers.legacy.Adam if o.optimizer == "legacy"
                else tf_keras.optimizers.Adam)
        optimizer = kind(LEARNING_RATE)
    iterator = iter(data)
    some_steps = steps_of(tf, strategy, model, optimizer, o)
    calls = 0

    def work():
        nonlocal calls
        some_steps(iterator)
        calls += 1

    if not first:
        while True:  # until the first one ends
            work()
    work()
    measured = windows_of(lambda: calls * o.steps * BATCH * WORKERS, o, work)
    say("tf_mwms", "images/s", measured, steps_per_call=o.steps,
        optimizer=o.optimizer, ring=o.ring, inter=o.inter, intra=o.intra,
        tensorflow=tf.__version__)
    sys.stdout.flush()
    os._exit(0)  # the other worker waits in a ring for us


if __name__ == "__main__":
    main()
