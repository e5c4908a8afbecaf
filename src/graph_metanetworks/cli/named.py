"""Build a network and its example from the options of a command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from graph_metanetworks.checkpoints.example import Example, parse_example, parse_literal
from graph_metanetworks.checkpoints.guess import guess_example
from graph_metanetworks.cli.target import load_network, parse_keyword
from graph_metanetworks.errors import TraceError
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.trace.tracer import Tracer


def named_network(
    target: str,
    args: Sequence[str] | None,
    kwargs: Sequence[str] | None,
    inputs: Sequence[str] | None,
    *,
    high: int,
    meta: bool,
) -> tuple[nn.Module, Example]:
    """Build the network of a target, with an example input as described or guessed."""
    with torch.device("meta" if meta else "cpu"):
        positional, keywords = map(parse_literal, args or ()), dict(map(parse_keyword, kwargs or ()))
        network = load_network(target, list(positional), keywords)
        return network, parse_example(inputs, high=high) if inputs else guess_example(network)


def traced_on(tracer: Tracer, network: nn.Module, example: Example, *, guessed: bool) -> ParameterGraph:
    """Trace the network on the example; errors mention it if the example was guessed."""
    with _mention_guess(example if guessed else None):
        return tracer.trace(network, *example.args, **example.kwargs)


@contextmanager
def _mention_guess(guess: Example | None) -> Iterator[None]:
    try:
        yield
    except TraceError as error:
        if guess is None:
            raise
        guessed = f"No --input was given, so it was guessed: {guess}. Pass your own."
        raise type(error)(f"{error}\n{guessed}") from error
