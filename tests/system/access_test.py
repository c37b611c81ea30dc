#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may do what, with real daemons that talk TLS on this host: each has the
certificate of its role, and clients those of persons."""
import json
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time

import asker
from cluster import (BIN, LIMIT, ROOT, Cluster, check, check_counts, check_equal, free_port,
                     main, mlp_job, wait_for)


class Guarded(Cluster):
    """A cluster whose ports ask for certificates; `made` has more of them."""
    reachable = False

    def __init__(self, made=(), **options):
        super().__init__(**options)
        self.address = f"127.0.0.1:{free_port()}"
        self.certs = self.dir / "certs"
        self.cert("init", "--host", "127.0.0.1")
        for role, name, *more in made:
            self.cert("issue", "--role", role, "--name", name, *more)
        self.own = {}  # daemon -> the file of its certificate
        if asker.available():
            self.asker = asker.Asker(self.address, ROOT / "proto", lambda: [
                *(self.certs / f for f in ("ca.crt", "client.key", "client.crt")), "127.0.0.1"])

    def cert(self, what, *words):
        subprocess.run([str(BIN / "sluice"), "cert", what, str(self.certs), *words],
                       check=True, capture_output=True)

    def without_role(self, file):
        """Of our authority, with the client's key."""
        subprocess.run(["openssl", "req", "-new", "-subj", "/CN=mine", "-key",
                        self.certs / "client.key", "-out", self.dir / "csr"],
                       check=True, capture_output=True)
        subprocess.run(["openssl", "x509", "-req", "-in", self.dir / "csr", "-CA",
                        self.certs / "ca.crt", "-CAkey", self.certs / "ca.key", "-days",
                        "2", "-set_serial", "9", "-out", self.certs / f"{file}.crt"],
                       check=True, capture_output=True)

    def tls(self, file):
        return ["--tls-ca", str(self.certs / "ca.crt"),
                "--tls-cert", str(self.certs / f"{file}.crt"),
                "--tls-key", str(self.certs / f"{file}.key")]

    def command(self, name):
        line = super().command(name)
        role = pathlib.Path(line[0]).name
        if role == "psserver":
            line[line.index("--listen") + 1] = "127.0.0.1:0"
        return line + self.tls(self.own.get(name, role))

    def run(self, *words, who="client", **options):
        return super().run(*self.tls(who), *words, **options)


def a_role_does_its_own_and_nothing_else():
    made = [("viewer", "vic"), ("worker", "w-0")]
    with Guarded(made, psservers=1, workers=0) as c:
        c.own["w-0"] = "worker-w-0"
        c.start("w-0")
        job = c.submit(mlp_job("roles", epochs=1))
        check_counts(c.wait_state(job))
        c.run("jobs", who="viewer-vic")
        for who in ("viewer-vic", "worker", "psserver", "coordinator"):
            told = c.run("stop", job, who=who, want=5).stderr
            check("may not call" in told and "admin" in told, "no advice", told)
        c.run("jobs", who="worker", want=5)
        check("call refused" in c.log("coordinator"), "the log says nothing")


def nobody_attends_as_somebody_else():
    made = [("worker", "w-1"), ("admin", "ann")]
    with Guarded(made, psservers=0, workers=0) as c:
        c.own = {"ps-0": "worker", "w-0": "worker-w-1", "w-1": "worker-w-1",
                 "w-2": "admin-ann"}
        for name, why in (("ps-0", "may not attend as a psserver"),
                          ("w-0", "--name w-1"), ("w-2", "may not call")):
            c.start(name)
            wait_for(f"{name} to be refused",
                     lambda name=name, why=why: why in c.log(name))
        c.start("w-1")
        wait_for("w-1 to attend", lambda: [
            m for m in c.cluster_status()["members"] if m["name"] == "w-1"])
        names = {m["name"] for m in c.cluster_status()["members"]}
        check(names == {"w-1"}, "others attend", names)


