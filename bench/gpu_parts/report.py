# SPDX-License-Identifier: Apache-2.0
"""Rows of bench/gpu: bars, the file of results, the table.

A row says ours, the peer, their ratio, the bar and whether it holds: true,
false, or null where something that the bar wants was not measured. The file is
written after every row, so that what was measured stays.
"""
import json
import os
import pathlib
import statistics

import columns

# ---- bars


class Bar:
    """Judges (ours, peer): True, False, or None if a figure is missing."""

    def __init__(self, text, judge=None):
        self.text, self.judge = text, judge

    def holds(self, ours, peer):
        if self.judge is None:
            return None
        return self.judge(ours, peer)


def at_most(limit, unit):
    """An absolute bar."""
    return Bar(f"<= {limit:g} {unit}",
               lambda ours, peer: None if ours is None else ours <= limit)


def at_most_times(ratio):
    """Against the peer."""
    return Bar(f"<= {ratio:g} x", lambda ours, peer:
               None if ours is None or peer is None else ours <= ratio * peer)


def at_least(limit):
    return Bar(f">= {limit:g}",
               lambda ours, peer: None if ours is None else ours >= limit)


NO_BAR = Bar("-")


# ---- rows


class Planned:
    """A row before it is measured. `measure(kit)` gives a dict with ours and
    what else there is to tell: peer, note, rounds, ... `seconds` is its share
    of a call; `step` is (net, precision, batch) if it measures that step."""

    def __init__(self, part, name, unit, bar, measure, peer_name=None, *,
                 seconds=60, step=None):
        self.part, self.name, self.unit, self.bar = part, name, unit, bar
        self.measure, self.peer_name = measure, peer_name
        self.seconds, self.step = seconds, step


def middle(figures):
    """Of repeated figures the median counts."""
    if isinstance(figures, (list, tuple)):
        return statistics.median(figures)
    return figures


def short(figure):
    return None if figure is None else float(f"{figure:.6g}")


def row(planned, found):
    ours, peer = middle(found.pop("ours", None)), middle(found.pop("peer", None))
    ratio = ours / peer if ours is not None and peer else None
    holds = found.pop("holds", planned.bar.holds(ours, peer))
    return {"part": planned.part, "name": planned.name, "unit": planned.unit,
            "ours": short(ours), "peer": short(peer),
            "peer_name": planned.peer_name, "ratio": short(ratio),
            "bar": planned.bar.text, "holds": holds, **found}


def not_measured(planned, why):
    return {**row(planned, {"ours": None}), "holds": None,
            "note": f"not measured: {why}"}


# ---- the file


class Report:
    """What one call of bench/gpu found, on disk after every row."""

    def __init__(self, path, about, rows=()):
        self.path = pathlib.Path(path)
        self.about, self.rows = about, list(rows)
        self.write()

    def add(self, found):
        self.rows.append(found)
        self.write()

    def write(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_name(self.path.name + ".partial")
        partial.write_text(text_of(self.about, self.rows))
        os.replace(partial, self.path)


def text_of(about, rows):
    """A row a line, so that two files can be compared."""
    lines = ",\n".join("  " + json.dumps(r) for r in rows)
    head = json.dumps(about, indent=1)[:-2]
    return f'{head},\n "rows": [\n{lines}\n ]\n}}\n'


def merged(paths):
    """Several calls on one day as one: of a row that was measured twice the
    later one counts, and every call's description is kept."""
    calls, rows = [], {}
    for path in paths:
        report = json.loads(pathlib.Path(path).read_text())
        if report.get("emulated"):
            raise ValueError(f"{path} was made without a GPU: it is no result")
        found = report.pop("rows")
        calls += report.pop("calls", None) or [report]
        for r in found:
            key = r["part"], r["name"]
            if key not in rows or r["ours"] is not None:
                rows[key] = r
    return {"what": "bench/gpu", "date": calls[0]["date"],
            "calls": calls}, list(rows.values())


# ---- the table


def figure_text(figure):
    return columns.figure_text(figure, 4)


def table(rows):
    said = {True: "yes", False: "NO", None: "-"}
    lines = [("part", "name", "ours", "peer", "unit", "ratio", "bar", "holds",
              "note")]
    for r in rows:
        lines.append((r["part"], r["name"], figure_text(r["ours"]),
                      figure_text(r["peer"]), r["unit"],
                      figure_text(r["ratio"]), r["bar"], said[r["holds"]],
                      r.get("note", "")))
    return columns.columns(lines, right={2, 3, 5})


def ops_table(r):
    """A row of part `ops`: op by op, as they run."""
    lines = [("layer", "pass", "op", "ms", "of the step", "GB", "GFLOP",
              "least ms", "of the least", "by")]
    total = sum(op["ms"] for op in r["op_times"])
    for op in r["op_times"]:
        lines.append(op_line(op, total))
    lines.append(op_line({
        "layer": "all", "pass": "", "op": "", "impl": "", "ms": total,
        **{key: columns_sum(r["op_times"], key)
           for key in ("bytes", "flop", "least_ms")}}, total))
    head = (f"{r['name']}: {figure_text(r['peer'])} ms as one recording, least "
            f"times of {r['rates'] or 'no known card'}")
    return head + "\n" + columns.columns(lines, right={3, 4, 5, 6, 7, 8})


def columns_sum(ops, key):
    figures = [op[key] for op in ops]
    return None if None in figures else sum(figures)


def op_line(op, total):
    least = op["least_ms"]
    return (op["layer"], op["pass"], op["op"], f"{op['ms']:.4f}",
            f"{100 * op['ms'] / total:.1f} %", f"{op['bytes'] / 1e9:.3f}",
            f"{op['flop'] / 1e9:.2f}",
            "-" if least is None else f"{least:.4f}",
            f"{op['ms'] / least:.1f} x" if least else "-", op["impl"])


def falls_short(r):
    """False also for a row without a bar that was measured."""
    return r["holds"] is False or r["ours"] is None or (
        r["holds"] is None and r["bar"] != NO_BAR.text)
