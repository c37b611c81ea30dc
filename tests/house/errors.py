#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`err` may be NULL, unless the header says that it may not.

A function that reads its `struct sl_error *err` without asking whether there is
one, or hands it to such a function, stands in a header that says so: in its
card, or in the comment of the function. And a function with an `err` that ends
without memory says so in it: sl_no_memory(err), unless a call before has said it.
Prints every other one, and exits 1.
"""
import re
import sys

from layering import MAY
from tracked import ROOT, tracked

FUNCTION = re.compile(
    r"^[A-Za-z_][^\n;{}#]*?\b(\w+)\(([^;{}]*?)\)\n\{\n(.*?)^\}\n", re.M | re.S)
PROTOTYPE = re.compile(
    r"((?:^//[^\n]*\n)*)^[a-z][^\n;{}()#]*?\b(\w+)\(([^;{}]*?)\)[^;{}()]*"
    r"(?:__attribute__[^;]*)?;", re.M)
ERR = re.compile(r"struct sl_error \*err\b")
OUTPUT = re.compile(r"(?<!const )struct sl_error \*err\b")
READS = re.compile(r"\berr->|(?<!sl_error )\*err\b")
ASKS = re.compile(r"\berr (?:!=|==) NULL|\berr &&|!err\b|if \(err\)|\berr \?")
CALL = re.compile(r"\b(\w+)\(((?:[^()]|\([^()]*\))*)\)")
HANDED = re.compile(r"(?:^|,)\s*err\s*(?:,|$)")
SAYS = re.compile(r"`err` is (?:not|never) NULL|but `err`|`err` neither|"
                  r"\*?`?err`?, which is not NULL|wants an `err`")


EXCEPT = r"`err` may be NULL, but for [^.]*\b{function}\b"


def plain(comment):
    """The text of a comment in one line."""
    return re.sub(r"\s*\n//\s*", " ", comment)


def bodies(texts):
    """{function: its body}, of those with an `err` and no question for it."""
    found = {}
    for text in texts.values():
        for name, parameters, body in FUNCTION.findall(text):
            body = re.sub(r"//.*", "", body)
            if ERR.search(parameters) and not ASKS.search(body):
                found[name] = body
    return found


def needing(found):
    """{function that needs an `err`: the function by which it does}."""
    need = {name: name for name, body in found.items() if READS.search(body)}
    news = True
    while news:
        news = {name: called for name, body in found.items() if name not in need
                for called, given in CALL.findall(body)
                if called in need and HANDED.search(given)}
        need |= news
    return need


def speechless(texts):
    """Yields the lines that return SL_ENOMEM and leave `err` empty."""
    for name, text in texts.items():
        for match in FUNCTION.finditer(text):
            lines = match[3].split("\n")
            first = text[:match.start(3)].count("\n") + 1
            for i, line in enumerate(lines):
                before = " ".join(lines[max(0, i - 4):i])
                if OUTPUT.search(match[2]) and "return SL_ENOMEM;" in line \
                        and not re.search(r"\berr\)", before):
                    yield f"{name}:{first + i}: {match[1]} returns SL_ENOMEM without words"


def main():
    names = tracked(*(f"{room}/*.{end}" for room in MAY for end in "ch"))
    texts = {name: (ROOT / name).read_text() for name in names}
    need, wrong = needing(bodies(texts)), list(speechless(texts))
    for name, text in texts.items():
        if not name.endswith(".h"):
            continue
        card = plain(text[:text.find("#ifndef")])
        for comment, function, parameters in PROTOTYPE.findall(text):
            said = SAYS.search(card) or SAYS.search(plain(comment)) or \
                re.search(EXCEPT.format(function=function), card)
            if function in need and OUTPUT.search(parameters) and not said:
                by = "" if need[function] == function \
                    else f", by {need[function]}"
                wrong.append(f"{name}: {function} reads `err`{by}, and does "
                             "not say that it may not be NULL")
    print("\n".join(wrong) if wrong else
          f"{len(need)} functions need an `err`; those in headers say so")
    return 1 if wrong or not need else 0


if __name__ == "__main__":
    sys.exit(main())
