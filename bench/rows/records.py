# SPDX-License-Identifier: Apache-2.0
"""Images from TFRecord files and tar archives, against tf.data."""
import contextlib
import shutil
import tempfile

from peers.start import peer
from table import at_most, row

THREADS = 2


@contextlib.contextmanager
def files(bench):
    """A folder of records and archives with the same 1000 JPEG files, which
    TensorFlow and Python write."""
    folder = tempfile.mkdtemp(prefix="sluice-test-")
    try:
        peer(bench, "tf_records.py", folder=folder, make=1, seconds=1, windows=1)
        yield folder
    finally:
        shutil.rmtree(folder)


def cost(bench, tar):
    """Microseconds of processor time of a sample: ours, and TensorFlow's."""
    kind, names = ("webdataset", "*.tar") if tar else ("tfrecord", "*.tfrecord")
    with files(bench) as folder:
        def ours():
            done = bench.program("records_read", "--format", kind, "--x", f"{folder}/{names}",
                                 "--threads", THREADS, *bench.timed())
            bench.note(f"{done['per_s']:.0f} samples/s; opened in {done['open_s'] * 1e3:.1f} ms, "
                       f"an index of {done['index_bytes']} bytes")
            return done["cpu_us"]

        def theirs():
            return peer(bench, "tf_records.py", folder=folder, tar=int(tar), threads=THREADS,
                        seconds=bench.seconds)["cpu_us"]
        return bench.alternate(ours, theirs)


@row("input-tfrecord", unit="us of a core", peer="tf.data", bar=at_most(1.05),
     needs=["records_read"])
def input_tfrecord(bench):
    """A JPEG of 500 x 375 from a TFRecord, decoded and resized to 224 x 224, in
    shuffled order by 2 threads: the processor time that it takes."""
    return cost(bench, False)


@row("input-tar", unit="us of a core", peer="tf.data over tarfile", bar=at_most(0.7),
     needs=["records_read"])
def input_tar(bench):
    """The same from a tar; the peer reads its members with Python's tarfile."""
    return cost(bench, True)
