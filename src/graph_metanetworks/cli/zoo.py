"""`gmn zoo`: build, look at, check and import zoos."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from typer.core import TyperCommand

from graph_metanetworks.cli.friendly import friendly_errors
from graph_metanetworks.cli.recipe_options import options_text, parse_options
from graph_metanetworks.errors import ZooError
from graph_metanetworks.plot.formats import check_suffix
from graph_metanetworks.table import WIDTH
from graph_metanetworks.zoo.build import build as build_zoo
from graph_metanetworks.zoo.check import check as check_zoo
from graph_metanetworks.zoo.histogram import Histogram, has_usual_metric, histogram
from graph_metanetworks.zoo.imported.small_cnns import import_small_cnns
from graph_metanetworks.zoo.manifest import read_manifest
from graph_metanetworks.zoo.overview import overview
from graph_metanetworks.zoo.registry import BUILT_IN, absolute, make_recipe, recipe_class
from graph_metanetworks.zoo.zoo import Zoo

app = typer.Typer(no_args_is_help=True, help="Zoos: data sets of trained networks.")
Folder = Annotated[Path, typer.Argument(help="The folder of the zoo.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


class RecipeCommand(TyperCommand):
    """A command whose help ends with the options of the recipe that it was asked about."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta["words"] = tuple(args)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        for word in ctx.meta["words"]:
            if word in BUILT_IN or ":" in word:
                with friendly_errors(debug=False):
                    typer.echo(options_text(recipe_class(word), word) + "\n")


@app.command(cls=RecipeCommand, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def build(
    context: typer.Context,
    recipe: Annotated[
        str,
        typer.Argument(
            help=f"{', '.join(BUILT_IN)}; or your own, my_recipes.py:Class or package.module:Class."
        ),
    ],
    count: Annotated[int, typer.Option(min=1, help="Networks of the zoo; a larger number adds to it.")],
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder of the zoo.")],
    seed: Annotated[int, typer.Option(help="Another seed gives other networks.")] = 0,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes, each with one thread; one for each core if not given."),
    ] = None,
    half: Annotated[bool, typer.Option("--half", help="Store weights in half precision.")] = False,
    drop_diverged: Annotated[
        bool, typer.Option("--drop-diverged", help="Leave out networks whose training diverged.")
    ] = False,
    shard_size: Annotated[
        int | None,
        typer.Option(min=1, help="Networks of a shard, of which an interruption may lose one per worker."),
    ] = None,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Train on a Ray cluster; `local` starts one here.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    debug: Debug = False,
) -> None:
    """Build a zoo, or go on with one: the same command resumes, and Ctrl-C is safe.

    Options of the recipe are added with their values, as in --data digits.
    `gmn zoo build RECIPE --help` lists them.
    """
    with friendly_errors(debug=debug):
        try:  # reading the data of a recipe can take long too
            options = parse_options(context.args, recipe_class(recipe), recipe)
            zoo = build_zoo(
                make_recipe(recipe, options),
                count,
                out,
                seed=seed,
                workers=workers,
                half=half,
                drop_diverged=drop_diverged,
                shard_size=shard_size,
                ray=ray,
                reference=absolute(recipe),
                quiet=quiet,
            )
        except KeyboardInterrupt:
            finished = sum(record.size for record in read_manifest(out).values())
            _print(
                f"stopped; {finished:,} of {count:,} networks are finished, the same command goes on.",
                "yellow",
            )
            raise typer.Exit(130) from None
        _print(f"{out} has {len(zoo):,} networks; look at them with gmn zoo info {out}", "green")


@app.command()
def info(
    folder: Folder,
    metric: Annotated[
        str | None, typer.Option(help="Column to show the spread of; accuracy if there is one.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Column by which to group; the family if there is one.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the histogram to a .png, .svg or .pdf file.")
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print the same as JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Show what is in a zoo: counts, spread of accuracies, sizes, where it came from."""
    with friendly_errors(debug=debug):
        if plot:
            check_suffix(plot)
        zoo = Zoo.open(folder)
        found = _spread(zoo, metric, by)
        if plot:
            if found is None:
                raise ZooError(f"there is nothing to draw: {folder} has no networks, or --metric is needed.")
            _print(f"drew {found.draw(plot)}", "green", stderr=json_output)
        known = overview(zoo)
        if json_output:
            spread = found.as_json() if found else None
            typer.echo(json.dumps({**known.as_json(), "spread": spread}, indent=2))
            return
        width = shutil.get_terminal_size((WIDTH, 24)).columns
        typer.echo(known.text(width))
        if found:
            typer.echo("\n" + found.text(width))
        elif len(zoo):
            typer.echo(f"\n--metric shows the spread of one of {', '.join(zoo.table.column_names)}.")


def _spread(zoo: Zoo, metric: str | None, by: str | None) -> Histogram | None:
    """The spread that is asked for, or the usual one; None where there is none."""
    asked = metric is not None or by is not None
    if not len(zoo) or not (asked or has_usual_metric(zoo.table)):
        return None
    return histogram(zoo.table, metric=metric, by=by)


@app.command()
def check(folder: Folder, debug: Debug = False) -> None:
    """Read a whole zoo and name every file that is damaged."""
    with friendly_errors(debug=debug):
        report = check_zoo(folder)
        if report.problems:
            raise ZooError(
                f"{folder} is damaged:\n  "
                + "\n  ".join(report.problems)
                + "\nRun the command that built it "
                "again: only what is damaged is rebuilt."
            )
        _print(f"all {report.shards:,} shards are whole: {report.networks:,} networks.", "green")
        if report.unclaimed:
            _print(
                f"{' and '.join(report.unclaimed)} have no line in the manifest: a build is at work, or was "
                "stopped. It keeps the shard if it is whole.",
                "yellow",
            )
        if report.unfinished:
            _print(f"{report.unfinished:,} networks are still to be built.", "yellow")


@app.command("import")
def import_published(
    format: Annotated[Literal["small-cnns"], typer.Argument(help="Which published zoo.")],
    path: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Folder of its files.")],
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder of the zoo.")],
    all_steps: Annotated[
        bool, typer.Option("--all-steps", help="Keep checkpoints, not only the end.")
    ] = False,
    half: Annotated[bool, typer.Option("--half", help="Store weights in half precision.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    debug: Debug = False,
) -> None:
    """Make a zoo of published files: small-cnns, the Small CNN Zoo of Unterthiner et al."""
    with friendly_errors(debug=debug):
        zoo = import_small_cnns(path, out, all_steps=all_steps, half=half, quiet=quiet)
        _print(f"{out} has {len(zoo):,} networks; look at them with gmn zoo info {out}", "green")


def _print(text: str, style: str, *, stderr: bool = False) -> None:
    Console(stderr=stderr, highlight=False).print(text, style=style, markup=False, soft_wrap=True)
