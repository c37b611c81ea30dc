#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our packages' names and paths are nobody else's in Debian 12 and 13: `apt upgrade`
leaves what we installed alone, and no path belongs to another package.

    names.py BUILD      exit status 1: one does; 77: BUILD has not been built

What Debian has is told here, for the names that we could collide with: those of
packages called sluice or like a program of ours (bookworm and trixie, main, amd64)."""
import pathlib
import re
import subprocess
import sys
import tempfile

from installed import ROOT, install, lines, takes

# Release -> package -> (version, its files).
SLUICE = ["usr/bin/sluice", "usr/share/bash-completion/completions/sluice",
          "usr/share/doc/sluice/changelog.Debian.gz", "usr/share/doc/sluice/copyright",
          "usr/share/man/man1/sluice.1"]
WORKER = ["usr/bin/worker", "usr/share/applications/worker.desktop",
          "usr/share/doc/worker/copyright", "usr/share/man/man1/worker.1"]
DEBIAN = {"bookworm": {"sluice": ("0.02.15-1", SLUICE), "worker": ("4.11.0-1", WORKER)},
          "trixie": {"sluice": ("0.03.01-1", SLUICE), "worker": ("5.2.1-1", WORKER)}}


def stanzas():
    """Of debian/control: a dict for each package, continued lines joined."""
    text = re.sub(r"\n[ \t]+", " ", (ROOT / "debian/control").read_text())
    for part in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in part.splitlines() if ": " in line)
        if "Package" in fields:
            yield fields


def version():
    return re.match(r"\S+ \((\S+)\)", (ROOT / "debian/changelog").read_text())[1]


def conflicts():
    return {p["Package"]: set(re.split(r",\s*", p.get("Conflicts", ""))) for p in stanzas()}


# ---- paths

def paths(build):
    """Package -> the paths that it installs."""
    with tempfile.TemporaryDirectory() as folder:
        tmp = pathlib.Path(folder, "debian/tmp")
        install(build, tmp)
        made = [p.relative_to(tmp).as_posix() for p in tmp.rglob("*") if not p.is_dir()]
        found = {}
        for file in sorted((ROOT / "debian").glob("*.install")):
            mine = found.setdefault(file.stem, set())
            for pattern, *to in lines(file, pathlib.Path(folder)):
                if to:
                    mine.add(f"{to[0]}/{pathlib.Path(pattern).name}")
                else:
                    mine.update(name for name in made if takes(pattern, name))
            mine.add(f"usr/share/doc/{file.stem}/copyright")
        return found


def owned(build):
    for package, mine in paths(build).items():
        for release, theirs in DEBIAN.items():
            for other, (_, files) in theirs.items():
                if other not in conflicts()[package]:
                    for path in sorted(mine & set(files)):
                        yield f"{release}: {path} of {package} belongs to {other}"
        for path in sorted(mine):
            name = path.removeprefix("etc/sluice/").split("/")[-1]
            if path.startswith(("usr/bin/", "lib/systemd/system/", "usr/share/man/")) and \
                    "sluice" not in name:
                yield f"{path} of {package} bears no name of ours: sluice-{name}"


# ---- apt

def stanza(name, at, *more):
    return "\n".join([f"Package: {name}", f"Version: {at}", "Architecture: amd64",
                      "Maintainer: x <x@x.invalid>", "Description: x", *more]) + "\n\n"


def replaced(release, theirs):
    """What a simulated upgrade does to a host that has all that we make, where
    Debian's archive has `theirs`. Nothing is installed: apt-get is told of a status
    and a list of packages in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        top = pathlib.Path(folder)
        for made in ("repo", "etc", "state/lists/partial", "cache/archives/partial"):
            (top / made).mkdir(parents=True)
        (top / "status").write_text("".join(
            stanza(p["Package"], version(), "Status: install ok installed",
                   *(f"{key}: {p[key]}" for key in ("Conflicts",) if key in p)) for p in stanzas()))
        (top / "repo/Packages").write_text("".join(
            stanza(name, at, f"Filename: ./{name}.deb", "Size: 1", f"SHA256: {'0' * 64}")
            for name, (at, _) in theirs.items()))
        (top / "sources").write_text(f"deb [trusted=yes] file:{top}/repo ./\n")
        apt = ["apt-get", "-q", "-o", f"Dir::State={top}/state", "-o", f"Dir::Cache={top}/cache",
               "-o", f"Dir::State::status={top}/status", "-o", f"Dir::Etc={top}/etc",
               "-o", f"Dir::Etc::sourcelist={top}/sources", "-o", "Debug::NoLocking=1",
               "-o", "APT::Architecture=amd64", "-o", "APT::Sandbox::User=root"]
        subprocess.run([*apt, "update"], check=True, capture_output=True)
        for verb in ("upgrade", "dist-upgrade"):
            said = subprocess.run([*apt, "-s", verb], check=True, capture_output=True,
                                  text=True).stdout
            if "0 upgraded, 0 newly installed, 0 to remove" not in said:
                yield f"{release}: apt-get {verb} changes what we installed: {said[-400:]}"
        # What the lists above hold is what apt has read: it would install it.
        said = subprocess.run([*apt, "-s", "install", "sluice"], check=True, text=True,
                              capture_output=True).stdout
        if "Remv sluice-training" not in said or "Inst sluice " not in said:
            yield f"{release}: sluice goes beside sluice-training: {said[-400:]}"


def main():
    bad = [*owned(sys.argv[1])]
    for release, theirs in DEBIAN.items():
        bad += replaced(release, theirs)
    print("\n".join(bad) or "no name is another's")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
