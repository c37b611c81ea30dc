#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the fuzz targets: corpus/<target>/<what it is>.

Valid inputs, so that mutations get far, and hostile ones that were once found
in the wild or thought of. The same bytes each time; files called found-* and
crash-* are left alone.  snapshot/valid is written by the target itself:

    FUZZ_EMIT=tests/fuzz/corpus/snapshot/valid build/bin/fuzz.snapshot tests/fuzz/corpus/snapshot
"""
import io
import tarfile
import gzip
import json
import pathlib
import pickle
import re
import struct
import sys
import zlib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "system"))
from cluster import changed  # noqa: E402


def write(target, **files):
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        if isinstance(data, str):
            data = data.encode()
        (folder / name.replace("_", "-")).write_bytes(data)


# ---- protobuf, by hand

def varint(n):
    out = bytearray()
    n &= (1 << 64) - 1
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes(out + bytes([n]))


def field(number, value):
    """An int is a varint, bytes and str are a block, a float a double."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def fixed64(number, value):
    return varint(number << 3 | 1) + struct.pack("<Q", value)


def message(**fields):
    """message(f1=..., f3=[...]): a list repeats the field."""
    out = b""
    for key, value in fields.items():
        for one in value if isinstance(value, list) else [value]:
            out += field(int(key[1:]), one)
    return out


def bomb(number, depth):
    """depth messages, each in field `number` of the one before."""
    inner = b""
    for _ in range(depth):
        inner = field(number, inner)
    return inner


OVERLONG = b"\x08" + b"\x80" * 10 + b"\x01"      # a varint of 11 bytes
PADDED = b"\x08\x81\x80\x80\x80\x00"             # 1, with zeroes behind
GROUP = b"\x0b\x08\x01\x0c"
ENDLESS_GROUP = b"\x0b" * 2000
PAST_THE_END = b"\x0a\xff\xff\xff\xff\x0f"
HOSTILE = {
    "nesting_bomb": bomb(1, 10000),
    "nesting_bomb_10": bomb(10, 6000),
    "overlong_varint": OVERLONG,
    "padded_varint": PADDED,
    "group": GROUP,
    "endless_group": ENDLESS_GROUP,
    "past_the_end": PAST_THE_END,
    "field_0": b"\x00\x01",
    "type_6": b"\x0e\x01",
    "huge_number": field((1 << 29) - 1, 7),
    "tag_over_32_bits": varint(1 << 40 | 2) + b"\x00",
    "length_2_63": b"\x0a" + varint(1 << 63),
}


def wire_data():
    attempt = message(f1=3, f2=17)
    tag = message(f1=2, f2=5)
    refused = message(f1=1, f2=attempt)
    ids = dict(f1=7, f2=1, f3=2, f4=9)
    kinds = {
        "ask": message(**ids, f5=40, f6=attempt),
        "push": message(**ids, f5=40, f6=3, f7=attempt, f8=100, f9=4, f10=32)
        + fixed64(11, 0x0123456789ABCDEF) + field(15, b"\0\0\x80?" * 8),
        "pull": message(f1=7, f2=1, f3=2, f5=tag),
        "ask_reply": message(f1=9, f2=b"\xff\x03", f3=12),
        "push_reply": message(f1=9, f2=1, f4=101, f5=2, f15=b"\0\0\x80?" * 4),
        "pull_reply": message(f1=9, f2=101, f15=b"\0\0\x80?" * 4),
        "piece": message(f1=7, f2=3, f3=1, f4=40, f5=2, f6=64, f8=1,
                         f15=b"\0\0\x80?" * 4),
    }
    for i, (name, body) in enumerate(kinds.items()):
        write("wire_data", **{name: bytes([i]) + body})
    shm = fixed64(1, 0x1234) + message(f2=64, f3=256)
    skip = message(**ids, f5=40, f6=3, f7=attempt, f10=32, f12=1)
    write("wire_data",
          push_skip=b"\1" + skip,
          push_absent=b"\1" + skip[:-2] + field(19, b"\5\x80"),
          push_absent_ends_with_zeros=b"\1" + skip[:-2] + field(19, b"\5\0"),
          push_absent_too_long=b"\1" + skip[:-2] + field(19, b"\1" * 513),
          push_shm=b"\1" + skip[:-2] + field(13, shm) + field(14, shm),
          push_shm_and_payload=b"\1" + skip[:-2] + field(13, shm)
          + field(15, b"abcd"),
          push_shm_overflows=b"\1" + skip[:-2] + field(
              13, fixed64(1, 5) + message(f2=(1 << 64) - 4, f3=8)),
          piece_lane_unknown=b"\6" + message(f1=7, f8=2, f15=b"abcd"),
          piece_of_nothing=b"\6" + message(f1=7, f2=3),
          piece_bf16=b"\6" + message(f1=7, f7=1, f15=b"\x80\x3f"),
          pull_answer=b"\2" + message(**ids, f6=shm),
          push_bf16=b"\1" + skip[:-2] + field(15, b"\x80\x3f" * 5)
          + field(16, 1),
          push_f16_half_an_element=b"\1" + skip[:-2] + field(16, 2)
          + field(15, b"abc"),
          push_f32_of_6_bytes=b"\1" + skip[:-2] + field(15, b"abcdef"),
          push_wire_unknown=b"\1" + skip[:-2] + field(16, 3)
          + field(15, b"abcd"),
          pull_f16=b"\2" + message(**ids, f7=2),
          push_reply_bf16=b"\4" + message(f1=9, f2=1, f7=1)
          + field(15, b"\x80\x3f" * 3),
          pull_reply_f16=b"\5" + message(f1=9, f4=2) + field(15, b"\0\x3c"),
          push_reply_in_shm=b"\4" + message(f1=9, f2=1, f6=1),
          push_payload_first=b"\1" + field(15, b"abcd" * 3) + skip[:-2],
          push_payload_twice=b"\1" + skip[:-2] + field(15, b"abc")
          + field(15, b"abcd"),
          push_half_a_float=b"\1" + skip[:-2] + field(15, b"abc"),
          push_skip_and_payload=b"\1" + skip + field(15, b"abcd"),
          push_step_huge=b"\1" + message(f1=7, f6=1 << 31, f12=1),
          push_attempt_twice=b"\1" + skip + field(7, message(f2=99)),
          ask_reply_refused=b"\3" + message(f1=9, f4=refused),
          ask_reply_counted_513=b"\3" + message(f1=9, f2=b"\xff" * 513),
          ask_reply_refused_not=b"\3" + message(f1=9, f4=b""),
          push_reply_refused=b"\4" + message(f1=9, f2=3, f3=refused),
          push_reply_result_9=b"\4" + message(f1=9, f2=9),
          shard_huge=b"\0" + message(f1=7, f3=(1 << 32) - 1),
          shard_2_40=b"\0" + message(f1=7, f3=1 << 40),
          **{f"hostile_{k}": b"\1" + v for k, v in HOSTILE.items()})


# In the order of WIRE_UNPACK_MAP.
CONTROL = ["attend_up", "attend_down", "submit_request", "submit_reply",
           "job_request", "job_status", "list_request", "list_reply",
           "stop_request", "delete_reply", "checkpoints_reply",
           "cluster_request", "cluster_reply", "job_spec", "shard_counts",
           "counted_set", "local_reply"]


def protos():
    """Messages of proto/*.proto: name -> [(number, repeated, type, name)]."""
    found = {}
    for path in sorted((ROOT / "proto").glob("*.proto")):
        text = re.sub(r"//.*", "", path.read_text())
        for name, body in re.findall(r"message (\w+) \{(.*?)\n\}", text, re.S):
            body = re.sub(r"oneof \w+ \{(.*?)\}", r"\1", body, flags=re.S)
            found[name] = [
                (int(number), label == "repeated", kind, key)
                for label, kind, key, number in re.findall(
                    r"(optional|repeated|)\s*\b(\w+) (\w+) = (\d+)", body)]
    return found


def sample(messages, name, depth=0):
    """A message with all of its fields set to something small."""
    out = b""
    for number, repeated, kind, key in messages.get(name, []):
        for _ in range(2 if repeated else 1):
            if kind in messages:
                out += field(number, sample(messages, kind, depth + 1))
            elif kind == "string":
                out += field(number, "k" if key != "address" else "h:1")
            elif kind == "bytes":
                out += field(number, b"\x03")
            elif kind == "fixed64":
                out += fixed64(number, 5)
            elif kind == "double":
                out += field(number, 0.5)
            else:
                out += field(number, 1)
    return out


def camel(name):
    return "".join(word.title() for word in name.split("_"))


