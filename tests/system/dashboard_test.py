#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The dashboard without a browser: its pages, its API, its stream of events."""
import base64
import http.client
import json
import re
import subprocess
import urllib.parse

from access_test import Guarded
from cluster import BIN, ROOT, Cluster, check, check_equal, main, mlp_job, wait_for
from scrape import OPS, address, get

PATHS = ("/", "/page.css", "/page.js", "/api/v1/overview", "/api/v1/jobs", "/api/v1/map",
         "/api/v1/cluster", "/api/v1/members", "/api/v1/events", "/api/v1/actions")
HOSTILE = ('<img src=x onerror="document.title=1">', "</script><script>alert(1)</script>",
           '" onmouseover="x', "javascript:alert(1)", "{{7*7}}", "a/b/timeline", "&lt;b&gt;", "\u202etxt")
# Of a status, what is another a moment later.
MOVES = {"elapsed_seconds", "heartbeat_age_ms", "attached_seconds", "uptime_seconds",
         "resident_bytes", "usage"}


def cluster(**more):
    return Cluster(coordinator_args=OPS, **more)


def ask(where, path, method="GET", **headers):
    """(status, headers, body)"""
    c = http.client.HTTPConnection(where, timeout=120)
    c.request(method, path, headers=headers)
    answer = c.getresponse()
    found = answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode()
    c.close()
    return found


def post(where, what, body, token=None, kind="application/json", **headers):
    """(status, headers, what was answered) of an action."""
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    if kind is not None:
        headers["Content-Type"] = kind
    if not isinstance(body, (str, bytes)):
        body = json.dumps(body)
    c = http.client.HTTPConnection(where, timeout=120)
    c.request("POST", f"/api/v1/actions/{what}", body=body, headers=headers)
    answer = c.getresponse()
    text = answer.read().decode()
    c.close()
    found = {k.lower(): v for k, v in answer.getheaders()}
    if found["content-type"] == "application/json":
        text = json.loads(text)
    return answer.status, found, text


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
        members = [e for e in c.json("events")["events"] if not e["job"]]
        check_equal(api(where, "events?cluster=1")["events"], members, "events of no job")
        check_equal(api(where, "events?cluster=1&newest=1&limit=1")["events"], members[-1:], "the newest of them")
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
        wait_for("all members to be ready", lambda: (lambda now: now["workers"]["ready"] ==
                 now["psservers"]["ready"] == 2)(api(where, "overview")))
        seen = api(where, "overview")
        check_equal((seen["jobs"]["finished"], seen["samples"], seen["tls"]), (1, 3200, False),
                    "the overview")
        members = api(where, "members?role=worker&limit=1&from=1")
        check_equal((members["found"], members["total"], len(members["members"])), (2, 4, 1),
                    "a page of members")
        check_equal(sorted(m[0] for m in api(where, "map")["workers"]), ["w-0", "w-1"], "the map")
        wait_for("the pace to have all that was counted", lambda: [
            p[1:] for p in api(where, "pace")["points"]][-1:] == [[seen["samples"], seen["closures"]]])
        paces = api(where, "pace")["points"]
        check_equal(api(where, f"pace?after_us={paces[0][0]}")["points"][:1], paces[1:2], "points after the first")
        wait_for("what members use", lambda: all(
            m["usage"]["cpu_cores"] >= 0 and m["usage"]["computing"] <= 1
            for m in api(where, "members")["members"] if "usage" in m) and
            all("usage" in m for m in api(where, "members")["members"]))
        check_equal(api(where, f"members?job={job}")["members"], [], "workers of a job that has ended")
        for path, want in (("jobs/j-99", 404), ("members?job=j-99", 404), ("pace?after_us=x", 400), ("jobs/j-99/timeline", 404), ("jobs/", 404),
                           ("members?from=x", 400), ("jobs?limit=1001", 400),
                           ("events?limit=-1", 400), ("nothing", 404)):
            status, _, text = ask(where, f"/api/v1/{path}")
            check_equal(status, want, f"{path}: {text}")
        check_equal(ask(where, "/api/v1/jobs", "POST")[0], 405, "a POST")


