#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The dashboard in a real browser: Debian's chromium, headless. Skipped without."""
import json
import sys
import urllib.parse

import chrome
import crowd
from access_test import Guarded
from cluster import (Cluster, Failed, Leisurely, check, check_equal, main, mlp_job, slowly,
                     wait_for)
from scrape import OPS, address, get

HOSTILE = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>'
# When an event's row came into the page, against when the coordinator said it.
WATCH = """new MutationObserver(() => { for (const row of document.querySelectorAll("[data-event]")) {
    window.seen = window.seen || {}; const id = row.dataset.id;
    if (!(id in window.seen)) window.seen[id] = {kind: row.dataset.event, member: row.dataset.member,
        late_ms: Date.now() - row.dataset.us / 1000}; } }).observe(document.body, {childList: true, subtree: true}), 1"""

# The job is older than it is by so many seconds (the address says), with a point each:
# a day, which no test can wait for.
LONG = """const ask = window.fetch; window.fetch = async (path, how) => {
    const answer = await ask(path, how);
    if (!String(path).includes("/news?")) return answer;
    const news = await answer.json(), points = news.history.points, many = Number(location.search.slice(1));
    news.status.submitted_unix -= many;
    if (points.length && path.includes("point_us=0")) {
        const p = points[0], old = [];
        for (let i = 0; i < many; i++) old.push({...p, unix_us: p.unix_us - (many - i) * 1e6, steps: 0, samples: 1,
            loss: i % 1000 === 500 ? null : 2 - i / many + Math.sin(i / 50) / 10, accuracy: i / many / 2});
        news.history.points = old.concat(points);
    }
    return new Response(JSON.stringify(news), {headers: {"Content-Type": "application/json"}}); };"""

# The newest events are few, as those of a job are where it is busy.
FEW = r"""const ask = window.fetch; window.fetch = (path, how) =>
    ask(String(path).replace(/(events.newest=1&limit=)\d+/, (_, asked) => asked + 5), how);"""

# How a page looks: what stands over its right edge, or over that of its card, where it has
# to be pushed aside to be seen; short words that break in two; words that are too faint to
# read; charts that are wider than the page or painted for another theme, whose marks have
# no name or whose labels overlap, and axes of whole numbers that have others.
LOOK = r"""(() => { const wide = document.documentElement.clientWidth, found = {over: [], aside: [], broken: [], faint: [], charts: []};
    for (const n of document.querySelectorAll("main *, header *"))
        if (n.getBoundingClientRect().right > wide + 1 && !n.closest("pre, section, .tall")) found.over.push(n.outerHTML.slice(0, 80));
    for (const n of document.querySelectorAll("section, .tall"))
        if (n.scrollWidth > n.clientWidth + 1) found.aside.push([n.scrollWidth, n.clientWidth, n.textContent.slice(0, 40)]);
    const light = color => color.match(/[\d.]+/g).slice(0, 3).map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
    const between = (a, b) => (Math.max(light(a), light(b)) + .05) / (Math.min(light(a), light(b)) + .05);
    const behind = n => { for (; n; n = n.parentElement) { const c = getComputedStyle(n).backgroundColor; if (/^rgb\(/.test(c)) return c; } };
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange();
    for (let t; (t = texts.nextNode());) if (t.data.trim() && t.parentElement.checkVisibility()) {
        const color = getComputedStyle(t.parentElement).color;
        if (between(color, behind(t.parentElement)) < 4.5) found.faint.push([t.data, color, behind(t.parentElement)]);
        for (const m of t.data.matchAll(/[\p{L}\d.,%-]{1,22}(?=\s|$)/gu)) {
            if (m.index && !/\s/.test(t.data[m.index - 1])) continue;
            for (const part of m[0].split(/(?<=-)/)) {
                const at = m.index + m[0].indexOf(part);
                range.setStart(t, at); range.setEnd(t, at + part.length);
                if (new Set([...range.getClientRects()].map(r => Math.round(r.top))).size > 1) found.broken.push(m[0]);
            }
        }
    }
    const tone = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
    const rgb = name => { const n = document.body.appendChild(document.createElement("i")); n.style.color = `var(--${name})`;
        const c = getComputedStyle(n).color; n.remove(); return c; };
    for (const c of Object.values((window.Chart || {}).instances || {})) {
        const {x, y} = c.scales, name = c.canvas.closest("[data-chart]").dataset.chart, marks = c.$marks || [];
        if (c.width > wide || c.options.scales.x.ticks.color !== tone("dim") || !x.ticks.length) found.charts.push([name, c.width, c.options.scales.x.ticks.color]);
        if (["workers", "steps", "staleness", "throughput"].includes(name) && y.ticks.some(t => t.value % 1)) found.charts.push([name, y.ticks]);
        for (const m of marks) if (m.text && between(rgb(m.color), rgb("card")) < 4.5) found.faint.push([name, m]);
        const key = [...document.querySelectorAll(".key.dashed")].filter(n => n.checkVisibility());
        for (const m of marks) if (!m.text && !key.some(n => n.matches("." + m.color))) found.charts.push([name, "a mark without a name", m]);
        let end = -Infinity;
        for (const t of x.ticks) {
            const at = x.getPixelForValue(t.value), half = c.ctx.measureText(t.label).width / 2;
            if (at - half < end) found.charts.push([name, "labels overlap", t.label]);
            end = at + half;
        }
    }
    return found; })()"""