def wire_control():
    messages = protos()
    for i, name in enumerate(CONTROL):
        kind = camel(name)
        fields = messages.get(kind, [])
        write("wire_control", **{f"all_{name}": bytes([i])
                                 + sample(messages, kind)})
        if name.startswith("attend"):  # one of a kind each
            for number, _, inner, key in fields:
                body = (sample(messages, inner) if inner in messages else b"")
                write("wire_control", **{
                    f"{name}_{key}": bytes([i]) + field(number, body)})
    counted = CONTROL.index("counted_set")
    listing = CONTROL.index("list_reply")
    counts = CONTROL.index("shard_counts")
    write("wire_control",
          counted=bytes([counted]) + message(
              f1=3, f2=[message(f1=4, f2=b"\x05"), message(f1=9, f2=b"\x01")]),
          counted_downwards=bytes([counted]) + message(
              f2=[message(f1=9, f2=b"\x01"), message(f1=4, f2=b"\x05")]),
          empty_submessages=bytes([listing]) + field(1, b"") * 8000,
          packed_counts=bytes([counts]) + field(8, b"\x01" * 20000),
          packed_count_huge=bytes([counts]) + field(8, b"")[:-1]
          + varint(1 << 31),
          packed_half_varint=bytes([counts]) + field(8, b"\x80\x80"),
          text_not_utf8=bytes([2]) + message(f1=message(f3=b"\xff\xfe")),
          text_with_zero=bytes([2]) + message(f1=message(f3=b"a\0b")),
          **{f"hostile_{i}_{k}": bytes([i]) + v
             for k, v in HOSTILE.items()
             for i in ((0, 1, 13) if len(v) < 100 else (0,))})


def wirescan():
    messages = protos()
    for i, name in enumerate(CONTROL):
        write("wirescan", **{name: bytes([i, 0])
                             + sample(messages, camel(name))})
    write("wirescan",
          few_fields=bytes([0, 8]) + sample(messages, "AttendUp"),
          shallow=bytes([1, 1]) + sample(messages, "AttendDown"),
          empty_submessages=bytes([7, 0]) + field(1, b"") * 4000,
          **{f"hostile_{k}": b"\0\0" + v for k, v in HOSTILE.items()
             if k != "nesting_bomb_10"})


def table_rows():
    def ids_of(*ids):
        mask = (1 << 64) - 1

        def hash_of(i):  # plan/tables.h
            x = (i ^ 0x7461626c65206964) + 0x9e3779b97f4a7c15 & mask
            x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & mask
            x = (x ^ x >> 27) * 0x94d049bb133111eb & mask
            return x ^ x >> 31
        return sorted(ids, key=hash_of)

    def block(table, ids, of=b"", count=None, kind=0, zero=0):
        return struct.pack(f"<4I{len(ids)}Q", table, len(ids) if count is None else count,
                           kind, zero, *ids) + of
    push, pull, few = b"\1", b"\0", ids_of(1, 2, 3)
    ones = struct.pack("<9f", *[1] * 9)
    all_three = push + block(0, few, bytes(16)) + block(1, few, ones + bytes(4)) + \
        block(2, [7], bytes(16), kind=1)
    write("table_rows",
          none=push,
          pull=pull + block(0, few) + block(2, ids_of(*range(40))),
          push=all_three,
          more_than_rows=push + block(0, ids_of(*range(40)), bytes(160)),
          sixteen_bits=push + block(0, [7], b"\0\x3c" + bytes(6), kind=2),
          not_finite=push + block(0, [7], b"\0\0\xc0\x7f" + bytes(4)),
          twice=push + block(0, [7, 7], bytes(8)),
          falling=push + block(0, few[::-1], bytes(16)),
          same_table=pull + block(1, few) + block(1, few),
          falling_tables=pull + block(2, few) + block(0, few),
          no_such_table=pull + block(3, few),
          no_ids=pull + block(0, []),
          more_ids_than_bytes=pull + block(0, few, count=4),
          wild_count=push + block(2, few, count=0xffffffff),
          no_such_type=push + block(0, [7], bytes(8), kind=3),
          not_zero=pull + block(0, [7], zero=1),
          short_head=pull + block(0, [7])[:15])


def counted():
    def one(samples, batch, epochs, per, low, closures):
        out = struct.pack("<HBBHHB", samples, batch, epochs, per, low,
                          len(closures))
        for closure, nbits, bits in closures:
            out += struct.pack("<HH", closure, nbits) + bits
        return out
    write("counted",
          empty=one(40, 1, 3, 4, 0, []),
          part=one(40, 1, 3, 4, 2, [(3, 4, b"\x05"), (7, 4, b"\x08")]),
          next_is_full=one(40, 1, 3, 4, 2, [(2, 4, b"\x0f"), (3, 4, b"\x01")]),
          last_is_short=one(41, 4, 2, 4, 0, [(2, 3, b"\x03")]),
          at_low=one(40, 1, 3, 4, 2, [(2, 4, b"\x01")]),
          below_low=one(40, 1, 3, 4, 2, [(1, 4, b"\x01")]),
          twice=one(40, 1, 3, 4, 0, [(3, 4, b"\x05"), (3, 4, b"\x05")]),
          bits_beyond=one(40, 1, 3, 4, 0, [(3, 4, b"\xf5")]),
          nbits_wrong=one(40, 1, 3, 4, 0, [(3, 5, b"\x05")]),
          no_bits=one(40, 1, 3, 4, 0, [(3, 4, b"\x00")]),
          closure_beyond=one(40, 1, 3, 4, 0, [(30, 4, b"\x01")]),
          low_beyond=one(40, 1, 3, 4, 31, []),
          low_all=one(40, 1, 3, 4, 30, []),
          low_wild=one(40, 1, 3, 4, 65535, []),
          batch_0=one(40, 0, 3, 4, 0, []),
          long_closures=one(65535, 1, 255, 65535, 1,
                            [(3, 65535, b"\x11" * 8192)]))


# ---- text

def json_seeds():
    write("json",
          object=b'\0{"a": [1, -2.5e3, true, null, "x\\u00e9"], "b": {}}',
          small_limits=b'\1{"a": [1, 2, {"b": "c"}]}',
          depth_64=b"\0" + b"[" * 64 + b"]" * 64,
          depth_65=b"\0" + b"[" * 65 + b"]" * 65,
          depth_bomb=b"\0" + b"[" * 30000,
          depth_bomb_object=b"\0" + b'{"a":' * 5000,
          real_1e400=b"\0[1e400]",
          integer_huge=b"\0[18446744073709551616]",
          integer_2_63=b"\0[9223372036854775808]",
          twice=b'\0{"a": 1, "a": 2}',
          zero_in_string=b'\0["a\\u0000b"]',
          half_a_pair=b'\0["\\ud800"]',
          not_utf8=b'\0["\xff"]',
          quote_in_string=b'\0["a\\"[[[[[[b"]',
          long_string=b'\1["' + b"a" * 100 + b'"]',
          trailing=b"\0[] []",
          scalar=b"\0 7",
          bom=b"\0\xef\xbb\xbf[]",
          minus_zero=b"\0[-0, -0.0, 0e9]")


MLP = {"name": "mlp", "model": {"input_shape": [28, 28, 1], "layers": [
    {"type": "flatten"}, {"type": "dense", "units": 64, "activation": "relu"},
    {"type": "dense", "units": 10}]},
    "loss": "sparse_categorical_crossentropy",
    "optimizer": {"type": "adam", "learning_rate": 0.001},
    "data": {"train": {"format": "idx", "x": "a.gz", "y": "b.gz",
                       "scale": 0.5}},
    "train": {"batch": 32, "epochs": 3}}
EXTERNAL = {"name": "own", "model": {"type": "external", "variables": [
    {"name": "w", "shape": [10, 3], "initializer": "glorot_uniform"},
    {"name": "b", "shape": [3], "initializer": "zeros"}]},
    "optimizer": {"type": "sgd", "schedule": {
        "type": "piecewise_constant_decay", "boundaries": [10, 20],
        "values": [0.1, 0.01, 0.001]}},
    "data": {"train": {"format": "external", "samples": 1000}},
    "train": {"batch": 10, "epochs": 2}}
RESNET = {"input_shape": [8, 8, 3], "layers": [
    {"type": "conv2d", "name": "c1", "filters": 4, "kernel_size": 3,
     "padding": "same", "inputs": ["input"]},
    {"type": "batch_normalization", "name": "n1"},
    {"type": "relu", "name": "r1"},
    {"type": "conv2d", "name": "c2", "filters": 4, "kernel_size": [1, 1],
     "strides": 1, "inputs": ["c1"]},
    {"type": "add", "name": "sum", "inputs": ["r1", "c2"]},
    {"type": "max_pooling2d", "pool_size": 2, "strides": [2, 2]},
    {"type": "concatenate", "name": "cat", "inputs":
     ["max_pooling2d", "max_pooling2d"], "axis": -1},
    {"type": "average_pooling2d"}, {"type": "dropout", "rate": 0.5, "seed": 3},
    {"type": "global_average_pooling2d"},
    {"type": "dense", "units": 10, "activation": "softmax",
     "use_bias": False}]}


