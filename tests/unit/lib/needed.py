#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libsluice.so computes nothing: it needs no library for kernels or pictures.

    needed.py LIBRARY    exit status 1: its NEEDED entries have one of them
"""
import re
import subprocess
import sys

NEVER = re.compile(r"dnnl|gomp|libomp|iomp|jpeg|libpng|libz\b|xxhash|cuda|cublas|cudnn|nccl")

text = subprocess.run(["readelf", "--wide", "-d", sys.argv[1]], check=True,
                      capture_output=True, text=True).stdout
needed = re.findall(r"\(NEEDED\).*\[(.*)\]", text)
wrong = [name for name in needed if NEVER.search(name)]
print(f"{sys.argv[1]} needs", ", ".join(needed))
if not any("grpc" in name for name in needed):
    sys.exit("no gRPC among them: the entries were not read")
if wrong:
    sys.exit(f"what only a worker computes with: {', '.join(wrong)}")
