"""Each network of a population is trained as by the plain loop, whichever networks train with it."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from graph_metanetworks.zoo.population.schedule import TrainingConfig, TrainingSchedule, training_seed
from graph_metanetworks.zoo.population.train import train
from graph_metanetworks.zoo.population.training_mode import StackedLayers, Vmapped, find_training_mode
from graph_metanetworks.zoo.recipe import Trained
from support.classifiers import LARGEST, TOGETHER, Config, Together, build, configs, little_batches

SCHEDULE = TrainingSchedule(steps=5, warmup=2)
SEEDS = (11, 12, 13, 14)


def by_hand(
    build, config: TrainingConfig, seed: int, dtype: torch.dtype = torch.float64, scale: int = 1
) -> nn.Module:
    """Train in the obvious way."""
    torch.manual_seed(training_seed(seed))
    network = build(config).to(dtype)
    options = {"lr": config.learning_rate, "weight_decay": config.weight_decay}
    optimizer = {
        "sgd": lambda p: torch.optim.SGD(p, momentum=0.9, **options),
        "adam": lambda p: torch.optim.Adam(p, **options),
        "rmsprop": lambda p: torch.optim.RMSprop(p, **options),
    }[config.optimizer](network.parameters())
    batches = little_batches(dtype, scale)
    for step in range(SCHEDULE.steps):
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate * [0.5, 1, 1, 2 / 3, 1 / 3][step]
        images, labels = batches.training(step)
        optimizer.zero_grad()
        functional.cross_entropy(network(images), labels, label_smoothing=config.label_smoothing).backward()
        optimizer.step()
    return network.eval()


def trained(
    build, chosen: Sequence, seeds=SEEDS, schedule=SCHEDULE, dtype=torch.float64, scale: int = 1
) -> list[Trained]:
    return train(build, chosen, seeds, little_batches(dtype, scale), schedule, lambda share: None)


@cache
def together(group: Together) -> list[Trained]:
    """Train all networks of a group, once for all tests."""
    return trained(group.build, group.configs, scale=group.scale)


def difference(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    assert list(a) == list(b)
    return max(float((a[name] - b[name]).abs().max() / (1 + b[name].abs().max())) for name in a)


everyone = pytest.mark.parametrize("group", TOGETHER.values(), ids=TOGETHER)


FIRST = {name.partition("-")[0]: name for name in reversed(TOGETHER)}.values()  # one of each family
SINGLE = [
    pytest.param(group, marks=() if name in FIRST else pytest.mark.slow, id=name)
    for name, group in TOGETHER.items()
]
large = [pytest.param(group, marks=pytest.mark.slow, id=name) for name, group in LARGEST.items()]


@pytest.mark.parametrize(
    "group", [*(pytest.param(group, id=name) for name, group in TOGETHER.items()), *large]
)
def test_each_network_equals_the_ordinary_loop(group: Together) -> None:
    """Weights and batch-norm statistics, with dropout and all optimisers in one population."""
    results = together(group)
    for result, config, seed in zip(results, group.configs, SEEDS, strict=True):
        alone = by_hand(group.build, config, seed, scale=group.scale)
        assert difference(result.state_dict, alone.state_dict()) < 1e-11
        batches = little_batches(scale=group.scale)
        ((images, labels),) = batches.evaluation(batches.data.test_images, batches.data.test_labels)
        logits = alone(images).detach()
        assert result.metrics["test_accuracy"] == float((logits.argmax(1) == labels).double().mean())
        assert result.metrics["test_loss"] == pytest.approx(float(functional.cross_entropy(logits, labels)))
        assert result.metrics["diverged"] is False


@pytest.mark.parametrize("group", SINGLE)
def test_in_single_precision(group: Together) -> None:
    """The precision that zoos have. After so few steps, rounding has not grown beyond the tolerance."""
    results = trained(group.build, group.configs, dtype=torch.float32, scale=group.scale)
    for result, config, seed in zip(results, group.configs, SEEDS, strict=True):
        alone = by_hand(group.build, config, seed, torch.float32, group.scale)
        assert difference(result.state_dict, alone.state_dict()) < 1e-4


@everyone
def test_companions_do_not_matter(group: Together) -> None:
    chosen, scale = group.configs, group.scale
    pair = trained(group.build, [chosen[2], chosen[1]], seeds=[SEEDS[2], SEEDS[1]], scale=scale)
    assert difference(pair[0].state_dict, together(group)[2].state_dict) < 1e-11
    assert difference(pair[1].state_dict, together(group)[1].state_dict) < 1e-11
    (single,) = trained(group.build, chosen[1:2], seeds=SEEDS[1:2], scale=scale)
    assert difference(single.state_dict, together(group)[1].state_dict) < 1e-11


@everyone
def test_a_diverged_network_disturbs_nobody(group: Together) -> None:
    chosen, scale = group.configs, group.scale
    wild = [chosen[0], replace(chosen[1], learning_rate=1e200), *chosen[2:]]
    healthy, disturbed = together(group), trained(group.build, wild, scale=scale)
    assert disturbed[1].metrics["diverged"] is True
    assert disturbed[1].metrics["test_accuracy"] == disturbed[1].metrics["train_accuracy"] == 0.1
    assert disturbed[1].metrics["test_loss"] == pytest.approx(2.302585)
    for k in (0, 2, 3):
        assert difference(disturbed[k].state_dict, healthy[k].state_dict) < 1e-11
        assert disturbed[k].metrics == pytest.approx(healthy[k].metrics)


def test_seeds_matter() -> None:
    chosen = configs("cnn2d", "batch")[1]
    first, second = trained(build, [chosen, chosen], seeds=[1, 2])
    assert difference(first.state_dict, second.state_dict) > 1e-3


def test_checkpoints_are_states_on_the_way() -> None:
    chosen = configs("cnn2d", "batch")
    results = trained(build, chosen, schedule=TrainingSchedule(steps=5, warmup=2, checkpoints=(2, 4)))
    for result, plain in zip(results, trained(build, chosen), strict=True):
        assert list(result.checkpoints) == [2, 4]
        assert difference(result.state_dict, plain.state_dict) < 1e-13  # checkpoints change nothing
        assert int(result.checkpoints[4]["norms.0.num_batches_tracked"]) == 4
        assert {"test_accuracy_at_1_of_3", "train_loss_at_2_of_3"} <= set(result.metrics)
        assert [result.metrics[f"step_at_{k}_of_3"] for k in (1, 2)] == [2, 4]
        assert plain.metrics.items() <= result.metrics.items()


def test_the_callers_random_numbers_are_left_alone() -> None:
    before = torch.get_rng_state()
    trained(build, configs("cnn2d", "batch")[:2], seeds=[1, 2])
    trained(odd, configs("cnn2d", "batch")[:2], seeds=[1, 2])
    assert torch.equal(torch.get_rng_state(), before)


# networks of users


def sequential(config: Config) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(config.dropout),
        nn.Linear(36, 10),
    )


class Own(nn.Module):
    """A module that cannot be stacked: it has a parameter and counts axes from the front."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(64))
        self.norm = nn.BatchNorm1d(64)
        self.out = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.norm(x.flatten(1) * self.scale))


