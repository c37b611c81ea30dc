#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Coordinators that die at each durable step, come back from a backup, or
come twice; requests whose answer was lost; ends at any state."""
import pathlib
import shutil
import signal

import conserve
from bed import (Bed, check, check_counts, check_equal, dice, ended, net, run,
                 stubs, wait_for)
from proxy import Proxy

SYNCS = "fsync,fdatasync"


def all_finished(b):
    return all(map(b.finished, b.each()))


def N1_coordinator_killed_at_every_journal_transition():
    """Killed inside the n-th sync of its journal and manifests, for n = 1, 2,
    ...: from the first of its recovery to those of cuts and of the end."""
    with Bed(net_epochs=16, sum_epochs=20) as b:
        killed = 0
        for n in range(1, 13):
            b.kill("coordinator")
            process = b.start_under("coordinator", [
                "-e", f"trace={SYNCS}",
                "-e", f"inject={SYNCS}:signal=KILL:when={n}"], wait=False)
            wait_for("the coordinator to die or the jobs to end", lambda: (
                process.poll() is not None or b.over()))
            if process.poll() is not None:
                killed += 1
                b.processes.pop("coordinator")
                b.start("coordinator")
            if all_finished(b):
                break
        check(killed >= 3, f"killed only {killed} times")
        b.end()


def N12_state_from_an_old_backup_pauses_the_jobs():
    """I7: the journal is behind what shards and manifests show. The coordinator
    serves, does nothing with those jobs, and says why."""
    with Bed(net_epochs=40, sum_epochs=27) as b:
        b.on()
        b.kill("coordinator")
        backup, now = b.dir / "backup", b.dir / "now"
        shutil.copytree(b.dir / "coordinator", backup)
        b.start("coordinator")
        cuts = {j: int(b.status(j)["cuts"]) for j in b.each()}
        for name in ("ps-0", "ps-1", "coordinator"):
            b.on(1, 5, same=True)
            b.restart(name)
        wait_for("further cuts", lambda: all(
            int(b.status(j)["cuts"]) > cuts[j] for j in b.each()))
        b.kill("coordinator")
        shutil.copytree(b.dir / "coordinator", now)
        b.no_history("the journal goes back in time: terms do not rise")
        replace(backup, b.dir / "coordinator")
        at = b.mark("coordinator")
        b.start("coordinator")
        for job in b.each():
            said = b.status(job)
            check(said.get("paused"), f"{job} is not paused", said)
            check("journal.sqlite" in said["reason"], "no way out", said)
        check("older than what ran" in b.log("coordinator")[at:],
              "no reason given", b.log("coordinator")[at:])
        b.kill("coordinator")
        replace(now, b.dir / "coordinator")  # the true state: all goes on
        b.start("coordinator")
        b.end()


def replace(source, target):
    shutil.rmtree(target)
    shutil.copytree(source, target)


def N12_two_coordinators_on_one_directory():
    with Bed() as b:
        plain = b.command
        b.command = lambda name: plain("coordinator")
        second = b.start("c-second", wait=False)
        code = ended(second)
        b.command = plain
        b.processes.pop("c-second")
        check(code != 0, "a second coordinator ran on the same state")
        said = b.log("c-second")
        for word in (str(b.dir / "coordinator"), str(b.pid("coordinator"))):
            check(word in said, f"the lock's error lacks '{word}'", said)
        b.end()


def N12_directory_lost():
    """Nothing is left of the jobs but snapshots and manifests: what was
    published can still be exported, and the daemons serve new jobs."""
    with Bed() as b:
        done = b.end()
        if b.history:
            b.check_history()
        b.no_history("accepted jobs vanish with the journal")
        b.kill("coordinator")
        shutil.rmtree(b.dir / "coordinator")
        b.start("coordinator")
        b.run("status", b.net, want=3)
        manifest = pathlib.Path(done[b.net]["checkpoint"])
        b.run("export", "--from", manifest, "--to", b.dir / "x.safetensors")
        check_counts(b.wait_state(b.submit(net("after", epochs=1))))


def N20_failover_at_epoch_ends_with_short_last_closures():
    """1013 samples: a short batch, a short closure; a cut and an evaluation are
    due at each epoch, and in that moment somebody dies."""
    spec = conserve.conserve_job(samples=101, epochs=60)
    with Bed(jobs=False, spec=spec) as b:
        odd = net("odd", epochs=24, batch=50, steps_per_closure=4)
        odd["data"]["train"]["limit"] = 1013
        b.net, b.sum = b.submit(odd), b.submit(spec)
        for text, victim in (("cut begun", "coordinator"), ("cut begun", "ps-1"),
                             ("evaluation begun", "coordinator"),
                             ("evaluation begun", "w-0"),
                             ("cut published", "coordinator")):
            at = b.mark("coordinator")
            wait_for(f"'{text}'", lambda at=at, text=text: text in b.log(
                "coordinator")[at:] or all_finished(b))
            b.kill_many([victim])
            b.back([victim])
        done = b.end()
        check_equal([int(e["samples"]) for e in done[b.net]["evaluations"]],
                    [1000] * 24, "samples of each evaluation")


def told(b, name, when):
    code = b.kill(name, signal.SIGTERM)
    check(code in (143, -signal.SIGTERM), f"{when}: exit status {code}")


def N22_sigterm_at_every_state():
    """Idle, running, without a coordinator: exit code as documented, nothing
    left behind, and after all of them the jobs are whole."""
    with Bed() as b:
        told(b, "coordinator", "coordinator")
        for name in ("ps-0", "w-0"):  # nobody to say goodbye to
            told(b, name, f"{name}, alone")
        check(not list(b.dir.glob("coordinator.sock")), "the socket was left")
        b.back(["coordinator", "ps-0", "w-0"])
        b.on()
        for name in ("w-0", "ps-0", "coordinator"):
            told(b, name, f"{name}, running")
        check(not list(b.dir.glob("ps-0.sock")), "the socket was left")
        b.back(["coordinator", "ps-0", "w-0"])
        b.end()
        for name in ("w-0", "w-1", "ps-0", "ps-1", "coordinator"):
            told(b, name, f"{name}, idle")
        left = [p.name for p in b.dir.rglob("*") if p.suffix in (".tmp", ".sock")
                or "tmp" in p.suffix]
        check(not left, f"left behind: {left}")


def N25_a_submit_whose_answer_was_lost_is_one_job():
    import grpc
    jobs, services = stubs("jobs.proto")
    spec = net("once", epochs=1)
    with Bed(jobs=False) as b, \
            Proxy(b.dir / "lossy.sock", b.dir / "coordinator.sock") as proxy:
        from google.protobuf import json_format
        spec["model"]["layers"][1]["activation"] = "relu"
        request = jobs.SubmitRequest(request_id="the-same")
        json_format.ParseDict(spec, request.spec)
        stub = services.JobsStub(grpc.insecure_channel(f"unix:{proxy.here}"))
        check_equal(len(stub.List(jobs.ListRequest(), timeout=30).jobs), 0, "jobs")
        proxy.stall("down")  # the request arrives, the answer does not
        answer = stub.Submit.future(request, timeout=60)
        wait_for("the job to be accepted", lambda: list_jobs(b))
        proxy.reset()
        try:
            answer.result()
            check(False, "the answer was not lost")
        except grpc.RpcError as error:
            check_equal(error.code(), grpc.StatusCode.UNAVAILABLE, "code")
        proxy.heal()
        for round_ in range(2):
            channel = grpc.insecure_channel(f"unix:{proxy.here}")
            reply = services.JobsStub(channel).Submit(
                request, timeout=30, wait_for_ready=True)
            check(reply.existed, f"retry {round_} made a second job")
            check_equal(list_jobs(b), [reply.id], "jobs")
            b.restart("coordinator")
        check_counts(b.wait_state(reply.id))


def list_jobs(b):
    return [j["id"] for j in b.json("jobs").get("jobs", [])]


if __name__ == "__main__":
    run(globals())
