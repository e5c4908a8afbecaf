"""The oracles themselves: each must fail on a graph or a rule that was broken on purpose."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks import testing
from graph_metanetworks.graph.elements import Elements
from graph_metanetworks.symmetry.axes import free
from graph_metanetworks.symmetry.group import Symmetry
from support.traced import traced

X = torch.linspace(-1, 1, 20).view(4, 5).sin()


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 3))


@pytest.fixture
def model() -> nn.Module:
    return network()


@pytest.fixture
def graph(model: nn.Module) -> gmn.ParameterGraph:
    return gmn.trace(model, X)


def with_block(
    graph: gmn.ParameterGraph, change: Callable[[gmn.EdgeBlock], list[gmn.EdgeBlock]], *, parameter: str
) -> gmn.ParameterGraph:
    """The graph with one block changed, dropped or repeated."""
    blocks = [new for b in graph.blocks for new in (change(b) if b.parameter == parameter else [b])]
    return replace(graph, blocks=tuple(blocks))


def with_symmetry(graph: gmn.ParameterGraph, change: Callable[[dict[str, Any]], None]) -> gmn.ParameterGraph:
    """The graph with other axes for its parameters."""
    parameters = dict(graph.symmetry.parameters)
    change(parameters)
    return replace(graph, symmetry=Symmetry(parameters, graph.symmetry.nodes, graph.num_nodes))


def test_they_accept_a_good_graph(model: nn.Module) -> None:
    testing.assert_all(model, X)


# ------------------------------------------------------------------ coverage


def test_a_dropped_block_is_not_covered(graph: gmn.ParameterGraph, model: nn.Module) -> None:
    broken = with_block(graph, lambda block: [], parameter="2.weight")
    with pytest.raises(AssertionError, match=r"48 of 48 elements of '2\.weight'"):
        testing.assert_covers(broken, model)


def test_a_second_owner_is_noticed(graph: gmn.ParameterGraph, model: nn.Module) -> None:
    broken = with_block(graph, lambda block: [block, block], parameter="2.bias")
    with pytest.raises(AssertionError, match=r"6 of 6 elements of '2\.bias'"):
        testing.assert_covers(broken, model)


def test_an_element_listed_twice_is_noticed(graph: gmn.ParameterGraph, model: nn.Module) -> None:
    listed = torch.tensor([0, 1, 2, 3, 4, 4])
    broken = with_block(
        graph, lambda b: [replace(b, elements=Elements((6,), listed=listed))], parameter="2.bias"
    )
    with pytest.raises(AssertionError, match=r"2 of 6 elements of '2\.bias'"):
        testing.assert_covers(broken, model)


def test_an_alias_does_not_own(graph: gmn.ParameterGraph, model: nn.Module) -> None:
    broken = with_block(graph, lambda b: [replace(b, is_owner=False)], parameter="0.bias")
    with pytest.raises(AssertionError, match=r"8 of 8 elements of '0\.bias'"):
        testing.assert_covers(broken, model)


def test_a_parameter_of_the_model_that_the_graph_lacks(graph: gmn.ParameterGraph) -> None:
    with pytest.raises(AssertionError, match=r"'5\.weight' is not in the graph"):
        testing.assert_covers(graph, nn.Sequential(*network(), nn.Linear(3, 2)))


def test_a_parameter_of_another_shape(graph: gmn.ParameterGraph) -> None:
    other = network()
    other[4] = nn.Linear(6, 2)
    with pytest.raises(AssertionError, match=r"'4\.weight' has another shape"):
        testing.assert_covers(graph, other)


# ------------------------------------------------------------------ round trip


def test_a_block_that_reads_and_writes_the_wrong_elements(
    graph: gmn.ParameterGraph, model: nn.Module
) -> None:
    """Reading and writing the same wrong elements would cancel if only values were compared."""
    broken = with_block(
        graph,
        lambda b: [replace(b, elements=Elements((6,), listed=torch.tensor([0, 1, 2, 3, 4, 4])))],
        parameter="2.bias",
    )
    with pytest.raises(AssertionError, match=r"'2\.bias' came back changed"):
        testing.assert_round_trip(broken, model)


def test_a_dtype_that_is_lost(graph: gmn.ParameterGraph, model: nn.Module) -> None:
    broken = replace(graph, parameters=tuple(replace(p, dtype=torch.float16) for p in graph.parameters))
    with pytest.raises(AssertionError, match=r"came back as torch\.float16"):
        testing.assert_round_trip(broken, model)


def test_a_tied_name_that_is_lost() -> None:
    case = traced("shared-module-under-two-names")
    broken = replace(case.graph, parameters=tuple(replace(p, tied=()) for p in case.graph.parameters))
    with pytest.raises((AssertionError, gmn.StateDictMismatch)):
        testing.assert_round_trip(broken, case.model)


def test_bits_are_compared(graph: gmn.ParameterGraph, model: nn.Module) -> None:
    """A sign of zero and a nan count."""
    with torch.no_grad():
        model[0].weight[0, 0] = -0.0
        model[0].weight[0, 1] = torch.nan
    testing.assert_round_trip(graph, model)
    back = graph.state_dict(graph.edge_values(model.state_dict()))["0.weight"]
    assert back[0, 0].signbit()
    assert back[0, 1].isnan()


# ------------------------------------------------------------------ function


def test_symmetry_that_ties_nothing(graph: gmn.ParameterGraph, model: nn.Module) -> None:
    """Axes of the second layer's inputs that move without the first layer's outputs."""
    broken = with_symmetry(graph, lambda p: p.update({"2.weight": (p["2.weight"][0], free(8))}))
    with pytest.raises(AssertionError, match="changes its output"):
        testing.assert_function_kept(broken, model, X)


def test_symmetry_of_outputs(graph: gmn.ParameterGraph, model: nn.Module) -> None:
    outputs = free(3)
    broken = with_symmetry(
        graph, lambda p: p.update({"4.weight": (outputs, p["4.weight"][1]), "4.bias": (outputs,)})
    )
    with pytest.raises(AssertionError, match="changes its output"):
        testing.assert_function_kept(broken, model, X)


def test_swapped_dimensions() -> None:
    model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3))
    graph = gmn.trace(model, X)
    broken = with_symmetry(graph, lambda p: p.update({"2.weight": p["2.weight"][::-1]}))
    with pytest.raises(AssertionError, match="changes its output"):
        testing.assert_function_kept(broken, model, X)
    with pytest.raises(AssertionError, match="not mapped to edges"):
        testing.assert_automorphism(broken, model)


def test_weights_too_symmetric_to_tell(graph: gmn.ParameterGraph, model: nn.Module) -> None:
    """With all weights equal every permutation would pass; the negative control notices."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.1)
        model[4].bias.add_(torch.arange(3))
    with pytest.raises(AssertionError, match="too symmetric"):
        testing.assert_function_kept(graph, model, X)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf], ids=str)
