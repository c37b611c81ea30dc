# SPDX-License-Identifier: Apache-2.0
"""What a row of bench/gpu is given: the bundle's programs, and its time."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time


class Failed(Exception):
    """A row could not be measured, or a check did not hold; and why."""


class OutOfTime(Failed):
    """This call's time is used up; another call may measure it."""


def check(condition, text, *details):
    if not condition:
        raise Failed(" ".join([text, *map(str, details)]))


class Kit:
    """One call of bench/gpu."""

    def __init__(self, folder, libraries, python, seconds, emulated=None):
        self.folder, self.python = pathlib.Path(folder), python
        self.emulated = emulated  # a folder of programs, for tests of bench/gpu
        self.end = time.monotonic() + seconds
        self.shared_values = {}
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="sluice-gpu-"))
        # A worker and the bare step that it is compared with choose alike.
        self.plans = self.scratch / "plans"
        self.environment = {**os.environ, "TMPDIR": str(self.scratch),
                            "LD_LIBRARY_PATH": ":".join(libraries)}
        self.name = "gpu"

    def close(self):
        shutil.rmtree(self.scratch, ignore_errors=True)

    def note(self, text):
        """What happens, beside the table: to stderr."""
        print(f"{self.name}: {text}", file=sys.stderr, flush=True)

    def left_s(self):
        return self.end - time.monotonic()

    def limit(self, seconds):
        """How long a program may take: never beyond the end of this call."""
        left = self.left_s()
        if left < min(seconds, 15):
            raise OutOfTime("this call's time is used up (--minutes)")
        return min(seconds, left)

    def path(self, name):
        """A program of the bundle."""
        if self.emulated and (self.emulated / name).exists():
            return str(self.emulated / name)
        return str(self.folder / "bin" / name)

    def device(self):
        """What workers compute on: there is no emulated device for them."""
        return "cpu" if self.emulated else "cuda"

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
