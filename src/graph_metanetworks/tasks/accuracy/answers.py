"""Compare how networks answer to prototypes with how training networks do.

A network of the zoo answers to a prototype with its class. The alignment says how much more its outputs agree
with the classes of prototypes than if they were in another order, in standard deviations over all orders. For
networks that know nothing of these classes it is about standard normal.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import torch
from torch import Tensor, nn

from graph_metanetworks.nn.fitted import resize_buffers
from graph_metanetworks.tasks.accuracy.prototypes import classes_of

NEAR_ACCURACY, NEAR_STRENGTH = 0.15, 0.5  # peers: known networks of similar accuracy and strength
NEAR_ALIGNMENT = 0.7
LEAST_SCORE = (
    2.0  # to flag a network; predicted accuracies of training networks are better than those of others
)
LEAST_WEIGHT = -9.0  # of networks that are not peers; a logarithm
WEAKEST = 0.02  # size of outputs, from which on networks count as equally weak


class Answers(nn.Module):
    """Score how much likelier an alignment is by chance than among peers, as the logarithm of a ratio.

    Peers have a similar accuracy, which is a predicted one because that of a new network is unknown, and
    outputs of similar size.
    """

    def __init__(self) -> None:
        super().__init__()
        self.known = nn.Buffer(torch.zeros(0, 3))  # accuracy, strength and alignment of each known network
        resize_buffers(self, "known")

    @torch.no_grad()
    def fit(self, answers: Sequence[Tensor | None], accuracies: Tensor) -> Tensor:  # [n]
        """Learn from the outputs of training and validation networks on prototypes, and their accuracies.

        Return their scores, each network compared with the others.
        """
        rows = self._rows(answers, accuracies)
        self.known = nn.Buffer(rows[_answered(rows)])
        return self._scores(rows, known=True)

    @torch.no_grad()
    def forward(self, answers: Sequence[Tensor | None], accuracies: Tensor) -> Tensor:  # [B]
        """Return the score of each network; -inf without answers. Rounded: the same for permuted networks."""
        return self._scores(self._rows(answers, accuracies))

    def _rows(self, answers: Sequence[Tensor | None], accuracies: Tensor) -> Tensor:  # [n, 3]
        """Return accuracy, strength and alignment of each network; NaN without answers."""
        rows = self.known.new_full((len(answers), 3), torch.nan)
        rows[:, 0] = accuracies.to(rows)
        for row, own in zip(rows, answers, strict=True):
            if own is not None:
                row[1:] = torch.stack(alignment(own)).to(row)
        return rows

    def _scores(self, rows: Tensor, known: bool = False) -> Tensor:  # [n, 3] -> [n]
        there = _answered(rows)
        result = rows.new_full((len(rows),), -torch.inf)
        if not len(self.known) or not there.any():
            return result
        accuracy, strength, aligned = (rows[there].T[:, :, None] - self.known.T[:, None, :]).unbind()
        near = (accuracy / NEAR_ACCURACY).square() + (strength / NEAR_STRENGTH).square()
        weights = torch.logaddexp(near / -2, torch.full_like(near, LEAST_WEIGHT))
        if known:
            weights = weights.fill_diagonal_(-torch.inf)
        weights = weights.log_softmax(1)
        among_peers = (weights - (aligned / NEAR_ALIGNMENT).square() / 2).logsumexp(1) - log(NEAR_ALIGNMENT)
        by_chance = rows[there, 2].square() / -2
        result[there] = (by_chance - among_peers).float().to(result)
        return result


def _answered(rows: Tensor) -> Tensor:
    return rows.isfinite().all(1)


def alignment(outputs: Tensor) -> tuple[Tensor, Tensor]:  # [prototypes, outputs] -> [], []
    """Return the strength and the alignment of answers.

    >>> strength, aligned = alignment(torch.eye(5).repeat_interleave(4, 0))
    >>> round(float(aligned), 3)  # the largest for five classes
    4.0
    """
    chosen = classes_of(outputs.shape[1])
    table = outputs[:, chosen].view(len(chosen), -1, len(chosen)).mean(1)  # class by class
    table = table - table.mean(0, keepdim=True)
    table = table - table.mean(1, keepdim=True)
    size = table.norm()
    aligned = table.trace() / size.clamp(min=1e-12) * (len(chosen) - 1) ** 0.5
    return (size / len(chosen)).clamp(min=WEAKEST).log(), aligned
