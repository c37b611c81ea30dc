# SPDX-License-Identifier: Apache-2.0
"""A cluster of which several coordinators stand by, with its journal in a real etcd.

    with Etcd() as e, Standbys(e, ttl="2s", psservers=2, workers=2) as c:
        c.leader()          the name of the coordinator whose key etcd has
        c.kill(c.leader())  as in cluster.py; another one leads then
        c.leads(but=old)    waits until another one serves

A coordinator that ends is started again by revive(), as a unit's Restart= does it.
"""
import re
import subprocess

import asker
from cluster import BIN, LIMIT, ROOT, Cluster, check, wait_for

PREFIX = "sluice"
KEY = f"{PREFIX}/leader"


class Standbys(Cluster):
    """Its members and clients know the addresses of all coordinators."""

    def __init__(self, etcd, coordinators=3, ttl="2s", **options):
        super().__init__(**options)
        self.etcd, self.ttl = etcd, ttl
        self.names = [f"coordinator-{i}" for i in range(coordinators)]
        self.places = [f"unix:{self.dir}/{name}.sock" for name in self.names]
        self.told = self.places  # where members find them
        self.address = ",".join(self.places)
        self.forget()  # serves() finds out whom it can ask

    def command(self, name):
        line = super().command(name)
        if name.startswith("coordinator"):
            line[line.index("--listen") + 1] = self.places[self.index(name)]
            line += self.journal(name)
        return line

    def journal(self, name):
        at = self.endpoints(name)
        return ["--journal", f"etcd://{at}/{PREFIX}", "--etcd-ttl", self.ttl]

    def endpoints(self, name):
        """Where this coordinator finds etcd."""
        return self.etcd.endpoints

    @staticmethod
    def index(name):
        return int(name.rsplit("-", 1)[1])

    def start_all(self):
        for name in self.names:
            self.start(name)
        self.leads()
        for i in range(self.counts["psserver"]):
            self.start(f"ps-{i}")
        for i in range(self.counts["worker"]):
            self.start(f"w-{i}")

    def wait_attached(self, *names):
        super().wait_attached(*(n for n in names if not n.startswith("coordinator")))

    # ---- which one leads

    def leader(self):
        """The name of the coordinator that etcd has a key of, or None."""
        value = self.etcd.get(KEY)
        return value and self.names[self.told.index(value.split()[0])]

    def forget(self):
        """Whom it asks over a connection, if anyone."""
        if self.asker:
            self.asker.close()
        self.asker = None

    def serves(self, name):
        """Whether a coordinator answers as the one that leads: then it is asked from here
        on for what this cluster is."""
        place = self.places[self.index(name)]
        if not asker.available() or not place.startswith("unix:"):
            return self.run("--coordinator", place, "--timeout", "2s", "-o", "json", "jobs",
                            want=None).returncode == 0
        if self.asker is None or self.asker.address != place:
            self.forget()
            self.asker = asker.Asker(place, ROOT / "proto")
        return self.asker.cluster(2 * LIMIT) is not None

    def leads(self, but=None, limit_s=60):
        """Waits until a coordinator, another one than `but`, leads and serves."""
        def probe():
            name = self.leader()
            return name and name != but and name in self.processes and self.serves(name) and name
        return wait_for("a coordinator to lead", probe, limit_s)

    def pause(self, name):
        super().pause(name)
        if name in self.names:
            self.forget()  # it would wait for that one

    def resign(self, name, want=0):
        """What ExecStopPost= of its unit does after it has died."""
        done = subprocess.run(
            [str(BIN / "coordinator"), "--state", str(self.dir / name), "--store",
             str(self.dir / "store"), *self.journal(name), "--resign"], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60 * LIMIT, check=False)
        check(done.returncode == want, f"--resign of {name}: exit {done.returncode}, wanted {want}",
              done.stdout, done.stderr)

    def ended(self, name, limit_s=60):
        """Waits until a coordinator has ended by itself; its exit."""
        process = self.processes[name]
        wait_for(f"{name} to end", lambda: process.poll() is not None, limit_s)
        del self.processes[name]
        return process.returncode

    def revive(self):
        """Starts each coordinator that has ended."""
        for name in self.names:
            if name in self.processes and self.processes[name].poll() is not None:
                del self.processes[name]
            if name not in self.processes:
                self.start(name)

    # ---- what they said

    def said(self, name, text):
        """When a coordinator last said it, as its log has it: later is greater."""
        lines = [line for line in self.log(name).splitlines() if text in line]
        check(lines, f"{name} does not say {text}")
        return re.search(r'"ts":"([^"]*)"', lines[-1])[1]

    def terms(self):
        """(when, term, name) of each time that a coordinator began to lead, in order."""
        found = []
        for log in {(self.dir / f"{name}.log").resolve() for name in self.names}:
            for line in log.read_text(errors="replace").splitlines():
                if '"this coordinator leads"' in line:
                    found.append((re.search(r'"ts":"([^"]*)"', line)[1],
                                  int(re.search(r'"term":(\d+)', line)[1]), log.stem))
        return sorted(found)

    def check_terms(self, least):
        """Each term was one coordinator's, and they rose in the order of time."""
        terms = [term for _, term, _ in self.terms()]
        check(len(terms) >= least, f"{least} were to lead, one after the other", self.terms())
        check(terms == sorted(set(terms)), "terms rise, and are given once", self.terms())
