"""The imprint that training data leaves in a network: which of its outputs have similar weights.

Cosines between the weights of outputs do not change when neurons are permuted, and hardly depend on the
architecture. Networks trained on the same data find the same classes similar, and better networks more so;
networks trained on other data find other classes similar. Statistics of weights do not show this.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch, Stack
from graph_metanetworks.nn.fitted import resize_buffers

FEWEST_OUTPUTS = 4  # fewer have too few pairs to compare
PEERS = 1 / 6  # share of the training networks that are peers: those of similar accuracy
JUDGES = 0.3  # share of the validation networks that a network is compared with
FEWEST = 20  # peers or judges, if there are enough networks


class Imprint(nn.Module):
    """Compare the outputs of a network with those of training networks of similar accuracy.

    Accuracies are predicted ones, because those of a new network are unknown.
    """

    def __init__(self) -> None:
        super().__init__()
        self.relations = nn.Buffer(torch.zeros(0, 0))  # cosines of outputs of the training networks
        self.accuracies = nn.Buffer(torch.zeros(0))  # of the training networks
        self.usual = nn.Buffer(torch.zeros(0, 2))  # accuracy and likeness of each validation network
        resize_buffers(self, "relations", "accuracies", "usual")

    @torch.no_grad()
    def fit(
        self, train: Iterable[Batch], accuracies: Tensor, validation: Iterable[Batch], usual: Tensor
    ) -> None:
        """Learn from training and validation networks; `accuracies` and `usual` are their predictions."""
        known, others = ([own for batch in part for own in relations(batch)] for part in (train, validation))
        widths = {len(own) for own in known + others}
        if len(widths) != 1 or 0 in widths:
            return  # outputs cannot be compared
        self.relations, self.accuracies = nn.Buffer(torch.stack(known)), nn.Buffer(accuracies)
        self.usual = nn.Buffer(torch.stack([usual, self._likeness(torch.stack(others), usual)], 1))

    def judge(self, batch: Batch, accuracies: Tensor) -> list[float]:
        """Return, for each network, the share of validation networks that are more like their peers."""
        if not len(self.usual):
            return [0.0] * len(batch)
        known, likeness = self.usual.unbind(1)
        shares = []
        for own, accuracy in zip(relations(batch), accuracies.split(1), strict=True):
            if len(own) != self.relations.shape[1]:  # another number of outputs
                shares.append(1.0)
                continue
            judges = likeness[_nearest(accuracy, known, JUDGES)]
            shares.append(float((judges > self._likeness(own[None], accuracy)).float().mean()))
        return shares

    def _likeness(self, own: Tensor, accuracies: Tensor) -> Tensor:
        """Correlate each network's relations with the mean of its peers. [n]

        Rounded, so that the result is the same for a permuted network and in another batch.
        """
        peers = self.relations[_nearest(accuracies, self.accuracies, PEERS)].mean(1).to(own)
        return F.cosine_similarity(
            own - own.mean(1, keepdim=True), peers - peers.mean(1, keepdim=True)
        ).float()


def relations(batch: Batch) -> list[Tensor]:
    """Return the cosines between all pairs of outputs of each network, `[pairs]`; empty if there are none."""
    found: dict[int, Tensor] = {}
    for stack in batch.stacks:
        found |= dict(zip(stack.members, _relations(stack), strict=True))
    return [found[member] for member in range(len(batch))]


def _relations(stack: Stack) -> Tensor:  # [networks, pairs]
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
        return torch.zeros(len(stack.members), 0, dtype=torch.float64)
    weights = F.normalize(torch.cat(parts, 2), dim=2)
    one, other = torch.triu_indices(weights.shape[1], weights.shape[1], 1)
    return (weights @ weights.mT)[:, one, other]


def _nearest(numbers: Tensor, known: Tensor, share: float) -> Tensor:  # [B, count]
    count = min(max(FEWEST, round(share * len(known))), len(known))
    return (numbers.double()[:, None] - known.double()).abs().topk(count, largest=False).indices
