#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All-reduce mode: workers keep the state, no psserver is there.

After each disturbance the job must finish with every step counted once and
every sample of every epoch counted once (check_counts), as in the other modes.
The moments of death come from a seed: SLUICE_SEED repeats a failure.
"""
import contextlib
import hashlib
import hmac
import os
import pathlib
import re
import random
import signal
import sqlite3

import asker
from cluster import (LIMIT, PATIENCE, ROOT, Cluster, Failed, check, check_counts, check_equal,
                     main, mlp_job, wait_for)
from scrape import OPS, address, metrics, value
from training import Training

SEED = int(os.environ.get("SLUICE_SEED", random.SystemRandom().randrange(1 << 32)))
dice = random.Random(SEED)
SCALE = 3 if PATIENCE > 1 else 1


class Ring(Cluster):
    """Workers with a store that they share."""

    def __init__(self, workers, psservers=0, **options):
        super().__init__(psservers=psservers, workers=workers, **options)
        self.args["worker"] += ["--store", str(self.dir / "store")]


def ring_job(name, epochs=3, workers=3, **train):
    return mlp_job(name, epochs=epochs,
                   **{"mode": "allreduce", "steps_per_closure": 10,
                      "workers": {"min": 1, "max": workers}, **train})


class Rounds(Training):
    """Training in a ring."""

    def __init__(self, c, name, epochs=20, spec=None, **train):
        spec = spec or ring_job(name, epochs=epochs // SCALE, **train)
        spec["checkpoint"]["every_seconds"] = 0.3  # one in the first half
        super().__init__(c, spec, dice, 30 // SCALE, 150 // SCALE)

    def wait_ranks(self, ranks):
        wait_for(f"a ring of {ranks}",
                 lambda: int(self.busy().get("ring_ranks", 0)) == ranks)

    def wait_checkpoint(self):
        wait_for("a checkpoint", lambda: self.busy().get("checkpoint"))


def exported(c, job, name):
    """The bytes of each variable. (A file also names its cut, and how many cuts
    there are by time is chance.)"""
    from safetensors.numpy import load_file
    path = c.dir / f"{name}.safetensors"
    manifest = c.json("status", job)["checkpoint"]
    c.run("export", "--from", manifest, "--to", path)
    return {key: value.tobytes() for key, value in load_file(str(path)).items()}


def one_rank_trains_alone():
    with Ring(workers=1) as c:
        job = c.submit(ring_job("alone", workers=1))
        done = c.wait_state(job)
        check_counts(done)
        check(done["evaluations"][-1]["accuracy"] > 0.6,
              f"accuracy {done['evaluations'][-1]['accuracy']}")


def ranks_average_to_the_bits_of_one():
    """Two contributions a round are the same round, whoever computes them; also
    of steps of three micro-batches, the last of them short."""
    found = []
    for workers in (1, 2):
        with Ring(workers=workers) as c:
            bits = []
            for accumulate in (1, 3):
                # no power of two: nothing is exact by luck
                job = c.submit(ring_job("bits", epochs=1, workers=workers,
                                        samples=3211, batch=35, contributions=2,
                                        accumulate=accumulate))
                check_counts(c.wait_state(job))
                bits.append(exported(c, job, f"bits-{accumulate}"))
            found.append(bits)
    for one, two in zip(*found):
        check(one == two, "two ranks have other parameters than one")
    check(found[0][0] != found[0][1], "steps of three times the samples are the same")


def a_rank_is_killed_and_another_joins():
    with Ring(workers=3) as c:
        training = Rounds(c, "kill")
        for _ in range(2):
            training.some_steps_on()
            name = f"w-{dice.randrange(3)}"
            c.kill(name)
            training.some_steps_on()
            c.start(name)
            training.wait_ranks(3)
        training.some_steps_on()
        training.end()


def a_newcomer_copies_while_the_others_go_on():
    """And says so, with the rounds that it has by then."""
    for more in ([], ["--shm", "off"]):
        with Ring(workers=3, worker_args=more) as c:
            training = Rounds(c, "ahead", epochs=120, contributions=3)
            training.spec["model"]["layers"][1]["units"] = 2048
            training.steps = (10, 40)
            name = f"w-{dice.randrange(3)}"
            training.some_steps_on()
            c.kill(name)
            training.wait_ranks(2)
            c.start(name)
            training.wait_ranks(3)
            training.busy()
            c.run("stop", training.job)
            copied = re.findall(r'"rank has copied".*?"rounds":(\d+)', c.log("coordinator"))
            check(copied and int(copied[-1]) > 0, f"copied: {copied}; {c.log(name)}")


def ring_token(c, job, generation):
    """What ranks of that generation show each other (proto/token.c), made with the
    key in the coordinator's journal."""
    with contextlib.closing(sqlite3.connect(c.dir / "coordinator" / "journal.sqlite")) as db:
        key = [db.execute("SELECT value FROM meta WHERE key = ?", (f"token_key_{i}",)).fetchone()
               for i in range(4)]
        numbers = db.execute("SELECT uid, incarnation FROM jobs WHERE id = ?",
                             (int(job[2:]),)).fetchone()
    words = " ".join(f"{n % (1 << 64):016x}" for n in (*numbers, generation))
    made = hmac.digest(b"".join((k % (1 << 64)).to_bytes(8, "little") for k, in key),
                       f"sluice.v1 rank {words}".encode(), hashlib.sha256)
    return {"low": int.from_bytes(made[:8], "little"),
            "high": int.from_bytes(made[8:16], "little")}


