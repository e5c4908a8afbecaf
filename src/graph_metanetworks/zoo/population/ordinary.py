"""The plain training loop for one network, with `torch.optim`.

Populations must agree with it, benchmarks compare with it, and networks that cannot be stacked are trained
by it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from graph_metanetworks.zoo.population.batches import Batches
from graph_metanetworks.zoo.population.optimizers import ALPHA, BETAS, EPSILON, MOMENTUM
from graph_metanetworks.zoo.population.schedule import TrainingConfig, TrainingSchedule


def train_one(
    network: nn.Module,
    generator: torch.Generator,
    config: TrainingConfig,
    batches: Batches,
    schedule: TrainingSchedule,
    after_step: Callable[[int], None],
) -> None:
    """Train a network in place. Call `after_step` after each step with the number of steps so far."""
    optimizer = make_optimizer(network, config)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule.factor)
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(generator.get_state())
        for step in range(schedule.steps):
            images, labels = batches.training(step)
            train_step(network, optimizer, images, labels, config.label_smoothing)
            if step + 1 < schedule.steps:  # the factor is not defined beyond the last step
                scheduler.step()
            after_step(step + 1)


def make_optimizer(network: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    parameters, rate, decay = network.parameters(), config.learning_rate, config.weight_decay
    if config.optimizer == "sgd":
        return torch.optim.SGD(parameters, rate, momentum=MOMENTUM, weight_decay=decay)
    if config.optimizer == "adam":
        return torch.optim.Adam(parameters, rate, betas=BETAS, eps=EPSILON, weight_decay=decay)
    return torch.optim.RMSprop(parameters, rate, alpha=ALPHA, eps=EPSILON, weight_decay=decay)


def train_step(
    network: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor, smoothing: float
) -> None:
    optimizer.zero_grad()
    loss = functional.cross_entropy(network(images), labels, label_smoothing=smoothing)
    loss.backward()
    optimizer.step()