SIZES = ((390, 844), (844, 390), (1400, 1000), (2560, 1300))


def looks(page, name):
    """The page is as it should be at each size, light and dark."""
    for dark in (False, True):
        for width, height in SIZES:
            page.size(width, height, dark)
            well = f"Object.values({LOOK}).every(list => !list.length)"
            try:
                page.until("what fits", well, 5)
            except Failed:
                raise Failed(f"{name} at {width} px, {'dark' if dark else 'light'}", page.js(LOOK)) from None
            page.picture(f"{name}-{width}-{'dark' if dark else 'light'}")


def only_ours(page, where):
    foreign = [u for u in page.requests
               if urllib.parse.urlparse(u).netloc != where and not u.startswith(("data:", "about:"))]
    check(not foreign, "requests to another host", *foreign)
    check(not page.errors, "the console has errors", *page.errors)


def a_worker_is_killed_and_replaced_before_the_viewers_eyes():
    with Leisurely(psservers=2, workers=3, coordinator_args=OPS) as c, chrome.Chrome() as page:
        where = address(c, "coordinator")
        spec = mlp_job(name="fashion", samples=1280, epochs=10000, steps_per_closure=4)
        job = c.submit({**spec, "evaluate": {"every_epochs": 1}})
        page.open(f"http://{where}/#/job/{job}")
        page.until("a curve", "(document.querySelector('[data-chart=loss]') || {dataset: {}})"
                   ".dataset.points > 3")
        drawn = page.js("Boolean(window.Chart)")  # else there are tables
        check_equal(page.js("document.querySelectorAll('[data-chart] canvas').length"),
                    6 if drawn else 0, "charts")
        page.js(WATCH)
        for kill, start in (("w-0", "w-3"), ("w-1", "w-4")):
            c.kill(kill)
            c.start(start)
            page.until(f"{kill} lost", f"document.querySelector('[data-event=\"member-lost\"]"
                       f"[data-member=\"{kill}\"]')")
            page.until(f"{start} here", f"document.querySelector('[data-event=\"member-came\"]"
                       f"[data-member=\"{start}\"]')")
            page.until("closures of the new one",
                       f"document.getElementById('timeline').dataset.workers.split(' ').includes('{start}')")
        seen = page.js("Object.values(window.seen)")
        late = [e["late_ms"] for e in seen if e.get("member") in ("w-0", "w-1", "w-3", "w-4")
                and e["kind"] in ("member-lost", "member-came") and e["late_ms"] < 1e4]
        print(f"shown {min(late):.0f} to {max(late):.0f} ms after the coordinator knew "
              f"({len(late)} events)")
        if drawn:
            page.until("marks", "document.querySelector('[data-chart=loss]').dataset.marks >= 2")
        check_equal(page.js("document.getElementById('lost').textContent"), "2", "workers lost")
        page.until("what its workers use", "[...document.querySelectorAll('#workers-of tbody tr')]"
                   ".some(row => /\\d %/.test(row.textContent))")
        page.until("validation beside training", "document.querySelectorAll('#evaluations tbody tr').length > 3")
        other = c.submit({**mlp_job(name="fashion-quick", samples=320, epochs=4), "evaluate": {"every_epochs": 1}})
        c.wait_state(other)
        diverges = mlp_job(name="fashion-diverges", samples=320, epochs=1000)
        diverges["optimizer"]["learning_rate"] = 1e30
        c.wait_state(c.submit(diverges), "failed")
        page.js(f"location.hash = '#/compare/{job}/{other}'")
        page.until("both jobs", "document.querySelectorAll('#compared thead th').length === 3")
        for name in (job, other):
            page.until(f"the curve of {name}", f"/{name} training [1-9]/.test("
                       "document.querySelector('[data-chart=loss]').dataset.lines)")
        looks(page, "compare")
        c.run("drain", "w-2", "--why", HOSTILE)
        for view, what in (("cluster", "document.querySelectorAll('#members [data-member]').length >= 5"),
                           ("events", "document.querySelectorAll('[data-event]').length > 5"),
                           ("jobs", "document.querySelector('#jobs tbody tr')"),
                           ("", "(document.querySelector('[data-chart=samples]') || {dataset: {}})"
                                ".dataset.points > 4")):
            page.js(f"location.hash = '#/{view}'")
            if not view:  # it has a history at the first look
                page.until("the first look", "(document.querySelector('[data-chart=samples]') || {dataset: {}}).dataset.points")
                check(page.js("Number(document.querySelector('[data-chart=samples]').dataset.points) > 4"),
                      "the overview begins without a history")
                looks(page, "overview")
            page.size(1280, 1000)
            page.until(view or "overview", what)
            page.until("the page so wide", "[...document.querySelectorAll('.chart canvas')].every(n => n.clientWidth > 500)")
            if view == "cluster":
                page.until("the reason as text", "document.body && document.body.textContent.includes('<img src=x')")
            check("no answer" not in page.js("document.getElementById('live').textContent"),
                  "the page had no answer", page.js("document.getElementById('live').textContent"))
            page.picture("dashboard-" + (view or "overview"), 1500)
        page.first(FEW)  # who was lost is known to whoever comes later
        page.open(f"http://{where}/?few#/job/{job}")
        page.until("the job again", "document.querySelector('#workers-of') && document.querySelector('#evaluations')")
        looks(page, "job")
        page.size(1280, 1000)
        page.until("the page so wide", "document.querySelector('[data-chart=loss]').clientWidth > 500")
        if drawn:
            page.until("marks of long ago", "document.querySelector('[data-chart=loss]').dataset.marks >= 3")
        page.picture("dashboard-job", 1500)
        check_equal(page.js("window.broken || 0"), 0, "what came from outside ran")
        check_equal(page.js("document.images.length"), 0, "images")
        only_ours(page, where)


