"""Update the configuration of a `transformers` model that was resized, where its fields say it all."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any

import torch
from torch import nn

from graph_metanetworks.prune.module import size_changes
from graph_metanetworks.prune.plan import PrunePlan

MOST = 100  # combinations of fields that are tried


def save_configuration(small: nn.Module, plan: PrunePlan, folder: Path) -> bool:
    """Save a model of `transformers` so that `from_pretrained` loads it; return whether that is possible."""
    config = configuration(small, plan)
    if config is None:
        return False
    own = vars(small)
    before, pruning = own["config"], own.pop("pruning")
    try:
        own["config"] = config
        small.save_pretrained(folder)  # pyright: ignore[reportCallIssue]
    finally:
        own |= {"config": before, "pruning": pruning}
    return True


def configuration(small: nn.Module, plan: PrunePlan) -> Any:
    """Return a configuration that builds a model of the same shapes and sizes, or None."""
    config = vars(small).get("config")
    if config is None or not hasattr(config, "to_dict") or not hasattr(small, "save_pretrained"):
        return None
    wanted = {name: tuple(value.shape) for name, value in small.state_dict().items()}
    for values in islice(_candidates(config.to_dict(), plan), MOST):
        candidate = copy.deepcopy(config)
        try:
            for name, value in values.items():
                setattr(candidate, name, value)
            with torch.device("meta"):
                built = type(small)(candidate)
        except Exception:  # sizes that a class refuses, such as a width that heads do not divide
            continue
        found = {name: tuple(value.shape) for name, value in built.state_dict().items()}
        if found == wanted and _same_numbers(built, small):
            return candidate
    return None


def _candidates(fields: dict[str, Any], plan: PrunePlan) -> Iterator[dict[str, int]]:
    """Yield values for the fields that hold a size that changed."""
    changes = size_changes(plan.graph, plan.subset)
    options = {
        name: [*(new for new, _ in changes[value].most_common()), value]
        for name, value in fields.items()
        if type(value) is int and value in changes
    }
    for values in product(*options.values()):
        yield dict(zip(options, values, strict=True))


def _same_numbers(built: nn.Module, small: nn.Module) -> bool:
    """Return whether all modules have the same numbers in their attributes."""
    others = dict(small.named_modules())
    return all(
        vars(others[path]).get(name) == value
        for path, module in built.named_modules()
        for name, value in vars(module).items()
        if type(value) in (int, float) and not name.startswith("_")
    )
