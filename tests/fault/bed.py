# SPDX-License-Identifier: Apache-2.0
"""What every test of this folder lies in: a cluster that trains two jobs at a
time, a net on our workers and the conservation job on programs of Python, and
that must end with `once`, `cover` and the exact sum, whatever happened.

Tests are functions named after the rows of the table of faults (F3_..., N9_...).
"""
import contextlib
import functools
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import traceback

import conserve
from exact import TooShort, long_enough
from cluster import (BIN, ROOT, Cluster, Failed, check, check_counts, check_equal,
                     children_of, mlp_job, part_of, spent, wait_for)

SEED = int(os.environ.get("SLUICE_SEED", random.SystemRandom().randrange(1 << 32)))
dice = random.Random(SEED)

ROW = re.compile(r"(F|N|REL)\d+_")
SIZES = [(1, 1), (2, 2), (4, 3)]  # workers, psservers: as TensorFlow runs its own


def size():
    workers, psservers = dice.choice(SIZES)
    return {"workers": workers, "psservers": psservers}


def net(name="net", epochs=8, **train):
    return mlp_job(name, samples=3200, epochs=epochs,
                   **{"steps_per_closure": 10, **train})


def end_tracers(folder):
    """A daemon that is killed while strace -D attaches to it leaves one of that
    strace's processes behind, which waits for ever."""
    for pid in children_of(folder):
        with contextlib.suppress(OSError):
            if pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="ascii") == "strace\n":
                os.kill(pid, signal.SIGKILL)


class Bed(Cluster):
    """with Bed(workers=2, psservers=2, programs=2) as b: jobs run already."""
    longer = 1  # jobs take so many times as long: with_longer()

    def __init__(self, programs=2, net_epochs=8, sum_epochs=8, jobs=True,
                 spec=None, flags=(), **more):
        super().__init__(**{"workers": 2, "psservers": 2, **more})
        # A program in Python takes some 2 ms of processor time for a step beside this.
        self.wanted, self.flags = programs, ("--step-ms", 4 * self.longer, *flags)
        self.net_epochs, self.submits = net_epochs * self.longer, jobs
        self.spec = spec or conserve.conserve_job(epochs=sum_epochs)
        self.net = self.sum = self.programs = None

    def __enter__(self):
        try:
            super().__enter__()
            self.programs = conserve.Programs(self, self.wanted, *self.flags)
            if self.submits:
                # The net would be far, or through, before Python has started.
                for name in self.programs.running:
                    self.on_log(name, "attending")
                self.submit_both()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, *why):
        if self.programs:
            self.programs.__exit__(*why)
        try:
            return super().__exit__(*why)
        finally:
            end_tracers(self.dir)

    def submit_both(self):
        if self.counts["worker"]:
            self.net = self.submit(net(epochs=self.net_epochs))
        if self.wanted:
            self.sum = self.submit(self.spec)

    def each(self):
        return [j for j in (self.net, self.sum) if j]

    def on(self, low=10, high=60, same=False):
        """Waits until each job has counted a random number of further steps, or is
        through; one must still run, or the next blow would miss them: where all are
        through they are as they must be, and others follow. `same`: no others, since the
        test knows something of these; run() begins it again with longer ones."""
        for _ in range(10):
            for job in self.each():
                self.further(job, dice.randint(low, high))
            if not all(map(self.finished, self.each())):
                return
            self.end()
            if same:
                raise TooShort
            self.submit_both()
        check(False, "the jobs are too short for the test")

    def finished(self, job):
        """Whether it is through. One of both may be, where the other is slow."""
        return self.status(job)["state"] == "finished"

    def over(self):
        """Whether each job is known to be through: not where nobody answers."""
        told = [self.asker.status(job, 1) for job in self.each()]
        return all(status and status["state"] == "finished" for status in told)

    def kill_many(self, names):
        """In the same instant, as far as one process can do that."""
        for name in names:
            os.kill(self.pid(name), signal.SIGKILL)
        for name in names:
            (self.programs.kill if name[0] == "x" else self.kill)(name)

    def pid(self, name):
        return (self.programs.running if name[0] == "x" else self.processes)[name].pid

    def back(self, names):
        for name in names:
            if name[0] == "x":
                self.programs.start(name, *self.flags)
            else:
                self.start(name, wait=name == "coordinator")

    def end(self, limit_s=120):
        """Both jobs finish; nothing is lost and nothing counted twice."""
        done = {}
        self.check_alive()
        for job in self.each():
            done[job] = self.wait_state(job, limit_s=limit_s)
            check_counts(done[job])
        if self.sum:
            conserve.check_conserved(self, self.sum, self.spec)
        return done

    def check_alive(self):
        """`clean`: nobody has ended who was not ended by the test."""
        for name, process in [*self.processes.items(), *self.programs.running.items()]:
            code = process.poll()
            check(code is None or code == 9 and name[0] == "x",  # told to die
                  f"clean: {name} ended by itself: {code}")

    def further(self, job, steps):
        now = self.status(job)
        aim = int(now["steps_counted"]) + steps
        asked = int(now["steps_asked"])  # 0: not placed yet
        self.wait_steps(job, min(aim, asked) if asked else aim)

    def shards(self, job):
        """The shards of a running job, all admitted."""
        return wait_for("all shards to be admitted", lambda: (
            lambda s: s if s and all(int(x["incarnation"]) for x in s) else None)(
                self.status(job)["shards"]))

    def on_log(self, name, text, after=0, limit_s=60):
        """Waits until a daemon has said so, behind an offset of its log."""
        return wait_for(f"{name} to say '{text}'",
                        lambda: text in self.log(name)[after:], limit_s)

    def mark(self, name):
        return len(self.log(name))

    def start_under(self, name, strace, wait=True):
        """Starts a daemon under strace (the n-th call fails, is late, kills)."""
        plain = self.command

        def wrapped(which):
            # -D: the daemon is our child, strace its own grandchild
            return (["strace", "-D", "-f", "-q", "-o", str(self.dir / f"{name}.strace"),
                     *strace, *plain(which)])
        self.command = wrapped
        try:
            return self.start(name, wait=wait)
        finally:
            self.command = plain


