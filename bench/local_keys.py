#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What keys of mode local cost in loss, on one small job, beside the job without them.

    python=$(bench/setup --python)
    $python bench/local_keys.py keys          average, norm, pace, fragments, overlap, codes
    $python bench/local_keys.py moments       a worker that is killed, and its moments

Each line is JSON: the medians over --seeds of the loss and the accuracy on samples
that were not trained on, and `against` the first line of its group in percent.
`keys` trains the net of the system tests by four workers, in rounds of four
contributions. For `pace` two of the workers stand still half of the time.
`moments` trains it by one worker, which is killed --kills times and started again.
Binaries: SLUICE_BIN.
"""
import argparse
import contextlib
import json
import pathlib
import statistics
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/system"))
sys.dont_write_bytecode = True

WORKERS, STEPS = 4, 20
# Contributions are old here, which a rate of 0.6 does not always bear.
OPEN = {"quorum": 3, "rate": 0.3}
# As a job with topk2 has it where nothing is said.
PLAIN = {"outer": {"type": "sgd", "learning_rate": 1}}
# Group by group: name, keys of train, keys of train.inner, whether two workers are slow.
KEYS = [
    [("slots", {}, {}, False),
     ("average: direction", {"average": "direction"}, {}, False),
     ("average: direction, outer rate 0.3", {"average": "direction", "rate": 0.3}, {}, False),
     ("norm: median", {"norm": "median"}, {}, False),
     ("slots, moments: keep", {}, {"moments": "keep"}, False)],
    [("quorum 3, moments: keep", OPEN, {"moments": "keep"}, False),
     ("fragments: 4", {**OPEN, "fragments": 4}, {}, False),
     ("fragments: 4, overlap: 2", {**OPEN, "fragments": 4, "overlap": 2}, {}, False)],
    [("quorum 3, closure 5, two slow", OPEN, {"closure": 5}, True),
     ("the same, pace: own", OPEN, {"closure": 5, "pace": "own"}, True)],
    [("quorum 3, outer rate 0.3", OPEN, {"moments": "keep"}, False),
     ("the same, weight: age", {**OPEN, "weight": "age"}, {"moments": "keep"}, False),
     ("quorum 3, outer rate 0.6", {"quorum": 3}, {"moments": "keep"}, False),
     ("the same, weight: age", {"quorum": 3, "weight": "age"}, {"moments": "keep"}, False)],
    [("outer sgd at 1, up: f32", PLAIN, {}, False),
     ("up: topk2", PLAIN, {"up": "topk2"}, False),
     ("up: topk2, down: e3m0", PLAIN, {"up": "topk2", "down": "e3m0"}, False)],
    [("up, down: f32", {}, {}, False),
     ("up: e3m0", {}, {"up": "e3m0"}, False),
     ("up, down: e3m0", {}, {"up": "e3m0", "down": "e3m0"}, False),
     ("up, down: int8", {}, {"up": "int8", "down": "int8"}, False),
     ("up, down: bf16", {}, {"up": "bf16", "down": "bf16"}, False)],
]


def say(**figures):
    print(json.dumps(figures), flush=True)


@contextlib.contextmanager
def standing_still(cluster, names):
    """Stops these workers half of the time, 20 ms by 20 ms."""
    over = threading.Event()

    def run():
        while not over.is_set():
            for how in (cluster.pause, cluster.resume):
                for name in names:
                    how(name)
                over.wait(0.02)

    thread = threading.Thread(target=run)
    if names:
        thread.start()
    try:
        yield
    finally:
        over.set()
        if names:
            thread.join()


def job_of(options, contributions, seed, train, inner):
    from cluster import fashion_source, mlp_job
    train = dict(train)
    rate = train.pop("rate", 0.6)
    spec = mlp_job("keys", samples=options.samples, epochs=options.epochs, mode="local",
                   contributions=contributions, seed=seed, inner={"steps": STEPS, **inner},
                   **{"outer": {"type": "sgd", "learning_rate": rate, "momentum": 0.9,
                                "nesterov": True}, **train})
    spec["checkpoint"] = {"every_seconds": 3600}
    spec["data"]["test"] = fashion_source("t10k", 10000)
    spec["placement"] = {"partitioner": "fixed", "shards": 4}
    return spec


def tell(name, done, first):
    """Prints the medians of finished jobs, beside those of `first`; returns the loss."""
    last = [status["evaluations"][-1] for status in done]
    loss = statistics.median(e["loss"] for e in last)
    say(keys=name, loss=round(loss, 4),
        accuracy=round(statistics.median(e["accuracy"] for e in last), 4),
        all=[round(e["loss"], 4) for e in last],
        updates=[int(status["shards"][0]["counts"]["version"]) for status in done],
        against=f"{100 * (loss / (first or loss) - 1):+.1f} %")
    return loss


def keys(options):
    from cluster import Cluster
    with Cluster(psservers=2, workers=WORKERS) as c:
        only = options.only
        for group in KEYS[only - 1:only] if only else KEYS[-options.groups:]:
            first = None
            for name, train, inner, slow in group:
                done = []
                for seed in range(1, options.seeds + 1):
                    job = c.submit(job_of(options, WORKERS, seed, train, inner))
                    with standing_still(c, ("w-2", "w-3") if slow else ()):
                        done.append(c.wait_state(job, limit_s=900))
                loss = tell(name, done, first)
                first = first or loss


def killed(c, options, seed, inner, kills):
    """Trains with so many kills, at equal distances. Returns the status of the end."""
    job = c.submit(job_of(options, 1, seed, {}, inner))
    whole = options.samples * options.epochs // (32 * STEPS)
    for k in range(1, kills + 1):
        c.wait_steps(job, whole * k // (kills + 1))
        c.restart("w-0")
    done = c.wait_state(job, limit_s=900)
    local = done["local"]
    say(seed=seed, **inner, kills=kills, pushed_bytes=round(local["pushed_bytes"], 1),
        pulled_bytes=round(local["pulled_bytes"], 1))
    return done


def moments(options):
    from cluster import Cluster
    ways = [("keep, no kill", {"moments": "keep"}, 0),
            ("keep", {"moments": "keep"}, options.kills),
            ("reset", {"moments": "reset"}, options.kills)]
    ways += [(f"store, every {n}", {"moments": "store", "moments_every": n}, options.kills)
             for n in (1, 8, 64)]
    first = None
    with Cluster(psservers=2, workers=1) as c:
        for name, inner, kills in ways:
            began = time.monotonic()
            done = [killed(c, options, seed, inner, kills)
                    for seed in range(1, options.seeds + 1)]
            loss = tell(name, done, first)
            first = first or loss
            say(seconds=round(time.monotonic() - began))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["keys", "moments"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=32000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--groups", type=int, default=len(KEYS),
                        help="keys: the last so many (all)")
    parser.add_argument("--only", type=int, help="keys: this group alone, from 1")
    parser.add_argument("--kills", type=int, default=10)
    options = parser.parse_args()
    {"keys": keys, "moments": moments}[options.what](options)


if __name__ == "__main__":
    main()
