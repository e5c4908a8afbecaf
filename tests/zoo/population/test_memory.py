"""Populations with large activations are split, which changes no result."""

import pytest
import torch
from torch import nn

from graph_metanetworks.zoo.population import memory
from graph_metanetworks.zoo.population.memory import networks_at_once
from graph_metanetworks.zoo.population.schedule import TrainingSchedule
from graph_metanetworks.zoo.population.train import train
from support.classifiers import build, configs, little_batches


def test_the_largest_output_counts() -> None:
    narrow, wide = (nn.Sequential(nn.Linear(8, n), nn.Dropout(0.5), nn.Linear(n, 8)) for n in (16, 1024))
    images = torch.zeros(64, 8)
    before = torch.get_rng_state()
    assert networks_at_once(narrow, images) == 64 * networks_at_once(wide, images)
    assert torch.equal(torch.get_rng_state(), before)
    assert not any(module._forward_hooks for module in narrow.modules())


def test_at_least_two_networks_train() -> None:
    assert networks_at_once(nn.Linear(4, 2**20), torch.zeros(64, 4)) == 2


def test_batch_norms_are_left_as_they_were() -> None:
    network = nn.BatchNorm1d(4)
    networks_at_once(network, torch.randn(8, 4))
    assert int(network.num_batches_tracked) == 0


@pytest.mark.parametrize("limit", [1, 100_000])
def test_results_do_not_depend_on_the_limit(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Split into pairs, or into somewhat larger parts."""
    chosen, schedule = configs("cnn2d", "batch"), TrainingSchedule(steps=3, warmup=1)
    whole = train(build, chosen, (1, 2, 3, 4), little_batches(), schedule, lambda share: None)
    monkeypatch.setattr(memory, "MAX_ACTIVATIONS", limit)
    shares: list[float] = []
    parts = train(build, chosen, (1, 2, 3, 4), little_batches(), schedule, shares.append)
    for a, b in zip(whole, parts, strict=True):
        assert all(torch.allclose(a.state_dict[n], b.state_dict[n], atol=1e-12) for n in a.state_dict)
    assert shares == sorted(shares) and shares[-1] == 1
