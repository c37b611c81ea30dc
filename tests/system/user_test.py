#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a new user meets: each test is named after what the command does then,
and holds the sentence that it says."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading

import numpy

from cluster import (BIN, LIMIT, LONG_LEASE, Cluster, check, check_equal, free_port, main, mlp_job, shared,
                     wait_for)


def few(**train):
    return mlp_job("few", samples=640, epochs=1, batch=64, **train)


def says(done, *texts):
    for text in texts:
        check(text in done.stderr, f"it does not say '{text}'", done.stdout,
              done.stderr)


def full_device(path):
    """A /dev/full of this test's own; false where no node may be made."""
    with contextlib.suppress(PermissionError):
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 7))
        with contextlib.suppress(OSError), open(path, "rb"):
            return True
    return False


def connected(process, cluster):
    """It has dialled the coordinator: its thread for that is there."""
    check(process.poll() is None, f"it ended with {process.returncode}")
    tasks = pathlib.Path(f"/proc/{process.pid}/task")
    return len(list(tasks.iterdir())) > 1


def only_files_are_replaced():
    with Cluster(psservers=1, workers=1) as c:
        job = c.submit(few())
        c.wait_state(job)
        whole = c.dir / "whole.safetensors"
        c.run("export", job, "--to", whole)
        want = whole.read_bytes()

        # A device stays one, and that it took nothing is an error.
        node = c.dir / "full"
        if full_device(node):
            done = c.run("export", job, "--to", node, want=1)
            says(done, f"{node}: No space left on device")
            check(stat.S_ISCHR(node.lstat().st_mode), "the device was replaced")
            done = c.run("watch", job, "--summary", node, want=1)
            says(done, "No space left on device")
            check(stat.S_ISCHR(node.lstat().st_mode), "the device was replaced")

        # What comes out of a FIFO and of standard output is the file.
        fifo, came = c.dir / "fifo", []
        os.mkfifo(fifo)
        reader = threading.Thread(target=lambda: came.append(fifo.read_bytes()))
        reader.start()
        c.run("export", job, "--to", fifo)
        reader.join()
        check(stat.S_ISFIFO(fifo.lstat().st_mode), "the FIFO was replaced")
        check_equal(came[0] == want, True, "what came out of the FIFO")
        done = subprocess.run([BIN / "sluice", "--coordinator", c.address, "export",
                               job, "--to", "-"], capture_output=True, check=True)
        check_equal(done.stdout == want, True, "what came out of stdout")

        # A link stays one; the file behind it is replaced, or made.
        for name in ("behind", "made"):
            link = c.dir / f"to-{name}"
            link.symlink_to(name)
            if name == "behind":
                (c.dir / name).write_text("old")
            c.run("export", job, "--to", link)
            check(link.is_symlink(), "the link was replaced")
            check_equal((c.dir / name).read_bytes() == want, True, name)

        # Nothing is left over beside them, and a folder is named as one.
        says(c.run("export", job, "--to", c.dir, want=2), f"{c.dir} is a folder")
        check_equal([p.name for p in c.dir.iterdir() if p.suffix == ".tmp"
                     or p.name.startswith(".sluice")], [], "left over")
        told = c.run("watch", job, "--summary", "-").stdout
        check(told.startswith("{") and '"once": true' in told, "summary to -", told)

        # Numbers want no other place; a model is written whole first, somewhere.
        nowhere = ("env", "TMPDIR=/proc")
        for place in ("-", "/dev/stdout"):
            got = c.run("watch", job, "--summary", place, before=nowhere).stdout
            check('"once": true' in got, f"summary to {place}", got)
        says(c.run("export", job, "--to", "/dev/stdout", before=nowhere, want=None),
             "/dev/stdout: a file beside it is needed meanwhile, and /proc/sluice-",
             "name a folder that can be written with TMPDIR")
        check_equal(c.run("export", job, "--to", "/dev/stdout", before=nowhere,
                          want=None).returncode, 3, "exit without a place")


