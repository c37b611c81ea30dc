# SPDX-License-Identifier: Apache-2.0
"""Members of etcd on loopback, real ones, each with ports and a folder of its own.

    with Etcd() as e:
        e.endpoints             "127.0.0.1:p,127.0.0.1:q,127.0.0.1:r"
        e.put("key", "value")   over HTTP where that answers, as get and revisions,
                                else by etcdctl, as keys, delete and ctl
        e.kill(e.leader())      its folder stays; start(i) begins it again
        e.pause(i), e.resume(i)
        e.save(file)            a snapshot; e.restore(file) makes new members of it

The members are processes of this one and are ended by pid.
"""
import base64
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from cluster import LIMIT, Failed, check, free_port, wait_for

SERVER, CTL = "/usr/bin/etcd", "/usr/bin/etcdctl"


def available():
    return os.access(SERVER, os.X_OK) and os.access(CTL, os.X_OK)


class Etcd:
    """with Etcd() as e: three members that have a leader. `tls` is a folder with
    ca.pem, cert.pem and key.pem: clients then need a certificate, too. `args` are
    more flags of each member, e.g. ["--quota-backend-bytes", "16777216"]; `place`
    a folder for theirs, e.g. /dev/shm."""

    def __init__(self, members=3, tls=None, args=(), place=None):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="sluice-etcd-", dir=place))
        self.tls, self.args = tls, list(args)
        self.scheme = "https" if tls else "http"
        self.clients = [f"127.0.0.1:{free_port()}" for _ in range(members)]
        self.peers = [f"http://127.0.0.1:{free_port()}" for _ in range(members)]
        self.token = "first"  # a restored cluster has another one
        self.processes, self.paused = {}, set()

    @property
    def endpoints(self):
        return ",".join(self.clients)

    # ---- life

    def __enter__(self):
        try:
            for i in range(len(self.clients)):
                self.start(i, wait=False)
            self.wait_healthy()
        except BaseException:
            self.__exit__(Failed, True, None)
            raise
        return self

    def __exit__(self, kind, error, trace):
        for i in list(self.processes):
            self.kill(i)
        if error:
            for log in sorted(self.dir.glob("*.log")):
                print(f"---- etcd {log.name}", *log.read_text(errors="replace")
                      .splitlines()[-10:], sep="\n")
        shutil.rmtree(self.dir, ignore_errors=True)
        return False

    def cluster(self):
        return ",".join(f"m{i}={peer}" for i, peer in enumerate(self.peers))

    def folder(self, i):
        return self.dir / f"{self.token}-{i}"

    def command(self, i):
        at = f"{self.scheme}://{self.clients[i]}"
        line = [SERVER, "--name", f"m{i}", "--data-dir", str(self.folder(i)),
                "--listen-client-urls", at, "--advertise-client-urls", at,
                "--listen-peer-urls", self.peers[i],
                "--initial-advertise-peer-urls", self.peers[i],
                "--initial-cluster", self.cluster(),
                "--initial-cluster-token", self.token, "--logger", "zap"]
        if self.tls:
            line += ["--cert-file", f"{self.tls}/cert.pem", "--key-file", f"{self.tls}/key.pem",
                     "--trusted-ca-file", f"{self.tls}/ca.pem", "--client-cert-auth"]
        return line + self.args

    def start(self, i, wait=True):
        """Starts a member; with `wait`, until it answers and knows a leader."""
        with open(self.dir / f"{i}.log", "ab") as log:
            self.processes[i] = subprocess.Popen(
                self.command(i), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                cwd=self.dir, start_new_session=True)
        if wait:
            self.wait_healthy(i)

    def wait_healthy(self, *which):
        """Each of them, or each that runs, answers a read that needs the quorum."""
        for i in which or list(self.processes):
            def healthy(i=i):
                code = self.processes[i].poll()
                check(code is None, f"member {i} of etcd ended with {code}")
                if self.tls:
                    return self.try_ctl("get", "health", only=i).returncode == 0
                return self.call(i, "range", key="health") is not None
            wait_for(f"member {i} of etcd", healthy)

    def kill(self, i, how=signal.SIGKILL):
        """Ends a member and collects it; its folder stays."""
        process = self.processes.pop(i)
        self.paused.discard(i)
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(how)  # first: a stopped one does nothing more
            process.send_signal(signal.SIGCONT)
        process.wait(timeout=60 * LIMIT)

    def pause(self, i):
        self.processes[i].send_signal(signal.SIGSTOP)
        self.paused.add(i)

    def resume(self, i):
        self.processes[i].send_signal(signal.SIGCONT)
        self.paused.discard(i)

    # ---- over HTTP: a process of etcdctl for each look costs more than what it looks at

    def call(self, i, method, limit_s=5, **words):
        """What a member answers to a call of etcd's KV service, whose keys and values are
        base64; None where it answers with an error, or not at all."""
        host, port = self.clients[i].split(":")
        there = http.client.HTTPConnection(host, int(port), timeout=limit_s * LIMIT)
        try:
            there.request("POST", f"/v3/kv/{method}", json.dumps(
                {name: base64.b64encode(text.encode()).decode() for name, text in words.items()}))
            answer = there.getresponse()
            told = json.loads(answer.read())
            return told if answer.status == 200 else None
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            return None
        finally:
            there.close()

    def ask(self, method, **words):
        """What the first member that answers does; None if none does, or asks for a
        certificate: etcdctl can say why."""
        if self.tls:
            return None
        each = (self.call(i, method, **words) for i in set(self.processes) - self.paused)
        return next((told for told in each if told is not None), None)

    # ---- etcdctl

    def try_ctl(self, *words, only=None, limit_s=5, text=None):
        """Calls etcdctl, which is given `text`; `only` asks this member alone."""
        line = [CTL, f"--command-timeout={limit_s}s", f"--dial-timeout={limit_s}s",
                "--endpoints", self.endpoints if only is None else self.clients[only]]
        if self.tls:
            line += ["--cacert", f"{self.tls}/ca.pem", "--cert", f"{self.tls}/cert.pem",
                     "--key", f"{self.tls}/key.pem"]
        return subprocess.run(
            [*line, *map(str, words)], capture_output=True, text=True, check=False,
            **({"stdin": subprocess.DEVNULL} if text is None else {"input": text}), timeout=(limit_s + 10) * LIMIT,
            env={**os.environ, "ETCDCTL_API": "3"})

    def ctl(self, *words, only=None, limit_s=30):
        done = self.try_ctl(*words, only=only, limit_s=limit_s)
        check(done.returncode == 0, f"etcdctl {' '.join(map(str, words))}: exit "
              f"{done.returncode}", done.stdout, done.stderr)
        return done.stdout

    def put(self, key, value):
        if self.ask("put", key=key, value=value) is None:
            self.ctl("put", "--", key, value)

    def range(self, key):
        """The key and all that etcd has of it, as JSON; None if there is none."""
        told = self.ask("range", key=key)
        if told is None:
            told = json.loads(self.ctl("get", "-w", "json", key))
        return told["kvs"][0] if "kvs" in told else None

    def get(self, key):
        """The value of a key, or None."""
        found = self.range(key)
        return found and base64.b64decode(found.get("value", "")).decode()

    def keys(self, prefix=""):
        return self.ctl("get", "--prefix", "--keys-only", prefix).split()

    def revisions(self, key):
        """(create, modify) of a key, or None."""
        found = self.range(key)
        return found and (int(found["create_revision"]), int(found["mod_revision"]))

    def delete(self, prefix):
        self.ctl("del", "--prefix", prefix)

    def status(self, i):
        """What a member says of itself, or None; it needs no quorum."""
        done = self.try_ctl("endpoint", "status", "-w", "json", only=i)
        return json.loads(done.stdout)[0]["Status"] if done.returncode == 0 else None

    def leader(self):
        """The number of the member that leads, as a member that runs says."""
        def found():
            told = {i: self.status(i) for i in list(self.processes)}
            return [i for i, s in told.items()
                    if s and s.get("leader") and s["header"]["member_id"] == s["leader"]]
        return wait_for("a leader of etcd", found)[0]

    # ---- backup

    def save(self, path):
        """Writes a snapshot, as docs/operations.md says to."""
        self.ctl("snapshot", "save", path, only=next(iter(self.processes)))

    def restore(self, path):
        """Ends every member and begins a new cluster, at the same addresses, with what
        a snapshot holds."""
        for i in list(self.processes):
            self.kill(i)
        self.token = f"restored-{self.token}"
        for i, peer in enumerate(self.peers):
            subprocess.run(
                [CTL, "snapshot", "restore", str(path), "--name", f"m{i}",
                 "--data-dir", str(self.folder(i)), "--initial-cluster", self.cluster(),
                 "--initial-cluster-token", self.token, "--initial-advertise-peer-urls", peer],
                check=True, capture_output=True, env={**os.environ, "ETCDCTL_API": "3"})
        self.__enter__()