def a_certificate_without_a_role_is_told_what_to_do():
    with Guarded(psservers=0, workers=0) as c:
        c.without_role("client")
        told = c.run("jobs", want=5).stderr
        check("names no role" in told and "sluice cert issue" in told, "no advice", told)


def with_list(c):
    """Has the coordinator look at a list of revoked certificates."""
    c.cert("revoke", "--role", "worker", "--name", "w-9")  # so there is one
    c.kill("coordinator")
    c.start("coordinator", extra=["--tls-crl", c.certs / "ca.crl"])


def keep(c, file):
    """A copy of a certificate that will be revoked."""
    for end in ("crt", "key"):
        (c.certs / f"mine.{end}").write_bytes((c.certs / f"{file}.{end}").read_bytes())
        (c.certs / f"mine.{end}").chmod(0o600)


def a_revoked_worker_is_cut_off_and_stays_out():
    with Guarded([("worker", "w-0"), ("worker", "w-9")], psservers=0, workers=0) as c:
        with_list(c)
        c.own["w-0"] = "mine"
        keep(c, "worker-w-0")
        c.start("w-0")
        wait_for("w-0 to attend", lambda: c.cluster_status()["members"])
        c.cert("revoke", "--role", "worker", "--name", "w-0")
        wait_for("w-0 to be cut off",
                 lambda: "stream ended" in c.log("coordinator"))
        wait_for("w-0 to be told", lambda: "has been revoked" in c.log("w-0"))


def whoever_watches_is_cut_off_when_revoked():
    import grpc
    made = [("viewer", "vic"), ("viewer", "val"), ("worker", "w-9")]
    with Guarded(made, psservers=0, workers=0) as c:
        with_list(c)
        job = c.submit(mlp_job("watched"))  # it waits: there is no psserver
        request = b"\x0a" + bytes([len(job)]) + job.encode()
        streams = {}
        for who in ("vic", "val"):
            files = [(c.certs / f).read_bytes() for f in (
                "ca.crt", f"viewer-{who}.key", f"viewer-{who}.crt")]
            channel = grpc.secure_channel(c.address, grpc.ssl_channel_credentials(*files))
            streams[who] = channel.unary_stream("/sluice.v1.Jobs/Watch")(request, timeout=60 * LIMIT)
            next(streams[who])
        c.cert("revoke", "--role", "viewer", "--name", "vic")
        try:
            for _ in streams["vic"]:
                pass
            check(False, "the stream ended without a word")
        except grpc.RpcError as error:
            check(error.code() == grpc.StatusCode.UNAUTHENTICATED, error.code(),
                  error.details())
            check("has been revoked" in error.details(), "no reason", error.details())
        check("stream ended" in c.log("coordinator"), "the log says nothing")
        c.run("stop", job, "--now")
        last = list(streams["val"])  # it was told to the end
        check(last, "the other watcher was cut off")


def a_tenant_has_its_own_jobs_and_all_is_written_down():
    made = [("submitter", "bob", "--tenant", "a"), ("submitter", "eve", "--tenant", "b"),
            ("viewer", "vic", "--tenant", "a"), ("viewer", "all")]
    with Guarded(made, psservers=0, workers=0) as c:
        path = c.dir / "job.json"
        path.write_text(json.dumps(mlp_job("mine")))
        job = c.run("submit", path, "--no-wait", who="submitter-bob").stdout.strip()
        for who, count in (("submitter-bob", 1), ("submitter-eve", 0), ("viewer-vic", 1),
                           ("viewer-all", 1), ("client", 1)):
            listed = c.json("jobs", who=who).get("jobs", [])
            check(len(listed) == count, f"{who} sees {listed}")
        check(c.status(job)["tenant"] == "a", "the status has another tenant")
        c.run("stop", job, who="submitter-eve", want=3)
        c.run("watch", job, who="submitter-eve", want=3)
        c.restart("coordinator")
        c.run("stop", job, who="submitter-bob")
        log = c.dir / "coordinator" / "audit.log"
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        told = [(x["role"], x["name"], x["tenant"], x["call"], x["job"], x["result"])
                for x in lines]
        check(told == [("submitter", "bob", "a", "Submit", job, "SL_OK"),
                       ("submitter", "eve", "b", "Stop", job, "SL_ENOENT"),
                       ("submitter", "bob", "a", "Stop", job, "SL_OK")],
              "the audit log has", *told)
        check(all(x["time"].endswith("Z") for x in lines), "no zone", lines)
        held = c.run("audit", "verify", log).stdout
        check("3 lines" in held and lines[-1]["hash"] in held, "it says", held)
        log.write_text(log.read_text().replace("SL_ENOENT", "SL_OK"))
        check("line 2" in c.run("audit", "verify", log, want=1).stderr, "not the line")


