"""Every rule is used by some network, and every network keeps every oracle."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn
from torch._ops import OpOverload

from graph_metanetworks import testing
from graph_metanetworks.trace.interpret.registry import RULES, functional_name
from graph_metanetworks.trace.record.tape import Tape
from support.operations import OPERATIONS
from support.traced import traced


@contextmanager
def noting(names: set[str]) -> Iterator[None]:
    """Collect the names of the operations that tapes record."""
    record = Tape._record

    def noted(self: Tape, func: Any, *args: Any) -> None:
        if not isinstance(func, nn.Module):
            names.add(functional_name(func))
        record(self, func, *args)

    with mock.patch.object(Tape, "_record", noted):
        yield


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation(name: str) -> None:
    case, seen = OPERATIONS[name], set[str]()
    model = case.network()
    with noting(seen):
        graph = testing.assert_all(model, case.example())
    assert f"aten::{name.removesuffix(' of two')}" in seen or name.endswith(" of two")
    if case.free is not None:
        assert sorted(v.size for v in graph.symmetry.variables) == sorted(map(int, case.free.split()))


# architectures of the menagerie that use the rules which are not in `OPERATIONS`
USERS = (
    "transformer-decoder gat cnn-flatten-max-pool mlp-deep-mixed-activations lstm-cell grid-hash maxout "
    "multihead-self-attention-masked attention-query-key-norm u-net-interpolated slice-assignment highway "
    "text-convolution p4-convolution weight-norm-convolution weight-standardised-convolution euler-ode "
    "resnet-option-a channel-shuffle embedding-bag-mean bilinear graph-sage message-passing grid-bilinear "
    "grid-voxel mlp-many-activations"
)


def test_every_rule_is_used() -> None:
    """A rule that no network needs is a rule that no oracle has checked."""
    recordings = [traced(name).graph.recording for name in USERS.split()]
    operations = [operation for recording in recordings if recording for operation in recording.operations]
    used = {functional_name(o.func) for o in operations if isinstance(o.func, OpOverload)}
    used |= {f"aten::{name}" for name in OPERATIONS}
    unused = sorted(name for name in set(RULES) - used if name.startswith("aten::"))
    assert not unused, "add a network to OPERATIONS, or the name of an architecture to USERS"


def test_every_rule_is_for_an_operation_that_exists() -> None:
    for name in filter(lambda name: name.startswith("aten::"), RULES):
        namespace, operation = name.split("::")
        assert hasattr(getattr(torch.ops, namespace), operation), name
