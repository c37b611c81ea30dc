# SPDX-License-Identifier: Apache-2.0
"""A cluster that trains whenever a test does something to it."""
import signal

from cluster import ENDED, Failed, check, check_counts, wait_for


class Training:
    """One job after the other, so that one runs whenever something is done to
    it, however fast the machine is or slow the test. Each must count every step
    and every sample once."""

    def __init__(self, c, spec, dice, low=50, high=300):
        self.c, self.spec, self.dice, self.steps = c, spec, dice, (low, high)
        self.name, self.job, self.done = spec["name"], None, []

    def busy(self):
        """The status of a job that is far from its end; those before have finished,
        one that was through before it was seen to run as well."""
        for _ in range(20):
            status = self.c.status(self.job) if self.job else None
            if status and int(status["steps_counted"]) < int(status["steps_asked"]) / 2:
                return status
            self.end()
            self.spec["name"] = f"{self.name}-{len(self.done) + 1}"
            self.job = self.c.submit(self.spec)
            wait_for("the job to run",
                     lambda: self.c.status(self.job)["state"] in ("running", *ENDED))
        raise Failed("twenty jobs were over before they were seen")

    def some_steps_on(self):
        """Waits until a random number of further steps has been counted."""
        counted = int(self.busy()["steps_counted"])
        self.c.wait_steps(self.job, counted + self.dice.randint(*self.steps))

    def strike(self, blow, heal, seen):
        """Does blow() to a job that runs, and waits until seen(its status). Where the
        machine was so busy that the job was over by then, heals, and does it again."""
        def told():
            now = self.c.status(self.job)
            return "seen" if seen(now) else now["state"] in ENDED and "over"
        for _ in range(10):
            self.some_steps_on()
            blow()
            if wait_for("what a blow does", told) == "seen":
                return
            heal()
        raise Failed("ten jobs were over before the blow")

    def drain(self, choose):
        """Ends one of the workers, choose(), in order, while it has a closure, which it
        hands back. Gives its name."""
        for _ in range(10):  # a job may be over before the signal
            self.some_steps_on()
            name = choose()
            at = len(self.c.log(name))
            code = self.c.kill(name, signal.SIGTERM)
            check(code in (143, -signal.SIGTERM), f"a drained worker ends with {code}")
            now = self.c.status(self.job)["state"]
            if "closure handed back" in self.c.log(name)[at:]:
                return name
            check(now in ENDED, "nothing was handed back")
            self.c.start(name)
        raise Failed("ten jobs were over before the drain")

    def end(self, limit_s=180):
        if self.job:
            self.done.append(self.c.wait_state(self.job, limit_s=limit_s))
            check_counts(self.done[-1])
        self.job = None

    def check_total(self, key, least):
        """A figure of all jobs together, after end()."""
        total = sum(int(done[key]) for done in self.done)
        check(total >= least, f"{key}: {total} in {len(self.done)} jobs")