def follow(c, job):
    """Asks each rank for the image of each part, as a newcomer does that dies then:
    how many ranks have made one."""
    import grpc
    asker.protocol(str(ROOT / "proto"))
    messages, services = grpc.protos_and_services("ranks.proto")
    made = 0
    for name in ("w-0", "w-1"):
        port = re.search(r'"port":(\d+)', c.log(name))[1]
        generation = 1
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            for part in (0, 1):
                for _ in range(20):
                    try:
                        services.RanksStub(channel).State(messages.StateRequest(
                            job=int(job[2:]), generation=generation, bytes=40, follower=7,
                            part=part, token=ring_token(c, job, generation)), timeout=5)
                        made += 1
                        break
                    except grpc.RpcError as error:
                        found = re.search(r"this rank is in (\d+)", error.details() or "")
                        generation = int(found[1]) if found else generation
    return made


def a_follower_that_dies_near_the_end_keeps_no_cut_away():
    """No round forgets it, where none follows."""
    with Ring(workers=2) as c:
        for count in range(5):
            # Longer each time: on a busy machine a job may be over before it is asked.
            job = c.submit(ring_job(f"near-{count}", epochs=8 << count, workers=2,
                                    contributions=2))
            c.wait_steps(job, 300)
            made = follow(c, job)
            check_counts(c.wait_state(job))
            if made:
                given_up = c.log("coordinator").count("cut given up")
                check(given_up < 5, f"{given_up} checkpoints were given up")
                return
        raise Failed("no rank has made an image")


def ranks_of_other_hosts_sum_over_the_network():
    """Without shared memory a worker is a host of its own."""
    for wire in ("f32", "bf16", "f16"):
        with Ring(workers=3, worker_args=["--shm", "off"]) as c:
            training = Rounds(c, "net", epochs=6, wire=wire)
            training.spec["model"]["layers"][1]["units"] = 16
            training.some_steps_on()
            wait_for("what a sum costs to be told", lambda: int(
                training.busy().get("sum_bytes", 0)) > 0)
            c.restart("w-1")
            training.wait_ranks(3)
            training.some_steps_on()
            done = c.wait_state(training.job)
            check_counts(done)
            check(done["evaluations"][-1]["accuracy"] > 0.7,
                  f"{wire}: accuracy {done['evaluations'][-1]['accuracy']}")


def a_round_that_is_not_finite_is_skipped_by_all():
    """At such a rate the parameters grow until the loss is not a number."""
    for more in ([], ["--shm", "off"]):
        with Ring(workers=2, worker_args=more) as c:
            spec = ring_job("nan", epochs=1, workers=2, wire="f16")
            spec["optimizer"] = {"type": "sgd", "learning_rate": 1e30}
            job = c.submit(spec)
            done = c.wait_state(job)
            check_counts(done)
            check(int(done["updates_skipped"]) > 100,
                  f"skipped: {done['updates_skipped']}")
            spec["train"]["nonfinite"] = "fail"
            job = c.submit(spec)
            done = c.wait_state(job, "failed")
            check("not finite" in done["reason"], done["reason"])


