#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The dashboard in a real browser, and what its viewers cost a job; by hand.

    SLUICE_BIN=build/bin build/venv/bin/python bench/page.py page     figures of the page
    SLUICE_BIN=build/bin build/venv/bin/python bench/page.py viewers  --rounds 60 --seconds 1.5

`page` wants Debian's chromium. Its figures are of the page that users get: what
a browser paints, when a row is there, and how long its own charts take. In
`viewers` a job trains in turns with nobody looking and with so many who ask what
the page of a job asks, as often; they are one process of this host, so what
they take of its cores is in the figure, and told beside it.
"""
import argparse
import datetime
import json
import os
import pathlib
import selectors
import socket
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "system"), str(ROOT / "bench")]
import chrome  # noqa: E402
from cluster import Cluster, fashion_source, mlp_job  # noqa: E402
from machine import as_text, machine  # noqa: E402
from scrape import OPS, address  # noqa: E402

# When an event's row came into the page, against when the coordinator said it; of those that happen from now on.
WATCH = """window.seen = {}, window.from = Date.now(), new MutationObserver(() => {
    for (const row of document.querySelectorAll("[data-event]")) {
        const id = row.dataset.id, at = row.dataset.us / 1000;
        if (!(id in window.seen) && at > window.from) window.seen[id] = Date.now() - at; }
    }).observe(document.body, {childList: true, subtree: true}), 1"""
# How long a number stays: the job goes on all the time, so that is how old it gets.
STAYS = """new Promise(done => { const node = () => [...document.querySelectorAll(".facts dt")]
    .find(n => n.textContent === "steps").nextSibling.textContent;
    let last = node(), at = null; const found = [], end = performance.now() + SECONDS * 1000;
    const look = () => { const now = performance.now(), text = node();
        if (text !== last) { if (at !== null) found.push(now - at); at = now; last = text; }
        now > end ? done(found) : requestAnimationFrame(look); }; look(); })"""
POINTS = """new Promise(done => { const chart = Chart.getChart(document.querySelector("[data-chart=loss] canvas"));
    const draws = [], frames = []; let n = 0;
    const one = () => { const points = [];
        for (let i = 0; i < 10000; i++) points.push({x: i + n, y: Math.exp(-i / 3000) + Math.random() / 5});
        chart.data.datasets[0].data = points;
        chart.options.scales.x.min = n; chart.options.scales.x.max = n + 9999;
        const began = performance.now();
        chart.update("none");
        draws.push(performance.now() - began);
        requestAnimationFrame(() => { const m = new MessageChannel();
            m.port1.onmessage = () => { frames.push(performance.now() - began);
                ++n < ROUNDS ? setTimeout(one, 5) : done([draws, frames]); }; m.port2.postMessage(0); }); };
    one(); })"""
# All of a job's page, as a click on "time" has it drawn: what its buttons do at once.
WHOLE = """new Promise(done => { const found = []; let n = 0;
    const button = [...document.querySelectorAll("button")].find(b => b.textContent === "time");
    const one = () => { const began = performance.now(); button.click(); found.push(performance.now() - began);
        ++n < ROUNDS ? setTimeout(one, 20) : done(found); }; one(); })"""
# A job's history of as many points as the page keeps, in the place of the real one.
LONG = """(() => { const real = window.fetch; window.fetch = async (path, more) => {
    const answer = await real(path, more);
    if (!String(path).includes("/news?") || !String(path).endsWith("point_us=0")) return answer;
    const told = await answer.json(), points = [], now = Date.now() * 1000;
    for (let i = 0; i < 5000; i++) points.push({unix_us: now - (5000 - i) * 1e6, steps: i * 10, samples: 640,
        loss: Math.exp(-i / 2000) + Math.random() / 5, accuracy: 1 - Math.exp(-i / 2000), images_per_second: 5e4 + Math.random() * 1e4,
        staleness_p50: 2, workers: 2});
    told.history = {points};
    return new Response(JSON.stringify(told), {headers: {"Content-Type": "application/json"}}); }; })()"""


def spread(figures, digits=0):
    some = sorted(figures)
    at = lambda p: f"{some[min(len(some) - 1, int(p * len(some)))]:.{digits}f}"
    return f"median {at(0.5)}, p90 {at(0.9)}, most {some[-1]:.{digits}f} of {len(some)}"


def head(command):
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True,
                            text=True, check=False).stdout.strip()
    print(f"{command}\n{datetime.date.today()}, {commit}; {as_text(machine())}; "
          f"load {os.getloadavg()[0]:.1f}", flush=True)


# ---- the page

def paints(page, where, rounds):
    """ms to the first paint that has text, and to the page's first figures."""
    first, told = [], []
    for n in range(rounds):
        page.open(f"http://{where}/?n={n}#/")
        page.until("figures", "document.getElementById('workers')")
        page.until("a paint", "performance.getEntriesByName('first-contentful-paint').length")
        first.append(page.js("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        told.append(page.js("performance.getEntriesByType('resource').filter(e => e.name.includes('overview'))[0].responseEnd"))
    return first, told


def bench_page(o):
    head(f"bench/page.py page --rounds {o.rounds}")
    with Cluster(psservers=1, workers=2, coordinator_args=OPS) as c, chrome.Chrome() as page:
        where = address(c, "coordinator")
        job = c.submit(mlp_job(samples=60000, epochs=10000, steps_per_closure=50))
        c.wait_steps(job, 100)
        first, told = paints(page, where, o.rounds)
        print(f"first contentful paint, ms (bar 500): {spread(first)}")
        print(f"the overview's figures have come, ms: {spread(told)}")
        page.open(f"http://{where}/?events#/events")
        page.until("the stream", "document.getElementById('live') && "
                   "document.getElementById('live').textContent.startsWith('live')")
        page.js(WATCH)
        for n in range(o.rounds):
            c.run("drain", "w-1", "--why", f"round {n}")
            c.run("undrain", "w-1")
        page.until("the last of them", f"Object.keys(window.seen).length >= {o.rounds}")
        late = page.js("Object.values(window.seen)")
        print(f"an event's row after the coordinator knew of it, ms (bar 1,000): {spread(late)}")
        page.ask("Page.addScriptToEvaluateOnNewDocument", page.session, source=LONG)
        page.open(f"http://{where}/?long#/job/{job}")
        page.until("5,000 points", "document.querySelector('[data-chart=loss]') && "
                   "document.querySelector('[data-chart=loss]').dataset.points >= 4999")
        stays = page.js(STAYS.replace("SECONDS", str(2 * o.rounds)))
        print(f"a job's number of steps is replaced after, ms (bar 1,000): {spread(stays)}")
        whole = page.js(WHOLE.replace("ROUNDS", str(5 * o.rounds)))
        print(f"a job's whole page again, 6 charts of 5,000 points, ms: {spread(whole, 1)}")
        draws, frames = page.js(POINTS.replace("ROUNDS", str(5 * o.rounds)))
        print(f"a chart of 10,000 points drawn again, ms (bar 50): {spread(draws, 1)}")
        print(f"... until the frame that has it is done, ms: {spread(frames, 1)}")
        if page.errors:
            sys.exit(f"the console has errors: {page.errors[:3]}")


# ---- viewers

class Viewer:
    """A connection on which the coordinator is asked what the page of a job asks, as
    often, and a stream of events beside it."""

    def __init__(self, where, job, start):
        host, port = where.split(":")
        self.path = f"/api/v1/jobs/{job}"
        self.host, self.due, self.beat = where, start, 0
        self.ask, self.stream = (socket.create_connection((host, int(port))) for _ in range(2))
        self.stream.sendall(f"GET /api/v1/events HTTP/1.1\r\nHost: {where}\r\n"
                            "Accept: text/event-stream\r\n\r\n".encode())
        self.waiting, self.rest, self.answers = [], b"", 0
        self.event = self.span = self.point = 0
        self.caught_up = False

    def begin(self):
        self.waiting = [f"{self.path}/news?event={self.event}&span={self.span}&point_us={self.point}"]
        if self.beat % 5 == 0:
            self.waiting.append(f"{self.path}/shards?limit=50")
        self.beat += 1
        self.due = time.monotonic() + 0.9  # BEAT_MS of page.js
        self.send()

    def send(self):
        self.ask.sendall(f"GET {self.waiting[0]} HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())

    def read(self):
        some = self.ask.recv(1 << 18)
        if not some:
            raise OSError("the coordinator hung up on a viewer")
        self.rest += some
        while True:
            head_, found, body = self.rest.partition(b"\r\n\r\n")
            if not found:
                return
            size = int(head_.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            if len(body) < size:
                return
            self.take(head_, body[:size])
            self.rest = body[size:]

    def take(self, head_, body):
        if b" 200 " not in head_[:20]:
            raise OSError(f"{self.waiting[0]}: {head_[:20]} {body[:200]}")
        self.answers += 1
        if "/news" in self.waiting[0]:
            told = json.loads(body)
            self.event, self.span = told["events"]["last"], told["timeline"]["last"]
            self.caught_up = len(told["timeline"]["spans"]) < 1000
            self.point = ([{"unix_us": self.point}] + told["history"]["points"])[-1]["unix_us"]
        self.waiting.pop(0)
        if self.waiting:
            self.send()


def look(where, job, count):
    """So many viewers, who ask while the last word on stdin is 1, until that is closed; then
    how many answers they had, after a line that all that was before them has come to all."""
    start, some = time.monotonic(), selectors.DefaultSelector()
    viewers = [Viewer(where, job, start + i / count) for i in range(count)]
    for v in viewers:
        some.register(v.ask, selectors.EVENT_READ, v.read)
        some.register(v.stream, selectors.EVENT_READ, lambda v=v: v.stream.recv(1 << 16))
    some.register(0, selectors.EVENT_READ, None)
    asking, here = True, False
    while True:
        if not here and all(v.caught_up for v in viewers):
            for v in viewers:
                v.answers = 0
            here = True
            print("here", flush=True)
        for v in viewers:
            if asking and not v.waiting and v.due <= time.monotonic():
                v.begin()
        for key, _ in some.select(0.01 if asking else 1):
            if key.data is not None:
                key.data()
                continue
            word = os.read(0, 100)
            if not word:
                print(sum(v.answers for v in viewers))
                return
            asking = word.endswith(b"1")


def cpu_of(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def turn(c, job, watch, asking, seconds):
    """(images/s, the coordinator's share of a core, the viewers' own, seconds)"""
    watch.stdin.write("1" if asking else "0")
    watch.stdin.flush()
    pids = (c.processes["coordinator"].pid, watch.pid)
    steps, before, began = c.steps(job), [cpu_of(pid) for pid in pids], time.monotonic()
    time.sleep(seconds)
    steps, took = c.steps(job) - steps, time.monotonic() - began
    return (steps * 64 / took, *((cpu_of(pid) - was) / took for pid, was in zip(pids, before)), took)


def bench_viewers(o):
    head(f"bench/page.py viewers --rounds {o.rounds} --seconds {o.seconds:g} --viewers {o.viewers}")
    with Cluster(psservers=2, workers=2, coordinator_args=OPS,
                 worker_args=("--threads", "1")) as c:
        job = c.submit({"name": "page", "model": json.loads(MODEL), "optimizer": {"type": "adam"},
                        "loss": "sparse_categorical_crossentropy",
                        "data": {"train": fashion_source("train", 60000)},
                        "train": {"batch": 64, "epochs": 30000, "steps_per_closure": 10}})
        c.wait_steps(job, 200)
        watch = subprocess.Popen([sys.executable, __file__, "look", address(c, "coordinator"), job,
                                  str(o.viewers)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        watch.stdout.readline()
        turns = {False: [], True: []}
        for n in range(o.rounds):  # whoever is first in a pair has no advantage of it
            for asking in (n % 2 == 1, n % 2 == 0):
                turns[asking].append(turn(c, job, watch, asking, o.seconds))
        answers = int(watch.communicate()[0])
    middle = statistics.median
    none, some = turns[False], turns[True]
    pairs = sorted(100 * (b[0] / a[0] - 1) for a, b in zip(none, some))
    quarter = len(pairs) // 4
    print(f"{o.viewers} viewers: {middle(pairs):+.1f} % images/s, median of {len(pairs)} pairs "
          f"(half of them {pairs[quarter]:+.1f} to {pairs[-1 - quarter]:+.1f}; bar 1 %)")
    print(f"images/s without {middle(w[0] for w in none):,.0f}, with {middle(w[0] for w in some):,.0f}; "
          f"answers/s {answers / sum(w[3] for w in some):.0f}; load {os.getloadavg()[0]:.1f}")
    mean = statistics.fmean
    print(f"of a core: coordinator {100 * mean(w[1] for w in none):.2f} %, with viewers "
          f"{100 * mean(w[1] for w in some):.2f} %; the viewers themselves {100 * mean(w[2] for w in some):.2f} %")


MODEL = """{"input_shape": [28, 28, 1], "layers": [{"type": "conv2d", "filters": 32, "kernel_size": 3, "activation": "relu"},
    {"type": "max_pooling2d"}, {"type": "flatten"}, {"type": "dense", "units": 64, "activation": "relu"},
    {"type": "dense", "units": 10}]}"""


def main():
    if sys.argv[1:2] == ["look"]:
        return look(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["page", "viewers"])
    p.add_argument("--rounds", type=int, default=10)
    p.add_argument("--seconds", type=float, default=8)
    p.add_argument("--viewers", type=int, default=50)
    o = p.parse_args()
    return {"page": bench_page, "viewers": bench_viewers}[o.what](o)


if __name__ == "__main__":
    sys.exit(main())
