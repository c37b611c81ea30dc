# SPDX-License-Identifier: Apache-2.0
"""Messages that a member could send: any field of any message, of numbers that
the sender has heard, or of those at which programs break: where the table of
bounds (bounds.py) has an end, powers of two, what another field or job had."""
import bounds
from google.protobuf.descriptor import FieldDescriptor as Field

EDGES = [0, 0, 1, 1, 2, 3, 7, 100, 65535, 1 << 31, (1 << 32) - 1, 1 << 32,
         (1 << 63) - 1, 1 << 63, (1 << 64) - 2, (1 << 64) - 1]
LIKELY = [1, 1, 1, 2, 3, 5, 100]
PLAIN = {"address": "127.0.0.1:1", "file": "x.snap", "folder": "/nowhere"}
LENGTHS = {"sha256": 32, "steps": 1}
REALS = [0.0, 1.0, -1.0, 1e-300, 1e300, float("inf"), float("nan"), 0.5]
TEXTS = ["", "a", "x" * 3000, "../../etc/passwd", "cut-1.json", "\n", "%s%n",
         "unix:/nowhere", "127.0.0.1:1", "127.0.0.1:99999", "caf\u00e9"]
BITS = {Field.TYPE_UINT32: (32, False), Field.TYPE_FIXED32: (32, False),
        Field.TYPE_UINT64: (64, False), Field.TYPE_FIXED64: (64, False),
        Field.TYPE_INT32: (32, True), Field.TYPE_SINT32: (32, True),
        Field.TYPE_INT64: (64, True), Field.TYPE_SINT64: (64, True)}
POWERS = [8, 15, 16, 20, 24, 31, 32, 40, 53, 62, 63]
REMEMBERED = 40
DEEPEST = 6


def key_of(field):
    """Under which what was heard is looked up; one name may be of two types."""
    return field.name, field.cpp_type


def is_list(field):
    return field.label == Field.LABEL_REPEATED


