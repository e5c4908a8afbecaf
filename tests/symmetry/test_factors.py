"""What the group is made of, what is fixed and why, and how it is told."""

from math import isclose

import pytest

import graph_metanetworks as gmn
from support.tiny import TINY
from support.traced import every_architecture, traced


@every_architecture
def test_factors_make_up_the_group_and_all_else_has_a_reason(name: str) -> None:
    symmetry = traced(name).graph.symmetry
    assert isclose(sum(f.log_order for f in symmetry.factors), symmetry.log_order, abs_tol=1e-9)
    assert all(f.parameters or f.groups for f in symmetry.factors)
    assert all(outer in symmetry.factors for f in symmetry.factors for outer in f.within)
    assert all(fixed.reason for fixed in symmetry.fixed), "something is fixed without a reason"
    assert "unknown" not in symmetry.explain()


def test_heads_and_what_is_within() -> None:
    model, x, _ = TINY["attention"]
    symmetry = gmn.trace(model, x).symmetry
    kinds = sorted(factor.kind for factor in symmetry.factors)
    assert kinds == ["channels", "channels", "heads", "within heads", "within heads"]
    (heads,) = [f for f in symmetry.factors if f.kind == "heads"]
    assert all(f.within == (heads,) for f in symmetry.factors if f.kind == "within heads")
    assert all(f.copies == 2 for f in symmetry.factors if f.kind == "within heads")


def test_groups_and_what_is_within() -> None:
    model, x, _ = TINY["groups of channels"]
    kinds = sorted(factor.kind for factor in gmn.trace(model, x).symmetry.factors)
    assert kinds == ["groups", "within groups", "within groups"]


def test_what_a_residual_stream_moves() -> None:
    model, x, _ = TINY["residual"]
    stream = next(f for f in gmn.trace(model, x).symmetry.factors if f.size == 3)
    assert [group.name for group in stream.groups] == ["0", "1.branch.2", "2.branch.2"]
    assert ("0.weight", 0) in stream.parameters and ("3.weight", 1) in stream.parameters
    assert ("1.branch.0.weight", 1) in stream.parameters


REASONS = {
    "perceptron": {"input", "output"},
    "convolutions": {"input", "output", "place in a convolution"},
    "words": {"word of a vocabulary", "output"},
    "rotary attention": {"input", "output", "a table of sines or cosines, as of rotary pairs"},
    "flattened": {"input", "output", "place in a convolution", "place"},
}


@pytest.mark.parametrize("name", REASONS)
def test_the_reasons(name: str) -> None:
    model, x, _ = TINY[name]
    assert {fixed.reason for fixed in gmn.trace(model, x).symmetry.fixed} >= REASONS[name]


def test_an_unknown_operation_is_the_reason() -> None:
    symmetry = traced("hf-mixtral").graph.symmetry
    assert any("aten.topk" in fixed.reason for fixed in symmetry.fixed)


def test_the_explanation_names_modules_and_weights() -> None:
    model, x, _ = TINY["attention"]
    text = gmn.trace(model, x).symmetry.explain()
    assert text.startswith("128 permutations")
    assert "2 heads: " in text and "2 in each of 2 heads: " in text
    assert "0.weight (0)" in text and "why: output" in text
    assert max(map(len, text.splitlines())) <= 100


def test_nothing_to_explain() -> None:
    model, x, _ = TINY["nothing free"]
    assert gmn.trace(model, x).symmetry.explain().startswith("No permutation")
