#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What mode local costs in loss, beside copies of a net in one process of torch.

    python=$(bench/setup --python)
    $python bench/local_loss.py agree           our parameters beside the floor's
    $python bench/local_loss.py text FILE       the floor alone: a byte-level GPT
    $python bench/local_loss.py fashion         ours: the net of examples/fashion-cnn.yaml
    $python bench/local_loss.py codes           the floor with codes: a small net on images

The floor is M copies of a net in one process: each takes H steps of AdamW, then
the mean of what they changed is the gradient of an outer Nesterov step. `agree`
trains a small net for ten rounds both ways and wants parameters within 1e-5.

`text` and `fashion` train with the same samples in the same order for each M and
H, and print a line of JSON for each: {"workers", "steps", "loss", ...}. The loss
is that of samples that were not trained on, in nats. H of 0 is one process without
an outer optimizer, for `fashion` mode async with one worker. Inner rates fall to a
twentieth by the cosine over the steps of one copy. Binaries: SLUICE_BIN.

`codes` trains the net of the system tests seed by seed with each pair of codes, up and
down, from the same weights and with the same samples, and prints for each how much
larger its loss is than that of f32: the mean over the seeds, and its standard error.

Exit status: 0, or 1 if `agree` finds a difference.
"""
import argparse
import json
import pathlib
import struct
import sys
import time

import numpy as np
import torch
from torch import nn

from peers import common

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / name) for name in ("tests/system", "examples", "python")]
sys.dont_write_bytecode = True

OUTER_RATE = {1: 0.4, 2: 0.6, 4: 0.6, 8: 0.8}  # arXiv 2503.09799, finding 4
MOMENTUM, DECAY, EPSILON = 0.9, 0.01, 1e-7


# ---- the floor

def cosine(rate, whole):
    """As Keras' CosineDecay with alpha 0.05."""
    return lambda n: rate * (0.525 + 0.475 * np.cos(np.pi * min(n / whole, 1)))


class Copy:
    """A copy of a net, with the optimizer of its own steps."""

    def __init__(self, net, loss_of, rate_at):
        self.net, self.loss_of, self.rate_at = net, loss_of, rate_at
        self.parameters = list(net.parameters())
        self.reset()

    def reset(self):
        self.adam = torch.optim.AdamW(self.parameters, eps=EPSILON, weight_decay=DECAY)

    def steps(self, batches, number):
        for at, batch in enumerate(batches):
            self.adam.param_groups[0]["lr"] = self.rate_at(number + at)
            self.adam.zero_grad()
            self.loss_of(self.net, batch).backward()
            self.adam.step()


# ---- codes, as kernels/pack.h has them: of a flat vector, block by block

def blocks(x, size):
    """The vector as rows of so many elements, the last one filled with zeros."""
    return nn.functional.pad(x, (0, -len(x) % size)).reshape(-1, size)


def int8(x):
    rows = blocks(x, 256)
    scale = rows.abs().amax(1, keepdim=True).clamp_min(1e-30) / 127
    return (torch.round(rows / scale) * scale).reshape(-1)[:len(x)]


def e3m0(x):
    """The nearest power of two, of seven, times the largest of a block; or zero."""
    rows = blocks(x, 256)
    scale = rows.abs().amax(1, keepdim=True).clamp_min(1e-30)
    size = rows.abs() / scale
    power = torch.floor(torch.log2(size.clamp_min(1e-30) * (4 / 3))).clamp(-6, 0)
    sent = torch.where(size < 2 ** -7, 0.0, rows.sign() * 2.0 ** power * scale)
    return sent.reshape(-1)[:len(x)]


