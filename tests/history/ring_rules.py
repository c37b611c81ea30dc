# SPDX-License-Identifier: Apache-2.0
"""What the ranks of a ring did: once, cover, and what their cuts hold.

A ring has one state, which each of its ranks has whole. It is followed round
by round from where it began: a tag (generation, rounds) names it, and a round is
the next keys in order that it lacks (R4). So a state is told by how far it is in
that order, and by the samples that its rounds had.

Shards beside a ring have its rows. shard_rules.py follows what was pushed to them;
here it is compared with the state of the ranks (R8, R9).
"""
import collections

from shard_rules import same


class State:
    """One state under one or several tags: a round more than the one before."""
    __slots__ = ("before", "steps", "samples", "digest", "skip", "event")

    def __init__(self, before=None, steps=0, event=None):
        self.before, self.event = before, event
        self.steps = steps  # of the ring's order, from its beginning
        # Of the last round.
        self.samples, self.digest, self.skip = 0, 0, 0
        if event is not None:
            self.samples, self.digest = event["samples"], int(event["digest"], 16)
            self.skip = event["skip"]

    def same(self, other):
        return (self.steps, self.samples, self.digest, self.skip) == \
            (other.steps, other.samples, other.digest, other.skip)


class Ring:
    def __init__(self, uid):
        self.uid = uid
        self.states = {(0, 0): State()}  # by tag
        self.sizes = {}      # generation: contributions of a round
        self.bases = {}      # generation: the tag that it begins with
        self.ranks = {}      # generation: its ranks, once it goes
        self.applied = collections.Counter()  # tag: ranks that have applied its round
        self.waiting = []    # shards that were admitted before their generation goes
        self.source = {}     # keys that were counted before it began
        self.sourced = None  # the event
        self.order = None    # the other keys

    def keys_of(self, geometry):
        if self.order is None:
            self.order = [(c, s) for c in range(geometry.closures)
                          for s in range(geometry.steps_of(c))
                          if (c, s) not in self.source]
        return self.order

    def next_round(self, geometry, state, generation):
        """The keys that this state counts next."""
        keys = self.keys_of(geometry)[state.steps:state.steps +
                                      self.sizes.get(generation, 0)]
        return [k for k in keys if geometry.epoch(k[0]) == geometry.epoch(keys[0][0])]

    def steps(self, tag):
        """How many keys a state has counted; None: nobody had it."""
        state = self.states.get(tag)
        return None if state is None else len(self.source) + state.steps

    def keys(self, tag, geometry):
        """{key: (samples, digest)}, where the first key of a round stands for
        all samples of it."""
        found, state = dict(self.source), self.states.get(tag)
        while state is not None and state.before is not None:
            first = state.before.steps
            for key in self.keys_of(geometry)[first:state.steps]:
                found[key] = (0, 0)
            found[self.order[first]] = (state.samples, state.digest)
            state = state.before
        return found


