# SPDX-License-Identifier: Apache-2.0
"""Writes code.npz and code-test.npz beside this file: the data of code.yaml. Each
sample is 64 letters from within a file of this machine, as bytes, and which language
it is: Python, C or Perl. The test has other files than training.

    python3 examples/code_data.py
"""
import os
import pathlib

import numpy

FILES = ((pathlib.Path(os.__file__).parent, "*.py"), (pathlib.Path("/usr/include"), "*.h"),
         (pathlib.Path("/usr/share/perl"), "**/*.pm"))
LETTERS, SAMPLES, MOST = 64, 24000, 200  # MOST: files of a language


def texts(folder, pattern):
    """(for training, for the test): each tenth file is for the test."""
    paths = sorted(p for p in folder.glob(pattern) if p.stat().st_size > 1000)[:MOST]
    read = [" ".join(p.read_text("latin-1").split()).encode("ascii", "replace")
            for p in paths]
    return [t for i, t in enumerate(read) if i % 10 != 5], read[5::10]


def write(path, languages, samples, draw):
    """`samples` windows, as many of each language, each from a place that is drawn."""
    x, y = [], []
    for label, files in enumerate(languages):
        text = b" ".join(files)
        for at in draw.integers(0, len(text) - LETTERS, samples // len(languages)):
            x.append(numpy.frombuffer(text[at:at + LETTERS], numpy.uint8))
            y.append(label)
    numpy.savez(path, x=numpy.array(x), y=numpy.array(y, "i4"))


if __name__ == "__main__":
    here = pathlib.Path(__file__).parent
    drawing = numpy.random.default_rng(1)
    train, test = zip(*(texts(*of) for of in FILES))
    write(here / "code.npz", train, SAMPLES, drawing)
    write(here / "code-test.npz", test, SAMPLES // 10, drawing)
