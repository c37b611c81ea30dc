#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workers that compute on the emulated GPU (tests/emul), whose streams are
lazy: what is not ordered by events comes out wrong."""
import signal

from cluster import (BIN, Cluster, check, check_counts, main, mlp_job)


class Emulated(Cluster):
    """Its workers are linked with the CUDA module over stand-ins."""

    def __init__(self, **options):
        super().__init__(worker_args=["--device", "cuda"], **options)

    def command(self, name):
        line = super().command(name)
        if name.startswith("w"):
            line[0] = str(BIN / "worker-emul")
        return line

    def start(self, name, **options):
        seed = str(3 + int(name[2:]) if name.startswith("w-") else 0)
        return super().start(name, environment={"EMUL_LAZY": seed}, **options)


def job_of(name, **train):
    job = mlp_job(name, samples=1280, epochs=3, **train)
    job["data"]["test"]["limit"] = 300
    return job


def jobs_on_a_gpu_learn():
    with Emulated(psservers=2, workers=1) as c:
        for precision in ("f32", "f16"):
            done = c.wait_state(c.submit(job_of(precision,
                                                precision=precision)))
            check_counts(done)
            accuracy = done["evaluations"][-1]["accuracy"]
            check(accuracy > 0.6, f"{precision}: accuracy {accuracy}")
        check("computing on a GPU" in c.log("w-0"), "not on a GPU")


def workers_on_gpus_are_killed_and_leave():
    with Emulated(psservers=2, workers=2) as c:
        job = c.submit(job_of("killed"))
        c.wait_steps(job, 20)
        c.restart("w-0")
        c.wait_steps(job, 60)
        c.kill("w-1", signal.SIGTERM)  # it hands back in the middle
        check_counts(c.wait_state(job))


if __name__ == "__main__":
    main([jobs_on_a_gpu_learn, workers_on_gpus_are_killed_and_leave])
