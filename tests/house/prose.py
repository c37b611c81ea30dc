#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Comments and messages of the product name what they speak of.

    python3 tests/house/prose.py [--worst N]

A comment of five words or more that consists of function words (it, that, which,
of, so, one ...) for three quarters names nothing; code that strangers read well
has 0.0 to 0.3 % of those. *who, nobody, whose* are for people: daemons, threads
and files are named. Per folder, MOST % of such comments and PERSONS such words
per 1,000 are allowed, or one. The same holds for what programs print and log
(string literals; adjacent ones are one, conversions do not count). A function that a header declares has a comment of
its own, above it or at the line's end: UNSAID % may stand under one comment as
a set (operations of one shape, pairs of init and release). A comment above such a
function begins with a verb in the third person ("Returns ..."), or with the
function's name. --worst prints comments to mend. Exits 1 where there is more; run
by ctest.
"""
import argparse
import re
import sys

from dead import DECLARED
from layering import MAY
from tracked import ROOT, tracked

MOST, PERSONS = 0.5, 0.5
UNSAID = 2
COMMENT_OR_LITERAL = re.compile(
    r'//[^\n]*|"(?:[^"\\\n]|\\.)*"(?:\s*(?:PRI\w+|"(?:[^"\\\n]|\\.)*"))*')
NO_SENTENCE = re.compile(r"(INSERT|SELECT|CREATE|UPDATE|DELETE|BEGIN|ALTER|PRAGMA|<)")
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
NO_VERBS = FUNCTION_WORDS - {"has", "does"} | {"always", "sometimes", "perhaps",
                                               "nowadays", "besides", "otherwise"}
OF_PEOPLE = {"who", "whom", "whoever", "whose", "nobody", "somebody", "anybody",
             "everybody"}


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


def messages(text):
    """Yields the line and the words of each string literal that is no SQL and no
    HTML, without the keys of a log line's pairs; a conversion is a noun."""
    for part in COMMENT_OR_LITERAL.finditer(text):
        joined = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', part[0]))
        if part[0].startswith('"') and not NO_SENTENCE.match(joined):
            yield (text.count("\n", 0, part.start()) + 1,
                   re.sub(r"(\w+=)?%[-+ #0-9.*]*[a-z]*|\\.|\d+", " noun ", joined))


def folder_of(name):
    return "/".join(name.split("/")[:2]) if name.count("/") > 1 else name.split("/")[0]


def measure(names, sentences):
    """Returns the sentences that name nothing, and per folder the numbers of
    sentences, of those, of words of people, and of words."""
    found, folders = [], {}
    for name in names:
        row = folders.setdefault(folder_of(name), [0, 0, 0, 0])
        for line, text in sentences((ROOT / name).read_text(encoding="utf-8")):
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


def wrong(folder, row, what):
    """Returns what is wrong with a folder, or None."""
    share, persons = 100 * row[1] / max(1, row[0]), 1000 * row[2] / max(1, row[3])
    if (share <= MOST or row[1] <= 1) and (persons <= PERSONS or row[2] <= 1):
        return None
    return (f"{folder}: {share:.1f} % of its {what} name nothing (at most {MOST}), "
            f"{persons:.1f} words of people per 1,000 (at most {PERSONS})")


def declarations(text):
    """Yields the line of each function that a header declares, its name, the lines
    of the comment above it, and whether one stands beside it."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        declared = DECLARED.match(line)
        if not declared:
            continue
        last = next(k for k in range(i, len(lines)) if re.search(r"[;{]", lines[k]))
        whole = " ".join(lines[i:last + 1])
        if "{" in whole or "(*" in whole:
            continue  # a body, or a pointer
        first = i
        while first > 0 and lines[first - 1].lstrip().startswith("//"):
            first -= 1
        yield i + 1, declared[1], lines[first:i], "//" in whole


def begins_well(comment, name):
    """A verb in the third person ends with an s; the words that do so too and are
    none ("This", "Its", "Always") name nothing."""
    words = re.findall(r"[A-Za-z_]\w*", comment[0])
    first = words[0] if words else ""
    return first == name or (first.endswith("s") and first[0].isupper()
                             and first.lower() not in NO_VERBS)


def unsaid(names):
    """Returns how many functions the headers declare, where those stand that have
    no comment of their own, and whose comments do not begin with a verb."""
    count, bare, verbless = 0, [], []
    for file in names:
        text = (ROOT / file).read_text(encoding="utf-8")
        for line, name, comment, beside in declarations(text):
            count += 1
            if comment and not begins_well(comment, name):
                verbless.append(f"{file}:{line}: {name}: its comment does not begin "
                                f"with a verb: {comment[0].strip()}")
            if not comment and not beside:
                bare.append(f"{file}:{line}: {name}")
    return count, bare, verbless


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--worst", type=int, default=0, metavar="N")
    options = parser.parse_args()
    names = tracked(*(f"{room}/*.{end}" for room in MAY
                      for end in ("c", "h", "cu", "cuh")))
    found, total = [], 0
    for what, sentences in (("comments", comments), ("messages", messages)):
        listed, folders = measure(names, sentences)
        for _, text in listed[:options.worst]:
            print(text)
        found += [text for folder, row in sorted(folders.items())
                  if (text := wrong(folder, row, what))]
        total += sum(row[0] for row in folders.values())
    count, bare, verbless = unsaid([n for n in names if n.endswith((".h", ".cuh"))])
    found += verbless
    if 100 * len(bare) > UNSAID * count:
        found.append(f"{len(bare)} of {count} declarations have no comment of their "
                     f"own (at most {UNSAID} %):")
        found += bare
    print("\n".join(found) if found else
          f"{total} comments and messages name what they speak of")
    return 1 if found or not total else 0


if __name__ == "__main__":
    sys.exit(main())
