#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traces of spot machines: what is read, what is drawn, and a replay of some
seconds. `tests/spot` by hand replays for minutes."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import spot_trace
from cluster import ROOT, Failed, check, check_equal, main


def lines(text):
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        file.write(text)
        file.flush()
        return spot_trace.read(file.name)


def refused(text, want):
    try:
        lines(text)
    except Failed as error:
        check(want in str(error), f"no '{want}' in: {error}")
    else:
        raise Failed(f"taken: {text!r}")


def every_format_is_read():
    check_equal(lines("60000,add,a\n60000,add,b\n180000,remove,a\n"),
                [(0, "add", "a"), (0, "add", "b"), (120, "remove", "a")], "comings and goings")
    for text in ("# drawn\nseconds,count\n0,2\n60,1\n90,2\n",
                 "2021-12-10, 13:00:00, 2\n2021-12-10, 13:01:00, 1\n2021-12-10, 13:01:30, 2\n",
                 # a look that overlaps the one before
                 "2021-12-10, 13:00:00, 2\n2021-12-10, 13:01:00, 2\n2021-12-10, 13:00:30, 1\n"
                 "2021-12-10, 13:01:30, 2\n"):
        events = lines(text)
        check_equal([(when, what) for when, what, _ in events],
                    [(0, "add"), (0, "add"), (60, "remove"), (90, "add")], text)
        check(events[2][2] in ("m0", "m1") and events[3][2] == "m2", str(events))


def what_is_no_trace_is_refused_in_words():
    refused("", "no line of a trace")
    refused("0,2\n60,add,a\n", "of two formats")
    refused("0,add,a\nx,y,z\n", ":2: x,y,z: neither milliseconds,add,NAME nor")
    refused("0,add,a\n0,add,a\n", "a is to add and is there")
    refused("0,remove,a\n", "a is to remove and is not there")


def a_drawn_trace_is_like_the_published():
    """Goings and lengths are theirs; the rest, of any seed, is near."""
    for kind, nodes, rate in (("g4dn", 12.8, 0.55), ("p3", 24.0, 0.61)):
        want = spot_trace.KINDS[kind]
        for seed in range(20):
            events = spot_trace.draw(kind, seed)
            check_equal(events, spot_trace.in_order(events, kind), kind)
            now = spot_trace.figures(events, want["hours"] * 3600)
            check_equal(now["removes"], sum(s * n for s, n in want["groups"].items()), kind)
            check(now["most"] <= want["most"] and abs(now["mean"] / nodes - 1) < 0.15 and
                  abs(now["removes_per_hour"] / rate - 1) < 0.2, f"{kind} {seed}", now)
            few = spot_trace.scaled(events, 4)
            check(set(few) <= set(events) and spot_trace.most_alive(few) == 4, kind)


def a_part_begins_with_who_is_there():
    events = [(0, "add", "a"), (0, "add", "b"), (1000, "remove", "a"), (1050, "add", "c"),
              (5000, "remove", "b")]
    check_equal(spot_trace.busiest(events, 100),
                [(0, "add", "a"), (0, "add", "b"), (10, "remove", "a"), (60, "add", "c")],
                "the part")


def a_replay_loses_nothing_and_says_what_it_kept():
    """Two machines: one hears that it goes, 13 s before, and another one comes. A busy
    machine needs some of them for what an idle one does in a tenth of a second."""
    with tempfile.TemporaryDirectory() as folder:
        trace, report = (pathlib.Path(folder) / n for n in ("trace.csv", "report.json"))
        trace.write_text("0,add,a\n0,add,b\n500000,remove,b\n520000,add,c\n")
        done = subprocess.run(
            [sys.executable, str(ROOT / "tests/spot"), "--trace", trace, "--factor", "30",
             "--minutes", "10", "--baseline", "1", "--notice", "400", "--link", "5", "--peer",
             "--json", report],
            env={**os.environ, "SPOT_VENV": "1"}, capture_output=True, text=True, check=False)
        check_equal(done.returncode, 0, f"exit status\n{done.stdout}\n{done.stderr}")
        check("nothing lost, nothing doubled" in done.stdout, done.stdout)
        told = json.loads(report.read_text())
    ours, peer = told["ours"], told["peer"]
    check_equal([ours[k] for k in ("drained", "killed", "cut_short", "closures_retried",
                                   "workers_lost", "wrong")],
                [1, 0, 0, 0, 0, ""], "with a notice")
    check(ours["steps_kept"] > 0 and ours["machine_seconds"] > 0, str(ours))
    check(peer["steps_kept"] < peer["steps_computed"], f"the peer lost nothing: {peer}")


if __name__ == "__main__":
    main([every_format_is_read, what_is_no_trace_is_refused_in_words,
          a_drawn_trace_is_like_the_published, a_part_begins_with_who_is_there,
          a_replay_loses_nothing_and_says_what_it_kept])
