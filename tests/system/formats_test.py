#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same samples from one file and from several, from TFRecord, tar and LIBSVM:
the same values to the last bit; what hostile files hold is told to nobody."""
import io
import struct
import tarfile

from cluster import Cluster, changed, check, check_counts, main
from images_test import COLOURS, folder_of, images_job
from roots_test import CANARY, csv_job, everything_said

ROWS = [(i % 7, i % 5, (i * i) % 2) for i in range(120)]


# ---- writers of our own: nothing here is shared with the readers

def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff)


def framed(record):
    length = struct.pack("<Q", len(record))
    return length + masked(length) + record + masked(record)


def field(number, data):
    head, n = bytes([number << 3 | 2]), len(data)
    while n > 127:
        head, n = head + bytes([n & 127 | 128]), n >> 7
    return head + bytes([n]) + data


def example(**features):
    """A framed tf.train.Example of bytes, floats and small integers."""
    def one(value):
        if isinstance(value, bytes):
            return field(1, field(1, value))
        if isinstance(value, int):
            return field(3, field(1, bytes([value])))
        return field(2, field(1, struct.pack(f"<{len(value)}f", *value)))
    return framed(field(1, b"".join(
        field(1, field(1, k.encode()) + field(2, one(v))) for k, v in features.items())))


def npy(values, shape):
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    return (b"\x93NUMPY\1\0" + struct.pack("<H", 118) + head.ljust(117).encode() + b"\n"
            + struct.pack(f"<{len(values)}f", *values))


def write_tar(path, members, form=tarfile.PAX_FORMAT):
    with tarfile.open(path, "w", format=form) as t:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))


def thirds(rows):
    return [rows[:10], rows[10:70], rows[70:]]


def write_rows(folder):
    """The rows in each format; the sources that name them."""
    def text(rows, order=(0, 1, 2)):
        return "".join(",".join(str(row[i]) for i in order) + "\n" for row in rows)
    (folder / "all.csv").write_text("a,b,y\n" + text(ROWS))
    for i, rows in enumerate(thirds(ROWS)):
        order = [(0, 1, 2), (2, 1, 0), (1, 2, 0)][i]
        names = ",".join("aby"[k] for k in order)
        (folder / f"part-{i}.csv").write_text(names + "\n" + text(rows, order))
        # Zeroes are left out, and classes are -1 and +1.
        (folder / f"l-{i}.svm").write_text("".join(
            f"{2 * y - 1:+d} {'1:%d ' % a if a else ''}{'2:%d' % b if b else ''} # {a}\n"
            for a, b, y in rows))
        x = [v for row in rows for v in row[:2]]
        (folder / f"x-{i}.npy").write_bytes(npy(x, (len(rows), 2)))
        (folder / f"y-{i}.npy").write_bytes(npy([row[2] for row in rows], (len(rows),)))
        (folder / f"r-{i:02}.tfrecord").write_bytes(b"".join(
            example(other=b"passed over", y=y + 1, x=(a, b)) for a, b, y in rows))
        write_tar(folder / f"w-{i}.tar", [
            member for k, (a, b, y) in enumerate(rows) for member in
            ((f"s/{k}.npy", npy((a, b), (2,))), (f"s/{k}.cls", f"{y}\n".encode()))])
    named = {"format": "csv", "header": True, "label_column": "y", "columns": ["a", "b"]}
    return [
        {**named, "x": f"{folder}/all.csv"}, {**named, "x": f"{folder}/part-*.csv"},
        {"format": "npy", "x": f"{folder}/x-{{0..2}}.npy", "y": f"{folder}/y-{{0..2}}.npy"},
        {"format": "tfrecord", "x": f"{folder}/r-{{00..02}}.tfrecord",
         "features": {"x": {"key": "x"}, "label": {"key": "y", "first": 1}}},
        {"format": "webdataset", "x": f"{folder}/w-*.tar", "features": {"x": {}}},
        {"format": "libsvm", "x": f"{folder}/l-*.svm"}]


def values_of(c, job):
    path = c.dir / f"{job}.safetensors"
    c.run("export", job, "--to", path)
    data = path.read_bytes()
    return data[8 + struct.unpack("<Q", data[:8])[0]:]


def all_the_same(c, jobs):
    first = None
    for spec in jobs:
        job = c.submit(spec)
        check_counts(c.wait_state(job))
        values = values_of(c, job)
        first = first or values
        check(values == first, f"other values from {spec['data']['train']}")


def the_same_samples_train_the_same_values_from_every_format():
    with Cluster(psservers=1, workers=1) as c:
        all_the_same(c, [{**csv_job("", epochs=2), "data": {"train": source}}
                         for source in write_rows(c.dir)])


def mixed(x):
    """The finalizer of splitmix64."""
    x = (x + 0x9e3779b97f4a7c15) % 2**64
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 % 2**64
    x = (x ^ x >> 27) * 0x94d049bb133111eb % 2**64
    return x ^ x >> 31


def a_share_that_is_held_out_is_evaluated_and_not_trained_with():
    """As if each part had been a file of its own: the same values and the same loss at the end."""
    held = [mixed(mixed(5 ^ 0x68656c64206f7574) ^ i) < int(0.25 * 2**64)
            for i in range(len(ROWS))]
    check(0 < sum(held) < len(ROWS) / 2, f"{sum(held)} samples are held out")
    with Cluster(psservers=1, workers=1,) as c:
        folder = c.dir / "data"
        folder.mkdir()
        for name, rows in (("all", ROWS),
                           ("train", [r for r, out in zip(ROWS, held) if not out]),
                           ("test", [r for r, out in zip(ROWS, held) if out])):
            (folder / f"{name}.csv").write_text("".join(f"{a},{b},{y}\n" for a, b, y in rows))
        told = []
        for data in ({"validation": 0.25, "train": "all"}, {"train": "train", "test": "test"}):
            spec = csv_job("", seed=5, epochs=3, shuffle=False)
            spec["data"] = {k: v if k == "validation" else {
                **spec["data"]["train"], "x": f"{folder}/{v}.csv"} for k, v in data.items()}
            job = c.submit(spec)
            done = c.wait_state(job)
            check_counts(done)
            told.append((values_of(c, job), done["evaluations"][-1]["loss"]))
        check(told[0][0] == told[1][0], "other values")
        check(told[0][1] == told[1][1], f"other losses: {told[0][1]}, {told[1][1]}")


def images_in_archives_and_records_are_those_of_a_folder():
    with Cluster(psservers=1, workers=1) as c:
        root = folder_of(c.dir / "train", 8, COLOURS)
        names = sorted(COLOURS)
        files = [(f"train/{k}/{p.name}", names.index(k), p.read_bytes())
                 for k in names for p in sorted((root / k).iterdir())]
        write_tar(c.dir / "i-0.tar", [(n, data) for n, _, data in files[:11]])
        write_tar(c.dir / "i-1.tar", [(n, data) for n, _, data in files[11:]],
                  tarfile.GNU_FORMAT)
        long = "n" * 150  # a name for which each form has its own way
        for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT):
            write_tar(c.dir / f"g-{form}.tar", [
                member for i, (_, y, data) in enumerate(files) for member in
                ((f"{long[:90]}/{long[:60]}{i}.png", data),
                 (f"{long[:90]}/{long[:60]}{i}.cls", b"%d" % y))], form)
        (c.dir / "i.tfrecord").write_bytes(b"".join(
            example(image=data, label=y) for _, y, data in files))
        spec = images_job(root, root)
        del spec["data"]["test"]
        spec.pop("evaluate", None)
        sources = [spec["data"]["train"], {"format": "tar", "x": f"{c.dir}/i-*.tar"},
                   *({"format": "webdataset", "x": f"{c.dir}/g-{form}.tar"}
                     for form in range(3)),
                   {"format": "tfrecord", "x": f"{c.dir}/i.tfrecord", "features": {
                       "image": {"key": "image", "decode": "png", "size": [16, 16]},
                       "label": {"key": "label"}}}]
        all_the_same(c, [{**spec, "data": {"train": {"scale": 1 / 255, **source}}}
                         for source in sources])


def counts_are_exact_over_several_files_when_a_worker_dies():
    with Cluster(psservers=1, workers=2) as c:
        source = write_rows(c.dir)[3]
        job = c.submit({**csv_job("", batch=2, epochs=60, steps_per_closure=4),
                        "data": {"train": source}})
        c.wait_steps(job, 200)
        c.restart("w-1")
        check_counts(c.wait_state(job))


def a_hostile_file_fails_its_job_and_is_told_to_nobody():
    canary = CANARY.encode()
    good = example(y=1, x=(1.0, 2.0))
    link = io.BytesIO()
    with tarfile.open(fileobj=link, mode="w") as t:
        info = tarfile.TarInfo(f"{CANARY}.npy")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        t.addfile(info)
    records = {"format": "tfrecord",
               "features": {"x": {"key": "x"}, "label": {"key": "y"}}}
    groups = {"format": "webdataset", "features": {"x": {}}}
    with Cluster(psservers=1, workers=1) as c:
        write_tar(c.dir / "label.tar", [("1.npy", npy((1, 2), (2,))), ("1.cls", canary)])
        for name, data, source in (
                ("bits", changed(good, {b"\x80\x3f": b"\x80\x3e"}) + canary * 3, records),
                ("crc", changed(good, {b"\x80\x3f": b"\x80\x3e"}), records),
                ("text", framed(canary), records), ("cut", good + good[:-1], records),
                ("long", struct.pack("<Q", 1 << 63) + masked(struct.pack("<Q", 1 << 63)),
                 records),
                ("link", link.getvalue(), groups), ("noise", canary * 100, groups),
                ("label", (c.dir / "label.tar").read_bytes(), groups),
                ("head", changed(tarfile.TarInfo(CANARY).tobuf(), {b"0": b"1"}), groups)):
            path = c.dir / f"{name}.file"
            path.write_bytes(data)
            job = c.submit({**csv_job("", batch=1),
                            "data": {"train": {**source, "x": str(path)}}})
            failed = c.wait_state(job, "failed", 30)
            check(path.name in failed["reason"], "the file is not named", failed["reason"])
            check(CANARY not in everything_said(c, job), f"what {name} holds is told",
                  failed["reason"])


if __name__ == "__main__":
    main([the_same_samples_train_the_same_values_from_every_format,
          a_share_that_is_held_out_is_evaluated_and_not_trained_with,
          images_in_archives_and_records_are_those_of_a_folder,
          counts_are_exact_over_several_files_when_a_worker_dies,
          a_hostile_file_fails_its_job_and_is_told_to_nobody])
