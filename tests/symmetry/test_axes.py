"""The axis algebra by example: what each operation leaves free."""

from math import log

import pytest

from graph_metanetworks.symmetry.axes import (
    Axis,
    Concat,
    concatenate,
    cut,
    find,
    fixed,
    free,
    instantiate,
    is_pinned,
    leaves,
    make_specific,
    narrow,
    parents,
    pin,
    reshape,
    size,
    unify,
    variables,
)
from support.algebra import Algebra


@pytest.fixture
def algebra() -> Algebra:
    return Algebra()


# ------------------------------------------------------------------ single axes


def test_size_one_has_no_axis() -> None:
    assert free(1) == fixed(1) == []
    assert size([]) == 1


def test_a_free_axis_is_its_own_variable() -> None:
    (axis,) = dim = free(5)
    assert list(variables(dim)) == leaves(dim) == [axis]
    assert not is_pinned(dim)


def test_pinning_reaches_into_everything() -> None:
    parts = [(2, free(2)), (6, free(6))]
    joined = concatenate(parts)
    outer, inner = cut(parts[1][1], 2)
    pin(joined, "a test")
    assert is_pinned(joined)
    assert is_pinned(outer)
    assert is_pinned(inner)
    assert all(axis.reason == "a test" for axis in (*parts[0][1], *outer, *inner))


def test_unified_axes_are_one() -> None:
    first, second, third = free(5), free(5), free(5)
    unify(first, second, "a test")
    unify(second, third, "a test")
    assert find(first[0]) is find(second[0]) is find(third[0])


def test_unifying_with_a_pinned_axis_pins() -> None:
    first, second = free(5), fixed(5)
    unify(first, second, "a test")
    assert is_pinned(first)


def test_concatenation_of_pinned_parts_is_pinned() -> None:
    assert is_pinned(concatenate([(2, fixed(2)), (3, fixed(3))]))
    assert not is_pinned(concatenate([(2, fixed(2)), (3, free(3))]))


def test_empty_parts_vanish() -> None:
    only = free(3)
    assert concatenate([(0, []), (3, only), (0, [])]) == only


# ------------------------------------------------------------------ splitting


def test_cut_into_heads() -> None:
    dim = free(12)
    outer, inner = cut(dim, 3)
    assert (size(outer), size(inner)) == (3, 4)
    assert parents(inner[0]) == set(outer)
    assert leaves(dim) == [*outer, *inner]
    assert cut(dim, 3) == (outer, inner)


def test_cut_finer_and_coarser() -> None:
    dim = free(12)
    cut(dim, 3)
    outer, inner = cut(dim, 6)
    assert [a.size for a in leaves(dim)] == [3, 2, 2]
    assert (size(outer), size(inner)) == (6, 2)


def test_cuts_that_do_not_align_pin() -> None:
    dim = free(12)
    cut(dim, 3)
    cut(dim, 2)
    assert is_pinned(dim)


def test_a_concatenation_cut_along_its_boundaries() -> None:
    dim = concatenate([(4, free(4)), (8, free(8))])
    outer, inner = cut(dim, 3)
    assert isinstance(outer[0].form, Concat)
    assert size(inner) == 4
    assert not is_pinned(inner)


def test_a_concatenation_cut_across_its_boundaries_pins() -> None:
    dim = concatenate([(5, free(5)), (7, free(7))])
    cut(dim, 3)
    assert is_pinned(dim)


# ------------------------------------------------------------------ constants


def test_generic_axes_tie_nothing() -> None:
    zeros = [free(5, generic=True)]
    first, second = free(5), free(5)
    for other in (first, second):
        (fresh,) = instantiate(zeros)
        unify(fresh, other, "adding zeros")
    assert find(first[0]) is not find(second[0])


def test_written_memory_is_not_generic() -> None:
    zeros = [free(5, generic=True)]
    make_specific(zeros)
    assert instantiate(zeros)[0][0] is zeros[0][0]


def test_specific_axes_are_not_copied() -> None:
    dims = [free(5), fixed(3)]
    assert all(a is b for a, b in zip(instantiate(dims), dims, strict=True))


