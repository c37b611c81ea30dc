# SPDX-License-Identifier: Apache-2.0
"""torch's DistributedDataParallel over gloo: 2 ranks, a process and a core
each; Fashion-MNIST net, batch 64 per rank, Adam.

Prints images per second of both ranks together.
"""
import os
import subprocess
import sys

from common import (BATCH, CLASSES, LEARNING_RATE, die_with_parent, fashion,
                    free_ports, options, say, windows_of)

RANKS = 2
IMAGES = 60000


def net(torch):
    """examples/fashion-cnn.yaml."""
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(1600, 64), nn.ReLU(), nn.Linear(64, CLASSES))


def start_peer():
    """This script again, as rank 1."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_ports(1)[0]),
                      WORLD_SIZE=str(RANKS), GLOO_SOCKET_IFNAME="lo")
    subprocess.Popen([sys.executable, *sys.argv], preexec_fn=die_with_parent,
                     env={**os.environ, "RANK": "1"}, stdout=subprocess.DEVNULL)
    os.environ["RANK"] = "0"


class Batches:
    """Shuffled batches for ever, from images that are ready in memory."""

    def __init__(self, torch, layout):
        x, y = fashion()
        x = torch.from_numpy(x.copy()).permute(0, 3, 1, 2)
        self.x = (x.float() / 255).contiguous(memory_format=layout)
        self.y, self.torch, self.at = torch.from_numpy(y), torch, len(y)

    def next(self):
        if self.at + BATCH > len(self.y):
            self.order, self.at = self.torch.randperm(len(self.y)), 0
        chosen = self.order[self.at:self.at + BATCH]
        self.at += BATCH
        return self.x[chosen], self.y[chosen]


class Trainer:
    """What this rank trains, a step at a time."""

    def __init__(self, torch, o):
        layout = (torch.channels_last if o.layout == "channels_last"
                  else torch.contiguous_format)
        torch.manual_seed(1)
        self.ddp = self.wrap(torch, net(torch).to(memory_format=layout))
        self.run = torch.compile(self.ddp) if o.compile else self.ddp
        self.optimizer = torch.optim.Adam(self.ddp.parameters(), lr=LEARNING_RATE,
                                          **{o.adam: True})
        self.loss = torch.nn.CrossEntropyLoss()
        self.data = Batches(torch, layout)

    def wrap(self, torch, model):
        return torch.nn.parallel.DistributedDataParallel(
            model, gradient_as_bucket_view=True, static_graph=True)

    def step(self):
        x, y = self.data.next()
        self.loss(self.run(x), y).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def state(self):
        return {"net": self.ddp.state_dict(),
                "optimizer": self.optimizer.state_dict()}

    def load(self, state):
        self.ddp.load_state_dict(state["net"])
        self.optimizer.load_state_dict(state["optimizer"])


def main():
    o = options(__doc__, ("layout", "contiguous", "or channels_last"),
                ("compile", 1, "torch.compile (inductor); 0: eager"),
                ("adam", "fused", "fused or foreach"),
                ("pin", 1, "1: a core to each rank"))
    if "RANK" not in os.environ:
        start_peer()
    rank = int(os.environ["RANK"])
    if o.pin:
        cpus = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cpus[rank % len(cpus)]})
    import torch
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    trainer = Trainer(torch, o)
    steps = 0

    def work():
        nonlocal steps
        trainer.step()
        steps += 1

    if rank > 0:
        while True:  # until rank 0 ends
            work()
    work()
    measured = windows_of(lambda: steps * BATCH * RANKS, o, work)
    say("torch_ddp", "images/s", measured, layout=o.layout, compile=o.compile,
        adam=o.adam, pin=o.pin, torch=torch.__version__)
    os._exit(0)  # rank 1 waits for us


if __name__ == "__main__":
    main()
