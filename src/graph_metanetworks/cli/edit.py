"""`gmn edit`: edit INRs with a run of the task editing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import typer
from safetensors.torch import save

from graph_metanetworks.checkpoints.read import open_checkpoint
from graph_metanetworks.cli import options
from graph_metanetworks.cli.friendly import Debug, friendly_errors
from graph_metanetworks.cli.named import network_reader
from graph_metanetworks.cli.output import check_writable
from graph_metanetworks.console import say
from graph_metanetworks.errors import TaskError, ZooError
from graph_metanetworks.extras import optional_imports
from graph_metanetworks.graph.batch import Batch, collate
from graph_metanetworks.plot.formats import check_suffix
from graph_metanetworks.storage.atomic import write_durably
from graph_metanetworks.tasks.editing.data import Canvas
from graph_metanetworks.tasks.editing.runner import EditRunner, Pictures, unstacked
from graph_metanetworks.tasks.loading import load
from graph_metanetworks.tasks.traced_zoo import TracedZoo
from graph_metanetworks.trace.tracer import trace
from graph_metanetworks.zoo.description import NAME
from graph_metanetworks.zoo.inr.siren import Siren, SirenArchitecture
from graph_metanetworks.zoo.zoo import Zoo

TOGETHER = 32  # networks
SHOWN = 10  # columns of a picture
FILE = ".safetensors"


@dataclass(frozen=True, eq=False)
class Inrs:
    """The networks to edit, some at a time, and where they are rendered."""

    names: list[str]
    batches: Iterator[Batch]
    canvas: Canvas


def edit(
    run: Annotated[Path, typer.Argument(help="Folder of a run of gmn train editing.")],
    networks: Annotated[Path, typer.Argument(metavar="FILE_OR_ZOO", help="An INR, or a zoo of them.")],
    out: Annotated[
        Path,
        typer.Option(help=f"File of the edited network, *{FILE}; for a zoo, a new folder of such files."),
    ],
    picture: Annotated[
        Path | None,
        typer.Option(help="Draw INR, edited INR and target to .png, .svg or .pdf, of a zoo the first ten."),
    ] = None,
    index: Annotated[int | None, typer.Option(help="Edit only the network of a zoo with this index.")] = None,
    network: options.Network = None,
    arg: options.NetworkArgs = None,
    kwarg: options.NetworkKwargs = None,
    key: options.Key = None,
    omega: Annotated[
        float | None, typer.Option(help="Frequency of a SIREN in a file; by default as in the run's zoo.")
    ] = None,
    output_offset: Annotated[
        float | None, typer.Option(help="What it adds to its output; by default as in the run's zoo.")
    ] = None,
    order: Annotated[
        Literal["yx", "xy"] | None, typer.Option(help="Its coordinates; by default as in the run's zoo.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Edit INRs: write weights whose image is dilated, or has more contrast, as the run has learned."""
    with friendly_errors(debug=debug):
        if picture is not None:
            check_suffix(picture)
        check_writable(out, picture, new=True)
        editor = load(run)
        if not isinstance(editor, EditRunner):
            raise TaskError(f"{run} is a run of the task {editor.task.name}: gmn edit needs one of editing.")
        given = {"omega": omega, "output_offset": output_offset, "order": order}
        changed = {name: value for name, value in given.items() if value is not None}
        if (networks / NAME).is_file():
            if changed or network:
                raise TaskError(
                    "a zoo knows its networks and conventions: leave out --network, --omega, ... ."
                )
            inrs = _of_zoo(editor, networks, index)
        elif index is not None:
            raise TaskError("--index is for the networks of a zoo.")
        else:
            canvas = Canvas(replace(editor.canvas.conventions, **changed))
            inrs = _of_file(networks, canvas, (network, arg, kwarg, None, key, False))
        if out.suffix == FILE and len(inrs.names) > 1:
            raise TaskError(
                f"{networks} has {len(inrs.names):,} networks, which do not fit into one file: choose one "
                "with --index, or name a folder with --out."
            )
        _write(editor, inrs, out, picture)


def _of_zoo(editor: EditRunner, folder: Path, index: int | None) -> Inrs:
    zoo = Zoo.open(folder)
    editor.require_same_conventions(zoo)
    indices = zoo.table["index"].to_pylist()
    if index is not None:
        if index not in indices:
            raise TaskError(
                f"{folder} has no network {index}: indices go from {min(indices)} to {max(indices)}."
            )
        zoo = zoo[[indices.index(index)]]
    traced = TracedZoo(zoo)
    usable = traced.finite.nonzero()[0]
    if not len(usable):
        raise ZooError(f"{folder} has no network with finite weights.")
    if len(usable) < len(traced):
        say(f"left out {len(traced) - len(usable):,} networks: their weights are NaN or infinite.", "yellow")
    parts = (usable[start : start + TOGETHER] for start in range(0, len(usable), TOGETHER))
    names = [str(zoo[int(position)].index) for position in usable]
    return Inrs(names, (traced.batch(part) for part in parts), editor.canvas)


def _of_file(path: Path, canvas: Canvas, described: tuple[Any, ...]) -> Inrs:
    """Read the network of a file: a SIREN of the canvas's conventions, unless a builder is named."""
    builder, *_, key, _ = described
    if builder is not None:
        saved = network_reader(*described).read(path)
        graph, weights = saved.trace(), saved.state_dict
    else:
        weights = {name: value.float() for name, value in open_checkpoint(path, key=key).plain().items()}
        try:
            architecture = SirenArchitecture.of(weights)
        except ValueError as error:
            raise TaskError(
                f"{path}: {error}. Name what builds another INR, --network my_inr.py:build."
            ) from error
        siren = Siren(architecture, canvas.conventions)
        graph = trace(siren, torch.zeros(1, architecture.inputs))
    return Inrs([path.stem], iter([collate([(graph, weights)], names=[str(path)])]), canvas)


def _write(editor: EditRunner, inrs: Inrs, out: Path, picture: Path | None) -> None:
    single, names = out.suffix == FILE, iter(inrs.names)
    shown: list[Pictures] = []
    for number, batch in enumerate(inrs.batches):
        edited = editor.edit(batch)
        if picture is not None and number * TOGETHER < SHOWN:
            shown.append(editor.pictures(batch, edited, inrs.canvas))
        if not (single or out.exists()):  # the first batch went well
            out.mkdir()
        for weights in unstacked(edited):
            name = next(names)
            write_durably(out if single else out / f"{name}{FILE}", save(weights))
    counted = "one network" if len(inrs.names) == 1 else f"{len(inrs.names):,} networks"
    say(f"edited {counted}: wrote {out}", "green")
    if picture is not None:
        parts = [torch.cat(parts)[:SHOWN] for parts in zip(*shown, strict=True)]
        _draw(picture, Pictures(*parts), editor.task.options.edit)


def _draw(path: Path, pictures: Pictures, edit: str) -> None:
    with optional_imports():  # it imports matplotlib
        from graph_metanetworks.plot.image_sheet import Row, save_image_sheet
    rows = [
        Row("INR", pictures.original, _notes(pictures.identity)),
        Row("edited", pictures.edited, _notes(pictures.error)),
        Row(f"target\n({edit})", pictures.target),
    ]
    say(f"drew {save_image_sheet(path, rows)}", "green")


def _notes(errors: torch.Tensor) -> list[str]:
    return [f"MSE {error:.4f}" for error in errors.tolist()]
