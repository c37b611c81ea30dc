# SPDX-License-Identifier: Apache-2.0
"""Shards that move, or have a replica, while they are pushed to."""
import threading

from bed import check, wait_for
from table import MIB, at_most, at_most_more, row

SHARD = 60 * MIB  # a message has 64 MiB
MOVES = 6


def lies(c, job):
    return {s["psserver"] for s in c.status(job)["shards"]}


def move(c, job, to):
    """Moves all shards of the job to one of the two psservers."""
    other = f"ps-{1 - to}"
    c.run("drain", other)
    wait_for("the move", lambda: lies(c, job) == {f"ps-{to}"}, 60)
    c.run("undrain", other)


def steps(bench, moves):
    """One run of a program's steps, of one shard, which moves so often meanwhile."""
    with bench.cluster(over="tcp", psservers=2, cpu=None) as c:
        job, _ = c.place(elements=SHARD // 4, shards=1, optimizer="sgd", steps_per_closure=4)
        at = int(next(iter(lies(c, job)))[-1])
        out = []
        load = threading.Thread(target=lambda: out.append(bench.program(
            "lib_push", "--coordinator", c.address, "--job", job[2:], "--warmup", 2,
            "--seconds", max(60, 30 * bench.seconds), "--cpu", bench.client_cpu)))
        load.start()
        for _ in range(moves):
            at = 1 - at
            move(c, job, at)
        early = load.is_alive()
        load.join()
        told = sum(e["kind"] == "shard-moved" for e in c.json("events", job)["events"])
    check(out, "the program failed")
    check(told == moves and early, f"{told} moves of {moves} while steps were pushed")
    done = out[0]
    bench.note(f"{moves} moves, {done['messages']} steps: p50 {done['p50_ms']:.1f} ms, "
               f"p99 {done['p99_ms']:.1f}, max {done['max_ms']:.1f}")
    return done["p99_ms"] / 1e3


@row("move-pause", unit="s", peer="p99 without moves", bar=at_most_more(0.05, "s"),
     needs=["psserver", "libsluice", "lib_push"])
def move_pause(bench):
    """p99 of a step that pushes and pulls a shard of 60 MiB while that moves, six times."""
    return bench.alternate(lambda: steps(bench, MOVES), lambda: steps(bench, 0))


REPLICATED = 16 * MIB  # of parameters, in four shards


def step_ms(bench, replicas, replicate="ack"):
    """Milliseconds of a program's step that pushes and pulls all of them."""
    with bench.cluster(over="tcp", psservers=2, cpu=bench.server_cpu) as c:
        job, _ = c.place(elements=REPLICATED // 4, shards=4, optimizer="sgd",
                         steps_per_closure=16, replicas=replicas, replicate=replicate)
        wait_for("replicas", lambda: all(s.get("replica") for s in c.status(job)["shards"])
                 or not replicas, 60)
        done = bench.program("lib_push", "--coordinator", c.address, "--job", job[2:],
                             "--warmup", 1, "--seconds", max(4, 4 * bench.seconds),
                             "--cpu", bench.client_cpu)
        check(all(s.get("replica") for s in c.status(job)["shards"]) or not replicas,
              "a shard has lost its replica")
    bench.note(f"{replicas} replicas ({replicate}): {done['messages']} steps, "
               f"p50 {done['p50_ms']:.2f} ms, p99 {done['p99_ms']:.2f}")
    return done["p50_ms"]


@row("replica-cost", unit="ms", peer="without replicas", bar=at_most(1.6),
     needs=["psserver", "libsluice", "lib_push"])
def replica_cost(bench):
    """A step that pushes and pulls 16 MiB in four shards on two psservers, each with a replica
    on the other; both psservers have one core together."""
    return bench.alternate(lambda: step_ms(bench, 1), lambda: step_ms(bench, 0))


@row("replica-cost-follow", unit="ms", peer="without replicas", bar=at_most(1.15),
     needs=["psserver", "libsluice", "lib_push"])
def replica_cost_follow(bench):
    """The same with `replicate: follow`: no push waits for a replica."""
    return bench.alternate(lambda: step_ms(bench, 1, "follow"), lambda: step_ms(bench, 0))
