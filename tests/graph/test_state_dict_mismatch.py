"""Weights that do not belong to a graph: state dicts and edge vectors."""

import pytest
import torch
from torch import Tensor, nn

import graph_metanetworks as gmn

MODEL = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
GRAPH = gmn.trace(MODEL, torch.ones(4, 5))
WEIGHTS = MODEL.state_dict()


@pytest.mark.parametrize("shape", [(3,), (76,), (), (75, 2, 2), (2, 75)], ids=str)
def test_edge_values_of_the_wrong_shape(shape: tuple[int, ...]) -> None:
    assert GRAPH.num_edges == 75
    with pytest.raises(gmn.StateDictMismatch) as caught:
        GRAPH.state_dict(torch.zeros(shape))
    for part in (str(tuple(shape)), "[75]", "[75, channels]", "graph.edge_values"):
        assert part in str(caught.value)


WRONG: dict[str, tuple[dict[str, object], list[str]]] = {
    "missing": ({k: v for k, v in WEIGHTS.items() if k != "0.bias"}, ["missing: 0.bias"]),
    "extra": (WEIGHTS | {"head.bias": torch.ones(3)}, ["not in the graph: head.bias"]),
    "prefixed": ({f"module.{k}": v for k, v in WEIGHTS.items()}, ["missing: 0.bias", "module.0.bias"]),
    "misshapen": (WEIGHTS | {"0.bias": torch.ones(9)}, ["'0.bias'", "(9,)", "(8,)"]),
    "transposed": (WEIGHTS | {"0.weight": torch.ones(5, 8)}, ["'0.weight'", "(5, 8)", "(8, 5)"]),
    "one with channels": (WEIGHTS | {"0.bias": torch.ones(8, 2)}, ["'0.bias'", "(8, 2)"]),
    "no tensor": (WEIGHTS | {"0.bias": [1.0] * 8}, ["'0.bias'", "list"]),
    "empty": ({}, ["missing"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_state_dicts_that_do_not_fit(case: str) -> None:
    state_dict, named = WRONG[case]
    with pytest.raises(gmn.StateDictMismatch) as caught:
        GRAPH.edge_values(state_dict)  # type: ignore[arg-type]
    assert isinstance(caught.value, gmn.TraceError)
    for part in ("Sequential", *named):
        assert part in str(caught.value)


def test_a_module_in_place_of_its_state_dict() -> None:
    with pytest.raises(gmn.StateDictMismatch, match=r"state_dict\(\)"):
        GRAPH.edge_values(MODEL)  # type: ignore[arg-type]


def test_no_state_dict() -> None:
    with pytest.raises((gmn.StateDictMismatch, TypeError), match="state dict"):
        GRAPH.edge_values()


def test_an_automorphism_applied_to_misshapen_weights() -> None:
    automorphism = GRAPH.symmetry.sample(torch.Generator().manual_seed(0))
    with pytest.raises(gmn.StateDictMismatch, match=r"'0\.bias'"):
        automorphism.apply(WEIGHTS | {"0.bias": torch.ones(9)})


def test_long_lists_of_names_are_cut() -> None:
    many: dict[str, Tensor] = {f"layer{i}": torch.ones(1) for i in range(1000)}
    with pytest.raises(gmn.StateDictMismatch) as caught:
        GRAPH.edge_values(WEIGHTS | many)
    assert len(str(caught.value)) < 1000
