#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`sluice run`: one command line starts every role, where TensorFlow's TF_CONFIG
or another launcher's environment says which; a job trains, and all of it ends.

mpirun is tried where it is installed, TensorFlow's own resolver and torchrun where the peers'
environment has them (frameworks.py)."""
import contextlib
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile

from cluster import (BIN, LIMIT, ROOT, changed, check, check_counts, check_equal, children_of, main,
                     mlp_job, wait_for)
from frameworks import PEERS, PYTHON, there


def free_ports(count):
    """So many in a row that nobody listens on now."""
    for first in range(21000 + os.getpid() % 9000, 32000, 16):
        with contextlib.ExitStack() as held:
            try:
                for port in range(first, first + count):
                    s = held.enter_context(socket.socket())
                    s.bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise AssertionError("no free ports")


class Launched:
    """Processes that all had the same command line, and another environment."""

    def __init__(self, coordinator, *words):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="sluice-launch-"))
        self.coordinator = coordinator
        self.words = [str(BIN / "sluice"), "run", "--dir", str(self.dir / "cluster"), *words]
        self.processes = {}
        self.env = dict(os.environ)  # of the client

    def start(self, name, before=(), **environment):
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("SLURM_", "OMPI_", "PMI_", "SKYPILOT_"))}
        with open(self.dir / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                [*before, *self.words], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                cwd=self.dir, env={**env, "SLUICE_DATA_ROOT": "/", "SLUICE_THREADS": "1",
                                   **environment})
        return self.processes[name]

    def log(self, name):
        return (self.dir / f"{name}.log").read_text(errors="replace")

    def sluice(self, *words, want=0):
        done = subprocess.run([str(BIN / "sluice"), "--coordinator", self.coordinator,
                               *map(str, words)], capture_output=True, text=True,
                              timeout=120, check=False, cwd=self.dir, env=self.env)
        check(want is None or done.returncode == want,
              f"sluice {words}: exit {done.returncode}", done.stdout, done.stderr)
        return done

    def members(self):
        done = self.sluice("-o", "json", "status", want=None)
        found = json.loads(done.stdout)["members"] if done.returncode == 0 else []
        return {m["name"]: m for m in found}

    def wait_members(self, *names):
        wait_for(f"{names} to attend", lambda: set(names) <= set(self.members()))

    def train(self, **job):
        spec = self.dir / "job.json"
        spec.write_text(json.dumps(mlp_job(epochs=1, **job)))
        self.sluice("submit", spec, "--request-id", "launched")
        status = json.loads(self.sluice("-o", "json", "status", "j-1").stdout)
        check_equal(status["state"], "finished", "state")
        return status

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM if error is None else signal.SIGKILL)
        for process in self.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=30 * LIMIT)
            process.kill()
            process.wait()
        if error is None:
            wait_for("all of it to end", lambda: not children_of(self.dir), 20)
        for path in sorted(self.dir.glob("*.log")) if error else ():
            print(f"---- {path.name}", *path.read_text().splitlines()[-15:], sep="\n")
        shutil.rmtree(self.dir, ignore_errors=True)


def tf_files(folder, cluster):
    """TF_CONFIG of each process of a cluster, a file each, as its starter has them."""
    for kind, addresses in cluster.items():
        for index in range(len(addresses)):
            (folder / f"{kind}-{index}.json").write_text(json.dumps(
                {"cluster": cluster, "task": {"type": kind, "index": index},
                 "environment": "cloud", "rpc_layer": "grpc"}))
    return sorted(folder.glob("*-*.json"))


RESOLVE = """
import os, sys, json
from tensorflow.python.distribute.cluster_resolver.tfconfig_cluster_resolver import TFConfigClusterResolver
for path in sys.argv[1:]:
    os.environ["TF_CONFIG"] = open(path).read()
    r = TFConfigClusterResolver()
    spec = r.cluster_spec()
    print(json.dumps([r.task_type, r.task_id, spec.task_address(r.task_type, r.task_id)]))
