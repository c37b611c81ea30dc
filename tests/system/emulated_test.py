#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workers that compute on the emulated GPU (tests/emul), whose streams are
lazy: what is not ordered by events comes out wrong."""
import re
import signal

from cluster import (BIN, LONG_LEASE, Cluster, check, check_counts, check_equal, main, mlp_job,
                     wait_for)
import external_test
from local_test import compare_with_numpy
from native_rows_test import clicks, clicks_job, rows_of, score
from ring_test import exported


class Emulated(Cluster):
    """Its workers are linked with the CUDA module over stand-ins."""

    def __init__(self, **options):
        super().__init__(worker_args=["--device", "cuda"], **options)

    def command(self, name):
        line = super().command(name)
        if name.startswith("w"):
            line[0] = str(BIN / "worker-emul")
        return line

    def start(self, name, environment=None, **options):
        seed = str(3 + int(name[2:]) if name.startswith("w-") else 0)
        return super().start(name, environment={"EMUL_LAZY": seed, **(environment or {})},
                             **options)


def job_of(name, **train):
    """Its net is small, since the CPU does what a GPU's threads would."""
    job = mlp_job(name, samples=1280, **{"epochs": 3, **train})
    job["model"]["layers"][1]["units"] = 16
    job["optimizer"]["learning_rate"] = 0.003
    job["data"]["test"]["limit"] = 200
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


def steps_of_their_own_are_those_of_numpy():
    """Mode local: the host updates the parameters, which come to the device before each
    step. A pair of devices normalizes each half of a batch by itself, so it only learns."""
    with Emulated(psservers=2, workers=1) as c:
        compare_with_numpy(c)
        check("computing on a GPU" in c.log("w-0"), "not on a GPU")
        c.start("w-1", extra=["--device", "cuda:0,cuda:1"], environment={"EMUL_DEVICES": "2"})
        c.kill("w-0")
        done = c.wait_state(c.submit(job_of("f16", precision="f16", mode="local", epochs=4,
                                            inner={"steps": 4})))
        check_counts(done)
        accuracy = done["evaluations"][-1]["accuracy"]
        check(accuracy > 0.6, f"accuracy {accuracy}")


def rows_of_tables_come_to_gpus():
    """To one, and to the parts of two, whichever way the two sum their gradients."""
    one, two = ["--device", "cuda:0"], ["--device", "cuda:0,cuda:1"]
    with Emulated(psservers=2, workers=0) as c:
        train = clicks(c.dir / "clicks.csv", 512, 1)
        for i, (devices, nccl) in enumerate(((one, "0"), (two, "0"), (two, "1"))):
            c.start(f"w-{i}", extra=devices,
                    environment={"EMUL_DEVICES": "2", "EMUL_NCCL": nccl})
            job = c.submit({**clicks_job(c.dir, 6), "name": f"rows-{i}"})
            check_counts(c.wait_state(job))
            check("computing on a GPU" in c.log(f"w-{i}"), "not on a GPU")
            loss, _ = score(external_test.exported(c, job), rows_of(c, job, "users"),
                            rows_of(c, job, "tags"), train)
            check(loss < 0.4, f"{devices}: loss {loss}: nothing is learnt")
            c.kill(f"w-{i}")


def workers_on_gpus_are_killed_and_leave():
    with Emulated(psservers=2, workers=2) as c:
        job = c.submit(job_of("killed"))
        c.wait_steps(job, 20)
        c.restart("w-0")
        c.wait_steps(job, 60)
        c.kill("w-1", signal.SIGTERM)  # it hands back in the middle
        check_counts(c.wait_state(job))


def gpus_are_lost():
    """An illegal address, after which every call of CUDA fails in that process:
    one worker goes on with its CPU, one ends and is started again, and one
    starts itself anew, each time after so many calls."""
    lost = {"w-0": ("graph:30", "cpu", "device lost; going on with cpu"),
            "w-1": ("event_record:300", "exit", "device lost; ending"),
            "w-2": ("graph:40", "reopen", "device is back")}
    with Emulated(psservers=2, workers=0) as c:
        for name, (call, policy, _) in lost.items():
            c.start(name, environment={"EMUL_LOST": call},
                    extra=["--on-device-loss", policy, "--device-wait", "50ms"])
        job = c.submit(job_of("lost", precision="bf16", epochs=12))
        for name, (_, _, text) in lost.items():
            wait_for(f"{name} to lose its device", lambda: text in c.log(name))
            check("error 700" in c.log(name), f"{name} does not say what it was")
        wait_for("w-1 to end", lambda: c.processes["w-1"].poll() is not None)
        check_equal(c.processes["w-1"].poll(), 138, "exit status of w-1")
        c.restart("w-1")
        check(c.processes["w-2"].poll() is None, "w-2 has ended")
        check_counts(c.wait_state(job))
        check("attempt failed" not in c.log("coordinator"), "somebody was blamed")


