# SPDX-License-Identifier: Apache-2.0
"""The table of proto/wire_rules.c, for programs: the bound of each number that
a daemon reads. The unit test of the schema tells it."""
import os
import pathlib
import subprocess
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Bound(NamedTuple):
    kind: str  # count, range, known (a function bounds it), opaque
    least: int
    most: int
    by: str    # file.c:function of one that is known, else "-"


def read():
    """{(message, field): bound of a number}, and the same of lists' counts."""
    program = pathlib.Path(os.environ.get("SLUICE_BIN", ROOT / "build/bin"),
                           "unit.proto.schema")
    told = subprocess.run([program], env={**os.environ, "SCHEMA_BOUNDS": "1"},
                          stdout=subprocess.PIPE, text=True, check=True).stdout
    numbers, counts = {}, {}
    for line in told.splitlines():
        if line.startswith("bound "):
            _, message, field, kind, least, most, by = line.split()
            (counts if kind == "count" else numbers)[message, field] = \
                Bound(kind, int(least), int(most), by)
    return numbers, counts
