#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Devices that are lost, have no memory left, hang, err, or were never there.

kernels/flaky plays the device: the cpu backend with a fault at a chosen
operation, so what is tested is what a worker makes of it on any host.
"""
import pathlib
import shutil
import signal

from bed import (BIN, Bed, check, check_counts, check_equal, dice, ended, net, run,
                 wait_for)

FAKES = BIN.parent / "tests" / "unit" / "kernels" / "fakes"

FITS_ONE = 1700000  # bytes; the activations of one of those nets take 1180160

# Of mlp_job: products are in both passes, the loss ends the first one.
FORWARD = "op=xent,lost=%d"
BACKWARD = "op=unary_bwd,lost=%d"
BETWEEN = "op=matmul,lost=%d"  # the first of five in each step, for 5 k + 1


def flaky(b, name, words, *more, wait=True):
    """A worker whose device does that."""
    return b.start(name, ["--device", "flaky:cpu", *more],
                   {"SLUICE_FLAKY": words}, wait)


def words_for(place):
    steps = dice.randint(12, 60)
    return place % (5 * steps + 1 if place == BETWEEN else steps)


def begin(b):
    """The workers that were started by hand are meant to get the net."""
    b.counts["worker"] = 1
    b.submit_both()


def lines(b, name, text):
    return [line for line in b.log(name).splitlines() if text in line]


def check_no_blame(b):
    """Nobody was told of a failed attempt, and nothing was handed to and fro."""
    check_equal(lines(b, "coordinator", "attempt failed"), [], "attempts failed")
    back = lines(b, "coordinator", "handed back")
    check(0 < len(back) <= 12, f"{len(back)} leases were handed back", *back[:3])
    return back


def three(policy, *more):
    """Three devices are lost: in a forward and a backward pass, and between two
    steps."""
    b = Bed(workers=0, programs=1, jobs=False, net_epochs=12)
    b.places = {"w-0": FORWARD, "w-1": BACKWARD, "w-2": BETWEEN}
    return b, ["--on-device-loss", policy, *more]


ANEW = "device lost; starting anew to open it again"


def lost_and_ended(b, name):
    """It has ended with the status that says: start me again."""
    check_equal(ended(b.processes[name]) and b.kill(name), 138, f"{name}: status")
    said = lines(b, name, "device lost; ending")
    check_equal(len(said), 1, f"lines of {name} about it")
    for word in ("flaky:cpu", "as it was told", "nvidia-smi"):
        check(word in said[0], f"no {word} in", said[0])


def N29_a_lost_device_ends_its_worker():
    b, flags = three("exit")
    with b:
        for name, place in b.places.items():
            flaky(b, name, words_for(place), *flags)
        begin(b)
        for name in b.places:
            lost_and_ended(b, name)
            b.start(name)  # as the service manager would
        b.end()
        check_no_blame(b)


def N29_a_lost_device_is_opened_again():
    b, flags = three("reopen", "--device-wait", "200ms")
    with b:
        for name, place in b.places.items():
            flaky(b, name, words_for(place) + ",opens=1,shut=2", *flags)
        begin(b)
        for name in b.places:
            b.on_log(name, "device is back")
            check_equal(len(lines(b, name, ANEW)), 1, f"lines of {name} about it")
            # Nobody started it: our child still runs, in its fourth life.
            check(b.processes[name].poll() is None, f"{name} has ended")
            wait_for(f"{name} to say that it started",  # its device may be first
                     lambda: len(lines(b, name, '"started"')) > 3)
            check_equal(len(lines(b, name, '"started"')), 4, f"lives of {name}")
            check(b"SLUICE_ANEW=lost-device 3 flaky:cpu" in pathlib.Path(
                f"/proc/{b.pid(name)}/environ").read_bytes(), f"{name} is no new program")
        b.end()
        check_no_blame(b)


def N29_a_worker_is_killed_as_it_starts_anew():
    """Before, in, and after its exec; what it had went back before."""
    with Bed(workers=1, programs=1, jobs=False, net_epochs=12) as b:
        ways = {"w-1": (ANEW, signal.SIGTERM), "w-2": (ANEW, signal.SIGKILL),
                "w-3": ("starting anew\"", signal.SIGKILL),
                "w-4": ("device is not back yet", signal.SIGTERM)}
        for name in ways:
            flaky(b, name, words_for(FORWARD) + ",opens=1,shut=1000",
                  "--on-device-loss", "reopen", "--device-wait", "300ms",
                  "--device-tries", "1000")
        begin(b)
        for name, (text, how) in ways.items():
            b.on_log(name, text)
            status = b.kill(name, how)
            check(status in (-how, 128 + how), f"{name}: exit status {status}")
            b.start(name)
        b.end()
        check_no_blame(b)


def N29_a_lost_device_is_replaced_by_the_cpu():
    b, flags = three("cpu")
    with b:
        for name, place in b.places.items():
            flaky(b, name, words_for(place), *flags)
        begin(b)
        for name in b.places:
            b.on_log(name, "device lost; going on with cpu")

        def devices():
            members = b.cluster_status()["members"]
            return [m["device"] for m in members if m["name"] in b.places]
        wait_for("the coordinator to know", lambda: all(
            d.startswith("cpu") for d in devices()))
        b.end()
        check_no_blame(b)


def N29_the_only_device_is_lost_and_the_job_waits_for_it():
    """What the coordinator says meanwhile, and that nothing is leased."""
    with Bed(workers=0, programs=0, jobs=False) as b:
        flaky(b, "w-0", words_for(FORWARD) + ",opens=1", "--on-device-loss",
              "reopen", "--device-wait", "10s")  # to be seen meanwhile
        begin(b)
        b.on_log("w-0", ANEW)

        def away():
            m = [m for m in b.cluster_status()["members"] if m["name"] == "w-0"][0]
            return m if m["state"] == "draining" else None
        said = wait_for("the worker to be away", away)
        check("its device is lost" in said["reason"], "the reason", said)
        check_equal(int(said.get("leases", 0)), 0, "leases without a device")
        b.on_log("w-0", "device is back")
        b.end()
        check_no_blame(b)


def N29_a_device_that_never_comes_back():
    with Bed(workers=0, programs=0, jobs=False, net_epochs=12) as b:
        flaky(b, "w-0", words_for(FORWARD) + ",opens=1,shut=1000",
              "--on-device-loss", "reopen", "--device-wait", "50ms",
              "--device-tries", "3")
        begin(b)
        check_equal(ended(b.processes["w-0"]) and b.kill("w-0"), 138, "status")
        check_equal(len(lines(b, "w-0", "device does not come back; ending")), 1,
                    "lines about it")
        b.start("w-1")
        b.end()
        check_no_blame(b)


def N29_a_device_that_comes_back_only_to_be_lost():
    """Each opening counts until a lease ends well: none does."""
    with Bed(workers=0, programs=0, jobs=False, net_epochs=12) as b:
        flaky(b, "w-0", "lost=3", "--on-device-loss", "reopen", "--device-wait",
              "50ms", "--device-tries", "3")
        begin(b)
        check_equal(ended(b.processes["w-0"]) and b.kill("w-0"), 138, "status")
        check_equal(len(lines(b, "w-0", "device is back")), 3, "times it was back")
        b.start("w-1")
        b.end()
        check_no_blame(b)


def N29_devices_are_lost_at_any_operation():
    policies = ["exit", "reopen", "cpu"]
    with Bed(workers=1, programs=1, jobs=False, net_epochs=12) as b:
        for i in range(1, 4):
            flaky(b, f"w-{i}", f"lost={dice.randint(1, 900)},opens=1",
                  "--on-device-loss", policies.pop(dice.randrange(len(policies))),
                  "--device-wait", "100ms")
        begin(b)
        for i in range(1, 4):
            b.on_log(f"w-{i}", "device lost; ")
            if "device lost; ending" in b.log(f"w-{i}"):
                lost_and_ended(b, f"w-{i}")
        b.end()
        check_no_blame(b)


def small(name, epochs):
    """A net whose data is there at once: on a busy machine, too, only a device
    that hangs makes no progress for seconds."""
    source = {"format": "synthetic", "generator": "classes", "classes": 2,
              "samples": 320, "seed": 4}
    spec = net(name, epochs=epochs, stall_seconds=5)
    spec["model"] = {"input_shape": [8], "layers": [{"type": "dense", "units": 2}]}
    spec["data"] = {"train": source}
    return spec


def N29_a_device_that_hangs():
    """Heartbeats go on: that nothing moves gives it away."""
    with Bed(workers=0, psservers=1, programs=0, jobs=False) as b:
        b.args["worker"].append("--grace=2s")
        flaky(b, "w-0", f"slow={dice.randint(20, 200)},ms=100000000")
        b.net = b.submit(small("hangs", epochs=20))
        b.on_log("coordinator", "closure makes no progress")
        check_equal(ended(b.processes["w-0"]) and b.kill("w-0"), 138, "status")
        check_equal(len(lines(b, "w-0", "compute thread hangs")), 1, "lines")
        b.start("w-1")
        b.end()


def N16_a_device_that_spoils_one_result():
    """Its step is counted and skipped, on every shard, and changes nothing."""
    with Bed(workers=0, programs=0, jobs=False) as b:
        flaky(b, "w-0", words_for("op=xent,nan=%d"))
        begin(b)
        done = b.end()[b.net]
        for shard in done["shards"]:
            check_equal(int(shard["counts"]["skipped"]), 1, "steps skipped")


# ---- memory

def memory_ends_once(words):
    """Before the lease fails, the worker lets go of all that it keeps."""
    with Bed(workers=0, programs=0, jobs=False) as b:
        flaky(b, "w-0", words)
        begin(b)
        b.on_log("w-0", "out of memory; freeing kept jobs")
        b.end()
        check_equal(lines(b, "coordinator", "attempt failed"), [], "attempts failed")


def N30_no_memory_for_the_first_plan():
    memory_ends_once("plan=1")


def N30_no_memory_for_the_first_activations():
    memory_ends_once("alloc=1")


def N30_no_memory_in_the_middle():
    """For the evaluation's plans, whose batch is another."""
    memory_ends_once("plan=12")


