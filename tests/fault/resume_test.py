#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs that start from a cut of another job (row N13): exact sums show that
what the cut holds is there once, whatever the number of shards, and that rows
which counted different steps are never put under one counted set."""
import json
import pathlib

import conserve
from bed import Bed, check, check_counts, check_equal, net, run, wait_for


def job(epochs, **checkpoint):
    spec = conserve.conserve_job(epochs=epochs)
    spec["checkpoint"] = {"every_seconds": 0.2, "keep": 1000, **checkpoint}
    return spec


def bed(psservers, programs=3):
    return Bed(workers=0, psservers=psservers, programs=programs, jobs=False)


def checkpoints(b, name):
    return b.json("checkpoints", name).get("checkpoints", [])


def uneven(cut):
    return len({shard["steps"] for shard in cut["shards"]}) > 1


def resume(b, spec, what, *more, want=0):
    path = b.dir / "resume.yaml"
    path.write_text(json.dumps(spec))
    return b.run("submit", path, "--no-wait", "--resume", what, *more, want=want)


def from_cut(b, steps, *psservers):
    """How often a shard began with so many steps and no snapshot of its own."""
    return sum(b.log(name).count(f'"from":"0.0","steps":{steps},')
               for name in psservers)


def ends_exact(b, name, spec, shards):
    done = b.wait_state(name)
    check_counts(done)
    check_equal(len(done["shards"]), shards, "shards")
    conserve.check_conserved(b, name, spec)
    return done


def stopped_uneven(b, spec):
    """A job that is stopped with a cut whose shards hold different numbers of
    steps, in the midst of its epochs: (its id, that cut). Not every job has
    one: then the next may."""
    steps = len(list(conserve.steps_of(conserve.SAMPLES, spec["train"]["epochs"])))
    cut = None
    while cut is None:
        name = b.submit(spec)

        def found():
            over = int(b.status(name)["steps_counted"]) >= steps // 2
            cuts = [c for c in checkpoints(b, name) if uneven(c)]
            cuts = [c for c in cuts if steps // 10 < int(c["steps"]) < steps // 2]
            return (cuts[-1:], over) if cuts or over else None
        cuts, _ = wait_for("a cut of unequal shards, or the second half", found)
        stopped = b.run("stop", name, want=None).returncode == 0  # not over by now
        cut = cuts[0] if cuts and stopped else None
    return name, cut


def N13_an_uneven_cut_is_never_merged_and_goes_on_as_it_was_cut():
    spec = job(epochs=20)
    with bed(psservers=2) as b:
        name, cut = stopped_uneven(b, spec)
        jobs = len(b.json("jobs")["jobs"])
        b.start("ps-2")
        refused = resume(b, spec, cut["manifest"], want=6).stderr
        for word in ("is uneven", "has counted", "placement.psservers=2"):
            check(word in refused, f"the refusal lacks '{word}'", refused)
        for one in cut["shards"]:
            check(f" {one['steps']} " in refused or f" {one['steps']}." in refused,
                  f"the refusal does not say {one['steps']} steps", refused)
        check_equal(len(b.json("jobs")["jobs"]), jobs, "jobs")
        again = resume(b, spec, cut["manifest"],
                       "--set", "placement.psservers=2").stdout.strip()
        b.kill("coordinator")  # accepted is accepted
        b.kill("ps-0")
        b.start("coordinator")
        b.start("ps-0")
        done = ends_exact(b, again, spec, shards=2)
        check_equal([s["psserver"] for s in done["shards"]],
                    [s["psserver"] for s in cut["shards"]], "where the files lie")
        check_equal(int(done["resumed_steps"]), int(cut["steps"]), "steps found")
        check_equal(done["resumed_from"], cut["manifest"], "resumed from")
        for one in cut["shards"]:
            check(from_cut(b, int(one["steps"]), "ps-0", "ps-1"),
                  f"no shard began with the {one['steps']} steps of its own")


def N13_an_even_cut_goes_on_on_any_number_of_shards():
    first, more = job(epochs=6), job(epochs=12)
    with bed(psservers=2) as b:
        name = b.submit(first)
        ends_exact(b, name, first, shards=2)
        for psservers in (3, 1):
            if psservers == 3:
                b.start("ps-2")
            again = resume(b, more, name, "--set",
                           f"placement.psservers={psservers}").stdout.strip()
            done = ends_exact(b, again, more, shards=psservers)
            check_equal(int(done["resumed_steps"]) * 2, int(done["steps_asked"]),
                        "steps found")


def N13_a_cut_in_the_midst_of_an_epoch_is_cut_anew_while_psservers_die():
    """One shard is even at any step. Its rows go to three, and the first
    snapshots of the new job kill two of the psservers: what they start from
    then is the same cut, for there is no other yet."""
    spec = job(epochs=20)
    with bed(psservers=1) as b:
        name = b.submit(spec)
        b.wait_steps(name, 700)
        wait_for("a cut", lambda: int(b.status(name)["cuts"]) > 1)
        b.run("stop", name)
        found = int(checkpoints(b, name)[-1]["steps"])
        dies = {"SLUICE_FAULT": "snap.begin=kill"} if b.history else {}
        for new in ("ps-1", "ps-2"):
            b.start(new, environment=dies)
        again = resume(b, spec, name).stdout.strip()
        for new in ("ps-1", "ps-2"):
            if dies:
                wait_for("its death", lambda n=new: b.processes[n].poll() is not None)
            b.restart(new)
        ends_exact(b, again, spec, shards=3)
        for new in ("ps-1", "ps-2") if dies else ():
            check_equal(from_cut(b, found, new), 2, f"{new}: loads from the cut")


def N13_a_net_takes_its_optimizer_along_and_is_evaluated_once():
    """Adam's slots move with their rows: a net that lost them would fall back
    in its first steps. Of the epochs that the cut holds the last one is
    evaluated, and the same to the last digit, for it is the same net: nothing
    beyond it is trained where early_stopping waits for it."""
    spec = net(epochs=4)
    spec["callbacks"] = {"early_stopping": {"patience": 10}}
    with Bed(workers=2, psservers=2, programs=0, jobs=False) as b:
        name = b.submit(net(epochs=2))
        was = b.wait_state(name)
        b.start("ps-2")
        again = resume(b, spec, name).stdout.strip()
        done = b.wait_state(again)
        check_counts(done)
        check_equal(len(done["shards"]), 3, "shards")
        evaluated = {int(e["epoch"]): e for e in done["evaluations"]}
        check_equal(sorted(evaluated), [2, 3, 4], "epochs evaluated")
        check_equal(evaluated[2]["accuracy"], was["evaluations"][-1]["accuracy"],
                    "accuracy of what the cut holds")
        check(abs(evaluated[2]["loss"] - was["evaluations"][-1]["loss"]) < 1e-6,
              "the loss of what the cut holds is another")


def N13_a_file_that_is_missing_or_not_the_one_is_named():
    spec = job(epochs=8)
    with bed(psservers=2) as b:
        name = b.submit(spec)
        ends_exact(b, name, spec, shards=2)
        file = checkpoints(b, name)[-1]["shards"][1]
        path = pathlib.Path(file["folder"]) / file["file"]
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        more = job(epochs=10)
        again = resume(b, more, name).stdout.strip()
        for words in ("SHA-256 differs", "No such file"):
            wait_for(f"'{words}' and the file in the reason", lambda w=words: all(
                x in b.status(again)["reason"] for x in (w, file["file"])))
            if path.exists():
                b.kill("ps-1")
                path.unlink()
                b.start("ps-1")
        check("stop it" in b.run("delete", name, want=6).stderr,
              "a job was deleted that another one starts from")
        path.write_bytes(whole)
        b.restart("ps-1")
        ends_exact(b, again, more, shards=2)


def N13_what_does_not_go_on_with_the_cut_is_refused():
    spec, long = job(epochs=6), job(epochs=40)
    with bed(psservers=2) as b:
        name = b.submit(long)
        b.wait_steps(name, 50)
        wait_for("a cut", lambda: int(b.status(name)["cuts"]) > 0)
        running = resume(b, long, name, want=6).stderr
        check("stop it first" in running, "a running job was resumed", running)
        b.run("stop", name)
        name = b.submit(spec)
        b.wait_state(name)
        for key, value in (("train.batch", 8), ("train.seed", 7),
                           ("train.epochs", 5), ("train.steps_per_closure", 2),
                           ("optimizer.type", "adam"), ("optimizer.momentum", 0.9)):
            said = resume(b, spec, name, "--set", f"{key}={value}", want=2).stderr
            check(key in said, f"the refusal does not name {key}", said)
        spec["model"]["variables"][2]["shape"] = [8, 8]
        said = resume(b, spec, name, want=2).stderr
        check("'v2'" in said, "the refusal does not name the variable", said)
        said = resume(b, job(epochs=6), "/etc/passwd", want=5).stderr
        check("store" in said, "a file outside of the store was read", said)


if __name__ == "__main__":
    run(globals())
