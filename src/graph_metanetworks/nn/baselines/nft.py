"""Neural functional transformers: attention between the rows and columns of weights.

Zhou et al., 2023, "Neural functional transformers", https://arxiv.org/abs/2305.13546.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graph_metanetworks.nn.baselines.chain_form import ChainForm, Permuted, Slot
from graph_metanetworks.nn.baselines.chain_model import ChainModel
from graph_metanetworks.nn.mlp import Mlp
from graph_metanetworks.nn.norm import RmsNorm, normed

HEADS = 4


class WeightAttention(nn.Module):
    r"""Attention among all vectors along the same neurons, and among the means of tensors.

    For each group of neurons, tokens are the rows of the weights into it, its biases, and the columns of the
    weights out of it: each has one state per neuron. With :math:`d` channels per head and :math:`n` neurons,
    the score of two tokens is the product of their :math:`n d` numbers. A permutation of the neurons leaves
    scores unchanged and permutes the results. A weight is in a token at either end, and gets both results.

    Args:
        slots: the tensors.
        hidden: channels of each weight.
        heads: of which `hidden` is a multiple.
    """

    def __init__(self, slots: Sequence[Slot], hidden: int, heads: int) -> None:
        super().__init__()
        self.slots, self.heads = tuple(slots), heads
        self.project = nn.Linear(hidden, 3 * hidden)

    def forward(self, tensors: Sequence[Tensor], scale: Tensor | None = None) -> list[Tensor]:
        """Attend to tensors whose channels are first multiplied by `scale`."""
        weight = self.project.weight if scale is None else self.project.weight * scale

        def project(x: Tensor) -> Tensor:
            return F.linear(x, weight, self.project.bias).unflatten(-1, (3, self.heads, -1))

        # the mean of projections is the projection of the mean, which is smaller
        means = project(torch.stack([x.mean(tuple(range(1, x.dim() - 1))) for x in tensors], dim=1))
        projected = [project(x) for x in tensors]
        query, key, value = means.permute(2, 0, 3, 1, 4).unbind(0)  # [n, heads, tensors, d]
        attended = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        results = [
            own.view(len(own), *[1] * len(slot.groups), -1)
            for slot, own in zip(self.slots, attended.unbind(1), strict=True)
        ]
        for group in sorted({group for slot in self.slots for group in slot.groups}):
            for number, own in self._along(projected, group):
                results[number] = results[number] + own
        return results

    def _along(self, projected: Sequence[Tensor], group: int) -> list[tuple[int, Tensor]]:
        """Attend among all tokens along a group; return results by number of their tensor."""
        numbers = [number for number, slot in enumerate(self.slots) if group in slot.groups]
        tokens, flipped = [], []
        for number in numbers:
            values = projected[number]  # [n, out, in, 3, heads, d], or [n, out, 3, heads, d]
            values = values if values.dim() == 6 else values[:, :, None]
            flipped.append(self.slots[number].groups[0] == group)
            values = values.transpose(1, 2) if flipped[-1] else values
            tokens.append(values.permute(3, 0, 4, 1, 2, 5))  # [3, n, heads, tokens, neurons, d]
        joined = torch.cat(tokens, dim=3)
        query, key, value = joined.flatten(4).unbind(0)
        found = F.scaled_dot_product_attention(query, key, value).unflatten(-1, joined.shape[4:])
        results = []
        parts = found.split([own.shape[3] for own in tokens], dim=2)
        for number, part, is_flipped in zip(numbers, parts, flipped, strict=True):
            own = part.permute(0, 2, 3, 1, 4).flatten(3)  # [n, tokens, neurons, hidden]
            own = own.transpose(1, 2) if is_flipped else own
            results.append((number, own if projected[number].dim() == 6 else own[:, :, 0]))
        return results


class NftBlock(nn.Module):
    """Attention, then an MLP on each weight, both on normed states and added to them."""

    def __init__(self, slots: Sequence[Slot], hidden: int, heads: int) -> None:
        super().__init__()
        self.first, self.second = RmsNorm(hidden), RmsNorm(hidden)
        self.attention = WeightAttention(slots, hidden, heads)
        self.each = Mlp(hidden, 2 * hidden, hidden)

    def forward(self, states: Sequence[Tensor]) -> list[Tensor]:
        # the scales of norms are part of the next weights: a pass over small matrices, not over all states
        attended = self.attention([normed(x) for x in states], self.first.weight)
        states = [x + y for x, y in zip(states, attended, strict=True)]
        hidden, result = self.each.first, self.each.second
        weight = hidden.weight * self.second.weight
        return [x + result(F.linear(normed(x), weight, hidden.bias).relu()) for x in states]


class NftBody(nn.Module):
    """An encoding of weights, of their tensor, and of inputs and outputs; then blocks."""

    def __init__(
        self,
        form: ChainForm,
        inputs: Sequence[int],
        hidden: int,
        outputs: Sequence[int] | None,
        layers: int,
    ) -> None:
        super().__init__()
        self.form = form
        self.encode = nn.ModuleList(nn.Linear(width, hidden) for width in inputs)  # a bias by tensor
        self.input_encoding = nn.Parameter(torch.randn(form.inputs, hidden))
        self.output_encoding = nn.Parameter(torch.randn(form.outputs, hidden))
        self.blocks = nn.ModuleList(NftBlock(form.slots, hidden, HEADS) for _ in range(layers))
        self.norms = nn.ModuleList(RmsNorm(hidden) for _ in form.slots)
        self.decode = nn.ModuleList(nn.Linear(hidden, width) for width in outputs or ())

    def forward(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        states = [
            self._placed(slot, encode(values))
            for slot, encode, values in zip(self.form.slots, self.encode, tensors, strict=True)
        ]
        for block in self.blocks:
            states = block(states)
        states = [norm(x) for norm, x in zip(self.norms, states, strict=True)]
        if self.decode:
            return [decode(x) for decode, x in zip(self.decode, states, strict=True)]
        places = self.form.places("hidden")
        return [place.fold(x) for place, x in zip(places, states, strict=True)]

    def _placed(self, slot: Slot, states: Tensor) -> Tensor:
        """Add what tells inputs from one another, and outputs."""
        if slot.part == "weight" and slot.layer == 0:
            states = states + self.input_encoding
        if slot.layer == len(self.form.taps) - 1:
            encoding = self.output_encoding
            states = states + (encoding[:, None] if slot.part == "weight" else encoding)
        return states


class Nft(ChainModel):
    """A neural functional transformer: attention between rows and columns, hidden neurons in any order.

    The attention does not know the order of inputs and outputs either; learned encodings tell it.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    >>> batch = gmn.collate([(gmn.trace(model, torch.zeros(1, 2)), model.state_dict())] * 3)
    >>> nft = Nft(level="edge", hidden=16)
    >>> nft.fit([batch])
    >>> nft(batch).shape
    torch.Size([99, 1])
    """

    method: ClassVar[str] = "nft"
    permuted: ClassVar[Permuted] = "hidden"
    multiple: ClassVar[int] = HEADS

    def make_body(
        self, form: ChainForm, inputs: Sequence[int], hidden: int, outputs: Sequence[int] | None
    ) -> nn.Module:
        return NftBody(form, inputs, hidden, outputs, self.layers)
