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
from table import at_most, once, row

SLICES = 4  # in turn: what else the machine does then hits both alike
PROCESSES = 6  # of each kind and round
SLICE_S = 0.06
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
            "row by row": ("npy", folder / f"x{TIMES}.npy",
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


def steps(bench, kind, x, y):
    """Milliseconds of a step that reads its batches, and of one that has them,
    in one process."""
    spec = ROOT / "examples" / "fashion-cnn.yaml"
    sets = (f"data.train.{k}={v}" for k, v in
            (("format", kind), ("x", x), ("y", y)))
    done = bench.program(
        "bare_step", "--spec", spec, "--memory", "--rounds", SLICES,
        "--seconds", bench.seconds * SLICE_S,
        "--cpu", bench.client_cpu, *bench.capped(),
        *(word for s in sets for word in ("--set", s)))
    return [statistics.median(done[k]) for k in ("step_ms", "memory_ms")]


@once
def by_process(bench):
    """kind: the pairs of its processes, of which there are many: they fall into
    two groups, 8 % apart, and why is not known (README.md)."""
    found = {}
    with files() as kinds:
        for name, kind in kinds.items():
            tell_rates(bench, name, *kind)
        for _ in range(1 if bench.quick else PROCESSES * bench.rounds):
            for name, kind in kinds.items():
                found.setdefault(name, []).append(steps(bench, *kind))
    return found


def slowest(bench, *names):
    """Of these kinds: the one whose steps take most, by the mean of its
    processes' ratios. A median lies in one of their two groups or in the other,
    by chance: it moved by 4 % from one run to the next, the mean by 1.5 %."""
    found = by_process(bench)
    ratios = {name: [step / memory for step, memory in found[name]]
              for name in names}
    for name, r in ratios.items():
        bench.note(f"{name}: a step takes {statistics.mean(r):.4f} x of one with "
                   f"its batch in memory (median {statistics.median(r):.4f}); by "
                   "process " + " ".join(f"{one:.3f}" for one in r))
    ratio, name = max((statistics.mean(r), name) for name, r in ratios.items())
    pace = statistics.median(memory for _, memory in found[name])
    return ratio * pace, pace


@row("input", unit="ms", peer="its batches in memory", bar=at_most(1.03),
     needs=["bare_step", "input_read"])
def input_(bench):
    """A step of the fashion net, batch 64, on one core with the thread that
    reads its samples from IDX or NPY, whichever takes more."""
    return slowest(bench, "idx", "npy")


@row("input-rows", unit="ms", peer="its batches in memory", bar=at_most(1.05),
     needs=["bare_step", "input_read"])
def input_rows(bench):
    """The same with an NPY beyond what a worker loads: a read per sample."""
    return slowest(bench, "row by row")
