#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which parameters of a torch model are trained, and how: what torch leaves alone is
left alone here, to the numbers of torch over 200 steps."""
from cluster import LIMIT, Cluster, changed, check, check_counts, check_equal
from external_test import Programs
from frames import Forked, main_with, run, the_job

# Every kind of parameter in one model: used, used every other step, never used, with
# sparse gradients, frozen, tied. Small ones are copied at the end of a step, large
# ones (above 16,384 elements) leave while backward computes.
UNUSED = """
import sys, torch, sluice.torch
from torch.nn.functional import mse_loss
address, mode = sys.argv[1], eval(sys.argv[2])
torch.set_num_threads(1)
O = torch.optim
OPTIMIZERS = {
    "sgd": lambda p: O.SGD(p, lr=0.02, weight_decay=0.02),
    "momentum": lambda p: O.SGD(p, lr=0.01, momentum=0.9),
    "adam": lambda p: O.Adam(p, lr=0.01),
    "adamw": lambda p: O.AdamW(p, lr=0.01, weight_decay=0.1),
    "adagrad": lambda p: O.Adagrad(p, lr=0.02),
    "rmsprop": lambda p: O.RMSprop(p, lr=0.002, momentum=0.5),
}
SPARSE = ("momentum", "adagrad")  # torch has no others with sparse gradients here
class Net(torch.nn.Module):
    def __init__(self, rows, sparse):
        super().__init__()
        torch.manual_seed(3)
        self.never = torch.nn.Linear(6, 3)
        self.table = torch.nn.Embedding(rows, 6, sparse=sparse)
        self.frozen = torch.nn.Linear(6, 6).requires_grad_(False)
        self.sometimes = torch.nn.Linear(6, 6)
        self.one, self.two = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)
        self.two.weight = self.one.weight  # tied
        self.out = torch.nn.Linear(6, 1)
    def forward(self, x, k):
        h = self.frozen(self.table(x).mean(1))
        if k % 2 == 0:
            h = h + self.sometimes(h)
        return self.out(self.two(torch.tanh(self.one(h))))
torch.manual_seed(7)
x = torch.randint(0, 40, (1600, 5))
y = torch.randn(1600, 1)
def trained(kind, rows):
    make = lambda m: OPTIMIZERS[kind](p for p in m.parameters() if p.requires_grad)
    ours, theirs = (Net(rows, kind in SPARSE) for _ in range(2))
    seen, k = [], 0
    with sluice.torch.Trainer(ours, f"{kind}-{rows}", address, optimizer=make(ours),
                              train={"shuffle": False}, **mode) as t:
        for batch in t.batches((x, y), batch_size=8):
            k = int(batch.samples[0]) // 8
            seen.append(t.step(lambda: mse_loss(ours(batch.x, k), batch.y)))
        assert t.load()
    optimizer = make(theirs)
    for i in range(200):
        optimizer.zero_grad()
        loss = mse_loss(theirs(x[8 * i:8 * i + 8], i), y[8 * i:8 * i + 8])
        loss.backward()
        optimizer.step()
        assert abs(loss.item() - seen[i]) < 2e-4 * abs(loss.item()), (
            kind, rows, i, loss.item(), seen[i])
    assert len(seen) == 200
    first = dict(Net(rows, False).named_parameters())
    for (n, p), q in zip(ours.named_parameters(), theirs.parameters()):
        apart = (p - q).norm() / (1e-3 + q.norm())
        assert apart < 1e-5, (kind, rows, n, apart)
        if n.startswith(("never", "frozen")):
            assert torch.equal(p, first[n]), (kind, rows, n)
        else:
            assert not torch.equal(p, first[n]), (kind, rows, n)
    print(kind, rows, "as torch", flush=True)
for kind in OPTIMIZERS:
    for rows in (40, 3000):
        trained(kind, rows)
"""

# Two experts, and the batch decides which has a gradient: with none left over from the
# step before the numbers are whole.
STALE = """
import sys, torch, sluice.torch
m = torch.nn.ModuleList(torch.nn.Linear(4, 1, bias=False) for _ in range(2))
with torch.no_grad():
    for p in m.parameters():
        p.zero_()