class RingRules:
    def __init__(self, report, shards, coord):
        self.report = report
        self.shards = shards  # ShardRules: files, and whose job is a ring's
        self.coord = coord    # CoordRules

    def hear(self, e):
        handler = getattr(self, "on_" + e.kind, None)
        if handler and (e.kind == "ring_open" or e.get("uid") in self.shards.rings):
            handler(e, self.ring(e))

    def ring(self, e):
        return self.shards.rings.setdefault(e["uid"], Ring(e["uid"]))

    def geometry(self, e):
        return self.shards.geometry[e["uid"]]

    def on_ring_open(self, e, ring):
        pass  # from now on there is one

    def on_ring_base(self, e, ring):
        base, generation = (e["base_g"], e["base_n"]), e["generation"]
        ring.sizes[generation] = e["contributions"]
        ring.bases[generation], ring.waiting = base, []
        state = ring.states.get(base)
        if state is None:
            self.report.add("once", f"a generation begins with a state {base} that "
                            "nobody had (R3)", e)
            state = State()
        ring.states[generation, e["base_n"]] = state

    def on_source(self, e, ring):
        """A file of another job that the ring begins with."""
        if not self.shards.is_part(e):
            return
        keys = self.shards.frozen_at(e["path"])
        if keys is None:
            self.report.add("durable", "a job is resumed from a file that no shard "
                            "wrote", e)
        elif ring.sourced is None:
            ring.source, ring.sourced = keys, e
        elif not same(ring.source, keys):
            self.report.add("once", "rows that counted different steps are merged "
                            "under one set (I6)", ring.sourced, e)

    def on_rank_placed(self, e, ring):
        steps = ring.steps((e["generation"], e["rounds"]))
        if steps != e["steps"]:
            self.report.add("once", f"a rank has a base of {e['steps']} steps where "
                            f"its generation has {steps} (R3)", e)

    def on_ring_go(self, e, ring):
        base = max(tag for tag in ring.states if tag[0] == e["generation"])
        if ring.steps(base) != e["steps"]:
            self.report.add("once", f"the evidence is {e['steps']} steps, the base "
                            f"has {ring.steps(base)} (C2, R5)", e)
        ring.ranks[e["generation"]] = e["ranks"]
        for admitted, keys in ring.waiting:
            self.compare(admitted, ring, keys)
        ring.waiting = []

    def on_rank_round(self, e, ring):
        generation, rounds = e["generation"], e["rounds"]
        before = ring.states.get((generation, rounds - 1))
        if before is None:
            self.report.add("once", "a round is applied to a state that nobody had", e)
            return
        want = ring.next_round(self.geometry(e), before, generation)
        got = ((e["closure"], e["step"]), (e["last_closure"], e["last_step"]))
        if len(want) != e["keys"] or not want or got != (want[0], want[-1]):
            self.report.add("once", f"a round of {e['keys']} steps {got[0]} to {got[1]} "
                            f"where the next {len(want)} were {want[:1]} to "
                            f"{want[-1:]} (R4)", e)
        after = State(before, before.steps + len(want), e)
        ring.applied[generation, rounds] += 1
        known = ring.states.setdefault((generation, rounds), after)
        if not known.same(after):
            self.report.add("once", "two ranks applied different rounds under one tag",
                            known.event, e)
        if e["steps"] != ring.steps((generation, rounds)):
            self.report.add("once", f"the set of a rank has {e['steps']} steps, "
                            f"{ring.steps((generation, rounds))} were applied", e)

    # ---- shards beside it

    def on_admitted(self, e, ring):
        """It has the base. What that is, is known when the ranks have it too."""
        if self.shards.is_part(e):
            return
        memory = self.shards.memory(e)
        if memory is None:
            return
        keys = dict(memory.keys)
        if e["incarnation"] in ring.ranks:
            self.compare(e, ring, keys)
        else:
            ring.waiting.append((e, keys))

    def compare(self, e, ring, keys):
        base = e["base_g"], e["base_n"]
        if base != ring.bases.get(e["incarnation"]):
            self.report.add("once", f"a shard is admitted with the base {base}, its ranks "
                            f"with {ring.bases.get(e['incarnation'])} (R9)", e)
        elif not same(keys, ring.keys(base, self.geometry(e))):
            self.report.add("once", f"a shard is admitted with {len(keys)} steps where its "
                            f"ranks have {ring.steps(base)}, or with others (R9)", e)

    def on_round_closed(self, e, ring):
        tag = e["incarnation"], e["rounds"]
        state = ring.states.get(tag)
        wanted = ring.ranks.get(e["incarnation"], 1) if e["by"] == "round" else 1
        if e["by"] == "push":
            self.report.add("once", "a shard beside a ring closes a round by itself (R8)", e)
        elif state is None or ring.applied[tag] < wanted:
            self.report.add("once", f"a shard applies a round that {ring.applied[tag]} of "
                            f"{wanted} ranks have applied (R5, R8)", e)
        elif state.skip and not e["skip"]:
            self.report.add("once", "a shard applies a round that its ranks skipped (R8)",
                            state.event, e)

    # ---- files

    def on_snapshot(self, e, ring):
        if not self.shards.is_part(e):
            return
        tag = e["incarnation"], e["sequence"]
        if not self.shards.is_durable(e.pid, e["path"]):
            self.report.add("durable", "a snapshot counts as written before its "
                            "file, name and folder are synced", e)
        elif e["steps"] != ring.steps(tag):
            self.report.add("once", f"a file holds {e['steps']} steps of a state that "
                            f"has {ring.steps(tag)}", e)
        self.shards.shard(e).durable[tag] = e["path"]
        self.shards.paths[e["path"]] = (e["uid"], e["shard"]), tag

    def on_cut_shard(self, e, ring):
        tag, shard = (e["incarnation"], e["sequence"]), self.shards.shard(e)
        if tag not in shard.durable:
            self.report.add("cut", "a cut names a part that is not durable (K4)", e)
        has = ring.steps(tag) if self.shards.is_part(e) else len(shard.frozen.get(tag, ()))
        if e["steps"] != has:
            self.report.add("cut", "a cut counts what its state does not hold", e)

    # ---- the end

    def cover(self, job, wanted):
        """Each sample of each epoch once, in the state that the last cut names."""
        ring, g = self.shards.rings[job.uid], job.geometry
        named = job.last_cut.shards.get(0) if job.last_cut else None
        tag = (named["incarnation"], named["sequence"]) if named else (0, 0)
        sums = [[0, 0] for _ in range(g.epochs)]
        for (closure, _), (samples, digest) in ring.keys(tag, g).items():
            sums[g.epoch(closure)][0] += samples
            sums[g.epoch(closure)][1] += digest
        for epoch, (samples, digest) in enumerate(sums):
            if samples != g.samples or digest & ((1 << 64) - 1) != wanted[epoch]:
                self.report.add("cover", f"the ring counted {samples} samples of "
                                f"{g.samples} in epoch {epoch}, or not each of them "
                                "once")
