# SPDX-License-Identifier: Apache-2.0
"""Parts `perf` and `torch`: milliseconds of a training step on the GPU.

A step is forward pass, loss and backward pass, with the batch and the
parameters in the GPU's memory and the gradient left there: what a worker
computes between its pull and its push. `perf` holds ours to fixed limits,
`torch` to PyTorch's best way to do the same in the same call. The step of a
whole worker through two psservers is held to the bare step.
"""
import json
import os
import struct
import subprocess

from gpu_parts import host
from gpu_parts.cluster import step_ms
from gpu_parts.kit import Failed, OutOfTime, check, last_lines
from gpu_parts.report import NO_BAR, Planned, at_most, at_most_times

BATCHES = [32, 64, 128, 256, 512]
PRECISIONS = ["bf16", "f16", "tf32", "f32"]
# (precision, batch): milliseconds on an H200-class GPU
LIMITS = {("bf16", 512): 15, ("f16", 512): 15, ("bf16", 32): 1.5,
          ("f16", 32): 1.5, ("tf32", 512): 28, ("f32", 512): 110}
FASHION_BATCH, FASHION_MS = 320, 0.150
FASHION_PRECISIONS = ["tf32", "f32", "bf16"]
JOB_BATCH, JOB_RATIO = 256, 1.10
JOBS = {"tf32": [], "bf16": ["train.wire=bf16"]}

SIDE, CLASSES, IMAGES = 256, 10, 2048


# ---- ours


def idx_file(path, dims, payload):
    """IDX: 00 00 08 D, D big-endian dimensions, bytes."""
    with open(path, "wb") as f:
        f.write(bytes([0, 0, 8, len(dims)]) + struct.pack(f">{len(dims)}I", *dims))
        for part in payload:
            f.write(part)


def images(kit):
    """Noise: nothing here depends on what is in the pictures, but for zeros,
    which GPUs multiply faster."""
    def make():
        count = 8 if kit.emulated else IMAGES
        each = SIDE * SIDE * 3
        idx_file(kit.scratch / "images.idx", [count, SIDE, SIDE, 3],
                 (os.urandom(each) for _ in range(count)))
        idx_file(kit.scratch / "labels.idx", [count],
                 [bytes(i % CLASSES for i in range(count))])
        return [f"data.train.x={kit.scratch}/images.idx",
                f"data.train.y={kit.scratch}/labels.idx"]
    return kit.shared("images", make)


def net_of(kit, net):
    """The spec of a net, and what to set in it."""
    if net == "fashion":
        return kit.folder / "examples" / "fashion-cnn.yaml", []
    return kit.folder / "bench" / "nets" / "imagenette-synthetic.yaml", images(kit)


def bare(kit, net, precision, batch):
    """What bench.gpu_step measured, once a call."""
    def measure():
        spec, sets = net_of(kit, net)
        words = [w for s in [*sets, f"train.precision={precision}"]
                 for w in ("--set", s)]
        batch_here = 2 if kit.emulated else batch
        return kit.json([kit.path("bench.gpu_step"), "--spec", spec, *words,
                         "--batch", batch_here, "--device", "cuda", "--options",
                         f"autotune=1,plans={kit.plans}", "--rounds", 1 if kit.emulated else 5,
                         "--seconds", 0.01 if kit.emulated else 0.5], 90)
    return kit.shared(("bare", net, precision, batch), measure)


