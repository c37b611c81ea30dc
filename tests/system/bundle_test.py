#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The archive of `--target gpu-bundle` runs from another folder, with nothing of
this host but glibc; and bench/gpu, run from it, does what it says, as far as
that shows without a GPU."""
import atexit
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from cluster import BIN, ROOT, check, check_equal, main, wait_for

NAME = "sluice-gpu-bundle"
SKIPPED = 77


@functools.cache
def archive():
    """The bundle of this build, made once."""
    room = pathlib.Path(tempfile.mkdtemp(prefix="sluice-bundle-"))
    atexit.register(shutil.rmtree, room, ignore_errors=True)
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / "bundle.py", "--build", BIN.parent,
         "--out", room], capture_output=True, text=True, check=False)
    check_equal(done.returncode, 0, done.stderr)
    shutil.rmtree(room / NAME)  # so that nothing is taken from there
    return room / f"{NAME}.tar.gz"


class Unpacked:
    """The bundle in a folder where it was not made."""

    def __init__(self):
        self.room = pathlib.Path(tempfile.mkdtemp(prefix="sluice-bundle-"))
        self.folder = self.room / "else where" / NAME

    def __enter__(self):
        (self.room / "else where").mkdir()
        subprocess.run(["tar", "-xzf", archive(), "-C",
                        self.room / "else where"], check=True)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.room, ignore_errors=True)

    def run(self, *line, want=0, path=None):
        """With an empty environment, but for what is said."""
        environment = {"PATH": path} if path else {}
        done = subprocess.run([str(w) for w in line], env=environment,
                              capture_output=True, text=True, check=False,
                              timeout=240, cwd=self.room,
                              stdin=subprocess.DEVNULL)
        check_equal(done.returncode, want, f"{line}: {done.stdout}{done.stderr}")
        return done

    def program(self, name):
        return self.folder / "bin" / name


def libraries_come_from_the_bundle():
    with Unpacked() as b:
        for path in sorted((b.folder / "bin").iterdir()):
            said = b.run("/usr/bin/ldd", path).stdout
            for name, where in re.findall(r"(\S+) => (.*) \(0x", said):
                where = pathlib.Path(where).resolve()
                glibc = re.match(r"(ld-linux|lib(c|m|dl|rt|pthread|resolv)\.so)", name)
                check(glibc or b.folder.resolve() in where.parents,
                      f"{path.name} takes {name} from {where}")
            said = b.run("/usr/bin/readelf", "-d", path).stdout
            for folders in re.findall(r"R(?:UN)?PATH.*\[(.*)\]", said):
                check("" not in folders.split(":"),
                      f"{path.name} looks into the current folder")
        module = b.folder / "lib/sluice/kernels/sluice-kernels-cuda.so"
        check(module.exists(), "the bundle has no CUDA module")


def programs_run_with_an_empty_environment():
    with Unpacked() as b:
        said = b.run(b.program("worker"), "--list-devices").stdout
        for device in ("cuda", "cpu", "ref"):
            check(device in said, f"no {device} in: {said}")
        said = b.run(b.program("kernels-conformance"), "--backend", "ref",
                     "--mode", "eval").stdout
        check(" 0 failures" in said, said)
        for spec in sorted(b.folder.rglob("*.yaml")):
            b.run(b.program("sluice"), "validate", spec, "--set",
                  "train.precision=bf16")


def a_job_trains_from_it():
    with Unpacked() as b:
        cluster = b.room / "cluster"
        with open(b.room / "up.log", "wb") as log:
            up = subprocess.Popen(
                [str(b.program("sluice")), "up", "--psservers", "2", "--workers",
                 "1", "--threads", "1", "--device", "cpu", "--dir",
                 str(cluster), "--listen", "127.0.0.1:0"], env={}, stdout=log,
                stderr=log, stdin=subprocess.DEVNULL, cwd=b.room)
        try:
            address = cluster / "address"
            wait_for("the cluster", lambda: up.poll() is None and
                     address.exists() and address.read_text())
            summary = b.room / "summary.json"
            sluice = [b.program("sluice"), "--coordinator",
                      address.read_text().strip()]
            job = b.run(*sluice, "submit",
                        b.folder / "examples" / "fashion-mlp.yaml", "--set",
                        "train.epochs=1", "--set", "data.train.limit=6400",
                        "--no-wait").stdout.strip()
            b.run(*sluice, "watch", job, "--summary", summary)
            told = json.loads(summary.read_text())
            check(told["once"] and told["cover"], f"not all counted: {told}")
        finally:
            up.send_signal(signal.SIGTERM)
            up.wait(timeout=60)


def without_a_gpu_it_says_so():
    with Unpacked() as b:
        done = b.run("/usr/bin/python3", b.folder / "bench" / "gpu", "conform",
                     want=SKIPPED, path=os.defpath)
        check_equal(len(done.stderr.splitlines()), 1, done.stderr)
        check("no GPU here" in done.stderr, done.stderr)
        check_equal(done.stdout, "", "on stdout")
        check(not list(b.room.rglob("gpu-*.json")), "a result without a GPU")


def emulated(b):
    """Programs that compute on an emulated GPU, by the names in the bundle."""
    folder = b.room / "emulated"
    folder.mkdir()
    for name, real in (("kernels-conformance", "kernels-conformance-whole"),
                       ("bench.gpu_step", "emul.gpu_step")):
        if not (BIN / real).exists():
            return None
        (folder / name).symlink_to(BIN / real)
    return folder


def measured(b, folder, *words, want):
    out = b.room / f"out-{time.monotonic_ns()}.json"
    done = b.run("/usr/bin/python3", b.folder / "bench" / "gpu", "--emulated",
                 folder, "--json", out, *words, want=want, path=os.defpath)
    found = json.loads(out.read_text())
    check(found["emulated"], "emulated figures are not marked")
    check("this is no result" in done.stdout, done.stdout)
    return out, {r["name"]: r for r in found["rows"]}


def bench_gpu_judges_what_it_measures():
    with Unpacked() as b:
        folder = emulated(b)
        if folder is None:
            print("skipped: this build has no emulated GPU")
            return
        out, rows = measured(b, folder, "--only", "tf32", "conform", want=0)
        check_equal(set(rows), {"eval tf32", "det tf32"}, "rows")
        check(all(r["holds"] and r["ours"] == 0 and r["cases"] > 100
                  for r in rows.values()), f"{rows}")
        # No emulated step is as fast as a GPU's: the bar is not reached.
        _, rows = measured(b, folder, "--only", "fashion tf32", "perf", want=1)
        row = rows["fashion tf32 320"]
        check(row["holds"] is False and row["ours"] > 0.15, f"{row}")
        check("on u8" in row["note"], "not the worker's step, which gets bytes", row)
        # A cluster that has seen 640 images once is not accurate.
        _, rows = measured(b, folder, "--only", "tf32", "cluster", want=1)
        for row in (rows["fashion tf32"], rows["fashion ring tf32"]):
            check(row["holds"] is False and 0 < row["ours"] < 0.89
                  and "10 steps, each counted once" in row["note"], f"{row}")
        # What there is no time for is said, and does not hold.
        _, rows = measured(b, folder, "--minutes", "0.001", "--only", "fuse",
                           "conform", want=1)
        check("time is used up" in rows["fuse"]["note"], f"{rows}")
        # And none of it can get among the results.
        done = b.run("/usr/bin/python3", b.folder / "bench" / "gpu", "--merge",
                     out, want=1, path=os.defpath)
        check("without a GPU" in done.stderr, done.stderr)


def a_workers_step_is_what_the_shards_count():
    sys.path.insert(0, str(ROOT / "bench"))
    from gpu_parts import cluster, kit
    with Unpacked() as b:
        k = kit.Kit(b.folder, [], "python3", 120, emulated=b.room)
        try:
            ms = cluster.step_ms(k, b.folder / "examples" / "fashion-mlp.yaml",
                                 ["train.epochs=1000"], seconds=1)
        finally:
            k.close()
        check(0 < ms < 1000, f"a step of {ms} ms")


def results_of_several_calls_become_one():
    sys.path.insert(0, str(ROOT / "bench"))
    from gpu_parts import report
    row = {"part": "perf", "name": "a", "unit": "ms", "peer": None,
           "peer_name": None, "ratio": None, "bar": "<= 2 ms"}
    with tempfile.TemporaryDirectory() as room:
        paths = [pathlib.Path(room) / name for name in ("1.json", "2.json")]
        report.Report(paths[0], {"date": "2026-01-02T03"},
                      [{**row, "ours": 1.0, "holds": True},
                       {**row, "name": "b", "ours": None, "holds": None}])
        report.Report(paths[1], {"date": "2026-01-02T04"},
                      [{**row, "ours": None, "holds": None},
                       {**row, "name": "b", "ours": 3.0, "holds": False}])
        about, rows = report.merged(paths)
    check_equal([(r["name"], r["ours"]) for r in rows], [("a", 1.0), ("b", 3.0)],
                "rows")
    check_equal(len(about["calls"]), 2, "calls")
    check_equal([report.falls_short(r) for r in rows], [False, True], "short")


if __name__ == "__main__":
    if not (BIN.parent / "lib/sluice/kernels/sluice-kernels-cuda.so").exists():
        print("skipped: this build has no CUDA module")
        sys.exit(SKIPPED)
    main([libraries_come_from_the_bundle, programs_run_with_an_empty_environment,
          a_job_trains_from_it, without_a_gpu_it_says_so,
          bench_gpu_judges_what_it_measures,
          a_workers_step_is_what_the_shards_count,
          results_of_several_calls_become_one])
