# SPDX-License-Identifier: Apache-2.0
"""Hosts whose clock is wrong (libfaketime): each daemon in a network namespace
of its own with mutual TLS, whose certificates have dates. Needs root; skipped
(77) where namespaces cannot be had."""
import os
import pathlib
import sys

from bed import check, ended, run
from hosts import HostBed, possible
from network_test import certificate, returns

# The one for programs with threads; SLUICE_FAKETIME names another.
FAKETIME = pathlib.Path(os.environ.get(
    "SLUICE_FAKETIME",
    f"/usr/lib/{os.uname().machine}-linux-gnu/faketime/libfaketimeMT.so.1"))


def clock(offset):
    """For the environment of a daemon: wall and monotonic clock, shifted."""
    return {"LD_PRELOAD": str(FAKETIME), "FAKETIME": offset}


def wrong_clock(test):
    """Of a test that needs libfaketime: nothing where there is none."""
    if FAKETIME.exists():
        return test
    print(f"{test.__name__}: left out, no {FAKETIME} (Debian: libfaketime)")
    return None


@wrong_clock
def N27_a_clock_that_is_a_year_ahead_is_told_so():
    """To it the certificates have expired; the others do not care."""
    with HostBed(net_epochs=12) as b:
        at = b.mark("coordinator")
        certificate(b, "coordinator", 10)
        b.on_log("coordinator", "certificates replaced", at)
        b.on()
        b.kill("w-0")
        at = b.mark("w-0")
        b.start("w-0", wait=False, environment=clock("+366d"))  # the peer's
        b.on_log("w-0", "not valid yet by this host's clock", at)
        check("attached" not in b.log("w-0")[at:], "it took an expired certificate")
        b.on(1, 20)
        b.kill("w-0")
        certificate(b, "worker", 10)
        at = b.mark("w-0")
        late = b.start("w-0", wait=False, environment=clock("+366d"))  # its own
        ended(late)
        check(late.returncode == 2, f"exit {late.returncode}, wanted 2")
        check("this host's clock says" in b.log("w-0")[at:], "no word of the clock")
        b.start("w-0")  # the clock was set
        b.end()


@wrong_clock
def N27_a_clock_that_is_an_hour_ahead_changes_nothing():
    """Leases, heartbeats and deadlines are spans, never times of day."""
    with HostBed(net_epochs=12) as b:
        b.no_history("its lines are ordered by the clock that is wrong here")
        b.on()
        for name in ("w-0", "ps-1", "coordinator"):
            b.kill(name)
            at = b.mark(name)
            b.start(name, environment=clock("+1h"))
            if name != "coordinator":
                returns(b, name, at)
            b.on()
        b.end()


if __name__ == "__main__":
    if not possible(cuts=False):
        print("no network namespaces here: skipped")
        sys.exit(77)
    run(globals())
