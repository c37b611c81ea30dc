# SPDX-License-Identifier: Apache-2.0
"""Runs a peer with the interpreter that bench/setup made, for bench/rows."""
import json
import os
import pathlib
import signal
import subprocess

from bed import check
from table import once

HERE = pathlib.Path(__file__).resolve().parent
SETUP = HERE.parent / "setup"


@once
def interpreter(_):
    """Its path; Failed if the peers are not there."""
    there = subprocess.run([SETUP, "--check"], check=False, capture_output=True, text=True)
    check(there.returncode == 0, "the peers are not installed: run bench/setup")
    return subprocess.run([SETUP, "--python"], check=True, capture_output=True,
                          text=True).stdout.strip()


@once
def diloco(_):
    """The interpreter of the peers of mode local, which this installs."""
    made = subprocess.run([SETUP, "--diloco"], check=False, capture_output=True, text=True)
    check(made.returncode == 0, "bench/setup --diloco failed", made.stderr[-2000:])
    return made.stdout.strip()


def peer(bench, script, limit_s=300, find=interpreter, **options):
    """The figure that peers/SCRIPT prints; it runs with its best settings,
    which are its defaults (peers.md). `find` gives the interpreter."""
    line = [find(bench), str(HERE / script)]
    if bench.quick:  # what a peer compiles is not counted in any case
        options = {"windows": 1, "warmup": 2.0, **options}
    for name, value in options.items():
        line += ["--" + name, str(value)]
    # A group of its own: what it started ends with it.
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True,
                               stderr=subprocess.PIPE, start_new_session=True,
                               env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    try:
        out, err = process.communicate(timeout=limit_s)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    check(process.returncode == 0, f"{script}: exit {process.returncode}", err[-2000:])
    return json.loads(out.splitlines()[-1])
