#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""systemctl for a namespace, where no systemd runs: `enable --now UNIT` starts
what the unit says, as a user of its own, with credentials, state folder and
socket as systemd hands them over, and returns when the daemon says READY=1.
Of everything else in the unit (the sandbox) it knows nothing."""
import os
import pathlib
import re
import socket
import subprocess
import sys

LIMIT_S = 240  # on a machine that is busy
FIRST_UID = 61184  # of those that systemd lends to services


def settings(unit):
    """Key -> values, continued lines joined."""
    path = next(p for p in (pathlib.Path(f, f"{unit}.service") for f in
                            ("/etc/systemd/system", "/lib/systemd/system")) if p.exists())
    found = {}
    for line in path.read_text().replace("\\\n", " ").splitlines():
        if re.match(r"\w+=", line):
            key, value = line.split("=", 1)
            found.setdefault(key, []).append(value)
    return found


def belongs(path, uid, mode):
    os.chown(path, uid, uid)
    path.chmod(mode)


def handed_over(unit, said, uid):
    """The environment of the service: credentials are copies for it alone."""
    keys = pathlib.Path("/run/credentials", unit)
    state = pathlib.Path("/var/lib", said["StateDirectory"][0])
    keys.mkdir(parents=True)
    state.mkdir(parents=True, exist_ok=True)
    for name, source in (v.split(":") for v in said["LoadCredential"]):
        (keys / name).write_bytes(pathlib.Path(source).read_bytes())
        belongs(keys / name, uid, 0o400)
    belongs(keys, uid, 0o500)
    belongs(state, uid, 0o700)
    return {"CREDENTIALS_DIRECTORY": str(keys), "STATE_DIRECTORY": str(state),
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


def start(unit):
    said, uid = settings(unit), FIRST_UID + sum(unit.encode()) % 1000
    env = handed_over(unit, said, uid)
    ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    env["NOTIFY_SOCKET"] = f"/run/{unit}.notify"
    ready.bind(env["NOTIFY_SOCKET"])
    os.chmod(env["NOTIFY_SOCKET"], 0o666)
    words = [re.sub(r"\$\{(\w+)\}", lambda m: env[m[1]], w)
             for w in said["ExecStart"][0].split()]
    log = pathlib.Path("/var/log", f"{unit}.log")
    with log.open("wb") as out:
        daemon = subprocess.Popen(words, cwd="/", env=env, user=uid, group=uid,
                                  extra_groups=[], umask=int(said["UMask"][0], 8),
                                  stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                  start_new_session=True)
    ready.settimeout(1)
    for _ in range(LIMIT_S):
        try:
            if b"READY=1" in ready.recv(4096):
                return 0
        except TimeoutError:
            if daemon.poll() is not None:
                break
    print(f"Job for {unit}.service failed: {daemon.poll()}\n{log.read_text()}",
          file=sys.stderr)
    return 1


if __name__ == "__main__":
    if sys.argv[1:3] != ["enable", "--now"] or len(sys.argv) != 4:
        sys.exit(f"systemctl {sys.argv[1:]}: only enable --now UNIT is known here")
    sys.exit(start(sys.argv[3]))
