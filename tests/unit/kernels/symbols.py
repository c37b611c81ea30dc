#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the CUDA module shows and wants.

It exports kern_module and nothing else, so that no name of ours or of a
library can bind to another's; it needs libcudart, cuBLASLt, cuDNN's graph API
and the C library, and neither the driver nor a C++ runtime.
"""
import re
import subprocess
import sys

MAY_NEED = r"lib(cudart|cublasLt|cudnn_graph|m|c|pthread|dl)\.so|ld-linux"


def run(*command):
    return subprocess.run(command, check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def main():
    module = sys.argv[1]
    wrong = []
    shown = {line.split()[-1].split("@")[0]
             for line in run("nm", "-D", "--defined-only", module).splitlines()}
    if shown != {"kern_module"}:
        wrong.append(f"exports {sorted(shown)}, not kern_module alone")
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", module))
    wrong += [f"needs {name}" for name in needed
              if not re.match(MAY_NEED, name)]
    for line in wrong:
        print(f"{module}: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
