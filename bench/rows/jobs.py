# SPDX-License-Identifier: Apache-2.0
"""A real job, all of it on two cores, against the same net trained by others.

Ours: coordinator, 2 psservers, 2 workers, a process each, examples/
fashion-cnn.yaml as it stands but for its end, its evaluation and its falling rate,
which the peers do not have either; checkpoints are on. Steps counted by the shards
between two looks at the job's status.
"""
import time

from bed import ROOT, Bed
from peers.common import LEARNING_RATE
from peers.start import peer
from table import ByIsa, at_least, row

NEEDS = ["psserver"]
BATCH = 64
WARM_STEPS = 400
# More than an epoch of 938 steps. Its last batch, of 32 samples, has a program of
# its own, which a worker compiles and checks once, in 0.15 s.
EPOCH_STEPS = 1000
ROUNDS = 3  # a peer takes long to start
# Why rows with these are none of --quick.
LONG_TF = "TensorFlow takes half a minute to start"
LONG_TORCH = "torch compiles for ten seconds and more"


class Job(Bed):
    """A cluster with a job of which the steps are counted. They are told closure
    by closure, so each look waits for the next: else a few seconds would be off by
    several percent."""

    def look(self, job):
        before = steps = self.steps(job)
        while steps == before:
            began = time.monotonic()
            steps = self.steps(job)
        return (began + time.monotonic()) / 2, steps

    def steps_per_s(self, job, seconds):
        began, first = self.look(job)
        time.sleep(seconds)
        ended, last = self.look(job)
        return (last - first) / (ended - began)


class FashionJob(Job):
    """2 psservers and so many workers; nothing is pinned unless `cpus` says
    where a name's first letter (c, p, w) runs."""

    def __init__(self, workers=2, cpus=None, **options):
        super().__init__(**{"over": "tcp", "psservers": 2, "cpu": None,
                            "workers": workers, **options})
        self.cpus = cpus or {}

    def command(self, name):
        line = super().command(name)
        if name[0] in self.cpus:
            line = ["taskset", "-c", str(self.cpus[name[0]]), *line]
        return line

    def begin(self, *sets):
        """Submits the example without an end, and waits until it runs well."""
        words = ["train.epochs=10000", "evaluate.every_epochs=0",
                 f"optimizer.learning_rate={LEARNING_RATE}",
                 "optimizer.schedule.alpha=1", *sets]
        job = self.run("submit", ROOT / "examples" / "fashion-cnn.yaml",
                       "--no-wait", *(w for s in words for w in ("--set", s))
                       ).stdout.strip()
        self.wait_steps(job, EPOCH_STEPS)
        return job


def images_per_s(bench, *sets, **options):
    # A closure is counted when it ends, so the window must hold many.
    with FashionJob(**options) as c:
        return BATCH * c.steps_per_s(c.begin(*sets), bench.window(4))


def loop_ms(bench, *options):
    """Milliseconds of a step of the same net in the bare loop, on one core."""
    return bench.program(
        "bare_step", "--spec", ROOT / "examples" / "fashion-cnn.yaml",
        "--batch", BATCH, "--rounds", 1, "--seconds", bench.seconds,
        "--cpu", bench.client_cpu, *bench.capped(), *options)["step_ms"][0]


def alternate(bench, ours, theirs):
    figures = [], []
    for i in range(min(ROUNDS, bench.rounds)):
        figures[0].append(ours())
        figures[1].append(theirs())
        bench.note(f"round {i + 1}: ours {figures[0][-1]:.0f}, "
                   f"peer {figures[1][-1]:.0f}")
    return figures


def against(bench, script, ours=images_per_s, **options):
    return alternate(bench, lambda: ours(bench), lambda: peer(
        bench, script, seconds=bench.seconds, **options)["per_s"])