def a_phone_is_turned_before_a_job_a_day_old():
    with Leisurely(psservers=1, workers=1, coordinator_args=OPS) as c, chrome.Chrome() as page:
        where = address(c, "coordinator")
        job = c.submit(mlp_job(name="a_name_that_has_no_place_where_it_could_be_broken_in_two", epochs=30000))
        c.wait_steps(job, 1)
        page.first(LONG)
        points = "Number((document.querySelector('[data-chart=loss]') || {dataset: {}}).dataset.points)"
        # 2,000 points are thinned on a phone that is upright, and not on one that lies.
        for many in (2000, 100000):
            page.size(390, 844)
            page.open(f"http://{where}/?{many}#/job/{job}")
            page.until(f"{many} points", f"{points} >= {many}")
            for width, height in ((844, 390), (1400, 1000), (390, 844)):
                page.size(width, height)
                page.ask("Page.captureScreenshot", page.session, format="png")
                before = page.js(points)
                page.until(f"newer points at {width} px", f"{points} > {before}", 20)
                check("no answer" not in page.js("document.getElementById('live').textContent"),
                      "the page had no answer", page.js("document.getElementById('live').textContent"))
        looks(page, "long")
        page.open(f"http://{where}/?0#/compare/{job}/{job}")
        page.until("it beside itself", "document.querySelectorAll('#compared thead th').length === 3")
        looks(page, "compare-long")
        only_ours(page, where)


def click(page, selector):
    page.js(f"document.querySelector('{selector}').click(), 1")


def fill(page, selector, text):
    page.js(f"document.querySelector('{selector}').value = {json.dumps(text)}, 1")


