# SPDX-License-Identifier: Apache-2.0
"""The table of figures of docs/operations.md, from what the daemons say.

    catalogue.py < FILE    a table of expositions that follow each other
"""
import re
import sys

ROLES = ("coordinator", "psserver", "worker")
# Families without a sample before there is a shard, a job, a certificate, or a
# handler that held the loop.
LATER = {"sluice_shard_version": {"shard": None},
         "sluice_table_tenant_bytes": {"tenant": None},
         "sluice_table_tenant_bytes_limit": {"tenant": None},
         "sluice_table_tenant_disk_bytes": {"tenant": None},
         "sluice_table_tenant_disk_bytes_limit": {"tenant": None},
         **{f"sluice_event_loop_held_{unit}": {"handler": None} for unit in (
             "total", "seconds")},
         **{f"sluice_job_{name}": {"id": None} for name in (
             "steps", "progress_ratio", "loss", "accuracy_ratio", "samples_per_second",
             "workers", "closure_retries_total", "pushed_bytes_per_sample",
             "contribution_norm", "contributions_set_aside_total",
             "staleness_updates", "moments_age_contributions", "cut_age_seconds")},
         "sluice_tls_certificate_expiry_timestamp_seconds": {"file": None}}


def families(text):
    """{family: (type, help, labels)} of an exposition, in its order."""
    found, labels = {}, {name: dict(names) for name, names in LATER.items()}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, words = line[7:].split(" ", 1)
            found[name] = ["", words]
        elif line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            found[name][0] = kind
        else:
            sample = re.split(r"[{ ]", line, maxsplit=1)[0]
            name = max((n for n in found if sample.startswith(n)), key=len)
            labels.setdefault(name, {}).update(
                (l, None) for l in re.findall(r'(\w+)="', line) if l != "le")
    return {name: (kind, words, tuple(labels.get(name, ())))
            for name, (kind, words) in found.items()}


def table(by_role):
    """Lines of a table, of {role: exposition}."""
    rows = {}
    for role, text in by_role.items():
        for name, (kind, words, labels) in families(text).items():
            rows.setdefault(name, [kind, words, {}, []])
            rows[name][2].update((l, None) for l in labels)
            rows[name][3].append(role)
    lines = ["| figure | labels | of | what |", "| --- | --- | --- | --- |"]
    for name, (kind, words, labels, roles) in rows.items():
        of = "all" if len(roles) == len(ROLES) else ", ".join(roles)
        kind = " (histogram)" if kind == "histogram" else ""
        lines.append(f"| `{name}`{kind} | {', '.join(labels)} | {of} | {words} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table(dict(zip(ROLES, re.split(
        "(?=# HELP sluice_build_info)", sys.stdin.read())[1:])))))
