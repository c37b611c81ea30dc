#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps of the two nets in PyTorch on the GPU, as fast as it does them.

Forward pass, loss and backward pass on a batch that lies in the GPU's memory;
the gradient stays there. channels_last, cudnn.benchmark, AMP for 16 bits, TF32
as asked. Each variant is one captured CUDA graph, so that no launch is waited
for:

    eager      the modules as they are
    compiled   torch.compile, with its kernels for what cuDNN does not do
    tuned      torch.compile(mode="max-autotune-no-cudagraphs"), with --tuned

Prints a line per batch and variant as it is measured:

    {"net", "precision", "batch", "variant", "step_ms", "rounds", ...}

and a line with "failed" where a variant did not run. Needs torch with CUDA.
"""
import argparse
import json
import statistics
import sys
import time

CLASSES = 10
WARM_STEPS, ROUNDS = 5, 5


def options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", choices=["imagenette", "fashion"], required=True)
    parser.add_argument("--precision", choices=["f32", "tf32", "bf16", "f16"],
                        default="tf32")
    parser.add_argument("--batches", default="32,512", help="comma separated")
    parser.add_argument("--seconds", type=float, default=0.5, help="of one round")
    parser.add_argument("--limit", type=float, default=300,
                        help="no variant is begun after so many seconds")
    parser.add_argument("--tuned", action="store_true",
                        help="also max-autotune, which takes minutes")
    parser.add_argument("--plan", action="store_true",
                        help="run nothing: print a line for each that would be")
    parser.add_argument("--device", default="cuda",
                        help="cpu: only to see that this program works")
    return parser.parse_args()


# ---- nets


def same_conv(torch, inputs, filters, kernel, size):
    """TensorFlow's SAME with stride 2: the odd zero goes behind."""
    total = max(0, (-(-size // 2) - 1) * 2 + kernel - size)
    pad = torch.nn.ZeroPad2d((total // 2, total - total // 2) * 2)
    return [pad, torch.nn.Conv2d(inputs, filters, kernel, stride=2)]


def imagenette(torch):
    nn, layers, channels, size = torch.nn, [], 3, 256
    for filters, kernel in ((32, 5), (64, 7), (128, 11)):
        layers += same_conv(torch, channels, filters, kernel, size)
        layers += [nn.ReLU(), nn.BatchNorm2d(filters)]
        channels, size = filters, -(-size // 2)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(channels, CLASSES)), (3, 256, 256)


def fashion(torch):
    """examples/fashion-cnn.yaml."""
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(1600, 64), nn.ReLU(),
        nn.Linear(64, CLASSES)), (1, 28, 28)


# ---- steps


def set_precision(torch, precision):
    tf32 = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True
    return {"bf16": torch.bfloat16, "f16": torch.float16}.get(precision)


class Trainer:
    """One net, one batch, one variant: a function that does one step."""

    def __init__(self, torch, o, batch, variant):
        self.torch, self.device = torch, torch.device(o.device)
        self.dtype = set_precision(torch, o.precision)
        torch.manual_seed(1)
        net, shape = (imagenette if o.net == "imagenette" else fashion)(torch)
        self.net = net.to(self.device, memory_format=torch.channels_last)
        self.x = torch.rand(batch, *shape, device=self.device).to(
            memory_format=torch.channels_last)
        self.y = torch.randint(CLASSES, (batch,), device=self.device)
        self.loss = torch.nn.CrossEntropyLoss()
        # Under AMP f16 gradients are of a scaled loss, as a worker's are.
        self.scale = 2.0 ** 15 if o.precision == "f16" else 1.0
        forward = self.forward
        if variant != "eager":
            mode = "max-autotune-no-cudagraphs" if variant == "tuned" else None
            forward = torch.compile(forward, mode=mode, dynamic=False)
        self.run = forward

    def forward(self, x, y):
        with self.torch.autocast(self.device.type, dtype=self.dtype,
                                 enabled=self.dtype is not None):
            logits = self.net(x)
        return self.loss(logits.float(), y) * self.scale

    def step(self):
        for p in self.net.parameters():
            p.grad = None
        self.run(self.x, self.y).backward()

    def captured(self):
        """The step as one CUDA graph."""
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_STEPS):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        for p in self.net.parameters():
            p.grad = None
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        return graph.replay


def time_of(run, wait, seconds):
    """Milliseconds of one call, of as many as fit into so many seconds."""
    for _ in range(WARM_STEPS):
        run()
    wait()
    began = time.perf_counter()
    run()
    wait()
    count = max(3, int(seconds / max(1e-5, time.perf_counter() - began)))
    began = time.perf_counter()
    for _ in range(count):
        run()
    wait()
    return 1e3 * (time.perf_counter() - began) / count


def measure(torch, o, batch, variant):
    trainer = Trainer(torch, o, batch, variant)
    if o.device == "cuda":
        run, wait = trainer.captured(), torch.cuda.synchronize
    else:
        def wait():
            pass
        run = trainer.step
    rounds = [time_of(run, wait, o.seconds) for _ in range(ROUNDS)]
    grads = [p.grad for p in trainer.net.parameters()]
    assert all(g is not None and torch.isfinite(g).all() for g in grads)
    return {"step_ms": statistics.median(rounds), "rounds": rounds}


def say(o, batch, variant, found):
    print(json.dumps({"net": o.net, "precision": o.precision, "batch": batch,
                      "variant": variant, **found}), flush=True)


def planned(o):
    """(variant, batch) as they are run: the quick one first, for all batches."""
    variants = ["eager", "compiled"] + ["tuned"] * o.tuned
    return [(v, b) for v in variants for b in map(int, o.batches.split(","))]


def main():
    o = options()
    end = time.monotonic() + o.limit
    if o.plan:
        for variant, batch in planned(o):
            say(o, batch, variant, {"planned": True})
        return
    import torch
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda,
                "cudnn": (torch.backends.cudnn.version()
                          if o.device == "cuda" else None)}
    for variant, batch in planned(o):
        if time.monotonic() > end:
            print("torch_gpu.py: out of time", file=sys.stderr)
            return
        try:
            say(o, batch, variant, {**measure(torch, o, batch, variant),
                                    **versions})
        except Exception as error:  # another variant may still run
            say(o, batch, variant, {"failed": f"{type(error).__name__}: "
                                    f"{str(error)[:300]}"})
        if o.device == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
