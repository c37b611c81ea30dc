# SPDX-License-Identifier: Apache-2.0
"""Writes forecast.npz and forecast-test.npz beside this file: the data of
forecast.yaml. Each sample is two days of a load by the hour, and the hour after. A
load has a daily and a weekly wave of its own, and noise.

    python3 examples/forecast_data.py
"""
import pathlib

import numpy

HOURS, SAMPLES, TEST = 48, 12000, 2000


def write(path, samples, seed):
    draw = numpy.random.default_rng(seed)
    at = draw.integers(0, 24 * 7, (samples, 1)) + numpy.arange(HOURS + 1)
    height, shift = draw.uniform(0.5, 1.5, (2, samples, 1))
    load = height * numpy.sin(2 * numpy.pi * (at / 24 + shift))
    load += 0.3 * numpy.cos(2 * numpy.pi * at / (24 * 7)) + draw.normal(0, 0.05, at.shape)
    numpy.savez(path, x=load[:, :HOURS, None].astype("f4"), y=load[:, HOURS:].astype("f4"))


if __name__ == "__main__":
    here = pathlib.Path(__file__).parent
    write(here / "forecast.npz", SAMPLES, 1)
    write(here / "forecast-test.npz", TEST, 2)
