# SPDX-License-Identifier: Apache-2.0
"""What psservers did: once, fenced, inert, and what is durable.

A shard with rows beside a ring is one of these; ring_rules.py compares it with the
ring. The parts that ranks keep are none.

Each memory of a shard (a process that loaded it) is followed key by key from
the snapshot that it loaded. Nothing is believed of what the shard says about
its own set: it is compared with what was really pushed.
"""
import os


def closures(e):
    """Yields closure, attempt and (samples, digest) of each that an event names."""
    yield e["closure"], (e["term"], e["n"]), (e.get("samples"), int(e.get("digest", "0"), 16))
    for one in filter(None, str(e.get("more") or "").split(",")):
        closure, term, n, samples, digest = one.split(":")
        yield int(closure), (int(term), int(n)), (int(samples), int(digest, 16))


def total(keys):
    """Samples and digest of all of these keys."""
    samples, digest = (sum(column) for column in zip((0, 0), *keys.values()))
    return samples, digest & ((1 << 64) - 1)


def same(keys, other):
    """Whether two sets have counted the same: of a ring's the first key of a round
    stands for all samples of it."""
    return keys.keys() == other.keys() and total(keys) == total(other)


class Memory:
    """One shard in one process: what was counted into it, or is held (Y2)."""

    def __init__(self, keys, event):
        self.keys = dict(keys)  # (closure, step): (samples, digest)
        self.loaded = event
        self.incarnation = 0
        self.newest = {}  # closure: the newest attempt seen
        self.held = {}    # as keys, of the open round
        self.parts = 0    # pushes that hold them
        self.low = 0      # in sync: no closure below it is not counted
        self.closed = None  # the event of a round that the next push closes


class Shard:
    def __init__(self):
        self.memories = {}   # pid: Memory
        self.of = {}         # incarnation: Memory
        self.frozen = {(0, 0): {}}  # tag: keys
        self.fed = {}        # tag: steps of the last memory that was fed, and shows it
        self.durable = {}    # tag: path
        self.cut = (0, 0)    # named by the last published cut


