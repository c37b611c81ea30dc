# SPDX-License-Identifier: Apache-2.0
"""A cluster of real daemons for system tests: started by hand, one process per
role, killed and paused by pid, observed only through the sluice command and
the job API that it speaks.

A test waits for a state with a limit (wait_for) and never sleeps to let
something happen. Everything that is started here is ended here.
"""
import contextlib
import functools
import gzip
import json
import math
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import asker
from proxy import Proxy

BIN = pathlib.Path(os.environ.get("SLUICE_BIN", "build/bin")).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")
# Sanitizer builds are several times slower.
PATIENCE = float(os.environ.get("SLUICE_PATIENCE", "1"))
# A limit is for what hangs, and a busy machine is only slow: so many times longer.
LIMIT = 4 * PATIENCE
# For a coordinator of whose members none is to be lost but those that die: a busy
# machine lets a daemon stand still for longer than the two seconds of a lease.
LONG_LEASE = ["--lease-ms", "20000"]
# In a build for tests, what the daemons did is checked after each test.
HISTORY = os.environ.get("SLUICE_HISTORY_CHECK") == "1"


ENDED = ("finished", "failed", "stopped")


class Failed(Exception):
    """The system did not do what the test says it must."""


def check(condition, text, *details):
    if not condition:
        raise Failed(text + "".join(f"\n  {d}" for d in details))


def check_equal(got, want, what):
    check(got == want, f"{what}: got {got!r}, want {want!r}")


def changed(text, words, most=-1):
    """Returns text, or bytes, with the new ones of `words` (old: new) for the old ones.
    Fails if there is no old one, where str.replace() changes nothing and says nothing."""
    for old, new in words.items():
        check(old in text, f"{old!r} is not in", text)
        text = text.replace(old, new, most)
    return text


def wait_for(what, probe, limit_s=60):
    """Calls probe() until it gives something true; fails after the limit."""
    first = now = time.monotonic()
    end = now + limit_s * LIMIT
    while True:
        began, found = now, probe()
        if found:
            return found
        now = time.monotonic()
        check(now < end, f"waited {limit_s} s in vain for {what}")
        # Between looks; nothing is assumed to have happened. A look that is dear, as a
        # command is, is had more seldom, and so is each where many were in vain.
        time.sleep(min(max(0.02, 2 * (now - began), (now - first) / 20), 0.2))
        now = time.monotonic()


def free_port():
    """Returns a port of loopback that nobody has. The kernel gives none of these to
    whoever connects or wants any port, so it is free still when it is listened on."""
    while True:
        port = random.SystemRandom().randrange(10000, 32768)
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind(("127.0.0.1", port))
            return port


def children_of(folder):
    """Processes whose command line names the folder (this test's own only)."""
    found = []
    for proc in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(folder).encode() in (proc / "cmdline").read_bytes():
                found.append(int(proc.name))
    return found


@contextlib.contextmanager
def full_disk(process, folder):
    """The disk of the folder, in the mounts of the process, is full and stays so:
    what a collected checkpoint or a shortened journal gives back is taken, too."""
    inside = ["nsenter", "-t", str(process.pid), "-m"]
    ballast = pathlib.Path(folder) / "ballast"
    fill = f"cat /dev/zero >> '{ballast}' 2>/dev/null"
    subprocess.run([*inside, "sh", "-c", fill], check=False)
    # A session of its own, so that its children end with it.
    filler = subprocess.Popen([*inside, "sh", "-c", f"while :; do {fill}; sleep 0.02; done"],
                              start_new_session=True)
    try:
        yield
    finally:
        os.killpg(filler.pid, signal.SIGKILL)
        filler.wait()
        subprocess.run([*inside, "rm", "-f", str(ballast)], check=False)


@contextlib.contextmanager
def slowly(processes):
    """What processes() gives, as objects or by pid, stands still for most of the time, too
    briefly for a lease to end: a job that runs only to be looked at leaves the processors to
    others."""
    end = threading.Event()

    def signal_all(number):
        for process in processes():
            with contextlib.suppress(ProcessLookupError):
                if isinstance(process, int):
                    os.kill(process, number)
                else:  # which knows whether the pid is still its own
                    process.send_signal(number)

    def take_turns():
        while not end.wait(0.02):
            signal_all(signal.SIGSTOP)
            end.wait(0.2)
            signal_all(signal.SIGCONT)
    thread = threading.Thread(target=take_turns)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


