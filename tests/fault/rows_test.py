#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every row of the tables of faults is a test of this folder, or stands in
WAITING.md: none is left out in silence."""
import pathlib
import re

from cluster import ROOT, check, check_equal, main

HERE = pathlib.Path(__file__).parent
ROWS = {f"F{i}" for i in range(1, 33)} | {f"N{i}" for i in range(1, 32)}


def tested():
    text = "".join(p.read_text() for p in HERE.glob("*_test.py"))
    return set(re.findall(r"^def ([FN]\d+)_", text, re.M))


def table(title):
    """The rows of one table of WAITING.md, as lists of cells."""
    part = (HERE / "WAITING.md").read_text().split(f"## {title}")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if re.match(r"\| [FN]\d", line)]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def every_row_is_tested_or_waits():
    waiting = {r[0] for r in table("Waiting: they need")}
    elsewhere = {r[0] for r in table("Tested elsewhere")}
    here = tested()
    check_equal(sorted(ROWS - here - waiting - elsewhere), [], "rows left out")
    check_equal(sorted((here | elsewhere) & waiting), [], "rows that no longer wait")
    check_equal(sorted((here | waiting | elsewhere) - ROWS), [], "no such rows")


def rows_that_wait_in_part_have_a_test():
    part = {r[0] for r in table("Waiting in part")}
    check(part, "the table is empty")
    check_equal(sorted(part - tested()), [], "rows without any test")


def tests_elsewhere_exist():
    for row, where, what in table("Tested elsewhere"):
        path = ROOT / where.strip("`")
        check(path.exists(), f"{row}: no {path}")
        check(what.strip("`") in path.read_text(), f"{row}: no {what} in {where}")


if __name__ == "__main__":
    main([every_row_is_tested_or_waits, rows_that_wait_in_part_have_a_test,
          tests_elsewhere_exist])
