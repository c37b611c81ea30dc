#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Manual pages and completions say what the programs say: BIN is argument 1.

mandoc has nothing to say about a page; each option and verb is in it; bash
completes with the script that we print. Exit 77 where there is no mandoc.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
BIN = pathlib.Path(sys.argv[1])
SHELLS = {"bash": "sluice.bash", "zsh": "_sluice", "fish": "sluice.fish"}
wrong = []


def run(*words, **more):
    return subprocess.run([str(w) for w in words], capture_output=True, text=True,
                          check=False, **more)


def expect(condition, *what):
    if not condition:
        wrong.append(" ".join(map(str, what)))


def options(text):
    return set(re.findall(r"^ +(?:-\w, )?--([a-z][a-z0-9-]*)", text, re.M))


def check_page(page, texts):
    done = run("mandoc", "-Tlint", "-Wall", page)
    expect(done.returncode == 0 and not done.stdout, page.name, done.stdout[:2000])
    said = set(re.findall(r"^\.It .*?Fl -([a-z][a-z0-9-]*)", page.read_text(), re.M))
    for text in texts:
        missing = options(text) - said - {"config", "print-config", "help", "version"}
        expect(not missing, page.name, "lacks", sorted(missing))


def complete(script, *words):
    """What bash offers for the last word; jobs are j-7 and j-8, w-1 a worker."""
    line = " ".join(f"'{w}'" for w in words)
    done = run("bash", "-c", f"""
        sluice() {{ case $3 in jobs) echo j-7; echo j-8 ;; workers) echo w-1 ;; esac; }}
        . {script}
        COMP_WORDS=({line}) COMP_CWORD={len(words) - 1}
        _sluice; printf '%s\\n' "${{COMPREPLY[@]}}" """)
    expect(not done.stderr, "bash:", done.stderr)
    return done.stdout.split()


def check_bash(script, verbs):
    def is_(want, *words):
        got = complete(script, "sluice", *words)
        expect(got == want, "bash completes", words, "by", got, "and not", want)
    expect(set(complete(script, "sluice", "")) == verbs | {"help"}, "verbs of bash")
    is_(["events"], "ev")
    is_(["workers"], "--coordinator", "submit", "work")
    is_(["json", "jsonl"], "jobs", "-o", "j")
    is_(["--queue"], "submit", "--qu")
    is_(["--coordinator", "--color", "--config"], "jobs", "--co")
    is_(["j-7", "j-8"], "watch", "")
    is_(["w-1"], "drain", "w")
    is_(["zsh"], "completion", "z")


def main():
    if shutil.which("mandoc") is None:
        print("skipped: mandoc is not installed (tools/install-packages --tests)")
        return 77
    verbs = set(re.findall(r"^  ([a-z]+) ", run(BIN / "sluice", "help").stdout, re.M))
    verbs.discard("sluice")
    with tempfile.TemporaryDirectory() as name:
        out = pathlib.Path(name)
        done = run(ROOT / "tools/pages", BIN, out)
        expect(done.returncode == 0, "tools/pages:", done.stderr)
        helps = [run(BIN / "sluice", verb, "--help").stdout for verb in verbs]
        check_page(out / "man1/sluice.1", helps)
        text = (out / "man1/sluice.1").read_text()
        expect(set(re.findall(r"^\.Ss ([a-z]+)$", text, re.M)) == verbs, "verbs")
        for page in sorted((out / "man8").iterdir()):
            check_page(page, [run(BIN / page.stem.removeprefix("sluice-"), "--help").stdout])
        check_bash(out / "completions/sluice.bash", verbs)
        for shell, file in SHELLS.items():
            script = (out / "completions" / file).read_text()
            expect(verbs <= set(re.findall(r"[a-z]+", script)), shell, "lacks a verb")
            if shutil.which(shell):
                done = run(shell, "-n", out / "completions" / file)
                expect(done.returncode == 0, shell, done.stderr)
    done = run(BIN / "sluice", "completion", "tcsh")
    expect(done.returncode == 2 and "bash, zsh or fish" in done.stderr, done.stderr)
    print("\n".join(wrong) if wrong else f"{len(verbs)} verbs are completed and told")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
