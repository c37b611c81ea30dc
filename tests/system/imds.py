# SPDX-License-Identifier: Apache-2.0
"""Metadata services on loopback that behave as the clouds' own do.

    with Clouds() as clouds:
        worker: AWS_EC2_METADATA_SERVICE_ENDPOINT=clouds.url, ...
        clouds.aws = {"action": "terminate", "time": "..."}

AWS: 401 without a token that is good, 404 while there is no notice, keys of a
role if there are any. Google Cloud: 403 without its header, an answer to
wait_for_change when something has changed. Azure: 400 without its header, a first answer that takes long, answers
to events (StartRequests).
"""
import hashlib
import http.server
import json
import secrets
import threading
import urllib.parse


ROLES = "/latest/meta-data/iam/security-credentials/"


class Clouds:
    """What the services say; set from the test's thread. `asked`: (method,
    path) of every call, `answered`: ids of events that somebody has answered."""

    def __init__(self, name="vm-0", slow_s=0.0):
        self.name, self.slow_s = name, slow_s
        self.changed = threading.Condition()
        self.tokens, self.asked, self.answered = set(), [], []
        self._said = {"aws": None, "keys": None, "preempted": "FALSE", "events": [],
                      "maintenance-event": "NONE"}
        self.over = False

    def set(self, what, value):
        with self.changed:
            self._said[what] = value
            self.changed.notify_all()

    def get(self, what):
        with self.changed:
            return self._said[what]

    @staticmethod
    def etag(value):
        return hashlib.sha256(value.encode()).hexdigest()[:16]

    def wait_change(self, what, etag, seconds):
        with self.changed:
            self.changed.wait_for(
                lambda: self.over or self.etag(self._said[what]) != etag, seconds)
            return self._said[what]

    def forget_tokens(self):
        with self.changed:
            self.tokens.clear()

    def first_of_azure(self):
        """It sleeps until it is asked first."""
        with self.changed:
            slow, self.slow_s = self.slow_s, 0.0
            self.changed.wait_for(lambda: self.over, slow)

    @property
    def url(self):
        return f"http://{self.address}"

    @property
    def address(self):
        return f"127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        clouds = self

        class Handler(Answers):
            state = clouds

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        with self.changed:
            self.over = True
            self.changed.notify_all()
        self.server.shutdown()
        self.server.server_close()


class Answers(http.server.BaseHTTPRequestHandler):
    state = None
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def say(self, status, text="", **headers):
        body = text.encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def note(self):
        url = urllib.parse.urlparse(self.path)
        self.state.asked.append((self.command, url.path))
        return url.path, urllib.parse.parse_qs(url.query)

    def do_PUT(self):
        path, _ = self.note()
        if path != "/latest/api/token" or \
                not self.headers.get("X-aws-ec2-metadata-token-ttl-seconds"):
            self.say(400)
            return
        token = secrets.token_urlsafe(40)
        self.state.tokens.add(token)
        self.say(200, token)

    def do_POST(self):
        path, _ = self.note()
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if path != "/metadata/scheduledevents" or not self.headers.get("Metadata"):
            self.say(400)
            return
        self.state.answered += [r["EventId"] for r in body["StartRequests"]]
        self.say(200)

    def do_GET(self):
        path, query = self.note()
        try:
            if path.startswith("/latest/"):
                self.aws(path)
            elif path.startswith("/computeMetadata/"):
                self.google(path, query)
            else:
                self.azure(path)
        except BrokenPipeError:
            pass  # whoever asked has gone

    def aws(self, path):
        if self.headers.get("X-aws-ec2-metadata-token") not in self.state.tokens:
            self.say(401)
        elif path == "/latest/meta-data/spot/instance-action" and self.state.get("aws"):
            self.say(200, json.dumps(self.state.get("aws")))
        elif path == ROLES and self.state.get("keys"):
            self.say(200, "a-role")
        elif path == ROLES + "a-role" and self.state.get("keys"):
            self.say(200, json.dumps(self.state.get("keys")))
        else:
            self.say(404)

    def google(self, path, query):
        what = path.rsplit("/", 1)[1]
        if self.headers.get("Metadata-Flavor") != "Google":
            self.say(403)
            return
        if query.get("wait_for_change") == ["true"]:
            value = self.state.wait_change(what, query["last_etag"][0],
                                           float(query["timeout_sec"][0]))
        else:
            value = self.state.get(what)
        self.say(200, value, Metadata_Flavor="Google", ETag=self.state.etag(value))

    def azure(self, path):
        if self.headers.get("Metadata") != "true":
            self.say(400)
        elif path == "/metadata/instance/compute/name":
            self.say(200, self.state.name)
        elif path == "/metadata/scheduledevents":
            self.state.first_of_azure()
            self.say(200, json.dumps({"DocumentIncarnation": 1,
                                      "Events": self.state.get("events")}))
        else:
            self.say(404)
