#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of kernels/cuda/README.md are what bench.gpu_table prints: the ops
that a step has, what they move and compute, and the engines that cuDNN takes."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
PRECISIONS = ("tf32", "bf16")


def main():
    program = sys.argv[1]
    readme = (ROOT / "kernels" / "cuda" / "README.md").read_text().splitlines()
    wrong = []
    for precision in PRECISIONS:
        head, *rows = subprocess.run(
            [program, "--spec", ROOT / "examples" / "imagenette.yaml", "--set",
             f"train.precision={precision}"],
            check=True, capture_output=True, text=True).stdout.splitlines()
        if not any(f"cuDNN {head.split()[-1]}" in line for line in readme):
            print(f"skipped: the tables are of another version than {head}")
            return 77
        # The sum says whether ops are missing.
        assert rows[-1].startswith("| **sum** |"), rows[-1]
        wrong += [row for row in [head, *rows] if row not in readme]
    if wrong:
        print("kernels/cuda/README.md has not these lines, as "
              "bench.gpu_table prints them:")
        print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
