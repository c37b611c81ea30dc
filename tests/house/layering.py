#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may include whom: the table of the design, checked line by line.

Prints every #include that does not fit and exits 1; run by ctest.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

MAY = {
    "common": {"common"},
    "proto": {"proto", "common"},
    "kernels": {"kernels", "common"},
    "psserver": {"psserver", "proto", "kernels", "common"},
    "worker": {"worker", "proto", "kernels", "common"},
    "coordinator": {"coordinator", "proto", "common"},
    "client": {"client", "proto", "common"},
}

# An outside library has one door: header prefix -> files that may open it.
DOORS = {
    "grpc/": r"common/(rpc|tls)",
    "uv.h": r"common/",
    "protobuf-c": r"(proto/|common/(payload|wirescan))",
    "microhttpd": r"common/http",
    "jansson": r"(common/json|proto/pbjson|proto/|client/|coordinator/)",
    "openssl/": r"common/(hash|tls)",
    "sqlite3": r"coordinator/journal",
    "yaml.h": r"client/yaml",
    "zlib": r"worker/data",
    "jpeglib": r"worker/data_image_jpeg",
    "jerror": r"worker/data_image_jpeg",
    "png.h": r"worker/data_image_png",
    "dnnl": r"kernels/cpu/",
    "oneapi/dnnl": r"kernels/cpu/",
    "cuda": r"kernels/cuda/",
    "cudnn": r"kernels/cuda/(cudnn_|conv_graph)",
    "cublas": r"kernels/cuda/(vendor|gemm)",
    "dlfcn": r"(kernels|common)/",
    # A module that is loaded when there is a GPU: nobody links it.
    "kernels/cuda/": r"kernels/cuda/",
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def check(path):
    """Yields what is wrong with the includes of one file."""
    name = path.relative_to(ROOT).as_posix()
    room = name.split("/")[0]
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        kind, header = found.groups()
        target = header.split("/")[0]
        if kind == '"' and "/" not in header:
            yield f'{name}:{number}: "{header}" is not a path from the root'
        elif kind == '"' and target not in MAY[room]:
            yield f"{name}:{number}: {room} may not include {header}"
        for prefix, door in DOORS.items():
            if header.startswith(prefix) and not re.match(door, name):
                yield f"{name}:{number}: <{header}> is opened only by {door}"


def main():
    wrong = [text
             for room in MAY
             for path in sorted((ROOT / room).rglob("*.[ch]"))
             for text in check(path)]
    print("\n".join(wrong) if wrong else "every include fits")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
