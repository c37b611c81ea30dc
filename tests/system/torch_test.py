#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch on exactly-once servers: programs of `sluice.torch` train while they are
killed, and a psserver's optimizers are torch's."""
import pathlib
import re

from cluster import Cluster, check, check_counts, check_equal, wait_for
from frames import begin, leave, main_with, run, some_text, the_job, train_and_die
from orphans import ended

# One worker, in order: what a loop of torch's own computes.
SAME = """
import sys, numpy, torch, sluice.torch
address = sys.argv[1]
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.05),
    "adamax": lambda p: torch.optim.Adamax(p, lr=0.01),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05,
                                             initial_accumulator_value=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.003, alpha=0.9, momentum=0.5),
    "l2": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, weight_decay=0.01),
    "adam-l2": lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.02),
}
L = torch.optim.lr_scheduler
SCHEDULERS = {
    "sgd": lambda o: L.StepLR(o, 40, 0.7),
    "momentum": lambda o: L.StepLR(o, 30, 0.6),
    "nesterov": lambda o: L.LinearLR(o, 0.1, 1.0, 60),
    "rmsprop": lambda o: L.ExponentialLR(o, 0.98),
    "adam": lambda o: L.CosineAnnealingLR(o, 220, 0.001),
    "amsgrad": lambda o: L.MultiStepLR(o, [50, 120, 120], 0.5),
    "adamw": lambda o: L.LinearLR(o, 0.1, 1.0, 60),
    "adagrad": lambda o: L.PolynomialLR(o, 250, 2.0),
    "adam-l2": lambda o: L.ExponentialLR(o, 0.99),
}
CLIPS = {"momentum": {"clip_norm": 0.3}, "adam": {"clip_value": 0.01},
         "l2": {"clip_norm": 0.2}}
torch.manual_seed(7)
x, y = torch.randn(3200, 12), torch.randint(0, 4, (3200,))
def net():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(12, 24), torch.nn.Tanh(),
                               torch.nn.Linear(24, 4))
loss_fn = torch.nn.CrossEntropyLoss()
def trained(kind):
    scheduled, clip = SCHEDULERS.get(kind, lambda o: None), CLIPS.get(kind, {})
    ours, theirs = net(), net()
    seen = []
    optimizer = OPTIMIZERS[kind](ours.parameters())
    with sluice.torch.Trainer(ours, kind, address, train={"shuffle": False},
                              optimizer=optimizer, scheduler=scheduled(optimizer),
                              **clip) as t:
        for batch in t.batches((x, y), batch_size=16):
            seen.append(t.step(lambda: loss_fn(ours(batch.x), batch.y)))
        t.load()
    optimizer = OPTIMIZERS[kind](theirs.parameters())
    scheduler = scheduled(optimizer)
    for i in range(200):
        optimizer.zero_grad()
        loss = loss_fn(theirs(x[16 * i:16 * i + 16]), y[16 * i:16 * i + 16])
        loss.backward()
        if "clip_norm" in clip:
            torch.nn.utils.clip_grad_norm_(theirs.parameters(), clip["clip_norm"])
        if "clip_value" in clip:
            torch.nn.utils.clip_grad_value_(theirs.parameters(), clip["clip_value"])
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        assert abs(loss.item() - seen[i]) < 1e-4 * abs(loss.item()), (i, loss.item(), seen[i])
    a = torch.cat([p.detach().flatten() for p in ours.parameters()])
    b = torch.cat([p.detach().flatten() for p in theirs.parameters()])
    assert len(seen) == 200
    return ((a - b).norm() / b.norm()).item()
for kind in OPTIMIZERS:
    print(kind, trained(kind))
"""

REFUSED = """
import sys, torch, sluice.torch
def refused(words, make, **more):
    model = torch.nn.Linear(2, 2)
    try:
        optimizer = make(model.parameters())
        if more:
            more = {"scheduler": more["scheduler"](optimizer)}
        sluice.torch.Trainer(model, "refused", sys.argv[1], optimizer=optimizer, **more)
    except ValueError as error:
        assert words in str(error), (words, error)
    else:
        assert False, words
O, L = torch.optim, torch.optim.lr_scheduler
refused("NAdam is not offered", lambda p: O.NAdam(p))
refused("maximize=True", lambda p: O.SGD(p, lr=0.1, maximize=True))
refused("has amsgrad True", lambda p: O.Adam([{"params": [q], "amsgrad": i > 0}
                                              for i, q in enumerate(p)]))
