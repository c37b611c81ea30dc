#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A worker of your own, in NumPy: linear regression for Sluice.

    sluice submit examples/external.yaml --no-wait
    python3 examples/numpy_worker.py --coordinator 127.0.0.1:7070

Needs the package of python/ (its wheel, or PYTHONPATH=python with
SLUICE_LIBRARY=build/lib/libsluice.so). Start several, kill any of them: each
step counts once. It ends when the job has ended.
"""
import argparse
import signal

import numpy as np
import sluice

WEIGHTS, BIAS = np.array([2, -1, 0.5, 3], np.float32), np.float32(0.25)


def data(samples):
    """The samples of these numbers: the same for every worker."""
    x = np.stack([np.random.default_rng(int(n)).standard_normal(5) for n in samples])
    return x[:, :4], x[:, :4] @ WEIGHTS + BIAS + 0.01 * x[:, 4]


def gradient(params, samples, out):
    """Mean squared error of these samples: fills `out`, returns its sum."""
    x, y = data(samples)
    error = x @ params[:4] + params[4] - y
    out[:4] = 2 * error @ x / len(samples)
    out[4] = 2 * error.mean()
    return float(error @ error)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--coordinator", metavar="ADDRESS")
    parser.add_argument("--name")
    options = parser.parse_args()
    with sluice.Session(options.coordinator, name=options.name, wait=60) as session:
        signal.signal(signal.SIGTERM, lambda *_: session.drain())
        for closure in session.closures():
            for step in closure.steps():
                step.done(gradient(closure.params, step.samples, closure.grads))


if __name__ == "__main__":
    main()
