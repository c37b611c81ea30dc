#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`sluice trace`: what every process did for a job, on one clock."""
import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from cluster import LONG_LEASE, Cluster, check, check_counts, check_equal, main, mlp_job, wait_for

FAKETIME = pathlib.Path(f"/usr/lib/{os.uname().machine}-linux-gnu/faketime/libfaketimeMT.so.1")
NAMES = {"coordinator": {"lease", "complete"},
         "worker": {"lease", "input", "wait", "forward", "backward", "push", "pull", "read"},
         "psserver": {"apply"}}


def trace(c, job, *more, seconds=1):
    path = c.dir / "trace.json"
    said = c.run("trace", job, "--seconds", seconds, "-o", path, *more).stderr
    return json.loads(path.read_text()), said


def trace_with(c, job, names):
    """check_trace() of the first of some traces, of a second each, in which slices of
    every role have these names: a busy machine may let a process rest for a second."""
    for _ in range(20):
        told, said = trace(c, job)
        found, arrows = check_trace(told, job)
        lacks = {role: sorted(some - {s["name"] for s in found[role]})
                 for role, some in names.items() if some - {s["name"] for s in found[role]}}
        workers = {s["pid"] for s in found["worker"] if s["name"] in ("push", "sum")}
        if not lacks and len(workers) == 2 and "nothing from" not in said:
            return told, found, arrows
    check(False, "no trace has all of it", lacks, workers, said)


def check_lanes(slices):
    """Slices of one lane lie beside or within each other."""
    lanes = collections.defaultdict(list)
    for s in slices:
        lanes[s["pid"], s["tid"]].append((s["ts"], -s["dur"], s["name"]))
    for lane, spans in lanes.items():
        open_until = []
        for start, less, name in sorted(spans):
            end = start - less
            while open_until and open_until[-1] <= start:
                open_until.pop()
            check(not open_until or end <= open_until[-1], f"lane {lane}: {name} at {start} does not nest")
            open_until.append(end)


def check_flows(events, slices):
    """Each arrow has both ends, in slices that are there, of one step and shard."""
    at = {(s["pid"], s["tid"], s["ts"], s["name"]): s for s in slices}
    ends = collections.defaultdict(dict)
    for e in events:
        if e["ph"] in "sf":
            check(e["ph"] not in ends[e["id"]], f"arrow {e['id']} has two ends of a kind")
            ends[e["id"]][e["ph"]] = e
    for number, pair in ends.items():
        check_equal(sorted(pair), ["f", "s"], f"ends of arrow {number}")
        slice_of = [at.get((pair[p]["pid"], pair[p]["tid"], pair[p]["ts"], name))
                    for p, name in (("s", "push"), ("f", "apply"))]
        check(None not in slice_of, f"arrow {number} ends in no slice", pair)
        check_equal(slice_of[0]["args"], slice_of[1]["args"], f"what arrow {number} is of")
    return len(ends)


def check_trace(told, job):
    """The rules that a viewer wants; gives slices by role."""
    events, other = told["traceEvents"], told["otherData"]
    check_equal((other["job"], other["clock"], other["cut"]), (job, "coordinator", 0), "what it is of")
    named = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    threads = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    check_equal(named, {p["pid"]: p["name"] for p in other["processes"]}, "names of processes")
    slices = [e for e in events if e["ph"] == "X"]
    check_equal({(s["pid"], s["tid"]) for s in slices}, threads, "names of lanes")
    check_lanes(slices)
    arrows = check_flows(events, slices)
    roles = {p["pid"]: p["role"] for p in other["processes"]}
    found = collections.defaultdict(list)
    for s in slices:
        found[roles[s["pid"]]].append(s)
    return found, arrows


def measured(environment):
    """How far a process with this environment is behind us: us, and how exactly."""
    def now():
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC) / 1000
    before = now()
    said = subprocess.run([sys.executable, "-c", "import time; print(time.clock_gettime_ns(time.CLOCK_MONOTONIC))"],
                          env={**os.environ, **environment}, capture_output=True, text=True, check=True).stdout
    after = now()
    return (before + after) / 2 - int(said) / 1000, (after - before) / 2