VIEWS = {"input_shape": [8, 8, 4], "layers": [
    {"type": "zero_padding2d", "name": "z", "pad": [1, 2, 3, 4]},
    {"type": "rescaling", "factor": 0.5, "offset": -1},
    {"type": "depthwise_conv2d", "kernel_size": 3, "depth_multiplier": 2,
     "dilation_rate": [2, 1], "depthwise_initializer": "he_normal"},
    {"type": "separable_conv2d", "filters": 6, "kernel_size": [3, 1],
     "pointwise_initializer": "ones", "activation": "relu6"},
    {"type": "conv2d", "name": "c", "filters": 6, "kernel_size": 1,
     "groups": 3, "padding": "same", "activation": "gelu_tanh"},
    {"type": "multiply", "name": "m", "inputs": ["c", "c"]},
    {"type": "subtract", "name": "s", "inputs": ["m", "c"]},
    {"type": "average", "inputs": ["s", "m", "c"]},
    {"type": "permute", "dims": [3, 1, 2]},
    {"type": "global_max_pooling2d", "keepdims": True},
    {"type": "reshape", "target_shape": [-1, 1]},
    {"type": "dense", "units": 3, "activation": "silu"},
    {"type": "flatten"}]}


TOKENS = {"input_shape": [6], "layers": [
    {"type": "embedding", "name": "e", "input_dim": 9, "output_dim": 8,
     "embeddings_initializer": "ones"},
    {"type": "layer_normalization", "epsilon": 0.01},
    {"type": "multi_head_attention", "name": "a", "num_heads": 2,
     "key_dim": 3, "value_dim": 5, "rate": 0.5, "use_causal_mask": True},
    {"type": "maximum", "name": "m", "inputs": ["a", "e"]},
    {"type": "minimum", "inputs": ["m", "a"]},
    {"type": "flatten"}, {"type": "dense", "units": 3}]}


def spec_json():
    def with_(**changes):
        return json.dumps({**MLP, **changes})
    write("spec_json", mlp=json.dumps(MLP), own=json.dumps(EXTERNAL),
          resnet=with_(model=RESNET),
          twice=json.dumps(MLP)[:-1] + ', "name": "again"}',
          rate_1e400=changed(json.dumps(MLP), {"0.001": "1e400"}),
          batch_huge=with_(train={"batch": 1 << 62, "epochs": 3}),
          batch_2_64=changed(json.dumps(MLP), {"32": "18446744073709551616"}),
          epochs_text=with_(train={"batch": 32, "epochs": "3"}),
          camel=with_(apiVersion="sluice/v1", kind="Job"),
          unknown=with_(optimiser={"type": "adam"}),
          name_path=with_(name="../../etc/x"),
          name_zero='{"name": "a\\u0000b"}',
          nan='{"optimizer": {"learning_rate": NaN}}',
          depth='{"model":' * 3000,
          units_huge=with_(model={"input_shape": [1 << 31, 1 << 31, 1 << 31],
                                  "layers": [{"type": "dense",
                                              "units": (1 << 32) - 1}]}),
          all_optimizers=with_(optimizer={
              "type": "rmsprop", "learning_rate": 0.1, "rho": 0.9,
              "momentum": 0.5, "centered": True, "epsilon": 1e-7,
              "clipnorm": 1.0}),
          groups=with_(optimizer={"type": "adamw", "groups": [
              {"variables": ["*.bias", "n?rm*"], "weight_decay": 0,
               "learning_rate_scale": 0.5, "beta_1": 0.8}]}),
          cosine=with_(optimizer={"type": "adamw", "weight_decay": 0.01,
                                  "learning_rate": 0.1, "schedule": {
                                      "type": "cosine_decay",
                                      "decay_steps": 100, "alpha": 0.1,
                                      "warmup_target": 0.2,
                                      "warmup_steps": 10}}),
          points=with_(optimizer={"type": "sgd", "schedule": {
              "type": "piecewise_linear", "boundaries": [0, 10],
              "values": [0.0, 1.0]}}),
          csv=with_(data={"train": {"format": "csv", "x": "a.csv",
                                    "header": True, "delimiter": ";",
                                    "label_column": "y"}}),
          list="[1, 2]", empty="{}")


def spec_yaml():
    for path in sorted((ROOT / "examples").glob("*.yaml")):
        write("spec_yaml", **{path.stem: path.read_text()})
    laughs = "a: &a [x, x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n"
        for i in range(20))
    write("spec_yaml", billion_laughs=laughs,
          alias="name: &n x\nloss: *n\n",
          self_alias="a: &a [*a]\n",
          merge="a: &a {b: 1}\nc: {<<: *a}\n",
          tag="name: !!python/object/apply:os.system ['true']\n",
          twice="name: a\nname: b\n",
          twice_inside="train: {batch: 1, batch: 2}\n",
          real_1e400="optimizer: {learning_rate: 1e400}\n",
          integer_huge="train: {batch: 340282366920938463463374607431768211456}\n",
          integer_2_63="train: {seed: 9223372036854775808}\n",
          depth_flow="a: " + "[" * 2000,
          depth_block="".join("  " * i + "a:\n" for i in range(60)),
          events="a: [" + "1," * 4000 + "]\n",
          two_documents="a: 1\n---\nb: 2\n",
          directive="%YAML 9.9\n---\na: 1\n",
          no="name: no\nloss: ~\n",
          octal="train: {batch: 0o17, epochs: 0x1f, seed: 017}\n",
          nan="optimizer: {learning_rate: .nan, momentum: -.inf}\n",
          block="name: |\n  a\n  b\nloss: >-\n  c\n  d\n",
          quoted='name: "a\\x00b"\nloss: \'it\'\'s\'\n',
          bom="\ufeffname: a\n",
          utf16="name: a\n".encode("utf-16"),
          not_utf8=b"name: \xff\xfe\n",
          zero=b"name: a\0b\n",
          complex_key="? [a, b]\n: c\n",
          tab="a:\n\tb: 1\n", empty="", scalar="just text\n",
          json_like=json.dumps(MLP))


def model():
    def graph(*layers, shape=(8, 8, 3), **more):
        return json.dumps({"input_shape": list(shape),
                           "layers": list(layers), **more})
    dense = {"type": "dense", "units": 4}
    write("model", mlp=json.dumps(MLP["model"]), resnet=json.dumps(RESNET),
          views=json.dumps(VIEWS), tokens=json.dumps(TOKENS), own=json.dumps(EXTERNAL["model"]),
          cycle=graph({**dense, "name": "a", "inputs": ["b"]},
                      {**dense, "name": "b", "inputs": ["a"]}, shape=[4]),
          itself=graph({**dense, "name": "a", "inputs": ["a"]}, shape=[4]),
          twice=graph({**dense, "name": "a"}, {**dense, "name": "a"},
                      shape=[4]),
          called_input=graph({**dense, "name": "input"}, shape=[4]),
          shared=graph({**dense, "name": "a"}, {"type": "dense", "name": "b", "shares": "a"},
                       {"type": "batch_normalization", "name": "c"},
                       {"type": "batch_normalization", "name": "d", "shares": "c"}, shape=[4]),
          dangling=graph({**dense, "inputs": ["nowhere"]}, shape=[4]),
          output=graph({**dense, "name": "a"}, {**dense, "name": "b"},
                       shape=[4], output="a"),
          window_huge=graph({"type": "conv2d", "filters": 1,
                             "kernel_size": [(1 << 32) - 1, 1]}),
          stride_0=graph({"type": "max_pooling2d", "strides": 0}),
          span_huge=graph({"type": "depthwise_conv2d", "padding": "same",
                           "kernel_size": (1 << 32) - 1,
                           "dilation_rate": (1 << 32) - 1}),
          between_huge=graph({"type": "separable_conv2d", "kernel_size": 1,
                              "filters": 1, "depth_multiplier": 1 << 31}),
          scores_huge=graph({"type": "multi_head_attention",
                             "num_heads": (1 << 32) - 1, "key_dim": 1 << 31},
                            shape=[1 << 20, 8]),
          table_huge=graph({"type": "embedding", "input_dim": (1 << 32) - 1,
                            "output_dim": (1 << 32) - 1}, shape=[4]),
          pad_huge=graph({"type": "zero_padding2d",
                          "pad": [(1 << 32) - 1] * 4}),
          dims_wild=graph({"type": "permute", "dims": [0, (1 << 32) - 1, 1]}),
          target_wild=graph({"type": "reshape",
                             "target_shape": [-(1 << 31), -1]}),
          pool_huge=graph({"type": "max_pooling2d", "pool_size": 1 << 31,
                           "padding": "same"}),
          shape_0=graph(dense, shape=[0]),
          shape_huge=graph({"type": "flatten"}, dense,
                           shape=[(1 << 32) - 1] * 4),
          rank_9=graph(dense, shape=[1] * 9),
          lambda_=graph({"type": "lambda", "function": "os.system('true')"}),
          many=graph(*[{"type": "relu"}] * 300, shape=[4]),
          many_inputs=graph({"type": "add", "inputs": ["input"] * 9},
                            shape=[4]),
          axis_wild=graph({"type": "concatenate", "inputs":
                           ["input", "input"], "axis": -(1 << 31)}),
          own_huge=json.dumps({"type": "external", "variables": [
              {"name": "w", "shape": [1 << 32, 1 << 32, 1 << 32]}]}),
          own_0=json.dumps({"type": "external", "variables": [
              {"name": "w", "shape": [3, 0]}]}),
          own_scalar=json.dumps({"type": "external", "variables": [
              {"name": "s", "shape": []}]}))


