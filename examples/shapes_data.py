# SPDX-License-Identifier: Apache-2.0
"""Writes shapes.npz and shapes-test.npz beside this file: the data of shapes.yaml.
Each sample is an image of 32 x 32 with noise, on which lie a disk and a box, and the
class of each pixel: 0 the ground, 1 the disk, 2 the box.

    python3 examples/shapes_data.py
"""
import pathlib

import numpy

SIDE, SAMPLES, TEST = 32, 3000, 500


def write(path, samples, seed):
    draw = numpy.random.default_rng(seed)
    row, column = numpy.mgrid[:SIDE, :SIDE]
    middle = draw.integers(4, SIDE - 4, (2, 2, samples, 1, 1))  # of both, down and across
    size = draw.integers(3, 9, (2, samples, 1, 1))
    down, across = abs(row - middle[0]), abs(column - middle[1])
    disk = down[0] ** 2 + across[0] ** 2 < size[0] ** 2
    box = (down[1] < size[1]) & (across[1] < size[1])
    what = numpy.where(box, 2, numpy.where(disk, 1, 0))
    # Both are as bright: only their form tells them apart.
    image = (what > 0) + draw.normal(0, 0.2, what.shape)
    numpy.savez(path, x=image[..., None].astype("f4"), y=what.astype("u1"))


if __name__ == "__main__":
    here = pathlib.Path(__file__).parent
    write(here / "shapes.npz", SAMPLES, 1)
    write(here / "shapes-test.npz", TEST, 2)