def ranks_of_a_ring_know_each_other_for_workers():
    with Guarded(psservers=0, workers=0) as c:
        c.args["worker"] = ["--listen", "127.0.0.1:0", "--store", str(c.dir / "store")]
        for name in ("w-0", "w-1"):
            c.start(name)
        # One alone would be through before the other one has begun.
        done = c.wait_state(c.submit(mlp_job("ring", epochs=1, mode="allreduce",
                                             workers={"min": 2})))
        check_counts(done)
        check(all("joined a generation of the ring" in c.log(n) for n in ("w-0", "w-1")),
              "there was one rank")


def who_was_refused_is_written_down_and_full_files_are_put_beside():
    made = [("viewer", "vic", "--tenant", "a")]
    with Guarded(made, psservers=0, workers=0,
                 coordinator_args=["--audit-bytes", "4096"]) as c:
        folder = c.dir / "coordinator"
        for _ in range(3):
            c.run("stop", "j-1", who="viewer-vic", want=5)
        c.run("jobs", who="worker", want=5)  # changes nothing

        def denials():
            lines = map(json.loads, (folder / "audit.log").read_text().splitlines())
            return [x for x in lines if "times" in x]
        told = wait_for("the line", denials)
        check([(x["role"], x["name"], x["tenant"], x["call"], x["result"]) for x in told]
              == [("viewer", "vic", "a", "Stop", "SL_EDENIED")], "it has", *told)
        began = time.monotonic()
        for _ in range(40):
            c.run("stop", "j-1", want=3)
        minutes = 1 + (time.monotonic() - began) // 60  # begun
        job = c.submit(mlp_job("filler"))
        for _ in range(15):  # what succeeds is written each time
            c.run("pause", job)
            c.run("resume", job)
        c.kill("coordinator", signal.SIGTERM)  # writes what it has counted
        full = sorted(folder.glob("audit.log.*"))
        log = folder / "audit.log"
        check_equal([f.name for f in full],
                    [f"audit.log.{i + 1:06}" for i in range(len(full))], "full files")
        check(len(full) >= 2, "nothing was full")
        lines = [json.loads(x) for f in (*full, log) for x in f.read_text().splitlines()]
        denied = [x.get("times", 0) for x in lines if x["result"] == "SL_EDENIED"]
        check_equal(sum(denied), 3, "times that it was denied")
        failed = [x.get("times", 0) for x in lines if x["result"] == "SL_ENOENT"]
        check_equal(sum(x or 1 for x in failed), 40, "times that it failed")
        # Ten lines a minute, and one of the others.
        check(failed.count(0) <= 10 * minutes, "each is a line of its own", failed)
        done = [x["call"] for x in lines if x["result"] == "SL_OK"]
        check_equal((done.count("Pause"), done.count("Resume")), (15, 15), "what succeeded")
        held = c.json("audit", "verify", log)
        check((held["files"], held["lines"], held["last"]) ==
              (len(full) + 1, len(lines), lines[-1]["hash"]), "it says", held)
        check_equal(c.json("audit", "verify", *full, log), held, "named one by one")
        gone = c.run("audit", "verify", full[0], log, want=1).stderr
        check("before it are missing" in gone and str(log) in gone, "it says", gone)
        first = json.loads(full[1].read_text().splitlines()[0])
        full[0].unlink()
        check("--after" in c.run("audit", "verify", log, want=1).stderr, "no advice")
        held = c.json("audit", "verify", log, "--after", first["prev"])
        check((held["first"], held["last"]) == (first["n"], lines[-1]["hash"]),
              "it says", held)
        c.run("audit", "verify", log, "--after", "0" * 64, want=1)


