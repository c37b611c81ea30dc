# SPDX-License-Identifier: Apache-2.0
"""torch.distributed's all_reduce over gloo: 2 ranks, a process and a core each;
one vector of floats again and again.

Prints the median in milliseconds.
"""
import json
import os
import statistics
import subprocess
import sys
import time

from common import die_with_parent, free_ports, options


def start_others(ranks):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_ports(1)[0]),
                      WORLD_SIZE=str(ranks), GLOO_SOCKET_IFNAME="lo")
    for rank in range(1, ranks):
        subprocess.Popen([sys.executable, *sys.argv], preexec_fn=die_with_parent,
                         env={**os.environ, "RANK": str(rank)},
                         stdout=subprocess.DEVNULL)
    os.environ["RANK"] = "0"


def main():
    o = options(__doc__, ("bytes", 1 << 20, "of the vector"),
                ("ranks", 2, "how many"))
    if "RANK" not in os.environ:
        start_others(o.ranks)
    rank = int(os.environ["RANK"])
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[rank % len(cpus)]})
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    data = torch.ones(o.bytes // 4)
    for _ in range(3):
        dist.all_reduce(data)
    ms, until = [], time.monotonic() + o.seconds
    while True:
        began = time.monotonic()
        data[0] = 1 if rank == 0 and began >= until else 0
        dist.all_reduce(data)
        if data[0] != 0:
            break
        ms.append((time.monotonic() - began) * 1000)
        if data[1] > 1e30:
            data.fill_(1)
    if rank == 0:
        print(json.dumps({"p50_ms": statistics.median(ms), "count": len(ms)}))


main()
