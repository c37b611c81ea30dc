#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ResNet-18 in torch on images shaped as CIFAR's, on a cluster.

    python3 examples/torch_resnet.py --coordinator 127.0.0.1:7070

Start it several times, on several hosts; kill any of them: each step counts once.
The images are drawn from a seed, a pattern per class under noise, so nothing is
fetched; give `data` any Dataset instead. Needs torch and the package of python/.
"""
import argparse

import sluice.torch
import torch
from torch import nn

CLASSES = 10


def data(seed, n, side):
    """(x, y): shape (n, 3, side, side) and classes."""
    patterns = torch.randn(CLASSES, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    patterns = nn.functional.interpolate(patterns, size=side)
    draw = torch.Generator().manual_seed(seed)
    y = torch.randint(0, CLASSES, (n,), generator=draw)
    return patterns[y] + torch.randn(n, 3, side, side, generator=draw), y


def conv(n, m, size, stride=1):
    return [nn.Conv2d(n, m, size, stride, size // 2, bias=False), nn.BatchNorm2d(m)]


class Block(nn.Module):
    def __init__(self, n, m, stride):
        super().__init__()
        self.body = nn.Sequential(*conv(n, m, 3, stride), nn.ReLU(), *conv(m, m, 3))
        self.short = nn.Sequential(*(conv(n, m, 1, stride) if n != m else []))

    def forward(self, x):
        return torch.relu(self.body(x) + self.short(x))


def resnet18():
    layers, n = [*conv(3, 64, 3), nn.ReLU()], 64
    for m, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(n, m, stride), Block(m, m, 1)]
        n = m
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(512, CLASSES))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--coordinator", metavar="ADDRESS")
    parser.add_argument("--name")
    parser.add_argument("--samples", type=int, default=640)
    parser.add_argument("--side", type=int, default=32, help="pixels of an image's side")
    parser.add_argument("--epochs", type=int, default=1)
    options = parser.parse_args()
    torch.manual_seed(1)

    model, loss_fn = resnet18(), nn.CrossEntropyLoss()
    sgd = torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9)
    losses = []
    with sluice.torch.Trainer(model, "torch-resnet", options.coordinator, optimizer=sgd,
                              name=options.name,
                              train={"steps_per_closure": 4}) as t:
        for batch in t.batches(data(2, options.samples, options.side), 32, options.epochs):
            losses.append(t.step(lambda: loss_fn(model(batch.x), batch.y)))
        done = t.status()
    print(f"{len(losses)} steps here, mean loss of all {done['loss']:.3f}, "
          f"of the last ones here {sum(losses[-4:]) / 4:.3f}")


if __name__ == "__main__":
    main()
