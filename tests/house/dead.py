#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A public function has a caller in the product.

Prints every function of a product's header that no product source uses, not
even its own file, and exits 1; and every line of the table below that is not
needed any more. Purely textual: a name in a comment does not count.
"""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = ("common", "plan", "host", "proto", "stream", "kernels", "state", "psserver", "trainer",
         "worker", "lib", "coordinator", "client")
API = ("lib/sluice.h", "lib/tasks.h")  # called by other people's programs

# What cannot lie among the tests and bench programs that use it: it reaches
# inside its file.
SEAMS = {
    "clock_fake_init": "time that tests move by hand",
    "clock_fake_advance_ms": "time that tests move by hand",
    "sl_mem_failed": "tests let the n-th allocation fail",
    "sl_mem_live": "tests count what a call left behind",
    "sl_mem_calls": "tests count what a step allocates",
    "conf_float": "options of bench programs; the other types' twin",
    "tensorfile_parse": "the fuzzer's bytes, without a file",
    "local_bytes": "tests see what is mapped, and that it goes",
    "pool_kept_bytes": "tests see what the shelf keeps",
    "http_is_post": "a server has them; what it serves asks for none",
    "http_stream_close": "a server has them; what it serves asks for none",
    "rowset_is_frozen": "tests see that an instant ends with its image",
    "graph_describe": "graphs are checked for a device that is not there",
}

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
WORD = re.compile(r"[A-Za-z_]\w*")
DECLARED = re.compile(
    r"^(?!typedef|static|#|struct \w+ \{|\s)[A-Za-z_][\w \*]*?[ \*](\w+)\(",
    re.M)


def read(pattern):
    """The text of each source of the product, without comments."""
    return {path.relative_to(ROOT).as_posix():
            COMMENT.sub("", path.read_text(errors="replace"))
            for room in ROOMS
            for path in sorted((ROOT / room).rglob(pattern))}


def main():
    headers = read("*.h")
    used, named = collections.Counter(), collections.Counter()
    for pattern in ("*.c", "*.cu"):
        for text in read(pattern).values():
            used.update(WORD.findall(text))
    for text in (*headers.values(), *read("*.cuh").values()):
        named.update(WORD.findall(text))
    # Once in a source is the definition, once in a header the declaration.
    dead = {found: name for name, text in headers.items() if name not in API
            for found in DECLARED.findall(text)
            if used[found] <= 1 and named[found] <= 1}
    wrong = [f"{dead[found]}: nothing in the product calls {found}"
             for found in sorted(dead) if found not in SEAMS]
    wrong += [f"dead.py: {seam} is called, or is not there: needs no line"
              for seam in SEAMS if seam not in dead]
    print("\n".join(wrong) if wrong else "every public function has a caller")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
