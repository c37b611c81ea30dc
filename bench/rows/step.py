# SPDX-License-Identifier: Apache-2.0
"""A worker's training step on one core, against what its products need."""
from bed import ROOT
from rows.jobs import FashionJob, loop_ms
from table import ByIsa, at_least, at_most, at_most_more, once, row

NEEDS = ["bare_step"]


@once
def bare(bench, example, batch, *more):
    """What bare_step measured."""
    return bench.program(
        "bare_step", "--spec", ROOT / "examples" / f"{example}.yaml",
        "--batch", batch, "--rounds", bench.rounds, "--seconds", bench.seconds,
        "--cpu", bench.client_cpu, *bench.capped(), *more)


def share_of_peak(bench, batch):
    """Steps per second, and how many the multiplications alone would allow."""
    done = bare(bench, "fashion-cnn", batch)
    bench.note(f"{sorted(done['step_ms'])[len(done['step_ms']) // 2]:.2f} ms a "
               f"step, {done['bound_ms'][0]:.2f} ms at the FMA peak")
    return [[1e3 / ms for ms in done[key]] for key in ("step_ms", "bound_ms")]


@row("step64", unit="steps/s", peer="its FLOP at the FMA peak",
     bar=ByIsa(avx512=at_least(0.85), other=at_least(0.58)), needs=NEEDS)
def step64(bench):
    """A step of the fashion net with Adam, batch 64, one core, f32."""
    return share_of_peak(bench, 64)


@row("step320", unit="steps/s", peer="its FLOP at the FMA peak",
     bar=ByIsa(avx512=at_least(0.60), other=at_least(0.56)), needs=NEEDS)
def step320(bench):
    """The same with batch 320."""
    return share_of_peak(bench, 320)


@row("mlp256", unit="ms", peer="its GEMMs through oneDNN", bar=at_most(1.25),
     needs=NEEDS)
def mlp256(bench):
    """A worker's step of the MLP 784-128-10, batch 256, one core."""
    done = bare(bench, "fashion-mlp", 256, "--no-apply")
    return done["step_ms"], done["gemm_ms"]


@row("first-start", unit="ms", peer="the same without checks",
     bar=at_most_more(300, "ms"), needs=NEEDS)
def first_start(bench):
    """A worker's program of the fashion net, batch 64, made by two threads: each
    kernel is compared with its reference before its first use."""
    def made(*options):
        done = bench.program(
            "bare_step", "--spec", ROOT / "examples" / "fashion-cnn.yaml",
            "--batch", 64, "--start", *bench.capped(), *options)
        bench.note(f"{done['checked']} kernels checked, {done['wrong']} wrong")
        return done["start_ms"]
    return bench.alternate(lambda: made(), lambda: made("--no-prove"))


@row("overhead64", unit="ms", peer="the same kernels, bare loop",
     bar=at_most(1.10), needs=["psserver"] + NEEDS)
def overhead64(bench):
    """A step of one worker of a real job on a core of its own."""
    cpus = {"c": bench.server_cpu, "p": bench.server_cpu, "w": bench.client_cpu}

    def ours():
        with FashionJob(workers=1, cpus=cpus) as c:
            return 1e3 / c.steps_per_s(c.begin(), bench.window(4))
    return bench.between(ours, lambda: loop_ms(bench, "--no-apply"))
