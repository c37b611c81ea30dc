// SPDX-License-Identifier: Apache-2.0
// The dashboard, and the page of a report: what the coordinator says of itself,
// as text, tables and charts. Whatever comes from outside becomes text of a
// node and nothing else.
"use strict";
(() => {
const given = document.getElementById("data");
const report = given ? JSON.parse(given.textContent) : null;
const EVENTS = 500, POINTS = 120000, SPANS = 4000, ROWS = 40, PAGE = 50;
const BEAT_MS = 900; // with what an answer takes, no number is older than a second

// ---- elements

// el("td", {class: "n"}, "text", node, ...)
function el(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
        if (typeof value === "function") node.addEventListener(name, value);
        else if (value !== null && value !== undefined) node.setAttribute(name, value);
    }
    for (const child of children)
        node.append(child instanceof Node ? child : document.createTextNode(String(child)));
    return node;
}

const css = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const whole = n => Math.round(Number(n) || 0).toLocaleString("en");
const fine = n => Number(n || 0).toPrecision(4);
const clock = us => new Date(us / 1000).toTimeString().slice(0, 8) + "." +
    String(Math.floor(us / 1000) % 1000).padStart(3, "0");
const day = s => s ? new Date(s * 1000).toISOString().slice(0, 19).replace("T", " ") + " UTC" : "-";
const bytes = n => { let i = 0; n = Number(n); while (n >= 1024 && i < 4) { n /= 1024; i++; }
    return (i ? n.toFixed(1) : n) + " " + ["B", "KiB", "MiB", "GiB", "TiB"][i]; };
const span = s => { s = Math.round(s || 0); return s < 60 ? s + " s" : s < 3600
    ? Math.floor(s / 60) + " min " + s % 60 + " s" : Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min"; };
const jobLink = (id, text) => report ? el("span", null, text) : el("a", {href: "#/job/" + encodeURIComponent(id)}, text);
const rate = s => ["running", "evaluating"].includes(s.state) ? whole(s.images_per_second) : "-";

// rows of cells: text, a node, or [class, text]
function table(head, rows, attributes) {
    const cell = (tag, c) => Array.isArray(c) ? el(tag, {class: c[0]}, c[1]) : el(tag, null, c);
    return el("table", attributes, el("thead", null, el("tr", null, ...head.map(h => cell("th", h)))),
        el("tbody", null, ...rows.map(r => el("tr", r.attributes, ...r.map(c => cell("td", c))))));
}

function facts(pairs) {
    return el("dl", {class: "facts"}, ...pairs.filter(p => p).map(([name, value, id]) =>
        el("div", null, el("dt", null, name), el("dd", id ? {id} : null, value))));
}

const card = (title, ...children) => el("section", null, el("h2", null, title), ...children);

// Puts the new in the place of the old, and only if it is other: who reads or
// selects text is not disturbed for nothing.
function put(place, ...nodes) {
    const next = el("div", null, ...nodes);
    const old = place.childNodes;
    if (old.length !== next.childNodes.length || [...next.childNodes].some((n, i) => !n.isEqualNode(old[i])))
        place.replaceChildren(...next.childNodes);
}

// ---- data

async function get(path) {
    const answer = await fetch("/api/v1/" + path, {cache: "no-store"});
    const body = await answer.json();
    if (!answer.ok) throw new Error(body.error || answer.status);
    return body;
}

// What an admin may do. The token is a word of this script alone: it is gone
// with the page, and no other request has it.
const acts = {token: null};

async function send(method, path, body) {
    const headers = {Authorization: "Bearer " + acts.token};
    if (body) headers["Content-Type"] = "application/json";
    const answer = await fetch("/api/v1/" + path, {method, headers, cache: "no-store", credentials: "omit",
        body: body && JSON.stringify(body)});
    const told = await answer.json();
    if (!answer.ok) throw new Error(told.error || answer.status);
    return told;
}

// A bar with a button per action, which is there while there is a token; nothing
// in it is ever replaced, so a click or a key finds what it was meant for.
// {name: [question or null, request()]}: what is asked first, and then sent.
function actionBar(id, about, buttons, ...fields) {
    const told = el("span", {id: id + "-told", role: "status"});
    const asks = el("span", {id: id + "-asks", hidden: ""});
    const node = el("div", {class: "bar", id, "data-acts": ""}, about, ...fields);
    async function act(name, request) {
        told.textContent = name + " ...";
        try {
            const reply = await send("POST", "actions/" + name, request());
            told.textContent = name + ": " + (reply.state || (reply.member ? reply.member.state : "nobody of this name is attached"));
            soon();
        } catch (error) {
            told.textContent = name + ": " + error.message;
        }
    }
    function ask(question, yes) {
        const close = () => { asks.hidden = true; asks.replaceChildren(); };
        const no = el("button", {type: "button", click: close}, "no");
        asks.replaceChildren(el("b", {class: "error"}, question), " ",
            el("button", {type: "button", id: id + "-yes", click: () => { close(); yes(); }}, "yes"), " ", no);
        asks.hidden = false;
        no.focus();
    }
    for (const [name, [question, request]] of Object.entries(buttons))
        node.append(el("button", {type: "button", "data-act": name, click: () => question
            ? ask(question(), () => act(name, request)) : act(name, request)}, name));
    node.append(asks, told);
    node.hidden = !acts.token;
    return node;
}

function setToken(token) {
    acts.token = token;
    for (const bar of document.querySelectorAll("[data-acts]")) bar.hidden = !token;
}

// Where a token is entered and forgotten; not there where the dashboard only
// reads. It is asked whom it speaks for before it is used.
function tokenBox() {
    const told = el("span", {id: "token-told", role: "status", class: "dim"});
    const field = el("input", {type: "password", id: "token", placeholder: "token (sluice token)", "aria-label": "token",
        autocomplete: "off", spellcheck: "false", keydown: e => { if (e.key === "Enter") enter(); }});
    const use = el("button", {type: "button", id: "token-use", click: () => enter()}, "use");
    const forget = el("button", {type: "button", id: "token-forget", hidden: "", click: () => leave("")}, "forget");
    function leave(text) {
        setToken(null);
        told.textContent = text;
        field.hidden = use.hidden = false;
        forget.hidden = true;
    }
    async function enter() {
        acts.token = field.value.trim();
        field.value = "";
        try {
            const who = await send("GET", "actions");
            const left = who.ends_unix * 1000 - Date.now();
            setToken(acts.token);
            told.textContent = `${who.role} ${who.name}, until ${new Date(who.ends_unix * 1000).toTimeString().slice(0, 5)}`;
            setTimeout(token => { if (acts.token === token) leave("the token has expired"); }, left, acts.token);
            field.hidden = use.hidden = true;
            forget.hidden = false;
        } catch (error) {
            leave(error.message);
        }
    }
    return el("span", {id: "token-box"}, field, use, told, forget);
}

const feed = {list: [], last: 0, source: null, fresh: 0};
let view = null, live = null;

function say(text) { if (live) live.textContent = text; }

function take(events) {
    let some = false;
    for (const e of events) {
        if (e.id <= feed.last) continue;
        feed.list.push(e);
        feed.last = e.id;
        some = true;
    }
    feed.list.splice(0, feed.list.length - EVENTS);
    if (some && view) { if (view.events) view.events(); soon(); }
}

async function poll() {
    const page = await get("events?limit=500&after=" + feed.last);
    take(page.events || []);
}

// A stream where there are streams, else questions at each beat.
async function follow() {
    const page = await get("events?newest=1&limit=" + EVENTS);
    take(page.events || []);
    feed.last = Math.max(feed.last, page.last);
    if (!window.EventSource) return;
    const source = new EventSource("/api/v1/events?after=" + feed.last);
    source.onopen = () => { feed.source = source; };
    source.onmessage = m => take([JSON.parse(m.data)]);
    source.onerror = () => { feed.source = null; }; // it tries again by itself
}

let due = null;
function soon() { if (!due) due = setTimeout(beat, 100); }

let busy = false;
async function beat() {
    clearTimeout(due);
    due = setTimeout(beat, document.hidden ? 5 * BEAT_MS : BEAT_MS);
    if (busy) return;
    busy = true;
    const at = view;
    try {
        if (!feed.source && feed.last) await poll();
        await at.update();
        say((feed.source ? "live" : "polling") + " · " + new Date().toTimeString().slice(0, 8));
    } catch (error) {
        say("no answer: " + error.message);
    }
    busy = false;
    if (at !== view) soon();
}

const GONE = ["member-lost", "member-silent", "member-drains", "member-left", "member-replaced"];
const moves = e => e.kind.startsWith("member-") || e.kind.startsWith("shard") || e.kind.startsWith("worker-");

function eventTable(events, most) {
    return table(["time", "what", "job", "text"], events.slice(-most).reverse().map(e => Object.assign([
        ["t", clock(e.unix_us)], [e.level, e.kind], e.job ? jobLink("j-" + e.job, "j-" + e.job) : "-", e.text],
        {attributes: {"data-event": e.kind, "data-id": e.id, "data-us": e.unix_us, "data-member": e.member || null}})));
}

// ---- charts

const marksPlugin = {
    id: "marks",
    afterDatasetsDraw(chart) {
        const {ctx, chartArea: area, scales: {x}} = chart;
        for (const m of chart.$marks || []) {
            const at = x.getPixelForValue(m.x);
            if (at < area.left || at > area.right) continue;
            ctx.save();
            ctx.strokeStyle = css(m.color);
            ctx.setLineDash([4, 3]);
            ctx.beginPath();
            ctx.moveTo(at, area.top);
            ctx.lineTo(at, area.bottom);
            ctx.stroke();
            ctx.restore();
        }
    },
};

// Returns at most about 2 points a pixel of those, which rise in x: the lowest
// and the highest of each piece, in their order, so that no spike is lost and
// the first and the last stay. Points whose y is null are gaps. The library's
// own decimation leaves a dataset whose data cannot be replaced any more once
// the canvas has another width, so it is not used.
function thin(points, pixels) {
    const most = Math.max(100, Math.round(pixels)), last = points.length - 1;
    if (points.length <= 2 * most) return points;
    const from = points[0].x, wide = (points[last].x - from) / most || 1, kept = [];
    for (let i = 0; i <= last;) {
        const piece = Math.floor((points[i].x - from) / wide);
        let low = -1, high = -1, gap = -1;
        for (; i <= last && Math.floor((points[i].x - from) / wide) === piece; i++) {
            if (points[i].y === null) { gap = i; continue; }
            if (low < 0 || points[i].y < points[low].y) low = i;
            if (high < 0 || points[i].y >= points[high].y) high = i;
        }
        if (low < 0) low = high = gap;
        kept.push(points[Math.min(low, high)]);
        if (low !== high) kept.push(points[Math.max(low, high)]);
    }
    if (kept[0] !== points[0]) kept.unshift(points[0]);
    if (kept[kept.length - 1] !== points[last]) kept.push(points[last]);
    return kept;
}

// One curve: {set(points, marks, log)}, points [{x, y}]. Without the library it
// is a table of its last values.
function curve(title, name, xText) {
    const box = el("div", {class: "chart"});
    const node = el("section", {"data-chart": name}, el("h2", null, title), box);
    if (!window.Chart) {
        box.className = "";
        return {node, set(points) {
            node.dataset.points = points.length;
            put(box, table(["at", ["n", title]], points.slice(-8).reverse().map(p => [xText(p.x), ["n", fine(p.y)]])));
        }};
    }
    const canvas = el("canvas", {role: "img", "aria-label": title});
    box.append(canvas);
    const chart = new Chart(canvas, {
        type: "line",
        data: {datasets: [{data: [], borderWidth: 1.5, pointRadius: 0, borderColor: css("good")}]},
        options: {
            animation: false, parsing: false, normalized: true, responsive: true, maintainAspectRatio: false,
            interaction: {mode: "nearest", axis: "x", intersect: false},
            plugins: {legend: {display: false}, tooltip: {callbacks: {title: i => xText(i[0].parsed.x), label: i => fine(i.parsed.y)}}},
            scales: {
                x: {type: "linear", ticks: {color: css("dim"), maxTicksLimit: 6, maxRotation: 0, callback: v => xText(v)},
                    grid: {color: css("line")}},
                y: {type: "linear", ticks: {color: css("dim"), maxTicksLimit: 6}, grid: {color: css("line")}},
            },
        },
        plugins: [marksPlugin],
    });
    let gone = false;
    return {node, set(points, marks, log) {
        if (gone) return; // an answer for a view that was left
        chart.data.datasets[0].data = thin(points, chart.width);
        chart.options.scales.x.min = points.length ? points[0].x : undefined;
        chart.options.scales.x.max = points.length ? points[points.length - 1].x : undefined;
        chart.options.scales.y.type = log ? "logarithmic" : "linear";
        chart.$marks = marks;
        node.dataset.points = points.length;
        node.dataset.marks = marks.length;
        chart.update("none");
    }, free() { gone = true; chart.destroy(); }};
}

const smooth = (points, by) => {
    let mean = null;
    return by ? points.map(p => ({x: p.x, y: mean = mean === null ? p.y : by * mean + (1 - by) * p.y})) : points;
};

// ---- one job

const COLORS = {"": "run", counted: "good", lost: "bad", stalled: "bad", failed: "other", "handed-back": "warn",
    revoked: "warn", stale: "dim", second: "dim", cancelled: "dim"};

function legend(pairs) {
    return el("div", {class: "bar dim"}, ...pairs.map(([color, text]) =>
        el("span", null, el("span", {class: "key " + color}), text)));
}

function timelineCard() {
    const canvas = el("canvas", {role: "img", "aria-label": "closures over workers"});
    const where = el("span", {class: "dim"});
    let page = 0, seconds = 60, last = null;
    const button = (text, fn) => el("button", {type: "button", click: () => { fn(); if (last) set(...last); }}, text);
    const node = el("section", {id: "timeline"}, el("h2", null, "Closures over workers"),
        el("div", {class: "bar"}, button("30 s", () => { seconds = 30; }), button("1 min", () => { seconds = 60; }),
            button("5 min", () => { seconds = 300; }), button("all", () => { seconds = 0; }),
            button("◀", () => { page = Math.max(0, page - 1); }), button("▶", () => { page++; }), where),
        canvas, legend([["good", "counted"], ["run", "runs"], ["bad", "lost, stalled"], ["warn", "handed back"],
            ["other", "failed"], ["dim", "stale, second, cancelled"]]));

    function set(spans, now, marks) {
        last = [spans, now, marks];
        const begin = seconds ? now - seconds * 1e6
            : spans.reduce((a, s) => Math.min(a, s.begun_us), now);
        const seen = spans.filter(s => (s.ended_us || now) >= begin);
        const names = [...new Set(seen.map(s => s.worker))].sort((a, b) => a.localeCompare(b, "en", {numeric: true}));
        page = Math.min(page, Math.max(0, Math.ceil(names.length / ROWS) - 1));
        const shown = names.slice(page * ROWS, (page + 1) * ROWS);
        where.textContent = shown.length ? `workers ${page * ROWS + 1} to ${page * ROWS + shown.length} of ${names.length}` : "nothing yet";
        node.dataset.spans = seen.length;
        node.dataset.workers = names.join(" ").slice(0, 2000);
        const scale = window.devicePixelRatio || 1, left = 110, row = 15;
        const width = Math.max(300, node.clientWidth - 30), height = shown.length * row + 20;
        canvas.width = width * scale;
        canvas.height = height * scale;
        canvas.style.width = width + "px";
        canvas.style.height = height + "px";
        const g = canvas.getContext("2d"), x = us => left + (width - left - 4) * (us - begin) / Math.max(1, now - begin);
        g.scale(scale, scale);
        g.font = "11px system-ui, sans-serif";
        const colors = {};
        for (const c of new Set(Object.values(COLORS))) colors[c] = css(c);
        g.fillStyle = css("dim");
        shown.forEach((name, i) => g.fillText(name.slice(0, 17), 0, i * row + 11));
        for (const s of seen) {
            const i = shown.indexOf(s.worker);
            if (i < 0) continue;
            const from = Math.max(left, x(s.begun_us)), to = x(s.ended_us || now);
            g.fillStyle = colors[COLORS[s.result] || "dim"];
            g.fillRect(from, i * row + 2, Math.max(1, to - from - 0.5), row - 4);
        }
        g.strokeStyle = css("bad");
        for (const m of marks.filter(m => m.us >= begin && m.color === "bad")) {
            const i = shown.indexOf(m.member);
            g.beginPath();
            g.moveTo(x(m.us), i < 0 ? 0 : i * row);
            g.lineTo(x(m.us), i < 0 ? height - 20 : (i + 1) * row);
            g.stroke();
        }
        g.fillStyle = css("dim");
        for (let i = 0; i <= 4; i++) {
            const us = begin + (now - begin) * i / 4, text = clock(us).slice(0, 8);
            g.fillText(text, Math.min(x(us), width - 50), height - 4);
        }
    }
    return {node, set};
}

function jobView(id) {
    const head = el("div"), body = el("div"), shards = el("div"), happened = el("div"), losses = el("div"), cuts = el("div"), spec = el("pre");
    let axis = "time", log = false, mean = 0, points = [], spans = [], last = 0, status = null, own = [], ownLast = 0, running = [];
    let now = 0, ticks = 0, cutsSeen = -1, first = 0;
    const xText = v => axis === "time" ? (v < 120 ? Math.round(v) + " s" : Math.round(v / 6) / 10 + " min") : whole(v);
    const charts = [["Loss", "loss", "loss"], ["Accuracy", "accuracy", "accuracy"],
        ["Samples per second", "throughput", "images_per_second"], ["Staleness, median (updates)", "staleness", "staleness_p50"],
        ["Workers that hold a lease", "workers", "workers"], ["Steps counted", "steps", "steps"]]
        .map(([title, name, key]) => Object.assign(curve(title, name, xText), {key}));
    const lines = timelineCard();
    const toggle = (text, fn) => el("button", {type: "button", click: () => { fn(); draw(); }}, text);
    body.append(el("div", {class: "bar"}, "charts over", toggle("time", () => { axis = "time"; }),
        toggle("steps", () => { axis = "steps"; }), toggle("log loss", () => { log = !log; }),
        toggle("smooth", () => { mean = mean ? 0 : 0.9; }),
        legend([["bad", "a worker was lost"], ["warn", "a worker was told to go"]])),
        el("div", {class: "grid", id: "charts"}, ...charts.map(c => c.node)), lines.node);
    const bar = report ? null : actionBar("job-acts", "admin", {
        pause: [null, () => ({id, checkpoint: true})], resume: [null, () => ({id})],
        stop: [() => `Stop ${id} for good? What is counted by now is kept in a checkpoint.`, () => ({id, checkpoint: true})]});
    const node = el("div", null, head, bar || "", body, card("Who came and went, and what it cost", losses),
        el("div", {class: "grid"}, card("What else happened", happened), card("Checkpoints", cuts)), card("Shards", shards),
        card("As submitted", el("details", null, el("summary", null, "job.json"), spec)));

    // Of this job, and of members while it ran.
    function events() {
        const until = status && status.ended_unix ? status.ended_unix * 1e6 : Infinity;
        const mine = report ? report.events : own.concat(feed.list.filter(e => !e.job && e.member && e.unix_us >= first && e.unix_us <= until))
            .sort((a, b) => a.id - b.id);
        return mine.filter((e, i) => !i || e.id !== mine[i - 1].id);
    }

    function marks() {
        return events().filter(e => GONE.includes(e.kind) && e.kind !== "member-left" && e.kind !== "member-silent")
            .map(e => ({us: e.unix_us, member: e.member, color: e.kind === "member-drains" ? "warn" : "bad"}));
    }

    function place(us) {
        if (axis === "time") return (us - first) / 1e6;
        const after = points.find(p => p.unix_us >= us);
        return after ? after.steps : points.length ? points[points.length - 1].steps : 0;
    }

    function draw() {
        const found = marks();
        for (const c of charts) {
            const measured = points.filter(p => !["loss", "accuracy"].includes(c.key) || p.samples > 0);
            const line = smooth(measured.map(p => ({x: axis === "time" ? (p.unix_us - first) / 1e6 : p.steps, y: p[c.key]})), mean);
            c.set(line, found.map(m => ({x: place(m.us), color: m.color})), log && c.key === "loss");
        }
        lines.set(spans.concat(running), status && status.ended_unix ? Math.min(now, status.ended_unix * 1e6 + 1e6) : now, found);
    }

    function showHead() {
        const s = status, done = s.steps_asked ? 100 * s.steps_counted / s.steps_asked : 0;
        document.title = s.id + " " + s.state + " - Sluice";
        put(head, el("h1", {id: "title"}, `${s.id} ${s.name}`), el("section", null, facts([
            ["state", s.state, "state"], ["epoch", `${s.epoch} of ${s.epochs}`], ["steps", `${whole(s.steps_counted)} of ${whole(s.steps_asked)} (${done.toFixed(0)} %)`],
            ["loss", fine(s.loss)], s.accuracy ? ["accuracy", fine(s.accuracy)] : null, ["samples/s", rate(s)],
            ["workers", s.workers], ["staleness p50", s.staleness_p50], ["remaining", s.remaining_seconds ? span(s.remaining_seconds) : "-"],
            ["elapsed", span(s.elapsed_seconds)], ["parameters", whole(s.parameters)], ["submitted", day(s.submitted_unix)],
            s.tenant ? ["tenant", s.tenant] : null]),
        facts([["closures counted", `${whole(s.closures_counted)} of ${whole(s.closures_asked)}`],
            ["running", whole(s.closures_running)], ["retried", whole(s.closures_retried), "retried"], ["workers lost", whole(s.workers_lost), "lost"],
            ["psservers lost", whole(s.psservers_lost)], ["coordinator restarts", whole(s.coordinator_restarts)],
            ["duplicates refused", whole(s.duplicates)], ["updates stale", whole(s.updates_stale)], ["cuts", whole(s.cuts), "cuts"]]),
        ...(s.reason ? [el("p", {class: "warn"}, s.reason)] : []), ...(s.warnings || []).map(w => el("p", {class: "warn"}, w))));
    }

    function showEvents() {
        const list = events(), by = {};
        for (const e of list) if (e.kind.startsWith("closure-")) by[e.kind] = (by[e.kind] || 0) + 1;
        put(losses, el("p", {class: "dim"}, Object.entries(by).map(([k, n]) => `${k} ${n}`).join(" · ") || "no closure was retried"),
            eventTable(list.filter(e => e.level !== "info" || e.member), 60));
        put(happened, eventTable(list.filter(e => e.level === "info" && !e.member), 40));
    }

    function showShards(list, total) {
        put(shards, el("p", {class: "dim"}, `${whole(total)} shards` + (total > list.length ? `, the first ${list.length}` : "")),
            table(["shard", "psserver", ["n", "bytes"], ["n", "steps applied"], ["n", "duplicates"]], list.map(s => [s.shard, s.psserver || "-",
                ["n", bytes(s.bytes)], ["n", whole(s.counts && s.counts.applied)], ["n", whole(s.counts && s.counts.duplicates)]])));
    }

    function showCuts(list) {
        put(cuts, list.length ? table(["cut", ["n", "steps"], "manifest"], list.map(c =>
            [c.cut || c.number || "-", ["n", whole(c.steps || c.steps_counted)], c.manifest || c.path || "-"])) : el("p", {class: "dim"}, "none yet"));
    }

    const path = "jobs/" + encodeURIComponent(id);
    async function update() {
        if (report) return;
        const news = await get(`${path}/news?event=${ownLast}&span=${last}&point_us=` + (points.length ? points[points.length - 1].unix_us : 0));
        const {events: page, history, timeline: line} = news;
        status = news.status;
        if (ticks === 0) spec.textContent = JSON.stringify((await get(path + "?shards=0")).spec, null, 2);
        first = first || status.submitted_unix * 1e6;
        own = own.concat(page.events || []).slice(-2000);
        ownLast = Math.max(ownLast, page.last);
        showHead();
        showEvents();
        points = points.concat(history.points || []).slice(-POINTS);
        spans = spans.concat((line.spans || []).filter(s => s.ended_us)).slice(-SPANS);
        running = (line.spans || []).filter(s => !s.ended_us);
        last = Math.max(last, line.last);
        now = line.unix_us;
        draw();
        if (ticks++ % 5 === 0) {
            const some = await get(path + `/shards?limit=${PAGE}`);
            showShards(some.shards || [], some.total);
            if (status.cuts !== cutsSeen) showCuts((await get(path + "/checkpoints")).checkpoints || []);
            cutsSeen = status.cuts;
        }
    }

    if (report) {
        status = report.status;
        points = report.history;
        spans = report.spans;
        now = report.unix_us;
        first = points.length ? Math.min(points[0].unix_us, status.submitted_unix * 1e6) : status.submitted_unix * 1e6;
        spec.textContent = JSON.stringify(status.spec || {}, null, 2);
        showHead();
        showEvents();
        showShards((status.shards || []).slice(0, PAGE), (status.shards || []).length);
        showCuts(report.checkpoints);
    }
    return {node, update, draw, events: () => { if (status) showEvents(); },
        leave: () => charts.forEach(c => c.free && c.free())};
}

// ---- the other views

function jobTable(jobs) {
    return table(["id", "name", "state", ["n", "epoch"], ["n", "step"], ["n", "loss"], ["n", "samples/s"], "submitted"], jobs.map(s => [
        jobLink(s.id, s.id), jobLink(s.id, s.name), [s.state, s.state], ["n", `${s.epoch}/${s.epochs}`],
        ["n", `${whole(s.steps_counted)}/${whole(s.steps_asked)}`], ["n", fine(s.loss)], ["n", rate(s)], day(s.submitted_unix)]), {id: "jobs"});
}

const some = counts => Object.entries(counts).filter(([, n]) => n).map(([k, n]) => `${whole(n)} ${k}`).join(", ") || "none";

function overviewView() {
    const head = el("section"), jobs = el("div"), happened = el("div");
    const samples = curve("Samples per second, all jobs", "samples", v => clock(v * 1e6).slice(0, 8));
    const closures = curve("Closures per second", "closures", v => clock(v * 1e6).slice(0, 8));
    const seen = [];
    const per = key => seen.slice(1).map((o, i) => ({x: o.unix_us / 1e6,
        y: Math.max(0, (o[key] - seen[i][key]) / Math.max(0.05, (o.unix_us - seen[i].unix_us) / 1e6))}));
    async function update() {
        const o = await get("overview");
        document.title = "Sluice";
        if (!seen.length || o.unix_us - seen[seen.length - 1].unix_us > 800000) seen.push(o);
        seen.splice(0, seen.length - 600);
        put(head, facts([["jobs", some(o.jobs)], ["workers", some(o.workers), "workers"], ["psservers", some(o.psservers)],
            ["closures counted", whole(o.closures)], ["attempts that failed", whole(o.retries)], ["workers lost", whole(o.workers_lost), "lost"],
            ["cuts", whole(o.cuts)], ["term", o.term], ["TLS", o.tls ? "on" : "off"], ["version", o.version]]));
        const losses = feed.list.filter(e => e.kind === "member-lost").map(e => ({x: e.unix_us / 1e6, color: "bad"}));
        samples.set(per("samples"), losses);
        closures.set(per("closures"), losses);
        put(jobs, jobTable((await get("jobs?limit=10")).jobs || []));
        put(happened, eventTable(feed.list, 15));
    }
    return {node: el("div", null, el("h1", null, "Overview"), head, el("div", {class: "grid"}, samples.node, closures.node),
        card("Newest jobs", jobs), card("What happened", happened)), update,
    events: () => put(happened, eventTable(feed.list, 15)), leave() { samples.free && samples.free(); closures.free && closures.free(); }};
}

function jobsView() {
    const list = el("div"), before = [];
    let page = [];
    const filter = el("input", {placeholder: "name or state", "aria-label": "filter", input: () => soon()});
    const button = (text, fn) => el("button", {type: "button", click: () => { fn(); soon(); }}, text);
    async function update() {
        page = (await get(`jobs?limit=${PAGE}` + (before.length ? "&before=" + before[before.length - 1] : ""))).jobs || [];
        const word = filter.value.toLowerCase();
        put(list, jobTable(page.filter(s => (s.name + " " + s.state).toLowerCase().includes(word))));
    }
    return {node: el("div", null, el("h1", null, "Jobs"), el("div", {class: "bar"}, filter,
        button("newer", () => { before.pop(); }), button("older", () => { if (page.length === PAGE) before.push(page[PAGE - 1].job); })),
    el("section", null, list)), update};
}

// A square a member: a thousand fit on a screen.
function squares(label, color) {
    const canvas = el("canvas", {role: "img", "aria-label": label}), note = el("div", {class: "dim"}, " ");
    const size = 16;
    let list = [], across = 1;
    canvas.addEventListener("mousemove", e => {
        const m = list[Math.floor(e.offsetY / size) * across + Math.floor(e.offsetX / size)];
        note.textContent = m ? `${m[0]}: ${m[1]}, ${m[2]} ${label === "workers" ? "leases" : "shards"}` : " ";
    });
    const node = card(label[0].toUpperCase() + label.slice(1), canvas, note);
    return {node, set(next) {
        list = next;
        across = Math.max(1, Math.floor((node.clientWidth - 30) / size));
        canvas.width = across * size;
        canvas.height = Math.max(1, Math.ceil(list.length / across)) * size;
        node.dataset.count = list.length;
        const g = canvas.getContext("2d");
        list.forEach((m, i) => {
            g.fillStyle = css(color(m));
            g.fillRect(i % across * size, Math.floor(i / across) * size, size - 3, size - 3);
        });
    }};
}

function clusterView() {
    const list = el("div"), moved = el("div"), where = el("span", {class: "dim"});
    const state = m => m[1] === "lost" ? "bad" : m[1] !== "ready" ? "warn" : m[2] ? "good" : "run";
    const workers = squares("workers", state), servers = squares("psservers", state);
    const name = el("input", {placeholder: "name", "aria-label": "filter by name", input: () => { from = 0; soon(); }});
    let from = 0, found = 0;
    const button = (text, fn) => el("button", {type: "button", click: () => { fn(); soon(); }}, text);
    const events = () => put(moved, eventTable(feed.list.filter(moves), 60));
    async function update() {
        const all = await get("map");
        workers.set(all.workers);
        servers.set(all.psservers);
        const page = await get(`members?from=${from}&limit=${PAGE}&name=` + encodeURIComponent(name.value));
        found = page.found;
        where.textContent = found ? `${from + 1} to ${from + page.members.length} of ${found}` : "none";
        put(list, table(["name", "role", "state", ["n", "leases"], ["n", "shards"], ["n", "memory"], ["n", "beat"], "up", "host", "device or address", "version", "why"],
            page.members.map(m => Object.assign([m.name, m.role, [m.state, m.state], ["n", m.leases], ["n", m.shards], ["n", bytes(m.resident_bytes)],
                ["n", Math.round(m.heartbeat_age_ms / 100) / 10 + " s"], span(m.attached_seconds), m.host || "-", m.device || m.address || "-", m.version || "-", m.reason || ""],
            {attributes: {"data-member": m.name, "data-pid": m.pid, "data-state": m.state}})), {id: "members"}));
        events();
    }
    const worker = el("input", {id: "act-name", placeholder: "worker", "aria-label": "worker to drain"});
    const why = el("input", {id: "act-why", placeholder: "why", "aria-label": "why"});
    const asked = () => ({name: worker.value.trim(), why: why.value.trim()});
    const bar = actionBar("member-acts", "admin", {drain: [null, asked], undrain: [null, asked]}, worker, why);
    return {node: el("div", null, el("h1", null, "Cluster"), legend([["good", "works"], ["run", "ready"], ["warn", "drains, silent"], ["bad", "lost"]]),
        el("div", {class: "grid"}, workers.node, servers.node), card("Members", el("div", {class: "bar"}, name,
            button("◀", () => { from = Math.max(0, from - PAGE); }), button("▶", () => { if (from + PAGE < found) from += PAGE; }), where), bar, list),
        card("Who came, went and moved", moved)), update, events};
}

function eventsView() {
    const list = el("div");
    const filter = el("input", {placeholder: "kind, member or text", "aria-label": "filter", input: () => events()});
    function events() {
        const word = filter.value.toLowerCase();
        put(list, eventTable(feed.list.filter(e => `${e.kind} ${e.member} ${e.text}`.toLowerCase().includes(word)), EVENTS));
    }
    return {node: el("div", null, el("h1", null, "Events"), el("div", {class: "bar"}, filter), el("section", null, list)),
        update: async () => events(), events};
}

// ---- the page

const VIEWS = [["", "Overview", overviewView], ["jobs", "Jobs", jobsView], ["cluster", "Cluster", clusterView], ["events", "Events", eventsView]];
const place = el("main", {id: "view"});

function show() {
    const path = location.hash.replace(/^#\/?/, "");
    if (view && view.leave) view.leave();
    if (path.startsWith("job/")) {
        view = jobView(decodeURIComponent(path.slice(4)));
    } else {
        view = (VIEWS.find(v => v[0] === path) || VIEWS[0])[2]();
    }
    for (const a of document.querySelectorAll("header a")) {
        if (a.getAttribute("href") === "#/" + path) a.setAttribute("aria-current", "page");
        else a.removeAttribute("aria-current");
    }
    place.replaceChildren(view.node);
    soon();
}

if (report) {
    document.body.append(el("header", null, el("b", null, "Sluice"), el("span", {class: "dim"},
        "report of " + new Date(report.unix_us / 1000).toISOString().slice(0, 19).replace("T", " ") + " UTC")), place);
    view = jobView(report.status.id);
    place.replaceChildren(view.node);
    view.draw();
} else {
    live = el("span", {id: "live", role: "status"});
    document.body.append(el("header", null, el("b", null, "Sluice"),
        ...VIEWS.map(([path, name]) => el("a", {href: "#/" + path}, name)), live), place);
    window.addEventListener("hashchange", show);
    show();
    follow().catch(error => say("no answer: " + error.message));
    get("actions").then(told => {
        if (told.actions.length) live.before(tokenBox());
    }).catch(error => say("no answer: " + error.message));
}
})();
