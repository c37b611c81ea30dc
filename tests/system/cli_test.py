#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What holds for every verb of the command, whatever it is asked for."""
import concurrent.futures
import json
import os
import pty
import re
import socket
import subprocess
import tempfile

from cluster import BIN, ROOT, Cluster, check, check_equal, main, mlp_job, wait_for

TOY = ROOT / "examples" / "toy.yaml"
# What a verb wants beside its flags, where that is not a job.
ARGUMENTS = {"submit": [TOY], "drain": ["w-0"], "undrain": ["w-0"], "jobs": [],
             "workers": [], "servers": [], "quota": [], "doctor": [],
             "follow": ["j-1", "--table", "users", "--to", "users"]}
# These ask no coordinator.
LOCAL = ("up", "run", "down", "validate", "import", "logs", "cert", "token", "audit", "completion",
         "version", "backup", "restore", "explain")


def verbs():
    text = subprocess.run([BIN / "sluice", "--help"], capture_output=True, text=True,
                          check=True).stdout
    listed = text.split("Verbs:\n", 1)[1].split("\n\n", 1)[0]
    return [line.split()[0] for line in listed.splitlines()]


class DeafPort:
    """A port that answers no packet: its queue of connections is full."""

    def __enter__(self):
        self.sockets = [socket.socket()]
        self.sockets[0].bind(("127.0.0.1", 0))
        self.sockets[0].listen(0)
        self.address = "127.0.0.1:%d" % self.sockets[0].getsockname()[1]
        for _ in range(4):
            self.sockets.append(socket.socket())
            self.sockets[-1].setblocking(False)
            self.sockets[-1].connect_ex(self.sockets[0].getsockname())
        return self

    def __exit__(self, *_):
        for one in self.sockets:
            one.close()


def no_answer_is_waited_for_no_longer_than_timeout():
    asking = [v for v in verbs() if v not in LOCAL]
    check(len(asking) > 20, "verbs that ask a coordinator", *asking)
    with DeafPort() as port, tempfile.TemporaryDirectory() as folder:
        def ask(verb):
            words = [BIN / "sluice", verb, *ARGUMENTS.get(verb, ["j-1"]), "--coordinator",
                     port.address, "--timeout", "700ms"]
            return verb, subprocess.run(words, capture_output=True, text=True, cwd=folder,
                                        stdin=subprocess.DEVNULL, check=False, timeout=60)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for verb, done in pool.map(ask, asking):
                told = done.stdout + done.stderr
                check_equal(done.returncode, 1 if verb == "doctor" else 4,
                            f"exit of {verb}: {told}")
                check(port.address in told and "no answer within 0.7 s" in told and
                      "Is it running? Try: sluice up" in told, f"{verb} says", told)
        check_equal(os.listdir(folder), [], "files that were left behind")


def on_a_terminal(*words, **environment):
    """What the command writes to a terminal of its own."""
    near, far = pty.openpty()
    env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    with subprocess.Popen([BIN / "sluice", *map(str, words)], stdin=far, stdout=far,
                          stderr=far, env={**env, "TERM": "xterm", **environment}):
        os.close(far)
        said = b""
        try:
            while text := os.read(near, 4096):
                said += text
        except OSError:
            pass  # its end, of a terminal
    os.close(near)
    return said.decode()


