#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Psservers that die, come back with less, or come back twice."""
import contextlib
import itertools
import pathlib
import threading

import conserve
from bed import (Bed, check, check_equal, dice, run, size, stubs, wait_for)


def lost(b, *names):
    """Waits until each running job names one of the lost psservers."""
    for job in b.each():
        wait_for("the job to name a lost psserver", lambda j=job: any(
            n in b.status(j)["reason"] for n in names) or b.finished(j))


def F9_psserver_back_at_once_on_the_same_address():
    with Bed() as b:
        for name in ("ps-0", "ps-1", "ps-0"):
            b.on()
            before = {j: b.shards(j) for j in b.each() if not b.finished(j)}
            b.restart(name)  # the workers' channels are kept
            for job, shards in before.items():
                for old, new in zip(shards, b.shards(job)):
                    if old["psserver"] == name and not b.finished(job):
                        check(int(new["incarnation"]) > int(old["incarnation"]),
                              "I1: a loaded shard kept its incarnation")
        b.end()


def F12_psserver_fails_while_the_job_recovers_from_a_worker():
    with Bed() as b:
        for _ in range(2):
            b.on()
            b.kill_many(["w-0", "x-0"])
            b.kill_many(["ps-0"])
            b.back(["ps-0", "w-0", "x-0"])
        b.end()


