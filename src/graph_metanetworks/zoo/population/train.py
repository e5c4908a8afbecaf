"""Train networks of one architecture, together if possible and otherwise one by one, with equal results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor, nn

from graph_metanetworks.allocator import keep_freed_memory
from graph_metanetworks.zoo.population.batches import Batches
from graph_metanetworks.zoo.population.memory import networks_at_once
from graph_metanetworks.zoo.population.metrics import at_chance, has_diverged, measure
from graph_metanetworks.zoo.population.ordinary import train_one
from graph_metanetworks.zoo.population.population import Population
from graph_metanetworks.zoo.population.schedule import TrainingConfig, TrainingSchedule, start
from graph_metanetworks.zoo.population.training_mode import (
    TrainingMode,
    find_training_mode,
    stacked_parameters,
)
from graph_metanetworks.zoo.recipe import Trained, metrics_at

Progress = Callable[[float], None]
State = dict[str, Tensor]
Config = TypeVar("Config", bound=TrainingConfig)


@dataclass(frozen=True, eq=False)
class Learner:
    """A network about to be trained."""

    network: nn.Module
    generator: torch.Generator  # for dropout
    config: TrainingConfig


@dataclass(eq=False)
class History:
    """The metrics and checkpoints of a network during training."""

    classes: int
    metrics: dict[str, float | int | bool | str] = field(default_factory=dict)
    states: dict[int, State] = field(default_factory=dict)

    def add(self, step: int, schedule: TrainingSchedule, state: State, found: dict[str, float]) -> None:
        diverged = has_diverged(state, found)
        if diverged:
            found = at_chance(found, self.classes)
        self.states[step] = state
        for number, checkpoint in enumerate(schedule.checkpoints, start=1):
            if step == checkpoint:
                self.metrics |= metrics_at(number, len(schedule.checkpoints) + 1, step, found)
        if step == schedule.steps:
            self.metrics |= found | {"diverged": diverged}

    def trained(self, schedule: TrainingSchedule) -> Trained:
        checkpoints = {step: self.states[step] for step in schedule.checkpoints}
        return Trained(self.states[schedule.steps], self.metrics, checkpoints)


def train(
    build: Callable[[Config], nn.Module],
    configs: Sequence[Config],
    seeds: Sequence[int],
    batches: Batches,
    schedule: TrainingSchedule,
    progress: Progress,
) -> list[Trained]:
    """Train networks of one architecture, each with the same result as `ordinary.train_one`."""
    learners = [
        _learner(build, config, seed, batches.dtype) for config, seed in zip(configs, seeds, strict=True)
    ]
    images, _ = batches.training(0)
    parts = -(-len(learners) // networks_at_once(learners[0].network, images))
    size = -(-len(learners) // parts)  # about equal parts, without a small remainder
    order = sorted(range(len(learners)), key=lambda k: learners[k].config.optimizer)
    results: dict[int, Trained] = {}
    for first in range(0, len(order), size):
        some = order[first : first + size]
        part = _train(
            [learners[k] for k in some],
            batches,
            schedule,
            _part_of(progress, len(results), len(some), len(order)),
        )
        results |= zip(some, part, strict=True)
    return [results[k] for k in range(len(learners))]


def _part_of(progress: Progress, before: int, now: int, total: int) -> Progress:
    return lambda fraction: progress((before + fraction * now) / total)


def _train(
    learners: Sequence[Learner], batches: Batches, schedule: TrainingSchedule, progress: Progress
) -> list[Trained]:
    images, _ = batches.training(0)
    networks = [learner.network for learner in learners]
    mode = (
        find_training_mode(networks, [learner.generator for learner in learners], images)
        if len(learners) > 1
        else None
    )
    if mode is None:
        return _one_by_one(learners, batches, schedule, progress)
    return _together(mode, learners, batches, schedule, progress)


def _learner(build: Callable[[Config], nn.Module], config: Config, seed: int, dtype: torch.dtype) -> Learner:
    network, generator = start(lambda: build(config), seed)
    return Learner(network.to(dtype), generator, config)


def _together(
    mode: TrainingMode,
    learners: Sequence[Learner],
    batches: Batches,
    schedule: TrainingSchedule,
    progress: Progress,
) -> list[Trained]:
    keep_freed_memory()
    networks = [learner.network for learner in learners]
    population = Population(stacked_parameters(networks), mode, [learner.config for learner in learners])
    histories = [History(batches.data.num_classes) for _ in learners]
    constants = [network.state_dict() for network in networks]
    mode.train(True)
    for step in range(schedule.steps):
        population.step(*batches.training(step), schedule.factor(step))
        if schedule.measures_after(step + 1):
            mode.train(False)
            for k, found in enumerate(measure(population.logits, batches)):
                state = {**constants[k], **population.state_dict(k)}
                histories[k].add(step + 1, schedule, {name: state[name] for name in constants[k]}, found)
            mode.train(True)
        progress((step + 1) / schedule.steps)
    return [history.trained(schedule) for history in histories]


def _one_by_one(
    learners: Sequence[Learner], batches: Batches, schedule: TrainingSchedule, progress: Progress
) -> list[Trained]:
    results = []
    for k, learner in enumerate(learners):
        history = History(batches.data.num_classes)

        def after_step(step: int, learner: Learner = learner, history: History = history, k: int = k) -> None:
            if schedule.measures_after(step):
                history.add(step, schedule, _state(learner.network), _measure_one(learner.network, batches))
            progress((k + step / schedule.steps) / len(learners))

        train_one(learner.network, learner.generator, learner.config, batches, schedule, after_step)
        results.append(history.trained(schedule))
    return results


def _measure_one(network: nn.Module, batches: Batches) -> dict[str, float]:
    network.eval()
    with torch.no_grad():
        (found,) = measure(lambda images: network(images).unsqueeze(0), batches)
    network.train()
    return found


def _state(network: nn.Module) -> State:
    return {name: value.detach().clone() for name, value in network.state_dict().items()}
