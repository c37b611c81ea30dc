#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that train a job, in NumPy: which job they join and which they refuse, what
data they take, what is left of a job whose program fails, and how they wait. All cases
share one cluster."""
import json
import os
import signal
import subprocess
import sys

from cluster import BIN, LIMIT, LONG_LEASE, ROOT, Cluster, check, check_equal, main, wait_for

os.environ["SLUICE_LIBRARY"] = str(BIN.parent / "lib" / "libsluice.so")
os.environ["SLUICE_BIN"] = str(BIN)
sys.path.insert(0, str(ROOT / "python"))
import numpy as np  # noqa: E402
import sluice  # noqa: E402
from sluice._program import Program  # noqa: E402

C = Cluster(psservers=1, workers=0, coordinator_args=LONG_LEASE)

# Least squares on unit vectors: what was trained on sample i shows in weight i.
LINEAR = '''
import sys, numpy as np
from sluice._program import Program
class Linear(Program):
    def __init__(self, n, job, coordinator, lr=0.25, optimizer=None, **more):
        self.w = np.zeros(n, np.float32)
        super().__init__(job, coordinator, [("w", (n,))],
                         optimizer or {"type": "sgd", "learning_rate": lr}, **more)
    def _values(self):
        return {"w": self.w}
    def _fresh(self):  # while a gradient travels, `params` may be filled anew
        self.w[:] = self._closure.params
    def step(self, batch, scale=1.0):
        e = batch.x @ self.w - batch.y
        self._closure.grads[:] = 2 * scale * (e @ batch.x) / len(batch.y)
        self._done(float(e @ e) / len(batch.y))
def data(n):
    return np.eye(n, dtype=np.float32), np.ones(n, np.float32)
'''
exec(LINEAR, globals())  # pylint: disable=exec-used


def train(program, samples, batch_size=2, epochs=1, steps=None):
    """Trains to the end, or leaves after so many steps; gives the samples seen."""
    seen = []
    with program as t:
        for i, batch in enumerate(t.batches(samples, batch_size, epochs)):
            if i == steps:
                break
            t.step(batch)
            seen += batch.samples.tolist()
    return sorted(seen)


def refused(program, samples, *words, error=ValueError, **how):
    try:
        train(program, samples, **how)
    except error as said:
        for word in words:
            check(word in str(said), f"{word!r} is not said", str(said))
    else:
        check(False, f"nothing was refused: {words}")


def jobs(name):
    return sluice.jobs(C.address, name=name)


def stale_join():
    """A program that was changed does not join the job of its name."""
    train(Linear(8, "stale", C.address), data(8), epochs=2, steps=2)
    job = jobs("stale")[0]["id"]
    refused(Linear(8, "stale", C.address, lr=0.001), data(8),
            "optimizer.learning_rate is 0.001 here and 0.25 in the job",
            "train.batch is 8 here and 2 in the job",
            "train.epochs is 50 here and 2 in the job",
            "new=True", "another name", f"sluice stop {job}", batch_size=8, epochs=50)
    refused(Linear(8, "stale", C.address, optimizer={"type": "adam"}), data(8),
            'optimizer.type is "adam" here and "sgd" in the job', epochs=2)
    x, y = data(8)
    twice = (np.concatenate([x, x]), np.concatenate([y, y]))
    refused(Linear(8, "stale", C.address), twice,
            "data.train.samples is 16 here and 8 in the job", epochs=2)
    refused(Linear(8, "stale", C.address), (x[:4], y[:4]),
            "data.train.samples is 4 here and 8 in the job", epochs=2)
    refused(Linear(8, "stale", C.address, train={"max_delay": 3}), data(8),
            "train.max_delay is 3 here and 0 in the job", epochs=2)
    refused(Linear(8, "stale", C.address, mode="allreduce"), data(8),
            'train.mode is "allreduce" here', epochs=2)
    refused(Linear(9, "stale", C.address), (np.eye(8, 9, dtype=np.float32), y),
            "has another model; differing", epochs=2)
    check_equal(len(jobs("stale")), 1, "jobs: nothing was submitted")
    again = Linear(8, "stale", C.address)
    train(again, data(8), epochs=2)  # as it was: trains on
    check_equal((again.id, again.first), (job, False), "the job that was joined")
    check_equal(jobs("stale")[0]["state"], "finished", "state")
    train(Linear(8, "stale", C.address, lr=0.5), data(8), steps=1)
    mine = Linear(8, "stale", C.address, lr=0.125, new=True)
    check_equal(train(mine, data(8)), list(range(8)), "samples of a job of one's own")
    check_equal((len(jobs("stale")), mine.first), (3, True), "jobs")
    sluice.stop(jobs("stale")[1]["id"], C.address)


def rerun():
    """A finished program that is started again, after any number of other jobs, trains
    a new job; so it does after the last one was deleted. Lists are whole, or say that
    they are not."""
    first, words = Linear(8, "rerun", C.address), ["--no-wait"]
    check_equal(train(first, data(8)), list(range(8)), "samples")
    for i in range(21):
        C.submit({**first.spec(8, 2, 1), "name": f"other-{i}"}, *words)
    second = Linear(8, "rerun", C.address)
    check_equal(train(second, data(8)), list(range(8)), "samples of the second run")
    check(second.id != first.id and second.first, second.id)
    check_equal([j["id"] for j in jobs("rerun")], [second.id, first.id], "jobs")
    C.run("delete", second.id)
    third = Linear(8, "rerun", C.address)
    check_equal(train(third, data(8)), list(range(8)), "samples of the third run")
    check(third.id not in (first.id, second.id) and third.first, third.id)

    listed = C.json("jobs")
    check_equal((len(listed["jobs"]), listed["more"]), (20, True), "a list that goes on")
    check("--all" in C.run("jobs").stderr, "is said")
    whole = C.json("jobs", "--all")
    check(not whole["more"] and len(whole["jobs"]) > 22, len(whole["jobs"]))
    check_equal([j["id"] for j in whole["jobs"]],
                [j["id"] for j in sluice.jobs(C.address)], "all jobs")
    named = C.json("jobs", "--name", "rerun", "--limit", "1")
    check_equal(([j["id"] for j in named["jobs"]], named["more"]), ([third.id], True),
                "the newest of a name")
    for job in whole["jobs"]:
        if job["name"].startswith("other-"):
            sluice.stop(job["id"], C.address, now=True)


class Samples:
    """A data set of single samples; `wrong` is given, or raised, for number 5."""

    def __init__(self, wrong=None, number=5):
        self.wrong, self.number = wrong, number

    def __len__(self):
        return 8

    def __getitem__(self, n):
        if n == self.number and isinstance(self.wrong, Exception):
            raise self.wrong
        return self.wrong if n == self.number else tuple(part[n] for part in data(8))


def data_is_looked_at():
    """Before anything is submitted; what shows later fails the job in words."""
    lists = tuple(part.tolist() for part in data(8))
    refused(Linear(8, "looked", C.address), lists, "a tuple of list", "arrays are wanted")
    refused(Linear(8, "looked", C.address), iter([]), "has no length")
    refused(Linear(8, "looked", C.address), (data(8)[0][:0], data(8)[1][:0]), "empty")
    refused(Linear(8, "looked", C.address), Samples(OSError("no image"), 0), "no image",
            error=OSError)
    refused(Linear(8, "looked", C.address), Samples(None, 0), "None for sample 0",
            error=TypeError)
    check_equal(jobs("looked"), [], "jobs of data that will not do")
    for name, wrong, error, word in (
            ("raises", OSError("cannot identify image"), OSError, "cannot identify"),
            ("gives-none", None, TypeError, "None for sample 5")):
        refused(Linear(8, name, C.address), Samples(wrong), word, error=error)
        job = jobs(name)[0]
        check_equal(job["state"], "failed", name)
        check(word in job["reason"], job["reason"])
    pairs = [tuple(part[n] for part in data(8)) for n in range(8)]
    check_equal(train(Linear(8, "pairs", C.address), pairs), list(range(8)), "a list")


def a_program_that_fails_leaves_no_job():
    """Before its first step the job that it submitted is stopped, later it goes on."""
    def fails(steps):
        program, done = Linear(8, f"fails-{steps}", C.address), 0
        try:
            with program as t:
                for batch in t.batches(data(8), 2, 1):
                    if done == steps:
                        raise KeyError("a mistake of its own")
                    t.step(batch)
                    done += 1
        except KeyError:
            pass
        return jobs(f"fails-{steps}")[0]["state"], program.id

    check_equal(fails(0)[0], "stopped", "state")
    state, job = fails(2)
    check_equal(state, "running", "state")
    sluice.stop(job, C.address)


# argv[3]: a model that is sent as bytes, of which sockets hold a part.
WAITS = LINEAR + """
import functools
from sluice import _program
n = 8 if len(sys.argv) < 4 else int(sys.argv[3])
_program.Session = functools.partial(_program.Session, shm=n == 8)
class Waits(Linear):
    def step(self, batch):
        self._closure.grads[:] = 0.5
        self._done(1.0)