def stubs(name):
    """(messages, services) of one of our .proto files, for stock gRPC."""
    import grpc
    path = str(ROOT / "proto")
    if path not in sys.path:
        sys.path.insert(0, path)
    return grpc.protos_and_services(name)


def ended(process, limit_s=60):
    return wait_for("the process to end", lambda: process.poll() is not None, limit_s)


def with_longer(times, test):
    """Calls test(), whose jobs take so many times as long."""
    Bed.longer = times
    test()


def run(names):
    """Runs the tests of a file: functions named after a row. All, those that
    begin with a word, or a part (--part 1/2)."""
    print(f"SLUICE_SEED={SEED}", flush=True)
    tests = [f for n, f in names.items() if callable(f) and ROW.match(n)]
    (tests, wanted), failures = part_of(tests, sys.argv[1:]), 0
    for test in tests:
        if wanted and not any(test.__name__.startswith(w) for w in wanted):
            continue
        dice.seed(f"{SEED} {test.__name__}")  # alone as in company
        took, word = spent(), "ok"
        try:
            long_enough(functools.partial(with_longer, test=test), 1)
        except (Failed, subprocess.TimeoutExpired) as error:
            word, failures = "FAILED", failures + 1
            print(f"{test.__name__}: {error}", file=sys.stderr)
        except Exception:
            word, failures = "FAILED", failures + 1
            traceback.print_exc()
        print(f"{word} {test.__name__} ({took()})", flush=True)
    if failures:
        print(f"again: SLUICE_SEED={SEED} {sys.argv[0]} NAME", flush=True)
    sys.exit(1 if failures else 0)


__all__ = ["BIN", "Bed", "Failed", "SEED", "check", "check_counts", "check_equal",
           "dice", "ended", "net", "run", "size", "stubs", "wait_for"]
