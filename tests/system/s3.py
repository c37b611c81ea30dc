# SPDX-License-Identifier: Apache-2.0
"""S3 on loopback: moto's server, behind a door that checks every signature.

    with S3() as s3:
        s3.url, s3.id, s3.secret    for a store; s3.bucket is there and empty
        s3.boto                     boto3's client, past the door
        s3.fail(2, status=503, code="SlowDown", method="PUT")
        s3.deafen(1, method="PUT")  it is carried out, and nobody hears of it
        s3.url + "/sts"             STS, moto's: whose keys the door takes as well
        s3.assumed, s3.lasting_s    what STS was sent; how long its keys last

botocore recomputes each signature from what arrived. Requests with one are
forwarded one at a time, so that a conditional write is what S3 says it is.
"""
import atexit
import datetime
import functools
import hashlib
import http.client
import http.server
import logging
import os
import re
import secrets
import socket
import ssl
import struct
import threading
import urllib.parse

# S3's own bound is 5 MiB; it has to be set before moto is loaded.
os.environ.setdefault("S3_UPLOAD_PART_MIN_SIZE", str(64 << 10))

import boto3
import botocore.auth
import botocore.awsrequest
import botocore.config
import botocore.credentials
import moto.core
import moto.s3.models
import moto.server

REGION = "eu-central-1"
HOP = {"connection", "transfer-encoding", "keep-alive", "content-length", "date", "server"}


def error(code, message="said by the door"):
    return (f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code>'
            f"<Message>{message}</Message></Error>").encode()


