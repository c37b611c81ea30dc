# SPDX-License-Identifier: Apache-2.0
"""Jobs as a client sees them: submit, jobs, status, watch, stop, export, follow.

Each is a verb of the `sluice` command, whose JSON it hands on: field names are
those of proto/job.proto and proto/jobs.proto, 64-bit numbers are strings of
digits, as protobuf's JSON has them. `coordinator` None is $SLUICE_COORDINATOR,
else the socket of your own `sluice up`, else 127.0.0.1:7070; `tls` is as of
Session, with a submitter's certificate. `quits` is asked while a verb waits for its
answer: once it is true the verb ends, with the code of an interrupt.
"""
from __future__ import annotations

import html
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

import numpy as np
import numpy.typing as npt

from .session import Tls, tls_files

__all__ = ["CommandError", "Job", "export", "follow", "jobs", "load_safetensors",
           "save_safetensors", "status", "stop", "submit", "watch"]

Json = Dict[str, Any]
Quits = Optional[Callable[[], bool]]
Tensors = Dict[str, npt.NDArray[Any]]
TYPES = {"F32": np.float32, "U64": np.uint64}
ENDED = ("finished", "failed", "stopped")  # states of a job that is over


# Exit status.
NOT_FOUND, UNAVAILABLE, INTERRUPTED = 3, 4, 130
LOOK_S = 0.1  # so often `quits` is asked


class CommandError(RuntimeError):
    """What the sluice command said; `code` is its exit status."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def command() -> str:
    """The sluice command: of $SLUICE_BIN, beside this file, or in PATH."""
    said = os.environ.get("SLUICE_BIN")
    beside = pathlib.Path(__file__).parent / "lib" / "sluice"
    if said:
        return str(pathlib.Path(said) / "sluice")
    if beside.exists():
        return str(beside)
    path = shutil.which("sluice")
    if path is None:
        raise FileNotFoundError("no sluice command: put it into PATH, or its folder "
                                "into SLUICE_BIN")
    return path


def main() -> None:
    """Becomes the sluice command: an installed wheel puts this into PATH as `sluice`."""
    os.execv(command(), [command(), *sys.argv[1:]])


def _words(coordinator: Optional[str], tls: Tls) -> List[str]:
    words = [command()]
    if coordinator is not None:
        words += ["--coordinator", coordinator]
    files = tls_files(tls)
    if files is not None:
        words += [f"--tls-{k}={f}" for k, f in zip(("ca", "cert", "key"), files)]
    return words


def _run(words: List[str], quits: Quits = None) -> str:
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        try:
            while True:
                try:
                    out, err = process.communicate(
                        timeout=None if quits is None else LOOK_S)
                    break
                except subprocess.TimeoutExpired:
                    if quits is not None and quits():
                        raise CommandError(INTERRUPTED, "given up") from None
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise CommandError(process.returncode, err.strip())
    return out


class Job(str):
    """A job's id, as "j-7". A notebook shows how the job goes where it shows the value."""
    coordinator: Optional[str] = None
    tls: Tls = None

    def _repr_html_(self) -> str:
        try:
            said = status(self, self.coordinator, tls=self.tls)
        except (CommandError, OSError) as error:
            return f"<b>{html.escape(self)}</b>: {html.escape(str(error))}"
        asked, counted = (int(said.get(key, 0)) for key in ("steps_asked", "steps_counted"))
        rows = [("state", said.get("state", "")), ("steps", f"{counted} of {asked}")]
        rows += [(key, f"{float(said[key]):.4g}") for key in ("loss", "accuracy")
                 if said.get(key) is not None]
        for one in said.get("evaluations", [])[-1:]:
            rows += [(f"validation {key}", f"{float(one[key]):.4g}")
                     for key in ("loss", "accuracy") if one.get(key) is not None]
        rows += [(key, said[key]) for key in ("reason", "checkpoint") if said.get(key)]
        cells = "".join(f"<tr><th>{html.escape(key)}</th><td>{html.escape(str(value))}</td>"
                        "</tr>" for key, value in rows)
        return (f"<b>{html.escape(self)} {html.escape(said.get('name', ''))}</b><br>"
                f'<progress value="{counted}" max="{asked or 1}"></progress>'
                f"<table>{cells}</table>")


def submit(spec: Json, coordinator: Optional[str] = None, *, tls: Tls = None,
           request_id: Optional[str] = None, resume: Optional[str] = None,
           weights: Optional[str] = None,
           table_weights: Optional[Mapping[str, str]] = None) -> Job:
    """Submits a job and returns its id, as "j-7". `spec` is what a YAML file says.
    Submissions with one `request_id` are one job. `weights`: a safetensors file
    of first values, which psservers can read under that path. `table_weights`: such
    files by sparse table, with its first rows, as `sluice export --table` writes."""
    job = Job(submit_once(spec, coordinator, tls=tls, request_id=request_id, resume=resume,
                          weights=weights, table_weights=table_weights)[0])
    job.coordinator, job.tls = coordinator, tls
    return job


