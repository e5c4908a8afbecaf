"""Update the configuration of a `transformers` model that was resized, where its fields say it all."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any

import torch
from torch import nn

from graph_metanetworks.prune.double import exactly
from graph_metanetworks.prune.module import size_changes
from graph_metanetworks.prune.plan import PrunePlan
from graph_metanetworks.testing.function import difference, in_double
from graph_metanetworks.trace.record.tape import tensors

Example = tuple[tuple, dict[str, Any]]  # the arguments that a network was pruned with

MOST = 100  # combinations of fields that are tried
NO_SIZES = ("_id", "layers")  # ends of names of other numbers
SIZE_NAMES = ("inner", "dim", "size", "width")  # in names of fields that are empty where a default is used


def save_configuration(small: nn.Module, plan: PrunePlan, example: Example, folder: Path) -> bool:
    """Save a model of `transformers` so that `from_pretrained` loads it; return whether that is possible."""
    config = configuration(small, plan, example)
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


def configuration(small: nn.Module, plan: PrunePlan, example: Example) -> Any:
    """Return a configuration that builds a model of the same shapes and function, or None."""
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
        if found == wanted and _computes_the_same(candidate, small, example):
            return candidate
    return None


def _candidates(fields: dict[str, Any], plan: PrunePlan) -> Iterator[dict[str, Any]]:
    """Yield values for the fields that hold a size that changed, or lists of sizes, or are empty."""
    changes = size_changes(plan.graph, plan.subset)
    fields = {name: value for name, value in fields.items() if not name.endswith(NO_SIZES)}
    options: dict[str, list[Any]] = {}
    for name, value in fields.items():
        if type(value) is int and value in changes:
            options[name] = [*(new for new, _ in changes[value].most_common()), value]
        elif isinstance(value, list) and any(type(item) is int and item in changes for item in value):
            new = [
                changes[item].most_common(1)[0][0] if type(item) is int and item in changes else item
                for item in value
            ]
            options[name] = [new, value]
    held = {value for value in fields.values() if type(value) is int}
    others = [new for old in changes if old not in held for new, _ in changes[old].most_common()]
    for name, value in fields.items():
        if value is None and others and any(part in name for part in SIZE_NAMES):
            options[name] = [None, *dict.fromkeys(others)]  # a default, such as four times the width
    for values in product(*options.values()):
        yield dict(zip(options, values, strict=True))


def _computes_the_same(config: Any, small: nn.Module, example: Example) -> bool:
    """Return whether a new model of a configuration, with a pruned one's weights, is the same function."""
    with torch.random.fork_rng(devices=[]):
        built = type(small)(config)
    built.load_state_dict(small.state_dict())
    built.to(next(small.parameters()).device)
    with exactly(0):
        expected, found = (
            tensors(model(*args, **kwargs))
            for model, args, kwargs in (in_double(own, *example) for own in (small, built))
        )
    same = [own.shape for own in found] == [own.shape for own in expected]
    return same and difference(expected, found) < 1e-9
