#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists of coordinators, wherever an address is given: whoever has one goes past
addresses that are dead or wait, and follows the coordinator to another of them."""
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

import asker
import etcd
from access_test import Guarded
from cluster import (BIN, LONG_LEASE, ROOT, Cluster, check, check_counts, check_equal,
                     free_port, main, mlp_job, wait_for)
from external_test import Program, Programs, check_learnt, linear_job
from full_test import spaces
from standby import Standbys
from training import Training

os.environ["SLUICE_LIBRARY"] = str(BIN.parent / "lib" / "libsluice.so")
os.environ["SLUICE_BIN"] = str(BIN)
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
SEED = int(os.environ.get("SLUICE_SEED", random.SystemRandom().randrange(1 << 32)))


class Listed(Cluster):
    """Its members and clients know three addresses of coordinators. A coordinator
    listens at one, `place`: with a state folder that moves there with it."""

    def __init__(self, place=2, **options):
        super().__init__(**options)
        self.places = [f"unix:{self.dir}/c{i}.sock" for i in range(3)]
        self.list = ",".join(self.places)
        self.place = place
        self.ask_here()

    def ask_here(self):
        """The test's own calls, which need no list."""
        self.address = self.places[self.place]
        if self.asker:
            self.asker.close()
            self.asker = asker.Asker(self.address, ROOT / "proto")

    def command(self, name):
        line = super().command(name)
        if name != "coordinator":
            line[line.index("--coordinator") + 1] = self.list
        return line

    def move(self, place):
        """The coordinator dies, and begins at another address."""
        self.kill("coordinator")
        self.place = place
        self.ask_here()
        self.start("coordinator")

    def client(self, *words, **options):
        """A command that has the list."""
        return self.run("--coordinator", self.list, *words, **options)

    def follow(self, *words):
        return subprocess.Popen(
            [str(BIN / "sluice"), *map(str, words)], text=True, cwd=self.dir,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "SLUICE_COORDINATOR": self.list})


def said_of(process, limit_s=120):
    out, err = process.communicate(timeout=limit_s * 4)
    check_equal(process.returncode, 0, f"its exit; it said {err[-500:]}")
    return out, err


def dead_addresses_are_gone_past():
    """The first two of the list are no socket at all."""
    with Listed(psservers=1, workers=1, coordinator_args=LONG_LEASE) as c:
        path = c.dir / "job.yaml"
        path.write_text(json.dumps(mlp_job("past", samples=640, epochs=2)))
        job = c.client("submit", path, "--no-wait").stdout.strip()
        _, err = said_of(c.follow("watch", job))
        check("away" not in err, "a dead address is no coordinator that went away", err)
        check_counts(c.wait_state(job))
        listed = json.loads(c.client("-o", "json", "jobs").stdout)["jobs"]
        check_equal([j["id"] for j in listed], [job], "jobs, as the list shows them")


def members_and_clients_follow_the_coordinator():
    """Killed, and begun at the next address of the list: workers, psservers, a watch, a
    stream of events. What was counted was counted once."""
    with Listed(place=0, psservers=2, workers=2) as c:
        jobs = Training(c, mlp_job("moves", samples=6400, epochs=20, steps_per_closure=10),
                        random.Random(SEED), 30, 150)
        jobs.busy()
        watch = c.follow("watch", jobs.job)
        events = c.follow("events", jobs.job, "--follow")
        for place in (1, 2, 0):
            jobs.some_steps_on()
            c.move(place)
        watched = jobs.job
        jobs.end()
        check_equal(sum(int(done["coordinator_restarts"]) for done in jobs.done), 3,
                    "restarts")
        said_of(watch)
        out, _ = said_of(events)
        check_equal(out.count("job-submitted"), 1, "the events of one submission")
        if watched == jobs.done[0]["id"]:
            check("job-finished" in out, "its end is an event", out)


