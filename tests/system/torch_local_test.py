#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train.mode local in torch: the program's own optimizer takes the steps. One program
makes what a loop of DiLoCo makes in one process; programs die, and each sample counts
once."""
import re

from cluster import Cluster, check, check_equal
from frames import main_with, run, some_text, train_and_die

BEGIN = """
import sys, torch, sluice.torch
address = sys.argv[1]
torch.manual_seed(7)
BATCH, STEPS, SLOTS, EPOCHS, SAMPLES = 8, 5, 2, 2, 300
RATE, MOMENTUM = 0.6, 0.8
x, y = torch.randn(SAMPLES, 12), torch.randint(0, 4, (SAMPLES,))
def net():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(12, 24, bias=False), torch.nn.BatchNorm1d(24),
                               torch.nn.Tanh(), torch.nn.Linear(24, 4))
loss_fn = torch.nn.CrossEntropyLoss()
L = torch.optim.lr_scheduler
class Nudge(torch.optim.Optimizer):  # one that nobody else has
    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                old = self.state[p].setdefault("old", torch.zeros_like(p))
                old.mul_(0.5).add_(p.grad)
                p.sub_(group["lr"] * old / (1 + old.norm()))
OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.05),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05, initial_accumulator_value=0.1),
    "nudge": lambda p: Nudge(p, lr=0.05)}
SCHEDULERS = {
    "adamw": lambda o: L.LinearLR(o, 0.1, 1.0, 30),
    "adagrad": lambda o: L.LambdaLR(o, lambda n: 0.98 ** n)}
OUTER = {"type": "sgd", "learning_rate": RATE, "momentum": MOMENTUM, "nesterov": True}
"""

# Each round has two contributions, which begin with an optimizer without a past; the
# schedule counts the steps of one program which has a slot of each round.
SAME = BEGIN + """
def contribution(first, kind, now, number):
    model = net()
    model.load_state_dict(now)
    optimizer = OPTIMIZERS[kind](model.parameters())
    scheduler = SCHEDULERS.get(kind, lambda o: None)(optimizer)
    for _ in range(number if scheduler else 0):
        scheduler.step()
    end = min(first + BATCH * STEPS, SAMPLES)
    for at in range(first, end, BATCH):
        optimizer.zero_grad()
        loss_fn(model(x[at:min(at + BATCH, end)]), y[at:min(at + BATCH, end)]).backward()
        if kind == "adamw":
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        if scheduler:
            scheduler.step()
    return model.state_dict(), end - first
def diloco(kind):
    now, velocity, rounds = net().state_dict(), {}, 0
    for _ in range(EPOCHS):
        for first in range(0, SAMPLES, BATCH * STEPS * SLOTS):
            firsts = range(first, min(first + BATCH * STEPS * SLOTS, SAMPLES), BATCH * STEPS)
            after = [contribution(f, kind, now, rounds * STEPS) for f in firsts]
            rounds += 1
            count = sum(n for _, n in after)
            for name, old in list(now.items()):
                if not old.is_floating_point():
                    continue
                mean = sum(w[name].double() * (n / count) for w, n in after)
                if "running" in name:
                    now[name] = mean.float()
                    continue
                change = old.double() - mean
                velocity[name] = MOMENTUM * velocity.get(name, 0) - RATE * change
                now[name] = (old.double() + MOMENTUM * velocity[name] - RATE * change).float()
    return now
for kind, make in OPTIMIZERS.items():
    model = net()
    inner = make(model.parameters())
    scheduler = SCHEDULERS.get(kind, lambda o: None)(inner)
    with sluice.torch.Trainer(model, kind, address, mode="local", inner=inner,
                              scheduler=scheduler, every=STEPS, ranks=SLOTS,
                              clip_norm=0.5 if kind == "adamw" else 0.0,
                              train={"shuffle": False, "outer": OUTER}) as t:
        for batch in t.batches((x, y), BATCH, EPOCHS):
            t.step(lambda: loss_fn(model(batch.x), batch.y))
        t.load()
    want = diloco(kind)
    off = max(float((value - want[name]).abs().max()) for name, value in
              model.state_dict().items() if value.is_floating_point())
    moved = float((want["0.weight"] - net().state_dict()["0.weight"]).abs().max())
    print(kind, off, moved)
