#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bad input: one clear error that names the place, a non-zero exit, no daemon
goes down, and other jobs go on."""
import copy
import gzip
import json
import pathlib
import shutil

from cluster import (Cluster, FASHION, check, check_counts, main, mlp_job, shared)


def edited(**paths):
    """mlp_job with values put at dotted paths; None removes."""
    job = copy.deepcopy(mlp_job("bad", samples=320, epochs=1))
    for path, value in paths.items():
        at, *rest = path.split("__")
        node = job
        while rest:
            node = node[int(at) if at.isdigit() else at]
            at, *rest = rest
        at = int(at) if at.isdigit() else at
        if value is None:
            del node[at]
        else:
            node[at] = value
    return job


# spec -> words that the error must have; refused at submit, exit 2
REFUSED = [
    ("unknown key", edited(optimiser={"type": "adam"}),
     ["optimiser", "did you mean 'optimizer'"]),
    ("unknown nested key", edited(train__batchs=3), ["train", "batchs", "'batch'"]),
    ("unknown layer", edited(model__layers__1={"type": "dens", "units": 3}),
     ["dens", "did you mean 'dense'"]),
    ("field of another layer", edited(model__layers__0={"type": "flatten", "units": 3}),
     ["flatten", "units"]),
    ("window larger than the image",
     edited(model__layers__0={"type": "conv2d", "filters": 3, "kernel_size": 40}),
     ["conv2d", "28"]),
    ("unknown loss", edited(loss="cross"), ["loss", "cross"]),
    ("wrong type", edited(train__batch="many"), ["train.batch"]),
    ("zero batch", edited(train__batch=0), ["batch"]),
    ("huge epochs", edited(train__epochs=-1), ["epochs"]),
    ("rate is not a number", edited(optimizer__learning_rate=-1.0), ["learning_rate"]),
    ("field of another optimizer", edited(optimizer__rho=0.5), ["rho", "adam"]),
    ("no data", edited(data=None), ["data"]),
    ("bad name", edited(name="../x"), ["name"]),
]


def bad_specs_are_refused_with_words():
    with shared(psservers=1, workers=1) as c:
        good = c.submit(mlp_job("good", epochs=2000))
        c.wait_steps(good, 1)
        for what, job, words in REFUSED:
            path = c.dir / "bad.yaml"
            path.write_text(json.dumps(job))
            done = c.run("submit", path, "--no-wait", want=2)
            for word in words:
                check(word in done.stderr, f"{what}: no '{word}' in", done.stderr)
            check(len(done.stderr.strip().splitlines()) <= 3, f"{what}: not one error",
                  done.stderr)
        # Dense layers take each pixel by itself: what is wrong is seen with the labels.
        path.write_text(json.dumps(edited(model__layers__0=None)))
        done = c.run("submit", path, want=1)
        check("784 labels" in done.stderr and "flatten" in done.stderr, done.stderr)
        check(c.status(good)["state"] == "running", "the good job suffered")
        c.run("stop", good)


def broken_yaml_names_the_line():
    with shared(psservers=1, workers=1) as c:
        for text, words in [("name: a\n  b: [1,\n", [":2"]),
                            ("name: a\nname: b\n", ["name", ":2"]),
                            ("a: &x 1\nb: *x\n", [":1"]),
                            ("", ["empty"])]:
            path = c.dir / "broken.yaml"
            path.write_text(text)
            done = c.run("submit", path, "--no-wait", want=2)
            for word in words + ["broken.yaml"]:
                check(word in done.stderr, f"{text!r}: no '{word}' in", done.stderr)
        done = c.run("submit", c.dir / "missing.yaml", "--no-wait", want=3)
        check("missing.yaml" in done.stderr, "the missing file is not named", done.stderr)


def broken(folder, kind):
    """A copy of the training data with one thing wrong; gives job edits, words."""
    x, y = folder / "x.gz", folder / "y.gz"
    shutil.copy(FASHION / "t10k-images-idx3-ubyte.gz", x)
    shutil.copy(FASHION / "t10k-labels-idx1-ubyte.gz", y)
    raw = gzip.open(x).read()
    if kind == "truncated":
        (folder / "x").write_bytes(raw[:100000])
        x = folder / "x"
    elif kind == "wrong magic":
        (folder / "x").write_bytes(b"\1\2\3\4" + raw[4:])
        x = folder / "x"
    elif kind == "cut gzip":
        x.write_bytes(x.read_bytes()[:5000])
    elif kind == "labels of another count":
        y = FASHION / "train-labels-idx1-ubyte.gz"
    elif kind == "missing":
        x = folder / "not-there.gz"
    return {"data__train__x": str(x), "data__train__y": str(y),
            "data__train__limit": None}, pathlib.Path(x).name


def broken_data_fails_the_job_and_names_the_file():
    with shared(psservers=1, workers=1) as c:
        for kind in ("truncated", "wrong magic", "cut gzip", "missing",
                     "labels of another count"):
            edits, name = broken(c.dir, kind)
            job = c.submit(edited(**edits))
            failed = c.wait_state(job, "failed", 30)
            word = "60000" if kind.startswith("labels") else name
            check(word in failed["reason"], f"{kind}: no '{word}' in",
                  failed["reason"])
        job = c.submit(edited(model__input_shape=[28, 28, 3]))
        failed = c.wait_state(job, "failed", 30)
        check("28" in failed["reason"], "wrong shape", failed["reason"])
        job = c.submit(edited(model__layers__2={"type": "dense", "units": 4}))
        failed = c.wait_state(job, "failed", 30)
        check("label" in failed["reason"], "labels out of range", failed["reason"])
        check_counts(c.wait_state(c.submit(mlp_job("after", epochs=1))))


def unreadable_checkpoint_is_named():
    with shared(psservers=1, workers=1) as c:
        job = c.submit(mlp_job("damaged", epochs=1))
        c.wait_state(job)
        manifest = pathlib.Path(c.json("checkpoints", job)["checkpoints"][-1]["manifest"])
        shard = sorted(manifest.parent.glob("shard-*.safetensors"))[-1]
        data = bytearray(shard.read_bytes())
        data[len(data) // 2] ^= 1
        shard.write_bytes(data)
        done = c.run("export", "--from", manifest, "--to", c.dir / "damaged", want=1)
        check(shard.name in done.stderr, "the damaged file is not named", done.stderr)
        check(not (c.dir / "damaged").exists(), "a damaged export was left")
        done = c.run("export", "--from", c.dir / "nothing.json", "--to", c.dir / "x",
                     want=None)
        check(done.returncode and "nothing.json" in done.stderr, "missing manifest",
              done.stderr)


def unknown_jobs_verbs_and_flags():
    with shared(psservers=1, workers=1) as c:
        for words, want, word in [
                (["status", "j-99"], 3, "j-99"),
                (["statsu"], 2, "status"),
                (["submit", "x.yaml", "--folow"], 2, "--follow"),
                (["export"], 2, "export"),
                (["--timeout", "x", "jobs"], 2, "timeout")]:
            done = c.run(*words, want=want)
            check(word in done.stderr, f"{words}: no '{word}' in", done.stderr)


if __name__ == "__main__":
    main([bad_specs_are_refused_with_words, broken_yaml_names_the_line,
          broken_data_fails_the_job_and_names_the_file,
          unreadable_checkpoint_is_named, unknown_jobs_verbs_and_flags])
