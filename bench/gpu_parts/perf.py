# SPDX-License-Identifier: Apache-2.0
"""Parts `perf` and `torch`: milliseconds of a training step on the GPU.

A step is forward pass, loss and backward pass, with the batch and the
parameters in the GPU's memory and the gradient left there: what a worker
computes between its pull and its push. `perf` holds ours to fixed limits,
`torch` to PyTorch's best way to do the same in the same call. The step of a
whole worker through two psservers is held to the bare step.
"""
import json
import subprocess

from gpu_parts import host, nets
from gpu_parts.cluster import step_ms
from gpu_parts.kit import Failed, OutOfTime, check, last_lines
from gpu_parts.report import NO_BAR, Planned, at_most, at_most_times

BATCHES = [32, 64, 128, 256, 512]
PRECISIONS = ["bf16", "f16", "tf32", "f32"]
# (precision, batch): milliseconds on an H200-class GPU
LIMITS = {("bf16", 512): 15, ("f16", 512): 15, ("bf16", 32): 1.5,
          ("f16", 32): 1.5, ("tf32", 512): 30, ("f32", 512): 110}
FASHION_BATCH, FASHION_MS = 320, 0.2
TORCH_RATIO = {"imagenette": 0.85, "fashion": 0.5}
TUNE_S = {"imagenette": 90, "fashion": 20}  # shares of a call
FASHION_PRECISIONS = ["tf32", "f32", "bf16"]
JOB_BATCH, JOB_RATIO = 256, 1.10
JOBS = {"tf32": [], "bf16": ["train.wire=bf16"]}

# What an emulated GPU can do in seconds: the same layers on little.
EMULATED_BATCH = 2


# ---- ours


def net_of(kit, net):
    """The spec of a net, and what to set in it."""
    return nets.fashion(kit) if net == "fashion" else nets.imagenette(kit)


def batch_here(kit, batch):
    return EMULATED_BATCH if kit.emulated else batch


def gpu_step(kit, net, precision, tuned):
    """The beginning of a line that runs steps of this net."""
    spec, sets = net_of(kit, net)
    words = [w for s in [*sets, f"train.precision={precision}"]
             for w in ("--set", s)]
    return [kit.path("bench.gpu_step"), "--spec", spec, *words, "--device",
            "cuda", "--options", f"autotune={int(tuned)},plans={kit.plans}"]


def is_tuned(kit, net, precision, batch):
    """False if tuning was begun and did not get to this batch: it would use up
    the time of the row."""
    done = kit.tuned.get((net, precision))
    return done is None or batch_here(kit, batch) in done


def bare(kit, net, precision, batch):
    """What bench.gpu_step measured, once a call."""
    def measure():
        tuned = is_tuned(kit, net, precision, batch)
        said = kit.json([*gpu_step(kit, net, precision, tuned), "--batch",
                         batch_here(kit, batch), "--rounds",
                         1 if kit.emulated else 5, "--seconds",
                         0.01 if kit.emulated else 0.5], 90)
        return {**said, "tuned": tuned}
    return kit.shared(("bare", net, precision, batch_here(kit, batch)), measure)


# ---- plans, before the rows that run them


def tune_row(kit, net, precision, batches):
    """Plans of all batches that this call's rows run, kept in kit.plans."""
    here = list(dict.fromkeys(batch_here(kit, b) for b in batches))
    done = kit.tuned[net, precision] = set()
    out, ended = kit.some([*gpu_step(kit, net, precision, True), "--tune",
                           ",".join(map(str, here))], 600)
    seconds = 0.0
    for line in out.splitlines():
        if line.startswith('{"tuned"'):
            found = json.loads(line)
            done.add(found["tuned"])
            seconds += found["seconds"]
    note = f"batches {', '.join(map(str, here))}"
    if not ended:
        note = (f"stopped: tuned {len(done)} of {len(here)} batches; the others "
                "run as the libraries advise")
    return {"ours": seconds, "note": note}


def with_tuning(rows, shares=None):
    """Puts a row that tunes before the first one of each net and precision, so
    that no row spends its own time on that."""
    batches, planned = {}, []
    for row in rows:
        if row.step:
            batches.setdefault(row.step[:2], []).append(row.step[2])
    for row in rows:
        key = row.step and row.step[:2]
        if key in batches:
            wanted = list(dict.fromkeys(batches.pop(key)))
            planned.append(Planned(
                "perf", f"tune {' '.join(key)}", "s", NO_BAR,
                lambda kit, k=key, w=wanted: tune_row(kit, *k, w),
                seconds=(shares or TUNE_S)[key[0]]))
        planned.append(row)
    return planned


