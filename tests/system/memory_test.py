#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of psserver and worker stays flat over 10,000 steps, and where the
kernel kills them for want of it, people are told so."""
import contextlib
import json
import os
import pathlib
import re

from cluster import Cluster, check, check_counts, main, mlp_job, wait_for
from up_test import Up

MIB = 1 << 20


def resident_kib(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def memory_is_flat_over_ten_thousand_steps():
    names = ("ps-0", "w-0", "coordinator")
    with Cluster(psservers=1, workers=1) as c:
        # Cuts of every second count too: they must leave nothing behind.
        job = c.submit(mlp_job("flat", samples=6400, epochs=60))
        c.wait_steps(job, 4000)
        early = {n: resident_kib(c.processes[n]) for n in names}
        c.wait_steps(job, 11900)
        late = {n: resident_kib(c.processes[n]) for n in names}
        check_counts(c.wait_state(job))
        for name in names:
            grown = late[name] - early[name]
            print(f"{name}: {early[name]} KiB, then {late[name]} KiB")
            # The heap is of huge pages (common/net/rpc_io.c): it grows by 2 MiB,
            # wherever its first use of a corner falls. 1 KiB a step is 7,900.
            check(grown < max(7900, early[name] // 20),
                  f"{name} grew by {grown} KiB over 7,900 steps")


# ---- out of memory

def group_parents():
    """Folders in which a group that limits memory might be made: our own group of
    version 1, then version 2's topmost, which alone may have processes beside."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            yield pathlib.Path(f"/sys/fs/cgroup/memory{path}"), "memory.limit_in_bytes"
    yield pathlib.Path("/sys/fs/cgroup"), "memory.max"


@contextlib.contextmanager
def memory_group(limit):
    """A control group whose processes have so many bytes together; None where none
    can be made."""
    made = None
    for parent, name in group_parents():
        folder = parent / f"sluice-oom-{os.getpid()}"
        with contextlib.suppress(OSError):
            folder.mkdir()
            try:
                (folder / name).write_text(str(limit))
                with contextlib.suppress(OSError):  # no swap instead of memory
                    swap = "memory.swap.max" if name == "memory.max" else "memory.swappiness"
                    (folder / swap).write_text("0")
                made = folder
                break
            except OSError:
                folder.rmdir()
    try:
        yield made
    finally:
        if made:
            wait_for("the group to be empty",
                     lambda: not (made / "cgroup.procs").read_text().strip())
            made.rmdir()


def within(group, command):
    return ["sh", "-c", f"echo $$ > '{group}/cgroup.procs' && exec \"$@\"", "-", *command]


def big_job():
    """92 MiB of parameters, and three times that with Adam's slots."""
    return {"name": "big", "model": {"input_shape": [4000], "layers": [
                {"type": "dense", "units": 6000}, {"type": "dense", "units": 1}]},
            "loss": "binary_crossentropy", "optimizer": {"type": "adam"},
            "data": {"train": {"format": "synthetic", "generator": "binary", "samples": 64}},
            "train": {"batch": 8, "epochs": 2, "max_attempts": 2}}


class Limited(Cluster):
    """Its workers are in the group."""
    group = None

    def command(self, name):
        line = super().command(name)
        return within(self.group, line) if name[0] == "w" else line


def workers_out_of_memory(group):
    """A Deployment starts them again: the job fails, and says what it needs."""
    with Limited(psservers=1, workers=0) as c:
        c.group = group
        job = c.submit(big_job())

        def failed():
            for name in ("w-0", "w-1"):
                if name not in c.processes or c.processes[name].poll() is not None:
                    c.start(name, wait=False)
            now = c.status(job)
            return now["state"] == "failed" and now["reason"]
        reason = wait_for("the job to fail", failed)
        for part in ("vanished without a word", "killed by its host's kernel", "exit code 137",
                     "at least 184 MiB in each worker (2 x 92: parameters, gradients)",
                     "one that was lost may use 100 MiB"):
            check(part in reason, f"the reason does not say {part!r}", reason)


class UpWithin(Up):
    def __init__(self, group, **more):
        super().__init__(**more)
        self.group = group

    def command(self):
        return within(self.group, super().command())


def psserver_out_of_memory(up, job):
    """It is started again by up, but the job is not placed for ever."""
    def held():
        now = json.loads(up.sluice("-o", "json", "status", job))
        return now.get("pause", {}).get("holds") and now
    now = wait_for("the job to be held", held)
    for told, want in (
            (now["reason"], r"paused by the coordinator: psserver ps-0 was lost 3 times in a row "
             r"without a checkpoint: its shards need at least 2\d\d MiB, it may use 160 MiB; look for "
             rf"exit code 137.*`sluice resume {job}`"),
            (now["warnings"], r"psserver ps-0 needs at least 2\d\d MiB for its \d+ shards .* may "
             "use 160 MiB"),
            (up.sluice("events", job), "memory-short .* needs at least"),
            (up.sluice("events", job), "memory-short .* is held: psserver ps-0 was lost")):
        check(re.search(want, str(told)), f"not told: {want}", told)
    wait_for("the psserver to be back", lambda: "ps-0" in up.pids())
    up.sluice("stop", "--now", job)


def out_of_memory():
    with memory_group(100 * MIB) as group:
        if group is None:
            print("no group that limits memory can be made here (root, cgroup): skipped")
            return
        workers_out_of_memory(group)
    with memory_group(160 * MIB) as group, UpWithin(group, psservers=1, workers=1) as up:
        spec = up.dir / "job.json"
        spec.write_text(json.dumps(big_job()))
        job = up.sluice("submit", spec, "--no-wait").strip()
        wait_for("up to say why", lambda: "ps-0 was killed by SIGKILL, by the kernel for "
                 "want of memory (oom_kill in /sys/fs/cgroup" in up.text())
        psserver_out_of_memory(up, job)


if __name__ == "__main__":
    main([memory_is_flat_over_ten_thousand_steps, out_of_memory])
