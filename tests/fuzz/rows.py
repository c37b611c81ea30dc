# SPDX-License-Identifier: Apache-2.0
"""Blocks of rows of tables (proto/table_rows.h), as a member could send them: most
are right, some have one thing that is wrong."""
import struct

import numpy as np
from conserve_rows import FIELDS

SALT = 0x7461626c65206964  # plan/tables.h
TABLES = 2  # of conserve_rows.rows_job, each with rows of FIELDS
NAMES = ["late", "few", "users", "", "x" * 64, "#rows.late"]
COUNTS = [0, 1, 3, (1 << 31) - 1, (1 << 32) - 1]


def hash_of(ids):
    """plan/tables.h, written again."""
    x = (ids ^ np.uint64(SALT)) + np.uint64(0x9e3779b97f4a7c15)
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xbf58476d1ce4e5b9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94d049bb133111eb)
    return x ^ x >> np.uint64(31)


def ids_of(rng, shard, shards):
    """Some ids, in the order of their hashes, most of that shard; 64 bits of any
    kind, or small ones that come again."""
    count = rng.choice([1, 1, 3, 100, 2000, 20000])
    ids = np.frombuffer(rng.randbytes(8 * count), np.uint64)
    ids = np.unique(ids % np.uint64(8) if rng.random() < 0.3 else ids)
    hashes = hash_of(ids)
    order = np.argsort(hashes)
    if rng.random() < 0.95:
        parts = (hashes >> np.uint64(32)) * np.uint64(shards) >> np.uint64(32)
        order = order[parts[order] == shard]
    return ids[order]


def block(table, ids, wire, elements):
    """One that is right; `elements`: with gradients, all of them 1."""
    out = struct.pack("<4I", table, len(ids), wire, 0) + ids.tobytes()
    if elements:
        one = [b"\0\0\x80\x3f", b"\x80\x3f", b"\0\x3c"][wire] * len(ids) * FIELDS
        out += one + bytes(-len(one) % 8)
    return out


def wrong(rng, bytes_):
    """The same with one change: a number of a head or an id, or the length."""
    if len(bytes_) < 16 or rng.random() < 0.2:
        return bytes_[:rng.randrange(len(bytes_) + 1)] + rng.randbytes(rng.randrange(9))
    at = 4 * rng.randrange(min(len(bytes_) // 4, rng.choice([4, 64])))
    number = rng.choice([*COUNTS, rng.getrandbits(32), 0x7fc00000])
    return bytes_[:at] + struct.pack("<I", number) + bytes_[at + 4:]


def blocks(rng, shard, shards, elements):
    """The blocks of a message to a shard."""
    out = b""
    for table in range(TABLES):
        ids = ids_of(rng, shard, shards)
        if len(ids) and rng.random() < 0.8:
            out += block(table, ids, rng.randrange(3), elements)
    return wrong(rng, out) if rng.random() < 0.3 else out
