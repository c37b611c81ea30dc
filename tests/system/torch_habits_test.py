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
         steps=200, epochs=1, **more):
    ours, theirs, seen = net(), net(), []
    o = optimizer(ours.parameters())
    with sluice.torch.Trainer(ours, name, address, train={"shuffle": False},
                              optimizer=o, scheduler=scheduled(o), **more) as t:
        for batch in t.batches((x[:16 * steps], y[:16 * steps]), 16, epochs):
            seen.append(t.step(lambda: loss(ours, batch.x, batch.y)))
        t.load()
    o = optimizer(theirs.parameters())
    scheduler = scheduled(o)
    for i in range(steps * epochs):
        at = 16 * (i % steps)
        o.zero_grad()
        value = loss(theirs, x[at:at + 16], y[at:at + 16])
        value.backward()
        o.step()
        if scheduler is not None and (epochs == 1 or (i + 1) % steps == 0):
            scheduler.step()
        assert abs(value.item() - seen[i]) < 1e-4 * abs(value.item()), (
            name, i, value.item(), seen[i])
    assert len(seen) == steps * epochs, (name, len(seen))
    a = torch.cat([p.detach().flatten() for p in ours.parameters()])
    b = torch.cat([p.detach().flatten() for p in theirs.parameters()])
    print(name, ((a - b).norm() / b.norm()).item(), flush=True)
    return ours, theirs
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
both("by-epoch", scheduled=lambda o: L.StepLR(o, 3, 0.5), steps=20, epochs=10,
     scheduler_by="epoch")
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
for said in ("NAdam", "Adadelta", "RAdam", "ASGD", "Rprop"):
    nearest = sluice.torch.NEAREST[said]
    refused(f"{said} is not offered by psservers: the nearest is {nearest}", by(said))
    make = getattr(optim, said)
    refused(f"the nearest is {nearest}", lambda m: by(make(m.parameters()))(m))
for words, more in [("'update' or 'epoch'", {"scheduler_by": "step"}),
                    ("is of mode async", {"scheduler_by": "epoch", "mode": "hybrid"})]:
    refused(words, lambda m: sluice.torch.Trainer(m, "refused", address, **more))
class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return zip(x, y)
class Counted(Stream):
    def __len__(self):
        return len(x)
for data in (Stream(), Counted(), torch.utils.data.DataLoader(Counted(), 16)):
    def trains(model):
        with sluice.torch.Trainer(model, "refused", address, optimizer="adam") as t:
            next(iter(t.batches(data, batch_size=16)))
    refused("an IterableDataset is a stream", trains)
refused(f"optimizer='adma': known are {', '.join(sluice.torch.OFFERED)}", by("adma"))
refused("its name, its class or a dict", by(7))
lazy = nn.Sequential(nn.LazyLinear(24), nn.Tanh(), nn.LazyLinear(4))
refused("0.weight has no shape yet, as its module is lazy: call the model with one batch",
        by("adam"), lazy)
for dtype in (torch.float64, torch.float16, torch.bfloat16):
    refused(f"0.weight is {dtype}, and parameters are float32 on psservers: call "
            "model.float() before", by("adam"), net().to(dtype))
"""

# What is in many programs and needs nothing of a Trainer's.
HABITS = KIT + """
import tempfile
import torch.nn.utils.prune
from torch.nn.utils import parametrizations, parametrize
from torch.optim.swa_utils import AveragedModel
from torch.utils.checkpoint import checkpoint
def seeded(make):
    def made():
        torch.manual_seed(3)
        return make()
    return made
def layers(middle):
    return seeded(lambda: nn.Sequential(nn.Linear(12, 24), *middle(), nn.Linear(24, 4)))
class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(12, 24), nn.Linear(24, 4)
    def forward(self, x):
        return self.second(checkpoint(lambda x: self.first(x).tanh(), x,
                                      use_reentrant=False))
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(12, 12)
        self.outer = nn.Linear(12, 12)
        self.outer.weight = self.inner.weight
    def forward(self, x):
        return self.outer(self.inner(x).tanh())[:, :4]
