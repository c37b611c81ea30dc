#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/wire.md alone is enough: the program that its blocks are agrees with its
vectors, and trains jobs that count once while its processes are killed."""
import re
import sys

from cluster import ROOT, Cluster, check, check_counts, check_equal, main
from external_test import Program, Programs, check_learnt, linear_job

PAGE = ROOT / "docs" / "wire.md"

# The rest of a program: a problem, and where to find the coordinator.
PROGRAM = """
import sys
sys.path.insert(0, {proto!r})
{page}
def sample(number):
    draw = random.Random(number)
    x = [draw.gauss(0, 1) for _ in range(4)]
    return x, 2 * x[0] - x[1] + 0.5 * x[2] + 3 * x[3] + 0.25 + draw.gauss(0, 0.01)

def mean_squared_error(parameters, samples):
    loss, gradient = 0.0, [0.0] * 5
    for x, y in map(sample, samples):
        error = sum(w * v for w, v in zip(parameters, x + [1.0])) - y
        loss += error * error
        for i, v in enumerate(x + [1.0]):
            gradient[i] += 2 * error * v / len(samples)
    return loss, gradient

if __name__ == "__main__":
    address, name = sys.argv[2], sys.argv[4]    # --coordinator A --name N
    worker = Worker(address, name, mean_squared_error)
    worker.work()
    print("the end:", worker.why)
"""


def blocks(kind):
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(encoding="utf-8"),
                      re.DOTALL)


def program(c):
    path = c.dir / "of_the_page.py"
    path.write_text(PROGRAM.format(proto=str(ROOT / "proto"),
                                   page="\n".join(blocks("python"))))
    return path


def the_page_agrees_with_its_vectors():
    sys.path.insert(0, str(ROOT / "proto"))
    page = {}
    exec(compile("\n".join(blocks("python")), str(PAGE), "exec"), page)  # noqa: S102

    class Geometry:
        def __init__(self, samples, batch, steps_per_closure):
            self.samples, self.batch = samples, batch
            self.steps_per_closure = steps_per_closure

    def order(seed, epoch, samples):
        return [page["order"](seed, epoch, samples)(p) for p in range(min(samples, 17))]

    def step(samples, batch, steps, closure, number):
        g = Geometry(samples, batch, steps)
        where = page["positions"](g, closure, number)
        return [page["epoch_of"](g, closure), where.start, len(where)]

    rules = {"mix64": lambda x: [page["mix64"](x)],
             "digest": lambda e, s: [page["digest"](e, [s])],
             "order": order, "step": step}
    lines = "".join(blocks("vectors")).splitlines()
    for line in lines:
        left, right = line.split(" = ")
        name, *words = left.split()
        want = [int(w, 0) for w in right.split()]
        got = rules[name](*(int(w, 0) for w in words))
        check_equal(got[:len(want)], want, left)
    check_equal({line.split()[0] for line in lines}, set(rules), "kinds of vectors")


def its_worker_trains_and_dies():
    spec = linear_job(epochs=8)
    spec["train"].pop("shuffle")  # in the order that the page defines
    with Cluster(psservers=2, workers=0) as c:
        path = program(c)
        with Programs(lambda name: Program(c, name, path)) as programs:
            job = c.submit(spec)
            for steps in (100, 200, 400):
                c.wait_steps(job, steps)
                programs.replace()
            c.restart("ps-1")
            done = c.wait_state(job)
        check_counts(done)
        check_learnt(c, job)
        check(int(done["closures_retried"]) > 0, "no closure was lost by the kills")


if __name__ == "__main__":
    main([the_page_agrees_with_its_vectors, its_worker_trains_and_dies])
