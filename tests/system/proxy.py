# SPDX-License-Identifier: Apache-2.0
"""A proxy between daemons that breaks connections as a test tells it to.

    with Proxy(c.dir / "p.sock", c.dir / "ps-0.sock", seed=1) as p:
        p.delay(0.075, 0.050)      each chunk waits 75 ms +- 50 ms, in order
        p.stall("down")            nothing passes in that direction any more
        p.heal()                   everything passes again
        p.cut_after(1000, "up")    the next 1000 bytes pass, then both ends close
        p.reset()                  connection reset, at once
        p.half_close("down")       end of stream one way, the other way lives on
        p.slow(512, 0.01)          reads 512 bytes, waits, reads on
        p.refuse()                 new connections end at once

"up" is from who dials to who listens. Addresses are paths of unix sockets or
(host, port). Chunks, delays and nothing else come from the seed. A fault of a
link applies to all its connections, present and future, until heal().
"""
import contextlib
import os
import random
import socket
import struct
import threading

CHUNK = 65536


def connect(address):
    family = socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX
    one = socket.socket(family)
    one.connect(address if isinstance(address, tuple) else str(address))
    return one


def listen(address):
    family = socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX
    one = socket.socket(family)
    if family == socket.AF_INET:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(address if isinstance(address, tuple) else str(address))
    one.listen(64)
    return one


class Direction:
    """What happens to bytes of one direction; guarded by the proxy's lock."""

    def __init__(self):
        self.clear()
        self.bytes = 0

    def clear(self):
        self.stalled = False
        self.left = None          # bytes until the cut
        self.chunk = CHUNK
        self.mean = self.jitter = self.pause = 0.0


class Proxy:
    def __init__(self, here, there, seed=1):
        self.there = there
        self.dice = random.Random(seed)
        self.changed = threading.Condition()
        self.ways = {"up": Direction(), "down": Direction()}
        self.pairs = set()        # (dialled, dialling) sockets
        self.closed = self.refusing = False
        self.connections = 0
        self.listener = listen(here)
        self.here = self.listener.getsockname()
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self.listener.close()
        self.reset()
        if isinstance(self.here, str):
            with contextlib.suppress(OSError):
                os.unlink(self.here)

    # ---- faults

    def each(self, way):
        return self.ways.values() if way == "both" else [self.ways[way]]

    def set(self, way="both", **values):
        with self.changed:
            for direction in self.each(way):
                direction.__dict__.update(values)
            self.changed.notify_all()

    def delay(self, mean, jitter=0.0, way="both"):
        self.set(way, mean=mean, jitter=jitter)

    def stall(self, way="both"):
        self.set(way, stalled=True)

    def cut_after(self, count, way="up"):
        self.set(way, left=count)

    def slow(self, chunk, pause, way="both"):
        self.set(way, chunk=chunk, pause=pause)

    def refuse(self):
        with self.changed:
            self.refusing = True
        self.reset()

    def heal(self):
        with self.changed:
            self.refusing = False
            for direction in self.ways.values():
                direction.clear()
            self.changed.notify_all()

    def reset(self):
        with self.changed:
            pairs, self.pairs = self.pairs, set()
        for pair in pairs:
            self.abort(pair)

    def half_close(self, way):
        with self.changed:
            pairs = list(self.pairs)
        for client, server in pairs:
            with contextlib.suppress(OSError):
                (server if way == "up" else client).shutdown(socket.SHUT_WR)

    def passed(self, way):
        with self.changed:
            return self.ways[way].bytes

    # ---- forwarding: an accepting thread, and two per connection

    @staticmethod
    def abort(pair):
        for one in pair:
            with contextlib.suppress(OSError):
                if one.family == socket.AF_INET:  # a reset, not an end
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                   struct.pack("ii", 1, 0))
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = connect(self.there)
            except OSError:
                self.abort([client])
                continue
            pair = (client, server)
            with self.changed:
                if self.closed or self.refusing:
                    self.abort(pair)
                    continue
                self.pairs.add(pair)
                self.connections += 1
            for way, source, sink in (("up", client, server),
                                      ("down", server, client)):
                threading.Thread(target=self.pump, daemon=True,
                                 args=(pair, self.ways[way], source, sink)).start()

    def allowed(self, pair, way, wanted):
        """How many of `wanted` bytes may pass now; waits while stalled. 0: the
        connection is to be cut."""
        with self.changed:
            self.changed.wait_for(lambda: self.closed or pair not in self.pairs
                                  or not way.stalled)
            if self.closed or pair not in self.pairs:
                return 0, 0.0
            pause = way.pause
            if way.mean:
                pause += max(0.0, self.dice.uniform(way.mean - way.jitter,
                                                    way.mean + way.jitter))
            if way.left is None:
                return wanted, pause
            take = min(way.left, wanted)
            way.left = None if take < wanted else way.left - take  # once
            return take, pause

    def pump(self, pair, way, source, sink):
        turn = threading.Event()  # never set: a wait that is a pause
        try:
            while data := source.recv(way.chunk):
                take, pause = self.allowed(pair, way, len(data))
                if pause:
                    turn.wait(pause)
                sink.sendall(data[:take])
                with self.changed:
                    way.bytes += take
                    self.changed.notify_all()
                if take < len(data):
                    break
            else:
                sink.shutdown(socket.SHUT_WR)
                return
        except OSError:
            pass
        with self.changed:
            self.pairs.discard(pair)
            self.changed.notify_all()
        self.abort(pair)
