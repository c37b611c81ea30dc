#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who changes which field of a struct that many files see.

A header that is listed here says so above each group of fields:

    // What the group is. Changed by: FILE, FILE.

Prints every assignment in another file, and exits 1. The file that makes the
struct and the one that loads it are named for the whole of it. What is changed
through a pointer to the field is not seen, but for lists and maps.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Header, struct, how it is written to, who makes and loads it.
STRUCTS = [
    ("coordinator/core/job.h", "job", r"\bjob", {"job", "load"}),
    ("coordinator/core/coord_inner.h", "coord", r"\bc", {"coord", "recover"}),
]

WRITE = r"{through}->{field}\b(?:\.\w+|\[[^]]*\])*\s*" \
        r"(?:[-+*|&]?=(?!=)|\+\+|--)" \
        r"|(?:\+\+|--){through}->{field}\b" \
        r"|(?:map_(?:put|remove|release\w*)|list_push\w*)" \
        r"\(&(?:\w+->)*{through}->{field}\b"


def owners(header, struct):
    """{field: names of files}, of the fields in groups that name some."""
    text = (ROOT / header).read_text()
    body = re.search(rf"^struct {struct} {{\n(.*?)^}}", text, re.M | re.S)[1]
    body = re.sub(r"\n    // ", " ", "\n" + body)  # a comment is one line
    found, group = {}, None
    for line in body.splitlines():
        named = re.search(r"Changed by: ([\w, ]+)\.", line)
        if named:
            group = set(named[1].split(", "))
        elif line.lstrip().startswith("//"):
            group = None
        field = re.search(r"[ *](\w+)(?:\[.*?\])?;(?: *//.*)?$", line)
        if field and group:
            found[field[1]] = group
            for more in re.findall(r"(\w+),", line[:line.index(";")]):
                found[more] = group
    return found


def check(header, struct, through, makers):
    """Yields the assignments that are not where the header says."""
    of = owners(header, struct)
    for path in sorted((ROOT / header).parent.rglob("*.c")):
        if path.stem in makers:
            continue
        text = re.sub(r"//.*", "", path.read_text())
        for field, files in of.items():
            if path.stem not in files and re.search(
                    WRITE.format(through=through, field=field), text):
                yield f"{path.relative_to(ROOT)} changes {struct}.{field}, " \
                    f"which is changed by {', '.join(sorted(files))}"


def main():
    wrong = [text for row in STRUCTS for text in check(*row)]
    empty = [row[0] for row in STRUCTS if not owners(*row[:2])]
    wrong += [f"{header} names no file" for header in empty]
    print("\n".join(wrong) if wrong else "every field is changed by its owner")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
