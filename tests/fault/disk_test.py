#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Disks that are full, slow, or fail at the n-th call. A tmpfs in a private
mount namespace is the full one; strace makes calls fail and wait."""
import os
import shutil
import subprocess
import sys

from bed import Bed, check, dice, run, wait_for


def all_finished(b):
    return all(map(b.finished, b.each()))


def small_disk(b, name, folder, size):
    """Restarts a daemon with a tmpfs of its own mounted on `folder`."""
    folder.mkdir(exist_ok=True)
    plain = b.command

    def command(which):
        line = plain(which)
        if which == name and name[0] == "p":
            line[line.index("--store") + 1] = str(folder)
        return ["unshare", "-m", "sh", "-c",
                f'mount -t tmpfs -o size={size} tmpfs "$0" && exec "$@"',
                str(folder), *line] if which == name else line
    b.command = command
    b.restart(name)
    b.command = plain


def resize(b, name, folder, size):
    subprocess.run(["nsenter", "-t", str(b.pid(name)), "-m", "mount", "-o",
                    f"remount,size={size}", str(folder)], check=True)


def REL10_psserver_disk_full_and_free_again():
    """Training goes on; what cannot be written is no checkpoint, and the job
    says so; with space again it finishes."""
    with Bed(jobs=False, sum_epochs=13, psservers=1) as b:
        folder = b.dir / "small"
        b.no_history("nobody but ps-0 sees its disk, so no hash can be checked")
        small_disk(b, "ps-0", folder, "64k")
        b.submit_both()
        b.on_log("ps-0", "snapshot failed")
        b.on(5, 20)
        check("No space left" in b.log("ps-0") or "ENOSPC" in b.log("ps-0"),
              "the cause is not named", b.log("ps-0")[-800:])
        check(int(b.status(b.net)["cuts"]) == 0, "a cut of files that are not there")
        resize(b, "ps-0", folder, "64m")
        plain = b.run  # the client must see the psserver's disk, for the export
        b.run = lambda *words, **more: plain(
            *words, before=("nsenter", "-t", b.pid("ps-0"), "-m"), **more)
        b.end()


def REL10_coordinator_disk_full_and_free_again():
    """What cannot be journalled is not acknowledged. One that is full at its
    start ends; one that serves waits for space, and goes on."""
    with Bed(net_epochs=16, sum_epochs=20) as b:
        b.on()
        b.kill("coordinator")
        folder, kept = b.dir / "coordinator", b.dir / "kept"
        size = sum(p.stat().st_size for p in folder.rglob("*")) // 1024 + 40
        shutil.copytree(folder, kept)
        plain = b.command
        b.command = lambda which: [
            "unshare", "-m", "sh", "-c",
            f'mount -t tmpfs -o size={size}k tmpfs "$0" && cp -a "$1"/. "$0" && '
            'shift && exec "$@"', str(folder), str(kept), *plain(which)]
        process = b.start("coordinator", wait=False)
        wait_for("the coordinator to stop or to wait, or the jobs to end", lambda: (
            process.poll() is not None or b.over()
            or "no space for the journal" in b.log("coordinator")))
        if process.poll() is None:
            resize(b, "coordinator", folder, "64m")
            wait_for("the coordinator to serve", lambda: (
                "no space for the journal" not in b.log("coordinator")
                or "space for the journal again" in b.log("coordinator")))
        else:
            check(process.returncode > 0, f"exit {process.returncode}, disk full")
            check("full" in b.log("coordinator") or "space" in b.log("coordinator"),
                  "the cause is not named", b.log("coordinator")[-600:])
            b.processes.pop("coordinator")  # its tmpfs went with it: a lost
            b.net = b.sum = None            # state, which is row N12
        b.command = plain
        b.end()


# Not write: it is also how libuv wakes its loop, and a pipe is never full.
CALLS = ["fsync:error=EIO", "pwrite64:error=EIO", "pwrite64:error=ENOSPC",
         "rename,renameat2:error=EIO", "openat:error=EMFILE"]


def REL11_nth_call_of_a_psserver_fails():
    with Bed(net_epochs=24, sum_epochs=27) as b:
        for fault in CALLS:
            calls = fault.split(":")[0]
            when = dice.randint(1, 4) if "open" not in calls else dice.randint(20, 60)
            b.kill("ps-1")
            process = b.start_under("ps-1", [
                "-e", f"trace={calls}", "-e", f"inject={fault}:when={when}"],
                wait=False)
            aim = min(int(b.status(b.sum)["steps_counted"]) + 40,
                      int(b.status(b.sum)["steps_asked"]))
            wait_for("steps, or the psserver to stop", lambda p=process, a=aim: (
                p.poll() is not None or b.steps(b.sum) >= a))
            if process.poll() is not None:
                check(process.returncode >= 0, f"{fault}: signal {process.returncode}")
                b.processes.pop("ps-1")
                b.start("ps-1", wait=False)
        b.kill("ps-1")
        b.start("ps-1")
        b.end()


def REL11_nth_sync_of_the_coordinator_fails():
    """A failed sync stops it: never retried and acknowledged."""
    with Bed(net_epochs=24, sum_epochs=27) as b:
        stopped = 0
        for when in (2, 3, 5, 8):
            b.kill("coordinator")
            process = b.start_under("coordinator", [
                "-e", "trace=fsync,fdatasync", "-e",
                f"inject=fsync,fdatasync:error=EIO:when={when}"], wait=False)
            wait_for("the coordinator to stop or the jobs to end", lambda: (
                process.poll() is not None or b.over()))
            if process.poll() is not None:
                stopped += 1
                check(process.returncode > 0, f"exit {process.returncode}")
                b.processes.pop("coordinator")
                b.start("coordinator")
            if all_finished(b):
                break
        check(stopped > 0, "no failed sync stopped the coordinator")
        b.end()


def N21_slow_disk_during_a_cut():
    """Each sync of one psserver takes two seconds: pushes to it go on, and
    the cut comes when it comes."""
    with Bed(net_epochs=50, sum_epochs=27, psservers=2) as b:
        b.on()
        b.kill("ps-1")
        b.start_under("ps-1", ["-e", "trace=fsync,fdatasync", "-e",
                               "inject=fsync,fdatasync:delay_enter=2000000"])
        for job in b.each():
            b.shards(job)
        at = b.mark("coordinator")
        b.on_log("coordinator", "cut begun", at)
        b.on(30, 60, same=True)
        b.kill("ps-1")  # and the disk is well again
        b.start("ps-1")
        b.end()


if __name__ == "__main__":
    if os.geteuid() or not shutil.which("strace") or not shutil.which("unshare"):
        print("not root, or no strace: skipped")
        sys.exit(77)
    run(globals())
