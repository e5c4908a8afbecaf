"""`gmn zoo`: build, inspect, check and import zoos."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from graph_metanetworks.checkpoints.builder import COLUMN
from graph_metanetworks.checkpoints.example import parse_example
from graph_metanetworks.cli import options
from graph_metanetworks.cli.friendly import friendly_errors, resumable
from graph_metanetworks.cli.left_out import say_left_out
from graph_metanetworks.cli.output import check_writable
from graph_metanetworks.cli.recipe_options import options_text, parse_options
from graph_metanetworks.console import say
from graph_metanetworks.errors import ZooError
from graph_metanetworks.plot.formats import check_suffix
from graph_metanetworks.table import WIDTH
from graph_metanetworks.zoo.build import build as build_zoo
from graph_metanetworks.zoo.check import check as check_zoo
from graph_metanetworks.zoo.from_folder.sources import LEFT_OUT
from graph_metanetworks.zoo.histogram import Histogram, has_default_metric, histogram
from graph_metanetworks.zoo.imported.small_cnns import import_small_cnns
from graph_metanetworks.zoo.manifest import read_manifest
from graph_metanetworks.zoo.overview import overview
from graph_metanetworks.zoo.registry import BUILT_IN, absolute, make_recipe, recipe_class
from graph_metanetworks.zoo.sharing import push_to_hub
from graph_metanetworks.zoo.zoo import Zoo

app = typer.Typer(no_args_is_help=True, help="Zoos: data sets of trained networks.")
Folder = Annotated[Path, typer.Argument(help="The folder of the zoo.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


class RecipeCommand(TyperCommand):
    """A command whose help ends with the options of the recipe on the command line."""

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
            help=f"{', '.join(BUILT_IN)}; or your own: my_recipes.py:Class or package.module:Class."
        ),
    ],
    count: Annotated[
        int, typer.Option(min=1, help="Number of networks. A larger number adds networks to an existing zoo.")
    ],
    out: Annotated[Path, typer.Option(file_okay=False, help="The folder of the zoo.")],
    seed: Annotated[int, typer.Option(help="Random seed of the zoo.")] = 0,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Worker processes with one thread each, by default one per core."),
    ] = None,
    half: Annotated[bool, typer.Option("--half", help="Store weights in half precision.")] = False,
    drop_diverged: Annotated[
        bool, typer.Option("--drop-diverged", help="Leave out networks whose training diverged.")
    ] = False,
    shard_size: Annotated[
        int | None,
        typer.Option(
            min=1, help="Networks per shard. An interruption loses at most one unfinished shard per worker."
        ),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Train on a Ray cluster; `local` starts one on this machine."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Hide the progress bar.")] = False,
    debug: Debug = False,
) -> None:
    """Build a zoo, or resume one. Ctrl-C is safe: rerun the same command to resume.

    Options of the recipe are passed in the same way, as in --data digits.
    `gmn zoo build RECIPE --help` lists them.
    """
    with friendly_errors(debug=debug):
        try:  # Ctrl-C may also arrive while the recipe loads its data
            if any(word.partition("=")[0] == "--device" for word in context.args):
                raise ZooError(
                    "the networks of a zoo are trained on the CPU only, many at a time: leave out --device. "
                    "More --workers or a cluster (--ray) make it faster."
                )
            own = parse_options(context.args, recipe_class(recipe), recipe)
            zoo = build_zoo(
                make_recipe(recipe, own),
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
            say(
                f"stopped: {finished:,} of {count:,} networks are finished. "
                "Rerun the same command to resume.",
                "yellow",
            )
            raise typer.Exit(130) from None
        say(f"{out} has {len(zoo):,} networks. Inspect them with gmn zoo info {out}", "green")


@app.command()
def info(
    folder: Folder,
    metric: Annotated[
        str | None,
        typer.Option(help="Column to show the distribution of; by default the accuracy, if there is one."),
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Column to group by; by default the family, if there is one.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Save the histogram as a .png, .svg or .pdf file.")
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Show the contents of a zoo: counts, sizes, provenance and the distribution of accuracies."""
    with friendly_errors(debug=debug):
        if plot:
            check_suffix(plot)
        check_writable(plot)
        zoo = Zoo.open(folder)
        found = _histogram(zoo, metric, by)
        if plot:
            if found is None:
                raise ZooError(f"there is nothing to plot: {folder} has no networks, or needs --metric.")
            say(f"saved {found.draw(plot)}", "green", err=json_output)
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
            typer.echo(
                f"\nUse --metric to show the distribution of one of {', '.join(zoo.table.column_names)}."
            )


