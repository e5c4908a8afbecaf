"""Scores of units: how much of a network would be lost with each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from graph_metanetworks.errors import PruneError
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.prune.program import recording_of
from graph_metanetworks.symmetry.axes import Axis, Dim, ordered_parents
from graph_metanetworks.symmetry.pieces import is_free, pieces
from graph_metanetworks.testing.function import copied
from graph_metanetworks.trace.record.operation import TensorRef
from graph_metanetworks.trace.replay.substitutes import BATCH_NORMS

Importance = Literal["magnitude", "l1", "batch-norm", "taylor", "gradient", "random"]
HALF = (torch.float16, torch.bfloat16)
IMPORTANCES: tuple[str, ...] = get_args(Importance)
Loss = Callable[[nn.Module], Tensor]


class Scores:
    """Scores of the units of any axis, `[*sizes of the axes it depends on, size]`."""

    def __init__(
        self,
        graph: ParameterGraph,
        model: nn.Module,
        importance: str,
        *,
        loss: Loss | None = None,
        generator: torch.Generator | None = None,
    ):
        if importance not in IMPORTANCES:
            raise PruneError(
                f"importance={importance!r} is none of {', '.join(IMPORTANCES)}. For your own scores pass a "
                "dict from the names of factors to tensors."
            )
        self.graph, self.importance, self.generator = graph, importance, generator
        self.weights = _learned(graph, model)
        self.known = all(value.device.type != "meta" for value in self.weights.values())
        gradients = _gradients(model, loss, importance) if importance in ("taylor", "gradient") else {}
        self._totals: dict[Axis, Tensor] = {}
        if self.known and importance != "random":
            for name, value in self._values(gradients):
                self._add(value, graph.symmetry.parameters[name])

    def of(self, axis: Axis) -> Tensor:
        if self.importance == "random":
            return torch.rand(_shape(axis), generator=self.generator, dtype=torch.float64)
        total = self._totals.get(axis, torch.zeros(_shape(axis), dtype=torch.float64))
        return total.abs() if self.importance == "taylor" else total.sqrt() if self._is_norm else total

    def _add(self, value: Tensor, dims: Sequence[Dim]) -> None:
        """Add the values of one parameter to the scores of all axes that it lies along."""
        for piece in pieces(value, dims):
            for axis in filter(is_free, dict.fromkeys(piece.axes)):
                for place in piece.places(axis):
                    keep = [*piece.outer(axis), place]
                    rest = [d for d in range(piece.value.dim()) if d not in keep]
                    summed = piece.value.sum(rest) if rest else piece.value
                    order = sorted(range(len(keep)), key=lambda i: keep[i])
                    summed = summed.permute([order.index(i) for i in range(len(keep))]).double().cpu()
                    self._totals[axis] = self._totals[axis] + summed if axis in self._totals else summed

    @property
    def _is_norm(self) -> bool:
        return self.importance == "magnitude"

    def _values(self, gradients: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        """Yield what is summed over the weights of a unit, by parameter."""
        chosen = _batch_norm_scales(self.graph) if self.importance == "batch-norm" else self.weights
        for name, value in self.weights.items():
            value = value.float() if value.dtype in HALF else value
            if self.importance == "magnitude":
                yield name, value.square()
            elif self.importance in ("l1", "batch-norm") and name in chosen:
                yield name, value.abs()
            elif self.importance == "gradient" and name in gradients:
                yield name, gradients[name].abs()
            elif self.importance == "taylor" and name in gradients:
                yield name, value * gradients[name]


def _shape(axis: Axis) -> list[int]:
    return [*(parent.size for parent in ordered_parents(axis)), axis.size]


def _learned(graph: ParameterGraph, model: nn.Module) -> dict[str, Tensor]:
    learned = {name: value.detach() for name, value in model.named_parameters(remove_duplicate=False)}
    known = model.state_dict()
    missing = [p.name for p in graph.parameters if p.name not in known]
    if missing:
        raise PruneError(
            f"'{missing[0]}' is in the graph of {graph.name}, but not in the {type(model).__name__} that "
            "was given. Pass the network that was traced."
        )
    for parameter in graph.parameters:
        own = learned.get(parameter.name)
        if own is not None and tuple(own.shape) != parameter.shape:
            raise PruneError(
                f"'{parameter.name}' has shape {tuple(own.shape)}, but the network was traced with "
                f"{parameter.shape}. Trace this network again."
            )
    return {p.name: learned[p.name] for p in graph.parameters if p.name in learned}


def _gradients(model: nn.Module, loss: Loss | None, importance: str) -> dict[str, Tensor]:
    if loss is None:
        raise PruneError(
            f"importance={importance!r} needs gradients: pass loss=lambda model: ..., a function that "
            "returns the loss of a network on some examples."
        )
    twin = copied(model).eval()
    for parameter in twin.parameters():
        parameter.grad = None
        parameter.requires_grad_(parameter.is_floating_point())
    with torch.enable_grad():
        value = loss(twin)
        if not isinstance(value, Tensor) or value.numel() != 1 or not value.requires_grad:
            raise PruneError(
                "loss must return one number that depends on the network it is given, as in lambda model: "
                "cross_entropy(model(images), labels)."
            )
        value.backward()
    return {
        name: parameter.grad
        for name, parameter in twin.named_parameters(remove_duplicate=False)
        if parameter.grad is not None
    }


def _batch_norm_scales(graph: ParameterGraph) -> set[str]:
    recording = recording_of(graph)
    scales = set()
    for operation in recording.operations:
        if operation.func in BATCH_NORMS:
            weight = operation.arguments["weight"]
            if isinstance(weight, TensorRef) and weight.key in recording.parameters:
                scales |= set(recording.parameters[weight.key].names)
    if not scales:
        raise PruneError(
            f"{graph.name} has no batch norm with a scale; choose another importance, such as 'magnitude'."
        )
    return scales
