#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`replay`: parameters are bit-identical to a serial replay of the recorded
order, and a reloaded shard equals the shard at that place of the log.

    replay.py FOLDER [EXPORT]

FOLDER is a history that was written with SLUICE_HISTORY_PAYLOADS=1. For each
memory of each shard its updates are applied again, in the order in which the
shard's lock let them pass, from the seed or from what the replay itself has at
the tag that was loaded. Every snapshot file that is still there must hold the
same values and optimizer slots, and the same rows of tables, and EXPORT (of `sluice export`, safetensors)
the values of the last published cut.

This file puts the events in order and writes the script; history-replay
(replay.c) does the arithmetic.
"""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
from events import Report, read  # noqa: E402

BIN = pathlib.Path(os.environ.get("SLUICE_BIN", "build-faults/bin")).resolve()


class Script:
    """What history-replay is to do, made of events in their order."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.lines = []
        self.files = {}     # pid: number of its payloads
        self.shards = {}    # (uid, shard): its number
        self.specs = {}     # (uid, shard): (pid, payload) in force
        self.memories = {}  # (pid, uid, shard): its newest memory's number
        self.loads = 0
        self.written = {}   # path: (shard's number, incarnation, sequence)
        self.cuts = {}      # (uid, cut): {shard: tag}
        self.published = {}  # uid: the tags of its last published cut
        self.missing = []   # counted, but its bytes were not kept

    def add(self, *words):
        self.lines.append(" ".join(map(str, words)))

    def file(self, pid, role):
        if pid not in self.files:
            self.files[pid] = len(self.files)
            self.add("payloads", self.files[pid],
                     self.folder / f"{role}-{pid}.payloads")
        return self.files[pid]

    def hear(self, e):
        handler = getattr(self, "on_" + e.kind, None)
        if handler:
            handler(e)

    # ---- shards and their memories

    def on_plan(self, e):
        key = e["uid"], e["shard"]
        number = self.shards.setdefault(key, len(self.shards))
        self.add("spec", number, self.file(e.pid, e.role), e["payload"], e["bytes"])

    def on_loaded(self, e):
        key = e["uid"], e["shard"]
        memory, self.loads = self.loads, self.loads + 1
        self.memories[e.pid, *key] = memory
        if (e["from_i"], e["from_n"]) == (0, 0):
            self.add("seed", memory, self.shards[key])
        else:
            self.add("start", memory, self.shards[key], e["from_i"], e["from_n"])

    def memory(self, e):
        return self.memories[e.pid, e["uid"], e["shard"]]

    def on_push(self, e):
        if e["result"] != "counted":
            return
        if e["skip"]:
            self.add("skip", self.memory(e), e["version"])
        elif e["payload"] < 0 or e.get("absent"):  # which pieces is not kept
            self.missing.append(e)
        else:
            self.add("push", self.memory(e), self.file(e.pid, e.role),
                     e["payload"], e["bytes"], e["version"], e["wire"],
                     e["based_on"], e["samples"], e["closure"], e["step"],
                     max(0, e["rows_payload"]), e["rows"])

    # ---- snapshots

    def on_frozen(self, e):
        self.add("freeze", self.memory(e), e["incarnation"], e["sequence"])

    def on_snapshot(self, e):
        self.written[e["path"]] = (self.shards[e["uid"], e["shard"]],
                                   e["incarnation"], e["sequence"])

    def on_fs(self, e):
        if e["op"] == "unlink":
            self.written.pop(e["path"], None)

    def on_cut_shard(self, e):
        cut = self.cuts.setdefault((e["uid"], e["cut"]), {})
        cut[e["shard"]] = e["incarnation"], e["sequence"]

    def on_cut_outcome(self, e):
        if e["state"] == "published":
            self.published[e["uid"]] = self.cuts[e["uid"], e["cut"]]

    # ---- what must be the same

    def compare(self, export):
        for path, (shard, incarnation, sequence) in self.written.items():
            self.add("file", shard, incarnation, sequence, path)
        if export is None:
            return
        if len(self.published) != 1:
            raise SystemExit(f"an export is of one job; the history has "
                             f"{len(self.published)} with a cut")
        for uid, tags in self.published.items():
            for shard, tag in tags.items():
                self.add("export", self.shards[uid, shard], *tag, export)


def has_payloads(folder):
    return any(pathlib.Path(folder).glob("*.payloads"))


def compute(script, export):
    script.compare(export)
    return subprocess.run([BIN / "history-replay"], input="\n".join(script.lines),
                          text=True, capture_output=True, check=False)


def replay(folder, report, export=None, events=None):
    """Adds what differs to a report; gives the tool's last line."""
    for _ in range(5):
        script = Script(folder)
        for e in read(folder) if events is None else events:
            script.hear(e)
        if script.missing:
            report.add("replay", "the bytes of a push were not kept",
                       *script.missing[:3])
            return "nothing replayed"
        done = compute(script, export)
        if done.returncode in (0, 1) or all(map(os.path.exists, script.written)):
            break
        events = None  # a daemon that still runs deletes files: read that it did
    said = done.stdout.splitlines()
    if done.returncode not in (0, 1):
        report.add("replay", f"the history cannot be replayed: {done.stderr.strip()}")
        return "nothing replayed"
    for line in said[:-1]:
        report.add("replay", line)
    return said[-1]


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    report = Report()
    print(replay(sys.argv[1], report, *sys.argv[2:]))
    print(*report.lines(), sep="\n")
    sys.exit(1 if report.violations else 0)


if __name__ == "__main__":
    main()
