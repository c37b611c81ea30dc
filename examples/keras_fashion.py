#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Fashion-MNIST net in Keras 3, on a cluster.

    python3 examples/keras_fashion.py --coordinator 127.0.0.1:7070

Start it several times, on several hosts; kill any of them: each step counts once.
With any backend (KERAS_BACKEND). The images are those of Debian's
dataset-fashion-mnist. Needs keras and the package of python/.
"""
import argparse

import keras
import sluice.keras
from fashion_data import images


def net():
    model = keras.Sequential([
        keras.Input((28, 28)), keras.layers.Rescaling(1 / 255),
        keras.layers.Reshape((28, 28, 1)),
        keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
        keras.layers.MaxPooling2D(), keras.layers.Flatten(),
        keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)])
    model.compile(
        keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(2e-3, 1000)),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"])
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--coordinator", metavar="ADDRESS")
    parser.add_argument("--name")
    parser.add_argument("--samples", type=int, default=60000)
    parser.add_argument("--epochs", type=int, default=1)
    options = parser.parse_args()

    model, (x, y) = net(), images("train", options.samples)
    sluice.keras.fit(model, x, y, job="keras-fashion", coordinator=options.coordinator,
                     name=options.name, batch_size=64, epochs=options.epochs, verbose=2)
    accuracy = model.evaluate(*images("t10k"), verbose=0, return_dict=True)["accuracy"]
    print(f"test accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
