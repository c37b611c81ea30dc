# SPDX-License-Identifier: Apache-2.0
"""torchrun --max-restarts with DistributedDataParallel over gloo: the ranks of
torch_ddp.py, of which one is killed again and again.

torchrun then ends the others and starts all of them anew; they go on from their
last checkpoint. Prints the images per second that were kept (what the model has
seen in the end), from the first kill to one period after the last, and what the
same ranks do undisturbed before that.
"""
import mmap
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

from common import BATCH, die_with_parent, free_ports, options, say
from torch_ddp import IMAGES, Trainer

SLOT = struct.Struct("<qq")  # of a rank: its process, the steps of its model
FOLDER = "SLUICE_PEER_FOLDER"


class Board:
    """A mapped file in which each rank says who it is, and how far."""

    def __init__(self, path):
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 0)

    def say(self, rank, steps):
        SLOT.pack_into(self.map, rank * SLOT.size, os.getpid(), steps)

    def pid(self, rank):
        return SLOT.unpack_from(self.map, rank * SLOT.size)[0]

    def steps(self):
        """Of one rank; all ranks do a step together."""
        return SLOT.unpack_from(self.map, 0)[1]


def train(o, folder):
    """A rank, until somebody kills it."""
    die_with_parent()
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    import torch
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    trainer, board = Trainer(torch, o), Board(folder / "board")
    every = o.checkpoint or IMAGES // (BATCH * ranks)  # an epoch
    saved, steps = folder / "state.pt", 0
    if saved.exists():
        state = torch.load(saved)
        trainer.load(state)
        steps = state["steps"]
    while True:
        board.say(rank, steps)
        trainer.step()
        steps += 1
        if steps % every == 0 and rank == 0:
            torch.save({**trainer.state(), "steps": steps}, folder / "new.pt")
            os.replace(folder / "new.pt", saved)


def launch(o, folder):
    """torchrun, which starts this script again as each rank."""
    (folder / "board").write_bytes(bytes(SLOT.size * o.ranks))
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", "--nnodes=1",
         f"--nproc-per-node={o.ranks}", f"--max-restarts={o.kills + 1}",
         "--monitor-interval=0.1", "--master-addr=127.0.0.1",
         f"--master-port={free_ports(1)[0]}", *sys.argv],
        env={**os.environ, FOLDER: str(folder), "OMP_NUM_THREADS": "1",
             "GLOO_SOCKET_IFNAME": "lo"},
        preexec_fn=die_with_parent, stdout=subprocess.DEVNULL)


def rate(of, seconds, work=lambda: None):
    """How many more of what `of` counts are there after so long, per second;
    work() is done meanwhile."""
    began, first = time.monotonic(), of()
    work()
    time.sleep(max(0, began + seconds - time.monotonic()))
    return (of() - first) / (time.monotonic() - began)


class Killer:
    """Kills a rank. All are started anew then: those that the board still names
    are gone, and until others have written there nobody is killed."""

    def __init__(self, board, ranks):
        self.board, self.ranks = board, ranks
        self.gone, self.kills = set(), 0

    def kill(self, rank):
        if self.board.pid(rank) not in self.gone:
            os.kill(self.board.pid(rank), signal.SIGKILL)
            self.gone.update(self.board.pid(r) for r in range(self.ranks))
            self.kills += 1


def measured(o, board):
    def images():
        return BATCH * o.ranks * board.steps()

    while board.steps() < o.warmup_steps:
        time.sleep(0.1)
    still = rate(images, 2 * o.every)
    killer = Killer(board, o.ranks)

    def kills():
        began = time.monotonic()
        for i in range(o.kills):
            time.sleep(max(0, began + i * o.every - time.monotonic()))
            killer.kill(i % o.ranks)
    return rate(images, o.kills * o.every, kills), still, killer.kills


def main():
    o = options(__doc__, ("ranks", 3, "processes"),
                ("every", 10.0, "seconds from one kill to the next"),
                ("kills", 30, "how many"),
                ("warmup-steps", 100, "before anything counts"),
                ("checkpoint", 0, "steps from one to the next; 0: an epoch"),
                ("layout", "contiguous", "or channels_last"),
                ("compile", 0, "torch.compile (inductor); 0: eager"),
                ("adam", "fused", "fused or foreach"))
    if FOLDER in os.environ:
        train(o, pathlib.Path(os.environ[FOLDER]))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-peer-"))
    ran = launch(o, folder)
    try:
        kept, still, killed = measured(o, Board(folder / "board"))
    finally:
        ran.terminate()  # it ends its ranks
        ran.wait()
        shutil.rmtree(folder)
    say("torch_elastic", "images/s", ([kept], 0), undisturbed_per_s=round(still, 1),
        kills=killed, checkpoint=o.checkpoint, compile=o.compile)


if __name__ == "__main__":
    main()
