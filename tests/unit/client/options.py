#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every option of every verb and daemon may stand in a file, in the environment
and on the command line; what comes later in this list wins, and --print-config
names where a value is from. BIN is argument 1.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

BIN = pathlib.Path(sys.argv[1])
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
# Options that have no default and take no plain word.
WORDS = {"after": "a" * 64, "wait-for-coordinator": "1s", "quota": "a:jobs=1",
         "gpus": "all", "best": "yes", "autotune": "yes", "isa": "base",
         "migrate": "to-etcd"}
wrong = []


def run(words, env=()):
    return subprocess.run([str(w) for w in words], capture_output=True, text=True,
                          check=False, env={**CLEAN, **dict(env)})


def printed(words, env=()):
    """Key -> (origin, value): value None where there is none."""
    done = run([*words, "--print-config"], env)
    found = {}
    if done.returncode != 0:
        wrong.append(f"{words} {env}: {done.stderr}")
        return found
    lines = done.stdout.splitlines()
    for origin, line in zip(lines[::2], lines[1::2]):
        key, value = line.lstrip("# ").split(" =", 1)
        found.setdefault(key, (origin.lstrip("# "), None if line.startswith("#")
                               else value.strip()))
    return found


def try_all(command, options, file):
    """All options by each way, and by those below it at once."""
    words = {key: value or WORDS.get(key, "w-1") for key, (_, value) in options.items()}
    twins = {"SLUICE_" + key.upper().replace("-", "_"): w for key, w in words.items()}
    file.write_text("".join(f"{key} = {word}\n" for key, word in words.items()))
    held = [*command, "--config", file]
    flags = [f"--{key}={word}" for key, word in words.items()]
    for where, got in (("file", printed(held)), ("environment", printed(held, twins)),
                       ("flag", printed([*held, *flags], twins))):
        for key in words:
            if got.get(key, ("nothing",))[0] != where:
                wrong.append(f"{command[-1]} --{key}: {got.get(key)} is not of the {where}")


def commands():
    """Each once: the verbs as the help lists them, with the words that they want."""
    text = run([BIN / "sluice", "--help"]).stdout
    for line in text.split("Verbs:\n", 1)[1].split("\n\n", 1)[0].splitlines():
        yield [BIN / "sluice", line.split()[0]]
    for daemon in ("coordinator", "psserver", "worker"):
        yield [BIN / daemon]


def main():
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for command in commands():
            options = printed(command)
            try_all(command, options, pathlib.Path(folder, "conf"))
            count += len(options)
            done = run([*command, "--no-such-option-at-all=1"])
            if done.returncode != 2 or "unknown key" not in done.stderr:
                wrong.append(f"{command}: an unknown option: {done.returncode}")
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{count} options, each from a file, the environment and a flag")
    sys.exit(1 if wrong or count < 200 else 0)


if __name__ == "__main__":
    main()