def a_tenant_has_no_more_than_its_quota():
    made = [("submitter", "bob", "--tenant", "a"), ("submitter", "eve", "--tenant", "b"),
            ("viewer", "all")]
    with Guarded(made, psservers=1, workers=0) as c:
        file = c.dir / "coordinator.conf"
        file.write_text("quota = a:jobs=1,checkpoints=1GiB\nquota = b:parameters=1KiB\n")
        c.kill("coordinator")
        c.start("coordinator", extra=["--config", file])
        path = c.dir / "job.json"
        path.write_text(json.dumps(mlp_job("mine")))

        def submit(who, *more, want=0):
            return c.run("submit", path, "--no-wait", *more, who=who, want=want)
        job = submit("submitter-bob", "--dry-run") and submit("submitter-bob").stdout.strip()
        for more in ((), ("--dry-run",)):
            told = submit("submitter-bob", *more, want=6).stderr
            check("tenant a has 1 of 1 jobs; stop one of them" in told and
                  "coordinator --quota" in told, "it says", told)
            told = submit("submitter-eve", *more, want=6).stderr
            check("0 B of 1 KiB for parameters and optimizer slots" in told, "it says", told)
        submit("client")  # an admin's job is nobody's
        for who, want in (("submitter-bob", {"a"}), ("submitter-eve", {"b"}),
                          ("viewer-all", {"a", "b", ""}), ("client", {"a", "b", ""})):
            shown = {x.get("tenant", ""): x for x in c.json("quota", who=who)["tenants"]}
            check_equal(set(shown), want, f"{who} is shown")
        check_equal((shown["a"]["jobs"]["used"], shown["a"]["jobs"]["most"],
                     shown["a"]["jobs"]["limited"], shown["b"]["jobs"]["limited"]),
                    (1, 1, True, False), "the figures")
        text = c.run("quota", who="submitter-bob").stdout.splitlines()
        check(text[1].split()[:4] == ["a", "1", "of", "1"], "the table", *text)
        c.run("quota", who="worker", want=5)
        c.run("stop", job, who="submitter-bob")
        submit("submitter-bob")
        c.kill("coordinator")
        process = c.start("coordinator", extra=["--quota", "a:job=1"], wait=False)
        check_equal(process.wait(timeout=60 * LIMIT), 2, "its end")
        check("'job=1' is none of jobs=N" in c.log("coordinator"), "it does not say why")


