"""Imprints: networks that give the same outputs are alike, whatever the size of the outputs."""

import torch
from torch import Tensor

from graph_metanetworks.tasks.accuracy.imprint import Found, Imprint, imprint_of

INPUTS, CLASSES, KNOWN = 12, 4, 90


def answers(pattern: Tensor, seed: int, size: float = 1.0) -> Found:
    generator = torch.Generator().manual_seed(seed)
    noise = 0.5 * torch.randn(pattern.shape, generator=generator)
    offset = torch.randn(len(pattern), 1, generator=generator)  # no softmax sees it
    found = imprint_of(size * (pattern + noise + offset))
    assert found is not None
    return found


def pattern(seed: int) -> Tensor:
    return torch.randn(INPUTS, CLASSES, generator=torch.Generator().manual_seed(seed))


def fitted() -> tuple[Imprint, Tensor]:
    imprint = Imprint()
    return imprint, imprint.fit(
        [answers(pattern(0), seed) for seed in range(KNOWN)], torch.linspace(0.5, 1, KNOWN)
    )


def test_other_answers_are_noticed() -> None:
    imprint, known = fitted()
    accuracies = torch.full((20,), 0.8)
    usual = imprint([answers(pattern(0), seed) for seed in range(500, 520)], accuracies)
    strange = imprint([answers(pattern(1), seed) for seed in range(500, 520)], accuracies)
    assert known.shape == (KNOWN,)
    assert (usual > known.max()).sum() <= 3
    assert (strange > known.max()).all()


def test_what_all_outputs_share_and_their_size_do_not_count() -> None:
    one, strength = answers(pattern(0), 1)
    other, larger = answers(pattern(0), 1, size=3.0)
    assert torch.allclose(one, other, atol=1e-5)
    assert torch.isclose(larger - strength, torch.tensor(3.0).log(), atol=1e-5)


def test_networks_without_an_imprint_have_no_score() -> None:
    imprint, _ = fitted()
    short = imprint_of(pattern(0)[:5])
    scores = imprint([None, short, answers(pattern(0), 1)], torch.full((3,), 0.8))
    assert scores.isinf().tolist() == [True, True, False]
    assert imprint_of(torch.full((INPUTS, CLASSES), torch.nan)) is None


def test_known_networks_without_an_imprint_are_left_out() -> None:
    imprint = Imprint()
    found = [None, *(answers(pattern(0), seed) for seed in range(KNOWN))]
    scores = imprint.fit(found, torch.linspace(0.5, 1, KNOWN + 1))
    assert scores[0] == -torch.inf and scores[1:].isfinite().all()
    nothing = Imprint()
    assert nothing.fit([None, None], torch.ones(2)).tolist() == [-torch.inf] * 2
    assert nothing([answers(pattern(0), 1)], torch.ones(1)).tolist() == [-torch.inf]
