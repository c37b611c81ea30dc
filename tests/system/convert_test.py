#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Data sets of other tools (Parquet, Arrow, Hugging Face, compressed CSV), written by
`sluice.data.convert` as files that workers read: what trains is the same to the last bit,
and what cannot be read is named by its file, row and column."""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
from cluster import ROOT, check, check_counts, check_equal, main, shared
from external_test import exported
from formats_test import all_the_same
from images_test import COLOURS, folder_of, images_job
from native_rows_test import clicks, clicks_job, rows_of
from rows_rounds_test import ROUNDS

sys.path.insert(0, str(ROOT / "python"))
from sluice.data import convert  # noqa: E402

SAMPLES = 512
ROWS = {"label": "click", "columns": ["price", "hour"], "ids": ["user", "tags"]}


def table_of(path):
    """The clicks of a csv that `clicks` writes, as a table."""
    click, price, ids, tags = clicks(path, SAMPLES, 1)
    return pa.table({
        "unread": pa.array(["x"] * SAMPLES), "click": pa.array(click),
        "price": pa.array(price[:, 0]), "hour": pa.array(price[:, 1].astype(np.float64)),
        "user": pa.array(np.array(ids, np.uint64)), "tags": pa.array(tags, pa.list_(pa.int32()))})


def hugging_face(folder, table):
    """What `datasets` writes to a disk: streams in several files, and a list of them."""
    folder.mkdir()
    half, names = SAMPLES // 2, ["data-00000-of-00002.arrow", "data-00001-of-00002.arrow"]
    for name, part in zip(names, (table[:half], table[half:])):
        with pa.ipc.new_stream(folder / name, table.schema) as out:
            out.write_table(part, 100)
    (folder / "state.json").write_text(json.dumps(
        {"_data_files": [{"filename": n} for n in names], "_indices_data_files": None}))
    return folder


def files_of_each_kind(folder, table):
    half = SAMPLES // 2
    for i, part in enumerate((table[:half], table[half:])):
        pa.parquet.write_table(part, folder / f"c-{i}.parquet", compression="zstd",
                               row_group_size=100)
    pa.feather.write_feather(table, folder / "c.feather")
    return {"parquet": f"{folder}/c-*.parquet", "feather": folder / "c.feather",
            "hf": hugging_face(folder / "hf", table), "batches": table.to_batches(77)}


def arrays_of(made):
    """What the shards of a set hold, put together."""
    files = sorted(pathlib.Path(made["x"]).parent.glob("part-*"))
    parts = [dict(np.load(f)) for f in files]
    return {name: np.concatenate([p[name] for p in parts]) for name in ("x", "y", "user", "tags")}


def what_is_converted_trains_as_the_csv_does():
    with shared(psservers=1, workers=1) as c:
        folder = c.dir / "convert"
        folder.mkdir()
        table = table_of(folder / "clicks.csv")
        sources, found = files_of_each_kind(folder, table), {}
        want = clicks_job(folder, 2, **ROUNDS)
        job = c.submit(want)
        check_counts(c.wait_state(job))
        for name, source in sources.items():
            made = convert(source, folder / f"to-{name}", rows=200, **ROWS)
            other = c.submit({**want, "data": {"train": made}})
            check_counts(c.wait_state(other))
            for tensor, values in exported(c, job).items():
                check((exported(c, other)[tensor] == values).all(), f"{name}: other {tensor}")
            for rows in ("users", "tags"):
                a, b = rows_of(c, job, rows), rows_of(c, other, rows)
                check_equal(set(b), set(a), f"{name}: rows of {rows}")
                check(all((a[i] == b[i]).all() for i in a), f"{name}: other {rows}")
            found[name] = arrays_of(made)
        for name, arrays in found.items():
            for key, values in found["parquet"].items():
                check((arrays[key] == values).all(), f"{name}: other {key}")


def command(*words, want=0):
    done = subprocess.run([sys.executable, "-m", "sluice.data", *map(str, words)],
                          capture_output=True, text=True, check=False, timeout=240,
                          cwd=ROOT / "python")
    check_equal(done.returncode, want, f"exit of {words}: {done.stderr}")
    return done


def compressed_csv_and_text_ids_are_those_that_workers_hash():
    """The ids of text are those of a csv with hash: xxh64, so a job may change over."""
    with shared(psservers=1, workers=1) as c:
        folder = c.dir / "text"
        folder.mkdir()
        words = [f"user {n % 23} ü" for n in range(SAMPLES)]
        plain = pa.table({"y": np.arange(SAMPLES) % 2, "a": np.arange(SAMPLES) / SAMPLES,
                          "name": words})
        with pa.CompressedOutputStream(str(folder / "t.csv.zst"), "zstd") as out:
            pa.csv.write_csv(plain, out)
        pa.csv.write_csv(plain, folder / "t.csv")
        said = command(folder / "t.csv.zst", folder / "npz", "--label", "y", "--columns", "a",
                       "--ids", "name").stdout
        spec = clicks_job(folder, 2, **ROUNDS)
        spec["model"] = {"input_shape": [1], "layers": [
            {"type": "embedding", "name": "users", "ids": "name", "rows": "dynamic",
             "output_dim": 4},
            {"type": "concatenate", "inputs": ["input", "users"]},
            {"type": "dense", "name": "out", "units": 1, "activation": "sigmoid"}]}
        jobs = []
        for train in (json.loads(said)["train"],
                      {"format": "csv", "x": str(folder / "t.csv"), "header": True,
                       "label_column": "y", "columns": ["a"],
                       "ids": [{"name": "name", "hash": "xxh64"}]}):
            jobs.append(c.submit({**spec, "data": {"train": train}}))
            check_counts(c.wait_state(jobs[-1]))
        a, b = (rows_of(c, job, "users") for job in jobs)
        check_equal(len(a), 23, "users")
        check(set(a) == set(b) and all((a[i] == b[i]).all() for i in a), "other rows by hash")


def images_of_a_table_train_as_the_folder_does():
    with shared(psservers=1, workers=1) as c:
        root = folder_of(c.dir / "pictures", 8, COLOURS)
        names = sorted(COLOURS)
        files = [(name, image.read_bytes()) for name in names
                 for image in sorted((root / name).iterdir())]
        table = pa.table({
            "image": pa.array([{"bytes": data, "path": None} for _, data in files]),
            "label": pa.array([name for name, _ in files]).dictionary_encode()})
        pa.parquet.write_table(table, c.dir / "pictures.parquet", row_group_size=5)
        made = convert(c.dir / "pictures.parquet", c.dir / "tars", label="label", image="image",
                       classes=names, rows=10)
        check(len(list((c.dir / "tars").iterdir())) > 1, "one archive")
        spec = images_job(root, root)
        del spec["data"]["test"]
        spec.pop("evaluate", None)
        all_the_same(c, [{**spec, "data": {"train": {"scale": 1 / 255, **source}}}
                         for source in (spec["data"]["train"], made)])


def refused(words, table, **options):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "t.parquet"
        pa.parquet.write_table(table, path)
        try:
            convert(path, f"{folder}/out", **options)
        except (ValueError, OSError) as error:
            for word in words:
                check(word in str(error), f"no {word!r} in: {error}")
            check(not list(pathlib.Path(folder).glob("out/*")), "a file was left")
            return
    check(False, f"taken, though {words}")


def what_cannot_be_read_is_named():
    good = {"y": [0, 1, 0], "a": [1.0, 2.0, 3.0], "n": ["p", "q", "r"]}

    def but(**columns):
        return pa.table({**good, **columns})
    plain = {"label": "y", "columns": ["a"]}
    refused(["no column 'b'", "y, a, n"], but(), label="y", columns=["b"])
    refused(["row 1", "'a'", "no value", "fill"], but(a=[1.0, None, 3.0]), **plain)
    refused(["row 2", "'a'", "not finite"], but(a=[1.0, 2.0, float("inf")]), **plain)
    refused(["'n'", "string", "ids"], but(), label="y", columns=["n"])
    refused(["row 1", "'n'", "'q'", "classes"], but(), label="n", columns=["a"],
            classes=["p", "r"])
    refused(["row 2", "'a'", "several lengths"], but(a=[[1.0], [2.0], [3.0, 4.0]]), **plain)
    refused(["row 0", "neither JPEG nor PNG"], but(n=[b"GIF89a"] * 3), label="y", image="n")
    refused(["'a'", "ids are whole numbers"], but(), label="y", ids=["a"])
    refused(["columns of features"], but(), label="y")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "t.parquet"
        pa.parquet.write_table(but(a=[1.0, None, 3.0]), path)
        out = f"{folder}/out"
        made = json.loads(command(path, out, "--label", "y", "--columns", "a", "--fill", -1).stdout)
        check_equal(np.load(f"{out}/part-00000.npz")["x"].ravel().tolist(), [1, -1, 3], "filled")
        check_equal(made["train"]["x"], f"{out}/part-*.npz", "the path")
        said = command(path, out, "--label", "y", "--columns", "a", "--fill", 0, want=1).stderr
        check("is there already" in said, "a second set in one folder", said)
        path.write_bytes(path.read_bytes()[:-9])
        said = command(path, f"{folder}/2", "--label", "y", "--columns", "a", want=1).stderr
        check(str(path) in said and "Traceback" not in said, "a damaged file", said)
        pathlib.Path(folder, "t.csv").write_text("y,a\n1,2\n")
        said = command(f"{folder}/t.csv", f"{folder}/2", "--label", "y", "--columns", "b",
                       want=1).stderr
        check("t.csv" in said and "b" in said and "Traceback" not in said, "no column", said)
        said = command(f"{folder}/*.txt", out, "--label", "y", "--columns", "a", want=1).stderr
        check("no such file" in said and "Traceback" not in said, "no file", said)


if __name__ == "__main__":
    main([what_is_converted_trains_as_the_csv_does,
          compressed_csv_and_text_ids_are_those_that_workers_hash,
          images_of_a_table_train_as_the_folder_does,
          what_cannot_be_read_is_named])
