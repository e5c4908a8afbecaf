"""Networks named by a string: `module:name` or `path/to/file.py:name`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from graph_metanetworks.checkpoints.example import parse_literal
from graph_metanetworks.lookup import UnknownTarget, find_object


def load_network(target: str, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> nn.Module:
    """Return the network that a target names, or build it by calling the target.

    >>> load_network("torch.nn:Linear", [3, 2])
    Linear(in_features=3, out_features=2, bias=True)
    """
    kwargs = kwargs or {}
    found = find_object(target)
    if isinstance(found, nn.Module):
        if args or kwargs:
            raise UnknownTarget(f"'{target}' is already a network, so it takes no --arg or --kwarg.")
        return found
    if not callable(found):
        raise UnknownTarget(
            f"'{target}' is a {type(found).__name__}: name an nn.Module class, a function that returns a "
            "network, or a network."
        )
    try:
        network = found(*args, **kwargs)
    except Exception as error:
        raise UnknownTarget(
            f"making {target} failed: {type(error).__name__}: {error}. Pass what it needs with "
            "--arg and --kwarg."
        ) from error
    if not isinstance(network, nn.Module):
        raise UnknownTarget(
            f"'{target}' returned an object of type {type(network).__name__}, not an nn.Module."
        )
    return network


def parse_keyword(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UnknownTarget(f"--kwarg takes name=value, such as bias=False, not '{text}'.")
    return name, parse_literal(value)
