"""Checkpoint files as batches of networks, built as the options of a command say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from graph_metanetworks.cli.candidates import Candidates
from graph_metanetworks.cli.example import parse_example
from graph_metanetworks.cli.guess import guess_example
from graph_metanetworks.cli.target import load_network, parse_keyword, parse_literal
from graph_metanetworks.errors import TaskError
from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.lookup import absolute


@dataclass(frozen=True)
class CheckpointOptions:
    """The options that say how to build the network of checkpoints; a cluster can pickle them."""

    network: str | None = None
    arg: tuple[str, ...] = ()
    kwarg: tuple[str, ...] = ()
    input: tuple[str, ...] = ()

    @classmethod
    def given(
        cls,
        network: str | None,
        arg: Sequence[str] | None,
        kwarg: Sequence[str] | None,
        input: Sequence[str] | None,
    ) -> CheckpointOptions:
        """Take the options of a command."""
        return cls(network, tuple(arg or ()), tuple(kwarg or ()), tuple(input or ()))

    def require_network(self, file: Path) -> None:
        if self.network is None:
            raise TaskError(
                f"the network of {file} is unknown: name the class or function that builds it, as --network "
                "my_model.py:build."
            )

    def anywhere(self) -> CheckpointOptions:
        """Return the same options for a process with another working directory."""
        return replace(self, network=absolute(self.network)) if self.network else self


def checkpoint_batches(files: Sequence[Path], options: CheckpointOptions) -> Iterator[Batch]:
    """Read checkpoints as weights of one network, in batches named after the files."""
    options.require_network(files[0])
    arguments = [*map(parse_literal, options.arg)], dict(map(parse_keyword, options.kwarg))
    model = load_network(str(options.network), *arguments).eval()
    example = parse_example(options.input) if options.input else guess_example(model)
    yield from Candidates((), tuple(files)).of_checkpoints(model, example)
