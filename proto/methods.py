#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes what follows from the .proto files, from the descriptor set of protoc.

    methods.py SET.bin FOLDER         FOLDER/methods.h and FOLDER/schema.bin
    methods.py SET.bin --registry FILE   the lists of proto/REGISTRY.md

methods.h has the path of each of our methods, its roles and audit name, which
are options of it (options.proto), and its messages. schema.bin is the set
without those options. A method that names no role, and an option that this file
does not know, end the build. The registry is not written when a number that it
lists would change its meaning.
"""
import pathlib
import re
import sys
import textwrap

OURS = "sluice.v1"
OPTIONS, ACCESS = "options.proto", 50505
PROTOBUF = "google/protobuf/descriptor.proto"
PREFIX = {"Tasks": "TASK_"}  # of paths: Jobs has a Delete, too
BY_HAND = {"Shards", "Ranks"}  # services whose messages wire_ps.h reads

# ---- protobuf's encoding, and the fields of its descriptor.proto


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def encoded(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def fields(data):
    """(number, value, bytes) of each field: value is an int, or bytes."""
    at = 0
    while at < len(data):
        begin = at
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        elif key & 7 != 0:
            sys.exit(f"methods.py: a field of kind {key & 7} in a descriptor")
        yield key >> 3, value, data[begin:at]


def all_of(data, number):
    return [value for found, value, _ in fields(data) if found == number]


def text(data, number):
    return "".join(value.decode() for value in all_of(data, number))


def edited(data, number, edit):
    """The message with each field of that number edited; b"": left out."""
    out = b""
    for found, value, raw in fields(data):
        if found == number:
            value = edit(value)
            raw = value and encoded(number << 3 | 2) + encoded(len(value)) + value
        out += raw
    return out


class Method:
    def __init__(self, file, package, service, data, roles):
        self.file, self.service, self.name = file, service, text(data, 1)
        self.path = f"/{package}.{service}/{self.name}"
        self.request, self.reply = (text(data, n).rsplit(".", 1)[-1] for n in (2, 3))
        self.up, self.down = (all_of(data, n) == [1] for n in (5, 6))
        self.ours = package == OURS
        self.roles, self.audit = [], ""
        for options in all_of(data, 4):
            for access in all_of(options, ACCESS):
                self.read(access, roles)
        if self.ours and not self.roles:
            sys.exit(f"{file}: {service}.{self.name} names no role: which may "
                     "call it? (access, proto/options.proto)")

    def read(self, access, roles):
        for number, value, _ in fields(access):
            if number == 1:  # packed
                at = 0
                while at < len(value):
                    role, at = varint(value, at)
                    if role == 0:
                        sys.exit(f"{self.file}: {self.name} names NOBODY")
                    self.roles.append(roles[role])
            elif number == 2:
                self.audit = value.decode()
            else:
                sys.exit(f"{self.file}: {self.name} has an option {number} that "
                         "proto/methods.py does not know")

    def symbol(self):
        return PREFIX.get(self.service, "") + words(self.name).upper()


def words(name):
    """PushPull: push_pull, as protobuf-c has it."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def files_of(data):
    return {text(file, 1): file for file in all_of(data, 1)}


def roles_of(files):
    """By number, from Access.Role."""
    role = all_of(all_of(files[OPTIONS], 4)[0], 4)[0]
    return {all_of(value, 2)[0]: text(value, 1) for value in all_of(role, 2)}


def methods_of(files):
    roles = roles_of(files)
    return [Method(name, text(file, 2), text(service, 1), method, roles)
            for name, file in files.items() for service in all_of(file, 6)
            for method in all_of(service, 2)]


# ---- what the build needs


def schema(data):
    """The set without our options, whose readers need not know them."""
    def method(data):
        return edited(data, 4, lambda options: edited(options, ACCESS, lambda _: b""))

    def file(data):
        if text(data, 1) in (OPTIONS, PROTOBUF):
            return b""
        data = edited(data, 3, lambda name: b"" if name.decode() == OPTIONS else name)
        return edited(data, 6, lambda service: edited(service, 2, method))
    return edited(data, 1, file)


def macro(out, comment, name, rows):
    out += ["", f"// {comment}", " \\\n".join([f"#define {name}(X)"] + [
        f"    X({', '.join(row)})" for row in rows])]


