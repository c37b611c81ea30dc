# SPDX-License-Identifier: Apache-2.0
"""Synthetic clicks in the shape of Criteo's (Kaggle): 13 numbers and 26 ids a sample.

    criteo.py FILE      writes FILE, an npz of x [n, 13], y [n] and id0 [n] to id25 [n]

A feature has as many ids as Criteo's, at most LARGEST, so that a peer that makes every
row beforehand has room; an id is drawn by a power law, its rank to the -1.05. Whether
a click follows depends on a hidden taste of each id.
"""
import sys

import numpy as np

CARDINALITIES = (1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683,
                 8351593, 3194, 27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15,
                 286181, 105, 142572)
LARGEST, POWER, NUMBERS, SAMPLES = 1_000_000, 1.05, 13, 1 << 18
ROWS = [min(c, LARGEST) for c in CARDINALITIES]


def ranks(draw, count):
    """Ranks from 0 to count - 1: the inverse of the power law's integral."""
    u = 1 - POWER
    drawn = (((count + 1.0) ** u - 1) * draw.random(SAMPLES) + 1) ** (1 / u)
    return np.minimum(drawn.astype(np.int64) - 1, count - 1)


def clicks(seed=1):
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((SAMPLES, NUMBERS), dtype=np.float32)
    ids = {f"id{i}": ranks(draw, count) for i, count in enumerate(ROWS)}
    taste = sum(np.cos(7.0 * each) for each in ids.values()) / 3 + x.sum(1) / 8
    y = draw.random(SAMPLES) < 1 / (1 + np.exp(-taste))
    return {"x": x, "y": y.astype(np.float32), **ids}


if __name__ == "__main__":
    np.savez(sys.argv[1], **clicks())
