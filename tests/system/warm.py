# SPDX-License-Identifier: Apache-2.0
"""Imports what its arguments name, and begins programs as forks of itself: what a
framework takes to load, which is seconds of processor time, it takes once for many.

A line of standard input is a program: JSON with its code, its words and the files that
its output is added to. The answer is a line with its exit status; or, with `orphan`, as
soon as it has begun, its pid: it is then a child of whoever takes orphans
(orphans.py). At the end of the input this ends. A program is what `python -c` would make of it, but for modules that
are there already: no thread runs and nothing of them is in use before the fork.
"""
import importlib
import json
import os
import sys
import types
import warnings


def begin(code, words, files):
    """Becomes that program."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for fd, path in enumerate((os.devnull, *files)):
        os.dup2(os.open(path, flags if fd else os.O_RDONLY, 0o600), fd)
    sys.argv = ["-c", *words]
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    exec(compile(code, "<string>", "exec"), main.__dict__)  # pylint: disable=exec-used


def serve():
    for name in sys.argv[1:]:
        importlib.import_module(name)
    threads = len(os.listdir("/proc/self/task"))
    assert threads == 1, f"{sys.argv[1:]} begin {threads - 1} threads: no fork has them"
    warnings.filterwarnings("ignore", "os.fork")  # JAX's, which counts on threads
    for line in sys.stdin:
        said = json.loads(line)
        orphan = said.pop("orphan", False)
        child = os.fork()
        if child == 0:
            grandchild = orphan and os.fork()
            if grandchild:
                print(grandchild, flush=True)
                os._exit(0)
            return begin(**said)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print("begun" if orphan else status, flush=True)


if __name__ == "__main__":
    serve()
