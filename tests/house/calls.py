#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No call runs back up: what layering.py demands of includes, of calls.

    calls.py BUILD [ROOM...]    exit status 1: a call that climbs, or a circle

Reads with nm which object defines and which one wants each name, so it sees
what the linker sees. Within a room no file wants a name of a higher floor
(layering.py's FLOORS), and no files form a circle. A file that
has to says so in a line of its own, with the reason:

    // Calls up: FILE.c, since ...
"""
import collections
import pathlib
import re
import subprocess
import sys

from layering import MAY, ROOT, floor

EXEMPT = re.compile(r"^// Calls up: ([\w/]+\.c), (since .+)", re.M)


def objects(room, build):
    """The files with a room's code: its archive, or the objects of a library
    that is linked at once."""
    archive = build / room / f"libsluice_{room}.a"
    if archive.exists():
        return [archive]
    return sorted((build / room).glob("CMakeFiles/*_lib.dir/*.o"))


def names(files):
    """{member: (defined, wanted)} of an archive, or of objects."""
    text = subprocess.run(["nm", "-A", "-P", *files], check=True,
                          capture_output=True, text=True).stdout
    found = collections.defaultdict(lambda: (set(), set()))
    for line in text.splitlines():
        where, symbol, kind = line.split()[:3]
        member = re.split(r"[/\[]", where.rstrip(":]"))[-1]
        if kind in "TDBRVW":
            found[member][0].add(symbol)
        elif kind == "U":
            found[member][1].add(symbol)
    return found


def sources(room):
    """{member: path below the root} of a room's library."""
    found = {}
    for path in sorted((ROOT / room).rglob("*.c")):
        if path.is_relative_to(ROOT / "kernels/cuda"):
            continue  # a module that is loaded: it links no room
        found.setdefault(f"{path.name}.o", []).append(
            path.relative_to(ROOT).as_posix())
    double = [paths for paths in found.values() if len(paths) > 1]
    if double:
        sys.exit(f"two files of one name: {double}")
    return {member: paths[0] for member, paths in found.items()}


def calls(room, build):
    """{file: {file that it calls: names}} within a room."""
    path_of = sources(room)
    members = names(objects(room, build))
    home = {symbol: path_of[member] for member, (defined, _) in members.items()
            if member in path_of for symbol in defined}
    found = {}
    for member, (_, wanted) in members.items():
        if member not in path_of:
            continue
        to = found.setdefault(path_of[member], collections.defaultdict(list))
        for symbol in sorted(wanted):
            if home.get(symbol, path_of[member]) != path_of[member]:
                to[home[symbol]].append(symbol)
    return found


def exempted(path):
    """Which files it says it calls although they lie above it."""
    return {name for name, _ in EXEMPT.findall((ROOT / path).read_text())}


def allowed(graph):
    """The graph without the calls that a file gives a reason for."""
    return {a: {b: what for b, what in to.items()
                if pathlib.Path(b).name not in exempted(a)}
            for a, to in graph.items()}


def circles(graph):
    """The strongly connected parts of two files and more (Tarjan)."""
    index, low, stack, parts = {}, {}, [], []

    def visit(a):
        index[a] = low[a] = len(index)
        stack.append(a)
        for b in graph.get(a, ()):
            if b not in index:
                visit(b)
                low[a] = min(low[a], low[b])
            elif b in stack:
                low[a] = min(low[a], index[b])
        if low[a] == index[a]:
            at = stack.index(a)
            parts.append(sorted(stack[at:]))
            del stack[at:]

    for a in sorted(graph):
        if a not in index:
            visit(a)
    return [part for part in parts if len(part) > 1]


def check(room, build):
    """Yields what is wrong with the calls of one room."""
    graph = allowed(calls(room, build))
    for a, to in sorted(graph.items()):
        for b, what in sorted(to.items()):
            if floor(b)[0] > floor(a)[0]:
                yield f"{a} calls {', '.join(what)} of {b}, which lies above it"
    for part in circles(graph):
        yield "a circle of calls:"
        for a in part:
            for b in sorted(set(graph[a]) & set(part)):
                yield f"    {a} -> {b}: {', '.join(graph[a][b])}"


def main():
    build = pathlib.Path(sys.argv[1])
    rooms = sys.argv[2:] or MAY
    wrong = [text for room in rooms for text in check(room, build)]
    print("\n".join(wrong) if wrong else "no call runs back up")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
