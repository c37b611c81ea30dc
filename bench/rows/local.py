# SPDX-License-Identifier: Apache-2.0
"""Mode local: the bytes of a sample, and how fast a shard applies a contribution."""
import cluster
from bed import Bed, wait_for
from scrape import OPS, address, metrics, value
from table import at_least, at_most, row

BATCH, STEPS, UNITS = 8, 100, 512  # 407,050 parameters
ASYNC_STEPS = 2000
NEEDS = ["psserver"]


class LocalBed(Bed):
    """2 psservers and 2 workers that share no memory, so that all goes as bytes."""

    def __init__(self):
        super().__init__(psservers=2, workers=2, cpu=None, psserver_args=["--shm", "off", *OPS],
                         worker_args=["--shm", "off"])

    def begin(self, **train):
        spec = cluster.mlp_job("bytes", samples=50000, epochs=10000, batch=BATCH, **train)
        spec["model"]["layers"][1]["units"] = UNITS
        spec["checkpoint"] = {"every_epoch": False, "every_seconds": 0}
        spec["evaluate"] = {"every_epochs": 0}
        return self.submit(spec)

    def moved(self):
        """Bytes that psservers have sent and received."""
        return sum(value(metrics(address(self, name)), f"sluice_rpc_{way}_bytes_total")
                   for name in ("ps-0", "ps-1") for way in ("sent", "received"))

    def bytes_per_sample(self, job, steps, samples):
        """Of so many counted steps, each of so many samples; the job runs."""
        self.wait_steps(job, steps // 4 + 1)
        first, before = self.steps(job), self.moved()
        wait_for("more steps", lambda: self.steps(job) >= first + steps, 300)
        moved, last = self.moved() - before, self.steps(job)
        return moved / ((last - first) * samples)


def figures(bench, up, down):
    """Bytes of a sample in mode local, and in mode async with f32."""
    ours, peer = [], []
    with LocalBed() as c:
        for _ in range(bench.rounds):
            job = c.begin(mode="local", contributions=2,
                          inner={"steps": STEPS, "up": up, "down": down})
            ours.append(c.bytes_per_sample(job, 20, STEPS * BATCH))
            c.run("stop", job)
            c.wait_state(job, "stopped")
            job = c.begin()
            peer.append(c.bytes_per_sample(job, ASYNC_STEPS, BATCH))
            c.run("stop", job)
            c.wait_state(job, "stopped")
    bench.note(f"{up} up, {down} down: {ours[-1]:.0f} bytes a sample, and {peer[-1]:.0f}: "
               f"1/{peer[-1] / ours[-1]:.0f}")
    return ours, peer


@row("local-bytes", unit="bytes/sample", peer="mode async, f32", bar=at_most(1 / 400),
     needs=NEEDS)
def local_bytes(bench):
    """Both ways, 100 steps a contribution, e3m0 both ways."""
    return figures(bench, "e3m0", "e3m0")


@row("local-bytes-topk2", unit="bytes/sample", peer="mode async, f32",
     bar=at_most(1 / 1000), needs=NEEDS)
def local_bytes_topk2(bench):
    """The same with topk2 up and e3m0 down."""
    return figures(bench, "topk2", "e3m0")


@row("local-apply", unit="GB/s", peer="a = b + x c", bar=at_least(0.8),
     needs=["local_apply"])
def local_apply(bench):
    """Memory traffic of a shard that decodes a contribution in e3m0 and takes a step
    with momentum: parameters and slot read and written, and the code."""
    done = bench.program("local_apply", "--rounds", bench.rounds, "--cpu", bench.client_cpu)
    bench.note(f"with a mirror, of which workers get changes: "
               f"{done['mirrored'] / 1e9:.2f} GB/s of the same bytes")
    return [[rate / 1e9 for rate in done[side]] for side in ("ours", "peer")]