def test_outputs_that_are_not_numbers_prove_nothing(bad: float) -> None:
    """A network that returns nan keeps its function under any permutation: that must not count."""

    class Overflowing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(5, 8), nn.Linear(8, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.first(x) * torch.arange(8)) * bad

    model = Overflowing()
    graph = gmn.trace(nn.Sequential(nn.Linear(5, 8), nn.Linear(8, 3)), X)
    names = {"0": "first", "1": "last"}
    renamed = {f"{names[k[0]]}{k[1:]}": v for k, v in graph.symmetry.parameters.items()}
    parameters = tuple(replace(p, name=f"{names[p.name[0]]}{p.name[1:]}") for p in graph.parameters)
    wrong = replace(
        graph, parameters=parameters, symmetry=Symmetry(renamed, graph.symmetry.nodes, graph.num_nodes)
    )
    with pytest.raises(AssertionError):
        testing.assert_function_kept(wrong, model, X)


# ------------------------------------------------------------------ automorphism


def test_a_target_that_was_tampered_with(graph: gmn.ParameterGraph, model: nn.Module) -> None:
    def rolled(block: gmn.EdgeBlock) -> list[gmn.EdgeBlock]:
        return [replace(block, target=block.target.roll(1, 0))]

    broken = with_block(graph, rolled, parameter="2.weight")
    with pytest.raises(AssertionError, match=r"2\.weight"):
        testing.assert_automorphism(broken, model)
    with pytest.raises(AssertionError, match=r"2\.weight"):
        testing.assert_automorphism(broken)