class NotifySocket:
    """Where daemons say READY=1, as they would to systemd."""

    def __init__(self, folder):
        # A path of its own: who was not waited for may still say READY=1, and
        # the next one must not be taken for ready by that.
        self.path = str(folder / f"notify-{time.monotonic_ns()}.sock")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)

    def wait_ready(self, process, name, limit_s=30):
        end = time.monotonic() + limit_s * LIMIT
        while time.monotonic() < end:
            code = process.poll()  # first: one that is told to die is ready before
            self.socket.settimeout(0.2)
            with contextlib.suppress(TimeoutError):
                if b"READY=1" in self.socket.recv(4096):
                    return
            check(code is None, f"{name} ended with {code} before it was ready")
        raise Failed(f"{name} was not ready within {limit_s} s")

    def close(self):
        self.socket.close()
        pathlib.Path(self.path).unlink(missing_ok=True)


class Cluster:
    """with Cluster(psservers=2, workers=2) as c: ..."""
    reachable = True  # False: its coordinator is on another host
    roots = ("/",)  # where workers may read data files

    def __init__(self, psservers=2, workers=2, worker_args=(),
                 coordinator_args=(), psserver_args=()):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="sluice-test-"))
        self.counts = {"psserver": psservers, "worker": workers}
        self.args = {"coordinator": list(coordinator_args),
                     "psserver": list(psserver_args),
                     "worker": list(worker_args)}
        self.processes = {}
        self.address = f"unix:{self.dir}/coordinator.sock"
        self.asker = None
        if self.reachable and asker.available():
            self.asker = asker.Asker(self.address, ROOT / "proto")
        self.failed = False
        self.history = self.dir / "history" if HISTORY else None
        if self.history:
            self.history.mkdir()

    # ---- life

    def __enter__(self):
        try:
            self.start_all()
            self.wait_attached(*(n for n in self.processes if n != "coordinator"))
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def start_all(self):
        self.start("coordinator")
        for i in range(self.counts["psserver"]):
            self.start(f"ps-{i}")
        for i in range(self.counts["worker"]):
            self.start(f"w-{i}")

    def __exit__(self, kind, error, trace):
        self.failed = error is not None
        try:
            if self.history and not self.failed:
                self.check_history()
        finally:
            if self.asker:
                self.asker.close()
            for name in list(self.processes):
                self.kill(name)
            if self.failed:
                self.tell(error)
            shutil.rmtree(self.dir, ignore_errors=True)
        return False

    def jobs(self):
        """The status of every job; none where no coordinator answers."""
        if "coordinator" not in self.processes:
            return []
        listed = self.json("jobs").get("jobs", [])
        return [self.json("status", job["id"]) for job in listed]

    def no_history(self, why):
        """From here on nothing is written or checked: the test itself breaks an
        invariant, or hides files from the checker; `why` says how."""
        assert why
        self.history = None

    def check_history(self, **expect):
        """The invariants of tests/history, or Failed with what breaks them."""
        sys.path.insert(0, str(ROOT / "tests" / "history"))
        import checker
        dead = {p.pid: p.poll() for p in self.processes.values()}
        try:
            statuses = self.jobs()
            found = checker.check(self.history, statuses=statuses, exits={
                pid: code for pid, code in dead.items() if code is not None},
                **expect)
        except Failed:
            self.failed = True
            raise
        self.failed = bool(found)
        check(not found, "the history breaks an invariant", *found)

    def tell(self, why=None):
        """Why a test has failed, and what the daemons said. The reason comes first: where the
        output is cut short, it is there."""
        if why:
            print(f"failed: {why}", file=sys.stderr)
        for log in sorted(self.dir.glob("*.log")):
            lines = log.read_text(errors="replace").splitlines()
            print(f"---- {log.name}", *lines[-25:], sep="\n", file=sys.stderr)

    def command(self, name):
        role = {"c": "coordinator", "p": "psserver", "w": "worker"}[name[0]]
        state = str(self.dir / name)
        line = [str(BIN / role)]
        if role == "coordinator":
            line += ["--listen", self.address, "--state", state,
                     "--store", str(self.dir / "store")]
        else:
            line += ["--coordinator", self.address, "--name", name]
        if role == "psserver":
            line += ["--listen", f"unix:{self.dir}/{name}.sock",
                     "--state", state, "--store", str(self.dir / "store")]
        if role == "worker":
            line += ["--threads", "1", *self.data_roots()]
        return line + self.args[role]

    def data_roots(self):
        return [f"--data-root={root}" for root in self.roots]

    def start(self, name, extra=(), environment=None, wait=True):
        notify = NotifySocket(self.dir)
        try:
            with open(self.dir / f"{name}.log", "ab") as log:
                process = subprocess.Popen(
                    self.command(name) + list(extra), stdout=log, stderr=log,
                    stdin=subprocess.DEVNULL, cwd=self.dir,
                    env={**os.environ, **(environment or {}),
                         **({"SLUICE_HISTORY": str(self.history)}
                            if self.history else {}),
                         "NOTIFY_SOCKET": notify.path})
            self.processes[name] = process
            if wait:
                notify.wait_ready(process, name)
        finally:
            notify.close()
        return process

    def kill(self, name, how=signal.SIGKILL):
        """Ends a process that this cluster started, and collects it."""
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(how)  # first: a stopped one does nothing more
            process.send_signal(signal.SIGCONT)
        return process.wait(timeout=60 * LIMIT)

    def workers(self):
        """Their processes, as slowly() wants them."""
        return [process for name, process in list(self.processes.items()) if name[0] == "w"]

    def pause(self, name):
        self.processes[name].send_signal(signal.SIGSTOP)

    def resume(self, name):
        self.processes[name].send_signal(signal.SIGCONT)

    def restart(self, name, **options):
        self.kill(name)
        return self.start(name, **options)

    def log(self, name):
        return (self.dir / f"{name}.log").read_text(errors="replace")

    # ---- the sluice command

    def run(self, *words, limit_s=60, want=0, before=()):
        done = subprocess.run(
            [*map(str, before), str(BIN / "sluice"), "--coordinator", self.address, *map(str, words)],
            capture_output=True, text=True, timeout=limit_s * LIMIT,
            cwd=self.dir, stdin=subprocess.DEVNULL, check=False)
        check(want is None or done.returncode == want,
              f"sluice {' '.join(map(str, words))}: exit {done.returncode}, "
              f"wanted {want}", done.stdout, done.stderr)
        return done

    def json(self, *words, **options):
        timeout = ("--timeout", f"{10 * LIMIT:.0f}s") if "--timeout" not in words else ()
        return json.loads(self.run("-o", "json", *timeout, *words, **options).stdout)

    def submit(self, spec, *more):
        """Writes a spec (a dict, JSON is YAML) and submits it; gives its id."""
        path = self.dir / f"job-{time.monotonic_ns()}.yaml"
        path.write_text(json.dumps(spec))
        return self.run("--timeout", f"{10 * LIMIT:.0f}s", "submit", path, "--no-wait",
                        *more).stdout.strip()

    def status(self, job):
        """What `sluice status` says, but for the spec; its exit where it fails."""
        told = self.asker.status(job, 5 * LIMIT) if self.asker else None
        return told or self.json("status", job)

    def cluster_status(self):
        return self.json("status")

    def wait_attached(self, *names):
        """A daemon is ready before the coordinator knows of it: nobody misses one that
        dies then, nor gives it work."""
        def attached():
            told = self.asker.cluster(5 * LIMIT) if self.asker else None
            return {m["name"] for m in (told or self.cluster_status()).get("members", [])
                    if m["state"] != "lost"}
        if names:
            wait_for(f"{', '.join(names)} to be attached", lambda: set(names) <= attached())

    def steps(self, job):
        return int(self.status(job)["steps_counted"])

    def wait_steps(self, job, steps, limit_s=120):
        def probe():
            now = self.status(job)
            counted = int(now["steps_counted"]) >= steps
            check(counted or now["state"] not in ENDED,
                  f"{job} was to count {steps} steps and is {now['state']} after "
                  f"{now['steps_counted']}")
            return counted
        return wait_for(f"{job} to count {steps} steps", probe, limit_s)

    def wait_state(self, job, state="finished", limit_s=180):
        def probe():
            now = self.status(job)
            if now["state"] in ENDED and now["state"] != state:
                raise Failed(f"{job} is {now['state']}: {now.get('reason')}")
            return now if now["state"] == state else None
        told = wait_for(f"{job} to be {state}", probe, limit_s)
        return self.json("status", job) if state in ENDED else told


