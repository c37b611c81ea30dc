#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every row of bench/run is explained in bench/README.md, and no other is."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    listed = subprocess.run([sys.executable, ROOT / "bench" / "run", "--list"],
                            capture_output=True, text=True, check=True).stdout
    rows = {line.split()[0] for line in listed.splitlines()}
    text = (ROOT / "bench" / "README.md").read_text()
    part = text[text.index("## Rows"):]
    part = part[:part.index("\n## ", 1)]
    told = {name for line in part.splitlines() if line.startswith("| `")
            for name in re.findall(r"`([^`]+)`", line.split("|")[1])}
    for name in sorted(rows - told):
        print(f"bench/README.md does not explain the row {name}")
    for name in sorted(told - rows):
        print(f"bench/README.md explains {name}, which is no row of bench/run")
    return 1 if rows != told or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
