"""Base of models on chains: standardized weights in, results for each network or edge out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch, Stack, require_batch
from graph_metanetworks.nn.baselines.chain import Chain, chain_of, join_stacks
from graph_metanetworks.nn.baselines.chain_form import ChainForm, Permuted, require_form
from graph_metanetworks.nn.baselines.equivariant import pooled
from graph_metanetworks.nn.baselines.tensor_scale import WIDTH as FEATURES
from graph_metanetworks.nn.baselines.tensor_scale import features_of
from graph_metanetworks.nn.embedding import input_of
from graph_metanetworks.nn.encoders import moments_of
from graph_metanetworks.nn.fitted import Fitted
from graph_metanetworks.nn.mlp import Mlp


class ChainModel(Fitted):
    """Base of models on chains of linear and convolution layers, such as MLPs and plain CNNs.

    All networks must have as many layers, inputs and outputs as those of the training zoo. Layers of the
    model depend on them, so `fit` makes them. At edge level the readout "each" gives a result for each edge,
    and "edit" new weights `w + step * deviation * result`, where each tensor has a learned step size, and the
    deviation of its weights in the training zoo.

    Args:
        out: width of the result.
        level: "graph" `[B, out]` or "edge" `[E, out]`.
        layers: number of equivariant layers.
        hidden: channels of each weight; by default as many as give about `budget` parameters.
        readout: "each" or "edit", at edge level.
        start: initial step size.
    """

    method: ClassVar[str]  # its name in errors
    permuted: ClassVar[Permuted]  # the neurons whose order makes no difference to it
    multiple: ClassVar[int] = 1  # of which `hidden` must be one
    body: nn.Module
    norm: nn.LayerNorm  # at graph level
    head: Mlp
    step: nn.Parameter  # [tensors, 1], of the readout "edit"

    def __init__(
        self,
        out: int = 1,
        *,
        level: Literal["graph", "edge"] = "graph",
        layers: int = 3,
        hidden: int | None = None,
        budget: int = 50_000,
        readout: Literal["each", "edit"] = "each",
        start: float = 0.01,
    ) -> None:
        super().__init__()
        self.out, self.level, self.layers, self.hidden, self.budget = out, level, layers, hidden, budget
        self.readout, self.start = readout, start
        self.mean = nn.Buffer(torch.zeros(0, 1))
        self.deviation = nn.Buffer(torch.ones(0, 1))

    @abstractmethod
    def make_body(
        self, form: ChainForm, inputs: Sequence[int], hidden: int, outputs: Sequence[int] | None
    ) -> nn.Module:
        """Make a module on tensors `[n, out, in, c]` and `[n, out, c]` with so many channels of each.

        It returns folded states of width `hidden`, or `outputs` channels of each tensor, not folded.
        """

    # -------------------------------------------------------------- fitting

    @property
    def form(self) -> ChainForm:
        """The form of the networks that it was fitted to."""
        if not self.fitted_names:
            raise RuntimeError(f"{self.method} makes its layers for a zoo: call fit([batch, ...]) first.")
        return ChainForm.from_json(self.fitted_names[0])

    def fit(self, batches: Iterable[Batch]) -> None:
        """Make layers for the networks of a training zoo, and take the scale of each tensor."""
        form, moments = None, torch.zeros(0)
        for batch in batches:
            for stack in batch.stacks:
                chain = chain_of(stack, batch, self.method)
                own = ChainForm.of(chain, batch.channels)
                form = form or own
                require_form(form, own, batch.names[stack.members[0]], self.method)
                found = [moments_of(x.reshape(1, -1, own.channels)) for x in _tensors(chain, stack)]
                moments = torch.stack(found) + (moments if len(moments) else 0)
        if form is None:
            raise ValueError(f"{self.method} was given no networks to fit to.")
        if self.fitted_names != (form.to_json(),):  # otherwise an optimizer may hold the parameters
            self.set_fitted_names([form.to_json()])
        count, sums, squares = moments.unbind(1)
        center = sums / count
        self.mean.copy_(center)
        self.deviation.copy_((squares / count - center.square()).clamp(min=1e-12).sqrt())

    def make_tables(self) -> None:
        form, like = self.form, self.mean
        self.mean = nn.Buffer(like.new_zeros(len(form.slots), form.channels))
        self.deviation = nn.Buffer(like.new_ones(len(form.slots), form.channels))
        for name, module in self._modules_for(form, self.hidden or self._within_budget(form)).items():
            self.add_module(name, module.to(like))
        if self.level == "edge" and self.readout == "edit":
            if self.out > form.channels:
                raise ValueError(f"{self.out} channels cannot be edited, as weights have {form.channels}.")
            self.step = nn.Parameter(like.new_full((len(form.slots), 1), self.start))

    def _modules_for(self, form: ChainForm, hidden: int) -> dict[str, nn.Module]:
        inputs = [slot.taps * form.channels * FEATURES for slot in form.slots]
        if self.level == "edge":
            return {"body": self.make_body(form, inputs, hidden, [s.taps * self.out for s in form.slots])}
        width = sum(place.width(hidden) for place in form.places(self.permuted))
        return {
            "body": self.make_body(form, inputs, hidden, None),
            "norm": nn.LayerNorm(width),
            "head": Mlp(width, 2 * hidden, self.out),
        }

    def _within_budget(self, form: ChainForm) -> int:
        """Return how many hidden channels give about `budget` parameters."""
        low, high = 1, 1
        while self._count(form, high * self.multiple) <= self.budget:
            low, high = high, 2 * high
        while low < high:  # the first that is above the budget
            middle = (low + high) // 2
            above = self._count(form, middle * self.multiple) > self.budget
            low, high = (low, middle) if above else (middle + 1, high)
        sizes = [size * self.multiple for size in (low - 1, low) if size]
        return min(sizes, key=lambda size: abs(self._count(form, size) - self.budget))

    def _count(self, form: ChainForm, hidden: int) -> int:
        with torch.device("meta"):
            modules = self._modules_for(form, hidden).values()
        return sum(parameter.numel() for module in modules for parameter in module.parameters())

    # -------------------------------------------------------------- results

    def forward(self, batch: Batch) -> Tensor:
        require_batch(batch)
        form, parts = self.form, []
        for stack in batch.stacks:
            chain = chain_of(stack, batch, self.method)
            own = ChainForm.of(chain, batch.channels)
            require_form(form, own, batch.names[stack.members[0]], self.method)
            tensors = [values.to(self.mean) for values in _tensors(chain, stack)]
            found = self.body([self._features(row, values) for row, values in enumerate(tensors)])
            parts.append(pooled(found) if self.level == "graph" else self._edges(chain, tensors, found))
        joined = join_stacks(batch, parts)
        return self.head(self.norm(joined)) if self.level == "graph" else joined

    def _features(self, row: int, values: Tensor) -> Tensor:
        """Return features of each weight. [..., taps * c] -> [..., taps * c * features]"""
        scaled = (values.unflatten(-1, (-1, self.form.channels)) - self.mean[row]) / self.deviation[row]
        return features_of(scaled).flatten(-3)

    def _edges(self, chain: Chain, tensors: Sequence[Tensor], found: Sequence[Tensor]) -> Tensor:
        """Return results, or edited weights, on the edges of each network. [n, edges, out]"""
        if self.readout == "edit":
            found = [self._edited(row, *pair) for row, pair in enumerate(zip(tensors, found, strict=True))]
        left = iter(found)
        pairs = [(next(left), None if layer.bias is None else next(left)) for layer in chain.layers]
        return chain.edges([weight for weight, _ in pairs], [bias for _, bias in pairs])

    def _edited(self, row: int, values: Tensor, change: Tensor) -> Tensor:
        weights = values.unflatten(-1, (-1, self.form.channels))[..., : self.out]
        step = self.step[row] * self.deviation[row, : self.out]
        return torch.addcmul(weights, step, change.unflatten(-1, (-1, self.out))).flatten(-2)

    def embed(self, batch: Batch) -> Tensor:
        """Return the representation of each network before the last layer, at graph level. [B, 2 * hidden]"""
        if self.level != "graph":
            raise ValueError(f"{self.method} at edge level has no representation of whole networks.")
        return input_of(self.head.second, self, batch)


def _tensors(chain: Chain, stack: Stack) -> list[Tensor]:
    """Return weights and biases, layer by layer, those that exist."""
    pairs = zip(chain.weights(stack), chain.biases(stack), strict=True)
    return [values for pair in pairs for values in pair if values is not None]