def N30_two_jobs_that_do_not_fit_together():
    """Each fits alone: they take turns, and both end."""
    with Bed(workers=0, programs=0, jobs=False) as b:
        flaky(b, "w-0", f"bytes={FITS_ONE}")
        jobs = [b.submit(net(f"net-{i}", batch=320, epochs=2)) for i in range(2)]
        done = [b.wait_state(job) for job in jobs]
        for one in done:
            check_counts(one)
        check(lines(b, "w-0", "out of memory; freeing kept jobs"), "it had room")
        check_equal(lines(b, "coordinator", "attempt failed"), [], "attempts failed")


def N30_one_worker_has_too_little_memory():
    with Bed(workers=1, programs=0, jobs=False, net_epochs=100) as b:
        flaky(b, "w-small", "bytes=1000")
        begin(b)
        b.on_log("coordinator", "worker excluded from a job")
        said = lines(b, "w-small", "attempt failed")
        check("use a smaller batch or another device" in said[0], "advice", said[0])
        why = {m["name"]: m.get("reason", "") for m in b.cluster_status()["members"]}
        check("fail" in why["w-small"], "the reason of w-small", why)
        check_equal(why["w-0"], "", "the reason of w-0")
        b.end()


def N30_no_worker_has_enough_memory():
    with Bed(workers=0, programs=0, jobs=False) as b:
        flaky(b, "w-0", "bytes=1000")
        flaky(b, "w-1", "bytes=2000")
        begin(b)
        reason = b.wait_state(b.net, "failed")["reason"]
        check("use a smaller batch or another device" in reason, "reason", reason)
        check("w-0" in reason and "w-1" in reason, "who it was", reason)
        b.start("w-2")
        check_counts(b.wait_state(b.submit(net("after", epochs=1))))


