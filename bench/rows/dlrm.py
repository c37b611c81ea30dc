# SPDX-License-Identifier: Apache-2.0
"""A DLRM of layers with rows, all of the job on two cores, against TensorFlow's."""
import pathlib
import subprocess
import tempfile

from peers.common import processor_s
from peers.start import HERE as PEERS
from peers.start import interpreter, peer
from rows.jobs import LONG_TF, Job, alternate
from table import at_least, row

FEATURES, DIM, BATCH = 26, 16, 128  # the batch of DLRM's own script for Criteo's data
BOTTOM, TOP = (512, 256, 64, DIM), (512, 256)
WARM_STEPS = 500


class OnBoth(Job):
    """A worker and a psserver on each core, the coordinator on the first."""

    def command(self, name):
        cpu = self.cpus[name.endswith("-1")]
        return ["taskset", "-c", str(cpu), *super().command(name)]


def spec_of(data, batch):
    def dense(widths, **first):
        layers = [{"type": "dense", "units": n, "activation": "relu"} for n in widths]
        layers[0].update(first)
        return layers

    tables = [{"type": "embedding", "name": f"table{i}", "ids": f"id{i}",
               "rows": "dynamic", "output_dim": DIM} for i in range(FEATURES)]
    bottom = dense(BOTTOM, inputs=["input"])
    bottom[-1]["name"] = "bottom"
    vectors = ["bottom", *(t["name"] for t in tables)]
    return {"name": "dlrm", "loss": "binary_crossentropy",
            "model": {"input_shape": [13], "layers": [
                *tables, *bottom,
                {"type": "dot_interaction", "name": "pairs", "inputs": vectors},
                {"type": "concatenate", "inputs": ["bottom", "pairs"]}, *dense(TOP),
                {"type": "dense", "units": 1, "activation": "sigmoid"}]},
            "optimizer": {"type": "adagrad", "learning_rate": 0.01},
            "data": {"train": {"format": "npz", "x": str(data),
                               "ids": [t["ids"] for t in tables]}},
            "train": {"batch": batch, "epochs": 10000, "seed": 1}}


def samples_per_s(bench, data):
    with OnBoth(over="tcp", psservers=2, cpu=None, workers=2) as c:
        job = c.submit(spec_of(data, BATCH))
        c.wait_steps(job, WARM_STEPS)
        pids = [p.pid for p in c.processes.values()]
        used, steps = processor_s(pids), c.steps(job)
        rate = BATCH * c.steps_per_s(job, bench.window(4))
        used, steps = processor_s(pids) - used, c.steps(job) - steps
        bench.note(f"ours: {1e6 * used / steps / BATCH:.1f} us of a core a sample")
        return rate


@row("rows-tf", unit="samples/s", peer="TF parameter server, sharded variables",
     bar=at_least(5), needs=["psserver"], long=LONG_TF)
def rows_tf(bench):
    """A DLRM with Criteo's 26 tables, 2 workers and 2 psservers, against TensorFlow's."""
    def theirs():
        told = peer(bench, "tf_dlrm.py", data=data, batch=BATCH, seconds=bench.seconds)
        bench.note(f"TensorFlow: {told['cpu_us']:.1f} us of a core a sample")
        return told["per_s"]

    OnBoth.cpus = bench.server_cpu, bench.client_cpu
    with tempfile.TemporaryDirectory(prefix="sluice-test-") as folder:
        data = pathlib.Path(folder) / "clicks.npz"
        subprocess.run([interpreter(bench), PEERS / "criteo.py", data], check=True)
        return alternate(bench, lambda: samples_per_s(bench, data), theirs)
