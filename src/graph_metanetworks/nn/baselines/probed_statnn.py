"""StatNN that also sees what networks make of probes."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import Any

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.nn.baselines.statistics import By
from graph_metanetworks.nn.baselines.statnn import StatNN
from graph_metanetworks.nn.probe_outputs import WIDTH, ProbeOutputs
from graph_metanetworks.nn.probes import Probes


class ProbedStatNN(StatNN):
    """Statistics of the weights and outputs on learned inputs, then an MLP.

    Args:
        probes: inputs to run through the networks.
        hidden, out, by, budget: as for `StatNN`.
    """

    context = WIDTH

    def __init__(
        self,
        probes: Probes,
        hidden: int | None = 1000,
        out: int = 1,
        *,
        by: By = "tensor",
        budget: int | None = None,
    ) -> None:
        super().__init__(hidden, out, by=by, budget=budget)
        self.probes, self.outputs = probes, ProbeOutputs(probes, WIDTH)
        self.register_load_state_dict_pre_hook(_resize)

    @torch.no_grad()
    def fit(self, batches: Iterable[Batch]) -> None:
        """Take columns, their scales and the number of outputs from a training zoo; it is iterated twice."""
        self.outputs(self.probes(next(iter(batches))).outputs)
        super().fit(batches)

    def _budget(self) -> int:
        return super()._budget() - sum(
            p.numel() for part in (self.probes, self.outputs) for p in part.parameters()
        )

    def forward(self, batch: Batch) -> Tensor:  # [B, out]
        outputs = self.outputs(self.probes(batch).outputs)
        return self.head(torch.cat([self.first(self.statistics(batch)).relu(), outputs], dim=1))


def _resize(module: nn.Module, state_dict: MutableMapping[str, Tensor], prefix: str, *_: Any) -> None:
    """Make room for saved outputs first: with a budget, the width of the layers depends on their number."""
    weight = state_dict.get(f"{prefix}outputs.weight")
    assert isinstance(module, ProbedStatNN)
    if weight is not None and weight.shape != module.outputs.weight.shape:
        with torch.random.fork_rng(devices=[]):  # loading draws no random numbers
            module.outputs.resize(weight.shape[1] // module.probes.count)
            module._make_layers()
