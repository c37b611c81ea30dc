#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every deliberate mistake of tests/mutants applies to the tree as it is, has
rules that RULES.md has, and names what catches it as RULES.md, broken_test.py
and, where it alone does, tests/sim/mutants_test.py do. mutants_test.py says of
each whether the simulation catches it. The product itself holds no mistake.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / room)
                for room in ("mutants", "history", "system", "sim")]
import apply  # noqa: E402
import broken_test  # noqa: E402
import mutants_test  # noqa: E402
from rules_test import Table  # noqa: E402

PRODUCT = ("common", "proto", "stream", "kernels", "state", "psserver", "trainer", "worker",
           "coordinator", "client")
MISTAKE = re.compile(r"\b(BROKEN|MUTANT)\w*\(|SLUICE_BREAK|tests/mutants")


def catchers(name, table):
    """As the `caught:` lines say them."""
    for row in table.rows:
        if row.mistake == name:
            yield f"{row.binary} {row.test}"
    if name in broken_test.VARIANTS:
        invariants = broken_test.VARIANTS[name][1]
        yield f"broken_test.py {' '.join(sorted(invariants))}"
    if name in mutants_test.ALONE:
        yield f"sim.life {mutants_test.CAUGHT[name]}"


def wrong_with(mutant, table):
    where = f"tests/mutants/{mutant.name}.mutant"
    for rule in mutant.rules:
        if rule not in table.rules:
            yield f"{where}: RULES.md has no rule {rule}"
    known = list(catchers(mutant.name, table))
    if not known:
        yield f"{where}: RULES.md, broken_test.py and mutants_test.py do not catch it"
    elif sorted(known) != sorted(mutant.caught):
        yield f"{where}: must say\n  " + "\n  ".join(f"caught: {k}" for k in known)


def in_product():
    for room in PRODUCT:
        for path in sorted((ROOT / room).rglob("*.[ch]")):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if MISTAKE.search(line):
                    yield (f"{path.relative_to(ROOT)}:{number}: a mistake belongs "
                           f"into tests/mutants: {line.strip()}")


def main():
    table = Table(ROOT / "tests" / "history" / "RULES.md")
    there = apply.mutants()
    wrong = [*apply.check(), *in_product()]
    for mutant in there:
        wrong += wrong_with(mutant, table)
    names = {mutant.name for mutant in there}
    wrong += [f"{name}: a test waits for it, tests/mutants has none such"
              for name in sorted({r.mistake for r in table.rows}
                                 | set(broken_test.VARIANTS)
                                 | set(mutants_test.CAUGHT) | set(mutants_test.NOT_HERE))
              if name not in names]
    wrong += [f"{name}: tests/sim/mutants_test.py does not say whether the simulation catches it"
              for name in sorted(names - set(mutants_test.CAUGHT) - set(mutants_test.NOT_HERE))]
    print(*wrong, sep="\n")
    if wrong:
        print("tests/mutants/README.md says what such a file holds. A line that "
              "changed takes its mistake along.")
    print(f"{len(there)} mistakes, {len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    try:
        main()
    except apply.Wrong as words:
        sys.exit(str(words))
