#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libsluice: a C program that knows lib/sluice.h alone is a worker, and what it
does counts once while it is killed."""
import os
import re
import subprocess
import tempfile

from cluster import BIN, LIMIT, ROOT, Cluster, Failed, check, check_counts, check_equal, main
from external_test import Program, Programs, check_learnt, linear_job

PROGRAM = BIN / "own_gradient"
LIBRARY = BIN.parent / "lib" / "libsluice.so"


def own(c, name):
    return Program(c, name, PROGRAM, python=None)


def a_program_in_c_trains_and_dies():
    with Cluster(psservers=2, workers=0) as c:
        with Programs(lambda name: own(c, name)) as programs:
            job = c.submit(linear_job(epochs=80))
            for steps in (100, 200, 300, 400):
                c.wait_steps(job, steps)
                programs.replace()
            c.restart("ps-1")
            c.wait_steps(job, 600)
            c.restart("coordinator")
            done = c.wait_state(job)
            check_counts(done)
            check_learnt(c, job)
            for program in programs.running:
                check_equal(program.process.wait(timeout=30 * LIMIT), 0, "exit of a program")


def a_job_of_another_shape_is_refused_in_words():
    spec = linear_job(epochs=1)
    spec["model"]["variables"][0]["shape"] = [7]
    with Cluster(psservers=1, workers=0) as c:
        program = own(c, "own")
        job = c.submit(spec)
        try:
            c.wait_state(job)
            raise Failed("the job finished")
        except Failed as error:
            check("4 weights and a bias" in str(error), str(error))
        program.end()


def nobody_there_is_said_in_words():
    done = subprocess.run([str(PROGRAM), "--coordinator", "nowhere"],
                          capture_output=True, text=True, timeout=60, check=False)
    check_equal(done.returncode, 1, "exit")
    check("nowhere" in done.stderr and len(done.stderr.splitlines()) == 1,
          "one line that names the address", done.stderr)


def only_its_own_names_are_seen():
    out = subprocess.run(["nm", "-D", "--defined-only", str(LIBRARY)],
                         capture_output=True, text=True, check=True).stdout
    names = {re.sub(r"@.*", "", line.split()[-1]) for line in out.splitlines()
             if " A " not in line}
    header = "".join((ROOT / "lib" / name).read_text() for name in ("sluice.h", "tasks.h"))
    said = set(re.findall(r"\b(sluice_\w+)\(", header))
    check_equal(sorted(names), sorted(said), "what the library shows")


def the_header_is_c_and_cplusplus():
    """tasks.h, which includes sluice.h: in the repository, and where it is installed,
    with the one flag that pkg-config gives."""
    with tempfile.TemporaryDirectory() as prefix:
        subprocess.run(
            ["cmake", f"-DCMAKE_INSTALL_PREFIX={prefix}", "-P",
             str(BIN.parent / "lib" / "cmake_install.cmake")],
            env={k: v for k, v in os.environ.items() if k != "DESTDIR"},
            capture_output=True, check=True)
        for language, compiler in (("c", "cc"), ("c++", "c++")):
            for folder, header in ((ROOT, "lib/tasks.h"),
                                   (f"{prefix}/include/sluice", "tasks.h")):
                done = subprocess.run(
                    [compiler, "-x", language, "-Wall", "-Wextra", "-Werror", "-pedantic",
                     "-fsyntax-only", f"-I{folder}", "-include", header, os.devnull],
                    capture_output=True, text=True, check=False)
                check_equal(done.returncode, 0, f"{language}, {header}: {done.stderr}")


if __name__ == "__main__":
    main([a_program_in_c_trains_and_dies, a_job_of_another_shape_is_refused_in_words,
          nobody_there_is_said_in_words, only_its_own_names_are_seen,
          the_header_is_c_and_cplusplus])
