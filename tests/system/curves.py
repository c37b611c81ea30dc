# SPDX-License-Identifier: Apache-2.0
"""Event files, decoded by hand: framing, checksums, and the fields of
TensorFlow's messages that proto/tensorboard.proto names."""
import pathlib
import struct

from cluster import check, check_equal

POLYNOMIAL = 0x82F63B78
TABLE = []
for i in range(256):
    value = i
    for _ in range(8):
        value = value >> 1 ^ (POLYNOMIAL if value & 1 else 0)
    TABLE.append(value)


def masked(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    """Every record of a file, which ends with a whole one."""
    data = pathlib.Path(path).read_bytes()
    while data:
        head, length = data[:8], struct.unpack("<Q", data[:8])[0]
        check_equal(struct.unpack("<I", data[8:12])[0], masked(head), f"{path}: checksum of a length")
        body, tail = data[12:12 + length], data[12 + length:16 + length]
        check_equal(struct.unpack("<I", tail)[0], masked(body), f"{path}: checksum of a record")
        yield body
        data = data[16 + length:]


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """{number: [values]} of one message."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            check(kind in (1, 2, 5), f"wire type {kind}")
            length = {1: 8, 5: 4}.get(kind)
            if length is None:
                length, at = varint(data, at)
            value, at = data[at:at + length], at + length
        found.setdefault(key >> 3, []).append(value)
    return found


class Value:
    def __init__(self, data):
        here = fields(data)
        tensor = fields(here[8][0])
        self.tag = here[1][0].decode()
        self.plugin = fields(fields(here[9][0])[1][0])[1][0].decode() if 9 in here else None
        packed = b"".join(tensor.get(5, []))
        self.floats = struct.unpack(f"<{len(packed) // 4}f", packed)
        self.texts = tensor.get(8, [])


class Event:
    def __init__(self, data):
        here = fields(data)
        self.wall = struct.unpack("<d", here[1][0])[0]
        self.step = here.get(2, [0])[0]
        self.version = here[3][0].decode() if 3 in here else None
        self.start = fields(here[7][0])[1][0] == 1 if 7 in here else False
        self.values = [Value(v) for v in fields(here[5][0])[1]] if 5 in here else []


class Run:
    """All files of a run, in their order, and that they are as they must be."""

    def __init__(self, folder):
        self.files = sorted(pathlib.Path(folder).glob("*tfevents*"))
        self.events, self.tags, self.starts, self.texts = [], {}, [], {}
        for file in self.files:
            self.read_file([Event(record) for record in records(file)], file)

    def read_file(self, events, file):
        check_equal(events[0].version, "brain.Event:2", f"{file}: what it begins with")
        walls, last, told = [e.wall for e in events], {}, set()
        check_equal(walls, sorted(walls), f"{file}: times")
        for event in events:
            if event.start:
                self.starts.append(event.step)
                self.tags = {tag: [p for p in points if p[0] < event.step] for tag, points in self.tags.items()}
                last = {}
            for v in event.values:
                check_equal(v.plugin is not None, v.tag not in told, f"{file}: metadata of {v.tag} at {event.step}")
                told.add(v.tag)
                check(v.tag not in last or event.step > last[v.tag], f"{file}: {v.tag} goes back to {event.step}")
                last[v.tag] = event.step
                if v.texts:
                    self.texts.setdefault(v.tag, []).append(v.texts[0].decode())
                else:
                    self.tags.setdefault(v.tag, []).append((event.step, v.floats))
        self.events += events
