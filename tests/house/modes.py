#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which mode a job has is the business of that mode's file.

A mode of training is one row (`struct mode` in coordinator/core/mode.h) in one
file of coordinator/core/modes; the other files of the coordinator ask the row.
So no other file there names a mode, or asks the spec for it, but as ALLOWED
says and why. Each mode of the spec has a row, and each row a mode. Prints how
often the facts of rows are asked. Exits 1 where it is otherwise; run by ctest.
"""
import collections
import re
import sys

from tracked import ROOT, tracked

ROWS = "coordinator/core/modes/"
SPEC = "proto/spec_train.c"

# What asks for a mode: its name, its row, a predicate of the spec, or a number
# of the spec that only one mode has.
ASKS = re.compile(
    r'"(?:async|sync|allreduce|hybrid|local)"'
    r"|\bmode_(?:async|sync|allreduce|hybrid|local)\b(?!\.h)"
    r"|\btrain->mode\b|\bmode->name\b|(?:->|\.)mode *[!=]="
    r"|\bspec_(?:allreduce|hybrid|local|inner|contributions|open|open_contributions"
    r"|ring_scales|group|backup)\("
    r"|\bevidence(?:\.|->)round *[!=<>]=?")

# (file, what it asks): reason.
ALLOWED = {
    ("coordinator/core/mode.c", "train->mode"): "finds the row",
    ("coordinator/core/mode.c", "spec_open("): "finds the row",
    ("coordinator/core/job.c", "spec_open("): "an older psserver knows no open rounds",
    ("coordinator/core/leases/reports.c", "spec_backup("):
        "of two holders of a slot only one's numbers are counted",
}

FACT = re.compile(r"mode->(on_workers|by_round|changes)\b")
COMMENT = re.compile(r"//[^\n]*")


def main():
    wrong, facts, rows, asked = [], collections.Counter(), set(), set()
    for name in tracked("coordinator/*.c", "coordinator/*.h"):
        text = COMMENT.sub("", (ROOT / name).read_text(encoding="utf-8"))
        if name.startswith(ROWS):
            rows |= set(re.findall(r'\.name = "(\w+)"', text))
            continue
        asks = {(name, found) for found in ASKS.findall(text)}
        wrong += [f"{name} asks for the mode: {found}"
                  for name, found in sorted(asks - set(ALLOWED))]
        asked |= asks
        facts.update(FACT.findall(text))
    wrong += [f"modes.py: {name} does not ask {found}: it needs no line"
              for name, found in sorted(set(ALLOWED) - asked)]
    spec = (ROOT / SPEC).read_text(encoding="utf-8")
    modes = set(re.findall(r'"(\w+)"', re.search(
        r"modes\[\] = \{(.*?)\}", spec, re.S)[1]))
    wrong += [f"mode {name} has a row and no word in {SPEC}, or the reverse"
              for name in sorted(rows ^ modes)]
    print("\n".join(wrong) if wrong else
          f"{len(rows)} modes, each in a file of its own; facts asked: " +
          ", ".join(f"{fact} {count}" for fact, count in sorted(facts.items())))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
