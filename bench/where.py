# SPDX-License-Identifier: Apache-2.0
"""bench/run --where: where the time of a step goes.

Two kinds of tables. Of a worker's compiled program, each operation by the clock
(bare_step --where). Of a real job, what each thread of each process used of its
core per step, from /proc, and how often it slept: since the worker has a core of
its own, what its threads leave of a step is what they waited.

Both are measured in turn, `--rounds` times; medians count.
"""
import os
import pathlib
import re
import statistics

from bed import ROOT
from rows.jobs import FashionJob

TICK_MS = 1e3 / os.sysconf("SC_CLK_TCK")
LEAST_MS = 0.0005  # threads that use less are not shown


# ---- one program

def program(bench, example, batch, *more):
    return bench.program(
        "bare_step", "--spec", ROOT / "examples" / f"{example}.yaml",
        "--batch", batch, "--rounds", 1, "--seconds", bench.seconds,
        "--cpu", bench.client_cpu, "--where", *bench.capped(), *more)


def middle(figures):
    return statistics.median(list(figures))


def operations(runs):
    """[(what, ms)] in the order in which they run, then what is not one."""
    rows = []
    for i, op in enumerate(runs[0]["ops"]):
        rows.append((f"`{op['layer']}` {op['pass']}: {op['op']}",
                     middle(run["ops"][i]["ms"] for run in runs)))
    rows.append(("input thread: reads and scales the next batch",
                 middle(run["read_ms"] for run in runs)))
    apply_ms = middle(run["apply_ms"] for run in runs)
    if apply_ms > LEAST_MS:
        rows.append(("Adam (in a job the psservers')", apply_ms))
    return rows


def program_table(title, runs):
    def first(key):
        return middle(run[key][0] for run in runs)
    floors = f"{first('bound_ms'):.2f} at the FMA peak"
    if "gemm_ms" in runs[0]:
        floors = (f"{first('gemm_ms'):.2f} by its products alone, oneDNN's "
                  f"sgemm; {floors}")
    return table(f"{title}, bare loop: {first('step_ms'):.2f} ms a step "
                 f"({floors})", operations(runs), first("step_ms"))


# ---- a job

def threads_of(pid):
    """{thread: (name, ticks of CPU, how often it slept)}"""
    found = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            stat = (task / "stat").read_text(encoding="ascii")
            status = (task / "status").read_text(encoding="ascii")
        except OSError:
            continue  # it has ended
        name, rest = re.match(r"\d+ \((.*)\) (.*)", stat).groups()
        user, system = rest.split()[11:13]
        slept = re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.M)
        found[task.name] = name, int(user) + int(system), int(slept.group(1))
    return found


def kind(process, thread):
    role = {"c": "coordinator", "p": "psservers", "w": "worker"}[process[0]]
    if thread in ("compute", "input"):
        return role, f"{thread} thread"
    return role, "I/O thread" if thread.startswith("io-") else "other threads"


def job(bench):
    """({(role, kind): (ms, sleeps) a step}, ms a step): the job of overhead64."""
    cpus = {"c": bench.server_cpu, "p": bench.server_cpu, "w": bench.client_cpu}
    used = {}
    with FashionJob(workers=1, cpus=cpus) as c:
        running = c.begin()
        first = c.steps(running)
        before = {n: threads_of(p.pid) for n, p in c.processes.items()}
        rate = c.steps_per_s(running, bench.window(4))
        after = {n: threads_of(p.pid) for n, p in c.processes.items()}
        steps = c.steps(running) - first
    for process, threads in after.items():
        for number, (name, ticks, slept) in threads.items():
            _, old_ticks, old_slept = before[process].get(number, (name, 0, 0))
            ms, sleeps = used.get(kind(process, name), (0, 0))
            used[kind(process, name)] = (
                ms + (ticks - old_ticks) * TICK_MS / steps,
                sleeps + (slept - old_slept) / steps)
    return used, 1e3 / rate


def job_table(title, runs, kernels_ms):
    def usual(key, i):
        return middle(used.get(key, (0, 0))[i] for used, _ in runs)
    step = middle(ms for _, ms in runs)
    keys = sorted({key for used, _ in runs for key in used},
                  key=lambda key: (key[0] != "worker", key))
    rows = [(f"{role}: {what}, sleeps {usual((role, what), 1):.1f} times",
             usual((role, what), 0)) for role, what in keys]
    rows = [row for row in rows if row[1] > LEAST_MS]
    idle = step - sum(usual(key, 0) for key in keys if key[0] == "worker")
    rows.append(("the worker's core: idle, it waits for an answer", idle))
    own = usual(("worker", "compute thread"), 0) - kernels_ms
    return table(
        f"{title}: {step:.2f} ms a step. The compute thread's operations take "
        f"{kernels_ms:.2f} ms in the bare loop, so copies, calls and answers "
        f"(and colder caches) {own:.2f}", rows, step)


# ---- all

def table(title, rows, step_ms):
    lines = [title + ":", "", "| what | ms | of a step |", "| --- | --- | --- |"]
    lines += [f"| {what} | {ms:.3f} | {100 * ms / step_ms:.1f} % |"
              for what, ms in rows]
    return "\n".join(lines)


def tables(bench):
    """Yields each as Markdown, as soon as it is measured."""
    net, jobs = [], []
    for i in range(bench.rounds):
        net.append(program(bench, "fashion-cnn", 64))
        jobs.append(job(bench))
        bench.note(f"round {i + 1} of {bench.rounds}: bare loop "
                   f"{net[-1]['step_ms'][0]:.2f} ms, job {jobs[-1][1]:.2f} ms")
    yield program_table("Fashion net, batch 64", net)
    yield job_table(
        "The same in a job, one worker on a core of its own, psservers and "
        "coordinator on the other", jobs,
        middle(sum(op["ms"] for op in run["ops"]) for run in net))
    yield program_table("MLP 784-128-10, batch 256", [
        program(bench, "fashion-mlp", 256, "--no-apply")
        for _ in range(bench.rounds)])