def a_tenant_s_rows_have_a_quota_and_take_no_other_s():
    """Rows of two tenants' jobs, on one psserver: the job that needs more than its
    tenant may have fails, and says so; the other job ends as ever."""
    made = [("submitter", "bob", "--tenant", "a"), ("submitter", "eve", "--tenant", "b")]
    samples = 16384  # each with an id of its own: 47 bytes of a row, 770 KiB in all
    with tempfile.TemporaryDirectory(prefix="sluice-test-") as folder, Guarded(
            made, psservers=1, workers=2) as c:
        c.kill("coordinator")
        c.start("coordinator", extra=["--quota", "a:rows=512KiB"])
        data = c.dir / "ids.csv"
        data.write_text("y,x,user\n" + "".join(f"{i % 2},0.5,{i}\n" for i in range(samples)))
        spec = {"name": "rows", "model": {"input_shape": [1], "layers": [
                    {"type": "embedding", "name": "users", "ids": "user", "rows": "dynamic",
                     "output_dim": 4, "buckets": 64,
                     "optimizer": {"type": "rowwise_adagrad", "learning_rate": 0.1}},
                    {"type": "concatenate", "inputs": ["input", "users"]},
                    {"type": "dense", "units": 1, "activation": "sigmoid"}]},
                "loss": "binary_crossentropy", "optimizer": {"type": "sgd", "learning_rate": 0.1},
                "data": {"train": {"format": "csv", "x": str(data), "header": True,
                                   "label_column": "y", "columns": ["x"], "ids": ["user"]}},
                "train": {"batch": 256, "epochs": 1, "steps_per_closure": 8}}
        path = c.dir / "job.json"
        path.write_text(json.dumps(spec))

        def submit(who):
            return c.run("submit", path, "--no-wait", who=who).stdout.strip()
        hers, his = submit("submitter-eve"), submit("submitter-bob")
        failed = c.wait_state(his, "failed")
        for text in ("psserver ps-0", "table users: no memory for another row",
                     "rows of tenant a take ", " of 512 KiB here", "--quota a:rows=BYTES"):
            check(text in str(failed), f"no '{text}'", failed["reason"])
        check_counts(c.wait_state(hers))
        rows = c.json("tables", hers, who="submitter-eve")["tables"][0]["figures"]["rows"]
        check_equal(int(rows), samples, "rows of the other tenant")
        shown = {x["tenant"]: x for x in c.json("quota")["tenants"]}
        check_equal((shown["a"]["rows"]["most"], shown["a"]["rows"]["limited"]),
                    (512 << 10, True), "the quota")
        # With a higher one the same job ends, and the psserver has not to start anew.
        c.kill("coordinator")
        c.start("coordinator", extra=["--quota", "a:rows=4MiB"])
        check_counts(c.wait_state(submit("submitter-bob")))
        # Rows that lie on disk are the tenant's as well: 1.4 MiB, of which 500 KiB
        # stay in memory in any case.
        for ps in ("coordinator", "ps-0"):
            c.kill(ps)
        spec["model"]["layers"][0]["output_dim"] = 16
        path.write_text(json.dumps(spec))
        c.start("coordinator", extra=["--quota", "a:rows=768KiB,rows_disk=64KiB"])
        c.start("ps-0", extra=["--rows-dir", folder])
        failed = c.wait_state(submit("submitter-bob"), "failed")
        for text in ("table users: no room for another row", "rows of tenant a take ",
                     " of 64 KiB of the disk here", "--quota a:rows_disk=BYTES"):
            check(text in str(failed), f"no '{text}'", failed["reason"])
        check_counts(c.wait_state(submit("submitter-eve")))
        shown = {x["tenant"]: x for x in c.json("quota")["tenants"]}
        check_equal((shown["a"]["rows_disk"]["most"], shown["a"]["rows_disk"]["limited"]),
                    (64 << 10, True), "the quota of the disk")


def the_doctor_says_who_would_be_refused():
    with Guarded([("worker", "w-9")], psservers=0, workers=0) as c:
        c.cert("revoke", "--role", "worker", "--name", "w-9")
        subject = ["-subj", "/CN=mine", "-key", c.certs / "client.key"]
        subprocess.run(["openssl", "req", "-x509", *subject, "-days", "2", "-out",
                        c.certs / "mine.crt"], check=True, capture_output=True)
        c.without_role("plain")
        # Its certificate is for 127.0.0.1.
        c.start("ps-0", extra=["--listen", "127.0.0.2:0"])
        wait_for("ps-0 to attend", lambda: c.cluster_status()["members"])
        found = c.json("doctor", "--certs", c.certs, want=1)["findings"]

        def says(level, *words):
            check(any(x["level"] == level and all(w in x["text"] for w in words)
                      for x in found), f"no {level} with {words}", *found)
        says("ok", "client.crt: admin *", "days left")
        says("ok", "psserver.crt: psserver *")
        says("fault", "w-9.revoked.crt would be refused", "has been revoked")
        says("fault", "mine.crt would be refused", "did not sign")
        says("fault", "plain.crt would be refused", "sluice cert issue")
        says("fault", "psserver ps-0", "127.0.0.2", "not for this address")


