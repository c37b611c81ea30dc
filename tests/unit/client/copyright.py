#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whoever is named as an author in what the build puts into the programs (the
library of charts) is named in debian/copyright, with their licence.

    copyright.py FILE...    exit status 1: somebody is not; 77: no file
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
GRANT = "The above copyright notice and this permission notice shall be included"


def words(text):
    return " ".join(text.split())


def main():
    files = [pathlib.Path(name) for name in sys.argv[1:] if pathlib.Path(name).is_file()]
    told = words((ROOT / "debian/copyright").read_text().replace("\n .\n", "\n"))
    bad = []
    for file in files:
        authors = set(re.findall(r"\(c\) \d+ ([^*\n]+)", file.read_text()))
        if not authors:
            bad.append(f"{file} names nobody")
        bad += [f"{file} is by {name}: debian/copyright does not say so"
                for name in map(str.strip, authors) if name not in told]
        if "MIT License" in file.read_text() and GRANT not in told:
            bad.append(f"{file} has a licence that debian/copyright has not")
    print("\n".join(bad) or f"{len(files)} files of others, each with its authors")
    return 1 if bad else 0 if files else 77


sys.exit(main())
