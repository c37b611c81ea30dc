#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workers that read their data at places: s3://bucket/... (s3.py: moto behind a
door that checks each signature) and https://host/... (a server that reads
ranges). The samples are those of local files, whatever the network does; an
object that was replaced or is gone is named, and never read as another.
"""
import hashlib
import json
import os
import pathlib
import re
import shutil
import tempfile
import urllib.request

from cluster import Cluster, check, check_counts, check_equal, main, wait_for
from formats_test import ROWS, npy, thirds, values_of, write_rows, write_tar
from full_test import spaces
from roots_test import csv_job
from s3 import S3
from web import Web, certificate

WORLD = {}  # s3, and the certificate of web servers
PAD = bytes(range(256)) * 256  # 64 KiB beside each sample, that nobody reads


class Places(Cluster):
    """A cluster whose workers may read below these places; `cached`: MiB."""

    def __init__(self, *allow, cached=64, patience="20s", **options):
        super().__init__(psservers=1, **options)
        self.allow, self.cached, self.patience = allow, cached, patience

    def data_roots(self):
        s3 = WORLD["s3"]
        cache = ["--cache", str(self.dir / "cache"), f"--cache-bytes={self.cached}MiB"]
        return [*super().data_roots(), *(f"--data-allow={a}" for a in self.allow),
                "--s3-endpoint", s3.url, "--s3-region", s3.region,
                "--data-patience", self.patience, "--ops-bind", "127.0.0.1:0",
                *(cache if self.cached else [])]

    def log(self, name="w-0"):
        return (self.dir / f"{name}.log").read_text()

    def figure(self, what, name="w-0"):
        port = re.search(r'"ops port","address":"127.0.0.1:(\d+)"', self.log(name))
        text = urllib.request.urlopen(
            f"http://127.0.0.1:{port[1]}/metrics", timeout=60).read().decode()
        return float(re.search(rf"^{what} (\S+)$", text, re.M)[1])


def upload(folder, prefix):
    for path in sorted(folder.iterdir()):
        WORLD["s3"].write(f"{prefix}/{path.name}", path.read_bytes())


def big_tars(folder, rows=ROWS, pads=1):
    """64 KiB a sample, or more, in three archives: the source that names them."""
    folder.mkdir(exist_ok=True)
    for i, part in enumerate(thirds(rows)):
        write_tar(folder / f"b-{i}.tar", [
            member for k, (a, b, y) in enumerate(part) for member in
            ((f"s/{k}.npy", npy((a, b), (2,))), (f"s/{k}.cls", f"{y}\n".encode()),
             (f"s/{k}.pad", PAD * pads))])
    return {"format": "webdataset", "x": f"{folder}/b-*.tar", "features": {"x": {}}}


def at(place, source, stars=True):
    """The source with its files below the place."""
    def there(path):
        name = path.rsplit("/", 1)[1]
        return f"{place}/{name if stars else name.replace('*', '{0..2}')}"
    return {**source, **{k: there(source[k]) for k in "xy" if k in source}}


def job_of(source, **train):
    return {**csv_job("", **train), "data": {"train": source}}


def trained(c, source, **train):
    job = c.submit(job_of(source, **train))
    check_counts(c.wait_state(job))
    return values_of(c, job)


def bucket(prefix):
    return f"s3://{WORLD['s3'].bucket}/{prefix}"


def objects_train_as_local_files_do_in_each_format():
    with Places(bucket("all"), workers=1) as c:
        (c.dir / "data").mkdir()
        sources = write_rows(c.dir / "data")
        upload(c.dir / "data", "all")
        for source in sources:
            check_equal(hashlib.sha256(trained(c, at(bucket("all"), source))).hexdigest(),
                        hashlib.sha256(trained(c, source)).hexdigest(),
                        f"values of {source}")
        at_s3 = ("--s3-endpoint", WORLD["s3"].url, "--s3-region", WORLD["s3"].region)
        WORLD["s3"].write("folders/one/x.npy", b"x")
        for prefix, level, text in (("all", "ok", "can be read: "),
                                    ("folders", "ok", "can be read: 1 folder"),
                                    ("none", "warning", "has no objects")):
            check_equal([(f["level"], text in f["text"])
                         for f in c.json("doctor", "--data-allow", bucket(prefix), *at_s3,
                                         want=None)["findings"] if f["what"] == "place"],
                        [(level, True)], f"what the doctor says of {prefix}")
        signed = [a for a in WORLD["s3"].refused]
        check_equal(signed, [], "requests that the door refused")


def web_servers_give_ranges_and_get_no_keys():
    with tempfile.TemporaryDirectory() as folder, Web(pathlib.Path(folder), WORLD["tls"]) as web, \
            Places(web.url + "/in", workers=1) as c:
        (web.folder / "in").mkdir()
        source = big_tars(web.folder / "in")
        other = at(web.url + "/in", source, stars=False)
        check(trained(c, other) == trained(c, source), "other values over https")
        for place, level in ((web.url, "ok"), ("https://127.0.0.1:1/in", "fault")):
            check_equal([f["level"] for f in c.json(
                "doctor", "--data-allow", place + "/in", "--s3-patience", "1s",
                want=None)["findings"] if f["what"] == "place"], [level], place)
        check(all("Authorization" not in headers for _, _, headers in web.asked),
              "keys were sent to a web server")
        web.faults = [(302, b"", )] * 1
        for words, spec in [
                (["'*'"], {**source, "x": f"{web.url}/in/*.tar"}),
                (["http://", "https://"], {**source, "x": "http://127.0.0.1/a.tar"}),
                (["'?'"], {**source, "x": f"{web.url}/in/b-0.tar?key=1"}),
                (["format images", "tar"], {"format": "images", "x": f"{web.url}/in"})]:
            path = c.dir / "refused.yaml"
            path.write_text(json.dumps(job_of(spec)))
            said = c.run("submit", path, want=None).stderr
            for word in words:
                check(word in said, f"no {word} in", said)
        failed = c.wait_state(c.submit(job_of(at(web.url + "/in", source, False), batch=4)),
                              "failed")
        check("302" in failed["reason"] and "redirect" in failed["reason"],
              "the redirect is not named", failed["reason"])


def only_what_the_operator_allows_is_read():
    with Places(bucket("mine"), workers=1) as c, \
            tempfile.TemporaryDirectory() as folder, Web(pathlib.Path(folder), WORLD["tls"]) as web:
        upload_one = WORLD["s3"].write
        upload_one("mine/a.csv", b"1,2,0\n" * 64)
        upload_one("mine-2/a.csv", b"1,2,0\n" * 64)
        asked = len(WORLD["s3"].asked)
        for place in (bucket("mine-2/a.csv"), bucket("mine-2/*.csv"), bucket("*.csv"),
                      bucket("mine/../mine-2/a.csv"), "s3://other-bucket/mine/a.csv",
                      web.url + "/a.csv", "https://169.254.169.254/latest/meta-data"):
            reason = c.wait_state(c.submit(csv_job(place)), "failed")["reason"]
            check("--data-allow" in reason or "'..'" in reason, f"{place}:", reason)
        check_equal(web.asked, [], "requests to a place that is not allowed")
        check_equal(WORLD["s3"].asked[asked:], [], "requests for what is not allowed")
        check_counts(c.wait_state(c.submit(csv_job(bucket("mine/a.csv")))))
    with Cluster(psservers=1, workers=1) as c:
        reason = c.wait_state(c.submit(csv_job(bucket("mine/a.csv"))), "failed")["reason"]
        check("started without --data-allow" in reason, "the flag is not named", reason)


def a_cache_smaller_than_the_data_is_enough():
    with Places(bucket("big"), workers=1, cached=8) as c:
        source = big_tars(c.dir / "big", ROWS * 2)
        upload(c.dir / "big", "big")
        check(trained(c, at(bucket("big"), source), epochs=2) ==
              trained(c, source, epochs=2), "other values from a small cache")
        kept = sum(p.stat().st_size for p in (c.dir / "cache").rglob("*-*"))
        check(0 < kept <= 8 << 20, f"the cache has {kept} bytes")


def a_worker_is_killed_and_one_in_twenty_requests_fails():
    s3 = WORLD["s3"]
    with Places(bucket("hard"), workers=2, cached=8) as c:
        source = big_tars(c.dir / "hard", ROWS * 2)
        upload(c.dir / "hard", "hard")
        count = iter(range(1 << 30))

        def one_in_twenty(forward):
            if next(count) % 20 == 7:
                return 503, [], b""
            return forward()
        s3.add(1 << 30, "GET", "/hard/", "", one_in_twenty)
        job = c.submit(job_of(at(bucket("hard"), source), batch=2, epochs=30,
                              steps_per_closure=4))
        c.wait_steps(job, 100)
        c.restart("w-1")
        check_counts(c.wait_state(job, limit_s=120))
        s3.faults.clear()
        check(c.figure("sluice_place_retries_total") > 0, "no retry was counted")
        check("a request is tried again" in c.log("w-0") + c.log("w-1"), "nothing is told")


def workers_of_a_host_fetch_a_piece_once():
    s3 = WORLD["s3"]
    with Places(bucket("once"), workers=2) as c:
        source = big_tars(c.dir / "once")
        upload(c.dir / "once", "once")
        asked = len(s3.asked)
        job = c.submit(job_of(at(bucket("once"), source), batch=2, epochs=8,
                              steps_per_closure=4))
        check_counts(c.wait_state(job))
        fetched = [c.figure("sluice_place_requests_total", w) for w in ("w-0", "w-1")]
        hits = [c.figure("sluice_cache_hits_total", w) for w in ("w-0", "w-1")]
        ranges = [path for method, path in s3.asked[asked:]
                  if method == "GET" and path.endswith(".tar")]
        pieces = sum(-(-p.stat().st_size // (1 << 20)) for p in (c.dir / "once").iterdir())
        check_equal(len(ranges), pieces, "pieces that were fetched")
        check_equal(sum(fetched), pieces, "what the workers say of it")
        check(sum(hits) > 0, "no read was of the cache", hits)


class SmallDisk(Places):
    """The cache has a disk of its own, on which 20 MiB are."""

    def command(self, name):
        line = super().command(name)
        if name[0] != "w":
            return line
        (self.dir / "cache").mkdir(mode=0o700, exist_ok=True)
        return ["unshare", "-m", "sh", "-c",
                'mount -t tmpfs -o size=20m,mode=0700 tmpfs "$0" && exec "$@"',
                str(self.dir / "cache"), *line]


def on_a_full_disk_old_pieces_go():
    if not spaces():
        print("no mount namespaces: skipped")
        return
    with SmallDisk(bucket("full"), workers=1) as c:
        source = big_tars(c.dir / "full", ROWS, 8)  # 60 MiB
        upload(c.dir / "full", "full")
        check(trained(c, at(bucket("full"), source)) == trained(c, source),
              "other values beside a full disk")
        check("takes no pieces" not in c.log(), "the cache was turned off", c.log()[-2000:])


class Stored(Places):
    """Workers that have the store of their cluster, and no cache."""

    def command(self, name):
        store = ["--store", str(self.dir / "store")] if name[0] == "w" else []
        return super().command(name) + store


def records_are_looked_for_by_one_worker():
    s3 = WORLD["s3"]
    with Stored(bucket("index"), workers=1, cached=0) as c:
        source = big_tars(c.dir / "index", ROWS, 8)
        upload(c.dir / "index", "index")
        there = at(bucket("index"), source)
        check(trained(c, there) == trained(c, source), "other values from the bucket")
        kept = list((c.dir / "store" / "index").iterdir())
        check_equal(len(kept), 1, "indexes in the store")
        c.kill("w-0")
        c.start("w-1")
        asked = len(s3.asked)
        few = {"limit": 4}  # of the first archive
        check(trained(c, {**there, **few}, batch=2) == trained(c, {**source, **few}, batch=2),
              "other values by the index")
        ranges = [path for method, path in s3.asked[asked:]
                  if method == "GET" and path.endswith(".tar")]
        pieces = sum(-(-p.stat().st_size // (1 << 20)) for p in (c.dir / "index").iterdir())
        check(0 < len(ranges) < pieces / 2, f"{len(ranges)} pieces were read for four samples "
              f"of {pieces}")
        check("records are found by their index" in c.log("w-1"), "nothing is told")


def a_damaged_cache_is_fetched_again():
    with Places(bucket("torn"), workers=1) as c:
        source = big_tars(c.dir / "torn")
        upload(c.dir / "torn", "torn")
        values = trained(c, at(bucket("torn"), source))
        kept = [p for p in (c.dir / "cache").rglob("*-*")]
        check(kept, "nothing is kept")
        for i, path in enumerate(kept):
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data if i % 2 else data[:len(data) // 2])
        check(trained(c, {**at(bucket("torn"), source), "limit": len(ROWS)}) == values,
              "other values from a damaged cache")
        check("damaged" in c.log(), "nothing is told")


def an_object_that_is_replaced_or_gone_is_named():
    s3 = WORLD["s3"]
    for what in ("replaced", "deleted"):
        with Places(bucket(what), workers=1, cached=0) as c:
            source = big_tars(c.dir / what, ROWS * 4, 2)  # more than a worker holds
            upload(c.dir / what, what)
            job = c.submit(job_of(at(bucket(what), source), batch=2, epochs=50,
                                  steps_per_closure=4, shuffle=False))
            c.wait_steps(job, 20)
            if what == "deleted":
                for i in range(3):
                    s3.boto.delete_object(Bucket=s3.bucket, Key=f"{what}/b-{i}.tar")
            else:
                for i in range(3):
                    s3.write(f"{what}/b-{i}.tar", s3.read(f"{what}/b-{i}.tar")[:-1] + b"x")
            reason = c.wait_state(job, "failed", 120)["reason"]
            check(f"{bucket(what)}/b-" in reason and "submit it again" in reason and
                  ("replaced" in reason or what == "deleted"), "it is not named", reason)


def a_place_that_is_away_fails_the_closure_and_is_waited_for():
    s3 = WORLD["s3"]
    with Places(bucket("away"), workers=1, cached=0, patience="1s") as c:
        source = big_tars(c.dir / "away", ROWS * 4, 2)
        upload(c.dir / "away", "away")
        job = c.submit(job_of(at(bucket("away"), source), batch=2, epochs=1,
                              steps_per_closure=4, max_attempts=2, shuffle=False))
        c.wait_steps(job, 20)
        s3.add(1 << 30, "GET", "/away/", "", lambda *_: None)
        wait_for("closures to fail by it, more often than max_attempts", lambda:
                 (c.dir / "coordinator.log").read_text().count("attempt failed") > 4)
        s3.faults.clear()
        log = (c.dir / "coordinator.log").read_text()
        check(f"{bucket('away')}/b-" in log, "the object is not named", log[-2000:])
        check_counts(c.wait_state(job, limit_s=120))


if __name__ == "__main__":
    tls = pathlib.Path(tempfile.mkdtemp(prefix="sluice-test-"))
    certificate(tls)
    try:
        with S3() as s3:
            WORLD.update(s3=s3, tls=tls)
            os.environ.update(AWS_ACCESS_KEY_ID=s3.id, AWS_SECRET_ACCESS_KEY=s3.secret,
                              SSL_CERT_FILE=str(tls / "cert"))
            main([objects_train_as_local_files_do_in_each_format,
                  web_servers_give_ranges_and_get_no_keys,
                  only_what_the_operator_allows_is_read,
                  a_cache_smaller_than_the_data_is_enough,
                  a_worker_is_killed_and_one_in_twenty_requests_fails,
                  workers_of_a_host_fetch_a_piece_once,
                  on_a_full_disk_old_pieces_go,
                  records_are_looked_for_by_one_worker,
                  a_damaged_cache_is_fetched_again,
                  an_object_that_is_replaced_or_gone_is_named,
                  a_place_that_is_away_fails_the_closure_and_is_waited_for])
    finally:
        shutil.rmtree(tls)