def news_of_a_job_are_what_the_single_questions_say():
    with cluster(psservers=1, workers=1) as c:
        where = address(c, "coordinator")
        jobs = [c.submit(mlp_job(f"news-{n}", samples=320, epochs=1)) for n in range(9)]
        for job in jobs:
            c.wait_state(job)
        job = jobs[0]

        def parts(event, span, point):
            found = {"status": api(where, f"jobs/{job}?shards=0&spec=0"),
                     "events": api(where, f"jobs/{job}/events?after={event}"),
                     "history": api(where, f"jobs/{job}/history?after_us={point}"),
                     "timeline": api(where, f"jobs/{job}/timeline?limit=2000&after={span}")}
            for part in found.values():
                del part["schema_version"]
            del found["timeline"]["unix_us"]  # when it was asked
            return found

        def news(of, event=0, span=0, point=0):
            found = api(where, f"jobs/{of}/news?event={event}&span={span}&point_us={point}")
            check_equal(found.pop("schema_version"), 1, "the version")
            del found["timeline"]["unix_us"]
            return found
        whole = news(job)
        same(whole, parts(0, 0, 0), "all of it")
        check(whole["timeline"]["spans"] and whole["events"]["events"], "nothing happened", whole)
        event, span = whole["events"]["last"], whole["timeline"]["last"]
        point = whole["history"]["points"][-1]["unix_us"]
        rest = news(job, event, span, point)
        same(rest, parts(event, span, point), "what came after")
        check_equal((rest["events"]["events"], rest["history"]["points"], rest["timeline"]["spans"]),
                    ([], [], []), "after the last")
        same(news("news-0"), whole, "by its name")
        for other in jobs:  # more than are kept
            check_equal(news(other)["status"]["id"], other, "whose status it is")
        same(news(job), whole, "again")
        c.run("delete", job)
        wait_for("it to be gone", lambda: ask(where, f"/api/v1/jobs/{job}/news")[0] == 404)
        check_equal(news(jobs[1])["status"]["id"], jobs[1], "of another")
        for path, want in (("j-99/news", 404), (f"{jobs[1]}/news?event=x", 400),
                           (f"{jobs[1]}/news?span=-1", 400)):
            status, _, text = ask(where, f"/api/v1/jobs/{path}")
            check(status == want and "error" in json.loads(text), path, text)


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
        code = (ROOT / "host" / "page" / "page.js").read_text(encoding="utf-8")
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
        self.connection = http.client.HTTPConnection(where, timeout=240)
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


def token_of(c, who="client", *more):
    return c.run("token", *more, who=who).stdout.strip()


def lines(c):
    return [json.loads(x) for x in (c.dir / "coordinator" / "audit.log").read_text().splitlines()]


def forged(token):
    """Of another's making: each part of it changed, and with the key of another certificate."""
    head, chain, made, ends, sign = token.split(".")
    later = ".".join((head, chain, made, str(int(ends) + 60), sign))
    other = ".".join((head, chain, made, ends, sign[:20] + ("A" if sign[20] != "A" else "B") + sign[21:]))
    return {"later": later, "other": other, "short": token[:-8], "no chain": f"{head}..{made}.{ends}.{sign}",
            "empty": "", "junk": "junk", "long": "sl1." + "A" * 13000, "signs": f"{token}.{sign}",
            "no dates": f"{head}.{chain}...{sign}"}


def expired(c, who="client"):
    """A token whose time is over, signed by the right key: as `sluice token` made it then."""
    made, ends = 1700000000, 1700003600
    chain = token_of(c, who).split(".")[1]
    text = f"sl1.{chain}.{made}.{ends}."
    sign = subprocess.run(["openssl", "dgst", "-sha256", "-sign", c.certs / f"{who}.key"],
                          input=text.encode(), capture_output=True, check=True).stdout
    return text + base64.b64encode(sign).decode()


def acting(**more):
    return Guarded([("viewer", "vic"), ("submitter", "bob"), ("admin", "ann"), ("admin", "eve")],
                   coordinator_args=(*OPS, "--dashboard-actions"), **more)