def a_second_start_checks_no_kernel():
    """Of a GPU and of a CPU: the first start says how many kernels it checked, and
    in what time; the second one has the answers from the file of --plans."""
    checked = r"kernels are checked.*device.*count.*[1-9].*ms"
    with Emulated(psservers=1, workers=0) as c:
        for device in ("cuda", "cpu"):
            said = []
            for start in range(2):
                c.start("w-0", extra=["--device", device, "--plans", str(c.dir / f"{device}.plans")])
                check_counts(c.wait_state(c.submit(job_of(f"{device}-{start}", epochs=1))))
                c.kill("w-0")
                said.append(len([line for line in c.log("w-0").splitlines()
                                 if re.search(checked, line) and device in line]))
            check(said[0] > 0, f"{device}: a first start checks no kernel")
            check_equal(said[1], said[0], f"{device}: lines after a second start")


def a_worker_says_how_much_workspace_an_op_may_have():
    with Emulated(psservers=1, workers=0) as c:
        c.start("w-0")
        c.start("w-1", extra=["--workspace", "8MiB"])
        for name, mib in (("w-0", 256), ("w-1", 8)):  # of 1 GiB a quarter
            wait_for(f"{name} to say it",
                     lambda: f"up to {mib} MiB of workspace" in c.log(name))


def a_rank_loses_its_gpu_and_is_back():
    """It loses its copy of the parameters with it, and gets the others'."""
    with Emulated(psservers=0, workers=0) as c:
        store = ["--store", str(c.dir / "store")]
        c.start("w-0", extra=store)
        c.start("w-1", environment={"EMUL_LOST": "graph:60"},
                extra=[*store, "--on-device-loss", "reopen", "--device-wait", "50ms"])
        job = c.submit(job_of("ring", mode="allreduce", epochs=8))
        wait_for("w-1 to lose its device", lambda: "device is back" in c.log("w-1"))
        done = c.wait_state(job)
        check_counts(done)
        check(c.processes["w-1"].poll() is None, "w-1 has ended")
        check("attempt failed" not in c.log("coordinator"), "somebody was blamed")


HERE, THERE = {"EMUL_OPTIM": "0"}, {}  # where the optimizer runs


def ring_of(c, *environments):
    """Workers with one store, each of its environment."""
    for i, environment in enumerate(environments):
        c.start(f"w-{i}", environment=environment, extra=["--store", str(c.dir / "store")])
    for i, environment in enumerate(environments):
        wait_for(f"w-{i} to be there", lambda: "computing on a GPU" in c.log(f"w-{i}"))


def said_where(c, *environments):
    for i, environment in enumerate(environments):
        where = "host" if environment is HERE else "device"
        check(f"the optimizer runs on the {where}" in c.log(f"w-{i}"),
              f"w-{i} does not say that its optimizer runs on the {where}")


IN_A_RING = {"mode": "allreduce", "contributions": 2}


def normed_job(name, **train):
    """With statistics that are moved, a schedule, and a norm that clips."""
    job = job_of(name, **train)
    job["model"]["layers"].insert(2, {"type": "batch_normalization"})
    job["optimizer"] = {"type": "adamw", "learning_rate": 0.002, "weight_decay": 0.01,
                        "global_clipnorm": 1.0,
                        "schedule": {"type": "exponential_decay", "decay_steps": 10,
                                     "decay_rate": 0.9}}
    return job


def uneven_job():
    """Rounds of three steps for two workers, each of two micro-batches, in 16
    bits; the last round of an epoch leaves one of them without any."""
    job = job_of("uneven", mode="allreduce", contributions=3, epochs=1, accumulate=2,
                 precision="f16", batch=16, workers={"min": 2, "max": 2})
    job["optimizer"] = {"type": "rmsprop", "learning_rate": 0.001, "momentum": 0.9,
                        "centered": True, "clipvalue": 0.5}
    return job


def few(job):
    """Bits say as much of ten steps an epoch as of twenty."""
    job["data"]["train"]["limit"] = 640
    job["data"]["test"]["limit"] = 40
    return job


