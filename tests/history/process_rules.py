# SPDX-License-Identifier: Apache-2.0
"""Every process by itself: typed, bounded, clean."""

ANSWER_US = 5_000_000   # a server's own time for a call, far above any of ours
LATE_US = 1_000_000     # a client's call may end so much after its deadline
FDS_MOST, THREADS_MOST = 512, 96
SPARE = 8               # descriptors and threads that may come and go


class ProcessRules:
    def __init__(self, report):
        self.report = report
        self.calls, self.served = {}, {}  # (pid, id): event
        self.last = {}                    # pid: its last event
        self.resources = {}               # pid: events

    def hear(self, e):
        self.last[e.pid] = e
        handler = getattr(self, "on_" + e.kind, None)
        if handler:
            handler(e)

    def on_rpc_call(self, e):
        self.calls[e.pid, e["id"]] = e

    def on_rpc_done(self, e):
        call = self.calls.pop((e.pid, e["id"]), None)
        if call is None:
            self.report.add("typed", "a call ends that was not begun", e)
        elif call["deadline_ms"] > 0 and \
                e.us - call.us > call["deadline_ms"] * 1000 + LATE_US:
            self.report.add("typed", "a call ends after its deadline", call, e)

    def on_rpc_served(self, e):
        self.served[e.pid, e["id"]] = e

    def on_rpc_answered(self, e):
        self.served.pop((e.pid, e["id"]), None)  # refused before it was served

    def on_resources(self, e):
        self.resources.setdefault(e.pid, []).append(e)
        if e["fds"] > FDS_MOST or e["threads"] > THREADS_MOST:
            self.report.add("bounded", "too many descriptors or threads", e)

    def end(self, exits):
        for (pid, _), e in self.calls.items():
            limit = e["deadline_ms"] * 1000 + LATE_US
            if e["deadline_ms"] > 0 and self.last[pid].us - e.us > limit:
                self.report.add("typed", "a call never ends", e, self.last[pid])
        for (pid, _), e in self.served.items():
            if self.last[pid].us - e.us > ANSWER_US:
                self.report.add("typed", "a call is never answered", e,
                                self.last[pid])
        for seen in self.resources.values():
            self.growth(seen)
        for pid, code in exits.items():
            self.report.add("clean", f"process {pid} ended by itself with {code}",
                            *([self.last[pid]] if pid in self.last else []))

    def growth(self, seen):
        """The last third of a long life against its second third."""
        if len(seen) < 60:  # under 20 s: still warming up
            return
        third = len(seen) // 3
        for key in ("fds", "threads"):
            before = max(e[key] for e in seen[third:2 * third])
            after = min(e[key] for e in seen[2 * third:])
            if after > before * 1.05 + SPARE:
                self.report.add("bounded", f"{key} grow", seen[2 * third], seen[-1])