def test_a_source_that_was_tampered_with(graph: gmn.ParameterGraph, model: nn.Module) -> None:
    broken = with_block(graph, lambda b: [replace(b, source=b.source.flip(-1))], parameter="2.weight")
    with pytest.raises(AssertionError, match=r"2\.weight"):
        testing.assert_automorphism(broken, model)


def test_a_node_feature_that_is_not_invariant(graph: gmn.ParameterGraph) -> None:
    hidden = next(g for g in graph.groups if g.size == 8)
    groups = tuple(replace(g, indexed=True) if g is hidden else g for g in graph.groups)
    with pytest.raises(AssertionError, match="node_index is not invariant"):
        testing.assert_automorphism(replace(graph, groups=groups))


def test_a_position_that_is_not_invariant(graph: gmn.ParameterGraph, model: nn.Module) -> None:
    broken = with_block(graph, lambda b: [replace(b, positions=(0,))], parameter="2.weight")
    with pytest.raises(AssertionError, match=r"2\.weight"):
        testing.assert_automorphism(broken, model)


def test_nodes_that_stay_behind(graph: gmn.ParameterGraph, model: nn.Module) -> None:
    still = Symmetry(graph.symmetry.parameters, (), graph.num_nodes)
    with pytest.raises(AssertionError, match="not mapped to edges"):
        testing.assert_automorphism(replace(graph, symmetry=still), model)


# ------------------------------------------------------------------ rules


@contextmanager
def operation(name: str, function: Callable[[Tensor], Tensor]) -> Iterator[Any]:
    """A custom operation on one tensor that exists for the length of a test."""
    with torch.library._scoped_library("gmn_test", "FRAGMENT") as library:
        library.define(f"{name}(Tensor x) -> Tensor")
        library.impl(name, function, "CompositeExplicitAutograd")
        yield getattr(torch.ops.gmn_test, name)


class Uses(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(5, 8), nn.Linear(8, 3)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.function(self.first(x)))

    def __deepcopy__(self, memo: dict) -> "Uses":  # operations cannot be copied
        other = Uses(self.function)
        other.load_state_dict(copy.deepcopy(self.state_dict(), memo))
        return other


def test_a_wrong_rule_is_named() -> None:
    """Says that channels pass through, although the operation shifts them."""
    with operation("shift", lambda x: x.roll(1, -1)) as shift:
        gmn.rule(shift)(lambda call: call.value("x"))
        try:
            model = Uses(shift)
            with pytest.raises(AssertionError, match=r"gmn_test\.shift.*test_oracles\.py:\d+"):
                testing.assert_operations_equivariant(model, X)
            graph = gmn.trace(model, X)
            with pytest.raises(AssertionError, match="changes its output"):
                testing.assert_function_kept(graph, model, X)
        finally:
            gmn.remove_rule(shift)


def test_a_rule_of_the_wrong_shape_is_an_error() -> None:
    with operation("halve", lambda x: x[..., ::2].repeat(1, 2)) as halve:
        gmn.rule(halve)(lambda call: call.value("x").moved(call.value("x").dims[:1], lambda label: label))
        try:
            with pytest.raises(gmn.TraceError, match=r"the rule for gmn_test\.halve.*failed"):
                gmn.trace(Uses(halve), X)
        finally:
            gmn.remove_rule(halve)


def test_a_right_rule_passes() -> None:
    with operation("double", lambda x: 2 * x) as double:
        gmn.rule(double)(lambda call: call.value("x"))
        try:
            graph = testing.assert_all(Uses(double), X)
        finally:
            gmn.remove_rule(double)
    assert [v.size for v in graph.symmetry.variables] == [8]


def test_operations_are_counted(model: nn.Module) -> None:
    assert testing.assert_operations_equivariant(model, X) >= 5