class Lists(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(12, 12) for _ in range(3))
        self.heads = nn.ModuleDict({"a": nn.Linear(12, 4), "b": nn.Linear(12, 4)})
        self.scales = nn.ParameterList(torch.ones(12) for _ in range(3))
    def forward(self, x):
        for layer, scale in zip(self.layers, self.scales):
            x = x + layer(x).relu() * scale
        return self.heads["a"](x) + self.heads["b"](x)
class Image(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.out = nn.Linear(48, 4)
    def forward(self, x):
        x = x.view(-1, 1, 3, 4).to(memory_format=torch.channels_last)
        return self.out(self.norm(self.conv(x)).relu().flatten(1))
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.out = nn.MultiheadAttention(4, 2), nn.Linear(12, 4)
    def forward(self, x):
        x = x.view(-1, 3, 4).transpose(0, 1)
        return self.out(self.attention(x, x, x)[0].transpose(0, 1).flatten(1))
class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 4)
    def forward(self, x):
        return self.out(self.cell(x.view(-1, 3, 4))[0][:, -1])
class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.out = nn.EmbeddingBag(50, 8), nn.Linear(8, 4)
    def forward(self, x):
        return self.out(self.table((x.abs() * 20).long().clamp(max=49)))
class Clamp(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clamp(-1, 1)
    @staticmethod
    def backward(context, gradient):
        return gradient
def hooked():
    model = net()
    model[0].weight.register_hook(lambda gradient: gradient * 0.5)
    model[2].register_forward_hook(lambda module, x, y: y * 2)
    model[2].register_full_backward_hook(lambda module, gx, gy: None)
    return model
def normed():
    model = net()
    parametrizations.weight_norm(model[0])
    parametrizations.spectral_norm(model[2])
    return model
class Symmetric(nn.Module):
    def forward(self, w):
        return w.triu() + w.triu(1).transpose(-1, -2)
def symmetric():
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 4))
    parametrize.register_parametrization(model[0], "weight", Symmetric())
    return model
def pruned():
    model = net()
    nn.utils.prune.random_unstructured(model[0], "weight", 0.5)
    return model
def dropped(model, x, y):
    torch.manual_seed(int(1e4 * x.sum()) & 0xffff)
    return cross(model, x, y)
def penalty(model, x, y):
    x = x.clone().requires_grad_(True)
    value = cross(model, x, y)
    gradient, = torch.autograd.grad(value, x, create_graph=True)
    return value + gradient.square().sum()
def autocast(model, x, y):
    with torch.autocast("cpu", torch.bfloat16):
        return cross(model, x, y)
def functional(model, x, y):
    return F.cross_entropy(torch.func.functional_call(
        model, dict(model.named_parameters()), (x,)), y)
def by_sample(model, x, y):
    one = lambda x, y: F.cross_entropy(model(x[None]), y[None])
    return torch.func.vmap(one)(x, y).mean()
def straight(model, x, y):
    return F.cross_entropy(Clamp.apply(model(x)), y)
def looks(model, x, y):
    model.eval()
    with torch.inference_mode():
        cross(model, x, y)
    model.train()
    with tempfile.NamedTemporaryFile() as file:
        torch.save(model.state_dict(), file.name)
    copy.deepcopy(model).load_state_dict(model.state_dict())
    sum(p.norm().item() for p in model.parameters())
    return F.cross_entropy(model(x), y, label_smoothing=0.1) + 1e-3 * sum(
        p.square().sum() for p in model.parameters())
averages = {}
def averaged(model, x, y):
    if id(model) not in averages:
        averages[id(model)] = model, AveragedModel(model)
    averages[id(model)][1].update_parameters(model)
    return cross(model, x, y)