def bare_row(kit, net, precision, batch):
    said = bare(kit, net, precision, batch)
    note = (f"SM {host.sm_clock()}; {said['ops']} ops on {said['input']}, "
            "one recording")
    if not said["tuned"]:
        note += "; not tuned"
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
    batch = batch_here(kit, JOB_BATCH)
    tuned = is_tuned(kit, "imagenette", precision, JOB_BATCH)
    ours = step_ms(kit, spec, [f"train.batch={batch}",
                               f"train.precision={precision}", *more, *sets],
                   # 0: until a step is counted, as where one outlasts it
                   0 if kit.emulated else 10, tuned)
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
                bare_row(kit, "imagenette", p, b),
                step=("imagenette", precision, batch))
            (rows if limit else rest).append(planned)
    for precision in FASHION_PRECISIONS:
        tried = precision == "tf32"  # what a job gets that says nothing
        rows.append(Planned(
            "perf", f"fashion {precision} {FASHION_BATCH}", "ms",
            at_most(FASHION_MS, "ms") if tried else NO_BAR,
            lambda kit, p=precision: bare_row(kit, "fashion", p,
                                              FASHION_BATCH),
            step=("fashion", precision, FASHION_BATCH)))
    for precision, sets in JOBS.items():
        rows.append(Planned(
            "perf", f"worker imagenette {precision} {JOB_BATCH}", "ms",
            at_most_times(JOB_RATIO),
            lambda kit, p=precision, s=sets: job_row(kit, p, s),
            peer_name="the bare step",
            step=("imagenette", precision, JOB_BATCH)))
    return rows + rest


# ---- op by op


def ops_row(kit, net, precision, batch):
    """Each op of the step by itself, beside the least time that its bytes and
    FLOP take by the card's data sheet."""
    tuned = is_tuned(kit, net, precision, batch)
    rates = ["--rates", "NVIDIA H200"] if kit.emulated else []
    said = kit.json([*gpu_step(kit, net, precision, tuned), "--batch",
                     batch_here(kit, batch), "--ops", *rates, "--rounds",
                     1 if kit.emulated else 3, "--seconds",
                     0.001 if kit.emulated else 0.15], 90)
    return {"ours": sum(op["ms"] for op in said["op_times"]),
            "peer": said["step_ms"], "op_times": said["op_times"],
            "rates": said["rates"],
            "note": f"{said['ops']} ops, each by itself"
                    + ("" if tuned else "; not tuned")}


def ops_rows(kit):
    steps = [("imagenette", p, b) for b in (512, 32) for p in ("bf16", "tf32")]
    steps += [("fashion", p, FASHION_BATCH) for p in ("tf32", "bf16")]
    return [Planned("ops", " ".join(map(str, step)), "ms", NO_BAR,
                    lambda kit, s=step: ops_row(kit, *s),
                    peer_name="the step as one recording", seconds=30, step=step)
            for step in steps]


# ---- PyTorch's


def run_torch(kit, net, precision, batches):
    """Runs peers/torch_gpu.py, which prints a line per batch and variant."""
    line = [kit.python, kit.folder / "bench" / "peers" / "torch_gpu.py", "--net",
            net, "--precision", precision, "--batches",
            ",".join(map(str, batches)), "--limit", int(kit.limit(200) * 0.9)]
    if kit.emulated:
        line.append("--plan")
    _, environment = kit.torch()
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


def torch_lines(kit, net, precision, batches):
    """The lines of run_torch, which is run once a call."""
    return kit.shared(("torch", net, precision),
                      lambda: run_torch(kit, net, precision, batches))


def torch_best(kit, net, precision, batch, batches):
    """PyTorch's fastest way, of those that were tried, and all of them."""
    tried = {line["variant"]: line["step_ms"]
             for line in torch_lines(kit, net, precision, batches)
             if line["batch"] == batch and "step_ms" in line}
    if not tried:
        raise OutOfTime(f"PyTorch did not get to batch {batch}")
    return min(tried, key=tried.get), tried


def torch_row(kit, net, precision, batch, batches):
    if kit.emulated:
        planned = [line["variant"] for line in
                   torch_lines(kit, net, precision, batches)
                   if line["batch"] == batch and line.get("planned")]
        return {"ours": None, "skipped": True,
                "note": f"emulated: PyTorch would run {', '.join(planned)}"}
    if kit.torch()[0] is None:
        return {"ours": None, "skipped": True,
                "note": f"skipped: {kit.python} has no PyTorch with a GPU"}
    best, tried = torch_best(kit, net, precision, batch, batches)
    found = {"peer": tried[best], "tried": tried, "note": f"PyTorch: {best}"}
    try:
        found["ours"] = bare(kit, net, precision, batch)["step_ms"]
    except Failed as error:  # PyTorch's figure is worth keeping
        found["note"] += f"; ours not measured: {error}"
    return found


def torch_group(net, precision, batches):
    """Rows that one run of torch_gpu.py measures: the first has its time."""
    return [Planned(
        "torch", f"{net} {precision} {batch}", "ms",
        at_most_times(TORCH_RATIO[net]),
        lambda kit, b=batch: torch_row(kit, net, precision, b, batches),
        peer_name="PyTorch", seconds=30 if i else 200,
        step=(net, precision, batch)) for i, batch in enumerate(batches)]


def torch_rows(kit):
    rows = []
    for precision in ["bf16", "tf32", "f32", "f16"]:
        batches = [b for b in reversed(BATCHES) if (precision, b) in LIMITS]
        rows += torch_group("imagenette", precision, batches)
    for precision in FASHION_PRECISIONS:
        rows += torch_group("fashion", precision, [FASHION_BATCH])
    return rows
