# SPDX-License-Identifier: Apache-2.0
"""The Debian package `sluice-training` of what was built already: debian/ decides what
is in it, as dpkg-buildpackage would, without compiling anything again (that,
and lintian's opinion, is tests/deb)."""
import os
import shutil
import subprocess

from cluster import BIN, ROOT

STEPS = ("dh_installdirs", "dh_install", "dh_installdocs", "dh_installexamples",
         "debian/rules override_dh_installsystemd", "dh_compress", "dh_fixperms",
         "debian/rules execute_after_dh_fixperms-arch",
         "dh_strip --no-automatic-dbgsym", "dh_shlibdeps", "dh_installdeb",
         "dh_gencontrol", "dh_md5sums", "dh_builddeb -- -Znone")


def run(words, cwd, **environment):
    done = subprocess.run(words, cwd=cwd, text=True, check=False, capture_output=True,
                          env={**os.environ, **environment})
    if done.returncode != 0:
        raise RuntimeError(f"{words}: {done.stdout}{done.stderr}")


def make(folder):
    """Makes it in `folder`, which is made too: its path."""
    tree = folder / "tree"
    for part in ("debian", "deploy", "docs", "examples"):
        shutil.copytree(ROOT / part, tree / part)
    shutil.copy(ROOT / "README.md", tree)
    run(["cmake", "--install", BIN.parent, "--component", "programs", "--prefix", "/usr"],
        folder, DESTDIR=str(tree / "debian/tmp"))
    for step in STEPS:
        run(step.split(), tree, DH_OPTIONS="-psluice-training")
    return next(folder.glob("sluice-training_*.deb"))


def needs(deb):
    """Packages that it depends on: names."""
    line = subprocess.run(["dpkg-deb", "-f", deb, "Depends"], check=True, text=True,
                          capture_output=True).stdout
    return [word.split()[0] for word in line.split(",")]
