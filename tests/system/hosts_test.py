#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of deploy/README.md, "Three hosts in twelve commands", as they
stand there, on three hosts that have nothing of Sluice: network namespaces, each
with a root, processes and a name of its own. What a namespace cannot have is
stood in for: systemd (systemctl.py) and a way from host to host (scp). Needs
root and debhelper; skipped (77), with the reason, where they are missing."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import package
from cluster import LIMIT, ROOT, check, main, wait_for
from netns_test import HOSTS, TAG, Hosts, ip

PAGE = ROOT / "deploy" / "README.md"
HEADING = "## Three hosts in twelve commands"
MOST = 12
DIR = pathlib.Path("/mnt")  # of this process alone
NAMES = dict(zip(("coordinator.lan", "ps1.lan", "w1.lan"), sorted(HOSTS.values())))
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# What the machine that runs the test has and an empty host has not.
HIDDEN = ("root", "home", "tmp", "run", "usr/local", str(ROOT)[1:])
SCP = """#!/bin/sh
# scp FILE... HOST:[FOLDER], below root's own; modes are kept, as scp keeps them.
set -e
for to; do :; done
peer=/run/peers/${to%%:*}
[ -d "$peer" ] || { echo "ssh: Could not resolve hostname ${to%%:*}" >&2; exit 255; }
while [ $# -gt 1 ]; do
    cp "$1" "$peer/${to#*:}"
    shift
done
"""


# ---- the page

def commands():
    """(host, command) in the order of the page: lines that are indented by four
    below a line that names the host; a backslash continues a line."""
    text = PAGE.read_text()
    check(HEADING in text, f"{PAGE} has no section '{HEADING}'")
    section = text.split(HEADING, 1)[1].split("\n## ", 1)[0]
    found, host = [], None
    for line in re.sub(r"\\\n +", "", section).splitlines():
        named = re.match(r"On `([\w.]+)`", line)
        host = named[1] if named else host
        if re.match(r"    \S", line):
            found.append((host, line.strip()))
    return found


def the_page_counts():
    lines = commands()
    check(0 < len(lines) <= MOST, f"the page has {len(lines)} commands", *lines)
    for host, line in lines:
        check(host in NAMES, f"no host is named before: {line}")
        check(not re.search(r"[;|&`]|\$\(|^for ", line), f"more than one command: {line}")


# ---- hosts

class Lan:
    """Three hosts, each a view of this machine's root on which nothing that one
    writes is seen by another, or stays."""

    def __init__(self, folder):
        self.folder = folder
        self.hosts = {}

    def __enter__(self):
        self.net = Hosts().__enter__()
        try:
            for name in NAMES:
                self.lay(name)
            for name, number in NAMES.items():
                self.boot(name, number)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for holder, _ in self.hosts.values():
            holder.kill()  # the first process of each host: all others go with it
            holder.wait()
        self.net.__exit__()

    def root(self, name):
        return self.folder / name / "root"

    def lay(self, name):
        root, layer = self.root(name), self.folder / name
        for part in ("root", "upper", "work"):
            (layer / part).mkdir(parents=True)
        mount("-t", "overlay", "overlay", "-o",
              f"lowerdir=/,upperdir={layer / 'upper'},workdir={layer / 'work'}", root)
        for hidden in HIDDEN:
            (root / hidden).mkdir(parents=True, exist_ok=True)
            mount("-t", "tmpfs", "tmpfs", root / hidden)
        for made in ("run/peers", "dev/shm", "usr/local/sbin"):
            (root / made).mkdir(parents=True, exist_ok=True)
        (root / "etc/hosts").write_text("127.0.0.1 localhost\n" + "".join(
            f"10.77.0.{number} {host}\n" for host, number in NAMES.items()))
        for command, text in (("scp", SCP), ("systemctl", (
                ROOT / "tests/system/systemctl.py").read_text())):
            (root / "usr/local/sbin" / command).write_text(text)
            (root / "usr/local/sbin" / command).chmod(0o755)

    def boot(self, name, number):
        root = self.root(name)
        for peer in NAMES:
            (root / "run/peers" / peer).mkdir()
            mount("--bind", self.root(peer) / "root", root / "run/peers" / peer)
        for device in ("null", "zero", "random", "urandom"):
            (root / "dev" / device).touch()
            mount("--bind", f"/dev/{device}", root / "dev" / device)
        holder = subprocess.Popen(
            ["nsenter", f"--net=/run/netns/{TAG}{number}", "unshare", "--mount", "--uts",
             "--pid", "--fork", "--kill-child", "sh", "-c",
             'hostname "$1" && mount -t proc proc "$0/proc" && '
             'exec chroot "$0" sleep infinity', root, name])
        children = pathlib.Path(f"/proc/{holder.pid}/task/{holder.pid}/children")
        first = wait_for(f"{name} to be there", lambda: holder.poll() or
                         children.read_text().split())
        wait_for(f"{name} to have its root", lambda: pathlib.Path(
            f"/proc/{first[0]}/cmdline").read_bytes().startswith(b"sleep\0"))
        self.hosts[name] = (holder, first[0])

    def run(self, name, line, want=0, limit_s=240):
        """The line in root's shell there, as typed after logging in."""
        done = subprocess.run(
            ["nsenter", "-t", self.hosts[name][1], "-m", "-u", "-n", "-p", "--root", "--wd",
             "env", "-i", f"PATH={PATH}", "HOME=/root", "LC_ALL=C.UTF-8", "bash", "-c",
             f"cd && {line}"], capture_output=True, text=True, check=False,
            timeout=limit_s * LIMIT, stdin=subprocess.DEVNULL)
        check(want in (None, done.returncode), f"root@{name}# {line}: exit "
              f"{done.returncode}", done.stdout, done.stderr, self.logs())
        return done.stdout + done.stderr

    def logs(self):
        return "".join(f"{log}: {''.join(log.read_text().splitlines(True)[-5:])}"
                       for name in NAMES for role in ("coordinator", "psserver", "worker")
                       if (log := self.root(name) / f"var/log/sluice-{role}.log").exists())


