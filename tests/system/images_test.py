#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images: the imagenette example, drawn, from a folder of files and from archives on
a web server; the U-Net example; batch normalization's moving statistics are counted
once, whoever dies."""
import json
import pathlib
import random
import shutil
import struct
import tarfile
import zlib

from cluster import ROOT, Cluster, check, check_counts, check_equal, main, shared
from recurrent_test import learnt
from training import Training
from web import Web, certificate

FILES = ROOT / "tests" / "unit" / "worker" / "images"
dice = random.Random(7)


def png(width, height, pixel):
    """A PNG of pixel(x, y) = (r, g, b)."""
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data
                + struct.pack(">I", zlib.crc32(kind + data)))
    rows = b"".join(
        b"\0" + bytes(c for x in range(width) for c in pixel(x, y))
        for y in range(height))
    return (b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def noisy(r, g, b):
    return lambda x, y: tuple(
        min(255, max(0, c + dice.randint(-60, 60))) for c in (r, g, b))


def folder_of(root, per_class, colours):
    """root/<class>/<n>.png in that class's colour, of many sizes."""
    for name, colour in colours.items():
        folder = root / name
        folder.mkdir(parents=True)
        for i in range(per_class):
            (folder / f"{i:03}.png").write_bytes(png(
                dice.randint(8, 40), dice.randint(8, 40), noisy(*colour)))
    return root


COLOURS = {"grass": (60, 150, 60), "sky": (80, 110, 200), "brick": (170, 80, 60)}


def images_job(train, test, classes=3, **more):
    def source(root):
        return {"format": "images", "x": str(root), "scale": 1 / 255}
    return {
        "name": "images",
        "model": {"input_shape": [16, 16, 3], "layers": [
            {"type": "conv2d", "filters": 8, "kernel_size": 3, "strides": 2,
             "activation": "relu"},
            {"type": "batch_normalization"},
            {"type": "global_average_pooling2d"},
            {"type": "dense", "units": classes}]},
        "loss": "sparse_categorical_crossentropy",
        "optimizer": {"type": "adam", "learning_rate": 0.01},
        "data": {"train": source(train), **({"test": source(test)} if test else {})},
        "train": {"batch": 8, "epochs": 8}, **more}


def the_imagenette_example_learns_without_files():
    small = {"model.input_shape": "[16, 16, 3]", "data.train.samples": 640,
             "data.test.samples": 160, "train.batch": 8, "train.epochs": 8}
    sets = [word for k, v in small.items() for word in ("--set", f"{k}={v}")]
    with Cluster(psservers=2, workers=2) as c:
        example = ROOT / "examples" / "imagenette.yaml"
        job = c.run("submit", example, "--no-wait", *sets).stdout.strip()
        done = c.wait_state(job)
        check_counts(done)
        accuracy = [e["accuracy"] for e in done["evaluations"]]
        check_equal(len(accuracy), 8, "evaluations")
        # With batches of 8 the moving statistics of one cut may be far off.
        check(max(accuracy) > 0.6, f"accuracy of 8 epochs: {accuracy}")


def a_folder_of_files_is_trained_on():
    with Cluster(psservers=1, workers=2, worker_args=["--input-threads", "3"]) as c:
        train = folder_of(c.dir / "train", 40, COLOURS)
        test = folder_of(c.dir / "val", 8, COLOURS)
        shutil.copy(FILES / "sampled.jpg", train / "grass" / "photo.JPEG")
        shutil.copy(FILES / "cmyk.jpg", train / "sky" / "print.jpg")
        (train / "sky" / "readme.txt").write_text("no image")
        done = c.wait_state(c.submit(images_job(
            train, test, evaluate={"every_epochs": 1})))
        check_counts(done)
        check_equal(int(done["samples_per_epoch"]), 3 * 40 + 2, "samples")
        accuracy = [e["accuracy"] for e in done["evaluations"]]
        check(accuracy[-1] > 0.9, f"accuracy: {accuracy}")
        lines = map(json.loads, c.log("w-0").splitlines())
        found = [x for x in lines if x["msg"] == "images found"]
        check(found and found[0]["images"] == 122 and found[0]["others"] == 1,
              "the worker did not say what it found and skipped", found)