def a_target_that_cannot_be_written_is_said_before_training():
    with shared(psservers=1, workers=0) as c:  # nobody would ever train it
        path = c.dir / "job.yaml"
        path.write_text(json.dumps(few()))
        for target in ("no/such/summary.json", "/proc/summary.json", c.dir, ""):
            done = c.run("submit", path, "--summary", target, want=None, limit_s=20)
            check(done.returncode not in (0, 130), "it was submitted", done.stderr)
            check("Submitted" not in done.stderr, "it was submitted", done.stderr)
        says(c.run("submit", path, "--summary", "no/such/summary.json", want=3),
             "no/such/summary.json: the folder no/such does not exist")
        check_equal(c.json("jobs").get("jobs", []), [], "jobs")


def what_is_wrong_is_said_in_one_sentence():
    with shared(psservers=1, workers=0) as c:
        path = c.dir / "job.yaml"
        path.write_text(json.dumps(few()))
        for words, want, text in (
            (("submit", path, "--resume", ""), 2,
             "--resume is empty: name a job, or a manifest in the store"),
            (("submit", path, "--set", "name=j-93"), 2,
             "name: 'j-93' looks like the id of a job; choose another"),
            (("validate", path, "--set", "train.epochs=x"), 2,
             "sluice: --set train.epochs=x: train.epochs: wants an integer"),
            (("validate", path, "--set", "name=7"), 2,
             'name: wants a string, got the number 7: write "7"'),
            (("validate", c.dir), 2, f"{c.dir} is a folder, not a file"),
            (("up", "--dir", "/proc/sluice"), None,
             "/proc/sluice cannot be made: "),
        ):
            done = c.run(*words, want=want)
            says(done, text)
            check_equal(done.stderr.count("\n"), 1, f"lines of {done.stderr!r}")


def a_folder_that_up_may_not_write_is_said_with_what_to_do():
    with Cluster(psservers=0, workers=0) as c:
        closed = c.dir / "closed"
        closed.mkdir(mode=0o555)
        c.dir.chmod(0o755)
        own = shutil.copy(BIN / "sluice", c.dir)  # where nobody may reach it
        nobody = {"user": 65534, "group": 65534} if os.geteuid() == 0 else {}
        done = subprocess.run(
            [own, "up", "--dir", closed, "--listen", "127.0.0.1:0"],
            capture_output=True, text=True, cwd="/", check=False, timeout=60, **nobody)
        check_equal(done.returncode, 5, done.stderr)
        says(done, f"{closed}: Permission denied: the cluster keeps its state there; "
                   "name a folder that can be written with --dir")
        check_equal(done.stderr.count("\n"), 1, f"lines of {done.stderr!r}")


def a_reader_that_has_seen_enough_is_no_fault():
    with shared(psservers=1, workers=0) as c:
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([BIN / "sluice", "--coordinator", c.address, "status"],
                              stdout=write, stderr=subprocess.PIPE, check=False)
        os.close(write)
        check_equal((done.returncode, done.stderr), (-signal.SIGPIPE, b""),
                    "the end of a filter")