def a_trace_of_a_real_job_keeps_the_rules_of_its_viewers():
    """One of two workers has a clock that is five hours off, where that can be
    had: its pushes meet their applies all the same."""
    with Cluster(psservers=2, workers=1) as c:
        late = {"LD_PRELOAD": str(FAKETIME), "FAKETIME": "+5h"} if FAKETIME.exists() else {}
        c.start("w-late", environment=late)
        wait_for("two workers", lambda: len([m for m in c.cluster_status()["members"]
                                             if m["role"] == "worker" and m["state"] == "ready"]) == 2)
        job = c.submit(mlp_job("traced", epochs=2000))
        c.wait_steps(job, 50)
        told, found, arrows = trace_with(c, job, {
            role: names - {"pull", "read"} for role, names in NAMES.items()})
        for role, names in NAMES.items():
            seen = {s["name"] for s in found[role]}
            check(seen <= names | {"ask", "answer", "evaluate"}, f"{role}: {sorted(seen)}")
        members = {p["name"]: p for p in told["otherData"]["processes"]}
        check_equal(sorted(members), ["coordinator", "ps-0", "ps-1", "w-0", "w-late"], "processes")
        for name, p in members.items():
            shift, exact = measured(late if name == "w-late" else {})
            check(abs(p["offset_us"] - shift) <= exact + p["round_trip_us"] / 2 + 1000,
                  f"{name}: an offset of {p['offset_us']} us, not {shift}; round trip {p['round_trip_us']}")
        # On one clock: everything lies near the second that it took, not decades away.
        times = [s["ts"] for role in found for s in found[role]]
        check(-60e6 < min(times) and max(times) < 60e6, f"from {min(times)} to {max(times)} us")
        # Arrows are there for what began and ended inside.
        pushes = [s for s in found["worker"] if s["name"] == "push"]
        check(arrows >= 0.8 * len(pushes) > 0, f"{arrows} arrows of {len(pushes)} pushes")
        # Again, and of another one meanwhile: one at a time is.
        trace(c, job)
        c.run("trace", "j-99", want=3)
        c.run("stop", job)
        told = c.run("trace", job, want=6).stderr
        check("has ended" in told, "not said why", told)


def who_does_not_answer_is_named_and_not_waited_for():
    # Who is lost is not asked.
    with Cluster(psservers=1, workers=2, coordinator_args=LONG_LEASE) as c:
        job = c.submit(mlp_job("traced", epochs=2000))
        c.wait_steps(job, 20)
        c.processes["w-1"].send_signal(signal.SIGSTOP)
        told, said = trace(c, job)
        c.processes["w-1"].send_signal(signal.SIGCONT)
        found, _ = check_trace(told, job)
        missing = {p["name"]: p["missing"] for p in told["otherData"]["processes"] if "missing" in p}
        check_equal(list(missing), ["w-1"], "who is missing")
        check("nothing from w-1" in said, "it is not said", said)
        check(all(found[role] for role in NAMES), "the others are not there", {r: len(s) for r, s in found.items()})
        c.run("stop", job, "--now")


def ranks_of_a_ring_are_traced_too():
    with Cluster(psservers=0, workers=2) as c:
        for name in ("w-0", "w-1"):
            c.restart(name, extra=["--store", str(c.dir / "store")])
        job = c.submit(mlp_job("ring", epochs=2000, mode="allreduce"))
        c.wait_steps(job, 20)
        trace_with(c, job, {"worker": {"input", "forward", "backward", "sum", "apply"}})
        c.run("stop", job, "--now")


if __name__ == "__main__":
    main([a_trace_of_a_real_job_keeps_the_rules_of_its_viewers,
          who_does_not_answer_is_named_and_not_waited_for,
          ranks_of_a_ring_are_traced_too])
