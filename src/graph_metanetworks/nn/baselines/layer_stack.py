"""Linear layers on the tensors of a chain, with ReLUs between them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from graph_metanetworks.nn.baselines.chain_form import ChainForm
from graph_metanetworks.nn.baselines.chain_model import ChainModel
from graph_metanetworks.nn.baselines.equivariant import Place


class LayerStack(nn.Module):
    """Layers with ReLUs between them, on tensors that it folds.

    Args:
        places: of the tensors.
        layers: modules on lists of folded tensors.
        returns_results: whether the last layer gives results, which are unfolded, instead of states.
    """

    def __init__(
        self, places: Sequence[Place], layers: Sequence[nn.Module], *, returns_results: bool = False
    ) -> None:
        super().__init__()
        self.places, self.layers, self.returns_results = tuple(places), nn.ModuleList(layers), returns_results

    def forward(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        states = [place.fold(values) for place, values in zip(self.places, tensors, strict=True)]
        for number, layer in enumerate(self.layers, 1):
            states = layer(states)
            if number < len(self.layers) or not self.returns_results:
                states = [values.relu() for values in states]
        if not self.returns_results:
            return states
        return [place.unfold(values) for place, values in zip(self.places, states, strict=True)]


class LinearChainModel(ChainModel):
    """Base of models of linear layers with ReLUs between them."""

    @abstractmethod
    def make_layer(self, places: Sequence[Place], inputs: Sequence[int], outputs: Sequence[int]) -> nn.Module:
        """Make a layer on folded tensors with so many channels."""

    def make_body(
        self, form: ChainForm, inputs: Sequence[int], hidden: int, outputs: Sequence[int] | None
    ) -> nn.Module:
        places = form.places(self.permuted)
        widths = [inputs, *[[hidden] * len(places)] * self.layers, *([outputs] if outputs else [])]
        folded = [[p.width(w) for p, w in zip(places, own, strict=True)] for own in widths]
        layers = [self.make_layer(places, *pair) for pair in pairwise(folded)]
        return LayerStack(places, layers, returns_results=outputs is not None)
