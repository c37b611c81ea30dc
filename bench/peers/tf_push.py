# SPDX-License-Identifier: Apache-2.0
"""Dense updates of 16 MiB to a TensorFlow parameter server: a worker process
adds a tensor that it has to a variable that a ps process has, over gRPC.

Prints bytes per second that arrive and are applied (assign_sub, which is SGD
with the rate already in the tensor).
"""
from common import options, say, windows_of
from tf_common import THREADS, start_cluster, tf

MIB = 1 << 20


def updates_of(o):
    """Variables, a tensor, and a function that makes `calls` updates of each
    variable. Different variables may be on their way at once."""
    with tf.device("/job:ps/task:0"):
        variables = [tf.Variable(tf.zeros([o.mib * MIB // 4]))
                     for _ in range(o.outstanding)]
    with tf.device("/job:worker/task:0"):
        gradient = tf.Variable(tf.fill([o.mib * MIB // 4], 1e-6))

    @tf.function
    def updates():
        with tf.device("/job:worker/task:0"):
            # Read anew for each: the runtime sends a tensor that it has sent
            # to the same device before only once.
            for _ in tf.range(o.calls):
                for v in variables:
                    g = gradient.read_value()
                    with tf.device("/job:ps/task:0"):
                        v.assign_sub(g)
        return tf.constant(0)
    return updates


def main():
    o = options(__doc__, ("mib", 16, "MiB of one update"),
                ("outstanding", 4, "variables, so updates at once"),
                ("calls", 8, "updates of each variable in one tf.function"),
                *THREADS)
    addresses, _ = start_cluster(o, worker=1, ps=1)
    tf.config.experimental_connect_to_cluster(
        tf.train.ClusterSpec(addresses), job_name="chief")
    updates = updates_of(o)
    done = 0

    def work():
        nonlocal done
        with tf.device("/job:worker/task:0"):
            updates().numpy()
        done += o.calls * o.outstanding
    work()
    measured = windows_of(lambda: done * o.mib * MIB, o, work)
    say("tf_push", "bytes/s", measured, mib=o.mib, outstanding=o.outstanding,
        calls=o.calls, inter=o.inter, intra=o.intra, tensorflow=tf.__version__)


if __name__ == "__main__":
    main()
    import os
    os._exit(0)
