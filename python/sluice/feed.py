# SPDX-License-Identifier: Apache-2.0
"""The rows of a sparse table, from a folder that `sluice follow` writes.

replay  the table of the last cut
Feed    its changes, again and again, for a program that serves it
digest  what the folder says of a table, to compare with

The folder may be copied or mounted: a reader needs no cluster, and no library but
NumPy. docs/tables.md has the format.
"""
from __future__ import annotations

import json
import pathlib
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

import numpy as np
import numpy.typing as npt

from .client import load_safetensors

__all__ = ["Change", "Feed", "digest", "replay"]

Ids = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.float32]
Json = Dict[str, Any]


class Change(NamedTuple):
    """What became of a table at `cut`: `values[i]`, of shape (n, dim), is the row of
    `ids[i]` from now on, and ids in `gone` have none any more. `whole`: these rows are
    all of the table, and what a reader had before goes. The table then has so many
    `rows`, with this `digest`."""
    cut: int
    whole: bool
    ids: Ids
    values: Rows
    gone: Ids
    rows: int
    digest: int


class Feed:
    """A reader of the folder. `cut` is that of the last change that was taken; a reader
    that begins with a table of its own sets it."""

    def __init__(self, folder: Union[str, pathlib.Path]) -> None:
        self.folder = pathlib.Path(folder)
        self.cut: Optional[int] = None

    def _files(self) -> List[Json]:
        index = json.loads((self.folder / "index.json").read_text())
        if index["format"] != 1:
            raise ValueError(f"{self.folder}: format {index['format']}, and this version "
                             "reads 1")
        files: List[Json] = index["files"]
        return files

    def _due(self, files: List[Json]) -> List[Json]:
        """The files to read: deltas from the reader's cut on, or the last base and all
        behind it."""
        if self.cut == files[-1]["cut"]:
            return []
        for i, file in enumerate(files):
            if self.cut is not None and file.get("from") == self.cut:
                return [f for f in files[i:] if "from" in f]
        bases = [i for i, file in enumerate(files) if "from" not in file]
        return files[bases[-1]:]

    def _read(self, file: Json) -> Change:
        tensors = load_safetensors(str(self.folder / file["file"]))
        whole = "from" not in file
        return Change(file["cut"], whole, tensors["ids"], tensors["values"],
                      np.empty(0, np.uint64) if whole else tensors["gone"], file["rows"],
                      int(file["digest"], 16))

    def changes(self) -> Iterator[Change]:
        """What is new since the last change that was taken; nothing, if nothing is. A
        file may go while it is looked for: then a newer index says what is there."""
        while True:
            files = self._files()
            try:
                for file in self._due(files):
                    change = self._read(file)
                    self.cut = change.cut
                    yield change
                return
            except FileNotFoundError:
                if files == self._files():
                    raise


def _mix(x: Ids) -> Ids:
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def digest(ids: npt.ArrayLike, values: npt.ArrayLike) -> int:
    """The sum over all rows, modulo 2^64, of a hash of id and values: it does not depend
    on their order, and a row that changes changes it by the difference of its two."""
    numbers, rows = np.asarray(ids, np.uint64), np.asarray(values, "<f4")
    words = np.zeros((len(rows), (rows.shape[1] + 1) // 2 * 2), "<f4")
    words[:, :rows.shape[1]] = rows
    of = _mix(numbers)
    for column in words.view("<u8").T:
        of = _mix(of ^ column)
    return int(of.sum(dtype=np.uint64))


def replay(folder: Union[str, pathlib.Path]) -> Tuple[Ids, Rows]:
    """The table of the last cut: its ids, and values of shape (rows, dim); by rising id.
    ValueError: the files are not what the index says."""
    newest: List[Change] = []
    for change in Feed(folder).changes():
        newest = [change] if change.whole else [change, *newest]
    ids = np.concatenate([part for c in newest for part in (c.ids, c.gone)])
    there = np.concatenate([np.repeat([True, False], [len(c.ids), len(c.gone)])
                            for c in newest])
    values = np.concatenate([c.values for c in newest])
    numbers, first = np.unique(ids, return_index=True)  # what was said last
    kept = there[first]
    numbers, rows = numbers[kept], values[(np.cumsum(there) - 1)[first[kept]]]
    if (len(numbers), digest(numbers, rows)) != (newest[0].rows, newest[0].digest):
        raise ValueError(f"{folder}: its files are not the table of cut {newest[0].cut} "
                         "that index.json tells of")
    return numbers, rows