def mount(*words):
    subprocess.run(["mount", *map(str, words)], check=True, capture_output=True)


# ---- the test

def three_empty_hosts_train_with_mutual_tls():
    the_page_counts()
    deb = package.make(DIR / "package")
    lacking = [name for name in package.needs(deb) if subprocess.run(
        ["dpkg-query", "-W", name], capture_output=True, check=False).returncode]
    check(not lacking, "the package needs what is not installed here", *lacking)
    with Lan(DIR) as lan:
        for name in NAMES:
            lan.run(name, "command -v sluice sluice-worker", want=1)
        shutil.copy(deb, lan.root("coordinator.lan") / "root")
        said = ""
        for number, (host, line) in enumerate(commands(), 1):
            print(f"  {number}. root@{host}# {line}", flush=True)
            said = lan.run(host, line)
        check("finished" in said, "the last command trains a job", said)
        # That was with certificates on both sides: others are not served.
        told = lan.run("w1.lan", "sluice cert init other --host w1.lan >log && sluice jobs "
                       "--coordinator coordinator.lan:7070 --timeout 10s --tls-ca "
                       "/etc/sluice/tls/ca.crt --tls-cert other/client.crt "
                       "--tls-key other/client.key", want=None)
        check("certificate" in told, "what a stranger is told", told)
        for host, role in zip(NAMES, ("coordinator", "psserver", "worker")):
            keys = {p.name for p in (lan.root(host) / "etc/sluice/tls").glob("*.key")}
            check(host == "coordinator.lan" or keys == {f"{role}.key"},
                  f"keys on {host}", keys)


OVERLAY = """mount -t tmpfs tmpfs /mnt && cd /mnt && mkdir upper work root &&
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work root"""


def lacks():
    """Why it cannot run here, or None."""
    if os.geteuid() != 0:
        return "it needs root, for namespaces"
    if shutil.which("dh_builddeb") is None:
        return "no debhelper, which makes the package"
    if ip("netns", "add", f"{TAG}probe", check_it=False).returncode:
        return "network namespaces cannot be made"
    ip("netns", "del", f"{TAG}probe")
    tried = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c",
                            OVERLAY], capture_output=True, text=True, check=False)
    return f"no root of its own: {tried.stderr.strip()}" if tried.returncode else None


if __name__ == "__main__":
    reason = lacks()
    if reason is None and "SLUICE_OWN_MOUNTS" not in os.environ:
        # Mounts of its own, which go with it; all that is written lies in memory.
        os.environ["SLUICE_OWN_MOUNTS"] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private",
                              sys.executable, *sys.argv])
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    mount("-t", "tmpfs", "-o", "size=2g", "tmpfs", DIR)
    main([three_empty_hosts_train_with_mutual_tls])
