#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a job may have a worker read: files below its --data-root, and what
they hold is told to nobody."""
import json
import os
import pathlib
import re
import socket
import struct

from cluster import LONG_LEASE, Cluster, check, check_counts, main, wait_for
from up_test import Up

CANARY = "canary-51c4e"
ROWS = "".join(f"{i % 7},{i % 5},{i % 2}\n" for i in range(640))


def csv_job(path, batch=8, **train):
    return {
        "name": "rows",
        "model": {"input_shape": [2], "layers": [{"type": "dense", "units": 2}]},
        "loss": "sparse_categorical_crossentropy",
        "optimizer": {"type": "sgd", "learning_rate": 0.01},
        "data": {"train": {"format": "csv", "x": str(path), "label_column": "2"}},
        "train": {"batch": batch, "epochs": 1, **train}}


def drawn_job():
    return {**csv_job(""), "data": {"train": {
        "format": "synthetic", "generator": "classes", "classes": 2, "samples": 64}}}


def tree(folder):
    """A root with a file, a secret beside it, and ways from one to the other."""
    root = folder / "data"
    (root / "in").mkdir(parents=True)
    (root / "in" / "rows.csv").write_text(ROWS)
    (root / "link.csv").symlink_to("in/rows.csv")
    (folder / "secret.csv").write_text(f"{CANARY},1,0\n" * 64)
    (root / "out.csv").symlink_to("../secret.csv")
    (root / "absolute.csv").symlink_to(folder / "secret.csv")
    (root / "up").symlink_to("..")
    (root / "magic").symlink_to("/proc/self/root")
    (root / "device.csv").symlink_to("/dev/zero")
    os.mkfifo(root / "fifo.csv")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(root / "socket.csv"))
    return root


def everything_said(c, job):
    """Status, list, and the logs of all daemons."""
    words = [c.run("-o", "json", "status", job).stdout, c.run("status", job).stdout,
             c.run("jobs").stdout]
    return "\n".join(words + [log.read_text() for log in c.dir.glob("*.log")])


def paths_that_lead_out_are_refused_by_name():
    with Cluster(psservers=1, workers=0) as c:
        root = tree(c.dir)
        c.roots = (str(root),)
        c.start("w-0")
        for name, words in [
                (c.dir / "secret.csv", ["--data-root"]),
                ("/etc/passwd", ["--data-root"]),
                ("/proc/self/environ", ["--data-root"]),
                (f"{root}-2/rows.csv", ["--data-root"]),
                (f"{root}/../secret.csv", ["..", "--data-root"]),
                (f"{root}/in/../in/rows.csv", [".."]),
                (root / "out.csv", ["link"]), (root / "absolute.csv", ["link"]),
                (root / "up" / "secret.csv", ["link"]),
                (root / "magic" / "etc" / "passwd", ["link"]),
                (root / "device.csv", ["link"]),
                (root / "fifo.csv", ["FIFO"]), (root / "socket.csv", ["socket"]),
                (root / "in", ["folder"]), (f"{root}/in/rows.csv/", ["--data-root"]),
                (root / "nowhere.csv", ["--data-root", str(root)])]:
            job = c.submit(csv_job(name))
            failed = c.wait_state(job, "failed", 30)
            for word in [str(name), *words]:
                check(word in failed["reason"], f"{name}: no '{word}' in",
                      failed["reason"])
            check(CANARY not in everything_said(c, job), f"{name}: the secret is told")
        for name in ("in/rows.csv", "link.csv"):
            check_counts(c.wait_state(c.submit(csv_job(root / name))))


def what_a_file_holds_is_told_to_nobody():
    with Cluster(psservers=1, workers=1) as c:
        for number, text in enumerate([
                f"1,2,0\n{CANARY},2,0\n", f"1,2,0\n1,2,{CANARY}\n",
                f"1,2,0\n1,2\n{CANARY}\n", f"{CANARY}\n", f'1,2,0\n1,"{CANARY},0\n',
                "1,2,0\n1,2,51.5\n"]):
            path = c.dir / f"rows-{number}.csv"
            path.write_text(text)
            job = c.submit(csv_job(path, batch=1))
            failed = c.wait_state(job, "failed", 30)
            check(path.name in failed["reason"], "the file is not named", failed["reason"])
            said = everything_said(c, job)
            check(CANARY not in said and "51.5" not in failed["reason"],
                  f"what {text!r} holds is told", failed["reason"])


def a_worker_without_a_root_leaves_files_to_others():
    with Cluster(psservers=1, workers=0, coordinator_args=LONG_LEASE) as c:
        root = tree(c.dir)
        c.roots = ()
        c.start("w-0")
        check_counts(c.wait_state(c.submit(drawn_job())))
        job = csv_job(root / "in" / "rows.csv", batch=1, steps_per_closure=8)
        failed = c.wait_state(c.submit(job), "failed", 30)
        for word in ("rows.csv", "without --data-root", "--data-root DIR"):
            check(word in failed["reason"], f"no '{word}' in", failed["reason"])
        c.roots = (str(root),)
        c.start("w-1")
        wait_for("both workers", lambda: len(
            [m for m in c.cluster_status()["members"] if m["role"] == "worker"]) == 2)
        done = c.wait_state(c.submit(job))
        check_counts(done)
        check(any("worker w-0 cannot read the data" in w and "--data-root" in w
                  for w in done["warnings"]), "nothing is said of w-0", done["warnings"])


def huge_npz(path):
    """A stored member of 4 TiB, all of it a hole: its checksum takes an hour."""
    size, name, most = 1 << 42, b"x.npy", 0xffffffff
    wide = struct.pack("<HHQQ", 1, 16, size, size)
    with open(path, "wb") as f:
        f.write(struct.pack("<4s5H3I2H", b"PK\3\4", 45, 0, 0, 0, 0, 0, most, most,
                            len(name), len(wide)) + name + wide)
        f.truncate(f.tell() + size)
        f.seek(0, os.SEEK_END)
        start = f.tell()
        f.write(struct.pack("<4s6H3I5H2I", b"PK\1\2", 45, 45, 0, 0, 0, 0, 0, most, most,
                            len(name), len(wide), 0, 0, 0, 0, 0) + name + wide)
        end = f.tell()
        f.write(struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, end - start, start))
        f.write(struct.pack("<4sIQI", b"PK\6\7", 0, end, 1))
        f.write(struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1, 1, end - start, most, 0))


def a_file_of_any_size_is_let_go_of_with_its_job():
    with Cluster(psservers=1, workers=1) as c:
        path = c.dir / "huge.npz"
        huge_npz(path)
        spec = csv_job("")
        spec["data"]["train"] = {"format": "npz", "x": str(path)}
        huge = c.submit(spec)
        io = pathlib.Path(f"/proc/{c.processes['w-0'].pid}/io")
        wait_for("the worker to read it", lambda: int(re.search(
            r"rchar: (\d+)", io.read_text())[1]) > 200 << 20)
        c.run("stop", huge)
        check_counts(c.wait_state(c.submit(drawn_job())))
        check(c.status(huge)["state"] == "stopped", "it is not stopped", c.status(huge))
        long = c.dir / "long.csv"
        with open(long, "wb") as f:
            f.write(b"1,2,0\n")
            f.truncate(10 << 40)
        failed = c.wait_state(c.submit(csv_job(long)), "failed", 30)
        check("line 2: is longer than 1 MiB" in failed["reason"], "not so", failed["reason"])


def up_hands_its_roots_to_its_workers():
    with Up(psservers=1, workers=1) as up:  # all that we may read
        words = (up.dir / "cluster" / "log" / "worker-0.log").read_text()
        check('"data_roots":1' in words, "no root by default", words)
        root = tree(up.dir)
        (root / "away.csv").symlink_to(root / "in" / "rows.csv")
        spec = up.dir / "job.yaml"
        for path in (root / "in" / "rows.csv", root / "away.csv"):
            spec.write_text(json.dumps(csv_job(path)))
            up.sluice("submit", spec, "--follow")
    with Up(psservers=1, workers=1, more=["--data-root", "/usr/lib",
                                          "--data-root", "/usr/share"]) as up:
        spec = up.dir / "job.yaml"
        spec.write_text(json.dumps(csv_job(up.dir / "secret.csv")))
        job = up.sluice("submit", spec, "--no-wait").strip()
        up.sluice("watch", job, want=1)
        reason = json.loads(up.sluice("-o", "json", "status", job))["reason"]
        check("/usr/lib, /usr/share" in reason and "secret.csv" in reason, "no root is named", reason)


if __name__ == "__main__":
    main([paths_that_lead_out_are_refused_by_name,
          what_a_file_holds_is_told_to_nobody,
          a_worker_without_a_root_leaves_files_to_others,
          a_file_of_any_size_is_let_go_of_with_its_job, up_hands_its_roots_to_its_workers])
