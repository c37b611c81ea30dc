#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the daemons say is read by Prometheus itself: promtool takes the figures
and the alerts, and a server that scrapes a cluster answers with the truth and
knows each expression of the dashboard."""
import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.parse

from cluster import LIMIT, ROOT, Cluster, check, check_equal, main, mlp_job, wait_for
from scrape import OPS, address, get

DEPLOY = ROOT / "deploy"
NAME = re.compile(r"\b(?:sluice|process)_[a-z_]+")


def promtool(*words, text=None):
    done = subprocess.run(["promtool", *map(str, words)], input=text, text=True,
                          capture_output=True, timeout=60, check=False,
                          cwd=DEPLOY / "prometheus")
    check_equal(done.returncode, 0, f"promtool {words}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def alerts_come_when_they_should():
    promtool("check", "rules", "alerts.yml")
    check("SUCCESS" in promtool("test", "rules", "alerts_test.yml"), "no success")
    promtool("check", "config", "--syntax-only", "prometheus.yml")


@contextlib.contextmanager
def prometheus(folder, targets):
    """The address of a server that scrapes these."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{s.getsockname()[1]}"
    config = folder / "prometheus.yml"
    config.write_text(json.dumps({
        "global": {"scrape_interval": "1s"},
        "rule_files": [str(DEPLOY / "prometheus" / "alerts.yml")],
        "scrape_configs": [{"job_name": "sluice",
                            "static_configs": [{"targets": targets}]}]}))
    with open(folder / "prometheus.log", "wb") as log:
        process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--web.listen-address={where}",
             f"--storage.tsdb.path={folder}/tsdb"], stdout=log, stderr=log)
    try:
        wait_for("prometheus to be ready", lambda: get(where, "/-/ready")[0] == 200)
        yield where
    finally:
        process.terminate()
        process.wait(timeout=60 * LIMIT)


def query(where, expression):
    """(status of HTTP, the vector or why not)."""
    status, text = get(where, "/api/v1/query?" + urllib.parse.urlencode(
        {"query": expression}))
    told = json.loads(text)
    return status, told["data"]["result"] if status == 200 else told["error"]


def expressions():
    """Those of the dashboard, as Grafana would send them; and of the alerts."""
    board = json.loads(subprocess.run([DEPLOY / "grafana" / "dashboard.py"], check=True,
                                      capture_output=True, text=True).stdout)
    found = [t["expr"] for p in board["panels"] for t in p.get("targets", [])]
    found += [a["expr"] for a in board["annotations"]["list"]]
    # As the adapter asks for the autoscaler, but for the labels of pods.
    rule = (DEPLOY / "prometheus" / "adapter.yml").read_text()
    series = re.search(r"seriesQuery: '(\w+)", rule)[1]
    found.append(re.search(r"metricsQuery: '(.+)'", rule)[1].replace("<<.Series>>", series)
                 .replace("<<.LabelMatchers>>", "").replace("<<.GroupBy>>", "instance"))
    check(len(found) > 50, "the dashboard shows little", len(found))
    return [e.replace("$__rate_interval", "1m") for e in found]


def prometheus_scrapes_a_cluster_and_tells_the_truth():
    with Cluster(psservers=1, workers=1, coordinator_args=(*OPS, "--metrics-per-job"),
                 psserver_args=OPS, worker_args=OPS) as c:
        going = c.dir / "going"
        going.write_text("2099-01-01T00:00:00Z")
        c.start("w-1", extra=["--preempt-source", f"file:{going}"])  # waits, and says so
        targets = [address(c, name) for name in ("coordinator", "ps-0", "w-0", "w-1")]
        for where in targets:
            promtool("check", "metrics", text=get(where, "/metrics")[1])
        job = c.submit(mlp_job(samples=3200, epochs=2))
        with prometheus(c.dir, targets) as server:
            status = c.wait_state(job)
            applied = sum(int(s["counts"]["applied"]) for s in status["shards"])

            def scraped(expression, want):
                def probe():
                    _, vector = query(server, expression)
                    return vector and float(vector[0]["value"][1]) == want
                wait_for(f"{expression} to be {want}", probe)
            scraped("sum(up)", 4)
            scraped("sum(sluice_samples_counted_total)", 6400)
            scraped('sum(sluice_pushes_total{result="applied"})', applied)
            scraped("sum(sluice_samples_total)", 6400)
            scraped("count(sluice_preemption_notice_remaining_seconds)", 1)
            scraped("max(sluice_preemption_notice_remaining_seconds + timestamp(up)) > bool 4070908795", 1)
            # OpenMetrics is what it asks for.
            scraped('count(sluice_build_info{role="psserver"})', 1)
            other = c.submit(mlp_job("other", epochs=1000))
            c.wait_steps(other, 20)
            scraped(f'count(sluice_job_loss{{id="{other}"}} > 0)', 1)
            scraped(f'sum(sluice_job_workers{{id="{other}"}})', 1)
            scraped(f'absent(sluice_job_loss{{id="{job}"}})', 1)
            promtool("check", "metrics", text=get(targets[0], "/metrics")[1])
            known = {name for where in targets
                     for name in NAME.findall(get(where, "/metrics")[1])}
            rules = (DEPLOY / "prometheus" / "alerts.yml").read_text()
            for expression in expressions():
                code, told = query(server, expression)
                check_equal(code, 200, f"{expression}: {told}")
            for name in NAME.findall(" ".join(expressions()) + rules):
                check(name in known, f"no daemon says {name}")


if __name__ == "__main__":
    unpacked = ROOT / "build/unpacked/usr/bin"
    os.environ["PATH"] += f":{unpacked}"  # tools/unpack-packages
    if shutil.which("prometheus") is None or shutil.which("promtool") is None:
        print("skipped: Prometheus is not there (tools/unpack-packages build/unpacked)")
        sys.exit(77)
    main([
        alerts_come_when_they_should,
        prometheus_scrapes_a_cluster_and_tells_the_truth,
    ])
