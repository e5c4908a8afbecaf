"""The contrastive loss: find the other view of a network among all views of a batch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize


def similarities(projections: Tensor) -> tuple[Tensor, Tensor]:
    """Return cosines between all views `[2 B, 2 B]`, and the place of the other view of each `[2 B]`.

    The first half of the rows holds one view of each network, the second half the other one. No view is
    similar to itself.
    """
    rows = normalize(projections, dim=1)
    count = len(rows)
    cosines = (rows @ rows.t()).masked_fill(
        torch.eye(count, dtype=torch.bool, device=rows.device), -torch.inf
    )
    return cosines, torch.arange(count, device=rows.device).roll(count // 2)


def info_nce(projections: Tensor, temperature: float) -> Tensor:
    r"""Return the NT-Xent loss of SimCLR (Chen et al., 2020), `[2 B, d] -> []`.

    >>> both = torch.eye(4).repeat(2, 1)  # views agree, networks differ
    >>> round(float(info_nce(both, 0.1)), 4)
    0.0003
    """
    cosines, other = similarities(projections)
    return cross_entropy(cosines / temperature, other)


def retrieval(projections: Tensor) -> Tensor:
    """Return for each view whether the other view of its network is the most similar one. [2 B]

    >>> retrieval(torch.eye(4).repeat(2, 1)).all().item()
    True
    """
    cosines, other = similarities(projections)
    return cosines.argmax(dim=1) == other