def header(methods):
    ours = [m for m in methods if m.ours]
    out = ["// SPDX-License-Identifier: Apache-2.0",
           "// proto/methods.h -- made by proto/methods.py of the .proto files.",
           "#ifndef PROTO_METHODS_H", "#define PROTO_METHODS_H", ""]
    out += [f'#define WIRE_{m.symbol()} "{m.path}"' for m in ours]
    macro(out, "METHOD, roles that may call it, name in the audit log or NULL",
          "WIRE_METHODS",
          [(m.symbol(), " | ".join(f"MAY({role})" for role in m.roles),
            f'"{m.audit}"' if m.audit else "NULL") for m in ours])
    macro(out, "Unary calls of clients: name, METHOD, Request, Reply, reply",
          "WIRE_JOBS_CALLS",
          [(words(m.name), m.symbol(), m.request, m.reply, words(m.reply))
           for m in ours if m.service == "Jobs" and not m.up and not m.down])
    messages = dict.fromkeys(kind for m in ours if m.service not in BY_HAND
                             for kind in (m.request, m.reply))
    macro(out, "Messages of the control plane's methods: name, Type",
          "WIRE_METHOD_MESSAGES", [(words(kind), kind) for kind in messages])
    out += ["", "#endif", ""]
    symbols = [m.symbol() for m in ours]
    if len(set(symbols)) < len(symbols):
        sys.exit("methods.py: two methods of one name: add to PREFIX")
    return "\n".join(out)


# ---- the registry


def numbers_of(kind, scope, is_enum):
    """(name, {number: name of the field or value}, reserved numbers) of a
    message or enum and of those inside it."""
    name = f"{scope}{text(kind, 1)}"
    number = 2 if is_enum else 3
    yield name, {all_of(field, number)[0] if all_of(field, number) else 0:
                 text(field, 1) for field in all_of(kind, 2)}, [
                     (sum(all_of(span, 1)), sum(all_of(span, 2)) - (not is_enum))
                     for span in all_of(kind, 4 if is_enum else 9)]
    if not is_enum:
        for inner in all_of(kind, 3):
            yield from numbers_of(inner, f"{name}.", False)
        for inner in all_of(kind, 4):
            yield from numbers_of(inner, f"{name}.", True)


def check_numbers(page, kinds):
    """Ends if a number that the page lists is gone or says something else."""
    for name, listed in re.findall(r"^- `(.+?)`: ?((?:.|\n  )*)", page, re.M):
        if name not in kinds:
            continue
        numbers, reserved = kinds[name]
        for word, number in re.findall(r"(\w+)\s+(\d+)", listed):
            number = int(number)
            if numbers.get(number) != word and not any(
                    first <= number <= last for first, last in reserved):
                sys.exit(f"REGISTRY.md: {name}.{word} was {number}: a number keeps "
                         "its meaning; reserve it, or rename it there by hand")


def registry(files, methods, page):
    kinds = {}
    for file in files.values():
        if text(file, 2) == OURS and text(file, 1) != OPTIONS:
            for number in (4, 5):
                for kind in all_of(file, number):
                    for name, numbers, reserved in numbers_of(kind, "", number == 5):
                        kinds[name] = numbers, reserved
    check_numbers(page, kinds)
    stream = ("", "stream ")
    lines = [f"| `{m.path}` | {stream[m.up]}{m.request} | {stream[m.down]}{m.reply} |"
             for m in methods if m.ours]
    lines += ["", "## Messages and enums: fields or values", ""]
    for name, (numbers, _) in kinds.items():
        line = f"- `{name}`: " + ", ".join(f"{v} {k}" for k, v in numbers.items())
        lines += textwrap.wrap((line if numbers else f"- `{name}`: -") + ".", 120,
                               subsequent_indent="  ", break_long_words=False)
    head, _, _ = page.partition("| --- |")
    return f"{head}| --- | --- | --- |\n" + "\n".join(lines) + "\n"


def put(path, data):
    """Writes what has changed, so that nothing else is built again."""
    if not path.exists() or path.read_bytes() != data:
        path.write_bytes(data)


def main():
    data = pathlib.Path(sys.argv[1]).read_bytes()
    files = files_of(data)
    methods = methods_of(files)
    if sys.argv[2] == "--registry":
        page = pathlib.Path(sys.argv[3])
        put(page, registry(files, methods, page.read_text()).encode())
        return
    folder = pathlib.Path(sys.argv[2])
    put(folder / "methods.h", header(methods).encode())
    put(folder / "schema.bin", schema(data))


if __name__ == "__main__":
    main()