refused("ReduceLROnPlateau is not offered", lambda p: O.Adam(p),
        scheduler=lambda o: L.ReduceLROnPlateau(o))
"""

# What accumulates, is scaled or is read elsewhere is the same training.
WAYS = """
import os, sys, warnings, torch, sluice.torch
warnings.simplefilter("error", RuntimeWarning)  # of rows, which it has none of
address, way = sys.argv[1:3]
torch.manual_seed(7)
x, y = torch.randn(640, 12), torch.randint(0, 4, (640,))
torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(12, 24), torch.nn.Tanh(),
                            torch.nn.Linear(24, 4))
loss_fn, readers, steps = torch.nn.CrossEntropyLoss(), set(), 0
class Items(torch.utils.data.Dataset):
    def __len__(self):
        return len(x)
    def __getitem__(self, i):
        return (x[i], os.getpid()), y[i]
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
data = Items() if way == "workers" else (x.numpy(), y.numpy())
with sluice.torch.Trainer(model, way, address, train={"shuffle": False},
                          workers=2 if way == "workers" else 0) as t:
    for batch in t.batches(data, batch_size=16):
        steps += 1
        inputs = batch.x
        if way == "workers":
            inputs, pids = batch.x
            readers |= set(pids.tolist())
        if way == "parts":
            t.step(lambda part: loss_fn(model(part.x), part.y), parts=batch.parts(3))
        elif way in ("scaler", "skip"):
            large = float("inf") if way == "skip" and steps == 5 else 1.0
            t.step(lambda: loss_fn(model(inputs), batch.y) * large, scaler=scaler)
        else:
            t.step(lambda: loss_fn(model(inputs), batch.y))
    t.load()
    t.save(sys.argv[3])
    done = t.status()
for n, values in sluice.client.load_safetensors(sys.argv[3]).items():
    assert torch.equal(model.state_dict()[n], torch.from_numpy(values)), n
assert os.getpid() not in readers and len(readers) == (2 if way == "workers" else 0)
print(sum(p.detach().double().abs().sum() for p in model.parameters()).item(),
      done["updates_skipped"], scaler.get_scale())
"""


def optimizers_schedules_and_clipping_are_those_of_torch():
    with Cluster(psservers=2, workers=0) as c:
        for line in run(SAME, c.address).splitlines():
            print(line, flush=True)
            check(float(line.split()[1]) < 1e-5, line)
        run(REFUSED, c.address)


# What people hand over instead of a data set.
LOADER = """
import sys, numpy, torch, sluice.torch
from torch.utils.data import *
x = torch.arange(80, dtype=torch.float32).view(20, 4); y = x.sum(1, keepdim=True)
data = TensorDataset(x, y)
def seen(given, job, **how):
    model, numbers, sizes, first = torch.nn.Linear(4, 1), [], [], None
    with sluice.torch.Trainer(model, job, sys.argv[1]) as t:
        for batch in t.batches(given, **how):
            numbers += batch.samples.tolist()
            sizes.append(len(batch.samples))
            assert torch.equal(batch.x, x[batch.samples.astype(int)]), batch
            t.step(lambda: 1e-9 * model(batch.x).sum())
    assert sorted(numbers) == list(range(20)), numbers
    return sizes
assert seen(DataLoader(data, 4, shuffle=True), "loader") == [4] * 5
assert seen(DataLoader(data, 4), "same", batch_size=4) == [4] * 5
assert seen([(a, b) for a, b in zip(x, y)], "pairs", batch_size=5) == [5] * 4
assert seen(DataLoader(data, 6, drop_last=True, num_workers=1), "last") == [6, 6, 6, 2]
collated = []
def collate(items):
    collated.append(len(items))
    return torch.utils.data.default_collate(items)
assert seen(DataLoader(data, 10, collate_fn=collate), "collate") == [10, 10]
assert collated == [1, 10, 10], collated  # the first is looked at before the job
class Stream(IterableDataset):
    def __iter__(self): return iter(data)
def refused(words, given, **how):
    try:
        seen(given, "refused", **how)
    except ValueError as error:
        assert words in str(error), (words, error)
    else:
        assert False, words
