#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`sluice up`: one command starts a cluster, keeps it alive, and leaves no
process, socket or lock behind; ./quickstart does what the README says."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

from cluster import (BIN, LIMIT, ROOT, check, check_equal, children_of, free_port, main,
                     mlp_job, wait_for)


class Up:
    """A running `sluice up` in a folder of its own."""

    def __init__(self, psservers=2, workers=2, more=()):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="sluice-up-"))
        self.address = f"127.0.0.1:{free_port()}"
        self.words = ["up", "--psservers", str(psservers), "--workers", str(workers),
                      "--dir", str(self.dir / "cluster"), "--listen", self.address,
                      "--threads", "1", *more]

    def __enter__(self):
        self.out = open(self.dir / "up.out", "w+", encoding="utf-8")
        self.process = subprocess.Popen(self.command(), stdout=self.out,
                                        stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        wait_for("up to be ready", self.ready)
        return self

    def command(self):
        return [str(BIN / "sluice"), *self.words]

    def ready(self):
        check(self.process.poll() is None, "up ended", self.text())
        return self.address in self.text()

    def text(self):
        return (self.dir / "up.out").read_text(encoding="utf-8")

    def sluice(self, *words, want=0):
        done = subprocess.run([str(BIN / "sluice"), "--coordinator", self.address,
                               *map(str, words)], capture_output=True, text=True,
                              timeout=120 * LIMIT, check=False)
        check_equal(done.returncode, want, f"sluice {words}: {done.stderr}")
        return done.stdout

    def members(self):
        return json.loads(self.sluice("-o", "json", "status"))["members"]

    def pids(self):
        return {m["name"]: int(m["pid"]) for m in self.members()}

    def stop(self, how=signal.SIGINT):
        self.process.send_signal(how)
        return self.process.wait(timeout=30 * LIMIT)

    def __exit__(self, *_):
        if self.process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.stop()
        self.process.kill()
        self.process.wait()
        self.out.close()
        shutil.rmtree(self.dir, ignore_errors=True)


def nothing_is_left(up):
    wait_for("all daemons to end", lambda: not children_of(up.dir / "cluster"), 20)
    left = [str(p) for p in (up.dir / "cluster").rglob("*")
            if p.is_socket() or p.suffix == ".pid"]
    check_equal(left, [], "left behind")


def ctrl_c_leaves_nothing_behind():
    with Up() as up:
        wait_for("all to attach", lambda: len(up.members()) == 4)
        up.stop(signal.SIGINT)
        nothing_is_left(up)


def a_killed_worker_is_replaced():
    with Up() as up:
        wait_for("all to attach", lambda: len(up.members()) == 4)
        before = up.pids()
        victim = next(n for n in before if before[n] and "w" in n[:1])
        os.kill(before[victim], signal.SIGKILL)
        wait_for("a replacement", lambda: len(up.members()) >= 4
                 and before[victim] not in up.pids().values())
        check("SIGKILL" in up.text(), "nothing was said of the kill", up.text())
        up.stop(signal.SIGTERM)
        nothing_is_left(up)


def a_second_up_in_the_same_folder_is_refused():
    with Up(psservers=1, workers=1) as up:
        done = subprocess.run([str(BIN / "sluice"), *up.words], capture_output=True,
                              text=True, timeout=30 * LIMIT, check=False)
        check(done.returncode != 0, "a second up ran")
        check(str(up.process.pid) in done.stderr, "it does not name the first",
              done.stderr)


def listening_ports(pids):
    """The TCP ports of loopback and beyond on which these processes listen."""
    inodes = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A":
                inodes[f"socket:[{words[9]}]"] = int(words[1].rsplit(":", 1)[1], 16)
    found = set()
    for pid in pids:
        for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(inodes.get(os.readlink(fd)))
    return found - {None}


def without_listen_it_is_for_its_user_alone():
    """No port of loopback is open for anything but health: whoever can submit
    can have the files of this user read."""
    with tempfile.TemporaryDirectory(prefix="sluice-own-") as folder:
        top = pathlib.Path(folder)
        os.chmod(top, 0o755)
        run = top / "run"
        run.mkdir(0o700)
        where = run / "sluice" / "up.sock"
        environment = {k: v for k, v in os.environ.items() if k != "SLUICE_COORDINATOR"}
        environment |= {"XDG_RUNTIME_DIR": str(run), "PYTHONPATH": str(ROOT / "python"),
                        "SLUICE_LIBRARY": str(BIN.parent / "lib" / "libsluice.so")}

        def sluice(*words, want=0):
            done = subprocess.run([BIN / "sluice", *map(str, words)], env=environment, text=True,
                                  capture_output=True, timeout=120, check=False)
            check_equal(done.returncode, want, f"sluice {words}: {done.stderr}")
            return done

        # Too long a path for a socket, so that the psserver's lies elsewhere.
        cluster = top / ("long-" * 20) / "c"
        up = ("up", "--detach", "--psservers", 1, "--workers", 1, "--threads", 1, "--dir")
        try:
            told = sluice(*up, cluster).stdout
            check(f"coordinator at unix:{where}" in told, told)
            check("sluice submit" in told and "Note:" not in told, told)
            check_equal(where.stat().st_mode & 0o777, 0o600, "mode of the socket")
            check_equal(where.parent.stat().st_mode & 0o777, 0o700, "mode of its folder")
            check_equal(len(list(where.parent.glob("*.sock"))), 3, "sockets beside it")

            # Whoever says no address finds it: the command, and programs.
            wait_for("all to attach", lambda: len(json.loads(
                sluice("status", "-o", "json").stdout)["members"]) == 2)
            sluice("submit", ROOT / "examples" / "toy.yaml")
            subprocess.run([sys.executable, "-c", "import sluice; sluice.Session(wait=30).close()"],
                           env=environment, check=True, timeout=60)

            # Journal, audit log, logs: all that it keeps, and what the store is in.
            store = cluster / "checkpoints"
            check_equal({str(p): oct(p.stat().st_mode) for p in (cluster, *cluster.rglob("*"))
                         if p.stat().st_mode & 0o077 and not p.is_socket()
                         and store not in p.parents}, {}, "what others may read")

            pids = [p for p in children_of(cluster) if "sluice" not in pathlib.Path(
                f"/proc/{p}/comm").read_text()]
            check_equal(len(pids), 3, "daemons")
            ops = {int((cluster / name / "ops.address").read_text().rsplit(":", 1)[1])
                   for name in ("coordinator", "ps-0", "worker-0")}
            check_equal(listening_ports(pids), ops, "ports that are open")
            if os.geteuid() == 0:
                other = shutil.copy(BIN / "sluice", top)
                done = subprocess.run([other, "--coordinator", f"unix:{where}", "--timeout", "2s",
                                       "jobs"], capture_output=True, text=True, check=False,
                                      user=65534, group=65534, timeout=60, cwd="/")
                check_equal(done.returncode, 4, f"another user: {done.stdout}{done.stderr}")

            # A second one, and one on a port that is in use: a sentence each.
            done = sluice(*up, top / "d", want=6)
            check("another 'sluice up' of yours listens on" in done.stderr, done.stderr)
            with socket.socket() as taken:
                taken.bind(("127.0.0.1", 0))
                taken.listen()
                at = "127.0.0.1:%d" % taken.getsockname()[1]
                more = sluice(*up, top / "d", "--listen", at, want=6)
                check(f"--listen {at}: another process listens there" in more.stderr, more.stderr)
            check_equal([d.stderr.count("\n") for d in (done, more)], [1, 1], "lines")
        finally:
            sluice("down", "--dir", cluster)
        check_equal(list(where.parent.iterdir()), [], "left behind")


def up_goes_on_where_it_was_killed():
    with Up(psservers=2, workers=2) as up:
        spec = up.dir / "job.yaml"
        spec.write_text(json.dumps(mlp_job("resumed", epochs=30)))
        job = up.sluice("submit", spec, "--no-wait").strip()
        wait_for("some steps", lambda: int(json.loads(
            up.sluice("-o", "json", "status", job))["steps_counted"]) > 200)
        up.process.kill()
        up.process.wait()
        with_same = Up.__enter__
        with_same(up)
        up.sluice("wait", job)
        status = json.loads(up.sluice("-o", "json", "status", job))
        check_equal(status["steps_counted"], status["steps_asked"], "steps")
        up.stop()
        nothing_is_left(up)


def examples_run_as_they_are():
    """Each spec of examples/, from another folder, with fewer samples only."""
    few = ["train.epochs=1", "data.test.limit=100"]
    shorter = {"clicks": [], "fashion-cnn": [*few, "data.train.limit=1280"],
               "fashion-mlp": [*few, "data.train.limit=6400"],
               "toy": ["data.train.samples=131072"],
               "fashion-resnet": [*few, "data.train.limit=256"],
               "imagenette": ["train.epochs=1", "train.batch=2", "data.train.samples=4",
                              "data.test.samples=2"]}
    with Up() as up:
        names = {p.stem for p in (ROOT / "examples").glob("*.yaml")}
        names -= {"skypilot"}  # a task of its own, of launch_test.py
        # movielens_test.py, recurrent_test.py and images_test.py have data of these.
        check_equal(names - {"external", "movielens", "forecast", "code", "shapes",
                             "imagenette-https"},
                    set(shorter), "examples with a test")
        examples = shutil.copytree(ROOT / "examples", up.dir / "examples")
        subprocess.run([sys.executable, examples / "clicks_data.py"], check=True)
        for name in sorted(names):
            up.sluice("validate", examples / f"{name}.yaml")
        for name, words in shorter.items():
            sets = [w for s in words for w in ("--set", s)]
            up.sluice("submit", examples / f"{name}.yaml", *sets,
                      "--summary", up.dir / "s.json")
            summary = json.loads((up.dir / "s.json").read_text())
            check_equal(summary["steps_counted"], summary["steps_asked"], name)
            check(summary["cover"] and summary["once"], f"{name}: {summary}")
            if name == "toy":
                check(summary["test_accuracy"][-1] > 0.95, f"toy: {summary}")
            if name == "clicks":
                check(summary["test_metrics"]["auc"][-1] > 0.8, f"clicks: {summary}")


def doctor_names_what_is_wrong():
    with Up(psservers=1, workers=1) as up:
        wait_for("all to attach", lambda: len(up.members()) == 2)
        text = up.sluice("doctor", "--state", up.dir / "cluster")
        check("fault" not in text.split(), "a healthy cluster", text)
        check("ok       build        " in text, "how it was built", text)
        up.stop()
        done = subprocess.run([str(BIN / "sluice"), "--coordinator", up.address,
                               "doctor", "--state", str(up.dir / "nothing")],
                              capture_output=True, text=True, timeout=60, check=False)
        check_equal(done.returncode, 1, "exit status")
        for word in (up.address, "nothing"):
            check(word in done.stdout + done.stderr, f"no '{word}' in", done.stdout)


def quickstart_trains_and_tidies_up():
    """The command of the README, whole: accuracy, counts, kill, summary."""
    done = subprocess.run([str(ROOT / "quickstart")], capture_output=True, text=True,
                          timeout=400, check=False, stdin=subprocess.DEVNULL)
    text = done.stdout[-3000:] + done.stderr[-3000:]
    check_equal(done.returncode, 0, f"exit: {text}")
    run = ROOT / re.search(r"runs/quickstart-[\d-]+", done.stdout)[0]
    summary = json.loads((run / "summary.json").read_text())
    check_equal(len(summary["test_accuracy"]), 5, "epochs evaluated")
    check(summary["test_accuracy"][-1] >= 0.89, f"{summary['test_accuracy']}")
    check_equal(summary["steps_counted"], summary["steps_asked"], "steps")
    check_equal(summary["samples_counted"], [60000] * 5, "samples counted")
    check_equal(summary["samples_per_epoch"], 60000, "samples per epoch")
    check(int(summary["workers_lost"]) >= 1, "no worker was killed")
    check("SIGKILL" in text, "nothing was said of the kill", text)
    check(pathlib.Path(summary["checkpoint"]).exists(), "no checkpoint there")
    check_equal(children_of(run), [], "processes left")
    left = [str(p) for p in run.rglob("*") if p.is_socket() or p.suffix == ".pid"]
    check_equal(left, [], "left behind")
    shutil.rmtree(run)


if __name__ == "__main__":
    main([ctrl_c_leaves_nothing_behind, a_killed_worker_is_replaced,
          a_second_up_in_the_same_folder_is_refused,
          without_listen_it_is_for_its_user_alone, up_goes_on_where_it_was_killed,
          examples_run_as_they_are, doctor_names_what_is_wrong,
          quickstart_trains_and_tidies_up])
