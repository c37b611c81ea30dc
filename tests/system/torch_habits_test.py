#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How programs of torch are written: what they do trains as torch does, or is
refused, before there is a job, with the nearest thing that works."""
from cluster import Cluster, check, check_equal
from frames import main_with, run

# One worker, in order: `both` trains a model as a job and with torch alone, and
# gives how far apart they are.
KIT = """
import copy, sys, warnings, numpy, torch, sluice.torch
from torch import nn, optim
address, F, L = sys.argv[1], nn.functional, optim.lr_scheduler
torch.manual_seed(7)
x, y = torch.randn(3200, 12), torch.randint(0, 4, (3200,))
def net():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 4))
def sgd(p):
    return optim.SGD(p, lr=0.05, momentum=0.9)
def cross(model, x, y):
    return F.cross_entropy(model(x), y)
def both(name, net=net, optimizer=sgd, scheduled=lambda o: None, loss=cross,
         steps=200, **more):
    ours, theirs, seen = net(), net(), []
    o = optimizer(ours.parameters())
    with sluice.torch.Trainer(ours, name, address, train={"shuffle": False},
                              optimizer=o, scheduler=scheduled(o), **more) as t:
        for batch in t.batches((x[:16 * steps], y[:16 * steps]), batch_size=16):
            seen.append(t.step(lambda: loss(ours, batch.x, batch.y)))
        t.load()
    o = optimizer(theirs.parameters())
    scheduler = scheduled(o)
    for i in range(steps):
        o.zero_grad()
        value = loss(theirs, x[16 * i:16 * i + 16], y[16 * i:16 * i + 16])
        value.backward()
        o.step()
        if scheduler is not None:
            scheduler.step()
        assert abs(value.item() - seen[i]) < 1e-4 * abs(value.item()), (
            name, i, value.item(), seen[i])
    assert len(seen) == steps, (name, len(seen))
    a = torch.cat([p.detach().flatten() for p in ours.parameters()])
    b = torch.cat([p.detach().flatten() for p in theirs.parameters()])
    print(name, ((a - b).norm() / b.norm()).item(), flush=True)
def refused(words, make, model=None, error=ValueError):
    try:
        make(net() if model is None else model)
    except error as e:
        assert words in str(e), (words, e)
    else:
        assert False, ("not refused", words)
    print("refused", words, flush=True)
"""

SCHEDULES = KIT + """
def sequence(o):
    warm = L.LinearLR(o, 0.1, 1.0, 20)
    return L.SequentialLR(o, [warm, L.CosineAnnealingLR(o, 180)], [20])
for name, optimizer, scheduled in [
        ("lambda", sgd, lambda o: L.LambdaLR(o, lambda e: min(1.0, e / 50))),
        ("multiplicative", sgd, lambda o: L.MultiplicativeLR(o, lambda e: 0.99)),
        ("cycle", sgd, lambda o: L.OneCycleLR(o, 0.1, total_steps=200,
                                              cycle_momentum=False)),
        ("adam-cycle", lambda p: optim.Adam(p, lr=0.01),
         lambda o: L.OneCycleLR(o, 0.02, total_steps=200, cycle_momentum=False,
                                three_phase=True, anneal_strategy="linear")),
        ("restarts", sgd, lambda o: L.CosineAnnealingWarmRestarts(o, 30, 2, 0.001)),
        ("sequence", lambda p: optim.AdamW(p, lr=0.01), sequence),
        ("chained", sgd, lambda o: L.ChainedScheduler(
            [L.LinearLR(o, 0.1, 1.0, 20), L.ExponentialLR(o, 0.99)])),
        ("cyclic", sgd, lambda o: L.CyclicLR(o, 0.01, 0.1, 20, cycle_momentum=False)),
        ("constant", sgd, lambda o: L.ConstantLR(o, 0.3, 40)),
        ("cosine-again", sgd, lambda o: L.CosineAnnealingLR(o, 60, 0.001)),
        ("many-milestones", sgd, lambda o: L.MultiStepLR(o, range(2, 200, 4), 0.97))]:
    both(name, optimizer=optimizer, scheduled=scheduled)
"""

# Of more updates than a schedule has points.
LONG = KIT + """
from sluice._rates import LEAST, MOST
from sluice.torch import schedule_spec
def warm(o, n=5000):
    return L.LambdaLR(o, lambda e: (e + 1) / 500 if e < 500 else
                      0.5 * (1 + numpy.cos(numpy.pi * (e - 500) / (n - 500))))
for n, make, within in [
        (5000, warm, 4e-6), (5000, lambda o: L.OneCycleLR(
            o, 0.1, total_steps=5000, cycle_momentum=False), 4e-6),
        (5000, lambda o: L.ChainedScheduler([
            L.CosineAnnealingWarmRestarts(o, 1000), L.ConstantLR(o, 0.5, 10)]), LEAST),
        (5000, lambda o: L.SequentialLR(
            o, [L.LinearLR(o, 0.01, 1.0, 300), L.StepLR(o, 500, 0.5)], [300]), 1e-12)]:
    o = sgd(net().parameters())
    scheduler = make(o)
    spec = schedule_spec(scheduler, n)
    lines = spec["schedule"]
    said = spec["learning_rate"] * numpy.interp(range(n), lines["boundaries"],
                                                lines["values"])
    rates = []
    for i in range(n):
        rates.append(o.param_groups[0]["lr"])
        o.step()
        if i + 1 < n:
            scheduler.step()
    apart = numpy.abs(said - rates).max() / max(rates)
    print(len(lines["values"]), "points:", apart)
    assert apart <= within and len(lines["values"]) <= MOST, (apart, within)
