"""Edit networks: new weights from a model's result on every edge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from graph_metanetworks.errors import UnsupportedNetwork
from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.nn.canonical import Canonical
from graph_metanetworks.nn.fitted import Fitted, refilled
from graph_metanetworks.nn.metanetwork import GraphMetanetwork
from graph_metanetworks.nn.prepared import seen
from graph_metanetworks.symmetry.scaling import CanonicalKind

SMALLEST = 1e-6  # deviation


class Editor(Fitted):
    r"""New weights :math:`\theta + \gamma \sigma f(\theta)`, where any model gives :math:`f` on every edge.

    The step size :math:`\gamma` of each tensor is learned. The deviation :math:`\sigma` of the tensor in the
    training zoo makes steps relative to the size of weights. Both are found by `fit`.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    >>> batch = gmn.collate([(gmn.trace(model, torch.zeros(1, 2)), model.state_dict())] * 3)
    >>> editor = Editor(gmn.GraphMetanetwork(16, 2, level="edge", blocks="matrix-product"))
    >>> editor.fit([batch])
    >>> editor(batch).stacks[0].weights["0.weight"].shape      # elements, networks, channels
    torch.Size([16, 3, 1])

    Args:
        model: a batch in, `[E, 1]` out.
        canonical: bring networks to this canonical form first. It has the same function, and new weights are
            changes of it.
        start: initial step size.
    """

    def __init__(
        self, model: nn.Module, *, canonical: CanonicalKind | None = None, start: float = 0.01
    ) -> None:
        super().__init__()
        self.model, self.start = model, start
        self.canonical = nn.Identity() if canonical is None else Canonical(canonical)
        self.set_fitted_names(())

    def make_tables(self) -> None:
        like = torch.empty(len(self.fitted_names))
        self.gamma = refilled(getattr(self, "gamma", None), torch.full_like(like, self.start))
        self.deviation = nn.Buffer(torch.ones_like(like))

    @torch.no_grad()
    def fit(self, batches: Iterable[Batch]) -> None:
        """Fit the model, and take the deviation of each tensor from a training zoo."""
        batches = list(batches) if isinstance(batches, Iterator) else batches
        canonical = [self.canonical(batch) for batch in batches]
        if isinstance(self.model, GraphMetanetwork) or hasattr(self.model, "fit"):
            self.model.fit(canonical)  # pyright: ignore[reportCallIssue]
        found: dict[str, list[Tensor]] = {}
        for batch in canonical:
            for stack in seen(self.model, batch).stacks:
                for name, value in stack.weights.items():
                    own = value[..., 0].double()
                    sums = (own.new_tensor(own.numel()), own.sum(), own.square().sum())
                    found.setdefault(name, []).append(torch.stack(sums))
        self.set_fitted_names(found)
        for row, sums in enumerate(found.values()):
            count, total, squares = torch.stack(sums).sum(0)
            variance = squares / count - (total / count).square()
            self.deviation[row] = variance.clamp(min=0).sqrt().clamp(min=SMALLEST).to(self.deviation)

    def forward(self, batch: Batch) -> Batch:
        """Return the edited networks."""
        batch = self.canonical(batch)
        changes = batch.stacked(self.model(batch))
        batch = seen(self.model, batch)  # changes are for the form that a variant such as nft+scales sees
        steps = dict(zip(self.fitted_names, self.gamma * self.deviation, strict=True))
        stacks = []
        for given, change in zip(batch.stacks, changes.stacks, strict=True):
            unknown = sorted(given.weights.keys() - steps.keys())
            if unknown:
                raise UnsupportedNetwork(
                    f"{batch.names[given.members[0]]} has tensors that no training network had: "
                    f"{', '.join(unknown[:4])}. Each tensor has a step size of its own, so edit networks of "
                    "the same layers."
                )
            weights = {
                name: torch.addcmul(value.to(change.weights[name].dtype), steps[name], change.weights[name])
                for name, value in given.weights.items()
            }
            stacks.append(replace(given, weights=weights))
        return replace(batch, stacks=tuple(stacks))
