#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every rule of the protocol has a test that is named after it and fails when
the rule is broken.

RULES.md is the list. Each of its tests runs twice: as it is, where it must
pass, and with SLUICE_BREAK=<mistake>, where it must fail by an assertion or a
crash. A rule without a row, a name that does not fit, a mistake that nothing
catches: each fails.

    rules_test.py             all rules
    rules_test.py K4 I3       only these
"""
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
BIN = pathlib.Path(os.environ.get("SLUICE_BIN", "build-faults/bin")).resolve()
LIMIT_S = 120  # of one run of one test, which takes a second


class Table:
    """What RULES.md says."""

    def __init__(self, path):
        text = path.read_text()
        self.rows = [Row(*cells) for cells in self.cells(text, 4)]
        self.waiting = [cells[0] for cells in self.cells(text, 2)]
        self.rules = self.expand(re.search(r"^Rules: (.*)$", text, re.M)[1])

    @staticmethod
    def cells(text, count):
        """Rows of the table with so many columns, without its head."""
        for line in text.splitlines():
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            if len(cells) == count and re.match(r"[A-Z]\d", cells[0]):
                yield cells

    @staticmethod
    def expand(words):
        """"I1-I3 S1" -> ["I1", "I2", "I3", "S1"]"""
        rules = []
        for first, low, _, high in re.findall(r"([A-Z])(\d+)(-[A-Z](\d+))?", words):
            rules += [f"{first}{n}" for n in range(int(low), int(high or low) + 1)]
        return rules

    def missing(self):
        """Rules of the list that no row is about, and the other way round."""
        there = {row.rule for row in self.rows} | {
            rule for words in self.waiting for rule in self.expand(words)}
        yield from (f"{rule}: no test and not waiting"
                    for rule in self.rules if rule not in there)
        yield from (f"{rule}: not in the list of rules"
                    for rule in sorted(there - set(self.rules)))


class Row:
    def __init__(self, rule, binary, test, mistake):
        self.rule, self.binary, self.test, self.mistake = rule, binary, test, mistake

    def named(self, tests):
        """What is wrong with the name of its test; `tests`: of its binary."""
        if not self.test.split(".")[1].startswith(self.rule + "_"):
            yield f"{self.test} is not named after {self.rule}"
        if self.test not in tests:
            yield f"{self.binary} has no test {self.test}"
        elif sum(self.test in other for other in tests) > 1:
            yield f"{self.test} is part of another test's name"

    def run(self, mistake=None):
        """The exit status, or "hung"; and what was said."""
        environment = {k: v for k, v in os.environ.items()
                       if not k.startswith("SLUICE_")}
        if mistake:
            environment["SLUICE_BREAK"] = mistake
        try:
            done = subprocess.run(
                [BIN / self.binary, self.test], env=environment, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                timeout=LIMIT_S, check=False, errors="replace")
        except subprocess.TimeoutExpired as error:
            return "hung", str(error.stdout or "")
        return done.returncode, done.stdout

    def check(self):
        """What is wrong with it, or nothing."""
        code, said = self.run()
        if code != 0:
            yield f"{self.test} fails ({code}) without a mistake:\n{said[-2000:]}"
            return
        code, said = self.run(self.mistake)
        # 1: a check of the test did not hold. A signal: an assertion, a crash.
        if code == 0:
            yield f"{self.test} passes with SLUICE_BREAK={self.mistake}"
        elif code != 1 and not (isinstance(code, int) and code < 0):
            yield (f"{self.test} with SLUICE_BREAK={self.mistake} ends with {code} "
                   f"and not by an assertion:\n{said[-2000:]}")


def listed(binary, *flags, **environment):
    return subprocess.run([BIN / binary, *flags], check=True, capture_output=True,
                          env=os.environ | environment, text=True).stdout.split()


def mistakes(binary):
    return listed(binary, SLUICE_BREAK="list")


def of_simulation():
    """The mistakes that tests/sim/mutants_test.py alone is asked to catch, as their
    files say."""
    sys.path[:0] = [str(HERE.parent / "mutants")]
    import apply
    return {mutant.name for mutant in apply.mutants()
            if any(by.startswith("sim.life") for by in mutant.caught)}


def check_mistakes(table):
    """Every mistake is caught by a test, and none is only in a table."""
    sys.path[:0] = [str(HERE), str(HERE.parent / "system")]
    import broken_test
    known = set(mistakes("psserver"))
    used = {row.mistake for row in table.rows}
    yield from (f"{name}: neither RULES.md nor broken_test.py has it"
                for name in sorted(known - used - set(broken_test.VARIANTS)
                                   - of_simulation()))
    yield from (f"{name}: no such mistake in tests/mutants"
                for name in sorted(used - known))


def main():
    began = time.monotonic()
    table = Table(HERE / "RULES.md")
    wanted = sys.argv[1:] or table.rules
    failures = [*table.missing(), *check_mistakes(table)]
    tests = {row.binary: listed(row.binary, "-l") for row in table.rows}
    for row in table.rows:
        if row.rule not in wanted:
            continue
        wrong = [*row.named(tests[row.binary]), *row.check()]
        failures += wrong
        print(f"{'FAILED' if wrong else 'ok'} {row.rule} {row.test} "
              f"({row.mistake})", flush=True)
    print(*failures, sep="\n")
    print(f"{len(table.rows)} tests of {len({r.rule for r in table.rows})} rules, "
          f"{len(failures)} failures ({time.monotonic() - began:.1f} s)")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
