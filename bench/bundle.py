#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs what bench/gpu needs into one archive that runs from any folder.

    cmake --build build --target gpu-bundle      (this is what it calls)

BUILD/sluice-gpu-bundle.tar.gz holds one folder of that name: programs, the
CUDA module, Debian's libraries that they need, the Fashion-MNIST files, specs,
the scripts of bench/gpu, and BUNDLE.json, which says what it was made of.

Left out are glibc and what NVIDIA makes: the host has those (glibc of Debian 12
or later; driver, CUDA, cuDNN). Programs find the libraries beside them by their
own run path (cmake/sluice.cmake), so nothing needs to be set.
"""
import argparse
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
NAME = "sluice-gpu-bundle"
LIBRARIES = "lib/sluice/bundled"
MODULE = "lib/sluice/kernels/sluice-kernels-cuda.so"
FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")
PROGRAMS = ["coordinator", "psserver", "worker", "sluice",
            "kernels-conformance", "bench.gpu_step"]
SCRIPTS = ["bench/gpu", "bench/gpu_parts/*.py", "bench/columns.py",
           "bench/peers/torch_gpu.py", "bench/nets/imagenette-synthetic.yaml"]
SPECS = ["fashion-cnn", "fashion-mlp", "toy"]
# Small enough to be copied to a host with little space for it.
MOST_BYTES = 62 << 20

# What belongs to the host: glibc in all its parts, and NVIDIA's.
HOSTS = re.compile(r"^(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|anl|nsl|mvec"
                   r"|nss_.*|cuda|cudart|cublas.*|cudnn.*|nv.*))\.so")


class Failed(Exception):
    """The bundle cannot be made, and why."""


def check(condition, text):
    if not condition:
        raise Failed(text)


def needed_by(program):
    """Paths of the libraries that the loader would open, by their names."""
    said = subprocess.run(["ldd", str(program)], capture_output=True, text=True,
                          check=True).stdout
    found = {}
    for line in said.splitlines():
        name, _, path = line.strip().partition(" => ")
        if HOSTS.match(name):
            continue
        check("not found" not in line, f"{program.name} needs {name}, which is "
              "not here")
        if path:
            found[name] = pathlib.Path(path.split(" (")[0])
    return found


def copy_programs(build, out):
    libraries = {}
    for name in PROGRAMS:
        source = build / "bin" / name
        check(source.exists(), f"{source} is not built")
        shutil.copy2(source, out / "bin" / name)
        libraries.update(needed_by(source))
    module = build / MODULE
    check(module.exists(), f"{module} is not built: the bundle is for GPUs, and "
          "this build found no CUDA toolkit (cmake says what is missing)")
    shutil.copy2(module, out / MODULE)
    for name, path in sorted(libraries.items()):
        shutil.copy2(path, out / LIBRARIES / name)
    return sorted(libraries)


def glibc_wanted(out):
    """The newest version of glibc that anything in the bundle asks for."""
    newest = (0, 0)
    for path in [*out.glob("bin/*"), *out.glob("lib/sluice/*/*")]:
        said = subprocess.run(["readelf", "-V", "-W", str(path)], check=True,
                              capture_output=True, text=True).stdout
        for version in re.findall(r"GLIBC_(\d+)\.(\d+)", said):
            newest = max(newest, tuple(map(int, version)))
    return "%d.%d" % newest


def copy_data(out):
    """Specs as they are, but for the folder of the files, which are beside."""
    for path in sorted(FASHION.glob("*.gz")):
        shutil.copy2(path, out / "data" / "fashion-mnist" / path.name)
    check(any((out / "data" / "fashion-mnist").iterdir()),
          f"{FASHION} is empty: install dataset-fashion-mnist")
    for name in SPECS:
        text = (ROOT / "examples" / f"{name}.yaml").read_text()
        (out / "examples" / f"{name}.yaml").write_text(
            text.replace(str(FASHION), "../data/fashion-mnist"))


def copy_scripts(out):
    for pattern in SCRIPTS:
        paths = sorted(ROOT.glob(pattern))
        check(paths, f"{pattern} is not in the tree")
        for path in paths:
            to = out / path.relative_to(ROOT)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, to)


def commit():
    """Which source it is; a build without git does not know."""
    try:
        done = subprocess.run(["git", "describe", "--always", "--dirty",
                               "--abbrev=12"], cwd=ROOT, check=False,
                              capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() or None


def make(build, out):
    for folder in ["bin", LIBRARIES, "lib/sluice/kernels", "examples", "bench",
                   "data/fashion-mnist"]:
        (out / folder).mkdir(parents=True)
    libraries = copy_programs(build, out)
    copy_data(out)
    copy_scripts(out)
    about = {"what": NAME, "commit": commit(),
             "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
             "machine": os.uname().machine, "glibc": glibc_wanted(out),
             "libraries": libraries}
    (out / "BUNDLE.json").write_text(json.dumps(about, indent=1) + "\n")


def pack(folder, archive):
    """In a fixed order and owned by nobody in particular."""
    def plain(info):
        info.uid = info.gid = 0
        info.uname = info.gname = "root"
        return info
    partial = archive.with_suffix(".partial")
    with gzip.open(partial, "wb", compresslevel=6) as zipped:
        with tarfile.open(fileobj=zipped, mode="w") as tar:
            tar.add(folder, NAME, recursive=False, filter=plain)
            for path in sorted(folder.rglob("*")):
                tar.add(path, f"{NAME}/{path.relative_to(folder)}",
                        recursive=False, filter=plain)
    os.replace(partial, archive)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True,
                        help="build folder, everything built")
    parser.add_argument("--out", type=pathlib.Path,
                        help="folder of the archive (the build folder)")
    said = parser.parse_args()
    build, where = said.build.resolve(), (said.out or said.build).resolve()
    folder, archive = where / NAME, where / f"{NAME}.tar.gz"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        make(build, folder)
        pack(folder, archive)
        size = archive.stat().st_size
        check(size <= MOST_BYTES, f"{archive} has {size >> 20} MiB, more than "
              f"the {MOST_BYTES >> 20} that it may have")
    except (Failed, OSError, subprocess.CalledProcessError) as error:
        print(f"gpu-bundle: {error}", file=sys.stderr)
        return 1
    print(f"{archive}: {size / (1 << 20):.1f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
