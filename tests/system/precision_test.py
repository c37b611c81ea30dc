#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mixed precision with real daemons: what a job says, learns and reports.

By hand, some minutes: fashion_net_learns_as_well_in_16_bits, which trains
examples/fashion-cnn.yaml in each precision and compares the accuracies."""
import pathlib

from cluster import (Cluster, changed, check, check_counts, check_equal, main, mlp_job, shared)

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "fashion-cnn.yaml"
BAR = 0.005


def precision_line(cluster, job):
    """What the worker's log says is in effect."""
    for line in cluster.log("w-0").splitlines():
        if "precision of a job" in line and f'"job":{job}' in line:
            return line
    return ""


def jobs_in_16_bits_learn_and_say_so():
    with shared(psservers=2, workers=1) as c:
        for precision in ("tf32", "bf16", "f16"):
            job = mlp_job(precision, samples=3200, epochs=2, precision=precision)
            done = c.wait_state(c.submit(job))
            check_counts(done)
            accuracy = done["evaluations"][-1]["accuracy"]
            check(accuracy > 0.72, f"{precision}: accuracy {accuracy}")
            scale = float(done.get("loss_scale", 0))
            if precision == "f16":
                skipped = int(done["updates_skipped"])
                check_equal(scale, 32768 / 2 ** skipped, "loss scale")
            else:
                check_equal(scale, 0, f"loss scale of {precision}")
            line = precision_line(c, done["job"])
            # A CPU that is no faster in 16 bits computes in f32, and says why.
            f32 = '"products":"f32"' in line
            check(f'"asked":"{precision}"' in line and
                  (f32 or f'"products":"{precision}"' in line), f"not said: {line}")
            check_equal("16 bits are no faster here" in line,
                        f32 and precision != "tf32", f"the reason in {line}")


def a_fixed_scale_that_is_too_large_fails_the_job():
    """On a device that computes in f16; in f32 nothing overflows."""
    with Cluster(psservers=2, workers=1, worker_args=["--device", "ref"]) as c:
        job = mlp_job("fixed", samples=640, epochs=1, precision="f16",
                      loss_scale=1e12, max_nonfinite=3)
        failed = c.wait_state(c.submit(job), "failed")
        check("4 steps in a row" in failed["reason"], failed["reason"])


def fashion_net(cluster, precision):
    path = cluster.dir / f"fashion-{precision}.yaml"
    path.write_text(changed(EXAMPLE.read_text(), {
        "name: fashion-cnn": f"name: fashion-{precision}",
        "\ntrain:\n": f"\ntrain:\n  precision: {precision}\n"}))
    job = cluster.run("submit", path, "--no-wait").stdout.strip()
    done = cluster.wait_state(job, limit_s=3600)
    check_counts(done)
    check_equal(done["spec"]["train"]["precision"], precision, "precision")
    accuracies = [e["accuracy"] for e in done["evaluations"]]
    print(f"{precision}: {accuracies}, {done['updates_skipped']} skipped, "
          f"{done['elapsed_seconds']:.0f} s", flush=True)
    return accuracies[-1]


def fashion_net_learns_as_well_in_16_bits():
    with Cluster(psservers=1, workers=1) as c:
        whole = fashion_net(c, "f32")
        for precision in ("f16", "bf16"):
            half = fashion_net(c, precision)
            check(half >= whole - BAR, f"{precision}: {half}, f32: {whole}")


if __name__ == "__main__":
    main([jobs_in_16_bits_learn_and_say_so,
          a_fixed_scale_that_is_too_large_fails_the_job,
          fashion_net_learns_as_well_in_16_bits])