def varint(value):
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def ask_of(job, incarnation, token=b""):
    """An AskRequest for shard 0 of a job, of attempt (1, 1) at closure 0."""
    return (b"\x08" + varint(job) + b"\x10\x01\x20" + varint(incarnation) +
            b"\x32\x04\x08\x01\x10\x01" + token)


def a_worker_reaches_the_shards_of_its_jobs_alone():
    import grpc
    from member import external_job
    with Guarded([("worker", "w-9")], psservers=1, workers=1) as c:
        job = c.submit(external_job())  # which does not end before all is asked
        wait_for("its shard to serve", lambda: any(
            int(s["incarnation"]) for s in c.status(job)["shards"]))
        status = c.status(job)
        address = next(m["address"] for m in c.cluster_status()["members"]
                       if m["role"] == "psserver")
        # The certificate of a worker that was leased nothing.
        files = [(c.certs / f).read_bytes()
                 for f in ("ca.crt", "worker-w-9.key", "worker-w-9.crt")]
        forged = b"\x3a\x12" + b"\x09" + b"\x01" * 8 + b"\x11" + b"\x02" * 8
        with grpc.secure_channel(address, grpc.ssl_channel_credentials(*files)) as channel:
            ask = channel.unary_unary("/sluice.v1.Shards/Ask")
            for token, want in ((b"", grpc.StatusCode.UNAUTHENTICATED),
                                (forged, grpc.StatusCode.PERMISSION_DENIED)):
                try:
                    ask(ask_of(int(status["job"]), int(status["shards"][0]["incarnation"]),
                               token), timeout=20 * LIMIT)
                    check(False, "a worker without the job's token was served")
                except grpc.RpcError as error:
                    check(error.code() == want, error.code(), error.details())
        job = c.submit(mlp_job("tokens", epochs=1))
        check_counts(c.wait_state(job))
        c.run("export", job, "--to", c.dir / "model.safetensors")
        c.run("export", job, "--to", c.dir / "no.safetensors", who="worker", want=5)


def local_steps_are_those_of_a_certificate():
    """Their pushes have tokens of the job, and the status names who made them."""
    with Guarded([("worker", "w-0")], psservers=1, workers=0) as c:
        c.own["w-0"] = "worker-w-0"
        c.start("w-0")
        done = c.wait_state(c.submit(mlp_job(
            "local", samples=1600, epochs=2, mode="local", contributions=3, quorum=2,
            weight="age", inner={"steps": 5, "up": "e3m0", "down": "e3m0"})))
        check_counts(done)
        check_equal([w["worker"] for w in done["local"]["workers"]], ["w-0"], "whose they are")


