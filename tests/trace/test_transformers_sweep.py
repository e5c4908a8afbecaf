"""Every causal, masked and image-classification class of `transformers` that can be built small.

Slow: `pytest -m slow tests/test_transformers_sweep.py -rs` takes some minutes and lists what was skipped.
"""

import re

import pytest

import graph_metanetworks as gmn
from graph_metanetworks import testing
from support.tiny_transformers import Entry, NotBuilt, build, entries

# Classes that the tracer fails on, each with the reason.
KNOWN_FAILURES: dict[str, str] = {}

ENTRIES = {entry.name: entry for entry in entries()}

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def cases() -> list:
    marks = {name: pytest.mark.xfail(reason=reason) for name, reason in KNOWN_FAILURES.items()}
    return [pytest.param(entry, id=name, marks=marks.get(name, ())) for name, entry in ENTRIES.items()]


@pytest.mark.parametrize("entry", cases())
def test_class_of_transformers(entry: Entry) -> None:
    """The graph passes every oracle, or the network is refused with a message that helps."""
    try:
        model, example = build(entry)
    except NotBuilt as reason:
        pytest.skip(f"not built: {reason}")
    try:
        graph = gmn.Tracer(unused="keep").trace(model, **example)
    except gmn.UnsupportedOperation as error:
        assert re.search(r"(aten\.|Tensor\.)\w+.*gmn\.", str(error)), "names no operation or no remedy"
        pytest.skip(f"refused: {error}")
    testing.assert_covers(graph, model)
    testing.assert_round_trip(graph, model)
    testing.assert_automorphism(graph, model)
    testing.assert_function_kept(graph, model, **example)


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "BertForMaskedLM", "ViTForImageClassification"])
def test_well_known_classes_are_built(name: str) -> None:
    """Not everything is skipped."""
    build(ENTRIES[name])