class ShardRules:
    def __init__(self, report):
        self.report = report
        self.shards = {}
        self.synced = {}   # (pid, path): what the file system did to it
        self.paths = {}    # path: (shard key, tag)
        self.geometry = {}
        self.named = {}    # shard key: tags that published cuts name
        self.sources = {}  # (pid, shard key): what a resumed shard starts from
        self.rings = {}    # uid: Ring of a job whose ranks keep its first shards

    def shard(self, e):
        key = e["uid"], e["shard"]
        if key not in self.shards:
            self.shards[key] = Shard()
        return self.shards[key]

    def memory(self, e):
        """The memory that an event is about; None if it was never loaded."""
        found = self.shard(e).memories.get(e.pid)
        if found is None:
            self.report.add("once", "a shard that was never loaded acts", e)
        return found

    def hear(self, e):
        handler = getattr(self, "on_" + e.kind, None)
        if handler and not self.is_part(e):
            handler(e)

    def is_part(self, e):
        """Whether an event is of a part of a ring's state, which ranks keep."""
        geometry = self.geometry.get(e.get("uid"))
        return geometry is not None and "shard" in e and e["shard"] < geometry.parts

    # ---- the file system: what a crash leaves

    def on_fs(self, e):
        done = self.synced.setdefault((e.pid, e["path"]), {})
        if e["op"] == "rename":
            source = self.synced.get((e.pid, e["from"]), {})
            done.clear()
            done["renamed"] = "fsync" in source
        elif e["op"] == "dirsync":
            for (pid, path), other in self.synced.items():
                if pid == e.pid and os.path.dirname(path) == e["path"] \
                        and "renamed" in other:
                    other["durable"] = other["renamed"]
        elif e["op"] == "unlink":
            self.unlinked(e)
        else:
            done[e["op"]] = True

    def is_durable(self, pid, path):
        return self.synced.get((pid, path), {}).get("durable", False)

    def unlinked(self, e):
        key, tag = self.paths.get(e["path"], (None, None))
        if key is None:
            return
        if tag in self.named.get(key, ()):
            self.report.add("durable", "a file that a published cut names is "
                            "deleted (K3)", e)

    # ---- loading and admission

    def frozen_at(self, path):
        """The keys in a file; None: nobody wrote it."""
        key, tag = self.paths.get(path, (None, None))
        if key is None:
            return None
        geometry = self.geometry.get(key[0])
        if geometry is not None and key[1] < geometry.parts:
            return self.rings[key[0]].keys(tag, geometry)
        return self.shards[key].frozen[tag]

    def on_source(self, e):
        """A file of another job that a resumed shard takes rows from."""
        keys = self.frozen_at(e["path"])
        if keys is None:
            self.report.add("durable", "a job is resumed from a file that no shard "
                            "wrote", e)
            return
        before = self.sources.setdefault((e.pid, e["uid"], e["shard"]), keys)
        if not same(before, keys):
            self.report.add("once", "rows that counted different steps are merged "
                            "under one set (I6)", e)

    def on_loaded(self, e):
        shard = self.shard(e)
        tag = e["from_i"], e["from_n"]
        source = self.sources.pop((e.pid, e["uid"], e["shard"]), None)
        if source is not None:  # it stands where the seed stood
            shard.frozen[0, 0] = source
        keys = shard.frozen.get(tag)
        if keys is None:
            self.report.add("durable", "a snapshot is loaded that nobody froze", e)
            keys = {}
        if e["steps"] != len(keys):
            self.report.add("once", f"the shard loads {tag} with {e['steps']} steps "
                            f"counted, but {len(keys)} were when it was frozen "
                            "(S1, S3)", e)
        if e["applied"] + e["skipped"] != e["steps"]:
            self.report.add("once", "applied + skipped is not counted", e)
        shard.memories[e.pid] = Memory(keys, e)

    def on_followed(self, e):
        """A memory that was fed is shown with the tag of its source (M4, P4)."""
        memory = self.memory(e)
        if memory is None:
            return
        if e["steps"] != len(memory.keys):
            self.report.add("once", f"a memory that was fed shows {e['steps']} steps, "
                            f"{len(memory.keys)} were counted (M5)", e)
        self.shard(e).fed[e["from_i"], e["from_n"]] = e["steps"]

    def on_admitted(self, e):
        shard, memory = self.shard(e), self.memory(e)
        if memory is None:
            return
        other = shard.of.get(e["incarnation"])
        if other is not None and other is not memory:
            self.report.add("fenced", "one incarnation is given to two memories "
                            "(I1)", other.loaded, e)
        if e["incarnation"] < max(shard.of, default=0):
            self.report.add("fenced", "an incarnation falls (I1)", e)
        memory.incarnation = e["incarnation"]  # what was fed is held on
        shard.of[e["incarnation"]] = memory

    # ---- pushes

    def on_asked(self, e):
        memory = self.memory(e)
        if memory is not None:
            self.see(memory, e)

    @staticmethod
    def see(memory, e):
        if e.get("unproven"):
            return  # it fences nobody (I4)
        for closure, attempt, _ in closures(e):
            if attempt > memory.newest.get(closure, (0, 0)):
                memory.newest[closure] = attempt

    def on_push(self, e):
        memory = self.memory(e)
        if memory is None:
            return
        keys = {(closure, e["step"]): samples for closure, _, samples in closures(e)}
        if e["result"] in ("counted", "held"):
            self.taken(memory, keys, e)
            self.see(memory, e)
        elif e["result"] == "duplicate" and not keys.keys() <= memory.keys.keys():
            self.report.add("once", "a key that was never counted is "
                            "acknowledged (S2)", e)
        closed, memory.closed = memory.closed, None
        if e["result"] == "held" or closed is not None:
            self.hold(memory, keys, e)
        if e["result"] == "counted" and closed is None:
            memory.keys.update(keys)
        elif e["result"] == "counted":
            self.close(memory, closed, e)

    def hold(self, memory, keys, e):
        """A copy changes nothing (Y1)."""
        here = keys.keys() & memory.held.keys()
        if here and len(here) < len(keys):
            self.report.add("once", "a push is held of which a part was (L5)", e)
        memory.parts += not here
        memory.held = {**keys, **memory.held}

    def taken(self, memory, keys, e):
        if keys.keys() & memory.keys.keys():
            self.report.add("once", "a key is counted twice (S2)", e)
        if e["said"] != memory.incarnation:
            self.report.add("fenced", "a push for another incarnation is applied "
                            "(I3)", e)
        if any(attempt < memory.newest.get(closure, (0, 0))
               for closure, attempt, _ in closures(e)):
            self.report.add("fenced", "a push of an older attempt is applied (I4)", e)
        if e["checked"] != "SL_OK":
            self.report.add("inert", "a push that was found bad is applied", e)

    # ---- rounds at a shard

    def on_round_closed(self, e):
        """It stands before the push that closed the round, unless a ring did (R8)."""
        memory = self.memory(e)
        if memory is None:
            return
        if e["by"] == "push":
            memory.closed = e
        else:
            self.close(memory, e, e)

    def on_open_closed(self, e):
        """A round without slots; a message ends it, or the push that this stands before."""
        memory = self.memory(e)
        if memory is None:
            return
        if not e["told"]:
            memory.closed = e
            return
        if not memory.held:
            self.report.add("once", "a round is ended that holds nothing (L2)", e)
        self.close(memory, e, e)

    def close(self, memory, closed, e):
        """The mean of what was held is applied, and all of it counted."""
        slots = closed.kind == "round_closed"
        open_keys = self.open_round(memory, closed) if slots else None
        if not slots and memory.parts > closed["most"]:
            self.report.add("once", f"a round of at most {closed['most']} is closed with "
                            f"{memory.parts} (L1)", closed, e)
        if open_keys is not None and open_keys != set(memory.held):
            self.report.add("once", f"a round of {sorted(open_keys)} is closed with "
                            f"{sorted(memory.held)} (Y1)", closed, e)
        if closed["keys"] != len(memory.held):
            self.report.add("once", f"a round counts {closed['keys']} keys, "
                            f"{len(memory.held)} were held (Y2)", closed, e)
        memory.keys.update(memory.held)
        memory.held, memory.parts = {}, 0
        if closed["steps"] != len(memory.keys):
            self.report.add("once", f"the set has {closed['steps']} steps, "
                            f"{len(memory.keys)} were counted (Y2)", closed, e)

    def open_round(self, memory, e):
        """The keys that the open round lacks: that of the first closure which is
        not counted; state/shard/contributions.h, written again."""
        g = self.geometry.get(e["uid"])
        if g is None:
            return None
        while (memory.low, 0) in memory.keys:
            memory.low += 1
        low = memory.low
        start = g.epoch(low) * g.closures_per_epoch
        first = start + (low - start) // e["most"] * e["most"]
        last = min(first + e["most"], start + g.closures_per_epoch)
        return {(c, 0) for c in range(first, last) if (c, 0) not in memory.keys}

    # ---- snapshots

    def on_frozen(self, e):
        shard, memory = self.shard(e), self.memory(e)
        if memory is None:
            return
        tag = e["incarnation"], e["sequence"]
        if e["steps"] != len(memory.keys):
            self.report.add("once", f"a snapshot says {e['steps']} steps, "
                            f"{len(memory.keys)} were counted", e)
        if e["applied"] + e["skipped"] != e["steps"]:
            self.report.add("once", "applied + skipped is not counted", e)
        if tag in shard.frozen:
            self.report.add("cut", "a tag is given twice (K1)", e)
        geometry = self.geometry.get(e["uid"])
        if geometry and e["sparse"] > geometry.window + 64:
            self.report.add("bounded", "the sparse set outgrows the window (C5)", e)
        shard.frozen[tag] = dict(memory.keys)

    def on_snapshot(self, e):
        shard = self.shard(e)
        tag = e["incarnation"], e["sequence"]
        if not self.is_durable(e.pid, e["path"]):
            self.report.add("durable", "a snapshot counts as written before its "
                            "file, name and folder are synced", e)
        elif e["steps"] != len(shard.frozen.get(tag, ())):
            self.report.add("once", "the file's counted set is not what was "
                            "counted when it was frozen (S1)", e)
        shard.durable[tag] = e["path"]
        self.paths[e["path"]] = (e["uid"], e["shard"]), tag

    def on_snapshot_reported(self, e):
        tag = e["incarnation"], e["sequence"]
        if tag not in self.shard(e).durable:
            self.report.add("durable", "a snapshot is reported before it is durable "
                            "(K2)", e)
