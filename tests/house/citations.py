#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What code and pages cite is there.

    citations.py        exit status 1: a citation that leads nowhere

- A rule (K4) that is cited stands in docs/protocol.md.
- A rule of docs/protocol.md names the files that keep it, and each of them
  cites it; one that is marked "(not built yet)" is cited by no code.
- A page, a file or a folder that is named is in the repository. A name without
  a folder may be anywhere; a path begins at the root, or at a folder above the
  file that names it. A star stands for what it does in a shell.
- A page that names a function and its file, `function` (`file`), names one
  that is defined there. Any other name_with_underscores in a page's code is
  somewhere in the sources. (Pages of bench/ speak of other programs, too.)
- A mark like AB-4 or O5 is the name of a standard: ours have no such marks, so
  it would be one of a paper that nobody here has.

In sources only comments count, texts of messages where they name a rule, and
names of tests; in pages everything.
"""
import collections
import fnmatch
import io
import pathlib
import re
import subprocess
import sys
import tokenize

from tracked import ROOT, tracked

PROTOCOL = "docs/protocol.md"

# What is named and is no file of ours: libraries' and the kernel's files, and
# names that stand for any.
STRANGERS = {
    "cuda_runtime_api.h", "descriptor.proto",
    "net/ipv4/tcp_bbr.c", "tcp_cong.c",
    "FILE.c", "file.c",
}
STANDARDS = {"AVX-512", "CRC-32", "P-256", "SHA-256", "UTF-16", "UTF-8"}
# Names that stand for any.
PATTERNS = {"x_init", "x_release", "x_free"}
FOREIGN = ("bench/results/", "tests/fuzz/corpus/", "LICENSE")

C_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
RULE = re.compile(r"(?<![\w|<^#.-])([ISWCKERYDAHTM]\d|T1\d)(?![\w%])")
RANGE = re.compile(r"\b([ISWCKERYDAHTM])(\d)-\1(\d)\b")
RULE_OF_TEST = re.compile(r"(?:TEST\(\w+,\s*|\bdef |\b[a-z]+\.)"
                          r"([ISWCKERYDAHTM]\d|T1\d)_\w+")
RULE_OF_TEXT = re.compile(r"\(([ISWCKERYDAHTM]\d|T1\d)\)|^([ISWCKERYDAHTM]\d|T1\d): ")
HEADING = re.compile(r"^### ([ISWCKERYDAHTM]\d|T1\d) (\(not built yet\) )?", re.M)
KEPT = re.compile(r"^- Kept in: (.*?)(?=\n\n|\n- |\Z)", re.M | re.S)
URL = re.compile(r"\w+://\S+")
FILE = re.compile(r"(?<![\w./*<>{-])((?:[\w.*-]+/)*[\w*-][\w.*-]*"
                  r"\.(?:c|h|cu|cuh|py|proto|md))(?![\w/(*-]|\.\w)")
FOLDER = re.compile(r"`([\w.-]+(?:/[\w.*-]+)+)/?`")
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.S)
PROGRAM = re.compile(r"```python\n(.*?)```", re.S)  # of the page itself
DEFINED = re.compile(r"\bdef (\w+)")
WORD = re.compile(r"(?<![\w.*-])[a-z]\w*_\w+(?![\w*])")
MARK = re.compile(r"(?<![\w./-])(?:[A-Z]{1,5}-\d+|O\d)(?!\w)")
RULES = "proto/wire_rules.c"
BOUND_BY = re.compile(r'"(\w+\.c):(\w+)"')
FUNCTION = re.compile(r"`(\w+)`\s+\(`([\w./-]+)`\)")


def python_comments(text):
    """The comments and docstrings of a Python file, one a line."""
    found = []
    before = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        doc = token.type == tokenize.STRING and before in (
            tokenize.NEWLINE, tokenize.INDENT, tokenize.NL)
        if token.type == tokenize.COMMENT or doc:
            found.append(token.string)
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            before = token.type
    return found


class File:
    """One file of the repository and what it says to people."""

    def __init__(self, name):
        self.name = name
        self.text = (ROOT / name).read_text(errors="replace")
        self.words, self.strings = self.read()

    def is_page(self):
        return self.name.endswith(".md")

    def read(self):
        """([comments], [texts in quotes])"""
        if self.is_page():
            return [self.text], []
        if re.search(r"\.(c|h|cu|cuh|cpp|proto)$", self.name):
            tokens = C_TOKEN.findall(self.text)
            return ([t for t in tokens if t.startswith("/")],
                    [t[1:-1] for t in tokens if t.startswith('"')])
        if self.text.startswith("#!") and "python" in self.text[:40] or \
                self.name.endswith(".py"):
            return python_comments(self.text), \
                re.findall(r'"((?:\\.|[^"\\\n])*)"', self.text)
        return [line for line in self.text.splitlines()
                if line.lstrip().startswith("#")], []

    def rules(self):
        """The rules that it cites."""
        found = set(RULE_OF_TEST.findall(self.text))
        for words in self.words:
            found.update(RULE.findall(words))
            for letter, low, high in RANGE.findall(words):
                found.update(f"{letter}{n}"
                             for n in range(int(low), int(high) + 1))
        for text in self.strings:
            found.update(a or b for a, b in RULE_OF_TEXT.findall(text))
        return found

    def names(self):
        """The files and folders that it names."""
        found = set()
        for words in self.words:
            words = URL.sub("", words).replace(".[ch]", ".h")
            found.update(FILE.findall(words))
            if self.is_page():
                found.update(FOLDER.findall(words))
        return found


class Repository:
    def __init__(self):
        names = [name for name in tracked() if not name.startswith(FOREIGN)]
        self.paths = set(tracked())
        # Made while building.
        self.paths |= {"proto/methods.h"}
        self.paths |= {re.sub(r"proto$", f"pb-c.{end}", path)
                       for path in self.paths if path.endswith(".proto")
                       for end in "ch"}
        # A folder, and a module: a source and its header under one name.
        self.paths |= {parent.as_posix() for name in names
                       for parent in pathlib.PurePath(name).parents}
        self.paths |= {path[:-2] for path in self.paths
                       if path.endswith((".c", ".h"))}
        self.names = {path.rsplit("/", 1)[-1] for path in self.paths}
        self.tops = {name.split("/")[0] for name in names if "/" in name}
        self.folders = {part for name in names
                        for part in pathlib.PurePath(name).parent.parts}
        self.files = [File(name) for name in names
                      if re.search(r"\.(c|h|cu|cuh|cpp|proto|py|md|cmake|sh)$|"
                                   r"/CMakeLists\.txt$|^[\w-]+$", name)
                      or "." not in pathlib.PurePath(name).name]

    def has(self, name, citing):
        """Is the file or folder there, seen from the file that names it?"""
        folder = pathlib.PurePath(citing).parent
        for base in [folder, *folder.parents]:
            parts = []
            for part in (base / name).parts:
                if part == ".." and parts:
                    parts.pop()
                else:
                    parts.append(part)
            path = "/".join(parts)
            if path in self.paths or \
                    "*" in path and fnmatch.filter(self.paths, path):
                return True
        if "/" in name:
            return False
        return name in self.names or \
            "*" in name and bool(fnmatch.filter(self.names, name))


def is_ours(name, repository):
    """False for a path in a build folder, of another project, and the like."""
    if name in STRANGERS:
        return False
    if "/" not in name:
        return True
    first, last = name.split("/")[0], name.split("/")[-1]
    if "." not in last:
        return first in repository.tops
    return first in repository.folders or last.endswith(".md")


def check_names(repository):
    for file in repository.files:
        for name in sorted(file.names()):
            if is_ours(name, repository) and \
                    not repository.has(name, file.name):
                yield f"{file.name}: {name} is not in the repository"


def check_cited(repository, rules):
    for file in repository.files:
        for rule in sorted(file.rules() - rules):
            yield f"{file.name}: there is no rule {rule} in {PROTOCOL}"


def is_product(file):
    return not file.is_page() and not file.name.startswith("tests/")


def check_kept(repository, page):
    by_name = {file.name: file for file in repository.files}
    at = list(HEADING.finditer(page)) + [None]
    for here, there in zip(at, at[1:]):
        rule = here[1]
        part = page[here.end():there.start() if there else len(page)]
        kept = KEPT.search(part)
        keepers = re.findall(r"`([\w./]+)`", kept[1]) if kept else []
        if here[2]:
            for file in repository.files:
                if is_product(file) and rule in file.rules():
                    yield f"{file.name}: {rule} is marked as not built yet"
            continue
        if not keepers:
            yield f"{PROTOCOL}: {rule} does not say where it is kept"
        for name in keepers:
            if name in by_name and rule not in by_name[name].rules():
                yield f"{PROTOCOL}: {rule} is kept in {name}, which does " \
                      "not cite it"


def defines(text, function, name):
    if name.endswith(".py"):
        return re.search(rf"^\s*def {function}\(", text, re.M)
    if name.endswith(".proto"):
        return re.search(rf"^\s*(rpc|message) {function}\b", text, re.M)
    return re.search(rf"^(?:\w[\w\s*]*[\s*])?{function}\([^;{{}}]*\)\s*\n\{{",
                     text, re.M)


def check_functions(repository):
    by_name = {file.name: file for file in repository.files}
    for file in filter(File.is_page, repository.files):
        for function, name in FUNCTION.findall(file.text):
            if name in by_name and \
                    not defines(by_name[name].text, function, name):
                yield f"{file.name}: {name} does not define {function}"


def check_bounds(repository):
    """What bounds a number from outside is defined where the table says, and
    something calls it."""
    by_name = {file.name: file for file in repository.files}
    product = [file for file in repository.files if is_product(file)]
    said = collections.Counter(word for file in product if not file.name.endswith(".h")
                               for word in re.findall(r'\b\w+\b(?!")', file.text))
    for name, function in BOUND_BY.findall(by_name[RULES].text):
        definers = [file for file in product
                    if file.name.endswith("/" + name) and
                    defines(file.text, function, name)]
        if not definers or said[function] < 2:
            yield f"{RULES}: no {name} has a {function} that is called"


def check_words(repository):
    known = set(PATTERNS)
    for file in repository.files:
        if not file.is_page():
            known.update(re.findall(r"\w+", file.text))
    for path in repository.paths:
        known.update(re.findall(r"\w+", path))
    for file in filter(File.is_page, repository.files):
        if file.name.startswith("bench/"):
            continue
        said = {word for code in CODE.findall(file.text)
                for word in WORD.findall(code)}
        said -= {word for code in PROGRAM.findall(file.text)
                 for word in DEFINED.findall(code)}
        for word in sorted(said - known):
            if not (word.endswith("_") and
                    any(name.startswith(word) for name in known)):
                yield f"{file.name}: no source knows the name {word}"


def check_marks(repository):
    for file in repository.files:
        if file.name == "tests/house/citations.py":
            continue
        said = {mark for words in file.words
                for mark in MARK.findall(URL.sub("", words))}
        for mark in sorted(said - STANDARDS):
            yield f"{file.name}: what is {mark}? say it in words"


def main():
    try:
        repository = Repository()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no list of files: {error}")
        return 77
    page = (ROOT / PROTOCOL).read_text()
    rules = set(rule for rule, _ in HEADING.findall(page))
    wrong = [*check_names(repository), *check_cited(repository, rules),
             *check_kept(repository, page), *check_functions(repository),
             *check_bounds(repository), *check_words(repository),
             *check_marks(repository)]
    print("\n".join(wrong) if wrong else "every citation leads somewhere")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
