#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clusters whose store is a bucket (s3.py: moto behind a door that checks each
signature): what holds of a folder that all hosts share must hold of it, and
where it does not answer nobody stands still.

Each test has a prefix of its own in one bucket.
"""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
import urllib.error
import urllib.request

from chain_test import (DIM, Programs, as_rows, expected, is_chain, rows_to_begin_with,
                        start_of, tables_job, unhurried)
from cluster import (BIN, LIMIT, Cluster, Leisurely, check, check_counts, check_equal, full_disk,
                     main, mlp_job, wait_for)
from full_test import Small, spaces
from proxy import Proxy
from s3 import S3, error

WORLD = {}  # s3: the one that all tests have


class Bucket(Cluster):
    """with Bucket("prefix", ...) as c: a cluster whose store is there."""

    def __init__(self, prefix, url=None, credentials=None, patience="30s", **options):
        super().__init__(**options)
        s3 = WORLD["s3"]
        self.prefix = prefix
        self.store = f"s3://{s3.bucket}/{prefix}"
        self.s3 = ["--s3-endpoint", url or s3.url, "--s3-region", s3.region,
                   "--s3-patience", patience]
        if credentials:
            self.s3 += ["--s3-credentials", str(credentials)]
        self.no_history("its files are in a bucket")

    def command(self, name):
        line = super().command(name)
        if "--store" in line:
            at = line.index("--store")
            del line[at:at + 2]
        return line + ["--store", self.store, *self.s3]

    def keys(self):
        """What lies in the store, without the prefix."""
        s3 = WORLD["s3"]
        pages = s3.boto.get_paginator("list_objects_v2").paginate(
            Bucket=s3.bucket, Prefix=f"{self.prefix}/")
        return sorted(o["Key"][len(self.prefix) + 1:]
                      for page in pages for o in page.get("Contents", []))

    def export(self, to, *words):
        self.run("export", *words, "--to", to, *self.s3)
        return to.read_bytes()


class FarBucket(Bucket, Leisurely):
    """A job lasts while processes die."""


def key_of(path):
    """The key of s3://bucket/key."""
    head = f"s3://{WORLD['s3'].bucket}/"
    check(path.startswith(head), f"{path} is not in the bucket")
    return path[len(head):]


def last_manifest(c, job):
    return c.json("checkpoints", job)["checkpoints"][-1]["manifest"]


def long_job(name, epochs=100, **more):
    spec = mlp_job(name, epochs=epochs, **more)
    spec["checkpoint"] = {"every_seconds": 0.3, "keep": 2}
    return spec


def cuts_of(c, job):
    return int(c.status(job).get("cuts", 0))


def one_more_cut(c, job, limit_s=60):
    had = cuts_of(c, job)
    wait_for("one more checkpoint", lambda: cuts_of(c, job) > had, limit_s)


# ---- a cluster

def read_by_others(manifest):
    """{variable's rows} of a cut as boto3, json and safetensors read it."""
    import numpy as np
    from safetensors.numpy import load
    s3 = WORLD["s3"]
    text = json.loads(s3.read(key_of(manifest)))
    found = {}
    for shard in text["shards"]:
        tensors = load(s3.read(key_of(f"{shard['folder']}/{shard['file']}")))
        for name, rows in tensors.items():
            if "#" not in name:  # a slot's
                found.setdefault(name, []).append(rows)
    return {name: np.concatenate(parts) for name, parts in found.items()}


def a_cluster_loses_its_processes_and_keeps_its_bucket():
    import numpy as np
    from safetensors.numpy import load
    with FarBucket("lives", psservers=2, workers=2) as c:
        job = c.submit(long_job("lives", epochs=5))
        one_more_cut(c, job)
        check("cluster.id" in c.keys(), "the store bears no mark", c.keys())
        c.kill("ps-1")
        shutil.rmtree(c.dir / "ps-1")  # its state, and with it all it knew
        c.start("ps-1")
        one_more_cut(c, job)
        c.restart("coordinator")
        one_more_cut(c, job)
        c.hurry()
        done = c.wait_state(job)
        check_counts(done)
        manifest = last_manifest(c, job)
        online = c.export(c.dir / "a.safetensors", job)
        check(online == c.export(c.dir / "b.safetensors", "--from", manifest),
              "the export of the job and that of its manifest differ")
        ours, found = load(online), read_by_others(manifest)
        check_equal(sorted(ours), sorted(found), "variables")
        for name, rows in found.items():
            theirs = rows.T if rows.ndim == 2 else rows  # the export is in Keras' layout
            check_equal(ours[name].shape, theirs.shape, f"shape of {name}")
            check(np.array_equal(ours[name], theirs), f"{name} differs")
        only_what_is_kept(c, job)
        doctor(c)