# ---- libraries

def broken_module(b, name):
    """A host with a driver and two GPUs, whose module is no library."""
    prefix = b.dir / f"{name}-prefix"
    kernels = prefix / "lib" / "sluice" / "kernels"
    kernels.mkdir(parents=True)
    (prefix / "bin").mkdir()
    shutil.copy(BIN / "worker", prefix / "bin" / "worker")
    (kernels / "sluice-kernels-cuda.so").write_text("not a library\n")
    check((FAKES / "two").is_dir(), f"no fake driver in {FAKES}")
    plain = b.command
    b.command = lambda which: (
        [str(prefix / "bin" / "worker"), *plain(which)[1:]] if which == name
        else plain(which))
    return {"LD_LIBRARY_PATH": str(FAKES / "two")}


def N31_a_broken_module_is_done_without():
    with Bed(workers=0, programs=0, jobs=False) as b:
        b.start("w-0", ["--device", "auto"], broken_module(b, "w-0"))
        said = lines(b, "w-0", "taking the next")
        check_equal(len(said), 1, "lines about it")
        check("sluice-kernels-cuda.so" in said[0], "the file is not named", said[0])
        begin(b)
        b.end()
        member = [m for m in b.cluster_status()["members"] if m["name"] == "w-0"][0]
        check(member["device"].startswith("cpu"), "its device", member)