refused("batch_size is 8 and the DataLoader's is 4", DataLoader(data, 4), batch_size=8)
refused("WeightedRandomSampler", DataLoader(data, 4, sampler=WeightedRandomSampler(
    [1.0] * 20, 20)))
refused("batch_sampler", DataLoader(data, batch_sampler=BatchSampler(
    SequentialSampler(data), 4, False)))
refused("stream", DataLoader(Stream(), 4))
refused("batch_size", data)
assert not sluice.jobs(sys.argv[1], name="refused")
"""


def torch_loader():
    with Cluster(psservers=1, workers=0) as c:
        run(LOADER, c.address)


def accumulated_scaled_and_read_elsewhere_it_is_the_same_training():
    with Cluster(psservers=2, workers=0) as c:
        said = {way: [float(w) for w in run(
            WAYS, c.address, way, str(c.dir / "saved.safetensors")).split()]
                for way in ("plain", "parts", "scaler", "skip", "workers")}
        print(said, flush=True)
        plain = said["plain"][0]
        for way in ("parts", "scaler", "workers"):
            check(abs(said[way][0] - plain) < 1e-5 * plain, f"{way}: {said}")
            check_equal(said[way][1], 0.0, f"steps that were skipped: {way}")
        check_equal(said["skip"][1:], [1.0, 512.0], "steps skipped, and the scale")
        check(abs(said["skip"][0] - plain) > 1e-5 * plain, "a skipped step changed it")
        for job in c.json("jobs")["jobs"]:
            check_counts(c.json("status", job["id"]))


def programs_of_torch_train_and_die():
    with Cluster(psservers=2, workers=0) as c:
        said = train_and_die(c, "torch_fashion.py", (60, 180), "--samples=48000")
        check(float(said.rsplit("accuracy", 1)[1].split()[0]) > 0.8, said)


def a_resnet_with_batch_norm_learns():
    with Cluster(psservers=2, workers=0) as c:
        said = train_and_die(c, "torch_resnet.py", (), "--side=8", "--samples=320")
        check(float(said.rsplit("mean loss of all", 1)[1].split(",")[0]) < 2.2, said)


def a_gpt_learns_bytes_that_a_process_reads_ahead():
    with Cluster(psservers=2, workers=0) as c:
        said = train_and_die(c, "torch_gpt.py", (8,), some_text(c, 13000))
        losses = re.findall(r"loss ([\d.]+):", said)  # nan: of one that came late
        check(losses and float(losses[-1]) < 3.5, said)


def processes_that_read_end_with_their_program():
    """Also with one that is killed."""
    with Cluster(psservers=1, workers=0) as c:
        program = begin(c, "torch_gpt.py")("gpt")
        try:
            c.wait_steps(the_job(c), 1)
            pid = program.process.pid
            children = [child for task in pathlib.Path(f"/proc/{pid}/task").iterdir()
                        for child in (task / "children").read_text().split()]
            check(children, "a process that reads")
        finally:
            program.end()
        wait_for("the end of those that read", lambda: all(map(ended, children)), 20)


# Stops the psserver with a gradient on its way, and lets it go on when the next
# batch is read: who would read it after fresh parameters waits until the alarm.
AHEAD = """
import os, signal, sys, torch, sluice.torch
address, psserver = sys.argv[1], int(sys.argv[2])
read, stopped = [], []
signal.alarm(60)
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 160
    def __getitem__(self, n):
        read.append(n)
        if stopped and n not in stopped:
            os.kill(psserver, signal.SIGCONT)
        return torch.full((3,), float(n)), torch.zeros(1)
model = torch.nn.Linear(3, 1)
with sluice.torch.Trainer(model, "ahead", address,
                          train={"shuffle": False, "steps_per_closure": 5}) as t:
    seen = []
    for batch in t.batches(Data(), batch_size=16):
        assert batch.x[:, 0].tolist() == batch.samples.tolist(), batch
        seen += batch.samples.tolist()
        if batch.step == 2:
            stopped = batch.samples.tolist()
            os.kill(psserver, signal.SIGSTOP)
        t.step(lambda: model(batch.x).square().mean() / 1e4)