def keras():
    """Some of what Keras wrote (tests/unit/client/keras), and what it never would."""
    def call(name, *reads, kind="Dense", **config):
        return {"class_name": kind, "name": name, "config": {"units": 2, **config},
                "inbound_nodes": [[[read, 0, 0] for read in reads]]}

    def functional(*layers, outputs=(("a", 0, 0),)):
        return json.dumps({"class_name": "Functional", "keras_version": "2.9", "config": {
            "name": "m", "output_layers": outputs, "layers": [
                {"class_name": "InputLayer", "name": "x", "inbound_nodes": [],
                 "config": {"batch_input_shape": [None, 3]}}, *layers]}})

    deep = {"class_name": "Dense", "config": {"name": "d", "units": 1}}
    for _ in range(12):
        deep = {"class_name": "Sequential", "config": {"name": "m", "layers": [deep]}}
    inner = {"class_name": "Functional", "name": "m", "config": {
        "name": "m", "output_layers": [["d19", 0, 0]], "layers": [
            {"class_name": "InputLayer", "name": "i", "inbound_nodes": [], "config": {}},
            *(call(f"d{i}", f"d{i - 1}" if i else "i", units=3) for i in range(20))]}}
    again = [[["m", i, 0] if i else ["x", 0, 0]] for i in range(20)]
    tensor = {"class_name": "__keras_tensor__", "config": {"keras_history": ["x", 0, 0]}}
    files = ROOT / "tests" / "unit" / "client" / "keras"
    for name in ("mlp_built-k3", "nested_sequential-k2", "padding-k2", "embedding-k3",
                 "names-k2", "refused/lambda-k3", "siamese-k2", "siamese-k3"):
        text = json.dumps(json.loads((files / f"{name}.json").read_text()))
        write("keras", **{name.replace("/", "_"): text})
    write("keras", circle=functional(call("a", "b"), call("b", "a")),
          itself=functional(call("a", "a")), dangling=functional(call("a", "z")),
          order=functional(call("a", "b"), call("b", "x")),
          tensor=functional({**call("a"), "inbound_nodes": [{"args": [tensor], "kwargs": {}}]}),
          kwargs=functional({**call("a", kind="MultiHeadAttention"), "inbound_nodes": [
              {"args": [], "kwargs": {"query": tensor, "value": [tensor] * 9}}]}),
          no_output=functional(call("a", "x"), outputs=[]),
          outputs=functional(call("a", "x"), outputs={"a": ["a", 0, 0]}),
          names=functional(call("a", "\u0085\u2028'\""), call("\u0085\u2028'\"", "x")),
          many=functional(call("a", *["x"] * 9, kind="Add")), deep=json.dumps(deep),
          calls=functional({**call("a"), "inbound_nodes": [0] * 2000}),
          again=functional({**inner, "inbound_nodes": again}, outputs=[["m", 20, 0]]),
          tuple=json.dumps({"class_name": "Sequential", "config": [
              {"class_name": "Dense", "config": {"name": "d", "units": 1, "batch_input_shape":
               {"class_name": "__tuple__", "items": [None, 3]}}}]}),
          nan='{"class_name": "Sequential", "config": {"layers": []}, "x": NaN}',
          nothing="", list="[]", object="{}")


def conf():
    write("conf",
          all="# a file\nname = a b\nthreads=3\nroom = 2 GiB\ngrace-ms = 1.5s\n"
          "rate = 0.25\nshuffle = no\nhosts = a, b,,c\nlisten = [::1]:1\n"
          "listen = x\nformat = json\ntoken = \"secret\"\n",
          units="room = 10KiB\ngrace_ms = 2h\n",
          room_huge="room = 9223372036854775807TiB\n",
          room_minus="room = -1\n",
          threads_huge="threads = 99999999999999999999\n",
          rate_nan="rate = nan\n", rate_1e400="rate = 1e400\n",
          unknown="thread = 3\n", no_equals="threads 3\n",
          only_equals="=\n", quote='name = "\n', long="name = " + "x" * 5000,
          crlf="threads = 3\r\nname = \"a\"\r\n", zero=b"name = a\0b\n",
          not_utf8=b"name = \xff\n", own="help = true\nconfig = x\n",
          commas="hosts = " + "," * 3000 + "\n")


# ---- stores in S3

def xml():
    page = "<ListBucketResult xmlns='http://s3/'><IsTruncated>%s</IsTruncated>%s" \
        "</ListBucketResult>"
    write("xml", page=page % ("true", "<Contents><Key>a%2Fb</Key><Size>1</Size></Contents>"
                              "<CommonPrefixes><Prefix>c/</Prefix></CommonPrefixes>"
                              "<NextContinuationToken>t=</NextContinuationToken>"),
          error='<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>NoSuchKey</Code>'
          "<Message>a &lt;b&gt; &amp; &#x20ac;</Message></Error>",
          upload="<InitiateMultipartUploadResult><UploadId>x</UploadId>"
          "</InitiateMultipartUploadResult>",
          cdata="<a><![CDATA[<&]]></a>", prefix="<s:a xmlns:s='x'><s:b/></s:a>",
          comment="<!-- - --><a/><!-- x -->", bom=b"\xef\xbb\xbf<a/>",
          deep="<a>" * 9, deepest="<a>" * 8 + "</a>" * 8, doctype=(
              "<!DOCTYPE a [<!ENTITY b 'bb'><!ENTITY c '&b;&b;'>]><a>&c;</a>"),
          long_name="<" + "n" * 65 + "/>", zero=b"<a>\0</a>", crossed="<a><b></a></b>",
          character="<a>&#1114112;</a>", surrogate="<a>&#xD800;</a>", cut="<a b='",
          not_utf8=b"<a>\xff</a>", empty="")


def credentials():
    sts = "2<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>%s" \
        "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
    keys = "<AccessKeyId>A</AccessKeyId><SecretAccessKey>s</SecretAccessKey>" \
        "<SessionToken>t</SessionToken>"
    write("credentials", sts=sts % (keys + "<Expiration>2026-07-01T00:00:00.5Z</Expiration>"),
          sts_twice=sts % (keys * 2 + "<Expiration>2026-07-01T00:00:00Z</Expiration>" * 2),
          sts_endless=sts % keys, sts_never=sts % (keys + "<Expiration>never</Expiration>"),
          sts_lines=sts % ("<AccessKeyId>A&#10;B</AccessKeyId>" + keys),
          sts_error="2<ErrorResponse><Error><Code>A</Code></Error></ErrorResponse>", sts_empty="2",
          file="0# ours\n[default]\naws_access_key_id = AKIA\naws_secret_access_key=s/+=\n"
          "aws_session_token=t\n[work]\naws_access_key_id=B\n",
          profile="0[profile default]\r\n aws_access_key_id\t=A\r\n"
          "aws_secret_access_key=s\r\n",
          open="0[default\naws_access_key_id=A\n", blank="0[default]\naws_access_key_id=A B\n"
          "aws_secret_access_key=s\n", long="0[default]\naws_access_key_id=" + "A" * 300,
          role='1{"Code":"Success","AccessKeyId":"A","SecretAccessKey":"s","Token":"t",'
          '"Expiration":"2026-07-01T00:00:00Z"}',
          failed='1{"Code":"Failed"}', lines='1{"AccessKeyId":"A\\r\\nX: y",'
          '"SecretAccessKey":"s"}', time='1{"AccessKeyId":"A","SecretAccessKey":"s",'
          '"Expiration":"9999999999-01-01T00:00:00Z"}', empty="1{}")


# ---- arrays

# ---- launchers

