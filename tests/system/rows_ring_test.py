#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables beside a ring (train.mode allreduce): the ranks have the dense part of a job,
psservers its rows. A step counts for both or for neither, whoever dies."""
from access_test import Guarded
from cluster import check, check_counts, check_equal, main, wait_for
from external_test import exported
from native_rows_test import SAMPLES, check_evaluation, clicks, rows_of, score
from ring_test import Ring
from rows_rounds_test import (
    BATCH, RING, SLOTS, check_as_numpy, check_numpy, given_weights, left, rounds_job)

EPOCHS = 90


class Sealed(Ring, Guarded):
    """Ranks with certificates."""


def ring_job(c, epochs=EPOCHS, **train):
    made = rounds_job(c.dir, epochs, checkpoint={"every_seconds": 0.2})
    made["train"] = {"epochs": epochs, **RING, **train}
    made["model"]["layers"][0]["embeddings_initializer"] = "ones"
    return made


def start(c, **train):
    """A job from given weights."""
    given_weights(c.dir / "weights.safetensors")
    clicks(c.dir / "clicks.csv", SAMPLES, 1)
    return c.submit(ring_job(c, **train), "--weights", c.dir / "weights.safetensors")


def is_as_numpy_says(c, job):
    check_counts(c.wait_state(job))
    check_as_numpy(c, job, EPOCHS, 1e-3)


def kill_in_turn(c, job, names):
    """Each when the job has got on since the death before."""
    for name in names:
        c.wait_steps(job, int(c.status(job)["steps_counted"]) + 8 * SLOTS)
        c.restart(name, wait=name == "coordinator")


def every_role_dies():
    """R8, R9: a rank, a psserver and the coordinator, in turn."""
    with Ring(workers=2, psservers=2) as c:
        job = start(c)
        kill_in_turn(c, job, ("w-1", "ps-0", "coordinator", "w-0", "ps-1", "ps-0"))
        is_as_numpy_says(c, job)


def the_bits_are_the_same_whoever_died():
    """Of one rank, which adds up in one order: a round that counted in one part and not in the
    other would show."""
    found = None
    for victims in ((), ("ps-0", "w-0", "ps-1", "coordinator", "w-0")):
        with Ring(workers=1, psservers=2) as c:
            clicks(c.dir / "clicks.csv", SAMPLES, 1)
            job = c.submit(ring_job(c))
            kill_in_turn(c, job, victims)
            check_counts(c.wait_state(job))
            other = left(c, job)
            found = found or other
            check_equal(set(other), set(found), "what is there")
            wrong = [name for name, value in other.items() if value != found[name]]
            check(not wrong, f"other bits: {wrong[:5]} and others, {len(wrong)} of {len(other)}")


def everybody_dies():
    """All ranks, and with them the state: ranks and rows go back to one cut."""
    with Ring(workers=2, psservers=2) as c:
        job = start(c)
        wait_for("a cut", lambda: int(c.status(job)["cuts"]) > 1)
        c.wait_steps(job, int(c.status(job)["steps_counted"]) + 8 * SLOTS)
        for name in ("w-0", "w-1"):
            c.kill(name)
        for name in ("w-0", "w-1"):
            c.start(name)
        is_as_numpy_says(c, job)


def workers_come_and_go():
    """A newcomer copies the dense state, and reads rows as the others do."""
    with Ring(workers=1, psservers=1) as c:
        job = start(c)
        for name in ("w-1", "w-2"):
            c.wait_steps(job, int(c.status(job)["steps_counted"]) + 8 * SLOTS)
            c.start(name)
        wait_for("a ring of 3", lambda: int(c.status(job).get("ring_ranks", 0)) == 3)
        c.wait_steps(job, int(c.status(job)["steps_counted"]) + 8 * SLOTS)
        c.kill("w-0")
        is_as_numpy_says(c, job)


def check_drain_says_that_rows_stay(c, job):
    stays = f"1 of its shards stays beside a ring until {job} has ended"
    told = c.run("drain", "ps-1").stderr
    check("those that it has (1) move away" in told and stays in told, told)
    shown = {m["name"]: m for m in c.json("servers")["members"]}["ps-1"]
    check(shown["shards"] == 1 and stays in shown["reason"], shown)
    c.run("undrain", "ps-1")


def a_drain_and_a_pause_keep_both():
    """The ranks are released, and with them their state."""
    with Ring(workers=2, psservers=2) as c:
        job = start(c)
        c.wait_steps(job, 40 * SLOTS)
        check_drain_says_that_rows_stay(c, job)
        c.run("pause", job)
        check(c.json("status", job)["pause"]["holds"], "the job goes on")
        listed = [m["name"] for m in c.json("servers")["members"]]
        check_equal(sorted(listed), ["ps-0", "ps-1"], "psservers that have its shards")
        c.run("resume", job)
        is_as_numpy_says(c, job)


def micro_batches_are_those_of_numpy():
    check_numpy({**RING, "batch": BATCH // 2, "accumulate": 2}, workers=2)


def an_evaluation_reads_the_rows_of_its_cut():
    with Ring(workers=2, psservers=2) as c:
        clicks(c.dir / "clicks.csv", SAMPLES, 1)
        data = clicks(c.dir / "test.csv", 96, 2)
        made = ring_job(c, 8)
        made["data"]["test"] = {**made["data"]["train"], "x": str(c.dir / "test.csv")}
        made["evaluate"] = {"every_epochs": 8}
        job = c.submit(made)
        done = c.wait_state(job)
        check_counts(done)
        check_evaluation(c, job, done["evaluations"][-1], data)


def no_cut_waits_for_callbacks():
    """R6: they hold the ring after each epoch, which is shorter than the time by which a cut
    is asked for in advance."""
    with Ring(workers=2, psservers=2) as c:
        clicks(c.dir / "clicks.csv", SAMPLES, 1)
        clicks(c.dir / "test.csv", 96, 2)
        made = ring_job(c, 12)
        made["data"]["test"] = {**made["data"]["train"], "x": str(c.dir / "test.csv")}
        made["evaluate"] = {"every_epochs": 1}
        made["callbacks"] = {"early_stopping": {"patience": 1000}}
        made["checkpoint"] = {"every_seconds": 0.05}
        done = c.wait_state(c.submit(made))
        check_counts(done)
        check_equal(len(done["evaluations"]), 12, "evaluations")
        late = [line for line in c.log("coordinator").splitlines()
                if "not every rank reported in time" in line]
        check(not late, "cuts that nobody could write", *late)


def a_job_goes_on_in_another_mode():
    """From a ring into shards on psservers alone, and back, each from the end of the one
    before."""
    with Ring(workers=2, psservers=2) as c:
        data, words = clicks(c.dir / "clicks.csv", SAMPLES, 1), []
        for i, mode in enumerate(("allreduce", "async", "allreduce", "sync", "allreduce")):
            made = ring_job(c, 8 * (i + 1), mode=mode)
            if mode == "async":
                del made["train"]["contributions"]
            job = c.submit(made, *words)
            done = c.wait_state(job)
            check_counts(done)
            words = ["--resume", job]
        check_equal(set(rows_of(c, job, "users")), set(data[2]), "users with a row")
        loss, _ = score(exported(c, job), rows_of(c, job, "users"), rows_of(c, job, "tags"), data)
        check(loss < 0.6, f"loss {loss}: nothing is learnt")
        path = c.dir / "users.safetensors"  # rows of another job, and the seed for the ranks
        c.run("export", job, "--table", "users", "--to", path)
        check_counts(c.wait_state(c.submit(ring_job(c, 2), "--table-weights", f"users={path}")))


def a_round_that_is_not_finite_is_skipped_by_ranks_and_rows():
    """Samples of some steps whose loss is no number. What is skipped is counted, in the parts
    and in the shards of rows."""
    with Ring(workers=2, psservers=2) as c:
        clicks(c.dir / "clicks.csv", SAMPLES, 1)
        lines = (c.dir / "clicks.csv").read_text().splitlines()
        for i in (5, 200, 201):
            words = lines[i].split(",")
            lines[i] = ",".join([words[0], "3e38", "3e38", *words[3:]])
        (c.dir / "clicks.csv").write_text("\n".join(lines) + "\n")
        made = ring_job(c, 6)
        made["model"]["layers"].insert(
            3, {"type": "dense", "name": "wide", "units": 4, "kernel_initializer": "ones"})
        done = c.wait_state(c.submit(made))
        check_counts(done)
        skipped = {int(s["counts"]["skipped"]) for s in done["shards"]}
        check(len(skipped) == 1 and 0 < skipped.pop() < int(done["steps_counted"]),
              f"skipped: {skipped}")


def types_and_devices_train():
    check_numpy(RING, workers=2, worker_args=["--device", "cpu,cpu"])
    with Ring(workers=2, psservers=2) as c:
        clicks(c.dir / "clicks.csv", SAMPLES, 1)
        for words in ({"precision": "f16"}, {"wire": "bf16"}, {"rows_wire": "int8"}):
            done = c.wait_state(c.submit(ring_job(c, 8, **words)))
            check_counts(done)
            check(float(done["loss"]) < 0.68, f"{words}: nothing is learnt: {done['loss']}")


def links_are_encrypted_and_calls_show_tokens():
    """A rank shows no lease of a closure; its attempts are noted nowhere, and all the same no
    step counts twice."""
    with Sealed(workers=2, psservers=2) as c:
        clicks(c.dir / "clicks.csv", SAMPLES, 1)
        job = c.submit(ring_job(c, 10))
        check_counts(c.wait_state(job))


if __name__ == "__main__":
    main([every_role_dies,
          the_bits_are_the_same_whoever_died,
          everybody_dies,
          workers_come_and_go,
          a_drain_and_a_pause_keep_both,
          micro_batches_are_those_of_numpy,
          an_evaluation_reads_the_rows_of_its_cut,
          no_cut_waits_for_callbacks,
          a_job_goes_on_in_another_mode,
          a_round_that_is_not_finite_is_skipped_by_ranks_and_rows,
          types_and_devices_train,
          links_are_encrypted_and_calls_show_tokens])
