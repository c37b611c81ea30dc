#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Comments of the product name what they speak of.

    python3 tests/house/prose.py [--worst N] [--table]

A comment of five words or more that consists of function words (it, that, which,
of, so, one ...) for three quarters names nothing; code that strangers read well
has 0.0 to 0.3 % of those. *who, nobody, whose* are for people: daemons, threads and files
are named. Per folder, MOST % of such comments and PERSONS such words per 1,000
are allowed; LATER holds folders that are not there yet, each with the figures
that it may not exceed. A row that a folder no longer needs fails as well, so the
table shrinks. --worst prints comments to mend, --table the rows of LATER as they
would be now. Exits 1 where something is over its limit; run by ctest.
"""
import argparse
import re
import sys

from layering import MAY
from tracked import ROOT, tracked

MOST, PERSONS = 0.5, 0.5
FUNCTION_WORDS = set("""a an the this that these those it its itself they them
their he she his her one ones none some any all both each every either neither
other others another such same so as than then thus there here where when while
until till since before after again once now yet still already also too only
even just not no nor or and but if unless because whether what which who whom
whose whoever whatever nobody somebody anybody everybody nothing something
anything everything someone anyone everyone is are was were be been being am has
have had having do does did done doing will would shall should can could may
might must of in on at by for with without within from to into onto out off up
down over under above below between among through about against beside besides
behind more most less least many much few several enough own far near how why
well very else""".split())
OF_PEOPLE = {"who", "whom", "whoever", "whose", "nobody", "somebody", "anybody",
             "everybody"}
LATER = {
}


def comments(text):
    """Yields the line and the words of each comment; lines of // are one."""
    lines, i = text.split("\n"), 0
    while i < len(lines):
        start, part = i, []
        while i < len(lines) and re.match(r"\s*//", lines[i]):
            part.append(re.sub(r"^\s*//\s?", "", lines[i]))
            i += 1
        if part:
            yield start + 1, " ".join(part)
            continue
        beside = re.search(r"[;,{)]\s*//(.*)$", lines[i])
        if beside:
            yield i + 1, beside[1]
        i += 1


def folder_of(name):
    return "/".join(name.split("/")[:2]) if name.count("/") > 1 else name.split("/")[0]


def measure(names):
    """Returns the comments that name nothing, and per folder the numbers of
    comments, of those, of words of people, and of words."""
    found, folders = [], {}
    for name in names:
        row = folders.setdefault(folder_of(name), [0, 0, 0, 0])
        for line, text in comments((ROOT / name).read_text(encoding="utf-8")):
            words = [w.lower() for w in re.findall(r"[A-Za-z_']+", text)]
            if "SPDX" in text or len(words) < 5:
                continue
            share = sum(w in FUNCTION_WORDS for w in words) / len(words)
            row[0] += 1
            row[1] += share >= 0.75
            row[2] += sum(w in OF_PEOPLE for w in words)
            row[3] += len(words)
            if share >= 0.75:
                found.append((share, f"{name}:{line}: {text.strip()[:120]}"))
    return sorted(found, reverse=True), folders


def figures(row):
    return 100 * row[1] / max(1, row[0]), 1000 * row[2] / max(1, row[3])


def holds(row):
    """Returns True if a folder needs no row of LATER. One such word, or one such
    comment, of a small folder is no reason for a row."""
    share, persons = figures(row)
    return ((share <= MOST or row[1] <= 1) and
            (persons <= PERSONS or row[2] <= 1))


def up(value):
    return int(value * 10 + 0.999) / 10


def wrong(folder, row):
    share, persons = figures(row)
    if folder not in LATER:
        return None if holds(row) else (
            f"{folder}: {share:.1f} % of its comments name nothing (at most {MOST}), "
            f"{persons:.1f} words of people per 1,000 (at most {PERSONS})")
    if holds(row):
        return f"{folder} is as it should be: remove its row of LATER"
    most, people = LATER[folder]
    if share > most or persons > people:
        return (f"{folder}: {share:.1f} % name nothing (at most {most}), "
                f"{persons:.1f} words of people per 1,000 (at most {people})")
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--worst", type=int, default=0, metavar="N")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    names = tracked(*(f"{room}/*.{end}" for room in MAY
                      for end in ("c", "h", "cu", "cuh")))
    listed, folders = measure(names)
    for _, text in listed[:options.worst]:
        print(text)
    if options.table:
        for folder, row in sorted(folders.items()):
            if not holds(row):
                share, persons = figures(row)
                print(f'    "{folder}": ({up(share)}, {up(persons)}),')
        return 0
    found = [text for folder, row in sorted(folders.items())
             if (text := wrong(folder, row))]
    found += [f"{folder}: no such folder; remove its row of LATER"
              for folder in LATER if folder not in folders]
    print("\n".join(found) if found else
          f"{sum(row[0] for row in folders.values())} comments name what they speak of")
    return 1 if found or not folders else 0


if __name__ == "__main__":
    sys.exit(main())
