"""Build a network and its example from the options of a command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from graph_metanetworks.checkpoints.builder import Builder
from graph_metanetworks.checkpoints.example import Example, parse_example, parse_literal
from graph_metanetworks.checkpoints.networks import NetworkReader, example_of
from graph_metanetworks.cli.target import load_network, parse_keyword
from graph_metanetworks.console import say
from graph_metanetworks.errors import TraceError
from graph_metanetworks.lookup import UnknownTarget
from graph_metanetworks.trace.tracer import Unused


@dataclass(frozen=True)
class Saved:
    """The options of a checkpoint."""

    path: Path | None = None
    key: str | None = None
    ignore_extra: bool = False


@dataclass(frozen=True, eq=False)
class Named:
    """A network, an example input, and the weights of its checkpoint if it has one."""

    network: nn.Module
    example: Example
    weights: dict[str, Tensor] | None = None


def named_network(
    target: str | None,
    args: Sequence[str] | None,
    kwargs: Sequence[str] | None,
    inputs: Sequence[str] | None,
    *,
    high: int,
    meta: bool,
    saved: Saved | None = None,
) -> Named:
    """Build the network of a target or a checkpoint, with an example input as described or guessed."""
    positional, keywords = [*map(parse_literal, args or ())], dict(map(parse_keyword, kwargs or ()))
    saved = saved or Saved()
    if target and saved.path is None and ":" not in target and Path(target).exists():
        target, saved = None, Saved(Path(target), saved.key, saved.ignore_extra)  # the checkpoint itself
    if target is None and saved.path is None:
        raise UnknownTarget("name a network, such as torch.nn:Linear, or a --checkpoint with a config.json.")
    if meta and saved.path:
        raise TraceError("a network on the meta device has no weights: drop --meta or --checkpoint.")
    with torch.device("meta" if meta else "cpu"):
        example = parse_example(inputs, high=high) if inputs else None
        if saved.path is None:
            network = load_network(str(target), positional, keywords)
            return Named(network, example or example_of(network))
        builder = Builder.of(target, args=positional, kwargs=keywords) if target else None
        read = NetworkReader(builder, example, saved.key, saved.ignore_extra).read(saved.path)
    say(read.checkpoint.summary, "dim", err=True)
    read.network.load_state_dict(read.state_dict)
    return Named(read.network, read.example, read.state_dict)


def network_reader(
    network: str | None,
    arg: Sequence[str] | None,
    kwarg: Sequence[str] | None,
    input: Sequence[str] | None,
    key: str | None,
    ignore_extra: bool,
    unused: Unused,
) -> NetworkReader:
    """Return how to read checkpoints, as the options of a command say."""
    args, kwargs = [*map(parse_literal, arg or ())], dict(map(parse_keyword, kwarg or ()))
    builder = Builder.of(network, args=args, kwargs=kwargs) if network else None
    example = parse_example(input) if input else None
    return NetworkReader(builder, example, key, ignore_extra, unused)
