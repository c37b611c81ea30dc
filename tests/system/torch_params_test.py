#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which parameters of a torch model are trained, and how: what torch leaves alone is
left alone here, to the numbers of torch over 200 steps."""
from cluster import Cluster, check, check_counts
from frames import main_with, run

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


def torch_unused_params():
    with Cluster(psservers=2, workers=0) as c:
        said = run(UNUSED, c.address, "{}")
        print(said, flush=True)
        check(said.count("as torch") == 12, said)
        run(STALE, c.address)
        for job in c.json("jobs")["jobs"]:
            check_counts(c.json("status", job["id"]))


if __name__ == "__main__":
    main_with("torch", [torch_unused_params])