def an_admin_acts_with_a_token_and_the_audit_log_has_it():
    with acting(psservers=1, workers=1) as c:
        where, token = address(c, "coordinator"), token_of(c, "admin-ann")
        job = c.submit(mlp_job(epochs=1000))
        c.wait_steps(job, 1)
        who = json.loads(ask(where, "/api/v1/actions", Authorization=f"Bearer {token}")[2])
        check_equal((who["role"], who["name"], who["actions"]),
                    ("admin", "ann", ["drain", "undrain", "pause", "resume", "stop"]), "who")
        done = post(where, "drain", {"name": "w-0", "why": "a fan", "who": "somebody else"}, token,
                    Origin=f"http://{where}")
        check_equal((done[0], done[2]["changed"]), (200, True), done)
        member = api(where, "members?name=w-0")["members"][0]
        check_equal((member["drained_by"], member["drained_why"]), ("ann", "a fan"), "the member")
        check_equal(post(where, "undrain", {"name": "w-0"}, token)[0], 200, "undrain")
        for what, more in (("pause", {"why": "noise"}), ("resume", {}), ("stop", {})):
            status, _, told = post(where, what, {"id": job, **more}, token)
            check_equal((status, told.get("id")), (200, job), told)
            if what == "pause":
                check_equal((told["pause"]["who"], told["pause"]["why"]), ("ann", "noise"), told)
        c.wait_state(job, "stopped")
        status, _, told = post(where, "pause", {"id": job}, token)
        check(status == 409 and told["error"], "a pause of a job that has ended", told)
        check_equal(post(where, "stop", {"id": "j-99"}, token)[0], 404, "no such job")
        said = [(x["call"], x["role"], x["name"], x["job"]) for x in lines(c) if x["name"] == "ann"]
        check_equal(said, [("Drain", "admin", "ann", "w-0")] * 2 +
                    [(x, "admin", "ann", job) for x in ("Pause", "Resume", "Stop", "Pause")] +
                    [("Stop", "admin", "ann", "j-99")], "the audit log")
        check("hold" in c.run("audit", "verify", c.dir / "coordinator" / "audit.log").stdout,
              "the chain")


def a_token_that_does_not_hold_changes_nothing():
    with acting(psservers=0, workers=1) as c:
        c.cert("revoke", "--role", "viewer", "--name", "vic")  # so there is a list
        c.kill("coordinator")
        c.start("coordinator", extra=["--tls-crl", c.certs / "ca.crl"])
        where, good = address(c, "coordinator"), token_of(c)
        eve, body = token_of(c, "admin-eve"), {"name": "w-0"}
        wait_for("w-0 to be attached", lambda: api(where, "overview")["workers"]["ready"])

        def refused(token, want, words, what="drain", **more):
            status, headers, told = post(where, what, body, token, **more)
            check(status == want and words in told["error"], f"{want}, not {status}", told)
            check(status != 401 or headers["www-authenticate"] == "Bearer", "what to show", headers)
        refused(None, 401, "sluice token")
        for name, token in forged(good).items():
            refused(token, 401, "token")
            print(f"refused: {name}")
        refused(expired(c), 401, "has expired")
        for name in ("submitter-bob", "worker", "psserver", "coordinator"):
            refused(token_of(c, name), 403, "admins alone")
        refused(good, 404, "unknown action", "delete")
        # Another authority's, with the same names.
        other = c.dir / "other"
        subprocess.run([BIN / "sluice", "cert", "init", other, "--host", "127.0.0.1"], check=True,
                       capture_output=True)
        files = [f"--tls-{x}={other}/{y}" for x, y in
                 (("ca", "ca.crt"), ("cert", "client.crt"), ("key", "client.key"))]
        strange = subprocess.run([BIN / "sluice", "token", *files], check=True,
                                 capture_output=True, text=True).stdout.strip()
        refused(strange, 401, "does not hold")
        # One that holds, until its certificate is taken back.
        check_equal(ask(where, "/api/v1/actions", Authorization=f"Bearer {eve}")[0], 200, "eve")
        c.cert("revoke", "--role", "admin", "--name", "eve")
        wait_for("the list to be read", lambda: ask(
            where, "/api/v1/actions", Authorization=f"Bearer {eve}")[0] == 401)
        refused(eve, 401, "has been revoked")
        member = api(where, "members?name=w-0")["members"][0]
        check_equal(member["drained_by"], "", "who drained it")
        wait_for("the denials to be written", lambda: {"(dashboard)", "bob"} <= {
            x["name"] for x in lines(c) if x["call"] == "Drain"})
        check(not [x for x in lines(c) if x["result"] == "ok"], "something was done", lines(c))


