"""Random sequences of operations on tensors with axes: every one commutes with sampled permutations."""

from collections.abc import Callable
from typing import Any

from hypothesis import given, note, settings
from hypothesis import strategies as st

from support.algebra import Algebra, Symbolic

Draw = Callable[[st.SearchStrategy], Any]


def factorisation(draw: Draw, total: int) -> list[int]:
    shape = []
    while total > 1:
        factor = draw(st.sampled_from([d for d in range(2, total + 1) if total % d == 0]))
        shape.append(factor)
        total //= factor
    return shape or [1]


def one_step(draw: Draw, algebra: Algebra) -> str:
    x: Symbolic = draw(st.sampled_from(algebra.tensors))
    rank = len(x.shape)
    name = draw(st.sampled_from(["reshape", "permute", "narrow", "cat", "add", "sum", "ramp", "new"]))
    if name == "new":
        algebra.new(*draw(st.lists(st.sampled_from([2, 3, 4, 6]), min_size=1, max_size=2)))
    elif name == "reshape":
        algebra.reshape(x, factorisation(draw, x.value.numel()))
    elif name == "permute" and rank > 1:
        algebra.permute(x, draw(st.permutations(range(rank))))
    elif name == "sum" and rank > 1:
        algebra.sum(x, draw(st.integers(0, rank - 1)))
    elif name == "ramp" and draw(st.integers(0, 3)) == 0:
        algebra.ramp(x, draw(st.integers(0, rank - 1)))
    elif name == "narrow":
        dim = draw(st.integers(0, rank - 1))
        start = draw(st.integers(0, x.shape[dim] - 1))
        algebra.narrow(x, dim, start, draw(st.integers(1, x.shape[dim] - start)))
    elif name == "add":
        algebra.add(x, draw(st.sampled_from([y for y in algebra.tensors if y.shape == x.shape])))
    elif name == "cat":
        dim = draw(st.integers(0, rank - 1))
        fits = [
            y
            for y in algebra.tensors
            if len(y.shape) == rank and all(y.shape[i] == x.shape[i] for i in range(rank) if i != dim)
        ]
        if x.value.numel() <= 48:
            algebra.cat(x, draw(st.sampled_from(fits)), dim)
    return f"{name} {x.shape} -> {algebra.tensors[-1].shape}"


@st.composite
def programs(draw: Draw) -> Algebra:
    algebra = Algebra()
    algebra.new(*draw(st.lists(st.sampled_from([2, 3, 4, 6, 8]), min_size=1, max_size=2)))
    for _ in range(draw(st.integers(1, 9))):
        note(one_step(draw, algebra))
    return algebra


@given(programs())
@settings(max_examples=200)
def test_every_operation_commutes(algebra: Algebra) -> None:
    algebra.check()


@given(programs())
@settings(max_examples=60)
def test_the_group_only_shrinks(algebra: Algebra) -> None:
    """One more demand never gives more freedom."""
    before = algebra.log_order
    x = algebra.tensors[-1]
    algebra.add(x, algebra.tensors[-1])
    algebra.sum(x, 0)
    assert algebra.log_order <= before + 1e-9
