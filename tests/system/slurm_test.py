#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deploy/slurm under the real Slurm: a job of a higher partition preempts the
workers, or psservers that came later; they come again, and the training ends with
every step counted once.

By hand, since it waits for Slurm's intervals. Skipped where Debian's slurmctld, slurmd, slurm-client and munge are not
installed, or without root."""
import json
import sys

from cluster import ROOT, check, check_equal, main, mlp_job, wait_for
from slurm import GRACE_S, Slurm, free_ports, missing

SCRIPTS = ROOT / "deploy" / "slurm"


def submit_cluster(s, spec, workers="--ntasks=2"):
    """cluster.sbatch with a coordinator and two psservers, and two workers."""
    port = free_ports(1)[0]
    (s.dir / "job.json").write_text(json.dumps(spec))
    number = s.call("sbatch", "--parsable", f"--chdir={s.dir}", str(SCRIPTS / "cluster.sbatch"),
                    str(s.dir / "job.json"), "--summary", str(s.dir / "summary.json"),
                    SLUICE_BASE_PORT=str(port), SLUICE_DATA_ROOT="/",
                    SLUICE_THREADS="1", SLUICE_WORKERS_OPTIONS=workers)
    return number, f"localhost:{port}"


def status(s, address):
    told = s.ask("sluice", "--coordinator", address, "-o", "json", "status", "j-1")
    return json.loads(told) if told.startswith("{") else {"steps_counted": 0, "state": "none"}


def wait_steps(s, address, steps, limit_s=90):
    def probe():
        now = status(s, address)
        check(now["state"] in ("none", "running", "queued", "preparing", "placing"), now["state"])
        return int(now["steps_counted"]) >= steps
    wait_for(f"{steps} steps", probe, limit_s)


def members(s, address, role):
    told = s.ask("sluice", "--coordinator", address, "-o", "json", "status")
    found = json.loads(told)["members"] if told.startswith("{") else []
    return [m["name"] for m in found if m["role"] == role and m["state"] != "lost"]


def preempted_workers_come_again_and_each_step_counts_once():
    with Slurm() as s:
        cluster, address = submit_cluster(s, mlp_job("slurm", epochs=100, steps_per_closure=10))
        wait_steps(s, address, 20)
        workers = (s.dir / "cluster" / "workers").read_text().strip()
        check_equal(sorted(members(s, address, "worker")),
                    [f"worker-{workers}-{i}" for i in range(2)], "workers")
        retried = int(status(s, address)["closures_retried"])
        urgent = s.call("sbatch", "--parsable", "--partition=urgent", "--ntasks=5",
                        "--wrap", "sleep 3")
        wait_for("the workers to be preempted", lambda: not members(s, address, "worker"), 60)
        check(status(s, address)["state"] == "running", status(s, address)["state"])
        # They were told and drained: nobody's closure had to be done again.
        check_equal(int(status(s, address)["closures_retried"]), retried, "closures retried")
        before = int(status(s, address)["steps_counted"])
        s.wait_state(urgent, "COMPLETED", 60)
        wait_for("the workers to come again", lambda: members(s, address, "worker"), 90)
        check_equal(s.job(workers)["Restarts"], "1", "restarts of the workers' job")
        wait_steps(s, address, before + 20)
        check_end(s, cluster)
        s.wait_state(workers, "CANCELLED", 60)


def shards(s, address):
    """{psserver: how many shards of the job}."""
    where = [shard["psserver"] for shard in status(s, address).get("shards", [])]
    return {name: where.count(name) for name in where}


def psservers_come_and_go_and_each_step_counts_once():
    with Slurm() as s:
        spec = mlp_job("slurm", epochs=150, steps_per_closure=10)
        spec["placement"] = {"shard_bytes": 16384}
        # Workers stay, so that only the psserver is preempted.
        cluster, address = submit_cluster(s, spec, "--ntasks=2 --partition=stable")
        wait_steps(s, address, 20)
        check(sum(shards(s, address).values()) >= 6, "too few shards", shards(s, address))
        number = s.call("sbatch", "--parsable", "--ntasks=1", str(SCRIPTS / "psservers.sbatch"),
                        SLUICE_DIR=str(s.dir / "cluster"), SLUICE_GRACE=f"{GRACE_S - 5}s")
        name = f"ps-{number}-0"
        wait_for("shards to move to it", lambda: name in shards(s, address), 90)
        urgent = s.call("sbatch", "--parsable", "--partition=urgent", "--ntasks=3",
                        "--wrap", "sleep 3")
        wait_for("it to be preempted", lambda: name not in members(s, address, "psserver"), 60)
        # It was told and gave all away: nobody waits for it.
        check(name not in shards(s, address), "it has shards still", shards(s, address))
        now = status(s, address)
        check_equal((now["state"], int(now["psservers_lost"])), ("running", 0), "without it")
        wait_steps(s, address, int(now["steps_counted"]) + 20)
        s.wait_state(urgent, "COMPLETED", 60)
        wait_for("it to come again", lambda: name in shards(s, address), 120)
        check_equal(s.job(number)["Restarts"], "1", "restarts of the psserver's job")
        check_end(s, cluster)
        s.wait_state(number, "CANCELLED", 60)


def check_end(s, cluster):
    s.wait_state(cluster, "COMPLETED", 240)
    told = json.loads((s.dir / "summary.json").read_text())
    check_equal((told["job"], told["state"]), ("j-1", "finished"), "end")
    check_equal((told["once"], told["cover"]), (True, True), "once and cover")
    check_equal(told["steps_counted"], told["steps_asked"], "steps counted")


def a_cluster_whose_time_is_over_goes_on_in_another_life():
    """Its script is told as by --signal=B:TERM@60, before the time limit."""
    with Slurm() as s:
        cluster, address = submit_cluster(s, mlp_job("slurm", epochs=20, steps_per_closure=10))
        wait_steps(s, address, 20)
        workers = (s.dir / "cluster" / "workers").read_text()
        s.call("scancel", "--batch", "--signal=TERM", cluster)
        wait_for("another life", lambda: s.job(cluster)["Restarts"] == "1", 60)
        check_end(s, cluster)
        check((s.dir / "cluster" / "coordinator").is_dir(), "no state")
        s.wait_state(workers.strip(), "CANCELLED", 60)


if __name__ == "__main__":
    why = missing()
    if why:
        print(f"skipped: {why}")
        sys.exit(77)
    main([preempted_workers_come_again_and_each_step_counts_once,
          psservers_come_and_go_and_each_step_counts_once,
          a_cluster_whose_time_is_over_goes_on_in_another_life])
