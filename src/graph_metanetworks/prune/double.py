"""Run a network and its pruned forms on one example, in float64."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from graph_metanetworks.errors import PruneError
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.prune.program import Program, recording_of
from graph_metanetworks.testing.function import KeepDouble, default_double, difference, in_double
from graph_metanetworks.trace.record.operation import tensors
from graph_metanetworks.trace.record.tape import plain_kernels

CLOSE = 1e-4  # relative; outputs of a network are told apart by their values


class Double:
    """A copy of a network in float64, with an example."""

    def __init__(self, model: nn.Module, graph: ParameterGraph, args: tuple, kwargs: dict[str, Any]):
        self.graph = graph
        self.model, self.args, self.kwargs = in_double(model, args, kwargs)
        self.weights: dict[str, Any] = dict(self.model.state_dict(keep_vars=True))
        self.inputs = list(recording_of(graph).matched(self.args, self.kwargs).values())
        self._chosen: list[int] | None = None

    def run(
        self, model: nn.Module, *, seed: int = 0, given: tuple[tuple, dict[str, Any]] | None = None
    ) -> list[Tensor]:
        """Return the outputs of a module on the example, or another: those that were traced."""
        args, kwargs = given or (self.args, self.kwargs)
        with exactly(seed):
            found = tensors(model(*args, **kwargs))
        return found if self._chosen is None else [found[place] for place in self._chosen]

    def run_program(self, program: Program, inputs: Sequence[Tensor] | None = None) -> list[Tensor]:
        with exactly(0):
            found = program.run(*(inputs or self.inputs))
        return list(found) if isinstance(found, tuple) else [found]

    @contextmanager
    def holding(self, weights: Mapping[str, Tensor]) -> Iterator[None]:
        """Give the copy other weights for a while; an unpruned program shares them."""
        before = {
            name: value.detach().clone()
            for name, value in self.weights.items()
            if isinstance(value, Tensor) and name in weights and weights[name] is not value
        }
        try:
            self._load({name: weights[name] for name in before})
            yield
        finally:
            self._load(before)

    def _load(self, weights: Mapping[str, Tensor]) -> None:
        for name, value in weights.items():
            self.weights[name].data.copy_(value)

    def choose_outputs(self, found: list[Tensor], traced: list[Tensor]) -> list[Tensor]:
        """Return the outputs of the graph among those of the module, and remember which they are."""
        chosen = []
        for wanted in traced:
            places = [
                place
                for place, own in enumerate(found)
                if place not in chosen and own.shape == wanted.shape and difference([wanted], [own]) < CLOSE
            ]
            if not places:
                raise PruneError(
                    f"{type(self.model).__name__} does not compute on this example what its graph recorded. "
                    "Pass the network that was traced, and an example that takes the same path through it."
                )
            chosen.append(places[0])
        self._chosen = chosen
        return [found[place] for place in chosen]


@contextmanager
def exactly(seed: int) -> Iterator[None]:
    """Compute in float64 throughout, without gradients and fused kernels."""
    with (
        torch.no_grad(),
        torch.random.fork_rng(devices=[]),
        plain_kernels(),
        default_double(),
        KeepDouble(),
    ):
        torch.manual_seed(seed)
        yield
