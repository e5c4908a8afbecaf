"""`gmn search`: the networks nearest to a given one."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from graph_metanetworks.cli import options
from graph_metanetworks.cli.embed import embedded
from graph_metanetworks.cli.friendly import Debug, friendly_errors
from graph_metanetworks.cli.named import network_reader
from graph_metanetworks.cli.output import STANDARD, check_writable, write_text
from graph_metanetworks.cli.parts import NetworksAt
from graph_metanetworks.errors import TaskError
from graph_metanetworks.table import Table
from graph_metanetworks.tasks.embedders import identify
from graph_metanetworks.tasks.embedding_file import EMBEDDING, embedder_of, embeddings_of, read_embeddings
from graph_metanetworks.tasks.zoo_part import NETWORK
from graph_metanetworks.zoo.histogram import GROUPS, METRICS

EMBEDDINGS = ".parquet"
SHOWN = (*GROUPS, *METRICS)  # columns of the table that is printed


def search(
    run: options.Embedder,
    query: Annotated[Path, typer.Argument(help="A checkpoint; or a zoo, with --index.")],
    zoo: Annotated[
        Path,
        typer.Argument(help="Where to search: a zoo, a folder of checkpoints, or a .parquet of gmn embed."),
    ],
    index: Annotated[int | None, typer.Option(help="Index of the query in its zoo.")] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of networks to list.")] = 10,
    network: options.Network = None,
    arg: options.NetworkArgs = None,
    kwarg: options.NetworkKwargs = None,
    input: options.NetworkInputs = None,
    labels: options.Labels = None,
    key: options.Key = None,
    ignore_extra: options.IgnoreExtra = False,
    unused: options.Unused = "raise",
    json_file: options.Json = None,
    ray: options.Ray = None,
    quiet: options.Quiet = False,
    debug: Debug = False,
) -> None:
    """List the networks of a zoo whose embeddings are nearest to that of a network."""
    with friendly_errors(debug=debug):
        check_writable(json_file)
        reader = network_reader(network, arg, kwarg, input, key, ignore_extra, unused)
        wanted = _query(run, NetworksAt.find([query], reader, labels), query, index)
        there = None if zoo.suffix == EMBEDDINGS else NetworksAt.find([zoo], reader, labels)
        alone = json_file == STANDARD
        tables = embedded(run, there, ray=ray, quiet=quiet or alone) if there else _read(run, zoo)
        found = nearest(wanted, tables, top)
        if not alone:
            title = query if index is None else f"network {index} of {query}"
            typer.echo(_as_table(found, title).text(top + 1))
        if json_file:
            write_text(json_file, json.dumps(found, indent=2))
        if there:
            there.report_left_out()


def nearest(query: np.ndarray, tables: Iterator[pa.Table], top: int) -> list[dict[str, Any]]:
    """Return the rows nearest to an embedding `[d]`, with distances; memory is for `top` rows only."""
    best: list[dict[str, Any]] = []
    for table in tables:
        # differences, not products: equal networks have distance exactly 0
        distances = np.linalg.norm(embeddings_of(table).astype(np.float64) - query, axis=1)
        order = np.argsort(distances, kind="stable")[:top]
        rows = table.drop_columns([EMBEDDING]).take(pa.array(order)).to_pylist()
        pairs = zip(rows, distances[order].tolist(), strict=True)
        best = heapq.nsmallest(
            top, [*best, *({"distance": d, **row} for row, d in pairs)], key=lambda row: row["distance"]
        )
    return best


def _query(run: str, there: NetworksAt, path: Path, index: int | None) -> np.ndarray:  # [d]
    if there.candidates.zoos and index is None:
        raise TaskError(f"{path} is a zoo: choose the network to search for with --index.")
    if len(there.candidates.checkpoints) + len(there.candidates.zoos) > 1:
        raise TaskError(f"{path} has several networks: name the file of one.")
    chosen = there.at_index(index) if index is not None else there
    (table,) = embedded(run, chosen, ray=None, quiet=True)
    return embeddings_of(table)[0].astype(np.float64)


def _read(run: str, path: Path) -> Iterator[pa.Table]:
    """Read a file of embeddings."""
    tables = read_embeddings(path)
    if embedder_of(path) != identify(run):
        raise TaskError(
            f"{path} holds embeddings by another model than {run}, which cannot be compared: embed the "
            f"networks again, with gmn embed {run} ... --out FILE."
        )
    return tables


def _as_table(found: list[dict[str, Any]], query: object) -> Table:
    labels = [name for name in SHOWN if any(row.get(name) is not None for row in found)][:3]
    rows = [
        (row[NETWORK], f"{row['distance']:.4g}", *(_cell(row.get(name)) for name in labels)) for row in found
    ]
    header = ("network", "distance", *(name.replace("_", " ") for name in labels))
    return Table(f"Nearest to {query}", header, rows, right=header[1:])


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