TF_CLUSTER = {"chief": ["h6:2222"], "ps": ["h4:2222", "h5:2222"],
              "worker": ["h1:2222", "h2:2222"]}


def tf_text(kind="worker", index=0, cluster=None, **more):
    return json.dumps({"cluster": TF_CLUSTER if cluster is None else cluster,
                       "task": {"type": kind, "index": index}, **more})


def hostlist():
    write("hostlist", one="a", zeroes="n[01-04,07]", several="a,b[9-11]",
          multiplied="r[1-2]n[0-1]", down="n[3-1]", open="n[", never_closed="n[1-2",
          empty="", nothing_between="a,,b", all="n[1-65536]", too_many="n[0-65536]",
          too_many_multiplied="n[1-300]m[1-300]", digits="n[0123456789]",
          dots="a-b_c.lan[1]-ib", blank="a b", nested="n[[1]]", long="a" * 254)


def tf_config():
    write("tf_config", worker=tf_text(), chief=tf_text("chief"), ps=tf_text("ps", 1),
          evaluator='{"task": {"type": "evaluator", "index": 0}}',
          master=tf_text("master", cluster={"master": ["a:1"]}),
          text_index=tf_text(index="1"), last=tf_text(index=2), negative=tf_text(index=-1),
          more=tf_text(environment="cloud", rpc_layer="grpc", job={}), empty="", list="[]",
          twice=tf_text(cluster={"worker": ["a:1", "a:1"]}), six=tf_text(cluster={"worker": ["[::1]:1"]}),
          no_port=tf_text(cluster={"worker": ["a"]}), bad_port=tf_text(cluster={"worker": ["a:99999"]}),
          number=tf_text(cluster={"worker": [1]}), two_chiefs=tf_text(cluster={"chief": ["a:1", "b:1"]}),
          no_type='{"cluster": {}, "task": {}}', twice_key='{"task": 1, "task": 2}',
          deep='{"cluster": ' * 9 + "1" + "}" * 9, not_utf8=b'{"cluster": {"\xff": []}}')


def launch():
    def env(**values):
        return "\n".join(f"{k}={v}" for k, v in values.items())
    slurm = {"SLURM_JOB_ID": 17, "SLURM_PROCID": 2, "SLURM_NTASKS": 8, "SLURM_NODEID": 1,
             "SLURM_JOB_NODELIST": "n[01-04]", "SLURM_RESTART_COUNT": 1}
    torch = {"RANK": 0, "WORLD_SIZE": 4, "MASTER_ADDR": "fd00::1", "TORCHELASTIC_RUN_ID": "none"}
    write("launch", tf=env(TF_CONFIG=tf_text("ps", 1)), slurm=env(**slurm),
          alone=env(TF_CONFIG=tf_text(cluster={"worker": ["localhost:1"]})),
          step=env(**slurm, SLURM_STEP_NODELIST="n[03-04]"), torchrun=env(**torch),
          mpi=env(OMPI_COMM_WORLD_RANK=1, OMPI_COMM_WORLD_SIZE=3, PMI_RANK=1, PMI_SIZE=3),
          skypilot="SKYPILOT_NODE_RANK=1\nSKYPILOT_NUM_NODES=2\nSKYPILOT_NODE_IPS=10.0.0.1 10.0.0.2\n"
                   "SKYPILOT_TASK_ID=" + "t" * 70,
          pod=env(HOSTNAME="nn-psserver-1", KUBERNETES_SERVICE_HOST="10.1.1.1"),
          two=env(TF_CONFIG=tf_text("ps", 1), **slurm), nothing="HOME=/root",
          not_utf8=b"SKYPILOT_NODE_RANK=0\nSKYPILOT_NUM_NODES=1\nSKYPILOT_NODE_IPS=\xff")


def idx_bytes(code=8, dims=(3, 2, 2), data=None):
    count = 1
    for d in dims:
        count *= d
    if data is None:
        data = bytes(i & 0xFF for i in range(count))
    return (bytes([0, 0, code, len(dims)])
            + b"".join(struct.pack(">I", d) for d in dims) + data)


def zipped(data, level=9):
    return gzip.compress(data, level, mtime=0)


def idx():
    plain = idx_bytes()
    bomb_ = zipped(idx_bytes(dims=(1000, 1000), data=bytes(1000000)))
    write("idx", plain=plain, gz=zipped(plain),
          gz_two_members=zipped(plain[:9]) + zipped(plain[9:]),
          f32=idx_bytes(13, (2, 3), struct.pack(">6f", *range(6))),
          f64=idx_bytes(14, (2,), struct.pack(">2d", 1, 2)),
          i32=idx_bytes(12, (3,), struct.pack(">3i", 1, -2, 3)),
          labels=idx_bytes(8, (4,)), empty_rows=idx_bytes(dims=(0, 4)),
          empty_columns=idx_bytes(dims=(4, 0)),
          empty_rows_wide=idx_bytes(dims=(0, 0x404000E0), data=b""),
          type_10=idx_bytes(10), rank_0=bytes([0, 0, 8, 0, 1]),
          rank_255=bytes([0, 0, 8, 255]) + b"\0" * 1020,
          dims_huge=bytes([0, 0, 14, 4]) + b"\xff" * 16,
          rows_huge=bytes([0, 0, 8, 2]) + b"\xff" * 4 + bytes(4),
          short=plain[:-1], long=plain + b"x", nothing=b"",
          gz_bomb=bomb_, gz_cut=zipped(plain)[:-6],
          gz_crc=zipped(plain)[:-8] + b"\0" * 8,
          gz_claims_4g=zipped(idx_bytes(dims=(65536, 65536), data=b"x")),
          gz_longer=zipped(plain + b"xyz"), gz_trailing=zipped(plain) + b"junk",
          gz_head_only=b"\x1f\x8b\x08", gz_of_gz=zipped(zipped(plain)))


def images():
    """The files of the unit tests (make_images.py says how they came to be)."""
    for path in sorted((ROOT / "tests/unit/worker/images").iterdir()):
        kind = {".jpg": "jpeg", ".png": "png"}.get(path.suffix)
        if kind:
            write(kind, **{path.stem: path.read_bytes()})


def npy_bytes(header=None, data=bytes(24), version=(1, 0), descr="<f4",
              fortran=False, shape=(2, 3), pad=True):
    if header is None:
        header = (f"{{'descr': '{descr}', 'fortran_order': {fortran}, "
                  f"'shape': {shape}, }}")
    header = header.encode("latin-1")
    length = "<H" if version[0] == 1 else "<I"
    if pad:
        header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return (b"\x93NUMPY" + bytes(version) + struct.pack(length, len(header))
            + header + data)


class Evil:
    def __reduce__(self):
        return (print, ("never",))


PICKLE = pickle.dumps([Evil(), {"a": 1}], protocol=2)


def npy():
    row = bytes(range(24))
    write("npy", f4=npy_bytes(data=row), fortran=npy_bytes(
              data=row, fortran=True), big=npy_bytes(data=row, descr=">i4"),
          v2=npy_bytes(data=row, version=(2, 0)),
          v3=npy_bytes(data=row, version=(3, 0)),
          u1=npy_bytes(descr="|u1", shape=(24,), data=row),
          f2=npy_bytes(descr="<f2", shape=(12,), data=row),
          bool_=npy_bytes(descr="|b1", shape=(24,), data=row),
          fortran_3=npy_bytes(descr="|u1", shape=(2, 3, 4), fortran=True,
                              data=row),
          scalar=npy_bytes(shape=(), data=row[:4]),
          empty=npy_bytes(shape=(0, 3), data=b""),
          empty_fortran=npy_bytes(shape=(3, 0), fortran=True, data=b""),
          rank_9=npy_bytes(shape=(1,) * 9, data=row[:4]),
          rank_8=npy_bytes(shape=(1,) * 8, data=row[:4]),
          pickled=npy_bytes(descr="|O", shape=(2,), data=PICKLE),
          structured=npy_bytes("{'descr': [('a', '<f4')], 'fortran_order': "
                               "False, 'shape': (2,), }"),
          string=npy_bytes(descr="<U8", shape=(1,), data=row),
          shape_huge=npy_bytes(shape=(1 << 62, 4), data=row),
          shape_2_64=npy_bytes(shape=(1 << 64, 1), data=row),
          shape_minus=npy_bytes(shape=(-1, 3), data=row),
          shape_0_huge=npy_bytes(shape=(0, 1 << 40, 1 << 40), data=b""),
          code=npy_bytes("{'descr': __import__('os').system('true')}"),
          twice=npy_bytes("{'descr': '<f4', 'descr': '<f8', 'fortran_order':"
                          " False, 'shape': (2, 3), }"),
          no_shape=npy_bytes("{'descr': '<f4', 'fortran_order': False, }"),
          deep=npy_bytes("{'shape': " + "(" * 3000),
          head_65535=b"\x93NUMPY\x01\x00\xff\xff{",
          head_4g=b"\x93NUMPY\x02\x00\xff\xff\xff\xff{",
          version_9=npy_bytes(version=(9, 0)), short=npy_bytes(data=row[:-1]),
          long=npy_bytes(data=row + b"x"), torch=PICKLE, nothing=b"")


