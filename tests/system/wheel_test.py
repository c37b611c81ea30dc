#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The wheel of a build installs into an empty environment and trains."""
import inspect
import os
import re
import subprocess
import sys
import tempfile
import zipfile

from cluster import BIN, ROOT, Cluster, check, check_counts, check_equal, main
from external_test import Program, check_learnt, linear_job


def run(*words, **options):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True,
                          check=False, **options)
    check_equal(done.returncode, 0, f"{words[0]}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


def make(folder, *how):
    return run(sys.executable, ROOT / "tools" / "make-wheel", *how, BIN.parent, folder)


def install(wheel, target):
    run(sys.executable, "-m", "pip", "install", "--no-index", "--no-deps",
        "--target", target, wheel)


def trains(c, target):
    """What is installed in `target` alone trains a job, and has the command."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
    clean["PYTHONPATH"] = str(target)
    job = c.submit(linear_job(epochs=2))
    said = run(sys.executable, "-c",
               "import sluice, sys; print(sluice.__file__); "
               f"print(sluice.jobs({c.address!r})[0]['name'])", env=clean, cwd=c.dir)
    check_equal(said.split(), [f"{target}/sluice/__init__.py", "linear"],
                "where it is, and the job that it sees")
    check_equal(run(target / "bin" / "sluice", "--version", env=clean),
                run(BIN / "sluice", "--version"), "version of the command")
    program = Program(c, "np", ROOT / "examples" / "numpy_worker.py",
                      PYTHONPATH=str(target), SLUICE_LIBRARY="", SLUICE_BIN="")
    try:
        done = c.wait_state(job)
    finally:
        program.end()
    check_counts(done)
    check_learnt(c, job)


def a_wheel_is_all_that_a_program_needs():
    """NumPy is there already, from the environment that runs this test."""
    with Cluster(psservers=1, workers=0) as c:
        wheel = make(c.dir / "a")
        check_equal(open(make(c.dir / "b"), "rb").read(), open(wheel, "rb").read(),
                    "two wheels of one build")
        install(wheel, c.dir / "site")
        trains(c, c.dir / "site")


def a_portable_wheel_has_its_libraries_inside():
    """Nothing is asked of a host but what each has."""
    with Cluster(psservers=1, workers=0) as c:
        wheel = make(c.dir / "w", "--portable")
        tag = re.search(r"-py3-none-manylinux_2_(\d+)_\w+\.whl$", wheel)
        check(tag, wheel)
        target = c.dir / "site"
        install(wheel, target)
        trains(c, target)
        for name in ("libsluice.so.0", "sluice"):
            said = run("ldd", target / "sluice" / "lib" / name)
            check("not found" not in said, said)
            outside = {re.sub(r".*/|\.so.*", "", line.split()[0])
                       for line in said.splitlines() if str(target) not in line}
            check(outside <= {"linux-vdso", "ld-linux-x86-64", "ld-linux-aarch64", "libc", "libm",
                              "libgcc_s", "libstdc++", "libz", "libresolv", "libdl",
                              "libpthread", "librt",
                              # in manylinux's list: Python itself needs it
                              "libexpat"}, f"of {name} the host's own", outside)
        # Of Debian 12's libraries none wants more than 2.34; neither do we.
        here = int(os.confstr("CS_GNU_LIBC_VERSION").rpartition(".")[2])
        check(int(tag[1]) <= (34 if here <= 36 else here), wheel)


def a_portable_wheel_for_an_older_glibc_is_refused():
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, ROOT / "tools" / "make-wheel", "--portable", "--glibc",
             "2.17", BIN.parent, folder], capture_output=True, text=True, check=False)
        check_equal((done.returncode, os.listdir(folder)), (1, []), done.stderr)
    check("no portable wheel for glibc 2.17 of this build" in done.stderr and
          "too-recent versioned symbols" in done.stderr, done.stderr)


def a_wheel_has_what_it_says():
    with Cluster(psservers=0, workers=0) as c:
        with zipfile.ZipFile(make(c.dir / "w")) as wheel:
            names = set(wheel.namelist())
            info = next(n for n in names if n.endswith("METADATA"))
            text = wheel.read(info).decode()
        check({"sluice/__init__.py", "sluice/torch.py", "sluice/keras.py", "sluice/jax.py",
               "sluice/py.typed",
               "sluice/lib/libsluice.so.0", "sluice/lib/sluice"} <= names, names)
        check("Requires-Dist: numpy\n" in text, text)
        check('Requires-Dist: torch; extra == "torch"' in text, text)


def a_wheel_needs_no_more_than_the_transport():
    """Nothing of what computes: that is the program's."""
    with Cluster(psservers=0, workers=0) as c:
        wheel = make(c.dir / "w")
        tools = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
        said = run(sys.executable, "-m", "auditwheel", "show", wheel,
                   env={**os.environ, "PATH": tools})
    said = " ".join(said.split())
    check("is consistent with the following platform tag" in said, said)
    check("libprotobuf-c.so.1" in said, said)
    needed = re.findall(r"NEEDED.*\[(.*?)\.so",
                        run("readelf", "-d", BIN.parent / "lib" / "libsluice.so.0"))
    check_equal(sorted(set(needed) - {"ld-linux-x86-64", "ld-linux-aarch64"}),
                ["libc", "libcrypto", "libgpr", "libgrpc", "libjansson", "libm",
                 "libprotobuf-c", "libuv"], "what libsluice needs")


def its_types_are_clean():
    """And a program of a user's that is checked sees the keywords of a cluster."""
    program = """
import numpy as np, sluice.jax, sluice.keras, sluice.torch
sluice.torch.Trainer(None, "j", mode="hybrid", ranks=2, tls="certs/worker", wait=2.0)
sluice.torch.Trainer(None, "j", rank=2)
sluice.keras.fit(None, None, job="j", workers=2, train={"max_delay": 16}, new=True)
sluice.keras.fit(None, None, job="j", workers="2")
sluice.jax.Trainer({}, "j", init="zeros", store="/tmp/x", advertise="10.0.0.1:7")
sluice.jax.Trainer({}, "j", max_delay=16)
"""
    with tempfile.TemporaryDirectory() as folder:
        def mypy(*words):
            return subprocess.run(
                [sys.executable, "-m", "mypy", "--cache-dir", f"{folder}/cache", *words],
                cwd=ROOT / "python", capture_output=True, text=True, check=False).stdout
        said = mypy()
        check("no issues" in said, said)
        file = os.path.join(folder, "program.py")
        with open(file, "w", encoding="utf-8") as out:
            out.write(program)
        said = mypy("--strict", file)
    check_equal(re.findall(r"program.py:(\d+): error: .*\[([\w-]+)\]", said),
                [("4", "call-arg"), ("6", "arg-type"), ("8", "call-arg")], said)


def its_keywords_are_those_of_a_program():
    sys.path.insert(0, str(ROOT / "python"))
    from sluice import _program
    taken = inspect.signature(_program.Program.__init__).parameters.values()
    check_equal({name: kind.__forward_arg__ for name, kind in
                 _program.Cluster.__annotations__.items()},
                {p.name: p.annotation for p in taken if p.kind is p.KEYWORD_ONLY},
                "keywords of Cluster")


if __name__ == "__main__":
    main([its_types_are_clean, its_keywords_are_those_of_a_program,
          a_wheel_is_all_that_a_program_needs, a_portable_wheel_has_its_libraries_inside,
          a_portable_wheel_for_an_older_glibc_is_refused, a_wheel_has_what_it_says,
          a_wheel_needs_no_more_than_the_transport])
