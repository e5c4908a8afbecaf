"""A zoo on disk, read lazily."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import pairwise
from numbers import Real
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor, nn

from graph_metanetworks.checkpoints.builder import COLUMN, Build, Builder
from graph_metanetworks.checkpoints.example import Example
from graph_metanetworks.checkpoints.networks import NetworkReader
from graph_metanetworks.errors import ZooError
from graph_metanetworks.table import Table
from graph_metanetworks.trace.tracer import Unused
from graph_metanetworks.zoo.check import check
from graph_metanetworks.zoo.description import Description
from graph_metanetworks.zoo.from_folder.importer import import_folder
from graph_metanetworks.zoo.from_folder.labels import Labels
from graph_metanetworks.zoo.from_folder.recipe import FolderRecipe
from graph_metanetworks.zoo.from_folder.sources import LeftOut, read_left_out
from graph_metanetworks.zoo.recipe import Completes, Recipe, Renders
from graph_metanetworks.zoo.shard import CONFIG, METRIC
from graph_metanetworks.zoo.store import Location, Store

SHOWN_ROWS = 8  # in notebooks


class Zoo(Sequence["ZooNetwork"]):
    """A data set of trained networks: a sequence of `ZooNetwork`, ordered by index.

    Files are read when they are needed, and weights are memory-mapped. Slices, filters and splits are zoos
    over the same files.

    >>> zoo = Zoo.open("zoos/diverse")  # doctest: +SKIP
    >>> good = zoo.filter(pc.field("test_accuracy") > 0.9)  # doctest: +SKIP
    >>> train, test = good.split([0.8, 0.2], seed=0)  # doctest: +SKIP
    >>> train[0].build()(images)  # doctest: +SKIP
    """

    def __init__(self, store: Store, rows: np.ndarray) -> None:
        self._store = store
        self._rows = rows  # rows of the store's table

    @classmethod
    def open(
        cls, folder: str | os.PathLike[str], *, recipe: Recipe[Any] | None = None, verify: bool = False
    ) -> Zoo:
        """Open a zoo. An unfinished zoo contains its finished networks.

        Args:
            recipe: replaces the recipe named in zoo.json, in case that cannot be imported.
            verify: read all files, and raise an error if any is damaged.
        """
        path = Path(folder)
        if verify and (problems := check(path).problems):
            raise ZooError(
                f"{path} is damaged: {'; '.join(problems)}. Rerun the command that built it to rebuild only "
                "the damaged files."
            )
        store = Store(path, recipe=recipe)
        return cls(store, np.arange(len(store.locations)))

    @classmethod
    def from_folder(
        cls,
        folder: str | os.PathLike[str],
        *,
        build: Build | None = None,
        labels: Any = None,
        out: str | os.PathLike[str] | None = None,
        example: Any = None,
        link: bool | None = None,
        key: str | None = None,
        ignore_extra: bool = False,
        unused: Unused = "raise",
        column: str = COLUMN,
        file_column: str | None = None,
        half: bool = False,
        quiet: bool = False,
    ) -> Zoo:
        """Make a zoo from a folder of checkpoints, of any formats and architectures. It resumes.

        Files that cannot be read, do not fit their network, or have no row in the table are left out:
        `zoo.left_out` lists them with the reason.

        Args:
            build: makes the network of a file. A function, class or network, or its name as
                `my_models.py:build`; it gets the arguments that it asks for: `path`, `row` of the table,
                `shapes` of the weights, `config` saved with them, or any column of the table. It returns the
                network, or the network and an example input. A mapping, or the name of a Python file, has
                several; then `column` of the table names one. Folders of Hugging Face need none.
            labels: a CSV, Parquet or JSON file, a table, a data frame, rows, or a dictionary by file name.
            out: the folder of the zoo. Without it, a temporary one that references the files.
            example: input of all networks, if `build` returns none: a tensor, a tuple of arguments, or a
                dictionary of keyword arguments; guessed by default.
            link: reference the files instead of copying their weights. Checksums are kept.
            key: where the weights are inside the files; found by default.
            ignore_extra: drop entries of a file that its network does not have.
            unused: parameters that the output does not depend on: "raise" leaves the file out, "keep" accepts
                them, as in `Tracer`.
            file_column: column of the table with the file names; found by default.
            half: store weights in half precision.
            quiet: hide the progress bar.
        """
        linked = out is None if link is None else link
        table = None if labels is None else Labels.read(labels)
        given = None if example is None else Example.of(example)
        builder = None if build is None else Builder.of(build, column=column)
        recipe = FolderRecipe(
            Path(folder).resolve(),
            NetworkReader(builder, given, key, ignore_extra, unused),
            labels=table and {"source": table.source, "checksum": table.checksum},
            link=linked,
        )
        place = _temporary_folder() if out is None else Path(out)
        import_folder(
            recipe, place, labels=table, file_column=file_column, link=linked, half=half, quiet=quiet
        )
        return cls.open(place, recipe=recipe)

    @property
    def left_out(self) -> list[LeftOut]:
        """The files of a folder that did not become networks of the zoo, and why."""
        return read_left_out(self.folder)

    @property
    def folder(self) -> Path:
        return self._store.folder

    @property
    def description(self) -> Description:
        """The recipe with its options, the seed and the package versions."""
        return self._store.description

    @property
    def recipe(self) -> Recipe[Any]:
        """The recipe, without its data."""
        return self._store.recipe

    @cached_property
    def table(self) -> pa.Table:
        """One row per network: its index, the fields of its config, its metrics."""
        return self._store.table.take(self._rows)

    @property
    def num_shards(self) -> int:
        """The number of shards of the whole zoo."""
        return len(self._store.records)

    @property
    def num_dropped(self) -> int:
        """The number of networks that diverged and were left out of the whole zoo."""
        return sum(record.dropped for record in self._store.records)

    @property
    def num_bytes(self) -> int:
        """The size on disk of the whole zoo."""
        return sum(record.weights_bytes + record.table_bytes for record in self._store.records)

    def weight_counts(self) -> set[int]:
        """Return the distinct numbers of values in the networks' state dicts, including buffers."""
        stacks = {(shard, stack) for _, shard, stack, _ in self._store.locations[self._rows].tolist()}
        return {self._store.weights(shard).size(stack) for shard, stack in stacks}

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        total = len(self._store.locations)
        networks = f"{len(self):,}" if len(self) == total else f"{len(self):,} of {total:,}"
        lines = [f"Zoo({str(self.folder)!r})", f"recipe: {self.description.recipe}", f"networks: {networks}"]
        with suppress(ZooError):  # damaged files do not keep a zoo from being shown
            lines.append(self._kinds())
        return "\n  ".join(lines)

    def _repr_html_(self) -> str:
        title, *lines = repr(self).splitlines()
        try:
            table = self._first_rows().html(SHOWN_ROWS, folded=True)
        except ZooError as error:  # damaged files do not keep a zoo from being shown
            table = f"<p>{escape(str(error))}</p>"
        shown = "<br>".join(escape(line.strip()) for line in lines)
        return f"<div><p><b>{escape(title)}</b><br>{shown}</p>{table}</div>"

    def _first_rows(self) -> Table:
        """Return the table of the networks, as far as it is shown."""
        shown = self.table.slice(0, SHOWN_ROWS - 1)
        names = tuple(shown.column_names)
        rows = [tuple(_cell(row[name]) for name in names) for row in shown.to_pylist()]
        left = len(self) - len(rows)
        if left:
            rows.append((f"… {left:,} more", *[""] * (len(names) - 1)))
        return Table("Networks", names, rows, right=names)

    def _kinds(self) -> str:
        """Return a line about the families of the networks or, if they have none, about their sizes."""
        if "family" in self.table.column_names:
            counts = sorted(Counter(self.table["family"].to_pylist()).items())
            return "families: " + ", ".join(f"{family} ({count:,})" for family, count in counts)
        sizes = self.weight_counts()
        ends = sorted({min(sizes, default=0), max(sizes, default=0)})
        return "values per network: " + " to ".join(f"{size:,}" for size in ends)

    @overload
    def __getitem__(self, key: int) -> ZooNetwork: ...
    @overload
    def __getitem__(self, key: slice | Sequence[int] | np.ndarray | Tensor) -> Zoo: ...

    def __getitem__(self, key: int | slice | Sequence[int] | np.ndarray | Tensor) -> ZooNetwork | Zoo:
        """Return the network at a position, or a zoo of those in a slice, a list of positions or a mask."""
        if isinstance(key, int | np.integer):
            return ZooNetwork(self._store, int(self._rows[key]))
        chosen = key if isinstance(key, slice) else np.asarray(key)
        return Zoo(self._store, self._rows[chosen])

    def __iter__(self) -> Iterator[ZooNetwork]:
        return (ZooNetwork(self._store, int(row)) for row in self._rows)

    def filter(self, condition: pc.Expression | Callable[[ZooNetwork], bool]) -> Zoo:
        """Keep the networks for which an expression of columns, or a function of the network, is true."""
        if isinstance(condition, pc.Expression):
            numbered = self.table.append_column("", pa.array(np.arange(len(self))))
            try:
                return self[numbered.filter(condition)[""].to_numpy()]
            except pa.ArrowException as error:
                reason = str(error).partition("\n")[0].partition(" in index")[0]  # without the schema
                raise ZooError(
                    f"{condition} is not a valid condition for this zoo: {reason}. The columns are "
                    f"{', '.join(self.table.column_names)}."
                ) from error
        return self[np.array([condition(network) for network in self], dtype=bool)]

    def split(self, parts: Sequence[float] | Sequence[int], *, seed: int = 0) -> tuple[Zoo, ...]:
        """Split at random into disjoint parts, given as fractions of the zoo or numbers of networks."""
        sizes = _sizes(parts, len(self))
        shuffled = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed)).numpy()
        ends = np.cumsum(sizes)
        # sorted again, because that is faster to read; training shuffles it
        return tuple(self[np.sort(shuffled[end - size : end])] for size, end in zip(sizes, ends, strict=True))


