# SPDX-License-Identifier: Apache-2.0
"""Programs in frameworks that the suite does not install: torch, Keras and JAX of
the peers' environment (bench/setup). Where that is absent their tests are left out."""
import os
import pathlib
import subprocess
import sys

from cluster import BIN, ROOT, check_equal, main
from external_test import Program

PEERS = pathlib.Path(os.environ.get("SLUICE_PEERS",
                                    ROOT / "build-bench" / "peers-venv"))
PYTHON = str(PEERS / "bin" / "python")
ENVIRONMENT = {"SLUICE_LIBRARY": str(BIN.parent / "lib" / "libsluice.so"),
               "SLUICE_BIN": str(BIN), "OMP_NUM_THREADS": "1",
               "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT / "python")}


def run(code, *words, **environment):
    """What a program prints that is to end well."""
    done = subprocess.run([PYTHON, "-c", code, *words], check=False, text=True,
                          capture_output=True,
                          env={**os.environ, **ENVIRONMENT, **environment})
    check_equal(done.returncode, 0, done.stdout + done.stderr)
    return done.stdout


def begin(c, example):
    """name -> an example as a program of cluster `c`."""
    return lambda name: Program(c, name, ROOT / "examples" / example, python=PYTHON,
                                **ENVIRONMENT)


def main_with(module, cases):
    if not os.path.exists(PYTHON) or subprocess.run(
            [PYTHON, "-c", f"import importlib.util as u, sys; "
             f"sys.exit(u.find_spec({module!r}) is None)"], check=False).returncode:
        print(f"no {module}: bench/setup installs it")
        sys.exit(77)
    main(cases)
