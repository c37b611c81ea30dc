#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every file of the product begins with its path and what it is for.

Line 1 is the licence, line 2 "// PATH -- ...", and a header's guard is its path.
Prints what is not so and exits 1; run by ctest.
"""
import re
import sys

from layering import MAY
from tracked import ROOT, tracked

GUARD = re.compile(r"^#ifndef (\w+_H)$", re.M)
PUBLIC = {"lib/sluice.h", "lib/tasks.h"}  # installed: their guards have their names there
ONLY_POINTS = re.compile(r"^see [\w./]+\.$")


def wrong(name):
    """What is wrong with the head of a file, or None."""
    text = (ROOT / name).read_text()
    lines = text.splitlines()[:12]
    if "SPDX-License-Identifier" not in lines[0]:
        return "line 1 is not the licence"
    begins = f"// {name} -- "
    if not lines[1].startswith(begins):
        return f'line 2 does not begin with "{begins}"'
    says = lines[1][len(begins):]
    if ONLY_POINTS.match(says) and name.endswith((".c", ".cu")):
        header = says.split()[1].rstrip(".")
        where = (ROOT / name).parent / header
        if not where.exists() or f'/{header}"' not in (ROOT / name).read_text():
            return f"it points to {header}, which it does not include"
    guard = GUARD.search(text) if name.endswith(".h") and name not in PUBLIC else None
    if guard and guard[1] != re.sub(r"\W", "_", name).upper():
        return f"its guard is {guard[1]}"
    return None


def main():
    names = tracked(*(f"{room}/*.{end}" for room in MAY
                      for end in ("c", "h", "cu", "cuh")))
    found = [f"{name}: {why}" for name in names if (why := wrong(name))]
    print("\n".join(found) if found else f"{len(names)} files say what they are")
    return 1 if found or not names else 0


if __name__ == "__main__":
    sys.exit(main())
