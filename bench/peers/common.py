# SPDX-License-Identifier: Apache-2.0
"""What the peers share: the data, windows of time, the line of JSON.

A peer prints one object when it ends:

    {"what": ..., "unit": ..., "per_s": median, "windows": [...],
     "cpu_us": processor time of all its processes per unit, ...settings}

Only what happens within the windows counts: each is `seconds` long, one after
the other, after `warmup` seconds in which everything is traced, compiled and
connected. Processes that a peer starts end with it (parent-death signal).
"""
import argparse
import ctypes
import gzip
import json
import os
import pathlib
import signal
import socket
import statistics
import time

FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")
CLASSES = 10
BATCH = 64
LEARNING_RATE = 0.001


def options(about, *more):
    """--seconds, --windows, --warmup, and those of the peer: (name, default,
    what it is) each."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    fixed = (("seconds", 2.0, "of one window"),
             ("windows", 3, "how many; the median counts"),
             ("warmup", 4.0, "seconds before the first one"))
    for name, default, text in fixed + more:
        parser.add_argument("--" + name, type=type(default), default=default,
                            help=f"{text} ({default})")
    return parser.parse_args()


def fashion(part="train"):
    """Images u8 [n, 28, 28, 1] and labels i64 [n], from the files: 60,000, or 10,000 of
    `part` t10k."""
    import numpy as np

    def read(name, header):
        with gzip.open(FASHION / name, "rb") as f:
            return np.frombuffer(f.read(), np.uint8, offset=header)
    x = read(f"{part}-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28, 1)
    return x, read(f"{part}-labels-idx1-ubyte.gz", 8).astype(np.int64)


def free_ports(count):
    """Ports of the loopback that nobody listens on now."""
    held = []
    for _ in range(count):
        held.append(socket.socket())
        held[-1].bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


def die_with_parent():
    """For a child's preexec_fn."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def descendants(root):
    """Pids of the processes under this one, and this one."""
    parent = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = entry.read_text()
        except OSError:
            continue  # ended meanwhile
        parent[int(entry.parent.name)] = int(text.rsplit(")", 1)[1].split()[1])
    found, todo = set(), {root}
    while todo:
        found |= todo
        todo = {pid for pid, up in parent.items() if up in todo} - found
    return found


def processor_s(pids):
    """Seconds of processor time that these have had."""
    ticks = 0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1]
        ticks += sum(map(int, fields.split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def windows_of(counted, o, work=None):
    """What `counted()` grows by per second, window after window, and the
    processor time per unit. `work()`, if there is one, does a little of it and
    returns; else it goes on by itself."""
    def until(end):
        while time.monotonic() < end:
            if work:
                work()
            else:
                time.sleep(max(0, end - time.monotonic()))
        return time.monotonic(), counted()

    rates = []
    now, first = until(time.monotonic() + o.warmup)
    pids, before = descendants(os.getpid()), first
    began_s = processor_s(pids)
    for _ in range(o.windows):
        end, after = until(now + o.seconds)
        rates.append((after - before) / (end - now))
        now, before = end, after
    used = processor_s(pids) - began_s
    return rates, 1e6 * used / max(1, before - first)


def say(what, unit, measured, **settings):
    rates, cpu_us = measured
    print(json.dumps({"what": what, "unit": unit,
                      "per_s": statistics.median(rates),
                      "windows": [round(r, 1) for r in rates],
                      "cpu_us": float(f"{cpu_us:.4g}"), **settings}), flush=True)
