#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The dashboard without a browser: its pages, its API, its stream of events."""
import http.client
import json
import re
import urllib.parse

from cluster import ROOT, Cluster, check, check_equal, main, mlp_job, wait_for
from scrape import OPS, address, get

PATHS = ("/", "/page.css", "/page.js", "/api/v1/overview", "/api/v1/jobs", "/api/v1/map",
         "/api/v1/cluster", "/api/v1/members", "/api/v1/events")
HOSTILE = ('<img src=x onerror="document.title=1">', "</script><script>alert(1)</script>",
           '" onmouseover="x', "javascript:alert(1)", "{{7*7}}", "a/b/timeline", "&lt;b&gt;", "\u202etxt")
# Of a status, what is another a moment later.
MOVES = {"elapsed_seconds", "heartbeat_age_ms", "attached_seconds", "uptime_seconds",
         "resident_bytes"}


def cluster(**more):
    return Cluster(coordinator_args=OPS, **more)


def ask(where, path, method="GET", **headers):
    """(status, headers, body)"""
    c = http.client.HTTPConnection(where, timeout=30)
    c.request(method, path, headers=headers)
    answer = c.getresponse()
    found = answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode()
    c.close()
    return found


def api(where, path):
    status, text = get(where, f"/api/v1/{path}")
    check_equal(status, 200, f"{path}: {text}")
    return json.loads(text)


def still(value):
    """Without what moves by itself."""
    if isinstance(value, dict):
        return {k: still(v) for k, v in value.items() if k not in MOVES}
    return [still(v) for v in value] if isinstance(value, list) else value


def same(got, want, what):
    check_equal(still(got), still(want), what)


def the_api_says_what_the_command_line_says():
    with cluster(psservers=2, workers=2) as c:
        where = address(c, "coordinator")
        job = c.submit(mlp_job(samples=1600, epochs=2))
        c.wait_state(job)
        same(api(where, f"jobs/{job}"), c.json("status", job), "a job")
        same(api(where, "jobs/mlp"), c.json("status", job), "a job by its name")
        same(api(where, "jobs"), c.json("jobs"), "jobs")
        same(api(where, "cluster"), c.json("status"), "the cluster")
        same(api(where, f"jobs/{job}/events"), c.json("events", job), "events of a job")
        same(api(where, "events"), c.json("events"), "events")
        same(api(where, f"jobs/{job}/checkpoints"), c.json("checkpoints", job), "checkpoints")
        status = c.json("status", job)
        shards = api(where, f"jobs/{job}/shards?from=1&limit=1")
        same(shards["shards"], status["shards"][1:2], "a page of shards")
        check_equal(shards["total"], len(status["shards"]), "shards in all")
        spans = api(where, f"jobs/{job}/timeline")["spans"]
        counted = [s for s in spans if s["kind"] == "train" and s["result"] == "counted"]
        check_equal(len(counted), int(status["closures_counted"]), "closures of the timeline")
        points = api(where, f"jobs/{job}/history")["points"]
        check_equal(points[-1]["steps"], int(status["steps_asked"]), "the curve's last point")
        check_equal(api(where, f"jobs/{job}/history?after_us={points[-1]['unix_us']}")["points"],
                    [], "points after the last")
        seen = api(where, "overview")
        check_equal((seen["jobs"]["finished"], seen["workers"]["ready"], seen["psservers"]["ready"],
                     seen["samples"], seen["tls"]), (1, 2, 2, 3200, False), "the overview")
        members = api(where, "members?role=worker&limit=1&from=1")
        check_equal((members["found"], members["total"], len(members["members"])), (2, 4, 1),
                    "a page of members")
        check_equal(sorted(m[0] for m in api(where, "map")["workers"]), ["w-0", "w-1"], "the map")
        for path, want in (("jobs/j-99", 404), ("jobs/j-99/timeline", 404), ("jobs/", 404),
                           ("members?from=x", 400), ("jobs?limit=1001", 400),
                           ("events?limit=-1", 400), ("nothing", 404)):
            status, _, text = ask(where, f"/api/v1/{path}")
            check_equal(status, want, f"{path}: {text}")
        check_equal(ask(where, "/api/v1/jobs", "POST")[0], 405, "a POST")


