# SPDX-License-Identifier: Apache-2.0
"""Parts `conform` and `sanitizer`: kernels-conformance on the GPU.

A row counts failures, of which there may be none; its note says how many
cases there were and the seed.
"""
import re
import shutil

from gpu_parts.kit import Failed, check
from gpu_parts.report import NO_BAR, Planned, at_most

NONE = at_most(0, "failures")
STRICT = ["--options", "tf32=0"]

# name: (its share of seconds, options). f32 without TF32 is held to f32's bound,
# TF32 to its own; 16 bits to theirs.
MODES = {
    "eval f32": (120, ["--mode", "eval", *STRICT]),
    "eval tf32": (60, ["--mode", "eval", "--math", "tf32"]),
    "eval bf16": (120, ["--mode", "eval", "--dtype", "bf16", *STRICT]),
    "eval f16": (120, ["--mode", "eval", "--dtype", "f16", *STRICT]),
    "det f32": (120, ["--mode", "det", *STRICT]),
    "det tf32": (120, ["--mode", "det", "--math", "tf32"]),
    "det bf16": (120, ["--mode", "det", "--dtype", "bf16"]),
    "det f16": (120, ["--mode", "det", "--dtype", "f16"]),
    "fuse": (120, ["--mode", "fuse", "--dtype", "all", *STRICT]),
    "async": (180, ["--mode", "async", "--dtype", "all"]),
    "threads": (120, ["--mode", "fuse", "--op", "matmul", "--threads", "4"]),
    "autotune": (120, ["--mode", "eval", "--options", "tf32=0,autotune=1",
                       "--op", "conv_wgrad"]),
    "fuzz": (180, ["--mode", "fuzz", "--dtype", "all", "--count", "60",
                   "--seed", "random", *STRICT]),
    "fail": (60, ["--mode", "fail"]),
}

# Times of the fashion net's ops at 320, for people: the table is in the note.
PERF = {"perf tf32": [], "perf f32": STRICT,
        "perf bf16": ["--dtype", "bf16"], "perf f16": ["--dtype", "f16"]}

LAST_CASE_S = 5  # for what is under way when time is up

SAID = re.compile(r"(\d+) cases, (\d+) failures, seed (\d+)")
STEP = re.compile(r"recorded step, batch \d+: (\S+) ms")
SANITIZER = re.compile(r"ERROR SUMMARY: (\d+) error|"
                       r"RACECHECK SUMMARY: (\d+) hazard")


def counted(done):
    """What kernels-conformance printed, as a row."""
    said = SAID.search(done.stdout)
    check(said, "kernels-conformance said no result:",
          (done.stdout + done.stderr).strip()[-300:])
    cases, failures, seed = map(int, said.groups())
    found = {"ours": failures, "cases": cases,
             "stopped": "stopped at the limit" in done.stdout,
             "note": f"{cases} cases, seed {seed}"}
    if found["stopped"]:
        found["note"] += "; its share of time was used up, others were not run"
    if failures:
        first = next((line for line in done.stdout.splitlines()
                      if line.startswith("FAILED")), "")
        found["note"] += f"; the first: {first[:200]}"
    return found


def conformance(kit, options, seconds):
    more = ["--most", "500"] if kit.emulated else []
    return kit.run([kit.path("kernels-conformance"), "--backend", "cuda",
                    *options, *more], seconds, want=(0, 1))


def judged_mode(kit, options):
    """It ends itself a little before the row's time is up. What it has not got
    to has not been found right."""
    limit = max(1, kit.limit(600) - LAST_CASE_S)
    found = counted(conformance(kit, [*options, "--limit", f"{limit:.0f}"], 600))
    if found.pop("stopped") and found["ours"] == 0:
        found["holds"] = None
    return found


def planned_mode(name, seconds, options):
    return Planned("conform", name, "failures", NONE,
                   lambda kit: judged_mode(kit, options), seconds=seconds)


def times(kit, options):
    done = conformance(kit, ["--mode", "perf", "--batch", "320", *options], 120)
    step = STEP.search(done.stdout)
    check(step, "no recorded step in:", done.stdout[-300:])
    return {"ours": float(step.group(1)), "ops": done.stdout.splitlines()[1:],
            "note": "the fashion net's ops as one recording"}


def conform_rows(kit):
    # The emulator has one thread, and a second there takes minutes.
    alone = kit is not None and kit.emulated
    rows = [planned_mode(name, *how) for name, how in MODES.items()
            if not (alone and name == "threads")]
    for name, options in ({} if alone else PERF).items():
        rows.append(Planned("conform", name, "ms", NO_BAR,
                            lambda kit, o=options: times(kit, o)))
    return rows


# ---- compute-sanitizer


def sanitized(kit, tool, options):
    program = shutil.which("compute-sanitizer") or next(
        (p for p in ["/usr/local/cuda/bin/compute-sanitizer"]
         if shutil.which(p)), None)
    if program is None:
        return {"ours": None, "skipped": True,
                "note": "skipped: compute-sanitizer is not installed"}
    line = [program, "--tool", tool, "--error-exitcode", "3",
            "--print-limit", "5"]
    done = kit.run([*line, kit.path("kernels-conformance"), "--backend", "cuda",
                    "--op", "own", "--most", "3000", *options], 170, want=range(-64, 256))
    text = done.stdout + done.stderr
    said = SANITIZER.search(text)
    if not said:
        raise Failed(f"compute-sanitizer --tool {tool} gave no summary: "
                     f"{text.strip()[-300:]}")
    found = {"ours": int(said.group(1) or said.group(2)), "tool": tool}
    if found["ours"]:
        first = next((line for line in text.splitlines()
                      if line.startswith("========= ") and "SANITIZER" not in
                      line), "")
        found["note"] = first[10:210]
    # The checker finding nothing means little if the op gave wrong numbers.
    check(done.returncode == 3 or " 0 failures" in text,
          "kernels-conformance failed under it:", text.strip()[-300:])
    return found


def sanitizer_rows(kit):
    """Our kernels, small shapes: each tool slows them down by ten times and
    more, and what NVIDIA's libraries do is not ours to check."""
    tools = {"memcheck": ["--mode", "eval", "--dtype", "all"],
             "racecheck": ["--mode", "eval"],
             "racecheck bf16": ["--mode", "eval", "--dtype", "bf16"],
             "initcheck": ["--mode", "eval", "--dtype", "all"],
             "synccheck": ["--mode", "eval", "--dtype", "all"]}
    return [Planned("sanitizer", name, "errors", at_most(0, "errors"),
                    lambda kit, t=name.split()[0], o=options:
                    sanitized(kit, t, o)) for name, options in tools.items()]