def colours_and_redrawn_lines_are_for_terminals():
    asks = ("doctor", "--coordinator", "127.0.0.1:1")
    check("\x1b[1;31mfault" in on_a_terminal(*asks), "no colour on a terminal")
    for words, environment in ((["--no-color"], {}), ([], {"NO_COLOR": "1"}),
                               ([], {"TERM": "dumb"}), ([], {"SLUICE_COLOR": "no"})):
        said = on_a_terminal(*asks, *words, **environment)
        check("fault" in said and "\x1b" not in said, f"{words} {environment}", said)
    piped = subprocess.run([BIN / "sluice", *asks], capture_output=True, text=True,
                           env={**os.environ, "TERM": "xterm"}, check=False)
    check("fault" in piped.stdout and "\x1b" not in piped.stdout, "in a pipe", piped.stdout)

    with Cluster(psservers=1, workers=1) as c:
        path = c.dir / "job.yaml"
        path.write_text(json.dumps(mlp_job("shown", samples=640, epochs=1)))
        said = on_a_terminal("submit", path, "--coordinator", c.address)
        check("\r\x1b[K" in said, "no line is drawn again on a terminal", said)
        said = on_a_terminal("submit", path, "--coordinator", c.address, TERM="dumb")
        check("\x1b" not in said, "on a terminal that cannot", said)
        done = c.run("submit", path)
        check("\x1b" not in done.stdout + done.stderr and "\r" not in done.stderr,
              "in a pipe", done.stderr)

        # States of tables.
        job = c.submit(mlp_job("long", samples=640, epochs=10000))
        c.wait_state(job, "running")
        green = "\x1b[1;32m%s\x1b[0m"
        for words, want in ((["jobs"], green % "running"), (["workers"], green % "ready"),
                            (["status", job], green % "running")):
            words = [*words, "--coordinator", c.address]
            said = on_a_terminal(*words)
            check(want in said, f"{words} without its colour", said)
            check("\x1b" not in on_a_terminal(*words, NO_COLOR="1"), f"NO_COLOR of {words}")
            check("\x1b" not in c.run(*words[:-2]).stdout, f"{words} in a pipe")
        check("\x1b" not in on_a_terminal("jobs", "-o", "json", "--coordinator", c.address),
              "colours in JSON")
        c.run("stop", job, "--now")

        # To a pipe goes what was asked for and nothing else.
        done = c.run("submit", path, "--no-wait")
        check(re.fullmatch(r"j-\d+\n", done.stdout), "stdout of --no-wait", done.stdout)
        c.wait_state(done.stdout.strip())
        told = c.run("wait", done.stdout.strip())
        check_equal((told.stdout, told.stderr), ("", ""), "what wait says")
        check_equal(c.run("validate", path, "-o", "json").stdout[:1], "{", "a document")


def explain_and_its_schema_know_each_key_of_a_job():
    def sluice(*words, want=0):
        done = subprocess.run([BIN / "sluice", *map(str, words)], capture_output=True, text=True,
                              check=False, timeout=60)
        check_equal(done.returncode, want, f"{words}: {done.stderr}")
        return done

    schema = json.loads(sluice("explain", "--schema").stdout)

    def resolve(one):
        one = one.get("allOf", [one])[0]
        return schema["definitions"][one["$ref"].rsplit("/", 1)[1]] if "$ref" in one else one

    def fits(value, one, where):
        lists = [resolve(way) for way in one["anyOf"]] if "anyOf" in one else [resolve(one)]
        kind = ("array" if isinstance(value, list) else "object" if isinstance(value, dict)
                else "boolean" if isinstance(value, bool) else "string" if isinstance(value, str)
                else "number" if isinstance(value, float) else "integer")
        way = next((w for w in lists if w["type"] in (kind, "number" if kind == "integer" else kind)),
                   None)
        check(way is not None, f"{where} is no {kind} in the schema", lists)
        for key, inner in value.items() if kind == "object" else ():
            check(key in way["properties"], f"{where}.{key} is not in the schema")
            fits(inner, way["properties"][key], f"{where}.{key}")
        for inner in value if kind == "array" else ():
            fits(inner, way["items"], f"{where}[]")

    for path in sorted((ROOT / "examples").glob("*.yaml")):
        if path.stem != "skypilot":
            whole = json.loads(sluice("validate", path, "-o", "json").stdout)
            whole.pop("schema_version", None)
            fits(whole, schema, path.stem)

    told = sluice("explain", "train.mode").stdout
    for words in ("train.mode  text\n", "async (default): each step is an update", "Default: async"):
        check(words in told, f"no '{words}'", told)
    check("train.staleness  text\n" in sluice("explain", "train").stdout, "keys of train")
    told = sluice("explain", "train.moed", want=3).stderr
    check("train: there is no 'moed'; did you mean 'mode'?" in told, told)
    check("train.mode has no keys" in sluice("explain", "train.mode.x", want=3).stderr, "words")


