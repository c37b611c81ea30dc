#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The systemd units refuse system calls with an error, never by killing, and
not those that our daemons make of their own accord; they end, start and hand
over keys as deploy/README.md says. Where systemd-analyze is, also: nothing to
complain about, and exposed no more than MOST.

    units.py            the checks; exit status 1: something is wrong
    units.py --analyze  what systemd-analyze says; 77: there is none
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
# common/run/background.c, prompt.c; pinned threads of core, of oneDNN and of CUDA.
OURS = {"setpriority", "sched_setaffinity", "sched_setattr"}
# systemd-analyze security: 0 is locked up, 10 open.
MOST = {"sluice-coordinator": 1.5, "sluice-psserver": 1.5, "sluice-worker": 2.5}
HAVE = {"Type": "notify", "DynamicUser": "yes", "RestartPreventExitStatus": "1 2",
        "SuccessExitStatus": "143", "LimitCORE": "0"}
TLS = {"ca": "ca.crt", "cert": "{}.crt", "key": "{}.key"}


def settings(unit):
    """Pairs of name and value, lines that go on joined."""
    text = unit.read_text().replace("\\\n", " ")
    return [line.partition("=")[::2] for line in text.splitlines()
            if re.match(r"[A-Z]\w+=", line)]


def complaints(unit):
    pairs = settings(unit)
    values = dict(pairs)
    filters = [value for key, value in pairs if key == "SystemCallFilter"]
    last = [i for i, value in enumerate(filters) if value.startswith("~")][-1]
    allowed = {word for value in filters[last + 1:] for word in value.split()}
    if values.get("SystemCallErrorNumber") != "EPERM":
        yield "SystemCallErrorNumber=EPERM is missing: a refused call would kill"
    for call in sorted(OURS - allowed):
        yield f"{call} is refused (@resources) and not allowed again"
    for key, value in HAVE.items():
        if values.get(key) != value:
            yield f"{key}={value} is missing"
    if not 0 < int(values.get("WatchdogSec", 0)) <= 60:
        yield "WatchdogSec= is missing: a loop that stands still would stay"
    yield from keys(unit.stem.removeprefix("sluice-"), pairs, values)


def keys(role, pairs, values):
    """The daemon reads what LoadCredential= hands over, and nothing else."""
    for flag, name in TLS.items():
        name = name.format(role)
        if ("LoadCredential", f"{name}:/etc/sluice/tls/{name}") not in pairs:
            yield f"LoadCredential={name} is missing"
        if f"--tls-{flag} ${{CREDENTIALS_DIRECTORY}}/{name}" not in values["ExecStart"]:
            yield f"--tls-{flag} does not name the credential {name}"


def analyze(*arguments):
    ran = subprocess.run(["systemd-analyze", "--no-pager", *map(str, arguments)],
                         capture_output=True, text=True, check=False)
    return ran.stdout + ran.stderr


def exposed(unit):
    out = analyze("security", "--offline=true", unit)
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", out)
    if found is None:
        yield f"systemd-analyze security gives no level: {out[-500:]}"
    elif float(found[1]) > MOST[unit.stem]:
        yield f"exposure level {found[1]}, {MOST[unit.stem]} is the most"


def ha(pairs):
    """Standby coordinators: one that was killed resigns, and starts again whatever its
    end, but for what trying again does not mend."""
    values = dict(pairs)
    for name in ("ca.pem", "cert.pem", "key.pem"):
        if ("LoadCredential", f"{name}:/etc/sluice/etcd/{name}") not in pairs:
            yield f"LoadCredential={name} is missing"
    if not re.match(r"[-+]*/usr/bin/sluice-coordinator .*--resign$", values["ExecStopPost"]):
        yield "ExecStopPost= does not resign"
    if [v for k, v in pairs if k == "RestartPreventExitStatus"] != ["", "2"]:
        yield "one that has lost its lease (1) is not started again"


def verified(unit, folder, dropin=None):
    """Of a copy whose program is there; what other units lack is not ours."""
    copy = folder / unit.name
    copy.write_text(unit.read_text().replace(f"/usr/bin/{unit.stem}", "/bin/true"))
    if dropin is not None:
        (folder / f"{unit.name}.d").mkdir()
        (folder / f"{unit.name}.d" / dropin.name).write_text(
            dropin.read_text().replace(f"/usr/bin/{unit.stem}", "/bin/true"))
    for line in analyze("verify", "--man=no", copy).splitlines():
        if str(folder) in line or line.startswith(unit.name):
            yield f"systemd-analyze verify: {line}"


DROPINS = {"worker-gpu.conf": "sluice-worker", "coordinator-ha.conf": "sluice-coordinator"}


def analyzed(units):
    for unit in units:
        yield unit, exposed(unit)
        with tempfile.TemporaryDirectory() as folder:
            yield unit, verified(unit, pathlib.Path(folder))
    for name, unit in DROPINS.items():
        dropin = ROOT / "deploy" / name
        with tempfile.TemporaryDirectory() as folder:
            yield dropin, verified(ROOT / f"deploy/{unit}.service", pathlib.Path(folder), dropin)


def main():
    units = sorted((ROOT / "deploy").glob("*.service"))
    standby = ROOT / "deploy/coordinator-ha.conf"
    found = [*((unit, complaints(unit)) for unit in units), (standby, ha(settings(standby)))]
    if "--analyze" in sys.argv:
        if shutil.which("systemd-analyze") is None:
            print("skipped: no systemd-analyze (Debian: systemd)")
            return 77
        found = analyzed(units)
    bad = [f"{unit.name}: {text}" for unit, texts in found for text in texts]
    print("\n".join(bad) or f"{len(units)} units")
    return 1 if bad or {unit.stem for unit in units} != set(MOST) else 0


sys.exit(main())