with Waits(n, sys.argv[2], sys.argv[1]) as t:
    for i, batch in enumerate(t.batches(data(8), 1, 30000)):
        t.step(batch)
        if i == 5:
            print("going", flush=True)
print("left", flush=True)
"""


def begun(code, *words):
    return subprocess.Popen(
        [sys.executable, "-c", code, C.address, *words], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")})


def sigterm_waiting():
    """A program that waits for a psserver which hangs, or is gone, ends when it is
    asked to: in order by SIGTERM, as Python programs do by SIGINT."""
    for away, back, *n in ((C.pause, C.resume), (C.kill, C.start),
                           (C.pause, C.resume, "500000")):
        for how, code, word in ((signal.SIGTERM, 0, "left"),
                                (signal.SIGINT, -signal.SIGINT, "KeyboardInterrupt")):
            name = "-".join(["waits", away.__name__, how.name.lower(), *n])
            program = begun(WAITS, name, *n)
            try:
                check_equal(program.stdout.readline(), "going\n", name)
                away("ps-0")
                job = jobs(name)[0]["id"]
                program.send_signal(how)
                # Less than the 40 s for which it did not end.
                out, err = program.communicate(timeout=30)
            finally:
                program.kill()
                back("ps-0")
            check_equal(program.returncode, code, f"{name}: {out}{err}")
            check(word in out + err, name, out, err)
            sluice.stop(job, C.address, now=True)


INTERRUPTED = LINEAR + """
import signal
from sluice import _native
def interrupted(*words):
    call(*words)
    setattr(_native.lib(), sys.argv[3], call)
    signal.raise_signal(signal.SIGINT)