@dataclass(frozen=True, eq=False)
class ZooNetwork:
    """A network of a zoo. Weights and values are read when they are needed."""

    _store: Store
    _row: int

    @property
    def index(self) -> int:
        """The index of the network, which together with the seed of the zoo decides how it is drawn."""
        return self._location.index

    @property
    def state_dict(self) -> dict[str, Tensor]:
        """A copy of the trained weights."""
        return self._store.weights(self._location.shard).state_dict(self._location.stack, self._location.row)

    @property
    def steps(self) -> tuple[int, ...]:
        """The training steps that `checkpoint` has weights of."""
        return self._store.weights(self._location.shard).steps(self._location.stack)

    def checkpoint(self, step: int) -> dict[str, Tensor]:
        """Return the weights at an earlier training step."""
        if step not in self.steps:
            known = ", ".join(map(str, self.steps)) or "none"
            raise ZooError(
                f"network {self.index} has no checkpoint at step {step}; its checkpoints are: {known}."
            )
        return self._store.weights(self._location.shard).state_dict(
            self._location.stack, self._location.row, step=step
        )

    @property
    def config(self) -> Any:
        """The hyper-parameters, as drawn by the recipe."""
        values, recipe = self._store.values(self._row, CONFIG), self._store.recipe
        config = recipe.config({k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})
        if isinstance(recipe, Completes):
            return recipe.complete(config, self.metrics, self._shapes)
        return config

    @property
    def metrics(self) -> Mapping[str, float | int | bool | str]:
        values = self._store.values(self._row, METRIC)
        return {name: value for name, value in values.items() if value is not None}

    def build(self) -> nn.Module:
        """Build the network as a module with its trained weights, in evaluation mode."""
        network = self._store.recipe.build(self.config)
        network.load_state_dict(self.state_dict)
        return network.eval()

    def render(self, size: int | Sequence[int] | None = None) -> Tensor:
        """Render the signal or image of an implicit neural representation, at any size."""
        recipe = self._store.recipe
        if not isinstance(recipe, Renders):
            raise ZooError(
                f"networks of '{self._store.description.recipe}' represent no signal that could be rendered."
            )
        return recipe.render(self.state_dict, self.config, size)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return self._store.weights(self._location.shard).shapes(self._location.stack)

    @property
    def _location(self) -> Location:
        return self._store.location(self._row)

    def __repr__(self) -> str:
        return f"ZooNetwork({self.index} of {str(self._store.folder)!r})"


def _temporary_folder() -> Path:
    """Return a folder that lasts as long as the process."""
    folder = tempfile.mkdtemp(prefix="zoo-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _sizes(parts: Sequence[float] | Sequence[int], total: int) -> list[int]:
    """Convert parts to numbers of networks.

    >>> _sizes([0.5, 0.25, 0.25], 10), _sizes([6, 1], 10)
    ([5, 2, 3], [6, 1])
    """
    if isinstance(parts, Real):
        raise ZooError(
            f"split takes a list of parts, such as [0.8, 0.2], not {parts}; [{parts}] is a list of one."
        )
    if any(part < 0 for part in parts):
        raise ZooError(f"a part of a zoo cannot be negative: {list(parts)}.")
    if all(isinstance(part, int) for part in parts):
        sizes = [int(part) for part in parts]
    else:
        ends = [0, *(round(end, 9) for end in np.cumsum(parts).tolist())]
        sizes = [int(b * total) - int(a * total) for a, b in pairwise(ends)]
    if sum(sizes) > total:
        raise ZooError(f"{list(parts)} asks for {sum(sizes):,} networks, but the zoo has {total:,}.")
    return sizes
