# SPDX-License-Identifier: Apache-2.0
"""How soon another coordinator leads: three of them, an etcd of three members, and a
job in training. From the blow until a standby has taken over and answers."""
import contextlib
import datetime
import signal
import statistics
import time

from cluster import wait_for  # of tests/system, as etcd and standby are
from etcd import Etcd
from standby import Standbys
from table import at_most, row

import exact

NEEDS = ["psserver"]  # and the other daemons with it
BLOWS = 4  # for each of --rounds
EPOCHS = 2000  # nobody waits for the end


def stamp(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


@contextlib.contextmanager
def training(ttl):
    with Etcd() as etcd, Standbys(etcd, ttl=ttl, psservers=2, workers=2) as c:
        job = c.submit(exact.exact_job(c, "failover", EPOCHS, "sync"))
        c.wait_steps(job, 20)
        yield c, job


def host_lost(c, leader):
    c.kill(leader)


def killed(c, leader):
    c.kill(leader)
    c.resign(leader)  # as ExecStopPost= of its unit does


def stopped(c, leader):
    c.kill(leader, signal.SIGTERM)


def times(bench, what, ttl, blow):
    """Seconds until another coordinator leads, and until the job counts again."""
    leads, counts = [], []
    with training(ttl) as (c, job):
        for _ in range(BLOWS * bench.rounds):
            old, before = c.leads(), len(c.terms())
            began = time.time()
            blow(c, old)
            wait_for("another one to lead", lambda: len(c.terms()) > before)
            leads.append(stamp(c.terms()[-1][0]) - began)
            c.wait_steps(job, c.steps(job) + 1)
            counts.append(time.time() - began)
            c.revive()
            time.sleep(1)  # the one that was started is a standby by then
        c.check_terms(len(leads))
    leads.sort()
    bench.note(f"{what}, ttl {ttl}: {len(leads)} times, median {statistics.median(leads):.2f} s, "
               f"longest {leads[-1]:.2f} s; counted again after {statistics.median(counts):.2f} s, "
               f"at most {max(counts):.2f} s")
    return leads[-1:]


@row("failover-host", unit="s", peer="6 s", bar=at_most(1), needs=NEEDS,
     long="leases of 5 s to end")
def failover_host(bench):
    """Longest time to another leader when the leader's host is lost, leases of 5 s."""
    return times(bench, "host lost", "5s", host_lost), 6


@row("failover-host-2", unit="s", peer="3 s", bar=at_most(1), needs=NEEDS,
     long="leases of 2 s to end")
def failover_host_2(bench):
    """The same with leases of 2 s, the shortest that etcd grants as it is set up."""
    return times(bench, "host lost", "2s", host_lost), 3


@row("failover-kill", unit="s", peer="1 s", bar=at_most(1), needs=NEEDS,
     long="many restarts")
def failover_kill(bench):
    """The same when the process is killed and its unit ends the lease (--resign)."""
    return times(bench, "kill -9, then --resign", "5s", killed), 1


@row("failover-stop", unit="s", peer="0.5 s", bar=at_most(1), needs=NEEDS,
     long="many restarts")
def failover_stop(bench):
    """The same when the leader is stopped in order (SIGTERM)."""
    return times(bench, "stop", "5s", stopped), 0.5