"""


def tensorflow_reads_them_the_same():
    """The same type, index and address as its own resolver finds."""
    if not there("tensorflow"):
        return
    at = [f"127.0.0.1:{2222 + i}" for i in range(5)]
    with Launched(at[0]) as c:
        compare(c, tf_files(c.dir, {"chief": at[:1], "ps": at[1:3], "worker": at[3:]}))


def compare(c, files):
    done = subprocess.run([PYTHON, "-c", RESOLVE, *map(str, files)],
                          capture_output=True, text=True, timeout=300, check=False,
                          env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"})
    check_equal(done.returncode, 0, done.stderr)
    role = {"chief": "coordinator", "ps": "psserver", "worker": "worker"}
    for path, line in zip(files, done.stdout.splitlines(), strict=True):
        kind, index, address = json.loads(line)
        told = json.loads(subprocess.run(
            [*c.words, "--discover-only", "-o", "json"], check=True, capture_output=True,
            env={**os.environ, "TF_CONFIG": path.read_text()}).stdout)
        check_equal((told["role"], told["index"], told["listen"]),
                    (role[kind], index, address), path.name)


def a_tensorflow_cluster_starts_by_its_tf_config():
    port = free_ports(5)
    at = [f"127.0.0.1:{port + i}" for i in range(5)]
    with Launched(at[0]) as c:
        files = tf_files(c.dir, {"chief": at[:1], "ps": at[1:3], "worker": at[3:]})
        for path in reversed(files):  # workers before the others, as it may happen
            c.start(path.stem, TF_CONFIG=path.read_text())
        c.wait_members("ps-0", "ps-1", "worker-0", "worker-1")
        status = c.train()
        check_counts(status)
        check_equal({s["psserver"] for s in status["shards"]}, {"ps-0", "ps-1"}, "shards lie on")
        check("tf_config: psserver 1" in c.log("ps-1"), c.log("ps-1"))


def workers_without_a_chief_start_their_coordinator():
    port = free_ports(2)
    at = [f"127.0.0.1:{port + i}" for i in range(2)]
    with Launched(at[0], "--certs", "certs") as c:
        c.sluice("cert", "init", c.dir / "certs", "--host", "127.0.0.1")
        for word, file in (("CA", "ca.crt"), ("CERT", "client.crt"), ("KEY", "client.key")):
            c.env[f"SLUICE_TLS_{word}"] = str(c.dir / "certs" / file)
        for path in tf_files(c.dir, {"worker": at}):
            c.start(path.stem, TF_CONFIG=path.read_text())
        c.wait_members("worker-0", "worker-1")
        status = c.train(mode="allreduce")
        check_equal(int(status["steps_counted"]), int(status["steps_asked"]), "steps counted")
        check('"tls":1' in c.log("worker-0") and '"tls":1' in c.log("worker-1"), "no TLS")
        # The coordinator is no child that outlives its worker.
        check_equal(len(children_of(c.dir / "cluster")), 4, "processes, with a watcher")
        process = c.processes.pop("worker-0")
        process.send_signal(signal.SIGTERM)
        check_equal(process.wait(timeout=60 * LIMIT), -signal.SIGTERM, "exit of worker-0")
        wait_for("its coordinator to end", lambda: len(children_of(c.dir / "cluster")) == 1, 20)


def train_ranks(coordinator, port, name, line):
    """A real launcher's four processes: coordinator, psserver, two workers."""
    if not shutil.which(line[0]):
        print(f"{name} is not tried: no {line[0]}")
        return
    with Launched(f"{coordinator}:{port}", "--base-port", str(port), "--psservers", "1") as c:
        c.start(name, before=line, SLUICE_COORDINATOR=f"{coordinator}:{port}")
        c.wait_members("ps-0", "worker-0", "worker-1")
        check_counts(c.train())
        check(f"{name}: coordinator 0" in c.log(name), c.log(name))


def torchrun_starts_each_rank():
    if not there("torch"):
        return
    port = free_ports(6)
    train_ranks("localhost", port, "torchrun", [
        str(PEERS / "bin" / "torchrun"), "--nnodes", "1", "--nproc-per-node", "4", "--master-addr",
        "localhost", "--master-port", str(port + 5), "--rdzv-id", "night", "--no-python"])


