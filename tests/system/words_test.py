#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whatever a coordinator passes on of what others have said: no control
character, no mark that turns the direction of writing and no line of theirs
reaches a terminal.

A coordinator that this test plays fills every string of every answer; what the
command refuses of it (names, addresses, files) it learns from the refusal.
"""
import concurrent.futures
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile

from cluster import BIN, LIMIT, ROOT, check, main

sys.path.insert(0, str(ROOT / "proto"))
import grpc  # noqa: E402
from google.protobuf import message_factory  # noqa: E402

JOBS = grpc.protos("jobs.proto")
TASKS = grpc.protos("tasks.proto")

CANARY = "seen\x1b]0;owned\x07\x1b[2J\nFORGED line\r\t\x9b31m\x7f\u202eabc\u2066\u200f\u061c\u2028"
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
                    "|^FORGED", re.M)
LESS = [CANARY, "w-1", "127.0.0.1:7071", "a.json", ""]  # tried in this order
FIXED = {"JobStatus.state": 5, "JobStatus.id": "j-1", "JobStatus.job": 1,
         # the one text that has lines: the coordinator's own, with names that were checked
         "SubmitReply.explanation": CANARY.replace("\nFORGED", "\nplan")}

VERBS = [
    ["status"], ["status", "j-1"], ["status", "j-1", "--shards"], ["jobs"], ["jobs", "--all"],
    ["workers"], ["servers"], ["drain", "w-1"], ["undrain", "w-1"], ["events"], ["events", "j-1"],
    ["watch", "j-1"], ["wait", "j-1"], ["stop", "j-1"], ["pause", "j-1"], ["resume", "j-1"],
    ["checkpoint", "j-1"], ["checkpoints", "j-1"], ["quota"], ["tables", "j-1"],
    ["follow", "j-1", "--table", "users", "--to", "feed"],
    ["tasks"], ["tasks", "q"],
    ["logs", "j-1"], ["logs", "w-1"], ["trace", "j-1", "-o", "trace.json"],
    ["report", "j-1", "-o", "report.html"], ["delete", "j-1"], ["doctor"],
    ["submit", "job.json", "--no-wait"], ["submit", "job.json", "--dry-run"],
    ["submit", "job.json"],
]


AS_SHOWN = "seen\\u001b]0;owned\\u0007"
SHOWING = ("status", "workers", "servers", "events", "watch", "quota", "tasks", "logs", "doctor")
FORMS = {"wide": "status jobs events tasks", "name": "tasks quota",
         "json": "status jobs workers events checkpoints logs tasks quota",
         "jsonl": "status jobs workers events logs", "yaml": "status jobs workers events"}


class Teller(grpc.GenericRpcHandler):
    """Every method of Jobs and Tasks, each answered with words of others."""

    def __init__(self):
        self.tried = {}  # "Message.field" -> which of LESS it has
        self.left_out = {"Variable.keras_order"}  # an order of its axes
        self.roles = itertools.cycle(["worker", "psserver", CANARY])
        self.error = False  # each call fails, with words
        self.methods = {f"/{s.full_name}/{m.name}": m
                        for file, name in ((JOBS, "Jobs"), (TASKS, "Tasks"))
                        for s in [file.DESCRIPTOR.services_by_name[name]] for m in s.methods}

    def service(self, details):
        method = self.methods.get(details.method)
        if method is None:
            return None

        def answer(_request, context):
            if self.error:
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, CANARY)
            return self.filled(method.output_type, ())

        def answers(request, context):
            yield answer(request, context)
        if method.name in ("Watch", "Trace"):
            return grpc.unary_stream_rpc_method_handler(
                answers, response_serializer=lambda m: m.SerializeToString())
        return grpc.unary_unary_rpc_method_handler(
            answer, response_serializer=lambda m: m.SerializeToString())

    def value(self, field, inside):
        key = f"{field.containing_type.name}.{field.name}"
        if key == "MemberStatus.role":  # by which lists are chosen
            return next(self.roles)
        if key in FIXED:
            return FIXED[key]
        if field.type == field.TYPE_STRING:
            return LESS[self.tried.get(key, 0)]
        if field.type == field.TYPE_BYTES:
            return (json.dumps({"ts": CANARY, "level": CANARY, "msg": CANARY, "node": CANARY,
                                "job": 1, CANARY: CANARY}, ensure_ascii=False) + "\n").encode()
        if field.type == field.TYPE_MESSAGE:
            return self.filled(field.message_type, inside)
        if field.type == field.TYPE_ENUM:
            return next((v.number for v in field.enum_type.values if v.number), 0)
        return 0 if field.type == field.TYPE_BOOL else 1

    def filled(self, of, inside):
        m = message_factory.GetMessageClass(of)()
        inside += (of.name,)
        chosen = set()
        for field in of.fields:
            if (f"{of.name}.{field.name}" in self.left_out or len(inside) > 7
                    or field.message_type is not None and field.message_type.name in inside):
                continue
            if field.containing_oneof is not None:
                if field.containing_oneof.name in chosen:
                    continue
                chosen.add(field.containing_oneof.name)
            value = self.value(field, inside)
            if field.label == field.LABEL_REPEATED:
                getattr(m, field.name).extend(
                    [value, *(self.value(field, inside) for _ in range(2))])
            elif field.type == field.TYPE_MESSAGE:
                getattr(m, field.name).CopyFrom(value)
            else:
                setattr(m, field.name, value)
        return m

    def learn(self, said):
        """Gives a field that was refused less to say; False: none was."""
        found = re.search(r"\b([A-Z]\w+)\.(\w+)( |:)", said)
        if not found:
            return False
        key = f"{found[1]}.{found[2]}"
        self.tried[key] = self.tried.get(key, 0) + 1
        if self.tried[key] >= len(LESS) or key in FIXED:
            self.left_out.add(key)
            self.tried[key] = 0
        return self.tried[key] or len(self.left_out) < 200


class Played:
    def __init__(self):
        self.dir = tempfile.TemporaryDirectory(prefix="words-")
        self.teller = Teller()
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        self.server.add_generic_rpc_handlers((self.teller,))
        self.address = f"unix:{self.dir.name}/c.sock"
        self.server.add_insecure_port(self.address)
        self.server.start()
        with open(f"{self.dir.name}/job.json", "w", encoding="utf-8") as f:
            json.dump({"name": "job", "model": {"input_shape": [4], "layers": [
                {"type": "dense", "units": 2}]}, "loss": "sparse_categorical_crossentropy",
                "optimizer": {"type": "sgd", "learning_rate": 0.1},
                "data": {"train": {"format": "synthetic", "samples": 64, "generator": "classes", "classes": 2}},
                "train": {"batch": 8, "epochs": 1}}, f)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stop(None)
        self.dir.cleanup()

    def run(self, *words):
        environment = {**os.environ, "COLUMNS": "9999"}
        done = subprocess.run(
            [str(BIN / "sluice"), "--coordinator", self.address, "--timeout", "10s", *words],
            capture_output=True, timeout=60 * LIMIT, cwd=self.dir.name, stdin=subprocess.DEVNULL,
            env=environment, check=False)
        out, err = done.stdout.decode(), done.stderr.decode()
        for text in (out, err):
            hidden = HIDDEN.search(text)
            check(hidden is None, f"sluice {' '.join(words)}: {hidden and hidden[0]!r} is shown "
                  "as it is", ascii(text[max(0, hidden.start() - 200):] if hidden else ""))
        return done.returncode, out, err

    def learnt(self, *words):
        for _ in range(100):
            code, out, err = self.run(*words)
            if code == 0 or not self.teller.learn(err):
                break
        return code, out, err


def no_word_of_others_reaches_a_terminal():
    with Played() as played:
        for verb in VERBS:
            _, out, err = played.learnt(*verb)
            check(verb[0] not in SHOWING or AS_SHOWN in out + err,
                  f"`sluice {' '.join(verb)}` shows none of the words", out, err)
        for form, views in FORMS.items():
            for view in views.split():
                _, out, err = played.learnt("-o", form, view, *["j-1"] * (view in ("logs", "checkpoints")))
                check(AS_SHOWN in out, f"`sluice {view} -o {form}` shows none of the words",
                      out, err)
        _, out, _ = played.learnt("-o", "json", "status", "j-1")
        check(CANARY in json.loads(out).values(), "JSON holds the words as they were said", out)


def no_reason_of_a_refusal_begins_a_line():
    with Played() as played:
        played.teller.error = True
        for verb in VERBS:
            _, out, err = played.run(*verb)
            check("seen" in out + err, f"`sluice {verb[0]}` says why it failed", out, err)


if __name__ == "__main__":
    main([no_word_of_others_reaches_a_terminal, no_reason_of_a_refusal_begins_a_line])
