"""Novelty: whether a network is unlike the training networks, and why.

Scores say how novel a network is: how far its weights are from those of the training networks, what its batch
norms tell of its data, and what its outputs on prototypes and on probes are. A score that is higher than in
nearly all known networks flags a network. Networks that look untrained, or that have other kinds of layers or
another number of outputs, are flagged too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch, Stack
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.nn.baselines.statistics import WeightStatistics
from graph_metanetworks.nn.fitted import resize_buffers
from graph_metanetworks.nn.probes import Probes
from graph_metanetworks.table import listed
from graph_metanetworks.tasks.accuracy.answers import LEAST_SCORE, Answers
from graph_metanetworks.tasks.accuracy.imprint import Found, Imprint, imprint_of
from graph_metanetworks.tasks.accuracy.input_statistics import InputStatistics
from graph_metanetworks.tasks.accuracy.prototypes import Prototypes, num_outputs
from graph_metanetworks.tasks.accuracy.untrained import Untrained

NEIGHBOURS = 5
EXACT = "donot_use_mm_for_euclid_dist"  # products lose the digits of small distances
RARE = 0.01  # share of the known networks that may be flagged, by all scores together
ANSWERS = 2  # which score is that of answers to prototypes
OTHER_DATA = "was it trained on other data?"
REASONS = (  # one for each score
    "its weights are farther from those of the training networks than usual",
    f"its batch norms have seen other inputs than those of the training networks; {OTHER_DATA}",
    f"it does not answer to prototypes of the classes as the training networks do; {OTHER_DATA}",
    f"its outputs on probes do not resemble those of the training networks; {OTHER_DATA}",
)


@dataclass(frozen=True)
class NoveltyScore:
    """Why a network is novel, if it is."""

    unusual: tuple[bool, ...] = ()  # which scores are higher than usual
    untrained: bool = False  # its weights are as initialisation leaves them
    unknown: tuple[str, ...] = ()  # kinds of edges that no training network has
    missing: tuple[str, ...] = ()  # kinds of edges that all training networks have, but not this one
    outputs: tuple[int, int] | None = None  # its number, and that of all training networks if it is another

    @property
    def warning(self) -> str:
        """Say why not to trust a prediction; empty if there is no reason."""
        reason = self._reason
        return f"out of distribution: {reason}" if reason else ""

    @property
    def _reason(self) -> str:
        if self.unknown:
            return f"it has {listed(self.unknown)}, which no network of the training zoo has"
        if self.missing:
            return f"it has no {listed(self.missing)}, which all networks of the training zoo have"
        if self.outputs:
            own, usual = self.outputs
            return f"it has {own} outputs, but the networks of the training zoo have {usual}"
        if self.untrained:
            return "it looks untrained: its weights are as initialisation leaves them"
        found = [reason for reason, own in zip(REASONS, self.unusual, strict=False) if own]
        return found[-1] if found else ""  # the last ones say most


class Novelty(nn.Module):
    """Scores of networks, and thresholds that few training and validation networks exceed.

    Only the predicted accuracy and probes come from the predictor: what it has learned to ignore may be what
    is new.
    """

    def __init__(self) -> None:
        super().__init__()
        self.statistics = WeightStatistics("kind", unknown="ignore")
        self.prototypes = Prototypes()
        self.answers, self.responses = Answers(), Imprint()  # outputs on prototypes, and on probes
        self.inputs = InputStatistics()
        self.untrained = Untrained()
        self.known = nn.Buffer(torch.zeros(0, 0))  # features of the training networks
        self.thresholds = nn.Buffer(torch.full((len(REASONS),), torch.inf))
        self.accuracies = nn.Buffer(torch.zeros(0))  # predicted for the training networks
        self.outputs = nn.Buffer(torch.zeros(0, dtype=torch.long))  # numbers of outputs of training networks
        resize_buffers(self, "known", "accuracies", "outputs")

    @torch.no_grad()
    def fit(
        self,
        train: Iterable[Batch],
        validation: Iterable[Batch],
        accuracies: Tensor,
        probes: Probes | None = None,
    ) -> None:
        """Learn from training and validation networks and their predicted accuracies.

        Both are iterated over repeatedly. Training networks help to set thresholds: each is compared with the
        others.
        """
        everything = [*train, *validation]
        self.statistics.fit(train)
        self.known = nn.Buffer(torch.cat([self.statistics(batch) for batch in train]))
        self.inputs.fit(train)
        self.accuracies = nn.Buffer(accuracies[: len(self.known)].to(self.known))
        among = torch.cdist(self.known, self.known, compute_mode=EXACT).fill_diagonal_(torch.inf)
        gaps = torch.cat([among, *(self._gaps(batch) for batch in validation)])
        looks = self._looks(gaps, accuracies, probes)
        self.prototypes.fit(train, accuracies)
        self.outputs = nn.Buffer(torch.tensor(sorted({num_outputs(g) for b in train for g in b.graphs})))
        scores = [
            _nearest(gaps)[0],
            torch.cat([self.inputs(batch) for batch in everything]),
            self.answers.fit([own for batch in everything for own in self.prototypes(batch)], looks),
            self.responses.fit([own for b in everything for own in _responses(probes, b)], accuracies),
        ]
        self.thresholds = nn.Buffer(_thresholds(scores))
        self.thresholds[ANSWERS].clamp_(min=LEAST_SCORE)

    def _gaps(self, batch: Batch) -> Tensor:  # [B, n]
        return torch.cdist(self.statistics(batch), self.known, compute_mode=EXACT)

    def _looks(self, gaps: Tensor, accuracies: Tensor, probes: Probes | None) -> Tensor:  # [B]
        """Return how accurate networks look by their weights.

        Probes show that a network trained on other data is bad at this one, but its weights are those of a
        good network, and must be compared with good ones.
        """
        if probes is None:
            return accuracies
        similar = self.accuracies[_nearest(gaps)[1]].mean(1)
        return torch.maximum(accuracies.to(similar), similar).float()

    @torch.no_grad()
    def judge(self, batch: Batch, accuracies: Tensor, probes: Probes | None = None) -> list[NoveltyScore]:
        """Judge the networks of a batch, given predicted accuracies `[B]`, and the predictor's probes."""
        gaps = self._gaps(batch)
        scores = [
            _nearest(gaps)[0],
            self.inputs(batch),
            self.answers(self.prototypes(batch), self._looks(gaps, accuracies, probes)),
            self.responses(_responses(probes, batch), accuracies),
        ]
        unusual = torch.stack(scores, 1) > self.thresholds
        kinds = {}
        for stack in batch.stacks:
            kinds |= dict.fromkeys(stack.members, self._other_kinds(stack))
        judged = zip(unusual.tolist(), self.untrained.judge(batch), batch.graphs, strict=True)
        return [
            NoveltyScore(tuple(own), untrained, *kinds[member], outputs=self._other_outputs(graph))
            for member, (own, untrained, graph) in enumerate(judged)
        ]

    def _other_outputs(self, graph: ParameterGraph) -> tuple[int, int] | None:
        """Return the number of outputs, and that of the training networks if it is another one."""
        own, usual = num_outputs(graph), self.outputs.tolist()
        return (own, usual[0]) if len(usual) == 1 and own != usual[0] else None

    def _other_kinds(self, stack: Stack) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return kinds of edges that no training network has, and kinds that all have but these lack."""
        own = self.statistics.columns_of(stack)
        known = self.statistics.fitted_names
        everywhere = self.known.view(len(self.known), len(known), -1)[..., -1].bool().all(0).tolist()
        usual = [kind for kind, always in zip(known, everywhere, strict=True) if always]
        return _named(k for k in own if k not in known), _named(k for k in usual if k not in own)


def _nearest(gaps: Tensor) -> tuple[Tensor, Tensor]:  # [B, n] -> [B], [B, k]
    """Return the mean distance to the nearest known networks, and which they are.

    Distances are rounded, so that they are the same for permuted networks and in another batch.
    """
    count = max(1, min(NEIGHBOURS, gaps.shape[1] - 1))
    found = gaps.topk(count, dim=1, largest=False)
    return found.values.mean(1).float().to(gaps), found.indices


def _thresholds(scores: list[Tensor]) -> Tensor:
    """Return the threshold of each score, the same number of known networks beyond each.

    It is the largest number for which few networks are beyond any of them.

    >>> _thresholds([torch.arange(200.0), torch.arange(200.0).flip(0)])  # one of 200 is beyond each
    tensor([198., 198.])
    """
    stacked = torch.stack(scores)  # [scores, n]
    ordered, order = stacked.sort(dim=1, descending=True)
    ranks = order.argsort(dim=1).where(
        stacked.isfinite(), stacked.shape[1] - 1
    )  # the last if it has no score
    best = ranks.min(0).values.sort().values
    found = ordered[:, best[int(RARE * len(best))]]
    return torch.where(found.isfinite(), found, torch.inf)  # too few networks have this score


def _responses(probes: Probes | None, batch: Batch) -> list[Found | None]:
    if probes is None:
        return [None] * len(batch)
    return [imprint_of(own) for own in probes(batch.to(torch.float64)).outputs]


def _named(columns: Iterable[str]) -> tuple[str, ...]:
    return tuple(column.removeprefix("kind ") for column in columns)
