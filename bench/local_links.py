#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bytes of a sample in mode local, and the share of its time that a worker computes
while its psservers are behind a link, by hand.

    bench/local_links.py --links 1gbit,100mbit,20mbit --steps 10,30,100,300

One worker of the net of bench/nets/deep-mnist.yaml behind a link of that rate each
way (bench/link.py: needs root), the coordinator and two psservers on the far side,
mutual TLS; contributions: 1, in `--code` both ways. Each line is JSON: bytes of a
sample up and down, as the status tells them; milliseconds of a step's computing and of
a contribution's waiting, as the worker's phases tell them, over --rounds contributions;
and `share`: computing divided by all phases. Binaries: SLUICE_BIN.
"""
import argparse
import json
import subprocess
import sys

from bed import check, wait_for
from link import Link
from rows.net import NET, FarBed
from scrape import parse, value

OPS = "127.0.0.1:7079"
FETCH = f"import urllib.request as u; print(u.urlopen('http://{OPS}/metrics').read().decode())"
PHASES = ("input", "pull", "compute", "push")


class SeenBed(FarBed):
    """A worker whose phases can be read, at its end of the link."""

    def command(self, name):
        return super().command(name) + (["--ops-bind", OPS] if name[0] == "w" else [])

    def phases(self):
        """Seconds that the worker has spent, by phase."""
        done = subprocess.run([*self.link.inside(self.link.near), sys.executable, "-c", FETCH],
                              capture_output=True, text=True, timeout=60, check=False)
        check(done.returncode == 0, "no metrics of the worker", done.stderr)
        found = parse(done.stdout.strip())
        return {phase: value(found, "sluice_step_seconds_sum", phase=phase) for phase in PHASES}


def measure(options, rate, steps):
    """The figures of one link and one number of steps."""
    sets = ["train.mode=local", "train.contributions=1", f"train.inner.steps={steps}",
            f"train.inner.up={options.code}", f"train.inner.down={options.code}",
            "train.epochs=10000", f"train.batch={options.batch}"]
    with Link(rate) as link, SeenBed(link, (0, 1)) as c:
        job = c.run("submit", NET, "--no-wait",
                    *(w for s in sets for w in ("--set", s))).stdout.strip()

        def contributions():
            return c.steps(job)
        wait_for("the first contributions", lambda: contributions() >= 2, 600)
        first, before = contributions(), c.phases()
        wait_for("more", lambda: contributions() >= first + options.rounds, 1200)
        last, after = contributions(), c.phases()
        local = c.status(job)["local"]
    took = {phase: after[phase] - before[phase] for phase in PHASES}
    return {"link": rate, "steps": steps, "contributions": last - first,
            "up": round(local["pushed_bytes"], 1), "down": round(local["pulled_bytes"], 1),
            "step_ms": round(1e3 * took["compute"] / (last - first) / steps, 2),
            "wait_ms": round(1e3 * (took["pull"] + took["push"]) / (last - first), 1),
            "share": round(took["compute"] / sum(took.values()), 3)}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", default="1gbit,100mbit,20mbit")
    parser.add_argument("--steps", default="10,30,100,300")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--code", default="e3m0")
    options = parser.parse_args()
    for rate in options.links.split(","):
        for steps in map(int, options.steps.split(",")):
            print(json.dumps(measure(options, rate, steps)), flush=True)


if __name__ == "__main__":
    main()