"""

# Ways to take a step that are the same training: micro-batches, a scaler, a step of the
# program's own, a process that reads ahead; the scheduler is a function.
WAYS = BEGIN + """
results = {}
for way in ("plain", "parts", "scaler", "own", "workers", "keep"):
    model = net()
    model[1].eval()  # micro-batches have statistics of their own
    inner = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0) if way == "scaler" else None
    with sluice.torch.Trainer(model, way, address, mode="local", every=STEPS, ranks=SLOTS,
                              inner=None if way == "own" else inner,
                              scheduler=None if way == "own" else lambda n: 0.1 / (1 + n),
                              moments="keep" if way == "keep" else None,
                              workers=1 if way == "workers" else 0,
                              train={"shuffle": False, "outer": OUTER}) as t:
        for batch in t.batches((x, y), BATCH):
            if way == "own":
                if batch.step == 0:  # its own reset
                    inner = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
                inner.param_groups[0]["lr"] = 0.1 / (1 + batch.number)
                inner.zero_grad()
                loss = loss_fn(model(batch.x), batch.y)
                loss.backward()
                inner.step()
                t.stepped(loss)
            elif way == "parts":
                t.step(lambda part: loss_fn(model(part.x), part.y), parts=batch.parts(3))
            else:
                t.step(lambda: loss_fn(model(batch.x), batch.y), scaler=scaler)
        t.load()
        assert t.metrics["samples"] == SAMPLES, t.metrics
    results[way] = torch.cat([p.detach().flatten() for p in model.parameters()])
for way, result in results.items():
    print(way, float((result - results["plain"]).abs().max()))
"""

REFUSED = """
import sys, torch, sluice.torch
def refused(words, **more):
    model = torch.nn.Linear(2, 2)
    more = {k: v(model) if callable(v) else v for k, v in more.items()}
    try:
        sluice.torch.Trainer(model, "refused", sys.argv[1], **more)
    except ValueError as error:
        assert words in str(error), (words, error)
    else:
        assert False, words
adam = lambda model: torch.optim.Adam(model.parameters())
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau
refused("say inner=", mode="local", optimizer=adam)
refused("inner: of mode 'local'", inner=adam)
refused("a dict says what psservers run", mode="local", inner={"type": "adam"})
refused("which is not said", mode="local", scheduler=1.0)
refused("ReduceLROnPlateau is not offered", mode="local", inner="adam",
        scheduler=lambda model: plateau(adam(model)))
model = torch.nn.Linear(2, 2)
with sluice.torch.Trainer(model, "step", sys.argv[1], mode="local", every=1) as t:
    for batch in t.batches((torch.ones(4, 2), torch.ones(4, 2)), 2):
        try:
            t.step(lambda: model(batch.x).mean())
        except ValueError as error:
            assert "say Trainer(inner=...)" in str(error), error
            t.stop()
            break
"""


def one_program_makes_what_one_process_does():
    with Cluster(psservers=2, workers=0) as c:
        said = run(SAME, c.address)
    for kind, off, moved in (line.split() for line in said.splitlines()):
        print(kind, off, moved)
        check(float(off) < 1e-5, f"{kind}: differs by {off}", said)
        check(float(moved) > 0.05, f"{kind}: nothing is learnt", said)
    check_equal(len(said.splitlines()), 3, "optimizers")


def each_way_to_step_is_the_same_training():
    with Cluster(psservers=2, workers=0) as c:
        said = dict(line.split() for line in run(WAYS, c.address).splitlines())
    for way in ("parts", "scaler", "own", "workers"):
        check(float(said[way]) < 1e-5, f"{way}: differs by {said[way]}")
    check(float(said["keep"]) > 1e-3, "moments were not kept", said)


def what_makes_no_sense_is_refused():
    with Cluster(psservers=1, workers=0) as c:
        run(REFUSED, c.address)


def programs_die_and_each_sample_counts_once():
    with Cluster(psservers=2, workers=0) as c:
        said = train_and_die(c, "torch_gpt_local.py", (3,), some_text(c, 20000), "--every=10")
        bits = [float(b) for b in re.findall(r"([\d.]+) bits a byte", said)]
        check(bits and max(bits) < 4.2, f"bits a byte: {bits}", said)


if __name__ == "__main__":
    main_with("torch", [one_program_makes_what_one_process_does,
                        each_way_to_step_is_the_same_training,
                        what_makes_no_sense_is_refused,
                        programs_die_and_each_sample_counts_once])