def a_submission_is_repeated_to_the_next_coordinator_and_is_one_job():
    with Listed(place=0, psservers=1, workers=1) as c:
        path = c.dir / "job.yaml"
        path.write_text(json.dumps(mlp_job("once", samples=640, epochs=1)))
        first = c.client("submit", path, "--no-wait", "--request-id", "once").stdout
        c.move(1)
        second = c.client("submit", path, "--no-wait", "--request-id", "once").stdout
        check_equal(second, first, "the job of one request id")
        check_equal(len(c.json("jobs")["jobs"]), 1, "jobs")
        c.kill("coordinator")
        told = []
        patient = threading.Thread(target=lambda: told.append(c.client(
            "--timeout", "60s", "submit", path, "--no-wait", "--request-id", "later").stdout))
        patient.start()
        c.place = 2
        c.ask_here()
        c.start("coordinator")
        patient.join()
        check_equal(len(c.json("jobs")["jobs"]), 2, "jobs")
        for text in (first, *told):
            check_counts(c.wait_state(text.strip()))


def programs_follow_the_coordinator(example="numpy_worker.py"):
    """Through libsluice."""
    with Listed(place=0, psservers=2, workers=0) as c:
        real, c.address = c.address, c.list
        with Programs(lambda name: Program(c, name, ROOT / "examples" / example)) as programs:
            c.address = real
            job = c.submit(linear_job(epochs=8))
            for steps, place in ((100, 1), (300, 2)):
                c.wait_steps(job, steps)
                c.move(place)
            c.address = c.list
            programs.replace()
            c.address = c.places[c.place]
            done = c.wait_state(job)
        check_counts(done)
        check_learnt(c, job)


def so_do_programs_in_stock_python():
    programs_follow_the_coordinator("external_worker.py")


class Waits(Listed):
    """Beside it, at the first address, one that waits: its journal has no space."""

    def command(self, name):
        if name != "decoy":
            return super().command(name)
        state = self.dir / name
        state.mkdir()
        return ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=8m tmpfs "$0" && '
                'cat /dev/zero >"$0/ballast" 2>/dev/null; exec "$@"', str(state),
                str(BIN / "coordinator"), "--listen", self.places[0], "--state", str(state),
                "--store", str(self.dir / "decoy-store")]

    def start_all(self):
        self.start("decoy", wait=False)
        wait_for("the decoy to wait", lambda: "no space for the journal" in self.log("decoy"))
        decoy = self.processes.pop("decoy")  # it never attaches
        self.ended = lambda: self.processes.update(decoy=decoy)
        super().start_all()

    def __exit__(self, *why):
        self.ended()
        return super().__exit__(*why)


def a_coordinator_that_waits_is_gone_past():
    if not spaces():
        print("no mount namespaces: a_coordinator_that_waits_is_gone_past is left out")
        return
    with Waits(psservers=1, workers=1) as c:
        done = c.client("--coordinator", c.places[0], "--timeout", "1s", "jobs", want=None)
        check(done.returncode != 0 and "no space left" in done.stderr, "the decoy", done.stderr)
        path = c.dir / "job.yaml"
        path.write_text(json.dumps(mlp_job("waits", samples=640, epochs=2)))
        check_counts(c.wait_state(c.client("submit", path, "--no-wait").stdout.strip()))


class Apart(Guarded):
    """Two coordinators' addresses, on hosts of their own: each has a certificate for its
    host alone, and a name of its own."""
    hosts = ("127.0.0.2", "127.0.0.3")

    def __init__(self, **options):
        super().__init__([*(("coordinator", f"c{i}", "--host", host)
                            for i, host in enumerate(self.hosts)),
                          ("worker", "w-9", "--host", self.hosts[0])], **options)
        self.places = [f"{host}:{free_port()}" for host in self.hosts]
        self.address = ",".join(self.places)
        self.place, self.shows = 0, "coordinator-c0"

    def command(self, name):
        line = super().command(name)
        if name == "coordinator":
            line[line.index("--listen") + 1] = self.places[self.place]
            at = line.index("--tls-ca")
            line[at:at + 6] = self.tls(self.shows)
        return line

    def begin(self, place, shows):
        self.place, self.shows = place, shows
        self.start("coordinator")


