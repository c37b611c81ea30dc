# SPDX-License-Identifier: Apache-2.0
"""What the TensorFlow peers share: the fashion net, its data, a cluster of
processes on the loopback."""
import functools
import json
import os
import pathlib
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("GRPC_FAIL_FAST", "use_caller")  # as TF's tutorial says
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
import tensorflow as tf  # noqa: E402
import tf_keras  # noqa: E402

from common import (BATCH, CLASSES, die_with_parent, fashion,  # noqa: E402
                    free_ports)

HERE = pathlib.Path(__file__).resolve().parent


def net():
    """examples/fashion-cnn.yaml."""
    layers = tf_keras.layers
    return tf_keras.Sequential([
        layers.Conv2D(32, 3, activation="relu", input_shape=(28, 28, 1)),
        layers.MaxPooling2D(2),
        layers.Conv2D(64, 3, activation="relu"),
        layers.MaxPooling2D(2),
        layers.Flatten(),
        layers.Dense(64, activation="relu"),
        layers.Dense(CLASSES),
    ])


def loss_of(logits, labels):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=logits))


def batches(seed, prefetch=4):
    """Shuffled batches for ever. What is cheap per batch is done per batch."""
    x, y = fashion()
    data = tf.data.Dataset.from_tensor_slices((x, y))
    data = data.shuffle(10000, seed=seed).repeat().batch(BATCH, True)
    return data.map(lambda x, y: (tf.cast(x, tf.float32) * (1 / 255), y)
                    ).prefetch(prefetch)


# ---- a cluster

def serve():
    """The life of a worker or ps: tf_common.py ROLE INDEX ADDRESSES INTER INTRA"""
    role, index, addresses, inter, intra = sys.argv[1:]
    server = tf.distribute.Server(
        json.loads(addresses), job_name=role, task_index=int(index),
        protocol="grpc", start=True,
        config=tf.compat.v1.ConfigProto(
            inter_op_parallelism_threads=int(inter),
            intra_op_parallelism_threads=int(intra)))
    server.join()


def start_cluster(o, pin=False, spread=False, **counts):
    """start_cluster(o, worker=2, ps=2): the addresses and the processes. pin:
    this process on the first core, these on the second; spread: this one on the
    first, and those of each role on the two in turn."""
    def place(i):
        die_with_parent()
        if pin or spread:
            os.sched_setaffinity(0, [cpus[1 if pin else i % 2]])

    cpus = sorted(os.sched_getaffinity(0))
    ports = iter(free_ports(sum(counts.values())))
    addresses = {role: [f"127.0.0.1:{next(ports)}" for _ in range(n)]
                 for role, n in counts.items()}
    processes = [
        subprocess.Popen([sys.executable, str(HERE / "tf_common.py"), role, str(i),
                          json.dumps(addresses), str(o.inter), str(o.intra)],
                         preexec_fn=functools.partial(place, i))
        for role, n in counts.items() for i in range(n)]
    if pin or spread:
        os.sched_setaffinity(0, cpus[:1])
    return addresses, processes


def resolver(addresses):
    """For the coordinator, in whose process this runs."""
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(addresses), rpc_layer="grpc")


AHEAD = 32  # closures in a coordinator's queue


class Queue:
    """Closures of `each` steps that a coordinator has been given, AHEAD of those that
    are done; steps(): how many steps are."""

    def __init__(self, coordinator, closure, iterator, each, steps):
        self.coordinator, self.closure, self.iterator = coordinator, closure, iterator
        self.each, self.steps, self.scheduled = each, steps, 0

    def schedule(self):
        self.coordinator.schedule(self.closure, args=(self.iterator,))
        self.scheduled += 1

    def fill(self):
        while self.scheduled * self.each < self.steps() + AHEAD * self.each:
            self.schedule()
        time.sleep(0.05)


THREADS = (("inter", 0, "inter-op threads of a process; 0: TensorFlow's choice"),
           ("intra", 0, "intra-op threads of a process; 0: TensorFlow's choice"))

if __name__ == "__main__":
    serve()
