"""Networks of checkpoints: built, with their weights and an example input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from graph_metanetworks.checkpoints.builder import Builder, Facts
from graph_metanetworks.checkpoints.checkpoint import Checkpoint, Source
from graph_metanetworks.checkpoints.example import Example
from graph_metanetworks.checkpoints.fingerprint import fingerprint
from graph_metanetworks.checkpoints.fit import fit
from graph_metanetworks.checkpoints.gguf_file import config_of_gguf, gguf_in, weights_of_gguf
from graph_metanetworks.checkpoints.guess import guess_example
from graph_metanetworks.checkpoints.huggingface import build_network
from graph_metanetworks.checkpoints.inside import StateDict
from graph_metanetworks.checkpoints.read import open_checkpoint
from graph_metanetworks.errors import CheckpointError, TraceError
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.trace.tracer import Tracer, Unused


@dataclass(frozen=True, eq=False)
class SavedNetwork:
    """The network of a checkpoint. Its own weights are those it was built with, not those of the file."""

    network: nn.Module
    example: Example
    checkpoint: Checkpoint
    tracer: Tracer = field(default_factory=Tracer)

    @cached_property
    def state_dict(self) -> dict[str, Tensor]:
        """The weights of the file, in the precision of the network."""
        own = self.network.state_dict()
        return {name: value.to(own[name].dtype) for name, value in self.checkpoint.items()}

    @cached_property
    def architecture(self) -> str:
        """A name that networks of equal architecture share."""
        return fingerprint(self.network, self.example)

    def trace(self) -> ParameterGraph:
        return trace_on(self.tracer, self.network.eval(), self.example)


@dataclass(frozen=True)
class NetworkReader:
    """How the networks of checkpoints are built and read.

    Args:
        builder: by default, networks of Hugging Face are built from their config.json, and others refused.
        example: by default, what the builder returns with the network, or a guess.
        unused: as for `Tracer`.
    """

    builder: Builder | None = None
    example: Example | None = None
    key: str | None = None
    ignore_extra: bool = False
    unused: Unused = "raise"

    @property
    def tracer(self) -> Tracer:
        return Tracer(unused=self.unused)

    def read(self, path: Path, row: Mapping[str, Any] | None = None) -> SavedNetwork:
        """Read a checkpoint and build its network.

        Args:
            row: of the table of labels.
        """
        if self.builder is None and (file := gguf_in(path)):
            return self._read_gguf(file)
        opened = open_checkpoint(path, key=self.key)
        network, example = self.build(Facts(path, row or {}, lambda: opened.shapes, opened.source.config))
        checkpoint = opened.fitted(network, ignore_extra=self.ignore_extra)
        return SavedNetwork(network, example, checkpoint, self.tracer)

    def _read_gguf(self, path: Path) -> SavedNetwork:
        """Read a file of llama.cpp as the network of transformers that it was made from."""
        config = config_of_gguf(path)
        network, example = self.build(Facts(path, config=config))
        found = StateDict((), weights_of_gguf(path, network))
        source = Source(path, "a GGUF file, dequantised and renamed by transformers", config=config)
        checkpoint = fit([found], network, source, ignore_extra=self.ignore_extra)
        # no entry of the file is one of the network: a zoo that references files keeps a copy of the weights
        checkpoint.source = replace(checkpoint.source, names={})
        return SavedNetwork(network, example, checkpoint, self.tracer)

    def build(self, facts: Facts) -> tuple[nn.Module, Example]:
        """Build the untrained network of a checkpoint."""
        if self.builder is not None:
            network, example = self.builder(facts)
        elif "model_type" in facts.config:
            network, example = build_network(facts.config, where=f"'{facts.path}'"), None
        else:
            raise CheckpointError(
                f"the network of {facts.path} is unknown: name the class or function that builds it, as "
                "--network my_model.py:build (or, in gmn trace and gmn symmetry, as the first argument)."
            )
        return network, example or self.example or example_of(network)


def trace_on(tracer: Tracer, network: nn.Module, example: Example) -> ParameterGraph:
    """Trace a network; errors mention the example if it was guessed."""
    try:
        return tracer.trace(network, *example.args, **example.kwargs)
    except TraceError as error:
        if not example.is_guess:
            raise
        guessed = f"No --input was given, so it was guessed: {example}. Pass your own."
        raise type(error)(f"{error}\n{guessed}") from error


def example_of(network: nn.Module) -> Example:
    """Return the example that a network carries, as those of Lightning do, or a guess."""
    own = getattr(network, "example_input_array", None)
    return guess_example(network) if own is None else Example.of(own)
