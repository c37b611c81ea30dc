# SPDX-License-Identifier: Apache-2.0
"""A step whose samples lie on a web server, which answers each request 20 ms late,
as one far away does. The server runs on the servers' core; a piece of 1 MiB is at
most a quarter of what the link of a host gives."""
import io
import pathlib
import random
import shutil
import struct
import tarfile
import tempfile
import time

from bed import Bed, wait_for
from table import at_most, once, row
from web import Web, certificate

SAMPLES, FILES, BATCH, LATE_S = 16000, 8, 160, 0.02
NET = [{"type": "conv2d", "filters": 32, "kernel_size": 5, "padding": "same",
        "activation": "relu"},
       {"type": "max_pooling2d", "pool_size": 2}, {"type": "flatten"},
       {"type": "dense", "units": 10}]


def archives(folder):
    """Samples of 3 KiB that compress to nothing less, in archives."""
    draw = random.Random(1)
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (28, 28, 1), }"
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    head = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head
    for i in range(FILES):
        with tarfile.open(folder / f"a-{i}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
            for k in range(SAMPLES // FILES):
                values = struct.pack("<784f", *(draw.random() for _ in range(784)))
                for ending, body in (("npy", head + values), ("cls", b"%d" % (k % 10))):
                    info = tarfile.TarInfo(f"{k:06}.{ending}")
                    info.size = len(body)
                    tar.addfile(info, io.BytesIO(body))


class PlaceBed(Bed):
    """A worker on one core, with the store, and a cache of its own for each name."""

    def __init__(self, url, folder, cpu):
        super().__init__(psservers=1, workers=1)
        self.url, self.folder, self.client = url, folder, cpu

    def command(self, name):
        line = super().command(name)
        if name[0] != "w":
            return line
        return ["taskset", "-c", str(self.client), "env", f"SSL_CERT_FILE={self.folder / 'cert'}",
                *line, "--store", str(self.dir / "store"), "--data-allow", self.url,
                "--cache", str(self.dir / f"cache-{name}")]

    def step_ms(self, x, epochs):
        """Milliseconds of a step, from the first one on."""
        job = self.submit({
            "name": "place", "loss": "sparse_categorical_crossentropy",
            "model": {"input_shape": [28, 28, 1], "layers": NET},
            "optimizer": {"type": "sgd", "learning_rate": 0.001},
            "data": {"train": {"format": "webdataset", "x": x, "features": {"x": {"key": "npy"}}}},
            "train": {"batch": BATCH, "epochs": epochs, "steps_per_closure": 10}})
        first = wait_for("a step", lambda: self.steps(job))
        began = time.monotonic()
        self.wait_state(job)
        return (time.monotonic() - began) * 1e3 / (self.steps(job) - first)


@once
def figures(bench):
    """(first epochs, warm ones, local ones), of each round."""
    found = []
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-test-"))
    try:
        archives(folder)
        certificate(folder)
        with Web(folder, folder, LATE_S, bench.server_cpu) as web, \
                PlaceBed(web.url, folder, bench.client_cpu) as c:
            there, here = f"{web.url}/a-{{0..{FILES - 1}}}.tar", f"{folder}/a-*.tar"
            c.step_ms(there, 1)  # finds the records; the store keeps them
            for i in range(1 if bench.quick else bench.rounds):
                c.kill(f"w-{i}")
                c.start(f"w-{i + 1}")
                epochs = 1 if bench.quick else 3
                found.append((c.step_ms(there, 1), c.step_ms(there, epochs),
                              c.step_ms(here, epochs)))
                bench.note("first epoch %.2f ms, warm %.2f, local %.2f" % found[-1])
    finally:
        shutil.rmtree(folder)
    return list(zip(*found))


def pair(bench, which):
    found = figures(bench)
    return list(found[which]), list(found[2])


@row("input-place", unit="ms", peer="the same files on the disk", bar=at_most(1.05),
     needs=["psserver"])
def input_place(bench):
    """A step of batch 160 on one core, from tar archives behind 20 ms, all in the
    worker's cache."""
    return pair(bench, 1)


@row("input-place-first", unit="ms", peer="the same files on the disk", bar=at_most(1.25),
     needs=["psserver"])
def input_place_first(bench):
    """The same in the first epoch of a worker with an empty cache; the store has the
    index of the records."""
    return pair(bench, 0)
