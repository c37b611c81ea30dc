# SPDX-License-Identifier: Apache-2.0
"""A web server over TLS that reads ranges of the files in a folder and names their
versions, for workers that read data there.

    with Web(folder, tls) as web:      # tls: a folder with `cert` and `key` (certificate)
        web.url + "/in/a.tar"
"""
import functools
import hashlib
import http.server
import os
import re
import ssl
import subprocess
import threading
import time


def certificate(folder):
    """Writes `cert` and `key` for 127.0.0.1 to the folder."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=here",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key",
                    "-out", folder / "cert"], check=True, capture_output=True)


@functools.lru_cache(maxsize=64)
def content(path, changed):
    """Bytes and ETag of a file that was changed then."""
    data = path.read_bytes()
    return data, f'"{hashlib.md5(data).hexdigest()}"'


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    web = None

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_GET(self):
        web = self.web
        web.asked.append((self.command, self.path, self.headers))
        time.sleep(web.late_s)
        if web.faults:
            return self.answer(*web.faults.pop(0))
        path = web.folder / self.path.lstrip("/")
        if not path.is_file():
            return self.answer(404)
        data, etag = content(path, path.stat().st_mtime_ns)
        if self.headers.get("If-Match", etag) != etag:
            return self.answer(412)
        part = re.match(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if self.command == "HEAD" or not part:
            return self.answer(200, data, ETag=etag)
        first, last = int(part[1]), min(int(part[2]), len(data) - 1)
        return self.answer(206, memoryview(data)[first:last + 1], ETag=etag, Content_Range=(
            f"bytes {first}-{last}/{len(data)}"))

    do_HEAD = do_GET

    def handle(self):
        try:
            super().handle()
        except (ConnectionError, ssl.SSLError):
            pass


class Web:
    """late_s: each answer comes so late; cpu: the core that it runs on."""

    def __init__(self, folder, tls, late_s=0.0, cpu=None):
        self.folder, self.tls, self.late_s, self.cpu = folder, tls, late_s, cpu
        self.asked, self.faults = [], []

    def __enter__(self):
        self.server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), type("WebHandler", (Handler,), {"web": self}))
        self.server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.tls / "cert", self.tls / "key")
        self.server.socket = context.wrap_socket(
            self.server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.serve, daemon=True).start()
        self.url = f"https://127.0.0.1:{self.server.server_address[1]}"
        return self

    def serve(self):
        if self.cpu is not None:
            os.sched_setaffinity(0, {self.cpu})  # of this thread and those that it makes
        self.server.serve_forever(0.05)

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
