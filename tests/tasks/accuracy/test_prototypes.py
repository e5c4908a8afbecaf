"""Prototypes: inputs for each class, made from trained networks alone, and how networks answer to them."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import graph_metanetworks as gmn
from graph_metanetworks.tasks.accuracy import prototypes
from graph_metanetworks.tasks.accuracy.novelty import Novelty
from graph_metanetworks.tasks.accuracy.prototypes import Form, Prototypes

CLASSES, FEATURES = 4, 6
Networks = list[tuple[gmn.ParameterGraph, dict[str, Tensor]]]


class Rounded(nn.Module):
    """A network that cannot be run again: it computes with a number that it read from its input."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * float(x.sum() + 1)


def examples(seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(CLASSES).repeat(40)
    means = 3 * torch.randn(CLASSES, FEATURES, generator=torch.Generator().manual_seed(9))
    return means[labels] + torch.randn(len(labels), FEATURES, generator=generator), labels


def trained(seeds: range, roll: int = 0) -> Networks:
    """MLPs of two widths, trained on the same blobs, with the classes renamed."""
    images, labels = examples()
    made = []
    for seed in seeds:
        torch.manual_seed(seed)
        width = (8, 12)[seed % 2]
        model = nn.Sequential(nn.Linear(FEATURES, width), nn.ReLU(), nn.Linear(width, CLASSES))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
        for _ in range(20):
            optimizer.zero_grad()
            cross_entropy(model(images), (labels + roll) % CLASSES).backward()
            optimizer.step()
        if width not in GRAPHS:
            GRAPHS[width] = gmn.trace(model, torch.zeros(1, FEATURES))
        made.append((GRAPHS[width], model.state_dict()))
    return made


GRAPHS: dict[int, gmn.ParameterGraph] = {}


@pytest.fixture(scope="module")
def networks() -> Networks:
    return trained(range(60))


@pytest.fixture(scope="module")
def novelty(networks: Networks) -> Novelty:
    novelty = Novelty().double()
    train, validation = (gmn.collate(part) for part in (networks[:40], networks[40:]))
    novelty.fit([train], [validation], torch.full((60,), 0.9))
    novelty.untrained.fit([train], [train])  # nothing looks untrained
    return novelty


def test_networks_assign_prototypes_to_their_classes(novelty: Novelty) -> None:
    assert novelty.prototypes.fitted_names == (f"{CLASSES} outputs of 1x{FEATURES}",)
    labels = Form(CLASSES, (1, FEATURES)).labels
    answers = novelty.prototypes(gmn.collate(trained(range(100, 110))))
    right = [(own.argmax(1) == labels).double().mean() for own in answers if own is not None]
    assert len(right) == 10 and min(right) > 0.9


def test_networks_with_renamed_classes_are_flagged(novelty: Novelty) -> None:
    batches = [gmn.collate(trained(range(200, 220), roll)) for roll in (0, 1)]
    same, renamed = (novelty.judge(batch, torch.full((20,), 0.9)) for batch in batches)
    assert sum(bool(one.warning) for one in same) <= 3
    assert all("prototypes" in one.warning for one in renamed)


def test_permuted_networks_have_the_same_score(novelty: Novelty, networks: Networks) -> None:
    generator = torch.Generator().manual_seed(0)
    permuted = [(graph, graph.symmetry.sample(generator).apply(own)) for graph, own in networks]
    accuracies = torch.full((60,), 0.9)
    one, other = (
        novelty.answers(novelty.prototypes(gmn.collate(own)), accuracies) for own in (networks, permuted)
    )
    assert torch.equal(one, other)


def test_a_fresh_detector_loads_them(novelty: Novelty, networks: Networks) -> None:
    again = Novelty().double()
    again.load_state_dict(novelty.state_dict())
    batch, accuracies = gmn.collate(networks[:6]), torch.full((6,), 0.9)
    assert again.judge(batch, accuracies) == novelty.judge(batch, accuracies)
    found = zip(again.prototypes(batch), novelty.prototypes(batch), strict=True)
    assert all(one is not None and torch.equal(one, other) for one, other in found)


def test_making_them_draws_no_random_numbers_and_is_repeatable(networks: Networks) -> None:
    state = torch.random.get_rng_state()
    one, other = Prototypes().double(), Prototypes().double()
    for own in (one, other):
        own.fit([gmn.collate(networks[:8])], torch.ones(8))
    assert torch.equal(one.inputs, other.inputs)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_another_number_of_outputs_is_flagged(novelty: Novelty) -> None:
    model = nn.Sequential(nn.Linear(FEATURES, 8), nn.ReLU(), nn.Linear(8, CLASSES + 1))
    batch = gmn.collate([(gmn.trace(model, torch.zeros(1, FEATURES)), model.state_dict())])
    (found,) = novelty.judge(batch, torch.ones(1))
    assert f"it has {CLASSES + 1} outputs" in found.warning


def test_other_inputs_have_no_score(novelty: Novelty) -> None:
    model = nn.Sequential(nn.Linear(FEATURES + 1, 8), nn.ReLU(), nn.Linear(8, CLASSES))
    batch = gmn.collate([(gmn.trace(model, torch.zeros(1, FEATURES + 1)), model.state_dict())])
    assert novelty.prototypes(batch) == [None]


def test_networks_that_cannot_be_run_have_no_prototypes() -> None:
    model = Rounded()
    graph = gmn.trace(model, torch.zeros(1, FEATURES))
    batch = gmn.collate([(graph, {k: torch.randn_like(v) for k, v in model.state_dict().items()})] * 8)
    novelty = Novelty().double()
    novelty.fit([batch], [batch], torch.ones(16))
    assert novelty.prototypes.fitted_names == ()
    assert not any(one.unusual[2] for one in novelty.judge(batch, torch.ones(8)))


def test_many_classes_share_the_prototypes() -> None:
    few, many = Form(3, (1, 5)), Form(1000, (1, 5))
    assert few.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert len(many.labels) == prototypes.MOST and int(many.labels[-1]) == 999
    assert Form.parse(str(many)) == many