def ctrl_c_and_timeout_hold_while_the_coordinator_stands_still():
    with Cluster(psservers=1, workers=0) as c:
        path = c.dir / "job.yaml"
        path.write_text(json.dumps(few()))
        job = c.run("submit", path, "--no-wait").stdout.strip()
        watch = subprocess.Popen([BIN / "sluice", "--coordinator", c.address, "watch",
                                  job], text=True, stderr=subprocess.PIPE)
        watch.stderr.readline()  # it follows
        c.pause("coordinator")
        try:
            began = [subprocess.Popen([BIN / "sluice", "--coordinator", c.address,
                                       "--timeout", "1h", *words], cwd=c.dir, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                     for words in (("submit", str(path)), ("status", job),
                                   ("watch", job), ("stop", job))]
            for one in began:
                wait_for("it to wait for an answer", lambda p=one: connected(p, c))
                one.send_signal(signal.SIGINT)
                said = one.communicate(timeout=30 * LIMIT)[1]
                check_equal(one.returncode, -signal.SIGINT, f"exit: {said}")
            done = c.run("--timeout", "500ms", "status", want=4)
            says(done, "no answer within 0.5 s")
            watch.send_signal(signal.SIGINT)
            said = watch.communicate(timeout=30 * LIMIT)[1]
            check_equal(watch.returncode, 130, f"exit: {said}")
        finally:
            c.resume("coordinator")


def numbers_job(folder, bad, **train):
    """Regression on rows of numbers; `bad` of them hold one that is none."""
    rows = numpy.random.default_rng(7).normal(size=(640, 4)).astype("f4")
    rows[bad, 2] = numpy.nan
    numpy.save(folder / "x.npy", rows)
    numpy.save(folder / "y.npy", numpy.ones((640, 1), "f4"))
    return {"name": "numbers", "loss": "mean_squared_error",
            "model": {"input_shape": [4], "layers": [{"type": "dense", "units": 1}]},
            "optimizer": {"type": "sgd", "learning_rate": 0.01},
            "data": {"train": {"format": "npy", "x": str(folder / "x.npy"),
                               "y": str(folder / "y.npy")}},
            "train": {"batch": 64, "epochs": 4, **train}}


def a_job_of_which_nothing_was_applied_fails_and_names_the_sample():
    with shared(psservers=1, workers=1) as c:
        job = c.submit(numbers_job(c.dir, slice(None)))
        done = c.run("watch", job, want=1)
        text = ("none of its 40 updates was applied: no loss or gradient was finite; "
                "the data is not finite: sample ")
        says(done, f"job {job} has failed: {text}",
             "of data.train: value 2 of its 4 is nan")

        # Some of it: the job goes on, and its status says so.
        job = c.submit(numbers_job(c.dir, [17, 600], epochs=16))
        c.wait_state(job)
        done = c.run("status", job)
        for part in ("updates were skipped: their loss or gradient was not finite",
                     "of data.train: value 2 of its 4 is nan"):
            check(part in done.stdout, f"status does not say: {part}", done.stdout)
        check("sample 17 " in done.stdout or "sample 600 " in done.stdout,
              "status names another sample", done.stdout)


def a_psserver_that_workers_cannot_reach_is_named_with_the_cause():
    with Cluster(psservers=0, workers=0) as c:
        c.start("w-0", extra=["--store", str(c.dir / "store")])
        with socket.socket() as taken:  # nobody listens there
            taken.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            c.start("ps-0", extra=["--listen", "127.0.0.1:0", "--advertise", address])
            job = c.submit(few())
            text = f"worker w-0 cannot reach psserver ps-0 at {address}: "
            wait_for("the reason", lambda: text in c.status(job).get("reason", ""), 30)
            done = c.run("status", job)
            check("onnection refused" in done.stdout, "the cause", done.stdout)
            done = c.run("doctor", want=1)
            check(f"psserver ps-0 is not reached from here at {address}: " in done.stdout,
                  "what doctor says", done.stdout)

            # Its worker serves others meanwhile.
            ring = few(mode="allreduce")
            ring["name"] = "ring"
            c.wait_state(c.submit(ring))
            check_equal(c.steps(job), 0, "steps of the job that waits")


def many_shards_are_two_lines_until_each_is_asked_for():
    with Cluster(psservers=1, workers=0) as c:
        job = c.submit({
            "name": "wide",
            "model": {"type": "external", "variables": [
                {"name": "v", "shape": [320], "initializer": "zeros"}]},
            "optimizer": {"type": "sgd", "learning_rate": 0.1},
            "data": {"train": {"format": "external", "samples": 64}},
            "train": {"batch": 1, "epochs": 1, "shuffle": False},
            "placement": {"shard_bytes": 64}})
        check_equal(len(c.wait_state(job, "running")["shards"]), 20, "shards in JSON")
        told = c.run("status", job).stdout
        check("20 shards, 1.25 KiB, counted 0 to 0; --shards lists them" in told,
              "no summary", told)
        check("staleness" not in told, "a table nevertheless", told)
        each = c.run("status", job, "--shards").stdout
        check("psserver" in each and each.count(" p50 -") == 20, "not 20 rows", each)
        check("lists them" not in each, "a summary nevertheless", each)

        c.kill("ps-0")
        wait_for("shards that are not served",
                 lambda: "20 are not served now; the first is shard 0 of psserver ps-0"
                 in c.run("status", job).stdout)


def watch_is_one_object_per_line_and_the_summary_the_last():
    with shared(psservers=1, workers=1) as c:
        job = c.submit(few())
        told = c.run("-o", "json", "watch", job, "--period", "100ms").stdout
        lines = [json.loads(line) for line in told.splitlines()]
        check(len(lines) >= 2, "one line alone", told)
        for status in lines[:-1]:
            check_equal(status["id"], job, "of which job")
        last = lines[-1]
        check_equal((last["job"], last["once"], last["epochs"]), (job, True, 1), "the end")
        check_equal(last["samples_per_epoch"], 640, "samples per epoch")
        check_equal(int(lines[-2]["samples_per_epoch"]), 640, "the same in a status")
        check(last["training_loss"] > 0, "the training loss", last)
        wide = c.run("jobs", "-o", "wide").stdout.splitlines()[1]
        check([w for w in wide.split() if w[0] in "+-" and w[1:].isdigit()],
              "the time has no zone", wide)
        listed = c.run("jobs").stdout.splitlines()[1]  # its age in place of the time
        check_equal(listed.split()[6], "-", "the rate of a job that has ended")


def a_line_begins_with_the_reason():
    with Cluster(psservers=1, workers=1) as c:
        spec = few()
        spec["train"]["epochs"] = 10000
        job = c.submit(spec)
        c.wait_steps(job, 20)
        c.kill("w-0")
        wait_for("a reason", lambda: c.status(job).get("reason"), 30)
        watch = subprocess.Popen([BIN / "sluice", "--coordinator", c.address, "watch",
                                  job], text=True, stderr=subprocess.PIPE)
        line = watch.stderr.readline()
        watch.send_signal(signal.SIGINT)
        watch.communicate(timeout=30 * LIMIT)
        check(line.startswith("waiting for a worker  epoch "), "the line", line)
        check("samples/s" not in line and "left" not in line, "the line", line)


def a_client_of_another_authority_is_refused_in_one_sentence():
    with tempfile.TemporaryDirectory() as folder:
        folder, address = pathlib.Path(folder), f"127.0.0.1:{free_port()}"
        for name in ("ours", "other"):
            subprocess.run([BIN / "sluice", "cert", "init", folder / name, "--host",
                            "127.0.0.1"], check=True, capture_output=True)

        def tls(ca, role, whose):
            return ["--tls-ca", folder / ca / "ca.crt",
                    "--tls-cert", folder / whose / f"{role}.crt",
                    "--tls-key", folder / whose / f"{role}.key"]

        def ask(ca, whose):
            return subprocess.run(
                [BIN / "sluice", "--coordinator", address, "--timeout", "2s", "status",
                 *tls(ca, "client", whose)], capture_output=True, text=True, check=False)
        log = open(folder / "log", "w", encoding="utf-8")
        coordinator = subprocess.Popen(
            [BIN / "coordinator", "--listen", address, "--state", folder / "state",
             *tls("ours", "coordinator", "ours")], stdout=log, stderr=log)
        try:
            wait_for("it to serve", lambda: ask("ours", "ours").returncode == 0)
            for ca, whose, text in (
                ("other", "other", "the peer's certificate is not accepted here"),
                ("ours", "other", "does not accept our certificate"),
            ):
                # Who does not run for two seconds has no answer in time, and asks again.
                done = wait_for("exit 5", lambda: (lambda done: done.returncode == 5 and done)(
                    ask(ca, whose)))
                says(done, text, f"coordinator {address}: ")
                check_equal(done.stderr.count("\n"), 1, f"lines of {done.stderr!r}")
            wait_for("its log to say whose", lambda: "the peer's certificate is not "
                     "accepted here" in (folder / "log").read_text())
        finally:
            coordinator.kill()
            coordinator.wait()
            log.close()


class Small(Cluster):
    """Its psserver has a disk of its own, which is nearly full."""

    def command(self, name):
        line = super().command(name)
        if not name.startswith("ps-"):
            return line
        state = self.dir / name
        state.mkdir(exist_ok=True)
        line[line.index("--store") + 1] = str(state / "store")
        return ["unshare", "-m", "sh", "-c",
                'mount -t tmpfs -o size=256k tmpfs "$0" && exec "$@"', str(state), *line]


def a_full_disk_of_a_psserver_is_said_in_status():
    if subprocess.run(["unshare", "-m", "true"], capture_output=True,
                      check=False).returncode != 0:
        print("no mounts of its own here: left out")
        return
    with Small(psservers=1, workers=1) as c:
        job = c.submit(few())
        reason = wait_for("the reason", lambda: (lambda why: "o space left on device" in why and
                                                 why)(c.status(job).get("reason", "")))
        found = subprocess.run(
            ["nsenter", "-t", str(c.processes["ps-0"].pid), "-m", BIN / "sluice", "doctor",
             "--coordinator", c.address, "--state", c.dir / "ps-0"],
            capture_output=True, text=True, check=False)
        check_equal(found.returncode, 1, "exit of doctor")
        check("free: checkpoints fail without space, and jobs then wait" in found.stdout,
              "what doctor says of the disk", found.stdout)
        check("waiting for the checkpoint that holds all steps" in reason and "ps-0" in reason,
              "the reason", reason)


def stop_makes_a_checkpoint_first_and_now_does_not():
    with shared(psservers=1, workers=1) as c:
        spec = few(steps_per_closure=2)
        spec["train"]["epochs"] = 5000
        spec["checkpoint"] = {"every_epoch": False, "every_seconds": 1000}
        del spec["data"]["test"]  # an evaluation would have a cut of its own
        for more in ((), ("--now",)):
            job = c.submit(spec)
            c.wait_steps(job, 50)
            steps = c.steps(job)
            done = c.run("stop", job, *more)
            says(done, f"{job} is stopped after ")
            check_equal(c.status(job)["reason"], "stopped by request", "the reason")
            cuts = c.json("checkpoints", job).get("checkpoints", [])
            if more:
                check_equal(cuts, [], "checkpoints of one that was stopped at once")
                continue
            says(done, f"{job} is being stopped: a checkpoint is made first; --now")
            check_equal(len(cuts), 1, "checkpoints")
            check(int(cuts[0]["steps"]) >= steps, "the checkpoint holds less", cuts)


def a_checkpoint_on_demand_is_there_when_the_command_ends():
    with Cluster(psservers=1, workers=1, coordinator_args=LONG_LEASE) as c:
        spec = few(steps_per_closure=2)
        spec["train"]["epochs"] = 5000
        spec["checkpoint"] = {"every_epoch": False, "every_seconds": 1000}
        del spec["data"]["test"]
        job = c.submit(spec)
        c.wait_steps(job, 50)
        steps = c.steps(job)
        done = c.run("checkpoint", job)
        manifest = pathlib.Path(done.stdout.strip())
        check(manifest.is_file(), "it names no manifest", done.stdout)
        says(done, f"checkpoint 1 of {job} holds ")
        made = c.json("checkpoint", job)
        check(int(made["steps"]) >= steps and int(made["cut"]) == 2, "the second one", made)
        check_equal(c.status(job)["state"], "running", "the state of the job")
        asked = c.json("checkpoint", job, "--no-wait")
        check("asked" in asked and "checkpoint" not in asked, "what is asked for", asked)
        wait_for("the third one", lambda: int(c.status(job)["cuts"]) == 3)

        # With nobody who could write it, the command waits as long as it is told.
        c.pause("ps-0")
        says(c.run("checkpoint", job, "--timeout", "4s", want=4),
             f"the checkpoint of {job} is not published after 4 s")
        c.resume("ps-0")
        wait_for("the fourth one", lambda: int(c.status(job)["cuts"]) >= 4)
        c.run("stop", job, "--now")
        says(c.run("checkpoint", job, want=6), f"job {job} is stopped: it gets no more checkpoints")
        log = [json.loads(line) for line in (c.dir / "coordinator" / "audit.log").read_text().splitlines()]
        asked = [line["result"] for line in log if line["call"] == "Checkpoint"]
        check_equal(len(asked), 5, "lines of the audit log: one for each request")


if __name__ == "__main__":
    main([only_files_are_replaced,
          a_target_that_cannot_be_written_is_said_before_training,
          a_folder_that_up_may_not_write_is_said_with_what_to_do,
          what_is_wrong_is_said_in_one_sentence,
          a_reader_that_has_seen_enough_is_no_fault,
          ctrl_c_and_timeout_hold_while_the_coordinator_stands_still,
          a_job_of_which_nothing_was_applied_fails_and_names_the_sample,
          a_psserver_that_workers_cannot_reach_is_named_with_the_cause,
          many_shards_are_two_lines_until_each_is_asked_for,
          watch_is_one_object_per_line_and_the_summary_the_last,
          a_line_begins_with_the_reason,
          a_client_of_another_authority_is_refused_in_one_sentence,
          a_full_disk_of_a_psserver_is_said_in_status,
          stop_makes_a_checkpoint_first_and_now_does_not,
          a_checkpoint_on_demand_is_there_when_the_command_ends])
