# SPDX-License-Identifier: Apache-2.0
"""Data sets of other tools, written once as files that workers read by number.

    python3 -m sluice.data 'events/*.parquet' shards/ --columns age price --ids user tags --label click
    python3 -m sluice.data 'photos/*.parquet' shards/ --image image --label label

reads Parquet, Arrow and Feather files, a folder of Hugging Face `datasets`
(`save_to_disk`), and CSV that may be compressed (.gz, .zst, .bz2), with pyarrow, in
batches: memory does not grow with the set. Columns become `.npz` files of float32,
images tar archives (format webdataset), and the lines for `data.train` of a job are
printed. From Python, `convert` returns them, and takes any iterable of pyarrow's
RecordBatches or Tables, too.

A Parquet file has no sample by number: its pages are compressed, and a row is spread
over as many places as it has columns. A worker of native code would unpack a whole
row group for each sample of a shuffled epoch; written out once, a sample is one read.
"""
from __future__ import annotations

import argparse
import glob
import io
import itertools
import json
import pathlib
import sys
import tarfile
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Union

import numpy as np

__all__ = ["convert"]

BATCH = 16384  # rows that are read at a time
IMAGES = {b"\xff\xd8\xff": "jpg", b"\x89PNG": "png"}  # by how a file begins
Source = Union[str, "pathlib.Path", Sequence[Any], Iterable[Any]]


# ---- reading

def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.compute  # not imported with it
        return pyarrow
    except ImportError:
        raise ImportError("sluice.data reads files with pyarrow: pip install pyarrow") from None


def _hugging_face(folder: pathlib.Path) -> List[pathlib.Path]:
    """The files of a folder that `save_to_disk` wrote, in their order."""
    splits = folder / "dataset_dict.json"
    if splits.exists():
        names = ", ".join(json.loads(splits.read_text())["splits"])
        raise ValueError(f"{folder} has several splits ({names}): name the folder of one, "
                         f"such as {folder}/{names.split(', ')[0]}")
    state = json.loads((folder / "state.json").read_text())
    if state.get("_indices_data_files"):
        raise ValueError(f"{folder} is a selection of other rows: call flatten_indices() "
                         "before save_to_disk()")
    return [folder / one["filename"] for one in state["_data_files"]]


def _files(source: Union[str, pathlib.Path]) -> List[pathlib.Path]:
    path = pathlib.Path(source)
    if path.is_dir() and ((path / "state.json").exists() or
                          (path / "dataset_dict.json").exists()):
        return _hugging_face(path)
    found = sorted(path.iterdir()) if path.is_dir() else \
        [pathlib.Path(p) for p in sorted(glob.glob(str(source)))]
    found = [p for p in found if p.is_file() and p.name[0] not in "._"]
    if not found:
        raise FileNotFoundError(f"{source}: no such file")
    return found


def _batches_of(path: pathlib.Path, wanted: Sequence[str]) -> Iterator[Any]:
    pa = _pyarrow()
    kinds = [s for s in path.suffixes if s not in (".gz", ".zst", ".bz2")]
    kind = kinds[-1] if kinds else ""
    if kind == ".parquet":
        import pyarrow.parquet
        with pyarrow.parquet.ParquetFile(path) as file:
            for name in wanted:  # one that is not there is passed over by iter_batches
                _must_have(str(path), file.schema_arrow.names, name)
            yield from file.iter_batches(BATCH, columns=list(wanted))
    elif kind in (".arrow", ".feather", ".ipc"):
        with pa.memory_map(str(path)) as mapped:
            try:
                file = pa.ipc.open_file(mapped)
                yield from (file.get_batch(i) for i in range(file.num_record_batches))
            except pa.ArrowInvalid:  # a stream, as Hugging Face writes
                mapped.seek(0)
                yield from pa.ipc.open_stream(mapped)
    elif kind in (".csv", ".tsv", ".txt"):
        import pyarrow.csv
        with pa.input_stream(str(path)) as stream:
            yield from pyarrow.csv.open_csv(
                stream, parse_options=pyarrow.csv.ParseOptions(
                    delimiter="," if kind == ".csv" else "\t"),
                convert_options=pyarrow.csv.ConvertOptions(include_columns=list(wanted)))
    else:
        raise ValueError(f"{path}: what is it? .parquet, .arrow, .feather, .ipc, .csv, .tsv "
                         "and .txt are read, and the last three compressed, too")