def another_page_and_other_forms_of_asking_are_refused():
    with acting(psservers=0, workers=0) as c:
        where, token = address(c, "coordinator"), token_of(c)
        body = {"name": "w-9"}
        port = where.split(":")[1]
        for origin in ("http://evil.example", f"http://127.0.0.1:{int(port) - 1}", "null",
                       f"http://{where}.evil.example", f"http://localhost:{port}", "file://"):
            status, _, told = post(where, "drain", body, token, Origin=origin)
            check(status == 403 and "dashboard's own page" in told["error"], origin, status, told)
        for site in ("cross-site", "same-site"):
            check_equal(post(where, "drain", body, token, **{"Sec-Fetch-Site": site})[0], 403, site)
        check_equal(post(where, "drain", body, token, Host="evil.example")[0], 421, "a Host")
        for kind in (None, "text/plain", "application/x-www-form-urlencoded", "application/jsonp"):
            check_equal(post(where, "drain", body, token, kind=kind)[0], 415, str(kind))
        for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"):
            status = ask(where, "/api/v1/actions/drain", method,
                         Authorization=f"Bearer {token}")[0]
            check_equal(status, 405, method)
        check_equal(post(where, "drain", "{" + " " * 70000 + "}", token)[0], 413, "a huge body")
        for text in ("", "{", "[]", "7", '{"name": 7}', '{"name": "w-0", "force": true}', '{"name": "w-0"}}',
                     "[" * 50000, '{"name": "' + "x" * 60000 + '"}', b"\xff\xfe"):
            status, _, told = post(where, "drain", text, token)
            check(status == 400 and told["error"], f"{text[:40]}", status, told)
        check_equal(ask(where, "/api/v1/actions?x=" + token)[2].count("name"), 0, "in the address")
        status, _, told = post(where, "drain", body, token)
        check(status == 404 and "w-9" in told["error"], "and a good one: nobody has this name", told)
        check_equal([x["call"] for x in lines(c)], ["Drain"], "the audit log")


def without_the_flag_the_dashboard_only_reads():
    with Guarded(psservers=0, workers=0, coordinator_args=OPS) as c:
        where = address(c, "coordinator")
        check_equal(api(where, "actions")["actions"], [], "actions")
        status, _, told = post(where, "stop", {"id": "j-1"}, token_of(c))
        check(status == 404 and "--dashboard-actions" in told["error"], "a POST", status, told)
    with Cluster(psservers=0, workers=0) as c:
        for more, words in ((("--ops-bind", "127.0.0.1:0"), "needs --tls-ca"),):
            done = subprocess.run([BIN / "coordinator", "--state", c.dir / "x", "--listen",
                                   "127.0.0.1:0", "--dashboard-actions", *more],
                                  capture_output=True, text=True, timeout=60, check=False)
            check(done.returncode == 2 and words in done.stderr, "a start", done.returncode, done.stderr)
        done = subprocess.run([BIN / "sluice", "token"], capture_output=True, text=True, check=False)
        check(done.returncode == 2 and "--tls-cert" in done.stderr, "no certificate", done.stderr)


def ask_stream(where):
    c = http.client.HTTPConnection(where, timeout=120)
    c.request("GET", "/api/v1/events", headers={"Accept": "text/event-stream"})
    answer = c.getresponse()
    answer.close()
    c.close()
    return answer.status == 200


if __name__ == "__main__":
    main([the_api_says_what_the_command_line_says,
          news_of_a_job_are_what_the_single_questions_say, a_page_may_load_nothing_of_others,
          names_are_data, off_loopback_there_is_nothing_of_it,
          events_come_as_they_happen_and_after_the_last_one_seen, viewers_are_bounded_and_leave,
          an_admin_acts_with_a_token_and_the_audit_log_has_it,
          a_token_that_does_not_hold_changes_nothing,
          another_page_and_other_forms_of_asking_are_refused,
          without_the_flag_the_dashboard_only_reads])
