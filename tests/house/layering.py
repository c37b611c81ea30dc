#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may include whom: a table, checked line by line.

Prints every #include that does not fit and exits 1; run by ctest.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

MAY = {
    "common": {"common"},
    "plan": {"plan", "common"},
    "host": {"host", "common"},
    "proto": {"proto", "plan", "common"},
    "kernels": {"kernels", "plan", "common"},
    "stream": {"stream", "proto", "plan", "common"},
    "state": {"state", "proto", "kernels", "plan", "common"},
    "psserver": {"psserver", "stream", "state", "proto", "kernels", "plan", "host", "common"},
    "trainer": {"trainer", "stream", "state", "proto", "kernels", "plan", "common"},
    "worker": {"worker", "trainer", "stream", "state", "proto", "kernels", "plan", "host", "common"},
    "lib": {"lib", "trainer", "stream", "proto", "plan", "common"},
    "coordinator": {"coordinator", "proto", "plan", "host", "common"},
    "client": {"client", "proto", "plan", "host", "common"},
}

# The rooms inside a room, from the lowest: a file includes what lies in its own
# or in a lower one. Those of one line are strangers to each other. Files
# beside the rooms (a daemon's main.c) are above all of them.
FLOORS = {
    "common": ["base", "run", "net net/local"],
    "host": ["http page web", "launch store", "place", "notice", "daemon"],
    "client": ["cli", "call spec", "show",
               "ask cert doctor files keras trace up"],
    "trainer": ["base", "sum", "ring push", "lease", "attend"],
    "worker": ["data", "compile", "device", "lease", "service"],
    "coordinator": ["rules etcd", "journal", "feed", "core core/cuts core/leases core/modes core/recovery "
                    "core/shards core/status tasks",
                    "service", "dashboard"],
    "state": ["base", "rows", "shard", "snap"],
    "psserver": ["local", "roster", "service"],
}

# Who may include an outside library: header prefix -> files.
OPENED_BY = {
    "grpc/": r"common/net/(rpc|tls|local/rpc)",
    "uv.h": r"common/(base|run|net)/",
    "protobuf-c": r"(proto/|common/net/wirescan|coordinator/etcd/)",
    "jansson": r"(common/base/json|proto/|client/|coordinator/)",
    "openssl/": r"common/(base/hash|net/tls)",
    "curl/": r"host/web/web.c",
    "expat.h": r"host/store/xml.c",
    "microhttpd": r"host/http/http_inner",
    "sqlite3": r"(coordinator/(journal/journal|tasks/task_store)|client/files/backup_db)",
    "yaml.h": r"client/cli/yaml",
    "zlib": r"worker/data/data",
    "jpeglib": r"worker/data/data_image_jpeg",
    "jerror": r"worker/data/data_image_jpeg",
    "png.h": r"worker/data/data_image_png",
    "xxhash": r"worker/data/ids",
    "dnnl": r"kernels/cpu/",
    "oneapi/dnnl": r"kernels/cpu/",
    "cuda": r"kernels/cuda/",
    "cudnn": r"kernels/cuda/(cudnn_|conv_graph)",
    "cublas": r"kernels/cuda/(vendor|gemm)",
    "nccl.h": r"kernels/cuda/nccl",
    "dlfcn": r"(kernels|common)/",
    # A module that is loaded when there is a GPU: nobody links it.
    "kernels/cuda/": r"kernels/cuda/",
}

# Installed in one folder, where a header finds the other beside it.
BESIDE = {("lib/tasks.h", "sluice.h")}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def floor(name):
    """(which floor of its room, which room inside it) of a file or header."""
    room, *inner = name.split("/")[:-1]
    inner = "/".join(inner)
    floors = FLOORS.get(room, [])
    for number, rooms in enumerate(floors):
        if inner in rooms.split():
            return number, inner
    return len(floors), inner


def climbs(name, header):
    """True if the file may not include the header of its own room."""
    (here, inner), (there, other) = floor(name), floor(header)
    if name.split("/")[0] not in FLOORS:
        return False
    same = other.split("/")[0] == inner.split("/")[0]
    return there > here or there == here and not same


def unknown(name):
    """True if its folder has no place among the floors of its room."""
    room = name.split("/")[0]
    return room in FLOORS and "/" in name[len(room) + 1:] and \
        floor(name)[0] == len(FLOORS[room])


def check(path):
    """Yields what is wrong with the includes of one file."""
    name = path.relative_to(ROOT).as_posix()
    room = name.split("/")[0]
    if unknown(name):
        yield f"{name}: its folder is not among the floors of {room}"
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        kind, header = found.groups()
        if (name, header) in BESIDE:
            continue
        target = header.split("/")[0]
        if kind == '"' and "/" not in header:
            yield f'{name}:{number}: "{header}" is not a path from the root'
        elif kind == '"' and target not in MAY[room]:
            yield f"{name}:{number}: {room} may not include {header}"
        elif kind == '"' and target == room and climbs(name, header):
            yield f"{name}:{number}: {header} lies on a higher floor"
        for prefix, users in OPENED_BY.items():
            if header.startswith(prefix) and not re.match(users, name):
                yield f"{name}:{number}: <{header}> is opened only by {users}"


def page_finds():
    """What the table of rooms in docs/architecture.md says otherwise."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    told = {room: set(re.findall(r"`(\w+)`", inner)) for room, inner in
            re.findall(r"^\| `(\w+)` \|([^|]*)\|", text, re.M) if room in MAY}
    for room in sorted(set(MAY) - set(told)):
        yield f"docs/architecture.md: its table of rooms lacks {room}"
    for room, floors in FLOORS.items():
        inner = {name.split("/")[-1] for line in floors for name in line.split()}
        if told.get(room, inner) != inner:
            yield (f"docs/architecture.md: the rooms inside {room} are not "
                   f"{', '.join(sorted(told[room] ^ inner))}")


def drawing_finds():
    """What the drawing of rooms in CONTRIBUTING.md says otherwise."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    drawn = {room: set(re.findall(r"\w+", below)) & set(MAY) for room, below in
             re.findall(r"^(\w+) +-> (.*)$", text, re.M)}
    for room in sorted(set(MAY) | set(drawn)):
        may = MAY.get(room, set()) - {room}
        if room not in MAY or drawn.get(room) != may:
            yield (f"CONTRIBUTING.md: {room} may include "
                   f"{', '.join(sorted(may)) or 'nothing'}")


def main():
    paths = [path for room in MAY
             for path in sorted((ROOT / room).rglob("*.[ch]"))]
    names = [path.relative_to(ROOT).as_posix() for path in paths]
    wrong = [text for path in paths for text in check(path)]
    wrong += [f"layering.py: {users}, who opens <{prefix}>, is no file"
              for prefix, users in OPENED_BY.items()
              if not any(re.match(users, name) for name in names)]
    wrong += [*page_finds(), *drawing_finds()]
    print("\n".join(wrong) if wrong else "every include fits")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