def nobody_fences_what_it_was_not_leased():
    """Whoever holds a job's token asks with the highest attempt that there is."""
    from member import COMMON, PS, PS_CALLS, Member, Played, external_job
    with Played([("worker", "evil"), ("worker", "good")], psservers=1, workers=0) as c:
        c.submit(external_job("fence", samples=64))

        def refusal(shards, lease, opened, shard, **other):
            said = {"closure": lease.closure, "attempt": lease.attempt, "proof": lease.proof, **other}
            return shards.Ask(PS.AskRequest(
                job=lease.job, job_incarnation=lease.job_incarnation, shard=0,
                incarnation=shard.incarnation, token=opened.token, **said), timeout=20 * LIMIT).refused.why

        with Member(c, "evil", who="worker-evil", external=True) as evil:
            evil.beat()  # a job is placed a second after its psserver came
            lease, opened, shard = evil.wait_lease()
            shards = c.calls(PS_CALLS.ShardsStub, "worker-evil", shard.address)
            check(lease.HasField("proof"), "a lease without a proof", lease)
            for closure in range(4):
                check_equal(refusal(shards, lease, opened, shard, closure=closure, attempt=COMMON.Attempt(
                    term=lease.attempt.term, n=(1 << 64) - 1)), PS.REFUSED_NOT, "an Ask that proves nothing")
        with Member(c, "good", who="worker-good", external=True) as good:
            good.beat()
            again = good.wait(lambda: next((g for g in good.leases if g.closure == lease.closure), None))
            check(again is not None, "the closure was not leased again", good.leases)
            mine = c.calls(PS_CALLS.ShardsStub, "worker-good", shard.address)
            for other in list(good.leases):
                check_equal(refusal(mine, other, good.opened[other.job], shard), PS.REFUSED_NOT,
                            "of a lease, proven")
            check_equal(refusal(shards, lease, opened, shard), PS.REFUSED_ATTEMPT,
                        "of the lease before")


def a_tenant_reads_and_changes_no_rows_of_another():
    """Two tenants' jobs have a table of one name on one psserver. A worker that was leased
    one of them knows all of the other but its token."""
    import grpc
    from member import PS, PS_CALLS, Member, Played, external_job
    made = [("submitter", "bob", "--tenant", "a"), ("submitter", "eve", "--tenant", "b"),
            ("worker", "w-0")]
    ids = struct.pack("<4IQ", 0, 1, 0, 0, 17)  # one of table 0, in f32 (proto/table_rows.h)
    with Played(made, psservers=1, workers=0) as c:
        path, owners = c.dir / "job.json", {}
        for who in ("submitter-bob", "submitter-eve"):
            spec = external_job("rows", samples=64)
            spec["model"]["tables"] = [
                {"name": "users", "dim": 2, "initializer": "constant(7)"}]
            path.write_text(json.dumps(spec))
            owners[c.run("submit", path, "--no-wait", who=who).stdout.strip()] = who
        with Member(c, "w-0", who="worker-w-0", external=True) as m:
            m.beat()
            lease, opened, shard = m.wait_lease()
            served = wait_for("both jobs' shards", lambda: (
                found := {j: c.status(j) for j in owners}) and all(
                    int(s["shards"][0].get("incarnation", 0)) for s in found.values()) and found)
            mine = next(j for j, s in served.items() if int(s["job"]) == lease.job)
            theirs = next(j for j in owners if j != mine)

            def asks(call, who, job, *token, **more):
                """What the psserver says to it."""
                shards = c.calls(PS_CALLS.ShardsStub, who, shard.address)
                kind = {"Pull": PS.PullRequest, "PushPull": PS.PushRequest}[call]
                request = kind(job=int(served[job]["job"]), job_incarnation=1, shard=0,
                               incarnation=int(served[job]["shards"][0]["incarnation"]), **more)
                if token:
                    request.token.CopyFrom(token[0])
                try:
                    return getattr(shards, call)(request, timeout=20 * LIMIT)
                except grpc.RpcError as error:
                    return error.code()

            read = asks("Pull", "worker-w-0", mine, opened.token, payload=ids)
            check_equal(struct.unpack("<2f", read.payload), (7, 7), "rows of its own job")
            refused, unknown = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED
            tag = {"incarnation": 1, "sequence": 1}
            for who, token, want in (("worker-w-0", [opened.token], refused),
                                     ("worker-w-0", [], unknown),
                                     (owners[mine], [opened.token], refused)):
                for more in ({"payload": ids}, {"payload": ids, "ids_of_tag": True, "tag": tag},
                             {"payload": b"users", "tag": tag}):
                    check_equal(asks("Pull", who, theirs, *token, **more), want, f"{who} {more}")
                check_equal(asks("PushPull", who, theirs, *token, samples=1, rows_bytes=32, payload=(
                    bytes(64) + ids + struct.pack("<2f", 1, 1))), want, f"a push of {who}")
            check_equal(asks("Pull", "client", theirs, payload=ids).payload, read.payload,
                        "as an admin reads it")
        for words in (["tables", theirs], ["follow", theirs, "--table", "users", "--once", "--to",
                                           c.dir / "rows"]):
            c.run(*words, who=owners[mine], want=3)