def bare_row(kit, net, precision, batch):
    said = bare(kit, net, precision, batch)
    note = (f"SM {host.sm_clock()}; {said['ops']} ops on {said['input']}, "
            "one recording")
    if batch > 1 and net == "imagenette":
        rate = batch / sorted(said["step_ms"])[len(said["step_ms"]) // 2] * 1e3
        note += f"; {rate:,.0f} images/s"
    return {"ours": said["step_ms"], "rounds": said["step_ms"], "note": note,
            "loss": [said["loss_first"], said["loss_last"]],
            "unrecorded_ms": said.get("unrecorded_ms")}


def job_row(kit, precision, sets):
    """The worker's own step of a real job."""
    peer = bare(kit, "imagenette", precision, JOB_BATCH)["step_ms"]
    spec, more = net_of(kit, "imagenette")
    batch = 2 if kit.emulated else JOB_BATCH
    ours = step_ms(kit, spec, [f"train.batch={batch}",
                               f"train.precision={precision}", *more, *sets], 10)
    return {"ours": ours, "peer": peer, "note": f"SM {host.sm_clock()}"}


def perf_rows(kit):
    """What has a bar first: time may run out."""
    rows, rest = [], []
    for precision in PRECISIONS:
        for batch in BATCHES:
            limit = LIMITS.get((precision, batch))
            planned = Planned(
                "perf", f"imagenette {precision} {batch}", "ms",
                at_most(limit, "ms") if limit else NO_BAR,
                lambda kit, p=precision, b=batch:
                bare_row(kit, "imagenette", p, b))
            (rows if limit else rest).append(planned)
    for precision in FASHION_PRECISIONS:
        tried = precision == "tf32"  # what a job gets that says nothing
        rows.append(Planned(
            "perf", f"fashion {precision} {FASHION_BATCH}", "ms",
            at_most(FASHION_MS, "ms") if tried else NO_BAR,
            lambda kit, p=precision: bare_row(kit, "fashion", p,
                                              FASHION_BATCH)))
    for precision, sets in JOBS.items():
        rows.append(Planned(
            "perf", f"worker imagenette {precision} {JOB_BATCH}", "ms",
            at_most_times(JOB_RATIO),
            lambda kit, p=precision, s=sets: job_row(kit, p, s),
            peer_name="the bare step"))
    return rows + rest


# ---- PyTorch's


def torch_lines(kit, net, precision, batches):
    """Runs peers/torch_gpu.py, which prints a line per batch and variant."""
    line = [kit.python, kit.folder / "bench" / "peers" / "torch_gpu.py", "--net",
            net, "--precision", precision, "--batches",
            ",".join(map(str, batches)), "--limit", int(kit.limit(200) * 0.9)]
    environment = {**kit.environment, "LD_LIBRARY_PATH":
                   os.environ.get("LD_LIBRARY_PATH", "")}
    limit = kit.limit(210)
    try:
        done = subprocess.run([str(w) for w in line], capture_output=True,
                              text=True, errors="replace", check=False,
                              timeout=limit, env=environment,
                              stdin=subprocess.DEVNULL, cwd=kit.scratch)
        out, said = done.stdout, done.stdout + done.stderr
    except subprocess.TimeoutExpired as error:
        # What it had printed counts all the same.
        out = said = (error.stdout or b"").decode(errors="replace")
    found = [json.loads(text) for text in out.splitlines()
             if text.startswith("{")]
    check(found, "torch_gpu.py measured nothing:", last_lines(said))
    return found


def torch_best(kit, net, precision, batch, batches):
    """PyTorch's fastest way, of those that were tried, and all of them."""
    lines = kit.shared(("torch", net, precision),
                       lambda: torch_lines(kit, net, precision, batches))
    tried = {line["variant"]: line["step_ms"] for line in lines
             if line["batch"] == batch and "step_ms" in line}
    if not tried:
        raise OutOfTime(f"PyTorch did not get to batch {batch}")
    return min(tried, key=tried.get), tried


def torch_row(kit, net, precision, batch, batches):
    if kit.torch is None:
        return {"ours": None, "skipped": True,
                "note": f"skipped: {kit.python} has no PyTorch with a GPU"}
    best, tried = torch_best(kit, net, precision, batch, batches)
    found = {"peer": tried[best], "tried": tried, "note": f"PyTorch: {best}"}
    try:
        found["ours"] = bare(kit, net, precision, batch)["step_ms"]
    except Failed as error:  # PyTorch's figure is worth keeping
        found["note"] += f"; ours not measured: {error}"
    return found


def torch_rows(kit):
    rows = []
    for precision in ["bf16", "tf32", "f32", "f16"]:
        batches = [b for b in reversed(BATCHES) if (precision, b) in LIMITS]
        for batch in batches:
            rows.append(Planned(
                "torch", f"imagenette {precision} {batch}", "ms",
                at_most_times(1), lambda kit, p=precision, b=batch, bs=batches:
                torch_row(kit, "imagenette", p, b, bs), peer_name="PyTorch"))
    for precision in FASHION_PRECISIONS:
        rows.append(Planned(
            "torch", f"fashion {precision} {FASHION_BATCH}", "ms",
            at_most_times(1), lambda kit, p=precision:
            torch_row(kit, "fashion", p, FASHION_BATCH, [FASHION_BATCH]),
            peer_name="PyTorch"))
    return rows
