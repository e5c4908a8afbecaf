"""Encode what networks make of probes."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graph_metanetworks.nn.fitted import refilled
from graph_metanetworks.nn.mlp import signed_log
from graph_metanetworks.nn.probes import Probes

WIDTH = 64  # of encoded outputs
SHARPNESS = 3.0  # of probabilities, so that features have about unit size


class ProbeOutputs(nn.Module):
    """Encode the outputs of networks on probes. [B, probes, outputs] -> [B, hidden]

    Several logits are taken as probabilities of classes. The first outputs that are seen decide their number,
    as in `nn.LazyLinear`; a state dict brings its own.
    """

    def __init__(self, probes: Probes, hidden: int) -> None:
        super().__init__()
        self.probes, self.logits = probes.count, probes.outputs == "logits"
        self.weight = nn.Parameter(torch.empty(hidden, 0))
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.register_load_state_dict_pre_hook(_resize)

    def forward(self, outputs: Tensor) -> Tensor:
        count = outputs.shape[-1]
        if not self.weight.numel():
            self.resize(count)
        if self.weight.shape[1] != self.probes * count:
            raise ValueError(
                f"these networks have {count} outputs, but this metanetwork was made for networks with "
                f"{self.weight.shape[1] // self.probes}. Use one for each number of outputs."
            )
        classes = self.logits and count > 1
        features = SHARPNESS * (outputs.softmax(-1) - 1 / count) if classes else signed_log(outputs)
        return F.linear(features.flatten(1), self.weight, self.bias).relu()

    def resize(self, outputs: int) -> None:
        """Make weights for a number of outputs."""
        width = self.probes * outputs
        bound = width**-0.5
        refilled(self.weight, self.bias.new_empty(len(self.bias), width).uniform_(-bound, bound))


def _resize(
    module: nn.Module, state_dict: MutableMapping[str, Tensor], prefix: str, *_: Any
) -> None:  # not a closure: a module can then be pickled
    weight = state_dict.get(f"{prefix}weight")
    if isinstance(module, ProbeOutputs) and weight is not None and weight.shape != module.weight.shape:
        refilled(module.weight, module.weight.new_empty(weight.shape))
