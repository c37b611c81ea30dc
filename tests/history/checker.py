#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks a history against the invariants of the project.

    checker.py FOLDER [STATUS.json ...]

FOLDER holds what daemons of a build with SLUICE_TESTING wrote ($SLUICE_HISTORY);
STATUS is `sluice status JOB -o json` of the end. Prints each violation with the
events that show it; exit status 1 if there is any. README.md says which
invariant is checked by what.
"""
import gc
import hashlib
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from coord_rules import ENDED, CoordRules  # noqa: E402
from events import Geometry, Report, digest_of, read  # noqa: E402
from process_rules import ProcessRules  # noqa: E402
from replay import has_payloads, replay  # noqa: E402
from ring_rules import RingRules  # noqa: E402
from shard_rules import ShardRules  # noqa: E402

FILES_SPARE = 4  # snapshots beside those that cuts name: written, or about to go


class Checker:
    def __init__(self, folder):
        self.report = Report()
        self.shards = ShardRules(self.report)
        self.coord = CoordRules(self.report, self.shards)
        self.rings = RingRules(self.report, self.shards, self.coord)
        self.processes = ProcessRules(self.report)
        self.events = read(folder)
        # Ranks begin before the coordinator has written what it began.
        self.shards.geometry = {e["uid"]: Geometry(e) for e in self.events
                                if e.kind == "geometry"}
        for e in self.events:
            for rules in (self.shards, self.rings, self.coord, self.processes):
                rules.hear(e)

    # ---- the final state

    def job_of(self, status):
        """The job of a status, found by its number."""
        for job in self.coord.jobs.values():
            known = job.accepted or job.ended
            if known and f"j-{known['job']}" == status["id"]:
                return job
        return None

    def check_status(self, status, must_finish):
        job = self.job_of(status)
        if job is None:
            self.report.add("honest", f"{status['id']} is in no history")
            return
        if status["state"] in ENDED and job.state != status["state"]:
            self.report.add("honest", f"{status['id']} says {status['state']}, the "
                            f"history {job.state}")
        if status["state"] == "finished":
            self.check_finished(job, status)
        elif must_finish:
            self.stuck(job, status)

    def stuck(self, job, status):
        lacks = []
        for number in range(job.geometry.shards if job.geometry else 0):
            memory = self.shards.shard({"uid": job.uid, "shard": number}).of.get(
                job.newest.get(number))
            keys = memory.keys if memory else {}
            missing = [c for c in range(job.geometry.closures) if any(
                (c, s) not in keys for s in range(job.geometry.steps_of(c)))]
            if missing:
                lacks.append(f"shard {number} lacks closures {missing[:5]}")
        last = [e for e in self.events if e.kind in ("lease", "lease_end")
                and e["uid"] == job.uid][-3:]
        self.report.add("live", f"{status['id']} is {status['state']} for ever: "
                        f"{status.get('reason', '')}; {'; '.join(lacks)}", *last)

    def check_finished(self, job, status):
        g = job.geometry
        if g is None:
            self.report.add("honest", f"{status['id']} finished, but never ran")
            return
        wanted = {e: digest_of(e, g.samples) for e in range(g.epochs)}
        if int(status["steps_counted"]) != g.steps:
            self.report.add("honest", f"steps_counted says {status['steps_counted']}, "
                            f"there are {g.steps}")
        for number in range(g.parts, g.shards):
            self.cover(g, number, self.at_end(job, number), wanted)
        if job.generation:
            self.rings.cover(job, wanted)
        for shard in status.get("shards", []):
            self.compare(g, shard, wanted)

    def at_end(self, job, number):
        """What a shard has counted: in its newest memory, or beside a ring in the last cut."""
        shard = self.shards.shard({"uid": job.uid, "shard": number})
        named = job.last_cut.shards.get(number) if job.generation and job.last_cut else None
        if named:
            return shard.frozen.get((named["incarnation"], named["sequence"]), {})
        memory = shard.of.get(job.newest.get(number))
        return memory.keys if memory else {}

    def cover(self, g, number, keys, wanted):
        """Each sample of each epoch once, on this shard."""
        samples, digests = [0] * g.epochs, [0] * g.epochs
        for (closure, _), (n, digest) in keys.items():
            samples[g.epoch(closure)] += n
            digests[g.epoch(closure)] += digest
        for epoch in range(g.epochs):
            if samples[epoch] != g.samples or \
                    digests[epoch] & ((1 << 64) - 1) != wanted[epoch]:
                self.report.add("cover", f"shard {number} counted {samples[epoch]} "
                                f"samples of {g.samples} in epoch {epoch}, or not "
                                "each of them once")

    def compare(self, g, shard, wanted):
        counts, who = shard["counts"], f"shard {shard['shard']}"
        if int(counts["applied"]) + int(counts["skipped"]) != g.steps or \
                int(counts["counted"]) != g.steps:
            self.report.add("honest", f"{who} is said to have applied "
                            f"{counts['applied']}, skipped {counts['skipped']}, "
                            f"counted {counts['counted']} of {g.steps} steps")
        for one in counts.get("epochs", []):
            if int(one["digest"], 16) != wanted[int(one["epoch"])]:
                self.report.add("honest", f"{who} says a wrong digest of epoch "
                                f"{one['epoch']}")

    # ---- the files

    def check_files(self):
        for job in self.coord.jobs.values():
            published = [c for c in job.cuts.values() if c.state == "published"]
            for cut in published:
                self.check_cut(cut)
            for number in range(job.geometry.shards if job.geometry else 0):
                self.check_litter(job, number)

    def check_cut(self, cut):
        path = pathlib.Path(cut.intent["path"])
        try:
            manifest = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            self.report.add("cut", f"the manifest of a published cut: {error}",
                            cut.intent)
            return
        for number, shard in enumerate(manifest["shards"]):
            file = pathlib.Path(shard["folder"]) / shard["file"]
            named = cut.shards.get(number)
            tag = re.search(r"\.i(\d+)\.n(\d+)\.", file.name)
            if named is None or tag is None or tag.groups() != (
                    str(named["incarnation"]), str(named["sequence"])):
                self.report.add("cut", f"{path} names {file}, the journal another",
                                *([named] if named else []))
                continue
            try:
                digest = hashlib.sha256(file.read_bytes()).hexdigest()
            except OSError as error:
                self.report.add("cut", f"a published cut names a file: {error}", named)
                continue
            if digest != shard["sha256"]:
                self.report.add("cut", f"{file} is not what its manifest says", named)

    def check_litter(self, job, number):
        """Snapshots that nothing names go away."""
        key = job.uid, number
        paths = [pathlib.Path(p) for p, (k, _) in self.shards.paths.items()
                 if k == key]
        there = [p for p in paths if p.exists()]
        named = self.shards.named.get(key, ())
        if len(there) > len(named) + FILES_SPARE:
            self.report.add("bounded", f"shard {number} has {len(there)} snapshots, "
                            f"cuts name {len(named)}")


def check(folder, statuses=(), exits=None, must_finish=False, files=True,
          report=False):
    """Violations as texts (or the report). `exits`: how processes that nobody
    ended have ended, by pid. must_finish: a job that has not is stuck."""
    gc.disable()  # events are many and in no cycle: looking costs as much as reading
    try:
        checker = Checker(folder)
        for status in statuses:
            checker.check_status(status, must_finish)
        if files:
            checker.check_files()
        if files and has_payloads(folder):
            replay(folder, checker.report, events=checker.events)
        checker.processes.end(exits or {})
    finally:
        gc.enable()
    return checker.report if report else checker.report.lines()


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    statuses = [json.loads(pathlib.Path(p).read_text()) for p in sys.argv[2:]]
    found = check(sys.argv[1], statuses)
    print("\n".join(found) if found else "every invariant holds")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