def test_generic_parts_of_a_concatenation() -> None:
    own = free(3)
    joined = concatenate([(2, free(2, generic=True)), (3, own)])
    (copy,) = instantiate([joined])
    assert {v.size for v in variables(copy)} == {2, 3}
    assert own[0] in set(variables(copy))
    assert set(variables(copy)) != set(variables(joined))


# ------------------------------------------------------------------ whole tensors


def test_reshape_there_and_back(algebra: Algebra) -> None:
    x = algebra.new(12)
    algebra.reshape(algebra.reshape(x, (3, 4)), (12,))
    assert algebra.log_order == pytest.approx(log(6) + 3 * log(24))  # each head on its own


def test_a_sum_within_heads_keeps_them_apart(algebra: Algebra) -> None:
    algebra.sum(algebra.reshape(algebra.new(12), (3, 4)), 1)
    assert algebra.log_order == pytest.approx(log(6) + 3 * log(24))


def test_a_sum_over_heads_ties_their_dimensions(algebra: Algebra) -> None:
    algebra.sum(algebra.reshape(algebra.new(12), (3, 4)), 0)
    assert algebra.log_order == pytest.approx(log(6) + log(24))


def test_packed_parts_are_apart(algebra: Algebra) -> None:
    x = algebra.new(12)
    for start in (0, 4, 8):
        algebra.narrow(x, 0, start, 4)
    assert algebra.free == [4, 4, 4]


@pytest.mark.parametrize("heads", [1, 2])
def test_packed_parts_behind_a_leading_axis_are_apart(algebra: Algebra, heads: int) -> None:
    """Query, key and value cut out of [3, heads, size]."""
    x = algebra.reshape(algebra.new(12 * heads), (3, heads, 4))
    query, key, value = (algebra.narrow(x, 0, i, 1) for i in range(3))
    algebra.add(query, key)
    algebra.sum(algebra.reshape(value, (heads, 4)), 1)
    assert algebra.free == sorted([4, 4] + [heads] * 2 * (heads > 1))


def test_overlapping_slices(algebra: Algebra) -> None:
    x = algebra.new(8)
    algebra.add(algebra.narrow(x, 0, 0, 4), algebra.narrow(x, 0, 4, 4))
    assert algebra.free == [4]
    algebra.narrow(x, 0, 0, 6)
    assert algebra.free == [2, 2]


def test_a_slice_against_itself_moved(algebra: Algebra) -> None:
    """x[i] with x[i + 1] for all i: nothing can move, by induction."""
    x = algebra.new(5)
    algebra.add(algebra.narrow(x, 0, 0, 4), algebra.narrow(x, 0, 1, 4))
    assert algebra.free == []


def test_a_square_against_its_transpose(algebra: Algebra) -> None:
    x = algebra.new(4, 4)
    algebra.add(x, algebra.permute(x, (1, 0)))
    assert algebra.log_order == pytest.approx(log(24))


def test_an_order_on_heads_leaves_their_dimensions(algebra: Algebra) -> None:
    algebra.ramp(algebra.reshape(algebra.new(12), (3, 4)), 0)
    assert algebra.log_order == pytest.approx(3 * log(24))


def test_an_order_on_dimensions_leaves_the_heads(algebra: Algebra) -> None:
    algebra.ramp(algebra.reshape(algebra.new(12), (3, 4)), 1)
    assert algebra.free == [3]


def test_empty_tensors(algebra: Algebra) -> None:
    dims = [free(0), free(4)]
    assert [size(dim) for dim in reshape(dims, (2, 0, 4))] == [2, 0, 4]
    assert [size(dim) for dim in narrow([free(3), free(4)], 0, 0, 0)] == [0, 4]


def test_the_printed_form() -> None:
    assert repr(Axis(3)) == "<3 free>"
    assert repr(Axis(3, pinned=True)) == "<3 pinned>"
    assert repr(concatenate([(1, []), (2, free(2))])[0]) == "<3 concat>"
