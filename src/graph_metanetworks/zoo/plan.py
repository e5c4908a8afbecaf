"""Plan which networks train together and which of them share a shard.

A plan depends on the recipe, the seed and the ranges of indices, but not on the machine or the number of
workers. So every machine makes the same shards. A zoo that grows gets another range with its own plan.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch

from graph_metanetworks.zoo.recipe import Recipe, network_seed

MIN_SHARDS = 8  # per range, so that several workers have something to do
MIN_SIZE, MAX_SIZE = 16, 64  # networks per shard, by default


@dataclass(frozen=True, slots=True)
class Range:
    """Networks `start` to `stop - 1`, in shards of at most `shard_size`."""

    start: int
    stop: int
    shard_size: int


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """The networks of a shard, grouped into populations that are trained together."""

    number: int
    populations: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        return sum(map(len, self.populations))

    def holds(self, indices: Sequence[int], dropped: int) -> bool:
        """Return whether these are its networks, apart from those that were dropped."""
        wanted = {index for population in self.populations for index in population}
        return wanted.issuperset(indices) and len(set(indices)) + dropped == len(wanted)


def range_of(start: int, stop: int, shard_size: int | None = None) -> Range:
    """Return a range, by default with a shard size that suits its length.

    >>> range_of(0, 1000).shard_size, range_of(0, 300).shard_size, range_of(0, 20).shard_size
    (64, 38, 16)
    """
    wanted = -(-(stop - start) // MIN_SHARDS)
    return Range(start, stop, shard_size or min(max(wanted, MIN_SIZE), MAX_SIZE))


def draw(recipe: Recipe[Any], seed: int, index: int) -> Any:
    """Draw the config of network `index`."""
    # a separate seed, because training starts from the seed of the network itself
    config_seed = network_seed(network_seed(seed, index), 0)
    return recipe.draw_at(index, torch.Generator().manual_seed(config_seed))


def plan(recipe: Recipe[Any], seed: int, ranges: Sequence[Range]) -> list[ShardPlan]:
    """Return the shards of a zoo, numbered from 0."""
    shards = [shard for one in ranges for shard in _pack(_populations(recipe, seed, one), one.shard_size)]
    return [ShardPlan(number, tuple(populations)) for number, populations in enumerate(shards)]


def _populations(recipe: Recipe[Any], seed: int, one: Range) -> list[tuple[int, ...]]:
    """Group networks of equal shape, in order of their first index."""
    groups: dict[Hashable, list[int]] = {}
    for index in range(one.start, one.stop):
        groups.setdefault(recipe.shape(draw(recipe, seed, index)), []).append(index)
    limit = min(recipe.population, one.shard_size)
    return sorted(part for group in groups.values() for part in _parts(group, limit))


def _parts(group: Sequence[int], limit: int) -> Iterator[tuple[int, ...]]:
    """Split a group into as few parts as the limit allows, of about equal size.

    Otherwise a remainder of one network might train alone.
    """
    count = -(-len(group) // limit)
    cuts = [len(group) * part // count for part in range(count + 1)]
    return (tuple(group[a:b]) for a, b in pairwise(cuts))


def _pack(populations: Sequence[tuple[int, ...]], size: int) -> Iterator[list[tuple[int, ...]]]:
    shard: list[tuple[int, ...]] = []
    for population in populations:
        if shard and sum(map(len, shard)) + len(population) > size:
            yield shard
            shard = []
        shard.append(population)
    if shard:
        yield shard