def a_page_may_load_nothing_of_others():
    with cluster(psservers=0, workers=0) as c:
        where = address(c, "coordinator")
        _, headers, page = ask(where, "/")
        policy = headers["content-security-policy"]
        for word in ("default-src 'none'", "script-src 'self'", "style-src 'self'",
                     "connect-src 'self'", "frame-ancestors 'none'"):
            check(word in policy, f"the policy lacks {word}", policy)
        check("unsafe" not in policy, "an unsafe policy", policy)
        check_equal(headers["x-content-type-options"], "nosniff", "nosniff")
        check_equal(headers["referrer-policy"], "no-referrer", "referrers")
        check("set-cookie" not in headers, "a cookie")
        check(not re.search(r"<style|\son\w+=|style=|<script(?![^>]*src=)", page),
              "a script or style within the page", page)
        sizes = [len(ask(where, path)[2]) for path in ("/", "/page.css", "/page.js")]
        check(sum(sizes) <= 100 << 10, "more than 100 KiB of our own", sizes)
        code = (ROOT / "common" / "page" / "page.js").read_text(encoding="utf-8")
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                     "http://", "https://", "localStorage", "cookie"):
            check(word not in code, f"page.js says {word}")
        for host in ("evil.example", "127.0.0.1.evil.example"):
            check_equal(ask(where, "/api/v1/jobs", Host=host)[0], 421, f"Host: {host}")


def names_are_data():
    with cluster(psservers=1, workers=1) as c:
        where = address(c, "coordinator")
        job = c.submit(mlp_job(epochs=1000))
        c.wait_steps(job, 1)
        for text in HOSTILE:
            c.run("drain", "w-0", "--why", text)
            status, headers, body = ask(where, "/api/v1/members?name=w-0")
            check_equal((status, headers["content-type"]), (200, "application/json"), text)
            check_equal(json.loads(body)["members"][0]["drained_why"], text, "why it is drained")
            c.run("undrain", "w-0")
            quoted = urllib.parse.quote(text, safe="")
            status, headers, body = ask(where, f"/api/v1/jobs/{quoted}")
            check_equal((status, headers["content-type"]), (404, "application/json"), body)
            check("error" in json.loads(body), "a job of that name", body)


def off_loopback_there_is_nothing_of_it():
    with Cluster(psservers=0, workers=0, coordinator_args=("--ops-bind", "0.0.0.0:0")) as c:
        where = "127.0.0.1:" + address(c, "coordinator").split(":")[-1]
        check_equal(get(where, "/livez")[0], 200, "/livez")
        for path in PATHS:
            check_equal(get(where, path)[0], 404, path)


class Stream:
    def __init__(self, where, query="", **headers):
        self.connection = http.client.HTTPConnection(where, timeout=60)
        self.connection.request("GET", f"/api/v1/events{query}",
                                headers={"Accept": "text/event-stream", **headers})
        self.answer = self.connection.getresponse()
        check_equal((self.answer.status, self.answer.getheader("content-type")),
                    (200, "text/event-stream"), "a stream")

    def next(self):
        """(id, event); its data is what a page of events has."""
        found = {}
        while True:
            line = self.answer.readline().decode()
            check(line, "the stream ended", found)
            line = line.rstrip("\n")
            if line == "" and "data" in found:
                return int(found["id"]), json.loads(found["data"])
            key, _, value = line.partition(": ")
            if key:
                found[key] = value

    def close(self):
        self.answer.close()
        self.connection.close()


def events_come_as_they_happen_and_after_the_last_one_seen():
    with cluster(psservers=1, workers=1) as c:
        where = address(c, "coordinator")
        # Ready is not attached, and nobody misses a worker that never came.
        wait_for("w-0 to be attached", lambda: api(where, "overview")["workers"]["ready"])
        stream = Stream(where)
        c.kill("w-0")
        number, event = stream.next()
        while event["kind"] != "member-lost":
            number, event = stream.next()
        check_equal(event["member"], "w-0", "who was lost")
        stream.close()
        c.start("w-1")
        again = Stream(where, **{"Last-Event-ID": str(number)})
        came = again.next()
        check_equal(came[0], number + 1, "the next one")
        again.close()
        page = c.json("events", "--after", number)["events"]
        check_equal(came[1], page[0], "as a page has it")
        c.kill("coordinator")
        c.start("coordinator")
        whole = Stream(address(c, "coordinator"), "?after=0")
        check_equal(whole.next()[0], 1, "the first one, after a restart")
        whole.close()


def viewers_are_bounded_and_leave():
    with cluster(psservers=0, workers=0) as c:
        where = address(c, "coordinator")
        streams = [Stream(where) for _ in range(180)]
        check_equal(ask(where, "/api/v1/events", Accept="text/event-stream")[0], 503, "one more")
        check_equal(get(where, "/livez")[0], 200, "/livez beside them")
        for stream in streams:
            stream.close()
        c.start("w-0")  # an event, by which those that left are noticed
        wait_for("room for a viewer", lambda: ask_stream(where))


def ask_stream(where):
    c = http.client.HTTPConnection(where, timeout=30)
    c.request("GET", "/api/v1/events", headers={"Accept": "text/event-stream"})
    answer = c.getresponse()
    answer.close()
    c.close()
    return answer.status == 200


if __name__ == "__main__":
    main([the_api_says_what_the_command_line_says, a_page_may_load_nothing_of_others,
          names_are_data, off_loopback_there_is_nothing_of_it,
          events_come_as_they_happen_and_after_the_last_one_seen, viewers_are_bounded_and_leave])
