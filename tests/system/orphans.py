# SPDX-License-Identifier: Apache-2.0
"""Programs in Python that begin as forks of one that has imported what they need
(warm.py), which is most of the processor time that one takes to begin. Each is a child
of this process, which takes what its children leave."""
import atexit
import ctypes
import functools
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
CODE = """import runpy, sys
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")"""


class Orphan:
    """What this project asks of a subprocess.Popen."""
    returncode = None

    def __init__(self, pid):
        self.pid = pid

    def poll(self):
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout):
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            time.sleep(0.005)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:  # else its number may be that of another one
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def ended(pid):
    """True of a process that is gone, or is a zombie: one that this process was given when
    its parent ended stays one for as long as nobody asks for it."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rsplit(")", 1)[1].split()[0] in "ZX"


@functools.cache
def warm(python, modules, environment):
    """A Python that has imported `modules` and begins programs as forks of itself
    (warm.py). `environment`: pairs. It ends with this process."""
    server = subprocess.Popen(
        [python, str(pathlib.Path(__file__).with_name("warm.py")), *modules],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, **dict(environment)})
    atexit.register(server.communicate)  # that is its end
    return server


def begin(modules, environment, file, words, log, python=sys.executable):
    """Begins a file as a program with these words, whose output is added to `log`. It has
    imported `modules` in this environment."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    server = warm(python, tuple(modules), tuple(sorted(environment.items())))
    pathlib.Path(log).touch()  # who reads it may be sooner than the program
    print(json.dumps({"code": CODE, "words": list(map(str, (file, *words))),
                      "files": [str(log)] * 2, "orphan": True}),
          file=server.stdin, flush=True)
    pid = server.stdout.readline()
    assert server.stdout.readline() == "begun\n", "Python cannot begin a program"
    return Orphan(int(pid))
