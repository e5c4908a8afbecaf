"""Plans contain every network once, group equal shapes, and do not depend on the machine."""

from collections.abc import Hashable
from itertools import pairwise
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st

from graph_metanetworks.zoo.plan import Range, draw, plan, range_of
from support.zoo_recipes import Config, Regressors


class Shapes(Regressors):
    """Networks with any number of shapes."""

    def __init__(self, shapes: int, population: int) -> None:
        super().__init__()
        self.shapes, self.population = shapes, population  # pyright: ignore[reportAttributeAccessIssue]

    def draw(self, generator: torch.Generator) -> Config:
        return Config(str(int(torch.randint(self.shapes, (), generator=generator))), (), 0.0)

    def shape(self, config: Config) -> Hashable:
        return config.family


RECIPES = st.builds(Shapes, st.integers(1, 9), st.integers(1, 10))


@given(RECIPES, st.integers(0, 9), st.lists(st.integers(1, 90), min_size=1, max_size=3), st.integers(1, 40))
def test_a_plan(recipe: Shapes, seed: int, sizes: list[int], shard_size: int) -> None:
    ends = [0, *torch.tensor(sizes).cumsum(0).tolist()]
    ranges = [Range(a, b, shard_size) for a, b in pairwise(ends)]
    shards = plan(recipe, seed, ranges)
    populations = [population for shard in shards for population in shard.populations]
    assert sorted(index for population in populations for index in population) == list(range(ends[-1]))
    assert [shard.number for shard in shards] == list(range(len(shards)))
    assert all(shard.size <= shard_size for shard in shards)
    assert all(len(population) <= min(recipe.population, shard_size) for population in populations)
    for population in populations:
        assert len({recipe.shape(draw(recipe, seed, index)) for index in population}) == 1
    # a zoo that grows keeps its shards
    assert plan(recipe, seed, ranges[:-1]) == shards[: len(plan(recipe, seed, ranges[:-1]))]


@given(RECIPES, st.integers(1, 90))
def test_as_few_populations_as_possible(recipe: Shapes, count: int) -> None:
    shards = plan(recipe, 0, [Range(0, count, 1000)])
    sizes: dict[Any, list[int]] = {}
    for population in (p for shard in shards for p in shard.populations):
        sizes.setdefault(recipe.shape(draw(recipe, 0, population[0])), []).append(len(population))
    for parts in sizes.values():
        assert len(parts) == -(-sum(parts) // recipe.population)
        assert max(parts) - min(parts) <= 1


def test_configs_depend_on_seed_and_index_only() -> None:
    recipe = Regressors()
    configs = [draw(recipe, seed, index) for seed in range(3) for index in range(20)]
    again = [draw(recipe, seed, index) for seed in range(3) for index in reversed(range(20))]
    assert len(set(configs)) == 60
    assert set(configs) == set(again)


def test_small_zoos_have_work_for_several_workers() -> None:
    assert len(plan(Shapes(1, 64), 0, [range_of(0, 300)])) == 8
    assert len(plan(Shapes(1, 64), 0, [range_of(0, 60_000)])) < 1000
