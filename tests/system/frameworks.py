# SPDX-License-Identifier: Apache-2.0
"""Torch, TensorFlow, Keras and JAX as bench/setup installs them. Tests of these are
left out where they are absent, except where SLUICE_NEED_PEERS says that nothing may
be left out (./run-tests --all sets it)."""
import os
import pathlib
import subprocess
import sys

from cluster import ROOT

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