assert seen == list(range(160)), seen
assert read.pop(0) == 0                # looked at before there is a job
assert sorted(read) == seen, read      # none was read in vain
print("read ahead")
"""


def the_next_batch_is_read_while_the_gradient_travels():
    with Cluster(psservers=1, workers=0) as c:
        said = run(AHEAD, c.address, str(c.processes["ps-0"].pid))
        check("read ahead" in said, said)


def a_program_of_torch_leaves_in_order():
    with Cluster(psservers=1, workers=0) as c:
        leave(c, "torch_fashion.py", 10, "--samples=12800")


# What begins the programs of tables.
RAISES = """
def raises(kind, words, call):
    try:
        call()
    except kind as error:
        assert words in str(error), error
    else:
        assert False, words
"""

# One worker, in order: what a loop with torch's own Embedding computes.
TABLE = RAISES + """
import copy, sys, warnings, torch, sluice.torch
address = sys.argv[1]
torch.manual_seed(7)
numbers, y = torch.randint(0, 50, (3200, 3)), torch.randint(0, 4, (3200,))
numbers[:, 1] = numbers[:, 0]                       # an id stands twice in a sample
def ids_of(numbers):
    return torch.as_tensor(numbers) * -0x61c8864680b583eb  # any numbers of 64 bits
ids = ids_of(numbers)

class Net(torch.nn.Module):
    def __init__(self, table):
        super().__init__()
        torch.manual_seed(3)
        self.table, self.last = table, torch.nn.Linear(8, 4)
    def forward(self, x):
        return self.last(self.table(x).sum(1))

loss_fn = torch.nn.CrossEntropyLoss()
def trained(padding):
    seen, ours = [], Net(sluice.torch.Embedding(
        "users", 8, None if padding is None else int(ids_of(padding)), initializer="ones"))
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.05)
    with sluice.torch.Trainer(ours, f"table-{padding}", address, train={"shuffle": False},
                              optimizer=optimizer) as t:
        for batch in t.batches((ids, y), batch_size=16):
            t.evaluate((ids[:16], y[:16]), lambda x, y: x[:, 0])  # leaves no gradient
            assert ours.table(batch.x[0, 0]).shape == (8,)
            seen.append(t.step(lambda: loss_fn(ours(batch.x), batch.y)))
        for what, call in (("between a batch", lambda: ours(ids[:2])),
                           ("no Trainer", lambda: copy.deepcopy(ours)(ids[:2]))):
            raises(RuntimeError, what, call)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            t.load()
            t.save(sys.argv[2])
        call = f"sluice.export('{t.id}', '{address}', table='users')"
        assert [call in str(w.message) for w in said] == [True] * 2, said
        rows = eval(call)
        assert all(w.filename == "<string>" for w in said), said  # where it is called
    theirs = Net(torch.nn.Embedding(50, 8, padding))
    with torch.no_grad():
        theirs.table.weight[:] = 1
        if padding is not None:
            theirs.table.weight[padding] = 0
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.05)
    for i in range(200):
        part = slice(16 * i, 16 * i + 16)
        optimizer.zero_grad()
        loss = loss_fn(theirs(numbers[part]), y[part])
        loss.backward()
        optimizer.step()
        assert abs(loss.item() - seen[i]) < 1e-4 * abs(loss.item()), (i, loss.item(), seen[i])
    assert len(seen) == 200 and (theirs.table.weight - 1).abs().max() > 0.01
    there = [n for n in range(50) if n != padding]
    order = torch.from_numpy(rows["ids"].view("int64")).argsort()
    wanted = ids_of(there).argsort()
    assert torch.equal(torch.from_numpy(rows["ids"].view("int64"))[order],
                       ids_of(there)[wanted])             # padding has no row
    assert torch.allclose(torch.from_numpy(rows["values"])[order],
                          theirs.table.weight[there][wanted], atol=1e-4)
    return ours
ours, _ = trained(None), trained(7)
for words, module, more in (
        ("mode async", ours, {"mode": "hybrid"}),
        ("one name", torch.nn.ModuleList([ours, Net(sluice.torch.Embedding("users", 4))]), {})):
    raises(ValueError, words, lambda: sluice.torch.Trainer(
        module, "refused", address, optimizer="sgd", **more))
print("as an Embedding of torch's")
"""

# The same of bags: of a table each, with and without offsets, weights and ids.
BAGS = RAISES + """
import sys, torch, sluice.torch
address = sys.argv[1]
torch.manual_seed(7)
numbers, y = torch.randint(0, 50, (3200, 3)), torch.randint(0, 4, (3200,))
numbers[:, 1] = numbers[:, 0]                       # an id stands twice in a bag
def ids_of(numbers):
    return torch.as_tensor(numbers) * -0x61c8864680b583eb  # any numbers of 64 bits