def the_imagenette_example_reads_archives_over_https():
    """Ten classes, each of its colour; a worker reads the archives' bytes alone."""
    with Cluster(psservers=2, workers=0) as c:
        certificate(c.dir)
        with Web(c.dir / "web", c.dir) as web:
            place = f"{web.url}/imagenette"
            (c.dir / "web" / "imagenette").mkdir(parents=True)
            for name, images in (("train", 32), ("val", 6)):
                root = folder_of(c.dir / name, images, {
                    f"n{i:08}": (25 * i, 250 - 25 * i, 40 + 60 * (i % 4)) for i in range(10)})
                with tarfile.open(c.dir / "web" / "imagenette" / f"{name}.tar", "w") as tar:
                    tar.add(root, ".")
                shutil.rmtree(root)
            c.args["worker"] += ["--data-allow", place, "--cache", str(c.dir / "cache"),
                                 "--cache-bytes", "64MiB"]
            for name in ("w-0", "w-1"):
                c.start(name, environment={"SSL_CERT_FILE": str(c.dir / "cert")})
            sets = {"data.train.x": f"{place}/train.tar", "data.test.x": f"{place}/val.tar",
                    "train.batch": 16}
            job = c.run("submit", ROOT / "examples" / "imagenette-https.yaml", "--no-wait",
                        *(word for k, v in sets.items() for word in ("--set", f"{k}={v}")))
            done = c.wait_state(job.stdout.strip(), limit_s=240)
            check_counts(done)
            accuracy = [e["accuracy"] for e in done["evaluations"]]
            check(max(accuracy) > 0.6, f"accuracy of 5 epochs: {accuracy}")
            check({path for _, path, _ in web.asked} == {
                "/imagenette/train.tar", "/imagenette/val.tar"}, "what was asked for")


def the_shapes_example_tells_pixels_apart():
    with Cluster(psservers=2, workers=2) as c:
        accuracy = learnt(c, "shapes", "--set", "train.epochs=5")["accuracy"]
        # A net that sees what is bright, and not its form, has 0.93; it gets to 0.98.
        check(accuracy > 0.95, "accuracy", accuracy)


def broken_folders_fail_the_job_and_say_why():
    with shared(psservers=1, workers=1) as c:
        root = folder_of(c.dir / "good", 4, COLOURS)
        other = folder_of(c.dir / "other", 4, {
            "grass": (0, 0, 0), "sea": (0, 0, 0), "brick": (0, 0, 0)})
        broken = shutil.copytree(root, c.dir / "broken")
        (broken / "sky" / "002.png").write_bytes(
            (root / "sky" / "002.png").read_bytes()[:-20])
        (c.dir / "bare" / "class").mkdir(parents=True)
        for job, words in [
                (images_job(broken, None), ["sky/002.png", "broken PNG"]),
                (images_job(root, None, classes=5), ["3 classes", "5 outputs"]),
                (images_job(root, other), ["'sea'", "data.test", "data.train"]),
                (images_job(c.dir / "bare", None), ["bare", "no images"]),
                (images_job(c.dir / "nowhere", None), ["nowhere"])]:
            failed = c.wait_state(c.submit(job), "failed", 30)
            for word in words:
                check(word in failed["reason"], f"no '{word}' in", failed["reason"])
        check_counts(c.wait_state(c.submit(images_job(root, root))))


def which_folder_is_which_output_is_told():
    """In the status and in what is exported, after the coordinator's death too;
    a test set that lacks a class is counted with the classes of training."""
    with shared(psservers=1, workers=1) as c:
        train = folder_of(c.dir / "train", 20, COLOURS)
        test = folder_of(c.dir / "val", 6, {k: COLOURS[k] for k in ("grass", "sky")})
        plain = c.submit(images_job(train, test, evaluate={"every_epochs": 1}))
        job = images_job(train, test, name="named")
        job["data"]["classes"] = ["sky", "grass", "brick"]
        path = c.dir / "named.yaml"
        path.write_text(json.dumps(job))
        said = c.run("submit", path, "--dry-run").stdout
        check("outputs: 0 sky, 1 grass, 2 brick" in said, said)
        named = c.submit(job)
        done = c.wait_state(plain)
        check_counts(done)
        check(done["evaluations"][-1]["accuracy"] > 0.9,
              "the classes of the test set are others", done["evaluations"])
        check_counts(c.wait_state(named))
        c.restart("coordinator")
        for one, want in ((plain, ["brick", "grass", "sky"]),
                          (named, ["sky", "grass", "brick"])):
            check_equal(c.json("status", one)["spec"]["data"]["classes"], want, "status")
            file = c.dir / f"{one}.safetensors"
            c.run("export", one, "--to", file)
            head = file.read_bytes()
            head = json.loads(head[8:8 + struct.unpack("<Q", head[:8])[0]])
            check_equal(json.loads(head["__metadata__"]["sluice.classes"]), want,
                        "metadata of the export")
        job["data"]["classes"] = ["sky", "grass", "grass"]
        twice = c.dir / "twice.yaml"
        twice.write_text(json.dumps(job))
        refused = c.run("submit", twice, "--dry-run", want=None)
        check("'grass' stands there twice" in refused.stderr, refused.stderr)


def with_broken(folder, names):
    """A folder of images in which these are cut short."""
    root = folder_of(folder, 20, COLOURS)
    for name in names:
        (root / name).write_bytes((root / name).read_bytes()[:-30])
    return root


BROKEN = ["grass/003.png", "sky/011.png"]


