# SPDX-License-Identifier: Apache-2.0
"""Programs of the Python package that rows measure, run by the interpreter of
bench/setup with the package on PYTHONPATH.

    push     NumPy: a gradient that is ready, step after step, as lib_push.c
    small    torch: a net of 10 variables through sluice.torch
    alone    the same net's forward and backward pass, nothing else
    paced    steps that take --pace seconds and no processor
    fashion  the net of peers/torch_ddp.py through sluice.torch, until it is killed;
             says "ready" once it is warm

The first four print what peers/common.py says that a peer prints.
"""
import argparse
import os
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))
from common import LEARNING_RATE, fashion, say, windows_of  # noqa: E402

WIDTH, LAYERS, BATCH = 32, 5, 32
ROWS = 1 << 19
ENDLESS = 10000  # epochs
READY = 50  # steps


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("push", "small", "alone", "paced", "fashion"))
    parser.add_argument("--pace", type=float)
    parser.add_argument("--coordinator")
    parser.add_argument("--job", type=int, default=0)
    parser.add_argument("--name")
    parser.add_argument("--cpu", type=int)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--windows", type=int, default=1)
    parser.add_argument("--warmup", type=float, default=1.0)
    return parser.parse_args()


class Stepped:
    """An iterator of steps as the `work` of windows_of."""

    def __init__(self, steps):
        self.steps, self.count = steps, 0

    def work(self):
        next(self.steps)
        self.count += 1

    def measure(self, o, what):
        say(what, "steps/s", windows_of(lambda: self.count, o, self.work))
        sys.stdout.flush()
        os._exit(0)  # the job goes on for others


def push(o):
    import numpy as np
    import sluice

    def steps():
        with sluice.Session(o.coordinator, name="push", job=o.job, wait=10) as session:
            gradient = None
            for closure in session.closures():
                if gradient is None:
                    gradient = np.zeros(closure.elements, np.float32)
                for step in closure.steps():
                    np.copyto(closure.grads, gradient)
                    step.done(loss_sum=1.0)
                    yield
    Stepped(steps()).measure(o, "push")


def small_net(torch):
    torch.manual_seed(1)
    layers = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)]
    # An epoch ends with a checkpoint, which is not to be measured: seconds long.
    data = torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH)
    return torch.nn.Sequential(*layers), data


def small(o):
    import sluice.torch
    import torch
    torch.set_num_threads(1)
    model, data = small_net(torch)
    loss_fn = torch.nn.MSELoss()

    def steps():
        with sluice.torch.Trainer(model, "small", o.coordinator, name="small",
                                  init="glorot_uniform",
                                  train={"steps_per_closure": 128,
                                         "shuffle": False}) as t:
            for batch in t.batches(data, BATCH, ENDLESS):
                t.step(lambda: loss_fn(model(batch.x), batch.y))
                yield
    Stepped(steps()).measure(o, "small")


def alone(o):
    import torch
    torch.set_num_threads(1)
    model, (x, y) = small_net(torch)
    loss_fn, at = torch.nn.MSELoss(), torch.arange(BATCH)

    def steps():
        while True:
            model.zero_grad(set_to_none=True)
            loss = loss_fn(model(x[at]), y[at])
            loss.backward()
            loss.item()
            yield
    Stepped(steps()).measure(o, "alone")


def paced(o):
    Stepped(iter(lambda: time.sleep(o.pace), True)).measure(o, "paced")


def trained(o):
    import sluice.torch
    import torch
    from torch_ddp import net
    torch.set_num_threads(1)
    torch.manual_seed(1)
    x, y = fashion()
    x = torch.from_numpy(x.copy()).permute(0, 3, 1, 2).float().div_(255).contiguous()
    model, loss_fn = net(torch), torch.nn.CrossEntropyLoss()
    adam = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    with sluice.torch.Trainer(model, "fashion", o.coordinator, optimizer=adam,
                              name=o.name, init="glorot_uniform") as t:
        for batch in t.batches((x, torch.from_numpy(y)), 64, ENDLESS):
            t.step(lambda: loss_fn(model(batch.x), batch.y))
            if t.metrics["steps"] == READY:
                print("ready", flush=True)


def main():
    o = options()
    if o.cpu is not None:
        os.sched_setaffinity(0, {o.cpu})
    {"push": push, "small": small, "alone": alone, "paced": paced,
     "fashion": trained}[o.what](o)


if __name__ == "__main__":
    main()
