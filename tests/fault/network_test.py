#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Partitions between hosts (nft in network namespaces): whole, one-way, from
the coordinator only, from one shard only, half-open. Needs root; skipped (77)
where namespaces or nft cannot be had."""
import os
import shutil
import signal
import subprocess
import sys

from bed import check, dice, run, wait_for
from hosts import HOSTS, HostBed, address, possible


def returns(b, name, at):
    b.on_log(name, "attached", at)


def N2_worker_cut_off_from_the_coordinator_only():
    with HostBed(net_epochs=12) as b:
        b.on()
        before, at = b.mark("coordinator"), b.mark("w-0")
        b.cut("w-0", "coordinator")
        b.on_log("coordinator", "member lost", before)
        b.on(1, 20, same=True)  # w-1 goes on; what w-0 still pushes counts once or never
        b.heal("w-0")
        returns(b, "w-0", at)
        b.end()


def N3_worker_cut_off_from_one_shard_of_two():
    with HostBed(net_epochs=8) as b:
        b.on()
        b.cut("w-0", "ps-1")
        b.on(20, 60)
        b.heal("w-0")
        b.end()


def one_way(host, other, way):
    with HostBed(net_epochs=10) as b:
        b.on()
        at, here = b.mark("coordinator"), b.mark(host)
        b.cut(host, other, ways=(way,))
        b.on_log("coordinator", "member lost", at)
        b.heal(host)
        returns(b, host, here)
        b.end()


def N4_worker_is_not_heard_by_the_coordinator():
    one_way("w-0", "coordinator", "output")


def N4_worker_does_not_hear_the_coordinator():
    one_way("w-0", "coordinator", "input")


def N4_psserver_is_not_heard_by_the_coordinator():
    one_way("ps-1", "coordinator", "output")


def N4_worker_pushes_and_hears_no_answer():
    with HostBed(net_epochs=8) as b:
        b.on()
        b.cut("w-0", "ps-0", ways=("input",))
        b.on(20, 60)
        b.heal("w-0")
        b.end()


def N4_half_open_no_end_of_a_connection_is_ever_seen():
    """The worker dies and nobody is told: neither FIN nor RST gets out."""
    with HostBed(net_epochs=12) as b:
        b.on()
        at = b.mark("coordinator")
        b.drop("w-0", ("output", "tcp flags & (fin|rst) != 0"))
        b.kill("w-0")
        b.on_log("coordinator", "member lost", at)
        b.on(1, 20)
        b.heal("w-0")
        b.start("w-0", wait=False)
        b.end()


def certificate(b, role, days):
    """Signs a new certificate for a role; a negative number: expired."""
    folder = b.dir / "certs"
    text = f"subjectAltName=URI:spiffe://sluice/{role}/*," + \
        ",".join(f"IP:{address(h)}" for h in HOSTS)
    (folder / "ext").write_text(text)
    old = subprocess.run(["openssl", "x509", "-noout", "-subject", "-nameopt",
                          "RFC2253", "-in", folder / f"{role}.crt"], check=True,
                         capture_output=True, text=True).stdout
    subject = "/" + "/".join(old.split("=", 1)[1].strip().split(",")[::-1])
    subprocess.run(["openssl", "req", "-new", "-subj", subject, "-key",
                    folder / f"{role}.key", "-out", folder / "csr"], check=True,
                   capture_output=True)
    subprocess.run(["openssl", "x509", "-req", "-in", folder / "csr", "-CA",
                    folder / "ca.crt", "-CAkey", folder / "ca.key",
                    "-set_serial", "77", "-days", str(days), "-extfile",
                    folder / "ext", "-out", folder / f"{role}.crt"],
                   check=True, capture_output=True)


def N27_certificates_expire_and_are_replaced_under_load():
    """A worker whose certificate has expired is not let in; with a new one it
    is, while the job goes on."""
    with HostBed(net_epochs=12) as b:
        b.on()
        b.kill("w-0")
        certificate(b, "worker", -1)
        at = b.mark("w-0")
        b.start("w-0", wait=False)
        wait_for("the worker to say that it is not let in", lambda: any(
            w in b.log("w-0")[at:] for w in ("not reached", "expired")))
        check("attached" not in b.log("w-0")[at:], "an expired certificate was let in")
        b.on(1, 20)  # w-1 goes on
        b.kill("w-0")
        certificate(b, "worker", 10)
        at = b.mark("w-0")
        b.start("w-0")
        returns(b, "w-0", at)
        b.end()


def replace(b, folder):
    """As an operator does it: file by file, each with a rename."""
    for new in sorted((b.dir / folder).iterdir()):
        if new.name != "ca.key":
            shutil.copy(new, b.dir / "certs" / "new")
            os.rename(b.dir / "certs" / "new", b.dir / "certs" / new.name)


def N27_certificates_are_replaced_while_all_daemons_live():
    """The authority too, and the old one is gone at once: whoever still showed
    or trusted an old file would not get another connection."""
    with HostBed(net_epochs=30) as b:
        b.on()
        shutil.copytree(b.dir / "certs", b.dir / "old")
        b.make_certificates("fresh")
        marks = {name: b.mark(name) for name in HOSTS}
        pids = {name: b.pid(name) for name in HOSTS}
        replace(b, "fresh")
        if dice.random() < 0.5:  # or they look by themselves
            for name in HOSTS:
                b.processes[name].send_signal(signal.SIGHUP)
        for name in HOSTS:
            b.on_log(name, "certificates replaced", marks[name])
        b.on(1, 20)  # connections that stand go on
        for name in dice.sample(sorted(HOSTS), len(HOSTS)):
            here = {n: b.mark(n) for n in HOSTS}
            b.reset(name)
            if name == "coordinator":
                b.on_log("w-1", "coordinator lost", here["w-1"])
            else:
                b.on_log("coordinator", "member lost", here["coordinator"])
            b.heal(name)
            for n in set(HOSTS) - {"coordinator"} if name == "coordinator" else [name]:
                returns(b, n, here[n])
            b.on(1, 10)
        check(pids == {name: b.pid(name) for name in HOSTS}, "a daemon was restarted")
        b.run("status", want=5, certs="old")
        b.end()


def N27_files_that_do_not_hold_are_not_taken():
    """A key that does not fit, and a file that is gone: the old ones stay in
    use, for new connections too."""
    with HostBed(net_epochs=10) as b:
        b.on()
        folder, at = b.dir / "certs", b.mark("coordinator")
        shutil.copytree(folder, b.dir / "good")
        shutil.copy(folder / "worker.key", folder / "new")
        os.rename(folder / "new", folder / "coordinator.key")
        b.on_log("coordinator", "new certificates are not valid", at)
        check("does not belong to the certificate in" in b.log("coordinator")[at:], "no reason was said")
        (folder / "worker.crt").unlink()
        b.on_log("w-0", "new certificates are not valid")
        here = b.mark("w-0")
        b.reset("w-0")
        b.on_log("coordinator", "member lost", at)
        b.heal("w-0")
        returns(b, "w-0", here)
        replace(b, "good")
        b.on_log("coordinator", "certificates replaced", at)
        b.end()


if __name__ == "__main__":
    if not possible():
        print("no network namespaces or no nft here: skipped")
        sys.exit(77)
    run(globals())
