"""The imprint that training data leaves in a network: its outputs on probes.

Outputs do not change when neurons are permuted, and hardly depend on the architecture. Networks trained on
the same data give the same outputs, and better networks more so; networks trained on other data give other
ones. Statistics of weights do not show this.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graph_metanetworks.nn.fitted import resize_buffers

NEAR_ACCURACY = 0.1  # peers: training networks of similar accuracy and strength
NEAR_STRENGTH = 0.2
LEAST_WEIGHT = 1e-4  # of networks that are not peers
LEAST_SPREAD = 0.1
LARGEST = 0.99  # correlation
TINY = 1e-12
Found = tuple[Tensor, Tensor]  # the imprint of a network, `[features]`, and its strength, `[]`


class Imprint(nn.Module):
    """Compare the imprint of a network with those of training networks of similar accuracy and strength.

    Accuracies are predicted ones, because those of a new network are unknown. A weak imprint is not expected
    to resemble the others.
    """

    def __init__(self) -> None:
        super().__init__()
        self.known = nn.Buffer(torch.zeros(0, 0))  # imprints of the known networks
        self.usual = nn.Buffer(torch.zeros(0, 3))  # accuracy, strength and likeness of each known network
        resize_buffers(self, "known", "usual")

    @torch.no_grad()
    def fit(self, found: Sequence[Found | None], accuracies: Tensor) -> Tensor:  # [n]
        """Learn from imprints of training and validation networks, given their predicted accuracies `[n]`.

        Return their scores, each network compared with the others.
        """
        result = self.usual.new_full((len(found),), -torch.inf)
        there = [i for i, own in enumerate(found) if own is not None]
        given = [own for own in found if own is not None]
        if len({len(own) for own, _ in given}) != 1:
            return result  # imprints cannot be compared
        self.known = nn.Buffer(torch.stack([own for own, _ in given]).to(result))
        strengths = torch.stack([strength for _, strength in given]).to(result)
        near = accuracies.to(result)[there]
        self.usual = nn.Buffer(torch.stack([near, strengths, torch.zeros_like(near)], 1))
        self.usual[:, 2] = self._likeness(self.known, near, known=True)
        result[there] = self._unlikeness(self.known, near, strengths, known=True)
        return result

    @torch.no_grad()
    def forward(self, found: Sequence[Found | None], accuracies: Tensor) -> Tensor:  # [B]
        """Return by how many deviations a network is less like the others than its peers are.

        It is -inf where imprints cannot be compared. Rounded, so that the result is the same for a permuted
        network and in another batch.
        """
        result = self.usual.new_full((len(accuracies),), -torch.inf)
        there = [i for i, own in enumerate(found) if own is not None and len(own[0]) == self.known.shape[1]]
        given = [own for own in found if own is not None and len(own[0]) == self.known.shape[1]]
        if len(self.usual) and there:
            own, strengths = (torch.stack([one[part] for one in given]).to(result) for part in (0, 1))
            result[there] = self._unlikeness(own, accuracies.to(result)[there], strengths)
        return result

    def _unlikeness(self, own: Tensor, accuracies: Tensor, strengths: Tensor, known: bool = False) -> Tensor:
        likeness = self._likeness(own, accuracies, known)
        gaps = (accuracies[:, None] - self.usual[:, 0]) / NEAR_ACCURACY
        weights = _peers(gaps, (strengths[:, None] - self.usual[:, 1]) / NEAR_STRENGTH, known=known)
        mean, square = weights @ self.usual[:, 2], weights @ self.usual[:, 2].square()
        spread = (square - mean.square()).clamp(min=0).sqrt().clamp(min=LEAST_SPREAD)
        return ((mean - likeness) / spread).float().to(own)

    def _likeness(self, own: Tensor, accuracies: Tensor, known: bool = False) -> Tensor:
        """Correlate each imprint with the mean of its peers; Fisher's transform of it. [n]"""
        mean = _peers((accuracies[:, None] - self.usual[:, 0]) / NEAR_ACCURACY, known=known) @ self.known
        alike = F.cosine_similarity(own - own.mean(1, keepdim=True), mean - mean.mean(1, keepdim=True))
        return alike.clamp(-LARGEST, LARGEST).atanh()


def _peers(*gaps: Tensor, known: bool) -> Tensor:  # [B, n]
    """Return how much each known network counts; a known network itself does not."""
    weights = torch.stack(gaps).square().sum(0).div(-2).exp() + LEAST_WEIGHT
    if known:
        weights = weights.fill_diagonal_(0)
    return weights / weights.sum(1, keepdim=True)


def imprint_of(outputs: Tensor) -> Found | None:  # [inputs, outputs]
    """Return outputs without what all inputs or all outputs share. Their size is the strength.

    There is none if outputs are not finite.
    """
    centred = outputs - outputs.mean(0, keepdim=True)
    centred = (centred - centred.mean(1, keepdim=True)).flatten()
    size = centred.square().mean().sqrt().clamp(min=TINY)
    return (centred / size, size.log()) if bool(size.isfinite()) else None
