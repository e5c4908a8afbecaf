"""Fresh networks are told from trained ones, and what batch norms tell of the data."""

import numpy as np
import torch
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks.tasks.accuracy import LabelledZoo
from graph_metanetworks.tasks.accuracy.input_statistics import InputStatistics
from graph_metanetworks.tasks.accuracy.novelty import Novelty, NoveltyScore, _thresholds
from graph_metanetworks.tasks.accuracy.untrained import Untrained, fresh_networks

CONFIGS = [(width, norm) for width in (8, 12) for norm in (True, False)]


def networks(seed: int, moved: float, count: int = 40) -> gmn.Batch:
    """Small CNNs, fresh or with all their weights moved by some percent."""
    torch.manual_seed(seed)
    made = []
    for number in range(count):
        width, norm = CONFIGS[number % len(CONFIGS)]
        layers = [nn.Conv2d(1, width, 3), nn.BatchNorm2d(width) if norm else nn.Identity(), nn.ReLU()]
        model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(width * 36, 5)).eval()
        graph = GRAPHS.setdefault((width, norm), gmn.trace(model, torch.zeros(1, 1, 8, 8)))
        weights = {
            name: x + moved * torch.randn(x.shape) if x.is_floating_point() else x
            for name, x in model.state_dict().items()
        }
        made.append((graph, weights))
    return gmn.collate(made)


GRAPHS: dict[tuple[int, bool], gmn.ParameterGraph] = {}


def test_fresh_networks_look_untrained_and_moved_ones_do_not() -> None:
    untrained = Untrained().double()
    untrained.fit([networks(0, 0.0)], [networks(1, 0.1)])
    assert all(untrained.judge(networks(2, 0.0)))
    assert not any(untrained.judge(networks(3, 0.1)))
    again = Untrained().double()
    again.load_state_dict(untrained.state_dict())
    assert again.judge(networks(2, 0.0)) == untrained.judge(networks(2, 0.0))


def test_nothing_looks_untrained_if_trained_networks_do() -> None:
    untrained = Untrained().double()
    untrained.fit([networks(0, 0.0)], [networks(1, 0.0)])
    assert not any(untrained.judge(networks(2, 0.0)))


def test_fresh_networks_are_those_of_the_recipe(data: LabelledZoo) -> None:
    state = torch.random.get_rng_state()
    batches = fresh_networks(data.networks, np.arange(10), 4)
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert torch.equal(torch.random.get_rng_state(), state)


def normed(seed: int, inputs: Tensor) -> gmn.Batch:
    """Networks whose batch norm has seen these inputs, `[n, 4]`."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).eval()
    graph, made = gmn.trace(model, torch.zeros(1, 4)), []
    for _ in range(20):
        weights = model.state_dict() | {"0.weight": torch.randn(6, 4)}
        weights["1.running_var"] = (inputs @ weights["0.weight"].T).var(0)
        made.append((graph, weights))
    return gmn.collate(made)


def test_batch_norms_tell_of_other_inputs() -> None:
    torch.manual_seed(0)
    ours, others = torch.randn(500, 4), torch.randn(500, 4) @ torch.randn(4, 4)
    statistics = InputStatistics().double()
    statistics.fit([normed(0, ours), normed(1, ours)])
    assert statistics.fitted_names == ("linear weight 4",)
    assert statistics(normed(2, ours)).max() < statistics(normed(3, others)).min() - 1
    again = InputStatistics().double()
    again.load_state_dict(statistics.state_dict())
    assert torch.equal(again(normed(2, ours)), statistics(normed(2, ours)))
    batch = networks(0, 0.0, count=2)  # another first layer
    assert statistics(batch).tolist() == [-torch.inf] * 2


def test_few_known_networks_are_beyond_any_threshold() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = list(torch.randn(3, 1000, generator=generator))
    scores[1][:900] = -torch.inf  # most networks have no such score
    scores.append(torch.full((1000,), -torch.inf))  # none has
    thresholds = _thresholds(scores)
    beyond = (torch.stack(scores, 1) > thresholds).any(1).sum()
    assert 7 <= beyond <= 10
    assert thresholds[3] == torch.inf


def test_warnings_give_the_reason() -> None:
    assert NoveltyScore((False, False, False, False)).warning == ""
    assert "it looks untrained" in NoveltyScore((True, False, False, False), untrained=True).warning
    assert "batch norms have seen other inputs" in NoveltyScore((True, True, False, False)).warning
    assert "outputs on probes do not resemble" in NoveltyScore((False, False, False, True)).warning
    assert len(Novelty().thresholds) == 4