ids, pad = ids_of(numbers), int(ids_of(1))
assert pad < 0                                      # and is said without a sign below
counts, weights = torch.randint(0, 4, (3200,)), torch.rand(3200, 3) + 0.5

class Net(torch.nn.Module):
    def __init__(self, make):
        super().__init__()
        self.tables = torch.nn.ModuleDict({mode: make(mode) for mode in (
            "sum", "mean", "sqrtn")})
        torch.manual_seed(3)
        self.last = torch.nn.Linear(24, 4)
    def forward(self, x):
        ids, counts, weights = x
        there = torch.arange(3) < counts[:, None]   # some bags have no ids
        ragged, offsets = ids[there], counts.cumsum(0) - counts
        return self.last(torch.cat([
            self.tables["sum"](ids, per_sample_weights=weights),
            self.tables["mean"](ragged, offsets),
            self.tables["sqrtn"](ragged, offsets, weights[there])], 1))

class Roots(torch.nn.EmbeddingBag):
    def forward(self, ids, offsets, weights):
        weights = weights if self.padding_idx is None else weights * (ids != self.padding_idx)
        bag = (torch.arange(len(ids))[:, None] >= offsets).sum(1) - 1
        squares = torch.zeros(len(offsets)).index_add(0, bag, weights.square())
        return super().forward(ids, offsets, weights / squares[bag].clamp(min=1e-9).sqrt())

def loss_of(net, x, y):
    loss = torch.nn.functional.cross_entropy(net(x), y)
    for table in net.tables.values():
        for pulled, _ in getattr(table, "pulled", []):  # each distinct id once
            assert len(set(pulled.tolist())) == len(pulled), pulled
            assert table.padding_idx is None or pad not in pulled
    return loss

def trained(padding):
    seen, ours = [], Net(lambda mode: sluice.torch.EmbeddingBag(
        mode, 8, mode, None if padding is None else pad + (1 << 64), initializer="ones"))
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.1)
    with sluice.torch.Trainer(ours, f"bags-{padding}", address, train={"shuffle": False},
                              optimizer=optimizer) as t:
        for batch in t.batches(((ids, counts, weights), y), batch_size=16):
            seen.append(t.step(lambda: loss_of(ours, batch.x, batch.y)))
    theirs = Net(lambda mode: (Roots if mode == "sqrtn" else torch.nn.EmbeddingBag)(
        50, 8, mode="mean" if mode == "mean" else "sum", padding_idx=padding))
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    for table in theirs.tables.values():
        torch.nn.init.ones_(table.weight)
    for i in range(200):
        part = slice(16 * i, 16 * i + 16)
        optimizer.zero_grad()
        loss = loss_of(theirs, (numbers[part], counts[part], weights[part]), y[part])
        loss.backward()
        optimizer.step()
        assert abs(loss.item() - seen[i]) < 1e-4 * abs(loss.item()), (i, loss.item(), seen[i])
    assert len(seen) == 200
    assert all((table.weight - 1).abs().max() > 0.01 for table in theirs.tables.values())
    return ours
ours, _ = trained(None), trained(1)
for error, words, make in (
        (ValueError, "known are sum, mean, sqrtn",
         lambda: sluice.torch.EmbeddingBag("bag", 8, "max")),
        (ValueError, "64 bits", lambda: sluice.torch.Embedding("row", 8, 1 << 64)),
        (TypeError, "whole numbers", lambda: ours.tables["sum"](torch.rand(2, 3)))):
    raises(error, words, make)
print("as an EmbeddingBag of torch's")
"""

# A model of torch's own whose sparse modules become tables.
TURNED = RAISES + """
import sys, torch, sluice.torch
address = sys.argv[1]
torch.manual_seed(7)
x, y = torch.randint(0, 50, (1600, 3)), torch.randint(0, 4, (1600,))
E, B = torch.nn.Embedding, torch.nn.EmbeddingBag