def the_rows_of_a_table_come_back_from_a_chain_in_the_bucket():
    """A psserver dies and loads its delta and what is below it, all from there."""
    from safetensors.numpy import load_file
    with Bucket("chain", psservers=2, workers=0) as c:
        still, users = rows_to_begin_with(c, "users", DIM)
        _, items = rows_to_begin_with(c, "items", DIM + 1)
        spec = {**tables_job(40), "checkpoint": {"every_seconds": 0.5, "keep": 1000}}
        job = c.submit(spec, *users, *items)

        def chain():
            cuts = c.json("checkpoints", job)["checkpoints"]
            return cuts and is_chain(json.loads(
                WORLD["s3"].read(key_of(cuts[-1]["manifest"])))["shards"])
        hurry = c.dir / "hurry"
        with Programs(start_of(c, unhurried(hurry)), count=1):
            wait_for("a chain", chain)
            c.restart("ps-1")
            hurry.touch()
            check_counts(c.wait_state(job))
        for words in ((job,), ("--from", last_manifest(c, job))):
            rows = c.dir / "rows.safetensors"
            c.export(rows, *words, "--table", "users")
            check_equal(as_rows(load_file(rows)), expected(still, 40, DIM), f"rows by {words}")


def only_what_is_kept(c, job):
    """K3 in a bucket: what no kept cut names goes; all goes with the job."""
    def named():
        return {key_of(f"{s['folder']}/{s['file']}")[len(c.prefix) + 1:]
                for cut in c.json("checkpoints", job)["checkpoints"]
                for s in json.loads(WORLD["s3"].read(key_of(cut["manifest"])))["shards"]}

    def kept():
        return {k for k in c.keys() if k.endswith(".safetensors")}

    check_equal(len([k for k in c.keys() if k.endswith(".json")]), 2, "manifests that are kept")
    wait_for("the files that no cut names to go", lambda: kept() == named())
    c.run("delete", job)
    wait_for("all files of the job to go", lambda: c.keys() == ["cluster.id"])
    check_equal(WORLD["s3"].uploads(), [], "uploads that nobody completes")


def doctor(c):
    found = c.json("doctor", "--store", c.store, *c.s3, want=None)["findings"]
    said = [f for f in found if f["what"] == "store"]
    check_equal([f["level"] for f in said], ["ok"], "what doctor says of the store")
    check_equal(c.keys(), ["cluster.id"], "what doctor left")


def another_cluster_goes_on_from_the_bucket():
    """Its journal is empty; and the mode is another one, twice."""
    with Bucket("goes-on", psservers=2, workers=2) as c:
        job = c.submit(long_job("goes-on", epochs=2))
        c.wait_state(job)
        manifest, had = last_manifest(c, job), c.steps(job)
    with Bucket("goes-on", psservers=1, workers=2) as c:
        check_equal(c.json("jobs").get("jobs", []), [], "jobs of an empty journal")
        ring = long_job("goes-on", epochs=4, mode="allreduce",
                        workers={"min": 1, "max": 2})
        job = c.submit(ring, "--resume", manifest)
        done = c.wait_state(job)
        check_counts(done)
        check_equal(int(done["resumed_steps"]), had, "steps that were found")
        parts = json.loads(WORLD["s3"].read(key_of(last_manifest(c, job))))["shards"]
        check(all(p["psserver"].startswith("w-") for p in parts), "who wrote the parts", parts)
        again = c.submit(long_job("goes-on", epochs=6), "--resume", job)
        done = c.wait_state(again)
        check_counts(done)
        check_equal(int(done["resumed_steps"]), 2 * had, "steps of the ring")


# ---- a store that does not answer

def quick(c, *words):
    """An answer while the store gives none: the loop does not wait for it."""
    return c.json(*words, limit_s=5)