def large_job(c, name, **train):
    """First layers that are small beside a large one, and in two of its batches
    samples that the first layers do not mind: what two of them add to the
    gradient of the last layer is no number, so their rounds are skipped."""
    import numpy as np
    x_path, y_path = (c.dir / f"large-{name}.npy" for name in "xy")
    if not x_path.exists():
        draw = np.random.default_rng(5)
        x = draw.normal(size=(1605, 28, 28, 1)).astype(np.float32)
        y = x[:, :3, :3].sum(axis=(1, 2)).astype(np.float32)
        for first in (210, 840):  # a batch of 35, or of 105, has both
            x[first:first + 2, 14, 14, 0] = 3e38
        np.save(x_path, x)
        np.save(y_path, y)
    spec = ring_job(name, bucket_bytes=65536, shuffle=False, **train)
    spec["loss"] = "mean_absolute_error"
    spec["model"]["layers"] = [
        {"type": "activation", "activation": "tanh", "name": "small"},
        {"type": "conv2d", "filters": 8, "kernel_size": 3, "padding": "same"},
        {"type": "batch_normalization"},
        {"type": "activation", "activation": "relu"},
        {"type": "max_pooling2d", "pool_size": 2},
        {"type": "conv2d", "filters": 16, "kernel_size": 3, "padding": "same",
         "activation": "relu"},
        {"type": "flatten"},
        {"type": "dense", "units": 96, "activation": "relu", "name": "of_layers"},
        {"type": "flatten", "name": "as_it_is", "inputs": ["input"]},
        {"type": "concatenate", "inputs": ["of_layers", "as_it_is"]},
        {"type": "dense", "units": 1}]
    source = {"format": "npy", "x": str(x_path), "y": str(y_path)}
    spec["data"] = {"train": source, "test": {**source, "limit": 100}}
    return spec


def ahead_of_its_round(c):
    return sum(value(metrics(address(c, name)), "sluice_ring_steps_ahead_total")
               for name in c.processes if name.startswith("w-"))


def a_round_that_begins_before_the_last_one_ends_has_the_same_bits():
    """Between hosts sums of first layers overtake; one worker has nobody to sum
    with, and begins a round when the last one is over."""
    found = []
    for workers in (1, 2):
        with Ring(workers=workers, worker_args=["--shm", "off", *OPS]) as c:
            bits = []
            for accumulate in (1, 3):
                job = c.submit(large_job(c, "ahead", epochs=2, workers=2, batch=35,
                                         contributions=2, accumulate=accumulate))
                done = c.wait_state(job)
                check_counts(done)
                check(0 < int(done["updates_skipped"]) < int(done["steps_counted"]) / 2,
                      f"skipped: {done['updates_skipped']} of {done['steps_counted']}")
                bits.append(exported(c, job, f"ahead-{accumulate}"))
            found.append(bits)
            began = ahead_of_its_round(c)
            check(began == 0 if workers == 1 else began > 20,
                  f"{workers} ranks: {began} steps began ahead")
    for one, two in zip(*found):
        check(one == two, "two ranks have other parameters than one")


def audits_compare_gradients_and_blame_no_rank():
    """A1, A3: ranks compute the slots of the next two ranks of most
    rounds: they get the same bits, of gradients that are no numbers, too, and the
    result is that of a job without audits."""
    with Ring(workers=3, worker_args=["--shm", "off", *OPS]) as c:
        bits = []
        for audit in (0, 0.8):
            spec = large_job(c, "audited", epochs=2, batch=20, contributions=5,
                             accumulate=2, audit=audit)
            spec["train"]["workers"]["min"] = 3
            job = c.submit(spec)
            done = c.wait_state(job)
            check_counts(done)
            bits.append(exported(c, job, f"audited-{audit}"))
            found = {key: int(n) for key, n in done.get("audit", {}).items()}
            print(f"audit {audit}: {found}", flush=True)
        check(found["compared"] >= 20, f"hardly any audit: {found}")
        check_equal((found["differed"], found["decided"]), (0, 0), "audits")
        check(bits[0] == bits[1], "audits changed the bits")
        check_equal([m["name"] for m in c.cluster_status()["members"] if m["suspect"]],
                    [], "suspect")
    with Ring(workers=3, worker_args=["--device", "cpu,cpu"]) as c:
        spec = large_job(c, "parts", epochs=1, batch=20, contributions=5, audit=1)
        spec["train"]["workers"]["min"] = 3
        done = c.wait_state(c.submit(spec))
        found = {key: int(n) for key, n in done["audit"].items()}
        check(found["compared"] >= 5, f"ranks of several devices: {found}")
        check_equal((found["differed"], found["decided"]), (0, 0), "ranks of several devices")


def rounds_that_had_begun_are_torn():
    with Ring(workers=3, worker_args=["--shm", "off", *OPS]) as c:
        training = Rounds(c, "torn", spec=large_job(c, "torn", epochs=4))
        training.steps = (20, 20)
        for i in range(3):
            training.some_steps_on()
            c.restart(f"w-{i}")
        training.some_steps_on()
        training.end()
        check(ahead_of_its_round(c) > 0, "no step began ahead")


