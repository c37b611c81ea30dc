# SPDX-License-Identifier: Apache-2.0
"""What the daemons of a cluster say on their ops ports, read by stock code."""
import http.client
import json
import re
import urllib.error
import urllib.request

from cluster import LIMIT, check, wait_for

OPS = ("--ops-bind", "127.0.0.1:0")
LINE = re.compile(r'([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def address(c, name):
    """Where the newest process of that name has its ops port: its log says so."""
    def probe():
        found = [json.loads(line)["address"] for line in c.log(name).splitlines()
                 if '"msg":"ops port"' in line]
        return found[-1] if found else None
    return wait_for(f"{name} to open its ops port", probe)


def get(where, path, limit_s=20 * LIMIT):
    """(status, body); (0, why) if nobody answers."""
    try:
        with urllib.request.urlopen(f"http://{where}{path}", timeout=limit_s) as a:
            return a.status, a.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return 0, str(error)


def parse(text):
    """{(family's sample, ((label, value), ...)): number} of an exposition."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match = LINE.fullmatch(line)
        check(match, "a line that is no sample", line)
        name, labels, value = match.groups()
        key = (name, tuple(sorted(LABEL.findall(labels or ""))))
        check(key not in found, "the same series twice", line)
        found[key] = float(value)
    return found


def metrics(where):
    status, text = get(where, "/metrics")
    check(status == 200, f"/metrics of {where}", status, text)
    return parse(text)


def value(found, name, **labels):
    """The sum of all series of that name which have these labels."""
    want = set(labels.items())
    some = [v for (n, has), v in found.items() if n == name and want <= set(has)]
    check(some, f"no series {name} {labels}")
    return sum(some)
