# SPDX-License-Identifier: Apache-2.0
"""What coordinators decided: account, fenced, cut, durable, cover."""

ENDED = ("finished", "failed", "stopped")
TRAIN = 0  # a lease's kind


class Job:
    def __init__(self, uid):
        self.uid = uid
        self.state = None
        self.ended = None     # the event
        self.accepted = None  # the event
        self.deleted = False
        self.geometry = None
        self.newest = {}      # shard: incarnation that the journal has
        self.cuts = {}        # number: Cut
        self.last_cut = None
        self.generation = 0   # of its ring, which keeps its state; 0: shards do
        self.goes = False     # all its members have the base


class Cut:
    def __init__(self, intent):
        self.intent = intent
        self.shards = {}  # shard: the event that names its tag
        self.state = "intent"


class CoordRules:
    def __init__(self, report, shards):
        self.report = report
        self.shards = shards  # ShardRules
        self.jobs = {}
        self.term = None      # the newest event
        self.leases = {}      # (pid, term, n): event
        self.last_attempt = (0, 0)
        self.recovered = {}   # pid: uids; None once they were compared
        self.asked = set()    # (pid, id) of calls about jobs that have no answer

    def job(self, e):
        return self.jobs.setdefault(e["uid"], Job(e["uid"]))

    def hear(self, e):
        if e.role != "coordinator":
            return
        if e.kind == "member" or self.answers(e):
            self.serving(e)
        handler = getattr(self, "on_" + e.kind, None)
        if handler:
            handler(e)

    def answers(self, e):
        """Whether it answers a call about jobs. One that waits for space in the midst of
        its recovery refuses them, and begins anew, with another term."""
        if e.kind == "rpc_served" and "/sluice.v1.Jobs/" in e["method"]:
            self.asked.add((e.pid, e["id"]))
        if e.kind != "rpc_answered" or (e.pid, e["id"]) not in self.asked:
            return False
        self.asked.remove((e.pid, e["id"]))
        return e["code"] == "SL_OK"

    # ---- terms, and what survives

    def on_term(self, e):
        if self.term is not None and e["term"] <= self.term["term"]:
            self.report.add("fenced", "the term does not rise over a restart",
                            self.term, e)
        self.term = e
        self.recovered[e.pid] = set()
        self.leases.clear()  # they died with their coordinator

    def on_recovered(self, e):
        self.recovered[e.pid].add(e["uid"])
        self.job(e).state = e["state"]

    def serving(self, e):
        """It serves: recovery is over, and every accepted job is there."""
        have = self.recovered.get(e.pid)
        if have is None:
            return
        self.recovered[e.pid] = None
        for uid, job in self.jobs.items():
            if job.accepted and not job.deleted and uid not in have \
                    and job.accepted.pid != e.pid:
                self.report.add("durable", "an accepted job is gone",
                                job.accepted, e)

    def on_submitted(self, e):
        self.job(e).accepted = e

    def on_deleted(self, e):
        self.job(e).deleted = True

    def on_geometry(self, e):
        self.job(e).geometry = self.shards.geometry[e["uid"]]

    # ---- leases

    def on_lease(self, e):
        attempt = e["term"], e["n"]
        if e.get("copy"):
            self.on_copy(e, attempt)
            return
        if attempt <= self.last_attempt:
            self.report.add("fenced", "an attempt's number does not rise (I4)", e)
        self.last_attempt = attempt
        for other in self.leases.values():
            if other["kind"] == e["kind"] == TRAIN and other["uid"] == e["uid"] \
                    and other["closure"] == e["closure"]:
                self.report.add("account", "a closure is leased twice at once",
                                other, e)
        self.leases[e.pid, *attempt] = e

    def on_copy(self, e, attempt):
        """A copy is a second lease of what runs, at another worker."""
        of = self.leases.get((e.pid, *attempt))
        if of is None or of["worker"] == e["worker"] or \
                (of["uid"], of["closure"]) != (e["uid"], e["closure"]) or \
                (e.pid, *attempt, "copy") in self.leases:
            self.report.add("account", "a copy is not the second of what runs", e)
        self.leases[e.pid, *attempt, "copy"] = e

    def on_lease_end(self, e):
        key = e.pid, e["term"], e["n"]
        if self.leases.pop((*key, "copy") if e.get("copy") else key, None) is None:
            self.report.add("account", "an attempt ends that does not run", e)

    def on_completion(self, e):
        """C1: what is believed of a shard must be so in its newest memory."""
        job = self.job(e)
        if not e["believed"] or job.geometry is None:
            return
        shard = self.shards.shard(e)
        memory = shard.of.get(e["newest"])
        steps = job.geometry.steps_of(e["closure"])
        lacks = [s for s in range(steps)
                 if memory is None or (e["closure"], s) not in memory.keys]
        if lacks:
            self.report.add("cover", f"a closure is believed counted (C1), but steps "
                            f"{lacks} are not in the newest incarnation", e)

    def on_told(self, e):
        """L4: what a shard says that it has counted, it has."""
        job = self.job(e)
        memory = self.shards.shard(e).of.get(e["incarnation"])
        if job.geometry is not None and (memory is None or e["steps"] > len(memory.keys)):
            self.report.add("cover", f"a shard tells of {e['steps']} steps (L4), more than "
                            "are counted there", e)

    # ---- admission

    def on_admission(self, e):
        job, shard = self.job(e), self.shards.shard(e)
        loaded = e["from_i"], e["from_n"]
        newest = job.newest.get(e["shard"], 0)
        if e["renewed"]:
            if e["live"] != newest or e["incarnation"] != newest:
                self.report.add("fenced", "an old memory is admitted again (I1)", e)
            return
        if e["incarnation"] <= newest:
            self.report.add("fenced", "an incarnation does not rise (I1)", e)
        if loaded < shard.cut:
            self.report.add("durable", f"a shard is admitted that lies before the "
                            f"last cut {shard.cut} (K7)", e)
        if e["steps"] not in (len(shard.frozen.get(loaded, ())), shard.fed.get(loaded)):
            self.report.add("once", "evidence is not what the loaded snapshot, "
                            "or the feed, counted (C2)", e)
        for cut in job.cuts.values():
            if cut.state == "intent" and cut.intent.pid == e.pid:
                self.report.add("cut", "a shard is admitted while a manifest is "
                                "being written (K5)", cut.intent, e)
        job.newest[e["shard"]] = e["incarnation"]

    # ---- rings

    def on_ring_open(self, e):
        job = self.job(e)
        if e["generation"] <= job.generation:
            self.report.add("fenced", "a generation does not rise (R1)", e)
        job.generation, job.goes = e["generation"], False

    def on_ring_base(self, e):
        job = self.job(e)
        base, cut = (e["base_g"], e["base_n"]), (0, 0)
        if job.last_cut and job.last_cut.state in ("published", "dropped"):
            named = job.last_cut.shards[0]
            cut = named["incarnation"], named["sequence"]
        if base < cut:
            self.report.add("durable", f"a generation begins below the last cut {cut} "
                            "(R3)", e)
        for other in job.cuts.values():
            if other.state == "intent" and other.intent.pid == e.pid:
                self.report.add("cut", "a base is chosen while a manifest is being "
                                "written (K5)", other.intent, e)

    def on_ring_go(self, e):
        self.job(e).goes = True

    def ring_part(self, job, cut, e):
        if e["incarnation"] != job.generation or not job.goes:
            self.report.add("cut", "a cut names a state of an ended generation, or "
                            "of one that has not begun (R6)", e)
        # Files of shards beside the ring have numbers of their own.
        if any(other["steps"] != e["steps"] or
               (other["sequence"] != e["sequence"] and self.shards.is_part(e))
               for other in cut.shards.values()):
            self.report.add("cut", "the parts of a cut are of different rounds (R6)", e)

    # ---- cuts

    def on_cut_intent(self, e):
        self.job(e).cuts[e["cut"]] = Cut(e)

    def on_cut_shard(self, e):
        job, shard = self.job(e), self.shards.shard(e)
        job.cuts[e["cut"]].shards[e["shard"]] = e
        if job.generation:
            self.ring_part(job, job.cuts[e["cut"]], e)
            return
        tag = e["incarnation"], e["sequence"]
        if tag not in shard.durable:
            self.report.add("cut", "a cut names a snapshot that is not durable (K4)", e)
        elif e["steps"] != len(shard.frozen[tag]):
            self.report.add("cut", "a cut counts what its file does not hold", e)
        if e["incarnation"] != job.newest.get(e["shard"]):
            self.report.add("cut", "a cut names a snapshot of an ended incarnation "
                            "(K4)", e)
        if tag < shard.cut:
            self.report.add("cut", "a cut names less than the one before", e)

    def on_cut_outcome(self, e):
        job = self.job(e)
        cut = job.cuts.get(e["cut"])
        if cut is None:
            self.report.add("cut", "an outcome without an intent (K4)", e)
            return
        cut.state = e["state"]
        if e["state"] == "published":
            self.published(job, cut, e)
        elif e["state"] == "dropped":
            self.dropped(job, cut)

    def published(self, job, cut, e):
        path = cut.intent["path"]
        if len(cut.shards) != cut.intent["shards"]:
            self.report.add("cut", "a shard is missing in a published cut",
                            cut.intent, e)
        # What a restarted coordinator found on the disk is there by itself.
        if e.pid == cut.intent.pid and not self.shards.is_durable(e.pid, path):
            self.report.add("durable", "a cut is published before its manifest is "
                            "durable (K4)", cut.intent, e)
        job.last_cut = cut
        for number, named in cut.shards.items():
            shard = self.shards.shard(named)
            shard.cut = named["incarnation"], named["sequence"]
            self.shards.named.setdefault((job.uid, number), set()).add(shard.cut)

    def dropped(self, job, cut):
        """Nothing is promised of it any more, unless another names the same."""
        for number, named in cut.shards.items():
            tag = named["incarnation"], named["sequence"]
            others = (c.shards.get(number) for c in job.cuts.values()
                      if c.state == "published")
            if not any(o and (o["incarnation"], o["sequence"]) == tag
                       for o in others):
                self.shards.named.get((job.uid, number), set()).discard(tag)

    # ---- the end

    def on_job(self, e):
        job = self.job(e)
        # An end that was not committed did not happen: the next coordinator
        # says what state the job was recovered in.
        if job.state in ENDED:
            self.report.add("account", "a job ends twice", job.ended or e, e)
        job.state = e["state"]
        if e["state"] not in ENDED:
            return
        job.ended = e
        for lease in self.leases.values():
            if lease["uid"] == job.uid:
                self.report.add("account", "a job has ended and a lease of it runs",
                                lease, e)
        if e["state"] == "finished":
            self.finished(job, e)

    def finished(self, job, e):
        """E1: a published cut, in which every file holds every step."""
        cut = job.last_cut
        if cut is None or cut.state not in ("published", "dropped"):
            self.report.add("durable", "a job is finished without a cut (E1)", e)
            return
        for named in cut.shards.values():
            if job.geometry and named["steps"] != job.geometry.steps:
                self.report.add("durable", "a job is finished, but its last cut lacks "
                                "steps (E1)", named, e)
