#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Fashion-MNIST net in JAX, on a cluster.

    python3 examples/jax_fashion.py --coordinator 127.0.0.1:7070

Start it several times, on several hosts; kill any of them: each step counts once.
The images are those of Debian's dataset-fashion-mnist. Needs jax and the package
of python/.
"""
import argparse

import jax
import jax.numpy as jnp
import sluice.jax
from fashion_data import images

SIZES = (784, 128, 64, 10)


def first(key):
    """He's initializer: a pytree."""
    layers = []
    for n, m in zip(SIZES, SIZES[1:]):
        key, one = jax.random.split(key)
        layers.append({"w": jax.random.normal(one, (n, m)) * jnp.sqrt(2 / n),
                       "b": jnp.zeros(m)})
    return layers


def logits(params, x):
    x = x.reshape(len(x), -1) / 255.0
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def loss_fn(params, x, y):
    picked = jax.nn.log_softmax(logits(params, x))[jnp.arange(len(y)), y]
    return -picked.mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--coordinator", metavar="ADDRESS")
    parser.add_argument("--name")
    parser.add_argument("--samples", type=int, default=60000)
    parser.add_argument("--epochs", type=int, default=2)
    options = parser.parse_args()

    with sluice.jax.Trainer(first(jax.random.PRNGKey(1)), "jax-fashion",
                            options.coordinator, name=options.name,
                            optimizer={"type": "adam", "learning_rate": 1e-3}) as t:
        for batch in t.batches(images("train", options.samples), batch_size=64, epochs=options.epochs):
            t.step(loss_fn, batch.x, batch.y)
        params = t.load()
    x, y = images("t10k")
    accuracy = (logits(params, x).argmax(1) == y).mean()
    print(f"{t.metrics['steps']} steps here, test accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