"""

REFUSED_SCHEDULES = KIT + """
def with_scheduler(make, optimizer=sgd):
    def trains(model):
        o = optimizer(model.parameters())
        with sluice.torch.Trainer(model, "refused", address, optimizer=o,
                                  scheduler=make(o)) as t:
            for batch in t.batches((x, y), batch_size=16):
                t.step(lambda: cross(model, batch.x, batch.y))
    return trains
refused("nearest are StepLR and CosineAnnealingLR",
        with_scheduler(L.ReduceLROnPlateau))
refused("OneCycleLR changes momentum too, which psservers do not: say "
        "cycle_momentum=False", with_scheduler(lambda o: L.OneCycleLR(o, 0.1, 200)))
refused("OneCycleLR changes betas too", with_scheduler(
    lambda o: L.OneCycleLR(o, 0.1, 200), lambda p: optim.Adam(p)))
refused("Tried to step 101 times", with_scheduler(
    lambda o: L.OneCycleLR(o, 0.1, 100, cycle_momentum=False)))
refused("the rate of update 150 is -", with_scheduler(
    lambda o: L.LambdaLR(o, lambda e: 1.0 if e < 150 else -1.0)))
def stepped(o):
    scheduler = L.StepLR(o, 3)
    scheduler.step()
    return scheduler
refused("StepLR has been stepped", with_scheduler(stepped))
import random
o = sgd(net().parameters())
try:
    sluice.torch.schedule_spec(L.LambdaLR(o, lambda e: random.random()), 5000)
except ValueError as e:
    assert "change too often" in str(e), e
else:
    assert False
try:
    sluice.torch.schedule_spec(L.ConstantLR(o, 0.3, 40), 1 << 21)
except ValueError as e:
    assert "2,097,152 times ahead" in str(e) and "piecewise_linear" in str(e), e
else:
    assert False
"""

# Models and optimizers as programs write them.
WRITTEN = KIT + """
import functools
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.body, self.scale = nn.Linear(12, 4), nn.Parameter(torch.tensor(1.5))
    def forward(self, x):
        return self.body(x) * self.scale
def lazy():
    torch.manual_seed(3)
    model = nn.Sequential(nn.LazyLinear(24), nn.Tanh(), nn.LazyLinear(4))
    model(x[:1])
    return model
both("scalar", Scaled)
both("lazy", lazy)
def named(name, said, optimizer, **spec):
    ours, theirs = net(), net()
    with sluice.torch.Trainer(ours, name, address, train={"shuffle": False},
                              optimizer=said) as t:
        for batch in t.batches((x[:320], y[:320]), batch_size=16):
            t.step(lambda: cross(ours, batch.x, batch.y))
        t.load()
    o = optimizer(theirs.parameters())
    for i in range(20):
        o.zero_grad()
        cross(theirs, x[16 * i:16 * i + 16], y[16 * i:16 * i + 16]).backward()
        o.step()
    a, b = (torch.cat([p.detach().flatten() for p in m.parameters()])
            for m in (ours, theirs))
    print(name, ((a - b).norm() / b.norm()).item(), flush=True)
named("name", "adam", optim.Adam)
named("capitals", "RMSprop", optim.RMSprop)
named("class", optim.AdamW, optim.AdamW)
named("partial", functools.partial(optim.SGD, lr=0.02, momentum=0.5),
      functools.partial(optim.SGD, lr=0.02, momentum=0.5))
"""

REFUSED_MODELS = KIT + """
def by(optimizer):
    return lambda model: sluice.torch.Trainer(model, "refused", address,
                                              optimizer=optimizer)
for said in ("NAdam", "Adamax", "Adadelta", "RAdam", "ASGD", "Rprop"):
    nearest = sluice.torch.NEAREST[said]
    refused(f"{said} is not offered by psservers: the nearest is {nearest}", by(said))
    make = getattr(optim, said)
    refused(f"the nearest is {nearest}", lambda m: by(make(m.parameters()))(m))
refused("optimizer='adma': known are SGD, Adam, AdamW, Adagrad, RMSprop", by("adma"))
refused("its name, its class or a dict", by(7))
lazy = nn.Sequential(nn.LazyLinear(24), nn.Tanh(), nn.LazyLinear(4))
refused("0.weight has no shape yet, as its module is lazy: call the model with one batch",
        by("adam"), lazy)
for dtype in (torch.float64, torch.float16, torch.bfloat16):
    refused(f"0.weight is {dtype}, and parameters are float32 on psservers: call "
            "model.float() before", by("adam"), net().to(dtype))
"""


def trained_alike(code, c):
    """The program's lines of `both`: each model is torch's."""
    names = []
    for line in run(code, c.address).splitlines():
        print(line, flush=True)
        name, apart = line.rsplit(" ", 1)
        if name.split()[0] != "refused":
            names.append(name)
            check(float(apart) < 1e-5, line)
    return names


def schedules_are_those_of_torch():
    with Cluster(psservers=2, workers=0) as c:
        check_equal(len(trained_alike(SCHEDULES, c)), 11, "schedules")
        jobs = c.json("jobs")["jobs"]
        run(REFUSED_SCHEDULES, c.address)
        check_equal(len(c.json("jobs")["jobs"]), len(jobs), "jobs of what is refused")


def models_and_optimizers_as_they_are_written():
    with Cluster(psservers=1, workers=0) as c:
        check_equal(len(trained_alike(WRITTEN, c)), 6, "models")
        jobs = c.json("jobs")["jobs"]
        run(REFUSED_MODELS, c.address)
        check_equal(len(c.json("jobs")["jobs"]), len(jobs), "jobs of what is refused")


def long_schedules_are_lines():
    print(run(LONG, "none"), flush=True)


if __name__ == "__main__":
    main_with("torch", [
        schedules_are_those_of_torch, models_and_optimizers_as_they_are_written,
        long_schedules_are_lines])