def mpirun_starts_each_rank():
    train_ranks("127.0.0.1", free_ports(3), "mpi", [
        "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "4"])


def a_daemon_takes_what_is_not_set():
    port = free_ports(3)
    at = [f"127.0.0.1:{port + i}" for i in range(3)]
    config = json.dumps({"cluster": {"chief": at[:1], "ps": at[1:2], "worker": at[2:]},
                         "task": {"type": "ps", "index": 0}})

    def ask(program, *words, **more):
        return subprocess.run([str(BIN / program), *words], capture_output=True, text=True,
                              check=False, timeout=60,
                              env={**os.environ, "TF_CONFIG": config, **more})
    told = ask("psserver", "--discover", "auto", "--name", "mine", "--print-config").stdout
    for line in (f"# environment\ncoordinator = {at[0]}", f"# environment\nlisten = {at[1]}",
                 "# flag\nname = mine"):
        check(line in told, f"'{line}' is not in", told)
    told = ask("psserver", "--print-config").stdout
    check("# default\ncoordinator = 127.0.0.1:7070" in told, told)
    for program, config, why in (
            ("worker", config, "task.type is ps, which is a psserver, not a worker"),
            ("psserver", changed(config, {'"index": 0': '"index": 1'}), "the last one is 0"),
            ("psserver", "", "TF_CONFIG is empty")):
        done = ask(program, "--discover", "auto", TF_CONFIG=config)
        check_equal(done.returncode, 2, done.stderr)
        check(why in done.stderr, f"it does not say '{why}'", done.stderr)
    done = ask("sluice", "run", TF_CONFIG='{"task": {"type": "evaluator", "index": 0}}')
    check_equal(done.returncode, 0, done.stderr)
    check("nothing to start" in done.stderr, done.stderr)
    # JSON has all words of what is started, or there is none.
    done = ask("sluice", "run", "--discover-only", "-o", "json", "--dir", b"\xff",
               TF_CONFIG=json.dumps({"cluster": {"chief": at[:1], "ps": at[1:]},
                                     "task": {"type": "ps", "index": 0}}))
    check(done.returncode != 0 and "no UTF-8" in done.stderr and not done.stdout,
          done.stdout, done.stderr)
    # Not known yet is no mistake: the service manager tries again.
    done = ask("worker", "--discover", "dns", "--service", "nowhere.invalid",
               HOSTNAME="nn-worker-0")
    check_equal(done.returncode, 138, done.stderr)
    check("'nowhere.invalid' does not resolve" in done.stderr, done.stderr)
    done = ask("sluice", "run", TF_CONFIG="{")
    check_equal(done.returncode, 2, done.stderr)


def pods_find_the_coordinators_service():
    """By the system's resolver, of the one name that each host knows."""
    port = free_ports(2)
    with Launched(f"localhost:{port}", "--discover", "dns", "--service", "localhost",
                  "--base-port", str(port)) as c:
        for pod in ("nn-coordinator-0", "nn-psserver-0", "nn-worker-0"):
            c.start(pod, HOSTNAME=pod, **({"SLUICE_LISTEN": f"127.0.0.1:{port + 1}",
                                           "SLUICE_ADVERTISE": f"127.0.0.1:{port + 1}"}
                                          if "ps" in pod else {"SLUICE_LISTEN": "127.0.0.1:0"}
                                          if "worker" in pod else {}))
        c.wait_members("ps-0", "nn-worker-0")
        check_counts(c.train())


def block(text, key):
    """A `key: |` of a YAML file."""
    lines = text.partition(f"\n{key}: |\n")[2].splitlines()
    own = itertools.takewhile(lambda line: not line or line.startswith("  "), lines)
    return "\n".join(line[2:] for line in own)


def the_skypilot_task_runs_on_two_nodes():
    """Its `run` as it stands, as SkyPilot starts it on each node: mutual TLS, and a
    certificate for each daemon that its node signed."""
    port = free_ports(2)
    text = (ROOT / "examples" / "skypilot.yaml").read_text()
    envs = dict(re.findall(r"^  ([A-Z_]+): +(\S+)", text.partition("\nenvs:\n")[2], re.M))
    check({"PART", "JOB", "STATE", "CERTS", "SLUICE_BASE_PORT"} <= set(envs), envs)
    with Launched(f"127.0.0.1:{port}") as c:
        c.words = ["bash", "-c", block(text, "run")]
        c.sluice("cert", "init", c.dir / "certs", "--host", "localhost")
        # It lasts until both workers have come.
        (c.dir / "job.json").write_text(json.dumps(mlp_job(epochs=60)))
        sky = {"PATH": f"{BIN}:{os.environ['PATH']}", "STATE": str(c.dir / "cluster"),
               "CERTS": str(c.dir / "certs"), "JOB": str(c.dir / "job.json"),
               "SLUICE_BASE_PORT": str(port), "SKYPILOT_NODE_RANK": "0"}
        head = c.start("head", PART="head", SKYPILOT_NODE_IPS="127.0.0.1", SKYPILOT_NUM_NODES="1",
                       SKYPILOT_TASK_ID="sky-2026-11-25_sluice_1-0", **sky)
        for rank in "01":
            c.start(f"node-{rank}", PART="workers", COORDINATOR=f"127.0.0.1:{port}",
                    SKYPILOT_NODE_IPS="127.0.0.1\n127.0.0.1", SKYPILOT_NUM_NODES="2",
                    **{**sky, "SKYPILOT_NODE_RANK": rank})
        check_equal(head.wait(timeout=120 * LIMIT), 0, f"exit of the head\n{c.log('head')}")
        for said in (f"workers: --env COORDINATOR=127.0.0.1:{port}", '"tls":1', "finished"):
            check(said in c.log("head"), f"the head does not say {said}", c.log("head"))
        for rank in "01":
            check(f'"member":"worker-{rank}"' in c.log("head"), c.log("head"))


if __name__ == "__main__":
    main([tensorflow_reads_them_the_same,
          a_tensorflow_cluster_starts_by_its_tf_config,
          workers_without_a_chief_start_their_coordinator,
          torchrun_starts_each_rank, mpirun_starts_each_rank, a_daemon_takes_what_is_not_set,
          pods_find_the_coordinators_service, the_skypilot_task_runs_on_two_nodes])