def verbs_of_other_programs_are_told_ours():
    for word, verb in (("list", "jobs"), ("ps", "jobs"), ("get", "status"), ("kill", "stop"),
                       ("cancel", "stop"), ("rm", "delete"), ("describe", "status")):
        done = subprocess.run([BIN / "sluice", word], capture_output=True, text=True, check=False)
        check_equal((done.returncode, done.stderr),
                    (2, f"sluice: unknown verb '{word}'; did you mean '{verb}'?\n"), word)


def an_export_is_what_its_name_says():
    for file, words in (("m.onnx", "python3 -m sluice.onnx JOB --to FILE"),
                        ("m.KERAS", "sluice.keras.load_job(model, JOB)"),
                        ("m.h5", "model.save writes them"), ("m.npz", "numpy.savez"),
                        ("m.pt", "safetensors.torch.load_file")):
        done = subprocess.run([BIN / "sluice", "export", "j-1", "--to", file],
                              capture_output=True, text=True, check=False)
        check_equal(done.returncode, 2, file)
        check(f"--to {file}: this command writes safetensors (" in done.stderr and
              words in done.stderr, done.stderr)


def verbs_take_several_jobs():
    with Cluster(psservers=1, workers=1) as c:
        jobs = [c.submit(mlp_job(f"several-{i}", samples=640, epochs=1)) for i in range(3)]
        c.run("wait", *jobs)
        check_equal({c.status(j)["state"] for j in jobs}, {"finished"}, "after wait")
        done = c.run("watch", *jobs)
        check_equal(done.stdout.count("steps counted"), 3, done.stdout)
        done = c.run("watch", *jobs, "--summary", c.dir / "s.json", want=2)
        check("--summary takes one job" in done.stderr, done.stderr)

        # -o yaml is the document of -o json; on 80 columns a table has no line more.
        told = c.run("jobs", "-o", "yaml").stdout
        check(told.startswith("---\nschema_version: 1\n") and "name: several-2" in told, told)
        c.submit(mlp_job("a-name-of-a-job-that-is-as-long-as-it-may-be-whatever-it-costs",
                         samples=640, epochs=1))
        told = c.run("jobs", before=("env", "COLUMNS=80")).stdout
        check(max(map(len, told.splitlines())) <= 80 and "…" in told, told)
        told = c.run("jobs").stdout
        check("…" not in told, "in a pipe nothing is cut", told)
        check([line.split()[0] for line in told.splitlines()][1:] ==
              [j["id"] for j in c.json("jobs")["jobs"]], "a job's line begins with its id", told)

        # One that is not there does not keep the others.
        done = c.run("delete", jobs[0], "j-99", jobs[1], want=3)
        check(f"{jobs[1]} and its checkpoints are deleted" in done.stderr and "j-99" in done.stderr,
              done.stderr)
        left = {j["id"] for j in c.json("jobs")["jobs"]}
        check(jobs[2] in left and not {jobs[0], jobs[1]} & left, f"left: {left}")
        more = [c.submit(mlp_job(f"stopped-{i}", samples=64000, epochs=50)) for i in range(2)]
        c.run("stop", "--now", *more)
        check_equal({c.status(j)["state"] for j in more}, {"stopped"}, "after stop")

        # doctor looks at the store without being told where it is, and says what
        # a lost psserver wants.
        job = c.submit(mlp_job("waits", samples=64000, epochs=50))
        c.wait_steps(job, 10)
        told = c.run("doctor").stdout
        check(f"disk         {c.dir / 'store'}: " in told, told)
        c.kill("ps-0")
        wait_for("the doctor to say it", lambda: re.search(
            r"lost: psserver ps-0 of host \S+, .*; jobs wait for its shards: start it again on \S+ "
            r"under this name", c.run("doctor", want=None).stdout))


if __name__ == "__main__":
    main([no_answer_is_waited_for_no_longer_than_timeout,
          colours_and_redrawn_lines_are_for_terminals,
          explain_and_its_schema_know_each_key_of_a_job,
          verbs_of_other_programs_are_told_ours, an_export_is_what_its_name_says,
          verbs_take_several_jobs])
