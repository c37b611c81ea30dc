# SPDX-License-Identifier: Apache-2.0
"""Part `cluster`: coordinator, 2 psservers and workers that compute on the GPU
train the fashion net, as `quickstart` does on CPUs; and what of a worker's step
is not arithmetic.
"""
import json
import re
import signal
import subprocess
import time

from gpu_parts import nets
from gpu_parts.kit import Failed, check
from gpu_parts.report import Planned, at_least

ACCURACY = 0.89  # quickstart's
PRECISIONS = ["f32", "tf32", "bf16", "f16"]


class Up:
    """`sluice up` in a folder of its own; ended with all its daemons."""

    def __init__(self, kit, workers, device, settings=()):
        self.kit = kit
        self.environment = {**kit.environment, **dict(settings)}
        self.folder = kit.scratch / f"up-{time.monotonic_ns()}"
        self.line = [kit.path("sluice"), "up", "--psservers", "2", "--workers",
                     str(workers), "--device", device, "--dir",
                     str(self.folder), "--listen", "127.0.0.1:0"]

    def __enter__(self):
        self.log = open(self.kit.scratch / "up.log", "w+", encoding="utf-8",
                        errors="replace")
        self.process = subprocess.Popen(
            self.line, stdout=self.log, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, env=self.environment)
        try:
            self.wait_for("the cluster", self.address, 90)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()

    def said(self):
        self.log.flush()
        text = (self.kit.scratch / "up.log").read_text(errors="replace")
        logs = [p.read_text(errors="replace")[-400:]
                for p in sorted(self.folder.glob("log/worker-*.log"))]
        return " | ".join([text[-400:], *logs])

    def address(self):
        check(self.process.poll() is None, "sluice up ended:", self.said())
        try:
            return (self.folder / "address").read_text().strip()
        except OSError:
            return None

    def wait_for(self, what, probe, seconds):
        end = time.monotonic() + self.kit.limit(seconds)
        while time.monotonic() < end:
            found = probe()
            if found:
                return found
            time.sleep(0.1)
        raise Failed(f"waited in vain for {what}: {self.said()}")

    def sluice(self, *words, seconds=60):
        line = [self.kit.path("sluice"), "--coordinator", self.address(), *words]
        return self.kit.run(line, seconds).stdout

    def submit(self, spec, *sets):
        words = [w for s in sets for w in ("--set", s)]
        return self.sluice("submit", str(spec), "--no-wait", *words).strip()

    def status(self, job):
        return json.loads(self.sluice("-o", "json", "status", job))

    def workers_said(self, pattern):
        """That each of them logged it."""
        logs = [p.read_text(errors="replace")
                for p in sorted(self.folder.glob("log/worker-*.log"))]
        return bool(logs) and all(re.search(pattern, text) for text in logs)

    def workers_compute_on(self, device):
        """That none fell back: what the workers themselves logged."""
        return self.workers_said(rf'device"?[=:]"?{device}')


# ---- training to an accuracy

# An emulated GPU takes few steps a second.
EMULATED = ["train.epochs=1", "train.batch=2", "data.train.limit=20",
            "data.test.limit=10"]

RING = "train.mode=allreduce"


def trained(kit, precision, *sets):
    """The fashion net's test accuracy after its five epochs, two workers."""
    spec, small = nets.fashion(kit)
    summary = kit.scratch / f"summary-{precision}.json"
    with Up(kit, workers=2, device=kit.device()) as up:
        began = time.monotonic()
        job = up.submit(spec, f"train.precision={precision}", *sets, *small,
                        *(EMULATED if kit.emulated else []))
        up.sluice("watch", job, "--summary", str(summary), seconds=240)
        took = time.monotonic() - began
        check(up.workers_compute_on(kit.device()), "a worker did not compute on",
              kit.device(), up.said())
        check(RING not in sets or kit.device() == "cpu" or up.workers_said(
            "the optimizer runs on the device"),
              "a rank's optimizer did not run on", kit.device(), up.said())
    return judged(json.loads(summary.read_text()), took)


def judged(told, took):
    for truth in ("once", "cover"):
        check(told[truth] is True, f"the summary says {truth}: {told[truth]}")
    check(told["steps_counted"] == told["steps_asked"], "steps are missing:",
          told["steps_counted"], "of", told["steps_asked"])
    return {"ours": told["test_accuracy"][-1], "seconds": round(took, 1),
            "note": f"{told['steps_counted']} steps, each counted once, in "
                    f"{took:.0f} s"}


def cluster_rows(kit):
    return [Planned("cluster", f"fashion {p}", "accuracy", at_least(ACCURACY),
                    lambda kit, p=p: trained(kit, p)) for p in PRECISIONS] + [
        Planned("cluster", "fashion ring tf32", "accuracy", at_least(ACCURACY),
                lambda kit: trained(kit, "tf32", RING))]


# ---- a worker's step


def step_ms(kit, spec, sets, seconds, tuned=True):
    """Milliseconds per step of one worker through two psservers, over a window
    in the middle of the job: counted by the shards."""
    settings = {"SLUICE_AUTOTUNE": str(tuned).lower(),
                "SLUICE_PLANS": str(kit.plans)}
    warm_steps = 2 if kit.emulated else 50
    with Up(kit, workers=1, device=kit.device(), settings=settings) as up:
        job = up.submit(spec, *sets)

        def counted():
            status = up.status(job)
            check(status["state"] not in ("failed", "stopped"), "the job",
                  status["state"], status.get("error", ""), up.said())
            return int(status["steps_counted"])
        warm = up.wait_for(f"{warm_steps} steps",
                           lambda: counted() >= warm_steps, 120)
        check(warm, "no steps")
        first, began = counted(), time.monotonic()
        time.sleep(min(seconds, max(1, kit.left_s() - 5)))
        last = counted()
        if last == first:  # a step takes longer than the window
            up.wait_for("a step", lambda: counted() > first, 60)
            last = counted()
        ended = time.monotonic()
        return 1e3 * (ended - began) / (last - first)

