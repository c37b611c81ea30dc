#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Layers whose rows lie in sparse tables, trained from a spec alone: processes are killed,
counts and sums are exact, an evaluation is that of NumPy over what was exported, and the
result is that of a dense embedding."""
import collections
import json

import numpy as np
from cluster import PATIENCE, Cluster, check, check_counts, check_equal, main
from external_test import exported

SAMPLES, TEST, USERS, TAGS = 512, 64, 37, 11
SPREAD = 0x9e3779b97f4a7c15  # ids are any numbers of 64 bits


def clicks(path, samples, seed, tags=TAGS):
    """Writes samples whose label their user and their tags, of which there may be none,
    make likely. Gives the columns."""
    draw = np.random.default_rng(seed)
    user = draw.integers(0, USERS, samples)
    tags = [draw.integers(0, tags, n).tolist() for n in draw.integers(0, 4, samples)]
    price = draw.random((samples, 2), np.float32)
    score = np.cos(user) + np.array([sum(np.sin(t) for t in bag) for bag in tags])
    click = (score > 0).astype(int)
    ids = [int(u) * SPREAD % 2**64 for u in user]
    lines = ["click,price,hour,user,tags"]
    for i in range(samples):
        bag = "|".join(map(str, tags[i]))
        lines.append(f"{click[i]},{price[i, 0]:.9g},{price[i, 1]:.9g},{ids[i]},{bag}")
    path.write_text("\n".join(lines) + "\n")
    return click, price, ids, tags


def source(path):
    return {"format": "csv", "x": str(path), "header": True, "label_column": "click",
            "columns": ["price", "hour"], "ids": ["user", "tags"]}


def clicks_job(folder, epochs, **train):
    return {"name": "clicks",
            "model": {"input_shape": [2], "layers": [
                {"type": "embedding", "name": "users", "ids": "user", "rows": "dynamic",
                 "output_dim": 4, "optimizer": {"type": "rowwise_adagrad",
                                                "learning_rate": 0.2}},
                {"type": "embedding", "name": "tags", "ids": "tags", "rows": "dynamic",
                 "output_dim": 3, "combiner": "mean", "embeddings_initializer": "ones",
                 "buckets": 64},
                {"type": "concatenate", "inputs": ["input", "users", "tags"]},
                {"type": "dense", "name": "hidden", "units": 8, "activation": "tanh"},
                {"type": "dense", "name": "out", "units": 1, "activation": "sigmoid"}]},
            "loss": "binary_crossentropy",
            "optimizer": {"type": "adagrad", "learning_rate": 0.1},
            "data": {"train": source(folder / "clicks.csv")},
            "train": {"batch": 16, "epochs": epochs, "steps_per_closure": 4, **train}}


def rows_of(c, job, table, *words):
    from safetensors.numpy import load_file
    out = c.dir / f"{table}.safetensors"
    c.run("export", job, "--table", table, "--to", out, *words)
    kept = load_file(str(out))
    return dict(zip(kept["ids"].tolist(), kept["values"].astype(np.float64)))


def score(tensors, users, tags, data):
    """Loss and accuracy of the model of clicks_job."""
    click, price, ids, bags = data
    empty = np.zeros(3)
    of_user = np.stack([users[i] for i in ids])
    of_tags = np.stack([np.mean([tags.get(t, np.ones(3)) for t in bag], axis=0)
                        if bag else empty for bag in bags])
    x = np.concatenate([price.astype(np.float64), of_user, of_tags], axis=1)
    hidden = np.tanh(x @ tensors["hidden/kernel"] + tensors["hidden/bias"])
    logit = (hidden @ tensors["out/kernel"] + tensors["out/bias"])[:, 0]
    loss = np.logaddexp(0, logit) - click * logit
    return loss.mean(), ((logit > 0) == click).mean()


def check_evaluation(c, job, told, test):
    """An evaluation is that of NumPy over what is exported of its cut, while pushes went
    on. Tags that only the test set has have no row."""
    from safetensors.numpy import load_file
    cut = ["--cut", str(told["cut"])]
    c.run("export", job, "--to", c.dir / "cut.safetensors", *cut)
    loss, right = score(load_file(str(c.dir / "cut.safetensors")),
                        rows_of(c, job, "users", *cut), rows_of(c, job, "tags", *cut), test)
    check(abs(float(told["loss"]) - loss) < 1e-5, f"{told}, but NumPy has {loss}")
    check(abs(float(told["accuracy"]) - right) < 1e-6, f"{told}, but NumPy has {right}")
    return loss


def a_job_of_layers_with_rows_trains_and_a_worker_is_killed():
    epochs = 60 if PATIENCE == 1 else 12
    with Cluster(psservers=2, workers=2) as c:
        train = clicks(c.dir / "clicks.csv", SAMPLES, 1)
        test = clicks(c.dir / "test.csv", TEST, 2, tags=TAGS + 2)
        spec = clicks_job(c.dir, epochs)
        spec["data"]["test"] = source(c.dir / "test.csv")
        spec["evaluate"] = {"every_epochs": 5}
        spec["checkpoint"] = {"every_epoch": True, "keep": epochs + 1}
        job = c.submit(spec)
        c.wait_steps(job, 100)
        c.kill("w-0")
        c.start("w-0", extra=["--device", "cpu,cpu"])
        done = c.wait_state(job)
        check_counts(done)
        check_equal(set(rows_of(c, job, "users")), set(train[2]), "users with a row")
        check_equal(set(rows_of(c, job, "tags")), {t for bag in train[3] for t in bag},
                    "tags with a row")
        losses = [check_evaluation(c, job, told, test) for told in done["evaluations"]]
        check(len(set(losses)) > 1, "all evaluations are of one cut", losses)
        loss, right = score(exported(c, job), rows_of(c, job, "users"), rows_of(c, job, "tags"),
                            train)
        check(loss < 0.4 and right > 0.8, f"loss {loss}, accuracy {right}: nothing is learnt")


def sums_job(folder, epochs):
    """The labels are so far away that each step's gradient of an output is -1/16. So a row
    is what its id was counted, divided by 16."""
    rows = {"type": "embedding", "rows": "dynamic", "output_dim": 1, "combiner": "sum",
            "embeddings_initializer": "zeros"}
    return {"name": "sums", "loss": "mean_absolute_error",
            "model": {"input_shape": [2], "layers": [
                {**rows, "name": "users", "ids": "user"},
                {**rows, "name": "tags", "ids": "tags"},
                {"type": "dense", "name": "out", "units": 1, "inputs": ["input"]},
                {"type": "add", "inputs": ["users", "tags", "out"]}]},
            "optimizer": {"type": "sgd", "learning_rate": 1},
            "data": {"train": source(folder / "clicks.csv")},
            "checkpoint": {"every_epoch": True},
            "train": {"batch": 16, "epochs": epochs, "steps_per_closure": 4}}


def each_sample_is_in_its_rows_once_whoever_dies():
    """Rows of the next step are asked for while a step computes: they are under way when a
    psserver stands still, and it is killed then, or the worker is."""
    epochs = 160 if PATIENCE == 1 else 24
    with Cluster(psservers=2, workers=2) as c:
        train = clicks(c.dir / "clicks.csv", SAMPLES, 1)
        text = (c.dir / "clicks.csv").read_text().splitlines()
        text[1:] = ["1000000" + line[1:] for line in text[1:]]
        (c.dir / "clicks.csv").write_text("\n".join(text) + "\n")
        job = c.submit(sums_job(c.dir, epochs))
        for i, victim in enumerate(("w-0", "ps-0", "w-1", "ps-1")):
            c.wait_steps(job, (i + 1) * epochs * SAMPLES // 16 // 6)
            still = f"ps-{i % 2}"
            c.pause(still)
            c.kill(victim)
            if victim != still:
                c.resume(still)
            c.start(victim)
        check_counts(c.wait_state(job))
        for table, bags in (("users", [[u] for u in train[2]]), ("tags", train[3])):
            want = collections.Counter(n for bag in bags for n in bag)
            rows = {n: float(v[0]) for n, v in rows_of(c, job, table).items()}
            check_equal(rows, {n: times * epochs / 16 for n, times in want.items()}, table)


def a_dense_embedding_learns_the_same(devices="cpu"):
    """A hundred steps of one worker, of ids 0 to 8: the table's rows and the variable's,
    and the layer behind both. The last step of an epoch has one sample. Rows that are pulled ahead lack one step: where the job bounds
    the delay they are not, and the result is the same but for rounding."""
    from safetensors.numpy import save_file
    draw = np.random.default_rng(3)
    number = draw.integers(0, 9, 81)
    label = np.sin(number) + draw.normal(0, 0.1, 81)
    weights = {"out/kernel": draw.normal(0, 0.5, (4, 1)).astype(np.float32),
               "out/bias": np.zeros(1, np.float32)}
    layers = {
        "dense": [{"type": "embedding", "name": "e", "input_dim": 9, "output_dim": 4,
                   "embeddings_initializer": "ones"}, {"type": "flatten"}],
        "rows": [{"type": "embedding", "name": "e", "ids": "id", "rows": "dynamic",
                  "output_dim": 4, "embeddings_initializer": "ones"}]}
    kinds = [("dense", layers["dense"], 0), ("rows", layers["rows"], 1e-4),
             ("ahead", layers["rows"], 0.02)]
    found = {}
    with Cluster(psservers=2, workers=1, worker_args=["--device", devices]) as c:
        lines = [f"{y:.9g},{n},{n}" for y, n in zip(label, number)]
        (c.dir / "d.csv").write_text("\n".join(["y,x,id", *lines]) + "\n")
        for kind, first, off in kinds:
            data = {"format": "csv", "x": str(c.dir / "d.csv"), "header": True, "label_column": "y",
                    "columns": ["x"]}
            if kind != "dense":
                data["ids"] = ["id"]
            start = dict(weights)
            if kind == "dense":
                start["e/embeddings"] = np.ones((9, 4), np.float32)
            save_file(start, str(c.dir / f"{kind}.safetensors"))
            job = c.submit({
                "name": kind, "loss": "mean_squared_error",
                "model": {"input_shape": [1], "layers": [
                    *first, {"type": "dense", "name": "out", "units": 1}]},
                "optimizer": {"type": "adagrad", "learning_rate": 0.05},
                "data": {"train": data},
                "train": {"batch": 8, "epochs": 10, "steps_per_closure": 100,
                          "max_delay": 0 if kind == "ahead" else 1}},
                "--weights", c.dir / f"{kind}.safetensors")
            c.wait_state(job)
            found[kind] = exported(c, job)
            if kind != "dense":
                rows = rows_of(c, job, "e")
                found[kind]["e/embeddings"] = np.stack([rows[i] for i in range(9)])
            for name, want in found["dense"].items():
                differs = np.abs(found[kind][name] - want).max()
                check(differs <= off, f"{kind}: {name} differs by {differs}")
    check(np.ptp(found["dense"]["e/embeddings"]) > 0.1, "nothing is learnt")


def several_devices_learn_the_same():
    a_dense_embedding_learns_the_same("cpu,cpu")


def sixteen_and_eight_bits_train():
    with Cluster(psservers=2, workers=1, worker_args=["--device", "cpu,cpu"]) as c:
        train = clicks(c.dir / "clicks.csv", SAMPLES, 1)
        for name, words in (("bf16", {"precision": "bf16"}),
                            ("f16", {"precision": "f16", "wire": "bf16"}),
                            ("int8", {"rows_wire": "int8"}),
                            ("int8-f16", {"wire": "f16", "rows_wire": "int8"}),
                            ("int8-rounds", {"rows_wire": "int8", "mode": "sync",
                                             "steps_per_closure": 1})):
            job = c.submit({**clicks_job(c.dir, 20, **words), "name": name})
            check_counts(c.wait_state(job))
            loss, _ = score(exported(c, job), rows_of(c, job, "users"),
                            rows_of(c, job, "tags"), train)
            check(loss < 0.4, f"{name}: loss {loss}: nothing is learnt")


def what_does_not_fit_is_refused():
    with Cluster(psservers=1, workers=0) as c:
        clicks(c.dir / "clicks.csv", 8, 1)
        spec = c.dir / "spec.json"
        for change, word in (
                (lambda s: s["model"]["layers"][0].update(ids="users"), "did you mean 'user'"),
                (lambda s: s["model"]["layers"][0].update(input_dim=3), "takes no 'input_dim'"),
                (lambda s: s["model"]["layers"][0].pop("ids"), "needs 'ids'"),
                (lambda s: s["train"].update(mode="allreduce"), "closure is one contribution"),
                (lambda s: s["train"].update(rows_wire="int"), "did you mean 'int8'")):
            made = clicks_job(c.dir, 1)
            change(made)
            spec.write_text(json.dumps(made))
            told = c.run("submit", spec, "--no-wait", want=2).stderr
            check(word in told, told)


if __name__ == "__main__":
    main([a_job_of_layers_with_rows_trains_and_a_worker_is_killed,
          each_sample_is_in_its_rows_once_whoever_dies,
          a_dense_embedding_learns_the_same,
          several_devices_learn_the_same,
          sixteen_and_eight_bits_train,
          what_does_not_fit_is_refused])