for name, make, loss in [
        ("plain", net, cross),
        ("compiled", lambda: torch.compile(net(), backend="aot_eager"), cross),
        ("scripted", lambda: torch.jit.script(net()), cross),
        ("checkpointed", seeded(Checkpointed), cross),
        ("data-parallel", lambda: nn.DataParallel(net()), cross),
        ("channels-last", seeded(lambda: Image().to(memory_format=torch.channels_last)),
         cross),
        ("batch-norm", layers(lambda: (nn.BatchNorm1d(24), nn.ReLU())), cross),
        ("layer-norm", layers(lambda: (nn.LayerNorm(24), nn.GELU())), cross),
        ("dropout", layers(lambda: (nn.Dropout(0.5),)), dropped),
        ("tied", seeded(Tied), cross), ("lists", seeded(Lists), cross),
        ("attention", seeded(Attention), cross), ("recurrent", seeded(Recurrent), cross),
        ("table", seeded(Table), cross), ("hooks", hooked, cross),
        ("weight-norm", normed, cross), ("parametrized", symmetric, cross),
        ("pruned", pruned, cross), ("penalty", net, penalty),
        ("autocast", net, autocast), ("functional-call", net, functional),
        ("vmap", net, by_sample), ("own-function", net, straight),
        ("looks", net, looks), ("swa", net, averaged),
        ("copied", lambda: copy.deepcopy(net()), cross)]:
    ours, theirs = both(name, make, loss=loss, steps=40)
    for (n, a), (_, b) in zip(ours.named_buffers(), theirs.named_buffers()):
        assert torch.allclose(a.float(), b.float(), 1e-4, 1e-5), (name, n)
a, b = (torch.cat([p.detach().flatten() for p in m.parameters()])
        for _, m in averages.values())
print("swa-mean", ((a - b).norm() / b.norm()).item(), flush=True)
"""

# What a program does to the model while it trains: at step 50, or at each.
CHANGES = KIT + """
def wide():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(12, 1200), nn.Tanh(), nn.Linear(1200, 4))
def frozen(make):
    def made():
        model = make()
        for p in model[0].parameters():
            p.requires_grad_(False)
        return model
    return made
def thaws(model, x, y):
    model.steps = getattr(model, "steps", 0) + 1
    for p in model[0].parameters():
        p.requires_grad_(50 < model.steps < 80 or model.steps > 90)
    return cross(model, x, y)
def adamw(p):
    return optim.AdamW(p, lr=0.002, weight_decay=0.1)
both("unfreeze", frozen(net), optim.Adam, loss=thaws)
both("unfreeze-decay", frozen(net), adamw, loss=thaws)
both("unfreeze-momentum", frozen(net), loss=thaws)
both("unfreeze-wide", frozen(wide), adamw, loss=thaws)
both("asleep", frozen(net), adamw)
both("unfreeze-ring", frozen(wide), adamw, loss=thaws, mode="allreduce", ranks=1,
     store=sys.argv[2])

# A program that goes on stepping the optimizer itself, and a second one.
ours, theirs, heard = net(), net(), []
other = nn.Parameter(torch.ones(1))
o = sgd(ours.parameters())
second = optim.SGD([*ours.parameters(), other], lr=1.0)
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    with sluice.torch.Trainer(ours, "optstep", address, train={"shuffle": False},
                              optimizer=o) as t:
        for batch in t.batches((x, y), batch_size=16):
            o.zero_grad()
            t.step(lambda: cross(ours, batch.x, batch.y))
            gradients = [p.grad.clone() for p in ours.parameters()]
            o.step()
            other.grad = torch.ones(1)
            second.step()
            assert all(map(torch.equal, gradients, [p.grad for p in ours.parameters()]))
        t.load()
said = [str(w.message) for w in heard if "does nothing" in str(w.message)]
assert len(said) == 1 and said[0].startswith("SGD.step() does nothing to"), said
assert heard[[str(w.message) for w in heard].index(said[0])].filename == "<string>"
assert other.item() == 1 - 200, other
before = ours[0].weight.detach().clone()
for p in ours.parameters():
    p.grad = torch.ones_like(p)
o.step()  # it is the program's again
assert not torch.equal(before, ours[0].weight)
with torch.no_grad():
    ours[0].weight.copy_(before)
    for p in list(ours.parameters())[1:]:
        p.add_(0.05)
o = sgd(theirs.parameters())
for i in range(200):
    o.zero_grad()
    cross(theirs, x[16 * i:16 * i + 16], y[16 * i:16 * i + 16]).backward()
    o.step()
a, b = (torch.cat([p.detach().flatten() for p in m.parameters()])
        for m in (ours, theirs))