def a_coordinator_with_a_workers_certificate_is_told_nothing():
    with Guarded(psservers=0, workers=0) as c:
        c.kill("coordinator")
        c.own["coordinator"] = "worker"
        c.start("coordinator")
        told = c.run("jobs", want=5).stderr
        check("does not name the peer that was dialed" in told and "of role worker" in told and
              "a coordinator was dialled" in told, "no reason", told)
        for name in ("w-0", "ps-0"):
            c.start(name, wait=False)
            wait_for(f"{name} to say why", lambda name=name: "does not name the peer that was dialed"
                     in c.log(name))
        check("call refused" not in c.log("coordinator"), "somebody called it")


class Impostor:
    """Serves on the port with the certificate, and counts what it is asked."""

    def __init__(self, port, certs, file):
        import grpc
        from concurrent import futures
        self.asked = []

        class Any(grpc.GenericRpcHandler):
            def service(_, call):
                self.asked.append(call.method)

        key, cert, ca = ((certs / f).read_bytes()
                         for f in (f"{file}.key", f"{file}.crt", "ca.crt"))
        self.server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[Any()])
        self.server.add_secure_port(
            f"127.0.0.1:{port}", grpc.ssl_server_credentials([(key, cert)], ca, True))
        self.server.start()

    def close(self):
        self.server.stop(0).wait()


def a_psserver_with_a_workers_certificate_is_sent_no_gradient():
    from proxy import Proxy
    with Guarded(psservers=0, workers=1) as c:
        real, seen = free_port(), free_port()
        played = Impostor(seen, c.certs, "worker")
        c.start("ps-0", extra=["--listen", f"127.0.0.1:{real}",
                               "--advertise", f"127.0.0.1:{seen}"])
        job = c.submit(mlp_job("played", epochs=1))
        wait_for("the job to say why", lambda: "of role worker, and a psserver was dialled"
                 in c.status(job).get("reason", ""))
        check(not played.asked, "it was asked", *played.asked)
        played.close()
        with Proxy(("127.0.0.1", seen), ("127.0.0.1", real)):
            check_counts(c.wait_state(job))


if __name__ == "__main__":
    if subprocess.run(["openssl", "version"], capture_output=True, check=False).returncode:
        print("there is no openssl command: skipped")
        sys.exit(77)
    main([a_role_does_its_own_and_nothing_else, nobody_attends_as_somebody_else,
          a_certificate_without_a_role_is_told_what_to_do,
          a_revoked_worker_is_cut_off_and_stays_out,
          whoever_watches_is_cut_off_when_revoked,
          a_tenant_has_its_own_jobs_and_all_is_written_down,
          ranks_of_a_ring_know_each_other_for_workers,
          who_was_refused_is_written_down_and_full_files_are_put_beside,
          a_tenant_has_no_more_than_its_quota,
          a_tenant_s_rows_have_a_quota_and_take_no_other_s,
          a_worker_reaches_the_shards_of_its_jobs_alone,
          local_steps_are_those_of_a_certificate,
          nobody_fences_what_it_was_not_leased,
          a_tenant_reads_and_changes_no_rows_of_another,
          a_coordinator_with_a_workers_certificate_is_told_nothing,
          a_psserver_with_a_workers_certificate_is_sent_no_gradient,
          the_doctor_says_who_would_be_refused])