class Leisurely(Cluster):
    """Its psservers and workers are reached over long links: a job takes few steps a second
    while a test looks at it or does something to it, and the processors are free for others.
    hurry() makes the links short, relax() makes them long again."""
    FAR = 0.03  # seconds that each chunk is under way

    def __init__(self, *words, **options):
        super().__init__(*words, **options)
        self.links, self.late = {}, self.FAR

    def __exit__(self, *why):
        try:
            return super().__exit__(*why)
        finally:
            for link in self.links.values():
                link.__exit__()

    def command(self, name):
        line = super().command(name)
        if name[0] == "w":
            line += ["--shm", "off", "--listen", f"unix:{self.dir}/{name}.sock"]
        return line + (["--advertise", f"unix:{self.dir}/{name}.far"] if name[0] in "pw" else [])

    def start(self, name, *words, **options):
        if name[0] in "pw" and name not in self.links:
            self.links[name] = Proxy(self.dir / f"{name}.far", self.dir / f"{name}.sock")
            self.links[name].delay(self.late)
        return super().start(name, *words, **options)

    def hurry(self):
        self.relax(0)

    def relax(self, late=FAR):
        self.late = late
        for link in self.links.values():
            link.delay(late)


shared_clusters = {}  # (psservers, workers): one that runs