class Talk:
    """Hears messages and makes others of what they say. `rng` decides."""

    def __init__(self, rng, table=None):
        self.rng = rng
        self.bounds = (table or bounds.read())[0]
        self.values = {}  # name and type of a field -> numbers and texts heard in it
        self.parts = {}   # full name of a message -> such messages heard
        self.rude = False  # what it makes now need not be well formed
        self.bold = 0.3    # so many messages have one number at an edge
        self.spoken = []   # whole messages, to be said once more

    # ---- hearing

    def remember(self, table, key, what):
        heard = table.setdefault(key, [])
        heard.append(what)
        if len(heard) > REMEMBERED:
            del heard[self.rng.randrange(REMEMBERED // 2)]

    def hear(self, message):
        self.remember(self.parts, message.DESCRIPTOR.full_name, message)
        for field, value in message.ListFields():
            for one in list(value)[:20] if is_list(field) else [value]:
                if field.message_type:
                    self.hear(one)
                else:
                    self.remember(self.values, key_of(field), one)

    # ---- speaking

    def number(self, field):
        bits, signed = BITS[field.type]
        heard = self.values.get(key_of(field))
        dice = self.rng.random()
        if not self.rude:
            value = self.rng.choice(heard if heard and dice < 0.8 else LIKELY)
        elif heard and dice < 0.6:
            value = self.rng.choice(heard) + self.rng.choice([0, 0, 0, 1, -1])
        elif dice < 0.95:
            value = self.rng.choice(EDGES)
        else:
            value = self.rng.getrandbits(bits)
        value &= (1 << bits) - 1
        return value - (1 << bits) if signed and value >> (bits - 1) else value

    def edge(self, field):
        """A number at which something may begin or end."""
        bits, signed = BITS[field.type]
        bound = self.bounds.get((field.containing_type.name, field.name))
        dice = self.rng.random()
        near = self.rng.choice([0, 0, 1, -1])
        if bound and dice < 0.5:
            value = self.rng.choice([bound.most, bound.most, bound.least, bound.least + 1])
            value += near if near < 0 or self.rng.random() < 0.1 else 0  # over: refused
        elif dice < 0.7:
            value = (1 << self.rng.choice(POWERS)) + near
        elif dice < 0.9 and self.values:  # of another field, another job
            heard = self.rng.choice(list(self.values.values()))
            value = self.rng.choice(heard)
            value = value + near if isinstance(value, int) else near
        else:
            heard = self.values.get(key_of(field), [0])
            value = self.rng.choice(heard) + self.rng.choice([1, -1, 2, 1 << 31])
        value &= (1 << bits) - 1
        return value - (1 << bits) if signed and value >> (bits - 1) else value

    def embolden(self, message):
        """One number of the message, however deep, becomes one at an edge."""
        places = [(message, f) for f in message.DESCRIPTOR.fields if f.type in BITS
                  and not is_list(f) and f.name not in ("protocol",)]
        for field, value in message.ListFields():
            if field.message_type:
                inner = list(value)[:4] if is_list(field) else [value]
                places += [(m, f) for m in inner for f in m.DESCRIPTOR.fields
                           if f.type in BITS and not is_list(f)]
        if places:
            where, field = self.rng.choice(places)
            setattr(where, field.name, self.edge(field))
        return message

    def once_more(self, message):
        """What was said before, or `message`, which may be said again later."""
        if len(self.spoken) > 20 and self.rng.random() < 0.05:
            return self.rng.choice(self.spoken)
        if self.rng.random() < 0.1:
            self.remember_spoken(message)
        return message

    def remember_spoken(self, message):
        self.spoken.append(message)
        if len(self.spoken) > REMEMBERED:
            del self.spoken[self.rng.randrange(REMEMBERED)]

    def scalar(self, field):
        if field.type in BITS:
            return self.number(field)
        if field.type == Field.TYPE_BOOL:
            return self.rng.random() < (0.5 if self.rude else 0.1)
        if field.type == Field.TYPE_ENUM:
            return self.rng.choice([v.number for v in field.enum_type.values])
        if field.type in (Field.TYPE_DOUBLE, Field.TYPE_FLOAT):
            return self.rng.choice(REALS) if self.rude else self.rng.random()
        heard = self.values.get(key_of(field))
        if field.type == Field.TYPE_BYTES:
            if heard and self.rng.random() < 0.5:
                return self.rng.choice(heard)
            return self.rng.randbytes(self.rng.choice(
                [0, 1, 8, 32, 256] if self.rude else [LENGTHS.get(field.name, 8)]))
        if heard and self.rng.random() < 0.6:
            return self.rng.choice(heard)
        return self.rng.choice(TEXTS) if self.rude else PLAIN.get(field.name, "a")

    def length(self):
        return self.rng.choice([1, 1, 2] if not self.rude else
                               [0, 1, 1, 1, 2, 3, 200 if self.rng.random() < 0.05 else 4])

    def fill_field(self, message, field, depth):
        if field.message_type:
            if is_list(field):
                for _ in range(self.length()):
                    self.fill(getattr(message, field.name).add(), depth + 1)
            else:
                self.fill(getattr(message, field.name), depth + 1)
                getattr(message, field.name).SetInParent()
        elif is_list(field):
            getattr(message, field.name).extend(
                self.scalar(field) for _ in range(self.length()))
        else:
            setattr(message, field.name, self.scalar(field))

    def fill(self, message, depth=0):
        """What was heard of that kind, perhaps with a field that is another;
        or fields at random. Most are well formed, as far as one can be
        who does not know what they mean."""
        if depth > 0:
            return self.fill_in(message, depth)
        self.rude = self.rng.random() < 0.02
        self.fill_in(message, 0)
        return self.embolden(message) if self.rng.random() < self.bold else message

    def fill_in(self, message, depth):
        if message.DESCRIPTOR.name == "CountedSet" and not self.rude:
            message.low = self.rng.choice([0, 1, 2, 8, 100])
            return message
        heard = self.parts.get(message.DESCRIPTOR.full_name)
        fields = [f for f in message.DESCRIPTOR.fields if not f.containing_oneof]
        if heard and self.rng.random() < 0.7:
            message.CopyFrom(self.rng.choice(heard))
            if self.rng.random() < 0.7:
                return message
            fields = self.rng.sample(fields, min(2, len(fields)))
            for field in fields:
                message.ClearField(field.name)
        rate = 1 if not self.rude else 0.9 if depth == 0 else 0.6
        for field in fields:
            if depth < DEEPEST and self.rng.random() < rate:
                self.fill_field(message, field, depth)
        for oneof in message.DESCRIPTOR.oneofs if depth < DEEPEST else ():
            self.fill_field(message, self.rng.choice(oneof.fields), depth)
        return message
