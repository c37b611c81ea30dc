# SPDX-License-Identifier: Apache-2.0
"""Ranks of a peer, of which one is killed and replaced again and again.

A rank's step takes --pace seconds and no processor. Counted are steps of rounds that
were committed, by all ranks together: undisturbed for two periods, and then from the
first kill to one period after the last.
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from common import options, say
from torch_elastic import SLOT, Board

PLACE = "SLUICE_PEER_PLACE"  # of a rank: its board, its number, where it finds others
MOST = 256  # ranks that are ever begun


class Rank:
    """What a rank knows of itself: rank.number, and rank.meets as `run` was given it."""

    def __init__(self):
        path, number, self.meets = os.environ[PLACE].split("|")
        self.board, self.number = Board(path), int(number)

    def say(self, steps):
        """So many steps of all ranks are committed, as far as this one knows."""
        self.board.say(self.number, steps)


class Ranks:
    """The processes, and a board on which they tell their steps."""

    def __init__(self, folder, meets):
        self.path, self.log, self.meets = folder / "board", folder / "log", meets
        self.path.write_bytes(bytes(SLOT.size * MOST))
        self.board, self.running, self.begun = Board(self.path), [], 0

    def begin(self):
        with open(self.log, "ab") as log:
            self.running.append(subprocess.Popen(
                [sys.executable, *sys.argv], stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, PLACE: f"{self.path}|{self.begun}|{self.meets}"}))
        self.begun += 1

    def kill(self):
        """The rank that has lived longest, with what it has started."""
        process = self.running.pop(0)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def told(self):
        return [SLOT.unpack_from(self.board.map, i * SLOT.size)[1] for i in range(self.begun)]

    def edge(self):
        """A moment at which a round is committed, and the steps then."""
        was = max(self.told())
        while max(self.told()) == was:
            time.sleep(0.002)
        return time.monotonic(), max(self.told())

    def per_s(self, kills, every, quiet=0):
        began, first = self.edge()
        for i in range(kills):
            time.sleep(max(0, began + i * every - time.monotonic()))
            self.kill()
            self.begin()
        time.sleep(max(0, began + kills * every + quiet - time.monotonic()))
        ended, last = self.edge()
        return (last - first) / (ended - began)


def run(about, what, train, meet):
    """Runs this script as the parent, or as the rank that it has started: train(o, rank).
    meet(): a word that says where ranks find each other, and what keeps that alive."""
    o = options(about, ("ranks", 4, "how many"), ("kills", 12, "how many"),
                ("every", 10.0, "seconds from one to the next"), ("pace", 0.02, "s a step"),
                ("steps", 25, "of a rank in a round"), ("elements", 100000, "of the model"))
    if PLACE in os.environ:
        train(o, Rank())
        return
    meets, keeps = meet()
    with tempfile.TemporaryDirectory() as folder:
        ranks = Ranks(pathlib.Path(folder), meets)
        try:
            for _ in range(o.ranks):
                ranks.begin()
            while min(ranks.told()) == 0:
                if any(p.poll() is not None for p in ranks.running):
                    sys.exit(ranks.log.read_text()[-3000:])
                time.sleep(0.1)
            undisturbed = ranks.per_s(0, o.every, 2 * o.every)
            say(what, "steps/s", ([ranks.per_s(o.kills, o.every)], 0.0),
                undisturbed_per_s=undisturbed, kills=o.kills)
        finally:
            while ranks.running:
                ranks.kill()
    del keeps
