# SPDX-License-Identifier: Apache-2.0
"""Torch, TensorFlow, Keras and JAX as bench/setup installs them. Tests of these are
left out where they are absent, except where SLUICE_NEED_PEERS says that nothing may
be left out (./run-tests --all sets it)."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from cluster import ROOT, check
from orphans import warm

PEERS = pathlib.Path(os.environ.get("SLUICE_PEERS") or ROOT / "build-bench" / "peers-venv")
PYTHON = str(PEERS / "bin" / "python")


def there(module):
    """True if the peers' Python finds `module`. Says what installs it otherwise."""
    if os.path.exists(PYTHON) and not subprocess.run(
            [PYTHON, "-c", f"import importlib.util as u, sys; "
             f"sys.exit(u.find_spec({module!r}) is None)"], check=False).returncode:
        return True
    if os.environ.get("SLUICE_NEED_PEERS"):
        sys.exit(f"{PEERS} has no {module}, and no test may be left out here "
                 "(SLUICE_NEED_PEERS is set); bench/setup installs it")
    print(f"no {module}: bench/setup installs it")
    return False


def run_warm(modules, environment, code, *words):
    """What a program prints that is to end well. A test of each framework starts its
    programs as people do (frames.begin); others begin where the imports are done."""
    server = warm(PYTHON, modules, tuple(sorted(environment.items())))
    with tempfile.TemporaryDirectory(prefix="sluice-warm-") as folder:
        files = [pathlib.Path(folder, name) for name in ("out", "err")]
        print(json.dumps({"code": code, "words": list(map(str, words)),
                          "files": list(map(str, files))}), file=server.stdin, flush=True)
        status = server.stdout.readline().strip()
        out, err = (f.read_text(errors="replace") if f.exists() else "" for f in files)
        check(status == "0", f"a program ends with {status or 'its Python'}", out, err)
        return out
