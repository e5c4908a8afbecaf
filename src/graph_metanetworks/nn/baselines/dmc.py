"""DMC: a 1-D CNN on the flat vector of weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from graph_metanetworks.graph.batch import Batch, require_batch
from graph_metanetworks.nn.baselines.tensor_scale import ScaledWeights
from graph_metanetworks.nn.embedding import input_of
from graph_metanetworks.nn.mlp import Mlp

STRIDE = 4  # of each convolution


class DMC(ScaledWeights):
    """The deep meta-classifier of `Eilertsen et al. <https://arxiv.org/abs/2002.05688>`_ (ECAI 2020).

    Weights in the order of the state dict, convolutions with stride 4, global mean and max pooling, an MLP.
    It takes vectors of any length, so any architecture. It is not invariant to permutations of neurons.

    Args:
        channels: output channels of each convolution.
        hidden: width of the MLP.
        kernel: length of the kernels.
    """

    def __init__(
        self,
        channels: Sequence[int] = (64, 128, 192, 256),
        hidden: int = 512,
        out: int = 1,
        *,
        kernel: int = 5,
    ) -> None:
        super().__init__()
        self.kernel = kernel
        inputs = [2, *channels[:-1]]
        self.convolutions = nn.ModuleList(
            nn.Conv1d(before, after, kernel, stride=STRIDE)
            for before, after in zip(inputs, channels, strict=True)
        )
        self.head = Mlp(2 * channels[-1], hidden, out)

    def forward(self, batch: Batch) -> Tensor:  # [B, out]
        require_batch(batch)
        x, lengths = self.vectors(batch)
        for convolution in self.convolutions:
            lengths = -(-lengths // STRIDE)
            x = convolution(_padded(x, STRIDE * int(lengths.max()) + self.kernel - STRIDE)).relu()
            # mask the padding: a result must not depend on the other networks of the batch
            x = x * (torch.arange(x.shape[-1], device=x.device) < lengths[:, None])[:, None]
        pooled = torch.cat([x.sum(-1) / lengths[:, None], x.amax(-1)], dim=1)
        return self.head(pooled)

    def embed(self, batch: Batch) -> Tensor:
        """Return the representation of each network before the last layer. [B, hidden]"""
        return input_of(self.head.second, self, batch)

    def vectors(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return weights as vectors, padded to equal length `[B, 2, longest]`, and their lengths `[B]`."""
        rows: dict[int, Tensor] = {}
        for stack in batch.stacks:
            features = self.features(stack)
            rows |= dict(zip(stack.members, features.unbind(1), strict=True))
        ordered = [rows[member] for member in range(len(batch))]
        lengths = torch.tensor([len(row) for row in ordered], device=ordered[0].device)
        return pad_sequence(ordered, batch_first=True).transpose(1, 2), lengths


def _padded(x: Tensor, length: int) -> Tensor:
    return functional.pad(x, (0, max(0, length - x.shape[-1])))
