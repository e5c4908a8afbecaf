"""`gmn embed`: networks as vectors, in a file, and as a map."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import torch
import typer

from graph_metanetworks.cli import options
from graph_metanetworks.cli.friendly import Debug, friendly_errors
from graph_metanetworks.cli.named import network_reader
from graph_metanetworks.cli.output import check_writable
from graph_metanetworks.cli.parts import NetworksAt, Part, shown_parts
from graph_metanetworks.console import say
from graph_metanetworks.errors import TaskError
from graph_metanetworks.extras import optional_imports
from graph_metanetworks.plot.formats import check_suffix as check_picture
from graph_metanetworks.tasks.embedders import UNTRAINED, Embedder, find_embedder, identify, local
from graph_metanetworks.tasks.embedding_file import (
    EmbeddingFile,
    aligned,
    check_suffix,
    embeddings_of,
    with_embeddings,
)
from graph_metanetworks.tasks.zoo_part import Applied
from graph_metanetworks.zoo.histogram import GROUPS, METRICS


def embed(
    run: options.Embedder,
    networks: options.Paths,
    out: Annotated[Path, typer.Option(help="File of embeddings: .parquet, .csv or .npz.")],
    network: options.Network = None,
    arg: options.NetworkArgs = None,
    kwarg: options.NetworkKwargs = None,
    input: options.NetworkInputs = None,
    labels: options.Labels = None,
    key: options.Key = None,
    ignore_extra: options.IgnoreExtra = False,
    unused: options.Unused = "raise",
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw a map (principal components) to .png, .svg or .pdf."),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Column that colours the map; by default the accuracy or the family.")
    ] = None,
    ray: options.Ray = None,
    quiet: options.Quiet = False,
    debug: Debug = False,
) -> None:
    """Embed networks: the representation before the last layer of a model, equal up to symmetries."""
    with friendly_errors(debug=debug):
        check_suffix(out)
        if plot is not None:
            check_picture(plot)
        check_writable(out, plot, new=True)
        reader = network_reader(network, arg, kwarg, input, key, ignore_extra, unused)
        there = NetworksAt.find(networks, reader, labels)
        colour = _label(there.label_columns(), label)
        count, points, values = 0, list[np.ndarray](), list[object]()
        with EmbeddingFile(out, embedder=identify(run)) as file:
            for table in embedded(run, there, ray=ray, quiet=quiet):
                file.write(table)
                count += len(table)
                if plot is not None:
                    points.append(embeddings_of(table))
                    values += table[colour].to_pylist() if colour else ()
        say(f"embedded {count:,} network{'' if count == 1 else 's'}: wrote {out}", "green")
        if plot is not None:
            _draw(plot, np.concatenate(points), values, colour)
        there.report_left_out()


@dataclass(frozen=True)
class Embed:
    """Embed the networks of a part. Every process loads the embedder once."""

    run: str

    def __call__(self, part: Part) -> Applied[torch.Tensor]:
        return part.apply(lambda batch: _embedder(self.run).embed(batch))


@cache
def _embedder(run: str) -> Embedder:
    return find_embedder(run)


def embedded(run: str, networks: NetworksAt, *, ray: str | None, quiet: bool) -> Iterator[pa.Table]:
    """Yield tables of labels and embeddings, some networks at a time."""
    _embedder.cache_clear()
    find_embedder(run)  # an error is found before work is shared out
    columns, found = networks.label_columns(), False
    work = Embed(run if run == UNTRAINED else str(local(run).resolve()))
    for part in shown_parts(work, networks, "embedding", ray=ray, quiet=quiet):
        if part.results:
            found = True
            yield aligned(with_embeddings(part.labels, torch.stack(part.results)), columns)
    networks.require(found, "embed")


def _label(columns: pa.Schema, requested: str | None) -> str | None:
    """Return the column that colours the map."""
    if requested is not None and requested not in columns.names:
        raise TaskError(f"there is no --label '{requested}'; the columns are {', '.join(columns.names)}.")
    known = (name for name in (*METRICS, *GROUPS) if name in columns.names)
    return requested or next(known, None)


def _draw(path: Path, points: np.ndarray, values: Sequence[object], label: str | None) -> None:
    with optional_imports():  # it imports matplotlib
        from graph_metanetworks.plot.embedding_map import draw_map
    if len(points) < 2:
        raise TaskError("a map needs at least two networks.")
    say(f"drew {draw_map(points, path, values=values or None, label=label or '')}", "green")