def passes_over(**train):
    ring = train.get("mode") == "allreduce"
    c = Cluster(psservers=0 if ring else 2, workers=2)
    if ring:
        c.args["worker"] += ["--store", str(c.dir / "store")]
    with c:
        root = with_broken(c.dir / "train", BROKEN)
        test = with_broken(c.dir / "val", ["brick/000.png"])
        job = images_job(root, test, evaluate={"every_epochs": 1})
        job["train"].update(epochs=4, batch=4, **train)
        job["data"]["skip_bad"] = 3
        id_ = c.submit(job)
        done = c.wait_state(id_)
        check_counts(done)  # with the digest of all 60, the broken ones too
        check_equal(int(done["samples_per_epoch"]), 60, "samples")
        check_equal(done["bad_samples"], 3, "samples that were passed over")
        said = " ".join(done["warnings"])
        for name in [f"train/{n}" for n in BROKEN] + ["val/brick/000.png"]:
            check(any(b.startswith(f"{name}: broken PNG") for b in done["bad_names"]),
                  f"{name} is not named", done["bad_names"])
            check(name in said, f"no warning of {name}", done["warnings"])
        check(done["evaluations"] and done["evaluations"][-1]["epoch"] == 4, "evaluations")
        check(all(not e.get("failed") and int(e["samples"]) == 60
                  for e in done["evaluations"]), "an evaluation", done["evaluations"])
        # The same is told by the summary, of a job that has ended.
        path = c.dir / "summary.json"
        c.run("watch", id_, "--summary", path)
        summary = json.loads(path.read_text())
        check_equal(summary["bad_samples"], 3, "of the summary")
        check_equal(sorted(summary["bad_names"]), sorted(done["bad_names"]), "names")


def broken_images_are_passed_over_and_named():
    passes_over(steps_per_closure=2)


def broken_images_are_passed_over_in_rounds():
    passes_over(mode="sync", contributions=2)


def broken_images_are_passed_over_in_a_ring():
    passes_over(mode="allreduce", contributions=2)


def one_broken_image_too_many_fails_the_job_and_names_all():
    for train in ({"steps_per_closure": 2}, {"mode": "sync", "contributions": 2}):
        with Cluster(psservers=1, workers=2) as c:
            root = with_broken(c.dir / "train", BROKEN)
            job = images_job(root, None)
            job["train"].update(batch=4, **train)
            job["data"]["skip_bad"] = 1
            failed = c.wait_state(c.submit(job), "failed", 60)
            for word in [*BROKEN, "2 samples cannot be read", "data.skip_bad is 1"]:
                check(word in failed["reason"], f"no '{word}' in", failed["reason"])


def moving_statistics_are_counted_once():
    """Every image is of one colour, so a batch's variance is 0 and its mean the
    colour: the moving variance is momentum to the power of the steps that were
    counted, whatever their order. One step more or less would be 2e-3 of it."""
    from safetensors.numpy import load_file
    momentum, colour, epochs = 0.998, (50, 100, 200), 80
    with Cluster(psservers=2, workers=2) as c:
        for name in ("a", "b"):
            (c.dir / "x" / name).mkdir(parents=True)
            for i in range(40):
                (c.dir / "x" / name / f"{i}.png").write_bytes(
                    png(5, 3, lambda x, y: colour))
        job = images_job(c.dir / "x", None, classes=2,
                         checkpoint={"every_seconds": 1})
        job["model"]["layers"][:2] = [
            {"type": "batch_normalization", "name": "bn", "momentum": momentum},
            {"type": "conv2d", "filters": 16, "kernel_size": 5}]
        job["model"]["input_shape"] = [48, 48, 3]
        job["train"] = {"batch": 8, "epochs": epochs, "steps_per_closure": 10}
        jobs = Training(c, job, dice, 20, 60)
        for victim in ("w-0", "ps-0", "w-1", "ps-1"):
            jobs.some_steps_on()
            c.kill(victim)
            c.start(victim)
        jobs.end()
        for done in jobs.done:
            steps = int(done["steps_asked"])
            check_equal(steps, 10 * epochs, "steps")
            out = pathlib.Path(c.dir) / "out.safetensors"
            c.run("export", done["id"], "--to", out)
            left = momentum ** steps
            values = load_file(out)
            for got, want in zip(values["bn/moving_mean"], colour):
                check(abs(got - (1 - left) * want / 255) < 2e-4,
                      f"moving mean {got}, not {(1 - left) * want / 255}")
            for got in values["bn/moving_variance"]:
                check(abs(got / left - 1) < 5e-4, f"moving variance {got}, not {left}")


if __name__ == "__main__":
    main([the_imagenette_example_learns_without_files,
          the_imagenette_example_reads_archives_over_https,
          the_shapes_example_tells_pixels_apart,
          a_folder_of_files_is_trained_on,
          broken_folders_fail_the_job_and_say_why,
          which_folder_is_which_output_is_told,
          broken_images_are_passed_over_and_named,
          broken_images_are_passed_over_in_rounds,
          broken_images_are_passed_over_in_a_ring,
          one_broken_image_too_many_fails_the_job_and_names_all,
          moving_statistics_are_counted_once])
