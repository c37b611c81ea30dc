# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, asked over its pipe (--remote-debugging-pipe): no driver,
no port. NUL ends each message of the DevTools protocol."""
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

from cluster import LIMIT, Failed, check

PROGRAM = shutil.which("chromium")
LIMIT_S = 60


class Chrome:
    def __init__(self, *flags):
        self.folder = tempfile.mkdtemp(prefix="sluice-chrome-")
        ours_read, theirs_write = os.pipe()
        theirs_read, ours_write = os.pipe()

        def place():  # it reads from 3 and writes to 4
            a, b = os.dup(theirs_read), os.dup(theirs_write)
            os.dup2(a, 3)
            os.dup2(b, 4)
        self.process = subprocess.Popen(
            [PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-dev-shm-usage", "--hide-scrollbars", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--no-default-browser-check",
             "--remote-debugging-pipe", f"--user-data-dir={self.folder}",
             "--window-size=1280,1650", *flags, "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
            preexec_fn=place, pass_fds=(3, 4, theirs_read, theirs_write))
        os.close(theirs_read)
        os.close(theirs_write)
        self.read, self.write = ours_read, ours_write
        self.rest, self.number = b"", 0
        self.errors, self.requests = [], []
        targets = self.ask("Target.getTargets")["targetInfos"]
        page = next(t for t in targets if t["type"] == "page")
        self.session = self.ask("Target.attachToTarget", targetId=page["targetId"],
                                flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Inspector"):
            self.ask(f"{domain}.enable", self.session)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.read)
        os.close(self.write)
        shutil.rmtree(self.folder, ignore_errors=True)

    def message(self, until):
        while b"\0" not in self.rest:
            left = until - time.monotonic()
            check(left > 0, "the browser does not answer")
            ended = self.process.poll()  # before the look: what it wrote before its end is read
            if select.select([self.read], [], [], min(left, 1))[0]:
                some = os.read(self.read, 1 << 16)
                check(some, "the browser has closed its pipe")
                self.rest += some
            else:
                check(ended is None, f"the browser has ended with {ended}")
        line, self.rest = self.rest.split(b"\0", 1)
        return json.loads(line)

    def ask(self, method, session=None, **params):
        self.number += 1
        text = {"id": self.number, "method": method, "params": params}
        if session:
            text["sessionId"] = session
        os.write(self.write, json.dumps(text).encode() + b"\0")
        until = time.monotonic() + LIMIT_S * LIMIT
        while True:
            m = self.message(until)
            if m.get("id") == self.number:
                check("error" not in m, f"{method}: {m.get('error')}")
                return m["result"]
            self.note(m)

    def note(self, m):
        what, p = m.get("method"), m.get("params", {})
        check(what not in ("Inspector.targetCrashed", "Target.targetCrashed"), "the page has crashed", p)
        if what == "Runtime.exceptionThrown":
            self.errors.append(str(p["exceptionDetails"])[:600])
        elif what == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning", "assert"):
            self.errors.append(str(p["args"])[:600])
        elif what == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
            self.errors.append(f"{p['entry']['text']} {p['entry'].get('url', '')}")
        elif what == "Network.requestWillBeSent":
            self.requests.append(p["request"]["url"])

    def size(self, width, height, dark=False):
        """The page is shown so wide and high, in CSS pixels, in a light or dark theme."""
        self.ask("Emulation.setDeviceMetricsOverride", self.session, width=width, height=height,
                 deviceScaleFactor=1, mobile=width < 900)
        self.ask("Emulation.setEmulatedMedia", self.session, features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def first(self, code):
        """Runs before the page's own code, from the next page that is opened on."""
        self.ask("Page.addScriptToEvaluateOnNewDocument", self.session, source=code)

    def open(self, url):
        self.ask("Page.navigate", self.session, url=url)

    def js(self, text):
        got = self.ask("Runtime.evaluate", self.session, expression=text, returnByValue=True,
                       awaitPromise=True)
        check("exceptionDetails" not in got, f"{text}: {got.get('exceptionDetails')}")
        return got["result"].get("value")

    def until(self, what, text, limit_s=LIMIT_S):
        """Waits until an expression is true, as it is seen from within the page."""
        end = time.monotonic() + limit_s * LIMIT
        while time.monotonic() < end:
            found = self.js(f"""new Promise(done => {{
                const end = Date.now() + 2000, look = () => {{
                    const found = ({text});
                    found || Date.now() > end ? done(Boolean(found)) : setTimeout(look, 25); }};
                look(); }})""")
            if found:
                return found
        raise Failed(f"waited in vain for the page to show {what}", *self.errors,
                     self.js("document.body.innerText")[:3000])

    def picture(self, name, most=6000):
        """The whole page as it is, at most so many pixels high: written where
        SLUICE_PICTURES says, or nowhere."""
        folder = os.environ.get("SLUICE_PICTURES")
        if not folder:
            return
        size = self.ask("Page.getLayoutMetrics", self.session)["cssContentSize"]
        got = self.ask("Page.captureScreenshot", self.session, format="png", captureBeyondViewport=True,
                       clip={"x": 0, "y": 0, "width": size["width"], "height": min(most, size["height"]), "scale": 1})
        pathlib.Path(folder, f"{name}.png").write_bytes(base64.b64decode(got["data"]))
