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

from cluster import BIN, LIMIT, ROOT, check, check_equal, main, wait_for

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


@functools.cache
def unpacked():
    """The bundle in a folder where it was not made; no case changes it."""
    where = archive().parent / "else where"
    where.mkdir()
    subprocess.run(["tar", "-xzf", archive(), "-C", where], check=True)
    return where / NAME


class Unpacked:
    """The bundle, and a room for what a case makes."""

    def __init__(self):
        self.room = pathlib.Path(tempfile.mkdtemp(prefix="sluice-bundle-"))

    def __enter__(self):
        self.folder = unpacked()
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.room, ignore_errors=True)

    def run(self, *line, want=0, path=None, seconds=240):
        """With an empty environment, but for what is said."""
        environment = {"PATH": path} if path else {}
        done = subprocess.run([str(w) for w in line], env=environment,
                              capture_output=True, text=True, check=False,
                              timeout=seconds * LIMIT, cwd=self.room,
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
                     "--mode", "eval", "--most", "2000").stdout
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
            up.wait(timeout=60 * LIMIT)


def without_a_gpu_it_says_so():
    with Unpacked() as b:
        done = b.run("/usr/bin/python3", b.folder / "bench" / "gpu", "conform",
                     want=SKIPPED, path=os.defpath)
        check_equal(len(done.stderr.splitlines()), 1, done.stderr)
        check("no GPU here" in done.stderr, done.stderr)
        check_equal(done.stdout, "", "on stdout")
        check(not [*b.room.rglob("gpu-*.json"), *b.folder.rglob("gpu-*.json")],
              "a result without a GPU")


def emulated(b):
    """Programs that compute on an emulated GPU, by the names in the bundle.
    `sluice up` starts what lies beside it: those are copies."""
    folder = b.room / "emulated"
    folder.mkdir()
    for name, real in (("kernels-conformance", "kernels-conformance-whole"),
                       ("bench.gpu_step", "emul.gpu_step"),
                       ("worker", "worker-emul"), ("sluice", "sluice"),
                       ("coordinator", "coordinator"), ("psserver", "psserver")):
        if not (BIN / real).exists():
            return None
        shutil.copy2(BIN / real, folder / name)
    return folder


def bench_gpu(b, folder, out, *words):
    return ["/usr/bin/python3", b.folder / "bench" / "gpu", "--emulated", folder,
            "--json", out, *words]


def measured(b, folder, *words, want):
    out = b.room / f"out-{time.monotonic_ns()}.json"
    done = b.run(*bench_gpu(b, folder, out, *words), want=want, path=os.defpath,
                 seconds=3000)
    found = json.loads(out.read_text())
    check(found["emulated"], "emulated figures are not marked")
    check("this is no result" in done.stdout, done.stdout)
    return out, {f"{r['part']} {r['name']}": r for r in found["rows"]}, done.stdout


class OnAnEmulatedGpu(Unpacked):
    """And a folder of programs for it; None in a build without."""

    def __enter__(self):
        super().__enter__()
        self.programs = emulated(self)
        if self.programs is None:
            print("skipped: this build has no emulated GPU")
        return self


def every_row_of_bench_gpu_starts():
    """Each with the command line and the spec that it has on a GPU, but for the
    sizes: what submit refuses, or a device, fails here."""
    with OnAnEmulatedGpu() as b:
        if b.programs is None:
            return
        out, rows, said = measured(b, b.programs, "--minutes", "60", want=1)
        parts = {name.split()[0] for name in rows}
        check_equal(parts, {"conform", "sanitizer", "cluster", "perf", "torch",
                            "ops"}, "parts")
        for name, row in rows.items():
            check(row["ours"] is not None or row.get("skipped"), name, row["note"])
            judges_right(name, row)
        # The table op by op.
        ops = rows["ops imagenette bf16 512"]
        check_equal(len(ops["op_times"]), 35, "ops of the step")
        check(all(op["ms"] > 0 and op["bytes"] > 0 and op["least_ms"] > 0
                  for op in ops["op_times"]), f"{ops}")
        check("least times of NVIDIA H200" in said and "bn_bwd" in said, said)
        # And none of it can get among the results.
        done = b.run("/usr/bin/python3", b.folder / "bench" / "gpu", "--merge",
                     out, want=1, path=os.defpath)
        check("without a GPU" in done.stderr, done.stderr)


def judges_right(name, row):
    part = name.split()[0]
    if part == "conform":
        check(row["holds"] and row["ours"] == 0, name, row)
        check("fail" in name or row["cases"] > 10, name, row)
    elif part == "cluster":
        # A cluster that has seen 20 images once is not accurate.
        check(row["holds"] is False and 0 <= row["ours"] < 0.89 and
              "10 steps, each counted once" in row["note"], name, row)
    elif name.startswith("perf ") and row["bar"].endswith("ms"):
        # "<= 15 ms": a step at its emulated size may be as fast.
        limit = float(row["bar"].split()[1])
        check(row["holds"] is (row["ours"] <= limit) and row["ours"] > 0, name, row)
        check("on u8" in row["note"], "not the worker's step, which gets bytes", row)
        check("not tuned" not in row["note"], name, row)
    elif part == "torch":
        check("PyTorch would run eager, compiled" in row["note"], name, row)