def ring_images_per_s(bench):
    """Two workers that keep the parameters themselves, and no psserver."""
    with FashionJob(psservers=0) as c:
        job = c.begin("train.mode=allreduce", "train.contributions=2")
        return BATCH * c.steps_per_s(job, bench.window(4))


@row("job-tf1", unit="images/s", peer="TF parameter server, 1 step a closure",
     bar=at_least(3.2), needs=NEEDS,
     long=LONG_TF)
def job_tf1(bench):
    """Fashion net, 2 workers and 2 psservers, against TensorFlow's strategy."""
    return against(bench, "tf_ps.py", steps=1)


@row("job-tf10", unit="images/s", peer="TF parameter server, 10 steps a closure",
     bar=at_least(2.3), needs=NEEDS,
     long=LONG_TF)
def job_tf10(bench):
    """The same against TensorFlow with ten steps in one closure."""
    return against(bench, "tf_ps.py", steps=10)


@row("job-mwms", unit="images/s", peer="TF ring of 2 workers", bar=at_least(2),
     needs=NEEDS,
     long=LONG_TF)
def job_mwms(bench):
    """The same against TensorFlow's MultiWorkerMirroredStrategy."""
    return against(bench, "tf_mwms.py")


@row("job-ddp", unit="images/s", peer="torch DDP, gloo, 2 ranks",
     bar=ByIsa(avx512=at_least(3), other=at_least(2.2)), needs=NEEDS,
     long=LONG_TORCH)
def job_ddp(bench):
    """The same against torch's DistributedDataParallel."""
    return against(bench, "torch_ddp.py")


@row("job-torch-local", unit="images/s", peer="torch alone, 2 threads, no cluster",
     bar=at_least(1.5), needs=NEEDS,
     long=LONG_TORCH)
def job_torch_local(bench):
    """The same on two cores, against what torch does with both by itself."""
    def theirs():  # which of the two is faster depends on the machine
        return max(peer(bench, "torch_local.py", seconds=bench.seconds,
                        compile=way)["per_s"] for way in (0, 1))
    return alternate(bench, lambda: images_per_s(bench), theirs)


@row("job-floor", unit="images/s", peer="2 bare loops", bar=at_least(0.88),
     needs=NEEDS + ["bare_step"])
def job_floor(bench):
    """The same against twice the rate of the bare loop on one core."""
    return bench.between(lambda: images_per_s(bench),
                         lambda: 2 * BATCH * 1e3 / loop_ms(bench))


@row("job-sync", unit="images/s", peer="our async", bar=at_least(0.9), needs=NEEDS)
def job_sync(bench):
    """The same in rounds of two contributions, against async."""
    return alternate(bench, lambda: images_per_s(bench, "train.mode=sync"),
                     lambda: images_per_s(bench))


@row("job-audit", unit="images/s", peer="the same without audits",
     bar=at_least(0.77), needs=NEEDS)
def job_audit(bench):
    """In rounds of four contributions, of which audits compute a share of 0.1 three
    times. A share of 0.001 costs a hundredth of that: at most 0.3 %."""
    def rounds(share):
        return images_per_s(bench, "train.mode=sync", "train.contributions=4",
                            f"train.audit={share}")
    return alternate(bench, lambda: rounds(0.1), lambda: rounds(0))


@row("job-ring-mwms", unit="images/s", peer="TF ring of 2 workers",
     bar=at_least(1.8), needs=NEEDS,
     long=LONG_TF)
def job_ring_mwms(bench):
    """In a ring of two, against TensorFlow's MultiWorkerMirroredStrategy."""
    return against(bench, "tf_mwms.py", ring_images_per_s)


@row("job-ring-ddp", unit="images/s", peer="torch DDP, gloo, 2 ranks",
     bar=at_least(2), needs=NEEDS,
     long=LONG_TORCH)
def job_ring_ddp(bench):
    """The same against torch's DistributedDataParallel."""
    return against(bench, "torch_ddp.py", ring_images_per_s)
