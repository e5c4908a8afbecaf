"""The recipe of a zoo that was made from a folder: it only builds the networks again."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

import torch
from torch import nn

from graph_metanetworks.checkpoints.builder import Build, Builder, Facts, Shapes
from graph_metanetworks.checkpoints.example import Example
from graph_metanetworks.checkpoints.networks import NetworkReader
from graph_metanetworks.errors import TraceError, ZooError
from graph_metanetworks.trace.tracer import Tracer
from graph_metanetworks.zoo.recipe import Recipe, Trained

NOT_STORED = {"stored": False}


@dataclass(frozen=True)
class FileConfig:
    """What is known about the network of a file."""

    file: str  # in the folder
    network: str  # equal for networks of equal architecture
    config: str | None = None  # JSON, as saved with the weights, if the builder needs it
    row: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False, metadata=NOT_STORED)
    shapes: Callable[[], Shapes] = field(default=dict, repr=False, compare=False, metadata=NOT_STORED)


class FolderRecipe(Recipe[FileConfig]):
    """The networks of a folder of checkpoints. They are already trained, so they can only be built."""

    name = "folder"

    def __init__(self, folder: Path, reader: NetworkReader, **options: Any) -> None:
        self.folder, self.reader, self._further = folder, reader, options

    def options(self) -> dict[str, Any]:
        builder, example = self.reader.builder, self.reader.example
        return {
            "folder": str(self.folder),
            "network": builder and builder.reference,
            "built": builder is not None,
            "column": builder and builder.column,
            "args": list(builder.args) if builder else [],
            "kwargs": dict(builder.kwargs) if builder else {},
            "example": example and example.as_json(),
            "key": self.reader.key,
            "ignore_extra": self.reader.ignore_extra,
            "unused": self.reader.unused,
            **self._further,
        }

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> FolderRecipe:
        known = dict(options)
        folder, reference, built = (known.pop(name) for name in ("folder", "network", "built"))
        column, args, kwargs = (known.pop(name) for name in ("column", "args", "kwargs"))
        example, key, ignore_extra = (known.pop(name) for name in ("example", "key", "ignore_extra"))
        unused = known.pop("unused", "raise")  # zoos of earlier versions do not say
        if built and reference is None:
            builder = Builder(_lost)
        else:
            builder = Builder.of(reference, column=column, args=args, kwargs=kwargs) if reference else None
        given = Example.from_json(example) if example else None
        return cls(Path(folder), NetworkReader(builder, given, key, ignore_extra, unused), **known)

    @classmethod
    def without_code(cls, options: dict[str, Any]) -> FolderRecipe:
        """Return the recipe without the function that it names: nothing is imported."""
        return cls.from_options({**options, "network": None})

    def built_by(self, build: Build, options: Mapping[str, Any]) -> FolderRecipe:
        """Return the recipe with another copy of the function that builds the networks."""
        builder = Builder.of(build, **{name: options[name] for name in ("column", "args", "kwargs")})
        return FolderRecipe(self.folder, replace(self.reader, builder=builder), **self._further)

    def draw(self, generator: torch.Generator) -> FileConfig:
        raise ZooError("the networks of a folder are fixed: no more can be drawn.")

    def complete(
        self, config: FileConfig, metrics: Mapping[str, Any], shapes: Callable[[], Shapes]
    ) -> FileConfig:
        """Return the config with everything that a builder may ask for."""
        return replace(config, row=metrics, shapes=shapes)

    def build(self, config: FileConfig) -> nn.Module:
        return self._built(config)[0]

    def example(self, config: FileConfig) -> tuple[Any, ...]:
        return self._built(config)[1].args

    def example_kwargs(self, config: FileConfig) -> dict[str, Any]:
        return self._built(config)[1].kwargs

    @property
    def tracer(self) -> Tracer:
        return self.reader.tracer

    def shape(self, config: FileConfig) -> Hashable:
        return config.network

    def train(self, configs: Any, seeds: Any, progress: Any) -> list[Trained]:
        raise ZooError("the networks of a folder are already trained.")

    def _built(self, config: FileConfig) -> tuple[nn.Module, Example]:
        saved = json.loads(config.config) if config.config else {}
        facts = Facts(self.folder / config.file, config.row, config.shapes, saved)
        try:
            return self.reader.build(facts)
        except TraceError as error:
            raise ZooError(f"the network of {config.file} cannot be built again: {error}") from error


def without_paths(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the recipe for other machines: of each path, the last part."""
    labels = options.get("labels")
    named = {name: options[name] and PurePath(options[name]).name for name in ("folder", "network")}
    return {
        **options,
        **named,
        "labels": labels and {**labels, "source": PurePath(labels["source"]).name},
    }


def _lost() -> nn.Module:
    raise ZooError(
        "the zoo was made with a function that cannot be found again, such as a lambda. Open it with the "
        "same call of Zoo.from_folder(..., build=function, out=folder), or define the function in a file."
    )