def _histogram(zoo: Zoo, metric: str | None, by: str | None) -> Histogram | None:
    """Return the requested or the default histogram, or None if there is nothing to show."""
    requested = metric is not None or by is not None
    if not len(zoo) or not (requested or has_default_metric(zoo.table)):
        return None
    return histogram(zoo.table, metric=metric, by=by)


@app.command()
def check(folder: Folder, debug: Debug = False) -> None:
    """Read the whole zoo and list damaged files."""
    with friendly_errors(debug=debug):
        report = check_zoo(folder)
        if report.problems:
            raise ZooError(
                f"{folder} is damaged:\n  "
                + "\n  ".join(report.problems)
                + "\nRerun the command that built it to rebuild only the damaged files."
            )
        shards = f"{report.shards:,} shard{'' if report.shards == 1 else 's'}"
        say(f"{shards} with {report.networks:,} networks: all intact.", "green")
        if report.unclaimed:
            say(
                f"{' and '.join(report.unclaimed)} are not in the manifest: a build is running or "
                "was stopped. If the shard is intact, the build will keep it.",
                "yellow",
            )
        if report.unfinished:
            say(
                f"{report.unfinished:,} networks are missing. Rerun the command that built the zoo.", "yellow"
            )


@app.command("import")
def import_published(
    format: Annotated[
        Literal["folder", "small-cnns"],
        typer.Argument(help="folder: your own checkpoints. small-cnns: the zoo of Unterthiner et al."),
    ],
    path: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Folder of the files.")],
    out: Annotated[Path, typer.Option(file_okay=False, help="The folder of the zoo.")],
    network: Annotated[
        str | None,
        typer.Option(
            help="folder: builder of the networks, my_models.py:build; or my_models.py, if a column names "
            "it. Not needed for folders of Hugging Face."
        ),
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="folder: table with a row per file; CSV, Parquet or JSON.")
    ] = None,
    column: Annotated[
        str, typer.Option(help="folder: column that names the builder of a file, if --network is a file.")
    ] = COLUMN,
    file_column: Annotated[
        str | None, typer.Option(help="folder: column with the file names; found by default.")
    ] = None,
    input: options.Inputs = None,
    key: options.Key = None,
    ignore_extra: options.IgnoreExtra = False,
    unused: options.Unused = "raise",
    link: Annotated[
        bool, typer.Option("--link", help="folder: reference the files instead of copying their weights.")
    ] = False,
    all_steps: Annotated[
        bool, typer.Option("--all-steps", help="small-cnns: keep all checkpoints, not only the last one.")
    ] = False,
    half: Annotated[bool, typer.Option("--half", help="Store weights in half precision.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Hide the progress bar.")] = False,
    debug: Debug = False,
) -> None:
    """Make a zoo from files: your own checkpoints, or the Small CNN Zoo. Rerun the command to resume."""
    with friendly_errors(debug=debug), resumable(out):
        if format == "small-cnns":
            zoo = import_small_cnns(path, out, all_steps=all_steps, half=half, quiet=quiet)
        else:
            zoo = Zoo.from_folder(
                path,
                build=network,
                labels=labels,
                out=out,
                example=parse_example(input) if input else None,
                link=link,
                key=key,
                ignore_extra=ignore_extra,
                unused=unused,
                column=column,
                file_column=file_column,
                half=half,
                quiet=quiet,
            )
            total = len(zoo) + len(zoo.left_out)
            say_left_out(zoo.left_out, total, "file", more=f"; {out / LEFT_OUT} lists them all")
        say(f"{out} has {len(zoo):,} networks. Inspect them with gmn zoo info {out}", "green")


@app.command()
def push(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="Data set on the Hugging Face hub: user/name.")],
    private: Annotated[bool, typer.Option("--private", help="Make a new data set private.")] = False,
    debug: Debug = False,
) -> None:
    """Upload a zoo to the Hugging Face hub as a data set, with a card and a histogram."""
    with friendly_errors(debug=debug):
        say(f"uploaded to {push_to_hub(folder, name, private=private or None)}", "green")
