#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/WAITS.md says what each test waits for, tests/system/long.txt which cases
are long, and checked.txt which a testing build alone runs; all name what there is.

    waits.py               exit status 1: a file of tests has no row, or a row or
                           a case names nothing
    waits.py REPORT...     of ctest's reports (JUnit) of a run: what failed, with
                           its last words, and the slowest twenty, each with
                           what it waits for
"""
import pathlib
import re
import sys
import xml.etree.ElementTree

TESTS = pathlib.Path(__file__).resolve().parents[1]
AREAS = ["unit", "sim", "conform", "emul", "model", "fuzz", "gpu", "house", "sanitize"]
SLOWEST = 20
LAST_WORDS = 8  # lines
LOGGED = re.compile(r"[{]|----|ok |\d{4}-\d\d-\d\dT")  # by daemons, and of what passed


def rows():
    """The table: the beginning of a test's name -> what it waits for."""
    text = (TESTS / "WAITS.md").read_text()
    return dict(re.findall(r"^\| `([^`]+)` \| (.+) \|$", text, re.M))


def waits_for(test, table):
    """The second column of the longest row that `test` begins with."""
    names = [name for name in table if (test + ".").startswith(name + ".")]
    return table[max(names, key=len)] if names else "(tests/WAITS.md has no row)"


def runs(reports):
    """(a test's entry, the build it ran in) of each."""
    for report in map(pathlib.Path, reports):
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            yield case, report.name.split(".")[0]


def last_words(case):
    """The end of what it printed, without daemons' logs and what passed."""
    text = case.findtext("system-out") or ""
    lines = [x for x in text.splitlines() if x.strip() and not LOGGED.match(x)]
    return lines[-LAST_WORDS:]


def tell_failed(reports):
    failed = [(case, build) for case, build in runs(reports) if case.get("status") == "fail"]
    if failed:
        print("== what failed")
    for case, build in failed:
        print(f"{case.get('name')} ({build}) after {float(case.get('time')):.1f} s",
              *last_words(case), sep="\n    ")


def tell_slowest(reports):
    found = [(float(case.get("time")), case.get("name"), build) for case, build in runs(reports)]
    table = rows()
    print("== the slowest twenty")
    for seconds, name, build in sorted(found, reverse=True)[:SLOWEST]:
        print(f"{seconds:7.1f} s  {name} ({build})  {waits_for(name, table)}")


def files():
    """Names of tests that have a file of their own: system.ring."""
    for area in ("system", "fault", "history"):
        for path in (TESTS / area).glob("*_test.py"):
            yield f"{area}.{path.name.removesuffix('_test.py')}"


def unnamed(table):
    """Files without a row, and rows without a file or an entry of ctest."""
    entries = (TESTS / "history/CMakeLists.txt").read_text()
    for name in files():
        if waits_for(name, {n: w for n, w in table.items() if "." in n})[0] == "(":
            yield f"tests/WAITS.md has no row for {name}"
    there = {*files(), *AREAS,
             *(f"history.{n}" for n in re.findall(r"^ *history\((\w+)", entries, re.M)),
             "history.sim"}
    for name in table:
        if name not in there and name.split(".")[0] not in AREAS:
            yield f"tests/WAITS.md has a row for {name}, which is no test"


def listed_cases(name):
    """A list of tests/system: file -> its cases, none where the file stands alone."""
    cases = {}
    for line in (TESTS / "system" / name).read_text().splitlines():
        if line[:1] != "#":
            file, *case = line.split()
            cases.setdefault(file, set()).update(case)
    return cases


def checked_cases():
    """Lines of checked.txt that name no case, and files of it that no testing build runs."""
    entries = (TESTS / "history/CMakeLists.txt").read_text()
    for name, of_it in listed_cases("checked.txt").items():
        text = (TESTS / f"system/{name}_test.py").read_text()
        for case in of_it:
            if f"def {re.sub('_in_a?sync$', '', case)}(" not in text and \
                    f"def {case}(" not in text:
                yield f"tests/system/checked.txt: there is no case {name} {case}"
        if not re.search(rf"tests/system/{name}_test.py(\)| --checked|\s+--part)", entries):
            yield f"tests/system/checked.txt: no testing build runs {name}"


def long_cases():
    """Lines of long.txt that name no case of their file, and files of which no case
    is left for the core: those have one line, with their name alone."""
    for name, of_it in listed_cases("long.txt").items():
        path = TESTS / f"system/{name}_test.py"
        text = path.read_text() if path.exists() else ""
        for case in of_it or {r"\w+"}:
            if not re.search(rf"^(    )?def {case}\(", text, re.M):
                yield f"tests/system/long.txt: there is no case {name} {case}"
        listed = re.search(r"(?:main\(|TESTS = |CASES = )\[(.*?)\]", text, re.S)
        if of_it and listed and not set(re.findall(r"\w+", listed[1])) - of_it:
            yield f"tests/system/long.txt: all of {name} is long: one line without a case"


def entries():
    """Names of ctest's tests of files of tests, in all builds: system.ring.long,
    history.exact.2, sanitize.kill."""
    cases = listed_cases("long.txt")
    text = "".join(path.read_text() for path in TESTS.glob("*/CMakeLists.txt"))
    found = [*re.findall(r"^ *(system|fault|history)\(([\w.${}]+) (sanitize)?(.*)", text, re.M),
             *((*name.split(".", 1), "", "") for name in re.findall(
                 r"add_test\(NAME ((?:system|history|sanitize)\.[\w.${}]+)", text))]
    for area, name, label, more in found:
        if area == "fault" and re.search(r" [FN]\d", more):  # some cases
            area = "sanitize.fault"
        for part in ("1", "2") if "${half}" in name else ("",):
            yield f"{label or area}.{name.replace('${half}', part)}"
        if area == "system" and not label and cases.get(name):
            yield f"{area}.{name}.long"


def without_a_test(table):
    """Rows of costs.txt that no test begins by."""
    there = set(entries())
    for line in (TESTS / "costs.txt").read_text().splitlines():
        name = line.split()[0]
        of_file = name.split(".")[0] in ("system", "fault", "history", "sanitize")
        if name[0] != "#" and (name not in there if of_file
                               else waits_for(name, table)[0] == "("):
            yield f"tests/costs.txt has {line}, which is no test"


def main():
    if sys.argv[1:]:
        tell_failed(sys.argv[1:])
        return tell_slowest(sys.argv[1:])
    table = rows()
    bad = [*unnamed(table), *long_cases(), *checked_cases(), *without_a_test(table)]
    print("\n".join(bad) or f"{len(table)} rows")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