def nobody_stands_still_while_the_bucket_does():
    """But who evaluates, and so has to read a checkpoint: this job does not."""
    door = WORLD["s3"].server.server_address
    with Proxy(("127.0.0.1", 0), door) as wire, \
            Bucket("stands", url="http://127.0.0.1:%d" % wire.here[1], patience="2s",
                   psservers=1, workers=1) as c:
        first = c.submit(long_job("first", samples=640, epochs=1))
        c.wait_state(first)
        spec = long_job("stands", epochs=4000)
        del spec["data"]["test"]
        job = c.submit(spec)
        one_more_cut(c, job)
        wire.stall("up")
        with submitting(c, "--resume", first) as more:
            for _ in range(5):
                c.wait_steps(job, c.steps(job) + 200)
                quick(c, "status", job)
                quick(c, "jobs")
            check(more.poll() is None, "a manifest was read over a dead wire")
            wire.refuse()
            wire.reset()
            wait_for("the status to say so", lambda: [
                w for w in warnings_of(c, job) if "given up" in w and "127.0.0.1" in w])
            _, said = more.communicate(timeout=60 * LIMIT)
            check(more.returncode != 0 and "127.0.0.1" in said, "the submission", said)
            check("coordinator at" not in said and "running?" not in said,
                  "it is the bucket that is waited for", said)
        c.wait_steps(job, c.steps(job) + 200)
        wire.heal()
        one_more_cut(c, job)
        wait_for("the warning to go", lambda: not [
            w for w in warnings_of(c, job) if "given up" in w])
        with submitting(c, "--resume", first) as more:
            _, said = more.communicate(timeout=60 * LIMIT)
            check(more.returncode == 0, "the submission", said)


def an_evaluation_that_finds_no_bucket_is_given_up():
    """The only worker trains on; the epoch of that checkpoint has no numbers."""
    s3 = WORLD["s3"]

    def refuse(forward):
        """A file of a cut: who writes one reads it too, before there is a manifest."""
        *before, (_, path) = s3.asked
        cut = max((i for i, (how, what) in enumerate(before)
                   if how == "PUT" and "/evaluates/evaluates-" in what and "/cut-" in what),
                  default=0)
        if any(what.startswith(path) for _, what in before[:cut]):
            return 503, [], error("SlowDown")
        return forward()

    with Bucket("evaluates", patience="1s", psservers=1, workers=1) as c:
        s3.add(10**6, "GET", ".safetensors", "", refuse)
        job = c.submit(long_job("evaluates", epochs=4000, max_attempts=1))
        wait_for("an evaluation to be given up", lambda: [
            w for w in warnings_of(c, job) if "evaluation" in w and "SlowDown" in w])
        c.wait_steps(job, c.steps(job) + 200)
        one_more_cut(c, job)
        s3.faults.clear()
        wait_for("evaluations", lambda: c.status(job).get("evaluations"))


def warnings_of(c, job):
    return c.status(job).get("warnings", [])


