#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small GPT in torch on the bytes of a file, on a cluster.

    python3 examples/torch_gpt.py --coordinator 127.0.0.1:7070 --file TEXT

Start it several times, on several hosts; kill any of them: each step counts once.
Every host needs the file. Needs torch and the package of python/.
"""
import argparse
import pathlib

import sluice.torch
import torch
from torch import nn

CONTEXT, WIDTH, HEADS, LAYERS = 64, 96, 4, 3
TEXT = "/usr/share/common-licenses/GPL-3"


class Windows(torch.utils.data.Dataset):
    """Sample n is bytes [n * stride, n * stride + CONTEXT], and the next of each."""

    def __init__(self, path, stride=8):
        text = bytearray(pathlib.Path(path).read_bytes())
        self.text, self.stride = torch.frombuffer(text, dtype=torch.uint8), stride

    def __len__(self):
        return (len(self.text) - CONTEXT - 1) // self.stride + 1

    def __getitem__(self, n):
        window = self.text[n * self.stride:n * self.stride + CONTEXT + 1].long()
        return window[:-1], window[1:]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(),
                                 nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = (part.view(n, t, HEADS, -1).transpose(1, 2)
                   for part in self.qkv(self.norm(x)).chunk(3, -1))
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(n, t, WIDTH))
        return x + self.mlp(self.norm_2(x))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.place = nn.Embedding(256, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 256, bias=False)

    def forward(self, x):
        x = self.token(x) + self.place.weight[:x.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--coordinator", metavar="ADDRESS")
    parser.add_argument("--name")
    parser.add_argument("--file", default=TEXT)
    parser.add_argument("--epochs", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)

    model = Gpt()
    adamw = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)

    def loss_of(batch):
        return nn.functional.cross_entropy(model(batch.x).flatten(0, 1),
                                           batch.y.flatten())

    with sluice.torch.Trainer(model, "torch-gpt", options.coordinator, optimizer=adamw,
                              name=options.name, workers=1) as t:
        for batch in t.batches(Windows(options.file), 32, options.epochs):
            t.step(lambda: loss_of(batch))
        t.load()
    print(f"{t.metrics['steps']} steps here, the last one's loss "
          f"{t.metrics['loss']:.3f}: {t.metrics['loss'] / 0.6931:.2f} bits a byte")


if __name__ == "__main__":
    main()
