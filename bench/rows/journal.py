# SPDX-License-Identifier: Apache-2.0
"""A coordinator's journal: how large it becomes, how soon one serves from it."""
import contextlib
import pathlib
import tempfile
import threading

from etcd import Etcd  # of tests/system, as cluster is
from table import at_most, once, row

NEEDS = ["journal_load"]
MIB = 1 << 20


# In memory: a disk's syncs are the disk's, and a cut has three of them.
PLACE = "/dev/shm" if pathlib.Path("/dev/shm").is_dir() else None


def load(bench, jobs, shards, cuts, ended=0, options=()):
    with tempfile.TemporaryDirectory(prefix="sluice-bench-", dir=PLACE) as folder:
        done = bench.program("journal_load", "--folder", folder, "--jobs", jobs,
                             "--shards", shards, "--cuts", cuts, "--ended", ended,
                             *options)
    bench.note(f"{jobs} jobs of {shards} shards, {cuts} cuts each, {ended} that ended: "
               f"{done['bytes'] / MIB:.1f} MiB, serves after {done['restart_s']:.3f} s, "
               f"{done['resident'] / MIB:.1f} MiB resident")
    return done


@once
def month(bench):
    """What a month of cuts, one in 30 s, leaves of a job with 64 shards."""
    return load(bench, 1, 64, 90000)


@row("scale-journal", unit="MiB", peer="64 MiB", bar=at_most(1), needs=NEEDS,
     long="a month of cuts")
def scale_journal(bench):
    """The journal of a job with 64 shards after a month of cuts, one in 30 s."""
    return [month(bench)["bytes"] / MIB], 64


@row("scale-journal-wide", unit="MiB", peer="512 MiB", bar=at_most(1), needs=NEEDS)
def scale_journal_wide(bench):
    """The same with 2,560 shards, after so many cuts that it grows no more."""
    return [load(bench, 1, 2560, 500)["bytes"] / MIB], 512


@contextlib.contextmanager
def forgetting(etcd):
    """Has etcd forget its past once a second: some 400 cuts of this program, where
    auto-compaction each hour forgets those of 120."""
    ended = threading.Event()

    def forget():
        while not ended.wait(1):
            etcd.try_ctl("compact", etcd.status(0)["header"]["revision"])
    thread = threading.Thread(target=forget)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@row("scale-journal-etcd", unit="MiB", peer="256 MiB", bar=at_most(1), needs=NEEDS,
     long="a week of cuts")
def scale_journal_etcd(bench):
    """etcd's database with the journal of such a job, after a week: it grows no more."""
    with Etcd(members=1, place=PLACE) as etcd, forgetting(etcd):
        url = f"etcd://{etcd.endpoints}/sluice"
        done = load(bench, 1, 64, 20000, options=("--journal", url))
    return [done["bytes"] / MIB], 256


@row("scale-restart", unit="s", peer="2 s", bar=at_most(1), needs=NEEDS,
     long="a month of cuts")
def scale_restart(bench):
    """From the journal of a coordinator that was killed, with 200 jobs on 2,600
    shards, to one that serves; after a month of cuts it takes no longer."""
    return [max(month(bench)["restart_s"], load(bench, 200, 13, 20)["restart_s"])
            for _ in range(bench.rounds)], 2


ENDED = 10000


@once
def ended(bench):
    return [load(bench, 1, 16, 4, ENDED) for _ in range(bench.rounds)]


@row("scale-ended", unit="s", peer="0.25 s", bar=at_most(1), needs=NEEDS,
     long="10,000 jobs have to end")
def scale_ended(bench):
    """From the journal of a killed coordinator with 10,000 jobs that have ended, of
    16 shards and three cuts each, to one that serves."""
    return [done["restart_s"] for done in ended(bench)], 0.25


@row("scale-ended-rss", unit="B", peer="1 KiB", bar=at_most(1), needs=NEEDS,
     long="10,000 jobs have to end")
def scale_ended_rss(bench):
    """What such a start takes of memory, per job that has ended."""
    return [done["resident"] / ENDED for done in ended(bench)], 1024
