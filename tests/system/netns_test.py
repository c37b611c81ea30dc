#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One process per role, each in a network namespace of its own, with mutual
TLS on real addresses: trains like `up` does. Needs root; skipped (77) where
namespaces cannot be made."""
import os
import subprocess
import sys

from cluster import BIN, LIMIT, Cluster, check, check_counts, main, mlp_job, wait_for

TAG = f"sl{os.getpid() % 100000}"
HOSTS = {"coordinator": 1, "ps-0": 2, "w-0": 3}


def ip(*words, netns=None, check_it=True):
    line = ["ip"] + (["-n", netns] if netns else []) + list(words)
    return subprocess.run(line, check=check_it, capture_output=True)


class Hosts:
    """Three namespaces on one bridge: 10.77.0.1, .2, .3."""
    NET = "10.77.0"

    def __enter__(self):
        ip("netns", "add", f"{TAG}sw")
        ip("link", "add", "br0", "type", "bridge", netns=f"{TAG}sw")
        ip("link", "set", "br0", "up", netns=f"{TAG}sw")
        for name, number in HOSTS.items():
            self.add(f"{TAG}{number}", number)
        return self

    def add(self, netns, number):
        ip("netns", "add", netns)
        ip("link", "add", "eth0", "netns", netns, "type", "veth",
           "peer", "name", f"v{number}", "netns", f"{TAG}sw")
        ip("link", "set", f"v{number}", "master", "br0", "up", netns=f"{TAG}sw")
        ip("addr", "add", f"{self.NET}.{number}/24", "dev", "eth0", netns=netns)
        ip("link", "set", "eth0", "up", netns=netns)
        ip("link", "set", "lo", "up", netns=netns)

    def __exit__(self, *_):
        for number in HOSTS.values():
            ip("netns", "del", f"{TAG}{number}", check_it=False)
        ip("netns", "del", f"{TAG}sw", check_it=False)


class RemoteCluster(Cluster):
    """Each daemon behind `ip netns exec`, with the three files of its role."""
    reachable = False

    def tls(self, role):
        folder = self.dir / "certs"
        return ["--tls-ca", str(folder / "ca.crt"),
                "--tls-cert", str(folder / f"{role}.crt"),
                "--tls-key", str(folder / f"{role}.key")]

    def command(self, name):
        role = {"c": "coordinator", "p": "psserver", "w": "worker"}[name[0]]
        line = ["ip", "netns", "exec", f"{TAG}{HOSTS[name]}", str(BIN / role),
                *self.tls(role)]
        if role == "worker":
            return line + ["--coordinator", "10.77.0.1:7070", "--name", name,
                           "--threads", "1", "--shm", "off", *self.data_roots()]
        line += ["--state", str(self.dir / name), "--listen",
                 f"10.77.0.{HOSTS[name]}:7070"]
        if role == "psserver":
            line += ["--coordinator", "10.77.0.1:7070", "--name", name]
        return line

    def start_all(self):
        subprocess.run([str(BIN / "sluice"), "cert", "init", str(self.dir / "certs"),
                        "--host", "10.77.0.1", "--host", "10.77.0.2",
                        "--host", "10.77.0.3"], check=True, capture_output=True)
        super().start_all()

    def run(self, *words, limit_s=60, want=0):
        line = ["ip", "netns", "exec", f"{TAG}1", str(BIN / "sluice"),
                "--coordinator", "10.77.0.1:7070", *self.tls("client"),
                *map(str, words)]
        done = subprocess.run(line, capture_output=True, text=True, cwd=self.dir,
                              timeout=limit_s * LIMIT, stdin=subprocess.DEVNULL, check=False)
        check(want is None or done.returncode == want,
              f"sluice {words}: exit {done.returncode}", done.stdout, done.stderr)
        return done


def three_hosts_with_mutual_tls_train():
    with Hosts(), RemoteCluster(psservers=1, workers=1) as c:
        job = c.submit(mlp_job("remote", epochs=2))
        check_counts(c.wait_state(job))
        c.run("export", job, "--to", c.dir / "model.safetensors")
        plain = subprocess.run(
            ["ip", "netns", "exec", f"{TAG}3", str(BIN / "sluice"), "--coordinator",
             "10.77.0.1:7070", "--timeout", "3s", "jobs"], capture_output=True, text=True,
            check=False)
        check(plain.returncode != 0, "a client without a certificate was served")


def a_worker_whose_link_is_cut_is_replaced_and_returns():
    with Hosts(), RemoteCluster(psservers=1, workers=1) as c:
        job = c.submit(mlp_job("cut", epochs=10, steps_per_closure=10))
        c.wait_steps(job, 50)
        c.pause("w-0")
        ip("link", "set", "eth0", "down", netns=f"{TAG}3")
        c.resume("w-0")
        wait_for("the job to wait for a worker",
                 lambda: "worker" in c.status(job)["reason"])
        ip("link", "set", "eth0", "up", netns=f"{TAG}3")
        check_counts(c.wait_state(job))


if __name__ == "__main__":
    if os.geteuid() != 0 or ip("netns", "add", f"{TAG}probe", check_it=False).returncode:
        print("network namespaces cannot be made here: skipped")
        sys.exit(77)
    ip("netns", "del", f"{TAG}probe")
    main([three_hosts_with_mutual_tls_train,
          a_worker_whose_link_is_cut_is_replaced_and_returns])
