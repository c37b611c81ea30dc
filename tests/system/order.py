# SPDX-License-Identifier: Apache-2.0
"""That at no time two coordinators lead: by the order in which etcd has their writes,
and by the times at which each of them sent leases.

    told = Told({"coordinator-0": path, ...})   their logs, at level debug
    told.read()                                 what is new in them
    told.terms                                  [(when, term, name)], as they began
    judge(changes(etcd), told)                  (violations, figures)

etcd has the history of each key until it is compacted, so one look at the end tells
what was written when, and under which leadership (docs/protocol.md, H1 and H3).
"""
import base64
import collections
import contextlib
import json
import re
import subprocess

from cluster import LIMIT, check
from etcd import CTL

LEADER = b"leader"
RECORD = re.compile(rb"(tasks/|events/|)log/([0-9a-f]{16})")
# The row of the term in a set of changes of SQLite: its key and the number of before,
# then the number of after.
TERM = re.compile(rb"\x03\x04term\x01.{8}\x00\x01(.{8})", re.DOTALL)
LAST = 8  # times of leases that are kept of each term

Change = collections.namedtuple("Change", "revision deleted key created value")


class Told:
    """What coordinators log of their terms and leases. Each process writes to its own
    log, after those that ended before it."""

    def __init__(self, logs):
        self.logs, self.at = logs, dict.fromkeys(logs, 0)
        self.now, self.terms = {}, []  # now: the term that each has begun last
        self.last = {}  # term -> when it sent its last leases
        self.sent = collections.Counter()

    def read(self):
        for name, path in self.logs.items():
            with contextlib.suppress(FileNotFoundError), open(path, "rb") as f:
                f.seek(self.at[name])
                new = f.read()
                new = new[:new.rfind(b"\n") + 1]
                self.at[name] += len(new)
                for line in new.splitlines():
                    self.take(name, line)

    def take(self, name, line):
        if b'"msg":"leases sent"' in line:
            term = self.now[name]
            self.last[term].append(line[7:line.index(b'"', 7)].decode())
            self.sent[term] += 1
        elif b'"msg":"this coordinator leads"' in line:
            when = line[7:line.index(b'"', 7)].decode()
            term = self.now[name] = int(re.search(rb'"term":(\d+)', line)[1])
            self.terms.append((when, term, name))
            self.terms.sort()
            self.last[term] = collections.deque(maxlen=LAST)

    def judge(self):
        """(violations, late). A process that stood still between its look at the clock
        and the message that it was about to send may send this one: it is late, and
        members refuse it (I5). What follows the message is no one's lease."""
        wrong, late = [], 0
        ordered = sorted(self.terms)
        numbers = [term for _, term, _ in ordered]
        if numbers != sorted(set(numbers)):
            wrong.append(f"terms do not rise in time, or are given twice: {numbers}")
        for (_, term, name), (when, after, _) in zip(ordered, ordered[1:]):
            beyond = [t for t in self.last[term] if t > when]
            late += len(beyond)
            if len(beyond) > 1:
                wrong.append(f"{name} sent leases of term {term} at {beyond}, and term {after} "
                             f"had begun at {when}")
        return wrong, late


def changes(etcd, prefix):
    """Every change of a key below `prefix`/ since the cluster began, in order."""
    mark = f"{prefix}-read"  # the last change: where the reader ends
    etcd.put(mark, "1")
    end = etcd.revisions(mark)[1]
    line = [CTL, "--endpoints", etcd.endpoints]
    if etcd.tls:
        line += ["--cacert", f"{etcd.tls}/ca.pem", "--cert", f"{etcd.tls}/cert.pem",
                 "--key", f"{etcd.tls}/key.pem"]
    reader = subprocess.Popen(
        [*line, "watch", "--prefix", prefix, "--rev=1", "-w", "json"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env={"ETCDCTL_API": "3"})
    try:
        for text in reader.stdout:
            answer = json.loads(text)
            check(not answer["CompactRevision"], "etcd has forgotten the begin of the journal")
            for event in answer["Events"] or []:
                row = event["kv"]
                key = base64.b64decode(row["key"])
                if row["mod_revision"] >= end:
                    return
                if key.startswith(f"{prefix}/".encode()):
                    yield Change(row["mod_revision"], event.get("type") == 1,
                                 key[len(prefix) + 1:], row.get("create_revision"),
                                 base64.b64decode(row.get("value", "")))
    finally:
        reader.kill()
        reader.wait(timeout=60 * LIMIT)


class Order:
    """Follows the changes, one by one."""

    def __init__(self):
        self.leader, self.fresh = None, False  # fresh: it has written nothing yet
        self.term, self.last = 0, {}
        self.wrong = []
        self.figures = collections.Counter(leaderships=0, records=0, terms=0, late=0)

    def take(self, c):
        if c.key == LEADER:
            self.take_leader(c)
        elif self.leader is None:
            self.wrong.append(f"{c.key} of revision {c.revision}: no coordinator led")
        elif not c.deleted and (record := RECORD.fullmatch(c.key)):
            self.take_record(c, record[1], int(record[2], 16))

    def take_leader(self, c):
        if not c.deleted and (self.leader is not None or c.created != c.revision):
            self.wrong.append(f"revision {c.revision}: a coordinator was chosen while that of "
                              f"revision {self.leader} led")
        self.leader = None if c.deleted else c.revision
        self.fresh = not c.deleted
        self.figures["leaderships"] += not c.deleted

    def take_record(self, c, kind, number):
        want = self.last.get(kind, 0) + 1
        if number < want:  # H2: made again by a late transaction, read by nobody
            self.figures["late"] += 1
            return
        if number > want:
            self.wrong.append(f"revision {c.revision}: record {number} of '{kind.decode()}' "
                              f"follows {want - 1}")
        self.last[kind] = number
        self.figures["records"] += 1
        if kind == b"":
            self.take_term(c, TERM.search(c.value))

    def take_term(self, c, found):
        """The first record of a leadership is its term, and no other is (H3)."""
        if bool(found) != self.fresh:
            self.wrong.append(f"revision {c.revision}: " + (
                "a term in the midst of a leadership" if found else
                "a leadership that begins with another record than its term"))
        self.fresh = False
        if found:
            term = int.from_bytes(found[1], "big")
            if term <= self.term:
                self.wrong.append(f"revision {c.revision}: term {term} follows {self.term}")
            self.term = term
            self.figures["terms"] += 1


def judge(history, told):
    """(violations, figures) of the changes, and of what the coordinators logged."""
    order = Order()
    for change in history:
        order.take(change)
    told.read()
    wrong, late = told.judge()
    if order.figures["terms"] < len(told.terms):
        wrong.append(f"{len(told.terms)} terms began, and the journal has "
                     f"{order.figures['terms']}")
    return order.wrong + wrong, {**order.figures, "leases_sent": sum(told.sent.values()),
                                 "late_leases": late}