def gpus_of_a_ring_update_with_the_bits_of_hosts():
    """Whoever of them has its parameters on its device; and a cut of it goes on
    elsewhere, slots and all."""
    found = []
    for where in ((HERE, HERE), (THERE, THERE), (HERE, THERE)):
        with Emulated(psservers=1, workers=0) as c:
            ring_of(c, *where)
            job = c.submit(few(normed_job("bits", epochs=2, **IN_A_RING)))
            check_counts(c.wait_state(job))
            said_where(c, *where)
            bits = [exported(c, job, "ring")]
            c.kill("w-1", signal.SIGTERM)
            job = c.submit(few(normed_job("on", epochs=3)), "--resume", job)
            check_counts(c.wait_state(job))
            bits.append(exported(c, job, "async"))
            found.append(bits)
            job = c.submit(few(uneven_job()))
            c.start("w-1", environment=where[1], extra=["--store", str(c.dir / "store")])
            check_counts(c.wait_state(job))
            bits.append(exported(c, job, "uneven"))
    for part, what in enumerate(("a ring", "what went on from its cut", "an uneven one")):
        check(found[0][part] == found[1][part], f"{what} has other bits from devices")
        check(found[0][part] == found[2][part], f"{what} has other bits from both")
    check(found[0][0] != found[0][1], "nothing went on")


def a_rank_on_a_gpu_is_killed_and_another_copies():
    """The newcomer gets what is on the others' devices, and goes on with it; and
    so do all of them under a coordinator that was killed."""
    found = []
    for where in ((HERE, HERE), (THERE, THERE)):
        with Emulated(psservers=0, workers=0, coordinator_args=LONG_LEASE) as c:
            ring_of(c, *where)
            job = c.submit(normed_job("killed", epochs=6, **IN_A_RING))
            if where[0] is THERE:
                for counted in (20, 80):
                    c.wait_steps(job, counted)
                    c.kill("w-1")
                    wait_for("a ring of one",
                             lambda: int(c.status(job).get("ring_ranks", 0)) == 1)
                    c.pause("w-0")  # the job has steps left when w-1 is there
                    c.start("w-1", environment=THERE,
                            extra=["--store", str(c.dir / "store")])
                    c.wait_attached("w-1")
                    c.resume("w-0")
                    wait_for("a ring of two",
                             lambda: int(c.status(job).get("ring_ranks", 0)) == 2)
                c.restart("coordinator")
            check_counts(c.wait_state(job))
            said_where(c, *where)
            if where[0] is THERE:
                check(c.log("w-0").count("the optimizer runs on the device") > 1,
                      "w-0 was not told of the job anew")
                check("parameters of a rank are lost" not in c.log("w-0"), "w-0 has lost its state")
            found.append(exported(c, job, "killed"))
    check(found[0] == found[1], "other bits after a kill and a copy")


def a_newcomer_copies_from_gpus_that_go_on():
    """Between their rounds they bring home what it asks for."""
    found = []
    for copies in (False, True):
        with Emulated(psservers=0, workers=0) as c:
            ring_of(c, *((THERE, THERE) if copies else (HERE, HERE)))
            spec = normed_job("ahead", epochs=1, batch=4, **IN_A_RING)
            spec["data"]["train"]["limit"] = 128
            del spec["data"]["test"]
            spec["model"]["layers"][1]["units"] = 1400  # not copied within a round
            job = c.submit(spec)
            if copies:
                c.wait_steps(job, 6)
                c.kill("w-1")
                c.start("w-1", environment=THERE, extra=["--store", str(c.dir / "store")])
            check_counts(c.wait_state(job))
            if copies:
                told = re.findall(r'"rank has copied".*?"rounds":(\d+)', c.log("coordinator"))
                check(told and int(told[-1]) > 0, f"copied: {told}; {c.log('w-1')}")
            found.append(exported(c, job, "ahead"))
    check(found[0] == found[1], "other bits after a copy that others did not wait for")


if __name__ == "__main__":
    main([gpus_of_a_ring_update_with_the_bits_of_hosts,
          a_rank_on_a_gpu_is_killed_and_another_copies,
          a_newcomer_copies_from_gpus_that_go_on, a_second_start_checks_no_kernel,
          a_worker_says_how_much_workspace_an_op_may_have, jobs_on_a_gpu_learn,
          rows_of_tables_come_to_gpus, steps_of_their_own_are_those_of_numpy,
          workers_on_gpus_are_killed_and_leave, gpus_are_lost,
          a_rank_loses_its_gpu_and_is_back])
