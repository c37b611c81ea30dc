# SPDX-License-Identifier: Apache-2.0
"""The rows of a sparse table on one shard, against what memory gives."""
import statistics
import tempfile

from peers.start import peer
from table import at_least, at_most, row

MILLION = 1 << 20
GIB = 1 << 30
LONG = "makes 16 million rows of 64 values, twice: 10 GB"


def measured(bench, what, rows, *options):
    """What bench.tables measured."""
    return bench.program("tables", "--what", what, "--rows", rows, "--rounds", bench.rounds,
                         "--cpu", bench.client_cpu, *options)


def rates(bench, what, rows):
    """Millions of rows per second, of both."""
    done = measured(bench, what, rows)
    bench.note(f"{done['index']:.1f} bytes of index a row")
    return [[rate / 1e6 for rate in done[side]] for side in ("ours", "peer")]


def resident(bench, rows):
    """Resident bytes of a table, and what is told about them."""
    done = measured(bench, "memory", rows)
    each = (done["used"] - done["values"]) / done["rows"]
    bench.note(f"{each:.1f} bytes a row beside values and slots, "
               f"{100 * (1 - done['used'] / done['resident']):.1f} % slack, "
               f"{done['made_per_s'] / 1e6:.2f} M rows/s made, "
               f"{done['apply_per_s'] / 1e6:.2f} M rows/s changed")
    return done


@row("rows-pull", unit="M rows/s", peer="a gather", bar=at_least(0.7), needs=["tables"],
     long=LONG)
def rows_pull(bench):
    """Reads of 16 M rows of 64 values by id, one core."""
    return rates(bench, "pull", 16 * MILLION)


@row("rows-apply", unit="M rows/s", peer="gather and scatter", bar=at_least(0.6),
     needs=["tables"], long=LONG)
def rows_apply(bench):
    """Updates of the same with rowwise_adagrad, one core."""
    return rates(bench, "apply", 16 * MILLION)


@row("rows-fbgemm", unit="M rows/s", peer="FBGEMM's array", bar=at_least(1),
     needs=["tables"], long="makes 8 million rows of 64 values, twice: 5 GB")
def rows_fbgemm(bench):
    """Steps on 8 M rows of 64 values with rowwise_adagrad, read and changed, one core."""
    done = measured(bench, "step", 8 * MILLION)
    told = peer(bench, "fbgemm_rows.py", rows=8 * MILLION, windows=bench.rounds,
                cpu=bench.client_cpu)
    bench.note(f"reads alone {statistics.median(done['read']) / 1e6:.2f} and "
               f"{told['read'] / 1e6:.2f} M rows/s")
    return [[rate / 1e6 for rate in rates] for rates in (done["step"], told["windows"])]


@row("rows-ssd", unit="M rows/s", peer="all rows in memory", bar=at_least(0.5),
     needs=["tables"])
def rows_ssd(bench):
    """Steps on 2 M rows of 64 values with rowwise_adagrad, a tenth of them in memory."""
    with tempfile.TemporaryDirectory(prefix="sluice-test-") as folder:
        done = measured(bench, "tier", 2 * MILLION, "--folder", folder)
    bench.note(f"{100 * done['met']:.0f} % of the rows were found in memory, "
               f"{done['bytes'] / done['rows']:.0f} bytes of memory a row; by the time of the "
               f"processor alone the ratio is {done['cpu']:.2f}")
    return [[rate / 1e6 for rate in done[side]] for side in ("ours", "peer")]


TABLES, IDS, DIM = 26, 2048, 16  # of Criteo's clicks, and a batch of them


@row("rows-wire", unit="GB/s", peer="raw TCP", bar=at_least(0.8),
     needs=["psserver", "lib_push", "raw_stream"])