@functools.cache
def moto_server():
    """One for all, to the end of the program; each S3 has a bucket of its own."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    atexit.register(server.stop)
    return server


class Fault:
    """What happens to the next `count` requests that match."""

    def __init__(self, count, method, path, query, act):
        self.left, self.method, self.path, self.query, self.act = \
            count, method, path, query, act

    def matches(self, method, target):
        path, _, query = target.partition("?")
        return self.left > 0 and self.method in (None, method) and \
            self.path in path and self.query in query


class S3:
    def __init__(self, region=REGION, tls=None):
        self.region, self.tls = region, tls
        self.id, self.secret = "AKIATEST", secrets.token_urlsafe(30)
        self.keys = {self.id: (self.secret, None)}  # id: (secret, token)
        self.expired, self.asked, self.refused = set(), [], []
        self.faults, self.slams = [], []
        self.assumed, self.lasting_s = [], 3600
        self.lock = threading.Lock()
        self.bucket = "sluice-" + secrets.token_hex(4)

    def fail(self, count, status=503, code="SlowDown", method=None, path="", query="",
             body=None, headers=()):
        body = error(code) if body is None else body
        self.add(count, method, path, query, lambda *_: (status, list(headers), body))

    def hang_up(self, count, method=None, path="", query=""):
        self.add(count, method, path, query, lambda *_: None)

    def slam(self, count, method="PUT"):
        """The connection is reset before anybody has read what comes."""
        with self.lock:
            self.slams.append(Fault(count, method, "", "", None))

    def deafen(self, count, method=None, path="", query=""):
        def act(forward):
            forward()
        self.add(count, method, path, query, act)

    def add(self, count, method, path, query, act):
        with self.lock:
            self.faults.append(Fault(count, method, path, query, act))

    @staticmethod
    def take(faults, method, target):
        for fault in faults:
            if fault.matches(method, target):
                fault.left -= 1
                return fault
        return None

    def uploads(self):
        """Keys of uploads that are neither completed nor aborted."""
        found = self.boto.list_multipart_uploads(Bucket=self.bucket).get("Uploads", [])
        return [upload["Key"] for upload in found]

    def read(self, key):
        return self.boto.get_object(Bucket=self.bucket, Key=key)["Body"].read()

    def write(self, key, body):
        self.boto.put_object(Bucket=self.bucket, Key=key, Body=body)

    def fill(self, *keys):
        """Empty objects, quickly: a request for each takes 8 ms."""
        backend = moto.s3.models.s3_backends[moto.core.DEFAULT_ACCOUNT_ID]["aws"]
        for key in keys:
            backend.put_object(self.bucket, key, b"")

    @property
    def url(self):
        scheme = "https" if self.tls else "http"
        return f"{scheme}://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        self.behind = moto_server().get_host_and_port()
        self.boto = boto3.client(
            "s3", endpoint_url="http://%s:%d" % self.behind, region_name=self.region,
            aws_access_key_id=self.id, aws_secret_access_key=self.secret,
            config=botocore.config.Config(s3={"addressing_style": "path"}))
        self.boto.create_bucket(Bucket=self.bucket, CreateBucketConfiguration={
            "LocationConstraint": self.region})
        world = self

        class Handler(Door):
            s3 = world

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if self.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self.tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, args=(0.05,),
                         daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def signature(method, url, headers, secret, region, service="s3"):
    """What botocore signs such a request with."""
    auth = botocore.auth.S3SigV4Auth(
        botocore.credentials.Credentials("id", secret), service, region)
    request = botocore.awsrequest.AWSRequest(method=method, url=url, headers=headers)
    request.context["timestamp"] = headers["x-amz-date"]
    text = auth.string_to_sign(request, auth.canonical_request(request))
    return auth.signature(text, request)


class Door(http.server.BaseHTTPRequestHandler):
    s3 = None
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def refuse(self, body):
        """(code, message) if nobody may do this, or None."""
        said = self.headers.get("Authorization", "")
        parts = dict(part.strip().split("=", 1)
                     for part in said.partition(" ")[2].split(",") if "=" in part)
        name, *scope = parts.get("Credential", "").split("/")
        if name in self.s3.expired:
            return "ExpiredToken", "The provided token has expired."
        if name not in self.s3.keys:
            return "InvalidAccessKeyId", "It does not exist in our records."
        secret, token = self.s3.keys[name]
        if self.headers.get("x-amz-security-token") != token:
            return "InvalidToken", "The provided token is malformed."
        if scope[1:] != [self.s3.region, "s3", "aws4_request"]:
            return "AuthorizationHeaderMalformed", f"wrong scope {scope}"
        if hashlib.sha256(body).hexdigest() != self.headers["x-amz-content-sha256"]:
            return "XAmzContentSHA256Mismatch", "other bytes were signed"
        signed = parts["SignedHeaders"].split(";")
        if not {"host", "x-amz-date", "x-amz-content-sha256"} <= set(signed) or \
                any(h.lower().startswith("x-amz-") and h.lower() not in signed
                    for h in self.headers):
            return "AccessDenied", "not all headers are signed"
        want = signature(self.command, f"http://{self.headers['Host']}{self.path}",
                         {h: self.headers[h] for h in signed}, secret, self.s3.region)
        if want != parts["Signature"]:
            return "SignatureDoesNotMatch", "The signature we calculated does not match."
        return None

    def forward(self, body):
        """(status, headers, body) of moto, which has keys of its own."""
        behind = http.client.HTTPConnection(*self.s3.behind, timeout=60)
        path, in_name = self.path, f"{self.s3.bucket}."
        if self.headers["Host"].startswith(in_name):
            path = f"/{self.s3.bucket}{path}"
        headers = {h: v for h, v in self.headers.items() if h.lower() != "host"}
        headers["Host"] = "%s:%d" % self.s3.behind
        behind.request(self.command, path, body=body, headers=headers)
        answer = behind.getresponse()
        data = answer.read()
        behind.close()
        return answer.status, answer.getheaders(), data

    def sts(self, body):
        """(status, headers, body) of moto's STS."""
        self.s3.assumed.append(dict(urllib.parse.parse_qsl(body.decode(), strict_parsing=True)))
        behind = http.client.HTTPConnection(*self.s3.behind, timeout=60)
        behind.request("POST", "/", body=body,
                       headers={"Content-Type": self.headers["Content-Type"]})
        answer = behind.getresponse()
        until = datetime.datetime.now(datetime.UTC) + \
            datetime.timedelta(seconds=self.s3.lasting_s)
        text = re.sub(r"(?<=<Expiration>)[^<]*", until.strftime("%Y-%m-%dT%H:%M:%SZ"),
                      answer.read().decode())
        behind.close()
        name, secret, token = (re.search(f"<{what}>([^<]*)<", text)[1] for what in
                               ("AccessKeyId", "SecretAccessKey", "SessionToken"))
        self.s3.keys[name] = (secret, token)
        return answer.status, answer.getheaders(), text.encode()

    def answer(self, status, headers, body):
        length = str(len(body))
        self.send_response(status)
        for name, value in headers:
            if self.command == "HEAD" and name.lower() == "content-length":
                length = value
            if name.lower() not in HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle(self):
        try:
            super().handle()
        except ConnectionError:
            pass  # whoever asked has gone

    def serve(self):
        with self.s3.lock:
            if self.s3.take(self.s3.slams, self.command, self.path):
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                           struct.pack("ii", 1, 0))
                self.close_connection = True
                return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.s3.lock:
            self.s3.asked.append((self.command, self.path))
            fault = self.s3.take(self.s3.faults, self.command, self.path)
            sts = self.path.startswith("/sts")
            wrong = None if fault or sts else self.refuse(body)
            if fault:
                said = fault.act(lambda: self.forward(body))
            elif sts:
                said = self.sts(body)
            elif wrong:
                self.s3.refused.append(wrong)
                status = 400 if wrong[0] in ("ExpiredToken", "InvalidToken") else 403
                said = status, [], error(*wrong)
            else:
                said = self.forward(body)
        if said is None:
            self.close_connection = True
        else:
            self.answer(*said)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = serve
