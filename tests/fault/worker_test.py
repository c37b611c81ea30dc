#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workers that die, leave, come, and are slow: TensorFlow's rows about workers,
with == where it has >=."""
import os
import signal

import conserve
from bed import (Bed, check, check_counts, check_equal, dice, net, run, size,
                 wait_for)
from cluster import LIMIT, fashion_source


def fds(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def F1_a_client_that_vanishes_leaves_nothing_behind():
    with Bed(**size()) as b:
        b.on(1, 5)
        before = fds(b.pid("coordinator"))
        import subprocess
        from cluster import BIN
        for _ in range(10):
            client = subprocess.Popen(
                [str(BIN / "sluice"), "--coordinator", b.address, "-o", "json",
                 "watch", b.net],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            client.stdout.readline()
            client.kill()
            client.wait()
        wait_for("the clients' sockets to be closed",
                 lambda: fds(b.pid("coordinator")) <= before + 1)
        b.end()
        check_counts(b.wait_state(b.submit(net("next", epochs=1))))


def F2_worker_killed_between_closures():
    with Bed(jobs=False, sum_epochs=4, net_epochs=2, **size()) as b:
        for _ in range(2):
            b.kill_many(["w-0", "x-0"])
            b.submit_both()
            b.back(["w-0", "x-0"])
            b.end()


def F3_worker_killed_inside_a_closure():
    """Half a step pushed: one shard has counted it, the other has not."""
    with Bed(programs=0, jobs=False, workers=1) as b:
        b.wanted = 1
        b.submit_both()
        for closure in (0, 7, 20):
            dead = b.programs.start("x-half", "--half-push", closure)
            wait_for("the program to die between two shards",
                     lambda: dead.poll() == 9)
            b.programs.kill("x-half")
        b.programs.start("x-0")
        done = b.end()[b.sum]
        check(int(done["closures_retried"]) >= 3, "no closure was retried")


def F4_one_worker_lost_an_error_and_a_job_that_is_stopped():
    with Bed(workers=2) as b:
        long = b.submit(net("long", epochs=5000))
        bad = net("bad")
        bad["data"]["train"]["x"] = "/nowhere/images.gz"
        wrong = b.submit(bad)
        b.kill_many(["w-0", "x-0"])
        failed = b.wait_state(wrong, "failed")
        check("/nowhere/images.gz" in failed["reason"], "the file is not named",
              failed["reason"])
        b.run("stop", long)
        b.wait_state(long, "stopped")
        b.back(["w-0", "x-0"])
        b.end()


def killed_while_it_opens_the_data(times):
    """At most three times: four processes lost in one piece of work are
    poison, and the job would rightly fail. The data are the whole file, which
    takes a while to open."""
    with Bed(workers=1, programs=1, jobs=False) as b:
        slow = net(epochs=12)
        slow["data"]["train"] = fashion_source("train", 3200, whole=True)
        b.net, b.sum = b.submit(slow), b.submit(b.spec)
        at = {"w-0": 0, "x-0": 0}
        for _ in range(times):
            for name, word in (("w-0", "job opened"), ("x-0", "attending")):
                wait_for(f"{name} to say '{word}'", lambda n=name, w=word: (
                    w in b.log(n)[at[n]:] or b.finished(b.net)))
                at[name] = b.mark(name)
                b.kill_many([name])
                b.back([name])
        b.end()


def F5_worker_killed_while_it_opens_the_data():
    killed_while_it_opens_the_data(1)


def F6_worker_killed_while_it_opens_the_data_again_and_again():
    killed_while_it_opens_the_data(3)


def the_reason_names(b, job, *words):
    reason = b.wait_state(job, "failed", 60)["reason"]
    for word in words:
        check(word in reason, f"no '{word}' in the reason", reason)


def F7_a_lost_worker_is_named_with_what_it_held():
    with Bed(workers=1, programs=0, jobs=False) as b:
        job = b.submit(net("fragile", epochs=500, max_attempts=1,
                           steps_per_closure=100))
        b.wait_steps(job, 5)
        b.kill("w-0")
        the_reason_names(b, job, "w-0", "closure ", "epoch ", "samples ")


def F8_a_lost_program_is_named_with_what_it_held():
    with Bed(workers=0, programs=1, jobs=False, flags=("--die-on", 40)) as b:
        spec = conserve.conserve_job()
        spec["train"]["max_attempts"] = 1
        the_reason_names(b, b.submit(spec), "x-0", "closure 2 ", "epoch 1",
                         "samples 32..47")


def F10_two_workers_killed_in_the_same_instant():
    with Bed(workers=2) as b:
        b.on()
        b.kill_many(["w-0", "w-1", "x-0", "x-1"])
        for job in b.each():
            wait_for("the job to wait for workers", lambda j=job: (
                "worker" in b.status(j)["reason"] or b.finished(j)))
        b.back(["w-0", "w-1", "x-0", "x-1"])
        b.end()


def F11_one_worker_fails_again_and_again():
    with Bed(workers=1, programs=1, net_epochs=16, sum_epochs=16) as b:
        for _ in range(4):
            b.on(5, 30, same=True)
            b.kill_many(["w-0", "x-0"])
            b.back(["w-0", "x-0"])
        done = b.end()
        lost = sum(int(done[job]["workers_lost"]) for job in b.each())
        check(lost >= 4, f"workers lost: {lost}")


def F13_a_result_stays_when_its_worker_dies():
    with Bed(sum_epochs=3, net_epochs=2) as b:
        b.end()
        before = read(b, "before")
        b.kill_many(["w-0", "x-0"])
        check_equal(read(b, "after"), before, "the exported model")


def read(b, name):
    path = b.dir / f"{name}.safetensors"
    b.run("export", b.net, "--to", path)
    return path.read_bytes()


def F14_a_result_stays_when_everybody_dies():
    with Bed(sum_epochs=3, net_epochs=2) as b:
        before, model = b.end()[b.net], read(b, "before")
        b.kill_many(["w-0", "w-1", "x-0", "x-1", "ps-0", "ps-1", "coordinator"])
        b.back(["coordinator", "ps-0", "ps-1"])
        after = b.status(b.net)
        for key in ("state", "steps_counted", "evaluations", "checkpoint"):
            check_equal(after[key], before[key], key)
        wait_for("the psservers to be back", lambda: b.run(
            "export", b.net, "--to", b.dir / "x", want=None).returncode == 0)
        check_equal(read(b, "after"), model, "the exported model")


def F20_the_client_waits_while_a_worker_dies():
    import subprocess
    from cluster import BIN
    with Bed(workers=2) as b:
        client = subprocess.Popen(
            [str(BIN / "sluice"), "--coordinator", b.address, "wait", b.net],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        b.on(same=True)
        b.kill_many(["w-0", "x-0"])
        b.end()
        said = client.communicate(timeout=60 * LIMIT)[1]
        check_equal(client.returncode, 0, f"exit of wait ({said})")


def F22_errors_fail_one_job_and_nothing_else():
    """An attempt that raises, on every worker: the job ends with that cause;
    the next one on the same workers is whole."""
    with Bed(workers=1, programs=2, jobs=False,
             flags=("--raise-on", 1000), sum_epochs=6) as b:
        spec = conserve.conserve_job("raises", samples=1024)
        spec["train"]["max_attempts"] = 2
        job = b.submit(spec)
        the_reason_names(b, job, "sample 1000 is not to my taste",
                         "closure 62 ", "samples 992..1007")
        b.submit_both()  # 384 samples: never meets sample 1000
        b.end()
        check_equal(b.status(job)["state"], "failed", "the failed job")


def F23_a_narrow_window_does_not_deadlock():
    spec = conserve.conserve_job(epochs=6)
    spec["train"]["window_closures"] = 2
    with Bed(workers=0, programs=5, spec=spec) as b:
        b.on(5, 20)
        b.kill_many(["x-1", "x-3"])
        b.end()


def F24_workers_that_start_late():
    with Bed(workers=0, programs=0, jobs=False, sum_epochs=4, net_epochs=2) as b:
        b.counts["worker"] = b.wanted = 1
        b.submit_both()
        for job in b.each():
            wait_for("the job to wait for a worker",
                     lambda j=job: "worker" in b.status(j)["reason"])
            check_equal(b.steps(job), 0, "steps without a worker")
        b.start("w-0")
        b.programs.start("x-0")
        b.end()


def told_to_leave(grace):
    with Bed(workers=3, programs=1, worker_args=grace) as b:
        b.on()
        code = b.kill("w-0", signal.SIGTERM)
        check(code in (143, -signal.SIGTERM), f"exit status {code}")
        b.end()
        for name in ("w-1", "w-2"):
            check(b.processes[name].poll() is None, f"{name} ended with it")


def F27_one_worker_is_told_to_leave():
    told_to_leave(())


def F28_one_worker_is_told_to_leave_and_has_time():
    told_to_leave(("--grace", "5s"))


def F29_the_cause_of_a_failure_is_said_once():
    with Bed(workers=3, programs=1) as b:
        bad = net("bad")
        bad["data"]["train"]["x"] = "/nowhere/images.gz"
        job = b.submit(bad)
        reason = b.wait_state(job, "failed")["reason"]
        check_equal(reason.count("/nowhere/images.gz"), 1, f"times in: {reason}")
        waited = b.run("wait", job, want=None)
        check(waited.returncode != 0, "wait of a failed job: exit 0")
        check("/nowhere/images.gz" in waited.stderr + waited.stdout, "the cause")
        b.end()


def F31_everything_interrupted_in_an_epoch_goes_on_where_it_was():
    with Bed(**size()) as b:
        b.on()
        everybody = [*b.processes, *b.programs.running]
        b.kill_many(everybody)
        b.back(sorted(everybody))  # the coordinator first
        done = b.end()[b.net]
        check_equal([int(e["samples"]) for e in done["evaluations"]],
                    [1000] * b.net_epochs, "samples of each evaluation")


def F32_workers_join_and_return_under_the_same_and_another_name():
    with Bed(workers=1, programs=1, net_epochs=10) as b:
        b.on(5, 20)
        b.start("w-1")               # added inside a closure of w-0
        b.programs.start("x-1")
        b.on(5, 20)
        b.kill_many(["w-0", "x-0"])
        b.back(["w-0", "x-0"])       # the same name
        b.on(5, 20)
        b.kill_many(["w-1", "x-1"])
        b.start("w-2")               # another name
        b.programs.start("x-2")
        b.end()


def N15_one_worker_a_hundred_times_slower():
    spec = conserve.conserve_job(epochs=4)
    with Bed(workers=0, programs=2, flags=("--step-ms", "1"), spec=spec,
             jobs=False) as b:
        b.programs.start("x-slow", "--step-ms", "100")
        b.submit_both()
        b.end()


def N19_closures_stall_and_the_counted_sets_stay_bounded():
    """The first closure never ends: the rest is counted up to the window and
    no further, so no counted set grows beyond it."""
    spec = conserve.conserve_job(epochs=6)
    spec["train"]["window_closures"] = window = 8
    with Bed(workers=0, programs=0, jobs=False, spec=spec) as b:
        b.wanted = 1
        b.programs.start("x-hangs", "--hang-on", 0)
        b.submit_both()
        wait_for("closure 0 to be leased", lambda: int(
            b.status(b.sum)["closures_running"]) >= 1)
        b.programs.start("x-0")
        wait_for("the window to be full", lambda: closures_counted(b) >= window - 2)
        check(closures_counted(b) <= window, "issued beyond the window")
        b.programs.kill("x-hangs")
        b.end()


def closures_counted(b):
    return int(b.status(b.sum)["closures_counted"])


if __name__ == "__main__":
    run(globals())