@contextlib.contextmanager
def submitting(c, *words):
    """`sluice submit` of a job like `first`, on its way."""
    path = c.dir / "more.yaml"
    path.write_text(json.dumps(long_job("more", samples=640, epochs=2)))
    process = subprocess.Popen(
        [str(BIN / "sluice"), "--coordinator", c.address, "--timeout", "100s", "submit",
         str(path), "--no-wait", *words],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


# ---- keys

def wrong_names_and_keys_are_said_at_the_start():
    s3 = WORLD["s3"]
    with contextlib.ExitStack() as stack:
        c = stack.enter_context(Unstarted("refused", psservers=0, workers=0))
        file = c.dir / "credentials"
        file.write_text("[default]\naws_access_key_id = AKIANOBODY\n"
                        "aws_secret_access_key = nothing\n")
        refused(c, ["InvalidAccessKeyId"], credentials=file)
        file.write_text(f"[default]\naws_access_key_id = {s3.id}\n"
                        "aws_secret_access_key = guessed\n")
        refused(c, ["SignatureDoesNotMatch"], credentials=file)
        refused(c, ["bucket", "not-there"], store="s3://not-there/x")
        refused(c, ["s3://BUCKET/PREFIX"], store="gs://bucket/x")


class Unstarted(Bucket):
    def __enter__(self):
        return self


def a_start_waits_for_a_bucket_that_is_away():
    with Proxy(("127.0.0.1", 0), WORLD["s3"].server.server_address) as wire, \
            Unstarted("waits", url="http://127.0.0.1:%d" % wire.here[1], patience="1s",
                      psservers=1, workers=1) as c:
        wire.refuse()
        for name in ("coordinator", "ps-0", "w-0"):
            c.start(name, wait=False)
            wait_for(f"{name} to say so",
                     lambda: '"msg":"the store does not answer"' in c.log(name))
        wire.heal()
        c.wait_state(c.submit(long_job("waits", samples=640, epochs=1)))


def ops_of(c, name):
    """The address of a daemon's ops port, which its log says."""
    wait_for(f"{name}'s ops port", lambda: '"msg":"ops port"' in c.log(name))
    line = [text for text in c.log(name).splitlines() if '"msg":"ops port"' in text][-1]
    return json.loads(line)["address"]


def probe(where, path):
    """(status, body) of an ops port."""
    try:
        with urllib.request.urlopen(f"http://{where}{path}", timeout=5 * LIMIT) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as answer:
        return answer.code, answer.read().decode()


def waits_for_the_store(c, word):
    """What everybody is told who asks the coordinator now."""
    check(c.processes["coordinator"].poll() is None, "it has ended", c.log("coordinator"))
    done = c.run("--timeout", "1s", "jobs", want=None)
    check(done.returncode != 0 and "waits for its store" in done.stderr and
          c.store in done.stderr and word in done.stderr, "what a client is told", done.stderr)
    where = ops_of(c, "coordinator")
    code, said = probe(where, "/readyz?verbose")
    check(code == 503 and "[-]store failed: the coordinator waits" in said and
          "[+]journal ok" in said, "/readyz", said)
    check_equal(probe(where, "/livez")[0], 200, "/livez")
    done = c.run("--timeout", "1s", "doctor", want=None)
    check("waits for its store" in done.stdout + done.stderr, "doctor", done.stdout, done.stderr)


def a_coordinator_whose_bucket_goes_as_it_begins_waits_and_goes_on():
    """Its mark is read, and then nothing: first for want of S3, then of rights."""
    s3 = WORLD["s3"]
    with Bucket("recovers", patience="1s", psservers=1, workers=1) as c:
        job = c.submit(long_job("recovers", epochs=2000))
        one_more_cut(c, job)
        c.kill("coordinator")
        s3.fail(10**6, method="GET", query="prefix=recovers")
        c.start("coordinator", ["--ops-bind", "127.0.0.1:0"], wait=False)
        wait_for("the coordinator to say so",
                 lambda: '"msg":"the store does not answer"' in c.log("coordinator"))
        waits_for_the_store(c, "SlowDown")
        check_equal(c.kill("coordinator", signal.SIGTERM), -signal.SIGTERM, "its end")
        (c.dir / "coordinator.log").unlink()
        c.start("coordinator", ["--ops-bind", "127.0.0.1:0"], wait=False)
        wait_for("the next one to say so",
                 lambda: '"msg":"the store does not answer"' in c.log("coordinator"))
        s3.faults.clear()
        s3.fail(10**6, 403, "AccessDenied", method="GET", query="prefix=recovers")
        had = len(s3.asked)
        wait_for("it to be asked again", lambda: sum(
            "prefix=recovers" in path for _, path in s3.asked[had:]) > 2)
        waits_for_the_store(c, "AccessDenied")
        s3.faults.clear()
        wait_for("it to go on", lambda: "the store answers again" in c.log("coordinator"))
        one_more_cut(c, job)
        check_equal(probe(ops_of(c, "coordinator"), "/readyz")[0], 200, "/readyz at last")
        log = c.log("coordinator")
        check_equal(log.count('"msg":"the store does not answer"'), 1, "warnings")
        check_equal(log.count('"msg":"the store answers again"'), 1, "and their end")
        check_equal(int(c.cluster_status()["term"]), 2, "terms that were taken")
        c.run("stop", job)


def who_joins_waits_for_a_bucket_that_goes_as_it_begins():
    """It answers once, when the daemon starts, and is away for the next question."""
    s3 = WORLD["s3"]
    with Unstarted("between", patience="1s", psservers=1, workers=1) as c:
        c.start("coordinator")
        for name in ("ps-0", "w-0"):
            reads = []

            def away(forward, seen=reads):
                seen.append(1)
                return forward() if len(seen) == 1 else (503, [], error("SlowDown"))
            s3.add(10**6, "GET", "between/cluster.id", "", away)
            c.start(name, wait=False)
            wait_for(f"{name} to say so",
                     lambda: '"msg":"the store does not answer"' in c.log(name))
            s3.faults.clear()
        c.wait_state(c.submit(long_job("between", samples=640, epochs=1)))


def what_is_wrong_in_the_bucket_is_not_waited_for():
    """A mark that is none, found by the recovery: as of a folder."""
    s3 = WORLD["s3"]
    with Unstarted("is-wrong", psservers=0, workers=0) as c:
        reads = []

        def spoiled(forward):
            reads.append(1)
            return (200, [], b"nothing\n") if len(reads) > 1 else forward()
        s3.add(10**6, "GET", "is-wrong/cluster.id", "", spoiled)
        c.start("coordinator", wait=False)
        check_equal(c.processes["coordinator"].wait(timeout=60 * LIMIT), 1, "exit status")
        check("does not begin with the id of a cluster" in c.log("coordinator"),
              "what it says", c.log("coordinator"))
        c.kill("coordinator")
        s3.faults.clear()


@contextlib.contextmanager
def standing_still(method, path="", query=""):
    """From the next such request on S3 says nothing. Yields what tells that it came."""
    came, over = threading.Event(), threading.Event()

    def act(forward):
        came.set()
        over.wait(60 * LIMIT)
        return forward()
    WORLD["s3"].add(1, method, path, query, act)
    try:
        yield came
    finally:
        over.set()


def a_first_join_waits_for_no_bucket():
    """Each marks the store for the cluster that welcomes it: not on its loop."""
    with Unstarted("joins", psservers=1, workers=1) as c:
        c.start("coordinator")
        for name in ("ps-0", "w-0"):
            with standing_still("PUT", "joins/cluster.id") as came:
                extra = ["--ops-bind", "127.0.0.1:0", "--state", str(c.dir / name)]
                c.start(name, extra, wait=False)
                check(came.wait(60 * LIMIT), f"{name} marks nothing")
                wait_for(f"{name} to be attached", lambda: '"msg":"attached"' in c.log(name),
                         limit_s=15)
                check_equal(probe(ops_of(c, name), "/livez")[0], 200, f"/livez of {name}")
                quick(c, "workers")
            wait_for(f"{name} to note its cluster", (c.dir / name / "cluster").exists)
        c.wait_state(c.submit(long_job("joins", samples=640, epochs=1)))


class SmallBucket(Small, Bucket):
    """Its coordinator's state folder is a small disk."""


def a_coordinator_with_space_again_asks_the_bucket_on_no_loop():
    if not spaces():
        print("no mount namespaces: left out")
        return
    with SmallBucket("space", psservers=1, workers=1,
                     coordinator_args=["--ops-bind", "127.0.0.1:0"]) as c:
        job = c.submit(long_job("space", epochs=2000))
        one_more_cut(c, job)
        # Of another namespace nothing is seen of that disk.
        where = ops_of(c, "coordinator")
        with contextlib.ExitStack() as still:
            with full_disk(c.processes["coordinator"], c.dir / "coordinator"):
                wait_for("the disk to be full", lambda: "no space for the journal"
                         in c.log("coordinator"))
                came = still.enter_context(standing_still("GET", query="prefix=space"))
            check(came.wait(60 * LIMIT), "nothing is asked")

            def told():
                return c.run("--timeout", "1s", "jobs", want=None).stderr
            # A client may come between the request and the word about it.
            wait_for("clients to be told", lambda: "reading the store" in told())
            for _ in range(3):
                check("reading the store" in (said := told()), "what a client is told", said)
                check_equal(probe(where, "/livez")[0], 200, "/livez")
        wait_for("it to go on", lambda: "space for the journal again" in c.log("coordinator"))
        one_more_cut(c, job)
        c.run("stop", job)


def refused(c, words, store=None, credentials=None):
    c.store = store or f"s3://{WORLD['s3'].bucket}/refused"
    c.s3 = ["--s3-endpoint", WORLD["s3"].url, "--s3-region", WORLD["s3"].region,
            "--s3-patience", "1s", "--log-format", "text"]
    if credentials:
        c.s3 += ["--s3-credentials", str(credentials)]
    for name in ("coordinator", "ps-0"):
        c.start(name, wait=False)
        code = c.processes[name].wait(timeout=60 * LIMIT)
        said = c.log(name)
        (c.dir / f"{name}.log").unlink()
        check(code != 0, f"{name} began", said)
        check(all(w in said for w in words), f"{name} does not say {words}", said)
        check("guessed" not in said and "nothing" not in said, "a key is in the log", said)
        c.kill(name)


def keys_that_expire_are_said_and_new_ones_taken():
    s3 = WORLD["s3"]
    with Unstarted("expires", psservers=1, workers=1) as c:
        file = c.dir / "credentials"
        s3.keys["ASIAOLD"] = ("old", None)
        file.write_text("[default]\naws_access_key_id = ASIAOLD\naws_secret_access_key = old\n")
        c.s3 += ["--s3-credentials", str(file)]
        c.start_all()
        job = c.submit(long_job("expires", epochs=2000))
        one_more_cut(c, job)
        s3.expired.add("ASIAOLD")
        wait_for("the status to say so", lambda: any(
            "ExpiredToken" in w for w in warnings_of(c, job)))
        steps = c.steps(job)
        c.wait_steps(job, steps + 100)
        s3.keys["ASIANEW"] = ("new", None)
        file.write_text("[default]\naws_access_key_id = ASIANEW\naws_secret_access_key = new\n")
        one_more_cut(c, job)
        c.run("stop", job)


class Pods(Unstarted):
    """Its processes have no keys, but a token with which STS gives them some."""

    def start(self, name, extra=(), environment=None, wait=True):
        token = self.dir / "token"
        token.write_text("a.web.identity\n")
        pod = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "",
               "AWS_WEB_IDENTITY_TOKEN_FILE": str(token),
               "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/trains",
               "AWS_ROLE_SESSION_NAME": name,
               "AWS_ENDPOINT_URL_STS": WORLD["s3"].url + "/sts"}
        return super().start(name, extra, {**pod, **(environment or {})}, wait)