k = 0
with sluice.torch.Trainer(m, "stale", sys.argv[1], train={"shuffle": False},
                          optimizer=torch.optim.SGD(m.parameters(), lr=1.0)) as t:
    for b in t.batches(torch.ones(80, 4), 8, 1):
        t.step(lambda: m[0](b.x).mean() + m[1](b.x).mean() if k == 0
               else -m[0](b.x).mean())
        k += 1
    t.load()
assert m[0].weight.tolist() == [[8.0] * 4], m[0].weight
assert m[1].weight.tolist() == [[-1.0] * 4], m[1].weight
"""

# The head's parameters alone go to the optimizer; groups with numbers of their own; an
# optimizer of another model.
GROUPS = """
import sys, torch, sluice.torch
from torch.nn.functional import mse_loss
address, mode = sys.argv[1], eval(sys.argv[2])
torch.set_num_threads(1)
O, L = torch.optim, torch.optim.lr_scheduler
def net(width):
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(6, width), torch.nn.LayerNorm(width),
                               torch.nn.Tanh(), torch.nn.Linear(width, 1))
def decayed(m):
    return ([p for p in m.parameters() if p.dim() > 1],
            [p for p in m.parameters() if p.dim() < 2])
def no_decay(m, make, **more):
    of, rest = decayed(m)
    return make([{"params": of}, {"params": rest, "weight_decay": 0.0, **more}])
OPTIMIZERS = {
    "head": lambda m: O.SGD(m[3].parameters(), lr=0.02, momentum=0.9),
    "adamw": lambda m: no_decay(m, lambda g: O.AdamW(g, lr=0.01, weight_decay=0.3)),
    "rates": lambda m: no_decay(m, lambda g: O.AdamW(g, lr=0.01, weight_decay=0.3),
                                lr=0.001, betas=(0.8, 0.9), eps=1e-3),
    "l2": lambda m: no_decay(m, lambda g: O.SGD(g, lr=0.02, weight_decay=0.1)),
    "momentum": lambda m: no_decay(m, lambda g: O.SGD(g, lr=0.02), momentum=0.9),
    "rmsprop": lambda m: no_decay(m, lambda g: O.RMSprop(g, lr=0.001, momentum=0.5,
                                                         centered=True), momentum=0.0),
}
SCHEDULERS = {"rates": lambda o: L.LambdaLR(o, lambda k: min(1.0, k / 50)),
              "adamw": lambda o: L.CosineAnnealingLR(o, 220)}
torch.manual_seed(7)
x, y = torch.randn(1600, 6), torch.randn(1600, 1)
def trained(kind, width):
    scheduled = SCHEDULERS.get(kind, lambda o: None)
    ours, theirs, first = (net(width) for _ in range(3))
    optimizer = OPTIMIZERS[kind](ours)
    with sluice.torch.Trainer(ours, f"{kind}-{width}", address, optimizer=optimizer,
                              scheduler=scheduled(optimizer), train={"shuffle": False},
                              **mode) as t:
        for batch in t.batches((x, y), batch_size=8):
            t.step(lambda: mse_loss(ours(batch.x) * (8 / width), batch.y))
        assert t.load()
    optimizer = OPTIMIZERS[kind](theirs)
    scheduler = scheduled(optimizer)
    for i in range(200):
        optimizer.zero_grad()
        mse_loss(theirs(x[8 * i:8 * i + 8]) * (8 / width),
                 y[8 * i:8 * i + 8]).backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
    for (n, p), q, r in zip(ours.named_parameters(), theirs.parameters(),
                            first.parameters()):
        assert (p - q).norm() / (1e-3 + q.norm()) < 2e-5, (kind, width, n)
        moved = kind != "head" or n.startswith("3")
        assert torch.equal(p, r) != moved, (kind, width, n)
    print(kind, width, "as torch", flush=True)
for kind in OPTIMIZERS:
    for width in (8,) if sys.argv[3:] else (8, 4000):
        trained(kind, width)
def refused(words, make, scheduler=lambda o: None):
    m = net(8)
    optimizer = make(m)
    try:
        sluice.torch.Trainer(m, "refused", address, optimizer=optimizer,
                             scheduler=scheduler(optimizer))
    except ValueError as error:
        assert words in str(error), (words, error)
    else:
        assert False, words
refused("are not the model's", lambda m: O.SGD(net(8).parameters(), lr=0.1))
refused("nothing would be trained", lambda m: O.SGD(
    m[0].requires_grad_(False).parameters(), lr=0.1))
