#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every row of bench/run is explained in bench/README.md, and no other is; what
--quick leaves out it names; a bar may depend on the instruction set."""
import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import re
import subprocess
import sys
import types

ROOT = pathlib.Path(__file__).resolve().parents[2]


def bench_run():
    """bench/run as a module, and what it imports."""
    path = str(ROOT / "bench" / "run")
    loader = importlib.machinery.SourceFileLoader("bench_run", path)
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader("bench_run", loader))
    loader.exec_module(module)
    return module


def quick_finds(run):
    """What is wrong with what --quick leaves out."""
    rows = run.table.on_isa(run.table.load_rows(), "avx2")
    long = {name for name, r in rows.items() if r.long}
    for named in (False, True):
        quick = run.Quick(types.SimpleNamespace(quick=True, names=["x"] * named))
        out = {name for name, r in rows.items() if quick.leaves_out(r)}
        with contextlib.redirect_stderr(io.StringIO()) as said:
            told = set(quick.tell())
        if out != (set() if named else long) or told != out or not all(
                f"left out: {name}: " in said.getvalue() for name in out):
            yield f"--quick left out {sorted(out)}"
    quick.began -= run.QUICK_S + 1
    if not all(quick.leaves_out(r) for r in rows.values()):
        yield "--quick goes on past its time"
    if not long or len(long) * 2 > len(rows):
        yield f"--quick leaves out {len(long)} of {len(rows)} rows"


def isa_finds(run):
    """What is wrong with bars and caps by instruction set."""
    bar = run.table.ByIsa(avx512=run.table.at_least(3), other=run.table.at_least(2))
    texts = [run.table.bar_of(bar)(isa).text for isa in ("avx512", "avx2", "base")]
    if texts != [">= 3 x", ">= 2 x", ">= 2 x"]:
        yield f"a bar by instruction set is {texts}"
    if run.machine.isa("avx2") not in ("avx2", "base"):
        yield "a cap of avx2 does not hold"
    here = run.machine.machine()
    if here["capped"] or here["isa"] not in run.machine.as_text(here):
        yield "the machine's line does not say its instruction set"


def lack_finds(run):
    """What is wrong with what is said of a program that is not there."""
    class Row:
        name, bar, needs, long = "x", run.table.at_least(1), [], None

        @staticmethod
        def measure(_):
            """Not measured."""
            subprocess.run(["mpicc"], check=False, env={"PATH": "/nonexistent"})
    with contextlib.redirect_stderr(io.StringIO()) as said:
        run.measure(run.Bench(pathlib.Path("build-bench"), 1, 1.0), Row)
    if said.getvalue() != "x: not measured: mpicc is not here: apt-get install libopenmpi-dev\n":
        yield f"without mpicc it says: {said.getvalue()}"


def main():
    listed = subprocess.run([sys.executable, ROOT / "bench" / "run", "--list"],
                            capture_output=True, text=True, check=True).stdout
    rows = {line.split()[0] for line in listed.splitlines()}
    text = (ROOT / "bench" / "README.md").read_text()
    part = text[text.index("## Rows"):]
    part = part[:part.index("\n## ", 1)]
    told = {name for line in part.splitlines() if line.startswith("| `")
            for name in re.findall(r"`([^`]+)`", line.split("|")[1])}
    for name in sorted(rows - told):
        print(f"bench/README.md does not explain the row {name}")
    for name in sorted(told - rows):
        print(f"bench/README.md explains {name}, which is no row of bench/run")
    run = bench_run()
    finds = [*quick_finds(run), *isa_finds(run), *lack_finds(run)]
    for text in finds:
        print(f"bench/run: {text}")
    return 1 if rows != told or not rows or finds else 0


if __name__ == "__main__":
    sys.exit(main())
