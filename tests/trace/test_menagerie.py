"""Every architecture of the menagerie against every oracle."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace

import pytest

from graph_metanetworks import testing
from support.traced import (
    Traced,
    assert_same_graph,
    every_architecture,
    one_of_each_family,
    some_architectures,
    traced,
)


def operations_equivariant(case: Traced) -> None:
    checked = testing.assert_operations_equivariant(case.model, *case.args, tracer=case.tracer, **case.kwargs)
    assert checked > 0


def covers(case: Traced) -> None:
    testing.assert_covers(case.graph, case.model)


def round_trip(case: Traced) -> None:
    testing.assert_round_trip(case.graph, case.model)


def function_kept(case: Traced) -> None:
    testing.assert_function_kept(case.graph, case.model, *case.args, **case.kwargs)


def automorphism(case: Traced) -> None:
    testing.assert_automorphism(case.graph, case.model, samples=1)
    testing.assert_automorphism(case.graph, samples=1)  # numbers for weights: no two of them alike


def runs(case: Traced) -> None:
    testing.assert_runs(case.graph, case.model, *case.args, tracer=case.tracer, **case.kwargs)


ORACLES = (operations_equivariant, covers, round_trip, function_kept, automorphism, runs)


@every_architecture
@pytest.mark.parametrize("oracle", ORACLES, ids=lambda oracle: oracle.__name__)
def test_oracle(name: str, oracle: Callable[[Traced], None]) -> None:
    oracle(traced(name))


@one_of_each_family
def test_tracing_twice_gives_equal_graphs(name: str) -> None:
    case = traced(name)
    assert_same_graph(case.graph, case.tracer.trace(case.model, *case.args, **case.kwargs))


@some_architectures()
def test_a_copy_of_the_graph_is_as_good(name: str) -> None:
    """Pickled, loaded and deep-copied: what is lost on either way is missing at its end."""
    case = traced(name)
    again = copy.deepcopy(pickle.loads(pickle.dumps(case.graph)))
    assert_same_graph(case.graph, again)
    for oracle in (covers, round_trip, function_kept, automorphism, runs):
        oracle(replace(case, graph=again))


@pytest.mark.slow  # the test above does both, one after the other
@one_of_each_family
@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "pickle"]
)
def test_a_copy_passes_every_oracle(name: str, copied: Callable) -> None:
    case = traced(name)
    again = copied(case.graph)
    assert_same_graph(case.graph, again)
    for oracle in (covers, round_trip, function_kept, automorphism):
        oracle(replace(case, graph=again))
