#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A function has its name alone, and so has a struct.

A stack trace, `perf` and grep show a name and no file: `dialer_start` says what
`start` does not. So no two files of the product define functions of one name,
static or not, or structs of one tag. Two files that are never linked into one
program, since they are two builds of one interface, are in TWINS. Exits 1 with
a line per name; run by ctest.

Within a room, tables, variables and enumerators of one file have no namesake in
another, either: builds that only test compile files of a room together
(sluice_room in cmake/sluice.cmake).

A file's name is as good: two rooms of which one includes the other have no two
files of one base name. The backends of kernels mirror each other.

In Python, a function, class or constant that is defined again hides the first one,
and says nothing: a test that is hidden never runs.
"""
import ast
import collections
import itertools
import pathlib
import re
import sys

from layering import MAY
from tracked import ROOT, tracked

# Files of which a program has one, or none.
TWINS = [
    {"client/main.c", "coordinator/main.c", "psserver/main.c", "worker/main.c"},
    {"host/web/web.c", "host/web/web_none.c"},
    {"kernels/cpu/onednn.c", "kernels/cpu/none.c"},
    {"kernels/cuda/nccl.c", "kernels/cuda/nccl_none.c"},
    # What a CUDA module has of its own, since it links no room.
    {"kernels/cuda/hostside.c", "kernels/beat.c", "common/base/mem.c",
     "common/run/log.c"},
]

HIDDEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"'
                    r"|'(?:\\.|[^'\\\n])*'", re.S)
ATTRIBUTE = re.compile(r"__attribute__\(\(.*?\)\)\s*", re.S)
# A definition begins at the left margin; an upper-case name is a macro's.
FUNCTION = re.compile(
    r"^(?!(?:typedef|union|else|return|extern)\b|enum(?:\s+\w+)?\s*\{)"
    r"[A-Za-z_][\w \t*]*?[\s*](\w*[a-z]\w*)\((?:[^;{}])*?\)\s*\{", re.M)
STRUCT = re.compile(r"^(?:static |const |typedef )*struct (\w+)\s*\{", re.M)
# What a file alone has: `static ... name[] =`, and what ends the lines of its type.
TABLE = re.compile(r"^(?:static [^;={(]*?[\s*]|\} )(\w+)(?:\[[^\]]*\])*\s*(?:=|;)", re.M)
ENUM = re.compile(r"^(?:static const )?enum(?: \w+)?\s*\{([^}]*)\}", re.M)
ENUMERATOR = re.compile(r"(\w+)\s*(?:=[^,]*)?(?:,|$)")


def bare(text):
    """The text without comments, strings and attributes."""
    return ATTRIBUTE.sub("", HIDDEN.sub("", text))


def shared(names, pattern):
    """{name: the files that define it}, of names that several files define."""
    files = collections.defaultdict(set)
    for name in names:
        for found in pattern.findall(bare((ROOT / name).read_text(encoding="utf-8"))):
            files[found].add(name)
    return {found: where for found, where in files.items()
            if len(where) > 1 and not any(where <= twins for twins in TWINS)}


def apart(text):
    """Returns the names of tables, variables and enumerators of a file."""
    return {*TABLE.findall(text),
            *(name for found in ENUM.findall(text) for name in ENUMERATOR.findall(found.strip()))}


def together(names):
    """Yields each such name that two files have which are compiled together."""
    rooms = {room for room in MAY if f"sluice_room({room}\n" in
             (ROOT / room / "CMakeLists.txt").read_text(encoding="utf-8")}
    files = collections.defaultdict(set)
    for path in names:
        room = path.split("/")[0]
        if path.endswith(".c") and room in rooms:
            for name in apart(bare((ROOT / path).read_text(encoding="utf-8"))):
                files[room, name].add(path)
    for (_, name), where in sorted(files.items()):
        if len(where) > 1:
            yield f"{name} is in files that are compiled together: {', '.join(sorted(where))}"


def namesakes(names):
    """Yields each base name that rooms which include each other share."""
    stems = collections.defaultdict(set)
    for name in names:
        path = pathlib.PurePosixPath(name)
        stems[path.stem].add(path.with_suffix("").as_posix())
    for stem, paths in sorted(stems.items()):
        for one, other in itertools.combinations(sorted(paths), 2):
            a, b = one.split("/")[0], other.split("/")[0]
            if stem != "main" and (b in MAY[a] or a in MAY[b]) and \
                    not a == b == "kernels":
                yield f"two files that may include each other: {one}, {other}"


def of_python(path):
    with open(ROOT / path, "rb") as file:
        return path.endswith(".py") or file.readline().endswith(b"python3\n")


def defined(statement):
    """Yields the names that a statement defines: those of functions and classes, and of
    constants that it does not read."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        if not statement.decorator_list:  # @name.setter
            yield statement.name
    elif isinstance(statement, ast.Assign):
        read = {part.id for part in ast.walk(statement.value) if isinstance(part, ast.Name)}
        yield from {target.id for target in statement.targets if isinstance(target, ast.Name)
                    and target.id.isupper()} - read


def hidden(text):
    """Yields (line, name) of each definition that hides one of the same lines."""
    for node in ast.walk(ast.parse(text)):
        for part in ("body", "orelse", "finalbody"):
            lines, seen = getattr(node, part, None), set()
            for statement in lines if isinstance(lines, list) else ():
                for name in defined(statement):
                    if name in seen:
                        yield statement.lineno, name
                    seen.add(name)


# What hidden() must find, and what it must not.
HIDING = """
WORDS = 1
def one(): pass
class Two:
    def three(self): pass
    @property
    def four(self): pass
    @four.setter
    def four(self, _): pass
    def three(self): pass
WORDS = [WORDS]
def one(): pass
class Two: pass
if WORDS:
    def one(): pass
else:
    def one(): pass
WORDS = 2
"""
FOUND = [(10, "three"), (12, "one"), (13, "Two"), (18, "WORDS")]
# And apart().
OF_A_FILE = """
static const char *const words[] = {"a"};
static struct {
    int inner;
} rows[2] = {{1}};
static unsigned count;
enum { ONE = 1 << 2, TWO };
static int work(int n);
"""


def main():
    assert sorted(hidden(HIDING)) == FOUND, sorted(hidden(HIDING))
    assert apart(OF_A_FILE) == {"words", "rows", "count", "ONE", "TWO"}, apart(OF_A_FILE)
    names = tracked(*(f"{room}/*.{end}" for room in MAY
                      for end in ("c", "h", "cu", "cuh")))
    wrong = [f"{kind}{found} is defined in {', '.join(sorted(where))}"
             for kind, pattern in (("", FUNCTION), ("struct ", STRUCT))
             for found, where in sorted(shared(names, pattern).items())]
    wrong += [*together(names), *namesakes(names)]
    programs = list(filter(of_python, tracked()))
    wrong += [f"{path}:{line}: {name} is defined before, and hidden" for path in programs
              for line, name in hidden((ROOT / path).read_text(encoding="utf-8"))]
    print("\n".join(wrong) if wrong else f"every name of {len(names)} files is its own, "
          f"and nothing is hidden in {len(programs)} programs")
    return 1 if wrong or not names or not programs else 0


if __name__ == "__main__":
    sys.exit(main())
