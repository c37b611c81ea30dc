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


def trainer(torch, o):
    """A function that does one step of this rank."""
    layout = (torch.channels_last if o.layout == "channels_last"
              else torch.contiguous_format)
    torch.manual_seed(1)
    model = net(torch).to(memory_format=layout)
    ddp = torch.nn.parallel.DistributedDataParallel(
        model, gradient_as_bucket_view=True, static_graph=True)
    run = torch.compile(ddp) if o.compile else ddp
    optimizer = torch.optim.Adam(ddp.parameters(), lr=LEARNING_RATE,
                                 **{o.adam: True})
    loss = torch.nn.CrossEntropyLoss()
    data = Batches(torch, layout)

    def step():
        x, y = data.next()
        loss(run(x), y).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step


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
    step = trainer(torch, o)
    steps = 0

    def work():
        nonlocal steps
        step()
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