def submit_once(spec: Json, coordinator: Optional[str] = None, *, tls: Tls = None,
                request_id: Optional[str] = None, resume: Optional[str] = None,
                weights: Optional[str] = None,
                table_weights: Optional[Mapping[str, str]] = None,
                quits: Quits = None) -> Tuple[str, bool]:
    """The same; also says whether the request had been made before."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "job.json"
        path.write_text(json.dumps(spec))
        words = _words(coordinator, tls) + ["submit", str(path), "--no-wait",
                                           "-o", "json"]
        for name, value in (("request-id", request_id), ("resume", resume),
                            ("weights", weights)):
            if value is not None:
                words.append(f"--{name}={value}")
        for table, file in (table_weights or {}).items():
            words.append(f"--table-weights={table}={file}")
        said = json.loads(_run(words, quits))
        return str(said["id"]), bool(said.get("existed"))


def run(words: List[str]) -> str:
    """What a verb that asks no coordinator prints. CommandError if it fails."""
    return _run([command(), *words])


def validate(spec: Json) -> Json:
    """The same spec with all defaults, as a job has it. CommandError says what is
    wrong with it. Nobody is asked."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "job.json"
        path.write_text(json.dumps(spec))
        whole: Json = json.loads(
            run(["validate", str(path), "-o", "json"]))
    return whole


def jobs(coordinator: Optional[str] = None, *, tls: Tls = None,
         name: Optional[str] = None, quits: Quits = None) -> List[Json]:
    """All jobs, the newest first; with `name` those of this name."""
    words = [] if name is None else ["--name", name]
    listed: List[Json] = json.loads(
        _run(_words(coordinator, tls) + ["jobs", "--all", "-o", "json", *words],
             quits)).get("jobs", [])
    return listed


def status(job: str, coordinator: Optional[str] = None, *, tls: Tls = None,
           quits: Quits = None) -> Json:
    """What `sluice status JOB -o json` says."""
    said: Json = json.loads(
        _run(_words(coordinator, tls) + ["status", job, "-o", "json"], quits))
    return said


def tables(job: str, coordinator: Optional[str] = None, *, tls: Tls = None,
           by_psserver: bool = False, quits: Quits = None) -> List[Json]:
    """The sparse tables of a job, as `sluice tables JOB -o json` lists them: each with
    its `figures`, or with `by_psserver` what each psserver has of it."""
    more = ["--by-psserver"] * by_psserver
    listed: List[Json] = json.loads(_run(
        _words(coordinator, tls) + ["tables", job, "-o", "json", *more], quits))["tables"]
    return listed


def watch(job: str, coordinator: Optional[str] = None, *,
          tls: Tls = None) -> Iterator[Json]:
    """Each status as it comes, until the job has ended; then its summary, the last, which
    has other keys (`schema_version`, `test_loss`, ...; `state` as well). CommandError if
    the job did not finish."""
    words = _words(coordinator, tls) + ["watch", job, "-o", "json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            for line in process.stdout:
                if line.startswith("{"):
                    yield json.loads(line)
        finally:
            process.terminate()
        if process.wait() not in (0, -15):
            raise CommandError(process.returncode, process.stderr.read().strip())


def stop(job: str, coordinator: Optional[str] = None, *, tls: Tls = None,
         now: bool = False, quits: Quits = None) -> None:
    """Stops a job, after a checkpoint or `now`; its checkpoints stay."""
    _run(_words(coordinator, tls) + ["stop", job] + ["--now"] * now, quits)


def export(job: str, coordinator: Optional[str] = None, *, tls: Tls = None,
           to: Optional[str] = None, table: Optional[str] = None,
           since: Optional[int] = None, quits: Quits = None) -> Tensors:
    """The parameters of the newest checkpoint, by name; also into the file `to`. With a
    sparse `table` its `ids`, of shape (rows,), and their `values`, (rows, dim); of these
    only rows that changed `since` an earlier cut, beside the ids that are `gone`."""
    of = ["--table", table] if table is not None else []
    of += ["--since", str(since)] if since is not None else []
    with tempfile.TemporaryDirectory() as folder:
        path = to or str(pathlib.Path(folder) / "out.safetensors")
        _run(_words(coordinator, tls) + ["export", job, "--to", path] + of, quits)
        return load_safetensors(path)


def follow(job: str, coordinator: Optional[str] = None, *, table: str, to: str,
           tls: Tls = None, once: bool = False, quits: Quits = None) -> None:
    """Writes each change of a sparse table into the folder `to` until the job ends, for
    readers as sluice.Feed; with `once` what is new at the last checkpoint."""
    _run(_words(coordinator, tls) + ["follow", job, "--table", table, "--to", to]
         + ["--once"] * once, quits)


# ---- safetensors: 8 bytes of length, a JSON header, the bytes

def load_safetensors(path: str) -> Tensors:
    """A file of f32 tensors, or of the ids and values of a table."""
    out: Tensors = {}
    with open(path, "rb") as f:
        data = 8 + (length := int.from_bytes(f.read(8), "little"))
        for name, entry in json.loads(f.read(length)).items():
            if name == "__metadata__":
                continue
            if entry["dtype"] not in TYPES:
                raise ValueError(f"{path}: {name} is {entry['dtype']}, not F32 or U64")
            f.seek(data + entry["data_offsets"][0])
            out[name] = np.fromfile(f, TYPES[entry["dtype"]], math.prod(
                entry["shape"])).reshape(entry["shape"])
    return out


def save_safetensors(path: str, tensors: Tensors) -> None:
    """The inverse, of uint64 and else as float32; written whole or not at all."""
    header: Json = {}
    at = 0
    tensors = {name: np.ascontiguousarray(
        t, np.uint64 if t.dtype == np.uint64 else np.float32) for name, t in tensors.items()}
    for name, tensor in tensors.items():
        header[name] = {"dtype": "U64" if tensor.dtype == np.uint64 else "F32",
                        "shape": list(tensor.shape),
                        "data_offsets": [at, at + tensor.nbytes]}
        at += tensor.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    part = f"{path}.{os.getpid()}.part"
    with open(part, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            f.write(tensor.tobytes())
    os.replace(part, path)
