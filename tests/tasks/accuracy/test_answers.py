"""Answers to prototypes: how well outputs agree with classes, beside those of similar networks."""

import torch
from torch import Tensor

from graph_metanetworks.tasks.accuracy.answers import Answers, alignment
from graph_metanetworks.tasks.accuracy.prototypes import MOST, classes_of

CLASSES, PER_CLASS, KNOWN = 10, 4, 100


def answers(accuracy: float, seed: int, size: float = 1.0) -> Tensor:
    """Outputs that know their class the better the higher the accuracy is, as far as chance knows it."""
    generator = torch.Generator().manual_seed(seed)
    right = torch.eye(CLASSES).repeat_interleave(PER_CLASS, 0)
    known = max(0.0, accuracy - 1 / CLASSES)
    return size * (3 * known * right + 0.5 * torch.randn(right.shape, generator=generator))


def fitted() -> tuple[Answers, Tensor]:
    accuracies, judge = torch.linspace(0.1, 1, KNOWN), Answers()
    return judge, judge.fit([answers(float(a), i) for i, a in enumerate(accuracies)], accuracies)


def test_alignment_is_standard_normal_by_chance_and_largest_for_the_right_classes() -> None:
    found = torch.stack([alignment(answers(0.1, seed))[1] for seed in range(300)])
    assert abs(float(found.mean())) < 0.2 and 0.8 < float(found.std()) < 1.2
    assert float(alignment(answers(1.0, 0, size=2.0))[1]) > 6
    strength, aligned = alignment(answers(1.0, 0))
    larger, same = alignment(answers(1.0, 0, size=2.0) + torch.randn(CLASSES * PER_CLASS, 1))
    assert torch.isclose(larger - strength, torch.tensor(2.0).log(), atol=1e-5)
    assert torch.isclose(aligned, same, atol=1e-4)


def test_networks_that_know_other_classes_stand_out_unless_they_look_weak() -> None:
    judge, known = fitted()
    assert known.shape == (KNOWN,) and known.isfinite().all()
    usual = judge([answers(0.9, seed) for seed in range(500, 520)], torch.full((20,), 0.9))
    renamed = [answers(0.9, seed).roll(1, dims=1) for seed in range(500, 520)]
    strange = judge(renamed, torch.full((20,), 0.9))
    weak = judge([answers(0.1, seed) for seed in range(500, 520)], torch.full((20,), 0.1))
    assert strange.min() > max(usual.max(), known.max(), weak.max()) + 1


def test_networks_without_answers_have_no_score() -> None:
    judge, _ = fitted()
    broken = torch.full((CLASSES * PER_CLASS, CLASSES), torch.nan)
    scores = judge([None, broken, answers(0.9, 1)], torch.full((3,), 0.9))
    assert scores[:2].tolist() == [-torch.inf] * 2 and scores[2].isfinite()
    nothing = Answers()
    assert nothing.fit([None, None], torch.ones(2)).tolist() == [-torch.inf] * 2
    assert nothing([answers(0.9, 1)], torch.ones(1)).tolist() == [-torch.inf]


def test_answers_to_some_of_many_classes() -> None:
    outputs = torch.randn(MOST, 1000)
    outputs[torch.arange(MOST), classes_of(1000)] += 5
    assert float(alignment(outputs)[1]) > 20
