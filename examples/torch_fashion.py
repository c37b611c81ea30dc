#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Fashion-MNIST net in torch, on a cluster.

    python3 examples/torch_fashion.py --coordinator 127.0.0.1:7070

Start it several times, on several hosts; kill any of them: each step counts once.
The images are those of Debian's dataset-fashion-mnist. Needs torch and the
package of python/.
"""
import argparse

import sluice.torch
import torch
from fashion_data import images
from torch import nn


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(32 * 7 * 7, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x):
        return super().forward(x[:, None].float() / 255)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--coordinator", metavar="ADDRESS")
    parser.add_argument("--name")
    parser.add_argument("--samples", type=int, default=60000)
    parser.add_argument("--epochs", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)

    model, loss_fn = Net(), nn.CrossEntropyLoss()
    adam = torch.optim.Adam(model.parameters(), lr=1e-3)
    with sluice.torch.Trainer(model, "torch-fashion", options.coordinator,
                              optimizer=adam, name=options.name) as t:
        for batch in t.batches(images("train", options.samples), batch_size=64, epochs=options.epochs):
            t.step(lambda: loss_fn(model(batch.x), batch.y))
        t.load()
        accuracy = t.evaluate(images("t10k"), lambda out, y: out.argmax(1) == y)
    print(f"{t.metrics['steps']} steps here, test accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
