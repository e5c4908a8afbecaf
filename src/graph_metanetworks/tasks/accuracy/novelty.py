"""How unlike the training zoo a network is: by statistics of its weights, and by what its outputs share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from graph_metanetworks.batch import Batch
from graph_metanetworks.nn.baselines.statistics import WeightStatistics
from graph_metanetworks.nn.growing import resize_on_load
from graph_metanetworks.tasks.accuracy.imprint import Imprint

NEIGHBOURS = 5
FAR = 0.99  # a network farther away than this share of the validation networks is out of distribution


@dataclass(frozen=True)
class Strangeness:
    """`share`: of the validation networks, how many are nearer to the training zoo.

    `unlike`: of those of about the same accuracy, how many have outputs that are more like the ones there.
    """

    distance: float
    share: float
    unlike: float = 0.0
    unknown: tuple[str, ...] = ()  # kinds of edges that no network of the training zoo has

    @property
    def is_far(self) -> bool:
        return self.share > FAR

    @property
    def warning(self) -> str:
        """Why not to trust a prediction; empty if there is no reason."""
        if self.unknown:
            return f"out of distribution: no network of the training zoo has the {', '.join(self.unknown)}"
        if self.is_far:
            return (
                f"out of distribution: farther from the training zoo than {self.share:.1%} of its validation "
                "networks"
            )
        if self.unlike > FAR:
            return (
                "out of distribution: its outputs are not alike as those of the training zoo's networks are; "
                "was it trained on other data?"
            )
        return ""


class Novelty(nn.Module):
    """Mean distance to the nearest networks of a training zoo, in statistics of weights by kind of edge.

    The features do not come from the predictor: what it has learned to ignore may be what is strange.
    """

    def __init__(self) -> None:
        super().__init__()
        self.statistics = WeightStatistics("kind", unknown="ignore")
        self.imprint = Imprint()
        self.known = nn.Buffer(torch.zeros(0, 0))  # features of the training networks
        self.usual = nn.Buffer(torch.zeros(0))  # distances of the validation networks, ascending
        resize_on_load(self, "known", "usual")

    @property
    def scales(self) -> tuple[str, ...]:
        return self.statistics.columns

    def make_tables(self, columns: Iterable[str]) -> None:
        self.statistics.make_tables(columns)

    @torch.no_grad()
    def fit(self, train: Iterable[Batch], validation: Iterable[Batch]) -> None:
        """`train` is gone through twice: scales first, then features."""
        self.statistics.fit(train)
        self.known = nn.Buffer(torch.cat([self.statistics(batch) for batch in train]))
        kept = [self.distances(batch) for batch in validation]
        self.usual = nn.Buffer(torch.cat(kept).sort().values)

    @torch.no_grad()
    def distances(self, batch: Batch) -> Tensor:  # [B]
        gaps = torch.cdist(self.statistics(batch), self.known)
        return gaps.topk(min(NEIGHBOURS, len(self.known)), dim=1, largest=False).values.mean(1)

    def judge(self, batch: Batch, accuracies: Tensor) -> list[Strangeness]:
        """`accuracies` are those that are predicted. [B]"""
        distances = self.distances(batch)
        nearer = torch.searchsorted(self.usual, distances) / max(1, len(self.usual))
        unknown = {
            member: tuple(self.statistics.unknown(stack))
            for stack in batch.stacks
            for member in stack.members
        }
        judged = zip(distances.tolist(), nearer.tolist(), self.imprint.judge(batch, accuracies), strict=True)
        return [
            Strangeness(distance, 1.0 if unknown[member] else share, unlike, unknown[member])
            for member, (distance, share, unlike) in enumerate(judged)
        ]
