# SPDX-License-Identifier: Apache-2.0
"""The table of bench/run: what a row is, when its bar holds, how it is printed.

A row is a function in bench/rows/*.py:

    @row("push-tcp", unit="GB/s", peer="raw TCP", bar=at_least(0.85),
         needs=["ps_load", "raw_stream"])
    def push_tcp(bench):
        \"\"\"One sentence for --list.\"\"\"
        return bench.alternate(ours, peer)

It gives (ours, peer): a figure each, or a list of repeated ones, of which the
medians count. The ratio is ours / peer.
"""
import collections
import functools
import importlib
import json
import pathlib
import statistics

from columns import columns, figure_text

Bar = collections.namedtuple("Bar", "text holds")  # holds(ours, peer)
# bar(isa): the bar on a machine with that instruction set.
Row = collections.namedtuple("Row", "name unit peer bar needs long measure")
Result = collections.namedtuple("Result", "row ours peer")

ROWS = {}
MIB = 1 << 20


# ---- bars

def at_least(ratio):
    return Bar(f">= {ratio:g} x", lambda ours, peer: ours >= ratio * peer)


def at_most(ratio):
    return Bar(f"<= {ratio:g} x", lambda ours, peer: ours <= ratio * peer)


def at_most_more(difference, unit):
    return Bar(f"<= + {difference:g} {unit}",
               lambda ours, peer: ours - peer <= difference)


class ByIsa(dict):
    """A bar per instruction set, where the machine decides what can be asked:
    ByIsa(avx512=at_least(3), other=at_least(2.2))."""


def bar_of(bar):
    """bar(isa)."""
    if isinstance(bar, ByIsa):
        return lambda isa: bar.get(isa, bar["other"])
    return lambda isa: bar


# ---- rows

def row(name, unit, peer, bar, needs=(), long=None):
    """Enters a function into the table. `needs`: what to build: programs of
    bench/, and `psserver` for a whole cluster (see bed.py). `long`: why it
    cannot be measured in a few seconds, so that --quick leaves it out."""
    def enter(measure):
        if name in ROWS:
            raise ValueError(f"two rows are called {name}")
        ROWS[name] = Row(name, unit, peer, bar_of(bar), tuple(needs), long, measure)
        return measure
    return enter


def once(measure):
    """Has a measurement that several rows use made once: measure(bench, *words) for each
    bench and words."""
    @functools.wraps(measure)
    def told(bench, *words):
        return bench.shared((measure, *words), lambda: measure(bench, *words))
    return told


def on_isa(rows, isa):
    """The rows with the bars of that instruction set: `bar` is then one."""
    return {name: r._replace(bar=r.bar(isa)) for name, r in rows.items()}


def load_rows():
    """Every module of bench/rows, in the order of their names."""
    for path in sorted((pathlib.Path(__file__).parent / "rows").glob("*.py")):
        importlib.import_module(f"rows.{path.stem}")
    return ROWS


def result(row_, figures):
    """The medians of what a row gave."""
    ours, peer = (statistics.median(f) if isinstance(f, (list, tuple)) else f
                  for f in figures)
    return Result(row_, ours, peer)


def holds(r):
    return r.ours is not None and bool(r.row.bar.holds(r.ours, r.peer))


def ratio(r):
    return r.ours / r.peer if r.ours is not None and r.peer else None


# ---- print

def as_json(r):
    def short(figure):
        return None if figure is None else float(f"{figure:.6g}")
    return json.dumps({"name": r.row.name, "unit": r.row.unit,
                       "ours": short(r.ours), "peer": short(r.peer),
                       "peer_name": r.row.peer, "ratio": short(ratio(r)),
                       "bar": r.row.bar.text, "holds": holds(r)})


def as_table(results):
    lines = [("name", "ours", "peer", "unit", "ratio", "bar", "holds", "against")]
    for r in results:
        lines.append((r.row.name, figure_text(r.ours), figure_text(r.peer),
                      r.row.unit, "-" if ratio(r) is None else f"{ratio(r):.2f}",
                      r.row.bar.text, "yes" if holds(r) else "NO", r.row.peer))
    return columns(lines, right={1, 2, 4})
