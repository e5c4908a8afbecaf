"""Train networks of one architecture: together where possible, else one by one, with the same result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor, nn

from graph_metanetworks.allocator import keep_freed_memory
from graph_metanetworks.zoo.population.batches import Batches
from graph_metanetworks.zoo.population.course import Course, TrainingConfig, start
from graph_metanetworks.zoo.population.memory import networks_at_once
from graph_metanetworks.zoo.population.metrics import at_chance, has_diverged, measure
from graph_metanetworks.zoo.population.ordinary import train_one
from graph_metanetworks.zoo.population.population import Population
from graph_metanetworks.zoo.population.ways import Way, find_way, stacked_parameters
from graph_metanetworks.zoo.recipe import Trained, metrics_at

Progress = Callable[[float], None]
State = dict[str, Tensor]
Config = TypeVar("Config", bound=TrainingConfig)


@dataclass(frozen=True, eq=False)
class Learner:
    """A network about to be trained."""

    network: nn.Module
    generator: torch.Generator  # of its dropout
    config: TrainingConfig


@dataclass(eq=False)
class Record:
    """What is seen of a network while it trains."""

    classes: int
    metrics: dict[str, float | int | bool | str] = field(default_factory=dict)
    states: dict[int, State] = field(default_factory=dict)

    def note(self, step: int, course: Course, state: State, found: dict[str, float]) -> None:
        diverged = has_diverged(state, found)
        if diverged:
            found = at_chance(found, self.classes)
        self.states[step] = state
        for number, checkpoint in enumerate(course.checkpoints, start=1):
            if step == checkpoint:
                self.metrics |= metrics_at(number, len(course.checkpoints) + 1, step, found)
        if step == course.steps:
            self.metrics |= found | {"diverged": diverged}

    def trained(self, course: Course) -> Trained:
        checkpoints = {step: self.states[step] for step in course.checkpoints}
        return Trained(self.states[course.steps], self.metrics, checkpoints)


def train(
    build: Callable[[Config], nn.Module],
    configs: Sequence[Config],
    seeds: Sequence[int],
    batches: Batches,
    course: Course,
    progress: Progress,
) -> list[Trained]:
    """Train networks of one architecture. Each comes out as `ordinary.train_one` would leave it."""
    learners = [
        _learner(build, config, seed, batches.dtype) for config, seed in zip(configs, seeds, strict=True)
    ]
    images, _ = batches.training(0)
    parts = -(-len(learners) // networks_at_once(learners[0].network, images))
    size = -(-len(learners) // parts)  # about equal, so that no small rest is left
    order = sorted(range(len(learners)), key=lambda k: learners[k].config.optimizer)
    results: dict[int, Trained] = {}
    for first in range(0, len(order), size):
        some = order[first : first + size]
        part = _train(
            [learners[k] for k in some],
            batches,
            course,
            _part_of(progress, len(results), len(some), len(order)),
        )
        results |= zip(some, part, strict=True)
    return [results[k] for k in range(len(learners))]


def _part_of(progress: Progress, before: int, now: int, total: int) -> Progress:
    return lambda share: progress((before + share * now) / total)


def _train(
    learners: Sequence[Learner], batches: Batches, course: Course, progress: Progress
) -> list[Trained]:
    images, _ = batches.training(0)
    networks = [learner.network for learner in learners]
    way = (
        find_way(networks, [learner.generator for learner in learners], images) if len(learners) > 1 else None
    )
    if way is None:
        return _one_by_one(learners, batches, course, progress)
    return _together(way, learners, batches, course, progress)


def _learner(build: Callable[[Config], nn.Module], config: Config, seed: int, dtype: torch.dtype) -> Learner:
    network, generator = start(lambda: build(config), seed)
    return Learner(network.to(dtype), generator, config)


def _together(
    way: Way, learners: Sequence[Learner], batches: Batches, course: Course, progress: Progress
) -> list[Trained]:
    keep_freed_memory()
    networks = [learner.network for learner in learners]
    population = Population(stacked_parameters(networks), way, [learner.config for learner in learners])
    records = [Record(batches.data.num_classes) for _ in learners]
    constants = [network.state_dict() for network in networks]
    way.train(True)
    for step in range(course.steps):
        population.step(*batches.training(step), course.rate(step))
        if course.looks_at(step + 1):
            way.train(False)
            for k, found in enumerate(measure(population.logits, batches)):
                state = {**constants[k], **population.state_dict(k)}
                records[k].note(step + 1, course, {name: state[name] for name in constants[k]}, found)
            way.train(True)
        progress((step + 1) / course.steps)
    return [record.trained(course) for record in records]


def _one_by_one(
    learners: Sequence[Learner], batches: Batches, course: Course, progress: Progress
) -> list[Trained]:
    results = []
    for k, learner in enumerate(learners):
        record = Record(batches.data.num_classes)

        def look(step: int, learner: Learner = learner, record: Record = record, k: int = k) -> None:
            if course.looks_at(step):
                record.note(step, course, _state(learner.network), _measure_one(learner.network, batches))
            progress((k + step / course.steps) / len(learners))

        train_one(learner.network, learner.generator, learner.config, batches, course, look)
        results.append(record.trained(course))
    return results


def _measure_one(network: nn.Module, batches: Batches) -> dict[str, float]:
    network.eval()
    with torch.no_grad():
        (found,) = measure(lambda images: network(images).unsqueeze(0), batches)
    network.train()
    return found


def _state(network: nn.Module) -> State:
    return {name: value.detach().clone() for name, value in network.state_dict().items()}
