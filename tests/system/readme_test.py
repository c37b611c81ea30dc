#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The lines of README.md as they are printed there: on one machine, in two
terminals, and on three hosts, each a network namespace with files of its own. The
net of the example is smaller here, and learns few samples for one epoch, since the lines are
what is tried. Three hosts need root; that part is left out elsewhere."""
import contextlib
import functools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

from cluster import BIN, LIMIT, ROOT, check, check_equal, main, slowly, wait_for
from netns_test import TAG, Hosts, ip

PAGE = (ROOT / "README.md").read_text()
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
LONG_S = 400
SMALLER = {"filters: 32": "filters: 4", "filters: 64": "filters: 4", "epochs: 5": "epochs: 1",
           "batch: 64": "batch: 512",
           "  # 1/255: pixels become numbers in [0, 1]": "\n    limit: 6400",
           "\n\ntrain:\n": "\n    limit: 1000\n\ntrain:\n"}


# ---- the page

def blocks(heading):
    """The indented or fenced parts of a section, as lists of lines: a backslash
    continues a line, and a blank line or a whole-line comment is kept as it is."""
    check(f"\n## {heading}\n" in PAGE, f"README.md has no section '{heading}'")
    section = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return [re.sub(r"\\\n +", "", block).strip("\n").split("\n")
            for block in re.findall(r"^```\n(.*?)^```$", section, re.M | re.S)]


def typed(block):
    """(line, its comment) of what a user types."""
    for line in block:
        line, _, comment = line.partition("  #")
        if line.strip() and not line.startswith("#"):
            yield line.strip(), comment


# ---- terminals

def lay(folder):
    """What a user has in the folder of the README: a build, and the examples."""
    folder.mkdir(parents=True)
    (folder / "build").symlink_to(BIN.parent)
    shutil.copytree(ROOT / "examples", folder / "examples")
    path = folder / "examples/fashion-cnn.yaml"
    text = path.read_text()
    for old, new in SMALLER.items():
        check_equal(text.count(old), 1, f"'{old}' in the example")
        text = text.replace(old, new)
    path.write_text(text)
    return folder


class Terminal:
    """Lines typed in one folder, one after the other; an `export` holds for those after
    it. `before` is put before the shell (a namespace)."""

    def __init__(self, name, folder, before=(), **environment):
        self.name, self.folder, self.before = name, folder, list(before)
        self.env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(folder),
                    "LC_ALL": "C.UTF-8", "OMP_NUM_THREADS": "1", **environment}
        self.exports, self.running, self.count = [], [], 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process, _ in reversed(self.running):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def begin(self, line):
        """Starts it, as what is in the foreground; gives (process, its output)."""
        print(f"  {self.name}$ {line}", flush=True)
        self.count += 1
        log = self.folder / f"typed-{self.count}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*self.before, "bash", "-c", "\n".join([
                    f"cd '{self.folder}' || exit", *self.exports, line])],
                env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                start_new_session=True)
        self.running.append((process, log))
        return process, log

    def type(self, line):
        """Runs it to its end, which is to be a good one; gives what it says."""
        process, log = self.begin(line)
        code = process.wait(timeout=LONG_S)
        self.running.pop()
        check_equal(code, 0, f"{self.name}$ {line}\n{log.read_text()[-3000:]}")
        if line.startswith("export "):
            self.exports.append(line)
        return log.read_text()

    def until_ctrl_c(self, line, shows):
        """Runs it until it has shown something, then Ctrl-C ends it."""
        process, log = self.begin(line)
        wait_for(f"'{line}' to show something", lambda: process.poll() is not None or
                 shows(log), 60)
        check_equal(process.poll(), None, f"{line} has ended\n{log.read_text()}")
        os.killpg(process.pid, signal.SIGINT)
        process.wait(timeout=60 * LIMIT)
        self.running.pop()

    def ready(self, text):
        """Waits for `text` from the line that runs here."""
        process, log = self.running[-1]
        wait_for(f"{self.name} to say '{text}'", lambda: process.poll() is not None or
                 text in log.read_text(), 60)
        check_equal(process.poll(), None, f"{self.name}: {log.read_text()}")


# ---- one machine

def one_machine_step_by_step():
    first, second = blocks("One machine, step by step")
    with tempfile.TemporaryDirectory(prefix="sluice-readme-") as made:
        folder = lay(pathlib.Path(made, "sluice"))
        runtime = pathlib.Path(made, "runtime")
        runtime.mkdir(mode=0o700)
        alone = []  # others of this machine may have the usual port
        if os.geteuid() == 0 and not ip("netns", "add", f"{TAG}one", check_it=False).returncode:
            ip("link", "set", "lo", "up", netns=f"{TAG}one")
            alone = ["ip", "netns", "exec", f"{TAG}one"]
        try:
            with Terminal("first", folder, alone, XDG_RUNTIME_DIR=str(runtime)) as up, \
                    Terminal("second", folder, alone, XDG_RUNTIME_DIR=str(runtime)) as other:
                *before, (last, _) = typed(first)
                for line, _ in before:
                    up.type(line)
                process, _ = up.begin(last)
                up.ready("Look:")
                step_by_step(other, second, folder)
                os.killpg(process.pid, signal.SIGINT)
                check(process.wait(timeout=60 * LIMIT) in (0, 130), "how up ends by Ctrl-C")
        finally:
            if alone:
                ip("netns", "del", f"{TAG}one", check_it=False)


def step_by_step(terminal, block, folder):
    seen = []
    with contextlib.ExitStack() as aside:
        for line, comment in typed(block):
            if "until Ctrl-C" in comment:
                curves = "--tensorboard" in line
                terminal.until_ctrl_c(line, lambda log, curves=curves: any(
                    (folder / "curves").rglob("*tfevents*")) if curves else log.read_text())
                continue
            seen.append((line, terminal.type(line)))
            if line.startswith("sluice trace"):  # the last that shows what the job does
                aside.enter_context(slowly(functools.partial(list, workers_of(folder))))
            if line.startswith("sluice stop"):
                aside.close()
    for line, said in seen:
        if line.startswith("sluice submit") and "--no-wait" not in line:
            check("finished" in said, f"{line} trains a job", said)
    for name in ("model.safetensors", "report.html", "trace.json", "users.safetensors"):
        check((folder / name).stat().st_size > 1000, f"{name} is written")
    check(len(seen) >= 15, f"only {len(seen)} lines were typed")


def workers_of(folder):
    pids = [int(path.read_text()) for path in folder.glob("cluster/worker-*.pid")]
    check_equal(len(pids), 3, "workers")
    return pids


# ---- three hosts

class Lan(Hosts):
    """Its hosts have the addresses of the README: 10.0.0.1, .2, .3."""
    NET = "10.0.0"


def three_hosts_by_hand():
    if os.geteuid() != 0 or ip("netns", "add", f"{TAG}probe", check_it=False).returncode:
        print("no network namespace can be made here (root can): left out")
        return
    ip("netns", "del", f"{TAG}probe")
    block, = blocks("Three hosts by hand")
    with tempfile.TemporaryDirectory(prefix="sluice-readme-") as made, Lan():
        hosts = {}
        for number in (1, 2, 3):
            # /var/lib of its own, which goes with the last process of the host.
            hosts[f"10.0.0.{number}"] = Terminal(
                f"10.0.0.{number}", lay(pathlib.Path(made, f"host{number}/sluice")),
                ["ip", "netns", "exec", f"{TAG}{number}", "unshare", "--mount", "sh", "-c",
                 'mount -t tmpfs tmpfs /var/lib && exec "$@"', "sh"])
        with hosts["10.0.0.1"] as one, hosts["10.0.0.2"], hosts["10.0.0.3"]:
            at, said = one, ""
            for line in block:
                host = re.match(r"# on ([\d.]+)", line)
                at = hosts[host[1]] if host else one if line.startswith("# from any") else at
                for line, comment in typed([line]):
                    said = on_host(at, line, "on each host" in comment, hosts) or said
            check("finished" in said, "the last line trains a job", said)


def on_host(at, line, everywhere, hosts):
    """Types a line; a daemon stays in the foreground, and is ready afterwards."""
    program = line.split()[0]
    if everywhere:
        for terminal in hosts.values():
            terminal.type(line)
        return None
    if program in ("coordinator", "psserver", "worker"):
        if not (at.folder / "certs").exists():  # "copy ca.crt and the two files of the role"
            (at.folder / "certs").mkdir()
            for name in ("ca.crt", f"{program}.crt", f"{program}.key"):
                shutil.copy(hosts["10.0.0.1"].folder / "certs" / name, at.folder / "certs")
        at.begin(line)
        if program == "coordinator":
            at.ready("coordinator serves")
        else:
            hosts["10.0.0.1"].ready(f'"kind":"{program}"')  # in the log of that terminal
        return None
    return at.type(line)


# ---- a job is data

def a_job_is_data():
    section = PAGE.split("\n## A job is data\n", 1)[1]
    text = re.search(r"^```yaml\n(.*?)^```$", section, re.M | re.S)[1]
    with tempfile.TemporaryDirectory(prefix="sluice-readme-") as made:
        path = pathlib.Path(made, "job.yaml")
        path.write_text(text)
        done = subprocess.run([BIN / "sluice", "submit", path, "--dry-run", "--coordinator",
                               f"unix:{made}/none", "--timeout", "100ms"], capture_output=True,
                              text=True, check=False)
        # The spec is looked at before the coordinator is asked.
        check_equal(done.returncode, 4, f"the spec of README.md: {done.stderr}")


if __name__ == "__main__":
    CASES = [a_job_is_data]
    if DATA.exists():
        CASES += [one_machine_step_by_step, three_hosts_by_hand]
    else:
        print("no Fashion-MNIST (Debian: dataset-fashion-mnist): only the spec is tried")
    main(CASES)