def bench_gpu_keeps_to_its_time():
    with OnAnEmulatedGpu() as b:
        if b.programs is None:
            return
        # What there is no time for is said, and does not hold.
        _, rows, _ = measured(b, b.programs, "--minutes", "0.001", "--only",
                              "fuse", "conform", want=1)
        check("time is used up" in rows["conform fuse"]["note"], f"{rows}")
        # What was measured before it is ended stays.
        out = b.room / "ended.json"
        line = bench_gpu(b, b.programs, out, "--only", "f32", "conform", "cluster")
        with subprocess.Popen([str(w) for w in line], env={"PATH": os.defpath},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as process:
            check(any("cluster fashion f32: begins" in said
                      for said in process.stderr), "no cluster began")
            process.terminate()
            said, _ = process.communicate(timeout=600 * LIMIT)
            check_equal(process.returncode, 1, said)
        check("ended before all rows were measured" in said, said)
        check_equal([r["name"] for r in json.loads(out.read_text())["rows"]],
                    ["eval f32", "eval tf32", "det f32", "det tf32"],
                    "rows that were measured")


def parts_of_bench_gpu():
    sys.path.insert(0, str(ROOT / "bench"))
    import gpu_parts.essential
    import gpu_parts.host
    import gpu_parts.kit
    import gpu_parts.perf
    import gpu_parts.report
    return gpu_parts


def tuning_that_outlasts_its_share_is_stopped():
    gpu = parts_of_bench_gpu()
    with tempfile.TemporaryDirectory() as room:
        program = pathlib.Path(room) / "bin" / "bench.gpu_step"
        program.parent.mkdir()
        program.write_text('#!/bin/sh\necho \'{"tuned": 512, "seconds": 1.5}\'\n'
                           "exec sleep 1000\n")
        program.chmod(0o755)
        k = gpu.kit.Kit(room, [], "python3", 1000)
        try:
            k.begin("tune", seconds=10, later_s=1e6)
            row = gpu.perf.tune_row(k, "fashion", "f32", [512, 32])
        finally:
            k.close()
    check_equal((row["ours"], row["note"]), (
        1.5, "stopped: tuned 1 of 2 batches; the others run as the libraries "
        "advise"), "the row")
    check_equal([gpu.perf.is_tuned(k, "fashion", *which) for which in
                 (("f32", 512), ("f32", 32), ("tf32", 32))],
                [True, False, True], "what is tuned in the row's own time or was")


def rows_are_tuned_once_for_all_their_batches():
    gpu = parts_of_bench_gpu()
    rows = gpu.perf.with_tuning([*gpu.perf.perf_rows(None), *gpu.perf.ops_rows(None)])
    names = [row.name for row in rows]
    tuned = [name for name in names if name.startswith("tune ")]
    check_equal(len(tuned), len(set(tuned)), "tunes twice")
    for row in rows:
        if row.step:
            check(f"tune {row.step[0]} {row.step[1]}" in
                  names[:names.index(row.name)], f"{row.name} is not tuned before")


def the_essential_rows_fit_into_eight_minutes():
    gpu = parts_of_bench_gpu()
    rows = gpu.perf.with_tuning(gpu.essential.essential_rows(None),
                                gpu.essential.TUNE_S)
    start = 10  # unpacking, looking for libraries
    check(start + sum(row.seconds for row in rows) <= 8 * 60, "their shares are "
          f"{sum(row.seconds for row in rows)} s")
    names = {f"{row.part} {row.name}" for row in rows}
    for net in ("imagenette bf16 32", "imagenette bf16 512", "imagenette tf32 32",
                "imagenette tf32 512", "fashion tf32 320"):
        for part in ("perf", "torch"):
            check(f"{part} {net}" in names, f"no {part} {net}")
    for name in ("conform eval f32", "cluster fashion f32",
                 "perf worker imagenette bf16 256"):
        check(name in names, f"no {name}")


def pytorch_is_asked_without_a_toolkits_libraries():
    """One that LD_LIBRARY_PATH spoils, one that cannot do without it, and one
    that has no GPU."""
    host = parts_of_bench_gpu().host
    host.DRIVER_FOLDERS = []
    before = os.environ.get("LD_LIBRARY_PATH")
    os.environ["LD_LIBRARY_PATH"] = "/nowhere/lib64"
    try:
        with tempfile.TemporaryDirectory() as room:
            python = pathlib.Path(room) / "python"
            for test, want in (("-z", None), ("-n", "/nowhere/lib64"),
                               ("-d", "no")):
                python.write_text(f'#!/bin/sh\nset -e\ntest {test} '
                                  '"$LD_LIBRARY_PATH"\n'
                                  'echo \'{"torch": "2.11"}\'\n')
                python.chmod(0o755)
                found, environment = host.torch_of(str(python))
                if want == "no":
                    check_equal((found, environment), (None, None), "without one")
                else:
                    check_equal(found, {"torch": "2.11"}, f"test {test}")
                    check_equal(environment.get("LD_LIBRARY_PATH"), want, test)
    finally:
        os.environ.pop("LD_LIBRARY_PATH")
        if before is not None:
            os.environ["LD_LIBRARY_PATH"] = before


def results_of_several_calls_become_one():
    report = parts_of_bench_gpu().report
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
          every_row_of_bench_gpu_starts, bench_gpu_keeps_to_its_time,
          tuning_that_outlasts_its_share_is_stopped,
          rows_are_tuned_once_for_all_their_batches,
          the_essential_rows_fit_into_eight_minutes,
          pytorch_is_asked_without_a_toolkits_libraries,
          results_of_several_calls_become_one])