class Odd(Own):
    """A random module with a branch that depends on values."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + 0.1 * torch.randn_like(x)) if x.mean() > -1e9 else x


def own(config: Config) -> nn.Module:
    return Own()


def odd(config: Config) -> nn.Module:
    return Odd()


@pytest.mark.parametrize(("make", "mode"), [(sequential, StackedLayers), (own, Vmapped), (odd, type(None))])
def test_networks_of_users(make, mode: type) -> None:
    """Every training mode (stacked, vmap, one by one) gives the result of the plain loop."""
    chosen = configs("cnn2d", "batch")
    networks = [make(config).double() for config in chosen]
    generators = [torch.Generator() for _ in chosen]
    assert type(find_training_mode(networks, generators, little_batches().training(0)[0])) is mode
    for result, config, seed in zip(trained(make, chosen), chosen, SEEDS, strict=True):
        assert difference(result.state_dict, by_hand(make, config, seed, torch.float64).state_dict()) < 1e-11


def test_networks_that_differ_beyond_their_weights_train_alone() -> None:
    def leaky(config: Config) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.LeakyReLU(config.dropout), nn.Linear(8, 10))

    chosen = configs("cnn2d", "batch")
    for result, config, seed in zip(trained(leaky, chosen), chosen, SEEDS, strict=True):
        assert difference(result.state_dict, by_hand(leaky, config, seed, torch.float64).state_dict()) < 1e-11


def test_progress_ends_at_one() -> None:
    for make in (sequential, odd):
        shares: list[float] = []
        train(make, configs("cnn2d", "batch")[:2], (1, 2), little_batches(), SCHEDULE, shares.append)
        assert shares == sorted(shares) and shares[-1] == 1