def each_coordinator_has_a_certificate_of_its_own_host():
    with Apart(psservers=1, workers=1) as c:
        job = c.submit(mlp_job("apart", samples=6400, epochs=12, steps_per_closure=5))
        c.wait_steps(job, 50)
        c.kill("coordinator")
        c.begin(1, "coordinator-c1")
        check_counts(c.wait_state(job))
        c.kill("coordinator")
        c.begin(1, "coordinator-c0")  # it is for the other host
        told = c.run("--timeout", "3s", "jobs", want=5).stderr
        check(c.places[1] in told, "which of them it was", told)
        c.kill("coordinator")
        c.begin(0, "coordinator-c0")
        c.run("jobs")


def who_poses_as_a_coordinator_of_the_list_is_gone_past():
    """A worker's certificate, for the very host of the first address."""
    with Apart(psservers=0, workers=0) as c:
        c.kill("coordinator")
        c.begin(0, "worker-w-9")
        impostor = c.processes.pop("coordinator")
        try:
            told = c.run("--timeout", "3s", "jobs", want=5).stderr
            check("role worker" in told, "who it was", told)
            c.args["coordinator"] += ["--state", str(c.dir / "other")]
            c.begin(1, "coordinator-c1")
            job = c.submit(mlp_job("posed", samples=640, epochs=1))
            c.start("ps-0")
            c.start("w-0")
            check_counts(c.wait_state(job))
        finally:
            impostor.kill()
            impostor.wait()


SERVE = ("import sys, sluice; "
         "sluice.serve({sys.argv[2]: bytes.upper}, coordinator=sys.argv[1])")


def a_queue_of_tasks_follows_the_coordinator():
    """A client that has scheduled a task gets its result of the next leader, and programs
    that serve go on there (docs/operations.md)."""
    if not etcd.available():
        print("no etcd: a_queue_of_tasks_follows_the_coordinator is left out")
        return
    sys.path.insert(0, str(ROOT / "python"))
    import sluice
    with etcd.Etcd() as e, Standbys(e, psservers=0, workers=0) as c:
        told = c.run("status").stdout
        check(c.places[c.index(c.leader())] in told and c.address not in told,
              "which coordinator it is", told)
        serving = [subprocess.Popen([sys.executable, "-c", SERVE, c.address, "up"])]
        try:
            with sluice.Coordinator(c.address) as queue:
                check_equal(queue.schedule("up", b"a").fetch(120), b"A", "a task")
                waits = queue.schedule("later", b"b")
                old = c.leader()
                c.kill(old)
                c.leads(but=old)
                serving.append(subprocess.Popen(
                    [sys.executable, "-c", SERVE, c.address, "later"]))
                check_equal(waits.fetch(120), b"B", "a task of the leader before")
                check_equal(queue.schedule("up", b"c").fetch(120), b"C", "a task of the next")
        finally:
            for program in serving:
                program.kill()
                program.wait()


class Sealed(Standbys):
    """Its coordinators show a certificate to etcd."""
    certs = None

    def journal(self, name):
        return [*super().journal(name), "--tls-etcd", str(self.certs)]


def authority(folder):
    """By the commands of docs/security.md: an authority, and a folder for --tls-etcd."""
    subprocess.run([BIN / "sluice", "cert", "init", folder, "--host", "127.0.0.1"], check=True,
                   capture_output=True)
    for made, name in (("ca.crt", "ca.pem"), ("coordinator.crt", "cert.pem"),
                       ("coordinator.key", "key.pem")):
        shutil.copy(folder / made, folder / name)
    return folder


def etcd_has_an_authority_of_its_own():
    if not etcd.available():
        print("no etcd: etcd_has_an_authority_of_its_own is left out")
        return
    with tempfile.TemporaryDirectory(prefix="sluice-certs-") as made:
        ours, others = (authority(pathlib.Path(made) / name) for name in ("etcd", "cluster"))
        Sealed.certs = ours
        with etcd.Etcd(tls=ours) as e, Sealed(e, psservers=1, workers=1) as c:
            check_counts(c.wait_state(c.submit(mlp_job("sealed", samples=640, epochs=1))))
            told = [f["text"] for f in c.json("doctor", "--certs", ours, want=None)["findings"]]
            check(any("cert.pem: " in text and "days left" in text for text in told),
                  "the dates of etcd's certificates", told)
            old = c.leader()
            c.kill(old)
            c.leads(but=old)
            Sealed.certs = others
            c.start(old)
            wait_for("a coordinator with another authority to be refused",
                     lambda: "etcd does not answer" in c.log(old) and
                     "none that is known: etcd: " in c.log(old))
            check(c.leader() != old, "what it says", c.log(old))


