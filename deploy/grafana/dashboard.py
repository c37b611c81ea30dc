#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a Grafana dashboard of all figures, for Grafana to import:

    deploy/grafana/dashboard.py > sluice.json

BOARD is the table of its panels. docs/operations.md lists the figures, and
tests/system/prometheus_test.py asks a Prometheus for each expression.
"""
import json
import sys

STAT, LINES = "stat", "timeseries"
HEIGHT = {STAT: 4, LINES: 8}
OPTIONS = {
    STAT: {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value"},
    LINES: {"legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi"}},
}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}

# Section, its lines of panels, and of each panel the kind, title, unit, and
# expressions with legends. [R] stands for Grafana's interval of rates.
BOARD = [
    ("Is it healthy, does it move", [
        [
            (STAT, "Samples counted", "cps",
             ("sum(rate(sluice_samples_counted_total[R]))", "samples/s")),
            (STAT, "Jobs running", "short",
             ('sum(sluice_jobs{state="running"})', "running")),
            (STAT, "Workers ready", "short",
             ('sum(sluice_workers{state="ready"})', "ready")),
            (STAT, "Psservers away", "short",
             ('sum(sluice_psservers{state=~"lost|suspect"})', "away")),
            (STAT, "Nothing counted for", "s",
             ("max(sluice_uncounted_seconds)", "longest")),
            (STAT, "Age of a checkpoint", "s",
             ("max(sluice_cut_age_seconds)", "oldest")),
        ],
        [
            (LINES, "Samples and closures", "cps",
             ("sum(rate(sluice_samples_counted_total[R]))", "samples/s"),
             ('sum(rate(sluice_closures_finished_total{result="counted"}[R]))', "closures/s")),
            (LINES, "Jobs", "short",
             ("sum by (state) (sluice_jobs) > 0", "{{state}}")),
            (LINES, "Closures of jobs that go on", "short",
             ("sum by (state) (sluice_closures)", "{{state}}")),
        ],
    ]),
    ("Who comes and goes", [
        [
            (LINES, "Workers", "short",
             ("sum by (state) (sluice_workers)", "{{state}}")),
            (LINES, "Psservers", "short",
             ("sum by (state) (sluice_psservers)", "{{state}}")),
            (LINES, "Lost and preempted", "short",
             ("sum by (role) (increase(sluice_members_lost_total[5m]))", "{{role}} lost"),
             ("sum by (source) (increase(sluice_worker_preemptions_total[5m])) > 0",
              "preempted: {{source}}")),
            (LINES, "Retries", "short",
             ("sum by (reason) (increase(sluice_closure_retries_total[5m]))", "{{reason}}"),
             ("sum(increase(sluice_closures_reissued_total[5m]))", "a shard fell back")),
        ],
    ]),
    ("Workers", [
        [
            (LINES, "A step, mean by phase", "s",
             ("sum by (phase) (rate(sluice_step_seconds_sum[R])) / sum by (phase) (rate(sluice_step_seconds_count[R]))",
              "{{phase}}")),
            (LINES, "Waiting for shards, p99 of each worker", "s",
             ('histogram_quantile(0.99, sum by (le, instance) (rate(sluice_step_seconds_bucket{phase="pull"}[R])))',
              "{{instance}}")),
            (LINES, "Steps", "cps",
             ("sum by (result) (rate(sluice_steps_total[R]))", "{{result}}")),
            (LINES, "Staleness", "short",
             ("histogram_quantile(0.5, sum by (le) (rate(sluice_staleness_updates_bucket[R])))",
              "p50"),
             ("histogram_quantile(0.99, sum by (le) (rate(sluice_staleness_updates_bucket[R])))",
              "p99")),
        ],
        [
            (LINES, "Not finite", "short",
             ("sum by (action) (increase(sluice_nonfinite_gradients_total[5m]))", "{{action}}")),
            (LINES, "Loss scale (f16)", "short",
             ("sluice_loss_scale > 0", "{{instance}}")),
            (LINES, "Rings", "short",
             ("max by (instance) (sluice_ring_generation) > 0", "generation, {{instance}}"),
             ("sum by (reason) (increase(sluice_ring_aborts_total[5m]))", "torn: {{reason}}")),
            (LINES, "Leases held", "short",
             ("sum by (instance) (sluice_worker_leases)", "{{instance}}")),
        ],
    ]),
    ("Psservers", [
        [
            (LINES, "Pushes", "cps",
             ("sum by (result) (rate(sluice_pushes_total[R]))", "{{result}}"),
             ("sum(rate(sluice_pulls_total[R]))", "pulls")),
            (LINES, "Apply, p50 and p99", "s",
             ("histogram_quantile(0.5, sum by (le) (rate(sluice_apply_seconds_bucket[R])))", "p50"),
             ("histogram_quantile(0.99, sum by (le) (rate(sluice_apply_seconds_bucket[R])))",
              "p99")),
            (LINES, "Waiting for a shard's lock, p99", "s",
             ("histogram_quantile(0.99, sum by (le, instance) (rate(sluice_shard_lock_wait_seconds_bucket[R])))",
              "{{instance}}")),
            (LINES, "Version of each shard", "short",
             ("max by (shard) (sluice_shard_version)", "{{shard}}")),
        ],
        [
            (LINES, "Parameters", "bytes",
             ("sum by (instance, kind) (sluice_parameter_bytes)", "{{instance}} {{kind}}")),
            (LINES, "Snapshots", "short",
             ("sum by (result) (increase(sluice_snapshots_total[5m]))", "{{result}}")),
            (LINES, "Writing a snapshot, p99", "s",
             ("histogram_quantile(0.99, sum by (le) (rate(sluice_snapshot_seconds_bucket[R])))",
              "p99"),
             ("max(sluice_snapshot_age_seconds)", "oldest")),
            (LINES, "Counted sets", "short",
             ("sum by (instance) (sluice_counted_set_entries)", "{{instance}}")),
        ],
    ]),
    ("Coordinator", [
        [
            (LINES, "Journal: commits", "s",
             ("histogram_quantile(0.5, sum by (le) (rate(sluice_journal_commit_seconds_bucket[R])))",
              "p50"),
             ("histogram_quantile(0.99, sum by (le) (rate(sluice_journal_commit_seconds_bucket[R])))",
              "p99")),
            (LINES, "Checkpoints", "short",
             ("sum by (result) (increase(sluice_cuts_total[5m]))", "{{result}}")),
            (LINES, "Term and map", "short",
             ("max(sluice_coordinator_term)", "term"),
             ("max(sluice_map_version)", "map")),
            (LINES, "Wait for another worker, p99", "s",
             ("histogram_quantile(0.99, sum by (le) (rate(sluice_closure_wait_seconds_bucket[R])))",
              "p99")),
        ],
    ]),
    ("Every process", [
        [
            (LINES, "Calls", "cps",
             ("sum by (method) (rate(sluice_rpc_requests_total[R]))", "{{method}}")),
            (LINES, "Calls that failed", "cps",
             ('sum by (method, code) (rate(sluice_rpc_requests_total{code!="OK"}[R]))',
              "{{method}} {{code}}")),
            (LINES, "Calls, p99", "s",
             ("histogram_quantile(0.99, sum by (le, method) (rate(sluice_rpc_duration_seconds_bucket[R])))",
              "{{method}}")),
            (LINES, "Refused", "cps",
             ("sum by (reason) (rate(sluice_refused_total[R]))", "{{reason}}")),
        ],
        [
            (LINES, "Processor", "percentunit",
             ("rate(process_cpu_seconds_total[R])", "{{instance}}")),
            (LINES, "Memory", "bytes",
             ("process_resident_memory_bytes", "{{instance}}")),
            (LINES, "Descriptors", "short",
             ("process_open_fds", "{{instance}}")),
            (LINES, "Lateness of the loop, p99", "s",
             ("histogram_quantile(0.99, sum by (le, instance) (rate(sluice_event_loop_lag_seconds_bucket[R])))",
              "{{instance}}")),
        ],
        [
            (LINES, "Bytes of calls", "Bps",
             ("sum by (instance) (rate(sluice_rpc_sent_bytes_total[R]))", "sent, {{instance}}"),
             ("sum by (instance) (rate(sluice_rpc_received_bytes_total[R]))",
              "received, {{instance}}")),
            (LINES, "Certificates end in", "s",
             ("sluice_tls_certificate_expiry_timestamp_seconds - time()", "{{instance}} {{file}}")),
            (LINES, "Versions", "short",
             ("count by (version, role) (sluice_build_info)", "{{role}} {{version}}")),
        ],
    ]),
    ("Notices and GPUs", [
        [
            (LINES, "Until a machine is taken away", "s",
             ("min by (instance) (sluice_preemption_notice_remaining_seconds)", "{{instance}}")),
            (LINES, "Memory of jobs, and what the GPUs have", "bytes",
             ("sum by (instance, kind) (sluice_device_memory_bytes)", "{{instance}} {{kind}}")),
        ],
    ]),
    ("Single jobs (coordinator --metrics-per-job)", [
        [
            (LINES, "Loss", "short",
             ("max by (id) (sluice_job_loss)", "{{id}}")),
            (LINES, "Progress, accuracy", "percentunit",
             ("max by (id) (sluice_job_progress_ratio)", "{{id}}"),
             ("max by (id) (sluice_job_accuracy_ratio)", "{{id}} accuracy")),
            (LINES, "Samples a second", "cps",
             ("max by (id) (sluice_job_samples_per_second)", "{{id}}")),
            (LINES, "Workers, retries", "short",
             ("max by (id) (sluice_job_workers)", "{{id}}"),
             ("sum by (id) (increase(sluice_job_closure_retries_total[5m]))", "{{id}} retries")),
        ],
    ]),
]


def panel(kind, title, unit, *shown):
    """A panel without its place."""
    return {
        "type": kind, "title": title, "datasource": SOURCE,
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "options": OPTIONS[kind],
        "targets": [{"refId": chr(ord("A") + i), "legendFormat": legend,
                     "expr": expression.replace("[R]", "[$__rate_interval]")}
                    for i, (expression, legend) in enumerate(shown)]}


def panels():
    """All panels, each with its number and place; those of a line share its width."""
    found, y = [], 0

    def add(one, h, w, x):
        found.append({**one, "id": len(found) + 1,
                      "gridPos": {"h": h, "w": w, "x": x, "y": y}})
    for title, lines in BOARD:
        add({"type": "row", "title": title, "collapsed": False, "panels": []}, 1, 24, 0)
        y += 1
        for line in lines:
            wide, high = 24 // len(line), HEIGHT[line[0][0]]
            for i, row in enumerate(line):
                add(panel(*row), high, wide, i * wide)
            y += high
    return found


def dashboard():
    """The whole dashboard, as Grafana reads it."""
    return {
        "title": "Sluice", "uid": "sluice", "tags": ["sluice"], "schemaVersion": 37,
        "version": 1, "editable": True, "refresh": "10s", "timezone": "browser",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [{
            "name": "datasource", "type": "datasource", "query": "prometheus",
            "label": "Prometheus", "hide": 0, "current": {}, "options": [], "refresh": 1}]},
        "annotations": {"list": [{
            "name": "Preemptions", "enable": True, "iconColor": "orange",
            "datasource": SOURCE, "titleFormat": "preempted: {{source}}",
            "expr": "sum by (source) (increase(sluice_worker_preemptions_total[1m])) > 0"}]},
        "panels": panels()}


if __name__ == "__main__":
    json.dump(dashboard(), sys.stdout, indent=2)
    print()
