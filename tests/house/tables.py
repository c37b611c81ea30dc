#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the code has in a table, its page and its tests have too.

Layers and activations: proto/layers.def, docs/layers.md, and the nets whose
gradients the worker's tests compare. Optimizers: plan/optimizers.def, the
client's import of Keras models, the programs' modules, and their page. Prints
each difference and exits 1.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERAS_IMPORT = next(ROOT.glob("client/**/*compile.c")).relative_to(ROOT).as_posix()


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
    there = rows("proto/layers.def", "LAYER") | rows("proto/layers.def", "LINE")
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


def optimizers():
    there = rows("plan/optimizers.def", "OPTIMIZER")
    page = "docs/bring-your-own.md"
    words = re.search(r"Give SGD.*? arithmetic", text(page), re.S)[0]
    classes = {}
    for path, row in ((KERAS_IMPORT, r'^    \{"(\w+)", "\w+", \w*ARGUMENTS'),
                      ("python/sluice/keras.py", r'^[_ ].*"([A-Z]\w+)": \("'),
                      ("python/sluice/torch.py", r'^    "(\w+)": \(\(')):
        classes[path] = set(re.findall(row, text(path), re.M))
        # torch has no Lion and no Lamb, another Nadam, whose momentum decays by a key,
        # and another Muon, of which each parameter has to be a matrix.
        there_is = there - {"lion", "lamb", "nadam", "muon"} if path.endswith("torch.py") else there
        yield from differ("optimizer", there_is, path,
                          {name.lower() for name in classes[path]})
    for name in sorted(set.union(*classes.values())):
        if not re.search(rf"\b{name}\b", words):
            yield f"{page} does not say that programs have {name}"


def main():
    wrong = [*layers(), *optimizers()]
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
