# SPDX-License-Identifier: Apache-2.0
"""hivemind's Optimizer with local updates, while ranks die (killed_ranks.py).

Ranks take steps by themselves; when the swarm has taken as many as a round has, they
find each other by the DHT and average their parameters. A rank that comes downloads
them from another.
"""
import time

import killed_ranks
from common import die_with_parent


def train(o, rank):
    die_with_parent()
    import hivemind
    import torch
    torch.set_num_threads(1)
    values = torch.nn.Parameter(torch.zeros(o.elements))
    dht = hivemind.DHT(initial_peers=rank.meets.split(","), start=True,
                       host_maddrs=["/ip4/127.0.0.1/tcp/0"])
    round_steps = o.ranks * o.steps
    optimizer = hivemind.Optimizer(
        dht=dht, run_id="bench", target_batch_size=round_steps, batch_size_per_step=1,
        params=[values], optimizer=lambda params: torch.optim.SGD(params, lr=1e-6),
        use_local_updates=True, matchmaking_time=1.0, averaging_timeout=10.0,
        delay_state_averaging=False, tracker_opts={"min_refresh_period": 0.1,
                                                   "default_refresh_period": 0.2,
                                                   "max_refresh_period": 1.0})
    optimizer.load_state_from_peers()
    while True:
        rank.say(optimizer.local_epoch * round_steps)
        time.sleep(o.pace)
        values.grad = torch.ones(o.elements)
        optimizer.step()


def meet():
    import hivemind
    dht = hivemind.DHT(start=True, host_maddrs=["/ip4/127.0.0.1/tcp/0"])
    return ",".join(map(str, dht.get_visible_maddrs())), dht


if __name__ == "__main__":
    killed_ranks.run(__doc__, "hivemind Optimizer, local updates", train, meet)
