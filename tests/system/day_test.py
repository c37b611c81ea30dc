#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A day in the life of a cluster: three hosts (network namespaces) with mutual
TLS, a certificate for each daemon and person, two tenants, and what goes wrong
on a day. After each step `status` or `doctor` must say what a person needs to
know. Needs root; skipped (77) where namespaces cannot be made."""
import json
import os
import subprocess
import sys

from cluster import (BIN, LIMIT, Cluster, check, check_counts, check_equal, full_disk, main, mlp_job,
                     slowly, wait_for)
from netns_test import TAG, Hosts, ip

NET = "10.77.0."
PEOPLE = [("submitter", "bob", "--tenant", "red"), ("submitter", "eve", "--tenant", "blue"),
          ("viewer", "vic")]
DAEMONS = [("coordinator", "coordinator", 1), ("psserver", "ps-0", 2),
           ("psserver", "ps-1", 2), ("psserver", "ps-2", 2), ("worker", "w-0", 3),
           ("worker", "w-1", 3)]
PORTS = {"coordinator": 7070, "ps-0": 7070, "ps-1": 7071, "ps-2": 7072}
DISK = "16m"  # of ps-1


def host(name):
    return {"c": 1, "p": 2, "w": 3}[name[0]]


class Day(Cluster):
    """Nothing runs at first. `certs` is the operator's folder; daemons are given
    the three files of their own name."""
    reachable = False

    def __init__(self):
        super().__init__(psservers=0, workers=0)
        self.certs = self.dir / "certs"
        self.address = f"{NET}1:7070"
        self.advertised = {}

    def start_all(self):
        pass

    # ---- certificates

    def cert(self, what, *words):
        return subprocess.run([str(BIN / "sluice"), "cert", what, str(self.certs), *words],
                              check=True, capture_output=True, text=True).stdout

    def tls(self, file):
        return ["--tls-ca", str(self.certs / "ca.crt"),
                "--tls-cert", str(self.certs / f"{file}.crt"),
                "--tls-key", str(self.certs / f"{file}.key")]

    def expire(self, role, name):
        """Its certificate ended yesterday."""
        file = self.certs / f"{role}-{name}"
        extra, request = self.dir / "san", self.dir / "csr"
        extra.write_text(f"subjectAltName=URI:spiffe://sluice/{role}/{name}\n")
        for words in (["req", "-new", "-key", f"{file}.key", "-subj", f"/CN={name}",
                       "-out", request],
                      ["x509", "-req", "-in", request, "-CA", self.certs / "ca.crt",
                       "-CAkey", self.certs / "ca.key", "-set_serial", "77", "-days",
                       "-1", "-extfile", extra, "-out", f"{file}.crt"]):
            subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)

    # ---- programs, each on its host

    def on(self, number, *words):
        return ["ip", "netns", "exec", f"{TAG}{number}", *map(str, words)]

    def command(self, name):
        role = {"c": "coordinator", "p": "psserver", "w": "worker"}[name[0]]
        words = [BIN / role, *self.tls(f"{role}-{name}")]
        if role != "coordinator":
            words += ["--coordinator", self.address, "--name", name]
        if role == "worker":
            words += ["--threads", "1", "--shm", "off",
                      "--data-root", "/"]
        else:
            words += ["--state", self.dir / name, "--listen",
                      f"{NET}{host(name)}:{PORTS[name]}"]
        if name in self.advertised:
            words += ["--advertise", self.advertised[name]]
        line = self.on(host(name), *words)
        if name != "ps-1":
            return line
        (self.dir / name).mkdir(exist_ok=True)
        return ["unshare", "-m", "sh", "-c",
                f'mount -t tmpfs -o size={DISK} tmpfs "$0" && exec "$@"',
                str(self.dir / name), *line]

    def run(self, *words, who="client", limit_s=60, want=0, before=()):
        line = self.on(1, *before, BIN / "sluice", "--coordinator", self.address,
                       *self.tls(who), *words)
        done = subprocess.run(line, capture_output=True, text=True, cwd=self.dir,
                              timeout=limit_s * LIMIT, stdin=subprocess.DEVNULL, check=False)
        check(want is None or done.returncode == want,
              f"sluice {words}: exit {done.returncode}, wanted {want}", done.stdout,
              done.stderr)
        return done

    def submit_as(self, who, spec, *more):
        path = self.dir / f"{spec['name']}.yaml"
        path.write_text(json.dumps(spec))
        return self.run("submit", path, "--no-wait", *more, who=who).stdout.strip()

    # ---- what people are told

    def says(self, job, text, limit_s=60):
        wait_for(f"status to say '{text}'",
                 lambda: text in self.run("status", job).stdout, limit_s)

    def findings(self, *words, want=None):
        return [f"{x['level']}: {x['text']}" for x in
                self.json("doctor", *words, want=want)["findings"]]

    def doctor_says(self, level, *texts, words=()):
        found = self.findings(*words)
        check(any(line.startswith(f"{level}: ") and all(t in line for t in texts)
                  for line in found), f"doctor has no {level} with {texts}", *found)

    def members(self):
        return {m["name"] for m in self.cluster_status().get("members", []) if m["state"] != "lost"}


def long_job(name, **train):
    job = mlp_job(name, samples=3200, epochs=4000, steps_per_closure=10, **train)
    job["checkpoint"] = {"every_epoch": False, "every_seconds": 1, "keep": 2}
    job.pop("evaluate", None)
    return job


# ---- the day, step by step

def an_authority_and_a_certificate_for_each(c):
    c.cert("init", *(w for n in (1, 2, 3) for w in ("--host", f"{NET}{n}")))
    for role, name, number in DAEMONS:
        serves = ["--host", f"{NET}{number}"] if number < 3 else []
        c.cert("issue", "--role", role, "--name", name, *serves)
    for role, name, *more in PEOPLE:
        c.cert("issue", "--role", role, "--name", name, *more)
    for name in ("coordinator", "ps-0", "ps-1", "w-0"):
        c.start(name)
    wait_for("all to attend", lambda: c.members() == {"ps-0", "ps-1", "w-0"})
    faults = [line for line in c.findings("--certs", c.certs) if line.startswith("fault")]
    check(not faults, "doctor finds faults in the morning", *faults)


def two_tenants_and_one_who_looks(c):
    red = c.submit_as("submitter-bob", long_job("red"))
    blue = c.submit_as("submitter-eve", long_job("blue"))
    for job in (red, blue):
        c.wait_steps(job, 20)
    for who, sees in (("submitter-bob", {red}), ("submitter-eve", {blue}),
                      ("viewer-vic", {red, blue})):
        listed = {j["id"] for j in c.json("jobs", who=who)["jobs"]}
        check_equal(listed, sees, f"{who} sees")
    told = c.run("stop", red, who="submitter-eve", want=3).stderr
    check(red in told and len(told.splitlines()) == 1, "what eve is told", told)
    told = c.run("stop", red, who="viewer-vic", want=5).stderr
    check("may not call" in told and "admin" in told, "what vic is told", told)
    return red, blue


def a_wrong_certificate(c):
    """A worker of another authority knocks; the cluster goes on."""
    other = c.dir / "other"
    subprocess.run([str(BIN / "sluice"), "cert", "init", str(other), "--host", f"{NET}3"],
                   check=True, capture_output=True)
    for end in ("crt", "key"):
        (c.certs / f"worker-w-9.{end}").write_bytes((other / f"worker.{end}").read_bytes())
        (c.certs / f"worker-w-9.{end}").chmod(0o600)
    c.start("w-9", wait=False)
    wait_for("the stranger to be told", lambda: "certificate" in c.log("w-9"))
    wait_for("the coordinator to say whose", lambda: "the peer's certificate is not "
             "accepted here" in c.log("coordinator"))
    c.doctor_says("fault", "w-9.crt would be refused", words=("--certs", c.certs))
    check("w-9" not in c.members(), "a stranger attends")
    c.kill("w-9")
    for end in ("crt", "key"):
        (c.certs / f"worker-w-9.{end}").unlink()


def an_expired_one_is_renewed_while_everything_runs(c, red):
    c.expire("worker", "w-1")
    ended = c.start("w-1", wait=False)
    wait_for("w-1 to be told", lambda: "w-1.crt expired on " in c.log("w-1"))
    check_equal(ended.wait(timeout=60 * LIMIT), 2, "its exit")
    c.doctor_says("fault", "w-1.crt (worker w-1) would be refused", "expired",
                  words=("--certs", c.certs))
    c.cert("renew")  # all of the folder, under everybody's feet
    before = c.steps(red)
    c.start("w-1")
    wait_for("w-1 to attend", lambda: "w-1" in c.members())
    c.wait_steps(red, before + 20)


def a_psserver_that_cannot_be_reached(c):
    c.advertised["ps-2"] = f"{NET}2:7999"
    c.start("ps-2")
    wait_for("it to attend", lambda: "ps-2" in c.members())
    lost = c.submit_as("submitter-bob", long_job("lost"))
    c.says(lost, f"cannot reach psserver ps-2 at {NET}2:7999")
    c.doctor_says("fault", "psserver ps-2", f"{NET}2:7999")
    del c.advertised["ps-2"]
    c.restart("ps-2")
    c.wait_steps(lost, 20)
    wait_for("the reason to go", lambda: "cannot reach" not in
             c.run("status", lost).stdout)
    c.run("stop", lost, "--now", who="submitter-bob")


def a_full_disk(c, red):
    """ps-1's disk fills up; its jobs say so, and go on when there is space."""
    inside = ["nsenter", "-t", str(c.processes["ps-1"].pid), "-m"]
    with full_disk(c.processes["ps-1"], c.dir / "ps-1"):
        c.says(red, "o space left on device")
        c.says(red, "ps-1")
        found = subprocess.run([*inside, *c.on(2, BIN / "sluice", "-o", "json", "doctor",
                                               "--coordinator", c.address,
                                               *c.tls("client"), "--state", c.dir / "ps-1")],
                               capture_output=True, text=True, check=False)
        check_equal(found.returncode, 1, "exit of doctor")
        check("checkpoints fail without space" in found.stdout, "doctor says", found.stdout)
        cuts = int(c.status(red)["cuts"])
    wait_for("a checkpoint again", lambda: int(c.status(red)["cuts"]) > cuts)
    wait_for("status to be content", lambda: "o space left" not in
             c.run("status", red).stdout)


