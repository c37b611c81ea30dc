#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the code has in a table, its page and its tests have too.

Layers and activations: proto/layers.def, docs/layers.md, and the nets whose
gradients the worker's tests compare. Prints each difference and exits 1.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def text(path):
    return (ROOT / path).read_text()


def rows(path, macro):
    """The names in the rows of a table: MACRO(CODE, "name", ...)."""
    return set(re.findall(rf'^ *{macro}\(\w+, "(\w+)"', text(path), re.M))


def differ(what, there, where, listed):
    for name in sorted(there - listed):
        yield f"{where} has no {what} {name}"
    for name in sorted(listed - there):
        yield f"{where} has a {what} {name}, which is none"


def layers():
    page = "docs/layers.md"
    there = rows("proto/layers.def", "LAYER")
    acts = rows("proto/layers.def", "ACTIVATION")
    lines = text(page).split("## Types")[1].split("\nVariables:")[0].splitlines()
    listed = {name for line in lines if line.startswith("| `")
              for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    yield from differ("layer", there, page, listed)
    words = re.search(r"\nEach activation but.*?\n\n", text(page), re.S)[0]
    words = re.sub(r"\(.*?\)", "", words)  # their keys and remarks
    listed = set(re.findall(r"`(\w+)`", words)) - {"linear"}
    yield from differ("activation", acts, page, listed)
    nets = "tests/unit/worker/nets.h"
    tested = set(re.findall(r"'type': '(\w+)'", text(nets)))
    for name in sorted(there - tested - {"activation"}):
        yield f"no net of {nets} has a layer {name}"


def main():
    wrong = list(layers())
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
