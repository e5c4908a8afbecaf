"""Base of models on chains: standardized weights in, results for each network or edge out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graph_metanetworks.errors import TaskError
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


class Standardize(nn.BatchNorm1d):
    """A batch norm of pooled states, which hardly differ between networks beside what all have in common.

    In training, a batch of one network has no deviation; it is standardized as in evaluation.
    """

    def forward(self, input: Tensor) -> Tensor:  # [B, width]
        if len(input) > 1:
            return super().forward(input)
        mean, variance = self.running_mean, self.running_var
        return F.batch_norm(input, mean, variance, self.weight, self.bias, eps=self.eps)


class ChainModel(Fitted):
    """Base of models on chains of linear and convolution layers, such as MLPs and plain CNNs.

    All networks must have as many layers, inputs and outputs as those of the training zoo. Layers of the
    model depend on them, so `fit` makes them.

    Args:
        out: width of the result.
        level: "graph" `[B, out]` or "edge" `[E, out]`.
        layers: number of equivariant layers.
        hidden: channels of each weight; by default as many as give about `budget` parameters.
    """

    method: ClassVar[str]  # its name in errors
    permuted: ClassVar[Permuted]  # the neurons whose order makes no difference to it
    multiple: ClassVar[int] = 1  # of which `hidden` must be one
    body: nn.Module
    norm: Standardize  # at graph level
    head: Mlp

    def __init__(
        self,
        out: int = 1,
        *,
        level: Literal["graph", "edge"] = "graph",
        layers: int = 3,
        hidden: int | None = None,
        budget: int = 50_000,
    ) -> None:
        super().__init__()
        self.out, self.level, self.layers, self.hidden, self.budget = out, level, layers, hidden, budget
        self.mean = nn.Buffer(torch.zeros(0, 1))
        self.deviation = nn.Buffer(torch.ones(0, 1))
        self._form: ChainForm | None = None

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
        if self._form is None:
            raise RuntimeError(f"{self.method} makes its layers for a zoo: call fit([batch, ...]) first.")
        return self._form

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
        form, like = ChainForm.from_json(self.fitted_names[0]), self.mean
        self._form = form
        self.mean = nn.Buffer(like.new_zeros(len(form.slots), form.channels))
        self.deviation = nn.Buffer(like.new_ones(len(form.slots), form.channels))
        for name, module in self._modules_for(form, self.hidden or self._within_budget(form)).items():
            self.add_module(name, module.to(like))

    def _modules_for(self, form: ChainForm, hidden: int) -> dict[str, nn.Module]:
        inputs = [slot.taps * form.channels * FEATURES for slot in form.slots]
        if self.level == "edge":
            return {"body": self.make_body(form, inputs, hidden, [s.taps * self.out for s in form.slots])}
        width = sum(place.width(hidden) for place in form.places(self.permuted))
        return {
            "body": self.make_body(form, inputs, hidden, None),
            "norm": Standardize(width),
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
            tensors = [self._features(*row) for row in enumerate(_tensors(chain, stack))]
            found = self.body(tensors)
            parts.append(pooled(found) if self.level == "graph" else _edges(chain, found))
        joined = join_stacks(batch, parts)
        return self.head(self.norm(joined)) if self.level == "graph" else joined

    def _features(self, row: int, values: Tensor) -> Tensor:
        """Return features of each weight. [..., taps * c] -> [..., taps * c * features]"""
        values = values.to(self.mean)
        scaled = (values.unflatten(-1, (-1, self.form.channels)) - self.mean[row]) / self.deviation[row]
        return features_of(scaled).flatten(-3)

    def embed(self, batch: Batch) -> Tensor:
        """Return the representation of each network before the last layer, at graph level. [B, 2 * hidden]"""
        if self.level != "graph":
            raise TaskError(f"{self.method} at edge level has no representation of whole networks.")
        return input_of(self.head.second, self, batch)


def _tensors(chain: Chain, stack: Stack) -> list[Tensor]:
    """Return weights and biases, layer by layer, those that exist."""
    pairs = zip(chain.weights(stack), chain.biases(stack), strict=True)
    return [values for pair in pairs for values in pair if values is not None]


def _edges(chain: Chain, tensors: Sequence[Tensor]) -> Tensor:
    """Return results for weights and biases on the edges of each network; the inverse of `_tensors`."""
    left = iter(tensors)
    pairs = [(next(left), None if layer.bias is None else next(left)) for layer in chain.layers]
    return chain.edges([weight for weight, _ in pairs], [bias for _, bias in pairs])
