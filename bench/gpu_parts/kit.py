# SPDX-License-Identifier: Apache-2.0
"""What a row of bench/gpu is given: the bundle's programs, and its time."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from gpu_parts import host


LEAST_S = 5  # no program begins with less time than that
# What a limit is multiplied by on an emulated GPU, where it is there for programs
# that stand still: busy machines are tested on, too.
PATIENCE = 4


class Failed(Exception):
    """A row could not be measured, or a check did not hold; and why."""


class OutOfTime(Failed):
    """The time of this call, or the row's share of it, is used up; another call
    may measure it."""


def check(condition, text, *details):
    if not condition:
        raise Failed(" ".join([text, *map(str, details)]))


class Kit:
    """One call of bench/gpu."""

    def __init__(self, folder, libraries, python, seconds, emulated=None):
        self.folder, self.python = pathlib.Path(folder), python
        self.emulated = emulated  # a folder of programs, for tests of bench/gpu
        self.began = time.monotonic()
        self.end = self.row_end = self.began + seconds
        self.shared_values = {}
        self.tuned = {}  # (net, precision): batches whose plans are kept
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="sluice-gpu-"))
        # A worker and the bare step that it is compared with choose alike.
        self.plans = self.scratch / "plans"
        self.environment = {**os.environ, "TMPDIR": str(self.scratch),
                            "LD_LIBRARY_PATH": ":".join(libraries)}
        self.name = "gpu"
        self.found_torch = None, None
        # A daemon, so that nobody waits for PyTorch when this command is ended.
        self.asking = threading.Thread(target=self.ask_torch, daemon=True)
        if emulated is None:
            self.asking.start()

    def ask_torch(self):
        self.found_torch = host.torch_of(self.python)

    def torch(self):
        """What host.torch_of found while the first rows were measured."""
        if self.asking.ident:
            self.asking.join()
        return self.found_torch

    def close(self):
        shutil.rmtree(self.scratch, ignore_errors=True)

    def note(self, text):
        """What happens, beside the table: to stderr."""
        now = time.monotonic() - self.began
        print(f"[{now:3.0f} of {self.end - self.began:.0f} s] {self.name}: "
              f"{text}", file=sys.stderr, flush=True)

    def begin(self, name, seconds, later_s):
        """A row begins. It has its share, and what the rows after it leave."""
        now = time.monotonic()
        self.name = name
        self.row_end = min(self.end, now + max(seconds, self.end - now - later_s))
        self.note(f"begins, {self.left_s():.0f} s at most")

    def left_s(self):
        return self.row_end - time.monotonic()

    def limit(self, seconds):
        """How long a program may take: never beyond the end of the row."""
        if self.emulated:
            seconds *= PATIENCE
        left = self.left_s()
        if left < min(seconds, LEAST_S):
            raise OutOfTime(
                "this call's time is used up (--minutes)"
                if self.row_end == self.end else
                "the row's share of this call is used up")
        return min(seconds, left)

    def path(self, name):
        """A program of the bundle."""
        if self.emulated and (self.emulated / name).exists():
            return str(self.emulated / name)
        return str(self.folder / "bin" / name)

    def device(self):
        """What workers compute on: `emulated` has a worker of its own, or they
        have no device."""
        here = self.emulated is None or (self.emulated / "worker").exists()
        return "cuda" if here else "cpu"

    def run(self, line, seconds, want=(0,)):
        """Runs a program to its end; Failed with what it said last."""
        limit = self.limit(seconds)
        try:
            done = subprocess.run([str(w) for w in line], capture_output=True,
                                  text=True, errors="replace", check=False,
                                  timeout=limit, env=self.environment,
                                  stdin=subprocess.DEVNULL, cwd=self.scratch)
        except subprocess.TimeoutExpired:
            raise (OutOfTime if limit < seconds else Failed)(
                f"{os.path.basename(str(line[0]))} took more than "
                f"{limit:.0f} s") from None
        check(done.returncode in want, f"{' '.join(map(str, line))}: exit "
              f"{done.returncode}:", last_lines(done.stdout + done.stderr))
        return done

    def some(self, line, seconds):
        """(stdout, whether it came to its end): what a program has printed
        when its time is up counts."""
        limit = self.limit(seconds)
        with subprocess.Popen([str(w) for w in line], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True,
                              errors="replace", env=self.environment,
                              stdin=subprocess.DEVNULL, cwd=self.scratch) as p:
            try:
                out, _ = p.communicate(timeout=limit)
                ended = True
            except subprocess.TimeoutExpired:
                p.kill()
                out, _ = p.communicate()
                ended = False
        check(p.returncode == 0 or not ended,
              f"{' '.join(map(str, line))}: exit {p.returncode}:", last_lines(out))
        return out, ended

    def json(self, line, seconds):
        """The object that a program of bench/ prints."""
        text = self.run(line, seconds).stdout
        try:
            return json.loads(text)
        except ValueError:
            raise Failed(f"{line[0]} printed no JSON: {text[:200]}") from None

    def shared(self, key, measure):
        """A measurement that several rows use is made once a call."""
        if key not in self.shared_values:
            try:
                self.shared_values[key] = measure()
            except Failed as error:
                self.shared_values[key] = error
        found = self.shared_values[key]
        if isinstance(found, Failed):
            raise found
        return found


def last_lines(text, count=6):
    return " | ".join(text.strip().splitlines()[-count:])[-600:]