class Net(torch.nn.Module):
    def __init__(self, **how):
        super().__init__()
        self.users = E(50, 8, padding_idx=-7, sparse=True, **how)
        self.inner = torch.nn.Sequential(B(50, 8, mode="sum", padding_idx=3, sparse=True, **how))
        torch.manual_seed(3)
        self.dense, self.last = E(50, 8), torch.nn.Linear(24, 4)
    def forward(self, x):
        return self.last(torch.cat([self.users(x).sum(1), self.inner(x),
                                    self.dense(x).sum(1)], 1))

def loss_of(net, x, y):
    return torch.nn.functional.cross_entropy(net(x), y)

ours, theirs, seen = Net(device="meta").eval(), Net(), []
assert sluice.torch.sparse(ours, init="constant(1)") is ours
assert not ours.users.training and ours.train().users.training
assert [n for n, _ in ours.named_parameters()] == [
    "dense.weight", "last.weight", "last.bias"], ours
assert [m.table for m in (ours.users, ours.inner[0])] == [
    {"name": name, "dim": 8, "init": "constant(1)"} for name in ("users", "inner.0")], ours
optimizer = torch.optim.SGD(ours.parameters(), lr=0.05)
with sluice.torch.Trainer(ours, "turned", address, train={"shuffle": False},
                          optimizer=optimizer) as t:
    for batch in t.batches((x, y), batch_size=16):
        seen.append(t.step(lambda: loss_of(ours, batch.x, batch.y)))
with torch.no_grad():
    for module, padding in ((theirs.users, 43), (theirs.inner[0], 3)):
        module.weight[:] = 1
        module.weight[padding] = 0
optimizer = torch.optim.SGD(theirs.parameters(), lr=0.05)
for i in range(100):
    part = slice(16 * i, 16 * i + 16)
    optimizer.zero_grad()
    loss = loss_of(theirs, x[part], y[part])
    loss.backward()
    optimizer.step()
    assert abs(loss.item() - seen[i]) < 1e-4 * abs(loss.item()), (i, loss.item(), seen[i])
assert len(seen) == 100

class Own(E):
    pass
def model(module, last=None):
    return torch.nn.ModuleDict({"good": E(5, 2, sparse=True), "bad": module, **(
        {} if last is None else {"last": last})})
tied = torch.nn.Linear(2, 5)
bad = E(5, 2, sparse=True)
bad.weight = tied.weight
for words, module, *last in (
        ("max_norm", E(5, 2, max_norm=1.0, sparse=True)),
        ("scale_grad_by_freq", E(5, 2, scale_grad_by_freq=True, sparse=True)),
        ("offsets[:-1]", B(5, 2, include_last_offset=True, sparse=True)),
        ("mode max", B(5, 2, mode="max", sparse=True)),
        ("frozen", E.from_pretrained(torch.ones(5, 2), sparse=True)),
        ("float64", E(5, 2, sparse=True, dtype=torch.float64)),
        ("class Own", Own(5, 2, sparse=True)),
        ("also last.weight", bad, tied)):
    whole = model(module, *last)
    try:
        sluice.torch.sparse(whole)
    except ValueError as error:
        assert "bad cannot be a table" in str(error) and words in str(error), error
    else:
        assert False, words
    assert type(whole["good"]) is E
for words, whole in (("no name", E(5, 2, sparse=True)), ("sparse=True", model(E(5, 2))["bad"])):
    raises(ValueError, words, lambda: sluice.torch.sparse(whole))
def tables(**said):
    turned = sluice.torch.sparse(model(E(5, 2)), **said)
    return sluice.torch.Trainer(turned, "t", address, optimizer="adam").tables
good = {"name": "good", "dim": 2}
assert tables() == [{**good, "initializer": "random_normal(0, 1)"}]
assert tables(initializer="ones") == [{**good, "initializer": "ones"}]
assert tables(init=0.01, optimizer="adagrad") == [
    {**good, "initializer": "random_uniform(-0.01, 0.01)", "optimizer": {"type": "adagrad"}}]
assert tables(init=0) == [{**good, "initializer": "zeros"}]
for said in ({"init": -1}, {"init": float("nan")}, {"init": 1, "initializer": "ones"}):
    raises(ValueError, "init: wants", lambda: tables(**said))
print("turned")
"""


KEPT = """
import sys, numpy, torch, sluice, sluice.torch
address = sys.argv[1]
E, B = torch.nn.Embedding, torch.nn.EmbeddingBag

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.users, self.films = E(50, 8, padding_idx=7, sparse=True), B(60, 4, sparse=True)
        self.last = torch.nn.Linear(12, 1)
    def forward(self, x):
        return self.last(torch.cat([self.users(x).sum(1), self.films(x)], 1))