call = getattr(_native.lib(), sys.argv[3])
setattr(_native.lib(), sys.argv[3], interrupted)
with Linear(8, sys.argv[2], sys.argv[1]) as t:
    for i, batch in enumerate(t.batches(data(8), 1, 30000)):
        t.step(batch)
        if i == 20 and sys.argv[3] == "sluice_fail":
            t._closure.fail("for a try")
        if i == 20:
            break
print("left at", i)  # nothing has interrupted it
"""


def sigint_while_it_gives_back():
    """Ctrl-C that comes within the call that gives a closure back, or ends a session,
    is raised behind it: what was freed by that is not freed again."""
    calls = ("sluice_finish", "sluice_fail", "sluice_close")
    programs = {call: begun(INTERRUPTED, call, call) for call in calls}
    try:
        for call, program in programs.items():
            out, err = program.communicate(timeout=60 * LIMIT)
            check_equal(program.returncode, -signal.SIGINT, f"{call}: {out}{err}")
            check("KeyboardInterrupt" in err, call, err)
    finally:
        for call, program in programs.items():
            program.kill()
            for job in jobs(call):
                sluice.stop(job["id"], C.address, now=True)


def what_is_leased_late_is_given_back():
    """A session that leaves gives back, too, what it was leased before the coordinator
    heard of that: it is told to others at once and not after the lease's end."""
    with Linear(8, "late", C.address) as t:
        for batch in t.batches(data(8), 1, 30000):
            t.step(batch)
            job = int(t.status()["job"])
            break
    names = [f"late-{i}" for i in range(12)]
    for name in names:
        with sluice.Session(C.address, job=job, name=name) as session:
            session.take().let_go("for a try")

    def ends():
        return [line["leases"] for line in map(json.loads, C.log("coordinator").splitlines())
                if line["msg"] == "member detached" and line["member"] in names]
    wait_for("the ends of all sessions", lambda: len(ends()) == len(names))
    check_equal(ends(), [0] * len(names), "leases that were kept")
    sluice.stop(jobs("late")[0]["id"], C.address, now=True)