def topk2(x):
    """The largest 64th of each 4,096, each as one of two sizes."""
    sent = torch.zeros_like(x)
    for at in range(0, len(x), 4096):
        part = x[at:at + 4096]
        size, where = part.abs().topk(-(-len(part) // 64))
        high = size >= (size[0] + size[-1]) / 2
        level = torch.where(high, size[high].mean(), size[~high].mean())
        sent[at + where] = part[where].sign() * level
    return sent


CODES = {"f32": lambda x: x, "int8": int8, "e3m0": e3m0, "topk2": topk2}
LEFT = 0.95  # of what topk2 left out, with the next contribution


def flat(net):
    return nn.utils.parameters_to_vector(net.parameters()).detach()


def floor(make, loss_of, batches, workers, steps, rate_at, keep=False, up="f32",
          down="f32", outer_step=None):
    """Trains with `batches` in their order: slot by slot, each slot `steps` batches, in
    rounds of `workers` slots. Contributions travel in the code `up`, and what changed to
    the copies in `down`: what that leaves out is part of the next change. `outer_step`:
    its rate and momentum. Returns the net."""
    copies = [Copy(make(), loss_of, rate_at) for _ in range(workers)]
    now = flat(make())
    held, velocity, left = now.clone(), torch.zeros_like(now), [0.0] * workers
    rate, momentum = outer_step or (OUTER_RATE[workers], MOMENTUM)
    for number, first in enumerate(range(0, len(batches), steps * workers)):
        part = batches[first:first + steps * workers]
        change = torch.zeros_like(now)
        for i, at in enumerate(range(0, len(part), steps)):
            slot, copy = part[at:at + steps], copies[i]
            nn.utils.vector_to_parameters(held.clone(), copy.net.parameters())
            if not keep:
                copy.reset()
            copy.steps(slot, number * steps)
            whole = held - flat(copy.net) + (LEFT * left[i] if up == "topk2" else 0)
            sent = CODES[up](whole)
            left[i] = whole - sent
            change += sent * sum(map(len, slot)) / sum(map(len, part))
        velocity = momentum * velocity + change
        now = now - rate * (change + momentum * velocity)
        held = held + CODES[down](now - held)
    net = make()
    nn.utils.vector_to_parameters(now, net.parameters())
    return net


def alone(make, loss_of, batches, rate_at):
    one = Copy(make(), loss_of, rate_at)
    one.steps(batches, 0)
    return one.net


# ---- agreement

FEATURES, UNITS, CLASSES, BATCH = 6, 16, 3, 10


class Small(nn.Module):
    """Two dense layers, with Keras' shapes of the kernels."""

    def __init__(self, weights):
        super().__init__()
        self.w = nn.ParameterDict({name.replace("/", "_"): torch.tensor(value)
                                   for name, value in weights.items()})

    def forward(self, x):
        w = self.w
        return torch.tanh(x @ w.in_kernel + w.in_bias) @ w.out_kernel + w.out_bias


def write_tensors(path, tensors):
    """A safetensors file of f32."""
    head, at = {}, 0
    for name, value in tensors.items():
        head[name] = {"dtype": "F32", "shape": value.shape,
                      "data_offsets": [at, at + value.nbytes]}
        at += value.nbytes
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text +
                     b"".join(v.tobytes() for v in tensors.values()))


def read_tensors(path):
    data = path.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    head = json.loads(data[8:8 + size])
    head.pop("__metadata__", None)
    return {name: np.frombuffer(data[8 + size:][slice(*h["data_offsets"])],
                                np.float32).reshape(h["shape"])
            for name, h in head.items()}


def agree_job(folder, workers, steps, epochs):
    return {
        "name": "agree",
        "model": {"input_shape": [FEATURES], "layers": [
            {"type": "dense", "name": "in", "units": UNITS, "activation": "tanh"},
            {"type": "dense", "name": "out", "units": CLASSES}]},
        "loss": "sparse_categorical_crossentropy",
        "optimizer": {"type": "adamw", "learning_rate": 0.01, "weight_decay": DECAY,
                      "epsilon": EPSILON, "torch_epsilon": True},
        "data": {"train": {"format": "npy", "x": str(folder / "x.npy"),
                           "y": str(folder / "y.npy")}},
        "train": {"mode": "local", "inner": {"steps": steps}, "contributions": workers,
                  "outer": outer(workers), "batch": BATCH, "epochs": epochs,
                  "shuffle": False, "precision": "f32"}}


def outer(workers):
    return {"type": "sgd", "learning_rate": OUTER_RATE[workers], "momentum": MOMENTUM,
            "nesterov": True}


def agree(workers=2, steps=5, epochs=2):
    """Ten rounds: 500 samples are five of 2 * 5 * 10."""
    from cluster import Cluster
    draw = np.random.default_rng(4)
    x = draw.normal(0, 1, (500, FEATURES)).astype(np.float32)
    y = (x @ draw.normal(0, 1, (FEATURES, CLASSES))).argmax(1).astype(np.int64)
    weights = {"in/kernel": draw.normal(0, 0.4, (FEATURES, UNITS)), "in/bias": np.zeros(UNITS),
               "out/kernel": draw.normal(0, 0.4, (UNITS, CLASSES)), "out/bias": np.zeros(CLASSES)}
    weights = {name: value.astype(np.float32) for name, value in weights.items()}
    with Cluster(psservers=2, workers=workers) as c:
        np.save(c.dir / "x.npy", x)
        np.save(c.dir / "y.npy", y)
        write_tensors(c.dir / "begin.safetensors", weights)
        job = c.submit(agree_job(c.dir, workers, steps, epochs),
                       "--weights", c.dir / "begin.safetensors")
        done = c.wait_state(job)
        c.run("export", job, "--to", c.dir / "end.safetensors")
        ours = read_tensors(c.dir / "end.safetensors")
    batches = [torch.arange(at, at + BATCH) for at in range(0, 500, BATCH)] * epochs
    x, y = torch.tensor(x), torch.tensor(y)
    net = floor(lambda: Small(weights),
                lambda net, rows: nn.functional.cross_entropy(net(x[rows]), y[rows]),
                batches, workers, steps, lambda n: 0.01)
    theirs = {name: net.w[name.replace("/", "_")].detach().numpy() for name in weights}
    off = max(float(np.abs(ours[name] - theirs[name]).max()) for name in weights)
    moved = max(float(np.abs(ours[name] - weights[name]).max()) for name in weights)
    say(what="agree", rounds=int(done["shards"][0]["counts"]["version"]),
        largest_difference=off, largest_change=moved)
    return 0 if off < 1e-5 < moved else 1


# ---- curves

def say(**figures):
    print(json.dumps(figures), flush=True)


def text(options):
    """A GPT on the bytes of a file: the last 64 KiB test it, windows before train it."""
    import torch_gpt
    torch_gpt.WIDTH, torch_gpt.LAYERS, torch_gpt.CONTEXT = 32, 1, 32
    size, count, whole = torch_gpt.CONTEXT, options.batch, options.total
    data = torch.frombuffer(bytearray(pathlib.Path(options.file).read_bytes()),
                            dtype=torch.uint8).long()
    test, data = data[-(1 << 16):], data[:-(1 << 16)]
    starts = torch.randint(0, len(data) - size - 1, (whole, count),
                           generator=torch.Generator().manual_seed(1))
    batches = list(starts)

    def windows(at, of=data):
        rows = of[at[:, None] + torch.arange(size + 1)]
        return rows[:, :-1], rows[:, 1:]

    def loss_of(net, at, of=data):
        x, y = windows(at, of)
        return nn.functional.cross_entropy(net(x).flatten(0, 1), y.flatten())

    def make():
        torch.manual_seed(options.seed)
        return torch_gpt.Gpt()

    def tell(net, began, **what):
        with torch.no_grad():
            rows = torch.arange(0, len(test) - size - 1, size)
            loss = float(loss_of(net, rows, test))
        say(net="text", **what, loss=round(loss, 4), seconds=round(time.monotonic() - began))

    torch.set_num_threads(1)
    for workers, steps in options.points:
        began, rate_at = time.monotonic(), cosine(options.rate, whole / workers)
        if steps == 0:
            net = alone(make, loss_of, batches, rate_at)
        else:
            net = floor(make, loss_of, batches, workers, steps, rate_at, options.keep)
        tell(net, began, workers=workers, steps=steps, keep=options.keep,
             rounds=-(-whole // (steps * workers)) if steps else 0)


def fashion(options):
    """The net of the quickstart, by a cluster of one or two workers: what is learnt
    depends on M and H alone, not on how many workers there are."""
    from cluster import Cluster
    with Cluster(psservers=2, workers=2) as c:
        for workers, steps in options.points:
            began = time.monotonic()
            train = {"batch": options.batch, "epochs": options.epochs, "mode": "async",
                     "max_workers": 1}
            if steps > 0:
                train.update({"mode": "local", "contributions": workers, "max_workers": 0,
                              "inner": {"steps": steps,
                                        "moments": "keep" if options.keep else "reset"},
                              "outer": outer(workers)})
            whole = options.epochs * 60000 / options.batch / workers
            sets = {**{f"train.{k}": v for k, v in train.items()},
                    "train.seed": options.seed, "optimizer.type": "adamw",
                    "optimizer.weight_decay": DECAY, "optimizer.epsilon": EPSILON,
                    "optimizer.torch_epsilon": "true", "optimizer.learning_rate": options.rate,
                    "optimizer.schedule.decay_steps": int(whole)}
            job = c.run("submit", ROOT / "examples" / "fashion-cnn.yaml", "--no-wait",
                        *(w for k, v in sets.items()
                          for w in ("--set", f"{k}={json.dumps(v) if isinstance(v, dict) else v}"))
                        ).stdout.strip()
            last = c.wait_state(job)["evaluations"][-1]
            say(net="fashion", workers=workers, steps=steps, keep=options.keep,
                loss=round(last["loss"], 4), accuracy=round(last["accuracy"], 4),
                seconds=round(time.monotonic() - began))


def images(part, limit):
    """Images of Fashion-MNIST as rows, and their labels."""
    x, y = (data[:limit] for data in common.fashion(part))
    return torch.tensor(x.reshape(-1, 784) / np.float32(255)), torch.tensor(y)


# Up, down, and the outer rate and momentum; each beside the line of f32 before it.
PAIRS = [("f32", "f32", (0.6, 0.9)), ("e3m0", "f32", (0.6, 0.9)), ("e3m0", "e3m0", (0.6, 0.9)),
         ("int8", "int8", (0.6, 0.9)), ("f32", "f32", (1.0, 0.0)), ("topk2", "f32", (1.0, 0.0)),
         ("topk2", "e3m0", (1.0, 0.0))]


def codes(options):
    """Four copies, contributions of 20 steps: see bench/local_keys.py."""
    torch.set_num_threads(1)
    x, y = images("train", 32000)
    test, right = images("t10k", 10000)

    def loss_of(net, rows):
        return nn.functional.cross_entropy(net(x[rows]), y[rows])

    def trained(seed, pair):
        draw = torch.Generator().manual_seed(seed)
        batches = [rows for _ in range(options.epochs)
                   for rows in torch.randperm(len(x), generator=draw).split(32)]

        def make():
            torch.manual_seed(seed)
            return nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
        net = floor(make, loss_of, batches, 4, 20, lambda n: 0.001, True, *pair)
        with torch.no_grad():
            return float(nn.functional.cross_entropy(net(test), right))

    pairs = PAIRS[:options.pairs]
    losses = {pair: [] for pair in pairs}
    for seed in range(options.seed, options.seed + options.seeds):
        for pair in pairs:
            losses[pair].append(trained(seed, pair))
            say(seed=seed, up=pair[0], down=pair[1], rate=pair[2][0],
                loss=round(losses[pair][-1], 5))
    for pair in pairs:
        if pair[0] == "f32":
            first = np.array(losses[pair])
        more = 100 * (np.array(losses[pair]) / first - 1)
        say(up=pair[0], down=pair[1], rate=pair[2][0], seeds=len(more),
            loss=round(float(np.mean(losses[pair])), 4),
            more_percent=round(float(more.mean()), 2),
            error=round(float(more.std(ddof=1) / len(more) ** 0.5), 2))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["agree", "text", "fashion", "codes"])
    parser.add_argument("file", nargs="?", help="text: the file")
    parser.add_argument("--workers", default="1,2,4,8", help="M (1,2,4,8)")
    parser.add_argument("--steps", default="0,1,10,30,100", help="H (0,1,10,30,100)")
    parser.add_argument("--keep", action="store_true", help="inner.moments: keep")
    parser.add_argument("--batch", type=int, default=0, help="text: 8; fashion: 32")
    parser.add_argument("--total", type=int, default=6400, help="text: batches (6400)")
    parser.add_argument("--epochs", type=int, default=3, help="fashion, codes: epochs (3)")
    parser.add_argument("--seeds", type=int, default=10, help="codes: so many (10)")
    parser.add_argument("--pairs", type=int, default=len(PAIRS), help="codes: the first ones")
    parser.add_argument("--rate", type=float, default=0, help="text: 0.002; fashion: 0.001")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.what == "agree":
        sys.exit(agree())
    if options.what == "codes":
        codes(options)
        return
    if options.what == "text" and not options.file:
        parser.error("text needs a file")
    options.batch = options.batch or {"text": 8, "fashion": 32}[options.what]
    options.rate = options.rate or {"text": 0.002, "fashion": 0.001}[options.what]
    options.points = [(m, h) for m in map(int, options.workers.split(","))
                      for h in map(int, options.steps.split(",")) if h or m == 1]
    {"text": text, "fashion": fashion}[options.what](options)


if __name__ == "__main__":
    main()
