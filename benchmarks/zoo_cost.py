"""The cost of building the paper's zoos: networks per core-hour, by family.

    python benchmarks/zoo_cost.py                              # random images of the size of CIFAR-10
    python benchmarks/zoo_cost.py --architectures 12 --markdown

Architectures are drawn as the recipe `diverse` draws them. Of each, a population of the size that a zoo has
is trained for a few steps by the same code, augmentation included, and measured on a few images. Processor
times are extrapolated to the epochs and batches of the recipe on 50,000 images, and to measuring 10,000
training and 10,000 test images. Starting a worker, loading data and writing shards are left out.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import torch
from engine import show

from graph_metanetworks.zoo.data import ImageData
from graph_metanetworks.zoo.families import FAMILIES
from graph_metanetworks.zoo.population.memory import networks_at_once
from graph_metanetworks.zoo.population.metrics import TRAIN_IMAGES
from graph_metanetworks.zoo.population.schedule import TrainingSchedule
from graph_metanetworks.zoo.population.train import train
from graph_metanetworks.zoo.recipes.classifiers import ClassifierConfig, Diverse

OPTIMIZERS = ("sgd", "adam", "rmsprop")
MEASURED = 256  # images per split
STEPS = 6
TRAINING_IMAGES, TEST_IMAGES = 50_000, 10_000  # of CIFAR-10
NETWORKS = 30_000  # of a zoo of the paper


def random_images() -> ImageData:
    images = torch.randint(256, (MEASURED, 3, 32, 32), dtype=torch.uint8)
    labels = torch.arange(MEASURED) % 10
    return ImageData("random", images, labels, images, labels, tuple("0123456789"), flips=True)


def drawn_architectures(recipe: Diverse, family: str, count: int) -> Iterator[ClassifierConfig]:
    generator = torch.Generator().manual_seed(0)
    while count:
        config = recipe.draw(generator)
        if config.family == family:
            count -= 1
            yield config


def seconds_of_one(recipe: Diverse, config: ClassifierConfig) -> float:
    """Return the seconds of one core for the whole training of a network."""
    batches = recipe.batches(config)
    size = min(recipe.population, networks_at_once(recipe.build(config), batches.training(0)[0]))
    configs = [replace(config, optimizer=OPTIMIZERS[k % 3]) for k in range(size)]
    times = [time.process_time()]
    train(
        recipe.build,
        configs,
        range(size),
        batches,
        TrainingSchedule(STEPS, warmup=1),
        lambda share: times.append(time.process_time()),
    )
    taken = [after - before for before, after in pairwise(times)]
    step = statistics.median(taken[1:-1])
    measuring = (taken[-1] - step) / (2 * MEASURED)  # an evaluation on all images follows the last step
    steps = recipe.options()["epochs"] * (TRAINING_IMAGES // recipe.options()["batch_size"])
    return (steps * step + (TRAIN_IMAGES + TEST_IMAGES) * measuring) / size


def rows(recipe: Diverse, count: int) -> Iterator[list[str]]:
    means = {}
    for family in FAMILIES:
        found = [seconds_of_one(recipe, config) for config in drawn_architectures(recipe, family, count)]
        means[family] = statistics.mean(found)
        yield row(family, means[family], f"{min(found):,.0f} to {max(found):,.0f}")
    yield row("Varying CNNs (cnn2d)", means["cnn2d"])
    yield row("Diverse Architectures (all five)", statistics.mean(means.values()))


def row(name: str, seconds: float, spread: str = "") -> list[str]:
    hours = NETWORKS * seconds / 3600
    return [name, f"{seconds:,.0f}", spread, f"{3600 / seconds:.1f}", f"{hours:,.0f}", f"{hours / 64:,.0f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--architectures", type=int, default=6, help="of each family")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    header = ["networks", "seconds of one core, mean", "least to most", "networks per core-hour"]
    header += ["core-hours for 30,000", "hours on 64 cores"]
    show(header, rows(Diverse(random_images()), options.architectures), options.markdown)


if __name__ == "__main__":
    main()