def program_first():
    """A program that is there before the coordinator waits, with one line; as long as
    `wait` says; a coordinator that is away at the end is waited for, too."""
    C.kill("coordinator")
    late = begun(LINEAR + """
with Linear(8, sys.argv[2], sys.argv[1], wait=0.5) as t:
    try:
        list(t.batches(data(8), 2))
    except TimeoutError as error:
        print(error, flush=True)
""", "first")
    out, err = late.communicate(timeout=60 * LIMIT)
    check("wait=0.5" in out, "what became of it", out, err)
    first = begun(LINEAR + """
with Linear(8, sys.argv[2], sys.argv[1]) as t:
    for batch in t.batches(data(8), 2):
        t.step(batch)
    print("trained", flush=True)
    input()
    print(t.learnt()["w"].tolist(), flush=True)
""", "first")
    try:
        line = first.stderr.readline()
        check("sluice: job first: waiting: coordinator unix:" in line, line)
        C.start("coordinator")
        check_equal(first.stdout.readline(), "trained\n", "after the coordinator came")
        C.kill("coordinator")
        first.stdin.write("\n")
        first.stdin.flush()
        check("waiting" in first.stderr.readline(), "a second wait is said")
        C.start("coordinator")
        out, err = first.communicate(timeout=60 * LIMIT)
        check_equal(first.returncode, 0, err)
        check_equal(out, f"{[0.25] * 8}\n", "what was learnt")
    finally:
        first.kill()


def warnings_reach_the_program():
    import warnings
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with Linear(8, "warned", C.address) as t:
            for batch in t.batches(data(8), 1, 10):
                t.step(batch, scale=float("nan") if batch.step % 2 else 1.0)
            t.status()
        check(t.warnings, "warnings of a job half of whose updates were skipped")
        check_equal(len([w for w in said if t.warnings[0] in str(w.message)]), 1,
                    "times that it was said")


def the_length_is_known():
    with Linear(8, "length", C.address) as t:
        batches = t.batches(data(8), 3, 5)
        check_equal(len(batches), 15, "steps of the job")
        check_equal(sum(1 for b in batches if t.step(b) is None), 15, "batches")


def the_best_is_kept_and_ends_the_job():
    with Linear(8, "better", C.address) as t:
        kept, values = None, iter([0.5, 0.25, float("nan"), 0.25, 0.75])
        for batch in t.batches(data(8), 2, 1000):
            t.step(batch)
            value = next(values, None)
            if value is not None and t.better(value, patience=3):
                kept = t._values()["w"].copy()
        check_equal(t.status()["state"], "stopped", "state")
        check(next(values, None) is None, "values that were not asked for")
        check_equal(t.learnt(best=True)["w"].tolist(), kept.tolist(), "what was kept")


if __name__ == "__main__":
    code = 1
    with C:
        try:
            main([stale_join, rerun, data_is_looked_at,
                  a_program_that_fails_leaves_no_job, warnings_reach_the_program,
                  the_length_is_known, sigterm_waiting, sigint_while_it_gives_back,
                  what_is_leased_late_is_given_back, program_first,
                  the_best_is_kept_and_ends_the_job])
        except SystemExit as ended:
            code = ended.code
    sys.exit(code)
