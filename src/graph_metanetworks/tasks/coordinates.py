"""Exact augmentation of networks on coordinates: moving the input is a change of the first layer.

A network `f` on points has `f(A x + t)` as another network: the first layer `W x + b` becomes
`(W A) x + (b + W t)`. So rotated, scaled and shifted images need no new fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from graph_metanetworks.errors import TaskError
from graph_metanetworks.graph.parameter_graph import ParameterGraph

MOST = 3  # coordinates
ROTATION, STRETCH, SHIFT = 0.25, 0.15, 0.1  # largest angle; logarithms of scales; in units of coordinates


@dataclass(frozen=True)
class CoordinateLayer:
    """The linear layer of a network that reads its coordinates, and nothing else does.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    >>> CoordinateLayer.of(gmn.trace(model, torch.zeros(1, 2)))
    CoordinateLayer(weight='0.weight', bias='0.bias', dims=2)
    """

    weight: str
    bias: str | None
    dims: int

    @staticmethod
    def of(graph: ParameterGraph) -> CoordinateLayer:
        """Find the layer and check on random weights that moving it moves the input."""
        if graph not in _LAYERS:
            layer = _find(graph)
            if layer is None or not layer.is_exact(graph):
                raise TaskError(
                    f"{graph.name} does not begin with a linear layer on 1 to {MOST} coordinates that alone "
                    "reads its input, so rotated and shifted copies cannot be made from its weights. Train "
                    "without --augment."
                )
            _LAYERS[graph] = layer
        return _LAYERS[graph]

    def moved(self, weights: Mapping[str, Tensor], matrix: Tensor, shift: Tensor) -> dict[str, Tensor]:
        """Return stacked networks `f(A x + t)`.

        Args:
            weights: `[elements, networks, 1]` by name.
            matrix: A of each network. [networks, dims, dims]
            shift: t of each network; ignored if the layer has no bias. [networks, dims]
        """
        first = weights[self.weight]
        rows = first.reshape(-1, self.dims, first.shape[1]).movedim(-1, 0)  # [networks, units, dims]
        moved = dict(weights)
        moved[self.weight] = (rows @ matrix).movedim(0, -1).reshape(first.shape)
        if self.bias is not None:
            moved[self.bias] = weights[self.bias] + (rows @ shift[..., None]).movedim(0, 1)
        return moved

    def is_exact(self, graph: ParameterGraph) -> bool:
        """Whether random weights with a moved first layer compute the moved function."""
        generator = torch.Generator().manual_seed(0)
        options = {"generator": generator, "dtype": torch.float64}
        weights = {p.name: torch.randn(p.numel, 1, 1, **options) / p.numel**0.5 for p in graph.parameters}
        matrix, shift = random_motions(1, self.dims, generator, torch.float64)
        shift = shift if self.bias is not None else torch.zeros_like(shift)
        assert graph.recording is not None
        (entry,) = graph.recording.inputs.values()
        points = torch.rand(entry.shape, **options)
        shapes = {p.name: p.shape for p in graph.parameters}

        def run(own: Mapping[str, Tensor], x: Tensor) -> Tensor:
            found = graph.run({name: value.reshape(shapes[name]) for name, value in own.items()}, x)
            return found if isinstance(found, Tensor) else torch.full((), torch.nan)

        moved = run(self.moved(weights, matrix, shift), points)
        return bool(torch.allclose(moved, run(weights, points @ matrix[0].T + shift[0]), atol=1e-9))


_LAYERS: WeakKeyDictionary[ParameterGraph, CoordinateLayer] = WeakKeyDictionary()


def _find(graph: ParameterGraph) -> CoordinateLayer | None:
    shape = None if graph.recording is None else graph.recording.input_shape
    if shape is None or len(shape) != 1 or not 1 <= shape[0] <= MOST:
        return None
    inputs = torch.tensor([kind == "input" for kind in graph.node_kinds])[graph.node_kind]
    readers = [block for block in graph.blocks if inputs[block.source.reshape(-1)].any()]
    shapes = {parameter.name: parameter.shape for parameter in graph.parameters}
    if len(readers) != 1 or shapes.get(readers[0].parameter or "", ())[1:] != shape:
        return None
    (first,) = readers
    units = first.target.unique()
    biases = [
        block.parameter
        for block in graph.blocks
        if block.kind == "linear bias" and torch.equal(block.target.unique(), units)
    ]
    return CoordinateLayer(str(first.parameter), biases[0] if biases else None, shape[0])


def random_motions(
    count: int, dims: int, generator: torch.Generator, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Draw small rotations with scalings and shears `[count, dims, dims]`, and shifts `[count, dims]`."""
    drawn = 2 * torch.rand(count, dims, dims + 1, generator=generator, dtype=dtype) - 1
    square, shift = drawn[..., :dims], drawn[..., dims]
    turn, stretch = square.triu(1), square.tril()
    logarithm = ROTATION * (turn - turn.mT) + STRETCH * (stretch + stretch.mT) / 2
    return torch.matrix_exp(logarithm), SHIFT * shift
