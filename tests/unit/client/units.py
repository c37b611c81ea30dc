#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The systemd units refuse system calls with an error, never by killing, and
not those that our daemons make of their own accord."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
# common/run/background.c, prompt.c; pinned threads of core, of oneDNN and of CUDA.
OURS = {"setpriority", "sched_setaffinity", "sched_setattr"}


def complaints(unit):
    lines = [line.partition("=") for line in unit.read_text().splitlines()]
    filters = [value for key, _, value in lines if key == "SystemCallFilter"]
    errors = [value for key, _, value in lines if key == "SystemCallErrorNumber"]
    last = [i for i, value in enumerate(filters) if value.startswith("~")][-1]
    allowed = {word for value in filters[last + 1:] for word in value.split()}
    if errors != ["EPERM"]:
        yield "SystemCallErrorNumber=EPERM is missing: a refused call would kill"
    for call in sorted(OURS - allowed):
        yield f"{call} is refused (@resources) and not allowed again"


units = sorted((ROOT / "deploy").glob("*.service"))
bad = [f"{unit.name}: {text}" for unit in units for text in complaints(unit)]
print("\n".join(bad) or f"{len(units)} units")
sys.exit(1 if bad or len(units) != 3 else 0)