def the_only_rank_is_killed():
    """Nobody holds the state: the last cut is the base, or the seed."""
    with Ring(workers=1) as c:
        training = Rounds(c, "only", workers=1)
        for _ in range(2):
            training.some_steps_on()
            c.restart("w-0")
        training.wait_checkpoint()
        c.restart("w-0")
        training.end()


def all_ranks_are_killed():
    with Ring(workers=2) as c:
        training = Rounds(c, "all", workers=2)
        training.wait_checkpoint()
        training.some_steps_on()
        for name in ("w-0", "w-1"):
            c.kill(name)
        for name in ("w-0", "w-1"):
            c.start(name)
        training.end()


def the_coordinator_is_killed_and_restarted():
    with Ring(workers=2) as c:
        training = Rounds(c, "coordinator", workers=2)
        for _ in range(2):
            training.some_steps_on()
            c.restart("coordinator")
        training.some_steps_on()
        training.end()


def a_silent_rank_is_left_out_and_comes_back():
    with Ring(workers=3) as c:
        training = Rounds(c, "silent")
        training.some_steps_on()
        c.pause("w-1")
        training.wait_ranks(2)
        training.some_steps_on()
        c.resume("w-1")
        training.some_steps_on()
        training.end()


def a_silent_rank_takes_nothing_of_the_others_with_it():
    """What its socket does not take any more is more than buffers hold. It is
    silent until the others go on, which core's keepalive makes possible after
    15 s; a ring that is left must not wait for that."""
    with Ring(workers=3, worker_args=["--shm", "off"]) as c:
        training = Rounds(c, "full", epochs=120)
        training.spec["model"]["layers"][1]["units"] = 1024
        training.steps = (10, 40)
        training.some_steps_on()
        c.pause("w-1")
        training.wait_ranks(2)
        steps = c.steps(training.job)
        c.wait_steps(training.job, steps + 9, limit_s=8 / LIMIT)  # at its end 15 s have not passed
        c.run("stop", training.job)


def a_drained_rank_hands_back():
    with Ring(workers=2) as c:
        training = Rounds(c, "drain", workers=2)
        training.drain(lambda: "w-0")
        training.some_steps_on()
        training.end()


def jobs_are_resumed_from_the_other_mode():
    with Ring(workers=2, psservers=2) as c:
        first = c.submit(mlp_job("async", epochs=1, steps_per_closure=10))
        c.wait_state(first)
        ring = c.submit(ring_job("ring", epochs=2, workers=2), "--resume", first)
        done = c.wait_state(ring)
        check_counts(done)
        last = c.submit(mlp_job("back", epochs=3, steps_per_closure=10),
                        "--resume", ring)
        check_counts(c.wait_state(last))


def files_of_old_cuts_go():
    with Ring(workers=2) as c:
        job = c.submit(ring_job("files", epochs=8, workers=2)
                       | {"checkpoint": {"every_epoch": True, "keep": 2}})
        check_counts(c.wait_state(job))
        store = pathlib.Path(c.dir / "store")

        # A cut that was given up leaves files, until an older one is let go of.
        def few():
            rounds = {int(p.name.split(".")[2][1:]) for p in store.rglob("*.safetensors")}
            kept = sorted(int(n) for p in store.rglob("cut-*.json")
                          for n in re.findall(r"\.n(\d+)\.safetensors", p.read_text()))
            return 0 < len(set(kept)) <= 2 and min(rounds) == kept[0]
        wait_for("old files to be deleted", few, 20)


if __name__ == "__main__":
    print(f"SLUICE_SEED={SEED}", flush=True)
    main([one_rank_trains_alone, ranks_average_to_the_bits_of_one,
          a_rank_is_killed_and_another_joins,
          a_newcomer_copies_while_the_others_go_on,
          a_follower_that_dies_near_the_end_keeps_no_cut_away,
          ranks_of_other_hosts_sum_over_the_network,
          a_round_that_is_not_finite_is_skipped_by_all,
          a_round_that_begins_before_the_last_one_ends_has_the_same_bits,
          audits_compare_gradients_and_blame_no_rank,
          rounds_that_had_begun_are_torn, the_only_rank_is_killed,
          all_ranks_are_killed, the_coordinator_is_killed_and_restarted,
          a_silent_rank_is_left_out_and_comes_back,
          a_silent_rank_takes_nothing_of_the_others_with_it,
          a_drained_rank_hands_back,
          jobs_are_resumed_from_the_other_mode, files_of_old_cuts_go])