def pods_train_with_keys_of_sts_while_it_gives_any():
    """The job outlives an STS that refuses, and checkpoints go on after it."""
    s3 = WORLD["s3"]
    s3.lasting_s, refused = 2, len(s3.refused)
    with Pods("pods", psservers=1, workers=1, patience="1s") as c:
        c.start_all()
        job = c.submit(long_job("pods", epochs=2000))
        one_more_cut(c, job)
        had = len(s3.assumed)
        wait_for("both to renew their keys", lambda: {"coordinator", "ps-0"} <= {
            form["RoleSessionName"] for form in s3.assumed[had:]})
        one_more_cut(c, job)
        check_equal(s3.refused[refused:], [], "requests with keys that are none")
        s3.fail(10 ** 6, 403, method="POST", path="/sts",
                body=b"<ErrorResponse><Error><Code>AccessDenied</Code>"
                b"<Message>Not authorized</Message></Error></ErrorResponse>")
        wait_for("the status to say so", lambda: any(
            "role/trains" in w and "AccessDenied: Not authorized" in w
            for w in warnings_of(c, job)))
        c.wait_steps(job, c.steps(job) + 100)
        s3.faults.clear()
        one_more_cut(c, job)
        c.run("stop", job)
        for name in ("coordinator", "ps-0", "w-0"):
            check("a.web.identity" not in c.log(name), f"the token is in the log of {name}")
        check("the keys for S3 are not renewed yet" in c.log("coordinator") + c.log("ps-0"),
              "nothing is told before the keys expire")
    s3.lasting_s = 3600


if __name__ == "__main__":
    with S3() as s3:
        WORLD["s3"] = s3
        os.environ.update(AWS_ACCESS_KEY_ID=s3.id, AWS_SECRET_ACCESS_KEY=s3.secret)
        main([a_cluster_loses_its_processes_and_keeps_its_bucket,
              the_rows_of_a_table_come_back_from_a_chain_in_the_bucket,
              another_cluster_goes_on_from_the_bucket,
              nobody_stands_still_while_the_bucket_does,
              an_evaluation_that_finds_no_bucket_is_given_up,
              wrong_names_and_keys_are_said_at_the_start,
              a_start_waits_for_a_bucket_that_is_away,
              a_coordinator_whose_bucket_goes_as_it_begins_waits_and_goes_on,
              who_joins_waits_for_a_bucket_that_goes_as_it_begins,
              what_is_wrong_in_the_bucket_is_not_waited_for,
              a_first_join_waits_for_no_bucket,
              a_coordinator_with_space_again_asks_the_bucket_on_no_loop,
              keys_that_expire_are_said_and_new_ones_taken,
              pods_train_with_keys_of_sts_while_it_gives_any])