def resumed(c, red):
    """There are three psservers by now. If its two shards have counted different
    steps, it goes on as it was placed, and who does not ask for that is told how.
    If not, it may be placed anew; here disks are each host's own, so files that lie
    elsewhere are not found, and it is asked for all the same."""
    path = c.dir / "red-2.yaml"
    path.write_text(json.dumps(long_job("red-2")))
    words = ["submit", path, "--no-wait", "--resume", red]
    done = c.run(*words, who="submitter-bob", want=None)
    advice = "--set placement.psservers=2"
    if done.returncode == 0:
        c.run("stop", done.stdout.strip(), "--now", who="submitter-bob")
    else:
        check_equal(done.returncode, 6, "exit")
        check("is uneven" in done.stderr and advice in done.stderr, "advice",
              done.stderr)
    return c.run(*words, *advice.split(), who="submitter-bob").stdout.strip()


def a_pause_a_stop_and_a_resume(c, red, blue):
    c.run("pause", blue, who="submitter-eve")
    c.says(blue, "paused by eve")
    c.restart("coordinator")
    wait_for("all to be back", lambda: len(c.members()) == 5)
    c.wait_steps(red, c.steps(red) + 20)
    steps = None

    def still():  # those that were under way may be counted late
        nonlocal steps
        c.wait_steps(red, c.steps(red) + 100)
        was, steps = steps, c.steps(blue)
        return was == steps
    wait_for("the steps of a paused job to stand still", still)
    c.says(blue, "paused by eve")
    c.run("resume", blue, who="submitter-eve")
    c.wait_steps(blue, steps + 20)

    steps = c.steps(red)
    c.run("stop", red, who="submitter-bob")
    check_equal(c.status(red)["state"], "stopped", "its state")
    again = resumed(c, red)
    c.run("submit", c.dir / "blue.yaml", "--no-wait", "--resume", red,
          who="submitter-eve", want=3)  # another tenant's
    c.wait_steps(again, steps + 50)
    check(int(c.status(again)["resumed_steps"]) >= steps, "the stop lost steps")
    c.run("stop", blue, "--now", who="submitter-eve")
    c.run("stop", again, who="submitter-bob")


