"""Tables of labels: CSV, Parquet or JSON, with a row for each file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from graph_metanetworks.checkpoints.checkpoint import listed
from graph_metanetworks.errors import ZooError
from graph_metanetworks.storage import checksum

FORMATS = (".csv", ".csv.gz", ".tsv", ".parquet", ".json", ".jsonl")
Row = dict[str, bool | int | float | str]


@dataclass(frozen=True, eq=False)
class Labels:
    """The rows of a table, and where they come from."""

    rows: Sequence[Mapping[str, Any]]
    source: str
    checksum: str

    @classmethod
    def read(cls, labels: Any) -> Labels:
        """Read the table of a file; or take a table, a data frame, rows, or labels by file name."""
        if isinstance(labels, str | Path):
            path = Path(labels)
            return cls(_rows_of_file(path), str(path.resolve()), checksum.of_file(path))
        rows = _rows_of(labels)
        digest = checksum.of_bytes(json.dumps(rows, default=str, sort_keys=True).encode())
        return cls(rows, f"a {type(labels).__name__}", digest)

    def by_file(
        self, files: Sequence[str], *, column: str | None = None, reserved: Iterable[str] = ()
    ) -> dict[str, Row]:
        """Return the row of each file that has one.

        Args:
            column: which names the files; by default the one that names most of them.
            reserved: names of columns to which an underscore is added, because a zoo has its own.
        """
        known = _names(files)
        column = column or self._file_column(known)
        found: dict[str, Row] = {}
        for row in self.rows:
            file = known.get(_key(row.get(column)))
            if file is None:
                continue
            if file in found:
                raise ZooError(
                    f"{self.source} has several rows for {file} in the column '{column}': keep one of them, "
                    "or name the column of the files with --file-column."
                )
            found[file] = _plain(row, column, set(reserved))
        return found

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def _file_column(self, known: Mapping[str, str]) -> str:
        values = {name: {_key(row.get(name)) for row in self.rows} for name in self.columns}
        hits = {name: len({known[value] for value in own if value in known}) for name, own in values.items()}
        best = max(hits, key=lambda name: hits[name], default=None)
        if best is None or not hits[best]:
            example = next(iter(known.values()), "a.pt")
            raise ZooError(
                f"no column of {self.source} names the checkpoints, such as {example}; its columns are "
                f"{listed(self.columns)}. Add one with the file names, or name it with --file-column."
            )
        return best


def _names(files: Sequence[str]) -> dict[str, str]:
    """Return the files by everything that may be meant by them, if it is unique: path, name, stem, folder.

    >>> _names(["a/1.pt", "a/2.pt"])["2"], "a" in _names(["a/1.pt", "a/2.pt"])
    ('a/2.pt', False)
    """
    keys: dict[str, set[str]] = {}
    for file in files:
        path = PurePosixPath(file)
        stems = (path.name, path.stem, path.name.partition(".")[0], "")  # the last stands for the folder
        names = {
            str(PurePosixPath(*path.parts[start:-1], stem))
            for start in range(len(path.parts))
            for stem in stems
        }
        for name in names:
            keys.setdefault(name, set()).add(file)
    exact = {file: file for file in files}
    return {name: next(iter(own)) for name, own in keys.items() if len(own) == 1 and name != "."} | exact


def _key(value: Any) -> str:
    """Return a file name as `_names` lists it.

    >>> _key("./a/1.pt"), _key(7)
    ('a/1.pt', '7')
    """
    return "" if value is None else str(PurePosixPath(str(value).strip().replace("\\", "/")))


def _plain(row: Mapping[str, Any], file_column: str, reserved: set[str]) -> Row:
    """Return the labels of a row: plain values under names that a zoo can use."""
    values: Row = {}
    for name, value in row.items():
        if not name or name == file_column or value is None:  # pandas writes its index without a name
            continue
        values[f"{name}_" if name in reserved else name] = (
            value if isinstance(value, bool | int | float | str) else str(value)
        )
    return values


def _rows_of_file(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        raise ZooError(f"there is no table '{path}'.")
    name = path.name.lower()
    try:
        if name.endswith((".csv", ".csv.gz")):
            return csv.read_csv(path).to_pylist()
        if name.endswith(".tsv"):
            return csv.read_csv(path, parse_options=csv.ParseOptions(delimiter="\t")).to_pylist()
        if name.endswith(".parquet"):
            return pq.read_table(path).to_pylist()
        if name.endswith(".jsonl"):
            return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
        if name.endswith(".json"):
            return _rows_of(json.loads(path.read_text()))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ZooError(f"{path} cannot be read as a table: {error}") from error
    raise ZooError(f"{path} is no table: its name must end in {', '.join(FORMATS)}.")


def _rows_of(labels: Any) -> list[dict[str, Any]]:
    if isinstance(labels, pa.Table):
        rows = labels.to_pylist()
    elif hasattr(labels, "to_dict") and hasattr(labels, "columns"):  # a data frame of pandas
        rows = pa.Table.from_pandas(labels, preserve_index=False).to_pylist()
    elif isinstance(labels, Mapping):
        rows = [{"file": file, **_named(value)} for file, value in labels.items()]
    else:
        rows = list(labels)
    if not all(isinstance(row, Mapping) for row in rows):
        raise ZooError("labels are a table, a list of rows, or a dictionary by file name.")
    return [dict(row) for row in rows]


def _named(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {"label": value}
