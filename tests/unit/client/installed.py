#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each file that `cmake --install` installs is in one Debian package, and each
line of debian/*.install finds something.

    installed.py BUILD      exit status 1: a file is forgotten, or in two; 77:
                            BUILD has not been built
"""
import fnmatch
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
# Of a host with CUDA; debian/rules builds without, the packages say why.
NOT_DEBIAN = "usr/lib/sluice/kernels/sluice-kernels-cuda.so"


def install(build, folder):
    """What there is to install, as debhelper would see it in debian/tmp."""
    done = subprocess.run(["cmake", "--install", build, "--prefix", "/usr"],
                          env={**os.environ, "DESTDIR": str(folder)},
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"skipped: not all is built: {done.stderr.strip()[-300:]}")
        sys.exit(77)


def lines(path, cwd):
    """Of a debian/*.install; debhelper runs one that may be executed."""
    text = (subprocess.run([path], cwd=cwd, capture_output=True, text=True,
                           check=True).stdout
            if os.access(path, os.X_OK) else path.read_text())
    return [line.split() for line in text.splitlines()
            if line.strip() and not line.startswith("#")]


def takes(pattern, name):
    """Debian's build puts libraries into a folder of the architecture."""
    pattern = pattern.replace("usr/lib/*/", "usr/lib/")
    parts, wanted = name.split("/"), pattern.split("/")
    return (len(wanted) <= len(parts) and
            all(map(fnmatch.fnmatchcase, parts, wanted)))


def check(names, packages):
    for name in names:
        owners = [package for package, lists in packages.items()
                  if any(takes(line[0], name) for line in lists)]
        if len(owners) != 1:
            yield (f"{name} is in {' and '.join(owners) or 'no package'}: one "
                   "debian/*.install must name it")
    for package, lists in packages.items():
        for pattern, *_ in lists:
            if not (any(takes(pattern, name) for name in names) or
                    any(ROOT.glob(pattern))):
                yield f"debian/{package}.install: nothing is like {pattern}"


def units(packages):
    """Units and sample configurations lie in deploy/; none is forgotten."""
    named = {line[0] for lists in packages.values() for line in lists}
    for path in sorted((ROOT / "deploy").glob("*.service")):
        for name in (path.name, f"{path.stem.removeprefix('sluice-')}.conf"):
            if f"deploy/{name}" not in named:
                yield f"deploy/{name} is in no package"


def main():
    with tempfile.TemporaryDirectory() as folder:
        top = pathlib.Path(folder)
        tmp = top / "debian/tmp"
        install(sys.argv[1], tmp)
        names = sorted(path.relative_to(tmp).as_posix() for path in tmp.rglob("*")
                       if path.is_symlink() or path.is_file())
        packages = {re.sub(r"\.install$", "", path.name): lines(path, top)
                    for path in sorted((ROOT / "debian").glob("*.install"))}
    names = [name for name in names if name != NOT_DEBIAN]
    bad = [*check(names, packages), *units(packages)]
    print("\n".join(bad) or f"{len(names)} files in {len(packages)} packages")
    return 1 if bad or not names else 0


if __name__ == "__main__":
    sys.exit(main())