def _batches(source: Source, wanted: Sequence[str]) -> Iterator[Any]:
    """RecordBatches with what they are of, for errors."""
    if isinstance(source, (str, pathlib.Path)):
        source = _files(source)
    for one in source:
        if isinstance(one, (str, pathlib.Path)):
            try:
                for batch in _batches_of(pathlib.Path(one), wanted):
                    yield str(one), batch
            except _pyarrow().ArrowException as error:  # it says nothing of the file
                raise ValueError(f"{one}: {error}") from error
        else:
            parts = one.to_batches(BATCH) if hasattr(one, "to_batches") else [one]
            for batch in parts:
                yield "the data", batch


# ---- columns as arrays

def _must_have(where: str, names: Sequence[str], name: str) -> None:
    if name not in names:
        raise ValueError(f"{where} has no column '{name}': it has {', '.join(names)}")


class _Column:
    """Column `name` of a batch of `where`, which begins at row `first` there."""

    def __init__(self, where: str, first: int, batch: Any, name: str):
        self.where, self.first, self.name = where, first, name
        _must_have(where, batch.schema.names, name)
        self.values = batch.column(name)
        types = _pyarrow().types
        if types.is_dictionary(self.values.type):
            self.values = self.values.dictionary_decode()
        self.is_list = types.is_list(self.values.type) or \
            types.is_large_list(self.values.type) or types.is_fixed_size_list(self.values.type)

    def wrong(self, what: str, row: int = 0) -> ValueError:
        return ValueError(f"{self.where}: row {self.first + row}: column '{self.name}' {what}")

    def filled(self, fill: Optional[float]) -> Any:
        """The values, with `fill` for those that are missing."""
        if self.values.null_count == 0:
            return self.values
        row = self.values.is_null().to_pylist().index(True)
        if fill is None or self.is_list:
            raise self.wrong("has no value; say with `fill` what stands for none", row)
        return self.values.fill_null(fill)

    def floats(self, fill: Optional[float]) -> Any:
        """As float32 of shape (rows,) or, of lists of one length, (rows, length)."""
        pa, values = _pyarrow(), self.filled(fill)
        rows = len(values)
        flat = values.flatten() if self.is_list else values
        kind = flat.type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or
                pa.types.is_boolean(kind) or pa.types.is_decimal(kind)):
            raise self.wrong(f"is {kind}, and numbers are read; a column of text can be one of "
                             "`ids`, or the label with `classes`")
        if flat.null_count:
            raise self.wrong("has a list with a missing element")
        if pa.types.is_decimal(kind):
            flat = flat.cast(pa.float64())
        out = flat.to_numpy(zero_copy_only=False).astype(np.float32)
        if not np.isfinite(out).all():
            raise self.wrong("has a number that is not finite",
                             int(np.argmin(np.isfinite(out))) // max(1, len(out) // rows))
        if not self.is_list:
            return out
        lengths = pa.compute.list_value_length(values).to_numpy(zero_copy_only=False)
        if rows and (lengths != lengths[0]).any():
            raise self.wrong(f"has {lengths[0]} elements in one row and others in another; lists "
                             "of several lengths can be one of `ids`",
                             int(np.argmax(lengths != lengths[0])))
        return out.reshape(rows, -1)

    def classes(self, names: Optional[Sequence[str]]) -> Any:
        """As numbers of classes."""
        if names is None:
            found = self.floats(None)
            return found.astype(np.int64) if (found == np.floor(found)).all() else found
        numbers = {name: i for i, name in enumerate(names)}
        texts = self.filled(None).to_pylist()
        for row, text in enumerate(texts):
            if text not in numbers:
                raise self.wrong(f"is {text!r}, which is none of the classes", row)
        return np.array([numbers[text] for text in texts], np.int64)

    def bags(self) -> Dict[str, Any]:
        """As members of an npz: whole numbers, with offsets where a row has a list. Text is
        hashed as the workers hash that of a csv (`hash: xxh64`)."""
        pa, values = _pyarrow(), self.values
        found = {}
        flat = values
        if self.is_list or values.null_count:
            lengths = pa.compute.fill_null(pa.compute.list_value_length(values), 0) \
                if self.is_list else values.is_valid().cast(pa.int64())
            found[f"{self.name}.offsets"] = np.concatenate(
                ([0], np.cumsum(lengths.to_numpy(zero_copy_only=False)))).astype(np.int64)
            flat = values.flatten() if self.is_list else values.drop_null()
        if flat.null_count:
            raise self.wrong("has a list with a missing element")
        if pa.types.is_string(flat.type) or pa.types.is_large_string(flat.type):
            found[self.name] = np.array([_xxh64(text) for text in flat.to_pylist()],
                                        np.uint64).astype(np.int64)
        elif pa.types.is_integer(flat.type):
            found[self.name] = flat.to_numpy(zero_copy_only=False).astype(np.int64)
        else:
            raise self.wrong(f"is {flat.type}; ids are whole numbers or text")
        return found


def _xxh64(text: str) -> int:
    try:
        import xxhash
    except ImportError:
        raise ImportError("ids of text are hashed with xxhash: pip install xxhash") from None
    return int(xxhash.xxh64_intdigest(text.encode()))


# ---- writing

class _Shards:
    """Files of at least `rows` samples in the folder `out`, one after the other."""

    kind, ending = "", ""  # a data source's format, and how its files end

    def __init__(self, out: pathlib.Path, options: argparse.Namespace):
        self.out, self.o = out, options
        self.parts: List[Any] = []  # of the next file
        self.held = self.shards = self.rows = 0

    def source(self) -> Dict[str, Any]:
        return {"format": self.kind, "x": str(self.out / f"part-*.{self.ending}")}

    def part(self, where: str, first: int, batch: Any) -> Any:
        raise NotImplementedError

    def write(self, file: Any) -> None:
        raise NotImplementedError

    def add(self, where: str, first: int, batch: Any) -> None:
        self.parts.append(self.part(where, first, batch))
        self.held += batch.num_rows
        if self.held >= self.o.rows:
            self.end()

    def end(self) -> None:
        if not self.held:
            return
        _whole(self.out / f"part-{self.shards:05}.{self.ending}", self.write)
        self.rows, self.shards = self.rows + self.held, self.shards + 1
        self.parts, self.held = [], 0


class _Npz(_Shards):
    """Columns: x, the label y, and ids by their names."""

    kind, ending = "npz", "npz"

    def source(self) -> Dict[str, Any]:
        ids = {"ids": list(self.o.ids)} if self.o.ids else {}
        return {**super().source(), **ids}

    def part(self, where: str, first: int, batch: Any) -> Any:
        def column(name: str) -> _Column:
            return _Column(where, first, batch, name)
        found = [column(name).floats(self.o.fill) for name in self.o.columns]
        found = [a.reshape(len(a), -1) for a in found] or [np.zeros((batch.num_rows, 0))]
        part = {"x": np.concatenate(found, axis=1).astype(np.float32),
                "y": column(self.o.label).classes(self.o.classes)}
        for name in self.o.ids:
            part.update(column(name).bags())
        return part

    def write(self, file: Any) -> None:
        np.savez(file, **{name: _joined(name, self.parts)
                          for name in set().union(*self.parts)})


def _offsets(part: Dict[str, Any], name: str) -> Any:
    found = part.get(f"{name}.offsets")
    return np.arange(len(part[name]) + 1) if found is None else found


def _joined(name: str, parts: List[Dict[str, Any]]) -> Any:
    """The arrays of several batches; offsets go on, and where only some batches have them the
    others' rows are bags of one id."""
    if not name.endswith(".offsets"):
        shapes = {p[name].shape[1:] for p in parts}
        if len(shapes) > 1:
            raise ValueError(f"'{name}' has {' and '.join(map(str, sorted(shapes)))} numbers in "
                             "a row, in different parts of the data")
        return np.concatenate([p[name] for p in parts])
    base, found = 0, [np.zeros(1, np.int64)]
    for part in parts:
        one = _offsets(part, name.removesuffix(".offsets"))
        found.append(one[1:] + base)
        base += int(one[-1])
    return np.concatenate(found)


class _Tar(_Shards):
    """Archives of images, each with its class."""

    kind, ending = "webdataset", "tar"

    def part(self, where: str, first: int, batch: Any) -> Any:
        column, members = _Column(where, first, batch, self.o.image), []
        labels = _Column(where, first, batch, self.o.label).classes(self.o.classes)
        for row, one in enumerate(column.filled(None).to_pylist()):
            data = one.get("bytes") if isinstance(one, dict) else one
            if not isinstance(data, bytes):
                raise column.wrong("is no image: bytes, or a struct with `bytes`, are read", row)
            kind = next((k for head, k in IMAGES.items() if data.startswith(head)), None)
            if kind is None:
                raise column.wrong("is neither JPEG nor PNG", row)
            members.append((kind, data, labels[row]))
        return members

    def write(self, file: Any) -> None:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            members = itertools.chain.from_iterable(self.parts)
            for number, (kind, data, label) in enumerate(members, self.rows):
                for ending, body in ((kind, data), ("cls", f"{label}\n".encode())):
                    info = tarfile.TarInfo(f"{number:09}.{ending}")
                    info.size = len(body)
                    tar.addfile(info, io.BytesIO(body))


def _whole(path: pathlib.Path, write: Any) -> None:
    """Writes a file that is there whole or not at all."""
    half = path.with_name(f".{path.name}.half")
    with open(half, "wb") as f:
        write(f)
    half.replace(path)


def _empty_folder(out: pathlib.Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    there = next((p for p in sorted(out.iterdir()) if p.name.startswith("part-")), None)
    if there:
        raise FileExistsError(f"{there} is there already: a job would read it, too. Name a new "
                              "folder, or remove it")


def convert(source: Source, out: Union[str, pathlib.Path], *, label: str,
            columns: Sequence[str] = (), ids: Sequence[str] = (), image: Optional[str] = None,
            classes: Optional[Sequence[str]] = None, fill: Optional[float] = None,
            rows: int = 65536) -> Dict[str, Any]:
    """Writes the rows of `source` to files in the folder `out`, and returns what a job's
    `data.train` says of them, with the absolute path.

    source   a path, a pattern, a folder, several of these, or RecordBatches or Tables
    label    the column of the label: a number; or text, if `classes` names all, in order
    columns  the dense features, in this order: numbers, or lists of one length
    ids      columns of ids for tables: whole numbers or text, one or a list in a row
    image    instead of columns and ids: a column of JPEG or PNG files
    fill     stands for a number of `columns` that is missing; without it that is refused
    rows     samples of a file, at least

    ValueError names file, row and column; files that are complete stay. Needs pyarrow, and
    for ids of text xxhash.
    """
    if bool(image) == bool(columns or ids):
        raise ValueError("name the columns of features (columns, ids), or that of the image")
    if rows < 1:
        raise ValueError("rows: a file has at least one sample")
    options = argparse.Namespace(label=label, columns=columns, ids=ids, image=image,
                                 classes=classes, fill=fill, rows=rows)
    folder = pathlib.Path(out).absolute()
    _empty_folder(folder)
    shards = (_Tar if image else _Npz)(folder, options)
    wanted = list(dict.fromkeys([*columns, *ids, *([image] if image else []), label]))
    before, first = "", 0
    for where, batch in _batches(source, wanted):
        first = first if where == before else 0
        shards.add(where, first, batch)
        before, first = where, first + batch.num_rows
        if sys.stderr.isatty():
            print(f"\r{shards.rows + shards.held} rows", end="", file=sys.stderr)
    shards.end()
    if not shards.rows:
        raise ValueError("the data has no row")
    return shards.source()


def main(words: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m sluice.data", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", nargs="+", help="files, patterns, or folders")
    parser.add_argument("out", help="the folder for the new files")
    parser.add_argument("--label", required=True, metavar="COLUMN")
    parser.add_argument("--columns", nargs="+", default=[], metavar="COLUMN",
                        help="numbers, or lists of one length: the model's input, in this order")
    parser.add_argument("--ids", nargs="+", default=[], metavar="COLUMN",
                        help="whole numbers or text, one or a list in a row: for tables")
    parser.add_argument("--image", metavar="COLUMN", help="JPEG or PNG files")
    parser.add_argument("--classes", nargs="+", metavar="NAME",
                        help="the texts of the label, in the order of their numbers")
    parser.add_argument("--fill", type=float, metavar="NUMBER",
                        help="for a number that is missing")
    parser.add_argument("--rows", type=int, default=65536, help="samples of a file, at least")
    said = vars(parser.parse_args(words))
    try:
        paths = [path for source in said.pop("source") for path in _files(source)]
        made = convert(paths, said.pop("out"), **said)
    except (ImportError, OSError, ValueError) as error:
        print(f"sluice.data: {error}", file=sys.stderr)
        return 1
    print(json.dumps({"train": made}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
