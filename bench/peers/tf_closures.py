# SPDX-License-Identifier: Apache-2.0
"""Closures that do nothing, through TensorFlow's ClusterCoordinator to 2 worker
processes (1 ps, which does nothing here). Prints closures per second."""
from common import options, say, windows_of
from tf_common import THREADS, resolver, start_cluster, tf


def main():
    o = options(__doc__, ("ahead", 500, "closures scheduled at once"),
                ("pin", 1, "1: the coordinator on one core, the rest on the "
                           "other; 0: anywhere"), *THREADS)
    addresses, _ = start_cluster(o, pin=o.pin, worker=2, ps=1)
    strategy = tf.distribute.ParameterServerStrategy(resolver(addresses))
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

    @tf.function
    def nothing():
        return tf.constant(0)

    done = 0

    def work():
        nonlocal done
        for _ in range(o.ahead):
            coordinator.schedule(nothing)
        coordinator.join()
        done += o.ahead
    work()
    measured = windows_of(lambda: done, o, work)
    say("tf_closures", "closures/s", measured, ahead=o.ahead, pin=o.pin,
        inter=o.inter, intra=o.intra, tensorflow=tf.__version__)


if __name__ == "__main__":
    main()
    import os
    os._exit(0)
