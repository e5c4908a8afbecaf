"""What the chains of a zoo have in common: all but the sizes of their hidden layers."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

from graph_metanetworks.errors import UnsupportedNetwork
from graph_metanetworks.nn.baselines.chain import Chain
from graph_metanetworks.nn.baselines.equivariant import Place

Permuted = Literal["hidden", "all"]


@dataclass(frozen=True)
class Slot:
    """A tensor of a chain: the weight or bias of a layer."""

    layer: int
    part: Literal["weight", "bias"]
    taps: int

    @property
    def groups(self) -> tuple[int, ...]:
        """The groups of neurons along which it lies; the inputs of the first layer are group 0."""
        return (self.layer + 1, self.layer) if self.part == "weight" else (self.layer + 1,)


@dataclass(frozen=True)
class ChainForm:
    """The form of a chain, which decides the parameters of a model on it.

    >>> form = ChainForm(inputs=2, outputs=1, channels=1, taps=(1, 1), biased=(True, False))
    >>> [f"{slot.part} {slot.layer}" for slot in form.slots]
    ['weight 0', 'bias 0', 'weight 1']
    >>> [place.axes for place in form.places("hidden")]
    [(1,), (1,), (1,)]
    >>> ChainForm.from_json(form.to_json()) == form
    True

    Args:
        inputs, outputs: neurons or channels.
        channels: numbers for each weight: 1 for weights, 2 for weights and gradients, ...
        taps, biased: of each layer.
    """

    inputs: int
    outputs: int
    channels: int
    taps: tuple[int, ...]
    biased: tuple[bool, ...]

    @staticmethod
    def of(chain: Chain, channels: int) -> ChainForm:
        return ChainForm(
            chain.layers[0].inputs,
            chain.layers[-1].outputs,
            channels,
            tuple(layer.taps for layer in chain.layers),
            tuple(layer.bias is not None for layer in chain.layers),
        )

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Its tensors, layer by layer, weights before biases."""
        found = []
        for layer, (taps, biased) in enumerate(zip(self.taps, self.biased, strict=True)):
            found.append(Slot(layer, "weight", taps))
            if biased:
                found.append(Slot(layer, "bias", 1))
        return tuple(found)

    def places(self, permuted: Permuted) -> tuple[Place, ...]:
        """Return where the tensors lie if hidden neurons, or all, are permuted."""
        last = len(self.taps)
        groups = range(1, last) if permuted == "hidden" else range(last + 1)
        sizes = {0: self.inputs, last: self.outputs}
        return tuple(Place(slot.groups, sizes, frozenset(groups)) for slot in self.slots)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> ChainForm:
        values = json.loads(text)
        return ChainForm(**values | {key: tuple(values[key]) for key in ("taps", "biased")})

    def __str__(self) -> str:
        layers = ", ".join(
            f"{taps} per pair{'' if biased else ' without bias'}"
            for taps, biased in zip(self.taps, self.biased, strict=True)
        )
        return f"{len(self.taps)} layers ({layers}) from {self.inputs} to {self.outputs}"


def require_form(form: ChainForm, own: ChainForm, network: str, method: str) -> None:
    """Check that a network has the form of those in the training zoo."""
    if own != form:
        raise UnsupportedNetwork(
            f"{method} takes networks of one form, which here is {form}, but {network} has {own}. The method "
            "gmn takes any network."
        )