def what_was_trained_begins_the_next(c, red):
    model = c.dir / "red.safetensors"
    c.run("export", red, "--to", model)
    last = c.submit_as("submitter-bob", mlp_job("last", samples=3200, epochs=2),
                       "--weights", model)
    check_counts(c.wait_state(last))


def who_did_what_is_written_down(c, red):
    log = c.dir / "coordinator" / "audit.log"
    check("hold" in c.run("audit", "verify", log).stdout, "the log does not hold")
    told = [json.loads(line) for line in log.read_text().splitlines()]
    check(any((x["name"], x["call"], x.get("job"), x["result"]) ==
              ("bob", "Stop", red, "SL_OK") for x in told), "bob's stop is not there")
    check(any((x["name"], x["call"], x["result"]) == ("eve", "Stop", "SL_ENOENT")
              for x in told), "eve's attempt is not there")


def a_day_in_the_life():
    with Hosts(), Day() as c, slowly(c.workers):
        an_authority_and_a_certificate_for_each(c)
        red, blue = two_tenants_and_one_who_looks(c)
        a_wrong_certificate(c)
        an_expired_one_is_renewed_while_everything_runs(c, red)
        a_psserver_that_cannot_be_reached(c)
        a_full_disk(c, red)
        a_pause_a_stop_and_a_resume(c, red, blue)
        what_was_trained_begins_the_next(c, red)
        who_did_what_is_written_down(c, red)


if __name__ == "__main__":
    if os.geteuid() != 0 or ip("netns", "add", f"{TAG}probe", check_it=False).returncode:
        print("network namespaces cannot be made here: skipped")
        sys.exit(77)
    ip("netns", "del", f"{TAG}probe")
    main([a_day_in_the_life])
