"""Speed of fitting INRs: populations against the plain loop, and the quality of the fits.

    python benchmarks/zoo_inrs.py                   # two tables
    python benchmarks/zoo_inrs.py --markdown        # the same for docs/inrs.md
    python benchmarks/zoo_inrs.py --data-dir DATA   # where data sets are; missing ones are skipped

Two workers with one torch thread each do the same at the same time: in turn, a few steps of the ordinary loop
(autograd, torch.optim.Adam, one network) and of a population. The ratio is the median over all turns. Then
the workers fit whole networks with the options of the recipe. Times are CPU times of the workers.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import torch

from graph_metanetworks.zoo.data import DataError
from graph_metanetworks.zoo.inr import fit_alone, fit_population, initial_weights
from graph_metanetworks.zoo.recipes.inrs import ImageInrs, InrRecipe, SineInrs

WORKERS = 2
STEPS = 40  # per turn
POPULATION = 64

Make = Callable[[], InrRecipe]


def cases(data_dir: str | None) -> dict[str, Make]:
    images = partial(ImageInrs, data_dir=data_dir)
    return {
        "sine-inrs": SineInrs,
        "image-inrs, fashion-mnist": partial(ImageInrs, data="fashion-mnist"),
        "image-inrs, mnist": partial(images, data="mnist"),
        "image-inrs, cifar10, editing": partial(images, data="cifar10", protocol="editing", steps=500),
    }


@dataclass(frozen=True)
class Turns:
    """Return the seconds per step of one network for each turn."""

    plain: list[float]
    population: list[float]

    @property
    def ratio(self) -> float:
        return statistics.median(a / b for a, b in zip(self.plain, self.population, strict=True))


def take_turns(make: Make, first: int, turns: int) -> Turns:
    torch.set_num_threads(1)
    recipe = make()
    options = replace(recipe.fit_options, steps=STEPS, stop_loss=None)
    configs = [recipe.draw_at(k, torch.Generator().manual_seed(k)) for k in range(first, first + POPULATION)]
    targets, grid = recipe.targets(configs), recipe.grid
    architecture, conventions = recipe.architecture, recipe.conventions
    initial = [initial_weights(architecture, conventions) for _ in configs]

    def plain() -> None:
        fit_alone(recipe.build(configs[0]), grid.coordinates, targets[0].T.contiguous(), options)

    def population() -> None:
        fit_population(architecture, conventions, grid, initial, targets, options)

    plain(), population()  # warm-up
    result = Turns([], [])
    for _ in range(turns):
        result.plain.append(seconds(plain) / STEPS)
        result.population.append(seconds(population) / STEPS / POPULATION)
    return result


def seconds(function: Callable[[], None]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def fit_whole(make: Make, first: int, count: int) -> tuple[float, list[float], int]:
    """Return the seconds, the PSNRs, and the number of fits that converged."""
    torch.set_num_threads(1)
    recipe = make()
    numbers = range(first, first + count)
    configs = [recipe.draw_at(k, torch.Generator().manual_seed(k)) for k in numbers]
    start = time.process_time()
    fits = recipe.train(configs, list(numbers), lambda share: None)
    took = time.process_time() - start
    return took, [float(f.metrics["psnr"]) for f in fits], sum(bool(f.metrics["converged"]) for f in fits)


def in_workers(function: Callable, make: Make, size: int) -> list:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS, mp_context=context) as pool:
        return list(pool.map(function, [make] * WORKERS, range(0, WORKERS * 1000, 1000), [size] * WORKERS))


def row_of_turns(name: str, make: Make, turns: int) -> list[str]:
    results = in_workers(take_turns, make, turns)
    both = Turns([t for r in results for t in r.plain], [t for r in results for t in r.population])
    micro = [f"{statistics.median(times) * 1e6:,.0f} µs" for times in (both.plain, both.population)]
    return [name, *micro, f"{both.ratio:.1f}x"]


def row_of_fits(name: str, make: Make, count: int) -> list[str]:
    results = in_workers(fit_whole, make, count)
    psnrs = sorted(psnr for _, some, _ in results for psnr in some)
    rate = len(psnrs) / max(took for took, _, _ in results)
    marks = [f"{psnrs[int(share * (len(psnrs) - 1))]:.1f}" for share in (0, 0.1, 0.5, 0.9)]
    converged = sum(number for _, _, number in results) / len(psnrs)
    return [name, f"{len(psnrs)}", f"{rate:.1f}", *marks, f"{converged:.0%}"]


def show(header: list[str], rows: list[list[str]], markdown: bool) -> None:
    if markdown:
        lines = [header, ["---"] * len(header), *rows]
        print("\n".join(f"| {' | '.join(line)} |" for line in lines), end="\n\n")
        return
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for line in [header, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    print()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--data-dir")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--count", type=int, default=36, help="whole fits of each worker; 0 for none")
    arguments = parser.parse_args()
    there: dict[str, Make] = {}
    for name, make in cases(arguments.data_dir).items():
        try:
            make()
        except DataError as error:
            print(f"without {name}: {str(error).splitlines()[0]}")
            continue
        there[name] = make
    turns = [row_of_turns(name, make, arguments.turns) for name, make in there.items()]
    show(["recipe", "ordinary loop, a step", "population, a step", "faster"], turns, arguments.markdown)
    if arguments.count:
        header = ["recipe", "fits", "networks/s", "PSNR: lowest", "10%", "median", "90%", "converged"]
        fits = [row_of_fits(name, make, arguments.count) for name, make in there.items()]
        show(header, fits, arguments.markdown)


if __name__ == "__main__":
    main()