def N31_a_broken_module_that_is_insisted_on():
    with Bed(workers=1, programs=0, jobs=False) as b:
        process = b.start("w-1", ["--device", "cuda"], broken_module(b, "w-1"),
                          wait=False)
        begin(b)
        check_equal(ended(process) and b.kill("w-1"), 2, "exit status")
        said = lines(b, "w-1", "cannot go on")
        check_equal(len(said), 1, "lines about it")
        for word in ("sluice-kernels-cuda.so", "auto"):
            check(word in said[0], f"no {word} in", said[0])
        b.end()


def left_out(b):
    return [w for w in b.cluster_status().get("warnings", []) if "leaves out" in w]


def trained(environment):
    """The parameters that one worker trains, and what it says of its kernels."""
    from safetensors.numpy import load_file
    with Bed(workers=0, psservers=1, programs=0, jobs=False) as b:
        b.start("w-0", ["--threads", "1"], environment)
        job = b.submit(net(epochs=2))
        check_counts(b.wait_state(job))
        if environment:
            wait_for("status to warn of the kernels", lambda: left_out(b))
        check_equal(bool(left_out(b)), bool(environment), "warnings of status")
        path = b.dir / "model.safetensors"
        b.run("export", job, "--to", path)
        return load_file(str(path)), lines(b, "w-0", "computes wrong numbers")


def N31_a_kernel_that_is_wrong_is_left_out():
    """Each product of oneDNN (its names have a colon) has one wrong element: none
    of them computes for the job, and what is trained is what right ones train."""
    want, said = trained({})
    check_equal(said, [], "lines about wrong kernels where none is wrong")
    got, said = trained({"SLUICE_SPOIL": ":"})
    check(len(said) >= 3, "a forward, a backward pass: each product is named", *said)
    for word in ("op", "kernel", "element", "got", "want"):
        check(f'"{word}":' in said[0], f"no {word} in", said[0])
    far = max(float(abs(got[name] - want[name]).max()) for name in want)
    check(far < 1e-3, f"parameters are {far} off")


def N31_workers_of_a_job_that_chose_differently_are_told():
    """One of two workers leaves out kernels: the job's status names both, and the
    first of the kernels."""
    with Bed(workers=0, psservers=1, programs=0, jobs=False) as b:
        b.start("w-0", ["--threads", "1"], {"SLUICE_SPOIL": ":"})
        b.start("w-1", ["--threads", "1"])
        job = b.submit(net(epochs=1000))

        def told():
            status = b.status(job)
            return [w for w in status.get("warnings", []) if "different kernels" in w]
        wait_for("the job's status to tell", told)
        said = told()[0]
        for word in ("workers w-0 and w-1 ", "w-0 leaves out ", ":", " and "):
            check(word in said, f"no {word} in", said)
        b.run("stop", job)


if __name__ == "__main__":
    run(globals())
