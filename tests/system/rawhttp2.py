# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 by hand, for peers that do not behave: what they say is said frame by
frame, and no more than the other side has room for."""
import socket
import struct

from badwire_test import OPENING, frame, headers, text

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
ACK = 1
FRAME_MOST = 16384


def message(data, size=None):
    """With the five bytes before it; `size`: as large as it claims to be."""
    return b"\0" + struct.pack(">I", len(data) if size is None else size) + data


class Raw:
    """One connection. `quiet`: it never lets the other side send a message."""

    def __init__(self, address, quiet=False):
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.settimeout(60)
        self.initial, self.all, self.streams = 65535, 65535, {}
        self.buffer, self.ended, self.gone = b"", {}, None
        self.data = {}
        settings = struct.pack(">HI", 4, 0) if quiet else b""
        self.socket.sendall(OPENING[:-9] + frame(SETTINGS, 0, 0, settings))

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def call(self, path, stream=1, size=None):
        """`size`: as large as its request will be, as our workers say it."""
        more = b"" if size is None else b"\0" + text("sluice-bytes") + text(str(size))
        self.write(frame(HEADERS, 4, stream, headers(path) + more))
        self.streams.setdefault(stream, 0)

    # ---- what comes

    def hear(self, limit_s=0.0):
        """Reads what is there, for so long at most; False: nothing was."""
        self.socket.settimeout(max(limit_s, 0.001))
        try:
            data = self.socket.recv(1 << 16)
        except (TimeoutError, BlockingIOError):
            return False
        except OSError as error:
            data, self.gone = b"", str(error)
        finally:
            self.socket.settimeout(60)
        if not data:
            self.gone = self.gone or "closed"
            return False
        self.buffer += data
        self.take_frames()
        return True

    def take_frames(self):
        while len(self.buffer) >= 9:
            size = int.from_bytes(self.buffer[:3], "big")
            if len(self.buffer) < 9 + size:
                return
            head, body = self.buffer[:9], self.buffer[9:9 + size]
            self.buffer = self.buffer[9 + size:]
            self.take(head[3], head[4], int.from_bytes(head[5:], "big"), body)

    def take(self, kind, flags, stream, body):
        number = int.from_bytes(body[:4], "big")
        if kind == SETTINGS and not flags & ACK:
            for at in range(0, len(body), 6):
                key, value = struct.unpack(">HI", body[at:at + 6])
                if key == 4:
                    self.initial = value
            self.write(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self.write(frame(PING, ACK, 0, body))
        elif kind == WINDOW and stream == 0:
            self.all += number
        elif kind == WINDOW:
            self.streams[stream] = self.streams.get(stream, 0) + number
        elif kind == DATA:
            self.data[stream] = self.data.get(stream, b"") + body
        elif kind == RESET:
            self.ended[stream] = self.ended.get(stream) or f"reset {number}"
        elif kind == GOAWAY:
            self.gone = "told to go"
        if kind == HEADERS and flags & 1:
            # One that failed has a status and nothing else.
            self.ended[stream] = "answered" if self.data.get(stream) else "refused"

    # ---- what goes

    def write(self, data):
        try:
            self.socket.sendall(data)
        except OSError as error:
            self.gone = self.gone or str(error)

    def room(self, stream=1):
        return min(self.all, self.initial + self.streams.get(stream, 0))

    def say(self, data, stream=1, last=False):
        """As much as there is room for now; the number of bytes."""
        size = max(min(len(data), self.room(stream)), 0)
        for at in range(0, size, FRAME_MOST):
            part = data[at:min(at + FRAME_MOST, size)]
            end = last and at + len(part) == len(data)
            self.write(frame(DATA, 1 if end else 0, stream, part))
        self.all -= size
        self.streams[stream] = self.streams.get(stream, 0) - size
        return size
