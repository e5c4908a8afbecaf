"""The imprint that training data leaves in a network: which of its outputs have similar weights.

Cosines between the weights of outputs do not change when neurons are permuted, and hardly depend on the
architecture. Networks trained on the same data find the same classes similar, and better networks more so;
networks trained on other data find other classes similar. Statistics of weights do not show this. Where
networks are run on probes, their outputs are another imprint.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch, Stack
from graph_metanetworks.nn.fitted import resize_buffers
from graph_metanetworks.nn.probes import Probes

FEWEST_OUTPUTS = 4  # fewer have too few pairs to compare
NEAR_ACCURACY = 0.1  # peers: training networks of similar accuracy and strength
NEAR_STRENGTH = 0.2
LEAST_WEIGHT = 1e-4  # of networks that are not peers
LEAST_SPREAD = 0.1
LARGEST = 0.99  # correlation
Found = tuple[Tensor, Tensor]  # the imprint of a network, `[pairs]`, and its strength, `[]`


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
    def fit(self, found: Sequence[Found], accuracies: Tensor) -> None:
        """Learn from imprints of training and validation networks, given their predicted accuracies `[n]`."""
        widths = {len(own) for own, _ in found}
        if len(widths) != 1 or 0 in widths:
            return  # outputs cannot be compared
        self.known = nn.Buffer(torch.stack([own for own, _ in found]))
        strengths = torch.stack([strength for _, strength in found])
        none = torch.zeros_like(strengths)
        self.usual = nn.Buffer(torch.stack([accuracies.to(strengths), strengths, none], 1))
        self.usual[:, 2] = self._likeness(self.known, self.usual[:, 0], known=True)

    @torch.no_grad()
    def forward(self, found: Sequence[Found], accuracies: Tensor) -> Tensor:  # [B]
        """Return by how many deviations a network is less like the others than its peers are.

        It is -inf where imprints cannot be compared, and inf for another number of outputs. Rounded, so that
        the result is the same for a permuted network and in another batch.
        """
        result = self.usual.new_full((len(accuracies),), torch.inf if len(self.usual) else -torch.inf)
        same = [i for i, (own, _) in enumerate(found) if len(own) == self.known.shape[1]]
        if not len(self.usual) or not same:
            return result
        own, strengths = (torch.stack([found[i][part] for i in same]).to(result) for part in (0, 1))
        result[same] = self._unlikeness(own, accuracies.to(result)[same], strengths)
        return result

    @torch.no_grad()
    def known_scores(self) -> Tensor:  # [n]
        """Return the scores of the networks that it was fitted to, each compared with the others."""
        accuracies, strengths, _ = self.usual.unbind(1)
        return self._unlikeness(self.known, accuracies, strengths, known=True)

    def _unlikeness(self, own: Tensor, accuracies: Tensor, strengths: Tensor, known: bool = False) -> Tensor:
        likeness = self._likeness(own, accuracies, known)
        gaps = (accuracies[:, None] - self.usual[:, 0]) / NEAR_ACCURACY
        weights = _peers(gaps, (strengths[:, None] - self.usual[:, 1]) / NEAR_STRENGTH, known=known)
        mean, square = weights @ self.usual[:, 2], weights @ self.usual[:, 2].square()
        spread = (square - mean.square()).clamp(min=0).sqrt().clamp(min=LEAST_SPREAD)
        return ((mean - likeness) / spread).float().to(own)

    def _likeness(self, own: Tensor, accuracies: Tensor, known: bool = False) -> Tensor:
        """Correlate each network's relations with the mean of its peers; Fisher's transform of it. [n]"""
        mean = _peers((accuracies[:, None] - self.usual[:, 0]) / NEAR_ACCURACY, known=known) @ self.known
        alike = F.cosine_similarity(own - own.mean(1, keepdim=True), mean - mean.mean(1, keepdim=True))
        return alike.clamp(-LARGEST, LARGEST).atanh()


def _peers(*gaps: Tensor, known: bool) -> Tensor:  # [B, n]
    """Return how much each known network counts; a known network itself does not."""
    weights = torch.stack(gaps).square().sum(0).div(-2).exp() + LEAST_WEIGHT
    if known:
        weights = weights.fill_diagonal_(0)
    return weights / weights.sum(1, keepdim=True)


def responses(probes: Probes, batch: Batch) -> list[Found]:
    """Return outputs on probes, without what all classes or all probes share. Their size is the strength."""
    outputs = probes(batch.to(torch.float64)).outputs
    centred = outputs - outputs.mean(1, keepdim=True)
    centred = (centred - centred.mean(2, keepdim=True)).flatten(1)
    size = centred.square().mean(1, keepdim=True).sqrt().clamp(min=1e-12)
    return list(zip(centred / size, size[:, 0].log(), strict=True))


def relations(batch: Batch) -> list[Found]:
    """Return the cosines between all pairs of outputs. Their size beside that of random ones is the strength.

    There are no pairs if outputs have no weights of their own.
    """
    found: dict[int, Found] = {}
    for stack in batch.stacks:
        found |= dict(zip(stack.members, zip(*_relations(stack), strict=True), strict=True))
    return [found[member] for member in range(len(batch))]


def _relations(stack: Stack) -> tuple[Tensor, Tensor]:  # [networks, pairs], [networks]
    graph, parts = stack.graph, []
    for number, block in enumerate(graph.blocks):
        outputs = block.target.reshape(-1)
        kinds = {graph.node_kinds[kind] for kind in graph.node_kind[outputs].tolist()}
        few = len(outputs) < FEWEST_OUTPUTS
        if few or kinds != {"output"} or block.kind.endswith("bias") or block.parameter is None:
            continue
        along = max(range(block.target.dim()), key=lambda d, shape=block.target.shape: shape[d])
        values = stack.block_values(number)[..., 0].double().movedim(1 + along, 1)
        rows = values.reshape(*values.shape[:2], -1)  # [networks, outputs, weights of each]
        parts.append(rows[:, graph.node_index[outputs].argsort()])
    if len({part.shape[1] for part in parts}) != 1:
        return torch.zeros(len(stack.members), 0, dtype=torch.float64), torch.zeros(len(stack.members))
    weights = F.normalize(torch.cat(parts, 2), dim=2)
    one, other = torch.triu_indices(weights.shape[1], weights.shape[1], 1)
    cosines = (weights @ weights.mT)[:, one, other]
    return cosines, (cosines.square().mean(1) * weights.shape[2]).clamp(min=1e-12).log() / 2
