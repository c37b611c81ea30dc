#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pages can be read, and every folder has one.

    pages.py            exit status 1: a line too long, a folder without a page

- No line of a page (*.md) is over 160 characters.
- A folder with sources has a README, or the README of a folder above it names
  it: `data`, `net/local`, `data/`, or by a path from the root.
- Every source of a room is in a README of its folder or of one above: by its
  name, or by how that begins (cut stands for cut and for cut_anything).
- A README has the card of its folder: Threads, Memory, Units, Errors. Not in
  folders without code.
"""
import pathlib
import re
import subprocess
import sys

from tracked import ROOT, tracked

MOST = 160
FOREIGN = ("LICENSE", "tests/fuzz/corpus/")
SOURCE = re.compile(r"\.(c|h|cc|cu|py|proto)$")
ROOMS = ("common/", "plan/", "host/", "proto/", "stream/", "state/", "coordinator/", "psserver/",
         "trainer/", "worker/", "lib/", "client/")
CARD = ("Threads", "Memory", "Units", "Errors")
# Folders whose pages say it in another form.
NO_CARD = ("", "bench", "deploy", "examples", "kernels", "tests/fuzz",
           "tests/mutants")


def check_lines(name):
    lines = (ROOT / name).read_text().split("\n")
    if not lines[0].startswith("# "):
        yield f"{name}:1: a page begins with its title"
    for number, line in enumerate(lines, 1):
        if len(line) > MOST:
            yield f"{name}:{number}: {len(line)} characters, {MOST} are enough"


def names_it(readme, folder, room):
    inner = folder.relative_to(room).as_posix()
    return re.search(rf"[`/]{re.escape(inner)}[`/]", readme) is not None


def is_covered(folder, pages):
    """Has the folder a README, or is it in that of a folder above?"""
    if folder / "README.md" in pages:
        return True
    return any(room / "README.md" in pages and
               names_it(pages[room / "README.md"], folder, room)
               for room in folder.parents)


def is_listed(name, pages):
    """Is the source in the README of its folder, or of a folder above?"""
    path = pathlib.PurePath(name)
    words = {word for folder in path.parents
             if folder.name and folder / "README.md" in pages
             for word in re.findall(r"\w+", pages[folder / "README.md"])}
    parts = path.stem.split("_")
    return any("_".join(parts[:n]) in words
               for n in range(1, len(parts) + 1))


def main():
    try:
        names = [name for name in tracked()
                 if not name.startswith(FOREIGN)]
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no list of files: {error}")
        return 77
    pages = {pathlib.PurePath(name): (ROOT / name).read_text()
             for name in names if name.endswith(".md")}
    folders = {pathlib.PurePath(name).parent for name in names
               if SOURCE.search(name)}
    wrong = [text for name in pages for text in check_lines(name)]
    wrong += [f"{folder}: has no README, and none above names it"
              for folder in sorted(folders) if not is_covered(folder, pages)]
    wrong += [f"{name}: no README of its room names it"
              for name in names if name.startswith(ROOMS) and
              SOURCE.search(name) and not is_listed(name, pages)]
    for page, text in sorted(pages.items()):
        room = page.parent.as_posix()
        if page.name == "README.md" and page.parent in folders and \
                room not in NO_CARD:
            wrong += [f"{page}: its card lacks {word}" for word in CARD
                      if word not in text]
    print("\n".join(wrong) if wrong else "every page can be read")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
