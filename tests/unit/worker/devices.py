#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which device a worker finds, and what it says where it finds none.

Drivers and modules are fakes beside a worker that is linked into a folder of
its own, so this says the same on hosts with and without a GPU.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

WORKER, FAKES = (pathlib.Path(word).resolve() for word in sys.argv[1:3])


class Host:
    """A prefix with a worker, one driver and one module (or none)."""

    def __init__(self, folder, driver, module=None):
        self.worker = folder / "bin" / "worker"
        self.worker.parent.mkdir()
        shutil.copy(WORKER, self.worker)
        if module:
            kernels = folder / "lib" / "sluice" / "kernels"
            kernels.mkdir(parents=True)
            shutil.copy(FAKES / f"sluice-kernels-{module}.so",
                        kernels / "sluice-kernels-cuda.so")
        self.env = {**os.environ, "LD_LIBRARY_PATH": str(FAKES / driver)}

    def run(self, *words):
        return subprocess.run([self.worker, *words], env=self.env, text=True,
                              capture_output=True, timeout=30)

    def gpu(self):
        """What --list-devices=json says of cuda, and text says as well."""
        done = self.run("--list-devices=json")
        assert done.returncode == 0, done
        devices = {d["device"].split(":")[0]: d for d in json.loads(done.stdout)}
        assert devices["cpu"]["usable"] and devices["ref"]["usable"], devices
        gpu = devices["cuda"]
        text = self.run("--list-devices").stdout.splitlines()
        assert any(line.startswith("cuda") and gpu["why"] in line
                   for line in text), text
        assert not gpu["usable"]
        return gpu["why"]

    def log_until_started(self, device):
        """The log of a daemon up to its start; it is then told to end."""
        daemon = subprocess.Popen(
            [self.worker, "--device", device, "--log-format", "json",
             "--coordinator", f"unix:{self.worker.parent}/nobody.sock"],
            env=self.env, text=True, stderr=subprocess.PIPE)
        lines = []
        for line in daemon.stderr:
            lines.append(json.loads(line))
            if lines[-1]["msg"] == "started":
                daemon.terminate()
                break
        daemon.communicate(timeout=30)
        return daemon.returncode, lines


def check(folder):
    number = 0

    def host(driver, module=None):
        nonlocal number
        number += 1
        place = folder / str(number)
        place.mkdir()
        return Host(place, driver, module)

    # What is found, and why not.
    assert host("none").gpu() == "NVIDIA's driver sees no device"
    assert "the fan is stuck (999)" in host("broken").gpu()
    assert "sluice-kernels-cuda.so is not installed" in host("two").gpu()
    assert "was built for interface" in host("two", "old").gpu()
    assert "is not a Sluice module" in host("two", "empty").gpu()
    full = host("two", "good")
    assert full.gpu() == "others have all of its memory"

    # auto goes on to the CPU, with one line; who insists is told, and exits.
    for gone, msg in ((host("none"), "no usable device for this backend; taking the next"),
                      (full, "device cannot be opened; taking the next backend")):
        code, lines = gone.log_until_started("auto")
        said = [line for line in lines if line["msg"] == msg]
        assert len(said) == 1 and said[0]["backend"] == "cuda", lines
        assert lines[-1]["msg"] == "started", lines
        assert "cpu" in lines[-1]["device"], lines
        code, lines = gone.log_until_started("cuda")
        assert code in (1, 2, 138) and lines[-1]["msg"] == "cannot go on", lines
    done = full.run("--device", "cuda:1", "--coordinator", "unix:/x")
    assert "this host has 1, counted from 0" in done.stderr, done
    assert done.returncode == 2, done
    done = full.run("--device", "gpu", "--coordinator", "unix:/x")
    assert "no compute device is called" in done.stderr, done
    assert done.returncode == 2, done


def main():
    with tempfile.TemporaryDirectory(prefix="sluice-devices-") as folder:
        check(pathlib.Path(folder))
    print("devices are found, or it is said why not")


if __name__ == "__main__":
    main()