refused("nesterov", lambda m: O.SGD([{"params": m[0].parameters()}, {
    "params": m[3].parameters(), "nesterov": True}], lr=0.1, momentum=0.9))
refused("multiples of each other", lambda m: no_decay(m, lambda g: O.Adam(g), lr=0.1),
        lambda o: L.CosineAnnealingLR(o, 100, eta_min=1e-4))
"""

# Two programs, which each compute every other batch: one never has a gradient of `odd`,
# both have none of `never`. As DistributedDataParallel, what one has counts over both.
TWO = """
import argparse, sys, torch, sluice.torch
from torch.nn.functional import mse_loss
parser = argparse.ArgumentParser()
for word in ("coordinator", "name"):
    parser.add_argument("--" + word, default=None)
o = parser.parse_args()
torch.set_num_threads(1)
torch.manual_seed(7)
x, y = torch.randn(3200, 6), torch.randn(3200, 1)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.all, self.odd = torch.nn.Linear(6, 1), torch.nn.Linear(6, 1)
        self.some, self.never = torch.nn.Linear(6, 1), torch.nn.Linear(6, 1)
    def forward(self, x, k):  # k: the number of the batch of 8
        h = self.all(x)
        if k % 2:
            h = h + self.odd(x)
        if k // 2 % 3 == 0:
            h = h + self.some(x)
        return h
ours, theirs = Net(), Net()
make = lambda m: torch.optim.AdamW(m.parameters(), lr=0.01, weight_decay=0.2)
with sluice.torch.Trainer(ours, "two", o.coordinator, name=o.name, optimizer=make(ours),
                          train={"shuffle": False}, ranks=2, **MODE) as t:
    for batch in t.batches((x, y), batch_size=8):
        k = int(batch.samples[0]) // 8
        t.step(lambda: mse_loss(ours(batch.x, k), batch.y))
    assert t.load()
optimizer = make(theirs)
for i in range(200):
    optimizer.zero_grad()
    for k in (2 * i, 2 * i + 1):
        (mse_loss(theirs(x[8 * k:8 * k + 8], k), y[8 * k:8 * k + 8]) / 2).backward()
    optimizer.step()
for (n, p), q in zip(ours.named_parameters(), theirs.parameters()):
    assert (p - q).norm() / (1e-3 + q.norm()) < 2e-5, (n, p, q)
print("two as one", flush=True)
"""


def torch_head_only():
    with Cluster(psservers=2, workers=0) as c:
        said = run(GROUPS, c.address, "{}")
        check(said.count("as torch") == 12, said)


def torch_unused_params_of_ranks():
    """A rank alone has the numbers of torch, too."""
    with Cluster(psservers=1, workers=0) as c:
        mode = repr({"mode": "allreduce", "ranks": 1, "store": str(c.dir / "store")})
        said = run(changed(UNUSED, {"(40, 3000)": "(40,)"}), c.address, mode)
        check(said.count("as torch") == 6, said)
        said = run(GROUPS, c.address, mode, "small")
        check(said.count("as torch") == 6, said)


def torch_unused_params_of_two():
    """One of two is killed; another takes its place, with a copy of the state."""
    for mode in ("allreduce", "hybrid"):
        with Cluster(psservers=1, workers=0) as c:
            words = {"mode": mode}
            if mode == "allreduce":
                words["store"] = str(c.dir / "store")
            program = c.dir / "two.py"
            program.write_text(changed(TWO, {"**MODE": f"**{words!r}"}))
            with Programs(lambda name: Forked(c, name, program)) as programs:
                job = the_job(c)
                c.wait_steps(job, 120)
                programs.replace()
                done = c.wait_state(job)
                for p in programs.running:
                    check_equal(p.process.wait(timeout=60 * LIMIT), 0, "exit of a program")
            check_counts(done)
            said = "".join(f.read_text() for f in c.dir.glob("program-*.log"))
            check("two as one" in said, said)


def torch_unused_params():
    with Cluster(psservers=2, workers=0) as c:
        said = run(UNUSED, c.address, "{}")
        print(said, flush=True)
        check(said.count("as torch") == 12, said)
        run(STALE, c.address)
        for job in c.json("jobs")["jobs"]:
            check_counts(c.json("status", job["id"]))


if __name__ == "__main__":
    main_with("torch", [torch_unused_params, torch_head_only,
                        torch_unused_params_of_ranks, torch_unused_params_of_two])
