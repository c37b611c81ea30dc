# SPDX-License-Identifier: Apache-2.0
"""A Slurm of one host for tests: munged, slurmctld and slurmd of Debian in a folder
and at ports of their own, without systemd or cgroups, ended by pid.

Two partitions share eight processors that exist in name only: `stable` is never
preempted, `spot` is, by jobs of `urgent`."""
import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile

from cluster import BIN, check, free_port, wait_for

PROGRAMS = ("munged", "slurmctld", "slurmd", "slurmstepd", "sbatch", "srun", "scontrol", "squeue")
GRACE_S = 60
CONF = """
ClusterName=sluice
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld}
SlurmdPort={d}
AuthType=auth/munge
# Without cred_expire a job that was preempted waits two minutes.
AuthInfo=socket={dir}/munge/socket,cred_expire=5
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd.pid
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile={dir}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=bf_interval=5,sched_interval=5
JobRequeue=1
KillWait=5
ReturnToService=2
NodeName=localhost NodeHostName={host} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=stable Nodes=localhost PriorityTier=10 PreemptMode=OFF
PartitionName=spot Nodes=localhost PriorityTier=1 PreemptMode=REQUEUE GraceTime={grace}
PartitionName=urgent Nodes=localhost PriorityTier=10 PreemptMode=OFF
"""


def missing():
    """Why there can be no Slurm here; "" if there can."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    gone = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if gone:
        return f"no {gone[0]} (Debian: slurmctld slurmd slurm-client munge)"
    return "" if os.geteuid() == 0 else "slurmd wants root"


def free_ports(count):
    found = set()
    while len(found) < count:
        found.add(free_port())
    return list(found)


class Slurm:
    """with Slurm() as s: s.call("sbatch", ...)"""

    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="sluice-slurm-"))
        self.processes = []
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("SLURM_")}
        self.env |= {"PATH": f"{BIN}:{os.environ['PATH']}:/usr/sbin:/sbin",
                     "SLURM_CONF": str(self.dir / "slurm.conf")}

    def spawn(self, *words):
        with open(self.dir / f"{words[0]}.out", "wb") as log:
            self.processes.append(subprocess.Popen(
                words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.env,
                cwd=self.dir))

    def __enter__(self):
        ctld, d = free_ports(2)
        munge = self.dir / "munge"
        for folder in (munge, self.dir / "state", self.dir / "spool"):
            folder.mkdir(mode=0o700)
        (munge / "key").write_bytes(os.urandom(128))
        (munge / "key").chmod(0o400)
        (self.dir / "slurm.conf").write_text(CONF.format(
            host=socket.gethostname().split(".")[0], dir=self.dir, ctld=ctld, d=d, grace=GRACE_S))
        try:
            self.spawn("munged", "--foreground", "--force", f"--key-file={munge}/key",
                       f"--socket={munge}/socket", f"--pid-file={munge}/pid",
                       f"--log-file={munge}/log", f"--seed-file={munge}/seed")
            wait_for("munged", (munge / "socket").exists, 30)
            self.spawn("slurmctld", "-D")
            self.spawn("slurmd", "-D")
            wait_for("an idle node", lambda: "idle" in self.ask("sinfo", "-h", "-o", "%T"), 60)
        except BaseException:
            self.__exit__(True, None, None)
            raise
        return self

    def ask(self, *words):
        """What it prints, whether it worked or not."""
        return subprocess.run(words, capture_output=True, text=True, check=False, env=self.env,
                              cwd=self.dir, timeout=60).stdout

    def call(self, *words, **environment):
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=self.dir,
                              env={**self.env, **environment}, timeout=60)
        check(done.returncode == 0, f"{words[0]}: exit {done.returncode}", done.stderr)
        return done.stdout.strip()

    def job(self, number):
        """The fields of `scontrol show job`."""
        told = self.ask("scontrol", "--oneliner", "show", "job", str(number))
        return dict(word.partition("=")[::2] for word in told.split() if "=" in word)

    def state(self, number):
        return self.job(number).get("JobState")

    def wait_state(self, number, state, limit_s):
        wait_for(f"job {number} to be {state}", lambda: self.state(number) == state, limit_s)

    def tell(self):
        print(self.ask("squeue", "--all"))
        for path in sorted([*self.dir.glob("slurm*.out"), *self.dir.glob("slurmctld.log")]):
            print(f"---- {path.name}", *path.read_text(errors="replace").splitlines()[-40:],
                  sep="\n")

    def __exit__(self, kind, error, trace):
        if kind:
            self.tell()
        self.ask("scancel", "--user=root")
        with contextlib.suppress(Exception):
            wait_for("jobs to end", lambda: not self.ask("squeue", "-h").strip(), 30)
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.end_rest()
        shutil.rmtree(self.dir, ignore_errors=True)

    def end_rest(self):
        """Whoever of ours is left: their environment names the folder."""
        for proc in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"SLURM_CONF={self.dir}/".encode() in (proc / "environ").read_bytes():
                    os.kill(int(proc.name), 9)
