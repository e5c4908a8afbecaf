"""Dependences between axes that some tensor contradicts are given up."""

import copy
import random
from math import log

import pytest
import torch
from torch import nn

import graph_metanetworks as gmn
from graph_metanetworks.symmetry.axes import Axis, cut, free, narrow, parents, unify
from graph_metanetworks.symmetry.settle import settle
from support.algebra import Algebra


def test_a_dependence_that_every_tensor_can_express_is_kept() -> None:
    dim = free(12)
    outer, inner = cut(dim, 3)
    settle([[dim], [outer, inner], [inner, outer]])
    assert parents(inner[0]) == set(outer)


def test_a_tensor_without_the_parent_contradicts() -> None:
    dim = free(12)
    outer, inner = cut(dim, 3)
    settle([[dim], [inner]])
    assert not parents(inner[0])
    assert parents(outer[0]) == set()


def test_a_tensor_with_the_parent_twice_contradicts() -> None:
    dim = free(12)
    outer, inner = cut(dim, 3)
    settle([[outer, inner], [outer, outer, inner]])
    assert not parents(inner[0])


def test_a_chain_is_given_up_from_the_bottom() -> None:
    """Of a x b x c, a tensor that lacks b leaves c dependent on a alone."""
    dim = free(24)
    a, rest = cut(dim, 2)
    b, c = cut(rest, 3)
    settle([[a, b, c], [a, c]])
    assert parents(c[0]) == set(a)
    assert parents(b[0]) == set(a)


def test_axes_that_depend_on_each_other() -> None:
    """Two square views, one transposed, would make each depend on the other."""
    first, second = Axis(4), Axis(4)
    first.depends, second.depends = frozenset({second}), frozenset({first})
    settle([[[first], [second]]])
    assert not (parents(first) and parents(second))


def test_which_dependence_of_a_cycle_is_kept_does_not_depend_on_memory() -> None:
    kept = set()
    for _ in range(20):
        # three of five, so that the order of their addresses differs from round to round
        a, b, c = sorted(random.sample([Axis(2) for _ in range(5)], 3), key=lambda axis: axis.number)
        a.depends, b.depends, c.depends = frozenset({b, c}), frozenset({a}), frozenset({a, b})
        settle([[[a], [b], [c]]])
        kept.add(tuple(len(parents(axis)) for axis in (a, b, c)))
    assert len(kept) == 1


def test_a_parent_that_was_sliced_becomes_cases() -> None:
    """The dimensions of the first head are free of those of the others."""
    dim = free(12)
    outer, inner = cut(dim, 3)
    first = narrow([outer, inner], 0, 0, 1)
    settle([[outer, inner], first])
    algebra = Algebra()
    x = algebra.reshape(algebra.new(12), (3, 4))
    algebra.narrow(x, 0, 0, 1)
    assert algebra.log_order == pytest.approx(log(2) + 3 * log(24))  # the other two heads, all dimensions


def test_settling_twice_changes_nothing() -> None:
    algebra = Algebra()
    x = algebra.reshape(algebra.new(12), (3, 4))
    algebra.sum(algebra.narrow(x, 0, 1, 2), 0)
    once = algebra.log_order
    assert algebra.log_order == once


def test_unified_heads_of_two_tensors() -> None:
    """Scores need equal heads and equal dimensions, head by head."""
    query, key = free(12), free(12)
    heads = [cut(dim, 3) for dim in (query, key)]
    unify(heads[0][0], heads[1][0], "scores")
    unify(heads[0][1], heads[1][1], "scores")
    settle([[query], [key], *[list(pair) for pair in heads]])
    (dimension,) = heads[0][1]
    assert {a.size for a in parents(dimension)} == {3}


def test_axes_grow_with_depth_and_no_faster() -> None:
    """Packed projections cut a stream of many layers: what is made for each layer must not double."""

    def made(depth: int) -> int:
        layer = nn.TransformerEncoderLayer(4, 2, 6, batch_first=True, norm_first=True)
        model = nn.Sequential(nn.Linear(2, 4), *(copy.deepcopy(layer) for _ in range(depth)), nn.Linear(4, 1))
        start = Axis(1).number
        gmn.trace(model.eval(), torch.randn(1, 3, 2))
        return Axis(1).number - start

    assert made(8) < 2.5 * made(4)
