# SPDX-License-Identifier: Apache-2.0
"""Fashion-MNIST of Debian's dataset-fashion-mnist, as arrays of NumPy."""
import gzip

import numpy as np

FOLDER = "/usr/share/datasets/fashion-mnist"


def images(kind, most=60000):
    """(x, y) of "train" or "t10k": bytes of shape (n, 28, 28), and classes; the first
    `most` of them."""
    def read(name, header):
        with gzip.open(f"{FOLDER}/{kind}-{name}-ubyte.gz") as f:
            return np.frombuffer(f.read(), np.uint8, offset=header).copy()
    return (read("images-idx3", 16).reshape(-1, 28, 28)[:most],
            read("labels-idx1", 8).astype(np.int64)[:most])