@contextlib.contextmanager
def shared(psservers=2, workers=2):
    """with shared(psservers=1) as c: a cluster that the cases of a file use one
    after the other, until main() ends it. For cases that end no process and look at
    no other job than their own; that none of theirs runs on is checked. After a
    case that fails the next one gets another cluster."""
    key = psservers, workers
    if key not in shared_clusters:
        shared_clusters[key] = Cluster(psservers, workers).__enter__()
    c = shared_clusters[key]
    try:
        yield c
        states = {job["id"]: job["state"] for job in c.json("jobs").get("jobs", [])}
        check(set(states.values()) <= set(ENDED), "a job runs on in a shared cluster", states)
    except BaseException:
        del shared_clusters[key]
        c.__exit__(*sys.exc_info())
        raise


def shared_clusters_end():
    while shared_clusters:
        shared_clusters.popitem()[1].__exit__(None, None, None)


# ---- what must hold after every run

MASK = (1 << 64) - 1


def mix64(x):
    """The mix of plan/schedule.h, written again from its definition."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


@functools.cache
def digest_of(epoch, samples):
    of_epoch = mix64(epoch)
    return sum(mix64(of_epoch ^ s) for s in range(samples)) & MASK


def check_counts(status):
    """`once` and `cover` of a finished job, from its status alone."""
    asked = int(status["steps_asked"])
    samples = int(status["samples_per_epoch"])
    check_equal(int(status["steps_counted"]), asked, "steps counted")
    check(status["shards"], "the status names no shard")
    for shard in status["shards"]:
        counts, number = shard["counts"], shard["shard"]
        check_equal(int(counts["applied"]) + int(counts["skipped"]), asked,
                    f"once: shard {number}, applied + skipped")
        check_equal(int(counts["counted"]), asked, f"once: shard {number}, counted")
        check_equal(len(counts["epochs"]), int(status["epochs"]),
                    f"cover: shard {number}, epochs")
        for one in counts["epochs"]:
            epoch = int(one["epoch"])
            check_equal(int(one["samples"]), samples,
                        f"cover: shard {number}, epoch {epoch}, samples")
            check_equal(int(one["digest"], 16), digest_of(epoch, samples),
                        f"cover: shard {number}, epoch {epoch}, digest")


# ---- jobs

FEW = 6400  # samples that the files of most tests hold


def with_few(name):
    """A file of FASHION with its first FEW samples, beside the programs. Each
    worker that starts opens its data, and 60000 images take it longer than
    what most tests then do with some of them."""
    path = BIN.parent / f"few-{name}"
    if not path.exists():
        with gzip.open(FASHION / name) as file:
            head = file.read(4)
            sizes = [int.from_bytes(file.read(4), "big") for _ in range(head[3])]
            sizes[0] = min(sizes[0], FEW)
            data = file.read(math.prod(sizes))
        head += b"".join(n.to_bytes(4, "big") for n in sizes)
        made = path.with_name(f"{path.name}.{os.getpid()}")  # others may, too
        made.write_bytes(gzip.compress(head + data, 0))  # each worker unpacks it
        made.rename(path)
    return path


def fashion_source(part, limit, whole=False):
    x, y = (f"{part}-{kind}-ubyte.gz" for kind in ("images-idx3", "labels-idx1"))
    whole = whole or limit == 0 or limit > FEW  # 0: as many as there are
    x, y = (FASHION / n if whole else with_few(n) for n in (x, y))
    return {"format": "idx", "x": str(x), "y": str(y), "scale": 1 / 255,
            "limit": limit}


def mlp_job(name="mlp", samples=6400, epochs=3, batch=32, **train):
    """A net that trains in seconds on real images."""
    return {
        "name": name,
        "model": {"input_shape": [28, 28, 1], "layers": [
            {"type": "flatten"},
            {"type": "dense", "units": 64, "activation": "relu"},
            {"type": "dense", "units": 10}]},
        "loss": "sparse_categorical_crossentropy",
        "optimizer": {"type": "adam", "learning_rate": 0.001},
        "data": {"train": fashion_source("train", samples),
                 "test": fashion_source("t10k", 1000)},
        "train": {"batch": batch, "epochs": epochs, **train},
        "checkpoint": {"every_seconds": 1},
    }


def part_of(items, words):
    """Every n-th of a list from the k-th on, and no words, where the words are
    `--part k/n`: what runs side by side is the whole whatever is added to it."""
    if words[:1] != ["--part"]:
        return items, words
    k, n = map(int, words[1].split("/"))
    check(1 <= k <= n and len(words) == 2, f"no part: {words}")
    return items[k - 1::n], []


def cases_of(listed):
    """The cases of this file that a list names: long.txt, what ./run-tests leaves out;
    checked.txt, what a testing build alone runs."""
    file = pathlib.Path(sys.argv[0]).name.removesuffix("_test.py")
    lines = pathlib.Path(__file__).with_name(listed).read_text().splitlines()
    return {line.split()[1] for line in lines if line.startswith(f"{file} ")}


def chosen(test, words):
    """Whether the command line asks for this test: by its name, as one of `--checked`, of
    `--long`, of `--core` or of `--plain`, which is both of these, or without a word."""
    if words in (["--core"], ["--long"], ["--plain"], ["--checked"]):
        checked = test.__name__ in cases_of("checked.txt")
        if checked or words == ["--checked"]:
            return checked and words == ["--checked"]
        return words == ["--plain"] or \
            (test.__name__ in cases_of("long.txt")) == (words == ["--long"])
    return not words or test.__name__ in words


def cases(wanted):
    yield from wanted
    if shared_clusters:  # their histories are checked at their end
        yield shared_clusters_end


def main(tests):
    """Runs the tests of a file that are asked for; prints a line for each."""
    tests, words = part_of(tests, sys.argv[1:3])
    words += sys.argv[3:]
    wanted = [test for test in tests if chosen(test, words)]
    try:
        failures = run_cases(wanted)
    finally:
        shared_clusters_end()
    if not wanted:
        print(f"no test is called {' '.join(sys.argv[1:])}", file=sys.stderr)
    sys.exit(1 if failures or not wanted else 0)


def run_cases(wanted):
    """How many of them fail."""
    failures = 0
    for test in cases(wanted):
        took = spent()
        try:
            test()
            word = "ok"
        except (Failed, subprocess.TimeoutExpired, KeyError) as error:
            word, failures = "FAILED", failures + 1
            print(f"{test.__name__}: {type(error).__name__}: {error}",
                  file=sys.stderr)
        print(f"{word} {test.__name__} ({took()})", flush=True)
    return failures


def spent():
    """Gives a function that says what has passed since: time, and processor time of
    this process and of those that it has started and that have ended."""
    def now():
        used = os.times()
        return time.monotonic(), sum(used[:4])
    began = now()

    def took():
        wall, cpu = (b - a for a, b in zip(began, now()))
        return f"{wall:.1f} s, processor {cpu:.1f} s"
    return took
