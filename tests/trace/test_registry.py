"""The registry of rules, and operations that users add."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks import testing
from graph_metanetworks.trace.interpret.registry import (
    RULES,
    find_rule,
    functional_name,
    has_rule,
    operation_name,
)

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def rules_as_found() -> Iterator[None]:
    before = dict(RULES)
    yield
    assert before == RULES, "the test left rules behind"


# ------------------------------------------------------------------ names


@pytest.mark.parametrize("name", [aten.mm, aten.mm.default, aten.mm.out, "aten::mm", "mm"], ids=str)
def test_spellings_of_an_operation(name: object) -> None:
    assert operation_name(name) == "aten::mm"


def test_in_place_forms_share_the_rule() -> None:
    assert functional_name(aten.relu_.default) == "aten::relu"
    assert functional_name(aten.copy_.default) == "aten::copy"
    assert find_rule(aten.index_put_.default) is find_rule(aten.index_put.default)


def test_what_pytorch_tags_needs_no_rule_of_its_own() -> None:
    assert "aten::sinh" not in RULES
    assert has_rule(aten.sinh.default)
    assert has_rule(aten.transpose_.default)
    assert not has_rule(aten.linalg_qr.default)


# ------------------------------------------------------------------ registration


@pytest.mark.parametrize("name", [aten.mm, aten.mm.default, "aten::mm", "mm"], ids=str)
def test_duplicates_are_refused(name: object) -> None:
    with pytest.raises(ValueError, match=r"aten::mm already has a rule \(graph_metanetworks.*remove_rule"):
        gmn.rule(name)(lambda call: call.value("self"))


def test_nothing_is_registered_if_one_of_several_is_taken() -> None:
    with pytest.raises(ValueError, match="aten::mm"):
        gmn.rule("test_lib::new", "aten::mm")(lambda call: call.value("self"))
    assert "test_lib::new" not in RULES


def test_a_rule_can_be_replaced() -> None:
    old = RULES["aten::sort"]
    gmn.remove_rule(aten.sort)
    try:
        gmn.rule(aten.sort)(lambda call: [call.value("self")] * 2)
        assert find_rule(aten.sort.default) is not old
        gmn.remove_rule("sort")
    finally:
        RULES["aten::sort"] = old


def test_removing_a_rule_that_is_not_there() -> None:
    with pytest.raises((KeyError, ValueError), match="test_lib::nothing"):
        gmn.remove_rule("test_lib::nothing")


def test_rule_returns_the_function() -> None:
    def function(call: object) -> list:
        return []

    assert gmn.rule("test_lib::returned")(function) is function
    gmn.remove_rule("test_lib::returned")


# ------------------------------------------------------------------ operations of users


@torch.library.custom_op("gmn_registry_test::swish", mutates_args=())
def swish(x: Tensor, slope: Tensor) -> Tensor:
    """An elementwise operation with a learned slope."""
    return x * torch.sigmoid(slope * x)


@swish.register_fake
def _(x: Tensor, slope: Tensor) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("gmn_registry_test::largest", mutates_args=())
def largest(x: Tensor, groups: int) -> Tensor:
    """The largest channel of each group."""
    return x.unflatten(-1, (groups, -1)).amax(-1)


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(5, 8), nn.Linear(4, 3)
        self.slope = nn.Parameter(torch.rand(8))

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.ops.gmn_registry_test.swish(self.first(x), self.slope)
        return self.last(torch.ops.gmn_registry_test.largest(hidden, 4))


X = torch.linspace(-1, 1, 20).view(4, 5).sin()


@pytest.fixture
def taught() -> Iterator[None]:
    """Rules for both operations, in terms of ours."""
    from graph_metanetworks.symmetry.axes import cut
    from graph_metanetworks.trace.interpret.rules.pointwise import pointwise
    from graph_metanetworks.trace.interpret.rules.reduction import reduced

    gmn.rule("gmn_registry_test::swish")(pointwise)

    @gmn.rule("gmn_registry_test::largest")
    def largest_of_groups(call):  # type: ignore[no-untyped-def]
        value, groups = call.value("x"), call["groups"]
        dims = [*value.dims[:-1], *cut(value.dims[-1], groups)]
        shape = (*call["x"].shape[:-1], groups, call["x"].shape[-1] // groups)
        split = value.moved(dims, lambda label: label.reshape(shape))
        return reduced(call, split, shape, {len(shape) - 1}, keep=False)

    yield
    gmn.remove_rule("gmn_registry_test::swish")
    gmn.remove_rule("gmn_registry_test::largest")


@pytest.mark.usefixtures("taught")
def test_custom_operations_are_traced_and_proven() -> None:
    graph = testing.assert_all(Network(), X)
    assert sorted(v.size for v in graph.symmetry.variables) == [2, 4]  # groups, and channels within each
    slope = next(b for b in graph.blocks if b.parameter == "slope")
    assert slope.target.numel() == 8


def test_without_a_rule_they_are_refused_by_name() -> None:
    with pytest.raises(gmn.UnsupportedOperation, match=r"gmn_registry_test\.swish"):
        gmn.trace(Network(), X)


@pytest.mark.usefixtures("taught")
def test_a_rule_that_raises_says_where() -> None:
    gmn.remove_rule("gmn_registry_test::swish")

    @gmn.rule("gmn_registry_test::swish")
    def fails(call):  # type: ignore[no-untyped-def]
        raise ZeroDivisionError("a slip in the rule")

    with pytest.raises(gmn.TraceError, match=r"swish.*test_registry\.py:\d+.*a slip in the rule"):
        gmn.trace(Network(), X)
