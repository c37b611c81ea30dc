# SPDX-License-Identifier: Apache-2.0
"""A worker's input: what reading samples from files takes from a step."""
import array
import contextlib
import gzip
import pathlib
import shutil
import statistics
import tempfile

from bed import ROOT, cluster
from table import at_most, row

SLICES = 40  # in turn: what else the machine does then hits both alike
TIMES = 4  # the images of the large file, which a worker does not load whole


def npy(path, descr, shape, values):
    """A file of numpy's format 1.0, which needs no numpy."""
    head = (f"{{'descr': '{descr}', 'fortran_order': False, "
            f"'shape': {shape!r}, }}").encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head)
        for block in values:
            f.write(block)


def plain_files(folder):
    """Fashion-MNIST as (format, images, labels): idx, npy of floats, and the
    same four times over."""
    source = cluster.fashion_source("train", 0)
    x, y = (gzip.decompress(pathlib.Path(source[k]).read_bytes()) for k in "xy")
    idx_x, idx_y = folder / "x-idx3-ubyte", folder / "y-idx1-ubyte"
    idx_x.write_bytes(x)
    idx_y.write_bytes(y)
    images, labels = array.array("f", memoryview(x)[16:]).tobytes(), y[8:]
    count = len(labels)
    for times in (1, TIMES):
        npy(folder / f"x{times}.npy", "<f4", (times * count, 28, 28),
            times * [images])
        npy(folder / f"y{times}.npy", "|u1", (times * count,), times * [labels])
    return {"idx": ("idx", idx_x, idx_y),
            "npy": ("npy", folder / "x1.npy", folder / "y1.npy"),
            "npy, row by row": ("npy", folder / f"x{TIMES}.npy",
                                folder / f"y{TIMES}.npy")}


@contextlib.contextmanager
def files():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-test-"))
    try:
        yield plain_files(folder)
    finally:
        shutil.rmtree(folder)


def tell_rates(bench, name, kind, x, y):
    done = bench.program("input_read", "--format", kind, "--x", x, "--y", y,
                         "--seconds", bench.seconds, "--cpu", bench.client_cpu)
    rate = {k: statistics.median(done[f"{k}_per_s"]) / 1e6
            for k in ("ours", "plain", "ours_cold", "plain_cold")}
    bench.note(f"{name}: {rate['ours']:.2f} M samples/s, plain reads "
               f"{rate['plain']:.2f}; from the disk {rate['ours_cold']:.2f} "
               f"and {rate['plain_cold']:.2f}")


def steps(bench, name, kind, x, y):
    """Milliseconds of a step that reads its batches, and of one that has them."""
    spec = ROOT / "examples" / "fashion-cnn.yaml"
    sets = (f"data.train.{k}={v}" for k, v in
            (("format", kind), ("x", x), ("y", y)))
    done = bench.program(
        "bare_step", "--spec", spec, "--memory", "--rounds", SLICES,
        "--seconds", bench.rounds * bench.seconds / SLICES,
        "--cpu", bench.client_cpu,
        *(word for s in sets for word in ("--set", s)))
    ratio = (statistics.median(done["step_ms"]) /
             statistics.median(done["memory_ms"]))
    bench.note(f"{name}: a step takes {ratio:.4f} x of one with its batch in "
               "memory")
    return ratio, done["step_ms"], done["memory_ms"]


@row("input", unit="ms", peer="its batches in memory", bar=at_most(1.03),
     needs=["bare_step", "input_read"])
def input_(bench):
    """A step of the fashion net, batch 64, on one core with the thread that
    reads its samples from IDX and NPY; the slowest of three kinds of file."""
    found = []
    with files() as kinds:
        for name, kind in kinds.items():
            tell_rates(bench, name, *kind)
            found.append(steps(bench, name, *kind))
    return max(found)[1:]
