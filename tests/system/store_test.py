#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files in S3: the file system of host/store against moto's server and
boto3, every request's signature checked by botocore (s3.py)."""
import contextlib
import datetime
import functools
import http.server
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.parse

from cluster import BIN, check, check_equal, main
from imds import Clouds

try:
    import s3 as near
    from s3 import REGION, S3, error
except ImportError as missing:
    print(f"skipped: {missing} (tools/python-env build/venv)")
    sys.exit(77)

PART = 64 << 10  # what moto is told to be the least
CLEAN = ("AWS_", "HOME", "http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")


class Store:
    """store_drive, a line at a time."""

    def __init__(self, s3, folder, patience_ms=10000, part=PART, region=REGION,
                 endpoint=None, keys=True, credentials="-", **environment):
        self.folder = folder
        env = {k: v for k, v in os.environ.items() if not k.startswith(CLEAN)}
        env.update({"HOME": str(folder), "AWS_EC2_METADATA_DISABLED": "true"})
        if keys:
            env.update({"AWS_ACCESS_KEY_ID": s3.id, "AWS_SECRET_ACCESS_KEY": s3.secret})
        env.update(environment)
        self.process = subprocess.Popen(
            [BIN / "store_drive", endpoint or s3.url, region, credentials,
             str(patience_ms), str(part)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True)

    def say(self, *words):
        self.process.stdin.write(" ".join(str(w) for w in words) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().rstrip("\n")
        check(answer, f"store_drive died of {words}")
        return answer

    def ok(self, *words):
        answer = self.say(*words)
        check(answer.split(" ")[0] == "ok", f"{words}: {answer}")
        return answer.split(" ")[1:]

    def fails(self, code, words, *texts):
        answer = self.say(*words)
        check(answer.startswith(code + " "), f"{words}: {answer}")
        for text in texts:
            check(text in answer, f"no '{text}' in {answer}")
        return answer

    def file(self, content, name="local"):
        path = self.folder / name
        path.write_bytes(content)
        return path

    def read(self, *words):
        path = self.folder / "read"
        path.unlink(missing_ok=True)
        self.ok(*words, path)
        return path.read_bytes()

    def close(self):
        self.process.stdin.close()
        check_equal(self.process.wait(60), 0, "exit status of store_drive")


def with_s3(test):
    @functools.wraps(test)
    def run():
        with S3() as s3, tempfile.TemporaryDirectory() as folder:
            test(s3, pathlib.Path(folder))
    return run


def noise(n, seed=1):
    return random.Random(seed).randbytes(n)


@with_s3
def signatures_are_those_of_botocore(s3, folder):
    """Of requests that nobody sends: any path, query, headers, and day."""
    store = Store(s3, folder)
    draw = random.Random(7)
    letters = "abcXYZ019-._~ /+%&=?#:@!$'()*,;<>[]\"{}|^`\\é€😀\x7f"

    def word(least, most, of=letters):
        return "".join(draw.choice(of) for _ in range(draw.randint(least, most)))

    for _ in range(300):
        method = draw.choice(["GET", "PUT", "POST", "DELETE", "HEAD"])
        path = "/" + word(0, 20)
        query = {word(1, 6): word(0, 8) for _ in range(draw.randint(0, 5))}
        date = f"20{draw.randint(10, 99)}{draw.randint(10, 12)}{draw.randint(10, 28)}T123456Z"
        headers = {"host": "example.com:9000", "x-amz-date": date,
                   "x-amz-content-sha256": "UNSIGNED-PAYLOAD"}
        for _ in range(draw.randint(0, 4)):
            headers["x-amz-" + word(1, 9, "abcxyz-19")] = word(0, 9, "ab  \"=/*,;+%")
        said = store.ok("sign", method, path.encode().hex(),
                        "".join(f"{k}\t{v}\n" for k, v in query.items()).encode().hex() or "-",
                        "".join(f"{k}\t{v}\n" for k, v in headers.items()).encode().hex(), date)
        check_equal(said[0], urllib.parse.quote(path, safe="/~"), "path")
        url = f"http://example.com:9000{said[0]}" + (f"?{said[1]}" if said[1] else "")
        check_equal(dict(urllib.parse.parse_qsl(said[1], keep_blank_values=True)), query,
                    "query")
        want = near.signature(method, url, headers, "secret", "eu-central-1")
        check_equal(said[-1], f"Signature={want}", f"{method} {url} {headers}")
    store.close()


@with_s3
def what_one_side_writes_the_other_reads(s3, folder):
    store = Store(s3, folder)
    root = f"s3://{s3.bucket}/some/prefix"
    odd = "a+b=c&d%41~(é)!*'"
    for name in ("plain", odd):
        body = noise(1000, name)
        store.ok("put", f"{root}/{name}", store.file(body))
        check_equal(s3.read(f"some/prefix/{name}"), body, "what boto3 reads")
        s3.write(f"some/prefix/{name}", body[::-1])
        check_equal(store.read("get", f"{root}/{name}"), body[::-1], "what we read")
        check_equal(store.ok("stat", f"{root}//{name}/")[:2], ["file", "1000"], "stat")
    s3.write("some/prefix/with blank", b"x")
    check_equal(" ".join(store.ok("list", root)), f"{odd} plain with blank", "names")
    store.ok("put", f"{root}/nothing", store.file(b""))
    check_equal(store.read("get", f"{root}/nothing"), b"", "an empty file")
    check_equal(store.read("map", f"{root}/nothing"), b"", "an empty file, mapped")
    store.fails("SL_ENOENT", ("get", f"{root}/other", folder / "x"), "NoSuchKey")
    store.fails("SL_ENOENT", ("stat", f"{root}/other"))
    check_equal(store.ok("list", f"{root}/other"), [], "a folder that is not there")
    store.ok("mkdirs", f"{root}/other")
    check_equal(store.ok("stat", root)[0], "dir", "stat of a folder")
    check_equal(store.ok("stat", f"s3://{s3.bucket}")[0], "dir", "stat of a bucket")
    store.ok("unlink", f"{root}/plain")
    store.ok("unlink", f"{root}/plain")
    store.fails("SL_ENOENT", ("stat", f"{root}/plain"))
    check_equal(s3.refused, [], "refused requests")
    store.close()


@with_s3
def a_large_file_goes_in_parts_and_is_there_when_it_is_whole(s3, folder):
    store = Store(s3, folder)
    path = f"s3://{s3.bucket}/run/w.safetensors"
    body = noise(3 * PART + 12345)
    local = store.file(body)
    store.ok("stream", path, local, 10007, "commit", "HEAD")
    check_equal(s3.read("run/w.safetensors"), b"HEAD" + body[4:], "what boto3 reads")
    etag = s3.boto.head_object(Bucket=s3.bucket, Key="run/w.safetensors")["ETag"]
    check(etag.endswith('-4"'), f"{etag}: not of 4 parts")
    check_equal(store.read("map", path), b"HEAD" + body[4:], "what we map")
    check_equal(store.read("get", path), b"HEAD" + body[4:], "what we read")
    check_equal(store.ok("list", f"s3://{s3.bucket}/run"), ["w.safetensors"], "names")

    store.ok("stream", f"s3://{s3.bucket}/run/left", local, 10007, "leave")
    check_equal(s3.uploads(), [], "uploads after one that was left")
    s3.fail(1, 403, "AccessDenied", method="PUT", query="partNumber=3")
    store.fails("SL_EDENIED", ("stream", f"s3://{s3.bucket}/run/denied", local, PART,
                               "commit"), "AccessDenied", "docs/store.md")
    check_equal(s3.uploads(), [], "uploads after one that was refused")
    check_equal(store.ok("list", f"s3://{s3.bucket}/run"), ["w.safetensors"], "names")

    # An error that comes with 200, and one more try that nobody hears of.
    s3.fail(1, 200, "InternalError", method="POST", query="uploadId")
    s3.deafen(1, method="POST", query="uploadId")
    store.ok("stream", f"s3://{s3.bucket}/run/twice", local, PART, "commit")
    check_equal(s3.read("run/twice"), body, "what boto3 reads")
    check_equal(s3.uploads(), [], "uploads")
    check_equal(s3.refused, [], "refused requests")
    store.close()


@with_s3
def of_several_that_write_a_new_name_one_wins(s3, folder):
    store = Store(s3, folder)
    path = f"s3://{s3.bucket}/cluster.id"
    check_equal(store.ok("race", path), ["1", "7"], "winners and losers")
    store.fails("SL_EEXIST", ("new", path, store.file(b"late")), "exists already")
    check(s3.read("cluster.id") != b"late", "it was replaced")
    store.ok("put", path, store.file(b"replaced"))
    check_equal(s3.read("cluster.id"), b"replaced", "what was replaced by design")
    # Ours, though the first try's answer is lost; somebody else's is not.
    s3.deafen(1, method="PUT")
    store.ok("new", f"s3://{s3.bucket}/ours", store.file(b"ours"))
    check_equal(s3.read("ours"), b"ours", "what boto3 reads")
    s3.write("theirs", b"theirs")
    s3.hang_up(1, method="PUT")
    store.fails("SL_EEXIST", ("new", f"s3://{s3.bucket}/theirs", store.file(b"ours")))
    check_equal(s3.read("theirs"), b"theirs", "what boto3 reads")
    s3.fail(2, 409, "ConditionalRequestConflict", method="PUT")
    store.ok("new", f"s3://{s3.bucket}/conflict", store.file(b"ours"))
    check_equal(s3.refused, [], "refused requests")
    store.close()


@with_s3
def names_come_page_by_page(s3, folder):
    names = [f"n{i:05}" for i in range(1010)]
    s3.fill(*(f"many/{name}" for name in names), "many/n00007/below", "many/zz/a",
            "many/zz/b", "many/zz/c/d", "many/")
    store = Store(s3, folder)
    check_equal(store.ok("list", f"s3://{s3.bucket}/many"), names + ["zz"], "names")
    pages = [path for _, path in s3.asked if "list-type=2" in path]
    check(len(pages) == 2, f"{len(pages)} pages of names")
    check_equal(store.ok("list", f"s3://{s3.bucket}/many/zz"), ["a", "b", "c"], "names")
    check_equal(store.ok("list", f"s3://{s3.bucket}"), ["many"], "names of the bucket")
    check_equal(store.ok("stat", f"s3://{s3.bucket}/many/zz/c")[0], "dir", "stat")
    store.close()


@with_s3
def ranges_are_read_of_one_version(s3, folder):
    body = noise((9 << 20) + 77)
    s3.write("big", body)
    store = Store(s3, folder)
    store.ok("open", f"s3://{s3.bucket}/big")
    n = len(body)
    for at, count in ((0, 8), (8, 4000), (262140, 10), (1 << 20, 1 << 20), (2 << 20, 1 << 20),
                      (n - 5, 100), (n, 10), (n + 9, 10), (3, n), (0, 8 << 20), (77, 0)):
        check_equal(store.read("range", at, count), body[at:at + count],
                    f"{count} bytes at {at}")
    asked = len([1 for method, _ in s3.asked if method == "GET"])
    for at in range(4 << 20, 6 << 20, 16384):
        check_equal(store.read("range", at, 16384), body[at:at + 16384], f"bytes at {at}")
    more = len([1 for method, _ in s3.asked if method == "GET"]) - asked
    check(more <= 3, f"{more} requests for 128 reads in a row")
    s3.write("big", body[::-1])
    store.fails("SL_EIO", ("range", 1 << 20, 10, folder / "x"), "was replaced")
    store.ok("open", f"s3://{s3.bucket}/big")
    check_equal(store.read("range", 0, 10), body[::-1][:10], "the new version")
    store.close()


@with_s3
def what_fails_for_a_while_is_done_again(s3, folder):
    store = Store(s3, folder)
    path = f"s3://{s3.bucket}/file"
    for act in (lambda: s3.fail(3, 503, "SlowDown"), lambda: s3.hang_up(2),
                lambda: s3.fail(1, 500, "InternalError"), lambda: s3.fail(1, 429, "x"),
                lambda: s3.fail(1, 400, "RequestTimeout"), lambda: s3.fail(1, 502, body=b"<")):
        before = len(s3.asked)
        act()
        store.ok("put", path, store.file(b"again"))
        check(len(s3.asked) > before + 1, "it was not asked again")
        act()
        check_equal(store.read("get", path), b"again", "what is read")
    store.close()
    hurried = Store(s3, folder, patience_ms=400)
    s3.fail(1000, 503, "SlowDown", path="dead")
    hurried.fails("SL_EUNAVAIL", ("get", f"s3://{s3.bucket}/dead", folder / "x"),
                  f"s3://{s3.bucket}/dead", "503 SlowDown", "times")
    hurried.close()
    nobody = Store(s3, folder, patience_ms=400, endpoint="http://127.0.0.1:1")
    nobody.fails("SL_EUNAVAIL", ("get", path, folder / "x"), "127.0.0.1:1", "endpoint")
    nobody.close()


@with_s3
def what_is_refused_is_said_in_words(s3, folder):
    path = f"s3://{s3.bucket}/file"
    wrong = Store(s3, folder, AWS_SECRET_ACCESS_KEY="not/the+secret")
    said = wrong.fails("SL_EAUTH", ("put", path, wrong.file(b"x")), path,
                       "SignatureDoesNotMatch", "correct the keys")
    check("not/the+secret" not in said and s3.id not in said, f"a key in {said}")
    check_equal(len(s3.asked), 1, "requests with a wrong key")
    wrong.close()
    stranger = Store(s3, folder, AWS_ACCESS_KEY_ID="AKIANOBODY")
    stranger.fails("SL_EAUTH", ("list", path), "InvalidAccessKeyId")
    stranger.close()
    none = Store(s3, folder, keys=False)
    none.fails("SL_EAUTH", ("list", path), "AWS_ACCESS_KEY_ID", "~/.aws/credentials", "role")
    none.close()
    store = Store(s3, folder)
    store.fails("SL_EINVAL", ("get", "s3://no-such-bucket/x", folder / "x"), "NoSuchBucket",
                "make the bucket")
    store.fails("SL_EINVAL", ("stat", "s3://no-such-bucket/x"), "NoSuchBucket")
    store.fails("SL_EINVAL", ("get", f"s3://{s3.bucket}/a/../b", folder / "x"), "'..'")
    s3.fail(1, 301, body=error("PermanentRedirect"),
            headers=[("x-amz-bucket-region", "us-west-2")])
    store.fails("SL_EINVAL", ("get", path, folder / "x"), "--s3-region us-west-2")
    s3.fail(1, 501, "NotImplemented")
    store.fails("SL_ENOTSUP", ("put", path, store.file(b"x")), "NotImplemented")
    store.close()


def keys_of_a_role(s3, name, seconds):
    """Keys that S3 takes, as a metadata service gives them."""
    until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)
    s3.keys[name] = (f"secret-of-{name}", f"token-of-{name}")
    return {"Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": name,
            "SecretAccessKey": f"secret-of-{name}", "Token": f"token-of-{name}",
            "Expiration": until.strftime("%Y-%m-%dT%H:%M:%SZ")}


@with_s3
def keys_of_the_role_are_renewed(s3, folder):
    path = f"s3://{s3.bucket}/file"
    with Clouds() as clouds:
        clouds.set("keys", keys_of_a_role(s3, "ASIAFIRST", 3600))
        store = Store(s3, folder, keys=False, AWS_EC2_METADATA_DISABLED="",
                      AWS_EC2_METADATA_SERVICE_ENDPOINT=clouds.url)
        store.ok("put", path, store.file(b"by a role"))
        asked = len(clouds.asked)
        check_equal(store.read("get", path), b"by a role", "what is read")
        check_equal(len(clouds.asked), asked, "calls of the metadata service")
        # Over before they said; then such as are over at once.
        clouds.set("keys", keys_of_a_role(s3, "ASIASECOND", 0))
        s3.expired.add("ASIAFIRST")
        check_equal(store.read("get", path), b"by a role", "what is read")
        clouds.set("keys", keys_of_a_role(s3, "ASIATHIRD", 3600))
        s3.expired.add("ASIASECOND")
        refused = len(s3.refused)
        check_equal(store.read("get", path), b"by a role", "what is read")
        check_equal(len(s3.refused), refused, "requests with keys that are over")
        # Nobody gives new ones.
        clouds.set("keys", None)
        s3.expired.add("ASIATHIRD")
        store.fails("SL_EAUTH", ("get", path, folder / "x"), "ExpiredToken")
        store.close()
        clouds.set("keys", keys_of_a_role(s3, "ASIALAST", 0))
        hurried = Store(s3, folder, patience_ms=300, keys=False,
                        AWS_EC2_METADATA_DISABLED="",
                        AWS_EC2_METADATA_SERVICE_ENDPOINT=clouds.url)
        hurried.ok("put", path, hurried.file(b"by a role"))
        clouds.set("keys", None)
        hurried.fails("SL_EUNAVAIL", ("get", path, folder / "x"), "gives no new keys")
        clouds.set("keys", keys_of_a_role(s3, "ASIALAST", 0))
        check_equal(hurried.read("get", path), b"by a role", "what is read")
        hurried.close()


TOKEN = "e30.a-web-identity.signed"


def by_web_identity(s3, folder, url=None, **more):
    """The environment of a pod of EKS."""
    token = folder / "token"
    token.write_text(TOKEN + "\n")
    return {"keys": False, "AWS_WEB_IDENTITY_TOKEN_FILE": str(token),
            "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/trains",
            "AWS_ENDPOINT_URL_STS": url or s3.url + "/sts", **more}


def newest(s3):
    return list(s3.keys)[-1]


@with_s3
def keys_of_a_web_identity_are_renewed(s3, folder):
    path = f"s3://{s3.bucket}/file"
    store = Store(s3, folder, **by_web_identity(s3, folder))
    store.ok("put", path, store.file(b"by a role"))
    check_equal(store.read("get", path), b"by a role", "what is read")
    check_equal([{k: v for k, v in form.items() if k != "RoleSessionName"}
                 for form in s3.assumed],
                [{"Action": "AssumeRoleWithWebIdentity", "Version": "2011-06-15",
                  "RoleArn": "arn:aws:iam::123456789012:role/trains",
                  "WebIdentityToken": TOKEN}], "what STS was sent")
    name = s3.assumed[0]["RoleSessionName"]
    check(name.startswith("sluice-") and 2 <= len(name) <= 64, f"the session {name}")
    # Over before they said: with the token that is in the file by then.
    (folder / "token").write_text("the.next.one")
    s3.expired.add(newest(s3))
    check_equal(store.read("get", path), b"by a role", "what is read")
    check_equal([form["WebIdentityToken"] for form in s3.assumed], [TOKEN, "the.next.one"],
                "tokens")
    # STS is away: those of before are used to their end.
    s3.fail(1, 503, method="POST", path="/sts", body=b"away")
    s3.fail(1, 403, "ExpiredToken", method="GET")
    check_equal(store.read("get", path), b"by a role", "what is read")
    check_equal(s3.faults[-2].left, 0, "questions that STS did not answer")
    store.close()
    given = Store(s3, folder, **by_web_identity(s3, folder, AWS_ROLE_SESSION_NAME="mine"))
    given.ok("stat", path)
    check_equal(s3.assumed[-1]["RoleSessionName"], "mine", "the session")
    given.close()
    check_equal([why for why in s3.refused if why[0] != "ExpiredToken"], [],
                "requests that the door refused")


def sts_error(code, message):
    return (f"<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code>"
            f"<Message>{message}</Message></Error></ErrorResponse>").encode()


@with_s3
def what_sts_refuses_is_said_in_words(s3, folder):
    path = f"s3://{s3.bucket}/file"
    role = "arn:aws:iam::123456789012:role/trains"
    store = Store(s3, folder, patience_ms=1, **by_web_identity(s3, folder))
    for status, body, rc, *texts in (
            (403, sts_error("AccessDenied", "Not authorized to perform it"), "SL_EAUTH",
             "AccessDenied: Not authorized to perform it", "trust policy"),
            (400, sts_error("ExpiredTokenException", "Token expired"), "SL_EAUTH",
             "ExpiredTokenException: Token expired", "renewed"),
            (400, sts_error("InvalidIdentityToken", f"{TOKEN} is none"), "SL_EAUTH",
             "InvalidIdentityToken; register"),
            (400, sts_error("IDPCommunicationError", "no answer"), "SL_EUNAVAIL",
             "IDPCommunicationError: no answer"),
            (429, sts_error("Throttling", "Rate exceeded\n"), "SL_EUNAVAIL", "Rate exceeded?"),
            (500, b"", "SL_EUNAVAIL", "status 500"),
            (503, noise(1000), "SL_EUNAVAIL", "status 503"),
            (302, b"", "SL_EAUTH", "status 302"),
            (404, b"<a>" * 5000, "SL_EAUTH", "status 404"),
            (200, b"", "SL_EAUTH", "no set of keys"),
            (200, b"<a/>", "SL_EAUTH", "no set of keys"),
            (200, b'{"AccessKeyId": "x"}', "SL_EAUTH", "no set of keys"),
            (200, noise(3000), "SL_EAUTH", "no set of keys"),
            (200, b"<a>" + bytes(1 << 20), "SL_EAUTH", "longer than")):
        asked = len(s3.asked)
        s3.fail(1, status, method="POST", path="/sts", body=body)
        said = store.fails(rc, ("list", path), "AWS_WEB_IDENTITY_TOKEN_FILE", role, *texts)
        check(TOKEN not in said and said.isprintable(), f"{said!r} in a line")
        check_equal(len(s3.asked) - asked, 1, f"requests for {status}")
        s3.faults.clear()
    s3.lasting_s = -1
    store.fails("SL_EAUTH", ("list", path), "set the clock")
    s3.lasting_s = 3600
    s3.hang_up(1, method="POST", path="/sts")
    store.fails("SL_EUNAVAIL", ("list", path), role)
    store.ok("list", path)
    store.close()
    # For a while: asked again, as S3 itself is.
    patient = Store(s3, folder, **by_web_identity(s3, folder))
    s3.fail(2, 500, method="POST", path="/sts", body=sts_error("InternalFailure", "?"))
    patient.ok("list", path)
    patient.close()


@with_s3
def an_sts_that_stands_still_is_waited_for_once(s3, folder):
    """Of eight threads that need keys one asks, and fails with all others."""
    with socket.create_server(("127.0.0.1", 0)) as still:
        store = Store(s3, folder, patience_ms=1, **by_web_identity(
            s3, folder, url="http://127.0.0.1:%d" % still.getsockname()[1]))
        check_equal(store.ok("race", f"s3://{s3.bucket}/new"), ["0", "0"], "who won, who lost")
        still.setblocking(False)
        came = []
        with contextlib.suppress(BlockingIOError):
            while True:
                came.append(still.accept()[0])
        check(0 < len(came) < 4, f"{len(came)} threads asked an STS that stands still")
        for one in came:
            one.close()
        store.close()


@with_s3
def keys_are_those_of_the_first_that_has_any(s3, folder):
    s3.keys.update({"FILE": ("f", None), "OTHER": ("o", "ot"), "BOX": ("b", "bt")})
    (folder / ".aws").mkdir()
    own = folder / ".aws" / "credentials"
    own.write_text("# ours\n[default]\naws_access_key_id = FILE\naws_secret_access_key=f\n"
                   "[work]\n aws_access_key_id=OTHER\r\naws_secret_access_key =  o \n"
                   "aws_session_token = ot\n")

    class Agent(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            good = self.headers.get("Authorization") == "let me in" and \
                self.path == "/creds"
            body = json.dumps({"AccessKeyId": "BOX", "SecretAccessKey": "b", "Token": "bt",
                               "Expiration": "2099-01-01T00:00:00Z"}).encode()
            self.send_response(200 if good else 403)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    agent = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Agent)
    threading.Thread(target=agent.serve_forever, daemon=True).start()
    box = {"AWS_CONTAINER_CREDENTIALS_FULL_URI":
           f"http://127.0.0.1:{agent.server_address[1]}/creds",
           "AWS_CONTAINER_AUTHORIZATION_TOKEN": "let me in"}
    path = f"s3://{s3.bucket}/file"
    empty = str(folder / "nowhere")
    for who, more in (("AKIATEST", {"keys": True, **box}), ("FILE", dict(box)),
                      ("OTHER", {"AWS_PROFILE": "work"}),
                      ("OTHER", {"keys": True, "credentials": own, "AWS_PROFILE": "work"}),
                      ("BOX", {"HOME": empty, **box}),
                      ("AKIATEST", by_web_identity(s3, folder, keys=True)),
                      ("ROLE", by_web_identity(s3, folder, AWS_PROFILE="work", **box))):
        others = {name: s3.keys.pop(name) for name in list(s3.keys) if name != who}
        store = Store(s3, folder, **{"keys": False, **more})
        store.ok("put", path, store.file(b"x"))
        store.close()
        s3.keys.update(others)
    for more, text in (({"AWS_PROFILE": "none"}, "no profile 'none'"),
                       ({"credentials": empty}, empty),
                       ({"AWS_ACCESS_KEY_ID": "x"}, "not AWS_SECRET_ACCESS_KEY"),
                       ({"HOME": empty, "AWS_CONTAINER_CREDENTIALS_FULL_URI":
                         "http://198.51.100.1/creds"}, "nor on this host"),
                       ({"HOME": empty, **box, "AWS_CONTAINER_AUTHORIZATION_TOKEN": "no"},
                        "status 403")):
        store = Store(s3, folder, **{"keys": False, **more})
        store.fails("SL_EAUTH", ("list", path), text)
        store.close()
    agent.shutdown()
    agent.server_close()


@with_s3
def answers_of_any_kind_end_nothing(s3, folder):
    store = Store(s3, folder, patience_ms=200)
    path = f"s3://{s3.bucket}/dir"
    page = b"<ListBucketResult>%s</ListBucketResult>"
    more = b"<IsTruncated>true</IsTruncated>"
    bodies = [b"", b"<", b"\0" * 100, b"<a>" * 5000, b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
              page[:-3] % b"", page % more,
              page % (more + b"<NextContinuationToken></NextContinuationToken>"),
              noise(3000), b"{}", page % b"<Contents><Key>a&#0;b</Key></Contents>"]
    for body in bodies:
        s3.fail(1, 200, method="GET", query="list-type", body=body)
        store.fails("SL_ECORRUPT", ("list", path), path)
    names = b"".join(b"<Contents><Key>%s</Key></Contents>" % key for key in
                     (b"dir/..", b"dir/.", b"dir/", b"dir//", b"other/x", b"dir/a/b", b"dir/%zz",
                      b"dir/%00", b"dir/ok", b"dir/ok"))
    s3.fail(1, 200, method="GET", query="list-type", body=page % names)
    check_equal(store.ok("list", path), ["ok"], "names among others that are none")
    same = page % (more + b"<NextContinuationToken>t</NextContinuationToken>")
    s3.fail(5, 200, method="GET", query="list-type", body=same)
    store.fails("SL_ECORRUPT", ("list", path), "does not go on")
    s3.faults.clear()
    s3.write("file", b"0123456789")
    for status, headers, body in (
            (206, [("Content-Range", "bytes 0-9/99")], b"0123456789"),
            (206, [("Content-Range", "bytes 0-9/x")], b"0123456789"),
            (206, [("Content-Range", "bytes 0-9/99999999999999999999")], b"0123456789"),
            (200, [], bytes(1 << 20))):
        s3.fail(1, status, method="GET", body=body, headers=headers)
        store.fails("SL_EIO", ("get", f"s3://{s3.bucket}/file", folder / "x"))
    # Of an object with fewer bytes than were there when it was opened, by a
    # server without ETags: nothing is read, and nothing is asked for for ever.
    s3.write("large", noise(1 << 20))
    store.ok("open", f"s3://{s3.bucket}/large")
    for at, body in ((400000, b""), (400000, b"0123456789"), (5, b"")):
        s3.fail(1, 206, method="GET", body=body,
                headers=[("Content-Range", f"bytes */{at + len(body)}")])
        store.fails("SL_EIO", ("range", 400000, 100000, folder / "x"))
        s3.faults.clear()
    for status in (400, 403, 404, 418, 503):
        for body in bodies:
            s3.fail(1, status, method="GET", body=body)
            answer = store.say("get", f"s3://{s3.bucket}/file", folder / "x")
            check(status == 503 or answer.split(" ")[0] != "ok", f"{status}: {answer}")
            check(answer.isprintable(), f"{answer!r} in a line")
            s3.faults.clear()
    s3.fail(1, 200, method="POST", query="uploads", body=b"<a/>")
    store.fails("SL_ECORRUPT", ("stream", f"{path}/x", store.file(noise(2 * PART)), PART,
                                "commit"), "no id")
    store.close()


@with_s3
def each_allocation_may_fail(s3, folder):
    """What is written is whole or not there, whichever fails."""
    store = Store(s3, folder)
    body = noise(PART + 1000)
    refused = int(store.ok("oom", f"s3://{s3.bucket}/dir/file", store.file(body))[0])
    check(refused > 50, f"{refused} allocations failed")
    check_equal(s3.read("dir/file"), body, "what boto3 reads")
    store.close()


@with_s3
def the_bucket_may_be_in_the_hosts_name(s3, folder):
    """As at Amazon's: curl knows that *.localhost is this host."""
    port = s3.server.server_address[1]
    store = Store(s3, folder, endpoint=f"http://localhost:{port}", STORE_IN_NAME="yes")
    path = f"s3://{s3.bucket}/dir/a"
    store.ok("put", path, store.file(b"x"))
    check_equal(store.read("get", path), b"x", "what is read")
    check_equal(store.ok("list", f"s3://{s3.bucket}/dir"), ["a"], "names")
    check_equal(store.ok("stat", f"s3://{s3.bucket}")[0], "dir", "stat of the bucket")
    check(all(not target.startswith(f"/{s3.bucket}") for _, target in s3.asked),
          f"{s3.asked}: the bucket is in the path")
    check_equal(s3.refused, [], "refused requests")
    store.close()


@with_s3
def tls_is_checked(s3, folder):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=s3", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-days", "2", "-keyout", folder / "key",
                    "-out", folder / "cert"], check=True, capture_output=True)
    with S3(tls=(folder / "cert", folder / "key")) as safe:
        path = f"s3://{safe.bucket}/file"
        trusting = Store(safe, folder, AWS_CA_BUNDLE=str(folder / "cert"))
        trusting.ok("put", path, trusting.file(b"x"))
        trusting.close()
        check_equal(safe.read("file"), b"x", "what boto3 reads")
        # To write into a connection that is gone is no signal.
        large = noise(8 << 20)
        patient = Store(safe, folder, part=16 << 20, AWS_CA_BUNDLE=str(folder / "cert"))
        safe.slam(2)
        patient.ok("put", path, patient.file(large))
        check_equal(safe.read("file"), large, "what boto3 reads")
        patient.close()
        careful = Store(safe, folder)
        careful.fails("SL_EIO", ("get", path, folder / "x"), "certificate")
        careful.close()


if __name__ == "__main__":
    main([signatures_are_those_of_botocore,
          what_one_side_writes_the_other_reads,
          a_large_file_goes_in_parts_and_is_there_when_it_is_whole,
          of_several_that_write_a_new_name_one_wins,
          names_come_page_by_page,
          ranges_are_read_of_one_version,
          what_fails_for_a_while_is_done_again,
          what_is_refused_is_said_in_words,
          keys_of_the_role_are_renewed,
          keys_of_a_web_identity_are_renewed,
          what_sts_refuses_is_said_in_words,
          an_sts_that_stands_still_is_waited_for_once,
          keys_are_those_of_the_first_that_has_any,
          answers_of_any_kind_end_nothing,
          the_bucket_may_be_in_the_hosts_name,
          each_allocation_may_fail,
          tls_is_checked])
