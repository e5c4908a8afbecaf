"""Share zoos through the Hugging Face hub, as data sets with a card and a histogram."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from graph_metanetworks.checkpoints.builder import Build
from graph_metanetworks.errors import StorageError, ZooError
from graph_metanetworks.storage.hub import CARD, LIBRARY, card, download, markdown_table, upload
from graph_metanetworks.zoo.description import Description, flatten
from graph_metanetworks.zoo.from_folder.importer import REFERENCE as FOLDER_RECIPE
from graph_metanetworks.zoo.from_folder.recipe import FolderRecipe, without_paths
from graph_metanetworks.zoo.histogram import has_default_metric, histogram
from graph_metanetworks.zoo.manifest import NAME as MANIFEST
from graph_metanetworks.zoo.manifest import read_manifest, table_path, weights_path
from graph_metanetworks.zoo.overview import overview
from graph_metanetworks.zoo.recipe import Recipe
from graph_metanetworks.zoo.registry import BUILT_IN
from graph_metanetworks.zoo.zoo import Zoo

HISTOGRAM = "histogram.png"


def push_to_hub(
    zoo: Zoo | str | Path, name: str, *, private: bool | None = None, token: str | None = None
) -> str:
    """Upload a zoo to the Hugging Face hub as the data set `user/name`; return its address.

    The card shows counts, provenance and the distribution of accuracies. The hub's viewer shows the table.
    """
    zoo = zoo if isinstance(zoo, Zoo) else Zoo.open(zoo)
    if not len(zoo):
        raise ZooError(f"{zoo.folder} has no networks to upload.")
    if _is_of_folder(zoo.description) and zoo.description.options["link"]:
        raise ZooError(
            f"{zoo.folder} only references the files of its networks, which others do not have: import the "
            "folder again without --link (link=False) and upload that zoo."
        )
    return upload(name, partial(_stage, zoo.folder, name), kind="dataset", private=private, token=token)


def from_hub(
    name: str,
    *,
    recipe: Recipe[Any] | None = None,
    build: Build | None = None,
    revision: str | None = None,
    token: str | None = None,
) -> Zoo:
    """Download a zoo that `push_to_hub` uploaded, and open it.

    A recipe that is not built in is code of its author. It is not run unless you pass it as `recipe`; nor is
    the function that builds the networks of a zoo made from a folder, unless you pass it as `build`.
    """
    try:
        folder = download(name, kind="dataset", revision=revision, token=token)
    except StorageError as error:
        raise ZooError(str(error)) from error
    description = Description.load(folder)
    if recipe is None and _is_of_folder(description):
        recipe = _folder_recipe(name, description.options, build)
    zoo = Zoo.open(folder, recipe=recipe)
    if recipe is None and zoo.description.recipe not in BUILT_IN:
        raise ZooError(
            f"the zoo {name} needs code of its author, the recipe {zoo.description.recipe}: if you have it "
            "and trust it, pass it as from_hub(name, recipe=...)."
        )
    return zoo


def _is_of_folder(description: Description) -> bool:
    return description.recipe == FOLDER_RECIPE


def _folder_recipe(name: str, options: dict[str, Any], build: Build | None) -> FolderRecipe:
    recipe = FolderRecipe.without_code(options)
    if build is not None:
        return recipe.built_by(build, options)
    if options["built"]:
        raise ZooError(
            f"the zoo {name} needs the function of its author that builds the networks"
            f"{', ' + options['network'] if options['network'] else ''}: if you have it and trust it, pass "
            "it as from_hub(name, build=function)."
        )
    return recipe


def _stage(folder: Path, name: str, place: Path) -> None:
    """Link the files of a zoo, which may be large, and write its card and histogram."""
    shards = read_manifest(folder)
    description = Description.load(folder)
    if _is_of_folder(description):
        description = replace(description, options=without_paths(description.options))
    description.save(place)
    files = [folder / MANIFEST]
    files += [path(folder, shard) for shard in shards for path in (weights_path, table_path)]
    for file in files:
        (place / file.name).symlink_to(file.resolve())
    zoo = Zoo.open(place)
    drawn = has_default_metric(zoo.table)
    if drawn:
        histogram(zoo.table).draw(place / HISTOGRAM)
    (place / CARD).write_text(zoo_card(zoo, name, histogram=drawn))


def zoo_card(zoo: Zoo, name: str, *, histogram: bool) -> str:
    """Write the card of a zoo from its description."""
    known = overview(zoo)
    needs_code = _is_of_folder(zoo.description) and known.options["built"]
    opened = f"gmn.zoo.from_hub({name!r}{', build=build' if needs_code else ''})"
    facts = {
        "recipe": f"`{known.recipe}`",
        "networks": f"{known.networks:,}",
        "weights": f"{known.fewest_weights:,} to {known.most_weights:,} values per network",
        "size": f"{known.bytes / 1e6:,.1f} MB in {known.shards:,} shards",
        "seed": known.seed,
        **flatten(known.options),
        "versions": ", ".join(f"{package} {number}" for package, number in known.versions.items()),
    }
    tables = 'config_name: default\n  data_files: "table-*.parquet"'
    return card(
        {"tags": [LIBRARY, "model-zoo", "weight-space-learning"], "configs": [tables]},
        f"# {name.rpartition('/')[2]}",
        f"A zoo of {known.networks:,} trained neural networks with their labels, made with `{LIBRARY}`.",
        *([f"![Distribution over the networks]({HISTOGRAM})"] if histogram else []),
        markdown_table(("", ""), facts.items()),
        f"Columns: {', '.join(f'`{column}`' for column in zoo.table.column_names)}.",
        f"```python\nimport graph_metanetworks as gmn\n\nzoo = {opened}\n"
        "zoo[0].build()   # a torch module with trained weights\n```",
    )