class Reader(threading.Thread):
    """Pulls one shard of the conservation job over and over. Its rows are all
    equal and hold the number of updates: a torn read shows, and so does a
    version without the steps that make it."""

    def __init__(self, b, shard, limit=None):
        super().__init__(daemon=True)
        import grpc
        self.grpc = grpc
        self.ps, services = stubs("ps.proto")
        status = b.status(b.sum)
        address = f"unix:{b.dir}/{shard['psserver']}.sock"
        self.stub = services.ShardsStub(grpc.insecure_channel(address))
        self.keys = dict(job=int(status["job"]), shard=int(shard["shard"]),
                         job_incarnation=int(status["incarnation"]))
        self.limit, self.reads, self.wrong = limit, 0, []
        self.last, self.stop = (0, 0), threading.Event()

    def run(self):
        while not self.stop.is_set() and self.reads != self.limit:
            try:
                reply = self.stub.Pull(self.ps.PullRequest(**self.keys), timeout=10)
            except self.grpc.RpcError as error:
                code = error.code()
                if code not in (self.grpc.StatusCode.UNAVAILABLE,
                                self.grpc.StatusCode.NOT_FOUND):
                    self.wrong.append(f"{code}: {error.details()}")
                self.stop.wait(0.01)
                continue
            self.look(reply)

    def look(self, reply):
        import array
        values = array.array("f", reply.payload)
        row = values[:conserve.FIELDS]
        if values != row * (len(values) // conserve.FIELDS):
            self.wrong.append(f"torn: {values}")
        if -row[1] != reply.version:
            self.wrong.append(f"version {reply.version} holds {-row[1]} updates")
        now = (reply.incarnation, reply.version)
        if now < self.last:
            self.wrong.append(f"{now} after {self.last}")
        self.last = now
        self.reads += 1


def F15_two_hundred_reads_while_workers_die():
    with Bed(workers=0, programs=2, sum_epochs=13) as b, contextlib.ExitStack() as stack:
        readers = [Reader(b, s, 200) for s in b.shards(b.sum)]
        for reader in readers:
            stack.callback(reader.stop.set)
            reader.start()
        for name in ("x-0", "x-1"):
            b.on(1, 20, same=True)
            b.programs.restart(name)
        for reader in readers:
            reader.join(60)
            check_equal(reader.reads, 200, "reads")
            check(not reader.wrong, "reads", *reader.wrong[:5])
        b.end()


def N26_no_pull_sees_a_version_without_its_keys():
    with Bed(workers=0, programs=3, sum_epochs=20) as b, contextlib.ExitStack() as stack:
        readers = [Reader(b, s) for s in b.shards(b.sum) * 2]
        for reader in readers:
            stack.callback(reader.stop.set)
            reader.start()
        for name in ("ps-0", "x-0", "ps-1"):
            b.on(same=True)
            b.kill_many([name])
            b.back([name])
        b.end()
        for reader in readers:
            reader.stop.set()
            reader.join(30)
            check(reader.reads > 10, f"only {reader.reads} reads")
            check(not reader.wrong, "reads", *reader.wrong[:5])


BLOWS = {
    "worker": lambda b: (b.kill_many(["w-0", "x-0"]), b.back(["w-0", "x-0"])),
    "psserver": lambda b: (b.kill_many(["ps-1"]), b.back(["ps-1"])),
    "coordinator": lambda b: (b.kill_many(["coordinator"]), b.back(["coordinator"])),
    "pause": lambda b: (b.pause("w-1"), b.further(b.sum, 1), b.resume("w-1")),
    "client": lambda b: b.run("status", b.net),
}


def F16_every_pair_of_blows_in_one_cluster():
    with Bed(net_epochs=30, sum_epochs=27) as b:
        pairs = list(itertools.combinations_with_replacement(BLOWS, 2))
        dice.shuffle(pairs)
        for pair in pairs:
            if all(b.finished(j) for j in b.each()):
                b.end()
                b.submit_both()
            for blow in dice.sample(pair, 2):
                BLOWS[blow](b)
                b.further(b.sum, dice.randint(1, 20))
        b.end()


def psserver_lost_and_back(names):
    with Bed() as b:
        for _ in range(2):
            b.on()
            b.kill_many(names)
            lost(b, *names)
            b.back(names)
        b.end()


def F17_a_job_goes_on_when_its_psserver_is_back():
    psserver_lost_and_back(["ps-1"])


def F18_a_job_submitted_without_a_psserver_waits():
    with Bed(jobs=False, sum_epochs=4, net_epochs=2, psservers=1) as b:
        b.kill("ps-0")
        b.submit_both()
        for job in b.each():
            wait_for("the job to wait for psservers",
                     lambda j=job: "psserver" in b.status(j)["reason"])
        b.start("ps-0")
        b.end()


def F19_all_psservers_are_lost_and_back():
    psserver_lost_and_back(["ps-0", "ps-1"])


def N5_zombie_psserver_and_its_successor_both_answer():
    """Paused, replaced from its snapshot elsewhere, resumed. Pushes that only
    the zombie acknowledged are redone; it overwrites nothing."""
    with Bed(net_epochs=20, sum_epochs=20) as b:
        b.on(60, 100)
        wait_for("a cut of each job", lambda: all(
            int(b.status(j)["cuts"]) > 0 for j in b.each()))
        zombie = b.processes["ps-1"]
        b.pause("ps-1")
        lost(b, "ps-1")
        after = b.mark("coordinator")
        plain = b.command
        b.command = lambda name: [
            w.replace("/ps-1.sock", "/ps-1b.sock").replace("/ps-1", "/ps-1b")
            if w.startswith(str(b.dir)) or w.startswith("unix:") and "ps-1" in w else w
            for w in plain(name)]
        b.start("ps-1")
        b.command = plain
        b.on_log("coordinator", "shard admitted", after)
        b.on(5, 20, same=True)
        files = {p: p.read_bytes() for p in (b.dir / "store").rglob("shard-*.safetensors")}
        zombie.send_signal(18)  # SIGCONT: both live now
        b.on(5, 20, same=True)
        for path, data in files.items():
            check(not path.exists() or path.read_bytes() == data,
                  f"K1: {path.name} was written twice")
        b.end()
        zombie.kill()
        zombie.wait()


def N8_half_of_the_workers_and_a_psserver_in_one_instant():
    with Bed(workers=4, programs=4, psservers=3) as b:
        for share in (2, 3):  # half, then three quarters
            b.on()
            victims = [f"w-{i}" for i in dice.sample(range(4), share)]
            victims += [f"x-{i}" for i in dice.sample(range(4), share)]
            victims.append(f"ps-{dice.randrange(3)}")
            b.kill_many(victims)
            b.back(victims)
        b.end()


def N10_killed_while_it_loads_and_while_it_deletes():
    with Bed(net_epochs=20, sum_epochs=20) as b:
        wait_for("a cut of each job", lambda: all(
            int(b.status(j)["cuts"]) > 0 for j in b.each()))
        for calls, many in (("pread64,read,mmap", (60, 160)), ("rename,renameat2", (1, 2)),
                            ("unlink,unlinkat", (1, 3))):
            when = dice.randint(*many)
            b.kill("ps-0")
            process = b.start_under("ps-0", [
                "-e", f"trace={calls}", "-e",
                f"inject={calls}:signal=KILL:when={when}"], wait=False)
            wait_for("the psserver to be killed or the jobs to end", lambda: (
                process.poll() is not None or all(b.finished(j) for j in b.each())))
            # Where the jobs have ended, the call may still come.
            b.processes.pop("ps-0")
            process.kill()
            process.wait()
            b.start("ps-0", wait=False)
        b.end()


def N11_names_addresses_and_two_of_one_name():
    with Bed() as b:
        b.on()
        b.kill("ps-1")  # back at another address, the same state
        b.start("ps-1", ["--listen", f"unix:{b.dir}/elsewhere.sock"])
        b.on()
        b.restart("ps-1")
        for _ in range(3):  # the same address, in milliseconds
            b.restart("ps-1", wait=False)
        b.on(1, 10)
        first = b.processes.pop("w-0")
        at = b.mark("w-0")
        b.start("w-0", wait=False)  # a second process claims the name
        b.on_log("coordinator", "member replaced")
        b.end()
        check("goodbye" in b.log("w-0")[at:] or first.poll() is not None,
              "the replaced worker was not told why")
        first.kill()
        first.wait()


def N28_numbers_stay_honest_across_every_restart():
    with Bed() as b:
        high = {}
        for name in ("coordinator", "ps-0", "w-0", "coordinator"):
            b.on(same=True)
            b.kill_many([name])
            b.back([name])
            for job in b.each():
                now = b.status(job)
                asked, counted = int(now["steps_asked"]), int(now["steps_counted"])
                check(counted <= asked, f"{counted} steps of {asked}")
                for key in ("coordinator_restarts", "cuts"):
                    old = high.get((job, key), 0)
                    check(int(now[key]) >= old, f"{key}: {now[key]} after {old}")
                    high[job, key] = int(now[key])
        for job, done in b.end().items():
            check_equal(int(done["updates_applied"]) + int(done["updates_skipped"]),
                        int(done["steps_asked"]), f"{job}: updates")
            check(1 <= int(done["coordinator_restarts"]) <= 2,  # 1: ended before
                  f"{job}: {done['coordinator_restarts']} restarts")
            check_equal(int(done["closures_counted"]), int(done["closures_asked"]),
                        f"{job}: closures")


def F18_a_lost_disk_is_restored_from_the_cut_or_named():
    """Every snapshot file is gone: the shard cannot be loaded (K7), the job
    says so and waits; with the files back it goes on."""
    with Bed(net_epochs=20, sum_epochs=20) as b:
        wait_for("a cut of each job", lambda: all(
            int(b.status(j)["cuts"]) > 0 for j in b.each()))
        b.kill("ps-1")
        hidden = {}
        for path in pathlib.Path(b.dir / "store").rglob("shard-*"):
            with contextlib.suppress(FileNotFoundError):  # no longer wanted
                hidden[path] = path.read_bytes()
                path.unlink()
        b.start("ps-1")
        for job in b.each():
            wait_for("the job to say which shard cannot be loaded",
                     lambda j=job: "shard" in b.status(j)["reason"]
                     or b.finished(j))
        b.kill("ps-1")
        for path, content in hidden.items():
            path.write_bytes(content)
        b.start("ps-1")
        b.end()


if __name__ == "__main__":
    run(globals())
