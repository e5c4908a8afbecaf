"""A tour of architectures: trace each, check its graph with the oracles, and write a page of pictures.

python examples/tour.py                              writes demo/index.html
python examples/tour.py --only MLP --out elsewhere
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from torch import Tensor, nn
from tour_networks import STOPS, Stop
from tour_page import Card, page

import graph_metanetworks as gmn
from graph_metanetworks import testing

Oracle = Callable[[gmn.ParameterGraph, nn.Module, Tensor], object]

ORACLES: dict[str, Oracle] = {
    "covers": lambda graph, model, x: testing.assert_covers(graph, model),
    "round trip": lambda graph, model, x: testing.assert_round_trip(graph, model),
    "automorphism": lambda graph, model, x: testing.assert_automorphism(graph, model),
    "function": lambda graph, model, x: testing.assert_function_kept(graph, model, x),
    "operations": lambda graph, model, x: testing.assert_operations_equivariant(model, x),
}
TWO_LINES = {  # so that the table fits in 80 columns
    "log order": "log\norder",
    "round trip": "round\ntrip",
    "automorphism": "auto-\nmorphism",
    "operations": "oper-\nations",
}


@torch.no_grad()
def shake(model: nn.Module) -> None:
    """Perturb every weight and statistic: a norm of ones would hide a wrong permutation."""
    for value in model.state_dict().values():
        if value.is_floating_point():
            value.mul_(0.5 + torch.rand_like(value)).add_(0.1 * torch.rand_like(value))


def visit(stop: Stop, folder: Path, done: Callable[[], None]) -> Card:
    """Trace one network, check it with the oracles and draw it."""
    torch.manual_seed(0)
    model = stop.build().eval()
    shake(model)
    x = stop.example()
    graph = gmn.trace(model, x)
    verdicts = {}
    for name, oracle in ORACLES.items():
        try:
            oracle(graph, model, x)
            verdicts[name] = ""
        except AssertionError as error:
            verdicts[name] = str(error)
        done()
    picture = graph.plot(folder / f"{stop.name.lower().replace(' ', '-')}.svg")
    return Card(stop.name, stop.about, graph, verdicts, picture)


def tour(
    only: Annotated[list[str] | None, typer.Option(help="Visit only this network; repeatable.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the page and its pictures.")] = Path("demo"),
) -> None:
    """Trace a tour of architectures, check each graph, and write a page of pictures."""
    unknown = set(only or ()) - {stop.name for stop in STOPS}
    if unknown:
        names = ", ".join(stop.name for stop in STOPS)
        raise typer.BadParameter(f"{', '.join(sorted(unknown))} is not on the tour: {names}")
    stops = [stop for stop in STOPS if not only or stop.name in only]
    out.mkdir(parents=True, exist_ok=True)
    console = Console()
    columns = (TextColumn("{task.description:<22}"), BarColumn(), MofNCompleteColumn())
    start = perf_counter()
    cards = []
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(stops) * len(ORACLES))
        for stop in stops:
            progress.update(task, description=stop.name)
            cards.append(visit(stop, out, lambda: progress.advance(task)))
    console.print(table(cards))
    index = out / "index.html"
    index.write_text(page(cards))
    console.print(f"{len(cards)} networks in {perf_counter() - start:.0f} s. Open {index.resolve()}")
    failures = [f"{card.name}: {why}" for card in cards for why in card.verdicts.values() if why]
    for failure in failures:
        console.print(failure, style="red", markup=False)
    sys.exit(1 if failures else 0)


def table(cards: list[Card]) -> Table:
    result = Table(box=None, padding=(0, 1, 0, 0))
    result.add_column("network", no_wrap=True)
    for name in ("nodes", "edges", "log order"):
        result.add_column(TWO_LINES.get(name, name), justify="right")
    for name in ORACLES:
        result.add_column(TWO_LINES.get(name, name), justify="center")
    for card in cards:
        graph = card.graph
        counts = f"{graph.num_nodes:,}", f"{graph.num_edges:,}", f"{graph.symmetry.log_order:.1f}"
        ticks = ["[red]✗[/]" if why else "[green]✓[/]" for why in card.verdicts.values()]
        result.add_row(card.name, *counts, *ticks)
    return result


if __name__ == "__main__":
    typer.run(tour)
