"""`gmn verify`: the paper's propositions, tried on random networks."""

from __future__ import annotations

from time import perf_counter
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from graph_metanetworks.theory.statement import Finding, Statement, Trial
from graph_metanetworks.theory.verify import NETWORKS, STATEMENTS, evidence, table
from graph_metanetworks.theory.verify import verify as try_all


def verify(
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random networks and permutations.")] = 0,
    networks: Annotated[int, typer.Option(min=1, help="Networks for each statement.")] = NETWORKS,
    only: Annotated[
        list[int] | None,
        typer.Option(min=1, max=len(STATEMENTS), help="Number of a statement; repeat. All by default."),
    ] = None,
) -> None:
    """Build the networks of the paper's proofs, and measure how far they are from what they should equal."""
    chosen = [statement for statement in STATEMENTS if not only or statement.number in only]
    start = perf_counter()
    findings = _with_progress(seed, networks, chosen)
    typer.echo(table(findings).text())
    for finding in findings:
        if finding.statement.number == len(STATEMENTS):
            typer.echo("\n" + evidence(finding).text())
    Console(highlight=False).print(f"\nverified in {perf_counter() - start:.0f} s", style="dim")
    if not all(finding.passed for finding in findings):
        raise typer.Exit(1)


def _with_progress(seed: int, networks: int, chosen: list[Statement]) -> list[Finding]:
    """A bar on standard error, which vanishes: what is printed is the tables."""
    columns = (BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=len(chosen))

        def on_trial(statement: Statement, trial: Trial | None) -> None:
            done = chosen.index(statement)
            if trial is None:
                progress.update(task, completed=done + 1)
                return
            progress.update(task, description=f"{statement.number}: {statement.text}")
            progress.advance(task, 1 / networks)

        return try_all(seed, networks, statements=chosen, on_trial=on_trial)