def certificates_of_etcd_are_replaced_while_a_coordinator_leads():
    """By those of another authority, so that etcd refuses the old ones as it does those that
    have expired. It is away for as long as it takes to start again, and leases last longer."""
    if not etcd.available():
        print("no etcd: certificates_of_etcd_are_replaced_while_a_coordinator_leads is left out")
        return
    with tempfile.TemporaryDirectory(prefix="sluice-certs-") as made:
        used, others = (authority(pathlib.Path(made) / name) for name in ("used", "others"))
        Sealed.certs = used
        with etcd.Etcd(members=1, tls=used) as e, \
                Sealed(e, coordinators=1, ttl="300s", psservers=1, workers=1) as c:
            job = c.submit(mlp_job("renewed", samples=640, epochs=8))
            c.wait_steps(job, 1)
            for name in ("ca.pem", "cert.pem", "key.pem"):
                os.replace(others / name, used / name)
            c.processes["coordinator-0"].send_signal(signal.SIGHUP)  # it looks by itself, too
            wait_for("new files", lambda: "certificates replaced" in c.log("coordinator-0"))
            e.kill(0)
            e.start(0)
            check_counts(c.wait_state(job))
            check_equal(len(c.terms()), 1, "times that a coordinator began to lead")


def a_list_of_which_none_answers_is_told_at_once():
    """Not after --timeout: nobody listens anywhere."""
    with Listed(psservers=0, workers=0) as c:
        c.kill("coordinator")
        done = c.client("--timeout", "3600s", "jobs", want=None, limit_s=30)
        check(done.returncode != 0 and c.list in done.stderr and
              "socket does not exist" in done.stderr, "what is said", done.stderr)
        c.start("coordinator")


def bad_lists_are_told_in_words():
    bad = {"a:7070,,b:7070": "address 2 of this list is empty",
           "a:7070,": "address 2 of this list is empty",
           "a:7070,b:7070,a:7070": "lists a:7070 twice",
           "a:7070,b": "'b' is not an address",
           ",".join(f"a:{i}" for i in range(1, 10)): "more than 8 addresses"}
    sys.path.insert(0, str(ROOT / "python"))
    import sluice
    with Listed(psservers=0, workers=0) as c:
        for text, says in bad.items():
            for line in (["sluice", "--coordinator", text, "jobs"],
                         ["worker", "--coordinator", text],
                         ["psserver", "--coordinator", text, "--state", str(c.dir / "p")]):
                done = subprocess.run([str(BIN / line[0]), *line[1:]], capture_output=True,
                                      text=True, cwd=c.dir, timeout=120, check=False)
                check(done.returncode not in (0, None) and says in done.stderr,
                      f"{line[0]} --coordinator {text}", done.stdout, done.stderr)
            with contextlib.suppress(sluice.Error):
                sluice.Session(text)
                check(False, f"a session takes {text}")


if __name__ == "__main__":
    main([dead_addresses_are_gone_past, members_and_clients_follow_the_coordinator,
          a_submission_is_repeated_to_the_next_coordinator_and_is_one_job,
          programs_follow_the_coordinator, so_do_programs_in_stock_python,
          each_coordinator_has_a_certificate_of_its_own_host,
          who_poses_as_a_coordinator_of_the_list_is_gone_past,
          a_queue_of_tasks_follows_the_coordinator, etcd_has_an_authority_of_its_own,
          certificates_of_etcd_are_replaced_while_a_coordinator_leads,
          a_coordinator_that_waits_is_gone_past,
          a_list_of_which_none_answers_is_told_at_once, bad_lists_are_told_in_words])