def zip_bytes(members, comment=b"", entries=None):
    """members: (name, stored bytes, method, crc, size, flags[, offset])."""
    out, directory = b"", b""
    for name, raw, method, crc, size, flags, *at in members:
        name = name.encode()
        offset = at[0] if at else len(out)
        common = struct.pack("<HHHIIIHH", flags, method, 0, crc & 0xFFFFFFFF,
                             len(raw), size & 0xFFFFFFFF, len(name), 0)
        # time and date are one field here
        common = struct.pack("<HHHHIIIHH", flags, method, 0, 0x21,
                             crc & 0xFFFFFFFF, len(raw), size & 0xFFFFFFFF,
                             len(name), 0)
        out += b"PK\3\4" + struct.pack("<H", 20) + common + name + raw
        directory += (b"PK\1\2" + struct.pack("<HH", 20, 20) + common
                      + struct.pack("<HHHII", 0, 0, 0, 0, offset) + name)
    n = len(members) if entries is None else entries
    return (out + directory + b"PK\5\6" + struct.pack(
        "<HHHHIIH", 0, 0, n, n, len(directory), len(out), len(comment))
        + comment)


def stored(name, data, **change):
    one = [name, data, 0, zlib.crc32(data), len(data), 0]
    return one if not change else [
        change.get(k, v) for k, v in
        zip(("name", "raw", "method", "crc", "size", "flags"), one)]


def deflated(name, data, **change):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    raw = packer.compress(data) + packer.flush()
    one = [name, raw, 8, zlib.crc32(data), len(data), 0]
    return [change.get(k, v) for k, v in
            zip(("name", "raw", "method", "crc", "size", "flags"), one)]


def npz():
    x, y = npy_bytes(data=bytes(range(24))), npy_bytes(
        descr="|u1", shape=(2,), data=b"\1\2")
    million = npy_bytes(descr="|u1", shape=(1000000,), data=bytes(1000000))

    def ids(values, offsets=None, descr="<i8", shape=None):
        members = [stored("x.npy", x), stored("t.npy", npy_bytes(
            descr=descr, shape=shape or (len(values),),
            data=struct.pack(f"<{len(values)}q", *values)))]
        if offsets is not None:
            members.append(stored("t.offsets.npy", npy_bytes(
                descr="<i8", shape=(len(offsets),),
                data=struct.pack(f"<{len(offsets)}q", *offsets))))
        return zip_bytes(members)
    write("npz", stored=zip_bytes([stored("x.npy", x), stored("y.npy", y)]),
          deflated=zip_bytes([deflated("x.npy", x), deflated("y.npy", y)]),
          comment=zip_bytes([stored("x.npy", x)], b"PK\5\6 is what it says"),
          dots=zip_bytes([stored("../x.npy", x), stored("x.npy", x)]),
          slash=zip_bytes([stored("/etc/x.npy", x)]),
          backslash=zip_bytes([stored("..\\x.npy", x)]),
          zero_in_name=zip_bytes([stored("x.npy\0", x)]),
          overlap=zip_bytes([stored("x.npy", x),
                             stored("y.npy", y) + [0]]),
          overlap_itself=zip_bytes([stored("y.npy", y),
                                    stored("x.npy", x) + [10]]),
          twice=zip_bytes([stored("x.npy", x), stored("x.npy", x)]),
          wrong_crc=zip_bytes([stored("x.npy", x, crc=1)]),
          wrong_crc_deflated=zip_bytes([deflated("x.npy", x, crc=1)]),
          wrong_size=zip_bytes([deflated("x.npy", x, size=len(x) + 1)]),
          size_4g=zip_bytes([deflated("x.npy", x, size=0xFFFFFFFE)]),
          bomb=zip_bytes([deflated("x.npy", million)]),
          encrypted=zip_bytes([stored("x.npy", x, flags=1)]),
          method_14=zip_bytes([stored("x.npy", x, method=14)]),
          pickled=zip_bytes([stored("x.npy", npy_bytes(
              descr="|O", shape=(2,), data=PICKLE))]),
          entries_65535=zip_bytes([stored("x.npy", x)], entries=65535),
          ids=ids([-1, 7]), ids_2=ids([1, 2, 3, 4], shape=(2, 2)),
          ids_bags=ids([1, 2, 3], [0, 3, 3]), ids_floats=ids([1, 2], descr="<f8"),
          ids_none=ids([], [0, 0, 0]), ids_fall=ids([1, 2, 3], [0, 4, 3]),
          ids_beyond=ids([1, 2], [0, 1, 1 << 62]), ids_few=ids([1, 2], [0, 2]),
          ids_over=ids([1, 2], [-1, 1, 2]), ids_other=ids([1, 2, 3]),
          no_member=zip_bytes([stored("z.npy", x)]), empty=zip_bytes([]),
          cut=zip_bytes([stored("x.npy", x)])[:-30], torch=zip_bytes(
              [stored("archive/data.pkl", PICKLE)]), nothing=b"")


def csv():
    def one(flags, features, text):
        return bytes([flags, features - 1]) + (
            text.encode() if isinstance(text, str) else text)
    write("csv", plain=one(0, 2, "1,2,3\n4,5.5,6\n-1e3,2,0\n"),
          header=one(1 | 4, 2, "a,b,c\n1,2,3\n4,5,6"),
          semicolon=one(2, 1, "1;2\r\n3;4\r\n"),
          columns=one(1 | 4 | 8, 1, "a,b,0\n1,2,3\n"),
          columns_2=one(1 | 4 | 8 | 16, 2, "0,b,a\n1,2,3\n"),
          values=one(64, 1, "1,2.5\n3,4\n"), one_hot=one(32, 1, "1,2\n3,9\n"),
          quoted=one(0, 1, '"1","2"\n" 3 ",4\n"5""",6\n'),
          quote_open=one(0, 1, '1,2\n"3,4\n'), empty_field=one(0, 1, "1,\n"),
          bom=one(0, 1, b"\xef\xbb\xbf1,2\n"), nothing=one(0, 1, ""),
          only_bom=one(0, 1, b"\xef\xbb\xbf"), lines=one(0, 1, "\n\n\n"),
          fewer=one(0, 2, "1,2,3\n1,2\n"), more=one(0, 2, "1,2,3\n1,2,3,4\n"),
          class_10=one(0, 1, "1,10\n"), class_half=one(0, 1, "1,0.5\n"),
          class_minus=one(0, 1, "1,-1\n"), class_huge=one(0, 1, "1,1e300\n"),
          nan=one(0, 1, "nan,1\ninf,1\n"), hex=one(0, 1, "0x10,1\n"),
          real_1e400=one(0, 1, "1e400,1\n1e-400,1\n"),
          ids=one(0, 63 + 1, "1,2|-1,3|4,0\n1,,18446744073709551615,1\n"),
          ids_wrong=one(0, 63 + 1, "1,18446744073709551616,3,0\n1,2,3||4,0\n"),
          ids_hashed=one(0, 3 * 63 + 1, "1,Paris|Lyon,3\n"),
          ids_names=one(1 | 4, 4 * 63 + 1, "a,b,tags,user\n1,2,\"3|4\",me\n"),
          many_columns=one(0, 1, "," * 2000 + "\n"),
          long_field=one(0, 1, "1" * 3000 + ",1\n"), zero=one(0, 1, b"1\0,1\n"),
          not_utf8=one(1, 1, b"\xff,b\n1,2\n"), carriage=one(0, 1, "1,2\r3,4"))


# ---- checkpoints

def tensors_bytes(header, data=b"", length=None):
    if not isinstance(header, (bytes, str)):
        header = json.dumps(header)
    if isinstance(header, str):
        header = header.encode()
    return struct.pack("<Q", len(header) if length is None else length
                       ) + header + data


