"""`gmn edit`: edit INRs with a run of the task editing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import typer
from safetensors import safe_open
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
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.plot.formats import check_suffix
from graph_metanetworks.storage.atomic import write_durably
from graph_metanetworks.tasks.editing.runner import EditRunner, Pictures, unstacked
from graph_metanetworks.tasks.loading import load
from graph_metanetworks.tasks.traced_zoo import TracedZoo
from graph_metanetworks.trace.tracer import trace
from graph_metanetworks.zoo.description import NAME
from graph_metanetworks.zoo.inr.conventions import Conventions
from graph_metanetworks.zoo.inr.siren import Siren, SirenArchitecture, rewritten
from graph_metanetworks.zoo.zoo import Zoo

TOGETHER = 32  # networks
SHOWN = 10  # columns of a picture
FILE = ".safetensors"
CONVENTIONS = "conventions"  # in the metadata of a file


@dataclass(frozen=True, eq=False)
class Inrs:
    """The networks to edit, some at a time."""

    names: list[str]
    batches: Iterator[Batch]
    conventions: Conventions | None = None  # of the files to write; None: not known


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
        elif network is not None:
            if changed:
                raise TaskError(
                    "--omega, --output-offset and --order are of SIRENs: --network builds its own."
                )
            saved = network_reader(network, arg, kwarg, None, key, False, "raise").read(networks)
            inrs = Inrs([networks.stem], _single(saved.trace(), saved.state_dict, networks))
        else:
            inrs = _of_siren(networks, editor.canvas.conventions, changed, key)
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
    return Inrs(names, (traced.batch(part) for part in parts), editor.canvas.conventions)


def _of_siren(path: Path, ours: Conventions, changed: dict[str, Any], key: str | None) -> Inrs:
    """Read a SIREN, and rewrite it to the conventions of the run."""
    weights = {name: value.float() for name, value in open_checkpoint(path, key=key).plain().items()}
    try:
        architecture = SirenArchitecture.of(weights)
    except ValueError as error:
        raise TaskError(
            f"{path}: {error}. Name what builds another INR, --network my_inr.py:build."
        ) from error
    if architecture.inputs != len(ours.order):
        raise TaskError(
            f"{path} maps {architecture.inputs} coordinates, and this run edits networks that map "
            f"{len(ours.order)}. Train a run on networks like this one."
        )
    theirs = _conventions(path, ours, changed)
    graph = trace(Siren(architecture, ours), torch.zeros(1, architecture.inputs))
    return Inrs([path.stem], _single(graph, rewritten(weights, theirs, ours), path), theirs)


def _conventions(path: Path, ours: Conventions, changed: dict[str, Any]) -> Conventions:
    """Return how the network of a file is run: as the file says, or as in the zoo of the run."""
    said = None
    if path.is_file() and path.suffix == FILE:
        with safe_open(path, "pt") as file:
            said = (file.metadata() or {}).get(CONVENTIONS)
    try:
        theirs = replace(Conventions.from_json(json.loads(said)) if said else ours, **changed)
    except (ValueError, TypeError, KeyError) as error:
        raise TaskError(f"{path} has no valid conventions: {error}") from error
    if said is None:
        known = f"omega {theirs.omega:g}, output offset {theirs.output_offset:g}, order {theirs.order}"
        say(
            f"{path} does not say how its network is run: taken as {known}, and otherwise as in the zoo of "
            "the run. Change that with --omega, --output-offset and --order.",
            "yellow",
        )
    return theirs


def _single(graph: ParameterGraph, weights: Mapping[str, torch.Tensor], path: Path) -> Iterator[Batch]:
    return iter([collate([(graph, weights)], names=[str(path)])])


def _write(editor: EditRunner, inrs: Inrs, out: Path, picture: Path | None) -> None:
    single, names = out.suffix == FILE, iter(inrs.names)
    shown: list[Pictures] = []
    for number, batch in enumerate(inrs.batches):
        edited = editor.edit(batch)
        if picture is not None and number * TOGETHER < SHOWN:
            shown.append(editor.pictures(batch, edited))
        if not (single or out.exists()):  # the first batch went well
            out.mkdir()
        for weights in unstacked(edited):
            name, metadata = next(names), None
            if inrs.conventions is not None:
                metadata = {CONVENTIONS: json.dumps(inrs.conventions.as_json())}
            if inrs.conventions not in (None, editor.canvas.conventions):
                weights = rewritten(weights, editor.canvas.conventions, inrs.conventions)
            content = save({name: own.contiguous() for name, own in weights.items()}, metadata)
            write_durably(out if single else out / f"{name}{FILE}", content)
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
