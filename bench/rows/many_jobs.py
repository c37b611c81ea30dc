# SPDX-License-Identifier: Apache-2.0
"""Many small jobs on few workers, against one of them that has the workers alone.

2 workers and 2 psservers; each job trains an MLP of 51,000 parameters on the
whole of Fashion-MNIST, which a worker keeps in memory once per job: 55 MiB.
"""
import time

from bed import cluster
from rows.jobs import FashionJob
from table import at_least, row

JOBS = (2, 4, 5, 8, 16)  # told beside it
MANY = 32
WARM_STEPS = 200         # of each: it is in the memory of who goes on with it
WARM_S = 600


def spec(number):
    job = cluster.mlp_job(f"small-{number}", samples=60000, epochs=30000)
    del job["data"]["test"]
    job["checkpoint"] = {"every_epoch": False}
    return job


def steps_per_s(bench, jobs):
    """Of all jobs together."""
    with FashionJob() as c:
        ids = [c.submit(spec(i)) for i in range(jobs)]
        for job in ids:
            c.wait_steps(job, WARM_STEPS, WARM_S)
        # Between two looks at the same job equally long passes for each.
        first = [(time.monotonic(), c.steps(job)) for job in ids]
        time.sleep(bench.window(4))
        last = [(time.monotonic(), c.steps(job)) for job in ids]
    return sum((b[1] - a[1]) / (b[0] - a[0]) for a, b in zip(first, last))


@row("jobs-32", unit="steps/s", peer="one job alone", bar=at_least(0.8),
     needs=["psserver"],
     long="32 jobs have to begin")
def jobs_32(bench):
    """32 small jobs at a time on two workers, all together, against one alone."""
    for jobs in JOBS:
        bench.note(f"{jobs} jobs: {steps_per_s(bench, jobs):.0f} steps/s")
    return bench.between(lambda: steps_per_s(bench, MANY),
                         lambda: steps_per_s(bench, 1))
