// SPDX-License-Identifier: Apache-2.0
// The dashboard, and the page of a report: what the coordinator says of itself,
// as text, tables and charts. Whatever comes from outside becomes text of a
// node and nothing else.
"use strict";
(() => {
const given = document.getElementById("data");
// What others say may hold marks that turn the direction of writing, and other
// characters that nobody sees: they are shown by their numbers.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const plain = text => text.replace(HIDDEN, c => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
const read = text => JSON.parse(text, (key, value) => typeof value === "string" ? plain(value) : value);
const report = given ? read(given.textContent) : null;
const EVENTS = 500, MOVES = 1000, POINTS = 120000, SPANS = 4000, ROWS = 40, PAGE = 50;
const BEAT_MS = 900; // with what an answer takes, no number is older than a second
const PATIENCE_MS = 20000; // then a question is asked anew

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

const tones = new Map(); // of the theme
function css(name) {
    if (!tones.has(name)) tones.set(name, getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim());
    return tones.get(name);
}
// What is not known is null, and "-" on the page.
const known = n => typeof n === "number" && isFinite(n);
const whole = n => known(n) ? Math.round(n).toLocaleString("en") : "-";
const fine = n => !known(n) ? "-" : n !== 0 && (Math.abs(n) < 1e-3 || Math.abs(n) >= 1e6) ? n.toExponential(3) : n.toPrecision(4);
const percent = n => known(n) ? Math.round(100 * n) + " %" : "-";
const clock = us => new Date(us / 1000).toTimeString().slice(0, 8) + "." +
    String(Math.floor(us / 1000) % 1000).padStart(3, "0");
// Every time is the browser's own: a date, "2026-11-26", and a date with a time.
const date = ms => new Date(ms - new Date(ms).getTimezoneOffset() * 60000).toISOString().slice(0, 10);
const day = s => s ? date(s * 1000) + " " + clock(s * 1e6).slice(0, 5) : "-";
const moment = us => (date(us / 1000) === date(Date.now()) ? "" : date(us / 1000) + " ") + clock(us);
const bytes = n => { let i = 0; if (!known(n)) return "-"; while (n >= 1024 && i < 4) { n /= 1024; i++; }
    return (i ? n.toFixed(1) : n) + " " + ["B", "KiB", "MiB", "GiB", "TiB"][i]; };
const span = s => { s = Math.round(s || 0); return s < 60 ? s + " s" : s < 3600
    ? Math.floor(s / 60) + " min " + s % 60 + " s" : Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min"; };
const jobLink = (id, text) => report ? el("span", null, text) : el("a", {href: "#/job/" + encodeURIComponent(id)}, text);
const rate = s => ["running", "evaluating"].includes(s.state) ? whole(s.images_per_second) : "-";

// A table of cells: text, a node, or [class, text]. Where it has no room each row
// is a paragraph, in which a cell says what it is unless it is seen.
function table(head, rows, attributes) {
    const parts = c => Array.isArray(c) ? c : [null, c];
    const names = head.map(h => parts(h)[1]).map(h => h.textContent || h);
    const seen = what => what instanceof Element && (what.matches(".badge, progress"));
    return el("table", Object.assign({class: head.length > 12 ? "broad" : head.length > 8 ? "long" : null}, attributes), el("thead", null, el("tr", null, ...head.map(h => el("th", {class: parts(h)[0]}, parts(h)[1].cloneNode ? parts(h)[1].cloneNode(true) : parts(h)[1])))),
        el("tbody", null, ...rows.map(r => el("tr", r.attributes, ...r.map((c, i) =>
            el("td", {class: parts(c)[0], "data-label": seen(parts(c)[1]) ? null : names[i],
                "data-none": parts(c)[1] === "-" ? "" : null}, parts(c)[1]))))));
}

function facts(pairs, attributes) {
    return el("dl", Object.assign({class: "facts"}, attributes), ...pairs.filter(p => p).map(([name, value, id]) =>
        el("div", null, el("dt", null, name), el("dd", id ? {id} : null, value))));
}

const TONES = {running: "run", ready: "good", finished: "good", evaluating: "run", finishing: "run", failed: "bad", lost: "bad", stopped: "dim"};
const badge = (state, attributes, text) => el("span", Object.assign({class: "badge " + (TONES[state] || "warn")}, attributes), text || state);

// ---- words

const WORDS = {
    "accuracy": "The share of samples whose prediction was right.",
    "angle": "Between what a worker's last contribution changed and the mean of its round. Small ones mean that all workers go the same way.",
    "closure": "A piece of a job that one worker leases at a time: some consecutive steps. It may run several times and counts once.",
    "contribution": "In mode local: what one worker changed in many steps of its own, before it met the others.",
    "coordinator restarts": "How often the coordinator was started again while the job went on.",
    "computing": "The share of the last seconds in which the worker's device, CPU or GPU, computed gradients. Far below 100 %: see what it waits for.",
    "cores used": "Processor cores that the process kept busy over the last seconds.",
    "counted": "A step is counted once every shard has applied it, or has deliberately skipped it. It counts once, whoever pushes it and however often.",
    "cut": "A checkpoint: a snapshot of every shard, and the manifest that names them all. Without its manifest it does not exist.",
    "duplicates refused": "Updates that came again after a worker, a psserver or a connection was lost. A shard acknowledges such an update and ignores it.",
    "epoch": "One pass over all training samples.",
    "evaluation": "A pass over the test set with the parameters of one cut; its loss is the validation loss.",
    "heartbeat": "How long ago the member was last heard of. It speaks several times a second; one that is silent for long is lost.",
    "job": "One training run: model, data, optimizer, mode and limits.",
    "lease": "A worker's right to compute a closure, for a limited time. It is renewed by each heartbeat.",
    "network": "Bytes per second through the network interfaces of the member's host, all processes together, without loopback.",
    "norm": "How long a contribution is: the root of the sum of the squares of all that it changes. One that is far longer than the median is set aside.",
    "psserver": "A parameter server: it holds shards and applies the gradients that workers push.",
    "pushes": "Gradients that the psserver took per second over the last seconds: each step of a worker is one for each shard.",
    "reading": "The share of the last seconds in which the worker read and prepared samples.",
    "retried": "Closures that were given out again because their worker was lost, failed or stood still.",
    "row": "What a sparse table keeps for one id, on a psserver: its values and the optimizer's state.",
    "shard": "A range of the model's parameters with their optimizer state, on one psserver.",
    "staleness": "How many other updates were applied between a worker's reading of the parameters and its own update. The median is shown.",
    "step": "One batch: one gradient, which becomes one update of every shard.",
    "term": "A number that rises each time the coordinator starts. It keeps an older coordinator out.",
    "updates skipped": "Steps that were counted without an update, because their gradient was not finite.",
    "updates stale": "Updates that were refused because too many others were applied since their worker read the parameters (train.max_delay).",
    "waiting": "The share of the last seconds in which the worker waited for psservers or for other workers.",
    "worker": "A process that computes gradients. It may vanish at any moment.",
};

// Text with an explanation behind it, which a pointer, a key or a finger opens.
function word(text, of) {
    return el("button", {type: "button", class: "word", "data-word": of || text}, text);
}

const tip = el("div", {id: "tip", role: "tooltip", hidden: ""});
function explain(e) {
    const at = e.target.closest ? e.target.closest("[data-word]") : null, text = at && WORDS[at.dataset.word];
    tip.hidden = !text;
    if (!text) return;
    const box = at.getBoundingClientRect();
    tip.textContent = text;
    tip.style.left = Math.max(8, Math.min(box.left, document.documentElement.clientWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = (box.bottom + 6 + tip.offsetHeight > innerHeight ? Math.max(8, box.top - tip.offsetHeight - 6) : box.bottom + 6) + "px";
}
for (const kind of ["click", "mouseover", "focusin"]) document.addEventListener(kind, explain);
document.addEventListener("keydown", e => { if (e.key === "Escape") tip.hidden = true; });
document.addEventListener("scroll", () => { tip.hidden = true; }, {capture: true, passive: true});

const glossary = () => el("dl", {class: "glossary"}, ...Object.entries(WORDS).flatMap(([name, text]) => [el("dt", null, name), el("dd", null, text)]));

const card = (title, ...children) => el("section", null, el("h2", null, title), ...children);

// Puts the new in the place of the old, and touches only what is other: who
// reads, selects text or has the focus somewhere is not disturbed for nothing.
function put(place, ...nodes) {
    replace(place, el("div", null, ...nodes));
}

function replace(place, next) {
    const old = [...place.childNodes], fresh = [...next.childNodes];
    if (old.length !== fresh.length) { place.replaceChildren(...fresh); return; }
    old.forEach((node, i) => {
        if (node.isEqualNode(fresh[i])) return;
        if (node.nodeType === 1 && node.cloneNode().isEqualNode(fresh[i].cloneNode())) replace(node, fresh[i]);
        else node.replaceWith(fresh[i]);
    });
}

// ---- data

async function get(path) {
    const answer = await fetch("/api/v1/" + path, {cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS)});
    const body = read(await answer.text());
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
    const told = read(await answer.text());
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

// The newest events; and of members, which those of a busy job would push out.
const feed = {list: [], moves: [], last: 0, source: null};
let view = null, live = null;

function say(text) { if (live) live.textContent = text; }

function take(events) {
    let some = false;
    for (const e of events) {
        if (e.id <= feed.last) continue;
        feed.list.push(e);
        if (moves(e)) feed.moves.push(e);
        feed.last = e.id;
        some = true;
    }
    feed.list.splice(0, feed.list.length - EVENTS);
    feed.moves.splice(0, feed.moves.length - MOVES);
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
    const older = (await get("events?cluster=1&newest=1&limit=" + MOVES)).events || [];
    feed.moves = older.filter(e => moves(e) && e.id < (feed.list[0] || {id: Infinity}).id).concat(feed.moves);
    if (!window.EventSource) return;
    const source = new EventSource("/api/v1/events?after=" + feed.last);
    source.onopen = () => { feed.source = source; };
    source.onmessage = m => take([read(m.data)]);
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
    } finally {
        busy = false;
    }
    if (at !== view) soon();
}

const GONE = ["member-lost", "member-silent", "member-drains", "member-left", "member-replaced"];
const moves = e => e.kind.startsWith("member-") || e.kind.startsWith("shard") || e.kind.startsWith("worker-");

function eventTable(events, most) {
    return table(["time", "what", "job", ["text", "text"]], events.slice(-most).reverse().map(e => Object.assign([
        ["t", moment(e.unix_us)], ["t " + e.level, e.kind], e.job ? jobLink("j-" + e.job, "j-" + e.job) : "-", ["text", e.text]],
        {attributes: {"data-event": e.kind, "data-id": e.id, "data-us": e.unix_us, "data-member": e.member || null}})));
}

// ---- charts

// Steps between ticks that people count in.
const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

// The ticks of an axis of whole numbers, or of seconds: round ones, at most `most`.
function ticks(from, to, most, steps) {
    const least = Math.max(0, to - from) / most;
    let step = (steps || []).find(s => s >= least);
    if (!step) {
        const unit = Math.pow(10, Math.max(0, Math.floor(Math.log10(least || 1))));
        step = [1, 2, 5, 10].map(n => n * unit).find(s => s >= least) || unit;
    }
    const list = [];
    for (let v = Math.ceil(from / step) * step; v <= to && list.length < 50; v += step) list.push({value: v});
    return list;
}

const short = n => Math.abs(n) >= 10000 ? n.toLocaleString("en", {notation: "compact", maximumFractionDigits: 1})
    : n.toLocaleString("en", {maximumSignificantDigits: 4});
const seconds = v => v < 120 && v !== 60 ? Math.round(v < 10 ? 10 * v : v) / (v < 10 ? 10 : 1) + " s" : v < 7200 ? Math.round(v / 6) / 10 + " min" : Math.round(v / 360) / 10 + " h";
const AXES = {
    time: {text: seconds, steps: [0.1, 0.2, 0.5].concat(SECONDS)}, steps: {text: short}, epochs: {text: short},
    clock: {text: v => clock(v * 1e6).slice(0, 8), steps: SECONDS},
};

const marksPlugin = {
    id: "marks",
    afterDatasetsDraw(chart) {
        const {ctx, chartArea: area, scales: {x}} = chart;
        for (const m of chart.$marks || []) {
            const at = x.getPixelForValue(m.x);
            if (!(at >= area.left && at <= area.right)) continue;
            ctx.save();
            ctx.strokeStyle = ctx.fillStyle = css(m.color);
            ctx.setLineDash(m.text ? [] : [4, 3]);
            ctx.beginPath();
            ctx.moveTo(at, area.top);
            ctx.lineTo(at, area.bottom);
            ctx.stroke();
            if (m.text) {
                ctx.font = "600 11px system-ui, sans-serif";
                ctx.textAlign = at > (area.left + area.right) / 2 ? "right" : "left";
                ctx.strokeStyle = css("card"); // the word stands before the curves
                ctx.lineWidth = 4;
                ctx.strokeText(m.text, at + (ctx.textAlign === "left" ? 4 : -4), area.top + 10 + 13 * (m.row || 0));
                ctx.fillText(m.text, at + (ctx.textAlign === "left" ? 4 : -4), area.top + 10 + 13 * (m.row || 0));
            }
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

const drawn = new Set(); // charts that a new theme repaints

// A chart of one or more lines, each {label, color, points: [{x, y}], dots};
// a y of null is a gap. {node, set(lines, marks, axis, log)}; `integers`: so is
// each y. Without the library it is a table of the last values.
function curve(title, name, integers) {
    const box = el("div", {class: "chart"}), key = el("span", {class: "keys"});
    const node = el("section", {"data-chart": name}, el("h2", null, title, key), box);
    const text = integers ? whole : fine;
    function describe(lines, marks) {
        const dotted = lines.map(line => line.points.filter(p => p.y !== null));
        node.dataset.points = lines.length ? lines[0].points.length : 0;
        node.dataset.lines = lines.map((line, i) => line.label + " " + dotted[i].length).join(", ");
        node.dataset.marks = marks.length;
        put(key, ...lines.map((line, i) => el("span", null, lines.length > 1 ? el("span", {class: "key " + line.color}) : "",
            lines.length > 1 ? line.label + " " : "", el("b", null, dotted[i].length ? text(dotted[i][dotted[i].length - 1].y) : "-"))));
        return dotted.some(points => points.length);
    }
    if (!window.Chart) {
        box.className = "";
        return {node, set(lines, marks, axis) {
            describe(lines, marks);
            put(box, ...lines.map(line => table(["at", ["n", line.label || title.textContent || title]],
                line.points.slice(-8).reverse().map(p => [AXES[axis].text(p.x), ["n", text(p.y)]]))));
        }};
    }
    const canvas = el("canvas", {role: "img", "aria-label": title.textContent || title}), empty = el("p", {class: "empty dim"}, "nothing yet");
    box.append(canvas, empty);
    let at = "time";
    const chart = new Chart(canvas, {
        type: "line",
        data: {datasets: []},
        options: {
            animation: false, parsing: false, responsive: true, maintainAspectRatio: false,
            interaction: {mode: "nearest", axis: "x", intersect: false},
            plugins: {legend: {display: false}, tooltip: {callbacks: {title: i => AXES[at].text(i[0].parsed.x),
                label: i => (i.dataset.label ? i.dataset.label + " " : "") + text(i.parsed.y)}}},
            scales: {
                x: {type: "linear", ticks: {maxRotation: 0, autoSkipPadding: 12, callback: v => AXES[at].text(v)}, grid: {},
                    afterBuildTicks: axis => { axis.ticks = ticks(axis.min, axis.max, Math.max(2, Math.min(8, axis.width / 64)), AXES[at].steps); }},
                y: {type: "linear", ticks: {maxTicksLimit: 6, callback: v => short(v)}, grid: {}},
            },
        },
        plugins: [marksPlugin],
    });
    let gone = false, last = null;
    const me = {node, set(lines, marks, axis, log) {
        if (gone) return; // an answer for a view that was left
        last = [lines, marks, axis, log];
        at = axis;
        empty.hidden = describe(lines, marks);
        const {x, y} = chart.options.scales, ends = lines.filter(line => line.points.length);
        chart.data.datasets = lines.map(line => ({label: line.label, data: thin(line.points, chart.width), borderWidth: line.dots ? 2 : 1.5,
            borderColor: css(line.color), backgroundColor: css(line.color), clip: 5,
            pointRadius: line.points.length < 3 || line.dots && line.points.length < 50 ? 3 : 0}));
        x.min = ends.length ? Math.min(...ends.map(line => line.points[0].x)) : undefined;
        x.max = ends.length ? Math.max(...ends.map(line => line.points[line.points.length - 1].x)) : undefined;
        y.type = log ? "logarithmic" : "linear";
        y.ticks.precision = integers ? 0 : undefined;
        const values = lines.flatMap(line => line.points.length < 100 ? line.points.map(p => p.y).filter(known) : [NaN, 0]);
        const flat = !integers && values.length && values.every(v => v === values[0]) ? Math.abs(values[0]) / 10 || 1 : 0;
        y.min = integers ? 0 : undefined;
        y.suggestedMin = flat ? values[0] - flat : undefined; // the library would have an accuracy of -1
        y.suggestedMax = flat ? values[0] + flat : undefined;
        y.grace = integers ? "10%" : undefined;
        for (const scale of [x, y]) {
            scale.ticks.color = css("dim");
            scale.grid.color = scale.grid.borderColor = css("line");
        }
        chart.$marks = marks;
        chart.update("none");
    }, repaint() { if (last) me.set(...last); }, free() { gone = true; drawn.delete(me); chart.destroy(); }};
    drawn.add(me);
    return me;
}

const smooth = (points, by) => {
    let mean = null;
    return by ? points.map(p => ({x: p.x, y: p.y === null ? null : mean = mean === null ? p.y : by * mean + (1 - by) * p.y})) : points;
};

// ---- what the curves of a job are made of

const perEpoch = s => s.epochs ? s.steps_asked / s.epochs : 0;
const stepsOf = (s, e) => e.steps || e.epoch * perEpoch(s);
const began = (s, points) => points.length ? points[0].unix_us : s.submitted_unix * 1e6;
const evaluated = s => (s.evaluations || []).filter(e => !e.failed);

// The evaluation that counts as the best: what a callback watches, else the
// lowest loss. null: there is none.
function best(s) {
    const c = s.callbacks || {}, by = [c.best_checkpoint, c.early_stopping].find(k => k && k.has_best);
    const list = evaluated(s);
    if (by) return list.find(e => stepsOf(s, e) === by.best_steps) || null;
    return list.filter(e => known(e.loss)).reduce((a, e) => !a || e.loss < a.loss ? e : a, null);
}

// The index of the first of the points that `is`, which all after it are, too.
function firstOf(points, is) {
    let from = 0, to = points.length;
    while (from < to) {
        const middle = (from + to) >> 1;
        if (is(points[middle])) to = middle; else from = middle + 1;
    }
    return from;
}

// Where on the axis a moment or a number of steps lies.
function placer(axis, s, points) {
    const zero = began(s, points), last = points.length - 1;
    const at = i => points[Math.min(Math.max(0, i), last)];
    const ofPoint = p => axis === "time" ? (p.unix_us - zero) / 1e6 : axis === "steps" ? p.steps : perEpoch(s) ? p.steps / perEpoch(s) : 0;
    function secondsOf(n) { // between two points, as if the steps had come evenly
        const i = firstOf(points, p => p.steps >= n), a = at(i - 1), b = at(i);
        const part = b.steps > a.steps ? Math.min(1, Math.max(0, (n - a.steps) / (b.steps - a.steps))) : 1;
        return (a.unix_us + part * (b.unix_us - a.unix_us) - zero) / 1e6;
    }
    return {
        point: ofPoint,
        moment: us => axis === "time" ? (us - zero) / 1e6 : last < 0 ? 0 : ofPoint(at(firstOf(points, p => p.unix_us >= us))),
        steps: n => axis !== "time" ? ofPoint({steps: n}) : last < 0 ? 0 : secondsOf(n),
    };
}

const LEARNT = ["loss", "accuracy"]; // of samples; and evaluations have them

// The lines of `key`: what was measured in training, and by evaluations.
function linesOf(key, axis, s, points, mean, colors, name) {
    const where = placer(axis, s, points), learnt = LEARNT.includes(key), line = [];
    let before = -Infinity;
    for (const p of points) {
        const x = where.point(p);
        if (x < before) continue; // a shard that fell back has fewer steps
        before = x;
        line.push({x, y: known(p[key]) && (!learnt || p.samples > 0) ? p[key] : null});
    }
    const lines = [{label: learnt ? name + "training" : name.trim(), color: colors[0], points: smooth(line, mean)}];
    const list = learnt ? evaluated(s).filter(e => known(e[key])) : [];
    if (list.length) lines.push({label: name + "validation", color: colors[1], dots: true,
        points: list.map(e => ({x: where.steps(stepsOf(s, e)), y: e[key]})).sort((a, b) => a.x - b.x)});
    return lines;
}

const CHARTS = [["Loss", "loss", "loss"], ["Accuracy", "accuracy", "accuracy"],
    ["Samples per second", "throughput", "images_per_second", true], [word("Staleness", "staleness"), "staleness", "staleness_p50", true],
    ["Workers that hold a lease", "workers", "workers", true], ["Steps counted", "steps", "steps", true]];

// The six charts, and the buttons that say over what: {node, set(sources, marks)}, sources
// [{status, points, name, colors}].
function chartSet(keys) {
    let axis = "time", log = false, mean = 0, last = null;
    const charts = CHARTS.map(([title, name, key, integers]) => Object.assign(curve(title.cloneNode ? title.cloneNode(true) : title, name, integers), {key}));
    const press = (text, is, fn) => {
        const button = el("button", {type: "button", "aria-pressed": "false", click: () => { fn(); for (const b of all) b.show(); if (last) set(...last); }}, text);
        button.show = () => button.setAttribute("aria-pressed", String(is()));
        return button;
    };
    const over = ["time", "steps", "epochs"].map(a => press(a, () => axis === a, () => { axis = a; }));
    const how = [press("log loss", () => log, () => { log = !log; }), press("smooth", () => mean > 0, () => { mean = mean ? 0 : 0.9; })];
    const all = over.concat(how);
    for (const b of all) b.show();
    function set(sources, marks) {
        last = [sources, marks];
        for (const c of charts) {
            const found = marks.map(([i, m]) => ({color: m.color, x: placer(axis, sources[i].status, sources[i].points).moment(m.us)}));
            if (LEARNT.includes(c.key)) sources.forEach(({status, points, name, colors}, row) => {
                const e = best(status);
                if (e) found.push({color: colors[1], text: name + "best", row, x: placer(axis, status, points).steps(stepsOf(status, e))});
            });
            c.set(sources.flatMap(({status, points, name, colors}) => linesOf(c.key, axis, status, points, mean, colors, name)),
                found, axis, log && c.key === "loss");
        }
    }
    return {node: el("div", {id: "charts"}, el("div", {class: "bar"}, el("span", {class: "group", role: "group", "aria-label": "charts over"}, ...over), ...how, keys || ""),
        el("div", {class: "grid two"}, ...charts.slice(0, 2).map(c => c.node)), el("div", {class: "grid four"}, ...charts.slice(2).map(c => c.node))),
    set, free() { for (const c of charts) if (c.free) c.free(); }};
}

// ---- one job

const COLORS = {"": "run", counted: "good", lost: "bad", stalled: "bad", failed: "other", "handed-back": "warn",
    revoked: "warn", stale: "dim", second: "dim", cancelled: "dim"};

const LOST = ["bad dashed", "a worker or psserver was lost"]; // what a line across a chart means

function legend(pairs) {
    return el("div", {class: "bar dim"}, ...pairs.map(([color, text]) =>
        el("span", null, el("span", {class: "key " + color}), text)));
}

function timelineCard() {
    const canvas = el("canvas", {role: "img", "aria-label": "closures over workers"});
    const where = el("span", {class: "dim"});
    let page = 0, chosen = null, seconds = 60, last = null; // seconds 0: all of it
    const button = (text, fn) => el("button", {type: "button", click: () => { fn(); if (last) set(...last); }}, text);
    const windows = [["30 s", 30], ["1 min", 60], ["5 min", 300], ["all", 0]].map(([text, n]) =>
        Object.assign(button(text, () => { chosen = n; }), {show() { this.setAttribute("aria-pressed", String(seconds === n)); }}));
    const node = el("section", {id: "timeline"}, el("h2", null, el("span", null, word("Closures", "closure"), " over workers")),
        el("div", {class: "bar"}, el("span", {class: "group", role: "group", "aria-label": "the last"}, ...windows),
            button("◀", () => { page = Math.max(0, page - 1); }), button("▶", () => { page++; }), where),
        canvas, legend([["good", "counted"], ["run", "runs"], ["bad", "lost, stalled"], ["warn", "handed back"],
            ["other", "failed"], ["dim", "stale, second, cancelled"]]));

    function set(spans, now, marks, ended) {
        last = [spans, now, marks, ended];
        seconds = chosen !== null ? chosen : ended ? 0 : 60;
        for (const w of windows) w.show();
        const begin = Math.max(seconds ? now - seconds * 1e6 : 0, spans.reduce((a, s) => Math.min(a, s.begun_us), now));
        const seen = spans.filter(s => (s.ended_us || now) >= begin);
        const names = [...new Set(seen.map(s => s.worker))].sort((a, b) => a.localeCompare(b, "en", {numeric: true}));
        page = Math.min(page, Math.max(0, Math.ceil(names.length / ROWS) - 1));
        const shown = names.slice(page * ROWS, (page + 1) * ROWS);
        where.textContent = shown.length ? `workers ${page * ROWS + 1} to ${page * ROWS + shown.length} of ${names.length}` : "nothing yet";
        node.dataset.spans = seen.length;
        node.dataset.workers = names.join(" ").slice(0, 2000);
        const scale = window.devicePixelRatio || 1, left = Math.min(110, 10 + 7 * shown.reduce((most, name) => Math.max(most, name.length), 4)), row = 15;
        const width = Math.max(240, node.clientWidth - 30), height = shown.length * row + 20;
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
        const long = now - begin > 864e8; // more than a day
        g.textAlign = "center";
        for (const {value} of ticks(begin / 1e6, now / 1e6, Math.max(2, Math.min(8, (width - left) / (long ? 140 : 90))), SECONDS)) {
            const at = x(value * 1e6), half = long ? 50 : 26;
            g.fillRect(at, height - 18, 1, 3);
            g.fillText(long ? day(value) : clock(value * 1e6).slice(0, 8), Math.max(left + half, Math.min(at, width - half)), height - 4);
        }
    }
    return {node, set};
}

// What is known of a job, and what comes: {status, points, spans, running, events, now, update()}.
function follower(id) {
    const path = "jobs/" + encodeURIComponent(id);
    const me = {status: null, points: [], spans: [], running: [], events: [], now: 0};
    let event = 0, span = 0;
    me.update = async () => {
        const news = await get(`${path}/news?event=${event}&span=${span}&point_us=` + (me.points.length ? me.points[me.points.length - 1].unix_us : 0));
        const {events: page, history, timeline: line} = news, fresh = history.points || [];
        if (!me.status) { // seconds go back an hour, minutes a day
            const old = (await get(path + "/history?minutes=1")).points || [];
            me.points = fresh.length ? old.filter(p => p.unix_us < fresh[0].unix_us) : old;
        }
        me.status = news.status;
        me.points = me.points.concat(fresh).slice(-POINTS);
        me.events = me.events.concat(page.events || []).slice(-2000);
        event = Math.max(event, page.last);
        me.spans = me.spans.concat((line.spans || []).filter(s => s.ended_us)).slice(-SPANS);
        me.running = (line.spans || []).filter(s => !s.ended_us);
        span = Math.max(span, line.last);
        me.now = line.unix_us;
    };
    return me;
}

// What holds of a job's state, as badges; and the bar of how far it is.
function states(s) {
    return [badge(s.state, {id: "state"}), s.pause ? badge("paused") : "", s.queued_before ? badge("queued") : ""];
}

function progressOf(s) {
    const done = s.steps_asked ? s.steps_counted / s.steps_asked : 0, ended = Boolean(s.ended_unix);
    return el("div", {class: "progress"}, el("progress", {max: s.steps_asked || 1, value: s.steps_counted, "aria-label": "steps counted",
        class: TONES[s.state] || "warn"}), el("span", null, el("b", null, Math.floor(100 * done) + " %"),
    ` · epoch ${whole(s.epoch)} of ${whole(s.epochs)} · ${whole(s.steps_counted)} of ${whole(s.steps_asked)} steps`),
    el("span", {class: "dim"}, ended ? `took ${span(s.elapsed_seconds)}` : s.remaining_seconds ? `about ${span(s.remaining_seconds)} left` : ""));
}

// The numbers that a job is judged by, first; and those of how it went.
function numbersOf(s) {
    const top = best(s), list = evaluated(s), last = list[list.length - 1];
    const rightly = known(s.accuracy) && (s.accuracy !== 0 || list.some(e => e.accuracy));
    return [[["training loss", fine(s.loss)], rightly ? ["training accuracy", fine(s.accuracy)] : null,
        last ? ["validation loss", fine(last.loss)] : null, last && rightly ? ["validation accuracy", fine(last.accuracy)] : null,
        top ? ["best epoch (its loss)", `${top.epoch || "-"} (${fine(top.loss)})`, "best"] : null,
        s.ended_unix ? null : ["samples/s", rate(s)], s.ended_unix ? null : [word("workers", "worker"), whole(s.workers)], ["elapsed", span(s.elapsed_seconds)]],
    [[word("closures counted", "closure"), `${whole(s.closures_counted)} of ${whole(s.closures_asked)}`], ["closures running", whole(s.closures_running)],
        [word("retried"), whole(s.closures_retried), "retried"], ["workers lost", whole(s.workers_lost), "lost"],
        [word("psservers lost", "psserver"), whole(s.psservers_lost)], [word("coordinator restarts"), whole(s.coordinator_restarts)],
        [word("duplicates refused"), whole(s.duplicates)], [word("updates stale"), whole(s.updates_stale)],
        [word("updates skipped"), whole(s.updates_skipped)], [word("staleness p50", "staleness"), whole(s.staleness_p50)],
        [word("cuts", "cut"), whole(s.cuts), "cuts"], ["parameters", whole(s.parameters)],
        known(s.rows) && s.rows > 0 ? [word("rows of tables", "row"), `${whole(s.rows)}, ${bytes(s.rows_bytes)}`] : null, ["submitted", day(s.submitted_unix)],
        s.tenant ? ["tenant", s.tenant] : null]];
}

// Of a job in mode local: what its contributions are like, and what each worker's last one was.
function contributionsOf(s) {
    const l = s.local, norm = n => n < 0 ? "not finite" : n ? fine(n) : "-";
    return [facts([["bytes of a sample, up", bytes(Math.round(l.pushed_bytes))], ["down", bytes(Math.round(l.pulled_bytes))],
        s.round_slots ? ["have come to the open round", `${whole(s.round_held)} of ${whole(s.round_slots)}`] : null,
        s.sum_wait_ms ? ["a round waits", `${whole(s.sum_wait_ms)} ms`] : null, [word("median norm", "norm"), norm(l.norm)],
        l.norm_most ? ["set aside above", fine(l.norm_most)] : null, ["set aside", whole(l.set_aside)],
        known(l.moments_age) ? ["contributions since moments", whole(l.moments_age)] : null], {id: "local"}),
    table(["worker", ["n", "contributions"], ["n", "steps"], ["n", "loss"], ["n", word("norm")], ["n", word("angle")], ["n", "set aside"], ["n", "of them wrong"]],
        (l.workers || []).slice(0, PAGE).map(w => [["t", w.worker], ["n", whole(w.contributions)], ["n", w.steps ? whole(w.steps) : "-"], ["n", fine(w.loss)],
            ["n", norm(w.norm)], ["n", known(w.angle) ? `${whole(w.angle)}°` : "-"], ["n", whole(w.set_aside)], ["n", whole(w.wrong)]]), {id: "contributions"})];
}

function evaluationTable(s) {
    const list = s.evaluations || [], top = best(s), names = [...new Set(list.flatMap(e => (e.metrics || []).map(m => m.name)))];
    if (!list.length) return el("p", {class: "dim"}, "none yet");
    const trained = list.some(e => e.train_samples);
    return table(["epoch", ["n", "steps"], ["n", "validation loss"], ["n", "accuracy"], ...(trained ? [["n", "training loss"]] : []), ...names.map(n => ["n", n])],
        list.slice(-100).reverse().map(e => Object.assign([e === top ? el("b", null, `${e.epoch} best`) : e.epoch, ["n", whole(stepsOf(s, e))],
            ["n", e.failed ? "failed" : fine(e.loss)], ["n", e.failed ? "-" : fine(e.accuracy)], ...(trained ? [["n", e.train_samples ? fine(e.train_loss) : "-"]] : []),
            ...names.map(n => ["n", fine(((e.metrics || []).find(m => m.name === n) || {}).value)])],
        {attributes: e === top ? {class: "best"} : null})), {id: "evaluations"});
}

// Commands to type, as one click selects them; and the data itself.
function elsewhere(id, ended) {
    const path = "/api/v1/jobs/" + encodeURIComponent(id), quoted = /^[\w.-]+$/.test(id) ? id : "JOB";
    return el("dl", {class: "commands", id: "elsewhere"}, ...[
        ["a report: this page as one file", el("code", null, `sluice report ${quoted} -o report.html`)],
        ["an export of the parameters", el("code", null, `sluice export ${quoted} --to model.safetensors`)],
        ended ? null : ["a trace of every process, for Perfetto", el("code", null, `sluice trace ${quoted} --seconds 5 -o trace.json`)],
        ["the curves, for TensorBoard", el("code", null, `sluice watch ${quoted} --tensorboard ./curves`)],
        ["as JSON", el("span", null, ...[["status", ""], ["curves", "/history"], ["events", "/events"], ["closures", "/timeline"], ["checkpoints", "/checkpoints"]]
            .flatMap(([text, end]) => [el("a", {href: path + end}, text), " "]))],
    ].filter(p => p).flatMap(([name, what]) => [el("dt", null, name), el("dd", null, what)]));
}

function jobView(id) {
    const head = el("div"), shards = el("div"), take = el("div"), met = el("div"), spec = el("pre"), workers = el("div");
    const [happened, losses, cuts, tests] = [0, 0, 0, 0].map(() => el("div", {class: "tall", tabindex: "0"}));
    let job = report ? {status: report.status, points: report.history, spans: report.spans, running: [], events: report.events, now: report.unix_us}
        : follower(id);
    let ticked = 0, cutsSeen = -1;
    const keys = legend([LOST, ["warn dashed", "one was told to go"]]), charts = chartSet(keys);
    const lines = timelineCard(), crew = report ? "" : card(word("Workers", "worker"), workers), meetings = card(word("Contributions", "contribution"), met);
    const bar = report ? null : actionBar("job-acts", "admin", {
        pause: [null, () => ({id, checkpoint: true})], resume: [null, () => ({id})],
        stop: [() => `Stop ${id} for good? What is counted by now is kept in a checkpoint.`, () => ({id, checkpoint: true})]});
    const node = el("div", null, head, bar || "", charts.node, lines.node, crew, meetings,
        el("div", {class: "grid two"}, card("Evaluations", tests), card("Checkpoints", cuts)),
        el("div", {class: "grid wide"}, card("Who came and went, and what it cost", losses), card("What else happened", happened)),
        report ? "" : card("Take it elsewhere", take), card("Shards", shards),
        card("As submitted", el("details", null, el("summary", null, "job.json"), spec)),
        report ? card("Words", el("details", null, el("summary", null, "what they mean"), glossary())) : "");

    // Of this job, and of members while it ran.
    function events() {
        const s = job.status, until = s && s.ended_unix ? s.ended_unix * 1e6 : Infinity, from = s ? s.submitted_unix * 1e6 : 0;
        const mine = report ? job.events : job.events.concat(feed.moves.filter(e => !e.job && e.member && e.unix_us >= from && e.unix_us <= until))
            .sort((a, b) => a.id - b.id);
        return mine.filter((e, i) => !i || e.id !== mine[i - 1].id);
    }

    const marks = () => events().filter(e => GONE.includes(e.kind) && e.kind !== "member-left" && e.kind !== "member-silent")
        .map(e => ({us: e.unix_us, member: e.member, color: e.kind === "member-drains" ? "warn" : "bad"}));

    function draw() {
        const s = job.status, found = marks();
        if (!s) return;
        keys.hidden = !found.length;
        charts.set([{status: s, points: job.points, name: "", colors: ["train", "valid"]}], found.map(m => [0, m]));
        lines.set(job.spans.concat(job.running), s.ended_unix ? Math.min(job.now, s.ended_unix * 1e6 + 1e6) : job.now, found, report || s.ended_unix);
    }

    function showHead() {
        const s = job.status, [first, more] = numbersOf(s);
        document.title = s.id + " " + s.state + " - Sluice";
        put(head, el("div", {class: "title"}, el("h1", {id: "title"}, `${s.id} ${s.name}`), ...states(s),
            report ? "" : el("a", {href: "#/compare/" + encodeURIComponent(s.id)}, "compare with another job")),
        el("section", null, progressOf(s), ...(s.reason ? [el("p", {class: "note"}, s.reason)] : []),
            ...(s.warnings || []).map(w => el("p", {class: "note"}, w)), facts(first, {class: "facts large"}), facts(more)));
        put(tests, evaluationTable(s));
        meetings.hidden = !s.local;
        if (s.local) put(met, ...contributionsOf(s));
        put(take, elsewhere(s.id, Boolean(s.ended_unix)));
    }

    function showEvents() {
        const list = events(), by = {};
        for (const e of list) if (e.kind.startsWith("closure-")) by[e.kind] = (by[e.kind] || 0) + 1;
        put(losses, el("p", {class: "dim"}, Object.entries(by).map(([k, n]) => `${k} ${n}`).join(" · ") || "no closure was retried"),
            eventTable(list.filter(e => e.level !== "info" || e.member), 60));
        put(happened, eventTable(list.filter(e => e.level === "info" && !e.member), 40));
    }

    function showShards(list, total) {
        put(shards, el("p", {class: "dim"}, `${whole(total)} shard${total === 1 ? "" : "s"}` + (total > list.length ? `, the first ${list.length}` : "")),
            table(["shard", "psserver", ["n", "size"], ["n", "steps applied"], ["n", "duplicates"]], list.map(s => [s.shard, s.psserver || "-",
                ["n", bytes(s.bytes)], ["n", whole(s.counts && s.counts.applied)], ["n", whole(s.counts && s.counts.duplicates)]])));
    }

    function showCuts(list) {
        put(cuts, list.length ? table(["cut", ["n", "epoch"], ["n", "steps"], ["n", "size"], "manifest"], list.slice().reverse().map(c =>
            [c.best ? el("b", null, `${c.cut} best`) : c.cut, ["n", c.epoch], ["n", whole(c.steps)], ["n", bytes(c.bytes)], ["path", c.manifest || "-"]]))
            : el("p", {class: "dim"}, "none yet"));
    }

    function showWorkers(page) {
        put(workers, page.members.length ? table(["name", "state", ["n", word("leases", "lease")], ["n", "memory"], ...BUSY, "host", "device"], page.members.map(m =>
            [["t", m.name], badge(m.state), ["n", m.leases], ["n", bytes(m.resident_bytes || null)], ...usage(m), ["name", m.host || "-"], ["name", m.device || "-"]]), {id: "workers-of"})
            : el("p", {class: "dim"}, "none holds a lease now"),
        page.found > page.members.length ? el("p", {class: "dim"}, `${page.members.length} of ${whole(page.found)}; the others are under Cluster`) : "");
    }

    const path = "jobs/" + encodeURIComponent(id);
    async function update() {
        if (report) return;
        if (!job.status) spec.textContent = JSON.stringify((await get(path + "?shards=0")).spec, null, 2);
        await job.update();
        showHead();
        showEvents();
        draw();
        crew.hidden = Boolean(job.status.ended_unix);
        if (ticked % 2 === 0 && !crew.hidden) showWorkers(await get(`members?job=${encodeURIComponent(id)}&limit=${PAGE}`));
        if (ticked++ % 5 === 0) {
            const some = await get(path + `/shards?limit=${PAGE}`);
            showShards(some.shards || [], some.total);
            if (job.status.cuts !== cutsSeen) showCuts((await get(path + "/checkpoints")).checkpoints || []);
            cutsSeen = job.status.cuts;
        }
    }

    if (report) {
        spec.textContent = JSON.stringify(job.status.spec || {}, null, 2);
        showHead();
        showEvents();
        showShards((job.status.shards || []).slice(0, PAGE), (job.status.shards || []).length);
        showCuts(report.checkpoints || []);
    }
    return {node, update, draw, events: () => { if (job.status) showEvents(); }, leave: charts.free};
}

// Two jobs in the same charts, from the first step of each.
function compareView(one, other) {
    const ids = [one, other], jobs = ids.map(id => id ? follower(id) : null), facing = el("div"), numbers = el("div");
    const charts = chartSet(), colors = [["train", "valid"], ["train2", "valid2"]];
    const picks = ids.map((id, i) => el("select", {"aria-label": i ? "the second job" : "the first job", id: "job-" + (i + 1), change: e => {
        ids[i] = e.target.value;
        location.hash = "#/compare/" + ids.map(encodeURIComponent).join("/");
    }}, el("option", {value: id}, id || "which?")));
    async function update() {
        if (picks[0].options.length === 1) {
            const list = (await get(`jobs?limit=${PAGE}`)).jobs || [];
            picks.forEach((pick, i) => {
                const of = s => `${s.id} ${s.name} (${s.state})`, chosen = list.find(s => s.id === ids[i]);
                if (chosen) pick.options[0].textContent = of(chosen);
                pick.append(...list.filter(s => s.id !== ids[i]).map(s => el("option", {value: s.id}, of(s))));
            });
        }
        for (const job of jobs) if (job) await job.update();
        draw();
    }
    function draw() {
        const there = jobs.filter(job => job && job.status);
        document.title = there.map(job => job.status.id).join(" and ") + " - Sluice";
        const rows = there.map(job => numbersOf(job.status).flat().filter(p => p));
        const fullest = rows.slice().sort((a, b) => b.length - a.length); // its order is that of all
        const names = [...new Set(fullest.flatMap(row => row.map(([name]) => name.textContent || name)))];
        put(facing, el("div", {class: "grid two"}, ...there.map(job => el("section", null,
            el("div", {class: "title"}, el("h2", null, el("span", {class: "key " + colors[jobs.indexOf(job)][0]}), jobLink(job.status.id, `${job.status.id} ${job.status.name}`)),
                badge(job.status.state)), progressOf(job.status)))));
        put(numbers, there.length ? el("section", null, table(["", ...there.map(job => job.status.id)], names.map(name => [name, ...rows.map(row => {
            const pair = row.find(([n]) => (n.textContent || n) === name);
            return pair ? pair[1] : "-";
        })]), {id: "compared", class: "plain"})) : "");
        charts.set(there.map(job => ({status: job.status, points: job.points, name: job.status.id + " ", colors: colors[jobs.indexOf(job)]})), []);
    }
    return {node: el("div", {class: "compare"}, el("h1", null, "Two jobs side by side"), el("div", {class: "bar picks"}, picks[0], "and", picks[1]), facing, charts.node, numbers),
        update, draw, leave: charts.free};
}

// ---- the other views

function jobTable(jobs) {
    if (!jobs.length) return el("p", {class: "dim"}, "none yet: sluice submit job.yaml");
    return table(["id", "name", "state", "done", ["n", "epoch"], ["n", "steps"], ["n", "loss"], ["n", "samples/s"], ["t", "submitted"]], jobs.map(s => [
        ["t", jobLink(s.id, s.id)], ["name", jobLink(s.id, s.name)], badge(s.pause ? "paused" : s.queued_before ? "queued" : s.state),
        el("progress", {max: s.steps_asked || 1, value: s.steps_counted, class: TONES[s.state] || "warn", "aria-label": "steps counted"}),
        ["n", `${whole(s.epoch)}/${whole(s.epochs)}`], ["n", `${whole(s.steps_counted)}/${whole(s.steps_asked)}`], ["n", fine(s.loss)], ["n", rate(s)],
        ["t", day(s.submitted_unix)]]), {id: "jobs"});
}

// How many there are in each state; Overview has a line of them.
function some(counts) {
    const list = Object.entries(counts).filter(([, n]) => n);
    return list.length ? el("span", {class: "badges"}, ...list.map(([state, n]) => badge(state, null, `${whole(n)} ${state}`))) : "none";
}

function overviewView() {
    const head = el("section"), jobs = el("div"), happened = el("div");
    const samples = curve("Samples per second, all jobs", "samples", true);
    const closures = curve(el("span", null, word("Closures", "closure"), " per second"), "closures");
    const keys = legend([LOST]);
    let pace = []; // [microseconds, samples, closures] of the last 15 minutes
    const per = key => pace.slice(1).map((p, i) => ({x: p[0] / 1e6, y: Math.max(0, (p[key] - pace[i][key]) / Math.max(0.05, (p[0] - pace[i][0]) / 1e6))}));
    async function update() {
        const o = await get("overview");
        document.title = "Sluice";
        pace = pace.concat((await get("pace?after_us=" + (pace.length ? pace[pace.length - 1][0] : 0))).points).slice(-900);
        put(head, facts([["jobs", some(o.jobs)], [word("workers", "worker"), some(o.workers), "workers"], [word("psservers", "psserver"), some(o.psservers), "psservers"]],
            {class: "facts states"}), facts([[word("closures counted", "closure"), whole(o.closures)], ["attempts that failed", whole(o.retries)], ["workers lost", whole(o.workers_lost), "lost"],
            [word("cuts", "cut"), whole(o.cuts)], [word("term"), o.term], ["TLS", o.tls ? "on" : "off"], ["version", o.version]]));
        const losses = feed.moves.filter(e => e.kind === "member-lost" && pace.length && e.unix_us >= pace[0][0]).map(e => ({x: e.unix_us / 1e6, color: "bad"}));
        keys.hidden = !losses.length;
        samples.set([{label: "", color: "train", points: per(1)}], losses, "clock");
        closures.set([{label: "", color: "train", points: per(2)}], losses, "clock");
        put(jobs, jobTable((await get("jobs?limit=10")).jobs || []));
        put(happened, eventTable(feed.list, 15));
    }
    return {node: el("div", null, el("h1", null, "Overview"), head, keys, el("div", {class: "grid two"}, samples.node, closures.node),
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

// Cells of how busy a member is.
const BUSY = [["n", word("cores", "cores used")], ["n", word("computes", "computing")], ["n", word("waits", "waiting")], ["n", word("reads", "reading")],
    ["n", word("pushes/s", "pushes")], ["n", word("sends", "network")], ["n", word("receives", "network")]];
const flow = n => known(n) ? bytes(Math.round(n)) + "/s" : "-";
function usage(m) {
    const u = m.usage || {}, works = m.role === "worker" ? u : {};
    return [known(u.cpu_cores) ? u.cpu_cores.toFixed(2) : "-", percent(works.computing), percent(works.waiting), percent(works.reading),
        whole(u.pushes_per_second), flow(u.sent_per_second), flow(u.received_per_second)].map(text => ["n", text]);
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
        list = next || list;
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
    const list = el("div"), moved = el("div", {class: "tall", tabindex: "0"}), where = el("span", {class: "dim"});
    const state = m => m[1] === "lost" ? "bad" : m[1] !== "ready" ? "warn" : m[2] ? "good" : "run";
    const workers = squares("workers", state), servers = squares("psservers", state);
    const name = el("input", {placeholder: "name", "aria-label": "filter by name", input: () => { from = 0; soon(); }});
    let from = 0, found = 0;
    const button = (text, fn) => el("button", {type: "button", click: () => { fn(); soon(); }}, text);
    const events = () => put(moved, eventTable(feed.moves, 60));
    async function update() {
        const all = await get("map");
        workers.set(all.workers);
        servers.set(all.psservers);
        const page = await get(`members?from=${from}&limit=${PAGE}&name=` + encodeURIComponent(name.value));
        found = page.found;
        where.textContent = found ? `${from + 1} to ${from + page.members.length} of ${found}` : "none";
        put(list, table(["name", "role", "state", ["n", "leases"], ["n", "shards"], ["n", "memory"], ...BUSY, ["n", word("heard", "heartbeat")], "up", "host", "device or address", "version", "why"],
            page.members.map(m => Object.assign([["t", m.name], m.role, badge(m.state), ["n", m.leases], ["n", m.shards], ["n", bytes(m.resident_bytes || null)], ...usage(m),
                ["n", (m.heartbeat_age_ms < 1e4 ? (m.heartbeat_age_ms / 1000).toFixed(1) + " s" : span(m.heartbeat_age_ms / 1000)) + " ago"], ["t", span(m.attached_seconds)], ["name", m.host || "-"], ["name", m.device || m.address || "-"], ["t", m.version || "-"], ["name", m.reason || ""]],
            {attributes: {"data-member": m.name, "data-pid": m.pid, "data-state": m.state}})), {id: "members"}));
        events();
    }
    const worker = el("input", {id: "act-name", placeholder: "worker", "aria-label": "worker to drain"});
    const why = el("input", {id: "act-why", placeholder: "why", "aria-label": "why"});
    const asked = () => ({name: worker.value.trim(), why: why.value.trim()});
    const bar = actionBar("member-acts", "admin", {drain: [null, asked], undrain: [null, asked]}, worker, why);
    return {node: el("div", null, el("h1", null, "Cluster"), legend([["good", "works"], ["run", "ready"], ["warn", "drains, silent"], ["bad", "lost"]]),
        el("div", {class: "grid two"}, workers.node, servers.node), card("Members", el("div", {class: "bar"}, name,
            button("◀", () => { from = Math.max(0, from - PAGE); }), button("▶", () => { if (from + PAGE < found) from += PAGE; }), where), bar, list),
        card("Who came, went and moved", moved)), update, events, draw() { workers.set(); servers.set(); }};
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

const VIEWS = [["", "Overview", overviewView], ["jobs", "Jobs", jobsView], ["cluster", "Cluster", clusterView], ["events", "Events", eventsView],
    ["words", "Words", () => ({node: el("div", null, el("h1", null, "Words"), el("section", null, glossary())), update: async () => {}})]];
const place = el("main", {id: "view"});

function show() {
    const path = location.hash.replace(/^#\/?/, "");
    if (view && view.leave) view.leave();
    if (path.startsWith("job/")) {
        view = jobView(decodeURIComponent(path.slice(4)));
    } else if (path.startsWith("compare/")) {
        const [one, other] = path.slice(8).split("/").map(decodeURIComponent);
        view = compareView(one || "", other || "");
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

// Tables that have no room become paragraphs, those of many columns sooner.
function fit() {
    for (const [name, most] of [["narrow", 640], ["middle", 1000], ["large", 1300]])
        document.documentElement.classList.toggle(name, innerWidth <= most);
}
fit();

// A theme or a width that is another.
function redraw() {
    tones.clear();
    for (const chart of drawn) chart.repaint();
    if (view && view.draw) view.draw();
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
let resized = null;
window.addEventListener("resize", () => { fit(); clearTimeout(resized); resized = setTimeout(redraw, 100); });
if (window.Chart) Chart.defaults.font.family = "system-ui, sans-serif";

document.body.append(tip);
if (report) {
    document.body.append(el("header", null, el("b", null, "Sluice"), el("span", {class: "dim"},
        "report of " + day(report.unix_us / 1e6))), place);
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
