#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A checker is worth what it catches: deliberate mistakes of tests/mutants must be
caught, in a run that is fine without them.

For each variant its scenario runs twice: sound, where everything must hold, and
with SLUICE_BREAK=<variant> in every daemon, where one of the invariants that
are named beside it must be found broken. The names come from the binary: a
variant without a scenario here, a unit test in RULES.md, or the simulation in
its file (tests/sim/mutants_test.py has those), fails.

    broken_test.py                all variants
    broken_test.py skip_dedupe    only these
    broken_test.py --part 1/2     those of every second scenario
"""
import contextlib
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[0] / "system")]
os.environ["SLUICE_HISTORY_CHECK"] = "1"
import checker  # noqa: E402
import conserve  # noqa: E402
import conserve_rows  # noqa: E402
import exact  # noqa: E402
from cluster import (PATIENCE, ROOT, Cluster, Failed, check, check_counts,  # noqa: E402
                     mlp_job, part_of, wait_for)
from events import read  # noqa: E402
from rules_test import Table, mistakes, of_simulation  # noqa: E402

# Longer than a restart takes beside four other tests on two cores: a lease of 2 s that
# ends, a snapshot that is loaded.
STILL_S = 10


class Bed(Cluster):
    """A cluster with a mistake, and with faults for the first start of some."""

    def __init__(self, mistake, **options):
        super().__init__(**options)
        self.mistake = mistake
        self.limit_s = 90
        self.seen, self.looked, self.still_s = None, 0.0, 0.0
        self.armed = {}
        self.payloads = False  # what is pushed is kept, for a replay

    def __enter__(self):
        return self  # the scenario starts it

    def start(self, name, **options):
        environment = dict(options.pop("environment", None) or {})
        if self.mistake:
            environment["SLUICE_BREAK"] = self.mistake
        if self.payloads:
            environment["SLUICE_HISTORY_PAYLOADS"] = "1"
        if name in self.armed:
            environment["SLUICE_FAULT"] = self.armed.pop(name)
        return super().start(name, environment=environment, **options)

    def begin(self, armed=None, workers=2, **train):
        """Starts all, submits a job; gives its id."""
        self.armed = dict(armed or {})
        self.counts["worker"] = workers
        self.start_all()
        every_s = train.pop("every_s", 0.3)
        spec = mlp_job("broken", **{"samples": 3200, "epochs": 3, "batch": 16,
                                    "steps_per_closure": 5, **train})
        spec["checkpoint"] = {"every_seconds": every_s, "keep": 1,
                              "every_epoch": every_s > 0}
        if self.payloads:
            spec["model"]["layers"][1]["units"] = 8  # small pushes
        return self.submit(spec)

    def status(self, job):
        """Gives up a job that a mistake has stopped: that is what we look for."""
        told, now = super().status(job), time.monotonic()
        seen = [told["state"], told["steps_counted"],
                *(s["incarnation"] for s in told["shards"])]
        # What passes between two waits does not count.
        self.still_s = self.still_s + min(now - self.looked, 1) if seen == self.seen else 0
        self.seen, self.looked = seen, now
        check(not self.mistake or self.still_s < STILL_S * PATIENCE,
              f"{job} has stood still for {STILL_S} s")
        return told

    def wait_steps(self, job, steps, limit_s=None):
        return super().wait_steps(job, steps, limit_s or self.limit_s)

    def pause_at(self, name):
        return f"pause:{self.dir}/{name}"

    def wait_paused(self, name):
        wait_for(f"{name} to be reached", (self.dir / f"{name}.here").exists, 30)

    def release(self, name):
        (self.dir / name).touch()

    def events(self, kind):
        return [e for e in read(self.history) if e.kind == kind]

    def wait_admitted(self, job, incarnation):
        wait_for(f"incarnation {incarnation} of every shard", lambda: all(
            int(s["incarnation"]) >= incarnation
            for s in self.status(job)["shards"]), self.limit_s)

    def end(self, job):
        check_counts(self.wait_state(job, limit_s=self.limit_s))


# ---- scenarios: each gives the id of its job

def plain(c):
    job = c.begin()
    c.end(job)


def psserver_restarts(c):
    # Pushes take 2 ms until then: on a busy machine the job was over before.
    job = c.begin({"ps-0": "api.ack=delay:2"}, epochs=12)
    wait_for("a cut", lambda: int(c.status(job)["steps_counted"]) > 100
             and c.json("checkpoints", job)["checkpoints"], 30)
    c.restart("ps-0")
    c.end(job)


def many_snapshots(c):
    job = c.begin(epochs=30)
    for _ in range(12):  # a busy machine makes a cut of few epochs only
        if c.run("checkpoint", job, want=None).returncode != 0:
            break  # the job is over: the machine is not busy
    c.end(job)


def psserver_restarts_and_is_replayed(c):
    c.payloads = True
    psserver_restarts(c)


def rows_are_replayed(c):
    """Some admitted by a coin, some with values of a seed."""
    c.payloads, c.program_file = True, conserve_rows.__file__
    c.counts["worker"] = 0
    c.start_all()
    spec = conserve_rows.rows_job(epochs=8)
    late, few = spec["model"]["tables"]
    late["admit"]["probability"], few["initializer"] = 0.5, "random_uniform"
    spec["checkpoint"] = {"every_seconds": 0.2, "keep": 1000}
    with conserve.Programs(c):
        job = c.submit(spec)
        wait_for("a cut", lambda: c.json("checkpoints", job)["checkpoints"], 30)
        c.restart("ps-0")
        c.end(job)


def answers_are_lost(c):
    c.end(c.begin({"ps-0": ",".join(f"api.ack=error@{n}" for n in (20, 50, 51))}))


def worker_dies(c):
    job = c.begin(epochs=10)
    c.wait_steps(job, 100)
    c.restart("w-0")
    c.end(job)


def coordinator_restarts(c):
    job = c.begin(epochs=6)
    c.wait_steps(job, 100)
    c.restart("coordinator")
    c.end(job)


def stopped_by_request(c):
    job = c.begin(epochs=100)
    c.wait_steps(job, 100)
    c.run("stop", job)


def reload_while_paused(c, point, hit):
    """While the only worker stands at a point, both shards forget what no
    snapshot holds and get new incarnations."""
    job = c.begin({"w-0": f"{point}={c.pause_at('go')}@{hit}"}, workers=1,
                  every_s=0)
    c.wait_paused("go")
    c.restart("ps-0")
    c.restart("ps-1")
    c.wait_admitted(job, 2)
    c.release("go")
    c.end(job)


def late_push_after_reload(c):
    """A push is on its way while both shards get new incarnations."""
    reload_while_paused(c, "task.push", 60)


def late_completion_after_reload(c):
    """A worker has its evidence; both shards then forget all of it."""
    reload_while_paused(c, "task.report", 5)


def two_attempts(c):
    """A worker sleeps over its lease with a push in its hand; the closure is
    begun again elsewhere; then the first one wakes up."""
    # The third pause keeps it from taking its push back, now that it is late.
    job = c.begin({"w-0": "task.push=" + c.pause_at("first") + "@30,"
                   "task.push_part=" + c.pause_at("third") + "@30",
                   "w-1": "task.push=" + c.pause_at("second") + "@1"}, workers=1)
    c.wait_paused("first")
    c.pause("w-0")
    wait_for("its leases to be given up", lambda: any(
        e["now"] == "leased" for e in c.events("lease_end")), 30)
    c.start("w-1")
    c.wait_paused("second")
    before = len(c.events("push"))
    c.release("first")
    c.resume("w-0")
    wait_for("the old attempt's push",
             lambda: len(c.events("push")) > before, c.limit_s)
    c.release("third")
    c.release("second")
    c.end(job)


def shard_replaced_during_a_cut(c):
    """One shard reports for a cut and is then replaced; the other was slow."""
    job = c.begin({"ps-1": "snap.begin=" + c.pause_at("go") + "@2"}, epochs=12)
    c.wait_paused("go")
    pids = c.processes["ps-0"].pid, c.processes["ps-1"].pid

    def reports(pid):
        return sum(e.pid == pid for e in c.events("snapshot_reported"))
    wait_for("the other shard's report",
             lambda: reports(pids[0]) > reports(pids[1]), 30)
    c.restart("ps-0")
    wait_for("the new incarnation", lambda: any(
        x["incarnation"] == 2 for x in c.events("admission")), 30)
    c.release("go")
    c.end(job)


def poisoned_push(c):
    """A stranger pushes what is not a number."""
    import grpc
    sys.path.insert(0, str(ROOT / "proto"))
    ps, ps_grpc = grpc.protos_and_services("ps.proto")
    c.counts["psserver"] = 1
    job = c.begin(epochs=6)
    c.wait_steps(job, 20)
    status = c.status(job)
    stub = ps_grpc.ShardsStub(grpc.insecure_channel(f"unix:{c.dir}/ps-0.sock"))
    key = dict(job=int(status["job"]), job_incarnation=int(status["incarnation"]),
               shard=0, incarnation=int(status["shards"][0]["incarnation"]))
    size = len(stub.Pull(ps.PullRequest(**key), timeout=10).payload)
    last = int(c.events("geometry")[0]["epochs"]) * 40 - 1
    with contextlib.suppress(grpc.RpcError):
        stub.Push(ps.PushRequest(**key, closure=last, step=0, samples=16,
                                 attempt={"term": 1, "n": 1},
                                 payload=b"\0" * (size - 4) + b"\0\0\xc0\x7f"),
                  timeout=10)
    c.end(job)


def rounds(c):
    """A shard holds contributions, and one of them falls back."""
    job = c.begin(mode="sync", contributions=3, steps_per_closure=1, epochs=4)
    c.wait_steps(job, 150)
    c.restart("ps-0")
    c.end(job)


def ring(c, more=(), **train):
    c.counts["psserver"] = 0
    c.args["worker"] += ["--store", str(c.dir / "store"), *more]
    return c.begin(workers=3, mode="allreduce", contributions=3, **train)


def ranks_die(c):
    """One that others replace, and then all of them."""
    job = ring(c, epochs=60)
    wait_for("a cut", lambda: int(c.status(job)["cuts"]) > 0, c.limit_s)
    c.restart("w-0")
    c.wait_steps(job, c.steps(job) + 200)
    for name in ("w-0", "w-1", "w-2"):
        c.kill(name)
    for name in ("w-0", "w-1", "w-2"):
        c.start(name)
    c.end(job)


def begin_beside_a_ring(c, spec=None):
    """A job of two ranks, one of which is late with each round, and rows on two
    psservers."""
    c.counts["worker"] = 2
    c.args["worker"] += ["--store", str(c.dir / "store")]
    c.armed = {"w-1": "task.pushed=delay:3"}
    c.start_all()
    return c.submit(spec or exact.rows_job(c, mode="allreduce", epochs=12, every_seconds=0.2))


def rows_beside_a_ring(c):
    c.end(begin_beside_a_ring(c))


def psserver_restarts_beside_a_ring(c):
    job = begin_beside_a_ring(c)
    wait_for("a cut", lambda: int(c.status(job)["cuts"]) > 0, c.limit_s)
    c.wait_steps(job, c.steps(job) + 10 * exact.ROUND)
    c.restart("ps-0")
    c.end(job)


def a_sum_overflows_beside_a_ring(c):
    """Of gradients that are finite, each: what the ranks skip, they alone know."""
    import numpy
    job = exact.rows_job(c, mode="allreduce", epochs=4)
    path = job["data"]["train"]["x"]
    data = dict(numpy.load(path))
    # The gradient of the kernel is that of a row times this; mean of a batch, 2^127.
    data["x"][0] = 2.0 ** 127 * exact.BATCH / exact.LARGE / exact.of_sample()[0]
    numpy.savez(path, **data)
    job["model"]["layers"][2]["kernel_initializer"] = "zeros"
    c.end(begin_beside_a_ring(c, job))
    skipped = {int(s["counts"]["skipped"]) for s in c.jobs()[0]["shards"]}
    check(skipped == {4 * exact.ROUND}, f"skipped: {skipped}")


# ---- which scenario shows which mistake, by which invariant

VARIANTS = {
    "skip_dedupe": (answers_are_lost, {"once"}),
    "forget_counted": (psserver_restarts, {"once"}),
    "skip_incarnation": (late_push_after_reload, {"fenced"}),
    "skip_attempt": (two_attempts, {"fenced"}),
    "count_refused": (two_attempts, {"once"}),
    "early_report": (plain, {"durable"}),
    "low_from_outside": (psserver_restarts, {"once"}),
    "believe_old": (late_completion_after_reload, {"cover"}),
    "lose_closure": (worker_dies, {"live"}),
    "hole_in_cut": (plain, {"cut"}),
    "publish_old": (shard_replaced_during_a_cut, {"cut"}),
    "early_manifest": (plain, {"durable"}),
    "finish_early": (plain, {"durable"}),
    "skip_term": (coordinator_restarts, {"fenced"}),
    "keep_leases": (stopped_by_request, {"account"}),
    "apply_rejected": (poisoned_push, {"inert"}),
    "leak_snapshots": (many_snapshots, {"bounded"}),
    "wrong_report": (plain, {"honest"}),
    "hang_call": (plain, {"typed"}),
    "crash_on_keep": (plain, {"clean"}),
    "change_value": (psserver_restarts_and_is_replayed, {"replay"}),
    "lose_slots": (psserver_restarts_and_is_replayed, {"replay"}),
    "rule_T1": (rows_are_replayed, {"replay"}),
    "rule_T2": (rows_are_replayed, {"replay"}),
    "rule_T4": (rows_are_replayed, {"replay"}),
    "rule_T4_asked": (rows_are_replayed, {"replay"}),
    "rule_Y1": (rounds, {"once"}),
    "rule_R3": (ranks_die, {"durable"}),
    "skip_next": (ranks_die, {"once"}),
    "forget_key": (ranks_die, {"once"}),
    "rule_R5": (rows_beside_a_ring, {"once"}),
    "rule_R6_rows": (rows_beside_a_ring, {"cut"}),
    "rule_R8": (rows_beside_a_ring, {"once"}),
    "rule_R8_skip": (a_sum_overflows_beside_a_ring, {"once"}),
    "rule_R9_loaded": (psserver_restarts_beside_a_ring, {"once"}),
}


def final(c):
    """What can still be learnt of a cluster that may be in ruins."""
    exits = {p.pid: p.poll() for p in c.processes.values() if p.poll() is not None}
    try:
        statuses = c.jobs()
    except (Failed, subprocess.TimeoutExpired, ValueError):
        statuses = []
    return checker.check(c.history, statuses=statuses, exits=exits, report=True,
                         must_finish=True)


def run(scenario, mistake):
    """Gives (what the scenario itself complained about, the report)."""
    c = Bed(mistake)
    try:
        try:
            scenario(c)
            complaint = None
        except (Failed, subprocess.TimeoutExpired, ValueError, KeyError) as error:
            complaint = str(error).splitlines()[0]
        report = final(c)
        if complaint and not mistake:
            c.tell(complaint)
        return complaint, report
    finally:
        c.history = None  # it was checked
        c.__exit__(None, None, None)


def stopped_is_fine(scenario, report):
    """A job that was stopped has not finished, and need not."""
    if scenario is stopped_by_request:
        report.counts = {k: v for k, v in report.counts.items() if k[0] != "live"}
        report.violations = [v for v in report.violations if v[0] != "live"]


def main():
    listed = mistakes("psserver")
    of_rules = {row.mistake for row in Table(HERE / "RULES.md").rows}
    missing = sorted(set(listed) - of_rules - of_simulation() - set(VARIANTS) |
                     set(VARIANTS) - set(listed))
    scenarios, wanted = part_of(list(dict.fromkeys(
        scenario for scenario, _ in VARIANTS.values())), sys.argv[1:])
    wanted = wanted or [name for name, (scenario, _) in VARIANTS.items()
                        if scenario in scenarios]
    sound, failures = {}, [f"no scenario, or no such variant: {m}" for m in missing]
    for name in wanted:
        began = time.monotonic()
        scenario, expected = VARIANTS[name]
        if scenario not in sound:
            complaint, report = run(scenario, None)
            stopped_is_fine(scenario, report)
            sound[scenario] = True
            if complaint or report.violations:
                failures.append(f"{scenario.__name__} without a mistake: {complaint}"
                                + "\n  ".join([""] + report.lines()))
        complaint, report = run(scenario, name)
        stopped_is_fine(scenario, report)
        caught = report.invariants() & expected
        if not caught:
            failures.append(f"{name} was not caught by {expected}: {complaint}"
                            + "\n  ".join([""] + report.lines()))
        print(f"{'caught' if caught else 'MISSED'} {name}: "
              f"{', '.join(sorted(report.invariants())) or 'nothing'} "
              f"({time.monotonic() - began:.1f} s)", flush=True)
    print(*failures, sep="\n")
    print(f"{len(wanted)} variants, {len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
