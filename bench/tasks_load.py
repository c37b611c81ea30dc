# SPDX-License-Identifier: Apache-2.0
"""Tasks through the package, to worker processes with a handler in Python, of
the coordinator at --coordinator. As peers/tf_closures.py: so many scheduled,
then joined, again and again. Prints tasks per second, as a peer does."""
import argparse
import contextlib
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "peers"), str(HERE.parent / "python")]
from common import die_with_parent, say, windows_of  # noqa: E402

WORKER = f"""
import sys
sys.path.insert(0, {str(HERE.parent / "python")!r})
import sluice
sluice.serve({{"echo": lambda payload: payload}}, sys.argv[1])
"""


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--coordinator", required=True)
    for name, default in (("seconds", 2.0), ("warmup", 1.0), ("windows", 1),
                          ("ahead", 5000), ("bytes", 16), ("workers", 2)):
        parser.add_argument(f"--{name}", type=type(default), default=default)
    parser.add_argument("--cpu", help="of the workers, as taskset has it")
    return parser.parse_args()


def main():
    o = options()
    pin = ["taskset", "-c", o.cpu] if o.cpu else []
    with contextlib.ExitStack() as stack:
        for _ in range(o.workers):
            process = stack.enter_context(subprocess.Popen(
                [*pin, sys.executable, "-c", WORKER, o.coordinator],
                preexec_fn=die_with_parent))
            stack.callback(process.terminate)
        import sluice
        coord = stack.enter_context(sluice.Coordinator(o.coordinator, queue="load",
                                                       limit=2 * o.ahead))
        payload = os.urandom(o.bytes)
        done = 0

        def work():
            nonlocal done
            futures = [coord.schedule("echo", payload) for _ in range(o.ahead)]
            coord.join()
            assert all(f.fetch() == payload for f in futures)
            done += o.ahead
        work()
        measured = windows_of(lambda: done, o, work)
    say("tasks", "tasks/s", measured, ahead=o.ahead, bytes=o.bytes)


if __name__ == "__main__":
    main()
