"""Novelty: how far a network is from the training networks, by statistics of weights and by its outputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch, Stack
from graph_metanetworks.nn.baselines.statistics import WeightStatistics
from graph_metanetworks.nn.fitted import resize_buffers
from graph_metanetworks.table import listed
from graph_metanetworks.tasks.accuracy.imprint import Imprint

NEIGHBOURS = 5
EXACT = "donot_use_mm_for_euclid_dist"  # products lose the digits of small distances
FAR = 0.99  # a network farther away than this share of the validation networks is out of distribution


@dataclass(frozen=True)
class NoveltyScore:
    """How novel a network is.

    Args:
        distance: to the nearest training networks.
        share: of the validation networks that are nearer to the training networks.
        unlike: share of the validation networks of similar accuracy whose outputs are more typical.
    """

    distance: float
    share: float
    unlike: float = 0.0
    unknown: tuple[str, ...] = ()  # kinds of edges that no training network has
    missing: tuple[str, ...] = ()  # kinds of edges that all training networks have, but not this one

    @property
    def is_far(self) -> bool:
        return self.share > FAR

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
        if self.is_far:
            share = "any" if self.share == 1 else f"{min(self.share, 0.999):.1%}"
            return f"it is farther from the training zoo than {share} of the validation networks"
        if self.unlike > FAR:
            return (
                "its output weights do not resemble those of the training networks; was it trained on other "
                "data?"
            )
        return ""


class Novelty(nn.Module):
    """Mean distance to the nearest training networks, in statistics of weights by kind of edge.

    The features do not come from the predictor: what it has learned to ignore may be what is new.
    """

    def __init__(self) -> None:
        super().__init__()
        self.statistics = WeightStatistics("kind", unknown="ignore")
        self.imprint = Imprint()
        self.known = nn.Buffer(torch.zeros(0, 0))  # features of the training networks
        self.usual = nn.Buffer(torch.zeros(0))  # distances of the validation networks, ascending
        resize_buffers(self, "known", "usual")

    @torch.no_grad()
    def fit(self, train: Iterable[Batch], validation: Iterable[Batch]) -> None:
        """Learn from training and validation networks; `train` is iterated over twice."""
        self.statistics.fit(train)
        self.known = nn.Buffer(torch.cat([self.statistics(batch) for batch in train]))
        kept = [self.distances(batch) for batch in validation]
        self.usual = nn.Buffer(torch.cat(kept).sort().values)

    @torch.no_grad()
    def distances(self, batch: Batch) -> Tensor:  # [B]
        """Return distances, rounded so that they are the same for permuted networks and in another batch."""
        gaps = torch.cdist(self.statistics(batch), self.known, compute_mode=EXACT)
        nearest = gaps.topk(min(NEIGHBOURS, len(self.known)), dim=1, largest=False).values
        return nearest.mean(1).float().to(self.known)

    def judge(self, batch: Batch, accuracies: Tensor) -> list[NoveltyScore]:
        """Judge the networks of a batch, given their predicted accuracies `[B]`."""
        distances = self.distances(batch)
        nearer = torch.searchsorted(self.usual, distances) / max(1, len(self.usual))
        kinds = {}
        for stack in batch.stacks:
            kinds |= dict.fromkeys(stack.members, self._other_kinds(stack))
        judged = zip(distances.tolist(), nearer.tolist(), self.imprint.judge(batch, accuracies), strict=True)
        return [
            NoveltyScore(distance, 1.0 if any(kinds[member]) else share, unlike, *kinds[member])
            for member, (distance, share, unlike) in enumerate(judged)
        ]

    def _other_kinds(self, stack: Stack) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return kinds of edges that no training network has, and kinds that all have but these lack."""
        own = self.statistics.columns_of(stack)
        known = self.statistics.fitted_names
        everywhere = self.known.view(len(self.known), len(known), -1)[..., -1].bool().all(0).tolist()
        usual = [kind for kind, always in zip(known, everywhere, strict=True) if always]
        return _named(k for k in own if k not in known), _named(k for k in usual if k not in own)


def _named(columns: Iterable[str]) -> tuple[str, ...]:
    return tuple(column.removeprefix("kind ") for column in columns)
