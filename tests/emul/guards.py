#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the compilers say of our device code, held to what it should be: every
kernel of kernels.def is there for every architecture, uses no slow memory and
few registers, moves 16 bytes at a time, computes in f64 only where statistics
are, and adds nothing atomically. Needs nvcc, no GPU."""
import argparse
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
REGISTERS = 96     # 2 blocks of 256 threads and more on a multiprocessor
SHARED = 20 * 1024
IN_FLIGHT = ("bn_stats_f", "bn_stats_bf", "bn_apply", "bn_sums_f", "bn_sums_bf",
             "bn_bwd", "reduce_f", "reduce_bf", "pool_all_fwd")  # walk rows
LOADS = 4          # of 16 bytes, under way at once
ONE_BY_ONE = ("softmax_", "xent", "ln_", "gather", "_end", "oracle_")  # no packs


def kernels():
    """{name: may it use f64}, as kernels.def has them."""
    text = (ROOT / "kernels/cuda/kernels.def").read_text()
    found = {}
    for kind, name, stats in re.findall(
            r"^(KERNEL|TYPED)\((\w+), \w+, (\w+)\)$", text, re.M):
        for end in ("_f32", "_f16", "_bf16") if kind == "TYPED" else ("",):
            found[name + end] = stats == "STATS"
    rules = (ROOT / "plan/optimizers.def").read_text()
    for name in re.findall(r"^RULE\((\w+)", rules, re.M):
        found["optim_" + name] = False
    return found


def check_fatbin(path, arches):
    """The parts of a fatbin: kind 1 is PTX, 2 machine code."""
    data = path.read_bytes()
    magic, _, header, size = struct.unpack_from("<IHHQ", data)
    if magic != 0xBA55ED50:
        return [f"{path} is no fatbin"]
    at, parts = header, set()
    while at < header + size:
        kind, _, head, payload = struct.unpack_from("<HHIQ", data, at)
        arch, = struct.unpack_from("<I", data, at + 28)
        parts.add((kind, arch))
        at += head + payload
    want = {(2, arch) for arch in arches} | {(1, arches[-1])}
    return [f"the fatbin has {sorted(parts)}, not {sorted(want)}"
            ] if parts != want else []


def check_ptxas(text, names, arches):
    """What ptxas -v said of each kernel on each architecture."""
    seen = set()
    for name, arch, rest in re.findall(
            r"Compiling entry function '(\w+)' for 'sm_(\d+)'(.*?)(?="
            r"Compiling entry|\Z)", text, re.S):
        where = f"{name} on sm_{arch}"
        seen.add((name, int(arch)))
        frame = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, "
                          r"(\d+) bytes spill loads", rest)
        if not frame or frame.groups() != ("0", "0", "0"):
            yield f"{where}: has a stack frame or spills"
        used = re.search(r"Used (\d+) registers", rest)
        if not used or int(used.group(1)) > REGISTERS:
            yield f"{where}: {used and used.group(1)} registers, " \
                  f"{REGISTERS} are the budget"
        shared = re.search(r"(\d+) bytes smem", rest)
        if shared and int(shared.group(1)) > SHARED:
            yield f"{where}: {shared.group(1)} bytes of shared memory, " \
                  f"{SHARED} are the budget"
    for name, arch in sorted({(n, a) for n in names for a in arches} ^ seen):
        yield f"{name}: in only one of kernels.def and sm_{arch}"


def check_ptx(text, names):
    bodies = dict(re.findall(r"\.entry (\w+)\((.*?)^\}", text, re.S | re.M))
    for name in sorted(set(bodies) ^ set(names)):
        yield f"{name}: in only one of kernels.def and the PTX"
    for name, body in bodies.items():
        if ".f64" in body and not names.get(name):
            yield f"{name}: computes in f64"
        if re.search(r"\b(atom|red)\.", body):
            yield f"{name}: has an atomic operation"
        if "ld.local" in body or "st.local" in body:
            yield f"{name}: uses local memory"
        runs = re.split(r"^\$L\w+:|\bbra\b", body, flags=re.M)
        loads = max(len(re.findall(r"\bld\.global(?:\.nc)?\.v4", run))
                    for run in runs)
        if name.startswith(IN_FLIGHT) and loads < LOADS:
            yield f"{name}: {loads} loads at once, {LOADS} are wanted"
        packs = not any(part in name for part in ONE_BY_ONE)
        if packs and not re.search(r"\b(ld|st)\.global(\.nc)?\.v[24]", body):
            yield f"{name}: never moves 16 bytes at a time"


def ptx_of(nvcc, source, arch):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.ptx"
        subprocess.run([nvcc, "-ptx", "-O3", "-std=c++17", f"-I{ROOT}",
                        f"-arch=compute_{arch}", "-o", out, source],
                       check=True)
        return out.read_text()


def planted():
    """The checks themselves: what must be found in texts that are wrong."""
    bad = ("Compiling entry function 'k' for 'sm_80'\n 8 bytes stack frame, 0 "
           "bytes spill stores, 0 bytes spill loads\nUsed 200 registers, "
           "90000 bytes smem\n")
    said = "\n".join(check_ptxas(bad, {"k": False}, (80, 90)))
    for word in ("stack frame", "200 registers", "90000 bytes", "sm_90"):
        if word not in said:
            yield f"the check of ptxas does not find {word}"
    bad = ".entry k(\n)\n{\nadd.f64 a; red.global.add.f32 b; ld.local.f32 c;\n}\n"
    said = "\n".join(check_ptx(bad.replace(" k(", " bn_bwd_f32("), {"k": False}))
    for word in ("f64", "atomic", "local", "16 bytes", "0 loads at once"):
        if word not in said:
            yield f"the check of PTX does not find {word}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nvcc", required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--arches", required=True, help="machine code for these, "
                        "and PTX of the last")
    args = parser.parse_args()
    arches = [int(arch) for arch in args.arches.split(",")]
    names = kernels()
    wrong = list(planted())
    wrong += check_fatbin(args.build / "all.fatbin", arches)
    wrong += check_ptxas((args.build / "ptxas.txt").read_text(), names, arches)
    wrong += check_ptx(ptx_of(args.nvcc, ROOT / "kernels/cuda/all.cu",
                              arches[-1]), names)
    print("\n".join(wrong) if wrong else f"{len(names)} kernels are as they "
          "should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
