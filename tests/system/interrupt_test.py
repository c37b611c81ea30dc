#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, pressed on a terminal, while a command follows a job."""
import contextlib
import fcntl
import json
import os
import pty
import subprocess
import termios
import threading

from cluster import BIN, LIMIT, Cluster, check, check_equal, main, mlp_job, wait_for


class Terminal:
    """A command that has a terminal of its own."""

    def __init__(self, c, *words):
        self.near, far = pty.openpty()
        self.said = ""
        self.process = subprocess.Popen(
            [BIN / "sluice", "--coordinator", c.address, *map(str, words)], stdin=far,
            stdout=far, stderr=far, cwd=c.dir, preexec_fn=self.own)
        os.close(far)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    @staticmethod
    def own():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def read(self):
        with contextlib.suppress(OSError):  # its end, of a terminal
            while text := os.read(self.near, 4096):
                self.said += text.decode(errors="replace")

    def says(self, text):
        wait_for(f"the terminal to show '{text}'", lambda: text in self.said)

    def ctrl_c(self):
        os.write(self.near, b"\x03")

    def ended(self):
        """Its exit, as a shell has it."""
        code = self.process.wait(timeout=60 * LIMIT)
        self.reader.join()
        os.close(self.near)
        return 128 - code if code < 0 else code


def ctrl_c_detaches_stops_or_ends():
    with Cluster(psservers=1, workers=1) as c:
        (c.dir / "job.yaml").write_text(json.dumps(
            mlp_job("followed", samples=6400, epochs=400, steps_per_closure=10)))

        # The job goes on, and how to follow it again is said.
        t = Terminal(c, "submit", "job.yaml")
        t.says("Submitted as j-1; Ctrl-C detaches")
        t.ctrl_c()
        check_equal(t.ended(), 130, "exit")
        check("Detached: job j-1 goes on. Follow it again with 'sluice watch j-1'"
              in t.said, t.said)
        c.wait_steps("j-1", c.steps("j-1") + 20)
        t = Terminal(c, "watch", "j-1")
        t.says("step")  # a progress line
        t.ctrl_c()
        check_equal(t.ended(), 130, "exit")
        check("\x1b[K" in t.said, "no line was drawn again")

        # SIGTERM ends it as well, however many jobs it was to follow.
        t = Terminal(c, "watch", "j-1", "j-1")
        t.says("step")
        t.process.terminate()
        check_equal(t.ended(), 143, "exit")
        check_equal(c.status("j-1")["state"], "running", "state")

        # Or it stops, if that was said before.
        t = Terminal(c, "submit", "job.yaml", "--set", "name=ended",
                     "--cancel-on-interrupt")
        t.says("Submitted as j-2")
        c.wait_steps("j-2", 1)
        t.ctrl_c()
        check_equal(t.ended(), 1, "exit")
        check("Stopping j-2; Ctrl-C again leaves without waiting" in t.said, t.said)
        check_equal(c.status("j-2")["state"], "stopped", "state")

        # Ctrl-C again: it ends at once, whoever does not answer.
        t = Terminal(c, "submit", "job.yaml", "--set", "name=left",
                     "--cancel-on-interrupt")
        t.says("Submitted as j-3")
        c.pause("coordinator")

        def pressed():
            t.ctrl_c()
            return t.process.poll() is not None
        wait_for("it to leave", pressed)
        c.resume("coordinator")
        check_equal(t.ended(), 130, "exit")
        c.run("stop", "j-1", "--now")


if __name__ == "__main__":
    main([ctrl_c_detaches_stops_or_ends])