def an_admin_drains_a_worker_and_stops_a_job_with_a_token():
    with Guarded([("admin", "ann"), ("viewer", "vic")], psservers=1, workers=2,
                 coordinator_args=(*OPS, "--dashboard-actions")) as c, chrome.Chrome() as page, \
            slowly(c.workers):
        where = address(c, "coordinator")
        job = c.submit(mlp_job(epochs=1000))
        c.wait_steps(job, 1)
        page.open(f"http://{where}/#/cluster")
        page.until("where a token is entered", "document.getElementById('token')")
        told = "document.getElementById('token-told').textContent"
        check(page.js("document.getElementById('member-acts').hidden"), "actions without a token")
        fill(page, "#token", c.run("token", who="viewer-vic").stdout.strip())
        click(page, "#token-use")
        page.until("that a viewer may not", f"{told}.includes('admins alone')")
        check(page.js("document.getElementById('member-acts').hidden"), "actions of a viewer")
        check(page.errors and "403" in page.errors[0], "the browser says nothing of it", page.errors)
        page.errors.clear()
        fill(page, "#token", c.run("token", who="admin-ann").stdout.strip())
        click(page, "#token-use")
        page.until("whose token it is", f"{told}.startsWith('admin ann')")
        check_equal(page.js("document.getElementById('token').value"), "", "what is left of it")
        fill(page, "#act-name", "w-0")
        fill(page, "#act-why", HOSTILE)
        click(page, "#member-acts [data-act=drain]")
        page.until("w-0 drained", "document.querySelector('#members [data-member=\"w-0\"]')"
                   ".textContent.includes('ann: <img src=x')")
        check_equal({m["name"]: m["drained_by"] for m in c.cluster_status()["members"]}["w-0"], "ann",
                    "who drained it")
        click(page, "#member-acts [data-act=undrain]")
        page.until("w-0 back", "!document.querySelector('#members [data-member=\"w-0\"]')"
                   ".textContent.includes('ann')")
        # It asks, and does nothing where it is told no.
        page.js(f"location.hash = '#/job/{job}'")
        page.until("the job", "document.getElementById('state')")
        click(page, "#job-acts [data-act=stop]")
        check("for good" in page.js("document.getElementById('job-acts-asks').textContent"), "no question")
        click(page, "#job-acts-asks button:last-child")
        check(page.js("document.getElementById('job-acts-asks').hidden"), "the question stays")
        check_equal(c.json("status", job)["state"], "running", "after a no")
        page.picture("actions")
        click(page, "#job-acts [data-act=stop]")
        click(page, "#job-acts-yes")
        c.wait_state(job, "stopped")
        page.until("its end", "document.getElementById('state').textContent === 'stopped'")
        # A page that is opened again knows nothing of it.
        page.open(f"http://{where}/?again#/job/{job}")
        page.until("a page without it", "document.getElementById('token') && "
                   "(document.getElementById('job-acts') || {}).hidden")
        check_equal(page.js("document.cookie + Object.keys(localStorage) + Object.keys(sessionStorage)"), "",
                    "what the browser keeps")
        check_equal(page.js("window.broken || 0"), 0, "what came from outside ran")
        calls = [json.loads(x) for x in (c.dir / "coordinator" / "audit.log").read_text().splitlines()]
        check_equal([(x["call"], x["name"]) for x in calls if x["name"] == "ann"],
                    [("Drain", "ann"), ("Drain", "ann"), ("Stop", "ann")], "the audit log")
        only_ours(page, where)


def a_report_opens_without_a_network():
    with Cluster(psservers=1, workers=2) as c, \
            chrome.Chrome("--host-resolver-rules=MAP * ~NOTFOUND") as page:
        spec = mlp_job(name="short", samples=6400, epochs=3, mode="local", contributions=2,
                       inner={"steps": 10})
        spec["evaluate"] = {"every_epochs": 1}
        job = c.submit(spec)
        c.wait_state(job)
        path = c.dir / "report.html"
        c.run("report", job, "-o", path)
        status = c.json("status", job)
        c.kill("coordinator")  # there is nobody to ask
        page.ask("Network.emulateNetworkConditions", page.session, offline=True, latency=0,
                 downloadThroughput=0, uploadThroughput=0)
        page.open(path.as_uri())
        page.until("the job", "document.getElementById('state')")
        check_equal(page.js("document.getElementById('title').textContent"), f"{job} short", "title")
        check_equal(page.js("document.getElementById('state').textContent"), "finished", "state")
        charts = page.js("Object.fromEntries([...document.querySelectorAll('[data-chart]')]"
                         ".map(n => [n.dataset.chart, [Number(n.dataset.points),"
                         " n.querySelectorAll('canvas').length]]))")
        check_equal(sorted(charts), ["accuracy", "loss", "staleness", "steps", "throughput", "workers"],
                    "charts")
        for name, (points, canvases) in charts.items():
            check(points > 0 and canvases == int(page.js("Boolean(window.Chart)")),
                  f"the chart {name} is empty", points, canvases)
        for name in ("loss", "accuracy"):
            check("validation 3" in page.js(f"document.querySelector('[data-chart={name}]').dataset.lines"),
                  f"the chart {name} has no validation curve")
        lowest = min(status["evaluations"], key=lambda e: e["loss"])
        check_equal(page.js("document.getElementById('best').textContent"),
                    f"{lowest['epoch']} ({lowest['loss']:#.4g})", "the best epoch")
        check_equal(page.js("document.querySelectorAll('#evaluations tbody tr').length"), 3, "evaluations")
        check(int(page.js("document.getElementById('timeline').dataset.spans"))
              >= int(status["closures_counted"]), "closures of the timeline")
        rows = page.js("[...document.querySelectorAll('#contributions tbody tr')]"
                       ".map(r => [...r.children].map(c => c.textContent))")
        check_equal([row[:3] + [row[4]] for row in rows],
                    [[w["worker"], f"{w['contributions']:,}", str(w["steps"]), f"{w['norm']:#.4g}"]
                     for w in status["local"]["workers"]], "contributions of workers")
        check(all(row[5].endswith("°") for row in rows), "no angles", rows)
        check("bytes of a sample" in page.js("document.getElementById('local').textContent"),
              "no bytes of a sample")
        check(page.js("document.querySelectorAll('[data-event=\"job-finished\"]').length") == 1,
              "the job's end is not among the events")
        looks(page, "report")
        check(page.requests == [path.as_uri()], "it asks for more than itself", *page.requests)
        check(not page.errors, "the console has errors", *page.errors)


