#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Deliberate mistakes, applied to copies of the product's files: README.md.

    apply.py --targets              each file that a mistake names, and where
                                    those mistakes stand, for CMake
    apply.py --list OUT             the names, for mutant.h
    apply.py FILE OUT               a copy of FILE that can make its mistakes
    apply.py --check                do all of them apply to the tree?

A line of the copy is the line of the original with the same number.
"""
import dataclasses
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\w+|[^\w\s]')
# Between two tokens: white space and comments, which do not matter.
GAP = r"(?:\s|//[^\n]*\n|/\*.*?\*/)*"


class Wrong(Exception):
    """What is wrong with a mistake, in words for whoever changed a line."""


@dataclasses.dataclass
class Hunk:
    mutant: str
    kind: str  # "in" a function, or "before" it
    file: str
    function: str
    find: str = ""
    put: str = ""
    line: int = 0  # of its last text in its file

    def where(self):
        return f"tests/mutants/{self.mutant}.mutant: {self.kind} {self.file}, {self.function}"


class Mutant:
    """What a file NAME.mutant says."""

    def __init__(self, path):
        self.name = path.stem
        self.path = path
        self.what = ""
        self.rules, self.caught, self.hunks = [], [], []
        for number, line in enumerate(path.read_text().splitlines(), 1):
            try:
                self._take(line.rstrip(), number)
            except (Wrong, ValueError, IndexError) as error:
                raise Wrong(f"{path}:{number}: {error or line}") from error
        self._demand()

    def _take(self, line, number):
        if line.startswith("# "):
            self.what = f"{self.what} {line[2:]}".strip()
        elif line.startswith("rule: "):
            self.rules = line[6:].replace("none", "").split()
        elif line.startswith("caught: "):
            self.caught.append(line[8:])
        elif line.startswith(("in ", "before ")):
            kind, rest = line.split(" ", 1)
            file, function = re.fullmatch(r"(\S+), (\w+):", rest).groups()
            self.hunks.append(Hunk(self.name, kind, file, function))
        elif line.startswith("-"):
            self.hunks[-1].find += line[1:].strip() + "\n"
        elif line.startswith("+"):
            self.hunks[-1].put += line[1:].removeprefix(" ") + "\n"
            self.hunks[-1].line = number
        elif line:
            raise Wrong(f"neither a head, nor a text of a hunk: {line}")

    def _demand(self):
        for hunk in self.hunks:
            if not hunk.file.endswith(".c"):
                raise Wrong(f"{hunk.where()}: only .c files can be copied")
            if not hunk.put or bool(hunk.find) != (hunk.kind == "in"):
                raise Wrong(f"{hunk.where()}: 'in' has - and + lines, 'before' only +")
            if hunk.find and re.search(r"//|^#", hunk.put, re.M):
                raise Wrong(f"{hunk.where()}: this becomes one line: "
                            "no // comment, no directive")
        if not self.hunks or not self.what:
            raise Wrong(f"{self.path}: needs a sentence (# ...) and a hunk")
        used = set(re.findall(r"MUTANT\w*\((\w+)", " ".join(h.put for h in self.hunks)))
        if used != {self.name}:
            raise Wrong(f"{self.path}: makes {sorted(used)} and not {self.name}")


def mutants():
    """All, in the order in which they are applied: by name."""
    return [Mutant(path) for path in sorted(HERE.glob("*.mutant"))]


# ---- finding things in C

def pattern(text):
    """Finds these tokens, however they are indented and wrapped."""
    tokens = TOKEN.findall(text)
    parts = [re.escape(tokens[0])]
    for before, after in zip(tokens, tokens[1:]):
        # A literal may be cut in two by a new line.
        words = before[-1].isalnum() and after[0].isalnum()
        parts += [r"\s+" if words else GAP, re.escape(after)]
    left = r"(?<!\w)" if re.match(r"\w", tokens[0]) else ""
    right = r"(?!\w)" if re.match(r"\w", tokens[-1][-1]) else ""
    return re.compile(left + "".join(parts) + right, re.S)


def closing(text, at):
    """Where the parenthesis that opens at `at` is closed."""
    depth = 0
    for i in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i
    return -1


def bodies(text, name=r"\w+"):
    """(name, start, end) of each function: from its type to its last brace."""
    for match in re.finditer(rf"^(?=\w).*?\b({name})\(", text, re.M):
        close = closing(text, match.end() - 1)
        if close < 0 or not re.match(r"\s*\n\{", text[close + 1:close + 9]):
            continue
        end = text.find("\n}", close)
        start = text.rfind("\n", 0, match.start(1)) + 1
        above = text[:start].splitlines()
        # Its type may stand in a line of its own.
        while above and re.match(r"\w[^;{}:]*$", above[-1]):
            start -= len(above.pop()) + 1
        yield match.group(1), start, end + 2


def function(text, hunk):
    found = [b for b in bodies(text, hunk.function)]
    if len(found) != 1:
        raise Wrong(f"{hunk.where()}: the file has {len(found)} such functions"
                    + elsewhere(hunk))
    return found[0][1:]


def elsewhere(hunk):
    """Words for where its text stands now."""
    if not hunk.find:
        return ""
    places = []
    room = hunk.file.split("/")[0]
    for path in sorted((ROOT / room).rglob("*.c")):
        text = path.read_text()
        hits = [m.start() for m in pattern(hunk.find).finditer(text)]
        places += [f"{path.relative_to(ROOT)}, {name}" for at in hits
                   for name, start, end in bodies(text) if start <= at < end]
    return "; its text stands in " + " and in ".join(places) if places else \
        f"; nothing in {room}/ reads\n    " + hunk.find.strip().replace("\n", "\n    ")


# ---- applying

def one_line(text):
    return " ".join(text.split())


def put_before(text, hunk):
    """Gives no other line another number: those below say which they are."""
    start, _ = function(text, hunk)
    line = text.count("\n", 0, start) + 1
    first = hunk.line - hunk.put.count("\n") + 1
    return (f'{text[:start]}#line {first} "{ROOT}/tests/mutants/{hunk.mutant}.mutant"\n'
            f'{hunk.put}#line {line} "{ROOT / hunk.file}"\n{text[start:]}')


def put_in(text, hunk):
    start, end = function(text, hunk)
    hits = list(pattern(hunk.find).finditer(text, start, end))
    if len(hits) != 1:
        raise Wrong(f"{hunk.where()}: {len(hits)} places there fit"
                    + (elsewhere(hunk) if not hits else ""))
    there = hits[0]
    # Comments within go; its lines stay as many as they were.
    kept = one_line(re.sub(r"//[^\n]*", "", there.group()))
    put = one_line(hunk.put).replace("@", kept)
    return (text[:there.start()] + put + "\n" * there.group().count("\n")
            + text[there.end():])


def mutate(file, hunks):
    path = ROOT / file
    if not path.exists():
        raise Wrong(f"{hunks[0].where()}: no such file" + elsewhere(hunks[0]))
    text = path.read_text()
    for hunk in hunks:
        if hunk.kind == "in":
            text = put_in(text, hunk)
    # From below, so that those above still have their numbers.
    before = [(function(text, h)[0], i) for i, h in enumerate(hunks)
              if h.kind == "before"]
    for _, i in sorted(before, reverse=True):
        text = put_before(text, hunks[i])
    return text


def by_file(all_of_them):
    files = {}
    for mutant in all_of_them:
        for hunk in mutant.hunks:
            files.setdefault(hunk.file, []).append(hunk)
    return files


def check():
    """Words for each that does not apply."""
    wrong = []
    for file, hunks in by_file(mutants()).items():
        try:
            mutate(file, hunks)
        except Wrong as error:
            wrong.append(str(error))
    return wrong


def write(path, text):
    """Only if it changes: what depends on it is then not built again."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def copy(file, out):
    hunks = by_file(mutants())[file]
    path = pathlib.Path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#include "tests/mutants/mutant.h"\n#line 1 "{ROOT / file}"\n'
                    + mutate(file, hunks))


def main():
    if sys.argv[1] == "--targets":
        for file, hunks in by_file(mutants()).items():
            print(file, *dict.fromkeys(h.mutant for h in hunks))
    elif sys.argv[1] == "--list":
        names = "".join(f" \\\n    X({m.name})" for m in mutants())
        write(sys.argv[2], f"#define MUTANT_LIST(X){names}\n")
    elif sys.argv[1] == "--check":
        wrong = check()
        print(*wrong, sep="\n")
        sys.exit(1 if wrong else 0)
    else:
        copy(*sys.argv[1:3])


if __name__ == "__main__":
    try:
        main()
    except Wrong as wrong_words:
        sys.exit(str(wrong_words))
