"""Zoos of image INRs with the edited images that they should render."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from graph_metanetworks.errors import TaskError, ZooError
from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.tasks.data import TaskData
from graph_metanetworks.tasks.editing.images import EDITS
from graph_metanetworks.tasks.editing.render import render_batch
from graph_metanetworks.tasks.traced_zoo import TracedZoo
from graph_metanetworks.zoo.data import DataError, load
from graph_metanetworks.zoo.inr.conventions import Conventions
from graph_metanetworks.zoo.inr.grid import make_grid
from graph_metanetworks.zoo.recipe import Recipe, Renders
from graph_metanetworks.zoo.recipes.inrs import ImageInrs
from graph_metanetworks.zoo.registry import recipe_class

TOGETHER = 64  # networks that are rendered at once


@dataclass(frozen=True)
class Canvas:
    """Where images are rendered, and which values they have."""

    conventions: Conventions
    channels: int | None = None  # None: not known

    @staticmethod
    def of(recipe: Recipe[Any], name: str) -> Canvas:
        """Return that of a recipe; one whose networks represent no images is a TaskError."""
        conventions = getattr(recipe, "conventions", None)
        if not (isinstance(recipe, Renders) and isinstance(conventions, Conventions)):
            raise TaskError(
                f"networks of the recipe '{name}' represent no signal that could be rendered, so there is "
                "nothing to edit. Build a zoo of images: gmn zoo build image-inrs --protocol editing."
            )
        if len(conventions.order) != 2 or not conventions.size:
            raise TaskError(
                f"networks of the recipe '{name}' represent signals, and edits are of images. Build a zoo of "
                "images: gmn zoo build image-inrs --protocol editing."
            )
        architecture = getattr(recipe, "architecture", None)
        return Canvas(conventions, getattr(architecture, "outputs", None))

    @staticmethod
    def of_zoo(description: dict[str, Any]) -> Canvas:
        """Return that of the zoo of a run, as run.json describes it."""
        name, options = description["recipe"], description["settings"]
        try:
            return Canvas.of(recipe_class(name).from_options(options), name)
        except ZooError as error:
            raise TaskError(f"the conventions of the run's zoo are not known: {error}") from error

    @property
    def coordinates(self) -> Tensor:  # [points, inputs]
        return make_grid(self.conventions, dtype=torch.float64).coordinates

    def images(self, values: Tensor) -> Tensor:
        """Return values as images with brightness from 0 to 1. [n, c, points] -> [n, c, h, w]"""
        return self.conventions.to_unit(values).unflatten(-1, self.conventions.resolve_size())

    def edited(self, values: Tensor, edit: str) -> Tensor:  # [n, c, points]
        """Return the values of edited images; values outside of the range of images are cut off first."""
        unit = EDITS[edit](self.images(values)).flatten(2)
        return unit * self.conventions.value_range + self.conventions.value_low

    def require_maps(self, batch: Batch) -> None:
        """Refuse networks that do not map coordinates to the values of such images."""
        for stack in batch.stacks:
            graph, name = stack.graph, batch.names[stack.members[0]]
            shape = () if graph.recording is None else graph.recording.input_shape
            outputs = sum(group.size for group in graph.groups if group.kind == "output")
            if shape != (len(self.conventions.order),) or outputs != (self.channels or outputs):
                inputs = "x".join(map(str, shape or ())) or "unknown"
                wanted = "" if self.channels is None else f" to {self.channels}"
                raise TaskError(
                    f"{name} maps {inputs} inputs to {outputs} outputs, and this run edits networks that "
                    f"map {len(self.conventions.order)} coordinates{wanted}. Train a run on networks "
                    "like this one."
                )

    def require_same(self, other: Canvas, where: str) -> None:
        """Refuse networks of other conventions: their weights mean other images."""
        ours, theirs = self.conventions.as_json(), other.conventions.as_json()
        differ = [name for name in ours if name != "initial_biases" and ours[name] != theirs[name]]
        if differ:
            found = ", ".join(f"{name} {theirs[name]}, not {ours[name]}" for name in differ)
            raise TaskError(
                f"{where} has other conventions than the zoo of the run: {found}. Train on networks of these "
                "conventions."
            )


class Images(NamedTuple):
    """Values at points, such as the pixels of images."""

    values: Tensor  # [n, channels, points]
    coordinates: Tensor  # [points, inputs]


@dataclass(frozen=True, eq=False)
class EditedImages:
    """Edited images as targets, indexed by positions in the zoo."""

    values: Tensor  # [N, channels, points]
    coordinates: Tensor

    def __getitem__(self, positions: Any) -> Images:
        return Images(self.values[torch.as_tensor(positions)], self.coordinates)


class ImageZoo(TaskData):
    """INRs, what they render, and the edited images as targets, `[n, channels, points]` each."""

    def __init__(self, networks: TracedZoo, edit: str, *, images: bool = False) -> None:
        self.canvas = Canvas.of(networks.zoo.recipe, networks.zoo.description.recipe)
        self.edit = edit
        self.renders = self._rendered(networks)
        given = _originals(networks) if images else self.renders
        parts = [self.canvas.edited(part, edit) for part in given.split(1024)]
        self.edited = EditedImages(torch.cat(parts), self.canvas.coordinates)
        super().__init__(networks, self.edited)

    @torch.no_grad()
    def _rendered(self, networks: TracedZoo) -> Tensor:
        positions, coordinates = np.flatnonzero(networks.finite), self.canvas.coordinates
        found: Tensor | None = None
        for start in range(0, len(positions), TOGETHER):
            own = positions[start : start + TOGETHER]
            values = render_batch(networks.batch(own), coordinates)
            found = values.new_zeros(len(networks), *values.shape[1:]) if found is None else found
            found[own] = values
        if found is None:
            raise TaskError(
                f"no network of {networks.zoo.folder} has finite weights, so none can be rendered."
            )
        return found

    def references(self, train: np.ndarray, positions: np.ndarray) -> dict[str, float]:
        """Return the mean squared errors of methods that learn nothing, on the networks at `positions`."""
        targets, known = self.edited.values[positions], self.edited.values[train]
        guesses = {
            "identity": self.renders[positions],
            "mean_image": known.mean(0),
            "constant": known.mean((0, 2))[:, None],
        }
        return {name: float((targets - guess).square().mean()) for name, guess in guesses.items()}


def _originals(networks: TracedZoo) -> Tensor:
    """Return the images that networks were fitted to, from the files of their data set."""
    recipe = networks.zoo.recipe
    if not isinstance(recipe, ImageInrs):
        raise TaskError("--targets images is for zoos of the recipe image-inrs: choose --targets renders.")
    name = recipe.provenance["data"]
    try:
        recipe.data = load(name)
    except DataError as error:
        raise TaskError(
            f"--targets images needs {name}, which the zoo was built from, in data/ or in the folder that "
            "the environment variable GMN_DATA names. Or choose --targets renders."
        ) from error
    if recipe.data.checksum != recipe.provenance["checksum"]:
        raise TaskError(
            f"the data set {name} found here is not the one that the networks were fitted to: choose "
            "--targets renders."
        )
    return torch.stack([recipe.original(network.config).flatten(1) for network in networks.zoo])