def text_in_a_report_ends_no_script():
    with Cluster(psservers=1, workers=1) as c, chrome.Chrome() as page:
        job = c.submit(mlp_job(name="short", samples=640, epochs=1))
        c.run("drain", "w-0", "--why", HOSTILE)
        path = c.dir / "report.html"
        c.run("report", job, "-o", path)
        check_equal(path.read_text(encoding="utf-8").count("</script>"), 3, "scripts")
        page.open(path.as_uri())
        page.until("why, as text", "document.body && document.body.textContent.includes('<img src=x')")
        check_equal(page.js("window.broken || 0"), 0, "what came from outside ran")
        check(not page.errors, "the console has errors", *page.errors)
        c.run("report", "j-99", "-o", path, want=3)


def a_thousand_workers_are_usable():
    with Cluster(psservers=1, workers=0, coordinator_args=(*OPS, *crowd.PATIENT)) as c, \
            crowd.Crowd(c.address, 1000), chrome.Chrome() as page:
        where = address(c, "coordinator")
        wait_for("all of them to be there", lambda: json.loads(get(
            where, "/api/v1/members?limit=1")[1])["total"] == 1001)
        sizes = {path: len(get(where, f"/api/v1/{path}")[1])
                 for path in ("overview", "map", "members?limit=50", "cluster")}
        print(f"bytes of answers: {sizes}")
        check(sizes["map"] < 40000 and sizes["members?limit=50"] < 40000,
              "what the page asks for each second is large", sizes)
        found = json.loads(get(where, "/api/v1/members?role=worker&name=many-99&limit=3")[1])
        check_equal((found["found"], found["total"], len(found["members"])), (11, 1001, 3),
                    "a page of some of them")
        page.open(f"http://{where}/#/cluster")
        page.until("a thousand squares", "document.querySelector('[data-count=\"1000\"]')")
        page.until("the rows of a page",
                   "document.querySelectorAll('#members [data-member]').length === 50")
        looks(page, "thousand")
        took = page.js("""new Promise(async done => { const began = performance.now();
            const all = await (await fetch('/api/v1/map')).json();
            done([all.workers.length, performance.now() - began]); })""")
        print(f"a map of {took[0]} workers took {took[1]:.0f} ms")
        page.js("location.hash = '#/'")
        page.until("them in the overview",
                   "(document.getElementById('workers') || {}).textContent === '1,000 ready'")
        only_ours(page, where)


def a_page_or_a_browser_that_dies_is_named():
    for method, session, want in (("Page.crash", True, "the page has crashed"),
                                  ("Browser.crash", False, "the browser has ")):
        with chrome.Chrome() as page:
            try:
                page.ask(method, page.session if session else None)
            except Failed as error:
                check(want in str(error), f"no '{want}' in: {error}")
            else:
                raise Failed(f"{method} was answered")


if __name__ == "__main__":
    if chrome.PROGRAM is None:
        print("skipped: there is no chromium (apt-get install chromium)")
        sys.exit(77)
    main([a_page_or_a_browser_that_dies_is_named, a_phone_is_turned_before_a_job_a_day_old,
          a_worker_is_killed_and_replaced_before_the_viewers_eyes,
          an_admin_drains_a_worker_and_stops_a_job_with_a_token,
          a_report_opens_without_a_network, text_in_a_report_ends_no_script,
          a_thousand_workers_are_usable])
