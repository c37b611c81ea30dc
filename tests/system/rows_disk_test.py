#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rows that lie on disk: a job of short memory learns the bits of one that has enough
(T9), while psservers are killed; a delta and an export say the same; a disk that is full
fails the job alone."""
import pathlib
import tempfile

import numpy as np
from cluster import Cluster, check, check_counts, check_equal, main, wait_for
from external_test import exported
from scrape import OPS, address, metrics, value

SAMPLES, IDS = 4000, 3000
SPREAD = 0x9e3779b97f4a7c15
SHORT = ["--rows-memory", "900KiB"]  # all rows take 1,600


def clicks(path):
    """Samples of which each names an id of many, and one of few."""
    draw = np.random.default_rng(5)
    users, items = draw.integers(0, IDS, SAMPLES), draw.integers(0, 50, SAMPLES)
    lines = ["click,price,user,item"]
    for user, item, price in zip(users.tolist(), items.tolist(), draw.random(SAMPLES)):
        lines.append(f"{(user + item) % 2},{price:.6g},{user * SPREAD % 2**64},{item}")
    path.write_text("\n".join(lines) + "\n")


def disk_job(folder, epochs=14):
    """Rounds: its bits depend on no order of messages."""
    layer = {"type": "embedding", "rows": "dynamic", "buckets": 64}
    return {"name": "clicks",
            "model": {"input_shape": [1], "layers": [
                {**layer, "name": "users", "ids": "user", "output_dim": 120,
                 "optimizer": {"type": "rowwise_adagrad", "learning_rate": 0.2}},
                {**layer, "name": "items", "ids": "item", "output_dim": 4},
                {"type": "concatenate", "inputs": ["input", "users", "items"]},
                {"type": "dense", "name": "out", "units": 1, "activation": "sigmoid"}]},
            "loss": "binary_crossentropy",
            "optimizer": {"type": "sgd", "learning_rate": 0.1},
            "data": {"train": {"format": "csv", "x": str(folder / "clicks.csv"),
                               "header": True, "label_column": "click",
                               "columns": ["price"], "ids": ["user", "item"]}},
            "train": {"batch": 20, "epochs": epochs, "mode": "sync", "contributions": 2},
            "checkpoint": {"every_seconds": 1}}


def table(c, job, name):
    """The rows of a table, by id."""
    from safetensors.numpy import load_file
    out = c.dir / f"{name}.safetensors"
    c.run("export", job, "--table", name, "--to", out)
    kept = load_file(str(out))
    order = np.argsort(kept["ids"])
    return kept["ids"][order], kept["values"][order]


def on_disk(ps):
    return value(metrics(ps), "sluice_table_disk_rows")


def told(c, job):
    """What `sluice tables` tells of the tables, in the words of /metrics."""
    tables = [t["figures"] for t in c.json("tables", job)["tables"]]
    return {name: sum(int(t[name]) for t in tables) for name in (
        "rows", "bytes", "disk_rows", "disk_bytes", "found_memory", "found_disk", "to_disk")}


def measured(ps):
    seen = metrics(ps)
    return {"rows": value(seen, "sluice_table_rows", kind="rows"),
            "bytes": value(seen, "sluice_table_bytes"),
            "disk_rows": on_disk(ps), "disk_bytes": value(seen, "sluice_table_disk_bytes"),
            "found_memory": value(seen, "sluice_table_found_total", place="memory"),
            "found_disk": value(seen, "sluice_table_found_total", place="disk"),
            "to_disk": value(seen, "sluice_table_to_disk_total")}


def check_told(c, job, ps):
    """While nothing is trained the heartbeats come to say what /metrics does."""
    for name in ("w-0", "w-1"):
        c.kill(name)
    wait_for("the same of memory and disk", lambda: told(c, job) == measured(ps))
    check(told(c, job)["to_disk"] > told(c, job)["disk_rows"] > 0, told(c, job))
    shown = c.run("tables", job, "-o", "wide").stdout
    check("on disk" in shown and " KiB)" in shown and " %)" in shown, shown)
    for name in ("w-0", "w-1"):
        c.start(name)


def result(kills, *words):
    """What a job learns; with `kills` the psserver is killed three times. It is the only
    one: no shard falls back beside another."""
    with Cluster(psservers=1, workers=2, psserver_args=(*OPS, *words)) as c:
        clicks(c.dir / "clicks.csv")
        job = c.submit(disk_job(c.dir))
        for _ in range(3 if kills else 0):
            c.wait_steps(job, c.steps(job) + 60)
            c.restart("ps-0")
        if "--rows-dir" in words:
            ps = address(c, "ps-0")
            wait_for("rows on disk", lambda: on_disk(ps) > 200)
            wait_for("rows that come back", lambda: value(
                metrics(ps), "sluice_table_found_total", place="disk") > 200)
            check_told(c, job, ps)
        check_counts(c.wait_state(job))
        return [table(c, job, name) for name in ("users", "items")], exported(c, job)


def same(one, two, what):
    for (ids, values), (others, learned) in zip(one[0], two[0]):
        check_equal(ids.tolist(), others.tolist(), f"ids {what}")
        check(values.tobytes() == learned.tobytes(), f"rows {what} differ")
    for name, tensor in one[1].items():
        check(tensor.tobytes() == two[1][name].tobytes(), f"{name} {what} differs")


def rows_on_disk_learn_the_same_bits():
    plain = result(False)
    with tempfile.TemporaryDirectory(prefix="sluice-test-") as folder:
        for kills in (False, True):
            short = result(kills, *SHORT, "--rows-dir", folder)
            same(plain, short, "on disk" + (" with kills" if kills else ""))
        check_equal(list(pathlib.Path(folder).iterdir()), [], "files that stay")


def a_disk_without_room_fails_the_job_alone():
    with tempfile.TemporaryDirectory(prefix="sluice-test-") as folder, Cluster(
            psservers=1, workers=1,
            psserver_args=[*OPS, *SHORT, "--rows-dir", folder, "--rows-disk", "64KiB"]) as c:
        clicks(c.dir / "clicks.csv")
        failed = str(c.wait_state(c.submit(disk_job(c.dir)), "failed"))
        # An update needs memory for its rows, and a contribution that is held does.
        for words in (["psserver ps-0: "], ["table users: no room for another row",
                                            "rows of a round: no room for another row"],
                      ["of 64 KiB in "], ["--rows-disk"]):
            check(any(word in failed for word in words), failed)
        ps = address(c, "ps-0")
        wait_for("memory to be free", lambda: not any(
            taken for (name, _), taken in metrics(ps).items()
            if name == "sluice_table_tenant_bytes"))
        small = disk_job(c.dir)
        small["model"]["layers"][0]["output_dim"] = 1
        check_counts(c.wait_state(c.submit(small)))


if __name__ == "__main__":
    main([rows_on_disk_learn_the_same_bits, a_disk_without_room_fails_the_job_alone])
