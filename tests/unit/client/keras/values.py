# SPDX-License-Identifier: Apache-2.0
"""The values of variables and samples for which the corpus has outputs: each a function
of its name, which tests/unit/worker/keras_test.c computes too."""
import numpy


def value(name, count):
    """So many numbers in [-1/4, 1/4), steps of 1/2048: a function of the name alone."""
    seed = 2166136261
    for byte in name.encode():
        seed = (seed ^ byte) * 16777619 % 2**32
    h = (seed + numpy.arange(count, dtype=numpy.uint64) * 0x9E3779B1) % 2**32
    h ^= h >> numpy.uint64(15)
    h = h * 0x85EBCA6B % 2**32
    h ^= h >> numpy.uint64(13)
    return ((h % 1024).astype(numpy.float32) - 512) / 2048


def parameter(name, shape):
    count = int(numpy.prod(shape))
    around = 1 if name.endswith(("gamma", "moving_variance")) else 0
    return (value(name, count) + numpy.float32(around)).reshape(shape)


def sample(shape, ids):
    """Numbers in [-2, 2); with `ids` whole ones from 0 to ids - 1."""
    numbers = value("input", int(numpy.prod(shape)))
    if ids:
        numbers = (numbers * 2048 + 512) % ids
    else:
        numbers = numbers * 8
    return numbers.astype(numpy.float32).reshape(shape)
