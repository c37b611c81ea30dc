# SPDX-License-Identifier: Apache-2.0
"""What a ring gets done while its ranks die, beside the same ring left in peace.

A stretch in which a rank is killed every ten seconds, with a new worker in its
place at once, alternates with one in which nobody is: the machine's pace changes
in minutes. What counts are steps that stay counted; what was done in vain is lost.
At the defaults of bench/run the stretches with kills are five minutes together.
"""
import statistics
import time

from bed import at_one_pace, wait_for
from peers.start import peer
from rows.jobs import BATCH, NEEDS, FashionJob
from table import at_least, once, row

RANKS = 3
PERIOD_S = 10  # from one kill to the next
OFTEN = 50  # steps of torch's ranks from one checkpoint to the next
KILLS = 3  # for each of --seconds, in a stretch


class RecoverBed(FashionJob):
    """Three ranks on the cores that there are, and a store that they share."""

    def __init__(self):
        super().__init__(workers=RANKS, psservers=0)
        self.args["worker"] += ["--store", str(self.dir / "store")]
        self.ranks = [f"w-{i}" for i in range(RANKS)]
        self.started, self.stalls = RANKS, []

    def begin(self):
        job = super().begin("train.mode=allreduce", f"train.contributions={RANKS}")
        wait_for(f"a ring of {RANKS}",
                 lambda: int(self.status(job).get("ring_ranks", 0)) == RANKS)
        return job

    def replace(self, job):
        """The rank that has lived longest dies, and a new worker comes. Takes
        down how long it was until the others had counted a round."""
        before = self.status(job)["ring_generation"]
        began = time.monotonic()
        self.kill(self.ranks.pop(0))
        self.ranks.append(f"w-{self.started}")
        self.started += 1
        self.start(self.ranks[-1], wait=False)
        wait_for("a ring without it",
                 lambda: self.status(job)["ring_generation"] != before)
        self.look(job)
        self.stalls.append(time.monotonic() - began)

    def images_per_s(self, job):
        return BATCH * self.steps_per_s(job, PERIOD_S)

    def kept_per_s(self, job, kills):
        """Images per second of periods that begin with a kill each."""
        began, first = self.look(job)
        for i in range(kills):
            self.replace(job)
            time.sleep(max(0, began + (i + 1) * PERIOD_S - time.monotonic()))
        ended, last = self.look(job)
        return BATCH * (last - first) / (ended - began)


def kills_of(bench):
    return max(1, round(KILLS * bench.seconds))


@once
def disturbed(bench):
    """Images per second kept under kills, and those of the same ring in peace."""
    figures = [], []
    with RecoverBed() as c:
        job = c.begin()
        before = c.images_per_s(job)
        for i in range(bench.rounds):
            figures[0].append(c.kept_per_s(job, kills_of(bench)))
            after = c.images_per_s(job)
            figures[1].append((before + after) / 2)
            before = after
            bench.note(f"round {i + 1} of {bench.rounds}: {figures[0][-1]:.0f} images/s "
                       f"kept, {figures[1][-1]:.0f} undisturbed")
        status = c.status(job)
        stalls = sorted(1e3 * s for s in c.stalls)
        bench.note(f"{len(stalls)} kills, {status.get('steps_redone', 0)} steps done "
                   "again; from a kill to the next round "
                   f"{statistics.median(stalls):.0f} ms, at most {stalls[-1]:.0f}")
        c.run("stop", job)
    return figures


@row("ring-recover", unit="images/s", peer="the same, undisturbed",
     bar=at_least(0.95), needs=NEEDS,
     long="a kill every 10 s")
def ring_recover(bench):
    """Three ranks, one killed and replaced every 10 s: what is kept."""
    return at_one_pace(*disturbed(bench))


def elastic(bench, checkpoint):
    """Images per second that torchrun keeps; `checkpoint`: steps, 0: an epoch."""
    told = peer(bench, "torch_elastic.py", ranks=RANKS, every=PERIOD_S,
                kills=kills_of(bench) * bench.rounds, checkpoint=checkpoint,
                limit_s=900)
    bench.note(f"torchrun, a checkpoint every {checkpoint or 'epoch'}"
               f"{' steps' if checkpoint else ''}: {told['per_s']:.0f} images/s kept "
               f"under {told['kills']} kills, {told['undisturbed_per_s']:.0f} "
               "undisturbed")
    return told["per_s"]


@row("ring-recover-ddp", unit="images/s", peer="torchrun --max-restarts with DDP",
     bar=at_least(1), needs=NEEDS,
     long="a kill every 10 s")
def ring_recover_ddp(bench):
    """The same against torchrun with DDP, the better of two ways to checkpoint."""
    ours, _ = disturbed(bench)
    return ours, max(elastic(bench, OFTEN), elastic(bench, 0))
