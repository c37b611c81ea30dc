# SPDX-License-Identifier: Apache-2.0
"""Lets PyPI's torch start on a machine without CUDA's libraries.

PyPI has torch for Linux on x86-64 only as a build for CUDA, which is linked
against some 3 GB of libraries (cuBLAS, cuDNN, NCCL ...) of which the CPU code
calls nothing. For each such library that is missing this makes a small one with
the names that torch wants; whoever calls one of them is told, and aborts. What
runs on the CPU (libtorch_cpu.so: oneDNN, MKL, gloo's TCP) is torch's own, bit by
bit.

    cuda_stubs.py SITE-PACKAGES     (bench/setup calls it)
"""
import collections
import pathlib
import re
import subprocess
import sys

NEEDED = re.compile(r"\(NEEDED\).*\[(lib(?:cu|nccl|nvrtc|nvshmem)[^\]]*)\]")
WANTED = re.compile(r"^\s+U ((?:__)?(?:cu|nccl|nvrtc|nvshmem)\w+)(?:@(\S+))?$",
                    re.MULTILINE)
# What no library of ours may stand in for: the driver, which torch opens itself.
DRIVER = "libcuda.so.1"


def output(*line):
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout


def wanted_by(library):
    """The CUDA libraries it is linked with, and {version or None: names}."""
    needed = set(NEEDED.findall(output("readelf", "-dW", library)))
    names = collections.defaultdict(set)
    for name, version in WANTED.findall(output("nm", "-D", "-u", library)):
        names[version or None].add(name)
    return needed - {DRIVER}, names


def build(folder, soname, version, names):
    source, script = folder / "stub.c", folder / "stub.map"
    source.write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n"
        "static void die(const char *s)\n{\n    fprintf(stderr, "
        "\"%s: this torch was set up without CUDA\\n\", s);\n    abort();\n}\n"
        + "".join(f"void {n}(void) {{ die(\"{n}\"); }}\n" for n in sorted(names)))
    line = ["gcc", "-shared", "-fPIC", "-O1", "-o", folder / soname, source,
            f"-Wl,-soname,{soname}"]
    if version:
        script.write_text(version + " { global: *; };\n")
        line.append(f"-Wl,--version-script={script}")
    subprocess.run(line, check=True)
    source.unlink()
    script.unlink(missing_ok=True)


def main():
    site = pathlib.Path(sys.argv[1])
    libraries = sorted((site / "torch" / "lib").glob("*.so"))
    there = {p.name for p in site.glob("nvidia/*/lib/*.so*")}
    needed, names = set(), collections.defaultdict(set)
    for library in libraries:
        its_needed, its_names = wanted_by(library)
        needed |= its_needed
        for version, some in its_names.items():
            names[version] |= some
    folder = site / "nvidia" / "cu13" / "lib"  # is on torch's RPATH
    folder.mkdir(parents=True, exist_ok=True)
    for soname in sorted(needed - there):
        version = soname if soname in names else None
        # nvshmem's version is not called as its file is.
        if version is None and "nvshmem" in soname and "NVSHMEM" in names:
            version = "NVSHMEM"
        stem = re.match(r"lib([a-z]+(?:Lt)?)", soname).group(1)
        mine = names[version] if version else {
            n for n in names[None] if n.startswith(stem)}
        build(folder, soname, version, mine)
        print(f"stand-in for {soname}: {len(mine)} names")


if __name__ == "__main__":
    main()