print("optstep", ((a - b).norm() / b.norm()).item(), flush=True)
"""

REFUSED_CHANGES = KIT + """
def changes(name, change, after=False, optimizer=sgd, make=net):
    def trains(model):
        o = optimizer(model.parameters()) if callable(optimizer) else optimizer
        steps = 0
        with sluice.torch.Trainer(model, name, address, optimizer=o) as t:
            for batch in t.batches((x, y), batch_size=16):
                if steps == 3 and not after:
                    change(model, o)
                t.step(lambda: cross(model, batch.x, batch.y))
                if steps == 3 and after:
                    change(model, o)
                assert steps < 8, name
                steps += 1
    return trains
def at(words, name, change, error=ValueError, **more):
    make = more.get("make", net)
    refused(words, changes(name, change, **more), make(), error)
def some(dtype=torch.float32):
    return nn.Parameter(torch.randn(24, 12, dtype=dtype))
def freeze_first():
    model = net()
    model[0].weight.requires_grad_(False)
    return model
at("extra.weight was added after the Trainer was made", "later",
   lambda m, o: m.add_module("extra", nn.Linear(4, 4)))
at("2.weight was replaced after", "replaced", lambda m, o: setattr(
    m, "2", nn.Linear(24, 4)))
at("0.weight was replaced after", "one", lambda m, o: setattr(m[0], "weight", some()))
at("the data of 0.weight was replaced", "data",
   lambda m, o: setattr(m[0].weight, "data", some().data))
at("was replaced after the Trainer was made (torch.float64", "double", lambda m, o: m.double())
at("0.weight was written to by the program", "written",
   lambda m, o: nn.init.zeros_(m[0].weight))
at("2.bias was written to by the program", "clamped", after=True,
   change=lambda m, o: nn.init.zeros_(m[2].bias))
at("another group of parameters", "group",
   lambda m, o: o.add_param_group({"params": [some()]}))
at("lr was set from 0.05 to 0.01, which psservers do not see: give the Trainer the "
   "scheduler", "rate", lambda m, o: o.param_groups[0].update(lr=0.01))
at("0.weight requires a gradient now", "unfreeze",
   lambda m, o: m[0].weight.requires_grad_(True), make=freeze_first,
   optimizer={"type": "sgd", "learning_rate": 0.1})
at("the gradients were changed after t.step", "clip", error=RuntimeError, after=True,
   change=lambda m, o: nn.utils.clip_grad_norm_(m.parameters(), 1e-3))
at("SGD.step(closure) computes gradients", "closure", error=RuntimeError, after=True,
   change=lambda m, o: o.step(lambda: cross(m, x, y)))
heard = []
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    model = net()
    model[0].requires_grad_(False)
    sluice.torch.Trainer(model, "asleep", address, optimizer=sgd(model.parameters()))
assert "312 elements of the optimizer's are frozen" in str(heard[0].message), heard
"""


def trained_alike(code, c):
    """The program's lines of `both`: each model is torch's."""
    names = []
    for line in run(code, c.address, str(c.dir / "store")).splitlines():
        print(line, flush=True)
        name, apart = line.rsplit(" ", 1)
        if name.split()[0] != "refused":
            names.append(name)
            check(float(apart) < 1e-5, line)
    return names


def schedules_are_those_of_torch():
    with Cluster(psservers=2, workers=0) as c:
        check_equal(len(trained_alike(SCHEDULES, c)), 12, "schedules")
        jobs = c.json("jobs")["jobs"]
        run(REFUSED_SCHEDULES, c.address)
        check_equal(len(c.json("jobs")["jobs"]), len(jobs), "jobs of what is refused")


def habits_that_need_nothing_stay():
    with Cluster(psservers=1, workers=0) as c:
        check_equal(len(trained_alike(HABITS, c)), 27, "habits")


def a_model_that_changes_is_seen():
    with Cluster(psservers=2, workers=0) as c:
        check_equal(len(trained_alike(CHANGES, c)), 7, "models")
        run(REFUSED_CHANGES, c.address)


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
        a_model_that_changes_is_seen, habits_that_need_nothing_stay,
        long_schedules_are_lines])
