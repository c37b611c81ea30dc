#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The means themselves: a proxy that does not delay, or an account that finds
every sum right, would make every other test here pass."""
import contextlib
import pathlib
import socket
import tempfile
import threading

import conserve
from cluster import check, check_equal, main
from proxy import CHUNK, Proxy, connect, listen


@contextlib.contextmanager
def link(tcp=False, **options):
    """(client, server end, proxy): one connection through a proxy."""
    with tempfile.TemporaryDirectory() as folder:
        there = ("127.0.0.1", 0) if tcp else pathlib.Path(folder) / "there"
        here = ("127.0.0.1", 0) if tcp else pathlib.Path(folder) / "here"
        listener = listen(there)
        with Proxy(here, listener.getsockname(), **options) as proxy:
            client = connect(proxy.here)
            server, _ = listener.accept()
            for one in (client, server):
                one.settimeout(30)
            with client, server, listener:
                yield client, server, proxy


def take(one, count):
    data = b""
    while len(data) < count:
        part = one.recv(count - len(data))
        check(part, f"the end after {len(data)} of {count} bytes")
        data += part
    return data


def silent(one):
    one.settimeout(0.2)
    try:
        return one.recv(1) is None
    except TimeoutError:
        return True
    finally:
        one.settimeout(30)


def bytes_pass_unchanged_in_both_directions():
    data = bytes(range(256)) * 4096
    for tcp in (False, True):
        with link(tcp) as (client, server, proxy):
            for source, sink in ((client, server), (server, client)):
                sender = threading.Thread(target=source.sendall, args=(data,))
                sender.start()
                check(take(sink, len(data)) == data, "other bytes arrived")
                sender.join()
            check_equal(proxy.passed("up"), len(data), "bytes counted")


def delay_keeps_the_order_and_comes_from_the_seed():
    def draws(seed):
        with link(seed=seed) as (client, server, proxy):
            proxy.delay(0.002, 0.002)
            for i in range(20):
                client.sendall(bytes([i]))
                check_equal(take(server, 1), bytes([i]), "byte")
            return proxy.dice.random()
    check_equal(draws(7), draws(7), "the same seed")
    check(draws(7) != draws(8), "another seed")


def stall_stops_one_direction_until_healed():
    with link() as (client, server, proxy):
        proxy.stall("up")
        client.sendall(b"a")
        server.sendall(b"b")
        check_equal(take(client, 1), b"b", "down passes")
        check(silent(server), "a stalled byte arrived")
        proxy.heal()
        check_equal(take(server, 1), b"a", "the byte after the stall")


def cut_after_n_bytes_passes_exactly_n():
    for count in (0, 1, 1000):
        with link() as (client, server, proxy):
            proxy.cut_after(count, "up")
            client.sendall(b"x" * 1001)
            check_equal(len(take(server, count)), count, "bytes before the cut")
            check_equal(server.recv(1), b"", "the end at the server")
            with contextlib.suppress(ConnectionError):
                check_equal(client.recv(1), b"", "the end at the client")


def reset_ends_both_sides():
    for tcp in (False, True):
        with link(tcp) as (client, server, proxy):
            client.sendall(b"x")
            take(server, 1)
            proxy.reset()
            for one in (client, server):
                with contextlib.suppress(ConnectionError):
                    check_equal(one.recv(1), b"", "after a reset")


def half_close_ends_one_direction_only():
    with link() as (client, server, proxy):
        client.sendall(b"x")
        take(server, 1)
        proxy.half_close("down")
        check_equal(client.recv(1), b"", "end of stream at the client")
        client.sendall(b"y")
        check_equal(take(server, 1), b"y", "the other way")


def slow_reading_passes_small_chunks():
    with link() as (client, server, proxy):
        proxy.slow(3, 0.0)
        client.sendall(b"0123456789")
        check_equal(take(server, 10), b"0123456789", "bytes")
        check(CHUNK > 3 and proxy.ways["up"].chunk == 3, "the chunk")


def refusing_ends_new_connections_until_healed():
    with link() as (_, _, proxy):
        proxy.refuse()
        one = connect(proxy.here)
        one.settimeout(30)
        with one, contextlib.suppress(ConnectionError):
            check_equal(one.recv(1), b"", "a refused connection")
        proxy.heal()


def an_account_names_the_step_that_is_lost_or_doubled():
    samples, epochs = 48, 3
    want, primes = conserve.expected(samples, epochs)
    keys = list(conserve.steps_of(samples, epochs))
    check_equal(len(keys), 36, "steps")
    check_equal(conserve.account(want, samples, epochs), "", "the right sum")
    for closure, step in keys:
        vector = conserve.step_vector(primes[closure], closure, step)
        for sign, word in ((1, "counted twice"), (-1, "lost")):
            text = conserve.account([w + sign * v for w, v in zip(want, vector)],
                                    samples, epochs)
            for part in (f"closure {closure} ", f"step {step},", word,
                         f"prime {primes[closure]})"):
                check(part in text, f"no '{part}' in: {text}")
    half = [w + 0.5 for w in want]
    check(conserve.account(half, samples, epochs), "a half step is no integer")
    a = conserve.step_vector(primes[0], 0, 0)
    b = conserve.step_vector(primes[1], 1, 0)
    both = [w + x - y for w, x, y in zip(want, a, b)]
    check(conserve.account(both, samples, epochs), "one lost, one doubled")


def short_epochs_are_cut_as_the_schedule_does():
    # 10 samples in batches of 4: 3 steps, one closure an epoch
    check_equal(list(conserve.steps_of(10, 2)),
                [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)], "steps")
    check_equal(len(set(conserve.primes(1024))), 1024, "primes")
    conserve.expected(conserve.SAMPLES, 40)  # still exact


if __name__ == "__main__":
    main([bytes_pass_unchanged_in_both_directions,
          delay_keeps_the_order_and_comes_from_the_seed,
          stall_stops_one_direction_until_healed,
          cut_after_n_bytes_passes_exactly_n,
          reset_ends_both_sides,
          half_close_ends_one_direction_only,
          slow_reading_passes_small_chunks,
          refusing_ends_new_connections_until_healed,
          an_account_names_the_step_that_is_lost_or_doubled,
          short_epochs_are_cut_as_the_schedule_does])