ours, theirs = sluice.torch.sparse(Net(), keep_weights=True), Net()
x, rows = torch.randint(0, 50, (64, 3)), {}
with sluice.torch.Trainer(ours, "kept", address, optimizer=torch.optim.SGD(
        ours.parameters(), lr=0.05)) as t:
    for batch in t.batches((x, torch.zeros(64)), batch_size=16):
        if not rows:
            with torch.no_grad():
                rows = {"users": ours.users(torch.arange(51)),
                        "last": ours(x)}
        t.step(lambda: ours(batch.x).square().sum())
want = theirs.users.weight.detach()
assert torch.equal(rows["users"][:50], want), "rows of users"
assert not torch.equal(rows["users"][50], want[49]), "an id beyond the weight"
assert torch.allclose(rows["last"], theirs(x), atol=1e-6), "the model as it was"
learnt = sluice.export(t.id, address, table="films")
untouched = sorted(set(range(60)) - set(x.ravel().tolist()))
rows = dict(zip(learnt["ids"].tolist(), learnt["values"]))
assert sorted(rows) == list(range(60)) and untouched, sorted(rows)
for i in untouched:
    assert numpy.array_equal(rows[i], theirs.films.weight[i].detach().numpy()), i

def raises(words, rows):
    ours = torch.nn.Sequential(sluice.torch.Embedding("t", 2, rows=rows), torch.nn.Linear(2, 1))
    try:
        sluice.torch.Trainer(ours, "wrong", address, optimizer=torch.optim.SGD(
            ours.parameters(), lr=0.05))
    except ValueError as error:
        assert "table t: rows: " in str(error) and words in str(error), error
    else:
        assert False, words
ones = numpy.ones((2, 2))
raises("stands twice", ([1, 1], ones))
raises("not (3, 2)", ([1, 2, 3], ones))
raises("not finite", ([1, 2], ones * numpy.nan))
raises("whole numbers", ([1.0, 2.0], ones))
try:
    sluice.torch.sparse(torch.nn.Sequential(E(5, 2, sparse=True, device="meta")),
                        keep_weights=True)
except ValueError as error:
    assert "no values to keep" in str(error), error
print("kept")
"""


def tables_begin_with_the_weights_of_sparse_modules():
    with Cluster(psservers=2, workers=0) as c:
        said = run(KEPT, c.address)
        check("kept" in said, said)


def a_dlrm_learns_from_ids_without_a_vocabulary():
    with Cluster(psservers=2, workers=0) as c:
        said = train_and_die(c, "torch_dlrm.py", (10, 25), "--samples=60000")
    reached = [float(a) for a in re.findall(r"learned from: (\d\.\d+)", said)]
    check(reached and min(reached) > 0.8, "AUC", said)


def a_sparse_table_is_a_layer():
    with Cluster(psservers=2, workers=0) as c:
        said = run(TABLE, c.address, str(c.dir / "saved.safetensors"))
        check("as an Embedding of torch's" in said, said)


def a_sparse_table_is_a_layer_of_bags():
    with Cluster(psservers=2, workers=0) as c:
        said = run(BAGS, c.address)
        check("as an EmbeddingBag of torch's" in said, said)


def sparse_modules_of_a_model_become_tables():
    with Cluster(psservers=2, workers=0) as c:
        said = run(TURNED, c.address)
        check("turned" in said, said)


if __name__ == "__main__":
    main_with("torch", [
        torch_loader, a_sparse_table_is_a_layer, a_sparse_table_is_a_layer_of_bags,
        sparse_modules_of_a_model_become_tables,
        tables_begin_with_the_weights_of_sparse_modules, a_dlrm_learns_from_ids_without_a_vocabulary,
        optimizers_schedules_and_clipping_are_those_of_torch,
        accumulated_scaled_and_read_elsewhere_it_is_the_same_training,
        programs_of_torch_train_and_die, a_resnet_with_batch_norm_learns,
        a_gpt_learns_bytes_that_a_process_reads_ahead,
        processes_that_read_end_with_their_program,
        the_next_batch_is_read_while_the_gradient_travels,
        a_program_of_torch_leaves_in_order])