def rows_wire(bench):
    """Rows of 26 x 2,048 ids and 16 values that a step pulls and pushes, in bytes; those
    of the next step are asked for ahead."""
    step_bytes = TABLES * IDS * (8 + 4 * DIM)  # each way
    with bench.cluster(over="tcp") as c:
        _, target = c.place(elements=1, shards=1, tables=[
            {"name": f"t{i}", "dim": DIM, "optimizer": {
                "type": "rowwise_adagrad", "learning_rate": 1e-6}} for i in range(TABLES)])
        job = target[target.index("--job") + 1]

        def ours(ahead=True):
            return bench.program("lib_push", "--coordinator", c.address, "--job", job,
                                 *bench.timed(), "--cpu", bench.client_cpu, "--tables",
                                 TABLES, "--ids", IDS, "--dim", DIM,
                                 f"--ahead={str(ahead).lower()}")["bytes_per_s"] / 1e9
        bench.note(f"{ours(False):.3f} GB/s if no row is asked for before its step begins")
        return bench.alternate(
            ours,
            lambda: bench.program("raw_stream", *bench.timed(), "--mode", "pushpull",
                                  "--over", "tcp", "--bytes", step_bytes,
                                  "--outstanding", 1, "--far-cpu", bench.server_cpu,
                                  "--near-cpu", bench.client_cpu)["bytes_per_s"] / 1e9)


@row("rows-load", unit="M rows/s", peer="the index half full", bar=at_least(0.8),
     needs=["tables"])
def rows_load(bench):
    """Reads of 2 M rows with the index 0.9 full."""
    return rates(bench, "load", 2 * MILLION)


@row("rows-memory", unit="bytes", peer="24 bytes", bar=at_most(1), needs=["tables"])
def rows_memory(bench):
    """Bytes a row beside values and slots: 2 M rows of 64 values, with rowwise_adagrad."""
    done = resident(bench, 2 * MILLION)
    return (done["used"] - done["values"]) / done["rows"], 24


@row("rows-slack", unit="MB", peer="bytes in use", bar=at_most(1.12), needs=["tables"])
def rows_slack(bench):
    """Resident bytes of the same table."""
    done = resident(bench, 2 * MILLION)
    return done["resident"] / 1e6, done["used"] / 1e6


@row("rows-many", unit="GiB", peer="24 GiB", bar=at_most(1), needs=["table_cut"],
     long="makes, cuts and restores a hundred million rows: 11 GB of files")
def rows_many(bench):
    """Most resident bytes of 100 million rows of 8 values, made, changed, cut and restored."""
    with tempfile.TemporaryDirectory(prefix="sluice-test-") as folder:
        done = bench.program("table_cut", "--folder", folder, "--rows", 100_000_000, "--dim", 8)
    bench.note(f"made in {done['made_s']:.0f} s, {done['base'] / GIB:.1f} GiB cut in "
               f"{done['cut_s']:.0f} s beside pushes, restored in {done['restore_s']:.0f} s; "
               f"99 of 100 pushes take {done['quiet_ms']:.1f} ms, {done['base_ms']:.1f} "
               "while it is cut")
    return done["peak"] / GIB, 24


@row("rows-delta", unit="MB", peer="the base", bar=at_most(0.013), needs=["table_follow"])
def rows_delta(bench):
    """The delta of a table of 4 M rows of 16 values, of which 1 % changed."""
    with tempfile.TemporaryDirectory(prefix="sluice-test-") as folder:
        done = bench.program("table_follow", "--folder", folder, "--rows", 4 * MILLION,
                             "--cpu", bench.client_cpu)
    rate = 4 * MILLION / 1e6
    bench.note(f"{rate / done['base_s']:.2f} M rows/s written as a base, "
               f"{rate / done['delta_s']:.2f} M rows/s compared, "
               f"{done['peak'] / 1e6:.0f} MB resident at most, with mapped files")
    return done["delta"] / 1e6, done["base"] / 1e6


def cut(bench):
    """What bench.table_cut measured."""
    with tempfile.TemporaryDirectory(prefix="sluice-test-") as folder:
        done = bench.program("table_cut", "--folder", folder, "--rows", 4 * MILLION)
    bench.note(f"99 of 100 pushes of 2,048 rows take {done['quiet_ms']:.1f} ms, "
               f"{done['base_ms']:.1f} while a base is written, {done['delta_ms']:.1f} while "
               "a delta is")
    return done


@row("rows-cut", unit="MB", peer="the base", bar=at_most(0.013), needs=["table_cut"])
def rows_cut(bench):
    """What a cut writes of a table of 4 M rows of 16 values, of which 1 % changed."""
    done = cut(bench)
    return done["delta"] / 1e6, done["base"] / 1e6


@row("rows-cut-wait", unit="ms", peer="no cut, and 50 ms", bar=at_most(1), needs=["table_cut"])
def rows_cut_wait(bench):
    """What 99 of 100 pushes take at most while that delta is written."""
    done = cut(bench)
    return done["delta_ms"], done["quiet_ms"] + 50
