#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Connections that are late, cut, reset or lose the answer, and whole calls
that come twice: by a proxy between the daemons, and by hand."""
import contextlib
import pathlib
import signal

import conserve
from bed import SEED, Bed, check, check_equal, dice, run, stubs, wait_for
from proxy import Proxy


class ProxyBed(Bed):
    """Everybody reaches everybody through a proxy. Workers but those in `near`
    share nothing with psservers, which would go past it."""
    near = ()
    proxied = "cp"

    def __enter__(self):
        self.proxies, self.stack = {}, contextlib.ExitStack()
        return super().__enter__()

    def __exit__(self, *why):
        self.stack.close()
        return super().__exit__(*why)

    def ends(self, name):
        """Where others reach it, and where it listens."""
        return self.dir / f"{name}.proxy", self.dir / f"{name}.sock"

    def at(self, name, end=0):
        where = self.ends(name)[end]
        return f"unix:{where}" if isinstance(where, pathlib.Path) else "%s:%d" % where

    def start(self, name, *more, **options):
        if name[0] in self.proxied and name not in self.proxies:
            self.proxies[name] = self.stack.enter_context(
                Proxy(*self.ends(name), seed=SEED))
        return super().start(name, *more, **options)

    def command(self, name):
        line = super().command(name)
        if name[0] != "c":
            line[line.index("--coordinator") + 1] = self.at("coordinator")
        if name[0] == "p":
            line[line.index("--listen") + 1] = self.at(name, 1)
            line += ["--advertise", self.at(name)]
        if name[0] == "w" and name not in self.near:
            line += ["--shm", "off"]
        return line


def heal(b):
    for proxy in b.proxies.values():
        proxy.heal()


def REL8_everything_is_late_by_a_random_time():
    with ProxyBed(net_epochs=2, sum_epochs=2) as b:
        for proxy in b.proxies.values():
            proxy.delay(0.004, 0.004)
        b.end()
        check(all(p.connections for p in b.proxies.values()), "a proxy is not used")


class FaultyBed(Bed):
    """Calls between workers and psservers come twice, again much later, or not
    at all, and answers are lost (common/net/rpc_faulty.h; testing builds)."""

    def start(self, name, *more, **options):
        if name[0] in "pw":
            options["environment"] = {"SLUICE_RPC_FAULT": (
                f"seed={dice.randrange(1 << 30)},double=100,replay=100,lose=20,"
                "lose_reply=20")}
        return super().start(name, *more, **options)


def REL8_calls_are_doubled_replayed_and_lost():
    with FaultyBed(net_epochs=6, sum_epochs=8) as b:
        for name in ("ps-0", "w-0"):  # what is kept outlives the other side
            b.on()
            b.restart(name)
        done = b.end()
        if b.history:  # a release build has no such bad luck
            check(sum(int(s["duplicates"]) for s in done.values()) > 20,
                  "hardly any call came twice")


STROKES = {
    "cut up": lambda p: p.cut_after(dice.randint(0, 5000), "up"),
    "cut down": lambda p: p.cut_after(dice.randint(0, 5000), "down"),
    "reset": lambda p: p.reset(),
    "half-close up": lambda p: p.half_close("up"),
    "half-close down": lambda p: p.half_close("down"),
    "slow": lambda p: p.slow(700, 0.001),
    "stall": lambda p: p.stall(dice.choice(["up", "down", "both"])),
}


def REL9_connections_are_cut_at_any_byte():
    with ProxyBed(net_epochs=30, sum_epochs=27) as b:
        for _ in range(2):
            strokes = list(STROKES)
            dice.shuffle(strokes)
            for stroke in strokes:
                name = dice.choice(sorted(b.proxies))
                STROKES[stroke](b.proxies[name])
                # who is not stalled goes on; a stall ends by a reset
                if stroke not in ("stall", "slow"):
                    b.further(b.sum, dice.randint(1, 10))
                heal(b)
                if stroke == "stall":
                    b.proxies[name].reset()
                b.further(b.sum, dice.randint(1, 10))
        b.end()


def N2_program_cut_off_from_the_coordinator_pushes_on():
    """The example worker does not look at its lease's end: a hostile one. What
    it pushes late counts once or not at all."""
    with Bed(workers=0, programs=0, jobs=False, sum_epochs=20) as b, \
            Proxy(b.dir / "x.proxy", b.dir / "coordinator.sock") as proxy:
        b.wanted = 1
        b.submit_both()
        plain, b.address = b.address, f"unix:{proxy.here}"
        b.programs.start("x-cut", "--step-ms", "10")
        b.address = plain
        b.on_log("x-cut", "steps, loss")  # it attends, and pushes
        at = b.mark("coordinator")
        proxy.stall()
        b.on_log("coordinator", "member lost", at)
        b.programs.start("x-0", *b.flags)  # not before: it would be through with the job
        b.on(same=True)
        proxy.heal()
        b.end()


def N3_program_cut_off_from_one_shard_of_two():
    with Bed(workers=0, programs=0, jobs=False, sum_epochs=20) as b, \
            Proxy(b.dir / "x.proxy", b.dir / "ps-1.sock") as proxy:
        b.wanted = 1
        b.submit_both()
        b.programs.start("x-cut", "--via",
                         f"unix:{b.dir}/ps-1.sock=unix:{proxy.here}")
        wait_for("the program to push through the proxy",
                 lambda: proxy.passed("up") > 2000)
        proxy.refuse()  # half a step is pushed, again and again
        b.programs.start("x-0")
        b.on()
        retried = int(b.status(b.sum)["closures_retried"])
        b.programs.kill("x-cut")
        wait_for("its closure to be leased elsewhere", lambda: int(
            b.status(b.sum)["closures_retried"]) > retried)
        b.end()


def N6_acknowledgement_lost_and_another_attempt_finishes():
    with Bed(workers=0, programs=0, jobs=False, sum_epochs=20) as b, \
            Proxy(b.dir / "x.proxy", b.dir / "ps-0.sock") as proxy:
        b.wanted = 1
        b.submit_both()
        b.programs.start("x-deaf", "--via",
                         f"unix:{b.dir}/ps-0.sock=unix:{proxy.here}")
        b.wait_steps(b.sum, 5)
        at = proxy.passed("up")
        proxy.stall("down")  # applied, and nobody hears of it
        wait_for("the push to arrive", lambda: proxy.passed("up") > at)
        deaf, lost = b.programs.running["x-deaf"], b.mark("coordinator")
        deaf.send_signal(signal.SIGSTOP)
        b.on_log("coordinator", "member lost", lost)
        b.programs.start("x-0", *b.flags)  # not before: it would be through with the rest
        wait_for("another attempt to finish", lambda: int(
            b.status(b.sum)["closures_retried"]) > 0)
        b.on(same=True)
        deaf.send_signal(signal.SIGCONT)
        proxy.heal()
        proxy.reset()  # it tries the same key again
        b.end()


def shard_key(ps, b, **more):
    status = b.status(b.sum)
    shard = next(s for s in b.shards(b.sum) if int(s["shard"]) == 0)
    return dict(job=int(status["job"]), shard=0,
                job_incarnation=int(status["incarnation"]),
                incarnation=int(shard["incarnation"]), closure=0, step=0,
                attempt={"term": 1, "n": 1}, samples=conserve.BATCH, **more)


def N7_a_push_comes_again_across_restarts_and_terms():
    """The very first push, repeated: to the same shard, to the shard under its
    next incarnation, after a change of term. Counted once, or refused."""
    import grpc
    ps, services = stubs("ps.proto")
    with Bed(workers=0, programs=1, psservers=1, sum_epochs=20) as b:
        b.on()  # the very first is counted: one program goes through them in order
        b.programs.start("x-1")
        wait_for("a cut", lambda: int(b.status(b.sum)["cuts"]) > 0)
        elements = int(b.status(b.sum)["parameters"])
        old = shard_key(ps, b, payload=b"\0\0\x80\x3f" * elements)

        def answer(key):
            stub = services.ShardsStub(grpc.insecure_channel(f"unix:{b.dir}/ps-0.sock"))
            try:
                return stub.PushPull(ps.PushRequest(**key), timeout=20)
            except grpc.RpcError as e:
                # The coordinator's map knows of an admission before the shard.
                if e.code() != grpc.StatusCode.UNAVAILABLE:
                    raise
                return None

        def push(key):
            return wait_for("the shard", lambda: answer(key))

        check_equal(push(old).result, ps.PUSH_DUPLICATE, "at once")
        b.restart("ps-0")
        b.shards(b.sum)
        reply = push(old)
        check_equal(reply.result, ps.PUSH_REFUSED, "after a restart")
        check_equal(reply.refused.why, ps.REFUSED_INCARNATION, "why")
        new = {**old, "incarnation": reply.incarnation}
        check_equal(push(new).result, ps.PUSH_DUPLICATE, "with the new incarnation")
        b.restart("coordinator")
        b.on(1, 10, same=True)
        check_equal(push(new).result, ps.PUSH_DUPLICATE, "after a change of term")
        old_job = {**new, "job_incarnation": new["job_incarnation"] - 1}
        check_equal(push(old_job).refused.why, ps.REFUSED_JOB_INCARNATION, "why")
        b.end()


if __name__ == "__main__":
    run(globals())
