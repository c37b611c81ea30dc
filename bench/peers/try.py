#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the peers with the settings that were considered, and prints a table of
what each gives: which is best is not a matter of opinion (peers.md).

    bench/peers/try.py [--seconds S] [NAME...]     tf_ps.py torch_ddp.py ...
"""
import argparse
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent

# The first of each is the default.
TRIED = [
    ("tf_ps.py", "--steps 1"),
    ("tf_ps.py", "--steps 1 --optimizer legacy"),
    ("tf_ps.py", "--steps 1 --optimizer keras"),
    ("tf_ps.py", "--steps 1 --intra 0"),
    ("tf_ps.py", "--steps 1 --inter 2"),
    ("tf_ps.py", "--steps 10"),
    ("tf_ps.py", "--steps 10 --loop range"),
    ("tf_ps.py", "--steps 10 --optimizer legacy"),
    ("tf_ps.py", "--steps 10 --optimizer keras"),
    ("tf_ps.py", "--steps 10 --intra 0"),
    ("tf_ps.py", "--steps 10 --inter 2"),
    ("tf_mwms.py", ""),
    ("tf_mwms.py", "--steps 1"),
    ("tf_mwms.py", "--optimizer legacy"),
    ("tf_mwms.py", "--ring auto"),
    ("tf_mwms.py", "--intra 0"),
    ("torch_ddp.py", ""),
    ("torch_ddp.py", "--layout channels_last"),
    ("torch_ddp.py", "--adam foreach"),
    ("torch_ddp.py", "--pin 0"),
    ("torch_ddp.py", "--compile 0"),
    ("torch_ddp.py", "--compile 0 --layout channels_last"),
    ("tf_push.py", ""),
    ("tf_push.py", "--outstanding 1"),
    ("tf_push.py", "--outstanding 4 --calls 2"),
    ("tf_push.py", "--inter 2 --intra 1"),
    ("tf_closures.py", ""),
    ("tf_closures.py", "--pin 0"),
    ("tf_closures.py", "--ahead 2000"),
    ("tf_closures.py", "--inter 2 --intra 1"),
    ("tf_closures.py", "--intra 1"),
]


def tried(python, script, options, seconds):
    """Median and processor time per unit, or why there is none."""
    line = [python, str(HERE / script), *options.split(), "--seconds", seconds]
    try:
        done = subprocess.run(line, capture_output=True, text=True, check=False,
                              timeout=240)
        found = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return "no end after 240 s", ""
    except (IndexError, ValueError):
        return (done.stderr.splitlines() or ["no word"])[-1][:60], ""
    return f"{found['per_s']:,.0f} {found['unit']}", f"{found['cpu_us']:g}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seconds", default="3")
    said = parser.parse_args()
    python = subprocess.run([HERE.parent / "setup", "--python"], check=True,
                            capture_output=True, text=True).stdout.strip()
    print("| peer | settings | median | processor us each |\n| --- | --- | --- | --- |")
    for script, options in TRIED:
        if said.names and script not in said.names:
            continue
        median, cpu = tried(python, script, options, said.seconds)
        print(f"| `{script}` | {options or 'as they are'} | {median} | {cpu} |",
              flush=True)


if __name__ == "__main__":
    sys.exit(main())