def tensor(begin, end, shape, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def tensorfile():
    two = {"a": tensor(0, 24, [2, 3]), "b": tensor(24, 28, [1])}
    data = bytes(range(28))
    twice = ('{"a": {"dtype":"U8","shape":[1],"data_offsets":[0,1]}, '
             '"a": {"dtype":"U8","shape":[1],"data_offsets":[0,1]}}')
    write("tensorfile", two=tensors_bytes(two, data),
          padded=tensors_bytes(json.dumps(two) + " " * 13, data),
          meta=tensors_bytes({"__metadata__": {"format": "pt"}, **two}, data),
          meta_number=tensors_bytes({"__metadata__": {"a": 1}, **two}, data),
          meta_list=tensors_bytes({"__metadata__": [1]}),
          checks_wrong=tensors_bytes({"__metadata__": {
              "sluice.data_crc32c": "00000000",
              "sluice.header_crc32c": "00000000"}, **two}, data),
          checks_short=tensors_bytes({"__metadata__": {
              "sluice.data_crc32c": "", "sluice.header_crc32c": "1"}, **two},
              data),
          none=tensors_bytes({}), scalar=tensors_bytes(
              {"s": tensor(0, 4, [])}, b"abcd"),
          empty=tensors_bytes({"e": tensor(0, 0, [0, 7]), **two}, data),
          empty_behind=tensors_bytes({**two, "e": tensor(28, 28, [0])}, data),
          all_types=tensors_bytes({
              d: tensor(8 * i, 8 * i + 8, [8 // size], d)
              for i, (d, size) in enumerate({
                  "BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "U16": 2, "F16": 2,
                  "BF16": 2, "I32": 4, "U32": 4, "F32": 4, "F64": 8, "I64": 8,
                  "U64": 8}.items())}, bytes(104)),
          hole=tensors_bytes({"a": tensor(0, 4, [1]), "b": tensor(8, 12, [1])},
                             bytes(12)),
          hole_first=tensors_bytes({"a": tensor(4, 8, [1])}, bytes(8)),
          overlap=tensors_bytes({"a": tensor(0, 8, [2]),
                                 "b": tensor(4, 12, [2])}, bytes(12)),
          same=tensors_bytes({"a": tensor(0, 8, [2]), "b": tensor(0, 8, [2])},
                             bytes(8)),
          tail=tensors_bytes(two, data + b"x"),
          short=tensors_bytes(two, data[:-1]),
          backwards=tensors_bytes({"a": tensor(4, 0, [1])}, bytes(4)),
          minus=tensors_bytes({"a": tensor(-4, 0, [1])}, bytes(4)),
          shape_minus=tensors_bytes({"a": tensor(0, 4, [-1])}, bytes(4)),
          shape_huge=tensors_bytes({"a": tensor(0, 4, [1 << 62, 4])},
                                   bytes(4)),
          shape_0_huge=tensors_bytes({"a": tensor(0, 0, [0, 1 << 62, 4])}),
          rank_9=tensors_bytes({"a": tensor(0, 4, [1] * 9)}, bytes(4)),
          dtype=tensors_bytes({"a": tensor(0, 4, [1], "F99")}, bytes(4)),
          dtype_number=tensors_bytes({"a": tensor(0, 4, [1], 7)}, bytes(4)),
          offsets_object=tensors_bytes({"a": {
              "dtype": "F32", "shape": [1], "data_offsets": {"0": 1}}}),
          extra_key=tensors_bytes({"a": {**tensor(0, 4, [1]), "x": 1}},
                                  bytes(4)),
          twice=tensors_bytes(twice, b"x"),
          zero_in_name=tensors_bytes({"a\0b": tensor(0, 4, [1])}, bytes(4)),
          header_100mb=tensors_bytes("{}", length=100000000),
          header_2_64=tensors_bytes("{}", length=(1 << 64) - 1),
          header_0=tensors_bytes("", length=0), seven=b"\1\0\0\0\0\0\0",
          list=tensors_bytes("[]"), deep=tensors_bytes('{"a":' * 500),
          not_json=tensors_bytes("{" + "x" * 100), torch=PICKLE,
          torch_zip=zip_bytes([stored("archive/data.pkl", PICKLE)]))


def manifest():
    good = {
        "format": 1, "job": 5, "cut": 3,
        "variables": [{"name": "w", "shape": [4], "kind": "trainable"},
                      {"name": "k", "shape": [2, 3], "keras_order": [1, 0]}],
        "pieces": [{"variable": 0, "first_row": 0, "rows": 3, "shard": 0,
                    "elements": 3},
                   {"variable": 0, "first_row": 3, "rows": 1, "shard": 1,
                    "elements": 1},
                   {"variable": 1, "first_row": 0, "rows": 2, "shard": 1,
                    "elements": 6}],
        "shards": [{"shard": s, "folder": "/nowhere", "file": "f",
                    "sha256": "00" * 32, "counts": {"counted": 7}}
                   for s in (1, 0)]}

    def with_(edit):
        changed = json.loads(json.dumps(good))
        edit(changed)
        return json.dumps(changed)

    def put(*path):
        *before, last, value = path

        def edit(m):
            for key in before:
                m = m[key]
            m[last] = value
        return edit
    write("manifest", good=json.dumps(good), indented=json.dumps(good, indent=2),
          format_2=with_(put("format", 2)),
          rows_short=with_(put("pieces", 0, "rows", 2)),
          rows_huge=with_(put("pieces", 0, "rows", (1 << 63) - 1)),
          first_row_huge=with_(put("pieces", 1, "first_row", (1 << 64) - 1)),
          elements_wrong=with_(put("pieces", 0, "elements", 9)),
          variable_wild=with_(put("pieces", 0, "variable", 4294967295)),
          shard_wild=with_(put("pieces", 0, "shard", 4294967295)),
          shard_back=with_(put("pieces", 2, "shard", 0)),
          shape_huge=with_(put("variables", 0, "shape", [1 << 40, 1 << 40])),
          shape_0=with_(put("variables", 0, "shape", [0])),
          rank_9=with_(put("variables", 0, "shape", [1] * 9)),
          order_wild=with_(put("variables", 1, "keras_order", [7, 0])),
          order_far=with_(put("variables", 1, "keras_order", [4294967295, 1])),
          order_twice=with_(put("variables", 1, "keras_order", [0, 0])),
          same_names=with_(put("variables", 1, "name", "w")),
          file_path=with_(put("shards", 0, "file", "../../etc/passwd")),
          file_dots=with_(put("shards", 0, "file", "..")),
          folder_zero=changed(json.dumps(good), {"/nowhere": "a\\u0000b"}),
          sha_short=with_(put("shards", 0, "sha256", "00")),
          no_variables=with_(put("variables", [])),
          no_pieces=with_(put("pieces", [])), no_shards=with_(put("shards", [])),
          shards_object=with_(put("shards", {"a": 1, "b": 2})),
          empty="{}", list="[]", nothing="", torch=PICKLE)


def resume():
    """Manifests as the coordinator reads them: with spec, geometry and uid."""
    def text(**changed):
        shards = [{"shard": s, "psserver": "p", "tag": {"incarnation": 1, "sequence": 1},
                   "folder": "/nowhere", "file": "f", "sha256": "00" * 32,
                   "counts": {"counted": 7, "applied": 7}} for s in (0, 1)]
        good = {
            "format": 1, "job": 5, "job_uid": "0x0000000000000001", "cut": 3,
            "steps": 7, "epoch": 1,
            "spec": {"name": "x", "optimizer": {"type": "sgd"}, "model": {
                "type": "external", "variables": [{"name": "w", "shape": [4]}]},
                "data": {"train": {"format": "external", "samples": 8}},
                "train": {"batch": 4, "epochs": 2}},
            "geometry": {"samples": 8, "batch": 4, "epochs": 2,
                         "steps_per_closure": 1},
            "variables": [{"name": "w", "shape": [4]}],
            "pieces": [{"variable": 0, "first_row": 3 * s, "rows": 3 - 2 * s,
                        "shard": s, "elements": 3 - 2 * s} for s in (0, 1)],
            "shards": shards}
        return json.dumps({**good, **changed})
    write("resume", good=text(), format_2=text(format=2), no_uid=text(job_uid=""),
          no_spec=text(spec={}), no_geometry=text(geometry={}),
          no_shards=text(shards=[]), a_number=text(shards=7), null=text(spec=None),
          pieces_twice=text(pieces=2 * json.loads(text())["pieces"]),
          shards_back=text(shards=json.loads(text())["shards"][::-1]),
          epoch_huge=text(epoch=(1 << 63) - 1), nothing="", list="[]")


def snapshot():
    good = {"dense/kernel": tensor(0, 140, [5, 7])}
    write("snapshot", other=tensors_bytes(good, bytes(140)),
          nothing=b"", torch=PICKLE,
          format_2=tensors_bytes({"__metadata__": {"sluice.format": "2"},
                                  **good}, bytes(140)))
    valid = HERE / "corpus" / "snapshot" / "valid"
    if not valid.exists():
        return
    bytes_ = valid.read_bytes()
    length = struct.unpack("<Q", bytes_[:8])[0]
    header = json.loads(bytes_[8:8 + length])

    def with_(key, value):
        changed = json.loads(json.dumps(header))
        changed["__metadata__"][key] = value
        return tensors_bytes(changed, bytes_[8 + length:])
    write("snapshot", flipped=bytes_[:-5] + b"\x55" + bytes_[-4:],
          cut=bytes_[:-40],
          counted_none=with_("sluice.counted", ""),
          counted_wild=with_("sluice.counted", "CP///////////wE="),
          counted_text=with_("sluice.counted", "%%%"),
          counts_none=with_("sluice.counts", ""),
          version=with_("sluice.version", "99999999999999999999"),
          version_minus=with_("sluice.version", "-1"),
          shard=with_("sluice.shard", "3"), uid=with_("sluice.job_uid", "zz"),
          rows=with_("sluice.rows.dense/kernel", "1:5"))


def table_chain():
    def records(*ids):
        return b"".join(struct.pack("<QIIff", i, 1, 1, i, 0) for i in ids)

    def waiting(*ids):
        return b"".join(struct.pack("<QII", i, 1, 1) for i in ids)

    def ids(*ids):
        return struct.pack(f"<{len(ids)}Q", *ids)

    def file(parts, chain=None):
        """Tensors of the table t in a row: name -> bytes."""
        tensors, data = {}, b""
        for name, of in parts.items():
            each = 8 if "gone" in name else 24 if "rows" in name else 16
            tensors[name + ".t"] = tensor(
                len(data), len(data) + len(of),
                [len(of) // each] + ([each] if each > 8 else []), "U64" if each == 8 else "U8")
            data += of
        meta = {} if chain is None else {"__metadata__": {"sluice.chain": chain}}
        return tensors_bytes({**meta, **tensors}, data)

    def both(top, below):
        return struct.pack("<I", len(top)) + top + below
    base = file({"#rows": records(1, 2, 3, 4), "#waiting": waiting(5, 0)})
    delta = {"#rows_changed": records(2, 5), "#waiting_changed": waiting(7),
             "#rows_gone": ids(3, 2), "#waiting_gone": ids(5)}
    link = "below:" + "0" * 64
    write("table_chain", whole=both(base, b""), delta=both(file(delta, link), base),
          missing=both(file(delta, "away:" + "0" * 64), base),
          itself=both(file(delta, link), file(delta, link)),
          outside=both(file(delta, "../below:" + "0" * 64), base),
          short=both(file(delta, link[:-1]), base), more=both(file(delta, link + ","), base),
          many=both(file(delta, ",".join([link] * 65)), base), empty=both(file(delta, ""), base),
          no_gone=both(file({k: v for k, v in delta.items() if "gone" not in k}, link), base),
          zero=both(file({**delta, "#waiting_gone": ids(0)}, link), base),
          cut=both(file(delta, link), base[:-5]))


def rows_file():
    n = 8
    ids = struct.pack(f"<{n}Q", *(i * 0x9e3779b97f4a7c15 % (1 << 64) for i in range(n)))
    values = struct.pack(f"<{3 * n}f", *(i / 4 for i in range(3 * n)))

    def file(ids=ids, values=values, shape=(n, 3), kind="U64", first="ids", second="values"):
        return tensors_bytes({
            first: tensor(0, len(ids), [len(ids) // 8], kind),
            second: tensor(len(ids), len(ids) + len(values), list(shape))}, ids + values)
    write("rows_file", good=file(), none=file(b"", b"", (0, 3)), nothing=b"",
          twice=file(ids=ids[:-8] + ids[:8]), i64=file(kind="I64"),
          no_ids=file(first="id"), no_values=file(second="value"),
          turned=file(shape=(3, n)), flat=file(shape=(3 * n,)),
          few=file(ids=ids[:-8]), cut=file()[:-4],
          nan=file(values=values[:-4] + struct.pack("<f", float("nan"))),
          infinite=file(values=struct.pack("<f", float("inf")) + values[4:]))


def example(**features):
    """A tf.train.Example; a feature is (kind, the fields of its list)."""
    entries = (field(1, field(1, key.encode())
                           + field(2, field(kind, fields)))
               for key, (kind, fields) in features.items())
    return field(1, b"".join(entries))


def tfrecord():
    floats = field(1, struct.pack("<11f", *range(11)))
    y, b = (3, field(1, b"\7")), (3, b"\x08\2")
    png = (HERE / "corpus" / "png" / "rgb").read_bytes() if (
        HERE / "corpus" / "png" / "rgb").exists() else b"\x89PNG"
    golden = bytes.fromhex("1200000000000000241f64250a100a0e0a056c6162656c12051a030a0107368c84b9")
    ids = {"user": (3, field(1, b"\1\2\xff\1")), "word": (1, field(1, b"abc"))}
    write("tfrecord", golden=b"\0" + golden, two=b"\0" + 2 * golden,
          numbers=b"\1" + example(a=(2, floats), b=b, y=y),
          values=bytes([1 | 64]) + example(a=(2, floats), b=b, y=(2, b"\x0d" + struct.pack("<f", 2))),
          ids=bytes([1 | 8]) + example(a=(2, floats), b=b, y=y, **ids),
          image=bytes([1 | 2 | 16]) + example(a=(1, field(1, png)), y=y),
          raw=bytes([1 | 4]) + example(a=(1, field(1, bytes(range(12)))), y=y),
          raw_u8=bytes([1 | 4 | 16]) + example(a=(1, field(1, bytes(range(12)))), y=y),
          long_length=b"\1" + example(a=(2, floats))[:6] + b"\xff" * 9 + b"\1",
          group=b"\1\x0b\x0c", deep=b"\1" + field(1, field(1, field(1, b"a") * 40)),
          gzip=b"\0\x1f\x8b\x08" + bytes(20), nothing=b"\1", empty=b"\0")


def tar():
    def archive(*members, form=tarfile.GNU_FORMAT):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=form) as t:
            for name, data in members:
                info = tarfile.TarInfo(name)
                info.size = len(data)
                if isinstance(data, str):
                    info.type, info.linkname, info.size = tarfile.SYMTYPE, data, 0
                    data = b""
                t.addfile(info, io.BytesIO(data))
        return out.getvalue()[:4096]
    png = (ROOT / "tests/unit/worker/images/rgb.png").read_bytes()[:512]
    x = npy_bytes(descr="|u1", shape=(12,), data=bytes(range(12)))
    y = npy_bytes(descr="|u1", shape=(1,), data=b"\1")
    groups = archive(("a/1.png", png), ("a/1.cls", b"1\n"))
    pax = archive(("n" * 120 + ".png", png), ("n" * 120 + ".cls", b"0"), form=tarfile.PAX_FORMAT)
    gnu = archive(("n" * 120 + ".png", png), ("n" * 120 + ".cls", b"0"))
    folders = archive(("t/cats/1.png", png), ("t/dogs/1.png", png))
    write("tar", groups=b"\0" + groups, groups_set=b"\1" + groups, pax=b"\1" + pax,
          gnu=b"\1" + gnu, folders=b"\3" + folders, folders_u8=b"\x23" + folders,
          json=b"\5" + archive(("1.png", png), ("1.json", b'{"label": 1}')),
          npy=b"\x19" + archive(("1.npy", x), ("1.y.npy", y)),
          values=b"\x51" + archive(("1.npy", x), ("1.cls", b"0.5")),
          link=b"\1" + archive(("1.png", "/etc/passwd")), gzip=b"\0\x1f\x8b" + bytes(600),
          zeroes=b"\0" + bytes(1024))


def dictionaries():
    """For libFuzzer: the words of the specs, numbers of the wire."""
    words = set()
    for path in (ROOT / "proto").glob("*.proto"):
        words |= set(re.findall(r"\b([a-z][a-z_0-9]+) = \d+;", path.read_text()))
    for name in ("proto/layers.def", "proto/spec.h", "plan/optimizers.def"):
        words |= set(re.findall(r'"([a-z][a-z_0-9]+)"', (ROOT / name).read_text()))
    for path in (ROOT / "client").rglob("keras*.c"):
        words |= set(re.findall(r'"([A-Za-z_][A-Za-z_0-9]+)"', path.read_text()))
    words |= {"piecewise_linear", "&a", "*a", "<<", "!!", "---", "1e400", "18446744073709551616"}
    text = "".join(f'"{word}"\n' for word in sorted(words))
    (HERE / "words.dict").write_text(
        "# Written by make_corpus.py from proto/, plan/ and client/.\n" + text)


def main():
    for seeds in (wire_data, wire_control, wirescan, table_rows, table_chain, counted, json_seeds,
                  spec_json, spec_yaml, model, keras, conf, hostlist, tf_config, launch, xml,
                  credentials, idx, images, npy, npz, csv, tfrecord, tar, tensorfile, manifest, resume, snapshot, rows_file,
                  dictionaries):
        seeds()


if __name__ == "__main__":
    main()
