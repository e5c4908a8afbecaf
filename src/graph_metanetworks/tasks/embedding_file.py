"""Files of embeddings: one row per network, with its labels. Parquet, CSV or NPZ, by the suffix."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
from torch import Tensor

from graph_metanetworks.errors import TaskError
from graph_metanetworks.storage.atomic import TEMPORARY, disk_errors

EMBEDDING = "embedding"  # the column, a list of d numbers
EMBEDDER = b"embedder"  # metadata: which embedder it was


def with_embeddings(labels: pa.Table, embeddings: Tensor) -> pa.Table:
    """Append embeddings `[n, d]` to a table of labels."""
    flat = pa.array(embeddings.contiguous().view(-1).numpy(), pa.float32())
    column = pa.FixedSizeListArray.from_arrays(flat, embeddings.shape[1])
    if EMBEDDING in labels.column_names:
        labels = labels.drop_columns([EMBEDDING])
    return labels.append_column(EMBEDDING, column)


def embeddings_of(table: pa.Table) -> np.ndarray:  # [n, d]
    """Return the embeddings of a table.

    >>> import torch
    >>> embeddings_of(with_embeddings(pa.table({"network": ["a", "b"]}), torch.ones(2, 3))).shape
    (2, 3)
    """
    column = table[EMBEDDING].combine_chunks()
    return column.flatten().to_numpy().reshape(len(table), -1)


def aligned(table: pa.Table, columns: pa.Schema) -> pa.Table:
    """Give a table the columns of a schema, and missing ones empty; the embedding comes last."""
    arrays = {
        field.name: table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in columns
    }
    return pa.table({**arrays, EMBEDDING: table[EMBEDDING]})


class Writer(Protocol):
    """Writes tables of the same columns to a file, one after the other."""

    def write(self, table: pa.Table, /) -> Any: ...
    def close(self) -> None: ...


class EmbeddingFile:
    """A file of embeddings that is being written. It appears at its name when all is written."""

    def __init__(self, path: Path, *, embedder: str) -> None:
        self.path, self.temporary = path, path.with_name(path.name + TEMPORARY)
        self.writer: Writer = WRITERS[path.suffix](self.temporary, embedder)

    def write(self, table: pa.Table) -> None:
        with disk_errors(self.path):
            self.writer.write(table)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: Any) -> None:
        with disk_errors(self.path):
            self.writer.close()
            if failure is None and self.temporary.exists():
                self.temporary.replace(self.path)
            self.temporary.unlink(missing_ok=True)


class _Parquet:
    """A row group for each table."""

    def __init__(self, path: Path, embedder: str) -> None:
        self.path, self.embedder, self.file = path, embedder, None

    def write(self, table: pa.Table) -> None:
        table = table.replace_schema_metadata({EMBEDDER: self.embedder})
        if self.file is None:
            self.file = pq.ParquetWriter(self.path, table.schema)
        self.file.write_table(table)

    def close(self) -> None:
        if self.file is not None:
            self.file.close()


class _Csv:
    """A column for each number of an embedding; lists among the labels are written as JSON."""

    def __init__(self, path: Path, embedder: str) -> None:
        self.path, self.file = path, None

    def write(self, table: pa.Table) -> None:
        columns: dict[str, Any] = {}
        for name in table.column_names:
            if name == EMBEDDING:
                numbers = embeddings_of(table)
                columns |= {f"{EMBEDDING}_{i}": numbers[:, i] for i in range(numbers.shape[1])}
            elif pa.types.is_nested(table[name].type):
                columns[name] = [json.dumps(value) for value in table[name].to_pylist()]
            else:
                columns[name] = table[name]
        flat = pa.table(columns)
        if self.file is None:
            self.file = pc.CSVWriter(self.path, flat.schema)
        self.file.write_table(flat)

    def close(self) -> None:
        if self.file is not None:
            self.file.close()


class _Npz:
    """An array for each column. All of them are kept in memory until the end."""

    def __init__(self, path: Path, embedder: str) -> None:
        self.path, self.tables = path, list[pa.Table]()

    def write(self, table: pa.Table) -> None:
        self.tables.append(table)

    def close(self) -> None:
        if not self.tables:
            return
        table, self.tables = pa.concat_tables(self.tables), []
        arrays = {EMBEDDING: embeddings_of(table)}
        for name in table.column_names:
            if name != EMBEDDING:
                values = table[name].to_numpy()
                arrays[name] = values.astype(str) if values.dtype == object else values
        with open(self.path, "wb") as file:
            np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]


WRITERS = {".parquet": _Parquet, ".csv": _Csv, ".npz": _Npz}


def check_suffix(path: Path) -> None:
    """Refuse a name that does not say which format to write."""
    if path.suffix not in WRITERS:
        raise TaskError(f"cannot write embeddings to '{path}': the name must end in {', '.join(WRITERS)}.")


def read_embeddings(path: Path) -> Iterator[pa.Table]:
    """Read a Parquet file of embeddings, one row group after the other."""
    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise TaskError(f"{path} is no Parquet file of embeddings: {error}.") from error
    if EMBEDDING not in file.schema_arrow.names:
        raise TaskError(f"{path} has no column '{EMBEDDING}': gmn embed writes files that have one.")
    return (file.read_row_group(group) for group in range(file.num_row_groups))


def embedder_of(path: Path) -> str:
    """Return which embedder wrote a Parquet file."""
    return (pq.read_schema(path).metadata or {}).get(EMBEDDER, b"").decode()
