"""Speed of training classifiers for zoos: a population against a plain loop over its networks.

    python benchmarks/zoo.py                     # 8 x 8 grey images, batches of 64, populations of 16
    python benchmarks/zoo.py --side 32           # 32 x 32 colour images
    python benchmarks/zoo.py --curve             # smaller batches and other sizes of populations
    python benchmarks/zoo.py --family vit        # only one family
    ... --markdown                               # as Markdown, for docs/zoo-benchmarks.md

One thread, float32, all three optimisers in equal shares; data are random. Both ways run in turn in one
process; shown is the best of the repeats, in milliseconds of processor time per step of one network. "as
built" is the population that a zoo would have: at most 32 networks, cut where activations are too large.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from engine import show
from torch import Tensor, nn

from graph_metanetworks.allocator import keep_freed_memory
from graph_metanetworks.zoo.families import FAMILIES, ClassifierArchitecture, ImageSpec
from graph_metanetworks.zoo.population.memory import networks_at_once
from graph_metanetworks.zoo.population.ordinary import make_optimizer, train_step
from graph_metanetworks.zoo.population.population import Population
from graph_metanetworks.zoo.population.schedule import TrainingConfig
from graph_metanetworks.zoo.population.training_mode import (
    StackedLayers,
    TrainingMode,
    Vmapped,
    stacked_parameters,
)
from graph_metanetworks.zoo.recipes.classifier_recipe import ClassifierRecipe

OPTIMIZERS = ("adam", "rmsprop", "sgd")  # in the order of a population
ARCHITECTURES = [
    ClassifierArchitecture("cnn2d", 24, 2, 1, "batch", 0.1),
    ClassifierArchitecture("cnn2d", 32, 3, 2, "group", 0.1),
    ClassifierArchitecture("cnn1d", 24, 2, 1, "batch", 0.1),
    ClassifierArchitecture("cnn1d", 32, 3, 2, "group", 0.1),
    ClassifierArchitecture("deepsets", 32, 3, 1, "batch", 0.1),
    ClassifierArchitecture("deepsets", 64, 3, 2, "group", 0.1),
    ClassifierArchitecture("resnet", 16, 3, 1, "batch", 0.0),
    ClassifierArchitecture("resnet", 32, 3, 1, "batch", 0.0),
    ClassifierArchitecture("vit", 32, 2, 1, "layer", 0.1),
    ClassifierArchitecture("vit", 48, 3, 1, "layer", 0.1),
]


@dataclass(frozen=True)
class Case:
    spec: ImageSpec
    batch: int
    population: int
    repeats: int

    def data(self) -> tuple[Tensor, Tensor]:
        spec = self.spec
        images = torch.randn(self.batch, spec.channels, spec.height, spec.width)
        return images, torch.randint(spec.classes, (self.batch,))


def config(optimizer: str) -> TrainingConfig:
    return TrainingConfig(learning_rate=1e-4, weight_decay=1e-4, label_smoothing=0.1, optimizer=optimizer)


def ordinary(architecture: ClassifierArchitecture, case: Case) -> Callable[[], None]:
    """Take a step of three networks in turn, each with another optimiser."""
    images, labels = case.data()
    networks = [build(architecture, case.spec) for _ in OPTIMIZERS]
    pairs = [(n, make_optimizer(n, config(name))) for n, name in zip(networks, OPTIMIZERS, strict=True)]

    def step() -> None:
        for network, optimizer in pairs:
            train_step(network, optimizer, images, labels, 0.1)

    return step


def population(
    architecture: ClassifierArchitecture, case: Case, make: Callable[..., TrainingMode]
) -> Callable[[], None]:
    images, labels = case.data()
    networks = [build(architecture, case.spec) for _ in range(case.population)]
    names = sorted(OPTIMIZERS[k % 3] for k in range(case.population))
    whole = Population(stacked_parameters(networks), make(networks), [config(name) for name in names])
    return lambda: whole.step(images, labels, 1.0)


def stacked(networks: list[nn.Module]) -> TrainingMode:
    return StackedLayers(networks, [torch.Generator() for _ in networks])


def build(architecture: ClassifierArchitecture, spec: ImageSpec) -> nn.Module:
    return FAMILIES[architecture.family].build(architecture, spec).train()


def milliseconds(steps: dict[str, tuple[Callable[[], None], int]], repeats: int) -> dict[str, float]:
    """Return the seconds per network of each function, the best of several repeats after a warm-up."""
    found = dict.fromkeys(steps, float("inf"))
    for repeat in range(repeats + 1):
        for name, (step, networks) in steps.items():
            start = time.process_time()
            step()
            taken = 1000 * (time.process_time() - start) / networks
            if repeat:
                found[name] = min(found[name], taken)
    return found


def without_dropout(architecture: ClassifierArchitecture) -> ClassifierArchitecture:
    return replace(architecture, dropout=0.0)


def as_built(architecture: ClassifierArchitecture, case: Case) -> int:
    network, (images, _) = build(architecture, case.spec), case.data()
    return min(ClassifierRecipe.population, networks_at_once(network, images))


def families(case: Case, architectures: list[ClassifierArchitecture]) -> Iterator[list[str]]:
    for architecture in architectures:
        size = as_built(architecture, case)
        found = milliseconds(
            {
                "loop": (ordinary(architecture, case), len(OPTIMIZERS)),
                "population": (population(architecture, case, stacked), case.population),
                "built": (population(architecture, replace(case, population=size), stacked), size),
                # vmap does not support dropout per network
                "vmap": (population(without_dropout(architecture), case, Vmapped), case.population),
            },
            case.repeats,
        )
        ratios = {name: f"{found['loop'] / value:.1f}x" for name, value in found.items()}
        yield [
            f"{architecture.family}, {architecture.hidden} wide, {architecture.depth} deep",
            *(f"{found[name]:.2f} ms" for name in ("loop", "population")),
            ratios["population"],
            f"{ratios['built']} ({size})",
            ratios["vmap"],
        ]


def curve(
    case: Case,
    architectures: list[ClassifierArchitecture],
    batches: tuple[int, ...],
    populations: tuple[int, ...],
) -> Iterator[list[str]]:
    for architecture in architectures[::2]:
        for batch in batches:
            sizes = {size: replace(case, batch=batch, population=size) for size in populations}
            steps = {"loop": (ordinary(architecture, sizes[populations[0]]), len(OPTIMIZERS))}
            for size, its in sizes.items():
                steps[str(size)] = (population(architecture, its, stacked), size)
            found = milliseconds(steps, case.repeats)
            ratios = [f"{found['loop'] / found[str(size)]:.1f}x" for size in populations]
            yield [f"{architecture.family}, batch {batch}", f"{found['loop']:.2f} ms", *ratios]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--side", type=int, default=8, help="8: grey images; more: colour images")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--population", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--curve", action="store_true", help="batches of 16, 32 and 64; populations of 4 to 64"
    )
    parser.add_argument("--family", choices=list(FAMILIES), help="only this one")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    torch.manual_seed(0)
    spec = ImageSpec(1 if options.side == 8 else 3, options.side, options.side, 10)
    case = Case(spec, options.batch, options.population, options.repeats)
    chosen = [a for a in ARCHITECTURES if options.family in (None, a.family)]
    if options.curve:
        sizes = (4, 16, 64)
        header = ["family", "loop", *(f"population of {size}" for size in sizes)]
        show(header, curve(case, chosen, (16, 32, 64), sizes), options.markdown)
    else:
        header = ["networks", "loop", "population", "faster", "as built", "vmap alone"]
        show(header, families(case, chosen), options.markdown)


if __name__ == "__main__":
    main()
