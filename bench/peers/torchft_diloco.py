# SPDX-License-Identifier: Apache-2.0
"""torchft's DiLoCo over gloo, while ranks die (killed_ranks.py).

A rank that dies is taken out of the quorum by the lighthouse, and the one that comes in
its place copies the state from another.
"""
import datetime
import time

import killed_ranks
from common import die_with_parent, free_ports

LIMIT = datetime.timedelta(seconds=10)


def train(o, rank):
    die_with_parent()
    import torch
    from torch.distributed import TCPStore
    from torchft import Manager, ProcessGroupGloo
    from torchft.local_sgd import DiLoCo
    torch.set_num_threads(1)
    model, port = torch.nn.Module(), free_ports(1)[0]
    model.values = torch.nn.Parameter(torch.zeros(o.elements))
    inner = torch.optim.SGD(model.parameters(), lr=1e-6)
    outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)
    store = TCPStore("localhost", port, is_master=True, wait_for_workers=False)
    manager = Manager(
        pg=ProcessGroupGloo(timeout=LIMIT), min_replica_size=1, use_async_quorum=False,
        load_state_dict=lambda state: model.load_state_dict(state["model"]),
        state_dict=lambda: {"model": model.state_dict()}, rank=0, world_size=1,
        store_addr="localhost", store_port=store.port, lighthouse_addr=rank.meets,
        replica_id=f"rank-{rank.number}", timeout=LIMIT, quorum_timeout=LIMIT)
    with DiLoCo(manager, [model], inner, outer, sync_every=o.steps):
        while True:
            rank.say(manager.batches_committed() * o.steps)
            time.sleep(o.pace)
            model.values.grad = torch.ones(o.elements)
            inner.step()


def meet():
    from torchft.coordination import LighthouseServer
    lighthouse = LighthouseServer(bind="[::]:0", min_replicas=1, join_timeout_ms=100,
                                  quorum_tick_ms=50, heartbeat_timeout_ms=2000)
    return lighthouse.address(), lighthouse


if __name__ == "__main__":
    killed_ranks.run(__doc__, "torchft DiLoCo, gloo", train, meet)
