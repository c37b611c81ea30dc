#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workers that drive several devices: each computes its part of a batch, and
one gradient leaves."""
import os
import pathlib
import shutil
import subprocess
import tempfile

from cluster import (BIN, Cluster, check, check_counts, check_equal, main, mlp_job,
                     wait_for)

EMULATED = (BIN / "worker-emul").exists()  # GPUs, without one


class Team(Cluster):
    """Workers whose name begins with w-gpu have GPUs."""

    def command(self, name):
        line = super().command(name)
        if name.startswith("w-gpu"):
            line[0] = str(BIN / "worker-emul")
        return line


def small_job(*words, **more):
    """A job whose net is small: an emulated GPU takes its time for each element."""
    spec = mlp_job(*words, **more)
    spec["model"]["layers"][1]["units"] = 12
    del spec["data"]["test"]
    return spec


def team(device, n):
    names = (f"cuda:{i}" for i in range(n)) if device == "cuda" else [device] * n
    return ",".join(names)


def exported(c, job):
    from safetensors.numpy import load_file
    path = c.dir / "model.safetensors"
    c.run("export", job, "--to", path)
    return load_file(str(path))


def trained(c, device, spec, mode="async", nccl=0, **train):
    """The parameters in the end, of a job with one worker, which ends with it."""
    name = "w-gpu" if "cuda" in device else "w-cpu"
    c.start(name, environment={"EMUL_DEVICES": "3", "EMUL_LAZY": "5", "EMUL_NCCL": str(nccl)},
            extra=["--device", device, "--store", str(c.dir / "store")])
    spec["train"].update(mode=mode, **train)
    job = c.submit(spec)
    check_counts(c.wait_state(job))
    check_equal("devices compute each step together" in c.log(name), "," in device,
                f"{device} is a team")
    if "," in device and "cuda" in device:
        by = "sums\":\"NCCL 2" if nccl else "copies between GPUs, 2 of 6 directly"
        check(by in c.log(name), f"their gradients do not meet by {by}")
    values = exported(c, job)
    c.kill(name)
    (c.dir / f"{name}.log").unlink()
    return values


def bits(tensors):
    return {name: tensor.tobytes() for name, tensor in tensors.items()}


def check_near(got, want, most, what):
    apart = {name: float(abs(got[name] - want[name]).max()) for name in want}
    check(max(apart.values()) < most, f"{what}: apart by {apart}")


def devices_train_as_one_does_micro_batches():
    """The sum of their parts is that of as many micro-batches, to the last bit,
    and a repeat is the same. Of whole batches: the parts of a short one are
    other samples than its micro-batches."""
    def job():
        return small_job("team", samples=96, epochs=1)
    with Team(psservers=1, workers=0) as c:
        for device, n in [("ref", 2), ("cpu", 3)] + [("cuda", 3)] * EMULATED:
            one = bits(trained(c, device, job(), batch=8, accumulate=n))
            for nccl in (0, 1):
                several = bits(trained(c, team(device, n), job(), batch=8 * n, nccl=nccl))
                check(one == several, f"{n} x {device} are not {n} micro-batches")


def devices_train_in_every_mode():
    """As one device does with the whole batch: with dropout's masks, clipped, in
    micro-batches, in short batches. Of 353 samples the last batch, or the last
    micro-batch, has one, which is for one of three devices."""
    kinds = [("ref", "sync", {}, {}), ("ref", "hybrid", {}, {}),
             ("ref", "allreduce", {"clipnorm": 0.1}, {}), ("ref", "async", {}, {"accumulate": 3}),
             ("ref", "async", {"global_clipnorm": 0.1}, {})]
    if EMULATED:
        kinds += [("cuda", "async", {}, {"accumulate": 3}), ("cuda", "allreduce", {}, {})]
    with Team(psservers=1, workers=0) as c:
        for device, mode, clip, train in kinds:
            spec = small_job("modes", samples=353, epochs=1, batch=32, precision="f32")
            spec["model"]["layers"][1:1] = [{"type": "dropout", "rate": 0.3}]
            spec["optimizer"] = {"type": "sgd", "learning_rate": 0.1, **clip}
            one = trained(c, "ref", spec, mode, **train)
            several = trained(c, team(device, 3), spec, mode, **train)
            check_near(several, one, 1e-5, f"{device} {mode} {clip} {train}")


def moving_statistics_are_the_mean_of_the_parts():
    """Weighted by samples: the mean of a batch is that of its parts. Nothing
    learns, so that nothing else differs."""
    spec = small_job("norm", samples=353, epochs=1, batch=32)
    spec["model"]["layers"][2:2] = [{"type": "batch_normalization", "name": "bn",
                                     "momentum": 0.9}]
    spec["optimizer"] = {"type": "sgd", "learning_rate": 1e-30}
    with Team(psservers=1, workers=0) as c:
        for train in ({}, {"accumulate": 2}):
            one = trained(c, "ref", spec, **train)
            several = trained(c, team("ref", 3), spec, **train)
            name = next(name for name in one if "moving_mean" in name)
            check(abs(one[name]).max() > 0.1, "the statistics have not moved")
            check_near({name: several[name]}, {name: one[name]}, 1e-5, "moving mean")
            check_near(several, one, 0.3, "all")


def a_team_loses_a_device_and_is_back():
    """Whichever of them: the closure goes back, and the process that starts anew
    opens all of them."""
    if not EMULATED:
        return
    with Team(psservers=1, workers=0) as c:
        for name, call, nccl in (("w-gpu-1", "graph:81", "0"), ("w-gpu-2", "graph:100", "1"),
                                 ("w-gpu-3", "nccl_send:61", "1")):
            c.start(name, environment={"EMUL_DEVICES": "2", "EMUL_LOST": call,
                                       "EMUL_NCCL": nccl},
                    extra=["--device", "cuda:0,cuda:1", "--on-device-loss", "reopen",
                           "--device-wait", "50ms"])
        job = c.submit(small_job("lost", samples=1000, epochs=1, batch=2))
        for name in ("w-gpu-1", "w-gpu-2", "w-gpu-3"):
            wait_for(f"{name} to be back", lambda: "device is back" in c.log(name))
            check('"device":"cuda:0,cuda:1"' in c.log(name), f"{name} does not say what it was")
            check("error 700" in c.log(name), f"{name} does not say why")
        check_counts(c.wait_state(job))
        check("attempt failed" not in c.log("coordinator"), "somebody was blamed")


def one_command_starts_a_worker_for_several_gpus():
    """The folder of programs is as installed, with the worker of the emulated
    GPUs."""
    if not EMULATED:
        return
    with tempfile.TemporaryDirectory(prefix="sluice-up-") as top:
        top = pathlib.Path(top)
        (top / "bin").mkdir()
        for name in ("sluice", "coordinator", "psserver"):
            shutil.copy(BIN / name, top / "bin")
        shutil.copy(BIN / "worker-emul", top / "bin" / "worker")
        up = [top / "bin" / "sluice", "up", "--dir", top / "cluster", "--psservers", "1",
              "--listen", f"unix:{top}/c.sock", "--data-root", "/"]
        wrong = subprocess.run([*up, "--gpus-per-worker", "2"], capture_output=True, text=True,
                               timeout=60, check=False)
        check_equal(wrong.returncode, 2, "exit status without --gpus")
        check("--gpus all" in wrong.stderr, f"what it says: {wrong.stderr}")
        process = subprocess.Popen([*up, "--gpus", "all", "--gpus-per-worker", "2"],
                                   env={**os.environ, "EMUL_DEVICES": "3"})
        try:
            def told():
                done = subprocess.run([top / "bin" / "sluice", "--coordinator",
                                       f"unix:{top}/c.sock", "status"], capture_output=True,
                                      text=True, timeout=60, check=False)
                return "2 devices, cuda:0" in done.stdout and "cuda:2" in done.stdout
            wait_for("two workers for three GPUs", told)
        finally:
            process.terminate()
            check_equal(process.wait(60), 0, "exit status of sluice up")


def the_list_of_devices_says_who_may_compute_together():
    if not EMULATED:
        return
    for count, line in (("1", False), ("2", True)):
        done = subprocess.run([BIN / "worker-emul", "--list-devices"], capture_output=True,
                              text=True, timeout=60, check=True,
                              env={**os.environ, "EMUL_DEVICES": count})
        check_equal("together --device cuda:0,cuda:1:" in done.stdout, line, done.stdout)


def a_team_is_told_of_and_a_bad_one_refused():
    with Team(psservers=1, workers=0) as c:
        c.start("w-0", extra=["--device", "ref,ref"])
        wait_for("its devices to be told", lambda: "2 devices, ref" in str(c.json("status")))
    for devices, word in (("ref,cpu", "do not compute together"), ("ref,auto", "auto"),
                          ("cuda:1,cuda:1", "named twice"), ("cpu,", "commas"),
                          (",".join(["ref"] * 17), "at most 16")):
        done = subprocess.run([BIN / "worker", "--device", devices],
                              capture_output=True, text=True, timeout=60, check=False)
        check_equal(done.returncode, 2, f"exit status with {devices}")
        check(word in done.stderr, f"{devices}: {done.stderr}")


if __name__ == "__main__":
    main([devices_train_as_one_does_micro_batches, devices_train_in_every_mode,
          moving_statistics_are_the_mean_of_the_parts,
          a_team_loses_a_device_and_is_back, one_command_starts_a_worker_for_several_gpus,
          the_list_of_devices_says_who_may_compute_together,
          a_team_is_told_of_and_a_bad_one_refused])
