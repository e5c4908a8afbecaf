"""One network at a time: an `nn.Module`, `torch.optim` and a loop.

What a population must agree with, what benchmarks compare with, and the way that is left for networks which
can be trained in no other.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from graph_metanetworks.zoo.population.batches import Batches
from graph_metanetworks.zoo.population.course import Course, TrainingConfig
from graph_metanetworks.zoo.population.optimizers import EPSILON, FORGETTING, MOMENTUM, SMOOTHING


def train_one(
    network: nn.Module,
    generator: torch.Generator,
    config: TrainingConfig,
    batches: Batches,
    course: Course,
    look: Callable[[int], None],
) -> None:
    """Train a network in place. `look` is called with the number of steps taken, after each."""
    optimizer = make_optimizer(network, config)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, course.rate)
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(generator.get_state())
        for step in range(course.steps):
            images, labels = batches.training(step)
            train_step(network, optimizer, images, labels, config.label_smoothing)
            if step + 1 < course.steps:  # beyond the last step the rate is not defined
                schedule.step()
            look(step + 1)


def make_optimizer(network: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    parameters, rate, decay = network.parameters(), config.learning_rate, config.weight_decay
    if config.optimizer == "sgd":
        return torch.optim.SGD(parameters, rate, momentum=MOMENTUM, weight_decay=decay)
    if config.optimizer == "adam":
        return torch.optim.Adam(parameters, rate, betas=FORGETTING, eps=EPSILON, weight_decay=decay)
    return torch.optim.RMSprop(parameters, rate, alpha=SMOOTHING, eps=EPSILON, weight_decay=decay)


def train_step(
    network: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor, smoothing: float
) -> None:
    optimizer.zero_grad()
    loss = functional.cross_entropy(network(images), labels, label_smoothing=smoothing)
    loss.backward()
    optimizer.step()
