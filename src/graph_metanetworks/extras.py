"""Optional packages: the extras of pyproject.toml, named by the error where one is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

EXTRAS = {
    "pyarrow": "zoo",
    "sklearn": "zoo",
    "PIL": "zoo",
    "lightning": "train",
    "torchmetrics": "train",
    "matplotlib": "plot",
    "torch_geometric": "pyg",
    "typer": "cli",
    "ray": "ray",
    "datasets": "datasets",
    "huggingface_hub": "hub",
    "tensorboard": "tensorboard",
    "wandb": "wandb",
    "gguf": "gguf",
    "transformers": "transformers",
}


class MissingExtra(ImportError):
    """A part of the library needs a package that is not installed."""


@contextmanager
def optional_imports() -> Iterator[None]:
    """Name the extra of a package whose import fails.

    >>> with optional_imports():
    ...     import torch
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise MissingExtra(
            f"this needs {package}, which is not installed: pip install "
            f"'graph_metanetworks[{EXTRAS[package]}]'.",
            name=package,
        ) from error
